/* Replies of HTTP, byte by byte. */

#include "proto/http_reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct tr_mem mem;
static struct tr_output out;
static const struct tr_http_how on = {.keep_alive = true};

static int set_up(void **state)
{
    (void)state;
    tr_mem_init(&mem, 0);
    tr_output_init(&out, &mem);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tr_output_fini(&out);
    return mem.used_bytes == 0 ? 0 : -1;
}

static void wrote(const char *want)
{
    const uint8_t *bytes;
    size_t have = tr_output_ready(&out, 0, &bytes);

    if (have != strlen(want) || memcmp(bytes, want, have) != 0) {
        fail_msg("wrote %.*s", (int)have, (const char *)bytes);
    }
    tr_output_drop(&out, have);
}

static void test_reply_with_a_body(void **state)
{
    struct tr_http_reply r;

    (void)state;
    for (unsigned i = 0; i < 2; i++) { /* the second behind the first */
        tr_http_reply_open(&r, &out, &on, 201);
        tr_http_reply_header(&r, "Tarry-Id", "17", 2);
        tr_http_reply_body(&r, "application/json");
        tr_output_add(&out, "{\"id\":\"17\"}", 11);
        tr_http_reply_close(&r);
    }
    wrote("HTTP/1.1 201 Created\r\nTarry-Id: 17\r\nContent-Type: application/json\r\n"
          "Content-Length: 11\r\n\r\n{\"id\":\"17\"}"
          "HTTP/1.1 201 Created\r\nTarry-Id: 17\r\nContent-Type: application/json\r\n"
          "Content-Length: 11\r\n\r\n{\"id\":\"17\"}");
}

static void test_reply_how(void **state)
{
    struct tr_http_how how = {.http10 = true, .keep_alive = true, .date = "Sun, 06 Nov"};
    struct tr_http_reply r;

    (void)state;
    tr_http_reply_open(&r, &out, &how, 200);
    tr_http_reply_body(&r, "text/plain");
    tr_http_reply_close(&r);
    wrote("HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov\r\nConnection: keep-alive\r\n"
          "Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n");
    how = (struct tr_http_how){.head_only = true};
    tr_http_reply_open(&r, &out, &how, 200);
    tr_http_reply_body(&r, "text/plain");
    tr_output_add(&out, "0123456789", 10);
    tr_http_reply_close(&r);
    wrote("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n"
          "Content-Length: 10\r\n\r\n");
    tr_http_reply_open(&r, &out, &on, 204);
    tr_http_reply_none(&r);
    wrote("HTTP/1.1 204 No Content\r\n\r\n");
    tr_http_reply_continue(&out);
    wrote("HTTP/1.1 100 Continue\r\n\r\n");
}

static void test_reply_error(void **state)
{
    struct tr_http_error e = {400, "bad_delay", "delay \"x\" is no duration", "delay", NULL, NULL,
                              0};

    (void)state;
    tr_http_reply_error(&out, &on, &e);
    wrote("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 85\r\n\r\n"
          "{\"error\":{\"code\":\"bad_delay\",\"message\":\"delay \\\"x\\\" is no duration\","
          "\"field\":\"delay\"}}");
    e = (struct tr_http_error){409, "wrong_state", "no", NULL, NULL, "dead", 0};
    tr_http_reply_error(&out, &on, &e);
    wrote("HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Length: 62\r\n\r\n"
          "{\"error\":{\"code\":\"wrong_state\",\"message\":\"no\",\"state\":\"dead\"}}");
    e = (struct tr_http_error){405, "method", "use another", NULL, "GET, HEAD", NULL, 0};
    tr_http_reply_error(&out, &on, &e);
    wrote(
        "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Type: application/json\r\n"
        "Content-Length: 51\r\n\r\n{\"error\":{\"code\":\"method\",\"message\":\"use another\"}}");
    e = (struct tr_http_error){.status = 503, .code = "draining", .message = "no"};
    tr_http_reply_error(&out, &on, &e);
    wrote("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Type: application/json\r\n"
          "Content-Length: 44\r\n\r\n{\"error\":{\"code\":\"draining\",\"message\":\"no\"}}");
}

/* A value cannot end its line. */
static void test_reply_header_is_one_line(void **state)
{
    struct tr_http_reply r;

    (void)state;
    tr_http_reply_open(&r, &out, &on, 200);
    tr_http_reply_header(&r, "Tarry-Key", "a\r\nX: y\0\x7f\xc3\xa4", 11);
    tr_http_reply_header(&r, "Empty", "", 0);
    tr_http_reply_none(&r);
    wrote("HTTP/1.1 200 OK\r\nTarry-Key: a??X: y??\xc3\xa4\r\nEmpty: \r\n\r\n");
}

static void test_reply_behind_a_gate(void **state)
{
    struct tr_http_reply r;
    const uint8_t *bytes;

    (void)state;
    tr_output_add(&out, "before", 6);
    tr_output_gate(&out, 7);
    tr_http_reply_open(&r, &out, &on, 200);
    tr_http_reply_body(&r, "text/plain");
    tr_output_add(&out, "x", 1);
    tr_http_reply_close(&r);
    assert_int_equal(tr_output_ready(&out, 6, &bytes), 6);
    tr_output_drop(&out, 6);
    assert_int_equal(tr_output_ready(&out, 6, &bytes), 0);
    assert_int_equal(tr_output_ready(&out, 7, &bytes), 65);
    tr_output_drop(&out, 65);
}

static void test_reply_no_memory(void **state)
{
    struct tr_http_error e = {400, "code", "message", "field", "GET", NULL, 0};
    uint64_t n = 0;

    (void)state;
    do {
        tr_output_fini(&out);
        tr_mem_init(&mem, 0);
        mem.fail_at = ++n;
        tr_output_init(&out, &mem);
        for (unsigned i = 0; i < 10; i++) {
            tr_http_reply_error(&out, &on, &e);
        }
    } while (out.broken);
    assert_true(n > 2);
}

static void test_reply_texts(void **state)
{
    (void)state;
    assert_string_equal(tr_http_status_text(507), "Insufficient Storage");
    assert_string_equal(tr_http_status_text(599), "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_reply_with_a_body),   TEST(test_reply_how),
        TEST(test_reply_error),         TEST(test_reply_header_is_one_line),
        TEST(test_reply_behind_a_gate), TEST(test_reply_no_memory),
        TEST(test_reply_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
