#ifndef TR_PROTO_HTTP_SHAPE_H
#define TR_PROTO_HTTP_SHAPE_H

/*
 * How jobs, leases and the engine's answers look in HTTP. See http_shape.c.
 */

#include "base/siphash.h"
#include "port/request.h"
#include "proto/http_parse.h"
#include "proto/http_reply.h"
#include "proto/json_out.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_LEASE_TEXT = 33 }; /* bytes of a printed lease, its NUL included */

/* What of a job is told besides its fields. */
struct tr_shape {
    bool body;
    const uint8_t *lease_key; /* with its lease, which is sealed with this; NULL: without */
};

/* delayed, ready, reserved, dead. */
const char *tr_shape_state(enum tr_job_state state);

/* acked, cancelled, expired ...; NULL: none of them. */
const char *tr_shape_why(unsigned why);

/* The members of a job; the caller opens and closes the object. */
void tr_shape_job(struct tr_json *j, const struct tr_job_view *job, struct tr_shape what);

/* How many attempts it may have after the first; -1: no end. */
int64_t tr_shape_retries(const struct tr_job_view *job);

/* What to reply when the engine says no; `state` is the one that was in the way, if any. */
struct tr_http_error tr_shape_error(int err, enum tr_job_state state);

/* The engine may have a better sentence than the usual one. */
void tr_shape_explain(struct tr_http_error *e, const struct tr_req *r);

void tr_lease_print(char out[TR_LEASE_TEXT], const uint8_t key[TR_SIPHASH_KEY], uint64_t id,
                    uint64_t lease);

/* 0: it is no lease that a server with this key gave for that job. */
uint64_t tr_lease_read(struct tr_http_text text, const uint8_t key[TR_SIPHASH_KEY], uint64_t id);

#endif
