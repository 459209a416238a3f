/* Breakers: silence opens them, an answer closes them. */

#include "rules/breaker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)

static void silence(struct tr_breaker *b, unsigned times, uint64_t now_us)
{
    for (unsigned i = 0; i < times; i++) {
        (void)tr_breaker_failed(b, now_us);
    }
}

static void test_breaker_opens_after_five_in_a_row(void **state)
{
    struct tr_breaker b = {0};

    (void)state;
    silence(&b, TR_BREAKER_FAILURES - 1, 10 * SECOND);
    assert_int_equal(tr_breaker_allows(&b, 16, 10 * SECOND), 16);
    assert_false(tr_breaker_answered(&b)); /* it was closed all the time */
    silence(&b, TR_BREAKER_FAILURES - 1, 10 * SECOND);
    assert_int_equal(b.state, TR_BREAKER_CLOSED);
    assert_true(tr_breaker_failed(&b, 10 * SECOND));
    assert_int_equal(tr_breaker_allows(&b, 16, 10 * SECOND), 0);
    assert_string_equal(tr_breaker_name(b.state), "open");
}

static void test_breaker_tries_one_and_waits_longer_each_time(void **state)
{
    struct tr_breaker b = {0};
    uint64_t now_us = 5 * SECOND;
    uint64_t wait_us = SECOND;

    (void)state;
    silence(&b, TR_BREAKER_FAILURES, now_us);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(b.until_us, now_us + wait_us);
        assert_int_equal(tr_breaker_allows(&b, 16, b.until_us - 1), 0);
        now_us = b.until_us;
        assert_int_equal(tr_breaker_allows(&b, 16, now_us), 1);
        assert_int_equal(b.state, TR_BREAKER_HALF_OPEN);
        assert_true(tr_breaker_failed(&b, now_us));
        wait_us = 2 * wait_us < TR_BREAKER_LAST_US ? 2 * wait_us : TR_BREAKER_LAST_US;
    }
    (void)tr_breaker_allows(&b, 16, b.until_us);
    assert_true(tr_breaker_answered(&b));
    assert_int_equal(tr_breaker_allows(&b, 16, now_us), 16);
    silence(&b, TR_BREAKER_FAILURES, now_us); /* all is forgotten */
    assert_int_equal(b.until_us, now_us + TR_BREAKER_FIRST_US);
}

static void test_breaker_late_news_while_open(void **state)
{
    struct tr_breaker b = {0};

    (void)state;
    silence(&b, TR_BREAKER_FAILURES, SECOND);
    uint64_t until_us = b.until_us;

    assert_false(tr_breaker_failed(&b, until_us - 1)); /* what was under way fails, too */
    assert_int_equal(b.until_us, until_us);
    assert_true(tr_breaker_answered(&b)); /* or is answered */
    assert_int_equal(b.state, TR_BREAKER_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_breaker_opens_after_five_in_a_row),
        cmocka_unit_test(test_breaker_tries_one_and_waits_longer_each_time),
        cmocka_unit_test(test_breaker_late_news_while_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
