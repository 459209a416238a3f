/*
 * The loop that a server would be around sessions: feed what was sent, let the engine and the disk
 * work, hand over what the gates let go.
 */

#include "test/unit/wire.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void woken(void *ctx, struct tr_bs_session *s)
{
    struct wire_client *c = TR_CONTAINER_OF(s, struct wire_client, session);

    (void)ctx;
    c->runnable = true;
}

static void http_woken(void *ctx, struct tr_hs *s)
{
    (void)ctx;
    TR_CONTAINER_OF(s, struct wire_client, http)->runnable = true;
}

static struct tr_output *out_of(const struct wire_client *c)
{
    return c->proto->out((void *)(uintptr_t)&c->session);
}

static void usage(void *ctx, struct tr_bs_usage *u)
{
    struct wire *w = ctx;

    u->draining = rig_engine_stat(&w->rig).draining;
}

static void submit(void *ctx, struct tr_req *r, struct tr_now now)
{
    struct wire *w = ctx;

    tr_engine_submit(w->rig.e, r, now);
}

static void abandon(void *ctx, struct tr_req *r, struct tr_now now)
{
    struct wire *w = ctx;

    tr_engine_abandon(w->rig.e, r, now);
}

static unsigned work(void *ctx)
{
    const struct wire *w = ctx;

    return tr_engine_work(w->rig.e);
}

void wire_init(struct wire *w)
{
    *w = (struct wire){.next_number = 1};
    rig_init(&w->rig);
    w->rig.config.slot_bytes = 1 << 20;
    w->rig.config.batch_bytes = 1 << 18;
    w->rig.config.body_max = 1 << 17;
    w->port = (struct tr_bs_port){
        .mem = &w->rig.mem,
        .queue = {.ctx = w, .submit = submit, .abandon = abandon, .work = work},
        .body_max = 65535,
        .output_max = 1 << 18,
        .ctx = w,
        .woken = woken,
        .usage = usage,
        .version = "test",
        .sync = "always",
        .id = "0123456789abcdef",
        .host = "host",
        .os = "os",
        .platform = "platform",
    };
    w->http = (struct tr_hs_port){
        .mem = &w->rig.mem,
        .queue = w->port.queue,
        .limits = {.head = 16384, .url = 8192},
        .body_max = 65535,
        .output_max = 1 << 18,
        .ctx = w,
        .woken = http_woken,
        .version = "test",
        .lease_key = {1, 2, 3},
    };
    w->proto = &tr_bs_proto;
}

void wire_open(struct wire *w)
{
    rig_open(&w->rig);
    assert_int_equal(tr_bs_port_open(&w->port, w->rig.now), TARRY_OK);
}

static void close_session(struct wire *w, struct wire_client *c)
{
    c->proto->close(&c->session, w->rig.now);
    for (unsigned turns = 0; !c->proto->gone(&c->session); turns++) {
        assert_true(turns < 10000);
        (void)rig_settle(&w->rig);
        (void)c->proto->feed(&c->session, NULL, 0, w->rig.now);
    }
    free(c->in);
    c->in = NULL;
    c->in_len = 0;
    c->closed = true;
}

/* What the gates let go, as far as the client reads. */
static bool deliver(struct wire *w, struct wire_client *c)
{
    const uint8_t *bytes;
    size_t len = tr_output_ready(out_of(c), w->rig.durable, &bytes);

    if (len == 0 || w->deaf) {
        return false;
    }
    c->got = realloc(c->got, c->got_len + len);
    memcpy(c->got + c->got_len, bytes, len);
    c->got_len += len;
    tr_output_drop(out_of(c), len);
    return true;
}

static bool feed(struct wire *w, struct wire_client *c)
{
    size_t len = w->piece > 0 && w->piece < c->in_len ? w->piece : c->in_len;
    size_t taken;

    do { /* part of a line is taken when there is more of it */
        taken = c->proto->feed(&c->session, c->in, len, w->rig.now);
        len += w->piece;
    } while (taken == 0 && len <= c->in_len && w->piece > 0 &&
             c->proto->want(&c->session) == TR_WANT_INPUT);
    if (taken > 0) {
        memmove(c->in, c->in + taken, c->in_len - taken);
        c->in_len -= taken;
    }
    return taken > 0;
}

static bool finished(const struct wire_client *c)
{
    enum tr_want want = c->proto->want(&c->session);

    if (out_of(c)->broken) {
        return true;
    }
    return tr_output_len(out_of(c)) == 0 &&
           (want == TR_WANT_CLOSE || (want == TR_WANT_INPUT && c->ended));
}

static bool run_client(struct wire *w, struct wire_client *c)
{
    bool moved = c->runnable || c->proto->want(&c->session) == TR_WANT_TURN;

    c->runnable = false;
    moved |= feed(w, c);
    moved |= deliver(w, c);
    if (!moved && finished(c)) {
        close_session(w, c);
        return true;
    }
    return moved;
}

static bool run_all(struct wire *w)
{
    bool moved = false;

    for (unsigned i = 0; i < WIRE_CLIENTS; i++) {
        struct wire_client *c = &w->clients[i];

        if (c->open && !c->closed) {
            moved |= run_client(w, c);
        }
    }
    return moved;
}

void wire_run(struct wire *w)
{
    while (run_all(w)) {
        (void)rig_turn(&w->rig);
    }
}

void wire_settle(struct wire *w)
{
    do {
        wire_run(w);
        (void)rig_settle(&w->rig);
    } while (run_all(w));
}

void wire_send(struct wire *w, unsigned i, const void *bytes, size_t len)
{
    struct wire_client *c = &w->clients[i];

    if (!c->open) {
        bool http = w->proto == &tr_http_proto;

        c->open = true;
        c->proto = w->proto;
        c->proto->open(&c->session, http ? (void *)&w->http : (void *)&w->port, w->next_number++,
                       w->rig.now);
    }
    if (c->closed || len == 0) {
        return;
    }
    c->in = realloc(c->in, c->in_len + len);
    memcpy(c->in + c->in_len, bytes, len);
    c->in_len += len;
}

void wire_half_close(struct wire *w, unsigned i)
{
    wire_send(w, i, "", 0);
    wire_settle(w);
    if (!w->clients[i].closed) {
        w->clients[i].ended = true;
        w->clients[i].runnable = true;
        w->clients[i].proto->half_close(&w->clients[i].session, w->rig.now);
    }
    wire_settle(w);
}

void wire_close(struct wire *w, unsigned i)
{
    struct wire_client *c = &w->clients[i];

    if (c->open && !c->closed) {
        close_session(w, c);
    }
    free(c->got);
    *c = (struct wire_client){0};
}

void wire_drop(struct wire *w, unsigned i, size_t len)
{
    struct wire_client *c = &w->clients[i];

    if (len > 0) {
        c->got_len -= len;
        memmove(c->got, c->got + len, c->got_len);
    }
}

/* In steps, so that what becomes due in between happens then. */
void wire_pass(struct wire *w, uint64_t us)
{
    while (us > 0) {
        uint64_t step = us < 10000 ? us : 10000;

        rig_pass(&w->rig, step);
        wire_settle(w);
        us -= step;
    }
}

void wire_fini(struct wire *w)
{
    for (unsigned i = 0; i < WIRE_CLIENTS; i++) {
        wire_close(w, i);
    }
    rig_fini(&w->rig);
}
