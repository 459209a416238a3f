/*
 * Cron expressions.
 *
 *     30 9 * * MON-FRI         minute, hour, day of the month, month, day of the week
 *     0 30 9 * * MON-FRI       the same with seconds in front
 *     @daily                   and @yearly, @annually, @monthly, @weekly, @midnight, @hourly
 *
 *     field = part { "," part }
 *     part  = ( "*" | "?" | value [ "-" value ] ) [ "/" step ]       5/10 is 5, 15, 25 ... to the
 * end | "L"                    in the day of the month: its last day | value "L"              in
 * the day of the week: the last such day of the month | value "#" n            in the day of the
 * week: the n-th such day of the month, 1 to 5 value = number, or three letters of a month or
 * weekday, large or small
 *
 * 0 and 7 are Sunday. A range that goes backward is refused, but it may end with SUN; so is a step
 * that is longer than its field: * / 90 in the minutes is not every 90 minutes, and nothing is done
 * in silence. Both day fields given: a day counts if either names it; * and ? (and a step of 1 over
 * all) are not given. What can never come, such as 30 February, is refused.
 *
 * A field becomes a set of bits, and the next match is the next bit: of the seconds, else of the
 * minutes, hours, days, months. The days of a month are one set, too, made for that month: all of
 * L, # and leap years is in there. So nothing is tried second by second, and a leap day is at most
 * 8 years of 12 steps away.
 */

#include "rules/cron.h"

#include "base/err.h"
#include "base/text.h"
#include "rules/moment.h"

#include <string.h>

enum { DAY_S = 86400, NONE = 64 };

enum which { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, WHICH_COUNT };

static const struct field {
    const char *name;
    unsigned min;
    unsigned max;
    const char *names; /* three letters each, from min on; NULL: only numbers */
    const char *allowed;
} fields[WHICH_COUNT] = {
    {"second", 0, 59, NULL, "0 to 59"},
    {"minute", 0, 59, NULL, "0 to 59"},
    {"hour", 0, 23, NULL, "0 to 23"},
    {"day of the month", 1, 31, NULL, "1 to 31, L"},
    {"month", 1, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", "1 to 12, JAN to DEC"},
    {"day of the week", 0, 7, "SUNMONTUEWEDTHUFRISAT", "0 to 7, SUN to SAT, FRIL, MON#2"},
};

static const struct {
    const char *name;
    const char *means;
} nicknames[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"},
};

/* ---- reading ---- */

struct parse {
    const char *text;
    const char *at;
    const char *end;   /* of the field */
    unsigned position; /* of the field, from 1 on */
    unsigned count;    /* of fields */
    enum which which;
    uint64_t set;
    bool open;    /* a part is all there is, and has no step */
    bool stepped; /* a part has a step */
    struct tr_cron c;
    char *why;
};

/* Gives false, for the caller to return. */
__attribute__((format(printf, 3, 4))) static bool refuse(struct parse *p, const char *at,
                                                         const char *format, ...)
{
    const struct field *f = &fields[p->which];
    char what[TR_CRON_WHY];
    va_list args;

    va_start(args, format);
    tr_text_list(what, sizeof what, format, args);
    va_end(args);
    tr_text(p->why, TR_CRON_WHY,
            "has a bad %s (field %u of %u, character %u): %s; allowed are %s, *, lists, ranges and "
            "steps",
            f->name, p->position, p->count, (unsigned)(at - p->text) + 1, what, f->allowed);
    return false;
}

static char upper(char c)
{
    return (char)(c >= 'a' && c <= 'z' ? c & ~0x20 : c);
}

static bool is_letter(const struct parse *p)
{
    return p->at < p->end && upper(*p->at) >= 'A' && upper(*p->at) <= 'Z';
}

static bool is_digit(const struct parse *p)
{
    return p->at < p->end && *p->at >= '0' && *p->at <= '9';
}

static bool skip(struct parse *p, char c)
{
    if (p->at < p->end && upper(*p->at) == c) {
        p->at++;
        return true;
    }
    return false;
}

/* Any number, without limits of its own; a very large one stays large. */
static unsigned read_digits(struct parse *p)
{
    unsigned n = 0;

    for (; is_digit(p); p->at++) {
        n = n > 100000 ? n : n * 10 + (unsigned)(*p->at - '0');
    }
    return n;
}

static bool read_name(struct parse *p, unsigned *value)
{
    const struct field *f = &fields[p->which];
    const char *names = f->names;

    for (unsigned i = 0; names != NULL && names[(size_t)i * 3] != '\0'; i++) {
        const char *name = names + (size_t)i * 3;

        if (p->end - p->at >= 3 && upper(p->at[0]) == name[0] && upper(p->at[1]) == name[1] &&
            upper(p->at[2]) == name[2]) {
            p->at += 3;
            *value = f->min + i;
            return true;
        }
    }
    return false;
}

static bool read_value(struct parse *p, unsigned *value)
{
    const struct field *f = &fields[p->which];
    const char *at = p->at;

    if (is_digit(p)) {
        *value = read_digits(p);
        if (*value < f->min || *value > f->max) {
            return refuse(p, at, "%.*s is not in %u to %u", (int)(p->at - at > 9 ? 9 : p->at - at),
                          at, f->min, f->max);
        }
        return true;
    }
    if (is_letter(p)) {
        return read_name(p, value) ? true : refuse(p, at, "there is no such name");
    }
    return at == p->end ? refuse(p, at, "something is missing")
                        : refuse(p, at, "that is no number and no name");
}

static bool read_step(struct parse *p, unsigned *step)
{
    const struct field *f = &fields[p->which];
    unsigned most = f->max - f->min + (p->which != WEEKDAY);
    const char *at = p->at;

    *step = 1;
    if (!skip(p, '/')) {
        return true;
    }
    if (!is_digit(p)) {
        return refuse(p, p->at, "behind / stands a number");
    }
    *step = read_digits(p);
    p->stepped = true;
    if (*step < 1 || *step > most) {
        return refuse(p, at, "a step is 1 to %u", most);
    }
    return true;
}

/* "L" or "#", which stands behind a weekday. */
static bool read_of_month(struct parse *p, unsigned weekday)
{
    const char *at = p->at;
    unsigned n;

    if (skip(p, 'L')) {
        p->c.last_weekdays |= (uint8_t)(1U << weekday % 7);
        return true;
    }
    p->at++;
    n = is_digit(p) ? read_digits(p) : 0;
    if (n < 1 || n > 5) {
        return refuse(p, at, "behind # stands 1 to 5");
    }
    p->c.nth[weekday % 7] |= (uint8_t)(1U << n);
    return true;
}

static void add(struct parse *p, unsigned first, unsigned last, unsigned step)
{
    for (unsigned i = first; i <= last; i += step) {
        p->set |= UINT64_C(1) << i;
    }
}

static bool read_all(struct parse *p)
{
    const struct field *f = &fields[p->which];
    unsigned step;

    if (!read_step(p, &step)) {
        return false;
    }
    p->open |= step == 1;
    add(p, f->min, p->which == WEEKDAY ? 6 : f->max, step);
    return true;
}

static bool read_range(struct parse *p)
{
    const struct field *f = &fields[p->which];
    const char *at = p->at;
    unsigned first = 0;
    unsigned last;
    unsigned step;

    if (!read_value(p, &first)) {
        return false;
    }
    if (p->which == WEEKDAY && p->at < p->end && (upper(*p->at) == 'L' || *p->at == '#')) {
        return read_of_month(p, first);
    }
    last = first;
    if (skip(p, '-')) {
        if (!read_value(p, &last)) {
            return false;
        }
        last = p->which == WEEKDAY && last == 0 && first > 0 ? 7 : last;
        if (last < first) {
            return refuse(p, at, "the range goes backward: write two ranges, with a comma");
        }
    } else if (p->at < p->end && *p->at == '/') {
        last = p->which == WEEKDAY ? 6 : f->max;
    }
    if (!read_step(p, &step)) {
        return false;
    }
    add(p, first, last, step);
    return true;
}

static bool read_part(struct parse *p)
{
    const char *at = p->at;

    if (skip(p, '*') || skip(p, '?')) {
        if (!read_all(p)) {
            return false;
        }
    } else if (p->which == DAY && skip(p, 'L')) {
        p->c.last_day = true;
    } else if (p->which == WEEKDAY && skip(p, 'L')) {
        return refuse(p, at, "L stands behind a weekday, such as FRIL");
    } else if (!read_range(p)) {
        return false;
    }
    if (p->at < p->end && *p->at != ',') {
        return refuse(p, p->at, "what stands there does not belong there");
    }
    return true;
}

static void keep(struct parse *p)
{
    struct tr_cron *c = &p->c;

    switch (p->which) {
    case SECOND:
        c->seconds = p->set;
        break;
    case MINUTE:
        c->minutes = p->set;
        break;
    case HOUR:
        c->hours = (uint32_t)p->set;
        c->hours_are = c->hours == 0xffffff ? TR_CRON_HOURS_ALL
                       : p->stepped         ? TR_CRON_HOURS_STEP
                                            : TR_CRON_HOURS_FIXED;
        break;
    case DAY:
        c->days = (uint32_t)p->set;
        c->any_day = p->open;
        break;
    case MONTH:
        c->months = (uint16_t)p->set;
        break;
    default:
        c->weekdays = (uint8_t)((p->set & 0x7f) | p->set >> 7);
        c->any_weekday = p->open;
    }
}

static bool read_field(struct parse *p)
{
    p->set = 0;
    p->open = false;
    p->stepped = false;
    do {
        if (!read_part(p)) {
            return false;
        }
    } while (skip(p, ','));
    keep(p);
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* From *at on: the next word; false if there is none. */
static bool next_word(const char **at, const char *end, const char **word_end)
{
    while (*at < end && is_space(**at)) {
        (*at)++;
    }
    *word_end = *at;
    while (*word_end < end && !is_space(**word_end)) {
        (*word_end)++;
    }
    return *word_end > *at;
}

static unsigned count_words(const char *text, const char *end)
{
    const char *word_end;
    unsigned n = 0;

    while (next_word(&text, end, &word_end)) {
        text = word_end;
        n++;
    }
    return n;
}

/* Does any day that is named ever come? A weekday always does, if only in some years. */
static bool possible(const struct tr_cron *c)
{
    if (c->any_day || !c->any_weekday || c->last_day) {
        return true;
    }
    for (unsigned month = 1; month <= 12; month++) {
        uint32_t days = (UINT32_C(2) << tr_date_month_days(2000, month)) - 1;

        if (c->months >> month & 1 && c->days & days) {
            return true;
        }
    }
    return false;
}

static bool read_fields(struct parse *p, const char *end)
{
    const char *at = p->text;

    p->count = count_words(at, end);
    if (p->count != 5 && p->count != 6) {
        tr_text(p->why, TR_CRON_WHY,
                "has %u fields: write 5 (minute, hour, day of the month, month, day of the week), "
                "6 (with the second in front), or a name such as @daily",
                p->count);
        return false;
    }
    p->c.seconds = 1;
    for (p->position = 1; next_word(&at, end, &p->end); p->position++) {
        p->which = (enum which)(p->position - 1 + (p->count == 5));
        p->at = at;
        if (!read_field(p)) {
            return false;
        }
        at = p->end;
    }
    if (!possible(&p->c)) {
        tr_text(p->why, TR_CRON_WHY,
                "names a day that never comes: none of its months has such a day (fields %u and "
                "%u)",
                p->count - 2, p->count - 1);
        return false;
    }
    return true;
}

static bool is_nickname(const char *text, size_t len, const char *name)
{
    if (len != strlen(name)) {
        return false;
    }
    for (size_t i = 1; i < len; i++) {
        if (upper(text[i]) != upper(name[i])) {
            return false;
        }
    }
    return true;
}

int tr_cron_read(const char *text, size_t len, struct tr_cron *c, char why[TR_CRON_WHY])
{
    struct parse p = {.text = text, .why = why};
    const char *end = text + len;

    why[0] = '\0';
    if (len > TR_CRON_TEXT_MAX) {
        tr_text(why, TR_CRON_WHY, "has more than %d characters", TR_CRON_TEXT_MAX);
        return TARRY_EINVAL;
    }
    if (len > 0 && text[0] == '@') {
        p.text = NULL;
        for (size_t i = 0; i < sizeof nicknames / sizeof nicknames[0]; i++) {
            if (is_nickname(text, len, nicknames[i].name)) {
                p.text = nicknames[i].means;
                end = p.text + strlen(p.text);
            }
        }
        if (p.text == NULL) {
            tr_text(why, TR_CRON_WHY,
                    "has no such name: there are @yearly, @annually, @monthly, @weekly, @daily, "
                    "@midnight and @hourly");
            return TARRY_EINVAL;
        }
    }
    if (!read_fields(&p, end)) {
        return TARRY_EINVAL;
    }
    *c = p.c;
    return TARRY_OK;
}

/* ---- the next one ---- */

/* The least number from `from` on; NONE if there is none. */
static unsigned next_bit(uint64_t set, unsigned from)
{
    set = from < 64 ? set >> from << from : 0;
    return set != 0 ? (unsigned)__builtin_ctzll(set) : NONE;
}

/* The first second of the day from `from` on. */
static bool next_time(const struct tr_cron *c, unsigned from, unsigned *found)
{
    unsigned h = from / 3600;
    unsigned m = from / 60 % 60;
    unsigned s = next_bit(c->seconds, from % 60);

    if (!(c->hours >> h & 1) || !(c->minutes >> m & 1) || s == NONE) {
        s = next_bit(c->seconds, 0);
        m = c->hours >> h & 1 ? next_bit(c->minutes, m + 1) : NONE;
        if (m == NONE) {
            m = next_bit(c->minutes, 0);
            h = next_bit(c->hours, h + 1);
        }
    }
    *found = h * 3600 + m * 60 + s;
    return h != NONE;
}

static uint32_t weekdays_of(const struct tr_cron *c, unsigned first, unsigned length)
{
    uint32_t set = 0;

    for (unsigned day = 1; day <= length; day++) {
        unsigned weekday = (first + day - 1) % 7;

        if (c->weekdays >> weekday & 1 || c->nth[weekday] >> ((day - 1) / 7 + 1) & 1 ||
            (day + 7 > length && c->last_weekdays >> weekday & 1)) {
            set |= UINT32_C(1) << day;
        }
    }
    return set;
}

/* The days of that month that are named. */
static uint32_t days_of(const struct tr_cron *c, struct tr_date month)
{
    unsigned length = tr_date_month_days(month.year, month.month);
    int64_t days = tr_date_days((struct tr_date){month.year, month.month, 1});
    unsigned first = (unsigned)((days % 7 + 7 + 4) % 7); /* 1970 began on a Thursday */
    uint32_t all = (UINT32_C(2) << length) - 2;
    uint32_t named = (c->days & all) | (c->last_day ? UINT32_C(1) << length : 0);

    if (c->any_day) {
        return c->any_weekday ? all : weekdays_of(c, first, length);
    }
    return c->any_weekday ? named : named | weekdays_of(c, first, length);
}

static void next_month(struct tr_date *date)
{
    date->year += date->month == 12;
    date->month = date->month % 12 + 1;
    date->day = 1;
}

bool tr_cron_next(const struct tr_cron *c, int64_t from, int64_t before, int64_t *local)
{
    int64_t days = from / DAY_S - (from % DAY_S < 0);
    unsigned second = (unsigned)(from - days * DAY_S);
    struct tr_date date = tr_date_of_days(days);

    while (days * DAY_S < before) {
        unsigned day = NONE;

        if (c->months >> date.month & 1) {
            day = next_bit(days_of(c, date), date.day);
        }
        if (day == NONE) {
            next_month(&date);
            second = 0;
        } else {
            second = day == date.day ? second : 0;
            date.day = day;
            if (next_time(c, second, &second)) {
                *local = tr_date_days(date) * DAY_S + second;
                return *local < before;
            }
            date.day++; /* perhaps a day too many: then the month has none left */
            second = 0;
        }
        days = tr_date_days(date);
    }
    return false;
}
