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
 * With TLS what is read and written goes through a pair of keys (os/tls.h), which looks like a
 * socket from here. Two things differ: bytes may be there that the socket does not tell of, and
 * before anything else keys have to be agreed on (conn_tls.c).
 *
 * Memory: whatever a session keeps of what its client sent, or has to send to it, is of `buffers`,
 * which has a limit. Large bodies find none when it is nearly used up, and are refused; replies
 * may have the rest.
 */

#include "server/conn.h"

#include "base/err.h"
#include "os/clock_linux.h"
#include "server/conn_inner.h"

#include <stddef.h>
#include <string.h>

enum {
    PENDING_MIN = 256,
    SENDS_MIN = 64,       /* in a round, however slow the machine is, unless they are long */
    SEND_MAX = 128 << 10, /* at once: others have short replies */
    LAST_US = 2000000,    /* for the client to close, too */
    GO_US = 50,           /* a shorter go is not counted, unless it is one of several */
};

struct tr_now tr_conns_clock(const struct tr_conns *cs)
{
    struct tr_now now = tr_clock_linux_now();

    if (cs->wall_us != NULL) {
        now.wall_us = cs->wall_us(cs->ctx);
    }
    return now;
}

static enum tr_want want_of(const struct tr_conn *c)
{
    return c->proto->want(c->session);
}

/* ---- lists and memory ---- */

void tr_conn_work_later(struct tr_conn *c)
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

static void drop_pending(struct tr_conn *c)
{
    tr_mem_free(&c->conns->buffers, c->pending, c->pending_room);
    c->pending = NULL;
    c->pending_len = 0;
    c->pending_room = 0;
}

static void conn_free(struct tr_conn *c)
{
    struct tr_conns *cs = c->conns;

    cs->at_work = cs->at_work == c ? NULL : cs->at_work;
    tr_list_remove(&c->all);
    tr_list_remove(&c->working);
    tr_list_remove(&c->sending);
    tr_list_remove(&c->patient);
    drop_pending(c);
    tr_conn_leave_address(c);
    tr_mem_free(cs->mem, c, sizeof *c + c->proto->size);
    cs->count--;
    tr_conns_let_in(cs);
}

/* The session is being closed: c is freed when it has nothing left. */
static void go_on_closing(struct tr_conn *c)
{
    if (c->proto->gone(c->session)) {
        conn_free(c);
    } else if (want_of(c) == TR_WANT_TURN) {
        tr_conn_work_later(c);
    }
}

void tr_conn_close(struct tr_conn *c, struct tr_now now)
{
    struct tr_conns *cs = c->conns;

    if (c->tls != NULL) {
        tr_tls_end(c->tls, c->sock);
        tr_tls_free(c->tls);
        c->tls = NULL;
    }
    tr_sock_close(c->sock);
    c->sock = NULL;
    c->door->count--;
    cs->turn_wanted = true;
    tr_list_remove(&c->sending);
    tr_list_remove(&c->patient);
    drop_pending(c);
    c->proto->close(c->session, now);
    go_on_closing(c);
    tr_conns_let_in(cs);
}

/* ---- after something happened ---- */

/* It will send nothing more that we would execute, and has all its answers. */
static bool finished(const struct tr_conn *c)
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

static bool can_read(const struct tr_conn *c)
{
    return !c->ended && !c->conns->stopping && c->pending_len < TR_CONN_READ_MAX;
}

static void on_event(void *ctx, unsigned events);

void tr_conn_watch(struct tr_conn *c, unsigned events)
{
    tr_sock_watch(c->sock, events, on_event, c);
}

void tr_conn_linger(struct tr_conn *c, struct tr_now now)
{
    c->lingers = true;
    drop_pending(c);
    tr_conn_be_patient(c, now);
    if (c->tls != NULL) {
        tr_tls_end(c->tls, c->sock);
    }
    tr_sock_end(c->sock);
    tr_conn_watch(c, TR_SOCK_READ);
}

/* All was said. The connection ends here, or when the other side has read it. */
static void finish(struct tr_conn *c, struct tr_now now)
{
    if (c->out->broken) {
        tr_conn_count(c, TR_REFUSAL_BUFFERS);
    }
    if (!c->proto->lingers || c->ended || c->dead || c->out->broken || c->conns->stopping) {
        tr_conn_close(c, now);
        return;
    }
    tr_conn_linger(c, now);
}

/* With TLS, bytes may have been taken from the socket that were not asked for yet, and some may be
 * left that nobody wrote (an alert). */
static unsigned settle_tls(struct tr_conn *c, unsigned events)
{
    if ((events & TR_SOCK_READ) != 0 && tr_tls_waiting(c->tls)) {
        c->readable = true;
        tr_conn_work_later(c);
    }
    return tr_tls_unsent(c->tls) ? events | TR_SOCK_WRITE : events;
}

void tr_conn_settle(struct tr_conn *c, struct tr_now now)
{
    struct tr_conns *cs = c->conns;
    enum tr_want want = want_of(c);
    unsigned events = c->blocked ? TR_SOCK_WRITE : 0;
    const uint8_t *bytes;

    if (finished(c)) {
        finish(c, now);
        return;
    }
    tr_conn_be_patient(c, now);
    if (want == TR_WANT_TURN) {
        tr_conn_work_later(c);
    }
    if (tr_output_len(c->out) > 0 && !c->blocked) {
        bool ready = tr_output_ready(c->out, cs->durable, &bytes) > 0;

        tr_list_remove(&c->sending);
        tr_list_append(ready ? &cs->unsent : &cs->gated, &c->sending);
    }
    if (can_read(c) && want != TR_WANT_CLOSE && want != TR_WANT_DRAIN) {
        events |= TR_SOCK_READ;
    }
    if (c->tls != NULL) {
        events = settle_tls(c, events);
    }
    tr_conn_watch(c, events);
}

static void on_event(void *ctx, unsigned events)
{
    struct tr_conn *c = ctx;
    struct tr_now now;

    if ((events & (TR_SOCK_READ | TR_SOCK_ERROR)) != 0) {
        c->readable = true;
        c->dead |= (events & TR_SOCK_ERROR) != 0;
        tr_conn_work_later(c);
    }
    if ((events & (TR_SOCK_WRITE | TR_SOCK_HANGUP)) == 0) {
        return; /* nothing more, as it may be told again in every round until its turn comes */
    }
    if (c->shaking) {
        c->readable = true;
        tr_conn_work_later(c);
        return;
    }
    if (c->lingers) { /* what it sent before is read first */
        tr_conn_work_later(c);
        return;
    }
    now = tr_conns_clock(c->conns);
    if ((events & TR_SOCK_HANGUP) != 0) {
        c->proto->half_close(c->session, now);
    }
    c->blocked &= (events & TR_SOCK_WRITE) == 0;
    if (c->tls != NULL && (events & TR_SOCK_WRITE) != 0 && !tr_tls_flush(c->tls, c->sock)) {
        tr_conn_close(c, now);
        return;
    }
    tr_conn_settle(c, now);
}

/* ---- working ---- */

/* Keeps what the session did not take, which may be of the pending bytes themselves. */
static bool keep(struct tr_conn *c, const uint8_t *bytes, size_t len)
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
        more = tr_mem_stretch(&c->conns->buffers, c->pending, c->pending_room, room);
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
static bool feed(struct tr_conn *c, const uint8_t *bytes, size_t len, struct tr_now now)
{
    size_t taken = c->proto->feed(c->session, bytes, len, now);

    return keep(c, bytes + taken, len - taken);
}

/* Reads once. False: the connection is broken. */
static bool read_some(struct tr_conn *c, struct tr_now now)
{
    uint8_t *buf = c->conns->buf;
    size_t have = c->pending_len;
    long n;

    if (have > 0) {
        memcpy(buf, c->pending, have);
    }
    n = c->tls == NULL ? tr_sock_read(c->sock, buf + have, TR_CONN_READ_MAX - have)
                       : tr_tls_read(c->tls, c->sock, buf + have, TR_CONN_READ_MAX - have);
    if (n == TR_SOCK_AGAIN) {
        n = 0;
    } else if (n < 0) {
        if (c->tls != NULL && tr_tls_failed(c->tls)) {
            tr_conn_count(c, TR_REFUSAL_TLS);
        }
        return false;
    } else if (n == 0) {
        c->ended = true;
        c->proto->half_close(c->session, now);
    }
    c->active |= n > 0;
    c->moved += (size_t)n;
    return feed(c, buf, have + (size_t)n, now);
}

/* Nothing of what still comes counts; the end of it does. */
static void linger(struct tr_conn *c, struct tr_now now)
{
    long n = tr_sock_read(c->sock, c->conns->buf, TR_CONN_READ_MAX);

    if (n == 0 || n == TR_SOCK_BROKEN) {
        tr_conn_close(c, now);
    }
}

/* One go for a connection. */
static void work(struct tr_conn *c, struct tr_now now)
{
    bool reads = c->readable && can_read(c);
    bool ok = reads || !c->dead;

    if (c->shaking && c->sock != NULL) {
        tr_conn_shake(c, now);
        return;
    }
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
        tr_conn_settle(c, now);
    } else {
        tr_conn_close(c, now);
    }
}

/* So much time went into its command, in this go or in several; a command is told of once. */
static void note_time(struct tr_conn *c, uint64_t took_us)
{
    struct tr_conns *cs = c->conns;
    struct tr_doing d;
    bool was_slow;

    if (cs->slow_us == 0 || (took_us < GO_US && took_us < cs->slow_us && c->spent_us == 0)) {
        return;
    }
    c->proto->doing(c->session, &d);
    if (d.number == 0) {
        return; /* nothing was asked yet */
    }
    if (d.number != c->spent_on) {
        c->spent_on = d.number;
        c->spent_us = 0;
    }
    was_slow = c->spent_us >= cs->slow_us;
    c->spent_us += took_us;
    if (c->spent_us >= cs->slow_us && !was_slow) {
        cs->slow(cs->ctx, c->proto->name, &d, c->spent_us);
    }
}

void tr_conns_work(struct tr_conns *cs, uint64_t most_us)
{
    struct tr_now now = tr_conns_clock(cs);
    uint64_t until_us = now.boot_us + most_us;
    struct tr_list once; /* who comes to the list meanwhile has his turn next time */

    tr_list_init(&once);
    tr_list_splice(&once, &cs->work);
    while (!tr_list_empty(&once)) {
        struct tr_conn *c = TR_CONTAINER_OF(once.next, struct tr_conn, working);
        uint64_t from_us = now.boot_us;

        tr_list_remove(&c->working);
        cs->at_work = c;
        work(c, now);
        now = tr_conns_clock(cs);
        if (cs->at_work != NULL) {
            note_time(c, now.boot_us - from_us);
        }
        if (now.boot_us >= until_us) {
            break;
        }
    }
    put_back(&cs->work, &once);
}

void tr_conns_wake(struct tr_conns *cs)
{
    for (struct tr_list *n = cs->all.next; n != &cs->all; n = n->next) {
        tr_conn_work_later(TR_CONTAINER_OF(n, struct tr_conn, all));
    }
}

static struct tr_conn *conn_of(const void *session)
{
    return (struct tr_conn *)((uintptr_t)session - offsetof(struct tr_conn, session));
}

static void woken(void *session)
{
    tr_conn_work_later(conn_of(session));
}

void tr_conns_peer(const void *session, struct tr_sock_peer *peer)
{
    const struct tr_conn *c = conn_of(session);

    *peer = (struct tr_sock_peer){.text = "unknown"};
    if (c->sock != NULL) {
        tr_sock_peer(c->sock, peer);
    }
}

void tr_conns_reauth(struct tr_conns *cs, struct tr_now now)
{
    for (struct tr_list *n = cs->all.next; n != &cs->all; n = n->next) {
        struct tr_conn *c = TR_CONTAINER_OF(n, struct tr_conn, all);

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

/* ---- the beginning ---- */

void tr_conns_init(struct tr_conns *cs, struct tr_mem *mem)
{
    cs->mem = mem;
    cs->next_number = 1;
    cs->retry_us = UINT64_MAX;
    tr_mem_init(&cs->buffers, 0);
    tr_map_init(&cs->addresses, mem);
    cs->beanstalk.mem = &cs->buffers;
    cs->beanstalk.woken = on_beanstalk_woken;
    cs->beanstalk.ctx = cs;
    cs->beanstalk.output_max = TR_CONN_OUTPUT_MAX;
    cs->doors[TR_PORT_BEANSTALK] = (struct tr_door){
        .conns = cs, .proto = &tr_bs_proto, .port = &cs->beanstalk, .away = "OUT_OF_MEMORY\r\n"};
    cs->http.mem = &cs->buffers;
    cs->http.woken = on_http_woken;
    cs->http.ctx = cs;
    cs->http.output_max = TR_CONN_OUTPUT_MAX;
    cs->doors[TR_PORT_HTTP] = (struct tr_door){.conns = cs,
                                               .proto = &tr_http_proto,
                                               .port = &cs->http,
                                               .http = true,
                                               .plain = tr_conn_plain_http};
    tr_list_init(&cs->all);
    tr_list_init(&cs->work);
    tr_list_init(&cs->unsent);
    tr_list_init(&cs->gated);
    for (unsigned i = 0; i < TR_PATIENCE_COUNT; i++) {
        tr_list_init(&cs->patient[i]);
        cs->patience_us[i] = LAST_US;
    }
}

/* ---- sending ---- */

void tr_conns_durable(struct tr_conns *cs, uint64_t batch)
{
    cs->durable = batch;
    tr_list_splice(&cs->unsent, &cs->gated);
}

/* One write; the rest of a long reply is for the next round. */
static void send_some(struct tr_conn *c, struct tr_now now)
{
    struct tr_output *out = c->out;
    bool was_full = want_of(c) == TR_WANT_DRAIN;
    const uint8_t *bytes;
    size_t len = tr_output_ready(out, c->conns->durable, &bytes);
    long n = 0;

    len = len < SEND_MAX ? len : SEND_MAX;
    if (len > 0) {
        n = c->tls == NULL ? tr_sock_write(c->sock, bytes, len)
                           : tr_tls_write(c->tls, c->sock, bytes, len);
    }
    if (n == TR_SOCK_BROKEN) {
        tr_conn_close(c, now);
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
    if ((was_full || c->pending_len > 0) && want_of(c) != TR_WANT_DRAIN) {
        tr_conn_work_later(c); /* the limit may have been lower when it stopped */
    }
    tr_conn_settle(c, now);
}

void tr_conns_flush(struct tr_conns *cs, uint64_t most_us)
{
    struct tr_now now = tr_conns_clock(cs);
    uint64_t until_us = now.boot_us + most_us;
    unsigned sends = 0;
    struct tr_list once;

    tr_list_init(&once);
    tr_list_splice(&once, &cs->unsent);
    while (!tr_list_empty(&once) && (sends < SENDS_MIN || now.boot_us < until_us)) {
        struct tr_conn *c = TR_CONTAINER_OF(once.next, struct tr_conn, sending);

        sends += tr_output_len(c->out) < SEND_MAX ? 1 : SENDS_MIN / 4;
        tr_list_remove(&c->sending);
        send_some(c, now);
        now = tr_conns_clock(cs);
    }
    put_back(&cs->unsent, &once);
}

/* ---- going ---- */

/* Ends all waits: first, or those who wait would be given the jobs of the others. */
static void stop_waiting(struct tr_conns *cs, struct tr_now now)
{
    struct tr_list *next;

    for (struct tr_list *n = cs->all.next; n != &cs->all; n = next) {
        struct tr_conn *c = TR_CONTAINER_OF(n, struct tr_conn, all);

        next = n->next;
        if (c->sock != NULL && (c->lingers || c->shaking || c->proto->stop(c->session, now))) {
            tr_conn_close(c, now);
        }
    }
}

void tr_conns_stop(struct tr_conns *cs, struct tr_now now)
{
    struct tr_list *next;

    cs->stopping = true;
    cs->http.stopping = true;
    tr_conns_close_doors(cs);
    stop_waiting(cs, now);
    for (struct tr_list *n = cs->all.next; n != &cs->all; n = next) {
        struct tr_conn *c = TR_CONTAINER_OF(n, struct tr_conn, all);

        next = n->next;
        if (c->sock != NULL) {
            c->ended = true;
            drop_pending(c);
            tr_conn_settle(c, now);
        }
    }
}

void tr_conns_abort(struct tr_conns *cs, struct tr_now now)
{
    struct tr_list *next;

    tr_conns_close_doors(cs);
    for (struct tr_list *n = cs->all.next; n != &cs->all; n = next) {
        struct tr_conn *c = TR_CONTAINER_OF(n, struct tr_conn, all);

        next = n->next;
        if (c->sock != NULL) {
            tr_conn_close(c, now);
        }
    }
}

void tr_conns_fini(struct tr_conns *cs)
{
    while (!tr_list_empty(&cs->all)) {
        struct tr_conn *c = TR_CONTAINER_OF(cs->all.next, struct tr_conn, all);

        c->proto->fini(c->session);
        conn_free(c);
    }
    tr_map_fini(&cs->addresses);
}
