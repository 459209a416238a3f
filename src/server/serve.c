/*
 * The server: loop, disk, engine and ports, wired together.
 *
 *     sockets ------events--> conns --requests--> engine --> disk threads
 *     disk threads --wake--> loop --woken--> io_done for each completion --durable--> conns
 *     signals -------------> loop --signalled--> stop, drain, reload
 *     outlets --requests--> engine; their sockets are on the loop, their threads wake it
 *                            loop --turn--> who sent something, or can go on; the engine's turn;
 *                                           one write for each connection; when is the next turn?
 *
 * Start: the loop first, so that from the first line on no signal kills; then the sockets, so that
 * a port in use is told before anything else, and clients of a server that is started again wait
 * instead of being refused; then the user to become; then disk and engine, whose opening blocks.
 *
 * Loading: while the main thread opens the engine another one runs the loop (meanwhile.c), so that
 * somebody says that we live and are not ready yet. Engine, disk and s->mem are not the loop's
 * then. What needs the store waits for a moment, as clients of a server that is started again like
 * it best, and is refused with 503 after that. The beanstalk port has no word for "not yet": its
 * clients wait in the kernel's backlog. Signals to drain and to reload wait for the end of it; one
 * to stop ends it at the next call of the disk: the store is then as after a crash.
 *
 * Stop: no new connections and commands; what was taken is answered, as long as that takes not
 * too long; then no more turns, so nothing new begins; when the engine is not busy any more it is
 * closed (CLEAN). A disk that does not answer in time is left to itself: the store is then as
 * after a crash, which loses nothing.
 *
 * Failure: a log or manifest that cannot be written is final (the engine says so, and why). The
 * store is left as after a crash; the next start recovers it.
 *
 * What is asked for goes to stdout, what went wrong to stderr, a line each.
 */

#include "server/serve.h"

#include "base/err.h"
#include "base/mem.h"
#include "os/clock_linux.h"
#include "os/digest_linux.h"
#include "os/disk_linux.h"
#include "os/loop_linux.h"
#include "os/notify_linux.h"
#include "os/process_linux.h"
#include "os/random_linux.h"
#include "os/zones_linux.h"
#include "server/budget.h"
#include "server/certificate.h"
#include "server/conn.h"
#include "server/delivery.h"
#include "server/greet.h"
#include "server/live.h"
#include "server/meanwhile.h"
#include "server/metrics.h"
#include "server/tell.h"
#include "server/trouble.h"
#include "server/web.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORK_US = 1000,      /* for clients in a round; what they leave is for the next one, */
    AGAIN_US = 500,      /* and for those who can go on after the engine's turn, */
    OUTLETS_US = 500,    /* for outlets, each time, */
    SEND_US = 2000,      /* and for sending */
    STORE_FILES = 192,   /* descriptors that connections may not have */
    SPARE = 64,          /* connections beyond the limit, to be told of it */
    MEMORY_SHORT = 65536 /* bytes that a push of middling size may take */
};

#define HOLD_US UINT64_C(1000000)         /* from the start on; who asks then waits for the store */
#define STOP_SENDS_US UINT64_C(2000000)   /* outlets may take so long to end what they send, */
#define STOP_CLIENTS_US UINT64_C(3000000) /* clients so long to read their answers, */
#define STOP_DISK_US UINT64_C(4500000)    /* and the disk so long to write what it has */

struct server {
    struct tr_config *config;
    struct tr_logger log;
    struct tr_budget budget;
    struct tr_mem mem;      /* of the engine */
    struct tr_mem conn_mem; /* of connections, but for what they send and are sent */
    struct tr_loop_linux *loop;
    struct tr_disk_linux *disk;
    struct tr_engine *engine;
    struct tr_conns conns;
    struct tr_delivery delivery;
    struct tr_auth auth;
    uint64_t most;  /* connections for which there are descriptors */
    char temp[256]; /* a store that goes when we go, or empty */
    const char *path;
    uint64_t start_us;
    uint64_t start_wall_us;
    struct tr_notify_linux notify;
    uint64_t alive_us; /* when the service manager is told again that we are alive */
    uint64_t stop_us;  /* when it was told to stop; 0: it was not */
    bool closing;      /* all clients are gone: the engine gets no more turns */
    bool gave_up;      /* it was told to stop while it opened the store */
    bool loading;      /* the store is being opened, and the loop is another thread's; */
    bool drain_late;   /* to be done then, */
    bool reload_late;  /* and this, too */
    atomic_bool stop_asked;
    struct tr_meanwhile meanwhile;
};

/* ---- what the engine and the ports call ---- */

static void notice(void *ctx, enum tr_notice kind, const char *text)
{
    struct server *s = ctx;

    if (tr_disk_linux_gave_up(s->disk)) {
        return; /* what it misses is there */
    }
    tr_logger_notice(&s->log, kind, text);
}

static void durable(void *ctx, uint64_t batch)
{
    struct server *s = ctx;

    tr_conns_durable(&s->conns, batch);
    if (s->delivery.outlets != NULL) {
        tr_outlets_durable(s->delivery.outlets, batch);
    }
}

static void outlet(void *ctx, uint32_t topic)
{
    struct server *s = ctx;

    if (s->delivery.outlets != NULL) {
        tr_outlets_look(s->delivery.outlets, topic);
    }
}

static uint64_t outlet_event(void *ctx)
{
    const struct server *s = ctx;

    return tr_outlets_event(s->delivery.outlets);
}

static void idle(void *ctx)
{
    (void)ctx;
    tr_process_trim_memory();
}

static void submit(void *ctx, struct tr_req *r, struct tr_now now)
{
    struct server *s = ctx;

    tr_engine_submit(s->engine, r, now);
}

static void abandon(void *ctx, struct tr_req *r, struct tr_now now)
{
    struct server *s = ctx;

    tr_engine_abandon(s->engine, r, now);
}

static void full(void *ctx, const char *why)
{
    struct server *s = ctx;

    tr_logger_say(&s->log, TR_LEVEL_WARNING, "%s", why);
}

static void note(void *ctx, const char *text)
{
    struct server *s = ctx;

    tr_logger_say(&s->log, TR_LEVEL_INFO, "%s", text);
}

static void slow(void *ctx, const char *port, const struct tr_doing *d, uint64_t took_us)
{
    const struct server *s = ctx;
    struct tr_slow line = {.port = port,
                           .command = d->command,
                           .topic = d->name,
                           .topic_len = d->name_len,
                           .took_us = took_us};

    if (d->name == NULL && !s->loading) {
        line.topic = tr_engine_topic_name(s->engine, d->topic, &line.topic_len);
    }
    tr_logger_slow(&s->log, &line);
}

static unsigned work(void *ctx)
{
    const struct server *s = ctx;

    return tr_engine_work(s->engine);
}

static void usage(void *ctx, struct tr_bs_usage *u)
{
    struct tr_conns *conns = ctx;
    const struct server *s = TR_CONTAINER_OF(conns, struct server, conns);
    struct tr_process_usage process = tr_process_usage();
    struct tr_loop_stat loop = tr_loop_linux_stat(s->loop);
    struct tr_engine_stat engine;

    tr_engine_stat(s->engine, &engine);
    *u = (struct tr_bs_usage){
        .user_us = process.user_us,
        .system_us = process.system_us,
        .uptime_us = tr_clock_linux_now().boot_us - s->start_us,
        .log_oldest = engine.seg_oldest,
        .log_newest = engine.seg_newest,
        .log_migrated = engine.relogged,
        .log_written = engine.log_records,
        .log_file_bytes = engine.slot_bytes,
        .stalls = loop.stalls,
        .longest_us = loop.longest_us,
        .draining = engine.draining,
    };
}

static void tell_config(void *ctx, struct tr_json *j)
{
    const struct server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct server, conns);

    tr_tell_config(j, s->config);
}

static void tell_stats(void *ctx, struct tr_json *j)
{
    const struct server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct server, conns);
    struct tr_engine_stat engine;
    struct tr_engine_gauges gauges;

    tr_engine_stat(s->engine, &engine);
    tr_engine_gauges(s->engine, &gauges);
    tr_json_name(j, "sync");
    tr_json_text(j, s->config->sync_text);
    tr_tell_process(j, tr_clock_linux_now().boot_us - s->start_us, tr_loop_linux_stat(s->loop));
    tr_tell_store(j, &engine, &gauges);
    tr_tell_damage(j, &engine);
    tr_tell_memory(j, &s->budget, &engine, s->conns.buffers.used_bytes);
    tr_tell_conns(j, &s->conns);
    tr_tell_auth(j, &s->auth);
}

static const char *actor_name(void *ctx, uint32_t actor, size_t *len)
{
    const struct server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct server, conns);

    return tr_engine_actor_name(s->engine, actor, len);
}

static int admit(void *ctx, const struct tr_deliver *d, const char **why)
{
    const struct server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct server, conns);

    return tr_outlets_admit(d, s->config->allow_private, why);
}

static bool tell_outlet(void *ctx, uint32_t topic, struct tr_outlet_view *v)
{
    const struct server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct server, conns);

    return tr_outlets_view(s->delivery.outlets, topic, v);
}

/* Why new jobs are not to come here now; the gravest reason first. */
static unsigned unready_for(const struct server *s, struct tr_hs_reason *reasons)
{
    struct tr_engine_stat engine;
    unsigned n = 0;

    if (s->stop_us != 0) {
        reasons[n++] = (struct tr_hs_reason){"stopping", "the server is stopping"};
    }
    if (s->loading) {
        reasons[n++] = (struct tr_hs_reason){"loading", "the store is being opened"};
        return n;
    }
    tr_engine_stat(s->engine, &engine);
    if (engine.draining) {
        reasons[n++] =
            (struct tr_hs_reason){"draining", "the server is draining: it takes no new jobs"};
    }
    if (engine.damaged) {
        reasons[n++] = (struct tr_hs_reason){
            "damaged", "something of the store cannot be read: the log and tarry check say what"};
    }
    if (engine.refusing) {
        reasons[n++] = (struct tr_hs_reason){"disk_nearly_full",
                                             "the disk is nearly full: no new jobs are taken"};
    }
    if (!tr_mem_room(&s->mem, MEMORY_SHORT)) {
        reasons[n++] =
            (struct tr_hs_reason){"memory_short", "memory.limit is nearly reached: no new jobs are "
                                                  "taken"};
    }
    return n;
}

static unsigned unready(void *ctx, struct tr_hs_reason *reasons)
{
    return unready_for(TR_CONTAINER_OF((struct tr_conns *)ctx, struct server, conns), reasons);
}

static void metrics_begin(void *ctx)
{
    const struct server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct server, conns);

    tr_engine_meters_begin(s->engine);
}

static bool metrics_looks(void *ctx)
{
    const struct server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct server, conns);

    return tr_engine_meters_looks(s->engine);
}

static unsigned metrics_topics(void *ctx, unsigned from, bool with_due, struct tr_meter_view *views)
{
    const struct server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct server, conns);

    return tr_engine_meters(s->engine, from, with_due, views);
}

static void tell_metrics(void *ctx, struct tr_prom *p)
{
    const struct server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct server, conns);
    struct tr_hs_reason reasons[TR_HS_REASONS];
    struct tr_metrics_of of = {.engine = s->engine,
                               .loop = s->loop,
                               .conns = &s->conns,
                               .auth = &s->auth,
                               .mem = &s->mem,
                               .outlets = s->delivery.outlets,
                               .path = s->path,
                               .version = TARRY_VERSION,
                               .sync = s->config->sync_text,
                               .start_wall_us = s->start_wall_us,
                               .reasons = reasons,
                               .reason_count = unready_for(s, reasons)};

    tr_metrics_tell(p, &of);
}

static uint64_t peer(void *ctx, const void *session)
{
    struct tr_sock_peer at;

    (void)ctx;
    tr_conns_peer(session, &at);
    return at.number;
}

static void warn(void *ctx, const void *session)
{
    const struct server *s = ctx;
    struct tr_sock_peer at;

    tr_conns_peer(session, &at);
    tr_logger_say(&s->log, TR_LEVEL_WARNING, "many wrong tokens come from %s", at.text);
}

static void audit(void *ctx, const struct tr_auth_pass *pass, const char *what, unsigned status)
{
    const struct server *s = ctx;
    struct tr_sock_peer at;

    tr_conns_peer(pass->session, &at);
    tr_logger_audit(
        &s->log, &(struct tr_audit){
                     .token = pass->who->is.name, .from = at.text, .what = what, .status = status});
}

/* ---- what the loop calls ---- */

static void take(struct server *s, struct tr_io *io)
{
    while (io != NULL) {
        struct tr_io *next = io->next;

        tr_engine_io_done(s->engine, io, tr_clock_linux_now());
        io = next;
    }
}

static void woken(void *ctx)
{
    struct server *s = ctx;

    if (!s->loading) {
        take(s, tr_disk_linux_take_done(s->disk));
    }
    tr_conns_shaken(&s->conns);
    tr_outlets_woken(s->delivery.outlets);
}

/* Where what can change of the config is used. */
static struct tr_live live(struct server *s)
{
    return (struct tr_live){.config = s->config,
                            .log = &s->log,
                            .conns = &s->conns,
                            .engine = s->engine,
                            .budget = &s->budget,
                            .ram_bytes = tr_process_memory(),
                            .most = s->most};
}

/* Histories tell the names of tokens. */
static void name_actors(struct server *s)
{
    for (unsigned i = 0; s->engine != NULL && i < s->auth.count; i++) {
        struct tr_auth_token *t = &s->auth.tokens[i];

        t->actor = tr_engine_actor(s->engine, t->is.name, strlen(t->is.name));
    }
}

/* The tokens of the config from now on, also for clients that are there. SHA-256 is asked for only
 * when there are some. */
static int set_tokens(struct server *s)
{
    const struct tr_config *c = s->config;
    struct tr_now now = tr_clock_linux_now();
    int err = TARRY_OK;

    if (c->token_count > 0 && s->auth.digest.ctx == NULL) {
        err = tr_digest_linux_open(&s->auth.digest);
    }
    if (err == TARRY_OK) {
        err = tr_auth_set(&s->auth, c->tokens, c->token_count, now);
    }
    if (err == TARRY_OK) {
        name_actors(s);
        tr_conns_reauth(&s->conns, now);
        tr_auth_forget(&s->auth);
    }
    return err;
}

static void reload(struct server *s)
{
    struct tr_live l = live(s);

    if (tr_live_reload(&l) == TARRY_OK && set_tokens(s) != TARRY_OK) {
        tr_logger_say(&s->log, TR_LEVEL_ERROR,
                      "the tokens stay as they were: there is no memory, or no SHA-256");
    }
}

static void stop(struct server *s)
{
    struct tr_now now = tr_clock_linux_now();

    if (s->stop_us != 0) {
        return;
    }
    s->stop_us = now.boot_us;
    tr_notify_linux_say(&s->notify, "STOPPING=1\nSTATUS=stopping");
    if (s->loading) {
        atomic_store(&s->stop_asked, true);
        s->conns.http.store = TR_HS_LATER; /* those who wait hear so now */
    }
    tr_conns_stop(&s->conns, now);
    tr_outlets_stop(s->delivery.outlets);
}

static void signalled(void *ctx, enum tr_loop_signal what)
{
    struct server *s = ctx;

    if (s->loading && what != TR_LOOP_STOP) {
        s->drain_late |= what == TR_LOOP_DRAIN;
        s->reload_late |= what == TR_LOOP_RELOAD;
        return;
    }
    switch (what) {
    case TR_LOOP_STOP:
        stop(s);
        break;
    case TR_LOOP_DRAIN:
        tr_engine_drain(s->engine);
        puts("draining: no new jobs are taken until the next start");
        tr_notify_linux_say(&s->notify, "STATUS=draining: no new jobs are taken");
        break;
    case TR_LOOP_RELOAD:
        tr_notify_linux_reloading(&s->notify);
        reload(s);
        tr_notify_linux_say(&s->notify, "READY=1");
        break;
    }
}

/* Does what the disk left to us; true when there was something. */
static bool help(struct server *s)
{
    struct tr_io *io = tr_disk_linux_help(s->disk);
    bool some = io != NULL;

    take(s, io);
    return some;
}

/* Lets everybody go on who can, and tells when to come back. */
static uint64_t serve_turn(struct server *s)
{
    struct tr_outlets *outlets = s->delivery.outlets;
    uint64_t next;
    uint64_t late;
    uint64_t sends;

    s->conns.turn_wanted = false;
    tr_conns_work(&s->conns, WORK_US);
    (void)tr_outlets_work(outlets, OUTLETS_US);
    next = tr_engine_turn(s->engine, tr_clock_linux_now());
    (void)tr_outlets_asked(outlets);
    sends = tr_outlets_work(outlets, OUTLETS_US);
    if (!tr_list_empty(&s->conns.work) || tr_outlets_asked(outlets)) {
        tr_conns_work(&s->conns, AGAIN_US);
        next = tr_engine_turn(s->engine, tr_clock_linux_now());
        sends = tr_outlets_work(outlets, OUTLETS_US);
    }
    late = tr_conns_time(&s->conns, tr_clock_linux_now());
    tr_conns_flush(&s->conns, SEND_US);
    if (s->conns.turn_wanted || !tr_list_empty(&s->conns.work) ||
        !tr_list_empty(&s->conns.unsent) || tr_outlets_asked(outlets)) {
        return 0;
    }
    next = next < sends ? next : sends;
    return next < late ? next : late;
}

/* Those of clients who are still there, or of jobs that are being sent. */
static bool has_business(struct server *s)
{
    return s->conns.count > 0 || !tr_outlets_stopped(s->delivery.outlets);
}

/* The same on the way out. */
static uint64_t stop_turn(struct server *s, uint64_t next)
{
    struct tr_now now = tr_clock_linux_now();

    if (!s->closing && has_business(s) && now.boot_us < s->stop_us + STOP_CLIENTS_US) {
        uint64_t wait_us = STOP_SENDS_US;

        if (now.boot_us >= s->stop_us + STOP_SENDS_US) {
            tr_outlets_hurry(s->delivery.outlets);
            (void)tr_outlets_work(s->delivery.outlets, OUTLETS_US);
            wait_us = STOP_CLIENTS_US;
            next = tr_outlets_asked(s->delivery.outlets) ? 0 : next;
        }
        return next < s->stop_us + wait_us ? next : s->stop_us + wait_us;
    }
    if (!s->closing) {
        tr_conns_abort(&s->conns, now);
        tr_outlets_abort(s->delivery.outlets);
        s->closing = true;
    }
    if (!tr_engine_busy(s->engine)) {
        tr_loop_linux_stop(s->loop);
    } else if (now.boot_us >= s->stop_us + STOP_DISK_US) {
        tr_logger_say(&s->log, TR_LEVEL_ERROR,
                      "the disk does not answer: stopped without closing the store, which is "
                      "recovered at the next start");
        (void)fflush(stdout);
        _Exit(TR_EXIT_FAILED); /* its threads cannot be waited for */
    }
    return s->stop_us + STOP_DISK_US;
}

/* Tells the service manager that we are alive, if it wants to hear that; gives the next time. */
static uint64_t say_alive(struct server *s)
{
    uint64_t now_us;

    if (s->notify.watchdog_us == 0) {
        return UINT64_MAX;
    }
    now_us = tr_clock_linux_now().boot_us;
    if (now_us >= s->alive_us) {
        tr_notify_linux_say(&s->notify, "WATCHDOG=1");
        s->alive_us = now_us + s->notify.watchdog_us / 2;
    }
    return s->alive_us;
}

/* The same while the store is opened. */
static uint64_t load_turn(struct server *s)
{
    struct tr_hs_port *http = &s->conns.http;
    uint64_t until = s->stop_us != 0 ? s->stop_us + STOP_DISK_US : s->start_us + HOLD_US;
    uint64_t late;
    struct tr_now now;

    tr_conns_work(&s->conns, WORK_US);
    now = tr_clock_linux_now();
    late = tr_conns_time(&s->conns, now);
    if (http->store == TR_HS_SOON && now.boot_us >= until) {
        http->store = TR_HS_LATER;
        tr_conns_wake(&s->conns);
    }
    tr_conns_flush(&s->conns, SEND_US);
    if (tr_meanwhile_over(&s->meanwhile)) {
        tr_loop_linux_stop(s->loop);
    } else if (s->stop_us != 0 && now.boot_us >= until) {
        puts("stopped before it was ready");
        (void)fflush(stdout);
        _Exit(TR_EXIT_FINE); /* the thread that opens it cannot be waited for */
    }
    if (!tr_list_empty(&s->conns.work) || !tr_list_empty(&s->conns.unsent)) {
        return 0;
    }
    until = now.boot_us < until ? until : UINT64_MAX;
    return late < until ? late : until;
}

static uint64_t turn(void *ctx)
{
    struct server *s = ctx;
    uint64_t next;
    uint64_t alive;
    bool helped;

    if (s->loading) {
        return load_turn(s);
    }
    next = s->closing ? UINT64_MAX : serve_turn(s);
    alive = say_alive(s);
    helped = help(s);

    if (tr_engine_failed(s->engine)) {
        tr_loop_linux_stop(s->loop);
        return UINT64_MAX;
    }
    if (s->stop_us != 0) {
        next = stop_turn(s, next);
    }
    next = next < alive ? next : alive;
    return helped ? 0 : next; /* those who sent something are read before the answers leave */
}

/* ---- opening ---- */

static void init_http(struct server *s)
{
    struct tr_hs_port *port = &s->conns.http;

    port->queue = (struct tr_queue){.ctx = s, .submit = submit, .abandon = abandon, .work = work};
    port->version = TARRY_VERSION;
    port->files = tr_web_files;
    port->test_clock = s->config->test_clock;
    port->tell_config = tell_config;
    port->tell_stats = tell_stats;
    port->unready = unready;
    port->metrics = (struct tr_hs_metrics){.begin = metrics_begin,
                                           .looks = metrics_looks,
                                           .topics = metrics_topics,
                                           .tell = tell_metrics};
    port->actor_name = actor_name;
    port->admit = admit;
    port->outlet = tell_outlet;
}

static uint64_t test_clock(void *ctx)
{
    const struct server *s = ctx;

    return s->loading ? tr_clock_linux_now().wall_us : tr_engine_clock(s->engine);
}

static int init_ports(struct server *s)
{
    static const char hex[] = "0123456789abcdef";
    struct tr_process_names names = tr_process_names();
    struct tr_bs_port *port = &s->conns.beanstalk;
    uint64_t files = tr_process_raise_files();
    struct tr_live l;
    uint64_t id;
    int err = tr_random_linux_seed(&id);

    if (err == TARRY_OK) {
        err = tr_random_linux_fill(s->conns.address_key, sizeof s->conns.address_key);
    }
    s->conns.ctx = s;
    s->conns.full = full;
    s->conns.note = note;
    s->conns.slow = slow;
    s->conns.wall_us = s->config->test_clock ? test_clock : NULL;
    s->conns.beanstalk.auth = &s->auth;
    s->conns.http.auth = &s->auth;
    s->auth =
        (struct tr_auth){.mem = &s->mem, .ctx = s, .peer = peer, .warn = warn, .audit = audit};
    s->most = files > 2 * STORE_FILES ? files - STORE_FILES : files / 2;
    s->conns.spare = s->most / 8 < SPARE ? s->most / 8 : SPARE;
    s->most -= s->conns.spare;
    l = live(s);
    tr_live_apply(&l);
    init_http(s);
    port->queue = (struct tr_queue){.ctx = s, .submit = submit, .abandon = abandon, .work = work};
    port->usage = usage;
    port->version = "1.13+tarry-" TARRY_VERSION; /* what it speaks, and what it is */
    port->sync = s->config->sync_text;
    port->pid = tr_process_id();
    for (unsigned i = 0; i < 16; i++) {
        port->id[i] = hex[id >> 4 * i & 15];
    }
    memcpy(port->host, names.host, sizeof port->host);
    memcpy(port->os, names.os, sizeof port->os);
    memcpy(port->platform, names.platform, sizeof port->platform);
    return err == TARRY_OK ? set_tokens(s) : err;
}

static enum tr_exit listen_and_become(struct server *s)
{
    const struct tr_config *c = s->config;
    const char *addresses[TR_PORTS] = {
        [TR_PORT_BEANSTALK] = c->listen_beanstalk, [TR_PORT_HTTP] = c->listen_http};
    int err = init_ports(s);

    for (unsigned i = 0; i < TR_PORTS; i++) {
        if (err == TARRY_OK && strcmp(addresses[i], "off") != 0) {
            err = tr_conns_listen(&s->conns, (enum tr_port_kind)i, addresses[i]);
        }
        if (err != TARRY_OK) {
            return tr_trouble_listen(addresses[i], err);
        }
    }
    err = c->user != NULL ? tr_process_become(c->user) : TARRY_OK;
    return err == TARRY_OK ? TR_EXIT_FINE : tr_trouble_user(c->user, err);
}

static int open_engine(struct server *s)
{
    struct tr_engine_config c;
    uint64_t seed;
    int err = tr_random_linux_seed(&seed);

    if (err != TARRY_OK) {
        return err;
    }
    tr_engine_config_init(&c, &s->mem);
    c.zone = tr_zones_linux_read;
    c.sync = s->config->sync;
    c.sync_us = s->config->sync_us;
    c.far_max = s->budget.far_max;
    c.near_max = s->budget.near_max;
    c.body_cache_bytes = s->budget.bodies;
    c.promote_slots = s->budget.promote_slots;
    c.history_us = s->config->history_us;
    c.history_bytes = s->budget.history;
    c.test_clock = s->config->test_clock;
    c.clock_start_us = s->config->clock_start_us;
    c.background_rate = s->config->background_rate;
    c.scrub_rate = s->config->scrub_rate;
    c.scrub_every_us = s->config->scrub_every_us;
    c.read_only = s->config->read_only;
    c.body_max = TR_CONFIG_BODY_MAX; /* each port has its own limit, which may change */
    c.ctx = s;
    c.notice = notice;
    c.durable = durable;
    c.idle = idle;
    c.outlet = outlet;
    c.event = outlet_event;
    err = tr_engine_open(&s->engine, &c, tr_disk_linux_port(s->disk), seed, tr_clock_linux_now());
    if (c.read_only && (err == TARRY_EDAMAGED || err == TARRY_EIO) &&
        !tr_disk_linux_gave_up(s->disk)) { /* then what is left of it */
        tr_logger_say(&s->log, TR_LEVEL_WARNING,
                      "the store is damaged: what can be read is shown; tarry check says more");
        c.salvage = true;
        err =
            tr_engine_open(&s->engine, &c, tr_disk_linux_port(s->disk), seed, tr_clock_linux_now());
    }
    tr_process_trim_memory(); /* what the replay took */
    return err;
}

static bool stop_asked(void *ctx)
{
    struct server *s = ctx;

    return atomic_load(&s->stop_asked) || tr_loop_linux_stop_waits();
}

/* Opens the engine while somebody answers those who ask how that goes. */
static int load_engine(struct server *s)
{
    int err;

    tr_disk_linux_offer_help(s->disk);
    tr_disk_linux_give_up(s->disk, stop_asked, s);
    if (s->conns.doors[TR_PORT_HTTP].listener != NULL) {
        tr_conns_hold(&s->conns, TR_PORT_BEANSTALK, true);
        s->conns.http.store = TR_HS_SOON;
        s->loading = true;
        if (!tr_meanwhile_begin(&s->meanwhile, s->loop)) {
            s->loading = false; /* then everybody waits */
        }
    }
    err = open_engine(s);
    if (s->loading) {
        tr_meanwhile_end(&s->meanwhile);
        s->loading = false;
    }
    return err;
}

/* From now on everybody is served. */
static void let_all_in(struct server *s)
{
    s->conns.http.store = TR_HS_OPEN;
    tr_conns_hold(&s->conns, TR_PORT_BEANSTALK, false);
    tr_conns_wake(&s->conns);
}

/* Leases outlive a restart, so their seal has to: it comes from the store. */
static void make_lease_key(struct server *s)
{
    static const char purpose[] = "lease";
    struct tr_siphash hash = tr_siphash(tr_engine_uuid(s->engine), purpose, sizeof purpose - 1);

    memcpy(s->conns.http.lease_key, &hash, sizeof s->conns.http.lease_key);
}

static enum tr_exit open_store(struct server *s)
{
    int err = TARRY_OK;

    s->path = s->config->data_path;
    if (s->path == NULL) {
        err = tr_process_temp_dir(s->temp, sizeof s->temp);
        s->path = s->temp;
    }
    if (err == TARRY_OK) {
        tr_greet(s->config, s->path, s->temp[0] != '\0');
    }
    if (err == TARRY_OK) {
        err = s->config->read_only
                  ? tr_disk_linux_look(&s->disk, s->path, tr_loop_linux_wake, s->loop)
                  : tr_disk_linux_open(&s->disk, s->path, tr_loop_linux_wake, s->loop);
    }
    if (err == TARRY_OK) {
        err = load_engine(s);
    }
    if (s->disk != NULL && tr_disk_linux_gave_up(s->disk)) {
        puts("stopped before it was ready");
        s->gave_up = true;
        return TR_EXIT_FINE;
    }
    if (err == TARRY_OK) {
        tr_disk_linux_give_up(s->disk, NULL, NULL);
        make_lease_key(s);
        name_actors(s);
        err = tr_bs_port_open(&s->conns.beanstalk, tr_clock_linux_now());
        let_all_in(s);
    }
    if (err == TARRY_OK) {
        s->delivery = (struct tr_delivery){.engine = s->engine, .loop = s->loop, .log = &s->log};
        err = tr_delivery_open(&s->delivery, s->config);
    }
    return err == TARRY_OK ? TR_EXIT_FINE : tr_trouble_store(s->path, err);
}

static void cut_memory(struct server *s)
{
    s->budget = tr_budget_cut(s->config, tr_process_memory());
    tr_mem_init(&s->mem, s->budget.engine);
    tr_mem_init(&s->conn_mem, 0);
    if (s->budget.less_history) {
        tr_logger_say(&s->log, TR_LEVEL_WARNING,
                      "history.bytes is cut to %" PRIu64 " MiB, a quarter of memory.limit",
                      s->budget.history >> 20);
    }
}

static enum tr_exit open_all(struct server *s)
{
    struct tr_loop_calls calls = {.ctx = s, .woken = woken, .signalled = signalled, .turn = turn};
    enum tr_exit how;
    int err;

    tr_process_tune_memory();
    tr_logger_init(&s->log, s->config->log_level, s->config->log_json);
    if (tr_notify_linux_open(&s->notify) != TARRY_OK) {
        tr_logger_say(&s->log, TR_LEVEL_WARNING,
                      "the socket of the service manager (NOTIFY_SOCKET) cannot be reached");
    }
    tr_notify_linux_say(&s->notify, "STATUS=opening the store");
    cut_memory(s);
    tr_conns_init(&s->conns, &s->conn_mem);
    err = tr_loop_linux_open(&s->loop, &calls);
    if (err != TARRY_OK) {
        return tr_trouble_store(s->config->data_path != NULL ? s->config->data_path : "-", err);
    }
    s->conns.loop = s->loop;
    how = tr_certificate_open(&s->conns, s->config, &s->log);
    if (how == TR_EXIT_FINE) {
        how = listen_and_become(s);
    }
    return how == TR_EXIT_FINE ? open_store(s) : how;
}

/* ---- closing ---- */

/* Ends in order if the engine lets it. */
static enum tr_exit close_engine(struct server *s)
{
    struct tr_engine_stat stat;
    int err;

    tr_engine_stat(s->engine, &stat);
    if (tr_engine_failed(s->engine)) {
        fprintf(stderr, "tarry: %s: stopped by a failure of the disk\n%s\n", s->path,
                "The kernel's log (dmesg) may say why; put that right and start again.");
        return TR_EXIT_FAILED;
    }
    err = tr_engine_close(s->engine, tr_clock_linux_now());
    if (err != TARRY_OK) {
        return tr_trouble_store(s->path, err);
    }
    tr_greet_bye(s->path, stat.jobs);
    return TR_EXIT_FINE;
}

static void tell_ready(const struct server *s)
{
    struct tr_engine_stat stat;

    tr_engine_stat(s->engine, &stat);
    tr_greet_ready(s->config, &s->conns, &stat, tr_clock_linux_now().boot_us - s->start_us);
    tr_notify_linux_say(&s->notify, "READY=1\nSTATUS=serving");
}

static void free_all(struct server *s)
{
    tr_conns_abort(&s->conns, tr_clock_linux_now());
    tr_outlets_abort(s->delivery.outlets);
    tr_certificate_close(&s->conns);
    tr_disk_linux_close(s->disk); /* ends the threads: after it nobody wakes the loop */
    tr_engine_free(s->engine);
    tr_outlets_close(s->delivery.outlets);
    tr_conns_fini(&s->conns);
    tr_auth_fini(&s->auth);
    tr_digest_linux_close(&s->auth.digest);
    tr_loop_linux_close(s->loop);
    tr_notify_linux_close(&s->notify);
    if (s->temp[0] != '\0') {
        tr_process_remove_dir(s->temp);
    }
    free(s);
}

enum tr_exit tr_serve(struct tr_config *c)
{
    struct server *s = calloc(1, sizeof *s);
    enum tr_exit how;

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a line is seen when it is written, also by a pipe */
    if (s == NULL) {
        return tr_trouble_store("-", TARRY_ENOMEM);
    }
    s->config = c;
    s->start_us = tr_clock_linux_now().boot_us;
    s->start_wall_us = tr_clock_linux_now().wall_us;
    how = open_all(s);
    if (how == TR_EXIT_FINE && !s->gave_up) {
        tell_ready(s);
        if (s->drain_late) {
            signalled(s, TR_LOOP_DRAIN);
        }
        if (s->reload_late) {
            signalled(s, TR_LOOP_RELOAD);
        }
        tr_loop_linux_run(s->loop);
        how = close_engine(s);
    }
    free_all(s);
    return how;
}
