/* Damaged files of groups: what is lost by it, and what is said. */

#include "base/err.h"
#include "engine/inner.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HOUR (3600 * RIG_SECOND)
#define ME UINT64_C(7)

enum { PAGE = 4096 };

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.far_max = 50;
    rig->config.promote_slots = 2;
    rig->config.slots_max = 16;
    rig_open(rig);
    return rig_hold(rig, "t");
}

/* Due an hour from now, and each a second after the one before. */
static void push(struct rig *rig, uint32_t t, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)rig_push_body(rig, t, HOUR + i * RIG_SECOND, 1000);
    }
}

/* One bit of a file of the first group. */
static void flip(struct rig *rig, const char *file, uint64_t off)
{
    uint8_t byte = 0;

    assert_true(sim_disk_exists(rig->disk, file));
    assert_int_equal(sim_disk_peek(rig->disk, file, off, &byte, 1), 1);
    byte ^= 4;
    sim_disk_poke(rig->disk, file, off, &byte, 1);
}

/* Until the first group was made, and not a step further: its slots still have all jobs. */
static void promote_and_stop(struct rig *rig, uint32_t t)
{
    static const uint8_t body[1000];

    while (rig_engine_stat(rig).promotions == 0) {
        struct ask a = rig_ask(TR_OP_PUSH);

        a.req.topic = t;
        a.req.delay_us = HOUR;
        a.req.body = body;
        a.req.body_len = sizeof body;
        rig_submit(rig, &a);
        for (unsigned i = 0; i < 20000 && (a.done == 0 || rig->durable < a.req.out.gate); i++) {
            (void)rig_turn(rig);
            (void)rig->step(rig->step_ctx);
        }
        assert_int_equal(a.req.out.status, TARRY_OK);
    }
}

/* The slots have copies of what the index cannot find, but they may be older than the run's: nobody
 * gets one, and everybody comes out of the run when it is due. No reason to refuse the store. */
static void test_regroup_index_damaged_after_promotion(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t jobs;

    (void)state;
    promote_and_stop(&rig, t);
    jobs = rig_engine_stat(&rig).jobs;
    rig_power_cut(&rig);
    for (uint64_t off = 3 * PAGE; off < sim_disk_size(rig.disk, "g1048577.six"); off += PAGE) {
        flip(&rig, "g1048577.six", off + 100);
    }
    rig_open(&rig);
    assert_int_equal(rig_engine_stat(&rig).jobs, jobs);
    assert_non_null(strstr(rig.note, "g1048577.six"));
    assert_int_equal(rig_with(&rig, TR_OP_PEEK, 1, 0), TARRY_EDAMAGED);
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(rig_stat(&rig, rig_hold(&rig, "t")).ready, jobs);
    rig_fini(&rig);
}

/* Neither index nor block can be read: whether the copies in slots are the last word nobody knows,
 * but it is told. */
static void test_regroup_nothing_can_be_read(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t jobs;

    (void)state;
    promote_and_stop(&rig, t);
    jobs = rig_engine_stat(&rig).jobs;
    rig_power_cut(&rig);
    for (uint64_t off = 3 * PAGE; off < sim_disk_size(rig.disk, "g1048577.six"); off += PAGE) {
        flip(&rig, "g1048577.six", off + 100);
    }
    flip(&rig, "g1048577.run", 500);
    rig_open(&rig);
    assert_int_equal(rig_engine_stat(&rig).jobs, jobs);
    assert_non_null(strstr(rig.note, "may have newer changes"));
    rig_fini(&rig);
}

/* Nobody finds a job of the group by its id; each comes out when it is due. */
static void test_regroup_index_damaged(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    push(&rig, t, 300);
    rig_pass(&rig, 120 * RIG_SECOND);
    rig_close(&rig);
    for (uint64_t off = 3 * PAGE; off < sim_disk_size(rig.disk, "g1048577.six"); off += PAGE) {
        flip(&rig, "g1048577.six", off + 100);
    }
    rig_open(&rig);
    assert_int_equal(rig_with(&rig, TR_OP_PEEK, 5, 0), TARRY_EDAMAGED);
    assert_non_null(strstr(rig.note, "g1048577.six"));
    rig_pass(&rig, 2 * HOUR);
    t = rig_hold(&rig, "t");
    assert_int_equal(rig_stat(&rig, t).ready, 300);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(rig_reserve(&rig, t, ME), i + 1);
    }
    rig_fini(&rig);
}

/* What is in other blocks comes out in time; what is in this one is named, and can be cancelled. */
static void test_regroup_block_damaged(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t out;

    (void)state;
    push(&rig, t, 300);
    rig_pass(&rig, 120 * RIG_SECOND);
    flip(&rig, "g1048577.run", 500);
    rig_pass(&rig, 2 * HOUR);
    out = rig_stat(&rig, t).ready;
    assert_true(out >= 200);
    assert_true(out < 300);
    assert_int_equal(rig_stat(&rig, t).delayed, 300 - out);
    assert_non_null(strstr(rig.note, "g1048577.run"));
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, 1, 0), TARRY_OK);
    assert_int_equal(rig_stat(&rig, t).delayed, 299 - out);
    rig_fini(&rig);
}

/* A change of a job whose record is damaged: the start is refused, and says why. */
static void test_regroup_changed_job_damaged(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask edit = rig_ask(TR_OP_EDIT);

    (void)state;
    push(&rig, t, 300);
    rig_pass(&rig, 120 * RIG_SECOND);
    edit.req.id = 1;
    edit.req.edit = TR_EDIT_PRIORITY;
    edit.req.priority = 5;
    assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    rig_kill(&rig);
    flip(&rig, "g1048577.run", 500);
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    assert_true(rig.notes[TR_NOTE_DAMAGE] >= 1);
    rig_fini(&rig);
}

/* A changed job whose index is damaged is found in the blocks: no reason to refuse the store. */
static void test_regroup_changed_job_index_damaged(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask edit = rig_ask(TR_OP_EDIT);
    uint64_t size;

    (void)state;
    push(&rig, t, 300);
    rig_pass(&rig, 120 * RIG_SECOND);
    edit.req.id = 1;
    edit.req.edit = TR_EDIT_PRIORITY;
    edit.req.priority = 5;
    assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    rig_kill(&rig);
    size = sim_disk_size(rig.disk, "g1048577.six");
    for (uint64_t off = 3 * PAGE; off < size; off += PAGE) {
        flip(&rig, "g1048577.six", off + 100);
    }
    assert_int_equal(rig_try_open(&rig), TARRY_OK);
    assert_true(rig.notes[TR_NOTE_DAMAGE] >= 1);
    assert_int_equal(tr_jobs_by_rid(&rig.e->state.jobs, 1)->priority, 5);
    rig_fini(&rig);
}

/* A job in memory that a run has is in that run, though its index is damaged: else a change would
 * be written to a slot, and the next start would believe the run. */
static void test_regroup_settles_without_index(void **state)
{
    struct rig rig;
    uint32_t t;
    uint64_t size;

    (void)state;
    t = start(&rig);
    sim_disk_faults(rig.disk)->only = "ckpt";
    sim_disk_faults(rig.disk)->write_eio_ppm = 1000000;
    (void)rig_push_body(&rig, t, 30 * RIG_SECOND, 1000);
    push(&rig, t, 150);
    rig_pass(&rig, RIG_SECOND);
    assert_true(tr_jobs_by_rid(&rig.e->state.jobs, 1)->slot->number >= TR_MANIFEST_SLOTS_MAX);
    rig_power_cut(&rig);
    sim_disk_faults(rig.disk)->write_eio_ppm = 0;
    size = sim_disk_size(rig.disk, "g1048577.six");
    for (uint64_t off = 3 * PAGE; off < size; off += PAGE) {
        flip(&rig, "g1048577.six", off + 100);
    }
    rig_open(&rig);
    assert_true(tr_jobs_by_rid(&rig.e->state.jobs, 1)->slot->number >= TR_MANIFEST_SLOTS_MAX);
    rig_fini(&rig);
}

/* Heads, fences and footers are needed: refused by the number of the group. */
static void test_regroup_head_damaged(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    push(&rig, t, 300);
    rig_pass(&rig, 120 * RIG_SECOND);
    rig_close(&rig);
    flip(&rig, "g1048577.six", PAGE + 9);
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    assert_non_null(strstr(rig.note, "Group 1048577"));
    flip(&rig, "g1048577.six", PAGE + 9);
    sim_disk_break(rig.disk, "g1048577.run", sim_disk_size(rig.disk, "g1048577.run") - 1);
    assert_int_equal(rig_try_open(&rig), TARRY_EIO);
    assert_non_null(strstr(rig.note, "Group 1048577"));
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regroup_index_damaged_after_promotion),
        cmocka_unit_test(test_regroup_nothing_can_be_read),
        cmocka_unit_test(test_regroup_index_damaged),
        cmocka_unit_test(test_regroup_block_damaged),
        cmocka_unit_test(test_regroup_changed_job_damaged),
        cmocka_unit_test(test_regroup_changed_job_index_damaged),
        cmocka_unit_test(test_regroup_settles_without_index),
        cmocka_unit_test(test_regroup_head_damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
