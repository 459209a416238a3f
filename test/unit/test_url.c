/* URLs of brokers. */

#include "base/err.h"
#include "outlet/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct tr_url url;

static int try_url(const char *text)
{
    return tr_url_read(text, strlen(text), &url);
}

static void test_url_has_all_parts(void **state)
{
    (void)state;
    assert_int_equal(try_url("amqp://joe:secret@broker.example:5673/jobs"), TARRY_OK);
    assert_string_equal(url.scheme, "amqp");
    assert_string_equal(url.user, "joe");
    assert_string_equal(url.password, "secret");
    assert_string_equal(url.host, "broker.example");
    assert_string_equal(url.port, "5673");
    assert_string_equal(url.path, "jobs");
    assert_true(url.has_user && url.has_password && url.has_path);
}

static void test_url_may_have_a_host_alone(void **state)
{
    (void)state;
    assert_int_equal(try_url("redis://h"), TARRY_OK);
    assert_string_equal(url.host, "h");
    assert_string_equal(url.port, "");
    assert_false(url.has_user || url.has_password || url.has_path);
    assert_int_equal(try_url("redis://h/"), TARRY_OK);
    assert_string_equal(url.path, "");
    assert_true(url.has_path);
}

static void test_url_decodes_each_part(void **state)
{
    (void)state;
    assert_int_equal(try_url("amqp://a%40b:p%3A%2f%25@h/%2Fv"), TARRY_OK);
    assert_string_equal(url.user, "a@b");
    assert_string_equal(url.password, "p:/%");
    assert_string_equal(url.path, "/v");
}

static void test_url_takes_bare_signs_in_passwords(void **state)
{
    (void)state;
    assert_int_equal(try_url("redis://:a@b:c@h:1"), TARRY_OK);
    assert_true(url.has_user);
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "a@b:c");
    assert_string_equal(url.host, "h");
    assert_string_equal(url.port, "1");
}

static void test_url_takes_ipv6(void **state)
{
    (void)state;
    assert_int_equal(try_url("redis://[::1]:6380/2"), TARRY_OK);
    assert_string_equal(url.host, "::1");
    assert_string_equal(url.port, "6380");
    assert_int_equal(try_url("redis://[::1]"), TARRY_OK);
    assert_string_equal(url.port, "");
}

static void test_url_refuses_what_is_none(void **state)
{
    static const char *const bad[] = {
        "",
        "redis",
        "redis:/h",
        "://h",
        "redis://",
        "redis:///2",
        "redis://h:",
        "redis://h:0",
        "redis://h:65536",
        "redis://h:1x",
        "redis://u@",
        "redis://[::1",
        "redis://[]",
        "redis://[::1]6",
        "redis://h/%0",
        "redis://%zz",
        "redis://h%00",
        "redis://h/?a",
        "redis://h#b",
        "redis://h:123456",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (try_url(bad[i]) != TARRY_EINVAL) {
            fail_msg("taken: %s", bad[i]);
        }
    }
}

static void test_url_refuses_parts_that_are_too_long(void **state)
{
    char text[TR_URL_TEXT + 20];
    int len = snprintf(text, sizeof text, "redis://%0*d", TR_URL_TEXT - 1, 1);

    (void)state;
    assert_int_equal(tr_url_read(text, (size_t)len, &url), TARRY_OK);
    text[len] = '1';
    assert_int_equal(tr_url_read(text, (size_t)len + 1, &url), TARRY_EINVAL);
}

static const char *check(enum tr_deliver_type type, const char *text)
{
    struct tr_deliver d = {.type = type, .given = 1U << TR_DELIVER_URL};

    d.texts[TR_DELIVER_URL] = (struct tr_deliver_text){text, strlen(text)};
    return tr_url_of(&d, &url);
}

static void test_url_of_redis_has_a_database(void **state)
{
    (void)state;
    assert_null(check(TR_DELIVER_REDIS, "redis://h"));
    assert_null(check(TR_DELIVER_REDIS, "redis://h/"));
    assert_null(check(TR_DELIVER_REDIS, "redis://h/15"));
    assert_non_null(check(TR_DELIVER_REDIS, "redis://h/jobs"));
    assert_non_null(check(TR_DELIVER_REDIS, "redis://h/1/2"));
    assert_non_null(check(TR_DELIVER_REDIS, "redis://h/-1"));
    assert_null(check(TR_DELIVER_AMQP, "amqp://h/jobs"));
    assert_non_null(check(TR_DELIVER_AMQP, "amqp://h:x"));
}

/* Whatever the bytes, it ends, and each part has a NUL. */
static void test_url_takes_any_bytes(void **state)
{
    static const char signs[] = "a:/@[]%4?#\0\xff.";
    uint64_t seed = 1;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        char text[24] = "r://";
        size_t len = 4;

        while (len < sizeof text) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
            text[len++] = signs[(seed >> 33) % (sizeof signs - 1)];
        }
        if (tr_url_read(text, seed >> 40 & 15, &url) == TARRY_OK) {
            assert_true(strlen(url.host) > 0 && strlen(url.path) < TR_URL_TEXT);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_url_has_all_parts),
        cmocka_unit_test(test_url_may_have_a_host_alone),
        cmocka_unit_test(test_url_decodes_each_part),
        cmocka_unit_test(test_url_takes_bare_signs_in_passwords),
        cmocka_unit_test(test_url_takes_ipv6),
        cmocka_unit_test(test_url_refuses_what_is_none),
        cmocka_unit_test(test_url_refuses_parts_that_are_too_long),
        cmocka_unit_test(test_url_of_redis_has_a_database),
        cmocka_unit_test(test_url_takes_any_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
