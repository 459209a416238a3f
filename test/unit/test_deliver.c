/* Where jobs are sent: what is allowed, how it is kept, what of it is shown. */

#include "base/err.h"
#include "base/rng.h"
#include "rules/deliver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tr_deliver_text text(const char *t)
{
    return (struct tr_deliver_text){t, strlen(t)};
}

static void give(struct tr_deliver *d, enum tr_deliver_field field, const char *t)
{
    d->texts[field] = text(t);
    d->given |= 1U << field;
}

static struct tr_deliver hook(const char *url)
{
    struct tr_deliver d = tr_deliver_new(TR_DELIVER_WEBHOOK);

    give(&d, TR_DELIVER_URL, url);
    return d;
}

static void header(struct tr_deliver *d, const char *name, const char *value)
{
    d->headers[d->header_count].name = text(name);
    d->headers[d->header_count].value = text(value);
    d->header_count++;
}

/* NULL: it is fine; else the field that is not. */
static const char *fault(const struct tr_deliver *d)
{
    const char *field = NULL;
    const char *why = NULL;

    if (tr_deliver_check(d, &field, &why) == TARRY_OK) {
        return NULL;
    }
    assert_non_null(why);
    return field;
}

static void test_deliver_urls(void **state)
{
    static const char *const good[] = {"http://a",      "https://a.example/x?y=z#f",
                                       "HTTP://a:80/",  "http://[::1]:8080/",
                                       "http://u:p@a/", "http://:p@a/"};
    static const char *const bad[] = {
        "",           "http://",           "ftp://a",     "file:///etc/x",
        "//a/b",      "http:///x",         "http://:80/", "http://a b/",
        "gopher://a", "http://a/\xc3\xa4", "http://a/\n", "https//a"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct tr_deliver d = hook(good[i]);

        assert_null(fault(&d));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tr_deliver d = hook(bad[i]);

        assert_string_equal(fault(&d), "url");
    }

    struct tr_deliver d = tr_deliver_new(TR_DELIVER_WEBHOOK);

    assert_string_equal(fault(&d), "url");
    d.type = TR_DELIVER_NONE;
    assert_string_equal(fault(&d), "type");
}

static void test_deliver_webhook_limits(void **state)
{
    static char long_secret[TR_DELIVER_SECRET_MAX + 2];
    struct tr_deliver d = hook("http://a/");

    (void)state;
    memset(long_secret, 'x', sizeof long_secret - 1);
    d.secret_count = 1;
    assert_string_equal(fault(&d), "secret"); /* empty */
    d.secrets[0] = text(long_secret);
    assert_string_equal(fault(&d), "secret");
    d.secrets[0] = text(long_secret + 1);
    assert_null(fault(&d));
    d.timeout_us = 0;
    assert_string_equal(fault(&d), "timeout");
    d.timeout_us = TR_DELIVER_TIMEOUT_MAX_US;
    d.concurrency = 0;
    assert_string_equal(fault(&d), "concurrency");
    d.concurrency = TR_DELIVER_CONCURRENCY_MAX;
    give(&d, TR_DELIVER_SUCCESS, "");
    assert_string_equal(fault(&d), "success");
    give(&d, TR_DELIVER_SUCCESS, "success\n");
    assert_null(fault(&d));
    give(&d, TR_DELIVER_EXCHANGE, "x");
    assert_string_equal(fault(&d), "exchange");
}

/* None that we set, none that ends the message early, none that ends the line. */
static void test_deliver_headers(void **state)
{
    static const char *const bad[][2] = {
        {"Tarry-Id", "1"},
        {"tarry-anything", "1"},
        {"Idempotency-Key", "1"},
        {"Content-Length", "1"},
        {"HOST", "x"},
        {"transfer-encoding", "chunked"},
        {"Connection", "close"},
        {"Expect", "x"},
        {"Proxy-Authorization", "x"},
        {"", "x"},
        {"A b", "x"},
        {"A:", "x"},
        {"A", "b\r\nTarry-Id: 2"},
        {"A", "\x01"},
        {"A\n", "b"},
    };
    struct tr_deliver d = hook("http://a/");

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        d.header_count = 0;
        header(&d, bad[i][0], bad[i][1]);
        assert_string_equal(fault(&d), "headers");
    }
    d.header_count = 0;
    header(&d, "Authorization", "Bearer x");
    header(&d, "Content-Type", "application/json");
    header(&d, "Ten", ""); /* only begins like TE */
    assert_null(fault(&d));
    header(&d, "authorization", "again");
    assert_string_equal(fault(&d), "headers");
}

static void test_deliver_other_types(void **state)
{
    struct tr_deliver d = tr_deliver_new(TR_DELIVER_REDIS);

    (void)state;
    give(&d, TR_DELIVER_URL, "redis://:secret@h:6379/0");
    assert_string_equal(fault(&d), "list");
    give(&d, TR_DELIVER_LIST, "l");
    assert_null(fault(&d));
    give(&d, TR_DELIVER_STREAM, "s");
    assert_string_equal(fault(&d), "list");

    d = tr_deliver_new(TR_DELIVER_KAFKA);
    assert_string_equal(fault(&d), "brokers");
    give(&d, TR_DELIVER_BROKERS, "a:9092,b:9092");
    assert_null(fault(&d));
    give(&d, TR_DELIVER_TOPIC, "a/b");
    assert_string_equal(fault(&d), "topic");

    d = tr_deliver_new(TR_DELIVER_AMQP);
    give(&d, TR_DELIVER_URL, "http://h");
    assert_string_equal(fault(&d), "url");
    give(&d, TR_DELIVER_URL, "amqps://u:p@h/v");
    give(&d, TR_DELIVER_EXCHANGE, "");
    assert_null(fault(&d));
}

static bool same_text(struct tr_deliver_text a, struct tr_deliver_text b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static void assert_same(const struct tr_deliver *a, const struct tr_deliver *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->given, b->given);
    for (unsigned i = 0; i < TR_DELIVER_FIELDS; i++) {
        assert_true(same_text(a->texts[i], b->texts[i]));
    }
    assert_int_equal(a->secret_count, b->secret_count);
    for (unsigned i = 0; i < a->secret_count; i++) {
        assert_true(same_text(a->secrets[i], b->secrets[i]));
    }
    assert_int_equal(a->header_count, b->header_count);
    for (unsigned i = 0; i < a->header_count; i++) {
        assert_true(same_text(a->headers[i].name, b->headers[i].name));
        assert_true(same_text(a->headers[i].value, b->headers[i].value));
    }
    assert_true(a->timeout_us == b->timeout_us && a->concurrency == b->concurrency);
    assert_int_equal(a->key, b->key);
}

static void test_deliver_kept_as_bytes(void **state)
{
    uint8_t bytes[TR_DELIVER_BYTES_MAX];
    struct tr_deliver d = hook("https://a/");
    struct tr_deliver back;

    (void)state;
    assert_int_equal(tr_deliver_decode(bytes, tr_deliver_encode(bytes, &d), &back), TARRY_OK);
    assert_same(&d, &back);
    give(&d, TR_DELIVER_SUCCESS, "success");
    d.secret_count = 2;
    d.secrets[0] = text("new");
    d.secrets[1] = text("old");
    header(&d, "A", "b: c");
    header(&d, "B", "");
    d.timeout_us = 1000;
    d.concurrency = 1024;
    d.key = TR_DELIVER_BY_ID;

    size_t len = tr_deliver_encode(bytes, &d);

    assert_int_equal(tr_deliver_decode(bytes, len, &back), TARRY_OK);
    assert_same(&d, &back);
    for (size_t cut = 0; cut < len; cut++) { /* whatever is left is refused, or less */
        (void)!tr_deliver_decode(bytes, cut, &back);
    }
    assert_int_equal(tr_deliver_decode(bytes, len - 1, &back), TARRY_EDAMAGED);
    bytes[0] = 2;
    assert_int_equal(tr_deliver_decode(bytes, len, &back), TARRY_EVERSION);
    assert_int_equal(tr_deliver_decode("{\"type\":1}", 10, &back), TARRY_EVERSION);
    assert_int_equal(tr_deliver_decode("", 0, &back), TARRY_EDAMAGED);
}

/* Any bytes are read without harm, and what is read is written as the same. */
static void test_deliver_any_bytes(void **state)
{
    struct tr_rng rng = {.state = 7};
    uint8_t bytes[80];
    uint8_t again[TR_DELIVER_BYTES_MAX];
    unsigned good = 0;

    (void)state;
    for (unsigned i = 0; i < 200000; i++) {
        size_t len = tr_rng_below(&rng, sizeof bytes);
        struct tr_deliver d;
        struct tr_deliver back;

        for (size_t k = 0; k < len; k++) {
            bytes[k] = (uint8_t)tr_rng_below(&rng, tr_rng_below(&rng, 2) ? 24 : 256);
        }
        bytes[0] = 1;
        if (len > 0 && tr_deliver_decode(bytes, len, &d) == TARRY_OK) {
            size_t n = tr_deliver_encode(again, &d);

            assert_int_equal(tr_deliver_decode(again, n, &back), TARRY_OK);
            assert_same(&d, &back);
            good++;
        }
    }
    assert_true(good > 100);
}

static void test_deliver_too_long(void **state)
{
    static char value[1025];
    uint8_t bytes[TR_DELIVER_BYTES_MAX];
    struct tr_deliver d = hook("http://a/");

    (void)state;
    memset(value, 'v', 1024);
    for (unsigned i = 0; i < 6; i++) {
        static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

        header(&d, names[i], value);
    }
    assert_null(fault(&d));
    assert_int_equal(tr_deliver_encode(bytes, &d), 0);
}

static void test_deliver_shows_no_secret(void **state)
{
    static const char *const rows[][2] = {
        {"http://a/b/c", "http://a/b/c"},
        {"https://user:pass@host:1/p", "https://user:***@host:1/p"},
        {"https://token@host/p", "https://***@host/p"},
        {"amqp://u:p@a:b@host/v", "amqp://u:***@host/v"},
        {"redis://:pw@h:6379/0", "redis://:***@h:6379/0"},
        {"https://h/send?key=abc&x=1&y#f", "https://h/send?key=***&x=***&***#***"},
        {"https://h/send?s3cr3t", "https://h/send?***"},
        {"https://h/a#b?c=d&e", "https://h/a#***"},
        {"https://h#b", "https://h#***"},
        {"https://h/?&a=&#", "https://h/?&a=***&#"},
        {"https://h?key=a=b", "https://h?key=***"},
        {"https://h/a@b?c=d@e", "https://h/a@b?c=***"},
        {"a:9092,b:9092", "a:9092,b:9092"},
        {"", ""},
    };
    char out[TR_DELIVER_SHOWN];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tr_deliver_show_url(out, text(rows[i][0]));
        assert_string_equal(out, rows[i][1]);
    }
}

static void test_deliver_shown_always_fits(void **state)
{
    static char url[TR_DELIVER_URL_MAX + 1];
    char out[TR_DELIVER_SHOWN];

    (void)state;
    memcpy(url, "http://a?", 9);
    for (size_t i = 9; i + 3 <= TR_DELIVER_URL_MAX; i += 3) {
        memcpy(url + i, "a=&", 3);
    }
    tr_deliver_show_url(out, text(url));
    assert_true(strlen(out) < TR_DELIVER_SHOWN && strlen(out) > strlen(url));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deliver_urls),
        cmocka_unit_test(test_deliver_webhook_limits),
        cmocka_unit_test(test_deliver_headers),
        cmocka_unit_test(test_deliver_other_types),
        cmocka_unit_test(test_deliver_kept_as_bytes),
        cmocka_unit_test(test_deliver_any_bytes),
        cmocka_unit_test(test_deliver_too_long),
        cmocka_unit_test(test_deliver_shows_no_secret),
        cmocka_unit_test(test_deliver_shown_always_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
