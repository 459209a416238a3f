#ifndef TR_SERVER_DELIVERY_H
#define TR_SERVER_DELIVERY_H

/* Outlets (outlet/outlets.h), wired to the engine, the loop and the logger. See delivery.c. */

#include "os/loop_linux.h"
#include "outlet/outlets.h"
#include "port/engine.h"
#include "server/config.h"
#include "server/logger.h"

struct tr_delivery {
    const struct tr_engine_port *engine; /* the owner's, as the next two */
    struct tr_loop_linux *loop;
    const struct tr_logger *log;
    struct tr_outlets *outlets; /* NULL: none, before it is opened and with a store that is only
                                   looked at */
};

/* The engine is open. Begins with all topics that deliver. */
TR_MUST_USE int tr_delivery_open(struct tr_delivery *d, const struct tr_config *c);

#endif
