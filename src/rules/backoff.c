/*
 * Backoff.
 *
 *     list                    4m,10m,1h           after attempt 1, 2, 3; then 1h for ever
 *     exp(base,factor,max,j)  base * factor^(n-1), at most max; then up to j of that is added
 *
 * All in integers: the factor is in hundredths, so each step is the delay before times a whole
 * number over 100, rounded down. Finer factors are refused. They would also make the way to max
 * long: with 1.01 it is 2,900 steps at most, a few microseconds.
 *
 * As bytes: varint count, then so many varints, us; or, if it is 0, varints base, max (us), factor
 * (hundredths) and jitter (thousandths).
 */

#include "rules/backoff.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/text.h"
#include "port/request.h"
#include "rules/decimal.h"
#include "rules/duration.h"

#include <assert.h>
#include <string.h>

enum { FACTOR_PLACES = 2, FACTOR_ONE = 100, FACTOR_MAX = 1000 * FACTOR_ONE };
enum { JITTER_PLACES = 3, JITTER_ONE = 1000 };

static const char exp_open[] = "exp(";
static const char not_one[] = "is no backoff: write a list such as 4m,10m,1h, or "
                              "exp(base,factor,max,jitter) such as exp(1s,2,1h,0.1)";

struct text {
    const char *at;
    size_t len;
};

size_t tr_backoff_size(const struct tr_backoff *b)
{
    return offsetof(struct tr_backoff, list_us) + b->count * sizeof b->list_us[0];
}

struct tr_backoff tr_backoff_default(void)
{
    return (struct tr_backoff){
        .base_us = 1000000,
        .max_us = UINT64_C(3600) * 1000000,
        .factor_hundredths = 2 * FACTOR_ONE,
        .jitter_thousandths = JITTER_ONE / 10,
    };
}

static struct text trim(struct text t)
{
    while (t.len > 0 && t.at[0] == ' ') {
        t.at++;
        t.len--;
    }
    while (t.len > 0 && t.at[t.len - 1] == ' ') {
        t.len--;
    }
    return t;
}

/* Takes what stands before the next comma, or all. */
static struct text take_part(struct text *t)
{
    const char *comma = t->len > 0 ? memchr(t->at, ',', t->len) : NULL;
    struct text part = {t->at, comma != NULL ? (size_t)(comma - t->at) : t->len};
    size_t gone = part.len + (comma != NULL);

    t->at += gone;
    t->len -= gone;
    return trim(part);
}

static unsigned count_parts(struct text t)
{
    unsigned count = 1;

    for (size_t i = 0; i < t.len; i++) {
        count += t.at[i] == ',';
    }
    return count;
}

static int read_list(struct text t, struct tr_backoff *b, const char **why)
{
    unsigned count = count_parts(t);

    if (count > TR_BACKOFF_LIST_MAX) {
        *why = "has more than 32 delays";
        return TARRY_EINVAL;
    }
    for (unsigned i = 0; i < count; i++) {
        struct text part = take_part(&t);

        if (tr_duration_read(part.at, part.len, &b->list_us[i], why) != TARRY_OK) {
            *why = part.len == 0 ? not_one : *why;
            return TARRY_EINVAL;
        }
    }
    b->count = count;
    return TARRY_OK;
}

static int read_decimal(struct text part, unsigned places, uint32_t most, uint32_t *scaled)
{
    uint64_t wide;

    if (!tr_decimal_read(part.at, part.len, places, most, &wide)) {
        return TARRY_EINVAL;
    }
    *scaled = (uint32_t)wide;
    return TARRY_OK;
}

/* The four between the brackets. */
static int read_exp(struct text t, struct tr_backoff *b, const char **why)
{
    struct text base = take_part(&t);
    struct text factor = take_part(&t);
    struct text max = take_part(&t);

    if (tr_duration_read(base.at, base.len, &b->base_us, why) != TARRY_OK ||
        tr_duration_read(max.at, max.len, &b->max_us, why) != TARRY_OK) {
        return TARRY_EINVAL;
    }
    if (read_decimal(factor, FACTOR_PLACES, FACTOR_MAX, &b->factor_hundredths) != TARRY_OK ||
        b->factor_hundredths < FACTOR_ONE) {
        *why = "has a wrong factor: it is 1 to 1000, with up to two places such as 1.25";
        return TARRY_EINVAL;
    }
    if (read_decimal(trim(t), JITTER_PLACES, JITTER_ONE, &b->jitter_thousandths) != TARRY_OK) {
        *why = "has a wrong jitter: it is 0 to 1, with up to three places such as 0.1";
        return TARRY_EINVAL;
    }
    if (b->base_us > b->max_us) {
        *why = "has a base longer than its max";
        return TARRY_EINVAL;
    }
    return TARRY_OK;
}

int tr_backoff_read(const char *text, size_t len, struct tr_backoff *b, const char **why)
{
    struct text t = trim((struct text){text, len});
    size_t open = strlen(exp_open);
    struct tr_backoff read = {0};
    int err;

    *why = not_one;
    if (t.len > open && memcmp(t.at, exp_open, open) == 0) {
        struct text inside = {t.at + open, t.len - open - 1};

        if (t.at[t.len - 1] != ')' || count_parts(inside) != 4) {
            return TARRY_EINVAL;
        }
        err = read_exp(inside, &read, why);
    } else if (t.len > 0) {
        err = read_list(t, &read, why);
    } else {
        err = TARRY_EINVAL;
    }
    if (err == TARRY_OK) {
        *b = read;
        *why = NULL;
    }
    return err;
}

void tr_backoff_print(char out[TR_BACKOFF_TEXT], const struct tr_backoff *b)
{
    char base[TR_DURATION_TEXT];
    char max[TR_DURATION_TEXT];
    char factor[TR_DECIMAL_TEXT];
    char jitter[TR_DECIMAL_TEXT];
    size_t used = 0;

    for (unsigned i = 0; i < b->count; i++) {
        tr_duration_print(base, b->list_us[i]);
        tr_text(out + used, TR_BACKOFF_TEXT - used, "%s%s", i > 0 ? "," : "", base);
        used += strlen(out + used);
    }
    if (b->count == 0) {
        tr_duration_print(base, b->base_us);
        tr_duration_print(max, b->max_us);
        tr_decimal_print(factor, b->factor_hundredths, FACTOR_PLACES);
        tr_decimal_print(jitter, b->jitter_thousandths, JITTER_PLACES);
        tr_text(out, TR_BACKOFF_TEXT, "exp(%s,%s,%s,%s)", base, factor, max, jitter);
    }
}

static_assert((TR_BACKOFF_LIST_MAX + 1) * TR_VARINT_MAX <= TR_BACKOFF_BYTES, "any list fits");

bool tr_backoff_ok(const struct tr_backoff *b)
{
    for (unsigned i = 0; i < b->count && b->count <= TR_BACKOFF_LIST_MAX; i++) {
        if (b->list_us[i] > TR_DELAY_MAX_US) {
            return false;
        }
    }
    if (b->count != 0) {
        return b->count <= TR_BACKOFF_LIST_MAX;
    }
    return b->base_us <= b->max_us && b->max_us <= TR_DELAY_MAX_US &&
           b->factor_hundredths >= FACTOR_ONE && b->factor_hundredths <= FACTOR_MAX &&
           b->jitter_thousandths <= JITTER_ONE;
}

size_t tr_backoff_encode(uint8_t *out, const struct tr_backoff *b)
{
    size_t len = tr_put_varint(out, b->count);

    TR_CHECK(b->count <= TR_BACKOFF_LIST_MAX);
    for (unsigned i = 0; i < b->count; i++) {
        len += tr_put_varint(out + len, b->list_us[i]);
    }
    if (b->count == 0) {
        len += tr_put_varint(out + len, b->base_us);
        len += tr_put_varint(out + len, b->max_us);
        len += tr_put_varint(out + len, b->factor_hundredths);
        len += tr_put_varint(out + len, b->jitter_thousandths);
    }
    return len;
}

static uint32_t read_u32(struct tr_reader *r)
{
    uint64_t v = tr_read_varint(r);

    r->bad |= v > UINT32_MAX;
    return (uint32_t)v;
}

int tr_backoff_decode(const uint8_t *p, size_t len, struct tr_backoff *b)
{
    struct tr_reader r = tr_reader_of(p, len);

    *b = (struct tr_backoff){.count = read_u32(&r)};
    for (unsigned i = 0; i < b->count && i < TR_BACKOFF_LIST_MAX; i++) {
        b->list_us[i] = tr_read_varint(&r);
    }
    if (b->count == 0) {
        b->base_us = tr_read_varint(&r);
        b->max_us = tr_read_varint(&r);
        b->factor_hundredths = read_u32(&r);
        b->jitter_thousandths = read_u32(&r);
    }
    return !r.bad && tr_reader_left(&r) == 0 && tr_backoff_ok(b) ? TARRY_OK : TARRY_EDAMAGED;
}

/* a * num / den, rounded down, where only the result must fit. num and den are small. */
static uint64_t times(uint64_t a, uint64_t num, uint64_t den)
{
    return a / den * num + a % den * num / den;
}

static uint64_t grown(const struct tr_backoff *b, uint32_t attempt)
{
    uint64_t us = b->base_us;

    for (uint32_t i = 1; i < attempt && us < b->max_us; i++) {
        uint64_t next = times(us, b->factor_hundredths, FACTOR_ONE);

        if (next == us) { /* a factor of 1, or too few microseconds to grow */
            break;
        }
        us = next;
    }
    return us < b->max_us ? us : b->max_us;
}

bool tr_backoff_waits(const struct tr_backoff *b)
{
    return (b->count > 0 ? b->list_us[b->count - 1] : b->base_us) != 0;
}

uint64_t tr_backoff_delay(const struct tr_backoff *b, uint32_t attempt, uint64_t random)
{
    struct tr_rng r = {random};
    uint64_t us;

    TR_CHECK(attempt > 0);
    if (b->count > 0) {
        return b->list_us[(attempt < b->count ? attempt : b->count) - 1];
    }
    us = grown(b, attempt);
    return us + tr_rng_below(&r, times(us, b->jitter_thousandths, JITTER_ONE) + 1);
}
