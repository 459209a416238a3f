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
 * is. One of a protocol that lingers is only half closed by us: what the client still sends is
 * dropped until it closes too, or its last patience is over, since closing a socket with unread
 * bytes may take back the reply that was sent last.
 *
 * Patience: of each kind there is one length for all, so whoever comes to it goes to the end of
 * the list of his kind, and the first of each list is the next whose time is over.
 *
 * There are never more connections than count_max, or the store would find no descriptor for its
 * own files; new clients then wait in the kernel's backlog.
 */

#include "server/conn.h"

#include "base/err.h"
#include "os/clock_linux.h"

#include <stdalign.h>
#include <stddef.h>
#include <string.h>

enum {
    PENDING_MIN = 256,
    RETRY_US = 1000000,     /* after which descriptors are asked for again */
    SENDS_MIN = 64,         /* in a round, however slow the machine is */
    OUTPUT_MAX = 256 << 10, /* bytes to send, beyond which no command is read */
    LATE_MAX = 64,          /* whose patience is over, in a round */
    LAST_US = 2000000,      /* for the client to close, too */
};

struct conn {
    struct tr_conns *conns;
    const struct tr_proto *proto;
    struct tr_output *out; /* of the session */
    struct tr_sock *sock;  /* NULL: closed */
    struct tr_list all;
    struct tr_list working; /* of conns->work, or none */
    struct tr_list sending; /* of unsent or gated, or none */
    uint8_t *pending;       /* read, not yet taken by the session */
    size_t pending_len;
    size_t pending_room;
    struct tr_list patient; /* of conns->patient[patience], or none */
    enum tr_patience patience;
    uint64_t since_us; /* boot time since which it is */
    uint64_t request;  /* for which */
    bool active;       /* bytes came or went since */
    bool lingers;      /* all was said; we wait for the other side to close */
    bool readable;
    bool dead;    /* nobody is there any more, but what had arrived can still be read */
    bool ended;   /* the other side sends no more, and all it sent was read */
    bool blocked; /* the socket took less than there was */
    alignas(max_align_t) unsigned char session[];
};

/* What time it is to sessions: by the engine's clock, if that is another. */
static struct tr_now read_clock(const struct tr_conns *cs)
{
    struct tr_now now = tr_clock_linux_now();

    if (cs->wall_us != NULL) {
        now.wall_us = cs->wall_us(cs->ctx);
    }
    return now;
}

static enum tr_want want_of(const struct conn *c)
{
    return c->proto->want(c->session);
}

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
    for (unsigned i = 0; i < TR_PORTS && cs->count < cs->count_max; i++) {
        if (cs->doors[i].listener != NULL) {
            tr_listener_resume(cs->doors[i].listener);
        }
    }
    cs->told_full &= cs->count > cs->count_max / 8 * 7; /* or it would be told again and again */
}

static void conn_free(struct conn *c)
{
    struct tr_conns *cs = c->conns;

    tr_list_remove(&c->all);
    tr_list_remove(&c->working);
    tr_list_remove(&c->sending);
    tr_list_remove(&c->patient);
    drop_pending(c);
    tr_mem_free(cs->mem, c, sizeof *c + c->proto->size);
    cs->count--;
    let_in(cs);
}

/* The session is being closed: c is freed when it has nothing left. */
static void go_on_closing(struct conn *c)
{
    if (c->proto->gone(c->session)) {
        conn_free(c);
    } else if (want_of(c) == TR_WANT_TURN) {
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
    tr_list_remove(&c->patient);
    drop_pending(c);
    c->proto->close(c->session, now);
    go_on_closing(c);
    let_in(cs);
}

/* ---- after something happened ---- */

/* It will send nothing more that we would execute, and has all its answers. */
static bool finished(const struct conn *c)
{
    enum tr_want want = want_of(c);

    if (c->out->broken) {
        return true;
    }
    if (tr_output_len(c->out) > 0) {
        return false;
    }
    if (want == TR_WANT_INPUT) { /* on the list: it has not been given all that was read */
        return c->ended && tr_list_empty(&c->working);
    }
    return want == TR_WANT_CLOSE;
}

static bool can_read(const struct conn *c)
{
    return !c->ended && !c->conns->stopping && c->pending_len < TR_CONN_READ_MAX;
}

static void on_event(void *ctx, unsigned events);

/* Notes since when we wait for the other side, and for what. */
static void be_patient(struct conn *c, struct tr_now now)
{
    enum tr_patience patience = TR_PATIENCE_LAST;
    uint64_t request = 0;
    bool anew;

    if (c->proto->patience == NULL) {
        return;
    }
    if (!c->lingers) {
        patience = c->proto->patience(c->session, &request);
    }
    anew = patience != c->patience || request != c->request ||
           (patience == TR_PATIENCE_IDLE && c->active);
    c->active = false;
    if (!anew) {
        return;
    }
    c->patience = patience;
    c->request = request;
    c->since_us = now.boot_us;
    tr_list_remove(&c->patient);
    if (patience != TR_PATIENCE_ENDLESS) {
        tr_list_append(&c->conns->patient[patience], &c->patient);
    }
}

/* All was said. The connection ends here, or when the other side has read it. */
static void finish(struct conn *c, struct tr_now now)
{
    if (!c->proto->lingers || c->ended || c->dead || c->out->broken || c->conns->stopping) {
        conn_close(c, now);
        return;
    }
    c->lingers = true;
    drop_pending(c);
    be_patient(c, now);
    tr_sock_end(c->sock);
    tr_sock_watch(c->sock, TR_SOCK_READ, on_event, c);
}

/* Puts the connection where its state wants it. It may be closed and freed by this. */
static void settle(struct conn *c, struct tr_now now)
{
    struct tr_conns *cs = c->conns;
    enum tr_want want = want_of(c);
    unsigned events = c->blocked ? TR_SOCK_WRITE : 0;
    const uint8_t *bytes;

    if (finished(c)) {
        finish(c, now);
        return;
    }
    be_patient(c, now);
    if (want == TR_WANT_TURN) {
        put_to_work(c);
    }
    if (tr_output_len(c->out) > 0 && !c->blocked) {
        bool ready = tr_output_ready(c->out, cs->durable, &bytes) > 0;

        tr_list_remove(&c->sending);
        tr_list_append(ready ? &cs->unsent : &cs->gated, &c->sending);
    }
    if (can_read(c) && want != TR_WANT_CLOSE && want != TR_WANT_DRAIN) {
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
    if (c->lingers) { /* what it sent before is read first */
        put_to_work(c);
        return;
    }
    now = read_clock(c->conns);
    if ((events & TR_SOCK_HANGUP) != 0) {
        c->proto->half_close(c->session, now);
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
    size_t taken = c->proto->feed(c->session, bytes, len, now);

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
        c->proto->half_close(c->session, now);
    }
    c->active |= n > 0;
    return feed(c, buf, have + (size_t)n, now);
}

/* Nothing of what still comes counts; the end of it does. */
static void linger(struct conn *c, struct tr_now now)
{
    long n = tr_sock_read(c->sock, c->conns->buf, TR_CONN_READ_MAX);

    if (n == 0 || n == TR_SOCK_BROKEN) {
        conn_close(c, now);
    }
}

/* One go for a connection. */
static void work(struct conn *c, struct tr_now now)
{
    bool reads = c->readable && can_read(c);
    bool ok = reads || !c->dead;

    c->readable = false; /* if there is more, it is told again */
    if (c->sock == NULL) {
        (void)c->proto->feed(c->session, NULL, 0, now);
        go_on_closing(c);
        return;
    }
    if (c->lingers) {
        linger(c, now);
        return;
    }
    if (reads) {
        ok = read_some(c, now);
    } else if (ok && c->pending_len > 0) {
        ok = feed(c, c->pending, c->pending_len, now);
    } else if (ok) {
        (void)c->proto->feed(c->session, NULL, 0, now);
    }
    if (ok) {
        settle(c, now);
    } else {
        conn_close(c, now);
    }
}

void tr_conns_work(struct tr_conns *cs, uint64_t most_us)
{
    struct tr_now now = read_clock(cs);
    uint64_t until_us = now.boot_us + most_us;
    struct tr_list once; /* who comes to the list meanwhile has his turn next time */

    tr_list_init(&once);
    tr_list_splice(&once, &cs->work);
    while (!tr_list_empty(&once)) {
        struct conn *c = TR_CONTAINER_OF(once.next, struct conn, working);

        tr_list_remove(&c->working);
        work(c, now);
        now = read_clock(cs);
        if (now.boot_us >= until_us) {
            break;
        }
    }
    put_back(&cs->work, &once);
}

static struct conn *conn_of(const void *session)
{
    return (struct conn *)((uintptr_t)session - offsetof(struct conn, session));
}

static void woken(void *session)
{
    put_to_work(conn_of(session));
}

void tr_conns_peer(const void *session, struct tr_sock_peer *peer)
{
    const struct conn *c = conn_of(session);

    *peer = (struct tr_sock_peer){.text = "unknown"};
    if (c->sock != NULL) {
        tr_sock_peer(c->sock, peer);
    }
}

void tr_conns_reauth(struct tr_conns *cs, struct tr_now now)
{
    for (struct tr_list *n = cs->all.next; n != &cs->all; n = n->next) {
        struct conn *c = TR_CONTAINER_OF(n, struct conn, all);

        c->proto->reauth(c->session, now); /* who can go on is woken, and nobody is closed here */
    }
}

static void on_beanstalk_woken(void *ctx, struct tr_bs_session *s)
{
    (void)ctx;
    woken(s);
}

static void on_http_woken(void *ctx, struct tr_hs *s)
{
    (void)ctx;
    woken(s);
}

/* ---- coming ---- */

static void check_full(struct tr_conns *cs, struct tr_listener *l)
{
    bool full = cs->count >= cs->count_max;

    for (unsigned i = 0; full && i < TR_PORTS; i++) {
        if (cs->doors[i].listener != NULL) {
            tr_listener_pause(cs->doors[i].listener);
        }
    }
    if ((full || tr_listener_paused(l)) && !cs->told_full) {
        cs->told_full = true;
        cs->full(cs->ctx, "the limit of connections (limits.connections) or open files (ulimit -n) "
                          "is reached: new connections wait until others are closed");
    }
}

static void on_accepted(void *ctx, struct tr_sock *sock)
{
    struct tr_door *door = ctx;
    struct tr_conns *cs = door->conns;
    struct tr_now now = read_clock(cs);
    struct conn *c = sock != NULL ? tr_mem_alloc(cs->mem, sizeof *c + door->proto->size) : NULL;

    if (c != NULL) {
        c->conns = cs;
        c->proto = door->proto;
        c->out = door->proto->out(c->session);
        c->sock = sock;
        c->patience = TR_PATIENCE_ENDLESS;
        tr_list_append(&cs->all, &c->all);
        tr_list_init(&c->working);
        tr_list_init(&c->sending);
        tr_list_init(&c->patient);
        cs->count++;
        c->proto->open(c->session, door->port, cs->next_number++, now);
        settle(c, now);
    } else if (sock != NULL) {
        tr_sock_close(sock);
    }
    check_full(cs, door->listener);
}

void tr_conns_init(struct tr_conns *cs, struct tr_mem *mem)
{
    cs->mem = mem;
    cs->next_number = 1;
    cs->retry_us = UINT64_MAX;
    cs->beanstalk.mem = mem;
    cs->beanstalk.woken = on_beanstalk_woken;
    cs->beanstalk.ctx = cs;
    cs->beanstalk.output_max = OUTPUT_MAX;
    cs->doors[TR_PORT_BEANSTALK] =
        (struct tr_door){.conns = cs, .proto = &tr_bs_proto, .port = &cs->beanstalk};
    cs->http.mem = mem;
    cs->http.woken = on_http_woken;
    cs->http.ctx = cs;
    cs->http.output_max = OUTPUT_MAX;
    cs->doors[TR_PORT_HTTP] =
        (struct tr_door){.conns = cs, .proto = &tr_http_proto, .port = &cs->http};
    tr_list_init(&cs->all);
    tr_list_init(&cs->work);
    tr_list_init(&cs->unsent);
    tr_list_init(&cs->gated);
    for (unsigned i = 0; i < TR_PATIENCE_COUNT; i++) {
        tr_list_init(&cs->patient[i]);
        cs->patience_us[i] = LAST_US;
    }
}

int tr_conns_listen(struct tr_conns *cs, enum tr_port_kind port, const char *address)
{
    struct tr_listener_calls calls = {.ctx = &cs->doors[port], .accepted = on_accepted};

    return tr_listener_open(&cs->doors[port].listener, cs->loop, address, &calls);
}

/* ---- time ---- */

/* Asks for descriptors again, now and then, while there are none. */
static void retry(struct tr_conns *cs, struct tr_now now)
{
    bool waits = false;

    for (unsigned i = 0; i < TR_PORTS; i++) {
        struct tr_listener *l = cs->doors[i].listener;

        if (l == NULL || !tr_listener_paused(l) || cs->count >= cs->count_max) {
            continue;
        }
        if (cs->retry_us <= now.boot_us) {
            tr_listener_resume(l);
        }
        waits |= tr_listener_paused(l);
    }
    if (!waits) {
        cs->retry_us = UINT64_MAX;
    } else if (cs->retry_us == UINT64_MAX) {
        cs->retry_us = now.boot_us + RETRY_US;
    }
}

/* The first of a kind, if its time is over; *next is when it will be. */
static struct conn *first_late(struct tr_conns *cs, unsigned kind, struct tr_now now,
                               uint64_t *next)
{
    struct tr_list *head = &cs->patient[kind];
    struct conn *c = TR_CONTAINER_OF(head->next, struct conn, patient);
    uint64_t until_us;

    if (tr_list_empty(head)) {
        return NULL;
    }
    until_us = c->since_us + cs->patience_us[kind];
    *next = until_us < *next ? until_us : *next;
    return until_us <= now.boot_us ? c : NULL;
}

static void be_late(struct conn *c, struct tr_now now)
{
    tr_list_remove(&c->patient);
    c->patience = TR_PATIENCE_ENDLESS;
    if (c->lingers || c->blocked) {
        conn_close(c, now);
        return;
    }
    c->proto->late(c->session, now);
    settle(c, now);
}

uint64_t tr_conns_time(struct tr_conns *cs, struct tr_now now)
{
    uint64_t next;

    retry(cs, now);
    next = cs->retry_us;
    for (unsigned kind = 0; kind < TR_PATIENCE_COUNT; kind++) {
        struct conn *c;

        for (unsigned i = 0; i < LATE_MAX && (c = first_late(cs, kind, now, &next)) != NULL; i++) {
            be_late(c, now);
        }
    }
    return next;
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
    struct tr_output *out = c->out;
    bool was_full = want_of(c) == TR_WANT_DRAIN;
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
        c->active = true;
    }
    c->blocked = (size_t)n < len;
    if (was_full && want_of(c) != TR_WANT_DRAIN) {
        put_to_work(c);
    }
    settle(c, now);
}

void tr_conns_flush(struct tr_conns *cs, uint64_t most_us)
{
    struct tr_now now = read_clock(cs);
    uint64_t until_us = now.boot_us + most_us;
    struct tr_list once;

    tr_list_init(&once);
    tr_list_splice(&once, &cs->unsent);
    for (unsigned i = 0; !tr_list_empty(&once) && (i < SENDS_MIN || now.boot_us < until_us); i++) {
        struct conn *c = TR_CONTAINER_OF(once.next, struct conn, sending);

        tr_list_remove(&c->sending);
        send_some(c, now);
        now = read_clock(cs);
    }
    put_back(&cs->unsent, &once);
}

/* ---- going ---- */

static void close_doors(struct tr_conns *cs)
{
    for (unsigned i = 0; i < TR_PORTS; i++) {
        tr_listener_close(cs->doors[i].listener);
        cs->doors[i].listener = NULL;
    }
}

/* Ends all waits: first, or those who wait would be given the jobs of the others. */
static void stop_waiting(struct tr_conns *cs, struct tr_now now)
{
    struct tr_list *next;

    for (struct tr_list *n = cs->all.next; n != &cs->all; n = next) {
        struct conn *c = TR_CONTAINER_OF(n, struct conn, all);

        next = n->next;
        if (c->sock != NULL && (c->lingers || c->proto->stop(c->session, now))) {
            conn_close(c, now);
        }
    }
}

void tr_conns_stop(struct tr_conns *cs, struct tr_now now)
{
    struct tr_list *next;

    cs->stopping = true;
    cs->http.stopping = true;
    close_doors(cs);
    stop_waiting(cs, now);
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
    struct tr_list *next;

    close_doors(cs);
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

        c->proto->fini(c->session);
        conn_free(c);
    }
}
