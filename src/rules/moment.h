#ifndef TR_RULES_MOMENT_H
#define TR_RULES_MOMENT_H

/*
 * Moments: RFC 3339 or epoch milliseconds in, RFC 3339 in UTC out; inside, microseconds since the
 * beginning of 1970, negative before it. See moment.c.
 */

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

enum { TR_MOMENT_TEXT = 32 }; /* bytes for any moment that is printed, its NUL included */

/* A day of the proleptic Gregorian calendar; month and day count from 1. */
struct tr_date {
    int64_t year;
    unsigned month;
    unsigned day;
};

/* Days since 1970-01-01. */
int64_t tr_date_days(struct tr_date date);
struct tr_date tr_date_of_days(int64_t days);

/* 28 to 31. */
unsigned tr_date_month_days(int64_t year, unsigned month);

/*
 * Reads all of text; years 0000 to 9999. TARRY_EINVAL: *why says what is wrong with it, as the end
 * of a sentence that begins with the name of the field; *us is as it was.
 */
TR_MUST_USE int tr_moment_read(const char *text, size_t len, int64_t *us, const char **why);

/* 2026-11-15T08:30:00.123Z, rounded down; gives the length. Years beyond four digits get more. */
size_t tr_moment_print(char out[TR_MOMENT_TEXT], int64_t us);

#endif
