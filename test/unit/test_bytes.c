/* Numbers in bytes: the edges by name, then anything against itself. */

#include "base/bytes.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_bytes_le_is_low_byte_first(void **state)
{
    uint8_t raw[8];

    (void)state;
    tr_put_le(raw, 0x0102030405060708u, 8);
    assert_memory_equal(raw, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
    assert_true(tr_get_le(raw, 8) == 0x0102030405060708u);
    assert_true(tr_get_le(raw, 3) == 0x060708);
}

static void test_bytes_varint_sizes(void **state)
{
    uint8_t raw[TR_VARINT_MAX];

    (void)state;
    assert_int_equal(tr_put_varint(raw, 0), 1);
    assert_int_equal(tr_put_varint(raw, 0x7f), 1);
    assert_int_equal(tr_put_varint(raw, 0x80), 2);
    assert_memory_equal(raw, "\x80\x01", 2);
    assert_int_equal(tr_put_varint(raw, UINT64_MAX), TR_VARINT_MAX);
}

static void test_bytes_zigzag_keeps_small_numbers_small(void **state)
{
    (void)state;
    assert_true(tr_zigzag(0) == 0);
    assert_true(tr_zigzag(-1) == 1);
    assert_true(tr_zigzag(1) == 2);
    assert_true(tr_zigzag(INT64_MIN) == UINT64_MAX);
    assert_true(tr_unzigzag(UINT64_MAX) == INT64_MIN);
    assert_true(tr_unzigzag(UINT64_MAX - 1) == INT64_MAX);
}

static void test_bytes_reader_refuses_what_does_not_fit(void **state)
{
    static const uint8_t big[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0};
    static const uint8_t endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                      0x80, 0x80, 0x80, 0x80, 0x00};
    struct tr_reader r = tr_reader_of(big, sizeof big);

    (void)state;
    assert_true(tr_read_varint(&r) == 0);
    assert_true(r.bad);
    r = tr_reader_of(endless, sizeof endless);
    assert_true(tr_read_varint(&r) == 0);
    assert_true(r.bad);
    r = tr_reader_of(big, 4); /* ends in the middle */
    assert_true(tr_read_varint(&r) == 0);
    assert_true(r.bad);
}

static void test_bytes_reader_stays_bad(void **state)
{
    struct tr_reader r = tr_reader_of("abcd", 4);

    (void)state;
    assert_true(tr_read_bytes(&r, 5) == NULL);
    assert_true(r.bad);
    assert_true(tr_read_bytes(&r, 1) == NULL);
    assert_true(tr_read_le(&r, 2) == 0);
    assert_true(tr_read_varint(&r) == 0);
    r = tr_reader_of("abcd", 4);
    assert_true(tr_read_bytes(&r, UINT64_MAX) == NULL); /* no sum may wrap */
    r = tr_reader_of("abcd", 4);
    assert_memory_equal(tr_read_bytes(&r, 4), "abcd", 4);
    assert_int_equal(tr_reader_left(&r), 0);
    assert_false(r.bad);
}

/* Writes a row of numbers of all kinds and sizes, and reads the same row. */
static void test_bytes_agree_with_model(void **state)
{
    enum { N = 200 };

    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct tr_rng rng = {.state = seed};
        uint8_t raw[N * TR_VARINT_MAX];
        uint64_t values[N];
        size_t len = 0;
        struct tr_reader r;

        for (int i = 0; i < N; i++) {
            values[i] = tr_rng_next(&rng) >> tr_rng_below(&rng, 64);
            if (i % 3 == 0) {
                len += tr_put_varint(raw + len, values[i]);
            } else if (i % 3 == 1) {
                len += tr_put_varint(raw + len, tr_zigzag((int64_t)values[i]));
            } else {
                tr_put_le(raw + len, values[i], 8);
                len += 8;
            }
        }
        r = tr_reader_of(raw, len);
        for (int i = 0; i < N; i++) {
            uint64_t got = i % 3 == 0   ? tr_read_varint(&r)
                           : i % 3 == 1 ? (uint64_t)tr_read_signed(&r)
                                        : tr_read_le(&r, 8);

            assert_true(got == values[i]);
        }
        assert_false(r.bad);
        assert_int_equal(tr_reader_left(&r), 0);
        tr_read_le(&r, 1);
        assert_true(r.bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_le_is_low_byte_first),
        cmocka_unit_test(test_bytes_varint_sizes),
        cmocka_unit_test(test_bytes_zigzag_keeps_small_numbers_small),
        cmocka_unit_test(test_bytes_reader_refuses_what_does_not_fit),
        cmocka_unit_test(test_bytes_reader_stays_bad),
        cmocka_unit_test(test_bytes_agree_with_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
