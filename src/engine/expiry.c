/*
 * Jobs that were not handed out in time: ttl.
 *
 *     due                  due + ttl
 *      | ready: may be handed out | never any more: dead (TR_WHY_EXPIRED)
 *
 * One that was handed out does not expire, also not when it has come back: counters.reserves says
 * so, and is 0 again after a kick, a replacement by key, or a hand-out that reached nobody. Hence
 * no flag is needed for it.
 *
 * A ready job has no use for its timer, so that stands in a wheel of its own for those that may
 * expire, by T; a job without ttl costs nothing. Whoever meets a job that is over before its timer
 * was looked at (a hand-out, a look at it, a change) makes it dead first. Far jobs of a parked
 * topic expire when they come into memory, and count as ready until then; each one that does makes
 * room for the next.
 *
 * Who asks for the figures of a topic waits until those of it that are over are dead, not for
 * others: a topic knows how many of its jobs stand in the wheel, and that none of them is over
 * before expires_us.
 *
 * In a store that is only looked at nobody dies: there such jobs stay ready.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

enum { DIE_UNITS = 3 };

/* T from which on it is not handed out any more, or TR_NEVER. */
static uint64_t end_of(const struct tr_job *job)
{
    uint64_t ttl_us = job->extra != NULL ? job->extra->ttl_us : 0;

    if (ttl_us == 0 || job->counters.reserves != 0) {
        return TR_NEVER;
    }
    return ttl_us < TR_NEVER - job->due_us ? job->due_us + ttl_us : TR_NEVER;
}

bool tr_expiry_may(const struct tr_job *job)
{
    return job->state == TR_READY && end_of(job) != TR_NEVER;
}

/* It stands in the wheel. */
static void stand(struct tr_engine *e, struct tr_job *job, uint64_t end_us)
{
    struct tr_topic *t = job->topic;

    if (t->expiring++ == 0 || end_us < t->expires_us) {
        t->expires_us = end_us;
    }
    tr_wheel_arm(&e->expiries, &job->timer, end_us);
}

void tr_expiry_arm(struct tr_engine *e, struct tr_job *job)
{
    uint64_t end_us = job->topic->purged ? TR_NEVER : end_of(job);

    if (end_us != TR_NEVER) {
        stand(e, job, end_us);
    }
}

void tr_expiry_disarm(struct tr_engine *e, struct tr_job *job)
{
    if (job->timer.armed) {
        tr_wheel_disarm(&e->expiries, &job->timer);
        job->topic->expiring--;
    }
}

int tr_expiry_settle(struct tr_engine *e, struct tr_job *job)
{
    struct tr_record rec = {0};

    if (job->state != TR_READY || end_of(job) > e->clock.t_us || job->topic->purged ||
        e->config.read_only || TR_MUTANT(NEVER_EXPIRES)) {
        return TARRY_OK;
    }
    tr_retry_die(e, job, TR_WHY_EXPIRED, &rec);
    return tr_change_revise(e, job, &rec, true);
}

void tr_expiry_step(struct tr_engine *e)
{
    struct tr_timer *timer;

    while ((timer = tr_wheel_pop(&e->expiries, e->clock.t_us, &e->work)) != NULL) {
        struct tr_job *job = TR_CONTAINER_OF(timer, struct tr_job, timer);

        (void)tr_engine_charge(e, DIE_UNITS);
        job->topic->expiring--;
        if (tr_expiry_settle(e, job) != TARRY_OK) {
            tr_expiry_arm(e, job); /* by its own end: the clock may be set back meanwhile */
            e->blocked = true;
            e->expiry_blocked = true;
            return;
        }
    }
}

/* Is something to be done that a count should contain? */
bool tr_expiry_waits(const struct tr_engine *e)
{
    return !e->config.read_only && tr_wheel_next(&e->expiries) <= e->clock.t_us;
}

/* The first of its own may have gone meanwhile: then nothing in the wheel is over, or others are,
 * and it waits in vain for these. */
bool tr_expiry_waits_of(const struct tr_engine *e, const struct tr_topic *t)
{
    return t->expiring != 0 && t->expires_us <= e->clock.t_us && tr_expiry_waits(e);
}

uint64_t tr_expiry_next(const struct tr_engine *e)
{
    if (e->config.read_only || e->expiry_blocked) {
        return TR_NEVER;
    }
    return tr_clock_boot_at(&e->clock, tr_wheel_next(&e->expiries));
}

uint64_t tr_expiry_event(const struct tr_engine *e)
{
    return tr_wheel_next(&e->expiries);
}
