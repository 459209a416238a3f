/* Figures of a topic: when its next job is due, wherever that is, and the others. */

#include "base/err.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR (3600 * RIG_SECOND)
#define ME UINT64_C(7)

static uint32_t start(struct rig *rig, unsigned promote_slots)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.promote_slots = promote_slots;
    rig->config.far_max = promote_slots != 0 ? 1 : 1000000;
    rig_open(rig);
    return rig_hold(rig, "t");
}

/* From the beginning of time, or 0. */
static uint64_t next(struct rig *rig, uint32_t t)
{
    uint64_t us = rig_stat(rig, t).next_due_us;

    return us != 0 ? us - RIG_WALL_US : 0;
}

static void test_nearest_in_memory(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig, 0);
    uint64_t id;

    (void)state;
    assert_int_equal(next(&rig, t), 0);
    (void)rig_push(&rig, t, 0);
    assert_int_equal(next(&rig, t), 0);
    (void)rig_push(&rig, t, 20 * RIG_SECOND);
    id = rig_push(&rig, t, 10 * RIG_SECOND);
    assert_int_equal(next(&rig, t), 10 * RIG_SECOND);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    assert_int_equal(next(&rig, t), 20 * RIG_SECOND);
    rig_pass(&rig, 20 * RIG_SECOND);
    assert_int_equal(next(&rig, t), 0);
    rig_fini(&rig);
}

/* Far ones count, whoever comes and goes; topics do not disturb each other. */
static void test_nearest_far(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig, 0);
    uint32_t u = rig_hold(&rig, "u");
    uint64_t first = rig_push(&rig, t, 2 * HOUR);
    uint64_t second = rig_push(&rig, t, 3 * HOUR);

    (void)state;
    (void)rig_push(&rig, u, HOUR);
    (void)rig_push(&rig, u, 4 * HOUR);
    assert_int_equal(rig_engine_stat(&rig).far, 4);
    assert_int_equal(next(&rig, t), 2 * HOUR);
    assert_int_equal(next(&rig, u), HOUR);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, first, ME), TARRY_OK);
    assert_int_equal(next(&rig, t), 3 * HOUR);
    assert_int_equal(rig_state(&rig, second), TR_DELAYED); /* it is a visitor */
    assert_int_equal(next(&rig, t), 3 * HOUR);
    rig_pass(&rig, 2 * RIG_SECOND); /* and leaves */
    assert_int_equal(next(&rig, t), 3 * HOUR);
    (void)rig_push(&rig, t, HOUR / 2);
    assert_int_equal(next(&rig, t), HOUR / 2 + 2 * RIG_SECOND);
    (void)rig_push(&rig, t, 5 * HOUR);
    assert_int_equal(next(&rig, t), HOUR / 2 + 2 * RIG_SECOND);
    rig_pass(&rig, HOUR);
    assert_int_equal(next(&rig, t), 3 * HOUR);
    assert_int_equal(next(&rig, u), 4 * HOUR);
    rig_power_cut(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    assert_int_equal(next(&rig, t), 3 * HOUR);
    rig_fini(&rig);
}

/* Somebody cancels in order of due times: who asks is answered all the same. */
static void test_nearest_of_one_who_cancels(void **state)
{
    enum { MANY = 500 };
    struct rig rig;
    uint32_t t = start(&rig, 0);
    struct ask stat = rig_ask(TR_OP_STAT_TOPIC);
    uint64_t ids[MANY];
    unsigned gone = 0;

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        ids[i] = rig_push(&rig, t, HOUR + i * RIG_SECOND);
    }
    stat.req.topic = t;
    rig_submit(&rig, &stat);
    for (; stat.done == 0 && gone < MANY; gone++) {
        struct ask a = rig_ask(TR_OP_DELETE);

        a.req.id = ids[gone];
        rig_submit(&rig, &a);
        (void)rig_turn(&rig);
        while (a.done == 0 && rig.step(rig.step_ctx)) {
            (void)rig_turn(&rig);
        }
        assert_true(a.done != 0);
    }
    assert_true(gone < MANY / 2);
    assert_true(stat.req.out.stat.next_due_us >= RIG_WALL_US + HOUR);
    assert_true(stat.req.out.stat.next_due_us <= RIG_WALL_US + HOUR + gone * RIG_SECOND);
    rig_settle(&rig);
    assert_int_equal(next(&rig, t), HOUR + gone * RIG_SECOND); /* and then exactly */
    rig_fini(&rig);
}

static void test_nearest_in_runs(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig, 1);
    uint64_t ids[12];

    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        ids[i] = rig_push_body(&rig, t, (12 - i) * HOUR, 15000);
    }
    rig_settle(&rig);
    rig_pass(&rig, 20 * RIG_SECOND);
    assert_true(rig_engine_stat(&rig).runs > 5);
    for (unsigned i = 12; i-- > 0;) {
        assert_int_equal(next(&rig, t), (12 - i) * HOUR);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[i], ME), TARRY_OK);
    }
    assert_int_equal(next(&rig, t), 0);
    rig_fini(&rig);
}

static void test_nearest_figures(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig, 0);
    struct tr_topic_stat s;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        (void)rig_push(&rig, t, RIG_SECOND);
    }
    s = rig_stat(&rig, t);
    assert_int_equal(s.pushed_milli, 2000); /* 20 in the last ten seconds */
    assert_int_equal(s.handed_milli, 0);
    assert_int_equal(s.oldest_ready_us, 0);
    rig.now.wall_us += 3 * RIG_SECOND; /* nobody looked for two seconds */
    rig.now.boot_us += 3 * RIG_SECOND;
    rig_settle(&rig);
    s = rig_stat(&rig, t);
    assert_true(s.late_p50_us > 1700000 && s.late_p50_us < 2300000);
    assert_true(s.late_p99_us == s.late_p50_us);
    assert_true(s.oldest_ready_us == RIG_WALL_US + 3 * RIG_SECOND);
    assert_true(rig_reserve(&rig, t, ME) != 0);
    assert_int_equal(rig_stat(&rig, t).handed_milli, 100);
    rig_pass(&rig, HOUR);
    s = rig_stat(&rig, t);
    assert_int_equal(s.pushed_milli + s.handed_milli + s.late_p50_us + s.late_p99_us, 0);
    assert_true(s.oldest_ready_us == RIG_WALL_US + 3 * RIG_SECOND);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest_in_memory),
        cmocka_unit_test(test_nearest_far),
        cmocka_unit_test(test_nearest_of_one_who_cancels),
        cmocka_unit_test(test_nearest_in_runs),
        cmocka_unit_test(test_nearest_figures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
