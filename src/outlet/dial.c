/*
 * A name is looked up once, each address is shown to the guard, and the very address that passed
 * is connected to: a name that means something else a moment later does not get past it.
 *
 * A socket is given up when what we sent was not taken for the time-out of a send
 * (TCP_USER_TIMEOUT, which counts a full window of the receiver, too): a broker that stops reading
 * would hold up a library that writes without a time-out for ever.
 */

#include "outlet/dial.h"

#include "base/err.h"
#include "base/text.h"
#include "outlet/guard.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void say(struct tr_dial *d, const char *code, const char *what)
{
    tr_text(d->code, sizeof d->code, "%s", code);
    tr_text(d->why, sizeof d->why, "%.80s:%.5s: %s", d->host, d->port, what);
}

static void say_error(struct tr_dial *d, int err)
{
    char text[100];

    say(d, err == ETIMEDOUT ? "timeout" : "connect", strerror_r(err, text, sizeof text));
}

void tr_dial_tune(int fd, uint64_t timeout_ms)
{
    unsigned user_ms = timeout_ms > 3600000 ? 3600000 : (unsigned)timeout_ms;
    int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof user_ms);
}

/* 0, or the errno. */
static int await(struct tr_post *post, int fd, uint64_t until_ms)
{
    int err = 0;
    socklen_t len = sizeof err;

    while (!tr_post_wait_for(post, fd, POLLOUT, until_ms)) {
        if (tr_post_stopping(post)) {
            return ECANCELED;
        }
        if (tr_post_now_ms() >= until_ms) {
            return ETIMEDOUT;
        }
    }
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 ? errno : err;
}

static int reach(struct tr_dial *d, struct tr_post *post, const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    uint64_t now = tr_post_now_ms();
    uint64_t left = d->until_ms > now ? d->until_ms - now : 0;
    int err = 0;

    if (fd < 0) {
        say_error(d, errno);
        return -1;
    }
    tr_dial_tune(fd, post->timeout_ms);
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
        /* An address that does not answer leaves half of the time to those after it. */
        err = errno != EINPROGRESS ? errno
                                   : await(post, fd, now + (a->ai_next != NULL ? left / 2 : left));
    }
    if (err != 0) {
        say_error(d, err);
        (void)close(fd);
        return -1;
    }
    return fd;
}

int tr_dial(struct tr_dial *d, struct tr_post *post)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int err = getaddrinfo(d->host, d->port, &want, &found);
    int fd = -1;

    if (err != 0) {
        say(d, "name", gai_strerror(err));
        return -1;
    }
    say(d, "name", "no address");
    for (struct addrinfo *a = found; a != NULL && fd < 0 && !tr_post_stopping(post);
         a = a->ai_next) {
        if (!tr_guard_allows(a->ai_addr, a->ai_addrlen, post->host->allow_private)) {
            say(d, "private", "a private address, and outlet.allow_private is off");
            continue;
        }
        fd = reach(d, post, a);
    }
    freeaddrinfo(found);
    return fd;
}

int tr_dial_address(int fd, char out[TR_DIAL_ADDRESS])
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;

    if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0 ||
        getnameinfo((struct sockaddr *)&peer, len, out, TR_DIAL_ADDRESS, NULL, 0, NI_NUMERICHOST) !=
            0) {
        return TARRY_EIO;
    }
    return TARRY_OK;
}
