/*
 * Policies.
 *
 * As bytes, all numbers varints:
 *
 *     which fields are given, a bit each
 *      0 ttr, us            4 rate, in 1000 s    8 dead_keep, us     12 history
 *      1 retries, zigzag    5 burst              9 dead_max          13 spread
 *      2 backoff            6 max_jobs          10 in_flight         14 deliver
 *      3 ttl, us            7 max_bytes         11 jitter, us        15 paused, until (wall, us)
 *                                                                    16 kept, no bytes
 *
 * Backoff and deliver are a length and so many bytes. Fields follow each other in the order of
 * their bits. A bit from 17 on is of a newer version. A field that is not given has no bytes, so
 * what is given by nobody follows the defaults of the version that reads it.
 *
 * A field that is given as what the default is stays given: retries of 16 hold for jobs of the
 * beanstalk port, too, if somebody said so.
 */

#include "rules/policy.h"

#include "base/bytes.h"
#include "base/err.h"
#include "port/request.h"
#include "rules/bucket.h"

#include <assert.h>

static_assert(TR_POLICY_FIELD_COUNT == 17, "the fields above are numbered by the header");
static_assert(17 * TR_VARINT_MAX + 4 + TR_BACKOFF_BYTES + TR_POLICY_DELIVER_MAX <=
                  TR_POLICY_BYTES_MAX,
              "any policy fits");

struct tr_policy tr_policy_default(void)
{
    return (struct tr_policy){
        .ttr_us = TR_POLICY_TTR_US,
        .retries = TR_POLICY_RETRIES_DEFAULT,
        .backoff = tr_backoff_default(),
        .max_jobs = UINT64_MAX,
        .max_bytes = UINT64_MAX,
        .dead_keep_us = TR_POLICY_DEAD_KEEP_US,
        .dead_max = UINT64_MAX,
        .in_flight = UINT64_MAX,
        .history = TR_HISTORY_BRIEF,
        .spread = 1,
    };
}

static bool limits_ok(const struct tr_policy *p)
{
    return p->rate_milli <= TR_BUCKET_RATE_MAX && p->burst <= TR_BUCKET_BURST_MAX &&
           p->in_flight > 0 && p->spread > 0;
}

void tr_policy_fix(const struct tr_policy *p, struct tr_req *r)
{
    if (r->ttr_us == 0 && (p->given & TR_POLICY_BIT(TTR)) != 0) {
        r->ttr_us = p->ttr_us;
    }
    if (r->ttl_us == 0 && (p->given & TR_POLICY_BIT(TTL)) != 0) {
        r->ttl_us = p->ttl_us;
    }
    if (!r->has_retries && (p->given & TR_POLICY_BIT(RETRIES)) != 0) {
        r->has_retries = true;
        r->retries = p->retries;
    }
    if (r->backoff == NULL && (p->given & TR_POLICY_BIT(BACKOFF)) != 0) {
        r->backoff = &p->backoff;
    }
}

uint64_t tr_policy_ttr(uint64_t own_us)
{
    return own_us != 0 ? own_us : TR_POLICY_TTR_US;
}

int64_t tr_policy_retries(bool beanstalk)
{
    return beanstalk ? -1 : TR_POLICY_RETRIES_DEFAULT;
}

bool tr_policy_backoff(bool beanstalk, struct tr_backoff *b)
{
    *b = tr_backoff_default();
    return !beanstalk;
}

bool tr_policy_ok(const struct tr_policy *p)
{
    return (p->given & ~TR_POLICY_ALL) == 0 && p->ttr_us > 0 && p->ttr_us <= TR_DELAY_MAX_US &&
           p->retries >= -1 && tr_backoff_ok(&p->backoff) && p->ttl_us <= TR_DELAY_MAX_US &&
           (p->dead_keep_us <= TR_DELAY_MAX_US || p->dead_keep_us == UINT64_MAX) &&
           p->jitter_us <= TR_DELAY_MAX_US && (unsigned)p->history <= TR_HISTORY_FULL &&
           p->paused <= (TR_PAUSED_IN | TR_PAUSED_OUT) && p->deliver_len <= TR_POLICY_DELIVER_MAX &&
           (p->deliver != NULL || p->deliver_len == 0) && limits_ok(p);
}

/* One field of another policy. */
static void change(struct tr_policy *to, const struct tr_policy *from, enum tr_policy_field field)
{
    switch (field) {
    case TR_POLICY_TTR:
        to->ttr_us = from->ttr_us;
        break;
    case TR_POLICY_RETRIES:
        to->retries = from->retries;
        break;
    case TR_POLICY_BACKOFF:
        to->backoff = from->backoff;
        break;
    case TR_POLICY_TTL:
        to->ttl_us = from->ttl_us;
        break;
    case TR_POLICY_RATE:
        to->rate_milli = from->rate_milli;
        break;
    case TR_POLICY_BURST:
        to->burst = from->burst;
        break;
    case TR_POLICY_MAX_JOBS:
        to->max_jobs = from->max_jobs;
        break;
    case TR_POLICY_MAX_BYTES:
        to->max_bytes = from->max_bytes;
        break;
    case TR_POLICY_DEAD_KEEP:
        to->dead_keep_us = from->dead_keep_us;
        break;
    case TR_POLICY_DEAD_MAX:
        to->dead_max = from->dead_max;
        break;
    case TR_POLICY_IN_FLIGHT:
        to->in_flight = from->in_flight;
        break;
    case TR_POLICY_JITTER:
        to->jitter_us = from->jitter_us;
        break;
    case TR_POLICY_HISTORY:
        to->history = from->history;
        break;
    case TR_POLICY_SPREAD:
        to->spread = from->spread;
        break;
    case TR_POLICY_DELIVER:
        to->deliver = from->deliver;
        to->deliver_len = from->deliver_len;
        break;
    case TR_POLICY_PAUSED:
        to->paused = from->paused;
        to->paused_until_us = from->paused_until_us;
        break;
    case TR_POLICY_KEPT:
    case TR_POLICY_FIELD_COUNT:
        break;
    }
}

void tr_policy_change(struct tr_policy *to, const struct tr_policy *from, unsigned fields)
{
    struct tr_policy none = tr_policy_default();

    for (unsigned i = 0; i < TR_POLICY_FIELD_COUNT; i++) {
        unsigned bit = 1U << i;

        if (fields & bit) {
            change(to, from->given & bit ? from : &none, (enum tr_policy_field)i);
            to->given = (to->given & ~bit) | (from->given & bit);
        }
    }
}

/* The numbers, each a varint; the others are dealt with apart. */
static uint64_t *number(struct tr_policy *p, enum tr_policy_field field)
{
    switch (field) {
    case TR_POLICY_TTR:
        return &p->ttr_us;
    case TR_POLICY_TTL:
        return &p->ttl_us;
    case TR_POLICY_RATE:
        return &p->rate_milli;
    case TR_POLICY_BURST:
        return &p->burst;
    case TR_POLICY_MAX_JOBS:
        return &p->max_jobs;
    case TR_POLICY_MAX_BYTES:
        return &p->max_bytes;
    case TR_POLICY_DEAD_KEEP:
        return &p->dead_keep_us;
    case TR_POLICY_DEAD_MAX:
        return &p->dead_max;
    case TR_POLICY_IN_FLIGHT:
        return &p->in_flight;
    case TR_POLICY_JITTER:
        return &p->jitter_us;
    default:
        return NULL;
    }
}

static size_t put_bytes(uint8_t *out, const void *bytes, size_t len)
{
    size_t head = tr_put_varint(out, len);

    for (size_t i = 0; i < len; i++) {
        out[head + i] = ((const uint8_t *)bytes)[i];
    }
    return head + len;
}

static size_t put_other(uint8_t *out, const struct tr_policy *p, enum tr_policy_field field)
{
    uint8_t backoff[TR_BACKOFF_BYTES];
    size_t len;

    switch (field) {
    case TR_POLICY_RETRIES:
        return tr_put_varint(out, tr_zigzag(p->retries));
    case TR_POLICY_BACKOFF:
        return put_bytes(out, backoff, tr_backoff_encode(backoff, &p->backoff));
    case TR_POLICY_HISTORY:
        return tr_put_varint(out, p->history);
    case TR_POLICY_SPREAD:
        return tr_put_varint(out, p->spread);
    case TR_POLICY_DELIVER:
        return put_bytes(out, p->deliver, p->deliver_len);
    case TR_POLICY_KEPT:
        return 0;
    default: /* PAUSED */
        len = tr_put_varint(out, p->paused);
        return len + tr_put_varint(out + len, p->paused_until_us);
    }
}

size_t tr_policy_encode(uint8_t *out, const struct tr_policy *p)
{
    struct tr_policy copy = *p;
    size_t len = tr_put_varint(out, p->given);

    TR_CHECK(tr_policy_ok(p));
    for (unsigned i = 0; i < TR_POLICY_FIELD_COUNT; i++) {
        const uint64_t *n = number(&copy, (enum tr_policy_field)i);

        if (p->given >> i & 1) {
            len += n != NULL ? tr_put_varint(out + len, *n)
                             : put_other(out + len, p, (enum tr_policy_field)i);
        }
    }
    return len;
}

static uint32_t get_upto(struct tr_reader *r, uint32_t max)
{
    uint64_t v = tr_read_varint(r);

    r->bad |= v > max;
    return v <= max ? (uint32_t)v : 0;
}

static void get_other(struct tr_reader *r, struct tr_policy *p, enum tr_policy_field field)
{
    const uint8_t *at;
    size_t len;

    switch (field) {
    case TR_POLICY_RETRIES:
        p->retries = tr_read_signed(r);
        return;
    case TR_POLICY_BACKOFF:
        len = get_upto(r, TR_BACKOFF_BYTES);
        at = tr_read_bytes(r, len);
        r->bad = r->bad || tr_backoff_decode(at, len, &p->backoff) != TARRY_OK;
        return;
    case TR_POLICY_HISTORY:
        p->history = (enum tr_history)get_upto(r, TR_HISTORY_FULL);
        return;
    case TR_POLICY_SPREAD:
        p->spread = get_upto(r, UINT32_MAX);
        return;
    case TR_POLICY_DELIVER:
        p->deliver_len = get_upto(r, TR_POLICY_DELIVER_MAX);
        p->deliver = (const char *)tr_read_bytes(r, p->deliver_len);
        return;
    case TR_POLICY_KEPT:
        return;
    default: /* PAUSED */
        p->paused = get_upto(r, TR_PAUSED_IN | TR_PAUSED_OUT);
        p->paused_until_us = tr_read_varint(r);
    }
}

int tr_policy_decode(const uint8_t *bytes, size_t len, struct tr_policy *policy)
{
    struct tr_reader r = tr_reader_of(bytes, len);
    uint64_t given = tr_read_varint(&r);
    struct tr_policy p = tr_policy_default();

    *policy = p;
    if (!r.bad && given > TR_POLICY_ALL) {
        return TARRY_EVERSION;
    }
    p.given = (unsigned)given;
    for (unsigned i = 0; i < TR_POLICY_FIELD_COUNT && !r.bad; i++) {
        uint64_t *n = number(&p, (enum tr_policy_field)i);

        if ((p.given >> i & 1) == 0) {
            continue;
        }
        if (n != NULL) {
            *n = tr_read_varint(&r);
        } else {
            get_other(&r, &p, (enum tr_policy_field)i);
        }
    }
    if (r.bad || tr_reader_left(&r) != 0 || !tr_policy_ok(&p)) {
        return TARRY_EDAMAGED;
    }
    *policy = p;
    return TARRY_OK;
}
