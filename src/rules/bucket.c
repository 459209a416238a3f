/*
 * A token bucket without fractions: a token is 10^9 grains, and a rate in thousandths per second is
 * just as many grains per microsecond. So filling is one multiplication, exact, whatever the rate
 * and however often it is asked; nothing is ever rounded away.
 *
 * Invariant: level <= burst * 10^9.
 */

#include "rules/bucket.h"

#include "base/check.h"

#define TOKEN UINT64_C(1000000000)

static uint64_t room(const struct tr_bucket *b)
{
    return b->burst * TOKEN - b->level;
}

static uint64_t level_at(const struct tr_bucket *b, uint64_t now_us)
{
    uint64_t gone_us = now_us > b->at_us ? now_us - b->at_us : 0;

    if (gone_us > room(b) / b->rate_milli) { /* also: the product could be too large */
        return b->burst * TOKEN;
    }
    return b->level + gone_us * b->rate_milli;
}

static void fill(struct tr_bucket *b, uint64_t now_us)
{
    b->level = level_at(b, now_us);
    b->at_us = now_us > b->at_us ? now_us : b->at_us;
}

void tr_bucket_init(struct tr_bucket *b, uint64_t rate_milli, uint64_t burst, uint64_t now_us)
{
    TR_CHECK(rate_milli >= 1 && rate_milli <= TR_BUCKET_RATE_MAX);
    TR_CHECK(burst >= 1 && burst <= TR_BUCKET_BURST_MAX);
    *b = (struct tr_bucket){rate_milli, burst, burst * TOKEN, now_us};
}

void tr_bucket_change(struct tr_bucket *b, uint64_t rate_milli, uint64_t burst, uint64_t now_us)
{
    struct tr_bucket next;

    fill(b, now_us);
    tr_bucket_init(&next, rate_milli, burst, b->at_us);
    next.level = b->level < next.level ? b->level : next.level;
    *b = next;
}

uint64_t tr_bucket_take(struct tr_bucket *b, uint64_t count, uint64_t now_us)
{
    uint64_t have;

    fill(b, now_us);
    have = b->level / TOKEN;
    count = count < have ? count : have;
    b->level -= count * TOKEN;
    return count;
}

void tr_bucket_give(struct tr_bucket *b, uint64_t count)
{
    uint64_t fits = room(b) / TOKEN;

    b->level = count > fits ? b->burst * TOKEN : b->level + count * TOKEN;
}

uint64_t tr_bucket_next(const struct tr_bucket *b, uint64_t now_us)
{
    uint64_t level = level_at(b, now_us);
    uint64_t from_us = now_us > b->at_us ? now_us : b->at_us;
    uint64_t wait_us;

    if (level >= TOKEN) {
        return now_us;
    }
    wait_us = (TOKEN - level + b->rate_milli - 1) / b->rate_milli;
    return wait_us < UINT64_MAX - from_us ? from_us + wait_us : UINT64_MAX;
}

uint64_t tr_bucket_burst_of(uint64_t rate_milli)
{
    uint64_t burst = rate_milli / 1000;

    return burst < 1 ? 1 : burst;
}
