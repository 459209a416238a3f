/*
 * The routes of the Redis delay queues of old, so that their clients can move over:
 *
 *     POST /push            {"topic","id","bizKey","delay","priority","ttl","body"}, ms --> id
 *     GET  /delete?id=      cancel
 *     GET  /get/{topic}     waits 30 s for a job, hands it out and finishes it, as there; or 204
 *     GET  /reStore         see http_restore.c
 *     GET  /reStore/{id}    the same, of this one
 *
 * A job is the same job as on the other routes. bizKey is its key, else a given id is.
 */

#include "base/err.h"
#include "base/name.h"
#include "base/text.h"
#include "proto/http_inner.h"
#include "proto/json_read.h"

#include <string.h>

enum { WAIT_US = 30000000 };

/* ---- push ---- */

static void give(struct tr_hs *s, enum tr_arg arg, struct tr_arg_value value)
{
    s->args.values[arg] = value;
    s->args.given |= UINT64_C(1) << arg;
}

/* What a value says, decoded where it stands. */
static struct tr_http_text text_of(const struct tr_json_value *v)
{
    char *place = (char *)(uintptr_t)v->text; /* the parser's, for us to alter */

    if (v->kind == TR_JSON_STRING_KIND) {
        return (struct tr_http_text){place, tr_json_unescape(v, place)};
    }
    return (struct tr_http_text){v->text, v->len};
}

/* A whole number, also as a string of digits. */
static bool number_of(const struct tr_json_value *v, uint64_t *n)
{
    struct tr_json_value inside = *v;

    if (v->kind == TR_JSON_STRING_KIND) {
        inside = (struct tr_json_value){TR_JSON_NUMBER_KIND, v->text + 1, v->len - 2};
    }
    return inside.kind == TR_JSON_NUMBER_KIND && inside.len > 0 && tr_json_u64(&inside, n);
}

/* Milliseconds into an argument. NULL: fine. */
static const char *give_time(struct tr_hs *s, enum tr_arg arg, const struct tr_json_value *v)
{
    uint64_t ms;

    if (!number_of(v, &ms) || ms > TR_DELAY_MAX_US / 1000) {
        return "has to be a number of milliseconds, at most 137 years";
    }
    if (ms > 0 || arg == TR_ARG_DELAY) {
        give(s, arg, (struct tr_arg_value){.number = (int64_t)(ms * 1000)});
    }
    return NULL;
}

static const char *give_key(struct tr_hs *s, const struct tr_json_value *v, bool wins)
{
    struct tr_http_text text;

    if (v->kind != TR_JSON_STRING_KIND && v->kind != TR_JSON_NUMBER_KIND) {
        return "has to be text or a number";
    }
    text = text_of(v);
    if (text.len == 0 || (!wins && tr_hs_given(s, TR_ARG_KEY))) {
        return NULL;
    }
    if (!tr_label_ok(text.at, text.len, 255)) {
        return "is too long, not UTF-8 or has control characters";
    }
    give(s, TR_ARG_KEY, (struct tr_arg_value){.text = text});
    return NULL;
}

static const char *give_topic(struct tr_hs *s, const struct tr_json_value *v)
{
    struct tr_http_text text = text_of(v);

    if (v->kind != TR_JSON_STRING_KIND || !tr_name_ok(text.at, text.len)) {
        return "is no name of a topic";
    }
    give(s, TR_ARG_TOPIC, (struct tr_arg_value){.text = text});
    return NULL;
}

static const char *give_priority(struct tr_hs *s, const struct tr_json_value *v)
{
    uint64_t n;

    if (!number_of(v, &n) || n > UINT32_MAX) {
        return "has to be a whole number up to 4294967295";
    }
    give(s, TR_ARG_PRIORITY, (struct tr_arg_value){.number = (int64_t)n});
    return NULL;
}

enum member { BODY, TOPIC, BIZ_KEY, ID, DELAY, TTL, PRIORITY, MEMBERS };

static enum member member_of(const struct tr_json_value *name)
{
    static const char *const names[MEMBERS] = {"body",  "topic", "bizKey",  "id",
                                               "delay", "ttl",   "priority"};
    unsigned i = 0;

    while (i < MEMBERS && !tr_json_says(name, names[i])) {
        i++;
    }
    return (enum member)i;
}

/* One member; *seen: those before it. NULL: fine; else why not. */
static const char *take(struct tr_hs *s, enum member member, const struct tr_json_value *v,
                        unsigned *seen)
{
    if (member == MEMBERS) {
        return "is not known here";
    }
    if ((*seen >> member & 1) != 0) {
        return "is given twice";
    }
    *seen |= 1U << member;
    if (member != BODY && v->kind == TR_JSON_NULL_KIND) {
        return NULL;
    }
    switch (member) {
    case TOPIC:
        return give_topic(s, v);
    case BIZ_KEY:
    case ID:
        return give_key(s, v, member == BIZ_KEY);
    case DELAY:
        return give_time(s, TR_ARG_DELAY, v);
    case TTL:
        return give_time(s, TR_ARG_TTL, v);
    case PRIORITY:
        return give_priority(s, v);
    default:
        give(s, TR_ARG_BODY, (struct tr_arg_value){.text = text_of(v)});
        return NULL;
    }
}

static void refuse(struct tr_hs *s, struct tr_http_text field, const char *why)
{
    size_t len = field.len < sizeof s->args.field - 1 ? field.len : sizeof s->args.field - 1;

    memcpy(s->args.field, field.at, len);
    s->args.field[len] = '\0';
    tr_text(s->args.message, sizeof s->args.message, "%s %s", s->args.field, why);
    tr_hs_refuse(s, &(struct tr_http_error){.status = 400,
                                            .code = "bad_request",
                                            .message = s->args.message,
                                            .field = s->args.field});
}

static void pushed(struct tr_hs *s)
{
    struct tr_http_reply r;
    char id[24];

    if (s->req.out.status != TARRY_OK) {
        struct tr_http_error e = tr_hs_push_error(s);

        tr_hs_refuse(s, &e);
        return;
    }
    tr_text(id, sizeof id, "%llu", (unsigned long long)s->req.out.job.id);
    tr_hs_open_bytes(s, &r);
    tr_http_reply_body(&r, "text/plain");
    tr_output_add(&s->out, id, strlen(id));
    tr_http_reply_close(&r);
    s->answered = true;
}

void tr_hs_classic_push(struct tr_hs *s)
{
    const struct tr_json_in *in = &s->many.in;
    const char *text = (const char *)s->parse.request.body + in->item_from;
    struct tr_json_value object = tr_json_value_of(text, in->item_to - in->item_from);
    struct tr_json_walk walk;
    struct tr_json_value name;
    struct tr_json_value v;
    struct tr_http_text body = {"", 0};
    struct tr_http_text topic;
    unsigned seen = 0;

    if (object.kind != TR_JSON_OBJECT_KIND) {
        refuse(s, (struct tr_http_text){"body", 4}, "is no JSON object");
        return;
    }
    tr_json_walk_init(&walk, &object);
    while (tr_json_walk_member(&walk, &name, &v)) {
        const char *why = take(s, member_of(&name), &v, &seen);

        if (why != NULL) {
            refuse(s, text_of(&name), why);
            return;
        }
    }
    if (!tr_hs_given(s, TR_ARG_TOPIC)) {
        refuse(s, (struct tr_http_text){"topic", 5}, "is missing");
        return;
    }
    if (tr_hs_given(s, TR_ARG_BODY)) {
        body = s->args.values[TR_ARG_BODY].text;
    }
    topic = s->args.values[TR_ARG_TOPIC].text;
    if (!tr_hs_may(s, topic.at, topic.len)) {
        struct tr_http_error e = tr_hs_foreign_topic();

        tr_hs_refuse(s, &e);
    } else if (tr_hs_body_fits(s)) {
        tr_hs_push_job(s, topic, body, pushed);
    }
}

/* ---- delete ---- */

/* The id is an argument here: then as ever. */
void tr_hs_classic_delete(struct tr_hs *s)
{
    s->match.id = tr_hs_number(s, TR_ARG_ID, 0);
    tr_hs_cancel(s);
}

/* ---- get ---- */

static void finished(struct tr_hs *s)
{
    const uint8_t *bytes;
    struct tr_http_reply r;
    size_t len;

    if (s->req.out.status == TARRY_ENOTFOUND || s->req.out.status == TARRY_ESTATE) {
        tr_hs_reserve_none(s); /* it was cancelled meanwhile */
        return;
    }
    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
        s->next = tr_hs_let_go;
        return;
    }
    len = tr_output_ready(s->text, 0, &bytes);
    tr_hs_open_bytes(s, &r);
    tr_http_reply_body(&r, "application/json");
    tr_output_add(&s->out, bytes, len);
    tr_http_reply_close(&r);
    s->out.broken |= s->text->broken;
    s->answered = true;
    tr_hs_handouts_told(s, tr_output_end(&s->out));
    s->next = tr_hs_let_go;
}

static void finish(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_DELETE, finished);
}

static void given_back(struct tr_hs *s)
{
    s->handout_count--;
    s->req.out.status = TARRY_ENOMEM;
    tr_hs_fail(s);
    s->next = tr_hs_let_go;
}

/* There is no memory to tell it: as if it had never been handed out. */
static void give_back(struct tr_hs *s)
{
    tr_hs_ask(s, TR_OP_RETURN, given_back);
}

static void reserved(struct tr_hs *s)
{
    const struct tr_job_view *job = &s->req.out.job;

    if (s->req.out.status != TARRY_OK) {
        s->next = tr_hs_reserve_none;
        return;
    }
    tr_hs_note_handout(s, job);
    tr_output_cut(s->text, tr_output_len(s->text)); /* the bracket of an array */
    tr_json_init(&s->json, s->text);
    tr_json_open(&s->json, '{');
    tr_shape_job(&s->json, job, (struct tr_shape){.body = true});
    if (job->key != NULL) {
        tr_json_name(&s->json, "bizKey");
        tr_json_string(&s->json, job->key, job->key_len);
    }
    tr_json_close(&s->json, '}');
    s->req.id = job->id;
    s->req.lease = job->lease;
    s->next = s->text->broken ? give_back : finish;
}

static void reserve(struct tr_hs *s)
{
    if (!tr_hs_begin_text(s)) {
        s->next = tr_hs_let_go;
        return;
    }
    if (!tr_hs_handout_room(s)) {
        s->req.out.status = TARRY_ENOMEM;
        tr_hs_fail(s);
        s->next = tr_hs_let_go;
        return;
    }
    s->req.topics = &s->topic;
    s->req.topic_count = 1;
    s->req.order = TR_ORDER_DUE;
    s->req.wait_us = s->half_closed ? 0 : WAIT_US;
    tr_hs_ask(s, TR_OP_RESERVE, reserved);
}

static void held(struct tr_hs *s)
{
    if (s->req.out.status != TARRY_OK) {
        tr_hs_fail(s);
        return;
    }
    s->holding = true;
    s->topic = s->req.out.topic;
    s->next = reserve;
}

void tr_hs_classic_get(struct tr_hs *s)
{
    tr_hs_hold_topic(s, s->match.topic, held);
}
