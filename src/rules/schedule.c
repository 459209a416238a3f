/*
 * Schedules.
 *
 *     cron    | tick        | tick              | tick          as the expression and the zone say
 *     every   first         + period            + period        whatever becomes of the jobs
 *     after   first [ job lives ] + period [ job lives ] + period
 *
 * A state says up to where ticks are done (tick_us); the next one follows from that alone, so what
 * is foretold is what happens, also after a restart, and a rule of a zone that has changed
 * meanwhile counts from the next tick on. For `every` and `after` the next tick is tick_us +
 * period; a new one begins a period before its first tick, which may be before 1970: sums wrap, and
 * come out right.
 *
 * The last tick before a moment, for those that were missed, is searched by halves: a tick of each
 * second in a year without a server would else be 30 million steps.
 *
 * As bytes, all numbers varints, a text is its length and so many bytes:
 *
 *     which fields are given, a bit each
 *      0 cron          5 end, us        10 topic (always)    15 retries, zigzag
 *      1 every, us     6 limit          11 priority          16 backoff
 *      2 after, us     7 jitter, us     12 ttr, us           17 body
 *      3 tz            8 overlap        13 ttl, us
 *      4 start, us     9 missed         14 tag
 *
 * A bit from 18 on is of a newer version. Of bits 0 to 2 one is set. A state is created, fired,
 * skipped, waiting, tick, last, live id, live topic, and flags: 1 paused.
 */

#include "rules/schedule.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/mutant.h"
#include "base/name.h"
#include "base/rng.h"
#include "port/request.h"
#include "rules/backoff.h"
#include "rules/ticks.h"

#include <assert.h>
#include <string.h>

#define SECOND_US UINT64_C(1000000)

enum {
    CRON,
    EVERY,
    AFTER,
    TZ,
    START,
    END,
    LIMIT,
    JITTER,
    OVERLAP,
    MISSED,
    TOPIC,
    PRIORITY,
    TTR,
    TTL,
    TAG,
    RETRIES,
    BACKOFF,
    BODY,
    FIELDS,
    TAG_MAX = 64,
    TOPIC_MAX = 200,
};

static_assert(15 * TR_VARINT_MAX + TR_CRON_TEXT_MAX + TR_ZONE_NAME_MAX + TOPIC_MAX + TAG_MAX +
                      TR_BACKOFF_BYTES + 4 * 5 <=
                  TR_SCHEDULE_BYTES_MAX - TR_SCHEDULE_BODY_MAX,
              "any schedule fits");
static_assert(9 * TR_VARINT_MAX <= TR_SCHEDULE_STATE_MAX, "so does any state");

/* ---- limits ---- */

static bool backoff_ok(struct tr_schedule_text bytes)
{
    struct tr_backoff b;

    return bytes.len == 0 ||
           (bytes.len <= TR_BACKOFF_BYTES &&
            tr_backoff_decode((const uint8_t *)bytes.at, bytes.len, &b) == TARRY_OK);
}

static bool kind_ok(const struct tr_schedule *s)
{
    if (s->kind == TR_SCHEDULE_CRON) {
        return s->period_us == 0 && s->cron.len >= 1 && s->cron.len <= TR_CRON_TEXT_MAX &&
               (s->tz.len == 0 || tr_zone_name_ok(s->tz.at, s->tz.len));
    }
    return (s->kind == TR_SCHEDULE_EVERY || s->kind == TR_SCHEDULE_AFTER) && s->cron.len == 0 &&
           s->tz.len == 0 && s->period_us >= TR_SCHEDULE_PERIOD_MIN_US &&
           s->period_us <= TR_DELAY_MAX_US;
}

bool tr_schedule_ok(const struct tr_schedule *s)
{
    return kind_ok(s) && (s->end_us == 0 || s->end_us > s->start_us) &&
           s->jitter_us <= TR_DELAY_MAX_US && (unsigned)s->overlap < TR_OVERLAP_COUNT &&
           (unsigned)s->missed < TR_MISSED_COUNT && s->topic.len <= TOPIC_MAX &&
           tr_name_ok(s->topic.at, s->topic.len) && s->tag.len <= TAG_MAX &&
           backoff_ok(s->backoff) && s->ttr_us <= TR_DELAY_MAX_US && s->ttl_us <= TR_DELAY_MAX_US &&
           (!s->has_retries || s->retries >= -1) && s->body_len <= TR_SCHEDULE_BODY_MAX;
}

/* ---- as bytes ---- */

static size_t put_text(uint8_t *out, const void *at, size_t len)
{
    size_t head = tr_put_varint(out, len);

    if (len != 0) {
        memcpy(out + head, at, len);
    }
    return head + len;
}

/* What is there, as bits. */
static unsigned given(const struct tr_schedule *s)
{
    const bool is[FIELDS] = {
        [CRON] = s->kind == TR_SCHEDULE_CRON,
        [EVERY] = s->kind == TR_SCHEDULE_EVERY,
        [AFTER] = s->kind == TR_SCHEDULE_AFTER,
        [TZ] = s->tz.len != 0,
        [START] = s->start_us != 0,
        [END] = s->end_us != 0,
        [LIMIT] = s->limit != 0,
        [JITTER] = s->jitter_us != 0,
        [OVERLAP] = s->overlap != TR_OVERLAP_SKIP,
        [MISSED] = s->missed != TR_MISSED_ONCE,
        [TOPIC] = true,
        [PRIORITY] = s->has_priority,
        [TTR] = s->ttr_us != 0,
        [TTL] = s->ttl_us != 0,
        [TAG] = s->tag.len != 0,
        [RETRIES] = s->has_retries,
        [BACKOFF] = s->backoff.len != 0,
        [BODY] = s->body_len != 0,
    };
    unsigned bits = 0;

    for (unsigned i = 0; i < FIELDS; i++) {
        bits |= (unsigned)is[i] << i;
    }
    return bits;
}

static uint64_t number_of(const struct tr_schedule *s, unsigned field)
{
    switch (field) {
    case EVERY:
    case AFTER:
        return s->period_us;
    case START:
        return s->start_us;
    case END:
        return s->end_us;
    case LIMIT:
        return s->limit;
    case JITTER:
        return s->jitter_us;
    case OVERLAP:
        return s->overlap;
    case MISSED:
        return s->missed;
    case PRIORITY:
        return s->priority;
    case TTR:
        return s->ttr_us;
    case TTL:
        return s->ttl_us;
    default: /* RETRIES */
        return tr_zigzag(s->retries);
    }
}

size_t tr_schedule_encode(uint8_t *out, const struct tr_schedule *s)
{
    unsigned bits = given(s);
    size_t len = tr_put_varint(out, bits);

    TR_CHECK(tr_schedule_ok(s));
    for (unsigned i = 0; i < FIELDS; i++) {
        const struct tr_schedule_text *text = i == CRON      ? &s->cron
                                              : i == TZ      ? &s->tz
                                              : i == TOPIC   ? &s->topic
                                              : i == TAG     ? &s->tag
                                              : i == BACKOFF ? &s->backoff
                                                             : NULL;

        if ((bits >> i & 1) == 0) {
            continue;
        }
        if (text != NULL) {
            len += put_text(out + len, text->at, text->len);
        } else if (i == BODY) {
            len += put_text(out + len, s->body, s->body_len);
        } else {
            len += tr_put_varint(out + len, number_of(s, i));
        }
    }
    return len;
}

static struct tr_schedule_text get_text(struct tr_reader *r)
{
    size_t len = (size_t)tr_read_varint(r);
    const uint8_t *at = tr_read_bytes(r, len);

    return (struct tr_schedule_text){(const char *)at, at != NULL ? len : 0};
}

static void get_number(struct tr_schedule *s, unsigned field, uint64_t v)
{
    switch (field) {
    case EVERY:
    case AFTER:
        s->kind = field == EVERY ? TR_SCHEDULE_EVERY : TR_SCHEDULE_AFTER;
        s->period_us = v;
        break;
    case START:
        s->start_us = v;
        break;
    case END:
        s->end_us = v;
        break;
    case LIMIT:
        s->limit = v;
        break;
    case JITTER:
        s->jitter_us = v;
        break;
    case OVERLAP:
        s->overlap = v < TR_OVERLAP_COUNT ? (enum tr_overlap)v : TR_OVERLAP_COUNT;
        break;
    case MISSED:
        s->missed = v < TR_MISSED_COUNT ? (enum tr_missed)v : TR_MISSED_COUNT;
        break;
    case PRIORITY:
        s->has_priority = v <= UINT32_MAX;
        s->priority = (uint32_t)v;
        break;
    case TTR:
        s->ttr_us = v;
        break;
    case TTL:
        s->ttl_us = v;
        break;
    default: /* RETRIES */
        s->has_retries = true;
        s->retries = tr_unzigzag(v);
    }
}

static void get_field(struct tr_reader *r, struct tr_schedule *s, unsigned field)
{
    switch (field) {
    case CRON:
        s->kind = TR_SCHEDULE_CRON;
        s->cron = get_text(r);
        break;
    case TZ:
        s->tz = get_text(r);
        break;
    case TOPIC:
        s->topic = get_text(r);
        break;
    case TAG:
        s->tag = get_text(r);
        break;
    case BACKOFF:
        s->backoff = get_text(r);
        break;
    case BODY: {
        struct tr_schedule_text body = get_text(r);

        s->body = (const uint8_t *)body.at;
        s->body_len = body.len;
        break;
    }
    default:
        get_number(s, field, tr_read_varint(r));
    }
}

int tr_schedule_decode(const uint8_t *p, size_t len, struct tr_schedule *s)
{
    struct tr_reader r = tr_reader_of(p, len);
    uint64_t bits = tr_read_varint(&r);
    struct tr_schedule read = {.kind = TR_SCHEDULE_CRON};

    if (!r.bad && bits >> FIELDS != 0) {
        return TARRY_EVERSION;
    }
    for (unsigned i = 0; i < FIELDS && !r.bad; i++) {
        if (bits >> i & 1) {
            get_field(&r, &read, i);
        }
    }
    if (r.bad || tr_reader_left(&r) != 0 || !tr_schedule_ok(&read) || given(&read) != bits) {
        return TARRY_EDAMAGED;
    }
    *s = read;
    return TARRY_OK;
}

size_t tr_schedule_state_encode(uint8_t *out, const struct tr_schedule_state *at)
{
    const uint64_t numbers[] = {at->created_us, at->fired,      at->skipped,
                                at->waiting,    at->tick_us,    at->last_us,
                                at->live_id,    at->live_topic, at->paused};
    size_t len = 0;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        len += tr_put_varint(out + len, numbers[i]);
    }
    return len;
}

int tr_schedule_state_decode(const uint8_t *p, size_t len, struct tr_schedule_state *at)
{
    struct tr_reader r = tr_reader_of(p, len);
    struct tr_schedule_state read = {0};
    uint64_t topic;
    uint64_t flags;

    read.created_us = tr_read_varint(&r);
    read.fired = tr_read_varint(&r);
    read.skipped = tr_read_varint(&r);
    read.waiting = tr_read_varint(&r);
    read.tick_us = tr_read_varint(&r);
    read.last_us = tr_read_varint(&r);
    read.live_id = tr_read_varint(&r);
    topic = tr_read_varint(&r);
    flags = tr_read_varint(&r);
    if (r.bad || tr_reader_left(&r) != 0 || topic > UINT32_MAX) {
        return TARRY_EDAMAGED;
    }
    if (flags > 1) {
        return TARRY_EVERSION;
    }
    read.live_topic = (uint32_t)topic;
    read.paused = flags == 1;
    *at = read;
    return TARRY_OK;
}

/* ---- when ---- */

struct tr_schedule_state tr_schedule_begin(const struct tr_schedule *s, uint64_t now_us)
{
    struct tr_schedule_state at = {.created_us = now_us};
    uint64_t first = s->start_us > now_us ? s->start_us : now_us;

    if (s->kind == TR_SCHEDULE_CRON) {
        at.tick_us = s->start_us > now_us ? first - 1 : now_us; /* start itself may be one */
    } else if (s->kind == TR_SCHEDULE_EVERY && s->start_us == 0) {
        at.tick_us = now_us;
    } else {
        at.tick_us = first - s->period_us;
    }
    return at;
}

/* The first second that is not before this moment. */
static int64_t second_from(uint64_t us)
{
    return (int64_t)(us / SECOND_US + (us % SECOND_US != 0));
}

static uint64_t next_cron(const struct tr_schedule_plan *p, uint64_t after_us, uint64_t before_us)
{
    int64_t before = before_us == TR_SCHEDULE_NEVER ? INT64_MAX : second_from(before_us);
    int64_t moment;

    if (!tr_ticks_next(p->cron, p->zone, (int64_t)(after_us / SECOND_US), before, &moment)) {
        return TR_SCHEDULE_NEVER;
    }
    return (uint64_t)moment * SECOND_US;
}

static uint64_t end_of(const struct tr_schedule *s)
{
    return s->end_us != 0 ? s->end_us + TR_MUTANT(SCHED_END_COUNTS) : TR_SCHEDULE_NEVER;
}

uint64_t tr_schedule_next(const struct tr_schedule_plan *p, const struct tr_schedule_state *at)
{
    const struct tr_schedule *s = p->is;
    uint64_t done = at->fired + at->waiting;
    uint64_t next;

    if (at->paused || (s->limit != 0 && done >= s->limit + TR_MUTANT(SCHED_LIMIT_LATE)) ||
        (s->kind == TR_SCHEDULE_AFTER && at->live_id != 0)) {
        return TR_SCHEDULE_NEVER;
    }
    next = s->kind == TR_SCHEDULE_CRON ? next_cron(p, at->tick_us, end_of(s))
                                       : at->tick_us + s->period_us;
    return next < end_of(s) ? next : TR_SCHEDULE_NEVER;
}

uint64_t tr_schedule_last(const struct tr_schedule_plan *p, const struct tr_schedule_state *at,
                          uint64_t before_us)
{
    const struct tr_schedule *s = p->is;
    uint64_t next = tr_schedule_next(p, at);
    uint64_t end = end_of(s) < before_us ? end_of(s) : before_us;
    uint64_t low;  /* a tick comes after it, and before the end; */
    uint64_t high; /* none does after it */

    if (next >= end) {
        return TR_SCHEDULE_NEVER;
    }
    if (s->kind != TR_SCHEDULE_CRON) {
        return next + (end - 1 - next) / s->period_us * s->period_us;
    }
    low = next / SECOND_US - 1;
    high = (uint64_t)second_from(end);
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        if (next_cron(p, middle * SECOND_US, end) != TR_SCHEDULE_NEVER) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return next_cron(p, low * SECOND_US, end);
}

/* ---- what a tick does ---- */

struct tr_schedule_state tr_schedule_replace(const struct tr_schedule *s,
                                             const struct tr_schedule_state *old, uint64_t now_us)
{
    struct tr_schedule_state at = tr_schedule_begin(s, now_us);

    at.paused = old->paused;
    if (tr_schedule_watches(s)) {
        at.live_id = old->live_id;
        at.live_topic = old->live_topic;
    }
    return at;
}

bool tr_schedule_watches(const struct tr_schedule *s)
{
    return s->kind == TR_SCHEDULE_AFTER || s->overlap != TR_OVERLAP_ALLOW;
}

bool tr_schedule_follows(const struct tr_schedule_state *at)
{
    return at->waiting != 0 && at->live_id == 0 && !at->paused;
}

enum tr_schedule_what tr_schedule_tick(const struct tr_schedule_plan *p,
                                       struct tr_schedule_state *at, struct tr_schedule_when when,
                                       uint64_t *due_us)
{
    const struct tr_schedule *s = p->is;
    bool lives = at->live_id != 0 && !TR_MUTANT(SCHED_OVERLAPS);
    uint64_t tick;

    if (tr_schedule_follows(at)) {
        at->waiting--;
        *due_us = when.now_us;
        return TR_SCHEDULE_FIRES;
    }
    tick = tr_schedule_next(p, at);
    if (tick > when.now_us) {
        return TR_SCHEDULE_WAITS;
    }
    if (tick < when.since_us && s->kind != TR_SCHEDULE_AFTER && s->missed != TR_MISSED_ALL) {
        /* The clock may have been set back. */
        tick =
            tr_schedule_last(p, at, when.since_us < when.now_us ? when.since_us : when.now_us + 1);
        if (s->missed == TR_MISSED_SKIP || TR_MUTANT(SCHED_MISSED_LOST)) {
            at->tick_us = tick;
            return TR_SCHEDULE_STEPS;
        }
    }
    at->tick_us = tick;
    if (lives && s->overlap != TR_OVERLAP_ALLOW) {
        bool queue = s->overlap == TR_OVERLAP_QUEUE && !TR_MUTANT(SCHED_QUEUE_LOST);

        *(queue ? &at->waiting : &at->skipped) += 1;
        return TR_SCHEDULE_STEPS;
    }
    *due_us = tr_schedule_due(s, tick, when.seed);
    return TR_SCHEDULE_FIRES;
}

void tr_schedule_fired(const struct tr_schedule *s, struct tr_schedule_state *at, uint64_t due_us,
                       uint64_t id, uint32_t topic)
{
    at->fired++;
    at->last_us = due_us;
    if (tr_schedule_watches(s)) {
        at->live_id = id;
        at->live_topic = topic;
    }
}

void tr_schedule_ended(const struct tr_schedule *s, struct tr_schedule_state *at, uint64_t now_us)
{
    at->live_id = 0;
    at->live_topic = 0;
    if (s->kind == TR_SCHEDULE_AFTER) {
        at->tick_us = TR_MUTANT(SCHED_AFTER_START) ? at->last_us : now_us;
    }
}

void tr_schedule_resume(const struct tr_schedule *s, struct tr_schedule_state *at, uint64_t now_us)
{
    if (s->kind == TR_SCHEDULE_CRON) {
        at->tick_us = at->tick_us < now_us ? now_us : at->tick_us;
    } else if (s->kind == TR_SCHEDULE_EVERY && at->tick_us + s->period_us <= now_us) {
        at->tick_us += (now_us - at->tick_us) / s->period_us * s->period_us;
    }
}

struct tr_schedule_state tr_schedule_after_miss(const struct tr_schedule_plan *p,
                                                const struct tr_schedule_state *at, uint64_t now_us)
{
    const struct tr_schedule *s = p->is;
    struct tr_schedule_state then = *at;

    if (s->kind == TR_SCHEDULE_AFTER || s->missed == TR_MISSED_ALL ||
        tr_schedule_next(p, at) >= now_us) {
        return then;
    }
    then.tick_us = tr_schedule_last(p, at, now_us + 1);
    if (s->missed == TR_MISSED_ONCE) { /* so that this is the next */
        then.tick_us -= s->kind == TR_SCHEDULE_CRON ? 1 : s->period_us;
    }
    return then;
}

uint64_t tr_schedule_due(const struct tr_schedule *s, uint64_t tick_us, uint64_t seed)
{
    struct tr_rng r = {seed ^ tick_us * UINT64_C(0x9e3779b97f4a7c15)};

    return tick_us + (s->jitter_us != 0 ? tr_rng_below(&r, s->jitter_us + 1) : 0);
}
