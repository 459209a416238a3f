#ifndef TR_ENGINE_RECORD_H
#define TR_ENGINE_RECORD_H

/*
 * Records: what the log says happened. See record.c for the bytes; doc/format.md for users.
 *
 * One struct holds any record; `mask` says which fields are present, and absent ones are 0. A
 * decoded record borrows its key, tag, backoff, name, kills and body from the bytes it was read
 * from.
 */

#include "base/check.h"
#include "port/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tr_record_type {
    TR_REC_PUSH = 1,    /* a job under a new rid */
    TR_REC_MOVE = 2,    /* the same for a job that was there: field OLD names the rid it kills */
    TR_REC_KILLSET = 3, /* these rids are dead */
    TR_REC_ATTEMPT = 4, /* handed out: LEASE, COUNTERS */
    TR_REC_ALTER = 5,   /* small fields changed under the same rid */
    TR_REC_TOPIC = 6,   /* a topic's number and name */
    TR_REC_POLICY = 7,
    TR_REC_PURGE = 8,
    TR_REC_SCHED = 9,
    TR_REC_OCCUR = 10,
    TR_REC_RELOG = 11, /* a job record again, at a new place, under its own rid */
    TR_REC_CLOCK = 12,
    TR_REC_SKIPPABLE = 128, /* from here on an unknown type is passed over */
    TR_REC_SEAL = 128,
    TR_REC_NOTE = 129,
};

/* Number of each field in the mask, and its order in the bytes. */
enum tr_field {
    TR_F_ID, /* when it is not the rid */
    TR_F_DUE,
    TR_F_CREATED,
    TR_F_DELAY, /* as the client gave it */
    TR_F_TOPIC,
    TR_F_PRIORITY,
    TR_F_TTR,
    TR_F_TTL,
    TR_F_KEY,
    TR_F_TAG,
    TR_F_RETRIES,
    TR_F_BACKOFF,
    TR_F_DEAD,
    TR_F_COUNTERS,
    TR_F_SCHEDULE,
    TR_F_ACTOR,
    TR_F_OLD,
    TR_F_FLAGS,
    TR_F_TIMES,
    TR_F_LEASE,
    TR_F_BODY,
    TR_F_BODY_ELSEWHERE, /* reserved */
    TR_F_COUNT,
    TR_F_OPTIONAL = 24, /* from here on fields are length-prefixed and old readers skip them */
};

#define TR_FIELD(name) (UINT64_C(1) << TR_F_##name)

enum tr_record_flag {
    TR_RF_CELL_HOUR = 0, /* bits 0-1: forecast cell */
    TR_RF_CELL_DAY = 1,
    TR_RF_CELL = 3,      /* these bits */
    TR_RF_BEANSTALK = 4, /* made on the beanstalk port */
    TR_RF_HANDED = 8,    /* handed out since it became due */
    TR_RF_LATER = 16,    /* it was made to be due later */
};

struct tr_bytes {
    const uint8_t *at;
    size_t len;
};

struct tr_kill {
    uint64_t rid;
    uint64_t due_us;
    uint32_t topic;
    uint32_t body_len; /* if it is known: */
    uint8_t cell;
    uint8_t was_dead;
    bool weighed;
};

struct tr_counters {
    uint32_t reserves;
    uint32_t timeouts;
    uint32_t releases;
    uint32_t buries;
    uint32_t kicks;
};

struct tr_record {
    uint8_t type;
    uint64_t mask;
    uint64_t rid; /* of PUSH, MOVE, ATTEMPT, ALTER, RELOG, OCCUR; else 0 */

    uint64_t id;
    uint64_t due_us;
    uint64_t created_us;
    uint64_t delay_us;
    uint32_t topic; /* also of TOPIC, POLICY, PURGE */
    uint32_t priority;
    uint64_t ttr_us;
    uint64_t ttl_us;
    struct tr_bytes key;
    struct tr_bytes tag;
    int64_t retries;
    struct tr_bytes backoff;
    struct {
        uint8_t reason;
        uint64_t seq;
        uint64_t at_us;
    } dead;
    struct tr_counters counters;
    struct {
        uint32_t number;
        uint64_t occurrence;
    } schedule;
    uint32_t actor;
    struct tr_kill old; /* MOVE: what it kills */
    uint32_t flags;
    struct {
        uint64_t ready_us;
        uint64_t handed_us;
    } times;
    struct {
        uint32_t epoch;
        uint64_t number;
        uint64_t end_us; /* 0: bound to a connection */
        uint64_t ttr_us; /* how long it is for; 0 with a connection */
    } lease;
    struct tr_bytes body; /* also of POLICY, SCHED, NOTE: what is too long for `name` */

    struct tr_bytes name; /* TOPIC: the name; POLICY, SCHED, NOTE: the blob */
    uint64_t number; /* PURGE: the next rid; CLOCK: the time; SCHED: its number; SEAL, NOTE: any */
    uint8_t reason;  /* KILLSET: enum tr_why */
    uint32_t kill_count;             /* KILLSET */
    struct tr_bytes kills;           /* KILLSET, decoded: walk it with tr_record_next_kill */
    const struct tr_kill *kill_list; /* KILLSET, to be encoded */
};

/* What the deltas in a record count from: the frame's (or run block's). */
struct tr_base {
    uint64_t rid;
    uint64_t clock_us;
};

enum {
    TR_RECORD_HEAD_MAX = 1024, /* no record's head (all but the body and the kills) is longer */
    TR_KILL_MAX = 32,
    TR_BODY_MAX = 8 << 20,
    TR_KEY_MAX = 255,
    TR_TAG_MAX = 64,
    TR_BACKOFF_MAX = 400,
    TR_NAME_MAX = 960, /* of `name`, whatever it holds; a topic's own limit is lower */
};

/*
 * Writes all of rec but its body (which the caller puts behind it) to out, which has room for
 * TR_RECORD_HEAD_MAX + kill_count * TR_KILL_MAX bytes. Gives the bytes written.
 */
size_t tr_record_encode(uint8_t *out, const struct tr_record *rec, struct tr_base base);

/*
 * Reads the record at the front of p. *used: its length, body included. TARRY_EDAMAGED: the bytes
 * are not a record. TARRY_EVERSION: a good record with a type or field this version does not know.
 * A type >= TR_REC_SKIPPABLE that is not known is TARRY_OK: only type and *used are set. Fields
 * from TR_F_OPTIONAL on are passed over and not in the mask.
 */
TR_MUST_USE int tr_record_decode(const uint8_t *p, size_t len, struct tr_base base,
                                 struct tr_record *rec, size_t *used);

/*
 * The same for p[0, len), the whole record of a job, when its rid and due time are known instead of
 * the base: what the deltas count from follows from those.
 */
TR_MUST_USE int tr_record_decode_known(const uint8_t *p, size_t len, uint64_t rid, uint64_t due_us,
                                       struct tr_record *rec);

/* True when p[0, len) is one whole, undamaged record of rid; needs no base. The body, if the record
 * has one, is its last bytes. */
TR_MUST_USE bool tr_record_good(const uint8_t *p, size_t len, uint64_t rid);

/* Walks the kills of a decoded KILLSET; start with a zeroed walk. False at the end. They were
 * checked by tr_record_decode. */
struct tr_kill_walk {
    size_t at;
    struct tr_kill last;
};
bool tr_record_next_kill(const struct tr_record *rec, struct tr_base base,
                         struct tr_kill_walk *walk, struct tr_kill *kill);

#endif
