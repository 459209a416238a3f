/*
 * Handing out and getting back: orders, waiters, leases, pauses, connections that go away, callers
 * that go away.
 */

#include "base/err.h"
#include "base/rng.h"
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

static uint64_t push(struct rig *rig, uint32_t topic, uint64_t delay_us, uint32_t priority)
{
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = topic;
    a.req.delay_us = delay_us;
    a.req.priority = priority;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.job.id;
}

/* ---- orders ---- */

static void check_order(struct rig *rig, const uint32_t topics[2], enum tr_order order,
                        const uint64_t *ids, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct ask a = reserve(topics, 2, ME, 0);

        a.req.order = order;
        assert_int_equal(rig_do(rig, &a), TARRY_OK);
        assert_int_equal(a.req.out.job.id, ids[i]);
        assert_int_equal(a.req.out.job.state, TR_RESERVED);
    }
}

static void test_handout_order_over_topics(void **state)
{
    struct rig rig;
    uint32_t topics[2] = {start(&rig), rig_hold(&rig, "u")};
    uint64_t late = push(&rig, topics[0], 300, 10); /* pushed first, due last */
    uint64_t soon = push(&rig, topics[1], 100, 10);
    uint64_t mid = push(&rig, topics[0], 200, 10);
    uint64_t urgent = push(&rig, topics[1], 400, 9);
    uint64_t tie = push(&rig, topics[1], 200, 10); /* same due as mid, later id */
    uint64_t by_due[5] = {urgent, soon, mid, tie, late};
    uint64_t by_id[5] = {urgent, late, soon, mid, tie};
    struct ask gone = rig_ask(TR_OP_CLOSE);

    (void)state;
    rig_pass(&rig, 400);
    check_order(&rig, topics, TR_ORDER_DUE, by_due, 5);
    gone.req.holder = ME;
    assert_int_equal(rig_do(&rig, &gone), TARRY_OK);
    assert_int_equal(gone.req.out.number, 5);
    check_order(&rig, topics, TR_ORDER_ID, by_id, 5);
    rig_fini(&rig);
}

/* Both orders against a plain search over an array, with two topics and jobs that come and go. */
static void test_handout_order_against_model(void **state)
{
    enum { JOBS = 400 };
    struct rig rig;
    uint32_t topics[2] = {start(&rig), rig_hold(&rig, "u")};
    struct {
        uint64_t id, due;
        uint32_t priority;
    } jobs[JOBS];
    unsigned count = 0;
    struct tr_rng rng = {5};

    (void)state;
    for (unsigned step = 0; step < 3 * JOBS; step++) {
        enum tr_order order = (enum tr_order)tr_rng_below(&rng, 2);
        struct ask a = reserve(topics, 2, ME, 0);
        unsigned best = UINT32_MAX;

        if (count < JOBS && tr_rng_below(&rng, 2) == 0) {
            uint64_t delay = tr_rng_below(&rng, 50);

            jobs[count].priority = (uint32_t)tr_rng_below(&rng, 4);
            jobs[count].due = rig.now.wall_us + delay;
            jobs[count].id = push(&rig, topics[tr_rng_below(&rng, 2)], delay, jobs[count].priority);
            count++;
            continue;
        }
        rig_pass(&rig, tr_rng_below(&rng, 20));
        for (unsigned i = 0; i < count; i++) {
            if (jobs[i].due > rig.now.wall_us) {
                continue;
            }
            if (best == UINT32_MAX || jobs[i].priority < jobs[best].priority ||
                (jobs[i].priority == jobs[best].priority &&
                 (order == TR_ORDER_DUE && jobs[i].due != jobs[best].due
                      ? jobs[i].due < jobs[best].due
                      : jobs[i].id < jobs[best].id))) {
                best = i;
            }
        }
        a.req.order = order;
        assert_int_equal(rig_do(&rig, &a), best == UINT32_MAX ? TARRY_ETIMEOUT : TARRY_OK);
        if (best != UINT32_MAX) {
            assert_int_equal(a.req.out.job.id, jobs[best].id);
            assert_int_equal(rig_with(&rig, TR_OP_DELETE, jobs[best].id, ME), TARRY_OK);
            jobs[best] = jobs[--count];
        }
    }
    rig_fini(&rig);
}

static void test_handout_refuses_nonsense(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t none[1] = {99};
    struct ask a = reserve(&t, 0, ME, 0);

    (void)state;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a = reserve(&t, 1, ME, 0);
    a.req.order = TR_ORDER_COUNT;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a = reserve(none, 1, ME, 0);
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    assert_int_equal(rig_with(&rig, TR_OP_CLOSE, 0, 0), TARRY_EINVAL);
    assert_int_equal(rig_with(&rig, TR_OP_CLOSE, 0, 55), TARRY_OK); /* holds nothing */
    rig_fini(&rig);
}

/* ---- waiting ---- */

static void test_handout_waiters_are_served_first_come_first(void **state)
{
    struct rig rig;
    uint32_t topics[2] = {start(&rig), rig_hold(&rig, "u")};
    struct ask first = reserve(topics, 2, 1, TR_WAIT_FOREVER);
    struct ask second = reserve(topics + 1, 1, 2, TR_WAIT_FOREVER);
    struct ask third = reserve(topics, 2, 3, TR_WAIT_FOREVER);
    uint64_t id;

    (void)state;
    rig_submit(&rig, &first);
    rig_submit(&rig, &second);
    rig_submit(&rig, &third);
    rig_settle(&rig);
    assert_int_equal(rig_stat(&rig, topics[0]).waiting, 2);
    assert_int_equal(rig_stat(&rig, topics[1]).waiting, 3);
    assert_int_equal(rig_stat(&rig, 0).waiting, 3); /* requests, not lines */
    id = rig_push(&rig, topics[1], 0);
    assert_true(first.done != 0);
    assert_int_equal(first.req.out.job.id, id);
    assert_int_equal(second.done, 0);
    id = rig_push(&rig, topics[0], 0); /* the second does not wait there */
    assert_int_equal(third.req.out.job.id, id);
    assert_int_equal(second.done, 0);
    id = rig_push(&rig, topics[1], 0);
    assert_int_equal(second.req.out.job.id, id);
    assert_int_equal(rig_stat(&rig, 0).waiting, 0);
    rig_fini(&rig);
}

/* No turn comes between a push and the hand-out to the one who waits for it. */
static void test_handout_waiter_gets_job_in_call_of_push(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = reserve(&t, 1, ME, TR_WAIT_FOREVER);
    struct ask b = reserve(&t, 1, OTHER, TR_WAIT_FOREVER);
    struct ask put = rig_ask(TR_OP_PUSH);
    struct ask give_back = rig_ask(TR_OP_RELEASE);

    (void)state;
    rig_submit(&rig, &a);
    rig_submit(&rig, &b);
    put.req.topic = t;
    rig_submit(&rig, &put);
    assert_true(put.done != 0);
    assert_int_equal(a.done, put.done + 1);
    assert_int_equal(a.req.out.job.id, put.req.out.job.id);
    assert_true(a.req.out.gate != 0);
    assert_int_equal(a.req.out.gate, put.req.out.gate);
    assert_int_equal(b.done, 0);
    give_back.req.id = put.req.out.job.id;
    give_back.req.holder = ME;
    rig_submit(&rig, &give_back);
    assert_int_equal(b.done, give_back.done + 1);
    rig_fini(&rig);
}

enum { CHAIN = 20 };

/* A client that, when it has a job, pushes another one for the next client. */
struct link {
    struct tr_req reserve;
    struct tr_req push;
    struct rig *rig;
    unsigned *depth;
    unsigned *deepest;
    unsigned got;
};

static void on_pushed(struct tr_req *r)
{
    assert_int_equal(r->out.status, TARRY_OK);
}

static void on_got(struct tr_req *r)
{
    struct link *l = r->ctx;

    l->got++;
    ++*l->depth;
    *l->deepest = *l->depth > *l->deepest ? *l->depth : *l->deepest;
    l->push.ctx = l;
    tr_engine_submit(l->rig->e, &l->push, l->rig->now);
    --*l->depth;
}

/* What `done` makes ready is served by the outermost call, not by a call inside a call. */
static void test_handout_chain_of_waiters_does_not_nest(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct link links[CHAIN];
    struct ask put = rig_ask(TR_OP_PUSH);
    unsigned depth = 0;
    unsigned deepest = 0;

    (void)state;
    for (unsigned i = 0; i < CHAIN; i++) {
        links[i] = (struct link){.rig = &rig, .depth = &depth, .deepest = &deepest};
        links[i].reserve = reserve(&t, 1, i + 1, TR_WAIT_FOREVER).req;
        links[i].reserve.done = on_got;
        links[i].reserve.ctx = &links[i];
        links[i].push = put.req;
        links[i].push.topic = t;
        links[i].push.done = on_pushed;
        tr_engine_submit(rig.e, &links[i].reserve, rig.now);
    }
    put.req.topic = t;
    rig_submit(&rig, &put);
    for (unsigned i = 0; i < CHAIN; i++) {
        assert_int_equal(links[i].got, 1);
    }
    assert_int_equal(deepest, 1);
    rig_fini(&rig);
}

static void test_handout_waiter_gets_job_in_turn_it_is_due(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, RIG_SECOND);
    struct ask a = reserve(&t, 1, ME, TR_WAIT_FOREVER);

    (void)state;
    rig_submit(&rig, &a);
    rig_pass(&rig, RIG_SECOND - 1);
    assert_int_equal(a.done, 0);
    assert_int_equal(rig_settle(&rig), rig.now.boot_us + 1);
    rig.now.boot_us++;
    rig.now.wall_us++;
    rig_turn(&rig); /* one turn, not a moment later */
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.job.id, id);
    rig_fini(&rig);
}

static void test_handout_wait_times_out(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = reserve(&t, 1, ME, RIG_SECOND);

    (void)state;
    rig_submit(&rig, &a);
    assert_int_equal(rig_settle(&rig), rig.now.boot_us + RIG_SECOND); /* it asks to be called */
    rig_pass(&rig, RIG_SECOND - 1);
    assert_int_equal(a.done, 0);
    rig_pass(&rig, 1);
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.status, TARRY_ETIMEOUT);
    assert_int_equal(rig_stat(&rig, t).waiting, 0);
    assert_int_equal(rig_reserve(&rig, t, ME), 0); /* wait 0 never waits */
    rig_fini(&rig);
}

/* ---- warnings ---- */

static struct ask warned(const uint32_t *topic, uint64_t wait_us)
{
    struct ask a = reserve(topic, 1, ME, wait_us);

    a.req.warn_us = RIG_SECOND;
    return a;
}

static void test_handout_warns_at_once(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = warned(&t, 0);
    struct ask other = warned(&t, 0);
    struct ask silent = reserve(&t, 1, ME, 0);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    other.req.holder = OTHER;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    rig_pass(&rig, RIG_TTR_US - RIG_SECOND - 1);
    assert_int_equal(rig_do(&rig, &a), TARRY_ETIMEOUT);
    rig_pass(&rig, 1);
    assert_int_equal(rig_do(&rig, &a), TARRY_ESOON);
    a.req.wait_us = TR_WAIT_FOREVER;
    assert_int_equal(rig_do(&rig, &a), TARRY_ESOON);
    assert_int_equal(rig_do(&rig, &other), TARRY_ETIMEOUT);  /* not his lease */
    assert_int_equal(rig_do(&rig, &silent), TARRY_ETIMEOUT); /* did not ask for it */
    assert_int_equal(rig_with(&rig, TR_OP_TOUCH, id, ME), TARRY_OK);
    a.req.wait_us = 0;
    assert_int_equal(rig_do(&rig, &a), TARRY_ETIMEOUT);
    rig_pass(&rig, RIG_TTR_US - RIG_SECOND);
    rig_push(&rig, t, 0);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK); /* there is something: no warning */
    assert_int_equal(rig_do(&rig, &a), TARRY_ESOON);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    assert_int_equal(rig_do(&rig, &a), TARRY_ETIMEOUT);
    rig_fini(&rig);
}

static void test_handout_warns_while_it_waits(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = warned(&t, TR_WAIT_FOREVER);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_submit(&rig, &a);
    rig_pass(&rig, RIG_TTR_US / 2);
    assert_int_equal(rig_with(&rig, TR_OP_TOUCH, id, ME), TARRY_OK);
    rig_pass(&rig, RIG_TTR_US - RIG_SECOND - 1);
    assert_int_equal(a.done, 0);
    assert_int_equal(rig_settle(&rig), rig.now.boot_us + 1); /* it asks to be called */
    rig_pass(&rig, 1);
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.status, TARRY_ESOON);
    assert_int_equal(rig_stat(&rig, 0).waiting, 0);

    /* The lease that would have warned is gone: the wait goes on, and has kept its place. */
    assert_int_equal(rig_with(&rig, TR_OP_TOUCH, id, ME), TARRY_OK);
    rig_submit(&rig, &a);

    struct ask behind = reserve(&t, 1, OTHER, TR_WAIT_FOREVER);

    rig_submit(&rig, &behind);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    rig_pass(&rig, 2 * RIG_TTR_US);
    assert_int_equal(a.done, 0);
    rig_push(&rig, t, 0);
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.status, TARRY_OK);
    assert_int_equal(behind.done, 0);
    rig_fini(&rig);
}

/* A lease that begins during the wait counts, too. */
static void test_handout_warns_of_later_lease(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t u = rig_hold(&rig, "u");
    struct ask a = warned(&t, 20 * RIG_SECOND);

    (void)state;
    rig_push(&rig, u, 0);
    rig_submit(&rig, &a);
    rig_pass(&rig, RIG_SECOND);
    assert_true(rig_reserve(&rig, u, ME) != 0);
    rig_pass(&rig, RIG_TTR_US - RIG_SECOND - 1);
    assert_int_equal(a.done, 0);
    rig_pass(&rig, 1);
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.status, TARRY_ESOON);
    rig_fini(&rig);
}

/* It closes though a reserve of its own waits: that is not touched. */
static void test_handout_close_of_one_who_waits(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t u = rig_hold(&rig, "u");
    struct ask a = warned(&t, TR_WAIT_FOREVER);

    (void)state;
    rig_push(&rig, u, 0);
    rig_push(&rig, u, 0);
    assert_true(rig_reserve(&rig, u, ME) != 0);
    rig_submit(&rig, &a);
    assert_true(rig_reserve(&rig, u, ME) != 0);
    assert_int_equal(rig_with(&rig, TR_OP_CLOSE, 0, ME), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_CLOSE, 0, ME), TARRY_OK);
    assert_int_equal(rig_stat(&rig, u).ready, 2);
    rig_pass(&rig, 2 * RIG_TTR_US);
    assert_int_equal(a.done, 0); /* there is nothing left to be warned of */
    rig_push(&rig, t, 0);
    assert_true(a.done != 0);
    rig_fini(&rig);
}

static void test_handout_timeout_before_warning(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = warned(&t, 2 * RIG_SECOND);

    (void)state;
    rig_push(&rig, t, 0);
    assert_true(rig_reserve(&rig, t, ME) != 0);
    rig_submit(&rig, &a);
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_int_equal(a.req.out.status, TARRY_ETIMEOUT);
    a.req.wait_us = RIG_TTR_US - 3 * RIG_SECOND; /* both at one moment */
    rig_submit(&rig, &a);
    rig_pass(&rig, RIG_TTR_US);
    assert_int_equal(a.req.out.status, TARRY_ESOON);
    rig_fini(&rig);
}

/* The earliest of many leases, whichever of them go, against a search; looked for in slices. */
static void test_handout_warns_of_earliest_lease(void **state)
{
    enum { JOBS = 60 };
    struct rig rig;
    struct tr_rng rng = {7};
    uint64_t ids[JOBS];
    uint64_t ends[JOBS];
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.slice = 8;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < JOBS; i++) {
        struct ask put = rig_ask(TR_OP_PUSH);

        put.req.topic = t;
        put.req.ttr_us = (2000 + tr_rng_below(&rng, 1000)) * RIG_SECOND;
        assert_int_equal(rig_do(&rig, &put), TARRY_OK);
        ids[i] = rig_reserve(&rig, t, ME);
        ends[i] = rig.now.boot_us + put.req.ttr_us;
    }
    for (unsigned left = JOBS; left > 0; left--) {
        unsigned least = 0;
        unsigned gone = (unsigned)tr_rng_below(&rng, left);
        struct ask a = reserve(&t, 1, ME, 0);

        for (unsigned i = 0; i < left; i++) {
            least = ends[i] < ends[least] ? i : least;
        }
        a.req.warn_us = ends[least] - rig.now.boot_us - 1;
        assert_int_equal(rig_do(&rig, &a), TARRY_ETIMEOUT);
        a.req.warn_us++;
        assert_int_equal(rig_do(&rig, &a), TARRY_ESOON);
        gone = tr_rng_below(&rng, 2) == 0 ? least : gone;
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[gone], ME), TARRY_OK);
        ids[gone] = ids[left - 1];
        ends[gone] = ends[left - 1];
        rig_pass(&rig, RIG_SECOND);
    }
    rig_fini(&rig);
}

/* ---- leases ---- */

static void test_handout_lease_runs_out(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_int_equal(rig_view(&rig, id).left_us, RIG_TTR_US);
    rig_pass(&rig, RIG_TTR_US - 1);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    assert_int_equal(rig_view(&rig, id).left_us, 1);
    assert_int_equal(rig_settle(&rig), rig.now.boot_us + 1); /* it asks to be called */
    rig_pass(&rig, 1);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    assert_int_equal(rig_view(&rig, id).timeouts, 1);
    assert_int_equal(rig_view(&rig, id).reserves, 1);
    assert_int_equal(rig_with(&rig, TR_OP_TOUCH, id, ME), TARRY_ESTATE);
    assert_int_equal(rig_reserve(&rig, t, OTHER), id);
    assert_int_equal(rig_view(&rig, id).reserves, 2);
    rig_fini(&rig);
}

static void test_handout_touch_starts_lease_anew(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    rig_reserve(&rig, t, ME);
    rig_pass(&rig, RIG_TTR_US - 1);
    assert_int_equal(rig_with(&rig, TR_OP_TOUCH, id, ME), TARRY_OK);
    rig_pass(&rig, RIG_TTR_US - 1);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    rig_pass(&rig, 1);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    assert_int_equal(rig_view(&rig, id).timeouts, 1);
    rig_fini(&rig);
}

/* The server's own consumers may ask for leases that are not too short, and renew them so. */
static void test_handout_lease_of_a_holder_at_least(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = reserve(&t, 1, ME, 0);
    struct ask touch = rig_ask(TR_OP_TOUCH);

    (void)state;
    a.req.lease_us = 3 * RIG_TTR_US;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.left_us, 3 * RIG_TTR_US);
    rig_pass(&rig, 2 * RIG_TTR_US);
    touch.req.id = id;
    touch.req.holder = ME;
    touch.req.lease_us = 2 * RIG_TTR_US;
    assert_int_equal(rig_do(&rig, &touch), TARRY_OK);
    rig_pass(&rig, 2 * RIG_TTR_US - 1);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    touch.req.lease_us = 1; /* the ttr is longer */
    assert_int_equal(rig_do(&rig, &touch), TARRY_OK);
    rig_pass(&rig, RIG_TTR_US - 1);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    rig_pass(&rig, 1);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    touch.req.lease_us = TR_DELAY_MAX_US + 1;
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_int_equal(rig_do(&rig, &touch), TARRY_EINVAL);
    rig_fini(&rig);
}

/* A token lease may be longer than the job's own, and a touch may choose again. */
static void test_handout_lease_with_its_own_ttr(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = reserve(&t, 1, 0, 0);

    (void)state;
    a.req.ttr_us = 3 * RIG_TTR_US;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.left_us, 3 * RIG_TTR_US);
    rig_pass(&rig, 2 * RIG_TTR_US);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    struct ask touch = rig_ask(TR_OP_TOUCH);
    touch.req.id = id;
    touch.req.lease = a.req.out.job.lease;
    touch.req.ttr_us = 5 * RIG_TTR_US;
    assert_int_equal(rig_do(&rig, &touch), TARRY_OK);
    assert_int_equal(touch.req.out.job.lease, a.req.out.job.lease); /* the same lease goes on */
    assert_int_equal(rig_view(&rig, id).left_us, 5 * RIG_TTR_US);
    rig_fini(&rig);
}

static void test_handout_longest_ttr(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = rig_ask(TR_OP_PUSH);
    struct ask take = reserve(&t, 1, 0, 0);
    uint64_t id;

    (void)state;
    a.req.topic = t;
    a.req.ttr_us = TR_DELAY_MAX_US + 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a.req.ttr_us = TR_DELAY_MAX_US;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    id = a.req.out.job.id;
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_int_equal(rig_with(&rig, TR_OP_TOUCH, id, ME), TARRY_OK);
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    assert_int_equal(rig_with(&rig, TR_OP_RETURN, id, ME), TARRY_OK);
    take.req.ttr_us = TR_DELAY_MAX_US + 1;
    assert_int_equal(rig_do(&rig, &take), TARRY_EINVAL);
    take.req.ttr_us = TR_DELAY_MAX_US;
    assert_int_equal(rig_do(&rig, &take), TARRY_OK);
    rig_pass(&rig, RIG_SECOND);
    rig_power_cut(&rig);
    rig_open(&rig);
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    rig_fini(&rig);
}

static void test_handout_return_is_uncounted(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct tr_job_view v;

    (void)state;
    rig_reserve(&rig, t, ME);
    assert_int_equal(rig_with(&rig, TR_OP_RETURN, id, ME), TARRY_OK);
    v = rig_view(&rig, id);
    assert_int_equal(v.state, TR_READY);
    assert_int_equal(v.reserves + v.timeouts + v.releases, 0);
    rig_fini(&rig);
}

static void test_handout_close_gives_jobs_back(void **state)
{
    struct rig rig;
    uint32_t t;
    struct ask waiter;
    struct ask gone = rig_ask(TR_OP_CLOSE);

    (void)state;
    rig_init(&rig);
    rig.config.slice = 4;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 30; i++) {
        rig_push(&rig, t, 0);
        assert_int_equal(rig_reserve(&rig, t, ME), i + 1);
    }
    waiter = reserve(&t, 1, OTHER, TR_WAIT_FOREVER);
    rig_submit(&rig, &waiter);
    gone.req.holder = ME;
    assert_int_equal(rig_do(&rig, &gone), TARRY_OK);
    assert_int_equal(gone.req.out.number, 30);
    assert_true(waiter.done != 0);
    assert_int_equal(rig_stat(&rig, t).ready, 29);
    assert_int_equal(rig_stat(&rig, t).reserved, 1);
    assert_int_equal(rig_view(&rig, 2).timeouts, 0);
    rig_fini(&rig);
}

/* ---- reserve by id ---- */

static void test_handout_reserve_job_from_each_state(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t dead = rig_push(&rig, t, 0);
    uint64_t ids[3];

    (void)state;
    rig_reserve(&rig, t, ME);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, dead, ME), TARRY_OK);
    ids[0] = dead;
    ids[1] = rig_push(&rig, t, 0);
    ids[2] = rig_push(&rig, t, 99 * RIG_SECOND);
    for (unsigned i = 0; i < 3; i++) {
        struct ask a = rig_ask(TR_OP_RESERVE_JOB);

        a.req.id = ids[i];
        a.req.holder = OTHER;
        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
        assert_int_equal(a.req.out.job.id, ids[i]);
        assert_int_equal(a.req.out.job.state, TR_RESERVED);
        assert_true(a.has_body);
        assert_int_equal(rig_do(&rig, &a), TARRY_ESTATE);
        assert_int_equal(a.req.out.job.state, TR_RESERVED);
        rig_pass(&rig, RIG_TTR_US); /* what it was before is over: it is ready now */
        assert_int_equal(rig_state(&rig, ids[i]), TR_READY);
    }
    assert_int_equal(rig_with(&rig, TR_OP_RESERVE_JOB, 99, ME), TARRY_ENOTFOUND);
    rig_fini(&rig);
}

/* ---- pause ---- */

static void pause_topic(struct rig *rig, uint32_t t, uint64_t us)
{
    struct ask a = rig_ask(TR_OP_PAUSE);

    a.req.topic = t;
    a.req.wait_us = us;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
}

static void test_handout_pause_holds_back(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = reserve(&t, 1, ME, TR_WAIT_FOREVER);

    (void)state;
    pause_topic(&rig, t, RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    assert_int_equal(rig_stat(&rig, t).pause_us, RIG_SECOND);
    assert_int_equal(rig_stat(&rig, t).pause_left_us, RIG_SECOND);
    assert_int_equal(rig_stat(&rig, t).pauses, 1);
    rig_submit(&rig, &a);
    rig_pass(&rig, RIG_SECOND - 1);
    assert_int_equal(a.done, 0);
    assert_int_equal(rig_stat(&rig, t).pause_left_us, 1);
    rig_pass(&rig, 1);
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.job.id, id);
    assert_int_equal(rig_stat(&rig, t).pause_left_us, 0);
    rig_fini(&rig);
}

static void test_handout_resume_serves_at_once(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = reserve(&t, 1, ME, TR_WAIT_FOREVER);
    struct ask none = rig_ask(TR_OP_PAUSE);

    (void)state;
    pause_topic(&rig, t, TR_WAIT_FOREVER);
    rig_push(&rig, t, 0);
    rig_submit(&rig, &a);
    rig_pass(&rig, 1000 * RIG_SECOND);
    assert_int_equal(a.done, 0);
    pause_topic(&rig, t, 0);
    assert_true(a.done != 0);
    none.req.topic = 99;
    none.req.wait_us = 1;
    assert_int_equal(rig_do(&rig, &none), TARRY_ENOTFOUND);
    rig_fini(&rig);
}

/* ---- bodies on disk, callers that go away ---- */

static uint32_t start_without_cache(struct rig *rig)
{
    rig_init(rig);
    rig->config.body_cache_bytes = 0;
    rig_open(rig);
    return rig_hold(rig, "t");
}

static void test_handout_body_is_read_back(void **state)
{
    struct rig rig;
    uint32_t t = start_without_cache(&rig);
    uint64_t id = rig_push_body(&rig, t, 0, 6000);
    struct ask a = reserve(&t, 1, ME, 0);
    struct ask by_id = rig_ask(TR_OP_RESERVE_JOB);

    (void)state;
    rig_submit(&rig, &a);
    assert_int_equal(a.done, 0);                        /* a read is under way */
    assert_int_equal(rig_engine_stat(&rig).waiting, 0); /* not for a job */
    rig_settle(&rig);
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.status, TARRY_OK);
    assert_int_equal(a.req.out.job.body_len, 6000);
    for (unsigned i = 0; i < 6000; i++) {
        assert_int_equal(a.body[i], 'b');
    }
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, id, ME), TARRY_OK);
    by_id.req.id = id;
    by_id.req.holder = ME;
    assert_int_equal(rig_do(&rig, &by_id), TARRY_OK);
    assert_memory_equal(by_id.body, a.body, 6000);
    assert_int_equal(rig_view(&rig, id).reserves, 2);
    rig_fini(&rig);
}

/* While its body was on the way, the job was taken away by force: the reserve gets the next one. */
static void test_handout_starts_over_when_job_dies_during_read(void **state)
{
    struct rig rig;
    uint32_t t = start_without_cache(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    uint64_t next = rig_push(&rig, t, 0);
    struct ask a = reserve(&t, 1, ME, TR_WAIT_FOREVER);
    struct ask kill = rig_ask(TR_OP_DELETE);

    (void)state;
    rig_submit(&rig, &a);
    kill.req.id = id;
    kill.req.force = true;
    rig_submit(&rig, &kill);
    assert_int_equal(kill.req.out.status, TARRY_OK);
    rig_settle(&rig);
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.job.id, next);
    rig_fini(&rig);
}

static void test_handout_abandon_while_reading(void **state)
{
    struct rig rig;
    uint32_t t = start_without_cache(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = reserve(&t, 1, ME, 0);

    (void)state;
    rig_submit(&rig, &a);
    assert_int_equal(rig_engine_stat(&rig).reserved, 1);
    tr_engine_abandon(rig.e, &a.req, rig.now);
    rig_settle(&rig);
    assert_int_equal(a.done, 0);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    assert_int_equal(rig_view(&rig, id).reserves, 0);
    assert_int_equal(rig_reserve(&rig, t, OTHER), id);
    rig_fini(&rig);
}

static void test_handout_abandon_while_waiting(void **state)
{
    struct rig rig;
    uint32_t topics[2] = {start(&rig), rig_hold(&rig, "u")};
    struct ask a = reserve(topics, 2, ME, TR_WAIT_FOREVER);
    struct ask b = reserve(topics, 2, OTHER, RIG_SECOND);

    (void)state;
    rig_submit(&rig, &a);
    rig_submit(&rig, &b);
    tr_engine_abandon(rig.e, &a.req, rig.now);
    tr_engine_abandon(rig.e, &a.req, rig.now); /* again: no harm */
    assert_int_equal(rig_stat(&rig, topics[0]).waiting, 1);
    rig_push(&rig, topics[1], 0);
    assert_int_equal(a.done, 0);
    assert_true(b.done != 0);
    tr_engine_abandon(rig.e, &b.req, rig.now); /* done: no harm */
    rig_fini(&rig);
}

/* A reserve that waits in a topic keeps it; when it goes, so does the topic. */
static void test_handout_waiter_keeps_topic(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = reserve(&t, 1, ME, RIG_SECOND);
    struct ask drop = rig_ask(TR_OP_DROP_TOPIC);

    (void)state;
    rig_submit(&rig, &a);
    drop.req.topic = t;
    assert_int_equal(rig_do(&rig, &drop), TARRY_OK);
    assert_int_equal(rig_engine_stat(&rig).topics, 1);
    rig_pass(&rig, RIG_SECOND);
    assert_true(a.done != 0);
    assert_int_equal(rig_engine_stat(&rig).topics, 0);
    rig_fini(&rig);
}

/* The engine ends while requests of every kind wait: all memory comes back (rig_fini looks). */
static void test_handout_engine_ends_under_waiters(void **state)
{
    struct rig rig;
    uint32_t t = start_without_cache(&rig);
    struct ask wait = reserve(&t, 1, ME, TR_WAIT_FOREVER);
    struct ask read = reserve(&t, 1, ME, TR_WAIT_FOREVER);
    struct ask peek = rig_ask(TR_OP_PEEK);

    (void)state;
    peek.req.id = rig_push(&rig, t, 0);
    rig_submit(&rig, &read);
    rig_submit(&rig, &wait);
    rig_submit(&rig, &peek);
    assert_int_equal(rig_engine_stat(&rig).reserved, 1);
    rig_fini(&rig);
}

/* A pause and a wait that are over at the same moment: the wait gets what the pause held back. */
static void test_handout_pause_ends_before_waits(void **state)
{
    struct rig rig;
    uint32_t t;
    struct ask pause = rig_ask(TR_OP_PAUSE);
    struct ask wait = rig_ask(TR_OP_RESERVE);

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    (void)rig_push(&rig, t, 0);
    pause.req.topic = t;
    pause.req.wait_us = 100;
    assert_int_equal(rig_do(&rig, &pause), TARRY_OK);
    wait.req.topics = &t;
    wait.req.topic_count = 1;
    wait.req.holder = 7;
    wait.req.wait_us = 200;
    rig_submit(&rig, &wait);
    rig_settle(&rig);
    assert_int_equal(wait.done, 0);
    rig.now.boot_us += RIG_SECOND; /* both at once */
    rig.now.wall_us += RIG_SECOND;
    rig_settle(&rig);
    assert_true(wait.done != 0);
    assert_int_equal(wait.req.out.status, TARRY_OK);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handout_pause_ends_before_waits),
        cmocka_unit_test(test_handout_order_over_topics),
        cmocka_unit_test(test_handout_order_against_model),
        cmocka_unit_test(test_handout_refuses_nonsense),
        cmocka_unit_test(test_handout_waiters_are_served_first_come_first),
        cmocka_unit_test(test_handout_waiter_gets_job_in_call_of_push),
        cmocka_unit_test(test_handout_chain_of_waiters_does_not_nest),
        cmocka_unit_test(test_handout_waiter_gets_job_in_turn_it_is_due),
        cmocka_unit_test(test_handout_wait_times_out),
        cmocka_unit_test(test_handout_warns_at_once),
        cmocka_unit_test(test_handout_warns_while_it_waits),
        cmocka_unit_test(test_handout_warns_of_later_lease),
        cmocka_unit_test(test_handout_close_of_one_who_waits),
        cmocka_unit_test(test_handout_timeout_before_warning),
        cmocka_unit_test(test_handout_warns_of_earliest_lease),
        cmocka_unit_test(test_handout_lease_runs_out),
        cmocka_unit_test(test_handout_touch_starts_lease_anew),
        cmocka_unit_test(test_handout_lease_of_a_holder_at_least),
        cmocka_unit_test(test_handout_lease_with_its_own_ttr),
        cmocka_unit_test(test_handout_longest_ttr),
        cmocka_unit_test(test_handout_return_is_uncounted),
        cmocka_unit_test(test_handout_close_gives_jobs_back),
        cmocka_unit_test(test_handout_reserve_job_from_each_state),
        cmocka_unit_test(test_handout_pause_holds_back),
        cmocka_unit_test(test_handout_resume_serves_at_once),
        cmocka_unit_test(test_handout_body_is_read_back),
        cmocka_unit_test(test_handout_starts_over_when_job_dies_during_read),
        cmocka_unit_test(test_handout_abandon_while_reading),
        cmocka_unit_test(test_handout_abandon_while_waiting),
        cmocka_unit_test(test_handout_waiter_keeps_topic),
        cmocka_unit_test(test_handout_engine_ends_under_waiters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
