/*
 * What the engine on Redis tells: of this node, since its start. Names are those of /v1/stats and
 * /metrics: a name that is there stays.
 */

#include "base/text.h"
#include "proto/json_out.h"
#include "proto/prom_out.h"
#include "server/redis_inner.h"

#include <limits.h>
#include <string.h>

enum { SERVERS_TOLD = 64 };

/* ---- what it promises, by what was found ---- */

/* The weakest of all servers that have jobs. */
struct found {
    unsigned count;
    char version[32]; /* one, or the first of several */
    bool versions_differ;
    bool keeps;
    bool tells_fsync;
    char fsync[16];
    unsigned replicas;
    bool replicated; /* one of them has a replica */
};

/* The weaker one is worth less. */
static unsigned worth(const char *fsync)
{
    return strcmp(fsync, "always") == 0 ? 2 : strcmp(fsync, "everysec") == 0 ? 1 : 0;
}

static struct found look(const struct tr_on_redis *o)
{
    struct tr_cluster_server servers[SERVERS_TOLD];
    struct found f = {.keeps = true, .tells_fsync = true, .replicas = UINT_MAX};

    f.count = o->cluster != NULL ? tr_cluster_servers(o->cluster, servers, SERVERS_TOLD) : 0;
    for (unsigned i = 0; i < f.count; i++) {
        const struct tr_cluster_server *s = &servers[i];

        f.versions_differ = f.versions_differ || (i > 0 && strcmp(f.version, s->version) != 0);
        if (i == 0) {
            tr_text(f.version, sizeof f.version, "%s", s->version);
        }
        if (i == 0 || worth(s->fsync) < worth(f.fsync)) {
            tr_text(f.fsync, sizeof f.fsync, "%s", s->fsync);
        }
        f.tells_fsync = f.tells_fsync && s->fsync[0] != '\0';
        f.keeps = f.keeps && s->keeps;
        f.replicas = s->replicas < f.replicas ? s->replicas : f.replicas;
        f.replicated = f.replicated || s->replicas > 0;
    }
    return f;
}

/* What a crash of the server's machine, or of the server, costs. */
static const char *crash_costs(const struct found *f)
{
    if (!f->keeps) {
        return "if that server crashes or is started anew, all that it has not saved is lost";
    }
    if (!f->tells_fsync) {
        return "what a crash of its machine takes back, its appendfsync says";
    }
    if (worth(f->fsync) == 2) {
        return "a crash takes nothing back";
    }
    return worth(f->fsync) == 1 ? "a crash of its machine may take back the last second"
                                : "a crash of its machine may take back what the kernel had not "
                                  "written yet, often half a minute";
}

static void add_failover(const struct tr_on_redis *o, const struct found *f, char *text,
                         size_t room)
{
    unsigned waits = o->parts.config->redis_wait_replicas;

    if (waits > 0) {
        tr_text(text, room,
                "changes are answered when %u of its replicas %s them, too: a failover takes them "
                "back only if none of those is promoted, and may repeat a delivery",
                waits, waits == 1 ? "has" : "have");
    } else if (!f->replicated) {
        tr_text(text, room, "there is no replica, so no failover");
    } else {
        tr_text(text, room,
                "a failover may take back the last second, or repeat a delivery "
                "(redis.wait_replicas narrows that)");
    }
}

const char *tr_on_redis_durability(void *ctx)
{
    struct tr_on_redis *o = ctx;
    struct found f = look(o);
    char failover[TR_ON_REDIS_TEXT / 2];

    if (o->sql != NULL) {
        return o->sql_found[0] != '\0'
                   ? o->sql_found
                   : "success is answered when the database has committed it. It has not been "
                     "reached yet";
    }
    if (f.count == 0) {
        return "success is answered when Redis has it, and is as durable as its appendfsync and "
               "its replication: a failover may take back the last second, or repeat a delivery. "
               "Redis has not been reached yet";
    }
    add_failover(o, &f, failover, sizeof failover);
    tr_text(o->durability, sizeof o->durability,
            "success is answered when Redis has it. Found: Redis %s%s, %u %s, appendonly %s, "
            "appendfsync %s, %u %s%s. So %s; %s",
            f.version, f.versions_differ ? " and others" : "", f.count,
            f.count == 1 ? "primary" : "primaries", f.keeps ? "yes" : "no",
            f.tells_fsync ? f.fsync : "not told", f.replicas,
            f.replicas == 1 ? "replica" : "replicas", f.count > 1 ? " at least each" : "",
            crash_costs(&f), failover);
    return o->durability;
}

/* ---- /v1/stats ---- */

static void tell_calls(struct tr_json *j, const struct tr_cluster_stat *s)
{
    tr_json_member(j, "calls", s->calls);
    tr_json_member(j, "repeats", s->repeats);
    tr_json_member(j, "redirects", s->redirects);
    tr_json_member(j, "losses", s->losses);
    tr_json_member(j, "given_up", s->given_up);
    tr_json_member(j, "unsure", s->unsure);
    tr_json_member(j, "batches", s->batches);
    tr_json_member(j, "items", s->items);
    tr_json_member(j, "takes", s->takes);
    tr_json_member(j, "takes_empty", s->empty);
    tr_json_member(j, "wakes_sent", s->wakes_sent);
    tr_json_member(j, "wakes_heard", s->wakes_heard);
    tr_json_member(j, "given_back", s->given_back);
    tr_json_member(j, "tended", s->tended);
    tr_json_member(j, "swept", s->swept);
    tr_json_member(j, "ousted", s->ousted);
    tr_json_member(j, "self_stops", s->self_stops);
    tr_json_member(j, "maps", s->maps);
    tr_json_member(j, "jumps", s->jumps);
    tr_json_member(j, "slots_lost", s->slots_lost);
}

static void tell_place(struct tr_json *j, const struct tr_cluster_stat *s)
{
    tr_json_member(j, "servers", s->servers);
    tr_json_member(j, "connections", s->connections);
    tr_json_member(j, "nodes", s->nodes);
    tr_json_member(j, "slots_owned", s->slots_owned);
    tr_json_member(j, "topics", s->topics);
    tr_json_member(j, "waiting", s->waiting);
    tr_json_member(j, "held", s->held);
    tr_json_name(j, "deaf");
    tr_json_bool(j, s->deaf);
}

static void tell_remote(struct tr_json *j, const struct tr_redis_stat *s)
{
    tr_json_member(j, "connects", s->connects);
    tr_json_member(j, "broken", s->broken);
    tr_json_member(j, "commands", s->commands);
    tr_json_member(j, "answers", s->answers);
    tr_json_member(j, "writes", s->writes);
    tr_json_member(j, "bytes_out", s->bytes_out);
    tr_json_member(j, "bytes_in", s->bytes_in);
}

static void tell_sql(const struct tr_on_redis *o, struct tr_json *j,
                     const struct tr_cluster_stat *stat)
{
    struct tr_sql_stat s = tr_on_redis_sql_stat(o);

    tr_json_name(j, "sql");
    tr_json_open(j, '{');
    tr_json_member(j, "under_way", stat->sql_under_way);
    tr_json_member(j, "images", stat->images);
    tr_json_member(j, "images_dropped", stat->images_dropped);
    tr_json_member(j, "connects", s.connects);
    tr_json_member(j, "transactions", s.transactions);
    tr_json_member(j, "repeats", s.repeats);
    tr_json_member(j, "halvings", s.halvings);
    tr_json_member(j, "lookups", s.lookups);
    tr_json_close(j, '}');
}

void tr_on_redis_tell(void *ctx, struct tr_json *j)
{
    const struct tr_on_redis *o = ctx;
    struct tr_redis_stat remote = tr_redis_stat(o->remote);
    struct tr_cluster_stat stat;

    tr_cluster_stat(o->cluster, &stat);
    tr_json_name(j, "redis");
    tr_json_open(j, '{');
    tr_json_name(j, "node");
    tr_json_text(j, o->name);
    tell_place(j, &stat);
    tell_calls(j, &stat);
    tell_remote(j, &remote);
    tr_json_close(j, '}');
    if (o->sql != NULL) {
        tell_sql(o, j, &stat);
    }
}

/* ---- /metrics ---- */

static void count_calls(struct tr_prom *p, const struct tr_cluster_stat *s)
{
    tr_prom_counter(p, "tarry_redis_calls_total", "Commands sent to Redis.", s->calls);
    tr_prom_counter(p, "tarry_redis_repeats_total", "Commands sent once more.", s->repeats);
    tr_prom_counter(p, "tarry_redis_redirects_total", "Commands sent elsewhere: MOVED or ASK.",
                    s->redirects);
    tr_prom_counter(p, "tarry_redis_losses_total", "Commands to which no answer came.", s->losses);
    tr_prom_counter(p, "tarry_redis_given_up_total", "Calls that ended with an error of ours.",
                    s->given_up);
    tr_prom_counter(p, "tarry_redis_unsure_total", "Calls of which it is not known what came.",
                    s->unsure);
    tr_prom_counter(p, "tarry_redis_batches_total", "Scripts run for requests.", s->batches);
    tr_prom_counter(p, "tarry_redis_items_total", "Requests in those scripts.", s->items);
    tr_prom_counter(p, "tarry_redis_takes_total", "Questions for jobs.", s->takes);
    tr_prom_counter(p, "tarry_redis_takes_empty_total", "Of those in vain.", s->empty);
    tr_prom_counter(p, "tarry_redis_wakes_sent_total", "Wake-ups for other nodes.", s->wakes_sent);
    tr_prom_counter(p, "tarry_redis_wakes_heard_total", "Wake-ups from other nodes.",
                    s->wakes_heard);
    tr_prom_counter(p, "tarry_redis_given_back_total",
                    "Jobs that came when nobody waited for them any more.", s->given_back);
    tr_prom_counter(p, "tarry_redis_slots_lost_total", "Slots of which Redis has lost all data.",
                    s->slots_lost);
}

static void count_bytes(struct tr_prom *p, const struct tr_redis_stat *s)
{
    tr_prom_counter(p, "tarry_redis_connects_total", "Connections made.", s->connects);
    tr_prom_counter(p, "tarry_redis_broken_total", "Connections that broke, or could not be made.",
                    s->broken);
    tr_prom_counter(p, "tarry_redis_bytes_out_total", "Bytes sent.", s->bytes_out);
    tr_prom_counter(p, "tarry_redis_bytes_in_total", "Bytes received.", s->bytes_in);
}

static void count_sql(const struct tr_on_redis *o, struct tr_prom *p,
                      const struct tr_cluster_stat *stat)
{
    struct tr_sql_stat s = tr_on_redis_sql_stat(o);

    tr_prom_counter(p, "tarry_sql_connects_total", "Connections made to the database.", s.connects);
    tr_prom_counter(p, "tarry_sql_transactions_total", "Transactions, and questions.",
                    s.transactions);
    tr_prom_counter(p, "tarry_sql_repeats_total", "Of those once more.", s.repeats);
    tr_prom_counter(p, "tarry_sql_halvings_total", "Batches that were cut in two.", s.halvings);
    tr_prom_counter(p, "tarry_sql_lookups_total", "Commits whose answer was lost.", s.lookups);
    tr_prom_counter(p, "tarry_sql_images_dropped_total",
                    "Changes that were left to reconciliation.", stat->images_dropped);
    tr_prom_gauge(p, "tarry_sql_images", "Changes on their way into the index.", stat->images);
}

void tr_on_redis_metrics(void *ctx, struct tr_prom *p)
{
    const struct tr_on_redis *o = ctx;
    struct tr_redis_stat remote = tr_redis_stat(o->remote);
    struct tr_cluster_stat stat;

    tr_cluster_stat(o->cluster, &stat);
    count_calls(p, &stat);
    count_bytes(p, &remote);
    if (o->sql != NULL) {
        count_sql(o, p, &stat);
    }
    tr_prom_gauge(p, "tarry_redis_servers", "Servers that are known.", stat.servers);
    tr_prom_gauge(p, "tarry_redis_connections", "Connections that are up.", stat.connections);
    tr_prom_gauge(p, "tarry_redis_deaf", "1 while wake-ups from other nodes do not come.",
                  stat.deaf);
    tr_prom_gauge(p, "tarry_nodes", "Nodes of tarry that live.", stat.nodes);
    tr_prom_gauge(p, "tarry_slots_owned", "Slots that this node looks after.", stat.slots_owned);
    tr_prom_gauge(p, "tarry_topics", "Topics.", stat.topics);
    tr_prom_gauge(p, "tarry_waiting_reserves", "Reserves that wait for a job.", stat.waiting);
}
