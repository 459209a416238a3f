/* Heads of segments and frames: what goes in comes out, and every damage is seen. */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/rng.h"
#include "engine/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct tr_frame any_frame(struct tr_rng *rng)
{
    return (struct tr_frame){
        .seg_no = tr_rng_next(rng),
        .nonce = tr_rng_next(rng),
        .batch_no = tr_rng_next(rng),
        .synced_batch = tr_rng_next(rng),
        .man_gen = tr_rng_next(rng),
        .clock_us = tr_rng_next(rng),
        .first_rid = tr_rng_next(rng),
        .record_count = (uint32_t)tr_rng_next(rng),
        .payload_len = (uint32_t)tr_rng_next(rng),
        .payload_crc = (uint32_t)tr_rng_next(rng),
        .prev_crc = (uint32_t)tr_rng_next(rng),
        .flags = (uint32_t)tr_rng_below(rng, 2),
    };
}

static struct tr_segment any_segment(struct tr_rng *rng)
{
    struct tr_segment seg = {
        .compatible = (uint32_t)tr_rng_next(rng),
        .seg_no = tr_rng_next(rng),
        .nonce = tr_rng_next(rng),
        .first_batch = tr_rng_next(rng),
        .created_us = tr_rng_next(rng),
    };

    for (int i = 0; i < TR_UUID; i++) {
        seg.uuid[i] = (uint8_t)tr_rng_next(rng);
    }
    return seg;
}

static void repair_frame(uint8_t *head, uint64_t off)
{
    tr_put_le(head + 92, tr_crc(tr_crc_seed(off), head, 92), 4);
}

static void repair_segment(uint8_t *block)
{
    tr_put_le(block + 4, tr_crc(0, block + 8, TR_BLOCK - 8), 4);
}

/* The format is for ever: these places must mean the same in every later version. */
static void test_frame_bytes_do_not_change(void **state)
{
    struct tr_frame f = {.seg_no = 1,
                         .nonce = 2,
                         .batch_no = 3,
                         .synced_batch = 4,
                         .man_gen = 5,
                         .clock_us = 6,
                         .first_rid = 7,
                         .record_count = 8,
                         .payload_len = 9,
                         .payload_crc = 10,
                         .prev_crc = 11,
                         .flags = TR_FRAME_SEAL};
    struct tr_segment seg = {.incompatible = 1,
                             .compatible = 2,
                             .uuid = "0123456789abcde",
                             .seg_no = 3,
                             .nonce = 4,
                             .first_batch = 5,
                             .created_us = 6};
    uint8_t head[TR_FRAME_HEAD];
    uint8_t block[TR_BLOCK];
    uint32_t crc;

    (void)state;
    crc = tr_frame_encode(head, &f, 8192);
    assert_int_equal(crc, tr_get_le(head + 92, 4));
    assert_memory_equal(head, "TRfr\x01\x00\x60\x00", 8);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(tr_get_le(head + 8 + i * 8, 8), i + 1);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(tr_get_le(head + 64 + i * 4, 4), i + 8);
    }
    assert_int_equal(tr_get_le(head + 80, 4), 1);
    assert_int_equal(tr_get_le(head + 84, 8), 0);
    tr_segment_encode(block, &seg);
    assert_memory_equal(block, "TRsg", 4);
    assert_memory_equal(block + 8, "\x01\x00\x44\x00\x01\x00\x00\x00\x02\x00\x00\x00", 12);
    assert_memory_equal(block + 20, "0123456789abcde", 16);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(tr_get_le(block + 36 + i * 8, 8), i + 3);
    }
}

static void test_frame_size_is_whole_blocks(void **state)
{
    (void)state;
    assert_int_equal(tr_frame_size(0), 4096);
    assert_int_equal(tr_frame_size(4000), 4096);
    assert_int_equal(tr_frame_size(4001), 8192);
    assert_true(tr_frame_size(UINT32_MAX) > UINT32_MAX);
}

static void test_frame_at_another_place_is_none(void **state)
{
    struct tr_rng rng = {.state = 1};
    struct tr_frame f = any_frame(&rng);
    struct tr_frame got;
    uint8_t head[TR_FRAME_HEAD];
    uint32_t crc;

    (void)state;
    tr_frame_encode(head, &f, 4096);
    assert_int_equal(tr_frame_decode(head, 4096, &got, &crc), TARRY_OK);
    assert_int_equal(tr_frame_decode(head, 8192, &got, &crc), TARRY_EDAMAGED);
    assert_int_equal(tr_frame_decode(head, 0, &got, &crc), TARRY_EDAMAGED);
}

static void test_frame_newer_versions_are_told_apart(void **state)
{
    struct tr_rng rng = {.state = 1};
    struct tr_frame f = any_frame(&rng);
    struct tr_segment seg = any_segment(&rng);
    struct tr_frame got;
    struct tr_segment got_seg;
    uint8_t head[TR_FRAME_HEAD];
    uint8_t block[TR_BLOCK];
    uint32_t crc;

    (void)state;
    tr_frame_encode(head, &f, 0);
    head[4] = 2;
    repair_frame(head, 0);
    assert_int_equal(tr_frame_decode(head, 0, &got, &crc), TARRY_EVERSION);
    head[4] = 0;
    repair_frame(head, 0);
    assert_int_equal(tr_frame_decode(head, 0, &got, &crc), TARRY_EDAMAGED);
    tr_frame_encode(head, &f, 0);
    head[80] |= 2; /* a flag that is not known */
    repair_frame(head, 0);
    assert_int_equal(tr_frame_decode(head, 0, &got, &crc), TARRY_EVERSION);

    tr_segment_encode(block, &seg);
    block[8] = 2;
    repair_segment(block);
    assert_int_equal(tr_segment_decode(block, &got_seg), TARRY_EVERSION);
    seg.incompatible = 4;
    tr_segment_encode(block, &seg);
    assert_int_equal(tr_segment_decode(block, &got_seg), TARRY_EVERSION);
    assert_int_equal(got_seg.incompatible, 4); /* so that it can be named */
    block[10]++;
    repair_segment(block);
    assert_int_equal(tr_segment_decode(block, &got_seg), TARRY_EDAMAGED);
}

static void test_frame_agrees_with_model(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct tr_rng rng = {.state = seed};
        struct tr_frame f = any_frame(&rng);
        uint64_t off = tr_rng_below(&rng, 4096) * TR_BLOCK;
        struct tr_frame got;
        uint8_t head[TR_FRAME_HEAD];
        uint32_t crc = 0;
        uint32_t want = tr_frame_encode(head, &f, off);

        assert_int_equal(tr_frame_decode(head, off, &got, &crc), TARRY_OK);
        assert_int_equal(crc, want);
        assert_memory_equal(&got, &f, offsetof(struct tr_frame, flags) + sizeof f.flags);
        for (size_t bit = 0; bit < sizeof head * 8; bit++) {
            head[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(tr_frame_decode(head, off, &got, &crc), TARRY_EDAMAGED);
            head[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

static void test_segment_agrees_with_model(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct tr_rng rng = {.state = seed};
        struct tr_segment seg = any_segment(&rng);
        struct tr_segment got;
        uint8_t block[TR_BLOCK];

        tr_segment_encode(block, &seg);
        assert_int_equal(tr_segment_decode(block, &got), TARRY_OK);
        assert_memory_equal(&got, &seg, sizeof seg);
        for (int i = 0; i < 300; i++) {
            size_t bit = (size_t)tr_rng_below(&rng, i % 2 == 0 ? (size_t)80 * 8 : sizeof block * 8);

            block[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(tr_segment_decode(block, &got), TARRY_EDAMAGED);
            block[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_bytes_do_not_change),
        cmocka_unit_test(test_frame_size_is_whole_blocks),
        cmocka_unit_test(test_frame_at_another_place_is_none),
        cmocka_unit_test(test_frame_newer_versions_are_told_apart),
        cmocka_unit_test(test_frame_agrees_with_model),
        cmocka_unit_test(test_segment_agrees_with_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
