/* From slots to run files and back, on the simulated disk. */

#include "base/err.h"
#include "engine/inner.h"
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
    rig->config.slots_max = 16;
    rig_open(rig);
    return rig_hold(rig, "t");
}

/* So many jobs of 1,000 bytes, due an hour from now and later. */
static void fill(struct rig *rig, uint32_t t, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)rig_push_body(rig, t, HOUR + (i * 7919 % count) * RIG_SECOND, 1000);
    }
    rig_pass(rig, RIG_SECOND);
}

static struct tr_engine_stat stat(const struct rig *rig)
{
    return rig_engine_stat(rig);
}

static void test_promote_makes_groups(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    unsigned slots;

    (void)state;
    fill(&rig, t, 400);
    assert_true(stat(&rig).promotions >= 2);
    assert_int_equal(stat(&rig).groups, stat(&rig).promotions);
    assert_true(stat(&rig).runs >= 200);
    assert_int_equal(stat(&rig).jobs, 400);
    assert_int_equal(rig_stat(&rig, t).delayed, 400);
    rig_pass(&rig, 120 * RIG_SECOND); /* two checkpoints: the slots are free again */
    slots = (unsigned)sim_disk_count_names(rig.disk, "w.");
    assert_true(slots <= 8);
    assert_true(sim_disk_count_names(rig.disk, "g") >= 4);
    rig_fini(&rig);
}

/* Everybody comes out, in order of due time, never early; then the files go. */
static void test_promote_jobs_come_out_of_runs(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t due_us = 0;

    (void)state;
    fill(&rig, t, 300);
    rig_pass(&rig, HOUR);
    for (unsigned i = 0; i < 300; i++) {
        uint64_t id = rig_reserve(&rig, t, ME);
        struct tr_job_view view;

        while (id == 0) {
            rig_pass(&rig, RIG_SECOND);
            id = rig_reserve(&rig, t, ME);
        }
        view = rig_view(&rig, id);
        assert_true(view.due_us >= due_us);
        assert_true(view.due_us <= rig.now.wall_us);
        assert_int_equal(view.body_len, 1000);
        due_us = view.due_us;
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    }
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_int_equal(stat(&rig).jobs, 0);
    assert_int_equal(stat(&rig).groups, 0);
    assert_int_equal(sim_disk_count_names(rig.disk, "g"), 0);
    rig_fini(&rig);
}

static void test_promote_by_id(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask edit = rig_ask(TR_OP_EDIT);
    struct ask peek = rig_ask(TR_OP_PEEK);

    (void)state;
    fill(&rig, t, 300);
    peek.req.id = 5;
    assert_int_equal(rig_do(&rig, &peek), TARRY_OK);
    assert_int_equal(peek.req.out.job.body_len, 1000);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, 6, 0), TARRY_OK); /* found, and not loaded */
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, 6, 0), TARRY_ENOTFOUND);
    assert_int_equal(rig_with(&rig, TR_OP_PEEK, 6, 0), TARRY_ENOTFOUND);
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, 7, ME), TARRY_ESTATE);
    assert_int_equal(rig_with(&rig, TR_OP_RESERVE_JOB, 7, ME), TARRY_OK);
    edit.req.id = 8;
    edit.req.edit = TR_EDIT_DUE;
    edit.req.delay_us = 5 * HOUR;
    assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    assert_int_equal(stat(&rig).jobs, 299);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(stat(&rig).jobs, 299);
    assert_int_equal(rig_with(&rig, TR_OP_PEEK, 6, 0), TARRY_ENOTFOUND);
    assert_int_equal(rig_view(&rig, 8).delay_us, 5 * HOUR);
    assert_int_equal(rig_state(&rig, 7), TR_READY);
    rig_fini(&rig);
}

static void test_promote_first_of_topic(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t other = rig_hold(&rig, "other");
    uint64_t last = 0;

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        (void)rig_push_body(&rig, i % 2 == 0 ? t : other, HOUR + (i * 7919 % 300) * RIG_SECOND,
                            1000);
    }
    rig_pass(&rig, RIG_SECOND);
    assert_true(stat(&rig).runs > 100);
    for (unsigned i = 0; i < 150; i++) {
        struct ask kick = rig_ask(TR_OP_KICK);
        struct ask peek = rig_ask(TR_OP_PEEK_FIRST);

        peek.req.topic = t;
        peek.req.state = TR_DELAYED;
        assert_int_equal(rig_do(&rig, &peek), TARRY_OK);
        assert_true(peek.req.out.job.due_us >= last);
        last = peek.req.out.job.due_us;
        kick.req.topic = t;
        kick.req.count = 1;
        assert_int_equal(rig_do(&rig, &kick), TARRY_OK);
        assert_int_equal(kick.req.out.number, 1);
        assert_int_equal(rig_state(&rig, peek.req.out.job.id), TR_READY);
    }
    assert_int_equal(rig_stat(&rig, t).delayed, 0);
    assert_int_equal(rig_stat(&rig, other).delayed, 150);
    rig_fini(&rig);
}

/* Moved, altered and dead jobs keep what they are, through a promotion and restarts. */
static void test_promote_keeps_changes(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask edit = rig_ask(TR_OP_EDIT);
    uint64_t ids[10];
    char *before;
    char *after;

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        uint64_t id = rig_push_body(&rig, t, 0, 500);

        assert_int_equal(rig_reserve(&rig, t, ME), id);
        assert_int_equal(rig_with(&rig, TR_OP_BURY, id, ME), TARRY_OK);
    }
    for (unsigned i = 0; i < 10; i++) {
        ids[i] = rig_push_body(&rig, t, HOUR, 500);
    }
    edit.req.id = ids[3];
    edit.req.edit = TR_EDIT_DUE;
    edit.req.delay_us = 5 * HOUR;
    assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    edit.req.id = ids[4];
    edit.req.edit = TR_EDIT_PRIORITY;
    edit.req.priority = 5;
    assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    fill(&rig, t, 300);
    assert_true(stat(&rig).groups >= 1);
    rig_pass(&rig, 120 * RIG_SECOND);
    before = rig_facts(&rig);
    for (unsigned i = 0; i < 3; i++) {
        i == 1 ? rig_close(&rig) : rig_power_cut(&rig);
        rig_open(&rig);
        after = rig_facts(&rig);
        assert_string_equal(after, before);
        free(after);
    }
    free(before);
    rig_fini(&rig);
}

/* Not a step further than the push needs, so that a promotion is caught when it has just ended. */
static void push_step_by_step(struct rig *rig, uint32_t t)
{
    static const uint8_t body[1000];
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = t;
    a.req.delay_us = 100 * HOUR;
    a.req.body = body;
    a.req.body_len = sizeof body;
    rig_submit(rig, &a);
    for (unsigned i = 0; i < 20000 && (a.done == 0 || rig->durable < a.req.out.gate); i++) {
        (void)rig_turn(rig);
        (void)rig->step(rig->step_ctx);
    }
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.status, TARRY_OK);
}

/* A change that a run has taken in is none any more: the job leaves memory, and is found changed
 * after a crash, though its old record is still in a slot. */
static void test_promote_absorbs_changes(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask edit = rig_ask(TR_OP_EDIT);

    (void)state;
    rig_close(&rig);
    rig.config.move_body_max = 100; /* so a longer job is altered, not moved */
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 1; i <= 20; i++) {
        assert_int_equal(rig_push_body(&rig, t, HOUR, 500), i);
        edit.req.id = i;
        edit.req.edit = TR_EDIT_DUE;
        edit.req.delay_us = (4 + i) * HOUR;
        assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    }
    assert_int_equal(stat(&rig).far, 0);
    while (stat(&rig).promotions == 0) {
        push_step_by_step(&rig, t);
    }
    rig_pass(&rig, RIG_SECOND / 10);
    assert_true(stat(&rig).far + 1 >= stat(&rig).jobs);
    for (unsigned round = 0; round < 2; round++) {
        rig_power_cut(&rig);
        rig_open(&rig);
        assert_int_equal(rig_view(&rig, 1).delay_us, 5 * HOUR);
        assert_int_equal(rig_view(&rig, 20).delay_us, 24 * HOUR);
        rig_pass(&rig, 100 * RIG_SECOND);
    }
    rig_fini(&rig);
}

/* A crash right after each promotion: the slots that it emptied are free all the same, in the end.
 */
static void test_promote_crash_after_each(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    for (unsigned round = 0; round < 30; round++) {
        uint64_t made = stat(&rig).promotions;

        while (stat(&rig).promotions == made) {
            push_step_by_step(&rig, t);
        }
        rig_power_cut(&rig);
        rig_open(&rig);
        t = rig_hold(&rig, "t");
    }
    rig_pass(&rig, 200 * RIG_SECOND);
    assert_true(stat(&rig).runs >= 800);
    assert_true(stat(&rig).far - stat(&rig).runs <= 100);
    assert_true(sim_disk_count_names(rig.disk, "w.") <= 8);
    rig_fini(&rig);
}

/* Jobs whose records were written again, to a later slot, are taken with their neighbours by rid:
 * else no promotion ever would. */
static void test_promote_takes_those_written_again(void **state)
{
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig.config.promote_slots = 0;
    rig.config.slots_max = 16;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    fill(&rig, t, 250);
    for (unsigned id = 1; id <= 250; id++) {
        if (id % 10 != 0) {
            assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
        }
    }
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_true(stat(&rig).relogged >= 10);
    rig_close(&rig);
    rig.config.far_max = 1;
    rig.config.promote_slots = 1;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; stat(&rig).promotions < 3; i++) {
        (void)rig_push_body(&rig, t, HOUR + i * RIG_SECOND, 1000);
        rig_pass(&rig, RIG_SECOND / 100);
    }
    assert_true(stat(&rig).runs >= 25);
    assert_true(stat(&rig).far - stat(&rig).runs <= 5);
    for (unsigned id = 10; id <= 250; id += 10) {
        assert_int_equal(rig_view(&rig, id).body_len, 1000);
    }
    rig_fini(&rig);
}

/* Files that a crash left behind are removed; a run that is needed is missed by name, a sidecar is
 * made again. */
static void test_promote_files_at_start(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct tr_io io = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE, .name = "g99.run"};
    char name[TR_IO_NAME_MAX];
    size_t names;

    (void)state;
    fill(&rig, t, 300);
    rig_pass(&rig, 120 * RIG_SECOND);
    names = sim_disk_count_names(rig.disk, "g");
    rig_close(&rig);
    assert_int_equal(rig.port.ops->run(rig.port.ctx, &io), TARRY_OK);
    rig_open(&rig);
    assert_int_equal(sim_disk_count_names(rig.disk, "g"), names);
    rig_close(&rig);
    (void)snprintf(name, sizeof name, "g%u.six", (1U << 20) + 1);
    assert_true(sim_disk_exists(rig.disk, name));
    io = (struct tr_io){.op = TR_IO_UNLINK};
    memcpy(io.name, name, strlen(name) + 1);
    assert_int_equal(rig.port.ops->run(rig.port.ctx, &io), TARRY_OK);
    rig_open(&rig);
    assert_true(sim_disk_exists(rig.disk, name));
    assert_int_equal(stat(&rig).jobs, 300);
    rig_close(&rig);
    (void)snprintf(io.name, sizeof io.name, "g%u.run", (1U << 20) + 1);
    assert_int_equal(rig.port.ops->run(rig.port.ctx, &io), TARRY_OK);
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    assert_non_null(strstr(rig.note, "Group 1048577"));
    rig_fini(&rig);
}

/* A read that fails once is tried again around the cache: no slot is left out. */
static void test_promote_read_error(void **state)
{
    struct rig rig;
    uint32_t t;
    struct sim_faults *faults;

    (void)state;
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig.config.promote_slots = 4;
    rig.config.slots_max = 16;
    rig.config.idle_us = 10 * RIG_SECOND;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 60; i++) {
        (void)rig_push_body(&rig, t, HOUR, 1000);
    }
    rig_pass(&rig, 9 * RIG_SECOND);
    assert_int_equal(stat(&rig).promotions, 0);
    faults = sim_disk_faults(rig.disk);
    faults->only = "w.";
    faults->fail_at = 1;
    faults->fail_code = TARRY_EIO;
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_int_equal(faults->fail_hits, 1);
    assert_int_equal(stat(&rig).promotions, 1);
    assert_true(stat(&rig).runs >= 30);
    rig_fini(&rig);
}

/* An entry that is made again lasts, and knows nothing of the reads and troubles of the last one.
 */
static void test_promote_locates_again(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct tr_far *far;
    struct tr_far_entry old;

    (void)state;
    fill(&rig, t, 400);
    far = &rig.e->state.jobs.far;
    assert_int_equal(tr_fetch_locate(rig.e, 5), TARRY_EFULL);
    while (tr_far_find(far, 5) == NULL) {
        assert_true(rig.step(rig.step_ctx));
        (void)rig_turn(&rig);
    }
    for (unsigned i = 0; i < TR_FETCH_LOCATED; i++) {
        tr_fetch_remember(rig.e, 5);
        assert_non_null(tr_far_find(far, 5));
    }
    old = *tr_far_find(far, 5);
    old.loading = true;
    old.bad = true;
    tr_fetch_unlocate(rig.e, 5);
    assert_int_equal(tr_state_locate(&rig.e->state, 5, &old), TARRY_OK);
    assert_false(tr_far_find(far, 5)->loading);
    assert_false(tr_far_find(far, 5)->bad);
    tr_fetch_unlocate(rig.e, 5);
    rig_fini(&rig);
}

/* A visitor leaves for its group while the sweep has a block of that in hand: the blocks behind it
 * are not forgotten. */
static void test_promote_visitor_leaves_in_a_sweep(void **state)
{
    static uint8_t body[1000];
    struct ask *asks = calloc(400, sizeof *asks);
    struct ask peek = rig_ask(TR_OP_PEEK);
    struct rig rig;
    uint64_t due_us;
    uint64_t next;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig.config.far_max = 300;
    rig.config.promote_slots = 4;
    rig.config.slots_max = 16;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    peek.req.id = rig_push_body(&rig, t, 10 * HOUR, 1000);
    due_us = rig.now.wall_us + HOUR;
    for (unsigned i = 0; i < 400; i++) {
        asks[i] = rig_ask(TR_OP_PUSH);
        asks[i].req.topic = t;
        asks[i].req.delay_us = HOUR + i * RIG_SECOND / 100;
        asks[i].req.body = body;
        asks[i].req.body_len = sizeof body;
        rig_submit(&rig, &asks[i]);
        if (i % 10 == 9) {
            (void)rig_settle(&rig);
        }
    }
    rig_pass(&rig, 120 * RIG_SECOND);
    assert_true(stat(&rig).runs > 300);
    rig_pass(&rig, due_us - 31 * RIG_SECOND - rig.now.wall_us + 500);
    assert_int_equal(rig_do(&rig, &peek), TARRY_OK);
    next = rig_settle(&rig);
    while (rig.now.wall_us + (next - rig.now.boot_us) < due_us - 30 * RIG_SECOND) {
        rig_pass(&rig, next - rig.now.boot_us);
        next = rig_settle(&rig);
    }
    rig.now.wall_us += next - rig.now.boot_us; /* the sweep begins, */
    rig.now.boot_us = next;
    (void)rig_turn(&rig);
    (void)rig.step(rig.step_ctx); /* and its first block takes a millisecond */
    rig.now.wall_us += 1000;
    rig.now.boot_us += 1000;
    rig_pass(&rig, due_us + 20 * RIG_SECOND - rig.now.wall_us);
    assert_int_equal(stat(&rig).ready, 400);
    free(asks);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promote_makes_groups),
        cmocka_unit_test(test_promote_jobs_come_out_of_runs),
        cmocka_unit_test(test_promote_by_id),
        cmocka_unit_test(test_promote_first_of_topic),
        cmocka_unit_test(test_promote_keeps_changes),
        cmocka_unit_test(test_promote_absorbs_changes),
        cmocka_unit_test(test_promote_crash_after_each),
        cmocka_unit_test(test_promote_takes_those_written_again),
        cmocka_unit_test(test_promote_files_at_start),
        cmocka_unit_test(test_promote_visitor_leaves_in_a_sweep),
        cmocka_unit_test(test_promote_read_error),
        cmocka_unit_test(test_promote_locates_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
