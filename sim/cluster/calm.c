/*
 * The end of a run: no faults any more. Then what was promised for such times is tried (C12: who
 * waits gets a job at once), and all that there is is taken.
 */

#include "base/err.h"
#include "commits.h"
#include "fresh.h"
#include "limits.h"
#include "node.h"
#include "outs.h"
#include "plans.h"
#include "whole.h"

#include <stdlib.h>
#include <string.h>

#define SOON_US UINT64_C(100000) /* a waiter gets a job within so long, without faults */
#define LATER_US UINT64_C(20000000)
#define SETTLED_US UINT64_C(6000000)

/* Somebody waits on one node, and another one pushes: without faults he gets it at once. */
static void check_wake(struct cluster *c)
{
    struct node *a = &c->nodes[cluster_dice(c, NODES)];
    struct node *b = &c->nodes[cluster_dice(c, NODES)];
    unsigned topic = (unsigned)cluster_dice(c, TOPICS);
    uint64_t delay_us = cluster_dice(c, 2) * 700000;
    uint64_t within_us = c->net.mute && a != b ? 61000000 : SOON_US;
    struct ask *w = node_reserve(c, a, 1U << topic, 200000000);

    if (w == NULL) {
        return;
    }
    /* Sometimes while the question is under way: then the wake-up may come before its answer. */
    cluster_run(c, c->world.now_us + (cluster_dice(c, 3) != 0 ? cluster_dice(c, 3000) : 100000));
    if (!w->busy) {
        return; /* there was something left */
    }
    if (cluster_dice(c, 2) == 0) { /* he hears of a job that is due later, and waits on */
        node_push(c, &c->nodes[cluster_dice(c, NODES)], topic, 2000000);
        cluster_run(c, c->world.now_us + 100000);
    }
    if (cluster_dice(c, 2) == 0) { /* the last time that he hears is of another server's clock */
        node_push(c, a, (topic + 1 + (unsigned)cluster_dice(c, TOPICS - 1)) % TOPICS, 0);
        cluster_run(c, c->world.now_us + 20000);
    }
    node_push(c, b, topic, delay_us);
    cluster_run(c, c->world.now_us + delay_us + within_us);
    if (w->busy) {
        judge_wrong(&c->judge, "C12: nobody woke who waits", topic);
    }
}

/* Somebody waits for each topic on one node, and another one pushes to all of them at once. */
static void check_wakes(struct cluster *c)
{
    struct node *a = &c->nodes[cluster_dice(c, NODES)];
    struct node *b = &c->nodes[cluster_dice(c, NODES)];
    struct ask *waits[TOPICS];

    for (unsigned t = 0; t < TOPICS; t++) {
        waits[t] = node_reserve(c, a, 1U << t, 60000000);
    }
    cluster_run(c, c->world.now_us + 100000);
    for (unsigned t = 0; t < TOPICS; t++) {
        node_push(c, b, t, 0);
    }
    cluster_run(c, c->world.now_us + SOON_US);
    for (unsigned t = 0; t < TOPICS; t++) {
        if (waits[t] != NULL && waits[t]->busy) {
            judge_wrong(&c->judge, "C12: of many who wait one was not woken", t);
        }
    }
}

/* Some ask at once, and do not wait: as many jobs are there, and each gets one, though not all of
 * them fit into one answer. */
static void check_full(struct cluster *c)
{
    struct node *a = &c->nodes[cluster_dice(c, NODES)];
    unsigned topic = (unsigned)cluster_dice(c, TOPICS);
    uint64_t handed;

    for (unsigned i = 0; i < 4; i++) {
        node_push(c, a, topic, 0);
    }
    cluster_run(c, c->world.now_us + 50000);
    handed = c->handed;
    for (unsigned i = 0; i < 4; i++) {
        (void)node_reserve(c, a, 1U << topic, 0);
    }
    cluster_run(c, c->world.now_us + SOON_US);
    if (c->handed != handed + 4) {
        judge_wrong(&c->judge, "C12: there was a job for each, and not each got one", topic);
    }
}

/* The first in line wants a tag that no job has: the one behind him gets what comes. */
static void check_tags(struct cluster *c)
{
    struct node *a = &c->nodes[cluster_dice(c, NODES)];
    unsigned topic = (unsigned)cluster_dice(c, TOPICS);
    struct ask *first = node_ask(a, 't');
    struct ask *second;

    if (first == NULL) {
        return;
    }
    first->topics[0] = a->topics[topic];
    first->r.op = TR_OP_RESERVE;
    first->r.topics = first->topics;
    first->r.topic_count = 1;
    first->r.wait_us = 1000000;
    first->r.tag = "none";
    first->r.tag_len = 4;
    node_submit(a, first);
    second = node_reserve(c, a, 1U << topic, 1000000);
    cluster_run(c, c->world.now_us + 100000);
    node_push(c, &c->nodes[cluster_dice(c, NODES)], topic, 0);
    cluster_run(c, c->world.now_us + SOON_US);
    if (second != NULL && second->busy && first->busy) {
        judge_wrong(&c->judge, "C12: a tag that nothing has is in the way", topic);
    }
    cluster_run(c, c->world.now_us + 1000000);
}

/* Who leaves while he is asked for gets nothing: the next one does, at once. */
static void check_surplus(struct cluster *c)
{
    struct node *a = &c->nodes[cluster_dice(c, NODES)];
    unsigned topic = (unsigned)cluster_dice(c, TOPICS);
    struct ask *w;

    node_push(c, a, topic, 0);
    cluster_run(c, c->world.now_us + 20000);
    w = node_reserve(c, a, 1U << topic, 1000000);
    cluster_run(c, c->world.now_us + cluster_dice(c, 4000));
    if (w == NULL || !w->busy) {
        return;
    }
    tr_cluster_abandon(a->engine, &w->r, net_now(&c->net));
    w->busy = false;
    w = node_reserve(c, &c->nodes[cluster_dice(c, NODES)], 1U << topic, 1000000);
    cluster_run(c, c->world.now_us + SOON_US);
    if (w != NULL && w->busy) {
        judge_wrong(&c->judge, "C12: a job came for nobody, and stays there", topic);
    }
}

/* A node dies whose connection had a job for long: when its time is over the others have it. */
static void check_death(struct cluster *c)
{
    struct node *a = &c->nodes[0];
    struct node *b = &c->nodes[1];
    struct ask *w = node_ask(a, 't');

    if (w == NULL) {
        return;
    }
    node_push_for(c, b, 0, 0, 60000000);
    cluster_run(c, c->world.now_us + 50000);
    w->topics[0] = a->topics[0];
    w->r.op = TR_OP_RESERVE;
    w->r.topics = w->topics;
    w->r.topic_count = 1;
    w->r.holder = 1;
    node_submit(a, w);
    cluster_run(c, c->world.now_us + 100000);
    if (w->busy || w->r.out.status != TARRY_OK) {
        return;
    }
    w = node_reserve(c, b, 1, 40000000);
    node_stop(c, a);
    node_start(c, a);
    cluster_run(c, c->world.now_us + 25000000);
    if (w != NULL && w->busy) {
        judge_wrong(&c->judge, "C12: a dead node keeps its jobs", 0);
    }
}

/* A connection has a job and closes: who waits elsewhere gets it at once. */
static void check_close(struct cluster *c)
{
    struct node *a = &c->nodes[cluster_dice(c, NODES)];
    struct node *b = &c->nodes[cluster_dice(c, NODES)];
    unsigned topic = (unsigned)cluster_dice(c, TOPICS);
    uint64_t handed = c->handed;
    struct ask *w;

    node_push(c, b, topic, 0);
    w = node_reserve(c, a, 1U << topic, 1000000);
    cluster_run(c, c->world.now_us + 20000);
    if (w == NULL || w->busy || c->handed != handed + 1 || a->hand_count != 1 ||
        a->hands[0].holder == 0) {
        return; /* it was with a lease */
    }
    w = node_reserve(c, b, 1U << topic, 1000000);
    cluster_run(c, c->world.now_us + 20000);
    node_close(c, a, a->hands[0].holder);
    cluster_run(c, c->world.now_us + SOON_US);
    if (w != NULL && w->busy) {
        judge_wrong(&c->judge, "C12: a closed connection keeps its job", topic);
    }
}

/* A slot is idle for a while, and its server's clock is a minute behind when a job comes there:
 * when the clock is right again the job is not early by that. */
static void check_clock(struct cluster *c)
{
    unsigned topic = (unsigned)cluster_dice(c, 4);
    struct server *s = &c->world.servers[c->world.owner[c->judge.slot_of[topic]]];
    int64_t skew_us = s->skew_us;
    struct ask *w;

    cluster_run(c, c->world.now_us + 2 * LATER_US);
    s->skew_us = -60000000;
    node_push_for(c, &c->nodes[cluster_dice(c, NODES)], topic, LATER_US, LEASE_US);
    cluster_run(c, c->world.now_us + 200000);
    s->skew_us = skew_us;
    w = node_reserve(c, &c->nodes[cluster_dice(c, NODES)], 1U << topic, LATER_US / 2);
    cluster_run(c, c->world.now_us + LATER_US / 2);
    if (w != NULL && !w->busy && w->r.out.status == TARRY_OK) {
        judge_wrong(&c->judge, "C2: a clock that was behind made a job early", topic);
    }
    cluster_run(c, c->world.now_us + LATER_US);
}

/* Does the meta of any slot remember calls of that node? */
static bool is_remembered(struct cluster *c, const char *name)
{
    bool found = false;

    for (unsigned s = 0; s < SLOTS; s++) {
        char key[TR_PLACE_KEY_MAX];
        size_t len = tr_place_key(key, &c->world.layout, s, 0, NULL);
        struct tr_span args[] = {{"HKEYS", 5}, {key, len}};
        struct fake_reply *r = world_exec(
            &c->world,
            &(struct world_call){.server = (unsigned)c->world.owner[s], .args = args, .count = 2});

        for (size_t i = 0; i < r->is.count; i++) {
            found = found || (r->is.items[i].len == 1 + TR_PLACE_NODE_DIGITS &&
                              memcmp(r->is.items[i].at + 1, name, TR_PLACE_NODE_DIGITS) == 0);
        }
        fake_reply_free(r);
    }
    return found;
}

/* What a dead node left goes within hours; what a living one may need again stays. */
static void check_sweep(struct cluster *c)
{
    struct node *a = &c->nodes[0];
    char name[sizeof a->name];

    memcpy(name, a->name, sizeof name);
    node_push(c, a, 0, 0);
    node_push(c, &c->nodes[1], 0, 0);
    cluster_run(c, c->world.now_us + 100000);
    node_stop(c, a);
    node_start(c, a);
    cluster_flow(c, c->world.now_us + UINT64_C(3) * 3600000000);
    if (is_remembered(c, name)) {
        judge_wrong(&c->judge, "C9: a dead node is remembered for ever", 0);
    }
    if (!is_remembered(c, c->nodes[1].name)) {
        judge_wrong(&c->judge, "answers of a living node are gone", 1);
    }
}

/* Leases that ran out come to who waits, and so does all else. */
static void drain_all(struct cluster *c)
{
    unsigned quiet = 0;

    for (unsigned round = 0; round < 2000 && quiet < 3 && c->judge.wrong[0] == '\0'; round++) {
        uint64_t before = c->handed;

        for (unsigned t = 0; t < TOPICS; t++) {
            (void)node_reserve(c, &c->nodes[t % NODES], 1U << t, 300000);
        }
        cluster_run(c, c->world.now_us + 400000);
        for (unsigned i = 0; i < NODES; i++) {
            struct node *n = &c->nodes[i];

            while (n->hand_count > 0) {
                node_end_job(c, n, n->hands[--n->hand_count], TR_OP_DELETE);
            }
        }
        quiet = c->handed == before ? quiet + 1 : 0;
        if (quiet > 0) {
            cluster_run(c, c->world.now_us + LEASE_US);
        }
    }
}

/* Is it in the list of all topics? */
static bool listed(struct cluster *c, unsigned topic)
{
    struct server *s = &c->world.servers[c->world.owner[META]];
    struct tr_span args[] = {{"HGET", 4}, {"tarry:{meta}:topics", 19}, {cluster_topic(topic), 2}};
    struct fake_call call = {.db = s->db, .args = args, .count = 3};
    struct fake_reply *r = fake_plain(c->world.lua, &call);
    bool is = r->is.event == TR_REDIS_LIST && r->is.count == 1 && r->is.items[0].at != NULL;

    fake_reply_free(r);
    return is;
}

/* A topic that nobody needs is forgotten, when housekeeping comes there; one that is used at that
 * very moment stays in the list. */
static void check_forget(struct cluster *c)
{
    for (unsigned i = 0; i < 2 && c->judge.wrong[0] == '\0'; i++) {
        const unsigned *seen = i == 0 ? &c->judge.marks : &c->judge.removes;
        unsigned before = *seen;
        uint64_t until_us;

        node_push(c, &c->nodes[cluster_dice(c, NODES)], PLAIN, 0);
        cluster_run(c, c->world.now_us + 100000);
        drain_all(c);
        until_us = c->world.now_us + 400000000;

        while (*seen == before && c->world.now_us < until_us) {
            cluster_run(c, c->world.now_us + 2000);
        }
        if (*seen == before) {
            judge_wrong(&c->judge, "C9: a topic is never forgotten", PLAIN);
            return;
        }
        cluster_run(c, c->world.now_us + cluster_dice(c, 8000));
        node_push(c, &c->nodes[cluster_dice(c, NODES)], PLAIN, 5000000);
        cluster_run(c, c->world.now_us + 200000);
        if (!listed(c, PLAIN)) {
            judge_wrong(&c->judge, "C7: a topic that has jobs is not in the list", PLAIN);
        }
        cluster_run(c, c->world.now_us + 5000000);
        drain_all(c);
    }
}

/* Those that expired are dead: they come back, and may expire again while others are taken. */
static uint64_t kick_all(struct cluster *c)
{
    uint64_t before = c->kicked;

    for (unsigned t = 0; t < TOPICS; t++) {
        struct node *n = &c->nodes[t % NODES];
        struct ask *a = node_ask(n, 'x');

        if (a != NULL) {
            a->r.op = TR_OP_KICK;
            a->r.topic = n->topics[t];
            a->r.count = 1000;
            node_submit(n, a);
        }
    }
    cluster_run(c, c->world.now_us + 200000);
    return c->kicked - before;
}

/* Whoever drains finds jobs that have expired, and their rows say so a little later: so more than
 * once there is nothing to kick. */
static void drain_dead(struct cluster *c)
{
    unsigned idle = 0;

    for (unsigned i = 0; i < 100 && idle < 3 && c->judge.wrong[0] == '\0'; i++) {
        drain_all(c);
        idle = kick_all(c) == 0 ? idle + 1 : 0;
    }
}

/* No faults any more, but clocks that differ. */
static void heal_servers(struct cluster *c)
{
    for (unsigned s = 0; s < SERVERS; s++) {
        c->world.servers[s].skew_us =
            (int64_t)cluster_dice(c, 2) * (int64_t)cluster_dice(c, 3000000);
        c->world.servers[s].loading_until_us = 0;
        c->world.servers[s].full_until_us = 0;
    }
}

/* What takes long is not tried each time. */
static void check_rarely(struct cluster *c)
{
    if (cluster_dice(c, 4) == 0) {
        check_forget(c);
    }
    if (cluster_dice(c, 4) == 0) {
        whole_check(c, &c->nodes[cluster_dice(c, NODES)]);
        drain_all(c);
    }
    if (cluster_dice(c, 4) == 0 && c->judge.wrong[0] == '\0') {
        plans_check(c);
        drain_all(c);
    }
    if (cluster_dice(c, 4) == 0 && c->judge.wrong[0] == '\0') {
        outs_check(c);
    }
    if (cluster_dice(c, 4) == 0) {
        check_death(c);
        drain_all(c);
    }
    if (cluster_dice(c, 4) == 0) {
        check_clock(c);
        drain_all(c);
    }
    if (cluster_dice(c, 40) == 0) { /* hours */
        check_sweep(c);
        drain_all(c);
    }
    if (cluster_dice(c, 4) == 0) {
        c->net.mute = true;
        check_wake(c);
        c->net.mute = false;
    }
}

/* The same with a database. */
static void check_rows(struct cluster *c)
{
    if (cluster_dice(c, 4) == 0 && c->judge.wrong[0] == '\0') {
        plans_check(c);
        drain_all(c);
    }
    if (cluster_dice(c, 4) == 0 && c->judge.wrong[0] == '\0') {
        outs_check(c);
    }
    if (cluster_dice(c, 4) == 0 && c->judge.wrong[0] == '\0') {
        check_death(c);
        drain_all(c);
    }
}

/* Of a database: lists, counts, rows that are loaded while others come. */
static void check_index(struct cluster *c)
{
    if (c->judge.wrong[0] == '\0') {
        whole_check(c, &c->nodes[cluster_dice(c, NODES)]);
        commits_counts(c);
        drain_all(c);
    }
    for (unsigned i = 0; i < 2 && c->judge.wrong[0] == '\0'; i++) {
        commits_race(c);
        commits_stall(c);
        drain_all(c);
        drain_all(c);
    }
    for (unsigned i = 0; i < 6 && c->judge.wrong[0] == '\0'; i++) {
        fresh_race(c);
        drain_all(c);
    }
    for (unsigned i = 0; i < 3 && c->rare && c->judge.wrong[0] == '\0'; i++) {
        fresh_cut(c);
        drain_all(c);
    }
}

void cluster_drain(struct cluster *c)
{
    uint32_t names[NODES];

    c->net.calm = true;
    c->greedy = false;
    heal_servers(c);
    if (c->sql != NULL) {
        commits_calm(c);
    }
    for (unsigned i = 0; i < NODES; i++) {
        c->nodes[i].mem.fail_at = 0;
    }
    cluster_run(c, c->world.now_us + SETTLED_US); /* calls that were lost are given up, */
    for (unsigned i = 0; i < NODES; i++) {
        names[i] = (uint32_t)(strtoull(c->nodes[i].name, NULL, 16) >> 32);
    }
    judge_calm(&c->judge, names, NODES);
    limits_off(c);
    cluster_run(c, c->world.now_us + 30000000); /* leases, moves, dead connections end */
    if (c->sql != NULL) {
        commits_check(c);
    }
    for (unsigned i = 0; i < NODES; i++) {
        c->nodes[i].hand_count = 0;
        for (uint64_t h = 1; h <= HOLDERS; h++) {
            node_close(c, &c->nodes[i], h);
        }
    }
    plans_drop(c);
    drain_dead(c);
    for (unsigned i = 0; i < 8 && c->judge.wrong[0] == '\0'; i++) {
        check_wake(c);
    }
    drain_all(c);
    check_wakes(c);
    drain_all(c);
    check_full(c);
    drain_all(c);
    for (unsigned i = 0; i < 3 && c->judge.wrong[0] == '\0'; i++) {
        check_surplus(c);
        drain_all(c);
        check_close(c);
        check_tags(c);
        drain_all(c);
    }
    if (c->sql == NULL) {
        check_rarely(c);
    } else {
        check_rows(c);
        check_index(c);
    }
    drain_all(c);
    if (c->judge.wrong[0] == '\0') {
        judge_end(&c->judge);
    }
}
