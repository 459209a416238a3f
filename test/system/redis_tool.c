/*
 * Load on a real Redis or Redis Cluster, by the scripts and the client's decisions
 * (cluster/route.c) over the real connections (remote/redis.c), while a test breaks things.
 *
 *     redis-tool SECONDS SEED SERVER[,SERVER...] [PATIENCE]
 *
 * Jobs of sixteen topics in eight slots are pushed, taken, released and acked, a lane for each slot
 * and kind of call, as the engine has them. After so many seconds nothing new is pushed and all is
 * taken, which may take PATIENCE seconds (30). It prints "ready" when the map is known, and at its
 * end one line of counts: `lost` (pushed by an answer, and neither acked nor there), `back` (handed
 * out after an answered ack), `early` (by the server's own clock) are the promises; the rest says
 * what was met on the way.
 */

#include "base/err.h"
#include "base/rng.h"
#include "cluster/answer.h"
#include "cluster/eval.h"
#include "cluster/route.h"
#include "cluster/shards.h"
#include "os/clock_linux.h"
#include "os/loop_linux.h"
#include "os/poller_linux.h"
#include "remote/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOTS = 8,
    TOPICS = 16,
    KINDS = 3, /* as in enum tr_script_name: push, take, edit */
    LANES = SLOTS * KINDS,
    BATCH = 8,
    JOBS_MAX = 400000,
    HANDS = 256,
    CONNS = 32,
    RUN = 128,
    NAME = 64,
};

#define TIMEOUT_US UINT64_C(500000)
#define DEADLINE_US UINT64_C(15000000)
#define LEASE_US UINT64_C(2000000)
#define PAUSE_US UINT64_C(10000) /* between two pushes or takes of a slot */
#define CONNECT_EACH_US UINT64_C(100000)

enum tag_kind { TAG_LANE, TAG_CHECK, TAG_INFO, TAG_MAP, TAG_NONE };

struct job {
    uint8_t topic;
    bool pushed; /* somebody was told so */
    bool doubt;  /* its end, or its beginning, is not known */
    bool acked;
    bool seen;
};

struct hand {
    unsigned serial;
    uint64_t id;
    uint64_t lease;
};

struct lane {
    enum { IDLE, WAITS, SENT, CHECKS } state;
    struct tr_eval eval;
    struct tr_route route;
    struct tr_route_step step;
    char aim[NAME];
    int conn;
    uint64_t at_us;
    uint64_t op;
    uint32_t sends;
    unsigned topic;
    struct tr_eval_topic is; /* the same, for the call */
    unsigned count;
    unsigned serials[BATCH];
    char kinds[BATCH];
    char bodies[BATCH][12];
    struct hand hands[HANDS]; /* of a lane of edits: what is to be ended */
    unsigned hand_count;
};

struct conn {
    bool used;
    bool up;
    unsigned infos; /* answers that it has given */
    char server[NAME];
    char run[RUN];
    uint64_t tried_us;
};

static struct {
    struct tr_loop_linux *loop;
    struct tr_redis *redis;
    struct tr_redis_port port;
    struct tr_mem mem;
    struct tr_rng rng;
    struct tr_layout layout;
    struct tr_shards shards;
    char node[TR_PLACE_NODE_DIGITS + 1];
    struct lane lanes[LANES];
    struct conn conns[CONNS];
    struct job *jobs;
    unsigned job_count;
    uint64_t leases;
    uint64_t stop_us; /* nothing new from then on */
    uint64_t patience_us;
    bool ready;
    uint64_t map_us; /* when it was asked for; 0: it is not */
    uint64_t pushed, taken, acked, back, early, odd;
    uint64_t moved, asks, tryagain, noscript, checks, lost_calls, unsent, unknown, refused, other;
} tool;

static const char uuid[] = "feedfeedfeedfeedfeedfeedfeedfeed";

static uint64_t dice(uint64_t below)
{
    return tr_rng_below(&tool.rng, below);
}

static void topic_name(char out[NAME], unsigned topic)
{
    (void)snprintf(out, NAME, "topic-%u", topic);
}

static unsigned slot_of_topic(unsigned topic)
{
    char name[NAME];

    topic_name(name, topic);
    return tr_place_slot(&tool.layout, name, strlen(name), 0);
}

static uint64_t make_tag(enum tag_kind kind, unsigned lane, uint32_t sends)
{
    return (uint64_t)kind << 56 | (uint64_t)lane << 32 | sends;
}

/* ---- Connections. */

static void send_words(unsigned conn, uint64_t tag, const char *one, const char *two)
{
    struct tr_span args[2] = {{one, strlen(one)}, {two, two != NULL ? strlen(two) : 0}};

    tool.port.send(tool.port.ctx, conn, tag, args, two != NULL ? 2 : 1);
}

/* The connection to a server, which is made if need be; it may not be up. */
static int conn_of(const char *server, uint64_t now_us)
{
    struct conn *c = tool.conns;

    while (strcmp(c->server, server) != 0 && c->server[0] != '\0') {
        c++;
        TR_CHECK(c < tool.conns + CONNS);
    }
    if (c->server[0] == '\0') {
        (void)snprintf(c->server, NAME, "%s", server);
    }
    if (!c->used && now_us >= c->tried_us + CONNECT_EACH_US) {
        c->used = true;
        c->tried_us = now_us;
        tool.port.connect(tool.port.ctx, (unsigned)(c - tool.conns), server);
    }
    return (int)(c - tool.conns);
}

static void hear_lane(unsigned lane, const struct tr_redis_reply *reply, uint64_t now_us);

/* It is gone: what was under way there is lost. */
static void lose(unsigned conn, uint64_t now_us)
{
    struct tr_redis_reply lost = {.event = TR_REDIS_LOST};

    tool.conns[conn].used = false;
    tool.conns[conn].up = false;
    tool.map_us = 0;
    tr_shards_doubt(&tool.shards);
    for (unsigned i = 0; i < LANES; i++) {
        struct lane *l = &tool.lanes[i];

        if (l->conn == (int)conn && (l->state == SENT || l->state == CHECKS)) {
            l->conn = -1;
            tool.lost_calls++;
            if (l->state == CHECKS) { /* harmless: the call itself was answered */
                l->state = WAITS;
            } else {
                hear_lane(i, &lost, now_us);
            }
        }
    }
}

static void hang_up(unsigned conn, uint64_t now_us)
{
    if (tool.conns[conn].used) {
        tool.port.close(tool.port.ctx, conn);
        lose(conn, now_us);
    }
}

static void on_up(void *ctx, unsigned conn, struct tr_now now)
{
    (void)ctx;
    (void)now;
    tool.conns[conn].infos = 0;
    tool.conns[conn].run[0] = '\0';
    send_words(conn, make_tag(TAG_INFO, 0, 0), "INFO", "server");
    send_words(conn, make_tag(TAG_INFO, 0, 0), "INFO", "replication");
}

static void on_closed(void *ctx, unsigned conn, const char *why, struct tr_now now)
{
    (void)ctx;
    (void)why;
    lose(conn, now.boot_us);
}

/* Appends the value of a line of INFO to the run. */
static void note_run(struct conn *c, struct tr_span text, const char *name)
{
    const char *at = memmem(text.at, text.len, name, strlen(name));
    size_t len = strlen(c->run);

    if (at != NULL && (size_t)(text.at + text.len - at) >= strlen(name) + 40) {
        (void)snprintf(c->run + len, RUN - len, "%.40s", at + strlen(name));
    }
}

static void hear_info(struct conn *c, const struct tr_redis_reply *reply)
{
    if (reply->event == TR_REDIS_LIST && reply->count == 1 && reply->items[0].at != NULL) {
        note_run(c, reply->items[0], "master_replid:");
    }
    c->up = ++c->infos == 2;
}

/* ---- The map. */

/* One line of CLUSTER NODES: id, address, flags, primary, ping, pong, epoch, link, hash slots. */
static void read_node(char *line)
{
    char *save = NULL;
    char *words[8] = {NULL};
    char *range;
    int server;

    for (int i = 0; i < 8; i++) {
        words[i] = strtok_r(i == 0 ? line : NULL, " ", &save);
        if (words[i] == NULL) {
            return;
        }
    }
    words[1][strcspn(words[1], "@")] = '\0';
    if (strstr(words[2], "master") == NULL) {
        return;
    }
    server = tr_shards_name(&tool.shards, words[1], strlen(words[1]));
    while ((range = strtok_r(NULL, " ", &save)) != NULL) {
        char *end = range;
        unsigned first = (unsigned)strtoul(range, &end, 10);
        unsigned last = *end == '-' ? (unsigned)strtoul(end + 1, NULL, 10) : first;

        if (end != range && tr_shards_set(&tool.shards, first, last, server) != TARRY_OK) {
            tool.odd++; /* (a range in brackets is on its way, and counts for nobody) */
        }
    }
}

static void hear_map(unsigned conn, const struct tr_redis_reply *reply)
{
    tool.map_us = 0;
    tr_shards_clear(&tool.shards);
    if (reply->event == TR_REDIS_LIST && reply->count == 1) {
        char *text = strndup(reply->items[0].at, reply->items[0].len);
        char *save = NULL;

        TR_CHECK(text != NULL);
        for (char *line = strtok_r(text, "\n", &save); line != NULL;
             line = strtok_r(NULL, "\n", &save)) {
            read_node(line);
        }
        free(text);
    } else { /* no cluster: it has all */
        const char *name = tool.conns[conn].server;
        int err = tr_shards_set(&tool.shards, 0, TR_HASH_SLOTS - 1,
                                tr_shards_name(&tool.shards, name, strlen(name)));

        TR_CHECK(err == TARRY_OK);
    }
    if (!tool.ready) {
        tool.ready = true;
        (void)printf("ready\n");
        (void)fflush(stdout);
    }
}

static void ask_map(uint64_t now_us)
{
    if (tool.map_us != 0 && now_us < tool.map_us + TIMEOUT_US) {
        return;
    }
    for (unsigned i = 0; i < CONNS; i++) { /* those that were named at the start are known here */
        unsigned at = (unsigned)((i + now_us / TIMEOUT_US) % CONNS);

        if (tool.conns[at].server[0] != '\0' &&
            tool.conns[conn_of(tool.conns[at].server, now_us)].up &&
            tr_shards_ask(&tool.shards, now_us)) {
            tool.map_us = now_us;
            send_words(at, make_tag(TAG_MAP, 0, 0), "CLUSTER", "NODES");
            return;
        }
    }
}

/* ---- Calls. */

static void begin(unsigned lane, unsigned topic, uint64_t now_us)
{
    struct lane *l = &tool.lanes[lane];
    static char names[TOPICS][NAME]; /* they are borrowed until the call is answered */
    struct tr_eval_about about = {.layout = &tool.layout,
                                  .slot = lane / KINDS,
                                  .uuid = uuid,
                                  .node = tool.node,
                                  .op = ++l->op,
                                  .topics = &l->is,
                                  .topic_count = 1};

    topic_name(names[topic], topic);
    l->is = (struct tr_eval_topic){names[topic], 1, TR_ORDER_DUE};
    l->state = WAITS;
    l->topic = topic;
    l->count = 0;
    l->at_us = now_us;
    l->aim[0] = '\0';
    l->step = (struct tr_route_step){.what = TR_DO_SEND};
    tr_route_init(&l->route, now_us + DEADLINE_US, true);
    tr_eval_begin(&l->eval, (enum tr_script_name)(lane % KINDS), &about);
}

static void complete(struct lane *l)
{
    int err = tr_eval_end(&l->eval);

    TR_CHECK(err == TARRY_OK);
}

static void start_push(unsigned lane, unsigned topic, uint64_t now_us)
{
    struct lane *l = &tool.lanes[lane];

    begin(lane, topic, now_us);
    tr_eval_push_from(&l->eval, 0, lane / KINDS);
    for (unsigned i = (unsigned)dice(BATCH); i < BATCH && tool.job_count < JOBS_MAX; i++) {
        unsigned serial = tool.job_count++;
        struct tr_req r = {.op = TR_OP_PUSH,
                           .priority = (uint32_t)dice(3),
                           .delay_us = dice(2) != 0 ? dice(300000) : 0,
                           .has_retries = true,
                           .retries = -1,
                           .ttr_us = LEASE_US,
                           .body = (const uint8_t *)l->bodies[l->count]};

        r.body_len = (size_t)snprintf(l->bodies[l->count], sizeof l->bodies[0], "%u", serial);
        tool.jobs[serial].topic = (uint8_t)topic;
        l->serials[l->count] = serial;
        l->kinds[l->count++] = 'p';
        tr_eval_push(&l->eval, 0, &r, 0);
    }
    complete(l);
}

static void start_take(unsigned lane, unsigned topic, uint64_t now_us)
{
    struct lane *l = &tool.lanes[lane];
    struct tr_eval_take t = {.count = BATCH, .bytes = TR_EVAL_BYTES};

    begin(lane, topic, now_us);
    t.lease = strtoull(tool.node, NULL, 16) << 32 | ++tool.leases;
    tr_eval_take(&l->eval, &t);
    complete(l);
}

/* Ends all that is held of one topic, as far as one call may have. */
static void start_edit(unsigned lane, uint64_t now_us)
{
    struct lane *l = &tool.lanes[lane];
    unsigned topic = tool.jobs[l->hands[0].serial].topic;

    begin(lane, topic, now_us);
    for (unsigned i = 0; i < l->hand_count && l->count < BATCH;) {
        struct hand h = l->hands[i];
        bool ack = dice(5) != 0;
        struct tr_req r = {.op = ack ? TR_OP_DELETE : TR_OP_RELEASE,
                           .id = h.id,
                           .lease = h.lease,
                           .keep_priority = true};

        if (tool.jobs[h.serial].topic != topic) {
            i++;
            continue;
        }
        l->hands[i] = l->hands[--l->hand_count];
        l->serials[l->count] = h.serial;
        l->kinds[l->count++] = ack ? 'A' : 'R';
        tr_eval_edit(&l->eval, 0, &r, 0);
    }
    complete(l);
}

static void send_check(unsigned lane)
{
    struct lane *l = &tool.lanes[lane];
    const struct tr_script *s = &tr_scripts[TR_SCRIPT_CHECK];
    char key[TR_PLACE_KEY_MAX];
    size_t len = tr_place_key(key, &tool.layout, lane / KINDS, 0, NULL);
    struct tr_span args[] = {
        {"EVAL", 4}, {s->text, s->len},        {"1", 1}, {key, len}, {uuid, sizeof uuid - 1},
        {"0", 1},    {"9007199254740991", 16}, {"0", 1}};

    tool.checks++;
    l->state = CHECKS;
    tool.port.send(tool.port.ctx, (unsigned)l->conn, make_tag(TAG_CHECK, lane, ++l->sends), args,
                   sizeof args / sizeof args[0]);
}

/* Which connection a lane's call goes to now; -1: none that is there. */
static int aim(const struct lane *l, unsigned slot, uint64_t now_us)
{
    char key[TR_PLACE_KEY_MAX];
    size_t len = tr_place_key(key, &tool.layout, slot, 0, NULL);
    int server = tr_shards_find(&tool.shards, tr_place_hash_slot(key, len));
    int conn = l->conn;

    if (!l->step.text || conn < 0) {
        if (l->aim[0] == '\0' && server < 0) {
            return -1;
        }
        conn = conn_of(l->aim[0] != '\0' ? l->aim : tool.shards.names[server], now_us);
    }
    return tool.conns[conn].up ? conn : -1;
}

static void send_lane(unsigned lane, struct tr_now now)
{
    struct lane *l = &tool.lanes[lane];
    struct tr_redis_reply unsent = {.event = TR_REDIS_UNSENT};
    int conn = aim(l, lane / KINDS, now.boot_us);

    if (conn < 0) {
        tool.unsent++;
        hear_lane(lane, &unsent, now.boot_us);
        return;
    }
    l->conn = conn;
    tr_eval_aim(&l->eval, tool.conns[conn].run, now.wall_us);
    tr_eval_with_text(&l->eval, (enum tr_script_name)(lane % KINDS), l->step.text);
    if (l->step.asking) {
        send_words((unsigned)conn, make_tag(TAG_NONE, 0, 0), "ASKING", NULL);
    }
    l->state = SENT;
    l->at_us = now.boot_us + TIMEOUT_US;
    tool.port.send(tool.port.ctx, (unsigned)conn, make_tag(TAG_LANE, lane, ++l->sends),
                   l->eval.args, l->eval.count);
}

/* ---- Answers. */

static void taken(unsigned lane, const struct tr_answer *a)
{
    struct lane *edits = &tool.lanes[lane + 1];
    struct tr_taken t;
    int err = tr_answer_taken(a, &t);

    TR_CHECK(err == TARRY_OK);
    for (size_t i = 0; i < t.jobs; i++) {
        struct tr_taken_job got;
        char body[12] = "";
        unsigned serial;

        err = tr_answer_taken_job(a, i, &got);
        TR_CHECK(err == TARRY_OK);
        memcpy(body, got.body.at, got.body.len < 11 ? got.body.len : 11);
        serial = (unsigned)strtoul(body, NULL, 10);
        TR_CHECK(serial < tool.job_count);
        tool.taken++;
        tool.jobs[serial].seen = true;
        tool.early += got.header.due_us > a->now_us;
        tool.back += tool.jobs[serial].acked;
        if (edits->hand_count < HANDS) { /* else its lease ends by itself */
            edits->hands[edits->hand_count++] = (struct hand){serial, got.id, got.header.lease};
        }
    }
}

static void edited(struct job *job, char kind, char what)
{
    bool gone = what == 'N';
    bool done = what == 'O';

    if (kind == 'A' && done) {
        tool.acked++;
        tool.odd += job->acked && !job->doubt;
        job->acked = true;
    } else if (gone && !job->acked && !job->doubt) {
        tool.odd++; /* nobody has ended it */
    } else if (!done && !gone && what != 'L' && what != 'S') {
        tool.odd++;
    }
}

static void answered(unsigned lane, const struct tr_redis_reply *reply)
{
    struct lane *l = &tool.lanes[lane];
    struct tr_answer a;
    uint64_t from_us, first;
    bool all_new;
    int err = tr_answer_read(reply, &a);

    TR_CHECK(err == TARRY_OK);
    if (lane % KINDS == TR_SCRIPT_TAKE) {
        taken(lane, &a);
        return;
    }
    all_new = tr_answer_all_new(&a, &from_us, &first);
    TR_CHECK(a.count == l->count || a.count == 1);
    for (unsigned i = 0; i < l->count; i++) {
        struct job *job = &tool.jobs[l->serials[i]];

        if (l->kinds[i] == 'p') {
            struct tr_pushed p = {.what = 'N'};

            err = all_new ? TARRY_OK : tr_answer_pushed(a.items[i], &p);
            TR_CHECK(err == TARRY_OK);
            job->pushed = true;
            tool.pushed++;
            tool.odd += p.what != 'N';
        } else {
            struct tr_edited e;

            err = tr_answer_edited(*tr_answer_item(&a, i), &e);
            TR_CHECK(err == TARRY_OK);
            edited(job, l->kinds[i], e.what);
        }
    }
}

static void count(const struct tr_redis_reply *reply)
{
    if (reply->event == TR_REDIS_ERROR) {
        tool.moved += tr_span_begins(reply->error, "MOVED");
        tool.asks += tr_span_begins(reply->error, "ASK");
        tool.tryagain += tr_span_begins(reply->error, "TRYAGAIN");
        tool.noscript += tr_span_begins(reply->error, "NOSCRIPT");
        tool.other +=
            !tr_span_begins(reply->error, "MOVED") && !tr_span_begins(reply->error, "ASK") &&
            !tr_span_begins(reply->error, "TRYAGAIN") && !tr_span_begins(reply->error, "NOSCRIPT");
    }
}

static void give_up(struct lane *l)
{
    tool.unknown += l->step.why == TR_ROUTE_UNKNOWN;
    if (l->step.why == TR_ROUTE_REFUSED || l->step.why == TR_ROUTE_CLOCK) {
        tool.refused++;
    }
    for (unsigned i = 0; i < l->count && l->step.why == TR_ROUTE_UNKNOWN; i++) {
        tool.jobs[l->serials[i]].doubt = true;
    }
}

static void hear_lane(unsigned lane, const struct tr_redis_reply *reply, uint64_t now_us)
{
    struct lane *l = &tool.lanes[lane];
    int conn = l->conn;

    count(reply);
    l->step = tr_route_next(&l->route, reply, now_us);
    l->state = WAITS;
    l->at_us = l->step.at_us;
    (void)snprintf(l->aim, sizeof l->aim, "%.*s", (int)l->step.server.len,
                   l->step.server.len > 0 ? l->step.server.at : "");
    if (l->step.refresh) {
        tr_shards_doubt(&tool.shards);
    }
    if (l->step.what == TR_DO_ANSWER) {
        l->state = IDLE;
        l->at_us = now_us + PAUSE_US;
        answered(lane, reply);
    } else if (l->step.what == TR_DO_FAIL) {
        l->state = IDLE;
        if (l->step.why == TR_ROUTE_REFUSED && reply->event == TR_REDIS_ERROR) {
            (void)fprintf(stderr, "refused: %.*s\n", (int)reply->error.len, reply->error.at);
        }
        give_up(l);
    } else if (l->step.what == TR_DO_CHECK) {
        send_check(lane);
        l->at_us = now_us + TIMEOUT_US;
    }
    if (l->step.close && conn >= 0) {
        hang_up((unsigned)conn, now_us);
    }
}

static void on_heard(void *ctx, unsigned conn, uint64_t tag, const struct tr_redis_reply *reply,
                     struct tr_now now)
{
    unsigned lane = (unsigned)(tag >> 32 & 0xffff);
    enum tag_kind kind = (enum tag_kind)(tag >> 56);

    (void)ctx;
    if (kind == TAG_INFO) {
        hear_info(&tool.conns[conn], reply);
    } else if (kind == TAG_MAP) {
        hear_map(conn, reply);
    } else if (kind == TAG_LANE && (uint32_t)tag == tool.lanes[lane].sends) {
        hear_lane(lane, reply, now.boot_us);
    } else if (kind == TAG_CHECK && (uint32_t)tag == tool.lanes[lane].sends) {
        if (reply->event == TR_REDIS_LIST && reply->count == 5) { /* which life of a server it is */
            (void)snprintf(tool.conns[conn].run, RUN, "%.*s", (int)reply->items[4].len,
                           reply->items[4].at);
        }
        tool.lanes[lane].state = WAITS; /* whatever it said: the call says what comes next */
        tool.lanes[lane].at_us = now.boot_us;
    }
}

/* ---- The loop. */

static void start_some(unsigned lane, uint64_t now_us)
{
    unsigned topic = (unsigned)dice(TOPICS);
    struct lane *l = &tool.lanes[lane];

    if (lane % KINDS == TR_SCRIPT_EDIT) {
        if (l->hand_count > 0) {
            start_edit(lane, now_us);
        }
        return;
    }
    if (slot_of_topic(topic) != lane / KINDS || now_us < l->at_us) {
        return;
    }
    if (lane % KINDS == TR_SCRIPT_TAKE) {
        start_take(lane, topic, now_us);
    } else if (now_us < tool.stop_us && tool.job_count < JOBS_MAX) {
        start_push(lane, topic, now_us);
    }
}

/* All that was pushed is acked, or in doubt. */
static bool is_drained(void)
{
    for (unsigned i = 0; i < LANES; i++) {
        if (tool.lanes[i].state != IDLE && i % KINDS != TR_SCRIPT_TAKE) {
            return false;
        }
    }
    for (unsigned i = 0; i < tool.job_count; i++) {
        if (tool.jobs[i].pushed && !tool.jobs[i].acked && !tool.jobs[i].doubt) {
            return false;
        }
    }
    return true;
}

static uint64_t on_turn(void *ctx)
{
    struct tr_now now = tr_clock_linux_now();
    uint64_t now_us = now.boot_us;

    (void)ctx;
    ask_map(now_us);
    for (unsigned i = 0; i < LANES && tool.ready; i++) {
        struct lane *l = &tool.lanes[i];

        if (l->state == IDLE) {
            start_some(i, now_us);
        }
        if (l->state == WAITS && now_us >= l->at_us) {
            send_lane(i, now);
        } else if ((l->state == SENT || l->state == CHECKS) && now_us >= l->at_us) {
            hang_up((unsigned)l->conn, now_us);
        }
    }
    tr_redis_flush(tool.redis);
    if ((now_us > tool.stop_us && is_drained()) || now_us > tool.stop_us + tool.patience_us) {
        tr_loop_linux_stop(tool.loop);
    }
    return now_us + 2000;
}

static void on_woken(void *ctx)
{
    (void)ctx;
}

static void on_signal(void *ctx, enum tr_loop_signal what)
{
    (void)ctx;
    (void)what;
    tr_loop_linux_stop(tool.loop);
}

static void report(void)
{
    static const struct {
        const char *name;
        const uint64_t *count;
    } counts[] = {
        {"pushed", &tool.pushed},     {"taken", &tool.taken},     {"acked", &tool.acked},
        {"back", &tool.back},         {"early", &tool.early},     {"odd", &tool.odd},
        {"moved", &tool.moved},       {"asks", &tool.asks},       {"tryagain", &tool.tryagain},
        {"noscript", &tool.noscript}, {"checks", &tool.checks},   {"lost_calls", &tool.lost_calls},
        {"unsent", &tool.unsent},     {"unknown", &tool.unknown}, {"refused", &tool.refused},
        {"other", &tool.other}};
    unsigned lost = 0;

    for (unsigned i = 0; i < tool.job_count; i++) {
        lost += tool.jobs[i].pushed && !tool.jobs[i].acked && !tool.jobs[i].doubt;
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        (void)printf("%s=%llu ", counts[i].name, (unsigned long long)*counts[i].count);
    }
    (void)printf("lost=%u\n", lost);
}

static void open_all(void)
{
    struct tr_loop_calls calls = {.woken = on_woken, .signalled = on_signal, .turn = on_turn};
    struct tr_redis_setup setup = {.mem = &tool.mem, .now = tr_clock_linux_now, .name = "tool"};
    struct tr_redis_ear ear = {.up = on_up, .heard = on_heard, .closed = on_closed};
    int err = tr_layout_init(&tool.layout, "tarry:", SLOTS);

    TR_CHECK(err == TARRY_OK);
    tr_mem_init(&tool.mem, 0);
    err = tr_loop_linux_open(&tool.loop, &calls);
    TR_CHECK(err == TARRY_OK);
    setup.poller = tr_poller_linux(tool.loop);
    err = tr_redis_open(&tool.redis, &setup);
    TR_CHECK(err == TARRY_OK);
    tool.port = tr_redis_port(tool.redis);
    tr_redis_listen(tool.redis, ear);
    tr_shards_init(&tool.shards);
    tool.jobs = calloc(JOBS_MAX, sizeof *tool.jobs);
    TR_CHECK(tool.jobs != NULL);
    for (unsigned i = 0; i < LANES; i++) {
        tr_eval_init(&tool.lanes[i].eval, &tool.mem);
        tool.lanes[i].conn = -1;
    }
}

int main(int argc, char **argv)
{
    uint64_t now_us = tr_clock_linux_now().boot_us;
    char *save = NULL;

    if (argc != 4 && argc != 5) {
        (void)fprintf(stderr, "usage: redis-tool SECONDS SEED SERVER[,SERVER...] [PATIENCE]\n");
        return 2;
    }
    tool.rng.state = strtoull(argv[2], NULL, 10);
    (void)snprintf(tool.node, sizeof tool.node, "%016llx",
                   (unsigned long long)(tr_rng_next(&tool.rng) ^ now_us));
    tool.stop_us = now_us + (uint64_t)(strtod(argv[1], NULL) * 1e6);
    tool.patience_us = (argc == 5 ? strtoull(argv[4], NULL, 10) : 30) * 1000000;
    open_all();
    for (char *s = strtok_r(argv[3], ",", &save); s != NULL; s = strtok_r(NULL, ",", &save)) {
        (void)conn_of(s, now_us);
    }
    tr_loop_linux_run(tool.loop);
    report();
    tr_redis_close(tool.redis);
    tr_loop_linux_close(tool.loop);
    for (unsigned i = 0; i < LANES; i++) {
        tr_eval_fini(&tool.lanes[i].eval);
    }
    free(tool.jobs);
    return tool.mem.used_bytes == 0 ? 0 : 1;
}
