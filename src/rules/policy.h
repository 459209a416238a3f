#ifndef TR_RULES_POLICY_H
#define TR_RULES_POLICY_H

/*
 * The policy of a topic: how its jobs are held, tried again, limited and kept. See policy.c.
 *
 * A field that is not given has its default, which is also what the struct then says; so a reader
 * of the struct need not ask whether it was given.
 */

#include "base/check.h"
#include "rules/backoff.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each field: its number, which is kept in stores and never changes, and its name. */
#define TR_POLICY_FIELDS(X)                                                                        \
    X(TTR, 0, "ttr")                                                                               \
    X(RETRIES, 1, "retries")                                                                       \
    X(BACKOFF, 2, "backoff")                                                                       \
    X(TTL, 3, "ttl")                                                                               \
    X(RATE, 4, "rate")                                                                             \
    X(BURST, 5, "burst")                                                                           \
    X(MAX_JOBS, 6, "max_jobs")                                                                     \
    X(MAX_BYTES, 7, "max_bytes")                                                                   \
    X(DEAD_KEEP, 8, "dead_keep")                                                                   \
    X(DEAD_MAX, 9, "dead_max")                                                                     \
    X(IN_FLIGHT, 10, "in_flight")                                                                  \
    X(JITTER, 11, "jitter")                                                                        \
    X(HISTORY, 12, "history")                                                                      \
    X(SPREAD, 13, "spread")                                                                        \
    X(DELIVER, 14, "deliver")                                                                      \
    X(PAUSED, 15, "paused")                                                                        \
    X(KEPT, 16, "kept") /* no value: the topic was made, and stays until it is deleted */

enum tr_policy_field {
#define X(name, number, called) TR_POLICY_##name = (number),
    TR_POLICY_FIELDS(X)
#undef X
        TR_POLICY_FIELD_COUNT
};

#define TR_POLICY_BIT(name) (1U << TR_POLICY_##name)
#define TR_POLICY_ALL ((1U << TR_POLICY_FIELD_COUNT) - 1)

enum tr_history { TR_HISTORY_OFF, TR_HISTORY_BRIEF, TR_HISTORY_FULL };
enum tr_paused { TR_PAUSED_IN = 1, TR_PAUSED_OUT = 2 };

enum {
    TR_POLICY_RETRIES_DEFAULT = 16, /* over HTTP; over beanstalk there is no end */
    TR_POLICY_DELIVER_MAX = 6144,   /* bytes: with all else a policy fits a page of a checkpoint */
};

#define TR_POLICY_TTR_US UINT64_C(60000000)
#define TR_POLICY_DEAD_KEEP_US (UINT64_C(30) * 86400 * 1000000)

struct tr_policy {
    unsigned given; /* TR_POLICY_BIT of those that are not just the default */
    uint64_t ttr_us;
    int64_t retries;           /* attempts after the first; -1: no end */
    struct tr_backoff backoff; /* when given, of jobs of the beanstalk port, too */
    uint64_t ttl_us;           /* 0: none */
    uint64_t rate_milli;       /* handed out in 1000 seconds; 0: no limit */
    uint64_t burst;            /* 0: what tr_bucket_burst_of says */
    uint64_t max_jobs;         /* UINT64_MAX: no limit, and so on */
    uint64_t max_bytes;
    uint64_t dead_keep_us;
    uint64_t dead_max;
    uint64_t in_flight;
    uint64_t jitter_us;
    enum tr_history history;
    uint32_t spread;
    unsigned paused;          /* enum tr_paused */
    uint64_t paused_until_us; /* wall; 0: no end */
    const char *deliver;      /* JSON; NULL: consumers pull. Borrowed */
    size_t deliver_len;
};

/* All defaults. */
struct tr_policy tr_policy_default(void);

/* Those fields of `to` are as in `from` from now on, given there or not. */
void tr_policy_change(struct tr_policy *to, const struct tr_policy *from, unsigned fields);

/*
 * A push takes what its topic's policy gives and it does not: ttr, ttl, retries, backoff. So they
 * are fixed: where neither of the two gives one, it is the default for ever, whatever the policy
 * says later, and need not be written. The backoff is borrowed from the policy.
 */
#define TR_POLICY_FIXED                                                                            \
    (TR_POLICY_BIT(TTR) | TR_POLICY_BIT(TTL) | TR_POLICY_BIT(RETRIES) | TR_POLICY_BIT(BACKOFF))
struct tr_req;
void tr_policy_fix(const struct tr_policy *p, struct tr_req *r);

/* What a job has to which none was given. No backoff: it is ready again at once. */
uint64_t tr_policy_ttr(uint64_t own_us); /* or it was: 0 says not */
int64_t tr_policy_retries(bool beanstalk);
bool tr_policy_backoff(bool beanstalk, struct tr_backoff *b);

/* Is each field within its limits? */
bool tr_policy_ok(const struct tr_policy *p);

/*
 * What is given, as bytes: for the log and the checkpoint. out has room for TR_POLICY_BYTES_MAX;
 * gives the length. Read back, deliver points into the bytes. TARRY_EDAMAGED: that is no policy;
 * TARRY_EVERSION: it has a field that this version does not know.
 */
enum { TR_POLICY_BYTES_MAX = TR_POLICY_DELIVER_MAX + 1024 };
size_t tr_policy_encode(uint8_t *out, const struct tr_policy *p);
TR_MUST_USE int tr_policy_decode(const uint8_t *p, size_t len, struct tr_policy *policy);

#endif
