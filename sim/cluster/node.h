#ifndef TR_SIM_CLUSTER_NODE_H
#define TR_SIM_CLUSTER_NODE_H

/*
 * Nodes: the engine of src/cluster, and clients that ask it for things. See node.c.
 */

#include "cluster/engine.h"
#include "fake_sql.h"
#include "judge.h"
#include "net.h"
#include "rules/policy.h"
#include "rules/schedule.h"
#include "world.h"
#include "zoo.h"

#include <stdbool.h>
#include <stdint.h>

enum { ASKS = 24, HANDS = 64, HOLDERS = 3 };

/* A request of a client. */
struct ask {
    struct tr_req r;
    struct node *node;
    bool busy;
    char kind; /* p: push, t: reserve, A a C R: as judge_edited has it; s: pause; m: a
                  bulk; x: nobody cares */
    unsigned serial;
    uint64_t asked_us;
    struct sim_claim claim;
    uint32_t topics[TOPICS];
    char body[8];
    char key[4];
    struct tr_policy policy;
    uint64_t failovers; /* s: that there were before; one may undo it before it is answered */
    struct tr_schedule schedule;
};

/* A job that a client of this node holds. */
struct hand {
    unsigned serial;
    uint64_t id;
    uint64_t holder; /* 0: by a lease */
    struct sim_claim claim;
    uint64_t from_us; /* not before: a slow consumer, whose lease ends */
};

struct node {
    unsigned number;
    struct cluster *of;
    struct tr_mem mem;
    struct tr_cluster *engine;
    uint64_t turn_us; /* world time of the next one */
    char name[TR_PLACE_NODE_DIGITS + 1];
    char uuid[TR_CLUSTER_UUID + 1];
    struct tr_sql_port sql;
    uint32_t topics[TOPICS];
    bool has_outlet; /* as it was told: outs.c */
    struct ask asks[ASKS];
    struct hand hands[HANDS];
    unsigned hand_count;
};

struct cluster {
    struct world world;
    struct judge judge;
    struct net net;
    struct zoo zoo;
    struct fake_sql *sql; /* it has a database: commits.c; or NULL */
    uint64_t synced_us;   /* when its replica last heard of it all */
    struct node nodes[NODES];
    bool greedy;  /* memory fails now and then */
    bool rare;    /* with a database: little is compared for its time alone, images are few */
    bool pausing; /* one at a time, so that it is known which is in force */
    uint64_t answers, refusals, unknowns, handed, vain, kicked, changed;
    struct tr_cluster_stat stat; /* of all nodes and lives together */
};

/* sql: with a database. */
void cluster_init(struct cluster *c, uint64_t seed, struct fake_lua *lua, bool sql);
/* All processes end. */
void cluster_stop(struct cluster *c);
void cluster_fini(struct cluster *c);
/* Runs it until then, with clients that push, take and end jobs. */
void cluster_run(struct cluster *c, uint64_t until_us);
/* The node dies, and another one begins in its place. */
void cluster_kill(struct cluster *c, struct node *n);
/* No faults any more: takes all that there is. */
void cluster_drain(struct cluster *c);

#define LEASE_US UINT64_C(3000000)
#define PLAIN (TOPICS - 1) /* a topic that never has settings, and may be forgotten */

uint64_t cluster_dice(struct cluster *c, uint64_t below);
const char *cluster_topic(unsigned topic);
/* A process begins, and ends: whatever it was asked is not known to have been done. */
void node_start(struct cluster *c, struct node *n);
void node_stop(struct cluster *c, struct node *n);
/* What clients ask: NULL, there are too many requests. */
void node_push_for(struct cluster *c, struct node *n, unsigned topic, uint64_t delay_us,
                   uint64_t ttr_us);
void node_push(struct cluster *c, struct node *n, unsigned topic, uint64_t delay_us);
struct ask *node_reserve(struct cluster *c, struct node *n, unsigned topics, uint64_t wait_us);
void node_close(struct cluster *c, struct node *n, uint64_t holder);
void node_end_job(struct cluster *c, struct node *n, struct hand h, enum tr_op op);
/* All that happens by itself up to then. */
void cluster_flow(struct cluster *c, uint64_t until_us);
/* A new request, or NULL: there are too many; and it is asked. */
struct ask *node_ask(struct node *n, char kind);
void node_submit(struct node *n, struct ask *a);
tr_req_done_fn node_done;

#endif
