/*
 * Settings of a topic: first in the list of topics, by version, then in each of its slots, then the
 * answer: so they hold on every node from then on.
 *
 *     reload ──► changed ──► `topic` (if the version is still that one) ──► `conf`, slot by slot
 *        ▲                        │ CHANGED: somebody was quicker
 *        └────────────────────────┘
 *
 * A slot that could not be reached hears of it from whoever meets it next: its answers name the
 * version that it has.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/mutant.h"

#include <string.h>

enum { TRIES_MAX = 8, CONF_KEY = TR_PLACE_SLOT_KEYS + 4 };

static const char spread_is_fixed[] =
    "spread is fixed by the first job of a topic, or when it is first set";

static const char not_everywhere[] =
    "the settings are stored, but a part of the servers could not be reached: they hold there as "
    "soon as they can be";

/* ---- in a slot ---- */

static void mended(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_spot *spot = TR_CONTAINER_OF(item, struct tr_spot, mender);

    spot->mending = false;
    tr_ctopic_unpin(c, spot->topic);
}

static void mend_now(struct tr_cluster *c, struct tr_item *item)
{
    tr_lane_put(c, TR_CL_CONF, item);
}

void tr_policy_mend(struct tr_cluster *c, struct tr_spot *spot)
{
    if (spot->mending) {
        return;
    }
    spot->mending = true;
    spot->mender = (struct tr_item){.inner = true,
                                    .end = mended,
                                    .topic = spot->topic,
                                    .slot = spot->slot,
                                    .since_us = c->now.boot_us};
    tr_list_init(&spot->mender.link);
    tr_ctopic_pin(spot->topic);
    tr_ctopic_reload(c, &spot->mender, mend_now); /* this node's may be older ones, too */
}

/* Claims go by the database's clock, so this is about that one, too. */
static void add_time(struct tr_cluster *c, struct tr_clane *lane)
{
    if (c->desk != NULL) {
        tr_eval_add_number(&lane->call.eval, tr_cluster_server_now(c));
    }
}

static void build_conf(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_ctopic *t = lane->topics[0];

    tr_eval_conf(&lane->call.eval, t->version, &t->policy,
                 TR_CL_MUTANT(LIMIT_WHOLE) ? 1 : t->spread);
    add_time(c, lane);
}

static void answered(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *item = tr_lane_next(lane);

    (void)a;
    tr_count_changed(c, item->topic, lane->slot);
    if (item->inner) {
        tr_item_finish(c, item, TARRY_OK);
        return;
    }
    item->flying = false;
    item->at++;
    item->then(c, item);
}

const struct tr_cl_way tr_conf_way = {
    .script = TR_SCRIPT_CONF, .most = 1, .jobs = true, .build = build_conf, .answered = answered};

/* ---- in the list ---- */

void tr_policy_next(const struct tr_item *item, struct tr_policy *next)
{
    *next = item->topic->policy;
    tr_policy_change(next, item->req->policy, item->req->fields);
    next->given |= item->req->keep_topic ? TR_POLICY_BIT(KEPT) : 0;
}

static void build_note(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = TR_CONTAINER_OF(lane->flying.next, struct tr_item, link);
    const struct tr_ctopic *t = item->topic;
    struct tr_eval *e = &lane->call.eval;
    char key[TR_PLACE_KEY_MAX];
    char flag = item->kind;
    uint8_t bytes[TR_POLICY_BYTES_MAX];
    struct tr_policy next;

    tr_eval_meta(e, TR_SCRIPT_TOPIC, 2);
    tr_eval_add(e, key, tr_place_meta_key(key, &c->layout, TR_META_TOPICS));
    tr_eval_add(e, key, tr_place_meta_key(key, &c->layout, TR_META_OUTLETS));
    tr_eval_add(e, t->name, t->name_len);
    tr_eval_add(e, &flag, 1);
    if (flag == 'f' || flag == 'x') {
        tr_eval_add(e, c->node, TR_PLACE_NODE_DIGITS);
    }
    if (!item->inner) {
        tr_policy_next(item, &next);
        tr_eval_add_number(e, t->version);
        tr_eval_add(e, (const char *)bytes, tr_policy_encode(bytes, &next));
        tr_eval_add_number(e, t->slot_version);
        tr_eval_add_number(e, next.deliver_len > 0 ? 1 : 0);
    }
}

static void put_slot(struct tr_cluster *c, struct tr_item *item);

static tr_item_fn reloaded;

static void heard_note(struct tr_cluster *c, struct tr_clane *lane,
                       const struct tr_redis_reply *reply)
{
    struct tr_item *item = tr_lane_next(lane);
    bool good = reply->count == 2 && reply->items[1].at != NULL;

    if (item->inner) {
        good = good && tr_span_begins(reply->items[0], "OK");
        tr_item_finish(c, item, good ? TARRY_OK : TARRY_EDAMAGED);
    } else if (!good) {
        tr_item_finish(c, item, TARRY_EDAMAGED);
    } else {
        tr_policy_noted(c, item, tr_span_begins(reply->items[0], "OK"), reply->items[1]);
    }
}

void tr_policy_noted(struct tr_cluster *c, struct tr_item *item, bool stored, struct tr_span text)
{
    item->flying = false;
    if (!stored && ++item->tries > TRIES_MAX) {
        tr_item_finish(c, item, TARRY_EAWAY);
    } else if (!tr_ctopic_learn(c, item->topic, text)) {
        tr_item_finish(c, item, TARRY_ENOMEM);
    } else if (stored) {
        item->at = 0;
        if (item->implied || item->topic->policy.deliver_len > 0) {
            tr_delivers_changed(c, item->topic);
        }
        put_slot(c, item);
    } else if (item->req == NULL) {
        tr_item_finish(c, item, TARRY_OK); /* who asked is gone, and it was not done */
    } else {
        reloaded(c, item);
    }
}

const struct tr_cl_way tr_note_way = {
    .script = TR_SCRIPT_TOPIC, .most = 1, .meta = true, .build = build_note, .heard = heard_note};

/* ---- the request ---- */

static void tell(struct tr_cluster *c, struct tr_item *item)
{
    if (item->req != NULL) {
        tr_count_fill(c, item->req, item->topic);
    }
    tr_item_finish(c, item, TARRY_OK);
}

static void put_slot(struct tr_cluster *c, struct tr_item *item)
{
    if (item->at < item->topic->spread) {
        item->slot = item->topic->spots[item->at].slot;
        item->then = put_slot;
        item->partly = not_everywhere;
        tr_lane_put(c, TR_CL_CONF, item);
    } else {
        item->partly = NULL;
        tr_count_topic(c, item, item->since_us, tell);
    }
}

/* NULL: it can be so here. */
static const char *objection(const struct tr_cluster *c, const struct tr_policy *p)
{
    if (p->spread > c->layout.slots || (p->spread & (p->spread - 1)) != 0) {
        return "spread is a power of two, not above cluster.slots";
    }
    if ((p->dead_max != 0 && p->dead_max < p->spread) ||
        (p->in_flight != UINT64_MAX && p->in_flight < p->spread) ||
        (p->max_jobs != UINT64_MAX && p->max_jobs < p->spread) ||
        (p->max_bytes != UINT64_MAX && p->max_bytes < p->spread) ||
        (p->rate_milli != 0 && p->rate_milli < p->spread * UINT64_C(1000)) ||
        (p->rate_milli != 0 && p->burst != 0 && p->burst < p->spread)) {
        return "a limit below spread cannot be kept: each slot has its share";
    }
    return NULL;
}

/* Is it there without jobs, from now on? */
static char flag_of(const struct tr_req *r, const struct tr_ctopic *t)
{
    if (r->forget) {
        return 'g';
    }
    return r->keep_topic || t->kept ? 'k' : '-';
}

static void note(struct tr_cluster *c, struct tr_item *item)
{
    item->kind = flag_of(item->req, item->topic);
    item->implied = item->topic->policy.deliver_len > 0; /* it did deliver */
    tr_lane_put(c, TR_CL_NOTE, item);
}

/* Another spread: the topic's first slot decides whether it may be, before anybody hears of it. */
static void build_fix(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = TR_CONTAINER_OF(lane->flying.next, struct tr_item, link);
    struct tr_eval *e = &lane->call.eval;
    struct tr_policy next = item->topic->policy;
    char key[TR_PLACE_KEY_MAX];

    tr_policy_change(&next, item->req->policy, item->req->fields);
    tr_eval_meta(e, TR_SCRIPT_FIX, 2);
    tr_eval_add(e, key, tr_place_key(key, &c->layout, lane->slot, 0, NULL));
    tr_eval_add(e, key, tr_place_key(key, &c->layout, lane->slot, CONF_KEY, item->topic->name));
    tr_eval_add(e, c->uuid, strlen(c->uuid));
    tr_eval_add_number(e, next.spread);
}

static void heard_fix(struct tr_cluster *c, struct tr_clane *lane,
                      const struct tr_redis_reply *reply)
{
    struct tr_item *item = tr_lane_next(lane);
    bool good = reply->count > 0 && tr_span_begins(reply->items[0], "OK");

    item->flying = false;
    if (item->req == NULL) {
        tr_item_finish(c, item, TARRY_OK); /* who asked is gone */
    } else if (good) {
        note(c, item);
    } else if (reply->count > 0 && tr_span_begins(reply->items[0], "SPREAD")) {
        tr_item_refuse(c, item, TARRY_ESTATE, spread_is_fixed);
    } else {
        tr_item_finish(c, item, TARRY_EDAMAGED);
    }
}

const struct tr_cl_way tr_fix_way = {
    .script = TR_SCRIPT_FIX, .most = 1, .build = build_fix, .heard = heard_fix};

static void reloaded(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_ctopic *t = item->topic;
    struct tr_policy next;
    const char *why;

    tr_policy_next(item, &next);
    why = objection(c, &next);
    if (!tr_policy_ok(&next) || why != NULL) {
        tr_item_refuse(c, item, TARRY_EINVAL, why);
    } else if ((next.given & TR_POLICY_BIT(SPREAD)) == 0 || next.spread == t->spread) {
        note(c, item);
    } else if (tr_ctopic_has_jobs(t)) {
        tr_item_refuse(c, item, TARRY_ESTATE, spread_is_fixed);
    } else {
        item->slot = t->spots[0].slot;
        tr_lane_put(c, TR_CL_FIX, item);
    }
}

static void count_first(struct tr_cluster *c, struct tr_item *item)
{
    tr_count_topic(c, item, item->since_us, reloaded);
}

void tr_policy_set(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_req *r = item->req;
    struct tr_ctopic *t = tr_ctopic_by_number(c, r->topic);

    if (t == NULL || r->policy == NULL || (r->fields & ~TR_POLICY_ALL) != 0) {
        tr_item_finish(c, item, t == NULL ? TARRY_ENOTFOUND : TARRY_EINVAL);
        return;
    }
    tr_item_pin(item, t);
    tr_ctopic_reload(c, item, count_first);
}

/* ---- the beanstalk port's pause ---- */

static void pause_slot(struct tr_cluster *c, struct tr_item *item)
{
    if (item->at < item->topic->spread) {
        item->slot = item->topic->spots[item->at].slot;
        item->then = pause_slot;
        if (item->at > 0) {
            item->partly = item->number == 0
                               ? "it goes on in a part of its slots only: resume it once more"
                               : "it is paused in a part of its slots only: pause it once more";
        }
        tr_lane_put(c, TR_CL_PAUSE, item);
    } else {
        if (c->desk != NULL) { /* which does not know: this node tells what it did */
            struct tr_counted *n = &item->topic->spots[0].count;

            n->hold_us = item->number;
            n->hold_until_us = tr_cluster_server_now(c) + item->number;
            n->holds += !item->implied;
        }
        tr_item_finish(c, item, TARRY_OK);
    }
}

static void build_pause(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = TR_CONTAINER_OF(lane->flying.next, struct tr_item, link);

    tr_eval_pause(&lane->call.eval, item->number, !item->implied);
    add_time(c, lane);
}

const struct tr_cl_way tr_pause_way = {
    .script = TR_SCRIPT_PAUSE, .most = 1, .jobs = true, .build = build_pause, .answered = answered};

void tr_policy_pause(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_ctopic *t = tr_ctopic_by_number(c, item->req->topic);

    if (t == NULL) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
        return;
    }
    item->number = item->req->wait_us < TR_DELAY_MAX_US ? item->req->wait_us : TR_DELAY_MAX_US;
    item->implied = item->req->force;
    c->totals.pauses += !item->implied;
    tr_item_pin(item, t);
    tr_ctopic_load(c, item, pause_slot);
}
