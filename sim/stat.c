/*
 * Statistics: counts against what the model knows for certain and what it holds possible; when the
 * next job of a topic is due.
 */
#include "oracle.h"

#include <inttypes.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

/* A KICK of this call may have taken it, and a later answer of the call has it gone: no fact is
 * left that tells. */
static bool may_be_kicked(struct sim_oracle *o, const struct sim_job *j)
{
    const struct sim_topic *t = &o->model.topics[j->topic];

    if (t->kicking == 0 && t->kick_call != o->model.call) {
        return false;
    }
    sim_prefix_read(&o->prefix, o->engine);
    return sim_rows_find(&o->prefix.now, j->id) == NULL;
}

/* Counts of the answer against what the model knows for certain, and what it holds possible. */
static void check_counts(struct sim_oracle *o, struct sim_ask *a, int topic)
{
    const struct tr_topic_stat *s = &a->req.out.stat;
    uint64_t all = 0;
    uint64_t dead = 0;
    uint64_t ready = 0;
    uint64_t delayed = 0;
    uint64_t reserved = 0;
    uint64_t limbo = 0;
    uint64_t dropped = sim_drop_count(&o->model, topic); /* perhaps */

    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->where == SIM_GONE || (topic >= 0 && j->topic != (unsigned)topic)) {
            continue;
        }
        all++;
        if (sim_answer_in_the_making(o, a, j) || (j->damaged && j->where != SIM_DEAD) ||
            sim_fate_may_be_dead(&o->model, j) || may_be_kicked(o, j)) {
            limbo++; /* or put aside, since it cannot be read */
            continue;
        }
        if (sim_check_parked(o, j)) {
            continue; /* ready or delayed: that is not exact */
        }
        dead += j->where == SIM_DEAD;
        ready += sim_job_is_ready(j);
        delayed += sim_job_is_delayed(&o->model, j);
        reserved += sim_job_is_reserved(&o->model, j);
    }
    if (s->delayed + s->ready + s->reserved + s->dead > all ||
        s->delayed + s->ready + s->reserved + s->dead + dropped < all || s->dead + dropped < dead ||
        s->ready < ready || s->delayed < delayed || s->reserved < reserved ||
        (!o->reading && s->dead > dead + limbo)) {
        FAIL("I16",
             "%s says %" PRIu64 " delayed, %" PRIu64 " ready, %" PRIu64 " reserved, %" PRIu64
             " dead; the model has at least %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
             " of %" PRIu64,
             sim_op_name(a->req.op), s->delayed, s->ready, s->reserved, s->dead, delayed, ready,
             reserved, dead, all);
    }
}

/* Is it really the first delayed job that is due then? */
static void check_next_due(struct sim_oracle *o, const struct sim_ask *a)
{
    const struct sim_topic *t = &o->model.topics[a->topic];
    uint64_t due_us = a->req.out.stat.next_due_us;
    bool at_once = a->submit_call == o->model.call;
    bool found = due_us == 0;

    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->topic != a->topic || j->where == SIM_GONE) {
            continue;
        }
        found = found || j->due_us == due_us || /* or it waits by its backoff since this call */
                (j->where == SIM_RESERVED && !sim_job_is_reserved(&o->model, j));
        if (sim_job_is_delayed(&o->model, j) && !j->damaged && !j->hidden &&
            (due_us == 0 || j->due_us < due_us) &&
            (at_once || sim_answer_is_steady(o, a, j, false)) &&
            !sim_answer_in_the_making(o, a, j)) {
            FAIL("I29",
                 "the next job of %s is said to be due at %" PRIu64 ", but job %" PRIu64
                 " is at %" PRIu64,
                 t->name, due_us, j->id, j->due_us);
        }
    }
    if (!found && o->queued == 1 && o->each_count == 0 && t->kicking == 0 && !o->reading &&
        (at_once || t->changed_call < a->submit_call)) {
        FAIL("I29", "the next job of %s is said to be due at %" PRIu64 ", but none is", t->name,
             due_us);
    }
}

void sim_answer_stat_topic(struct sim_oracle *o, struct sim_ask *a)
{
    const struct sim_topic *t = &o->model.topics[a->topic];
    const struct tr_topic_stat *s = &a->req.out.stat;

    check_counts(o, a, (int)a->topic);
    check_next_due(o, a);
    sim_answer_seen(o, a, t->gate);
    sim_answer_policy_told(o, a);
    for (unsigned k = 0; k < TR_HOLD_COUNT; k++) {
        if (s->holds[k] != t->holds[k]) {
            FAIL("I16", "stat-topic says %" PRIu64 " holds of kind %u, not %" PRIu64, s->holds[k],
                 k, t->holds[k]);
        }
    }
    if ((s->pause_left_us != 0) != sim_topic_is_paused(&o->model, a->topic) &&
        a->submit_call == o->model.call && !(t->pause_unsure && t->pause_until_us != 0)) {
        FAIL("I16", "stat-topic says that %s is paused for %" PRIu64 " us", t->name,
             s->pause_left_us);
    }
}

void sim_answer_stat(struct sim_oracle *o, struct sim_ask *a)
{
    check_counts(o, a, -1);
    sim_answer_seen(o, a, o->model.gate);
}
