#ifndef TR_CLUSTER_VIGIL_H
#define TR_CLUSTER_VIGIL_H

/*
 * When to ask again for jobs that somebody on this node waits for: at the next due time that is
 * known, when woken, and once a minute in any case. See vigil.c.
 */

#include "base/check.h"
#include "base/heap.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

/* One topic in one slot. The owner keeps it and does not move it while somebody waits. */
struct tr_watch {
    uint32_t place; /* the heap's; 0: nobody waits */
    uint32_t salt;  /* any number, always the same for this topic and slot */
    bool asking;    /* a question is under way */
    bool again;     /* and meanwhile it was woken */
    uint64_t asked_us;
    uint64_t next_us;
};

struct tr_vigil {
    struct tr_heap heap; /* by next_us */
    bool deaf;           /* wake-ups do not come: the connection for them is down */
};

void tr_vigil_init(struct tr_vigil *g, struct tr_mem *mem);
void tr_vigil_fini(struct tr_vigil *g);

/* Somebody waits: it is asked at once. TARRY_ENOMEM: nothing changed. */
TR_MUST_USE int tr_vigil_add(struct tr_vigil *g, struct tr_watch *w, uint64_t now_us);

/* Nobody waits any more. */
void tr_vigil_remove(struct tr_vigil *g, struct tr_watch *w);

/* One that is to be asked now, and counts as being asked; or NULL. */
struct tr_watch *tr_vigil_take(struct tr_vigil *g, uint64_t now_us);

/* It is asked, though its time had not come: a wake-up from now on may be about what the answer
 * does not have. */
void tr_vigil_asked(struct tr_vigil *g, struct tr_watch *w, uint64_t now_us);

/* It was answered. known_us: when there may be something, UINT64_MAX: it is not known. */
void tr_vigil_answered(struct tr_vigil *g, struct tr_watch *w, uint64_t known_us, uint64_t now_us);

/* A wake-up came: there may be something at known_us. */
void tr_vigil_woken(struct tr_vigil *g, struct tr_watch *w, uint64_t known_us, uint64_t now_us);

/* The connection for wake-ups is down, or is up again. Those who wait are asked each second from
 * their next question on; so whoever tells of this asks for all of them once (tr_vigil_woken). */
void tr_vigil_set_deaf(struct tr_vigil *g, bool deaf);

/* Until when nothing is to be done; UINT64_MAX: nobody waits. */
uint64_t tr_vigil_next(const struct tr_vigil *g);

#endif
