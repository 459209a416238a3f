/* One command through a cluster that moves: scripted replies. And the map of hash slots. */

#include "cluster/route.h"

#include "base/err.h"
#include "cluster/shards.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000)

static struct tr_route_step error(struct tr_route *r, const char *text, uint64_t now_us)
{
    struct tr_redis_reply reply = {.event = TR_REDIS_ERROR, .error = {text, strlen(text)}};

    return tr_route_next(r, &reply, now_us);
}

static struct tr_route_step event(struct tr_route *r, enum tr_redis_event e, uint64_t now_us)
{
    struct tr_redis_reply reply = {.event = e};

    return tr_route_next(r, &reply, now_us);
}

static struct tr_route_step said(struct tr_route *r, const char *word, uint64_t now_us)
{
    struct tr_span item = {word, strlen(word)};
    struct tr_redis_reply reply = {.event = TR_REDIS_LIST, .items = &item, .count = 1};

    return tr_route_next(r, &reply, now_us);
}

static bool goes_to(struct tr_route_step s, const char *server)
{
    return s.server.len == strlen(server) && memcmp(s.server.at, server, s.server.len) == 0;
}

static void test_route_answer(void **state)
{
    struct tr_route r;

    (void)state;
    tr_route_init(&r, 500 * MS, true);
    assert_int_equal(said(&r, "OK", 1).what, TR_DO_ANSWER);
    assert_int_equal(said(&r, "SPREAD", 1).what, TR_DO_ANSWER);
    assert_int_equal(said(&r, "CHECK", 1).what, TR_DO_CHECK);
    assert_int_equal(said(&r, "NOSLOT", 1).what, TR_DO_CHECK);
    assert_int_equal(said(&r, "NOSLOT", 501 * MS).why, TR_ROUTE_AWAY);
    assert_int_equal(said(&r, "CLOCK", 1).why, TR_ROUTE_CLOCK);
    assert_int_equal(said(&r, "OTHER", 1).why, TR_ROUTE_REFUSED);
    assert_true(said(&r, "OTHER", 1).alarm);
    assert_int_equal(said(&r, "STALE", 1).why, TR_ROUTE_UNKNOWN);
}

static void test_route_moved_and_ask(void **state)
{
    struct tr_route r;
    struct tr_route_step s;

    (void)state;
    tr_route_init(&r, 500 * MS, true);
    s = error(&r, "MOVED 3999 127.0.0.1:6381", 7);
    assert_int_equal(s.what, TR_DO_SEND);
    assert_int_equal(s.at_us, 7);
    assert_true(goes_to(s, "127.0.0.1:6381"));
    assert_true(s.refresh);
    assert_false(s.asking);
    s = error(&r, "ASK 3999 ::1:6382", 7);
    assert_true(goes_to(s, "::1:6382"));
    assert_true(s.asking);
    assert_false(s.refresh);
    s = error(&r, "NOSCRIPT No matching script.", 7); /* there, with ASKING once more */
    assert_true(s.asking);
    assert_true(s.text);
    s = error(&r, "TRYAGAIN Multiple keys request during rehashing of slot", 7);
    assert_int_equal(s.at_us, 7 + 5 * MS);
    assert_int_equal(s.server.len, 0); /* from the beginning, by the map */
    assert_false(s.asking);
    assert_false(s.text);
}

/* A map that two servers disagree about must not become a storm. */
static void test_route_in_circles(void **state)
{
    struct tr_route r;
    struct tr_route_step s = {0};

    (void)state;
    tr_route_init(&r, 500 * MS, true);
    for (int i = 0; i < 5; i++) {
        s = error(&r, "MOVED 1 a:1", 0);
        assert_int_equal(s.at_us, 0);
    }
    s = error(&r, "MOVED 1 a:1", 0);
    assert_int_equal(s.what, TR_DO_SEND);
    assert_true(s.at_us > 0);
    s = error(&r, "MOVED 1", 0); /* no server: whoever says that */
    assert_int_equal(s.server.len, 0);
}

static void test_route_waits_grow(void **state)
{
    static const uint64_t waits[] = {5, 10, 20, 40, 80, 100, 100};
    struct tr_route r;

    (void)state;
    tr_route_init(&r, UINT64_MAX / 2, true);
    for (unsigned i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        assert_int_equal(error(&r, "TRYAGAIN", 0).at_us, waits[i] * MS);
    }
    for (unsigned i = 0; i < 100; i++) {
        assert_true(error(&r, "LOADING Redis is loading", 0).at_us <= 640 * MS);
    }
}

static void test_route_away(void **state)
{
    static const char *const words[] = {"LOADING x", "CLUSTERDOWN The cluster is down",
                                        "MASTERDOWN x", "READONLY You can't write",
                                        "BUSY Redis is busy"};
    struct tr_route r;

    (void)state;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct tr_route_step s;

        tr_route_init(&r, 15 * MS, true);
        s = error(&r, words[i], 0);
        assert_int_equal(s.what, TR_DO_SEND);
        assert_int_equal(s.at_us, 10 * MS);
        assert_true(s.refresh);
        s = error(&r, words[i], 10 * MS); /* 20 ms more would be too late */
        assert_int_equal(s.what, TR_DO_FAIL);
        assert_int_equal(s.why, TR_ROUTE_AWAY);
    }
    tr_route_init(&r, 15 * MS, true);
    assert_int_equal(event(&r, TR_REDIS_UNSENT, 0).what, TR_DO_SEND);
    assert_int_equal(event(&r, TR_REDIS_UNSENT, 15 * MS).why, TR_ROUTE_AWAY);
}

static void test_route_noscript_once(void **state)
{
    struct tr_route r;

    (void)state;
    tr_route_init(&r, 500 * MS, true);
    assert_true(error(&r, "NOSCRIPT x", 0).text);
    assert_int_equal(error(&r, "NOSCRIPT x", 0).why, TR_ROUTE_REFUSED);
    tr_route_init(&r, 500 * MS, true);
    assert_true(error(&r, "NOSCRIPT x", 0).text);
    assert_false(error(&r, "MOVED 1 a:1", 0).text);
    assert_true(error(&r, "NOSCRIPT x", 0).text); /* another server */
}

static void test_route_full(void **state)
{
    static const char *const words[] = {"OOM command not allowed", "MISCONF x", "NOREPLICAS x"};
    struct tr_route r;

    (void)state;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct tr_route_step s;

        tr_route_init(&r, 500 * MS, true);
        s = error(&r, words[i], 0);
        assert_int_equal(s.why, TR_ROUTE_FULL);
        assert_true(s.alarm);
    }
    assert_int_equal(error(&r, "NOAUTH Authentication required.", 0).why, TR_ROUTE_REFUSED);
    assert_int_equal(error(&r, "ERR Error running script", 0).why, TR_ROUTE_REFUSED);
    assert_int_equal(error(&r, "OOMPH", 0).why, TR_ROUTE_REFUSED); /* a word, not a beginning */
}

/* What was lost may have been done: no later refusal says that it was not. */
static void test_route_lost_is_unknown(void **state)
{
    struct tr_route r;
    struct tr_route_step s;

    (void)state;
    tr_route_init(&r, 500 * MS, true);
    s = event(&r, TR_REDIS_LOST, 0);
    assert_int_equal(s.what, TR_DO_SEND);
    assert_true(s.close);
    assert_true(s.refresh);
    s = error(&r, "OOM command not allowed", 10 * MS);
    assert_int_equal(s.what, TR_DO_SEND);
    assert_int_equal(error(&r, "ERR x", 20 * MS).why, TR_ROUTE_UNKNOWN);
    assert_int_equal(error(&r, "CLUSTERDOWN x", 499 * MS).why, TR_ROUTE_UNKNOWN);
    assert_int_equal(event(&r, TR_REDIS_UNSENT, 500 * MS).why, TR_ROUTE_UNKNOWN);
    assert_int_equal(said(&r, "OK", 499 * MS).what, TR_DO_ANSWER);

    tr_route_init(&r, 500 * MS, false); /* must not be repeated */
    s = event(&r, TR_REDIS_LOST, 0);
    assert_int_equal(s.why, TR_ROUTE_UNKNOWN);
    assert_true(s.close);
}

static void test_shards(void **state)
{
    static struct tr_shards s;
    int a;
    int b;

    (void)state;
    tr_shards_init(&s);
    assert_true(tr_shards_ask(&s, 5));
    a = tr_shards_name(&s, "127.0.0.1:7000", 14);
    b = tr_shards_name(&s, "127.0.0.1:7001", 14);
    assert_int_not_equal(a, b);
    assert_int_equal(tr_shards_name(&s, "127.0.0.1:7000x", 14), a);
    assert_int_equal(tr_shards_find(&s, 0), -1);
    tr_shards_clear(&s);
    assert_int_equal(tr_shards_set(&s, 0, 8191, a), TARRY_OK);
    assert_int_equal(tr_shards_set(&s, 8192, 16383, b), TARRY_OK);
    assert_int_equal(tr_shards_find(&s, 8191), a);
    assert_int_equal(tr_shards_find(&s, 8192), b);
    assert_int_equal(tr_shards_find(&s, 16384), -1);
    assert_int_equal(tr_shards_set(&s, 5, 4, b), TARRY_EINVAL);
    assert_int_equal(tr_shards_set(&s, 5, 16384, b), TARRY_EINVAL);
    assert_int_equal(tr_shards_set(&s, 5, 5, 2), TARRY_EINVAL);
    assert_false(tr_shards_ask(&s, 1000 * MS));
    tr_shards_doubt(&s);
    tr_shards_doubt(&s);
    assert_true(tr_shards_ask(&s, 1000 * MS));
    assert_false(tr_shards_ask(&s, 1099 * MS)); /* once for all who were sent elsewhere */
    assert_true(tr_shards_ask(&s, 1100 * MS));  /* the answer was lost */
    tr_shards_clear(&s);
    assert_int_equal(tr_shards_find(&s, 0), -1);
    assert_int_equal(tr_shards_name(&s, "127.0.0.1:7001", 14), b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_route_answer),     cmocka_unit_test(test_route_moved_and_ask),
        cmocka_unit_test(test_route_in_circles), cmocka_unit_test(test_route_waits_grow),
        cmocka_unit_test(test_route_away),       cmocka_unit_test(test_route_noscript_once),
        cmocka_unit_test(test_route_full),       cmocka_unit_test(test_route_lost_is_unknown),
        cmocka_unit_test(test_shards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
