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
    FAKE_SQL_TOPICS = 8,
    FAKE_SQL_SLOTS = 4,
    FAKE_SQL_TEXT = 32, /* bytes of a key, tag or body */
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
    uint8_t policy[TR_POLICY_BYTES_MAX];
    size_t policy_len;
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
        uint64_t next_us; /* when something happens to it */
        struct fake_sql_row read[TR_SQL_ITEMS_MAX]; /* by it */
        struct tr_sql_job page[TR_SQL_ITEMS_MAX];
        struct tr_sql_topic topics[FAKE_SQL_TOPICS];
    } conns[FAKE_SQL_CONNS];
};

struct fake_sql {
    struct tr_rng rng;
    uint64_t now_us;
    int64_t skew_us; /* of its clock */
    struct fake_sql_state is;
    uint64_t away_until_us;
    unsigned breaks; /* one of so many asks finds its connection broken */
    bool calm;       /* no faults any more */
    struct fake_sql_end ends[FAKE_SQL_NODES];
    /* An item was committed: told at that moment, whatever is answered. */
    void (*committed)(void *ctx, unsigned node, const struct tr_sql_ask *ask,
                      const struct tr_sql_item *item);
    void *ctx;
    uint64_t commits, deadlocks, lost, undone, unsure;
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

/* The row of that id, or NULL. */
const struct fake_sql_row *fake_sql_find(const struct fake_sql *db, uint64_t id);

#endif
