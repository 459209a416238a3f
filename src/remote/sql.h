#ifndef TR_REMOTE_SQL_H
#define TR_REMOTE_SQL_H

/*
 * A database on threads of its own: answers port/sql.h, which has the rules. See sql.c.
 *
 * Threads: the loop's, but where something is said of others. None of these waits but close.
 */

#include "base/check.h"
#include "port/sql.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_sql;

/* All of it is copied. */
struct tr_sql_setup {
    const char *url;
    const char *user;        /* NULL: the system's */
    const char *password;    /* NULL: none */
    unsigned connections;    /* 1 to TR_SQL_CONNS_MAX */
    uint64_t node;           /* this process: a random number, new with each start */
    unsigned timeout_s;      /* for an answer of the database */
    uint64_t patience_ms;    /* to find out what became of a commit, and to repeat */
    void (*wake)(void *ctx); /* called by any thread: there is something to collect */
    void *wake_ctx;
};

/* TARRY_EINVAL: the URL, or numbers; TARRY_EFULL: no memory, no threads. It connects when asked. */
TR_MUST_USE int tr_sql_open(struct tr_sql **out, const struct tr_sql_setup *setup);

struct tr_sql_port tr_sql_port(struct tr_sql *s);
void tr_sql_listen(struct tr_sql *s, struct tr_sql_ear ear);

/* Tells what has ended since. */
void tr_sql_collect(struct tr_sql *s);

struct tr_sql_stat {
    uint64_t connects;
    uint64_t transactions;
    uint64_t repeats;  /* for deadlocks, and broken connections */
    uint64_t halvings; /* of batches with a bad one */
    uint64_t lookups;  /* commits whose answer was lost */
};
struct tr_sql_stat tr_sql_stat(const struct tr_sql *s);

/* Cuts off what is under way, and waits for the threads. Nothing is told any more: what was asked
 * and not told is left, and is the asker's again. s may be NULL. */
void tr_sql_close(struct tr_sql *s);

#endif
