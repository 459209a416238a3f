#ifndef TR_SERVER_ENGINES_H
#define TR_SERVER_ENGINES_H

/*
 * The engines behind port/engine.h: the embedded one with its disk and its folder (local.c), and
 * the one on Redis with its connections (redis.c). Which one it is, nobody else here knows.
 */

#include "base/check.h"
#include "base/mem.h"
#include "os/loop_linux.h"
#include "port/engine.h"
#include "server/budget.h"
#include "server/config.h"
#include "server/logger.h"

/* What they are made of. All of it is the server's, and stays. */
struct tr_engine_parts {
    const struct tr_config *config;
    const struct tr_budget *budget; /* a reload may change it */
    struct tr_mem *mem;
    struct tr_loop_linux *loop;
    const struct tr_logger *log;
    struct tr_engine_calls calls;
};

/* Not opened yet. TARRY_ENOMEM; TARRY_EUNSUPPORTED: this build has none like that. */
TR_MUST_USE int tr_local_make(struct tr_engine_port *port, const struct tr_engine_parts *parts);
TR_MUST_USE int tr_on_redis_make(struct tr_engine_port *port, const struct tr_engine_parts *parts);

#endif
