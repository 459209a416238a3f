/*
 * From socket to session and back.
 *
 *     readable, woken, tired --> work list --> read --> session --> what it cannot take: pending
 *                                                          |
 *                                                          v
 *                                 gated list <-- waits -- out -- may go --> unsent list --> write
 *
 * Working: a socket that can be read, a session whose request was answered and one that had its
 * share go to the end of one list; so everybody's turn comes, however much the others have to do.
 * A round goes through the list once, and stops when it has lasted long enough.
 *
 * Reading: all sockets share one buffer, since a session takes nearly always all of it. The rest
 * (part of a line, or commands behind one that waits) is kept with the connection, and nothing
 * more is read while that is as much as is read at once. So what a client can make us keep is
 * bounded: pending, one body, output_max and one reply.
 *
 * Writing: replies are only added to `out` while commands run. At the end of the round each
 * connection that has something to say is sent it in one write; what the socket does not take
 * waits until it is writable.
 *
 * The other side may stop sending and still read: it gets its answers, then the connection is
 * closed. A connection whose session is not yet rid of its jobs stays, without a socket, until it
 * is.
 *
 * There are never more connections than count_max, or the store would find no descriptor for its
 * own files; new clients then wait in the kernel's backlog.
 */

#include "server/conn.h"

#include "base/err.h"
#include "os/clock_linux.h"

#include <string.h>

enum {
    PENDING_MIN = 256,
    RETRY_US = 1000000,     /* after which descriptors are asked for again */
    SENDS_MIN = 64,         /* in a round, however slow the machine is */
    OUTPUT_MAX = 256 << 10, /* bytes to send, beyond which no command is read */
};

struct conn {
    struct tr_bs_session session;
    struct tr_conns *conns;
    struct tr_sock *sock; /* NULL: closed */
    struct tr_list all;
    struct tr_list working; /* of conns->work, or none */
    struct tr_list sending; /* of unsent or gated, or none */
    uint8_t *pending;       /* read, not yet taken by the session */
    size_t pending_len;
    size_t pending_room;
    bool readable;
    bool dead;    /* nobody is there any more, but what had arrived can still be read */
    bool ended;   /* the other side sends no more, and all it sent was read */
    bool blocked; /* the socket took less than there was */
};

/* ---- lists and memory ---- */

static void put_to_work(struct conn *c)
{
    if (tr_list_empty(&c->working)) {
        tr_list_append(&c->conns->work, &c->working);
    }
}

/* Those who did not come to it go first next time. */
static void put_back(struct tr_list *list, struct tr_list *rest)
{
    tr_list_splice(rest, list);
    tr_list_splice(list, rest);
}

static void drop_pending(struct conn *c)
{
    tr_mem_free(c->conns->mem, c->pending, c->pending_room);
    c->pending = NULL;
    c->pending_len = 0;
    c->pending_room = 0;
}

/* Somebody went: there may be a place again. */
static void let_in(struct tr_conns *cs)
{
    if (cs->listener != NULL && cs->count < cs->count_max) {
        tr_listener_resume(cs->listener);
    }
    cs->told_full &= cs->count > cs->count_max / 8 * 7; /* or it would be told again and again */
}

static void conn_free(struct conn *c)
{
    struct tr_conns *cs = c->conns;

    tr_list_remove(&c->all);
    tr_list_remove(&c->working);
    tr_list_remove(&c->sending);
    drop_pending(c);
    tr_mem_free(cs->mem, c, sizeof *c);
    cs->count--;
    let_in(cs);
}

/* The session is being closed: c is freed when it has nothing left. */
static void go_on_closing(struct conn *c)
{
    if (tr_bs_gone(&c->session)) {
        conn_free(c);
    } else if (tr_bs_want(&c->session) == TR_BS_WANT_TURN) {
        put_to_work(c);
    }
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
    go_on_closing(c);
    let_in(cs);
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
    if (want == TR_BS_WANT_INPUT) { /* on the list: it has not been given all that was read */
        return c->ended && tr_list_empty(&c->working);
    }
    return want == TR_BS_WANT_CLOSE;
}

static bool can_read(const struct conn *c)
{
    return !c->ended && !c->conns->stopping && c->pending_len < TR_CONN_READ_MAX;
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
    if (want == TR_BS_WANT_TURN) {
        put_to_work(c);
    }
    if (tr_output_len(&c->session.out) > 0 && !c->blocked) {
        bool ready = tr_output_ready(&c->session.out, cs->durable, &bytes) > 0;

        tr_list_remove(&c->sending);
        tr_list_append(ready ? &cs->unsent : &cs->gated, &c->sending);
    }
    if (can_read(c) && want != TR_BS_WANT_CLOSE && want != TR_BS_WANT_DRAIN) {
        events |= TR_SOCK_READ;
    }
    tr_sock_watch(c->sock, events, on_event, c);
}

static void on_event(void *ctx, unsigned events)
{
    struct conn *c = ctx;
    struct tr_now now;

    if ((events & (TR_SOCK_READ | TR_SOCK_ERROR)) != 0) {
        c->readable = true;
        c->dead |= (events & TR_SOCK_ERROR) != 0;
        put_to_work(c);
    }
    if ((events & (TR_SOCK_WRITE | TR_SOCK_HANGUP)) == 0) {
        return; /* nothing more, as it may be told again in every round until its turn comes */
    }
    now = tr_clock_linux_now();
    if ((events & TR_SOCK_HANGUP) != 0) {
        tr_bs_half_close(&c->session, now);
    }
    c->blocked &= (events & TR_SOCK_WRITE) == 0;
    settle(c, now);
}

/* ---- working ---- */

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
        n = 0;
    } else if (n < 0) {
        return false;
    } else if (n == 0) {
        c->ended = true;
        tr_bs_half_close(&c->session, now);
    }
    return feed(c, buf, have + (size_t)n, now);
}

/* One go for a connection. */
static void work(struct conn *c, struct tr_now now)
{
    bool reads = c->readable && can_read(c);
    bool ok = reads || !c->dead;

    c->readable = false; /* if there is more, it is told again */
    if (c->sock == NULL) {
        (void)tr_bs_feed(&c->session, NULL, 0, now);
        go_on_closing(c);
        return;
    }
    if (reads) {
        ok = read_some(c, now);
    } else if (ok && c->pending_len > 0) {
        ok = feed(c, c->pending, c->pending_len, now);
    } else if (ok) {
        (void)tr_bs_feed(&c->session, NULL, 0, now);
    }
    if (ok) {
        settle(c, now);
    } else {
        conn_close(c, now);
    }
}

void tr_conns_work(struct tr_conns *cs, uint64_t most_us)
{
    struct tr_now now = tr_clock_linux_now();
    uint64_t until_us = now.boot_us + most_us;
    struct tr_list once; /* who comes to the list meanwhile has his turn next time */

    tr_list_init(&once);
    tr_list_splice(&once, &cs->work);
    while (!tr_list_empty(&once)) {
        struct conn *c = TR_CONTAINER_OF(once.next, struct conn, working);

        tr_list_remove(&c->working);
        work(c, now);
        now = tr_clock_linux_now();
        if (now.boot_us >= until_us) {
            break;
        }
    }
    put_back(&cs->work, &once);
}

static void on_woken(void *ctx, struct tr_bs_session *s)
{
    (void)ctx;
    put_to_work(TR_CONTAINER_OF(s, struct conn, session));
}

/* ---- coming ---- */

static void check_full(struct tr_conns *cs)
{
    bool full = cs->count >= cs->count_max;

    if (full) {
        tr_listener_pause(cs->listener);
    }
    if ((full || tr_listener_paused(cs->listener)) && !cs->told_full) {
        cs->told_full = true;
        cs->full(cs->ctx, "the limit of open files (ulimit -n) is reached: new connections wait "
                          "until others are closed");
    }
}

static void on_accepted(void *ctx, struct tr_sock *sock)
{
    struct tr_conns *cs = ctx;
    struct tr_now now = tr_clock_linux_now();
    struct conn *c = sock != NULL ? tr_mem_alloc(cs->mem, sizeof *c) : NULL;

    if (c != NULL) {
        c->conns = cs;
        c->sock = sock;
        tr_list_append(&cs->all, &c->all);
        tr_list_init(&c->working);
        tr_list_init(&c->sending);
        cs->count++;
        tr_bs_open(&c->session, &cs->port, cs->next_number++, now);
        settle(c, now);
    } else if (sock != NULL) {
        tr_sock_close(sock);
    }
    check_full(cs);
}

void tr_conns_init(struct tr_conns *cs, struct tr_mem *mem)
{
    cs->mem = mem;
    cs->next_number = 1;
    cs->retry_us = UINT64_MAX;
    cs->port.mem = mem;
    cs->port.woken = on_woken;
    cs->port.ctx = cs;
    cs->port.output_max = OUTPUT_MAX;
    tr_list_init(&cs->all);
    tr_list_init(&cs->work);
    tr_list_init(&cs->unsent);
    tr_list_init(&cs->gated);
}

int tr_conns_listen(struct tr_conns *cs, const char *address)
{
    struct tr_listener_calls calls = {.ctx = cs, .accepted = on_accepted};

    return tr_listener_open(&cs->listener, cs->loop, address, &calls);
}

uint64_t tr_conns_retry(struct tr_conns *cs, struct tr_now now)
{
    if (cs->listener == NULL || !tr_listener_paused(cs->listener) || cs->count >= cs->count_max) {
        cs->retry_us = UINT64_MAX;
    } else if (cs->retry_us == UINT64_MAX) {
        cs->retry_us = now.boot_us + RETRY_US;
    } else if (cs->retry_us <= now.boot_us) {
        tr_listener_resume(cs->listener);
        cs->retry_us = UINT64_MAX;
    }
    return cs->retry_us;
}

/* ---- sending ---- */

void tr_conns_durable(struct tr_conns *cs, uint64_t batch)
{
    cs->durable = batch;
    tr_list_splice(&cs->unsent, &cs->gated);
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
        put_to_work(c);
    }
    settle(c, now);
}

void tr_conns_flush(struct tr_conns *cs, uint64_t most_us)
{
    struct tr_now now = tr_clock_linux_now();
    uint64_t until_us = now.boot_us + most_us;
    struct tr_list once;

    tr_list_init(&once);
    tr_list_splice(&once, &cs->unsent);
    for (unsigned i = 0; !tr_list_empty(&once) && (i < SENDS_MIN || now.boot_us < until_us); i++) {
        struct conn *c = TR_CONTAINER_OF(once.next, struct conn, sending);

        tr_list_remove(&c->sending);
        send_some(c, now);
        now = tr_clock_linux_now();
    }
    put_back(&cs->unsent, &once);
}

/* ---- going ---- */

static void close_all(struct tr_conns *cs, bool only_waiting, struct tr_now now)
{
    struct tr_list *next;

    for (struct tr_list *n = cs->all.next; n != &cs->all; n = next) {
        struct conn *c = TR_CONTAINER_OF(n, struct conn, all);
        bool waits = c->session.asked && c->session.req.op == TR_OP_RESERVE;

        next = n->next;
        if (c->sock != NULL && (waits || !only_waiting)) {
            conn_close(c, now);
        }
    }
}

void tr_conns_stop(struct tr_conns *cs, struct tr_now now)
{
    struct tr_list *next;

    cs->stopping = true;
    tr_listener_close(cs->listener);
    cs->listener = NULL;
    close_all(cs, true, now); /* first, or they would be given the jobs of the others */
    for (struct tr_list *n = cs->all.next; n != &cs->all; n = next) {
        struct conn *c = TR_CONTAINER_OF(n, struct conn, all);

        next = n->next;
        if (c->sock != NULL) {
            c->ended = true;
            drop_pending(c);
            settle(c, now);
        }
    }
}

void tr_conns_abort(struct tr_conns *cs, struct tr_now now)
{
    tr_listener_close(cs->listener);
    cs->listener = NULL;
    close_all(cs, false, now);
}

void tr_conns_fini(struct tr_conns *cs)
{
    while (!tr_list_empty(&cs->all)) {
        struct conn *c = TR_CONTAINER_OF(cs->all.next, struct conn, all);

        tr_bs_fini(&c->session);
        conn_free(c);
    }
}
