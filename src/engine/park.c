/*
 * Topics with more due jobs than memory is for: they are parked.
 *
 *     due times of one topic, all before the horizon
 *
 *     in memory                      | far, in slots and runs
 *     o o o o o o o o o o o o o o o  | . . . . . . . . . . . . . . . . . . .
 *                                    ^ edge: no far one comes before it
 *     taken by consumers ->                    refill: the next ones by (due, id)
 *
 * A topic at its quota (topic.c) is parked by whoever brings the next job: a record that gets its
 * place, or the sweep. From then on its jobs behind the edge leave memory as soon as their record
 * has a place, due or not, and the sweep passes them over; so neither the horizon nor anybody
 * else's jobs wait for them. When half of the quota is free, the topic is hungry, and a refill
 * (refill.c) takes its next ones, after which the edge is the first that was left, or the topic is
 * not parked any more.
 *
 * Crowded. Jobs that come before the edge stay in memory, or they would be late. When they fill the
 * quota the edge comes nearer, half of the way to now, and what lies behind it is sent away, in
 * slices; also after a sweep, which loads in no order. When the edge is past, there is nothing left
 * to send but jobs that were released or lie in the past: they stay. So do all if there is no
 * memory to send one; the next one that gets its place crowds the topic again.
 *
 * Counts. How many of a topic's far jobs are due is not known, since nothing looks at them. Who
 * asks for statistics of a parked topic has them counted, at most once a second: those in slots one
 * by one, those in runs by the fences of the index, which are in memory: exact if all or none of a
 * group's are due, else to some hundred.
 *
 * Whatever happens, nothing is forgotten (R32): a far job that is due before the horizon belongs to
 * a parked topic and is not before its edge, or the sweep will come back for it.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

enum { LEAVE_UNITS = 2, STEP_US = 1000, COUNT_US = 1000000 };

bool tr_edge_before(struct tr_edge a, struct tr_edge b)
{
    return a.due_us != b.due_us ? a.due_us < b.due_us : a.id < b.id;
}

static struct tr_edge edge_of(const struct tr_job *job)
{
    return (struct tr_edge){job->due_us, job->id};
}

/* ---- parking ---- */

static void crowd(struct tr_engine *e, struct tr_topic *t)
{
    t->crowded = true;
    t->stayed = false;
    if (tr_list_empty(&t->in_crowd)) {
        tr_list_append(&e->state.topics.crowded, &t->in_crowd);
    }
}

void tr_park_set_edge(struct tr_engine *e, struct tr_topic *t, struct tr_edge edge)
{
    tr_wheel_disarm(&e->edges, &t->edge_timer);
    t->edge = edge;
    if (edge.due_us > e->clock.t_us) {
        tr_wheel_arm(&e->edges, &t->edge_timer, edge.due_us);
    }
}

/* The edge comes nearer. False: it is past. */
static bool come_nearer(struct tr_engine *e, struct tr_topic *t)
{
    uint64_t now = e->clock.t_us;
    uint64_t left_us = t->edge.due_us > now ? t->edge.due_us - now : 0;

    if (left_us == 0) {
        return false;
    }
    tr_park_set_edge(e, t, (struct tr_edge){.due_us = left_us < STEP_US ? now : now + left_us / 2});
    return true;
}

void tr_park_note(struct tr_engine *e, struct tr_topic *t, struct tr_edge far)
{
    if (t->purged) {
        return;
    }
    if (!t->parked) {
        tr_topic_park(t);
        tr_park_set_edge(e, t, far);
    } else if (tr_edge_before(far, t->edge)) {
        tr_park_set_edge(e, t, far);
    }
    if (e->refill.topic == t->number) {
        tr_refill_note(e, far);
    }
    tr_topic_note_need(t);
}

void tr_park_end(struct tr_engine *e, struct tr_topic *t)
{
    tr_wheel_disarm(&e->edges, &t->edge_timer);
    if (t->parked) {
        t->parked_us = e->clock.t_us;
    }
    tr_topic_unpark(t);
}

/* At its quota: jobs behind the edge leave. If most are ready, that is `last`, the next one. */
static void park(struct tr_engine *e, struct tr_topic *t, struct tr_edge last)
{
    tr_park_note(e, t, (struct tr_edge){.due_us = e->load.horizon_us});
    if (t->count[TR_DELAYED] >= t->count[TR_READY]) {
        (void)come_nearer(e, t);
    } else {
        tr_park_note(e, t, last);
    }
    crowd(e, t);
}

void tr_park_placed(struct tr_engine *e, const struct tr_job *job)
{
    struct tr_topic *t = job->topic;

    if (TR_MUTANT(NEVER_PARKED) || t->purged ||
        (job->due_us >= e->load.horizon_us && job->due_us > e->clock.t_us) ||
        !tr_topic_full(t, job->priority)) {
        return;
    }
    if (!t->parked) {
        park(e, t, edge_of(job));
    } else if (t->stayed) {
        crowd(e, t);
    } else if (!t->crowded && tr_edge_before(edge_of(job), t->edge)) {
        if (!come_nearer(e, t) && tr_topic_near(t) > tr_topic_quota(t)) {
            tr_park_set_edge(e, t, edge_of(job));
        }
        crowd(e, t);
    }
}

bool tr_park_behind(const struct tr_job *job)
{
    return job->topic->parked && !tr_edge_before(edge_of(job), job->topic->edge);
}

bool tr_park_away(const struct tr_job *job)
{
    const struct tr_topic *t = job->topic;

    return tr_park_behind(job) &&
           (job->priority >= TR_URGENT || t->crowded || tr_topic_near(t) > tr_topic_quota(t));
}

bool tr_park_leave(struct tr_engine *e, uint32_t topic, struct tr_edge far)
{
    struct tr_topic *t = tr_topics_by_number(&e->state.topics, topic);
    bool before;

    if (t == NULL) {
        return false;
    }
    if (t->purged) {
        return true; /* it is cleared away where it is */
    }
    before = !t->parked || tr_edge_before(far, t->edge);
    if (before && !tr_topic_full(t, UINT32_MAX)) {
        return false;
    }
    if (!t->parked) {
        park(e, t, far);
    } else if (before) {
        crowd(e, t); /* it is in a run that nobody has looked into since the start */
    }
    tr_park_note(e, t, far); /* also a refill that is under way must know */
    return true;
}

void tr_park_met(const struct tr_job *job)
{
    struct tr_topic *t = job->topic;

    if (t->purged) {
        return;
    }
    if (!t->parked) {
        tr_topic_park(t);
        t->edge = edge_of(job);
    } else if (tr_edge_before(edge_of(job), t->edge)) {
        t->edge = edge_of(job);
    }
}

void tr_park_begin(struct tr_engine *e)
{
    struct tr_topics *ts = &e->state.topics;

    for (struct tr_list *n = ts->parked.next; n != &ts->parked; n = n->next) {
        struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, in_parked);

        tr_park_set_edge(e, t, t->edge);
        crowd(e, t);
        tr_topic_note_need(t);
    }
}

/* ---- crowds ---- */

/* A slice of what is to leave. TARRY_EFULL: there is more; TARRY_ENOMEM: nothing can. */
static int leave(struct tr_engine *e, struct tr_topic *t)
{
    if (t->leaving == NULL) {
        t->leaving_ready = false;
        t->leaving = t->by_state[TR_DELAYED].next;
    }
    for (;;) {
        struct tr_list *head = &t->by_state[t->leaving_ready ? TR_READY : TR_DELAYED];

        while (t->leaving != head) {
            struct tr_job *job = TR_CONTAINER_OF(t->leaving, struct tr_job, link);

            if (!tr_engine_charge(e, LEAVE_UNITS)) {
                return TARRY_EFULL;
            }
            t->leaving = t->leaving->next;
            if (!tr_load_send_far(e, job)) {
                t->leaving = NULL;
                return TARRY_ENOMEM;
            }
        }
        if (t->leaving_ready) {
            t->leaving = NULL;
            return TARRY_OK;
        }
        t->leaving_ready = true;
        t->leaving = t->by_state[TR_READY].next;
    }
}

/* ---- counts ---- */

/* Of the topic's far jobs in this group's run: about so many are there, so many of them are due. */
static void look_up(const struct tr_engine *e, const struct tr_group *g, const struct tr_topic *t,
                    double *all, double *due)
{
    const struct tr_sidecar *side = &g->side;
    struct tr_side_job key = {.topic = t->number};
    double rows = tr_run_footer_topic(&g->footers[TR_GROUP_LIVE], t->number);
    double from = tr_sidecar_find(side, TR_SIDE_T, &key);
    double part;

    key.due_us = e->clock.t_us;
    part = ((double)tr_sidecar_find(side, TR_SIDE_T, &key) - from + 0.5) *
           side->sections[TR_SIDE_T].entries / side->sections[TR_SIDE_T].pages;
    *all += rows;
    if (side->due_last <= e->clock.t_us) {
        *due += rows;
    } else if (side->due_first <= e->clock.t_us) {
        *due += part < rows ? part : rows;
    }
}

/* Those in slots have been counted; of those in runs only the indexes are asked, in memory. */
static void count_topic(struct tr_engine *e, struct tr_topic *t)
{
    uint64_t slots = t->slots < t->far ? t->slots : t->far;
    uint64_t overdue = t->slots_due < slots ? t->slots_due : slots;
    double all = 0;
    double due = 0;

    for (uint32_t i = 0; i < e->groups.count && slots < t->far; i++) {
        const struct tr_group *g = e->groups.order[i];

        if (!g->leaving && g->runs[TR_GROUP_LIVE].file >= 0 &&
            tr_run_footer_topic(&g->footers[TR_GROUP_LIVE], t->number) != 0) {
            look_up(e, g, t, &all, &due);
        }
    }
    if (all > 0) {
        overdue += (uint64_t)((double)(t->far - slots) * (due / all));
    }
    e->state.topics.overdue += overdue - t->overdue;
    t->overdue = overdue;
    t->slots = 0;
    t->slots_due = 0;
}

static void count_page(struct tr_engine *e, const struct tr_far_page *page)
{
    struct tr_topic *t = NULL;

    for (unsigned i = 0; i < page->count; i++) {
        const struct tr_far_entry *entry = &page->entries[i];

        if (t == NULL || t->number != entry->topic) {
            t = tr_topics_by_number(&e->state.topics, entry->topic);
        }
        if (t != NULL && t->parked && !entry->located) {
            t->slots++;
            t->slots_due += entry->due_us <= e->clock.t_us;
        }
    }
}

/* A slice of a count. */
static void count(struct tr_engine *e)
{
    struct tr_topics *ts = &e->state.topics;
    const struct tr_far *far = &e->state.jobs.far;
    const struct tr_far_page *page;

    while (tr_far_walking(&e->count.walk) &&
           (page = tr_far_walk_page(far, &e->count.walk)) != NULL) {
        if (!tr_engine_charge(e, 1 + page->count / 8)) {
            return;
        }
        count_page(e, page);
        tr_far_walk_on(far, &e->count.walk);
    }
    if (tr_far_walking(&e->count.walk)) {
        tr_far_walk_end(&e->count.walk);
        ts->counting = ts->parked.next;
    }
    while (ts->counting != &ts->parked) {
        struct tr_topic *t = TR_CONTAINER_OF(ts->counting, struct tr_topic, in_parked);

        if (!tr_engine_charge(e, 1 + e->groups.count / 8)) {
            return;
        }
        ts->counting = ts->counting->next;
        count_topic(e, t);
    }
    e->count.busy = false;
    e->count.until_us = e->now.boot_us + COUNT_US;
    e->moved = true;
}

bool tr_park_counted(struct tr_engine *e)
{
    if (tr_list_empty(&e->state.topics.parked) || e->count.until_us > e->now.boot_us) {
        return true;
    }
    if (!e->count.busy) {
        e->count.busy = true;
        tr_far_walk_begin(&e->state.jobs.far, &e->count.walk);
    }
    return false;
}

/* ---- turns ---- */

void tr_park_step(struct tr_engine *e)
{
    struct tr_list *head = &e->state.topics.crowded;
    struct tr_timer *timer;

    while ((timer = tr_wheel_pop(&e->edges, e->clock.t_us, &e->work)) != NULL) {
        tr_topic_note_need(TR_CONTAINER_OF(timer, struct tr_topic, edge_timer));
    }
    if (e->count.busy) {
        count(e);
    }

    while (!tr_list_empty(head) && !e->load.sweeping && e->work > 0) {
        struct tr_topic *t = TR_CONTAINER_OF(head->next, struct tr_topic, in_crowd);
        int err = leave(e, t);

        if (err == TARRY_EFULL) {
            return;
        }
        if (err == TARRY_OK && tr_topic_full(t, 0) && come_nearer(e, t)) {
            continue;
        }
        t->crowded = false;
        t->stayed = err == TARRY_ENOMEM;
        tr_list_remove(&t->in_crowd);
        tr_topic_note_need(t);
    }
}

bool tr_park_busy(const struct tr_engine *e)
{
    return e->count.busy || (!tr_list_empty(&e->state.topics.crowded) && !e->load.sweeping);
}

bool tr_park_coming(const struct tr_engine *e, const struct tr_topic *t)
{
    return t != NULL && (e->refill.topic == t->number ||
                         (t->parked && t->edge.due_us <= e->clock.t_us &&
                          !tr_list_empty(&t->in_need) && tr_refill_may_begin(e)));
}
