/*
 * Zones from TZif data. The file is not unpacked: what is looked for is read from its bytes.
 *
 *     | head | times, kinds, types in 32 bits | head | the same in 64 bits | "\n" rule "\n" |
 *
 *     head   "TZif", version, 15 zeros, then six u32, big-endian: isut, isstd, leap, time, type
 *            and char counts
 *     data   times (8 bytes each), kinds (1), types (4 offset, 1 summer, 1 name), names, leap
 *            seconds (12), isstd (1), isut (1)
 *
 * From times[i] on, clocks show types[kinds[i]]; before the first one types[0]; from the last one
 * on what the rule says, if there is one, which is a TZ variable of POSIX:
 *
 *     rule   name offset [ name [ offset ] "," day [ "/" time ] "," day [ "/" time ] ]
 *     name   letters, or "<" letters, digits, signs ">"
 *     offset [ sign ] hours [ ":" minutes [ ":" seconds ] ]     west of Greenwich, so -8 is China
 *     day    "M" month "." week "." weekday | "J" 1 to 365 | 0 to 365
 *     time   as an offset, -167 to 167 hours, 2:00 if it is missing
 *
 * Files with leap seconds (the "right" ones of the database) count other seconds than we do and are
 * refused. A file that does not keep to this is refused, too: it comes from outside.
 */

#include "rules/zone.h"

#include "base/bytes.h"
#include "base/err.h"
#include "rules/moment.h"

#include <string.h>

enum { DAY_S = 86400, HEAD = 44, TIME = 8, TYPE = 6 };

static uint64_t big(const uint8_t *p, unsigned size)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < size; i++) {
        v = v << 8 | p[i];
    }
    return v;
}

static int64_t time_of(const struct tr_zone *z, uint32_t i)
{
    return (int64_t)big(z->times + (size_t)i * TIME, TIME);
}

static int32_t type_of(const struct tr_zone *z, uint32_t type)
{
    return (int32_t)(uint32_t)big(z->types + (size_t)type * TYPE, 4);
}

/* ---- the rule ---- */

struct text {
    const char *at;
    const char *end;
};

static bool skip(struct text *t, char c)
{
    if (t->at < t->end && *t->at == c) {
        t->at++;
        return true;
    }
    return false;
}

static bool is_digit(const struct text *t)
{
    return t->at < t->end && *t->at >= '0' && *t->at <= '9';
}

static bool read_number(struct text *t, unsigned least, unsigned most, unsigned *number)
{
    bool any = is_digit(t);

    *number = 0;
    for (; is_digit(t) && *number <= most; t->at++) {
        *number = *number * 10 + (unsigned)(*t->at - '0');
    }
    return any && *number >= least && *number <= most;
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool read_name(struct text *t)
{
    const char *begin = t->at;

    if (skip(t, '<')) {
        while (t->at < t->end && *t->at != '>') {
            t->at++;
        }
        return skip(t, '>');
    }
    while (t->at < t->end && is_letter(*t->at)) {
        t->at++;
    }
    return t->at > begin;
}

static bool read_time(struct text *t, unsigned hours_max, int32_t *second)
{
    bool minus = skip(t, '-');
    unsigned h;
    unsigned m = 0;
    unsigned s = 0;

    if (!minus) {
        (void)skip(t, '+');
    }
    if (!read_number(t, 0, hours_max, &h) || (skip(t, ':') && !read_number(t, 0, 59, &m)) ||
        (skip(t, ':') && !read_number(t, 0, 59, &s))) {
        return false;
    }
    *second = (int32_t)(h * 3600 + m * 60 + s);
    *second = minus ? -*second : *second;
    return true;
}

static bool read_change(struct text *t, struct tr_zone_change *change)
{
    bool ok;

    *change = (struct tr_zone_change){.second = 2 * 3600};
    if (!skip(t, ',')) {
        return false;
    }
    if (skip(t, 'M')) {
        change->kind = TR_ZONE_WEEKDAY;
        ok = read_number(t, 1, 12, &change->month) && skip(t, '.') &&
             read_number(t, 1, 5, &change->week) && skip(t, '.') &&
             read_number(t, 0, 6, &change->weekday);
    } else {
        change->kind = skip(t, 'J') ? TR_ZONE_JULIAN : TR_ZONE_DAY;
        ok = read_number(t, change->kind == TR_ZONE_JULIAN, 365, &change->day);
    }
    return ok && (!skip(t, '/') || read_time(t, 167, &change->second));
}

static bool read_rule(struct text *t, struct tr_zone *z)
{
    int32_t west;

    z->has_rule = t->at < t->end;
    if (!z->has_rule) {
        return true;
    }
    if (!read_name(t) || !read_time(t, 24, &west)) {
        return false;
    }
    z->winter_s = -west;
    z->has_summer = t->at < t->end;
    if (!z->has_summer) {
        return true;
    }
    if (!read_name(t)) {
        return false;
    }
    z->summer_s = z->winter_s + 3600;
    if (t->at < t->end && *t->at != ',') {
        if (!read_time(t, 24, &west)) {
            return false;
        }
        z->summer_s = -west;
    }
    return read_change(t, &z->to_summer) && read_change(t, &z->to_winter) && t->at == t->end;
}

/* ---- the file ---- */

struct head {
    uint8_t version;
    uint32_t isut;
    uint32_t isstd;
    uint32_t leaps;
    uint32_t times;
    uint32_t types;
    uint32_t chars;
};

static bool read_head(struct tr_reader *r, struct head *h)
{
    const uint8_t *p = tr_read_bytes(r, HEAD);

    if (p == NULL || memcmp(p, "TZif", 4) != 0) {
        return false;
    }
    *h = (struct head){
        .version = p[4],
        .isut = (uint32_t)big(p + 20, 4),
        .isstd = (uint32_t)big(p + 24, 4),
        .leaps = (uint32_t)big(p + 28, 4),
        .times = (uint32_t)big(p + 32, 4),
        .types = (uint32_t)big(p + 36, 4),
        .chars = (uint32_t)big(p + 40, 4),
    };
    return true;
}

/* The 32-bit data that nobody needs. */
static bool pass_over(struct tr_reader *r, const struct head *h)
{
    uint64_t len = (uint64_t)h->times * 5 + (uint64_t)h->types * TYPE + h->chars +
                   (uint64_t)h->leaps * 8 + h->isstd + h->isut;

    return tr_read_bytes(r, len) != NULL;
}

static bool types_ok(const struct tr_zone *z)
{
    for (uint32_t i = 0; i < z->types_count; i++) {
        int32_t east = type_of(z, i);

        if (east <= -2 * DAY_S || east >= 2 * DAY_S) {
            return false;
        }
    }
    for (uint32_t i = 0; i < z->times_count; i++) {
        if (z->kinds[i] >= z->types_count || (i > 0 && time_of(z, i) <= time_of(z, i - 1))) {
            return false;
        }
    }
    return true;
}

static bool read_data(struct tr_reader *r, const struct head *h, struct tr_zone *z)
{
    z->times_count = h->times;
    z->types_count = h->types;
    z->times = tr_read_bytes(r, (uint64_t)h->times * TIME);
    z->kinds = tr_read_bytes(r, h->times);
    z->types = tr_read_bytes(r, (uint64_t)h->types * TYPE);
    (void)tr_read_bytes(r, (uint64_t)h->chars + (uint64_t)h->isstd + h->isut);
    return !r->bad && h->types > 0 && h->leaps == 0 && types_ok(z);
}

/* "\n" rule "\n" at the end. */
static bool read_footer(struct tr_reader *r, struct tr_zone *z)
{
    const char *begin = (const char *)r->at;
    size_t len = tr_reader_left(r);
    const char *end = len > 1 ? memchr(begin + 1, '\n', len - 1) : NULL;
    struct text t;

    if (end == NULL || *begin != '\n') {
        return false;
    }
    t = (struct text){.at = begin + 1, .end = end};
    return read_rule(&t, z);
}

int tr_zone_read(const uint8_t *bytes, size_t len, struct tr_zone *z)
{
    struct tr_reader r = tr_reader_of(bytes, len);
    struct tr_zone read = {0};
    struct head h;

    if (!read_head(&r, &h) || h.version < '2' || !pass_over(&r, &h) || !read_head(&r, &h) ||
        !read_data(&r, &h, &read) || !read_footer(&r, &read)) {
        return TARRY_EINVAL;
    }
    *z = read;
    return TARRY_OK;
}

/* ---- which offset, and how long ---- */

/* The day of that year on which the clocks are changed. */
static int64_t change_day(const struct tr_zone_change *c, int64_t year)
{
    int64_t first = tr_date_days((struct tr_date){year, 1, 1});
    unsigned length;
    unsigned day;

    if (c->kind == TR_ZONE_DAY) {
        return first + c->day;
    }
    if (c->kind == TR_ZONE_JULIAN) {
        return first + c->day - 1 + (c->day > 59 && tr_date_month_days(year, 2) == 29);
    }
    first = tr_date_days((struct tr_date){year, c->month, 1});
    length = tr_date_month_days(year, c->month);
    day = (c->weekday + 7 - (unsigned)((first % 7 + 7 + 4) % 7)) % 7 + (c->week - 1) * 7;
    return first + (day < length ? day : day - 7);
}

/* Inserts by time, behind those of the same time: of a year that ends when the next one begins, the
 * next one counts. */
static void insert(struct tr_zone_span *changes, unsigned count, struct tr_zone_span change)
{
    while (count > 0 && changes[count - 1].from_s > change.from_s) {
        changes[count] = changes[count - 1];
        count--;
    }
    changes[count] = change;
}

/* By the rule alone; nothing before `least` is its business. */
static struct tr_zone_span by_rule(const struct tr_zone *z, int64_t moment_s, int64_t least)
{
    struct tr_zone_span changes[8]; /* from_s and what is so from then on */
    struct tr_zone_span span = {least, INT64_MAX, z->winter_s};
    int64_t days = moment_s / DAY_S - (moment_s % DAY_S < 0);
    int64_t year;
    unsigned count = 0;

    if (!z->has_summer) {
        return span;
    }
    year = tr_date_of_days(days).year;
    for (int64_t y = year - 2; y <= year + 1; y++) {
        int64_t to_summer = change_day(&z->to_summer, y) * DAY_S + z->to_summer.second;
        int64_t to_winter = change_day(&z->to_winter, y) * DAY_S + z->to_winter.second;

        insert(changes, count++, (struct tr_zone_span){to_summer - z->winter_s, 0, z->summer_s});
        insert(changes, count++, (struct tr_zone_span){to_winter - z->summer_s, 0, z->winter_s});
    }
    for (unsigned i = 0; i < count; i++) {
        if (changes[i].from_s > moment_s) {
            span.until_s = changes[i].from_s;
            break;
        }
        span.east_s = changes[i].east_s;
        span.from_s = changes[i].from_s > least ? changes[i].from_s : least;
    }
    return span;
}

struct tr_zone_span tr_zone_at(const struct tr_zone *z, int64_t moment_s)
{
    uint32_t low = 0; /* how many times are not after the moment */
    uint32_t high = z->times_count;
    struct tr_zone_span span = {INT64_MIN, INT64_MAX, 0};

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (time_of(z, middle) <= moment_s) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low > 0) {
        span.from_s = time_of(z, low - 1);
    }
    if (low == z->times_count && z->has_rule) {
        return by_rule(z, moment_s, span.from_s);
    }
    if (low < z->times_count) {
        span.until_s = time_of(z, low);
    }
    if (z->types_count > 0) {
        span.east_s = type_of(z, low > 0 ? z->kinds[low - 1] : 0);
    }
    return span;
}

/* ---- names ---- */

/* Words of letters, digits and signs between slashes: no dots, so nothing climbs out. */
bool tr_zone_name_ok(const char *name, size_t len)
{
    bool begins = true; /* a word does */

    if (len == 0 || len > TR_ZONE_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool inside = (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+' || c == '/';

        if (!is_letter(c) && (begins || !inside)) {
            return false;
        }
        begins = c == '/';
    }
    return !begins;
}

bool tr_zone_is_utc(const char *name, size_t len)
{
    return len == 3 && memcmp(name, "UTC", 3) == 0;
}
