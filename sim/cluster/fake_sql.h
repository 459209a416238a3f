#ifndef TR_SIM_CLUSTER_FAKE_SQL_H
#define TR_SIM_CLUSTER_FAKE_SQL_H

/*
 * A database that is none: rows in an array, behind port/sql.h. See fake_sql.c.
 */

#include "base/rng.h"
#include "port/sql.h"
#include "rules/policy.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    FAKE_SQL_ROWS = 4096,
    FAKE_SQL_NODES = 3,
    FAKE_SQL_CONNS = 2,
    FAKE_SQL_TOPICS = 16,
    FAKE_SQL_SLOTS = 4,
    FAKE_SQL_TEXT = 32, /* bytes of a key, tag or body */
    FAKE_SQL_PLANS = 8,
    FAKE_SQL_SPEC = 256, /* bytes of a schedule */
};

struct fake_sql_row {
    struct tr_sql_job is;
    char tag[FAKE_SQL_TEXT], key[FAKE_SQL_TEXT], backoff[FAKE_SQL_TEXT], body[FAKE_SQL_TEXT];
};

struct fake_sql_topic {
    char name[FAKE_SQL_TEXT];
    size_t len;
    uint32_t gen, spread, version;
    uint8_t order, keep;
    bool delivers;
    uint8_t policy[TR_POLICY_BYTES_MAX];
    size_t policy_len;
};

struct fake_sql_plan {
    struct tr_sql_plan is; /* id 0: there is none */
    char name[FAKE_SQL_TEXT], spec[FAKE_SQL_SPEC], state[FAKE_SQL_SPEC];
};

/* All that it knows: what a replica has is an earlier one of these. */
struct fake_sql_state {
    struct fake_sql_row rows[FAKE_SQL_ROWS]; /* by id */
    unsigned count;
    struct fake_sql_topic topics[FAKE_SQL_TOPICS];
    unsigned topic_count;
    uint64_t next_seq[FAKE_SQL_SLOTS];
    uint32_t epochs[FAKE_SQL_SLOTS];
    uint64_t owners[FAKE_SQL_SLOTS];
    char uuid[33]; /* of the store; empty: none yet */
    struct fake_sql_plan plans[FAKE_SQL_PLANS];
    uint32_t last_plan;
};

struct fake_sql;

/* One node's end of it. */
struct fake_sql_end {
    struct fake_sql *db;
    unsigned node;
    struct tr_sql_ear ear;
    struct fake_sql_conn {
        struct tr_sql_ask *todo, *last;
        bool ran;         /* the first of todo has its end, which is on its way */
        bool stalled;     /* it was held up once */
        uint64_t next_us; /* when something happens to it */
        struct fake_sql_row read[TR_SQL_ITEMS_MAX];  /* by it */
        struct fake_sql_topic met[FAKE_SQL_TOPICS];  /* topics of which it told that */
        struct tr_sql_topic others[FAKE_SQL_TOPICS]; /* their settings are others */
        struct tr_sql_job page[TR_SQL_ITEMS_MAX];
        struct tr_sql_topic topics[FAKE_SQL_TOPICS];
        struct fake_sql_plan plan;
        struct tr_sql_plan plans[FAKE_SQL_SLOTS];
    } conns[FAKE_SQL_CONNS];
};

struct fake_sql {
    struct tr_rng rng;
    uint64_t now_us;
    int64_t skew_us; /* of its clock */
    struct fake_sql_state is;
    struct fake_sql_state past; /* what a replica has, */
    uint64_t past_us;           /* of this time */
    uint64_t life;              /* the number of the server that answers */
    uint64_t away_until_us;
    uint64_t stall_until_us; /* it says nothing */
    unsigned breaks;         /* one of so many asks finds its connection broken */
    bool calm;               /* no faults any more */
    struct fake_sql_end ends[FAKE_SQL_NODES];
    /* An item was committed: told at that moment, whatever is answered. */
    void (*committed)(void *ctx, unsigned node, const struct tr_sql_ask *ask,
                      const struct tr_sql_item *item);
    /* The same of a schedule, with its job if it makes one; may be NULL. */
    void (*planned)(void *ctx, const struct tr_sql_ask *ask);
    /* All jobs that this topic has at this moment were purged; or NULL. */
    void (*purged)(void *ctx, unsigned node, uint32_t topic);
    /* A bulk of this node wants to know which jobs there are; or NULL. */
    void (*marked)(void *ctx, unsigned node);
    void *ctx;
    uint64_t commits, deadlocks, lost, undone, unsure, failovers;
};

void fake_sql_init(struct fake_sql *db, uint64_t seed);

/* A process begins: what its earlier life asked may still be done, and is told to nobody. */
struct tr_sql_port fake_sql_start(struct fake_sql *db, unsigned node, struct tr_sql_ear ear);

/* The process ends: what it had asked may be done, and is told to nobody. */
void fake_sql_stop(struct fake_sql *db, unsigned node);

/* What time it is by its clock. */
uint64_t fake_sql_clock(const struct fake_sql *db);

/* When something happens, or UINT64_MAX. */
uint64_t fake_sql_next(const struct fake_sql *db);

/* Does what is due up to then, one thing; false: nothing is. db->now_us goes there. */
bool fake_sql_step(struct fake_sql *db, uint64_t until_us);

/* The replica has all that there is. */
void fake_sql_sync(struct fake_sql *db);

/* The replica is the server from now on. */
void fake_sql_failover(struct fake_sql *db);

/* The row of that id, or NULL. */
const struct fake_sql_row *fake_sql_find(const struct fake_sql *db, uint64_t id);

/* ---- fake_plan.c ---- */

/* PLAN: it is read, or written. */
void fake_plan_lock(struct fake_sql *db, struct fake_sql_conn *conn, struct tr_sql_planned *plan);
void fake_plan_write(struct fake_sql *db, const struct tr_sql_planned *plan);
/* A job that a schedule waits for may have ended by this. */
void fake_plan_end(struct fake_sql *db, const struct tr_sql_item *item, uint64_t now_us);
/* The same of all jobs of a topic. */
void fake_plan_purged(struct fake_sql *db, uint32_t topic, uint64_t now_us);
/* PLANS. */
void fake_plan_read(struct fake_sql *db, struct fake_sql_conn *conn, struct tr_sql_ask *ask);

#endif
