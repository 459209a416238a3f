/*
 * The engine on Redis behind port/engine.h: src/cluster decides, src/remote has the connections,
 * whose sockets are on the loop.
 *
 *     loop --events--> remote --up, heard, closed--> cluster
 *     ports --requests--> cluster; each turn: cluster --commands--> remote, which sends them all
 *
 * Nothing here waits for Redis: the start goes on without it, and the cluster says what it lacks.
 */

#include "base/err.h"
#include "base/text.h"
#include "os/clock_linux.h"
#include "os/poller_linux.h"
#include "os/process_linux.h"
#include "os/random_linux.h"
#include "os/zones_linux.h"
#include "server/greet.h"
#include "server/redis_inner.h"
#include "server/trouble.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVERS_MAX = 64, SERVER_TEXT = 300 };

#define STOP_US UINT64_C(1000000) /* so long a stop waits for jobs to go back */
#define PATIENCE_TIMES 4          /* so many time-outs a call may take with all its repeats */

/* ---- start and end ---- */

/* Names of servers, as port/redis.h wants them. */
struct servers {
    char text[SERVERS_MAX][SERVER_TEXT];
    const char *names[SERVERS_MAX];
    unsigned count;
};

/* "HOST:PORT,[V6]:PORT" in pieces, without brackets. False: too many, or one is too long. */
static bool split(const char *at, struct servers *s)
{
    s->count = 0;
    while (*at != '\0') {
        size_t len = strcspn(at, ",");
        size_t n = 0;

        if (s->count == SERVERS_MAX || len >= SERVER_TEXT) {
            return false;
        }
        for (size_t i = 0; i < len; i++) {
            if (at[i] != '[' && at[i] != ']') {
                s->text[s->count][n++] = at[i];
            }
        }
        s->text[s->count][n] = '\0';
        s->names[s->count] = s->text[s->count];
        s->count++;
        at += len + (at[len] == ',');
    }
    return true;
}

static int open_remote(struct tr_on_redis *o)
{
    const struct tr_config *c = o->parts.config;

    return tr_redis_open(&o->remote,
                         &(struct tr_redis_setup){.mem = o->parts.mem,
                                                  .poller = tr_poller_linux(o->parts.loop),
                                                  .now = tr_clock_linux_now,
                                                  .user = c->redis_user,
                                                  .password = c->redis_password,
                                                  .name = o->name});
}

/* "host:port version": where clients reach this node. */
static void find_address(struct tr_on_redis *o)
{
    struct tr_process_names host = tr_process_names();
    const char *listens = o->parts.calls.address(o->parts.calls.ctx);
    const char *port = strrchr(listens, ':');
    bool all = strncmp(listens, "0.0.0.0:", 8) == 0 || strncmp(listens, "[::]:", 5) == 0;

    if (port == NULL || all) {
        tr_text(o->address, sizeof o->address, "%s%s %s", host.host, port != NULL ? port : "",
                TARRY_VERSION);
    } else {
        tr_text(o->address, sizeof o->address, "%s %s", listens, TARRY_VERSION);
    }
}

#ifdef TR_ZOOKEEPER

static int open_zoo(struct tr_on_redis *o, uint64_t node)
{
    const struct tr_config *c = o->parts.config;

    return tr_zoo_open(&o->zoo, &(struct tr_zoo_setup){.poller = tr_poller_linux(o->parts.loop),
                                                       .now = tr_clock_linux_now,
                                                       .servers = c->zookeeper_servers,
                                                       .root = c->zookeeper_root,
                                                       .session_us = c->zookeeper_session_us,
                                                       .node = node,
                                                       .address = o->address});
}

static struct tr_coord_port zoo_port(const struct tr_on_redis *o)
{
    return tr_zoo_port(o->zoo);
}

static void zoo_listen(const struct tr_on_redis *o)
{
    tr_zoo_listen(o->zoo, tr_cluster_coord_ear(o->cluster));
}

static void close_zoo(struct tr_on_redis *o)
{
    tr_zoo_close(o->zoo);
}

#else /* then o->zoo is NULL */

static int open_zoo(struct tr_on_redis *o, uint64_t node)
{
    (void)o;
    (void)node;
    return TARRY_EUNSUPPORTED;
}

static struct tr_coord_port zoo_port(const struct tr_on_redis *o)
{
    (void)o;
    return (struct tr_coord_port){0};
}

static void zoo_listen(const struct tr_on_redis *o)
{
    (void)o;
}

static void close_zoo(struct tr_on_redis *o)
{
    (void)o;
}

#endif

static int make_uuid(struct tr_on_redis *o)
{
    uint8_t bytes[TR_CLUSTER_UUID / 2];
    int err = tr_random_linux_fill(bytes, sizeof bytes);

    for (size_t i = 0; err == TARRY_OK && i < sizeof bytes; i++) {
        tr_text(o->uuid + 2 * i, 3, "%02x", bytes[i]);
    }
    return err;
}

static int open_cluster(struct tr_on_redis *o, const struct servers *servers, uint64_t node)
{
    const struct tr_config *c = o->parts.config;
    struct tr_cluster_config config;
    struct tr_coord_port coord;
    struct tr_sql_port sql;
    int err;

    tr_cluster_config_init(&config, o->parts.mem);
    config.port = tr_redis_port(o->remote);
    config.prefix = c->redis_prefix;
    config.slots = c->cluster_slots;
    config.servers = servers->names;
    config.server_count = servers->count;
    config.node = node;
    config.address = o->address;
    config.uuid = o->uuid;
    config.timeout_us = c->redis_timeout_us;
    config.patience_us = PATIENCE_TIMES * c->redis_timeout_us;
    config.lease_us = c->cluster_lease_us;
    config.wait_replicas = c->redis_wait_replicas;
    config.asks_config = true;
    config.body_max = TR_CONFIG_BODY_MAX;
    config.zone = tr_zones_linux_read;
    config.ctx = o->parts.calls.ctx;
    config.notice = o->parts.calls.notice;
    config.outlet = o->parts.calls.outlet;
    if (o->zoo != NULL) {
        coord = zoo_port(o);
        config.coord = &coord;
        config.session_us = c->zookeeper_session_us;
    }
    if (o->sql != NULL) {
        sql = tr_on_redis_sql_port(o);
        config.sql = &sql;
        config.sql_connections = c->sql_connections;
        config.sql_batch = c->sql_batch;
        config.hot_window_us = c->cluster_hot_window_us;
        config.hot_max = c->cluster_hot_max;
        config.reconcile_us = c->cluster_reconcile_us;
        config.history_us = c->history_us;
    }
    err = tr_cluster_new(&config, tr_clock_linux_now(), &o->cluster);
    if (err == TARRY_OK && o->sql != NULL) {
        tr_on_redis_sql_listen(o);
    }
    if (err == TARRY_OK) {
        tr_redis_listen(o->remote, tr_cluster_ear(o->cluster));
    }
    if (err == TARRY_OK && o->zoo != NULL) {
        zoo_listen(o);
    }
    return err;
}

static int prepare(void *ctx)
{
    struct tr_on_redis *o = ctx;
    const struct tr_config *c = o->parts.config;
    struct servers *servers = calloc(1, sizeof *servers);
    uint64_t node;
    int err = servers != NULL ? tr_random_linux_seed(&node) : TARRY_ENOMEM;

    if (err == TARRY_OK && !split(c->redis_servers, servers)) {
        err = TARRY_EINVAL;
    }
    if (err == TARRY_OK) {
        tr_text(o->name, sizeof o->name, "tarry-%016" PRIx64, node);
        tr_greet_redis(c);
        find_address(o);
        err = open_remote(o);
    }
    if (err == TARRY_OK && c->zookeeper_servers != NULL) {
        err = open_zoo(o, node);
        if (err != TARRY_OK) {
            free(servers);
            return (int)tr_trouble_zookeeper(c->zookeeper_servers, err);
        }
    }
    if (err == TARRY_OK) {
        err = make_uuid(o);
    }
    if (err == TARRY_OK && c->sql_url != NULL) {
        int how = tr_on_redis_open_sql(o, node);

        if (how != TR_EXIT_FINE) {
            free(servers);
            return how;
        }
    }
    if (err == TARRY_OK) {
        err = open_cluster(o, servers, node);
    }
    free(servers);
    return err == TARRY_OK ? TR_EXIT_FINE : (int)tr_trouble_redis(c->redis_servers, err);
}

static int close_all(void *ctx)
{
    struct tr_on_redis *o = ctx;

    tr_cluster_leave(o->cluster, tr_clock_linux_now());
    tr_redis_flush(o->remote);
    puts(o->sql != NULL ? "stopped: the jobs are in the database"
                        : "stopped: the jobs are in Redis");
    return TR_EXIT_FINE;
}

static void free_all(void *ctx)
{
    struct tr_on_redis *o = ctx;

    tr_on_redis_close_sql(o); /* its threads read what the cluster has */
    if (o->cluster != NULL) {
        tr_cluster_free(o->cluster);
    }
    close_zoo(o);
    tr_redis_close(o->remote);
    free(o);
}

static void count_done(struct tr_req *r)
{
    struct tr_on_redis *o = r->ctx;
    const struct tr_topic_stat *s = &r->out.stat;

    o->counted = true;
    if (r->out.status == TARRY_OK) {
        o->jobs = s->delayed + s->ready + s->reserved + s->dead;
    }
}

/* It is open when it has counted its jobs, too: the start tells how many there are. */
static enum tr_engine_stage stage(void *ctx)
{
    struct tr_on_redis *o = ctx;
    enum tr_engine_stage is = tr_cluster_stage(o->cluster);

    if (is == TR_ENGINE_OPEN && !o->counting) {
        o->counting = true;
        o->count = (struct tr_req){.op = TR_OP_STAT, .done = count_done, .ctx = o};
        tr_cluster_submit(o->cluster, &o->count, tr_clock_linux_now());
        (void)tr_cluster_turn(o->cluster, tr_clock_linux_now());
        tr_redis_flush(o->remote);
    }
    if (is == TR_ENGINE_OPEN && o->counted && !o->told) {
        o->told = true;
        puts(tr_on_redis_durability(o));
    }
    return is == TR_ENGINE_OPEN && !o->counted ? TR_ENGINE_OPENING : is;
}

/* Whatever is under way when all clients are gone was sent: Redis will do it. But jobs that clients
 * had are to go back, for a while. There are no other turns any more. */
static bool busy(void *ctx)
{
    struct tr_on_redis *o = ctx;
    struct tr_now now = tr_clock_linux_now();

    if (o->stop_us == 0) {
        o->stop_us = now.boot_us;
    }
    if (o->cluster == NULL || tr_cluster_stage(o->cluster) != TR_ENGINE_OPEN) {
        return false;
    }
    tr_on_redis_collect(o);
    (void)tr_cluster_turn(o->cluster, now);
    tr_redis_flush(o->remote);
    return tr_cluster_owes(o->cluster) && now.boot_us - o->stop_us < STOP_US;
}

/* ---- requests and rounds ---- */

static void submit(void *ctx, struct tr_req *r, struct tr_now now)
{
    const struct tr_on_redis *o = ctx;

    tr_cluster_submit(o->cluster, r, now);
}

static void abandon(void *ctx, struct tr_req *r, struct tr_now now)
{
    const struct tr_on_redis *o = ctx;

    tr_cluster_abandon(o->cluster, r, now);
}

static unsigned work(void *ctx)
{
    const struct tr_on_redis *o = ctx;

    return tr_cluster_work(o->cluster);
}

static bool waited(void *ctx, uint32_t topic)
{
    const struct tr_on_redis *o = ctx;

    return tr_cluster_waited(o->cluster, topic);
}

/* Answers of the database may have come. */
static void woken(void *ctx)
{
    const struct tr_on_redis *o = ctx;

    if (o->cluster != NULL) {
        tr_on_redis_collect(o);
    }
}

static uint64_t turn(void *ctx, struct tr_now now)
{
    const struct tr_on_redis *o = ctx;
    uint64_t next = tr_cluster_turn(o->cluster, now);

    tr_redis_flush(o->remote);
    return next;
}

/* ---- what it tells ---- */

static uint64_t clock_of(void *ctx)
{
    const struct tr_on_redis *o = ctx;

    return tr_cluster_clock(o->cluster, tr_clock_linux_now());
}

static void view(void *ctx, struct tr_engine_view *v)
{
    const struct tr_on_redis *o = ctx;
    const struct tr_mem *mem = o->parts.mem;

    *v = (struct tr_engine_view){.jobs = o->jobs,
                                 .clock_us = clock_of(ctx),
                                 .draining = o->draining,
                                 .memory_used = mem->used_bytes,
                                 .memory_limit = mem->limit_bytes,
                                 .memory_full = !tr_mem_spare(mem, TR_CONFIG_BODY_DEFAULT)};
}

static const uint8_t *uuid(void *ctx)
{
    const struct tr_on_redis *o = ctx;

    return tr_cluster_uuid(o->cluster);
}

static unsigned unready(void *ctx, struct tr_reason *reasons)
{
    const struct tr_on_redis *o = ctx;

    return tr_cluster_unready(o->cluster, reasons);
}

static void meters_begin(void *ctx)
{
    const struct tr_on_redis *o = ctx;

    tr_cluster_meters_begin(o->cluster);
}

static void meters_end(void *ctx)
{
    const struct tr_on_redis *o = ctx;

    tr_cluster_meters_end(o->cluster);
}

static bool meters_looks(void *ctx)
{
    (void)ctx;
    return false;
}

static unsigned meters(void *ctx, unsigned from, bool with_due, struct tr_meter_view *views)
{
    const struct tr_on_redis *o = ctx;

    (void)with_due;
    return tr_cluster_meters(o->cluster, from, views);
}

/* ---- names ---- */

static uint32_t actor(void *ctx, const char *name, size_t len)
{
    const struct tr_on_redis *o = ctx;

    return o->cluster != NULL ? tr_cluster_actor(o->cluster, name, len) : 0;
}

static const char *actor_name(void *ctx, uint32_t number, size_t *len)
{
    const struct tr_on_redis *o = ctx;

    return tr_cluster_actor_name(o->cluster, number, len);
}

static const char *topic_name(void *ctx, uint32_t topic, size_t *len)
{
    const struct tr_on_redis *o = ctx;

    return tr_cluster_topic_name(o->cluster, topic, len);
}

static void deliverers(void *ctx, tr_engine_topic_fn *fn, void *fn_ctx)
{
    const struct tr_on_redis *o = ctx;

    tr_cluster_deliverers(o->cluster, fn, fn_ctx);
}

static bool delivers(void *ctx, uint32_t topic)
{
    const struct tr_on_redis *o = ctx;

    return tr_cluster_delivers(o->cluster, topic);
}

/* ---- what it is told ---- */

static void drain(void *ctx)
{
    struct tr_on_redis *o = ctx;

    o->draining = true;
    tr_cluster_drain(o->cluster);
}

static void tune(void *ctx)
{
    (void)ctx; /* none of its keys can change */
}

static const struct tr_engine_ops ops = {
    .prepare = prepare,
    .close = close_all,
    .free = free_all,
    .stage = stage,
    .busy = busy,
    .stuck = "Redis does not answer",
    .turn = turn,
    .woken = woken,
    .view = view,
    .clock = clock_of,
    .uuid = uuid,
    .unready = unready,
    .durability = tr_on_redis_durability,
    .tell = tr_on_redis_tell,
    .metrics = tr_on_redis_metrics,
    .meters_begin = meters_begin,
    .meters_end = meters_end,
    .meters_looks = meters_looks,
    .meters = meters,
    .actor = actor,
    .actor_name = actor_name,
    .topic_name = topic_name,
    .deliverers = deliverers,
    .delivers = delivers,
    .drain = drain,
    .tune = tune,
};

int tr_on_redis_make(struct tr_engine_port *port, const struct tr_engine_parts *parts)
{
    struct tr_on_redis *o = calloc(1, sizeof *o);

    if (o == NULL) {
        return TARRY_ENOMEM;
    }
    o->parts = *parts;
    o->jobs = UINT64_MAX;
    *port = (struct tr_engine_port){
        .ops = &ops,
        .ctx = o,
        .queue = {.ctx = o, .submit = submit, .abandon = abandon, .work = work, .waited = waited}};
    return TARRY_OK;
}
