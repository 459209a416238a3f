/* Dead jobs leave memory, and the first of them is found again. */

#include "base/err.h"
#include "engine/inner.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define ME UINT64_C(7)

enum { DEAD = 600 };

/* So many dead jobs of 1,000 bytes, died in an order of their own, in run files as far as
 * promotion came. The ids by order of death. */
static uint32_t start(struct rig *rig, uint64_t *ids)
{
    uint32_t t;

    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.far_max = 10;
    rig->config.promote_slots = 2;
    rig->config.slots_max = 64;
    rig_open(rig);
    t = rig_hold(rig, "t");
    for (unsigned i = 0; i < DEAD; i++) {
        ids[i * 7 % DEAD] = rig_push_body(rig, t, 0, 1000);
    }
    for (unsigned i = 0; i < DEAD; i++) {
        assert_int_equal(rig_with(rig, TR_OP_RESERVE_JOB, ids[i], ME), TARRY_OK);
        assert_int_equal(rig_with(rig, TR_OP_BURY, ids[i], ME), TARRY_OK);
    }
    rig_pass(rig, 60 * RIG_SECOND); /* idle: what can be promoted is */
    return t;
}

static unsigned in_memory(const struct rig *rig)
{
    struct tr_engine_stat s = rig_engine_stat(rig);

    return (unsigned)(s.jobs - s.runs);
}

static uint64_t first_dead(struct rig *rig, uint32_t t)
{
    struct ask peek = rig_ask(TR_OP_PEEK_FIRST);

    peek.req.topic = t;
    peek.req.state = TR_DEAD;
    return rig_do(rig, &peek) == TARRY_OK ? peek.req.out.job.id : 0;
}

static void test_deaths_leave_memory(void **state)
{
    uint64_t ids[DEAD];
    struct rig rig;
    uint32_t t = start(&rig, ids);

    (void)state;
    assert_true(in_memory(&rig) < DEAD / 2);
    assert_int_equal(rig_stat(&rig, t).dead, DEAD);
    assert_int_equal(rig_stat(&rig, t).delayed, 0);
    assert_int_equal(rig_state(&rig, ids[0]), TR_DEAD); /* a visitor, which goes again */
    rig_pass(&rig, 3 * RIG_SECOND);
    assert_true(in_memory(&rig) < DEAD / 2);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_true(in_memory(&rig) < DEAD / 2);
    assert_int_equal(rig_stat(&rig, t).dead, DEAD);
    assert_int_equal(rig_engine_stat(&rig).dead, DEAD);
    rig_fini(&rig);
}

static void test_deaths_come_in_order(void **state)
{
    uint64_t ids[DEAD];
    struct rig rig;
    uint32_t t = start(&rig, ids);

    (void)state;
    for (unsigned i = 0; i < DEAD; i++) {
        struct ask kick = rig_ask(TR_OP_KICK);

        assert_int_equal(first_dead(&rig, t), ids[i]);
        if (i % 5 == 0) {
            rig_pass(&rig, 2 * RIG_SECOND); /* those that were found have left again */
        }
        if (i % 3 == 0) {
            assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[i], 0), TARRY_OK);
            continue;
        }
        kick.req.topic = t;
        kick.req.count = 1;
        assert_int_equal(rig_do(&rig, &kick), TARRY_OK);
        assert_int_equal(kick.req.out.number, 1);
        assert_int_equal(rig_state(&rig, ids[i]), TR_READY);
    }
    assert_int_equal(first_dead(&rig, t), 0);
    assert_int_equal(rig_stat(&rig, t).dead, 0);
    assert_int_equal(rig_stat(&rig, t).ready, DEAD - DEAD / 3);
    rig_fini(&rig);
}

/* By id they are as good as in memory; a cancel reads nothing but the index. */
static void test_deaths_by_id(void **state)
{
    uint64_t ids[DEAD];
    struct rig rig;
    uint32_t t = start(&rig, ids);
    struct ask peek = rig_ask(TR_OP_PEEK);

    (void)state;
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[0], 0), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[0], 0), TARRY_ENOTFOUND);
    assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, ids[1], 0), TARRY_OK);
    assert_int_equal(rig_state(&rig, ids[1]), TR_READY);
    assert_int_equal(rig_with(&rig, TR_OP_FIRE, ids[2], 0), TARRY_ESTATE);
    peek.req.id = ids[3];
    assert_int_equal(rig_do(&rig, &peek), TARRY_OK);
    assert_int_equal(peek.req.out.job.body_len, 1000);
    assert_int_equal(peek.req.out.job.state, TR_DEAD);
    assert_int_equal(rig_stat(&rig, t).dead, DEAD - 2);
    assert_int_equal(first_dead(&rig, t), ids[2]);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(rig_stat(&rig, t).dead, DEAD - 2);
    assert_int_equal(first_dead(&rig, t), ids[2]);
    rig_fini(&rig);
}

/* A dead job for which there was no memory when its record had come is far as before: due never. */
static void test_deaths_no_memory(void **state)
{
    uint64_t ids[DEAD];
    struct rig rig;
    struct ask look = rig_ask(TR_OP_STAT_JOB);
    const struct tr_far_entry *entry;

    (void)state;
    (void)start(&rig, ids);
    look.req.id = ids[0];
    rig_submit(&rig, &look);
    for (unsigned i = 0; i < 100 && rig.e->load.reads == 0; i++) {
        (void)rig_turn(&rig);
        if (rig.e->load.reads == 0) {
            (void)rig.step(rig.step_ctx);
        }
    }
    assert_int_equal(rig.e->load.reads, 1);
    rig.mem.limit_bytes = rig.mem.used_bytes;
    while (rig.step(rig.step_ctx)) {
    }
    assert_int_equal(rig.e->load.reads, 0);
    entry = tr_far_find(&rig.e->state.jobs.far, tr_far_rid(&rig.e->state.jobs.far, ids[0]));
    assert_non_null(entry);
    assert_true(entry->dead);
    assert_int_equal(entry->due_us, UINT64_MAX);
    rig.mem.limit_bytes = 0;
    (void)rig_settle(&rig);
    assert_true(look.done != 0);
    assert_int_equal(look.req.out.status, TARRY_OK);
    rig_fini(&rig);
}

/* A hundred of two hundred long jobs are buried when they are in runs. */
static uint32_t bury_long(struct rig *rig, bool with_body)
{
    uint32_t t;

    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.far_max = 10;
    rig->config.promote_slots = 1;
    rig->config.slots_max = 64;
    rig->config.move_body_max = 100;
    rig_open(rig);
    t = rig_hold(rig, "t");
    for (unsigned i = 0; i < 200; i++) {
        (void)rig_push_body(rig, t, 3600 * RIG_SECOND, 1000);
    }
    rig_pass(rig, 60 * RIG_SECOND);
    for (uint64_t id = 1; id <= 100; id++) {
        assert_int_equal(rig_with(rig, TR_OP_RESERVE_JOB, id, ME), TARRY_OK);
        if (!with_body) {
            tr_jobs_drop_body(&rig->e->state.jobs, tr_jobs_by_id(&rig->e->state.jobs, id));
        }
        assert_int_equal(rig_with(rig, TR_OP_BURY, id, ME), TARRY_OK);
    }
    return t;
}

/* They leave memory, as others do. */
static void test_deaths_long_bodies(void **state)
{
    struct rig rig;
    uint32_t t = bury_long(&rig, true);

    (void)state;
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_true(in_memory(&rig) < 40);
    assert_int_equal(rig_stat(&rig, t).dead, 100);
    assert_int_equal(first_dead(&rig, t), 1);
    rig_fini(&rig);
}

/* Dead ones whose record is in a live run are no reason for a promotion: none can take them. */
static void test_deaths_no_reason(void **state)
{
    struct rig rig;
    uint32_t t = bury_long(&rig, false); /* an ALTER: the body is not in memory */
    uint64_t promotions;

    (void)state;
    promotions = rig_engine_stat(&rig).promotions;
    for (unsigned i = 0; i < 400; i++) { /* some slots full of what lives for a moment only */
        uint64_t id = rig_push_body(&rig, t, 0, 1000);

        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
        if (i % 20 == 0) {
            (void)rig_push_body(&rig, t, 0, 10);
        }
    }
    assert_int_equal(rig_engine_stat(&rig).promotions, promotions);
    rig_fini(&rig);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deaths_leave_memory), cmocka_unit_test(test_deaths_come_in_order),
        cmocka_unit_test(test_deaths_by_id),        cmocka_unit_test(test_deaths_no_reason),
        cmocka_unit_test(test_deaths_no_memory),    cmocka_unit_test(test_deaths_long_bodies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
