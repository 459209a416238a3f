#ifndef TR_REMOTE_READER_H
#define TR_REMOTE_READER_H

/*
 * Bytes of a Redis in, answers out, as port/redis.h has them. See reader.c.
 */

#include "base/check.h"
#include "base/mem.h"
#include "port/redis.h"

#include <stdbool.h>
#include <stddef.h>

/* No answer is as long as that: whoever sends it is no Redis of ours. */
#define TR_READER_LONGEST ((size_t)256 << 20)

struct tr_reader;

/* NULL: no memory. */
struct tr_reader *tr_reader_new(struct tr_mem *mem);

/* r may be NULL. */
void tr_reader_free(struct tr_reader *r);

/* These bytes came. TARRY_ENOMEM, and TARRY_EDAMAGED as below: it is of no use any more. */
TR_MUST_USE int tr_reader_feed(struct tr_reader *r, const char *bytes, size_t len);

/*
 * The next answer, good until the next call. *there is false: it is not complete yet.
 * TARRY_ENOMEM; TARRY_EDAMAGED: this is not what Redis says.
 */
TR_MUST_USE int tr_reader_next(struct tr_reader *r, struct tr_redis_reply *reply, bool *there);

#endif
