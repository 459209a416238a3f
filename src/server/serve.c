/*
 * The server: loop, engine and ports, wired together. Which engine it is, only make_engine knows;
 * for all else it is a table of functions (port/engine.h).
 *
 *     sockets ------events--> conns --requests--> engine --> disk threads, or Redis
 *     disk threads --wake--> loop --woken--> engine --durable--> conns
 *     signals -------------> loop --signalled--> stop, drain, reload
 *     outlets --requests--> engine; their sockets are on the loop, their threads wake it
 *                            loop --turn--> who sent something, or can go on; the engine's turn;
 *                                           one write for each connection; when is the next turn?
 *
 * Start: the loop first, so that from the first line on no signal kills; then the sockets, so that
 * a port in use is told before anything else, and clients of a server that is started again wait
 * instead of being refused; then the user to become; then the engine, whose opening may block.
 *
 * Loading: while the main thread opens the engine another one runs the loop (meanwhile.c), so that
 * somebody says that we live and are not ready yet. Engine and s->mem are not the loop's then. What
 * needs the store waits for a moment, as clients of a server that is started again like it best,
 * and is refused with 503 after that. The beanstalk port has no word for "not yet": its clients
 * wait in the kernel's backlog. Signals to drain and to reload wait for the end of it; one to stop
 * ends it at the next call of the disk: the store is then as after a crash.
 *
 * Away: an engine whose jobs are on other servers opens by turns of the loop. For a second it has
 * the same as above; then the start goes on without it, and whoever asks is told why he has to
 * wait.
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
#include "os/clock_linux.h"
#include "os/digest_linux.h"
#include "os/process_linux.h"
#include "os/random_linux.h"
#include "server/certificate.h"
#include "server/engines.h"
#include "server/greet.h"
#include "server/live.h"
#include "server/serve_inner.h"
#include "server/trouble.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORK_US = 1000,    /* for clients in a round; what they leave is for the next one, */
    AGAIN_US = 500,    /* and for those who can go on after the engine's turn, */
    OUTLETS_US = 500,  /* for outlets, each time, */
    SEND_US = 2000,    /* and for sending */
    STORE_FILES = 192, /* descriptors that connections may not have */
    SPARE = 64         /* connections beyond the limit, to be told of it */
};

#define HOLD_US UINT64_C(1000000)         /* from the start on; who asks then waits for the store */
#define STOP_SENDS_US UINT64_C(2000000)   /* outlets may take so long to end what they send, */
#define STOP_CLIENTS_US UINT64_C(3000000) /* clients so long to read their answers, */
#define STOP_DISK_US UINT64_C(4500000)    /* and the disk so long to write what it has */

/* ---- what the engine calls ---- */

static void notice(void *ctx, enum tr_notice kind, const char *text)
{
    struct tr_server *s = ctx;

    tr_logger_notice(&s->log, kind, text);
}

static void durable(void *ctx, uint64_t batch)
{
    struct tr_server *s = ctx;

    tr_conns_durable(&s->conns, batch);
    if (s->delivery.outlets != NULL) {
        tr_outlets_durable(s->delivery.outlets, batch);
    }
}

static void outlet(void *ctx, uint32_t topic)
{
    struct tr_server *s = ctx;

    if (s->delivery.outlets != NULL) {
        tr_outlets_look(s->delivery.outlets, topic);
    }
}

static void dropped(void *ctx, uint32_t topic)
{
    struct tr_server *s = ctx;

    tr_outlets_dropped(s->delivery.outlets, topic);
}

static uint64_t outlet_event(void *ctx)
{
    const struct tr_server *s = ctx;

    return tr_outlets_event(s->delivery.outlets);
}

static const char *http_address(void *ctx)
{
    const struct tr_server *s = ctx;
    const struct tr_door *door = &s->conns.doors[TR_PORT_HTTP];

    return door->listener != NULL ? tr_listener_address(door->listener) : "";
}

static bool stop_asked(void *ctx)
{
    struct tr_server *s = ctx;

    return atomic_load(&s->stop_asked) || tr_loop_linux_stop_waits();
}

/* ---- what the loop calls ---- */

static void woken(void *ctx)
{
    struct tr_server *s = ctx;

    if (!s->loading && s->engine.ops->woken != NULL) {
        s->engine.ops->woken(s->engine.ctx);
    }
    tr_conns_shaken(&s->conns);
    tr_outlets_woken(s->delivery.outlets);
}

/* Where what can change of the config is used. */
static struct tr_live live(struct tr_server *s)
{
    return (struct tr_live){.config = s->config,
                            .log = &s->log,
                            .conns = &s->conns,
                            .engine = &s->engine,
                            .budget = &s->budget,
                            .ram_bytes = tr_process_memory(),
                            .most = s->most};
}

/* Histories tell the names of tokens. */
static void name_actors(struct tr_server *s)
{
    for (unsigned i = 0; i < s->auth.count; i++) {
        struct tr_auth_token *t = &s->auth.tokens[i];

        t->actor = s->engine.ops->actor(s->engine.ctx, t->is.name, strlen(t->is.name));
    }
}

/* The tokens of the config from now on, also for clients that are there. SHA-256 is asked for only
 * when there are some. */
static int set_tokens(struct tr_server *s)
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

static void reload(struct tr_server *s)
{
    struct tr_live l = live(s);

    if (tr_live_reload(&l) == TARRY_OK && set_tokens(s) != TARRY_OK) {
        tr_logger_say(&s->log, TR_LEVEL_ERROR,
                      "the tokens stay as they were: there is no memory, or no SHA-256");
    }
}

static void stop(struct tr_server *s)
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
    struct tr_server *s = ctx;

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
        s->engine.ops->drain(s->engine.ctx);
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

static uint64_t engine_turn(struct tr_server *s)
{
    return s->engine.ops->turn(s->engine.ctx, tr_clock_linux_now());
}

/* From now on everybody is served. */
static void let_all_in(struct tr_server *s)
{
    s->conns.http.store = TR_HS_OPEN;
    tr_conns_hold(&s->conns, TR_PORT_BEANSTALK, false);
    tr_conns_wake(&s->conns);
}

/* Leases outlive a restart, so their seal has to: it comes from the store. */
static void make_lease_key(struct tr_server *s)
{
    static const char purpose[] = "lease";
    struct tr_siphash hash =
        tr_siphash(s->engine.ops->uuid(s->engine.ctx), purpose, sizeof purpose - 1);

    memcpy(s->conns.http.lease_key, &hash, sizeof s->conns.http.lease_key);
}

/* The engine is open: the rest that needs it. */
static int begin_serving(struct tr_server *s)
{
    int err = TARRY_OK;

    make_lease_key(s);
    name_actors(s);
    if (!s->let_in) {
        err = tr_bs_port_open(&s->conns.beanstalk, tr_clock_linux_now());
    }
    s->serving = true;
    let_all_in(s);
    if (err == TARRY_OK) {
        s->delivery = (struct tr_delivery){.engine = &s->engine, .loop = s->loop, .log = &s->log};
        err = tr_delivery_open(&s->delivery, s->config);
    }
    return err;
}

/* Until the engine is open: why that takes long, for those who ask. */
static void look_for_engine(struct tr_server *s)
{
    struct tr_reason reasons[TR_REASONS];

    if (s->engine.ops->stage(s->engine.ctx) == TR_ENGINE_OPEN) {
        int err = begin_serving(s);

        if (err != TARRY_OK) { /* no memory so early: it may come */
            tr_logger_say(&s->log, TR_LEVEL_ERROR, "clients cannot be let in: %s",
                          tarry_strerror(err));
        }
    } else if (s->engine.ops->unready(s->engine.ctx, reasons) > 0) {
        s->conns.http.later = reasons[0];
    }
}

/* Lets everybody go on who can, and tells when to come back. */
static uint64_t serve_turn(struct tr_server *s)
{
    struct tr_outlets *outlets = s->delivery.outlets;
    uint64_t next;
    uint64_t late;
    uint64_t sends;

    s->conns.turn_wanted = false;
    tr_conns_work(&s->conns, WORK_US);
    (void)tr_outlets_work(outlets, OUTLETS_US);
    next = engine_turn(s);
    (void)tr_outlets_asked(outlets);
    sends = tr_outlets_work(outlets, OUTLETS_US);
    if (!tr_list_empty(&s->conns.work) || tr_outlets_asked(outlets)) {
        tr_conns_work(&s->conns, AGAIN_US);
        next = engine_turn(s);
        sends = tr_outlets_work(outlets, OUTLETS_US);
    }
    late = tr_conns_time(&s->conns, tr_clock_linux_now());
    tr_conns_flush(&s->conns, SEND_US);
    if (!s->serving) {
        look_for_engine(s);
    }
    if (s->conns.turn_wanted || !tr_list_empty(&s->conns.work) ||
        !tr_list_empty(&s->conns.unsent) || tr_outlets_asked(outlets)) {
        return 0;
    }
    next = next < sends ? next : sends;
    return next < late ? next : late;
}

/* Those of clients who are still there, or of jobs that are being sent. */
static bool has_business(struct tr_server *s)
{
    return s->conns.count > 0 || !tr_outlets_stopped(s->delivery.outlets);
}

/* The same on the way out. */
static uint64_t stop_turn(struct tr_server *s, uint64_t next)
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
    if (!s->engine.ops->busy(s->engine.ctx)) {
        tr_loop_linux_stop(s->loop);
    } else if (now.boot_us >= s->stop_us + STOP_DISK_US) {
        tr_logger_say(&s->log, TR_LEVEL_ERROR, "%s", s->engine.ops->stuck);
        (void)fflush(stdout);
        _Exit(TR_EXIT_FAILED); /* its threads cannot be waited for */
    }
    return s->stop_us + STOP_DISK_US;
}

/* Tells the service manager that we are alive, if it wants to hear that; gives the next time. */
static uint64_t say_alive(struct tr_server *s)
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

/* The same while the store is opened. Who opens it may see a signal to stop before the loop. */
static uint64_t load_turn(struct tr_server *s)
{
    struct tr_hs_port *http = &s->conns.http;
    bool over = tr_meanwhile_over(&s->meanwhile);
    uint64_t until;
    uint64_t late;
    struct tr_now now;
    bool said;

    if (over && s->engine.ops->stage(s->engine.ctx) == TR_ENGINE_GIVEN_UP) {
        stop(s);
    }
    until = s->stop_us != 0 ? s->stop_us + STOP_DISK_US : s->start_us + HOLD_US;
    tr_conns_work(&s->conns, WORK_US);
    now = tr_clock_linux_now();
    late = tr_conns_time(&s->conns, now);
    if (http->store == TR_HS_SOON && now.boot_us >= until) {
        http->store = TR_HS_LATER;
        tr_conns_wake(&s->conns);
    }
    tr_conns_flush(&s->conns, SEND_US);
    said = tr_list_empty(&s->conns.work) && tr_list_empty(&s->conns.unsent);
    if (over && (said || s->stop_us == 0 || now.boot_us >= until)) {
        tr_loop_linux_stop(s->loop); /* of a stop all hear before */
    } else if (s->stop_us != 0 && now.boot_us >= until) {
        puts("stopped before it was ready");
        (void)fflush(stdout);
        _Exit(TR_EXIT_FINE); /* the thread that opens it cannot be waited for */
    }
    if (!said) {
        return 0;
    }
    until = now.boot_us < until ? until : UINT64_MAX;
    return late < until ? late : until;
}

/* The same while an engine opens by turns. */
static uint64_t open_turn(struct tr_server *s)
{
    uint64_t until = s->start_us + HOLD_US;
    uint64_t next;
    uint64_t late;
    struct tr_now now;

    tr_conns_work(&s->conns, WORK_US);
    next = engine_turn(s);
    now = tr_clock_linux_now();
    late = tr_conns_time(&s->conns, now);
    tr_conns_flush(&s->conns, SEND_US);
    if (s->stop_us != 0 || now.boot_us >= until ||
        s->engine.ops->stage(s->engine.ctx) != TR_ENGINE_OPENING) {
        tr_loop_linux_stop(s->loop);
        return UINT64_MAX;
    }
    if (!tr_list_empty(&s->conns.work) || !tr_list_empty(&s->conns.unsent)) {
        return 0;
    }
    next = next < late ? next : late;
    return next < until ? next : until;
}

static uint64_t turn(void *ctx)
{
    struct tr_server *s = ctx;
    uint64_t next;
    uint64_t alive;
    bool helped;

    if (s->loading) {
        return load_turn(s);
    }
    if (s->opening) {
        return open_turn(s);
    }
    next = s->closing ? UINT64_MAX : serve_turn(s);
    alive = say_alive(s);
    helped = s->engine.ops->help != NULL && s->engine.ops->help(s->engine.ctx);
    if (s->engine.ops->stage(s->engine.ctx) == TR_ENGINE_FAILED) {
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

static int init_ports(struct tr_server *s)
{
    uint64_t files = tr_process_raise_files();
    struct tr_live l;
    int err = tr_random_linux_fill(s->conns.address_key, sizeof s->conns.address_key);

    s->most = files > 2 * STORE_FILES ? files - STORE_FILES : files / 2;
    s->conns.spare = s->most / 8 < SPARE ? s->most / 8 : SPARE;
    s->most -= s->conns.spare;
    if (err == TARRY_OK) {
        err = tr_server_wire(s);
    }
    l = live(s);
    tr_live_apply(&l);
    return err == TARRY_OK ? set_tokens(s) : err;
}

/* For those who read what went wrong. */
static const char *store_name(const struct tr_server *s)
{
    const struct tr_config *c = s->config;

    return c->on_redis ? c->redis_servers : c->data_path != NULL ? c->data_path : "-";
}

static enum tr_exit listen_and_become(struct tr_server *s)
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

/* Opens the engine while somebody answers those who ask how that goes. */
static enum tr_exit load_engine(struct tr_server *s)
{
    int how;

    if (s->conns.doors[TR_PORT_HTTP].listener != NULL) {
        tr_conns_hold(&s->conns, TR_PORT_BEANSTALK, true);
        s->conns.http.store = TR_HS_SOON;
        s->loading = true;
        if (!tr_meanwhile_begin(&s->meanwhile, s->loop)) {
            s->loading = false; /* then everybody waits */
        }
    }
    how = s->engine.ops->open(s->engine.ctx);
    if (s->loading) {
        tr_meanwhile_end(&s->meanwhile);
        s->loading = false;
    }
    return (enum tr_exit)how;
}

/* It is not open yet: those who ask are told so, from now on. */
static enum tr_exit go_on_without(struct tr_server *s)
{
    int err = tr_bs_port_open(&s->conns.beanstalk, tr_clock_linux_now());

    if (err != TARRY_OK) {
        return tr_trouble_store(store_name(s), err);
    }
    s->let_in = true;
    s->conns.http.store = TR_HS_LATER;
    tr_conns_hold(&s->conns, TR_PORT_BEANSTALK, false);
    tr_conns_wake(&s->conns);
    tr_logger_say(&s->log, TR_LEVEL_WARNING, "nothing can be served yet: %s",
                  s->conns.http.later.message != NULL ? s->conns.http.later.message
                                                      : "the jobs cannot be reached");
    return TR_EXIT_FINE;
}

/* Waits a moment for an engine that opens by turns. */
static enum tr_exit await_engine(struct tr_server *s)
{
    struct tr_reason reasons[TR_REASONS];
    unsigned count;

    tr_conns_hold(&s->conns, TR_PORT_BEANSTALK, true);
    s->conns.http.store = TR_HS_SOON;
    s->opening = true;
    tr_loop_linux_run(s->loop);
    s->opening = false;
    tr_loop_linux_wake(s->loop); /* a loop that was stopped begins no turn by itself */
    if (s->stop_us != 0) {
        s->gave_up = true;
        return TR_EXIT_FINE;
    }
    if (s->engine.ops->stage(s->engine.ctx) == TR_ENGINE_REFUSED) {
        count = s->engine.ops->unready(s->engine.ctx, reasons);
        for (unsigned i = 0; i < count; i++) {
            fprintf(stderr, "tarry: %s\n", reasons[i].message);
        }
        return TR_EXIT_USAGE;
    }
    look_for_engine(s);
    return s->serving ? TR_EXIT_FINE : go_on_without(s);
}

static enum tr_exit open_store(struct tr_server *s)
{
    enum tr_exit how = (enum tr_exit)s->engine.ops->prepare(s->engine.ctx);
    int err;

    if (how == TR_EXIT_FINE) {
        how = s->engine.ops->open != NULL ? load_engine(s) : await_engine(s);
    }
    if (how != TR_EXIT_FINE) {
        return how;
    }
    if (s->gave_up || s->engine.ops->stage(s->engine.ctx) == TR_ENGINE_GIVEN_UP) {
        puts("stopped before it was ready");
        s->gave_up = true;
        return TR_EXIT_FINE;
    }
    err = s->engine.ops->open != NULL ? begin_serving(s) : TARRY_OK;
    return err == TARRY_OK ? TR_EXIT_FINE : tr_trouble_store(store_name(s), err);
}

/* The embedded engine, or the one on Redis. */
static int make_engine(struct tr_server *s)
{
    struct tr_engine_parts parts = {.config = s->config,
                                    .budget = &s->budget,
                                    .mem = &s->mem,
                                    .loop = s->loop,
                                    .log = &s->log,
                                    .calls = {.ctx = s,
                                              .notice = notice,
                                              .durable = durable,
                                              .outlet = outlet,
                                              .dropped = dropped,
                                              .event = outlet_event,
                                              .address = http_address,
                                              .give_up = stop_asked}};

    if (!s->config->on_redis) {
        return tr_local_make(&s->engine, &parts);
    }
#ifdef TR_REDIS
    return tr_on_redis_make(&s->engine, &parts);
#else
    return TARRY_EUNSUPPORTED;
#endif
}

static void cut_memory(struct tr_server *s)
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

static enum tr_exit open_all(struct tr_server *s)
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
    if (err == TARRY_OK) {
        err = make_engine(s);
    }
    if (err != TARRY_OK) {
        return err == TARRY_EUNSUPPORTED ? tr_trouble_redis(store_name(s), err)
                                         : tr_trouble_store(store_name(s), err);
    }
    s->conns.loop = s->loop;
    how = tr_certificate_open(&s->conns, s->config, &s->log);
    if (how == TR_EXIT_FINE) {
        how = listen_and_become(s);
    }
    return how == TR_EXIT_FINE ? open_store(s) : how;
}

/* ---- closing ---- */

static void tell_ready(const struct tr_server *s)
{
    struct tr_engine_view engine;

    s->engine.ops->view(s->engine.ctx, &engine);
    tr_greet_ready(s->config, &s->conns, &engine, tr_clock_linux_now().boot_us - s->start_us);
    tr_notify_linux_say(&s->notify, "READY=1\nSTATUS=serving");
}

static void free_all(struct tr_server *s)
{
    tr_conns_abort(&s->conns, tr_clock_linux_now());
    tr_outlets_abort(s->delivery.outlets);
    tr_certificate_close(&s->conns);
    if (s->engine.ops != NULL) {
        s->engine.ops->free(s->engine.ctx);
    }
    tr_outlets_close(s->delivery.outlets);
    tr_conns_fini(&s->conns);
    tr_auth_fini(&s->auth);
    tr_digest_linux_close(&s->auth.digest);
    tr_loop_linux_close(s->loop);
    tr_notify_linux_close(&s->notify);
    free(s);
}

enum tr_exit tr_serve(struct tr_config *c)
{
    struct tr_server *s = calloc(1, sizeof *s);
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
        how = (enum tr_exit)s->engine.ops->close(s->engine.ctx);
    }
    free_all(s);
    return how;
}
