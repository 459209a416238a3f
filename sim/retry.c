/*
 * Jobs that come back unfinished: released, buried, returned, or their lease ran out.
 */
#include "oracle.h"

#include "base/err.h"

#include <inttypes.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

/* It waits for as long as the backoff says. */
static void check_backoff(struct sim_oracle *o, const struct sim_job *j, uint64_t from_us,
                          uint64_t due_us, uint64_t delay_us)
{
    uint64_t now_us = o->model.now.wall_us;
    uint64_t least;
    uint64_t most;

    sim_fate_backoff(&o->model, j, &least, &most);
    if (delay_us < least || delay_us > most) {
        FAIL("I4",
             "job %" PRIu64 " waits for %" PRIu64 " us, its backoff is %" PRIu64 " to %" PRIu64,
             j->id, delay_us, least, most);
    } else if (delay_us != 0 && due_us != from_us + delay_us && due_us != now_us &&
               !o->clock_doubt) {
        FAIL("I4",
             "job %" PRIu64 " waits for %" PRIu64 " us, but is due at %" PRIu64 ", not %" PRIu64,
             j->id, delay_us, due_us, from_us + delay_us);
    }
}

static void released(struct sim_oracle *o, struct sim_ask *a, struct sim_job *j)
{
    const struct tr_job_view *v = &a->req.out.job;

    if (v->state == TR_DEAD) {
        FAIL("I6", "release of job %" PRIu64 " makes it dead after attempt %" PRIu32, j->id,
             j->reserves);
    }
    if (!a->req.by_backoff) {
        j->delay_us = a->req.delay_us;
        if (a->req.delay_us != 0) {
            sim_answer_due(o, a, v->due_us);
            j->due_us = v->due_us;
            j->own_word = false;
        }
    } else if (!(o->params->mem_small && v->due_us == j->due_us && v->delay_us == j->delay_us)) {
        check_backoff(o, j, a->submit_now.wall_us, v->due_us, v->delay_us);
        j->delay_us = v->delay_us;
        if (v->delay_us != 0) {
            j->due_us = v->due_us;
            j->own_word = false;
        }
    }
    sim_answer_pending(o, j);
}

void sim_answer_release(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_named(o, a);

    if (j == NULL || !sim_answer_holder(o, a, j)) {
        return;
    }
    j->priority = a->req.keep_priority ? j->priority : a->req.priority;
    j->releases++;
    if (sim_fate_was_last(j)) {
        if (a->req.out.job.state != TR_DEAD) {
            FAIL("I6", "release of job %" PRIu64 " after its last attempt leaves it in state %d",
                 j->id, (int)a->req.out.job.state);
        }
        j->buries++;
        sim_fate_die(&o->model, j, TR_WHY_RETRIES);
    } else {
        released(o, a, j);
    }
    sim_answer_change(o, a, j);
}

void sim_answer_return(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_named(o, a);

    if (j != NULL && sim_answer_holder(o, a, j)) {
        j->reserves--;
        sim_limit_returned(o, j);
        sim_answer_pending(o, j);
    }
}

/* By force only what nobody holds is buried. */
static bool nobody_holds(struct sim_oracle *o, const struct sim_ask *a, struct sim_job *j)
{
    if (j->where == SIM_DEAD || sim_job_is_reserved(&o->model, j)) {
        FAIL("I6", "job %" PRIu64 " was buried by force, but it is %s", j->id,
             j->where == SIM_DEAD ? "dead" : "reserved");
    }
    if (j->where == SIM_RESERVED) {
        sim_job_expire(&o->model, j, !j->doubt);
    }
    sim_fate_adopt(&o->model, j, &a->req.out.job); /* its lease may have run out in this call */
    return true;
}

void sim_answer_bury(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_answer_named(o, a);

    if (j == NULL || !(a->req.force ? nobody_holds(o, a, j) : sim_answer_holder(o, a, j))) {
        return;
    }
    j->priority = a->req.keep_priority ? j->priority : a->req.priority;
    j->buries++;
    sim_fate_die(&o->model, j, TR_WHY_BURIED);
    sim_answer_change(o, a, j);
}

/* Its lease ran out in this call, as the model has just learned. */
void sim_check_back(struct sim_oracle *o, struct sim_job *j, const struct sim_row *row)
{
    if (j->where != SIM_PENDING || j->loose_call != o->model.call) {
        return;
    }
    j->loose_call = 0;
    if (row->unread || (row->due_us == j->due_us && row->delay_us == j->delay_us &&
                        row->dead_seq == 0 && o->params->mem_small)) {
        return; /* no memory to wait: it is ready */
    }
    if (row->dead_seq != 0 && j->damaged) {
        sim_fate_die(&o->model, j, TR_WHY_RETRIES);
        return;
    }
    if (!j->damaged) {
        check_backoff(o, j, o->model.now.wall_us, row->due_us, row->delay_us);
    }
    if (row->due_us != j->due_us) {
        j->gate = o->call_closed + 1;
    }
    j->due_us = row->due_us;
    j->delay_us = row->delay_us;
    j->own_word = false;
}
