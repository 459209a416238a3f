/*
 * Outlets themselves are no part of the simulation: they are consumers as any other. But who is to
 * have one is decided by the cluster. Settings change and owners die; in the calm one node knows
 * that a topic is its own to deliver, and was told since that last changed.
 */

#include "outs.h"

#include "base/err.h"

#define DEATH_US UINT64_C(25000000)
#define GUARD_US UINT64_C(66000000)

enum { TOPIC = 3 };

static uint64_t dice(struct cluster *c, uint64_t below)
{
    return tr_rng_below(&c->world.rng, below);
}

struct search {
    const struct node *node;
    bool found;
};

static void meet(void *ctx, uint32_t topic)
{
    struct search *s = ctx;

    s->found = s->found || topic == s->node->topics[TOPIC];
}

/* Does the node know that it is its own? */
static bool has(const struct node *n)
{
    struct search s = {.node = n};

    tr_cluster_deliverers(n->engine, meet, &s);
    return s.found;
}

void outs_told(void *ctx, uint32_t topic)
{
    struct node *n = ctx;

    if (topic == n->topics[TOPIC]) {
        n->has_outlet = has(n);
    }
}

static struct ask *set(struct node *n, bool delivers)
{
    struct ask *a = node_ask(n, 'x');

    if (a != NULL) {
        a->policy = tr_policy_default();
        a->policy.given = TR_POLICY_BIT(DELIVER);
        a->policy.deliver = delivers ? "x" : NULL;
        a->policy.deliver_len = delivers ? 1 : 0;
        a->r.op = TR_OP_POLICY;
        a->r.topic = n->topics[TOPIC];
        a->r.policy = &a->policy;
        a->r.fields = TR_POLICY_BIT(DELIVER);
        node_submit(n, a);
    }
    return a;
}

void outs_client(struct cluster *c, struct node *n)
{
    (void)set(n, dice(c, 2) == 0);
}

static void expect(struct cluster *c, unsigned owners, const char *what)
{
    unsigned found = 0;

    for (unsigned i = 0; i < NODES; i++) {
        const struct node *n = &c->nodes[i];

        found += has(n);
        if (has(n) != n->has_outlet) {
            judge_wrong(&c->judge, "an outlet's node was not told", i);
        }
    }
    if (found != owners) {
        judge_wrong(&c->judge, what, found);
    }
}

static bool set_now(struct cluster *c, bool delivers)
{
    struct ask *a = set(&c->nodes[dice(c, NODES)], delivers);

    cluster_run(c, c->world.now_us + 300000);
    return a != NULL && !a->busy && a->r.out.status == TARRY_OK;
}

void outs_check(struct cluster *c)
{
    if (!set_now(c, true)) {
        judge_wrong(&c->judge, "settings could not be changed", TOPIC);
        return;
    }
    expect(c, 1, "an outlet has not one node");
    for (unsigned i = 0; i < NODES && c->judge.wrong[0] == '\0'; i++) {
        if (has(&c->nodes[i])) {
            cluster_kill(c, &c->nodes[i]);
            break;
        }
    }
    cluster_run(c, c->world.now_us + DEATH_US);
    expect(c, 1, "an outlet has not one node after a death");
    c->net.mute = dice(c, 2) == 0; /* then nobody hears of it, but for the guard */
    if (!set_now(c, false)) {
        judge_wrong(&c->judge, "settings could not be changed", TOPIC);
    }
    cluster_run(c, c->world.now_us + (c->net.mute ? GUARD_US : 0));
    c->net.mute = false;
    expect(c, 0, "an outlet that is none has a node");
}
