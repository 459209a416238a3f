/*
 * Which segment a slot holds, and where its log ends, from bytes that the test lays out.
 */

#include "base/crc.h"
#include "base/err.h"
#include "engine/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLOT = 16 * TR_BLOCK, NONCE = 99 };

static const uint8_t uuid[TR_UUID] = "the store itself";

struct slot {
    uint8_t bytes[SLOT];
    uint64_t end;
    uint64_t batch;
    uint32_t crc;
};

static void put_header(struct slot *s, uint64_t seg_no, uint64_t nonce, uint64_t first)
{
    struct tr_segment seg = {.seg_no = seg_no, .nonce = nonce, .first_batch = first};

    memcpy(seg.uuid, uuid, TR_UUID);
    tr_segment_encode(s->bytes, &seg);
    s->end = TR_BLOCK;
    s->batch = first;
    s->crc = 0;
}

/* The next frame of the segment, with a payload of so many bytes. */
static void put_frame(struct slot *s, uint64_t seg_no, uint64_t nonce, uint32_t payload)
{
    uint8_t *at = s->bytes + s->end;
    struct tr_frame f = {.seg_no = seg_no,
                         .nonce = nonce,
                         .batch_no = s->batch,
                         .synced_batch = s->batch - 1,
                         .man_gen = 4,
                         .payload_len = payload,
                         .prev_crc = s->crc};

    memset(at + TR_FRAME_HEAD, 'p', payload);
    f.payload_crc = tr_crc(0, at + TR_FRAME_HEAD, payload);
    s->crc = tr_frame_encode(at, &f, tr_frame_place(uuid, s->end));
    s->end += tr_frame_size(payload);
    s->batch++;
}

static void put_seal(struct slot *s, uint64_t seg_no, uint64_t nonce)
{
    struct tr_frame f = {.seg_no = seg_no,
                         .nonce = nonce,
                         .batch_no = s->batch,
                         .synced_batch = s->batch - 1,
                         .prev_crc = s->crc,
                         .flags = TR_FRAME_SEAL};

    tr_frame_encode(s->bytes + s->end, &f, tr_frame_place(uuid, s->end));
}

static struct slot *new_slot(void)
{
    struct slot *s = calloc(1, sizeof *s);

    assert_non_null(s);
    put_header(s, 3, NONCE, 10);
    put_frame(s, 3, NONCE, 100);
    put_frame(s, 3, NONCE, 5000);
    put_frame(s, 3, NONCE, 0);
    return s;
}

static struct tr_scan scan_of(const struct slot *s)
{
    struct tr_scan scan;

    tr_scan_slot(s->bytes, SLOT, uuid, &scan);
    return scan;
}

/* Walks as replay does: verdict at the end, number of good batches. */
static enum tr_scan_verdict walk(const struct slot *s, uint64_t first, unsigned *count)
{
    struct tr_scan_at at = {
        .uuid = uuid, .seg_no = 3, .nonce = NONCE, .batch = first, .off = TR_BLOCK};
    enum tr_scan_verdict v;
    struct tr_frame f;
    uint32_t crc;

    *count = 0;
    while ((v = tr_scan_frame(s->bytes, SLOT, at, &f, &crc)) == TR_SCAN_BATCH) {
        at.prev_crc = crc;
        at.batch++;
        at.off += tr_frame_size(f.payload_len);
        (*count)++;
    }
    return v;
}

static void test_scan_reads_a_whole_segment(void **state)
{
    struct slot *s = new_slot();
    struct tr_scan scan = scan_of(s);
    unsigned count;

    (void)state;
    assert_true(scan.known && !scan.header_bad && !scan.newer);
    assert_int_equal(scan.seg_no, 3);
    assert_int_equal(scan.nonce, NONCE);
    assert_int_equal(scan.first_batch, 10);
    assert_int_equal(scan.max_batch, 12);
    assert_int_equal(scan.max_synced, 11);
    assert_int_equal(scan.man_gen, 4);
    assert_int_equal(walk(s, 10, &count), TR_SCAN_END);
    assert_int_equal(count, 3);
    put_seal(s, 3, NONCE);
    assert_int_equal(scan_of(s).max_synced, 12);
    assert_int_equal(scan_of(s).max_batch, 12);
    assert_int_equal(walk(s, 10, &count), TR_SCAN_SEAL);
    free(s);
}

static void test_scan_empty_and_foreign_slots_are_unknown(void **state)
{
    struct slot *s = calloc(1, sizeof *s);
    struct tr_scan scan;

    (void)state;
    assert_false(scan_of(s).known);
    put_header(s, 3, NONCE, 10);
    assert_true(scan_of(s).known);
    tr_scan_slot(s->bytes, SLOT, (const uint8_t *)"another store...", &scan);
    assert_false(scan.known);
    free(s);
}

/* A client knows the format and may guess the offset, but not the store's uuid. */
static void test_scan_body_of_a_job_is_no_frame(void **state)
{
    struct slot *s = new_slot();
    struct tr_frame f = {.seg_no = 999, .nonce = 1, .batch_no = 999, .man_gen = 999};
    struct tr_scan before = scan_of(s);
    struct tr_scan after;

    (void)state;
    tr_frame_encode(s->bytes + SLOT - TR_BLOCK, &f, SLOT - TR_BLOCK);
    after = scan_of(s);
    assert_int_equal(after.seg_no, before.seg_no);
    assert_int_equal(after.man_gen, before.man_gen);
    assert_int_equal(after.max_batch, before.max_batch);
    free(s);
}

static void test_scan_knows_slot_by_frames(void **state)
{
    struct slot *s = new_slot();

    (void)state;
    s->bytes[30] ^= 1;
    assert_true(scan_of(s).known);
    assert_true(scan_of(s).header_bad);
    assert_int_equal(scan_of(s).seg_no, 3);
    assert_int_equal(scan_of(s).first_batch, 10);
    s->bytes[TR_BLOCK + 20] ^= 1; /* the first frame too */
    assert_true(scan_of(s).known);
    assert_int_equal(scan_of(s).first_batch, 0);
    assert_int_equal(scan_of(s).max_batch, 12);
    free(s);
}

/* A slot used again: the frames of its last life are behind the end and do not count. */
static void test_scan_ignores_older_life(void **state)
{
    struct slot *s = calloc(1, sizeof *s);
    unsigned count;

    (void)state;
    put_header(s, 2, 55, 1);
    for (unsigned i = 0; i < 10; i++) {
        put_frame(s, 2, 55, 10);
    }
    put_header(s, 3, NONCE, 11);
    put_frame(s, 3, NONCE, 10);
    assert_int_equal(scan_of(s).seg_no, 3);
    assert_int_equal(scan_of(s).max_batch, 11);
    assert_int_equal(walk(s, 11, &count), TR_SCAN_END);
    assert_int_equal(count, 1);
    s->bytes[30] ^= 1; /* header gone: the newest frames win */
    assert_int_equal(scan_of(s).seg_no, 3);
    free(s);
}

static void test_scan_stops_at_what_does_not_follow(void **state)
{
    struct slot *s = new_slot();
    unsigned count;

    (void)state;
    s->bytes[2 * TR_BLOCK + 200] ^= 1; /* in the payload of the second */
    assert_int_equal(walk(s, 10, &count), TR_SCAN_BAD);
    assert_int_equal(count, 1);
    s->bytes[2 * TR_BLOCK + 200] ^= 1;
    s->bytes[2 * TR_BLOCK + 20] ^= 1; /* in its head */
    assert_int_equal(walk(s, 10, &count), TR_SCAN_END);
    assert_int_equal(count, 1);
    s->bytes[2 * TR_BLOCK + 20] ^= 1;
    assert_int_equal(walk(s, 9, &count), TR_SCAN_END); /* not the batch expected */
    assert_int_equal(count, 0);
    s->end = TR_BLOCK; /* the first written again otherwise: the chain is broken */
    s->batch = 10;
    s->crc = 0;
    put_frame(s, 3, NONCE, 101);
    assert_int_equal(walk(s, 10, &count), TR_SCAN_END);
    assert_int_equal(count, 1);
    free(s);
}

static void test_scan_frame_at_end_of_slot(void **state)
{
    struct slot *s = calloc(1, sizeof *s);
    unsigned count;

    (void)state;
    put_header(s, 3, NONCE, 1);
    for (unsigned i = 1; i < 16; i++) {
        put_frame(s, 3, NONCE, 4000);
    }
    assert_int_equal(walk(s, 1, &count), TR_SCAN_END);
    assert_int_equal(count, 15);
    free(s);
}

static void test_scan_leftover(void **state)
{
    struct slot *s = new_slot();
    struct tr_scan_at at = {.uuid = uuid, .seg_no = 3, .nonce = NONCE, .batch = 13, .off = s->end};

    (void)state;
    assert_false(tr_scan_leftover(s->bytes, SLOT, at));
    put_seal(s, 3, NONCE);
    assert_false(tr_scan_leftover(s->bytes, SLOT, at)); /* the SEAL that belongs there */
    at.batch = 14;
    assert_true(tr_scan_leftover(s->bytes, SLOT, at));
    at.batch = 13;
    s->end += TR_BLOCK;
    put_frame(s, 3, NONCE, 10);
    assert_true(tr_scan_leftover(s->bytes, SLOT, at));
    at.nonce++;
    assert_false(tr_scan_leftover(s->bytes, SLOT, at)); /* of an older life */
    free(s);
}

static void test_scan_blank(void **state)
{
    struct slot *s = new_slot();

    (void)state;
    assert_false(tr_scan_blank(s->bytes, SLOT));
    memset(s->bytes, 0, SLOT);
    assert_true(tr_scan_blank(s->bytes, SLOT));
    s->bytes[SLOT - 1] = 1;
    assert_false(tr_scan_blank(s->bytes, SLOT));
    free(s);
}

static void test_scan_newer_version_is_told(void **state)
{
    struct slot *s = new_slot();
    unsigned count;
    uint32_t crc;

    (void)state;
    s->bytes[TR_BLOCK + 4] = TR_FORMAT_VERSION + 1;
    crc = tr_crc(tr_crc_seed(tr_frame_place(uuid, TR_BLOCK)), s->bytes + TR_BLOCK, 92);
    memcpy(s->bytes + TR_BLOCK + 92, &crc, 4);
    assert_true(scan_of(s).newer);
    assert_int_equal(walk(s, 10, &count), TR_SCAN_NEWER);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_reads_a_whole_segment),
        cmocka_unit_test(test_scan_empty_and_foreign_slots_are_unknown),
        cmocka_unit_test(test_scan_body_of_a_job_is_no_frame),
        cmocka_unit_test(test_scan_knows_slot_by_frames),
        cmocka_unit_test(test_scan_ignores_older_life),
        cmocka_unit_test(test_scan_stops_at_what_does_not_follow),
        cmocka_unit_test(test_scan_frame_at_end_of_slot),
        cmocka_unit_test(test_scan_leftover),
        cmocka_unit_test(test_scan_blank),
        cmocka_unit_test(test_scan_newer_version_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
