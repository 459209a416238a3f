/*
 * A job's header: bytes in the order of the network, so that a script reads what it needs in one
 * go. What most jobs do not have is not there.
 *
 *     set flags ver prio due attempts | at lease      | created delay size | ttr ttl retries
 *      1    1    4   4    7     4     |  7   8 (p, d) |    7      7    3   |  7   7     4    (OWN)
 *     timeouts releases buries kicks why | topic     | tag key backoff: lengths, then these
 *        4        4       4      4    1  | 1, text   |  1   1     2     and the schedule (NAMES)
 *                                 (PAST)
 *
 * A job that waits and has nothing of its own takes 39 bytes and its topic's name. The key stands
 * here, too, since whoever ends a job must take its key out of the table of keys. Flags of groups
 * and TTL (it can expire) follow from the rest: only those of enum tr_header_flag are told outside.
 */

#include "cluster/header.h"

#include "base/err.h"
#include "base/text.h"
#include "rules/policy.h"

#include <string.h>

enum {
    OWN = 8,
    PAST = 16,
    NAMES = 32,
    TTL = 64,
    FLAGS_OUTSIDE = TR_HEADER_BEANSTALK | TR_HEADER_HELD,
    TIME = 7, /* bytes of a time */
    FRONT = 1 + 1 + 4 + 4 + TIME + 4,
    HAND = TIME + 8,
    SIZE = 3, /* bytes of how many its body has: whoever ends a job takes them off its topic's */
    MADE = TIME + TIME + SIZE,
    OWN_SIZE = TIME + TIME + 4,
    PAST_SIZE = 4 * 4 + 1,
};

static char *put(char *at, unsigned width, uint64_t v)
{
    for (unsigned i = width; i > 0; i--) {
        at[i - 1] = (char)(unsigned char)(v & 255);
        v >>= 8;
    }
    return at + width;
}

static uint64_t get(const char **at, unsigned width)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < width; i++) {
        v = v << 8 | (unsigned char)(*at)[i];
    }
    *at += width;
    return v;
}

static bool is_out(char set)
{
    return set == 'p' || set == 'd';
}

/* The texts at the end; TARRY_EDAMAGED: they are not as long as they say. */
static int read_texts(const char *at, const char *end, bool names, struct tr_header *h)
{
    if (at == end) {
        return TARRY_EDAMAGED;
    }
    h->topic_len = (size_t)get(&at, 1);
    h->topic = at;
    if ((size_t)(end - at) < h->topic_len + (names ? 4 : 0)) {
        return TARRY_EDAMAGED;
    }
    at += h->topic_len;
    if (names) {
        h->tag_len = (size_t)get(&at, 1);
        h->key_len = (size_t)get(&at, 1);
        h->backoff_len = (size_t)get(&at, 2);
    }
    h->tag = at;
    h->key = h->tag + h->tag_len;
    h->backoff = h->key + h->key_len;
    if ((size_t)(end - at) < h->tag_len + h->key_len + h->backoff_len) {
        return TARRY_EDAMAGED;
    }
    h->schedule = h->backoff + h->backoff_len;
    h->schedule_len = (size_t)(end - h->schedule);
    return h->schedule_len == 0 || names ? TARRY_OK : TARRY_EDAMAGED;
}

static void read_groups(const char **at, unsigned flags, struct tr_header *h)
{
    if (is_out(h->set)) {
        h->at_us = get(at, TIME);
        h->lease = get(at, 8);
    }
    h->created_us = get(at, TIME);
    h->delay_us = get(at, TIME);
    h->body_len = (uint32_t)get(at, SIZE);
    if ((flags & OWN) != 0) {
        h->ttr_us = get(at, TIME);
        h->ttl_us = get(at, TIME);
        h->retries = (uint32_t)get(at, 4);
    }
    if ((flags & PAST) != 0) {
        h->timeouts = (uint32_t)get(at, 4);
        h->releases = (uint32_t)get(at, 4);
        h->buries = (uint32_t)get(at, 4);
        h->kicks = (uint32_t)get(at, 4);
        h->why = (uint8_t)get(at, 1);
    }
}

int tr_header_read(const char *text, size_t len, struct tr_header *h)
{
    const char *at = text + 2;
    unsigned flags = len > 1 ? (unsigned char)text[1] : 0;
    size_t least = FRONT + MADE;

    if (len < FRONT || text[0] == '\0' || strchr("srpd", text[0]) == NULL || flags >= 2 * TTL) {
        return TARRY_EDAMAGED;
    }
    least += is_out(text[0]) ? HAND : 0;
    least += (flags & OWN) != 0 ? OWN_SIZE : 0;
    least += (flags & PAST) != 0 ? PAST_SIZE : 0;
    if (len < least) {
        return TARRY_EDAMAGED;
    }
    *h = (struct tr_header){
        .set = text[0], .flags = flags & FLAGS_OUTSIDE, .retries = TR_RETRIES_USUAL};
    h->ver = (uint32_t)get(&at, 4);
    h->priority = (uint32_t)get(&at, 4);
    h->due_us = get(&at, TIME);
    h->attempts = (uint32_t)get(&at, 4);
    read_groups(&at, flags, h);
    if ((h->ttl_us != 0) != ((flags & TTL) != 0)) {
        return TARRY_EDAMAGED;
    }
    return read_texts(at, text + len, (flags & NAMES) != 0, h);
}

uint32_t tr_header_retries(const struct tr_req *push)
{
    if (!push->has_retries) {
        return TR_RETRIES_USUAL;
    }
    if (push->retries < 0 || push->retries >= TR_RETRIES_NO_END) {
        return TR_RETRIES_NO_END;
    }
    return (uint32_t)push->retries;
}

unsigned tr_header_flags(const struct tr_header *h)
{
    unsigned flags = h->flags & FLAGS_OUTSIDE;

    if (h->ttr_us != 0 || h->ttl_us != 0 || h->retries != TR_RETRIES_USUAL) {
        flags |= OWN;
    }
    if (h->timeouts != 0 || h->releases != 0 || h->buries != 0 || h->kicks != 0 || h->why != 0) {
        flags |= PAST;
    }
    if (h->tag_len != 0 || h->key_len != 0 || h->backoff_len != 0 || h->schedule_len != 0) {
        flags |= NAMES;
    }
    return flags | (h->ttl_us != 0 ? TTL : 0);
}

static char *put_text(char *at, const char *text, size_t len)
{
    if (len > 0) {
        memcpy(at, text, len);
    }
    return at + len;
}

size_t tr_header_write_end(char *out, const struct tr_header *h, size_t *key_at)
{
    unsigned flags = tr_header_flags(h);
    char *at = out;

    if ((flags & OWN) != 0) {
        at = put(at, TIME, h->ttr_us);
        at = put(at, TIME, h->ttl_us);
        at = put(at, 4, h->retries);
    }
    if ((flags & PAST) != 0) {
        at = put(at, 4, h->timeouts);
        at = put(at, 4, h->releases);
        at = put(at, 4, h->buries);
        at = put(at, 4, h->kicks);
        at = put(at, 1, h->why);
    }
    at = put(at, 1, h->topic_len);
    at = put_text(at, h->topic, h->topic_len);
    *key_at = 0;
    if ((flags & NAMES) != 0) {
        at = put(at, 1, h->tag_len);
        at = put(at, 1, h->key_len);
        at = put(at, 2, h->backoff_len);
        at = put_text(at, h->tag, h->tag_len);
        *key_at = (size_t)(at - out);
        at = put_text(at, h->key, h->key_len);
        at = put_text(at, h->backoff, h->backoff_len);
        at = put_text(at, h->schedule, h->schedule_len);
    }
    return (size_t)(at - out);
}

size_t tr_header_write(char *out, const struct tr_header *h)
{
    char *at = out;
    size_t key_at;

    *at++ = h->set;
    at = put(at, 1, tr_header_flags(h));
    at = put(at, 4, h->ver);
    at = put(at, 4, h->priority);
    at = put(at, TIME, h->due_us);
    at = put(at, 4, h->attempts);
    if (is_out(h->set)) {
        at = put(at, TIME, h->at_us);
        at = put(at, 8, h->lease);
    }
    at = put(at, TIME, h->created_us);
    at = put(at, TIME, h->delay_us);
    at = put(at, SIZE, h->body_len);
    return (size_t)(at - out) + tr_header_write_end(at, h, &key_at);
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
        .ttr_us = tr_policy_ttr(h->ttr_us),
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
        .ttl_us = h->ttl_us,
        .has_retries = h->retries != TR_RETRIES_USUAL,
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
