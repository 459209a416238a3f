/*
 * What is noted of jobs, and who asks for it.
 *
 *     push                     nothing: the record of a live job says when it was made
 *                              (PUSHED, if it is known who asks)
 *     handed out               READY, when that was unless it was made so, and HANDED
 *     revised (change.c)       DEAD with why, else RELEASED, TIMED_OUT, KICKED, else CHANGED
 *     its connection closes    RELEASED
 *     touched                  TOUCHED, if the policy says full
 *     killed                   PUSHED, when that was, of a far job to a tenth of a second, and GONE
 *                              with why
 *
 * Who did it is the actor of the request that is being executed, or of the reserve that got the
 * job; what happens by itself (due, timed out, expired) nobody did.
 *
 * So a push costs nothing and a job that is handed out and finished costs four events of 16 bytes.
 * A purge leaves no events: it would push out all others. Nothing is noted of topics whose policy
 * says off.
 *
 * Who asks is told what was noted and what a live job itself says, by time. Looking through all
 * events takes slices; one at a time.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

enum { PIECE_UNITS = 8 };

static enum tr_history wanted(const struct tr_topic *t)
{
    return tr_topic_policy(t)->history;
}

/* Something that happens by itself, or whose maker the event has. */
static void note_plain(struct tr_engine *e, uint64_t id, struct tr_event event)
{
    tr_histories_add(&e->histories, id, &event);
}

/* Something that was asked for, perhaps. */
static void note(struct tr_engine *e, uint64_t id, struct tr_event event)
{
    event.actor = TR_MUTANT(ACTOR_FORGOTTEN) ? 0 : e->actor;
    note_plain(e, id, event);
}

static uint8_t state_pushed(const struct tr_job *job)
{
    return job->flags & TR_RF_LATER ? TR_DELAYED : TR_READY;
}

/* Was it ready from its making on? Then that says so. */
static bool ready_at_once(const struct tr_job *job)
{
    return job->ready_us == job->created_us && (job->flags & TR_RF_LATER) == 0;
}

void tr_past_pushed(struct tr_engine *e, const struct tr_job *job)
{
    if (e->actor != 0 && wanted(job->topic) != TR_HISTORY_OFF) {
        note(e, job->id,
             (struct tr_event){
                 .at_us = job->created_us, .what = TR_EVENT_PUSHED, .state = state_pushed(job)});
    }
}

void tr_past_handed(struct tr_engine *e, const struct tr_job *job, uint32_t actor)
{
    if (wanted(job->topic) == TR_HISTORY_OFF) {
        return;
    }
    if (!ready_at_once(job)) {
        note_plain(
            e, job->id,
            (struct tr_event){.at_us = job->ready_us, .what = TR_EVENT_READY, .state = TR_READY});
    }
    note_plain(
        e, job->id,
        (struct tr_event){
            .at_us = e->clock.t_us, .what = TR_EVENT_HANDED, .state = TR_RESERVED, .actor = actor});
}

void tr_past_touched(struct tr_engine *e, const struct tr_job *job)
{
    if (wanted(job->topic) == TR_HISTORY_FULL) {
        note(e, job->id,
             (struct tr_event){
                 .at_us = e->clock.t_us, .what = TR_EVENT_TOUCHED, .state = TR_RESERVED});
    }
}

void tr_past_left(struct tr_engine *e, const struct tr_job *job)
{
    if (wanted(job->topic) != TR_HISTORY_OFF) {
        note(e, job->id,
             (struct tr_event){
                 .at_us = e->clock.t_us, .what = TR_EVENT_RELEASED, .state = (uint8_t)job->state});
    }
}

/* What a change of the counters means; 0: the hand-out was taken back, and never was. */
static uint8_t what_of(const struct tr_record *rec, const struct tr_counters *was)
{
    if ((rec->mask & TR_FIELD(COUNTERS)) == 0) {
        return TR_EVENT_CHANGED;
    }
    if (rec->counters.kicks > was->kicks) {
        return TR_EVENT_KICKED;
    }
    if (rec->counters.timeouts > was->timeouts) {
        return TR_EVENT_TIMED_OUT;
    }
    if (rec->counters.releases > was->releases) {
        return TR_EVENT_RELEASED;
    }
    return rec->counters.reserves + 1 == was->reserves ? 0 : TR_EVENT_CHANGED;
}

void tr_past_revised(struct tr_engine *e, const struct tr_job *job, const struct tr_record *rec,
                     const struct tr_counters *was)
{
    struct tr_event event = {
        .at_us = e->clock.t_us, .what = what_of(rec, was), .state = (uint8_t)job->state};
    bool dies = (rec->mask & TR_FIELD(DEAD)) != 0 && rec->dead.seq != 0;

    if (wanted(job->topic) == TR_HISTORY_OFF) {
        return;
    }
    if (dies) { /* whatever it died of: by the last release, or the last lease that ran out */
        event.what = TR_EVENT_DEAD;
        event.why = rec->dead.reason;
    }
    if (event.what != 0) {
        note(e, job->id, event);
    }
}

void tr_past_gone(struct tr_engine *e, const struct tr_kill *kill, enum tr_why why)
{
    const struct tr_job *job = tr_jobs_by_rid(&e->state.jobs, kill->rid);
    const struct tr_topic *t = tr_topics_by_number(&e->state.topics, kill->topic);
    uint64_t id = job != NULL ? job->id : tr_far_moved_id(&e->state.jobs.far, kill->rid);
    uint64_t made_us;

    if (t->purged || wanted(t) == TR_HISTORY_OFF || TR_MUTANT(GONE_FORGOTTEN)) {
        return;
    }
    id = id != 0 ? id : kill->rid;
    made_us = job != NULL ? job->created_us : tr_histories_when(&e->histories, id);
    if (made_us != 0) {
        note_plain(e, id,
                   (struct tr_event){.at_us = made_us,
                                     .what = TR_EVENT_PUSHED,
                                     .state = job != NULL ? state_pushed(job) : TR_DELAYED});
    }
    note(e, id,
         (struct tr_event){.at_us = e->clock.t_us, .what = TR_EVENT_GONE, .why = (uint8_t)why});
}

/* ---- who ---- */

uint32_t tr_engine_actor(struct tr_engine *e, const char *name, size_t len)
{
    return tr_histories_actor(&e->histories, name, len);
}

const char *tr_engine_actor_name(const struct tr_engine *e, uint32_t actor, size_t *len)
{
    const struct tr_histories *h = &e->histories;

    if (actor == 0 || actor > h->actor_count) {
        return NULL;
    }
    *len = h->actors[actor - 1].len;
    return h->actors[actor - 1].name;
}

/* ---- asking ---- */

void tr_past_drop(struct tr_engine *e, const struct tr_req *r)
{
    if (e->past.req == r) {
        e->past.req = NULL;
    }
}

/* Keeps the last ones that were noted: a ring. */
static void keep(struct tr_past *p, const struct tr_event *event)
{
    if (event->what == TR_EVENT_PUSHED && p->pushed) {
        return; /* noted when it was pushed, and told again when it went */
    }
    p->events[p->met++ % TR_PAST_MAX] = *event;
    p->count += p->count < TR_PAST_MAX;
    p->pushed = p->pushed || event->what == TR_EVENT_PUSHED;
    p->died_us = event->what == TR_EVENT_DEAD ? event->at_us : p->died_us;
}

/* Turns the ring so that what was noted first is first: three reversals. */
static void turn_back(struct tr_event *events, uint32_t from, uint32_t to)
{
    while (from + 1 < to) {
        struct tr_event kept = events[from];

        events[from++] = events[--to];
        events[to] = kept;
    }
}

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A clock that was set back makes no job go before it was made: nothing is later than its end, and
 * nothing earlier than its making. */
static void agree(struct tr_past *p)
{
    const struct tr_event *last = &p->events[(p->met + TR_PAST_MAX - 1) % TR_PAST_MAX];
    uint64_t first_us = UINT64_MAX;
    uint64_t last_us = p->met != 0 && last->what == TR_EVENT_GONE ? last->at_us : UINT64_MAX;

    for (uint32_t i = 0; i < p->count; i++) {
        p->events[i].at_us = min(p->events[i].at_us, last_us);
        first_us = min(first_us, p->events[i].at_us);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->events[i].what == TR_EVENT_PUSHED) {
            p->events[i].at_us = first_us;
        }
    }
}

/* By time. Nearly all are in order: some were noted with a time before those around them. */
static void sort(struct tr_past *p)
{
    agree(p);
    if (p->met > TR_PAST_MAX) {
        uint32_t first = (uint32_t)(p->met % TR_PAST_MAX);

        turn_back(p->events, 0, first);
        turn_back(p->events, first, TR_PAST_MAX);
        turn_back(p->events, 0, TR_PAST_MAX);
    }
    for (uint32_t i = 1; i < p->count; i++) {
        struct tr_event event = p->events[i];
        bool first = event.what == TR_EVENT_PUSHED; /* of those at its time */
        uint32_t at = i;

        while (at > 0 && p->events[at - 1].at_us >= event.at_us + !first) {
            at--;
        }
        memmove(&p->events[at + 1], &p->events[at], (i - at) * sizeof event);
        p->events[at] = event;
    }
}

/* What a live job says of itself. */
static void add_present(struct tr_past *p, const struct tr_job *job)
{
    struct tr_event event = {
        .at_us = job->created_us, .what = TR_EVENT_PUSHED, .state = state_pushed(job)};

    if (!p->pushed) {
        keep(p, &event);
    }
    if (job->state == TR_READY && !ready_at_once(job)) {
        event =
            (struct tr_event){.at_us = job->ready_us, .what = TR_EVENT_READY, .state = TR_READY};
        keep(p, &event);
    }
    if (job->state == TR_DEAD && p->died_us != job->dead_at_us) {
        event = (struct tr_event){.at_us = job->dead_at_us,
                                  .what = TR_EVENT_DEAD,
                                  .state = TR_DEAD,
                                  .why = job->dead_reason};
        keep(p, &event);
    }
}

/* With weak sync a power cut may have brought back a job of which its end was told. */
static void drop_ends(struct tr_past *p)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < p->count; i++) {
        if (p->events[i].what != TR_EVENT_GONE) {
            p->events[kept++] = p->events[i];
        }
    }
    p->count = kept;
}

/* A slice of looking through what was noted. False: there is more. */
static bool look(struct tr_engine *e, uint64_t id)
{
    struct tr_past *p = &e->past;
    struct tr_event event;

    while (p->at != UINT64_MAX) {
        if (!tr_engine_charge(e, PIECE_UNITS)) {
            return false;
        }
        while (tr_histories_next(&e->histories, &p->at, id, &event)) {
            keep(p, &event);
            if (!tr_engine_spend(e)) {
                return false;
            }
        }
    }
    return true;
}

enum tr_verdict tr_past_execute(struct tr_engine *e, struct tr_req *r)
{
    struct tr_past *p = &e->past;
    struct tr_job *job;
    int err;

    if (p->req != NULL && p->req != r) {
        return TR_STALL;
    }
    if (p->req == NULL || p->id != r->id) { /* its key may have gone to another one meanwhile */
        tr_histories_age(&e->histories, e->clock.t_us);
        p->req = r;
        p->id = r->id;
        p->at = 0;
        p->count = 0;
        p->met = 0;
        p->pushed = false;
        p->died_us = 0;
    }
    if (!look(e, r->id)) {
        return TR_STALL;
    }
    err = tr_load_by_id(e, r->id, &job);
    if (err == TARRY_EFULL) {
        p->req = NULL; /* it comes into memory; what happens meanwhile must be found, too */
        return TR_STALL;
    }
    if (err == TARRY_OK) {
        add_present(p, job);
    }
    sort(p);
    if (err == TARRY_OK && e->config.sync != TR_SYNC_ALWAYS) {
        drop_ends(p);
    }
    p->req = NULL;
    r->out.events = p->events;
    r->out.number = p->count;
    return tr_engine_finish(e, r, p->count != 0 ? TARRY_OK : err);
}
