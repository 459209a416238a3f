/*
 * What the ports ask of the server: figures and names of the engine, who a client is, and lines for
 * the operator.
 */

#include "base/err.h"
#include "os/clock_linux.h"
#include "os/process_linux.h"
#include "os/random_linux.h"
#include "server/metrics.h"
#include "server/serve_inner.h"
#include "server/tell.h"
#include "server/web.h"

#include <string.h>

enum {
    MEMORY_SHORT = 65536, /* bytes that a push of middling size may take */
    AHEAD_MAX = 31,       /* commands of a client on their way to Redis, but one */
};

/* ---- lines ---- */

static void full(void *ctx, const char *why)
{
    struct tr_server *s = ctx;

    tr_logger_say(&s->log, TR_LEVEL_WARNING, "%s", why);
}

static void note(void *ctx, const char *text)
{
    struct tr_server *s = ctx;

    tr_logger_say(&s->log, TR_LEVEL_INFO, "%s", text);
}

static void slow(void *ctx, const char *port, const struct tr_doing *d, uint64_t took_us)
{
    const struct tr_server *s = ctx;
    struct tr_slow line = {.port = port,
                           .command = d->command,
                           .topic = d->name,
                           .topic_len = d->name_len,
                           .took_us = took_us};

    if (d->name == NULL && !s->loading) {
        line.topic = s->engine.ops->topic_name(s->engine.ctx, d->topic, &line.topic_len);
    }
    tr_logger_slow(&s->log, &line);
}

/* ---- figures ---- */

static void usage(void *ctx, struct tr_bs_usage *u)
{
    struct tr_conns *conns = ctx;
    const struct tr_server *s = TR_CONTAINER_OF(conns, struct tr_server, conns);
    struct tr_process_usage process = tr_process_usage();
    struct tr_loop_stat loop = tr_loop_linux_stat(s->loop);
    struct tr_engine_view engine;

    s->engine.ops->view(s->engine.ctx, &engine);
    *u = (struct tr_bs_usage){
        .user_us = process.user_us,
        .system_us = process.system_us,
        .uptime_us = tr_clock_linux_now().boot_us - s->start_us,
        .log_oldest = engine.log_oldest,
        .log_newest = engine.log_newest,
        .log_migrated = engine.log_moved,
        .log_written = engine.log_written,
        .log_file_bytes = engine.log_file_bytes,
        .stalls = loop.stalls,
        .longest_us = loop.longest_us,
        .draining = engine.draining,
    };
}

static void tell_config(void *ctx, struct tr_json *j)
{
    const struct tr_server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct tr_server, conns);

    tr_tell_config(j, s->config, s->engine.ops->durability(s->engine.ctx));
}

static void tell_stats(void *ctx, struct tr_json *j)
{
    const struct tr_server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct tr_server, conns);
    struct tr_engine_view engine;

    s->engine.ops->view(s->engine.ctx, &engine);
    tr_json_name(j, "engine");
    tr_json_text(j, s->config->on_redis ? "redis" : "local");
    tr_json_name(j, "sync");
    tr_json_text(j, s->config->sync_text);
    tr_tell_process(j, tr_clock_linux_now().boot_us - s->start_us, tr_loop_linux_stat(s->loop));
    s->engine.ops->tell(s->engine.ctx, j);
    tr_tell_memory(j, &s->budget, &engine, s->conns.buffers.used_bytes);
    tr_tell_conns(j, &s->conns);
    tr_tell_auth(j, &s->auth);
}

static void tell_cluster(void *ctx, struct tr_json *j)
{
    const struct tr_server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct tr_server, conns);

    tr_json_name(j, "engine");
    tr_json_text(j, "redis");
    tr_json_name(j, "promises");
    tr_json_text(j, s->engine.ops->durability(s->engine.ctx));
}

static const char *actor_name(void *ctx, uint32_t actor, size_t *len)
{
    const struct tr_server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct tr_server, conns);

    return s->engine.ops->actor_name(s->engine.ctx, actor, len);
}

static int admit(void *ctx, const struct tr_deliver *d, const char **why)
{
    const struct tr_server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct tr_server, conns);

    return tr_outlets_admit(d, s->config->allow_private, why);
}

static bool tell_outlet(void *ctx, uint32_t topic, struct tr_outlet_view *v)
{
    const struct tr_server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct tr_server, conns);

    return tr_outlets_view(s->delivery.outlets, topic, v);
}

/* Why new jobs are not to come here now; the gravest reason first. */
static unsigned unready_for(const struct tr_server *s, struct tr_reason *reasons)
{
    struct tr_engine_view engine;
    unsigned n = 0;

    if (s->stop_us != 0) {
        reasons[n++] = (struct tr_reason){"stopping", "the server is stopping", false};
    }
    if (s->loading) {
        reasons[n++] = (struct tr_reason){"loading", "the store is being opened", false};
        return n;
    }
    s->engine.ops->view(s->engine.ctx, &engine);
    if (engine.draining) {
        reasons[n++] =
            (struct tr_reason){"draining", "the server is draining: it takes no new jobs", false};
    }
    n += s->engine.ops->unready(s->engine.ctx, reasons + n);
    if (!s->serving && !tr_reasons_stop(reasons, n)) {
        reasons[n++] = (struct tr_reason){"loading", "the store is being opened", false};
    }
    if (!tr_mem_spare(&s->mem, MEMORY_SHORT)) {
        reasons[n++] = (struct tr_reason){
            "memory_short", "memory.limit is nearly reached: no new jobs are taken", false};
    }
    return n;
}

static unsigned unready(void *ctx, struct tr_reason *reasons)
{
    return unready_for(TR_CONTAINER_OF((struct tr_conns *)ctx, struct tr_server, conns), reasons);
}

static void metrics_begin(void *ctx)
{
    const struct tr_server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct tr_server, conns);

    s->engine.ops->meters_begin(s->engine.ctx);
}

static bool metrics_looks(void *ctx)
{
    const struct tr_server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct tr_server, conns);

    return s->engine.ops->meters_looks(s->engine.ctx);
}

static unsigned metrics_topics(void *ctx, unsigned from, bool with_due, struct tr_meter_view *views)
{
    const struct tr_server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct tr_server, conns);

    return s->engine.ops->meters(s->engine.ctx, from, with_due, views);
}

static void tell_metrics(void *ctx, struct tr_prom *p)
{
    const struct tr_server *s = TR_CONTAINER_OF((struct tr_conns *)ctx, struct tr_server, conns);
    struct tr_reason reasons[TR_REASONS];
    struct tr_metrics_of of = {.engine = &s->engine,
                               .loop = s->loop,
                               .conns = &s->conns,
                               .auth = &s->auth,
                               .mem = &s->mem,
                               .outlets = s->delivery.outlets,
                               .version = TARRY_VERSION,
                               .sync = s->config->sync_text,
                               .start_wall_us = s->start_wall_us,
                               .reasons = reasons,
                               .reason_count = unready_for(s, reasons)};

    tr_metrics_tell(p, &of);
    s->engine.ops->meters_end(s->engine.ctx); /* this is the end of a page */
}

/* ---- clients ---- */

static uint64_t peer(void *ctx, const void *session)
{
    struct tr_sock_peer at;

    (void)ctx;
    tr_conns_peer(session, &at);
    return at.number;
}

static void warn(void *ctx, const void *session)
{
    const struct tr_server *s = ctx;
    struct tr_sock_peer at;

    tr_conns_peer(session, &at);
    tr_logger_say(&s->log, TR_LEVEL_WARNING, "many wrong tokens come from %s", at.text);
}

static void audit(void *ctx, const struct tr_auth_pass *pass, const char *what, unsigned status)
{
    const struct tr_server *s = ctx;
    struct tr_sock_peer at;

    tr_conns_peer(pass->session, &at);
    tr_logger_audit(
        &s->log, &(struct tr_audit){
                     .token = pass->who->is.name, .from = at.text, .what = what, .status = status});
}

/* ---- wiring ---- */

static void init_http(struct tr_server *s)
{
    struct tr_hs_port *port = &s->conns.http;

    port->queue = s->engine.queue;
    port->version = TARRY_VERSION;
    port->files = tr_web_files;
    port->test_clock = s->config->test_clock;
    if (s->config->on_redis) {
        port->elsewhere = s->config->sql_url != NULL ? "the database" : "Redis";
    }
    port->slots = s->config->on_redis ? s->config->cluster_slots : 1;
    port->tell_config = tell_config;
    port->tell_stats = tell_stats;
    port->tell_cluster = s->config->on_redis ? tell_cluster : NULL;
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
    const struct tr_server *s = ctx;

    return s->loading ? tr_clock_linux_now().wall_us : s->engine.ops->clock(s->engine.ctx);
}

int tr_server_wire(struct tr_server *s)
{
    static const char hex[] = "0123456789abcdef";
    struct tr_process_names names = tr_process_names();
    struct tr_bs_port *port = &s->conns.beanstalk;
    uint64_t id = 0;
    int err = tr_random_linux_seed(&id);

    s->conns.ctx = s;
    s->conns.full = full;
    s->conns.note = note;
    s->conns.slow = slow;
    s->conns.wall_us = s->config->test_clock ? test_clock : NULL;
    s->conns.beanstalk.auth = &s->auth;
    s->conns.http.auth = &s->auth;
    s->auth =
        (struct tr_auth){.mem = &s->mem, .ctx = s, .peer = peer, .warn = warn, .audit = audit};
    init_http(s);
    port->queue = s->engine.queue;
    port->ahead_max = s->config->on_redis ? AHEAD_MAX : 0;
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
    return err;
}
