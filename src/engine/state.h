#ifndef TR_ENGINE_STATE_H
#define TR_ENGINE_STATE_H

/*
 * The durable state: jobs and topics, as a function of the records applied to it. See state.c.
 *
 * A running engine and a recovering one change it through the same functions, so what is
 * recovered is what was there.
 */

#include "base/check.h"
#include "engine/cells.h"
#include "engine/fine.h"
#include "engine/job.h"
#include "engine/keys.h"
#include "engine/record.h"
#include "engine/sched.h"
#include "engine/tally.h"
#include "engine/topic.h"

#include <stdbool.h>
#include <stdint.h>

#define TR_RID_MAX (UINT64_C(1) << 48)

enum { TR_LEASE_BITS = 44 }; /* of a lease number; the epoch is above them */

struct tr_freeze;

/* Replay: brings the far job `rid` back into memory. */
typedef int tr_recall_fn(void *ctx, uint64_t rid);
/* Replay: does a run have this job? Then its record there is the one that counts. */
typedef int tr_has_fn(void *ctx, uint64_t rid, bool *has);

/* A row of cells on its way out; see tally.c. */
struct tr_dropped {
    uint32_t row;
    uint32_t topic;     /* whose it was, */
    uint32_t freeze_no; /* also to this checkpoint, which was in the making; or 0 */
};

struct tr_state {
    struct tr_freeze *freeze; /* a checkpoint in the making wants to hear of changes; or NULL */
    struct tr_jobs jobs;
    struct tr_topics topics;
    struct tr_cells cells; /* of the forecast: hours, */
    struct tr_fine fine;   /* and what is finer */
    struct tr_dropped drops[TR_TALLY_DROPS];
    unsigned drop_count;
    struct tr_keys keys;
    struct tr_scheds scheds;
    uint64_t next_rid;
    uint64_t clock_us;    /* the test clock may have come so far; 0: there is none */
    uint64_t freed_bytes; /* of records that were killed or moved since the start */
    bool replaying;       /* L came from a checkpoint: some jobs have not been met yet */
    bool recount;         /* replay of an older store: topics count those that have been met */
    bool recells;         /* the same for cells, which are counted when it has ended */
    bool redead;          /* the same for dead ones */
    bool rebytes;         /* and for bytes, which begin with 0 then */
    tr_recall_fn *recall; /* replay */
    tr_has_fn *has;
    void *recall_ctx;
    struct tr_slot *slots;    /* of the log, by number: where far jobs are, */
    struct tr_groups *groups; /* or here */
};

/* Is this rid alive, and its job, which is not in memory, in a run? */
bool tr_state_in_run(const struct tr_state *s, uint64_t rid);

struct tr_slot *tr_state_slot(const struct tr_state *s, uint32_t number);

void tr_state_init(struct tr_state *s, struct tr_mem *mem);
void tr_state_fini(struct tr_state *s);

/*
 * Applies one record of batch `batch`; *job: the one it is about, or NULL. Nothing about bodies,
 * places, lists or timers. TARRY_ENOMEM: nothing changed. TARRY_EDAMAGED: no such record can
 * follow this state; TARRY_EVERSION: it has fields or a type that this version does not keep
 * (replay only).
 */
TR_MUST_USE int tr_state_apply(struct tr_state *s, const struct tr_record *rec, uint64_t batch,
                               struct tr_job **job);

/* Replay, batches that the checkpoint contains: a whole record gives its job, if L has the rid, a
 * place and its fields; anything else is passed over. */
TR_MUST_USE int tr_state_meet(struct tr_state *s, const struct tr_record *rec, struct tr_job **job);

/* The same for a row of the checkpoint, which says how the job differs from its record. */
TR_MUST_USE int tr_state_meet_change(struct tr_state *s, const struct tr_record *rec);

/* Sets the fields that rec names: due, priority, counters and the like. */
void tr_state_set_fields(struct tr_job *job, const struct tr_record *rec);

/*
 * A job that is in no list, is not altered and has its place leaves memory; its topic and slot
 * still count it. TARRY_ENOMEM: nothing changed. The other way round, with its record and where
 * that is; TARRY_EDAMAGED: it is another's.
 */
TR_MUST_USE int tr_state_send_far(struct tr_state *s, struct tr_job *job);
TR_MUST_USE int tr_state_bring_back(struct tr_state *s, uint64_t rid, const struct tr_record *rec,
                                    struct tr_job **job);

/* The record of a far job is in the run of a promotion now, not in its slot any more. */
void tr_state_far_to_run(struct tr_state *s, uint64_t rid);

/* The run of a promotion has the job as it is in rec: if that is what it is now, it is altered no
 * more. */
void tr_state_absorb(struct tr_state *s, struct tr_job *job, const struct tr_record *rec);

/* A far job that only its run knows is found there. TARRY_ENOMEM: nothing changed. */
TR_MUST_USE int tr_state_locate(struct tr_state *s, uint64_t rid, const struct tr_far_entry *entry);

/* What the record of a death says of the body, if it does not say it yet: how long it is. Of purged
 * jobs nothing. */
void tr_state_weigh(const struct tr_state *s, struct tr_kill *kill);

/* Applies one kill. The job must be in no list. False: there was none. */
bool tr_state_kill(struct tr_state *s, const struct tr_kill *kill, uint64_t batch);

/* The whole job as a record of this type: PUSH, MOVE and RELOG; the body only if it is in memory.
 */
void tr_state_describe(const struct tr_job *job, uint8_t type, struct tr_record *rec);

/* What may differ from the job's record, as an ALTER: the row of a checkpoint. */
void tr_state_describe_changes(const struct tr_job *job, struct tr_record *rec);

/* The job in memory with this id, and the rid of the far one; NULL, 0: there is none, or it was
 * purged. */
struct tr_job *tr_state_job(const struct tr_state *s, uint64_t id);
uint64_t tr_state_far_rid(const struct tr_state *s, uint64_t id);

/* Ends a topic that nothing needs. */
void tr_state_remove_topic(struct tr_state *s, struct tr_topic *t);

/* Forgets topics that nothing needs; for the end of a replay. */
void tr_state_drop_empty_topics(struct tr_state *s);

bool tr_state_ok(const struct tr_state *s);

#endif
