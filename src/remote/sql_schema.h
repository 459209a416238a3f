#ifndef TR_REMOTE_SQL_SCHEMA_H
#define TR_REMOTE_SQL_SCHEMA_H

/*
 * The tables of tarry in MariaDB and MySQL. See sql_schema.c.
 */

#include <stdbool.h>
#include <stddef.h>

enum {
    TR_SQL_SCHEMA = 2,        /* what this version makes and writes, */
    TR_SQL_SCHEMA_OLDEST = 1, /* and the oldest that it can serve */
};

enum tr_sql_fit {
    TR_SQL_FITS,
    TR_SQL_MISSING, /* there are no tables, or older ones than it can serve: migrate */
    TR_SQL_NEWER,   /* they were made by a newer tarry, and are not touched */
};

/* Can tables of this schema be served? 0: there are none. */
enum tr_sql_fit tr_sql_schema_fit(unsigned found);

/* The i-th statement that makes schema `to` out of the one before; NULL: there are no more. Each
 * may be run again. The last one notes the schema in `meta`. */
const char *tr_sql_schema_step(unsigned to, unsigned i);

/* The columns that a table must have, with commas; NULL: there are no more. */
struct tr_sql_table {
    const char *name;
    const char *columns;
    unsigned since; /* this schema */
};
const struct tr_sql_table *tr_sql_schema_table(unsigned i);

#endif
