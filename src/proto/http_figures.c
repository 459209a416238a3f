/*
 * Figures and facts about the server: forecast, stats, config, health, the API's description.
 */

#include "base/err.h"
#include "proto/http_inner.h"

#define US_PER_S UINT64_C(1000000)

enum { STEPS = 60 }; /* of a forecast, about, unless it is said */

/* ---- forecast ---- */

static void forecast_done(struct tr_hs *s)
{
    const struct tr_forecast_view *f = &s->req.out.forecast;
    uint64_t from_us = f->from_us;
    struct tr_hs_reply r;

    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "resolution_ms");
    tr_json_number(&r.json, f->resolution_us / 1000);
    tr_json_name(&r.json, "steps");
    tr_json_open(&r.json, '[');
    for (unsigned i = 0; i < f->count; i++) {
        tr_json_open(&r.json, '{');
        tr_json_name(&r.json, "from_ms");
        tr_json_number(&r.json, from_us / 1000);
        tr_json_name(&r.json, "count");
        tr_json_number(&r.json, f->counts[i]);
        tr_json_close(&r.json, '}');
        from_us = f->first_us + (i + 1) * f->step_us;
    }
    tr_json_close(&r.json, ']');
    tr_json_name(&r.json, "to_ms");
    tr_json_number(&r.json, f->until_us / 1000);
    if (f->approximate) {
        tr_json_name(&r.json, "approximate");
        tr_json_bool(&r.json, true);
    }
    tr_hs_close(s, &r);
}

/* The least round step with which there are not too many. */
static uint64_t round_step(uint64_t range_us)
{
    static const uint64_t steps_s[] = {1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400};
    size_t i = 0;

    while (i + 1 < sizeof steps_s / sizeof steps_s[0] &&
           range_us / (steps_s[i] * US_PER_S) > STEPS) {
        i++;
    }
    return range_us / (steps_s[i] * US_PER_S) <= STEPS ? steps_s[i] * US_PER_S
                                                       : range_us / STEPS / US_PER_S * US_PER_S;
}

static void forecast(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_FORECAST, forecast_done);
}

static void topic_found(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_OK) {
        s->req.topic = s->req.out.topic;
        s->next = forecast;
    } else {
        tr_hs_no_topic(s);
    }
}

static uint64_t moment(const struct tr_hs *s, enum tr_arg arg, uint64_t otherwise)
{
    int64_t at = tr_hs_given(s, arg) ? s->args.values[arg].number : (int64_t)otherwise;

    return at > 0 ? (uint64_t)at : 1;
}

static void now_known(struct tr_hs *s)
{
    struct tr_req *r = &s->req;
    struct tr_http_text name;
    uint64_t now_us = s->number;
    uint64_t from_us = moment(s, TR_ARG_FROM, now_us);

    r->from_us = from_us > now_us ? from_us : now_us;
    r->until_us = moment(s, TR_ARG_TO, r->from_us + 3600 * US_PER_S);
    if (r->until_us <= r->from_us) {
        tr_hs_bad(s, TR_ARG_TO, "is not after from, or not in the future");
        return;
    }
    r->step_us = tr_hs_number(s, TR_ARG_STEP, round_step(r->until_us - r->from_us));
    if ((r->until_us - r->from_us - 1) / r->step_us >= TR_FORECAST_STEPS_MAX) {
        tr_hs_bad(s, TR_ARG_STEP, "is too short: that would be more than 2000 steps");
        return;
    }
    if (!tr_hs_topic_arg(s, &name)) {
        return;
    }
    if (name.at != NULL) {
        tr_hs_find_topic(s, name, topic_found);
    } else {
        forecast(s);
    }
}

void tr_hs_forecast(struct tr_hs *s)
{
    tr_hs_ask_now(s, now_known);
}

/* ---- stats and config ---- */

static void number(struct tr_json *j, const char *name, uint64_t n)
{
    tr_json_name(j, name);
    tr_json_number(j, n);
}

static void stats_done(struct tr_hs *s)
{
    const struct tr_topic_stat *stat = &s->req.out.stat;
    struct tr_hs_reply r;

    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "version");
    tr_json_text(&r.json, s->port->version);
    number(&r.json, "topics", s->req.out.number);
    number(&r.json, "delayed", stat->delayed);
    number(&r.json, "ready", stat->ready);
    number(&r.json, "reserved", stat->reserved);
    number(&r.json, "dead", stat->dead);
    number(&r.json, "waiting", stat->waiting);
    number(&r.json, "pushed", stat->pushed);
    number(&r.json, "deleted", stat->deleted);
    number(&r.json, "timeouts", stat->timeouts);
    number(&r.json, "dropped", stat->dropped);
    tr_json_name(&r.json, "pushed_per_s");
    tr_json_thousandths(&r.json, stat->pushed_milli);
    tr_json_name(&r.json, "handed_per_s");
    tr_json_thousandths(&r.json, stat->handed_milli);
    number(&r.json, "late_p50_us", stat->late_p50_us);
    number(&r.json, "late_p99_us", stat->late_p99_us);
    number(&r.json, "now_ms", stat->now_us / 1000);
    number(&r.json, "history_since_ms", (stat->history_us + 999) / 1000);
    if (s->port->tell_stats != NULL) {
        s->port->tell_stats(s->port->ctx, &r.json);
    }
    tr_hs_close(s, &r);
}

void tr_hs_stats(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_STAT, stats_done);
}

void tr_hs_config(struct tr_hs *s)
{
    struct tr_hs_reply r;

    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "version");
    tr_json_text(&r.json, s->port->version);
    if (s->port->tell_config != NULL) {
        s->port->tell_config(s->port->ctx, &r.json);
    }
    tr_hs_close(s, &r);
}

/* ---- who asks ---- */

static void tell_who(struct tr_hs *s)
{
    static const struct {
        enum tr_role role;
        const char *name;
    } roles[] = {{TR_ROLE_READ, "read"},
                 {TR_ROLE_PRODUCE, "produce"},
                 {TR_ROLE_CONSUME, "consume"},
                 {TR_ROLE_ADMIN, "admin"}};
    const struct tr_auth_token *who = s->pass.who;
    struct tr_hs_reply r;

    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "name");
    if (who != NULL) {
        tr_json_text(&r.json, who->is.name);
    } else {
        tr_json_null(&r.json);
    }
    tr_json_name(&r.json, "roles");
    tr_json_open(&r.json, '[');
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (tr_auth_role(who, roles[i].role)) {
            tr_json_text(&r.json, roles[i].name);
        }
    }
    tr_json_close(&r.json, ']');
    tr_json_name(&r.json, "topics");
    tr_json_text(&r.json, who != NULL ? who->is.topics : "*");
    tr_json_name(&r.json, "version");
    tr_json_text(&r.json, s->port->version);
    tr_json_name(&r.json, "test_clock");
    tr_json_bool(&r.json, s->port->test_clock);
    number(&r.json, "now_ms", s->number / 1000);
    tr_hs_close(s, &r);
}

void tr_hs_whoami(struct tr_hs *s)
{
    tr_hs_ask_now(s, tell_who);
}

/* ---- health ---- */

/* Whoever gets this has talked to the loop: it runs. */
void tr_hs_healthz(struct tr_hs *s)
{
    struct tr_hs_reply r;

    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "status");
    tr_json_text(&r.json, "ok");
    tr_json_name(&r.json, "ok");
    tr_json_bool(&r.json, true);
    tr_hs_close(s, &r);
}

static void tell_reasons(struct tr_json *j, const struct tr_reason *reasons, unsigned count)
{
    tr_json_name(j, "reasons");
    tr_json_open(j, '[');
    for (unsigned i = 0; i < count; i++) {
        tr_json_open(j, '{');
        tr_json_name(j, "code");
        tr_json_text(j, reasons[i].code);
        tr_json_name(j, "message");
        tr_json_text(j, reasons[i].message);
        tr_json_close(j, '}');
    }
    tr_json_close(j, ']');
}

/* The first reason that stops it is the error, too, so that whoever knows our errors knows it. */
void tr_hs_readyz(struct tr_hs *s)
{
    struct tr_reason reasons[TR_REASONS];
    unsigned count = s->port->unready != NULL ? s->port->unready(s->port->ctx, reasons) : 0;
    struct tr_http_error e = {.status = 503, .code = "not_ready"};
    struct tr_hs_reply r;
    bool ready = !tr_reasons_stop(reasons, count);
    unsigned first = 0;

    tr_hs_open(s, &r, ready ? 200 : 503);
    tr_json_name(&r.json, "status");
    tr_json_text(&r.json, ready ? "ready" : "not_ready");
    tr_json_name(&r.json, "ready");
    tr_json_bool(&r.json, ready);
    tell_reasons(&r.json, reasons, count);
    if (!ready) {
        while (reasons[first].serves) {
            first++;
        }
        e.message = reasons[first].message;
        tr_http_error_tell(&r.json, &e);
    }
    tr_hs_close(s, &r);
}

/* ---- the description ---- */

void tr_hs_openapi(struct tr_hs *s)
{
    struct tr_http_reply r;

    tr_hs_open_bytes(s, &r);
    tr_http_reply_body(&r, "application/json");
    tr_route_describe(&s->out, s->port->version);
    tr_http_reply_close(&r);
    s->answered = true;
}
