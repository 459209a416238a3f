#ifndef TR_BENCH_HIST_H
#define TR_BENCH_HIST_H

/*
 * Distribution of times: buckets that grow with the value, so that a percentile is right to 1/32
 * (3 %) from one nanosecond to centuries. See hist.c.
 */

#include <stdint.h>

enum { HIST_SUB_BITS = 5, HIST_BUCKETS = (64 - HIST_SUB_BITS + 1) << HIST_SUB_BITS };

struct hist {
    uint64_t count;
    uint64_t max;
    uint64_t buckets[HIST_BUCKETS];
};

void hist_clear(struct hist *h);
void hist_add(struct hist *h, uint64_t value);

/* The value that a part (0 to 1) of all do not exceed, at most 3 % too large; 0 when empty. */
uint64_t hist_part(const struct hist *h, double part);

#endif
