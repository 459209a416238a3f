/*
 * Load on a real database through port/sql.h (remote/sql.c), while a test breaks things.
 *
 *     sql-tool URL USER PASSWORD CONNECTIONS SECONDS SEED [bad]
 *
 * It makes, claims, releases, edits, replaces and deletes jobs at random, in batches, and has a
 * model of each, which nobody else changes: what `decide` reads has to be the model to the byte.
 * After so many seconds it looks at all jobs, and at counts and pages. At its end it prints one
 * line of counts: wrong (a row was not as the model), missing, extra, miscounted are to be 0.
 *
 * bad: each batch has an item that the database refuses, and only that one is to be refused.
 */

#include "base/err.h"
#include "base/rng.h"
#include "base/text.h"
#include "remote/sql.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOTS = 8,
    TOPICS = 3,
    BATCH = 48,
    PER_SLOT = 3000, /* jobs */
    KEYS = 40,       /* of a slot */
    BODY = 64,
    PATIENCE_MS = 120000,
};

enum what { MAKE, MAKE_KEYED, CLAIM, RELEASE, EDIT, FINISH, BAD, WHATS };

struct job {
    uint64_t id;
    bool there;
    bool busy;
    bool unsure;
    struct tr_sql_job is; /* without texts */
    uint32_t body_ver;    /* the body is made from this */
    char key[40];         /* empty: none */
};

struct op {
    enum what what;
    struct job *job;
    struct job *before; /* the one that had the key, or NULL */
    bool replaces;      /* it stays, and is changed; else it goes */
    bool wrong;
    uint64_t lease;
    struct tr_sql_job after;
    char body[BODY];
    char tag[80];
};

struct batch {
    struct tr_sql_ask ask;
    struct tr_sql_item items[BATCH];
    struct op ops[BATCH];
    unsigned slot;
    bool flying;
};

static struct {
    struct tr_sql *sql;
    struct tr_sql_port port;
    int wake;
    unsigned conns;
    unsigned name; /* of this process, in keys */
    bool bad;
    struct tr_rng rng;
    struct job jobs[SLOTS][PER_SLOT];
    unsigned count[SLOTS];
    uint64_t next_seq[SLOTS];
    struct batch batches[SLOTS];
    uint32_t topics[TOPICS];
    uint64_t leases;
    uint64_t done, undone, unsure, wrong, missing, extra, miscounted, refused;
    bool small_done;
    bool away; /* the last end was that */
} g;

static uint64_t now_ms(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000 + (uint64_t)at.tv_nsec / 1000000;
}

static void wake(void *ctx)
{
    uint64_t one = 1;
    ssize_t n = write(g.wake, &one, sizeof one);

    (void)ctx;
    (void)n;
}

static void pump(int ms)
{
    struct pollfd p = {.fd = g.wake, .events = POLLIN};
    uint64_t count;

    if (poll(&p, 1, ms) > 0) {
        ssize_t n = read(g.wake, &count, sizeof count);

        (void)n;
    }
    tr_sql_collect(g.sql);
}

static void fail(const char *what, const char *why)
{
    printf("failed: %s: %s\n", what, why);
    exit(1);
}

/* A small ask, again and again until it is done. */
static void ask_until_done(struct tr_sql_ask *ask, const char *what)
{
    uint64_t until = now_ms() + PATIENCE_MS;

    do {
        g.small_done = false;
        g.port.send(g.port.ctx, ask);
        while (!g.small_done) {
            pump(1000);
        }
        if (ask->end != TR_SQL_DONE) {
            pump(50);
        }
    } while (ask->end != TR_SQL_DONE && now_ms() < until);
    if (ask->end != TR_SQL_DONE) {
        fail(what, "not in time");
    }
}

/* ---- texts, made from numbers, with all bytes that could be trouble ---- */

static struct tr_span body_of(char out[BODY], uint64_t id, uint32_t ver)
{
    static const char odd[] = {'\'', '\\', '\0', '"', '\n', '\x1a', '`', '\xff', '%', ';'};
    int len = snprintf(out, BODY, "%" PRIu64 ":%u:", id, ver);

    for (unsigned i = 0; i < (id + ver) % 20; i++) {
        out[len++] = odd[(id / 1024 + i) % sizeof odd];
    }
    return (struct tr_span){out, (size_t)len};
}

static bool same(struct tr_span a, struct tr_span b)
{
    return a.len == b.len &&
           (a.len == 0 || (a.at != NULL && b.at != NULL && memcmp(a.at, b.at, a.len) == 0));
}

static struct tr_span key_of(const struct job *j)
{
    return (struct tr_span){j->key[0] != '\0' ? j->key : NULL, strlen(j->key)};
}

/* Is the row what the model says? */
static bool fits(const struct job *j, const struct tr_sql_job *row, bool bodies)
{
    const struct tr_sql_job *is = &j->is;
    char body[BODY];
    struct tr_span text = body_of(body, j->id, j->body_ver);

    return row->id == j->id && row->topic == is->topic && row->ver == is->ver &&
           row->state == is->state && row->lease == is->lease && row->due_us == is->due_us &&
           row->next_us == is->next_us && row->attempts == is->attempts &&
           row->priority == is->priority && row->body_len == text.len &&
           same(row->key, key_of(j)) && (!bodies || same(row->body, text));
}

/* ---- what is done ---- */

static void decide_one(struct tr_sql_ask *ask, struct tr_sql_item *item, struct op *op)
{
    const struct job *was = op->what == MAKE_KEYED ? op->before : op->job;
    bool expects = op->what != MAKE && op->what != BAD && was != NULL && was->there;

    op->wrong = item->found != expects || (expects && !fits(was, &item->row, true));
    if (op->wrong) {
        return;
    }
    op->after = item->found ? item->row : (struct tr_sql_job){.id = item->id, .topic = item->topic};
    op->after.ver++;
    op->after.changed_us = ask->now_us;
    item->write = TR_SQL_UPDATE;
    switch (op->what) {
    case MAKE_KEYED:
        if (item->found && !op->replaces) {
            op->after = (struct tr_sql_job){.id = item->id, .topic = item->topic, .ver = 1};
            item->found = true;
        }
        op->after.key = item->key;
        /* fall through */
    case MAKE:
    case BAD:
        item->write = item->found && op->replaces ? TR_SQL_UPDATE : TR_SQL_INSERT;
        item->with_body = true;
        op->after.gen = item->gen;
        op->after.due_us = op->after.next_us = ask->now_us + op->lease;
        op->after.created_us = ask->now_us;
        op->after.tag = (struct tr_span){op->tag, strlen(op->tag)};
        op->after.body = body_of(op->body, op->after.id, op->after.ver);
        op->after.body_len = op->after.body.len;
        break;
    case CLAIM:
        op->after.state = TR_SQL_RESERVED;
        op->after.attempts++;
        op->after.lease = op->lease;
        op->after.next_us = ask->now_us + 1000000;
        break;
    case RELEASE:
        op->after.state = TR_SQL_WAITING;
        op->after.lease = 0;
        op->after.next_us = op->after.due_us = ask->now_us + 5000;
        break;
    case EDIT:
        op->after.priority += 7;
        item->with_body = true;
        op->after.body = body_of(op->body, op->after.id, op->after.ver);
        op->after.body_len = op->after.body.len;
        break;
    default:
        item->write = TR_SQL_DELETE;
        item->events[0] = (struct tr_sql_event){.event = 1, .from = item->row.state};
        item->event_count = 1;
        break;
    }
    item->next = op->after;
}

static void decide(struct tr_sql_ask *ask, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        decide_one(ask, &ask->items[i], ask->items[i].ctx);
    }
}

static void make_key(struct batch *b, struct tr_sql_item *item, struct op *op)
{
    unsigned slot = b->slot;

    tr_text(op->job->key, sizeof op->job->key, "k'%u.%u.%u", g.name, slot,
            (unsigned)tr_rng_below(&g.rng, KEYS));
    for (unsigned i = 0; i < g.count[slot]; i++) {
        struct job *other = &g.jobs[slot][i];

        if (other != op->job && strcmp(other->key, op->job->key) == 0 &&
            (other->there || other->busy || other->unsure)) {
            if (other->busy || other->unsure) {
                op->job->key[0] = '\0'; /* one that is on its way: no key then */
                return;
            }
            op->before = other;
            item->topic = other->is.topic;
        }
    }
    op->what = MAKE_KEYED;
    op->replaces = tr_rng_below(&g.rng, 2) == 0;
    item->by = TR_SQL_NEW_KEY;
    item->key = (struct tr_span){op->job->key, strlen(op->job->key)};
    if (op->before != NULL) {
        op->before->busy = true;
    }
}

static bool add_new(struct batch *b, struct tr_sql_item *item, struct op *op)
{
    unsigned slot = b->slot;

    if (g.count[slot] == PER_SLOT) {
        return false;
    }
    op->job = &g.jobs[slot][g.count[slot]++];
    *op->job = (struct job){.id = g.next_seq[slot]++ * 1024 + slot, .busy = true};
    op->what = MAKE;
    item->by = TR_SQL_NEW;
    item->id = op->job->id;
    item->topic = g.topics[op->job->id / 1024 % TOPICS]; /* keys of one topic only */
    tr_text(op->tag, sizeof op->tag, "t\\%u", slot);
    if (tr_rng_below(&g.rng, 3) == 0) {
        item->topic = g.topics[0];
        make_key(b, item, op);
    }
    return true;
}

static bool add_old(const struct batch *b, struct tr_sql_item *item, struct op *op)
{
    struct job *j =
        g.count[b->slot] > 0 ? &g.jobs[b->slot][tr_rng_below(&g.rng, g.count[b->slot])] : NULL;

    if (j == NULL || !j->there || j->busy || j->unsure) {
        return false;
    }
    j->busy = true;
    op->job = j;
    op->what = j->is.state == TR_SQL_RESERVED ? (tr_rng_below(&g.rng, 3) == 0 ? RELEASE : FINISH)
               : tr_rng_below(&g.rng, 5) == 0 ? EDIT
                                              : CLAIM;
    item->by = j->key[0] != '\0' && tr_rng_below(&g.rng, 2) == 0 ? TR_SQL_BY_KEY : TR_SQL_BY_ID;
    item->id = j->id;
    item->topic = j->is.topic;
    item->key = item->by == TR_SQL_BY_KEY ? key_of(j) : (struct tr_span){0};
    return true;
}

static void send_batch(struct batch *b)
{
    unsigned want = 1 + (unsigned)tr_rng_below(&g.rng, BATCH - 1);

    b->ask = (struct tr_sql_ask){.kind = TR_SQL_CHANGE,
                                 .conn = b->slot % g.conns,
                                 .ctx = b,
                                 .items = b->items,
                                 .with_bodies = true,
                                 .decide = decide};
    for (unsigned tries = 0; tries < 2 * want && b->ask.count < want; tries++) {
        struct tr_sql_item *item = &b->items[b->ask.count];
        struct op *op = &b->ops[b->ask.count];
        bool added;

        *item = (struct tr_sql_item){.ctx = op};
        *op = (struct op){.lease = ++g.leases};
        added = tr_rng_below(&g.rng, 3) == 0 ? add_new(b, item, op) : add_old(b, item, op);
        b->ask.count += added;
    }
    if (g.bad && b->ask.count < BATCH) {
        struct tr_sql_item *item = &b->items[b->ask.count];
        struct op *op = &b->ops[b->ask.count];

        *item = (struct tr_sql_item){.ctx = op};
        *op = (struct op){.lease = 1};
        if (add_new(b, item, op)) {
            b->ask.count++;
            if (op->what == MAKE) {
                op->what = BAD;
                memset(op->tag, 'x', 65); /* one more than there is room for */
            }
        }
    }
    if (b->ask.count > 0) {
        b->flying = true;
        g.port.send(g.port.ctx, &b->ask);
    }
}

static void took_effect(struct op *op, const struct tr_sql_item *item)
{
    struct job *j =
        op->what == MAKE_KEYED && op->before != NULL && op->replaces ? op->before : op->job;

    if (op->before != NULL && !op->replaces) {
        op->before->there = false;
    }
    j->there = item->write != TR_SQL_DELETE;
    j->is = op->after;
    if (item->with_body) {
        j->body_ver = op->after.ver;
    }
    j->is.tag = j->is.key = j->is.backoff = j->is.body = (struct tr_span){0};
}

static struct tr_sql_counts sums[TOPICS];
static uint64_t rows_found;

static void looked_at(const struct tr_sql_item *item)
{
    const struct job *j = item->ctx;
    const struct tr_sql_job *row = &item->row;

    if (!j->unsure) {
        g.missing += j->there && !item->found;
        g.extra += !j->there && item->found;
        g.wrong += j->there && item->found && !fits(j, row, false);
    }
    for (unsigned t = 0; item->found && t < TOPICS; t++) {
        if (row->topic == g.topics[t]) {
            sums[t].waiting += row->state == TR_SQL_WAITING;
            sums[t].reserved += row->state == TR_SQL_RESERVED;
            sums[t].bytes += (int64_t)row->body_len;
        }
    }
    rows_found += item->found;
}

/* What was read is good only now. */
static void ended_small(struct tr_sql_ask *ask)
{
    g.small_done = true;
    for (unsigned i = 0; ask->kind == TR_SQL_LOOK && ask->end == TR_SQL_DONE && i < ask->count;
         i++) {
        looked_at(&ask->items[i]);
    }
    if (ask->kind == TR_SQL_PAGE && ask->end == TR_SQL_DONE && ask->count > 0) {
        ask->from_us = ask->rows[ask->count - 1].next_us;
        ask->from_id = ask->rows[ask->count - 1].id;
    }
}

static void ended(void *ctx, struct tr_sql_ask *ask)
{
    struct batch *b = ask->ctx;

    (void)ctx;
    if (b == NULL) {
        ended_small(ask);
        return;
    }
    b->flying = false;
    g.away = false;
    for (unsigned i = 0; i < ask->count; i++) {
        const struct tr_sql_item *item = &ask->items[i];
        struct op *op = &b->ops[i];

        op->job->busy = false;
        if (op->before != NULL) {
            op->before->busy = false;
        }
        if (op->wrong) {
            g.wrong++;
        } else if (item->end == TR_SQL_DONE) {
            g.done++;
            g.wrong += op->what == BAD; /* it should have been refused */
            took_effect(op, item);
        } else if (item->end == TR_SQL_UNSURE) {
            g.unsure++;
            op->job->unsure = true;
            if (op->before != NULL) {
                op->before->unsure = true;
            }
        } else {
            g.undone++;
            g.refused += op->what == BAD && item->blame == TR_SQL_BAD;
            g.away |= item->blame == TR_SQL_AWAY;
        }
    }
}

/* ---- at the end ---- */

static void look_at(unsigned slot, unsigned from, unsigned count)
{
    static struct tr_sql_item items[BATCH];
    struct tr_sql_ask ask = {
        .kind = TR_SQL_LOOK, .conn = slot % g.conns, .items = items, .count = count};

    for (unsigned i = 0; i < count; i++) {
        struct job *j = &g.jobs[slot][from + i];

        items[i] = (struct tr_sql_item){.by = TR_SQL_BY_ID, .id = j->id, .ctx = j};
        if (j->there && j->key[0] != '\0' && j->id / 1024 % 2 == 0) {
            items[i].by = TR_SQL_BY_KEY;
            items[i].topic = j->is.topic;
            items[i].key = key_of(j);
        }
    }
    ask_until_done(&ask, "look");
}

static uint64_t count_pages(void)
{
    uint64_t rows = 0;

    for (unsigned n = 0; n < SLOTS * TOPICS * 2; n++) {
        struct tr_sql_ask ask = {.kind = TR_SQL_PAGE,
                                 .conn = n % g.conns,
                                 .slot = n % SLOTS,
                                 .topic = g.topics[n / SLOTS % TOPICS],
                                 .state = (uint8_t)(n / SLOTS / TOPICS),
                                 .until_us = INT64_MAX,
                                 .number = 50};

        do {
            ask_until_done(&ask, "page");
            rows += ask.count;
        } while (ask.count == 50);
    }
    return rows;
}

static void check_all(void)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        for (unsigned i = 0; i < g.count[slot]; i += BATCH) {
            look_at(slot, i, g.count[slot] - i < BATCH ? g.count[slot] - i : BATCH);
        }
    }
    for (unsigned t = 0; t < TOPICS; t++) {
        struct tr_sql_ask ask = {.kind = TR_SQL_COUNT, .topic = g.topics[t]};

        ask_until_done(&ask, "count");
        g.miscounted += ask.counts.waiting != sums[t].waiting ||
                        ask.counts.reserved != sums[t].reserved || ask.counts.dead != 0 ||
                        ask.counts.bytes != sums[t].bytes;
    }
    g.miscounted += count_pages() != rows_found;
}

static void prepare(void)
{
    for (unsigned t = 0; t < TOPICS; t++) {
        char name[16];
        struct tr_sql_ask ask = {.kind = TR_SQL_TOPIC, .makes = true, .spread = 4, .order = 1};
        struct tr_sql_ask again;

        tr_text(name, sizeof name, "to'pic%u", t);
        ask.name = (struct tr_span){name, strlen(name)};
        ask_until_done(&ask, "topic");
        again = (struct tr_sql_ask){.kind = TR_SQL_TOPIC, .name = ask.name};
        ask_until_done(&again, "topic");
        if (ask.topic == 0 || again.topic != ask.topic || again.spread != 4 || again.order != 1) {
            fail("topic", "is another one");
        }
        g.topics[t] = ask.topic;
    }
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        struct tr_sql_ask ask = {.kind = TR_SQL_BLOCK, .slot = slot, .number = PER_SLOT};
        struct tr_sql_ask next = ask;

        ask_until_done(&ask, "block");
        ask_until_done(&next, "block");
        if (next.first < ask.first + PER_SLOT) {
            fail("block", "ids twice");
        }
        g.next_seq[slot] = next.first;
    }
}

/* Epochs: who is right gets the slot, who comes late does not. */
static void check_owning(void)
{
    unsigned slot = 100 + g.name % 100; /* of this tool's own */
    struct tr_sql_ask look = {.kind = TR_SQL_OWN, .slot = slot, .node = 7, .epoch = UINT32_MAX};
    struct tr_sql_ask mine;

    ask_until_done(&look, "own");
    mine = (struct tr_sql_ask){
        .kind = TR_SQL_OWN, .slot = slot, .node = 7, .epoch = (uint32_t)look.first};
    ask_until_done(&mine, "own");
    look = (struct tr_sql_ask){
        .kind = TR_SQL_OWN, .slot = slot, .node = 8, .epoch = (uint32_t)look.first};
    ask_until_done(&look, "own");
    if (mine.number != 1 || look.number != 0 || look.first != mine.first) {
        fail("own", "the epoch does not decide");
    }
}

int main(int argc, char **argv)
{
    struct tr_sql_setup setup = {.timeout_s = 20, .patience_ms = PATIENCE_MS / 2, .wake = wake};
    struct tr_sql_stat stat;
    uint64_t until;
    bool flying;

    if (argc < 7) {
        return 2;
    }
    setup.url = argv[1];
    setup.user = argv[2];
    setup.password = argv[3];
    setup.connections = g.conns = (unsigned)strtoul(argv[4], NULL, 10);
    g.rng.state = strtoull(argv[6], NULL, 10);
    g.name = (unsigned)g.rng.state;
    setup.node = tr_rng_next(&g.rng);
    g.bad = argc > 7 && strcmp(argv[7], "bad") == 0;
    if (argc > 7 && strcmp(argv[7], "server") == 0) { /* as patient as `tarry serve` */
        setup.timeout_s = 4;
        setup.patience_ms = 3000;
    }
    g.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (g.wake < 0 || tr_sql_open(&g.sql, &setup) != TARRY_OK) {
        return 1;
    }
    g.port = tr_sql_port(g.sql);
    tr_sql_listen(g.sql, (struct tr_sql_ear){.ended = ended});
    prepare();
    printf("ready\n");
    (void)fflush(stdout);
    until = now_ms() + strtoull(argv[5], NULL, 10) * 1000;
    do {
        flying = false;
        for (unsigned slot = 0; slot < SLOTS; slot++) {
            g.batches[slot].slot = slot;
            if (!g.batches[slot].flying && now_ms() < until) {
                send_batch(&g.batches[slot]);
            }
            flying |= g.batches[slot].flying;
        }
        pump(20);
        if (g.away) {
            (void)poll(NULL, 0, 20);
        }
    } while (flying || now_ms() < until);
    check_owning();
    check_all();
    stat = tr_sql_stat(g.sql);
    printf("done=%" PRIu64 " undone=%" PRIu64 " unsure=%" PRIu64 " wrong=%" PRIu64
           " missing=%" PRIu64 " extra=%" PRIu64 " miscounted=%" PRIu64 " refused=%" PRIu64
           " transactions=%" PRIu64 " repeats=%" PRIu64 " halvings=%" PRIu64 " lookups=%" PRIu64
           " connects=%" PRIu64 " rows=%" PRIu64 "\n",
           g.done, g.undone, g.unsure, g.wrong, g.missing, g.extra, g.miscounted, g.refused,
           stat.transactions, stat.repeats, stat.halvings, stat.lookups, stat.connects, rows_found);
    tr_sql_close(g.sql);
    return 0;
}
