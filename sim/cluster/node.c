/*
 * A node has a lane for each slot and kind of call (push, take, edit), with one call under way. The
 * route decides what to do with it after each answer, loss or redirect; the network in between
 * delays each message by itself, keeps the order of one connection, and loses some. A request that
 * is on its way when its connection is closed may still arrive, late: that is how calls overtake
 * each other.
 */

#include "node.h"

#include "base/err.h"
#include "cluster/hex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_US UINT64_C(500000)
#define DEADLINE_US UINT64_C(2500000)
#define LEASE_US UINT64_C(3000000)

static const char uuid[] = "0123456789abcdef";
static const char kind_of[KINDS] = {'p', 't', 'e'};

static uint64_t dice(struct cluster *c, uint64_t below)
{
    return tr_rng_below(&c->world.rng, below);
}

static void name_node(struct cluster *c, struct node *n)
{
    n->life++;
    (void)snprintf(n->name, sizeof n->name, "%016llx",
                   (unsigned long long)tr_rng_next(&c->world.rng));
}

void cluster_init(struct cluster *c, uint64_t seed, struct fake_lua *lua, enum node_bug bug)
{
    memset(c, 0, sizeof *c);
    world_init(&c->world, seed, lua);
    c->judge.world = &c->world;
    c->bug = bug;
    tr_mem_init(&c->mem, 0);
    for (unsigned i = 0; i < NODES; i++) {
        c->nodes[i].number = i;
        tr_shards_init(&c->nodes[i].shards);
        name_node(c, &c->nodes[i]);
        for (unsigned l = 0; l < LANES; l++) {
            tr_eval_init(&c->nodes[i].lanes[l].eval, &c->mem);
        }
    }
}

static void message_free(struct message *m)
{
    for (size_t i = 0; m->args != NULL && i < m->count; i++) {
        free((char *)m->args[i].at);
    }
    free(m->args);
    if (m->reply != NULL) {
        fake_reply_free(m->reply);
    }
    free(m);
}

void cluster_fini(struct cluster *c)
{
    while (c->messages != NULL) {
        struct message *m = c->messages;

        c->messages = m->next;
        message_free(m);
    }
    for (unsigned i = 0; i < NODES; i++) {
        for (unsigned l = 0; l < LANES; l++) {
            tr_eval_fini(&c->nodes[i].lanes[l].eval);
        }
    }
    world_fini(&c->world);
}

/* ---- the network ---- */

static void post(struct cluster *c, struct message *m)
{
    struct message **at = &c->messages;

    while (*at != NULL && (*at)->at_us <= m->at_us) {
        at = &(*at)->next;
    }
    m->next = *at;
    *at = m;
}

static uint64_t delay(struct cluster *c)
{
    if (!c->calm && world_dice(&c->world, 40)) {
        return dice(c, 3000000); /* longer than the time-out, now and then */
    }
    return 50 + dice(c, 2000);
}

static struct tr_span *copy_args(const struct tr_eval *e)
{
    struct tr_span *args = malloc(e->count * sizeof *args);

    TR_CHECK(args != NULL);
    for (unsigned i = 0; i < e->count; i++) {
        char *text = malloc(e->args[i].len + 1);

        TR_CHECK(text != NULL);
        memcpy(text, e->args[i].at, e->args[i].len);
        text[e->args[i].len] = '\0';
        args[i] = (struct tr_span){text, e->args[i].len};
    }
    return args;
}

static unsigned slot_of(unsigned lane)
{
    return lane / KINDS;
}

static unsigned hash_slot(unsigned slot)
{
    char key[8];
    int len = snprintf(key, sizeof key, "{%u}", slot);

    return tr_place_hash_slot(key, (size_t)len);
}

static void learn(struct cluster *c, struct node *n)
{
    if (!tr_shards_ask(&n->shards, c->world.now_us)) {
        return;
    }
    tr_shards_clear(&n->shards);
    for (unsigned s = 0; s < SLOTS; s++) {
        char name[16];
        int len = snprintf(name, sizeof name, "s%d:1", c->world.owner[s]);
        int number = tr_shards_name(&n->shards, name, (size_t)len);

        TR_CHECK(tr_shards_set(&n->shards, hash_slot(s), hash_slot(s), number) == TARRY_OK);
    }
}

static unsigned server_called(const char *name)
{
    return (unsigned)strtoul(name + 1, NULL, 10);
}

/* A connection that is closed: all that was sent on it is lost, and hears so by its timer. */
static void hang_up(struct cluster *c, struct node *n, unsigned server)
{
    if (!n->conns[server].open) {
        return;
    }
    n->conns[server].open = false;
    n->conns[server].generation++;
    for (unsigned l = 0; l < LANES; l++) {
        if (n->lanes[l].busy && n->lanes[l].sent && n->lanes[l].server == server) {
            c->losses++;
            n->lanes[l].lost = true;
            n->lanes[l].timer_us = c->world.now_us;
        }
    }
}

void cluster_break(struct cluster *c, unsigned server)
{
    for (unsigned i = 0; i < NODES; i++) {
        hang_up(c, &c->nodes[i], server);
    }
}

static void send_call(struct cluster *c, struct node *n, unsigned lane)
{
    struct lane *l = &n->lanes[lane];
    struct message *m = calloc(1, sizeof *m);
    struct conn *conn;
    int number;

    TR_CHECK(m != NULL);
    learn(c, n);
    number = tr_shards_find(&n->shards, hash_slot(slot_of(lane)));
    TR_CHECK(number >= 0);
    if (l->step.text && l->sends > 0) {
        ; /* to the same server as the last time */
    } else {
        l->server = server_called(l->aim[0] != '\0' ? l->aim : n->shards.names[number]);
    }
    conn = &n->conns[l->server];
    if (!conn->open) {
        conn->open = true;
        conn->last_us = 0;
        memcpy(conn->run, c->world.servers[l->server].run, sizeof conn->run);
    }
    tr_eval_aim(&l->eval, conn->run, c->world.now_us);
    tr_eval_with_text(&l->eval, (enum tr_script_name)(lane % KINDS), l->step.text);
    l->sent = true;
    l->lost = false;
    l->sends++;
    l->timer_us = c->world.now_us + TIMEOUT_US;
    *m = (struct message){.node = n->number,
                          .life = n->life,
                          .lane = lane,
                          .sends = l->sends,
                          .server = l->server,
                          .generation = conn->generation,
                          .slot = slot_of(lane),
                          .asking = l->step.asking,
                          .args = copy_args(&l->eval),
                          .count = l->eval.count,
                          .at_us = c->world.now_us + delay(c)};
    if (m->at_us < conn->last_us) {
        m->at_us = conn->last_us;
    }
    conn->last_us = m->at_us;
    if (!c->calm && world_dice(&c->world, 60)) {
        message_free(m); /* lost on its way */
    } else {
        post(c, m);
    }
}

/* ---- calls ---- */

static const char *topic_name(unsigned topic)
{
    static const char *const names[TOPICS] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};

    return names[topic];
}

static unsigned topic_slot(const struct cluster *c, unsigned topic)
{
    return tr_place_slot(&c->world.layout, topic_name(topic), 2, 0);
}

static void begin(struct cluster *c, struct node *n, unsigned lane, unsigned topic)
{
    struct lane *l = &n->lanes[lane];
    struct tr_eval_topic is = {topic_name(topic), 1, TR_ORDER_DUE};
    struct tr_eval_about about = {.layout = &c->world.layout,
                                  .slot = slot_of(lane),
                                  .uuid = uuid,
                                  .node = n->name,
                                  .op = ++l->op,
                                  .topics = &is,
                                  .topic_count = 1};

    l->busy = true;
    l->sent = false;
    l->sends = 0;
    l->count = 0;
    l->aim[0] = '\0';
    l->step = (struct tr_route_step){.what = TR_DO_SEND};
    l->timer_us = c->world.now_us;
    tr_route_init(&l->route, c->world.now_us + DEADLINE_US, true);
    tr_eval_begin(&l->eval, (enum tr_script_name)(lane % KINDS), &about);
}

static void ready(struct lane *l)
{
    TR_CHECK(tr_eval_end(&l->eval) == TARRY_OK);
}

static void start_push(struct cluster *c, struct node *n, unsigned topic)
{
    static char bodies[JOBS_MAX][8];
    unsigned lane = topic_slot(c, topic) * KINDS;
    struct lane *l = &n->lanes[lane];

    if (l->busy || c->judge.count + BATCH > JOBS_MAX) {
        return;
    }
    begin(c, n, lane, topic);
    tr_eval_push_from(&l->eval, 0, slot_of(lane));
    for (unsigned i = (unsigned)dice(c, BATCH); i < BATCH; i++) {
        unsigned serial = judge_new(&c->judge, topic, slot_of(lane));
        struct tr_req r = {.op = TR_OP_PUSH,
                           .priority = (uint32_t)dice(c, 3),
                           .delay_us = dice(c, 2) != 0 ? dice(c, 4000000) : 0,
                           .has_retries = true,
                           .retries = -1,
                           .ttr_us = LEASE_US,
                           .body = (const uint8_t *)bodies[serial]};

        r.body_len = (size_t)snprintf(bodies[serial], sizeof bodies[serial], "%u", serial);
        l->serials[l->count] = serial;
        l->kinds[l->count++] = 'p';
        tr_eval_push(&l->eval, 0, &r, 0);
    }
    ready(l);
}

static void start_take(struct cluster *c, struct node *n, unsigned topic)
{
    unsigned lane = topic_slot(c, topic) * KINDS + 1;
    struct lane *l = &n->lanes[lane];
    struct tr_eval_take t = {.count = 1 + (unsigned)dice(c, BATCH)};

    if (l->busy || n->hand_count + BATCH > HANDS) {
        return;
    }
    begin(c, n, lane, topic);
    if (c->bug != BUG_LEASE_AGAIN || n->leases == 0) {
        n->leases++;
    }
    l->claim.lease = strtoull(n->name, NULL, 16) << 32 | n->leases;
    t.lease = l->claim.lease;
    t.wait_until_us = world_dice(&c->world, 2) ? c->world.now_us + 5000000 : 0;
    tr_eval_take(&l->eval, &t);
    ready(l);
}

static void edit_one(struct cluster *c, struct node *n, struct hand h, enum tr_op op)
{
    const struct sim_job *job = &c->judge.jobs[h.serial];
    unsigned lane = job->slot * KINDS + 2;
    struct lane *l = &n->lanes[lane];
    struct tr_req r = {
        .op = op, .id = h.id, .lease = h.claim.lease, .force = true, .keep_priority = true};

    begin(c, n, lane, job->topic);
    r.delay_us = dice(c, 2) != 0 ? dice(c, 2000000) : 0;
    l->serials[0] = h.serial;
    l->kinds[0] = 'R';
    if (op == TR_OP_DELETE) {
        l->kinds[0] = 'A';
    }
    if (h.claim.lease == 0) {
        l->kinds[0] = 'C';
    }
    l->claim = h.claim;
    l->count = 1;
    if (l->kinds[0] == 'C') {
        c->judge.jobs[h.serial].ending = true; /* an ack may find nothing from now on */
    }
    tr_eval_edit(&l->eval, 0, &r, 0);
    ready(l);
}

static void start_edit(struct cluster *c, struct node *n)
{
    unsigned i;
    struct hand h;

    if (n->hand_count == 0) {
        return;
    }
    i = (unsigned)dice(c, n->hand_count);
    h = n->hands[i];
    if (n->lanes[c->judge.jobs[h.serial].slot * KINDS + 2].busy || h.from_us > c->world.now_us) {
        return;
    }
    n->hands[i] = n->hands[--n->hand_count];
    if (world_dice(&c->world, 8)) {
        return; /* the consumer is gone: its lease ends by itself */
    }
    if (world_dice(&c->world, 10)) {
        h.claim.lease = 0; /* a cancel, by somebody else */
        edit_one(c, n, h, TR_OP_DELETE);
    } else {
        edit_one(c, n, h, world_dice(&c->world, 3) ? TR_OP_RELEASE : TR_OP_DELETE);
    }
}

/* ---- answers ---- */

static void taken(struct cluster *c, struct node *n, const struct tr_answer *a)
{
    struct tr_taken t;
    struct tr_taken_job job;

    TR_CHECK(tr_answer_taken(a, &t) == TARRY_OK);
    for (size_t i = 0; i < t.jobs && n->hand_count < HANDS; i++) {
        TR_CHECK(tr_answer_taken_job(a, i, &job) == TARRY_OK);
        n->hands[n->hand_count++] =
            (struct hand){.serial = judge_serial(job.body),
                          .id = job.id,
                          .claim = {job.header.lease, job.header.attempts},
                          .from_us = c->world.now_us + (dice(c, 4) == 0 ? LEASE_US + 500000 : 0)};
    }
}

static void answered(struct cluster *c, struct node *n, unsigned lane,
                     const struct tr_redis_reply *reply)
{
    struct lane *l = &n->lanes[lane];
    struct tr_answer a;

    c->answers++;
    TR_CHECK(tr_answer_read(reply, &a) == TARRY_OK);
    if (lane % KINDS == 1) {
        taken(c, n, &a);
        return;
    }
    TR_CHECK(a.count == l->count);
    for (unsigned i = 0; i < l->count; i++) {
        if (l->kinds[i] == 'p') {
            struct tr_pushed p;

            TR_CHECK(tr_answer_pushed(a.items[i], &p) == TARRY_OK);
            judge_pushed(&c->judge, l->serials[i], &p);
        } else {
            struct tr_edited e;

            TR_CHECK(tr_answer_edited(a.items[i], &e) == TARRY_OK);
            judge_edited(&c->judge, l->serials[i], l->kinds[i], &l->claim, &e);
        }
    }
}

/* The script `check`, without the network: it changes nothing that a repeat could break. */
static void check_slot(struct cluster *c, const struct node *n, unsigned lane)
{
    const struct lane *l = &n->lanes[lane];
    const struct tr_script *s = &tr_scripts[TR_SCRIPT_CHECK];
    char key[TR_PLACE_KEY_MAX];
    size_t len = tr_place_key(key, &c->world.layout, slot_of(lane), 0, NULL);
    struct tr_span args[] = {{"EVAL", 4},
                             {s->text, s->len},
                             {"1", 1},
                             {key, len},
                             {uuid, sizeof uuid - 1},
                             {n->conns[l->server].run, strlen(n->conns[l->server].run)},
                             {n->name, TR_PLACE_NODE_DIGITS},
                             {"0", 1},
                             {"0", 1}};

    struct world_call call = {.server = l->server,
                              .slot = slot_of(lane),
                              .asking = l->step.asking,
                              .args = args,
                              .count = sizeof args / sizeof args[0]};

    fake_reply_free(world_exec(&c->world, &call));
}

static void hear(struct cluster *c, struct node *n, unsigned lane, const struct tr_redis_reply *r)
{
    struct lane *l = &n->lanes[lane];
    uint64_t now_us = c->world.now_us;

    if (c->bug == BUG_REFUSAL_BELIEVED) {
        l->route.unknown = false;
    }
    l->step = tr_route_next(&l->route, r, now_us);
    l->sent = false;
    (void)snprintf(l->aim, sizeof l->aim, "%.*s", (int)l->step.server.len,
                   l->step.server.len > 0 ? l->step.server.at : "");
    if (l->step.refresh) {
        tr_shards_doubt(&n->shards);
    }
    if (l->step.what == TR_DO_ANSWER) {
        l->busy = false;
        answered(c, n, lane, r);
    } else if (l->step.what == TR_DO_FAIL) {
        bool unknown = l->step.why == TR_ROUTE_UNKNOWN;

        l->busy = false;
        c->unknowns += unknown;
        for (unsigned i = 0; i < l->count; i++) {
            judge_failed(&c->judge, l->serials[i], l->kinds[i], unknown);
        }
    } else {
        c->repeats++;
        l->timer_us = l->step.at_us;
        if (l->step.what == TR_DO_CHECK) {
            check_slot(c, n, lane);
            l->timer_us = now_us + 1000;
        }
        if (c->bug == BUG_NEW_OP) {
            tr_hex_put((char *)l->eval.args[l->eval.run_at + 2].at, TR_HEX_ID, ++l->op);
        }
    }
    if (l->step.close) {
        hang_up(c, n, l->server);
    }
}

static void arrive(struct cluster *c, struct message *m)
{
    struct node *n = &c->nodes[m->node];
    const struct conn *conn = &n->conns[m->server];

    if (m->args != NULL) {
        struct world_call call = {.server = m->server,
                                  .slot = m->slot,
                                  .asking = m->asking,
                                  .args = m->args,
                                  .count = m->count};

        m->reply = world_exec(&c->world, &call);
        judge_ran(&c->judge, kind_of[m->lane % KINDS], &call, m->reply);
        for (size_t i = 0; i < m->count; i++) {
            free((char *)m->args[i].at);
        }
        free(m->args);
        m->args = NULL;
        m->at_us = c->world.now_us + delay(c);
        if (c->calm || !world_dice(&c->world, 30)) {
            post(c, m);
            return;
        }
    } else if (n->life == m->life && conn->open && conn->generation == m->generation &&
               n->lanes[m->lane].busy && n->lanes[m->lane].sent &&
               n->lanes[m->lane].sends == m->sends) {
        hear(c, n, m->lane, &m->reply->is);
    }
    message_free(m);
}

/* ---- time ---- */

static void client(struct cluster *c, struct node *n)
{
    unsigned topic = (unsigned)dice(c, TOPICS);

    switch (dice(c, 5)) {
    case 0:
    case 1:
        start_push(c, n, topic);
        break;
    case 2:
        start_take(c, n, topic);
        break;
    default:
        start_edit(c, n);
        break;
    }
}

static void timers(struct cluster *c, struct node *n)
{
    static const struct tr_redis_reply lost = {.event = TR_REDIS_LOST};

    for (unsigned l = 0; l < LANES; l++) {
        if (!n->lanes[l].busy || n->lanes[l].timer_us > c->world.now_us) {
            continue;
        }
        if (n->lanes[l].sent && n->lanes[l].lost) {
            hear(c, n, l, &lost);
        } else if (n->lanes[l].sent) {
            hang_up(c, n, n->lanes[l].server); /* it took too long */
        } else {
            send_call(c, n, l);
        }
    }
}

void cluster_restart(struct cluster *c, unsigned node)
{
    struct node *n = &c->nodes[node];

    for (unsigned l = 0; l < LANES; l++) {
        struct lane *lane = &n->lanes[l];

        for (unsigned i = 0; lane->busy && i < lane->count; i++) {
            judge_failed(&c->judge, lane->serials[i], lane->kinds[i], true);
        }
        lane->busy = false;
        lane->op = 0;
    }
    for (unsigned s = 0; s < SERVERS; s++) {
        n->conns[s].open = false;
        n->conns[s].generation++;
    }
    n->hand_count = 0;
    n->leases = 0;
    name_node(c, n);
}

/* What the world does to servers, every few milliseconds. */
static void fate(struct cluster *c)
{
    struct world *w = &c->world;
    unsigned server = (unsigned)dice(c, SERVERS);
    unsigned slot = (unsigned)dice(c, SLOTS);

    if (world_dice(w, 8)) {
        world_sync(w, server);
    }
    if (world_dice(w, 400)) {
        judge_undone(&c->judge, server);
        world_failover(w, server);
        cluster_break(c, server);
    }
    if (world_dice(w, 300)) {
        world_begin_move(w, slot);
    }
    if (world_dice(w, 300)) {
        w->servers[server].loading_until_us = w->now_us + dice(c, 400000);
    }
    if (world_dice(w, 200)) {
        w->servers[server].full_until_us = w->now_us + dice(c, 1500000);
    }
    if (world_dice(w, 200)) {
        w->servers[server].skew_us = (int64_t)dice(c, 8000000) - 4000000;
    } else if (world_dice(w, 100)) {
        w->servers[server].skew_us = 0;
    }
    if (world_dice(w, 300)) {
        w->servers[server].scripts = 0;
    }
    if (world_dice(w, 500)) {
        cluster_restart(c, (unsigned)dice(c, NODES));
    }
}

static void moves(struct cluster *c)
{
    for (unsigned s = 0; s < SLOTS; s++) {
        if (c->world.moving_to[s] >= 0 && (c->calm || world_dice(&c->world, 4))) {
            world_step_move(&c->world, s);
        }
    }
}

void cluster_run(struct cluster *c, uint64_t until_us)
{
    while (c->world.now_us < until_us && c->judge.wrong[0] == '\0') {
        uint64_t next_us = c->world.now_us + 500 + dice(c, 4000);

        while (c->messages != NULL && c->messages->at_us <= next_us && c->judge.wrong[0] == '\0') {
            struct message *m = c->messages;

            c->messages = m->next;
            if (m->at_us > c->world.now_us) {
                c->world.now_us = m->at_us;
            }
            arrive(c, m);
        }
        c->world.now_us = next_us > c->world.now_us ? next_us : c->world.now_us;
        if (!c->calm) {
            fate(c);
            client(c, &c->nodes[dice(c, NODES)]);
        }
        moves(c);
        for (unsigned i = 0; i < NODES; i++) {
            timers(c, &c->nodes[i]);
        }
    }
}

static void drain_topic(struct cluster *c, unsigned topic)
{
    struct node *n = &c->nodes[0];

    for (unsigned round = 0; round < 500; round++) {
        start_take(c, n, topic);
        cluster_run(c, c->world.now_us + 100000);
        if (n->hand_count == 0) {
            break;
        }
        while (n->hand_count > 0 && c->judge.wrong[0] == '\0') {
            struct hand h = n->hands[--n->hand_count];

            edit_one(c, n, h, TR_OP_DELETE);
            cluster_run(c, c->world.now_us + 100000);
        }
    }
}

void cluster_drain(struct cluster *c)
{
    c->calm = true;
    for (unsigned s = 0; s < SERVERS; s++) {
        c->world.servers[s].skew_us = 0;
        c->world.servers[s].loading_until_us = 0;
        c->world.servers[s].full_until_us = 0;
    }
    cluster_run(c, c->world.now_us + 20000000); /* leases end, moves end, calls end */
    c->nodes[0].hand_count = 0;
    for (unsigned i = 0; i < 2; i++) {
        c->world.now_us += 30000000;
        for (unsigned topic = 0; topic < TOPICS; topic++) {
            drain_topic(c, topic);
        }
    }
    if (c->judge.wrong[0] == '\0') {
        judge_end(&c->judge);
    }
}
