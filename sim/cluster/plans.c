/*
 * Clients set, change, pause, run and end four schedules, which have two topics each, so that they
 * move between slots. What a tick makes is a job as any other, with the body s<number>; the judge
 * sees it when the script runs (C10), and then all its other promises hold for it, too.
 *
 * In the calm a schedule ticks, and goes on when its owner dies.
 */

#include "plans.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

#define PERIOD_US UINT64_C(500000)
#define DEATH_US UINT64_C(25000000) /* a member's lease, and what is late by then */
#define HALF_US UINT64_C(4000000)   /* longer than anybody's patience */
#define YOUNG_US UINT64_C(6000000)  /* the same, when nothing is lost; before the guard looks */

static uint64_t dice(struct cluster *c, uint64_t below)
{
    return tr_rng_below(&c->world.rng, below);
}

static struct ask *ask(struct node *n, enum tr_op op, unsigned plan)
{
    static const char *const names[PLANS] = {"p0", "p1", "p2", "p3"};
    struct ask *a = node_ask(n, 'x');

    if (a != NULL) {
        a->r.op = op;
        a->r.name = names[plan];
        a->r.name_len = 2;
    }
    return a;
}

/* period_us 0: by the dice. */
static struct ask *set(struct cluster *c, struct node *n, unsigned plan, uint64_t period_us)
{
    static const char *const bodies[PLANS] = {"s0", "s1", "s2", "s3"};
    static const char *const topics[TOPICS] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
    struct ask *a = ask(n, TR_OP_SCHEDULE, plan);

    if (a == NULL) {
        return NULL;
    }
    a->schedule = (struct tr_schedule){
        .kind = period_us != 0 || dice(c, 3) != 0 ? TR_SCHEDULE_EVERY : TR_SCHEDULE_AFTER,
        .period_us = period_us != 0 ? period_us : 200000 + dice(c, 2000000),
        .overlap = period_us != 0 ? TR_OVERLAP_ALLOW : (enum tr_overlap)dice(c, TR_OVERLAP_COUNT),
        .missed = period_us != 0 ? TR_MISSED_ONCE : (enum tr_missed)dice(c, TR_MISSED_COUNT),
        .limit = period_us != 0 ? 0 : 1 + dice(c, 30), /* it may be long until it is ended */
        .has_retries = true,
        .retries = -1,
        .ttr_us = 3000000,
        .topic = {topics[period_us != 0 ? plan : plan + 4U * (dice(c, 8) == 0)], 2},
        .body = (const uint8_t *)bodies[plan],
        .body_len = 2};
    a->r.schedule = &a->schedule;
    node_submit(n, a);
    return a;
}

void plans_client(struct cluster *c, struct node *n)
{
    static const enum tr_op ops[] = {
        TR_OP_SCHEDULE_GET,    TR_OP_SCHEDULE_AFTER,  TR_OP_SCHEDULE_TIMES, TR_OP_SCHEDULE_PAUSE,
        TR_OP_SCHEDULE_RESUME, TR_OP_SCHEDULE_RESUME, TR_OP_SCHEDULE_RUN};
    enum tr_op op =
        dice(c, 24) == 0 ? TR_OP_SCHEDULE_DROP : ops[dice(c, sizeof ops / sizeof ops[0])];
    struct ask *a;

    if (dice(c, 6) == 0) {
        (void)set(c, n, (unsigned)dice(c, PLANS), 0);
        return;
    }
    a = ask(n, op, (unsigned)dice(c, PLANS));
    if (a != NULL) {
        a->r.count = 5;
        node_submit(n, a);
    }
}

static bool drop_one(struct cluster *c, unsigned plan)
{
    struct node *n = &c->nodes[dice(c, NODES)];
    struct ask *a = ask(n, TR_OP_SCHEDULE_DROP, plan);

    if (a == NULL) {
        return false;
    }
    node_submit(n, a);
    cluster_run(c, c->world.now_us + 200000);
    return !a->busy && (a->r.out.status == TARRY_OK || a->r.out.status == TARRY_ENOTFOUND);
}

/* One whose name a failover has undone is known again when its owner has met it. */
void plans_drop(struct cluster *c)
{
    unsigned quiet = 0;

    for (unsigned round = 0; round < 60 && quiet < 12 && c->judge.wrong[0] == '\0'; round++) {
        uint64_t before = c->judge.ticks;

        for (unsigned i = 0; i < PLANS; i++) {
            (void)drop_one(c, i);
        }
        cluster_run(c, c->world.now_us + 3000000);
        quiet = c->judge.ticks == before ? quiet + 1 : 0;
    }
    if (quiet < 12) {
        judge_wrong(&c->judge, "C10: a schedule that nobody can end", 0);
    }
}

static void expect(struct cluster *c, uint64_t before, uint64_t least, const char *what)
{
    if (c->judge.ticks < before + least) {
        judge_wrong(&c->judge, what, (unsigned)(c->judge.ticks - before));
    }
}

static void check_ticks(struct cluster *c)
{
    struct ask *a = set(c, &c->nodes[dice(c, NODES)], 0, PERIOD_US);
    uint64_t before = c->judge.ticks;

    cluster_run(c, c->world.now_us + 100000 + 4 * PERIOD_US);
    if (a == NULL || a->busy || a->r.out.status != TARRY_OK) {
        judge_wrong(&c->judge, "a schedule could not be set", 0);
        return;
    }
    expect(c, before, 4, "C10: ticks are missing");
    if (dice(c, 2) == 0) {
        cluster_kill(c, &c->nodes[dice(c, NODES)]);
        before = c->judge.ticks;
        cluster_run(c, c->world.now_us + DEATH_US);
        expect(c, before, 10, "C10: nobody goes on");
    }
}

/* Nodes die and come, and do not all know of it at the same moment: a schedule that is set
 * meanwhile ticks all the same, as soon as its slot has an owner. Nothing is lost, so no guard is
 * needed. */
static void check_young(struct cluster *c)
{
    for (unsigned i = 0; i < 3 && c->judge.wrong[0] == '\0'; i++) {
        struct ask *a;
        uint64_t before;

        cluster_kill(c, &c->nodes[dice(c, NODES)]);
        cluster_run(c, c->world.now_us + 100000 + dice(c, 4000000)); /* till it is open */
        a = set(c, &c->nodes[dice(c, NODES)], (unsigned)dice(c, PLANS), PERIOD_US);
        cluster_run(c, c->world.now_us + 100000);
        if (a == NULL || a->busy || a->r.out.status != TARRY_OK) {
            judge_wrong(&c->judge, "a schedule could not be set while nodes come and go", i);
            return;
        }
        before = c->judge.ticks;
        cluster_run(c, c->world.now_us + YOUNG_US);
        expect(c, before, 2, "C10: a new schedule stands still");
        for (unsigned k = 0; k < PLANS; k++) {
            (void)drop_one(c, k);
        }
    }
}

/* It is to move to another topic, and the server that has it takes no changes: it is told where it
 * is, and ends when somebody ends it. */
static void check_half_moved(struct cluster *c)
{
    struct node *n = &c->nodes[dice(c, NODES)];
    unsigned plan = (unsigned)dice(c, PLANS);
    struct server *s = &c->world.servers[c->world.owner[c->judge.slot_of[plan]]];
    struct ask *a = set(c, n, plan, PERIOD_US);
    struct tr_schedule is = a != NULL ? a->schedule : (struct tr_schedule){0};
    uint64_t before;

    cluster_run(c, c->world.now_us + 100000);
    s->full_until_us = c->world.now_us + HALF_US;
    a = a != NULL && !a->busy && a->r.out.status == TARRY_OK ? ask(n, TR_OP_SCHEDULE, plan) : NULL;
    if (a == NULL) {
        judge_wrong(&c->judge, "a schedule could not be set", plan);
        return;
    }
    is.topic.at = cluster_topic(plan + 4);
    a->schedule = is;
    a->r.schedule = &a->schedule;
    node_submit(n, a);
    cluster_run(c, c->world.now_us + HALF_US);
    if (a->busy || a->r.out.status == TARRY_OK) {
        judge_wrong(&c->judge, "a full server changed a schedule", plan);
        return;
    }
    a = ask(n, TR_OP_SCHEDULE_GET, plan);
    node_submit(n, a);
    cluster_run(c, c->world.now_us + 100000);
    if (a->busy || a->r.out.status != TARRY_OK) {
        judge_wrong(&c->judge, "C10: a schedule that lives is not found", plan);
    }
    a = ask(n, TR_OP_SCHEDULE_DROP, plan);
    node_submit(n, a);
    cluster_run(c, c->world.now_us + 1000000);
    before = c->judge.ticks;
    cluster_run(c, c->world.now_us + 4 * PERIOD_US);
    if (a->busy || a->r.out.status != TARRY_OK || c->judge.ticks != before) {
        judge_wrong(&c->judge, "C10: a schedule goes on behind its end", plan);
    }
}

void plans_check(struct cluster *c)
{
    check_ticks(c);
    plans_drop(c);
    if (c->sql == NULL) { /* else it is one row, which moves in one step */
        check_half_moved(c);
        plans_drop(c);
    }
    check_young(c);
    plans_drop(c);
}
