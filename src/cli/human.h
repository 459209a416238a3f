#ifndef TR_CLI_HUMAN_H
#define TR_CLI_HUMAN_H

/*
 * What people read: tables, lists of facts, durations, colours on a terminal. See human.c.
 */

#include "cli/cli.h"

enum tr_paint {
    TR_PLAIN,
    TR_DIM,
    TR_BOLD,
    TR_RED,
    TR_GREEN,
    TR_YELLOW,
    TR_CYAN,
};

enum { TR_HUMAN_TEXT = 64, TR_TABLE_COLUMNS = 14 };

struct tr_column {
    const char *title;
    bool right; /* a number */
};

/* Rows are kept until there are 1,000, or it is ended: then widths are known. */
struct tr_table {
    const struct tr_column *columns;
    unsigned count;
    unsigned widths[TR_TABLE_COLUMNS];
    char **cells;
    enum tr_paint *paints;
    size_t used; /* cells */
    bool headed;
};

/* The paint, if stdout may have colours; else "". And its end. */
const char *tr_human_paint(enum tr_paint paint);
const char *tr_human_unpaint(enum tr_paint paint);

enum tr_paint tr_human_state(const char *state);

void tr_table_init(struct tr_table *t, const struct tr_column *columns, unsigned count);
void tr_table_cell(struct tr_table *t, enum tr_paint paint, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tr_table_end(struct tr_table *t); /* prints what is left; all is freed */

/* A line `name: value`, names as wide as the widest of a page. Nothing, if the value is "". */
void tr_human_fact(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What time it is to the server: the test clock's, if it has one; else ours. */
uint64_t tr_human_now_ms(struct tr_cli *c);

/* in 29m58s, 12 s ago, now. */
const char *tr_human_when(struct tr_cli *c, uint64_t at_ms, char out[TR_HUMAN_TEXT]);
/* 2.1 s late, on time. */
const char *tr_human_late(uint64_t late_ms, char out[TR_HUMAN_TEXT]);
/* 29m58s. */
const char *tr_human_span(uint64_t ms, char out[TR_HUMAN_TEXT]);
/* 1,234,567. */
const char *tr_human_count(uint64_t n, char out[TR_HUMAN_TEXT]);
/* 1 job, 1,234,567 jobs. */
const char *tr_human_job_count(uint64_t n, char out[TR_HUMAN_TEXT]);
/* 1.5 MiB. */
const char *tr_human_bytes(uint64_t n, char out[TR_HUMAN_TEXT]);
/* 2026-11-15 08:30:00Z. */
const char *tr_human_moment(uint64_t ms, char out[TR_HUMAN_TEXT]);

/* The table of jobs that most commands print: begin, a row for each, tr_table_end. */
void tr_human_jobs_begin(struct tr_table *t);
void tr_human_job(struct tr_cli *c, struct tr_table *t, const struct tr_json_value *job);

/* The same with one row. */
void tr_human_one_job(struct tr_cli *c, const struct tr_json_value *job);

#endif
