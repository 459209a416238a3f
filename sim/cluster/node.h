#ifndef TR_SIM_CLUSTER_NODE_H
#define TR_SIM_CLUSTER_NODE_H

/*
 * Nodes: what src/cluster decides, over a network that loses and delays. See node.c.
 */

#include "cluster/eval.h"
#include "cluster/route.h"
#include "cluster/shards.h"
#include "judge.h"
#include "world.h"

#include <stdbool.h>
#include <stdint.h>

enum { TOPICS = 8, BATCH = 3, HANDS = 64 };

/* Deliberate bugs of a node. */
enum node_bug { BUG_NONE, BUG_NEW_OP, BUG_REFUSAL_BELIEVED, BUG_LEASE_AGAIN };

struct lane {
    bool busy;
    bool sent; /* waits for an answer; else: for its time to be sent */
    bool lost; /* its connection was closed meanwhile */
    uint64_t timer_us;
    struct tr_eval eval;
    struct tr_route route;
    struct tr_route_step step;
    char aim[16]; /* step.server, kept */
    uint64_t op;
    unsigned sends; /* an answer to an older one means nothing */
    unsigned server;
    unsigned serials[BATCH];
    char kinds[BATCH];
    unsigned count;
    struct sim_claim claim; /* of a take: the lease only */
};

struct conn {
    unsigned generation;
    bool open;
    char run[32];
    uint64_t last_us; /* in order: nothing arrives before what was sent before */
};

/* A job that a client of this node holds. */
struct hand {
    unsigned serial;
    uint64_t id;
    struct sim_claim claim;
    uint64_t from_us; /* not before: a slow consumer, whose lease ends */
};

struct node {
    unsigned number;
    unsigned life;
    char name[TR_PLACE_NODE_DIGITS + 1];
    uint64_t leases;
    struct lane lanes[LANES];
    struct conn conns[SERVERS];
    struct tr_shards shards;
    struct hand hands[HANDS];
    unsigned hand_count;
};

struct message {
    struct message *next;
    uint64_t at_us;
    unsigned node, life, lane, sends, server, generation, slot;
    bool asking;
    struct tr_span *args; /* a request, copied; NULL: an answer */
    size_t count;
    struct fake_reply *reply;
};

struct cluster {
    struct world world;
    struct judge judge;
    struct node nodes[NODES];
    struct message *messages; /* by at_us */
    struct tr_mem mem;
    enum node_bug bug;
    bool calm; /* no faults any more */
    bool trace;
    uint64_t answers, repeats, losses, unknowns;
};

void cluster_init(struct cluster *c, uint64_t seed, struct fake_lua *lua, enum node_bug bug);
void cluster_fini(struct cluster *c);
/* Runs it until then, with clients that push, take and end jobs. */
void cluster_run(struct cluster *c, uint64_t until_us);
/* No faults any more: takes all that there is. */
void cluster_drain(struct cluster *c);
/* A process dies and another one starts. */
void cluster_restart(struct cluster *c, unsigned node);
/* All connections to a server break. */
void cluster_break(struct cluster *c, unsigned server);

#endif
