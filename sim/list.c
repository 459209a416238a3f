/*
 * Is a page of a list what the model would have listed?
 *
 * What the page shows must be there, match, and stand in order behind the cursor. What the model
 * knows for certain to match must be in the page, if it lies before its end. In which state a job
 * is may be in doubt; then it must be there if each state that it may be in is wanted.
 */
#include "oracle.h"

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

bool sim_list_about(const struct sim_ask *a, const struct sim_job *j)
{
    const struct tr_filter *f = &a->req.filter;

    return (a->req.topic == 0 || j->topic == a->topic) &&
           (f->tag_len == 0 ||
            sim_body_hash((const uint8_t *)f->tag, (uint32_t)f->tag_len) == j->extra.tag);
}

bool sim_list_kicked(const struct sim_oracle *o, const struct sim_ask *a, uint64_t call)
{
    for (unsigned i = 0; i < o->model.topic_count; i++) {
        const struct sim_topic *t = &o->model.topics[i];

        if ((a->req.topic == 0 || i == a->topic) && (t->kicking != 0 || t->kick_call >= call)) {
            return true;
        }
    }
    return false;
}

/* Is it wanted, whatever state it is in? */
static bool surely_wanted(const struct sim_oracle *o, const struct tr_filter *f,
                          const struct sim_job *j)
{
    if (j->where == SIM_DEAD) {
        return wants(f, TR_DEAD);
    }
    if (!sim_job_is_ready(j) && sim_job_may_be_pending(&o->model, j) && !wants(f, TR_DELAYED)) {
        return false;
    }
    if (sim_job_may_be_ready(&o->model, j) && !wants(f, TR_READY)) {
        return false;
    }
    return wants(f, TR_RESERVED) || !(sim_job_may_be_reserved(j) || sim_oracle_limbo(o, j->topic));
}

/* Does (due, id), or any dead one, come behind the cursor? */
static bool behind(const struct tr_cursor *c, const struct sim_job *j)
{
    if (c->dead || j->where == SIM_DEAD) {
        return j->where == SIM_DEAD;
    }
    return c->at != j->due_us ? c->at < j->due_us : c->id < j->id;
}

static bool is_listed(const struct sim_oracle *o, const struct sim_ask *a, const struct sim_job *j)
{
    for (uint64_t i = 0; i < a->req.out.number; i++) {
        if (o->listed[a->client][i].id == j->id) {
            return true;
        }
    }
    return false;
}

/* Was it what it is before the list began? Else its lease ran out meanwhile, perhaps, and its
 * backoff says when it is due. */
static bool stayed(const struct sim_oracle *o, const struct sim_ask *a, const struct sim_job *j)
{
    bool lost = j->lease != 0 && o->model.span_us >= j->lease_lo_us;

    return !lost && j->loose_call < a->submit_call && j->same_call != 0 &&
           j->same_call < a->submit_call && j->same_where == j->where &&
           j->same_due_us == j->due_us;
}

static void check_missing(struct sim_oracle *o, const struct sim_ask *a, uint64_t last_dead)
{
    const struct tr_cursor *end = &a->req.out.cursor;

    if ((a->req.topic == 0 || a->req.filter.tag_len != 0) && a->req.out.damaged) {
        return; /* it goes through the runs themselves, and says that there may be more */
    }
    for (size_t i = 0; i < o->model.job_count; i++) {
        const struct sim_job *j = &o->model.jobs[i];
        bool inside = j->where == SIM_DEAD
                          ? !a->req.cursor.dead &&
                                (!end->more || (a->req.topic != 0 && j->dead_order < last_dead))
                          : behind(&a->req.cursor, j) && (!end->more || !behind(end, j));

        if (j->id != 0 && j->where != SIM_GONE && sim_list_about(a, j) && inside && !j->damaged &&
            !j->hidden && !sim_fate_may_be_dead(&o->model, j) && !sim_drop_may(&o->model, j) &&
            due_fits(&a->req.filter, j->due_us) && surely_wanted(o, &a->req.filter, j) &&
            !sim_answer_is_being_reserved(o, j) && stayed(o, a, j) && !is_listed(o, a, j)) {
            FAIL("I29", "list leaves out job %" PRIu64 ", due %" PRIu64, j->id, j->due_us);
        }
    }
}

/* One job of the page. */
static void check_listed(struct sim_oracle *o, struct sim_ask *a, const struct tr_job_view *v,
                         const struct tr_job_view *last)
{
    struct sim_job *j = sim_model_find(&o->model, v->id);
    const struct sim_job *prev = last != NULL ? sim_model_find(&o->model, last->id) : NULL;
    bool dead = v->state == TR_DEAD;
    /* One that died in this very call has no place yet. */
    bool known = j != NULL && prev != NULL && j->where == SIM_DEAD && prev->where == SIM_DEAD &&
                 o->model.topics[j->topic].silent_call != o->model.call;
    bool later =
        last != NULL &&
        (last->dead_at_us != v->dead_at_us ? last->dead_at_us < v->dead_at_us : last->id < v->id);
    bool after =
        last == NULL ||
        (dead ? last->state != TR_DEAD || !known || v->damaged || last->damaged ||
                    (a->req.topic == 0 ? later : prev->dead_order < j->dead_order)
              : last->state != TR_DEAD &&
                    (last->due_us != v->due_us ? last->due_us < v->due_us : last->id < v->id));

    if (j == NULL || j->where == SIM_GONE || !sim_list_about(a, j)) {
        FAIL("I3", "list shows job %" PRIu64 ", which is not there", v->id);
        return;
    }
    a->req.out.job = *v;
    a->job_key = (uint32_t)v->key_len; /* its number */
    a->job_extra = o->listed_extra[a->client][v - o->listed[a->client]];
    sim_answer_state(o, a, j, v->state);
    if (!v->damaged) {
        sim_answer_fields(o, a, j);
    } else if (!o->damage) {
        FAIL("I15", "list says that job %" PRIu64 " cannot be read", v->id);
    }
    if (!wants(&a->req.filter, v->state) || !due_fits(&a->req.filter, v->due_us) ||
        (!dead && (a->req.cursor.dead || !behind(&a->req.cursor, j)))) {
        FAIL("I29", "list shows job %" PRIu64 ", which was not asked for", v->id);
    }
    if (!after) {
        FAIL("I29", "list shows job %" PRIu64 " out of order", v->id);
    }
}

void sim_answer_list(struct sim_oracle *o, struct sim_ask *a)
{
    const struct sim_topic *t = &o->model.topics[a->topic]; /* perhaps another one by now */
    const struct tr_job_view *page = o->listed[a->client];
    uint64_t last_dead = 0;

    if (a->req.out.number > a->req.count) {
        FAIL("I29", "list shows %" PRIu64 " jobs", a->req.out.number);
        return;
    }
    for (uint64_t i = 0; i < a->req.out.number && !o->report->failed; i++) {
        const struct sim_job *j = sim_model_find(&o->model, page[i].id);

        check_listed(o, a, &page[i], i > 0 ? &page[i - 1] : NULL);
        last_dead = j != NULL && j->where == SIM_DEAD ? j->dead_order : last_dead;
    }
    if ((a->req.topic == 0 || a->req.topic == t->number) && !sim_list_kicked(o, a, o->model.call) &&
        !o->report->failed) {
        check_missing(o, a, last_dead);
    }
    sim_answer_seen(o, a, a->req.topic == 0 ? o->model.gate : t->gate);
}
