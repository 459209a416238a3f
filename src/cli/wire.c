/* A socket that waits, with a buffer for what came. An answer that takes a minute is none. */

#include "cli/wire.h"

#include "base/text.h"
#include "cli/cli.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { ROOM = 1 << 16, PATIENCE_S = 60 };

bool tr_wire_address(struct tr_wire_address *a, const char *url, const char *scheme,
                     const char *port)
{
    size_t len = strlen(scheme);
    char *at;
    char *mark;

    *a = (struct tr_wire_address){.user = "", .password = "", .path = "", .port = port};
    if (strncmp(url, scheme, len) != 0 || strncmp(url + len, "://", 3) != 0 ||
        strlen(url + len + 3) >= sizeof a->text) {
        return false;
    }
    tr_text(a->text, sizeof a->text, "%s", url + len + 3);
    at = a->text;
    mark = strchr(at, '/');
    if (mark != NULL) {
        *mark = '\0';
        a->path = mark + 1;
    }
    mark = strrchr(at, '@');
    if (mark != NULL) {
        *mark = '\0';
        a->user = at;
        at = mark + 1;
        mark = strchr(a->text, ':');
        if (mark != NULL) {
            *mark = '\0';
            a->password = mark + 1;
        }
    }
    mark = *at == '[' ? strchr(at, ']') : at; /* [::1]:6379 */
    if (mark == NULL) {
        return false;
    }
    if (*at == '[') {
        *mark++ = '\0';
        at++;
    }
    mark = strchr(mark, ':');
    if (mark != NULL) {
        *mark = '\0';
        a->port = mark + 1;
    }
    a->host = at;
    return *a->host != '\0' && *a->port != '\0';
}

void tr_wire_host(const struct tr_wire_address *a, char *out, size_t room)
{
    bool six = strchr(a->host, ':') != NULL;

    tr_text(out, room, "%s%s%s:%s", six ? "[" : "", a->host, six ? "]" : "", a->port);
}

bool tr_wire_open(struct tr_wire *w, const char *host, const char *port, const char *name)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM};
    struct timeval patience = {.tv_sec = PATIENCE_S};
    struct addrinfo *found = NULL;
    int one = 1;
    int err = getaddrinfo(host, port, &want, &found);

    *w = (struct tr_wire){.fd = -1, .name = name};
    for (struct addrinfo *a = found; a != NULL && w->fd < 0 && err == 0; a = a->ai_next) {
        w->fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (w->fd >= 0 && connect(w->fd, a->ai_addr, a->ai_addrlen) != 0) {
            int why = errno;

            (void)close(w->fd);
            w->fd = -1;
            errno = why;
        }
    }
    if (found != NULL) {
        freeaddrinfo(found);
    }
    if (w->fd < 0) {
        fprintf(stderr, "tarry: no connection to %s at %s port %s: %s.\n", name, host, port,
                err != 0 ? gai_strerror(err) : strerror(errno));
        return false;
    }
    (void)setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(w->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(w->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    w->bytes = tr_cli_memory(NULL, ROOM);
    w->room = ROOM;
    return true;
}

void tr_wire_close(struct tr_wire *w)
{
    if (w->bytes != NULL) {
        (void)close(w->fd);
        free(w->bytes);
    }
    *w = (struct tr_wire){.fd = -1};
}

static bool give_up(struct tr_wire *w, const char *why)
{
    if (!w->broken) {
        fprintf(stderr, "tarry: the connection to %s broke: %s.\n", w->name, why);
    }
    w->broken = true;
    return false;
}

bool tr_wire_send(struct tr_wire *w, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0 && !w->broken) {
        ssize_t sent = send(w->fd, at, len, MSG_NOSIGNAL);

        if (sent < 0) {
            return give_up(w, strerror(errno));
        }
        at += sent;
        len -= (size_t)sent;
    }
    return !w->broken;
}

bool tr_wire_say(struct tr_wire *w, const char *format, ...)
{
    char text[2 * TR_WIRE_LINE];
    va_list args;

    va_start(args, format);
    tr_text_list(text, sizeof text, format, args);
    va_end(args);
    return tr_wire_send(w, text, strlen(text));
}

/* More bytes into the buffer, which has room for them. */
static bool receive(struct tr_wire *w)
{
    ssize_t got;

    if (w->from > 0) {
        memmove(w->bytes, w->bytes + w->from, w->to - w->from);
        w->to -= w->from;
        w->from = 0;
    }
    if (w->to == w->room) {
        return give_up(w, "it sent a line that is too long");
    }
    got = recv(w->fd, w->bytes + w->to, w->room - w->to, 0);
    if (got <= 0) {
        return give_up(w, got == 0 ? "it was closed" : strerror(errno));
    }
    w->to += (size_t)got;
    return true;
}

bool tr_wire_line(struct tr_wire *w, char out[TR_WIRE_LINE])
{
    while (!w->broken) {
        char *at = w->bytes + w->from;
        char *end = memchr(at, '\n', w->to - w->from);

        if (end != NULL) {
            size_t len = (size_t)(end - at);

            w->from += len + 1;
            len -= len > 0 && at[len - 1] == '\r';
            tr_text(out, TR_WIRE_LINE, "%.*s", (int)len, at);
            return true;
        }
        if (!receive(w)) {
            break;
        }
    }
    return false;
}

bool tr_wire_bytes(struct tr_wire *w, char *out, size_t len)
{
    while (len > 0) {
        size_t part = w->to - w->from < len ? w->to - w->from : len;

        memcpy(out, w->bytes + w->from, part);
        w->from += part;
        out += part;
        len -= part;
        if (len > 0 && !receive(w)) {
            return false;
        }
    }
    return true;
}
