/*
 * Messages are delayed each by itself, in order on one connection. What is lost is a connection:
 * nothing that was sent on it after that arrives, in either direction, and nobody is told. A
 * request that is on its way when its connection is closed may still arrive, late: that is how
 * calls overtake each other. But not at a server that has taken over from the one it was sent to.
 *
 * Wake-ups (`wake`, BLPOP) are kept here, not in the servers' databases: a failover loses them.
 */

#include "net.h"

#include "zoo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_US UINT64_C(1800000000000000)

struct tr_now net_now(const struct net *n)
{
    return (struct tr_now){.wall_us = n->world->now_us,
                           .boot_us = n->world->now_us - START_US + 1000000};
}

void net_init(struct net *n, struct world *w, struct judge *j)
{
    memset(n, 0, sizeof *n);
    n->world = w;
    n->judge = j;
    for (unsigned i = 0; i < NODES; i++) {
        n->ends[i].net = n;
        n->ends[i].node = i;
    }
}

static void free_args(struct net_message *m)
{
    for (size_t i = 0; m->args != NULL && i < m->count; i++) {
        free((char *)m->args[i].at);
    }
    free(m->args);
    m->args = NULL;
}

static void message_free(struct net_message *m)
{
    free_args(m);
    if (m->reply != NULL) {
        fake_reply_free(m->reply);
    }
    free(m);
}

void net_fini(struct net *n)
{
    while (n->messages != NULL) {
        struct net_message *m = n->messages;

        n->messages = m->next;
        message_free(m);
    }
}

void net_start(struct net *n, unsigned node, const char *name)
{
    struct net_end *e = &n->ends[node];

    e->life++;
    (void)snprintf(e->name, sizeof e->name, "%s", name);
    e->wake_count = 0;
    e->pops = false;
    for (unsigned i = 0; i < NET_CONNS; i++) {
        unsigned generation = e->conns[i].generation + 1;

        e->conns[i] = (struct net_conn){.generation = generation};
    }
}

/* ---- messages ---- */

static void post(struct net *n, struct net_message *m)
{
    struct net_message **at = &n->messages;

    while (*at != NULL && (*at)->at_us <= m->at_us) {
        at = &(*at)->next;
    }
    m->next = *at;
    *at = m;
}

static uint64_t delay(struct net *n)
{
    if (!n->calm && world_dice(n->world, 60)) {
        return tr_rng_below(&n->world->rng, 3000000); /* longer than the time-out, now and then */
    }
    return 50 + tr_rng_below(&n->world->rng, world_dice(n->world, 8) ? 12000 : 2000);
}

static struct net_message *message(struct net_end *e, unsigned conn, enum net_what what)
{
    struct net_message *m = calloc(1, sizeof *m);
    const struct net_conn *k = &e->conns[conn];

    TR_CHECK(m != NULL);
    m->what = what;
    m->node = e->node;
    m->life = e->life;
    m->conn = conn;
    m->generation = k->generation;
    m->server = k->server;
    m->server_life = k->life;
    m->at_us = e->net->world->now_us + delay(e->net);
    return m;
}

static struct net_conn *conn_of(struct net *n, const struct net_message *m)
{
    struct net_end *e = &n->ends[m->node];
    struct net_conn *k = &e->conns[m->conn];

    return e->life == m->life && k->open && k->generation == m->generation ? k : NULL;
}

/* ---- the port ---- */

static void port_connect(void *ctx, unsigned conn, const char *server)
{
    struct net_end *e = ctx;
    struct net_conn *k = &e->conns[conn];

    TR_CHECK(!k->open && conn < NET_CONNS);
    *k = (struct net_conn){.open = true,
                           .generation = k->generation + 1,
                           .server = (unsigned)strtoul(server + 1, NULL, 10)};
    TR_CHECK(k->server < SERVERS);
    k->life = e->net->world->servers[k->server].lives;
    post(e->net, message(e, conn,
                         e->net->cut[e->node] || (!e->net->calm && world_dice(e->net->world, 30))
                             ? NET_CLOSED
                             : NET_UP));
}

static struct tr_span *copy_args(const struct tr_span *args, unsigned count)
{
    struct tr_span *copies = malloc(count * sizeof *copies);

    TR_CHECK(copies != NULL);
    for (unsigned i = 0; i < count; i++) {
        char *text = malloc(args[i].len + 1);

        TR_CHECK(text != NULL);
        memcpy(text, args[i].at, args[i].len);
        text[args[i].len] = '\0';
        copies[i] = (struct tr_span){text, args[i].len};
    }
    return copies;
}

static void port_send(void *ctx, unsigned conn, uint64_t tag, const struct tr_span *args,
                      unsigned count)
{
    struct net_end *e = ctx;
    struct net_conn *k = &e->conns[conn];
    struct net_message *m;

    TR_CHECK(k->open && k->up && count > 0);
    e->net->sent++;
    zoo_sends(e->net->zoo, e->node, args, count);
    if (world_is(args[0], "ASKING")) {
        k->asking = true;
        return;
    }
    m = message(e, conn, NET_REQUEST);
    m->tag = tag;
    m->asking = k->asking;
    m->args = copy_args(args, count);
    m->count = count;
    m->at_us = m->at_us > k->out_us ? m->at_us : k->out_us;
    k->out_us = m->at_us;
    k->asking = false;
    if (e->net->cut[e->node] || (!e->net->calm && world_dice(e->net->world, 100))) {
        k->dead = true;
    }
    if (k->dead) {
        e->net->lost++;
        message_free(m);
    } else {
        post(e->net, m);
    }
}

static void port_close(void *ctx, unsigned conn)
{
    struct net_end *e = ctx;

    TR_CHECK(e->conns[conn].open);
    e->conns[conn].open = false;
    e->conns[conn].up = false;
    e->conns[conn].generation++;
}

struct tr_redis_port net_port(struct net *n, unsigned node)
{
    return (struct tr_redis_port){
        .ctx = &n->ends[node], .connect = port_connect, .send = port_send, .close = port_close};
}

void net_break(struct net *n, unsigned server)
{
    for (unsigned i = 0; i < NODES; i++) {
        struct net_end *e = &n->ends[i];

        for (unsigned k = 0; k < NET_CONNS; k++) {
            if (e->conns[k].open && e->conns[k].server == server) {
                struct net_message *m = message(e, k, NET_CLOSED);

                e->conns[k].dead = true;
                post(n, m);
            }
        }
        if (n->world->owner[META] == (int)server) {
            e->wake_count = 0;
            e->pops = false;
        }
    }
}

void net_cut(struct net *n, unsigned node, bool cut)
{
    struct net_end *e = &n->ends[node];

    n->cut[node] = cut;
    for (unsigned k = 0; k < NET_CONNS; k++) {
        if (!cut && e->conns[k].open && e->conns[k].dead) {
            post(n, message(e, k, NET_CLOSED));
        }
    }
}

/* ---- servers ---- */

static void reply(struct net *n, const struct net_message *to, struct fake_reply *r)
{
    struct net_end *e = &n->ends[to->node];
    struct net_conn *k = conn_of(n, to);
    struct net_message *m;

    if (k != NULL && !n->calm && world_dice(n->world, 100)) {
        k->dead = true;
        n->lost++;
    }
    if (k == NULL || k->dead) {
        fake_reply_free(r);
        return;
    }
    m = message(e, to->conn, NET_REPLY);
    m->tag = to->tag;
    m->reply = r;
    m->at_us = m->at_us > k->in_us ? m->at_us : k->in_us;
    k->in_us = m->at_us;
    post(n, m);
}

static struct fake_reply *info(const struct net *n, unsigned server)
{
    char text[256];
    int len = snprintf(text, sizeof text,
                       "# Server\r\nredis_version:7.0.15\r\nrun_id:%s\r\n# Replication\r\n"
                       "role:master\r\nconnected_slaves:1\r\nmaster_replid:%s\r\n# Memory\r\n"
                       "maxmemory_policy:noeviction\r\n# Cluster\r\ncluster_enabled:1\r\n",
                       n->world->servers[server].run, n->world->servers[server].life);

    return fake_list(&(struct tr_span){text, (size_t)len}, 1);
}

/* CLUSTER NODES */
static struct fake_reply *map(const struct net *n, unsigned asked)
{
    char text[1024];
    size_t len = 0;

    /* All other hash slots, wake-ups among them, are where the store's own keys are. */
    len +=
        (size_t)snprintf(text, sizeof text, "%040x s%d:1@2,host master - 0 0 9 connected 0-16383\n",
                         9, n->world->owner[META]);
    for (unsigned s = 0; s < SERVERS; s++) {
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "%040x s%u:1@2,host %smaster - 0 0 %u connected", s, s,
                                s == asked ? "myself," : "", s);
        for (unsigned slot = 0; slot <= SLOTS; slot++) {
            if (n->world->owner[slot] == (int)s) {
                len +=
                    (size_t)snprintf(text + len, sizeof text - len, " %u", world_hash_slot(slot));
            }
        }
        len += (size_t)snprintf(text + len, sizeof text - len, "\n");
    }
    return fake_list(&(struct tr_span){text, len}, 1);
}

static void deliver_wake(struct net *n, struct net_end *e)
{
    struct net_message to = {.node = e->node,
                             .life = e->life,
                             .conn = 512,
                             .generation = e->pop_generation,
                             .tag = e->pop_tag};
    struct tr_span items[2] = {{"key", 3}, {e->wakes[0], strlen(e->wakes[0])}};

    if (!e->pops || e->wake_count == 0) {
        return;
    }
    e->pops = false;
    reply(n, &to, fake_list(items, 2));
    e->wake_count--;
    memmove(e->wakes[0], e->wakes[1], e->wake_count * sizeof e->wakes[0]);
}

static struct fake_reply *push_wakes(struct net *n, const struct net_message *m)
{
    for (unsigned i = 0; i < NODES && !n->mute; i++) {
        struct net_end *e = &n->ends[i];

        if (strstr(m->args[3].at, e->name) == NULL) {
            continue;
        }
        for (size_t k = 5; k < m->count && e->wake_count < WAKES_MAX; k++) {
            (void)snprintf(e->wakes[e->wake_count++], WAKE_TEXT, "%s", m->args[k].at);
        }
        deliver_wake(n, e);
    }
    return fake_list(&(struct tr_span){"OK", 2}, 1);
}

static void pop_wake(struct net *n, const struct net_message *m)
{
    struct net_end *e = &n->ends[m->node];
    struct net_message *over;

    if (conn_of(n, m) == NULL) {
        return; /* nobody is there any more */
    }
    e->pops = true;
    e->pop_generation = m->generation;
    e->pop_tag = m->tag;
    deliver_wake(n, e);
    if (e->pops) {
        over = message(e, m->conn, NET_POP_OVER);
        over->tag = m->tag;
        over->at_us = n->world->now_us + strtoull(m->args[2].at, NULL, 10) * 1000000;
        post(n, over);
    }
}

static void print(struct tr_span s)
{
    for (size_t i = 0; i < s.len && i < 40; i++) {
        (void)putchar(s.at[i] >= ' ' && s.at[i] <= '~' ? s.at[i] : '.');
    }
    (void)putchar(' ');
}

/* One line: when, who, where, what, and what came of it. */
static void trace(const struct net *n, const struct net_message *m, const struct fake_reply *r)
{
    bool script = world_is(m->args[0], "EVAL") || world_is(m->args[0], "EVALSHA");
    size_t keys = script ? strtoul(m->args[2].at, NULL, 10) : 0;

    printf("%9.4f node %u server %u: ", (double)(n->world->now_us - START_US) / 1e6, m->node,
           m->server);
    if (script) {
        printf("%s ", tr_scripts[fake_script(m->args)].name);
    }
    if (script && m->count > 3 + keys + 1) {
        print(m->args[3 + keys + 1]); /* the run, as the node knows it */
    }
    for (size_t i = script ? 3 + keys + (keys > 3 ? 5 : 1) : 0; i < m->count; i++) {
        print(m->args[i]);
    }
    printf("-> ");
    if (r->is.event == TR_REDIS_ERROR) {
        print(r->is.error);
    }
    for (size_t i = 0; i < r->is.count && i < 12; i++) {
        print(r->is.items[i].at != NULL ? r->is.items[i] : (struct tr_span){"nil", 3});
    }
    printf("\n");
}

/* Ids jump when a slot came to another life of a server, and at no other time: there are not that
 * many of them. */
static void count_jumps(struct net *n, const struct world_call *call, const struct fake_reply *r)
{
    unsigned slot = world_slot(call);

    if (!world_is(call->args[0], "EVAL") || fake_script(call->args) != TR_SCRIPT_CHECK ||
        r->is.event != TR_REDIS_LIST || r->is.count < 2 || world_is(r->is.items[1], "same")) {
        return;
    }
    if (n->world->jumps[slot]++ > n->world->changes[slot]) {
        judge_wrong(n->judge, "ids jump though the server is the same, slot", slot);
    }
}

static bool is_wake(const struct net_message *m)
{
    return (world_is(m->args[0], "EVAL") || world_is(m->args[0], "EVALSHA")) &&
           fake_script(m->args) == TR_SCRIPT_WAKE;
}

/* The replica has caught up, as a rule. */
static struct fake_reply *wait_for_replica(struct net *n, unsigned server)
{
    bool has = n->calm || !world_dice(n->world, 20);

    if (has) {
        world_sync(n->world, server);
    }
    return fake_list(&(struct tr_span){has ? "1" : "0", 1}, 1);
}

static void request(struct net *n, struct net_message *m)
{
    struct world_call call = {
        .server = m->server, .asking = m->asking, .args = m->args, .count = m->count};
    struct fake_reply *no;

    if (world_is(m->args[0], "INFO")) {
        reply(n, m, info(n, m->server));
    } else if (world_is(m->args[0], "WAIT")) {
        reply(n, m, wait_for_replica(n, m->server));
    } else if (world_is(m->args[0], "CLUSTER")) {
        reply(n, m, map(n, m->server));
    } else if (is_wake(m) || world_is(m->args[0], "BLPOP")) {
        no = world_refuse(n->world, &call);
        if (no != NULL) {
            reply(n, m, no);
        } else if (world_is(m->args[0], "BLPOP")) {
            pop_wake(n, m);
        } else {
            no = push_wakes(n, m);
            if (n->trace) {
                trace(n, m, no);
            }
            reply(n, m, no);
        }
    } else {
        struct fake_reply *r = world_exec(n->world, &call);

        if (n->trace) {
            trace(n, m, r);
        }
        judge_ran(n->judge, &call, r);
        zoo_ran(n->zoo, &call, r);
        count_jumps(n, &call, r);
        reply(n, m, r);
    }
}

static void arrive(struct net *n, struct net_message *m)
{
    struct net_end *e = &n->ends[m->node];
    struct net_conn *k = conn_of(n, m);

    if (m->what == NET_REQUEST) {
        if (m->server_life == n->world->servers[m->server].lives) {
            request(n, m);
        }
        return;
    }
    if (k == NULL) {
        return;
    }
    n->heard[m->node] = true;
    switch (m->what) {
    case NET_UP:
        k->up = true;
        e->ear.up(e->ear.ctx, m->conn, net_now(n));
        break;
    case NET_REPLY:
        e->ear.heard(e->ear.ctx, m->conn, m->tag, &m->reply->is, net_now(n));
        break;
    case NET_CLOSED:
        k->open = false;
        k->up = false;
        k->generation++;
        e->ear.closed(e->ear.ctx, m->conn, "Connection reset by peer", net_now(n));
        break;
    default: /* POP_OVER */
        if (e->pops && e->pop_generation == m->generation && e->pop_tag == m->tag) {
            e->pops = false;
            reply(n, m, fake_list(&(struct tr_span){NULL, 0}, 1));
        }
        break;
    }
}

bool net_step(struct net *n, uint64_t until_us)
{
    struct net_message *m = n->messages;

    if (m == NULL || m->at_us > until_us) {
        return false;
    }
    n->messages = m->next;
    if (m->at_us > n->world->now_us) {
        n->world->now_us = m->at_us;
    }
    arrive(n, m);
    message_free(m);
    return true;
}
