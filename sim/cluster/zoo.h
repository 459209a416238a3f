#ifndef TR_SIM_CLUSTER_ZOO_H
#define TR_SIM_CLUSTER_ZOO_H

/*
 * A coordinator that is late, tells old views and loses answers. See zoo.c.
 */

#include "judge.h"
#include "port/coord.h"
#include "world.h"

#include <stdbool.h>
#include <stdint.h>

#define ZOO_SESSION_US UINT64_C(3000000)

enum { ZOO_SESSIONS = 64 };

/* A session, of a process that lives or did. */
struct zoo_session {
    uint64_t node;
    uint64_t until_us;
};

/* A process, and its beat under way. */
struct zoo_seat {
    struct zoo *zoo;
    unsigned number;
    uint64_t node;
    struct tr_coord_ear ear; /* ctx NULL: nobody is there */
    uint64_t cut_until_us;   /* nothing comes through */
    uint64_t changed_us;     /* others came or went: told then; UINT64_MAX */
    uint64_t arrives_us;     /* the beat does; UINT64_MAX: none is on its way */
    uint64_t answers_us;     /* the answer does */
    bool lost;               /* and says that it failed */
    uint64_t nodes[ZOO_SESSIONS];
    unsigned count;
    uint64_t tends[SLOTS + 1]; /* numbers of the last ones that it sent */
};

struct zoo {
    struct world *world;
    struct judge *judge;
    bool used; /* else leases in Redis are the coordinator */
    bool calm;
    struct zoo_session sessions[ZOO_SESSIONS];
    unsigned count;
    uint64_t old[ZOO_SESSIONS]; /* who was there some time ago: what a slow server tells */
    unsigned old_count;
    struct zoo_seat seats[NODES];
    uint64_t cuts, stale, lost;
    uint64_t epochs[SLOTS];  /* under which `loaded` was raised last, */
    unsigned changes[SLOTS]; /* and to how many lives it had come before */
};

void zoo_init(struct zoo *z, struct world *w, struct judge *j, bool used);
struct tr_coord_port zoo_port(struct zoo *z, unsigned seat, uint64_t node);
void zoo_listen(struct zoo *z, unsigned seat, struct tr_coord_ear ear);
/* The process is gone; its session is not. */
void zoo_gone(struct zoo *z, unsigned seat);
/* What may happen to it, every few milliseconds. */
void zoo_fate(struct zoo *z);
/* Does what is due; bits: seats that heard something. */
unsigned zoo_step(struct zoo *z, struct tr_now now);
uint64_t zoo_next(const struct zoo *z);

/* A node sends a call: housekeeping is for those whose session lasts. */
void zoo_sends(struct zoo *z, unsigned seat, const struct tr_span *args, size_t count);
/* A script ran: C8. */
void zoo_ran(struct zoo *z, const struct world_call *call, const struct fake_reply *reply);

#endif
