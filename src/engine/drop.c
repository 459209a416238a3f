/*
 * The end of the dead: those that are dead for too long (dead_keep of their topic's policy), and
 * the oldest of too many (dead_max), are killed (TR_WHY_DROPPED) and counted.
 *
 *     a death --> too many? --yes--> in line: the first ones by dead_seq go, in slices
 *                    | no              ^
 *                    v                 |
 *                one timer for each topic with dead jobs, by T, for the first of them
 *
 * Invariant: a topic with dead jobs has its timer armed or stands in line, unless its policy keeps
 * them for ever. The timer may be early, since the one it was armed for may be gone: then it is
 * armed anew. The first dead job may not be in memory (deaths.c); then it comes back to be killed,
 * with the 255 that follow it. When the store is opened nobody knows when the first of those died,
 * so a topic that has some is looked at a minute later. What cannot be read is left, and looked for
 * again an hour later.
 *
 * Deaths of a topic are in the order of their time unless the clock was set back; then some are
 * kept for longer.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

enum { DROP_UNITS = 3 };

static const uint64_t FIRST_US = UINT64_C(60) * 1000000;
static const uint64_t AGAIN_US = UINT64_C(3600) * 1000000;

static void arm(struct tr_engine *e, struct tr_topic *t, uint64_t at_us)
{
    if (!t->drop_timer.armed && at_us < TR_WHEEL_NEVER) {
        tr_wheel_arm(&e->drops, &t->drop_timer, at_us);
    }
}

/* When it has been dead for long enough, T; TR_NEVER: it is kept. */
static uint64_t end_of(const struct tr_job *job)
{
    uint64_t keep_us = tr_topic_policy(job->topic)->dead_keep_us;

    return keep_us < TR_NEVER - job->dead_at_us && !TR_MUTANT(NO_DEAD_KEEP)
               ? job->dead_at_us + keep_us
               : TR_NEVER;
}

static bool too_many(const struct tr_topic *t)
{
    return t->dead > tr_topic_policy(t)->dead_max && !TR_MUTANT(NO_DEAD_MAX);
}

static void stand_in_line(struct tr_engine *e, struct tr_topic *t)
{
    tr_wheel_disarm(&e->drops, &t->drop_timer);
    if (tr_list_empty(&t->in_drops)) {
        tr_list_append(&e->state.topics.drops, &t->in_drops);
    }
}

void tr_drop_note(struct tr_engine *e, struct tr_job *job)
{
    struct tr_topic *t = job->topic;

    if (t->purged || !tr_list_empty(&t->in_drops)) {
        return;
    }
    if (too_many(t)) {
        stand_in_line(e, t);
    } else {
        arm(e, t, end_of(job));
    }
}

void tr_drop_changed(struct tr_engine *e, struct tr_topic *t)
{
    if (t->dead != 0) {
        stand_in_line(e, t);
    }
}

void tr_drop_begin(struct tr_engine *e)
{
    const struct tr_list *all = &e->state.topics.all;

    for (struct tr_list *n = all->next; n != all; n = n->next) {
        struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, link);

        if (t->dead_far != 0 && !t->purged) {
            tr_wheel_disarm(&e->drops, &t->drop_timer);
            arm(e, t, e->clock.t_us + FIRST_US);
        }
    }
}

void tr_drop_stop(struct tr_engine *e, struct tr_topic *t)
{
    tr_wheel_disarm(&e->drops, &t->drop_timer);
    tr_list_remove(&t->in_drops);
}

static int kill(struct tr_engine *e, struct tr_job *job)
{
    struct tr_kill k = tr_tally_kill(job);
    int err = tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX, 1);

    if (err == TARRY_OK) {
        tr_change_unschedule(e, job);
        tr_change_kill(e, &k, TR_WHY_DROPPED);
    }
    return err;
}

/* The first one, if it is to go. TARRY_OK: it went, and its topic perhaps; TARRY_ENOTFOUND: that is
 * all for now. */
static int drop_first(struct tr_engine *e, struct tr_topic *t)
{
    struct tr_job *job = NULL;
    int err = tr_deaths_first(e, t, &job);

    if (err == TARRY_EFULL) {
        return err;
    }
    if (err != TARRY_OK || job == NULL) {
        if (t->dead != 0) {
            arm(e, t, e->clock.t_us + AGAIN_US);
        }
        return TARRY_ENOTFOUND;
    }
    if (!too_many(t) && end_of(job) > e->clock.t_us) {
        arm(e, t, end_of(job));
        return TARRY_ENOTFOUND;
    }
    return kill(e, job);
}

void tr_drop_step(struct tr_engine *e)
{
    struct tr_list *line = &e->state.topics.drops;
    struct tr_timer *timer;

    while ((timer = tr_wheel_pop(&e->drops, e->clock.t_us, &e->work)) != NULL) {
        stand_in_line(e, TR_CONTAINER_OF(timer, struct tr_topic, drop_timer));
    }
    e->drop_waits = false;
    while (!tr_list_empty(line) && tr_engine_charge(e, DROP_UNITS)) {
        struct tr_topic *t = TR_CONTAINER_OF(line->next, struct tr_topic, in_drops);
        int err = drop_first(e, t);

        if (err == TARRY_EFULL) { /* it is being read, or cannot be logged now */
            e->drop_waits = e->work != 0;
            return;
        }
        if (err != TARRY_OK) {
            tr_list_remove(&t->in_drops);
        }
    }
}

uint64_t tr_drop_next(const struct tr_engine *e)
{
    if (e->config.read_only) {
        return TR_NEVER; /* nor is there a step */
    }
    if (tr_list_empty(&e->state.topics.drops)) {
        return tr_clock_boot_at(&e->clock, tr_wheel_next(&e->drops));
    }
    if (e->drop_waits) {
        return tr_engine_busy(e) ? TR_NEVER : e->now.boot_us + TR_RETRY_US;
    }
    return e->now.boot_us;
}

uint64_t tr_drop_event(const struct tr_engine *e)
{
    return tr_list_empty(&e->state.topics.drops) ? tr_wheel_next(&e->drops) : 0;
}
