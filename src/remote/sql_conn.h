#ifndef TR_REMOTE_SQL_CONN_H
#define TR_REMOTE_SQL_CONN_H

/*
 * One connection to MariaDB or MySQL: statements go out, rows come back. It blocks. See sql_conn.c.
 *
 * Threads: a connection belongs to one thread at a time.
 */

#include "base/check.h"
#include "cluster/sql_url.h"
#include "port/sql.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_SQL_SAID = 300 };

struct tr_sql_fault {
    enum tr_sql_blame blame; /* AWAY: it is not known what became of the last one */
    unsigned code;           /* of the server, or of the client library */
    char said[TR_SQL_SAID];  /* its own words, one line */
    char why[TR_SQL_WHY];    /* sentences for people: what, and what to do. No secrets */
};

/* Where to, and as whom. All of it is borrowed while a connection is open. */
struct tr_sql_access {
    struct tr_sql_url url;
    const char *user;     /* NULL: the system's */
    const char *password; /* NULL: none */
    unsigned timeout_s;   /* for an answer; the server has to be reached in half of that */
};

/* Makes sentences of the words of the server. */
void tr_sql_fault_set(struct tr_sql_fault *f, const struct tr_sql_access *access, unsigned code,
                      const char *said);

/* "tarry at 127.0.0.1:3306". out has room for TR_SQL_PLACE. */
enum { TR_SQL_PLACE = TR_SQL_HOST + TR_SQL_NAME + TR_SQL_PATH };
void tr_sql_place(char *out, const struct tr_sql_url *url);

struct tr_sql_conn;

/* NULL: *f says why. */
struct tr_sql_conn *tr_sql_conn_open(const struct tr_sql_access *access, struct tr_sql_fault *f);
void tr_sql_conn_close(struct tr_sql_conn *c); /* or NULL */

/* A row of the result with this number, counted from 0 in what was sent; values may be NULL. */
struct tr_sql_row {
    unsigned result;
    unsigned count;
    char *const *values;
    const unsigned long *lengths;
};
typedef void tr_sql_row_fn(void *ctx, const struct tr_sql_row *row);

/*
 * Sends statements, with ; between them, and hears all that is said. 0: each of them was done. Else
 * the first that was not is the last that was begun, and *f says why. fn may be NULL.
 */
TR_MUST_USE int tr_sql_conn_run(struct tr_sql_conn *c, const char *text, size_t len,
                                tr_sql_row_fn *fn, void *ctx);
const struct tr_sql_fault *tr_sql_conn_fault(const struct tr_sql_conn *c);

/* Rows that the i-th statement of the last run changed. */
uint64_t tr_sql_conn_changed(const struct tr_sql_conn *c, unsigned i);

/* Its socket, to cut it off from another thread; and its number there, for KILL. */
int tr_sql_conn_socket(const struct tr_sql_conn *c);
uint64_t tr_sql_conn_number(const struct tr_sql_conn *c);
/* Does the server know SELECT ... SKIP LOCKED? */
bool tr_sql_conn_skips(const struct tr_sql_conn *c);

/* A row's value as a number; 0: NULL, or none. */
uint64_t tr_sql_number(const struct tr_sql_row *row, unsigned i);

/* Before the first connection, and after the last: of the process. Gives false: no memory. */
bool tr_sql_library_open(void);
void tr_sql_library_close(void);

#endif
