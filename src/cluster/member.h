#ifndef TR_CLUSTER_MEMBER_H
#define TR_CLUSTER_MEMBER_H

/*
 * Which node does the housekeeping of which slot, and how long it may believe so. See member.c.
 *
 * Nothing depends on this for safety: two owners at once do double work, no harm.
 */

#include "base/check.h"
#include "cluster/place.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_MEMBERS_MAX = 256 };

/* Those who live, as the last beat told, in any order; names as numbers. */
struct tr_members {
    uint64_t nodes[TR_MEMBERS_MAX];
    unsigned count;
};

/* owner[slot]: index into nodes. The same on every node that sees the same members. There is at
 * least one. */
void tr_members_share(const struct tr_members *m, unsigned slots, uint8_t owner[TR_SLOTS_MAX]);

/* A lease on being a member. */
struct tr_tenure {
    uint64_t lease_us;
    uint64_t since_us; /* when the beat that was answered last was sent; 0: none was */
    uint64_t sent_us;  /* when the one under way was; 0: none is */
    uint64_t turn_us;  /* when it was last looked at */
};

void tr_tenure_init(struct tr_tenure *t, uint64_t lease_us);

/* Is it time for a beat? If so it counts as sent. */
bool tr_tenure_beat(struct tr_tenure *t, uint64_t now_us);

/* When to look again: the next beat, or the end of what may be believed. */
uint64_t tr_tenure_next(const struct tr_tenure *t);

/* The beat under way was answered, or is lost. */
void tr_tenure_answered(struct tr_tenure *t);
void tr_tenure_lost(struct tr_tenure *t);

/* Is the last beat that was answered recent enough? */
bool tr_tenure_believes(const struct tr_tenure *t, uint64_t now_us);

/*
 * The same at the beginning of a turn: may it do housekeeping now? Not when the last beat is older
 * than two thirds of the lease, nor in the first look after it stood still for as long.
 */
bool tr_tenure_holds(struct tr_tenure *t, uint64_t now_us);

#endif
