/*
 * Schedules under crashes.
 *
 * A world of its own: jobs come unasked here, which the oracle of all other swarms does not know.
 * Clients make, change, pause and drop schedules, take their jobs, end them in all ways, purge; the
 * machine crashes at any moment and comes back later. After each call into the engine the facts
 * (schedules, jobs) are compared with those before it:
 *
 *     one job for each occurrence     jobs that are new = what `fired` grew by                  I24
 *     none skipped, none twice        ticks of the grid between two states = fired + skipped +
 *                                     waiting; those that were missed: as `missed` says        I24
 *     on the grid, in time            ticks are where arithmetic says; none is left behind     I24
 *     overlap, limit, end, after      as doc/schedules.md says                                 I31
 *
 * When a batch is closed all facts are noted: what a recovery finds must be the note of its batch,
 * so a job and the step of its schedule are there together or not at all (I10).
 */
#include "cron.h"

#include "base/err.h"
#include "base/rng.h"
#include "base/text.h"
#include "engine/engine.h"
#include "rules/schedule.h"
#include "sim_disk.h"
#include "swarm.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAMES = 5,
    DEFS_MAX = 256,
    JOBS_MAX = 2048,
    SNAPS = 1024,
    ASKS = 3,
    STEPS = 500,
    TURNS_MAX = 100000,
};

#define MS UINT64_C(1000)
#define SEC UINT64_C(1000000)
#define WALL UINT64_C(1700000000000000)
#define FAIL(promise, ...) sim_fail(c->report, promise, __VA_ARGS__)

/* A definition that somebody gave; its number is in the body of its jobs. */
struct def {
    struct tr_schedule is;
    uint64_t first_us; /* its first tick */
    char topic[8];
    char cron[24];
    char body[16];
};

struct job {
    uint64_t id;
    uint64_t due_us;
    int def; /* -1: not of a schedule */
    bool dead;
};

struct sched {
    bool there;
    bool held;
    uint64_t number;
    int def;
    struct tr_schedule_state at;
};

struct facts {
    struct sched scheds[NAMES];
    struct job jobs[JOBS_MAX];
    size_t job_count;
    bool too_many;
};

struct snap {
    uint64_t batch;
    uint64_t hash;
};

struct ask {
    struct tr_req req;
    struct cron *c;
    bool busy;
    int name; /* of a schedule, or -1 */
    struct def def;
    char text[8];
    uint32_t topic;
};

struct cron {
    struct sim_report *report;
    bool trace;
    struct sim_disk *disk;
    struct tr_engine *e;
    struct tr_engine_config config;
    bool starves;     /* for want of memory, now and then */
    uint32_t eio_ppm; /* chance that a write or sync fails; 0: no errors */
    struct tr_mem mem;
    struct tr_rng rng;
    struct tr_now now;
    uint64_t seeds;
    uint64_t durable;
    uint64_t since_us;
    struct def defs[DEFS_MAX];
    int def_count;
    struct facts was;
    struct facts is;
    struct snap snaps[SNAPS];
    struct ask asks[ASKS];
    bool touched[NAMES]; /* by a request in this call */
    uint64_t ran[64];    /* jobs that RUN made */
    size_t ran_count;
    uint64_t held_id; /* a job that our consumer has, */
    bool purged;      /* not looked at since */
    uint64_t step;
    uint64_t digest;
};

/* ---- facts ---- */

static int name_index(const char *name, size_t len)
{
    return len == 2 && name[0] == 's' ? name[1] - '0' : -1;
}

static int def_of(const uint8_t *body, size_t len)
{
    int n = 0;

    if (len < 2 || body == NULL || body[0] != 'd') {
        return -1;
    }
    for (size_t i = 1; i < len; i++) {
        n = n * 10 + (body[i] - '0');
    }
    return n;
}

static void add_sched(void *ctx, const struct tr_schedule_view *v)
{
    struct cron *c = ctx;
    struct sched *s = &c->is.scheds[name_index(v->name, v->name_len)];

    *s = (struct sched){.there = true,
                        .held = v->held,
                        .number = v->number,
                        .def = def_of(v->is->body, v->is->body_len),
                        .at = *v->at};
}

static void add_job(void *ctx, const struct tr_job_fact *f)
{
    struct cron *c = ctx;

    if (c->is.job_count == JOBS_MAX) {
        c->is.too_many = true;
        return;
    }
    c->is.jobs[c->is.job_count++] = (struct job){.id = f->id,
                                                 .due_us = f->due_us,
                                                 .def = def_of(f->body, f->body_len),
                                                 .dead = f->dead_seq != 0};
}

static void read_facts(struct cron *c)
{
    memset(c->is.scheds, 0, sizeof c->is.scheds);
    c->is.job_count = 0;
    tr_engine_schedules(c->e, add_sched, c);
    tr_engine_facts(c->e, add_job, c);
}

static uint64_t mix(uint64_t hash, uint64_t v)
{
    return (hash ^ v) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29);
}

static uint64_t hash_facts(const struct facts *f)
{
    uint64_t hash = 1;
    uint64_t jobs = 0; /* in no order */

    for (int i = 0; i < NAMES; i++) {
        const struct sched *s = &f->scheds[i];
        uint8_t bytes[TR_SCHEDULE_STATE_MAX];
        size_t len = s->there ? tr_schedule_state_encode(bytes, &s->at) : 0;

        hash = mix(hash, s->there ? s->number * 1000 + (uint64_t)s->def : 0);
        for (size_t k = 0; k < len; k++) {
            hash = mix(hash, bytes[k]);
        }
    }
    for (size_t i = 0; i < f->job_count; i++) {
        jobs += mix(mix(f->jobs[i].id, f->jobs[i].due_us), f->jobs[i].dead);
    }
    return mix(hash, jobs);
}

static const struct job *find_job(const struct facts *f, uint64_t id)
{
    for (size_t i = 0; i < f->job_count; i++) {
        if (f->jobs[i].id == id) {
            return &f->jobs[i];
        }
    }
    return NULL;
}

static bool lives(const struct facts *f, uint64_t id)
{
    const struct job *j = find_job(f, id);

    return j != NULL && !j->dead;
}

/* ---- the grid ---- */

static uint64_t period(const struct def *d)
{
    return d->is.kind == TR_SCHEDULE_CRON ? (uint64_t)(d->cron[2] - '0') * SEC : d->is.period_us;
}

/* The first tick after t. */
static uint64_t next_point(const struct def *d, uint64_t t)
{
    uint64_t p = period(d);

    if (d->is.kind == TR_SCHEDULE_CRON) {
        t = t < d->first_us - 1 ? d->first_us - 1 : t;
        return t / p * p + p;
    }
    return t < d->first_us || t >= UINT64_MAX / 2 ? d->first_us
                                                  : d->first_us + ((t - d->first_us) / p + 1) * p;
}

/* How many there are in (from, to]. */
static uint64_t points(const struct def *d, uint64_t from, uint64_t to)
{
    uint64_t n = 0;

    for (uint64_t t = next_point(d, from); t <= to; t = next_point(d, t)) {
        n++;
    }
    return n;
}

static bool watched(const struct def *d)
{
    return d->is.kind == TR_SCHEDULE_AFTER || d->is.overlap != TR_OVERLAP_ALLOW;
}

/* ---- judging ---- */

static bool was_run(const struct cron *c, uint64_t id)
{
    for (size_t i = 0; i < c->ran_count; i++) {
        if (c->ran[i] == id) {
            return true;
        }
    }
    return false;
}

/* The jobs of the definition that are new; *due: of one of them. */
static uint64_t new_jobs(const struct cron *c, int def, uint64_t *due)
{
    uint64_t n = 0;

    for (size_t i = 0; i < c->is.job_count; i++) {
        const struct job *j = &c->is.jobs[i];

        if (j->def == def && find_job(&c->was, j->id) == NULL && !was_run(c, j->id)) {
            *due = j->due_us;
            n++;
        }
    }
    return n;
}

static void judge_limits(struct cron *c, int i, const struct def *d)
{
    const struct sched *s = &c->is.scheds[i];

    if (d->is.limit != 0 && s->at.fired + s->at.waiting > d->is.limit) {
        FAIL("I31", "s%d fired %" PRIu64 " times, its limit is %" PRIu64, i, s->at.fired,
             d->is.limit);
    }
    if (s->at.live_id != 0 && !lives(&c->is, s->at.live_id) && !c->purged) {
        FAIL("I31", "s%d waits for job %" PRIu64 ", which has ended", i, s->at.live_id);
    }
    for (size_t k = 0; d->is.end_us != 0 && k < c->is.job_count; k++) {
        const struct job *j = &c->is.jobs[k];

        if (j->def == s->def && !was_run(c, j->id) && d->is.jitter_us == 0 &&
            d->is.overlap != TR_OVERLAP_QUEUE && j->due_us >= d->is.end_us) {
            FAIL("I31", "s%d made a job at its end", i);
        }
    }
}

/* AFTER: from the end of one to the next. */
static void judge_after(struct cron *c, int i, const struct def *d, uint64_t due)
{
    const struct tr_schedule_state *was = &c->was.scheds[i].at;
    const struct tr_schedule_state *is = &c->is.scheds[i].at;
    uint64_t t = tr_engine_clock(c->e);

    if (is->fired > was->fired && (was->live_id != 0 || due < was->tick_us + d->is.period_us ||
                                   due > was->tick_us + d->is.period_us + d->is.jitter_us)) {
        FAIL("I31", "s%d: fixed delay from %" PRIu64 " made a job due at %" PRIu64, i, was->tick_us,
             due);
    }
    if (was->live_id != 0 && is->live_id == 0 && is->tick_us != t) {
        FAIL("I31", "s%d: its job ended at %" PRIu64 ", and it counts from %" PRIu64, i, t,
             is->tick_us);
    }
}

static void judge_ticks(struct cron *c, int i, const struct def *d)
{
    const struct tr_schedule_state *was = &c->was.scheds[i].at;
    const struct tr_schedule_state *is = &c->is.scheds[i].at;
    uint64_t before = c->was.scheds[i].held ? tr_engine_clock(c->e) : c->since_us;
    uint64_t all = points(d, was->tick_us, is->tick_us);
    uint64_t missed = points(d, was->tick_us, is->tick_us < before ? is->tick_us : before - 1);
    uint64_t got = is->fired + is->skipped + is->waiting - was->fired - was->skipped - was->waiting;
    uint64_t want = all;

    if (d->is.missed != TR_MISSED_ALL) {
        want = all - missed + (missed != 0 && d->is.missed == TR_MISSED_ONCE);
    }
    if (got != want) {
        FAIL("I24",
             "s%d: %" PRIu64 " ticks from %" PRIu64 " to %" PRIu64 " (%" PRIu64
             " missed) came to %" PRIu64,
             i, all, was->tick_us, is->tick_us, missed, got);
    }
    if (is->tick_us != was->tick_us &&
        (next_point(d, is->tick_us - 1) != is->tick_us || is->tick_us > tr_engine_clock(c->e))) {
        FAIL("I24", "s%d had a tick at %" PRIu64, i, is->tick_us);
    }
    if (d->is.end_us != 0 && is->tick_us != was->tick_us && is->tick_us >= d->is.end_us) {
        FAIL("I31", "s%d had a tick after its end", i);
    }
    if (watched(d) && is->fired > was->fired &&
        (is->fired > was->fired + 1 || lives(&c->is, was->live_id))) {
        FAIL("I31", "s%d fired while its last job lives", i);
    }
    if ((d->is.overlap != TR_OVERLAP_SKIP && is->skipped > was->skipped) ||
        (d->is.overlap != TR_OVERLAP_QUEUE && is->waiting > was->waiting)) {
        FAIL("I31", "s%d does something else with a tick while its last job lives", i);
    }
    if (is->skipped > was->skipped && was->live_id == 0 && is->live_id == 0) {
        FAIL("I24", "s%d skipped a tick for no reason", i);
    }
}

static void judge(struct cron *c)
{
    read_facts(c);
    for (int i = 0; i < NAMES && !c->report->failed; i++) {
        const struct sched *was = &c->was.scheds[i];
        const struct sched *is = &c->is.scheds[i];
        const struct def *d = is->there ? &c->defs[is->def] : NULL;
        uint64_t due = 0;

        if (c->touched[i] || !is->there) {
            if (was->there != is->there && !c->touched[i]) {
                FAIL("I24", "s%d is gone", i);
            }
            continue;
        }
        judge_limits(c, i, d);
        if (!was->there || was->number != is->number || was->def != is->def) {
            FAIL("I24", "s%d is another one", i);
        } else if (new_jobs(c, is->def, &due) != is->at.fired - was->at.fired) {
            FAIL("I24", "s%d says that it fired %" PRIu64 " times, and made %" PRIu64 " jobs", i,
                 is->at.fired - was->at.fired, new_jobs(c, is->def, &due));
        } else if (was->at.paused &&
                   is->at.fired + is->at.skipped != was->at.fired + was->at.skipped) {
            FAIL("I31", "s%d fired though it is paused", i);
        } else if (d->is.kind == TR_SCHEDULE_AFTER) {
            judge_after(c, i, d, due);
        } else {
            judge_ticks(c, i, d);
        }
    }
    memset(c->touched, 0, sizeof c->touched);
    c->was = c->is;
}

/* Nothing is left to do before time goes on. */
static void judge_settled(struct cron *c)
{
    uint64_t t = tr_engine_clock(c->e);

    c->purged = false;
    for (int i = 0; i < NAMES; i++) {
        const struct sched *s = &c->was.scheds[i];
        const struct def *d = s->there ? &c->defs[s->def] : NULL;
        uint64_t next;

        if (!s->there || s->at.paused || s->held ||
            (d->is.limit != 0 && s->at.fired + s->at.waiting >= d->is.limit)) {
            continue;
        }
        if (s->at.live_id != 0 && !lives(&c->was, s->at.live_id)) {
            FAIL("I31", "s%d still waits for job %" PRIu64, i, s->at.live_id);
        }
        if (s->at.waiting != 0 && s->at.live_id == 0) {
            FAIL("I31", "s%d has occurrences that wait for nobody", i);
        }
        if (d->is.kind == TR_SCHEDULE_AFTER && s->at.live_id != 0) {
            continue;
        }
        next = d->is.kind == TR_SCHEDULE_AFTER ? s->at.tick_us + d->is.period_us
                                               : next_point(d, s->at.tick_us);
        if (next <= t && (d->is.end_us == 0 || next < d->is.end_us)) {
            FAIL("I24", "s%d: its tick of %" PRIu64 " has not come, it is %" PRIu64, i, next, t);
        }
    }
}

/* ---- the engine and its callbacks ---- */

static void on_io(void *ctx, struct tr_io *io)
{
    struct cron *c = ctx;

    tr_engine_io_done(c->e, io, c->now);
}

static void on_durable(void *ctx, uint64_t batch)
{
    struct cron *c = ctx;

    c->durable = batch;
}

static void on_closed(void *ctx, uint64_t batch)
{
    struct cron *c = ctx;
    static struct facts keep;

    keep = c->is;
    read_facts(c);
    c->snaps[batch % SNAPS] = (struct snap){batch, hash_facts(&c->is)};
    c->is = keep;
}

static void on_done(struct tr_req *r)
{
    struct ask *a = r->ctx;
    struct cron *c = a->c;

    a->busy = false;
    if (a->name >= 0) {
        c->touched[a->name] = true;
    }
    c->digest = mix(c->digest, (uint64_t)r->op * 100 + (uint64_t)-r->out.status);
    if (c->trace) {
        printf("%" PRIu64 ": op %d s%d: %s\n", c->step, (int)r->op, a->name,
               tarry_errname(r->out.status));
    }
    if (r->out.status != TARRY_OK) {
        return;
    }
    if (r->op == TR_OP_SCHEDULE_RUN && c->ran_count < 64) {
        c->ran[c->ran_count++] = r->out.job.id;
    }
    if (r->op == TR_OP_RESERVE) {
        c->held_id = r->out.job.id;
    }
    if (r->op == TR_OP_PURGE) {
        c->purged = true;
    }
}

/* What nobody was told of may have been lost, and its id given again. */
static void forget_lost(struct cron *c)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->ran_count; i++) {
        if (find_job(&c->is, c->ran[i]) != NULL) {
            c->ran[kept++] = c->ran[i];
        }
    }
    c->ran_count = kept;
}

/* Writes and syncs fail now and then; a start is spared. */
static void set_faults(struct cron *c, bool on)
{
    struct sim_faults *f = sim_disk_faults(c->disk);

    f->sync_eio_ppm = on ? c->eio_ppm : 0;
    f->write_eio_ppm = on ? c->eio_ppm : 0;
    f->short_ppm = on ? c->eio_ppm : 0;
}

static void open_engine(struct cron *c)
{
    struct tr_engine_stat stat;
    const struct snap *snap;
    int err;

    set_faults(c, false);
    err = tr_engine_open(&c->e, &c->config, sim_disk_port(c->disk), c->seeds++, c->now);
    set_faults(c, true);
    if (err != TARRY_OK) {
        FAIL("I10", "the store does not open: %s", tarry_errname(err));
        return;
    }
    tr_engine_stat(c->e, &stat);
    snap = &c->snaps[stat.durable_batch % SNAPS];
    read_facts(c);
    if (stat.durable_batch < c->durable ||
        (stat.durable_batch != 0 &&
         (snap->batch != stat.durable_batch || snap->hash != hash_facts(&c->is)))) {
        FAIL("I10", "recovery to batch %" PRIu64 " (durable %" PRIu64 ") found another state",
             stat.durable_batch, c->durable);
    }
    c->durable = stat.durable_batch;
    c->was = c->is;
    forget_lost(c);
    c->since_us = tr_engine_clock(c->e);
    c->purged = true; /* whether jobs live is looked at in the first turns */
    c->held_id = 0;
    memset(c->asks, 0, sizeof c->asks);
    memset(c->touched, 0, sizeof c->touched);
}

/* Sometimes one of the next requests for memory is refused. */
static void draw_memory(struct cron *c)
{
    c->mem.fail_at =
        c->starves && sim_dice(&c->rng, 30) ? c->mem.calls + sim_spread(&c->rng, 1, 30) : 0;
}

static void turn(struct cron *c)
{
    draw_memory(c);
    (void)tr_engine_turn(c->e, c->now);
    c->mem.fail_at = 0;
    judge(c);
}

static void settle(struct cron *c)
{
    for (unsigned i = 0; i < TURNS_MAX && !c->report->failed; i++) {
        uint64_t next = tr_engine_turn(c->e, c->now);

        judge(c);
        if (tr_engine_failed(c->e)) {
            return; /* by an error of the disk: the next step is a crash */
        }
        if (!sim_disk_step(c->disk) && next > c->now.boot_us) {
            judge_settled(c);
            return;
        }
        judge(c);
    }
    FAIL("I26", "the engine does not come to rest");
}

static void crash(struct cron *c, bool power)
{
    if (c->trace) {
        printf("%" PRIu64 ": %s\n", c->step, power ? "power cut" : "kill");
    }
    if (power) {
        sim_disk_power_cut(c->disk);
    } else {
        sim_disk_kill(c->disk);
    }
    tr_engine_free(c->e);
    c->e = NULL;
    if (sim_dice(&c->rng, 70)) {
        uint64_t away = sim_spread(&c->rng, 1, 60 * SEC);

        c->now.wall_us += away;
        c->now.boot_us += away;
    }
    open_engine(c);
}

static void reopen(struct cron *c)
{
    set_faults(c, false);
    settle(c);
    if (c->report->failed || tr_engine_failed(c->e)) {
        return;
    }
    if (tr_engine_close(c->e, c->now) != TARRY_OK) {
        FAIL("I10", "the store cannot be closed");
    }
    sim_disk_kill(c->disk);
    tr_engine_free(c->e);
    c->e = NULL;
    open_engine(c);
}

/* ---- clients ---- */

static void draw_def(struct cron *c, struct ask *a)
{
    struct def *d = &a->def;
    uint64_t t = c->now.wall_us; /* what the engine will call T */

    memset(d, 0, sizeof *d);
    tr_text(d->topic, sizeof d->topic, "t%d", (int)tr_rng_below(&c->rng, 2));
    tr_text(d->body, sizeof d->body, "d%d", c->def_count);
    d->is = (struct tr_schedule){
        .kind = (enum tr_schedule_kind)tr_rng_below(&c->rng, 3),
        .topic = {d->topic, strlen(d->topic)},
        .body = (const uint8_t *)d->body,
        .body_len = strlen(d->body),
        .overlap = (enum tr_overlap)tr_rng_below(&c->rng, TR_OVERLAP_COUNT),
        .missed = (enum tr_missed)tr_rng_below(&c->rng, TR_MISSED_COUNT),
        .jitter_us = sim_dice(&c->rng, 20) ? sim_spread(&c->rng, 1, SEC) : 0,
        .limit = sim_dice(&c->rng, 30) ? sim_between(&c->rng, 1, 6) : 0,
        .start_us = sim_dice(&c->rng, 30) ? t - SEC + sim_spread(&c->rng, 1, 20 * SEC) : 0,
    };
    if (sim_dice(&c->rng, 30)) { /* often just at a tick */
        d->is.end_us = (d->is.start_us > t ? d->is.start_us : t) / SEC * SEC +
                       sim_between(&c->rng, 1, 60) * SEC;
    }
    if (d->is.kind == TR_SCHEDULE_CRON) {
        static const int steps[] = {2, 3, 4, 5, 6};

        tr_text(d->cron, sizeof d->cron, "*/%d * * * * *", steps[tr_rng_below(&c->rng, 5)]);
        d->is.cron = (struct tr_schedule_text){d->cron, strlen(d->cron)};
    } else {
        d->is.period_us = sim_dice(&c->rng, 50) ? sim_between(&c->rng, 1, 8) * SEC
                                                : sim_spread(&c->rng, 500 * MS, 20 * SEC);
        if (sim_dice(&c->rng, 50) && d->is.end_us != 0) {
            d->is.start_us = t / SEC * SEC + SEC;
        }
    }
    d->first_us = d->is.start_us > t ? d->is.start_us : t;
    if (d->is.kind == TR_SCHEDULE_EVERY && d->is.start_us == 0) {
        d->first_us = t + d->is.period_us;
    }
    if (d->is.kind == TR_SCHEDULE_CRON && d->is.start_us <= t) {
        d->first_us = t + 1;
    }
}

static void submit(struct cron *c, struct ask *a, enum tr_op op)
{
    a->c = c;
    a->busy = true;
    a->req.op = op;
    a->req.done = on_done;
    a->req.ctx = a;
    tr_engine_submit(c->e, &a->req, c->now);
    judge(c);
}

static void hold_topics(struct cron *c)
{
    for (unsigned i = 0; i < 2 && !c->report->failed; i++) {
        struct ask *a = &c->asks[0];

        memset(a, 0, sizeof *a);
        a->name = -1;
        a->req.name = i == 0 ? "t0" : "t1";
        a->req.name_len = 2;
        a->req.hold = TR_HOLD_USE;
        submit(c, a, TR_OP_HOLD_TOPIC);
        c->asks[1 + i].topic = a->req.out.topic;
    }
}

static void ask_schedule(struct cron *c, struct ask *a, enum tr_op op)
{
    a->name = (int)tr_rng_below(&c->rng, NAMES);
    tr_text(a->text, sizeof a->text, "s%d", a->name);
    a->req.name = a->text;
    a->req.name_len = 2;
    if (op == TR_OP_SCHEDULE) {
        if (c->def_count == DEFS_MAX) {
            return;
        }
        draw_def(c, a);
        a->req.schedule = &a->def.is;
        c->defs[c->def_count++] = a->def;
    }
    submit(c, a, op);
}

static uint64_t any_job(struct cron *c)
{
    return c->was.job_count != 0 ? c->was.jobs[tr_rng_below(&c->rng, c->was.job_count)].id : 0;
}

static void ask(struct cron *c)
{
    static const struct {
        enum tr_op op;
        unsigned weight;
    } ops[] = {
        {TR_OP_SCHEDULE, 14},        {TR_OP_SCHEDULE_DROP, 2}, {TR_OP_SCHEDULE_PAUSE, 4},
        {TR_OP_SCHEDULE_RESUME, 10}, {TR_OP_SCHEDULE_RUN, 3},  {TR_OP_RESERVE, 30},
        {TR_OP_DELETE, 45},          {TR_OP_BURY, 5},          {TR_OP_PURGE, 2},
    };
    struct ask *a = &c->asks[tr_rng_below(&c->rng, ASKS)];
    uint32_t topic = c->asks[1].topic;
    uint64_t dice = tr_rng_below(&c->rng, 115);
    size_t k = 0;

    if (a->busy) {
        return;
    }
    while (dice >= ops[k].weight) {
        dice -= ops[k++].weight;
    }
    topic = sim_dice(&c->rng, 50) ? topic : c->asks[2].topic;
    uint32_t keep = a->topic;

    memset(a, 0, sizeof *a);
    a->topic = keep;
    a->name = -1;
    a->req.holder = 7;
    a->req.ttr_us = 1000 * SEC;
    a->req.topic = topic;
    if (ops[k].op == TR_OP_RESERVE) {
        a->req.topics = &c->asks[1 + tr_rng_below(&c->rng, 2)].topic;
        a->req.topic_count = 1;
    } else if (ops[k].op == TR_OP_DELETE) {
        a->req.id = c->held_id != 0 && sim_dice(&c->rng, 60) ? c->held_id : any_job(c);
        a->req.force = true;
    } else if (ops[k].op == TR_OP_BURY) {
        a->req.id = c->held_id;
    }
    if (ops[k].op >= TR_OP_SCHEDULE) {
        ask_schedule(c, a, ops[k].op);
    } else {
        submit(c, a, ops[k].op);
    }
}

/* A schedule's definition was given, but the engine has it at another T if it had to wait. */
static void pass(struct cron *c)
{
    uint64_t by = sim_spread(&c->rng, 1, 10 * SEC);

    if (c->asks[0].busy || c->asks[1].busy || c->asks[2].busy) {
        return; /* one that waits is to see the T that it was drawn at */
    }
    c->now.wall_us += by;
    c->now.boot_us += by;
    if (sim_dice(&c->rng, 4)) { /* set back a little */
        c->now.wall_us -= sim_spread(&c->rng, 1, 5 * SEC);
    }
}

/* After a start. */
static void begin(struct cron *c, uint32_t topics[ASKS])
{
    if (!c->report->failed && !tr_engine_failed(c->e)) {
        hold_topics(c);
        topics[1] = c->asks[1].topic;
        topics[2] = c->asks[2].topic;
    }
}

static void play(struct cron *c)
{
    uint32_t topics[ASKS] = {0};

    begin(c, topics);
    for (c->step = 0; c->step < STEPS && !c->report->failed && !c->is.too_many; c->step++) {
        uint64_t dice = tr_rng_below(&c->rng, 100);

        c->asks[1].topic = topics[1];
        c->asks[2].topic = topics[2];
        if (dice < 40) {
            draw_memory(c);
            ask(c);
            c->mem.fail_at = 0;
        } else if (dice < 55) {
            turn(c);
        } else if (dice < 70) {
            (void)sim_disk_step(c->disk);
            judge(c);
        } else if (dice < 88) {
            pass(c);
        } else if (dice < 96) {
            settle(c);
        } else if (dice < 99) {
            crash(c, sim_dice(&c->rng, 60));
            begin(c, topics);
        } else {
            reopen(c);
            begin(c, topics);
        }
        if (!c->report->failed && tr_engine_failed(c->e)) {
            if (c->trace) {
                printf("%" PRIu64 ": the disk failed\n", c->step);
            }
            crash(c, sim_dice(&c->rng, 50));
            begin(c, topics);
        }
    }
    set_faults(c, false);
    if (!c->report->failed) {
        settle(c);
    }
}

static void init(struct cron *c, uint64_t seed)
{
    struct tr_rng *rng = &c->rng;

    rng->state = seed * UINT64_C(7919);
    c->now = (struct tr_now){WALL, SEC};
    c->seeds = seed;
    c->starves = seed % 4 == 1;
    c->eio_ppm = seed % 4 == 3 ? 10000 : 0;
    tr_mem_init(&c->mem, 0);
    c->disk = sim_disk_new(on_io, c);
    sim_disk_reset(c->disk, seed);
    tr_engine_config_init(&c->config, &c->mem);
    c->config.slot_bytes = 65536;
    c->config.slots_max = 16;
    c->config.batch_bytes = sim_spread(rng, 4096, 16384);
    c->config.body_max = 4096;
    c->config.rid_block = (uint32_t)sim_spread(rng, 8, 1024);
    c->config.checkpoint_slack = 65536;
    c->config.near_us = UINT64_MAX / 4;
    c->config.scrub_every_us = 0;
    c->config.promote_slots = 0; /* jobs in runs are no facts */
    c->config.slice = (uint32_t)sim_spread(rng, 20, 1000);
    c->config.checkpoint_us = sim_spread(rng, MS, 5 * SEC);
    c->config.ctx = c;
    c->config.durable = on_durable;
    c->config.closed = on_closed;
}

bool sim_cron_seed(struct sim_report *report, uint64_t seed, bool trace, uint64_t *digest)
{
    struct cron *c = calloc(1, sizeof *c);

    if (c == NULL) {
        abort();
    }
    *report = (struct sim_report){0};
    c->report = report;
    c->trace = trace;
    init(c, seed);
    open_engine(c);
    if (!report->failed) {
        play(c);
    }
    sim_disk_kill(c->disk);
    tr_engine_free(c->e);
    if (c->mem.used_bytes != 0) {
        FAIL("I18", "%" PRIu64 " bytes of memory are left", c->mem.used_bytes);
    }
    *digest = c->digest ^ sim_disk_hash(c->disk);
    sim_disk_free(c->disk);
    free(c);
    return !report->failed;
}
