/*
 * GET /metrics: a page for Prometheus.
 *
 *     forecasts --> a family after the other, some topics at a time --> what the server knows
 *                                                                            |
 *                                                     out, as fast as the client reads it
 *
 * All lines of a family stand together, so the topics are gone through once for each. The page is
 * gathered in a text of its own, in steps between which others have their turn: with 1,000 topics
 * it has some 40,000 lines. When it is whole its length is known, and it goes out in pieces: what
 * was poured may leave before the rest is.
 *
 * Nothing here waits for the disk but what must be read for the forecast: counters say what
 * happened since the start, and not what a power cut would leave (their gate is none).
 */

#include "base/err.h"
#include "proto/http_inner.h"

#include <string.h>

#define US_PER_S UINT64_C(1000000)

enum {
    PIECE = 65536,
    UNIT_BYTES = 1024,
    WAITS_MAX = 200, /* goes for which what is looked for is waited for, each of them */
    WHOLE = 1 << 20  /* units of work: a whole go */
};

enum kind { JOBS, COUNT, LATE, WAIT, OLDEST, NEXT_DUE };

static const struct family {
    const char *name;
    const char *type;
    const char *help;
    enum kind kind;
    enum tr_metered what; /* COUNT */
    unsigned cost;        /* of a topic, in units of work */
} families[] = {
    {"tarry_jobs", "gauge", "Jobs by topic and state.", JOBS, 0, 2},
    {"tarry_jobs_pushed_total", "counter", "Jobs pushed.", COUNT, TR_METERED_PUSHED, 1},
    {"tarry_jobs_fired_total", "counter", "Delayed jobs that became ready.", COUNT,
     TR_METERED_FIRED, 1},
    {"tarry_jobs_handed_total", "counter", "Jobs handed out, each time it happened.", COUNT,
     TR_METERED_HANDED, 1},
    {"tarry_jobs_acked_total", "counter", "Jobs finished by a consumer.", COUNT, TR_METERED_ACKED,
     1},
    {"tarry_jobs_retried_total", "counter",
     "Jobs that came back unfinished, to be handed out again.", COUNT, TR_METERED_RETRIED, 1},
    {"tarry_jobs_dead_total", "counter", "Jobs that became dead, for whatever reason.", COUNT,
     TR_METERED_DEAD, 1},
    {"tarry_jobs_cancelled_total", "counter", "Jobs cancelled or purged.", COUNT,
     TR_METERED_CANCELLED, 1},
    {"tarry_jobs_expired_total", "counter", "Jobs not handed out within their ttl.", COUNT,
     TR_METERED_EXPIRED, 1},
    {"tarry_jobs_dropped_total", "counter", "Dead jobs dropped for their age or number.", COUNT,
     TR_METERED_DROPPED, 1},
    {"tarry_job_lateness_seconds", "histogram", "From due to ready.", LATE, 0, 6},
    {"tarry_job_wait_seconds", "histogram", "From ready to handed out.", WAIT, 0, 6},
    {"tarry_topic_oldest_ready_seconds", "gauge", "How long the oldest ready job has been ready.",
     OLDEST, 0, 1},
    {"tarry_topic_next_due_timestamp_seconds", "gauge", "When the next delayed job is due.",
     NEXT_DUE, 0, 20},
};

enum { FAMILIES = sizeof families / sizeof families[0] };

/* ---- out ---- */

/* As much as the client reads. */
static void pour(struct tr_hs *s)
{
    const uint8_t *bytes;
    size_t len = tr_output_ready(s->text, 0, &bytes);
    size_t left = len - s->page.poured;
    size_t n = left < PIECE ? left : PIECE;

    tr_output_add(&s->out, bytes + s->page.poured, n);
    s->page.poured += n;
    s->cost += (unsigned)(n / UNIT_BYTES);
    s->pouring = n < left && !s->out.broken;
    s->next = s->pouring ? pour : NULL;
    s->answered = !s->pouring;
}

static void reply(struct tr_hs *s)
{
    const uint8_t *bytes;
    size_t len = tr_output_ready(s->text, 0, &bytes);

    if (s->text->broken) { /* there was no memory for it */
        s->req.out.status = TARRY_ENOMEM;
        tr_hs_fail(s);
        return;
    }
    s->gate = 0;
    s->page.poured = 0;
    if (tr_hs_open_sized(s, "text/plain; version=0.0.4; charset=utf-8", len)) {
        pour(s);
    } else {
        s->answered = true; /* HEAD */
    }
}

/* ---- topics ---- */

static void tell_jobs(struct tr_hs *s, struct tr_prom *p, const struct tr_meter_view *v)
{
    static const char *const names[TR_DEAD + 1] = {[TR_DELAYED] = "delayed",
                                                   [TR_READY] = "ready",
                                                   [TR_RESERVED] = "reserved",
                                                   [TR_DEAD] = "dead"};

    for (unsigned i = TR_DELAYED; i <= TR_DEAD; i++) {
        uint64_t *shown = &s->page.shown[i];
        uint64_t jobs = v->jobs[i];

        if (v->other) { /* it tells of all; some may have gone since those were shown */
            jobs = jobs > *shown ? jobs - *shown : 0;
        }
        *shown += jobs;
        tr_prom_begin(p, "");
        tr_prom_label(p, "topic", v->name, v->name_len);
        tr_prom_label(p, "state", names[i], strlen(names[i]));
        tr_prom_number(p, jobs);
    }
}

static void tell_hist(struct tr_prom *p, const struct tr_meter_view *v, const struct tr_hist *hist)
{
    struct tr_prom_hist h = {.hist = hist,
                             .scale = &tr_hist_waits,
                             .unit = TR_PROM_SECONDS,
                             .label = "topic",
                             .value = v->name,
                             .len = v->name_len};

    tr_prom_hist(p, &h);
}

static void tell_topic(struct tr_hs *s, struct tr_prom *p, const struct family *f,
                       const struct tr_meter_view *v)
{
    switch (f->kind) {
    case JOBS:
        tell_jobs(s, p, v);
        return;
    case LATE:
        tell_hist(p, v, v->late);
        return;
    case WAIT:
        tell_hist(p, v, v->wait);
        return;
    case OLDEST:
    case NEXT_DUE:
        if (v->other || (f->kind == NEXT_DUE && v->next_due_us == 0)) {
            return;
        }
        break;
    case COUNT:
        break;
    }
    tr_prom_begin(p, "");
    tr_prom_label(p, "topic", v->name, v->name_len);
    if (f->kind == COUNT) {
        tr_prom_number(p, v->counts[f->what]);
    } else {
        tr_prom_seconds(p, (int64_t)(f->kind == OLDEST ? v->ready_for_us : v->next_due_us));
    }
}

/* ---- what is not of a topic ---- */

static void tell_due(struct tr_hs *s, struct tr_prom *p)
{
    static const char *const within[TR_HS_WITHIN] = {"1m", "10m", "1h", "1d"};

    tr_prom_family(p, "tarry_due_jobs", "gauge", "Jobs that are due within so long from now.");
    for (unsigned i = 0; i < TR_HS_WITHIN; i++) {
        if (s->page.due[i] != UINT64_MAX) {
            tr_prom_begin(p, "");
            tr_prom_label(p, "within", within[i], strlen(within[i]));
            tr_prom_number(p, s->page.due[i]);
        }
    }
}

static void tell_server(struct tr_hs *s)
{
    struct tr_prom p;

    tr_prom_init(&p, s->text);
    tell_due(s, &p);
    if (s->port->metrics.tell != NULL) {
        s->port->metrics.tell(s->port->ctx, &p);
    }
    s->next = reply;
}

/* When the next jobs of some topics are due is being looked for. That is waited for a little; what
 * is not known by then is told in the next page. */
static bool waits(struct tr_hs *s, const struct family *f)
{
    bool looks = f->kind == NEXT_DUE && s->page.from == 0 && s->port->metrics.looks != NULL &&
                 s->port->metrics.looks(s->port->ctx) && s->page.waits < WAITS_MAX;

    if (looks) {
        s->page.waits++;
        s->cost += WHOLE;
    }
    return looks;
}

/* Some topics of a family. */
static void tell_some(struct tr_hs *s)
{
    const struct family *f = &families[s->page.family];
    struct tr_meter_view views[TR_METER_VIEWS];
    struct tr_prom p;
    unsigned n;

    s->next = tell_some;
    if (waits(s, f)) {
        return;
    }
    tr_prom_init(&p, s->text);
    if (s->page.from == 0) {
        tr_prom_family(&p, f->name, f->type, f->help);
    }
    p.name = f->name;
    n = s->port->metrics.topics != NULL
            ? s->port->metrics.topics(s->port->ctx, s->page.from, f->kind == NEXT_DUE, views)
            : 0;
    for (unsigned i = 0; i < n; i++) {
        tell_topic(s, &p, f, &views[i]);
    }
    s->cost += n * f->cost;
    s->page.from += n;
    if (n == 0 || views[n - 1].other) {
        s->page.from = 0;
        s->page.family++;
    }
    if (s->page.family == FAMILIES) {
        s->next = tell_server;
    }
}

/* ---- forecasts ---- */

static void ask_due(struct tr_hs *s);

/* The first from_us and those that follow are steps of a minute, or of an hour at the end. */
static uint64_t due_before(const struct tr_forecast_view *f, uint64_t until_us)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < f->count && f->first_us + i * f->step_us < until_us; i++) {
        sum += f->counts[i];
    }
    return sum;
}

/* One answer is enough for ten minutes and an hour. */
static void due_known(struct tr_hs *s)
{
    const struct tr_forecast_view *f = &s->req.out.forecast;
    bool good = s->req.out.status == TARRY_OK;

    for (; s->page.ask < TR_HS_WITHIN && s->page.until_us[s->page.ask] <= s->req.until_us;
         s->page.ask++) {
        s->page.due[s->page.ask] = good ? due_before(f, s->page.until_us[s->page.ask]) : UINT64_MAX;
    }
    s->next = s->page.ask < TR_HS_WITHIN ? ask_due : tell_some;
}

static void ask_due(struct tr_hs *s)
{
    unsigned ask = s->page.ask == 1 ? 2 : s->page.ask;

    s->req.from_us = s->page.now_us;
    s->req.until_us = s->page.until_us[ask];
    s->req.step_us = (ask == 3 ? 3600 : ask == 0 ? 1 : 60) * US_PER_S;
    tr_hs_ask(s, TR_OP_FORECAST, due_known);
}

void tr_hs_metrics(struct tr_hs *s)
{
    static const uint64_t within_s[TR_HS_WITHIN] = {60, 600, 3600, 86400};

    if (!tr_hs_begin_bytes(s)) {
        return;
    }
    s->page = (struct tr_hs_page){.now_us = s->now.wall_us};
    for (unsigned i = 0; i < TR_HS_WITHIN; i++) {
        s->page.until_us[i] = s->now.wall_us + within_s[i] * US_PER_S;
    }
    if (s->port->metrics.begin != NULL) {
        s->port->metrics.begin(s->port->ctx);
    }
    ask_due(s);
}
