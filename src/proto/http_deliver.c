/*
 * Where the jobs of a topic are sent, as HTTP writes it: the member `deliver` of a policy.
 *
 *     "pull", or {"type":"webhook","url":…,"secret":…}
 *
 * It is one field: whoever changes a part of it gives all of it, secrets included, since these are
 * never told. What is told says how many secrets there are, and hides what may be one in a URL or a
 * header.
 *
 * Strings are decoded into s->text, which lasts as long as the request; behind them stand the bytes
 * that go into the policy.
 */

#include "base/err.h"
#include "base/text.h"
#include "proto/http_inner.h"
#include "proto/json_read.h"
#include "rules/deliver.h"
#include "rules/duration.h"

#include <string.h>

enum { JSON_MAX = 16384 }; /* what is longer has no room in a policy, even unescaped */

/* What is being read. */
struct reading {
    struct tr_deliver is;
    uint8_t *at;       /* where the next string goes */
    const char *field; /* what is wrong, if something is */
    const char *why;   /* the end of a sentence */
    bool secret;       /* given, */
    bool timeout;
    bool concurrency;
    bool headers;
    bool key;
    bool typed;
};

static bool fail(struct reading *r, const char *field, const char *why)
{
    r->field = field;
    r->why = why;
    return false;
}

/* What a string says, as a text of ours. */
static struct tr_deliver_text text_of(struct reading *r, const struct tr_json_value *v)
{
    struct tr_deliver_text t = {(const char *)r->at, tr_json_unescape(v, (char *)r->at)};

    r->at += t.len;
    return t;
}

static bool is_string(const struct tr_json_value *v)
{
    return v->kind == TR_JSON_STRING_KIND;
}

/* ---- members ---- */

static bool read_secret(struct reading *r, const struct tr_json_value *v)
{
    if (!is_string(v)) {
        return fail(r, "secret", "has to be a string (several: secrets, an array, newest first)");
    }
    if (r->is.secret_count == TR_DELIVER_SECRETS_MAX) {
        return fail(r, "secrets", "may be four at most");
    }
    r->is.secrets[r->is.secret_count++] = text_of(r, v);
    return true;
}

static bool read_secrets(struct reading *r, const struct tr_json_value *v)
{
    struct tr_json_walk walk;
    struct tr_json_value item;

    if (v->kind != TR_JSON_ARRAY_KIND) {
        return fail(r, "secrets", "has to be an array of strings, newest first");
    }
    tr_json_walk_init(&walk, v);
    while (tr_json_walk_element(&walk, &item)) {
        if (!read_secret(r, &item)) {
            return false;
        }
    }
    return true;
}

static bool read_headers(struct reading *r, const struct tr_json_value *v)
{
    struct tr_json_walk walk;
    struct tr_json_value name;
    struct tr_json_value value;

    if (v->kind != TR_JSON_OBJECT_KIND) {
        return fail(r, "headers", "has to be an object of names and strings");
    }
    tr_json_walk_init(&walk, v);
    while (tr_json_walk_member(&walk, &name, &value)) {
        struct tr_deliver_header *h = &r->is.headers[r->is.header_count];

        if (!is_string(&value)) {
            return fail(r, "headers", "has to be an object of names and strings");
        }
        if (r->is.header_count == TR_DELIVER_HEADERS_MAX) {
            return fail(r, "headers", "may be sixteen at most");
        }
        h->name = text_of(r, &name);
        h->value = text_of(r, &value);
        r->is.header_count++;
    }
    return true;
}

static bool read_timeout(struct reading *r, const struct tr_json_value *v)
{
    struct tr_deliver_text t = {v->text, v->len};
    const char *why = "has to be a duration such as 10s";

    if (is_string(v)) {
        t = text_of(r, v);
    } else if (v->kind != TR_JSON_NUMBER_KIND) {
        return fail(r, "timeout", why);
    }
    return tr_duration_read(t.at, t.len, &r->is.timeout_us, &why) == TARRY_OK ||
           fail(r, "timeout", why);
}

static bool read_concurrency(struct reading *r, const struct tr_json_value *v)
{
    uint64_t n = 0;

    if (v->kind != TR_JSON_NUMBER_KIND || !tr_json_u64(v, &n) || n > TR_DELIVER_CONCURRENCY_MAX) {
        return fail(r, "concurrency", "has to be a number from 1 to 1024");
    }
    r->is.concurrency = (unsigned)n;
    return true;
}

static bool read_key(struct reading *r, const struct tr_json_value *v)
{
    bool id = is_string(v) && tr_json_says(v, "id");

    r->is.key = id ? TR_DELIVER_BY_ID : TR_DELIVER_BY_KEY;
    return id || (is_string(v) && tr_json_says(v, "key")) ||
           fail(r, "key", "has to be \"key\" or \"id\"");
}

static const char webhook_members[] = "of type webhook takes url, secret or secrets, success, "
                                      "timeout, concurrency and headers, nothing else";

static const char *const members[TR_DELIVER_TYPES] = {
    [TR_DELIVER_WEBHOOK] = webhook_members,
    [TR_DELIVER_AMQP] = "of type amqp takes url, exchange and routing_key, nothing else",
    [TR_DELIVER_KAFKA] = "of type kafka takes brokers, topic and key, nothing else",
    [TR_DELIVER_REDIS] = "of type redis takes url, and list or stream, nothing else",
};

static bool read_text(struct reading *r, const struct tr_json_value *name,
                      const struct tr_json_value *v)
{
    struct tr_deliver_text called = {(const char *)r->at, tr_json_unescape(name, (char *)r->at)};
    enum tr_deliver_field field = tr_deliver_field_of(called.at, called.len);

    if (field == TR_DELIVER_FIELDS || !tr_deliver_has(r->is.type, field)) {
        return fail(r, NULL, members[r->is.type]);
    }
    if ((r->is.given >> field & 1) != 0) {
        return fail(r, tr_deliver_field_name(field), "is given twice");
    }
    if (!is_string(v)) {
        return fail(r, tr_deliver_field_name(field), "has to be a string");
    }
    if (field == TR_DELIVER_SUCCESS && tr_json_says(v, "2xx")) {
        return true;
    }
    r->is.texts[field] = text_of(r, v);
    r->is.given |= 1U << field;
    return true;
}

static bool once(struct reading *r, bool *given, const char *field)
{
    bool first = !*given;

    *given = true;
    return first || fail(r, field, "is given twice");
}

static bool read_member(struct reading *r, const struct tr_json_value *name,
                        const struct tr_json_value *v)
{
    bool webhook = r->is.type == TR_DELIVER_WEBHOOK;

    if (v->kind == TR_JSON_NULL_KIND) {
        return true; /* as if it were not there */
    }
    if (tr_json_says(name, "type")) {
        return once(r, &r->typed, "type");
    }
    if (webhook && tr_json_says(name, "secret")) {
        return once(r, &r->secret, "secret") && read_secret(r, v);
    }
    if (webhook && tr_json_says(name, "secrets")) {
        return once(r, &r->secret, "secret") && read_secrets(r, v);
    }
    if (webhook && tr_json_says(name, "headers")) {
        return once(r, &r->headers, "headers") && read_headers(r, v);
    }
    if (webhook && tr_json_says(name, "timeout")) {
        return once(r, &r->timeout, "timeout") && read_timeout(r, v);
    }
    if (webhook && tr_json_says(name, "concurrency")) {
        return once(r, &r->concurrency, "concurrency") && read_concurrency(r, v);
    }
    if (r->is.type == TR_DELIVER_KAFKA && tr_json_says(name, "key")) {
        return once(r, &r->key, "key") && read_key(r, v);
    }
    return read_text(r, name, v);
}

/* Which type it is: the others depend on it, wherever it stands. */
static enum tr_deliver_type type_of(const struct tr_json_value *v)
{
    struct tr_json_walk walk;
    struct tr_json_value name;
    struct tr_json_value value;

    tr_json_walk_init(&walk, v);
    while (tr_json_walk_member(&walk, &name, &value)) {
        for (unsigned i = TR_DELIVER_WEBHOOK; tr_json_says(&name, "type") && i < TR_DELIVER_TYPES;
             i++) {
            if (is_string(&value) &&
                tr_json_says(&value, tr_deliver_type_name((enum tr_deliver_type)i))) {
                return (enum tr_deliver_type)i;
            }
        }
    }
    return TR_DELIVER_NONE;
}

static bool read_object(struct reading *r, const struct tr_json_value *v)
{
    struct tr_json_walk walk;
    struct tr_json_value name;
    struct tr_json_value value;

    r->is = tr_deliver_new(type_of(v));
    if (r->is.type == TR_DELIVER_NONE) {
        return fail(r, "type", "has to be \"webhook\", \"amqp\", \"kafka\" or \"redis\"");
    }
    tr_json_walk_init(&walk, v);
    while (tr_json_walk_member(&walk, &name, &value)) {
        if (!read_member(r, &name, &value)) {
            return false;
        }
    }
    return tr_deliver_check(&r->is, &r->field, &r->why) == TARRY_OK;
}

/* ---- the whole of it ---- */

static bool refuse(struct tr_hs *s, const struct reading *r)
{
    char why[200];

    if (r->field != NULL) {
        tr_text(s->args.message, sizeof s->args.message, "deliver.%s %s", r->field, r->why);
        tr_hs_refuse(s, &(struct tr_http_error){.status = 400,
                                                .code = "bad_request",
                                                .message = s->args.message,
                                                .field = "deliver"});
    } else {
        tr_text(why, sizeof why, "%s", r->why);
        tr_hs_bad(s, TR_ARG_DELIVER, why);
    }
    return false;
}

/* Would the server do it? */
static bool admit(struct tr_hs *s, struct reading *r)
{
    const char *why = "this server delivers to nobody";
    int err =
        s->port->admit != NULL ? s->port->admit(s->port->ctx, &r->is, &why) : TARRY_EUNSUPPORTED;

    if (err == TARRY_OK) {
        return true;
    }
    if (err == TARRY_EUNSUPPORTED) {
        tr_hs_refuse(s,
                     &(struct tr_http_error){
                         .status = 501, .code = "unsupported", .message = why, .field = "deliver"});
        return false;
    }
    (void)fail(r, r->is.type == TR_DELIVER_KAFKA ? "brokers" : "url", why);
    return refuse(s, r);
}

bool tr_hs_read_deliver(struct tr_hs *s)
{
    struct tr_http_text text = s->args.values[TR_ARG_DELIVER].text;
    struct tr_json_value v = tr_json_value_of(text.at, text.len);
    struct reading r = {.why = "has to be \"pull\" or an object with a type"};
    uint8_t *bytes;

    if (is_string(&v) && tr_json_says(&v, "pull")) {
        s->policy.given &= ~TR_POLICY_BIT(DELIVER);
        return true;
    }
    if (v.kind != TR_JSON_OBJECT_KIND) {
        return refuse(s, &r);
    }
    if (text.len > JSON_MAX) {
        r.why = "is too long";
        return refuse(s, &r);
    }
    if (!tr_hs_begin_bytes(s)) {
        return false;
    }
    r.at = tr_output_place(s->text, text.len + TR_DELIVER_BYTES_MAX);
    if (r.at == NULL) {
        s->req.out.status = TARRY_ENOMEM;
        tr_hs_fail(s);
        return false;
    }
    bytes = r.at + text.len;
    if (!read_object(&r, &v)) {
        return refuse(s, &r);
    }
    s->policy.deliver_len = tr_deliver_encode(bytes, &r.is);
    s->policy.deliver = (const char *)bytes;
    if (s->policy.deliver_len == 0) {
        r.field = NULL;
        r.why = "is too long: all of it may have 6144 bytes";
        return refuse(s, &r);
    }
    return admit(s, &r);
}

/* ---- telling ---- */

static void tell_number(struct tr_json *j, const char *name, uint64_t n)
{
    tr_json_name(j, name);
    tr_json_number(j, n);
}

static void tell_webhook(struct tr_json *j, const struct tr_deliver *d)
{
    if ((d->given >> TR_DELIVER_SUCCESS & 1) == 0) {
        tr_json_name(j, "success");
        tr_json_text(j, "2xx");
    }
    tell_number(j, "timeout_ms", d->timeout_us / 1000);
    tell_number(j, "concurrency", d->concurrency);
    if (d->header_count > 0) {
        tr_json_name(j, "headers");
        tr_json_open(j, '{');
        for (unsigned i = 0; i < d->header_count; i++) {
            tr_json_name_of(j, d->headers[i].name.at, d->headers[i].name.len); /* a token */
            tr_json_text(j, "***");
        }
        tr_json_close(j, '}');
    }
    if (d->secret_count > 0) {
        tell_number(j, "secret_count", d->secret_count);
    }
}

void tr_hs_tell_deliver(struct tr_json *j, const struct tr_policy *p)
{
    char url[TR_DELIVER_SHOWN];
    struct tr_deliver d;

    if (p->deliver_len == 0) {
        return;
    }
    tr_json_name(j, "deliver");
    tr_json_open(j, '{');
    if (tr_deliver_decode(p->deliver, p->deliver_len, &d) == TARRY_OK) {
        tr_json_name(j, "type");
        tr_json_text(j, tr_deliver_type_name(d.type));
        for (unsigned i = TR_DELIVER_URL; i < TR_DELIVER_FIELDS; i++) {
            if ((d.given >> i & 1) != 0) {
                tr_json_name(j, tr_deliver_field_name((enum tr_deliver_field)i));
                if (i == TR_DELIVER_URL) {
                    tr_deliver_show_url(url, d.texts[i]);
                    tr_json_text(j, url);
                } else {
                    tr_json_string(j, d.texts[i].at, d.texts[i].len);
                }
            }
        }
        if (d.type == TR_DELIVER_WEBHOOK) {
            tell_webhook(j, &d);
        } else if (d.type == TR_DELIVER_KAFKA) {
            tr_json_name(j, "key");
            tr_json_text(j, d.key == TR_DELIVER_BY_ID ? "id" : "key");
        }
    }
    tr_json_close(j, '}');
}

void tr_hs_tell_outlet(struct tr_json *j, const struct tr_outlet_view *v)
{
    tr_json_name(j, "outlet");
    tr_json_open(j, '{');
    if (v->type != NULL) {
        tr_json_name(j, "type");
        tr_json_text(j, v->type);
        tr_json_name(j, "breaker");
        tr_json_text(j, v->breaker);
        if (v->breaker_is == 2) {
            tell_number(j, "open_left_ms", v->open_left_us / 1000);
        }
        tell_number(j, "in_flight", v->in_flight);
    }
    tell_number(j, "delivered", v->delivered);
    tell_number(j, "failed", v->failed);
    tell_number(j, "refused", v->refused);
    if (v->why != NULL) {
        tr_json_name(j, "last_error");
        tr_json_text(j, v->why);
        tell_number(j, "last_error_ms", v->why_us / 1000);
    }
    tr_json_close(j, '}');
}
