/*
 * The input is the bytes of one client; 0xff 0x00 to 0xff 0x02 in it switches to that client. It
 * is played twice, on two fresh engines: in pieces as long as they come, and in short pieces of
 * odd lengths. Both keep all invariants, hold bounded memory and give all of it back; and a client
 * that is alone gets the same replies, byte for byte. (Of several, one may go on with what it has
 * pipelined while another is still speaking: then the pieces do matter.)
 */

#include "fuzz/session.h"

#include "base/err.h"
#include "engine/engine.h"
#include "proto/beanstalk.h"
#include "proto/http.h"
#include "sim/sim_disk.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLIENTS = 3,
    REPLIES_MAX = 1 << 20,
    BODY_MAX = 512,
    OUTPUT_MAX = 4096,
    REPLY_MAX = 1 << 17, /* the longest: /openapi.json */
    SWITCH = 0xff
};

struct bench {
    struct tr_mem mem;
    struct sim_disk *disk;
    struct tr_engine *e;
    struct tr_now now;
    const struct tr_proto *proto;
    struct tr_bs_port beanstalk;
    struct tr_hs_port http;
    void *sessions[CLIENTS];
    uint8_t *pending[CLIENTS];
    size_t pending_len[CLIENTS];
    size_t got_len[CLIENTS];
    uint64_t durable;
    bool lost; /* more replies than there is room for: nothing is compared */
};

static uint8_t got[2][CLIENTS][REPLIES_MAX];

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void on_io(void *ctx, struct tr_io *io)
{
    struct bench *b = ctx;

    tr_engine_io_done(b->e, io, b->now);
}

static void on_notice(void *ctx, enum tr_notice kind, const char *text)
{
    (void)ctx;
    (void)text;
    must(kind != TR_NOTE_DAMAGE && kind != TR_NOTE_FATAL);
}

static void on_durable(void *ctx, uint64_t batch)
{
    struct bench *b = ctx;

    b->durable = batch;
}

static void submit(void *ctx, struct tr_req *r, struct tr_now now)
{
    tr_engine_submit(((struct bench *)ctx)->e, r, now);
}

static void abandon(void *ctx, struct tr_req *r, struct tr_now now)
{
    tr_engine_abandon(((struct bench *)ctx)->e, r, now);
}

static unsigned work(void *ctx)
{
    return tr_engine_work(((struct bench *)ctx)->e);
}

static void woken(void *ctx, struct tr_bs_session *s)
{
    (void)ctx;
    (void)s;
}

static void http_woken(void *ctx, struct tr_hs *s)
{
    (void)ctx;
    (void)s;
}

static void usage(void *ctx, struct tr_bs_usage *u)
{
    (void)ctx;
    (void)u;
}

static void start(struct bench *b, const struct tr_proto *proto)
{
    static struct sim_disk *disk; /* kept: its memory is used again */
    struct tr_engine_config c;

    if (disk == NULL) {
        disk = sim_disk_new(on_io, b);
    }
    *b = (struct bench){.disk = disk, .proto = proto, .now = {UINT64_C(1700000000000000), 1000000}};
    tr_mem_init(&b->mem, 64 << 20);
    sim_disk_set_done(b->disk, on_io, b);
    sim_disk_reset(b->disk, 1);
    tr_engine_config_init(&c, &b->mem);
    c.slot_bytes = 65536;
    c.slots_max = 8;
    c.batch_bytes = 16384;
    c.body_max = 8192;
    c.rid_block = 64;
    c.checkpoint_slack = 16384;
    c.ctx = b;
    c.notice = on_notice;
    c.durable = on_durable;
    must(tr_engine_open(&b->e, &c, sim_disk_port(b->disk), 1, b->now) == TARRY_OK);
}

static void open_sessions(struct bench *b)
{
    struct tr_queue queue = {.ctx = b, .submit = submit, .abandon = abandon, .work = work};
    bool http = b->proto == &tr_http_proto;

    b->beanstalk = (struct tr_bs_port){.mem = &b->mem,
                                       .queue = queue,
                                       .body_max = BODY_MAX,
                                       .output_max = OUTPUT_MAX,
                                       .ctx = b,
                                       .woken = woken,
                                       .usage = usage,
                                       .version = "",
                                       .sync = ""};
    b->http = (struct tr_hs_port){.mem = &b->mem,
                                  .queue = queue,
                                  .limits = {.head = 2048, .url = 1024},
                                  .body_max = BODY_MAX,
                                  .output_max = OUTPUT_MAX,
                                  .ctx = b,
                                  .woken = http_woken,
                                  .version = "",
                                  .classic = true,
                                  .test_clock = true};
    must(tr_bs_port_open(&b->beanstalk, b->now) == TARRY_OK);
    for (unsigned i = 0; i < CLIENTS; i++) {
        b->sessions[i] = calloc(1, b->proto->size);
        b->proto->open(b->sessions[i], http ? (void *)&b->http : (void *)&b->beanstalk, i + 1,
                       b->now);
    }
}

static bool settle_engine(struct bench *b)
{
    bool moved = false;

    for (unsigned i = 0; i < 100000; i++) {
        uint64_t next = tr_engine_turn(b->e, b->now);

        if (!sim_disk_step(b->disk) && next > b->now.boot_us) {
            return moved;
        }
        moved = true;
    }
    abort();
}

/* Feeds client i with what it has; what the gates let go is kept. */
static bool run(struct bench *b, unsigned run_no, unsigned i)
{
    void *s = b->sessions[i];
    struct tr_output *out = b->proto->out(s);
    size_t before = b->pending_len[i];
    size_t taken = b->proto->feed(s, b->pending[i], before, b->now);
    const uint8_t *bytes;
    size_t len;

    must(taken <= before);
    memmove(b->pending[i], b->pending[i] + taken, before - taken);
    b->pending_len[i] -= taken;
    must(tr_output_len(out) <= OUTPUT_MAX + REPLY_MAX);
    len = tr_output_ready(out, b->durable, &bytes);
    if (len > REPLIES_MAX - b->got_len[i]) {
        b->lost = true;
    } else if (len > 0) {
        memcpy(got[run_no][i] + b->got_len[i], bytes, len);
        b->got_len[i] += len;
    }
    tr_output_drop(out, len);
    return taken > 0 || len > 0 || b->proto->want(s) == TR_WANT_TURN;
}

static void settle(struct bench *b, unsigned run_no)
{
    bool moved;

    do {
        moved = false;
        for (unsigned i = 0; i < CLIENTS; i++) {
            moved |= run(b, run_no, i);
        }
        moved |= settle_engine(b);
    } while (moved);
}

static void play(struct bench *b, unsigned run_no, const uint8_t *data, size_t size)
{
    unsigned client = 0;
    size_t at = 0;

    open_sessions(b);
    for (unsigned i = 0; i < CLIENTS; i++) {
        b->pending[i] = malloc(size + 1);
    }
    for (size_t step = 0; at < size; step++) {
        size_t len = 0;
        size_t most = run_no == 0 ? size : 1 + step * 7 % 13;

        if (data[at] == SWITCH && at + 1 < size && data[at + 1] < CLIENTS) {
            client = data[at + 1];
            at += 2;
            continue;
        }
        while (len < most && at + len < size &&
               !(len > 0 && data[at + len] == SWITCH && at + len + 1 < size &&
                 data[at + len + 1] < CLIENTS)) {
            len++;
        }
        memcpy(b->pending[client] + b->pending_len[client], data + at, len);
        b->pending_len[client] += len;
        at += len;
        settle(b, run_no);
    }
}

static void finish(struct bench *b)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        b->proto->close(b->sessions[i], b->now);
        for (unsigned turns = 0; !b->proto->gone(b->sessions[i]); turns++) {
            must(turns < 1000);
            (void)settle_engine(b);
            (void)b->proto->feed(b->sessions[i], NULL, 0, b->now);
        }
        free(b->sessions[i]);
        free(b->pending[i]);
    }
    must(b->beanstalk.sessions == 0 && b->beanstalk.producers == 0 && b->beanstalk.workers == 0);
    must(b->http.sessions == 0);
    (void)settle_engine(b);
    must(tr_engine_ok(b->e));
    sim_disk_kill(b->disk);
    tr_engine_free(b->e);
    must(b->mem.used_bytes == 0);
}

int fuzz_session(const struct tr_proto *proto, const uint8_t *data, size_t size)
{
    static struct bench b[2];

    if (size > 65536) {
        return 0;
    }
    for (unsigned n = 0; n < 2; n++) {
        start(&b[n], proto);
        play(&b[n], n, data, size);
        finish(&b[n]);
    }
    if (memchr(data, SWITCH, size) == NULL && !b[0].lost && !b[1].lost) {
        must(b[0].got_len[0] == b[1].got_len[0]);
        must(memcmp(got[0][0], got[1][0], b[0].got_len[0]) == 0);
    }
    return 0;
}
