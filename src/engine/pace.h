#ifndef TR_ENGINE_PACE_H
#define TR_ENGINE_PACE_H

/*
 * How fast promotions and merges may write, so that commits, which share the disk, do not suffer.
 * See pace.c. Pure: it knows durations, no clock.
 */

#include <stdbool.h>
#include <stdint.h>

enum { TR_PACE_BUCKETS = 104 };

/* Durations of commits: four buckets for each doubling. */
struct tr_pace_times {
    uint32_t counts[TR_PACE_BUCKETS];
    uint32_t total;
};

struct tr_pace {
    struct tr_pace_times alone;  /* while nothing is written in the background, */
    struct tr_pace_times beside; /* and while something is */
    uint64_t rate;               /* bytes a second that are allowed now; 0: not said yet */
    unsigned pieces;             /* written since, while too few commits were known to judge it */
};

/* A commit took so long. */
void tr_pace_commit(struct tr_pace *p, uint64_t took_us, bool beside);

/* 99 of 100 took at most about so long; 0: too few are known. */
uint64_t tr_pace_p99(const struct tr_pace_times *t);

/* Something was written: at which rate to go on, at most `most` bytes a second. */
uint64_t tr_pace_rate(struct tr_pace *p, uint64_t most);

#endif
