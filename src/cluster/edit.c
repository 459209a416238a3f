/*
 * What is asked of one job by its id: ack, cancel, release, bury, touch, ... and of so many of a
 * topic: kick.
 *
 *     by key ──► HMGET P{s}:k ──► id, topic is known
 *     by id  ──► this node had it? ──► else HMGET P{s}:h ──► the header names the topic
 *                                          └──► edit (script), look (script)
 *
 * The script tests all of it again. A topic of an id never changes, since no id is used twice: so
 * what was once seen is remembered, as far as there is room.
 *
 * A connection of the beanstalk port names no lease: it is that of the hand-out (hold.c). If that
 * is lost, a delete goes on as that of a job which nobody holds, as in beanstalkd.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/hex.h"

#include <string.h>

/* ---- which job? ---- */

void tr_find_note(struct tr_cluster *c, uint64_t id, const struct tr_ctopic *t)
{
    c->cache[id >> 10 & (TR_CL_CACHE - 1)].id = id;
    c->cache[id >> 10 & (TR_CL_CACHE - 1)].topic = t->number;
}

static struct tr_ctopic *remembered(const struct tr_cluster *c, uint64_t id)
{
    unsigned at = id >> 10 & (TR_CL_CACHE - 1);

    return c->cache[at].id == id ? tr_ctopic_by_number(c, c->cache[at].topic) : NULL;
}

static void build_header(struct tr_cluster *c, struct tr_clane *lane)
{
    char key[TR_PLACE_KEY_MAX];
    char id[TR_HEX_ID];

    tr_eval_plain(&lane->call.eval, "HMGET");
    tr_eval_add(&lane->call.eval, key, tr_place_key(key, &c->layout, lane->slot, 1, NULL));
    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        tr_hex_put(id, TR_HEX_ID, TR_CONTAINER_OF(n, struct tr_item, link)->id);
        tr_eval_add(&lane->call.eval, id, TR_HEX_ID);
    }
}

static void heard_header(struct tr_cluster *c, struct tr_clane *lane,
                         const struct tr_redis_reply *reply)
{
    struct tr_item *item;
    size_t i = 0;

    while (reply->count == lane->count && (item = tr_lane_next(lane)) != NULL) {
        struct tr_span text = reply->items[i++];
        struct tr_header h;
        struct tr_ctopic *t;

        item->flying = false;
        if (item->req == NULL || text.at == NULL) {
            tr_item_finish(c, item, TARRY_ENOTFOUND);
        } else if (tr_header_read(text.at, text.len, &h) != TARRY_OK ||
                   !tr_name_ok(h.topic, h.topic_len)) {
            tr_item_finish(c, item, TARRY_EDAMAGED);
        } else if ((t = tr_ctopic_get(c, h.topic, h.topic_len)) == NULL) {
            tr_item_finish(c, item, TARRY_ENOMEM);
        } else {
            tr_item_pin(item, t);
            tr_find_note(c, item->id, t);
            tr_ctopic_load(c, item, item->then);
        }
    }
}

const struct tr_cl_way tr_header_way = {
    .script = -1, .most = TR_CL_MANY, .build = build_header, .heard = heard_header};

static void build_key(struct tr_cluster *c, struct tr_clane *lane)
{
    char key[TR_PLACE_KEY_MAX];
    char field[TR_TOPIC_NAME_MAX + 1 + 255];

    tr_eval_plain(&lane->call.eval, "HMGET");
    tr_eval_add(&lane->call.eval, key, tr_place_key(key, &c->layout, lane->slot, 3, NULL));
    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        const struct tr_item *item = TR_CONTAINER_OF(n, struct tr_item, link);
        size_t len = item->topic->name_len;

        memcpy(field, item->topic->name, len + 1); /* with its end */
        memcpy(field + len + 1, item->req->key, item->req->key_len);
        tr_eval_add(&lane->call.eval, field, len + 1 + item->req->key_len);
    }
}

static void heard_key(struct tr_cluster *c, struct tr_clane *lane,
                      const struct tr_redis_reply *reply)
{
    struct tr_item *item;
    size_t i = 0;

    while (reply->count == lane->count && (item = tr_lane_next(lane)) != NULL) {
        struct tr_span text = reply->items[i++];

        item->flying = false;
        if (item->req == NULL || text.at == NULL) {
            tr_item_finish(c, item, TARRY_ENOTFOUND);
        } else if (text.len != TR_HEX_ID || !tr_hex_get(text.at, TR_HEX_ID, &item->id)) {
            tr_item_finish(c, item, TARRY_EDAMAGED);
        } else {
            item->req->id = item->id;
            tr_find_note(c, item->id, item->topic);
            item->then(c, item);
        }
    }
}

const struct tr_cl_way tr_key_way = {
    .script = -1, .most = TR_CL_MANY, .build = build_key, .heard = heard_key};

static void ask_key(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_ctopic *t = item->topic;
    unsigned i = tr_place_of_key(item->req->key, item->req->key_len, t->spread);

    item->slot = t->spots[i].slot;
    item->then = item->after;
    tr_lane_put(c, TR_CL_KEY, item);
}

void tr_find_job(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then)
{
    struct tr_req *r = item->req;
    struct tr_ctopic *t;

    if (r->key_len > 0) {
        t = tr_ctopic_by_number(c, r->topic);
        if (t == NULL || r->key_len > 255) {
            tr_item_finish(c, item, t == NULL ? TARRY_ENOTFOUND : TARRY_EINVAL);
            return;
        }
        item->after = then;
        tr_item_pin(item, t);
        tr_ctopic_load(c, item, ask_key);
        return;
    }
    if (!tr_place_id_ok(&c->layout, item->id)) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
        return;
    }
    item->slot = tr_place_slot_of(item->id);
    t = remembered(c, item->id);
    if (t != NULL) {
        tr_item_pin(item, t);
        tr_ctopic_load(c, item, then);
    } else {
        item->then = then;
        tr_lane_put(c, TR_CL_HEADER, item);
    }
}

/* ---- one job ---- */

static bool needs_lease(const struct tr_req *r)
{
    return r->op == TR_OP_RELEASE || r->op == TR_OP_RETURN || r->op == TR_OP_TOUCH ||
           (r->op == TR_OP_BURY && !r->force);
}

static bool is_sane(const struct tr_cluster *c, const struct tr_req *r)
{
    uint64_t now_us = tr_cluster_server_now(c);
    bool good = r->delay_us <= TR_DELAY_MAX_US && r->at_us <= now_us + TR_DELAY_MAX_US &&
                r->ttr_us <= TR_DELAY_MAX_US && r->ttl_us <= TR_DELAY_MAX_US;

    if (r->op == TR_OP_EDIT) {
        good = good && r->edit != 0 && r->tag_len <= 64 &&
               ((r->edit & TR_EDIT_TTR) == 0 || r->ttr_us != 0);
    }
    return good;
}

static void to_lane(struct tr_cluster *c, struct tr_item *item)
{
    item->slot = tr_place_slot_of(item->id);
    if (item->op == TR_OP_RESERVE_JOB) {
        item->lease = tr_take_lease(c);
    }
    tr_lane_put(c, TR_CL_EDIT, item);
}

void tr_edit_ask(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_req *r = item->req;
    const struct tr_holding *g;

    if (!is_sane(c, r)) {
        tr_item_finish(c, item, TARRY_EINVAL);
        return;
    }
    if (r->op == TR_OP_EDIT && (r->edit & TR_EDIT_BODY) != 0 && r->body_len > c->config.body_max) {
        tr_item_finish(c, item, TARRY_EFULL);
        return;
    }
    g = r->holder != 0 && r->lease == 0 ? tr_hold_find(c, r->holder, r->id) : NULL;
    if (g != NULL && (needs_lease(r) || r->op == TR_OP_DELETE)) {
        item->lease = g->item.lease;
        item->implied = true;
    } else if (needs_lease(r) && r->lease == 0) {
        tr_item_finish(c, item, TARRY_ENOTFOUND); /* this connection does not have it */
        return;
    }
    if (r->op == TR_OP_RESERVE_JOB && !tr_hold_room(c, item)) {
        tr_item_finish(c, item, TARRY_ENOMEM);
        return;
    }
    tr_find_job(c, item, to_lane);
}

/* Acks go in the order of their ids, whoever came first: then no job is there twice, and those of
 * one lease stand together, which is quick (edit.lua). */
static void sort_acks(struct tr_clane *lane)
{
    struct tr_list sorted;
    struct tr_item *item;

    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        item = TR_CONTAINER_OF(n, struct tr_item, link);
        if (item->op != TR_OP_DELETE || item->lease == 0) {
            return;
        }
    }
    tr_list_init(&sorted);
    while ((item = tr_lane_next(lane)) != NULL) {
        struct tr_list *at = sorted.prev;

        while (at != &sorted && TR_CONTAINER_OF(at, struct tr_item, link)->id > item->id) {
            at = at->prev;
        }
        tr_list_append(at->next, &item->link); /* in front of the next one */
    }
    tr_list_splice(&lane->flying, &sorted);
}

static void build(struct tr_cluster *c, struct tr_clane *lane)
{
    sort_acks(lane);
    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        const struct tr_item *item = TR_CONTAINER_OF(n, struct tr_item, link);
        struct tr_req asked = item->req != NULL ? *item->req : (struct tr_req){0};

        asked.op = item->op;
        asked.id = item->id;
        asked.lease = item->lease;
        tr_eval_edit(&lane->call.eval, tr_lane_topic(lane, item->topic), &asked,
                     c->now.boot_us - item->since_us);
    }
}

static enum tr_job_state state_of(char set)
{
    switch (set) {
    case 's':
        return TR_DELAYED;
    case 'r':
        return TR_READY;
    case 'p':
        return TR_RESERVED;
    default:
        return TR_DEAD;
    }
}

static void count_done(struct tr_cluster *c, struct tr_item *item, const struct tr_edited *e)
{
    tr_count_changed(c, item->topic, item->slot);
    switch (item->op) {
    case TR_OP_DELETE:
        if (item->kind == TR_DESK_DROPS) {
            tr_gauge_count(c, item->topic, TR_METERED_DROPPED, 1);
            break;
        }
        item->topic->deleted++;
        c->totals.deleted++;
        tr_gauge_count(c, item->topic, item->lease != 0 ? TR_METERED_ACKED : TR_METERED_CANCELLED,
                       1);
        break;
    case TR_OP_RELEASE:
    case TR_OP_CLOSE:
        tr_gauge_count(c, item->topic, e->what == 'D' ? TR_METERED_DEAD : TR_METERED_RETRIED, 1);
        break;
    case TR_OP_BURY:
        tr_gauge_count(c, item->topic, TR_METERED_DEAD, 1);
        break;
    default:
        break;
    }
}

/* It was done: whoever held it does so no more, or for longer. */
static void done(struct tr_cluster *c, struct tr_item *item, const struct tr_edited *e,
                 uint64_t now_us)
{
    struct tr_req *r = item->req;

    count_done(c, item, e);
    if (item->op == TR_OP_RESERVE_JOB) {
        tr_hold_reserved(c, item, &e->header, now_us);
        return;
    }
    if (item->op == TR_OP_TOUCH && item->implied && r != NULL) {
        tr_hold_touched(c, r->holder, item->id, tr_cluster_boot_of(c, e->header.at_us, now_us));
    } else if (item->lease != 0 && r != NULL) {
        tr_hold_end(c, r->holder, item->id);
    }
    if (r != NULL && e->was != 0) {
        r->out.job = (struct tr_job_view){.id = item->id,
                                          .topic = item->topic->number,
                                          .topic_name = item->topic->name,
                                          .topic_name_len = item->topic->name_len,
                                          .state = state_of(e->was)};
    } else if (r != NULL) {
        tr_item_view(c, item, &e->header, now_us);
    }
    tr_item_finish(c, item, TARRY_OK);
}

/* Another state is in the way, or the lease is lost. */
static void refused(struct tr_cluster *c, struct tr_item *item, const struct tr_edited *e,
                    uint64_t now_us)
{
    if (item->implied && item->req != NULL) {
        tr_hold_end(c, item->req->holder, item->id);
    }
    if (item->implied && item->op == TR_OP_DELETE && item->req != NULL) {
        item->implied = false; /* nobody has it any more: then anybody may delete it */
        item->lease = 0;
        item->flying = false;
        tr_lane_put(c, TR_CL_EDIT, item);
        return;
    }
    if (item->req != NULL) {
        tr_item_view(c, item, &e->header, now_us);
    }
    tr_item_finish(c, item, TARRY_ESTATE);
}

void tr_edit_ended(struct tr_cluster *c, struct tr_item *item, const struct tr_edited *e,
                   uint64_t now_us)
{
    if (e->what == 'O' || e->what == 'D') {
        done(c, item, e, now_us);
    } else if (e->what == 'N') {
        if (item->implied && item->req != NULL) {
            tr_hold_end(c, item->req->holder, item->id);
        }
        tr_item_finish(c, item, TARRY_ENOTFOUND);
    } else if (e->what == 'F') {
        tr_item_finish(c, item, TARRY_EQUOTA);
    } else {
        refused(c, item, e, now_us);
    }
}

static void answered(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *item;

    for (size_t i = 0; tr_answer_item(a, i) != NULL && (item = tr_lane_next(lane)) != NULL; i++) {
        struct tr_edited e;

        if (tr_answer_edited(*tr_answer_item(a, i), &e) == TARRY_OK) {
            tr_edit_ended(c, item, &e, a->now_us);
        } else {
            tr_item_finish(c, item, TARRY_EDAMAGED);
        }
    }
}

const struct tr_cl_way tr_edit_way = {.script = TR_SCRIPT_EDIT,
                                      .most = TR_EVAL_JOBS,
                                      .jobs = true,
                                      .twin = true,
                                      .build = build,
                                      .answered = answered};

/* ---- so many of a topic ---- */

static void kick_slot(struct tr_cluster *c, struct tr_item *item)
{
    item->slot = item->topic->spots[item->at % item->topic->spread].slot;
    tr_lane_put(c, TR_CL_KICK, item);
}

/* With one slot the script knows whether there is a dead one. */
static void kick_first(struct tr_cluster *c, struct tr_item *item)
{
    if (item->topic->spread > 1) {
        item->kind = 'd';
    }
    kick_slot(c, item);
}

void tr_kick_ask(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_ctopic *t = tr_ctopic_by_number(c, item->req->topic);

    if (t == NULL || item->req->count == 0) {
        tr_item_finish(c, item, t == NULL ? TARRY_ENOTFOUND : TARRY_OK);
        return;
    }
    tr_item_pin(item, t);
    tr_ctopic_load(c, item, kick_first);
}

static void build_kick(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = TR_CONTAINER_OF(lane->flying.next, struct tr_item, link);
    uint64_t left = item->req->count - item->number;

    (void)c;
    tr_eval_kick(&lane->call.eval, (unsigned)(left < TR_EVAL_JOBS ? left : TR_EVAL_JOBS),
                 item->req->beanstalk, item->kind);
}

/* So many were kicked here: on with the same kind, here or in the next slot. Delayed ones only if
 * there is no dead one in any slot. */
static void answered_kick(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *item = tr_lane_next(lane);
    struct tr_kicked k;

    item->flying = false;
    if (tr_answer_kicked(a, &k) != TARRY_OK) {
        tr_item_finish(c, item, TARRY_EDAMAGED);
        return;
    }
    tr_count_changed(c, item->topic, lane->slot);
    item->number += k.count;
    if (k.count > 0) {
        item->kind = k.which;
        item->partly = "some jobs were kicked, perhaps not as many as there are: kick once more";
    }
    if (item->req != NULL) {
        item->req->out.number = item->number;
    }
    if (item->req != NULL && item->number < item->req->count && k.count < TR_EVAL_JOBS) {
        item->at++;
    }
    if (item->at >= item->topic->spread && item->number == 0 && item->kind == 'd') {
        item->kind = 's';
        item->at = 0;
    }
    if (item->req == NULL || item->number >= item->req->count || item->at >= item->topic->spread) {
        tr_item_finish(c, item, TARRY_OK);
        return;
    }
    kick_slot(c, item);
}

const struct tr_cl_way tr_kick_way = {.script = TR_SCRIPT_KICK,
                                      .most = 1,
                                      .jobs = true,
                                      .build = build_kick,
                                      .answered = answered_kick};
