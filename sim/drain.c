/*
 * The end of a run: faults have stopped.
 *
 * Everybody leaves, histories are looked at, one consumer takes and deletes whatever comes, dead
 * jobs are kicked, and time goes on to the next due job or lease end. In a bounded number of such
 * steps nothing is left (I1). Then a push must be accepted (I13), the engine must want no further
 * turn (I26), the ring must be back to its base with no file too many (I12), and what is closed
 * must open empty.
 */
#include "run.h"

#include "base/err.h"

#include <inttypes.h>

#define FAIL(promise, ...) sim_fail(&r->report, promise, __VA_ARGS__)

enum { SLOTS_BASE = 4, IDLE_TURNS_MAX = 400, PATIENCE = 50, LOOKS_BACK = 10 };

/* A checkpoint that failed often is tried again after 6.4 s; a change that waits for the room which
 * that gives asks every 2 ms. */
enum { TIRED_US = 8000000, TIRED_TURNS = 10000 };

/* Submits, lets the disk work and, if need be, time go on until it is answered. */
static int ask(struct sim_run *r, struct sim_ask *a)
{
    uint64_t until_us = r->now.boot_us + TIRED_US;
    unsigned most = PATIENCE;

    sim_run_submit(r, a);
    for (unsigned i = 0; i < most && !sim_run_stopped(r) && a->pending; i++) {
        sim_run_settle(r);
        if (a->pending && !sim_run_stopped(r) && r->oracle.next_turn != UINT64_MAX) {
            sim_run_pass(r, r->oracle.next_turn - r->now.boot_us);
            most = r->now.boot_us < until_us ? TIRED_TURNS : PATIENCE;
        }
    }
    if (!sim_run_stopped(r) && a->pending) {
        FAIL("I1", "%s is not answered, though nothing is in its way", sim_op_name(a->req.op));
    }
    if (!sim_run_stopped(r) && tr_engine_failed(r->engine)) {
        FAIL("I14", "the engine failed without a fault");
    }
    return a->req.out.status;
}

/* No topic has a policy any more: it would hold back jobs, and stay. */
static void drop_policies(struct sim_run *r)
{
    for (unsigned i = 0; i < r->params.topics && !sim_run_stopped(r); i++) {
        struct sim_ask *a;

        if (r->oracle.model.topics[i].number == 0) {
            a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_FIND_TOPIC);
            sim_work_for_topic(&r->work, a, i); /* becomes a hold */
            (void)ask(r, a);
        }
        if (!sim_run_stopped(r)) {
            a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_POLICY);
            a->policy = tr_policy_default();
            a->to = sim_policy_none();
            a->req.policy = &a->policy;
            a->req.fields = TR_POLICY_ALL;
            sim_work_for_topic(&r->work, a, i);
            (void)ask(r, a);
        }
    }
}

/* What an earlier engine saw go is still told of, if it was in the file. */
static void look_back(struct sim_run *r)
{
    const struct sim_model *m = &r->oracle.model;
    unsigned asked = 0;

    for (size_t i = m->job_count; i > 0 && asked < LOOKS_BACK && !sim_run_stopped(r); i--) {
        const struct sim_job *j = &m->jobs[i - 1];

        if (j->gone_seen && j->gone_noted == 1 && j->id != 0) {
            struct sim_ask *a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_HISTORY);

            a->req.id = j->id;
            (void)ask(r, a);
            asked++;
        }
    }
}

static void send_all_home(struct sim_run *r)
{
    for (unsigned k = 0; k < 1000 && r->backup.pending && !sim_run_stopped(r); k++) {
        sim_run_pass(r, 10000);
        sim_run_settle(r);
    }
    if (r->backup.pending && !sim_run_stopped(r)) {
        FAIL("I28", "the copy is never finished");
    }
    sim_backup_turned(r);
    sim_disk_clear_aside(r->disk);
    r->backup.whole = false;
    for (unsigned i = 0; i < SIM_ASKS_MAX && !sim_run_stopped(r); i++) {
        struct sim_ask *a = &r->oracle.asks[i];

        if (a->pending && a->req.op == TR_OP_CLOSE) {
            sim_run_settle(r);
        }
        for (unsigned k = 0; k < 100 && a->pending && a->req.op == TR_OP_BULK; k++) {
            sim_run_pass(r, 10000); /* it goes on anyway */
            sim_run_settle(r);
        }
        if (a->pending) {
            sim_oracle_begin(&r->oracle, r->now);
            tr_engine_abandon(r->engine, &a->req, r->now);
            sim_oracle_abandoned(&r->oracle, a);
            sim_oracle_end(&r->oracle);
        }
        if (r->work.holders[i] != 0) {
            (void)ask(r, sim_work_blank(&r->work, i, TR_OP_CLOSE));
        }
    }
    for (unsigned i = 0; i < r->params.topics && !sim_run_stopped(r); i++) {
        struct sim_ask *a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_PAUSE);

        sim_work_for_topic(&r->work, a, i);
        if (a->req.op != TR_OP_PAUSE) { /* it had to be held first */
            (void)ask(r, a);
            a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_PAUSE);
            sim_work_for_topic(&r->work, a, i);
        }
        if (!sim_run_stopped(r)) {
            (void)ask(r, a);
        }
    }
}

/* Everybody is looked up once: by the index, if it is in a run. */
static void look_up_all(struct sim_run *r)
{
    for (size_t i = 0; i < r->oracle.model.job_count && !sim_run_stopped(r); i++) {
        const struct sim_job *j = &r->oracle.model.jobs[i];

        if (j->where == SIM_PENDING) {
            struct sim_ask *a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_PEEK);

            a->req.id = j->id;
            (void)ask(r, a);
        }
    }
}

/* A topic all of whose jobs may have been dropped has no number in the model, but may be there. */
static void find_topics(struct sim_run *r)
{
    for (size_t i = 0; i < r->oracle.model.job_count && !sim_run_stopped(r); i++) {
        const struct sim_job *j = &r->oracle.model.jobs[i];

        if (j->where != SIM_GONE && r->oracle.model.topics[j->topic].number == 0) {
            struct sim_ask *a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_FIND_TOPIC);

            sim_work_for_topic(&r->work, a, j->topic);
            (void)ask(r, a);
        }
    }
}

static bool take_one(struct sim_run *r)
{
    struct sim_ask *a;
    uint64_t id;

    find_topics(r);
    a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_RESERVE);

    for (unsigned i = 0; i < r->params.topics; i++) {
        a->topics[i] = i;
        a->numbers[i] = r->oracle.model.topics[i].number;
    }
    a->req.topics = a->numbers;
    a->req.topic_count = r->params.topics;
    if (ask(r, a) != TARRY_OK || sim_run_stopped(r)) {
        return false;
    }
    id = a->req.out.job.id;
    a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_DELETE);
    a->req.id = id;
    (void)ask(r, a);
    return true;
}

/* Jobs whose damage was reported can only be deleted. */
static bool remove_damaged(struct sim_run *r)
{
    for (size_t i = 0; i < r->oracle.model.job_count; i++) {
        const struct sim_job *j = &r->oracle.model.jobs[i];

        if ((j->where == SIM_DEAD || j->where == SIM_PENDING) && j->damaged && r->oracle.rotten) {
            struct sim_ask *a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_DELETE);

            a->req.id = j->id;
            if (ask(r, a) == TARRY_OK) {
                return true;
            }
        }
    }
    return false;
}

static bool kick_dead(struct sim_run *r)
{
    for (size_t i = 0; i < r->oracle.model.job_count; i++) {
        const struct sim_job *j = &r->oracle.model.jobs[i];

        if (j->where == SIM_DEAD) {
            struct sim_ask *a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_KICK);

            a->req.count = 1000;
            sim_work_for_topic(&r->work, a, j->topic);
            (void)ask(r, a);
            return true;
        }
    }
    return false;
}

/* On to the next moment at which some job must come. */
static void wait_for_next(struct sim_run *r)
{
    struct tr_now now = sim_tclock_now(&r->oracle, r->now); /* which is that of the model */
    uint64_t span_us = r->params.test_clock ? now.wall_us : now.boot_us;
    uint64_t wait = UINT64_MAX;

    for (size_t i = 0; i < r->oracle.model.job_count; i++) {
        const struct sim_job *j = &r->oracle.model.jobs[i];
        uint64_t at = UINT64_MAX;

        if (j->where == SIM_PENDING) {
            at = j->due_us > now.wall_us ? j->due_us - now.wall_us : 0;
        } else if (j->where == SIM_RESERVED) {
            at = j->lease_hi_us > span_us ? j->lease_hi_us - span_us : 0;
        }
        wait = at < wait ? at : wait;
    }
    if (r->params.test_clock && wait != 0 && wait != UINT64_MAX) {
        struct sim_ask *a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_ADVANCE);

        a->req.delay_us = wait;
        (void)ask(r, a);
        return;
    }
    if (wait == 0 && r->oracle.next_turn > r->now.boot_us && r->oracle.next_turn != UINT64_MAX) {
        wait = r->oracle.next_turn - r->now.boot_us; /* something is tried again later */
    }
    if (r->oracle.clock_doubt && wait < 1100000) {
        wait = 1100000; /* the engine wants to see that the clock stays where it is */
    }
    sim_run_pass(r, wait != UINT64_MAX ? wait : 0);
    sim_run_settle(r);
}

static void take_all(struct sim_run *r)
{
    uint64_t tries = 20 * r->oracle.model.live + 200;

    while (r->oracle.model.live > 0 && !sim_run_stopped(r)) {
        if (tries-- == 0) {
            for (size_t i = 0; i < r->oracle.model.job_count; i++) {
                if (r->oracle.model.jobs[i].where != SIM_GONE) {
                    FAIL("I1", "job %" PRIu64 " does not come out", r->oracle.model.jobs[i].id);
                }
            }
            return;
        }
        if (!take_one(r) && !sim_run_stopped(r) && !remove_damaged(r) && !kick_dead(r)) {
            wait_for_next(r);
        }
    }
}

static void push_one(struct sim_run *r)
{
    struct sim_ask *a;
    int status = TARRY_ENOSPC;

    /* A promotion or a checkpoint may have taken what memory there is, for a moment. */
    for (unsigned tries = 0;
         tries < 50 && (status == TARRY_ENOSPC || status == TARRY_ENOMEM) && !sim_run_stopped(r);
         tries++) {
        a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_PUSH);
        a->req.ttr_us = 1000000;
        a->req.body = r->work.bodies[SIM_DRAINER];
        sim_work_for_topic(&r->work, a, 0);
        status = ask(r, a);
        if (status != TARRY_OK && !sim_run_stopped(r)) {
            sim_run_pass(r, 1000000);
            sim_run_settle(r);
        }
    }
    if (status != TARRY_OK && !sim_run_stopped(r)) {
        FAIL("I13", "there is room, nothing is stored, but push is refused with %s",
             tarry_errname(status));
    }
    take_all(r);
}

static void drop_holds(struct sim_run *r)
{
    for (unsigned i = 0; i < r->params.topics * TR_HOLD_COUNT; i++) {
        struct sim_topic *t = &r->oracle.model.topics[i / TR_HOLD_COUNT];

        while (t->holds[i % TR_HOLD_COUNT] > 0 && !sim_run_stopped(r)) {
            struct sim_ask *a = sim_work_blank(&r->work, SIM_DRAINER, TR_OP_DROP_TOPIC);

            a->topic = i / TR_HOLD_COUNT;
            a->req.hold = (enum tr_hold)(i % TR_HOLD_COUNT);
            a->req.topic = t->number;
            (void)ask(r, a);
        }
    }
}

static void become_idle(struct sim_run *r)
{
    for (unsigned i = 0; i < IDLE_TURNS_MAX && !sim_run_stopped(r); i++) {
        sim_run_settle(r);
        if (sim_run_stopped(r) || r->oracle.next_turn == UINT64_MAX) {
            return;
        }
        sim_run_pass(r, r->oracle.next_turn - r->now.boot_us);
    }
    if (!sim_run_stopped(r)) {
        FAIL("I26", "nothing is left, but the engine wants another turn");
    }
}

static void check_base(struct sim_run *r)
{
    struct tr_engine_stat stat;
    size_t files = sim_disk_count_names(r->disk, "");
    size_t known = sim_disk_count_names(r->disk, "man.") + sim_disk_count_names(r->disk, "ckpt.") +
                   sim_disk_count_names(r->disk, "lock") + sim_disk_count_names(r->disk, "w.") +
                   sim_disk_count_names(r->disk, "history") +
                   sim_disk_count_names(r->disk, "quarantine/");

    tr_engine_stat(r->engine, &stat);
    if (stat.jobs != 0 || stat.topics != 0) {
        FAIL("I12", "all is gone, but the engine has %" PRIu64 " jobs and %" PRIu64 " topics",
             stat.jobs, stat.topics);
    }
    if (stat.keys != 0) {
        FAIL("I12", "all is gone, but the table of keys has %" PRIu64 " entries", stat.keys);
    }
    if (stat.refusing) {
        FAIL("I13", "nothing is left, but pushes are refused");
    }
    if (stat.slots > SLOTS_BASE && !r->oracle.rotten) {
        FAIL("I12", "nothing is left, but the ring has %" PRIu64 " slots", stat.slots);
    }
    if ((sim_disk_count_names(r->disk, "w.") != stat.slots || known != files) &&
        !sim_run_dir_errors(r)) {
        FAIL("I12", "the ring has %" PRIu64 " slots, the disk %zu files, %zu of them slots",
             stat.slots, files, sim_disk_count_names(r->disk, "w."));
    }
    if (!tr_engine_ok(r->engine)) {
        FAIL("I16", "the engine's own check fails");
    }
}

void sim_run_drain(struct sim_run *r)
{
    r->oracle.nested = NULL; /* nobody else asks any more */
    for (unsigned lane = 0; lane < TR_LANE_COUNT; lane++) {
        sim_disk_stall(r->disk, (enum tr_lane)lane, false);
    }
    while (!sim_run_stopped(r) && sim_disk_step(r->disk)) {
        /* the last errors are still to be heard of */
    }
    if (sim_run_stopped(r)) {
        return;
    }
    if (sim_disk_dead(r->disk) || tr_engine_failed(r->engine)) {
        sim_run_crash(r, false);
    }
    if (!sim_run_stopped(r)) {
        send_all_home(r);
    }
    if (!sim_run_stopped(r)) {
        look_back(r);
    }
    if (!sim_run_stopped(r)) {
        drop_policies(r);
    }
    if (!sim_run_stopped(r) && sim_dice(&r->rng, r->params.look_pct)) {
        look_up_all(r);
    }
    if (!sim_run_stopped(r)) {
        take_all(r);
    }
    if (!sim_run_stopped(r)) {
        push_one(r);
    }
    if (!sim_run_stopped(r)) {
        drop_holds(r);
        become_idle(r);
    }
    if (!sim_run_stopped(r)) {
        check_base(r);
    }
    if (!sim_run_stopped(r)) {
        sim_run_reopen(r);
    }
    if (!sim_run_stopped(r) && r->oracle.model.live != 0) {
        FAIL("I10", "all was gone before the close, but not after it");
    }
}
