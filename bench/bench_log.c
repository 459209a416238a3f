/*
 * The log on a disk that keeps nothing: batches of 64 PUSH records with bodies of 100 bytes, and a
 * kill for every fourth; frames are closed, checksummed and "written", slots are used again as soon
 * as they are full.
 */

#include "base/check.h"
#include "base/crc.h"
#include "base/err.h"
#include "bench/micro.h"
#include "engine/log.h"

enum { SLOT = 1 << 20, SLOTS = 4, BATCH = 64, BODY = 100 };

struct bench {
    struct tr_mem mem;
    struct tr_engine_config config;
    struct tr_log log;
    struct tr_io *queued; /* one batch is in flight at a time */
    uint64_t sum;
};

static void submit(void *ctx, struct tr_io *io)
{
    struct bench *b = ctx;

    TR_CHECK(b->queued == NULL);
    b->queued = io;
}

static int run(void *ctx, struct tr_io *io)
{
    (void)ctx;
    io->status = TARRY_OK;
    io->got = io->len;
    return TARRY_OK;
}

static const struct tr_disk_ops nowhere = {submit, run};

static void start(struct bench *b)
{
    tr_mem_init(&b->mem, 0);
    tr_engine_config_init(&b->config, &b->mem);
    b->config.slots_max = SLOTS;
    b->config.batch_bytes = 65536;
    b->config.body_max = 8192;
    TR_CHECK(tr_log_init(&b->log, &b->config, (struct tr_disk){&nowhere, b}, SLOT, 1) == TARRY_OK);
    for (uint32_t i = 0; i < SLOTS; i++) {
        b->log.slots[i].file = (int)i;
        tr_log_set_state(&b->log, &b->log.slots[i], TR_SLOT_FREE);
    }
}

static void append(struct bench *b, uint64_t rid, struct tr_base base)
{
    static const uint8_t body[BODY] = "a body";
    struct tr_record rec = {.type = TR_REC_PUSH,
                            .mask = TR_FIELD(DUE) | TR_FIELD(TOPIC) | TR_FIELD(BODY),
                            .rid = rid,
                            .due_us = base.clock_us + 60000000 + rid,
                            .topic = 1,
                            .body = {body, BODY}};

    TR_CHECK(tr_log_reserve(&b->log, TR_RECORD_HEAD_MAX + BODY, 2) == TARRY_OK);
    tr_log_append(&b->log, &rec, base, true);
    if (rid % 4 == 0) {
        struct tr_kill kill = {.rid = rid - 3, .due_us = base.clock_us, .topic = 1};

        tr_log_kill(&b->log, kill, TR_WHY_ACKED, base, true);
    }
}

/* Does what was queued, as a disk would. */
static void write_out(struct bench *b)
{
    struct tr_io *io = b->queued;

    b->queued = NULL;
    for (unsigned i = 0; i < io->piece_count; i++) {
        b->sum = micro_sum(b->sum, io->pieces[i].len);
    }
    b->sum = micro_sum(b->sum, b->log.flight.crc);
    io->status = TARRY_OK;
    io->got = io->len;
    TR_CHECK(tr_log_io_done(&b->log, io) == TR_LOG_WRITTEN);
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (b->log.slots[i].state == TR_SLOT_SEALED) {
            tr_log_set_state(&b->log, &b->log.slots[i], TR_SLOT_FREE);
        }
    }
}

int main(int argc, char **argv)
{
    struct micro m = micro_init("log", argc, argv, 20000, UINT64_C(0x1b102c39df404766));
    static struct bench b;

    start(&b);
    micro_begin(&m);
    for (uint64_t rid = 4; rid < m.count + 4; rid++) {
        append(&b, rid, (struct tr_base){rid / BATCH * BATCH, UINT64_C(1700000000000000)});
        if (rid % BATCH == 0) {
            TR_CHECK(tr_log_start(&b.log));
            write_out(&b);
        }
    }
    micro_end(&m);
    tr_log_fini(&b.log);
    TR_CHECK(b.mem.used_bytes == 0);
    return micro_print(&m, m.count, b.sum);
}
