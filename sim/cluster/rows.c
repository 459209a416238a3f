/*
 * Three nodes over one database that is none (fake_sql.c). Clients of each push, claim, ack,
 * release, touch, cancel, fire and bury, in batches, whatever others do to the same jobs; topics
 * are purged; nodes die; the database is away, and loses answers. Who has a job, and whether it is
 * due, only rows know: there is no index here, so every node tries any job at any time.
 *
 * What has to hold (the names are those of doc/cluster.md):
 *
 *     C1 what was answered as pushed comes out, or is there at the end
 *     C2 nothing is handed out before it is due, by the database's clock
 *     C3 nothing is handed out after an answered ack, cancel or purge
 *     C4 no two clients hold a job at a time
 *     C5 DONE was committed once, UNDONE never, UNSURE once at most; one client's ack is DONE
 *     C6 no id twice
 *     C7 counts are those of the rows
 */

#include "rows.h"

#include "base/check.h"
#include "cluster/header.h"
#include "cluster/truth.h"
#include "fake_sql.h"

#include <stdio.h>
#include <string.h>

enum {
    NODES = FAKE_SQL_NODES,
    TOPICS = 3,
    JOBS = 600,
    ITEMS = 6,
    SLOTS = FAKE_SQL_SLOTS,
    BLOCK = 16,
    BUGS = 8,
};

#define STEP_US UINT64_C(20000)

struct job {
    uint64_t id;
    uint32_t topic;
    bool pushed; /* somebody was told */
    bool unsure; /* of its push, or its end */
    bool ended;  /* somebody was told that it is gone */
    bool purged; /* perhaps */
    bool died;
    uint64_t holder_lease; /* of a client who believes to have it, */
    uint64_t holder_until_us;
    uint64_t until_us; /* the end of its last lease, by its row */
};

struct op {
    struct tr_truth t; /* first: it is the ctx of the item */
    struct job *job;
    uint64_t lease;   /* as the client has it */
    uint64_t made_us; /* one of many: if it was made until then */
    unsigned commits;
    char body[8];
};

struct batch {
    struct tr_sql_ask ask;
    struct tr_sql_item items[ITEMS];
    struct op ops[ITEMS];
    bool flying;
};

struct node {
    unsigned number;
    struct tr_sql_port port;
    struct batch batches[FAKE_SQL_CONNS];
    uint64_t next[SLOTS]; /* ids: the next, */
    uint64_t end[SLOTS];  /* and the end of the block */
    struct tr_sql_ask block;
    bool asks_block;
    uint64_t leases;
};

static struct {
    struct fake_sql db;
    struct tr_rng rng;
    struct node nodes[NODES];
    struct job jobs[JOBS];
    unsigned count;
    unsigned bug;
    uint64_t lives;
    uint64_t handed;
    char wrong[200];
} g;

static void wrong(const char *what, const struct job *j)
{
    if (g.wrong[0] == '\0') {
        (void)snprintf(g.wrong, sizeof g.wrong, "%s: job %llu at %llu", what,
                       (unsigned long long)(j != NULL ? j->id : 0),
                       (unsigned long long)g.db.now_us);
    }
}

/* ---- bugs ---- */

static const char *const bugs[BUGS] = {
    "claim without the row's test", "gen not in the claim",     "any lease will do",
    "unsure counts as undone",      "a lease that ended holds", "an id block is used twice",
    "a sweep takes what lives",     "a bulk takes any job",
};

const char *rows_bug(unsigned bug)
{
    return bug >= 1 && bug <= BUGS ? bugs[bug - 1] : NULL;
}

/* The decisions, with the bug of the day: rows are shown to them as they are not. */
static void decide(struct tr_sql_ask *ask, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        struct tr_sql_item *item = &ask->items[i];
        struct op *op = item->ctx;

        if (g.bug == 1 && item->found && op->t.what == TR_TRUTH_CLAIM) {
            item->row.state = TR_SQL_WAITING;
            item->row.due_us = 0;
        } else if (g.bug == 2 && item->found) {
            item->row.gen = item->gen;
        } else if (g.bug == 3 && item->found) {
            op->t.lease = item->row.lease != 0 ? item->row.lease : op->t.lease;
        } else if (g.bug == 5 && item->found && op->t.what == TR_TRUTH_ACK) {
            item->row.next_us += 60000000;
        } else if (g.bug == 7 && item->found && op->t.what == TR_TRUTH_SWEEP) {
            item->gen = item->row.gen + 1;
        } else if (g.bug == 8 && op->t.many) {
            op->t.made_us = UINT64_MAX;
        }
    }
    tr_truth_decide(ask, from, to);
}

/* ---- what happens in the database ---- */

static void committed(void *ctx, unsigned node, const struct tr_sql_ask *ask,
                      const struct tr_sql_item *item)
{
    struct op *op = item->ctx;
    struct job *j = op->job;
    bool hands = op->t.what == TR_TRUTH_CLAIM && op->t.said == TR_TRUTH_DONE;

    (void)ctx;
    (void)node;
    (void)ask;
    op->commits++;
    if (op->commits > 1) {
        wrong("C5: committed twice", j);
    }
    if (op->t.what == TR_TRUTH_ACK && op->t.said == TR_TRUTH_DONE &&
        (item->row.lease != op->lease || op->lease == 0 || j->until_us <= g.db.now_us)) {
        wrong("C5: ended by a stranger", j);
    }
    if (op->t.many && op->t.said == TR_TRUTH_DONE && item->row.created_us > op->made_us) {
        wrong("C5: one of many that came later", j);
    }
    if (op->t.what == TR_TRUTH_SWEEP && item->write == TR_SQL_DELETE &&
        item->row.gen == g.db.is.topics[j->topic - 1].gen) {
        wrong("C1: swept, and not purged", j);
    }
    if (item->write == TR_SQL_UPDATE && item->next.state == TR_SQL_RESERVED) {
        j->until_us = item->next.next_us;
    }
    if (hands) {
        const struct fake_sql_row *row = fake_sql_find(&g.db, j->id);

        if (row->is.due_us > g.db.now_us) {
            wrong("C2: early", j);
        }
        if (j->ended) {
            wrong("C3: handed out after its end", j);
        }
        g.handed++;
    }
}

/* ---- what clients are told ---- */

static void told_done(struct op *op)
{
    struct job *j = op->job;
    bool done = op->t.said == TR_TRUTH_DONE;

    switch (op->t.what) {
    case TR_TRUTH_PUSH:
        j->pushed = true;
        break;
    case TR_TRUTH_CLAIM:
        if (done && j->holder_lease != 0 && g.db.now_us < j->holder_until_us) {
            wrong("C4: two have it", j);
        }
        if (done) {
            j->holder_lease = op->t.lease;
            j->holder_until_us = op->t.is.next_us;
        }
        break;
    case TR_TRUTH_ACK:
        if (done && j->ended) {
            wrong("C5: two ended it", j);
        }
        j->ended |= done;
        j->holder_lease = done ? 0 : j->holder_lease;
        break;
    case TR_TRUTH_CANCEL:
        j->ended |= done;
        break;
    case TR_TRUTH_TOUCH:
        j->holder_until_us = done ? op->t.is.next_us : j->holder_until_us;
        break;
    case TR_TRUTH_RELEASE:
        j->holder_lease = done ? 0 : j->holder_lease;
        break;
    default:
        break;
    }
    j->died |= op->t.said != TR_TRUTH_NONE && op->t.is.state == TR_SQL_DEAD;
}

static void ended(void *ctx, struct tr_sql_ask *ask)
{
    struct node *n = ctx;

    if (ask == &n->block) {
        n->asks_block = false;
        if (ask->end == TR_SQL_DONE) {
            n->next[ask->slot] = ask->first;
            n->end[ask->slot] = ask->first + BLOCK;
        }
        return;
    }
    for (unsigned i = 0; i < ask->count; i++) {
        struct op *op = ask->items[i].ctx;
        enum tr_sql_end end = ask->items[i].end;

        end = g.bug == 4 && end == TR_SQL_UNSURE ? TR_SQL_UNDONE : end;
        if (end == TR_SQL_DONE) {
            if (op->commits != 1) {
                wrong("C5: done, and never committed", op->job);
            }
            told_done(op);
        } else if (end == TR_SQL_UNDONE && op->commits != 0) {
            wrong("C5: undone, and committed", op->job);
        } else if (end == TR_SQL_UNSURE) {
            op->job->unsure = true;
            op->job->holder_lease = 0;
        }
    }
    n->batches[ask->conn].flying = false;
}

/* ---- what clients ask ---- */

static bool is_in(const struct batch *b, const struct job *j)
{
    for (unsigned i = 0; i < b->ask.count; i++) {
        if (b->ops[i].job == j) {
            return true;
        }
    }
    return false;
}

static bool push(struct node *n, struct tr_sql_item *item, struct op *op, unsigned slot)
{
    struct job *j = &g.jobs[g.count];

    if (g.count == JOBS || n->next[slot] >= n->end[slot]) {
        return false;
    }
    *j = (struct job){.id = n->next[slot]++ * 1024 + slot,
                      .topic = 1 + (uint32_t)tr_rng_below(&g.rng, TOPICS)};
    for (unsigned i = 0; i < g.count; i++) {
        if (g.jobs[i].id == j->id) {
            wrong("C6: an id twice", j);
            return false;
        }
    }
    g.count++;
    op->job = j;
    op->t.what = TR_TRUTH_PUSH;
    op->t.delay_us = tr_rng_below(&g.rng, 2000000);
    op->t.job =
        (struct tr_sql_job){.ttr_us = 500000, .retries = TR_RETRIES_USUAL, .body = {op->body, 4}};
    item->by = TR_SQL_NEW;
    item->topic = j->topic;
    item->id = j->id;
    return true;
}

static bool change(struct node *n, struct tr_sql_item *item, struct op *op, unsigned slot)
{
    static const enum tr_truth_what whats[] = {
        TR_TRUTH_CLAIM,     TR_TRUTH_CLAIM, TR_TRUTH_CLAIM,  TR_TRUTH_ACK,  TR_TRUTH_ACK,
        TR_TRUTH_RELEASE,   TR_TRUTH_TOUCH, TR_TRUTH_CANCEL, TR_TRUTH_FIRE, TR_TRUTH_TEND,
        TR_TRUTH_BURY_FREE, TR_TRUTH_SWEEP, TR_TRUTH_SHIFT};
    struct job *j = g.count > 0 ? &g.jobs[tr_rng_below(&g.rng, g.count)] : NULL;

    if (j == NULL || j->id % 1024 % FAKE_SQL_CONNS != slot % FAKE_SQL_CONNS) {
        return false;
    }
    op->job = j;
    op->t.what = whats[tr_rng_below(&g.rng, sizeof whats / sizeof whats[0])];
    if (op->t.what == TR_TRUTH_CANCEL && tr_rng_below(&g.rng, 8) != 0) {
        op->t.what = TR_TRUTH_CLAIM;
    }
    op->t.lease = op->t.what == TR_TRUTH_CLAIM ? ++n->leases * 8 + n->number : j->holder_lease;
    op->t.ttr_us = op->t.what == TR_TRUTH_CLAIM ? 1 + tr_rng_below(&g.rng, 800000) : 0;
    op->lease = op->t.lease;
    op->t.many = op->t.what == TR_TRUTH_SHIFT ||
                 (op->t.what == TR_TRUTH_CANCEL && tr_rng_below(&g.rng, 2) == 0);
    op->made_us = fake_sql_clock(&g.db) - tr_rng_below(&g.rng, 3000000);
    op->t.made_us = op->made_us;
    op->t.shift_us = (int64_t)tr_rng_below(&g.rng, 2000000) - 1000000;
    item->by = TR_SQL_BY_ID;
    item->id = j->id;
    return true;
}

static void ask(struct node *n, unsigned conn)
{
    struct batch *b = &n->batches[conn];
    unsigned slot = conn + FAKE_SQL_CONNS * (unsigned)tr_rng_below(&g.rng, SLOTS / FAKE_SQL_CONNS);
    unsigned want = 1 + (unsigned)tr_rng_below(&g.rng, ITEMS);

    if (n->next[slot] >= n->end[slot] && !n->asks_block) {
        n->block = (struct tr_sql_ask){
            .kind = TR_SQL_BLOCK, .conn = conn, .slot = slot, .number = g.bug == 6 ? 8 : BLOCK};
        n->asks_block = true;
        n->port.send(n->port.ctx, &n->block);
    }
    b->ask = (struct tr_sql_ask){
        .kind = TR_SQL_CHANGE, .conn = conn, .items = b->items, .decide = decide};
    for (unsigned tries = 0; tries < 3 * want && b->ask.count < want; tries++) {
        struct tr_sql_item *item = &b->items[b->ask.count];
        struct op *op = &b->ops[b->ask.count];
        bool added;

        *item = (struct tr_sql_item){.ctx = op};
        *op = (struct op){.body = "body"};
        op->t.random = tr_rng_next(&g.rng);
        op->t.keep_priority = true;
        op->t.delay_us = tr_rng_below(&g.rng, 300000);
        added = tr_rng_below(&g.rng, 3) == 0 ? push(n, item, op, slot) : change(n, item, op, slot);
        b->ask.count += added && !is_in(b, op->job);
    }
    b->flying = b->ask.count > 0;
    if (b->flying) {
        n->port.send(n->port.ctx, &b->ask);
    }
}

/* ---- the world ---- */

static void start(struct node *n)
{
    struct node fresh = {.number = n->number, .leases = ++g.lives << 32};

    for (unsigned conn = 0; conn < FAKE_SQL_CONNS; conn++) { /* what it did is not known */
        struct batch *b = &n->batches[conn];

        for (unsigned i = 0; b->flying && i < b->ask.count; i++) {
            b->ops[i].job->unsure = true;
            b->ops[i].job->holder_lease = 0;
        }
    }
    fresh.port = fake_sql_start(&g.db, n->number, (struct tr_sql_ear){.ctx = n, .ended = ended});
    *n = fresh;
}

static void purge(uint32_t topic)
{
    g.db.is.topics[topic - 1].gen++;
    for (unsigned i = 0; i < g.count; i++) {
        struct job *j = &g.jobs[i];
        const struct fake_sql_row *row = fake_sql_find(&g.db, j->id);

        if (j->topic == topic) {
            j->purged = true; /* or is on its way, and made before or after it */
            j->ended |= row != NULL && row->is.gen != g.db.is.topics[topic - 1].gen;
        }
    }
}

static void fault(void)
{
    switch (tr_rng_below(&g.rng, 60)) {
    case 0:
        g.db.away_until_us = g.db.now_us + tr_rng_below(&g.rng, 300000);
        break;
    case 1:
        start(&g.nodes[tr_rng_below(&g.rng, NODES)]);
        break;
    case 2:
        purge(1 + (uint32_t)tr_rng_below(&g.rng, TOPICS));
        break;
    case 3:
        g.db.now_us += tr_rng_below(&g.rng, 500000); /* its clock steps */
        break;
    default:
        break;
    }
}

/* All that should be there is there. */
static void judge_end(void)
{
    unsigned live[TOPICS + 1] = {0};

    for (unsigned i = 0; i < g.count; i++) {
        const struct job *j = &g.jobs[i];

        if (j->pushed && !j->ended && !j->unsure && !j->purged &&
            fake_sql_find(&g.db, j->id) == NULL) {
            wrong("C1: lost", j);
        }
    }
    for (unsigned i = 0; i < g.db.is.count; i++) {
        const struct tr_sql_job *is = &g.db.is.rows[i].is;

        live[is->topic] += is->gen == g.db.is.topics[is->topic - 1].gen;
        if ((is->lease != 0) != (is->state == TR_SQL_RESERVED) ||
            (is->state == TR_SQL_WAITING && is->next_us != is->due_us)) {
            wrong("a row makes no sense", NULL);
        }
    }
    if (g.handed == 0) {
        wrong("nothing was handed out", NULL);
    }
}

const char *rows_run(uint64_t seed, unsigned bug)
{
    memset(&g, 0, sizeof g);
    g.rng.state = seed * 7919;
    g.bug = bug;
    fake_sql_init(&g.db, seed);
    g.db.committed = committed;
    g.db.is.topic_count = TOPICS;
    for (unsigned i = 0; i < NODES; i++) {
        g.nodes[i].number = i;
        start(&g.nodes[i]);
    }
    for (unsigned round = 0; round < 600 && g.wrong[0] == '\0'; round++) {
        uint64_t until_us = g.db.now_us + 1 + tr_rng_below(&g.rng, STEP_US);

        while (fake_sql_step(&g.db, until_us)) {
        }
        for (unsigned i = 0; i < NODES * FAKE_SQL_CONNS; i++) {
            struct node *n = &g.nodes[i / FAKE_SQL_CONNS];

            if (!n->batches[i % FAKE_SQL_CONNS].flying && tr_rng_below(&g.rng, 2) == 0) {
                ask(n, i % FAKE_SQL_CONNS);
            }
        }
        fault();
    }
    g.db.calm = true;
    while (fake_sql_step(&g.db, g.db.now_us + 10000000)) {
    }
    judge_end();
    return g.wrong[0] != '\0' ? g.wrong : NULL;
}
