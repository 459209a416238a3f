#ifndef TR_SERVER_LIVE_H
#define TR_SERVER_LIVE_H

/*
 * What of the config can change while the server runs. See live.c.
 */

#include "base/check.h"
#include "port/engine.h"
#include "server/budget.h"
#include "server/config.h"
#include "server/conn.h"
#include "server/logger.h"

#include <stdint.h>

/* Where values are used. All of it is the server's. */
struct tr_live {
    struct tr_config *config;
    struct tr_logger *log;
    struct tr_conns *conns;
    const struct tr_engine_port *engine;
    struct tr_budget *budget; /* what memory.limit is cut into */
    uint64_t ram_bytes;       /* as tr_budget_cut wants it */
    uint64_t most;            /* connections for which there are descriptors */
    struct tr_tls *tls;       /* of a reload: the certificate that was read; NULL: none */
};

/* Brings each value of a live key to where it is used: at the start, and after a reload. */
void tr_live_apply(struct tr_live *l);

/* Reads the config and the certificate again, and applies both if nothing is wrong with either; the
 * log tells. As tr_config_reload. */
TR_MUST_USE int tr_live_reload(struct tr_live *l);

#endif
