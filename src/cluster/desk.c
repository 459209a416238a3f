/*
 * Asks of a database, and lanes of them.
 *
 *     items ── go ──► flying + ask ──► port ──► ended: each item ends, or goes on
 *
 * A lane is for one kind of asks and one connection, so for many slots: one ask is under way and
 * what comes meanwhile is the next one, as in lane.c. Changes of jobs of a slot always go by the
 * same connection, so those of a job are in order; new jobs by another one, and claims by any
 * (claim.c): nobody asks for a change of a job before he hears that it is there, or that he has it.
 *
 * The time. All times are those of the database. Each answer tells it: now_us was read between
 * `sent` and `heard`, so if it is taken for the time at which the answer came, what follows is late
 * by a round trip at most and never early. The answer with the shortest trip of the last minute
 * counts; but one that shows that the time is another one counts at once.
 *
 * Whether it is there, and by which of its connections: sql_lines.c.
 */

#include "cluster/desk.h"

#include "base/err.h"
#include "base/text.h"
#include "cluster/load.h"

#include <string.h>

#define BEST_US UINT64_C(60000000)
#define NO_MEMORY_AGAIN_US UINT64_C(50000)
#define BATCH_BYTES ((size_t)1 << 20)

enum { CROWD_PART = 4, CROWD_LEAST = 16 };

/* ---- begin and end ---- */

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
    tr_lines_init(d);
    tr_map_init(&d->topics, c->mem);
    tr_list_init(&d->tickets);
    tr_list_init(&d->replies);
    tr_list_init(&d->later);
    tr_list_init(&d->crowds);
    for (unsigned s = 0; s < c->layout.slots; s++) {
        tr_list_init(&d->slots[s].waiting);
    }
    c->desk = d;
    return tr_dregs_init(c);
}

void tr_desk_free_parts(struct tr_cluster *c)
{
    tr_recurs_free(c);
    tr_house_free(c);
    tr_numbers_free(c);
    tr_images_free(c);
    tr_crowds_free(c); /* images are asked for by their parts */
}

void tr_desk_fini(struct tr_cluster *c)
{
    if (c->desk != NULL) {
        tr_flow_free(c);
        tr_dregs_free(c);
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

/* Changes of jobs that are there go by another one than new jobs: nobody asks for a change before
 * he knows the job, and so both can be done at the same time. */
unsigned tr_desk_lane_conn(const struct tr_cluster *c, enum tr_cl_kind kind, unsigned slot)
{
    bool changes = kind == TR_CL_EDIT || kind == TR_CL_KICK || kind == TR_CL_BULK;

    return tr_desk_conn(c, changes ? slot + c->desk->conns / 2 : slot);
}

void tr_desk_send_by(struct tr_cluster *c, struct tr_desk_call *call, unsigned conn)
{
    TR_CHECK(!call->busy);
    call->ask.conn = conn;
    call->busy = true;
    call->sent_us = c->now.boot_us;
    call->ask.ctx = call;
    call->life = c->desk->life;
    call->ask.life = call->life;
    c->desk->under_way++;
    c->desk->lines[conn].busy++;
    c->desk->port.send(c->desk->port.ctx, &call->ask);
}

/* If its connection fails, another one does as well: what is to be in order waits in its lane. */
void tr_desk_send(struct tr_cluster *c, struct tr_desk_call *call)
{
    tr_desk_send_by(c, call, tr_lines_pick(c->desk, call->ask.conn));
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

int tr_desk_failed(struct tr_cluster *c, const struct tr_sql_item *row)
{
    if (row->end == TR_SQL_UNSURE) {
        tr_align_slot(c, tr_place_slot_of(row->id), TR_ALIGN_ALL);
        return TARRY_EUNSURE;
    }
    return row->blame == TR_SQL_FULL  ? TARRY_ENOSPC
           : row->blame == TR_SQL_BAD ? TARRY_EINVAL
                                      : TARRY_EAWAY;
}

void tr_desk_refused(struct tr_cluster *c, struct tr_item *item, const struct tr_sql_item *row)
{
    int status = tr_desk_failed(c, row);

    /* It was reached: what it has said is no use to somebody who would wait for it. */
    if (item->req != NULL && (row->blame == TR_SQL_BAD || row->blame == TR_SQL_OTHER) &&
        row->end == TR_SQL_UNDONE) {
        item->req->out.why = row->why;
    }
    tr_item_finish(c, item, status);
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

void tr_desk_ended(void *ctx, struct tr_sql_ask *ask)
{
    struct tr_cluster *c = ctx;
    struct tr_desk_call *call = ask->ctx;

    call->busy = false;
    c->desk->under_way--;
    c->desk->lines[ask->conn].busy--;
    tr_lines_heard(c, ask, call->sent_us);
    if (ask->now_us != 0 && ask->blame == TR_SQL_FINE) {
        learn_time(c, ask->now_us, call->sent_us);
    }
    tr_life_heard(c, call->life, ask->life);
    if (ask->life != c->desk->life && ask->life != 0 && ask->kind != TR_SQL_CHANGE &&
        ask->kind != TR_SQL_PLAN) {
        ask->end = TR_SQL_UNDONE; /* what was read of the server before is of no use */
        ask->blame = TR_SQL_AGAIN;
    }
    call->done(c, call);
}

/* ---- time ---- */

void tr_desk_turn(struct tr_cluster *c)
{
    if (c->desk == NULL) {
        return;
    }
    tr_lines_turn(c);
    tr_life_turn(c);
    tr_image_turn(c);
    tr_fold_turn(c);
    tr_flow_turn(c);
    tr_dregs_turn(c);
}

uint64_t tr_desk_next(const struct tr_cluster *c)
{
    uint64_t next_us = TR_CL_NEVER;

    if (c->desk != NULL) {
        next_us = tr_image_next(c);
        next_us = tr_fold_next(c) < next_us ? tr_fold_next(c) : next_us;
        next_us = tr_lines_next(c) < next_us ? tr_lines_next(c) : next_us;
        next_us = tr_life_next(c) < next_us ? tr_life_next(c) : next_us;
        if (tr_flow_next(c) < next_us) {
            next_us = tr_flow_next(c);
        }
        if (tr_dregs_next(c) < next_us) {
            next_us = tr_dregs_next(c);
        }
    }
    return next_us;
}

/* ---- what it is asked for ---- */

bool tr_desk_needs_redis(enum tr_op op)
{
    return op == TR_OP_RESERVE || op == TR_OP_PAUSE || op == TR_OP_POLICY || op == TR_OP_RESTORE;
}

/* ---- lanes ---- */

const struct tr_desk_way *tr_desk_way(const struct tr_cluster *c, enum tr_cl_kind kind)
{
    static const struct tr_desk_way *const ways[TR_CL_KINDS] = {
        [TR_CL_PUSH] = &tr_desk_push,         [TR_CL_EDIT] = &tr_desk_edit,
        [TR_CL_KICK] = &tr_desk_kick,         [TR_CL_CLAIM] = &tr_desk_claim,
        [TR_CL_LOOK] = &tr_desk_look,         [TR_CL_HEADER] = &tr_desk_header,
        [TR_CL_KEY] = &tr_desk_key,           [TR_CL_LIST] = &tr_desk_list,
        [TR_CL_PURGE] = &tr_desk_purge,       [TR_CL_COUNT] = &tr_desk_count,
        [TR_CL_LOAD] = &tr_desk_load,         [TR_CL_NOTE] = &tr_desk_note,
        [TR_CL_NAMES] = &tr_desk_names,       [TR_CL_WHICH] = &tr_desk_which,
        [TR_CL_EPOCH] = &tr_desk_epoch,       [TR_CL_PLAN] = &tr_desk_plan,
        [TR_CL_SCHEDULE] = &tr_desk_schedule, [TR_CL_OUTLETS] = &tr_desk_outlets,
        [TR_CL_FLOW] = &tr_desk_flow,         [TR_CL_SIFT] = &tr_desk_sift,
        [TR_CL_BULK] = &tr_desk_bulk,         [TR_CL_FORECAST] = &tr_desk_forecast,
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

static size_t bytes_of(const struct tr_desk_way *way, const struct tr_item *item)
{
    if (way->bytes != NULL) {
        return way->bytes(item);
    }
    return item->req != NULL ? item->req->body_len : 0;
}

/* As many of those that wait as one ask takes. */
static void gather(struct tr_cluster *c, struct tr_clane *lane, const struct tr_desk_way *way)
{
    const struct tr_list *items = lane->first != NULL ? &lane->first->items : &lane->items;
    unsigned most = way->most != 0 ? way->most : c->desk->batch;
    unsigned jobs = 0;
    size_t bytes = 0;

    lane->count = 0;
    while (!tr_list_empty(items)) {
        struct tr_item *item = TR_CONTAINER_OF(items->next, struct tr_item, link);

        if (lane->first != NULL && !way->beside(item)) {
            break;
        }
        bytes += bytes_of(way, item);
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

void tr_desk_lanes_refuse(struct tr_cluster *c)
{
    for (struct tr_list *n = c->all_lanes.next; n != &c->all_lanes; n = n->next) {
        struct tr_clane *lane = TR_CONTAINER_OF(n, struct tr_clane, all);
        struct tr_list items;

        tr_list_init(&items);
        if (lane->sql != NULL) {
            tr_list_splice(&items, &lane->items);
        }
        while (!tr_list_empty(&items)) {
            struct tr_item *item = TR_CONTAINER_OF(items.next, struct tr_item, link);

            tr_list_remove(&item->link);
            item->queued = false;
            c->items_queued--;
            if (item->req != NULL) {
                item->req->out.why = NULL;
            }
            tr_item_finish(c, item, TARRY_EAWAY);
        }
    }
}

/* Those that were gathered. */
static void go(struct tr_cluster *c, struct tr_clane *lane, const struct tr_desk_way *way,
               unsigned conn)
{
    struct tr_desk_lane *l = lane->sql;

    if (tr_desk_down(c)) {
        refuse_all(c, lane, TARRY_EAWAY);
        return;
    }
    l->call.ask = (struct tr_sql_ask){.conn = conn};
    if (!way->build(c, lane)) {
        refuse_all(c, lane, TARRY_ENOMEM);
        return;
    }
    c->stat.batches++;
    c->stat.items += lane->count;
    c->calls_under_way++;
    tr_desk_send(c, &l->call);
}

/* Who may go beside those that are under way, of those in front; so many are looked for. */
static unsigned in_line(const struct tr_clane *lane, const struct tr_desk_way *way, unsigned most)
{
    unsigned n = 0;

    for (const struct tr_list *at = lane->items.next; at != &lane->items && n < most;
         at = at->next) {
        if (!way->beside(TR_CONTAINER_OF(at, struct tr_item, link))) {
            break;
        }
        n++;
    }
    return n;
}

/* A second ask beside the first, by another connection: as in lane.c, when a quarter of all who
 * are about stand in line. Not for a handful: what one client has sent together would be handed out
 * in the order of commits. */
static void go_beside(struct tr_cluster *c, struct tr_clane *lane, const struct tr_desk_way *way)
{
    unsigned waiting = in_line(lane, way, c->desk->batch);
    unsigned enough = (lane->count + CROWD_PART - 2) / (CROWD_PART - 1);
    bool crowd = waiting >= enough && waiting >= CROWD_LEAST;
    struct tr_clane *twin = crowd ? tr_lane_twin(c, lane) : NULL;

    if (twin != NULL && !twin->sql->call.busy) {
        gather(c, twin, way);
        go(c, twin, way, tr_lines_least(c->desk, lane->slot));
    }
}

void tr_desk_lane_go(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_desk_way *way = tr_desk_way(c, lane->kind);

    while (!lane->sql->call.busy && !tr_list_empty(&lane->items)) {
        gather(c, lane, way);
        go(c, lane, way, lane->slot);
    }
    if (way->beside != NULL && c->desk->conns > 1 && !tr_list_empty(&lane->items)) {
        go_beside(c, lane, way);
    }
}

static void lane_ended(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_desk_lane *l = TR_CONTAINER_OF(call, struct tr_desk_lane, call);
    struct tr_clane *lane = l->lane;

    c->calls_under_way--;
    call->busy = true; /* whoever is told may ask again; that waits until this one is done with */
    tr_desk_learn(c, &call->ask);
    tr_desk_way(c, lane->kind)->ended(c, lane);
    call->busy = false;
    drop_tickets(c, l);
    drop_items(c, l);
    tr_lane_fail(c, lane, TARRY_EDAMAGED); /* none is left */
    lane = lane->first != NULL ? lane->first : lane;
    if (!tr_list_empty(&lane->items)) {
        mark(c, lane);
    }
}
