/*
 * One seed, from an empty disk to an empty disk.
 *
 *     open -> [ submit | turn | disk step | time | crash | ... ] x steps -> drain -> close
 *
 * Each step is one event by dice. Time only moves in events, both clocks together but for steps of
 * the wall clock. A crash ends the engine without a word: the disk decides what is left, the oracle
 * what must be. All dice come from the seed, in four streams (events, clients, disk, engine), so
 * that one of them may change without changing the others.
 */
#include "run.h"

#include "base/err.h"
#include "base/text.h"
#include "cron.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FAIL(promise, ...) sim_fail(&r->report, promise, __VA_ARGS__)

enum { TRIES_MAX = 8, SETTLE_MAX = 20000, NEST_MAX = 3 };

static const uint64_t MS = 1000;
static const uint64_t SEC = 1000000;
static const uint64_t YEAR = UINT64_C(365) * 86400 * 1000000;

/* ---- What engine and disk call. */

static void on_io_done(void *ctx, struct tr_io *io)
{
    struct sim_run *r = ctx;

    r->oracle.read_done = io->lane == TR_LANE_READ;
    sim_oracle_begin(&r->oracle, r->now);
    tr_engine_io_done(r->engine, io, r->now);
    sim_oracle_end(&r->oracle);
    r->oracle.read_done = false;
}

static void on_durable(void *ctx, uint64_t batch)
{
    sim_oracle_durable(&((struct sim_run *)ctx)->oracle, batch);
}

static void on_closed(void *ctx, uint64_t batch)
{
    sim_oracle_closed(&((struct sim_run *)ctx)->oracle, batch);
}

static void on_notice(void *ctx, enum tr_notice kind, const char *text)
{
    sim_oracle_notice(&((struct sim_run *)ctx)->oracle, kind, text);
}

static void on_moved(void *ctx, uint64_t t_us)
{
    struct sim_run *r = ctx;

    sim_tclock_moves(&r->oracle, t_us, r->now);
}

/* A KICK is judged by what is there when the call ends: nothing may come between. */
static bool kicks(const struct sim_run *r)
{
    unsigned kicking = 0;

    for (unsigned i = 0; i < r->oracle.model.topic_count; i++) {
        kicking += r->oracle.model.topics[i].kicking;
    }
    return kicking != 0;
}

/* Now and then somebody asks at once, from inside `done`. */
static void on_answer(void *ctx)
{
    struct sim_run *r = ctx;
    struct sim_ask *a = NULL;

    if (r->depth < NEST_MAX && !kicks(r) && sim_dice(&r->rng, r->params.nest_pct)) {
        r->work.no_kick = true;
        a = sim_work_draw(&r->work);
        r->work.no_kick = false;
    }
    if (a != NULL) {
        r->depth++;
        sim_oracle_ask(&r->oracle, a);
        a->nested = true;
        tr_engine_submit(r->engine, &a->req, r->now);
        r->depth--;
    }
}

struct sim_run *sim_run_new(void)
{
    struct sim_run *r = calloc(1, sizeof(*r));

    TR_CHECK(r != NULL);
    sim_oracle_init(&r->oracle, &r->report);
    r->disk = sim_disk_new(on_io_done, r);
    TR_CHECK(r->disk != NULL);
    sim_backup_init(&r->backup, r);
    return r;
}

void sim_run_free(struct sim_run *r)
{
    sim_backup_fini(&r->backup);
    sim_oracle_fini(&r->oracle);
    sim_disk_free(r->disk);
    free(r);
}

bool sim_run_stopped(const struct sim_run *r)
{
    return r->report.failed || r->over;
}

/* ---- Starting. */

static void set_faults(struct sim_run *r, bool on)
{
    struct sim_faults *f = sim_disk_faults(r->disk);
    const struct sim_params *p = &r->params;

    f->sync_eio_ppm = on ? p->sync_eio_ppm : 0;
    f->write_eio_ppm = on ? p->write_eio_ppm : 0;
    f->short_ppm = on ? p->short_ppm : 0;
    f->read_eio_ppm = on ? p->read_eio_ppm : 0;
    f->dir_eio_ppm = on ? p->dir_eio_ppm : 0;
    f->enospc_ppm = on ? p->enospc_ppm : 0;
    f->late_pct = p->late_pct;
    f->crash_mid_pct = 50;
    if (!on) {
        f->crash_at = 0;
        f->fail_at = 0;
        f->fail_on = false;
        r->mem.fail_at = 0;
        r->mem.fail_on = false;
        sim_disk_set_cap(r->disk, UINT64_MAX);
        r->capped = false;
    }
}

bool sim_run_dir_errors(const struct sim_run *r)
{
    return sim_disk_counts(r->disk)->dir_eio != r->dir_errors;
}

bool sim_run_faulty(const struct sim_run *r)
{
    const struct sim_params *p = &r->params;

    return !r->faults_off && (p->sync_eio_ppm != 0 || p->write_eio_ppm != 0 ||
                              p->read_eio_ppm != 0 || p->dir_eio_ppm != 0 || r->oracle.forced);
}

void sim_run_config(struct sim_run *r, struct tr_engine_config *config)
{
    const struct sim_params *p = &r->params;
    struct tr_engine_config c;

    tr_engine_config_init(&c, &r->mem);
    c.sync = p->sync;
    c.sync_us = p->sync_us;
    c.slot_bytes = p->slot_bytes;
    c.slots_max = p->slots_max;
    c.batch_bytes = p->batch_bytes;
    c.body_max = p->body_max;
    c.body_cache_bytes = p->body_cache_bytes;
    c.move_body_max = p->move_body_max;
    c.rid_block = p->rid_block;
    c.slice = p->slice;
    c.checkpoint_slack = p->checkpoint_slack;
    c.seal_us = p->seal_us;
    c.lazy_us = p->lazy_us;
    c.gather_us = p->gather_us;
    c.gather_bytes = p->gather_bytes;
    c.linger_us = p->linger_us;
    c.many_topics = p->many_topics;
    c.meters = p->meters;
    c.near_us = p->near_us;
    c.near_min = p->near_min;
    c.near_max = p->near_max;
    c.far_max = p->far_max;
    c.cells_max = p->cells_max;
    c.hour_us = p->hour_us;
    c.key_bits = p->key_bits;
    c.promote_slots = p->promote_slots;
    c.merge_groups = p->merge_groups;
    c.crowd = p->crowd;
    c.merge_waste = p->merge_waste;
    c.background_rate = p->background_rate;
    c.scrub_rate = p->scrub_rate;
    c.scrub_every_us = p->scrub_every_us;
    c.history_flush_us = r->seed % 4 < 2    ? 360000 * SEC /* it only goes there at the end */
                         : r->seed % 4 == 2 ? 0
                                            : r->seed % 50 * 20 * MS;
    c.checkpoint_us = p->checkpoint_us;
    c.idle_us = p->idle_us;
    c.test_clock = p->test_clock;
    c.moved = on_moved;
    c.ctx = r;
    c.durable = on_durable;
    c.closed = on_closed;
    c.notice = on_notice;
    *config = c;
}

static int open_engine(struct sim_run *r)
{
    struct tr_engine_config c;
    uint64_t limit = r->params.mem_bytes;
    int err;

    sim_run_config(r, &c);
    r->ops_at_open = sim_disk_op_count(r->disk);
    r->oracle.prefix.harm.named = false;
    r->oracle.prefix.harm.blamed = false;
    r->starts++;
    r->oracle.was_failed = false;
    r->engine = NULL;
    r->mem.limit_bytes = limit;
    err = tr_engine_open(&r->engine, &c, sim_disk_port(r->disk), r->seed ^ r->starts << 32, r->now);
    r->totals.more_memory += r->mem.limit_bytes != limit;
    for (unsigned i = 0; err == TARRY_OK && i < SIM_ASKS_MAX; i++) {
        char name[16];

        tr_text(name, sizeof name, "client %u", i);
        (void)tr_engine_actor(r->engine, name, strlen(name)); /* number i + 1, always */
    }
    return err;
}

static void check_leak(struct sim_run *r, const char *when)
{
    if (r->mem.used_bytes != 0) {
        FAIL("I18", "%" PRIu64 " bytes are not given back %s", r->mem.used_bytes, when);
        r->mem.used_bytes = 0;
    }
}

/* The engine is no more, whatever it was doing. */
static void drop_engine(struct sim_run *r)
{
    sim_oracle_crashed(&r->oracle);
    tr_engine_free(r->engine);
    r->engine = NULL;
    check_leak(r, "by tr_engine_free");
}

static void end_process(struct sim_run *r, bool power)
{
    r->cut = r->cut || power || sim_disk_dead(r->disk);
    if (power) {
        r->oracle.history_kept = 0;
        r->written = 0;
        sim_disk_power_cut(r->disk);
    } else {
        sim_disk_kill(r->disk);
    }
}

/* Errors of the disk, ever. */
static uint64_t errors_of(const struct sim_run *r)
{
    const struct sim_counts *c = sim_disk_counts(r->disk);

    return c->write_eio + c->read_eio + c->read_bad + c->dir_eio + c->enospc + c->forced;
}

/* The open was refused: may it be? True when it is to be tried again. */
static bool refusal_allowed(struct sim_run *r, int err)
{
    bool full = r->params.full || r->params.enospc_ppm != 0 || r->oracle.forced;

    check_leak(r, "by an open that failed");
    r->totals.refusals++;
    if (sim_disk_dead(r->disk)) {
        return true;
    }
    if (r->oracle.rotten && (err == TARRY_EDAMAGED || err == TARRY_EVERSION || err == TARRY_EIO)) {
        if (!r->oracle.damage) {
            FAIL("I15", "the open was refused with %s, but nothing was said", tarry_errname(err));
        } else if (r->oracle.prefix.harm.name[0] != '\0' && !r->oracle.prefix.harm.named) {
            FAIL("I15", "the open was refused with %s, but %s was not named", tarry_errname(err),
                 r->oracle.prefix.harm.name);
        } else if (r->oracle.must_open || (r->oracle.prefix.harm.name[0] != '\0' &&
                                           r->oracle.prefix.harm.again && !sim_run_faulty(r))) {
            FAIL("I15", "the open was refused with %s, but there is a second copy",
                 tarry_errname(err));
        }
        if (!r->report.failed) {
            sim_offline_repair(r);
        }
        r->over = true;
        return false;
    }
    if ((sim_run_faulty(r) && (err == TARRY_EIO || err == TARRY_EDAMAGED)) ||
        (full && !r->faults_off && err == TARRY_ENOSPC) ||
        (r->params.mem_small && !r->faults_off && err == TARRY_ENOMEM)) {
        return true;
    }
    FAIL("I11", "the open was refused with %s", tarry_errname(err));
    return false;
}

/* With rot the newest batches may look like a torn tail; that must be said, or refused when a SEAL
 * or a clean end shows that they were durable. */
static bool cut_by_rot(struct sim_run *r)
{
    struct tr_engine_stat stat;

    tr_engine_stat(r->engine, &stat);
    if (!r->oracle.rotten || stat.durable_batch >= sim_prefix_floor(&r->oracle.prefix)) {
        return false;
    }
    if (!r->oracle.said) {
        FAIL("I15", "batches after %" PRIu64 " are gone, and nothing was said", stat.durable_batch);
    } else if (r->oracle.all_there) {
        FAIL("I15", "batches after %" PRIu64 " are gone, but they are all there",
             stat.durable_batch);
    } else if (r->oracle.sealed) {
        FAIL("I15", "batches after %" PRIu64 " are gone, but a SEAL stood behind them",
             stat.durable_batch);
    }
    r->over = true;
    return true;
}

static void maybe_wrong_clock(struct sim_run *r)
{
    if (sim_dice(&r->rng, r->params.clock_start_pct)) {
        uint64_t by = sim_spread(&r->rng, 1 * MS, YEAR);

        r->now.wall_us = sim_dice(&r->rng, 50) ? r->now.wall_us + by : r->now.wall_us - by;
        r->oracle.crash = r->oracle.starts; /* what was ready may be delayed again */
    }
}

static void set_op_crash(struct sim_run *r, unsigned tries)
{
    struct sim_faults *f = sim_disk_faults(r->disk);
    uint64_t ops = sim_disk_op_count(r->disk);

    if (r->faults_off) {
        return;
    }
    if (r->plan.calm) {
        f->crash_at = r->starts == 0 ? r->plan.crash_at : 0;
        if (r->starts == 1 && r->plan.again_at != 0) {
            f->crash_at = ops + r->plan.again_at;
        }
        return;
    }
    if (tries < TRIES_MAX / 2 && sim_dice(&r->rng, r->params.again_pct) && r->starts > 0) {
        f->crash_at = ops + sim_between(&r->rng, 1, 80);
    } else if (sim_dice(&r->rng, r->params.op_crash_pct)) {
        f->crash_at = ops + sim_spread(&r->rng, 20, 600);
    }
}

/* Opens until it succeeds. */
static void start(struct sim_run *r)
{
    for (unsigned tries = 0; !sim_run_stopped(r); tries++) {
        struct tr_engine_stat stat;
        int err;

        if (tries == TRIES_MAX) {
            set_faults(r, false);
        } else if (tries > 3 * TRIES_MAX) {
            FAIL("I11", "the store does not open any more");
            return;
        }
        if (tries == 0 && (r->seed + r->starts) % 4 == 1 && !r->plan.calm) {
            sim_offline_look(r);
        }
        set_op_crash(r, tries);
        r->oracle.must_refuse = r->oracle.rotten && sim_run_knows_newer(r);
        err = open_engine(r);
        r->reached = r->reached || sim_disk_dead(r->disk);
        r->deaths += sim_disk_dead(r->disk);
        if (err == TARRY_OK && !sim_disk_dead(r->disk)) {
            if (r->oracle.must_refuse) {
                FAIL("I15", "frames know a newer manifest, but an older one was believed");
            }
            if (r->oracle.rotten || errors_of(r) != r->errors) {
                r->oracle.history_kept = 0; /* perhaps it could not be written, or read */
            }
            if (!cut_by_rot(r)) {
                sim_oracle_opened(&r->oracle, r->engine, r->now);
                tr_engine_stat(r->engine, &stat);
                sim_harm_opened(&r->oracle.prefix.harm, &r->oracle.model, stat.groups);
                r->totals.recoveries++;
                if (r->oracle.durable < r->written && r->params.sync_eio_ppm == 0 &&
                    !r->oracle.forced) { /* that may have been a sync */
                    FAIL("I10", "a kill lost batches after %" PRIu64 "; %" PRIu64 " was written",
                         r->oracle.durable, r->written);
                }
                r->written = 0;
                r->oracle.said = false;
            }
            if (tries >= TRIES_MAX && !r->faults_off) {
                set_faults(r, true);
            }
            return;
        }
        r->totals.cut_recoveries++;
        if (err != TARRY_OK && !refusal_allowed(r, err)) {
            return;
        }
        if (r->engine != NULL) {
            drop_engine(r);
        }
        if (sim_disk_dead(r->disk) || sim_dice(&r->rng, 50)) {
            bool power = sim_dice(&r->rng, r->params.power_pct);

            r->oracle.sealed = r->oracle.sealed && !power; /* recovery had not synced it, perhaps */
            end_process(r, power);
        }
        r->now.boot_us += sim_between(&r->rng, 1, SEC);
        r->now.wall_us += sim_between(&r->rng, 1, SEC);
    }
}

static void add_totals(struct sim_run *r)
{
    struct tr_engine_stat stat;

    if (r->engine != NULL) {
        tr_engine_stat(r->engine, &stat);
        r->totals.checkpoints += stat.checkpoints;
        r->totals.relogged += stat.relogged;
        r->totals.promotions += stat.promotions;
        r->totals.merges += stat.merges;
        r->totals.backups += stat.backups;
        r->totals.clock_steps += stat.clock_steps;
        if (stat.work_max > r->params.slice) {
            FAIL("I26", "a turn did %" PRIu64 " units of work, the slice is %" PRIu32,
                 stat.work_max, r->params.slice);
        }
    }
}

/* Weak sync: a power cut leaves what was synced, a kill what was written. */
static void set_floor(struct sim_run *r)
{
    struct tr_engine_stat stat;

    if (r->params.sync != TR_SYNC_ALWAYS) {
        tr_engine_stat(r->engine, &stat);
        sim_prefix_durable(&r->oracle.prefix, stat.synced_batch);
        r->written = r->oracle.durable;
    }
}

/* The file of history is never synced: a kill leaves what was written, if nothing went wrong. */
static void set_history(struct sim_run *r, bool all)
{
    struct tr_engine_stat stat;

    tr_engine_stat(r->engine, &stat);
    r->oracle.history_kept = all ? UINT64_MAX : stat.history_saved;
}

void sim_run_crash(struct sim_run *r, bool power)
{
    if (r->trace) {
        printf("step %" PRIu64 ": %s\n", r->step, power ? "power cut" : "kill");
    }
    add_totals(r);
    set_floor(r);
    set_history(r, false);
    r->totals.crashes++;
    r->reached = r->reached || sim_disk_dead(r->disk);
    r->deaths += sim_disk_dead(r->disk);
    if (power) {
        r->oracle.sealed = false; /* it may be gone */
    }
    sim_backup_crashed(r);
    end_process(r, power);
    drop_engine(r);
    sim_backup_check(r);
    sim_work_restart(&r->work);
    sim_run_pass(r, sim_spread(&r->rng, 1, 10 * SEC));
    maybe_wrong_clock(r);
    start(r);
    if (power && !sim_run_stopped(r) && sim_run_rot_frame(r)) {
        end_process(r, false);
        drop_engine(r);
        start(r);
    }
}

/* ---- Single steps. */

void sim_run_pass(struct sim_run *r, uint64_t us)
{
    r->now.boot_us += us;
    r->now.wall_us += us;
}

void sim_run_submit(struct sim_run *r, struct sim_ask *a)
{
    if (r->trace) {
        printf("%6" PRIu64 "   client %u asks %s id %" PRIu64 " topic %u\n",
               r->oracle.model.call + 1, a->client, sim_op_name(a->req.op), a->req.id, a->topic);
    }
    sim_oracle_begin(&r->oracle, r->now);
    sim_oracle_ask(&r->oracle, a);
    tr_engine_submit(r->engine, &a->req, r->now);
    sim_oracle_end(&r->oracle);
}

void sim_run_turn(struct sim_run *r)
{
    uint64_t next;

    sim_oracle_begin(&r->oracle, r->now);
    next = tr_engine_turn(r->engine, r->now);
    sim_oracle_end(&r->oracle);
    sim_oracle_turned(&r->oracle, next);
    sim_backup_turned(r);
}

static void abandon(struct sim_run *r, struct sim_ask *a)
{
    sim_oracle_begin(&r->oracle, r->now);
    tr_engine_abandon(r->engine, &a->req, r->now);
    sim_oracle_abandoned(&r->oracle, a);
    sim_oracle_end(&r->oracle);
}

void sim_run_settle(struct sim_run *r)
{
    for (unsigned lane = 0; lane < TR_LANE_COUNT; lane++) {
        sim_disk_stall(r->disk, (enum tr_lane)lane, false);
    }
    for (unsigned i = 0; i < SETTLE_MAX; i++) {
        sim_run_turn(r);
        if (sim_run_stopped(r) || tr_engine_failed(r->engine)) {
            return;
        }
        if (r->oracle.quiet) {
            if (!tr_engine_ok(r->engine)) {
                FAIL("I16", "the engine's own check fails");
            }
            return;
        }
        while (sim_disk_step(r->disk) && sim_dice(&r->rng, 50)) {
        }
        if (sim_disk_dead(r->disk)) {
            return;
        }
    }
    FAIL("I26", "the engine goes on and on without time going on");
}

static void pass_time(struct sim_run *r)
{
    uint64_t next = r->oracle.next_turn;
    uint64_t dice = tr_rng_below(&r->rng, 100);

    if (dice < 55) {
        sim_run_pass(r, sim_spread(&r->rng, 1, 20 * MS));
    } else if (dice < 90 && next != UINT64_MAX && next > r->now.boot_us &&
               next - r->now.boot_us < 3600 * SEC) {
        sim_run_pass(r, next - r->now.boot_us);
    } else if (dice < 97) {
        sim_run_pass(r, sim_spread(&r->rng, 20 * MS, 5 * SEC));
    } else {
        sim_run_pass(r, sim_spread(&r->rng, 5 * SEC, 3600 * SEC));
    }
}

static void step_clock(struct sim_run *r)
{
    uint64_t by = sim_spread(&r->rng, 1 * MS, YEAR);

    switch (tr_rng_below(&r->rng, 5)) {
    case 0: /* stands still */
        r->now.boot_us += sim_spread(&r->rng, 1 * MS, 60 * SEC);
        break;
    case 1:
    case 2:
        r->now.wall_us += by;
        break;
    default:
        r->now.wall_us -= by < r->now.wall_us / 2 ? by : 0;
        sim_oracle_clock_back(&r->oracle);
    }
}

static bool clock_stepped(const struct sim_run *r)
{
    struct tr_engine_stat stat;

    tr_engine_stat(r->engine, &stat);
    return stat.clock_steps != 0 || r->oracle.clock_doubt;
}

void sim_run_reopen(struct sim_run *r)
{
    bool orderly;
    unsigned crash;
    int err;

    sim_run_settle(r);
    if (sim_run_stopped(r) || sim_disk_dead(r->disk) || tr_engine_failed(r->engine)) {
        return;
    }
    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        if (r->oracle.asks[i].pending && r->oracle.asks[i].req.op == TR_OP_BULK) {
            return; /* see leave() */
        }
    }
    for (unsigned i = 0; i < SIM_ASKS_MAX; i++) {
        if (r->oracle.asks[i].pending) {
            abandon(r, &r->oracle.asks[i]);
        }
    }
    sim_backup_leave(r);
    sim_run_settle(r);
    if (sim_run_stopped(r) || sim_disk_dead(r->disk) || tr_engine_failed(r->engine)) {
        return;
    }
    if (tr_engine_busy(r->engine)) {
        FAIL("I26", "the engine is busy, but the disk is not");
        return;
    }
    add_totals(r);
    if (r->params.mem_fail_pct != 0) {
        r->mem.fail_at = 0; /* a close needs memory for its checkpoint */
    }
    sim_oracle_begin(&r->oracle, r->now);
    err = tr_engine_close(r->engine, r->now);
    set_history(r, err == TARRY_OK && !sim_disk_dead(r->disk));
    if (err == TARRY_OK && !sim_disk_dead(r->disk)) {
        sim_prefix_durable(&r->oracle.prefix, r->oracle.closed);
        r->oracle.sealed = true;
    } else if (err != TARRY_OK && !sim_disk_dead(r->disk) && !sim_run_faulty(r)) {
        FAIL("I11", "the close failed with %s", tarry_errname(err));
    }
    orderly = err == TARRY_OK && !sim_disk_dead(r->disk) && !clock_stepped(r);
    crash = r->oracle.crash;
    drop_engine(r);
    if (orderly) {
        r->oracle.crash = crash; /* that was none */
    }
    r->totals.reopens++;
    sim_work_restart(&r->work);
    if (err != TARRY_OK || sim_disk_dead(r->disk) || sim_dice(&r->rng, 30)) {
        end_process(r, sim_dice(&r->rng, 50));
    }
    sim_run_pass(r, sim_spread(&r->rng, 1, 10 * SEC));
    maybe_wrong_clock(r);
    start(r);
}

static void leave(struct sim_run *r)
{
    unsigned client = (unsigned)tr_rng_below(&r->rng, SIM_ASKS_MAX);
    struct sim_ask *a;

    for (unsigned i = 0; i < SIM_ASKS_MAX && !r->oracle.asks[client].pending; i++) {
        client = (client + 1) % SIM_ASKS_MAX;
    }
    a = &r->oracle.asks[client];
    if (!a->pending || a->req.op == TR_OP_CLOSE || a->req.op == TR_OP_BULK) {
        return; /* nobody takes a CLOSE back; a BULK goes on, but nobody would be told */
    }
    abandon(r, a);
    if (r->work.holders[client] != 0 && !tr_engine_failed(r->engine)) {
        a = sim_work_blank(&r->work, client, TR_OP_CLOSE);
        sim_work_reconnect(&r->work, client);
        sim_run_submit(r, a);
    }
}

static void change_space(struct sim_run *r)
{
    r->capped = !r->capped;
    sim_disk_set_cap(r->disk, r->capped ? sim_disk_used(r->disk) +
                                              tr_rng_below(&r->rng, 2 * r->params.slot_bytes)
                                        : UINT64_MAX);
}

static void stall_lane(struct sim_run *r)
{
    enum tr_lane lane = (enum tr_lane)tr_rng_below(&r->rng, TR_LANE_COUNT);
    bool on = sim_dice(&r->rng, 40);

    sim_disk_stall(r->disk, lane, on);
    if (on && lane == TR_LANE_BACK && sim_dice(&r->rng, r->params.stall_crash_pct)) {
        sim_disk_faults(r->disk)->crash_at =
            sim_disk_op_count(r->disk) + sim_between(&r->rng, 5, 80);
    }
}

/* ---- Events. */

static enum sim_event draw_event(struct sim_run *r)
{
    uint64_t sum = 0;
    uint64_t dice;
    unsigned event = 0;

    for (unsigned i = 0; i < SIM_EV_COUNT; i++) {
        sum += r->params.event_weight[i];
    }
    dice = tr_rng_below(&r->rng, sum);
    while (dice >= r->params.event_weight[event]) {
        dice -= r->params.event_weight[event++];
    }
    return (enum sim_event)event;
}

static void submit_one(struct sim_run *r)
{
    struct sim_ask *a = sim_work_draw(&r->work);

    if (a != NULL) {
        sim_run_submit(r, a);
    } else {
        leave(r);
    }
}

static void play_event(struct sim_run *r)
{
    switch (draw_event(r)) {
    case SIM_EV_SUBMIT:
        submit_one(r);
        break;
    case SIM_EV_TURN:
        sim_run_turn(r);
        break;
    case SIM_EV_DISK:
        if (sim_disk_step(r->disk) && sim_dice(&r->rng, 70)) {
            sim_run_turn(r);
        }
        break;
    case SIM_EV_TIME:
        pass_time(r);
        break;
    case SIM_EV_SETTLE:
        sim_run_settle(r);
        break;
    case SIM_EV_ABANDON:
        leave(r);
        break;
    case SIM_EV_CRASH:
        if (sim_dice(&r->rng, 30)) {
            sim_run_crash(r, sim_dice(&r->rng, r->params.power_pct));
        }
        break;
    case SIM_EV_REOPEN:
        sim_run_reopen(r);
        break;
    case SIM_EV_CLOCK:
        step_clock(r);
        break;
    case SIM_EV_SPACE:
        change_space(r);
        break;
    case SIM_EV_BACKUP:
        sim_backup_ask(r);
        break;
    case SIM_EV_METERS:
        sim_meters_look(r);
        break;
    case SIM_EV_TUNE:
        sim_tune(r);
        break;
    default:
        stall_lane(r);
    }
}

static void play(struct sim_run *r)
{
    uint64_t rot_step =
        r->params.rot ? sim_between(&r->rng, r->params.steps / 8, r->params.steps) : UINT64_MAX;

    for (r->step = 1; r->step <= r->params.steps && !sim_run_stopped(r); r->step++) {
        if (r->step == rot_step) {
            bool crash = r->params.rot_manifest || sim_dice(&r->rng, 60);

            sim_run_rot(r, crash);
            rot_step += r->params.rot_group && !r->oracle.rotten; /* there was no group yet */
            if (crash && r->step != rot_step - 1) {
                sim_run_crash(r, sim_dice(&r->rng, 30));
                continue;
            }
        }
        if (r->params.mem_fail_pct != 0 && sim_dice(&r->rng, r->params.mem_fail_pct)) {
            r->mem.fail_at = r->mem.calls + sim_between(&r->rng, 1, 4);
        }
        play_event(r);
        if (sim_run_stopped(r)) {
            return;
        }
        if (sim_disk_dead(r->disk)) {
            sim_run_crash(r, r->plan.calm ? r->plan.power : sim_dice(&r->rng, r->params.power_pct));
        } else if (tr_engine_failed(r->engine) && sim_dice(&r->rng, 25)) {
            r->totals.failures++;
            sim_run_crash(r, sim_dice(&r->rng, 30));
        }
    }
}

static void apply_plan(struct sim_run *r)
{
    struct sim_params *p = &r->params;
    struct sim_faults *f = sim_disk_faults(r->disk);

    if (!r->plan.calm) {
        return;
    }
    p->event_weight[SIM_EV_CRASH] = 0;
    p->event_weight[SIM_EV_REOPEN] = 0;
    p->event_weight[SIM_EV_CLOCK] = 0;
    p->event_weight[SIM_EV_SPACE] = 0;
    p->event_weight[SIM_EV_STALL] = 0;
    p->clock_start_pct = 0;
    p->op_crash_pct = 0;
    p->again_pct = 0;
    p->sync_eio_ppm = 0;
    p->write_eio_ppm = 0;
    p->short_ppm = 0;
    p->read_eio_ppm = 0;
    p->dir_eio_ppm = 0;
    p->enospc_ppm = 0;
    p->full = false;
    p->rot = false;
    p->steps = r->plan.steps != 0 ? r->plan.steps : p->steps;
    r->oracle.forced = r->plan.fault_at != 0;
    r->oracle.starved = r->plan.mem_at != 0;
    p->mem_small = p->mem_small || r->plan.mem_at != 0;
    if (!r->plan.in_recovery) {
        f->fail_at = r->plan.fault_at;
        f->fail_code = r->plan.fault_code;
        f->fail_on = r->plan.fault_on;
        r->mem.fail_at = r->plan.mem_at;
        r->mem.fail_on = r->plan.mem_on;
    }
}

/* The plan's fault, in a recovery after a kill; then one without. */
static void recover_with_fault(struct sim_run *r)
{
    struct sim_faults *f = sim_disk_faults(r->disk);

    if (!r->plan.in_recovery || sim_run_stopped(r)) {
        return;
    }
    f->fail_at = r->plan.fault_at;
    f->fail_code = r->plan.fault_code;
    f->fail_on = r->plan.fault_on;
    f->fail_seen = 0;
    r->mem.fail_at = r->plan.mem_at != 0 ? r->mem.calls + r->plan.mem_at : 0;
    r->mem.fail_on = r->plan.mem_on;
    sim_run_crash(r, false);
    if (!sim_run_stopped(r)) {
        r->reached = r->reached || f->fail_hits > 0 ||
                     (r->plan.mem_at != 0 && r->mem.calls >= r->mem.fail_at && r->mem.fail_at != 0);
        set_faults(r, false);
        sim_run_crash(r, false);
    }
}

static void reset(struct sim_run *r, const struct sim_swarm *swarm, uint64_t seed,
                  const struct sim_plan *plan)
{
    struct tr_rng seeds = {seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    struct tr_rng params = {tr_rng_next(&seeds)};

    sim_params_draw(&r->params, swarm, &params);
    r->rng.state = tr_rng_next(&seeds);
    r->report.failed = false;
    r->plan = plan != NULL ? *plan : (struct sim_plan){0};
    r->seed = seed;
    r->step = 0;
    r->starts = 0;
    r->meters.starts = 0;
    r->cut = false;
    r->over = false;
    r->written = 0;
    r->dir_errors = sim_disk_counts(r->disk)->dir_eio;
    r->errors = errors_of(r);
    r->capped = false;
    r->reached = false;
    r->deaths = 0;
    r->faults_off = false;
    r->engine = NULL;
    r->now.wall_us = UINT64_C(1700000000) * SEC + tr_rng_below(&seeds, YEAR);
    r->now.boot_us = sim_spread(&seeds, 1 * SEC, YEAR);
    tr_mem_init(&r->mem, r->params.mem_bytes);
    sim_disk_reset(r->disk, tr_rng_next(&seeds) ^ r->plan.damage);
    sim_oracle_reset(&r->oracle, &r->params, r->disk);
    sim_work_reset(&r->work, &r->oracle, &r->params, tr_rng_next(&seeds));
    r->oracle.trace = r->trace;
    r->oracle.nested = r->params.nest_pct != 0 ? on_answer : NULL;
    r->oracle.nested_ctx = r;
    r->depth = 0;
    sim_backup_reset(r);
    apply_plan(r);
    set_faults(r, true);
}

bool sim_run_seed(struct sim_run *r, const struct sim_swarm *swarm, uint64_t seed,
                  const struct sim_plan *plan, uint64_t *digest)
{
    reset(r, swarm, seed, plan);
    if (strcmp(swarm->name, "cron") == 0) { /* a world of its own */
        r->totals.runs++;
        return sim_cron_seed(&r->report, seed, r->trace, digest);
    }
    start(r);
    if (!sim_run_stopped(r)) {
        play(r);
    }
    recover_with_fault(r);
    if (!sim_run_stopped(r)) {
        r->reached = r->reached || sim_disk_faults(r->disk)->fail_hits > 0 ||
                     (r->plan.mem_at != 0 && r->mem.calls >= r->plan.mem_at);
        r->faults_off = true;
        set_faults(r, false);
        sim_run_drain(r);
    }
    if (r->engine != NULL) {
        add_totals(r);
        sim_disk_kill(r->disk);
        drop_engine(r);
    }
    r->totals.runs++;
    r->totals.steps += r->step;
    r->totals.requests += r->oracle.requests;
    r->totals.handouts += r->oracle.handouts;
    r->totals.refused += r->oracle.refused;
    r->totals.batches += r->oracle.batches;
    *digest = r->oracle.digest ^ sim_disk_hash(r->disk);
    return !r->report.failed;
}

void sim_run_print(struct sim_run *r, FILE *out)
{
    (void)fprintf(out, "seed %" PRIu64 ", swarm %s, step %" PRIu64 ": %s is broken: %s\n", r->seed,
                  r->params.swarm, r->step, r->report.promise, r->report.text);
    sim_oracle_print_last(&r->oracle, out);
    sim_disk_print_trace(r->disk, out);
}
