/*
 * Requests that change jobs.
 *
 * Each change goes the same way: make room in the log, so that nothing after it can fail; take the
 * job out of lists and wheels; apply the record to the state; append it to the open batch; put the
 * job where its new fields want it. The reply then waits for the batch (its gate).
 *
 * A change of due, or to or from dead, is a MOVE: a whole record under a new rid, which kills the
 * old one. It is an ALTER, which leaves the record where it is and a row in the checkpoint, when
 * the body is long or not in memory, when space is short, or when no rid is to be had: then
 * nothing big is written. Changes of priority and counters alone are always ALTERs.
 *
 * A push with a key that is there becomes a change of that job (TR_CONFLICT_REPLACE), an answer, or
 * an error. The key of a job never changes.
 *
 * Not done here: who may get a job (handout.c), whether there is space (space.c, meta.c).
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

enum { FIRES_PER_UNIT = 2 };

void tr_change_schedule(struct tr_engine *e, struct tr_job *job)
{
    struct tr_topic *t = job->topic;

    if (job->dead_seq != 0) {
        tr_topic_enter(t, job, TR_DEAD);
        tr_drop_note(e, job);
    } else if (job->due_us <= e->clock.t_us) {
        job->ready_us = e->clock.t_us;
        if (job->first_us < job->due_us || job->first_us > e->clock.t_us || TR_MUTANT(LATE_ANEW)) {
            job->first_us = e->clock.t_us;
        }
        tr_topic_enter(t, job, TR_READY);
        tr_expiry_arm(e, job);
        tr_handout_mark(e, t);
    } else {
        job->crowd = t->count[TR_DELAYED] >= e->config.crowd;
        tr_topic_enter(t, job, TR_DELAYED);
        tr_wheel_arm(job->crowd ? &e->crowd : &e->due, &job->timer, job->due_us);
    }
    tr_tally_entered(&e->state, job);
    tr_listing_entered(e, job);
}

void tr_change_unschedule(struct tr_engine *e, struct tr_job *job)
{
    switch (job->state) {
    case TR_DELAYED:
        tr_wheel_disarm(job->crowd ? &e->crowd : &e->due, &job->timer);
        break;
    case TR_RESERVED:
        tr_wheel_disarm(&e->leases, &job->timer);
        break;
    case TR_READY:
        tr_expiry_disarm(e, job);
        break;
    default:
        break;
    }
    if (job->state == TR_RESERVED) {
        tr_handout_unhold(e, job);
        job->handing = false;
        job->undoing = false;
        tr_limit_freed(e, job->topic);
    }
    tr_topic_leave(job->topic, job);
}

void tr_change_still_ready(struct tr_job *job, uint64_t since_us)
{
    if (job->state == TR_READY && since_us >= job->due_us && since_us < job->ready_us) {
        job->ready_us = since_us;
    }
}

/*
 * Since when a due job that was not in memory has been ready. One that was due while the store was
 * served before is taken to have been on time. Of a topic that was parked then jobs are ready when
 * they are due, in memory or not. What was due while nobody served was ready with the start;
 * anything else is ready now.
 */
static uint64_t ready_since(const struct tr_engine *e, const struct tr_job *job)
{
    if (job->due_us <= e->stood_us && !TR_MUTANT(LATE_SINCE_START)) {
        return job->due_us;
    }
    if (job->topic->parked || job->due_us <= job->topic->parked_us) {
        return job->due_us < e->began_us ? e->began_us : job->due_us;
    }
    return e->clock.t_us;
}

void tr_change_bring(struct tr_engine *e, struct tr_job *job)
{
    uint64_t since_us = ready_since(e, job);

    job->first_us = job->due_us <= e->clock.t_us ? since_us : 0; /* 0: it has not been ready yet */
    tr_change_schedule(e, job);
    tr_change_still_ready(job, since_us);
}

void tr_change_drop_topic(struct tr_engine *e, struct tr_topic *t)
{
    if (!tr_topic_needed(t)) {
        tr_wheel_disarm(&e->pauses, &t->pause);
        tr_limit_stop(e, t);
        tr_drop_stop(e, t);
        tr_park_end(e, t);
        if (e->config.dropped != NULL && !t->purged) {
            e->config.dropped(e->config.ctx, t->handle);
        }
        tr_state_remove_topic(&e->state, t);
    }
}

void tr_change_keep_topic(struct tr_engine *e, struct tr_topic *t)
{
    struct tr_topics *ts = &e->state.topics;

    tr_topic_keep(t);
    while (ts->kept_count > ts->kept_max) {
        tr_change_let_go_topic(e, tr_topics_longest_kept(ts));
    }
}

void tr_change_let_go_topic(struct tr_engine *e, struct tr_topic *t)
{
    tr_topic_let_go(t);
    tr_change_drop_topic(e, t);
}

void tr_change_note_late(struct tr_engine *e, const struct tr_job *job)
{
    struct tr_meter *m = tr_topic_meter(job->topic);
    struct tr_topics *ts = &e->state.topics;
    uint64_t late_us = job->first_us - job->due_us;

    tr_late_add(&ts->lates, &ts->late, late_us, tr_clock_span(&e->clock));
    tr_late_add(&ts->lates, &job->topic->late, late_us, tr_clock_span(&e->clock));
    m->counts[TR_METERED_FIRED]++;
    tr_hist_add(&m->late, &tr_hist_waits, late_us);
}

/* Gives what is left of `work`. */
static unsigned fire(struct tr_engine *e, struct tr_wheel *wheel, unsigned work)
{
    struct tr_timer *timer;

    while ((timer = tr_wheel_pop(wheel, e->clock.t_us, &work)) != NULL) {
        struct tr_job *job = TR_CONTAINER_OF(timer, struct tr_job, timer);

        TR_CHECK(job->state == TR_DELAYED);
        TR_CHECK(job->due_us <= e->clock.t_us);
        tr_topic_leave(job->topic, job);
        tr_change_schedule(e, job);
        tr_change_note_late(e, job);
    }
    return work;
}

/*
 * Due jobs become ready. A million of one topic that are due in the same second take many turns;
 * so the jobs of topics with many delayed ones are in a wheel of their own, and nobody else's wait
 * behind them. Becoming ready is less than half a unit of work.
 */
void tr_change_fire_due(struct tr_engine *e)
{
    unsigned rest = e->work / 2; /* half of the slice is for everything else */
    unsigned work = fire(e, &e->due, e->work - rest);

    work = fire(e, &e->crowd, work * FIRES_PER_UNIT) / FIRES_PER_UNIT;
    e->work = rest + work;
}

/* A job that dies while its record is among the live ones of a run is written again however long it
 * is: only from a dead run could it leave memory. */
static bool can_move(const struct tr_engine *e, const struct tr_job *job,
                     const struct tr_record *rec)
{
    bool dies = (rec->mask & TR_FIELD(DEAD)) != 0 && rec->dead.seq != 0 && job->slot != NULL &&
                job->slot->number >= TR_MANIFEST_SLOTS_MAX;

    return job->body != NULL && (dies || job->body_len <= e->config.move_body_max) &&
           e->state.next_rid < e->rid_limit && tr_space_push_ok(e);
}

/* Writes the job again under a new rid, with the changes of rec. One that has a key is a push that
 * found the job: it says all that is in its block. */
static int move(struct tr_engine *e, struct tr_job *job, const struct tr_record *rec,
                struct tr_bytes body)
{
    uint64_t extras = rec->mask & TR_FIELD(KEY) ? TR_EXTRA_FIELDS : rec->mask & TR_EXTRA_ALTERED;
    struct tr_job next = *job;
    struct tr_record mv;
    struct tr_job *same;
    int err;

    next.slot = NULL; /* a copy, which no slot is to count */
    tr_state_set_fields(&next, rec);
    tr_state_describe(&next, TR_REC_MOVE, &mv);
    tr_extra_copy(rec, &mv, extras);
    mv.mask |= TR_FIELD(OLD) | TR_FIELD(ID);
    mv.rid = e->state.next_rid;
    mv.id = job->id;
    mv.old = tr_tally_kill(job);
    mv.old.weighed = job->body_len != body.len; /* else it is as long as that */
    mv.old.body_len = mv.old.weighed ? job->body_len : 0;
    mv.body = body;
    err = tr_state_apply(&e->state, &mv, e->log.open.no, &same);
    if (err == TARRY_OK) {
        TR_CHECK(same == job);
        tr_extra_describe(job->extra, &mv); /* the block that it borrowed from may be gone */
        tr_log_append(&e->log, &mv, tr_engine_base(e), true);
    }
    return err;
}

/* TARRY_ENOMEM, nothing changed: only if it changes what is in the job's block. */
static int alter(struct tr_engine *e, struct tr_job *job, struct tr_record *rec, bool gated)
{
    struct tr_job *same;
    int err;

    rec->type = TR_REC_ALTER;
    rec->rid = job->rid;
    if (rec->mask & (TR_FIELD(DUE) | TR_FIELD(DEAD))) {
        rec->mask |= TR_FIELD(OLD); /* a replay may not have met the job */
        rec->old = tr_tally_kill(job);
    }
    err = tr_state_apply(&e->state, rec, e->log.open.no, &same);
    TR_CHECK(err == TARRY_OK || (rec->mask & TR_EXTRA_ALTERED) != 0);
    if (err == TARRY_OK) {
        TR_CHECK(same == job);
        tr_log_append(&e->log, rec, tr_engine_base(e), gated);
    }
    return err;
}

int tr_change_fits(struct tr_engine *e, const struct tr_job *job, struct tr_record *rec)
{
    struct tr_tally to = tr_tally_altered(tr_tally_job(job), rec);
    uint32_t kind;
    int err;

    if ((rec->mask & (TR_FIELD(DUE) | TR_FIELD(DEAD))) == 0 || to.dead) {
        return TARRY_OK;
    }
    err = tr_tally_kind(&e->state, to.topic, to.due_us, &kind);
    if (err == TARRY_OK && (kind != (job->flags & TR_RF_CELL) || (rec->mask & TR_FIELD(FLAGS)))) {
        uint32_t flags = rec->mask & TR_FIELD(FLAGS) ? rec->flags : job->flags;

        rec->mask |= TR_FIELD(FLAGS);
        rec->flags = (flags & ~(uint32_t)TR_RF_CELL) | kind;
    }
    return err;
}

/* A job was revised by rec: what happened to it, for the meters. */
static void count_revised(const struct tr_job *job, const struct tr_record *rec,
                          const struct tr_counters *was, uint8_t state)
{
    bool back = (rec->mask & TR_FIELD(COUNTERS)) != 0 && state == TR_RESERVED &&
                (rec->counters.releases > was->releases || rec->counters.timeouts > was->timeouts);

    if (job->state == TR_DEAD && state != TR_DEAD) {
        tr_topic_count(job->topic, TR_METERED_DEAD);
        if (job->dead_reason == TR_WHY_EXPIRED) {
            tr_topic_count(job->topic, TR_METERED_EXPIRED);
        }
    } else if (back) {
        tr_topic_count(job->topic, TR_METERED_RETRIED);
    } else if (state == TR_DELAYED && job->state == TR_READY) {
        tr_topic_count(job->topic, TR_METERED_FIRED);
    }
}

int tr_change_revise(struct tr_engine *e, struct tr_job *job, struct tr_record *rec, bool gated)
{
    bool moves = (rec->mask & (TR_FIELD(DUE) | TR_FIELD(DEAD))) != 0 && can_move(e, job, rec);
    struct tr_counters was = job->counters;
    uint8_t state = job->state;
    uint64_t since_us = state == TR_READY ? job->ready_us : 0;
    bool lived = job->dead_seq == 0;
    size_t bytes = (size_t)2 * TR_RECORD_HEAD_MAX + (moves ? job->body_len : 0);
    int err = tr_log_reserve(&e->log, bytes, 2);

    if (err == TARRY_OK) {
        err = tr_change_fits(e, job, rec);
    }
    if (err != TARRY_OK) {
        return err;
    }
    tr_change_unschedule(e, job);
    if (!moves || move(e, job, rec, (struct tr_bytes){job->body, job->body_len}) != TARRY_OK) {
        err = alter(e, job, rec, gated);
    }
    if (err == TARRY_OK && (gated || moves)) {
        job->gate = e->log.open.no;
    }
    tr_change_schedule(e, job);
    tr_change_still_ready(job, since_us);
    tr_engine_touch_log(e);
    if (err == TARRY_OK) {
        tr_past_revised(e, job, rec, &was);
        count_revised(job, rec, &was, state);
    }
    if (lived && job->dead_seq != 0) {
        tr_occur_ended(e, job->id);
    }
    return err;
}

/* The moment that a request names; a relative delay counts from its arrival. */
static uint64_t due_of(const struct tr_engine *e, const struct tr_req *r)
{
    uint64_t due_us = r->at_us != 0 ? r->at_us : r->start_wall_us + r->delay_us;

    if (r->exact) {
        return r->at_us;
    }
    if ((r->at_us == 0 && r->delay_us == 0) || due_us < e->clock.t_us) {
        return e->clock.t_us;
    }
    return due_us;
}

static bool due_ok(const struct tr_req *r)
{
    return r->delay_us <= TR_DELAY_MAX_US && r->at_us <= r->start_wall_us + TR_DELAY_MAX_US;
}

/* The end of a request whose change came to err. */
static enum tr_verdict end(struct tr_engine *e, struct tr_req *r, int err)
{
    return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
}

void tr_change_log_topic(struct tr_engine *e, struct tr_topic *t)
{
    struct tr_record rec = {
        .type = TR_REC_TOPIC, .topic = t->number, .name = {(const uint8_t *)t->name, t->name_len}};

    if (!t->logged) {
        tr_log_append(&e->log, &rec, tr_engine_base(e), true);
        t->logged = true;
    }
}

/* A MOVE with the changes of rec and the body of r. */
static int rewrite(struct tr_engine *e, struct tr_job *job, struct tr_record *rec,
                   const struct tr_req *r)
{
    uint8_t state = job->state;
    uint64_t since_us = state == TR_READY ? job->ready_us : 0;
    uint8_t *copy;
    int err;

    if (!tr_mem_spare(e->mem, r->body_len)) {
        return TARRY_ENOMEM;
    }
    if (!tr_space_push_ok(e) || !tr_meta_room(e, 1)) { /* its row may be longer */
        e->refusing = true;
        return tr_space_hope(e) ? TARRY_EFULL : TARRY_ENOSPC;
    }
    if (e->state.next_rid >= e->rid_limit) {
        e->meta.want_manifest = true;
        return TARRY_EFULL;
    }
    err = tr_log_reserve(&e->log, r->body_len + (size_t)2 * TR_RECORD_HEAD_MAX, 2);
    if (err == TARRY_OK) {
        err = tr_change_fits(e, job, rec);
    }
    if (err != TARRY_OK) {
        return err;
    }
    copy = tr_jobs_copy_body(&e->state.jobs, r->body, (uint32_t)r->body_len);
    if (copy == NULL) {
        return TARRY_ENOMEM;
    }
    tr_change_unschedule(e, job);

    uint32_t old_len = job->body_len;
    uint8_t *old = tr_jobs_take_body(&e->state.jobs, job);

    err = move(e, job, rec, (struct tr_bytes){copy, r->body_len});
    if (err == TARRY_OK) {
        tr_jobs_give_body(&e->state.jobs, job, copy, (uint32_t)r->body_len);
        tr_jobs_free_body(&e->state.jobs, old, old_len);
        job->gate = e->log.open.no;
        tr_engine_touch_log(e);
    } else {
        tr_jobs_give_body(&e->state.jobs, job, old, old_len);
        tr_jobs_free_body(&e->state.jobs, copy, (uint32_t)r->body_len);
    }
    tr_change_schedule(e, job);
    tr_change_still_ready(job, since_us);
    if (err == TARRY_OK) {
        tr_past_revised(e, job, rec, &rec->counters);
        count_revised(job, rec, &rec->counters, state);
    }
    return err;
}

static struct tr_bytes key_of(const struct tr_req *r)
{
    return (struct tr_bytes){(const uint8_t *)r->key, r->key_len};
}

/* What few jobs have. */
static void ask_extras(const struct tr_req *r, struct tr_record *rec,
                       uint8_t backoff[TR_BACKOFF_BYTES])
{
    struct tr_record asked = {.mask = r->has_retries ? TR_FIELD(RETRIES) : 0,
                              .key = key_of(r),
                              .tag = {(const uint8_t *)r->tag, r->tag_len},
                              .ttl_us = r->ttl_us,
                              .retries = r->retries};

    if (r->backoff != NULL) {
        asked.backoff = (struct tr_bytes){backoff, tr_backoff_encode(backoff, r->backoff)};
    }
    tr_extra_copy(&asked, rec, TR_EXTRA_FIELDS);
}

/* The push with what its topic's policy gives. */
static const struct tr_req *fixed(const struct tr_topic *t, const struct tr_req *r,
                                  struct tr_req *room)
{
    const struct tr_policy *p = tr_topic_policy(t);

    if ((p->given & TR_POLICY_FIXED) == 0 || TR_MUTANT(NOTHING_FIXED)) {
        return r;
    }
    *room = *r;
    tr_policy_fix(p, room);
    return room;
}

static int push_job(struct tr_engine *e, struct tr_req *r, struct tr_topic *t)
{
    struct tr_req room;
    const struct tr_req *asked = fixed(t, r, &room);
    struct tr_record rec = {.type = TR_REC_PUSH,
                            .mask = TR_FIELD(DUE) | TR_FIELD(CREATED) | TR_FIELD(TOPIC) |
                                    TR_FIELD(PRIORITY) | TR_FIELD(TTR) | TR_FIELD(BODY),
                            .rid = e->state.next_rid,
                            .due_us = due_of(e, r) + tr_policies_jitter(e, t),
                            .created_us = e->clock.t_us,
                            .topic = t->number,
                            .priority = r->priority,
                            .ttr_us = asked->ttr_us,
                            .delay_us = r->delay_us,
                            .body = {r->body, r->body_len}};
    uint8_t *copy = tr_jobs_copy_body(&e->state.jobs, r->body, (uint32_t)r->body_len);
    uint8_t backoff[TR_BACKOFF_BYTES];
    struct tr_job *job;
    int err;

    if (copy == NULL) {
        return TARRY_ENOMEM;
    }
    rec.mask &= asked->ttr_us != 0 ? UINT64_MAX : ~TR_FIELD(TTR);
    rec.mask |= r->delay_us != 0 ? TR_FIELD(DELAY) : 0;
    err = tr_tally_kind(&e->state, t, rec.due_us, &rec.flags);
    rec.flags |= r->beanstalk ? TR_RF_BEANSTALK : 0;
    rec.flags |= rec.due_us > e->clock.t_us ? TR_RF_LATER : 0;
    rec.mask |= rec.flags != 0 ? TR_FIELD(FLAGS) : 0;
    ask_extras(asked, &rec, backoff);
    if (err == TARRY_OK) {
        err = tr_state_apply(&e->state, &rec, e->log.open.no, &job);
    }
    if (err != TARRY_OK) {
        tr_jobs_free_body(&e->state.jobs, copy, (uint32_t)r->body_len);
        return err;
    }
    tr_jobs_give_body(&e->state.jobs, job, copy, (uint32_t)r->body_len);
    tr_change_log_topic(e, t);
    tr_log_append(&e->log, &rec, tr_engine_base(e), true);
    tr_histories_made(&e->histories, job->id, rec.created_us);
    job->gate = e->log.open.no;
    t->pushed++;
    t->totals->pushed++;
    tr_topic_count(t, TR_METERED_PUSHED);
    tr_rate_add(&t->pushes, tr_clock_span(&e->clock));
    tr_rate_add(&e->state.topics.pushes, tr_clock_span(&e->clock));
    tr_change_schedule(e, job);
    tr_engine_touch_log(e);
    tr_past_pushed(e, job);
    if (r->keep_topic) {
        tr_change_keep_topic(e, t);
    }
    tr_view_fill(e, job, &r->out.job);
    return TARRY_OK;
}

/* May a body of that length come into the topic, in the place of another? */
static int admit_bytes(struct tr_req *r, const struct tr_topic *t, uint64_t less)
{
    int err = tr_policies_admit_bytes(t, r->body_len, less);

    if (err != TARRY_OK) {
        r->out.why = "the bodies of the topic would have more bytes than its max_bytes allows";
    }
    return err;
}

/* May a job come, a fresh one or in the place of old? r->out.why says which limit is reached. */
static int admit(const struct tr_engine *e, struct tr_req *r, const struct tr_topic *t,
                 const struct tr_job *old)
{
    int err = tr_policies_admit(e, t, old == NULL);

    if (err == TARRY_EQUOTA) {
        r->out.why = "the topic has as many jobs as its max_jobs allows";
    }
    return err == TARRY_OK ? admit_bytes(r, t, old != NULL ? old->body_len : 0) : err;
}

/* A push whose key this job has. */
static enum tr_verdict push_again(struct tr_engine *e, struct tr_req *r, struct tr_job *job)
{
    struct tr_req room;
    const struct tr_req *asked = fixed(job->topic, r, &room);
    struct tr_record rec = {.mask = TR_FIELD(DUE) | TR_FIELD(DELAY) | TR_FIELD(PRIORITY) |
                                    TR_FIELD(TTR) | TR_FIELD(COUNTERS) | TR_FIELD(FLAGS),
                            .flags = (job->flags & (TR_RF_CELL | TR_RF_LATER)) |
                                     (r->beanstalk ? TR_RF_BEANSTALK : 0),
                            .due_us = due_of(e, r),
                            .delay_us = r->delay_us,
                            .priority = r->priority,
                            .ttr_us = asked->ttr_us};
    uint8_t backoff[TR_BACKOFF_BYTES];
    int err;

    err = tr_expiry_settle(e, job); /* it was dead already */
    if (err != TARRY_OK) {
        return end(e, r, err);
    }
    r->out.existed = true;
    if (r->keep_topic) {
        tr_change_keep_topic(e, job->topic);
    }
    tr_view_fill(e, job, &r->out.job);
    if (r->conflict != TR_CONFLICT_REPLACE) {
        return tr_engine_finish(e, r, r->conflict == TR_CONFLICT_KEEP ? TARRY_OK : TARRY_EEXISTS);
    }
    if (job->state == TR_RESERVED) {
        return tr_engine_finish(e, r, TARRY_ESTATE);
    }
    err = admit(e, r, job->topic, job);
    if (err != TARRY_OK) {
        return tr_engine_finish(e, r, err);
    }
    rec.due_us += tr_policies_jitter(e, job->topic);
    rec.mask |= job->dead_seq != 0 ? TR_FIELD(DEAD) : 0;
    ask_extras(asked, &rec, backoff);
    err = rewrite(e, job, &rec, r);
    if (err == TARRY_OK) {
        tr_view_fill(e, job, &r->out.job);
    }
    return end(e, r, err);
}

static bool extras_ok(const struct tr_req *r)
{
    return r->key_len <= TR_KEY_MAX && r->tag_len <= TR_TAG_MAX && r->ttl_us <= TR_DELAY_MAX_US &&
           (!r->has_retries || r->retries >= -1) &&
           (r->backoff == NULL || tr_backoff_ok(r->backoff));
}

static bool push_sane(const struct tr_req *r, const struct tr_topic *t)
{
    return t != NULL && due_ok(r) && r->ttr_us <= TR_DELAY_MAX_US && extras_ok(r) &&
           (unsigned)r->conflict < TR_CONFLICT_COUNT;
}

int tr_change_push(struct tr_engine *e, struct tr_req *r, struct tr_topic *t, size_t more)
{
    int err = e->draining ? TARRY_EDRAINING : admit(e, r, t, NULL);

    if (err != TARRY_OK) {
        return err;
    }
    if (!tr_mem_spare(e->mem, r->body_len + sizeof(struct tr_job))) {
        return TARRY_ENOMEM;
    }
    if (!tr_space_push_ok(e) || !tr_meta_room(e, 1)) {
        e->refusing = true;
        return tr_space_hope(e) ? TARRY_EFULL : TARRY_ENOSPC;
    }
    if (e->state.next_rid >= e->rid_limit && !TR_MUTANT(IGNORE_RID_LIMIT)) {
        e->meta.want_manifest = true;
        return TARRY_EFULL;
    }
    err = tr_log_reserve(&e->log, r->body_len + (size_t)2 * TR_RECORD_HEAD_MAX + more, 2);
    return err == TARRY_OK ? push_job(e, r, t) : err;
}

static enum tr_verdict push(struct tr_engine *e, struct tr_req *r)
{
    struct tr_topic *t = tr_topics_by_handle(&e->state.topics, r->topic);
    struct tr_job *job;
    int err;

    if (!push_sane(r, t)) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    if (r->body_len > e->config.body_max) {
        return tr_engine_finish(e, r, TARRY_EFULL);
    }
    if (e->draining) {
        return tr_engine_finish(e, r, TARRY_EDRAINING);
    }
    r->out.existed = false;               /* an earlier try may have found one, */
    r->out.job = (struct tr_job_view){0}; /* which may be gone by now */
    if (r->key_len != 0) {
        err = tr_lookup_key(e, t, key_of(r), &job);
        if (err == TARRY_OK) {
            return push_again(e, r, job);
        }
        if (err != TARRY_ENOTFOUND) {
            return end(e, r, err);
        }
    }
    return end(e, r, tr_change_push(e, r, t, 0));
}

/*
 * The job that a request names by id, in *job, if it is in a state that will do; else NULL, and the
 * request has ended, or stalls until the job is in memory.
 */
static enum tr_verdict find(struct tr_engine *e, struct tr_req *r, bool held_only,
                            struct tr_job **job)
{
    int err = tr_load_locate(e, r->id);

    *job = NULL;
    if (err != TARRY_OK) {
        return end(e, r, err);
    }
    if (held_only && tr_load_show_far(e, r)) {
        *job = NULL;
        return tr_engine_finish(e, r, TARRY_ESTATE);
    }
    err = tr_load_by_id(e, r->id, job);
    if (err == TARRY_OK) {
        err = tr_expiry_settle(e, *job);
    }
    if (err != TARRY_OK) {
        *job = NULL;
        return end(e, r, err);
    }
    if (held_only ? !tr_handout_held_by(*job, r) : (*job)->state == TR_RESERVED) {
        tr_view_fill(e, *job, &r->out.job);
        *job = NULL;
        return tr_engine_finish(e, r, TARRY_ESTATE);
    }
    return TR_DONE;
}

/* Of a live job, near or far. */
static uint64_t id_of(const struct tr_engine *e, uint64_t rid)
{
    const struct tr_job *job = tr_jobs_by_rid(&e->state.jobs, rid);
    uint64_t moved = job == NULL ? tr_far_moved_id(&e->state.jobs.far, rid) : job->id;

    return moved != 0 ? moved : rid;
}

void tr_change_kill(struct tr_engine *e, const struct tr_kill *kill, enum tr_why why)
{
    struct tr_topic *t = tr_topics_by_number(&e->state.topics, kill->topic);
    struct tr_kill weighed = *kill;

    tr_past_gone(e, kill, why);
    if (!t->purged) {
        tr_occur_ended(e, id_of(e, kill->rid));
    }
    tr_state_weigh(&e->state, &weighed);
    tr_log_kill(&e->log, weighed, (uint8_t)why, tr_engine_base(e), !t->purged);
    TR_CHECK(tr_state_kill(&e->state, &weighed, e->log.open.no));
    if (why == TR_WHY_DROPPED) {
        t->dropped++;
        t->totals->dropped++;
    } else if (!t->purged) {
        t->deleted++;
        t->totals->deleted++;
    }
    if (!t->purged) {
        tr_topic_count(t, why == TR_WHY_DROPPED ? TR_METERED_DROPPED
                          : why == TR_WHY_ACKED ? TR_METERED_ACKED
                                                : TR_METERED_CANCELLED);
    }
    tr_engine_touch_log(e);
    tr_change_drop_topic(e, t);
}

static enum tr_verdict delete_far(struct tr_engine *e, struct tr_req *r, uint64_t rid)
{
    struct tr_kill kill = tr_tally_far(rid, tr_far_find(&e->state.jobs.far, rid));
    int err = tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX, 1);

    if (err != TARRY_OK) {
        return end(e, r, err);
    }
    (void)tr_load_show_far(e, r);
    tr_change_kill(e, &kill, TR_WHY_CANCELLED);
    return tr_engine_finish(e, r, TARRY_OK);
}

static enum tr_verdict delete_job(struct tr_engine *e, struct tr_req *r)
{
    struct tr_job *job = tr_state_job(&e->state, r->id);
    uint64_t far = job == NULL ? tr_state_far_rid(&e->state, r->id) : 0;
    bool held = job != NULL && tr_handout_held_by(job, r);
    int err = tr_load_locate(e, r->id);

    if (err != TARRY_OK) {
        return end(e, r, err);
    }
    if (far != 0 && (r->lease == 0 || r->force)) {
        return delete_far(e, r, far);
    }
    if (tr_load_show_far(e, r)) { /* an ack by a lease that was lost */
        return tr_engine_finish(e, r, TARRY_ESTATE);
    }
    if (job == NULL || (job->state == TR_RESERVED && !held && !r->force)) {
        return find(e, r, false, &job);
    }
    if (r->lease != 0 && !held && !r->force) { /* an ack by a lease that was lost */
        tr_view_fill(e, job, &r->out.job);
        return tr_engine_finish(e, r, TARRY_ESTATE);
    }
    err = tr_expiry_settle(e, job); /* it was dead already */
    if (err == TARRY_OK) {
        err = tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX, 1);
    }
    if (err != TARRY_OK) {
        return end(e, r, err);
    }
    tr_view_fill(e, job, &r->out.job);
    tr_view_extra(&r->out.job, NULL); /* it dies with the job, */
    r->out.job.topic_name = NULL;     /* and its topic may */
    r->out.job.topic_name_len = 0;

    struct tr_kill kill = tr_tally_kill(job);

    tr_change_unschedule(e, job);
    tr_change_kill(e, &kill, held ? TR_WHY_ACKED : TR_WHY_CANCELLED);
    return tr_engine_finish(e, r, TARRY_OK);
}

static enum tr_verdict release(struct tr_engine *e, struct tr_req *r)
{
    struct tr_record rec = {.mask = TR_FIELD(PRIORITY) | TR_FIELD(COUNTERS) | TR_FIELD(LEASE) |
                                    TR_FIELD(DELAY),
                            .delay_us = r->delay_us};
    struct tr_job *job;
    enum tr_verdict found = find(e, r, true, &job);

    if (job == NULL) {
        return found;
    }
    if (!due_ok(r)) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    rec.priority = r->keep_priority ? job->priority : r->priority;
    rec.counters = job->counters;
    rec.counters.releases++;
    if (tr_retry_was_last(job)) {
        rec.counters.buries++; /* the beanstalk port says BURIED */
        tr_retry_die(e, job, TR_WHY_RETRIES, &rec);
    } else if (r->by_backoff) {
        tr_retry_later(e, job, r->start_wall_us, &rec);
    } else if (r->delay_us != 0 || r->at_us != 0) {
        rec.mask |= TR_FIELD(DUE);
        rec.due_us = due_of(e, r);
    }

    int err = r->by_backoff ? tr_retry_revise(e, job, &rec) : tr_change_revise(e, job, &rec, true);

    if (err == TARRY_OK) {
        tr_view_fill(e, job, &r->out.job);
    }
    return end(e, r, err);
}

/* By who holds it; by force one that nobody holds. */
static enum tr_verdict bury(struct tr_engine *e, struct tr_req *r)
{
    struct tr_record rec = {.mask = TR_FIELD(PRIORITY) | TR_FIELD(COUNTERS) | TR_FIELD(LEASE)};
    struct tr_job *job;
    enum tr_verdict found = find(e, r, !r->force, &job);

    if (job == NULL) {
        return found;
    }
    if (job->state == TR_DEAD && !TR_MUTANT(BURIED_TWICE)) {
        tr_view_fill(e, job, &r->out.job);
        return tr_engine_finish(e, r, TARRY_ESTATE);
    }
    rec.counters = job->counters;
    rec.priority = r->keep_priority ? job->priority : r->priority;
    rec.counters.buries++;
    tr_retry_die(e, job, TR_WHY_BURIED, &rec);

    int err = tr_change_revise(e, job, &rec, true);

    if (err == TARRY_OK) {
        tr_view_fill(e, job, &r->out.job);
    }
    return end(e, r, err);
}

/* Makes a dead or delayed job due now. */
static int wake(struct tr_engine *e, const struct tr_req *r, struct tr_job *job)
{
    struct tr_record rec = {.mask = TR_FIELD(DUE), .due_us = e->clock.t_us};
    bool kick = r->op != TR_OP_FIRE;

    if (job->dead_seq != 0) {
        rec.mask |= TR_FIELD(DEAD);
    }
    if (kick) {
        rec.mask |= TR_FIELD(COUNTERS);
        rec.counters = job->counters;
        rec.counters.kicks++;
        if (tr_retry_forgets(job, r->beanstalk)) {
            rec.counters.reserves = 0;
        }
    }
    return tr_change_revise(e, job, &rec, true);
}

static enum tr_verdict wake_job(struct tr_engine *e, struct tr_req *r)
{
    bool kick = r->op == TR_OP_KICK_JOB;
    struct tr_job *job;
    enum tr_verdict found = find(e, r, false, &job);

    if (job == NULL) {
        return found;
    }
    if (job->state == TR_READY || (job->state == TR_DEAD && !kick)) {
        tr_view_fill(e, job, &r->out.job);
        return tr_engine_finish(e, r, TARRY_ESTATE);
    }

    int err = wake(e, r, job);

    if (err == TARRY_OK) {
        tr_view_fill(e, job, &r->out.job);
    }
    return end(e, r, err);
}

enum { KICK_DEAD = 1, KICK_DELAYED, KICK_UNITS = 3 };

/* In slices: progress says which kind was chosen when it began, out.number how many are done. */
static enum tr_verdict kick(struct tr_engine *e, struct tr_req *r)
{
    struct tr_topic *t = tr_topics_by_handle(&e->state.topics, r->topic);
    int err = TARRY_OK;

    if (t == NULL) {
        return tr_engine_finish(e, r, r->progress != 0 ? TARRY_OK : TARRY_ENOTFOUND);
    }
    if (r->progress == 0) {
        r->progress = t->dead != 0 ? KICK_DEAD : KICK_DELAYED;
    }
    while (r->out.number < r->count && err == TARRY_OK) {
        struct tr_job *job = NULL;

        if (r->progress == KICK_DEAD) {
            err = tr_deaths_first(e, t, &job);
        } else {
            err = tr_load_first(e, t, &job);
        }
        r->out.damaged = r->out.damaged || tr_load_unsure(e, t, r->progress == KICK_DEAD);
        if (job == NULL) {
            break;
        }
        if (!tr_engine_charge(e, KICK_UNITS)) {
            return TR_STALL;
        }
        err = wake(e, r, job);
        r->out.number += err == TARRY_OK;
    }
    return end(e, r, r->out.number != 0 && err != TARRY_EFULL ? TARRY_OK : err);
}

static enum tr_verdict edit(struct tr_engine *e, struct tr_req *r)
{
    struct tr_record rec = {.priority = r->priority,
                            .ttr_us = r->ttr_us,
                            .ttl_us = r->ttl_us,
                            .tag = {(const uint8_t *)r->tag, r->tag_len}};
    struct tr_job *job;
    enum tr_verdict found = find(e, r, false, &job);
    int err;

    if (job == NULL) {
        return found;
    }
    if (job->state == TR_DEAD) {
        tr_view_fill(e, job, &r->out.job);
        return tr_engine_finish(e, r, TARRY_ESTATE);
    }
    if (r->edit == 0 || !due_ok(r) || r->ttr_us > TR_DELAY_MAX_US || !extras_ok(r) ||
        ((r->edit & TR_EDIT_TTR) && r->ttr_us == 0)) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    if ((r->edit & TR_EDIT_BODY) && r->body_len > e->config.body_max) {
        return tr_engine_finish(e, r, TARRY_EFULL);
    }
    if ((r->edit & TR_EDIT_BODY) && admit_bytes(r, job->topic, job->body_len) != TARRY_OK) {
        return tr_engine_finish(e, r, TARRY_EQUOTA);
    }
    if (r->edit & TR_EDIT_DUE) {
        rec.mask |= TR_FIELD(DUE) | TR_FIELD(DELAY);
        rec.due_us = due_of(e, r);
        rec.delay_us = r->delay_us;
    }
    rec.mask |= r->edit & TR_EDIT_PRIORITY ? TR_FIELD(PRIORITY) : 0;
    rec.mask |= r->edit & TR_EDIT_TTR ? TR_FIELD(TTR) : 0;
    rec.mask |= r->edit & TR_EDIT_TTL ? TR_FIELD(TTL) : 0;
    rec.mask |= r->edit & TR_EDIT_TAG ? TR_FIELD(TAG) : 0;
    if ((rec.mask & TR_EXTRA_ALTERED) != 0 && !tr_meta_room(e, 1)) {
        e->refusing = true;
        return tr_space_hope(e) ? TR_STALL : tr_engine_finish(e, r, TARRY_ENOSPC);
    }
    err = r->edit & TR_EDIT_BODY ? rewrite(e, job, &rec, r) : tr_change_revise(e, job, &rec, true);
    if (err == TARRY_OK) {
        tr_view_fill(e, job, &r->out.job);
    }
    return end(e, r, err);
}

enum tr_verdict tr_change_execute(struct tr_engine *e, struct tr_req *r)
{
    switch (r->op) {
    case TR_OP_PUSH:
        return push(e, r);
    case TR_OP_DELETE:
        return delete_job(e, r);
    case TR_OP_RELEASE:
        return release(e, r);
    case TR_OP_BURY:
        return bury(e, r);
    case TR_OP_KICK:
        return kick(e, r);
    case TR_OP_KICK_JOB:
    case TR_OP_FIRE:
        return wake_job(e, r);
    case TR_OP_EDIT:
        return edit(e, r);
    default:
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
}
