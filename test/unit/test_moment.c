/* Moments: the calendar against one that is walked day by day, and what is read and printed. */

#include "rules/moment.h"

#include "base/err.h"
#include "base/rng.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000)
#define DAY (86400 * SECOND)

/* What stands behind the end of the text must not matter. */
static int read_exactly(const char *text, int64_t *us, const char **why)
{
    char more[100];

    tr_text(more, sizeof more, "%s1Z", text);
    return tr_moment_read(more, strlen(text), us, why);
}

static int64_t us_of(const char *text)
{
    const char *why = "";
    int64_t us = 0;

    if (read_exactly(text, &us, &why) != TARRY_OK) {
        fail_msg("\"%s\" %s", text, why);
    }
    assert_null(why);
    return us;
}

/* From day to day over 12,000 years, as a child would: thirty days hath September. */
static void test_moment_calendar(void **state)
{
    static const unsigned lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    struct tr_date date = {-1000, 1, 1};
    int64_t first = tr_date_days(date);

    (void)state;
    assert_true(tr_date_days((struct tr_date){1970, 1, 1}) == 0);
    assert_true(tr_date_days((struct tr_date){2000, 3, 1}) == 11017);
    for (int64_t days = first; date.year <= 11000; days++) {
        struct tr_date found = tr_date_of_days(days);
        unsigned length = lengths[date.month - 1];

        if (date.month == 2 && date.year % 4 == 0) {
            length = date.year % 100 == 0 && date.year % 400 != 0 ? 28 : 29;
        }
        if (found.year != date.year || found.month != date.month || found.day != date.day ||
            tr_date_days(date) != days || tr_date_month_days(date.year, date.month) != length) {
            fail_msg("day %lld", (long long)days);
        }
        if (++date.day > length) {
            date.day = 1;
            date.month = date.month % 12 + 1;
            date.year += date.month == 1;
        }
    }
}

static void test_moment_reads(void **state)
{
    const int64_t new_year = INT64_C(1798761600) * SECOND; /* 2027-01-01 in UTC */

    (void)state;
    assert_true(us_of("1970-01-01T00:00:00Z") == 0);
    assert_true(us_of("2027-01-01T00:00:00Z") == new_year);
    assert_true(us_of("2027-01-01t00:00:00z") == new_year);
    assert_true(us_of("2027-01-01 00:00:00Z") == new_year);
    assert_true(us_of("2027-01-01T00:00:00+08:00") == new_year - 8 * 3600 * SECOND);
    assert_true(us_of("2027-01-01T00:00:00 08:00") == new_year - 8 * 3600 * SECOND);
    assert_true(us_of("2026-12-31T14:30:00-09:30") == new_year);
    assert_true(us_of("2027-01-01T00:00:00-00:00") == new_year);
    assert_true(us_of("2026-12-31T23:59:00+23:59") == new_year - 24 * 3600 * SECOND);
    assert_true(us_of("2027-01-01T00:00:00.5Z") == new_year + SECOND / 2);
    assert_true(us_of("2027-01-01T00:00:00.123456Z") == new_year + 123456);
    assert_true(us_of("2027-01-01T00:00:00.123456000000Z") == new_year + 123456);
    assert_true(us_of("2027-01-01T00:00:00.1234560001Z") == new_year + 123457);
    assert_true(us_of("2027-01-01T00:00:00.999999999+00:00") == new_year + SECOND);
    assert_true(us_of("2024-02-29T00:00:00Z") == INT64_C(1709164800) * SECOND);
    assert_true(us_of("1969-12-31T23:59:59.25Z") == -SECOND * 3 / 4);
    assert_true(us_of("0000-01-01T00:00:00Z") == -719528 * DAY);
    assert_true(us_of("9999-12-31T23:59:59Z") == INT64_C(253402300799) * SECOND);
    assert_true(us_of("1798761600000") == new_year);
    assert_true(us_of("1798761600000.25") == new_year + 250);
    assert_true(us_of("1798761600000.0001") == new_year + 1);
    assert_true(us_of("100000000000") == INT64_C(100000000000000));
    assert_true(us_of("253402300799999") == INT64_C(253402300799999000));
    assert_true(us_of("2016-12-31T23:59:60Z") == us_of("2017-01-01T00:00:00Z"));
    assert_true(us_of("2017-01-01T08:59:60+09:00") == us_of("2017-01-01T00:00:00Z"));
}

static void refused_with(const char *text, const char *word)
{
    const char *why = NULL;
    int64_t us = 77;

    if (read_exactly(text, &us, &why) != TARRY_EINVAL) {
        fail_msg("\"%s\" was read", text);
    }
    assert_true(us == 77);
    assert_non_null(why);
    if (strstr(why, word) == NULL) {
        fail_msg("\"%s\" %s", text, why);
    }
}

static void test_moment_refuses(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "now",
        "tomorrow",
        "2027",
        "2027-",
        "2027-01-01",
        "2027-01-01Z",
        "2027-01-01T00:00Z",
        "2027-1-1T00:00:00Z",
        "02027-01-01T00:00:00Z",
        "+2027-01-01T00:00:00Z",
        "2027-01-01T00:00:00.Z",
        "2027-01-01T00:00:00,5Z",
        "2027-01-01T00:00:00+0800",
        "2027-01-01T00:00:00+08",
        "2027-01-01T00:00:00+8:00",
        "2027-01-01T00:00:00+24:00",
        "2027-01-01T00:00:00+08:60",
        "2027-01-01T00:00:00Z ",
        "2027-01-01T00:00:00ZZ",
        "2027-01-01X00:00:00Z",
        "2027/01/01T00:00:00Z",
        "2027-01-01T00:00:00  08:00",
        "1798761600000 ",
        " 1798761600000",
        "-1798761600000",
        "1798761600000.",
        "1.7987616e12",
        "1798761600000ms",
        "2027-W01-1T00:00:00Z",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        refused_with(texts[i], "");
    }
    refused_with("99999999999", "seconds");
    refused_with("1798761600", "seconds");
    refused_with("0", "seconds");
    refused_with("253402300800000", "9999");
    refused_with("99999999999999999999999999", "9999");
    refused_with("2027-01-01T00:00:00", "zone");
    refused_with("2027-01-01T00:00:00.5", "zone");
    refused_with("2027-02-29T00:00:00Z", "calendar");
    refused_with("2100-02-29T00:00:00Z", "calendar");
    refused_with("2027-00-01T00:00:00Z", "calendar");
    refused_with("2027-13-01T00:00:00Z", "calendar");
    refused_with("2027-04-31T00:00:00Z", "calendar");
    refused_with("2027-04-00T00:00:00Z", "calendar");
    refused_with("2027-01-01T24:00:00Z", "clock");
    refused_with("2027-01-01T00:60:00Z", "clock");
    refused_with("2027-01-01T00:00:61Z", "clock");
    refused_with("2027-01-01T00:00:60Z", "leap");
    refused_with("2016-12-31T23:59:60+01:00", "leap");
}

static void printed(int64_t us, const char *want)
{
    char text[TR_MOMENT_TEXT];

    assert_int_equal(tr_moment_print(text, us), strlen(want));
    assert_string_equal(text, want);
}

static void test_moment_prints(void **state)
{
    char text[TR_MOMENT_TEXT];

    (void)state;
    printed(0, "1970-01-01T00:00:00.000Z");
    printed(999, "1970-01-01T00:00:00.000Z");
    printed(1000, "1970-01-01T00:00:00.001Z");
    printed(-1, "1969-12-31T23:59:59.999Z");
    printed(-DAY, "1969-12-31T00:00:00.000Z");
    printed(INT64_C(1709208000123999), "2024-02-29T12:00:00.123Z");
    printed(-719528 * DAY, "0000-01-01T00:00:00.000Z");
    printed(-719528 * DAY - 1, "-0001-12-31T23:59:59.999Z");
    printed(INT64_C(253402300800000000), "010000-01-01T00:00:00.000Z");
    (void)tr_moment_print(text, INT64_MIN);
    (void)tr_moment_print(text, INT64_MAX);
}

static void test_moment_random(void **state)
{
    struct tr_rng r = {1};
    int64_t first = us_of("0000-01-01T00:00:00Z");
    uint64_t span = (uint64_t)(us_of("9999-12-31T23:59:59.999Z") - first) / 1000 + 1;

    (void)state;
    for (unsigned i = 0; i < 50000; i++) {
        int64_t us = first + (int64_t)tr_rng_below(&r, span) * 1000;
        char text[TR_MOMENT_TEXT];

        assert_int_equal(tr_moment_print(text, us + (int64_t)tr_rng_below(&r, 1000)), 24);
        assert_true(us_of(text) == us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moment_calendar), cmocka_unit_test(test_moment_reads),
        cmocka_unit_test(test_moment_refuses),  cmocka_unit_test(test_moment_prints),
        cmocka_unit_test(test_moment_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
