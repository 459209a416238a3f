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

/* An occurrence has ended for which a schedule waits: the slot's owner is to look at the agenda. */
bool tr_answer_ended(const struct tr_answer *a);

/* What became of one pushed job. */
struct tr_pushed {
    char what; /* N: new, R: replaced, K: kept, E: exists, X: reserved, P: paused, F: no more may be
                */
    uint64_t id;             /* all but P and F */
    uint64_t due_us;         /* N, R */
    struct tr_header header; /* R, K, E, X */
};
TR_MUST_USE int tr_answer_pushed(struct tr_span item, struct tr_pushed *p);

/* Are all new? Then from when their due times count (tr_eval_due), and the first one's id: the
 * others' follow it, as tr_answer_new_id says. */
bool tr_answer_all_new(const struct tr_answer *a, uint64_t *from_us, uint64_t *first);
uint64_t tr_answer_new_id(uint64_t first, size_t i);

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
    char what; /* O: done, D: it died of it, N: there is none, L: lease lost, S: another state, F:
                  too many bytes */
    char was;  /* of an ack or cancel that was done: the set it was in; else 0 */
    struct tr_header header; /* the rest but N and F */
};
TR_MUST_USE int tr_answer_edited(struct tr_span item, struct tr_edited *e);
/* What is said of the i-th: one item may stand for all. NULL: nothing. */
const struct tr_span *tr_answer_item(const struct tr_answer *a, size_t i);

/* KICK: which it were, dead ones (d) or delayed ones (s), and how many. */
struct tr_kicked {
    char which;
    uint64_t count;
};
TR_MUST_USE int tr_answer_kicked(const struct tr_answer *a, struct tr_kicked *k);

/* COUNT: one topic of the call. Times and ids: 0 is none. */
struct tr_counted {
    uint64_t ready, urgent, delayed, reserved, dead;
    uint64_t waiting;         /* with a database: ready and delayed ones of the whole topic, */
    uint64_t ended;           /* and reserved ones whose leases are over */
    uint64_t next_due_us;     /* of the first delayed job */
    uint64_t oldest_ready_us; /* its due time, as far as it is known */
    uint64_t out_until_us;    /* its settings say that it is paused so long, */
    uint64_t hold_until_us;   /* or the beanstalk port did, */
    uint64_t hold_us;         /* for so long, */
    uint64_t holds;           /* so many times */
    uint64_t best_priority, best_due_us, best_id; /* what a take would hand out */
    uint64_t first_delayed_id, first_dead_id;
};
TR_MUST_USE int tr_answer_counted(struct tr_span item, struct tr_counted *n);

/* CLAIM: which rows are to be asked for. */
struct tr_claimed {
    uint64_t next_us; /* when there may be more; UINT64_MAX: not known */
    bool more;        /* there is more, now */
    uint64_t loaded_us;
    uint64_t left; /* that wait in this slot */
    size_t jobs;
    uint64_t bytes; /* their bodies have about so many */
};
TR_MUST_USE int tr_answer_claimed(const struct tr_answer *a, struct tr_claimed *t);
/* C: it is claimed. E: time has changed its row, TR_TRUTH_TEND. */
TR_MUST_USE int tr_answer_claimed_job(const struct tr_answer *a, size_t i, char *what,
                                      uint64_t *id);

/* INDEX: of the topics of the call, and its images. */
struct tr_indexed {
    uint64_t loaded_us;
    uint64_t left;
};
TR_MUST_USE int tr_answer_indexed(const struct tr_answer *a, unsigned topic, struct tr_indexed *x);
/* O: it is there, T: it is due too late for that, G: gone, V: a newer one is there, N: it was not
 * claimed. 0: there is none. */
char tr_answer_indexed_job(const struct tr_answer *a, size_t i);

/* RAISE. */
struct tr_raised {
    uint64_t was_us; /* up to then rows were there before, */
    uint64_t is_us;  /* and these are to be, now */
    uint64_t left;
};
TR_MUST_USE int tr_answer_raised(const struct tr_answer *a, struct tr_raised *r);

/* SCAN: where to go on (0 as text: nowhere), and entries. */
TR_MUST_USE int tr_answer_scanned(const struct tr_answer *a, struct tr_span *cursor,
                                  size_t *entries);
TR_MUST_USE int tr_answer_scanned_entry(const struct tr_answer *a, size_t i, uint64_t *id,
                                        struct tr_header *header);

#endif
