/*
 * Rates and lateness, of late.
 *
 *     before: [ 10 s )   now: [ 10 s )          the rate at x: all of now, and of before the part
 *            |----------|----x                  that lies within ten seconds of x, if its events
 *                  |---------|                  were spread evenly
 *
 * Two counters and the time at which the second began; an event compares and adds, and every ten
 * seconds, if there is one, moves on. When nothing happens nothing is done: who asks sees how long
 * ago it was. Lateness is the same with 160 counters instead of one: a bucket for each quarter of a
 * power of two, so what it says is right to an eighth. They take 1.3 KiB, so only 1,000 topics have
 * them: who has not used his for four minutes loses it to another that needs one.
 */

#include "rules/figures.h"

#include <string.h>

/* What is left of the ten seconds before, of 1000 parts. */
static uint64_t part_left(uint64_t since_us, uint64_t at_us, uint64_t window_us)
{
    uint64_t passed = at_us - since_us;

    return passed < window_us ? (window_us - passed) * 1000 / window_us : 0;
}

void tr_rate_turn(struct tr_rate *r, uint64_t at_us)
{
    bool next = at_us - r->since_us < 2 * TR_RATE_US;

    r->before = next ? r->now : 0;
    r->since_us = next ? r->since_us + TR_RATE_US : at_us;
    r->now = 0;
}

uint64_t tr_rate_milli(const struct tr_rate *r, uint64_t at_us)
{
    struct tr_rate now = *r;

    if (at_us - now.since_us >= TR_RATE_US) {
        tr_rate_turn(&now, at_us);
    }
    return (now.now * 1000 + now.before * part_left(now.since_us, at_us, TR_RATE_US)) * 1000000 /
           TR_RATE_US;
}

/* ---- lateness ---- */

static unsigned bucket_of(uint64_t late_us)
{
    unsigned power;
    unsigned bucket;

    if (late_us < 4) {
        return (unsigned)late_us;
    }
    power = 63 - (unsigned)__builtin_clzll(late_us);
    bucket = (power - 1) * 4 + (unsigned)(late_us >> (power - 2) & 3);
    return bucket < TR_LATE_BUCKETS ? bucket : TR_LATE_BUCKETS - 1;
}

/* The middle of a bucket. */
static uint64_t value_of(unsigned bucket)
{
    unsigned power = bucket / 4 + 1;
    uint64_t width;

    if (bucket < 4) {
        return bucket;
    }
    width = UINT64_C(1) << (power - 2);
    return (4 + bucket % 4) * width + width / 2;
}

void tr_lates_init(struct tr_lates *l, struct tr_mem *mem)
{
    *l = (struct tr_lates){.mem = mem};
    tr_list_init(&l->all);
}

/* A new one, or one that nobody has used for long; or NULL. */
static struct tr_late *get(struct tr_lates *l, uint64_t at_us)
{
    struct tr_late *late = TR_CONTAINER_OF(l->all.next, struct tr_late, link);

    if (l->count < TR_LATES_MAX) {
        late = tr_mem_alloc(l->mem, sizeof *late);
        l->count += late != NULL;
        return late;
    }
    if (at_us - late->since_us < 2 * TR_LATE_US) {
        return NULL;
    }
    *late->owner = NULL;
    tr_list_remove(&late->link);
    memset(late, 0, sizeof *late);
    return late;
}

/* The two minutes are over. */
static void turn(struct tr_lates *l, struct tr_late *late, uint64_t at_us)
{
    bool next = at_us - late->since_us < 2 * TR_LATE_US;

    if (next) {
        memcpy(late->before, late->now, sizeof late->before);
    } else {
        memset(late->before, 0, sizeof late->before);
    }
    memset(late->now, 0, sizeof late->now);
    late->since_us = next ? late->since_us + TR_LATE_US : at_us;
    tr_list_remove(&late->link);
    tr_list_append(&l->all, &late->link);
}

void tr_late_add(struct tr_lates *l, struct tr_late **owner, uint64_t late_us, uint64_t at_us)
{
    struct tr_late *late = *owner;

    if (late == NULL) {
        late = get(l, at_us);
        if (late == NULL) {
            return;
        }
        late->owner = owner;
        late->since_us = at_us;
        *owner = late;
        tr_list_append(&l->all, &late->link);
    } else if (at_us - late->since_us >= TR_LATE_US) {
        turn(l, late, at_us);
    }
    late->now[bucket_of(late_us)]++;
}

uint64_t tr_late_percentile(const struct tr_late *late, unsigned pct, uint64_t at_us)
{
    uint64_t passed = late != NULL ? at_us - late->since_us : UINT64_MAX;
    bool with_before = passed < TR_LATE_US;
    bool with_now = passed < 2 * TR_LATE_US;
    uint64_t all = 0;
    uint64_t sum = 0;

    for (unsigned i = 0; i < TR_LATE_BUCKETS && with_now; i++) {
        all += (uint64_t)late->now[i] + (with_before ? late->before[i] : 0);
    }
    for (unsigned i = 0; i < TR_LATE_BUCKETS && all != 0; i++) {
        sum += (uint64_t)late->now[i] + (with_before ? late->before[i] : 0);
        if (sum * 100 >= all * pct) {
            return value_of(i);
        }
    }
    return 0;
}

void tr_late_drop(struct tr_lates *l, struct tr_late *late)
{
    if (late != NULL) {
        tr_list_remove(&late->link);
        l->count--;
        tr_mem_free(l->mem, late, sizeof *late);
    }
}

void tr_late_give(struct tr_late **from, struct tr_late **to)
{
    *to = *from;
    *from = NULL;
    if (*to != NULL) {
        (*to)->owner = to;
    }
}
