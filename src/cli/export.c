/*
 * tarry export: all jobs of a server (export_live.c) or of a stopped store as NDJSON, a line each,
 * with the names that a push over HTTP has, so that the lines can be pushed again; what a push does
 * not take (id, state and the like) stands behind those. Nothing is gathered: memory does not
 * depend on how many there are, but for those that a server would have in memory, too.
 */

#include "cli/export.h"
#include "base/err.h"
#include "cli/bar.h"
#include "cli/report.h"
#include "cli/store.h"
#include "engine/survey.h"
#include "os/clock_linux.h"
#include "rules/backoff.h"
#include "rules/duration.h"
#include "rules/moment.h"
#include "rules/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct exporter {
    struct tr_report out;  /* lines of jobs go to stdout, */
    struct tr_report list; /* what is damaged to stderr */
    struct tr_bar bar;
    uint64_t now_us;
    uint64_t jobs;
    uint64_t done;
    uint64_t all;
};

static void text(struct tr_json *j, const char *name, struct tr_bytes value)
{
    if (value.len != 0) {
        tr_json_name(j, name);
        tr_json_string(j, value.at, value.len);
    }
}

static void number(struct tr_json *j, const char *name, uint64_t value)
{
    tr_json_name(j, name);
    tr_json_number(j, value);
}

static void duration(struct tr_json *j, const char *name, uint64_t us)
{
    char printed[TR_DURATION_TEXT];

    tr_duration_print(printed, us);
    tr_json_name(j, name);
    tr_json_text(j, printed);
}

static bool is_dead(const struct tr_record *rec)
{
    return (rec->mask & TR_FIELD(DEAD)) != 0 && rec->dead.seq != 0;
}

static const char *why(uint8_t reason)
{
    static const char *const names[] = {[TR_WHY_EXPIRED] = "expired",
                                        [TR_WHY_BURIED] = "buried",
                                        [TR_WHY_RETRIES] = "retries",
                                        [TR_WHY_DAMAGED] = "damaged"};

    return reason < sizeof names / sizeof names[0] && names[reason] != NULL ? names[reason]
                                                                            : "buried";
}

/* What a push does not take. */
static void rest(const struct exporter *x, struct tr_json *j, const struct tr_record *rec)
{
    bool dead = is_dead(rec);
    const char *state = dead                            ? "dead"
                        : rec->lease.end_us > x->now_us ? "reserved"
                        : rec->due_us > x->now_us       ? "delayed"
                                                        : "ready";

    tr_json_name(j, "id");
    tr_json_id(j, rec->mask & TR_FIELD(ID) ? rec->id : rec->rid);
    tr_json_name(j, "state");
    tr_json_text(j, state);
    number(j, "created_ms", rec->created_us / 1000);
    number(j, "attempts", rec->counters.reserves);
    if (dead) {
        number(j, "dead_ms", rec->dead.at_us / 1000);
        tr_json_name(j, "dead_why");
        tr_json_text(j, why(rec->dead.reason));
    }
}

/* Milliseconds are rounded up, so that nobody who pushes it again gets it early. */
static int job(void *ctx, const struct tr_record *rec, struct tr_topic *t)
{
    struct exporter *x = ctx;
    struct tr_json *j = &x->out.j;
    struct tr_backoff backoff;
    char printed[TR_BACKOFF_TEXT];
    bool beanstalk = (rec->flags & TR_RF_BEANSTALK) != 0;
    bool waits = true;

    if (t == NULL || t->purged) {
        return TARRY_OK;
    }
    tr_json_init(j, &x->out.bytes);
    tr_json_open(j, '{');
    text(j, "topic", (struct tr_bytes){(const uint8_t *)t->name, t->name_len});
    text(j, "key", rec->key);
    text(j, "tag", rec->tag);
    number(j, "at", (rec->due_us + 999) / 1000);
    number(j, "priority", rec->priority);
    duration(j, "ttr", tr_policy_ttr(rec->ttr_us)); /* also the defaults: they are the job's */
    if (rec->ttl_us != 0) {
        duration(j, "ttl", rec->ttl_us);
    }
    tr_json_name(j, "retries");
    tr_json_signed(j, (rec->mask & TR_FIELD(RETRIES)) != 0 ? rec->retries
                                                           : tr_policy_retries(beanstalk));
    if (rec->backoff.len == 0 ||
        tr_backoff_decode(rec->backoff.at, rec->backoff.len, &backoff) != TARRY_OK) {
        waits = tr_policy_backoff(beanstalk, &backoff);
    }
    if (waits) {
        tr_backoff_print(printed, &backoff);
    }
    tr_json_name(j, "backoff");
    tr_json_text(j, waits ? printed : "0s");
    tr_json_body(j, rec->body.at, rec->body.len);
    rest(x, j, rec);
    tr_json_close(j, '}');
    tr_output_add(&x->out.bytes, "\n", 1);
    tr_report_flush(&x->out);
    x->jobs++;
    return ferror(stdout) ? TARRY_EIO : TARRY_OK;
}

static void found(void *ctx, const struct tr_finding *f)
{
    struct exporter *x = ctx;

    tr_bar_end(&x->bar);
    tr_report_found(&x->list, f);
}

static void progress(void *ctx, uint64_t more)
{
    struct exporter *x = ctx;

    x->done += more;
    tr_bar_show(&x->bar, x->done, x->all > x->done ? x->all : x->done);
}

static int tell_damage(const struct exporter *x, const char *dir)
{
    if (x->list.by_fate[TR_FATE_LOST] != 0) {
        fprintf(stderr,
                "tarry: %s is damaged: %" PRIu64 " jobs were printed, what is missing is above\n"
                "Some of it may be saved: tarry check --repair %s, or take a backup.\n",
                dir, x->jobs, dir);
    } else {
        fprintf(stderr,
                "tarry: %s is damaged: %" PRIu64 " jobs were printed, none is known to be missing\n"
                "tarry check --repair %s makes it whole.\n",
                dir, x->jobs, dir);
    }
    return TR_CLI_DAMAGED;
}

static int run(struct exporter *x, const char *dir)
{
    struct tr_cli_store store = {.ctx = x, .found = found};
    struct tr_survey s = {.ctx = x, .job = job, .found = found, .progress = progress};
    int err = tr_cli_store_look(&store, dir);

    if (err != TARRY_OK) {
        return tr_cli_store_trouble(dir, err);
    }
    if (store.salvaged) { /* what was told when it was opened is not told again */
        s.found = NULL;
    }
    s.e = store.engine;
    x->all = tr_survey_bytes(store.engine);
    tr_bar_begin(&x->bar, "exporting");
    err = tr_survey_run(&s);
    tr_bar_end(&x->bar);
    tr_cli_store_close(&store);
    if (err != TARRY_OK && !ferror(stdout)) {
        return tr_cli_store_trouble(dir, err);
    }
    return x->list.findings != 0 ? tell_damage(x, dir) : TR_CLI_FINE;
}

static int offline(struct tr_cli *c)
{
    struct exporter x = {.now_us = tr_clock_linux_now().wall_us};
    int how;

    if (tr_cli_given(c, "--topic")) {
        return tr_cli_usage("export", "--topic is for a running server.");
    }

    tr_report_init(&x.out, stdout, true);
    tr_report_init(&x.list, stderr, false);
    how = run(&x, c->args[0]);
    tr_report_fini(&x.out);
    tr_report_fini(&x.list);
    return how;
}

static int export_jobs(struct tr_cli *c)
{
    return c->count > 0 ? offline(c) : tr_cli_export_live(c);
}

const struct tr_cli_command tr_cli_command_export = {
    .name = "export",
    .group = TR_CLI_STORES,
    .about = "print all jobs as JSON, a line each, for import",
    .usage = "[FLAGS]\nDIR",
    .text = "Prints all jobs of a running server, one JSON object a line, in no order, then its\n"
            "policies and schedules. It is no copy of one moment: tarry backup makes those.\n"
            "\n"
            "With DIR, all jobs of the store in DIR, which no server may have open; nothing in it\n"
            "is changed. Of a damaged store it prints what can be read, and on stderr what\n"
            "cannot.\n"
            "\n"
            "topic, key, tag, at, priority, ttr, ttl, retries, backoff, body or body_base64 are\n"
            "as in POST /v1/jobs; at is in milliseconds since 1970. What else is known of a job\n"
            "is in id, state, created_ms, attempts, dead_ms, dead_why.\n",
    .options = {{"--topic", "TOPIC", "only jobs of this topic, and its policy", true}},
    .examples = "tarry export > jobs.ndjson\n"
                "tarry export /var/lib/tarry | grep '\"topic\":\"orders\"' | wc -l",
    .exits = "0 fine; 1 it could not be read, or the output not written; 2 wrong\n"
             "usage; 3 it is damaged: what could be read was printed",
    .args_max = 1,
    .run = export_jobs,
};
