#ifndef TR_CLUSTER_ENGINE_H
#define TR_CLUSTER_ENGINE_H

/*
 * The engine on Redis: answers struct tr_req by scripts in Redis, over port/redis.h. See engine.c
 * and doc/cluster.md. It keeps no job; what it knows of topics is a copy.
 *
 * Pure: time is an argument, no call waits. `done` of a request may be called from inside submit,
 * turn and the ear; never from inside abandon. Threads: one.
 */

#include "base/check.h"
#include "base/mem.h"
#include "cluster/place.h"
#include "port/coord.h"
#include "port/engine.h"
#include "port/meter.h"
#include "port/queue.h"
#include "port/redis.h"
#include "port/sql.h"
#include "port/zones.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_CLUSTER_UUID = 32 }; /* hex digits of a store's uuid */

struct tr_cluster_config {
    struct tr_mem *mem;
    struct tr_redis_port port;
    const char *prefix;
    unsigned slots;             /* of the store, a power of two */
    const char *const *servers; /* host:port, of which at least one is needed to begin; copied */
    unsigned server_count;
    uint64_t node;       /* its name: 64 random bits, new with each start */
    const char *address; /* what others show of this node; copied */
    const char *uuid;    /* of the store, if there is none yet: TR_CLUSTER_UUID hex digits; NULL: no
                            store is made */
    uint64_t timeout_us; /* for one answer */
    uint64_t patience_us;   /* for one call with all its repeats: then 503 */
    uint64_t lease_us;      /* of being a member */
    unsigned wait_replicas; /* what changes something is answered when so many have it, too */
    bool asks_config;       /* servers are asked how they sync, to tell people */
    const struct tr_coord_port *coord; /* NULL: leases in Redis say who lives; copied */
    uint64_t session_us;               /* of that, as far as is known before it has said so */
    const struct tr_sql_port
        *sql;                 /* a database has the truth, Redis is an index; or NULL; copied */
    unsigned sql_connections; /* that it has, */
    unsigned sql_batch;       /* and jobs of one transaction, at most */
    uint64_t hot_window_us;   /* rows that are due so soon are in the index, */
    uint64_t hot_max;         /* so many of a topic and slot at most; */
    uint64_t images_max;      /* on their way there, while Redis is away: then some are dropped */
    uint64_t reconcile_us;    /* so often it is compared with them */
    uint64_t history_us;      /* what happened to jobs is kept for so long, at least */
    size_t body_max;
    unsigned flight_calls; /* under way on one connection at most; what is more waits, */
    size_t flight_bytes;   /* and so it is with bytes; but one call always */
    size_t take_bytes;     /* of bodies that one answer brings; but one job always */
    uint64_t forget_us;    /* a topic without jobs, settings and waiters is forgotten then */
    tr_zone_file_fn *zone; /* reads time zones; NULL: there are none */
    void *zone_ctx;
    unsigned max_topics; /* known at once on this node */
    void *ctx;
    tr_notice_fn *notice; /* or NULL */
    /* This topic's outlet is, or may be, this node's from now on, or no more, or another one; never
     * from inside submit and abandon. NULL: this node delivers nothing. */
    void (*outlet)(void *ctx, uint32_t topic);
};

/* All that has a default; the rest is 0. */
void tr_cluster_config_init(struct tr_cluster_config *c, struct tr_mem *mem);

struct tr_cluster;

/* TARRY_EINVAL: prefix, slots or servers make no sense; TARRY_ENOMEM. It connects with the first
 * turn. */
TR_MUST_USE int tr_cluster_new(const struct tr_cluster_config *config, struct tr_now now,
                               struct tr_cluster **out);

/* What is under way is left: nobody hears of it. Closes its connections. */
void tr_cluster_free(struct tr_cluster *c);

/* Where the port tells what happened. */
struct tr_redis_ear tr_cluster_ear(struct tr_cluster *c);

/* And the database, if there is one: what time it is comes first. */
struct tr_sql_ear tr_cluster_sql_ear(struct tr_cluster *c);
void tr_cluster_tick(struct tr_cluster *c, struct tr_now now);

/* And the coordinator, if there is one besides Redis. */
struct tr_coord_ear tr_cluster_coord_ear(struct tr_cluster *c);

/* As struct tr_queue has them. */
void tr_cluster_submit(struct tr_cluster *c, struct tr_req *r, struct tr_now now);
void tr_cluster_abandon(struct tr_cluster *c, struct tr_req *r, struct tr_now now);
unsigned tr_cluster_work(const struct tr_cluster *c);
bool tr_cluster_waited(const struct tr_cluster *c, uint32_t topic);

/* Sends what was asked since the last one, and looks after timers. Gives the boot time at which it
 * wants to be called again; UINT64_MAX: when something happens. */
uint64_t tr_cluster_turn(struct tr_cluster *c, struct tr_now now);

/* Jobs are on their way back, or may have been handed out for nobody: they would wait for the end
 * of their leases. And whoever keeps them can be reached. */
bool tr_cluster_owes(const struct tr_cluster *c);

void tr_cluster_drain(struct tr_cluster *c);

/* It will be gone: the others need not wait for the end of its membership. Once, at the end. */
void tr_cluster_leave(struct tr_cluster *c, struct tr_now now);

enum tr_engine_stage tr_cluster_stage(const struct tr_cluster *c);

/* Why it is of no use now; good until the next call. At most TR_REASONS - 3. */
unsigned tr_cluster_unready(struct tr_cluster *c, struct tr_reason *reasons);

/* What time it is by Redis, as far as the last answer told. */
uint64_t tr_cluster_clock(const struct tr_cluster *c, struct tr_now now);

/* Of the store, once it is known: 16 bytes. */
const uint8_t *tr_cluster_uuid(const struct tr_cluster *c);

/* Who asks: a number for a name, the same for the same one; 0: there are too many. */
uint32_t tr_cluster_actor(struct tr_cluster *c, const char *name, size_t len);
const char *tr_cluster_actor_name(const struct tr_cluster *c, uint32_t actor, size_t *len);
const char *tr_cluster_topic_name(const struct tr_cluster *c, uint32_t topic, size_t *len);

/* Topics that deliver, as far as they are this node's; is this one? */
void tr_cluster_deliverers(const struct tr_cluster *c, tr_engine_topic_fn *fn, void *ctx);
bool tr_cluster_delivers(const struct tr_cluster *c, uint32_t topic);

/* What this node did since its start, and how it is. */
struct tr_cluster_stat {
    uint64_t calls;      /* commands sent, */
    uint64_t repeats;    /* of those once more, */
    uint64_t redirects;  /* because of MOVED or ASK, */
    uint64_t losses;     /* or because no answer came */
    uint64_t given_up;   /* calls that were answered with an error of ours, */
    uint64_t unsure;     /* of which it is not known what came of them */
    uint64_t waits;      /* calls that had to wait, as much was under way on their connection */
    uint64_t batches;    /* scripts for requests, */
    uint64_t items;      /* and requests in them */
    uint64_t takes;      /* questions for jobs, */
    uint64_t empty;      /* of those in vain */
    uint64_t wakes_sent; /* to other nodes, */
    uint64_t wakes_heard;
    uint64_t given_back;  /* jobs that came when nobody waited any more */
    uint64_t tended;      /* topics looked after */
    uint64_t forgotten;   /* topics that nobody needed any more */
    uint64_t orphans;     /* jobs of dead nodes that were released */
    uint64_t swept;       /* fields of dead nodes that were dropped */
    uint64_t ousted;      /* slots that another node had been entered for */
    uint64_t self_stops;  /* housekeeping that stopped, as membership was not known any more */
    uint64_t maps;        /* of the cluster, asked for */
    uint64_t slots_lost;  /* that a server has lost with all that was in them */
    uint64_t jumps;       /* of ids, since a slot came to another life of a server */
    unsigned servers;     /* known, */
    unsigned connections; /* of those that are up */
    unsigned nodes;       /* that live */
    unsigned slots_owned;
    uint64_t topics;         /* known here */
    uint64_t waiting;        /* reserves */
    uint64_t held;           /* jobs that connections of this node have */
    bool deaf;               /* wake-ups do not come */
    uint64_t sql_under_way;  /* questions to the database, */
    uint64_t images;         /* changes on their way into the index, */
    uint64_t images_dropped; /* and those that were left to reconciliation */
};
void tr_cluster_stat(const struct tr_cluster *c, struct tr_cluster_stat *s);

/* Servers that have jobs, as far as they are known. */
struct tr_cluster_server {
    const char *name;
    const char *version;
    const char *fsync; /* appendfsync; empty: it does not tell */
    bool keeps;        /* appendonly */
    unsigned replicas;
};
unsigned tr_cluster_servers(const struct tr_cluster *c, struct tr_cluster_server *servers,
                            unsigned room);

/* Meters of topics, see port/meter.h: from this one on; the last one is that of all others. */
void tr_cluster_meters_begin(struct tr_cluster *c);
void tr_cluster_meters_end(struct tr_cluster *c);
unsigned tr_cluster_meters(struct tr_cluster *c, unsigned from, struct tr_meter_view *views);

#endif
