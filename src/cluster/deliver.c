/*
 * Topics that deliver, and which of them are this node's to deliver: those whose first slot it
 * looks after. Who sends is src/outlet, by requests as any consumer; here it is only told when to
 * look.
 *
 *     P{meta}:outlets, a hash     name -> ""      written with the settings (topic.lua)
 *
 * With a database it is a column of the topics' rows (sql_outlet.c).
 *
 * It is read at the start, when slots have changed their owners, when the node that changed the
 * settings says so (a wake-up), and once a minute. Settings of those that are this node's are read
 * again with it, so that a change is seen though the wake-up got lost.
 *
 * Two nodes that both believe that a topic is theirs take different jobs: each has one lease. Jobs
 * that a dead node was sending come back as those of all its connections do (mourn.c), and are sent
 * again under the same id.
 *
 * *Invariant.* A topic of the list is pinned.
 */

#include "base/err.h"
#include "cluster/inner.h"
#include "cluster/mutant.h"

#define EVERY_US UINT64_C(60000000)
#define AGAIN_US UINT64_C(5000000)

struct tr_deliverer {
    struct tr_list link;
    struct tr_ctopic *topic;
    struct tr_item loader;
    bool loading;
    bool named;       /* in the list as it was read last */
    bool told;        /* that it is ours, */
    uint32_t version; /* with these settings */
};

static tr_item_fn listed, loaded;

void tr_delivers_init(struct tr_cluster *c)
{
    tr_list_init(&c->deliverers);
    c->deliver_list = (struct tr_item){.inner = true, .end = listed};
    tr_list_init(&c->deliver_list.link);
}

void tr_delivers_free(struct tr_cluster *c)
{
    while (!tr_list_empty(&c->deliverers)) {
        struct tr_deliverer *d = TR_CONTAINER_OF(c->deliverers.next, struct tr_deliverer, link);

        tr_list_remove(&d->link);
        tr_mem_free(c->mem, d, sizeof *d);
    }
}

static bool is_mine(const struct tr_cluster *c, const struct tr_ctopic *t)
{
    return c->owns && !c->leaving && t->spots != NULL && c->slots[t->spots[0].slot].owned;
}

bool tr_cluster_delivers(const struct tr_cluster *c, uint32_t topic)
{
    const struct tr_ctopic *t = tr_ctopic_by_number(c, topic);

    return t != NULL && is_mine(c, t);
}

void tr_cluster_deliverers(const struct tr_cluster *c, tr_engine_topic_fn *fn, void *ctx)
{
    for (const struct tr_list *n = c->deliverers.next; n != &c->deliverers; n = n->next) {
        const struct tr_deliverer *d = TR_CONTAINER_OF(n, struct tr_deliverer, link);

        if (d->told) {
            fn(ctx, d->topic->number);
        }
    }
}

static void tell(struct tr_cluster *c, struct tr_deliverer *d)
{
    bool mine = d->named && d->topic->loaded && is_mine(c, d->topic);

    if (mine == d->told && (!mine || d->version == d->topic->version)) {
        return;
    }
    d->told = mine;
    d->version = d->topic->version;
    if (c->config.outlet != NULL) {
        c->config.outlet(c->config.ctx, d->topic->number);
    }
}

/* ---- the list ---- */

static struct tr_deliverer *find(const struct tr_cluster *c, const struct tr_ctopic *t)
{
    for (const struct tr_list *n = c->deliverers.next; n != &c->deliverers; n = n->next) {
        struct tr_deliverer *d = TR_CONTAINER_OF(n, struct tr_deliverer, link);

        if (d->topic == t) {
            return d;
        }
    }
    return NULL;
}

static struct tr_deliverer *add(struct tr_cluster *c, struct tr_span name)
{
    struct tr_ctopic *t =
        tr_name_ok(name.at, name.len) ? tr_ctopic_get(c, name.at, name.len) : NULL;
    struct tr_deliverer *d = t != NULL ? find(c, t) : NULL;

    if (t == NULL || d != NULL) {
        return d;
    }
    d = tr_mem_alloc(c->mem, sizeof *d);
    if (d != NULL) {
        d->topic = t;
        d->loader = (struct tr_item){.inner = true, .end = loaded, .topic = t};
        tr_list_init(&d->loader.link);
        tr_ctopic_pin(t);
        tr_list_append(&c->deliverers, &d->link);
    }
    return d;
}

static void drop(struct tr_cluster *c, struct tr_deliverer *d)
{
    tr_list_remove(&d->link);
    tr_ctopic_unpin(c, d->topic);
    tr_mem_free(c->mem, d, sizeof *d);
}

static void reload(struct tr_cluster *c, struct tr_deliverer *d);

/* Its settings are known, or could not be read: then the next time. */
static void loaded(struct tr_cluster *c, struct tr_item *loader)
{
    struct tr_deliverer *d = TR_CONTAINER_OF(loader, struct tr_deliverer, loader);

    d->loading = false;
    if (loader->status == TARRY_OK) {
        tell(c, d);
    }
}

static void is_loaded(struct tr_cluster *c, struct tr_item *loader)
{
    tr_item_finish(c, loader, TARRY_OK);
}

static void reload(struct tr_cluster *c, struct tr_deliverer *d)
{
    if (!d->loading) {
        d->loading = true;
        tr_ctopic_reload(c, &d->loader, is_loaded);
    }
}

static void build(struct tr_cluster *c, struct tr_clane *lane)
{
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(&lane->call.eval, "HKEYS");
    tr_eval_add(&lane->call.eval, key, tr_place_meta_key(key, &c->layout, TR_META_OUTLETS));
}

void tr_delivers_begin(struct tr_cluster *c)
{
    for (struct tr_list *n = c->deliverers.next; n != &c->deliverers; n = n->next) {
        TR_CONTAINER_OF(n, struct tr_deliverer, link)->named = false;
    }
}

bool tr_delivers_name(struct tr_cluster *c, struct tr_span name)
{
    struct tr_deliverer *d = name.at != NULL ? add(c, name) : NULL;

    if (d != NULL) {
        d->named = true;
    }
    return d != NULL;
}

void tr_delivers_end(struct tr_cluster *c)
{
    struct tr_list *next;

    for (struct tr_list *n = c->deliverers.next; n != &c->deliverers; n = next) {
        struct tr_deliverer *d = TR_CONTAINER_OF(n, struct tr_deliverer, link);

        next = n->next;
        if (!d->named && !d->loading) {
            tell(c, d);
            drop(c, d);
        } else if (d->named && (!d->topic->loaded || is_mine(c, d->topic))) {
            reload(c, d);
        }
    }
}

static void heard(struct tr_cluster *c, struct tr_clane *lane, const struct tr_redis_reply *reply)
{
    int status = TARRY_OK;

    tr_delivers_begin(c);
    for (size_t i = 0; i < reply->count; i++) {
        if (!tr_delivers_name(c, reply->items[i])) {
            status = TARRY_ENOMEM;
        }
    }
    tr_delivers_end(c);
    tr_item_finish(c, tr_lane_next(lane), status);
}

const struct tr_cl_way tr_outlets_way = {
    .script = -1, .most = 1, .meta = true, .build = build, .heard = heard};

static void listed(struct tr_cluster *c, struct tr_item *item)
{
    c->deliver_asking = false;
    c->deliver_us = c->now.boot_us + (item->status == TARRY_OK ? EVERY_US : AGAIN_US);
    if (c->deliver_again) {
        c->deliver_again = false;
        c->deliver_us = c->now.boot_us;
    }
}

/* ---- when ---- */

void tr_delivers_look(struct tr_cluster *c)
{
    c->deliver_us = c->now.boot_us;
    c->deliver_again = c->deliver_asking; /* what it reads may be older */
}

void tr_delivers_changed(struct tr_cluster *c, const struct tr_ctopic *t)
{
    unsigned slot = t->spots[0].slot;
    struct tr_deliverer *d = find(c, t);

    if (d != NULL) {
        tell(c, d); /* before who changed it hears that it is so */
    }
    tr_home_tell(c, slot, TR_HOME_OUTLETS);
}

/* Slots have other owners, or this node does no housekeeping any more. */
static void look_at_owners(struct tr_cluster *c)
{
    for (struct tr_list *n = c->deliverers.next; n != &c->deliverers; n = n->next) {
        tell(c, TR_CONTAINER_OF(n, struct tr_deliverer, link));
    }
}

void tr_delivers_turn(struct tr_cluster *c)
{
    if (c->deliver_owned != (c->owns ? c->shares : 0) && !TR_CL_MUTANT(OUTLET_LEFT)) {
        c->deliver_owned = c->owns ? c->shares : 0;
        look_at_owners(c);
        tr_delivers_look(c); /* there may be some of which only the old owner has heard */
    }
    if (c->config.outlet != NULL && !c->deliver_asking && c->deliver_us <= c->now.boot_us) {
        c->deliver_asking = true;
        tr_lane_put(c, TR_CL_OUTLETS, &c->deliver_list);
    }
}

uint64_t tr_delivers_next(const struct tr_cluster *c)
{
    return c->config.outlet == NULL || c->deliver_asking ? TR_CL_NEVER : c->deliver_us;
}
