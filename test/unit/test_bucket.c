/* The token bucket against one that is filled microsecond by microsecond. */

#include "rules/bucket.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)

static void test_bucket_burst_then_rate(void **state)
{
    struct tr_bucket b;
    uint64_t now = 5 * SECOND;

    (void)state;
    tr_bucket_init(&b, 3000, 2, now); /* 3 a second: a third is no number of microseconds */
    assert_int_equal(tr_bucket_take(&b, 5, now), 2);
    assert_int_equal(tr_bucket_take(&b, 1, now), 0);
    assert_int_equal(tr_bucket_next(&b, now), now + 333334);
    assert_int_equal(tr_bucket_take(&b, 1, now + 333333), 0);
    assert_int_equal(tr_bucket_take(&b, 1, now + 333334), 1);
    assert_int_equal(tr_bucket_next(&b, now + 333334), now + 666667);
    assert_int_equal(tr_bucket_take(&b, 1, now + 666667), 1);
    assert_int_equal(tr_bucket_next(&b, now + 666667), now + SECOND);
    assert_int_equal(tr_bucket_take(&b, 9, now + SECOND), 1);
    assert_int_equal(tr_bucket_take(&b, 9, now + 3600 * SECOND), 2);
}

/* Asked as often as one likes: nothing is lost by rounding. */
static void test_bucket_asked_each_microsecond(void **state)
{
    struct tr_bucket b;
    uint64_t got = 0;

    (void)state;
    tr_bucket_init(&b, 7000, 1, 0);
    for (uint64_t now = 0; now < 10 * SECOND; now++) {
        got += tr_bucket_take(&b, 1, now);
    }
    assert_int_equal(got, 70);
}

static void test_bucket_extremes(void **state)
{
    struct tr_bucket b;

    (void)state;
    tr_bucket_init(&b, 1, 1, 0); /* one in 1000 seconds */
    assert_int_equal(tr_bucket_take(&b, 1, 0), 1);
    assert_int_equal(tr_bucket_next(&b, 0), 1000 * SECOND);
    tr_bucket_init(&b, TR_BUCKET_RATE_MAX, TR_BUCKET_BURST_MAX, 0);
    assert_int_equal(tr_bucket_take(&b, UINT64_MAX, UINT64_MAX), TR_BUCKET_BURST_MAX);
    assert_int_equal(tr_bucket_next(&b, UINT64_MAX - 10), UINT64_MAX);
    tr_bucket_init(&b, TR_BUCKET_RATE_MAX, TR_BUCKET_BURST_MAX, 0);
    (void)tr_bucket_take(&b, TR_BUCKET_BURST_MAX, 0);
    assert_int_equal(tr_bucket_take(&b, UINT64_MAX, UINT64_MAX), TR_BUCKET_BURST_MAX);
    assert_int_equal(tr_bucket_burst_of(500), 1);
    assert_int_equal(tr_bucket_burst_of(2500), 2);
}

static void test_bucket_time_goes_back(void **state)
{
    struct tr_bucket b;

    (void)state;
    tr_bucket_init(&b, 1000, 1, 10 * SECOND);
    assert_int_equal(tr_bucket_take(&b, 1, 10 * SECOND), 1);
    assert_int_equal(tr_bucket_take(&b, 1, 2 * SECOND), 0);
    assert_int_equal(tr_bucket_next(&b, 2 * SECOND), 11 * SECOND);
    assert_int_equal(tr_bucket_take(&b, 1, 11 * SECOND - 1), 0);
    assert_int_equal(tr_bucket_take(&b, 1, 11 * SECOND), 1);
}

static void test_bucket_give_and_change(void **state)
{
    struct tr_bucket b;

    (void)state;
    tr_bucket_init(&b, 1000, 5, 0);
    assert_int_equal(tr_bucket_take(&b, 5, 0), 5);
    tr_bucket_give(&b, 2);
    assert_int_equal(tr_bucket_take(&b, 5, 0), 2);
    tr_bucket_give(&b, UINT64_MAX);
    assert_int_equal(tr_bucket_take(&b, 9, 0), 5);
    tr_bucket_give(&b, 4);
    tr_bucket_change(&b, 2000, 3, 0);
    assert_int_equal(tr_bucket_take(&b, 9, 0), 3);
    tr_bucket_change(&b, 4000, 10, SECOND); /* two came at the old rate */
    assert_int_equal(tr_bucket_take(&b, 9, SECOND), 2);
    assert_int_equal(tr_bucket_next(&b, SECOND), SECOND + SECOND / 4);
}

/* A child's bucket: every microsecond so many grains, and never more than fit. */
static void test_bucket_model(void **state)
{
    struct tr_rng r = {1};

    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        uint64_t rate = 1 + tr_rng_below(&r, UINT64_C(1) << tr_rng_below(&r, 40));
        uint64_t burst = 1 + tr_rng_below(&r, 5);
        uint64_t grains = burst * UINT64_C(1000000000);
        uint64_t now = tr_rng_below(&r, 1000);
        struct tr_bucket b;

        tr_bucket_init(&b, rate, burst, now);
        for (unsigned step = 0; step < 100; step++) {
            uint64_t want = tr_rng_below(&r, 4);
            uint64_t have;
            uint64_t next;

            for (uint64_t wait = tr_rng_below(&r, 2000); wait > 0; wait--) {
                now++;
                grains += rate;
                if (grains > burst * UINT64_C(1000000000)) {
                    grains = burst * UINT64_C(1000000000);
                }
            }
            have = grains / UINT64_C(1000000000);
            next = tr_bucket_next(&b, now);
            assert_true((next == now) == (have > 0));
            if (next > now) { /* that moment is the first */
                uint64_t lacks = UINT64_C(1000000000) - grains;

                assert_true((next - now) * rate >= lacks && (next - now - 1) * rate < lacks);
            }
            assert_int_equal(tr_bucket_take(&b, want, now), want < have ? want : have);
            grains -= (want < have ? want : have) * UINT64_C(1000000000);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bucket_burst_then_rate),
        cmocka_unit_test(test_bucket_asked_each_microsecond),
        cmocka_unit_test(test_bucket_extremes),
        cmocka_unit_test(test_bucket_time_goes_back),
        cmocka_unit_test(test_bucket_give_and_change),
        cmocka_unit_test(test_bucket_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
