/*
 * Three nodes with clients of three kinds: some push, some reserve with a lease, and some are
 * connections, whose jobs go back when they close. What each is told goes to the judge, and so does
 * each script as it runs (net.c).
 *
 * A request that cannot be answered within its patience is told so; the judge then knows whether it
 * was done by chance, and whether "nothing was done" was true.
 */

#include "node.h"

#include "base/err.h"
#include "commits.h"
#include "limits.h"
#include "many.h"
#include "outs.h"
#include "plans.h"
#include "whole.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBER_US UINT64_C(2000000) /* so that slots change their owners in the midst of it all */
#define LONG_US UINT64_C(20000000)  /* the lease of some: it is noticed if nobody has it */
#define FORGET_US UINT64_C(1500000)

uint64_t cluster_dice(struct cluster *c, uint64_t below)
{
    return tr_rng_below(&c->world.rng, below);
}

const char *cluster_topic(unsigned topic)
{
    static const char *const names[TOPICS] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};

    return names[topic];
}

static unsigned topic_slot(const struct cluster *c, unsigned topic)
{
    return tr_place_slot(&c->world.layout, cluster_topic(topic), 2, 0);
}

/* ---- processes ---- */

static void add_stat(struct cluster *c, const struct node *n)
{
    struct tr_cluster_stat s;

    tr_cluster_stat(n->engine, &s);
    c->stat.calls += s.calls;
    c->stat.repeats += s.repeats;
    c->stat.redirects += s.redirects;
    c->stat.losses += s.losses;
    c->stat.batches += s.batches;
    c->stat.items += s.items;
    c->stat.takes += s.takes;
    c->stat.empty += s.empty;
    c->stat.wakes_sent += s.wakes_sent;
    c->stat.wakes_heard += s.wakes_heard;
    c->stat.given_back += s.given_back;
    c->stat.tended += s.tended;
}

static void hold_topics(struct node *n)
{
    for (unsigned i = 0; i < TOPICS; i++) {
        struct ask *a = &n->asks[0];

        TR_CHECK(!a->busy);
        a->r.op = TR_OP_HOLD_TOPIC;
        a->r.name = cluster_topic(i);
        a->r.name_len = 2;
        a->r.hold = TR_HOLD_WATCH;
        a->kind = 'x';
        tr_cluster_submit(n->engine, &a->r, net_now(&n->of->net));
        TR_CHECK(a->r.out.status == TARRY_OK);
        n->topics[i] = a->r.out.topic;
    }
}

/* In this world all wake-ups are where the store's own keys are: not in a hash slot that moves. */
static uint64_t new_name(struct cluster *c, struct node *n)
{
    bool taken = true;
    uint64_t name = 0;

    while (taken) {
        char key[TR_PLACE_KEY_MAX];
        unsigned hash;

        name = tr_rng_next(&c->world.rng) | 1;
        (void)snprintf(n->name, sizeof n->name, "%016llx", (unsigned long long)name);
        hash = tr_place_hash_slot(key, tr_place_wake_key(key, &c->world.layout, n->name));
        taken = false;
        for (unsigned s = 0; s < SLOTS; s++) {
            taken = taken || world_hash_slot(s) == hash;
        }
    }
    return name;
}

void node_start(struct cluster *c, struct node *n)
{
    static const char *const servers[] = {"s0:1", "s1:1"};
    struct tr_cluster_config config;
    struct tr_coord_port coord;

    tr_mem_init(&n->mem, 0);
    tr_cluster_config_init(&config, &n->mem);
    config.slots = SLOTS;
    config.servers = servers;
    config.server_count = 2;
    config.node = new_name(c, n);
    (void)snprintf(n->uuid, sizeof n->uuid, "%032llx", (unsigned long long)config.node);
    config.uuid = n->uuid;
    config.patience_us = 2500000;
    config.lease_us = MEMBER_US;
    config.ctx = n;
    config.outlet = outs_told;
    config.take_bytes = c->judge.take_bytes;
    config.forget_us = FORGET_US;
    config.flight_calls = c->judge.take_bytes < 10 ? 2 : 256;
    config.wait_replicas = c->judge.waits;
    config.port = net_port(&c->net, n->number);
    coord = zoo_port(&c->zoo, n->number, config.node);
    config.coord = c->zoo.used ? &coord : NULL;
    config.session_us = ZOO_SESSION_US;
    if (c->sql != NULL) {
        commits_start(c, n, &config);
    }
    net_start(&c->net, n->number, n->name);
    TR_CHECK(tr_cluster_new(&config, net_now(&c->net), &n->engine) == TARRY_OK);
    c->net.ends[n->number].ear = tr_cluster_ear(n->engine);
    zoo_listen(&c->zoo, n->number, tr_cluster_coord_ear(n->engine));
    n->turn_us = c->world.now_us;
    n->hand_count = 0;
    n->has_outlet = false;
    for (unsigned i = 0; i < ASKS; i++) {
        n->asks[i] = (struct ask){.node = n};
        n->asks[i].r.ctx = &n->asks[i];
        n->asks[i].r.done = node_done;
    }
    hold_topics(n);
}

/* What was asked is not known to have been done, nor that it was not. */
void node_stop(struct cluster *c, struct node *n)
{
    add_stat(c, n);
    many_gone(c, n->number);
    for (unsigned i = 0; i < ASKS; i++) {
        c->pausing = c->pausing && (!n->asks[i].busy || n->asks[i].kind != 's');
        if (n->asks[i].busy && strchr("tsxmlg", n->asks[i].kind) == NULL) {
            judge_failed(&c->judge, n->asks[i].serial, n->asks[i].kind, true);
        }
    }
    n->mem.fail_at = 0;
    zoo_gone(&c->zoo, n->number);
    if (c->sql != NULL) {
        commits_stop(c, n);
    }
    tr_cluster_free(n->engine);
    n->engine = NULL;
    if (n->mem.used_bytes != 0) {
        judge_wrong(&c->judge, "memory is left", n->number);
    }
}

enum { OPEN_ROUNDS = 20 };

static bool all_open(const struct cluster *c)
{
    bool all = true;

    for (unsigned i = 0; i < NODES; i++) {
        all = all && tr_cluster_stage(c->nodes[i].engine) == TR_ENGINE_OPEN;
    }
    return all;
}

void cluster_init(struct cluster *c, uint64_t seed, struct fake_lua *lua, bool sql)
{
    memset(c, 0, sizeof *c);
    world_init(&c->world, seed, lua);
    c->judge.world = &c->world;
    net_init(&c->net, &c->world, &c->judge);
    zoo_init(&c->zoo, &c->world, &c->judge, seed % 2 == 1);
    c->net.zoo = &c->zoo;
    c->greedy = seed % 4 == 0;
    c->judge.take_bytes = seed % 3 == 0 ? 5 : 512 * 1024;
    c->judge.waits = seed % 5 == 0;
    for (unsigned t = 0; t < TOPICS; t++) {
        c->judge.slot_of[t] = topic_slot(c, t);
    }
    if (sql) {
        commits_init(c, seed);
    }
    for (unsigned i = 0; i < NODES; i++) {
        c->nodes[i].number = i;
        c->nodes[i].of = c;
        node_start(c, &c->nodes[i]);
    }
    /* The store is made before anything goes wrong: else there may be two of them. */
    c->net.calm = true;
    for (unsigned i = 0; i < OPEN_ROUNDS && !all_open(c); i++) {
        cluster_run(c, c->world.now_us + 50000);
    }
    limits_set(c);
    for (unsigned s = 0; s < SERVERS; s++) {
        world_sync(&c->world, s);
    }
    c->net.calm = false;
}

/* All nodes live, and nothing goes wrong any more. */
static void check_owners(struct cluster *c)
{
    unsigned owned = 0;

    for (unsigned i = 0; i < NODES; i++) {
        struct tr_cluster_stat s;

        tr_cluster_stat(c->nodes[i].engine, &s);
        owned += s.slots_owned;
        if (s.nodes != NODES) {
            judge_wrong(&c->judge, "C9: a node does not see all of them", i);
        }
    }
    if (owned != SLOTS) {
        judge_wrong(&c->judge, "C9: slots that nobody or two own", owned);
    }
}

void cluster_stop(struct cluster *c)
{
    if (c->judge.wrong[0] == '\0') {
        check_owners(c);
    }
    for (unsigned i = 0; i < NODES; i++) {
        node_stop(c, &c->nodes[i]);
    }
}

void cluster_fini(struct cluster *c)
{
    net_fini(&c->net);
    commits_fini(c);
    world_fini(&c->world);
}

/* ---- answers ---- */

static bool nothing_done(int status)
{
    return status == TARRY_EAWAY || status == TARRY_ENOSPC || status == TARRY_ENOMEM;
}

static void taken(struct cluster *c, struct node *n, struct ask *a)
{
    const struct tr_job_view *job = &a->r.out.job;
    struct tr_span body = {(const char *)job->body, job->body_len};
    char text[16];

    c->handed++;
    if (job->body_len < sizeof text) {
        memcpy(text, body.at, body.len);
        text[body.len] = '\0';
        judge_claimed(&c->judge, judge_of(&c->judge, job->id, (struct tr_span){text, body.len}),
                      job->lease);
    }
    if (n->hand_count == HANDS || job->body_len >= sizeof text) {
        return; /* its consumer is gone */
    }
    n->hands[n->hand_count++] = (struct hand){
        .serial = judge_of(&c->judge, job->id, (struct tr_span){text, body.len}),
        .id = job->id,
        .holder = a->r.holder,
        .claim = {job->lease, job->reserves},
        .from_us = c->world.now_us + (cluster_dice(c, 4) == 0 ? LEASE_US + 500000 : 0)};
}

static void told(struct cluster *c, struct node *n, struct ask *a)
{
    int status = a->r.out.status;

    c->answers++;
    if (a->kind == 'x') {
        c->kicked += a->r.op == TR_OP_KICK && status == TARRY_OK ? a->r.out.number : 0;
        return;
    }
    if (a->kind == 'm') {
        many_told(c, a);
        return;
    }
    if (a->kind == 'l' || a->kind == 'g') {
        whole_told(c, a);
        return;
    }
    if (a->kind == 's') {
        if (status == TARRY_OK && a->failovers == c->world.failovers && c->sql == NULL) {
            judge_paused(&c->judge, a->serial, a->policy.paused_until_us);
        }
        return;
    }
    if (a->kind == 't') {
        if (status == TARRY_OK) {
            taken(c, n, a);
        }
        c->vain += status != TARRY_OK;
        return;
    }
    if (nothing_done(status) || status == TARRY_EUNSURE) {
        c->refusals += nothing_done(status);
        c->unknowns += status == TARRY_EUNSURE;
        judge_failed(&c->judge, a->serial, a->kind, status == TARRY_EUNSURE);
    } else if (a->kind != 'p') {
        if (status != TARRY_OK && status != TARRY_ENOTFOUND && status != TARRY_ESTATE) {
            judge_wrong(&c->judge, tarry_errname(status), a->serial);
        }
        judge_edited(&c->judge, a->serial, a->kind, &a->claim, status);
    } else if (status == TARRY_OK && a->r.out.existed && a->r.conflict == TR_CONFLICT_KEEP) {
        judge_kept(&c->judge, a->serial);
    } else if (status == TARRY_OK) {
        judge_pushed(&c->judge, a->serial, a->r.out.job.id);
    } else if ((status == TARRY_EEXISTS || status == TARRY_ESTATE) && a->r.key_len > 0) {
        judge_failed(&c->judge, a->serial, 'p', false); /* nothing was done */
    } else {
        judge_wrong(&c->judge, tarry_errname(status), a->serial);
    }
}

void node_done(struct tr_req *r)
{
    struct ask *a = r->ctx;

    a->busy = false;
    a->node->of->pausing = a->node->of->pausing && a->kind != 's';
    told(a->node->of, a->node, a);
}

/* ---- what clients ask ---- */

struct ask *node_ask(struct node *n, char kind)
{
    for (unsigned i = 0; i < ASKS; i++) {
        struct ask *a = &n->asks[i];

        if (!a->busy) {
            a->r = (struct tr_req){.ctx = a, .done = node_done};
            a->kind = kind;
            return a;
        }
    }
    return NULL;
}

void node_submit(struct node *n, struct ask *a)
{
    a->busy = true;
    tr_cluster_submit(n->engine, &a->r, net_now(&n->of->net));
    n->turn_us = n->of->world.now_us;
}

void node_push_for(struct cluster *c, struct node *n, unsigned topic, uint64_t delay_us,
                   uint64_t ttr_us)
{
    struct ask *a = c->judge.count < JOBS_MAX ? node_ask(n, 'p') : NULL;

    if (a == NULL) {
        return;
    }
    a->serial = judge_new(&c->judge, topic, topic_slot(c, topic));
    a->r.op = TR_OP_PUSH;
    a->r.topic = n->topics[topic];
    a->r.priority = (uint32_t)cluster_dice(c, 3);
    a->r.delay_us = delay_us;
    a->r.has_retries = true;
    a->r.retries = -1;
    a->r.ttr_us = ttr_us;
    a->r.beanstalk = topic % 2 != 0;
    if (!c->net.calm && cluster_dice(c, 6) == 0) {
        a->r.ttl_us = 500000 + cluster_dice(c, 3000000);
        c->judge.jobs[a->serial].expires = true;
    }
    if (!c->net.calm && cluster_dice(c, 4) == 0) {
        a->r.key = a->key;
        a->r.key_len = (size_t)snprintf(a->key, sizeof a->key, "k%u", (unsigned)cluster_dice(c, 4));
        a->r.conflict = (enum tr_conflict)cluster_dice(c, TR_CONFLICT_COUNT);
    }
    a->r.body = (const uint8_t *)a->body;
    a->r.body_len = (size_t)snprintf(a->body, sizeof a->body, "%u", a->serial);
    node_submit(n, a);
}

void node_push(struct cluster *c, struct node *n, unsigned topic, uint64_t delay_us)
{
    node_push_for(c, n, topic, delay_us,
                  c->net.calm || cluster_dice(c, 6) != 0 ? LEASE_US : LONG_US);
}

struct ask *node_reserve(struct cluster *c, struct node *n, unsigned topics, uint64_t wait_us)
{
    struct ask *a = n->hand_count + ASKS < HANDS ? node_ask(n, 't') : NULL;

    if (a == NULL) {
        return NULL;
    }
    a->r.op = TR_OP_RESERVE;
    for (unsigned i = 0; i < TOPICS; i++) {
        if ((topics >> i & 1) != 0) {
            a->topics[a->r.topic_count++] = n->topics[i];
        }
    }
    a->r.topics = a->topics;
    a->r.wait_us = wait_us;
    a->r.holder = cluster_dice(c, 3) == 0 ? 1 + cluster_dice(c, HOLDERS) : 0;
    a->r.warn_us = a->r.holder != 0 ? 1000000 : 0;
    node_submit(n, a);
    return a;
}

/* A connection asks for one by its id. */
static void reserve_one(struct cluster *c, struct node *n)
{
    struct ask *a = n->hand_count + ASKS < HANDS && c->judge.count > 0 ? node_ask(n, 't') : NULL;

    if (a != NULL) {
        a->r.op = TR_OP_RESERVE_JOB;
        a->r.id = c->judge.jobs[cluster_dice(c, c->judge.count)].id;
        a->r.holder = 1 + cluster_dice(c, HOLDERS);
        node_submit(n, a);
    }
}

/* The connection closes: its jobs are gone from here. */
void node_close(struct cluster *c, struct node *n, uint64_t holder)
{
    struct ask *a = node_ask(n, 'x');

    (void)c;
    if (a == NULL) {
        return;
    }
    for (unsigned i = 0; i < ASKS; i++) { /* as a port does: what it waits for is left first */
        struct ask *other = &n->asks[i];

        if (other->busy && other->kind == 't' && other->r.holder == holder) {
            tr_cluster_abandon(n->engine, &other->r, net_now(&n->of->net));
            other->busy = false;
        }
    }
    for (unsigned i = n->hand_count; i > 0; i--) {
        if (n->hands[i - 1].holder == holder) {
            n->hands[i - 1] = n->hands[--n->hand_count];
        }
    }
    a->r.op = TR_OP_CLOSE;
    a->r.holder = holder;
    node_submit(n, a);
}

void node_end_job(struct cluster *c, struct node *n, struct hand h, enum tr_op op)
{
    struct ask *a = node_ask(n, op == TR_OP_DELETE ? 'A' : 'R');

    if (a == NULL) {
        return;
    }
    a->r.op = op;
    a->r.id = h.id;
    a->r.holder = h.holder;
    a->r.lease = h.holder == 0 ? h.claim.lease : 0;
    a->r.keep_priority = true;
    a->r.delay_us = op == TR_OP_RELEASE && cluster_dice(c, 2) != 0 ? cluster_dice(c, 2000000) : 0;
    a->serial = h.serial;
    a->claim = h.claim;
    if (op == TR_OP_DELETE && h.holder != 0) {
        a->kind = 'a';
        c->judge.jobs[h.serial].ending = true; /* it may be deleted though its lease is lost */
    }
    if (h.claim.lease == 0) {
        a->kind = 'C';
        a->r.force = true;
        c->judge.jobs[h.serial].ending = true; /* an ack may find nothing from now on */
    }
    node_submit(n, a);
}

static void end_some(struct cluster *c, struct node *n)
{
    static const enum tr_op ops[] = {TR_OP_DELETE,  TR_OP_DELETE, TR_OP_DELETE,
                                     TR_OP_RELEASE, TR_OP_TOUCH,  TR_OP_RETURN};
    unsigned i;
    struct hand h;

    if (n->hand_count == 0) {
        return;
    }
    i = (unsigned)cluster_dice(c, n->hand_count);
    h = n->hands[i];
    if (h.from_us > c->world.now_us) {
        return;
    }
    n->hands[i] = n->hands[--n->hand_count];
    if (world_dice(&c->world, 8)) {
        return; /* the consumer is gone: its lease ends by itself */
    }
    if (world_dice(&c->world, 10)) {
        h.claim.lease = 0; /* a cancel, by somebody else */
        h.holder = 0;
        node_end_job(c, n, h, TR_OP_DELETE);
    } else {
        node_end_job(c, n, h, ops[cluster_dice(c, sizeof ops / sizeof ops[0])]);
    }
}

static void leave_some(struct cluster *c, struct node *n)
{
    struct ask *a = &n->asks[cluster_dice(c, ASKS)];

    if (a->busy && a->kind == 't') {
        tr_cluster_abandon(n->engine, &a->r, net_now(&c->net));
        a->busy = false;
    }
}

static void look(struct cluster *c, struct node *n)
{
    static const enum tr_op ops[] = {TR_OP_STAT, TR_OP_STAT_TOPIC, TR_OP_PEEK_FIRST, TR_OP_PEEK};
    struct ask *a = node_ask(n, 'x');

    if (a == NULL) {
        return;
    }
    a->r.op = ops[cluster_dice(c, sizeof ops / sizeof ops[0])];
    a->r.topic = n->topics[cluster_dice(c, TOPICS)];
    a->r.state = TR_DELAYED + (enum tr_job_state)cluster_dice(c, 2);
    a->r.id = c->judge.count > 0 ? c->judge.jobs[cluster_dice(c, c->judge.count)].id : 0;
    node_submit(n, a);
}

/* No hand-outs of a topic for a while; whoever changes that is the last. */
static void pause_topic(struct cluster *c, struct node *n, unsigned topic)
{
    struct ask *a = node_ask(n, 's');

    if (a == NULL || c->pausing) {
        return;
    }
    c->pausing = true;
    c->judge.paused_us[topic] = 0; /* until it is answered the old one may end */
    a->serial = topic;
    a->failovers = c->world.failovers;
    a->policy = tr_policy_default();
    a->policy.given = TR_POLICY_BIT(PAUSED);
    a->policy.paused = TR_PAUSED_OUT;
    a->policy.paused_until_us = c->world.now_us + 1 + cluster_dice(c, 2000000);
    a->r.op = TR_OP_POLICY;
    a->r.topic = n->topics[topic];
    a->r.policy = &a->policy;
    a->r.fields = TR_POLICY_BIT(PAUSED);
    node_submit(n, a);
}

void cluster_kill(struct cluster *c, struct node *n)
{
    node_stop(c, n);
    node_start(c, n);
}

static void client(struct cluster *c, struct node *n)
{
    unsigned topic = (unsigned)cluster_dice(c, TOPICS);

    if (cluster_dice(c, 30) == 0) {
        plans_client(c, n);
    }
    if (cluster_dice(c, 200) == 0) {
        outs_client(c, n);
    }
    switch (cluster_dice(c, 12)) {
    case 0:
    case 1:
    case 2:
        for (unsigned i = (unsigned)cluster_dice(c, 3) + 1; i > 0; i--) {
            node_push(c, n, topic, cluster_dice(c, 2) != 0 ? cluster_dice(c, 4000000) : 0);
        }
        break;
    case 3:
    case 4:
        (void)node_reserve(c, n, 1U << topic,
                           cluster_dice(c, 2) != 0 ? cluster_dice(c, 3000000) : 0);
        break;
    case 5:
        (void)node_reserve(c, n, (unsigned)cluster_dice(c, 255) + 1,
                           cluster_dice(c, 2) != 0 ? cluster_dice(c, 3000000) : 0);
        break;
    case 6:
        leave_some(c, n);
        reserve_one(c, n);
        break;
    case 7:
        if (cluster_dice(c, 8) == 0) {
            node_close(c, n, 1 + cluster_dice(c, HOLDERS));
        }
        if (cluster_dice(c, 6) == 0) {
            many_ask(c, n);
        }
        if (cluster_dice(c, 20) == 0) {
            whole_purge(c, n);
        }
        break;
    case 8:
        if (cluster_dice(c, 4) == 0 && topic != PLAIN) {
            pause_topic(c, n, topic);
        } else if (cluster_dice(c, 3) == 0) {
            whole_list(c, n);
        } else {
            look(c, n);
        }
        break;
    default:
        end_some(c, n);
        break;
    }
}

/* ---- time ---- */

/* A failover of Redis excuses, but where a database has the truth. */
static void undo(struct cluster *c, unsigned server)
{
    if (c->sql == NULL) {
        judge_undone(&c->judge, server);
    }
}

/* What the world does to servers, every few milliseconds. */
static void fate(struct cluster *c)
{
    struct world *w = &c->world;
    unsigned server = (unsigned)cluster_dice(c, SERVERS);
    unsigned slot = (unsigned)cluster_dice(c, SLOTS);
    struct node *n = &c->nodes[cluster_dice(c, NODES)];

    if (world_dice(w, 8)) {
        world_sync(w, server);
    }
    if (c->sql != NULL) {
        commits_fate(c);
    }
    if (world_dice(w, 400)) {
        undo(c, server);
        world_failover(w, server);
        net_break(&c->net, server);
    }
    if (world_dice(w, 400)) {
        undo(c, server);
        world_demote(w, server);
    }
    if (world_dice(w, 300)) {
        world_begin_move(w, slot);
    }
    if (world_dice(w, 300)) {
        w->servers[server].loading_until_us = w->now_us + cluster_dice(c, 400000);
    }
    if (world_dice(w, 200)) {
        w->servers[server].full_until_us = w->now_us + cluster_dice(c, 1500000);
    }
    if (world_dice(w, 200)) {
        w->servers[server].skew_us = (int64_t)cluster_dice(c, 8000000) - 4000000;
    } else if (world_dice(w, 100)) {
        w->servers[server].skew_us = 0;
    }
    if (world_dice(w, 300)) {
        w->servers[server].scripts = 0;
    }
    if (c->greedy && world_dice(w, 20)) {
        n->mem.fail_at = n->mem.calls + 1 + cluster_dice(c, 20);
    }
    zoo_fate(&c->zoo);
    if (world_dice(w, 500)) {
        node_stop(c, n);
        node_start(c, n);
    }
}

static void moves(struct cluster *c)
{
    for (unsigned s = 0; s < SLOTS; s++) {
        if (c->world.moving_to[s] >= 0 && (c->net.calm || world_dice(&c->world, 4))) {
            world_step_move(&c->world, s);
        }
    }
}

static void turns(struct cluster *c)
{
    for (unsigned i = 0; i < NODES; i++) {
        struct node *n = &c->nodes[i];

        for (unsigned k = 0; k < 10 && (c->net.heard[i] || n->turn_us <= c->world.now_us); k++) {
            uint64_t next_us;

            c->net.heard[i] = false;
            n->turn_us = UINT64_MAX;
            next_us = tr_cluster_turn(n->engine, net_now(&c->net));
            if (next_us < UINT64_MAX && n->turn_us == UINT64_MAX) {
                n->turn_us =
                    c->world.now_us +
                    (next_us > net_now(&c->net).boot_us ? next_us - net_now(&c->net).boot_us : 0);
            }
            if (k == 9 && n->turn_us <= c->world.now_us) {
                judge_wrong(&c->judge, "it never sleeps", i);
            }
        }
    }
}

static uint64_t next_event(const struct cluster *c, uint64_t until_us)
{
    uint64_t next_us = until_us;

    for (unsigned i = 0; i < NODES; i++) {
        next_us = c->nodes[i].turn_us < next_us ? c->nodes[i].turn_us : next_us;
    }
    if (zoo_next(&c->zoo) < next_us) {
        next_us = zoo_next(&c->zoo);
    }
    if (c->sql != NULL && commits_next(c) < next_us) {
        next_us = commits_next(c);
    }
    if (c->net.messages != NULL && c->net.messages->at_us < next_us) {
        next_us = c->net.messages->at_us;
    }
    return next_us;
}

static void hear_zoo(struct cluster *c)
{
    unsigned heard;

    c->zoo.calm = c->net.calm;
    heard = zoo_step(&c->zoo, net_now(&c->net));
    for (unsigned i = 0; i < NODES; i++) {
        c->net.heard[i] = c->net.heard[i] || (heard >> i & 1) != 0;
    }
}

/* All that happens by itself up to then. */
void cluster_flow(struct cluster *c, uint64_t until_us)
{
    while (c->judge.wrong[0] == '\0') {
        uint64_t next_us = next_event(c, until_us);

        if (next_us > c->world.now_us) {
            c->world.now_us = next_us;
        }
        while (net_step(&c->net, c->world.now_us)) {
        }
        if (c->sql != NULL) {
            commits_step(c);
        }
        hear_zoo(c);
        turns(c);
        if (c->world.now_us >= until_us && next_event(c, until_us + 1) > until_us) {
            break;
        }
    }
}

void cluster_run(struct cluster *c, uint64_t until_us)
{
    while (c->world.now_us < until_us && c->judge.wrong[0] == '\0') {
        uint64_t next_us = c->world.now_us + 500 + cluster_dice(c, 4000);

        cluster_flow(c, next_us < until_us ? next_us : until_us);
        if (!c->net.calm) {
            fate(c);
            client(c, &c->nodes[cluster_dice(c, NODES)]);
        }
        moves(c);
    }
}
