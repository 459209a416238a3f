/*
 * Schedules at work.
 *
 *     tick --> job (PUSH) and step (SCHED) in one batch          exactly one for each tick (I24)
 *          \-> the last one lives: skip, or one more waits       (SCHED alone)
 *     end of an occurrence --> step: `after` counts from here, one that waits is due now
 *
 * Ticks. The next tick of each schedule stands in a wheel by T. What it does is written in one go:
 * the job and how far the schedule has come are in the same batch, of which a crash leaves all or
 * nothing. A step that makes no job gates nobody: if it is lost, so is what made it, and the tick
 * comes again as one that was missed.
 *
 * Ends. An occurrence is an ordinary job. Whoever ends it (ack, cancel, expiry, last attempt, bury)
 * asks whether it is the last one of a schedule (a map by id, empty if nothing needs it) and writes
 * the step into the same batch, for which he has made room: so a crash cannot leave the one without
 * the other. After a purge, which is one record for any number of jobs, and after a start all are
 * looked at in slices: does the last one still live? A kick of a dead one begins nothing.
 *
 * Missed. Ticks from before the start, or from before the clock was set forward, were missed; so
 * were those that came while the topic or the store took no job (paused for `in`, full, draining,
 * no space): such a schedule is held, and tried again each second. What then happens is its own
 * choice: one job for all of them, as the last one would have been; each; none. Ticks that are only
 * late are not missed. `after` has one tick at a time, which is never skipped.
 *
 * Held, with a test clock. A second is one of T then, and T does not stop each second for one that
 * is held: an advance of 30 days would take millions of stops in which nothing happens. What could
 * free it happens at a stop of T (jobs end, a pause is over), or between two advances (jobs are
 * acked). So held ones are tried at a stop and once more within a second, for what happens there
 * after that; then only after the next stop that has another reason (hope_us). And they are tried
 * when a policy changes, when an advance begins, before T moves, so that a schedule that was freed
 * has all ticks of the advance, and before it is answered.
 *
 * Due is the moment of the tick and its jitter, also when it was missed, so lateness tells the
 * truth. An occurrence that waited for another one (queue) is due when that ended.
 *
 * Zones are read when a schedule first needs one, and kept until the end of the process.
 *
 * Not done here: when ticks are (rules/schedule.c), what records do (sched.c).
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

#define HELD_US UINT64_C(1000000)

static const char who[] = "schedule"; /* in histories */

enum { TICK_UNITS = 8, TIME_UNITS = 20, SCHEDULES_MAX = 1000000 };

/* ---- when ---- */

static struct tr_schedule_plan plan(const struct tr_sched *s)
{
    return (struct tr_schedule_plan){.is = &s->is, .cron = &s->cron, .zone = s->zone};
}

/* Can its ticks be told? */
static bool known(const struct tr_sched *s)
{
    return s->is.kind != TR_SCHEDULE_CRON || s->zone != NULL;
}

static uint64_t next_tick(const struct tr_sched *s)
{
    struct tr_schedule_plan p = plan(s);

    return known(s) ? tr_schedule_next(&p, &s->at) : TR_SCHEDULE_NEVER;
}

static void arm(struct tr_engine *e, struct tr_sched *s)
{
    uint64_t at_us =
        tr_schedule_follows(&s->at) ? 0 : next_tick(s); /* 0: now, also if T is set back */

    tr_wheel_disarm(&e->occur.ticks, &s->timer);
    if (at_us != TR_SCHEDULE_NEVER && tr_list_empty(&s->in_held)) {
        tr_wheel_arm(&e->occur.ticks, &s->timer, at_us);
    }
}

static void disarm(struct tr_engine *e, struct tr_sched *s)
{
    tr_wheel_disarm(&e->occur.ticks, &s->timer);
    if (!tr_list_empty(&s->in_held)) {
        tr_list_remove(&s->in_held);
    }
    s->held = false;
}

/* ---- records; room was made ---- */

static void log_step(struct tr_engine *e, struct tr_sched *s, const struct tr_schedule_state *at,
                     bool gated)
{
    uint8_t bytes[1 + TR_SCHEDULE_STATE_MAX] = {TR_SCHED_STEP};
    struct tr_record rec = {.type = TR_REC_SCHED,
                            .number = s->number,
                            .body = {bytes, 1 + tr_schedule_state_encode(bytes + 1, at)}};
    struct tr_job *none;

    TR_CHECK(tr_state_apply(&e->state, &rec, e->log.open.no, &none) == TARRY_OK);
    if (TR_MUTANT(SCHED_STEP_UNLOGGED) && at->live_id != 0) {
        return;
    }
    tr_log_append(&e->log, &rec, tr_engine_base(e), gated);
    tr_engine_touch_log(e);
}

static int step(struct tr_engine *e, struct tr_sched *s, const struct tr_schedule_state *at,
                bool gated)
{
    int err = tr_log_reserve(&e->log, TR_SCHED_STEP_MAX, 1);

    if (err == TARRY_OK) {
        log_step(e, s, at, gated);
    }
    return err;
}

/* ---- ticks ---- */

static int find_topic(struct tr_engine *e, struct tr_schedule_text name, struct tr_topic **t)
{
    struct tr_topics *ts = &e->state.topics;

    *t = tr_topics_find(ts, name.at, name.len);
    if (*t != NULL) {
        return TARRY_OK;
    }
    if (ts->count - ts->purged >= e->config.max_topics) {
        return TARRY_EQUOTA;
    }
    return tr_topics_add(ts, tr_topics_free_number(ts), name.at, name.len, t);
}

/* Makes a job of the schedule that is due then, with room in the log for so much more. */
static int push(struct tr_engine *e, const struct tr_schedule *is, uint64_t due_us, size_t more,
                struct tr_job_view *job)
{
    struct tr_backoff backoff;
    struct tr_req r = {.op = TR_OP_PUSH,
                       .exact = true,
                       .at_us = due_us,
                       .priority = is->has_priority ? is->priority : 1024,
                       .ttr_us = is->ttr_us,
                       .ttl_us = is->ttl_us,
                       .tag = is->tag.at,
                       .tag_len = is->tag.len,
                       .has_retries = is->has_retries,
                       .retries = is->retries,
                       .body = is->body,
                       .body_len = is->body_len};
    struct tr_topic *t;
    int err = find_topic(e, is->topic, &t);

    if (err != TARRY_OK) {
        return err;
    }
    if (is->backoff.len != 0 &&
        tr_backoff_decode((const uint8_t *)is->backoff.at, is->backoff.len, &backoff) == TARRY_OK) {
        r.backoff = &backoff;
    }
    if (e->actor == 0) { /* else somebody asked for it */
        e->actor = tr_engine_actor(e, who, sizeof who - 1);
        err = tr_change_push(e, &r, t, more);
        e->actor = 0;
    } else {
        err = tr_change_push(e, &r, t, more);
    }
    if (err != TARRY_OK) {
        tr_change_drop_topic(e, t);
        return err;
    }
    *job = r.out.job;
    return TARRY_OK;
}

static int fire(struct tr_engine *e, struct tr_sched *s, struct tr_schedule_state *at,
                uint64_t due_us)
{
    struct tr_job_view job;
    const struct tr_job *made;
    int err = tr_map_reserve(&e->state.scheds.live, 1);

    if (err == TARRY_OK) {
        err = push(e, &s->is, due_us, TR_SCHED_STEP_MAX, &job);
    }
    if (err != TARRY_OK) {
        return err;
    }
    made = tr_jobs_by_id(&e->state.jobs, job.id);
    if (made->state == TR_READY) { /* as late as its tick was */
        tr_change_note_late(e, made);
    }
    tr_schedule_fired(&s->is, at, job.due_us, job.id, made->topic->number);
    log_step(e, s, at, true);
    return TARRY_OK;
}

/* What its tick does. TARRY_EFULL: not now; any other error: it is held. */
static int tick(struct tr_engine *e, struct tr_sched *s)
{
    struct tr_schedule_plan p = plan(s);
    struct tr_schedule_state at = s->at;
    struct tr_schedule_when when = {.now_us = e->clock.t_us,
                                    .since_us = s->held ? e->clock.t_us : e->occur.since_us,
                                    .seed = s->number};
    uint64_t due_us;

    if (!known(s) && !tr_schedule_follows(&at)) {
        return TARRY_OK;
    }
    switch (tr_schedule_tick(&p, &at, when, &due_us)) {
    case TR_SCHEDULE_WAITS:
        return TARRY_OK;
    case TR_SCHEDULE_STEPS:
        return step(e, s, &at, false);
    default:
        return fire(e, s, &at, due_us);
    }
}

static void hold(struct tr_engine *e, struct tr_sched *s, int why)
{
    if (!s->held) {
        tr_engine_note(e, TR_NOTE_WARNING, "Schedule %.*s cannot make its job: %s.",
                       (int)s->name_len, tr_sched_name(s), tarry_strerror(why));
    }
    s->held = true;
    tr_list_append(&e->occur.held, &s->in_held);
    if (e->occur.retry_at == TR_NEVER) {
        e->occur.retry_at = tr_clock_span(&e->clock) + HELD_US;
    }
}

/* When the held ones are tried again. */
static uint64_t retry(const struct tr_engine *e)
{
    const struct tr_occur *o = &e->occur;

    return tr_list_empty(&o->held) || o->retry_at > o->hope_us ? TR_NEVER : o->retry_at;
}

static void try_held(struct tr_engine *e)
{
    struct tr_occur *o = &e->occur;

    if (retry(e) > tr_clock_span(&e->clock)) {
        return;
    }
    while (!tr_list_empty(&o->held) && tr_engine_spend(e)) {
        struct tr_sched *s = TR_CONTAINER_OF(o->held.next, struct tr_sched, in_held);

        tr_list_remove(&s->in_held);
        arm(e, s);
    }
    o->retry_at = tr_list_empty(&o->held) ? TR_NEVER : tr_clock_span(&e->clock);
}

void tr_occur_hope(struct tr_engine *e)
{
    if (e->clock.test) {
        e->occur.hope_us = tr_clock_span(&e->clock) + HELD_US;
    }
}

bool tr_occur_retry(struct tr_engine *e)
{
    uint64_t span_us = tr_clock_span(&e->clock);
    bool any = !tr_list_empty(&e->occur.held);

    tr_occur_hope(e);
    if (any && e->occur.retry_at > span_us) {
        e->occur.retry_at = span_us;
    }
    return any;
}

void tr_occur_changed(struct tr_engine *e)
{
    if (e->clock.test) {
        (void)tr_occur_retry(e);
    }
}

uint64_t tr_occur_retries(const struct tr_engine *e)
{
    return retry(e);
}

/* ---- ends ---- */

void tr_occur_ended(struct tr_engine *e, uint64_t id)
{
    struct tr_sched *s = tr_scheds_by_live(&e->state.scheds, id);
    struct tr_schedule_state at;

    if (s == NULL) {
        return;
    }
    at = s->at;
    tr_schedule_ended(&s->is, &at, e->clock.t_us);
    log_step(e, s, &at, false);
    arm(e, s);
}

/* Dead ones have told; so it is enough that it is there. */
static bool lives(const struct tr_engine *e, const struct tr_sched *s)
{
    const struct tr_topic *t = tr_topics_by_number(&e->state.topics, s->at.live_topic);
    uint64_t id = s->at.live_id;
    uint64_t moved = tr_far_moved_rid(&e->state.jobs.far, id);

    return t != NULL && !t->purged &&
           (tr_jobs_by_id(&e->state.jobs, id) != NULL ||
            tr_bitmap_test(&e->state.jobs.alive, moved != 0 ? moved : id));
}

static void check_ends(struct tr_engine *e)
{
    struct tr_occur *o = &e->occur;

    while (o->checking && tr_engine_spend(e)) {
        struct tr_sched *s = tr_scheds_after(&e->state.scheds, o->checked);

        if (s == NULL) {
            o->checking = false;
            return;
        }
        if (s->at.live_id != 0 && !lives(e, s)) {
            if (tr_log_reserve(&e->log, TR_SCHED_STEP_MAX, 1) != TARRY_OK) {
                e->blocked = true;
                o->blocked = true;
                return;
            }
            tr_occur_ended(e, s->at.live_id);
        }
        o->checked = s->number;
    }
}

void tr_occur_purged(struct tr_engine *e)
{
    e->occur.checking = e->occur.checking || tr_map_count(&e->state.scheds.live) != 0;
    e->occur.checked = 0;
}

/* ---- turns ---- */

void tr_occur_step(struct tr_engine *e)
{
    struct tr_occur *o = &e->occur;
    struct tr_timer *timer;

    o->blocked = false;
    check_ends(e);
    try_held(e);
    while (!o->blocked && (timer = tr_wheel_pop(&o->ticks, e->clock.t_us, &e->work)) != NULL) {
        struct tr_sched *s = TR_CONTAINER_OF(timer, struct tr_sched, timer);
        int err = tick(e, s);

        (void)tr_engine_charge(e, TICK_UNITS);
        if (err == TARRY_EFULL) {
            tr_wheel_arm(&o->ticks, timer, 0);
            e->blocked = true;
            o->blocked = true;
        } else if (err != TARRY_OK) {
            hold(e, s, err);
        } else {
            s->held = s->held && next_tick(s) < e->clock.t_us; /* more may have been missed */
            arm(e, s);
        }
    }
}

uint64_t tr_occur_next(const struct tr_engine *e)
{
    const struct tr_occur *o = &e->occur;
    uint64_t tick = tr_clock_boot_at(&e->clock, tr_wheel_next(&o->ticks));
    uint64_t again;

    if (o->blocked || e->config.read_only) {
        return TR_NEVER;
    }
    if (o->checking) {
        return e->now.boot_us;
    }
    again = tr_clock_span_boot(&e->clock, retry(e));
    return tick < again ? tick : again;
}

uint64_t tr_occur_event(const struct tr_engine *e)
{
    return e->occur.checking ? 0 : tr_wheel_next(&e->occur.ticks);
}

void tr_occur_clock(struct tr_engine *e)
{
    e->occur.since_us = e->clock.t_us;
}

void tr_occur_init(struct tr_engine *e)
{
    tr_wheel_init(&e->occur.ticks, e->clock.t_us);
    tr_atlas_init(&e->occur.atlas, e->mem, e->config.zone, e->config.zone_ctx);
    tr_list_init(&e->occur.held);
    e->occur.retry_at = TR_NEVER;
    e->occur.hope_us = TR_NEVER;
}

int tr_occur_begin(struct tr_engine *e)
{
    const struct tr_list *all = &e->state.scheds.all;

    e->occur.since_us = e->clock.t_us;
    tr_occur_hope(e);
    for (struct tr_list *n = all->next; n != all; n = n->next) {
        struct tr_sched *s = TR_CONTAINER_OF(n, struct tr_sched, link);
        int err = tr_atlas_get(&e->occur.atlas, s->is.tz.at, s->is.tz.len, &s->zone);

        if (err == TARRY_ENOTFOUND) {
            tr_engine_note(e, TR_NOTE_WARNING,
                           "Schedule %.*s stands still: its time zone %.*s is not there any more.",
                           (int)s->name_len, tr_sched_name(s), (int)s->is.tz.len, s->is.tz.at);
        } else if (err != TARRY_OK) {
            return err;
        }
        arm(e, s);
    }
    tr_occur_purged(e);
    return TARRY_OK;
}

void tr_occur_fini(struct tr_engine *e)
{
    tr_atlas_fini(&e->occur.atlas);
}

/* ---- requests ---- */

/* From where on its ticks will be. Of one that is held some will not be: its choice. */
static struct tr_schedule_state ahead(const struct tr_engine *e, const struct tr_sched *s)
{
    struct tr_schedule_plan p = plan(s);

    return s->held && known(s) ? tr_schedule_after_miss(&p, &s->at, e->clock.t_us) : s->at;
}

static void view(const struct tr_engine *e, const struct tr_sched *s, struct tr_schedule_view *v)
{
    struct tr_schedule_plan p = plan(s);
    struct tr_schedule_state at = ahead(e, s);
    uint64_t next = known(s) ? tr_schedule_next(&p, &at) : TR_SCHEDULE_NEVER;

    *v = (struct tr_schedule_view){
        .number = s->number,
        .name = tr_sched_name(s),
        .name_len = s->name_len,
        .is = &s->is,
        .at = &s->at,
        .next_us = next != TR_SCHEDULE_NEVER ? tr_schedule_due(&s->is, next, s->number) : 0,
        .held = s->held,
        .lost = !known(s),
    };
}

void tr_engine_schedules(const struct tr_engine *e, tr_schedule_fn *fn, void *ctx)
{
    const struct tr_list *all = &e->state.scheds.all;

    for (const struct tr_list *n = all->next; n != all; n = n->next) {
        struct tr_schedule_view v;

        view(e, TR_CONTAINER_OF(n, struct tr_sched, link), &v);
        fn(ctx, &v);
    }
}

static enum tr_verdict end(struct tr_engine *e, struct tr_req *r, int err)
{
    return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
}

/* The same once more leaves it as it is, and as far as it has come. */
static bool same(const struct tr_sched *s, const uint8_t *def, size_t len)
{
    return s != NULL && s->def_len == len && memcmp(s->bytes + s->name_len, def, len) == 0;
}

/* What has to be there for one of so many bytes. TARRY_EFULL: not yet. */
static int make_room(struct tr_engine *e, const struct tr_req *r, size_t len)
{
    size_t row = tr_sched_row_bytes(r->name_len, len);

    if (!tr_mem_spare(e->mem, sizeof(struct tr_sched) + r->name_len + 2 * len)) {
        return TARRY_ENOMEM;
    }
    if (!tr_meta_policy_room(e, row)) {
        e->refusing = true;
        return tr_space_hope(e) ? TARRY_EFULL : TARRY_ENOSPC;
    }
    return tr_log_reserve(&e->log, len + TR_RECORD_HEAD_MAX + TR_SCHED_STEP_MAX, 1);
}

/* bytes: room for the body of the record, in which the definition stands from `head` on. */
static int define(struct tr_engine *e, struct tr_req *r, uint8_t *bytes)
{
    struct tr_sched *s = tr_scheds_find(&e->state.scheds, r->name, r->name_len);
    struct tr_schedule_state at = s != NULL
                                      ? tr_schedule_replace(r->schedule, &s->at, e->clock.t_us)
                                      : tr_schedule_begin(r->schedule, e->clock.t_us);
    uint8_t *def = bytes + 1 + TR_VARINT_MAX;
    size_t len = tr_schedule_encode(def, r->schedule);
    const struct tr_zone *zone;
    struct tr_record rec = {.type = TR_REC_SCHED,
                            .number = s != NULL ? s->number : e->state.scheds.next_number,
                            .name = {(const uint8_t *)r->name, r->name_len},
                            .body = {bytes, 0}};
    struct tr_job *none;
    size_t head;
    int err = tr_atlas_get(&e->occur.atlas, r->schedule->tz.at, r->schedule->tz.len, &zone);

    r->out.existed = s != NULL;
    if (err != TARRY_OK || same(s, def, len)) {
        return err;
    }
    if (s == NULL && e->state.scheds.count >= SCHEDULES_MAX) {
        return TARRY_EQUOTA;
    }
    err = make_room(e, r, len);
    if (err != TARRY_OK) {
        return err;
    }
    bytes[0] = TR_SCHED_WHOLE;
    head = 1 + tr_put_varint(bytes + 1, len);
    memmove(bytes + head, def, len);
    rec.body.len = head + len;
    rec.body.len += tr_schedule_state_encode(bytes + rec.body.len, &at);
    if (s != NULL) {
        disarm(e, s);
    }
    err = tr_state_apply(&e->state, &rec, e->log.open.no, &none);
    if (err == TARRY_OK) {
        tr_log_append(&e->log, &rec, tr_engine_base(e), true);
        tr_engine_touch_log(e);
        s = tr_scheds_find(&e->state.scheds, r->name, r->name_len);
        s->zone = zone;
    }
    if (s != NULL) {
        arm(e, s);
    }
    return err;
}

/* Can there be such a schedule? cron: its expression, if it has one. */
static bool is_sound(const struct tr_req *r, struct tr_cron *cron)
{
    const struct tr_schedule *is = r->schedule;
    char why[TR_CRON_WHY];

    return is != NULL && tr_name_ok(r->name, r->name_len) && tr_schedule_ok(is) &&
           (is->kind != TR_SCHEDULE_CRON ||
            tr_cron_read(is->cron.at, is->cron.len, cron, why) == TARRY_OK);
}

static enum tr_verdict put(struct tr_engine *e, struct tr_req *r)
{
    const struct tr_schedule *is = r->schedule;
    struct tr_cron cron;
    uint8_t *bytes;
    size_t size;
    int err;

    if (!is_sound(r, &cron)) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    if (is->body_len > e->config.body_max) {
        return tr_engine_finish(e, r, TARRY_EFULL);
    }
    size = is->body_len + (TR_SCHEDULE_BYTES_MAX - TR_SCHEDULE_BODY_MAX) + TR_SCHEDULE_STATE_MAX +
           (size_t)2 * TR_VARINT_MAX;
    bytes = tr_mem_alloc(e->mem, size);
    err = bytes != NULL ? define(e, r, bytes) : TARRY_ENOMEM;
    tr_mem_free(e->mem, bytes, size);
    if (err == TARRY_OK) {
        view(e, tr_scheds_find(&e->state.scheds, r->name, r->name_len), &r->out.schedule);
    }
    return end(e, r, err);
}

static enum tr_verdict drop(struct tr_engine *e, struct tr_req *r, struct tr_sched *s)
{
    uint8_t what = TR_SCHED_GONE;
    struct tr_record rec = {.type = TR_REC_SCHED, .number = s->number, .body = {&what, 1}};
    struct tr_job *none;
    int err = tr_log_reserve(&e->log, TR_SCHED_STEP_MAX, 1);

    if (err == TARRY_OK) {
        disarm(e, s);
        TR_CHECK(tr_state_apply(&e->state, &rec, e->log.open.no, &none) == TARRY_OK);
        tr_log_append(&e->log, &rec, tr_engine_base(e), true);
        tr_engine_touch_log(e);
    }
    return end(e, r, err);
}

static enum tr_verdict set_paused(struct tr_engine *e, struct tr_req *r, struct tr_sched *s)
{
    struct tr_schedule_state at = s->at;
    int err = TARRY_OK;

    at.paused = r->op == TR_OP_SCHEDULE_PAUSE;
    if (at.paused != s->at.paused) {
        if (!at.paused) {
            tr_schedule_resume(&s->is, &at, e->clock.t_us);
        }
        err = step(e, s, &at, true);
    }
    if (err == TARRY_OK) {
        disarm(e, s);
        arm(e, s);
        view(e, s, &r->out.schedule);
    }
    return end(e, r, err);
}

static enum tr_verdict run(struct tr_engine *e, struct tr_req *r, struct tr_sched *s)
{
    int err = push(e, &s->is, e->clock.t_us, 0, &r->out.job);

    if (err == TARRY_OK) {
        view(e, s, &r->out.schedule);
    }
    return end(e, r, err);
}

/* Whose ticks are foretold: those of a schedule that there is, or of one that may be made. */
struct sight {
    struct tr_schedule_plan plan;
    struct tr_schedule_state at;
    uint64_t number;
    bool known;
};

/* What will be, as far as it can be told; in slices, as a tick may be far away. */
static enum tr_verdict foretell(struct tr_engine *e, struct tr_req *r, const struct sight *s)
{
    struct tr_occur *o = &e->occur;

    if (o->asker != NULL && o->asker != r) {
        return TR_STALL;
    }
    if (r->count > TR_SCHEDULE_TIMES_MAX) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    if (o->asker == NULL || s->at.tick_us > o->ahead.tick_us) { /* it has come further meanwhile */
        o->ahead = s->at;
        r->out.number = 0;
    }
    o->asker = r;
    while (r->out.number < r->count && s->known) {
        uint64_t tick;

        if (!tr_engine_charge(e, TIME_UNITS)) {
            return TR_STALL;
        }
        tick = tr_schedule_next(&s->plan, &o->ahead);
        if (tick == TR_SCHEDULE_NEVER) {
            break;
        }
        o->times[r->out.number++] = tr_schedule_due(s->plan.is, tick, s->number);
        o->ahead.tick_us = tick;
        o->ahead.fired++;
        if (s->plan.is->kind == TR_SCHEDULE_AFTER) {
            break; /* the one after it depends on how long it takes */
        }
    }
    o->asker = NULL;
    r->out.times = o->times;
    return tr_engine_finish(e, r, TARRY_OK);
}

static enum tr_verdict foretell_this(struct tr_engine *e, struct tr_req *r, struct tr_sched *s)
{
    struct sight sight = {
        .plan = plan(s), .at = ahead(e, s), .number = s->number, .known = known(s)};

    view(e, s, &r->out.schedule);
    return foretell(e, r, &sight);
}

/* Of one that is not made: nothing is changed, but that its zone is known from now on. */
static enum tr_verdict foretell_new(struct tr_engine *e, struct tr_req *r)
{
    const struct tr_sched *s = tr_scheds_find(&e->state.scheds, r->name, r->name_len);
    struct tr_cron cron;
    struct sight sight = {.plan = {.is = r->schedule, .cron = &cron}, .known = true};
    int err = is_sound(r, &cron) ? tr_atlas_get(&e->occur.atlas, r->schedule->tz.at,
                                                r->schedule->tz.len, &sight.plan.zone)
                                 : TARRY_EINVAL;

    if (err != TARRY_OK) {
        tr_occur_drop(e, r);
        return tr_engine_finish(e, r, err);
    }
    sight.at = tr_schedule_begin(r->schedule, e->clock.t_us);
    sight.number = s != NULL ? s->number : e->state.scheds.next_number;
    r->out.schedule = (struct tr_schedule_view){.name = r->name, .name_len = r->name_len};
    return foretell(e, r, &sight);
}

void tr_occur_drop(struct tr_engine *e, const struct tr_req *r)
{
    if (e->occur.asker == r) {
        e->occur.asker = NULL;
    }
}

enum tr_verdict tr_occur_execute(struct tr_engine *e, struct tr_req *r)
{
    struct tr_sched *s = NULL;

    if (r->op >= TR_OP_COUNT) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    if (r->op == TR_OP_SCHEDULE) {
        return put(e, r);
    }
    if (r->op == TR_OP_SCHEDULE_TIMES && r->schedule != NULL) {
        return foretell_new(e, r);
    }
    if (r->op == TR_OP_SCHEDULE_AFTER) {
        s = tr_scheds_after(&e->state.scheds, r->id);
    } else if (r->name != NULL) {
        s = tr_scheds_find(&e->state.scheds, r->name, r->name_len);
    }
    if (s == NULL) {
        tr_occur_drop(e, r);
        return tr_engine_finish(e, r, TARRY_ENOTFOUND);
    }
    switch (r->op) {
    case TR_OP_SCHEDULE_DROP:
        return drop(e, r, s);
    case TR_OP_SCHEDULE_PAUSE:
    case TR_OP_SCHEDULE_RESUME:
        return set_paused(e, r, s);
    case TR_OP_SCHEDULE_RUN:
        return run(e, r, s);
    case TR_OP_SCHEDULE_TIMES:
        return foretell_this(e, r, s);
    default: /* GET, AFTER */
        view(e, s, &r->out.schedule);
        return tr_engine_finish(e, r, TARRY_OK);
    }
}
