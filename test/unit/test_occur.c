/* Schedules in the engine: want of memory, many at once, checkpoints, purges; test_schedules.py has
 * what users see, the swarm `cron` what crashes do. */

#include "base/err.h"
#include "base/text.h"
#include "rules/schedule.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct tr_schedule every = {.kind = TR_SCHEDULE_EVERY,
                                         .period_us = 10 * RIG_SECOND,
                                         .topic = {"t", 1},
                                         .body = (const uint8_t *)"hello",
                                         .body_len = 5};

static int ask(struct rig *rig, enum tr_op op, const char *name, const struct tr_schedule *is)
{
    struct ask a = rig_ask(op);

    a.req.name = name;
    a.req.name_len = strlen(name);
    a.req.schedule = is;
    a.req.count = 10;
    return rig_do(rig, &a);
}

struct seen {
    struct tr_schedule_state at;
    unsigned count;
    bool held;
};

static void see(void *ctx, const struct tr_schedule_view *v)
{
    struct seen *seen = ctx;

    seen->at = *v->at;
    seen->held = v->held;
    seen->count++;
}

/* The last one of all. */
static struct seen look(struct rig *rig)
{
    struct seen seen = {.count = 0};

    tr_engine_schedules(rig->e, see, &seen);
    return seen;
}

static void test_occur_set_without_memory(void **state)
{
    struct rig rig;
    unsigned refused = 0;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    for (uint64_t n = 1;; n++) {
        int err;

        rig.mem.fail_at = rig.mem.calls + n;
        err = ask(&rig, TR_OP_SCHEDULE, "s", &every);
        rig.mem.fail_at = 0;
        if (err == TARRY_OK) {
            break;
        }
        assert_int_equal(err, TARRY_ENOMEM);
        assert_int_equal(look(&rig).count, 0);
        refused++;
    }
    assert_true(refused >= 3);
    rig_pass(&rig, 11 * RIG_SECOND);
    assert_int_equal(look(&rig).at.fired, 1);
    rig_fini(&rig);
}

/* Whatever cannot be had at the tick, it makes one job in the end. */
static void test_occur_tick_without_memory(void **state)
{
    struct rig rig;
    unsigned held = 0;

    (void)state;
    for (uint64_t n = 1; n < 12; n++) {
        uint32_t t;

        rig_init(&rig);
        rig_open(&rig);
        assert_int_equal(ask(&rig, TR_OP_SCHEDULE, "s", &every), TARRY_OK);
        rig_pass(&rig, 10 * RIG_SECOND - 1);
        rig.mem.fail_at = rig.mem.calls + n;
        rig_pass(&rig, 1);
        rig.mem.fail_at = 0;
        held += look(&rig).held;
        rig_pass(&rig, 2 * RIG_SECOND);
        assert_int_equal(look(&rig).at.fired, 1);
        assert_false(look(&rig).held);
        t = rig_hold(&rig, "t");
        assert_int_equal(rig_stat(&rig, t).ready, 1);
        rig_fini(&rig);
    }
    assert_true(held >= 3);
}

static void test_occur_many_in_slices(void **state)
{
    enum { COUNT = 2000 };
    struct tr_schedule is = every;
    struct rig rig;
    uint32_t t;

    (void)state;
    is.start_us = RIG_WALL_US + 60 * RIG_SECOND;
    rig_init(&rig);
    rig.config.slots_max = 64;
    rig.config.slice = 200;
    rig_open(&rig);
    for (unsigned i = 0; i < COUNT; i++) {
        char name[16];

        tr_text(name, sizeof name, "s%u", i);
        assert_int_equal(ask(&rig, TR_OP_SCHEDULE, name, &is), TARRY_OK);
    }
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(look(&rig).count, COUNT);
    rig_pass(&rig, 61 * RIG_SECOND);
    t = rig_hold(&rig, "t");
    assert_int_equal(rig_stat(&rig, t).ready, COUNT);
    assert_true(rig_engine_stat(&rig).work_max <= 200);
    rig_fini(&rig);
}

/* More than a page of a checkpoint, over a clean end and a power cut. */
static void test_occur_large_over_restarts(void **state)
{
    static uint8_t body[12000];
    struct tr_schedule is = every;
    struct rig rig;
    uint64_t id;

    (void)state;
    memset(body, 'x', sizeof body);
    is.body = body;
    is.body_len = sizeof body;
    rig_init(&rig);
    rig_open(&rig);
    assert_int_equal(ask(&rig, TR_OP_SCHEDULE, "a", &every), TARRY_OK);
    assert_int_equal(ask(&rig, TR_OP_SCHEDULE, "large", &is), TARRY_OK);
    rig_pass(&rig, 41 * RIG_SECOND); /* a checkpoint has it */
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(look(&rig).count, 2);
    assert_int_equal(look(&rig).at.fired, 1);
    assert_int_equal(look(&rig).at.skipped, 3);
    rig_close(&rig);
    rig_open(&rig);
    id = look(&rig).at.live_id;
    assert_int_equal(rig_view(&rig, id).body_len, sizeof body);
    assert_int_equal(ask(&rig, TR_OP_SCHEDULE_DROP, "large", NULL), TARRY_OK);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(look(&rig).count, 1);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_fini(&rig);
}

/* A purge ends what it takes, also one whose clearing away a crash cuts short. */
static void test_occur_purge_ends(void **state)
{
    struct tr_schedule is = every;
    struct ask a = rig_ask(TR_OP_PURGE);
    struct rig rig;
    uint32_t t;

    (void)state;
    is.kind = TR_SCHEDULE_AFTER;
    rig_init(&rig);
    rig_open(&rig);
    assert_int_equal(ask(&rig, TR_OP_SCHEDULE, "s", &is), TARRY_OK);
    rig_pass(&rig, RIG_SECOND);
    assert_true(look(&rig).at.live_id != 0);
    t = rig_hold(&rig, "t");
    a.req.topic = t;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_true(look(&rig).at.live_id == 0);
    rig_power_cut(&rig);
    rig_open(&rig);
    rig_pass(&rig, 11 * RIG_SECOND);
    assert_int_equal(look(&rig).at.fired, 2);
    rig_fini(&rig);
}

/* What is foretold of one that is not made is what comes when it is; nothing is made by asking. */
static void test_occur_foretold_before_it_is_made(void **state)
{
    struct ask a = rig_ask(TR_OP_SCHEDULE_TIMES);
    struct ask b = rig_ask(TR_OP_SCHEDULE_TIMES);
    struct tr_schedule is = every;
    uint64_t times[10];
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    is.jitter_us = 5 * RIG_SECOND; /* drawn from the number that it will have */
    is.limit = 7;
    a.req.name = b.req.name = "s";
    a.req.name_len = b.req.name_len = 1;
    a.req.count = b.req.count = 10;
    a.req.schedule = &is;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.number, 7);
    memcpy(times, a.req.out.times, 7 * sizeof times[0]);
    assert_int_equal(look(&rig).count, 0);
    assert_int_equal(rig_do(&rig, &b), TARRY_ENOTFOUND);
    assert_int_equal(ask(&rig, TR_OP_SCHEDULE, "s", &is), TARRY_OK);
    assert_int_equal(rig_do(&rig, &b), TARRY_OK);
    assert_int_equal(b.req.out.number, 7);
    assert_memory_equal(b.req.out.times, times, 7 * sizeof times[0]);
    is.period_us = 0;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    rig_fini(&rig);
}

static void test_occur_refuses(void **state)
{
    struct tr_schedule is = every;
    struct ask a = rig_ask(TR_OP_SCHEDULE_TIMES);
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    is.period_us = 0;
    assert_int_equal(ask(&rig, TR_OP_SCHEDULE, "s", &is), TARRY_EINVAL);
    assert_int_equal(ask(&rig, TR_OP_SCHEDULE, "-s", &every), TARRY_EINVAL);
    assert_int_equal(ask(&rig, TR_OP_SCHEDULE, "s", NULL), TARRY_EINVAL);
    is = (struct tr_schedule){
        .kind = TR_SCHEDULE_CRON, .cron = {"0 0 30 2 *", 10}, .topic = {"t", 1}};
    assert_int_equal(ask(&rig, TR_OP_SCHEDULE, "s", &is), TARRY_EINVAL);
    is.cron = (struct tr_schedule_text){"@daily", 6};
    is.tz = (struct tr_schedule_text){"Europe/Berlin", 13}; /* the rig has no zones */
    assert_int_equal(ask(&rig, TR_OP_SCHEDULE, "s", &is), TARRY_ENOTFOUND);
    for (enum tr_op op = TR_OP_SCHEDULE_GET; op < TR_OP_COUNT; op++) {
        assert_int_equal(ask(&rig, op, "s", NULL), TARRY_ENOTFOUND);
    }
    assert_int_equal(ask(&rig, TR_OP_SCHEDULE, "s", &every), TARRY_OK);
    a.req.name = "s";
    a.req.name_len = 1;
    a.req.count = TR_SCHEDULE_TIMES_MAX + 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    rig_fini(&rig);
}

/* ---- held, with a test clock ---- */

static unsigned stop_count; /* of the test clock */

static void on_moved(void *ctx, uint64_t t_us)
{
    (void)ctx;
    (void)t_us;
    stop_count++;
}

static void advance(struct rig *rig, uint64_t by_us)
{
    struct ask a = rig_ask(TR_OP_ADVANCE);

    a.req.delay_us = by_us;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
}

static uint32_t start_held(struct rig *rig, const struct tr_policy *p, unsigned fields)
{
    struct tr_schedule is = every;
    uint32_t t;

    is.overlap = TR_OVERLAP_ALLOW;
    rig_init(rig);
    rig->config.test_clock = true;
    rig->config.moved = on_moved;
    rig_open(rig);
    t = rig_hold(rig, "t");
    rig_policy(rig, t, p, fields);
    assert_int_equal(ask(rig, TR_OP_SCHEDULE, "s", &is), TARRY_OK);
    return t;
}

/* It is freed between two advances: by the next one at the latest, with all of its ticks. */
static void test_occur_held_on_test_clock(void **state)
{
    struct tr_policy p = {.paused = TR_PAUSED_IN};
    struct rig rig;
    uint32_t t = start_held(&rig, &p, TR_POLICY_BIT(PAUSED));

    (void)state;
    advance(&rig, 35 * RIG_SECOND);
    assert_true(look(&rig).held);
    rig_pass(&rig, 10 * RIG_SECOND); /* real ones do not count */
    assert_int_equal(look(&rig).at.fired, 0);
    rig_policy(&rig, t, &(struct tr_policy){.paused = 0}, TR_POLICY_BIT(PAUSED));
    advance(&rig, 15 * RIG_SECOND);
    assert_false(look(&rig).held);
    assert_int_equal(look(&rig).at.fired, 3); /* the missed ones at once, 40, 50 */
    assert_true(look(&rig).at.last_us == RIG_WALL_US + 50 * RIG_SECOND);
    rig_fini(&rig);
}

/* What frees it happens in an advance, which does not stop each second for it. */
static void test_occur_freed_while_clock_moves(void **state)
{
    struct tr_policy p = {.paused = TR_PAUSED_IN,
                          .paused_until_us = RIG_WALL_US + 24 * 3600 * RIG_SECOND + 5 * RIG_SECOND};
    struct rig rig;

    (void)state;
    (void)start_held(&rig, &p, TR_POLICY_BIT(PAUSED));
    stop_count = 0;
    advance(&rig, 24 * 3600 * RIG_SECOND);
    assert_true(stop_count < 20);
    assert_true(look(&rig).held);
    advance(&rig, 30 * RIG_SECOND);
    assert_false(look(&rig).held);
    assert_int_equal(look(&rig).at.fired,
                     4); /* the missed ones when the pause is over, 10, 20, 30 */
    rig_fini(&rig);

    p = (struct tr_policy){.max_jobs = 1};
    uint32_t t = start_held(&rig, &p, TR_POLICY_BIT(MAX_JOBS));
    uint64_t id;

    advance(&rig, 25 * RIG_SECOND);
    assert_int_equal(look(&rig).at.fired, 1);
    id = rig_reserve(&rig, t, 7);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 7), TARRY_OK);
    advance(&rig, 0);
    assert_int_equal(look(&rig).at.fired, 2);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_occur_set_without_memory),
        cmocka_unit_test(test_occur_tick_without_memory),
        cmocka_unit_test(test_occur_many_in_slices),
        cmocka_unit_test(test_occur_large_over_restarts),
        cmocka_unit_test(test_occur_purge_ends),
        cmocka_unit_test(test_occur_foretold_before_it_is_made),
        cmocka_unit_test(test_occur_refuses),
        cmocka_unit_test(test_occur_held_on_test_clock),
        cmocka_unit_test(test_occur_freed_while_clock_moves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
