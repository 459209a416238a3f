/* Durations: what is one, what it is exactly, and how it is told. */

#include "rules/duration.h"

#include "base/err.h"
#include "base/rng.h"
#include "base/text.h"
#include "port/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)

/* What stands behind the end of the text must not matter. */
static int read_exactly(const char *text, uint64_t *us, const char **why)
{
    char more[100];

    tr_text(more, sizeof more, "%s9s9", text);
    return tr_duration_read(more, strlen(text), us, why);
}

static uint64_t us_of(const char *text)
{
    const char *why = "";
    uint64_t us = 0;

    if (read_exactly(text, &us, &why) != TARRY_OK) {
        fail_msg("\"%s\" %s", text, why);
    }
    assert_null(why);
    return us;
}

static void test_duration_reads(void **state)
{
    (void)state;
    assert_int_equal(us_of("250ms"), 250000);
    assert_int_equal(us_of("30s"), 30 * SECOND);
    assert_int_equal(us_of("30m"), 1800 * SECOND);
    assert_int_equal(us_of("2h"), 7200 * SECOND);
    assert_int_equal(us_of("30d"), 30 * 86400 * SECOND);
    assert_int_equal(us_of("1h30m"), 5400 * SECOND);
    assert_int_equal(us_of("1d2h3m4s5ms"), 93784 * SECOND + 5000);
    assert_int_equal(us_of("1d5ms"), 86400 * SECOND + 5000);
    assert_int_equal(us_of("1.5h"), 5400 * SECOND);
    assert_int_equal(us_of("1h0.5m"), 3630 * SECOND);
    assert_int_equal(us_of("0"), 0);
    assert_int_equal(us_of("0s"), 0);
    assert_int_equal(us_of("007"), 7 * SECOND);
    assert_int_equal(us_of("1.5"), 1500000);
    assert_int_equal(us_of("0.1"), 100000);
    assert_int_equal(us_of("0.001ms"), 1);
    assert_int_equal(us_of("137000.25"), UINT64_C(137000250000));
}

/* What is finer than a microsecond makes it later, and only then. */
static void test_duration_rounds_up(void **state)
{
    (void)state;
    assert_int_equal(us_of("0.0000001"), 1);
    assert_int_equal(us_of("0.9000000000000001"), 900001);
    assert_int_equal(us_of("0.9000000000000000000000000000000000000000000000000"), 900000);
    assert_int_equal(us_of("0.99999999999999999999999999999999999999"), SECOND);
    assert_int_equal(us_of("0.0000000000000000000000000000000000000001d"), 1);
    assert_int_equal(us_of("0.3333333333333333h"), 1200 * SECOND);
    assert_int_equal(us_of("0.125d"), 3 * 3600 * SECOND);
}

static void test_duration_refuses(void **state)
{
    static const char *const texts[] = {
        "",    " ",    "s",    "ms",   "1x",    "1 s",  " 1s", "1s ",  "+1s",          "-1s",
        "-1",  "1.",   ".5",   "1.s",  "1..5s", "1,5s", "1S",  "1H",   "1us",          "1ns",
        "1w",  "1y",   "1e3",  "0x10", "1m1h",  "1h1h", "1s1", "1h30", "1.5h3m",       "1mss",
        "5m5", "1sms", "1min", "inf",  "nan",   "30s,", "P1D", "1:30", "\xef\xbc\x91",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *why = NULL;
        uint64_t us = 77;

        if (read_exactly(texts[i], &us, &why) != TARRY_EINVAL) {
            fail_msg("\"%s\" was read", texts[i]);
        }
        assert_non_null(why);
        assert_int_equal(us, 77);
    }
}

static void refused_with(const char *text, size_t len, const char *word)
{
    const char *why = NULL;
    uint64_t us;

    assert_int_equal(tr_duration_read(text, len, &us, &why), TARRY_EINVAL);
    assert_non_null(strstr(why, word));
}

static void test_duration_says_why(void **state)
{
    (void)state;
    assert_int_equal(us_of("50005d"), TR_DELAY_MAX_US); /* 137 years of 365 days */
    refused_with("50005d0.001ms", 13, "137 years");
    refused_with("50006d", 6, "137 years");
    refused_with("99999999999999999999999999999999999999ms", 40, "137 years");
    refused_with("18446744073709551616", 20, "137 years");
    refused_with("-5s", 3, "negative");
    refused_with("1m2h", 4, "order");
    refused_with("5\0s", 3, "no duration");
}

static void test_duration_signed(void **state)
{
    const char *why;
    int64_t us = 0;

    (void)state;
    assert_int_equal(tr_duration_read_signed("-30m", 4, &us, &why), TARRY_OK);
    assert_true(us == -(int64_t)(1800 * SECOND));
    assert_int_equal(tr_duration_read_signed("+1.5", 4, &us, &why), TARRY_OK);
    assert_true(us == 1500000);
    assert_int_equal(tr_duration_read_signed(" 2s", 3, &us, &why), TARRY_OK);
    assert_true(us == 2000000);
    assert_int_equal(tr_duration_read_signed("3s", 2, &us, &why), TARRY_OK);
    assert_true(us == 3000000);
    assert_int_equal(tr_duration_read_signed("--3s", 4, &us, &why), TARRY_EINVAL);
    assert_int_equal(tr_duration_read_signed("-", 1, &us, &why), TARRY_EINVAL);
    assert_int_equal(tr_duration_read_signed("", 0, &us, &why), TARRY_EINVAL);
    assert_true(us == 3000000);
}

static void told(uint64_t us, const char *exact, const char *people)
{
    char text[TR_DURATION_TEXT];

    tr_duration_print(text, us);
    assert_string_equal(text, exact);
    tr_duration_tell(text, us);
    assert_string_equal(text, people);
}

static void test_duration_prints(void **state)
{
    (void)state;
    told(0, "0s", "0 us");
    told(7, "0.007ms", "7 us");
    told(1000, "1ms", "1 ms");
    told(250999, "250.999ms", "250 ms");
    told(999999, "999.999ms", "999 ms");
    told(SECOND, "1s", "1 s");
    told(2150000, "2s150ms", "2.1 s");
    told(59999999, "59s999.999ms", "59.9 s");
    told(60 * SECOND, "1m", "1m");
    told(1798 * SECOND, "29m58s", "29m58s");
    told(5400 * SECOND, "1h30m", "1h30m");
    told(3600 * SECOND + 59 * SECOND, "1h59s", "1h");
    told(86400 * SECOND, "1d", "1d");
    told(100 * 3600 * SECOND, "4d4h", "4d4h");
    told(TR_DELAY_MAX_US, "50005d", "50005d");
    told(TR_DELAY_MAX_US - 1, "50004d23h59m59s999.999ms", "50004d23h");
}

/* What is printed is read as the same; digits behind the point, as a child would count them. */
static void test_duration_random(void **state)
{
    struct tr_rng r = {1};

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t us = tr_rng_next(&r) % (TR_DELAY_MAX_US + 1) >> tr_rng_below(&r, 53);
        char text[TR_DURATION_TEXT];

        tr_duration_print(text, us);
        assert_true(us_of(text) == us);
        tr_text(text, sizeof text, "%llu.%06llu", (unsigned long long)(us / SECOND),
                (unsigned long long)(us % SECOND));
        assert_true(us_of(text) == us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_duration_reads),   cmocka_unit_test(test_duration_rounds_up),
        cmocka_unit_test(test_duration_refuses), cmocka_unit_test(test_duration_says_why),
        cmocka_unit_test(test_duration_signed),  cmocka_unit_test(test_duration_prints),
        cmocka_unit_test(test_duration_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
