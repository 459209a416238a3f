/*
 * C11: what is asked of limits, whatever servers and network do:
 *
 *     of a topic with in_flight a slot has never more leases that last than its share, behind a
 *     take that gave some;
 *     of a topic with a rate a slot gives no more than its bucket holds, which fills by the time of
 *     its server.
 *
 * The settings are there before the first fault, and on all replicas; so no failover undoes them,
 * whatever else it does. One of the topics has two slots, and each of them half of the limit.
 */

#include "limits.h"

#include "base/err.h"
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPREAD_TOPIC = 4, FLIGHT_TOPIC = 5, RATE_TOPIC = 6, PREP = TR_PLACE_SLOT_KEYS + 2 };

static bool set_one(struct cluster *c, unsigned topic, const struct tr_policy *policy,
                    uint32_t fields)
{
    struct node *n = &c->nodes[cluster_dice(c, NODES)];
    struct ask *a = node_ask(n, 'x');

    if (a == NULL) {
        return false;
    }
    a->policy = *policy;
    a->r.op = TR_OP_POLICY;
    a->r.topic = n->topics[topic];
    a->r.policy = &a->policy;
    a->r.fields = fields;
    node_submit(n, a);
    cluster_run(c, c->world.now_us + 200000);
    return !a->busy && a->r.out.status == TARRY_OK;
}

void limits_set(struct cluster *c)
{
    static const struct sim_limit limits[TOPICS] = {
        [SPREAD_TOPIC] = {.spread = 2, .in_flight = 2},
        [FLIGHT_TOPIC] = {.spread = 1, .in_flight = 3},
        [RATE_TOPIC] = {.spread = 1, .rate_milli = 20000, .burst = 3},
    };

    for (unsigned t = 0; t < TOPICS; t++) {
        struct sim_limit *l = &c->judge.limits[t];
        struct tr_policy p = tr_policy_default();

        *l = limits[t];
        for (unsigned s = 0; s < SLOTS; s++) {
            l->buckets[s].level = l->burst;
        }
        if (l->in_flight != 0) {
            p.given |= TR_POLICY_BIT(IN_FLIGHT);
            p.in_flight = (uint64_t)l->in_flight * l->spread;
        }
        if (l->rate_milli != 0) {
            p.given |= TR_POLICY_BIT(RATE) | TR_POLICY_BIT(BURST);
            p.rate_milli = l->rate_milli;
            p.burst = l->burst;
        }
        if (l->spread > 1) {
            p.given |= TR_POLICY_BIT(SPREAD);
            p.spread = l->spread;
        }
        if (p.given != 0 && !set_one(c, t, &p, p.given)) {
            judge_wrong(&c->judge, "limits could not be set", t);
        }
    }
    c->judge.limited = true;
}

void limits_off(struct cluster *c)
{
    struct tr_policy p = tr_policy_default();
    uint32_t fields = TR_POLICY_BIT(IN_FLIGHT) | TR_POLICY_BIT(RATE) | TR_POLICY_BIT(BURST);

    c->judge.limited = false;
    for (unsigned t = SPREAD_TOPIC; t <= RATE_TOPIC && c->judge.wrong[0] == '\0'; t++) {
        if (!set_one(c, t, &p, fields)) {
            judge_wrong(&c->judge, "limits could not be taken away", t);
        }
    }
}

/* ---- the judge ---- */

bool limits_in(const struct judge *j, unsigned topic, unsigned slot)
{
    unsigned spread = j->limits[topic].spread > 1 ? j->limits[topic].spread : 1;

    return (slot + SLOTS - j->slot_of[topic]) % SLOTS < spread;
}

/* Leases of a topic that last. */
static uint64_t in_flight(struct judge *j, const struct world_call *call, unsigned topic)
{
    char key[TR_PLACE_KEY_MAX], from[24];
    struct tr_span args[] = {
        {"ZCOUNT", 6},
        {key, tr_place_key(key, &j->world->layout, world_slot(call), PREP, cluster_topic(topic))},
        {from, 0},
        {"+inf", 4}};
    struct fake_call count = {.db = j->world->servers[call->server].db, .args = args, .count = 4};
    struct fake_reply *r;
    uint64_t n;

    args[2].len = (size_t)snprintf(from, sizeof from, "%llu",
                                   (unsigned long long)world_time(j->world, call->server) + 1);
    r = fake_plain(j->world->lua, &count);
    n = r->is.count == 1 && r->is.items[0].at != NULL ? strtoull(r->is.items[0].at, NULL, 10) : 0;
    fake_reply_free(r);
    return n;
}

void limits_took(struct judge *j, const struct world_call *call, unsigned jobs)
{
    size_t argv = 3 + strtoul(call->args[2].at, NULL, 10);
    unsigned topic = (unsigned)(call->args[argv + 6].at[1] - '0');
    struct sim_limit *l = &j->limits[topic];
    struct sim_bucket *b = &l->buckets[world_slot(call)];
    uint64_t now_us = world_time(j->world, call->server);

    TR_CHECK(topic < TOPICS);
    if (!j->limited) {
        return;
    }
    if (jobs > 0 && l->in_flight != 0 && in_flight(j, call, topic) > l->in_flight) {
        judge_wrong(j, "C11: more in flight than may be, topic", topic);
    }
    if (l->rate_milli != 0) {
        if (now_us > b->at_us) {
            b->level += (double)(now_us - b->at_us) * (double)l->rate_milli / 1e9;
        }
        b->level = b->level < l->burst ? b->level : l->burst;
        b->at_us = now_us;
        if ((double)jobs > b->level + 1e-6) {
            judge_wrong(j, "C11: faster than the rate, topic", topic);
        }
        b->level -= jobs;
    }
}

void limits_undone(struct judge *j, unsigned server)
{
    for (unsigned s = 0; s < SLOTS; s++) {
        if (j->world->owner[s] == (int)server || j->world->moving_to[s] == (int)server) {
            for (unsigned t = 0; t < TOPICS; t++) {
                j->limits[t].buckets[s].level = j->limits[t].burst;
            }
        }
    }
}
