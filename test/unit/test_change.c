/*
 * Requests that change jobs: push, delete, release, bury, kick, fire, edit; each with what it
 * refuses.
 */

#include "base/err.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ME = 7, OTHER = 8 };

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig_open(rig);
    return rig_hold(rig, "t");
}

static struct ask on_job(enum tr_op op, uint64_t id, uint64_t holder)
{
    struct ask a = rig_ask(op);

    a.req.id = id;
    a.req.holder = holder;
    return a;
}

static struct ask push(uint32_t topic)
{
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = topic;
    a.req.body = (const uint8_t *)"x";
    a.req.body_len = 1;
    return a;
}

static uint64_t kick(struct rig *rig, uint32_t topic, uint64_t count)
{
    struct ask a = rig_ask(TR_OP_KICK);

    a.req.topic = topic;
    a.req.count = count;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.number;
}

/* ---- push ---- */

static void test_change_push_without_delay_is_ready(void **state)
{
    struct rig rig;
    struct ask a = push(start(&rig));

    (void)state;
    a.req.priority = 5;
    a.req.ttr_us = 77;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.id, 1);
    assert_int_equal(a.req.out.job.state, TR_READY);
    assert_int_equal(a.req.out.job.priority, 5);
    assert_int_equal(a.req.out.job.ttr_us, 77);
    assert_int_equal(a.req.out.job.due_us, RIG_WALL_US);
    assert_int_equal(a.req.out.job.created_us, RIG_WALL_US);
    assert_int_equal(a.req.out.job.body_len, 1);
    rig_fini(&rig);
}

static void test_change_push_is_never_early(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 2 * RIG_SECOND);

    (void)state;
    assert_int_equal(rig_state(&rig, id), TR_DELAYED);
    assert_int_equal(rig_view(&rig, id).left_us, 2 * RIG_SECOND);
    assert_int_equal(rig_view(&rig, id).delay_us, 2 * RIG_SECOND);
    rig_pass(&rig, 2 * RIG_SECOND - 1);
    assert_int_equal(rig_state(&rig, id), TR_DELAYED);
    assert_int_equal(rig_view(&rig, id).left_us, 1);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_pass(&rig, 1);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    assert_int_equal(rig_view(&rig, id).left_us, 0);
    assert_int_equal(rig_view(&rig, id).late_us, 0);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_fini(&rig);
}

/* Two thousand of one topic and one of another are due at once: the one is ready in the first turn.
 */
static void test_change_crowd_keeps_nobody_waiting(void **state)
{
    struct rig rig;
    uint32_t few;
    uint32_t many;
    uint64_t id;

    (void)state;
    rig_init(&rig);
    rig.config.crowd = 10;
    rig_open(&rig);
    many = rig_hold(&rig, "many");
    few = rig_hold(&rig, "few");
    for (unsigned i = 0; i < 2000; i++) {
        (void)rig_push(&rig, many, RIG_SECOND);
    }
    id = rig_push(&rig, few, RIG_SECOND);
    rig_pass(&rig, RIG_SECOND - 1);
    rig.now.wall_us++;
    rig.now.boot_us++;
    (void)rig_turn(&rig);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_settle(&rig);
    for (unsigned i = 0; i < 2000; i++) {
        assert_int_not_equal(rig_reserve(&rig, many, ME), 0);
    }
    rig_fini(&rig);
}

static void test_change_push_at_moment(void **state)
{
    struct rig rig;
    struct ask a = push(start(&rig));

    (void)state;
    a.req.at_us = RIG_WALL_US + 5;
    a.req.delay_us = 99 * RIG_SECOND; /* at_us wins */
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.state, TR_DELAYED);
    assert_int_equal(a.req.out.job.due_us, RIG_WALL_US + 5);
    a.req.at_us = 1; /* long past: now */
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.state, TR_READY);
    assert_int_equal(a.req.out.job.due_us, RIG_WALL_US);
    rig_fini(&rig);
}

static void test_change_push_limits(void **state)
{
    struct rig rig;
    struct ask a = push(start(&rig));
    uint8_t body[RIG_BODY_MAX] = {0};

    (void)state;
    a.req.delay_us = TR_DELAY_MAX_US;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    a.req.delay_us = TR_DELAY_MAX_US + 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a.req.delay_us = UINT64_MAX;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a.req.delay_us = 0;
    a.req.at_us = RIG_WALL_US + TR_DELAY_MAX_US;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    a.req.at_us++;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a.req.at_us = UINT64_MAX;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a.req.at_us = 0;
    a.req.ttr_us = TR_DELAY_MAX_US + 1; /* 0 is the topic's */
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a.req.ttr_us = 1;
    a.req.topic = 999;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a.req.topic = 1;
    a.req.body = body;
    a.req.body_len = rig.config.body_max + 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_EFULL);
    a.req.body_len = rig.config.body_max;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    a.req.body_len = 0;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_engine_stat(&rig).jobs, 4);
    rig_fini(&rig);
}

static void test_change_push_is_refused_when_draining(void **state)
{
    struct rig rig;
    struct ask a = push(start(&rig));
    uint64_t id;

    (void)state;
    id = rig_push(&rig, 1, 0);
    tr_engine_drain(rig.e);
    assert_int_equal(rig_do(&rig, &a), TARRY_EDRAINING);
    assert_int_equal(rig_reserve(&rig, 1, ME), id);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    rig_fini(&rig);
}

/* ---- delete ---- */

static void test_change_delete_in_each_state(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t delayed = rig_push(&rig, t, RIG_SECOND);
    uint64_t dead = rig_push(&rig, t, 0);
    uint64_t ready;
    struct ask a;

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, ME), dead);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, dead, ME), TARRY_OK);
    ready = rig_push(&rig, t, 0);
    a = on_job(TR_OP_DELETE, delayed, OTHER);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.state, TR_DELAYED);
    a = on_job(TR_OP_DELETE, dead, 0);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.state, TR_DEAD);
    a = on_job(TR_OP_DELETE, ready, 0);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.state, TR_READY);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, ready, 0), TARRY_ENOTFOUND);
    assert_int_equal(rig_engine_stat(&rig).jobs, 0);
    assert_int_equal(rig_stat(&rig, t).deleted, 3);
    rig_fini(&rig);
}

static void test_change_delete_of_reserved_needs_holder_or_force(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a;

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    a = on_job(TR_OP_DELETE, id, OTHER);
    assert_int_equal(rig_do(&rig, &a), TARRY_ESTATE);
    assert_int_equal(a.req.out.job.state, TR_RESERVED);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_ESTATE);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    id = rig_push(&rig, t, 0);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    a = on_job(TR_OP_DELETE, id, OTHER);
    a.req.force = true;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_state(&rig, id), 0);
    rig_fini(&rig);
}

/* An ack with a lease that ran out must not kill the job, ready or reserved by another. */
static void test_change_delete_by_lost_lease(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = on_job(TR_OP_DELETE, id, 0);

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, 0), id);
    a.req.lease = rig_view(&rig, id).lease;
    assert_true(a.req.lease != 0);
    rig_pass(&rig, RIG_TTR_US);
    assert_int_equal(rig_do(&rig, &a), TARRY_ESTATE);
    assert_int_equal(a.req.out.job.state, TR_DELAYED); /* by its backoff */
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, 0), id);
    assert_int_equal(rig_do(&rig, &a), TARRY_ESTATE);
    assert_true(rig_view(&rig, id).lease != a.req.lease);
    a.req.lease = rig_view(&rig, id).lease;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    rig_fini(&rig);
}

/* ---- release and bury ---- */

static void test_change_release_at_once(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = on_job(TR_OP_RELEASE, id, ME);

    (void)state;
    rig_reserve(&rig, t, ME);
    rig_pass(&rig, 5);
    a.req.priority = 3;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.state, TR_READY);
    assert_int_equal(a.req.out.job.priority, 3);
    assert_int_equal(a.req.out.job.releases, 1);
    assert_int_equal(a.req.out.job.reserves, 1);
    assert_int_equal(a.req.out.job.due_us, RIG_WALL_US); /* back to its old place */
    assert_int_equal(rig_do(&rig, &a), TARRY_ESTATE);
    rig_fini(&rig);
}

static void test_change_release_with_delay(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = on_job(TR_OP_RELEASE, id, ME);

    (void)state;
    rig_reserve(&rig, t, ME);
    a.req.delay_us = TR_DELAY_MAX_US + 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    a.req.delay_us = RIG_SECOND;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.id, id);
    assert_int_equal(a.req.out.job.state, TR_DELAYED);
    rig_pass(&rig, RIG_SECOND - 1);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_pass(&rig, 1);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_int_equal(rig_view(&rig, id).reserves, 2);
    rig_fini(&rig);
}

static void test_change_needs_holder(void **state)
{
    static const enum tr_op ops[] = {TR_OP_RELEASE, TR_OP_BURY, TR_OP_TOUCH, TR_OP_RETURN};
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(rig_with(&rig, ops[i], id, ME), TARRY_ESTATE); /* ready */
    }
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(rig_with(&rig, ops[i], id, OTHER), TARRY_ESTATE);
        assert_int_equal(rig_with(&rig, ops[i], id, 0), TARRY_ESTATE);
        assert_int_equal(rig_with(&rig, ops[i], id + 1, ME), TARRY_ENOTFOUND);
    }
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    rig_fini(&rig);
}

static void test_change_bury_keeps_out_of_reach(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = on_job(TR_OP_BURY, id, ME);

    (void)state;
    rig_reserve(&rig, t, ME);
    a.req.priority = 9;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_state(&rig, id), TR_DEAD);
    assert_int_equal(rig_view(&rig, id).priority, 9);
    assert_int_equal(rig_view(&rig, id).buries, 1);
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_fini(&rig);
}

/* ---- kick and fire ---- */

static uint64_t bury_new(struct rig *rig, uint32_t t)
{
    uint64_t id = rig_push(rig, t, 0);

    assert_int_equal(rig_reserve(rig, t, ME), id);
    assert_int_equal(rig_with(rig, TR_OP_BURY, id, ME), TARRY_OK);
    return id;
}

static void test_change_kick_dead_first_in_order_of_death(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t delayed = rig_push(&rig, t, 50 * RIG_SECOND);
    uint64_t ids[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        ids[i] = rig_push(&rig, t, 0);
        assert_int_equal(rig_reserve(&rig, t, ME), ids[i]);
    }
    assert_int_equal(rig_with(&rig, TR_OP_BURY, ids[2], ME), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, ids[0], ME), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, ids[1], ME), TARRY_OK);
    assert_int_equal(kick(&rig, t, 1), 1);
    assert_int_equal(rig_state(&rig, ids[2]), TR_READY);
    assert_int_equal(rig_view(&rig, ids[2]).kicks, 1);
    assert_int_equal(rig_state(&rig, ids[0]), TR_DEAD);
    assert_int_equal(kick(&rig, t, 10), 2); /* the dead only, though there is room */
    assert_int_equal(rig_state(&rig, delayed), TR_DELAYED);
    assert_int_equal(rig_state(&rig, ids[1]), TR_READY);
    rig_fini(&rig);
}

static void test_change_kick_delayed_soonest_first(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t late = rig_push(&rig, t, 30 * RIG_SECOND);
    uint64_t soon = rig_push(&rig, t, 20 * RIG_SECOND);
    uint64_t soon_too = rig_push(&rig, t, 20 * RIG_SECOND);

    (void)state;
    assert_int_equal(kick(&rig, t, 1), 1);
    assert_int_equal(rig_state(&rig, soon), TR_READY);
    assert_int_equal(rig_view(&rig, soon).due_us, RIG_WALL_US);
    assert_int_equal(kick(&rig, t, 1), 1);
    assert_int_equal(rig_state(&rig, soon_too), TR_READY);
    assert_int_equal(rig_state(&rig, late), TR_DELAYED);
    assert_int_equal(kick(&rig, t, 10), 1);
    assert_int_equal(kick(&rig, t, 10), 0);
    assert_int_equal(kick(&rig, t, 0), 0);
    rig_fini(&rig);
}

static void test_change_kick_goes_on_over_slices(void **state)
{
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.slice = 5;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 40; i++) {
        rig_push(&rig, t, RIG_SECOND + i);
    }
    assert_int_equal(kick(&rig, t, 33), 33);
    assert_int_equal(rig_stat(&rig, t).ready, 33);
    assert_int_equal(rig_stat(&rig, t).delayed, 7);
    assert_true(rig_engine_stat(&rig).work_max <= 5);
    rig_fini(&rig);
}

static void test_change_kick_job_and_fire(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t dead = bury_new(&rig, t);
    uint64_t delayed = rig_push(&rig, t, RIG_SECOND);
    uint64_t other = rig_push(&rig, t, RIG_SECOND);
    struct ask a = rig_ask(TR_OP_KICK);

    (void)state;
    assert_int_equal(rig_with(&rig, TR_OP_FIRE, dead, 0), TARRY_ESTATE);
    assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, dead, 0), TARRY_OK);
    assert_int_equal(rig_view(&rig, dead).kicks, 1);
    assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, delayed, 0), TARRY_OK);
    assert_int_equal(rig_view(&rig, delayed).kicks, 1);
    assert_int_equal(rig_with(&rig, TR_OP_FIRE, other, 0), TARRY_OK);
    assert_int_equal(rig_view(&rig, other).kicks, 0);
    assert_int_equal(rig_state(&rig, dead), TR_READY);
    assert_int_equal(rig_state(&rig, delayed), TR_READY);
    assert_int_equal(rig_state(&rig, other), TR_READY);
    assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, dead, 0), TARRY_ESTATE); /* ready */
    assert_int_equal(rig_with(&rig, TR_OP_FIRE, other, 0), TARRY_ESTATE);
    assert_true(rig_reserve(&rig, t, ME) != 0);
    assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, 1, 0), TARRY_ESTATE); /* reserved */
    assert_int_equal(rig_with(&rig, TR_OP_FIRE, 1, 0), TARRY_ESTATE);
    assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, 99, 0), TARRY_ENOTFOUND);
    assert_int_equal(rig_with(&rig, TR_OP_FIRE, 99, 0), TARRY_ENOTFOUND);
    a.req.topic = 99;
    a.req.count = 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_ENOTFOUND);
    rig_fini(&rig);
}

/* ---- edit ---- */

static struct ask edit(uint64_t id, unsigned what)
{
    struct ask a = rig_ask(TR_OP_EDIT);

    a.req.id = id;
    a.req.edit = what;
    return a;
}

static void test_change_edit_each_field(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 100 * RIG_SECOND);
    struct ask a = edit(id, TR_EDIT_PRIORITY);
    struct ask peek = rig_ask(TR_OP_PEEK);

    (void)state;
    a.req.priority = 1;
    a.req.ttr_us = 1; /* not named by the mask: stays */
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.priority, 1);
    assert_int_equal(a.req.out.job.ttr_us, RIG_TTR_US);
    a = edit(id, TR_EDIT_TTR);
    a.req.ttr_us = 5;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.ttr_us, 5);
    assert_int_equal(a.req.out.job.priority, 1);
    assert_int_equal(a.req.out.job.due_us, RIG_WALL_US + 100 * RIG_SECOND);
    a = edit(id, TR_EDIT_DUE);
    a.req.delay_us = 3 * RIG_SECOND;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.due_us, RIG_WALL_US + 3 * RIG_SECOND);
    assert_int_equal(a.req.out.job.delay_us, 3 * RIG_SECOND);
    a = edit(id, TR_EDIT_BODY);
    a.req.body = (const uint8_t *)"another";
    a.req.body_len = 7;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.id, id);
    assert_int_equal(a.req.out.job.due_us, RIG_WALL_US + 3 * RIG_SECOND);
    peek.req.id = id;
    assert_int_equal(rig_do(&rig, &peek), TARRY_OK);
    assert_int_equal(peek.req.out.job.body_len, 7);
    assert_memory_equal(peek.body, "another", 7);
    rig_pass(&rig, 3 * RIG_SECOND - 1);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_pass(&rig, 1);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_fini(&rig);
}

static void test_change_edit_all_at_once_and_back_to_now(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = edit(id, TR_EDIT_DUE | TR_EDIT_PRIORITY | TR_EDIT_TTR | TR_EDIT_BODY);

    (void)state;
    a.req.at_us = RIG_WALL_US + RIG_SECOND;
    a.req.priority = 2;
    a.req.ttr_us = 3;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK); /* from ready to delayed, body now empty */
    assert_int_equal(a.req.out.job.state, TR_DELAYED);
    assert_int_equal(a.req.out.job.body_len, 0);
    a = edit(id, TR_EDIT_DUE);
    a.req.at_us = 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.state, TR_READY);
    assert_int_equal(a.req.out.job.priority, 2);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_fini(&rig);
}

static void test_change_edit_refusals(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t dead = bury_new(&rig, t);
    uint64_t id = rig_push(&rig, t, 0);
    uint8_t body[RIG_BODY_MAX] = {0};
    struct ask a = edit(id, 0);

    (void)state;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a = edit(id, TR_EDIT_TTR);
    a.req.ttr_us = 0;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a = edit(id, TR_EDIT_DUE);
    a.req.delay_us = TR_DELAY_MAX_US + 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a = edit(id, TR_EDIT_BODY);
    a.req.body = body;
    a.req.body_len = rig.config.body_max + 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_EFULL);
    a = edit(dead, TR_EDIT_PRIORITY);
    assert_int_equal(rig_do(&rig, &a), TARRY_ESTATE);
    assert_int_equal(a.req.out.job.state, TR_DEAD);
    a = edit(99, TR_EDIT_PRIORITY);
    assert_int_equal(rig_do(&rig, &a), TARRY_ENOTFOUND);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    a = edit(id, TR_EDIT_PRIORITY);
    assert_int_equal(rig_do(&rig, &a), TARRY_ESTATE);
    assert_int_equal(a.req.out.job.state, TR_RESERVED);
    rig_fini(&rig);
}

/* A body above move_body_max is not written again when the due time changes. */
static void test_change_of_due_leaves_long_body_where_it_is(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push_body(&rig, t, 0, 5000);
    uint64_t small = rig_push_body(&rig, t, 5 * RIG_SECOND, 10);
    uint64_t rid = rig_engine_stat(&rig).next_rid;
    struct ask a = edit(id, TR_EDIT_DUE);

    (void)state;
    a.req.delay_us = 7 * RIG_SECOND;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_engine_stat(&rig).next_rid, rid); /* an ALTER */
    a = edit(small, TR_EDIT_DUE);
    a.req.delay_us = 7 * RIG_SECOND;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_engine_stat(&rig).next_rid, rid + 1); /* a MOVE */
    rig_pass(&rig, 7 * RIG_SECOND - 1);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_pass(&rig, 1);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_int_equal(rig_reserve(&rig, t, ME), small);
    rig_fini(&rig);
}

/* The answer of a delete may be the word to drop the topic, from inside done. */
static void drop_inside(struct tr_req *r)
{
    struct ask *a = r->ctx;
    static struct ask drop;

    a->done = 1;
    drop = rig_ask(TR_OP_DROP_TOPIC);
    drop.req.topic = a->req.topic;
    rig_submit(a->rig, &drop);
    assert_int_equal(drop.req.out.status, TARRY_OK);
}

static void test_change_delete_may_drop_topic_from_inside_done(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = on_job(TR_OP_DELETE, rig_push(&rig, t, 0), 0);

    (void)state;
    a.req.done = drop_inside;
    a.req.topic = t;
    rig_submit(&rig, &a);
    assert_int_equal(a.done, 1);
    rig_settle(&rig);
    assert_int_equal(rig_engine_stat(&rig).topics, 0);
    rig_fini(&rig);
}

/* A topic may lose its last job and get another much later: its name must still be known. */
static void test_change_push_to_topic_that_was_empty_at_checkpoint(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    rig_pass(&rig, 31 * RIG_SECOND); /* a checkpoint without the topic */
    assert_true(rig_engine_stat(&rig).checkpoints > 0);
    id = rig_push(&rig, t, 0);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_change_push_without_delay_is_ready),
        cmocka_unit_test(test_change_push_is_never_early),
        cmocka_unit_test(test_change_crowd_keeps_nobody_waiting),
        cmocka_unit_test(test_change_push_at_moment),
        cmocka_unit_test(test_change_push_limits),
        cmocka_unit_test(test_change_push_is_refused_when_draining),
        cmocka_unit_test(test_change_delete_in_each_state),
        cmocka_unit_test(test_change_delete_of_reserved_needs_holder_or_force),
        cmocka_unit_test(test_change_delete_by_lost_lease),
        cmocka_unit_test(test_change_release_at_once),
        cmocka_unit_test(test_change_release_with_delay),
        cmocka_unit_test(test_change_needs_holder),
        cmocka_unit_test(test_change_bury_keeps_out_of_reach),
        cmocka_unit_test(test_change_kick_dead_first_in_order_of_death),
        cmocka_unit_test(test_change_kick_delayed_soonest_first),
        cmocka_unit_test(test_change_kick_goes_on_over_slices),
        cmocka_unit_test(test_change_kick_job_and_fire),
        cmocka_unit_test(test_change_edit_each_field),
        cmocka_unit_test(test_change_edit_all_at_once_and_back_to_now),
        cmocka_unit_test(test_change_edit_refusals),
        cmocka_unit_test(test_change_of_due_leaves_long_body_where_it_is),

        cmocka_unit_test(test_change_push_to_topic_that_was_empty_at_checkpoint),
        cmocka_unit_test(test_change_delete_may_drop_topic_from_inside_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
