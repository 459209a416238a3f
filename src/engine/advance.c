/*
 * The test clock: T stands still until somebody moves it.
 *
 *     ADVANCE(to) --> CLOCK(to) in the log --durable--> [ T = next event; it happens ] --> done
 *                                                         ^                        |
 *                                                         +------------------------+
 *
 * T goes from event to event: the next due job, lease, pause, warning or edge of a parked topic,
 * what outlets wait for, or the moment at which far jobs have to be loaded. It goes on only when
 * all that is due has happened: jobs are ready, waiting reserves have them with their bodies, what
 * is due next is in memory. So everything happens in the order of its time, though nobody waits for
 * it, and a job is ready at its very due time.
 *
 * Never back. CLOCK is durable before T moves, so whatever is seen at a later T is seen after it.
 * A start stands at the newest CLOCK: an advance that was cut short has then happened, and what was
 * to happen on its way happens at once. T <= state.clock_us, and equal when none is under way.
 *
 * Housekeeping (commits, checkpoints, idle, visitors, retries) and the time that a reserve waits
 * run on boot time, with a test clock too. What users see runs on T or on tr_clock_span: whoever
 * adds such a wheel or deadline adds it to next_event.
 *
 * Not done here: what happens at a moment (change.c, handout.c, park.c, load.c).
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When something is to happen next; not after T: it has not happened yet. */
static uint64_t next_event(const struct tr_engine *e)
{
    uint64_t at_us = min(tr_wheel_next(&e->due), tr_wheel_next(&e->crowd));

    if (TR_MUTANT(ADVANCE_JUMPS)) {
        return at_us <= e->clock.t_us ? at_us : TR_NEVER;
    }
    if (!TR_MUTANT(ADVANCE_UNLOADED)) {
        at_us = min(at_us, tr_load_event(e));
    }
    at_us = min(at_us, tr_wheel_next(&e->edges));
    at_us = min(at_us, tr_wheel_next(&e->resumes));
    if (!TR_MUTANT(ADVANCE_SKIPS_LEASES)) {
        at_us = min(at_us, tr_wheel_next(&e->leases));
    }
    at_us = min(at_us, tr_wheel_next(&e->pauses));
    at_us = min(at_us, tr_wheel_next(&e->tokens));
    at_us = min(at_us, tr_expiry_event(e));
    at_us = min(at_us, tr_drop_event(e));
    at_us = min(at_us, tr_occur_event(e));
    if (e->config.event != NULL) {
        at_us = min(at_us, e->config.event(e->config.ctx));
    }
    return min(at_us, tr_wheel_next(&e->warns));
}

/* The same, or when schedules that are held are tried, which is no reason to try them again. */
static uint64_t next_stop(const struct tr_engine *e)
{
    return min(next_event(e), tr_occur_retries(e));
}

/* A body is being read for somebody who waits: he gets the job at this T. */
static bool is_handing(const struct tr_engine *e)
{
    for (const struct tr_list *n = e->reads.next; n != &e->reads; n = n->next) {
        const struct tr_read *read = TR_CONTAINER_OF(n, struct tr_read, link);

        if (read->lease != 0 && read->req != NULL) {
            return true;
        }
    }
    return false;
}

/* Has all happened that is to happen at T? */
static bool is_settled(const struct tr_engine *e)
{
    return !e->blocked && tr_list_empty(&e->dirty) && next_stop(e) > e->clock.t_us &&
           (tr_load_settled(e) || TR_MUTANT(ADVANCE_UNLOADED)) && !is_handing(e);
}

/* The way is free: what T may become is durable. */
static bool is_free(const struct tr_engine *e)
{
    return e->advance.batch <= e->log.durable || TR_MUTANT(CLOCK_UNLOGGED);
}

/* Room was made. */
static void log_clock(struct tr_engine *e, uint64_t to_us)
{
    struct tr_record rec = {.type = TR_REC_CLOCK, .number = to_us};
    struct tr_job *none;

    TR_CHECK(tr_state_apply(&e->state, &rec, e->log.open.no, &none) == TARRY_OK);
    tr_log_append(&e->log, &rec, tr_engine_base(e), true);
    tr_engine_touch_log(e);
}

uint64_t tr_advance_begin(const struct tr_engine *e, uint64_t start_us)
{
    uint64_t stood_us = e->state.clock_us;
    bool later = e->config.clock_start_us > stood_us && !e->config.read_only && !e->config.salvage;

    return stood_us == 0 ? start_us : later ? e->config.clock_start_us : stood_us;
}

int tr_advance_open(struct tr_engine *e)
{
    int err;

    if (!e->clock.test || e->state.clock_us >= e->clock.t_us) {
        return TARRY_OK;
    }
    err = tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX, 1);
    if (err == TARRY_OK) {
        log_clock(e, e->clock.t_us);
    }
    return err == TARRY_EFULL ? TARRY_ENOSPC : err;
}

enum tr_verdict tr_advance_execute(struct tr_engine *e, struct tr_req *r)
{
    struct tr_advance *a = &e->advance;
    uint64_t to_us = r->at_us != 0 ? r->at_us : e->clock.t_us + r->delay_us;
    int err;

    r->out.number = e->clock.t_us;
    if (!e->clock.test) {
        return tr_engine_finish(e, r, TARRY_EUNSUPPORTED);
    }
    if (a->on) {
        return TR_STALL;
    }
    if (r->delay_us > TR_DELAY_MAX_US || to_us > e->clock.t_us + TR_DELAY_MAX_US) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    if (to_us < e->clock.t_us) {
        return tr_engine_finish(e, r, TARRY_ESTATE);
    }
    err = tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX, 1);
    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
    }
    *a = (struct tr_advance){.on = true, .req = r, .to_us = to_us};
    (void)tr_occur_retry(e);
    if (to_us > e->clock.t_us) { /* else it only waits until all has happened */
        log_clock(e, to_us);
        a->batch = e->log.open.no;
    }
    return TR_WAITS;
}

static void move(struct tr_engine *e, uint64_t t_us)
{
    bool hope = t_us == e->advance.to_us || t_us == next_event(e);

    if (e->config.moved != NULL) {
        e->config.moved(e->config.ctx, t_us);
    }
    tr_clock_move(&e->clock, t_us);
    if (hope) {
        tr_occur_hope(e);
    }
    e->count.until_us = 0; /* of parked jobs others are due now */
    e->moved = true;
}

/* It is where it was to go, and nothing is left to happen there. */
static void arrive(struct tr_engine *e)
{
    struct tr_req *r = e->advance.req;

    e->advance = (struct tr_advance){0};
    e->moved = true; /* the next one may begin */
    if (r != NULL) {
        r->out.number = e->clock.t_us;
        (void)tr_engine_finish(e, r, TARRY_OK);
    }
}

void tr_advance_step(struct tr_engine *e)
{
    struct tr_advance *a = &e->advance;

    while (a->on && !e->failed && is_free(e) && is_settled(e)) {
        if (e->clock.t_us == a->to_us) {
            if (a->tried || !tr_occur_retry(e)) {
                arrive(e);
            }
            a->tried = a->on;
            return;
        }
        if (!tr_engine_spend(e)) {
            return;
        }
        move(e, min(next_stop(e), a->to_us));
        tr_change_fire_due(e);
        tr_occur_step(e);
        tr_handout_expire(e);
        tr_load_step(e);
        tr_handout_serve(e);
    }
}

bool tr_advance_goes_on(const struct tr_engine *e)
{
    return e->advance.on && is_free(e) && is_settled(e);
}

void tr_advance_abandon(struct tr_engine *e, const struct tr_req *r)
{
    if (e->advance.req == r) {
        e->advance.req = NULL;
    }
}

void tr_advance_fail(struct tr_engine *e)
{
    struct tr_req *r = e->advance.req;

    e->advance = (struct tr_advance){0};
    if (r != NULL) {
        (void)tr_engine_finish(e, r, TARRY_EIO);
    }
}
