#ifndef TR_RULES_DELIVER_H
#define TR_RULES_DELIVER_H

/*
 * Where the due jobs of a topic are sent: the field `deliver` of its policy. See deliver.c.
 *
 * All texts are borrowed: of whoever set them, or of the bytes that were decoded. They have no end,
 * only a length. Secrets are in there, in the clear: nothing of this may be shown or logged but by
 * tr_deliver_show_url.
 */

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kept in stores: numbers never change. */
enum tr_deliver_type {
    TR_DELIVER_NONE,
    TR_DELIVER_WEBHOOK = 1,
    TR_DELIVER_AMQP = 2,
    TR_DELIVER_KAFKA = 3,
    TR_DELIVER_REDIS = 4,
    TR_DELIVER_TYPES
};

/* What a text may be. The numbers are kept in stores and never change. */
enum tr_deliver_field {
    TR_DELIVER_URL = 1,         /* webhook, amqp, redis */
    TR_DELIVER_SUCCESS = 2,     /* webhook: what the answer has to be; none: any 2xx will do */
    TR_DELIVER_EXCHANGE = 3,    /* amqp; empty: the default exchange */
    TR_DELIVER_ROUTING_KEY = 4, /* amqp; none: the name of the topic */
    TR_DELIVER_BROKERS = 5,     /* kafka: host:port, with commas between them */
    TR_DELIVER_TOPIC = 6,       /* kafka: its topic; none: the name of ours */
    TR_DELIVER_LIST = 7,        /* redis: LPUSH onto this, */
    TR_DELIVER_STREAM = 8,      /* or XADD to this; one of the two */
    TR_DELIVER_FIELDS
};

/* kafka: what its messages have as their key. */
enum tr_deliver_key {
    TR_DELIVER_BY_KEY, /* the key of the job; if it has none, its id */
    TR_DELIVER_BY_ID,
};

enum {
    TR_DELIVER_URL_MAX = 2048,
    TR_DELIVER_TEXT_MAX = 512, /* of other texts */
    TR_DELIVER_SECRETS_MAX = 4,
    TR_DELIVER_SECRET_MAX = 256,
    TR_DELIVER_HEADERS_MAX = 16,
    TR_DELIVER_CONCURRENCY = 16,
    TR_DELIVER_CONCURRENCY_MAX = 1024,
    TR_DELIVER_BYTES_MAX = 6144, /* of all of it; the same as TR_POLICY_DELIVER_MAX */
};

#define TR_DELIVER_TIMEOUT_US UINT64_C(10000000)
#define TR_DELIVER_TIMEOUT_MIN_US UINT64_C(1000)
#define TR_DELIVER_TIMEOUT_MAX_US UINT64_C(3600000000)

struct tr_deliver_text {
    const char *at; /* without an end */
    size_t len;
};

struct tr_deliver_header {
    struct tr_deliver_text name;
    struct tr_deliver_text value;
};

struct tr_deliver {
    enum tr_deliver_type type;
    unsigned given;                                  /* bits 1 << enum tr_deliver_field */
    struct tr_deliver_text texts[TR_DELIVER_FIELDS]; /* by enum tr_deliver_field; len 0: none */
    struct tr_deliver_text secrets[TR_DELIVER_SECRETS_MAX]; /* webhook; newest first */
    unsigned secret_count;
    struct tr_deliver_header headers[TR_DELIVER_HEADERS_MAX]; /* webhook */
    unsigned header_count;
    uint64_t timeout_us;     /* webhook: for one send, connecting included */
    unsigned concurrency;    /* webhook: so many sends at a time */
    enum tr_deliver_key key; /* kafka */
};

/* One of that type with all its defaults. */
struct tr_deliver tr_deliver_new(enum tr_deliver_type type);

/* "webhook", ... */
const char *tr_deliver_type_name(enum tr_deliver_type type);

/* "url", ...; FIELDS: there is no such text. And has a type this one? */
enum tr_deliver_field tr_deliver_field_of(const char *name, size_t len);
const char *tr_deliver_field_name(enum tr_deliver_field field);
bool tr_deliver_has(enum tr_deliver_type type, enum tr_deliver_field field);

/*
 * Is it whole, and is each field what it may be? TARRY_EINVAL: *field is the one that is not, and
 * *why the end of a sentence that begins with its name; it never repeats what was given.
 */
TR_MUST_USE int tr_deliver_check(const struct tr_deliver *d, const char **field, const char **why);

/*
 * As bytes, for the policy; out has room for TR_DELIVER_BYTES_MAX. Gives the length; 0: that is not
 * enough. Read back, texts point into the bytes. TARRY_EDAMAGED: that is none; TARRY_EVERSION: it
 * has something that this version does not know.
 */
size_t tr_deliver_encode(uint8_t *out, const struct tr_deliver *d);
TR_MUST_USE int tr_deliver_decode(const void *bytes, size_t len, struct tr_deliver *d);

/* The URL without what may be secret: user:***@, and the values of its query. out has room for
 * TR_DELIVER_SHOWN; it ends with a NUL. */
enum { TR_DELIVER_SHOWN = 4 * TR_DELIVER_URL_MAX };
void tr_deliver_show_url(char out[TR_DELIVER_SHOWN], struct tr_deliver_text url);

#endif
