/* Purged topics, on the simulated disk. */

#include "base/err.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR (3600 * RIG_SECOND)
#define ME UINT64_C(7)

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.far_max = 50;
    rig->config.promote_slots = 2;
    rig_open(rig);
    return rig_hold(rig, "t");
}

/* Only executed: nothing is cleared away yet. */
static uint64_t purge_now(struct rig *rig, uint32_t t)
{
    struct ask a = rig_ask(TR_OP_PURGE);

    a.req.topic = t;
    rig_submit(rig, &a);
    assert_true(a.done);
    assert_int_equal(a.req.out.status, TARRY_OK);
    return a.req.out.number;
}

static struct tr_engine_stat stat(const struct rig *rig)
{
    return rig_engine_stat(rig);
}

static void fill(struct rig *rig, uint32_t t, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)rig_push_body(rig, t, HOUR + (i * 7919 % count) * RIG_SECOND, 1000);
    }
    rig_pass(rig, RIG_SECOND);
}

/* Many topics are purged in one go: none of the calls has much to do. */
static void test_purge_many_topics(void **state)
{
    enum { TOPICS = 20 };
    struct ask *purges = calloc(TOPICS, sizeof *purges);
    struct rig rig;
    uint32_t first = start(&rig);
    unsigned done = 0;

    (void)state;
    assert_non_null(purges);
    for (unsigned i = 0; i < TOPICS; i++) {
        char name[8];
        uint32_t t;

        (void)snprintf(name, sizeof name, "t%u", i);
        t = i == 0 ? first : rig_hold(&rig, name);
        purges[i] = rig_ask(TR_OP_PURGE);
        purges[i].req.topic = t;
        for (unsigned k = 0; k < 5; k++) {
            (void)rig_push(&rig, t, k * HOUR);
        }
    }
    for (unsigned i = 0; i < TOPICS; i++) {
        rig_submit(&rig, &purges[i]);
        done += purges[i].done != 0;
    }
    assert_int_equal(done, 16); /* the others wait until cells of these have gone */
    (void)rig_settle(&rig);
    for (unsigned i = 0; i < TOPICS; i++) {
        assert_true(purges[i].done != 0);
        assert_int_equal(purges[i].req.out.status, TARRY_OK);
        assert_int_equal(purges[i].req.out.number, 5);
    }
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(stat(&rig).jobs, 0);
    assert_int_equal(stat(&rig).purged, 0);
    free(purges);
    rig_fini(&rig);
}

static void test_purge_every_state(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t other = rig_hold(&rig, "other");
    uint64_t dead = rig_push(&rig, t, 0);
    uint64_t held;
    uint64_t ready;
    uint64_t far;
    uint64_t kept = rig_push(&rig, other, 0);
    uint64_t later;

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, ME), dead);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, dead, ME), TARRY_OK);
    held = rig_push(&rig, t, 0);
    assert_int_equal(rig_reserve(&rig, t, ME), held);
    ready = rig_push(&rig, t, 0);
    far = rig_push(&rig, t, HOUR);
    assert_int_equal(purge_now(&rig, t), 4);
    assert_int_equal(rig_stat(&rig, t).ready, 0);
    assert_int_equal(rig_stat(&rig, t).delayed, 0);
    assert_int_equal(rig_stat(&rig, t).reserved, 0);
    assert_int_equal(rig_stat(&rig, t).dead, 0);
    assert_int_equal(stat(&rig).jobs, 1);
    assert_int_equal(rig_state(&rig, ready), 0);
    assert_int_equal(rig_state(&rig, far), 0);
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, held, ME), TARRY_ENOTFOUND);
    assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, dead, 0), TARRY_ENOTFOUND);
    assert_int_equal(purge_now(&rig, t), 0);
    later = rig_push(&rig, t, 0);
    (void)rig_settle(&rig);
    assert_int_equal(stat(&rig).purged, 0);
    assert_int_equal(rig_reserve(&rig, t, ME), later);
    assert_int_equal(rig_reserve(&rig, other, ME), kept);
    assert_int_equal(rig_hold(&rig, "t"), t); /* under the same number, to the outside */
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(stat(&rig).jobs, 2);
    rig_fini(&rig);
}

/* Who waits goes on waiting, and a pause goes on. */
static void test_purge_keeps_the_topic(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask wait = rig_ask(TR_OP_RESERVE);
    struct ask pause = rig_ask(TR_OP_PAUSE);
    uint64_t id;

    (void)state;
    (void)rig_push(&rig, t, HOUR);
    wait.req.topics = &t;
    wait.req.topic_count = 1;
    wait.req.holder = ME;
    wait.req.wait_us = TR_WAIT_FOREVER;
    rig_submit(&rig, &wait);
    pause.req.topic = t;
    pause.req.wait_us = 5 * RIG_SECOND;
    assert_int_equal(rig_do(&rig, &pause), TARRY_OK);
    assert_int_equal(purge_now(&rig, t), 1);
    assert_int_equal(rig_stat(&rig, t).waiting, 1);
    assert_int_equal(rig_stat(&rig, t).pause_left_us, 5 * RIG_SECOND);
    id = rig_push(&rig, t, 0);
    assert_false(wait.done);
    rig_pass(&rig, 5 * RIG_SECOND);
    assert_true(wait.done);
    assert_int_equal(wait.req.out.job.id, id);
    rig_fini(&rig);
}

/* Slots, runs and memory: nothing is left, not even a file. */
static void test_purge_clears_away(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    fill(&rig, t, 400);
    assert_true(stat(&rig).runs > 100);
    assert_int_equal(purge_now(&rig, t), 400);
    assert_int_equal(stat(&rig).jobs, 0);
    (void)rig_settle(&rig);
    assert_int_equal(stat(&rig).purged, 0);
    assert_int_equal(stat(&rig).far, 0);
    rig_pass(&rig, 120 * RIG_SECOND);
    assert_int_equal(sim_disk_count_names(rig.disk, "g"), 0);
    assert_true(tr_engine_ok(rig.e));
    rig_fini(&rig);
}

static struct ask *push_ask(struct ask *a, uint32_t t)
{
    *a = rig_ask(TR_OP_PUSH);
    a->req.topic = t;
    a->req.delay_us = 2 * HOUR;
    a->req.body = (const uint8_t *)"x";
    a->req.body_len = 1;
    return a;
}

/* A crash at once, in the middle, twice: they stay dead, and what was pushed later stays. */
static void test_purge_survives_crashes(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask purge = rig_ask(TR_OP_PURGE);
    struct ask push;
    uint64_t later;

    (void)state;
    fill(&rig, t, 400);
    rig_close(&rig);
    rig.config.slice = 20; /* so that it takes many turns */
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    rig_submit(&rig, push_ask(&push, t));
    purge.req.topic = t;
    rig_submit(&rig, &purge);
    rig_submit(&rig, push_ask(&push, t));
    later = push.req.out.job.id;
    while (rig.durable < push.req.out.gate) {
        (void)rig_turn(&rig);
        (void)sim_disk_step(rig.disk);
    }
    assert_int_equal(purge.req.out.number, 401);
    assert_true(stat(&rig).purged > 100);
    rig_power_cut(&rig);
    for (unsigned i = 0; i < 4; i++) {
        rig_open(&rig);
        assert_int_equal(stat(&rig).jobs, 1);
        t = rig_hold(&rig, "t");
        assert_int_equal(rig_stat(&rig, t).delayed, 1);
        assert_int_equal(rig_state(&rig, later), TR_DELAYED);
        assert_int_equal(rig_state(&rig, later - 1), 0);
        if (i % 2 == 0) {
            rig_kill(&rig);
        } else {
            rig_close(&rig);
        }
    }
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(stat(&rig).purged, 0);
    assert_int_equal(rig_reserve(&rig, t, ME), later);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_purge_every_state),      cmocka_unit_test(test_purge_many_topics),
        cmocka_unit_test(test_purge_keeps_the_topic),  cmocka_unit_test(test_purge_clears_away),
        cmocka_unit_test(test_purge_survives_crashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
