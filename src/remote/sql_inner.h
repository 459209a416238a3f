#ifndef TR_REMOTE_SQL_INNER_H
#define TR_REMOTE_SQL_INNER_H

/*
 * What the files of the database port share: a line is one connection with its thread.
 *
 *     sql.c         lines, threads, mail between them and the loop
 *     sql_line.c    connecting; one ask, with all its repeats
 *     sql_change.c  the transaction of a CHANGE
 *     sql_small.c   all other asks
 *     sql_row.c     rows of jobs, out and in
 *     sql_text.c, sql_conn.c, sql_fault.c
 */

#include "remote/sql_conn.h"
#include "remote/sql_text.h"

#include <pthread.h>
#include <stdatomic.h>

/* Memory for what was read for an ask; it goes with the ask's end. */
struct tr_sql_room {
    struct tr_sql_piece *first;
    bool failed;
};

void *tr_sql_room_get(struct tr_sql_room *r, size_t size); /* NULL: failed */
struct tr_span tr_sql_room_copy(struct tr_sql_room *r, const char *at, size_t len);
void tr_sql_room_free(struct tr_sql_room *r);

struct tr_sql_line {
    const struct tr_sql_access *access;
    uint64_t node;
    uint64_t patience_ms;
    atomic_bool *stop; /* of all lines */

    struct tr_sql_conn *conn; /* NULL: none */
    pthread_mutex_t *lock;    /* of the next: */
    int socket;               /* its own, for whoever cuts it off; -1: none */
    uint64_t number;          /* by which the server knows the connection, or knew the last one */
    uint64_t made_ms;         /* when that was made */
    uint64_t packet_max;
    uint64_t lane;    /* 0: none yet */
    uint64_t op;      /* number of the last transaction of this lane, as it was read */
    uint64_t down_ms; /* until then nobody tries again */

    struct tr_sql_fault fault;
    struct tr_sql_text text;
    struct tr_sql_room *room; /* of the ask that is being done */
    const struct tr_sql_row *row;

    /* Counters, read by the loop. */
    atomic_uint_fast64_t connects, transactions, repeats, halvings, lookups;
};

/* ---- sql_line.c */

uint64_t tr_sql_now_ms(void);
void tr_sql_line_do(struct tr_sql_line *line, struct tr_sql_ask *ask);
void tr_sql_line_close(struct tr_sql_line *line);
/* Runs line->text, which is complete. 0, or the fault is set. */
TR_MUST_USE int tr_sql_line_run(struct tr_sql_line *line, tr_sql_row_fn *fn, void *ctx);

/* ---- sql_change.c */

enum tr_sql_ran {
    TR_SQL_RAN_DONE,
    TR_SQL_RAN_FAILED, /* undone: see the fault; AWAY: the connection is gone, and nothing was done
                        */
    TR_SQL_RAN_LOST,   /* it was sent, and no answer came: line->op is what it was before */
};

/* One transaction for items from `from` to before `to`. There is a connection. */
enum tr_sql_ran tr_sql_change_run(struct tr_sql_line *line, struct tr_sql_ask *ask, unsigned from,
                                  unsigned to);

/* ---- sql_small.c */

/* The same for all other kinds; they may be repeated. */
enum tr_sql_ran tr_sql_small_run(struct tr_sql_line *line, struct tr_sql_ask *ask);

/* ---- sql_row.c */

/* "SELECT ..., gen of the topic FROM job WHERE "; rows of it are read by tr_sql_row_read. The index
 * is named, since on a small table the server would rather go through all rows, and lock them. */
void tr_sql_row_select(struct tr_sql_text *t, bool with_bodies, const char *index);
/* False: no memory. *gen: of its topic, now. */
bool tr_sql_row_read(struct tr_sql_room *room, const struct tr_sql_row *row, struct tr_sql_job *job,
                     uint32_t *gen);
/* "INSERT INTO job (...) VALUES ", and then for each job; */
void tr_sql_row_insert(struct tr_sql_text *t);
void tr_sql_row_put(struct tr_sql_text *t, const struct tr_sql_job *job, bool with_body);
/* and behind them, to change rows that are there. */
void tr_sql_row_update(struct tr_sql_text *t, bool with_body);

/* The database's clock, as a column. */
#define TR_SQL_NOW "CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000) AS UNSIGNED)"

#endif
