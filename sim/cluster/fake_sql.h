#ifndef TR_SIM_CLUSTER_FAKE_SQL_H
#define TR_SIM_CLUSTER_FAKE_SQL_H

/*
 * A database that is none: rows in an array, behind port/sql.h. See fake_sql.c.
 */

#include "base/rng.h"
#include "port/sql.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    FAKE_SQL_ROWS = 4096,
    FAKE_SQL_NODES = 3,
    FAKE_SQL_ITEMS = 16, /* of an ask */
    FAKE_SQL_CONNS = 2,
    FAKE_SQL_TOPICS = 8,
    FAKE_SQL_SLOTS = 4,
    FAKE_SQL_TEXT = 32, /* bytes of a key, tag or body */
};

struct fake_sql_row {
    struct tr_sql_job is;
    char tag[FAKE_SQL_TEXT], key[FAKE_SQL_TEXT], backoff[FAKE_SQL_TEXT], body[FAKE_SQL_TEXT];
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
        struct fake_sql_row read[FAKE_SQL_ITEMS]; /* by it */
    } conns[FAKE_SQL_CONNS];
};

struct fake_sql {
    struct tr_rng rng;
    uint64_t now_us;                         /* its clock */
    struct fake_sql_row rows[FAKE_SQL_ROWS]; /* by id */
    unsigned count;
    char topics[FAKE_SQL_TOPICS][FAKE_SQL_TEXT];
    uint32_t gens[FAKE_SQL_TOPICS];
    unsigned topic_count;
    uint64_t next_seq[FAKE_SQL_SLOTS];
    uint32_t epochs[FAKE_SQL_SLOTS];
    uint64_t owners[FAKE_SQL_SLOTS];
    uint64_t away_until_us;
    bool calm; /* no faults any more */
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

/* Does what is due up to then, one thing; false: nothing is. db->now_us goes there. */
bool fake_sql_step(struct fake_sql *db, uint64_t until_us);

/* The row of that id, or NULL. */
const struct fake_sql_row *fake_sql_find(const struct fake_sql *db, uint64_t id);

#endif
