/*
 * Recurring jobs: /v1/schedules. What they do is the engine's business (engine/occur.c).
 *
 * PUT sets the whole of one; the same once more changes nothing; with dry_run it is only told when
 * it would happen. A list goes by the numbers of
 * schedules, which rise as they are made; its cursor is the last number that was told.
 */

#include "base/err.h"
#include "base/text.h"
#include "proto/http_inner.h"
#include "rules/duration.h"
#include "rules/moment.h"

#include <string.h>

enum { PAGE = 100, TIMES = 10 };

static const char *const overlaps[] = {"skip", "queue", "allow"}; /* by enum tr_overlap */
static const char *const misses[] = {"once", "all", "skip"};      /* by enum tr_missed */

/* ---- one as it is told ---- */

static void number(struct tr_json *j, const char *name, uint64_t n)
{
    tr_json_name(j, name);
    tr_json_number(j, n);
}

static void text(struct tr_json *j, const char *name, struct tr_schedule_text t)
{
    if (t.len != 0) {
        tr_json_name(j, name);
        tr_json_string(j, t.at, t.len);
    }
}

/* "start" and "start_ms"; 0: there is none. */
static void moment(struct tr_json *j, const char *name, uint64_t us)
{
    char printed[TR_MOMENT_TEXT];
    char ms[24];

    if (us != 0) {
        tr_moment_print(printed, (int64_t)us);
        tr_json_name(j, name);
        tr_json_text(j, printed);
        tr_text(ms, sizeof ms, "%s_ms", name);
        number(j, ms, us / 1000);
    }
}

/* "every" as people write it, and "every_ms". */
static void duration(struct tr_json *j, const char *name, uint64_t us)
{
    char printed[TR_DURATION_TEXT];
    char ms[24];

    tr_duration_print(printed, us);
    tr_json_name(j, name);
    tr_json_text(j, printed);
    tr_text(ms, sizeof ms, "%s_ms", name);
    number(j, ms, us / 1000);
}

static void tell_when(struct tr_json *j, const struct tr_schedule *is)
{
    static const struct tr_schedule_text utc = {"UTC", 3};

    if (is->kind == TR_SCHEDULE_CRON) {
        text(j, "cron", is->cron);
        text(j, "tz", is->tz.len != 0 ? is->tz : utc);
    } else {
        duration(j, is->kind == TR_SCHEDULE_EVERY ? "every" : "after", is->period_us);
    }
    moment(j, "start", is->start_us);
    moment(j, "end", is->end_us);
    if (is->limit != 0) {
        number(j, "limit", is->limit);
    }
    if (is->jitter_us != 0) {
        number(j, "jitter_ms", is->jitter_us / 1000);
    }
    tr_json_name(j, "overlap");
    tr_json_text(j, overlaps[is->overlap]);
    tr_json_name(j, "missed");
    tr_json_text(j, misses[is->missed]);
}

/* The fields of its jobs. */
static void tell_job(struct tr_json *j, const struct tr_schedule *is)
{
    char printed[TR_BACKOFF_TEXT];
    struct tr_backoff b;

    if (is->has_priority) {
        number(j, "priority", is->priority);
    }
    if (is->ttr_us != 0) {
        number(j, "ttr_ms", is->ttr_us / 1000);
    }
    if (is->ttl_us != 0) {
        number(j, "ttl_ms", is->ttl_us / 1000);
    }
    text(j, "tag", is->tag);
    if (is->has_retries) {
        tr_json_name(j, "retries");
        tr_json_signed(j, is->retries);
    }
    if (is->backoff.len != 0 &&
        tr_backoff_decode((const uint8_t *)is->backoff.at, is->backoff.len, &b) == TARRY_OK) {
        tr_backoff_print(printed, &b);
        tr_json_name(j, "backoff");
        tr_json_text(j, printed);
    }
    tr_json_body(j, is->body, is->body_len);
}

static void tell(struct tr_json *j, const struct tr_schedule_view *v)
{
    tr_json_name(j, "name");
    tr_json_string(j, v->name, v->name_len);
    text(j, "topic", v->is->topic);
    tell_when(j, v->is);
    tell_job(j, v->is);
    tr_json_name(j, "paused");
    tr_json_bool(j, v->at->paused);
    number(j, "fired", v->at->fired);
    number(j, "skipped", v->at->skipped);
    number(j, "waiting", v->at->waiting);
    number(j, "created_ms", v->at->created_us / 1000);
    moment(j, "last", v->at->last_us);
    moment(j, "next", v->next_us);
    if (v->at->live_id != 0) {
        tr_json_name(j, "job");
        tr_json_id(j, v->at->live_id);
    }
    if (v->held || v->lost) {
        tr_json_name(j, "trouble");
        tr_json_text(j, v->lost ? "its time zone is not there any more: it stands still"
                                : "its job cannot be made now: it is tried again each second");
    }
}

/* ---- answers ---- */

static bool failed(struct tr_hs *s)
{
    struct tr_http_error e;

    if (s->req.out.status == TARRY_OK) {
        return false;
    }
    e = tr_shape_error(s->req.out.status, s->req.out.job.state);
    if (s->req.out.status == TARRY_ENOTFOUND) {
        e.message = "there is no such schedule";
    } else if (s->req.out.status == TARRY_EQUOTA && s->req.op == TR_OP_SCHEDULE) {
        e.message = "there are a million schedules already";
    }
    tr_shape_explain(&e, &s->req);
    tr_hs_refuse(s, &e);
    return true;
}

static void said(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (!failed(s)) {
        tr_hs_open(s, &r, 200);
        tell(&r.json, &s->req.out.schedule);
        tr_hs_close(s, &r);
    }
}

static void ask(struct tr_hs *s, enum tr_op op, tr_hs_step_fn *then)
{
    s->req.name = s->match.name.at;
    s->req.name_len = s->match.name.len;
    tr_hs_ask(s, op, then);
}

void tr_hs_schedule(struct tr_hs *s)
{
    ask(s, TR_OP_SCHEDULE_GET, said);
}

void tr_hs_schedule_pause(struct tr_hs *s)
{
    ask(s, TR_OP_SCHEDULE_PAUSE, said);
}

void tr_hs_schedule_resume(struct tr_hs *s)
{
    ask(s, TR_OP_SCHEDULE_RESUME, said);
}

static void dropped(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (!failed(s)) {
        tr_hs_open(s, &r, 200);
        tr_json_name(&r.json, "deleted");
        tr_json_bool(&r.json, true);
        tr_hs_close(s, &r);
    }
}

void tr_hs_schedule_delete(struct tr_hs *s)
{
    ask(s, TR_OP_SCHEDULE_DROP, dropped);
}

static void ran(struct tr_hs *s)
{
    if (!failed(s)) {
        tr_hs_job(s, 201, (struct tr_shape){0});
    }
}

void tr_hs_schedule_run(struct tr_hs *s)
{
    ask(s, TR_OP_SCHEDULE_RUN, ran);
}

static void foretold(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (failed(s)) {
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "name");
    tr_json_string(&r.json, s->req.out.schedule.name, s->req.out.schedule.name_len);
    tr_json_name(&r.json, "next");
    tr_json_open(&r.json, '[');
    for (uint64_t i = 0; i < s->req.out.number; i++) {
        tr_json_open(&r.json, '{');
        moment(&r.json, "due", s->req.out.times[i]);
        tr_json_close(&r.json, '}');
    }
    tr_json_close(&r.json, ']');
    tr_hs_close(s, &r);
}

void tr_hs_schedule_next(struct tr_hs *s)
{
    s->req.count = tr_hs_number(s, TR_ARG_N, TIMES);
    ask(s, TR_OP_SCHEDULE_TIMES, foretold);
}

/* ---- all of them ---- */

static void next(struct tr_hs *s);

static void came(struct tr_hs *s)
{
    struct tr_hs_reply r;
    bool more = s->req.out.status == TARRY_OK;

    if (!more && s->req.out.status != TARRY_ENOTFOUND) {
        tr_hs_fail(s);
        return;
    }
    if (more && s->number > 0) {
        tr_json_open(&s->json, '{');
        tell(&s->json, &s->req.out.schedule);
        tr_json_close(&s->json, '}');
        s->number--;
        s->req.id = s->req.out.schedule.number;
        s->next = next;
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_hs_end_text(s, &r, "schedules");
    tr_json_name(&r.json, "cursor");
    if (more) { /* the page is full, and there is another one */
        tr_json_id(&r.json, s->req.id);
    } else {
        tr_json_null(&r.json);
    }
    tr_hs_close(s, &r);
}

static void next(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_SCHEDULE_AFTER, came);
}

void tr_hs_schedules(struct tr_hs *s)
{
    struct tr_http_text cursor = s->args.values[TR_ARG_CURSOR].text;

    s->req.id = 0;
    if (tr_hs_given(s, TR_ARG_CURSOR) && !tr_id_read(cursor.at, cursor.len, &s->req.id)) {
        tr_hs_bad(s, TR_ARG_CURSOR, "is none that a page before gave");
        return;
    }
    s->number = tr_hs_number(s, TR_ARG_PAGE, PAGE);
    if (tr_hs_begin_text(s)) {
        next(s);
    }
}

/* ---- setting one ---- */

static struct tr_schedule_text text_of(const struct tr_hs *s, enum tr_arg arg)
{
    const struct tr_http_text *t = &s->args.values[arg].text;

    return tr_hs_given(s, arg) ? (struct tr_schedule_text){t->at, t->len}
                               : (struct tr_schedule_text){NULL, 0};
}

/* A moment before 1970 is the past, too. */
static uint64_t moment_of(const struct tr_hs *s, enum tr_arg arg)
{
    int64_t at = tr_hs_given(s, arg) ? s->args.values[arg].number : 0;

    return !tr_hs_given(s, arg) ? 0 : at > 0 ? (uint64_t)at : 1;
}

/* The tz database has these beside UTC, for the same. */
static bool means_utc(struct tr_schedule_text tz)
{
    static const char *const names[] = {"Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu",
                                        "UCT",     "UTC",     "Universal",     "Zulu"};
    bool found = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found |= strlen(names[i]) == tz.len && memcmp(names[i], tz.at, tz.len) == 0;
    }
    return found;
}

static void fill_when(struct tr_hs *s, struct tr_schedule *is)
{
    is->kind = tr_hs_given(s, TR_ARG_CRON)    ? TR_SCHEDULE_CRON
               : tr_hs_given(s, TR_ARG_EVERY) ? TR_SCHEDULE_EVERY
                                              : TR_SCHEDULE_AFTER;
    is->cron = text_of(s, TR_ARG_CRON);
    is->tz = text_of(s, TR_ARG_TZ);
    if (is->tz.len != 0 && (is->kind == TR_SCHEDULE_CRON ? tr_zone_is_utc(is->tz.at, is->tz.len)
                                                         : means_utc(is->tz))) {
        is->tz.len = 0; /* as if it were not given: every and after go by UTC, too */
    }
    is->period_us = tr_hs_number(s, TR_ARG_EVERY, tr_hs_number(s, TR_ARG_AFTER, 0));
    is->start_us = moment_of(s, TR_ARG_START);
    is->end_us = moment_of(s, TR_ARG_END);
    is->limit = tr_hs_number(s, TR_ARG_OCCURRENCES, 0);
    is->jitter_us = tr_hs_number(s, TR_ARG_JITTER, 0);
    is->overlap = (enum tr_overlap)tr_hs_number(s, TR_ARG_OVERLAP, TR_OVERLAP_SKIP);
    is->missed = (enum tr_missed)tr_hs_number(s, TR_ARG_MISSED, TR_MISSED_ONCE);
}

static void fill_job(struct tr_hs *s, struct tr_schedule *is)
{
    struct tr_schedule_text backoff = text_of(s, TR_ARG_BACKOFF);
    struct tr_schedule_text body =
        text_of(s, tr_hs_given(s, TR_ARG_BODY) ? TR_ARG_BODY : TR_ARG_BODY_BASE64);
    struct tr_backoff b;
    const char *why;

    is->topic = text_of(s, TR_ARG_TOPIC);
    is->tag = text_of(s, TR_ARG_TAG);
    is->has_priority = tr_hs_given(s, TR_ARG_PRIORITY);
    is->priority = (uint32_t)tr_hs_number(s, TR_ARG_PRIORITY, 0);
    is->ttr_us = tr_hs_number(s, TR_ARG_TTR, 0);
    is->ttl_us = tr_hs_number(s, TR_ARG_TTL, 0);
    is->has_retries = tr_hs_given(s, TR_ARG_RETRIES);
    is->retries = is->has_retries ? s->args.values[TR_ARG_RETRIES].number : 0;
    if (backoff.len != 0 && /* it was read before, as a check */
        tr_backoff_read(backoff.at, backoff.len, &b, &why) == TARRY_OK) {
        is->backoff =
            (struct tr_schedule_text){(const char *)s->backoff, tr_backoff_encode(s->backoff, &b)};
    }
    is->body = (const uint8_t *)body.at;
    is->body_len = body.len;
}

/* False: it was refused. */
static bool check(struct tr_hs *s)
{
    const struct tr_schedule *is = &s->schedule;
    struct tr_cron cron;
    char why[TR_CRON_WHY];

    if (!tr_hs_given(s, TR_ARG_CRON) && !tr_hs_given(s, TR_ARG_EVERY) &&
        !tr_hs_given(s, TR_ARG_AFTER)) {
        tr_hs_bad(s, TR_ARG_CRON, "is missing, and so are every and after: give one of them");
        return false;
    }
    if (is->kind == TR_SCHEDULE_CRON &&
        tr_cron_read(is->cron.at, is->cron.len, &cron, why) != TARRY_OK) {
        tr_hs_bad(s, TR_ARG_CRON, why);
        return false;
    }
    if (is->kind != TR_SCHEDULE_CRON && is->tz.len != 0) {
        tr_hs_bad(s, TR_ARG_TZ, "goes with cron: every and after know no local time, only UTC");
        return false;
    }
    if (is->end_us != 0 && is->end_us <= is->start_us) {
        tr_hs_bad(s, TR_ARG_END, "is not after start: it would never happen");
        return false;
    }
    if (is->body_len > TR_SCHEDULE_BODY_MAX) {
        struct tr_http_error e = tr_hs_too_large();

        e.message = "the body of a schedule may have 65535 bytes";
        tr_hs_refuse(s, &e);
        return false;
    }
    if (is->tz.len != 0 && !tr_zone_name_ok(is->tz.at, is->tz.len)) {
        tr_hs_bad(s, TR_ARG_TZ, "is no time zone: write one such as Europe/Berlin, or UTC");
        return false;
    }
    return tr_hs_body_fits(s);
}

/* True: it was refused, since there is no such zone. */
static bool no_zone(struct tr_hs *s)
{
    if (s->req.out.status != TARRY_ENOTFOUND) {
        return false;
    }
    tr_hs_bad(s, TR_ARG_TZ,
              "is no time zone that this machine knows: write one such as Europe/Berlin, or UTC");
    return true;
}

static void previewed(struct tr_hs *s)
{
    if (!no_zone(s)) {
        foretold(s);
    }
}

static void set(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (!no_zone(s) && !failed(s)) {
        tr_hs_open(s, &r, s->req.out.existed ? 200 : 201);
        tell(&r.json, &s->req.out.schedule);
        tr_json_name(&r.json, "created");
        tr_json_bool(&r.json, !s->req.out.existed);
        tr_hs_close(s, &r);
    }
}

void tr_hs_schedule_set(struct tr_hs *s)
{
    s->schedule = (struct tr_schedule){0};
    fill_when(s, &s->schedule);
    fill_job(s, &s->schedule);
    if (!check(s)) {
        return;
    }
    s->req.schedule = &s->schedule;
    if (tr_hs_number(s, TR_ARG_DRY_RUN, 0) != 0) {
        s->req.count = TIMES;
        ask(s, TR_OP_SCHEDULE_TIMES, previewed);
    } else {
        ask(s, TR_OP_SCHEDULE, set);
    }
}
