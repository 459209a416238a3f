#ifndef TR_RULES_BUCKET_H
#define TR_RULES_BUCKET_H

/*
 * A token bucket: at most so many per second, and a burst after a rest. See bucket.c.
 *
 * Time is an argument and should not go back; if it does, no token comes until it is made up for.
 */

#include <stdint.h>

#define TR_BUCKET_RATE_MAX UINT64_C(1000000000000) /* thousandths per second: 10^9 a second */
#define TR_BUCKET_BURST_MAX UINT64_C(1000000000)

struct tr_bucket {
    uint64_t rate_milli; /* tokens in 1000 seconds */
    uint64_t burst;
    uint64_t level; /* in 10^-9 tokens, at */
    uint64_t at_us;
};

/* A full one. The rate is 1 to TR_BUCKET_RATE_MAX, the burst 1 to TR_BUCKET_BURST_MAX. */
void tr_bucket_init(struct tr_bucket *b, uint64_t rate_milli, uint64_t burst, uint64_t now_us);

/* Another rate and burst from now on; what is in it stays, up to the new burst. */
void tr_bucket_change(struct tr_bucket *b, uint64_t rate_milli, uint64_t burst, uint64_t now_us);

/* Takes up to `count` tokens and says how many there were. */
uint64_t tr_bucket_take(struct tr_bucket *b, uint64_t count, uint64_t now_us);

/* Puts tokens back that were taken for nothing. */
void tr_bucket_give(struct tr_bucket *b, uint64_t count);

/* The first moment, from now on, at which there is a token; now: there is one. */
uint64_t tr_bucket_next(const struct tr_bucket *b, uint64_t now_us);

/* Burst when none is given: max(1, rate). */
uint64_t tr_bucket_burst_of(uint64_t rate_milli);

#endif
