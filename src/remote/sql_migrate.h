#ifndef TR_REMOTE_SQL_MIGRATE_H
#define TR_REMOTE_SQL_MIGRATE_H

/*
 * Makes the tables, and looks whether a database can be served. See sql_migrate.c.
 */

#include "base/check.h"
#include "remote/sql_conn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was found out. */
struct tr_sql_found {
    char version[64];
    unsigned schema; /* 0: no tables */
    uint64_t packet_max;
    bool read_only;
    unsigned flush; /* innodb_flush_log_at_trx_commit */
    unsigned sync;  /* sync_binlog */
    bool log_bin;
    char format[16]; /* binlog_format */
    unsigned steps;  /* migrate: so many were made */
};

/* TARRY_EVERSION: the tables are of a newer tarry. TARRY_ESTATE: another one migrates, or something
 * is not as it must be. Others: *f. In each case f->why has sentences. */
TR_MUST_USE int tr_sql_migrate(const struct tr_sql_access *access, struct tr_sql_found *found,
                               struct tr_sql_fault *f);

/* The same without changing anything: can it be served, with bodies of so many bytes? */
TR_MUST_USE int tr_sql_inspect(const struct tr_sql_access *access, uint64_t body_max,
                               struct tr_sql_found *found, struct tr_sql_fault *f);

/* The store behind these tables: if they have no name, slots and prefix yet they get these. uuid:
 * what it is called from now on, with room for 32 digits and an end. TARRY_ESTATE: slots or prefix
 * are others. */
struct tr_sql_store {
    char *uuid;
    unsigned slots;
    const char *prefix;
};
TR_MUST_USE int tr_sql_agree(const struct tr_sql_access *access, const struct tr_sql_store *store,
                             struct tr_sql_fault *f);

/* What is odd but no error, one after the other: a sentence, or NULL. */
const char *tr_sql_odd(const struct tr_sql_found *found, unsigned i);

#endif
