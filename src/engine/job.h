#ifndef TR_ENGINE_JOB_H
#define TR_ENGINE_JOB_H

/*
 * The jobs in memory, found by rid or by id, and the far ones, which are not. See job.c.
 *
 * A job stays at its address from birth to death; its memory is reused, but `stamp` goes on, so
 * that whoever remembers (job, stamp) can tell whether it still means the same thing.
 */

#include "base/bitmap.h"
#include "base/index.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/extra.h"
#include "engine/far.h"
#include "engine/record.h"
#include "engine/wheel.h"
#include "port/request.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_topic;
struct tr_slot;

struct tr_job {
    /* Durable: what the log and the checkpoint say. */
    uint64_t rid;
    uint64_t id;
    uint64_t due_us;
    uint64_t created_us;
    uint64_t delay_us;
    uint64_t ttr_us;
    struct tr_topic *topic;
    uint32_t priority;
    uint32_t flags; /* enum tr_record_flag */
    struct tr_counters counters;
    uint64_t dead_seq; /* place among the dead of its topic, or 0: not dead */
    uint64_t dead_at_us;
    uint8_t dead_reason;
    uint64_t lease;         /* number of the last lease */
    uint64_t lease_ttr_us;  /* how long that lease is for */
    uint64_t lease_end_us;  /* wall; 0: it ends with its connection, or there is none */
    struct tr_extra *extra; /* what few have, or NULL */
    bool altered;           /* differs from its record: the checkpoint has a row for it */
    uint32_t row;           /* number of the freeze that has dealt with that row */
    struct tr_list in_altered;

    /* Where its record is. */
    uint32_t record_len;
    uint32_t body_len;
    uint64_t record_off;
    struct tr_slot *slot;   /* NULL: not yet written */
    struct tr_list in_slot; /* of slot->jobs */
    uint8_t *body;          /* NULL: only on disk */
    bool relogging;         /* its record is being written again, or read for that */

    /* Only in memory. */
    uint8_t state;                   /* enum tr_job_state; 0: not scheduled */
    uint8_t nth;                     /* of its chunk */
    uint32_t stamp;                  /* changes whenever it enters or leaves a state */
    uint32_t places[TR_ORDER_COUNT]; /* in the heaps of its state, */
    uint32_t tag_place;              /* and in that of its tag */
    uint64_t ready_us;               /* since when it is ready, */
    uint64_t first_us;               /* and when it first was, of its present due time */
    uint64_t gate;                   /* batch of its last gated record */
    uint64_t holder;
    bool crowd;            /* delayed: among many of its topic, see change.c */
    bool handing;          /* reserved, but its body is still being read for the one who gets it */
    bool paid;             /* its hand-out took a token of its topic */
    bool undoing;          /* reserved, but nobody got it: to be taken back uncounted */
    struct tr_timer timer; /* delayed: in the due wheel; reserved: in the lease wheel */
    struct tr_list link;   /* of its topic's list for its state; reserved: of its holder */
    uint32_t promotion;    /* the last one that has seen it */
    uint64_t bulk;         /* mark of the last one that has changed it */
    struct tr_list visit;  /* of the far jobs that were brought back for a while */
    uint64_t visit_us;     /* boot: since when */
};

struct tr_job_chunk;

struct tr_jobs {
    struct tr_mem *mem;
    struct tr_bitmap alive; /* L */
    struct tr_index by_rid;
    struct tr_map moved; /* by id, those whose rid is another */
    struct tr_list spare;
    struct tr_job_chunk **chunks; /* with holes: NULL */
    size_t chunk_count;
    size_t chunk_room;
    size_t hole;       /* there is none before this one */
    uint64_t count;    /* in memory */
    struct tr_far far; /* alive and not in memory, their records in slots */
    uint64_t runs;     /* the same with records in runs */
    struct tr_list altered_jobs;
    uint64_t altered;   /* how many those are */
    uint32_t freeze_no; /* of the newest checkpoint in the making */
    uint64_t body_bytes;
    uint64_t extras;    /* jobs in memory that have some, */
    uint64_t tag_bytes; /* and what their tags take */
};

void tr_jobs_init(struct tr_jobs *js, struct tr_mem *mem);
void tr_jobs_fini(struct tr_jobs *js);

/*
 * A job with rid and id; all else is zero. TARRY_ENOMEM: nothing changed. rid must be new, and is
 * alive from now on; but if L was loaded from a checkpoint it may have the rid already.
 */
TR_MUST_USE int tr_jobs_add(struct tr_jobs *js, uint64_t rid, uint64_t id, struct tr_job **job);

/* Ends the job: its rid is dead, its body and memory are given back. It must be in no list. */
void tr_jobs_remove(struct tr_jobs *js, struct tr_job *job);

/* Gives the memory of chunk `number` back if no job is in it; true: it did. Nobody may remember a
 * (job, stamp) meanwhile. For idle times: what was needed once is as a rule needed again. */
bool tr_jobs_trim(struct tr_jobs *js, size_t number);

/* Its memory is given back, but the rid stays alive: what is known of it is in `entry` from now
 * on; NULL: its record is in a run. It must be in no list and not be altered. TARRY_ENOMEM: nothing
 * changed. */
TR_MUST_USE int tr_jobs_send_far(struct tr_jobs *js, struct tr_job *job,
                                 const struct tr_far_entry *entry);

/* Gives the job a new rid; the old one is dead. TARRY_ENOMEM: nothing changed. */
TR_MUST_USE int tr_jobs_rename(struct tr_jobs *js, struct tr_job *job, uint64_t rid);

struct tr_job *tr_jobs_by_rid(const struct tr_jobs *js, uint64_t rid);
struct tr_job *tr_jobs_by_id(const struct tr_jobs *js, uint64_t id);

void tr_jobs_set_altered(struct tr_jobs *js, struct tr_job *job, bool on);

/* For the freeze freeze_no: was the job altered when that began, and is its row still to be made?
 * An altered job like that, or NULL. The row is made. */
bool tr_jobs_has_row(const struct tr_jobs *js, const struct tr_job *job);
struct tr_job *tr_jobs_next_row(const struct tr_jobs *js);
void tr_jobs_row_done(struct tr_jobs *js, struct tr_job *job);

/* A copy of a body, to be given to a job or back; or NULL. */
TR_MUST_USE uint8_t *tr_jobs_copy_body(struct tr_jobs *js, const uint8_t *body, uint32_t len);
void tr_jobs_free_body(struct tr_jobs *js, uint8_t *copy, uint32_t len);

/* The job keeps this copy in memory, in place of one it had. */
void tr_jobs_give_body(struct tr_jobs *js, struct tr_job *job, uint8_t *copy, uint32_t len);
/* Takes the copy out of the job; NULL when it has none. */
uint8_t *tr_jobs_take_body(struct tr_jobs *js, struct tr_job *job);
void tr_jobs_drop_body(struct tr_jobs *js, struct tr_job *job);

/* The job has this block from now on, or NULL, in place of the one it had. */
void tr_jobs_set_extra(struct tr_jobs *js, struct tr_job *job, struct tr_extra *x);

/* Takes the job's record out of its slot, if it has one. */
void tr_job_unplace(struct tr_job *job, uint64_t batch);
void tr_job_place(struct tr_job *job, struct tr_slot *slot, uint64_t off, uint32_t len);

/* Walks all jobs in no order: start with *at = 0. NULL at the end. No change while walking but to
 * the job itself. */
struct tr_job *tr_jobs_next(const struct tr_jobs *js, size_t *at);

/* The same place by place: *job is NULL if nothing is there. False at the end. Jobs may come and go
 * between two calls. */
bool tr_jobs_walk(const struct tr_jobs *js, size_t *at, const struct tr_job **job);

bool tr_jobs_ok(const struct tr_jobs *js);

#endif
