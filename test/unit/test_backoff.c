/* Backoff: lists, growth, jitter; and the decimals in it. */

#include "rules/backoff.h"

#include "base/err.h"
#include "base/rng.h"
#include "rules/decimal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)

static struct tr_backoff read_one(const char *text)
{
    struct tr_backoff b;
    const char *why = "";

    if (tr_backoff_read(text, strlen(text), &b, &why) != TARRY_OK) {
        fail_msg("\"%s\" %s", text, why);
    }
    return b;
}

static void test_backoff_list(void **state)
{
    static const uint64_t minutes[] = {4, 10, 10, 60, 120, 360, 900, 900, 900};
    struct tr_backoff b = read_one("4m,10m,10m,1h,2h,6h,15h");

    (void)state;
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(tr_backoff_delay(&b, i + 1, i), minutes[i] * 60 * SECOND);
    }
    assert_int_equal(tr_backoff_delay(&b, UINT32_MAX, 1), 900 * 60 * SECOND);
    b = read_one(" 0 , 1.5 ");
    assert_int_equal(b.count, 2);
    assert_int_equal(tr_backoff_delay(&b, 1, 7), 0);
    assert_int_equal(tr_backoff_delay(&b, 2, 7), 1500000);
}

static void test_backoff_grows(void **state)
{
    struct tr_backoff b = read_one("exp(1s,2,1h,0)");
    struct tr_backoff slow = read_one("exp(10ms, 1.5, 30d, 0)");
    uint64_t us = 10000;

    (void)state;
    for (uint32_t i = 1; i <= 12; i++) {
        assert_int_equal(tr_backoff_delay(&b, i, i), (UINT64_C(1) << (i - 1)) * SECOND);
    }
    assert_int_equal(tr_backoff_delay(&b, 13, 0), 3600 * SECOND);
    assert_int_equal(tr_backoff_delay(&b, UINT32_MAX, 0), 3600 * SECOND);
    for (uint32_t i = 1; i < 40; i++) {
        assert_int_equal(tr_backoff_delay(&slow, i, 0), us);
        us = us * 150 / 100;
    }
    slow = read_one("exp(5s,1,5s,0)"); /* and does not take 2^32 steps for it */
    assert_int_equal(tr_backoff_delay(&slow, UINT32_MAX, 0), 5 * SECOND);
    slow = read_one("exp(0.099ms,1.01,50005d,0)"); /* too little to grow */
    assert_int_equal(tr_backoff_delay(&slow, UINT32_MAX, 0), 99);
    slow = read_one("exp(50005d,1000,50005d,1)");
    assert_true(tr_backoff_delay(&slow, 2, 5) >= UINT64_C(50005) * 86400 * SECOND);
    slow = read_one("exp(1s,1000,50005d,0)");
    assert_true(tr_backoff_delay(&slow, 5, 0) == UINT64_C(50005) * 86400 * SECOND);
}

static void test_backoff_jitter_only_adds(void **state)
{
    struct tr_backoff b = tr_backoff_default();
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;

    (void)state;
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t us = tr_backoff_delay(&b, 3, i);

        least = us < least ? us : least;
        most = us > most ? us : most;
        assert_true(us == tr_backoff_delay(&b, 3, i));
    }
    assert_true(least >= 4 * SECOND && least < 4 * SECOND + SECOND / 100);
    assert_true(most <= 4 * SECOND + 4 * SECOND / 10 && most > 4 * SECOND + 39 * SECOND / 100);
    b = read_one("exp(0.002ms,1,1s,1)"); /* both ends are reached */
    least = UINT64_MAX;
    most = 0;
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t us = tr_backoff_delay(&b, 1, i);

        least = us < least ? us : least;
        most = us > most ? us : most;
    }
    assert_int_equal(least, 2);
    assert_int_equal(most, 4);
}

static void refused_with(const char *text, const char *word)
{
    struct tr_backoff b = {.count = 77};
    const char *why = NULL;

    if (tr_backoff_read(text, strlen(text), &b, &why) != TARRY_EINVAL) {
        fail_msg("\"%s\" was read", text);
    }
    assert_int_equal(b.count, 77);
    assert_non_null(why);
    if (strstr(why, word) == NULL) {
        fail_msg("\"%s\" %s", text, why);
    }
}

static void test_backoff_waits_in_the_long_run(void **state)
{
    const struct {
        const char *text;
        bool waits;
    } cases[] = {{"0s", false},    {"1s,0s", false},          {"0s,1ms", true},
                 {"1ms", true},    {"exp(0s,2,1h,0)", false}, {"exp(1ms,1,1h,0.1)", true},
                 {"0s,0s", false}, {"exp(1s,2,1h,0)", true}};

    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tr_backoff b;
        const char *why;

        assert_int_equal(tr_backoff_read(cases[i].text, strlen(cases[i].text), &b, &why), TARRY_OK);
        assert_true(tr_backoff_waits(&b) == cases[i].waits);
        assert_true((tr_backoff_delay(&b, 1000, 0) != 0) == cases[i].waits);
    }
}

static void test_backoff_refuses(void **state)
{
    (void)state;
    refused_with("", "no backoff");
    refused_with(" ", "no backoff");
    refused_with(",", "no backoff");
    refused_with("4m,", "no backoff");
    refused_with(",4m", "no backoff");
    refused_with("4m,,5m", "no backoff");
    refused_with("4m;5m", "duration");
    refused_with("4m 5m", "duration");
    refused_with("-4m", "negative");
    refused_with("50006d", "137 years");
    refused_with("exp", "duration");
    refused_with("exp(", "duration");
    refused_with("exp()", "no backoff");
    refused_with("exp(1s)", "no backoff");
    refused_with("exp(1s,2,1h)", "no backoff");
    refused_with("exp(1s,2,1h,0.1", "no backoff");
    refused_with("exp(1s,2,1h,0.1,5)", "no backoff");
    refused_with("exp(1s,2,1h,0.1))", "jitter");
    refused_with("EXP(1s,2,1h,0.1)", "duration");
    refused_with("exp(x,2,1h,0.1)", "duration");
    refused_with("exp(1s,0.99,1h,0.1)", "factor");
    refused_with("exp(1s,1.001,1h,0.1)", "factor");
    refused_with("exp(1s,1000.01,1h,0.1)", "factor");
    refused_with("exp(1s,-2,1h,0.1)", "factor");
    refused_with("exp(1s,,1h,0.1)", "factor");
    refused_with("exp(1s,2,1h,1.1)", "jitter");
    refused_with("exp(1s,2,1h,0.0001)", "jitter");
    refused_with("exp(1s,2,1h,)", "jitter");
    refused_with("exp(2h,2,1h,0.1)", "longer");
    refused_with("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "32");
    assert_int_equal(
        read_one("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1").count, 32);
}

static void printed(const char *text, const char *want)
{
    struct tr_backoff b = read_one(text);
    char out[TR_BACKOFF_TEXT];

    tr_backoff_print(out, &b);
    assert_string_equal(out, want);
}

static void test_backoff_prints(void **state)
{
    struct tr_backoff b = tr_backoff_default();
    char out[TR_BACKOFF_TEXT];

    (void)state;
    printed("exp( 60 , 2.0 , 3600s , 0.10 )", "exp(1m,2,1h,0.1)");
    printed("exp(1s,1.25,90m,1)", "exp(1s,1.25,1h30m,1)");
    printed("exp(0,1,0,0)", "exp(0s,1,0s,0)");
    printed("240, 10m,0", "4m,10m,0s");
    tr_backoff_print(out, &b);
    assert_string_equal(out, "exp(1s,2,1h,0.1)");
    b.count = TR_BACKOFF_LIST_MAX; /* the longest there is fits */
    for (unsigned i = 0; i < b.count; i++) {
        b.list_us[i] = UINT64_C(50004) * 86400 * SECOND + 86399999999;
    }
    tr_backoff_print(out, &b);
    assert_true(strlen(out) < TR_BACKOFF_TEXT - 1);
    assert_int_equal(read_one(out).count, TR_BACKOFF_LIST_MAX);
}

static void test_decimal(void **state)
{
    static const char *const bad[] = {"",    ".",   "1.",  ".5",    "-1", "+1",  " 1",    "1 ",
                                      "1e1", "1,5", "..1", "1.2.3", "x",  "0x1", "1.0001"};
    char out[TR_DECIMAL_TEXT];
    uint64_t n = 77;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(tr_decimal_read(bad[i], strlen(bad[i]), 3, UINT64_MAX, &n));
    }
    assert_int_equal(n, 77);
    assert_true(tr_decimal_read("1.5", 3, 3, 1500, &n) && n == 1500);
    assert_false(tr_decimal_read("1.501", 5, 3, 1500, &n));
    assert_false(tr_decimal_read("2", 1, 3, 1500, &n));
    assert_false(tr_decimal_read("9", 1, 0, 8, &n));
    assert_true(tr_decimal_read("1.5000000000000000000000", 24, 3, 1500, &n) && n == 1500);
    assert_true(tr_decimal_read("00.001", 6, 3, 1500, &n) && n == 1);
    assert_true(tr_decimal_read("7", 1, 0, 7, &n) && n == 7);
    assert_true(tr_decimal_read("7.0", 3, 0, 7, &n) && n == 7);
    assert_true(tr_decimal_read("18446744073709551615", 20, 0, UINT64_MAX, &n) && n == UINT64_MAX);
    assert_false(tr_decimal_read("18446744073709551616", 20, 0, UINT64_MAX, &n));
    assert_false(tr_decimal_read("18446744073709551615", 20, 1, UINT64_MAX, &n));
    tr_decimal_print(out, 2500, 3);
    assert_string_equal(out, "2.5");
    tr_decimal_print(out, 1, 3);
    assert_string_equal(out, "0.001");
    tr_decimal_print(out, 20000, 3);
    assert_string_equal(out, "20");
    tr_decimal_print(out, 0, 2);
    assert_string_equal(out, "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backoff_list),
        cmocka_unit_test(test_backoff_grows),
        cmocka_unit_test(test_backoff_refuses),
        cmocka_unit_test(test_backoff_jitter_only_adds),
        cmocka_unit_test(test_backoff_prints),
        cmocka_unit_test(test_decimal),
        cmocka_unit_test(test_backoff_waits_in_the_long_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
