/*
 * Answers in which keys matter: pushes, and which job a request means.
 *
 * A key is free or belongs to one live job of its topic, dead ones included (I17); the model knows
 * which at the moment of every answer, since jobs come and go by answers alone.
 */
#include "oracle.h"

#include "base/err.h"

#include <inttypes.h>

#define FAIL(promise, ...) sim_fail(o->report, promise, __VA_ARGS__)

struct sim_job *sim_answer_meant(struct sim_oracle *o, const struct sim_ask *a)
{
    uint32_t number = o->model.topics[a->topic].number;

    if (a->key == 0) {
        return sim_model_find(&o->model, a->req.id);
    }
    if (number != 0 && number != a->req.topic) {
        return NULL; /* the topic was gone meanwhile, and is another one now */
    }
    return sim_model_find_key(&o->model, a->topic, a->key);
}

/* What a push asks for, but for the topic. */
static void take_fields(struct sim_oracle *o, const struct sim_ask *a, struct sim_job *j)
{
    const struct tr_job_view *v = &a->req.out.job;
    struct tr_req fixed = sim_push_fixed(&o->model, a);

    sim_fate_learn(&o->model, &fixed);
    j->priority = a->req.priority;
    j->ttr_us = fixed.ttr_us;
    j->extra = sim_extra_of_push(&fixed);
    j->body = (struct sim_body){.seed = a->body_seed, .len = (uint32_t)a->req.body_len};
    j->body.hash = sim_body_hash(a->req.body, j->body.len);
    sim_answer_due(o, a, v->due_us);
    j->due_us = v->due_us;
    j->delay_us = v->delay_us;
}

static void replaced(struct sim_oracle *o, struct sim_ask *a, struct sim_job *j)
{
    if (sim_job_is_reserved(&o->model, j)) {
        FAIL("I5", "job %" PRIu64 " was replaced, but it is reserved", j->id);
    }
    take_fields(o, a, j);
    j->reserves = 0;
    j->timeouts = 0;
    j->releases = 0;
    j->buries = 0;
    j->kicks = 0;
    j->own_word = false;
    j->late_close = false;
    j->damaged = false;
    sim_answer_pending(o, j);
    sim_answer_fields(o, a, j);
    sim_answer_change(o, a, j);
}

static void pushed_again(struct sim_oracle *o, struct sim_ask *a, struct sim_job *j)
{
    if (j == NULL || j->id != a->req.out.job.id) {
        FAIL("I17", "push finds key %u with job %" PRIu64 ", but job %" PRIu64 " has it", a->key,
             a->req.out.job.id, j != NULL ? j->id : 0);
    } else if (a->req.conflict == TR_CONFLICT_REPLACE) {
        replaced(o, a, j);
    } else if (a->req.conflict == TR_CONFLICT_KEEP) {
        sim_answer_state(o, a, j, a->req.out.job.state);
        sim_answer_fields(o, a, j);
        sim_answer_seen(o, a, j->gate);
    } else {
        FAIL("I17", "push with key %u succeeds, but job %" PRIu64 " has it", a->key, j->id);
    }
}

/* Would the body that is asked for, in the place of old's, be too much? */
static bool over_max_bytes(const struct sim_oracle *o, const struct sim_ask *a, unsigned topic,
                           const struct sim_job *old)
{
    uint64_t max = o->model.topics[topic].policy.p.max_bytes;
    uint64_t less = old != NULL ? old->body.len : 0;

    return max != UINT64_MAX && sim_topic_bytes(&o->model, topic) - less + a->req.body_len > max;
}

/* A push says whether it has found its key. If it has not, though a job has it here, that one was
 * dropped in the same call, and there is one job less. */
static bool push_over_quota(struct sim_oracle *o, const struct sim_ask *a)
{
    struct sim_job *old = sim_model_find_key(&o->model, a->topic, a->key);

    if (a->req.out.existed) {
        return old != NULL && a->req.conflict == TR_CONFLICT_REPLACE &&
               over_max_bytes(o, a, a->topic, old);
    }
    return (old == NULL || sim_drop_gone(o, old)) &&
           (sim_topic_jobs(&o->model, a->topic) >= o->model.topics[a->topic].policy.p.max_jobs ||
            over_max_bytes(o, a, a->topic, NULL));
}

bool sim_answer_over_quota(struct sim_oracle *o, const struct sim_ask *a)
{
    const struct sim_job *old;

    if (a->req.op == TR_OP_PUSH) {
        return push_over_quota(o, a);
    }
    old = a->req.op == TR_OP_EDIT ? sim_answer_meant(o, a) : NULL;
    return old != NULL && over_max_bytes(o, a, old->topic, old);
}

void sim_answer_fits(struct sim_oracle *o, const struct sim_ask *a, const struct sim_job *old)
{
    unsigned topic = old != NULL ? old->topic : a->topic;
    uint64_t bytes = a->req.body_len;

    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];

        bytes += j->where != SIM_GONE && j->topic == topic && j != old &&
                         !sim_drop_may(&o->model, j) /* else it may be gone, unseen */
                     ? j->body.len
                     : 0;
    }
    if (bytes > o->model.topics[topic].policy.p.max_bytes &&
        a->req.body_len > (old != NULL ? old->body.len : 0)) {
        FAIL("I13", "%s succeeds, but topic %s has enough bytes", sim_op_name(a->req.op),
             o->model.topics[topic].name);
    }
}

/* May it come into the topic? */
static void check_admitted(struct sim_oracle *o, const struct sim_ask *a)
{
    const struct sim_topic *t = &o->model.topics[a->topic];

    if (sim_topic_takes_none(&o->model, a->topic)) {
        FAIL("I13", "push succeeds, but topic %s takes none", t->name);
    }
    if (!a->req.out.existed &&
        sim_topic_jobs(&o->model, a->topic) - sim_drop_count(&o->model, (int)a->topic) >=
            t->policy.p.max_jobs) {
        FAIL("I13", "push succeeds, but topic %s has enough", t->name);
    }
    sim_answer_fits(o, a,
                    a->req.out.existed ? sim_model_find_key(&o->model, a->topic, a->key) : NULL);
}

void sim_answer_push(struct sim_oracle *o, struct sim_ask *a)
{
    const struct tr_job_view *v = &a->req.out.job;
    struct sim_job *j = sim_model_find_key(&o->model, a->topic, a->key);

    if (!a->req.out.existed || a->req.conflict == TR_CONFLICT_REPLACE) {
        check_admitted(o, a);
    }
    if (a->req.out.existed) {
        pushed_again(o, a, j);
        return;
    }
    if (j != NULL && !sim_drop_gone(o, j)) {
        FAIL("I17", "push with key %u made job %" PRIu64 ", but job %" PRIu64 " has it", a->key,
             v->id, j->id);
    }
    j = sim_model_find(&o->model, v->id);
    if (j != NULL && (j->where != SIM_GONE || j->told)) {
        FAIL("I6", "push gives id %" PRIu64 " for the second time", v->id);
        return;
    }
    if (j != NULL) {
        sim_model_forget(&o->model, j);
    }
    if (v->id == 0 || v->id <= o->id_told) {
        FAIL("I6", "push gives id %" PRIu64 " after %" PRIu64, v->id, o->id_told);
    }
    j = sim_model_add(&o->model, v->id);
    if (j == NULL) {
        FAIL("sim", "too many jobs for the model");
        return;
    }
    j->topic = a->topic;
    j->key = a->key;
    take_fields(o, a, j);
    j->created_us = v->created_us;
    j->made_by = a->req.actor;
    if (v->created_us != o->model.now.wall_us && !o->clock_doubt) {
        FAIL("I7", "push of job %" PRIu64 " was made at another time", v->id);
    }
    j->push_gate = a->req.out.gate;
    sim_answer_pending(o, j);
    sim_answer_fields(o, a, j);
    sim_answer_change(o, a, j);
}

bool sim_answer_push_refused(struct sim_oracle *o, struct sim_ask *a)
{
    struct sim_job *j = sim_model_find_key(&o->model, a->topic, a->key);
    const struct tr_job_view *v = &a->req.out.job;

    if (j == NULL || !a->req.out.existed || v->id != j->id) {
        return false;
    }
    sim_answer_state(o, a, j, v->state);
    sim_answer_fields(o, a, j);
    sim_answer_seen(o, a, j->gate);
    return a->req.out.status == TARRY_EEXISTS
               ? a->req.conflict == TR_CONFLICT_ERROR
               : a->req.conflict == TR_CONFLICT_REPLACE && v->state == TR_RESERVED;
}
