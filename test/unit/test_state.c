/*
 * What each record does to the state, live and in a replay; and which records cannot follow.
 */

#include "base/err.h"
#include "engine/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct bench {
    struct tr_mem mem;
    struct tr_state s;
};

static int apply(struct bench *b, const struct tr_record *rec, struct tr_job **job)
{
    return tr_state_apply(&b->s, rec, 1, job);
}

static void start(struct bench *b)
{
    struct tr_record topic = {.type = TR_REC_TOPIC, .topic = 1, .name = {(const uint8_t *)"t", 1}};
    struct tr_job *job;

    tr_mem_init(&b->mem, 0);
    tr_state_init(&b->s, &b->mem);
    assert_int_equal(apply(b, &topic, &job), TARRY_OK);
    assert_null(job);
}

static void finish(struct bench *b)
{
    assert_true(tr_state_ok(&b->s));
    tr_state_fini(&b->s);
    assert_int_equal(b->mem.used_bytes, 0);
}

static struct tr_record push(uint64_t rid)
{
    return (struct tr_record){.type = TR_REC_PUSH,
                              .mask = TR_FIELD(DUE) | TR_FIELD(TOPIC) | TR_FIELD(PRIORITY) |
                                      TR_FIELD(TTR) | TR_FIELD(CREATED) | TR_FIELD(BODY),
                              .rid = rid,
                              .due_us = 500,
                              .created_us = 400,
                              .topic = 1,
                              .priority = 7,
                              .ttr_us = 60,
                              .body = {(const uint8_t *)"body", 4}};
}

static struct tr_record move(uint64_t old, uint64_t rid, uint64_t id)
{
    struct tr_record rec = push(rid);

    rec.type = TR_REC_MOVE;
    rec.mask |= TR_FIELD(OLD) | TR_FIELD(ID);
    rec.old = (struct tr_kill){.rid = old, .due_us = 500, .topic = 1};
    rec.id = id;
    rec.due_us = 900;
    return rec;
}

static struct tr_record alter(uint64_t rid)
{
    return (struct tr_record){
        .type = TR_REC_ALTER, .mask = TR_FIELD(PRIORITY), .rid = rid, .priority = 99};
}

static void test_state_push_makes_job(void **state)
{
    struct bench b;
    struct tr_record rec = push(3);
    struct tr_job *job;

    (void)state;
    start(&b);
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    assert_int_equal(job->id, 3);
    assert_int_equal(job->due_us, 500);
    assert_int_equal(job->priority, 7);
    assert_int_equal(job->ttr_us, 60);
    assert_int_equal(job->body_len, 4);
    assert_int_equal(job->topic->jobs, 1);
    assert_int_equal(b.s.next_rid, 4);
    assert_int_equal(apply(&b, &rec, &job), TARRY_EDAMAGED); /* a rid is used once */
    rec.rid = 2;
    assert_int_equal(apply(&b, &rec, &job), TARRY_EDAMAGED); /* and upwards */
    rec.rid = 4;
    rec.topic = 9;
    assert_int_equal(apply(&b, &rec, &job), TARRY_EDAMAGED); /* unknown topic */
    assert_int_equal(b.s.next_rid, 4);
    finish(&b);
}

static void test_state_move_kills_old(void **state)
{
    struct bench b;
    struct tr_record rec = push(1);
    struct tr_job *job;
    struct tr_job *same;

    (void)state;
    start(&b);
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    rec = move(1, 2, 1);
    assert_int_equal(apply(&b, &rec, &same), TARRY_OK);
    assert_ptr_equal(same, job);
    assert_int_equal(job->rid, 2);
    assert_int_equal(job->id, 1);
    assert_int_equal(job->due_us, 900);
    assert_false(tr_bitmap_test(&b.s.jobs.alive, 1));
    assert_int_equal(b.s.jobs.count, 1);
    rec = move(1, 3, 1);
    assert_int_equal(apply(&b, &rec, &same), TARRY_EDAMAGED); /* rid 1 is dead */
    finish(&b);
}

static void test_state_alter_marks_job(void **state)
{
    struct bench b;
    struct tr_record rec = push(1);
    struct tr_job *job;

    (void)state;
    start(&b);
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    rec = alter(1);
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    assert_int_equal(job->priority, 99);
    assert_int_equal(job->due_us, 500); /* not named: stays */
    assert_true(job->altered);
    assert_int_equal(b.s.jobs.altered, 1);
    tr_state_describe(job, TR_REC_RELOG, &rec);
    rec.body = (struct tr_bytes){(const uint8_t *)"body", 4};
    assert_int_equal(rec.priority, 99);
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK); /* its record is up to date again */
    assert_false(job->altered);
    rec = alter(2);
    assert_int_equal(apply(&b, &rec, &job), TARRY_EDAMAGED);
    assert_true(tr_state_kill(&b.s, &(struct tr_kill){.rid = 1, .topic = 1}, 1));
    assert_false(tr_state_kill(&b.s, &(struct tr_kill){.rid = 1, .topic = 1}, 1));
    assert_int_equal(b.s.jobs.altered, 0);
    finish(&b);
}

static void test_state_dead_order_goes_on(void **state)
{
    struct bench b;
    struct tr_record rec = push(1);
    struct tr_job *job;

    (void)state;
    start(&b);
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    rec = (struct tr_record){.type = TR_REC_ALTER, .mask = TR_FIELD(DEAD), .rid = 1};
    rec.dead.seq = 41;
    rec.dead.reason = TR_WHY_BURIED;
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    assert_int_equal(job->dead_seq, 41);
    assert_int_equal(job->topic->next_dead_seq, 42);
    rec.dead.seq = 0; /* alive again */
    rec.dead.reason = 0;
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    assert_int_equal(job->dead_seq, 0);
    assert_int_equal(job->topic->next_dead_seq, 42);
    finish(&b);
}

static void test_state_unknown_records(void **state)
{
    struct bench b;
    struct tr_record rec = {.type = TR_REC_OCCUR, .topic = 1};
    struct tr_job *job;

    (void)state;
    start(&b);
    assert_int_equal(apply(&b, &rec, &job), TARRY_EVERSION);
    rec.type = TR_REC_SCHED; /* of nothing */
    assert_int_equal(apply(&b, &rec, &job), TARRY_EDAMAGED);
    rec.type = TR_REC_NOTE;
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    rec = (struct tr_record){.type = TR_REC_TOPIC, .topic = 2, .name = {(const uint8_t *)"-", 1}};
    assert_int_equal(apply(&b, &rec, &job), TARRY_EDAMAGED);
    rec = (struct tr_record){.type = TR_REC_TOPIC, .topic = 0, .name = {(const uint8_t *)"u", 1}};
    assert_int_equal(apply(&b, &rec, &job), TARRY_EDAMAGED);
    finish(&b);
}

/* ---- replay ---- */

/* A checkpoint has called rid 5 alive; the log will bring its record. */
/* A job of topic 1 that the checkpoint counts. */
static void count_cell(struct bench *b)
{
    uint32_t row = tr_tally_row(&b->s, tr_topics_by_number(&b->s.topics, 1));
    uint32_t kind;

    assert_int_equal(tr_cells_make(&b->s.cells, row, 500, &kind), TARRY_OK);
    tr_cells_add(&b->s.cells, row, 500, kind);
}

static void start_replay(struct bench *b)
{
    start(b);
    count_cell(b);
    assert_int_equal(tr_bitmap_set(&b->s.jobs.alive, 5), TARRY_OK);
    b->s.next_rid = 6;
    b->s.replaying = true;
    tr_topics_by_number(&b->s.topics, 1)->jobs = 1; /* as the checkpoint said */
}

static void test_state_meet_gives_places_only(void **state)
{
    struct bench b;
    struct tr_record rec = push(5);
    struct tr_job *job;

    (void)state;
    start_replay(&b);
    assert_int_equal(tr_state_meet(&b.s, &rec, &job), TARRY_OK);
    assert_non_null(job);
    assert_int_equal(job->due_us, 500);
    rec = push(4); /* dead by then: it must not come back (R15) */
    assert_int_equal(tr_state_meet(&b.s, &rec, &job), TARRY_OK);
    assert_null(job);
    assert_false(tr_bitmap_test(&b.s.jobs.alive, 4));
    rec = alter(5);
    assert_int_equal(tr_state_meet(&b.s, &rec, &job), TARRY_OK);
    assert_null(job);
    rec = push(5);
    rec.type = TR_REC_RELOG;
    rec.due_us = 777;
    assert_int_equal(tr_state_meet(&b.s, &rec, &job), TARRY_OK); /* a later place */
    assert_int_equal(job->due_us, 777);
    assert_int_equal(b.s.jobs.count, 1);
    finish(&b);
}

/* What happens after the checkpoint to a job whose record comes only later, as a RELOG. */
static void test_state_changes_before_record_is_met(void **state)
{
    struct bench b;
    struct tr_record rec = alter(5);
    struct tr_job *job;

    (void)state;
    start_replay(&b);
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK); /* contained in the RELOG to come */
    assert_null(job);
    rec = push(5);
    rec.type = TR_REC_RELOG;
    rec.priority = 99;
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    assert_int_equal(job->priority, 99);
    rec.rid = 4;
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK); /* of one that was killed */
    assert_null(job);
    assert_false(tr_bitmap_test(&b.s.jobs.alive, 4));
    finish(&b);
}

static void test_state_move_and_kill_of_one_not_met(void **state)
{
    struct bench b;
    struct tr_record rec = move(5, 6, 3);
    struct tr_job *job;

    (void)state;
    start_replay(&b);
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    assert_int_equal(job->id, 3);
    assert_false(tr_bitmap_test(&b.s.jobs.alive, 5));
    assert_int_equal(b.s.jobs.alive.members, 1);
    assert_int_equal(tr_bitmap_set(&b.s.jobs.alive, 2), TARRY_OK);
    tr_topics_by_number(&b.s.topics, 1)->jobs++;
    count_cell(&b);
    assert_true(
        tr_state_kill(&b.s, &(struct tr_kill){.rid = 2, .topic = 1}, 1)); /* never met, dead now */
    assert_false(tr_state_kill(&b.s, &(struct tr_kill){.rid = 2, .topic = 1}, 1));
    assert_int_equal(b.s.jobs.alive.members, 1);
    finish(&b);
}

static void test_state_drops_empty_topics(void **state)
{
    struct bench b;
    struct tr_record rec = {.type = TR_REC_TOPIC, .topic = 2, .name = {(const uint8_t *)"u", 1}};
    struct tr_job *job;

    (void)state;
    start(&b);
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    rec = push(1);
    assert_int_equal(apply(&b, &rec, &job), TARRY_OK);
    tr_state_drop_empty_topics(&b.s);
    assert_non_null(tr_topics_by_number(&b.s.topics, 1));
    assert_null(tr_topics_by_number(&b.s.topics, 2));
    assert_int_equal(b.s.topics.next_number, 3);
    finish(&b);
}

/* A whole record, described and applied elsewhere, gives the same job. */
static void test_state_describe_is_complete(void **state)
{
    struct bench a;
    struct bench b;
    struct tr_record rec = push(1);
    struct tr_job *job;
    struct tr_job *twin;

    (void)state;
    start(&a);
    start(&b);
    rec.mask |= TR_FIELD(DELAY) | TR_FIELD(FLAGS);
    rec.delay_us = 100;
    rec.flags = TR_RF_BEANSTALK;
    assert_int_equal(apply(&a, &rec, &job), TARRY_OK);
    job->counters = (struct tr_counters){1, 2, 3, 4, 5};
    job->dead_seq = 8;
    job->dead_reason = TR_WHY_BURIED;
    job->dead_at_us = 3;
    job->lease = UINT64_C(5) << 40 | 9;
    job->lease_end_us = 1000;
    tr_state_describe(job, TR_REC_PUSH, &rec);
    assert_int_equal(apply(&b, &rec, &twin), TARRY_OK);
    assert_int_equal(twin->due_us, job->due_us);
    assert_int_equal(twin->created_us, job->created_us);
    assert_int_equal(twin->delay_us, job->delay_us);
    assert_int_equal(twin->ttr_us, job->ttr_us);
    assert_int_equal(twin->priority, job->priority);
    assert_int_equal(twin->flags, job->flags);
    assert_memory_equal(&twin->counters, &job->counters, sizeof job->counters);
    assert_int_equal(twin->dead_seq, job->dead_seq);
    assert_int_equal(twin->dead_reason, job->dead_reason);
    assert_int_equal(twin->dead_at_us, job->dead_at_us);
    assert_int_equal(twin->lease, job->lease);
    assert_int_equal(twin->lease_end_us, job->lease_end_us);
    finish(&a);
    finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_push_makes_job),
        cmocka_unit_test(test_state_move_kills_old),
        cmocka_unit_test(test_state_alter_marks_job),
        cmocka_unit_test(test_state_dead_order_goes_on),
        cmocka_unit_test(test_state_unknown_records),
        cmocka_unit_test(test_state_meet_gives_places_only),
        cmocka_unit_test(test_state_changes_before_record_is_met),
        cmocka_unit_test(test_state_move_and_kill_of_one_not_met),
        cmocka_unit_test(test_state_drops_empty_topics),
        cmocka_unit_test(test_state_describe_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
