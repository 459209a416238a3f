#ifndef TR_SIM_CLUSTER_NET_H
#define TR_SIM_CLUSTER_NET_H

/*
 * The network between nodes and servers, as port/redis.h has it. See net.c.
 */

#include "judge.h"
#include "world.h"

#include <stdbool.h>
#include <stdint.h>

enum { NET_CONNS = 520, WAKES_MAX = 64, WAKE_TEXT = 64 };

struct zoo;

struct net_conn {
    bool open; /* the node has not closed it, nor heard that it is */
    bool up;
    bool dead; /* something was lost on it: nothing arrives any more */
    unsigned generation;
    unsigned server;
    unsigned life; /* of the server: what takes over from it is another process */
    bool asking;
    uint64_t out_us, in_us; /* in order: nothing arrives before what was sent before */
};

/* One node's end of it. */
struct net_end {
    struct net *net;
    unsigned node;
    unsigned life;
    char name[TR_PLACE_NODE_DIGITS + 1];
    struct tr_redis_ear ear;
    struct net_conn conns[NET_CONNS];
    /* Its wake-ups, and the BLPOP that waits for one. */
    char wakes[WAKES_MAX][WAKE_TEXT];
    unsigned wake_count;
    bool pops;
    unsigned pop_generation;
    uint64_t pop_tag;
};

enum net_what { NET_UP, NET_REQUEST, NET_REPLY, NET_CLOSED, NET_POP_OVER };

struct net_message {
    struct net_message *next;
    enum net_what what;
    uint64_t at_us;
    unsigned node, life, conn, generation, server, server_life;
    uint64_t tag;
    bool asking;
    struct tr_span *args;
    size_t count;
    struct fake_reply *reply;
};

struct net {
    struct world *world;
    struct judge *judge;
    struct zoo *zoo; /* who watches housekeeping */
    struct net_end ends[NODES];
    struct net_message *messages; /* by at_us */
    bool calm;                    /* no faults any more */
    bool trace;                   /* each call is printed */
    bool mute;                    /* wake-ups are lost, all of them */
    bool cut[NODES];              /* it reaches nobody */
    bool heard[NODES];            /* something came: the node wants a turn */
    uint64_t sent, lost;
};

void net_init(struct net *n, struct world *w, struct judge *j);
void net_fini(struct net *n);
/* A process begins: its earlier life's messages go nowhere. */
void net_start(struct net *n, unsigned node, const char *name);
struct tr_redis_port net_port(struct net *n, unsigned node);
/* All connections to a server break. */
void net_break(struct net *n, unsigned server);
/* A node reaches nobody; and then it does again, and hears that its connections are gone. */
void net_cut(struct net *n, unsigned node, bool cut);
/* Does what is due. False: nothing is, up to then. */
bool net_step(struct net *n, uint64_t until_us);
struct tr_now net_now(const struct net *n);

#endif
