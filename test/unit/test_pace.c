/* How fast the background may write. */

#include "engine/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MB = 1000000 };

static void commits(struct tr_pace *p, unsigned count, uint64_t us, bool beside)
{
    for (unsigned i = 0; i < count; i++) {
        tr_pace_commit(p, us, beside);
    }
}

/* To a quarter of a doubling, and never too little. */
static void test_pace_p99(void **state)
{
    struct tr_pace p = {0};

    (void)state;
    assert_int_equal(tr_pace_p99(&p.alone), 0);
    commits(&p, 31, 500, false);
    assert_int_equal(tr_pace_p99(&p.alone), 0); /* too few to tell */
    commits(&p, 1, 500, false);
    assert_in_range(tr_pace_p99(&p.alone), 500, 640);
    for (uint64_t us = 0; us < 5000000; us += 1 + us / 7) {
        struct tr_pace q = {0};

        commits(&q, 100, us, true);
        assert_in_range(tr_pace_p99(&q.beside), us, us + us / 4 + 1);
    }
    commits(&p, 968, 500, false); /* one of a hundred does not count, two do */
    commits(&p, 10, 90000, false);
    assert_in_range(tr_pace_p99(&p.alone), 500, 640);
    commits(&p, 20, 90000, false);
    assert_in_range(tr_pace_p99(&p.alone), 90000, 115000);
}

static void test_pace_old_times_fade(void **state)
{
    struct tr_pace p = {0};

    (void)state;
    commits(&p, 5000, 90000, false);
    commits(&p, 40000, 500, false);
    assert_in_range(tr_pace_p99(&p.alone), 500, 640);
}

/* Commits that suffer halve the rate, step by step, but not to nothing; then it comes back. */
static void test_pace_follows_commits(void **state)
{
    struct tr_pace p = {0};
    uint64_t rate;

    (void)state;
    assert_int_equal(tr_pace_rate(&p, 0), 0);
    assert_int_equal(tr_pace_rate(&p, 100 * MB), 100 * MB);
    assert_int_equal(tr_pace_rate(&p, 100 * MB), 100 * MB);
    commits(&p, 100, 500, false);
    commits(&p, 100, 5000, true);
    assert_int_equal(tr_pace_rate(&p, 100 * MB), 50 * MB);
    for (unsigned i = 0; i < 7; i++) { /* a few commits do not tell yet */
        commits(&p, 3, 500, true);
        assert_int_equal(tr_pace_rate(&p, 100 * MB), 50 * MB);
    }
    assert_int_equal(tr_pace_rate(&p, 100 * MB), 100 * MB); /* nobody has suffered since */
    for (unsigned i = 0; i < 20; i++) {
        commits(&p, 100, 5000, true);
        rate = tr_pace_rate(&p, 100 * MB);
    }
    assert_in_range(rate, MB, 2 * MB);
    commits(&p, 100, 700, true); /* less than twice as long as ever */
    assert_true(tr_pace_rate(&p, 100 * MB) > rate);
    assert_int_equal(tr_pace_rate(&p, 10), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pace_p99),
        cmocka_unit_test(test_pace_old_times_fade),
        cmocka_unit_test(test_pace_follows_commits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
