/* Cron: named cases, errors that point at their field, and random expressions against a reader of
 * calendars who looks at every day and every second. */

#include "rules/cron.h"

#include "base/err.h"
#include "base/rng.h"
#include "base/text.h"
#include "rules/moment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { DAY_S = 86400 };

static struct tr_cron read_cron(const char *text)
{
    struct tr_cron c;
    char why[TR_CRON_WHY];
    char more[TR_CRON_TEXT_MAX + 8];

    tr_text(more, sizeof more, "%s,9", text); /* what stands behind the end must not matter */
    if (tr_cron_read(more, strlen(text), &c, why) != TARRY_OK) {
        fail_msg("\"%s\" %s", text, why);
    }
    return c;
}

/* "2026-11-15T08:30:00" as a local time. */
static int64_t at(const char *text)
{
    char utc[40];
    const char *why;
    int64_t us = 0;

    tr_text(utc, sizeof utc, "%sZ", text);
    assert_int_equal(tr_moment_read(utc, strlen(utc), &us, &why), TARRY_OK);
    return us / 1000000;
}

/* The next ones after `from`, up to a NULL. */
static void expect_next(const char *text, const char *from, ...)
{
    struct tr_cron c = read_cron(text);
    int64_t local = at(from);
    const char *expected;
    va_list args;

    va_start(args, from);
    while ((expected = va_arg(args, const char *)) != NULL) {
        assert_true(tr_cron_next(&c, local + 1, INT64_MAX / DAY_S, &local));
        if (local != at(expected)) {
            char found[TR_MOMENT_TEXT];

            tr_moment_print(found, local * 1000000);
            fail_msg("\"%s\": %s, not %s", text, found, expected);
        }
    }
    va_end(args);
}

static void test_cron_five_and_six_fields(void **state)
{
    (void)state;
    expect_next("30 9 * * MON-FRI", "2026-11-13T09:29:59", "2026-11-13T09:30:00",
                "2026-11-16T09:30:00", "2026-11-17T09:30:00", NULL);
    expect_next("0 30 9 * * MON-FRI", "2026-11-13T09:30:00", "2026-11-16T09:30:00", NULL);
    expect_next("*/20 * * * * *", "2026-12-31T23:59:39", "2026-12-31T23:59:40",
                "2027-01-01T00:00:00", "2027-01-01T00:00:20", NULL);
    expect_next(" \t5,10\t1-3  1  jan,JUL  ? ", "2026-11-15T00:00:00", "2027-01-01T01:05:00",
                "2027-01-01T01:10:00", "2027-01-01T02:05:00", NULL);
    expect_next("50/5 22 * * *", "2026-11-15T00:00:00", "2026-11-15T22:50:00",
                "2026-11-15T22:55:00", "2026-11-16T22:50:00", NULL);
    expect_next("0 10-20/4 * * *", "2026-11-15T00:00:00", "2026-11-15T10:00:00",
                "2026-11-15T14:00:00", "2026-11-15T18:00:00", "2026-11-16T10:00:00", NULL);
}

static void test_cron_nicknames(void **state)
{
    (void)state;
    expect_next("@yearly", "2026-11-15T08:00:00", "2027-01-01T00:00:00", NULL);
    expect_next("@annually", "2026-11-15T08:00:00", "2027-01-01T00:00:00", NULL);
    expect_next("@monthly", "2026-11-15T08:00:00", "2026-12-01T00:00:00", NULL);
    expect_next("@weekly", "2026-11-15T08:00:00", "2026-11-22T00:00:00", NULL);
    expect_next("@daily", "2026-11-15T08:00:00", "2026-11-16T00:00:00", NULL);
    expect_next("@midnight", "2026-11-15T08:00:00", "2026-11-16T00:00:00", NULL);
    expect_next("@Hourly", "2026-11-15T08:00:00", "2026-11-15T09:00:00", NULL);
}

static void test_cron_last_and_nth(void **state)
{
    (void)state;
    expect_next("0 0 L * *", "2027-01-31T00:00:00", "2027-02-28T00:00:00", "2027-03-31T00:00:00",
                "2027-04-30T00:00:00", NULL);
    expect_next("0 0 15,l 2 *", "2028-02-01T00:00:00", "2028-02-15T00:00:00", "2028-02-29T00:00:00",
                "2029-02-15T00:00:00", "2029-02-28T00:00:00", NULL);
    expect_next("0 18 * * FRIL", "2026-11-01T00:00:00", "2026-11-27T18:00:00",
                "2026-12-25T18:00:00", "2027-01-29T18:00:00", NULL);
    expect_next("0 18 * * 5L", "2026-11-01T00:00:00", "2026-11-27T18:00:00", NULL);
    expect_next("0 0 * * MON#2", "2026-11-01T00:00:00", "2026-11-09T00:00:00",
                "2026-12-14T00:00:00", NULL);
    expect_next("0 0 * * 1#1,3#5", "2026-11-15T00:00:00", "2026-12-07T00:00:00",
                "2026-12-30T00:00:00", "2027-01-04T00:00:00", "2027-02-01T00:00:00", NULL);
    expect_next("0 0 * FEB MON#5", "2026-01-01T00:00:00", "2044-02-29T00:00:00", NULL);
}

static void test_cron_sundays(void **state)
{
    (void)state;
    expect_next("0 0 * * 0", "2026-11-15T00:00:00", "2026-11-22T00:00:00", NULL);
    expect_next("0 0 * * 7", "2026-11-15T00:00:00", "2026-11-22T00:00:00", NULL);
    expect_next("0 0 * * SUN", "2026-11-15T00:00:00", "2026-11-22T00:00:00", NULL);
    expect_next("0 0 * * 7L", "2026-11-15T00:00:00", "2026-11-29T00:00:00", NULL);
    expect_next("0 0 * * SAT-SUN", "2026-11-15T00:00:00", "2026-11-21T00:00:00",
                "2026-11-22T00:00:00", "2026-11-28T00:00:00", NULL);
    expect_next("0 0 * * 5-7", "2026-11-15T00:00:00", "2026-11-20T00:00:00", "2026-11-21T00:00:00",
                "2026-11-22T00:00:00", "2026-11-27T00:00:00", NULL);
    expect_next("0 0 * * SUN-TUE", "2026-11-17T00:00:00", "2026-11-22T00:00:00",
                "2026-11-23T00:00:00", "2026-11-24T00:00:00", "2026-11-29T00:00:00", NULL);
}

static void test_cron_either_day(void **state)
{
    (void)state;
    expect_next("0 0 13 * FRI", "2026-11-01T00:00:00", "2026-11-06T00:00:00", "2026-11-13T00:00:00",
                "2026-11-20T00:00:00", "2026-11-27T00:00:00", "2026-12-04T00:00:00",
                "2026-12-11T00:00:00", "2026-12-13T00:00:00", NULL);
    expect_next("0 0 13 * ?", "2026-11-13T00:00:00", "2026-12-13T00:00:00", NULL);
    expect_next("0 0 ? * FRI", "2026-11-13T00:00:00", "2026-11-20T00:00:00", NULL);
    expect_next("0 0 */1 * FRI", "2026-11-13T00:00:00", "2026-11-20T00:00:00", NULL);
    expect_next("0 0 30 2 MON", "2026-11-13T00:00:00", "2027-02-01T00:00:00", "2027-02-08T00:00:00",
                NULL);
}

static void test_cron_leap_days(void **state)
{
    (void)state;
    expect_next("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00", "2032-02-29T00:00:00",
                NULL);
    expect_next("0 0 29 2 *", "2096-03-01T00:00:00", "2104-02-29T00:00:00", NULL);
    expect_next("0 0 31 * *", "2027-01-31T00:00:00", "2027-03-31T00:00:00", "2027-05-31T00:00:00",
                NULL);
    expect_next("59 59 23 29 2 *", "1968-03-01T00:00:00", "1972-02-29T23:59:59", NULL);
}

static void test_cron_before_is_exclusive(void **state)
{
    struct tr_cron c = read_cron("0 0 * * *");
    int64_t day = at("2026-11-15T00:00:00");
    int64_t local = 0;

    (void)state;
    assert_true(tr_cron_next(&c, day, day + 1, &local));
    assert_true(local == day);
    assert_false(tr_cron_next(&c, day + 1, day + DAY_S, &local));
    assert_true(tr_cron_next(&c, day + 1, day + DAY_S + 1, &local));
}

static void test_cron_hours_are(void **state)
{
    static const struct {
        const char *text;
        enum tr_cron_hours hours;
    } cases[] = {
        {"0 2 * * *", TR_CRON_HOURS_FIXED},     {"0 9-17 * * *", TR_CRON_HOURS_FIXED},
        {"*/5 2,3 * * *", TR_CRON_HOURS_FIXED}, {"0 * * * *", TR_CRON_HOURS_ALL},
        {"0 */1 * * *", TR_CRON_HOURS_ALL},     {"0 0-23 * * *", TR_CRON_HOURS_ALL},
        {"0 */2 * * *", TR_CRON_HOURS_STEP},    {"0 1,0/6 * * *", TR_CRON_HOURS_STEP},
        {"@hourly", TR_CRON_HOURS_ALL},         {"@daily", TR_CRON_HOURS_FIXED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(read_cron(cases[i].text).hours_are, cases[i].hours);
    }
}

/* The text of the error has both. */
static void expect_error(const char *text, const char *where, const char *what)
{
    struct tr_cron c = {.seconds = 77};
    char why[TR_CRON_WHY];

    if (tr_cron_read(text, strlen(text), &c, why) != TARRY_EINVAL) {
        fail_msg("\"%s\" was read", text);
    }
    if (strstr(why, where) == NULL || strstr(why, what) == NULL) {
        fail_msg("\"%s\" %s", text, why);
    }
    assert_true(c.seconds == 77);
}

static void test_cron_errors_point_at_the_field(void **state)
{
    (void)state;
    expect_error("60 * * * *", "minute (field 1 of 5, character 1)", "60 is not in 0 to 59");
    expect_error("0 24 * * *", "hour (field 2 of 5, character 3)", "24 is not in 0 to 23");
    expect_error("0 0 0 * *", "day of the month (field 3 of 5, character 5)", "not in 1 to 31");
    expect_error("0 0 32 * *", "day of the month (field 3", "32 is not in 1 to 31");
    expect_error("0 0 1 13 *", "month (field 4 of 5, character 7)", "13 is not in 1 to 12");
    expect_error("0 0 * * 8", "day of the week (field 5 of 5, character 9)", "8 is not in 0 to 7");
    expect_error("0 60 9 * * *", "minute (field 2 of 6, character 3)", "60 is not in 0 to 59");
    expect_error("0 0 * FOO *", "month (field 4 of 5, character 7)", "no such name");
    expect_error("0 0 * * MOX", "day of the week", "no such name");
    expect_error("0 MON * * *", "hour", "no such name");
    expect_error("0 5-3 * * *", "hour (field 2 of 5, character 3)", "goes backward");
    expect_error("0 0 * * FRI-MON", "day of the week", "goes backward");
    expect_error("*/0 * * * *", "minute (field 1 of 5, character 2)", "a step is 1 to 60");
    expect_error("*/90 * * * *", "minute", "a step is 1 to 60");
    expect_error("0 */x * * *", "hour (field 2 of 5, character 5)", "behind / stands a number");
    expect_error("1,,2 * * * *", "minute (field 1 of 5, character 3)", "no number and no name");
    expect_error("1, * * * *", "minute (field 1 of 5, character 3)", "something is missing");
    expect_error("0 0 * * L", "day of the week", "FRIL");
    expect_error("0 0 L-3 * *", "day of the month (field 3 of 5, character 6)", "not belong");
    expect_error("0 0 15W * *", "day of the month", "not belong");
    expect_error("0 0 * * MON#6", "day of the week", "behind # stands 1 to 5");
    expect_error("0 0 * * MON#", "day of the week", "behind # stands 1 to 5");
    expect_error("0 0 5L * *", "day of the month", "not belong");
    expect_error("99999999999999999999 * * * *", "minute", "is not in 0 to 59");
    expect_error("-1 * * * *", "minute", "no number and no name");
}

static void test_cron_errors_of_the_whole(void **state)
{
    char text[400];

    (void)state;
    expect_error("", "has 0 fields", "write 5");
    expect_error("* * * *", "has 4 fields", "@daily");
    expect_error("0 0 0 1 1 * 2027", "has 7 fields", "6 (with the second in front)");
    expect_error("@reboot", "no such name", "@hourly");
    expect_error("@", "no such name", "@hourly");
    expect_error("0 0 30 2 *", "never comes", "fields 3 and 4");
    expect_error("0 0 0 30,31 FEB ?", "never comes", "fields 4 and 5");
    expect_error("0 0 31 4,6,9,11 *", "never comes", "fields 3 and 4");
    memset(text, '*', sizeof text);
    text[sizeof text - 1] = '\0';
    expect_error(text, "has more than 256", "characters");
}

/* ---- random expressions ---- */

struct part {
    unsigned first;
    unsigned last;
    unsigned step;
    char kind; /* 0 a range; 'L' or '#' of a weekday, 'D' the last day */
    unsigned n;
};

struct expression {
    struct part parts[6][3];
    unsigned count[6];
    bool open[6];
    char text[TR_CRON_TEXT_MAX];
};

static const unsigned least[] = {0, 0, 0, 1, 1, 0};
static const unsigned most[] = {59, 59, 23, 31, 12, 6};
static const char *const months[] = {"jan", "FEB", "Mar", "apr", "MAY", "JUN",
                                     "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
static const char *const weekdays[] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "sat"};

static void add_text(struct expression *x, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_text(struct expression *x, const char *format, ...)
{
    size_t len = strlen(x->text);
    va_list args;

    va_start(args, format);
    tr_text_list(x->text + len, sizeof x->text - len, format, args);
    va_end(args);
}

static void add_value(struct expression *x, unsigned field, unsigned value, bool name)
{
    if (name && field == 4) {
        add_text(x, "%s", months[value - 1]);
    } else if (name && field == 5) {
        add_text(x, "%s", weekdays[value]);
    } else {
        add_text(x, "%u", value);
    }
}

static void make_range(struct tr_rng *r, struct expression *x, unsigned field, struct part *part)
{
    unsigned span = most[field] - least[field] + 1;
    bool name = tr_rng_below(r, 2) == 0;

    part->step = 1;
    part->first = least[field] + (unsigned)tr_rng_below(r, span);
    part->last = part->first;
    add_value(x, field, part->first, name);
    if (tr_rng_below(r, 3) == 0) {
        part->last += (unsigned)tr_rng_below(r, most[field] - part->first + 1);
        add_text(x, "-");
        add_value(x, field, part->last, name);
        if (tr_rng_below(r, 2) == 0) {
            part->step = 1 + (unsigned)tr_rng_below(r, span);
            add_text(x, "/%u", part->step);
        }
    } else if (tr_rng_below(r, 4) == 0) {
        part->step = 1 + (unsigned)tr_rng_below(r, span);
        part->last = most[field];
        add_text(x, "/%u", part->step);
    }
}

static void make_part(struct tr_rng *r, struct expression *x, unsigned field, struct part *part)
{
    uint64_t dice = tr_rng_below(r, 12);

    *part = (struct part){.step = 1};
    if (dice == 0 || (dice < 5 && field != 3)) {
        part->first = least[field];
        part->last = most[field];
        part->step = dice % 2 == 0 ? 1 : 1 + (unsigned)tr_rng_below(r, 7);
        add_text(x, part->step == 1 ? "*" : "*/%u", part->step);
        x->open[field] |= part->step == 1;
    } else if (field == 3 && dice == 5) {
        part->kind = 'D';
        add_text(x, "L");
    } else if (field == 5 && dice < 8) {
        part->kind = dice == 5 ? 'L' : '#';
        part->first = (unsigned)tr_rng_below(r, 7);
        part->n = 1 + (unsigned)tr_rng_below(r, 5);
        add_value(x, field, part->first, part->n % 2 == 0);
        add_text(x, part->kind == 'L' ? "L" : "#%u", part->n);
    } else {
        make_range(r, x, field, part);
    }
}

static void make_expression(struct tr_rng *r, struct expression *x)
{
    unsigned first = (unsigned)tr_rng_below(r, 2);

    memset(x, 0, sizeof *x);
    if (first == 1) {
        x->count[0] = 1;
        x->parts[0][0] = (struct part){.step = 1};
    }
    for (unsigned field = first; field < 6; field++) {
        x->count[field] = 1 + (unsigned)(tr_rng_below(r, 3) == 0) * 2;
        for (unsigned i = 0; i < x->count[field]; i++) {
            make_part(r, x, field, &x->parts[field][i]);
            add_text(x, i + 1 < x->count[field] ? "," : "");
        }
        add_text(x, field < 5 ? " " : "");
    }
}

static bool names(const struct expression *x, unsigned field, unsigned value)
{
    for (unsigned i = 0; i < x->count[field]; i++) {
        const struct part *part = &x->parts[field][i];

        for (unsigned v = part->first; part->kind == 0 && v <= part->last; v += part->step) {
            if (v == value) {
                return true;
            }
        }
    }
    return false;
}

static bool names_day(const struct expression *x, struct tr_date date, unsigned weekday)
{
    unsigned length = tr_date_month_days(date.year, date.month);
    bool day = names(x, 3, date.day);
    bool of_week = names(x, 5, weekday);

    for (unsigned i = 0; i < x->count[3]; i++) {
        day |= x->parts[3][i].kind == 'D' && date.day == length;
    }
    for (unsigned i = 0; i < x->count[5]; i++) {
        const struct part *part = &x->parts[5][i];

        if (part->kind != 0 && part->first == weekday) {
            of_week |= part->kind == 'L' ? date.day + 7 > length : (date.day + 6) / 7 == part->n;
        }
    }
    if (x->open[3] || x->open[5]) {
        return (x->open[3] || day) && (x->open[5] || of_week);
    }
    return day || of_week;
}

static bool slow_time(const struct expression *x, int64_t day, int64_t from, int64_t *local)
{
    for (unsigned h = 0; h < 24; h++) {
        for (unsigned m = 0; m < 60 && names(x, 2, h); m++) {
            for (unsigned s = 0; s < 60 && names(x, 1, m); s++) {
                *local = day * DAY_S + h * 3600 + m * 60 + s;
                if (*local >= from && names(x, 0, s)) {
                    return true;
                }
            }
        }
    }
    return false;
}

static bool slow_next(const struct expression *x, int64_t from, int64_t before, int64_t *local)
{
    for (int64_t day = from / DAY_S; day * DAY_S < before; day++) {
        struct tr_date date = tr_date_of_days(day);

        if (names(x, 4, date.month) && names_day(x, date, (unsigned)((day + 4) % 7)) &&
            slow_time(x, day, from, local)) {
            return *local < before;
        }
    }
    return false;
}

static void test_cron_is_what_a_slow_reader_finds(void **state)
{
    struct tr_rng r = {20261115};
    unsigned found = 0;

    (void)state;
    for (unsigned i = 0; i < 4000; i++) {
        struct expression x;
        struct tr_cron c;
        char why[TR_CRON_WHY];
        int64_t from = (int64_t)tr_rng_below(&r, UINT64_C(200) * 365 * DAY_S);
        int64_t before = from + (int64_t)tr_rng_below(&r, UINT64_C(12) * 365 * DAY_S);

        make_expression(&r, &x);
        if (tr_cron_read(x.text, strlen(x.text), &c, why) != TARRY_OK) {
            int64_t local;

            if (strstr(why, "never comes") == NULL ||
                slow_next(&x, 0, INT64_C(100) * 365 * DAY_S, &local)) {
                fail_msg("\"%s\" %s", x.text, why);
            }
            continue;
        }
        for (unsigned n = 0; n < 5; n++) {
            int64_t quick = 0;
            int64_t slow = 0;
            bool is = tr_cron_next(&c, from, before, &quick);

            if (slow_next(&x, from, before, &slow) != is || (is && quick != slow)) {
                fail_msg("\"%s\" from %lld: %lld, not %lld", x.text, (long long)from,
                         (long long)quick, (long long)slow);
            }
            if (!is) {
                break;
            }
            found++;
            from = quick + 1;
        }
    }
    assert_true(found > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cron_five_and_six_fields),
        cmocka_unit_test(test_cron_nicknames),
        cmocka_unit_test(test_cron_last_and_nth),
        cmocka_unit_test(test_cron_sundays),
        cmocka_unit_test(test_cron_either_day),
        cmocka_unit_test(test_cron_leap_days),
        cmocka_unit_test(test_cron_before_is_exclusive),
        cmocka_unit_test(test_cron_hours_are),
        cmocka_unit_test(test_cron_errors_point_at_the_field),
        cmocka_unit_test(test_cron_errors_of_the_whole),
        cmocka_unit_test(test_cron_is_what_a_slow_reader_finds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
