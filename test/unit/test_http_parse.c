/* Requests of HTTP: what is read of them, in whatever pieces they come, and what is refused. */

#include "proto/http_parse.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { BODY_MAX = 1000 };

static const struct tr_http_limits limits = {.head = 2048, .url = 512};
static struct tr_mem mem;
static struct tr_http h;

static int set_up(void **state)
{
    (void)state;
    tr_mem_init(&mem, 0);
    tr_http_init(&h, &mem, &limits);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tr_http_fini(&h);
    return mem.used_bytes == 0 ? 0 : -1;
}

/* Feeds pieces until something is to be done; heads are passed. Gives what was taken. */
static size_t feed(const char *text, size_t len, size_t piece)
{
    size_t at = 0;

    while (at < len && (h.state == TR_HTTP_INPUT || h.state == TR_HTTP_HEAD)) {
        at += tr_http_feed(&h, text + at, len - at < piece ? len - at : piece);
        if (h.state == TR_HTTP_HEAD) {
            tr_http_go_on(&h, BODY_MAX, false);
        }
    }
    return at;
}

static void start_again(void)
{
    tr_http_fini(&h);
    tr_http_init(&h, &mem, &limits);
}

static bool is(struct tr_http_text text, const char *want)
{
    return text.at != NULL && text.len == strlen(want) && memcmp(text.at, want, text.len) == 0;
}

static void test_http_push(void **state)
{
    static const char text[] = "POST /v1/topics/orders/jobs?delay=30m&key=order-42 HTTP/1.1\r\n"
                               "Host: localhost:11301\r\n"
                               "User-Agent: curl/7.88.1\r\n"
                               "Accept: */*\r\n"
                               "content-TYPE:application/x-www-form-urlencoded \t\r\n"
                               "Content-Length: 12\r\n"
                               "\r\n"
                               "{\"order\":42}";

    (void)state;
    for (size_t piece = 1; piece <= sizeof text; piece++) {
        const struct tr_http_request *r = &h.request;

        assert_true(tr_http_idle(&h));
        assert_int_equal(feed(text, sizeof text - 1, piece), sizeof text - 1);
        assert_int_equal(h.state, TR_HTTP_REQUEST);
        assert_false(tr_http_idle(&h));
        assert_int_equal(r->method, TR_HTTP_POST);
        assert_true(r->keep_alive && !r->http10 && !r->expects);
        assert_int_equal(r->segment_count, 4);
        assert_true(is(r->segments[0], "v1") && is(r->segments[1], "topics"));
        assert_true(is(r->segments[2], "orders") && is(r->segments[3], "jobs"));
        assert_int_equal(r->param_count, 2);
        assert_true(is(r->params[0].name, "delay") && is(r->params[0].value, "30m"));
        assert_true(is(r->params[1].name, "key") && is(r->params[1].value, "order-42"));
        assert_true(is(r->headers[TR_HTTP_HOST], "localhost:11301"));
        assert_true(is(r->headers[TR_HTTP_ACCEPT], "*/*"));
        assert_true(is(r->headers[TR_HTTP_CONTENT_TYPE], "application/x-www-form-urlencoded"));
        assert_null(r->headers[TR_HTTP_AUTHORIZATION].at);
        assert_int_equal(r->length, 12);
        assert_int_equal(r->body_len, 12);
        assert_memory_equal(r->body, "{\"order\":42}", 12);
        tr_http_next(&h);
    }
}

static void test_http_pipelined(void **state)
{
    static const char text[] =
        "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
        "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
        "\r\nPOST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\nde\r\n1;x=y\r\nf\r\n0\r\nTrailer: z\r\nHost: y\r\n\r\n"
        "DELETE /d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        "GET /never HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char *const bodies[] = {"", "abc", "def", ""};
    static const enum tr_http_method methods[] = {TR_HTTP_GET, TR_HTTP_POST, TR_HTTP_POST,
                                                  TR_HTTP_DELETE};

    (void)state;
    for (size_t piece = 1; piece <= sizeof text; piece++) {
        size_t at = 0;

        for (unsigned i = 0; i < 4; i++) {
            char name[2] = {(char)('a' + i), '\0'};

            at += feed(text + at, sizeof text - 1 - at, piece);
            assert_int_equal(h.state, TR_HTTP_REQUEST);
            assert_int_equal(h.request.method, methods[i]);
            assert_true(is(h.request.segments[0], name));
            assert_true(is(h.request.headers[TR_HTTP_HOST], "x"));
            assert_int_equal(h.request.body_len, strlen(bodies[i]));
            assert_int_equal(h.request.length, strlen(bodies[i]));
            assert_true(h.request.keep_alive == (i < 3));
            if (h.request.body_len > 0) {
                assert_memory_equal(h.request.body, bodies[i], h.request.body_len);
            }
            tr_http_next(&h);
        }
        assert_int_equal(h.state, TR_HTTP_CLOSED);
        assert_int_equal(tr_http_feed(&h, text + at, sizeof text - 1 - at), sizeof text - 1 - at);
        assert_int_equal(h.state, TR_HTTP_CLOSED);
        start_again();
    }
}

/* Reads a GET of this URL and gives the state. */
static enum tr_http_state get(const char *url)
{
    static const char rest[] = " HTTP/1.1\r\nHost: x\r\n\r\n";

    start_again();
    (void)feed("GET ", 4, 4);
    (void)feed(url, strlen(url), 3);
    (void)feed(rest, sizeof rest - 1, 100);
    return h.state;
}

static void test_http_paths(void **state)
{
    const struct tr_http_request *r = &h.request;

    (void)state;
    assert_int_equal(get("/"), TR_HTTP_REQUEST);
    assert_int_equal(r->segment_count, 0);
    assert_int_equal(get("/v1/topics/a%2Fb+c;d/keys/%e2%82%ac%00"), TR_HTTP_REQUEST);
    assert_int_equal(r->segment_count, 5);
    assert_true(is(r->segments[2], "a/b+c;d"));
    assert_int_equal(r->segments[4].len, 4);
    assert_memory_equal(r->segments[4].at, "\xe2\x82\xac\0", 4);
    assert_int_equal(get("/v1//jobs/"), TR_HTTP_REQUEST);
    assert_int_equal(r->segment_count, 4);
    assert_true(is(r->segments[1], "") && is(r->segments[3], ""));
    assert_int_equal(get("/1/2/3/4/5/6/7/8"), TR_HTTP_REQUEST);
    assert_int_equal(r->segment_count, 8);
    assert_true(is(r->segments[7], "8"));
    assert_int_equal(get("/1/2/3/4/5/6/7/8/9/10"), TR_HTTP_REQUEST);
    assert_int_equal(r->segment_count, TR_HTTP_SEGMENTS_MAX + 1);
    assert_int_equal(get("http://example.org:80/v1/jobs?a=b"), TR_HTTP_REQUEST);
    assert_int_equal(r->segment_count, 2);
    assert_true(is(r->headers[TR_HTTP_HOST], "example.org:80"));
    assert_true(is(r->params[0].value, "b"));
    assert_int_equal(get("http://example.org?a=b"), TR_HTTP_REQUEST);
    assert_int_equal(r->segment_count, 0);
    assert_int_equal(r->param_count, 1);
    assert_int_equal(get("*"), TR_HTTP_REQUEST);
    assert_int_equal(r->segment_count, TR_HTTP_SEGMENTS_MAX + 1);
}

static void test_http_queries(void **state)
{
    const struct tr_http_request *r = &h.request;
    char many[200] = "/?";

    (void)state;
    assert_int_equal(get("/?"), TR_HTTP_REQUEST);
    assert_int_equal(r->param_count, 0);
    assert_int_equal(get("/x?at=2027-01-01T00:00:00+08:00&&k=%2B%26%3d&f+l&e=&=v&k=a=b/?&"),
                     TR_HTTP_REQUEST);
    assert_int_equal(r->param_count, 6);
    assert_true(is(r->params[0].name, "at"));
    assert_true(is(r->params[0].value, "2027-01-01T00:00:00 08:00"));
    assert_true(is(r->params[1].name, "k") && is(r->params[1].value, "+&="));
    assert_true(is(r->params[2].name, "f l") && is(r->params[2].value, ""));
    assert_true(is(r->params[3].name, "e") && is(r->params[3].value, ""));
    assert_true(is(r->params[4].name, "") && is(r->params[4].value, "v"));
    assert_true(is(r->params[5].name, "k") && is(r->params[5].value, "a=b/?"));
    for (unsigned i = 0; i < TR_HTTP_PARAMS_MAX; i++) {
        memcpy(many + 2 + 2 * (size_t)i, "a&", 3);
    }
    assert_int_equal(get(many), TR_HTTP_REQUEST);
    assert_int_equal(r->param_count, TR_HTTP_PARAMS_MAX);
    memcpy(many + 2 + 2 * (size_t)TR_HTTP_PARAMS_MAX, "a", 2);
    assert_int_equal(get(many), TR_HTTP_FAULT);
    assert_int_equal(h.fault.status, 400);
}

static void refused(const char *text, unsigned status)
{
    size_t len = strlen(text);

    for (size_t piece = 1; piece < len + 50; piece += piece < 4 ? 1 : 50) {
        start_again();
        (void)feed(text, len, piece);
        if (h.state != TR_HTTP_FAULT || h.fault.status != status) {
            fail_msg("%s\nstate %d, status %u", text, (int)h.state, h.fault.status);
        }
        assert_non_null(h.fault.code);
        assert_non_null(h.fault.message);
        assert_int_equal(tr_http_feed(&h, "anything", 8), 8);
    }
}

static void test_http_refuses(void **state)
{
    (void)state;
    refused("GET /% HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    refused("GET /%4 HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    refused("GET /%4g HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    refused("GET /?a=%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    refused("GET /?%=1 HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    refused("GET /#a HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    refused("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nauthorization: b\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400);
    refused("GET / HTTP/1.1\nHost: x\n\n", 400);
    refused("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 400);
    refused("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\na", 400);
    refused("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\na", 400);
    refused("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
            "0\r\n\r\n",
            400);
    refused("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501);
    refused("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501);
    refused("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400);
    refused("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400);
    refused("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Encoding: gzip\r\n\r\na",
            415);
    refused(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Encoding: identite\r\n\r\na",
        415);
    refused("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: a-miracle\r\n\r\na", 417);
    refused("GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505);
    refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
    refused("GET / HTTP/3.7\r\nHost: x\r\n\r\n", 505);
    refused("GET /\r\n\r\n", 505);
    refused("FETCH / HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    refused("get / HTTP/1.1\r\nHost: x\r\n\r\n", 400);
    refused("\x16\x03\x01\x02", 400);
    refused("put 0 0 60 5\r\nhello\r\n", 400);
    refused("GET x/y HTTP/1.1\r\nHost: x\r\n\r\n", 400);
}

/* A text of n letters between two others, fed at once. */
static void long_one(const char *before, size_t n, const char *after)
{
    static char text[8192];
    size_t first = strlen(before);

    memcpy(text, before, first);
    memset(text + first, 'a', n);
    memcpy(text + first + n, after, strlen(after) + 1);
    start_again();
    (void)feed(text, strlen(text), 100);
}

/* A limit that is lowered in the midst of a head ends it, unless that is nearly whole. */
static void test_http_limit_is_lowered(void **state)
{
    static const char head[] = "GET /aaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: x\r\n";
    struct tr_http_limits less = {.head = 2048, .url = 512};

    (void)state;
    tr_http_fini(&h);
    tr_http_init(&h, &mem, &less);
    assert_int_equal(feed(head, strlen(head), 100), strlen(head));
    assert_int_equal(h.state, TR_HTTP_INPUT);
    less.head = 20;
    (void)feed("X: y\r\n\r\n", 8, 100);
    assert_int_equal(h.state, TR_HTTP_FAULT);
    assert_int_equal(h.fault.status, 431);
}

static void test_http_limits(void **state)
{
    static const char head[] = "GET / HTTP/1.1\r\nHost: x\r\nX: ";

    (void)state;
    long_one("GET /", limits.url - 1, " HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    long_one("GET /", limits.url, " HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(h.fault.status, 414);
    long_one(head, limits.head - strlen(head) - 4, "\r\n\r\n");
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    long_one(head, limits.head - strlen(head) - 3, "\r\n\r\n");
    assert_int_equal(h.state, TR_HTTP_FAULT);
    assert_int_equal(h.fault.status, 431);
    long_one(head, 5000, "");
    assert_int_equal(h.fault.status, 431);
    long_one("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", BODY_MAX, "");
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    assert_int_equal(h.request.body_len, BODY_MAX);
    long_one("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", 0, "");
    assert_int_equal(h.fault.status, 413);
    long_one("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n", BODY_MAX,
             "\r\n0\r\n\r\n");
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    long_one("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n",
             BODY_MAX + 1, "\r\n0\r\n\r\n");
    assert_int_equal(h.fault.status, 413);
    long_one("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", 0, "");
    assert_int_equal(h.fault.status, 413); /* before it is sent */
    long_one("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e7\r\n",
             BODY_MAX - 1, "\r\n2\r\n");
    assert_int_equal(h.fault.status, 413);
    long_one("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e7\r\n",
             BODY_MAX - 1, "\r\n1\r\nx\r\n0\r\n\r\n");
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    assert_int_equal(h.request.body_len, BODY_MAX);
    long_one("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
             "ffffffffffffffff\r\n",
             0, "");
    assert_int_equal(h.fault.status, 413);
    long_one("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: ", 4000,
             "\r\n\r\n");
    assert_int_equal(h.fault.status, 400);
    long_one("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;", 4000, "\r\na");
    assert_int_equal(h.fault.status, 400);
}

/* Chunks of one byte are clumsy, but allowed. */
static void test_http_small_chunks(void **state)
{
    static const char head[] = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

    (void)state;
    (void)feed(head, sizeof head - 1, 1000);
    for (unsigned i = 0; i < BODY_MAX; i++) {
        (void)feed("1\r\nx\r\n", 6, 6);
    }
    (void)feed("0\r\n\r\n", 5, 5);
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    assert_int_equal(h.request.body_len, BODY_MAX);
}

static void test_http_head_comes_first(void **state)
{
    static const char text[] = "POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n"
                               "Content-Length: 3\r\n\r\nabcGET";
    size_t head = strlen(text) - 6;

    (void)state;
    assert_int_equal(tr_http_feed(&h, text, sizeof text - 1), head);
    assert_int_equal(h.state, TR_HTTP_HEAD);
    assert_true(h.request.expects);
    assert_int_equal(h.request.length, 3);
    assert_int_equal(tr_http_feed(&h, text + head, 6), 0); /* it waits for the owner */
    tr_http_go_on(&h, 3, false);
    assert_int_equal(tr_http_feed(&h, text + head, 6), 3);
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    assert_memory_equal(h.request.body, "abc", 3);
    tr_http_next(&h);
    (void)tr_http_feed(&h, text, head);
    tr_http_go_on(&h, 2, false); /* too large for this route */
    assert_int_equal(h.state, TR_HTTP_FAULT);
    assert_int_equal(h.fault.status, 413);
    start_again();
    (void)tr_http_feed(&h, text, head);
    tr_http_go_on(&h, 3, true);
    assert_int_equal(tr_http_feed(&h, text + head, 6), 3);
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    assert_int_equal(h.request.body_len, 0);
}

/* Chunked: how long it is becomes known at its end; it may be empty. */
static void test_http_length_unknown(void **state)
{
    static const char head[] = "PATCH / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

    (void)state;
    assert_int_equal(tr_http_feed(&h, head, sizeof head - 1), sizeof head - 1);
    assert_int_equal(h.state, TR_HTTP_HEAD);
    assert_true(h.request.length == TR_HTTP_LENGTH_UNKNOWN);
    tr_http_go_on(&h, 10, false);
    assert_int_equal(tr_http_feed(&h, "0\r\n\r\n", 5), 5);
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    assert_int_equal(h.request.length, 0);
    assert_int_equal(h.request.body_len, 0);
    assert_non_null(h.request.body);
}

static void test_http_10(void **state)
{
    static const char plain[] = "GET /a HTTP/1.0\r\n\r\n";
    static const char kept[] =
        "GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\nExpect: 100-continue\r\n"
        "Content-Length: 1\r\n\r\nx";

    (void)state;
    (void)feed(kept, sizeof kept - 1, 5);
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    assert_true(h.request.http10 && h.request.keep_alive && !h.request.expects);
    tr_http_next(&h);
    (void)feed(plain, sizeof plain - 1, 5);
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    assert_true(h.request.http10 && !h.request.keep_alive);
    tr_http_next(&h);
    assert_int_equal(h.state, TR_HTTP_CLOSED);
}

/* Another protocol is not taken up, and what follows is read as ever. */
static void test_http_upgrade_is_ignored(void **state)
{
    static const char text[] =
        "GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
        "POST /b HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
        "Content-Length: 1\r\n\r\nxGET /c HTTP/1.1\r\nHost: x\r\n\r\n";
    size_t at = 0;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        at += feed(text + at, sizeof text - 1 - at, 1000);
        assert_int_equal(h.state, TR_HTTP_REQUEST);
        assert_int_equal(h.request.segments[0].at[0], 'a' + (char)i);
        assert_true(h.request.keep_alive);
        tr_http_next(&h);
    }
    assert_int_equal(at, sizeof text - 1);
    (void)feed("CONNECT a:80 HTTP/1.1\r\nHost: x\r\n\r\n", 35, 100);
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    assert_int_equal(h.request.method, TR_HTTP_OTHER);
    assert_false(h.request.keep_alive);
}

static void test_http_no_memory(void **state)
{
    static const char text[] = "POST /v1/topics/orders/jobs HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Length: 600\r\n\r\n";
    char body[600];
    uint64_t n = 0;

    (void)state;
    memset(body, 'b', sizeof body);
    do { /* the n-th request for memory fails */
        tr_http_fini(&h);
        assert_int_equal(mem.used_bytes, 0);
        tr_mem_init(&mem, 0);
        mem.fail_at = ++n;
        tr_http_init(&h, &mem, &limits);
        (void)feed(text, sizeof text - 1, 7);
        (void)feed(body, sizeof body, 100);
        assert_true(h.state == TR_HTTP_REQUEST || h.fault.status == 503);
    } while (h.state != TR_HTTP_REQUEST);
    assert_true(n > 2);
}

/* Large bodies share a budget, an eighth of which is for others: who is beyond is told at once if
 * he said how much it will be, else when it is. */
static void test_http_no_memory_for_large_bodies(void **state)
{
    static const char head[] = "POST / HTTP/1.1\r\nHost: x\r\n";
    static const char chunk[] = "10000\r\n";
    static char body[65536];
    enum { MANY = 1 << 20 };

    (void)state;
    tr_mem_init(&mem, MANY);
    for (unsigned i = 0; i < 2; i++) {
        const char *length = i == 0 ? "Content-Length: 900000\r\n\r\n" : /* 7/8 are 917,504 */
                                 "Content-Length: 920000\r\n\r\n";

        (void)tr_http_feed(&h, head, sizeof head - 1);
        (void)tr_http_feed(&h, length, strlen(length));
        assert_int_equal(h.state, TR_HTTP_HEAD);
        tr_http_go_on(&h, MANY, false);
        assert_int_equal(h.state, i == 0 ? TR_HTTP_INPUT : TR_HTTP_FAULT);
        assert_int_equal(mem.used_bytes < 65536, true); /* what was announced takes none */
        if (i == 1) {
            assert_int_equal(h.fault.status, 503);
        }
        start_again();
    }
    (void)tr_http_feed(&h, head, sizeof head - 1);
    (void)tr_http_feed(&h, "Transfer-Encoding: chunked\r\n\r\n", 30);
    assert_int_equal(h.state, TR_HTTP_HEAD);
    tr_http_go_on(&h, MANY, false);
    for (unsigned i = 0; i < 16 && h.state == TR_HTTP_INPUT; i++) {
        (void)tr_http_feed(&h, chunk, sizeof chunk - 1);
        (void)tr_http_feed(&h, body, sizeof body);
        (void)tr_http_feed(&h, "\r\n", 2);
    }
    assert_int_equal(h.state, TR_HTTP_FAULT);
    assert_int_equal(h.fault.status, 503);
    assert_true(mem.used_bytes <= MANY - MANY / 8);
}

/* A connection that was busy does not keep what it needed then. */
static void test_http_gives_memory_back(void **state)
{
    static const char head[] = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 600\r\n\r\n";
    char body[600];

    (void)state;
    memset(body, 'b', sizeof body);
    (void)feed(head, sizeof head - 1, 100);
    (void)feed(body, sizeof body, 100);
    tr_http_next(&h);
    assert_true(mem.used_bytes <= 2 * 1024);
    long_one("GET /?a=b HTTP/1.1\r\nHost: ", 1500, "\r\n\r\n");
    assert_int_equal(h.state, TR_HTTP_REQUEST);
    tr_http_next(&h);
    assert_true(mem.used_bytes <= 2 * 1024);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_http_push),
        TEST(test_http_pipelined),
        TEST(test_http_paths),
        TEST(test_http_queries),
        TEST(test_http_refuses),
        TEST(test_http_limits),
        TEST(test_http_limit_is_lowered),
        TEST(test_http_small_chunks),
        TEST(test_http_head_comes_first),
        TEST(test_http_length_unknown),
        TEST(test_http_10),
        TEST(test_http_upgrade_is_ignored),
        TEST(test_http_no_memory),
        TEST(test_http_no_memory_for_large_bodies),
        TEST(test_http_gives_memory_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
