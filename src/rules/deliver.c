/*
 * Where jobs are sent.
 *
 * As bytes, all numbers varints:
 *
 *     version (1), type, then fields, each: its number, its length, so many bytes
 *      1 url        3 exchange      5 brokers   7 list     16 secret            18 timeout, us
 *      2 success    4 routing_key   6 topic     8 stream   17 header, "A: b"    19 concurrency
 *                                                                               20 key (kafka)
 *
 * Secrets and headers may come several times, in their order; others once. Those of 18 on are a
 * varint. What is not given has no bytes, so it follows the defaults of the version that reads it.
 * A number that is not known is of a newer version.
 *
 * Checks. What is kept was checked, but a store may be older than a rule: whoever decodes has to
 * check again before it is used.
 *
 * A header may not be one that we write, or that says where a message ends: with those somebody
 * could forge a signature's surroundings or smuggle a second request.
 */

#include "rules/deliver.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/utf8.h"
#include "rules/policy.h"

#include <assert.h>
#include <string.h>

static_assert((int)TR_DELIVER_BYTES_MAX == (int)TR_POLICY_DELIVER_MAX, "a policy has room for it");

enum {
    VERSION = 1,
    FIELD_SECRET = 16,
    FIELD_HEADER = 17,
    FIELD_TIMEOUT = 18,
    FIELD_CONCURRENCY = 19,
    FIELD_KEY = 20,
    HEADER_NAME_MAX = 64,
    HEADER_VALUE_MAX = 1024,
};

static const char *const types[TR_DELIVER_TYPES] = {
    [TR_DELIVER_WEBHOOK] = "webhook",
    [TR_DELIVER_AMQP] = "amqp",
    [TR_DELIVER_KAFKA] = "kafka",
    [TR_DELIVER_REDIS] = "redis",
};

static const char *const names[TR_DELIVER_FIELDS] = {
    [TR_DELIVER_URL] = "url",           [TR_DELIVER_SUCCESS] = "success",
    [TR_DELIVER_EXCHANGE] = "exchange", [TR_DELIVER_ROUTING_KEY] = "routing_key",
    [TR_DELIVER_BROKERS] = "brokers",   [TR_DELIVER_TOPIC] = "topic",
    [TR_DELIVER_LIST] = "list",         [TR_DELIVER_STREAM] = "stream",
};

/* Which texts a type has: bits 1 << enum tr_deliver_field. */
static const unsigned texts_of[TR_DELIVER_TYPES] = {
    [TR_DELIVER_WEBHOOK] = 1U << TR_DELIVER_URL | 1U << TR_DELIVER_SUCCESS,
    [TR_DELIVER_AMQP] =
        1U << TR_DELIVER_URL | 1U << TR_DELIVER_EXCHANGE | 1U << TR_DELIVER_ROUTING_KEY,
    [TR_DELIVER_KAFKA] = 1U << TR_DELIVER_BROKERS | 1U << TR_DELIVER_TOPIC,
    [TR_DELIVER_REDIS] = 1U << TR_DELIVER_URL | 1U << TR_DELIVER_LIST | 1U << TR_DELIVER_STREAM,
};

struct tr_deliver tr_deliver_new(enum tr_deliver_type type)
{
    return (struct tr_deliver){
        .type = type, .timeout_us = TR_DELIVER_TIMEOUT_US, .concurrency = TR_DELIVER_CONCURRENCY};
}

const char *tr_deliver_type_name(enum tr_deliver_type type)
{
    return types[type];
}

enum tr_deliver_field tr_deliver_field_of(const char *name, size_t len)
{
    for (unsigned i = TR_DELIVER_URL; i < TR_DELIVER_FIELDS; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) {
            return (enum tr_deliver_field)i;
        }
    }
    return TR_DELIVER_FIELDS;
}

const char *tr_deliver_field_name(enum tr_deliver_field field)
{
    return names[field];
}

bool tr_deliver_has(enum tr_deliver_type type, enum tr_deliver_field field)
{
    return (texts_of[type] >> field & 1) != 0;
}

/* ---- checks ---- */

/* Visible ASCII, without spaces. */
static bool is_plain(struct tr_deliver_text t)
{
    for (size_t i = 0; i < t.len; i++) {
        if (t.at[i] <= ' ' || t.at[i] > '~') {
            return false;
        }
    }
    return true;
}

/* UTF-8 without control characters. */
static bool is_line(struct tr_deliver_text t)
{
    for (size_t i = 0; i < t.len; i++) {
        uint8_t c = (uint8_t)t.at[i];

        if (c < ' ' || c == 0x7f) {
            return false;
        }
    }
    return tr_utf8_ok((const uint8_t *)t.at, t.len);
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

/* Does t begin with this, whatever the case? word is in lower case. */
static bool begins(struct tr_deliver_text t, const char *word)
{
    size_t len = strlen(word);

    if (t.len < len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (lower(t.at[i]) != word[i]) {
            return false;
        }
    }
    return true;
}

static const char *url_fault(const struct tr_deliver *d)
{
    static const char *const schemes[TR_DELIVER_TYPES][2] = {
        [TR_DELIVER_WEBHOOK] = {"http://", "https://"},
        [TR_DELIVER_AMQP] = {"amqp://", "amqps://"},
        [TR_DELIVER_REDIS] = {"redis://", "rediss://"},
    };
    static const char *const faults[TR_DELIVER_TYPES] = {
        [TR_DELIVER_WEBHOOK] = "has to begin with http:// or https:// and a host",
        [TR_DELIVER_AMQP] = "has to begin with amqp:// or amqps:// and a host",
        [TR_DELIVER_REDIS] = "has to begin with redis:// or rediss:// and a host",
    };
    struct tr_deliver_text url = d->texts[TR_DELIVER_URL];
    size_t skip = 0;

    for (unsigned i = 0; i < 2; i++) {
        skip = begins(url, schemes[d->type][i]) ? strlen(schemes[d->type][i]) : skip;
    }
    if (skip == 0 || url.len == skip || strchr("/?#:@", url.at[skip]) != NULL) {
        /* redis://:password@host has no user */
        if (skip == 0 || url.len == skip || url.at[skip] != ':' ||
            memchr(url.at + skip, '@', url.len - skip) == NULL) {
            return faults[d->type];
        }
    }
    if (url.len > TR_DELIVER_URL_MAX) {
        return "is longer than 2048 bytes";
    }
    return is_plain(url) ? NULL : "may only have visible ASCII characters: encode others as %XX";
}

/* What is wrong with a text of this type; NULL: nothing. */
static const char *text_fault(const struct tr_deliver *d, enum tr_deliver_field field)
{
    struct tr_deliver_text t = d->texts[field];

    if (t.len > (field == TR_DELIVER_URL ? TR_DELIVER_URL_MAX : TR_DELIVER_TEXT_MAX)) {
        return field == TR_DELIVER_URL ? "is longer than 2048 bytes" : "is longer than 512 bytes";
    }
    switch (field) {
    case TR_DELIVER_URL:
        return url_fault(d);
    case TR_DELIVER_SUCCESS: /* an answer may have any bytes */
        return t.len > 0 ? NULL : "has to be 2xx, or the text that the answer has to be";
    case TR_DELIVER_EXCHANGE: /* empty: the default one */
    case TR_DELIVER_ROUTING_KEY:
        return t.len <= 255 && is_line(t) ? NULL
                                          : "has to be at most 255 bytes of UTF-8 without control "
                                            "characters";
    case TR_DELIVER_BROKERS:
        return t.len > 0 && is_plain(t) ? NULL : "has to be host:port, with commas between several";
    case TR_DELIVER_TOPIC:
        for (size_t i = 0; i < t.len; i++) {
            if (lower(t.at[i]) < 'a' || lower(t.at[i]) > 'z') {
                if (t.at[i] == '\0' || strchr("0123456789._-", t.at[i]) == NULL) {
                    return "has to be the name of a Kafka topic: letters, digits, . _ and -";
                }
            }
        }
        return t.len > 0 && t.len <= 249 ? NULL : "has to be 1 to 249 bytes";
    default:
        return t.len > 0 ? NULL : "may not be empty";
    }
}

static bool is_token(struct tr_deliver_text t)
{
    for (size_t i = 0; i < t.len; i++) {
        char c = lower(t.at[i]);
        bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

        if (!word && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL)) {
            return false;
        }
    }
    return t.len > 0 && t.len <= HEADER_NAME_MAX;
}

static bool same_name(struct tr_deliver_text a, struct tr_deliver_text b)
{
    for (size_t i = 0; a.len == b.len && i < a.len; i++) {
        if (lower(a.at[i]) != lower(b.at[i])) {
            return false;
        }
    }
    return a.len == b.len;
}

static const char *header_fault(const struct tr_deliver *d, unsigned i)
{
    static const char *const ours[] = {
        "idempotency-key", "host",       "content-length", "transfer-encoding",
        "connection",      "keep-alive", "expect",         "te",
        "trailer",         "upgrade",    "proxy-",         "tarry-",
    };
    const struct tr_deliver_header *h = &d->headers[i];

    if (!is_token(h->name)) {
        return "has a name that no header can have";
    }
    for (size_t k = 0; k < sizeof ours / sizeof ours[0]; k++) {
        size_t len = strlen(ours[k]);

        if (begins(h->name, ours[k]) && (h->name.len == len || ours[k][len - 1] == '-')) {
            return "has one that only tarry itself, or the connection, sets";
        }
    }
    for (unsigned k = 0; k < i; k++) {
        if (same_name(d->headers[k].name, h->name)) {
            return "has a name twice";
        }
    }
    return h->value.len <= HEADER_VALUE_MAX && is_line(h->value)
               ? NULL
               : "has a value over 1024 bytes, or one that is not UTF-8 without control characters";
}

static const char *secret_fault(struct tr_deliver_text secret)
{
    return secret.len > 0 && secret.len <= TR_DELIVER_SECRET_MAX
               ? NULL
               : "has to be 1 to 256 bytes (several: secrets, an array, newest first)";
}

static const char *webhook_fault(const struct tr_deliver *d, const char **field)
{
    const char *why = NULL;

    *field = "secret";
    for (unsigned i = 0; i < d->secret_count && why == NULL; i++) {
        why = secret_fault(d->secrets[i]);
    }
    if (why != NULL) {
        return why;
    }
    *field = "headers";
    for (unsigned i = 0; i < d->header_count && why == NULL; i++) {
        why = header_fault(d, i);
    }
    if (why != NULL) {
        return why;
    }
    *field = "timeout";
    if (d->timeout_us < TR_DELIVER_TIMEOUT_MIN_US || d->timeout_us > TR_DELIVER_TIMEOUT_MAX_US) {
        return "has to be from 1ms to 1h";
    }
    *field = "concurrency";
    return d->concurrency >= 1 && d->concurrency <= TR_DELIVER_CONCURRENCY_MAX
               ? NULL
               : "has to be a number from 1 to 1024";
}

/* What a type cannot do without. */
static const char *needs_fault(const struct tr_deliver *d, const char **field)
{
    bool list = (d->given >> TR_DELIVER_LIST & 1) != 0;
    bool stream = (d->given >> TR_DELIVER_STREAM & 1) != 0;

    if (d->type == TR_DELIVER_REDIS && list == stream) {
        *field = "list";
        return "or stream has to be given, one of the two";
    }
    *field = d->type == TR_DELIVER_KAFKA ? "brokers" : "url";
    return (d->given >> (d->type == TR_DELIVER_KAFKA ? TR_DELIVER_BROKERS : TR_DELIVER_URL) & 1) !=
                   0
               ? NULL
               : "is missing";
}

int tr_deliver_check(const struct tr_deliver *d, const char **field, const char **why)
{
    *field = "type";
    *why = "has to be webhook, amqp, kafka or redis";
    if (d->type == TR_DELIVER_NONE || d->type >= TR_DELIVER_TYPES) {
        return TARRY_EINVAL;
    }
    *why = needs_fault(d, field);
    for (unsigned i = TR_DELIVER_URL; i < TR_DELIVER_FIELDS && *why == NULL; i++) {
        if ((d->given >> i & 1) != 0) {
            *field = names[i];
            *why = tr_deliver_has(d->type, (enum tr_deliver_field)i)
                       ? text_fault(d, (enum tr_deliver_field)i)
                       : "is not for this type";
        }
    }
    if (*why == NULL && d->type == TR_DELIVER_WEBHOOK) {
        *why = webhook_fault(d, field);
    }
    return *why == NULL ? TARRY_OK : TARRY_EINVAL;
}

/* ---- as bytes ---- */

struct writer {
    uint8_t *out;
    size_t len;
    bool full;
};

static void put_bytes(struct writer *w, const void *bytes, size_t len)
{
    if (w->full || len > TR_DELIVER_BYTES_MAX - w->len) {
        w->full = true;
    } else if (len > 0) {
        memcpy(w->out + w->len, bytes, len);
        w->len += len;
    }
}

static void put_number(struct writer *w, uint64_t n)
{
    uint8_t bytes[TR_VARINT_MAX];

    put_bytes(w, bytes, tr_put_varint(bytes, n));
}

static void put_text(struct writer *w, unsigned field, struct tr_deliver_text t)
{
    put_number(w, field);
    put_number(w, t.len);
    put_bytes(w, t.at, t.len);
}

static void put_header(struct writer *w, const struct tr_deliver_header *h)
{
    put_number(w, FIELD_HEADER);
    put_number(w, h->name.len + 1 + h->value.len);
    put_bytes(w, h->name.at, h->name.len);
    put_bytes(w, ":", 1);
    put_bytes(w, h->value.at, h->value.len);
}

static void put_value(struct writer *w, unsigned field, uint64_t n)
{
    uint8_t bytes[TR_VARINT_MAX];

    put_text(w, field, (struct tr_deliver_text){(const char *)bytes, tr_put_varint(bytes, n)});
}

size_t tr_deliver_encode(uint8_t *out, const struct tr_deliver *d)
{
    struct writer w = {.out = NULL};

    w.out = out;
    put_number(&w, VERSION);
    put_number(&w, d->type);
    for (unsigned i = TR_DELIVER_URL; i < TR_DELIVER_FIELDS; i++) {
        if ((d->given >> i & 1) != 0) {
            put_text(&w, i, d->texts[i]);
        }
    }
    for (unsigned i = 0; i < d->secret_count; i++) {
        put_text(&w, FIELD_SECRET, d->secrets[i]);
    }
    for (unsigned i = 0; i < d->header_count; i++) {
        put_header(&w, &d->headers[i]);
    }
    if (d->timeout_us != TR_DELIVER_TIMEOUT_US) {
        put_value(&w, FIELD_TIMEOUT, d->timeout_us);
    }
    if (d->concurrency != TR_DELIVER_CONCURRENCY) {
        put_value(&w, FIELD_CONCURRENCY, d->concurrency);
    }
    if (d->key != TR_DELIVER_BY_KEY) {
        put_value(&w, FIELD_KEY, d->key);
    }
    return w.full ? 0 : w.len;
}

static int take_number(struct tr_deliver_text t, uint64_t most, uint64_t *n)
{
    struct tr_reader r = tr_reader_of(t.at, t.len);

    *n = tr_read_varint(&r);
    return !r.bad && tr_reader_left(&r) == 0 && *n <= most ? TARRY_OK : TARRY_EDAMAGED;
}

static int take_header(struct tr_deliver *d, struct tr_deliver_text t)
{
    const char *colon = t.len > 0 ? memchr(t.at, ':', t.len) : NULL;
    struct tr_deliver_header *h = &d->headers[d->header_count];

    if (colon == NULL || d->header_count == TR_DELIVER_HEADERS_MAX) {
        return TARRY_EDAMAGED;
    }
    h->name = (struct tr_deliver_text){t.at, (size_t)(colon - t.at)};
    h->value = (struct tr_deliver_text){colon + 1, t.len - h->name.len - 1};
    d->header_count++;
    return TARRY_OK;
}

static int take_field(struct tr_deliver *d, uint64_t field, struct tr_deliver_text t)
{
    uint64_t n = 0;
    int err = TARRY_OK;

    if (field >= TR_DELIVER_URL && field < TR_DELIVER_FIELDS) {
        if ((d->given >> field & 1) != 0) {
            return TARRY_EDAMAGED;
        }
        d->given |= 1U << field;
        d->texts[field] = t;
        return TARRY_OK;
    }
    switch (field) {
    case FIELD_SECRET:
        if (d->secret_count == TR_DELIVER_SECRETS_MAX) {
            return TARRY_EDAMAGED;
        }
        d->secrets[d->secret_count++] = t;
        return TARRY_OK;
    case FIELD_HEADER:
        return take_header(d, t);
    case FIELD_TIMEOUT:
        err = take_number(t, TR_DELIVER_TIMEOUT_MAX_US, &n);
        d->timeout_us = n;
        return err;
    case FIELD_CONCURRENCY:
        err = take_number(t, TR_DELIVER_CONCURRENCY_MAX, &n);
        d->concurrency = (unsigned)n;
        return err;
    case FIELD_KEY:
        err = take_number(t, TR_DELIVER_BY_ID, &n);
        d->key = n == TR_DELIVER_BY_ID ? TR_DELIVER_BY_ID : TR_DELIVER_BY_KEY;
        return err;
    default:
        return TARRY_EVERSION;
    }
}

int tr_deliver_decode(const void *bytes, size_t len, struct tr_deliver *d)
{
    struct tr_reader r = tr_reader_of(bytes, len);
    uint64_t version = tr_read_varint(&r);
    uint64_t type = tr_read_varint(&r);
    int err = TARRY_OK;

    if (r.bad || version == 0 || type == TR_DELIVER_NONE) {
        return TARRY_EDAMAGED;
    }
    if (version != VERSION || type >= TR_DELIVER_TYPES) {
        return TARRY_EVERSION;
    }
    *d = tr_deliver_new((enum tr_deliver_type)type);
    while (err == TARRY_OK && tr_reader_left(&r) > 0) {
        uint64_t field = tr_read_varint(&r);
        uint64_t size = tr_read_varint(&r);
        const char *at = (const char *)tr_read_bytes(&r, size);

        err = r.bad ? TARRY_EDAMAGED
                    : take_field(d, field, (struct tr_deliver_text){at, (size_t)size});
    }
    return err;
}

/* ---- to be shown ---- */

struct shown {
    char *out;
    size_t len;
};

static void show(struct shown *s, const char *text, size_t len)
{
    size_t room = TR_DELIVER_SHOWN - 1 - s->len;

    len = len < room ? len : room;
    if (len > 0) {
        memcpy(s->out + s->len, text, len);
        s->len += len;
    }
}

/* user:***@ of what stands before the host; what has no colon may be a token, and is hidden. */
static void show_user(struct shown *s, const char *user, size_t len)
{
    const char *colon = memchr(user, ':', len);

    if (colon != NULL) {
        show(s, user, (size_t)(colon - user) + 1);
    }
    show(s, "***@", 4);
}

/* The names of the query, but not what they are set to; what has no name, and a fragment, may be a
 * token. */
static void show_query(struct shown *s, const char *query, size_t len)
{
    size_t i = 0;

    while (i < len) { /* at ?, & or # */
        bool last = query[i] == '#';
        size_t end = i + 1;
        const char *equal;

        while (end < len && (last || (query[end] != '&' && query[end] != '#'))) {
            end++;
        }
        equal = last ? NULL : memchr(query + i, '=', end - i);
        show(s, query + i, equal != NULL ? (size_t)(equal - query) - i + 1 : 1);
        show(s, "***", end > i + 1 ? 3 : 0);
        i = end;
    }
}

void tr_deliver_show_url(char out[TR_DELIVER_SHOWN], struct tr_deliver_text url)
{
    struct shown s = {.out = out};
    size_t host = 0;
    size_t path;
    size_t at = 0;

    while (host + 2 < url.len && memcmp(url.at + host, "://", 3) != 0) {
        host++;
    }
    host = host + 2 < url.len ? host + 3 : 0;
    path = host;
    while (path < url.len && strchr("/?#", url.at[path]) == NULL) {
        at = url.at[path] == '@' ? path + 1 : at; /* the last one ends the password */
        path++;
    }
    show(&s, url.at, host);
    if (at > 0) {
        show_user(&s, url.at + host, at - 1 - host);
    } else {
        at = host;
    }
    show(&s, url.at + at, path - at);
    while (path < url.len && url.at[path] != '?' && url.at[path] != '#') {
        show(&s, url.at + path, 1);
        path++;
    }
    show_query(&s, url.at + path, url.len - path);
    out[s.len] = '\0';
}
