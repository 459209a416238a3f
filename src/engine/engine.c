/*
 * The engine's loop.
 *
 *     submit ----> execute ----> done, with a gate; then those who waited for what it made ready
 *                     |  \-----> waits (handout.c, read.c)
 *                     \--------> stalled: tried again each turn, in order
 *     turn   ----> clock, due jobs, leases, stalled requests, waiters, metadata, space, commit
 *     io_done ---> log, read, meta or space, by the owner of the io
 *
 * Everything takes effect in memory at once and is answered with the number of the batch that
 * must be durable before the answer may be seen (R22). One thread, no waiting.
 *
 * A turn does at most `slice` units of work and says when it wants to be called again; nothing is
 * periodic: every timer is a one-shot deadline that some change has armed.
 */

#include "engine/engine.h"

#include "base/err.h"
#include "base/mutant.h"
#include "base/text.h"
#include "engine/inner.h"

#include <stdarg.h>

void tr_engine_config_init(struct tr_engine_config *c, struct tr_mem *mem)
{
    *c = (struct tr_engine_config){
        .mem = mem,
        .sync = TR_SYNC_ALWAYS,
        .sync_us = 50000,
        .slot_bytes = UINT64_C(16) << 20,
        .slots_max = 128,
        .batch_bytes = UINT64_C(4) << 20,
        .body_max = 1 << 20,
        .body_cache_bytes = UINT64_C(256) << 20,
        .move_body_max = 4096,
        .rid_block = 1 << 20,
        .slice = 1000,
        .checkpoint_slack = UINT64_C(4) << 20,
        .seal_us = 50000,
        .near_us = 60000000,
        .near_min = 64,
        .near_max = 2500000,
        .far_max = 1000000,
        .cells_max = TR_CELLS_MAX_DEFAULT,
        .hour_us = TR_CELL_HOUR_US,
        .promote_slots = 4,
        .crowd = 4096,
        .merge_groups = 224,
        .merge_waste = UINT64_C(8) << 20,
        .background_rate = UINT64_C(100) << 20,
        .scrub_rate = 10000000,
        .scrub_every_us = UINT64_C(7) * 86400 * 1000000,
        .lazy_us = 100000,
        .gather_us = 5000,
        .gather_bytes = UINT64_C(256) << 10,
        .linger_us = 300,
        .many_topics = 32,
        .max_topics = 1000000,
        .meters = TR_METERS_MAX,
        .checkpoint_us = 30000000,
        .idle_us = 10000000,
        .history_us = UINT64_C(86400) * 1000000,
        .history_bytes = UINT64_C(64) << 20,
        .history_flush_us = 200000,
    };
}

void tr_engine_note(const struct tr_engine *e, enum tr_notice kind, const char *format, ...)
{
    char text[512];
    va_list args;

    if (e->config.notice == NULL) {
        return;
    }
    va_start(args, format);
    tr_text_list(text, sizeof text, format, args);
    va_end(args);
    e->config.notice(e->config.ctx, kind, text);
}

struct tr_base tr_engine_base(const struct tr_engine *e)
{
    return (struct tr_base){.rid = e->state.next_rid, .clock_us = e->clock.t_us};
}

bool tr_engine_charge(struct tr_engine *e, unsigned units)
{
    if (e->work == 0) {
        return false;
    }
    e->work -= units < e->work ? units : e->work;
    return true;
}

bool tr_engine_spend(struct tr_engine *e)
{
    return tr_engine_charge(e, 1);
}

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void arm(uint64_t *deadline, uint64_t at_us)
{
    if (*deadline == TR_NEVER) {
        *deadline = at_us;
    }
}

void tr_engine_touch_log(struct tr_engine *e)
{
    if (e->lazy_at == TR_NEVER) {
        e->gauges.open_us = e->now.boot_us; /* the first one since the last batch went */
    }
    arm(&e->lazy_at, e->now.boot_us + (e->config.sync == TR_SYNC_ALWAYS ? e->config.lazy_us
                                                                        : e->config.gather_us));
    arm(&e->checkpoint_at, e->now.boot_us + e->config.checkpoint_us);
    e->idle_at = e->now.boot_us + e->config.idle_us;
    e->space.idle = false;
}

/* ---- requests ---- */

enum tr_verdict tr_engine_finish(struct tr_engine *e, struct tr_req *r, int status)
{
    r->out.status = e->failed ? TARRY_EIO : status;
    r->out.gate = e->failed ? 0 : tr_log_gate(&e->log);
    if (TR_MUTANT(UNGATED_NEGATIVE) && status != TARRY_OK) {
        r->out.gate = 0;
    }
    r->busy = false;
    r->done(r);
    return TR_DONE;
}

void tr_engine_stall(struct tr_engine *e, struct tr_req *r)
{
    r->next = NULL;
    r->prev = e->stalled_last;
    *(e->stalled_last != NULL ? &e->stalled_last->next : &e->stalled_first) = r;
    e->stalled_last = r;
    r->stalled = true;
}

static void unstall(struct tr_engine *e, struct tr_req *r)
{
    *(r->prev != NULL ? &r->prev->next : &e->stalled_first) = r->next;
    *(r->next != NULL ? &r->next->prev : &e->stalled_last) = r->prev;
    r->stalled = false;
}

static enum tr_verdict execute(struct tr_engine *e, struct tr_req *r)
{
    int err = e->config.read_only && !tr_view_only(r) ? TARRY_EREADONLY : tr_lookup_resolve(e, r);

    e->actor = r->actor;
    if (err == TARRY_EFULL) {
        return TR_STALL;
    }
    if (err != TARRY_OK) {
        tr_handout_cancel_wait(e, r);
        tr_past_drop(e, r);
        return tr_engine_finish(e, r, err);
    }
    switch (r->op) {
    case TR_OP_PUSH:
    case TR_OP_DELETE:
    case TR_OP_RELEASE:
    case TR_OP_BURY:
    case TR_OP_KICK:
    case TR_OP_KICK_JOB:
    case TR_OP_FIRE:
    case TR_OP_EDIT:
        return tr_change_execute(e, r);
    case TR_OP_RESERVE:
    case TR_OP_RESERVE_JOB:
    case TR_OP_TOUCH:
    case TR_OP_RETURN:
    case TR_OP_PAUSE:
    case TR_OP_CLOSE:
        return tr_handout_execute(e, r);
    case TR_OP_LIST:
        return tr_listing_execute(e, r);
    case TR_OP_PURGE:
        return tr_purge_execute(e, r);
    case TR_OP_POLICY:
        return tr_policies_execute(e, r);
    case TR_OP_FORECAST:
        return tr_forecast_execute(e, r);
    case TR_OP_BULK:
        return tr_bulk_execute(e, r);
    case TR_OP_ADVANCE:
        return tr_advance_execute(e, r);
    case TR_OP_BACKUP:
        return tr_backup_execute(e, r);
    case TR_OP_HISTORY:
        return tr_past_execute(e, r);
    default:
        return r->op >= TR_OP_SCHEDULE ? tr_occur_execute(e, r) : tr_view_execute(e, r);
    }
}

/* Brings the clock up to date and tells when it was set. */
static void set_now(struct tr_engine *e, struct tr_now now)
{
    uint64_t was = e->clock.t_us;

    if (now.boot_us < e->clock.boot_us) {
        now.boot_us = e->clock.boot_us; /* a caller with an older reading than ours */
    }
    e->now = now;
    e->forecast.seen_us = was > e->forecast.seen_us ? was : e->forecast.seen_us;
    switch (tr_clock_update(&e->clock, now)) {
    case TR_CLOCK_STEPPED_BACK:
        tr_engine_note(e, TR_NOTE_WARNING,
                       "The clock was set back by %.3f s: jobs will be late by that much.",
                       (double)(was - e->clock.t_us) / 1e6);
        break;
    case TR_CLOCK_STEPPED_FORWARD:
        tr_engine_note(e, TR_NOTE_WARNING, "The clock was set forward by %.3f s.",
                       (double)(e->clock.t_us - was) / 1e6);
        tr_occur_clock(e);
        break;
    case TR_CLOCK_RUNS:
        break;
    }
}

/* A call from outside begins; false: it comes from inside `done`, and shares the outer one's slice.
 */
static bool enter(struct tr_engine *e)
{
    if (e->inside) {
        return false;
    }
    e->inside = true;
    e->work = e->config.slice;
    return true;
}

/* It ends. Who waits gets his job before the next command is looked at, whoever sends that. */
static void leave(struct tr_engine *e, bool outer)
{
    if (outer) {
        if (!e->failed) {
            tr_handout_serve(e);
        }
        e->inside = false;
    }
}

void tr_engine_submit(struct tr_engine *e, struct tr_req *r, struct tr_now now)
{
    bool outer = enter(e);

    set_now(e, now);
    r->start_wall_us = e->clock.test ? e->clock.t_us : now.wall_us;
    r->progress = 0;
    r->own = NULL;
    r->busy = true;
    r->stalled = false;
    r->out.status = TARRY_OK;
    r->out.why = NULL;
    r->out.gate = 0;
    r->out.number = 0;
    r->out.jobs = NULL;
    r->out.cursor = (struct tr_cursor){0};
    r->out.passed = 0;
    r->out.existed = false;
    r->out.damaged = false;
    r->out.stat = (struct tr_topic_stat){0};
    r->out.forecast = (struct tr_forecast_view){0};
    r->out.job = (struct tr_job_view){0};
    if (e->failed) {
        (void)tr_engine_finish(e, r, TARRY_EIO);
    } else if (execute(e, r) == TR_STALL) {
        tr_engine_stall(e, r);
    }
    leave(e, outer);
}

void tr_engine_abandon(struct tr_engine *e, struct tr_req *r, struct tr_now now)
{
    set_now(e, now);
    if (!r->busy) {
        return;
    }
    if (r->stalled) {
        unstall(e, r);
    }
    for (struct tr_list *n = e->reads.next; n != &e->reads; n = n->next) {
        struct tr_read *read = TR_CONTAINER_OF(n, struct tr_read, link);
        struct tr_job *job = tr_jobs_by_rid(&e->state.jobs, read->rid);

        if (read->req != r) {
            continue;
        }
        read->req = NULL;
        if (job != NULL && read->lease != 0) {
            tr_handout_undo(e, job->id, read->lease);
        }
    }
    tr_handout_cancel_wait(e, r);
    tr_listing_abandon(e, r);
    tr_forecast_drop(e, r);
    tr_bulk_abandon(e, r);
    tr_advance_abandon(e, r);
    tr_backup_abandon(e, r);
    tr_past_drop(e, r);
    tr_occur_drop(e, r);
    r->busy = false;
}

/* Tries each stalled request once, in order: what one waits for another may not need. */
static void run_stalled(struct tr_engine *e)
{
    struct tr_req *last = e->stalled_last;
    struct tr_req *r = NULL;

    for (unsigned tries = e->config.slice;
         tries > 0 && e->work > 0 && r != last && e->stalled_first != NULL; tries--) {
        r = e->stalled_first;
        unstall(e, r);
        if (execute(e, r) == TR_STALL) {
            tr_engine_stall(e, r); /* a vain try is no work: else many would keep us awake */
        } else {
            e->moved = true;
            (void)tr_engine_spend(e);
        }
    }
}

void tr_engine_fail(struct tr_engine *e, const char *why)
{
    if (e->failed) {
        return;
    }
    e->failed = true;
    for (struct tr_list *n = e->reads.next; n != &e->reads; n = n->next) {
        struct tr_read *read = TR_CONTAINER_OF(n, struct tr_read, link);
        struct tr_req *r = read->req;

        read->req = NULL;
        if (r != NULL && r->own == NULL) { /* the others are in engine->waiting */
            (void)tr_engine_finish(e, r, TARRY_EIO);
        }
    }
    tr_engine_note(e, TR_NOTE_FATAL, "%s Nothing more is accepted; restart to recover.", why);
    while (e->stalled_first != NULL) {
        struct tr_req *r = e->stalled_first;

        unstall(e, r);
        tr_handout_cancel_wait(e, r);
        tr_forecast_drop(e, r);
        tr_occur_drop(e, r);
        (void)tr_engine_finish(e, r, TARRY_EIO);
    }
    tr_handout_fail(e);
    tr_listing_fail(e);
    tr_bulk_fail(e);
    tr_advance_fail(e);
    tr_backup_fail(e);
}

/* ---- the log ---- */

static void place(struct tr_engine *e, const struct tr_placed *p)
{
    struct tr_job *job = tr_jobs_by_rid(&e->state.jobs, p->rid);

    if (job == NULL) {
        return; /* dead or moved before it was written */
    }
    e->log.tail->last_rid = p->rid > e->log.tail->last_rid ? p->rid : e->log.tail->last_rid;
    tr_job_unplace(job, e->log.flight.no); /* a RELOG takes the place of the old record */
    tr_job_place(job, e->log.tail, e->log.flight_off + TR_FRAME_HEAD + p->off, p->len);
    tr_park_placed(e, job);
    if (!tr_load_placed(e, job) && e->state.jobs.body_bytes > e->config.body_cache_bytes) {
        tr_jobs_drop_body(&e->state.jobs, job);
    }
}

/*
 * The last batch is on its slot: its records have a place now. In slices, since a batch may have
 * tens of thousands; until it is done no other batch is closed, so to everybody else it looks as
 * if the batch were still on its way, but for its answers, which go out at once.
 */
void tr_engine_place(struct tr_engine *e)
{
    struct tr_batch *b = &e->log.flight;
    unsigned rest = e->work / 2; /* half of the slice is for everything else */

    e->work -= rest;
    while (e->placing && tr_engine_spend(e)) { /* and a job that leaves memory spends, too */
        if (e->place_next < b->placed_count) {
            place(e, &b->placed[e->place_next++]);
        } else {
            e->placing = false;
        }
    }
    e->work += rest;
}

void tr_engine_tell_durable(struct tr_engine *e)
{
    if (e->log.durable > e->told_durable) {
        e->told_durable = e->log.durable;
        if (e->config.durable != NULL) {
            e->config.durable(e->config.ctx, e->told_durable);
        }
    }
}

/*
 * A batch is durable, and its answers leave now. Many of those who get one will ask again at once;
 * a batch that goes before they have would leave them a whole commit behind the others, and so on
 * for ever: two crowds that take turns, each with half of the batches. So the next one waits until
 * as many changes are in it as were in this one and came meanwhile; but not for longer than a
 * commit takes.
 *
 * In the first turn after a commit those who came meanwhile have been read, and the answers have
 * not been sent; in the second they have, which takes its time, too.
 */
static void linger(struct tr_engine *e)
{
    uint64_t most = e->commit_took < e->config.linger_us ? e->commit_took : e->config.linger_us;

    if (e->linger_turn == 1) {
        e->linger_changes = (uint64_t)e->log.flight.changes + e->log.open.changes;
        e->linger_at = e->now.boot_us + 2 * most;
        e->linger_turn = 2;
    } else if (e->linger_turn == 2) {
        e->linger_at = min(e->linger_at, e->now.boot_us + most);
        e->linger_turn = 0;
    }
}

static void log_done(struct tr_engine *e, struct tr_io *io)
{
    enum tr_log_event event = tr_log_io_done(&e->log, io);

    if (e->failed) {
        return; /* nothing is answered any more, not even what made it to the disk */
    }
    switch (event) {
    case TR_LOG_WRITTEN:
        e->placing = true;
        e->place_next = 0;
        tr_engine_place(e);
        if (e->config.sync == TR_SYNC_INTERVAL) {
            arm(&e->sync_at, e->now.boot_us + e->config.sync_us);
        }
        e->seal_at = e->now.boot_us + e->config.seal_us;
        e->commit_took = e->now.boot_us - e->commit_us;
        tr_pace_commit(&e->pace, e->commit_took, tr_promote_busy(e));
        tr_gauges_committed(e);
        e->linger_turn = 1;
        tr_engine_tell_durable(e);
        break;
    case TR_LOG_SYNCED:
        e->seal_at = e->now.boot_us + e->config.seal_us;
        break;
    case TR_LOG_FAILED:
        tr_engine_fail(e, "The log could not be written.");
        break;
    case TR_LOG_NOTHING:
        break;
    }
}

/* Is the open batch to go now? */
static bool goes(const struct tr_engine *e)
{
    uint64_t now = e->now.boot_us;

    if (e->lazy_at <= now || e->log.pressed || tr_meta_wants_batch(e)) {
        return true;
    }
    if (e->config.sync != TR_SYNC_ALWAYS) {
        return e->log.open.len >= e->config.gather_bytes;
    }
    return e->log.open.gated && (e->linger_at <= now || e->log.open.changes >= e->linger_changes);
}

/* Starts what the log is to do now: commit, sync, seal. */
static void commit(struct tr_engine *e)
{
    uint64_t now = e->now.boot_us;

    linger(e);
    if (!tr_log_open_empty(&e->log) && !e->log.writing && !e->placing && goes(e)) {
        if (tr_log_start(&e->log)) {
            e->commit_us = now;
            tr_gauges_commits(e);
            e->lazy_at = TR_NEVER;
            e->moved = true;
            e->meta.want_checkpoint |= e->log.rolled;
        }
    }
    if (e->sync_at <= now && !e->log.syncing) {
        e->sync_at = TR_NEVER;
        tr_log_sync(&e->log);
    }
    if (e->seal_at <= now) {
        e->seal_at = TR_NEVER;
        if (!tr_log_seal(&e->log) && e->meta.now.log_batch < e->log.synced) {
            e->meta.want_manifest = true; /* it says the same */
        }
    }
}

/* ---- turns ---- */

/* Nothing of this is for a store that is only looked at. */
static void write_on(struct tr_engine *e, struct tr_now now)
{
    if (e->checkpoint_at <= now.boot_us) {
        e->checkpoint_at = TR_NEVER;
        e->meta.want_checkpoint = true;
    }
    if (e->idle_at <= now.boot_us) {
        e->idle_at = TR_NEVER;
        e->space.idle = true;
        e->merge.looked = 0;
        tr_rest_begin(e);
    }
    if (e->calm_at <= now.boot_us) {
        e->calm_at = TR_NEVER;
        e->trimming = e->space.idle;
    }
    tr_bulk_step(e);
    tr_purge_step(e);
    tr_promote_step(e);
    tr_retire_step(e);
    tr_space_step(e);
    tr_backup_step(e);
    tr_scrub_step(e);
    tr_damage_step(e);
    tr_past_step(e);
    tr_rest_step(e);
    commit(e);
    tr_meta_step(e);
}

static uint64_t next_turn(const struct tr_engine *e)
{
    uint64_t at =
        tr_clock_boot_at(&e->clock, min(tr_wheel_next(&e->due), tr_wheel_next(&e->crowd)));

    if (e->failed) {
        return TR_NEVER;
    }
    if (e->work == 0 || e->cut || e->placing || e->trimming || e->state.keys.tidying ||
        tr_promote_goes_on(e) || tr_listing_goes_on(e) || tr_deaths_goes_on(e) ||
        tr_advance_goes_on(e) || tr_nearest_goes_on(e) || e->meta.freeze.state != NULL ||
        (e->moved && e->stalled_first != NULL)) {
        return e->now.boot_us;
    }
    if (e->blocked || e->stalled_first != NULL) { /* what is in flight makes room; else ask again */
        at = min(at, tr_engine_busy(e) ? TR_NEVER : e->now.boot_us + TR_RETRY_US);
    } else {
        at = min(at, tr_list_empty(&e->dirty) ? TR_NEVER : e->now.boot_us);
    }
    at = min(at, e->leases_blocked || e->config.read_only
                     ? TR_NEVER
                     : tr_clock_span_boot(&e->clock, tr_wheel_next(&e->leases)));
    at = min(at, tr_wheel_next(&e->waits));
    at = min(at, tr_clock_span_boot(&e->clock, tr_wheel_next(&e->warns)));
    at = min(at, tr_clock_span_boot(&e->clock, tr_wheel_next(&e->pauses)));
    at = min(at, tr_clock_span_boot(&e->clock, tr_wheel_next(&e->tokens)));
    at = min(at, min(tr_expiry_next(e), tr_occur_next(e)));
    at = min(at, tr_drop_next(e));
    at = min(at, tr_clock_boot_at(&e->clock, tr_wheel_next(&e->edges)));
    at = min(at, tr_clock_boot_at(&e->clock, tr_wheel_next(&e->resumes)));
    if (!e->log.writing && !e->log.sealing) { /* else its end is what we wait for */
        at = min(at, tr_log_open_empty(&e->log) ? TR_NEVER : e->lazy_at);
        at = min(at, e->log.open.gated && e->linger_at > e->now.boot_us ? e->linger_at : TR_NEVER);
        at = min(at, e->seal_at);
    }
    at = min(at, e->log.syncing ? TR_NEVER : e->sync_at);
    at = min(at, e->checkpoint_at);
    if (e->meta.want_checkpoint && e->meta.retry_at > e->now.boot_us) {
        at = min(at, e->meta.retry_at);
    }
    at = min(at, min(e->idle_at, e->calm_at));
    at = min(at, tr_load_next(e));
    at = min(at, tr_mend_next(e));
    if (!e->config.read_only) {
        at = min(at, min(tr_past_next(e), min(tr_scrub_next(e), tr_purge_next(e))));
    }
    at = min(at, tr_forecast_next(e));
    at = min(at, tr_bulk_next(e));
    at = min(at, tr_backup_next(e));
    at = min(at, e->promote.retry_at > e->now.boot_us ? e->promote.retry_at : TR_NEVER);
    at = min(at, e->promote.step == TR_PROMOTE_PAUSE ? e->promote.pause_until : TR_NEVER);
    at = min(at, e->merge.retry_at > e->now.boot_us ? e->merge.retry_at : TR_NEVER);
    return min(at, e->space.retry_at);
}

/* Who could take a whole slice gets half of what is left: the rest is for everything else. */
static void half(struct tr_engine *e, void (*step)(struct tr_engine *e))
{
    unsigned rest = e->work / 2;

    e->work -= rest;
    step(e);
    e->cut = e->cut || e->work == 0;
    e->work += rest;
}

uint64_t tr_engine_turn(struct tr_engine *e, struct tr_now now)
{
    set_now(e, now);
    if (e->failed) {
        return TR_NEVER;
    }
    e->inside = true;
    e->blocked = false;
    e->leases_blocked = false;
    e->expiry_blocked = false;
    e->moved = false;
    e->cut = false;
    e->work = e->config.slice;
    tr_engine_place(e);
    tr_meta_freeze(e);
    tr_change_fire_due(e);
    tr_policies_step(e);
    if (!e->config.read_only) {
        half(e, tr_occur_step);
        half(e, tr_expiry_step);
        tr_handout_expire(e);
    }
    half(e, tr_load_step);
    half(e, tr_mend_step);
    half(e, tr_listing_step);
    half(e, tr_forecast_step);
    half(e, tr_deaths_step);
    half(e, tr_nearest_step);
    if (!e->config.read_only) {
        half(e, tr_drop_step);
    }
    run_stalled(e);
    tr_handout_serve(e);
    half(e, tr_advance_step);
    tr_lookup_tidy(e);
    if (e->config.read_only) {
        tr_bulk_step(e); /* one that only counts */
    } else {
        write_on(e, now);
    }
    if (e->config.slice - e->work > e->work_max) {
        e->work_max = e->config.slice - e->work;
    }
    TR_SLOW_CHECK(tr_engine_ok(e));
    e->inside = false;
    return next_turn(e);
}

void tr_engine_io_done(struct tr_engine *e, struct tr_io *io, struct tr_now now)
{
    bool outer = enter(e);

    set_now(e, now);
    if (e->overlay != NULL) {
        tr_overlay_done(e->overlay, io);
    }
    if (io == &e->log.io || io == &e->log.sync_io) {
        log_done(e, io);
    } else if (io == &e->meta.io || io == &e->meta.grow_io) {
        tr_meta_io_done(e, io);
    } else if (io == &e->space.io) {
        tr_space_io_done(e, io);
    } else if (io == &e->promote.io) {
        tr_promote_io_done(e, io);
    } else if (io == &e->backup.io) {
        tr_backup_io_done(e, io);
    } else if (io == &e->retire.io) {
        tr_retire_io_done(e, io);
    } else if (io == &e->damage.io) {
        tr_damage_io_done(e, io);
    } else if (io == &e->past_file.io) {
        tr_past_io_done(e, io);
    } else if (io == &e->scrub.io) {
        tr_scrub_io_done(e);
    } else if (io == &e->mend.io) {
        tr_mend_io_done(e);
    } else if (io == &e->listing.walk.io || io == &e->purge.walk.io || io == &e->bulk.walk.io ||
               io == &e->deaths.walk.io || io == &e->nearest.walk.io) {
        tr_walk_io_done(e, io->owner);
    } else if (tr_fetch_owns(e, io)) {
        tr_fetch_io_done(e, io);
    } else if (tr_refill_owns(e, io)) {
        tr_refill_io_done(e, io);
    } else {
        tr_read_done(e, io->owner);
    }
    leave(e, outer);
}

unsigned tr_engine_work(const struct tr_engine *e)
{
    return e->config.slice - e->work;
}

uint64_t tr_engine_clock(const struct tr_engine *e)
{
    return e->clock.t_us;
}

bool tr_engine_busy(const struct tr_engine *e)
{
    return tr_log_busy(&e->log) || tr_meta_busy(e) || tr_space_busy(e) || e->read_count != 0 ||
           e->fetch.reads != 0 || tr_promote_busy(e) || e->retire.busy || e->backup.busy ||
           tr_damage_busy(e) || tr_scrub_busy(e) || e->past_file.busy;
}

bool tr_engine_failed(const struct tr_engine *e)
{
    return e->failed;
}

void tr_engine_drain(struct tr_engine *e)
{
    e->draining = true;
}

const uint8_t *tr_engine_uuid(const struct tr_engine *e)
{
    return e->log.uuid;
}

void tr_engine_stat(const struct tr_engine *e, struct tr_engine_stat *s)
{
    const struct tr_topics *ts = &e->state.topics;
    const struct tr_totals *all = &ts->totals;

    *s = (struct tr_engine_stat){
        .jobs = e->state.jobs.alive.members,
        .topics = tr_topics_shown(ts),
        .far = e->state.jobs.far.count - e->state.jobs.far.located + e->state.jobs.runs,
        .runs = e->state.jobs.runs,
        .groups = e->groups.count,
        .promotions = e->promote.made,
        .merges = e->merge.made,
        .parked = e->state.topics.parked_count,
        .refills = e->refill.made,
        .backups = e->backup.made,
        .backup_batch = e->backup.frozen ? e->backup.batch : 0,
        .sent = e->load.sent,
        .loaded = e->load.loaded,
        .delayed = all->count[TR_DELAYED] + all->far,
        .ready = all->count[TR_READY],
        .reserved = all->count[TR_RESERVED],
        .dead = all->count[TR_DEAD] + all->dead_far,
        .waiting = e->wait_count,
        .pushed = all->pushed,
        .deleted = all->deleted,
        .timeouts = all->timeouts,
        .durable_batch = e->log.durable,
        .synced_batch = e->log.synced,
        .closed_batch = e->log.open.no - 1,
        .slots_free = e->log.free_count,
        .checkpoints = e->meta.made,
        .relogged = e->space.relogged,
        .clock_steps = e->clock.steps,
        .work_max = e->work_max,
        .replayed = e->replayed,
        .next_rid = e->state.next_rid,
        .epoch = e->epoch,
        .keys = tr_keymap_count(&e->state.keys.map),
        .refusing = e->refusing,
        .draining = e->draining,
        .clock_us = e->clock.t_us,
        .log_records = e->log.records,
        .seg_oldest = e->log.seg_no,
        .seg_newest = e->log.seg_no,
        .history_noted = e->histories.noted,
        .history_saved = e->past_file.saved_noted,
        .slot_bytes = e->log.slot_bytes,
    };
    for (const struct tr_list *n = ts->being_purged.next; n != &ts->being_purged; n = n->next) {
        s->purged += TR_CONTAINER_OF(n, struct tr_topic, in_purged)->jobs;
    }
    s->jobs -= s->purged;
    tr_damage_stat(e, s);
    tr_scrub_stat(e, s);
    tr_rest_stat(e, s);
    s->background_rate = e->config.background_rate != 0 ? e->pace.rate : 0;
    s->commit_p99_us = tr_pace_p99(&e->pace.alone);
    s->commit_busy_us = tr_pace_p99(&e->pace.beside);
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        const struct tr_slot *slot = &e->log.slots[i];

        s->slots += slot->state != TR_SLOT_ABSENT;
        s->log_live_bytes += slot->live_bytes;
        if (slot->state == TR_SLOT_SEALED && slot->seg_no < s->seg_oldest) {
            s->seg_oldest = slot->seg_no;
        }
    }
}

void tr_engine_groups(const struct tr_engine *e, tr_group_fn *fn, void *ctx)
{
    for (uint32_t i = 0; i < e->groups.count; i++) {
        const struct tr_group *g = e->groups.order[i];

        if (g->leaving) {
            continue;
        }
        struct tr_group_fact fact = {.no = g->is.no,
                                     .run_bytes = g->is.bytes[TR_GROUP_LIVE],
                                     .dead_bytes = g->is.bytes[TR_GROUP_DEAD],
                                     .uuid = e->log.uuid};

        fn(ctx, &fact);
    }
}

bool tr_engine_only_in_run(const struct tr_engine *e, uint64_t rid, uint32_t topic)
{
    const struct tr_topic *t = tr_topics_by_number(&e->state.topics, topic);

    return t != NULL && !t->purged && tr_state_in_run(&e->state, rid);
}

static void far_facts(const struct tr_engine *e, tr_fact_fn *fn, void *ctx)
{
    const struct tr_far *far = &e->state.jobs.far;

    for (const struct tr_list *n = far->all.next; n != &far->all; n = n->next) {
        const struct tr_far_page *page = TR_CONTAINER_OF(n, struct tr_far_page, link);

        for (unsigned i = 0; i < page->count; i++) {
            const struct tr_far_entry *entry = &page->entries[i];
            const struct tr_topic *t = tr_topics_by_number(&e->state.topics, entry->topic);
            uint64_t rid = tr_far_page_rid(page, i);
            struct tr_job_fact fact = {.rid = rid,
                                       .id = tr_far_id(far, rid),
                                       .due_us = entry->due_us,
                                       .topic = t->name,
                                       .number = t->number,
                                       .cell = entry->cell,
                                       .topic_len = t->name_len,
                                       .far = true,
                                       .off = entry->off,
                                       .len = entry->len};

            if (entry->located || t->purged) {
                continue; /* the run tells; or nobody does */
            }
            tr_log_slot_name(fact.file, entry->slot);
            fn(ctx, &fact);
        }
    }
}

void tr_engine_facts(const struct tr_engine *e, tr_fact_fn *fn, void *ctx)
{
    const struct tr_job *job;
    size_t at = 0;

    while ((job = tr_jobs_next(&e->state.jobs, &at)) != NULL) {
        if (job->topic->purged) {
            continue;
        }

        struct tr_job_fact fact = {
            .rid = job->rid,
            .id = job->id,
            .due_us = job->due_us,
            .created_us = job->created_us,
            .delay_us = job->delay_us,
            .ttr_us = job->ttr_us,
            .topic = job->topic->name,
            .number = job->topic->number,
            .cell = job->flags & TR_RF_CELL,
            .topic_len = job->topic->name_len,
            .priority = job->priority,
            .body_len = job->body_len,
            .reserves = job->counters.reserves,
            .timeouts = job->counters.timeouts,
            .releases = job->counters.releases,
            .buries = job->counters.buries,
            .kicks = job->counters.kicks,
            .state = job->state,
            .dead_seq = job->dead_seq,
            .dead_at_us = job->dead_at_us,
            .dead_why = job->dead_reason,
            .lease = job->lease_end_us != 0 ? job->lease : 0,
            .lease_end_us = job->lease_end_us,
            .body = job->body,
            .key = (const char *)tr_extra_key(job->extra).at,
            .key_len = tr_extra_key(job->extra).len,
            .tag = (const char *)tr_extra_tag(job->extra).at,
            .tag_len = tr_extra_tag(job->extra).len,
            .ttl_us = job->extra != NULL ? job->extra->ttl_us : 0,
            .has_retries = job->extra != NULL && job->extra->has_retries,
            .retries = job->extra != NULL ? job->extra->retries : 0,
            .backoff = tr_extra_backoff_bytes(job->extra).at,
            .backoff_len = tr_extra_backoff_bytes(job->extra).len,
            .flags = job->flags,
        };

        fn(ctx, &fact);
    }
    far_facts(e, fn, ctx);
}

static void cell_facts(const struct tr_engine *e, uint32_t number, uint32_t row, tr_cell_fn *fn,
                       void *ctx)
{
    struct tr_cells_walk w = tr_cells_from(&e->state.cells, row, 0);
    struct tr_cell cell;

    while (tr_cells_next(&e->state.cells, &w, &cell)) {
        struct tr_cell_fact fact = {.number = number, .when = cell.when, .count = cell.count};

        fn(ctx, &fact);
    }
}

bool tr_engine_cells(const struct tr_engine *e, tr_cell_fn *fn, void *ctx)
{
    const struct tr_list *all = &e->state.topics.all;
    bool whole = e->state.drop_count == 0;

    if (whole) {
        cell_facts(e, 0, TR_CELLS_ALL, fn, ctx);
    }
    for (const struct tr_list *n = all->next; n != all; n = n->next) {
        const struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, link);

        if (t->row != 0) {
            cell_facts(e, t->number, t->row, fn, ctx);
        }
    }
    return whole;
}

/* Do the runs count those that have their record in one? `others`: those that do not. */
static bool runs_ok(const struct tr_engine *e, uint64_t others)
{
    uint64_t live = 0;

    for (uint32_t i = 0; i < TR_GROUPS_MAX; i++) {
        live += e->groups.table[i] != NULL ? tr_group_live(e->groups.table[i]) : 0;
    }
    return live + others == e->state.jobs.alive.members;
}

bool tr_engine_ok(const struct tr_engine *e)
{
    const struct tr_job *job;
    uint64_t live = 0;
    uint64_t unplaced = 0;
    uint64_t dead = 0;
    size_t at = 0;

    while ((job = tr_jobs_next(&e->state.jobs, &at)) != NULL) {
        if (job->state == 0 || (job->slot == NULL && job->body == NULL) ||
            (job->timer.armed != (job->state == TR_DELAYED || job->state == TR_RESERVED) &&
             job->state != TR_READY)) {
            return false;
        }
        if (job->state == TR_READY && !job->topic->purged &&
            job->timer.armed != tr_expiry_may(job)) {
            return false;
        }
        live += job->slot != NULL && job->slot->number < TR_MANIFEST_SLOTS_MAX;
        unplaced += job->slot == NULL;
        dead +=
            job->slot != NULL && job->slot->number < TR_MANIFEST_SLOTS_MAX && job->dead_seq != 0;
    }
    live += e->state.jobs.far.count - e->state.jobs.far.located;
    if (!runs_ok(e, live + unplaced)) {
        return false;
    }
    for (const struct tr_list *n = e->state.topics.all.next; n != &e->state.topics.all;
         n = n->next) {
        const struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, link);

        if (t->dead != t->count[TR_DEAD] + t->dead_far) {
            return false;
        }
    }
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        live -= e->log.slots[i].live;
        dead -= e->log.slots[i].dead;
    }
    return live == 0 && dead == 0 && tr_handout_ok(e) && tr_state_ok(&e->state) &&
           tr_wheel_ok(&e->due) && tr_wheel_ok(&e->crowd) && tr_wheel_ok(&e->leases) &&
           tr_wheel_ok(&e->expiries) && tr_wheel_ok(&e->occur.ticks);
}
