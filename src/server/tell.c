/*
 * Names are those of /v1/config and /v1/stats, which programs read: a name that is there stays.
 */

#include "server/tell.h"

#include "os/process_linux.h"

static void number(struct tr_json *j, const char *name, uint64_t n)
{
    tr_json_name(j, name);
    tr_json_number(j, n);
}

static void truth(struct tr_json *j, const char *name, bool yes)
{
    tr_json_name(j, name);
    tr_json_bool(j, yes);
}

static const char *durability(enum tr_sync sync)
{
    switch (sync) {
    case TR_SYNC_ALWAYS:
        return "success is answered when the disk has it: it survives kill -9 and a power cut";
    case TR_SYNC_INTERVAL:
        return "weaker: success is answered at once; kill -9 can take back the last moments, a "
               "power cut what came since the last sync";
    case TR_SYNC_NEVER:
        return "weaker: success is answered at once; kill -9 can take back the last moments, a "
               "power cut all that the kernel had not written yet";
    }
    return NULL;
}

/* Where a value came from. */
static void tell_place(struct tr_json *j, const struct tr_config *c, enum tr_from from, int line)
{
    tr_json_name(j, "from");
    tr_json_text(j, tr_config_from_name(from));
    if (from == TR_FROM_FILE) {
        tr_json_name(j, "file");
        tr_json_text(j, c->config_path);
        number(j, "line", (uint64_t)line);
    }
}

/* What is known of tokens, but for their digests. */
static void tell_tokens(struct tr_json *j, const struct tr_config *c)
{
    tr_json_name(j, "tokens");
    tr_json_open(j, '[');
    for (unsigned i = 0; i < c->token_count; i++) {
        const struct tr_token *t = &c->tokens[i];
        char role[TR_TOKEN_ROLES_TEXT];

        tr_token_print_roles(role, t->roles);
        tr_json_open(j, '{');
        tr_json_name(j, "name");
        tr_json_text(j, t->name);
        tr_json_name(j, "role");
        tr_json_text(j, role);
        tr_json_name(j, "topics");
        tr_json_text(j, t->topics);
        if (t->rate_milli > 0) {
            tr_json_name(j, "rate");
            tr_json_thousandths(j, t->rate_milli);
        }
        tell_place(j, c, c->token_places[i].from, c->token_places[i].line);
        tr_json_close(j, '}');
    }
    tr_json_close(j, ']');
}

void tr_tell_config(struct tr_json *j, const struct tr_config *c)
{
    tr_json_name(j, "settings");
    tr_json_open(j, '{');
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        const struct tr_setting *s = &c->settings[i];

        tr_json_name(j, tr_config_key_name((enum tr_key)i));
        tr_json_open(j, '{');
        tr_json_name(j, "value");
        if (s->text != NULL) {
            tr_json_text(j, s->text);
        } else {
            tr_json_null(j);
        }
        tell_place(j, c, s->from, s->line);
        tr_json_close(j, '}');
    }
    tr_json_close(j, '}');
    tell_tokens(j, c);
    tr_json_name(j, "durability");
    tr_json_text(j, durability(c->sync));
}

void tr_tell_process(struct tr_json *j, uint64_t uptime_us, struct tr_loop_stat loop)
{
    struct tr_process_usage usage = tr_process_usage();

    number(j, "pid", tr_process_id());
    number(j, "uptime_ms", uptime_us / 1000);
    number(j, "cpu_user_ms", usage.user_us / 1000);
    number(j, "cpu_system_ms", usage.system_us / 1000);
    number(j, "loop_rounds", loop.rounds);
    number(j, "loop_stalls", loop.stalls);
    number(j, "loop_longest_us", loop.longest_us);
    number(j, "resident_bytes", tr_process_resident_bytes());
}

void tr_tell_store(struct tr_json *j, const struct tr_engine_stat *stat,
                   const struct tr_engine_gauges *g)
{
    tr_json_name(j, "store");
    tr_json_open(j, '{');
    number(j, "far", stat->far);
    number(j, "in_runs", stat->runs);
    number(j, "groups", stat->groups);
    number(j, "keys", stat->keys);
    number(j, "parked_topics", stat->parked);
    number(j, "slots", stat->slots);
    number(j, "slots_free", stat->slots_free);
    number(j, "slot_bytes", stat->slot_bytes);
    number(j, "log_live_bytes", stat->log_live_bytes);
    number(j, "log_records", stat->log_records);
    number(j, "relogged", stat->relogged);
    number(j, "checkpoints", stat->checkpoints);
    number(j, "promotions", stat->promotions);
    number(j, "merges", stat->merges);
    number(j, "batches", stat->closed_batch);
    number(j, "clock_steps", stat->clock_steps);
    truth(j, "draining", stat->draining);
    truth(j, "refusing", stat->refusing);
    number(j, "live_bytes", g->live_bytes);
    number(j, "disk_bytes", g->disk_bytes);
    number(j, "loader_lag_ms", g->loader_lag_us / 1000);
    number(j, "promotion_debt", g->debt);
    number(j, "stalled_requests", g->stalled);
    number(j, "loaded", stat->loaded);
    number(j, "purging", stat->purged);
    number(j, "commits", tr_hist_total(g->commit));
    number(j, "commit_p99_us", stat->commit_p99_us);
    number(j, "commit_p99_busy_us", stat->commit_busy_us);
    number(j, "background_rate", stat->background_rate);
    number(j, "scrubbed_bytes", stat->scrubbed_bytes);
    number(j, "backups", stat->backups);
    truth(j, "damaged", stat->damaged);
    number(j, "damaged_jobs", stat->damaged_jobs);
    number(j, "damaged_places", stat->damaged_places);
    number(j, "mended", stat->mended);
    tr_json_close(j, '}');
}

void tr_tell_damage(struct tr_json *j, const struct tr_engine_stat *stat)
{
    tr_json_name(j, "damage");
    tr_json_open(j, '{');
    truth(j, "damaged", stat->damaged);
    number(j, "jobs", stat->damaged_jobs);
    number(j, "places", stat->damaged_places);
    number(j, "untold", stat->damage_untold);
    number(j, "quarantined", stat->quarantined);
    number(j, "mended", stat->mended);
    number(j, "scrubbed_bytes", stat->scrubbed_bytes);
    number(j, "scrubbed_groups", stat->scrubbed_groups);
    number(j, "scrub_done_bytes", stat->scrub_done);
    number(j, "scrub_of_bytes", stat->scrub_of);
    tr_json_close(j, '}');
}

/* Bytes; null: no limit. */
static void limit(struct tr_json *j, const char *name, uint64_t n)
{
    tr_json_name(j, name);
    if (n == 0) {
        tr_json_null(j);
    } else {
        tr_json_number(j, n);
    }
}

void tr_tell_memory(struct tr_json *j, const struct tr_budget *b, const struct tr_engine_stat *stat,
                    uint64_t conn_bytes)
{
    tr_json_name(j, "memory");
    tr_json_open(j, '{');
    limit(j, "limit", b->all);
    number(j, "engine_used", stat->memory_used);
    limit(j, "engine_limit", stat->memory_limit);
    number(j, "connections_used", conn_bytes);
    limit(j, "connections_limit", b->connections);
    number(j, "history_limit", b->history);
    number(j, "bodies_limit", b->bodies);
    number(j, "near_jobs_limit", b->near_max);
    number(j, "far_jobs_limit", b->far_max);
    truth(j, "refusing", stat->memory_full);
    tr_json_close(j, '}');
}

void tr_tell_conns(struct tr_json *j, const struct tr_conns *cs)
{
    tr_json_name(j, "connections");
    tr_json_open(j, '{');
    number(j, "beanstalk", cs->beanstalk.sessions);
    number(j, "http", cs->http.sessions);
    number(j, "most", cs->count_max);
    number(j, "buffer_bytes", cs->buffers.used_bytes);
    number(j, "buffer_bytes_most", cs->buffers.limit_bytes);
    tr_json_close(j, '}');
    tr_json_name(j, "refused");
    tr_json_open(j, '{');
    for (unsigned port = 0; port < TR_PORTS; port++) {
        tr_json_name(j, cs->doors[port].proto->name);
        tr_json_open(j, '{');
        for (unsigned why = 0; why < TR_REFUSAL_COUNT; why++) {
            number(j, tr_refusal_name((enum tr_refusal)why),
                   tr_door_refused(cs, (enum tr_port_kind)port, (enum tr_refusal)why));
        }
        tr_json_close(j, '}');
    }
    tr_json_close(j, '}');
    number(j, "tls_handshakes",
           cs->doors[TR_PORT_BEANSTALK].handshakes + cs->doors[TR_PORT_HTTP].handshakes);
    number(j, "http_requests", cs->http.requests);
}

void tr_tell_auth(struct tr_json *j, const struct tr_auth *a)
{
    tr_json_name(j, "auth");
    tr_json_open(j, '{');
    number(j, "tokens", a->count);
    number(j, "absent", a->absent);
    number(j, "failed", a->failed);
    number(j, "too_many", a->too_many);
    number(j, "denied", a->denied);
    number(j, "limited", a->limited);
    tr_json_close(j, '}');
}
