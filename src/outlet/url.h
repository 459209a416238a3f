#ifndef TR_OUTLET_URL_H
#define TR_OUTLET_URL_H

/*
 * URLs of brokers: scheme://[[user][:password]@]host[:port][/path]. See url.c.
 *
 * There are secrets in there: only host and port may be shown.
 */

#include "base/check.h"
#include "rules/deliver.h"

#include <stdbool.h>
#include <stddef.h>

enum { TR_URL_TEXT = 512 }; /* of one part, its NUL included */

/* The parts, decoded (%41 is A), with a NUL each; without a NUL inside. */
struct tr_url {
    char scheme[TR_URL_TEXT];
    char user[TR_URL_TEXT];
    char password[TR_URL_TEXT];
    char host[TR_URL_TEXT]; /* an IPv6 address without its brackets */
    char port[TR_URL_TEXT]; /* digits; empty: none was given */
    char path[TR_URL_TEXT]; /* without its first slash */
    bool has_user;
    bool has_password;
    bool has_path; /* there was a slash */
};

/* TARRY_EINVAL: that is none, or it has a query or a fragment, or a part is too long. */
TR_MUST_USE int tr_url_read(const char *text, size_t len, struct tr_url *url);

/* The same for an outlet that has one: amqp or redis. NULL, or what is wrong with it, as the end of
 * a sentence that begins with the name of the field. */
const char *tr_url_of(const struct tr_deliver *d, struct tr_url *url);

#endif
