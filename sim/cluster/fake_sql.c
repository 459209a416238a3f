/*
 * One server with one table that matters. A transaction happens at one moment: row locks make the
 * real ones as if they did, and what a lock costs is time, which is here the dice's. What is kept
 * of the rules of port/sql.h is what can go wrong for whoever asks:
 *
 *     - asks of a connection one after the other, those of several in any order
 *     - `decide` is called once more than it counts (a deadlock)
 *     - a server that is away: UNDONE, nothing was done
 *     - an ask that is held up for seconds, and all behind it
 *     - a commit whose answer was lost, and of which it cannot be found out in time: UNSURE
 *     - a node that dies: what it had asked may be done, and nobody hears of it
 *     - a failover: what was committed since the replica was told is gone; the server is another
 * one
 */

#include "fake_sql.h"

#include "base/check.h"
#include "cluster/mutant.h"

#include <string.h>

#define MS_OF_2024 UINT64_C(1704067200000)
#define JUMP UINT64_C(1048576)

enum { STALLS = 1500 }; /* one of so many asks is held up for long */

static bool dice(struct fake_sql *db, unsigned of)
{
    return tr_rng_below(&db->rng, of) == 0;
}

void fake_sql_init(struct fake_sql *db, uint64_t seed)
{
    memset(db, 0, sizeof *db);
    db->rng.state = seed;
    db->breaks = 12;
    db->life = 1;
    db->now_us = UINT64_C(1800000000000000);
}

uint64_t fake_sql_clock(const struct fake_sql *db)
{
    return db->now_us + (uint64_t)db->skew_us;
}

static uint32_t gen_of(const struct fake_sql *db, uint32_t topic)
{
    return db->is.topics[topic - 1].gen;
}

/* ---- rows ---- */

static unsigned place_of(const struct fake_sql *db, uint64_t id)
{
    unsigned low = 0;
    unsigned high = db->is.count;

    while (low < high) {
        unsigned mid = (low + high) / 2;

        if (db->is.rows[mid].is.id < id) {
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

    return i < db->is.count && db->is.rows[i].is.id == id ? &db->is.rows[i] : NULL;
}

static const struct fake_sql_row *find_key(const struct fake_sql *db, uint32_t topic,
                                           struct tr_span key)
{
    for (unsigned i = 0; i < db->is.count; i++) {
        const struct tr_sql_job *is = &db->is.rows[i].is;

        if (is->topic == topic && is->key.len == key.len && key.len > 0 &&
            memcmp(db->is.rows[i].key, key.at, key.len) == 0) {
            return &db->is.rows[i];
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

    TR_CHECK(i < db->is.count && db->is.rows[i].is.id == id);
    memmove(&db->is.rows[i], &db->is.rows[i + 1], (db->is.count - i - 1) * sizeof db->is.rows[0]);
    db->is.count--;
}

static void add_row(struct fake_sql *db, const struct tr_sql_job *job)
{
    unsigned i = place_of(db, job->id);

    TR_CHECK(db->is.count < FAKE_SQL_ROWS);
    TR_CHECK(i == db->is.count ||
             db->is.rows[i].is.id != job->id); /* a key twice is an error of SQL */
    memmove(&db->is.rows[i + 1], &db->is.rows[i], (db->is.count - i) * sizeof db->is.rows[0]);
    db->is.count++;
    db->is.rows[i] = (struct fake_sql_row){0};
    write_row(&db->is.rows[i], job, true);
}

/* ---- a change ---- */

/* A copy, since it may change before who asked hears of it. */
static const struct tr_sql_topic *other_of(struct fake_sql *db, struct fake_sql_conn *conn,
                                           const struct tr_sql_item *item)
{
    struct fake_sql_topic *t = &conn->met[item->topic - 1];
    struct tr_sql_topic *is = &conn->others[item->topic - 1];

    *t = db->is.topics[item->topic - 1];
    *is = (struct tr_sql_topic){.id = item->topic,
                                .spread = t->spread,
                                .version = t->version,
                                .gen = t->gen,
                                .order = t->order,
                                .keep = t->keep,
                                .policy = {(const char *)t->policy, t->policy_len}};
    return is;
}

static void read_item(struct fake_sql *db, struct tr_sql_item *item, struct fake_sql_row *copy)
{
    bool by_key = item->by == TR_SQL_BY_KEY || item->by == TR_SQL_NEW_KEY;
    const struct fake_sql_row *row = item->by == TR_SQL_NEW ? NULL
                                     : by_key               ? find_key(db, item->topic, item->key)
                                                            : fake_sql_find(db, item->id);

    item->found = row != NULL;
    item->gen = item->by != TR_SQL_BY_ID ? gen_of(db, item->topic) : 0;
    item->version = item->topic != 0 ? db->is.topics[item->topic - 1].version : 0;
    item->other = NULL;
    item->write = TR_SQL_LEAVE;
    item->with_body = false;
    item->event_count = 0;
    if (row != NULL) {
        *copy = *row;
        item->row = read_row(copy);
        item->gen = gen_of(db, row->is.topic);
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
        write_row(&db->is.rows[place_of(db, item->next.id)], &item->next, item->with_body);
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
    TR_CHECK(ask->count <= TR_SQL_ITEMS_MAX);
    for (unsigned i = 0; i < ask->count; i++) {
        struct tr_sql_item *item = &ask->items[i];

        read_item(db, item, &conn->read[i]);
        item->locked = ask->skips && item->found && !db->calm && dice(db, 40);
        item->found = item->found && !item->locked;
        if (item->topic != 0 && item->version != item->knows) {
            item->other = other_of(db, conn, item);
        }
    }
    if (ask->plan != NULL) {
        fake_plan_lock(db, conn, ask->plan);
    }
    ask->now_us = fake_sql_clock(db);
}

/* Rule 4: no two items of an ask are about the same job, or the same key. */
static void check_items(const struct tr_sql_ask *ask)
{
    for (unsigned i = 0; i < ask->count; i++) {
        for (unsigned k = 0; k < i; k++) {
            const struct tr_sql_item *a = &ask->items[i], *b = &ask->items[k];

            TR_CHECK(a->id != b->id || a->id == 0);
            TR_CHECK(a->key.len == 0 || a->key.len != b->key.len || a->topic != b->topic ||
                     memcmp(a->key.at, b->key.at, a->key.len) != 0);
        }
    }
}

static void change(struct fake_sql *db, struct fake_sql_end *end, struct fake_sql_conn *conn)
{
    struct tr_sql_ask *ask = conn->todo;

    check_items(ask);
    read_all(db, conn, ask);
    ask->decide(ask, 0, ask->count);
    for (unsigned i = 0; i < ask->count; i++) {
        write_item(db, &ask->items[i]);
        fake_plan_end(db, &ask->items[i], ask->now_us);
        if (db->committed != NULL) {
            db->committed(db->ctx, end->node, ask, &ask->items[i]);
        }
    }
    if (ask->plan != NULL) {
        fake_plan_write(db, ask->plan);
        if (db->planned != NULL) {
            db->planned(db->ctx, ask);
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

static struct fake_sql_topic *topic_of(struct fake_sql *db, const struct tr_sql_ask *ask)
{
    for (unsigned i = 0; i < db->is.topic_count; i++) {
        struct fake_sql_topic *t = &db->is.topics[i];

        if (ask->name.len > 0
                ? t->len == ask->name.len && memcmp(t->name, ask->name.at, t->len) == 0
                : ask->number == i + 1) {
            return t;
        }
    }
    return NULL;
}

static struct fake_sql_topic *make_topic(struct fake_sql *db, const struct tr_sql_ask *ask)
{
    struct fake_sql_topic *t = topic_of(db, ask);

    if (t == NULL) {
        TR_CHECK(db->is.topic_count < FAKE_SQL_TOPICS && ask->name.len < FAKE_SQL_TEXT);
        t = &db->is.topics[db->is.topic_count++];
        *t = (struct fake_sql_topic){
            .len = ask->name.len, .spread = ask->spread, .order = ask->order, .keep = ask->keep};
        memcpy(t->name, ask->name.at, ask->name.len);
    }
    return t;
}

static void show_topic(const struct fake_sql *db, struct fake_sql_conn *conn,
                       const struct fake_sql_topic *t)
{
    struct tr_sql_ask *ask = conn->todo;

    if (ask->topics == NULL) {
        ask->topics = conn->topics;
        ask->count = 0;
    }
    conn->topics[ask->count++] =
        (struct tr_sql_topic){.id = (uint32_t)(t - db->is.topics) + 1,
                              .spread = t->spread,
                              .version = t->version,
                              .gen = t->gen,
                              .order = t->order,
                              .keep = t->keep,
                              .name = {t->name, t->len},
                              .policy = {(const char *)t->policy, t->policy_len}};
}

static void find_topic(struct fake_sql *db, struct fake_sql_conn *conn)
{
    struct tr_sql_ask *ask = conn->todo;
    struct fake_sql_topic *t = ask->makes ? make_topic(db, ask) : topic_of(db, ask);

    ask->topic = 0;
    if (t != NULL) {
        t->keep = ask->makes && ask->keep == TR_SQL_KEEP_ALWAYS ? TR_SQL_KEEP_ALWAYS
                  : ask->makes && t->keep == TR_SQL_KEEP_NOT    ? TR_SQL_KEEP_JOBS
                                                                : t->keep;
        show_topic(db, conn, t);
        ask->topic = conn->topics[0].id;
        ask->spread = t->spread;
        ask->order = t->order;
    }
}

static bool is_busy(const struct fake_sql *db, uint32_t topic, const struct tr_sql_ask *ask)
{
    for (unsigned i = 0; i < db->is.count; i++) {
        if (db->is.rows[i].is.topic == topic && db->is.rows[i].is.state == ask->state) {
            return true;
        }
    }
    return false;
}

static void list_topics(struct fake_sql *db, struct fake_sql_conn *conn)
{
    const struct tr_sql_ask *ask = conn->todo;
    uint32_t from = ask->topic;
    uint64_t most = ask->number;

    for (unsigned i = from; i < db->is.topic_count && i < from + most; i++) {
        if (ask->kind == TR_SQL_TOPICS || (ask->kind == TR_SQL_BUSY && is_busy(db, i + 1, ask)) ||
            (ask->kind == TR_SQL_OUTLETS && db->is.topics[i].delivers)) {
            show_topic(db, conn, &db->is.topics[i]);
        }
    }
}

static void set_policy(struct fake_sql *db, struct fake_sql_conn *conn)
{
    struct tr_sql_ask *ask = conn->todo;
    struct fake_sql_topic *t = make_topic(db, ask);

    if (t->version == ask->version) {
        t->version = (uint32_t)ask->first;
        t->keep = ask->keep;
        t->spread = ask->spread;
        t->delivers =
            ask->delivers != TR_SQL_DELIVERS_NOT ? ask->delivers == TR_SQL_DELIVERS : t->delivers;
        t->policy_len = ask->text.len;
        memcpy(t->policy, ask->text.at, ask->text.len);
    }
    show_topic(db, conn, t);
    ask->number = t->version == ask->first && t->keep == ask->keep &&
                  t->policy_len == ask->text.len &&
                  memcmp(t->policy, ask->text.at, t->policy_len) == 0;
}

static bool is_behind(const struct tr_sql_job *is, uint64_t us, uint64_t id)
{
    return is->next_us > us || (is->next_us == us && is->id > id);
}

/* By (next_us, id), the next one that is behind this; or NULL. */
static const struct fake_sql_row *next_row(const struct fake_sql *db, const struct tr_sql_ask *ask,
                                           uint64_t us, uint64_t id)
{
    const struct fake_sql_row *best = NULL;

    for (unsigned i = 0; i < db->is.count; i++) {
        const struct tr_sql_job *is = &db->is.rows[i].is;

        if (is->topic == ask->topic && (is->id & 1023) == ask->slot && is->state == ask->state &&
            is->gen == gen_of(db, is->topic) && is->next_us < ask->until_us &&
            is_behind(is, us, id) && (best == NULL || is_behind(&best->is, is->next_us, is->id))) {
            best = &db->is.rows[i];
        }
    }
    return best;
}

/* Of those that were purged, as many as are wanted. */
static void read_purged(const struct fake_sql *db, struct fake_sql_conn *conn)
{
    struct tr_sql_ask *ask = conn->todo;

    for (unsigned i = 0; i < db->is.count && ask->count < ask->number; i++) {
        const struct tr_sql_job *is = &db->is.rows[i].is;

        if (is->topic == ask->topic && (is->id & 1023) == ask->slot &&
            is->gen < gen_of(db, is->topic)) {
            conn->read[ask->count] = db->is.rows[i];
            conn->page[ask->count] = read_row(&conn->read[ask->count]);
            ask->count++;
        }
    }
}

static void read_page(struct fake_sql *db, struct fake_sql_conn *conn)
{
    struct tr_sql_ask *ask = conn->todo;
    uint64_t us = ask->from_us, id = ask->from_id;
    const struct fake_sql_row *row;

    ask->rows = conn->page;
    ask->count = 0;
    if (ask->purged) {
        read_purged(db, conn);
        return;
    }
    while (ask->count < ask->number && (row = next_row(db, ask, us, id)) != NULL) {
        us = row->is.next_us;
        id = row->is.id;
        conn->read[ask->count] = *row;
        conn->page[ask->count] = read_row(&conn->read[ask->count]);
        ask->count++;
    }
}

static void take_block(struct fake_sql *db, struct tr_sql_ask *ask)
{
    uint64_t *next = &db->is.next_seq[ask->slot];
    uint64_t ms = fake_sql_clock(db) / 1000 - MS_OF_2024;

    ask->first = *next > ms ? *next : ms;
    *next = ask->first + ask->number;
}

static void count(const struct fake_sql *db, struct tr_sql_ask *ask)
{
    ask->counts = (struct tr_sql_counts){0};
    for (unsigned i = 0; i < db->is.count; i++) {
        const struct tr_sql_job *is = &db->is.rows[i].is;

        if (is->topic == ask->topic && is->gen == gen_of(db, is->topic)) {
            ask->counts.waiting += is->state == TR_SQL_WAITING;
            ask->counts.reserved += is->state == TR_SQL_RESERVED;
            ask->counts.dead += is->state == TR_SQL_DEAD;
            ask->counts.bytes += (int64_t)is->body_len;
        }
    }
}

static bool is_better(const struct tr_sql_job *a, const struct tr_sql_job *b, uint8_t order)
{
    if (a->priority != b->priority) {
        return a->priority < b->priority;
    }
    return order == 0 && a->due_us != b->due_us ? a->due_us < b->due_us : a->id < b->id;
}

static void find_heads(const struct fake_sql *db, struct tr_sql_ask *ask)
{
    const struct tr_sql_job *best = NULL, *next = NULL, *dead = NULL;

    ask->heads = (struct tr_sql_heads){0};
    for (unsigned i = 0; i < db->is.count; i++) {
        const struct tr_sql_job *is = &db->is.rows[i].is;

        if (is->topic != ask->topic || (is->id & 1023) != ask->slot ||
            is->gen != gen_of(db, is->topic)) {
            continue;
        }
        if (is->state == TR_SQL_WAITING && is->due_us <= ask->now_us) {
            ask->heads.ready++;
            ask->heads.urgent += is->priority < 1024;
            best = best == NULL || is_better(is, best, ask->order) ? is : best;
        } else if (is->state == TR_SQL_WAITING) {
            next = next == NULL || is_behind(next, is->next_us, is->id) ? is : next;
        } else if (is->state == TR_SQL_DEAD) {
            dead = dead == NULL || is_behind(dead, is->next_us, is->id) ? is : dead;
        }
    }
    ask->heads.oldest_us = best != NULL ? best->due_us : 0;
    ask->heads.best_id = best != NULL ? best->id : 0;
    ask->heads.best_due_us = best != NULL ? best->due_us : 0;
    ask->heads.best_priority = best != NULL ? best->priority : 0;
    ask->heads.next_id = next != NULL ? next->id : 0;
    ask->heads.next_due_us = next != NULL ? next->next_us : 0;
    ask->heads.dead_id = dead != NULL ? dead->id : 0;
}

/* ---- purges, forecasts ---- */

static void purge(struct fake_sql *db, struct fake_sql_end *end, struct tr_sql_ask *ask)
{
    if (ask->topic == 0 || ask->topic > db->is.topic_count) {
        ask->number = 0;
        return;
    }
    count(db, ask);
    ask->number = (uint64_t)(ask->counts.waiting + ask->counts.reserved + ask->counts.dead);
    db->is.topics[ask->topic - 1].gen++;
    fake_plan_purged(db, ask->topic, ask->now_us);
    if (db->purged != NULL) {
        db->purged(db->ctx, end->node, ask->topic);
    }
}

/* Those that have rows of older gens: this one has no counts. */
static void find_old(const struct fake_sql *db, struct fake_sql_conn *conn)
{
    const struct tr_sql_ask *ask = conn->todo;
    bool has[FAKE_SQL_TOPICS] = {false};
    uint64_t left = ask->number;

    for (unsigned i = 0; i < db->is.count; i++) {
        const struct tr_sql_job *is = &db->is.rows[i].is;

        has[is->topic - 1] = has[is->topic - 1] || is->gen < gen_of(db, is->topic);
    }
    for (unsigned i = 0; i < db->is.topic_count && left > 0; i++) {
        if (has[i]) {
            show_topic(db, conn, &db->is.topics[i]);
            left--;
        }
    }
}

static void own(struct fake_sql *db, struct tr_sql_ask *ask)
{
    if (db->is.epochs[ask->slot] == ask->epoch) {
        db->is.epochs[ask->slot]++;
        db->is.owners[ask->slot] = ask->node;
    }
    ask->first = db->is.epochs[ask->slot];
    ask->number =
        db->is.epochs[ask->slot] == ask->epoch + 1 && db->is.owners[ask->slot] == ask->node;
}

/* The layout is the same on all nodes here: only the name matters. */
static void agree(struct fake_sql *db, struct tr_sql_ask *ask)
{
    if (db->is.uuid[0] == '\0') {
        TR_CHECK(ask->name.len < sizeof db->is.uuid);
        memcpy(db->is.uuid, ask->name.at, ask->name.len);
    }
    ask->uuid = (struct tr_span){db->is.uuid, strlen(db->is.uuid)};
    ask->first = ask->number;
    ask->prefix = ask->text;
}

static void run(struct fake_sql *db, struct fake_sql_end *end, struct fake_sql_conn *conn)
{
    struct tr_sql_ask *ask = conn->todo;

    ask->now_us = fake_sql_clock(db);
    switch (ask->kind) {
    case TR_SQL_CHANGE:
    case TR_SQL_PLAN:
        change(db, end, conn);
        break;
    case TR_SQL_PLANS:
        fake_plan_read(db, conn, ask);
        break;
    case TR_SQL_LOOK:
        read_all(db, conn, ask);
        break;
    case TR_SQL_FLOW: /* nothing is written there */
        read_all(db, conn, ask);
        ask->flow = NULL;
        ask->number = 0;
        break;
    case TR_SQL_DAYS:
        ask->number = 1;
        break;
    case TR_SQL_PURGE:
        purge(db, end, ask);
        break;
    case TR_SQL_OLD:
        ask->topics = NULL;
        ask->count = 0;
        find_old(db, conn);
        break;
    case TR_SQL_BLOCK:
        take_block(db, ask);
        if (ask->number == 0 && db->marked != NULL) {
            db->marked(db->ctx, end->node);
        }
        break;
    case TR_SQL_TOPIC:
        find_topic(db, conn);
        break;
    case TR_SQL_TOPICS:
    case TR_SQL_OUTLETS:
    case TR_SQL_BUSY:
        list_topics(db, conn);
        break;
    case TR_SQL_POLICY:
        set_policy(db, conn);
        break;
    case TR_SQL_PAGE:
        read_page(db, conn);
        break;
    case TR_SQL_COUNT:
        count(db, ask);
        find_heads(db, ask);
        break;
    case TR_SQL_OWN:
        own(db, ask);
        break;
    case TR_SQL_AGREE:
        agree(db, ask);
        break;
    case TR_SQL_FORECAST:
    case TR_SQL_FOLD: /* it counts rows */
        ask->steps = NULL;
        ask->number = 0;
        break;
    case TR_SQL_CLEAR:
    case TR_SQL_KINDS:
        break;
    }
}

/* ---- failover ---- */

void fake_sql_sync(struct fake_sql *db)
{
    db->past = db->is;
    db->past_us = db->now_us;
}

/* What whoever connects first does, before anything else: see remote/sql_life.c. */
static void jump(struct fake_sql *db)
{
    uint64_t ms = fake_sql_clock(db) / 1000 - MS_OF_2024;
    uint64_t by = JUMP + 1024 * (ms % JUMP);
    uint32_t far = (uint32_t)(ms / 1000) + 1024;

    for (unsigned s = 0; s < FAKE_SQL_SLOTS; s++) {
        uint64_t next = db->is.next_seq[s] + by;

        db->is.next_seq[s] = next > ms + by ? next : ms + by;
        db->is.epochs[s] = db->is.epochs[s] + 1024 > far ? db->is.epochs[s] + 1024 : far;
    }
    for (unsigned i = 0; i < db->is.topic_count; i++) {
        struct fake_sql_topic *t = &db->is.topics[i];

        t->version = t->version + 1024 > far ? t->version + 1024 : far;
    }
    for (unsigned i = 0; i < FAKE_SQL_PLANS; i++) {
        db->is.plans[i].is.ver += db->is.plans[i].is.id != 0 ? 1024 : 0;
    }
}

void fake_sql_failover(struct fake_sql *db)
{
    db->is = db->past;
    db->past_us = db->now_us;
    db->life++;
    db->failovers++;
    if (!TR_CL_MUTANT(NO_JUMP)) {
        jump(db);
    }
    fake_sql_sync(db);
}

/* ---- connections ---- */

static bool is_change(const struct tr_sql_ask *ask)
{
    return ask->kind == TR_SQL_CHANGE || ask->kind == TR_SQL_PLAN;
}

static void finish(struct fake_sql *db, struct fake_sql_conn *conn, enum tr_sql_end how)
{
    struct tr_sql_ask *ask = conn->todo;

    ask->end = how;
    ask->blame = how == TR_SQL_DONE ? TR_SQL_FINE : TR_SQL_AWAY;
    ask->why = how == TR_SQL_DONE ? "" : "the database is away";
    for (unsigned i = 0; is_change(ask) && i < ask->count; i++) {
        ask->items[i].end = how;
        ask->items[i].blame = ask->blame;
        ask->items[i].why = ask->why;
    }
    if (db->now_us >= db->away_until_us) {
        ask->life = db->life;
    }
    db->undone += how == TR_SQL_UNDONE;
    db->unsure += how == TR_SQL_UNSURE;
    conn->ran = true;
    conn->stalled = false;
    conn->next_us = db->now_us + 1 + tr_rng_below(&db->rng, 2000);
}

/* Is it asked of this server, and not of one before? */
static bool knows(const struct fake_sql *db, const struct tr_sql_ask *ask)
{
    return ask->life == 0 || ask->life == db->life;
}

/* The first of todo is tried. */
static void attempt(struct fake_sql *db, struct fake_sql_end *end, struct fake_sql_conn *conn)
{
    bool change = is_change(conn->todo);

    if (db->now_us < db->away_until_us) {
        finish(db, conn, TR_SQL_UNDONE);
    } else if (db->now_us < db->stall_until_us) {
        conn->next_us = db->stall_until_us + tr_rng_below(&db->rng, 1000);
    } else if (!knows(db, conn->todo)) {
        finish(db, conn, TR_SQL_UNDONE); /* he does not know this server */
        conn->todo->life = db->life;
        conn->todo->blame = TR_SQL_AGAIN;
        for (unsigned i = 0; change && i < conn->todo->count; i++) {
            conn->todo->items[i].blame = TR_SQL_AGAIN;
        }
    } else if (!db->calm && !conn->stalled && dice(db, STALLS)) {
        conn->stalled = true; /* a lock, or a disk: longer than a claim in Redis holds */
        conn->next_us = db->now_us + 2500000 + tr_rng_below(&db->rng, 2000000);
    } else if (!db->calm && change && dice(db, 10)) {
        deadlock(db, conn);
        conn->next_us = db->now_us + 1 + tr_rng_below(&db->rng, 5000);
    } else if (!db->calm && dice(db, db->breaks)) { /* the connection breaks */
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

void fake_sql_stop(struct fake_sql *db, unsigned node)
{
    struct fake_sql_end *end = &db->ends[node];

    for (unsigned i = 0; i < FAKE_SQL_CONNS; i++) {
        struct fake_sql_conn *conn = &end->conns[i];

        if (conn->todo != NULL && !conn->ran && dice(db, 2) && knows(db, conn->todo)) {
            run(db, end, conn); /* it had been sent */
        }
        conn->todo = NULL;
        conn->last = NULL;
        conn->ran = false;
    }
}

struct tr_sql_port fake_sql_start(struct fake_sql *db, unsigned node, struct tr_sql_ear ear)
{
    struct fake_sql_end *end = &db->ends[node];

    fake_sql_stop(db, node);
    end->db = db;
    end->node = node;
    end->ear = ear;
    return (struct tr_sql_port){.ctx = end, .send = send_ask};
}

uint64_t fake_sql_next(const struct fake_sql *db)
{
    uint64_t next_us = UINT64_MAX;

    for (unsigned n = 0; n < FAKE_SQL_NODES * FAKE_SQL_CONNS; n++) {
        const struct fake_sql_conn *conn = &db->ends[n / FAKE_SQL_CONNS].conns[n % FAKE_SQL_CONNS];

        if (conn->todo != NULL && conn->next_us < next_us) {
            next_us = conn->next_us;
        }
    }
    return next_us;
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
