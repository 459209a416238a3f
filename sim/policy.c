/*
 * Policies of topics: what clients ask for, and whether it is so.
 *
 * A policy is a fact of its topic: it is in every snapshot, and a recovery must give it back.
 */
#include "oracle.h"

#include "base/err.h"
#include "swarm.h"

#include <inttypes.h>
#include <string.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

enum { TEXT_MAX = 2000 };

/* Those that clients give. Whoever makes another one mean something adds it here, and to the model.
 */
static const unsigned always =
    TR_POLICY_BIT(TTR) | TR_POLICY_BIT(JITTER) | TR_POLICY_BIT(PAUSED) | TR_POLICY_BIT(MAX_JOBS) |
    TR_POLICY_BIT(MAX_BYTES) | TR_POLICY_BIT(RETRIES) | TR_POLICY_BIT(BACKOFF) |
    TR_POLICY_BIT(BURST) | TR_POLICY_BIT(HISTORY) | TR_POLICY_BIT(SPREAD) | TR_POLICY_BIT(DELIVER);

struct sim_policy sim_policy_of(const struct tr_policy *p)
{
    struct sim_policy s = {.p = *p, .text_len = p->deliver_len};

    s.text_hash = sim_body_hash((const uint8_t *)p->deliver, (uint32_t)p->deliver_len);
    s.p.deliver = NULL;
    s.p.deliver_len = 0;
    return s;
}

struct sim_policy sim_policy_none(void)
{
    struct tr_policy none = tr_policy_default();

    return sim_policy_of(&none);
}

bool sim_policy_same(const struct sim_policy *a, const struct sim_policy *b)
{
    uint8_t x[TR_POLICY_BYTES_MAX];
    uint8_t y[TR_POLICY_BYTES_MAX];
    size_t len = tr_policy_encode(x, &a->p);

    return tr_policy_encode(y, &b->p) == len && memcmp(x, y, len) == 0 &&
           a->text_len == b->text_len && a->text_hash == b->text_hash;
}

/* T is never ahead of the wall clock. */
bool sim_topic_is_stopped(const struct sim_model *m, unsigned topic)
{
    const struct tr_policy *p = &m->topics[topic].policy.p;

    return (p->paused & TR_PAUSED_OUT) != 0 &&
           (p->paused_until_us == 0 || p->paused_until_us > m->wall_high_us);
}

bool sim_topic_takes_none(const struct sim_model *m, unsigned topic)
{
    const struct tr_policy *p = &m->topics[topic].policy.p;

    return (p->paused & TR_PAUSED_IN) != 0 &&
           (p->paused_until_us == 0 || p->paused_until_us > m->now.wall_us);
}

uint64_t sim_topic_jobs(const struct sim_model *m, unsigned topic)
{
    uint64_t jobs = 0;

    for (size_t i = 0; i < m->job_count; i++) {
        jobs += m->jobs[i].where != SIM_GONE && m->jobs[i].topic == topic;
    }
    return jobs;
}

uint64_t sim_topic_bytes(const struct sim_model *m, unsigned topic)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < m->job_count; i++) {
        bytes +=
            m->jobs[i].where != SIM_GONE && m->jobs[i].topic == topic ? m->jobs[i].body.len : 0;
    }
    return bytes;
}

void sim_policy_draw(struct sim_ask *a, struct tr_rng *rng, uint64_t wall_us, uint8_t text[])
{
    unsigned drawn = always | a->oracle->params->limits;
    struct tr_policy any = tr_policy_default();

    any.given = TR_POLICY_ALL;
    any.ttr_us = sim_spread(rng, 1000, 10000000);
    any.jitter_us = sim_spread(rng, 1, 10000000);
    any.max_jobs = sim_dice(rng, 50) ? sim_between(rng, 0, 12) : 1000;
    any.max_bytes = sim_dice(rng, 30) ? sim_spread(rng, 1, 20000) : 10000000;
    any.paused = sim_dice(rng, 50) ? (unsigned)tr_rng_below(rng, 4) : 0;
    any.paused_until_us = sim_dice(rng, 30) ? 0 : wall_us - 1000 + sim_spread(rng, 1, 2000000);
    any.retries = sim_dice(rng, 20) ? -1 : (int64_t)sim_between(rng, 0, 5);
    if (sim_dice(rng, 50)) {
        any.backoff = (struct tr_backoff){
            .count = 2, .list_us = {sim_spread(rng, 1, 100000), sim_spread(rng, 1, 5000000)}};
    } else {
        any.backoff.base_us = sim_spread(rng, 1, 100000);
    }
    any.rate_milli = sim_spread(rng, 100, 100000);
    any.ttl_us = sim_spread(rng, 1000, 60000000);
    any.dead_keep_us = sim_spread(rng, 1000, 100000000);
    any.dead_max = sim_between(rng, 0, 5);
    any.in_flight = sim_between(rng, 1, 4);
    any.burst = sim_between(rng, 0, 9);
    any.history = (enum tr_history)tr_rng_below(rng, 3);
    any.spread = (uint32_t)sim_between(rng, 1, 4);
    any.deliver_len = (size_t)sim_spread(rng, 1, TEXT_MAX);
    sim_body_fill(tr_rng_next(rng), text, (uint32_t)any.deliver_len);
    any.deliver = (const char *)text;
    a->policy = tr_policy_default();
    if (!sim_dice(rng, 30)) { /* else all are taken back */
        tr_policy_change(&a->policy, &any, drawn & (unsigned)tr_rng_next(rng));
    }
    a->req.policy = &a->policy;
    a->req.fields = sim_dice(rng, 40) ? TR_POLICY_ALL : drawn & (unsigned)tr_rng_next(rng);
    if (sim_dice(rng, 3)) {
        a->wrong = true;
        a->policy.given |= TR_POLICY_BIT(SPREAD);
        a->policy.spread = 0;
        a->req.fields |= TR_POLICY_BIT(SPREAD);
    }
    a->to = sim_policy_of(&a->policy);
}

void sim_answer_policy_told(struct sim_oracle *o, const struct sim_ask *a)
{
    const struct sim_topic *t = &o->model.topics[a->topic];
    const struct tr_topic_stat *s = &a->req.out.stat;
    bool listed = s->delayed + s->ready + s->reserved + s->dead != 0;

    for (unsigned k = 0; k < TR_HOLD_COUNT; k++) {
        listed = listed || t->holds[k] != 0;
    }
    if (!sim_policy_same(&t->policy, &a->policy_told)) {
        FAIL("I16", "%s gives topic %s another policy", sim_op_name(a->req.op), t->name);
    }
    if (listed != s->listed) {
        FAIL("I16", "%s says that %s is%s listed", sim_op_name(a->req.op), t->name,
             s->listed ? "" : " not");
    }
}

/* Is the change in the batch of its gate? */
static void check_gate(struct sim_oracle *o, const struct sim_ask *a)
{
    uint64_t gate = a->req.out.gate;
    const struct sim_rows *snap = gate <= a->closed ? sim_prefix_find(&o->prefix, gate) : NULL;

    if (o->params->sync != TR_SYNC_ALWAYS) {
        return;
    }
    sim_oracle_changed(o, a->topic, gate);
    if (gate <= o->call_closed || gate > a->closed + 1 ||
        (snap != NULL &&
         !sim_policy_same(&snap->policies[a->topic], &o->model.topics[a->topic].policy))) {
        FAIL("I22", "a policy of %s is told with batch %" PRIu64 ", in which it is not",
             o->model.topics[a->topic].name, gate);
    }
}

void sim_answer_policy(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_topic *t = &o->model.topics[a->topic];
    struct sim_policy was = t->policy;

    tr_policy_change(&t->policy.p, &a->to.p, a->req.fields);
    if (a->req.fields & TR_POLICY_BIT(DELIVER)) {
        t->policy.text_len = a->to.text_len;
        t->policy.text_hash = a->to.text_hash;
    }
    if (!sim_policy_same(&was, &t->policy)) {
        t->stop_over = false;
        t->stop_call = o->model.call;
        t->resume_call = o->model.call;
        t->policy_call = o->model.call;
        sim_limit_changed(o, a->topic);
        check_gate(o, a);
    }
    sim_answer_seen(o, a, t->gate);
    sim_answer_policy_told(o, a);
}

void sim_check_policies(struct sim_oracle *o)
{
    for (unsigned i = 0; i < o->model.topic_count; i++) {
        if (!sim_policy_same(&o->prefix.now.policies[i], &o->model.topics[i].policy)) {
            FAIL("I16", "in memory topic %s has another policy (%x, not %x)",
                 o->model.topics[i].name, o->prefix.now.policies[i].p.given,
                 o->model.topics[i].policy.p.given);
        }
    }
}
