#ifndef TR_SERVER_CONN_H
#define TR_SERVER_CONN_H

/*
 * The connections of all ports: sockets on one side, sessions on the other. See conn.c.
 */

#include "base/list.h"
#include "base/mem.h"
#include "os/loop_linux.h"
#include "os/net_linux.h"
#include "proto/beanstalk.h"
#include "proto/http.h"
#include "proto/session.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_CONN_READ_MAX = 65536 }; /* bytes taken from a socket at once */

enum tr_port_kind { TR_PORT_BEANSTALK, TR_PORT_HTTP, TR_PORTS };

/* Where clients of one protocol come in. */
struct tr_door {
    struct tr_conns *conns;
    struct tr_listener *listener; /* NULL: closed */
    const struct tr_proto *proto;
    void *port; /* of that protocol */
};

struct tr_conns {
    struct tr_mem *mem;
    struct tr_loop_linux *loop;
    struct tr_bs_port beanstalk; /* queue, limits, texts: set by the owner before the first
                                    connection */
    struct tr_hs_port http;      /* the same */
    uint64_t count_max;          /* more wait until others go */
    uint64_t patience_us[TR_PATIENCE_COUNT];
    void *ctx;
    void (*full)(void *ctx, const char *why); /* new connections have to wait */
    uint64_t (*wall_us)(void *ctx);           /* a test clock; NULL: the wall clock */
    struct tr_door doors[TR_PORTS];
    struct tr_list all;
    struct tr_list work;                       /* who has something to do, first come first */
    struct tr_list unsent;                     /* something can be sent */
    struct tr_list gated;                      /* what there is to send waits for the disk */
    struct tr_list patient[TR_PATIENCE_COUNT]; /* who may only take so long, longest first */
    uint64_t count;
    uint64_t next_number;
    uint64_t durable; /* batch */
    uint64_t retry_us;
    bool stopping;
    bool told_full;
    bool turn_wanted; /* the engine was asked something by a close */
    uint8_t buf[TR_CONN_READ_MAX];
};

/* cs is zeroed memory; what is the owner's above is then to be set. */
void tr_conns_init(struct tr_conns *cs, struct tr_mem *mem);

/* As tr_listener_open. */
TR_MUST_USE int tr_conns_listen(struct tr_conns *cs, enum tr_port_kind port, const char *address);

/* Everything up to this batch is on disk: replies that waited for it may go. */
void tr_conns_durable(struct tr_conns *cs, uint64_t batch);

/* Reads from those who sent something, and lets sessions go on that can: each who is on the list
 * now once, but at least one, and as many as come to it in most_us. */
void tr_conns_work(struct tr_conns *cs, uint64_t most_us);

/* Sends what can be sent: at most one write for each connection, at least some, and as many as
 * come to it in most_us. */
void tr_conns_flush(struct tr_conns *cs, uint64_t most_us);

/* Ends what has taken too long; and when no descriptor could be had although nobody will give one
 * back, it is tried again after a while. Gives the boot time for the next call, or UINT64_MAX. */
uint64_t tr_conns_time(struct tr_conns *cs, struct tr_now now);

/*
 * No new connections or commands from now on. What was taken is answered, then the connection is
 * closed; those who only wait are closed at once. The end is when `count` is 0.
 */
void tr_conns_stop(struct tr_conns *cs, struct tr_now now);

/* There are other tokens: all sessions look whether theirs is still good. */
void tr_conns_reauth(struct tr_conns *cs, struct tr_now now);

/* Where the client of a session is. */
void tr_conns_peer(const void *session, struct tr_sock_peer *peer);

/* Closes all, answered or not. */
void tr_conns_abort(struct tr_conns *cs, struct tr_now now);

/* Forgets what is left; the engine is gone by now, and the sockets are closed. */
void tr_conns_fini(struct tr_conns *cs);

#endif
