/*
 * Sessions of the HTTP API on a real engine without sockets: gates, clients that leave, memory that
 * ends, and that it makes no difference in which pieces bytes arrive.
 */

#include "base/err.h"
#include "base/text.h"
#include "proto/http_inner.h"
#include "test/unit/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void start(struct wire *w)
{
    wire_init(w);
    w->proto = &tr_http_proto;
    wire_open(w);
}

static void say(struct wire *w, unsigned i, const char *text)
{
    wire_send(w, i, text, strlen(text));
}

/* A request with a body. */
static void ask(struct wire *w, unsigned i, const char *line, const char *body)
{
    char text[2048];

    tr_text(text, sizeof text, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %u\r\n\r\n%s",
            line, (unsigned)strlen(body), body);
    say(w, i, text);
}

static bool heard(const struct wire *w, unsigned i, const char *text)
{
    size_t len = strlen(text);

    for (size_t at = 0; at + len <= w->clients[i].got_len; at++) {
        if (memcmp(w->clients[i].got + at, text, len) == 0) {
            return true;
        }
    }
    return false;
}

/* All that was received is forgotten. */
static void forget(struct wire *w, unsigned i)
{
    wire_drop(w, i, w->clients[i].got_len);
}

/* What follows this text in what was received, up to the next quote. */
static void find(const struct wire *w, unsigned i, const char *before, char out[64])
{
    size_t len = strlen(before);
    size_t at = 0;
    size_t n = 0;

    while (at + len < w->clients[i].got_len && memcmp(w->clients[i].got + at, before, len) != 0) {
        at++;
    }
    assert_true(at + len < w->clients[i].got_len);
    for (at += len; w->clients[i].got[at] != '"' && n < 63; at++) {
        out[n++] = (char)w->clients[i].got[at];
    }
    out[n] = '\0';
}

static void test_http_no_reply_before_the_disk(void **state)
{
    struct wire w;

    (void)state;
    start(&w);
    ask(&w, 0, "POST /v1/topics/t/jobs", "x");
    ask(&w, 1, "GET /healthz", "");
    wire_run(&w);
    assert_int_equal(w.clients[0].got_len, 0);
    assert_true(heard(&w, 1, "200 OK")); /* its answer says nothing about the store */
    wire_settle(&w);
    assert_true(heard(&w, 0, "201 Created"));
    wire_fini(&w);
}

static void set_store(struct wire *w, enum tr_hs_store store)
{
    w->http.store = store;
    for (unsigned i = 0; i < WIRE_CLIENTS; i++) {
        w->clients[i].runnable = true;
    }
}

/* While the store is opened: who needs it waits, the others do not. */
static void test_http_waits_for_the_store(void **state)
{
    struct wire w;

    (void)state;
    start(&w);
    set_store(&w, TR_HS_SOON);
    ask(&w, 0, "POST /v1/topics/t/jobs", "x");
    ask(&w, 0, "GET /healthz", ""); /* in its order */
    ask(&w, 1, "GET /healthz", "");
    ask(&w, 2, "GET /readyz", "");
    ask(&w, 3, "GET /openapi.json", "");
    ask(&w, 4, "GET /nothing", "");
    ask(&w, 5, "POST /v1/topics/t/jobs?delay=x", "x");
    ask(&w, 6, "GET /v1/stats", "");
    ask(&w, 7, "GET /v1/config", "");
    ask(&w, 8, "GET /metrics", "");
    wire_settle(&w);
    for (unsigned i = 6; i <= 8; i++) {
        assert_int_equal(w.clients[i].got_len, 0);
        wire_close(&w, i);
    }
    assert_int_equal(w.clients[0].got_len, 0);
    assert_int_equal(w.clients[0].http.requests, 0);
    for (unsigned i = 1; i <= 3; i++) {
        assert_true(heard(&w, i, "200 OK"));
    }
    assert_true(heard(&w, 4, "404 "));
    assert_true(heard(&w, 5, "400 "));
    set_store(&w, TR_HS_OPEN);
    wire_settle(&w);
    assert_true(heard(&w, 0, "201 Created"));
    assert_true(heard(&w, 0, "\"ok\":true"));
    assert_int_equal(rig_engine_stat(&w.rig).jobs, 1);
    wire_fini(&w);
}

/* When that takes long, those who wait and those who come hear 503 and when to come again; nobody
 * is kept from sending a body in vain. */
static void test_http_refuses_while_the_store_is_opened(void **state)
{
    struct wire w;

    (void)state;
    start(&w);
    set_store(&w, TR_HS_SOON);
    ask(&w, 0, "POST /v1/topics/t/jobs", "x");
    wire_settle(&w);
    assert_int_equal(w.clients[0].got_len, 0);
    set_store(&w, TR_HS_LATER);
    ask(&w, 1, "POST /v1/topics/t/jobs", "x");
    say(&w, 2,
        "POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
        "Expect: 100-continue\r\n\r\n");
    ask(&w, 3, "GET /healthz", "");
    wire_settle(&w);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(heard(&w, i, "503 "));
        assert_true(heard(&w, i, "Retry-After: 1"));
        assert_true(heard(&w, i, "\"loading\""));
        assert_false(heard(&w, i, "100 Continue"));
    }
    assert_true(heard(&w, 3, "200 OK"));
    set_store(&w, TR_HS_OPEN);
    forget(&w, 0);
    ask(&w, 0, "POST /v1/topics/t/jobs", "x"); /* the connection was kept */
    wire_settle(&w);
    assert_true(heard(&w, 0, "201 Created"));
    assert_int_equal(rig_engine_stat(&w.rig).jobs, 1);
    wire_fini(&w);
}

static void test_http_pipelined_pushes_are_one_batch(void **state)
{
    struct wire w;
    uint64_t before;

    (void)state;
    start(&w);
    before = rig_engine_stat(&w.rig).closed_batch;
    for (unsigned i = 0; i < 20; i++) {
        ask(&w, 0, "POST /v1/topics/t/jobs", "x");
    }
    wire_settle(&w);
    assert_true(rig_engine_stat(&w.rig).closed_batch <= before + 2);
    assert_int_equal(rig_engine_stat(&w.rig).jobs, 20);
    wire_fini(&w);
}

static void test_http_job_of_a_client_that_left_is_not_counted(void **state)
{
    struct wire w;

    (void)state;
    start(&w);
    ask(&w, 0, "POST /v1/topics/t/jobs", "x");
    ask(&w, 1, "POST /v1/topics/t/reserve?wait=10s", "");
    wire_run(&w); /* reserved, but its reply waits for the disk */
    assert_int_equal(w.clients[1].got_len, 0);
    wire_close(&w, 1);
    wire_settle(&w);
    assert_int_equal(rig_view(&w.rig, 1).state, TR_READY);
    assert_int_equal(rig_view(&w.rig, 1).reserves, 0);

    ask(&w, 1, "POST /v1/topics/t/reserve?wait=10s", "");
    wire_settle(&w);
    assert_true(heard(&w, 1, "\"id\":\"1\""));
    wire_close(&w, 1); /* it had it: the lease outlives the connection */
    assert_int_equal(rig_view(&w.rig, 1).state, TR_RESERVED);
    assert_int_equal(rig_view(&w.rig, 1).reserves, 1);
    wire_fini(&w);
}

static void test_http_waiting_client_that_left_gets_nothing(void **state)
{
    struct wire w;

    (void)state;
    start(&w);
    ask(&w, 0, "POST /v1/reserve?topics=a,b&wait=60s", "");
    ask(&w, 1, "POST /v1/topics/c/reserve?wait=60s", "");
    wire_settle(&w);
    assert_int_equal(rig_engine_stat(&w.rig).waiting, 2);
    wire_close(&w, 0);
    wire_half_close(&w, 1); /* may be gone, too */
    assert_true(heard(&w, 1, "204 No Content"));
    assert_int_equal(rig_engine_stat(&w.rig).waiting, 0);
    assert_int_equal(rig_engine_stat(&w.rig).topics, 0); /* theirs went with them */
    wire_fini(&w);
}

/* The end of input is known before the bytes: all of them are answered. */
static void test_http_pipelined_before_the_end(void **state)
{
    struct wire w;
    unsigned answers = 0;

    (void)state;
    start(&w);
    for (unsigned i = 0; i < 3; i++) {
        ask(&w, 0, "POST /v1/topics/t/jobs", "x");
    }
    w.clients[0].ended = true;
    tr_http_proto.half_close(&w.clients[0].http, w.rig.now);
    wire_settle(&w);
    assert_int_equal(rig_engine_stat(&w.rig).jobs, 3);
    for (size_t at = 0; at + 7 <= w.clients[0].got_len; at++) {
        answers += memcmp(w.clients[0].got + at, "Created", 7) == 0;
    }
    assert_int_equal(answers, 3);
    wire_fini(&w);
}

static void test_http_old_lease_is_refused(void **state)
{
    struct wire w;
    char lease[64];
    char line[256];

    (void)state;
    start(&w);
    ask(&w, 0, "POST /v1/topics/t/jobs", "x");
    ask(&w, 0, "POST /v1/topics/t/reserve?ttr=1s", "");
    wire_settle(&w);
    find(&w, 0, "\"lease\":\"", lease);
    forget(&w, 0);
    wire_pass(&w, 2 * RIG_SECOND);
    tr_text(line, sizeof line, "POST /v1/jobs/1/ack?lease=%s", lease);
    ask(&w, 0, line, "");
    wire_settle(&w);
    assert_true(heard(&w, 0, "409 Conflict"));
    assert_true(heard(&w, 0, "lease_lost"));
    assert_int_equal(rig_engine_stat(&w.rig).jobs, 1);
    wire_fini(&w);
}

static const char *const everything[][2] = {
    {"POST /v1/topics/a/jobs?key=k&delay=1h", "abc"},
    {"POST /v1/topics/a/jobs?key=k", "def"},
    {"POST /v1/topics/a/jobs?on_conflict=keep&key=k", "ghi"},
    {"GET /v1/jobs/1", ""},
    {"GET /v1/topics/a/keys/k", ""},
    {"PATCH /v1/jobs/1", "{\"delay\":\"5m\",\"body\":{\"a\":1}}"},
    {"POST /v1/topics/a/keys/k/fire", ""},
    {"POST /v1/jobs",
     "[{\"topic\":\"b\",\"body\":\"x\"},{\"topic\":\"c\",\"delay\":7,\"body_base64\":\"AAE=\"},3]"},
    {"POST /v1/topics/a/reserve?count=5", ""},
    {"POST /v1/reserve?topics=a,b,c,d&count=9&wait=1s", ""},
    {"POST /v1/ack", "[{\"id\":\"1\",\"lease\":\"x\"},{}]"},
    {"GET /v1/jobs?topic=c&limit=1", ""},
    {"POST /v1/jobs/shift?topic=c&by=1h", ""},
    {"POST /v1/jobs/cancel?topic=c", ""},
    {"DELETE /v1/jobs/1?force=true", ""},
    {"PUT /v1/topics/a", "{\"ttr\":\"5s\",\"backoff\":\"1s,2s\",\"paused\":\"no\"}"},
    {"POST /v1/topics/d/pause?for=1s", ""},
    {"POST /v1/topics/d/resume", ""},
    {"GET /v1/topics", ""},
    {"GET /v1/topics?limit=2&match=a", ""},
    {"GET /v1/topics?sort=delayed&limit=2", ""},
    {"GET /v1/whoami", ""},
    {"PUT /v1/schedules/s", "{\"topic\":\"a\",\"every\":\"5s\",\"dry_run\":true}"},
    {"GET /ui/app.js", ""},
    {"DELETE /v1/topics/a?force=true", ""},
    {"GET /v1/forecast", ""},
    {"GET /v1/stats", ""},
    {"GET /v1/config", ""},
    {"GET /readyz", ""},
    {"GET /openapi.json", ""},
    {"POST /v1/topics/b/purge", ""},
    {"GET /nothing", ""},
};

static void say_everything(struct wire *w)
{
    for (size_t i = 0; i < sizeof everything / sizeof everything[0]; i++) {
        ask(w, 0, everything[i][0], everything[i][1]);
    }
}

/* In pieces of any size the same is answered. */
static void test_http_pieces(void **state)
{
    static const size_t pieces[] = {0, 1, 7, 100};
    uint8_t *first = NULL;
    size_t len = 0;

    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct wire w;

        start(&w);
        w.piece = pieces[i];
        say_everything(&w);
        wire_settle(&w);
        if (i == 0) {
            len = w.clients[0].got_len;
            first = malloc(len);
            memcpy(first, w.clients[0].got, len);
        }
        assert_int_equal(w.clients[0].got_len, len);
        assert_memory_equal(w.clients[0].got, first, len);
        wire_fini(&w);
    }
    free(first);
}

/* Whatever request for memory fails, and from then on: no crash, no leak, nothing half done. */
static void test_http_out_of_memory(void **state)
{
    bool reached = true;

    (void)state;
    for (uint64_t n = 1; reached; n++) {
        struct wire w;
        uint64_t calls;

        start(&w);
        calls = w.rig.mem.calls;
        w.rig.mem.fail_at = calls + n;
        w.rig.mem.fail_on = n % 2 == 0;
        say_everything(&w);
        ask(&w, 1, "POST /v1/topics/b/reserve?wait=1s", "");
        wire_settle(&w);
        reached = w.rig.mem.calls >= calls + n;
        w.rig.mem.fail_at = 0;
        w.rig.mem.fail_on = false;
        assert_true(tr_engine_ok(w.rig.e));
        wire_fini(&w);
        assert_true(n < 2000);
    }
}

static void test_http_files(void **state)
{
    static const struct tr_http_file files[] = {
        {"index.html", "text/html", "\"t1\"", (const uint8_t *)"<p>", 3},
        {"app.js", "text/javascript", "\"t2\"", (const uint8_t *)"1", 1},
        {0},
    };
    struct wire w;

    (void)state;
    start(&w);
    ask(&w, 0, "GET /", "");
    wire_settle(&w);
    assert_true(heard(&w, 0, "404 Not Found") && heard(&w, 0, "no_file")); /* built without */
    forget(&w, 0);
    w.http.files = files;
    ask(&w, 0, "GET /", "");
    wire_settle(&w);
    assert_true(heard(&w, 0, "200 OK") && heard(&w, 0, "text/html") && heard(&w, 0, "<p>"));
    forget(&w, 0);
    ask(&w, 0, "HEAD /ui/index.html", "");
    wire_settle(&w);
    assert_true(heard(&w, 0, "Content-Length: 3\r\n\r\n") && !heard(&w, 0, "<p>"));
    forget(&w, 0);
    ask(&w, 0, "GET /ui/app", "");
    wire_settle(&w);
    assert_true(heard(&w, 0, "404 Not Found"));
    forget(&w, 0);
    say(&w, 0, "GET /ui/app.js HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: W/\"t2\"\r\n\r\n");
    wire_settle(&w);
    assert_true(heard(&w, 0, "304 Not Modified") && heard(&w, 0, "ETag: \"t2\""));
    forget(&w, 0);
    say(&w, 0, "GET /ui/app.js HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"t1\"\r\n\r\n");
    wire_settle(&w);
    assert_true(heard(&w, 0, "200 OK") && heard(&w, 0, "nosniff"));
    wire_fini(&w);
}

/* The one with the most first; of those with as many the older one. */
static void test_http_ranks(void **state)
{
    static const char *const topics[] = {"one", "three", "two", "none", "three-too"};
    static const unsigned counts[] = {1, 3, 2, 0, 3};
    static const char *const order[] = {"three\"", "three-too\"", "two\"", "one\""};
    char line[64];
    struct wire w;

    (void)state;
    start(&w);
    for (unsigned i = 0; i < 5; i++) {
        tr_text(line, sizeof line, "PUT /v1/topics/%s", topics[i]);
        ask(&w, 0, line, "{\"retries\":1}");
        for (unsigned n = 0; n < counts[i]; n++) {
            tr_text(line, sizeof line, "POST /v1/topics/%s/jobs?delay=1h", topics[i]);
            ask(&w, 0, line, "x");
        }
    }
    wire_settle(&w);
    for (unsigned limit = 1; limit <= 5; limit++) {
        char got[64];

        forget(&w, 0);
        tr_text(line, sizeof line, "GET /v1/topics?sort=delayed&limit=%u", limit);
        ask(&w, 0, line, "");
        wire_settle(&w);
        assert_true(heard(&w, 0, "\"matched\":5")); /* without "default", which nobody made */
        find(&w, 0, "{\"topics\":[{\"name\":\"", got);
        assert_string_equal(got, "three");
        for (unsigned i = 0; i < 4; i++) {
            tr_text(line, sizeof line, "{\"name\":\"%s", order[i]);
            assert_int_equal(heard(&w, 0, line), i < limit);
        }
    }
    wire_fini(&w);
}

static void test_http_output_is_bounded(void **state)
{
    struct wire w;

    (void)state;
    start(&w);
    w.http.output_max = 4096;
    w.deaf = true;
    for (unsigned i = 0; i < 500; i++) {
        ask(&w, 0, "GET /v1/jobs/1", "");
    }
    wire_settle(&w);
    assert_in_range(tr_output_len(&w.clients[0].http.out), 4096, 8192);
    assert_int_equal(tr_http_proto.want(&w.clients[0].http), TR_WANT_DRAIN);
    w.deaf = false;
    wire_settle(&w);
    assert_int_equal(w.clients[0].in_len, 0);
    wire_fini(&w);
}

/* Who is turned away hears it once, in words, and is closed; whether we live he may know. */
static void test_http_turned_away(void **state)
{
    static const struct {
        enum tr_turn_away why;
        const char *path;
        const char *status;
    } cases[] = {
        {TR_TURN_AWAY_FULL, "GET /v1/stats", "503"},
        {TR_TURN_AWAY_ADDRESS, "POST /v1/topics/t/jobs", "429"},
        {TR_TURN_AWAY_FULL, "GET /healthz", "200"},
        {TR_TURN_AWAY_FULL, "GET /nowhere", "404"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wire w;
        struct tr_hs *s = &w.clients[0].http;

        start(&w);
        say(&w, 0, "");
        tr_http_proto.turn_away(s, cases[i].why);
        ask(&w, 0, cases[i].path, strncmp(cases[i].path, "POST", 4) == 0 ? "x" : "");
        wire_settle(&w);
        assert_true(heard(&w, 0, cases[i].status));
        assert_true(w.clients[0].closed);
        wire_fini(&w);
    }
}

static void test_http_patience(void **state)
{
    struct wire w;
    struct tr_hs *s = &w.clients[0].http;
    uint64_t request;

    (void)state;
    start(&w);
    say(&w, 0, "");
    assert_int_equal(tr_http_proto.patience(s, &request), TR_PATIENCE_IDLE);
    say(&w, 0, "POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\n");
    wire_settle(&w);
    assert_int_equal(tr_http_proto.patience(s, &request), TR_PATIENCE_HEAD);
    assert_int_equal(request, 0);
    say(&w, 0, "Content-Length: 3\r\n\r\nab");
    wire_settle(&w);
    assert_int_equal(tr_http_proto.patience(s, &request), TR_PATIENCE_BODY);
    say(&w, 0, "c");
    ask(&w, 0, "POST /v1/topics/other/reserve?wait=60s", "");
    wire_settle(&w);
    assert_int_equal(tr_http_proto.patience(s, &request), TR_PATIENCE_ENDLESS);
    assert_int_equal(request, 2);
    wire_pass(&w, 61 * RIG_SECOND);
    assert_true(heard(&w, 0, "204"));
    say(&w, 0, "GET /");
    wire_settle(&w);
    tr_http_proto.late(s, w.rig.now);
    wire_settle(&w);
    assert_true(heard(&w, 0, "408 Request Timeout"));
    assert_true(w.clients[0].closed);
    wire_fini(&w);
}

/* A body of JSON that takes long is read in several goes. */
static void test_http_many_steps_give_way(void **state)
{
    struct wire w;
    char *text = malloc(300000);
    size_t len = 1;

    (void)state;
    start(&w);
    text[0] = '[';
    while (len < 60000) {
        len += (size_t)snprintf(text + len, 100, "%s{\"topic\":\"t\",\"body\":\"%u\"}",
                                len > 1 ? "," : "", (unsigned)len);
    }
    text[len++] = ']';
    text[len] = '\0';
    say(&w, 0, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    {
        char head[32];

        tr_text(head, sizeof head, "%x\r\n", (unsigned)len);
        say(&w, 0, head);
    }
    wire_send(&w, 0, text, len);
    say(&w, 0, "\r\n0\r\n\r\n");
    assert_int_equal(
        tr_http_proto.feed(&w.clients[0].http, w.clients[0].in, w.clients[0].in_len, w.rig.now),
        w.clients[0].in_len);
    assert_int_equal(tr_http_proto.want(&w.clients[0].http), TR_WANT_TURN);
    w.clients[0].in_len = 0;
    wire_settle(&w);
    assert_true(heard(&w, 0, "200 OK"));
    assert_true(rig_engine_stat(&w.rig).jobs > 1000);
    free(text);
    wire_fini(&w);
}

/* Sends so many acks of jobs that are not there, in one request. */
static void ack_many(struct wire *w, unsigned i, unsigned count)
{
    static const char item[] = ",{\"id\":\"99\",\"lease\":\"x\"}";
    size_t len = strlen(item);
    char head[128];

    tr_text(head, sizeof head,
            "POST /v1/ack HTTP/1.1\r\nHost: localhost\r\nContent-Length: %u\r\n\r\n",
            (unsigned)(count * len + 1));
    say(w, i, head);
    for (unsigned k = 0; k < count; k++) {
        say(w, i, k == 0 ? "[" : ",");
        wire_send(w, i, item + 1, len - 1);
    }
    say(w, i, "]");
}

/* A long reply is copied into the output as the client reads it, not in one piece. */
static void test_http_long_reply_comes_in_pieces(void **state)
{
    enum { MANY = 5000 };
    struct wire w;
    struct tr_hs *s = &w.clients[0].http;
    size_t head = 0;
    unsigned length;

    (void)state;
    start(&w);
    w.http.output_max = 65536;
    w.deaf = true;
    ack_many(&w, 0, MANY);
    ask(&w, 0, "GET /healthz", "");
    wire_settle(&w);
    assert_int_equal(tr_http_proto.want(s), TR_WANT_DRAIN);
    assert_true(tr_output_len(&s->out) >= 65536);
    assert_true(tr_output_len(&s->out) < 3 * 65536); /* of half a megabyte */
    w.deaf = false;
    wire_settle(&w);
    assert_true(heard(&w, 0, "{\"results\":[{\"id\":\"99\",\"error\":{"));
    while (memcmp(w.clients[0].got + head, "\r\n\r\n", 4) != 0) {
        head++;
    }
    head += 4;
    {
        char digits[64];

        find(&w, 0, "Content-Length: ", digits);
        length = (unsigned)strtoul(digits, NULL, 10);
    }
    assert_true(length > (unsigned)MANY * 70);
    assert_memory_equal(w.clients[0].got + head + length - 4, "}}]}", 4);
    assert_memory_equal(w.clients[0].got + head + length, "HTTP/1.1 200 OK", 15);
    wire_fini(&w);
}

/* Who goes while he is told of jobs never had them, whatever of it is in the output. */
static void test_http_long_reply_of_a_client_that_left(void **state)
{
    struct wire w;
    char body[2001];

    (void)state;
    start(&w);
    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    for (unsigned i = 0; i < 100; i++) {
        char text[2200];

        tr_text(
            text, sizeof text,
            "POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n%s",
            body);
        say(&w, 1, text);
        wire_settle(&w);
    }
    w.http.output_max = 4096;
    w.deaf = true;
    ask(&w, 0, "POST /v1/topics/t/reserve?count=100", "");
    wire_settle(&w);
    assert_int_equal(rig_engine_stat(&w.rig).reserved, 100);
    assert_true(tr_output_len(&w.clients[0].http.out) < 100000);
    wire_close(&w, 0);
    wire_settle(&w);
    assert_int_equal(rig_engine_stat(&w.rig).reserved, 0);
    assert_int_equal(rig_engine_stat(&w.rig).ready, 100);
    assert_int_equal(rig_view(&w.rig, 1).reserves, 0);
    wire_fini(&w);
}

/* Who waits for a topic that is there does not hold it, and gets its next job all the same, also
 * when the topic had none and was forgotten by everybody else. */
static void test_http_wait_for_a_topic(void **state)
{
    struct wire w;
    uint32_t t;

    (void)state;
    start(&w);
    t = rig_hold(&w.rig, "t");
    ask(&w, 0, "POST /v1/topics/t/reserve?wait=60s", "");
    ask(&w, 1, "POST /v1/reserve?topics=t,new&wait=60s", "");
    ask(&w, 2, "POST /v1/topics/fresh/reserve?wait=60s", "");
    wire_settle(&w);
    assert_int_equal(rig_stat(&w.rig, t).holds[TR_HOLD_WATCH], 1); /* of the second */
    assert_int_equal(rig_stat(&w.rig, t).waiting, 2);
    {
        struct ask drop = rig_ask(TR_OP_DROP_TOPIC);

        drop.req.topic = t;
        drop.req.hold = TR_HOLD_USE;
        assert_int_equal(rig_do(&w.rig, &drop), TARRY_OK);
    }
    for (unsigned i = 0; i < 3; i++) {
        static const char *const lines[] = {"POST /v1/topics/t/jobs", "POST /v1/topics/new/jobs",
                                            "POST /v1/topics/fresh/jobs"};

        ask(&w, 3, lines[i], "x");
        wire_settle(&w);
        assert_true(heard(&w, i, "\"jobs\":[{\"id\""));
    }
    assert_int_equal(rig_stat(&w.rig, t).holds[TR_HOLD_WATCH], 0);
    wire_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http_long_reply_comes_in_pieces),
        cmocka_unit_test(test_http_long_reply_of_a_client_that_left),
        cmocka_unit_test(test_http_wait_for_a_topic),
        cmocka_unit_test(test_http_no_reply_before_the_disk),
        cmocka_unit_test(test_http_waits_for_the_store),
        cmocka_unit_test(test_http_refuses_while_the_store_is_opened),
        cmocka_unit_test(test_http_pipelined_pushes_are_one_batch),
        cmocka_unit_test(test_http_job_of_a_client_that_left_is_not_counted),
        cmocka_unit_test(test_http_waiting_client_that_left_gets_nothing),
        cmocka_unit_test(test_http_pipelined_before_the_end),
        cmocka_unit_test(test_http_old_lease_is_refused),
        cmocka_unit_test(test_http_pieces),
        cmocka_unit_test(test_http_out_of_memory),
        cmocka_unit_test(test_http_files),
        cmocka_unit_test(test_http_ranks),
        cmocka_unit_test(test_http_output_is_bounded),
        cmocka_unit_test(test_http_turned_away),
        cmocka_unit_test(test_http_patience),
        cmocka_unit_test(test_http_many_steps_give_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
