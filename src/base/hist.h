#ifndef TR_BASE_HIST_H
#define TR_BASE_HIST_H

/*
 * Histograms with few fixed buckets, as monitoring wants them: how many values were not above each
 * bound, how many there were, and their sum. See hist.c for the bounds.
 *
 * Counts only grow. A histogram without a value is all zero.
 */

#include <stdint.h>

enum { TR_HIST_BUCKETS = 16 }; /* at most; the last one in use has no bound */

/* Upper bounds, rising; a value that is equal to one is not above it. */
struct tr_hist_scale {
    unsigned count; /* of bounds: there is one bucket more */
    uint64_t bounds[TR_HIST_BUCKETS - 1];
};

struct tr_hist {
    uint64_t counts[TR_HIST_BUCKETS]; /* by bucket, not added up */
    uint64_t sum;
};

extern const struct tr_hist_scale tr_hist_waits;   /* us: 0.1 ms to 1 h */
extern const struct tr_hist_scale tr_hist_commits; /* us: 50 us to 5 s */
extern const struct tr_hist_scale tr_hist_rounds;  /* us: 20 us to 1 s */
extern const struct tr_hist_scale tr_hist_sizes;   /* 1 to 65,536 */

/* One more value. A few ns; small values are the quickest. */
static inline void tr_hist_add(struct tr_hist *h, const struct tr_hist_scale *s, uint64_t value)
{
    unsigned i = 0;

    while (i < s->count && value > s->bounds[i]) {
        i++;
    }
    h->counts[i]++;
    h->sum += value;
}

/* How many values there were. */
uint64_t tr_hist_total(const struct tr_hist *h);

/* `to` has those of `from`, too; both are of one scale. */
void tr_hist_join(struct tr_hist *to, const struct tr_hist *from);

#endif
