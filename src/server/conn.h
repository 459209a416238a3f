#ifndef TR_SERVER_CONN_H
#define TR_SERVER_CONN_H

/*
 * The connections of all ports: sockets on one side, sessions on the other. See conn.c; conn_door.c
 * lets them in, conn_time.c ends what takes too long, conn_tls.c agrees on keys.
 */

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "os/loop_linux.h"
#include "os/net_linux.h"
#include "os/tls.h"
#include "os/worker_linux.h"
#include "proto/beanstalk.h"
#include "proto/http.h"
#include "proto/session.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_CONN_READ_MAX = 65536 }; /* bytes taken from a socket at once */

enum tr_port_kind { TR_PORT_BEANSTALK, TR_PORT_HTTP, TR_PORTS };

/* Why we did not let a client in, closed its connection or refused a body: what is counted, and
 * what metrics call it. */
#define TR_REFUSALS(X)                                                                             \
    X(FULL, "connections")              /* all places are taken: it was told so, or had to wait */ \
    X(ADDRESS, "per_address")           /* there were too many from its address */                 \
    X(HEADER, "header")                 /* the head of a request took too long */                  \
    X(BODY, "slow_body")                /* a body came too slowly */                               \
    X(IDLE, "idle")                     /* nothing came, and it waited for nothing */              \
    X(UNREAD, "unread")                 /* it did not read what it was sent */                     \
    X(AUTH, "auth")                     /* it did not say who it is */                             \
    X(BUFFERS, "buffers")               /* there was no memory for what it sent or did not read */ \
    X(HANDSHAKE, "handshake")           /* no agreement on keys, or its certificate was no good */ \
    X(HANDSHAKE_TIME, "handshake_time") /* that took too long */                                   \
    X(PLAIN, "plain_text")              /* it did not speak TLS to a port that does */             \
    X(TLS, "tls")                       /* it broke the rules of TLS afterwards */

enum tr_refusal {
#define X(name, text) TR_REFUSAL_##name,
    TR_REFUSALS(X)
#undef X
        TR_REFUSAL_COUNT
};

/* Where clients of one protocol come in. */
struct tr_door {
    struct tr_conns *conns;
    struct tr_listener *listener; /* NULL: closed */
    const struct tr_proto *proto;
    void *port;        /* of that protocol */
    bool held;         /* clients wait in the kernel's backlog, whoever goes (tr_conns_hold) */
    bool http;         /* what TLS calls it (ALPN) */
    const char *away;  /* what is said to a client that cannot be let in, before the socket is
                          closed; NULL: nothing, or by the session */
    const char *plain; /* what is said, without TLS, to a client that does not speak it; or NULL */
    uint64_t count;    /* connections now, */
    uint64_t ever;     /* and so far */
    uint64_t handshakes;                /* of TLS that succeeded */
    uint64_t away_us;                   /* boot time since which they are counted, */
    unsigned away_count;                /* who were told so */
    bool away_rests;                    /* too many: the next ones wait a moment */
    uint64_t refused[TR_REFUSAL_COUNT]; /* see tr_door_refused */
};

struct tr_conns {
    struct tr_mem *mem;
    struct tr_mem
        buffers; /* what sessions keep of and for their clients; its limit is the owner's */
    struct tr_loop_linux *loop;
    struct tr_bs_port beanstalk; /* queue, limits, texts: set by the owner before the first
                                    connection */
    struct tr_hs_port http;      /* the same */
    uint64_t count_max;          /* more are told so (tr_conns_allow): */
    uint64_t spare;              /* so many, on top of the others */
    uint64_t address_max;        /* from one address; 0: any */
    uint64_t body_rate;          /* bytes a second of a body, at least; 0: any */
    uint64_t patience_us[TR_PATIENCE_COUNT];
    struct tr_tls *tls;             /* NULL: bytes go as they are */
    struct tr_worker_linux *worker; /* with tls: where handshakes are calculated */
    void *ctx;
    void (*full)(void *ctx, const char *why);  /* new connections have to wait */
    void (*note)(void *ctx, const char *text); /* what an operator may want to know of a client */
    uint64_t (*wall_us)(void *ctx);            /* a test clock; NULL: the wall clock */
    uint64_t slow_us; /* a command that takes so long of the loop is told; 0: none is */
    void (*slow)(void *ctx, const char *port, const struct tr_doing *d, uint64_t took_us);
    struct tr_door doors[TR_PORTS];
    struct tr_list all;
    struct tr_list work;                       /* who has something to do, first come first */
    struct tr_list unsent;                     /* something can be sent */
    struct tr_list gated;                      /* what there is to send waits for the disk */
    struct tr_list patient[TR_PATIENCE_COUNT]; /* who may only take so long, longest first */
    struct tr_map addresses;                   /* how many are from which */
    uint8_t address_key[TR_SIPHASH_KEY];       /* the owner's: random */
    const void *at_work;                       /* whose turn it is, if it is still there */
    uint64_t count;
    uint64_t next_number;
    uint64_t durable; /* batch */
    uint64_t retry_us;
    uint64_t noted_us; /* boot time of the last note, */
    uint64_t unnoted;  /* and how many there would have been since */
    bool stopping;
    bool told_full;
    bool turn_wanted; /* the engine was asked something by a close */
    uint8_t buf[TR_CONN_READ_MAX];
};

/* cs is zeroed memory; what is the owner's above is then to be set. */
void tr_conns_init(struct tr_conns *cs, struct tr_mem *mem);

/* There may be so many connections from now on. Those that are there stay. */
void tr_conns_allow(struct tr_conns *cs, uint64_t most);

/* As tr_listener_open. */
TR_MUST_USE int tr_conns_listen(struct tr_conns *cs, enum tr_port_kind port, const char *address);

/* From now on clients of this port wait, until they are let in again. */
void tr_conns_hold(struct tr_conns *cs, enum tr_port_kind port, bool hold);

/* What sessions wait for may have come: all of them have a turn. */
void tr_conns_wake(struct tr_conns *cs);

/* Everything up to this batch is on disk: replies that waited for it may go. */
void tr_conns_durable(struct tr_conns *cs, uint64_t batch);

/* Takes the handshakes that the worker is done with. */
void tr_conns_shaken(struct tr_conns *cs);

/* Reads from those who sent something, and lets sessions go on that can: each who is on the list
 * now once, but at least one, and as many as come to it in most_us. */
void tr_conns_work(struct tr_conns *cs, uint64_t most_us);

/* Sends what can be sent: at most one write for each connection, at least some, and as many as
 * come to it in most_us. */
void tr_conns_flush(struct tr_conns *cs, uint64_t most_us);

/* Ends what has taken too long, and who reads too little when memory is short; and when no
 * descriptor could be had although nobody will give one back, it is tried again after a while.
 * Gives the boot time for the next call, or UINT64_MAX. */
uint64_t tr_conns_time(struct tr_conns *cs, struct tr_now now);

/* How often, for this reason; what the sessions refused counts, too. */
uint64_t tr_door_refused(const struct tr_conns *cs, enum tr_port_kind port, enum tr_refusal why);
const char *tr_refusal_name(enum tr_refusal why);

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
