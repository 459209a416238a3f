/*
 * One function for each part. A name that is there stays: charts and alerts are made of them
 * (contrib/grafana, contrib/prometheus; a test looks for each name that those use).
 */

#include "server/metrics.h"

#include "base/text.h"
#include "os/process_linux.h"

#include <string.h>

/* ---- the loop ---- */

static void tell_loop(struct tr_prom *p, const struct tr_metrics_of *of)
{
    struct tr_loop_stat loop = tr_loop_linux_stat(of->loop);

    tr_prom_counter(p, "tarry_loop_stalls_total", "Rounds of the loop over 5 ms.", loop.stalls);
    tr_prom_one_hist(
        p, "tarry_loop_round_seconds", "How long a round of the loop took.",
        &(struct tr_prom_hist){&loop.took, &tr_hist_rounds, TR_PROM_SECONDS, NULL, NULL, 0});
    tr_prom_gauge_seconds(p, "tarry_loop_longest_seconds",
                          "The longest round of the loop since the start.",
                          (int64_t)loop.longest_us);
}

/* ---- the ports ---- */

/* The command of the beanstalk port that has this name, too; or TR_BS_COMMAND_COUNT. */
static unsigned same_command(const char *name)
{
    unsigned i = 0;
    char word[TR_BS_COMMAND_NAME];

    for (; i < TR_BS_COMMAND_COUNT; i++) {
        tr_bs_command_name((enum tr_bs_command)i, word);
        if (strcmp(name, word) == 0) {
            break;
        }
    }
    return i;
}

/* By name: what both ports call the same is counted together. */
static void tell_commands(struct tr_prom *p, const struct tr_conns *cs)
{
    bool told[TR_BS_COMMAND_COUNT] = {false};

    tr_prom_family(p, "tarry_commands_total", "counter",
                   "Commands served: of the beanstalk port by their word, of HTTP by their name in "
                   "/openapi.json.");
    for (unsigned i = 0; i < TR_ROUTE_COUNT; i++) {
        char name[TR_ROUTE_NAME];
        uint64_t count = cs->http.counts[i];
        unsigned same;

        tr_route_name((enum tr_route)i, name);
        same = same_command(name);
        if (same < TR_BS_COMMAND_COUNT) {
            told[same] = true;
            count += cs->beanstalk.counts[same];
        }
        tr_prom_begin(p, "");
        tr_prom_label_text(p, "command", name);
        tr_prom_number(p, count);
    }
    for (unsigned i = 0; i < TR_BS_COMMAND_COUNT; i++) {
        char word[TR_BS_COMMAND_NAME];

        tr_bs_command_name((enum tr_bs_command)i, word);
        if (!told[i]) {
            tr_prom_begin(p, "");
            tr_prom_label_text(p, "command", word);
            tr_prom_number(p, cs->beanstalk.counts[i]);
        }
    }
}

static void tell_replies(struct tr_prom *p, const struct tr_conns *cs)
{
    tr_prom_family(p, "tarry_http_replies_total", "counter", "HTTP replies by status.");
    for (unsigned i = 0; i < TR_HS_STATUSES; i++) {
        char code[4] = {(char)('1' + i / 100), (char)('0' + i / 10 % 10), (char)('0' + i % 10)};

        if (cs->http.replies[i] != 0) {
            tr_prom_begin(p, "");
            tr_prom_label(p, "code", code, 3);
            tr_prom_number(p, cs->http.replies[i]);
        }
    }
}

/* What clients were refused, and what they hold. */
static void tell_limits(struct tr_prom *p, const struct tr_conns *cs)
{
    tr_prom_family(p, "tarry_connections_opened_total", "counter", "Connections so far, by port.");
    for (unsigned i = 0; i < TR_PORTS; i++) {
        tr_prom_begin(p, "");
        tr_prom_label_text(p, "port", cs->doors[i].proto->name);
        tr_prom_number(p, cs->doors[i].ever);
    }
    tr_prom_family(p, "tarry_connections_refused_total", "counter",
                   "Connections not let in or closed, and bodies not taken, by port and reason.");
    for (unsigned i = 0; i < TR_PORTS; i++) {
        for (unsigned why = 0; why < TR_REFUSAL_COUNT; why++) {
            tr_prom_begin(p, "");
            tr_prom_label_text(p, "port", cs->doors[i].proto->name);
            tr_prom_label_text(p, "reason", tr_refusal_name((enum tr_refusal)why));
            tr_prom_number(p, tr_door_refused(cs, (enum tr_port_kind)i, (enum tr_refusal)why));
        }
    }
    tr_prom_gauge(p, "tarry_connection_buffer_bytes",
                  "Memory for what clients sent and did not read yet.", cs->buffers.used_bytes);
    tr_prom_gauge(p, "tarry_connection_buffer_limit_bytes", "What it may be at most.",
                  cs->buffers.limit_bytes);
    tr_prom_family(p, "tarry_tls_handshakes_total", "counter",
                   "Handshakes that succeeded, by port.");
    for (unsigned i = 0; i < TR_PORTS; i++) {
        tr_prom_begin(p, "");
        tr_prom_label_text(p, "port", cs->doors[i].proto->name);
        tr_prom_number(p, cs->doors[i].handshakes);
    }
    tr_prom_gauge_seconds(p, "tarry_tls_certificate_end_timestamp_seconds",
                          "Until when the certificate is good; 0: there is no TLS.",
                          cs->tls != NULL ? tr_tls_until_s(cs->tls) * INT64_C(1000000) : 0);
}

static void tell_auth(struct tr_prom *p, const struct tr_auth *a)
{
    const struct {
        const char *reason;
        uint64_t count;
    } rows[] = {{"absent", a->absent},
                {"failed", a->failed},
                {"too_many", a->too_many},
                {"denied", a->denied},
                {"limited", a->limited}};

    tr_prom_family(
        p, "tarry_auth_refused_total", "counter",
        "Requests refused for their token: none, wrong, after too many wrong ones, not allowed to, "
        "beyond its rate.");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tr_prom_begin(p, "");
        tr_prom_label_text(p, "reason", rows[i].reason);
        tr_prom_number(p, rows[i].count);
    }
}

static void tell_ports(struct tr_prom *p, const struct tr_conns *cs)
{
    const uint64_t sessions[TR_PORTS] = {
        [TR_PORT_BEANSTALK] = cs->beanstalk.sessions, [TR_PORT_HTTP] = cs->http.sessions};

    tr_prom_family(p, "tarry_connections", "gauge", "Connections by port.");
    for (unsigned i = 0; i < TR_PORTS; i++) {
        tr_prom_begin(p, "");
        tr_prom_label_text(p, "port", cs->doors[i].proto->name);
        tr_prom_number(p, sessions[i]);
    }
    tr_prom_gauge(p, "tarry_connections_limit", "Connections that there may be at once.",
                  cs->count_max);
    tell_limits(p, cs);
    tell_commands(p, cs);
    tell_replies(p, cs);
}

/* ---- the process ---- */

static void tell_process(struct tr_prom *p, const struct tr_metrics_of *of)
{
    struct tr_process_usage usage = tr_process_usage();

    tr_prom_gauge(p, "process_resident_memory_bytes", "Resident memory.",
                  tr_process_resident_bytes());
    tr_prom_family(p, "process_cpu_seconds_total", "counter", "CPU time, user and system.");
    tr_prom_begin(p, "");
    tr_prom_seconds(p, (int64_t)(usage.user_us + usage.system_us));
    tr_prom_gauge_seconds(p, "process_start_time_seconds", "When the process began.",
                          (int64_t)of->start_wall_us);
    tr_prom_gauge(p, "tarry_memory_used_bytes", "Memory in use by jobs, tables and connections.",
                  of->mem->used_bytes);
    tr_prom_gauge(p, "tarry_memory_limit_bytes", "What it may be at most; 0: no limit.",
                  of->mem->limit_bytes);
    tr_prom_family(p, "tarry_build_info", "gauge", "Always 1: which version this is.");
    tr_prom_begin(p, "");
    tr_prom_label_text(p, "version", of->version);
    tr_prom_label_text(p, "sync", of->sync);
    tr_prom_number(p, 1);
}

static void tell_ready(struct tr_prom *p, const struct tr_metrics_of *of)
{
    tr_prom_gauge(p, "tarry_ready", "1 while /readyz answers 200.",
                  !tr_reasons_stop(of->reasons, of->reason_count));
    tr_prom_family(p, "tarry_unready", "gauge", "1 for each reason that /readyz tells.");
    for (unsigned i = 0; i < of->reason_count; i++) {
        tr_prom_begin(p, "");
        tr_prom_label_text(p, "reason", of->reasons[i].code);
        tr_prom_number(p, 1);
    }
}

/* ---- outlets ---- */

enum {
    OUTLETS = 1000,
    OTHER_CODES = 32
}; /* that are told one by one; and of the others together */

/* Counts of topics that are not told one by one, by code; what finds no place is of the last. */
static void add_other(struct tr_outlet_count *other, const struct tr_outlet_count *c)
{
    unsigned i = 0;

    while (i < OTHER_CODES - 1 && other[i].code[0] != '\0' && strcmp(other[i].code, c->code) != 0) {
        i++;
    }
    tr_text(other[i].code, sizeof other[i].code, "%s", i < OTHER_CODES - 1 ? c->code : "other");
    other[i].count += c->count;
}

static void tell_attempts(struct tr_prom *p, const struct tr_outlets *o)
{
    struct tr_outlet_count other[OTHER_CODES] = {0};
    struct tr_outlet_view v;
    unsigned shown = 0;

    tr_prom_family(p, "tarry_outlet_attempts_total", "counter",
                   "Deliveries that were tried, by topic and outcome.");
    for (const void *at = NULL; (at = tr_outlets_next(o, at, &v)) != NULL; shown++) {
        for (unsigned i = 0; i < v.count_count; i++) {
            if (shown >= OUTLETS) {
                add_other(other, &v.counts[i]);
                continue;
            }
            tr_prom_begin(p, "");
            tr_prom_label(p, "topic", v.topic, v.topic_len);
            tr_prom_label_text(p, "code", v.counts[i].code);
            tr_prom_number(p, v.counts[i].count);
        }
    }
    for (unsigned i = 0; i < OTHER_CODES && other[i].code[0] != '\0'; i++) {
        tr_prom_begin(p, "");
        tr_prom_label_text(p, "topic", "_other");
        tr_prom_label_text(p, "code", other[i].code);
        tr_prom_number(p, other[i].count);
    }
}

/* One figure of each outlet in force. */
static void tell_gauge(struct tr_prom *p, const struct tr_outlets *o, bool breaker)
{
    struct tr_outlet_view v;
    unsigned shown = 0;

    for (const void *at = NULL; shown < OUTLETS && (at = tr_outlets_next(o, at, &v)) != NULL;) {
        if (v.type != NULL) {
            tr_prom_begin(p, "");
            tr_prom_label(p, "topic", v.topic, v.topic_len);
            tr_prom_number(p, breaker ? v.breaker_is : v.in_flight);
            shown++;
        }
    }
}

static void tell_outlets(struct tr_prom *p, const struct tr_outlets *o)
{
    tell_attempts(p, o);
    tr_prom_family(p, "tarry_outlet_breaker", "gauge",
                   "The breaker of a topic that delivers: 0 closed, 1 half-open, 2 open.");
    tell_gauge(p, o, true);
    tr_prom_family(p, "tarry_outlet_in_flight", "gauge", "Deliveries under way, by topic.");
    tell_gauge(p, o, false);
}

void tr_metrics_tell(struct tr_prom *p, const struct tr_metrics_of *of)
{
    of->engine->ops->metrics(of->engine->ctx, p);
    tell_loop(p, of);
    tell_ports(p, of->conns);
    tell_auth(p, of->auth);
    tell_ready(p, of);
    tell_process(p, of);
    tell_outlets(p, of->outlets);
}
