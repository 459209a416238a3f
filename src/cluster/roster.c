/*
 * The roster: which schedules there are, and in which slot.
 *
 *     P{meta}:roster    name -> number, stamp, number before
 *     P{meta}:order     by number
 *
 * A number is one that only grows * 1024 + the slot, as ids are. The slot has the schedule itself:
 * a name whose slot knows nothing of it is none. It is written before the schedule and once more
 * behind it, and taken out after it: see roster.lua for what happens to two at once.
 */

#include "base/err.h"
#include "cluster/hex.h"
#include "cluster/plan.h"

#include <string.h>

enum { FIND_MOST = 64 };

/* ---- by name ---- */

static void build_where(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_eval *e = &lane->call.eval;
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(e, "HMGET");
    tr_eval_add(e, key, tr_place_meta_key(key, &c->layout, TR_META_ROSTER));
    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        const struct tr_plan *p = TR_CONTAINER_OF(n, struct tr_item, link)->plan;

        tr_eval_add(e, p->name, p->name_len);
    }
}

static bool number_ok(const struct tr_cluster *c, const char *at, uint64_t *number)
{
    return tr_hex_get(at, TR_HEX_ID, number) &&
           (*number == 0 || tr_place_id_ok(&c->layout, *number));
}

static void heard_where(struct tr_cluster *c, struct tr_clane *lane,
                        const struct tr_redis_reply *reply)
{
    struct tr_item *item;

    for (size_t i = 0; reply->count == lane->count && (item = tr_lane_next(lane)) != NULL; i++) {
        struct tr_span text = reply->items[i];
        struct tr_plan *p = item->plan;

        p->number = 0;
        p->before = 0;
        if (text.at != NULL && (text.len != TR_PLAN_ROSTER || !number_ok(c, text.at, &p->number) ||
                                !number_ok(c, text.at + TR_HEX_ID + TR_PLAN_STAMP, &p->before))) {
            tr_item_finish(c, item, TARRY_EDAMAGED);
            continue;
        }
        if (text.at != NULL) {
            memcpy(p->roster, text.at, TR_PLAN_ROSTER);
            item->slot = tr_place_slot_of(p->number);
        }
        p->then(c, item);
    }
}

const struct tr_cl_way tr_where_way = {
    .script = -1, .most = FIND_MOST, .meta = true, .build = build_where, .heard = heard_where};

void tr_roster_find(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then)
{
    item->plan->then = then;
    if (c->desk != NULL) { /* its row is all there is of it */
        tr_plan_read(c, item, then);
        return;
    }
    tr_lane_put(c, TR_CL_WHERE, item);
}

/* ---- one by one ---- */

static void build_order(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = TR_CONTAINER_OF(lane->flying.next, struct tr_item, link);
    struct tr_eval *e = &lane->call.eval;
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(e, "ZRANGE");
    tr_eval_add(e, key, tr_place_meta_key(key, &c->layout, TR_META_ORDER));
    tr_eval_add_number(e, item->id + 1); /* numbers are whole */
    tr_eval_add(e, "+inf", 4);
    tr_eval_add(e, "BYSCORE", 7);
    tr_eval_add(e, "LIMIT", 5);
    tr_eval_add_number(e, 0);
    tr_eval_add_number(e, 1);
    tr_eval_add(e, "WITHSCORES", 10);
}

static void heard_order(struct tr_cluster *c, struct tr_clane *lane,
                        const struct tr_redis_reply *reply)
{
    struct tr_item *item = tr_lane_next(lane);
    struct tr_plan *p = item->plan;
    uint64_t number = 0;

    if (reply->count == 2) {
        struct tr_span name = reply->items[0];
        struct tr_span score = reply->items[1];

        for (size_t i = 0; i < score.len && score.at[i] >= '0' && score.at[i] <= '9'; i++) {
            number = number * 10 + (uint64_t)(score.at[i] - '0');
        }
        if (!tr_place_id_ok(&c->layout, number) || name.len > TR_SCHEDULE_NAME_MAX) {
            tr_item_finish(c, item, TARRY_EDAMAGED);
            return;
        }
        memcpy(p->name, name.at, name.len);
        p->name_len = name.len;
        item->slot = tr_place_slot_of(number);
    }
    p->number = number;
    p->then(c, item);
}

const struct tr_cl_way tr_order_way = {
    .script = -1, .most = 1, .meta = true, .build = build_order, .heard = heard_order};

void tr_roster_after(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then)
{
    item->plan->then = then;
    if (c->desk != NULL) {
        item->plan->by = TR_SQL_PLANS_AFTER;
        tr_plan_read(c, item, then);
        return;
    }
    tr_lane_put(c, TR_CL_ORDER, item);
}

/* ---- changes ---- */

static void build_roster(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = TR_CONTAINER_OF(lane->flying.next, struct tr_item, link);
    const struct tr_plan *p = item->plan;
    struct tr_eval *e = &lane->call.eval;
    char key[TR_PLACE_KEY_MAX];
    char text[TR_HEX_ID];

    tr_eval_meta(e, TR_SCRIPT_ROSTER, 2);
    tr_eval_add(e, key, tr_place_meta_key(key, &c->layout, TR_META_ROSTER));
    tr_eval_add(e, key, tr_place_meta_key(key, &c->layout, TR_META_ORDER));
    tr_eval_add(e, &item->kind, 1);
    tr_eval_add(e, p->name, p->name_len);
    memcpy(key, c->node, TR_PLACE_NODE_DIGITS);
    tr_hex_put(key + TR_PLACE_NODE_DIGITS, TR_HEX_ID, lane->op);
    tr_eval_add(e, key, TR_PLAN_STAMP);
    if (item->kind == 'p' || item->kind == 'h') {
        tr_eval_add_number(e, item->slot);
    } else if (item->kind == 'c') {
        tr_hex_put(text, TR_HEX_ID, p->number);
        tr_eval_add(e, text, TR_HEX_ID);
    } else {
        tr_eval_add(e, p->roster, TR_PLAN_ROSTER);
    }
}

static void heard_roster(struct tr_cluster *c, struct tr_clane *lane,
                         const struct tr_redis_reply *reply)
{
    struct tr_item *item = tr_lane_next(lane);
    struct tr_plan *p = item->plan;

    if (reply->count == 0 ||
        (item->kind == 'p' &&
         (reply->count != 3 || reply->items[1].len != TR_HEX_ID ||
          reply->items[2].len != TR_HEX_ID || !number_ok(c, reply->items[1].at, &p->number) ||
          !number_ok(c, reply->items[2].at, &p->before)))) {
        tr_item_finish(c, item, TARRY_EDAMAGED);
        return;
    }
    p->said = tr_span_begins(reply->items[0], "OK") ? 'O' : 'C';
    p->then(c, item);
}

const struct tr_cl_way tr_roster_way = {.script = TR_SCRIPT_ROSTER,
                                        .most = 1,
                                        .meta = true,
                                        .build = build_roster,
                                        .heard = heard_roster};

void tr_roster_say(struct tr_cluster *c, struct tr_item *item, char what, tr_item_fn *then)
{
    item->plan->then = then;
    item->kind = what;
    if (c->desk != NULL) {
        tr_desk_roster_say(c, item, what);
        return;
    }
    tr_lane_put(c, TR_CL_ROSTER, item);
}
