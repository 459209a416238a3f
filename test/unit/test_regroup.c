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

/* Nobody finds a job of the group by its id, until the index has been made again in the background;
 * each comes out when it is due. */
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
    rig_pass(&rig, 10 * RIG_SECOND);
    assert_int_equal(rig_with(&rig, TR_OP_PEEK, 5, 0), TARRY_OK);
    assert_false(rig_engine_stat(&rig).damaged);
    assert_true(rig_engine_stat(&rig).mended >= 1);
    rig_pass(&rig, 2 * HOUR);
    t = rig_hold(&rig, "t");
    assert_int_equal(rig_stat(&rig, t).ready, 300);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(rig_reserve(&rig, t, ME), i + 1);
    }
    rig_fini(&rig);
}

struct told {
    unsigned jobs;
    unsigned places;
    struct tr_damage_fact last; /* of a job */
};

static void tell(void *ctx, const struct tr_damage_fact *fact)
{
    struct told *told = ctx;

    told->jobs += fact->id != 0;
    told->places += fact->id == 0;
    if (fact->id != 0) {
        told->last = *fact;
    }
}

/* Only the record on the damaged byte is lost: it is named, shown, and can be cancelled; the bytes
 * are kept. All others come out in time. */
static void test_regroup_block_damaged(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct told told = {0};
    uint64_t due_us = rig.now.wall_us + HOUR;

    (void)state;
    push(&rig, t, 300);
    rig_pass(&rig, 120 * RIG_SECOND);
    assert_false(rig_engine_stat(&rig).damaged);
    flip(&rig, "g1048577.run", 500);
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(rig_stat(&rig, t).ready, 299);
    assert_int_equal(rig_stat(&rig, t).delayed, 1);
    assert_non_null(strstr(rig.note, "job 1 (topic t"));
    assert_int_equal(rig.notes[TR_NOTE_DAMAGE], 2); /* the block and the job, once each */
    assert_int_equal(rig_engine_stat(&rig).damaged_jobs, 1);
    assert_true(rig_engine_stat(&rig).damaged);
    tr_engine_damage(rig.e, tell, &told);
    assert_int_equal(told.jobs, 1);
    assert_int_equal(told.places, 1);
    assert_int_equal(told.last.id, 1);
    assert_int_equal(told.last.due_us, due_us);
    assert_memory_equal(told.last.topic, "t", 1);
    assert_string_equal(told.last.file, "g1048577.run");
    assert_true(sim_disk_exists(rig.disk, "quarantine/g1048577.run.0"));
    assert_true(sim_disk_exists(rig.disk, "quarantine/g1048577.run.0.txt"));
    assert_int_equal(rig_with(&rig, TR_OP_PEEK, 1, 0), TARRY_EDAMAGED);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, 1, 0), TARRY_OK);
    assert_int_equal(rig_stat(&rig, t).delayed, 0);
    assert_int_equal(rig_engine_stat(&rig).damaged_jobs, 0);
    rig_fini(&rig);
}

/* A sector that the disk cannot read costs the records on it, no more. */
static void test_regroup_sector_broken(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    push(&rig, t, 300);
    rig_pass(&rig, 120 * RIG_SECOND);
    sim_disk_break(rig.disk, "g1048577.run", 8192);
    rig_pass(&rig, 2 * HOUR);
    assert_in_range(rig_stat(&rig, t).ready, 298, 299);
    assert_int_equal(rig_engine_stat(&rig).damaged_jobs, rig_stat(&rig, t).delayed);
    rig_fini(&rig);
}

/* What can be read later is a job like any other again. */
static void test_regroup_damage_lifted(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    push(&rig, t, 300);
    rig_pass(&rig, 120 * RIG_SECOND);
    flip(&rig, "g1048577.run", 500);
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(rig_engine_stat(&rig).damaged_jobs, 1);
    flip(&rig, "g1048577.run", 500);
    rig_pass(&rig, 660 * RIG_SECOND);
    assert_int_equal(rig_stat(&rig, t).ready, 300);
    assert_int_equal(rig_engine_stat(&rig).damaged_jobs, 0);
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

/* Head, fences and all pages of a sidecar, and the footer of a run, are made again from the blocks,
 * to the byte. Pages that are good are not written: a power cut could spoil them. */
static void open_damaged(struct rig *rig, const char *file, uint64_t off, const uint8_t *good)
{
    static uint8_t now[1 << 20];
    size_t size = (size_t)sim_disk_size(rig->disk, file);
    uint64_t page = off / PAGE * PAGE;

    sim_disk_guard(rig->disk, file, 0, page);
    sim_disk_guard(rig->disk, file, page + PAGE, size - page - PAGE);
    rig->notes[TR_NOTE_DAMAGE] = 0;
    assert_int_equal(rig_try_open(rig), TARRY_OK);
    assert_null(sim_disk_guard_hit(rig->disk));
    sim_disk_unguard(rig->disk, file, 0, size);
    assert_int_equal(rig->notes[TR_NOTE_DAMAGE], 1);
    assert_non_null(strstr(rig->note, "made again"));
    assert_int_equal(sim_disk_peek(rig->disk, file, 0, now, size), size);
    assert_memory_equal(now, good, size);
    assert_false(rig_engine_stat(rig).damaged);
    rig_kill(rig);
}

static void damage_and_open(struct rig *rig, const char *file, uint64_t off, const uint8_t *good)
{
    flip(rig, file, off);
    open_damaged(rig, file, off, good);
}

static void test_regroup_made_again(void **state)
{
    static uint8_t good[1 << 20];
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t size;

    (void)state;
    push(&rig, t, 300);
    rig_pass(&rig, 120 * RIG_SECOND);
    rig_close(&rig);
    size = sim_disk_size(rig.disk, "g1048577.six");
    (void)sim_disk_peek(rig.disk, "g1048577.six", 0, good, sizeof good);
    damage_and_open(&rig, "g1048577.six", 20, good);
    damage_and_open(&rig, "g1048577.six", PAGE + 9, good);
    sim_disk_break(rig.disk, "g1048577.six", PAGE + 600);
    open_damaged(&rig, "g1048577.six", PAGE + 600, good);
    size = sim_disk_size(rig.disk, "g1048577.run");
    (void)sim_disk_peek(rig.disk, "g1048577.run", 0, good, sizeof good);
    damage_and_open(&rig, "g1048577.run", size - 1, good);
    damage_and_open(&rig, "g1048577.run", size - 100, good);
    damage_and_open(&rig, "g1048577.run", size - PAGE, good);
    rig_open(&rig);
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(rig_stat(&rig, rig_hold(&rig, "t")).ready, 300);
    rig_fini(&rig);
}

/* Two damaged places in one group: refused by its number. */
static void test_regroup_damaged_twice(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    push(&rig, t, 300);
    rig_pass(&rig, 120 * RIG_SECOND);
    rig_close(&rig);
    flip(&rig, "g1048577.run", 500);
    flip(&rig, "g1048577.six", PAGE + 9);
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    assert_non_null(strstr(rig.note, "Group 1048577"));
    flip(&rig, "g1048577.six", PAGE + 9);
    flip(&rig, "g1048577.run", sim_disk_size(rig.disk, "g1048577.run") - 1);
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    assert_non_null(strstr(rig.note, "Group 1048577"));
    rig_fini(&rig);
}

/* More damaged blocks than wait in line at once (TR_MEND_MAX): each good record comes out in time.
 */
static void test_regroup_many_blocks_damaged(void **state)
{
    struct rig rig;
    static const uint8_t body[30000];
    struct tr_groups *groups;
    unsigned blocks = 0;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig.config.far_max = 50;
    rig.config.promote_slots = 2;
    rig.config.body_max = 30000;
    rig.config.slot_bytes = 1 << 20;
    rig.config.slots_max = 32;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 500; i++) { /* two to a block */
        struct ask a = rig_ask(TR_OP_PUSH);

        a.req.topic = t;
        a.req.delay_us = HOUR;
        a.req.body = body;
        a.req.body_len = sizeof body;
        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    }
    rig_pass(&rig, 120 * RIG_SECOND);
    groups = &rig.e->groups;
    for (uint32_t i = 0; i < groups->count; i++) {
        const struct tr_run_footer *footer = &groups->order[i]->footers[TR_GROUP_LIVE];
        char name[TR_IO_NAME_MAX];

        tr_group_name(name, groups->order[i]->is.no, TR_GROUP_LIVE);
        for (uint32_t b = 0; b < footer->block_count; b++, blocks++) {
            flip(&rig, name, tr_run_footer_block(footer, b).off + TR_RUN_BLOCK_HEAD + 2000);
        }
    }
    assert_true(blocks > 2 * TR_MEND_MAX);
    rig_pass(&rig, HOUR);
    assert_int_equal(rig_engine_stat(&rig).damaged_jobs, blocks);
    assert_int_equal(rig_stat(&rig, t).ready, 500 - blocks);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regroup_index_damaged_after_promotion),
        cmocka_unit_test(test_regroup_nothing_can_be_read),
        cmocka_unit_test(test_regroup_index_damaged),
        cmocka_unit_test(test_regroup_block_damaged),
        cmocka_unit_test(test_regroup_many_blocks_damaged),
        cmocka_unit_test(test_regroup_changed_job_damaged),
        cmocka_unit_test(test_regroup_changed_job_index_damaged),
        cmocka_unit_test(test_regroup_settles_without_index),
        cmocka_unit_test(test_regroup_sector_broken),
        cmocka_unit_test(test_regroup_damage_lifted),
        cmocka_unit_test(test_regroup_made_again),
        cmocka_unit_test(test_regroup_damaged_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
