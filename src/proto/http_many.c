/*
 * Requests with many jobs: POST /v1/jobs, POST /v1/ack.
 *
 *     body --> is all of it JSON, and how many? --> item by item: --> arguments --> queue
 *                        no: 400, and nothing was done                  |             |
 *                                                                       v             v
 *                                                          its result, in the array of results
 *
 * Both walks over the body are in slices, and the second stops after each item; so nobody else
 * waits. All that is pushed in one go is in one batch of the log, and the reply waits for the last.
 *
 * Strings of an item are decoded where they stand; the walk is behind them by then.
 */

#include "base/err.h"
#include "proto/http_inner.h"

#include <string.h>

enum { ITEMS_MAX = 100000 }; /* of one request; their results are kept until the reply */

static void begin(struct tr_hs *s, tr_hs_step_fn *next)
{
    struct tr_http_text type = tr_hs_media_type(s);
    bool lines =
        tr_http_same(type, "application/x-ndjson") || tr_http_same(type, "application/ndjson");

    tr_json_in_init(&s->many.in, lines ? TR_JSON_LINES : TR_JSON_ARRAY);
    s->many.at = 0;
    s->next = next;
}

/* ---- the second walk ---- */

static void item(struct tr_hs *s)
{
    const struct tr_http_request *r = &s->parse.request;
    const struct tr_json_in *in = &s->many.in;

    switch (tr_hs_read_json(s)) {
    case TR_JSON_ITEM:
        s->many.item = (struct tr_http_text){(const char *)r->body + in->item_from,
                                             (size_t)(in->item_to - in->item_from)};
        s->cost += (unsigned)(s->many.item.len / 256);
        s->many.each(s);
        return;
    case TR_JSON_END:
        (void)tr_hs_tell_text(s, "results", NULL);
        return;
    default: /* it was JSON before */
        s->next = item;
    }
}

static void tell_error(struct tr_hs *s, uint64_t id, const struct tr_http_error *e)
{
    tr_json_open(&s->json, '{');
    if (id != 0) {
        tr_json_name(&s->json, "id");
        tr_json_id(&s->json, id);
    }
    tr_http_error_tell(&s->json, e);
    tr_json_close(&s->json, '}');
    s->next = item;
}

/* The arguments of this item. False: they are wrong, and that is its result. */
static bool read_args(struct tr_hs *s)
{
    char *text = (char *)(uintptr_t)s->many.item.at; /* the parser's, for us to alter */
    uint64_t needed;
    uint64_t allowed = tr_route_body_args(s->match.route, &needed);

    tr_args_init(&s->args);
    if (tr_args_json(&s->args, allowed, text, s->many.item.len, &s->error) == TARRY_OK &&
        tr_args_check(&s->args, needed, &s->error) == TARRY_OK) {
        return true;
    }
    tell_error(s, 0, &s->error);
    return false;
}

/* ---- the first walk ---- */

static void check(struct tr_hs *s)
{
    switch (tr_hs_read_json(s)) {
    case TR_JSON_BAD:
        tr_hs_bad_json(s);
        return;
    case TR_JSON_END:
        if (tr_hs_begin_text(s)) {
            begin(s, item);
        }
        return;
    case TR_JSON_ITEM:
        s->many.count++;
        break;
    case TR_JSON_MORE:
        break;
    }
    s->next = check;
    if (s->many.count > ITEMS_MAX) {
        s->next = NULL;
        tr_hs_refuse(s, &(struct tr_http_error){.status = 413,
                                                .code = "too_many",
                                                .message = "a request may have 100000 items: "
                                                           "send several"});
    }
}

static void start(struct tr_hs *s, tr_hs_step_fn *each)
{
    s->many.count = 0;
    s->many.each = each;
    begin(s, check);
}

/* ---- pushing ---- */

static void pushed(struct tr_hs *s)
{
    if (s->req.out.status != TARRY_OK) {
        struct tr_http_error e = tr_hs_push_error(s);

        tell_error(s, 0, &e);
        return;
    }
    tr_json_open(&s->json, '{');
    tr_hs_tell_pushed(&s->json, &s->req);
    tr_json_close(&s->json, '}');
    s->next = item;
}

static void push(struct tr_hs *s)
{
    struct tr_http_text body = {"", 0};
    struct tr_http_text topic;
    enum tr_arg arg;

    if (!read_args(s)) {
        return;
    }
    topic = s->args.values[TR_ARG_TOPIC].text;
    if (!tr_hs_may(s, topic.at, topic.len)) {
        struct tr_http_error e = tr_hs_foreign_topic();

        tell_error(s, 0, &e);
        return;
    }
    arg = tr_hs_given(s, TR_ARG_BODY) ? TR_ARG_BODY : TR_ARG_BODY_BASE64;
    if (tr_hs_given(s, arg)) {
        body = s->args.values[arg].text;
    }
    if (body.len > s->port->body_max) {
        struct tr_http_error e = tr_hs_too_large();

        tell_error(s, 0, &e);
        return;
    }
    tr_hs_push_job(s, topic, body, pushed);
}

void tr_hs_push_many(struct tr_hs *s)
{
    start(s, push);
}

/* ---- acknowledging ---- */

static void acked(struct tr_hs *s)
{
    if (s->req.out.status != TARRY_OK) {
        struct tr_http_error e = tr_hs_lease_error(s->req.out.status, s->req.out.job.state);

        tr_shape_explain(&e, &s->req);
        tell_error(s, s->req.id, &e);
        return;
    }
    tr_json_open(&s->json, '{');
    tr_json_name(&s->json, "id");
    tr_json_id(&s->json, s->req.id);
    tr_json_name(&s->json, "acked");
    tr_json_bool(&s->json, true);
    tr_json_close(&s->json, '}');
    s->next = item;
}

static void ask_ack(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_DELETE, acked);
}

/* One of a topic that the token is not for is not there. */
static void looked(struct tr_hs *s)
{
    const struct tr_job_view *job = &s->req.out.job;

    if (s->req.out.status == TARRY_OK && !tr_hs_may(s, job->topic_name, job->topic_name_len)) {
        s->req.out.status = TARRY_ENOTFOUND;
    }
    if (s->req.out.status == TARRY_OK) {
        s->next = ask_ack;
    } else {
        acked(s);
    }
}

static void ack(struct tr_hs *s)
{
    if (!read_args(s)) {
        return;
    }
    s->req.id = tr_hs_number(s, TR_ARG_ID, 0);
    s->req.lease = tr_hs_lease(s, s->args.values[TR_ARG_LEASE].text, s->req.id);
    if (s->req.id == 0) { /* no job ever had such a number */
        struct tr_http_error e = tr_hs_lease_error(TARRY_ENOTFOUND, 0);

        tell_error(s, 0, &e);
    } else if (tr_auth_narrow(s->pass.who)) {
        tr_hs_ask(s, TR_OP_STAT_JOB, looked);
    } else {
        ask_ack(s);
    }
}

void tr_hs_ack_many(struct tr_hs *s)
{
    start(s, ack);
}
