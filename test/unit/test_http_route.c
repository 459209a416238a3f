/* Routes: what is found, what is not, and that the list is in order. */

#include "proto/http_route.h"

#include "base/err.h"
#include "proto/json_in.h"
#include "proto/json_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct tr_route_match match;
static struct tr_http_error error;

/* Segments as they stand between the slashes. */
static struct tr_http_request request(enum tr_http_method method, const char *path)
{
    struct tr_http_request r = {.method = method};

    while (*path != '\0') {
        size_t len = strcspn(path, "/");

        if (r.segment_count == TR_HTTP_SEGMENTS_MAX) {
            r.segment_count++;
            break;
        }
        r.segments[r.segment_count++] = (struct tr_http_text){path, len};
        path += len;
        path += *path == '/';
    }
    return r;
}

static int find(enum tr_http_method method, const char *path)
{
    struct tr_http_request r = request(method, path);

    return tr_route_find(&match, &r, &error);
}

static void found(enum tr_http_method method, const char *path, enum tr_route want)
{
    if (find(method, path) != TARRY_OK || match.route != want) {
        fail_msg("%s: %d", path, (int)match.route);
    }
}

static bool is(struct tr_http_text text, const char *want)
{
    return text.len == strlen(want) && memcmp(text.at, want, text.len) == 0;
}

static void test_route_found(void **state)
{
    (void)state;
    found(TR_HTTP_POST, "v1/topics/orders/jobs", TR_ROUTE_PUSH);
    assert_true(is(match.topic, "orders"));
    assert_null(match.key.at);
    found(TR_HTTP_GET, "v1/topics/orders/keys/order-42", TR_ROUTE_KEY_SHOW);
    assert_true(is(match.topic, "orders") && is(match.key, "order-42"));
    found(TR_HTTP_POST, "v1/topics/orders/keys/cancel/fire", TR_ROUTE_KEY_FIRE);
    found(TR_HTTP_POST, "v1/jobs/17/ack", TR_ROUTE_ACK);
    assert_int_equal(match.id, 17);
    found(TR_HTTP_DELETE, "v1/jobs/9007199254740992", TR_ROUTE_CANCEL);
    assert_int_equal(match.id, 0); /* no job is so */
    found(TR_HTTP_POST, "v1/jobs/cancel", TR_ROUTE_CANCEL_MANY);
    found(TR_HTTP_POST, "v1/jobs", TR_ROUTE_PUSH_MANY);
    found(TR_HTTP_GET, "v1/jobs", TR_ROUTE_LIST);
    found(TR_HTTP_HEAD_METHOD, "healthz", TR_ROUTE_HEALTHZ);
    found(TR_HTTP_GET, "", TR_ROUTE_DASHBOARD);
    found(TR_HTTP_HEAD_METHOD, "ui/app.js", TR_ROUTE_DASHBOARD_FILE);
    assert_true(is(match.name, "app.js"));
    found(TR_HTTP_GET, "openapi.json", TR_ROUTE_OPENAPI);
    found(TR_HTTP_GET, "v1/schedules/nightly/next", TR_ROUTE_SCHEDULE_NEXT);
    assert_true(is(match.name, "nightly"));
    found(TR_HTTP_GET, "reStore/5", TR_ROUTE_CLASSIC_RESTORE_JOB);
    assert_true(tr_route_is_classic(TR_ROUTE_CLASSIC_PUSH));
    assert_true(tr_route_is_classic(TR_ROUTE_CLASSIC_RESTORE_JOB));
    assert_false(tr_route_is_classic(TR_ROUTE_DASHBOARD));
}

static void test_route_not_found(void **state)
{
    static const char *const paths[] = {"v2/jobs",
                                        "v1",
                                        "v1/topics/a/jobs/5",
                                        "v1/jobs/5/6",
                                        "V1/jobs",
                                        "v1//jobs",
                                        "v1/topic",
                                        "healthz/x",
                                        "v1/topics/a/keys",
                                        "a/b/c/d/e/f/g/h/i/j",
                                        "v1/jobs/5/ack/x"};

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (find(TR_HTTP_GET, paths[i]) != TARRY_ENOTFOUND || error.status != 404) {
            fail_msg("%s", paths[i]);
        }
    }
}

static void not_allowed(enum tr_http_method method, const char *path, const char *allow)
{
    assert_int_equal(find(method, path), TARRY_EINVAL);
    assert_int_equal(error.status, 405);
    assert_string_equal(error.allow, allow);
}

static void test_route_methods(void **state)
{
    (void)state;
    not_allowed(TR_HTTP_PUT, "v1/jobs", "GET, HEAD, POST");
    not_allowed(TR_HTTP_POST, "v1/jobs/5", "GET, HEAD, PATCH, DELETE");
    not_allowed(TR_HTTP_GET, "v1/jobs/cancel", "POST"); /* the exact path counts */
    not_allowed(TR_HTTP_OPTIONS, "v1/topics/a", "GET, HEAD, PUT, PATCH, DELETE");
    not_allowed(TR_HTTP_OTHER, "healthz", "GET, HEAD");
    not_allowed(TR_HTTP_DELETE, "v1/topics/a/jobs", "POST");
    not_allowed(TR_HTTP_HEAD_METHOD, "get/a", "GET"); /* it would take a job */
    not_allowed(TR_HTTP_HEAD_METHOD, "delete", "GET");
}

static void bad(const char *path, const char *field)
{
    assert_int_equal(find(TR_HTTP_GET, path), TARRY_EINVAL);
    assert_int_equal(error.status, 400);
    assert_string_equal(error.field, field);
}

static void test_route_bad_parts(void **state)
{
    (void)state;
    bad("v1/jobs/abc", "id");
    bad("v1/jobs/-1", "id");
    bad("v1/jobs/1.0", "id");
    bad("v1/topics/-a", "topic");
    bad("v1/topics/a b", "topic");
    bad("v1/topics/a/keys/\x01", "key");
    bad("v1/topics/a/keys/\xff", "key");
    bad("v1/schedules/a,b", "name");
}

/* Of two paths that one request can match, the more exact one stands first. */
static void test_route_order(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TR_ROUTE_COUNT; i++) {
        char path[64];
        const char *pattern = tr_route_table[i].path;
        size_t len = 0;

        for (; *pattern != '\0'; pattern++) { /* a request for just this: {id} is 5 */
            if (*pattern == '{') {
                pattern = strchr(pattern, '}');
                path[len++] = '5';
            } else {
                path[len++] = *pattern;
            }
        }
        path[len] = '\0';
        found(tr_route_table[i].method, path, (enum tr_route)i);
        if (tr_route_table[i].method == TR_HTTP_GET && !tr_route_is_classic((enum tr_route)i)) {
            found(TR_HTTP_HEAD_METHOD, path, (enum tr_route)i);
        }
        assert_true((tr_route_table[i].needed & ~tr_route_table[i].args) == 0);
    }
    for (unsigned i = 0; i < TR_ARG_COUNT; i++) { /* no route has two that are called the same */
        for (unsigned k = 0; k < i; k++) {
            for (unsigned r = 0;
                 strcmp(tr_arg_table[i].called, tr_arg_table[k].called) == 0 && r < TR_ROUTE_COUNT;
                 r++) {
                assert_false((tr_route_table[r].args >> i & 1) != 0 &&
                             (tr_route_table[r].args >> k & 1) != 0);
            }
        }
    }
}

static void test_route_query_args(void **state)
{
    struct tr_http_request r = {.length = 0};

    (void)state;
    assert_true(tr_route_query_args(TR_ROUTE_PUSH, &r) == TR_ARGS_JOB);
    assert_true(tr_route_query_args(TR_ROUTE_EDIT, &r) == TR_ARGS_EDIT);
    assert_true(tr_route_query_args(TR_ROUTE_TOPIC_SET, &r) == 0);
    r.length = TR_HTTP_LENGTH_UNKNOWN; /* chunked: there may be no body */
    assert_true(tr_route_query_args(TR_ROUTE_EDIT, &r) == TR_ARGS_EDIT);
    r.length = 1;
    assert_true(tr_route_query_args(TR_ROUTE_EDIT, &r) == 0);
    assert_true(tr_route_query_args(TR_ROUTE_PUSH, &r) == TR_ARGS_JOB);
}

static void has(const uint8_t *bytes, size_t len, const char *want)
{
    if (memmem(bytes, len, want, strlen(want)) == NULL) {
        fail_msg("%s", want);
    }
}

/* What is told of some routes. */
static void check_described(const uint8_t *bytes, size_t len)
{
    has(bytes, len,
        "\"/v1/jobs/{id}/ack\":{\"post\":{\"operationId\":\"ack\",\"summary\":\"finish a job\","
        "\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"description\":\"from the path\","
        "\"required\":true,\"schema\":{\"type\":\"string\"}},{\"name\":\"lease\",\"in\":\"query\","
        "\"description\":\"from reserve: proves that the job is yours\",\"required\":true,"
        "\"schema\":{\"type\":\"string\",\"maxLength\":64}}],\"responses\":{\"200\":{"
        "\"description\":\"done\"},\"400\":{");
    has(bytes, len,
        "{\"name\":\"count\",\"in\":\"query\",\"description\":\"so many jobs at most; default 1\","
        "\"required\":false,\"schema\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000}}");
    has(bytes, len,
        "\"push jobs\",\"parameters\":[],\"requestBody\":{\"content\":{\"application/json\":{"
        "\"schema\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
        "\"additionalProperties\":false,\"required\":[\"topic\"],\"properties\":{\"delay\":{"
        "\"type\":[\"string\",\"number\"]");
    has(bytes, len,
        "\"summary\":\"set the whole policy of a topic\",\"parameters\":[{"
        "\"name\":\"topic\",\"in\":\"path\",\"description\":\"from the path\","
        "\"required\":true,\"schema\":{\"type\":\"string\"}}],\"requestBody\":{"
        "\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\","
        "\"additionalProperties\":false,\"properties\":{\"ttr\":{");
    has(bytes, len, "\"x-tarry-role\":\"produce\",\"x-tarry-all-topics\":false");
    has(bytes, len, "\"x-tarry-role\":\"admin\",\"x-tarry-all-topics\":true");
    has(bytes, len, "\"security\":[],\"x-tarry-role\":\"none\"}");
    has(bytes, len, "\"enum\":[\"replace\",\"keep\",\"error\"]");
    has(bytes, len, "\"body_base64\":{\"type\":\"string\"");
    has(bytes, len, "\"name\":\"body_base64\""); /* of a query, too */
}

/* The description is JSON, and has every route once. */
static void test_route_describe(void **state)
{
    struct tr_mem mem;
    struct tr_output out;
    struct tr_json_in s;
    struct tr_json_value v;
    struct tr_json_value name;
    struct tr_json_walk w;
    const uint8_t *bytes;
    size_t len;
    size_t taken;
    unsigned routes = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_output_init(&out, &mem);
    tr_route_describe(&out, "1.2.3");
    len = tr_output_ready(&out, 0, &bytes);
    tr_json_in_init(&s, TR_JSON_VALUE);
    assert_int_equal(tr_json_in_feed(&s, bytes, len, &taken), TR_JSON_ITEM);
    assert_int_equal(taken, len);
    check_described(bytes, len);
    v = tr_json_value_of((const char *)bytes, len);
    for (tr_json_walk_init(&w, &v); tr_json_walk_member(&w, &name, &v);) {
        if (tr_json_says(&name, "paths")) {
            struct tr_json_walk paths;
            struct tr_json_value path;

            for (tr_json_walk_init(&paths, &v); tr_json_walk_member(&paths, &name, &path);) {
                struct tr_json_walk methods;
                struct tr_json_value about;

                for (tr_json_walk_init(&methods, &path);
                     tr_json_walk_member(&methods, &name, &about);) {
                    routes++;
                }
            }
        }
    }
    assert_int_equal(routes, TR_ROUTE_COUNT);
    tr_output_fini(&out);
    assert_int_equal(mem.used_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_route_found),    cmocka_unit_test(test_route_not_found),
        cmocka_unit_test(test_route_methods),  cmocka_unit_test(test_route_bad_parts),
        cmocka_unit_test(test_route_order),    cmocka_unit_test(test_route_query_args),
        cmocka_unit_test(test_route_describe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
