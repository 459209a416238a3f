/*
 * The ring of slots: growing, shrinking, writing live records again, a full disk.
 */

#include "base/err.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ME = 7, BODY = 3000 };

#define FAR (UINT64_C(1000000) * 86400 * 365)

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig_open(rig);
    return rig_hold(rig, "t");
}

static int try_push(struct rig *rig, uint32_t t, uint64_t delay_us)
{
    static const uint8_t body[BODY];
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = t;
    a.req.delay_us = delay_us;
    a.req.body = body;
    a.req.body_len = BODY;
    return rig_do(rig, &a);
}

static void check_reopened_equal(struct rig *rig)
{
    char *before = rig_facts(rig);
    char *after;

    rig_power_cut(rig);
    rig_open(rig);
    after = rig_facts(rig);
    assert_string_equal(after, before);
    free(before);
    free(after);
}

static void test_space_new_store_has_four_slots(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig);
    assert_int_equal(rig_engine_stat(&rig).slots, 4);
    assert_int_equal(sim_disk_count_names(rig.disk, "w."), 4);
    assert_int_equal(sim_disk_size(rig.disk, "w.000"), 65536);
    rig_fini(&rig);
}

static void test_space_ring_grows_and_shrinks_back(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    for (unsigned i = 0; i < 120; i++) {
        assert_int_equal(try_push(&rig, t, FAR), TARRY_OK);
    }
    assert_true(rig_engine_stat(&rig).slots > 8);
    for (uint64_t id = 1; id <= 120; id++) {
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    }
    rig_pass(&rig, 120 * RIG_SECOND);
    assert_int_equal(rig_engine_stat(&rig).slots, 4);
    assert_int_equal(rig_engine_stat(&rig).slots_free, 3);
    assert_int_equal(sim_disk_count_names(rig.disk, "w."), 4);
    assert_int_equal(rig_settle(&rig), UINT64_MAX);
    rig_fini(&rig);
}

/* Far jobs stay while the ring turns over many times under jobs that come and go. */
static void test_space_far_jobs_survive_many_turns_of_ring(void **state)
{
    struct rig rig;
    uint32_t t;
    char *before;
    char *after;

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 4;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 10; i++) {
        rig_push_body(&rig, t, FAR + i, 500);
    }
    before = rig_facts(&rig);
    for (unsigned i = 0; i < 400; i++) { /* 25 blocks a slot: some 25 turns of the ring */
        assert_int_equal(try_push(&rig, t, 0), TARRY_OK);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, 11 + i, 0), TARRY_OK);
    }
    assert_true(rig_engine_stat(&rig).relogged >= 10);
    assert_true(rig_engine_stat(&rig).slots <= 4);
    after = rig_facts(&rig);
    assert_string_equal(after, before);
    check_reopened_equal(&rig);
    free(before);
    free(after);
    rig_fini(&rig);
}

/* The same with bodies that must be read from the slot before they can be written again. */
static void test_space_relog_reads_bodies_from_disk(void **state)
{
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 4;
    rig.config.body_cache_bytes = 0;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 30; i++) {
        rig_push_body(&rig, t, FAR + i, 700);
    }
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(try_push(&rig, t, 0), TARRY_OK);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, 31 + i, 0), TARRY_OK);
    }
    assert_true(rig_engine_stat(&rig).relogged >= 30);
    check_reopened_equal(&rig);
    rig_fini(&rig);
}

/* A record that cannot be read is not written again: its slot stays, the others move on. */
static void test_space_relog_passes_over_rotten_record(void **state)
{
    struct rig rig;
    uint32_t t;
    uint8_t byte = 0xee;
    struct ask a = rig_ask(TR_OP_PEEK);
    uint64_t notes;

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 4;
    rig.config.body_cache_bytes = 0;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 8; i++) {
        rig_push_body(&rig, t, FAR + i, 700);
    }
    sim_disk_poke(rig.disk, "w.000", 4096 + 500, &byte, 1); /* in the body of the first */
    for (unsigned i = 0; i < 60; i++) {
        uint64_t id = rig_engine_stat(&rig).next_rid;
        int err = try_push(&rig, t, 0);

        assert_true(err == TARRY_OK || err == TARRY_ENOSPC); /* a slot less is left */
        if (err == TARRY_OK) {
            assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
        }
    }
    assert_true(rig_engine_stat(&rig).relogged >= 7);
    assert_true(rig.notes[TR_NOTE_DAMAGE] > 0); /* it was tried */
    notes = rig.notes[TR_NOTE_DAMAGE];
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_int_equal(rig.notes[TR_NOTE_DAMAGE], notes); /* and not again and again */
    for (uint64_t id = 1; id <= 8; id++) {
        a.req.id = id;
        assert_int_equal(rig_do(&rig, &a), id == 1 ? TARRY_EDAMAGED : TARRY_OK);
    }
    rig_fini(&rig);
}

/* A job whose record was changed by ALTERs (longer than move_body_max) and then written again. */
static void test_space_relog_writes_changed_fields(void **state)
{
    struct rig rig;
    uint32_t t;
    uint64_t id;
    uint64_t dead;
    struct ask a = rig_ask(TR_OP_EDIT);

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 4;
    rig.config.move_body_max = 10;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    dead = rig_push_body(&rig, t, 0, 600);
    assert_int_equal(rig_reserve(&rig, t, ME), dead);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, dead, ME), TARRY_OK);
    id = rig_push_body(&rig, t, FAR, 600);
    a.req.id = id;
    a.req.edit = TR_EDIT_DUE | TR_EDIT_PRIORITY;
    a.req.delay_us = 2 * FAR;
    a.req.priority = 77;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    for (unsigned i = 0; i < 150; i++) {
        assert_int_equal(try_push(&rig, t, 0), TARRY_OK);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, 3 + i, 0), TARRY_OK);
    }
    assert_true(rig_engine_stat(&rig).relogged >= 2);
    check_reopened_equal(&rig);
    assert_int_equal(rig_view(&rig, id).priority, 77);
    assert_int_equal(rig_view(&rig, id).due_us, RIG_WALL_US + 2 * FAR);
    assert_int_equal(rig_state(&rig, dead), TR_DEAD);
    rig_fini(&rig);
}

/* A lease that the RELOG wrote down and that ended later must not come back from a checkpoint. */
static void test_space_lease_in_relog_does_not_return(void **state)
{
    struct rig rig;
    uint32_t t;
    uint64_t id;
    struct ask a = rig_ask(TR_OP_RELEASE);

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 4;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    id = rig_push_body(&rig, t, 0, 600);
    struct ask take = rig_ask(TR_OP_RESERVE);
    take.req.topics = &t;
    take.req.topic_count = 1;
    take.req.ttr_us = FAR;
    assert_int_equal(rig_do(&rig, &take), TARRY_OK);
    for (unsigned i = 0; i < 150; i++) {
        assert_int_equal(try_push(&rig, t, 0), TARRY_OK);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, 2 + i, 0), TARRY_OK);
    }
    assert_true(rig_engine_stat(&rig).relogged >= 1);
    a.req.id = id;
    a.req.lease = take.req.out.job.lease;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_pass(&rig, 31 * RIG_SECOND); /* a checkpoint, so that the ALTER itself is not replayed */
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_fini(&rig);
}

/* Fills the disk under a cap until a push is refused; how many went in. */
static unsigned fill(struct rig *rig, uint32_t t)
{
    unsigned count = 0;
    int err;

    while ((err = try_push(rig, t, 0)) == TARRY_OK) {
        assert_true(++count < 2000);
    }
    assert_int_equal(err, TARRY_ENOSPC);
    return count;
}

static void test_space_full_disk_refuses_pushes_only(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    unsigned count;
    uint64_t id;
    struct ask a = rig_ask(TR_OP_RELEASE);

    (void)state;
    sim_disk_set_cap(rig.disk, sim_disk_used(rig.disk) + 3 * 65536);
    count = fill(&rig, t);
    assert_true(count > 10);
    assert_true(rig_engine_stat(&rig).refusing);
    for (unsigned i = 0; i < 20; i++) { /* everything else goes on */
        id = rig_reserve(&rig, t, ME);
        assert_true(id != 0);
        assert_int_equal(rig_with(&rig, TR_OP_TOUCH, id, ME), TARRY_OK);
        assert_int_equal(rig_with(&rig, TR_OP_BURY, id, ME), TARRY_OK);
        assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, id, 0), TARRY_OK);
        assert_int_equal(rig_with(&rig, TR_OP_RESERVE_JOB, id, ME), TARRY_OK);
        a.req.id = id;
        a.req.holder = ME;
        a.req.delay_us = FAR;
        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
        assert_int_equal(rig_state(&rig, id), TR_DELAYED);
    }
    assert_int_equal(try_push(&rig, t, 0), TARRY_ENOSPC);
    check_reopened_equal(&rig);
    rig_fini(&rig);
}

static void test_space_pushes_come_back_with_space(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    unsigned count;

    (void)state;
    sim_disk_set_cap(rig.disk, sim_disk_used(rig.disk) + 3 * 65536);
    count = fill(&rig, t);
    for (uint64_t id = 1; id <= count; id++) { /* deletes never lack space */
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    }
    rig_pass(&rig, 5 * RIG_SECOND);
    assert_int_equal(try_push(&rig, t, 0), TARRY_OK); /* freed by the deletes */
    count = fill(&rig, t);
    sim_disk_set_cap(rig.disk, UINT64_MAX);
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_int_equal(try_push(&rig, t, 0), TARRY_OK); /* the operator made room */
    assert_false(rig_engine_stat(&rig).refusing);
    check_reopened_equal(&rig);
    rig_fini(&rig);
}

/* Full, and opened while full: nothing is lost, and jobs can be taken out. */
static void test_space_full_store_opens(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    unsigned count;

    (void)state;
    sim_disk_set_cap(rig.disk, sim_disk_used(rig.disk) + 2 * 65536);
    count = fill(&rig, t);
    check_reopened_equal(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < count; i++) {
        uint64_t id = rig_reserve(&rig, t, ME);

        assert_true(id != 0);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    }
    rig_pass(&rig, 5 * RIG_SECOND);
    assert_int_equal(try_push(&rig, t, 0), TARRY_OK);
    rig_fini(&rig);
}

/* Right after a new slot was begun nothing was done for space yet; that is no reason to refuse. */
static void test_space_push_without_turn_is_not_refused(void **state)
{
    static const uint8_t body[BODY];
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 4;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 10; i++) {
        rig_push_body(&rig, t, FAR, 1000);
    }
    for (unsigned i = 0; i < 100; i++) {
        struct ask a = rig_ask(TR_OP_PUSH);

        a.req.topic = t;
        a.req.body = body;
        a.req.body_len = BODY;
        rig_submit(&rig, &a);
        while (a.done == 0 || rig.durable < a.req.out.gate) {
            rig_turn(&rig);
            (void)rig.step(rig.step_ctx);
        }
        assert_int_equal(a.req.out.status, TARRY_OK);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, a.req.out.job.id, 0), TARRY_OK);
    }
    rig_fini(&rig);
}

/* The ring is as long as it may be, and all in it is alive. */
static void test_space_full_ring_refuses(void **state)
{
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 5;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    assert_true(fill(&rig, t) >= 10);
    assert_int_equal(rig_engine_stat(&rig).slots, 5);
    for (unsigned i = 0; i < 200; i++) { /* altering for ever needs no more room */
        uint64_t id = rig_reserve(&rig, t, ME);

        assert_int_equal(rig_with(&rig, TR_OP_RELEASE, id, ME), TARRY_OK);
    }
    check_reopened_equal(&rig);
    rig_fini(&rig);
}

/* Whatever was accepted on a full disk has its place in the next checkpoint. */
static void test_space_full_disk_still_makes_checkpoints(void **state)
{
    struct rig rig;
    struct ask a = rig_ask(TR_OP_PUSH);
    uint64_t made;
    int err;

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 64;
    rig.config.checkpoint_slack = 8192;
    rig_open(&rig);
    a.req.topic = rig_hold(&rig, "t");
    for (unsigned i = 4; i < 40; i++) { /* slots enough: it is the checkpoint that is short */
        rig_push_body(&rig, a.req.topic, FAR, 3000);
    }
    sim_disk_set_cap(rig.disk, sim_disk_used(rig.disk));
    a.req.delay_us = FAR;
    while ((err = rig_do(&rig, &a)) == TARRY_OK) {
        assert_true(rig_engine_stat(&rig).jobs < 3000);
    }
    assert_int_equal(err, TARRY_ENOSPC);
    made = rig_engine_stat(&rig).checkpoints;
    for (uint64_t id = 1; id <= 20; id++) { /* rows for altered jobs need room too */
        assert_int_equal(rig_with(&rig, TR_OP_FIRE, id, 0), TARRY_OK);
    }
    rig_pass(&rig, 70 * RIG_SECOND);
    assert_true(rig_engine_stat(&rig).checkpoints > made);
    check_reopened_equal(&rig);
    rig_fini(&rig);
}

/* Checkpoint files grow ahead of need. */
static void test_space_many_jobs_make_checkpoints_grow(void **state)
{
    struct rig rig;
    uint32_t t;
    uint64_t size;

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 64;
    rig.config.checkpoint_slack = 8192;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    size = sim_disk_size(rig.disk, "ckpt.0");
    for (unsigned i = 0; i < 300; i++) {
        rig_push(&rig, t, FAR);
    }
    assert_true(sim_disk_size(rig.disk, "ckpt.0") > size);
    assert_true(sim_disk_size(rig.disk, "ckpt.1") > size);
    rig_pass(&rig, 40 * RIG_SECOND);
    check_reopened_equal(&rig);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_space_new_store_has_four_slots),
        cmocka_unit_test(test_space_ring_grows_and_shrinks_back),
        cmocka_unit_test(test_space_far_jobs_survive_many_turns_of_ring),
        cmocka_unit_test(test_space_relog_reads_bodies_from_disk),
        cmocka_unit_test(test_space_relog_passes_over_rotten_record),
        cmocka_unit_test(test_space_relog_writes_changed_fields),
        cmocka_unit_test(test_space_lease_in_relog_does_not_return),
        cmocka_unit_test(test_space_full_disk_refuses_pushes_only),
        cmocka_unit_test(test_space_pushes_come_back_with_space),
        cmocka_unit_test(test_space_full_store_opens),
        cmocka_unit_test(test_space_push_without_turn_is_not_refused),
        cmocka_unit_test(test_space_full_ring_refuses),
        cmocka_unit_test(test_space_full_disk_still_makes_checkpoints),
        cmocka_unit_test(test_space_many_jobs_make_checkpoints_grow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
