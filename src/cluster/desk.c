/*
 * Asks of a database, and lanes of them.
 *
 *     items ── go ──► flying + ask ──► port ──► ended: each item ends, or goes on
 *
 * A lane is for one kind of asks and one connection, so for many slots: one ask is under way and
 * what comes meanwhile is the next one, as in lane.c. Changes of a slot always go by the same
 * connection, so those of a job are in order.
 *
 * The time. All times are those of the database. Each answer tells it: now_us was read between
 * `sent` and `heard`, so if it is taken for the time at which the answer came, what follows is late
 * by a round trip at most and never early. The answer with the shortest trip of the last minute
 * counts; but one that shows that the time is another one counts at once.
 *
 * A database that fails is asked again 300 ms later; meanwhile who wants something of it hears at
 * once that it is away.
 */

#include "cluster/desk.h"

#include "base/err.h"
#include "base/text.h"
#include "cluster/load.h"

#include <string.h>

#define DOWN_US UINT64_C(300000)
#define PROBE_US UINT64_C(10000000)
#define BEST_US UINT64_C(60000000)
#define NO_MEMORY_AGAIN_US UINT64_C(50000)
#define BATCH_BYTES ((size_t)1 << 20)

/* ---- begin and end ---- */

static tr_desk_done_fn probed;

int tr_desk_init(struct tr_cluster *c)
{
    size_t size = sizeof *c->desk + c->layout.slots * sizeof c->desk->slots[0];
    struct tr_desk *d;

    if (c->config.sql == NULL) {
        return TARRY_OK;
    }
    d = tr_mem_alloc(c->mem, size);
    if (d == NULL) {
        return TARRY_ENOMEM;
    }
    d->port = *c->config.sql;
    d->conns = c->config.sql_connections > 0 ? c->config.sql_connections : 1;
    d->batch = c->config.sql_batch > 0 ? c->config.sql_batch : 1;
    d->batch = d->batch < TR_SQL_ITEMS_MAX ? d->batch : TR_SQL_ITEMS_MAX;
    d->later_us = TR_CL_NEVER;
    d->blame = TR_SQL_AWAY;
    tr_text(d->why, sizeof d->why, "%s", "no answer has come from the database yet: see sql.url");
    d->probe.done = probed;
    tr_map_init(&d->topics, c->mem);
    tr_list_init(&d->tickets);
    tr_list_init(&d->replies);
    tr_list_init(&d->later);
    tr_list_init(&d->crowds);
    for (unsigned s = 0; s < c->layout.slots; s++) {
        tr_list_init(&d->slots[s].waiting);
    }
    c->desk = d;
    return TARRY_OK;
}

void tr_desk_free_parts(struct tr_cluster *c)
{
    tr_numbers_free(c);
    tr_crowds_free(c);
    tr_images_free(c);
}

void tr_desk_fini(struct tr_cluster *c)
{
    if (c->desk != NULL) {
        tr_map_fini(&c->desk->topics);
        tr_mem_free(c->mem, c->desk, sizeof *c->desk + c->layout.slots * sizeof c->desk->slots[0]);
        c->desk = NULL;
    }
}

struct tr_ctopic *tr_desk_topic(const struct tr_cluster *c, uint32_t row)
{
    return row != 0 ? tr_map_find(&c->desk->topics, row) : NULL;
}

/* ---- asks ---- */

unsigned tr_desk_conn(const struct tr_cluster *c, unsigned slot)
{
    return slot % c->desk->conns;
}

bool tr_desk_down(const struct tr_cluster *c)
{
    return c->desk->down_us > c->now.boot_us;
}

void tr_desk_send(struct tr_cluster *c, struct tr_desk_call *call)
{
    TR_CHECK(!call->busy);
    call->busy = true;
    call->sent_us = c->now.boot_us;
    call->ask.ctx = call;
    c->desk->under_way++;
    c->desk->port.send(c->desk->port.ctx, &call->ask);
}

int tr_desk_status(const struct tr_sql_ask *ask, enum tr_sql_end end)
{
    if (end == TR_SQL_DONE) {
        return TARRY_OK;
    }
    if (end == TR_SQL_UNSURE) {
        return TARRY_EUNSURE;
    }
    return ask->blame == TR_SQL_FULL ? TARRY_ENOSPC : TARRY_EAWAY;
}

int tr_desk_failed(struct tr_cluster *c, const struct tr_sql_ask *ask,
                   const struct tr_sql_item *row)
{
    if (row->end == TR_SQL_UNSURE) {
        tr_align_slot(c, tr_place_slot_of(row->id), TR_ALIGN_ALL);
    }
    return tr_desk_status(ask, row->end);
}

/* What time it is, by an answer that has come just now. */
static void learn_time(struct tr_cluster *c, uint64_t now_us, uint64_t sent_us)
{
    struct tr_desk *d = c->desk;
    uint64_t trip_us = c->now.boot_us - sent_us;
    uint64_t is_us = tr_cluster_server_now(c);

    if (c->server_at_us == 0 || now_us > is_us || now_us + trip_us < is_us ||
        trip_us <= d->trip_us || c->now.boot_us - d->trip_at_us > BEST_US) {
        c->server_us = now_us;
        c->server_at_us = c->now.boot_us;
        d->trip_us = trip_us;
        d->trip_at_us = c->now.boot_us;
    }
}

static bool is_fault(enum tr_sql_blame blame)
{
    return blame != TR_SQL_FINE && blame != TR_SQL_AGAIN && blame != TR_SQL_OTHER;
}

static void note_health(struct tr_cluster *c, const struct tr_sql_ask *ask)
{
    struct tr_desk *d = c->desk;

    if (ask->blame == TR_SQL_OTHER) { /* of one job: its neighbours are not to blame */
        tr_cluster_note(c, TR_NOTE_WARNING, "%s", ask->why);
    }
    if (is_fault(ask->blame)) {
        if (d->blame == TR_SQL_FINE) {
            tr_cluster_note(c, TR_NOTE_WARNING, "%s", ask->why);
        }
        d->blame = ask->blame;
        tr_text(d->why, sizeof d->why, "%s", ask->why);
        if (ask->blame != TR_SQL_FULL) {
            d->down_us = c->now.boot_us + DOWN_US;
        }
        d->probe_us = c->now.boot_us + DOWN_US;
    } else {
        if (d->blame != TR_SQL_FINE && d->ready) {
            tr_cluster_note(c, TR_NOTE_INFO, "The database answers again.");
        }
        d->blame = TR_SQL_FINE;
        d->ready = true;
        d->down_us = 0;
    }
}

void tr_desk_ended(void *ctx, struct tr_sql_ask *ask)
{
    struct tr_cluster *c = ctx;
    struct tr_desk_call *call = ask->ctx;

    call->busy = false;
    c->desk->under_way--;
    note_health(c, ask);
    if (ask->now_us != 0 && ask->blame == TR_SQL_FINE) {
        learn_time(c, ask->now_us, call->sent_us);
    }
    call->done(c, call);
}

/* ---- is it there? ---- */

static void probed(struct tr_cluster *c, struct tr_desk_call *call)
{
    (void)call;
    if (c->desk->blame == TR_SQL_FINE) {
        c->desk->probe_us = c->now.boot_us + PROBE_US;
    }
}

static bool may_probe(const struct tr_cluster *c)
{
    return !c->desk->probe.busy && !c->leaving;
}

void tr_desk_turn(struct tr_cluster *c)
{
    struct tr_desk *d = c->desk;

    if (d == NULL) {
        return;
    }
    if (may_probe(c) && d->probe_us <= c->now.boot_us) {
        d->probe.ask = (struct tr_sql_ask){.kind = TR_SQL_LOOK};
        tr_desk_send(c, &d->probe);
    }
    tr_image_turn(c);
}

uint64_t tr_desk_next(const struct tr_cluster *c)
{
    uint64_t next_us = TR_CL_NEVER;

    if (c->desk != NULL) {
        next_us = tr_image_next(c);
        if (may_probe(c) && c->desk->probe_us < next_us) {
            next_us = c->desk->probe_us;
        }
    }
    return next_us;
}

bool tr_desk_trouble(const struct tr_cluster *c, struct tr_reason *reason)
{
    static const char *const codes[] = {
        [TR_SQL_FINE] = "",
        [TR_SQL_AWAY] = "sql_away",
        [TR_SQL_AGAIN] = "sql_away",
        [TR_SQL_REFUSED] = "sql_refused",
        [TR_SQL_NO_TABLES] = "sql_tables",
        [TR_SQL_READ_ONLY] = "sql_read_only",
        [TR_SQL_FULL] = "sql_full",
        [TR_SQL_OTHER] = "sql_away",
    };

    if (c->desk == NULL || c->desk->blame == TR_SQL_FINE) {
        return false;
    }
    *reason = (struct tr_reason){codes[c->desk->blame], c->desk->why};
    return true;
}

/* ---- what it is asked for ---- */

bool tr_desk_needs_redis(enum tr_op op)
{
    return op == TR_OP_RESERVE || op == TR_OP_PAUSE || op == TR_OP_POLICY;
}

const char *tr_desk_cannot(const struct tr_cluster *c, const struct tr_req *r)
{
    if (c->desk == NULL) {
        return NULL;
    }
    if (r->op >= TR_OP_SCHEDULE && r->op <= TR_OP_SCHEDULE_RUN &&
        r->op != TR_OP_SCHEDULE_AFTER) { /* of which there is none */
        return "schedules do not work with [sql] yet";
    }
    if (r->op == TR_OP_BULK) {
        return "changes of many jobs at once do not work with [sql] yet: change them one by one";
    }
    if (r->op == TR_OP_FORECAST) {
        return "a forecast does not work with [sql] yet";
    }
    if (r->op == TR_OP_POLICY && r->policy != NULL && r->policy->deliver_len > 0 &&
        (r->fields & TR_POLICY_BIT(DELIVER)) != 0) {
        return "delivery by the server does not work with [sql] yet: let consumers reserve";
    }
    return NULL;
}

/* ---- lanes ---- */

const struct tr_desk_way *tr_desk_way(const struct tr_cluster *c, enum tr_cl_kind kind)
{
    static const struct tr_desk_way *const ways[TR_CL_KINDS] = {
        [TR_CL_PUSH] = &tr_desk_push,   [TR_CL_EDIT] = &tr_desk_edit,
        [TR_CL_KICK] = &tr_desk_kick,   [TR_CL_CLAIM] = &tr_desk_claim,
        [TR_CL_LOOK] = &tr_desk_look,   [TR_CL_HEADER] = &tr_desk_header,
        [TR_CL_KEY] = &tr_desk_key,     [TR_CL_LIST] = &tr_desk_list,
        [TR_CL_PURGE] = &tr_desk_purge, [TR_CL_COUNT] = &tr_desk_count,
        [TR_CL_LOAD] = &tr_desk_load,   [TR_CL_NOTE] = &tr_desk_note,
        [TR_CL_NAMES] = &tr_desk_names, [TR_CL_WHICH] = &tr_desk_which,
        [TR_CL_EPOCH] = &tr_desk_epoch,
    };

    return c->desk != NULL ? ways[kind] : NULL;
}

static void lane_ended(struct tr_cluster *c, struct tr_desk_call *call);

int tr_desk_lane_init(struct tr_cluster *c, struct tr_clane *lane)
{
    if (tr_desk_way(c, lane->kind) == NULL) {
        return TARRY_OK;
    }
    lane->sql = tr_mem_alloc(c->mem, sizeof *lane->sql);
    if (lane->sql == NULL) {
        return TARRY_ENOMEM;
    }
    lane->sql->lane = lane;
    lane->sql->call.done = lane_ended;
    return TARRY_OK;
}

static void drop_items(struct tr_cluster *c, struct tr_desk_lane *l)
{
    tr_mem_free(c->mem, l->items, l->room * sizeof *l->items);
    l->items = NULL;
    l->room = 0;
}

/* Tickets that were made for an ask, and are still its own. */
static void drop_tickets(struct tr_cluster *c, struct tr_desk_lane *l)
{
    for (unsigned i = 0; i < l->room; i++) {
        struct tr_truth *t = l->items[i].ctx;

        if (t != NULL) {
            tr_ticket_free(c, TR_CONTAINER_OF(t, struct tr_ticket, truth));
        }
    }
}

void tr_desk_lane_fini(struct tr_cluster *c, struct tr_clane *lane)
{
    if (lane->sql != NULL) {
        drop_tickets(c, lane->sql);
        drop_items(c, lane->sql);
        tr_mem_free(c->mem, lane->sql, sizeof *lane->sql);
        lane->sql = NULL;
    }
}

struct tr_sql_item *tr_desk_items(struct tr_cluster *c, struct tr_clane *lane, unsigned count)
{
    struct tr_desk_lane *l = lane->sql;

    l->items = tr_mem_alloc(c->mem, count * sizeof *l->items);
    l->room = l->items != NULL ? count : 0;
    l->call.ask.items = l->items;
    l->call.ask.count = l->room;
    return l->items;
}

struct tr_item *tr_desk_first(const struct tr_clane *lane)
{
    return TR_CONTAINER_OF(lane->flying.next, struct tr_item, link);
}

static bool clashes(const struct tr_clane *lane, const struct tr_desk_way *way,
                    const struct tr_item *item)
{
    for (const struct tr_list *n = lane->flying.next; way->clash != NULL && n != &lane->flying;
         n = n->next) {
        if (way->clash(TR_CONTAINER_OF(n, struct tr_item, link), item)) {
            return true;
        }
    }
    return false;
}

/* As many of those that wait as one ask takes. */
static void gather(struct tr_cluster *c, struct tr_clane *lane, const struct tr_desk_way *way)
{
    unsigned most = way->most != 0 ? way->most : c->desk->batch;
    unsigned jobs = 0;
    size_t bytes = 0;

    lane->count = 0;
    while (!tr_list_empty(&lane->items)) {
        struct tr_item *item = TR_CONTAINER_OF(lane->items.next, struct tr_item, link);

        bytes += item->req != NULL ? item->req->body_len : 0;
        jobs += way->weight != NULL ? way->weight(item) : 1;
        if (lane->count > 0 && (jobs > most || bytes > BATCH_BYTES || clashes(lane, way, item))) {
            break;
        }
        tr_list_remove(&item->link);
        tr_list_append(&lane->flying, &item->link);
        item->queued = false;
        item->flying = true;
        lane->count++;
        c->items_queued--;
    }
}

static void mark(struct tr_cluster *c, struct tr_clane *lane)
{
    if (tr_list_empty(&lane->dirty)) {
        tr_list_append(&c->dirty, &lane->dirty);
    }
}

/* Nothing was asked: requests hear so, and so do parts of others, which know what to do. */
static void refuse_all(struct tr_cluster *c, struct tr_clane *lane, int status)
{
    struct tr_item *item;

    drop_tickets(c, lane->sql);
    drop_items(c, lane->sql);
    while ((item = tr_lane_next(lane)) != NULL) {
        item->flying = false;
        if (item->req != NULL && status == TARRY_EAWAY) {
            item->req->out.why = NULL;
        }
        tr_item_finish(c, item, status);
    }
}

void tr_desk_lane_go(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_desk_way *way = tr_desk_way(c, lane->kind);
    struct tr_desk_lane *l = lane->sql;

    while (!l->call.busy && !tr_list_empty(&lane->items)) {
        gather(c, lane, way);
        if (tr_desk_down(c)) {
            refuse_all(c, lane, TARRY_EAWAY);
            continue;
        }
        l->call.ask = (struct tr_sql_ask){.conn = lane->slot};
        if (!way->build(c, lane)) {
            refuse_all(c, lane, TARRY_ENOMEM);
            continue;
        }
        c->stat.batches++;
        c->stat.items += lane->count;
        c->calls_under_way++;
        tr_desk_send(c, &l->call);
    }
}

static void lane_ended(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_desk_lane *l = TR_CONTAINER_OF(call, struct tr_desk_lane, call);
    struct tr_clane *lane = l->lane;

    c->calls_under_way--;
    call->busy = true; /* whoever is told may ask again; that waits until this one is done with */
    tr_desk_way(c, lane->kind)->ended(c, lane);
    call->busy = false;
    drop_tickets(c, l);
    drop_items(c, l);
    tr_lane_fail(c, lane, TARRY_EDAMAGED); /* none is left */
    if (!tr_list_empty(&lane->items)) {
        mark(c, lane);
    }
}
