/*
 * Without faults, with a database: one node has looked for a topic before it was there, and is the
 * one that reserves; another one makes it and pushes. Its jobs come out when they are due, whoever
 * was the first to raise `loaded`.
 *
 * And one that is cut off from Redis goes on to push, and has to drop images.
 */

#include "fresh.h"

#include "base/err.h"
#include "node.h"

#include <stdio.h>
#include <string.h>

enum { JOBS = 4, NAME = 8, CUTS = 14 };

#define LATE_US UINT64_C(150000)
#define CUT_US UINT64_C(3400000)   /* longer than a call is tried; its session goes on */
#define AFTER_US UINT64_C(6000000) /* less than hot_window */

/* The topic's number on this node. */
static uint32_t hold(struct node *n, const char *name)
{
    struct ask *a = node_ask(n, 'x');

    if (a == NULL) {
        return 0;
    }
    a->r.op = TR_OP_HOLD_TOPIC;
    a->r.name = name;
    a->r.name_len = strlen(name);
    a->r.hold = TR_HOLD_USE;
    node_submit(n, a);
    return a->r.out.status == TARRY_OK ? a->r.out.topic : 0;
}

/* It is looked for, and is not there. */
static void look(struct cluster *c, struct node *n, uint32_t topic)
{
    struct ask *a = node_ask(n, 'x');

    if (a != NULL) {
        a->r.op = TR_OP_STAT_TOPIC;
        a->r.topic = topic;
        node_submit(n, a);
        cluster_flow(c, c->world.now_us + 50000);
    }
}

static void push(struct cluster *c, struct node *n, uint32_t topic, uint64_t delay_us)
{
    struct ask *a = c->judge.count < JOBS_MAX ? node_ask(n, 'p') : NULL;

    if (a == NULL) {
        return;
    }
    a->serial = judge_new(&c->judge, PLAIN, 0);
    a->r.op = TR_OP_PUSH;
    a->r.topic = topic;
    a->r.delay_us = delay_us;
    a->r.has_retries = true;
    a->r.retries = -1;
    a->r.ttr_us = 60000000;
    a->r.body = (const uint8_t *)a->body;
    a->r.body_len = (size_t)snprintf(a->body, sizeof a->body, "%u", a->serial);
    node_submit(n, a);
}

static struct ask *reserve(struct node *n, uint32_t topic)
{
    struct ask *a = n->hand_count + ASKS < HANDS ? node_ask(n, 't') : NULL;

    if (a != NULL) {
        a->r.op = TR_OP_RESERVE;
        a->topics[0] = topic;
        a->r.topics = a->topics;
        a->r.topic_count = 1;
        a->r.wait_us = 20000000;
        node_submit(n, a);
    }
    return a;
}

void fresh_race(struct cluster *c)
{
    struct node *taker = &c->nodes[cluster_dice(c, NODES)];
    struct node *maker = &c->nodes[(taker->number + 1) % NODES];
    struct ask *waits[JOBS];
    char name[NAME];
    uint32_t takes, makes;
    uint64_t last_us = 0;

    (void)snprintf(name, sizeof name, "f%06u", (unsigned)cluster_dice(c, 1000000));
    takes = hold(taker, name);
    makes = hold(maker, name);
    if (takes == 0 || makes == 0) {
        return;
    }
    look(c, taker, takes);
    for (unsigned i = 0; i < JOBS; i++) {
        uint64_t delay_us = 300000 + cluster_dice(c, 1500000);

        push(c, maker, makes, delay_us);
        last_us = c->world.now_us + delay_us > last_us ? c->world.now_us + delay_us : last_us;
        cluster_flow(c, c->world.now_us + cluster_dice(c, 8000));
    }
    for (unsigned i = 0; i < JOBS; i++) {
        waits[i] = reserve(taker, takes);
    }
    cluster_flow(c, last_us + LATE_US);
    for (unsigned i = 0; i < JOBS && c->judge.wrong[0] == '\0'; i++) {
        if (waits[i] != NULL && waits[i]->busy && waits[i]->r.op == TR_OP_RESERVE) {
            judge_wrong(&c->judge, "C12: a job of a new topic is late", i);
        }
    }
}

void fresh_cut(struct cluster *c)
{
    struct node *cut = &c->nodes[cluster_dice(c, NODES)];
    struct node *taker = &c->nodes[(cut->number + 1) % NODES];
    unsigned topic = 1; /* which has no limits */
    struct ask *waits[CUTS];

    for (unsigned i = 0; i < CUTS; i++) {
        waits[i] = node_reserve(c, taker, 1U << topic, 20000000);
    }
    cluster_flow(c, c->world.now_us + 100000);
    net_cut(&c->net, cut->number, true);
    for (unsigned i = 0; i < CUTS; i++) {
        node_push_for(c, cut, topic, AFTER_US, 60000000);
        cluster_flow(c, c->world.now_us + 5000);
    }
    cluster_flow(c, c->world.now_us + CUT_US);
    net_cut(&c->net, cut->number, false);
    cluster_flow(c, c->world.now_us + AFTER_US);
    for (unsigned i = 0; i < CUTS && c->judge.wrong[0] == '\0'; i++) {
        if (waits[i] != NULL && waits[i]->busy && waits[i]->kind == 't') {
            judge_wrong(&c->judge, "C12: a job is late since its image was dropped", topic);
        }
    }
}
