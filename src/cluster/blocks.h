#ifndef TR_CLUSTER_BLOCKS_H
#define TR_CLUSTER_BLOCKS_H

/*
 * Sequence numbers of slots, for ids of new jobs, taken from the database some at a time. See
 * blocks.c.
 *
 * Pure: it says when to ask, and for how many. Threads: one.
 */

#include "base/check.h"
#include "cluster/place.h"

#include <stdbool.h>
#include <stdint.h>

/* A slot's numbers. All zero: none yet. */
struct tr_block {
    uint64_t next;     /* the next one to give, */
    uint64_t end;      /* and the first that is not ours; equal: none is left */
    uint64_t until_us; /* boot time: what is left then is given to nobody */
    uint64_t after;    /* the block behind it: its first, */
    uint64_t after_end;
    uint64_t after_until_us;
    uint64_t second; /* boot time in seconds for which these count: */
    uint32_t used;   /* numbers wanted in it, */
    uint32_t before; /* and in the one before */
    bool asked;      /* a question is under way */
};

/* A number for a new job. False: there is none now; tr_block_want says what to ask for. */
TR_MUST_USE bool tr_block_take(struct tr_block *b, uint64_t now_us, uint64_t *seq);

/* How many are to be asked for now; 0: none, or a question is under way already. If it is asked,
 * one of the two below follows. */
uint32_t tr_block_want(const struct tr_block *b, uint64_t now_us);
void tr_block_asked(struct tr_block *b);
/* False: these are numbers that it had before: the database has forgotten, and all is let go. */
TR_MUST_USE bool tr_block_got(struct tr_block *b, uint64_t first, uint32_t count, uint64_t now_us);
void tr_block_failed(struct tr_block *b);

/* A failover of the database may have forgotten what it gave: nothing of it is used any more. */
void tr_block_drop(struct tr_block *b);

#endif
