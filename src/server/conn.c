/*
 * From socket to session and back.
 *
 *     readable --> buf --> session --> what it cannot take yet: pending
 *                            |
 *                            v                       may go         waits for the disk
 *                           out --> unsent list --> one write       gated list
 *
 * Reading: all sockets share one buffer, since a session takes nearly always all of it. The rest
 * (part of a line, or commands behind one that waits) is kept with the connection, and nothing
 * more is read while that is as much as was read at once. So what a client can make us keep is
 * bounded: pending, one body, output_max and one reply.
 *
 * Writing: replies are only added to `out` while commands run. At the end of the round each
 * connection that has something to say is sent it in one write; what the socket does not take
 * waits until it is writable.
 *
 * Turns: when a round has lasted long, sockets are not read any more in it. They stay readable, so
 * the next round begins with them. A session that had its share of steps goes to the end of the
 * runnable list.
 *
 * The other side may stop sending and still read: it gets its answers, then the connection is
 * closed. A connection whose session is not yet rid of its jobs stays, without a socket, until it
 * is.
 */

#include "server/conn.h"

#include "base/err.h"
#include "os/clock_linux.h"

#include <string.h>

enum {
    ROUND_US = 1000, /* after this, sockets are left to the next round */
    PENDING_MIN = 256,
    OUTPUT_MAX = 256 << 10, /* bytes to send, beyond which no command is read */
};

struct conn {
    struct tr_bs_session session;
    struct tr_conns *conns;
    struct tr_sock *sock; /* NULL: closed */
    struct tr_list all;
    struct tr_list runnable;
    struct tr_list sending; /* of unsent or gated, or none */
    uint8_t *pending;       /* read, not yet taken by the session */
    size_t pending_len;
    size_t pending_room;
    bool ended;   /* the other side sends no more, and all it sent was read */
    bool blocked; /* the socket took less than there was */
};

/* ---- memory ---- */

static void drop_pending(struct conn *c)
{
    tr_mem_free(c->conns->mem, c->pending, c->pending_room);
    c->pending = NULL;
    c->pending_len = 0;
    c->pending_room = 0;
}

static void conn_free(struct conn *c)
{
    struct tr_conns *cs = c->conns;

    tr_list_remove(&c->all);
    tr_list_remove(&c->runnable);
    tr_list_remove(&c->sending);
    drop_pending(c);
    tr_mem_free(cs->mem, c, sizeof *c);
    cs->count--;
}

/* The connection ends here; c may be freed afterwards. */
static void conn_close(struct conn *c, struct tr_now now)
{
    struct tr_conns *cs = c->conns;

    tr_sock_close(c->sock);
    c->sock = NULL;
    cs->turn_wanted = true;
    tr_list_remove(&c->sending);
    drop_pending(c);
    tr_bs_close(&c->session, now);
    if (cs->listener != NULL) {
        tr_listener_resume(cs->listener);
    }
    if (tr_bs_gone(&c->session)) {
        conn_free(c);
    } else if (tr_bs_want(&c->session) == TR_BS_WANT_TURN && tr_list_empty(&c->runnable)) {
        tr_list_append(&cs->runnable, &c->runnable);
    }
}

/* ---- after something happened ---- */

/* It will send nothing more that we would execute, and has all its answers. */
static bool finished(const struct conn *c)
{
    enum tr_bs_want want = tr_bs_want(&c->session);

    if (c->session.out.broken) {
        return true;
    }
    if (tr_output_len(&c->session.out) > 0) {
        return false;
    }
    return want == TR_BS_WANT_CLOSE || (c->ended && want == TR_BS_WANT_INPUT);
}

static void on_event(void *ctx, unsigned events);

/* Puts the connection where its state wants it. It may be closed and freed by this. */
static void settle(struct conn *c, struct tr_now now)
{
    struct tr_conns *cs = c->conns;
    enum tr_bs_want want = tr_bs_want(&c->session);
    unsigned events = c->blocked ? TR_SOCK_WRITE : 0;
    const uint8_t *bytes;

    if (finished(c)) {
        conn_close(c, now);
        return;
    }
    if (want == TR_BS_WANT_TURN && tr_list_empty(&c->runnable)) {
        tr_list_append(&cs->runnable, &c->runnable);
    }
    if (tr_output_len(&c->session.out) > 0 && !c->blocked) {
        bool ready = tr_output_ready(&c->session.out, cs->durable, &bytes) > 0;

        tr_list_remove(&c->sending);
        tr_list_append(ready ? &cs->unsent : &cs->gated, &c->sending);
    }
    if (!c->ended && want != TR_BS_WANT_CLOSE && want != TR_BS_WANT_DRAIN &&
        c->pending_len < TR_CONN_READ_MAX) {
        events |= TR_SOCK_READ;
    }
    tr_sock_watch(c->sock, events, on_event, c);
}

/* ---- input ---- */

/* Keeps what the session did not take, which may be of the pending bytes themselves. */
static bool keep(struct conn *c, const uint8_t *bytes, size_t len)
{
    size_t room = PENDING_MIN;
    uint8_t *more;

    if (len == 0) {
        drop_pending(c);
        return true;
    }
    while (room < len) {
        room *= 2;
    }
    if (c->pending_room < room) { /* then bytes are not in it */
        more = tr_mem_stretch(c->conns->mem, c->pending, c->pending_room, room);
        if (more == NULL) {
            return false;
        }
        c->pending = more;
        c->pending_room = room;
    }
    memmove(c->pending, bytes, len);
    c->pending_len = len;
    return true;
}

/* False: no memory. */
static bool feed(struct conn *c, const uint8_t *bytes, size_t len, struct tr_now now)
{
    size_t taken = tr_bs_feed(&c->session, bytes, len, now);

    return keep(c, bytes + taken, len - taken);
}

/* Reads once. False: the connection is broken. */
static bool read_some(struct conn *c, struct tr_now now)
{
    uint8_t *buf = c->conns->buf;
    size_t have = c->pending_len;
    long n;

    if (have > 0) {
        memcpy(buf, c->pending, have);
    }
    n = tr_sock_read(c->sock, buf + have, TR_CONN_READ_MAX - have);
    if (n == TR_SOCK_AGAIN) {
        return true;
    }
    if (n < 0) {
        return false;
    }
    if (n == 0) {
        c->ended = true;
        tr_bs_half_close(&c->session, now);
    }
    return feed(c, buf, have + (size_t)n, now);
}

static bool can_read(const struct conn *c)
{
    return !c->ended && !c->conns->stopping && c->pending_len < TR_CONN_READ_MAX;
}

static void on_event(void *ctx, unsigned events)
{
    struct conn *c = ctx;
    struct tr_conns *cs = c->conns;
    struct tr_now now = tr_clock_linux_now();

    if ((events & TR_SOCK_WRITE) != 0) {
        c->blocked = false;
    }
    if ((events & TR_SOCK_HANGUP) != 0) {
        tr_bs_half_close(&c->session, now);
    }
    if ((events & TR_SOCK_READ) != 0 && can_read(c)) {
        bool late = now.boot_us - tr_loop_linux_round_us(cs->loop) >= ROUND_US;

        if (!late && !read_some(c, now)) {
            conn_close(c, now);
            return;
        }
    } else if ((events & TR_SOCK_ERROR) != 0) { /* nobody is there, and nothing can be read */
        conn_close(c, now);
        return;
    }
    settle(c, now);
}

static void on_accepted(void *ctx, struct tr_sock *sock)
{
    struct tr_conns *cs = ctx;
    struct tr_now now = tr_clock_linux_now();
    struct conn *c = tr_mem_alloc(cs->mem, sizeof *c);

    if (c == NULL) {
        tr_sock_close(sock);
        return;
    }
    c->conns = cs;
    c->sock = sock;
    tr_list_append(&cs->all, &c->all);
    tr_list_init(&c->runnable);
    tr_list_init(&c->sending);
    cs->count++;
    tr_bs_open(&c->session, &cs->port, cs->next_number++, now);
    c->session.ctx = c;
    settle(c, now);
}

/* ---- what the owner calls ---- */

static void on_woken(void *ctx, struct tr_bs_session *s)
{
    struct tr_conns *cs = ctx;
    struct conn *c = TR_CONTAINER_OF(s, struct conn, session);

    if (tr_list_empty(&c->runnable)) {
        tr_list_append(&cs->runnable, &c->runnable);
    }
}

void tr_conns_init(struct tr_conns *cs, struct tr_mem *mem)
{
    cs->mem = mem;
    cs->next_number = 1;
    cs->port.mem = mem;
    cs->port.woken = on_woken;
    cs->port.ctx = cs;
    cs->port.output_max = OUTPUT_MAX;
    tr_list_init(&cs->all);
    tr_list_init(&cs->runnable);
    tr_list_init(&cs->unsent);
    tr_list_init(&cs->gated);
}

int tr_conns_listen(struct tr_conns *cs, const char *address)
{
    struct tr_listener_calls calls = {.ctx = cs, .accepted = on_accepted};

    return tr_listener_open(&cs->listener, cs->loop, address, &calls);
}

void tr_conns_durable(struct tr_conns *cs, uint64_t batch)
{
    cs->durable = batch;
    tr_list_splice(&cs->unsent, &cs->gated);
}

/* Lets one session go on with what is pending. */
static void run(struct conn *c, struct tr_now now)
{
    bool ok = true;

    if (c->pending_len > 0 && c->sock != NULL) {
        ok = feed(c, c->pending, c->pending_len, now);
    } else {
        (void)tr_bs_feed(&c->session, NULL, 0, now);
    }
    if (c->sock == NULL) {
        if (tr_bs_gone(&c->session)) {
            conn_free(c);
        } else if (tr_bs_want(&c->session) == TR_BS_WANT_TURN && tr_list_empty(&c->runnable)) {
            tr_list_append(&c->conns->runnable, &c->runnable);
        }
    } else if (!ok) {
        conn_close(c, now);
    } else {
        settle(c, now);
    }
}

bool tr_conns_run(struct tr_conns *cs, struct tr_now now)
{
    struct tr_list once;

    tr_list_init(&once);
    tr_list_splice(&once, &cs->runnable);
    while (!tr_list_empty(&once)) {
        struct conn *c = TR_CONTAINER_OF(once.next, struct conn, runnable);

        if (now.boot_us - tr_loop_linux_round_us(cs->loop) >= 2 * (uint64_t)ROUND_US) {
            tr_list_splice(&once, &cs->runnable); /* those who did not come to it go first */
            tr_list_splice(&cs->runnable, &once);
            break;
        }
        tr_list_remove(&c->runnable);
        run(c, now);
        now = tr_clock_linux_now();
    }
    return !tr_list_empty(&cs->runnable);
}

/* One write. */
static void send_some(struct conn *c, struct tr_now now)
{
    struct tr_output *out = &c->session.out;
    bool was_full = tr_bs_want(&c->session) == TR_BS_WANT_DRAIN;
    const uint8_t *bytes;
    size_t len = tr_output_ready(out, c->conns->durable, &bytes);
    long n = len > 0 ? tr_sock_write(c->sock, bytes, len) : 0;

    if (n == TR_SOCK_BROKEN) {
        conn_close(c, now);
        return;
    }
    if (n == TR_SOCK_AGAIN) {
        n = 0;
    }
    if (n > 0) {
        tr_output_drop(out, (size_t)n);
    }
    c->blocked = (size_t)n < len;
    if (was_full && tr_bs_want(&c->session) != TR_BS_WANT_DRAIN) {
        on_woken(c->conns, &c->session);
    }
    settle(c, now);
}

void tr_conns_flush(struct tr_conns *cs, struct tr_now now)
{
    struct tr_list once;

    tr_list_init(&once);
    tr_list_splice(&once, &cs->unsent);
    while (!tr_list_empty(&once)) {
        struct conn *c = TR_CONTAINER_OF(once.next, struct conn, sending);

        tr_list_remove(&c->sending);
        send_some(c, now);
    }
}

void tr_conns_stop(struct tr_conns *cs, struct tr_now now)
{
    struct tr_list *next;

    cs->stopping = true;
    tr_listener_close(cs->listener);
    cs->listener = NULL;
    for (struct tr_list *n = cs->all.next; n != &cs->all; n = next) {
        struct conn *c = TR_CONTAINER_OF(n, struct conn, all);

        next = n->next;
        if (c->sock == NULL) {
            continue;
        }
        c->ended = true;
        drop_pending(c);
        if (c->session.asked && c->session.req.op == TR_OP_RESERVE) {
            conn_close(c, now);
        } else {
            settle(c, now);
        }
    }
}

void tr_conns_abort(struct tr_conns *cs, struct tr_now now)
{
    struct tr_list *next;

    tr_listener_close(cs->listener);
    cs->listener = NULL;
    for (struct tr_list *n = cs->all.next; n != &cs->all; n = next) {
        struct conn *c = TR_CONTAINER_OF(n, struct conn, all);

        next = n->next;
        if (c->sock != NULL) {
            conn_close(c, now);
        }
    }
}

void tr_conns_fini(struct tr_conns *cs)
{
    while (!tr_list_empty(&cs->all)) {
        struct conn *c = TR_CONTAINER_OF(cs->all.next, struct conn, all);

        tr_bs_fini(&c->session);
        conn_free(c);
    }
}
