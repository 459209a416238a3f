#ifndef TR_SIM_WORKLOAD_H
#define TR_SIM_WORKLOAD_H

/*
 * Clients: what they ask, by dice. Each has one request at a time. See workload.c.
 */

#include "base/rng.h"
#include "oracle.h"
#include "swarm.h"

#include <stdbool.h>
#include <stdint.h>

enum { SIM_BODY_MAX = 8192, SIM_PAST_MAX = 32, SIM_DRAINER = SIM_ASKS_MAX - 1 };

/* A lease that somebody had, to be tried again when it is over. */
struct sim_past {
    uint64_t id;
    uint64_t holder;
    uint64_t lease;
};

/* How far a client has come with its list. */
struct sim_listing {
    unsigned topic;
    struct tr_filter filter;
    struct tr_cursor cursor;
};

struct sim_work {
    struct tr_rng rng;
    struct sim_oracle *oracle;
    const struct sim_params *params;
    uint64_t holders[SIM_ASKS_MAX]; /* of each client; 0: it works with tokens */
    uint64_t next_holder;
    struct sim_past past[SIM_PAST_MAX];
    unsigned past_count;
    bool no_kick; /* draw no KICK */
    struct sim_listing listings[SIM_ASKS_MAX];
    uint8_t bodies[SIM_ASKS_MAX][SIM_BODY_MAX + 8];
};

void sim_work_reset(struct sim_work *w, struct sim_oracle *o, const struct sim_params *p,
                    uint64_t seed);

/* Fills the request of some idle client; NULL when all wait. The caller submits it. */
struct sim_ask *sim_work_draw(struct sim_work *w);

/* Fills the request of a client that is idle, with nothing but the client's own fields. */
struct sim_ask *sim_work_blank(struct sim_work *w, unsigned client, enum tr_op op);

/* Makes a ask for a topic by number, or (while the number is unknown) to hold the topic. */
void sim_work_for_topic(struct sim_work *w, struct sim_ask *a, unsigned topic);

/* The client's connection is gone; it comes back as another. */
void sim_work_reconnect(struct sim_work *w, unsigned client);

/* All connections are gone. */
void sim_work_restart(struct sim_work *w);

#endif
