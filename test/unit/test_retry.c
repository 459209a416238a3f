/*
 * What becomes of jobs that were not finished: attempts, backoff, deaths; over leases, connections
 * and restarts.
 */

#include "base/err.h"
#include "rules/policy.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ME = 7 };

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig_open(rig);
    return rig_hold(rig, "t");
}

static void set_retries(struct rig *rig, uint32_t topic, int64_t retries)
{
    struct tr_policy p = tr_policy_default();

    p.retries = retries;
    rig_policy(rig, topic, &p, TR_POLICY_BIT(RETRIES));
}

static void set_backoff(struct rig *rig, uint32_t topic, uint64_t first_us, uint64_t then_us)
{
    struct tr_policy p = tr_policy_default();

    p.backoff = (struct tr_backoff){.count = 2, .list_us = {first_us, then_us}};
    rig_policy(rig, topic, &p, TR_POLICY_BIT(BACKOFF));
}

static struct ask push_of(uint32_t topic, bool beanstalk)
{
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = topic;
    a.req.beanstalk = beanstalk;
    a.req.body = (const uint8_t *)"x";
    a.req.body_len = 1;
    return a;
}

/* Takes the job by a lease that outlives connections, or by a connection. */
static uint64_t take(struct rig *rig, uint32_t topic, uint64_t holder)
{
    struct ask a = rig_ask(TR_OP_RESERVE);

    a.req.topics = &topic;
    a.req.topic_count = 1;
    a.req.holder = holder;
    a.req.ttr_us = holder == 0 ? RIG_TTR_US : 0;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.job.lease;
}

static struct tr_job_view release(struct rig *rig, uint64_t id, uint64_t lease)
{
    struct ask a = rig_ask(TR_OP_RELEASE);

    a.req.id = id;
    a.req.lease = lease;
    a.req.by_backoff = true;
    a.req.keep_priority = true;
    a.req.priority = 1;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.job;
}

static void test_retry_backoff_says_how_long(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct tr_job_view v;
    uint64_t id;

    (void)state;
    set_backoff(&rig, t, 4 * RIG_SECOND, 60 * RIG_SECOND);
    id = rig_push(&rig, t, 0);
    v = release(&rig, id, take(&rig, t, 0));
    assert_int_equal(v.state, TR_DELAYED);
    assert_int_equal(v.due_us, rig.now.wall_us + 4 * RIG_SECOND);
    assert_int_equal(v.delay_us, 4 * RIG_SECOND);
    assert_int_equal(v.priority, 100); /* kept */
    rig_pass(&rig, 4 * RIG_SECOND);
    v = release(&rig, id, take(&rig, t, 0)); /* its second attempt */
    assert_int_equal(v.due_us, rig.now.wall_us + 60 * RIG_SECOND);
    rig_fini(&rig);
}

/* The default grows from a second, and jitter only adds. */
static void test_retry_default_backoff(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct tr_job_view v;

    (void)state;
    for (uint64_t base = RIG_SECOND; base <= 8 * RIG_SECOND; base *= 2) {
        v = release(&rig, id, take(&rig, t, 0));
        assert_in_range(v.due_us, rig.now.wall_us + base, rig.now.wall_us + base + base / 10);
        rig_pass(&rig, 2 * base);
    }
    rig_fini(&rig);
}

static void test_retry_own_backoff_comes_first(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct tr_backoff own = {.count = 1, .list_us = {7 * RIG_SECOND}};
    struct ask a = push_of(t, true);
    struct tr_job_view v;

    (void)state;
    a.req.backoff = &own;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    set_backoff(&rig, t, RIG_SECOND, RIG_SECOND);
    v = release(&rig, a.req.out.job.id, take(&rig, t, 0));
    assert_int_equal(v.due_us, rig.now.wall_us + 7 * RIG_SECOND);
    rig_fini(&rig);
}

/* A job of the beanstalk port has a backoff only if the policy says so. */
static void test_retry_beanstalk_has_no_backoff(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = push_of(t, true);
    struct tr_job_view v;

    (void)state;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    for (unsigned i = 0; i < 2; i++) { /* also if it says so later */
        v = release(&rig, a.req.out.job.id, take(&rig, t, 0));
        assert_int_equal(v.state, TR_READY);
        set_backoff(&rig, t, RIG_SECOND, RIG_SECOND);
    }
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, a.req.out.job.id, 0), TARRY_OK);
    a = push_of(t, true);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    v = release(&rig, a.req.out.job.id, take(&rig, t, 0));
    assert_int_equal(v.state, TR_DELAYED);
    rig_fini(&rig);
}

static void test_retry_release_after_the_last_attempt(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = rig_ask(TR_OP_RELEASE);
    struct tr_job_view v;
    uint64_t id;

    (void)state;
    set_retries(&rig, t, 1);
    id = rig_push(&rig, t, 0);
    (void)take(&rig, t, ME);
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, id, ME), TARRY_OK);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    (void)take(&rig, t, ME);
    a.req.id = id; /* its own delay does not help */
    a.req.holder = ME;
    a.req.delay_us = RIG_SECOND;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.state, TR_DEAD);
    v = rig_view(&rig, id);
    assert_int_equal(v.state, TR_DEAD);
    assert_int_equal(v.dead_why, TR_WHY_RETRIES);
    assert_int_equal(v.dead_at_us, rig.now.wall_us);
    assert_int_equal(v.releases, 2);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig_view(&rig, id).dead_why, TR_WHY_RETRIES);
    rig_fini(&rig);
}

/* 16 without a policy, over HTTP; and no end over beanstalk. */
static void test_retry_default_is_sixteen(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    for (unsigned beanstalk = 0; beanstalk < 2; beanstalk++) {
        struct ask a = push_of(t, beanstalk != 0);
        unsigned attempts = 0;

        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
        while (attempts < 30 && rig_state(&rig, a.req.out.job.id) != TR_DEAD) {
            (void)take(&rig, t, ME);
            assert_int_equal(rig_with(&rig, TR_OP_RELEASE, a.req.out.job.id, ME), TARRY_OK);
            attempts++;
        }
        assert_int_equal(attempts, beanstalk != 0 ? 30 : 17);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, a.req.out.job.id, 0), TARRY_OK);
    }
    rig_fini(&rig);
}

static void test_retry_own_retries_come_first(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = push_of(t, true);

    (void)state;
    a.req.has_retries = true;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK); /* none */
    set_retries(&rig, t, 5);
    (void)take(&rig, t, ME);
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, a.req.out.job.id, ME), TARRY_OK);
    assert_int_equal(rig_state(&rig, a.req.out.job.id), TR_DEAD);
    rig_fini(&rig);
}

/* A lease that outlives connections runs out: the backoff counts from then. */
static void test_retry_lease_runs_out(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct tr_job_view v;
    uint64_t id;

    (void)state;
    set_backoff(&rig, t, 5 * RIG_SECOND, 5 * RIG_SECOND);
    set_retries(&rig, t, 1);
    id = rig_push(&rig, t, 0);
    (void)take(&rig, t, 0);
    rig_pass(&rig, RIG_TTR_US);
    v = rig_view(&rig, id);
    assert_int_equal(v.state, TR_DELAYED);
    assert_int_equal(v.due_us, rig.now.wall_us + 5 * RIG_SECOND);
    assert_int_equal(v.timeouts, 1);
    rig_pass(&rig, 5 * RIG_SECOND);
    (void)take(&rig, t, 0);
    rig_pass(&rig, RIG_TTR_US);
    v = rig_view(&rig, id);
    assert_int_equal(v.state, TR_DEAD);
    assert_int_equal(v.dead_why, TR_WHY_RETRIES);
    assert_int_equal(v.timeouts, 2);
    rig_fini(&rig);
}

/* One that a connection has is ready at once, as beanstalkd does, or dead. */
static void test_retry_lease_of_a_connection(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id;

    (void)state;
    set_backoff(&rig, t, 5 * RIG_SECOND, 5 * RIG_SECOND);
    set_retries(&rig, t, 1);
    id = rig_push(&rig, t, 0);
    (void)take(&rig, t, ME);
    rig_pass(&rig, RIG_TTR_US);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    (void)take(&rig, t, ME);
    rig_pass(&rig, RIG_TTR_US);
    assert_int_equal(rig_state(&rig, id), TR_DEAD);
    rig_fini(&rig);
}

/* A worker that dies with each job it takes must not take them for ever. */
static void test_retry_connection_goes_away(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id;

    (void)state;
    set_retries(&rig, t, 1);
    id = rig_push(&rig, t, 0);
    (void)take(&rig, t, ME);
    assert_int_equal(rig_with(&rig, TR_OP_CLOSE, 0, ME), TARRY_OK);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    (void)take(&rig, t, ME);
    assert_int_equal(rig_with(&rig, TR_OP_CLOSE, 0, ME), TARRY_OK);
    assert_int_equal(rig_state(&rig, id), TR_DEAD);
    rig_fini(&rig);
}

static void test_retry_lease_ends_while_closed(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct tr_policy p = tr_policy_default();
    uint64_t id;
    uint64_t other;
    struct ask a;

    (void)state;
    p.retries = 1;
    p.backoff = (struct tr_backoff){.count = 1, .list_us = {3 * RIG_SECOND}};
    rig_policy(&rig, t, &p, TR_POLICY_BIT(BACKOFF) | TR_POLICY_BIT(RETRIES));
    id = rig_push(&rig, t, 0);
    other = rig_push(&rig, t, 0);
    (void)take(&rig, t, 0);
    (void)take(&rig, t, 0);
    rig_close(&rig);
    rig.now.wall_us += 3600 * RIG_SECOND;
    rig.now.boot_us += 3600 * RIG_SECOND;
    rig_open(&rig);
    rig_settle(&rig);
    assert_int_equal(rig_view(&rig, id).due_us, rig.now.wall_us + 3 * RIG_SECOND);
    assert_int_equal(rig_view(&rig, other).state, TR_DELAYED);
    rig_pass(&rig, 3 * RIG_SECOND);
    t = rig_hold(&rig, "t");
    (void)take(&rig, t, 0);
    (void)rig_push(&rig, t, 0); /* whose answer waits for the log, the attempt is in it, too */
    rig_kill(&rig);
    rig.now.wall_us += 3600 * RIG_SECOND;
    rig.now.boot_us += 3600 * RIG_SECOND;
    rig_open(&rig);
    rig_settle(&rig);
    assert_int_equal(rig_view(&rig, id).dead_why, TR_WHY_RETRIES);
    a = rig_ask(TR_OP_KICK_JOB);
    a.req.id = id;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.reserves, 0); /* its attempts are counted anew */
    rig_fini(&rig);
}

/* A kick counts attempts anew; that of the beanstalk port only if they are used up. */
static void test_retry_kick_counts_anew(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        bool beanstalk = i % 2 != 0;
        bool used_up = i >= 2;
        struct ask a = rig_ask(i == 0 ? TR_OP_KICK : TR_OP_KICK_JOB);
        uint64_t id;

        set_retries(&rig, t, used_up ? 0 : 5);
        id = rig_push(&rig, t, 0);
        (void)take(&rig, t, ME);
        assert_int_equal(rig_with(&rig, used_up ? TR_OP_RELEASE : TR_OP_BURY, id, ME), TARRY_OK);
        assert_int_equal(rig_state(&rig, id), TR_DEAD);
        a.req.id = id;
        a.req.topic = t;
        a.req.count = 1;
        a.req.beanstalk = beanstalk;
        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
        assert_int_equal(rig_view(&rig, id).reserves, beanstalk && !used_up ? 1 : 0);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    }
    rig_fini(&rig);
}

/* RETURN takes the attempt back. */
static void test_retry_return_is_no_attempt(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id;

    (void)state;
    set_retries(&rig, t, 0);
    id = rig_push(&rig, t, 0);
    for (unsigned i = 0; i < 3; i++) {
        (void)take(&rig, t, ME);
        assert_int_equal(rig_with(&rig, TR_OP_RETURN, id, ME), TARRY_OK);
    }
    assert_int_equal(rig_state(&rig, id), TR_READY);
    (void)take(&rig, t, ME);
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, id, ME), TARRY_OK);
    assert_int_equal(rig_state(&rig, id), TR_DEAD);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retry_backoff_says_how_long),
        cmocka_unit_test(test_retry_default_backoff),
        cmocka_unit_test(test_retry_own_backoff_comes_first),
        cmocka_unit_test(test_retry_beanstalk_has_no_backoff),
        cmocka_unit_test(test_retry_release_after_the_last_attempt),
        cmocka_unit_test(test_retry_default_is_sixteen),
        cmocka_unit_test(test_retry_own_retries_come_first),
        cmocka_unit_test(test_retry_lease_runs_out),
        cmocka_unit_test(test_retry_lease_of_a_connection),
        cmocka_unit_test(test_retry_connection_goes_away),
        cmocka_unit_test(test_retry_lease_ends_while_closed),
        cmocka_unit_test(test_retry_kick_counts_anew),
        cmocka_unit_test(test_retry_return_is_no_attempt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
