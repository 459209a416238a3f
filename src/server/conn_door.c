/*
 * Who is let in.
 *
 *     accepted --> too many in all, or from this address?  --> no --> a session
 *                       |                                              ^
 *                       +--> an answer needs its request (HTTP) -------+  which says so, and ends
 *                       +--> it is a line (beanstalk): written, and closed at once
 *
 * There are never more connections than count_max and some to spare, or the store would find no
 * descriptor for its own files. Of HTTP up to `spare` clients more are let in to be told so; beyond
 * them they wait in the kernel's backlog. Those of beanstalk are told without a session, and with
 * TLS, where that would take keys, only closed. Clients that come again at once would keep us busy
 * with nothing else: after so many in a second the rest waits in the backlog for a moment.
 *
 * Addresses are counted by a hash with a key of our own, so nobody can make them fall together. Of
 * IPv6 the first half counts, since the rest is each client's to choose. Sockets of the file system
 * have no address.
 */

#include "base/err.h"
#include "os/clock_linux.h"
#include "server/conn_inner.h"

#include <string.h>

enum { AWAY_MOST = 500 }; /* in a second */

static uint64_t most_of(const struct tr_door *door)
{
    const struct tr_conns *cs = door->conns;

    return door->proto->turn_away != NULL ? cs->count_max + cs->spare : UINT64_MAX;
}

void tr_conns_let_in(struct tr_conns *cs)
{
    for (unsigned i = 0; i < TR_PORTS; i++) {
        struct tr_door *d = &cs->doors[i];

        if (d->listener != NULL && !d->held && cs->count < most_of(d) &&
            (!d->away_rests || cs->count < cs->count_max)) {
            d->away_rests = false;
            tr_listener_resume(d->listener);
        }
    }
    cs->told_full &= cs->count > cs->count_max / 8 * 7; /* or it would be told again and again */
}

/* ---- addresses ---- */

static uint64_t hash_of(const struct tr_conns *cs, const struct tr_sock *sock)
{
    uint64_t number;
    uint64_t hash;

    if (!tr_sock_number(sock, &number)) {
        return 0;
    }
    hash = tr_siphash64(cs->address_key, &number, sizeof number);
    return hash != 0 ? hash : 1;
}

/* The map keeps numbers in the place of pointers. */
static uint64_t count_of(const struct tr_conns *cs, uint64_t hash)
{
    return hash != 0 ? (uint64_t)(uintptr_t)tr_map_find(&cs->addresses, hash) : 0;
}

static bool set_count(struct tr_conns *cs, uint64_t hash, uint64_t count)
{
    if (count == 0) {
        (void)tr_map_take(&cs->addresses, hash);
        return true;
    }
    return tr_map_put(&cs->addresses, hash, (void *)(uintptr_t)count) == TARRY_OK;
}

static void come_from(struct tr_conn *c, uint64_t hash)
{
    if (hash != 0 && set_count(c->conns, hash, count_of(c->conns, hash) + 1)) {
        c->address = hash; /* without memory for it, it is not counted */
    }
}

void tr_conn_leave_address(struct tr_conn *c)
{
    uint64_t count = count_of(c->conns, c->address);

    if (c->address != 0) {
        (void)set_count(c->conns, c->address, count - 1); /* it is there: no memory is needed */
        c->address = 0;
    }
}

/* ---- coming ---- */

/* Nobody is let in by a port that has too many. */
static void hold_back(struct tr_conns *cs)
{
    for (unsigned i = 0; i < TR_PORTS; i++) {
        struct tr_door *d = &cs->doors[i];

        if (d->listener != NULL && !tr_listener_paused(d->listener) && cs->count >= most_of(d)) {
            tr_listener_pause(d->listener);
            d->refused[TR_REFUSAL_FULL]++;
        }
    }
}

void tr_conns_allow(struct tr_conns *cs, uint64_t most)
{
    cs->count_max = most;
    hold_back(cs);
    tr_conns_let_in(cs);
}

static void check_full(struct tr_conns *cs, struct tr_door *door)
{
    hold_back(cs);
    if ((cs->count >= cs->count_max || tr_listener_paused(door->listener)) && !cs->told_full) {
        cs->told_full = true;
        cs->full(cs->ctx, "the limit of connections (limits.connections) or open files (ulimit -n) "
                          "is reached: new clients are told so and closed, or wait");
    }
}

/* Why this client is not wanted, if it is not. */
static bool unwanted(const struct tr_conns *cs, uint64_t hash, enum tr_turn_away *why)
{
    *why = TR_TURN_AWAY_ADDRESS;
    if (cs->address_max > 0 && count_of(cs, hash) >= cs->address_max) {
        return true;
    }
    *why = TR_TURN_AWAY_FULL;
    return cs->count >= cs->count_max;
}

static struct tr_conn *make(struct tr_door *door, struct tr_sock *sock)
{
    struct tr_conns *cs = door->conns;
    struct tr_conn *c = tr_mem_alloc(cs->mem, sizeof *c + door->proto->size);

    if (c == NULL) {
        return NULL;
    }
    c->conns = cs;
    c->proto = door->proto;
    c->out = door->proto->out(c->session);
    c->sock = sock;
    c->door = door;
    c->patience = TR_PATIENCE_ENDLESS;
    tr_list_append(&cs->all, &c->all);
    tr_list_init(&c->working);
    tr_list_init(&c->sending);
    tr_list_init(&c->patient);
    cs->count++;
    door->count++;
    door->ever++;
    return c;
}

/* Says so and closes. What the client has sent already is read, or closing would look to it as if
 * the connection broke. */
static void send_away(struct tr_door *door, struct tr_sock *sock, enum tr_turn_away why)
{
    struct tr_conns *cs = door->conns;
    uint64_t now_us = tr_clock_linux_now().boot_us;

    if (cs->tls == NULL && door->away != NULL) {
        (void)tr_sock_read(sock, cs->buf, sizeof cs->buf);
        (void)tr_sock_write(sock, (const uint8_t *)door->away, strlen(door->away));
    }
    tr_sock_close(sock);
    if (now_us - door->away_us >= 1000000) {
        door->away_us = now_us;
        door->away_count = 0;
    }
    if (why == TR_TURN_AWAY_FULL && ++door->away_count >= AWAY_MOST) {
        door->away_count = 0;
        door->away_rests = true;
        tr_listener_pause(door->listener); /* tr_conns_time goes on */
    }
}

static void let_in(struct tr_door *door, struct tr_sock *sock)
{
    struct tr_conns *cs = door->conns;
    struct tr_now now = tr_conns_clock(cs);
    uint64_t hash = hash_of(cs, sock);
    enum tr_turn_away why;
    bool away = unwanted(cs, hash, &why);
    struct tr_conn *c;

    if (away) {
        door->refused[why == TR_TURN_AWAY_FULL ? TR_REFUSAL_FULL : TR_REFUSAL_ADDRESS]++;
    }
    if (away && door->proto->turn_away == NULL) {
        send_away(door, sock, why);
        return;
    }
    c = make(door, sock);
    if (c == NULL) {
        tr_sock_close(sock);
        return;
    }
    come_from(c, hash);
    c->proto->open(c->session, door->port, cs->next_number++, now);
    if (away) {
        c->proto->turn_away(c->session, why);
    }
    if (cs->tls == NULL) {
        tr_conn_settle(c, now);
        return;
    }
    c->shaking = true;
    tr_conn_be_patient(c, now);
    tr_conn_watch(c, TR_SOCK_READ);
}

static void on_accepted(void *ctx, struct tr_sock *sock)
{
    struct tr_door *door = ctx;

    if (sock != NULL) {
        let_in(door, sock);
    } else {
        door->refused[TR_REFUSAL_FULL]++; /* no descriptor */
    }
    check_full(door->conns, door);
}

int tr_conns_listen(struct tr_conns *cs, enum tr_port_kind port, const char *address)
{
    struct tr_listener_calls calls = {.ctx = &cs->doors[port], .accepted = on_accepted};

    cs->http.secure = cs->tls != NULL;
    return tr_listener_open(&cs->doors[port].listener, cs->loop, address, &calls);
}

void tr_conns_hold(struct tr_conns *cs, enum tr_port_kind port, bool hold)
{
    struct tr_door *d = &cs->doors[port];

    d->held = hold;
    if (hold && d->listener != NULL) {
        tr_listener_pause(d->listener);
    }
    tr_conns_let_in(cs);
}

void tr_conns_close_doors(struct tr_conns *cs)
{
    for (unsigned i = 0; i < TR_PORTS; i++) {
        tr_listener_close(cs->doors[i].listener);
        cs->doors[i].listener = NULL;
    }
}

/* ---- what is counted ---- */

uint64_t tr_door_refused(const struct tr_conns *cs, enum tr_port_kind port, enum tr_refusal why)
{
    uint64_t count = cs->doors[port].refused[why];

    if (why == TR_REFUSAL_BUFFERS) {
        count += port == TR_PORT_HTTP ? cs->http.no_memory : cs->beanstalk.no_memory;
    }
    return count;
}

const char *tr_refusal_name(enum tr_refusal why)
{
    static const char *const names[TR_REFUSAL_COUNT] = {
#define X(name, text) [TR_REFUSAL_##name] = (text),
        TR_REFUSALS(X)
#undef X
    };

    TR_CHECK((unsigned)why < TR_REFUSAL_COUNT);
    return names[why];
}
