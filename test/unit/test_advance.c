/* The test clock: T stands still, and goes from event to event when it is told to. */

#include "base/err.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR (3600 * RIG_SECOND)
#define DAY (24 * HOUR)
#define ME UINT64_C(7)

enum { STOPS_MAX = 64 };

static uint64_t stops[STOPS_MAX]; /* where T stood, in order */
static unsigned stop_count;

static void on_moved(void *ctx, uint64_t t_us)
{
    (void)ctx;
    if (stop_count < STOPS_MAX) {
        stops[stop_count++] = t_us;
    }
}

/* What happens outside: the clock stops there, and goes on when that has moved. */
static uint64_t outside_us = UINT64_MAX;

static uint64_t on_event(void *ctx)
{
    (void)ctx;
    return outside_us;
}

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.test_clock = true;
    rig->config.moved = on_moved;
    stop_count = 0;
    rig_open(rig);
    return rig_hold(rig, "t");
}

static uint64_t now(struct rig *rig)
{
    return rig_stat(rig, 0).now_us;
}

static int advance(struct rig *rig, uint64_t by_us)
{
    struct ask a = rig_ask(TR_OP_ADVANCE);
    int status;

    a.req.delay_us = by_us;
    status = rig_do(rig, &a);
    assert_true(status != TARRY_OK || a.req.out.number == now(rig));
    return status;
}

static void wait_for(struct rig *rig, struct ask *a, const uint32_t *t)
{
    *a = rig_ask(TR_OP_RESERVE);
    a->req.topics = t;
    a->req.topic_count = 1;
    a->req.holder = ME;
    a->req.wait_us = TR_WAIT_FOREVER;
    rig_submit(rig, a);
}

static void test_advance_time_stands_still(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, RIG_SECOND);

    (void)state;
    assert_true(now(&rig) == RIG_WALL_US);
    rig_pass(&rig, DAY);
    assert_true(now(&rig) == RIG_WALL_US);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    assert_int_equal(advance(&rig, RIG_SECOND - 1), TARRY_OK);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    assert_int_equal(advance(&rig, 1), TARRY_OK);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_true(rig_view(&rig, id).created_us == RIG_WALL_US);
    assert_true(rig_view(&rig, id).age_us == RIG_SECOND);
    assert_true(rig_view(&rig, id).left_us == RIG_TTR_US);
    rig_fini(&rig);
}

/* What goes on outside, in real time, is waited for, and stopped for. */
static void test_advance_waits_for_what_is_outside(void **state)
{
    struct rig rig;
    uint32_t t;
    struct ask a = rig_ask(TR_OP_ADVANCE);

    (void)state;
    rig_init(&rig);
    rig.config.test_clock = true;
    rig.config.moved = on_moved;
    rig.config.event = on_event;
    stop_count = 0;
    outside_us = UINT64_MAX;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    (void)rig_push(&rig, t, 2 * RIG_SECOND);
    outside_us = RIG_WALL_US + RIG_SECOND;
    a.req.delay_us = 10 * RIG_SECOND;
    rig_submit(&rig, &a);
    (void)rig_settle(&rig);
    assert_int_equal(a.done, 0);
    assert_true(now(&rig) == RIG_WALL_US + RIG_SECOND); /* it is there, and has not happened yet */
    rig_pass(&rig, RIG_SECOND);
    assert_true(now(&rig) == RIG_WALL_US + RIG_SECOND);
    outside_us = 0; /* something is under way */
    (void)rig_settle(&rig);
    assert_int_equal(a.done, 0);
    outside_us = UINT64_MAX;
    (void)rig_settle(&rig);
    assert_true(a.done != 0);
    assert_true(now(&rig) == RIG_WALL_US + 10 * RIG_SECOND);
    assert_true(stop_count >= 3 && stops[0] == RIG_WALL_US + RIG_SECOND);
    rig_fini(&rig);
}

static void test_advance_refuses(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = rig_ask(TR_OP_ADVANCE);

    (void)state;
    (void)t;
    a.req.at_us = RIG_WALL_US - 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_ESTATE);
    assert_true(a.req.out.number == RIG_WALL_US);
    assert_int_equal(advance(&rig, TR_DELAY_MAX_US + 1), TARRY_EINVAL);
    assert_int_equal(advance(&rig, 0), TARRY_OK);
    assert_true(now(&rig) == RIG_WALL_US);
    rig_fini(&rig);

    rig_init(&rig); /* without a test clock */
    rig_open(&rig);
    assert_int_equal(advance(&rig, 1), TARRY_EUNSUPPORTED);
    rig_fini(&rig);
}

/* Everything happens at its time and in its order, and who waits gets it. */
static void test_advance_in_order(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t far = rig_push(&rig, t, 30 * DAY);
    uint64_t second = rig_push(&rig, t, 2 * RIG_SECOND);
    uint64_t first = rig_push(&rig, t, RIG_SECOND);
    struct ask waits[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        wait_for(&rig, &waits[i], &t);
    }
    assert_int_equal(advance(&rig, 2 * RIG_SECOND), TARRY_OK);
    assert_int_equal(waits[0].req.out.job.id, first);
    assert_int_equal(waits[1].req.out.job.id, second);
    assert_int_equal(waits[2].done, 0);
    assert_true(waits[0].req.out.job.late_us == 0 && waits[1].req.out.job.late_us == 0);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, first, ME), TARRY_OK);
    assert_int_equal(rig_engine_stat(&rig).far, 1);
    /* The lease of the second one ends ten seconds later: it is handed out again before the far. */
    assert_int_equal(advance(&rig, 30 * DAY), TARRY_OK);
    assert_int_equal(waits[2].req.out.job.id, second);
    assert_int_equal(waits[2].req.out.job.timeouts, 1);
    assert_int_equal(rig_state(&rig, far), TR_READY);
    assert_true(rig_view(&rig, far).late_us == 0);
    for (unsigned i = 1; i < stop_count; i++) {
        assert_true(stops[i - 1] < stops[i]);
    }
    assert_true(stops[0] == RIG_WALL_US + RIG_SECOND);
    assert_true(stops[1] == RIG_WALL_US + 2 * RIG_SECOND);
    assert_true(stops[stop_count - 1] == RIG_WALL_US + 30 * DAY + 2 * RIG_SECOND);
    rig_fini(&rig);
}

/* Leases, pauses and warnings follow the test clock; waits do not. */
static void test_advance_spans(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask pause = rig_ask(TR_OP_PAUSE);
    struct ask w;

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_pass(&rig, HOUR);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    w = rig_ask(TR_OP_RESERVE);
    w.req.topics = &t;
    w.req.topic_count = 1;
    w.req.holder = ME;
    w.req.wait_us = TR_WAIT_FOREVER;
    w.req.warn_us = RIG_SECOND;
    rig_submit(&rig, &w);
    assert_int_equal(advance(&rig, RIG_TTR_US - RIG_SECOND - 1), TARRY_OK);
    assert_int_equal(w.done, 0);
    assert_int_equal(advance(&rig, 1), TARRY_OK);
    assert_int_equal(w.req.out.status, TARRY_ESOON);
    assert_int_equal(advance(&rig, RIG_SECOND), TARRY_OK);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    assert_int_equal(rig_view(&rig, id).timeouts, 1);

    pause.req.topic = t;
    pause.req.wait_us = 5 * RIG_SECOND;
    assert_int_equal(rig_do(&rig, &pause), TARRY_OK);
    w = rig_ask(TR_OP_RESERVE);
    w.req.topics = &t;
    w.req.topic_count = 1;
    w.req.holder = ME;
    w.req.wait_us = 10 * RIG_SECOND;
    rig_submit(&rig, &w);
    assert_int_equal(advance(&rig, 5 * RIG_SECOND - 1), TARRY_OK);
    assert_int_equal(w.done, 0);
    assert_true(rig_stat(&rig, t).pause_left_us == 1);
    rig_pass(&rig, 10 * RIG_SECOND); /* its own time is real */
    assert_int_equal(w.req.out.status, TARRY_ETIMEOUT);
    assert_int_equal(advance(&rig, 1), TARRY_OK);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_fini(&rig);
}

/* It is kept, and never goes back. */
static void test_advance_survives(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, HOUR);

    (void)state;
    assert_int_equal(advance(&rig, 10 * RIG_SECOND), TARRY_OK);
    rig.now.wall_us += DAY;
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_true(now(&rig) == RIG_WALL_US + 10 * RIG_SECOND);
    rig_close(&rig); /* with a checkpoint */
    rig.config.clock_start_us = RIG_WALL_US - DAY;
    rig_open(&rig);
    assert_true(now(&rig) == RIG_WALL_US + 10 * RIG_SECOND);
    assert_true(rig_view(&rig, id).left_us == HOUR - 10 * RIG_SECOND);
    assert_int_equal(advance(&rig, HOUR), TARRY_OK);
    t = rig_hold(&rig, "t");
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_fini(&rig);
}

/* Time went by while the store was closed: a start may say so, and it is kept from then on. */
static void test_advance_starts_later(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, HOUR);

    (void)state;
    rig_close(&rig);
    rig.config.clock_start_us = RIG_WALL_US + 2 * HOUR;
    rig_open(&rig);
    assert_true(now(&rig) == RIG_WALL_US + 2 * HOUR);
    rig_settle(&rig);
    rig_power_cut(&rig);
    rig.config.clock_start_us = RIG_WALL_US + HOUR;
    rig_open(&rig);
    assert_true(now(&rig) == RIG_WALL_US + 2 * HOUR);
    t = rig_hold(&rig, "t");
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_fini(&rig);
}

/* Whoever was told of a later time is told the same after a power cut, at whatever point it comes.
 */
static void test_advance_cut_short(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, RIG_SECOND);
    struct ask w;
    struct ask a = rig_ask(TR_OP_ADVANCE);

    (void)state;
    wait_for(&rig, &w, &t);
    rig_settle(&rig);
    a.req.delay_us = HOUR;
    rig_submit(&rig, &a);
    while (w.done == 0) {
        (void)rig_turn(&rig);
        (void)rig.step(rig.step_ctx);
    }
    assert_int_equal(w.req.out.job.id, id);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_true(now(&rig) == RIG_WALL_US + HOUR);
    rig_fini(&rig);
}

static void test_advance_goes_on_alone(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = rig_ask(TR_OP_ADVANCE);
    struct ask b = rig_ask(TR_OP_ADVANCE);

    (void)state;
    (void)t;
    a.req.delay_us = HOUR;
    b.req.delay_us = HOUR; /* waits, and counts from where the first one ends */
    rig_submit(&rig, &a);
    rig_submit(&rig, &b);
    tr_engine_abandon(rig.e, &a.req, rig.now);
    rig_settle(&rig);
    assert_int_equal(a.done, 0);
    assert_true(b.done != 0 && b.req.out.number == RIG_WALL_US + 2 * HOUR);
    rig_fini(&rig);
}

/* A store keeps to its clock. */
static void test_advance_store_keeps_its_clock(void **state)
{
    struct rig rig;

    (void)state;
    (void)start(&rig);
    rig_close(&rig);
    rig.config.test_clock = false;
    assert_int_equal(rig_try_open(&rig), TARRY_EINVAL);
    assert_non_null(strstr(rig.note, "only with --test-clock"));
    rig_fini(&rig);

    rig_init(&rig);
    rig_open(&rig);
    rig_close(&rig);
    rig.config.test_clock = true;
    assert_int_equal(rig_try_open(&rig), TARRY_EINVAL);
    assert_non_null(strstr(rig.note, "only without --test-clock"));
    rig.config.test_clock = false;
    rig_open(&rig);
    rig_fini(&rig);

    rig_init(&rig);
    rig.config.test_clock = true;
    rig.config.clock_start_us = DAY;
    rig_open(&rig);
    assert_true(now(&rig) == DAY);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_advance_time_stands_still),
        cmocka_unit_test(test_advance_waits_for_what_is_outside),
        cmocka_unit_test(test_advance_refuses),
        cmocka_unit_test(test_advance_in_order),
        cmocka_unit_test(test_advance_spans),
        cmocka_unit_test(test_advance_survives),
        cmocka_unit_test(test_advance_starts_later),
        cmocka_unit_test(test_advance_cut_short),
        cmocka_unit_test(test_advance_goes_on_alone),
        cmocka_unit_test(test_advance_store_keeps_its_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
