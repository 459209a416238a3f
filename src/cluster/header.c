/*
 * A job's header: hex numbers of fixed width, so that a script cuts out what it needs, and then
 * four lengths and four texts.
 *
 *     set ver prio due at lease attempts timeouts releases buries kicks why delay ttr ttl
 *      1   8   8   14  14  16      8        8        8      8      8    1   14    14  14
 *     retries flags created | topic tag key backoff: lengths | topic tag key backoff
 *        8      2      14   |     2   2   2       3          |
 *
 * The key stands here, too, since whoever ends a job must take its key out of the table of keys.
 */

#include "cluster/header.h"

#include "base/err.h"
#include "base/text.h"
#include "cluster/hex.h"

#include <string.h>

enum { FIXED = 168, LENGTHS = 9, NUMBERS = 17 };

static const uint8_t widths[NUMBERS] = {8, 8, 14, 14, 16, 8, 8, 8, 8, 8, 1, 14, 14, 14, 8, 2, 14};

static int read_numbers(const char *text, uint64_t v[NUMBERS])
{
    for (unsigned i = 0; i < NUMBERS; i++) {
        if (!tr_hex_get(text, widths[i], &v[i])) {
            return TARRY_EDAMAGED;
        }
        text += widths[i];
    }
    return TARRY_OK;
}

static int read_texts(const char *text, size_t len, struct tr_header *h)
{
    uint64_t n[4];
    const char *at = text + LENGTHS;

    if (!tr_hex_get(text, 2, &n[0]) || !tr_hex_get(text + 2, 2, &n[1]) ||
        !tr_hex_get(text + 4, 2, &n[2]) || !tr_hex_get(text + 6, 3, &n[3]) ||
        n[0] + n[1] + n[2] + n[3] != len - LENGTHS) {
        return TARRY_EDAMAGED;
    }
    h->topic = at;
    h->topic_len = (size_t)n[0];
    h->tag = h->topic + h->topic_len;
    h->tag_len = (size_t)n[1];
    h->key = h->tag + h->tag_len;
    h->key_len = (size_t)n[2];
    h->backoff = h->key + h->key_len;
    h->backoff_len = (size_t)n[3];
    return TARRY_OK;
}

int tr_header_read(const char *text, size_t len, struct tr_header *h)
{
    uint64_t v[NUMBERS];

    if (len < FIXED + LENGTHS || text[0] == '\0' || strchr("srpd", text[0]) == NULL ||
        read_numbers(text + 1, v) != TARRY_OK) {
        return TARRY_EDAMAGED;
    }
    *h = (struct tr_header){
        .set = text[0],
        .ver = (uint32_t)v[0],
        .priority = (uint32_t)v[1],
        .due_us = v[2],
        .at_us = v[3],
        .lease = v[4],
        .attempts = (uint32_t)v[5],
        .timeouts = (uint32_t)v[6],
        .releases = (uint32_t)v[7],
        .buries = (uint32_t)v[8],
        .kicks = (uint32_t)v[9],
        .why = (uint8_t)v[10],
        .delay_us = v[11],
        .ttr_us = v[12],
        .ttl_us = v[13],
        .retries = (uint32_t)v[14],
        .flags = (unsigned)v[15],
        .created_us = v[16],
    };
    return read_texts(text + FIXED, len - FIXED, h);
}

static char *put_text(char *at, const char *text, size_t len)
{
    if (len > 0) {
        memcpy(at, text, len);
    }
    return at + len;
}

size_t tr_header_write(char *out, const struct tr_header *h)
{
    const uint64_t v[NUMBERS] = {h->ver,      h->priority,  h->due_us,   h->at_us,  h->lease,
                                 h->attempts, h->timeouts,  h->releases, h->buries, h->kicks,
                                 h->why,      h->delay_us,  h->ttr_us,   h->ttl_us, h->retries,
                                 h->flags,    h->created_us};
    char *at = out;

    *at++ = h->set;
    for (unsigned i = 0; i < NUMBERS; i++) {
        tr_hex_put(at, widths[i], v[i]);
        at += widths[i];
    }
    tr_hex_put(at, 2, h->topic_len);
    tr_hex_put(at + 2, 2, h->tag_len);
    tr_hex_put(at + 4, 2, h->key_len);
    tr_hex_put(at + 6, 3, h->backoff_len);
    at = put_text(at + LENGTHS, h->topic, h->topic_len);
    at = put_text(at, h->tag, h->tag_len);
    at = put_text(at, h->key, h->key_len);
    at = put_text(at, h->backoff, h->backoff_len);
    return (size_t)(at - out);
}

enum tr_job_state tr_header_state(const struct tr_header *h, uint64_t now_us)
{
    switch (h->set) {
    case 's':
        return h->due_us > now_us ? TR_DELAYED : TR_READY;
    case 'r':
        return TR_READY;
    case 'p':
        return TR_RESERVED;
    default:
        return TR_DEAD;
    }
}

static uint64_t left(uint64_t until_us, uint64_t now_us)
{
    return until_us > now_us ? until_us - now_us : 0;
}

void tr_header_view(const struct tr_header *h, uint64_t id, uint64_t now_us,
                    struct tr_backoff *backoff, struct tr_job_view *view)
{
    enum tr_job_state state = tr_header_state(h, now_us);
    bool own = h->backoff_len > 0 &&
               tr_header_get_backoff(h->backoff, h->backoff_len, backoff) == TARRY_OK;

    *view = (struct tr_job_view){
        .id = id,
        .topic_name = h->topic,
        .topic_name_len = h->topic_len,
        .state = state,
        .priority = h->priority,
        .due_us = h->due_us,
        .created_us = h->created_us,
        .age_us = left(now_us, h->created_us),
        .delay_us = h->delay_us,
        .ttr_us = h->ttr_us,
        .left_us = state == TR_DELAYED    ? left(h->due_us, now_us)
                   : state == TR_RESERVED ? left(h->at_us, now_us)
                                          : 0,
        .lease = state == TR_RESERVED ? h->lease : 0,
        .reserves = h->attempts,
        .timeouts = h->timeouts,
        .releases = h->releases,
        .buries = h->buries,
        .kicks = h->kicks,
        .key = h->key_len > 0 ? h->key : NULL,
        .key_len = h->key_len,
        .tag = h->tag_len > 0 ? h->tag : NULL,
        .tag_len = h->tag_len,
        .ttl_us = (h->flags & TR_HEADER_OWN_TTL) != 0 ? h->ttl_us : 0,
        .has_retries = h->retries != TR_RETRIES_TOPIC,
        .retries = h->retries == TR_RETRIES_NO_END ? -1 : (int64_t)h->retries,
        .backoff = own ? backoff : NULL,
        .dead_why = state == TR_DEAD ? h->why : (uint8_t)TR_WHY_NONE,
        .dead_at_us = state == TR_DEAD ? h->at_us : 0,
        .beanstalk = (h->flags & TR_HEADER_BEANSTALK) != 0,
    };
}

size_t tr_header_put_backoff(char out[TR_HEADER_BACKOFF], const struct tr_backoff *b)
{
    size_t at = 1;

    out[0] = '\0';
    if (b == NULL) {
        return 0;
    }
    if (b->count == 0) {
        tr_text(out, TR_HEADER_BACKOFF, "e%llu,%u,%llu,%u", (unsigned long long)b->base_us,
                (unsigned)b->factor_hundredths, (unsigned long long)b->max_us,
                (unsigned)b->jitter_thousandths);
        return strlen(out);
    }
    out[0] = 'l';
    for (unsigned i = 0; i < b->count; i++) {
        tr_text(out + at, TR_HEADER_BACKOFF - at, "%s%llu", i > 0 ? "," : "",
                (unsigned long long)b->list_us[i]);
        at += strlen(out + at);
    }
    return at;
}

/* The next number and the comma behind it. */
static bool next_number(const char **at, const char *end, uint64_t *v)
{
    const char *p = *at;
    uint64_t sum = 0;

    while (p < end && *p >= '0' && *p <= '9' && sum < UINT64_C(1) << 56) {
        sum = sum * 10 + (uint64_t)(*p - '0');
        p++;
    }
    if (p == *at || (p < end && (*p != ',' || p + 1 == end))) {
        return false;
    }
    *at = p < end ? p + 1 : p;
    *v = sum;
    return true;
}

int tr_header_get_backoff(const char *text, size_t len, struct tr_backoff *b)
{
    const char *at = text + 1;
    const char *end = text + len;
    struct tr_backoff got = {0};
    uint64_t v[TR_BACKOFF_LIST_MAX];
    unsigned n = 0;

    if (len < 2 || (text[0] != 'l' && text[0] != 'e')) {
        return TARRY_EDAMAGED;
    }
    while (at < end) {
        if (n == TR_BACKOFF_LIST_MAX || !next_number(&at, end, &v[n])) {
            return TARRY_EDAMAGED;
        }
        n++;
    }
    if (text[0] == 'l') {
        got.count = n;
        memcpy(got.list_us, v, n * sizeof v[0]);
    } else if (n == 4 && v[1] <= UINT32_MAX && v[3] <= UINT32_MAX) {
        got.base_us = v[0];
        got.factor_hundredths = (uint32_t)v[1];
        got.max_us = v[2];
        got.jitter_thousandths = (uint32_t)v[3];
    } else {
        return TARRY_EDAMAGED;
    }
    if (!tr_backoff_ok(&got)) {
        return TARRY_EDAMAGED;
    }
    *b = got;
    return TARRY_OK;
}
