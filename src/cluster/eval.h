#ifndef TR_CLUSTER_EVAL_H
#define TR_CLUSTER_EVAL_H

/*
 * A call of a script: its arguments on the way out. What the scripts expect is told at the top of
 * each file in lua/; answer.h reads what they say.
 *
 * All of a job is copied, since the call may have to be sent again when who asked is gone; names of
 * topics, uuid and node are borrowed until it is answered for good. Out of memory is noted, and
 * told by tr_eval_end.
 */

#include "base/check.h"
#include "base/mem.h"
#include "cluster/place.h"
#include "cluster/script.h"
#include "port/redis.h"
#include "port/request.h"
#include "port/sql.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_EVAL_JOBS = 128, TR_EVAL_BYTES = 512 * 1024, TR_EVAL_TOPICS = 64 };

struct tr_eval_topic {
    const char *name; /* with an end */
    uint32_t spread;
    enum tr_order order; /* if this call makes it */
};

/* What all calls of jobs have in common. */
struct tr_eval_about {
    const struct tr_layout *layout;
    unsigned slot;
    const char *uuid; /* of the store */
    const char *node; /* TR_PLACE_NODE_DIGITS */
    uint64_t op;      /* its number: larger than that of all before in this slot and kind */
    const struct tr_eval_topic *topics;
    unsigned topic_count;
    bool schedules; /* the last key is that of the slot's schedules */
};

struct tr_eval {
    struct tr_mem *mem;
    const char *topics[TR_EVAL_TOPICS]; /* names, of the call that is made */
    struct tr_span *args; /* at NULL: at `len` bytes in the scratch, until tr_eval_end */
    unsigned count;
    unsigned room;
    char *bytes; /* scratch: numbers and names of keys */
    size_t used;
    size_t size;
    unsigned rows_at; /* PUSH: where in args the jobs begin */
    size_t alike_at;  /* PUSH: where in the scratch the last job's `what` is; 0: there is none, */
    size_t alike_len;
    size_t alike_body; /* how long its body is, */
    char times[14];    /* and its time and age */
    size_t acks_at;    /* EDIT: where in the scratch the last row of acks is, */
    unsigned acks;     /* how many it has (1: there is no row yet), */
    unsigned ack_topic;
    uint64_t ack_lease; /* and of which lease */
    uint64_t ack_id;
    unsigned run_at; /* where in args the server's run is, and three behind it the wall clock; 0:
                        it is no script of jobs */
    char wall[24];
    bool failed;
};

void tr_eval_init(struct tr_eval *c, struct tr_mem *mem);
void tr_eval_fini(struct tr_eval *c);

/* Begins anew: EVALSHA, the script, keys, and what is in common. */
void tr_eval_begin(struct tr_eval *c, enum tr_script_name script, const struct tr_eval_about *a);

/* The same for what is no script of jobs: a command of Redis, or a script of other keys. Its
 * arguments follow, one by one. */
void tr_eval_plain(struct tr_eval *c, const char *command);
void tr_eval_meta(struct tr_eval *c, enum tr_script_name script, unsigned keys);
void tr_eval_add(struct tr_eval *c, const char *text, size_t len);
void tr_eval_add_number(struct tr_eval *c, uint64_t v);

/* It was answered: gives back what was needed for much. */
void tr_eval_trim(struct tr_eval *c);

/* PUSH: before the first job. seen: the highest sequence number that this node knows of. */
void tr_eval_push_from(struct tr_eval *c, uint64_t seen, unsigned slot);
/* One job, as asked for age_us ago; topic: its place in about.topics. Of an `exact` one, an
 * occurrence, `name` is the schedule that waits for its end; none: no one does. Jobs in a row that
 * differ in nothing but their bodies, and not in how long these are, are told as one row; so are
 * those that differ in delays, ages and bodies, with their times. */
void tr_eval_push(struct tr_eval *c, unsigned topic, const struct tr_req *r, uint64_t age_us);

/* Once it is complete: when the next job of the call is due, if such times count from from_us.
 * Begins as {0}. */
struct tr_eval_rows {
    unsigned what; /* of args */
    unsigned next;
    unsigned left; /* bodies of that row */
};
uint64_t tr_eval_due(const struct tr_eval *c, struct tr_eval_rows *rows, uint64_t from_us);

struct tr_eval_take {
    unsigned count;
    uint64_t lease;
    uint64_t ttr_us;
    const char *tag;
    size_t tag_len;
    uint64_t wait_until_us; /* by the server's clock; 0: does not wait */
    bool held;              /* by a connection */
    uint64_t least_us;      /* the lease is at least so long */
    size_t bytes;           /* of bodies, at most; but one job always */
    uint64_t heard;         /* count is 0: what calls behind this one have handed out goes back */
};
void tr_eval_take(struct tr_eval *c, const struct tr_eval_take *t);

/* EDIT: what r asks of one job: DELETE (with a lease: ack), RELEASE, RETURN, BURY, TOUCH, KICK_JOB,
 * FIRE, EDIT, CLOSE (its connection is gone), RESERVE_JOB (r.lease: the new one). BURY by
 * force: without a lease. */
void tr_eval_edit(struct tr_eval *c, unsigned topic, const struct tr_req *r, uint64_t age_us);

/* forget_us: a topic that nobody needs for so long may be forgotten; 0: not this one. epoch: under
 * which this node is the slot's owner. */
void tr_eval_tend(struct tr_eval *c, unsigned most, uint64_t forget_us, uint64_t epoch);
/* only: d, s, or 0: delayed ones if there is no dead one. */
void tr_eval_kick(struct tr_eval *c, unsigned most, bool beanstalk, char only);
/* PAUSE of the beanstalk port; 0: it goes on. counted: as a pause. */
void tr_eval_pause(struct tr_eval *c, uint64_t us, bool counted);
void tr_eval_look(struct tr_eval *c, bool bodies);
void tr_eval_look_at(struct tr_eval *c, unsigned topic, uint64_t id);

/*
 * Where a database has the truth: see lua/claim.lua, index.lua, raise.lua, scan.lua. All times are
 * those of the database.
 */
/* So far ahead rows are in Redis, at most. */
#define TR_HOT_WINDOW_MAX_US UINT64_C(3600000000)
enum { TR_CLAIM_MOST = 16 };

struct tr_eval_claim {
    unsigned count; /* 0: only what time has changed */
    uint64_t now_us;
    const char *tag;
    size_t tag_len;
    uint64_t wait_until_us; /* 0: does not wait */
    unsigned most;          /* of those that time has changed */
    uint32_t version;       /* of the settings that are known: older ones hand out nothing */
    uint64_t bytes;         /* of bodies there may be so many; but one job always */
};
void tr_eval_claim(struct tr_eval *c, const struct tr_eval_claim *t);

enum tr_index_how {
    TR_INDEX_IS = 'I',    /* the row is so; a newer entry stays */
    TR_INDEX_MEND = 'M',  /* the same, but an entry that is as new is only put in its place */
    TR_INDEX_FORCE = 'F', /* whatever is there */
};
#define TR_INDEX_ANY UINT32_MAX /* there is no row: an entry of any version goes */

/* Before the first image. hot_max: so many jobs of a topic may wait in a slot; sheds: none is to be
 * new. */
void tr_eval_index_from(struct tr_eval *c, uint64_t now_us, uint64_t hot_max, bool sheds);
/* The row as it was committed; that of a dead job has no entry. */
void tr_eval_index(struct tr_eval *c, unsigned topic, enum tr_index_how how,
                   const struct tr_sql_job *row, uint64_t now_us);
/* It was deleted, as it was at this version. */
void tr_eval_index_gone(struct tr_eval *c, unsigned topic, uint64_t id, uint32_t ver);

/* epoch: under which this node is the slot's owner. */
#define TR_RAISE_NEW UINT64_MAX /* or the topic is about to be made */
void tr_eval_raise(struct tr_eval *c, uint64_t now_us, uint64_t upto_us, uint64_t epoch);
void tr_eval_scan(struct tr_eval *c, uint64_t now_us, struct tr_span cursor, unsigned count);

/* It is complete: args are spans now. TARRY_ENOMEM: it is not to be sent. */
TR_MUST_USE int tr_eval_end(struct tr_eval *c);

/*
 * Once it is complete, before each time that it is sent: what the server at the other end of the
 * connection said of itself, and what time it is. All else is the same for a repeat.
 */
void tr_eval_aim(struct tr_eval *c, const char *run, uint64_t wall_us);

/* Once it is complete: with the script's text (EVAL), or its sum (EVALSHA). */
void tr_eval_with_text(struct tr_eval *c, enum tr_script_name script, bool text);

#endif
