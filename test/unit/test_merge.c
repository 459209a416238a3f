/* Groups of run files become fewer and smaller, on the simulated disk. */

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
    rig->config.merge_waste = UINT64_C(1) << 40;
    rig_open(rig);
    return rig_hold(rig, "t");
}

static struct tr_engine_stat stat(const struct rig *rig)
{
    return rig_engine_stat(rig);
}

/* So many jobs of 1,000 bytes, due an hour from now and later; all but a few are in runs then. */
static void fill(struct rig *rig, uint32_t t, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)rig_push_body(rig, t, HOUR + (i * 7919 % count) * RIG_SECOND, 1000);
    }
    rig_pass(rig, RIG_SECOND);
}

static void cancel(struct rig *rig, unsigned count, unsigned keep_each)
{
    for (unsigned id = 1; id <= count; id++) {
        if (id % keep_each != 0) {
            assert_int_equal(rig_with(rig, TR_OP_DELETE, id, 0), TARRY_OK);
        }
    }
}

/* Who was kept is there with its body and its due time, and nobody else. */
static void check(struct rig *rig, unsigned count, unsigned keep_each)
{
    assert_int_equal(stat(rig).jobs, count / keep_each);
    for (unsigned id = 1; id <= count; id++) {
        struct ask peek = rig_ask(TR_OP_PEEK);

        peek.req.id = id;
        if (id % keep_each != 0) {
            assert_int_equal(rig_do(rig, &peek), TARRY_ENOTFOUND);
            continue;
        }
        assert_int_equal(rig_do(rig, &peek), TARRY_OK);
        assert_int_equal(peek.req.out.job.body_len, 1000);
        assert_int_equal(peek.req.out.job.delay_us, HOUR + ((id - 1) * 7919 % count) * RIG_SECOND);
    }
}

static uint64_t group_bytes(const struct rig *rig)
{
    return sim_disk_bytes(rig->disk, "g");
}

/* Bytes follow what is alive, once nothing happens; then nothing is left to do. */
static void test_merge_space_follows_liveness(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t before;

    (void)state;
    fill(&rig, t, 600);
    rig_pass(&rig, 100 * RIG_SECOND);
    before = group_bytes(&rig);
    assert_true(before > 500 * 1000);
    assert_int_equal(stat(&rig).merges, 0);
    cancel(&rig, 600, 10);
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_true(stat(&rig).merges >= 1);
    assert_true(group_bytes(&rig) < before / 4);
    assert_true(rig_settle(&rig) > rig.now.boot_us + 600 * RIG_SECOND); /* it rests */
    check(&rig, 600, 10);
    rig_power_cut(&rig);
    rig_open(&rig);
    check(&rig, 600, 10);
    rig_fini(&rig);
}

/* A group of which half is alive is left alone. */
static void test_merge_not_round_and_round(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    fill(&rig, t, 400);
    rig_pass(&rig, 100 * RIG_SECOND);
    for (unsigned id = 5; id <= 400; id += 3) {
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    }
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_int_equal(stat(&rig).merges, 0);
    rig_fini(&rig);
}

/* Nor when a counter is wrong: what was written again in vain is left alone, until more dies. */
static void test_merge_in_vain_once(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t merges;

    (void)state;
    fill(&rig, t, 400);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, 5, 0), TARRY_OK);
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_int_equal(stat(&rig).merges, 0);
    assert_true(rig.e->groups.count >= 2); /* "they all live over there" */
    rig.e->groups.order[1]->runs[TR_GROUP_LIVE].live += tr_group_live(rig.e->groups.order[0]);
    rig.e->groups.order[0]->runs[TR_GROUP_LIVE].live = 0;
    (void)rig_push_body(&rig, t, HOUR, 1000); /* something happens, so all are looked at */
    rig_pass(&rig, 100 * RIG_SECOND);
    merges = stat(&rig).merges;
    assert_true(merges >= 1 && merges <= 3);
    (void)rig_push_body(&rig, t, HOUR, 1000);
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_int_equal(stat(&rig).merges, merges);
    rig_power_cut(&rig); /* counts are made anew */
    rig_open(&rig);
    for (unsigned id = 20; id <= 400; id++) {
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    }
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_true(group_bytes(&rig) < 100 * 1000);
    rig_fini(&rig);
}

/* There are never many more groups than are wanted, and everybody comes out in order. */
static void test_merge_few_groups(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t due_us = 0;

    (void)state;
    rig_close(&rig);
    rig.config.merge_groups = 3;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    fill(&rig, t, 1200);
    assert_true(stat(&rig).promotions >= 6);
    assert_true(stat(&rig).groups <= 4);
    assert_true(stat(&rig).merges >= 1);
    rig_pass(&rig, HOUR);
    for (unsigned i = 0; i < 1200; i++) {
        uint64_t id = rig_reserve(&rig, t, ME);
        struct tr_job_view view;

        while (id == 0) {
            rig_pass(&rig, RIG_SECOND);
            id = rig_reserve(&rig, t, ME);
        }
        view = rig_view(&rig, id);
        assert_true(view.due_us >= due_us);
        due_us = view.due_us;
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    }
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_int_equal(stat(&rig).groups, 0);
    assert_int_equal(sim_disk_count_names(rig.disk, "g"), 0);
    rig_fini(&rig);
}

/* A crash after each step of the disk while groups are merged. */
static void test_merge_crash_anywhere(void **state)
{
    (void)state;
    for (unsigned steps = 1; steps < 120; steps += 3) {
        struct rig rig;
        uint32_t t = start(&rig);

        fill(&rig, t, 300);
        rig_pass(&rig, 100 * RIG_SECOND);
        cancel(&rig, 300, 7);
        rig_pass(&rig, 9 * RIG_SECOND);
        rig.now.boot_us += 2 * RIG_SECOND;
        rig.now.wall_us += 2 * RIG_SECOND;
        for (unsigned i = 0; i < steps; i++) {
            (void)rig_turn(&rig);
            (void)rig.step(rig.step_ctx);
        }
        rig_power_cut(&rig);
        rig_open(&rig);
        check(&rig, 300, 7);
        rig_fini(&rig);
    }
}

/* A live record that the disk does not give: the group is left alone, not written for ever. */
static void test_merge_read_error(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask peek = rig_ask(TR_OP_PEEK);
    char name[TR_IO_NAME_MAX];
    uint64_t written;

    (void)state;
    fill(&rig, t, 600);
    cancel(&rig, 600, 3);
    tr_group_name(name, rig.e->groups.order[0]->is.no, TR_GROUP_LIVE);
    sim_disk_break(rig.disk, name, sim_disk_size(rig.disk, name) * 7 / 10 / 512 * 512);
    rig_pass(&rig, 600 * RIG_SECOND);
    assert_true(rig.e->groups.order[0]->stuck);
    written = rig.e->promote.bytes_written;
    rig_pass(&rig, 600 * RIG_SECOND);
    assert_int_equal(rig.e->promote.bytes_written, written);
    assert_int_equal(stat(&rig).jobs, 200);
    peek.req.id = 3;
    assert_int_equal(rig_do(&rig, &peek), TARRY_OK);
    rig_fini(&rig);
}

/* Jobs of a lease that outlives connections stay in their slots: they do not keep a group. */
static void test_merge_strays_do_not_count(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t held = rig_hold(&rig, "held");

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        struct ask take = rig_ask(TR_OP_RESERVE);

        (void)rig_push_body(&rig, held, 0, 1000);
        take.req.topics = &held;
        take.req.topic_count = 1;
        take.req.ttr_us = 10 * HOUR;
        assert_int_equal(rig_do(&rig, &take), TARRY_OK);
        (void)rig_push_body(&rig, t, HOUR, 1000);
    }
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_true(stat(&rig).groups != 0);
    assert_true(stat(&rig).runs >= 50);
    for (unsigned id = 2; id <= 200; id += 2) {
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    }
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_int_equal(stat(&rig).jobs, 100);
    assert_int_equal(stat(&rig).groups, 0);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(stat(&rig).jobs, 100);
    rig_fini(&rig);
}

/* Many short jobs live, few long ones have died: it is their bytes that count, after a start too.
 */
static void bytes_follow(bool restart)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t before;

    for (unsigned i = 0; i < 300; i++) {
        (void)rig_push_body(&rig, t, HOUR + i * RIG_SECOND, i % 5 == 0 ? 10000 : 20);
    }
    rig_pass(&rig, 100 * RIG_SECOND);
    before = group_bytes(&rig);
    assert_true(before > 400 * 1000);
    for (unsigned id = 1; id <= 300; id += 5) {
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    }
    if (restart) {
        rig_close(&rig);
        rig_open(&rig);
    }
    (void)rig_push(&rig, t, HOUR);
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_int_equal(stat(&rig).jobs, 241);
    assert_true(group_bytes(&rig) < before / 4);
    rig_fini(&rig);
}

static void test_merge_bytes(void **state)
{
    (void)state;
    bytes_follow(false);
    bytes_follow(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge_space_follows_liveness),
        cmocka_unit_test(test_merge_not_round_and_round),
        cmocka_unit_test(test_merge_in_vain_once),
        cmocka_unit_test(test_merge_few_groups),
        cmocka_unit_test(test_merge_crash_anywhere),
        cmocka_unit_test(test_merge_read_error),
        cmocka_unit_test(test_merge_strays_do_not_count),
        cmocka_unit_test(test_merge_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
