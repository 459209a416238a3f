#ifndef TR_REMOTE_SQL_INNER_H
#define TR_REMOTE_SQL_INNER_H

/*
 * What the files of the database port share: a line is one connection with its thread.
 *
 *     sql.c         lines, threads, mail between them and the loop
 *     sql_line.c    connecting; one ask, with all its repeats
 *     sql_life.c    which server it is, and what a failover may have lost
 *     sql_change.c  the transaction of a CHANGE
 *     sql_plan.c    schedules
 *     sql_small.c   all other asks
 *     sql_flow.c    of those, what happened to jobs,
 *     sql_forecast.c and how many are due when
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
    uint64_t patience_ms; /* so long it is looked for what became of a commit */
    uint64_t until_ms;    /* of the ask that is being done */
    atomic_bool *stop;    /* of all lines */

    struct tr_sql_conn *conn; /* NULL: none */
    pthread_mutex_t *lock;    /* of the next: */
    int socket;               /* its own, for whoever cuts it off; -1: none */
    uint64_t number;          /* by which the server knows the connection, or knew the last one */
    uint64_t made_ms;         /* when that was made */
    uint64_t packet_max;
    bool skips;       /* the server knows SKIP LOCKED */
    uint64_t lane;    /* 0: none yet */
    uint64_t op;      /* number of the last transaction of this lane, as it was read */
    uint64_t down_ms; /* until then nobody tries again */
    uint64_t life;    /* of the server that it is connected to: sql_life.c */

    struct tr_sql_fault fault;
    struct tr_sql_text text;
    struct tr_sql_room *room; /* of the ask that is being done */
    const struct tr_sql_row *row;

    /* Counters, read by the loop. */
    atomic_uint_fast64_t connects, transactions, repeats, halvings, lookups;
};

/* ---- sql_line.c */

void tr_sql_line_do(struct tr_sql_line *line, struct tr_sql_ask *ask);
void tr_sql_line_close(struct tr_sql_line *line);
/* Runs line->text, which is complete. 0, or the fault is set. */
TR_MUST_USE int tr_sql_line_run(struct tr_sql_line *line, tr_sql_row_fn *fn, void *ctx);

/* ---- sql_life.c */

/* Which server it is, and what is to be done if it is another one. 0, or the fault is set, and
 * there is no connection any more. */
TR_MUST_USE int tr_sql_life_meet(struct tr_sql_line *line);

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

/* ---- sql_plan.c */

/* Of a transaction: statements that lock it, so many; a row of the last one; those that write. */
unsigned tr_sql_plan_lock(struct tr_sql_text *t, const struct tr_sql_planned *plan);
void tr_sql_plan_hear(struct tr_sql_line *line, struct tr_sql_planned *plan,
                      const struct tr_sql_row *row);
void tr_sql_plan_write(struct tr_sql_text *t, const struct tr_sql_planned *plan);
/* Jobs of these items have ended, and schedules wait for some of them. */
void tr_sql_plan_ends(struct tr_sql_text *t, const struct tr_sql_ask *ask, unsigned from,
                      unsigned to);
/* All jobs of a topic have ended by a purge. What fails is seen when the schedule is next read. */
void tr_sql_plan_purged(struct tr_sql_line *line, const struct tr_sql_ask *ask);
/* PLANS: the packet, and a row. */
void tr_sql_plans_put(struct tr_sql_text *t, const struct tr_sql_ask *ask);
void tr_sql_plans_hear(struct tr_sql_line *line, struct tr_sql_ask *ask,
                       const struct tr_sql_row *row);

/* ---- sql_small.c */

/* The same for all other kinds; they may be repeated. */
enum tr_sql_ran tr_sql_small_run(struct tr_sql_line *line, struct tr_sql_ask *ask);

/* ---- sql_fold.c */

enum tr_sql_ran tr_sql_fold_run(struct tr_sql_line *line, struct tr_sql_ask *ask);

/* ---- sql_flow.c */

/* FLOW: behind what LOOK puts, and what comes of it; DAYS, of more than one packet. */
void tr_sql_flow_put(struct tr_sql_text *t, const struct tr_sql_ask *ask);
void tr_sql_flow_hear(struct tr_sql_line *line, struct tr_sql_ask *ask,
                      const struct tr_sql_row *row);
enum tr_sql_ran tr_sql_days_run(struct tr_sql_line *line, struct tr_sql_ask *ask);

/* ---- sql_forecast.c */

enum tr_sql_ran tr_sql_forecast_run(struct tr_sql_line *line, struct tr_sql_ask *ask);

/* ---- sql_row.c */

/* "SELECT ..., gen of the topic FROM job WHERE "; rows of it are read by tr_sql_row_read. The index
 * is named, since on a small table the server would rather go through all rows, and lock them. */
void tr_sql_row_select(struct tr_sql_text *t, bool with_bodies, const char *index);
/* False: no memory. *gen: of its topic, now. */
bool tr_sql_row_read(struct tr_sql_room *room, const struct tr_sql_row *row, struct tr_sql_job *job,
                     uint32_t *gen);
/* "INSERT INTO job (...) VALUES ", and then for each job; */
void tr_sql_row_insert(struct tr_sql_text *t);
enum tr_sql_body { TR_SQL_BODY_NOT, TR_SQL_BODY_HERE, TR_SQL_BODY_APART /* in @tarry_body */ };
void tr_sql_row_put(struct tr_sql_text *t, const struct tr_sql_job *job, enum tr_sql_body body);
/* and behind them, to change rows that are there. */
void tr_sql_row_update(struct tr_sql_text *t, bool with_body);

/* Where a body is that was sent apart: a variable of the session. */
#define TR_SQL_BODY "@tarry_body"

/* The database's clock, as a column. */
#define TR_SQL_NOW "CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000) AS UNSIGNED)"

#endif
