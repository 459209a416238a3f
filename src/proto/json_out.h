#ifndef TR_PROTO_JSON_OUT_H
#define TR_PROTO_JSON_OUT_H

/*
 * JSON, written straight into what a connection has to send. See json_out.c.
 *
 *     tr_json_open(&j, '{');
 *     tr_json_name(&j, "id");
 *     tr_json_id(&j, 17);
 *     tr_json_close(&j, '}');
 *
 * Commas are put by themselves; what is opened is closed by the caller.
 */

#include "proto/output.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tr_json {
    struct tr_output *out;
    bool more; /* something stands before at this level: a comma is needed */
};

void tr_json_init(struct tr_json *j, struct tr_output *out);

void tr_json_open(struct tr_json *j, char bracket);
void tr_json_close(struct tr_json *j, char bracket);

/* The name of a member: one of ours, which needs no escape. Its value is written next. */
void tr_json_name_of(struct tr_json *j, const char *name, size_t len);

static inline void tr_json_name(struct tr_json *j, const char *name)
{
    tr_json_name_of(j, name, strlen(name)); /* which the compiler knows */
}

/* Escaped. A byte that is not UTF-8 becomes U+FFFD: see tr_json_body for bytes of clients. */
void tr_json_string(struct tr_json *j, const void *bytes, size_t len);
void tr_json_text(struct tr_json *j, const char *text);

/* The same for text of which we know that it needs no escape: names of topics, times, numbers. */
void tr_json_plain(struct tr_json *j, const void *text, size_t len);

void tr_json_number(struct tr_json *j, uint64_t number);
void tr_json_member(struct tr_json *j, const char *name, uint64_t number); /* one with its name */
void tr_json_signed(struct tr_json *j, int64_t number);
void tr_json_thousandths(struct tr_json *j, uint64_t number); /* 1500 is 1.5 */
void tr_json_id(struct tr_json *j, uint64_t id);              /* a string: "17" */
void tr_json_bool(struct tr_json *j, bool yes);
void tr_json_null(struct tr_json *j);

/* Text that is JSON already. */
void tr_json_raw(struct tr_json *j, const void *text, size_t len);

/* A member: "body" when it is UTF-8, else "body_base64". */
void tr_json_body(struct tr_json *j, const uint8_t *bytes, size_t len);

#endif
