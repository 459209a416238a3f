/*
 * A database behind the engine: fake_sql.c, whose transactions happen one after the other. The
 * judge looks on as each row is committed, whoever hears of it, as it does with scripts elsewhere.
 * Here Redis may forget all that it has, as often as it likes: only the database excuses.
 *
 *     C9 when all was calm for a while, each entry in Redis is of a row, of its version; and each
 * row that is reserved, or due before `loaded`, has one
 */

#include "commits.h"

#include "base/err.h"
#include "cluster/truth.h"
#include "fake_sql.h"
#include "many.h"
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_US UINT64_C(2000000)
#define RECONCILE_US UINT64_C(6000000)
#define RARELY_US UINT64_C(3600000000)

enum { SCAN_MAX = 2048 };

/* ---- what was committed ---- */

static void pushed(struct judge *j, const struct tr_truth *t, const struct tr_sql_job *next)
{
    unsigned serial = judge_serial(next->body);

    judge_made(j, serial, next->id, t->said == TR_TRUTH_REPLACED);
    j->jobs[serial].over = t->said == TR_TRUTH_REPLACED;
}

static void handed(struct judge *j, const struct tr_sql_item *item, uint64_t now_us)
{
    struct tr_taken_job got = {.id = item->next.id, .body = item->row.body};

    tr_truth_header(&item->next, (struct tr_span){"", 0}, now_us, &got.header);
    (void)judge_handed(j, now_us, &got);
}

static void committed(void *ctx, unsigned node, const struct tr_sql_ask *ask,
                      const struct tr_sql_item *item)
{
    struct cluster *c = ctx;
    struct judge *j = &c->judge;
    const struct tr_truth *t = item->ctx;
    struct sim_job *job = judge_find(j, item->row.id);

    if (item->write == TR_SQL_LEAVE || ask->kind == TR_SQL_PLAN) {
        return;
    }
    for (unsigned s = 0; s < SLOTS; s++) { /* one clock for all of them */
        j->latest_us[s] = ask->now_us > j->latest_us[s] ? ask->now_us : j->latest_us[s];
    }
    if (t->what == TR_TRUTH_PUSH && (t->said == TR_TRUTH_DONE || t->said == TR_TRUTH_REPLACED)) {
        pushed(j, t, &item->next);
        return;
    }
    if (job == NULL) {
        judge_wrong(j, "C6: a row of a job that nobody made", 0);
        return;
    }
    job->touched_us = c->world.now_us;
    if (t->many && t->said == TR_TRUTH_DONE) {
        many_committed(j, node, item);
    }
    if (t->what == TR_TRUTH_SWEEP && !job->gone && !job->loose) {
        judge_wrong(j, "C3: a row went that was not purged", (unsigned)(job - j->jobs));
    }
    if ((t->what == TR_TRUTH_CLAIM || t->what == TR_TRUTH_RESERVE) && t->said == TR_TRUTH_DONE) {
        handed(j, item, ask->now_us);
    } else if (item->write == TR_SQL_DELETE) {
        job->held = false;
        job->gone = true;
        job->gone_lease = t->what == TR_TRUTH_ACK ? t->lease : 0;
    } else if (item->next.state != TR_SQL_RESERVED) {
        job->held = false;
    } else {
        job->lease_until_us = item->next.next_us;
    }
}

/* All that the topic had are gone by one step. */
static void purged(void *ctx, unsigned node, uint32_t topic)
{
    struct cluster *c = ctx;

    (void)node;
    for (unsigned i = 0; i < c->sql->is.count; i++) {
        const struct tr_sql_job *is = &c->sql->is.rows[i].is;
        struct sim_job *job = is->topic == topic ? judge_find(&c->judge, is->id) : NULL;

        if (job != NULL && is->gen != c->sql->is.topics[topic - 1].gen) {
            job->gone = true;
            job->gone_lease = 0;
            job->held = false;
            job->touched_us = c->world.now_us;
        }
    }
}

static void marked(void *ctx, unsigned node)
{
    struct cluster *c = ctx;

    c->judge.many[node].begun_us = c->world.now_us;
}

/* A schedule was written: C10. What is in Redis does not matter to it. */
static void planned(void *ctx, const struct tr_sql_ask *ask)
{
    struct cluster *c = ctx;
    const struct tr_sql_planned *w = ask->plan;
    struct sim_plan *p = &c->judge.plans[w->name.at[1] - '0'][0];
    const struct tr_sql_job *job =
        ask->count > 0 && ask->items[0].write == TR_SQL_INSERT ? &ask->items[0].next : NULL;
    struct sim_plan_step step = {.set = w->with_spec, .fires = job != NULL};

    for (unsigned s = 0; s < SLOTS; s++) {
        c->judge.latest_us[s] =
            ask->now_us > c->judge.latest_us[s] ? ask->now_us : c->judge.latest_us[s];
    }
    p->touched_us = c->world.now_us;
    if (w->write == TR_SQL_UPDATE) {
        TR_CHECK(tr_schedule_state_decode((const uint8_t *)w->next.state.at + 1,
                                          w->next.state.len - 1, &step.at) == TARRY_OK);
        judge_moved_on(&c->judge, p, &step);
        if (w->next.last_n != w->is.last_n + step.fires) {
            judge_wrong(&c->judge, "C10: last_n is not the number of jobs", 0);
        }
    }
    if (job != NULL) {
        judge_occurred(&c->judge, (unsigned)(c->sql->is.topics[job->topic - 1].name[1] - '0'),
                       tr_place_slot_of(job->id), job->id);
    }
}

/* ---- processes ---- */

static void heard(void *ctx, struct tr_sql_ask *ask)
{
    struct node *n = ctx;
    struct tr_sql_ear ear = tr_cluster_sql_ear(n->engine);

    tr_cluster_tick(n->engine, net_now(&n->of->net));
    ear.ended(ear.ctx, ask);
    n->of->net.heard[n->number] = true;
}

void commits_init(struct cluster *c, uint64_t seed)
{
    c->sql = malloc(sizeof *c->sql);
    TR_CHECK(c->sql != NULL);
    fake_sql_init(c->sql, seed);
    c->sql->committed = committed;
    c->sql->purged = purged;
    c->sql->marked = marked;
    c->sql->planned = planned;
    c->sql->ctx = c;
    c->sql->breaks = 100;
    c->sql->calm = true; /* until the store was made */
    c->rare = seed % 4 == 1;
    c->sql->skew_us = (int64_t)(seed % 7) * 1000000 - 3000000;
    c->judge.waits = false;
}

void commits_fini(struct cluster *c)
{
    free(c->sql);
}

void commits_start(struct cluster *c, struct node *n, struct tr_cluster_config *config)
{
    n->sql = fake_sql_start(c->sql, n->number, (struct tr_sql_ear){.ctx = n, .ended = heard});
    config->sql = &n->sql;
    config->uuid = "0123456789abcdef0123456789abcdef"; /* the database has it */
    config->sql_connections = FAKE_SQL_CONNS;
    config->sql_batch = 16;
    config->hot_window_us = c->rare ? 10 * WINDOW_US : WINDOW_US;
    config->hot_max = c->judge.take_bytes < 10 ? 4 : 1000;
    config->reconcile_us = c->rare ? RARELY_US : RECONCILE_US;
    config->images_max = c->rare ? 6 : config->images_max;
    config->wait_replicas = 0;
}

void commits_stop(struct cluster *c, struct node *n)
{
    fake_sql_stop(c->sql, n->number);
}

/* ---- faults ---- */

/* All that a server has is gone: it was started anew, or somebody has emptied it. */
static void empty(struct cluster *c, unsigned server)
{
    struct fake_db *none = fake_db_new();
    struct world *w = &c->world;

    fake_db_copy(w->servers[server].replica, none);
    if (world_dice(w, 2)) {
        world_failover(w, server);
        net_break(&c->net, server);
    } else {
        fake_db_copy(w->servers[server].db, none);
        for (unsigned s = 0; s <= SLOTS; s++) {
            w->changes[s] += w->owner[s] == (int)server || w->moving_to[s] == (int)server;
        }
    }
    fake_db_free(none);
}

static void sync(struct cluster *c)
{
    fake_sql_sync(c->sql);
    c->synced_us = c->world.now_us;
}

/* What was committed since the replica heard of it is gone: of those jobs nothing is known. No
 * other one is excused, and no id is (C6). */
static void failover(struct cluster *c)
{
    struct judge *j = &c->judge;

    for (unsigned i = 0; i < j->count; i++) {
        struct sim_job *job = &j->jobs[i];

        if (job->touched_us >= c->synced_us) {
            job->loose = true;
        }
    }
    for (unsigned i = 0; i < PLANS; i++) {
        j->plans[i][0].loose |= j->plans[i][0].touched_us >= c->synced_us;
    }
    fake_sql_failover(c->sql);
    c->synced_us = c->world.now_us;
}

void commits_fate(struct cluster *c)
{
    struct world *w = &c->world;

    if (c->sql->calm) {
        sync(c); /* the store was made, and its topics are known */
    }
    c->sql->calm = false;
    if (world_dice(w, 200)) {
        c->sql->away_until_us = w->now_us + cluster_dice(c, 600000);
    }
    if (world_dice(w, 1500)) { /* longer than a claim in Redis holds */
        c->sql->stall_until_us = w->now_us + 2800000 + cluster_dice(c, 1500000);
    }
    if (world_dice(w, 400)) {
        c->sql->skew_us = (int64_t)cluster_dice(c, 6000000) - 3000000;
        many_stepped(&c->judge);
    }
    if (world_dice(w, 600)) {
        empty(c, (unsigned)cluster_dice(c, SERVERS));
    }
    if (world_dice(w, 150)) {
        sync(c);
    }
    /* A call that its node has given up may arrive late, with an image that was undone: that is
     * found when all is compared. */
    if (world_dice(w, 500) && !c->rare) {
        failover(c);
    }
}

void commits_calm(struct cluster *c)
{
    c->sql->calm = true;
    c->sql->away_until_us = 0;
    c->sql->stall_until_us = 0;
}

uint64_t commits_next(const struct cluster *c)
{
    return fake_sql_next(c->sql);
}

void commits_step(struct cluster *c)
{
    while (fake_sql_step(c->sql, c->world.now_us)) {
    }
}

/* ---- C9 ---- */

static struct fake_reply *ask_redis(struct cluster *c, unsigned slot, const struct tr_span *args,
                                    size_t count)
{
    return world_exec(&c->world, &(struct world_call){.server = (unsigned)c->world.owner[slot],
                                                      .args = args,
                                                      .count = count});
}

static uint32_t gen_of(const struct cluster *c, const struct tr_sql_job *row)
{
    return c->sql->is.topics[row->topic - 1].gen;
}

/* Entries of a slot: ids, and their versions. */
struct entries {
    uint64_t ids[SCAN_MAX];
    struct tr_header heads[SCAN_MAX];
    unsigned count;
};

static void read_entries(struct cluster *c, unsigned slot, struct entries *e)
{
    char key[TR_PLACE_KEY_MAX];
    size_t len = tr_place_key(key, &c->world.layout, slot, 1, NULL);
    struct tr_span keys[] = {{"HKEYS", 5}, {key, len}};
    struct fake_reply *all = ask_redis(c, slot, keys, 2);

    e->count = 0;
    for (size_t i = 0; i < all->is.count && e->count < SCAN_MAX; i++) {
        struct tr_span get[] = {{"HGET", 4}, {key, len}, all->is.items[i]};
        struct fake_reply *one = ask_redis(c, slot, get, 3);
        struct tr_header h;

        if (one->is.count == 1 && one->is.items[0].at != NULL &&
            tr_header_read(one->is.items[0].at, one->is.items[0].len, &h) == TARRY_OK) {
            e->ids[e->count] = strtoull(all->is.items[i].at, NULL, 16);
            e->heads[e->count++] = h;
        }
        fake_reply_free(one);
    }
    fake_reply_free(all);
}

static uint64_t loaded_of(struct cluster *c, unsigned slot, const struct tr_sql_job *row)
{
    char key[TR_PLACE_KEY_MAX];
    size_t len =
        tr_place_key(key, &c->world.layout, slot, 9, c->sql->is.topics[row->topic - 1].name);
    struct tr_span get[] = {{"HGET", 4}, {key, len}, {"loaded", 6}};
    struct fake_reply *one = ask_redis(c, slot, get, 3);
    uint64_t loaded_us = one->is.items[0].at != NULL ? strtoull(one->is.items[0].at, NULL, 10) : 0;

    fake_reply_free(one);
    return loaded_us;
}

/* Does it say what the row says? One that is claimed, or time has changed, has no lease. */
static bool is_alike(const struct tr_header *h, const struct tr_sql_job *row)
{
    return h->priority == row->priority && h->due_us == row->due_us &&
           (h->lease == 0 || (h->lease == row->lease && h->at_us == row->next_us));
}

/* What is wrong, or NULL. */
static const char *check_slot(struct cluster *c, unsigned slot, struct entries *e)
{
    const char *wrong = NULL;

    read_entries(c, slot, e);
    for (unsigned i = 0; i < e->count; i++) {
        const struct fake_sql_row *row = fake_sql_find(c->sql, e->ids[i]);

        if (row == NULL || row->is.gen != gen_of(c, &row->is) || row->is.state == TR_SQL_DEAD) {
            /* A late image of a row that is gone stays until all is compared, or it is due. */
            wrong = c->rare ? wrong : "C9: an entry without a row";
        } else if (row->is.ver != e->heads[i].ver) {
            wrong = "C9: an entry of another version";
        } else if (!is_alike(&e->heads[i], &row->is)) {
            wrong = "C9: an entry that says something else than its row";
        }
    }
    for (unsigned r = 0; r < c->sql->is.count; r++) {
        const struct tr_sql_job *row = &c->sql->is.rows[r].is;
        bool found = tr_place_slot_of(row->id) != slot || row->state == TR_SQL_DEAD ||
                     row->gen != gen_of(c, row) ||
                     (row->state == TR_SQL_WAITING && row->due_us >= loaded_of(c, slot, row));

        for (unsigned i = 0; i < e->count && !found; i++) {
            found = e->ids[i] == row->id;
        }
        if (!found) {
            wrong = "C9: a row is not in the index";
        }
    }
    return wrong;
}

void commits_check(struct cluster *c)
{
    struct entries *e = malloc(sizeof *e);

    TR_CHECK(e != NULL);
    for (unsigned s = 0; s < SLOTS; s++) {
        const char *wrong = check_slot(c, s, e);

        for (unsigned i = 0; i < 3 && wrong != NULL; i++) { /* an image may be on its way */
            cluster_run(c, c->world.now_us + 300000);
            wrong = check_slot(c, s, e);
        }
        if (wrong != NULL) {
            judge_wrong(&c->judge, wrong, s);
        }
    }
    free(e);
}

/* ---- C7 ---- */

static struct tr_topic_stat told; /* of the one request whose answer is noted */

static void stat_done(struct tr_req *r)
{
    told = r->out.stat;
    node_done(r);
}

static uint64_t rows_of(const struct cluster *c, unsigned topic)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < c->sql->is.count; i++) {
        const struct tr_sql_job *row = &c->sql->is.rows[i].is;
        const struct fake_sql_topic *t = &c->sql->is.topics[row->topic - 1];

        count += row->gen == t->gen && t->len == 2 && memcmp(t->name, cluster_topic(topic), 2) == 0;
    }
    return count;
}

/* What a node says of a topic is what rows say. */
void commits_counts(struct cluster *c)
{
    for (unsigned topic = 0; topic < TOPICS; topic++) {
        struct node *n = &c->nodes[cluster_dice(c, NODES)];
        struct ask *a;

        node_push(c, &c->nodes[cluster_dice(c, NODES)], topic, cluster_dice(c, 2) * 1000000);
        cluster_run(c, c->world.now_us + 100000);
        a = node_ask(n, 'x');
        if (a == NULL) {
            continue;
        }
        a->r.op = TR_OP_STAT_TOPIC;
        a->r.topic = n->topics[topic];
        a->r.done = stat_done;
        node_submit(n, a);
        cluster_run(c, c->world.now_us + 300000);
        if (a->busy || a->r.out.status != TARRY_OK ||
            told.ready + told.delayed + told.reserved + told.dead != rows_of(c, topic)) {
            judge_wrong(&c->judge, "C7: counts are not those of the rows", topic);
        }
    }
}

/* ---- C12 ---- */

enum { RACERS = 12 };

void commits_race(struct cluster *c)
{
    unsigned topic = (unsigned)cluster_dice(c, 2);
    struct ask *waits[RACERS];
    uint64_t last_us = 0;

    for (unsigned i = 0; i < RACERS; i++) {
        waits[i] = node_reserve(c, &c->nodes[i % NODES], 1U << topic, 20000000);
    }
    for (unsigned i = 0; i < RACERS; i++) {
        uint64_t delay_us = WINDOW_US / 2 + cluster_dice(c, WINDOW_US);

        node_push_for(c, &c->nodes[cluster_dice(c, NODES)], topic, delay_us, 60000000);
        last_us = c->world.now_us + delay_us > last_us ? c->world.now_us + delay_us : last_us;
        cluster_run(c, c->world.now_us + cluster_dice(c, 100000));
    }
    cluster_run(c, last_us + 150000);
    for (unsigned i = 0; i < RACERS && c->judge.wrong[0] == '\0'; i++) {
        if (waits[i] != NULL && waits[i]->busy) {
            judge_wrong(&c->judge, "C12: a job is late since its row was not loaded", topic);
        }
    }
}

/* The database says nothing for longer than a claim in Redis holds: what was named is named again,
 * to others, and both wait for it. One of them has it. */
void commits_stall(struct cluster *c)
{
    struct node *n = &c->nodes[cluster_dice(c, NODES)];
    unsigned topic = (unsigned)cluster_dice(c, 2);

    for (unsigned i = 0; i < RACERS / 2; i++) {
        node_push_for(c, &c->nodes[cluster_dice(c, NODES)], topic, 0, 60000000);
    }
    cluster_run(c, c->world.now_us + 300000);
    c->sql->stall_until_us = c->world.now_us + 3100000 + cluster_dice(c, 600000);
    for (unsigned i = 0; i < RACERS; i++) {
        (void)node_reserve(c, n, 1U << topic, 6000000);
        cluster_run(c, c->world.now_us + 10000 + cluster_dice(c, 60000));
    }
    cluster_run(c, c->world.now_us + 7000000);
}
