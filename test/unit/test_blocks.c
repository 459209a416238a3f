/* Sequence numbers in blocks. */

#include "base/rng.h"
#include "cluster/blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)

static void test_blocks_one_at_a_time(void **state)
{
    struct tr_block b = {0};
    uint64_t seq = 0;
    uint64_t now = 5 * SECOND;

    (void)state;
    assert_false(tr_block_take(&b, now, &seq));
    assert_int_equal(tr_block_want(&b, now), 16);
    tr_block_asked(&b);
    assert_int_equal(tr_block_want(&b, now), 0);
    tr_block_failed(&b);
    assert_int_equal(tr_block_want(&b, now), 16);
    tr_block_asked(&b);
    assert_true(tr_block_got(&b, 100, 16, now));
    for (uint64_t i = 0; i < 16; i++) {
        assert_true(tr_block_take(&b, now, &seq));
        assert_int_equal(seq, 100 + i);
    }
    assert_false(tr_block_take(&b, now, &seq));
    assert_true(tr_block_want(&b, now) > 16); /* it has learned */
}

static void test_blocks_what_is_left_is_let_go(void **state)
{
    struct tr_block b = {0};
    uint64_t seq = 0;
    uint64_t now = 5 * SECOND;

    (void)state;
    assert_true(tr_block_got(&b, 100, 16, now));
    assert_true(tr_block_take(&b, now + SECOND - 1, &seq));
    assert_false(tr_block_take(&b, now + SECOND, &seq));
    assert_int_equal(tr_block_want(&b, now + 9 * SECOND), 0); /* nobody needs any */
}

static void test_blocks_of_a_database_that_forgot(void **state)
{
    struct tr_block b = {0};
    uint64_t seq = 0;

    (void)state;
    assert_true(tr_block_got(&b, 100, 16, SECOND));
    assert_true(tr_block_take(&b, SECOND, &seq));
    assert_false(tr_block_got(&b, 50, 16, SECOND));
    assert_false(tr_block_take(&b, SECOND, &seq));
    assert_true(tr_block_got(&b, 50, 16, SECOND)); /* as it says now, with its jump */
    assert_true(tr_block_take(&b, SECOND, &seq));
    assert_int_equal(seq, 50);
}

/* Two nodes at random, over one counter: no number twice, they grow, and few are asked for in
 * vain. */
static void test_blocks_never_twice(void **state)
{
    struct tr_rng rng = {.state = 3};
    struct tr_block nodes[2] = {0};
    uint64_t last[2] = {0};
    uint64_t due[2] = {0}; /* an answer is on its way */
    uint64_t next_seq = 1000;
    uint64_t now = 5 * SECOND;
    unsigned taken = 0, questions = 0, waits = 0;
    static bool seen[400000];

    (void)state;
    for (unsigned i = 0; i < 60000; i++) {
        unsigned n = (unsigned)tr_rng_below(&rng, 2);
        struct tr_block *b = &nodes[n];
        uint64_t seq;
        uint32_t want;

        now += tr_rng_below(&rng, 400);
        if (due[n] != 0 && now >= due[n]) {
            want = (uint32_t)(16 + tr_rng_below(&rng, 500));
            assert_true(tr_block_got(b, next_seq, want, now));
            next_seq += want;
            due[n] = 0;
        }
        if (tr_block_take(b, now, &seq)) {
            assert_true(seq > last[n] && seq < 400000);
            assert_false(seen[seq]);
            seen[seq] = true;
            last[n] = seq;
            taken++;
        } else {
            waits++;
        }
        if (tr_block_want(b, now) > 0) {
            tr_block_asked(b);
            due[n] = now + 2000;
            questions++;
        }
    }
    assert_true(taken > 59000);
    assert_true(waits < 600);
    assert_true(questions < 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_one_at_a_time),
        cmocka_unit_test(test_blocks_what_is_left_is_let_go),
        cmocka_unit_test(test_blocks_of_a_database_that_forgot),
        cmocka_unit_test(test_blocks_never_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
