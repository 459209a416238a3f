/*
 * Bulks and purges. Of a bulk each change is told when it happens, so the model follows at once;
 * the end says how many.
 *
 * A job that was delayed or dead all the time must have been met. Whether it was is known if
 * nothing else changed in the topic since the bulk began.
 */
#include "oracle.h"

#include "base/err.h"

#include <inttypes.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

static bool wants(const struct tr_filter *f, enum tr_job_state state)
{
    return f->states == 0 || (f->states & 1U << state) != 0;
}

static bool due_fits(const struct tr_filter *f, uint64_t due_us)
{
    return due_us >= f->due_from_us && (f->due_to_us == 0 || due_us < f->due_to_us);
}

/* A KICK is judged by what is there when the call has ended: until then it may have another due
 * time than the model thinks. */
static bool kicks(const struct sim_oracle *o, const struct sim_job *j)
{
    const struct sim_topic *t = &o->model.topics[j->topic];

    return t->kicking != 0 || t->kick_call == o->model.call;
}

static void check_shifted(struct sim_oracle *o, const struct sim_ask *a, const struct sim_job *j,
                          uint64_t due_us)
{
    uint64_t want = a->req.at_us != 0 ? a->req.at_us : j->due_us + (uint64_t)a->req.shift_us;
    bool past = want <= o->model.wall_high_us;

    if (kicks(o, j)) {
        return;
    }
    if (due_us != want && !(past && due_us <= o->model.wall_high_us)) {
        FAIL("I5", "bulk shifts job %" PRIu64 " by %" PRId64 " from %" PRIu64 " to %" PRIu64, j->id,
             a->req.shift_us, j->due_us, due_us);
    }
}

void sim_answer_each(struct sim_oracle *o, const struct sim_each *each)
{
    struct sim_ask *a = each->ask;
    struct sim_job *j = sim_model_find(&o->model, each->job.id);
    bool came_back;
    uint64_t call;

    if (j == NULL || j->where == SIM_GONE || !sim_list_about(a, j) || a->req.dry_run) {
        FAIL("I3", "bulk changes job %" PRIu64 ", which is not there", each->job.id);
        return;
    }
    if (sim_job_is_reserved(&o->model, j) || /* when its lease ends it gets a due time */
        (j->where != SIM_RESERVED && !kicks(o, j) && !due_fits(&a->req.filter, j->due_us))) {
        FAIL("I29", "bulk changes job %" PRIu64 ", which it is not about", j->id);
    }
    if (j->where == SIM_RESERVED) {
        sim_job_expire(&o->model, j, !j->doubt);
    }
    came_back = j->loose_call == o->model.call;
    if (came_back) { /* it came back in this call, and then was changed */
        j->delay_us = each->job.delay_us;
        j->due_us = a->req.bulk == TR_BULK_SHIFT ? each->job.due_us : j->due_us;
        j->loose_call = 0;
    }
    if (j->bulk_call == a->submit_call * SIM_ASKS_MAX + a->client) {
        FAIL("I5", "bulk changes job %" PRIu64 " twice", j->id);
    }
    j->bulk_call = a->submit_call * SIM_ASKS_MAX + a->client;
    a->changed++;
    switch (a->req.bulk) {
    case TR_BULK_SHIFT:
        if (!came_back) {
            check_shifted(o, a, j, each->job.due_us);
        }
        sim_model_set_where(&o->model, j, SIM_PENDING);
        j->due_us = each->job.due_us;
        j->own_word = false;
        break;
    case TR_BULK_KICK:
        sim_fate_kicked(j, false);
        sim_job_woken(&o->model, j, each->job.due_us);
        j->kicks++;
        break;
    default:
        sim_history_gone(o, j, each->ask->req.actor);
        sim_model_set_where(&o->model, j, SIM_GONE);
        break;
    }
    j->gate = each->gate;
    call = o->model.topics[j->topic].changed_call;
    sim_oracle_changed(o, j->topic, each->gate);
    o->model.topics[j->topic].changed_call = call;
}

/* Must it have been met? */
static bool surely_meant(const struct sim_oracle *o, const struct sim_ask *a,
                         const struct sim_job *j)
{
    if (j->id == 0 || sim_drop_may(&o->model, j) || j->id >= a->req.out.cursor.at ||
        j->rid >= a->req.out.cursor.at || !sim_list_about(a, j) || j->damaged || j->hidden ||
        !due_fits(&a->req.filter, j->due_us)) {
        return false;
    }
    if (j->same_call == 0 || j->same_call >= a->submit_call || j->same_where != j->where ||
        j->same_due_us != j->due_us) {
        return false; /* a lease ran out meanwhile, perhaps */
    }
    return (j->where == SIM_DEAD && wants(&a->req.filter, TR_DEAD) &&
            a->req.bulk != TR_BULK_SHIFT) ||
           (sim_job_is_delayed(&o->model, j) && wants(&a->req.filter, TR_DELAYED) &&
            !sim_oracle_limbo(o, j->topic));
}

/* Nothing else has changed what it is about. */
static bool is_alone(const struct sim_oracle *o, const struct sim_ask *a)
{
    for (unsigned i = 0; i < o->model.topic_count; i++) {
        const struct sim_topic *t = &o->model.topics[i];

        if ((a->req.topic == 0 || i == a->topic) &&
            (t->changed_call >= a->submit_call ||
             (a->req.topic != 0 && a->req.topic != t->number))) {
            return false;
        }
    }
    return !sim_list_kicked(o, a, a->submit_call);
}

void sim_answer_bulk(struct sim_oracle *o, struct sim_ask *a)
{
    const struct sim_topic *t = &o->model.topics[a->topic];
    bool reads = a->req.topic == 0 || a->req.filter.tag_len != 0; /* blocks, not only the index */
    bool damaged = reads && a->req.out.damaged; /* it says that there may be more */
    bool alone = is_alone(o, a) && !damaged;
    uint64_t meant = 0;

    for (size_t i = 0; i < o->model.job_count && alone && !a->req.out.cursor.more; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        if (!surely_meant(o, a, j)) {
            continue;
        }
        meant++;
        if (!a->req.dry_run && a->req.bulk != TR_BULK_SHIFT) {
            FAIL("I29", "bulk %d leaves out job %" PRIu64, (int)a->req.bulk, j->id);
        }
    }
    if (!a->req.dry_run && a->changed != a->req.out.number) {
        FAIL("I16", "bulk says %" PRIu64 ", but changed %" PRIu64, a->req.out.number, a->changed);
    }
    if (meant > a->req.out.number) {
        FAIL("I29", "bulk says %" PRIu64 ", but there are %" PRIu64, a->req.out.number, meant);
    }
    sim_answer_seen(o, a, a->req.topic == 0 ? o->model.gate : t->gate);
}

/* All that the topic had is gone, whoever holds it. */
void sim_answer_purge(struct sim_oracle *o, struct sim_ask *a)
{
    uint64_t dropped = sim_drop_count(&o->model, (int)a->topic); /* perhaps */
    uint64_t number = 0;

    for (size_t i = 0; i < o->model.job_count; i++) {
        struct sim_job *j = &o->model.jobs[i];

        if (j->where != SIM_GONE && j->topic == a->topic) {
            number++;
            sim_model_set_where(&o->model, j, SIM_GONE);
            sim_answer_change(o, a, j);
        }
    }
    if (number < a->req.out.number || number > a->req.out.number + dropped) {
        FAIL("I23", "purge says %" PRIu64 ", but there were %" PRIu64, a->req.out.number, number);
    }
    sim_answer_seen(o, a, o->model.topics[a->topic].gate);
}
