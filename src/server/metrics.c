/*
 * One function for each part. A name that is there stays: charts and alerts are made of them
 * (contrib/grafana, contrib/prometheus; a test looks for each name that those use).
 */

#include "server/metrics.h"

#include "base/text.h"
#include "os/process_linux.h"

#include <string.h>

/* A family of histograms with one, without a label. */
static void hist(struct tr_prom *p, const char *name, const char *help,
                 const struct tr_prom_hist *h)
{
    tr_prom_family(p, name, "histogram", help);
    tr_prom_hist(p, h);
}

static void label_text(struct tr_prom *p, const char *label, const char *text)
{
    tr_prom_label(p, label, text, strlen(text));
}

/* ---- the engine ---- */

static void tell_commits(struct tr_prom *p, const struct tr_engine_gauges *g)
{
    hist(p, "tarry_commit_seconds",
         "How long a batch of the log took to be written, and synced if answers wait for that.",
         &(struct tr_prom_hist){g->commit, &tr_hist_commits, TR_PROM_SECONDS, NULL, NULL, 0});
    hist(p, "tarry_gate_wait_seconds",
         "From the first change of a batch until answers to it may go.",
         &(struct tr_prom_hist){g->gate, &tr_hist_commits, TR_PROM_SECONDS, NULL, NULL, 0});
    hist(p, "tarry_commit_batch_jobs", "Changes of jobs in one batch of the log.",
         &(struct tr_prom_hist){g->batch, &tr_hist_sizes, TR_PROM_PLAIN, NULL, NULL, 0});
}

static void tell_clock(struct tr_prom *p, const struct tr_engine_stat *s,
                       const struct tr_engine_gauges *g)
{
    tr_prom_counter(p, "tarry_clock_steps_total", "How often the wall clock was set.",
                    s->clock_steps);
    tr_prom_gauge_seconds(p, "tarry_clock_offset_seconds",
                          "How far the engine's time is ahead of the wall clock.", g->clock_us);
}

static void tell_far(struct tr_prom *p, const struct tr_engine_stat *s,
                     const struct tr_engine_gauges *g)
{
    tr_prom_gauge_seconds(p, "tarry_loader_lag_seconds",
                          "How long ago the first job was due that is still to be read.",
                          (int64_t)g->loader_lag_us);
    tr_prom_family(p, "tarry_far_jobs", "gauge", "Jobs that are not in memory, by where they are.");
    tr_prom_begin(p, "");
    label_text(p, "where", "log");
    tr_prom_number(p, s->far - s->runs);
    tr_prom_begin(p, "");
    label_text(p, "where", "runs");
    tr_prom_number(p, s->runs);
    tr_prom_gauge(p, "tarry_promotion_debt_jobs",
                  "Jobs in the log that should be in run files by now.", g->debt);
    tr_prom_counter(p, "tarry_promotions_total", "How often log files became run files.",
                    s->promotions);
    tr_prom_counter(p, "tarry_merges_total", "How often run files were written again.", s->merges);
    tr_prom_gauge(p, "tarry_groups", "Groups of run files.", s->groups);
    tr_prom_gauge(p, "tarry_parked_topics", "Topics with due jobs that are not in memory.",
                  s->parked);
    tr_prom_counter(p, "tarry_loads_total", "Jobs that came back into memory.", s->loaded);
}

static void tell_storage(struct tr_prom *p, const struct tr_metrics_of *of,
                         const struct tr_engine_stat *s, const struct tr_engine_gauges *g)
{
    uint64_t free_bytes;

    tr_prom_gauge(p, "tarry_storage_live_bytes", "Bytes of records that are alive.", g->live_bytes);
    tr_prom_gauge(p, "tarry_storage_disk_bytes", "Bytes of all files of the store.", g->disk_bytes);
    if (tr_process_disk_free(of->path, &free_bytes)) {
        tr_prom_gauge(p, "tarry_storage_free_bytes", "Bytes that are free on the store's disk.",
                      free_bytes);
    }
    tr_prom_gauge(p, "tarry_storage_refusing",
                  "1 while pushes are refused because the disk is nearly full.", s->refusing);
    tr_prom_gauge(p, "tarry_log_slots", "Files of the log.", s->slots);
    tr_prom_gauge(p, "tarry_log_slots_free", "Files of the log that may be written to.",
                  s->slots_free);
    tr_prom_counter(p, "tarry_log_records_total", "Records written to the log.", s->log_records);
    tr_prom_counter(p, "tarry_log_rewritten_total",
                    "Records written to the log again, to free a file.", s->relogged);
    tr_prom_counter(p, "tarry_checkpoints_total", "Checkpoints written.", s->checkpoints);
    tr_prom_gauge(p, "tarry_damaged_jobs", "Jobs held back, since they cannot be read.",
                  s->damaged_jobs);
    tr_prom_gauge(p, "tarry_damaged_places", "Places of files that cannot be read.",
                  s->damaged_places);
    tr_prom_counter(p, "tarry_scrubbed_bytes_total", "Bytes read to find damage early.",
                    s->scrubbed_bytes);
}

static void tell_engine(struct tr_prom *p, const struct tr_metrics_of *of)
{
    struct tr_engine_stat stat;
    struct tr_engine_gauges gauges;

    tr_engine_stat(of->engine, &stat);
    tr_engine_gauges(of->engine, &gauges);
    tell_commits(p, &gauges);
    tell_clock(p, &stat, &gauges);
    tell_far(p, &stat, &gauges);
    tell_storage(p, of, &stat, &gauges);
    tr_prom_gauge(p, "tarry_topics", "Topics.", stat.topics);
    tr_prom_gauge(p, "tarry_keys", "Entries of the table of keys.", stat.keys);
    tr_prom_gauge(p, "tarry_waiting_reserves", "Reserves that wait for a job.", stat.waiting);
    tr_prom_gauge(p, "tarry_stalled_requests", "Requests that wait for the log or the disk.",
                  gauges.stalled);
    tr_prom_counter(p, "tarry_lease_timeouts_total", "Leases that ran out.", stat.timeouts);
}

/* ---- the loop ---- */

static void tell_loop(struct tr_prom *p, const struct tr_metrics_of *of)
{
    struct tr_loop_stat loop = tr_loop_linux_stat(of->loop);

    tr_prom_counter(p, "tarry_loop_stalls_total", "Rounds of the loop over 5 ms.", loop.stalls);
    hist(p, "tarry_loop_round_seconds", "How long a round of the loop took.",
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
        label_text(p, "command", name);
        tr_prom_number(p, count);
    }
    for (unsigned i = 0; i < TR_BS_COMMAND_COUNT; i++) {
        char word[TR_BS_COMMAND_NAME];

        tr_bs_command_name((enum tr_bs_command)i, word);
        if (!told[i]) {
            tr_prom_begin(p, "");
            label_text(p, "command", word);
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
        label_text(p, "port", cs->doors[i].proto->name);
        tr_prom_number(p, cs->doors[i].ever);
    }
    tr_prom_family(p, "tarry_connections_refused_total", "counter",
                   "Connections not let in or closed, and bodies not taken, by port and reason.");
    for (unsigned i = 0; i < TR_PORTS; i++) {
        for (unsigned why = 0; why < TR_REFUSAL_COUNT; why++) {
            tr_prom_begin(p, "");
            label_text(p, "port", cs->doors[i].proto->name);
            label_text(p, "reason", tr_refusal_name((enum tr_refusal)why));
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
        label_text(p, "port", cs->doors[i].proto->name);
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
        label_text(p, "reason", rows[i].reason);
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
        label_text(p, "port", cs->doors[i].proto->name);
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
    label_text(p, "version", of->version);
    label_text(p, "sync", of->sync);
    tr_prom_number(p, 1);
}

static void tell_ready(struct tr_prom *p, const struct tr_metrics_of *of)
{
    tr_prom_gauge(p, "tarry_ready", "1 while /readyz answers 200.", of->reason_count == 0);
    tr_prom_family(p, "tarry_unready", "gauge", "1 for each reason why /readyz answers 503.");
    for (unsigned i = 0; i < of->reason_count; i++) {
        tr_prom_begin(p, "");
        label_text(p, "reason", of->reasons[i].code);
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
            label_text(p, "code", v.counts[i].code);
            tr_prom_number(p, v.counts[i].count);
        }
    }
    for (unsigned i = 0; i < OTHER_CODES && other[i].code[0] != '\0'; i++) {
        tr_prom_begin(p, "");
        label_text(p, "topic", "_other");
        label_text(p, "code", other[i].code);
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
    tell_engine(p, of);
    tell_loop(p, of);
    tell_ports(p, of->conns);
    tell_auth(p, of->auth);
    tell_ready(p, of);
    tell_process(p, of);
    tell_outlets(p, of->outlets);
}
