/* Jobs that leave memory and come back, on the simulated disk. */

#include "base/err.h"
#include "engine/inner.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR (3600 * RIG_SECOND)
#define ME UINT64_C(7)

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig_open(rig);
    return rig_hold(rig, "t");
}

static struct tr_engine_stat stat(const struct rig *rig)
{
    return rig_engine_stat(rig);
}

static void test_load_far_jobs_leave_and_come_back(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t near = rig_push(&rig, t, 59 * RIG_SECOND);
    uint64_t far = rig_push(&rig, t, HOUR);

    (void)state;
    assert_int_equal(stat(&rig).far, 1);
    assert_int_equal(stat(&rig).jobs, 2);
    assert_int_equal(rig_stat(&rig, t).delayed, 2);
    rig_pass(&rig, 59 * RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, ME), near);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, near, ME), TARRY_OK);
    rig_pass(&rig, HOUR - 59 * RIG_SECOND - 31 * RIG_SECOND);
    assert_int_equal(stat(&rig).far, 1);
    rig_pass(&rig, 2 * RIG_SECOND); /* half a minute before it is due */
    assert_int_equal(stat(&rig).far, 0);
    rig_pass(&rig, 29 * RIG_SECOND - 1);
    assert_int_equal(rig_reserve(&rig, t, ME), 0); /* never early */
    rig_pass(&rig, 1);
    assert_int_equal(rig_reserve(&rig, t, ME), far);
    rig_fini(&rig);
}

/* Nothing wakes an engine with far jobs before it is time to fetch them. */
static void test_load_sleeps(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    (void)rig_push(&rig, t, 5 * HOUR);
    rig_pass(&rig, 120 * RIG_SECOND);
    assert_int_equal(rig_settle(&rig),
                     rig.now.boot_us + 5 * HOUR - 120 * RIG_SECOND - 30 * RIG_SECOND + 1);
    rig_fini(&rig);
}

static void test_load_by_id(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push_body(&rig, t, HOUR, 1000);
    struct ask a = rig_ask(TR_OP_PEEK);
    struct tr_job_view view;

    (void)state;
    a.req.id = id;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_true(a.has_body);
    assert_int_equal(a.req.out.job.body_len, 1000);
    assert_int_equal(stat(&rig).far, 0); /* a visitor, */
    view = rig_view(&rig, id);
    assert_int_equal(view.state, TR_DELAYED);
    assert_int_equal(view.priority, 100);
    assert_int_equal(view.ttr_us, RIG_TTR_US);
    assert_int_equal(view.delay_us, HOUR);
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(stat(&rig).far, 1); /* who does not stay */
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, id, ME), TARRY_ESTATE);
    assert_int_equal(rig_with(&rig, TR_OP_TOUCH, id, ME), TARRY_ESTATE);
    assert_int_equal(stat(&rig).loaded, 1); /* for that it need not come */
    assert_int_equal(rig_with(&rig, TR_OP_RESERVE_JOB, id, ME), TARRY_OK);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_PEEK, id, 0), TARRY_ENOTFOUND);
    rig_fini(&rig);
}

static void test_load_delete_reads_nothing(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, HOUR);

    (void)state;
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_ENOTFOUND);
    assert_int_equal(stat(&rig).loaded, 0);
    assert_int_equal(stat(&rig).jobs, 0);
    assert_int_equal(rig_stat(&rig, t).deleted, 1);
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_fini(&rig);
}

/* The first delayed job of a topic is exact, whoever is in memory. */
static void test_load_first_of_topic(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t other = rig_hold(&rig, "other");
    struct ask a = rig_ask(TR_OP_PEEK_FIRST);
    uint64_t first = 0;

    (void)state;
    for (unsigned i = 0; i < 600; i++) { /* more than come at a time */
        uint64_t id = rig_push(&rig, i % 3 == 0 ? other : t, HOUR + (i * 7919 % 600) * RIG_SECOND);

        first = i == 1 ? id : first;
    }
    assert_int_equal(stat(&rig).far, 600);
    a.req.topic = t;
    a.req.state = TR_DELAYED;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    for (unsigned i = 0; i < 400; i++) {
        struct ask kick = rig_ask(TR_OP_KICK);
        uint64_t due_us;

        a = rig_ask(TR_OP_PEEK_FIRST);
        a.req.topic = t;
        a.req.state = TR_DELAYED;
        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
        due_us = a.req.out.job.due_us;
        assert_true(i == 0 || due_us >= first);
        first = due_us;
        kick.req.topic = t;
        kick.req.count = 1;
        assert_int_equal(rig_do(&rig, &kick), TARRY_OK);
        assert_int_equal(kick.req.out.number, 1);
        assert_int_equal(rig_state(&rig, a.req.out.job.id), TR_READY);
    }
    assert_int_equal(rig_stat(&rig, t).delayed, 0);
    assert_int_equal(rig_do(&rig, &a), TARRY_ENOTFOUND);
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_int_equal(rig_stat(&rig, other).delayed, 200);
    rig_fini(&rig);
}

static void test_load_survives_restarts(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask edit = rig_ask(TR_OP_EDIT);
    char *before;
    char *after;
    uint64_t ids[20];

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        ids[i] = rig_push_body(&rig, t, HOUR + i * RIG_SECOND, 10 * i);
    }
    edit.req.id = ids[3]; /* moved */
    edit.req.edit = TR_EDIT_DUE;
    edit.req.delay_us = 3 * HOUR;
    assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    edit.req.id = ids[4]; /* altered: it stays in memory */
    edit.req.edit = TR_EDIT_PRIORITY;
    edit.req.priority = 5;
    assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[5], 0), TARRY_OK);
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_int_equal(stat(&rig).far, 18);
    before = rig_facts(&rig);
    for (unsigned i = 0; i < 3; i++) {
        i == 1 ? rig_close(&rig) : rig_power_cut(&rig);
        rig_open(&rig);
        assert_int_equal(stat(&rig).far, 18);
        after = rig_facts(&rig);
        assert_string_equal(after, before);
        free(after);
        rig_pass(&rig, 40 * RIG_SECOND); /* a checkpoint, too */
    }
    free(before);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[3], 0), TARRY_OK);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[3], 0), TARRY_ENOTFOUND);
    rig_fini(&rig);
}

/* A slot whose jobs are far is emptied like any other. */
static void test_load_slots_are_written_again(void **state)
{
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig.config.slots_max = 4;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 10; i++) {
        (void)rig_push_body(&rig, t, HOUR, 1000);
    }
    for (unsigned i = 0; i < 200; i++) {
        uint64_t id = rig_push_body(&rig, t, 0, 4000);

        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    }
    assert_true(stat(&rig).relogged >= 10);
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_int_equal(stat(&rig).far, 10);
    rig_power_cut(&rig);
    rig_open(&rig);
    rig_pass(&rig, HOUR);
    for (uint64_t id = 1; id <= 10; id++) {
        assert_int_equal(rig_reserve(&rig, rig_hold(&rig, "t"), ME), id);
    }
    rig_fini(&rig);
}

static void test_load_damage_is_told_and_tried_again(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t good = rig_push_body(&rig, t, HOUR, 1000); /* at 4096 of its slot, */
    uint64_t bad = rig_push_body(&rig, t, HOUR, 1000);  /* and at 8192 */
    uint8_t was;
    uint8_t wrong;

    (void)state;
    assert_int_equal(sim_disk_peek(rig.disk, "w.000", 8192 + 500, &was, 1), 1);
    wrong = (uint8_t)~was;
    sim_disk_poke(rig.disk, "w.000", 8192 + 500, &wrong, 1);
    rig_pass(&rig, HOUR);
    assert_int_equal(rig.notes[TR_NOTE_DAMAGE], 1);
    assert_int_equal(rig_reserve(&rig, t, ME), good);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, good, ME), TARRY_OK);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    assert_int_equal(rig_with(&rig, TR_OP_PEEK, bad, 0), TARRY_EDAMAGED);
    sim_disk_poke(rig.disk, "w.000", 8192 + 500, &was, 1);
    rig_pass(&rig, 61 * RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, ME), bad);
    rig_fini(&rig);
}

/* Set forward: all that is due now comes; set back: what is far again may leave. */
static void test_load_clock_steps(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 10 * HOUR);

    (void)state;
    rig.now.wall_us += 10 * HOUR;
    rig_pass(&rig, 3 * RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig.now.wall_us -= 20 * HOUR;
    rig_pass(&rig, 3 * RIG_SECOND);
    id = rig_push(&rig, t, HOUR);
    assert_int_equal(stat(&rig).far, 1); /* the horizon went back, too */
    rig_pass(&rig, HOUR);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_fini(&rig);
}

static struct ask first_delayed(uint32_t t)
{
    struct ask a = rig_ask(TR_OP_PEEK_FIRST);

    a.req.topic = t;
    a.req.state = TR_DELAYED;
    return a;
}

/* A job that came while the first of its topic were in memory leaves a little later. */
static void test_load_leaves_after_a_search(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask peek = first_delayed(t);

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        (void)rig_push(&rig, t, 2 * HOUR);
    }
    for (unsigned i = 0; i < 20; i++) { /* somebody polls */
        peek = first_delayed(t);
        assert_int_equal(rig_do(&rig, &peek), TARRY_OK);
        (void)rig_push(&rig, t, HOUR);
        rig_pass(&rig, RIG_SECOND / 2);
    }
    rig_pass(&rig, 3 * RIG_SECOND);
    assert_int_equal(stat(&rig).far, 30);
    rig_fini(&rig);
}

/* Who asks for another topic does not hear why the search for this one ended. */
static void test_load_error_of_another_topic(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t other = rig_hold(&rig, "other");
    uint64_t limit = rig.mem.limit_bytes;
    struct ask peek = first_delayed(t);

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        (void)rig_push(&rig, t, HOUR);
        (void)rig_push(&rig, other, HOUR);
    }
    rig.mem.limit_bytes = rig.mem.used_bytes;
    rig_submit(&rig, &peek);
    tr_engine_abandon(rig.e, &peek.req, rig.now);
    (void)rig_settle(&rig);
    rig.mem.limit_bytes = limit;
    peek = first_delayed(other);
    assert_int_equal(rig_do(&rig, &peek), TARRY_OK);
    rig_pass(&rig, 10 * RIG_SECOND); /* an old one is not told either */
    peek = first_delayed(t);
    assert_int_equal(rig_do(&rig, &peek), TARRY_OK);
    rig_fini(&rig);
}

/* A search through very many far jobs leaves half of each slice to others. */
static void test_load_search_leaves_half(void **state)
{
    struct rig rig;
    struct ask peek = rig_ask(TR_OP_PEEK_FIRST);
    uint32_t t;
    unsigned turns;

    (void)state;
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig.config.slice = 40;
    rig.config.slots_max = 256;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 2000; i++) {
        (void)rig_push(&rig, t, (3600 + i) * RIG_SECOND);
    }
    peek.req.topic = t;
    peek.req.state = TR_DELAYED;
    rig_submit(&rig, &peek);
    for (turns = 0; turns < 1000 && tr_far_walking(&rig.e->load.pull); turns++) {
        (void)rig_turn(&rig);
        assert_true(tr_engine_work(rig.e) <= 30);
    }
    assert_in_range(turns, 5, 999);
    (void)rig_settle(&rig);
    assert_true(peek.done != 0);
    assert_int_equal(peek.req.out.job.id, 1);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_far_jobs_leave_and_come_back),
        cmocka_unit_test(test_load_sleeps),
        cmocka_unit_test(test_load_by_id),
        cmocka_unit_test(test_load_delete_reads_nothing),
        cmocka_unit_test(test_load_first_of_topic),
        cmocka_unit_test(test_load_survives_restarts),
        cmocka_unit_test(test_load_slots_are_written_again),
        cmocka_unit_test(test_load_damage_is_told_and_tried_again),
        cmocka_unit_test(test_load_clock_steps),
        cmocka_unit_test(test_load_leaves_after_a_search),
        cmocka_unit_test(test_load_search_leaves_half),
        cmocka_unit_test(test_load_error_of_another_topic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
