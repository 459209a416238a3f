/*
 * Durations to microseconds and back.
 *
 *     duration = number                                seconds
 *              | number unit { number unit }           units from large to small, each once
 *     unit     = "d" | "h" | "m" | "s" | "ms"
 *     number   = digits [ "." digits ]                 a fraction only in the last number
 *
 * All in integers, so 0.1s is 100,000 us and nothing else. A fraction may be as long as it likes:
 * programs print 0.9000000000000001. Its digits are taken from the last to the first,
 *
 *     part = (part + digit * unit) / 10
 *
 * which rounds down at every step and yet is the exact result rounded down, since a whole number
 * is added each time. Anything that was lost counts as one microsecond more: later, never earlier.
 */

#include "rules/duration.h"

#include "base/err.h"
#include "base/text.h"
#include "port/request.h"

#include <stdbool.h>
#include <string.h>

#define SECOND_US UINT64_C(1000000)

/* From large to small. */
static const struct {
    const char *name;
    uint64_t us;
} units[] = {
    {"d", 86400 * SECOND_US},
    {"h", 3600 * SECOND_US},
    {"m", 60 * SECOND_US},
    {"s", SECOND_US},
    {"ms", 1000},
};

enum { UNITS = sizeof units / sizeof units[0], SECONDS = 3, MILLISECONDS = 4 };

struct number {
    uint64_t whole;
    const char *fraction; /* its digits, or NULL */
    size_t fraction_len;
};

static const char not_one[] = "is no duration: write 250ms, 30s, 1h30m, 1.5h, 30d or seconds";
static const char too_long[] = "is more than 137 years";

static size_t digits(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len && text[n] >= '0' && text[n] <= '9') {
        n++;
    }
    return n;
}

/* How many bytes of text are a number; 0: it does not begin with one. */
static size_t read_number(const char *text, size_t len, struct number *n)
{
    size_t whole = digits(text, len);

    *n = (struct number){0};
    for (size_t i = 0; i < whole; i++) { /* more than any unit allows stays more */
        n->whole =
            n->whole > TR_DELAY_MAX_US ? n->whole : n->whole * 10 + (uint64_t)(text[i] - '0');
    }
    if (whole == 0 || whole == len || text[whole] != '.') {
        return whole;
    }
    n->fraction = text + whole + 1;
    n->fraction_len = digits(n->fraction, len - whole - 1);
    return n->fraction_len > 0 ? whole + 1 + n->fraction_len : 0;
}

/* The unit that text begins with; UNITS: none. The longest name counts: ms is not m. */
static size_t find_unit(const char *text, size_t len)
{
    size_t span = 0;

    while (span < len && text[span] >= 'a' && text[span] <= 'z') {
        span++;
    }
    for (size_t i = 0; i < UNITS; i++) {
        if (strlen(units[i].name) == span && memcmp(text, units[i].name, span) == 0) {
            return i;
        }
    }
    return UNITS;
}

static uint64_t fraction_us(const struct number *n, uint64_t unit_us)
{
    uint64_t part = 0;
    bool lost = false;

    for (size_t i = n->fraction_len; i > 0; i--) {
        part += (uint64_t)(n->fraction[i - 1] - '0') * unit_us;
        lost |= part % 10 != 0;
        part /= 10;
    }
    return part + lost;
}

/* Adds number times unit. False: too long. */
static bool add(uint64_t *us, const struct number *n, uint64_t unit_us)
{
    if (n->whole > TR_DELAY_MAX_US / unit_us) {
        return false;
    }
    *us += n->whole * unit_us + fraction_us(n, unit_us);
    return *us <= TR_DELAY_MAX_US;
}

int tr_duration_read(const char *text, size_t len, uint64_t *us, const char **why)
{
    uint64_t sum = 0;
    size_t at = 0;
    size_t before = UNITS; /* the unit of the number before, */
    bool ended = false;    /* which had a fraction */

    *why = not_one;
    if (len > 0 && text[0] == '-') {
        *why = "is negative: a duration is 0 or more";
        return TARRY_EINVAL;
    }
    do {
        struct number n;
        size_t span = read_number(text + at, len - at, &n);
        bool bare = at == 0 && span == len;
        size_t unit = bare ? SECONDS : find_unit(text + at + span, len - at - span);

        if (span == 0 || unit == UNITS || ended) {
            return TARRY_EINVAL;
        }
        if (before < UNITS && unit <= before) {
            *why = "has its units in a wrong order: days, hours, minutes, seconds, milliseconds";
            return TARRY_EINVAL;
        }
        if (!add(&sum, &n, units[unit].us)) {
            *why = too_long;
            return TARRY_EINVAL;
        }
        before = unit;
        ended = n.fraction != NULL;
        at += span + (bare ? 0 : strlen(units[unit].name));
    } while (at < len);
    *us = sum;
    *why = NULL;
    return TARRY_OK;
}

int tr_duration_read_signed(const char *text, size_t len, int64_t *us, const char **why)
{
    bool minus = len > 0 && text[0] == '-';
    bool sign = minus || (len > 0 && (text[0] == '+' || text[0] == ' '));
    uint64_t size;
    int err = tr_duration_read(text + sign, len - sign, &size, why);

    if (err == TARRY_OK) {
        *us = minus ? -(int64_t)size : (int64_t)size;
    }
    return err;
}

void tr_duration_print(char out[TR_DURATION_TEXT], uint64_t us)
{
    size_t used = 0;

    for (size_t i = 0; i < MILLISECONDS; i++) {
        if (us >= units[i].us) {
            tr_text(out + used, TR_DURATION_TEXT - used, "%llu%s",
                    (unsigned long long)(us / units[i].us), units[i].name);
            used = strlen(out);
            us %= units[i].us;
        }
    }
    if (us % 1000 > 0) {
        tr_text(out + used, TR_DURATION_TEXT - used, "%u.%03ums", (unsigned)(us / 1000),
                (unsigned)(us % 1000));
    } else if (us > 0) {
        tr_text(out + used, TR_DURATION_TEXT - used, "%ums", (unsigned)(us / 1000));
    } else if (used == 0) {
        tr_text(out, TR_DURATION_TEXT, "0s");
    }
}

void tr_duration_tell(char out[TR_DURATION_TEXT], uint64_t us)
{
    size_t unit = 0;
    uint64_t rest;

    if (us < 1000) {
        tr_text(out, TR_DURATION_TEXT, "%u us", (unsigned)us);
        return;
    }
    if (us < SECOND_US) {
        tr_text(out, TR_DURATION_TEXT, "%u ms", (unsigned)(us / 1000));
        return;
    }
    if (us < 60 * SECOND_US) {
        unsigned tenths = (unsigned)(us / (SECOND_US / 10));

        tr_text(out, TR_DURATION_TEXT, tenths % 10 > 0 ? "%u.%u s" : "%u s", tenths / 10,
                tenths % 10);
        return;
    }
    while (us < units[unit].us) {
        unit++;
    }
    rest = us % units[unit].us / units[unit + 1].us;
    tr_text(out, TR_DURATION_TEXT, rest > 0 ? "%llu%s%llu%s" : "%llu%s",
            (unsigned long long)(us / units[unit].us), units[unit].name, (unsigned long long)rest,
            units[unit + 1].name);
}
