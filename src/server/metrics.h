#ifndef TR_SERVER_METRICS_H
#define TR_SERVER_METRICS_H

/*
 * What of /metrics is not of a topic: the engine, the loop, the ports, the process. See metrics.c;
 * doc/monitoring.md says what each means.
 */

#include "base/mem.h"
#include "os/loop_linux.h"
#include "outlet/outlets.h"
#include "port/engine.h"
#include "proto/prom_out.h"
#include "server/conn.h"

struct tr_metrics_of {
    const struct tr_engine_port *engine;
    const struct tr_loop_linux *loop;
    const struct tr_conns *conns;
    const struct tr_auth *auth;
    const struct tr_mem *mem;
    const struct tr_outlets *outlets;
    const char *version;
    const char *sync;
    uint64_t start_wall_us;          /* when the process began */
    const struct tr_reason *reasons; /* why it is not ready */
    unsigned reason_count;
};

void tr_metrics_tell(struct tr_prom *p, const struct tr_metrics_of *of);

#endif
