#ifndef TR_PROTO_HTTP_REPLY_H
#define TR_PROTO_HTTP_REPLY_H

/*
 * Replies of HTTP, written straight into the output. See http_reply.c.
 *
 *     tr_http_reply_open(&r, out, &how, 200);
 *     tr_http_reply_header(&r, "Tarry-Id", "17", 2);      as many as are wanted
 *     tr_http_reply_body(&r, "application/json");
 *     ...                                                 the body, added to out
 *     tr_http_reply_close(&r);
 *
 * The length is put in at the end. So nothing of it may be sent in between: a reply is opened and
 * closed in one go. The gate of the output is set before.
 */

#include "proto/http_parse.h"
#include "proto/json_out.h"
#include "proto/output.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a reply has of its request. */
struct tr_http_how {
    bool keep_alive;
    bool http10;
    bool head_only;   /* the body is not sent, but its length is told */
    const char *date; /* Sun, 06 Nov 1994 08:49:37 GMT; or NULL */
    const char *line; /* the status line and the date as they are to be; or NULL */
    size_t line_len;
};

struct tr_http_reply {
    struct tr_output *out;
    uint64_t length_at; /* the room for the length, */
    uint64_t body_at;   /* and the body, in places of the output */
    bool head_only;
};

/* What went wrong: {"error":{"code":…,"message":…,"field":…,"state":…}} */
struct tr_http_error {
    unsigned status;
    const char *code;    /* for programs: not_found */
    const char *message; /* for people: what to do */
    const char *field;   /* or NULL */
    const char *allow;   /* 405: the methods; or NULL */
    const char *state;   /* 409: of the job; or NULL */
    unsigned retry_s;    /* 429: after so long it may be tried again; 0: not known */
};

struct tr_http_how tr_http_how_of(const struct tr_http_request *request);

void tr_http_reply_open(struct tr_http_reply *r, struct tr_output *out,
                        const struct tr_http_how *how, unsigned status);

/* Control characters in the value are replaced by "?", so that no value can end its line. */
void tr_http_reply_header(struct tr_http_reply *r, const char *name, const void *value, size_t len);

/* Retry-After: so many seconds, or 0: as many as one who is told 503 should wait. */
void tr_http_reply_retry(struct tr_http_reply *r, unsigned seconds);

/* The status line and the date, for `line` of others; says how long it is. */
enum { TR_HTTP_LINE = 96 };
size_t tr_http_reply_line(char out[TR_HTTP_LINE], unsigned status, const char *date);

/* Ends the head. What is added to the output from now on is the body. */
void tr_http_reply_body(struct tr_http_reply *r, const char *type);
void tr_http_reply_json(struct tr_http_reply *r); /* the same for application/json */
void tr_http_reply_close(struct tr_http_reply *r);

/* Ends the head of a reply that has no body, such as 204. */
void tr_http_reply_none(struct tr_http_reply *r);

/* The member "error" of an object. */
void tr_http_error_tell(struct tr_json *j, const struct tr_http_error *error);

/* All of an error. */
void tr_http_reply_error(struct tr_output *out, const struct tr_http_how *how,
                         const struct tr_http_error *error);

/* For clients that expect it before they send a body. */
void tr_http_reply_continue(struct tr_output *out);

/* Created, Not Found ... */
const char *tr_http_status_text(unsigned status);

#endif
