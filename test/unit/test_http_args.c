/* Arguments of requests: from queries and from JSON the same, and what is refused. */

#include "proto/http_args.h"

#include "base/err.h"
#include "proto/http_route.h"
#include "proto/json_in.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct tr_args args;
static struct tr_http_error error;
static char text[4096];

/* name=value&name=value, as it stands there. */
static int query(uint64_t allowed, const char *line)
{
    static char kept[4096];
    struct tr_http_request r = {0};
    char *at = kept;

    memcpy(kept, line, strlen(line) + 1);
    while (*at != '\0') {
        struct tr_http_param *p = &r.params[r.param_count++];
        size_t name = strcspn(at, "=");
        size_t value = strcspn(at + name + 1, "&");

        *p = (struct tr_http_param){{at, name}, {at + name + 1, value}};
        at += name + 1 + value;
        at += *at == '&';
    }
    tr_args_init(&args);
    return tr_args_query(&args, allowed, &r, &error);
}

static int json(uint64_t allowed, const char *object)
{
    struct tr_json_in s;
    size_t taken;

    tr_json_in_init(&s, TR_JSON_VALUE);
    assert_int_equal(tr_json_in_feed(&s, object, strlen(object), &taken), TR_JSON_ITEM);
    memcpy(text, object, strlen(object) + 1);
    tr_args_init(&args);
    return tr_args_json(&args, allowed, text, strlen(object), &error);
}

static bool given(enum tr_arg arg)
{
    return (args.given >> arg & 1) != 0;
}

static bool says(enum tr_arg arg, const char *want)
{
    const struct tr_http_text *t = &args.values[arg].text;

    return given(arg) && t->len == strlen(want) && memcmp(t->at, want, t->len) == 0;
}

static void check_job(void)
{
    assert_true(args.values[TR_ARG_DELAY].number == 1500000);
    assert_true(args.values[TR_ARG_PRIORITY].number == 7);
    assert_true(args.values[TR_ARG_ON_CONFLICT].number == 1);
    assert_true(args.values[TR_ARG_RETRIES].number == -1);
    assert_true(args.values[TR_ARG_TTR].number == 60000000);
    assert_true(says(TR_ARG_KEY, "order \"42\""));
    assert_true(says(TR_ARG_BACKOFF, "4m,10m"));
    assert_false(given(TR_ARG_TTL));
}

static void test_args_both_ways(void **state)
{
    (void)state;
    assert_int_equal(query(TR_ARGS_JOB, "delay=1.5&priority=7&on_conflict=keep&retries=-1&ttr=1m&"
                                        "key=order \"42\"&backoff=4m,10m"),
                     TARRY_OK);
    check_job();
    assert_int_equal(json(TR_ARGS_JOB, "{\"delay\":1.5,\"priority\":7,\"on_conflict\":\"keep\","
                                       "\"retries\":-1,\"ttr\":\"1m\",\"k\\u0065y\":\"order "
                                       "\\\"42\\u0022\",\"backoff\":\"4m,10m\"}"),
                     TARRY_OK);
    check_job();
    assert_int_equal(query(TR_ARGS_JOB, "at=2027-01-01T00:00:00 08:00"), TARRY_OK);
    assert_true(args.values[TR_ARG_AT].number == INT64_C(1798732800000000));
    assert_int_equal(json(TR_ARGS_JOB, "{\"at\":1798732800000}"), TARRY_OK);
    assert_true(args.values[TR_ARG_AT].number == INT64_C(1798732800000000));
    assert_int_equal(json(TR_ARGS_JOB, "{}"), TARRY_OK);
    assert_true(args.given == 0);
    assert_int_equal(json(TR_ARGS_JOB, "{\"at\":1.7987328e+12,\"ttr\":1e1,\"priority\":70E-1}"),
                     TARRY_OK);
    assert_true(args.values[TR_ARG_AT].number == INT64_C(1798732800000000));
    assert_true(args.values[TR_ARG_TTR].number == 10000000);
    assert_true(args.values[TR_ARG_PRIORITY].number == 7);
}

static void test_args_bodies(void **state)
{
    (void)state;
    assert_int_equal(json(TR_ARGS_MANY_JOBS, "{\"topic\":\"a/b\",\"body\":\"x\\ny\"}"), TARRY_OK);
    assert_true(says(TR_ARG_BODY, "x\ny") && says(TR_ARG_TOPIC, "a/b"));
    assert_int_equal(json(TR_ARGS_MANY_JOBS, "{\"body\": {\"a\" : [1, \"\\u0041\"]} }"), TARRY_OK);
    assert_true(says(TR_ARG_BODY, "{\"a\" : [1, \"\\u0041\"]}"));
    assert_int_equal(json(TR_ARGS_MANY_JOBS, "{\"body\":null}"), TARRY_OK);
    assert_true(says(TR_ARG_BODY, "null") && args.cleared == 0);
    assert_int_equal(json(TR_ARGS_MANY_JOBS, "{\"body\":\"\"}"), TARRY_OK);
    assert_true(says(TR_ARG_BODY, ""));
    assert_int_equal(json(TR_ARGS_MANY_JOBS, "{\"body_base64\":\"Zm9v\\u0059g==\"}"), TARRY_OK);
    assert_true(says(TR_ARG_BODY_BASE64, "foob"));
    assert_int_equal(json(TR_ARGS_MANY_JOBS, "{\"body_base64\":\"Zm9\"}"), TARRY_EINVAL);
    assert_int_equal(query(TR_ARGS_EDIT, "body=x"), TARRY_OK);
    assert_int_equal(query(TR_ARGS_EDIT, "body_base64=Zm9v"), TARRY_OK);
    assert_true(says(TR_ARG_BODY_BASE64, "Zm9v")); /* http_job.c decodes it */
}

static void refused(int err, const char *field, const char *word)
{
    assert_int_equal(err, TARRY_EINVAL);
    assert_int_equal(error.status, 400);
    assert_string_equal(error.field, field);
    if (strstr(error.message, word) == NULL || strstr(error.message, field) != error.message) {
        fail_msg("%s: %s", field, error.message);
    }
}

static void test_args_refused_in_queries(void **state)
{
    (void)state;
    refused(query(TR_ARGS_JOB, "dealy=5"), "dealy", "not known");
    refused(query(TR_ARGS_JOB, "=5"), "", "not known");
    refused(query(TR_ARGS_JOB, "wait=5"), "wait", "not known");
    refused(query(TR_ARGS_JOB, "delay=5&key=x&delay=5"), "delay", "twice");
    refused(query(TR_ARGS_JOB, "delay=soon"), "delay", "duration");
    refused(query(TR_ARGS_JOB, "delay="), "delay", "duration");
    refused(query(TR_ARGS_JOB, "delay=200000d"), "delay", "137 years");
    refused(query(TR_ARGS_JOB, "at=5"), "at", "seconds");
    refused(query(TR_ARGS_JOB, "ttr=0"), "ttr", "small: it has to be at least 0.001ms");
    refused(query(TR_ARGS_JOB, "priority=4294967296"), "priority", "large");
    refused(query(TR_ARGS_JOB, "priority=-1"), "priority", "small: it has to be at least 0");
    refused(query(TR_ARGS_JOB, "priority=1.0"), "priority", "whole");
    refused(query(TR_ARGS_JOB, "priority=x"), "priority", "whole");
    refused(query(TR_ARGS_JOB, "priority=99999999999999999999"), "priority", "whole");
    refused(query(TR_ARGS_JOB, "retries=-2"), "retries", "at least -1");
    refused(query(TR_ARGS_JOB, "on_conflict=ignore"), "on_conflict", "replace|keep|error");
    refused(query(TR_ARGS_JOB, "on_conflict="), "on_conflict", "replace|keep|error");
    refused(query(TR_ARGS_JOB, "on_conflict=keep|error"), "on_conflict", "replace|keep|error");
    refused(query(TR_ARGS_JOB, "backoff=exp(1s)"), "backoff", "backoff");
    refused(query(TR_ARGS_JOB, "key="), "key", "empty");
    refused(query(TR_ARGS_JOB, "key=a\tb"), "key", "control");
    refused(query(TR_ARGS_JOB, "key=a\x7f"), "key", "control");
    refused(query(TR_ARGS_JOB, "key=\xc2\x85"), "key", "control");
    refused(query(TR_ARGS_JOB, "key=\xff"), "key", "UTF-8");
    refused(query(TR_ARGS_RESERVE, "count=0"), "count", "small");
    refused(query(TR_ARGS_RESERVE, "count=1001"), "count", "large: it can be at most 1000");
    refused(query(TR_ARGS_RESERVE, "wait=601"), "wait", "large: it can be at most 10m");
    refused(query(TR_ARGS_FILTER, "topic=-a"), "topic", "topic");
    refused(query(TR_ARGS_FORCE, "force=1"), "force", "false|true");
    refused(query(TR_ARGS_FORCE, "force=TRUE"), "force", "false|true");
    refused(query(TR_ARG_BIT(TOPICS), "topics=a,,b"), "topics", "commas");
    refused(query(TR_ARG_BIT(TOPICS), "topics="), "topics", "commas");
    refused(query(TR_ARG_BIT(TOPICS), "topics=a,"), "topics", "commas");
    refused(query(TR_ARG_BIT(TOPICS), "topics=ab,-b"), "topics", "commas");
    refused(query(TR_ARG_BIT(ID), "id=x"), "id", "number");
    refused(query(TR_ARG_BIT(STEP), "step=0.5"), "step", "small: it has to be at least 1s");
    assert_int_equal(query(TR_ARG_BIT(TOPICS), "topics=a,b/c"), TARRY_OK);
    assert_int_equal(query(TR_ARGS_JOB, "key=\xc2\xa0\xe2\x82\xac"), TARRY_OK);
    assert_int_equal(query(TR_ARG_BIT(BY), "by= 5m"), TARRY_OK);
    assert_int_equal(query(TR_ARG_BIT(ADVANCE), "by=-5m"), TARRY_EINVAL);
    assert_int_equal(query(TR_ARG_BIT(MOST), "limit=1000000"), TARRY_OK);
    assert_int_equal(query(TR_ARG_BIT(PAGE), "limit=1001"), TARRY_EINVAL);
}

static void test_args_refused_in_json(void **state)
{
    (void)state;
    refused(json(TR_ARGS_JOB, "{\"a\":1}"), "a", "not known");
    refused(json(TR_ARGS_JOB, "{\"delay\":1,\"d\\u0065lay\":1}"), "delay", "twice");
    refused(json(TR_ARGS_JOB, "{\"delay\":null,\"delay\":1}"), "delay", "twice");
    refused(json(TR_ARGS_JOB, "{\"delay\":true}"), "delay", "type");
    refused(json(TR_ARGS_JOB, "{\"delay\":1e30}"), "delay", "duration");
    refused(json(TR_ARGS_JOB, "{\"delay\":-1}"), "delay", "negative");
    refused(json(TR_ARGS_JOB, "{\"priority\":\"5\"}"), "priority", "type");
    refused(json(TR_ARGS_JOB, "{\"priority\":15e-1}"), "priority", "whole");
    refused(json(TR_ARGS_JOB, "{\"key\":5}"), "key", "type");
    refused(json(TR_ARGS_JOB, "{\"key\":{}}"), "key", "type");
    refused(json(TR_ARGS_JOB, "{\"key\":\"a\\u0000\"}"), "key", "control");
    refused(json(TR_ARGS_FORCE, "{\"force\":\"true\"}"), "force", "type");
    refused(json(TR_ARGS_POLICY, "{\"rate\":0}"), "rate", "small");
    refused(json(TR_ARGS_POLICY, "{\"rate\":0.0001}"), "rate", "rate");
    refused(json(TR_ARGS_POLICY, "{\"rate\":\"5\"}"), "rate", "type");
    assert_int_equal(json(TR_ARGS_JOB, "[]"), TARRY_EINVAL);
    assert_null(error.field);
    assert_int_equal(json(TR_ARGS_JOB, "\"5\""), TARRY_EINVAL);
}

static void test_args_policy(void **state)
{
    (void)state;
    assert_int_equal(json(TR_ARGS_POLICY,
                          "{\"rate\":0.5,\"burst\":3,\"ttl\":null,\"paused\":{\"what\":\"in\"},"
                          "\"deliver\":\"pull\",\"history\":\"full\",\"dead_keep\":\"30d\"}"),
                     TARRY_OK);
    assert_true(args.values[TR_ARG_RATE].number == 500);
    assert_true(args.cleared == TR_ARG_BIT(TTL) && !given(TR_ARG_TTL));
    assert_true(says(TR_ARG_PAUSED, "{\"what\":\"in\"}") && says(TR_ARG_DELIVER, "\"pull\""));
    assert_true(args.values[TR_ARG_HISTORY].number == 2);
    assert_int_equal(json(TR_ARGS_FORCE, "{\"force\":true}"), TARRY_OK);
    assert_true(args.values[TR_ARG_FORCE].number == 1);
    assert_int_equal(json(TR_ARGS_FORCE, "{\"force\":false}"), TARRY_OK);
    assert_true(args.values[TR_ARG_FORCE].number == 0);
    assert_int_equal(json(TR_ARG_BIT(ID) | TR_ARGS_LEASE, "{\"id\":\"17\",\"lease\":\"x\"}"),
                     TARRY_OK);
    assert_true(args.values[TR_ARG_ID].number == 17);
    assert_int_equal(json(TR_ARG_BIT(ID), "{\"id\":9007199254740991}"), TARRY_OK);
    assert_true(args.values[TR_ARG_ID].number == INT64_C(9007199254740991));
    assert_int_equal(json(TR_ARG_BIT(ID), "{\"id\":9007199254740992}"), TARRY_OK);
    assert_true(args.values[TR_ARG_ID].number == 0);
    assert_int_equal(json(TR_ARG_BIT(ID), "{\"id\":\"999999999999999999999999\"}"), TARRY_OK);
    assert_true(args.values[TR_ARG_ID].number == 0);
}

static void test_args_needed_and_exclusive(void **state)
{
    (void)state;
    assert_int_equal(query(TR_ARGS_LEASE, ""), TARRY_OK);
    refused(tr_args_check(&args, TR_ARGS_LEASE, &error), "lease", "missing");
    assert_int_equal(query(TR_ARGS_LEASE, "lease=x"), TARRY_OK);
    assert_int_equal(tr_args_check(&args, TR_ARGS_LEASE, &error), TARRY_OK);
    assert_int_equal(query(TR_ARGS_JOB, "delay=5&at=2027-01-01T00:00:00Z"), TARRY_OK);
    refused(tr_args_check(&args, 0, &error), "delay", "and at cannot");
    assert_int_equal(json(TR_ARGS_BODY, "{\"body\":1,\"body_base64\":\"\"}"), TARRY_OK);
    refused(tr_args_check(&args, 0, &error), "body", "body_base64");
    assert_int_equal(query(TR_ARG_BIT(BY) | TR_ARG_BIT(TO), "by=-5m&to=2027-01-01T00:00:00Z"),
                     TARRY_OK);
    refused(tr_args_check(&args, 0, &error), "by", "together");
    assert_int_equal(query(TR_ARGS_JOB, "delay=5&key=x&ttl=5"), TARRY_OK);
    assert_int_equal(tr_args_check(&args, 0, &error), TARRY_OK);
}

/* A name of any length fits into the error. */
static void test_args_long_names(void **state)
{
    char line[3000];

    (void)state;
    memset(line, 'n', sizeof line);
    memcpy(line + sizeof line - 3, "=1", 3);
    assert_int_equal(query(TR_ARGS_JOB, line), TARRY_EINVAL);
    assert_int_equal(strlen(error.field), sizeof args.field - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_args_both_ways),
        cmocka_unit_test(test_args_bodies),
        cmocka_unit_test(test_args_refused_in_queries),
        cmocka_unit_test(test_args_refused_in_json),
        cmocka_unit_test(test_args_policy),
        cmocka_unit_test(test_args_needed_and_exclusive),
        cmocka_unit_test(test_args_long_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
