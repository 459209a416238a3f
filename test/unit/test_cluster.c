/* The engine on Redis, over connections on which the test answers each command by hand. */

#include "cluster/engine.h"

#include "base/err.h"
#include "cluster/header.h"
#include "cluster/hex.h"
#include "cluster/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)
#define NOW UINT64_C(1800000000000000)

enum { SENT = 256, ARGS = 64, WAKE = 512, CONNS = 520 };

/* A command that was sent. */
struct sent {
    unsigned conn;
    uint64_t tag;
    char *args[ARGS];
    size_t lens[ARGS];
    unsigned count;
    bool answered;
};

struct rig {
    struct tr_mem mem;
    struct tr_cluster *engine;
    struct tr_redis_ear ear;
    struct tr_now now;
    struct sent sent[SENT];
    unsigned sent_count;
    bool dialed[CONNS];
    unsigned closes;
    char server[CONNS][32];
    unsigned notices;
};

/* ---- the port ---- */

static void port_connect(void *ctx, unsigned conn, const char *server)
{
    struct rig *g = ctx;

    assert_false(g->dialed[conn]);
    g->dialed[conn] = true;
    (void)snprintf(g->server[conn], sizeof g->server[conn], "%s", server);
}

static void port_send(void *ctx, unsigned conn, uint64_t tag, const struct tr_span *args,
                      unsigned count)
{
    struct rig *g = ctx;
    struct sent *s = &g->sent[g->sent_count++];

    assert_true(g->dialed[conn]);
    assert_true(g->sent_count < SENT);
    *s = (struct sent){.conn = conn, .tag = tag, .count = count < ARGS ? count : ARGS};
    for (unsigned i = 0; i < s->count; i++) {
        s->args[i] = malloc(args[i].len + 1);
        assert_non_null(s->args[i]);
        memcpy(s->args[i], args[i].at, args[i].len);
        s->args[i][args[i].len] = '\0';
        s->lens[i] = args[i].len;
    }
}

static void port_close(void *ctx, unsigned conn)
{
    struct rig *g = ctx;

    assert_true(g->dialed[conn]);
    g->dialed[conn] = false;
    g->closes += conn == 0;
    for (unsigned i = 0; i < g->sent_count; i++) {
        if (g->sent[i].conn == conn) {
            g->sent[i].answered = true;
        }
    }
}

static void notice(void *ctx, enum tr_notice kind, const char *text)
{
    (void)kind;
    (void)text;
    ((struct rig *)ctx)->notices++;
}

/* ---- what the test does ---- */

static uint64_t turn(struct rig *g)
{
    return tr_cluster_turn(g->engine, g->now);
}

static void pass(struct rig *g, uint64_t us)
{
    g->now.boot_us += us;
    g->now.wall_us += us;
    (void)turn(g);
}

static void begin(struct rig *g)
{
    static const char *const servers[] = {"one:1"};
    struct tr_cluster_config config;

    memset(g, 0, sizeof *g);
    tr_mem_init(&g->mem, 0);
    g->now = (struct tr_now){.wall_us = NOW, .boot_us = 10 * SECOND};
    tr_cluster_config_init(&config, &g->mem);
    config.slots = 4;
    config.servers = servers;
    config.server_count = 1;
    config.node = UINT64_C(0x1122334455667788);
    config.uuid = "000102030405060708090a0b0c0d0e0f";
    config.port = (struct tr_redis_port){
        .ctx = g, .connect = port_connect, .send = port_send, .close = port_close};
    config.ctx = g;
    config.notice = notice;
    assert_int_equal(tr_cluster_new(&config, g->now, &g->engine), TARRY_OK);
    g->ear = tr_cluster_ear(g->engine);
}

static void finish(struct rig *g)
{
    g->mem.fail_at = 0;
    tr_cluster_free(g->engine);
    for (unsigned i = 0; i < g->sent_count; i++) {
        for (unsigned k = 0; k < g->sent[i].count; k++) {
            free(g->sent[i].args[k]);
        }
    }
    assert_int_equal(g->mem.used_bytes, 0);
}

static bool is_script(const struct sent *s, int script)
{
    return script >= 0 && s->count > 2 &&
           (strcmp(s->args[1], tr_scripts[script].sha) == 0 ||
            (strcmp(s->args[0], "EVAL") == 0 && s->lens[1] == tr_scripts[script].len &&
             memcmp(s->args[1], tr_scripts[script].text, s->lens[1]) == 0));
}

/* The first that waits for an answer: a command, or a script. */
static struct sent *find(struct rig *g, const char *command, int script)
{
    for (unsigned i = 0; i < g->sent_count; i++) {
        struct sent *s = &g->sent[i];

        if (!s->answered &&
            (script >= 0 ? is_script(s, script) : strcmp(s->args[0], command) == 0)) {
            return s;
        }
    }
    return NULL;
}

static const char good_info[] = "redis_version:7.0.15\r\nrun_id:aa\r\nmaster_replid:bb\r\n"
                                "role:master\r\nmaxmemory_policy:noeviction\r\n"
                                "cluster_enabled:0\r\n";

/* Answers come in order: what was asked before for the map and for housekeeping. */
static void answer_before(struct rig *g, const struct sent *s)
{
    struct tr_span info = {good_info, sizeof good_info - 1};
    struct tr_redis_reply nothing = {.event = TR_REDIS_LIST};
    struct tr_redis_reply known = {.event = TR_REDIS_LIST, .items = &info, .count = 1};
    struct tr_redis_reply alone = {.event = TR_REDIS_ERROR, .error = {"ERR disabled", 12}};

    for (struct sent *other = g->sent; other < s; other++) {
        if (!other->answered && other->conn == s->conn && other->tag != 0) {
            const char *name = other->args[0];

            other->answered = true;
            assert_true(strcmp(name, "ZRANGE") == 0 || strcmp(name, "INFO") == 0 ||
                        strcmp(name, "CLUSTER") == 0);
            g->ear.heard(g->ear.ctx, other->conn, other->tag,
                         name[0] == 'Z'   ? &nothing
                         : name[0] == 'I' ? &known
                                          : &alone,
                         g->now);
        }
    }
}

static void answer(struct rig *g, struct sent *s, const struct tr_redis_reply *reply)
{
    assert_non_null(s);
    answer_before(g, s);
    s->answered = true;
    g->ear.heard(g->ear.ctx, s->conn, s->tag, reply, g->now);
    (void)turn(g);
}

static void say(struct rig *g, struct sent *s, const struct tr_span *items, size_t count)
{
    answer(g, s, &(struct tr_redis_reply){.event = TR_REDIS_LIST, .items = items, .count = count});
}

static void say_text(struct rig *g, struct sent *s, const char *text)
{
    struct tr_span item = {text, text != NULL ? strlen(text) : 0};

    say(g, s, &item, 1);
}

static void say_error(struct rig *g, struct sent *s, const char *text)
{
    answer(g, s, &(struct tr_redis_reply){.event = TR_REDIS_ERROR, .error = {text, strlen(text)}});
}

#define SPAN(text)                                                                                 \
    {                                                                                              \
        (text), strlen(text)                                                                       \
    }

#define SPAN_OF(text)                                                                              \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }

static void say_beat(struct rig *g)
{
    struct tr_span items[] = {SPAN("OK"),
                              SPAN("1800000000000000"),
                              SPAN("1800000010000000"),
                              SPAN("1"),
                              SPAN("4"),
                              SPAN("tarry:"),
                              SPAN("000102030405060708090a0b0c0d0e0f"),
                              SPAN("1122334455667788"),
                              SPAN("")};

    say(g, find(g, NULL, TR_SCRIPT_BEAT), items, sizeof items / sizeof items[0]);
}

/* A server in no cluster, and the store is there. */
static void open_engine(struct rig *g)
{
    begin(g);
    (void)turn(g);
    assert_true(g->dialed[0]);
    assert_string_equal(g->server[0], "one:1");
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), good_info);
    assert_int_equal(tr_cluster_stage(g->engine), TR_ENGINE_OPENING);
    if (find(g, "CLUSTER", -1) != NULL) {
        say_error(g, find(g, "CLUSTER", -1), "ERR This instance has cluster support disabled");
    }
    say_beat(g);
    assert_int_equal(tr_cluster_stage(g->engine), TR_ENGINE_OPEN);
}

/* ---- requests ---- */

struct ask {
    struct tr_req r;
    unsigned done;
    int status;
    uint64_t id;
    uint64_t lease;
    char body[32];
};

static void done(struct tr_req *r)
{
    struct ask *a = r->ctx;

    a->done++;
    a->status = r->out.status;
    a->id = r->out.job.id;
    a->lease = r->out.job.lease;
    if (r->out.job.body != NULL && r->out.job.body_len < sizeof a->body) {
        memcpy(a->body, r->out.job.body, r->out.job.body_len);
    }
}

static void submit(struct rig *g, struct ask *a, enum tr_op op)
{
    a->r.op = op;
    a->r.done = done;
    a->r.ctx = a;
    tr_cluster_submit(g->engine, &a->r, g->now);
}

static uint32_t hold(struct rig *g, const char *name)
{
    struct ask a = {.r = {.name = name, .name_len = strlen(name), .hold = TR_HOLD_USE}};

    submit(g, &a, TR_OP_HOLD_TOPIC);
    assert_int_equal(a.done, 1);
    assert_int_equal(a.status, TARRY_OK);
    return a.r.out.topic;
}

/* Nothing stands in the list of topics; one that is noted. */
static void say_topics(struct rig *g)
{
    struct sent *s;

    while ((s = find(g, "HMGET", -1)) != NULL) {
        struct tr_span none[ARGS] = {{0}};

        say(g, s, none, s->count - 2);
    }
    while ((s = find(g, NULL, TR_SCRIPT_TOPIC)) != NULL) {
        struct tr_span items[] = {SPAN("OK"), SPAN("00000000-")};

        say(g, s, items, 2);
    }
}

static void say_pushed(struct rig *g, struct sent *s, const char *const *ids, unsigned count)
{
    struct tr_span items[16] = {SPAN("OK"), SPAN("06651728e2a000"), SPAN("00000000"), SPAN("")};
    char texts[8][40];

    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "N%s06651728e2a000", ids[i]);
        items[4 + i] = (struct tr_span)SPAN(texts[i]);
    }
    say(g, s, items, 4 + count);
}

static struct ask push_of(uint32_t topic, const char *body)
{
    return (struct ask){
        .r = {.topic = topic, .body = (const uint8_t *)body, .body_len = strlen(body)}};
}

/* ---- tests ---- */

static void test_cluster_opens(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.id = 4096}};
    struct tr_reason reasons[TR_REASONS];

    (void)state;
    assert_non_null(g);
    begin(g);
    submit(g, &a, TR_OP_PEEK); /* nobody knows yet whether this is the right store */
    assert_int_equal(a.status, TARRY_EAWAY);
    assert_int_equal(tr_cluster_unready(g->engine, reasons), 1);
    assert_string_equal(reasons[0].code, "redis_away");
    (void)hold(g, "default"); /* names are no business of Redis' */
    finish(g);
    open_engine(g);
    assert_int_equal(tr_cluster_unready(g->engine, reasons), 0);
    assert_int_equal(tr_cluster_uuid(g->engine)[15], 15);
    finish(g);
    free(g);
}

static void test_cluster_map(void **state)
{
    static const char info[] = "redis_version:7.2.1\r\nrun_id:aa\r\nmaxmemory_policy:noeviction\r\n"
                               "cluster_enabled:1\r\n";
    static const char map[] =
        "id1 10.0.0.1:7000@17000,host myself,slave id2 0 0 1 connected\n"
        "id2 10.0.0.2:7001@17001 master - 0 0 1 connected 0-8000 [7000->-id3]\n"
        "id3 ::1:7002@17002 master - 0 0 1 connected 8001-16382 16383\n"
        "id4 10.0.0.4:7003@17003 master,fail - 0 0 1 disconnected 0-16383\n";
    struct rig *g = malloc(sizeof *g);
    struct tr_cluster_stat stat;

    (void)state;
    assert_non_null(g);
    begin(g);
    (void)turn(g);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), info);
    say_text(g, find(g, "CLUSTER", -1), map);
    tr_cluster_stat(g->engine, &stat);
    assert_int_equal(stat.servers, 3); /* the replica and the failed one have nothing */
    assert_true(strcmp(g->server[1], "10.0.0.2:7001") == 0 ||
                strcmp(g->server[2], "::1:7002") == 0); /* whoever has {meta} */
    finish(g);
    free(g);
}

/* The message names what was found. */
static void refused(const char *info, const char *code, const char *found)
{
    struct rig *g = malloc(sizeof *g);
    struct tr_reason reasons[TR_REASONS];

    assert_non_null(g);
    begin(g);
    (void)turn(g);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), info);
    assert_int_equal(tr_cluster_stage(g->engine), TR_ENGINE_REFUSED);
    assert_int_equal(tr_cluster_unready(g->engine, reasons), 1);
    assert_string_equal(reasons[0].code, code);
    assert_non_null(strstr(reasons[0].message, found));
    finish(g);
    free(g);
}

static void test_cluster_refuses(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct tr_span differs[] = {SPAN("DIFFERS"), SPAN("1"), SPAN("256"), SPAN("tarry:"), SPAN("x")};
    struct tr_reason reasons[TR_REASONS];

    (void)state;
    assert_non_null(g);
    refused("redis_version:6.2.0\r\nrun_id:aa\r\n", "redis_version", "6.2.0");
    refused("redis_version:7.0.0\r\nrun_id:aa\r\nmaxmemory_policy:allkeys-lru\r\n",
            "redis_eviction", "allkeys-lru");
    begin(g);
    (void)turn(g);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), good_info);
    say(g, find(g, NULL, TR_SCRIPT_BEAT), differs, 5);
    assert_int_equal(tr_cluster_stage(g->engine), TR_ENGINE_REFUSED);
    assert_int_equal(tr_cluster_unready(g->engine, reasons), 1);
    assert_string_equal(reasons[0].code, "redis_layout");
    assert_non_null(strstr(reasons[0].message, "256"));
    finish(g);
    free(g);
}

/* The last argument of a script that is under way. */
static const char *last_of(struct rig *g, enum tr_script_name script)
{
    const struct sent *s = find(g, NULL, (int)script);

    assert_non_null(s);
    return s->args[s->count - 1];
}

/* A slot that is not there: its ids begin where nobody was, unless the store was made just now. */
static void checked(struct rig *g, uint32_t topic, const char *fresh)
{
    static const char *const ids[] = {"00000000001401"};
    struct ask a = push_of(topic, "body");

    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say_topics(g);
    say_text(g, find(g, NULL, TR_SCRIPT_PUSH), "NOSLOT");
    assert_string_equal(last_of(g, TR_SCRIPT_CHECK), fresh);
    find(g, NULL, TR_SCRIPT_CHECK)->answered = true;
    say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
    assert_int_equal(a.status, TARRY_OK);
}

static const char *run_of(struct rig *g, enum tr_script_name script)
{
    const struct sent *s = find(g, NULL, (int)script);

    assert_non_null(s);
    return s->args[3 + strtoul(s->args[2], NULL, 10) + 1];
}

/* The server is another one though the connection stays: `check` tells, and so it is called then.
 */
static void test_cluster_another_life(void **state)
{
    static const char *const ids[] = {"00000000001401"};
    static const struct tr_span same[] = {SPAN_OF("OK"), SPAN_OF("same"), SPAN_OF("0"), SPAN_OF(""),
                                          SPAN_OF("cc")};
    struct rig *g = malloc(sizeof *g);
    struct ask a;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    a = push_of(hold(g, "orders"), "body");
    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say_topics(g);
    assert_string_equal(run_of(g, TR_SCRIPT_PUSH), "bb");
    say_text(g, find(g, NULL, TR_SCRIPT_PUSH), "CHECK");
    say(g, find(g, NULL, TR_SCRIPT_CHECK), same, 5);
    say_text(g, find(g, NULL, TR_SCRIPT_PUSH), "CHECK"); /* it was on its way */
    say(g, find(g, NULL, TR_SCRIPT_CHECK), same, 5);
    assert_string_equal(run_of(g, TR_SCRIPT_PUSH), "cc");
    say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
    assert_int_equal(a.status, TARRY_OK);
    finish(g);
    free(g);
}

/* Housekeeping finds nothing to do: no answer is waited for any more. */
static void say_agendas(struct rig *g)
{
    struct sent *s;

    while ((s = find(g, "ZRANGE", -1)) != NULL) {
        say(g, s, NULL, 0);
    }
}

/* An emptied Redis is used on under the same name, and said so once. */
static void test_cluster_emptied(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct tr_reason reasons[TR_REASONS];
    uint32_t topic;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    checked(g, topic, "1");
    say_topics(g);
    say_agendas(g);
    pass(g, 4 * SECOND);
    assert_string_equal(last_of(g, TR_SCRIPT_BEAT), ""); /* nothing is made up for unseen */
    say_text(g, find(g, NULL, TR_SCRIPT_BEAT), "NONE");
    assert_int_equal(g->notices, 1);
    pass(g, 400000);
    assert_string_equal(last_of(g, TR_SCRIPT_BEAT), "000102030405060708090a0b0c0d0e0f");
    say_beat(g);
    assert_int_equal(g->notices, 1);
    assert_int_equal(tr_cluster_stage(g->engine), TR_ENGINE_OPEN);
    assert_int_equal(tr_cluster_unready(g->engine, reasons), 0);
    say_agendas(g);
    pass(g, 6 * SECOND);
    say_beat(g);
    say_agendas(g);
    checked(g, topic, "0");
    finish(g);
    free(g);
}

/* What comes in one round goes as one call, and each is told its own. */
static void test_cluster_batch(void **state)
{
    static const char *const ids[] = {"00000000001401", "00000000001801", "00000000001c01"};
    struct rig *g = malloc(sizeof *g);
    uint32_t topic;
    struct ask a[3];
    struct sent *s;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    for (unsigned i = 0; i < 2; i++) {
        a[i] = push_of(topic, "body");
        submit(g, &a[i], TR_OP_PUSH);
    }
    (void)turn(g);
    say_topics(g);
    s = find(g, NULL, TR_SCRIPT_PUSH);
    assert_non_null(s);
    a[2] = push_of(topic, "late"); /* the call is under way */
    submit(g, &a[2], TR_OP_PUSH);
    (void)turn(g);
    say_pushed(g, s, ids, 2);
    assert_int_equal(a[0].id, 0x1401);
    assert_int_equal(a[1].id, 0x1801);
    assert_int_equal(a[2].done, 0);
    say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids + 2, 1);
    assert_int_equal(a[2].status, TARRY_OK);
    assert_int_equal(a[2].id, 0x1c01);
    assert_false(tr_cluster_busy(g->engine));
    finish(g);
    free(g);
}

static const char *op_of(const struct sent *s)
{
    return s->args[3 + 12 + 3]; /* behind keys, uuid, run, node */
}

/* The server forgot the script; then the answer is lost: the same call comes again. */
static void test_cluster_repeats(void **state)
{
    static const char *const ids[] = {"00000000001401"};
    struct rig *g = malloc(sizeof *g);
    struct ask a;
    struct sent *s;
    char op[20];

    (void)state;
    assert_non_null(g);
    open_engine(g);
    a = push_of(hold(g, "orders"), "body");
    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say_topics(g);
    s = find(g, NULL, TR_SCRIPT_PUSH);
    assert_string_equal(s->args[0], "EVALSHA");
    say_error(g, s, "NOSCRIPT No matching script.");
    s = find(g, NULL, TR_SCRIPT_PUSH);
    assert_string_equal(s->args[0], "EVAL");
    (void)snprintf(op, sizeof op, "%s", op_of(s));
    tr_cluster_abandon(g->engine, &a.r, g->now); /* he leaves, and takes his body along */
    pass(g, SECOND); /* no answer: the connection is of no use any more */
    assert_int_equal(g->closes, 1);
    pass(g, SECOND / 10);
    assert_true(g->dialed[0]);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), good_info);
    s = find(g, NULL, TR_SCRIPT_PUSH);
    assert_non_null(s);
    assert_string_equal(op_of(s), op);
    assert_string_equal(s->args[s->count - 1], "body");
    say_pushed(g, s, ids, 1);
    assert_int_equal(a.done, 0); /* nobody hears of it */
    assert_false(tr_cluster_busy(g->engine));
    finish(g);
    free(g);
}

/* What was sent and lost for good may have been done; what was never sent was not. */
static void test_cluster_gives_up(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a, b;
    uint32_t topic;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    a = push_of(topic, "body");
    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say_topics(g);
    assert_non_null(find(g, NULL, TR_SCRIPT_PUSH));
    g->dialed[0] = false;
    g->ear.closed(g->ear.ctx, 0, "Connection reset by peer", g->now);
    for (unsigned i = 0; i < 40; i++) {
        pass(g, SECOND / 10);
        if (g->dialed[0]) {
            g->dialed[0] = false;
            g->ear.closed(g->ear.ctx, 0, "Connection refused", g->now);
        }
    }
    assert_int_equal(a.status, TARRY_EUNSURE);
    b = push_of(topic, "body");
    submit(g, &b, TR_OP_PUSH); /* no server is there: at once */
    assert_int_equal(b.done, 1);
    assert_int_equal(b.status, TARRY_EAWAY);
    assert_int_equal(tr_cluster_stage(g->engine), TR_ENGINE_OPEN);
    finish(g);
    free(g);
}

static void say_job(struct rig *g, struct sent *s, uint64_t id)
{
    char header[TR_HEADER_MAX];
    char hex[15] = "";
    struct tr_header h = {.set = 'p',
                          .due_us = NOW,
                          .at_us = NOW + 60 * SECOND,
                          .attempts = 1,
                          .retries = TR_RETRIES_TOPIC,
                          .topic = "orders",
                          .topic_len = 6};
    struct tr_span items[9] = {
        SPAN("OK"), SPAN("06651728e2a000"), SPAN("00000000"), SPAN(""), SPAN(""), SPAN("0")};

    for (unsigned i = 0; i < 8; i++) { /* the lease is behind how many */
        h.lease = h.lease << 8 | (uint8_t)s->args[3 + 12 + 6 + 3 + 1][i];
    }
    tr_hex_put(hex, TR_HEX_ID, id);
    items[6] = (struct tr_span)SPAN(hex);
    items[7] = (struct tr_span){header, tr_header_write(header, &h)};
    items[8] = (struct tr_span)SPAN("hello");
    say(g, s, items, id != 0 ? 9 : 6);
}

static void reserve(struct rig *g, struct ask *a, const uint32_t *topic, uint64_t wait_us)
{
    a->r.topics = topic;
    a->r.topic_count = 1;
    a->r.wait_us = wait_us;
    submit(g, a, TR_OP_RESERVE);
    (void)turn(g);
    say_topics(g);
}

static const char edited[] = "Op";

static void say_edited(struct rig *g, const char *what)
{
    struct tr_span items[] = {SPAN("OK"), SPAN("06651728e2a000"), SPAN("00000000"), SPAN(""),
                              SPAN(what)};

    say(g, find(g, NULL, TR_SCRIPT_EDIT), items, 5);
}

/* A connection names no lease: it is that of the hand-out. */
static void test_cluster_holder(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.holder = 7}}, b = {.r = {.holder = 7}}, x = {.r = {.holder = 8}};
    uint32_t topic;
    struct sent *s;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    reserve(g, &a, &topic, 0);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401);
    assert_int_equal(a.status, TARRY_OK);
    assert_string_equal(a.body, "hello");
    assert_true(a.lease >> 32 == 0x11223344);
    x.r.id = 0x1401;
    submit(g, &x, TR_OP_RELEASE); /* not his */
    assert_int_equal(x.status, TARRY_ENOTFOUND);
    b.r.id = 0x1401;
    submit(g, &b, TR_OP_DELETE);
    (void)turn(g);
    s = find(g, NULL, TR_SCRIPT_EDIT);
    assert_non_null(s);
    assert_int_equal(s->args[s->count - 1][0], 'A');
    say_edited(g, edited);
    assert_int_equal(b.status, TARRY_OK);
    finish(g);
    free(g);
}

/* A connection that goes gives its jobs back; who leaves while he is asked for gets none. */
static void test_cluster_goes_back(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.holder = 7}}, b = {0}, close = {.r = {.holder = 7}};
    uint32_t topic;
    struct sent *s;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    reserve(g, &a, &topic, 0);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401);
    submit(g, &close, TR_OP_CLOSE);
    assert_int_equal(close.done, 1); /* at once */
    assert_int_equal(close.r.out.number, 1);
    (void)turn(g);
    s = find(g, NULL, TR_SCRIPT_EDIT);
    assert_int_equal(s->args[s->count - 1][0], 'D');
    say_edited(g, "N");
    reserve(g, &b, &topic, 60 * SECOND);
    tr_cluster_abandon(g->engine, &b.r, g->now);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1801);
    assert_int_equal(b.done, 0);
    s = find(g, NULL, TR_SCRIPT_EDIT);
    assert_non_null(s);
    assert_int_equal(s->args[s->count - 1][0], 'G');
    say_edited(g, "N");
    finish(g);
    free(g);
}

static void test_cluster_waits(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {0}, b = {0};
    uint32_t topic;
    struct tr_span wake[] = {SPAN("key"), SPAN("")};
    struct sent *s;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    g->ear.up(g->ear.ctx, WAKE, g->now); /* the connection that blocks */
    topic = hold(g, "orders");
    reserve(g, &a, &topic, 30 * SECOND);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0);
    assert_int_equal(a.done, 0);
    pass(g, SECOND);
    assert_null(find(g, NULL, TR_SCRIPT_TAKE)); /* nobody polls */
    for (unsigned slot = 0; slot < 4 && find(g, NULL, TR_SCRIPT_TAKE) == NULL; slot++) {
        char text[24];

        (void)snprintf(text, sizeof text, "%u orders 0", slot);
        wake[1] = (struct tr_span)SPAN(text);
        say(g, find(g, "BLPOP", -1), wake, 2);
    }
    s = find(g, NULL, TR_SCRIPT_TAKE);
    assert_non_null(s); /* it was woken */
    say_job(g, s, 0x1401);
    assert_int_equal(a.status, TARRY_OK);
    reserve(g, &b, &topic, SECOND);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0);
    pass(g, SECOND);
    assert_int_equal(b.status, TARRY_ETIMEOUT);
    finish(g);
    free(g);
}

static void test_cluster_unsupported(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {0};

    (void)state;
    assert_non_null(g);
    open_engine(g);
    submit(g, &a, TR_OP_BACKUP);
    assert_int_equal(a.status, TARRY_EUNSUPPORTED);
    assert_non_null(a.r.out.why);
    finish(g);
    free(g);
}

/* Whatever allocation fails, somebody is told, and nothing is left behind. */
static void test_cluster_no_memory(void **state)
{
    static const char *const ids[] = {"00000000001401"};

    (void)state;
    for (uint64_t fail = 1; fail < 40; fail++) {
        struct rig *g = malloc(sizeof *g);
        struct ask a, b = {.r = {.holder = 7}};
        uint32_t topic;

        assert_non_null(g);
        open_engine(g);
        topic = hold(g, "orders");
        g->mem.fail_at = g->mem.calls + fail;
        a = push_of(topic, "body");
        submit(g, &a, TR_OP_PUSH);
        for (unsigned i = 0; i < 5 && a.done == 0; i++) { /* it may try again */
            pass(g, SECOND / 10);
            say_topics(g);
            if (find(g, NULL, TR_SCRIPT_PUSH) != NULL) {
                say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
            }
        }
        assert_int_equal(a.done, 1);
        assert_true(a.status == TARRY_OK || a.status == TARRY_ENOMEM);
        reserve(g, &b, &topic, 0);
        for (unsigned i = 0; i < 5 && b.done == 0; i++) {
            pass(g, SECOND / 10);
            say_topics(g);
            if (find(g, NULL, TR_SCRIPT_TAKE) != NULL) {
                say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401);
            }
        }
        assert_int_equal(b.done, 1);
        assert_true(b.status == TARRY_OK || b.status == TARRY_ENOMEM);
        finish(g);
        free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_opens),        cmocka_unit_test(test_cluster_map),
        cmocka_unit_test(test_cluster_refuses),      cmocka_unit_test(test_cluster_emptied),
        cmocka_unit_test(test_cluster_batch),        cmocka_unit_test(test_cluster_repeats),
        cmocka_unit_test(test_cluster_another_life), cmocka_unit_test(test_cluster_gives_up),
        cmocka_unit_test(test_cluster_holder),       cmocka_unit_test(test_cluster_goes_back),
        cmocka_unit_test(test_cluster_waits),        cmocka_unit_test(test_cluster_unsupported),
        cmocka_unit_test(test_cluster_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
