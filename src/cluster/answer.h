#ifndef TR_CLUSTER_ANSWER_H
#define TR_CLUSTER_ANSWER_H

/*
 * What scripts answer, read with care: it comes from outside. TARRY_EDAMAGED: no script of ours
 * says such a thing. Spans and headers point into the reply.
 */

#include "base/check.h"
#include "cluster/header.h"
#include "cluster/place.h"
#include "port/redis.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_answer {
    uint64_t now_us;         /* by the server's clock */
    struct tr_span versions; /* of the topics' settings, 8 digits each */
    struct tr_span waiters;  /* who is to be woken, tr_answer_waiter */
    const struct tr_span *items;
    size_t count;
};

/* Of all scripts of jobs, when they say OK. */
TR_MUST_USE int tr_answer_read(const struct tr_redis_reply *reply, struct tr_answer *a);

uint32_t tr_answer_version(const struct tr_answer *a, unsigned topic);

/* The i-th to be woken: the topic's place in the call, and the node's name. False: there is none.
 */
bool tr_answer_waiter(const struct tr_answer *a, unsigned i, unsigned *topic,
                      char node[TR_PLACE_NODE_DIGITS]);

/* What became of one pushed job. */
struct tr_pushed {
    char what; /* N: new, R: replaced, K: kept, E: exists, X: reserved, P: paused */
    uint64_t id;
    uint64_t due_us;         /* N, R */
    struct tr_header header; /* K, E, X */
};
TR_MUST_USE int tr_answer_pushed(struct tr_span item, struct tr_pushed *p);

/* What a take says besides jobs; then those. */
struct tr_taken {
    uint64_t next_us; /* when there may be more, by the server's clock; UINT64_MAX: not known */
    bool more;        /* there is more, now */
    size_t jobs;
};
struct tr_taken_job {
    uint64_t id;
    struct tr_header header;
    struct tr_span body;
};
TR_MUST_USE int tr_answer_taken(const struct tr_answer *a, struct tr_taken *t);
TR_MUST_USE int tr_answer_taken_job(const struct tr_answer *a, size_t i, struct tr_taken_job *job);

/* What became of one edit. */
struct tr_edited {
    char what; /* O: done, D: it died of it, N: there is none, L: lease lost, S: another state */
    char was;  /* of an ack or cancel that was done: the set it was in; else 0 */
    struct tr_header header; /* the rest but N */
};
TR_MUST_USE int tr_answer_edited(struct tr_span item, struct tr_edited *e);

#endif
