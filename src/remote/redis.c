/*
 * One connection, from its name to its end.
 *
 *     connect ─► NAMING ─► DIALING ─► GREETING ─► UP ─► close: CLOSED
 *                  └──────────┴───────────┴───────┴──► BROKEN ─► closed is told: CLOSED
 *
 * NAMING: a name is looked up by a thread (resolver.c), an address needs none. DIALING: its
 * addresses, one after the other; each attempt begins with another one, as one that does not answer
 * is only noticed by the engine, which closes and connects again. GREETING: AUTH if there is a
 * password, CLIENT SETNAME; when both are answered it is up.
 *
 * Whatever breaks does so silently (break_off): the socket is closed, and a timer that ends at once
 * tells the engine. So `closed` is never called from inside connect, send or flush.
 *
 * Invariant: `generation` grows whenever a connection ends. An event that tells the engine
 * something looks at it afterwards: the engine may have closed the connection, and even made
 * another one of the same number. The reader is the event's own meanwhile, since the answer that
 * the engine reads is in there.
 *
 * hiredis only takes answers apart (reader.c). Its asynchronous half is not used: in 0.14, which
 * Debian has, it looks up names inside of connect, goes on with a command whose callback it had no
 * memory for (so that all answers behind it go to the wrong ones), aborts when others of its
 * allocations fail, and copies each command twice.
 *
 * Cost: a command is copied once, and all of a turn leave in one send; an answer is copied from the
 * socket, into hiredis, into the answer. At most READ_MOST bytes are read of one connection before
 * the others have their turn.
 */

#include "remote/redis.h"

#include "base/err.h"
#include "base/list.h"
#include "base/text.h"
#include "remote/reader.h"
#include "remote/resolver.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SERVER = 280, /* host:port */
    WHY = 400,
    SECRET = 512,
    NAME = 128,
    READ_BYTES = 32 * 1024,
    READ_MOST = 256 * 1024,
    OUT_FIRST = 4096,
    OUT_KEEP = 256 * 1024,
    TAGS_FIRST = 16,
    NUMBER = 24, /* "$", digits, CR LF */
    KEEP_IDLE_S = 15,
    KEEP_EACH_S = 5,
    KEEP_TIMES = 3,
};

enum stage { CLOSED, NAMING, DIALING, GREETING, UP, BROKEN };

struct conn {
    struct tr_redis *owner;
    enum stage stage;
    uint32_t generation;
    int fd; /* -1: none; zero only before the first use */
    struct tr_poll *poll;
    struct tr_lookup *lookup;
    struct addrinfo *found;
    struct addrinfo *at; /* the one that is tried */
    unsigned left;       /* so many are to be tried yet */
    int errno_last;
    struct tr_reader *reader;
    unsigned greetings; /* answers that are to come before it is up */
    char *out;          /* to be written: from out_at to out_len */
    size_t out_at;
    size_t out_len;
    size_t out_room;
    uint64_t *tags; /* a ring: of commands without an answer */
    unsigned tag_first;
    unsigned tag_count;
    unsigned tag_room;
    struct tr_list dirty;  /* in owner->dirty: there is something new to be written */
    struct tr_list broken; /* in owner->broken */
    char server[SERVER];
    char why[WHY];
};

struct tr_redis {
    struct tr_mem *mem;
    struct tr_poller poller;
    struct tr_now (*now)(void);
    struct tr_redis_ear ear;
    struct tr_resolver *resolver;
    struct tr_poll_timer *timer;
    struct tr_list dirty;
    struct tr_list broken;
    unsigned dials; /* which of a name's addresses is the first */
    char user[SECRET];
    char password[SECRET];
    char name[NAME];
    struct tr_redis_stat stat;
    struct conn conns[TR_REDIS_CONNS];
};

static unsigned number_of(const struct conn *c)
{
    return (unsigned)(c - c->owner->conns);
}

/* ---- The end. */

static void hang_up(struct conn *c)
{
    if (c->poll != NULL) {
        c->owner->poller.close(c->poll);
        c->poll = NULL;
    }
    if (c->fd >= 0) {
        (void)close(c->fd);
        c->fd = -1;
    }
}

/* All that it has goes; what is left is its number, and why. */
static void let_go(struct conn *c)
{
    struct tr_redis *r = c->owner;

    hang_up(c);
    if (c->lookup != NULL) {
        tr_resolver_forget(r->resolver, c->lookup);
        c->lookup = NULL;
    }
    if (c->found != NULL) {
        freeaddrinfo(c->found);
        c->found = NULL;
    }
    tr_reader_free(c->reader);
    c->reader = NULL;
    tr_mem_free(r->mem, c->out, c->out_room);
    c->out = NULL;
    c->out_at = c->out_len = c->out_room = 0;
    tr_mem_free(r->mem, c->tags, c->tag_room * sizeof *c->tags);
    c->tags = NULL;
    c->tag_first = c->tag_count = c->tag_room = 0;
    tr_list_remove(&c->dirty);
    tr_list_remove(&c->broken);
    r->stat.conns -= c->stage == UP;
    c->stage = CLOSED;
    c->generation++;
}

__attribute__((format(printf, 2, 3))) static void break_off(struct conn *c, const char *format, ...)
{
    struct tr_redis *r = c->owner;
    va_list args;

    va_start(args, format);
    tr_text_list(c->why, sizeof c->why, format, args);
    va_end(args);
    let_go(c);
    c->stage = BROKEN;
    tr_list_append(&r->broken, &c->broken);
    r->poller.timer_set(r->timer, 0);
}

static void break_by_errno(struct conn *c, int err)
{
    char text[100];

    break_off(c, "%s", strerror_r(err, text, sizeof text));
}

static void break_without_memory(struct conn *c)
{
    break_off(c, "out of memory");
}

/* What the reader found. */
static void break_by_reader(struct conn *c, int err)
{
    if (err == TARRY_ENOMEM) {
        break_without_memory(c);
    } else {
        break_off(c, "this is not what Redis answers");
    }
}

/* The timer: tells what broke. What breaks meanwhile is told the next time. */
static void tell_broken(void *ctx)
{
    struct tr_redis *r = ctx;
    struct tr_list these;

    tr_list_init(&these);
    tr_list_splice(&these, &r->broken);
    while (!tr_list_empty(&these)) {
        struct conn *c = TR_CONTAINER_OF(these.next, struct conn, broken);
        char why[WHY];

        memcpy(why, c->why, sizeof why);
        tr_list_remove(&c->broken);
        c->stage = CLOSED;
        r->stat.broken++;
        r->ear.closed(r->ear.ctx, number_of(c), why, r->now());
    }
}

/* ---- Writing. */

static bool make_room(struct conn *c, size_t bytes)
{
    size_t room = c->out_room != 0 ? c->out_room : OUT_FIRST;
    char *more;

    if (c->out_at > 0) { /* what was written makes room first */
        memmove(c->out, c->out + c->out_at, c->out_len - c->out_at);
        c->out_len -= c->out_at;
        c->out_at = 0;
    }
    while (room < c->out_len + bytes) {
        room *= 2;
    }
    if (room == c->out_room) {
        return true;
    }
    more = tr_mem_stretch(c->owner->mem, c->out, c->out_room, room);
    if (more == NULL) {
        return false;
    }
    c->out = more;
    c->out_room = room;
    return true;
}

static void put(struct conn *c, const char *bytes, size_t len)
{
    if (len > 0) {
        memcpy(c->out + c->out_len, bytes, len);
        c->out_len += len;
    }
}

static void put_number(struct conn *c, char kind, size_t number)
{
    char text[1 + TR_TEXT_NUMBER + 2] = {kind};
    size_t len = 1 + tr_text_number(text + 1, number);

    text[len++] = '\r';
    text[len++] = '\n';
    put(c, text, len);
}

static bool write_command(struct conn *c, const struct tr_span *args, unsigned count)
{
    size_t bytes = NUMBER;

    for (unsigned i = 0; i < count; i++) {
        bytes += NUMBER + args[i].len + 2;
    }
    if (c->out_len + bytes > c->out_room && !make_room(c, bytes)) {
        return false;
    }
    put_number(c, '*', count);
    for (unsigned i = 0; i < count; i++) {
        put_number(c, '$', args[i].len);
        put(c, args[i].at, args[i].len);
        put(c, "\r\n", 2);
    }
    return true;
}

static void watch(struct conn *c)
{
    unsigned more = c->out_at < c->out_len ? TR_POLL_WRITE : 0U;

    c->owner->poller.watch(c->poll, TR_POLL_READ | more);
}

/* The buffer is empty: it may be large from one large command. */
static void shrink(struct conn *c)
{
    c->out_at = 0;
    c->out_len = 0;
    if (c->out_room > OUT_KEEP) {
        tr_mem_free(c->owner->mem, c->out, c->out_room);
        c->out = NULL;
        c->out_room = 0;
    }
}

static void write_out(struct conn *c)
{
    while (c->out_at < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) {
            break_by_errno(c, errno);
            return;
        }
        c->owner->stat.writes++;
        c->owner->stat.bytes_out += (uint64_t)n;
        c->out_at += (size_t)n;
    }
    if (c->out_at == c->out_len) {
        shrink(c);
    }
    watch(c);
}

void tr_redis_flush(struct tr_redis *r)
{
    while (!tr_list_empty(&r->dirty)) {
        struct conn *c = TR_CONTAINER_OF(r->dirty.next, struct conn, dirty);

        tr_list_remove(&c->dirty);
        write_out(c);
    }
}

/* ---- Greeting. */

static struct tr_span text_span(const char *text)
{
    return (struct tr_span){text, strlen(text)};
}

/* Are both ends the same socket? A port of ours that nobody listens on may be given to our own end
 * of the connection to it, and then we would talk to ourselves. */
static bool is_itself(int fd)
{
    struct sockaddr_storage here = {0};
    struct sockaddr_storage there = {0};
    socklen_t here_len = sizeof here;
    socklen_t there_len = sizeof there;

    return getsockname(fd, (struct sockaddr *)&here, &here_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_len) == 0 && here_len == there_len &&
           memcmp(&here, &there, here_len) == 0;
}

static void greet(struct conn *c)
{
    const struct tr_redis *r = c->owner;
    struct tr_span name[] = {text_span("CLIENT"), text_span("SETNAME"), text_span(r->name)};
    struct tr_span auth[3] = {text_span("AUTH")};
    unsigned count = 1;

    c->stage = GREETING;
    c->greetings = 1;
    if (r->password[0] != '\0') {
        if (r->user[0] != '\0') {
            auth[count++] = text_span(r->user);
        }
        auth[count++] = text_span(r->password);
        c->greetings = 2;
    }
    c->reader = tr_reader_new(r->mem);
    if (c->reader == NULL || (c->greetings == 2 && !write_command(c, auth, count)) ||
        !write_command(c, name, 3)) {
        break_without_memory(c);
        return;
    }
    write_out(c);
}

/* What an error says, without what it repeats of a command that is not known there: a password. */
static size_t plain_len(struct tr_span error)
{
    static const char args[] = "with args";
    const char *found = memmem(error.at, error.len, args, sizeof args - 1);

    return found != NULL ? (size_t)(found - error.at) : error.len;
}

/* Does it say so in its first word? */
static bool says(struct tr_span error, const char *word)
{
    size_t len = strlen(word);

    return error.len >= len && memcmp(error.at, word, len) == 0;
}

static void greeted(struct conn *c, const struct tr_redis_reply *reply)
{
    struct tr_redis *r = c->owner;
    bool only_name = c->greetings == 1;
    bool harmless =
        only_name && (says(reply->error, "NOPERM") || says(reply->error, "ERR unknown"));

    if (reply->event == TR_REDIS_ERROR && !harmless) {
        size_t len = plain_len(reply->error);

        break_off(c, "%.*s", (int)(len < WHY ? len : WHY), reply->error.at);
        return;
    }
    if (--c->greetings == 0) {
        c->stage = UP;
        r->stat.conns++;
        r->stat.connects++;
        r->ear.up(r->ear.ctx, number_of(c), r->now());
    }
}

/* ---- Reading. */

static bool push_tag(struct conn *c, uint64_t tag)
{
    if (c->tag_count == c->tag_room) {
        unsigned room = c->tag_room != 0 ? 2 * c->tag_room : TAGS_FIRST;
        uint64_t *tags = tr_mem_alloc(c->owner->mem, room * sizeof *tags);

        if (tags == NULL) {
            return false;
        }
        for (unsigned i = 0; i < c->tag_count; i++) {
            tags[i] = c->tags[(c->tag_first + i) % c->tag_room];
        }
        tr_mem_free(c->owner->mem, c->tags, c->tag_room * sizeof *tags);
        c->tags = tags;
        c->tag_room = room;
        c->tag_first = 0;
    }
    c->tags[(c->tag_first + c->tag_count++) % c->tag_room] = tag;
    return true;
}

static void heard(struct conn *c, const struct tr_redis_reply *reply)
{
    struct tr_redis *r = c->owner;
    uint64_t tag;

    if (c->stage == GREETING) {
        greeted(c, reply);
        return;
    }
    if (c->tag_count == 0) {
        size_t len = reply->event == TR_REDIS_ERROR ? plain_len(reply->error) : 0;

        break_off(c, "it says what nobody asked: %.*s", (int)(len < WHY ? len : WHY),
                  len > 0 ? reply->error.at : "");
        return;
    }
    tag = c->tags[c->tag_first];
    c->tag_first = (c->tag_first + 1) % c->tag_room;
    c->tag_count--;
    r->stat.answers++;
    r->ear.heard(r->ear.ctx, number_of(c), tag, reply, r->now());
}

/* Tells all answers that are complete. False: the connection has ended. */
static bool hear(struct conn *c)
{
    uint32_t generation = c->generation;
    struct tr_reader *reader = c->reader;

    c->reader = NULL;
    while (c->generation == generation) {
        struct tr_redis_reply reply;
        bool there;
        int err = tr_reader_next(reader, &reply, &there);

        if (err == TARRY_OK && !there) {
            c->reader = reader;
            return true;
        }
        if (err == TARRY_OK) {
            heard(c, &reply);
        } else {
            break_by_reader(c, err);
        }
    }
    tr_reader_free(reader);
    return false;
}

/* False: there is no more for now, or the connection has ended. */
static bool read_some(struct conn *c, size_t *total)
{
    char bytes[READ_BYTES];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
    int err;

    if (n < 0 && errno == EINTR) {
        return true;
    }
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n < 0) {
        break_by_errno(c, errno);
        return false;
    }
    if (n == 0) {
        break_off(c, "it closed the connection");
        return false;
    }
    *total += (size_t)n;
    c->owner->stat.bytes_in += (uint64_t)n;
    err = tr_reader_feed(c->reader, bytes, (size_t)n);
    if (err != TARRY_OK) {
        break_by_reader(c, err);
        return false;
    }
    return hear(c) && (size_t)n == sizeof bytes;
}

/* ---- Connecting. */

static void dial(struct conn *c);

static void dialled(struct conn *c)
{
    int err = 0;
    socklen_t len = sizeof err;

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0) {
        err = errno;
    }
    if (err == 0 && is_itself(c->fd)) {
        err = ECONNREFUSED;
    }
    if (err == 0) {
        freeaddrinfo(c->found);
        c->found = NULL;
        greet(c);
        return;
    }
    c->errno_last = err;
    hang_up(c);
    dial(c);
}

static void on_event(void *ctx, int fd, unsigned events)
{
    struct conn *c = ctx;
    uint32_t generation = c->generation;
    size_t total = 0;

    (void)fd;
    if (c->stage == DIALING) {
        dialled(c);
        return;
    }
    if ((events & TR_POLL_WRITE) != 0) {
        write_out(c);
    }
    if ((events & TR_POLL_READ) != 0) {
        while (c->generation == generation && total < READ_MOST && read_some(c, &total)) {
        }
    }
    /* After an error nothing is watched until it is asked for. */
    if (c->generation == generation && (events & TR_POLL_ERROR) != 0) {
        watch(c);
    }
}

static void tune(int fd)
{
    int on = 1;
    int idle_s = KEEP_IDLE_S;
    int each_s = KEEP_EACH_S;
    int times = KEEP_TIMES;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each_s, sizeof each_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

/* One address. False: it failed at once. */
static bool reach(struct conn *c, const struct addrinfo *a)
{
    struct tr_redis *r = c->owner;

    c->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        c->errno_last = errno;
        return false;
    }
    tune(c->fd);
    if (connect(c->fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS) {
        c->errno_last = errno;
        return false;
    }
    c->poll = r->poller.open(r->poller.ctx, c->fd, on_event, c);
    if (c->poll == NULL) {
        c->errno_last = ENOMEM;
        return false;
    }
    r->poller.watch(c->poll, TR_POLL_WRITE);
    return true;
}

/* The next address, and the first one behind the last. */
static void dial(struct conn *c)
{
    c->stage = DIALING;
    while (c->left > 0) {
        const struct addrinfo *a = c->at;

        c->left--;
        c->at = c->at->ai_next != NULL ? c->at->ai_next : c->found;
        if (reach(c, a)) {
            return;
        }
        hang_up(c);
    }
    break_by_errno(c, c->errno_last);
}

static void found(void *ctx, struct addrinfo *list, const char *why)
{
    struct conn *c = ctx;
    unsigned skip;

    c->lookup = NULL;
    if (list == NULL) {
        break_off(c, "%s", why);
        return;
    }
    c->found = list;
    c->left = 1;
    for (const struct addrinfo *a = list->ai_next; a != NULL; a = a->ai_next) {
        c->left++;
    }
    skip = c->owner->dials++ % c->left;
    for (c->at = list; skip > 0 && c->at->ai_next != NULL; skip--) {
        c->at = c->at->ai_next;
    }
    dial(c);
}

/* Host and port of "host:port". NULL, or what is wrong. */
static const char *split(const char *server, char host[SERVER], const char **port)
{
    const char *colon = strrchr(server, ':');
    size_t len = colon != NULL ? (size_t)(colon - server) : 0;
    size_t digits = colon != NULL ? strspn(colon + 1, "0123456789") : 0;

    if (len == 0 || len >= SERVER || digits == 0 || digits > 5 || colon[1 + digits] != '\0') {
        return "not host:port";
    }
    memcpy(host, server, len);
    host[len] = '\0';
    *port = colon + 1;
    return NULL;
}

static void look_up(struct conn *c)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM,
                            .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char host[SERVER];
    const char *port = NULL;
    const char *bad = split(c->server, host, &port);

    if (bad != NULL) {
        break_off(c, "%s", bad);
        return;
    }
    if (getaddrinfo(host, port, &want, &list) == 0) {
        found(c, list, NULL);
        return;
    }
    c->stage = NAMING;
    c->lookup = tr_resolver_ask(c->owner->resolver, host, port, found, c);
    if (c->lookup == NULL) {
        break_without_memory(c);
    }
}

/* ---- What the engine asks. */

static struct conn *conn_of(struct tr_redis *r, unsigned number)
{
    TR_CHECK(number < TR_REDIS_CONNS);
    return &r->conns[number];
}

static void port_connect(void *ctx, unsigned number, const char *server)
{
    struct tr_redis *r = ctx;
    struct conn *c = conn_of(r, number);

    TR_CHECK(c->stage == CLOSED);
    c->owner = r;
    c->fd = -1;
    c->errno_last = EADDRNOTAVAIL;
    tr_list_init(&c->dirty);
    tr_list_init(&c->broken);
    tr_text(c->server, sizeof c->server, "%s", server);
    look_up(c);
}

static void port_send(void *ctx, unsigned number, uint64_t tag, const struct tr_span *args,
                      unsigned count)
{
    struct tr_redis *r = ctx;
    struct conn *c = conn_of(r, number);

    TR_CHECK(c->stage == UP || c->stage == BROKEN);
    if (c->stage == BROKEN) {
        return; /* closed will be told */
    }
    if (!push_tag(c, tag) || !write_command(c, args, count)) {
        break_without_memory(c);
        return;
    }
    r->stat.commands++;
    if (tr_list_empty(&c->dirty)) {
        tr_list_append(&r->dirty, &c->dirty);
    }
}

static void port_close(void *ctx, unsigned number)
{
    struct conn *c = conn_of(ctx, number);

    TR_CHECK(c->stage != CLOSED);
    let_go(c);
}

struct tr_redis_port tr_redis_port(struct tr_redis *r)
{
    return (struct tr_redis_port){
        .ctx = r, .connect = port_connect, .send = port_send, .close = port_close};
}

void tr_redis_listen(struct tr_redis *r, struct tr_redis_ear ear)
{
    r->ear = ear;
}

struct tr_redis_stat tr_redis_stat(const struct tr_redis *r)
{
    return r->stat;
}

/* ---- Opening and closing. */

/* False: it is too long. */
static bool copy(char *out, size_t size, const char *text)
{
    tr_text(out, size, "%s", text != NULL ? text : "");
    return text == NULL || strlen(text) < size;
}

int tr_redis_open(struct tr_redis **out, const struct tr_redis_setup *setup)
{
    struct tr_redis *r = tr_mem_alloc(setup->mem, sizeof *r);
    int err = TARRY_EINVAL;

    *out = NULL;
    if (r == NULL) {
        return TARRY_ENOMEM;
    }
    r->mem = setup->mem;
    r->poller = setup->poller;
    r->now = setup->now;
    tr_list_init(&r->dirty);
    tr_list_init(&r->broken);
    if (copy(r->user, sizeof r->user, setup->user) &&
        copy(r->password, sizeof r->password, setup->password) &&
        copy(r->name, sizeof r->name, setup->name)) {
        r->timer = r->poller.timer_open(r->poller.ctx, tell_broken, r);
        err = r->timer != NULL ? tr_resolver_open(&r->resolver, &r->poller) : TARRY_EFULL;
    }
    if (err != TARRY_OK) {
        tr_redis_close(r);
        return err;
    }
    *out = r;
    return TARRY_OK;
}

void tr_redis_close(struct tr_redis *r)
{
    if (r == NULL) {
        return;
    }
    for (unsigned i = 0; i < TR_REDIS_CONNS; i++) {
        if (r->conns[i].stage != CLOSED) {
            let_go(&r->conns[i]);
        }
    }
    tr_resolver_close(r->resolver);
    if (r->timer != NULL) {
        r->poller.timer_close(r->timer);
    }
    explicit_bzero(r->user, sizeof r->user);
    explicit_bzero(r->password, sizeof r->password);
    tr_mem_free(r->mem, r, sizeof *r);
}
