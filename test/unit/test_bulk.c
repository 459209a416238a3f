/* Many jobs at once, on the simulated disk. */

#include "base/err.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

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

/* Memory, slots and runs. */
static void fill(struct rig *rig, uint32_t t, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)rig_push_body(rig, t, RIG_SECOND * (10 + (i * 7919 % count) * 20), 1000);
    }
    rig_pass(rig, RIG_SECOND);
    assert_true(rig_engine_stat(rig).runs > count / 4);
    assert_true(rig_engine_stat(rig).far > rig_engine_stat(rig).runs);
}

static struct ask bulk(uint32_t t, enum tr_bulk_what what)
{
    struct ask a = rig_ask(TR_OP_BULK);

    a.req.topic = t;
    a.req.bulk = what;
    return a;
}

static void test_bulk_refuses(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = bulk(t, TR_BULK_COUNT);

    (void)state;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a = bulk(t + 1, TR_BULK_CANCEL);
    assert_int_equal(rig_do(&rig, &a), TARRY_ENOTFOUND);
    a = bulk(t, TR_BULK_SHIFT);
    a.req.shift_us = -(int64_t)TR_DELAY_MAX_US - 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a = bulk(t, TR_BULK_SHIFT);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.number, 0);
    rig_fini(&rig);
}

/* Of all topics, but only those with a tag; and a shift to a moment. */
static void test_bulk_all_topics_and_tags(void **state)
{
    static const uint8_t body[1000];
    enum { JOBS = 300 };
    struct rig rig;
    uint32_t topics[2] = {start(&rig), rig_hold(&rig, "u")};
    uint64_t at_us = rig.now.wall_us + 7777 * RIG_SECOND;
    uint64_t ids[JOBS];
    struct ask a;

    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        a = rig_ask(TR_OP_PUSH);
        a.req.topic = topics[i % 2];
        a.req.tag = i % 3 == 0 ? "x" : "y";
        a.req.tag_len = 1;
        a.req.delay_us = (10 + i * 7919 % JOBS * 20) * RIG_SECOND;
        a.req.body = body;
        a.req.body_len = sizeof body;
        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
        ids[i] = a.req.out.job.id;
    }
    rig_pass(&rig, RIG_SECOND);
    assert_true(rig_engine_stat(&rig).runs > 50);
    a = bulk(0, TR_BULK_SHIFT);
    a.req.at_us = at_us;
    a.req.filter.tag = "x";
    a.req.filter.tag_len = 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.number, JOBS / 3);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_true((rig_view(&rig, ids[i]).due_us == at_us) == (i % 3 == 0));
    }
    a = bulk(topics[1], TR_BULK_CANCEL);
    a.req.filter.tag = "y";
    a.req.filter.tag_len = 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.number, JOBS / 3);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_true((rig_state(&rig, ids[i]) == 0) == (i % 2 == 1 && i % 3 != 0));
    }
    a = bulk(0, TR_BULK_CANCEL);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.number, JOBS - JOBS / 3);
    assert_int_equal(rig_engine_stat(&rig).jobs, 0);
    rig_fini(&rig);
}

static void test_bulk_cancels(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a;
    uint64_t held = rig_push(&rig, t, 0);
    uint64_t loaded;

    (void)state;
    fill(&rig, t, 400);
    assert_int_equal(rig_reserve(&rig, t, ME), held);
    loaded = rig_engine_stat(&rig).loaded;
    a = bulk(t, TR_BULK_CANCEL);
    a.req.dry_run = true;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.number, 400);
    assert_int_equal(a.req.out.passed, 1);
    assert_int_equal(rig_engine_stat(&rig).jobs, 401);
    a = bulk(t, TR_BULK_CANCEL);
    a.req.filter.due_to_us = rig.now.wall_us + 100 * 20 * RIG_SECOND;
    a.req.count = 10;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.number, 10);
    assert_true(a.req.out.cursor.more);
    a.req.cursor = a.req.out.cursor;
    a.req.count = 0;
    a.done = 0;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_false(a.req.out.cursor.more);
    assert_in_range(a.req.out.number, 88, 92);
    a.req.cursor.id++; /* nobody gave this one */
    a.done = 0;
    assert_int_equal(rig_do(&rig, &a), TARRY_ESTATE);
    assert_int_equal(rig_engine_stat(&rig).loaded, loaded); /* they die where they are */
    a = bulk(t, TR_BULK_CANCEL);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_engine_stat(&rig).jobs, 1);
    assert_int_equal(rig_state(&rig, held), TR_RESERVED);
    assert_true(tr_engine_ok(rig.e));
    rig_kill(&rig);
    rig_open(&rig);
    assert_int_equal(rig_engine_stat(&rig).jobs, 1);
    rig_fini(&rig);
}

/* Each once, also those whose body is too long to be written again. */
static void test_bulk_shifts_once(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a;
    struct tr_job_view before[3];
    uint64_t id[3];

    (void)state;
    fill(&rig, t, 200);
    id[0] = rig_push_body(&rig, t, 2 * HOUR, 10000);
    id[1] = rig_push_body(&rig, t, 30 * RIG_SECOND, 10000);
    id[2] = rig_push(&rig, t, 3 * HOUR);
    for (unsigned i = 0; i < 3; i++) {
        before[i] = rig_view(&rig, id[i]);
    }
    a = bulk(t, TR_BULK_SHIFT);
    a.req.shift_us = (int64_t)HOUR;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.number, 203);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(rig_view(&rig, id[i]).due_us, before[i].due_us + HOUR);
    }
    assert_int_equal(rig_stat(&rig, t).delayed, 203);
    a = bulk(t, TR_BULK_SHIFT);
    a.req.shift_us = -2 * (int64_t)HOUR;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_view(&rig, id[1]).due_us, rig.now.wall_us); /* the past means now */
    assert_int_equal(rig_view(&rig, id[0]).due_us, before[0].due_us - HOUR);
    rig_fini(&rig);
}

/* By parts, each of which ends while far jobs wait to be changed; and each job once. */
static void test_bulk_shifts_by_parts(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = bulk(t, TR_BULK_SHIFT);
    uint64_t before[401] = {0};
    uint64_t done = 0;

    (void)state;
    fill(&rig, t, 400);
    for (uint64_t id = 1; id <= 400; id++) {
        before[id] = rig_view(&rig, id).due_us;
    }
    rig_pass(&rig, 5 * RIG_SECOND); /* who was looked at leaves memory again */
    a.req.shift_us = (int64_t)HOUR;
    a.req.count = 30;
    do {
        a.done = 0;
        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
        assert_true(a.req.out.number <= 30);
        done += a.req.out.number;
        a.req.cursor = a.req.out.cursor;
    } while (a.req.out.cursor.more);
    assert_int_equal(done, rig_engine_stat(&rig).jobs);
    for (uint64_t id = 1; id <= 400; id++) {
        assert_int_equal(rig_view(&rig, id).due_us, before[id] + HOUR);
    }
    rig_fini(&rig);
}

static void test_bulk_kicks(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a;
    uint64_t dead = rig_push(&rig, t, 0);

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, ME), dead);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, dead, ME), TARRY_OK);
    fill(&rig, t, 200);
    a = bulk(t, TR_BULK_KICK);
    a.req.filter.states = 1U << TR_DEAD;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.number, 1);
    assert_int_equal(rig_state(&rig, dead), TR_READY);
    a = bulk(t, TR_BULK_KICK);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_stat(&rig, t).ready, 201);
    assert_int_equal(rig_engine_stat(&rig).far, 0);
    rig_fini(&rig);
}

/* Its maker leaves, and it goes on. */
static void test_bulk_goes_on_alone(void **state)
{
    struct rig rig;
    uint32_t t;
    struct ask a;

    (void)state;
    rig_init(&rig);
    rig.config.slice = 20;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 100; i++) {
        (void)rig_push(&rig, t, HOUR);
    }
    a = bulk(t, TR_BULK_CANCEL);
    rig_submit(&rig, &a);
    assert_false(a.done);
    tr_engine_abandon(rig.e, &a.req, rig.now);
    (void)rig_settle(&rig);
    assert_false(a.done);
    assert_int_equal(rig_engine_stat(&rig).jobs, 0);
    rig_fini(&rig);
}

/* Jobs that come into memory while a dry run counts are counted once. */
static void test_bulk_dry_run_counts_once(void **state)
{
    enum { JOBS = 400, LOOKS = 40 };
    struct ask *looks = calloc(LOOKS, sizeof *looks);
    struct rig rig;
    uint32_t t;
    struct ask a;

    (void)state;
    assert_non_null(looks);
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig.config.far_max = 50;
    rig.config.promote_slots = 2;
    rig.config.slice = 60;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    fill(&rig, t, JOBS);
    a = bulk(t, TR_BULK_CANCEL);
    a.req.dry_run = true;
    rig_submit(&rig, &a);
    for (unsigned i = 0; i < LOOKS; i++) {
        looks[i] = rig_ask(TR_OP_STAT_JOB);
        looks[i].req.id = 1 + i * JOBS / LOOKS;
        rig_submit(&rig, &looks[i]);
        (void)rig_turn(&rig);
        (void)rig.step(rig.step_ctx);
    }
    (void)rig_settle(&rig);
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.number, JOBS);
    free(looks);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bulk_all_topics_and_tags),
        cmocka_unit_test(test_bulk_refuses),
        cmocka_unit_test(test_bulk_cancels),
        cmocka_unit_test(test_bulk_shifts_once),
        cmocka_unit_test(test_bulk_shifts_by_parts),
        cmocka_unit_test(test_bulk_kicks),
        cmocka_unit_test(test_bulk_goes_on_alone),
        cmocka_unit_test(test_bulk_dry_run_counts_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
