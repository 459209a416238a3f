/*
 * The test clock, as the model sees it.
 *
 * To the oracle the wall clock is T. The engine says when T is about to move: there one call of it
 * ends and another begins, so within a call time stands still, as ever.
 *
 *     never early      T only goes where somebody has asked it to go, and never back
 *     in order         it never passes a due time or the end of a lease
 *     kept             a start stands where T was seen, or where it was on its way to
 */
#include "oracle.h"

#include "base/err.h"

#include <inttypes.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

struct tr_now sim_tclock_now(struct sim_oracle *o, struct tr_now now)
{
    if (o->params->test_clock) {
        now.wall_us = o->test_us;
    }
    o->model.span_us = o->params->test_clock ? o->test_us : now.boot_us;
    return now;
}

/* They need not come in the order in which they were asked for. */
void sim_tclock_asked(struct sim_oracle *o, const struct sim_ask *a)
{
    if (a->req.op != TR_OP_ADVANCE || a->wrong) {
        return;
    }
    if (a->req.at_us == 0) {
        o->by_us += a->req.delay_us;
    } else if (a->req.at_us > o->target_us) {
        o->target_us = a->req.at_us;
    }
}

/* It may go as far as this. */
static uint64_t farthest(const struct sim_oracle *o)
{
    return (o->target_us > o->test_us ? o->target_us : o->test_us) + o->by_us;
}

struct tr_now sim_tclock_opened(struct sim_oracle *o, struct tr_now now)
{
    struct tr_engine_stat stat;
    bool kept;

    if (!o->params->test_clock) {
        return sim_tclock_now(o, now);
    }
    tr_engine_stat(o->engine, &stat);
    kept = stat.durable_batch != 0; /* the first one says where it stood */
    if (kept && stat.clock_us < o->test_us && o->params->sync == TR_SYNC_ALWAYS) {
        FAIL("I30", "the test clock was at %" PRIu64 ", and a start finds it at %" PRIu64,
             o->test_us, stat.clock_us);
    }
    if (kept && stat.clock_us > farthest(o)) {
        FAIL("I30", "the test clock was to go to %" PRIu64 ", and a start finds it at %" PRIu64,
             farthest(o), stat.clock_us);
    }
    if (!kept && stat.clock_us != now.wall_us) {
        FAIL("I30", "a new test clock stands at %" PRIu64 ", but it is %" PRIu64, stat.clock_us,
             now.wall_us);
    }
    o->test_us = stat.clock_us;
    o->target_us = stat.clock_us;
    o->by_us = 0;
    return sim_tclock_now(o, now);
}

/* Does it pass something? What is in the hands of a damaged disk may be missing. */
static void check_order(struct sim_oracle *o, uint64_t t_us)
{
    bool parks = o->params->near_max < 1000000;

    for (size_t i = 0; i < o->model.job_count && !o->rotten; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (j->where == SIM_PENDING && j->due_us > o->test_us && j->due_us < t_us && !parks &&
            !j->damaged) {
            FAIL("I30",
                 "the test clock goes from %" PRIu64 " to %" PRIu64 ", past job %" PRIu64
                 " due at %" PRIu64,
                 o->test_us, t_us, j->id, j->due_us);
        }
        if (j->where == SIM_RESERVED && !j->doubt && j->lease_hi_us < t_us) {
            FAIL("I30",
                 "the test clock goes from %" PRIu64 " to %" PRIu64
                 ", past the lease of job %" PRIu64 ", which ends at %" PRIu64,
                 o->test_us, t_us, j->id, j->lease_hi_us);
        }
    }
}

void sim_tclock_moves(struct sim_oracle *o, uint64_t t_us, struct tr_now now)
{
    if (o->trace) {
        printf("test clock: %" PRIu64 "\n", t_us);
    }
    if (t_us <= o->test_us || t_us > farthest(o)) {
        FAIL("I30",
             "the test clock goes from %" PRIu64 " to %" PRIu64
             ", the farthest asked for is %" PRIu64,
             o->test_us, t_us, farthest(o));
    }
    sim_oracle_end(o);
    sim_check_leases(o);
    sim_check_settled(o);
    check_order(o, t_us);
    o->test_us = t_us;
    sim_oracle_begin(o, now);
}

void sim_answer_advance(struct sim_oracle *o, struct sim_ask *a)
{
    const struct tr_req *q = &a->req;
    uint64_t least = q->at_us != 0 ? q->at_us : a->submit_now.wall_us + q->delay_us;

    if (o->test_us < least || q->out.number != o->test_us) {
        FAIL("I30",
             "the test clock was to go to %" PRIu64 ", is said to be at %" PRIu64
             ", and is at %" PRIu64,
             least, q->out.number, o->test_us);
    }
    o->by_us -= q->at_us == 0 ? q->delay_us : 0;
    if (q->at_us != 0 && o->test_us != q->at_us) {
        FAIL("I30", "the test clock went too far: %" PRIu64, o->test_us);
    }
}

bool sim_tclock_refused(const struct sim_oracle *o, const struct sim_ask *a)
{
    return a->req.out.status == TARRY_ESTATE && a->req.at_us != 0 && a->req.at_us < o->test_us &&
           a->req.out.number == o->test_us;
}
