/*
 * What happens to jobs with time: they expire (ttl), and the dead are dropped (dead_keep,
 * dead_max).
 *
 * Nobody is told. The model sees it in the facts at the end of a call, and it must have been
 * possible; in quiet moments it must have happened.
 */
#include "oracle.h"

#include <inttypes.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

static const uint64_t LATE_US = UINT64_C(7200) * 1000000; /* what cannot be read is looked for so */

static const struct tr_policy *policy_of(const struct sim_model *m, const struct sim_job *j)
{
    return &m->topics[j->topic].policy.p;
}

/* ---- ttl ---- */

/* The wall clock from which on it is not handed out any more. */
static uint64_t end_of(const struct sim_job *j)
{
    return j->extra.ttl_us != 0 && j->reserves == 0 ? j->due_us + j->extra.ttl_us : UINT64_MAX;
}

bool sim_expiry_may(const struct sim_model *m, const struct sim_job *j)
{
    return j->where == SIM_PENDING && end_of(j) <= m->wall_high_us;
}

static bool surely_over(const struct sim_oracle *o, const struct sim_job *j)
{
    return j->where == SIM_PENDING && !o->clock_doubt && end_of(j) <= o->model.now.wall_us;
}

void sim_expiry_handed(struct sim_oracle *o, const struct sim_job *j)
{
    if (surely_over(o, j) && !o->reading && !o->read_done) {
        FAIL("I3", "job %" PRIu64 " is handed out %" PRIu64 " us after its time was over", j->id,
             o->model.now.wall_us - end_of(j));
    }
}

void sim_expiry_row(struct sim_oracle *o, struct sim_job *j, const struct sim_row *row)
{
    if (row->dead_seq != 0 && row->dead_why == TR_WHY_EXPIRED && sim_expiry_may(&o->model, j)) {
        sim_fate_die(&o->model, j, TR_WHY_EXPIRED);
        o->model.topics[j->topic].silent_call = o->model.call;
        j->gate = o->call_closed + 1;
    }
}

/* ---- the dead ---- */

static uint64_t dead_of(const struct sim_model *m, unsigned topic, bool surely)
{
    uint64_t count = 0;

    for (size_t i = 0; i < m->job_count; i++) {
        const struct sim_job *j = &m->jobs[i];

        if (j->where != SIM_GONE && j->topic == topic) {
            count += j->where == SIM_DEAD || (!surely && sim_fate_may_be_dead(m, j));
        }
    }
    return count;
}

static bool is_old(const struct sim_model *m, const struct sim_job *j, uint64_t wall_us)
{
    uint64_t keep_us = policy_of(m, j)->dead_keep_us;

    return keep_us < UINT64_MAX - j->dead_at_us && j->dead_at_us + keep_us <= wall_us;
}

void sim_drop_begin(struct sim_model *m)
{
    for (unsigned i = 0; i < m->topic_count; i++) {
        m->topics[i].dead_most =
            m->topics[i].policy.p.dead_max != UINT64_MAX ? dead_of(m, i, false) : 0;
    }
}

bool sim_drop_may(const struct sim_model *m, const struct sim_job *j)
{
    if (j->where != SIM_DEAD && !sim_fate_may_be_dead(m, j)) {
        return false;
    }
    return m->topics[j->topic].policy_call == m->call || j->where != SIM_DEAD ||
           is_old(m, j, m->wall_high_us) ||
           m->topics[j->topic].dead_most > policy_of(m, j)->dead_max;
}

uint64_t sim_drop_count(const struct sim_model *m, int topic)
{
    uint64_t count = 0;

    for (size_t i = 0; i < m->job_count; i++) {
        const struct sim_job *j = &m->jobs[i];

        count += j->where != SIM_GONE && (topic < 0 || j->topic == (unsigned)topic) &&
                 sim_drop_may(m, j);
    }
    return count;
}

/* Both died in the call that drops one: in which order only the facts say, and that one has none.
 */
static bool died_together(const struct sim_model *m, const struct sim_job *gone,
                          const struct sim_job *other)
{
    return gone->same_where != SIM_DEAD && other->same_call == m->call;
}

/* It is not among the facts any more. */
bool sim_drop_gone(struct sim_oracle *o, struct sim_job *j)
{
    struct sim_model *m = &o->model;

    if (!sim_drop_may(m, j)) {
        return false;
    }
    for (size_t i = 0; i < m->job_count; i++) {
        const struct sim_job *other = &m->jobs[i];

        if (other->where == SIM_DEAD && other->topic == j->topic && other->seen_call == m->call &&
            other->dead_order < j->dead_order && !other->damaged && !other->hidden &&
            j->where == SIM_DEAD && !died_together(m, j, other)) {
            FAIL("I6", "job %" PRIu64 " is dropped, but job %" PRIu64 " died earlier", j->id,
                 other->id);
        }
    }
    sim_model_set_where(m, j, SIM_GONE);
    sim_oracle_changed(o, j->topic, o->call_closed + 1);
    return true;
}

/* ---- quiet moments ---- */

void sim_expiry_quiet(struct sim_oracle *o, const struct sim_job *j, bool here, bool late)
{
    uint64_t wall_us = o->model.now.wall_us;
    bool parks = o->params->near_max < 1000000; /* what is parked is over when it comes back */

    if (here && !parks && surely_over(o, j) && (o->next_turn == UINT64_MAX || !late)) {
        FAIL("I1", "job %" PRIu64 " was over %" PRIu64 " us ago, and is not dead", j->id,
             wall_us - end_of(j));
    }
    if (j->where == SIM_DEAD && !j->damaged && !j->hidden && !o->clock_doubt &&
        (o->next_turn == UINT64_MAX ? is_old(&o->model, j, wall_us)
                                    : o->model.now.boot_us > o->opened_boot_us + LATE_US &&
                                          is_old(&o->model, j, wall_us - LATE_US))) {
        FAIL("I1", "job %" PRIu64 " is dead since %" PRIu64 ", and is not dropped", j->id,
             j->dead_at_us);
    }
}

void sim_drop_quiet(struct sim_oracle *o, bool late)
{
    for (unsigned i = 0; i < o->model.topic_count; i++) {
        uint64_t most = o->model.topics[i].policy.p.dead_max;

        if (most != UINT64_MAX && dead_of(&o->model, i, true) > most &&
            (o->next_turn == UINT64_MAX || !late) && !o->rotten) {
            FAIL("I18", "topic %u has %" PRIu64 " dead jobs, its policy allows %" PRIu64, i,
                 dead_of(&o->model, i, true), most);
        }
    }
}
