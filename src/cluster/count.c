/*
 * How many jobs there are, and which would be next: script `counts`, of many topics of a slot in
 * one call. What this node changes makes its copy old at once; what others change it sees when it
 * asks.
 */

#include "base/err.h"
#include "cluster/desk.h"

static tr_item_fn counted;

void tr_count_prepare(struct tr_spot *spot)
{
    spot->counter =
        (struct tr_item){.inner = true, .end = counted, .topic = spot->topic, .slot = spot->slot};
    tr_list_init(&spot->counter.link);
}

void tr_count_changed(struct tr_cluster *c, struct tr_ctopic *t, unsigned slot)
{
    struct tr_spot *spot = tr_ctopic_spot(t, slot);

    c->names_us = 0;
    if (spot != NULL) {
        spot->counted_us = 0;
        spot->headed_us = 0;
    }
}

static bool spot_fresh(const struct tr_spot *spot, uint64_t since_us, bool light)
{
    return (spot->counted_us != 0 && spot->counted_us >= since_us) ||
           (light && spot->headed_us != 0 && spot->headed_us >= since_us);
}

static bool is_fresh(const struct tr_ctopic *t, uint64_t since_us, bool light)
{
    for (unsigned i = 0; i < t->spread; i++) {
        if (!spot_fresh(&t->spots[i], since_us, light)) {
            return false;
        }
    }
    return true;
}

static bool is_under_way(const struct tr_ctopic *t)
{
    for (unsigned i = 0; i < t->spread; i++) {
        if (t->spots[i].counting) {
            return true;
        }
    }
    return false;
}

static void start(struct tr_cluster *c, struct tr_ctopic *t, uint64_t since_us, bool light)
{
    for (unsigned i = 0; i < t->spread; i++) {
        struct tr_spot *spot = &t->spots[i];

        if (!spot->counting && (c->desk == NULL || t->row != 0) &&
            !spot_fresh(spot, since_us, light)) {
            spot->counting = true;
            spot->light = light;
            tr_ctopic_pin(t);
            tr_lane_put(c, TR_CL_COUNT, &spot->counter);
        }
    }
}

bool tr_count_start(struct tr_cluster *c, struct tr_ctopic *t, uint64_t since_us)
{
    start(c, t, since_us, false);
    return is_under_way(t);
}

void tr_count_heads_start(struct tr_cluster *c, struct tr_ctopic *t, uint64_t since_us)
{
    start(c, t, since_us, c->desk != NULL);
}

static void count(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then)
{
    struct tr_ctopic *t = item->topic;

    if (is_fresh(t, item->fresh_us, item->light) ||
        (c->desk != NULL && t->row == 0)) { /* then it has no jobs */
        then(c, item);
        return;
    }
    item->then = then;
    tr_list_remove(&item->link);
    tr_list_append(&t->counting, &item->link);
    start(c, t, item->fresh_us, item->light);
}

void tr_count_topic(struct tr_cluster *c, struct tr_item *item, uint64_t since_us, tr_item_fn *then)
{
    item->fresh_us = since_us;
    item->light = false;
    count(c, item, then);
}

void tr_count_heads(struct tr_cluster *c, struct tr_item *item, uint64_t since_us, tr_item_fn *then)
{
    item->fresh_us = since_us;
    item->light = c->desk != NULL;
    count(c, item, then);
}

/* A slot was counted, or could not be: who waited for the last one goes on. */
static void counted(struct tr_cluster *c, struct tr_item *counter)
{
    struct tr_spot *spot = TR_CONTAINER_OF(counter, struct tr_spot, counter);
    struct tr_ctopic *t = spot->topic;
    struct tr_list items;

    spot->counting = false;
    tr_list_init(&items);
    if (!is_under_way(t)) {
        tr_list_splice(&items, &t->counting);
    }
    while (!tr_list_empty(&items)) {
        struct tr_item *item = TR_CONTAINER_OF(items.next, struct tr_item, link);

        tr_list_remove(&item->link);
        if (counter->status != TARRY_OK) {
            tr_item_finish(c, item, counter->status);
        } else {
            count(c, item, item->then);
        }
    }
    if (!is_under_way(t) && c->gather == TR_GATHER_COUNTS) { /* else its settings are waited for */
        tr_ctopics_gathered(c, t);
    }
    tr_ctopic_unpin(c, t);
}

static void build(struct tr_cluster *c, struct tr_clane *lane)
{
    (void)c;
    (void)lane; /* it has no arguments of its own */
}

static void answered(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *item;

    while (a->count == lane->topic_count && (item = tr_lane_next(lane)) != NULL) {
        struct tr_spot *spot = TR_CONTAINER_OF(item, struct tr_spot, counter);
        int err = tr_answer_counted(a->items[tr_lane_topic(lane, item->topic)], &spot->count);

        spot->counted_us = lane->call.sent_us;
        tr_item_finish(c, item, err);
    }
}

const struct tr_cl_way tr_count_way = {.script = TR_SCRIPT_COUNTS,
                                       .most = TR_EVAL_TOPICS,
                                       .jobs = true,
                                       .build = build,
                                       .answered = answered};

static uint64_t least(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0) {
        return a + b;
    }
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool tr_count_better(const struct tr_counted *a, const struct tr_counted *b, enum tr_order order)
{
    if (a->best_id == 0 || b->best_id == 0) {
        return a->best_id != 0;
    }
    if (a->best_priority != b->best_priority) {
        return a->best_priority < b->best_priority;
    }
    if (order == TR_ORDER_DUE && a->best_due_us != b->best_due_us) {
        return a->best_due_us < b->best_due_us;
    }
    return a->best_id < b->best_id;
}

void tr_count_sum(const struct tr_ctopic *t, struct tr_counted *sum)
{
    *sum = (struct tr_counted){0};
    for (unsigned i = 0; t->spots != NULL && i < t->spread; i++) {
        const struct tr_counted *n = &t->spots[i].count;

        if (n->next_due_us != 0 && least(sum->next_due_us, n->next_due_us) == n->next_due_us &&
            sum->next_due_us != n->next_due_us) {
            sum->first_delayed_id = n->first_delayed_id;
        }
        if (tr_count_better(n, sum, t->order)) {
            sum->best_priority = n->best_priority;
            sum->best_due_us = n->best_due_us;
            sum->best_id = n->best_id;
        }
        sum->ready += n->ready;
        sum->urgent += n->urgent;
        sum->delayed += n->delayed;
        sum->waiting += n->waiting;
        sum->ended += n->ended;
        sum->reserved += n->reserved;
        sum->dead += n->dead;
        sum->next_due_us = least(sum->next_due_us, n->next_due_us);
        sum->oldest_ready_us = least(sum->oldest_ready_us, n->oldest_ready_us);
        sum->out_until_us = most(sum->out_until_us, n->out_until_us);
        sum->hold_until_us = most(sum->hold_until_us, n->hold_until_us);
        sum->hold_us = most(sum->hold_us, n->hold_us);
        sum->holds = most(sum->holds, n->holds);
        sum->first_dead_id = sum->first_dead_id != 0 ? sum->first_dead_id : n->first_dead_id;
    }
    if (sum->waiting > sum->ready) { /* of a database, which knows the sum of both */
        sum->delayed = sum->waiting - sum->ready;
    }
    if (sum->reserved >= sum->ended) {
        sum->reserved -= sum->ended;
        sum->ready += sum->ended;
    }
}

/* ---- requests ---- */

void tr_count_fill(struct tr_cluster *c, struct tr_req *r, const struct tr_ctopic *t)
{
    struct tr_topic_stat *s = &r->out.stat;
    uint64_t now_us = tr_cluster_server_now(c);
    struct tr_counted sum;

    tr_count_sum(t, &sum);
    r->out.name = t->name;
    r->out.name_len = t->name_len;
    *s = (struct tr_topic_stat){.delayed = sum.delayed,
                                .ready = sum.ready,
                                .urgent = sum.urgent,
                                .reserved = sum.reserved,
                                .dead = sum.dead,
                                .pushed = t->pushed,
                                .deleted = t->deleted,
                                .waiting = t->waiting_count,
                                .pauses = sum.holds,
                                .pause_us = sum.hold_us,
                                .now_us = now_us,
                                .next_due_us = sum.next_due_us,
                                .oldest_ready_us = sum.oldest_ready_us,
                                .policy = &t->policy};
    tr_gauge_fill(c, t, s);
    s->pause_left_us = sum.hold_until_us > now_us ? sum.hold_until_us - now_us : 0;
    s->listed = tr_ctopic_held(t) || sum.ready + sum.delayed + sum.reserved + sum.dead > 0;
    for (unsigned i = 0; i < TR_HOLD_COUNT; i++) {
        s->holds[i] = t->holds[i];
    }
}

/* It may have been deleted by another node. */
static void tell_topic(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_ctopic *t = item->topic;

    if (!t->known && !t->noting && !tr_ctopic_there(t, item->req->shown)) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
        return;
    }
    tr_count_fill(c, item->req, t);
    tr_item_finish(c, item, TARRY_OK);
}

static void count_now(struct tr_cluster *c, struct tr_item *item)
{
    tr_count_topic(c, item, item->since_us, tell_topic);
}

void tr_count_stat_topic(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_ctopic *t = tr_ctopic_by_number(c, item->req->topic);

    if (t == NULL) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
        return;
    }
    tr_item_pin(item, t);
    tr_ctopic_reload(c, item, count_now); /* another node may have changed what is shown */
}

static void tell_all(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_topic_stat *s = &item->req->out.stat;

    *s = c->totals;
    s->now_us = tr_cluster_server_now(c);
    s->history_us = s->now_us;
    s->waiting = c->wait_count;
    tr_gauge_fill(c, NULL, s);
    for (const struct tr_list *n = c->topics.next; n != &c->topics; n = n->next) {
        const struct tr_ctopic *t = TR_CONTAINER_OF(n, struct tr_ctopic, all);
        struct tr_counted sum;

        tr_count_sum(t, &sum);
        s->ready += sum.ready;
        s->urgent += sum.urgent;
        s->delayed += sum.delayed;
        s->reserved += sum.reserved;
        s->dead += sum.dead;
        item->req->out.number += item->req->shown ? tr_ctopic_there(t, true)
                                                  : tr_ctopic_held(t) || tr_ctopic_has_jobs(t);
    }
    tr_item_finish(c, item, TARRY_OK);
}

void tr_count_stat(struct tr_cluster *c, struct tr_item *item)
{
    tr_ctopics_all(c, item, tell_all);
}

/* The first job of a state: by its id, as any other. It may be gone meanwhile. */
static void first_known(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_counted sum;

    tr_count_sum(item->topic, &sum);
    item->id = item->req->state == TR_READY     ? sum.best_id
               : item->req->state == TR_DELAYED ? sum.first_delayed_id
                                                : sum.first_dead_id;
    if (item->id == 0 || !tr_place_id_ok(&c->layout, item->id)) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
    } else {
        tr_look_at(c, item);
    }
}

static void first_count(struct tr_cluster *c, struct tr_item *item)
{
    tr_count_topic(c, item, item->since_us, first_known);
}

void tr_count_first(struct tr_cluster *c, struct tr_item *item)
{
    const struct tr_req *r = item->req;
    struct tr_ctopic *t = tr_ctopic_by_number(c, r->topic);

    if (r->order >= TR_ORDER_COUNT ||
        (r->state != TR_DELAYED && r->state != TR_READY && r->state != TR_DEAD)) {
        tr_item_finish(c, item, TARRY_EINVAL);
    } else if (t == NULL) {
        tr_item_finish(c, item, TARRY_ENOTFOUND);
    } else {
        tr_item_pin(item, t);
        tr_ctopic_load(c, item, first_count);
    }
}
