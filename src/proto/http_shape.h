#ifndef TR_PROTO_HTTP_SHAPE_H
#define TR_PROTO_HTTP_SHAPE_H

/*
 * How jobs, leases and the engine's answers look in HTTP. See http_shape.c.
 */

#include "port/request.h"
#include "proto/http_parse.h"
#include "proto/http_reply.h"
#include "proto/json_out.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_LEASE_TEXT = 17 }; /* bytes of a printed lease, its NUL included */

/* What of a job is told besides its fields. */
enum tr_shape { TR_SHAPE_BODY = 1, TR_SHAPE_LEASE = 2 };

/* delayed, ready, reserved, dead. */
const char *tr_shape_state(enum tr_job_state state);

/* The members of a job; the caller opens and closes the object. `what`: enum tr_shape. */
void tr_shape_job(struct tr_json *j, const struct tr_job_view *job, struct tr_http_text topic,
                  unsigned what);

/* What to reply when the engine says no; `state` is the one that was in the way, if any. */
struct tr_http_error tr_shape_error(int err, enum tr_job_state state);

void tr_lease_print(char out[TR_LEASE_TEXT], uint64_t lease);

/* False: it is no lease that this server gave. */
bool tr_lease_read(struct tr_http_text text, uint64_t *lease);

#endif
