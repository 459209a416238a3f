#ifndef TR_RULES_CRON_H
#define TR_RULES_CRON_H

/*
 * Cron expressions: which local times they name. See cron.c for the grammar.
 *
 * Local times are seconds since the beginning of 1970 by a clock on the wall somewhere, without a
 * zone; ticks.h has the zones.
 */

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TR_CRON_TEXT_MAX = 256, /* bytes of an expression */
    TR_CRON_WHY = 240,      /* bytes for what is wrong with one, its NUL included */
};

/* How hours are given: that decides what happens when clocks are set forward or back. */
enum tr_cron_hours {
    TR_CRON_HOURS_FIXED, /* 2, 9-17, 8,20 */
    TR_CRON_HOURS_STEP,  /* with a step, such as 0/6, but not all of them */
    TR_CRON_HOURS_ALL,
};

/* Sets of numbers: bit n stands for n. */
struct tr_cron {
    uint64_t seconds;
    uint64_t minutes;
    uint32_t hours;
    uint32_t days; /* of the month */
    uint16_t months;
    uint8_t weekdays;      /* 0 is Sunday */
    uint8_t last_weekdays; /* the last such weekday of the month */
    uint8_t nth[7];        /* by weekday: bit n for its n-th in the month */
    bool last_day;         /* of the month */
    bool any_day;          /* the field is *: only the other one decides */
    bool any_weekday;
    enum tr_cron_hours hours_are;
};

/*
 * Reads all of text. TARRY_EINVAL: why says what is wrong and where, as the end of a sentence that
 * begins with the name of the field; *c is as it was.
 */
TR_MUST_USE int tr_cron_read(const char *text, size_t len, struct tr_cron *c,
                             char why[TR_CRON_WHY]);

/* The first local time that it names from `from` on, if that is before `before`. Takes a step for
 * each month and each day that is named, so the caller bounds the work by `before`. */
bool tr_cron_next(const struct tr_cron *c, int64_t from, int64_t before, int64_t *local);

#endif
