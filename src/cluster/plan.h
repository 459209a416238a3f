#ifndef TR_CLUSTER_PLAN_H
#define TR_CLUSTER_PLAN_H

/*
 * A schedule on its way through an item: as it was read, and as it is to be. See plan.c.
 */

#include "cluster/inner.h"
#include "port/sql.h"
#include "rules/schedule.h"

enum {
    TR_PLAN_STAMP = 30, /* bytes: the node's name and the number of its call */
    TR_PLAN_ENTRY = 16 + TR_SCHEDULE_NAME_MAX,
    TR_PLAN_ROSTER = 14 + TR_PLAN_STAMP + 14,
};

/* What the script is to do. */
enum tr_plan_what { TR_PLAN_SET = 's', TR_PLAN_RUN = 'r', TR_PLAN_GONE = 'g', TR_PLAN_LATER = 'l' };

/* What becomes of the occurrence that lives. */
enum tr_plan_live { TR_PLAN_KEEP = 'k', TR_PLAN_NONE = 'n', TR_PLAN_JOB = 'j' };

struct tr_plan {
    char name[TR_SCHEDULE_NAME_MAX + 1];
    size_t name_len;
    uint64_t number;             /* of the schedule, which says its slot; 0: there is none */
    uint64_t before;             /* it had this number, in another slot; 0 */
    char roster[TR_PLAN_ROSTER]; /* what stands in the roster */
    tr_item_fn *then;            /* what comes when it was read, written or named */

    /* As it was read. */
    bool there;
    bool strange; /* it is of a newer release, or not ours: the agenda's only */
    bool held;
    char stamp[TR_PLAN_STAMP];
    uint8_t *bytes; /* the definition, of which `is` borrows */
    size_t byte_count;
    struct tr_schedule is;
    struct tr_schedule_state at;
    struct tr_cron cron;
    const struct tr_zone *zone; /* NULL: not known here */

    /* What is to be. */
    enum tr_plan_what what;
    struct tr_schedule_state next;
    bool next_held;
    enum tr_plan_live live;
    uint64_t next_us;  /* its next tick; TR_SCHEDULE_NEVER */
    uint64_t later_us; /* LATER: so much */
    bool any;          /* GONE: whatever its stamp */
    bool fires;
    bool runs; /* the job is due now, not at due_us */
    uint64_t due_us;
    char entry[TR_PLAN_ENTRY]; /* of the agenda, that is done with; empty: none */
    size_t entry_len;
    uint8_t *def; /* a new definition, or NULL */
    size_t def_len;
    size_t def_size;

    /* What the script said. */
    char said; /* O: done, C: another stamp, P: paused, F: full; 0: no answer */
    char new_stamp[TR_PLAN_STAMP];
    uint64_t id; /* of the job that was made, */
    uint64_t made_us;
    uint64_t now_us; /* then, by Redis */

    uint64_t *times; /* foretold */
    bool foretold;
    struct tr_schedule_state ahead;

    /* With a database: sql_plan.c. */
    enum tr_sql_plans by;   /* how it is looked for */
    struct tr_sql_plan row; /* as it was read, without its texts */
    uint64_t ended_us;      /* the occurrence that lives has ended then; 0: it has not */
    char refused;           /* why no job is made: P or F, as the script says it; 0 */
    uint32_t topic_row;     /* of the topic that it is to have; 0: as before */
    unsigned slot;
    struct tr_sql_planned change;
    uint8_t state[1 + TR_SCHEDULE_STATE_MAX];
};

/* An item has one from now on. False: no memory. */
TR_MUST_USE bool tr_plan_new(struct tr_cluster *c, struct tr_item *item, const char *name,
                             size_t len);

/* Reads it in item->slot, then goes on by `then`; what cannot be read is not there. */
void tr_plan_read(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then);
/* The definition and state of one that was read; TARRY_EDAMAGED: of a newer release, or not ours.
 */
TR_MUST_USE int tr_plan_learn(struct tr_cluster *c, struct tr_plan *p, struct tr_span def,
                              struct tr_span state);
void tr_plan_forget(struct tr_cluster *c, struct tr_plan *p);
/* It was read: then, or its end. */
void tr_plan_was_read(struct tr_cluster *c, struct tr_item *item, int err);
/* The job of a tick, as a push has it; *room: for its backoff. */
struct tr_req tr_plan_job(const struct tr_plan *p, struct tr_backoff *room);
/* A job was made, whoever asked. */
void tr_plan_note_job(struct tr_cluster *c, struct tr_item *item);
/* Changes it there. */
void tr_plan_write(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then);
/* So is its definition: bytes are the plan's. False: no memory, or that is none. */
TR_MUST_USE bool tr_plan_take(struct tr_cluster *c, struct tr_plan *p, const char *at, size_t len);
/* Can its ticks be told here? */
bool tr_plan_known(const struct tr_plan *p);
struct tr_schedule_plan tr_plan_of(const struct tr_plan *p);
/* When its housekeeping is next to look at it, if it is like this. */
uint64_t tr_plan_next(const struct tr_plan *p, const struct tr_schedule_state *at, uint64_t now_us);
/* Of its jitter: the same on all nodes, and before it is made. */
uint64_t tr_plan_seed(const char *name, size_t len);

/* The roster: which number this name has, 0: none. */
void tr_roster_find(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then);
/* The first with a larger number than item->id: name and number; number 0: none. */
void tr_roster_after(struct tr_cluster *c, struct tr_item *item, tr_item_fn *then);
/* p: it will be in item->slot -> number, before; c: it is there -> said C: it was put elsewhere;
 * d: it is gone, if plan->roster still stands there; h: it was met in item->slot -> said C: it
 * belongs elsewhere. */
void tr_roster_say(struct tr_cluster *c, struct tr_item *item, char what, tr_item_fn *then);

/* ---- with a database ---- */

/* As tr_plan_write; and roster_say, where there is no roster: names are in the rows. */
void tr_desk_plan_write(struct tr_cluster *c, struct tr_item *item);
void tr_desk_roster_say(struct tr_cluster *c, struct tr_item *item, char what);

/* An owner has read it, since it is due. */
void tr_recur_read(struct tr_cluster *c, struct tr_item *keeper);

#endif
