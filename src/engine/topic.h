#ifndef TR_ENGINE_TOPIC_H
#define TR_ENGINE_TOPIC_H

/*
 * Topics: names, numbers, counts, and the jobs of each by state. See topic.c.
 *
 * A topic exists while it has a job, a policy, a hold or a waiter, or is kept; then it is gone, and
 * its number is used again only after all others were. The last 10,000 that were asked to be kept
 * are, in memory only. It is durable (a TOPIC record) from its first job or
 * policy on.
 */

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/name.h"
#include "engine/job.h"
#include "engine/wheel.h"
#include "port/request.h"
#include "rules/bucket.h"
#include "rules/figures.h"
#include "rules/meter.h"
#include "rules/policy.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_URGENT = 1024, TR_TOPICS_KEPT = 10000 };

/* (due, id): where a job stands among the delayed ones of its topic, and among the parked ones. */
struct tr_edge {
    uint64_t due_us;
    uint64_t id;
};

enum tr_topic_heap { TR_HEAP_DELAYED = TR_ORDER_COUNT, TR_HEAP_COUNT };

/* Sums over all topics, those that are gone included, since the start. */
struct tr_totals {
    uint64_t count[TR_DEAD + 1];
    uint64_t far;
    uint64_t dead_far;
    uint64_t urgent;
    uint64_t pushed;
    uint64_t deleted;
    uint64_t timeouts; /* leases that ran out */
    uint64_t dropped;  /* dead ones that were killed for their age or number */
    uint64_t purged;   /* jobs */
    uint64_t holds[TR_HOLD_COUNT];
    uint64_t pauses;
};

struct tagged;

struct tr_topic {
    uint32_t number; /* in records, */
    uint32_t handle; /* and in requests: the number that it had before its first purge */
    uint32_t name_len;
    bool purged; /* what it had is dead, though not all of it is cleared away; it has no name */
    uint32_t purged_no;       /* checkpoint that was in the making when that happened, or 0 */
    bool logged;              /* the log or a checkpoint has its name */
    bool listed;              /* it has a job or a hold, not only a policy */
    struct tr_policy *policy; /* its own, the text that it names behind it; NULL: the default */
    uint32_t policy_row;      /* bytes of it in a checkpoint */
    uint32_t policy_no;       /* checkpoint in the making that has dealt with it */
    uint64_t jobs;            /* alive, dead and far ones too */
    uint64_t dead;            /* of those */
    uint64_t bytes;           /* of their bodies */
    uint64_t jobs_then;       /* the same when checkpoint `freeze_no` was begun */
    uint64_t dead_then;
    uint64_t bytes_then;
    uint32_t freeze_no;
    uint32_t row;           /* of cells, or 0: none yet; see tally.c */
    uint64_t far;           /* delayed ones that are not in memory, */
    uint64_t dead_far;      /* and dead ones: */
    uint64_t dead_edge;     /* none of these has a dead_seq before this, */
    uint64_t dead_again;    /* but some may have one from this on that could not be read: */
    uint64_t dead_again_us; /* then (boot) they are looked for again; 0: there are none */
    uint64_t next_dead_seq; /* from 1 */
    uint64_t far_first_us;  /* least due time of the delayed far ones, */
    bool far_known;         /* if that is so; else of those that were met so far */
    bool far_all;           /* in runs, too, */
    bool far_gone;          /* since this pass began, and the first of them is gone again: */
    uint32_t far_pass;      /* see nearest.c */
    struct tr_rate pushes;
    struct tr_rate hands;
    struct tr_late *late; /* of its jobs, or NULL */
    struct tr_meter_hold metering;
    uint64_t count[TR_DEAD + 1];
    uint64_t urgent;
    uint64_t pushed;
    uint64_t deleted;
    uint64_t holds[TR_HOLD_COUNT];
    uint64_t wanted;  /* by reserves that are not answered yet: it must not go */
    uint64_t waiting; /* how many of these stand in line */
    uint64_t dropped; /* dead ones, since the start */
    uint64_t pauses;
    uint64_t pause_us;
    struct tr_timer pause;                /* armed while paused; boot time */
    bool stopped;                         /* its policy holds hand-outs back: */
    struct tr_timer resume;               /* armed until then, if that ends; T */
    struct tr_bucket bucket;              /* of its rate; a rate of 0: not in use; */
    struct tr_timer token;                /* armed while somebody waits for one; boot time */
    bool parked;                          /* jobs of it due before the horizon are far: */
    uint64_t parked_us;                   /* when it ended to be so last; T */
    struct tr_list in_parked;             /* of topics->parked */
    struct tr_edge edge;                  /* none of these comes before this: */
    struct tr_timer edge_timer;           /* armed while it is not due yet; T */
    uint64_t overdue;                     /* so many of them were due when they were counted; */
    uint64_t slots_due;                   /* being counted: those whose records are in slots, */
    uint64_t slots;                       /* and all far ones in slots */
    bool crowded;                         /* those behind the edge are to leave memory: */
    bool stayed;                          /* there was no memory for that; */
    bool leaving_ready;                   /* ready ones now, delayed ones before; */
    struct tr_list *leaving;              /* next of these, or NULL: not begun */
    struct tr_list in_crowd;              /* of topics->crowded */
    struct tr_list in_need;               /* of topics->hungry: parked, and few are in memory */
    struct tr_list by_state[TR_DEAD + 1]; /* delayed and ready in no order; dead by dead_seq */
    struct tr_heap heaps[TR_HEAP_COUNT];  /* ready by each order, delayed by (due, id) */
    struct tr_list *rest[TR_HEAP_COUNT];  /* first of the list not yet in the heap; NULL: unused */
    struct tr_timer drop_timer;           /* armed for its first dead job; T */
    struct tr_list in_drops;              /* of topics->drops */
    uint64_t expiring;                    /* ready ones with an end to that: */
    uint64_t expires_us;                  /* T: none of them is over before */
    struct tr_list *walk;                 /* a list stands here in one of by_state; or NULL */
    struct tr_list tags;                  /* ready ones by tag, see tag.c: */
    unsigned tag_count;                   /* so many tags, */
    unsigned tags_open;                   /* of which so many have a rest; */
    struct tagged **tag_chains;           /* and by hash, or NULL */
    struct tr_list waiters;               /* struct tr_waiter, first come first */
    struct tr_list *serving;              /* the next of them who is looked at; NULL: the first */
    struct tr_list dirty;                 /* in the list of topics to be served */
    struct tr_list link;                  /* of all topics, by number */
    struct tr_list by_handle;   /* the same by handle; a purged one stands before its heir */
    struct tr_list in_purged;   /* of those that are purged */
    uint64_t purge_round;       /* before which it was last cleared; see purge.c */
    struct tr_list with_ready;  /* of those with a ready job */
    struct tr_list in_kept;     /* of topics->kept, or empty: not kept */
    struct tr_topic *same_hash; /* next topic whose name has the same hash */
    struct tr_totals *totals;
    struct tr_topics *of;
    char name[TR_TOPIC_NAME_MAX];
};

struct tr_topics {
    struct tr_mem *mem;
    struct tr_list all;          /* by number, */
    struct tr_list in_order;     /* by handle, */
    struct tr_list being_purged; /* and those that are purged, the next one first */
    struct tr_list with_ready;   /* those with a ready job, in no order, */
    uint64_t with_ready_count;   /* and how many they are */
    struct tr_list kept;         /* those that stay without a job, the oldest first, */
    uint32_t pinned;             /* handle of the one with TR_HOLD_KEEP: there is one at most */
    uint64_t kept_count;         /* how many they are, */
    uint64_t kept_max;           /* and may be */
    struct tr_list drops;        /* those with dead jobs to be killed, */
    struct tr_list crowded;      /* parked ones with too many jobs in memory, */
    struct tr_list hungry;       /* and with few, first come first */
    struct tr_list parked;       /* topics, */
    uint64_t parked_count;       /* and how many they are */
    struct tr_list *counting;    /* the next one whose overdue jobs are counted */
    uint64_t overdue;            /* of all of them */
    uint64_t near_min;           /* delayed and ready jobs that each may have in memory */
    uint64_t near_max;           /* and what all of them together may have beyond that: the pool; */
    uint64_t loans;              /* so much of it is used */
    struct tr_map by_number;
    struct tr_map by_name;   /* by a 64-bit hash of the name; equal hashes form a chain */
    struct tr_map by_handle; /* where that is not the number */
    uint64_t count;
    uint64_t purged;       /* of these */
    uint64_t listed;       /* of those that are not, with a job or a hold */
    uint64_t policy_bytes; /* rows of all policies */
    struct tr_policy none; /* of those that have none of their own */
    uint32_t next_number;
    uint32_t far_pass;       /* through the table of far jobs, the last one that was begun */
    struct tr_lates lates;   /* how late jobs of busy topics are, */
    struct tr_late *late;    /* and of all */
    struct tr_meters meters; /* and what happened to them */
    struct tr_rate pushes;   /* of all, */
    struct tr_rate hands;    /* too */
    struct tr_totals totals; /* of those that are not purged, */
    struct tr_totals gone;   /* and of those that are */
};

void tr_topics_init(struct tr_topics *ts, struct tr_mem *mem);
void tr_topics_fini(struct tr_topics *ts);

/* A number that no topic has. Numbers go round only after 2^32 - 1 of them. */
uint32_t tr_topics_free_number(struct tr_topics *ts);

/* A new topic under this number, which becomes the holder of its name. TARRY_ENOMEM: nothing
 * changed. */
TR_MUST_USE int tr_topics_add(struct tr_topics *ts, uint32_t number, const char *name, size_t len,
                              struct tr_topic **topic);

/* Does anything keep the topic: a job, a policy, a hold, somebody who waits? */
bool tr_topic_needed(const struct tr_topic *t);

/* Does anything but TR_HOLD_KEEP keep it, or is it paused? And how many of those are there? */
bool tr_topic_shown(const struct tr_topic *t);
uint64_t tr_topics_shown(const struct tr_topics *ts);

/* It stays until it is let go. Which one was kept the longest ago? NULL: none is. */
void tr_topic_keep(struct tr_topic *t);
void tr_topic_let_go(struct tr_topic *t);
struct tr_topic *tr_topics_longest_kept(const struct tr_topics *ts);

/* Its policy, never NULL. */
const struct tr_policy *tr_topic_policy(const struct tr_topic *t);

/* Nothing of it is handed out, for whatever reason. */
bool tr_topic_paused(const struct tr_topic *t);

/* A copy of a policy, with its text, for tr_topic_set_policy, which takes it. NULL: no memory. */
TR_MUST_USE struct tr_policy *tr_topics_copy_policy(struct tr_topics *ts,
                                                    const struct tr_policy *p);
void tr_topic_set_policy(struct tr_topic *t, struct tr_policy *copy, size_t row_bytes);

void tr_topic_note_listed(struct tr_topic *t); /* its jobs or holds have changed */

/* Ends a topic that nothing needs. */
void tr_topics_remove(struct tr_topics *ts, struct tr_topic *topic);

struct tr_topic *tr_topics_find(const struct tr_topics *ts, const char *name, size_t len);
struct tr_topic *tr_topics_by_number(const struct tr_topics *ts, uint32_t number);
struct tr_topic *tr_topics_by_handle(const struct tr_topics *ts, uint32_t handle);

/* All that the topic has is dead from now on: it loses its name and is counted no more. */
void tr_topics_purge(struct tr_topics *ts, struct tr_topic *t);

/* Before that: another topic that will have its name, under a new number. TARRY_ENOMEM: nothing
 * changed. Then: holds, handle and those who wait go over to it. */
TR_MUST_USE int tr_topics_heir(struct tr_topics *ts, struct tr_topic *t, struct tr_topic **heir);
void tr_topics_inherit(struct tr_topics *ts, struct tr_topic *t, struct tr_topic *heir);

/* The one with the least handle above `after` (0: the first), or NULL. */
struct tr_topic *tr_topics_after(const struct tr_topics *ts, uint32_t after);

/* Puts a job, which is in no list, among those of `state`; takes it out again. Reserved ones are
 * only counted. */
void tr_topic_enter(struct tr_topic *t, struct tr_job *job, enum tr_job_state state);
void tr_topic_leave(struct tr_topic *t, struct tr_job *job);

/* Jobs in memory that are delayed or ready: how many there are, and how many there may be. */
uint64_t tr_topic_near(const struct tr_topic *t);
uint64_t tr_topic_quota(const struct tr_topic *t);
/* No further one of this priority has a place. An eighth of the quota is for urgent ones. */
bool tr_topic_full(const struct tr_topic *t, uint32_t priority);
void tr_topic_park(struct tr_topic *t);   /* it is not yet */
void tr_topic_unpark(struct tr_topic *t); /* if it is; its timer is not armed */
/* If it is parked, and has come down to half of its quota or has no ready job though a far one is
 * due, it is among the hungry from now on. */
void tr_topic_note_need(struct tr_topic *t);

/* A far job of it, found by a search, is due then; TR_WHEEL_NEVER: one is begun. A job has become
 * far; it is far no more. */
void tr_topic_note_far(struct tr_topic *t, uint64_t due_us);
void tr_topic_add_far(struct tr_topic *t, uint64_t due_us);
void tr_topic_lose_far(struct tr_topic *t, uint64_t due_us);

/* Where to count what happens to its jobs. */
struct tr_meter *tr_topic_seek_meter(struct tr_topic *t);
static inline struct tr_meter *tr_topic_meter(struct tr_topic *t)
{
    struct tr_meter *m = t->metering.meter;

    return m->hold == &t->metering ? m : tr_topic_seek_meter(t);
}

/* One more. */
static inline void tr_topic_count(struct tr_topic *t, enum tr_metered what)
{
    tr_topic_meter(t)->counts[what]++;
}

/* Since when the oldest ready job is, or 0: there is none. */
uint64_t tr_topic_oldest(const struct tr_topic *t);

/* One more, or one less, of this kind of hold. */
void tr_topic_hold(struct tr_topic *t, enum tr_hold kind);
void tr_topic_unhold(struct tr_topic *t, enum tr_hold kind);

/*
 * The first job of a heap, or NULL. When the heap lacks jobs, it is completed first, which costs a
 * unit of *work each. TARRY_EFULL: that was not enough, call again; TARRY_ENOMEM: the same, when
 * there is memory.
 */
TR_MUST_USE int tr_topic_first(struct tr_topic *t, unsigned heap, unsigned *work,
                               struct tr_job **job);

/* The dead job with the least dead_seq, or NULL. */
struct tr_job *tr_topic_first_dead(const struct tr_topic *t);

/* Compares totals and heaps with a walk over all topics. */
bool tr_topics_ok(const struct tr_topics *ts);

#endif
