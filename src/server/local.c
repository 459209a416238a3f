/*
 * One function for each row of the table; most of them only hand on.
 *
 *     prepare   the folder, the greeting, the disk and its threads
 *     open      the engine: it replays its log, which may take long
 *     woken     the disk's threads are done with something: the engine hears of it
 *     help      a small commit that the disk left to the loop's thread
 *
 * A start can be given up: the disk then answers no more, as if the process ended there, and what
 * the engine misses is not told.
 */

#include "server/engines.h"

#include "base/err.h"
#include "os/clock_linux.h"
#include "os/process_linux.h"
#include "os/random_linux.h"
#include "os/zones_linux.h"
#include "rules/policy.h"
#include "server/greet.h"
#include "server/local_inner.h"
#include "server/trouble.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what the engine calls ---- */

static void notice(void *ctx, enum tr_notice kind, const char *text)
{
    const struct tr_local *l = ctx;

    if (!tr_disk_linux_gave_up(l->disk)) { /* else what it misses is there */
        l->parts.calls.notice(l->parts.calls.ctx, kind, text);
    }
}

static void durable(void *ctx, uint64_t batch)
{
    const struct tr_local *l = ctx;

    l->parts.calls.durable(l->parts.calls.ctx, batch);
}

static void outlet(void *ctx, uint32_t topic)
{
    const struct tr_local *l = ctx;

    l->parts.calls.outlet(l->parts.calls.ctx, topic);
}

static void dropped(void *ctx, uint32_t topic)
{
    const struct tr_local *l = ctx;

    l->parts.calls.dropped(l->parts.calls.ctx, topic);
}

static uint64_t event(void *ctx)
{
    const struct tr_local *l = ctx;

    return l->parts.calls.event(l->parts.calls.ctx);
}

static void idle(void *ctx)
{
    (void)ctx;
    tr_process_trim_memory();
}

/* ---- start and end ---- */

static int prepare(void *ctx)
{
    struct tr_local *l = ctx;
    const struct tr_config *c = l->parts.config;
    int err = TARRY_OK;

    l->path = c->data_path;
    if (l->path == NULL) {
        err = tr_process_temp_dir(l->temp, sizeof l->temp);
        l->path = l->temp;
    }
    if (err == TARRY_OK) {
        tr_greet(c, l->path, l->temp[0] != '\0');
        err = c->read_only
                  ? tr_disk_linux_look(&l->disk, l->path, tr_loop_linux_wake, l->parts.loop)
                  : tr_disk_linux_open(&l->disk, l->path, tr_loop_linux_wake, l->parts.loop);
    }
    return err == TARRY_OK ? TR_EXIT_FINE : (int)tr_trouble_store(l->path, err);
}

static struct tr_engine_config config_of(struct tr_local *l)
{
    const struct tr_config *c = l->parts.config;
    const struct tr_budget *b = l->parts.budget;
    struct tr_engine_config e;

    tr_engine_config_init(&e, l->parts.mem);
    e.zone = tr_zones_linux_read;
    e.sync = c->sync;
    e.sync_us = c->sync_us;
    e.max_topics = c->topics_max;
    e.far_max = b->far_max;
    e.near_max = b->near_max;
    e.body_cache_bytes = b->bodies;
    e.promote_slots = b->promote_slots;
    e.history_us = c->history_us;
    e.history_bytes = b->history;
    e.test_clock = c->test_clock;
    e.clock_start_us = c->clock_start_us;
    e.background_rate = c->background_rate;
    e.scrub_rate = c->scrub_rate;
    e.scrub_every_us = c->scrub_every_us;
    e.read_only = c->read_only;
    e.body_max = TR_CONFIG_BODY_MAX; /* each port has its own limit, which may change */
    e.ctx = l;
    e.notice = notice;
    e.durable = durable;
    e.idle = idle;
    e.outlet = outlet;
    e.dropped = dropped;
    e.event = event;
    return e;
}

static int open_engine(struct tr_local *l)
{
    struct tr_engine_config c = config_of(l);
    struct tr_disk disk = tr_disk_linux_port(l->disk);
    uint64_t seed;
    int err = tr_random_linux_seed(&seed);

    if (err != TARRY_OK) {
        return err;
    }
    err = tr_engine_open(&l->engine, &c, disk, seed, tr_clock_linux_now());
    if (c.read_only && (err == TARRY_EDAMAGED || err == TARRY_EIO) &&
        !tr_disk_linux_gave_up(l->disk)) { /* then what is left of it */
        tr_logger_say(l->parts.log, TR_LEVEL_WARNING,
                      "the store is damaged: what can be read is shown; tarry check says more");
        c.salvage = true;
        err = tr_engine_open(&l->engine, &c, disk, seed, tr_clock_linux_now());
    }
    tr_process_trim_memory(); /* what the replay took */
    return err;
}

static int open_store(void *ctx)
{
    struct tr_local *l = ctx;
    int err;

    tr_disk_linux_offer_help(l->disk);
    tr_disk_linux_give_up(l->disk, l->parts.calls.give_up, l->parts.calls.ctx);
    err = open_engine(l);
    l->given_up = tr_disk_linux_gave_up(l->disk);
    if (l->given_up) {
        return TR_EXIT_FINE;
    }
    if (err != TARRY_OK) {
        return (int)tr_trouble_store(l->path, err);
    }
    tr_disk_linux_give_up(l->disk, NULL, NULL);
    return TR_EXIT_FINE;
}

/* Ends in order if the engine lets it. */
static int close_store(void *ctx)
{
    struct tr_local *l = ctx;
    struct tr_engine_stat stat;
    int err;

    tr_engine_stat(l->engine, &stat);
    if (tr_engine_failed(l->engine)) {
        fprintf(stderr, "tarry: %s: stopped by a failure of the disk\n%s\n", l->path,
                "The kernel's log (dmesg) may say why; put that right and start again.");
        return TR_EXIT_FAILED;
    }
    err = tr_engine_close(l->engine, tr_clock_linux_now());
    if (err != TARRY_OK) {
        return (int)tr_trouble_store(l->path, err);
    }
    tr_greet_bye(l->path, stat.jobs);
    return TR_EXIT_FINE;
}

static void free_all(void *ctx)
{
    struct tr_local *l = ctx;

    tr_disk_linux_close(l->disk); /* ends the threads: after it nobody wakes the loop */
    tr_engine_free(l->engine);
    if (l->temp[0] != '\0') {
        tr_process_remove_dir(l->temp);
    }
    free(l);
}

static enum tr_engine_stage stage(void *ctx)
{
    const struct tr_local *l = ctx;

    if (l->given_up) {
        return TR_ENGINE_GIVEN_UP;
    }
    if (l->engine == NULL) {
        return TR_ENGINE_OPENING;
    }
    return tr_engine_failed(l->engine) ? TR_ENGINE_FAILED : TR_ENGINE_OPEN;
}

static bool busy(void *ctx)
{
    const struct tr_local *l = ctx;

    return tr_engine_busy(l->engine);
}

/* ---- requests and rounds ---- */

static void submit(void *ctx, struct tr_req *r, struct tr_now now)
{
    const struct tr_local *l = ctx;

    tr_engine_submit(l->engine, r, now);
}

static void abandon(void *ctx, struct tr_req *r, struct tr_now now)
{
    const struct tr_local *l = ctx;

    tr_engine_abandon(l->engine, r, now);
}

static unsigned work(void *ctx)
{
    const struct tr_local *l = ctx;

    return tr_engine_work(l->engine);
}

static uint64_t turn(void *ctx, struct tr_now now)
{
    const struct tr_local *l = ctx;

    return tr_engine_turn(l->engine, now);
}

static void take(const struct tr_local *l, struct tr_io *io)
{
    while (io != NULL) {
        struct tr_io *next = io->next;

        tr_engine_io_done(l->engine, io, tr_clock_linux_now());
        io = next;
    }
}

static void woken(void *ctx)
{
    const struct tr_local *l = ctx;

    take(l, tr_disk_linux_take_done(l->disk));
}

static bool help(void *ctx)
{
    const struct tr_local *l = ctx;
    struct tr_io *io = tr_disk_linux_help(l->disk);
    bool some = io != NULL;

    take(l, io);
    return some;
}

/* ---- what it tells ---- */

static void view(void *ctx, struct tr_engine_view *v)
{
    const struct tr_local *l = ctx;
    struct tr_engine_stat s;

    tr_engine_stat(l->engine, &s);
    *v = (struct tr_engine_view){
        .jobs = s.jobs,
        .clock_us = s.clock_us,
        .draining = s.draining,
        .memory_used = s.memory_used,
        .memory_limit = s.memory_limit,
        .memory_full = s.memory_full,
        .log_oldest = s.seg_oldest,
        .log_newest = s.seg_newest,
        .log_moved = s.relogged,
        .log_written = s.log_records,
        .log_file_bytes = s.slot_bytes,
    };
}

static uint64_t clock_of(void *ctx)
{
    const struct tr_local *l = ctx;

    return tr_engine_clock(l->engine);
}

static const uint8_t *uuid(void *ctx)
{
    const struct tr_local *l = ctx;

    return tr_engine_uuid(l->engine);
}

static unsigned unready(void *ctx, struct tr_reason *reasons)
{
    const struct tr_local *l = ctx;
    struct tr_engine_stat s;
    unsigned n = 0;

    tr_engine_stat(l->engine, &s);
    if (s.damaged) {
        reasons[n++] = (struct tr_reason){
            "damaged", "something of the store cannot be read: the log and tarry check say what",
            false};
    }
    if (s.refusing) {
        reasons[n++] = (struct tr_reason){"disk_nearly_full",
                                          "the disk is nearly full: no new jobs are taken", false};
    }
    return n;
}

static void meters_begin(void *ctx)
{
    const struct tr_local *l = ctx;

    tr_engine_meters_begin(l->engine);
}

static void meters_end(void *ctx)
{
    const struct tr_local *l = ctx;

    tr_engine_meters_end(l->engine);
}

static bool meters_looks(void *ctx)
{
    const struct tr_local *l = ctx;

    return tr_engine_meters_looks(l->engine);
}

static unsigned meters(void *ctx, unsigned from, bool with_due, struct tr_meter_view *views)
{
    const struct tr_local *l = ctx;

    return tr_engine_meters(l->engine, from, with_due, views);
}

/* ---- names ---- */

static uint32_t actor(void *ctx, const char *name, size_t len)
{
    const struct tr_local *l = ctx;

    return l->engine != NULL ? tr_engine_actor(l->engine, name, len) : 0;
}

static const char *actor_name(void *ctx, uint32_t number, size_t *len)
{
    const struct tr_local *l = ctx;

    return tr_engine_actor_name(l->engine, number, len);
}

static const char *topic_name(void *ctx, uint32_t topic, size_t *len)
{
    const struct tr_local *l = ctx;

    return tr_engine_topic_name(l->engine, topic, len);
}

/* Whom to tell of topics that deliver. */
struct listener {
    tr_engine_topic_fn *fn;
    void *ctx;
};

static void meet(void *ctx, const struct tr_topic_fact *fact)
{
    const struct listener *to = ctx;

    if (fact->policy != NULL && fact->policy->deliver_len > 0) {
        to->fn(to->ctx, fact->handle);
    }
}

static void deliverers(void *ctx, tr_engine_topic_fn *fn, void *fn_ctx)
{
    const struct tr_local *l = ctx;
    struct listener to = {fn, fn_ctx};

    tr_engine_topics(l->engine, meet, &to);
}

/* ---- what it is told ---- */

static void drain(void *ctx)
{
    const struct tr_local *l = ctx;

    tr_engine_drain(l->engine);
}

static void tune(void *ctx)
{
    const struct tr_local *l = ctx;
    const struct tr_config *c = l->parts.config;
    const struct tr_budget *b = l->parts.budget;
    struct tr_engine_tune to = {
        .far_max = b->far_max,
        .background_rate = c->background_rate,
        .scrub_rate = c->scrub_rate,
        .scrub_every_us = c->scrub_every_us,
        .history_us = c->history_us,
        .history_bytes = b->history,
    };

    if (l->engine != NULL) { /* else it gets them when it is opened */
        tr_engine_tune(l->engine, &to);
    }
}

static const struct tr_engine_ops ops = {
    .prepare = prepare,
    .open = open_store,
    .close = close_store,
    .free = free_all,
    .stage = stage,
    .busy = busy,
    .stuck = "the disk does not answer: stopped without closing the store, which is recovered at "
             "the next start",
    .turn = turn,
    .woken = woken,
    .help = help,
    .view = view,
    .clock = clock_of,
    .uuid = uuid,
    .unready = unready,
    .durability = tr_local_durability,
    .tell = tr_local_tell,
    .metrics = tr_local_metrics,
    .meters_begin = meters_begin,
    .meters_end = meters_end,
    .meters_looks = meters_looks,
    .meters = meters,
    .actor = actor,
    .actor_name = actor_name,
    .topic_name = topic_name,
    .deliverers = deliverers,
    .drain = drain,
    .tune = tune,
};

int tr_local_make(struct tr_engine_port *port, const struct tr_engine_parts *parts)
{
    struct tr_local *l = calloc(1, sizeof *l);

    if (l == NULL) {
        return TARRY_ENOMEM;
    }
    l->parts = *parts;
    *port = (struct tr_engine_port){
        .ops = &ops,
        .ctx = l,
        .queue = {.ctx = l, .submit = submit, .abandon = abandon, .work = work}};
    return TARRY_OK;
}
