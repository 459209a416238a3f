/*
 * History: what is told of a job against what the model knows of it.
 *
 *     a live job       begins with its making, unless there are too many events
 *     one that went    ends with that, and why, if this engine saw it, or an earlier one that had
 *                      it in its file before it was killed, or closed in order; when it was made is
 *                      told to a tenth of a second, or not at all
 *     all of them      in order of time, not after now; by whom, as far as that is known
 */
#include "oracle.h"

#include "base/err.h"
#include "engine/history.h"

#include <inttypes.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

#define KEPT_US (UINT64_C(20) * 3600 * 1000000) /* surely: it is 24 hours, by T */

/* It was noted, as the policy of its topic did not forbid it. */
static bool must_know(const struct sim_oracle *o, const struct sim_job *j)
{
    uint64_t now_us = o->model.now.wall_us;
    bool young = now_us >= j->gone_us && now_us - j->gone_us < KEPT_US;

    return j->gone_seen && young && !o->params->mem_small;
}

void sim_history_gone(struct sim_oracle *o, struct sim_job *j, uint32_t by)
{
    const struct sim_topic *t = &o->model.topics[j->topic];
    struct tr_engine_stat stat;

    tr_engine_stat(o->engine, &stat);
    j->gone_seen = t->policy.p.history != TR_HISTORY_OFF && t->policy_call < o->model.call;
    j->gone_by = by;
    j->gone_noted = stat.history_noted;
    j->gone_us = o->model.now.wall_us;
}

/* Inside `done`: the events are there only now. */
void sim_check_history(struct sim_oracle *o, struct sim_ask *a)
{
    const struct tr_req *q = &a->req;

    for (uint64_t i = 1; i < q->out.number; i++) {
        if (q->out.events[i].at_us < q->out.events[i - 1].at_us) {
            FAIL("I31", "events of job %" PRIu64 " are not in order", q->id);
        }
    }
    a->event_first = q->out.number != 0 ? q->out.events[0] : (struct tr_event){0};
    a->event_last = q->out.number != 0 ? q->out.events[q->out.number - 1] : (struct tr_event){0};
}

void sim_answer_history(struct sim_oracle *o, struct sim_ask *a)
{
    const struct sim_job *j = sim_answer_meant(o, a);

    if (j == NULL || o->queued != 1 || o->each_count != 0) {
        return; /* others of this call may come between */
    }
    if (j->where != SIM_GONE && a->req.out.number < 1000 &&
        (a->event_first.what != TR_EVENT_PUSHED || a->event_first.at_us != j->created_us) &&
        !o->clock_doubt && o->params->event_weight[SIM_EV_CLOCK] == 0) {
        FAIL("I31", "the history of job %" PRIu64 " does not begin with its making", j->id);
    }
    if (a->event_first.what == TR_EVENT_PUSHED && a->req.out.number < 1000 &&
        (a->event_first.at_us > j->created_us ||
         a->event_first.at_us + TR_MADE_EVERY_US <= j->created_us) &&
        !o->clock_doubt && o->params->event_weight[SIM_EV_CLOCK] == 0) {
        FAIL("I31", "job %" PRIu64 " was made at %" PRIu64 ", not at %" PRIu64, j->id,
             j->created_us, a->event_first.at_us);
    }
    if (a->event_first.what == TR_EVENT_PUSHED && a->event_first.actor != 0 && j->made_by != 0 &&
        a->event_first.actor != j->made_by) {
        FAIL("I31", "job %" PRIu64 " is said to be pushed by %u, but %u did", j->id,
             a->event_first.actor, j->made_by);
    }
    if (j->where == SIM_GONE && a->event_last.what == TR_EVENT_GONE && must_know(o, j) &&
        a->event_last.actor != j->gone_by) {
        FAIL("I31", "job %" PRIu64 " is said to be gone by %u, but it was %u", j->id,
             a->event_last.actor, j->gone_by);
    }
    if (j->where != SIM_GONE && a->event_last.what == TR_EVENT_GONE) {
        FAIL("I31", "job %" PRIu64 " is said to be gone", j->id);
    }
    if (j->where == SIM_GONE && a->event_last.what != TR_EVENT_GONE && must_know(o, j)) {
        FAIL("I31", "job %" PRIu64 " is gone, and its history does not end so", j->id);
    }
}

bool sim_history_refused(struct sim_oracle *o, struct sim_ask *a)
{
    const struct sim_job *j = sim_answer_meant(o, a);

    return a->req.out.status == TARRY_ENOTFOUND &&
           (j == NULL || (j->where == SIM_GONE && !must_know(o, j)));
}
