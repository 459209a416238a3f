/*
 * Rate, burst and in_flight: who waits gets the next token, nothing spins, nothing is armed when
 * nobody waits.
 */

#include "base/err.h"
#include "rules/policy.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ME = 7, OTHER = 8, MANY = 50 };

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig_open(rig);
    return rig_hold(rig, "t");
}

static void set_rate(struct rig *rig, uint32_t topic, uint64_t rate, uint64_t burst)
{
    struct tr_policy p = tr_policy_default();

    p.rate_milli = rate * 1000;
    p.burst = burst;
    rig_policy(rig, topic, &p, TR_POLICY_BIT(RATE) | TR_POLICY_BIT(BURST));
}

static void set_in_flight(struct rig *rig, uint32_t topic, uint64_t most)
{
    struct tr_policy p = tr_policy_default();

    p.in_flight = most;
    rig_policy(rig, topic, &p, TR_POLICY_BIT(IN_FLIGHT));
}

static struct ask reserve(const uint32_t *topics, unsigned count, uint64_t holder, uint64_t wait_us)
{
    struct ask a = rig_ask(TR_OP_RESERVE);

    a.req.topics = topics;
    a.req.topic_count = count;
    a.req.holder = holder;
    a.req.wait_us = wait_us;
    a.req.ttr_us = 0;
    return a;
}

static unsigned take_all(struct rig *rig, uint32_t topic)
{
    unsigned count = 0;

    while (rig_reserve(rig, topic, ME) != 0) {
        count++;
    }
    return count;
}

static void test_limit_rate_and_burst(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        (void)rig_push(&rig, t, 0);
    }
    set_rate(&rig, t, 2, 5);
    assert_int_equal(take_all(&rig, t), 5);
    rig_pass(&rig, RIG_SECOND - 1);
    assert_int_equal(take_all(&rig, t), 1);
    rig_pass(&rig, 1);
    assert_int_equal(take_all(&rig, t), 1);
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_int_equal(take_all(&rig, t), 5); /* no more than the burst */
    rig_fini(&rig);
}

/* Who waits gets his job in the microsecond of the next token. */
static void test_limit_waiter_wakes_at_the_next_token(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = reserve(&t, 1, ME, TR_WAIT_FOREVER);
    struct ask b = reserve(&t, 1, OTHER, TR_WAIT_FOREVER);
    uint64_t next;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        (void)rig_push(&rig, t, 0);
    }
    set_rate(&rig, t, 4, 1);
    assert_int_equal(take_all(&rig, t), 1);
    rig_pass(&rig, 60 * RIG_SECOND); /* the bucket is full; the log and all else at rest */
    assert_int_equal(take_all(&rig, t), 1);
    rig_pass(&rig, 60 * RIG_SECOND);
    (void)rig_push(&rig, t, 0);
    (void)rig_push(&rig, t, 0);
    assert_int_equal(take_all(&rig, t), 1);
    rig_submit(&rig, &a);
    rig_submit(&rig, &b);
    next = rig_settle(&rig);
    assert_true(next <= rig.now.boot_us + RIG_SECOND / 4);
    rig_pass(&rig, RIG_SECOND / 4 - 1);
    assert_int_equal(a.done, 0);
    rig_pass(&rig, 1);
    assert_true(a.done != 0);
    assert_int_equal(b.done, 0);
    rig_pass(&rig, RIG_SECOND / 4 - 1);
    assert_int_equal(b.done, 0);
    rig_pass(&rig, 1);
    assert_true(b.done != 0);
    rig_fini(&rig);
}

/* Nobody waits, or nothing is ready: no timer. */
static void test_limit_no_timer_for_nobody(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = reserve(&t, 1, ME, TR_WAIT_FOREVER);

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        (void)rig_push(&rig, t, 0);
    }
    set_rate(&rig, t, 1, 1);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, rig_reserve(&rig, t, ME), ME), TARRY_OK);
    rig_submit(&rig, &a);
    rig_settle(&rig);
    tr_engine_abandon(rig.e, &a.req, rig.now);
    rig_pass(&rig, 60 * RIG_SECOND); /* checkpoint, idle */
    assert_true(rig_settle(&rig) == UINT64_MAX);
    rig_fini(&rig);
}

static void test_limit_passes_over_limited_topics(void **state)
{
    struct rig rig;
    uint32_t topics[2] = {start(&rig), rig_hold(&rig, "u")};
    struct ask a = reserve(topics, 2, ME, 0);
    uint64_t slow = rig_push(&rig, topics[0], 0);
    uint64_t slow2 = rig_push(&rig, topics[0], 0);
    uint64_t free = rig_push(&rig, topics[1], 0);

    (void)state;
    set_rate(&rig, topics[0], 1, 1);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.id, slow);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.id, free);
    assert_int_equal(rig_do(&rig, &a), TARRY_ETIMEOUT);
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.id, slow2);
    rig_fini(&rig);
}

static void test_limit_in_flight(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask wait = reserve(&t, 1, OTHER, TR_WAIT_FOREVER);
    uint64_t first;

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        (void)rig_push(&rig, t, 0);
    }
    set_in_flight(&rig, t, 2);
    first = rig_reserve(&rig, t, ME);
    assert_int_equal(take_all(&rig, t), 1);
    rig_submit(&rig, &wait);
    rig_settle(&rig);
    assert_int_equal(wait.done, 0);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, first, ME), TARRY_OK); /* one is gone */
    assert_true(wait.done != 0);
    rig_submit(&rig, &wait);
    rig_settle(&rig);
    assert_int_equal(wait.done, 0);
    rig_pass(&rig, RIG_TTR_US); /* leases run out, and one of them is taken again */
    assert_true(wait.done != 0);
    assert_int_equal(rig_stat(&rig, t).reserved, 1);
    rig_fini(&rig);
}

/* Who names a job gets it; it counts. */
static void test_limit_not_for_a_named_job(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t a = rig_push(&rig, t, 0);
    uint64_t b = rig_push(&rig, t, 0);

    (void)state;
    set_in_flight(&rig, t, 1);
    assert_int_equal(rig_reserve(&rig, t, ME), a);
    assert_int_equal(rig_with(&rig, TR_OP_RESERVE_JOB, b, ME), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, a, ME), TARRY_OK);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_fini(&rig);
}

static void test_limit_changes_at_once(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask wait = reserve(&t, 1, OTHER, TR_WAIT_FOREVER);
    struct tr_policy none = tr_policy_default();

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        (void)rig_push(&rig, t, 0);
    }
    set_rate(&rig, t, 1, 1);
    assert_int_equal(take_all(&rig, t), 1);
    rig_submit(&rig, &wait);
    rig_settle(&rig);
    assert_int_equal(wait.done, 0);
    rig_policy(&rig, t, &none, TR_POLICY_ALL & ~TR_POLICY_BIT(PAUSED));
    assert_true(wait.done != 0);
    assert_int_equal(take_all(&rig, t), 3);
    rig_fini(&rig);
}

/* A hand-out that reached nobody gives its token back. */
static void test_limit_refund(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask wait = reserve(&t, 1, OTHER, TR_WAIT_FOREVER);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    set_rate(&rig, t, 1, 1);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_submit(&rig, &wait);
    rig_settle(&rig);
    assert_int_equal(wait.done, 0);
    assert_int_equal(rig_with(&rig, TR_OP_RETURN, id, ME), TARRY_OK);
    assert_true(wait.done != 0);
    assert_int_equal(wait.req.out.job.id, id);
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, id, OTHER), TARRY_OK); /* that was a hand-out */
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    assert_int_equal(rig_with(&rig, TR_OP_RESERVE_JOB, id, ME), TARRY_OK); /* took no token */
    assert_int_equal(rig_with(&rig, TR_OP_RETURN, id, ME), TARRY_OK);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_rate_and_burst),
        cmocka_unit_test(test_limit_waiter_wakes_at_the_next_token),
        cmocka_unit_test(test_limit_no_timer_for_nobody),
        cmocka_unit_test(test_limit_passes_over_limited_topics),
        cmocka_unit_test(test_limit_in_flight),
        cmocka_unit_test(test_limit_not_for_a_named_job),
        cmocka_unit_test(test_limit_changes_at_once),
        cmocka_unit_test(test_limit_refund),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
