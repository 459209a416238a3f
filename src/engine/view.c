/*
 * Requests that only look, and the bookkeeping of names.
 *
 * They are answered from memory at once; only a body that is on disk takes a read. After the read
 * the request starts over if the job is not the same any more. Their answers are gated like all
 * others: what they saw may not be durable yet (R22).
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

static const char *text_of(struct tr_bytes b)
{
    return b.len != 0 ? (const char *)b.at : NULL;
}

void tr_view_extra(struct tr_job_view *v, const struct tr_extra *x)
{
    v->key = text_of(tr_extra_key(x));
    v->key_len = tr_extra_key(x).len;
    v->tag = text_of(tr_extra_tag(x));
    v->tag_len = tr_extra_tag(x).len;
    v->backoff = tr_extra_backoff(x);
    v->ttl_us = x != NULL ? x->ttl_us : 0;
    v->has_retries = x != NULL && x->has_retries;
    v->retries = v->has_retries ? x->retries : 0;
}

void tr_view_fill(const struct tr_engine *e, const struct tr_job *job, struct tr_job_view *v)
{
    uint64_t span_us = tr_clock_span(&e->clock);

    *v = (struct tr_job_view){
        .id = job->id,
        .topic = job->topic->handle,
        .topic_name = job->topic->name,
        .topic_name_len = job->topic->name_len,
        .state = (enum tr_job_state)job->state,
        .priority = job->priority,
        .due_us = job->due_us,
        .created_us = job->created_us,
        .age_us = e->clock.t_us > job->created_us ? e->clock.t_us - job->created_us : 0,
        .delay_us = job->delay_us,
        .ttr_us = tr_policy_ttr(job->ttr_us),
        .reserves = job->counters.reserves,
        .timeouts = job->counters.timeouts,
        .releases = job->counters.releases,
        .buries = job->counters.buries,
        .kicks = job->counters.kicks,
        .body_len = job->body_len,
        .dead_why = job->dead_reason,
        .dead_at_us = job->dead_at_us,
        .beanstalk = (job->flags & TR_RF_BEANSTALK) != 0,
    };
    tr_view_extra(v, job->extra);
    if (job->state == TR_DELAYED && job->due_us > e->clock.t_us) {
        v->left_us = job->due_us - e->clock.t_us;
    }
    if (job->state == TR_RESERVED) {
        v->lease = job->lease;
        if (job->timer.armed && job->timer.at_us > span_us) {
            v->left_us = job->timer.at_us - span_us;
        }
    }
    if ((job->state == TR_READY || job->state == TR_RESERVED) && job->first_us > job->due_us) {
        v->late_us = job->first_us - job->due_us;
    }
}

static enum tr_verdict show(struct tr_engine *e, struct tr_req *r, struct tr_job *job)
{
    int err;

    if (job->body != NULL) {
        tr_view_fill(e, job, &r->out.job);
        r->out.job.body = job->body;
        return tr_engine_finish(e, r, TARRY_OK);
    }
    err = tr_read_start(e, job, r, false);
    if (err == TARRY_EFULL) {
        return TR_STALL;
    }
    return err == TARRY_OK ? TR_WAITS : tr_engine_finish(e, r, err);
}

/* A body was read for a look; job is NULL when it is not the same any more. */
void tr_view_body(struct tr_engine *e, struct tr_read *read, struct tr_job *job, int status)
{
    struct tr_req *r = read->req;

    if (job == NULL || (r->op == TR_OP_PEEK_FIRST && job->stamp != read->stamp)) {
        tr_engine_stall(e, r); /* it may not be the first any more */
        return;
    }
    tr_view_fill(e, job, &r->out.job);
    if (status == TARRY_OK) {
        r->out.job.body = read->buf + read->len - job->body_len;
    }
    (void)tr_engine_finish(e, r, status);
}

static enum tr_verdict peek(struct tr_engine *e, struct tr_req *r)
{
    struct tr_job *job;

    int err = tr_load_by_id(e, r->id, &job);

    if (err == TARRY_OK) {
        err = tr_expiry_settle(e, job);
    }
    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
    }
    if (r->op == TR_OP_PEEK) {
        return show(e, r, job);
    }
    tr_view_fill(e, job, &r->out.job);
    r->out.name = job->topic->name;
    r->out.name_len = job->topic->name_len;
    return tr_engine_finish(e, r, TARRY_OK);
}

static enum tr_verdict peek_first(struct tr_engine *e, struct tr_req *r)
{
    struct tr_topic *t = tr_topics_by_handle(&e->state.topics, r->topic);
    struct tr_job *job = NULL;
    int err = TARRY_OK;

    if (r->order >= TR_ORDER_COUNT ||
        (r->state != TR_DELAYED && r->state != TR_READY && r->state != TR_DEAD)) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    if (t != NULL && r->state == TR_DEAD) {
        err = tr_deaths_first(e, t, &job);
    } else if (t != NULL && r->state == TR_DELAYED) {
        err = tr_load_first(e, t, &job);
    } else if (t != NULL) {
        err = tr_expiry_waits_of(e, t) ? TARRY_EFULL : tr_topic_first(t, r->order, &e->work, &job);
        if (err == TARRY_OK && job == NULL && tr_park_coming(e, t)) {
            err = TARRY_EFULL;
        }
    }
    if (err == TARRY_EFULL) {
        return TR_STALL;
    }
    r->out.damaged = t != NULL && r->state != TR_READY && tr_load_unsure(e, t, r->state == TR_DEAD);
    if (err != TARRY_OK || job == NULL) {
        return tr_engine_finish(e, r, err != TARRY_OK ? err : TARRY_ENOTFOUND);
    }
    return show(e, r, job);
}

static void show_figures(const struct tr_engine *e, const struct tr_topic *t,
                         struct tr_topic_stat *s)
{
    uint64_t span_us = tr_clock_span(&e->clock);

    s->oldest_ready_us = tr_topic_oldest(t);
    s->pushed_milli = tr_rate_milli(&t->pushes, span_us);
    s->handed_milli = tr_rate_milli(&t->hands, span_us);
    s->late_p50_us = tr_late_percentile(t->late, 50, span_us);
    s->late_p99_us = tr_late_percentile(t->late, 99, span_us);
}

enum tr_verdict tr_view_topic(struct tr_engine *e, struct tr_req *r)
{
    struct tr_topic *t = tr_topics_by_handle(&e->state.topics, r->topic);
    bool figures = r->op == TR_OP_STAT_TOPIC;
    uint64_t next_us = 0;
    uint64_t overdue;
    int err;

    if (t == NULL) {
        return tr_engine_finish(e, r, TARRY_ENOTFOUND);
    }
    if ((t->parked && !tr_park_counted(e)) ||
        (r->op == TR_OP_STAT_TOPIC && tr_expiry_waits_of(e, t))) {
        return TR_STALL;
    }
    err = figures && !r->counts_only ? tr_nearest_due(e, t, &r->progress, &next_us) : TARRY_OK;
    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
    }
    overdue = t->overdue < t->far ? t->overdue : t->far;
    r->out.name = t->name;
    r->out.name_len = t->name_len;
    r->out.stat = (struct tr_topic_stat){.delayed = t->count[TR_DELAYED] + t->far - overdue,
                                         .ready = t->count[TR_READY] + overdue,
                                         .urgent = t->urgent,
                                         .reserved = t->count[TR_RESERVED],
                                         .dead = t->dead,
                                         .pushed = t->pushed,
                                         .deleted = t->deleted,
                                         .dropped = t->dropped,
                                         .waiting = t->waiting,
                                         .pauses = t->pauses,
                                         .pause_us = t->pause_us,
                                         .listed = t->listed,
                                         .policy = tr_topic_policy(t),
                                         .now_us = e->clock.t_us,
                                         .next_due_us = next_us};
    memcpy(r->out.stat.holds, t->holds, sizeof t->holds);
    if (figures) {
        show_figures(e, t, &r->out.stat);
    }
    if (t->pause.armed && t->pause.at_us > tr_clock_span(&e->clock)) {
        r->out.stat.pause_left_us = t->pause.at_us - tr_clock_span(&e->clock);
    }
    return tr_engine_finish(e, r, TARRY_OK);
}

static enum tr_verdict stat_all(struct tr_engine *e, struct tr_req *r)
{
    const struct tr_totals *all = &e->state.topics.totals;
    const struct tr_late *late = e->state.topics.late;
    uint64_t span_us = tr_clock_span(&e->clock);
    uint64_t overdue;

    if (!tr_park_counted(e) || tr_expiry_waits(e)) {
        return TR_STALL;
    }
    overdue = e->state.topics.overdue < all->far ? e->state.topics.overdue : all->far;
    r->out.stat =
        (struct tr_topic_stat){.delayed = all->count[TR_DELAYED] + all->far - overdue,
                               .ready = all->count[TR_READY] + overdue,
                               .urgent = all->urgent,
                               .reserved = all->count[TR_RESERVED],
                               .dead = all->count[TR_DEAD] + all->dead_far,
                               .pushed = all->pushed,
                               .deleted = all->deleted,
                               .dropped = all->dropped,
                               .timeouts = all->timeouts,
                               .waiting = e->wait_count,
                               .pauses = all->pauses,
                               .now_us = e->clock.t_us,
                               .history_us = e->histories.since_us,
                               .pushed_milli = tr_rate_milli(&e->state.topics.pushes, span_us),
                               .handed_milli = tr_rate_milli(&e->state.topics.hands, span_us),
                               .late_p50_us = tr_late_percentile(late, 50, span_us),
                               .late_p99_us = tr_late_percentile(late, 99, span_us)};
    memcpy(r->out.stat.holds, all->holds, sizeof all->holds);
    r->out.number = r->shown ? tr_topics_shown(&e->state.topics) : e->state.topics.listed;
    return tr_engine_finish(e, r, TARRY_OK);
}

static enum tr_verdict answer_topic(struct tr_engine *e, struct tr_req *r, struct tr_topic *t)
{
    if (t == NULL) {
        return tr_engine_finish(e, r, TARRY_ENOTFOUND);
    }
    r->out.topic = t->handle;
    r->out.name = t->name;
    r->out.name_len = t->name_len;
    r->out.stat.listed = t->listed;
    return tr_engine_finish(e, r, TARRY_OK);
}

static enum tr_verdict find_topic(struct tr_engine *e, struct tr_req *r)
{
    struct tr_topic *t;

    if (!tr_name_ok(r->name, r->name_len)) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    t = tr_topics_find(&e->state.topics, r->name, r->name_len);
    return answer_topic(e, r, t != NULL && r->shown && !tr_topic_shown(t) ? NULL : t);
}

static enum tr_verdict next_topic(struct tr_engine *e, struct tr_req *r)
{
    struct tr_topic *t = tr_topics_after(&e->state.topics, r->topic);

    while (t != NULL && r->shown && !tr_topic_shown(t)) { /* once: one is pinned at most */
        t = tr_topics_after(&e->state.topics, t->handle);
    }
    return answer_topic(e, r, t);
}

/* For one topic more. Those in use come before those that are only remembered. */
static bool has_room(struct tr_engine *e)
{
    struct tr_topics *ts = &e->state.topics;

    while (ts->count - ts->purged >= e->config.max_topics && ts->kept_count > 0) {
        tr_change_let_go_topic(e, tr_topics_longest_kept(ts));
    }
    return ts->count - ts->purged < e->config.max_topics;
}

static enum tr_verdict hold_topic(struct tr_engine *e, struct tr_req *r)
{
    struct tr_topics *ts = &e->state.topics;
    struct tr_topic *t;

    if (!tr_name_ok(r->name, r->name_len) || (unsigned)r->hold >= TR_HOLD_COUNT) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    t = tr_topics_find(ts, r->name, r->name_len);
    if (t == NULL && r->hold != TR_HOLD_KEEP && !has_room(e)) { /* else no port could be opened */
        r->out.why = "there are as many topics as limits.topics allows: delete some, or raise it";
        return tr_engine_finish(e, r, TARRY_EFULL);
    }
    if (t == NULL && !tr_mem_spare(e->mem, sizeof *t)) {
        return tr_engine_finish(e, r, TARRY_ENOMEM);
    }
    if (t == NULL &&
        tr_topics_add(ts, tr_topics_free_number(ts), r->name, r->name_len, &t) != TARRY_OK) {
        return tr_engine_finish(e, r, TARRY_ENOMEM);
    }
    tr_topic_hold(t, r->hold);
    return answer_topic(e, r, t);
}

static enum tr_verdict drop_topic(struct tr_engine *e, struct tr_req *r)
{
    struct tr_topic *t = tr_topics_by_handle(&e->state.topics, r->topic);

    if ((unsigned)r->hold >= TR_HOLD_COUNT) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    if (t == NULL || t->holds[r->hold] == 0) {
        return tr_engine_finish(e, r, TARRY_ENOTFOUND);
    }
    tr_topic_unhold(t, r->hold);
    tr_change_drop_topic(e, t);
    return tr_engine_finish(e, r, TARRY_OK);
}

enum tr_verdict tr_view_execute(struct tr_engine *e, struct tr_req *r)
{
    switch (r->op) {
    case TR_OP_PEEK:
    case TR_OP_STAT_JOB:
        return peek(e, r);
    case TR_OP_PEEK_FIRST:
        return peek_first(e, r);
    case TR_OP_STAT_TOPIC:
        return tr_view_topic(e, r);
    case TR_OP_STAT:
        return stat_all(e, r);
    case TR_OP_HOLD_TOPIC:
        return hold_topic(e, r);
    case TR_OP_DROP_TOPIC:
        return drop_topic(e, r);
    case TR_OP_FIND_TOPIC:
        return find_topic(e, r);
    case TR_OP_NEXT_TOPIC:
        return next_topic(e, r);
    case TR_OP_PICTURE:
        return tr_engine_finish(e, r, TARRY_EUNSUPPORTED);
    case TR_OP_RESTORE:
        r->out.why = "there is nothing to restore from: the store is all that there is";
        return tr_engine_finish(e, r, TARRY_EUNSUPPORTED);
    default:
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
}

bool tr_view_only(const struct tr_req *r)
{
    switch (r->op) {
    case TR_OP_PEEK:
    case TR_OP_PEEK_FIRST:
    case TR_OP_STAT_JOB:
    case TR_OP_STAT_TOPIC:
    case TR_OP_STAT:
    case TR_OP_FORECAST:
    case TR_OP_HOLD_TOPIC:
    case TR_OP_FIND_TOPIC:
    case TR_OP_DROP_TOPIC:
    case TR_OP_NEXT_TOPIC:
    case TR_OP_LIST:
    case TR_OP_HISTORY:
    case TR_OP_CLOSE:
    case TR_OP_SCHEDULE_GET:
    case TR_OP_SCHEDULE_AFTER:
    case TR_OP_SCHEDULE_TIMES:
        return true;
    case TR_OP_BULK:
        return r->dry_run;
    default:
        return false;
    }
}

void tr_engine_topics(const struct tr_engine *e, tr_topic_fn *fn, void *ctx)
{
    const struct tr_list *all = &e->state.topics.all;

    for (const struct tr_list *n = all->next; n != all; n = n->next) {
        const struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, link);
        struct tr_topic_fact fact = {.name = t->name,
                                     .name_len = t->name_len,
                                     .jobs = t->jobs,
                                     .bytes = t->bytes,
                                     .number = t->number,
                                     .handle = t->handle,
                                     .policy = t->policy};

        if (!t->purged && tr_topics_find(&e->state.topics, t->name, t->name_len) == t) {
            fn(ctx, &fact);
        }
    }
}
