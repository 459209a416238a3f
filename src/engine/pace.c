/*
 * The rate of background writes follows what commits feel.
 *
 *     commits while nothing is written in the background  -> p99 alone
 *     commits while something is                          -> p99 beside
 *
 *     beside > 2 x alone: half the rate;  else: twice the rate, up to what the config allows
 *
 * Old figures fade: when there are many, all counts are halved. After the rate was halved the
 * commits beside it are counted anew, since those before it say nothing about it; until enough of
 * them are known it stays, but not for longer than some pieces: with so few commits nobody suffers.
 */

#include "engine/pace.h"

#include <string.h>

enum { ENOUGH = 32, MANY = 4096, LEAST_SHARE = 64, PATIENCE = 8 };

static const uint64_t LEAST_RATE = 1000000;

static unsigned bucket_of(uint64_t us)
{
    unsigned log = 0;
    unsigned bucket;

    if (us < 4) {
        return (unsigned)us;
    }
    while (us >> (log + 1) != 0) {
        log++;
    }
    bucket = 4 * (log - 1) + (unsigned)(us >> (log - 2) & 3);
    return bucket < TR_PACE_BUCKETS ? bucket : TR_PACE_BUCKETS - 1;
}

/* The longest that is counted there. */
static uint64_t end_of(unsigned bucket)
{
    unsigned log = bucket / 4 + 1;

    return bucket < 4 ? bucket : ((UINT64_C(4) + bucket % 4 + 1) << (log - 2)) - 1;
}

void tr_pace_commit(struct tr_pace *p, uint64_t took_us, bool beside)
{
    struct tr_pace_times *t = beside ? &p->beside : &p->alone;

    t->counts[bucket_of(took_us)]++;
    t->total++;
    if (t->total < MANY) {
        return;
    }
    t->total = 0;
    for (unsigned i = 0; i < TR_PACE_BUCKETS; i++) {
        t->counts[i] /= 2;
        t->total += t->counts[i];
    }
}

uint64_t tr_pace_p99(const struct tr_pace_times *t)
{
    uint32_t above = t->total / 100;
    unsigned i = TR_PACE_BUCKETS;

    if (t->total < ENOUGH) {
        return 0;
    }
    do {
        i--;
        if (t->counts[i] > above) {
            return end_of(i);
        }
        above -= t->counts[i];
    } while (i > 0);
    return 0;
}

uint64_t tr_pace_rate(struct tr_pace *p, uint64_t most)
{
    uint64_t alone = tr_pace_p99(&p->alone);
    uint64_t beside = tr_pace_p99(&p->beside);
    uint64_t least = most / LEAST_SHARE > LEAST_RATE ? most / LEAST_SHARE : LEAST_RATE;

    if (most == 0) {
        return 0;
    }
    if (p->rate == 0) {
        p->rate = most;
    } else if (alone != 0 && beside > 2 * alone) {
        p->rate = p->rate / 2;
        p->pieces = 0;
        memset(&p->beside, 0, sizeof p->beside);
    } else if (p->beside.total >= ENOUGH || ++p->pieces >= PATIENCE) {
        p->rate = 2 * p->rate;
        p->pieces = 0;
    }
    p->rate = p->rate > most ? most : p->rate < least ? least : p->rate;
    p->rate = p->rate > most ? most : p->rate; /* if that is less than the least */
    return p->rate;
}
