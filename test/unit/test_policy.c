/* Policies: defaults, changes, bytes. */

#include "rules/policy.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/rng.h"
#include "port/request.h"
#include "rules/bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char text[TR_POLICY_DELIVER_MAX];

static struct tr_backoff draw_backoff(struct tr_rng *r)
{
    struct tr_backoff b = tr_backoff_default();

    b.count = (unsigned)tr_rng_below(r, TR_BACKOFF_LIST_MAX + 1);
    if (b.count != 0) {
        b = (struct tr_backoff){.count = b.count};
    } else {
        b.factor_hundredths = 100 + (uint32_t)tr_rng_below(r, 500);
    }
    for (unsigned i = 0; i < b.count; i++) {
        b.list_us[i] = tr_rng_below(r, TR_DELAY_MAX_US + 1);
    }
    return b;
}

static struct tr_policy draw(struct tr_rng *r)
{
    struct tr_policy any = {
        .given = TR_POLICY_ALL,
        .ttr_us = 1 + tr_rng_below(r, TR_DELAY_MAX_US),
        .retries = (int64_t)tr_rng_below(r, 100) - 1,
        .backoff = draw_backoff(r),
        .ttl_us = tr_rng_below(r, TR_DELAY_MAX_US),
        .rate_milli = tr_rng_below(r, TR_BUCKET_RATE_MAX + 1),
        .burst = tr_rng_below(r, TR_BUCKET_BURST_MAX + 1),
        .max_jobs = tr_rng_next(r),
        .max_bytes = tr_rng_next(r),
        .dead_keep_us = tr_rng_below(r, 2) ? UINT64_MAX : tr_rng_below(r, TR_DELAY_MAX_US),
        .dead_max = tr_rng_next(r),
        .in_flight = 1 + tr_rng_below(r, 1000),
        .jitter_us = tr_rng_below(r, TR_DELAY_MAX_US),
        .history = (enum tr_history)tr_rng_below(r, 3),
        .spread = 1 + (uint32_t)tr_rng_below(r, 64),
        .paused = (unsigned)tr_rng_below(r, 4),
        .paused_until_us = tr_rng_next(r),
        .deliver = text,
        .deliver_len = (size_t)tr_rng_below(r, TR_POLICY_DELIVER_MAX + 1),
    };
    struct tr_policy p = tr_policy_default();

    tr_policy_change(&p, &any, (unsigned)tr_rng_next(r) & TR_POLICY_ALL);
    return p;
}

static void assert_same(const struct tr_policy *a, const struct tr_policy *b)
{
    assert_int_equal(a->given, b->given);
    assert_int_equal(a->ttr_us, b->ttr_us);
    assert_int_equal(a->retries, b->retries);
    assert_memory_equal(&a->backoff, &b->backoff, sizeof a->backoff);
    assert_int_equal(a->ttl_us, b->ttl_us);
    assert_int_equal(a->rate_milli, b->rate_milli);
    assert_int_equal(a->burst, b->burst);
    assert_int_equal(a->max_jobs, b->max_jobs);
    assert_int_equal(a->max_bytes, b->max_bytes);
    assert_int_equal(a->dead_keep_us, b->dead_keep_us);
    assert_int_equal(a->dead_max, b->dead_max);
    assert_int_equal(a->in_flight, b->in_flight);
    assert_int_equal(a->jitter_us, b->jitter_us);
    assert_int_equal(a->history, b->history);
    assert_int_equal(a->spread, b->spread);
    assert_int_equal(a->paused, b->paused);
    assert_int_equal(a->paused_until_us, b->paused_until_us);
    assert_int_equal(a->deliver_len, b->deliver_len);
    if (a->deliver_len != 0) {
        assert_memory_equal(a->deliver, b->deliver, a->deliver_len);
    }
}

static void test_policy_default(void **state)
{
    struct tr_policy p = tr_policy_default();
    struct tr_policy back;
    uint8_t bytes[TR_POLICY_BYTES_MAX];

    (void)state;
    assert_true(tr_policy_ok(&p));
    assert_int_equal(p.given, 0);
    assert_int_equal(p.ttr_us, 60000000);
    assert_int_equal(p.retries, 16);
    assert_int_equal(p.dead_keep_us, UINT64_C(30) * 86400 * 1000000);
    assert_int_equal(tr_policy_encode(bytes, &p), 1); /* nothing is given */
    assert_int_equal(tr_policy_decode(bytes, 1, &back), TARRY_OK);
    assert_same(&p, &back);
}

static void test_policy_change_takes_what_is_named(void **state)
{
    struct tr_policy from = tr_policy_default();
    struct tr_policy to = tr_policy_default();

    (void)state;
    from.given = TR_POLICY_BIT(TTR) | TR_POLICY_BIT(RETRIES);
    from.ttr_us = 5;
    from.retries = 3;
    from.ttl_us = 7; /* not given: nobody may see it */
    tr_policy_change(&to, &from, TR_POLICY_BIT(TTR) | TR_POLICY_BIT(TTL));
    assert_int_equal(to.given, TR_POLICY_BIT(TTR));
    assert_int_equal(to.ttr_us, 5);
    assert_int_equal(to.retries, 16);
    assert_int_equal(to.ttl_us, 0);
    tr_policy_change(&to, &from, TR_POLICY_BIT(RETRIES));
    assert_int_equal(to.given, from.given);

    struct tr_policy none = tr_policy_default();

    tr_policy_change(&to, &none, TR_POLICY_BIT(TTR)); /* as if it had never been given */
    assert_int_equal(to.given, TR_POLICY_BIT(RETRIES));
    assert_int_equal(to.ttr_us, TR_POLICY_TTR_US);
    tr_policy_change(&to, &none, TR_POLICY_ALL);
    assert_same(&to, &none);
}

static void test_policy_round_trip(void **state)
{
    struct tr_rng r = {1};
    uint8_t bytes[TR_POLICY_BYTES_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)('a' + i % 26);
    }
    for (unsigned i = 0; i < 2000; i++) {
        struct tr_policy p = draw(&r);
        struct tr_policy back;
        size_t len = tr_policy_encode(bytes, &p);

        assert_true(len <= sizeof bytes);
        assert_int_equal(tr_policy_decode(bytes, len, &back), TARRY_OK);
        assert_same(&p, &back);
    }
}

/* Cut short, longer, or with a changed byte: refused, or another policy that makes sense. */
static void test_policy_damaged(void **state)
{
    struct tr_rng r = {2};
    uint8_t bytes[TR_POLICY_BYTES_MAX + 1];
    struct tr_policy back;

    (void)state;
    for (unsigned i = 0; i < 500; i++) {
        struct tr_policy p = draw(&r);
        size_t len;

        p.deliver_len %= 50;
        len = tr_policy_encode(bytes, &p);
        for (size_t cut = 0; cut < len; cut++) {
            assert_int_equal(tr_policy_decode(bytes, cut, &back), TARRY_EDAMAGED);
        }
        bytes[len] = 0;
        assert_int_equal(tr_policy_decode(bytes, len + 1, &back), TARRY_EDAMAGED);
        bytes[tr_rng_below(&r, len)] ^= (uint8_t)(1 + tr_rng_below(&r, 255));
        if (tr_policy_decode(bytes, len, &back) == TARRY_OK) {
            assert_true(tr_policy_ok(&back));
        }
    }
}

static void test_policy_of_a_newer_version(void **state)
{
    uint8_t bytes[16];
    size_t len = tr_put_varint(bytes, UINT64_C(1) << TR_POLICY_FIELD_COUNT);
    struct tr_policy p;

    (void)state;
    bytes[len++] = 1;
    assert_int_equal(tr_policy_decode(bytes, len, &p), TARRY_EVERSION);
}

static void test_policy_limits(void **state)
{
    struct tr_policy good = tr_policy_default();
    struct tr_policy p = good;

    (void)state;
    p.ttr_us = 0;
    assert_false(tr_policy_ok(&p));
    p = good;
    p.retries = -2;
    assert_false(tr_policy_ok(&p));
    p = good;
    p.ttl_us = TR_DELAY_MAX_US + 1;
    assert_false(tr_policy_ok(&p));
    p = good;
    p.jitter_us = TR_DELAY_MAX_US + 1;
    assert_false(tr_policy_ok(&p));
    p = good;
    p.dead_keep_us = UINT64_MAX; /* for ever */
    assert_true(tr_policy_ok(&p));
    p.dead_keep_us--;
    assert_false(tr_policy_ok(&p));
    p = good;
    p.paused = 4;
    assert_false(tr_policy_ok(&p));
    p = good;
    p.in_flight = 0;
    assert_false(tr_policy_ok(&p));
    p = good;
    p.backoff.count = TR_BACKOFF_LIST_MAX + 1;
    assert_false(tr_policy_ok(&p));
    p = good;
    p.deliver = text;
    p.deliver_len = TR_POLICY_DELIVER_MAX + 1;
    assert_false(tr_policy_ok(&p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy_default),
        cmocka_unit_test(test_policy_change_takes_what_is_named),
        cmocka_unit_test(test_policy_round_trip),
        cmocka_unit_test(test_policy_damaged),
        cmocka_unit_test(test_policy_of_a_newer_version),
        cmocka_unit_test(test_policy_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
