#ifndef TR_SERVER_SERVE_INNER_H
#define TR_SERVER_SERVE_INNER_H

/* What serve.c and ports.c share: the server itself. */

#include "base/check.h"
#include "base/mem.h"
#include "os/loop_linux.h"
#include "os/notify_linux.h"
#include "port/engine.h"
#include "server/budget.h"
#include "server/config.h"
#include "server/conn.h"
#include "server/delivery.h"
#include "server/logger.h"
#include "server/meanwhile.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tr_server {
    struct tr_config *config;
    struct tr_logger log;
    struct tr_budget budget;
    struct tr_mem mem;      /* of the engine */
    struct tr_mem conn_mem; /* of connections, but for what they send and are sent */
    struct tr_loop_linux *loop;
    struct tr_engine_port engine;
    struct tr_conns conns;
    struct tr_delivery delivery;
    struct tr_auth auth;
    uint64_t most; /* connections for which there are descriptors */
    uint64_t start_us;
    uint64_t start_wall_us;
    struct tr_notify_linux notify;
    uint64_t alive_us; /* when the service manager is told again that we are alive */
    uint64_t stop_us;  /* when it was told to stop; 0: it was not */
    bool closing;      /* all clients are gone: the engine gets no more turns */
    bool gave_up;      /* it was told to stop while it opened the store */
    bool loading;      /* the store is being opened, and the loop is another thread's; */
    bool drain_late;   /* to be done then, */
    bool reload_late;  /* and this, too */
    bool opening;      /* the loop runs only until the engine is open, or that takes too long */
    bool let_in;       /* that took too long: clients of the beanstalk port hear errors; */
    bool serving;      /* it is: everybody is served */
    atomic_bool stop_asked;
    struct tr_meanwhile meanwhile;
};

/* What the ports ask of the server, and what they are told once; the engine is made. */
TR_MUST_USE int tr_server_wire(struct tr_server *s);

#endif
