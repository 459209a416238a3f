/*
 * How fast a topic's jobs are handed out, and how many at once: rate, burst and in_flight of its
 * policy.
 *
 * They hold back a reserve by topic, and nothing else: a job is ready when it is due, and who names
 * it gets it. A topic that is limited is passed over like a paused one, so a reserve of several
 * gets something from the others.
 *
 *     no token left      who waits is looked at again when the next one comes: one timer for each
 *                        topic with a ready job, somebody who waits for it, and no token
 *     too many are out   ... when one of them comes back or is gone: no timer
 *
 * A token is taken with the hand-out. It goes back into the bucket if the hand-out reached nobody.
 *
 * Buckets go by the clock of spans, like leases and pauses: a wall clock that is set back by an
 * hour must not stop a topic for as long. A bucket is full when it is first used and after a start;
 * so a start may let one burst more through.
 */

#include "base/mutant.h"
#include "engine/inner.h"

/* The bucket of a topic as its policy is now; NULL: it needs none. */
static struct tr_bucket *bucket_of(const struct tr_engine *e, struct tr_topic *t)
{
    const struct tr_policy *p = tr_topic_policy(t);
    struct tr_bucket *b = &t->bucket;
    uint64_t burst = p->burst != 0 ? p->burst : tr_bucket_burst_of(p->rate_milli);

    if (p->rate_milli == 0 || TR_MUTANT(NO_RATE)) {
        b->rate_milli = 0;
        return NULL;
    }
    burst = burst < TR_BUCKET_BURST_MAX ? burst : TR_BUCKET_BURST_MAX;
    if (b->rate_milli == 0) {
        tr_bucket_init(b, p->rate_milli, burst, tr_clock_span(&e->clock));
    } else if (b->rate_milli != p->rate_milli || b->burst != burst) {
        tr_bucket_change(b, p->rate_milli, burst, tr_clock_span(&e->clock));
    }
    return b;
}

static bool is_crowded(const struct tr_topic *t)
{
    return t->count[TR_RESERVED] >= tr_topic_policy(t)->in_flight && !TR_MUTANT(NO_IN_FLIGHT);
}

/* When it has a token; now: it has. */
static uint64_t token_at(const struct tr_engine *e, struct tr_topic *t)
{
    const struct tr_bucket *b = bucket_of(e, t);

    return b != NULL ? tr_bucket_next(b, tr_clock_span(&e->clock)) : tr_clock_span(&e->clock);
}

bool tr_limit_holds(const struct tr_engine *e, struct tr_topic *t)
{
    return t->policy != NULL && (is_crowded(t) || token_at(e, t) > tr_clock_span(&e->clock));
}

void tr_limit_take(const struct tr_engine *e, struct tr_job *job)
{
    struct tr_bucket *b = bucket_of(e, job->topic);

    job->paid = b != NULL && tr_bucket_take(b, 1, tr_clock_span(&e->clock)) != 0;
}

void tr_limit_refund(struct tr_engine *e, struct tr_job *job)
{
    struct tr_bucket *b = bucket_of(e, job->topic);

    if (job->paid && b != NULL && !TR_MUTANT(NO_REFUND)) {
        tr_bucket_give(b, 1);
        tr_handout_mark(e, job->topic);
    }
    job->paid = false;
}

void tr_limit_freed(struct tr_engine *e, struct tr_topic *t)
{
    if (t->policy != NULL && t->policy->in_flight != UINT64_MAX) {
        tr_handout_mark(e, t);
    }
}

void tr_limit_wait(struct tr_engine *e, struct tr_topic *t)
{
    uint64_t at_us;

    if (t->policy == NULL || t->waiting == 0 || t->count[TR_READY] == 0 || tr_topic_paused(t) ||
        t->token.armed || is_crowded(t)) {
        return;
    }
    at_us = token_at(e, t);
    if (at_us > tr_clock_span(&e->clock)) {
        tr_wheel_arm(&e->tokens, &t->token, at_us);
    }
}

void tr_limit_stop(struct tr_engine *e, struct tr_topic *t)
{
    tr_wheel_disarm(&e->tokens, &t->token);
}

void tr_limit_changed(struct tr_engine *e, struct tr_topic *t)
{
    tr_limit_stop(e, t);
    (void)bucket_of(e, t);
    tr_handout_mark(e, t);
}

void tr_limit_step(struct tr_engine *e)
{
    struct tr_timer *timer;

    while ((timer = tr_wheel_pop(&e->tokens, tr_clock_span(&e->clock), &e->work)) != NULL) {
        tr_handout_mark(e, TR_CONTAINER_OF(timer, struct tr_topic, token));
    }
}
