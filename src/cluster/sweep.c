/*
 * What nodes that died long ago have left in the meta of slots: for each kind of call the number
 * and the answer of the last one, so that a repeat can be answered (doc/cluster.md, section 2).
 *
 *     once an hour: whose fields are in the slots of ours? ──► whom of those do the beats not know
 *     (P{meta}:nodes has who lives or died within the hour)? ──► script `sweep`, slot by slot
 *
 * In this order: a node beats before it asks anything of a slot, so one that has a field and no
 * beat, read later, is dead for an hour, and no call of it can still be on its way. If our own beat
 * is not there either, the beats were lost, and it is left for the next time.
 *
 * One after the other; if something fails, all of it again, later.
 */

#include "base/err.h"
#include "cluster/hex.h"
#include "cluster/inner.h"
#include "cluster/mutant.h"

#include <string.h>

#define EVERY_US UINT64_C(3600000000)
#define FIRST_US UINT64_C(600000000)

enum { FIELD = 1 + TR_PLACE_NODE_DIGITS };

static struct tr_sweep *sweep_of(struct tr_item *item)
{
    return TR_CONTAINER_OF(item, struct tr_sweep, item);
}

static void rest(struct tr_cluster *c, struct tr_sweep *s)
{
    s->busy = false;
    s->next_us = c->now.boot_us + EVERY_US;
}

static void ended(struct tr_cluster *c, struct tr_item *item)
{
    rest(c, sweep_of(item));
}

void tr_sweep_init(struct tr_cluster *c)
{
    c->sweep.item = (struct tr_item){.inner = true, .end = ended};
    c->sweep.next_us = c->now.boot_us + FIRST_US;
    tr_list_init(&c->sweep.item.link);
}

/* The next slot of ours for this kind of call. False: there is none. */
static bool next_slot(struct tr_cluster *c, struct tr_sweep *s, enum tr_cl_kind kind)
{
    while (s->slot < c->layout.slots && !c->slots[s->slot].owned) {
        s->slot++;
    }
    if (s->slot == c->layout.slots) {
        return false;
    }
    s->item.slot = s->slot++;
    tr_lane_put(c, kind, &s->item);
    return true;
}

static void add_name(struct tr_sweep *s, uint64_t node)
{
    for (unsigned i = 0; i < s->count; i++) {
        if (s->names[i] == node) {
            return;
        }
    }
    if (s->count < TR_SWEEP_NAMES) { /* the rest: the next time */
        s->names[s->count++] = node;
    }
}

static void drop_name(struct tr_sweep *s, uint64_t node)
{
    for (unsigned i = 0; i < s->count; i++) {
        if (s->names[i] == node) {
            s->names[i] = s->names[--s->count];
            return;
        }
    }
}

/* ---- whose fields are there? ---- */

static void build_fields(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_eval *e = &lane->call.eval;
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(e, "HKEYS");
    tr_eval_add(e, key, tr_place_key(key, &c->layout, lane->slot, 0, NULL));
}

static void heard_fields(struct tr_cluster *c, struct tr_clane *lane,
                         const struct tr_redis_reply *reply)
{
    struct tr_item *item = tr_lane_next(lane);
    struct tr_sweep *s = sweep_of(item);
    uint64_t node;

    item->flying = false;
    for (size_t i = 0; i < reply->count; i++) {
        struct tr_span field = reply->items[i];

        if (field.at != NULL && field.len == FIELD &&
            tr_hex_get(field.at + 1, TR_PLACE_NODE_DIGITS, &node)) {
            add_name(s, node);
        }
    }
    if (!next_slot(c, s, TR_CL_FIELDS)) {
        tr_lane_put(c, TR_CL_BEATS, item);
    }
}

const struct tr_cl_way tr_fields_way = {
    .script = -1, .most = 1, .build = build_fields, .heard = heard_fields};

/* ---- who of those is not dead, or not for long? ---- */

static void build_beats(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_eval *e = &lane->call.eval;
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(e, "ZRANGE");
    tr_eval_add(e, key, tr_place_meta_key(key, &c->layout, TR_META_NODES));
    tr_eval_add_number(e, 0);
    tr_eval_add(e, "-1", 2);
}

static void heard_beats(struct tr_cluster *c, struct tr_clane *lane,
                        const struct tr_redis_reply *reply)
{
    struct tr_item *item = tr_lane_next(lane);
    struct tr_sweep *s = sweep_of(item);
    bool known = false;
    uint64_t node;

    item->flying = false;
    for (size_t i = 0; i < reply->count; i++) {
        struct tr_span name = reply->items[i];

        if (name.at != NULL && name.len == TR_PLACE_NODE_DIGITS &&
            tr_hex_get(name.at, TR_PLACE_NODE_DIGITS, &node)) {
            known = known || node == c->config.node;
            if (!TR_CL_MUTANT(SWEEP_LIVING)) {
                drop_name(s, node);
            }
        }
    }
    s->slot = 0;
    if (!known || s->count == 0 || !next_slot(c, s, TR_CL_SWEEP)) {
        rest(c, s);
    }
}

const struct tr_cl_way tr_beats_way = {
    .script = -1, .most = 1, .meta = true, .build = build_beats, .heard = heard_beats};

/* ---- away with them ---- */

static void build_sweep(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_eval *e = &lane->call.eval;
    const struct tr_sweep *s = &c->sweep;
    char key[TR_PLACE_KEY_MAX];
    char name[TR_PLACE_NODE_DIGITS];
    int server = tr_shards_find(&c->shards, c->slots[lane->slot].hash);
    const char *run = server >= 0 ? c->links[server].run : "";

    tr_eval_meta(e, TR_SCRIPT_SWEEP, 1);
    tr_eval_add(e, key, tr_place_key(key, &c->layout, lane->slot, 0, NULL));
    tr_eval_add(e, c->uuid, strlen(c->uuid));
    tr_eval_add(e, run, strlen(run));
    for (unsigned i = 0; i < s->count; i++) {
        tr_hex_put(name, TR_PLACE_NODE_DIGITS, s->names[i]);
        tr_eval_add(e, name, TR_PLACE_NODE_DIGITS);
    }
}

/* OK and how many; or this server is another one than it was: the next time. */
static void heard_sweep(struct tr_cluster *c, struct tr_clane *lane,
                        const struct tr_redis_reply *reply)
{
    struct tr_item *item = tr_lane_next(lane);
    struct tr_sweep *s = sweep_of(item);

    item->flying = false;
    if (reply->count == 2 && tr_span_begins(reply->items[0], "OK")) {
        for (size_t i = 0, n = 0; i < reply->items[1].len; i++) {
            n = n * 10 + (size_t)(reply->items[1].at[i] - '0');
            c->stat.swept += i + 1 == reply->items[1].len ? n : 0;
        }
    }
    if (!next_slot(c, s, TR_CL_SWEEP)) {
        rest(c, s);
    }
}

const struct tr_cl_way tr_sweep_way = {
    .script = TR_SCRIPT_SWEEP, .most = 1, .build = build_sweep, .heard = heard_sweep};

/* ---- time ---- */

void tr_sweep_turn(struct tr_cluster *c)
{
    struct tr_sweep *s = &c->sweep;

    if (!c->owns || s->busy || s->next_us > c->now.boot_us) {
        return;
    }
    s->busy = true;
    s->slot = 0;
    s->count = 0;
    if (!next_slot(c, s, TR_CL_FIELDS)) {
        rest(c, s);
    }
}

uint64_t tr_sweep_next(const struct tr_cluster *c)
{
    return c->owns && !c->sweep.busy ? c->sweep.next_us : TR_CL_NEVER;
}
