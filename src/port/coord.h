#ifndef TR_PORT_COORD_H
#define TR_PORT_COORD_H

/*
 * The coordinator as pure code sees it: who says which nodes are alive, so that each slot's
 * housekeeping is done by one of them. Leases in Redis (cluster/home.c) and ZooKeeper
 * (remote/zoo.c) answer it, and in the simulator dice do.
 *
 * The rules, which both sides keep:
 *
 *     1. A beat says: this node lives; who else does? It is answered once, by members or failed,
 *        and never from inside beat. There is one under way at a time. The first one joins.
 *     2. members: this node is one of them, and nobody will be told otherwise for session_us,
 *        counted from when the beat was asked. So whoever counts from there stops in time, however
 *        long the answer took.
 *     3. failed: none of this is known. The node may be a member all the same.
 *     4. changed: somebody came or went, or may have: a beat is worth while. At any time, but not
 *        from inside beat.
 *     5. After leave nothing more is heard, and others need not wait for the end of the session.
 *
 * Nothing depends on any of it for safety: two nodes that both look after a slot do double work.
 */

#include "port/clock.h"

#include <stdint.h>

enum { TR_COORD_MEMBERS = 256 };

/* What the engine asks. */
struct tr_coord_port {
    void *ctx;
    const char *kind;  /* for people: redis, zookeeper */
    const char *place; /* where in that, or NULL: nodes of one store have the same */
    void (*beat)(void *ctx);
    void (*leave)(void *ctx);
};

struct tr_coord_view {
    const uint64_t *nodes; /* names, each once, in any order */
    unsigned count;
    uint64_t session_us;
};

/* What the engine hears. */
struct tr_coord_ear {
    void *ctx;
    void (*members)(void *ctx, const struct tr_coord_view *view, struct tr_now now);
    void (*failed)(void *ctx, const char *why, struct tr_now now); /* why: for people */
    void (*changed)(void *ctx, struct tr_now now);
};

#endif
