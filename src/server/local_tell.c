/*
 * What the embedded engine tells: for people, for programs, for charts. Names are those of
 * /v1/stats and /metrics: a name that is there stays.
 */

#include "os/process_linux.h"
#include "proto/json_out.h"
#include "proto/prom_out.h"
#include "server/local_inner.h"

const char *tr_local_durability(void *ctx)
{
    const struct tr_local *l = ctx;

    switch (l->parts.config->sync) {
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

/* ---- /v1/stats ---- */

static void truth(struct tr_json *j, const char *name, bool yes)
{
    tr_json_name(j, name);
    tr_json_bool(j, yes);
}

static void tell_store(struct tr_json *j, const struct tr_engine_stat *stat,
                       const struct tr_engine_gauges *g)
{
    tr_json_name(j, "store");
    tr_json_open(j, '{');
    tr_json_member(j, "far", stat->far);
    tr_json_member(j, "in_runs", stat->runs);
    tr_json_member(j, "groups", stat->groups);
    tr_json_member(j, "keys", stat->keys);
    tr_json_member(j, "parked_topics", stat->parked);
    tr_json_member(j, "slots", stat->slots);
    tr_json_member(j, "slots_free", stat->slots_free);
    tr_json_member(j, "slot_bytes", stat->slot_bytes);
    tr_json_member(j, "log_live_bytes", stat->log_live_bytes);
    tr_json_member(j, "log_records", stat->log_records);
    tr_json_member(j, "relogged", stat->relogged);
    tr_json_member(j, "checkpoints", stat->checkpoints);
    tr_json_member(j, "promotions", stat->promotions);
    tr_json_member(j, "merges", stat->merges);
    tr_json_member(j, "batches", stat->closed_batch);
    tr_json_member(j, "clock_steps", stat->clock_steps);
    truth(j, "draining", stat->draining);
    truth(j, "refusing", stat->refusing);
    tr_json_member(j, "live_bytes", g->live_bytes);
    tr_json_member(j, "disk_bytes", g->disk_bytes);
    tr_json_member(j, "loader_lag_ms", g->loader_lag_us / 1000);
    tr_json_member(j, "promotion_debt", g->debt);
    tr_json_member(j, "stalled_requests", g->stalled);
    tr_json_member(j, "loaded", stat->loaded);
    tr_json_member(j, "purging", stat->purged);
    tr_json_member(j, "commits", tr_hist_total(g->commit));
    tr_json_member(j, "commit_p99_us", stat->commit_p99_us);
    tr_json_member(j, "commit_p99_busy_us", stat->commit_busy_us);
    tr_json_member(j, "background_rate", stat->background_rate);
    tr_json_member(j, "scrubbed_bytes", stat->scrubbed_bytes);
    tr_json_member(j, "backups", stat->backups);
    truth(j, "damaged", stat->damaged);
    tr_json_member(j, "damaged_jobs", stat->damaged_jobs);
    tr_json_member(j, "damaged_places", stat->damaged_places);
    tr_json_member(j, "mended", stat->mended);
    tr_json_close(j, '}');
}

static void tell_damage(struct tr_json *j, const struct tr_engine_stat *stat)
{
    tr_json_name(j, "damage");
    tr_json_open(j, '{');
    truth(j, "damaged", stat->damaged);
    tr_json_member(j, "jobs", stat->damaged_jobs);
    tr_json_member(j, "places", stat->damaged_places);
    tr_json_member(j, "untold", stat->damage_untold);
    tr_json_member(j, "quarantined", stat->quarantined);
    tr_json_member(j, "mended", stat->mended);
    tr_json_member(j, "scrubbed_bytes", stat->scrubbed_bytes);
    tr_json_member(j, "scrubbed_groups", stat->scrubbed_groups);
    tr_json_member(j, "scrub_done_bytes", stat->scrub_done);
    tr_json_member(j, "scrub_of_bytes", stat->scrub_of);
    tr_json_close(j, '}');
}

void tr_local_tell(void *ctx, struct tr_json *j)
{
    const struct tr_local *l = ctx;
    struct tr_engine_stat stat;
    struct tr_engine_gauges gauges;

    tr_engine_stat(l->engine, &stat);
    tr_engine_gauges(l->engine, &gauges);
    tell_store(j, &stat, &gauges);
    tell_damage(j, &stat);
}

/* ---- /metrics ---- */

static void tell_commits(struct tr_prom *p, const struct tr_engine_gauges *g)
{
    tr_prom_one_hist(
        p, "tarry_commit_seconds",
        "How long a batch of the log took to be written, and synced if answers wait for that.",
        &(struct tr_prom_hist){g->commit, &tr_hist_commits, TR_PROM_SECONDS, NULL, NULL, 0});
    tr_prom_one_hist(
        p, "tarry_gate_wait_seconds",
        "From the first change of a batch until answers to it may go.",
        &(struct tr_prom_hist){g->gate, &tr_hist_commits, TR_PROM_SECONDS, NULL, NULL, 0});
    tr_prom_one_hist(
        p, "tarry_commit_batch_jobs", "Changes of jobs in one batch of the log.",
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
    tr_prom_label_text(p, "where", "log");
    tr_prom_number(p, s->far - s->runs);
    tr_prom_begin(p, "");
    tr_prom_label_text(p, "where", "runs");
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

static void tell_storage(struct tr_prom *p, const char *path, const struct tr_engine_stat *s,
                         const struct tr_engine_gauges *g)
{
    uint64_t free_bytes;

    tr_prom_gauge(p, "tarry_storage_live_bytes", "Bytes of records that are alive.", g->live_bytes);
    tr_prom_gauge(p, "tarry_storage_disk_bytes", "Bytes of all files of the store.", g->disk_bytes);
    if (tr_process_disk_free(path, &free_bytes)) {
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

void tr_local_metrics(void *ctx, struct tr_prom *p)
{
    const struct tr_local *l = ctx;
    struct tr_engine_stat stat;
    struct tr_engine_gauges gauges;

    tr_engine_stat(l->engine, &stat);
    tr_engine_gauges(l->engine, &gauges);
    tell_commits(p, &gauges);
    tell_clock(p, &stat, &gauges);
    tell_far(p, &stat, &gauges);
    tell_storage(p, l->path, &stat, &gauges);
    tr_prom_gauge(p, "tarry_topics", "Topics.", stat.topics);
    tr_prom_gauge(p, "tarry_keys", "Entries of the table of keys.", stat.keys);
    tr_prom_gauge(p, "tarry_waiting_reserves", "Reserves that wait for a job.", stat.waiting);
    tr_prom_gauge(p, "tarry_stalled_requests", "Requests that wait for the log or the disk.",
                  gauges.stalled);
    tr_prom_counter(p, "tarry_lease_timeouts_total", "Leases that ran out.", stat.timeouts);
}
