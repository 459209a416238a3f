/*
 * bench-echo PORT_FILE: the wire's limit. Answers as a beanstalk server would, but keeps nothing.
 *
 * One thread, one epoll. Each readable event is one read and one write: as many answers as whole
 * requests were read. A put is known by its first letter and by the length at the end of its line;
 * every RESERVED is the same job, so a generator must be told not to believe it. The port is a free
 * one of 127.0.0.1 and is written to the file. Ends by SIGTERM, or when it cannot go on.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNS_MAX = 4096, ROOM = 1 << 18, BODY = 100 };

static struct conn {
    size_t len;
    char in[ROOM];
} * conns[CONNS_MAX];

static char out[ROOM * 2];
static char job[BODY + 64];
static size_t job_len;

/* Bytes of the request at the front of p, or 0 when it is not all there. */
static size_t request_len(const char *p, size_t len)
{
    const char *end = memchr(p, '\n', len);
    size_t line;
    const char *number;

    if (end == NULL) {
        return 0;
    }
    line = (size_t)(end - p) + 1;
    if (p[0] != 'p') {
        return line;
    }
    for (number = end - 2; number > p && number[-1] != ' '; number--) {
    }
    line += strtoul(number, NULL, 10) + 2;
    return line <= len ? line : 0;
}

static size_t answer(char *to, char first)
{
    switch (first) {
    case 'p':
        memcpy(to, "INSERTED 1234567\r\n", 18);
        return 18;
    case 'r':
        memcpy(to, job, job_len);
        return job_len;
    case 'd':
        memcpy(to, "DELETED\r\n", 9);
        return 9;
    default:
        memcpy(to, "USING x\r\n", 9);
        return 9;
    }
}

/* True while the connection lives. */
static int serve(int fd, struct conn *c)
{
    ssize_t got = read(fd, c->in + c->len, ROOM - c->len);
    size_t at = 0;
    size_t out_len = 0;
    size_t used;

    if (got <= 0) {
        return got < 0 && errno == EAGAIN;
    }
    c->len += (size_t)got;
    while (at < c->len && out_len < ROOM && (used = request_len(c->in + at, c->len - at)) > 0) {
        out_len += answer(out + out_len, c->in[at]);
        at += used;
    }
    c->len -= at;
    memmove(c->in, c->in + at, c->len);
    /* A generator never has more outstanding than the socket's buffer holds. */
    return out_len == 0 || write(fd, out, out_len) == (ssize_t)out_len;
}

static void take_in(int poll, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int one = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (fd < 0) {
        return;
    }
    if (fd >= CONNS_MAX || (conns[fd] = calloc(1, sizeof(struct conn))) == NULL) {
        (void)close(fd);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
}

static int listen_on(const char *port_file)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    FILE *f;

    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, len) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0) {
        return -1;
    }
    f = fopen(port_file, "we");
    if (f == NULL || fprintf(f, "%u\n", ntohs(a.sin_port)) < 0 || fclose(f) != 0) {
        return -1;
    }
    return fd;
}

int main(int argc, char **argv)
{
    struct epoll_event events[256];
    int poll = epoll_create1(EPOLL_CLOEXEC);
    int listener = argc == 2 ? listen_on(argv[1]) : -1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};

    if (listener < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event) != 0) {
        (void)fprintf(stderr, "usage: bench-echo PORT_FILE\n");
        return 2;
    }
    job_len = (size_t)snprintf(job, sizeof(job), "RESERVED 1234567 %d\r\n%*s\r\n", BODY, BODY, "x");
    for (;;) {
        int count = epoll_wait(poll, events, 256, -1);

        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;

            if (fd == listener) {
                take_in(poll, listener);
            } else if (!serve(fd, conns[fd])) {
                free(conns[fd]);
                conns[fd] = NULL;
                (void)close(fd);
            }
        }
        if (count < 0 && errno != EINTR) {
            return 1;
        }
    }
}
