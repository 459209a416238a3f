/* The bitmap against an array of bools, with chunks that fill, thin out, vanish and come back. */

#include "base/bitmap.h"
#include "base/err.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void set(struct tr_bitmap *b, uint64_t n)
{
    assert_int_equal(tr_bitmap_set(b, n), TARRY_OK);
}

static void test_bitmap_edges(void **state)
{
    uint64_t last = (UINT64_C(1) << 48) - 1;
    struct tr_mem mem;
    struct tr_bitmap b;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_bitmap_init(&b, &mem);
    assert_false(tr_bitmap_test(&b, 0));
    assert_false(tr_bitmap_clear(&b, 0));
    set(&b, 0);
    set(&b, 65535);
    set(&b, 65536);
    set(&b, last);
    set(&b, last);
    assert_true(b.members == 4);
    assert_true(b.count == 3);
    assert_true(tr_bitmap_test(&b, 65535));
    assert_false(tr_bitmap_test(&b, 65537));
    assert_false(tr_bitmap_test(&b, UINT64_MAX));
    assert_true(tr_bitmap_clear(&b, 65536));
    assert_false(tr_bitmap_clear(&b, 65536));
    assert_true(b.count == 2); /* an empty chunk is gone */
    assert_true(tr_bitmap_clear(&b, last));
    assert_true(tr_bitmap_ok(&b));
    tr_bitmap_fini(&b);
    assert_true(mem.used_bytes == 0);
}

static void test_bitmap_takes_two_bytes_a_member_when_thin(void **state)
{
    struct tr_mem mem;
    struct tr_bitmap b;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_bitmap_init(&b, &mem);
    for (uint64_t n = 0; n < TR_BITMAP_CHUNK; n++) {
        set(&b, n);
    }
    assert_true(mem.used_bytes < TR_BITMAP_BYTES + 500);
    for (uint64_t n = 0; n < TR_BITMAP_CHUNK; n++) {
        if (n % 100 != 0) {
            assert_true(tr_bitmap_clear(&b, n));
        }
    }
    assert_true(b.members == 656);
    assert_true(mem.used_bytes < 656 * 3 + 500);
    assert_true(tr_bitmap_ok(&b));
    tr_bitmap_fini(&b);
    assert_true(mem.used_bytes == 0);
}

static void test_bitmap_clear_needs_no_memory(void **state)
{
    struct tr_mem mem;
    struct tr_bitmap b;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_bitmap_init(&b, &mem);
    for (uint64_t n = 0; n < 5000; n++) {
        set(&b, n * 3);
    }
    mem.fail_at = 1;
    mem.fail_on = true;
    for (uint64_t n = 0; n < 5000; n++) {
        assert_true(tr_bitmap_clear(&b, n * 3));
        assert_false(tr_bitmap_test(&b, n * 3));
        assert_true(b.members == 4999 - n);
        assert_true(n % 64 != 0 || tr_bitmap_ok(&b));
    }
    assert_true(b.count == 0);
    tr_bitmap_fini(&b);
    assert_true(mem.used_bytes == 0);
}

/* Many thin chunks: the array of chunks gets long and short again, with memory or without. */
static void test_bitmap_many_chunks_come_and_go(void **state)
{
    (void)state;
    for (int hard = 0; hard < 2; hard++) {
        struct tr_mem mem;
        struct tr_bitmap b;

        tr_mem_init(&mem, 0);
        tr_bitmap_init(&b, &mem);
        for (uint64_t c = 0; c < 1000; c++) {
            set(&b, c * TR_BITMAP_CHUNK + c);
            for (uint64_t i = 0; i < 40; i++) {
                set(&b, c * TR_BITMAP_CHUNK + 2000 + i);
            }
        }
        assert_true(b.count == 1000);
        mem.fail_at = hard != 0 ? mem.calls + 1 : 0;
        mem.fail_on = hard != 0;
        for (uint64_t c = 0; c < 990; c++) {
            for (uint64_t i = 0; i < 40; i++) {
                assert_true(tr_bitmap_clear(&b, c * TR_BITMAP_CHUNK + 2000 + i));
            }
            assert_true(tr_bitmap_clear(&b, c * TR_BITMAP_CHUNK + c));
        }
        assert_true(tr_bitmap_ok(&b));
        assert_true(b.members == 410);
        assert_true(hard != 0 || mem.used_bytes < 4096);
        for (uint64_t c = 990; c < 1000; c++) {
            assert_true(tr_bitmap_test(&b, c * TR_BITMAP_CHUNK + c));
        }
        tr_bitmap_fini(&b);
        assert_true(mem.used_bytes == 0);
    }
}

/* The n-th request for memory fails, for every n: nothing changes, and the next try succeeds. */
static void test_bitmap_set_without_memory_changes_nothing(void **state)
{
    for (int step = 1; step < 40000; step = step * 7 + 1) {
        struct tr_mem mem;
        struct tr_bitmap b;
        uint64_t refused = 0;

        (void)state;
        tr_mem_init(&mem, 0);
        tr_bitmap_init(&b, &mem);
        for (uint64_t i = 0; i < 6000; i++) {
            uint64_t n = i * (uint64_t)step;
            uint64_t ahead = 1;

            for (;; ahead++) {
                mem.fail_at = mem.calls + ahead;
                if (tr_bitmap_set(&b, n) == TARRY_OK) {
                    break;
                }
                refused++;
                assert_true(b.members == i);
                assert_false(tr_bitmap_test(&b, n));
                assert_true(i % 16 != 0 || tr_bitmap_ok(&b));
            }
        }
        assert_true(refused > 0);
        assert_true(b.members == 6000);
        assert_true(tr_bitmap_ok(&b));
        tr_bitmap_fini(&b);
        assert_true(mem.used_bytes == 0);
    }
}

enum { CHUNKS = 5, SPAN = CHUNKS * TR_BITMAP_CHUNK };

/* Where model number n really is: chunks with gaps between, the last at the very end. */
static uint64_t place(uint64_t n)
{
    static const uint64_t numbers[CHUNKS] = {0, 1, 7, 8, (UINT64_C(1) << 32) - 1};

    return numbers[n / TR_BITMAP_CHUNK] * TR_BITMAP_CHUNK + n % TR_BITMAP_CHUNK;
}

/* Compares b with the model, bit by bit and chunk by chunk. */
static void check_chunks(const struct tr_bitmap *b, const bool *model)
{
    uint8_t bits[TR_BITMAP_BYTES];
    uint64_t number = 0;
    uint64_t members = 0;

    assert_true(tr_bitmap_ok(b));
    for (uint64_t first = 0; tr_bitmap_next_chunk(b, first, &number, bits); first = number + 1) {
        assert_true(number >= first);
        for (uint64_t i = 0; i < TR_BITMAP_CHUNK; i++) {
            bool there = (bits[i / 8] >> i % 8 & 1) != 0;

            assert_true(tr_bitmap_test(b, number * TR_BITMAP_CHUNK + i) == there);
            members += there;
        }
    }
    assert_true(members == b->members);
    for (uint64_t n = 0; n < SPAN; n++) {
        assert_true(tr_bitmap_test(b, place(n)) == model[n]);
    }
}

static void check_count(const struct tr_bitmap *b, const bool *model, struct tr_rng *rng)
{
    assert_int_equal(tr_bitmap_count(b, 0, UINT64_MAX), b->members);
    for (int turn = 0; turn < 20; turn++) {
        uint64_t first = tr_rng_below(rng, SPAN);
        uint64_t last = first + tr_rng_below(rng, SPAN - first);
        uint64_t count = 0;

        for (uint64_t n = first; n <= last; n++) {
            count += model[n];
        }
        assert_int_equal(tr_bitmap_count(b, place(first), place(last)), count);
    }
}

static void test_bitmap_agrees_with_model(void **state)
{
    static bool model[SPAN];

    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct tr_rng rng = {.state = seed};
        struct tr_mem mem;
        struct tr_bitmap b;
        uint64_t members = 0;

        memset(model, 0, sizeof model);
        tr_mem_init(&mem, 0);
        tr_bitmap_init(&b, &mem);
        for (int phase = 0; phase < 8; phase++) {
            /* Each phase works on a part and mostly sets or mostly clears. */
            uint64_t from = tr_rng_below(&rng, SPAN);
            uint64_t span = 1 + tr_rng_below(&rng, SPAN - from);
            uint64_t sets = phase % 2 == 0 ? 90 : 5;

            for (int turn = 0; turn < 60000; turn++) {
                uint64_t n = from + tr_rng_below(&rng, span);

                if (tr_rng_below(&rng, 100) < sets) {
                    set(&b, place(n));
                    members += !model[n];
                    model[n] = true;
                } else {
                    assert_true(tr_bitmap_clear(&b, place(n)) == model[n]);
                    members -= model[n];
                    model[n] = false;
                }
                assert_true(b.members == members);
            }
            check_chunks(&b, model);
            check_count(&b, model, &rng);
        }
        tr_bitmap_fini(&b);
        assert_true(mem.used_bytes == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bitmap_edges),
        cmocka_unit_test(test_bitmap_takes_two_bytes_a_member_when_thin),
        cmocka_unit_test(test_bitmap_clear_needs_no_memory),
        cmocka_unit_test(test_bitmap_many_chunks_come_and_go),
        cmocka_unit_test(test_bitmap_set_without_memory_changes_nothing),
        cmocka_unit_test(test_bitmap_agrees_with_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
