#ifndef TR_SIM_PREFIX_H
#define TR_SIM_PREFIX_H

/*
 * The exact half of the oracle: what the engine's memory was at the end of each batch that is not
 * yet known to be durable. After a recovery it must be one of these. See prefix.c.
 */

#include "engine/engine.h"
#include "harm.h"
#include "model.h"
#include "report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A struct tr_job_fact without pointers. */
struct sim_row {
    uint64_t rid, id, due_us, created_us, delay_us, ttr_us;
    struct sim_extra extra;
    uint64_t dead_seq, dead_at_us, lease, lease_end_us;
    uint64_t body_hash; /* 0: not in memory */
    uint32_t topic;     /* index */
    uint32_t key;       /* number; 0: none */
    uint32_t priority, body_len;
    uint32_t dead_why;
    uint32_t reserves, timeouts, releases, buries, kicks;
    uint32_t number, cell; /* of its topic; its kind of cell */
    uint8_t state;         /* enum tr_job_state; 0: not in memory */
    bool away;             /* the same */
    bool unread;           /* its record cannot be read: only id, rid, topic and due_us are known */
};

struct sim_rows {
    struct sim_row *rows;
    size_t count;
    size_t room;
    uint64_t batch;
    bool sorted; /* they came in order of rid */
    struct sim_policy policies[SIM_TOPICS_MAX];
    uint64_t bytes[SIM_TOPICS_MAX];   /* of bodies, as the engine counts them */
    uint32_t numbers[SIM_TOPICS_MAX]; /* 0: there is no such topic */
};

struct sim_prefix {
    struct sim_rows *snaps; /* by rising batch; those before floor are given up */
    size_t first;
    size_t count;
    size_t room;
    struct sim_rows now; /* as last read */
    struct sim_model *model;
    const struct sim_disk *disk; /* where the records of far jobs are */
    struct sim_harm harm;        /* ... but for those of a damaged run */
    struct sim_report *report;
    uint64_t hour_us;            /* of the cells */
    uint64_t rid_high;           /* highest rid in any batch that is surely durable */
    const char *promise;         /* that a difference breaks */
    const struct sim_rows *like; /* names of topics by their numbers; NULL: the model knows */
};

void sim_prefix_init(struct sim_prefix *p, struct sim_model *model, struct sim_report *report);
void sim_prefix_fini(struct sim_prefix *p);
void sim_prefix_reset(struct sim_prefix *p);

/* Reads all facts into p->now. */
void sim_prefix_read(struct sim_prefix *p, const struct tr_engine *e);

/* The batch was closed: memory is what a recovery to it must give. */
void sim_prefix_closed(struct sim_prefix *p, const struct tr_engine *e, uint64_t batch);

/* No recovery may give less than this batch. */
void sim_prefix_durable(struct sim_prefix *p, uint64_t batch);

/* NULL: not kept. */
const struct sim_rows *sim_prefix_find(const struct sim_prefix *p, uint64_t batch);

/* The row of a job, or NULL. */
const struct sim_row *sim_rows_find(const struct sim_rows *r, uint64_t id);

/*
 * A new engine claims to have come back at the end of `batch`. Complains unless that is allowed
 * and exact. From now on this is the least.
 */
void sim_prefix_recovered(struct sim_prefix *p, const struct tr_engine *e, uint64_t batch);

/* The engine's facts are these: else p->promise is broken. */
void sim_prefix_same(struct sim_prefix *p, const struct tr_engine *e, const struct sim_rows *want);

/* A copy of rows; give it back by sim_rows_free. */
void sim_rows_copy(struct sim_rows *to, const struct sim_rows *from);
void sim_rows_free(struct sim_rows *r);

uint64_t sim_prefix_floor(const struct sim_prefix *p);

#endif
