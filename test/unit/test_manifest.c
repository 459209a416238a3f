/*
 * Manifest bytes: what was written is read, any damaged byte is found, newer versions are named.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "engine/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tr_manifest *sample(uint32_t slots)
{
    struct tr_manifest *m = calloc(1, sizeof *m);

    assert_non_null(m);
    *m = (struct tr_manifest){.gen = 5,
                              .flags = TR_MAN_CLEAN,
                              .epoch = 3,
                              .rid_limit = UINT64_C(1) << 40,
                              .slot_bytes = 65536,
                              .seg_no = 9,
                              .log_batch = 77,
                              .clock_us = ~UINT64_C(1700000000000000),
                              .next_rid = UINT64_C(1) << 39,
                              .uuid = "0123456789abcde",
                              .key = "edcba9876543210",
                              .ckpt = {{70, 3}, {75, 4}},
                              .ckpt_now = 1,
                              .slot_count = slots};
    for (uint32_t i = 0; i < slots; i++) {
        m->slots[i] = (struct tr_manifest_slot){i, i + 1, ~(uint64_t)i, 2 * i + 1, 2 * i + 2};
    }
    for (uint32_t i = 0; slots == TR_MANIFEST_SLOTS_MAX && i < TR_GROUPS_MAX; i++) {
        m->groups[m->group_count++] = (struct tr_manifest_group){
            .no = i + 1, .rid_first = 10 * i + 1, .rid_last = 10 * i + 9, .bytes = {9, 8, 4096}};
    }
    return m;
}

static void fix_crc(uint8_t *bytes)
{
    tr_put_le(bytes + 4, tr_crc(0, bytes + 8, TR_MANIFEST_COPY - 8), 4);
}

static void test_manifest_is_read_as_written(void **state)
{
    static const uint32_t counts[] = {0, 1, TR_MANIFEST_SLOTS_MAX};
    uint8_t *bytes = malloc(TR_MANIFEST_COPY);
    struct tr_manifest *got = calloc(1, sizeof *got);

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct tr_manifest *m = sample(counts[i]);

        tr_manifest_encode(bytes, m);
        assert_int_equal(tr_manifest_decode(bytes, got), TARRY_OK);
        assert_memory_equal(got, m, sizeof *m);
        free(m);
    }
    free(got);
    free(bytes);
}

static void test_manifest_any_damaged_byte_is_found(void **state)
{
    uint8_t *bytes = malloc(TR_MANIFEST_COPY);
    struct tr_manifest *m = sample(3);
    struct tr_manifest *got = calloc(1, sizeof *got);

    (void)state;
    tr_manifest_encode(bytes, m);
    for (size_t i = 0; i < TR_MANIFEST_COPY; i += i < 400 ? 1 : 97) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(tr_manifest_decode(bytes, got), TARRY_EDAMAGED);
        bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    memset(bytes, 0, TR_MANIFEST_COPY);
    assert_int_equal(tr_manifest_decode(bytes, got), TARRY_EDAMAGED);
    free(m);
    free(got);
    free(bytes);
}

static void test_manifest_newer_is_named(void **state)
{
    uint8_t *bytes = malloc(TR_MANIFEST_COPY);
    struct tr_manifest *m = sample(1);
    struct tr_manifest *got = calloc(1, sizeof *got);

    (void)state;
    tr_manifest_encode(bytes, m);
    tr_put_le(bytes + 8, TR_FORMAT_VERSION + 1, 2);
    fix_crc(bytes);
    assert_int_equal(tr_manifest_decode(bytes, got), TARRY_EVERSION);
    tr_manifest_encode(bytes, m);
    tr_put_le(bytes + 16, UINT32_C(1) << 31, 4); /* an incompatible feature */
    fix_crc(bytes);
    assert_int_equal(tr_manifest_decode(bytes, got), TARRY_EVERSION);
    tr_manifest_encode(bytes, m);
    tr_put_le(bytes + 20, UINT32_C(1) << 31, 4); /* a compatible one */
    fix_crc(bytes);
    assert_int_equal(tr_manifest_decode(bytes, got), TARRY_OK);
    tr_put_le(bytes + 144, TR_MANIFEST_SLOTS_MAX + 1, 4);
    fix_crc(bytes);
    assert_int_equal(tr_manifest_decode(bytes, got), TARRY_EDAMAGED);
    free(m);
    free(got);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manifest_is_read_as_written),
        cmocka_unit_test(test_manifest_any_damaged_byte_is_found),
        cmocka_unit_test(test_manifest_newer_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
