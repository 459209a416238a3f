/*
 * One server with one table that matters. A transaction happens at one moment: row locks make the
 * real ones as if they did, and what a lock costs is time, which is here the dice's. What is kept
 * of the rules of port/sql.h is what can go wrong for whoever asks:
 *
 *     - asks of a connection one after the other, those of several in any order
 *     - `decide` is called once more than it counts (a deadlock)
 *     - a server that is away: UNDONE, nothing was done
 *     - a commit whose answer was lost, and of which it cannot be found out in time: UNSURE
 *     - a node that dies: what it had asked may be done, and nobody hears of it
 *
 * Not in it yet: a failover that loses commits, pages.
 */

#include "fake_sql.h"

#include "base/check.h"

#include <string.h>

#define MS_OF_2024 UINT64_C(1704067200000)

static bool dice(struct fake_sql *db, unsigned of)
{
    return tr_rng_below(&db->rng, of) == 0;
}

void fake_sql_init(struct fake_sql *db, uint64_t seed)
{
    *db = (struct fake_sql){.rng = {seed}, .now_us = UINT64_C(1800000000000000)};
}

/* ---- rows ---- */

static unsigned place_of(const struct fake_sql *db, uint64_t id)
{
    unsigned low = 0;
    unsigned high = db->count;

    while (low < high) {
        unsigned mid = (low + high) / 2;

        if (db->rows[mid].is.id < id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

const struct fake_sql_row *fake_sql_find(const struct fake_sql *db, uint64_t id)
{
    unsigned i = place_of(db, id);

    return i < db->count && db->rows[i].is.id == id ? &db->rows[i] : NULL;
}

static const struct fake_sql_row *find_key(const struct fake_sql *db, uint32_t topic,
                                           struct tr_span key)
{
    for (unsigned i = 0; i < db->count; i++) {
        const struct tr_sql_job *is = &db->rows[i].is;

        if (is->topic == topic && is->key.len == key.len && key.len > 0 &&
            memcmp(db->rows[i].key, key.at, key.len) == 0) {
            return &db->rows[i];
        }
    }
    return NULL;
}

static void keep(char out[FAKE_SQL_TEXT], struct tr_span text)
{
    TR_CHECK(text.len < FAKE_SQL_TEXT);
    if (text.len > 0) {
        memcpy(out, text.at, text.len);
    }
}

/* What a row points to are its own bytes, wherever it is. */
static struct tr_sql_job read_row(const struct fake_sql_row *row)
{
    struct tr_sql_job job = row->is;

    job.tag.at = job.tag.len > 0 ? row->tag : NULL;
    job.key.at = job.key.len > 0 ? row->key : NULL;
    job.backoff.at = job.backoff.len > 0 ? row->backoff : NULL;
    job.body.at = row->body;
    return job;
}

static void write_row(struct fake_sql_row *row, const struct tr_sql_job *job, bool with_body)
{
    struct tr_span body = with_body ? job->body : (struct tr_span){row->body, row->is.body.len};
    struct fake_sql_row fresh = {.is = *job};

    keep(fresh.tag, job->tag);
    keep(fresh.key, job->key);
    keep(fresh.backoff, job->backoff);
    keep(fresh.body, body);
    fresh.is.body.len = body.len;
    fresh.is.body_len = body.len;
    *row = fresh;
}

static void drop_row(struct fake_sql *db, uint64_t id)
{
    unsigned i = place_of(db, id);

    TR_CHECK(i < db->count && db->rows[i].is.id == id);
    memmove(&db->rows[i], &db->rows[i + 1], (db->count - i - 1) * sizeof db->rows[0]);
    db->count--;
}

static void add_row(struct fake_sql *db, const struct tr_sql_job *job)
{
    unsigned i = place_of(db, job->id);

    TR_CHECK(db->count < FAKE_SQL_ROWS);
    TR_CHECK(i == db->count || db->rows[i].is.id != job->id); /* a key twice is an error of SQL */
    memmove(&db->rows[i + 1], &db->rows[i], (db->count - i) * sizeof db->rows[0]);
    db->count++;
    db->rows[i] = (struct fake_sql_row){0};
    write_row(&db->rows[i], job, true);
}

/* ---- a change ---- */

static void read_item(struct fake_sql *db, struct tr_sql_item *item, struct fake_sql_row *copy)
{
    bool by_key = item->by == TR_SQL_BY_KEY || item->by == TR_SQL_NEW_KEY;
    const struct fake_sql_row *row = item->by == TR_SQL_NEW ? NULL
                                     : by_key               ? find_key(db, item->topic, item->key)
                                                            : fake_sql_find(db, item->id);

    item->found = row != NULL;
    item->gen = item->by != TR_SQL_BY_ID ? db->gens[item->topic - 1] : 0;
    item->write = TR_SQL_LEAVE;
    item->with_body = false;
    item->event_count = 0;
    if (row != NULL) {
        *copy = *row;
        item->row = read_row(copy);
        item->gen = db->gens[row->is.topic - 1];
    }
}

static void write_item(struct fake_sql *db, const struct tr_sql_item *item)
{
    switch (item->write) {
    case TR_SQL_INSERT:
        if (item->found && item->by == TR_SQL_NEW_KEY) {
            drop_row(db, item->row.id);
        }
        add_row(db, &item->next);
        break;
    case TR_SQL_UPDATE:
        TR_CHECK(item->next.id == item->row.id);
        write_row(&db->rows[place_of(db, item->next.id)], &item->next, item->with_body);
        break;
    case TR_SQL_DELETE:
        drop_row(db, item->row.id);
        break;
    case TR_SQL_LEAVE:
        break;
    }
}

static void read_all(struct fake_sql *db, struct fake_sql_conn *conn, struct tr_sql_ask *ask)
{
    TR_CHECK(ask->count <= FAKE_SQL_ITEMS);
    for (unsigned i = 0; i < ask->count; i++) {
        read_item(db, &ask->items[i], &conn->read[i]);
    }
    ask->now_us = db->now_us;
}

static void change(struct fake_sql *db, struct fake_sql_end *end, struct fake_sql_conn *conn)
{
    struct tr_sql_ask *ask = conn->todo;

    read_all(db, conn, ask);
    ask->decide(ask, 0, ask->count);
    for (unsigned i = 0; i < ask->count; i++) {
        write_item(db, &ask->items[i]);
        if (db->committed != NULL) {
            db->committed(db->ctx, end->node, ask, &ask->items[i]);
        }
    }
    db->commits++;
}

/* It was undone: only the deciding was done, and counts for nothing. */
static void deadlock(struct fake_sql *db, struct fake_sql_conn *conn)
{
    struct tr_sql_ask *ask = conn->todo;

    read_all(db, conn, ask);
    ask->decide(ask, 0, ask->count);
    db->deadlocks++;
}

/* ---- others ---- */

static void find_topic(struct fake_sql *db, struct tr_sql_ask *ask)
{
    ask->topic = 0;
    for (unsigned i = 0; i < db->topic_count; i++) {
        if (strlen(db->topics[i]) == ask->name.len &&
            memcmp(db->topics[i], ask->name.at, ask->name.len) == 0) {
            ask->topic = i + 1;
        }
    }
    if (ask->topic == 0 && ask->makes) {
        TR_CHECK(db->topic_count < FAKE_SQL_TOPICS && ask->name.len < FAKE_SQL_TEXT);
        memcpy(db->topics[db->topic_count], ask->name.at, ask->name.len);
        ask->topic = ++db->topic_count;
    }
}

static void take_block(struct fake_sql *db, struct tr_sql_ask *ask)
{
    uint64_t *next = &db->next_seq[ask->slot];
    uint64_t ms = db->now_us / 1000 - MS_OF_2024;

    ask->first = *next > ms ? *next : ms;
    *next = ask->first + ask->number;
}

static void count(const struct fake_sql *db, struct tr_sql_ask *ask)
{
    ask->counts = (struct tr_sql_counts){0};
    for (unsigned i = 0; i < db->count; i++) {
        const struct tr_sql_job *is = &db->rows[i].is;

        if (is->topic == ask->topic && is->gen == db->gens[is->topic - 1]) {
            ask->counts.waiting += is->state == TR_SQL_WAITING;
            ask->counts.reserved += is->state == TR_SQL_RESERVED;
            ask->counts.dead += is->state == TR_SQL_DEAD;
            ask->counts.bytes += (int64_t)is->body_len;
        }
    }
}

static void own(struct fake_sql *db, struct tr_sql_ask *ask)
{
    if (db->epochs[ask->slot] == ask->epoch) {
        db->epochs[ask->slot]++;
        db->owners[ask->slot] = ask->node;
    }
    ask->first = db->epochs[ask->slot];
    ask->number = db->epochs[ask->slot] == ask->epoch + 1 && db->owners[ask->slot] == ask->node;
}

static void run(struct fake_sql *db, struct fake_sql_end *end, struct fake_sql_conn *conn)
{
    struct tr_sql_ask *ask = conn->todo;

    ask->now_us = db->now_us;
    switch (ask->kind) {
    case TR_SQL_CHANGE:
        change(db, end, conn);
        break;
    case TR_SQL_LOOK:
        read_all(db, conn, ask);
        break;
    case TR_SQL_BLOCK:
        take_block(db, ask);
        break;
    case TR_SQL_TOPIC:
        find_topic(db, ask);
        break;
    case TR_SQL_COUNT:
        count(db, ask);
        break;
    case TR_SQL_OWN:
        own(db, ask);
        break;
    default:
        TR_CHECK(ask->kind != TR_SQL_PAGE);
        break;
    }
}

/* ---- connections ---- */

static void finish(struct fake_sql *db, struct fake_sql_conn *conn, enum tr_sql_end how)
{
    struct tr_sql_ask *ask = conn->todo;

    ask->end = how;
    ask->blame = how == TR_SQL_DONE ? TR_SQL_FINE : TR_SQL_AWAY;
    ask->why = how == TR_SQL_DONE ? "" : "the database is away";
    for (unsigned i = 0; ask->kind == TR_SQL_CHANGE && i < ask->count; i++) {
        ask->items[i].end = how;
    }
    db->undone += how == TR_SQL_UNDONE;
    db->unsure += how == TR_SQL_UNSURE;
    conn->ran = true;
    conn->next_us = db->now_us + 1 + tr_rng_below(&db->rng, 2000);
}

/* The first of todo is tried. */
static void attempt(struct fake_sql *db, struct fake_sql_end *end, struct fake_sql_conn *conn)
{
    bool change = conn->todo->kind == TR_SQL_CHANGE;

    if (db->now_us < db->away_until_us) {
        finish(db, conn, TR_SQL_UNDONE);
    } else if (!db->calm && change && dice(db, 10)) {
        deadlock(db, conn);
        conn->next_us = db->now_us + 1 + tr_rng_below(&db->rng, 5000);
    } else if (!db->calm && dice(db, 12)) { /* the connection breaks */
        bool done = dice(db, 2);

        db->lost++;
        if (done) {
            run(db, end, conn);
        }
        if (dice(db, 3)) {
            finish(db, conn, TR_SQL_UNSURE);
        } else if (done) {
            finish(db, conn, TR_SQL_DONE); /* as the lane said */
        } else {
            conn->next_us = db->now_us + 1 + tr_rng_below(&db->rng, 20000);
        }
    } else {
        run(db, end, conn);
        finish(db, conn, TR_SQL_DONE);
    }
}

static void tell(struct fake_sql_end *end, struct fake_sql_conn *conn)
{
    struct tr_sql_ask *ask = conn->todo;

    conn->todo = ask->next;
    conn->last = conn->todo != NULL ? conn->last : NULL;
    conn->ran = false;
    end->ear.ended(end->ear.ctx, ask);
}

static void send_ask(void *ctx, struct tr_sql_ask *ask)
{
    struct fake_sql_end *end = ctx;
    struct fake_sql_conn *conn = &end->conns[ask->conn];

    ask->next = NULL;
    if (conn->last != NULL) {
        conn->last->next = ask;
    } else {
        conn->todo = ask;
        conn->next_us = end->db->now_us + 1 + tr_rng_below(&end->db->rng, 1000);
    }
    conn->last = ask;
}

struct tr_sql_port fake_sql_start(struct fake_sql *db, unsigned node, struct tr_sql_ear ear)
{
    struct fake_sql_end *end = &db->ends[node];

    for (unsigned i = 0; i < FAKE_SQL_CONNS; i++) {
        struct fake_sql_conn *conn = &end->conns[i];

        if (conn->todo != NULL && !conn->ran && dice(db, 2)) {
            run(db, end, conn); /* it had been sent */
        }
        *conn = (struct fake_sql_conn){0};
    }
    end->db = db;
    end->node = node;
    end->ear = ear;
    return (struct tr_sql_port){.ctx = end, .send = send_ask};
}

bool fake_sql_step(struct fake_sql *db, uint64_t until_us)
{
    struct fake_sql_end *end = NULL;
    struct fake_sql_conn *conn = NULL;

    for (unsigned n = 0; n < FAKE_SQL_NODES * FAKE_SQL_CONNS; n++) {
        struct fake_sql_conn *each = &db->ends[n / FAKE_SQL_CONNS].conns[n % FAKE_SQL_CONNS];

        if (each->todo != NULL && (conn == NULL || each->next_us < conn->next_us)) {
            conn = each;
            end = &db->ends[n / FAKE_SQL_CONNS];
        }
    }
    if (conn == NULL || conn->next_us > until_us) {
        db->now_us = db->now_us > until_us ? db->now_us : until_us;
        return false;
    }
    db->now_us = db->now_us > conn->next_us ? db->now_us : conn->next_us;
    if (conn->ran) {
        tell(end, conn);
        if (conn->todo != NULL) {
            conn->next_us = db->now_us + 1 + tr_rng_below(&db->rng, 1000);
        }
    } else {
        attempt(db, end, conn);
    }
    return true;
}
