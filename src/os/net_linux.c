/*
 * Sockets. libuv only says which of them can be read or written (level-triggered); the calls are
 * made here, so that the owner decides how much is read and when, and sends from its own buffer.
 *
 * Descriptors can run out. Then the listening socket is not asked any more, or it would keep the
 * loop awake, until its owner says so; new clients wait in the kernel's backlog.
 *
 * A hang-up is told once and not asked for again, since it stays true.
 *
 * A unix socket leaves a file. One that nobody listens on any more is removed at the start, ours
 * at the end.
 */

#include "os/net_linux.h"

#include "base/err.h"
#include "os/errno_linux.h"
#include "os/loop_linux_uv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

enum { BACKLOG = 1024, ACCEPTS = 64 /* in one go */ };

union address {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
};

struct tr_sock {
    uv_poll_t poll;
    struct tr_loop_linux *loop;
    int fd;
    int watched;  /* as libuv has it */
    bool hung_up; /* told */
    union address peer;
    tr_sock_event_fn *call;
    void *ctx;
};

struct tr_listener {
    uv_poll_t poll;
    struct tr_loop_linux *loop;
    int fd;
    bool paused;
    struct tr_listener_calls calls;
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* of a unix socket, else empty */
    char address[TR_ADDRESS_MAX];
};

/* ---- connections ---- */

static void sock_freed(uv_handle_t *handle)
{
    free(handle->data);
}

static void sock_event(uv_poll_t *poll, int status, int events)
{
    struct tr_sock *s = poll->data;
    unsigned told = 0;

    tr_loop_linux_begin(s->loop);
    if (status < 0) { /* libuv asks no more until it is told to */
        s->watched = 0;
        told = TR_SOCK_READ | TR_SOCK_ERROR;
    }
    told |= (events & UV_READABLE) != 0 ? TR_SOCK_READ : 0U;
    told |= (events & UV_WRITABLE) != 0 ? TR_SOCK_WRITE : 0U;
    if ((events & UV_DISCONNECT) != 0 && !s->hung_up) {
        told |= TR_SOCK_HANGUP;
        s->hung_up = true;
    }
    if (told != 0 && s->call != NULL) {
        s->call(s->ctx, told);
    }
}

void tr_sock_watch(struct tr_sock *s, unsigned events, tr_sock_event_fn *call, void *ctx)
{
    int want = s->hung_up ? 0 : UV_DISCONNECT;
    int err;

    want |= (events & TR_SOCK_READ) != 0 ? UV_READABLE : 0;
    want |= (events & TR_SOCK_WRITE) != 0 ? UV_WRITABLE : 0;
    s->call = call;
    s->ctx = ctx;
    if (want == s->watched) {
        return;
    }
    err = want != 0 ? uv_poll_start(&s->poll, want, sock_event) : uv_poll_stop(&s->poll);
    TR_CHECK(err == 0);
    s->watched = want;
}

long tr_sock_read(struct tr_sock *s, uint8_t *buf, size_t len)
{
    ssize_t n;

    do {
        n = recv(s->fd, buf, len, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK ? TR_SOCK_AGAIN : TR_SOCK_BROKEN;
    }
    return n;
}

long tr_sock_write(struct tr_sock *s, const uint8_t *bytes, size_t len)
{
    ssize_t n;

    do {
        n = send(s->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK ? TR_SOCK_AGAIN : TR_SOCK_BROKEN;
    }
    return n;
}

/* Where an address of IPv4 is, also in the clothes of IPv6; NULL: it is none. */
static const void *ip4_of(const union address *a)
{
    if (a->any.sa_family == AF_INET) {
        return &a->ip4.sin_addr;
    }
    return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a->ip6.sin6_addr)
               ? &a->ip6.sin6_addr.s6_addr[12]
               : NULL;
}

bool tr_sock_number(const struct tr_sock *s, uint64_t *number)
{
    const void *ip4 = ip4_of(&s->peer);

    *number = 0;
    if (ip4 != NULL) {
        memcpy(number, ip4, 4);
    } else if (s->peer.any.sa_family == AF_INET6) {
        memcpy(number, &s->peer.ip6.sin6_addr, sizeof *number);
    }
    return s->peer.any.sa_family == AF_INET || s->peer.any.sa_family == AF_INET6;
}

void tr_sock_peer(const struct tr_sock *s, struct tr_sock_peer *peer)
{
    const void *ip4 = ip4_of(&s->peer);

    *peer = (struct tr_sock_peer){.text = "unix"};
    if (tr_sock_number(s, &peer->number)) {
        (void)inet_ntop(ip4 != NULL ? AF_INET : AF_INET6,
                        ip4 != NULL ? ip4 : &s->peer.ip6.sin6_addr, peer->text, sizeof peer->text);
    }
}

void tr_sock_end(struct tr_sock *s)
{
    (void)shutdown(s->fd, SHUT_WR); /* if it fails, the connection is broken and will tell so */
}

void tr_sock_close(struct tr_sock *s)
{
    s->call = NULL;
    (void)uv_poll_stop(&s->poll);
    uv_close((uv_handle_t *)&s->poll, sock_freed);
    close(s->fd);
}

/* Takes the descriptor, also when it fails. */
static struct tr_sock *sock_new(struct tr_loop_linux *loop, int fd)
{
    struct tr_sock *s = calloc(1, sizeof *s);
    int on = 1;

    if (s == NULL || uv_poll_init(tr_loop_linux_uv(loop), &s->poll, fd) != 0) {
        free(s);
        close(fd);
        return NULL;
    }
    /* Neither is vital, and a unix socket has neither. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    s->poll.data = s;
    s->loop = loop;
    s->fd = fd;
    return s;
}

/* ---- listening ---- */

static void listener_event(uv_poll_t *poll, int status, int events);

bool tr_listener_paused(const struct tr_listener *l)
{
    return l->paused;
}

void tr_listener_pause(struct tr_listener *l)
{
    l->paused = true;
    (void)uv_poll_stop(&l->poll);
}

void tr_listener_resume(struct tr_listener *l)
{
    if (l->paused) {
        l->paused = false;
        (void)uv_poll_start(&l->poll, UV_READABLE, listener_event);
    }
}

static void listener_event(uv_poll_t *poll, int status, int events)
{
    struct tr_listener *l = poll->data;

    (void)status;
    (void)events;
    tr_loop_linux_begin(l->loop);
    for (unsigned i = 0; i < ACCEPTS && !l->paused; i++) {
        union address from = {.any.sa_family = AF_UNSPEC};
        socklen_t len = sizeof from;
        int fd = accept4(l->fd, &from.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct tr_sock *s;

        if (fd < 0) {
            if (tr_errno_code(errno) == TARRY_EFULL) {
                tr_listener_pause(l);
                l->calls.accepted(l->calls.ctx, NULL);
            }
            return;
        }
        s = sock_new(l->loop, fd);
        if (s != NULL) {
            s->peer = from;
            l->calls.accepted(l->calls.ctx, s);
        }
    }
}

const char *tr_listener_address(const struct tr_listener *l)
{
    return l->address;
}

/* Is anybody listening there? If not, the file is a leftover. */
static bool unix_is_stale(const struct sockaddr_un *name)
{
    struct stat info;
    bool stale = false;
    int fd;

    if (lstat(name->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) {
        return false;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        stale =
            connect(fd, (const struct sockaddr *)name, sizeof *name) != 0 && errno == ECONNREFUSED;
        close(fd);
    }
    return stale;
}

static int bind_unix(struct tr_listener *l, const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    if (*path == '\0' || strlen(path) >= sizeof name.sun_path) {
        return TARRY_ENOTFOUND;
    }
    memcpy(name.sun_path, path, strlen(path) + 1);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0) {
        return tr_errno_code(errno);
    }
    if (unix_is_stale(&name)) {
        (void)unlink(name.sun_path);
    }
    if (bind(l->fd, (const struct sockaddr *)&name, sizeof name) != 0) {
        return tr_errno_code(errno);
    }
    memcpy(l->path, name.sun_path, sizeof l->path);
    (void)snprintf(l->address, sizeof l->address, "unix:%s", path);
    return TARRY_OK;
}

/* "HOST:PORT" into its parts. */
static bool split(const char *address, char *host, size_t host_room, const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t len = colon != NULL ? (size_t)(colon - address) : 0;

    if (colon == NULL || len >= host_room) {
        return false;
    }
    if (len >= 2 && address[0] == '[' && address[len - 1] == ']') {
        address++;
        len -= 2;
    }
    memcpy(host, address, len);
    host[len] = '\0';
    *port = colon + 1;
    return true;
}

/* The address with the port that the kernel gave. */
static void tell_port(struct tr_listener *l, const char *address)
{
    union address name = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof name;
    int host_len = (int)(strrchr(address, ':') - address);
    unsigned port = 0;

    if (getsockname(l->fd, &name.any, &len) == 0) {
        port = ntohs(name.any.sa_family == AF_INET6 ? name.ip6.sin6_port : name.ip4.sin_port);
    }
    (void)snprintf(l->address, sizeof l->address, "%.*s:%u", host_len, address, port);
}

static int bind_info(struct tr_listener *l, const struct addrinfo *info)
{
    int on = 1;

    l->fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0) {
        return tr_errno_code(errno);
    }
    (void)setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return bind(l->fd, info->ai_addr, info->ai_addrlen) == 0 ? TARRY_OK : tr_errno_code(errno);
}

static int bind_tcp(struct tr_listener *l, const char *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *info;
    char host[TR_ADDRESS_MAX];
    const char *port;
    int err;

    if (!split(address, host, sizeof host, &port) || getaddrinfo(host, port, &hints, &info) != 0) {
        return TARRY_ENOTFOUND;
    }
    err = bind_info(l, info);
    freeaddrinfo(info);
    if (err == TARRY_OK) {
        tell_port(l, address);
    }
    return err;
}

int tr_listener_open(struct tr_listener **out, struct tr_loop_linux *loop, const char *address,
                     const struct tr_listener_calls *calls)
{
    struct tr_listener *l = calloc(1, sizeof *l);
    int err;

    *out = NULL;
    if (l == NULL) {
        return TARRY_EFULL;
    }
    l->fd = -1;
    l->loop = loop;
    l->calls = *calls;
    err = strncmp(address, "unix:", 5) == 0 ? bind_unix(l, address + 5) : bind_tcp(l, address);
    if (err == TARRY_OK && listen(l->fd, BACKLOG) != 0) {
        err = tr_errno_code(errno);
    }
    if (err == TARRY_OK && uv_poll_init(tr_loop_linux_uv(loop), &l->poll, l->fd) != 0) {
        err = TARRY_EFULL;
    }
    if (err != TARRY_OK) {
        if (l->fd >= 0) {
            close(l->fd);
        }
        free(l);
        return err;
    }
    l->poll.data = l;
    (void)uv_poll_start(&l->poll, UV_READABLE, listener_event);
    *out = l;
    return TARRY_OK;
}

void tr_listener_close(struct tr_listener *l)
{
    if (l == NULL) {
        return;
    }
    if (l->path[0] != '\0') {
        (void)unlink(l->path);
    }
    (void)uv_poll_stop(&l->poll);
    uv_close((uv_handle_t *)&l->poll, sock_freed);
    close(l->fd);
}
