/* Histograms: bounds, sums, joining. */

#include "base/hist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct tr_hist_scale *const scales[] = {&tr_hist_waits, &tr_hist_commits,
                                                     &tr_hist_rounds, &tr_hist_sizes};

static void test_hist_bounds_rise(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
        assert_in_range(scales[s]->count, 1, TR_HIST_BUCKETS - 1);
        for (unsigned i = 1; i < scales[s]->count; i++) {
            assert_true(scales[s]->bounds[i] > scales[s]->bounds[i - 1]);
        }
    }
    assert_int_equal(tr_hist_waits.bounds[0], 100); /* 0.1 ms to 1 h */
    assert_true(tr_hist_waits.bounds[tr_hist_waits.count - 1] == UINT64_C(3600000000));
}

/* A value that is equal to a bound is below it, as Prometheus' `le` has it; what is above all
 * bounds is in the last bucket. */
static void test_hist_buckets(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
        const struct tr_hist_scale *scale = scales[s];
        struct tr_hist h = {0};
        uint64_t sum = 0;

        for (unsigned i = 0; i < scale->count; i++) {
            tr_hist_add(&h, scale, scale->bounds[i]);
            tr_hist_add(&h, scale, scale->bounds[i] + 1);
            sum += 2 * scale->bounds[i] + 1;
        }
        tr_hist_add(&h, scale, 0);
        assert_int_equal(h.counts[0], 2);
        for (unsigned i = 1; i < scale->count; i++) {
            /* On scales of whole numbers the next bound may be just one more. */
            assert_in_range(h.counts[i], 1, 3);
        }
        assert_int_equal(h.counts[scale->count], 1);
        assert_int_equal(h.sum, sum);
        assert_int_equal(tr_hist_total(&h), 2 * scale->count + 1);
    }
}

static void test_hist_join(void **state)
{
    struct tr_hist a = {0};
    struct tr_hist b = {0};

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        tr_hist_add(i % 2 == 0 ? &a : &b, &tr_hist_waits, UINT64_C(1) << i / 2);
    }
    for (unsigned i = 0; i < TR_HIST_BUCKETS; i++) {
        assert_int_equal(a.counts[i], b.counts[i]);
    }
    tr_hist_join(&a, &b);
    assert_int_equal(tr_hist_total(&a), 100);
    assert_true(a.sum == 2 * b.sum);
    assert_int_equal(tr_hist_total(&b), 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hist_bounds_rise),
        cmocka_unit_test(test_hist_buckets),
        cmocka_unit_test(test_hist_join),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
