/*
 * Agreeing on keys, before anything else is said.
 *
 *     first bytes --> is that TLS? --no--> said in plain text, if there are words; closed
 *                          |
 *                          v                            worker (another thread)
 *     bytes ----------> tr_tls_give --> tr_tls_task <-------> what that takes: up to 10 ms of CPU
 *                                            |
 *             failed: alert, closed <--------+--> more is needed: read again
 *                                            +--> done: from now on as any other connection
 *
 * With an RSA key of 2048 bits that takes about a millisecond, with 4096 bits five, and whoever
 * connects can make us do it: a thousand clients that come back after a restart would stop the
 * clock for everybody. So the loop thread only moves the bytes. One thread does the calculations,
 * one handshake after the other; the rest wait in line and nobody else does.
 *
 * A connection of which the worker has the keys is left alone until they come back: it is not read,
 * and if it is closed meanwhile, its keys are freed when they do.
 *
 * Notes about failed handshakes are told at most once a second, with the number of those that were
 * not told: whoever fails on purpose must not fill the log.
 */

#include "base/text.h"
#include "server/conn_inner.h"

#include <string.h>

enum {
    TLS_HANDSHAKE = 22, /* the first byte of every client that speaks TLS */
    HELLO_MAX = 16384,  /* bytes given to the worker at once */
    NOTE_US = 1000000,
};

const char tr_conn_plain_http[] =
    "HTTP/1.1 400 Bad Request\r\n"
    "Content-Type: application/json\r\n"
    "Content-Length: 96\r\n"
    "Connection: close\r\n"
    "\r\n"
    "{\"error\":{\"code\":\"tls_required\",\"message\":\"this port speaks TLS only: use https:// "
    "in the URL\"}}";

static void note(struct tr_conn *c, const char *what, struct tr_now now)
{
    struct tr_conns *cs = c->conns;
    struct tr_sock_peer peer;
    char more[64] = "";
    char text[300];

    if (cs->noted_us != 0 && now.boot_us < cs->noted_us + NOTE_US) {
        cs->unnoted++;
        return;
    }
    if (cs->unnoted > 0) {
        tr_text(more, sizeof more, " (and %llu more like it)", (unsigned long long)cs->unnoted);
    }
    tr_sock_peer(c->sock, &peer);
    tr_text(text, sizeof text, "%s: %s: %s%s", c->proto->name, peer.text, what, more);
    cs->noted_us = now.boot_us;
    cs->unnoted = 0;
    cs->note(cs->ctx, text);
}

/* No keys: what is left to say goes as it is, and the client gets the time to read it. */
static void give_up(struct tr_conn *c, struct tr_now now)
{
    c->shaking = false;
    tr_conn_linger(c, now);
}

static void plain(struct tr_conn *c, struct tr_now now)
{
    const char *text = c->door->plain;

    tr_conn_count(c, TR_REFUSAL_PLAIN);
    note(c, "the client does not speak TLS, which this port wants", now);
    if (text != NULL) { /* a new socket has room for it */
        (void)tr_sock_write(c->sock, (const uint8_t *)text, strlen(text));
    }
    give_up(c, now);
}

/* Gives bytes to the worker. False: no memory. */
static bool give(struct tr_conn *c, const uint8_t *bytes, size_t len)
{
    struct tr_conns *cs = c->conns;

    if (c->tls == NULL) {
        c->tls = tr_tls_new(cs->tls, c->door->http, c);
    }
    if (c->tls == NULL || !tr_tls_give(c->tls, bytes, len)) {
        return false;
    }
    tr_conn_watch(c, 0);
    tr_worker_linux_give(cs->worker, tr_tls_task(c->tls));
    return true;
}

void tr_conn_shake(struct tr_conn *c, struct tr_now now)
{
    uint8_t *buf = c->conns->buf;
    long n;

    if (c->tls != NULL && tr_tls_busy(c->tls)) {
        return;
    }
    c->readable = false;
    if (c->tls != NULL && !tr_tls_flush(c->tls, c->sock)) {
        tr_conn_close(c, now);
        return;
    }
    n = tr_sock_read(c->sock, buf, HELLO_MAX);
    if (n == TR_SOCK_AGAIN) {
        tr_conn_watch(c, TR_SOCK_READ |
                             (c->tls != NULL && tr_tls_unsent(c->tls) ? TR_SOCK_WRITE : 0U));
        return;
    }
    if (n <= 0) { /* it went: that is no fault unless it had begun */
        if (c->tls != NULL) {
            tr_conn_count(c, TR_REFUSAL_HANDSHAKE);
        }
        tr_conn_close(c, now);
        return;
    }
    if (c->tls == NULL && buf[0] != TLS_HANDSHAKE) {
        plain(c, now);
        return;
    }
    if (!give(c, buf, (size_t)n)) {
        tr_conn_count(c, TR_REFUSAL_BUFFERS);
        tr_conn_close(c, now);
    }
}

/* The worker has done what it could. */
static void go_on(struct tr_conn *c, struct tr_now now)
{
    switch (tr_tls_state(c->tls)) {
    case TR_TLS_SHAKING:
        c->readable = true; /* there may be more, and what is to be sent goes first */
        tr_conn_work_later(c);
        return;
    case TR_TLS_FAILED:
        (void)tr_tls_flush(c->tls, c->sock); /* the alert */
        tr_conn_count(c, TR_REFUSAL_HANDSHAKE);
        note(c, tr_tls_why(c->tls), now);
        give_up(c, now);
        return;
    case TR_TLS_OPEN:
        c->shaking = false;
        c->door->handshakes++;
        if (!tr_tls_flush(c->tls, c->sock)) {
            tr_conn_close(c, now);
            return;
        }
        c->readable = true; /* the first request may have come with the last bytes of the keys */
        tr_conn_work_later(c);
        tr_conn_settle(c, now);
        return;
    }
}

void tr_conns_shaken(struct tr_conns *cs)
{
    struct tr_task *task = cs->worker != NULL ? tr_worker_linux_take(cs->worker) : NULL;

    while (task != NULL) {
        struct tr_task *next = task->next;
        struct tr_conn *c = tr_tls_take(task);

        if (c != NULL) {
            go_on(c, tr_conns_clock(cs));
        }
        task = next;
    }
}
