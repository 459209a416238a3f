/*
 * Calendar arithmetic and the two ways to write a moment.
 *
 *     2027-01-01T00:00:00.5+08:00     RFC 3339; also "t" or a space for "T", "z" for "Z"; a space
 *                                     for the "+" of the zone, as a query makes one of it
 *     1798761600000, 1798761600000.5  milliseconds since 1970
 *
 * A number below 10^11 ms, the spring of 1973, is seconds by mistake, and one after the year 9999
 * microseconds: both are refused. A moment without a zone is refused, since nobody can know which
 * one was meant. Fractions of any length are read; what is finer than a microsecond makes it later,
 * never earlier. A leap second is the first second of the next day, as this clock has none.
 *
 * The calendar counts years from March, so that the odd day is the last of the year:
 *
 *     days before month m of such a year = (153 m + 2) / 5      m: March is 0, February is 11
 *     days before year y of an era       = 365 y + y/4 - y/100  an era: 400 years, 146,097 days
 */

#include "rules/moment.h"

#include "base/err.h"

#include <stdbool.h>

#define DAY_US INT64_C(86400000000)
#define SECOND_US INT64_C(1000000)
#define EPOCH_MS_MIN UINT64_C(100000000000)
#define EPOCH_MS_MAX UINT64_C(253402300799999) /* the last of the year 9999 */

enum { ERA_DAYS = 146097, MARCH_0000 = -719468 /* the day, counted from 1970 */ };

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

int64_t tr_date_days(struct tr_date date)
{
    int64_t y = date.year - (date.month <= 2);
    int64_t m = date.month > 2 ? date.month - 3 : date.month + 9;
    int64_t era = floor_div(y, 400);
    int64_t of_era = y - era * 400;

    return era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + (153 * m + 2) / 5 +
           (int64_t)date.day - 1 + MARCH_0000;
}

struct tr_date tr_date_of_days(int64_t days)
{
    int64_t era = floor_div(days - MARCH_0000, ERA_DAYS);
    int64_t day = days - MARCH_0000 - era * ERA_DAYS;
    /* Takes the odd days out: of 4 years, of 100 years, of the era. */
    int64_t of_era = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t of_year = day - (of_era * 365 + of_era / 4 - of_era / 100);
    int64_t m = (5 * of_year + 2) / 153;

    return (struct tr_date){
        .year = era * 400 + of_era + (m >= 10),
        .month = (unsigned)(m < 10 ? m + 3 : m - 9),
        .day = (unsigned)(of_year - (153 * m + 2) / 5 + 1),
    };
}

unsigned tr_date_month_days(int64_t year, unsigned month)
{
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    if (month == 2) {
        return leap ? 29 : 28;
    }
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* ---- reading ---- */

struct text {
    const char *at;
    const char *end;
};

static bool is_digit(const struct text *t)
{
    return t->at < t->end && *t->at >= '0' && *t->at <= '9';
}

/* Exactly so many digits. */
static bool read_digits(struct text *t, unsigned count, unsigned *number)
{
    *number = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!is_digit(t)) {
            return false;
        }
        *number = *number * 10 + (unsigned)(*t->at++ - '0');
    }
    return true;
}

static bool read_one_of(struct text *t, char a, char b)
{
    if (t->at < t->end && (*t->at == a || *t->at == b)) {
        t->at++;
        return true;
    }
    return false;
}

/* The digits behind the point, in microseconds when the first is worth `unit`; rounded up. */
static bool read_fraction(struct text *t, int64_t unit, int64_t *us)
{
    bool lost = false;

    *us = 0;
    if (!read_one_of(t, '.', '.')) {
        return true;
    }
    if (!is_digit(t)) {
        return false;
    }
    for (; is_digit(t); t->at++) {
        unit /= 10;
        *us += (*t->at - '0') * unit;
        lost |= unit == 0 && *t->at != '0';
    }
    *us += lost;
    return true;
}

/* East of Greenwich, in minutes. */
static bool read_zone(struct text *t, int64_t *minutes)
{
    bool west;
    unsigned hour;
    unsigned minute;

    *minutes = 0;
    if (read_one_of(t, 'Z', 'z')) {
        return true;
    }
    west = read_one_of(t, '-', '-');
    if ((!west && !read_one_of(t, '+', ' ')) || !read_digits(t, 2, &hour) ||
        !read_one_of(t, ':', ':') || !read_digits(t, 2, &minute) || hour > 23 || minute > 59) {
        return false;
    }
    *minutes = (int64_t)hour * 60 + minute;
    *minutes = west ? -*minutes : *minutes;
    return true;
}

static bool read_date(struct text *t, struct tr_date *date, const char **why)
{
    unsigned year;

    if (!read_digits(t, 4, &year) || !read_one_of(t, '-', '-') ||
        !read_digits(t, 2, &date->month) || !read_one_of(t, '-', '-') ||
        !read_digits(t, 2, &date->day)) {
        return false;
    }
    date->year = year;
    if (date->month < 1 || date->month > 12 || date->day < 1 ||
        date->day > tr_date_month_days(year, date->month)) {
        *why = "has a day that is not in the calendar";
        return false;
    }
    return true;
}

/* Seconds of the day. */
static bool read_time(struct text *t, int64_t *second, bool *leap, const char **why)
{
    unsigned h;
    unsigned m;
    unsigned s;

    if (!read_digits(t, 2, &h) || !read_one_of(t, ':', ':') || !read_digits(t, 2, &m) ||
        !read_one_of(t, ':', ':') || !read_digits(t, 2, &s)) {
        return false;
    }
    if (h > 23 || m > 59 || s > 60) {
        *why = "has a time that no clock shows";
        return false;
    }
    *second = (int64_t)h * 3600 + (int64_t)m * 60 + s;
    *leap = s == 60;
    return true;
}

static bool read_rfc3339(struct text *t, int64_t *us, const char **why)
{
    struct tr_date date;
    int64_t second = 0;
    int64_t part = 0;
    int64_t east = 0;
    bool leap = false;

    if (!read_date(t, &date, why) || (!read_one_of(t, 'T', 't') && !read_one_of(t, ' ', ' ')) ||
        !read_time(t, &second, &leap, why) || !read_fraction(t, SECOND_US, &part)) {
        return false;
    }
    if (t->at == t->end) {
        *why = "has no zone: end it with Z or with an offset such as +08:00";
        return false;
    }
    if (!read_zone(t, &east) || t->at < t->end) {
        return false;
    }
    second -= east * 60;
    if (leap && second % 86400 != 0) {
        *why = "has a leap second where there is none";
        return false;
    }
    *us = tr_date_days(date) * DAY_US + second * SECOND_US + part;
    return true;
}

static bool read_epoch(struct text *t, int64_t *us, const char **why)
{
    uint64_t ms = 0;
    int64_t part;

    for (; is_digit(t); t->at++) {
        ms = ms > EPOCH_MS_MAX ? ms : ms * 10 + (uint64_t)(*t->at - '0');
    }
    if (!read_fraction(t, 1000, &part) || t->at < t->end) {
        return false;
    }
    if (ms < EPOCH_MS_MIN) {
        *why = "looks like seconds: give milliseconds since 1970, or RFC 3339";
        return false;
    }
    if (ms > EPOCH_MS_MAX) {
        *why = "is after the year 9999: give milliseconds since 1970, or RFC 3339";
        return false;
    }
    *us = (int64_t)ms * 1000 + part;
    return true;
}

int tr_moment_read(const char *text, size_t len, int64_t *us, const char **why)
{
    struct text t = {.at = text, .end = text + len};
    bool rfc = len > 4 && text[4] == '-';
    int64_t read = 0;

    *why = "is no time: write 2027-01-01T00:00:00Z, 2027-01-01T00:00:00+08:00 or milliseconds "
           "since 1970";
    if (!is_digit(&t) || !(rfc ? read_rfc3339(&t, &read, why) : read_epoch(&t, &read, why))) {
        return TARRY_EINVAL;
    }
    *us = read;
    *why = NULL;
    return TARRY_OK;
}

/* ---- printing ---- */

static char *print_digits(char *at, uint64_t number, unsigned count)
{
    for (unsigned i = count; i > 0; i--) {
        at[i - 1] = (char)('0' + number % 10);
        number /= 10;
    }
    return at + count;
}

size_t tr_moment_print(char out[TR_MOMENT_TEXT], int64_t us)
{
    int64_t days = floor_div(us, DAY_US);
    uint64_t ms = (uint64_t)(us % DAY_US + (us % DAY_US < 0 ? DAY_US : 0)) / 1000;
    struct tr_date date = tr_date_of_days(days);
    uint64_t year = (uint64_t)(date.year < 0 ? -date.year : date.year);
    char *at = out;

    if (date.year < 0) {
        *at++ = '-';
    }
    at = print_digits(at, year, year > 9999 ? 6 : 4);
    *at++ = '-';
    at = print_digits(at, date.month, 2);
    *at++ = '-';
    at = print_digits(at, date.day, 2);
    *at++ = 'T';
    at = print_digits(at, ms / 3600000, 2);
    *at++ = ':';
    at = print_digits(at, ms / 60000 % 60, 2);
    *at++ = ':';
    at = print_digits(at, ms / 1000 % 60, 2);
    *at++ = '.';
    at = print_digits(at, ms % 1000, 3);
    *at++ = 'Z';
    *at = '\0';
    return (size_t)(at - out);
}
