/* Rates and lateness, of late. */

#include "rules/figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)

static void test_figures_rate(void **state)
{
    struct tr_rate r = {0};
    uint64_t at = 1000 * SECOND;

    (void)state;
    assert_int_equal(tr_rate_milli(&r, at), 0);
    for (unsigned i = 0; i < 1000; i++) { /* 100 a second for ten seconds */
        tr_rate_add(&r, at + i * (TR_RATE_US / 1000));
    }
    assert_int_equal(tr_rate_milli(&r, at + TR_RATE_US - 1), 100000);
    assert_int_equal(tr_rate_milli(&r, at + TR_RATE_US), 100000);
    assert_int_equal(tr_rate_milli(&r, at + TR_RATE_US * 3 / 2), 50000);
    assert_int_equal(tr_rate_milli(&r, at + 2 * TR_RATE_US), 0);
    tr_rate_add(&r, at + TR_RATE_US * 3 / 2); /* asking changes nothing */
    assert_int_equal(tr_rate_milli(&r, at + TR_RATE_US * 3 / 2), 50100);
    tr_rate_add(&r, at + 100 * TR_RATE_US);
    assert_int_equal(tr_rate_milli(&r, at + 100 * TR_RATE_US), 100);
}

static void assert_near(uint64_t got, uint64_t want)
{
    assert_true(got >= want - want / 8 && got <= want + want / 8);
}

static void test_figures_late(void **state)
{
    struct tr_mem mem;
    struct tr_lates pool;
    struct tr_late *late = NULL;
    struct tr_late *other = NULL;
    uint64_t at = 1000 * SECOND;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_lates_init(&pool, &mem);
    assert_int_equal(tr_late_percentile(late, 50, at), 0);
    for (unsigned i = 0; i < 98; i++) {
        tr_late_add(&pool, &late, 3, at);
    }
    tr_late_add(&pool, &late, 5000000, at);
    tr_late_add(&pool, &late, 7000000, at);
    assert_int_equal(tr_late_percentile(late, 50, at), 3);
    assert_near(tr_late_percentile(late, 99, at), 5000000);
    assert_near(tr_late_percentile(late, 100, at), 7000000);
    for (uint64_t us = 4; us < UINT64_C(1) << 40; us = us * 21 / 16 + 1) {
        struct tr_late *one = NULL;

        tr_late_add(&pool, &one, us, at);
        assert_near(tr_late_percentile(one, 50, at), us);
        tr_late_drop(&pool, one);
    }
    /* It is forgotten by and by, */
    assert_int_equal(tr_late_percentile(late, 50, at + 2 * TR_LATE_US - 1), 3);
    assert_int_equal(tr_late_percentile(late, 50, at + 2 * TR_LATE_US), 0);
    tr_late_add(&pool, &late, 50, at + TR_LATE_US);
    assert_int_equal(tr_late_percentile(late, 50, at + TR_LATE_US), 3);
    assert_near(tr_late_percentile(late, 50, at + 2 * TR_LATE_US), 50);
    /* and goes over to another owner. */
    tr_late_give(&late, &other);
    assert_null(late);
    assert_near(tr_late_percentile(other, 50, at + 2 * TR_LATE_US), 50);
    tr_late_drop(&pool, other);
    assert_int_equal(mem.used_bytes, 0);
}

/* There are not more than so many: who has been idle for longest loses his. */
static void test_figures_late_pool(void **state)
{
    static struct tr_late *lates[TR_LATES_MAX + 2];
    struct tr_mem mem;
    struct tr_lates pool;
    uint64_t at = 1000 * SECOND;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_lates_init(&pool, &mem);
    for (unsigned i = 0; i < TR_LATES_MAX; i++) {
        tr_late_add(&pool, &lates[i], 1, at + i);
    }
    tr_late_add(&pool, &lates[TR_LATES_MAX], 1, at + SECOND); /* all are busy */
    assert_null(lates[TR_LATES_MAX]);
    tr_late_add(&pool, &lates[0], 1, at + TR_LATE_US); /* so another one is idle for longest */
    tr_late_add(&pool, &lates[TR_LATES_MAX], 2, at + 3 * TR_LATE_US - 1);
    assert_non_null(lates[TR_LATES_MAX]);
    assert_non_null(lates[0]);
    assert_null(lates[1]);
    assert_int_equal(tr_late_percentile(lates[TR_LATES_MAX], 50, at + 3 * TR_LATE_US), 2);
    for (unsigned i = 0; i <= TR_LATES_MAX; i++) {
        tr_late_drop(&pool, lates[i]);
    }
    assert_int_equal(mem.used_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures_rate),
        cmocka_unit_test(test_figures_late),
        cmocka_unit_test(test_figures_late_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
