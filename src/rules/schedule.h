#ifndef TR_RULES_SCHEDULE_H
#define TR_RULES_SCHEDULE_H

/*
 * Schedules: jobs that come again and again. What one is, how far it has come, and when it is due
 * next. See schedule.c.
 *
 * All moments are microseconds of T, the engine's time.
 */

#include "base/check.h"
#include "rules/cron.h"
#include "rules/zone.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TR_SCHEDULE_NEVER UINT64_MAX

enum {
    TR_SCHEDULE_NAME_MAX = 200,
    TR_SCHEDULE_BODY_MAX = 65535,
    TR_SCHEDULE_BYTES_MAX = TR_SCHEDULE_BODY_MAX + 2048, /* of a definition */
    TR_SCHEDULE_STATE_MAX = 96,                          /* of how far it has come */
};

#define TR_SCHEDULE_PERIOD_MIN_US UINT64_C(1000)

enum tr_schedule_kind {
    TR_SCHEDULE_CRON,
    TR_SCHEDULE_EVERY, /* fixed rate: from due to due */
    TR_SCHEDULE_AFTER, /* fixed delay: from the end of an occurrence */
};

/* What a tick does while the last occurrence lives. */
enum tr_overlap { TR_OVERLAP_SKIP, TR_OVERLAP_QUEUE, TR_OVERLAP_ALLOW, TR_OVERLAP_COUNT };

/* What becomes of ticks that came while nobody could serve them. */
enum tr_missed { TR_MISSED_ONCE, TR_MISSED_ALL, TR_MISSED_SKIP, TR_MISSED_COUNT };

struct tr_schedule_text {
    const char *at;
    size_t len; /* 0: there is none */
};

/* What is borrowed stays with whoever made the struct. */
struct tr_schedule {
    enum tr_schedule_kind kind;
    struct tr_schedule_text cron; /* CRON */
    struct tr_schedule_text tz;   /* CRON; none: UTC */
    uint64_t period_us;           /* EVERY, AFTER */
    uint64_t start_us;            /* 0: none */
    uint64_t end_us;              /* no tick from then on; 0: none */
    uint64_t limit;               /* occurrences; 0: none */
    uint64_t jitter_us;
    enum tr_overlap overlap;
    enum tr_missed missed;

    /* Of each job; 0 and none: the topic's, or the default. */
    struct tr_schedule_text topic;
    struct tr_schedule_text tag;
    struct tr_schedule_text backoff; /* as bytes, see rules/backoff.h */
    bool has_priority;
    uint32_t priority;
    uint64_t ttr_us;
    uint64_t ttl_us;
    bool has_retries;
    int64_t retries;
    const uint8_t *body;
    size_t body_len;
};

struct tr_schedule_state {
    uint64_t created_us;
    uint64_t fired;      /* occurrences */
    uint64_t skipped;    /* ticks that made none, since the last one lived (SKIP) */
    uint64_t waiting;    /* QUEUE: ticks whose occurrence has yet to be made */
    uint64_t tick_us;    /* ticks up to this one are done; EVERY: it is one; AFTER: counted from
                            here */
    uint64_t last_us;    /* due time of the last occurrence; 0: there was none */
    uint64_t live_id;    /* the last occurrence, if it lives; ALLOW: 0 */
    uint32_t live_topic; /* number of its topic */
    bool paused;
};

/* What is needed to reckon: a definition with its cron and zone, as they were read. */
struct tr_schedule_plan {
    const struct tr_schedule *is;
    const struct tr_cron *cron; /* CRON only */
    const struct tr_zone *zone; /* CRON only */
};

/* Is each field within its limits? */
bool tr_schedule_ok(const struct tr_schedule *s);

/* As bytes; out has room for TR_SCHEDULE_BYTES_MAX. Read back, all texts point into the bytes.
 * TARRY_EDAMAGED: that is none; TARRY_EVERSION: it has a field that this version does not know. */
size_t tr_schedule_encode(uint8_t *out, const struct tr_schedule *s);
TR_MUST_USE int tr_schedule_decode(const uint8_t *p, size_t len, struct tr_schedule *s);

/* The same for TR_SCHEDULE_STATE_MAX bytes. */
size_t tr_schedule_state_encode(uint8_t *out, const struct tr_schedule_state *at);
TR_MUST_USE int tr_schedule_state_decode(const uint8_t *p, size_t len,
                                         struct tr_schedule_state *at);

/* A new one that is made at now_us. */
struct tr_schedule_state tr_schedule_begin(const struct tr_schedule *s, uint64_t now_us);

/* The next tick, or TR_SCHEDULE_NEVER: it is over, or paused, or (AFTER) its occurrence lives. */
uint64_t tr_schedule_next(const struct tr_schedule_plan *p, const struct tr_schedule_state *at);

/* The last tick before `before`, if there is one from the next on; else TR_SCHEDULE_NEVER. Not for
 * AFTER. */
uint64_t tr_schedule_last(const struct tr_schedule_plan *p, const struct tr_schedule_state *at,
                          uint64_t before_us);

/* A new one of that name in the place of another, which had come so far. */
struct tr_schedule_state tr_schedule_replace(const struct tr_schedule *s,
                                             const struct tr_schedule_state *old, uint64_t now_us);

/* Must it be known when the last occurrence ends, since something follows from that? */
bool tr_schedule_watches(const struct tr_schedule *s);

/* One occurrence has waited for the last one, which has ended: it is to be made. */
bool tr_schedule_follows(const struct tr_schedule_state *at);

struct tr_schedule_when {
    uint64_t now_us;
    uint64_t since_us; /* ticks before it were missed */
    uint64_t seed;     /* of its jitter */
};

enum tr_schedule_what {
    TR_SCHEDULE_WAITS, /* nothing is due */
    TR_SCHEDULE_STEPS, /* a tick makes no job, but it is done */
    TR_SCHEDULE_FIRES, /* one is to be made, due then; then tr_schedule_fired */
};

/* What its next tick does, if that is due: *at is so afterwards. Later ticks are not looked at. */
enum tr_schedule_what tr_schedule_tick(const struct tr_schedule_plan *p,
                                       struct tr_schedule_state *at, struct tr_schedule_when when,
                                       uint64_t *due_us);

/* Its job was made. */
void tr_schedule_fired(const struct tr_schedule *s, struct tr_schedule_state *at, uint64_t due_us,
                       uint64_t id, uint32_t topic);

/* Its last occurrence has ended. */
void tr_schedule_ended(const struct tr_schedule *s, struct tr_schedule_state *at, uint64_t now_us);

/* It goes on after a pause: no tick up to now_us counts, but AFTER is due at once then. */
void tr_schedule_resume(const struct tr_schedule *s, struct tr_schedule_state *at, uint64_t now_us);

/* As if nothing were done before now_us: of the ticks until then only those come that `missed`
 * makes a job of. tr_schedule_next says which from there on. */
struct tr_schedule_state tr_schedule_after_miss(const struct tr_schedule_plan *p,
                                                const struct tr_schedule_state *at,
                                                uint64_t now_us);

/* When the occurrence of a tick is due: always the same for the same seed. */
uint64_t tr_schedule_due(const struct tr_schedule *s, uint64_t tick_us, uint64_t seed);

#endif
