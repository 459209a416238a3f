/*
 * Jobs that are not handed out in time, and dead ones that are kept for too long or are too many.
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

static void set_ttl(struct rig *rig, uint32_t topic, uint64_t ttl_us)
{
    struct tr_policy p = tr_policy_default();

    p.ttl_us = ttl_us;
    rig_policy(rig, topic, &p, TR_POLICY_BIT(TTL));
}

static uint64_t push_ttl(struct rig *rig, uint32_t topic, uint64_t delay_us, uint64_t ttl_us)
{
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = topic;
    a.req.delay_us = delay_us;
    a.req.ttl_us = ttl_us;
    a.req.body = (const uint8_t *)"x";
    a.req.body_len = 1;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.job.id;
}

static uint64_t bury_one(struct rig *rig, uint32_t topic)
{
    uint64_t id = rig_push(rig, topic, 0);

    assert_int_equal(rig_reserve(rig, topic, ME), id);
    assert_int_equal(rig_with(rig, TR_OP_BURY, id, ME), TARRY_OK);
    return id;
}

/* ---- ttl ---- */

static void test_expiry_own_ttl(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = push_ttl(&rig, t, 3 * RIG_SECOND, 2 * RIG_SECOND);
    struct tr_job_view v;

    (void)state;
    rig_pass(&rig, 5 * RIG_SECOND - 1); /* counted from due */
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_pass(&rig, 1);
    v = rig_view(&rig, id);
    assert_int_equal(v.state, TR_DEAD);
    assert_int_equal(v.dead_why, TR_WHY_EXPIRED);
    assert_int_equal(v.dead_at_us, rig.now.wall_us);
    assert_int_equal(rig_stat(&rig, t).ready, 0);
    assert_int_equal(rig_stat(&rig, t).dead, 1);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig_view(&rig, id).dead_why, TR_WHY_EXPIRED);
    rig_fini(&rig);
}

/* Also when nobody has looked at the timers yet. */
static void test_expiry_tested_at_the_hand_out(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t over = push_ttl(&rig, t, 0, RIG_SECOND);
    uint64_t good = push_ttl(&rig, t, 0, 0);
    struct ask a = rig_ask(TR_OP_RESERVE);
    struct ask peek = rig_ask(TR_OP_STAT_JOB);

    (void)state;
    rig.now.wall_us += 2 * RIG_SECOND;
    rig.now.boot_us += 2 * RIG_SECOND;
    a.req.topics = &t;
    a.req.topic_count = 1;
    a.req.holder = ME;
    a.req.ttr_us = 0;
    rig_submit(&rig, &a); /* no turn before it */
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.job.id, good);
    peek.req.id = over;
    rig_submit(&rig, &peek);
    assert_true(peek.done != 0);
    assert_int_equal(peek.req.out.job.state, TR_DEAD);
    rig_settle(&rig);
    rig_fini(&rig);
}

static void test_expiry_look_settles(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = push_ttl(&rig, t, 0, RIG_SECOND);
    struct ask peek = rig_ask(TR_OP_STAT_JOB);
    struct ask stat = rig_ask(TR_OP_STAT_TOPIC);

    (void)state;
    rig.now.wall_us += 2 * RIG_SECOND;
    rig.now.boot_us += 2 * RIG_SECOND;
    stat.req.topic = t;
    rig_submit(&rig, &stat); /* waits until it is true */
    peek.req.id = id;
    rig_submit(&rig, &peek);
    assert_int_equal(peek.req.out.job.state, TR_DEAD);
    rig_settle(&rig);
    assert_true(stat.done != 0);
    assert_int_equal(stat.req.out.stat.ready, 0);
    assert_int_equal(stat.req.out.stat.dead, 1);
    rig_fini(&rig);
}

/* One that was handed out once does not expire; a hand-out that reached nobody is none. */
static void test_expiry_not_after_a_hand_out(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t had = push_ttl(&rig, t, 0, RIG_SECOND);
    uint64_t returned;

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, ME), had);
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, had, ME), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_RESERVE_JOB, had, ME), TARRY_OK);
    returned = push_ttl(&rig, t, 0, RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, ME), returned);
    assert_int_equal(rig_with(&rig, TR_OP_RETURN, returned, ME), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, had, ME), TARRY_OK);
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_int_equal(rig_state(&rig, had), TR_READY);
    assert_int_equal(rig_state(&rig, returned), TR_DEAD);
    rig_fini(&rig);
}

/* The topic's at the push counts for those that were given none of their own; no later one does. */
static void test_expiry_ttl_of_the_topic(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t none = push_ttl(&rig, t, 0, 0);
    uint64_t given;
    uint64_t own;

    (void)state;
    set_ttl(&rig, t, 20 * RIG_SECOND);
    given = push_ttl(&rig, t, 0, 0);
    own = push_ttl(&rig, t, 0, 100 * RIG_SECOND);
    set_ttl(&rig, t, 15 * RIG_SECOND); /* shorter, */
    rig_pass(&rig, 20 * RIG_SECOND - 1);
    assert_int_equal(rig_state(&rig, given), TR_READY);
    set_ttl(&rig, t, 30 * RIG_SECOND); /* longer */
    rig_pass(&rig, 1);
    assert_int_equal(rig_state(&rig, given), TR_DEAD);
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_int_equal(rig_state(&rig, own), TR_READY);
    assert_int_equal(rig_state(&rig, none), TR_READY);
    rig_fini(&rig);
}

/* A kick counts from then on. */
static void test_expiry_kick_counts_anew(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = push_ttl(&rig, t, 0, RIG_SECOND);

    (void)state;
    rig_pass(&rig, 5 * RIG_SECOND);
    assert_int_equal(rig_state(&rig, id), TR_DEAD);
    assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, id, 0), TARRY_OK);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_pass(&rig, RIG_SECOND - 1);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_pass(&rig, 1);
    assert_int_equal(rig_state(&rig, id), TR_DEAD);
    rig_fini(&rig);
}

/* While the store is closed, too. */
static void test_expiry_while_closed(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = push_ttl(&rig, t, RIG_SECOND, RIG_SECOND);

    (void)state;
    rig_close(&rig);
    rig.now.wall_us += 100 * RIG_SECOND;
    rig.now.boot_us += 100 * RIG_SECOND;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    assert_int_equal(rig_state(&rig, id), TR_DEAD);
    rig_fini(&rig);
}

/* ---- the dead ---- */

/* A crowd that is over makes those wait who ask for its topic, and nobody else. */
static void test_expiry_of_other_topics(void **state)
{
    struct rig rig;
    uint32_t topics[3];
    struct ask asks[3];

    (void)state;
    rig_init(&rig);
    rig.config.slice = 20;
    rig_open(&rig);
    topics[0] = rig_hold(&rig, "none");
    topics[1] = rig_hold(&rig, "later");
    topics[2] = rig_hold(&rig, "crowd");
    (void)rig_push(&rig, topics[0], 0);
    (void)push_ttl(&rig, topics[1], 0, 60 * RIG_SECOND);
    for (unsigned i = 0; i < 300; i++) {
        (void)push_ttl(&rig, topics[2], 0, 5 * RIG_SECOND);
    }
    rig.now.wall_us += 6 * RIG_SECOND;
    rig.now.boot_us += 6 * RIG_SECOND;
    (void)rig_turn(&rig);
    for (unsigned i = 0; i < 3; i++) {
        asks[i] = rig_ask(TR_OP_STAT_TOPIC);
        asks[i].req.topic = topics[i];
        rig_submit(&rig, &asks[i]);
        assert_true((asks[i].done != 0) == (i < 2));
    }
    assert_int_equal(asks[1].req.out.stat.ready, 1);
    rig_settle(&rig);
    assert_true(asks[2].done != 0);
    assert_int_equal(asks[2].req.out.stat.ready, 0);
    assert_int_equal(asks[2].req.out.stat.dead, 300);
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_int_equal(rig_stat(&rig, topics[1]).dead, 1);
    rig_fini(&rig);
}

static void test_drop_dead_max(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct tr_policy p = tr_policy_default();
    uint64_t ids[4];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        ids[i] = bury_one(&rig, t);
    }
    p.dead_max = 2;
    rig_policy(&rig, t, &p, TR_POLICY_BIT(DEAD_MAX));
    assert_int_equal(rig_state(&rig, ids[0]), 0); /* the oldest goes */
    ids[3] = bury_one(&rig, t);
    assert_int_equal(rig_state(&rig, ids[1]), 0);
    assert_int_equal(rig_state(&rig, ids[2]), TR_DEAD);
    assert_int_equal(rig_state(&rig, ids[3]), TR_DEAD);
    assert_int_equal(rig_stat(&rig, t).dropped, 2);
    assert_int_equal(rig_stat(&rig, t).deleted, 0);
    assert_int_equal(rig_stat(&rig, 0).dropped, 2);
    rig_fini(&rig);
}

static void test_drop_dead_keep(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct tr_policy p = tr_policy_default();
    uint64_t first = bury_one(&rig, t);
    uint64_t second;

    (void)state;
    p.dead_keep_us = 10 * RIG_SECOND;
    rig_policy(&rig, t, &p, TR_POLICY_BIT(DEAD_KEEP));
    rig_pass(&rig, 4 * RIG_SECOND);
    second = bury_one(&rig, t);
    rig_pass(&rig, 6 * RIG_SECOND - 1);
    assert_int_equal(rig_state(&rig, first), TR_DEAD);
    rig_pass(&rig, 1);
    assert_int_equal(rig_state(&rig, first), 0);
    assert_int_equal(rig_state(&rig, second), TR_DEAD);
    rig_close(&rig);
    rig.now.wall_us += 60 * RIG_SECOND;
    rig.now.boot_us += 60 * RIG_SECOND;
    rig_open(&rig);
    rig_settle(&rig);
    assert_int_equal(rig_state(&rig, second), 0);
    rig_fini(&rig);
}

/* 30 days if nobody says otherwise; then nothing is armed any more. */
static void test_drop_default_is_thirty_days(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = bury_one(&rig, t);
    uint64_t day = UINT64_C(86400) * RIG_SECOND;

    (void)state;
    rig_pass(&rig, 30 * day - 1);
    assert_int_equal(rig_state(&rig, id), TR_DEAD);
    rig_pass(&rig, 1);
    assert_int_equal(rig_state(&rig, id), 0);
    rig_pass(&rig, day);
    assert_true(rig_settle(&rig) == UINT64_MAX);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expiry_own_ttl),
        cmocka_unit_test(test_expiry_tested_at_the_hand_out),
        cmocka_unit_test(test_expiry_look_settles),
        cmocka_unit_test(test_expiry_not_after_a_hand_out),
        cmocka_unit_test(test_expiry_ttl_of_the_topic),
        cmocka_unit_test(test_expiry_kick_counts_anew),
        cmocka_unit_test(test_expiry_while_closed),
        cmocka_unit_test(test_expiry_of_other_topics),
        cmocka_unit_test(test_drop_dead_max),
        cmocka_unit_test(test_drop_dead_keep),
        cmocka_unit_test(test_drop_default_is_thirty_days),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
