/*
 * What became of a job, on its way into the index: script `index`, one lane for each slot.
 *
 *     committed ──► ticket ──► lane ──► `index` ──► who asked is told, the ticket goes
 *                                ▲         └──► could not be sent: again, until it was
 *                                └── later ◄┘
 *
 * An image says "this is the row at ver v", so it may be sent twice or late, and of several of one
 * job the last one counts. While Redis is away they are kept, so many at most; what is more is
 * dropped, and found by reconciliation.
 *
 * Who asked for the change waits for the index, so that what he does next finds it there; after a
 * second he is told all the same, since it is done. If that was in vain, others wait for 250 ms
 * for some time: an index that is slow, or a topic that nobody loads, does not hold up pushes for
 * long.
 *
 * A Redis that is full (maxmemory) refuses `index` as a whole. Then script `shed` is asked, which
 * does the same but makes no new entry: what is there changes, and goes, so that it can be emptied.
 * Of those that find no room one for each slot stays, and is tried each second; the rest is
 * dropped, and the slot compared when that one has found room or is gone. So the index costs what
 * maxmemory allows, and jobs that are not in it are late, not lost.
 *
 * Invariant: a ticket that is on its way is in desk.tickets and in one lane, or in `later`.
 */

#include "base/err.h"
#include "cluster/load.h"

#include <string.h>

#define REPLY_US UINT64_C(1000000)
#define REPLY_SLOW_US UINT64_C(250000)
#define SLOW_US UINT64_C(10000000)
#define AGAIN_US UINT64_C(300000)
#define SOON_US UINT64_C(5000) /* a topic that is being loaded */
#define NEAR_US UINT64_C(1000000)
#define FULL_US UINT64_C(1000000) /* so long a Redis that is full is believed to be */

/* ---- tickets ---- */

static tr_item_fn image_ended;

struct tr_ticket *tr_ticket_new(struct tr_cluster *c, struct tr_ctopic *t, size_t room)
{
    size_t size = sizeof(struct tr_ticket) + room;
    struct tr_ticket *k = tr_mem_alloc(c->mem, size);

    if (k != NULL) {
        k->size = size;
        k->how = TR_INDEX_IS;
        k->image = (struct tr_item){.inner = true, .end = image_ended};
        tr_list_init(&k->image.link);
        tr_list_init(&k->all);
        tr_list_init(&k->reply);
        tr_item_pin(&k->image, t);
    }
    return k;
}

static void drop_body(struct tr_cluster *c, struct tr_ticket *k)
{
    tr_mem_free(c->mem, k->body, k->body_len);
    k->body = NULL;
    k->body_len = 0;
}

bool tr_ticket_body(struct tr_cluster *c, struct tr_ticket *k, const void *at, size_t len)
{
    if (len == 0) {
        return true;
    }
    k->body = tr_mem_alloc(c->mem, len);
    if (k->body == NULL) {
        return false;
    }
    memcpy(k->body, at, len);
    k->body_len = len;
    return true;
}

void tr_ticket_free(struct tr_cluster *c, struct tr_ticket *k)
{
    drop_body(c, k);
    tr_list_remove(&k->image.link);
    tr_list_remove(&k->all);
    tr_list_remove(&k->reply);
    tr_ctopic_unpin(c, k->image.topic);
    tr_mem_free(c->mem, k, k->size);
}

struct tr_span tr_ticket_keep(struct tr_ticket *k, const void *at, size_t len)
{
    const char *from = at;
    char *copy = k->text + k->used;

    if (len == 0) {
        return (struct tr_span){0};
    }
    if (from >= k->text && from < k->text + k->used) {
        return (struct tr_span){from, len};
    }
    TR_CHECK(sizeof *k + k->used + len <= k->size);
    memcpy(copy, from, len);
    k->used += len;
    return (struct tr_span){copy, len};
}

void tr_ticket_say(struct tr_cluster *c, struct tr_ticket *k, const struct tr_item *item)
{
    size_t len = 0;
    const char *actor = item->req != NULL ? tr_cluster_actor_name(c, item->req->actor, &len) : NULL;

    k->truth.random = tr_rng_next(&c->rng);
    k->truth.actor = tr_ticket_keep(k, actor, len);
    k->truth.history = item->topic->policy.history;
}

void tr_ticket_header(const struct tr_ticket *k, struct tr_header *h)
{
    const struct tr_ctopic *t = k->image.topic;

    tr_truth_header(&k->row, (struct tr_span){t->name, t->name_len}, k->now_us, h);
}

/* ---- who waits ---- */

/* Boot time: not longer. */
static uint64_t until(const struct tr_desk *d, const struct tr_ticket *k)
{
    return k->since_us + (k->since_us < d->slow_us ? REPLY_SLOW_US : REPLY_US);
}

static void tell(struct tr_cluster *c, struct tr_ticket *k)
{
    tr_list_remove(&k->reply);
    if (k->asker != NULL) {
        k->tell(c, k);
        k->asker = NULL;
    }
}

/* A schedule waits for the end of this job, which time may bring: its owner is to know when. */
static bool is_watched(const struct tr_ticket *k)
{
    return !k->gone && k->row.sched != 0 && (k->row.state == TR_SQL_RESERVED || k->row.ttl_us != 0);
}

/* It does not wait for room any more. Others may have been dropped there; and while it waited its
 * row may have changed, or gone, and a newer image was not kept up by it. */
static void let_probe_go(struct tr_cluster *c, unsigned slot)
{
    struct tr_desk_slot *s = &c->desk->slots[slot];

    s->probes = false;
    s->starved = false;
    tr_align_slot(c, slot, TR_ALIGN_ALL);
}

static void leave(struct tr_cluster *c, struct tr_ticket *k)
{
    if (is_watched(k)) {
        tr_home_tell(c, k->image.slot, TR_HOME_AGENDA);
    }
    if (k->probes) {
        let_probe_go(c, k->image.slot);
    }
    c->desk->images--;
    tell(c, k);
    tr_ticket_free(c, k);
}

static void again(struct tr_cluster *c, struct tr_ticket *k, uint64_t in_us)
{
    uint64_t at_us = c->now.boot_us + in_us;

    tr_list_remove(&k->image.link);
    tr_list_append(&c->desk->later, &k->image.link);
    c->desk->later_us = at_us < c->desk->later_us ? at_us : c->desk->later_us;
}

/* The row is one that should be in the index soon, and its topic is not loaded there yet. */
static bool is_early(const struct tr_ticket *k)
{
    return k->letter == 'T' && k->unloaded && k->asker != NULL && !k->gone &&
           k->row.state == TR_SQL_WAITING && k->row.due_us < k->now_us + NEAR_US;
}

/* ---- a Redis that is full ---- */

/* There is no room for it. */
static void starve(struct tr_cluster *c, struct tr_ticket *k)
{
    struct tr_desk_slot *slot = &c->desk->slots[k->image.slot];

    tell(c, k);
    if (!slot->probes || k->probes) {
        slot->probes = true;
        k->probes = true;
        again(c, k, FULL_US);
    } else {
        slot->starved = true;
        c->desk->dropped++;
        leave(c, k);
    }
}

/* `index` was done: there is room. */
static void has_room(struct tr_cluster *c, unsigned slot)
{
    struct tr_desk_slot *s = &c->desk->slots[slot];

    s->full_us = 0;
    if (s->starved) {
        s->starved = false;
        tr_align_slot(c, slot, TR_ALIGN_ALL);
    }
}

/* Was it refused for memory, and not for what `shed` is refused for, too? */
static bool may_shed(struct tr_cluster *c, const struct tr_item *image)
{
    return image->status == TARRY_ENOSPC && !tr_lane_of(c, TR_CL_INDEX, image->slot)->sheds;
}

static int choose(struct tr_cluster *c, struct tr_clane *lane)
{
    lane->sheds = c->desk->slots[lane->slot].full_us > c->now.boot_us;
    return lane->sheds ? TR_SCRIPT_SHED : TR_SCRIPT_INDEX;
}

/* ---- the end of it ---- */

static void image_ended(struct tr_cluster *c, struct tr_item *image)
{
    struct tr_ticket *k = TR_CONTAINER_OF(image, struct tr_ticket, image);

    if (k->lives !=
        c->desk->lives) { /* it was under way when a failover may have undone its commit */
        tr_align_slot(c, image->slot, TR_ALIGN_ALL);
        leave(c, k);
    } else if (image->status == TARRY_OK && is_early(k)) {
        again(c, k, SOON_US);
    } else if (image->status == TARRY_OK && k->letter == 'F') {
        starve(c, k);
    } else if (image->status == TARRY_OK) {
        leave(c, k);
    } else if (may_shed(c, image)) {
        c->desk->slots[image->slot].full_us = c->now.boot_us + FULL_US;
        again(c, k, 0);
    } else if (c->desk->images > c->config.images_max) {
        tr_align_dropped(c, image->slot);
        leave(c, k);
    } else {
        tell(c, k); /* Redis is away: nobody waits for that */
        again(c, k, AGAIN_US);
    }
}

void tr_image_turn(struct tr_cluster *c)
{
    struct tr_desk *d = c->desk;

    while (!tr_list_empty(&d->replies)) {
        struct tr_ticket *k = TR_CONTAINER_OF(d->replies.next, struct tr_ticket, reply);

        if (until(d, k) > c->now.boot_us && tr_link_hope(c)) {
            break;
        }
        d->slow_us = c->now.boot_us + SLOW_US;
        tell(c, k);
    }
    if (d->later_us <= c->now.boot_us) {
        struct tr_list items;

        d->later_us = TR_CL_NEVER;
        tr_list_init(&items);
        tr_list_splice(&items, &d->later);
        while (!tr_list_empty(&items)) {
            struct tr_item *image = TR_CONTAINER_OF(items.next, struct tr_item, link);

            tr_list_remove(&image->link);
            tr_lane_put(c, TR_CL_INDEX, image);
        }
    }
}

uint64_t tr_image_next(const struct tr_cluster *c)
{
    const struct tr_desk *d = c->desk;
    uint64_t next_us = d->later_us;

    if (!tr_list_empty(&d->replies)) {
        const struct tr_ticket *k = TR_CONTAINER_OF(d->replies.next, struct tr_ticket, reply);

        next_us = until(d, k) < next_us ? until(d, k) : next_us;
    }
    return next_us;
}

void tr_images_forget(struct tr_cluster *c)
{
    struct tr_list *next;

    for (struct tr_list *n = c->desk->tickets.next; n != &c->desk->tickets; n = next) {
        struct tr_ticket *k = TR_CONTAINER_OF(n, struct tr_ticket, all);

        next = n->next;
        if (!k->image.flying) {
            c->items_queued -= k->image.queued;
            k->forgotten = true;
        }
    }
    for (bool any = true; any;) { /* whoever is told may do anything */
        any = false;
        for (struct tr_list *n = c->desk->tickets.next; n != &c->desk->tickets; n = n->next) {
            struct tr_ticket *k = TR_CONTAINER_OF(n, struct tr_ticket, all);

            if (k->forgotten) {
                leave(c, k);
                any = true;
                break;
            }
        }
    }
}

/* ---- on the way ---- */

static void depart(struct tr_cluster *c, struct tr_ticket *k, uint64_t now_us)
{
    k->now_us = now_us;
    k->lives = c->desk->lives;
    k->image.slot = tr_place_slot_of(k->row.id);
    k->image.id = k->row.id;
    c->desk->images++;
    tr_list_append(&c->desk->tickets, &k->all);
    tr_lane_put(c, TR_CL_INDEX, &k->image);
}

void tr_image_go(struct tr_cluster *c, struct tr_ticket *k, const struct tr_sql_job *row,
                 uint64_t now_us)
{
    k->row = *row;
    k->row.tag = tr_ticket_keep(k, row->tag.at, row->tag.len);
    k->row.key = tr_ticket_keep(k, row->key.at, row->key.len);
    k->row.backoff = tr_ticket_keep(k, row->backoff.at, row->backoff.len);
    k->row.body = (struct tr_span){0};
    drop_body(c, k); /* Redis may be away for long */
    if (row->sched != 0 && (k->gone || row->state == TR_SQL_DEAD)) {
        tr_home_tell(c, tr_place_slot_of(row->id), TR_HOME_AGENDA);
    }
    if (row->state == TR_SQL_DEAD && !k->gone) {
        tr_house_died(c, k->image.topic);
    }
    if (k->asker != NULL) {
        k->since_us = c->now.boot_us;
        tr_list_append(&c->desk->replies, &k->reply);
    }
    depart(c, k, now_us);
}

bool tr_image_put(struct tr_cluster *c, struct tr_ctopic *t, char how, const struct tr_sql_job *row)
{
    struct tr_ticket *k = tr_ticket_new(c, t, row->tag.len);

    if (k == NULL) {
        return false;
    }
    k->how = how;
    k->row = *row;
    k->row.tag = tr_ticket_keep(k, row->tag.at, row->tag.len);
    k->row.key = k->row.backoff = k->row.body = (struct tr_span){0};
    depart(c, k, tr_cluster_server_now(c));
    return true;
}

bool tr_image_gone(struct tr_cluster *c, struct tr_ctopic *t, uint64_t id, uint32_t ver)
{
    struct tr_ticket *k = tr_ticket_new(c, t, 0);

    if (k != NULL) {
        k->gone = true;
        k->row.id = id;
        k->row.ver = ver;
        depart(c, k, tr_cluster_server_now(c));
    }
    return k != NULL;
}

void tr_images_free(struct tr_cluster *c)
{
    while (!tr_list_empty(&c->desk->tickets)) {
        struct tr_ticket *k = TR_CONTAINER_OF(c->desk->tickets.next, struct tr_ticket, all);

        if (k->asker != NULL && !k->asker->inner) {
            tr_item_free(c, k->asker);
        }
        tr_ticket_free(c, k);
    }
}

/* ---- the script ---- */

static struct tr_ticket *ticket_of(const struct tr_list *n)
{
    return TR_CONTAINER_OF(TR_CONTAINER_OF(n, struct tr_item, link), struct tr_ticket, image);
}

static void build(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_eval *e = &lane->call.eval;

    tr_eval_index_from(e, tr_cluster_server_now(c), c->config.hot_max, lane->sheds);
    lane->soonest_us = TR_CL_NEVER;
    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        const struct tr_ticket *k = ticket_of(n);
        unsigned topic = tr_lane_topic(lane, k->image.topic);

        if (k->gone) {
            tr_eval_index_gone(e, topic, k->row.id, k->row.ver);
        } else {
            tr_eval_index(e, topic, (enum tr_index_how)k->how, &k->row, tr_cluster_server_now(c));
        }
        if (!k->gone && k->row.state == TR_SQL_WAITING && k->row.due_us < lane->soonest_us) {
            lane->soonest_us = k->row.due_us;
        }
    }
    lane->soonest_us = lane->soonest_us != TR_CL_NEVER ? lane->soonest_us : 0;
}

static void answered(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *item;
    struct tr_indexed x[TR_EVAL_TOPICS] = {{0}};

    if (!lane->sheds) {
        has_room(c, lane->slot);
    }
    for (unsigned i = 0; i < lane->topic_count; i++) {
        if (tr_answer_indexed(a, i, &x[i]) == TARRY_OK) {
            tr_load_hint(c, lane->topics[i], lane->slot, &x[i]);
        }
    }
    for (size_t i = 0; (item = tr_lane_next(lane)) != NULL; i++) {
        struct tr_ticket *k = TR_CONTAINER_OF(item, struct tr_ticket, image);

        k->letter = tr_answer_indexed_job(a, i);
        k->unloaded = x[tr_lane_topic(lane, k->image.topic)].loaded_us == 0;
        tr_item_finish(c, item, k->letter != '\0' ? TARRY_OK : TARRY_EDAMAGED);
    }
}

const struct tr_cl_way tr_index_way = {.script = TR_SCRIPT_INDEX,
                                       .choose = choose,
                                       .most = TR_EVAL_JOBS,
                                       .jobs = true,
                                       .build = build,
                                       .answered = answered};
