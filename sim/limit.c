/*
 * How many jobs of a topic are handed out, and how fast.
 *
 * With in_flight a hand-out must not come when so many are surely reserved. The rate is checked
 * with a bucket of the model's own, in runs in which no hand-out waits for a body (exact_rate):
 * then each is heard of in the call in which it took its token.
 */
#include "oracle.h"

#include <inttypes.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

static struct tr_bucket *bucket_of(struct sim_oracle *o, unsigned topic)
{
    const struct tr_policy *p = &o->model.topics[topic].policy.p;
    struct tr_bucket *b = &o->model.topics[topic].bucket;
    uint64_t burst = p->burst != 0 ? p->burst : tr_bucket_burst_of(p->rate_milli);

    if (p->rate_milli == 0) {
        b->rate_milli = 0;
        return NULL;
    }
    if (b->rate_milli == 0) {
        tr_bucket_init(b, p->rate_milli, burst, o->model.now.boot_us);
    } else if (b->rate_milli != p->rate_milli || b->burst != burst) {
        tr_bucket_change(b, p->rate_milli, burst, o->model.now.boot_us);
    }
    return b;
}

void sim_limit_changed(struct sim_oracle *o, unsigned topic)
{
    (void)bucket_of(o, topic);
}

/* Those of the topic that are surely reserved, or may be. */
static uint64_t reserved(const struct sim_oracle *o, unsigned topic, bool surely)
{
    uint64_t count = 0;

    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->where != SIM_GONE && j->topic == topic) {
            count += surely ? sim_job_is_reserved(&o->model, j) : sim_job_may_be_reserved(j);
        }
    }
    return count;
}

bool sim_limit_may_hold(struct sim_oracle *o, unsigned topic)
{
    const struct sim_topic *t = &o->model.topics[topic];
    const struct tr_bucket *b = bucket_of(o, topic);

    if (t->policy_call == o->model.call ||
        (b != NULL && (!o->params->exact_rate ||
                       tr_bucket_next(b, o->model.now.boot_us) > o->model.now.boot_us))) {
        return true;
    }
    return t->policy.p.in_flight != UINT64_MAX &&
           (sim_oracle_limbo(o, topic) || reserved(o, topic, false) >= t->policy.p.in_flight);
}

void sim_limit_handed(struct sim_oracle *o, struct sim_job *j)
{
    const struct sim_topic *t = &o->model.topics[j->topic];
    struct tr_bucket *b = bucket_of(o, j->topic);
    bool fresh = t->policy_call == o->model.call;

    if (!fresh && !o->reading && !o->read_done &&
        reserved(o, j->topic, true) >= t->policy.p.in_flight) {
        FAIL("I9", "job %" PRIu64 " is handed out, though %" PRIu64 " of its topic are reserved",
             j->id, t->policy.p.in_flight);
    }
    j->paid = b != NULL && tr_bucket_take(b, 1, o->model.now.boot_us) != 0;
    if (b != NULL && !j->paid && o->params->exact_rate && !fresh) {
        FAIL("I9", "job %" PRIu64 " is handed out before the rate of its topic allows it", j->id);
    }
}

void sim_limit_returned(struct sim_oracle *o, struct sim_job *j)
{
    struct tr_bucket *b = bucket_of(o, j->topic);

    if (j->paid && b != NULL) {
        tr_bucket_give(b, 1);
    }
    j->paid = false;
}
