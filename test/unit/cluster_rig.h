#ifndef TR_TEST_UNIT_CLUSTER_RIG_H
#define TR_TEST_UNIT_CLUSTER_RIG_H

/* The engine on Redis, over connections on which the test answers each command by hand. */

#include "base/err.h"
#include "cluster/engine.h"
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

enum { SENT = 512, ARGS = 800, WAKE = 512, CONNS = 520 };

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

static inline void port_connect(void *ctx, unsigned conn, const char *server)
{
    struct rig *g = ctx;

    assert_false(g->dialed[conn]);
    g->dialed[conn] = true;
    (void)snprintf(g->server[conn], sizeof g->server[conn], "%s", server);
}

static inline void port_send(void *ctx, unsigned conn, uint64_t tag, const struct tr_span *args,
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

static inline void port_close(void *ctx, unsigned conn)
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

static inline void notice(void *ctx, enum tr_notice kind, const char *text)
{
    (void)kind;
    (void)text;
    ((struct rig *)ctx)->notices++;
}

/* ---- what the test does ---- */

static inline uint64_t turn(struct rig *g)
{
    return tr_cluster_turn(g->engine, g->now);
}

static inline void pass(struct rig *g, uint64_t us)
{
    g->now.boot_us += us;
    g->now.wall_us += us;
    (void)turn(g);
}

static inline struct tr_cluster_config config_of(struct rig *g)
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
    return config;
}

static inline void begin(struct rig *g)
{
    struct tr_cluster_config config = config_of(g);

    assert_int_equal(tr_cluster_new(&config, g->now, &g->engine), TARRY_OK);
    g->ear = tr_cluster_ear(g->engine);
}

static inline void finish(struct rig *g)
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

static inline bool is_script(const struct sent *s, int script)
{
    return script >= 0 && s->count > 2 &&
           (strcmp(s->args[1], tr_scripts[script].sha) == 0 ||
            (strcmp(s->args[0], "EVAL") == 0 && s->lens[1] == tr_scripts[script].len &&
             memcmp(s->args[1], tr_scripts[script].text, s->lens[1]) == 0));
}

/* The first that waits for an answer: a command, or a script. */
static inline struct sent *find(struct rig *g, const char *command, int script)
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

/* What was asked on this connection for the map and for housekeeping, of the first so many. */
static inline void answer_first(struct rig *g, unsigned conn, unsigned count)
{
    struct tr_span info = {good_info, sizeof good_info - 1};
    struct tr_redis_reply nothing = {.event = TR_REDIS_LIST};
    struct tr_redis_reply known = {.event = TR_REDIS_LIST, .items = &info, .count = 1};
    struct tr_redis_reply alone = {.event = TR_REDIS_ERROR, .error = {"ERR disabled", 12}};

    for (struct sent *other = g->sent; other < g->sent + count; other++) {
        if (!other->answered && other->conn == conn && other->tag != 0) {
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

static inline void answer(struct rig *g, struct sent *s, const struct tr_redis_reply *reply)
{
    assert_non_null(s);
    answer_first(g, s->conn, (unsigned)(s - g->sent)); /* answers come in order */
    s->answered = true;
    g->ear.heard(g->ear.ctx, s->conn, s->tag, reply, g->now);
    (void)turn(g);
}

static inline void say(struct rig *g, struct sent *s, const struct tr_span *items, size_t count)
{
    answer(g, s, &(struct tr_redis_reply){.event = TR_REDIS_LIST, .items = items, .count = count});
}

static inline void say_text(struct rig *g, struct sent *s, const char *text)
{
    struct tr_span item = {text, text != NULL ? strlen(text) : 0};

    say(g, s, &item, 1);
}

static inline void say_error(struct rig *g, struct sent *s, const char *text)
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

static inline void say_beat(struct rig *g)
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
static inline void open_engine(struct rig *g)
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

static inline void done(struct tr_req *r)
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

static inline void submit(struct rig *g, struct ask *a, enum tr_op op)
{
    a->r.op = op;
    a->r.done = done;
    a->r.ctx = a;
    tr_cluster_submit(g->engine, &a->r, g->now);
}

static inline uint32_t hold(struct rig *g, const char *name)
{
    struct ask a = {.r = {.name = name, .name_len = strlen(name), .hold = TR_HOLD_USE}};

    submit(g, &a, TR_OP_HOLD_TOPIC);
    assert_int_equal(a.done, 1);
    assert_int_equal(a.status, TARRY_OK);
    return a.r.out.topic;
}

/* Nothing stands in the list of topics; one that is noted. */
static inline void say_topics(struct rig *g)
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

static inline void say_pushed(struct rig *g, struct sent *s, const char *const *ids, unsigned count)
{
    struct tr_span items[16] = {SPAN("OK"), SPAN("06651728e2a000"), SPAN("00000000"), SPAN("")};
    char texts[8][40];

    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "N%s06651728e2a000", ids[i]);
        items[4 + i] = (struct tr_span)SPAN(texts[i]);
    }
    say(g, s, items, 4 + count);
}

static inline struct ask push_of(uint32_t topic, const char *body)
{
    return (struct ask){
        .r = {.topic = topic, .body = (const uint8_t *)body, .body_len = strlen(body)}};
}

/* The last argument of a script that is under way. */
static inline const char *last_of(struct rig *g, enum tr_script_name script)
{
    const struct sent *s = find(g, NULL, (int)script);

    assert_non_null(s);
    return s->args[s->count - 1];
}

/* Housekeeping finds nothing to do: no answer is waited for any more. */
static inline void say_agendas(struct rig *g)
{
    struct sent *s;

    while ((s = find(g, "ZRANGE", -1)) != NULL) {
        say(g, s, NULL, 0);
    }
}

static inline const char *op_of(const struct sent *s)
{
    return s->args[3 + 12 + 3]; /* behind keys, uuid, run, node */
}

static inline void say_job(struct rig *g, struct sent *s, uint64_t id)
{
    char header[TR_HEADER_MAX];
    char hex[15] = "";
    struct tr_header h = {.set = 'p',
                          .due_us = NOW,
                          .at_us = NOW + 60 * SECOND,
                          .attempts = 1,
                          .retries = TR_RETRIES_USUAL,
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

static inline void reserve(struct rig *g, struct ask *a, const uint32_t *topic, uint64_t wait_us)
{
    a->r.topics = topic;
    a->r.topic_count = 1;
    a->r.wait_us = wait_us;
    submit(g, a, TR_OP_RESERVE);
    (void)turn(g);
    say_topics(g);
}

static const char edited[] = "Op";

static inline void say_edited(struct rig *g, const char *what)
{
    struct tr_span items[] = {SPAN("OK"), SPAN("06651728e2a000"), SPAN("00000000"), SPAN(""),
                              SPAN(what)};

    say(g, find(g, NULL, TR_SCRIPT_EDIT), items, 5);
}

#endif
