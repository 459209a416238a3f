#ifndef TR_CLUSTER_TRUTH_H
#define TR_CLUSTER_TRUTH_H

/*
 * What a change does to a row of a job, where a database has the truth. See truth.c; lua/edit.lua,
 * push.lua and take.lua do the same to headers where Redis has it.
 *
 * Pure, and of no thread: it is called on those of the database (port/sql.h, rule 3).
 */

#include "base/check.h"
#include "cluster/header.h"
#include "port/request.h"
#include "port/sql.h"
#include "rules/policy.h"

enum tr_truth_what {
    TR_TRUTH_PUSH,      /* job; conflict */
    TR_TRUTH_CLAIM,     /* lease, held, ttr_us: it is due, and nobody has it */
    TR_TRUTH_RESERVE,   /* the same, whatever its state but reserved */
    TR_TRUTH_ACK,       /* lease, as those down to TOUCH */
    TR_TRUTH_RELEASE,   /* delay_us or by_backoff; priority or keep_priority */
    TR_TRUTH_RETURN,    /* as if it had never been handed out */
    TR_TRUTH_LEAVE,     /* its connection is gone */
    TR_TRUTH_BURY,      /* priority or keep_priority */
    TR_TRUTH_TOUCH,     /* ttr_us, 0: as before */
    TR_TRUTH_BURY_FREE, /* without a lease: one that nobody has */
    TR_TRUTH_CANCEL,    /* force: reserved or not */
    TR_TRUTH_FIRE,
    TR_TRUTH_KICK,  /* beanstalk */
    TR_TRUTH_EDIT,  /* edit, and job: what is to be so */
    TR_TRUTH_TEND,  /* what time has done to it */
    TR_TRUTH_SWEEP, /* it was purged: its row goes */
    TR_TRUTH_SHIFT, /* shift_us or at_us: its due time; the past means now */
    TR_TRUTH_DROP,  /* it is dead since at_us: it goes */
    TR_TRUTH_COUNT
};

enum tr_truth_said {
    TR_TRUTH_DONE,
    TR_TRUTH_DIED,     /* RELEASE, LEAVE: that was its last attempt */
    TR_TRUTH_REPLACED, /* PUSH: the job with that key is the new one now; */
    TR_TRUTH_KEPT,     /* it is as it was, and that is the answer; */
    TR_TRUTH_EXISTS,   /* it is in the way */
    TR_TRUTH_NONE,     /* there is no such job */
    TR_TRUTH_LOST,     /* the lease is not, or not any more, that of the job */
    TR_TRUTH_STATE,    /* the state of the job is in the way */
    TR_TRUTH_FULL,     /* PUSH: there may be no new one */
    TR_TRUTH_STALE,    /* PUSH, CLAIM: the topic's settings are others by now */
    TR_TRUTH_UNMEANT,  /* one of many: it is not one of those that are meant */
};

enum { TR_TRUTH_INFO = 128 };

/* The ctx of an item. What spans point to has to stay until the end of the ask. */
struct tr_truth {
    enum tr_truth_what what;
    enum tr_history history; /* of the topic, as the asker knows it */
    uint64_t lease;
    bool held; /* by a connection */
    uint64_t ttr_us;
    uint64_t least_us; /* CLAIM, RESERVE, TOUCH: the lease is at least so long */
    uint64_t delay_us;
    uint64_t at_us;  /* not 0: absolute, instead of delay_us */
    uint64_t age_us; /* of what was asked: delays count from then */
    bool by_backoff;
    bool keep_priority;
    bool force;
    bool full;          /* PUSH: the topic has as much as it may have */
    bool minds_version; /* PUSH: only if the topic's settings are of this version; CLAIM: if they */
    uint32_t version;   /* are of no later one */
    bool beanstalk;
    uint64_t random; /* any number: for jitter */
    unsigned edit;   /* enum tr_edit */
    enum tr_conflict conflict;
    bool many; /* CANCEL, SHIFT, KICK: only if it matches, */
    struct tr_filter filter;
    uint64_t made_us;  /* was made until then, */
    uint64_t since_us; /* and, if this is not 0, was not changed since */
    int64_t shift_us;
    struct tr_span actor;
    struct tr_sql_job job; /* PUSH, EDIT, priority of others: what is asked */

    /* What came of it. */
    enum tr_truth_said said;
    enum tr_history noted; /* `history`, or what it is by now */
    struct tr_sql_job is;  /* the row from now on; of one that is gone, as it was. Texts are good
                              until the end of the ask */
    char info[TR_TRUTH_INFO];
};

/* With which it was pushed, or 0 if that is not known any more. */
uint64_t tr_truth_delay(const struct tr_sql_job *j);

/* `decide` of an ask whose items have a struct tr_truth each. */
void tr_truth_decide(struct tr_sql_ask *ask, unsigned from, unsigned to);

/* The row as a header, for answers and for the index: what Redis would have. The name of its topic
 * is the caller's; texts are borrowed. */
void tr_truth_header(const struct tr_sql_job *job, struct tr_span topic, uint64_t now_us,
                     struct tr_header *h);

/* What time has done to a row that was read, as others see it. False: it is not there. */
bool tr_truth_look(const struct tr_sql_item *item, uint64_t now_us, struct tr_sql_job *is);

/* The state that others see. */
enum tr_job_state tr_truth_state(const struct tr_sql_job *job, uint64_t now_us);

#endif
