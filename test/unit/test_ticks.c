/* Ticks: what happens to cron expressions when clocks are changed. */

#include "rules/ticks.h"

#include "base/err.h"
#include "os/zones_linux.h"
#include "rules/moment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint8_t bytes[TR_ZONE_BYTES_MAX];

static int64_t at(const char *text)
{
    const char *why;
    int64_t us = 0;

    assert_int_equal(tr_moment_read(text, strlen(text), &us, &why), TARRY_OK);
    return us / 1000000;
}

/* The moments after the first one, up to a NULL; in UTC or with an offset. */
static void expect(const char *zone, const char *text, ...)
{
    struct tr_zone_file file = {bytes, sizeof bytes, 0};
    struct tr_zone z = {0};
    struct tr_cron c;
    char why[TR_CRON_WHY];
    const char *wanted;
    int64_t moment;
    va_list args;

    if (!tr_zone_is_utc(zone, strlen(zone))) {
        assert_int_equal(tr_zones_linux_read(NULL, zone, strlen(zone), &file), TARRY_OK);
        assert_int_equal(tr_zone_read(bytes, file.len, &z), TARRY_OK);
    }
    assert_int_equal(tr_cron_read(text, strlen(text), &c, why), TARRY_OK);
    va_start(args, text);
    moment = at(va_arg(args, const char *));
    while ((wanted = va_arg(args, const char *)) != NULL) {
        assert_true(tr_ticks_next(&c, &z, moment, INT64_MAX, &moment));
        if (moment != at(wanted)) {
            char found[TR_MOMENT_TEXT];

            tr_moment_print(found, moment * 1000000);
            fail_msg("%s \"%s\": %s, not %s", zone, text, found, wanted);
        }
    }
    va_end(args);
}

static void test_ticks_plain(void **state)
{
    (void)state;
    expect("UTC", "0 30 9 * * MON-FRI", "2026-11-13T09:30:00Z", "2026-11-16T09:30:00Z", NULL);
    expect("Asia/Shanghai", "0 30 9 * * MON-FRI", "2026-11-13T09:30:00+08:00",
           "2026-11-16T09:30:00+08:00", NULL);
    expect("Asia/Kathmandu", "0 0 1 1 *", "2026-01-02T00:00:00Z", "2027-01-01T00:00:00+05:45",
           NULL);
    expect("America/New_York", "0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00-05:00",
           "2032-02-29T00:00:00-05:00", NULL);
}

/* 2027-03-28 in Berlin: from 2:00 to 3:00. */
static void test_ticks_in_the_gap(void **state)
{
    (void)state;
    expect("Europe/Berlin", "30 2 * * *", "2027-03-27T00:00:00Z", "2027-03-27T02:30:00+01:00",
           "2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00", NULL);
    expect("Europe/Berlin", "*/20 2 * * *", "2027-03-27T12:00:00Z", "2027-03-28T03:00:00+02:00",
           "2027-03-29T02:00:00+02:00", NULL);
    expect("Europe/Berlin", "0 2,3 * * *", "2027-03-27T12:00:00Z", "2027-03-28T03:00:00+02:00",
           "2027-03-29T02:00:00+02:00", NULL);
    expect("Europe/Berlin", "30 * * * *", "2027-03-28T00:30:00+01:00", "2027-03-28T01:30:00+01:00",
           "2027-03-28T03:30:00+02:00", "2027-03-28T04:30:00+02:00", NULL);
    expect("Europe/Berlin", "30 */2 * * *", "2027-03-28T00:00:00+01:00",
           "2027-03-28T00:30:00+01:00", "2027-03-28T03:30:00+02:00", "2027-03-28T04:30:00+02:00",
           NULL);
}

/* 2027-10-31 in Berlin: from 3:00 back to 2:00. */
static void test_ticks_that_come_twice(void **state)
{
    (void)state;
    expect("Europe/Berlin", "30 2 * * *", "2027-10-30T12:00:00Z", "2027-10-31T02:30:00+02:00",
           "2027-11-01T02:30:00+01:00", NULL);
    expect("Europe/Berlin", "*/30 2 * * *", "2027-10-30T12:00:00Z", "2027-10-31T02:00:00+02:00",
           "2027-10-31T02:30:00+02:00", "2027-11-01T02:00:00+01:00", NULL);
    expect("Europe/Berlin", "30 * * * *", "2027-10-31T01:30:00+02:00", "2027-10-31T02:30:00+02:00",
           "2027-10-31T02:30:00+01:00", "2027-10-31T03:30:00+01:00", NULL);
    expect("Europe/Berlin", "30 */2 * * *", "2027-10-31T00:30:00+02:00",
           "2027-10-31T02:30:00+02:00", "2027-10-31T04:30:00+01:00", NULL);
    expect("Europe/Berlin", "0 3 * * *", "2027-10-30T12:00:00Z", "2027-10-31T03:00:00+01:00", NULL);
}

static void test_ticks_odd_zones(void **state)
{
    (void)state;
    /* Half an hour: from 2:00 to 2:30 on 2027-10-03, and from 2:00 back to 1:30 on 2027-04-04. */
    expect("Australia/Lord_Howe", "15 2 * * *", "2027-10-02T00:00:00Z", "2027-10-03T02:30:00+11:00",
           "2027-10-04T02:15:00+11:00", NULL);
    expect("Australia/Lord_Howe", "45 1 * * *", "2027-04-03T00:00:00Z", "2027-04-04T01:45:00+11:00",
           "2027-04-05T01:45:00+10:30", NULL);
    /* A day that there was not. */
    expect("Pacific/Apia", "0 12 * * *", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00",
           "2011-12-31T12:00:00+14:00", NULL);
    /* Midnight that there is not. */
    expect("America/Havana", "@daily", "2027-03-13T12:00:00Z", "2027-03-14T01:00:00-04:00",
           "2027-03-15T00:00:00-04:00", NULL);
}

static void test_ticks_end(void **state)
{
    struct tr_zone z = {0};
    struct tr_cron c;
    char why[TR_CRON_WHY];
    int64_t day = at("2026-11-15T00:00:00Z");
    int64_t moment;

    (void)state;
    assert_int_equal(tr_cron_read("@daily", 6, &c, why), TARRY_OK);
    assert_false(tr_ticks_next(&c, &z, day, day + 86400, &moment));
    assert_true(tr_ticks_next(&c, &z, day, day + 86401, &moment));
    assert_true(moment == day + 86400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ticks_plain),
        cmocka_unit_test(test_ticks_in_the_gap),
        cmocka_unit_test(test_ticks_that_come_twice),
        cmocka_unit_test(test_ticks_odd_zones),
        cmocka_unit_test(test_ticks_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
