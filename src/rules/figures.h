#ifndef TR_RULES_FIGURES_H
#define TR_RULES_FIGURES_H

/*
 * Figures of a topic: how often of late, and how late. See figures.c.
 *
 * Nothing here is periodic and nothing is durable. Times are those of tr_clock_span, and are given.
 */

#include "base/list.h"
#include "base/mem.h"

#include <stdint.h>

#define TR_RATE_US UINT64_C(10000000)  /* a rate is that of the last ten seconds */
#define TR_LATE_US UINT64_C(120000000) /* lateness is that of the last two to four minutes */

enum { TR_LATE_BUCKETS = 160, TR_LATES_MAX = 1000 };

struct tr_rate {
    uint64_t since_us;
    uint64_t now;    /* events since then */
    uint64_t before; /* and in the ten seconds before */
};

void tr_rate_turn(struct tr_rate *r, uint64_t at_us); /* at_us lies behind the ten seconds */

/* One more. A few ns. */
static inline void tr_rate_add(struct tr_rate *r, uint64_t at_us)
{
    if (at_us - r->since_us >= TR_RATE_US) {
        tr_rate_turn(r, at_us);
    }
    r->now++;
}

uint64_t tr_rate_milli(const struct tr_rate *r, uint64_t at_us); /* events in 1000 seconds */

/* How late jobs were, by powers of two, each cut in four. */
struct tr_late {
    struct tr_list link;    /* of the pool, by since_us */
    struct tr_late **owner; /* what points here */
    uint64_t since_us;
    uint32_t now[TR_LATE_BUCKETS];
    uint32_t before[TR_LATE_BUCKETS];
};

/* Those in use, TR_LATES_MAX at most. */
struct tr_lates {
    struct tr_mem *mem;
    struct tr_list all; /* the first one has been idle for longest */
    unsigned count;
};

void tr_lates_init(struct tr_lates *l, struct tr_mem *mem);

/* Notes that a job became ready late_us after its due time. *owner is NULL at first, and may become
 * NULL again: then another one needed it. Without memory, or if all are busy, nothing is noted. */
void tr_late_add(struct tr_lates *l, struct tr_late **owner, uint64_t late_us, uint64_t at_us);

/* The lateness that `pct` percent of them did not exceed, to an eighth or so. NULL is fine. */
uint64_t tr_late_percentile(const struct tr_late *late, unsigned pct, uint64_t at_us);

void tr_late_drop(struct tr_lates *l, struct tr_late *late);   /* NULL is fine */
void tr_late_give(struct tr_late **from, struct tr_late **to); /* to another owner */

#endif
