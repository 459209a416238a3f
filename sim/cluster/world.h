#ifndef TR_SIM_CLUSTER_WORLD_H
#define TR_SIM_CLUSTER_WORLD_H

/*
 * Servers that fail, forget and move slots, and a network between them and the nodes. See world.c.
 */

#include "base/rng.h"
#include "cluster/place.h"
#include "fake.h"

#include <stdbool.h>
#include <stdint.h>

enum { SERVERS = 3, SLOTS = 4, META = SLOTS, NODES = 3 };

struct server {
    struct fake_db *db;
    struct fake_db *replica;
    unsigned lives;      /* processes, */
    unsigned promotions; /* and how often one of them became primary */
    char run[32];
    char life[32];      /* replication id */
    unsigned scripts;   /* bits: those it has the text of */
    int64_t skew_us;    /* of its clock */
    uint64_t synced_us; /* the replica is as the server was then */
    uint64_t loading_until_us;
    uint64_t full_until_us;
};

struct world {
    struct tr_rng rng;
    uint64_t now_us;
    struct server servers[SERVERS];
    int owner[SLOTS + 1];        /* the last one is that of the whole store, which does not move */
    int moving_to[SLOTS + 1];    /* -1: it stays */
    unsigned changes[SLOTS + 1]; /* how often it came to another life of a server, at most; */
    unsigned jumps[SLOTS + 1];   /* and how often its ids jumped */
    struct fake_lua *lua;
    struct tr_layout layout;
    uint64_t failovers, moves, redirects, tries, refusals;
};

void world_init(struct world *w, uint64_t seed, struct fake_lua *lua);
void world_fini(struct world *w);

/* One of so many. */
bool world_dice(struct world *w, unsigned of);

uint64_t world_time(const struct world *w, unsigned server);

/* A call as it arrives. */
struct world_call {
    unsigned server;
    bool asking;
    const struct tr_span *args;
    size_t count;
};

/* What a server answers now. */
struct fake_reply *world_exec(struct world *w, const struct world_call *call);
/* Which slot a call is about. */
unsigned world_slot(const struct world_call *call);
bool world_is(struct tr_span s, const char *text);
unsigned world_hash_slot(unsigned slot);
/* NULL: a server takes this call, as far as its slot goes. */
struct fake_reply *world_refuse(struct world *w, const struct world_call *call);

/* The server is another one: as its replica was. */
void world_failover(struct world *w, unsigned server);
/* It was demoted, took over what its replica had, and was promoted again: its connections stay. */
void world_demote(struct world *w, unsigned server);
void world_sync(struct world *w, unsigned server);
void world_begin_move(struct world *w, unsigned slot);
void world_step_move(struct world *w, unsigned slot); /* one key */

#endif
