/*
 * What becomes of a job that was handed out and not finished.
 *
 *     released, its lease ran out, its connection is gone
 *       |
 *       +-- that was its last attempt ------> dead (TR_WHY_RETRIES)
 *       +-- somebody says how long it waits -> delayed, or ready
 *       +-- its connection held it ---------> ready, as beanstalkd does
 *       +-- else the backoff says it -------> delayed
 *
 * Attempts are counted by hand-outs (counters.reserves), which RETURN and a hand-out that reached
 * nobody take back. How many there may be, and the backoff, were fixed by the push. A job that was
 * made on the beanstalk port has as many as it likes, and no backoff, unless the push or its
 * topic's policy said otherwise.
 *
 * When there is no memory to count it in another cell, it is ready at once: a job that cannot wait
 * must not be lost to its lease for ever. On a full disk it does wait: its change is an ALTER then.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

static bool from_beanstalk(const struct tr_job *job)
{
    return (job->flags & TR_RF_BEANSTALK) != 0;
}

/* Attempts after the first; -1: no end. */
static int64_t retries_of(const struct tr_job *job)
{
    if (job->extra != NULL && job->extra->has_retries) {
        return job->extra->retries;
    }
    return tr_policy_retries(from_beanstalk(job));
}

bool tr_retry_was_last(const struct tr_job *job)
{
    int64_t retries = retries_of(job);

    if (TR_MUTANT(ENDLESS_RETRIES)) {
        return false;
    }
    return retries >= 0 && job->counters.reserves > (uint64_t)retries;
}

uint64_t tr_retry_delay(struct tr_engine *e, const struct tr_job *job)
{
    uint32_t attempt = job->counters.reserves != 0 ? job->counters.reserves : 1;
    const struct tr_backoff *own = tr_extra_backoff(job->extra);
    struct tr_backoff usual;
    bool any = tr_policy_backoff(from_beanstalk(job), &usual) || own != NULL;

    if (!any || TR_MUTANT(NO_BACKOFF)) {
        return 0;
    }
    return tr_backoff_delay(own != NULL ? own : &usual, attempt, tr_rng_next(&e->rng));
}

void tr_retry_die(const struct tr_engine *e, const struct tr_job *job, enum tr_why why,
                  struct tr_record *rec)
{
    rec->mask = (rec->mask | TR_FIELD(DEAD)) & ~(TR_FIELD(DUE) | TR_FIELD(DELAY));
    rec->dead.reason = (uint8_t)why;
    rec->dead.seq = job->topic->next_dead_seq;
    rec->dead.at_us = e->clock.t_us;
}

void tr_retry_later(struct tr_engine *e, const struct tr_job *job, uint64_t from_us,
                    struct tr_record *rec)
{
    uint64_t delay_us = tr_retry_delay(e, job);
    uint64_t due_us = from_us + delay_us;

    rec->mask |= TR_FIELD(DELAY);
    rec->delay_us = delay_us;
    if (delay_us != 0) {
        rec->mask |= TR_FIELD(DUE);
        rec->due_us = due_us > e->clock.t_us ? due_us : e->clock.t_us;
    }
}

int tr_retry_revise(struct tr_engine *e, struct tr_job *job, struct tr_record *rec)
{
    int err = tr_change_revise(e, job, rec, true);

    if (err == TARRY_ENOMEM && (rec->mask & TR_FIELD(DUE)) != 0) {
        rec->mask &= ~(TR_FIELD(DUE) | TR_FIELD(DELAY) | TR_FIELD(FLAGS));
        err = tr_change_revise(e, job, rec, true);
    }
    return err;
}

/* beanstalkd goes on counting; but one that has used up its attempts would die at once. */
bool tr_retry_forgets(const struct tr_job *job, bool beanstalk)
{
    return job->dead_seq != 0 && !TR_MUTANT(KICK_KEEPS_COUNT) &&
           (!beanstalk || job->dead_reason == TR_WHY_RETRIES);
}
