/*
 * One job that the path names, by id or by key: look it up, cancel, edit, fire, kick.
 */

#include "base/base64.h"
#include "base/err.h"
#include "base/text.h"
#include "proto/http_inner.h"
#include "rules/moment.h"

#include <string.h>

/* ---- looking ---- */

bool tr_hs_accepts_bytes(const struct tr_hs *s)
{
    static const char type[] = "application/octet-stream";
    struct tr_http_text accept = s->parse.request.headers[TR_HTTP_ACCEPT];
    size_t len = sizeof type - 1;

    for (size_t i = 0; accept.at != NULL && i + len <= accept.len; i++) {
        if (tr_http_same((struct tr_http_text){accept.at + i, len}, type)) {
            return true;
        }
    }
    return false;
}

static void number_header(struct tr_http_reply *r, const char *name, uint64_t number)
{
    char text[24];

    tr_text(text, sizeof text, "%llu", (unsigned long long)number);
    tr_http_reply_header(r, name, text, strlen(text));
}

/* The bytes themselves, with what else there is to say in headers. */
void tr_hs_job_bytes(struct tr_hs *s, const uint8_t *lease_key)
{
    const struct tr_job_view *job = &s->req.out.job;
    const char *state = tr_shape_state(job->state);
    char due[TR_MOMENT_TEXT];
    char retries[24];
    struct tr_http_reply r;

    tr_hs_open_bytes(s, &r);
    number_header(&r, "Tarry-Id", job->id);
    if (lease_key != NULL) {
        char lease[TR_LEASE_TEXT];

        tr_lease_print(lease, lease_key, job->id, job->lease);
        tr_http_reply_header(&r, "Tarry-Lease", lease, strlen(lease));
        number_header(&r, "Tarry-Lease-Ms", job->left_us / 1000);
    }
    tr_http_reply_header(&r, "Tarry-Topic", job->topic_name, job->topic_name_len);
    if (job->key != NULL) {
        tr_http_reply_header(&r, "Tarry-Key", job->key, job->key_len);
    }
    if (job->tag != NULL) {
        tr_http_reply_header(&r, "Tarry-Tag", job->tag, job->tag_len);
    }
    tr_http_reply_header(&r, "Tarry-State", state, strlen(state));
    number_header(&r, "Tarry-Priority", job->priority);
    (void)tr_moment_print(due, (int64_t)job->due_us);
    tr_http_reply_header(&r, "Tarry-Due", due, strlen(due));
    number_header(&r, "Tarry-Due-Ms", job->due_us / 1000);
    if (job->state == TR_READY || job->state == TR_RESERVED) {
        number_header(&r, "Tarry-Late-Ms", job->late_us / 1000);
    }
    number_header(&r, "Tarry-Created-Ms", job->created_us / 1000);
    number_header(&r, "Tarry-Attempt", job->reserves);
    number_header(&r, "Tarry-Attempts", job->reserves);
    number_header(&r, "Tarry-Ttr-Ms", job->ttr_us / 1000);
    if (job->ttl_us != 0) {
        number_header(&r, "Tarry-Ttl-Ms", job->ttl_us / 1000);
    }
    tr_text(retries, sizeof retries, "%lld", (long long)tr_shape_retries(job));
    tr_http_reply_header(&r, "Tarry-Retries", retries, strlen(retries));
    tr_http_reply_body(&r, "application/octet-stream");
    tr_output_add(&s->out, job->body, job->body_len);
    tr_http_reply_close(&r);
    s->answered = true;
}

static void shown(struct tr_hs *s)
{
    s->cost += s->req.out.job.body_len / 1024;
    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
    } else if (tr_hs_accepts_bytes(s)) {
        tr_hs_job_bytes(s, NULL);
    } else {
        tr_hs_job(s, 200, (struct tr_shape){.body = true});
    }
}

static void peek(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_PEEK, shown);
}

void tr_hs_show(struct tr_hs *s)
{
    tr_hs_name_job(s, peek);
}

/* ---- cancelling ---- */

static void cancelled(struct tr_hs *s)
{
    struct tr_hs_reply r;

    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
        return;
    }
    tr_hs_open(s, &r, 200);
    tr_json_name(&r.json, "cancelled");
    tr_json_bool(&r.json, true);
    tr_json_name(&r.json, "was");
    tr_json_text(&r.json, tr_shape_state(s->req.out.job.state));
    tr_hs_close(s, &r);
}

static void cancel(struct tr_hs *s)
{
    s->req.force = tr_hs_number(s, TR_ARG_FORCE, 0) != 0;
    tr_hs_ask(s, TR_OP_DELETE, cancelled);
}

void tr_hs_cancel(struct tr_hs *s)
{
    tr_hs_name_job(s, cancel);
}

/* ---- editing ---- */

static void changed(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_OK) {
        tr_hs_job(s, 200, (struct tr_shape){0});
    } else {
        struct tr_http_error e = tr_hs_push_error(s);

        tr_hs_refuse(s, &e);
    }
}

static bool touches(const struct tr_hs *s, uint64_t args)
{
    return ((s->args.given | s->args.cleared) & args) != 0;
}

/* A body in base64 that stands in the query, where + came out as a space. False: it is not. */
static bool decode_body(struct tr_hs *s)
{
    struct tr_http_text *text = &s->args.values[TR_ARG_BODY_BASE64].text;
    char *place = (char *)(uintptr_t)text->at; /* the parser's, for us to alter */

    if (!tr_hs_given(s, TR_ARG_BODY_BASE64) || s->parse.request.body_len > 0) {
        return true;
    }
    for (size_t i = 0; i < text->len; i++) {
        if (place[i] == ' ') {
            place[i] = '+';
        }
    }
    return tr_base64_read((uint8_t *)place, &text->len, place, text->len);
}

static void edit(struct tr_hs *s)
{
    struct tr_req *r = &s->req;
    const struct tr_arg_value *values = s->args.values;
    enum tr_arg body = tr_hs_given(s, TR_ARG_BODY) ? TR_ARG_BODY : TR_ARG_BODY_BASE64;

    tr_hs_fill_due(s);
    r->edit = (touches(s, TR_ARGS_DUE) ? TR_EDIT_DUE : 0U) |
              (touches(s, TR_ARG_BIT(PRIORITY)) ? TR_EDIT_PRIORITY : 0U) |
              (touches(s, TR_ARG_BIT(TTR)) ? TR_EDIT_TTR : 0U) |
              (touches(s, TR_ARG_BIT(TTL)) ? TR_EDIT_TTL : 0U) |
              (touches(s, TR_ARG_BIT(TAG)) ? TR_EDIT_TAG : 0U) |
              (touches(s, TR_ARGS_BODY) ? TR_EDIT_BODY : 0U);
    r->priority = (uint32_t)tr_hs_number(s, TR_ARG_PRIORITY, 0);
    r->ttr_us = tr_hs_number(s, TR_ARG_TTR, 0);
    r->ttl_us = tr_hs_number(s, TR_ARG_TTL, 0); /* null: none */
    if (tr_hs_given(s, TR_ARG_TAG)) {           /* the same */
        r->tag = values[TR_ARG_TAG].text.at;
        r->tag_len = values[TR_ARG_TAG].text.len;
    }
    if ((r->edit & TR_EDIT_BODY) != 0) {
        r->body = (const uint8_t *)values[body].text.at;
        r->body_len = values[body].text.len;
    }
    tr_hs_ask(s, TR_OP_EDIT, changed);
}

void tr_hs_edit(struct tr_hs *s)
{
    static const uint64_t may_be_null = TR_ARG_BIT(TTL) | TR_ARG_BIT(TAG);
    uint64_t null = s->args.cleared & ~may_be_null;

    if (null != 0) {
        unsigned arg = 0;

        while ((null >> arg & 1) == 0) {
            arg++;
        }
        tr_hs_bad(s, (enum tr_arg)arg, "may not be null");
    } else if (!touches(s, TR_ARGS_EDIT)) {
        tr_hs_refuse(s, &(struct tr_http_error){.status = 400,
                                                .code = "bad_request",
                                                .message = "there is nothing to change: give "
                                                           "delay, at, priority, tag, ttl, ttr or "
                                                           "body"});
    } else if (!decode_body(s)) {
        tr_hs_bad(s, TR_ARG_BODY_BASE64, "is not base64");
    } else if (tr_hs_body_fits(s)) {
        tr_hs_name_job(s, edit);
    }
}

/* ---- fire and kick ---- */

static void fire(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_FIRE, changed);
}

void tr_hs_fire(struct tr_hs *s)
{
    tr_hs_name_job(s, fire);
}

static void kick(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_KICK_JOB, changed);
}

/* The queue would kick a delayed job, too, as beanstalk has it. */
static void looked(struct tr_hs *s)
{
    if (s->req.out.status == TARRY_OK && s->req.out.job.state != TR_DEAD) {
        s->req.out.status = TARRY_ESTATE;
    }
    if (s->req.out.status == TARRY_OK) {
        s->next = kick;
    } else {
        tr_hs_fail(s);
    }
}

static void look(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_STAT_JOB, looked);
}

void tr_hs_kick(struct tr_hs *s)
{
    tr_hs_name_job(s, look);
}
