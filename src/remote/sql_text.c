/*
 * A buffer that grows. Quoting is for the character set binary, in a session whose mode does not
 * change what a backslash is (sql_conn.c sees to both): only the quote and the backslash mean
 * anything, all other bytes stand for themselves.
 */

#include "remote/sql_text.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 4096, KEEP = 1 << 20, DIGITS = 24 };

void tr_sql_text_clear(struct tr_sql_text *t)
{
    if (t->room > KEEP) {
        tr_sql_text_free(t);
    }
    t->len = 0;
    t->failed = false;
}

void tr_sql_text_free(struct tr_sql_text *t)
{
    free(t->at);
    *t = (struct tr_sql_text){0};
}

static bool reserve(struct tr_sql_text *t, size_t more)
{
    size_t room = t->room > 0 ? t->room : FIRST;
    char *at;

    if (t->failed) {
        return false;
    }
    while (room - t->len < more) {
        room *= 2;
    }
    if (room == t->room) {
        return true;
    }
    at = realloc(t->at, room);
    if (at == NULL) {
        t->failed = true;
        return false;
    }
    t->at = at;
    t->room = room;
    return true;
}

static void put_bytes(struct tr_sql_text *t, const char *at, size_t len)
{
    if (reserve(t, len)) {
        memcpy(t->at + t->len, at, len);
        t->len += len;
    }
}

void tr_sql_put(struct tr_sql_text *t, const char *text)
{
    put_bytes(t, text, strlen(text));
}

void tr_sql_put_number(struct tr_sql_text *t, uint64_t number)
{
    char digits[DIGITS];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, number);

    put_bytes(t, digits, (size_t)len);
}

void tr_sql_put_signed(struct tr_sql_text *t, int64_t number)
{
    char digits[DIGITS];
    int len = snprintf(digits, sizeof digits, "%" PRId64, number);

    put_bytes(t, digits, (size_t)len);
}

/* In quotes; NULL if at is. */
static void put_quoted(struct tr_sql_text *t, struct tr_span text)
{
    if (text.at == NULL) {
        tr_sql_put(t, "NULL");
        return;
    }
    if (!reserve(t, 2 * text.len + 2)) {
        return;
    }
    t->at[t->len++] = '\'';
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\'' || text.at[i] == '\\') {
            t->at[t->len++] = '\\';
        }
        t->at[t->len++] = text.at[i];
    }
    t->at[t->len++] = '\'';
}

void tr_sql_putf(struct tr_sql_text *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    for (const char *at = format; *at != '\0';) {
        size_t plain = strcspn(at, "%");

        put_bytes(t, at, plain);
        at += plain;
        if (*at == '\0') {
            break;
        }
        if (at[1] == 's') {
            tr_sql_put(t, va_arg(args, const char *));
        } else if (at[1] == 'u') {
            tr_sql_put_number(t, va_arg(args, uint64_t));
        } else {
            TR_CHECK(at[1] == 'q');
            put_quoted(t, *va_arg(args, const struct tr_span *));
        }
        at += 2;
    }
    va_end(args);
}
