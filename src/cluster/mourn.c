/*
 * Jobs that connections of a dead node held: nobody will end them, and nobody else knows. The
 * owners of slots release them, as if the connections had been closed.
 *
 *     which nodes' time is over (P{meta}:nodes, kept for an hour)? ──► one of which this node has
 *     not heard yet ──► each slot of ours ──► each topic on its agenda, where all are that have a
 *     lease ──► script `orphans`, until it has seen all leases
 *
 * With a database its rows are gone through: topics that have leases, as they are counted
 * (sql_house.c).
 *
 * That is asked every 5 s for a while when a node has left the view or a slot has become ours; and
 * once a minute.
 *
 * One after the other, and if something fails all of it again, later; and all of it when a slot
 * becomes ours. A lease that was not found ends by itself.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/hex.h"
#include "cluster/mutant.h"
#include "cluster/walk.h"

#include <string.h>

#define AGAIN_US UINT64_C(5000000)
#define EVERY_US UINT64_C(60000000)

static struct tr_mourn *mourn_of(struct tr_item *item)
{
    return TR_CONTAINER_OF(item, struct tr_mourn, item);
}

static void rest(struct tr_cluster *c, struct tr_mourn *m)
{
    m->busy = false;
    m->next_us = c->now.boot_us + (m->alert_us > c->now.boot_us ? AGAIN_US : EVERY_US);
    if (m->item.topic != NULL) {
        tr_ctopic_unpin(c, m->item.topic);
        m->item.topic = NULL;
    }
}

/* Something could not be reached. */
static void ended(struct tr_cluster *c, struct tr_item *item)
{
    rest(c, mourn_of(item));
    mourn_of(item)->next_us = c->now.boot_us + AGAIN_US;
}

void tr_mourn_init(struct tr_cluster *c)
{
    c->mourn.item = (struct tr_item){.inner = true, .end = ended};
    tr_list_init(&c->mourn.item.link);
}

static bool is_known(const struct tr_mourn *m, uint64_t node)
{
    for (unsigned i = 0; i < TR_MOURN_KNOWN; i++) {
        if (m->known[i] == node) {
            return true;
        }
    }
    return false;
}

/* The next slot of ours; behind the last one that node is done with. */
static void next_slot(struct tr_cluster *c, struct tr_mourn *m)
{
    if (!tr_coord_may(c)) {
        rest(c, m);
        return;
    }
    if (c->desk != NULL && !TR_CL_MUTANT(NOT_MOURNED)) {
        tr_house_mourn(c, m->node);
        return;
    }
    while (m->slot < c->layout.slots && !c->slots[m->slot].owned) {
        m->slot++;
    }
    if (m->slot < c->layout.slots && !TR_CL_MUTANT(NOT_MOURNED)) {
        m->item.slot = m->slot;
        tr_lane_put(c, TR_CL_LEASES, &m->item);
        return;
    }
    tr_mourn_done(c, true);
}

void tr_mourn_done(struct tr_cluster *c, bool good)
{
    struct tr_mourn *m = &c->mourn;

    if (!good) {
        ended(c, &m->item);
        return;
    }
    m->known[m->known_at++ % TR_MOURN_KNOWN] = m->node;
    rest(c, m);
    m->next_us = c->now.boot_us; /* there may be another one */
}

static void ask_orphans(struct tr_cluster *c, struct tr_item *item)
{
    if (tr_coord_may(c)) {
        tr_lane_put(c, TR_CL_ORPHANS, item);
    } else {
        rest(c, mourn_of(item));
    }
}

static void next_topic(struct tr_cluster *c, struct tr_mourn *m)
{
    struct tr_ctopic *t = NULL;

    while (m->topic_at < m->topic_count && t == NULL) {
        const char *name = m->topics[m->topic_at++];

        t = tr_ctopic_get(c, name, strlen(name));
    }
    if (t == NULL) {
        m->slot++;
        next_slot(c, m);
        return;
    }
    m->walk = tr_walk_at('p');
    tr_item_pin(&m->item, t);
    tr_ctopic_load(c, &m->item, ask_orphans);
}

/* ---- who is dead ---- */

static void build_dead(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_eval *e = &lane->call.eval;
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(e, "ZRANGE");
    tr_eval_add(e, key, tr_place_meta_key(key, &c->layout, TR_META_NODES));
    tr_eval_add(e, "-inf", 4);
    tr_eval_add_number(e, tr_cluster_meta_now(c));
    tr_eval_add(e, "BYSCORE", 7);
}

/* One that was taken for dead, and lives: it is to be seen to again when it dies. */
static void forget_living(struct tr_mourn *m, const struct tr_redis_reply *dead)
{
    for (unsigned i = 0; i < TR_MOURN_KNOWN; i++) {
        bool found = false;

        for (size_t k = 0; m->known[i] != 0 && k < dead->count && !found; k++) {
            uint64_t node = 0;

            found = dead->items[k].at != NULL && dead->items[k].len == TR_PLACE_NODE_DIGITS &&
                    tr_hex_get(dead->items[k].at, TR_PLACE_NODE_DIGITS, &node) &&
                    node == m->known[i];
        }
        m->known[i] = found ? m->known[i] : 0;
    }
}

static void heard_dead(struct tr_cluster *c, struct tr_clane *lane,
                       const struct tr_redis_reply *reply)
{
    struct tr_item *item = tr_lane_next(lane);
    struct tr_mourn *m = mourn_of(item);

    item->flying = false;
    forget_living(m, reply);
    for (size_t i = 0; i < reply->count; i++) {
        struct tr_span name = reply->items[i];

        if (name.at != NULL && name.len == TR_PLACE_NODE_DIGITS &&
            tr_hex_get(name.at, TR_PLACE_NODE_DIGITS, &m->node) && m->node != c->config.node &&
            !is_known(m, m->node)) {
            m->slot = 0;
            next_slot(c, m);
            return;
        }
    }
    rest(c, m);
}

const struct tr_cl_way tr_dead_way = {
    .script = -1, .most = 1, .meta = true, .build = build_dead, .heard = heard_dead};

/* ---- which topics have leases ---- */

static void build_leases(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_eval *e = &lane->call.eval;
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(e, "ZRANGE");
    tr_eval_add(e, key, tr_place_key(key, &c->layout, lane->slot, 4, NULL));
    tr_eval_add_number(e, 0);
    tr_eval_add_number(e, TR_MOURN_TOPICS - 1);
}

static void heard_leases(struct tr_cluster *c, struct tr_clane *lane,
                         const struct tr_redis_reply *reply)
{
    struct tr_item *item = tr_lane_next(lane);
    struct tr_mourn *m = mourn_of(item);

    item->flying = false;
    m->topic_count = 0;
    m->topic_at = 0;
    for (size_t i = 0; i < reply->count && m->topic_count < TR_MOURN_TOPICS; i++) {
        struct tr_span name = reply->items[i];

        if (name.at != NULL && tr_name_ok(name.at, name.len)) {
            memcpy(m->topics[m->topic_count], name.at, name.len);
            m->topics[m->topic_count++][name.len] = '\0';
        }
    }
    next_topic(c, m);
}

const struct tr_cl_way tr_leases_way = {
    .script = -1, .most = 1, .build = build_leases, .heard = heard_leases};

/* ---- and its jobs ---- */

static void build_orphans(struct tr_cluster *c, struct tr_clane *lane)
{
    char name[TR_PLACE_NODE_DIGITS];

    tr_hex_put(name, TR_PLACE_NODE_DIGITS, c->mourn.node);
    tr_eval_orphans(&lane->call.eval, &c->mourn.walk, name, TR_WALK_LOOK);
}

static void answered_orphans(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *item = tr_lane_next(lane);
    struct tr_mourn *m = mourn_of(item);
    uint64_t count = 0;

    item->flying = false;
    if (tr_answer_orphans(a, &m->walk, &count) != TARRY_OK) {
        rest(c, m);
        return;
    }
    c->stat.orphans += count;
    if (m->walk.set != '\0') {
        ask_orphans(c, item);
        return;
    }
    tr_ctopic_unpin(c, item->topic);
    item->topic = NULL;
    next_topic(c, m);
}

const struct tr_cl_way tr_orphans_way = {.script = TR_SCRIPT_ORPHANS,
                                         .most = 1,
                                         .jobs = true,
                                         .build = build_orphans,
                                         .answered = answered_orphans};

/* ---- time ---- */

/* Its time ends by Redis when the last beat is a lease old. */
void tr_mourn_alert(struct tr_cluster *c)
{
    c->mourn.alert_us = c->now.boot_us + 3 * c->config.lease_us;
    if (c->mourn.next_us > c->now.boot_us + AGAIN_US) {
        c->mourn.next_us = c->now.boot_us;
    }
}

void tr_mourn_again(struct tr_cluster *c)
{
    memset(c->mourn.known, 0, sizeof c->mourn.known);
    tr_mourn_alert(c);
}

void tr_mourn_turn(struct tr_cluster *c)
{
    struct tr_mourn *m = &c->mourn;

    if (c->owns && !m->busy && m->next_us <= c->now.boot_us) {
        m->busy = true;
        tr_lane_put(c, TR_CL_DEAD, &m->item);
    }
}

uint64_t tr_mourn_next(const struct tr_cluster *c)
{
    return c->owns && !c->mourn.busy ? c->mourn.next_us : TR_CL_NEVER;
}
