/*
 * Distribution of times.
 *
 * A value of b bits (b > 6) is put by its b and the 5 bits behind its leading one; smaller ones
 * have a bucket each. So a bucket is 1/32 of its values wide, and 60 * 32 of them hold 64 bits.
 */

#include "bench/hist.h"

#include <string.h>

void hist_clear(struct hist *h)
{
    memset(h, 0, sizeof(*h));
}

static unsigned bucket_of(uint64_t value)
{
    unsigned shift;

    if (value >> HIST_SUB_BITS == 0) {
        return (unsigned)value;
    }
    shift = 63u - (unsigned)__builtin_clzll(value) - HIST_SUB_BITS;
    return ((shift + 1) << HIST_SUB_BITS) +
           (unsigned)(value >> shift & ((1u << HIST_SUB_BITS) - 1));
}

/* The largest value of a bucket. */
static uint64_t top_of(unsigned bucket)
{
    unsigned group = bucket >> HIST_SUB_BITS;
    uint64_t sub = bucket & ((1u << HIST_SUB_BITS) - 1);

    if (group == 0) {
        return sub;
    }
    return (((sub | 1u << HIST_SUB_BITS) + 1) << (group - 1)) - 1;
}

void hist_add(struct hist *h, uint64_t value)
{
    h->buckets[bucket_of(value)]++;
    h->count++;
    if (value > h->max) {
        h->max = value;
    }
}

uint64_t hist_part(const struct hist *h, double part)
{
    uint64_t rank = (uint64_t)(part * (double)h->count);
    uint64_t seen = 0;

    for (unsigned i = 0; i < HIST_BUCKETS && h->count > 0; i++) {
        seen += h->buckets[i];
        if (seen > rank || seen == h->count) {
            return top_of(i) < h->max ? top_of(i) : h->max;
        }
    }
    return 0;
}
