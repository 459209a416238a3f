/*
 * Jobs as their rows are, by id or by key; and which topic an id is of. What time has done to a row
 * that nobody has written yet is shown as if it were (tr_truth_look).
 */

#include "base/err.h"
#include "cluster/load.h"

#include <string.h>

enum { BODIES_MOST = 32 }; /* they may be large */

static struct tr_item *item_of(const struct tr_list *n)
{
    return TR_CONTAINER_OF(n, struct tr_item, link);
}

static bool build_by(struct tr_cluster *c, struct tr_clane *lane, enum tr_sql_by by)
{
    struct tr_sql_item *items = tr_desk_items(c, lane, lane->count);
    unsigned i = 0;

    for (const struct tr_list *n = lane->flying.next; items != NULL && n != &lane->flying;
         n = n->next) {
        items[i++] = (struct tr_sql_item){.by = by, .id = item_of(n)->id};
    }
    lane->sql->call.ask.kind = TR_SQL_LOOK;
    return items != NULL;
}

/* Nothing was changed, so it does not matter whether it was done. */
static int status_of(const struct tr_sql_ask *ask)
{
    int status = tr_desk_status(ask, ask->end);

    return status == TARRY_EUNSURE ? TARRY_EAWAY : status;
}

/* ---- jobs ---- */

static bool build(struct tr_cluster *c, struct tr_clane *lane)
{
    bool bodies = false;

    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        bodies = bodies || tr_look_body(item_of(n));
    }
    if (!build_by(c, lane, TR_SQL_BY_ID)) {
        return false;
    }
    lane->sql->call.ask.with_bodies = bodies;
    return true;
}

static void show(struct tr_cluster *c, struct tr_item *item, const struct tr_sql_item *row,
                 uint64_t now_us)
{
    struct tr_span said[2] = {{"", 0}, {"", 0}};
    char text[TR_HEADER_MAX];
    struct tr_sql_job is;
    struct tr_header h;

    if (tr_truth_look(row, now_us, &is)) {
        tr_truth_header(&is, (struct tr_span){item->topic->name, item->topic->name_len}, now_us,
                        &h);
        said[0] = (struct tr_span){text, tr_header_write(text, &h)};
        said[1] = is.body;
    }
    tr_look_show(c, item, said, now_us);
}

/* Whatever the index has of it, this is how it is. A dead one has no place there. */
static void restore(struct tr_cluster *c, struct tr_item *item, const struct tr_sql_item *row,
                    uint64_t now_us)
{
    struct tr_sql_job is;

    if (item->req == NULL || !tr_truth_look(row, now_us, &is)) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
        return;
    }
    if (is.state == TR_SQL_DEAD) {
        struct tr_header h;

        tr_truth_header(&is, (struct tr_span){item->topic->name, item->topic->name_len}, now_us,
                        &h);
        tr_item_view(c, item, &h, now_us);
        tr_item_finish(c, item, TARRY_ESTATE);
    } else if (!tr_image_put(c, item->topic, TR_INDEX_FORCE, &row->row)) {
        tr_item_finish(c, item, TARRY_ENOMEM);
    } else {
        show(c, item, row, now_us);
    }
}

static void ended(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    int status = status_of(ask);
    struct tr_item *item;

    for (unsigned i = 0; (item = tr_lane_next(lane)) != NULL; i++) {
        if (status == TARRY_OK && item->op == TR_OP_RESTORE) {
            restore(c, item, &ask->items[i], ask->now_us);
        } else if (status == TARRY_OK) {
            show(c, item, &ask->items[i], ask->now_us);
        } else {
            tr_item_finish(c, item, status);
        }
    }
}

const struct tr_desk_way tr_desk_look = {.most = BODIES_MOST, .build = build, .ended = ended};

/* ---- all jobs, or one, into the index anew ---- */

/* All: the owners of slots compare entries and rows, both ways, whatever they believe to be right.
 */
void tr_restore_ask(struct tr_cluster *c, struct tr_item *item)
{
    if (c->desk == NULL) {
        tr_item_refuse(c, item, TARRY_EUNSUPPORTED,
                       "a restore needs [sql]: on Redis alone there is nothing to restore from");
    } else if (item->req->id != 0) {
        tr_look_ask(c, item);
    } else {
        tr_align_everything(c);
        item->req->out.number = c->layout.slots;
        tr_item_finish(c, item, TARRY_OK);
    }
}

/* ---- which topic an id is of ---- */

static bool build_header(struct tr_cluster *c, struct tr_clane *lane)
{
    return build_by(c, lane, TR_SQL_BY_ID);
}

static void ended_header(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    int status = status_of(ask);
    struct tr_item *item;

    for (unsigned i = 0; (item = tr_lane_next(lane)) != NULL; i++) {
        const struct tr_sql_item *row = &ask->items[i];

        item->flying = false;
        if (status != TARRY_OK) {
            tr_item_finish(c, item, status);
        } else if (item->req == NULL || !row->found || row->row.gen != row->gen) {
            tr_item_finish(c, item, TARRY_ENOTFOUND);
        } else {
            tr_desk_which_topic(c, item, row->row.topic);
        }
    }
}

const struct tr_desk_way tr_desk_header = {
    .most = TR_CL_MANY, .build = build_header, .ended = ended_header};

/* ---- which id a key has ---- */

static bool build_key(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_item *item = tr_desk_first(lane);
    struct tr_sql_item *row = tr_desk_items(c, lane, 1);

    if (row == NULL) {
        return false;
    }
    /* Who asks may leave meanwhile, and take the key along. */
    memcpy(lane->sql->key, item->req->key, item->req->key_len);
    *row = (struct tr_sql_item){.by = TR_SQL_BY_KEY,
                                .topic = item->topic->row,
                                .key = {lane->sql->key, item->req->key_len}};
    lane->sql->call.ask.kind = TR_SQL_LOOK;
    return true;
}

static void ended_key(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    const struct tr_sql_item *row = &ask->items[0];
    int status = status_of(ask);
    struct tr_item *item = tr_lane_next(lane);

    item->flying = false;
    if (status != TARRY_OK) {
        tr_item_finish(c, item, status);
    } else if (item->req == NULL || !row->found || row->row.gen != row->gen) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
    } else {
        item->id = row->row.id;
        item->req->id = item->id;
        tr_find_note(c, item->id, item->topic);
        item->then(c, item);
    }
}

const struct tr_desk_way tr_desk_key = {.most = 1, .build = build_key, .ended = ended_key};

/* ---- how many ---- */

static bool build_count(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_spot *spot = TR_CONTAINER_OF(tr_desk_first(lane), struct tr_spot, counter);
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    (void)c;
    ask->kind = TR_SQL_COUNT;
    ask->topic = spot->topic->row;
    ask->slot = spot->slot;
    ask->order = (uint8_t)spot->topic->order;
    ask->light = spot->light;
    return true;
}

static uint64_t natural(int64_t n)
{
    return n > 0 ? (uint64_t)n : 0;
}

/* What Redis alone knows, of pauses, stays; sums are the whole topic's, so the first slot's. */
static void fill(struct tr_spot *spot, const struct tr_sql_ask *ask)
{
    const struct tr_sql_heads *h = &ask->heads;
    struct tr_counted *n = &spot->count;
    bool first = spot->index == 0;

    n->waiting = first ? natural(ask->counts.waiting) : 0;
    n->reserved = first ? natural(ask->counts.reserved) : 0;
    n->ended = h->ended;
    n->dead = first ? natural(ask->counts.dead) : 0;
    n->delayed = 0;
    n->ready = ask->light ? h->best_id != 0 : h->ready;
    n->urgent = h->urgent;
    n->next_due_us = h->next_due_us;
    n->oldest_ready_us = h->oldest_us;
    n->best_id = h->best_id;
    n->best_due_us = h->best_due_us;
    n->best_priority = h->best_priority;
    n->first_delayed_id = h->next_id;
    n->first_dead_id = h->dead_id;
    spot->topic->heavy = natural(ask->counts.bytes);
}

static void ended_count(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    struct tr_spot *spot = TR_CONTAINER_OF(item, struct tr_spot, counter);
    int status = status_of(ask);

    if (status == TARRY_OK) {
        fill(spot, ask);
        spot->headed_us = lane->sql->call.sent_us;
        spot->counted_us = ask->light ? 0 : spot->headed_us; /* the rest was not asked for */
    }
    tr_item_finish(c, item, status);
}

const struct tr_desk_way tr_desk_count = {.most = 1, .build = build_count, .ended = ended_count};
