#ifndef TR_REMOTE_REDIS_H
#define TR_REMOTE_REDIS_H

/*
 * Connections to Redis servers on the loop: answers port/redis.h, which has the rules. See redis.c.
 *
 * Threads: the loop's. Nothing here waits.
 */

#include "base/check.h"
#include "base/mem.h"
#include "port/clock.h"
#include "port/poller.h"
#include "port/redis.h"

#include <stdint.h>

struct tr_redis;

/* All of it is copied, but for mem. */
struct tr_redis_setup {
    struct tr_mem *mem;
    struct tr_poller poller;
    struct tr_now (*now)(void);
    const char *user;     /* NULL or empty: the default one */
    const char *password; /* NULL or empty: none is given */
    const char *name;     /* how connections are named there: no spaces */
};

/* TARRY_ENOMEM; TARRY_EFULL: no descriptors; TARRY_EINVAL: something is too long. */
TR_MUST_USE int tr_redis_open(struct tr_redis **out, const struct tr_redis_setup *setup);

/* What the engine asks through; and who hears what came of it, set before the first is asked. */
struct tr_redis_port tr_redis_port(struct tr_redis *r);
void tr_redis_listen(struct tr_redis *r, struct tr_redis_ear ear);

/* At the end of each turn: what was sent since the last one leaves, a write for each connection. */
void tr_redis_flush(struct tr_redis *r);

struct tr_redis_stat {
    unsigned conns; /* that are up */
    uint64_t connects;
    uint64_t broken; /* not closed by the engine, or never made */
    uint64_t commands;
    uint64_t answers;
    uint64_t writes;
    uint64_t bytes_out;
    uint64_t bytes_in;
};

struct tr_redis_stat tr_redis_stat(const struct tr_redis *r);

/* Nothing is told any more. r may be NULL. */
void tr_redis_close(struct tr_redis *r);

#endif
