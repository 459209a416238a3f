#ifndef TR_REMOTE_SQL_TEXT_H
#define TR_REMOTE_SQL_TEXT_H

/*
 * Statements, put together piece by piece. See sql_text.c.
 *
 * Memory is the system's: this is used by threads of their own. A text that found none is `failed`,
 * and stays so until it is cleared.
 */

#include "port/sql.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_sql_text {
    char *at;
    size_t len;
    size_t room;
    bool failed;
};

void tr_sql_text_clear(struct tr_sql_text *t);
void tr_sql_text_free(struct tr_sql_text *t);

void tr_sql_put(struct tr_sql_text *t, const char *text);
void tr_sql_put_number(struct tr_sql_text *t, uint64_t number);
void tr_sql_put_signed(struct tr_sql_text *t, int64_t number);
/* %s text of ours, %u a uint64_t, %q a struct tr_span *, quoted. Nothing else. */
void tr_sql_putf(struct tr_sql_text *t, const char *format, ...);

#endif
