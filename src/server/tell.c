/*
 * Names are those of /v1/config and /v1/stats, which programs read: a name that is there stays.
 */

#include "server/tell.h"

#include "os/process_linux.h"
#include "proto/auth.h"

static void truth(struct tr_json *j, const char *name, bool yes)
{
    tr_json_name(j, name);
    tr_json_bool(j, yes);
}

/* Where a value came from. */
static void tell_place(struct tr_json *j, const struct tr_config *c, enum tr_from from, int line)
{
    tr_json_name(j, "from");
    tr_json_text(j, tr_config_from_name(from));
    if (from == TR_FROM_FILE) {
        tr_json_name(j, "file");
        tr_json_text(j, c->config_path);
        tr_json_member(j, "line", (uint64_t)line);
    }
}

/* What is known of tokens, but for their digests. */
static void tell_tokens(struct tr_json *j, const struct tr_config *c)
{
    tr_json_name(j, "tokens");
    tr_json_open(j, '[');
    for (unsigned i = 0; i < c->token_count; i++) {
        tr_json_open(j, '{');
        tr_auth_tell(j, &c->tokens[i]);
        tell_place(j, c, c->token_places[i].from, c->token_places[i].line);
        tr_json_close(j, '}');
    }
    tr_json_close(j, ']');
}

void tr_tell_config(struct tr_json *j, const struct tr_config *c, const char *durability)
{
    tr_json_name(j, "settings");
    tr_json_open(j, '{');
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        const struct tr_setting *s = &c->settings[i];

        tr_json_name(j, tr_config_key_name((enum tr_key)i));
        tr_json_open(j, '{');
        tr_json_name(j, "value");
        if (tr_config_told(c, (enum tr_key)i) != NULL) {
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
    tr_json_text(j, durability);
}

void tr_tell_process(struct tr_json *j, uint64_t uptime_us, struct tr_loop_stat loop)
{
    struct tr_process_usage usage = tr_process_usage();

    tr_json_member(j, "pid", tr_process_id());
    tr_json_member(j, "uptime_ms", uptime_us / 1000);
    tr_json_member(j, "cpu_user_ms", usage.user_us / 1000);
    tr_json_member(j, "cpu_system_ms", usage.system_us / 1000);
    tr_json_member(j, "loop_rounds", loop.rounds);
    tr_json_member(j, "loop_stalls", loop.stalls);
    tr_json_member(j, "loop_longest_us", loop.longest_us);
    tr_json_member(j, "resident_bytes", tr_process_resident_bytes());
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

void tr_tell_memory(struct tr_json *j, const struct tr_budget *b, const struct tr_engine_view *v,
                    uint64_t conn_bytes)
{
    tr_json_name(j, "memory");
    tr_json_open(j, '{');
    limit(j, "limit", b->all);
    tr_json_member(j, "engine_used", v->memory_used);
    limit(j, "engine_limit", v->memory_limit);
    tr_json_member(j, "connections_used", conn_bytes);
    limit(j, "connections_limit", b->connections);
    tr_json_member(j, "history_limit", b->history);
    tr_json_member(j, "bodies_limit", b->bodies);
    tr_json_member(j, "near_jobs_limit", b->near_max);
    tr_json_member(j, "far_jobs_limit", b->far_max);
    truth(j, "refusing", v->memory_full);
    tr_json_close(j, '}');
}

void tr_tell_conns(struct tr_json *j, const struct tr_conns *cs)
{
    tr_json_name(j, "connections");
    tr_json_open(j, '{');
    tr_json_member(j, "beanstalk", cs->beanstalk.sessions);
    tr_json_member(j, "http", cs->http.sessions);
    tr_json_member(j, "most", cs->count_max);
    tr_json_member(j, "buffer_bytes", cs->buffers.used_bytes);
    tr_json_member(j, "buffer_bytes_most", cs->buffers.limit_bytes);
    tr_json_close(j, '}');
    tr_json_name(j, "refused");
    tr_json_open(j, '{');
    for (unsigned port = 0; port < TR_PORTS; port++) {
        tr_json_name(j, cs->doors[port].proto->name);
        tr_json_open(j, '{');
        for (unsigned why = 0; why < TR_REFUSAL_COUNT; why++) {
            tr_json_member(j, tr_refusal_name((enum tr_refusal)why),
                           tr_door_refused(cs, (enum tr_port_kind)port, (enum tr_refusal)why));
        }
        tr_json_close(j, '}');
    }
    tr_json_close(j, '}');
    tr_json_member(j, "tls_handshakes",
                   cs->doors[TR_PORT_BEANSTALK].handshakes + cs->doors[TR_PORT_HTTP].handshakes);
    tr_json_member(j, "http_requests", cs->http.requests);
}

void tr_tell_auth(struct tr_json *j, const struct tr_auth *a)
{
    tr_json_name(j, "auth");
    tr_json_open(j, '{');
    tr_json_member(j, "tokens", a->count);
    tr_json_member(j, "absent", a->absent);
    tr_json_member(j, "failed", a->failed);
    tr_json_member(j, "too_many", a->too_many);
    tr_json_member(j, "denied", a->denied);
    tr_json_member(j, "limited", a->limited);
    tr_json_close(j, '}');
}
