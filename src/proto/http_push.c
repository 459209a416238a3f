/*
 * Pushing one job. POST /v1/topics/{topic}/jobs: its bytes are the body as it came.
 *
 *     find the topic --there--> push --> act
 *          |  not there, or gone meanwhile
 *          +--> hold it (which makes it) --> push --> act --> let it go
 */

#include "base/err.h"
#include "proto/http_inner.h"

enum { PRIORITY = 1024 };

static struct tr_http_text text_of(const struct tr_hs *s, enum tr_arg arg)
{
    return tr_hs_given(s, arg) ? s->args.values[arg].text : (struct tr_http_text){NULL, 0};
}

struct tr_http_error tr_hs_too_large(void)
{
    return (struct tr_http_error){.status = 413,
                                  .code = "body_too_large",
                                  .message = "the body is larger than limits.body allows: send "
                                             "less, or raise limits.body of the server",
                                  .field = "body"};
}

void tr_hs_fill_due(struct tr_hs *s)
{
    int64_t at = tr_hs_given(s, TR_ARG_AT) ? s->args.values[TR_ARG_AT].number : 0;

    s->req.delay_us = tr_hs_number(s, TR_ARG_DELAY, 0);
    s->req.at_us = !tr_hs_given(s, TR_ARG_AT) ? 0 : at > 0 ? (uint64_t)at : 1;
}

bool tr_hs_body_fits(struct tr_hs *s)
{
    enum tr_arg body = tr_hs_given(s, TR_ARG_BODY) ? TR_ARG_BODY : TR_ARG_BODY_BASE64;

    if (tr_hs_given(s, body) && s->args.values[body].text.len > s->port->body_max) {
        struct tr_http_error e = tr_hs_too_large();

        tr_hs_refuse(s, &e);
        return false;
    }
    return true;
}

struct tr_http_error tr_hs_push_error(struct tr_hs *s)
{
    struct tr_http_error e = tr_shape_error(s->req.out.status, s->req.out.job.state);

    if (s->req.out.status == TARRY_EINVAL && s->req.out.why == NULL) { /* all else was checked */
        return (struct tr_http_error){.status = 400,
                                      .code = "bad_request",
                                      .message = "at is more than 137 years ahead",
                                      .field = "at"};
    }
    tr_shape_explain(&e, &s->req);
    return e;
}

static void fill(struct tr_hs *s)
{
    struct tr_req *r = &s->req;
    struct tr_http_text key = text_of(s, TR_ARG_KEY);
    struct tr_http_text tag = text_of(s, TR_ARG_TAG);
    struct tr_http_text backoff = text_of(s, TR_ARG_BACKOFF);
    const char *why;

    tr_hs_fill_due(s);
    r->key = key.at;
    r->key_len = key.len;
    r->conflict = (enum tr_conflict)tr_hs_number(s, TR_ARG_ON_CONFLICT, TR_CONFLICT_REPLACE);
    r->priority = (uint32_t)tr_hs_number(s, TR_ARG_PRIORITY, PRIORITY);
    r->ttr_us = tr_hs_number(s, TR_ARG_TTR, 0);
    r->ttl_us = tr_hs_number(s, TR_ARG_TTL, 0);
    r->tag = tag.at;
    r->tag_len = tag.len;
    r->has_retries = tr_hs_given(s, TR_ARG_RETRIES);
    r->retries = r->has_retries ? s->args.values[TR_ARG_RETRIES].number : 0;
    r->backoff = NULL;
    if (backoff.at != NULL && /* it was read before, as a check */
        tr_backoff_read(backoff.at, backoff.len, &s->policy.backoff, &why) == TARRY_OK) {
        r->backoff = &s->policy.backoff;
    }
    r->body = (const uint8_t *)s->body.at;
    r->body_len = s->body.len;
}

/* ---- one job, of a request with one or with many ---- */

static void hold(struct tr_hs *s);

static void pushed(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_EINVAL && !s->holding) { /* the topic went meanwhile */
        s->next = hold;
        return;
    }
    s->act(s);
    if (s->holding) {
        s->after = s->next;
        s->next = tr_hs_let_go;
    }
}

static void push(struct tr_hs *s)
{
    s->req.topic = s->topic;
    fill(s);
    s->cost += (unsigned)(s->body.len / 1024);
    s->req.keep_topic = true;
    tr_hs_ask(s, TR_OP_PUSH, pushed);
}

static void held(struct tr_hs *s)
{
    if (s->req.out.status != TARRY_OK) {
        s->act(s);
        return;
    }
    s->holding = true;
    s->topic = s->req.out.topic;
    s->next = push;
}

static void hold(struct tr_hs *s)
{
    tr_hs_hold_topic(s, s->name, held);
}

static void found(struct tr_hs *s)
{
    s->topic = s->req.out.topic;
    s->next = s->req.out.status == TARRY_OK ? push : hold;
}

void tr_hs_push_job(struct tr_hs *s, struct tr_http_text topic, struct tr_http_text body,
                    tr_hs_step_fn *act)
{
    s->name = topic;
    s->body = body;
    s->act = act;
    tr_hs_find_topic(s, topic, found);
}

void tr_hs_tell_pushed(struct tr_json *j, const struct tr_req *r)
{
    tr_shape_job(j, &r->out.job, (struct tr_shape){0});
    tr_json_name(j, "created");
    tr_json_bool(j, !r->out.existed);
}

/* ---- the route ---- */

static void said(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (s->req.out.status != TARRY_OK) {
        struct tr_http_error e = tr_hs_push_error(s);

        tr_hs_refuse(s, &e);
        return;
    }
    tr_hs_open(s, &r, s->req.out.existed ? 200 : 201);
    tr_hs_tell_pushed(&r.json, &s->req);
    tr_hs_close(s, &r);
}

void tr_hs_push(struct tr_hs *s)
{
    const struct tr_http_request *r = &s->parse.request;

    tr_hs_push_job(s, s->match.topic, (struct tr_http_text){(const char *)r->body, r->body_len},
                   said);
}
