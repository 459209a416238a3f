/*
 * The writing side of the log on a simulated disk: what is in a frame, when it is durable, where
 * the next one goes.
 */

#include "base/err.h"
#include "engine/log.h"
#include "engine/scan.h"
#include "sim/sim_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLOT = 65536, SLOTS = 4 };

struct bench {
    struct tr_mem mem;
    struct sim_disk *disk;
    struct tr_engine_config config;
    struct tr_log log;
    enum tr_log_event event; /* of the last completion */
};

static void on_io(void *ctx, struct tr_io *io)
{
    struct bench *b = ctx;

    b->event = tr_log_io_done(&b->log, io);
}

static void start(struct bench *b, enum tr_sync sync)
{
    *b = (struct bench){0};
    tr_mem_init(&b->mem, 0);
    b->disk = sim_disk_new(on_io, b);
    sim_disk_reset(b->disk, 1);
    tr_engine_config_init(&b->config, &b->mem);
    b->config.sync = sync;
    b->config.batch_bytes = 8192;
    b->config.body_max = 8192;
    b->config.slots_max = SLOTS;
    assert_int_equal(tr_log_init(&b->log, &b->config, sim_disk_port(b->disk), SLOT, 1), TARRY_OK);
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct tr_io io = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE};

        tr_log_slot_name(io.name, i);
        assert_int_equal(b->log.disk.ops->run(b->log.disk.ctx, &io), TARRY_OK);
        b->log.slots[i].file = io.file;
        io = (struct tr_io){.op = TR_IO_ALLOCATE, .file = io.file, .len = SLOT};
        assert_int_equal(b->log.disk.ops->run(b->log.disk.ctx, &io), TARRY_OK);
        tr_log_set_state(&b->log, &b->log.slots[i], TR_SLOT_FREE);
    }
}

static void finish(struct bench *b)
{
    tr_log_fini(&b->log);
    sim_disk_free(b->disk);
    assert_int_equal(b->mem.used_bytes, 0);
}

static int put(struct bench *b, uint64_t rid, size_t len, bool gated)
{
    static const uint8_t body[8192] = "body";
    struct tr_record rec = {.type = TR_REC_PUSH,
                            .mask = TR_FIELD(DUE) | TR_FIELD(BODY),
                            .rid = rid,
                            .due_us = 1000,
                            .body = {body, len}};
    int err = tr_log_reserve(&b->log, len + TR_RECORD_HEAD_MAX, 1);

    if (err == TARRY_OK) {
        tr_log_append(&b->log, &rec, (struct tr_base){rid, 900}, gated);
    }
    return err;
}

static void settle(struct bench *b)
{
    while (sim_disk_step(b->disk)) {
    }
}

static void write_one(struct bench *b, uint64_t rid, size_t len)
{
    assert_int_equal(put(b, rid, len, true), TARRY_OK);
    assert_true(tr_log_start(&b->log));
    settle(b);
    assert_int_equal(b->event, TR_LOG_WRITTEN);
}

static void test_log_batch_is_durable_when_synced(void **state)
{
    struct bench b;

    (void)state;
    start(&b, TR_SYNC_ALWAYS);
    assert_true(tr_log_open_empty(&b.log));
    assert_int_equal(tr_log_gate(&b.log), 0);
    assert_int_equal(put(&b, 1, 10, false), TARRY_OK);
    assert_int_equal(tr_log_gate(&b.log), 0); /* lazy: gates nobody */
    assert_int_equal(put(&b, 2, 10, true), TARRY_OK);
    assert_int_equal(tr_log_gate(&b.log), 1);
    assert_true(tr_log_start(&b.log));
    assert_false(tr_log_start(&b.log)); /* one in flight */
    assert_true(tr_log_busy(&b.log));
    assert_int_equal(b.log.durable, 0);
    settle(&b);
    assert_int_equal(b.event, TR_LOG_WRITTEN);
    assert_int_equal(b.log.durable, 1);
    assert_int_equal(b.log.synced, 1);
    assert_int_equal(tr_log_gate(&b.log), 0);
    assert_int_equal(b.log.flight.placed_count, 2);
    finish(&b);
}

static unsigned frames_of(struct bench *b, const struct tr_slot *slot, unsigned *records)
{
    static uint8_t bytes[SLOT];
    struct tr_scan_at at = {.uuid = b->log.uuid,
                            .seg_no = slot->seg_no,
                            .nonce = slot->nonce,
                            .batch = slot->first_batch,
                            .off = TR_BLOCK};
    struct tr_frame f;
    uint32_t crc;
    unsigned count = 0;
    char name[TR_IO_NAME_MAX];

    tr_log_slot_name(name, slot->number);
    assert_int_equal(sim_disk_peek(b->disk, name, 0, bytes, SLOT), SLOT);
    *records = 0;
    while (tr_scan_frame(bytes, SLOT, at, &f, &crc) == TR_SCAN_BATCH) {
        assert_int_equal(f.synced_batch, f.batch_no - 1);
        *records += f.record_count;
        at.batch++;
        at.prev_crc = crc;
        at.off += tr_frame_size(f.payload_len);
        count++;
    }
    assert_int_equal(at.off, slot->end_off);
    return count;
}

static void test_log_frames_fill_slots_and_roll(void **state)
{
    struct bench b;
    unsigned records;

    (void)state;
    start(&b, TR_SYNC_ALWAYS);
    for (uint64_t i = 1; i <= 15; i++) { /* one block each: exactly one slot */
        write_one(&b, i, 3000);
        assert_true(b.log.rolled == (i == 1));
    }
    assert_int_equal(b.log.tail->number, 0);
    assert_int_equal(b.log.free_count, 3);
    assert_false(tr_log_fits_tail(&b.log, 1));
    write_one(&b, 16, 3000);
    assert_true(b.log.rolled);
    assert_int_equal(b.log.tail->number, 1);
    assert_int_equal(b.log.tail->seg_no, 2);
    assert_int_equal(b.log.slots[0].state, TR_SLOT_SEALED);
    assert_int_equal(b.log.slots[0].last_batch, 15);
    assert_int_equal(frames_of(&b, &b.log.slots[0], &records), 15);
    assert_int_equal(records, 15);
    assert_int_equal(frames_of(&b, &b.log.slots[1], &records), 1);
    assert_true(b.log.slots[0].nonce != b.log.slots[1].nonce);
    finish(&b);
}

static void test_log_refuses_when_no_slot_is_left(void **state)
{
    struct bench b;
    uint64_t rid = 1;

    (void)state;
    start(&b, TR_SYNC_ALWAYS);
    while (put(&b, rid, 3000, true) == TARRY_OK) {
        assert_true(tr_log_start(&b.log));
        settle(&b);
        assert_true(++rid < 100);
    }
    assert_true(rid > 4 * 14); /* four slots; a little room is never used */
    assert_int_equal(put(&b, rid, 3000, true), TARRY_EFULL);
    assert_true(tr_log_open_empty(&b.log));
    finish(&b);
}

static void test_log_full_batch_waits(void **state)
{
    struct bench b;

    (void)state;
    start(&b, TR_SYNC_ALWAYS);
    assert_int_equal(put(&b, 1, 7000, true), TARRY_OK);
    assert_int_equal(put(&b, 2, 7000, true), TARRY_EFULL);
    assert_true(tr_log_start(&b.log));
    assert_int_equal(put(&b, 2, 7000, true), TARRY_OK); /* in the next one */
    assert_int_equal(tr_log_gate(&b.log), 2);
    settle(&b);
    assert_int_equal(tr_log_gate(&b.log), 2);
    assert_int_equal(tr_log_finish(&b.log), TARRY_OK);
    assert_int_equal(b.log.synced, 2);
    finish(&b);
}

/* Kills come behind all other records, as one KILLSET for a run of one reason. */
static void test_log_kills_are_gathered(void **state)
{
    struct bench b;
    unsigned records;

    (void)state;
    start(&b, TR_SYNC_ALWAYS);
    for (uint64_t i = 1; i <= 10; i++) {
        struct tr_kill kill = {.rid = i, .topic = 1};

        assert_int_equal(tr_log_reserve(&b.log, TR_RECORD_HEAD_MAX / 8, 1), TARRY_OK);
        tr_log_kill(&b.log, kill, i <= 6 ? TR_WHY_ACKED : TR_WHY_CANCELLED, (struct tr_base){9, 9},
                    true);
    }
    assert_false(tr_log_open_empty(&b.log));
    assert_true(tr_log_start(&b.log));
    settle(&b);
    assert_int_equal(frames_of(&b, &b.log.slots[0], &records), 1);
    assert_int_equal(records, 2);
    assert_true(tr_log_open_empty(&b.log));
    finish(&b);
}

static void test_log_weak_sync(void **state)
{
    struct bench b;

    (void)state;
    start(&b, TR_SYNC_NEVER);
    tr_log_sync(&b.log); /* nothing to do */
    assert_false(tr_log_busy(&b.log));
    for (uint64_t i = 1; i <= 17; i++) { /* two slots are unsynced */
        write_one(&b, i, 3000);
    }
    assert_int_equal(b.log.durable, 17);
    assert_int_equal(b.log.synced, 0);
    assert_int_equal(tr_log_gate(&b.log), 0);
    tr_log_sync(&b.log);
    assert_true(tr_log_busy(&b.log));
    assert_int_equal(put(&b, 18, 10, true), TARRY_OK);
    assert_true(tr_log_start(&b.log));
    settle(&b);
    assert_int_equal(b.log.durable, 18);
    assert_true(b.log.synced == 17 || b.log.synced == 18);
    tr_log_sync(&b.log);
    settle(&b);
    assert_int_equal(b.event, TR_LOG_SYNCED);
    assert_int_equal(b.log.synced, 18);
    finish(&b);
}

static void test_log_seal_says_what_is_durable(void **state)
{
    static uint8_t bytes[SLOT];
    struct bench b;
    struct tr_scan scan;

    (void)state;
    start(&b, TR_SYNC_ALWAYS);
    tr_log_seal(&b.log); /* no tail: nothing */
    assert_false(tr_log_busy(&b.log));
    write_one(&b, 1, 10);
    write_one(&b, 2, 10);
    tr_log_seal(&b.log);
    settle(&b);
    assert_true(b.log.sealed);
    tr_log_seal(&b.log); /* once is enough */
    assert_false(tr_log_busy(&b.log));
    assert_int_equal(sim_disk_peek(b.disk, "w.000", 0, bytes, SLOT), SLOT);
    tr_scan_slot(bytes, SLOT, b.log.uuid, &scan);
    assert_int_equal(scan.max_synced, 2);
    write_one(&b, 3, 10); /* in its place */
    assert_false(b.log.sealed);
    assert_int_equal(b.log.tail->end_off, 4 * TR_BLOCK);
    finish(&b);
}

static void test_log_failure_is_final(void **state)
{
    struct bench b;

    (void)state;
    start(&b, TR_SYNC_ALWAYS);
    write_one(&b, 1, 10);
    sim_disk_faults(b.disk)->sync_eio_ppm = 1000000;
    assert_int_equal(put(&b, 2, 10, true), TARRY_OK);
    assert_true(tr_log_start(&b.log));
    settle(&b);
    assert_int_equal(b.event, TR_LOG_FAILED);
    assert_int_equal(b.log.durable, 1);
    sim_disk_faults(b.disk)->sync_eio_ppm = 0;
    assert_int_equal(put(&b, 3, 10, true), TARRY_EIO);
    assert_false(tr_log_start(&b.log));
    assert_int_equal(tr_log_finish(&b.log), TARRY_EIO);
    finish(&b);
}

static void test_log_short_writes_are_completed(void **state)
{
    struct bench b;
    unsigned records;

    (void)state;
    start(&b, TR_SYNC_ALWAYS);
    sim_disk_faults(b.disk)->short_ppm = 700000;
    for (uint64_t i = 1; i <= 10; i++) {
        write_one(&b, i, 2000);
    }
    assert_int_equal(frames_of(&b, &b.log.slots[0], &records), 10);
    finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_batch_is_durable_when_synced),
        cmocka_unit_test(test_log_frames_fill_slots_and_roll),
        cmocka_unit_test(test_log_refuses_when_no_slot_is_left),
        cmocka_unit_test(test_log_full_batch_waits),
        cmocka_unit_test(test_log_kills_are_gathered),
        cmocka_unit_test(test_log_weak_sync),
        cmocka_unit_test(test_log_seal_says_what_is_durable),
        cmocka_unit_test(test_log_failure_is_final),
        cmocka_unit_test(test_log_short_writes_are_completed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
