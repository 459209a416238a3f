#ifndef TR_PORT_POLLER_H
#define TR_PORT_POLLER_H

/*
 * Sockets of others on the loop: for libraries that have their own and want to know when they can
 * be read or written, and one timer for each that asks. os/poller_linux.c answers it.
 *
 * Threads: the loop's.
 */

#include <stdint.h>

enum { TR_POLL_READ = 1, TR_POLL_WRITE = 2, TR_POLL_ERROR = 4 };

struct tr_poll; /* one socket that is watched */
struct tr_poll_timer;

typedef void tr_poll_fn(void *ctx, int fd, unsigned events);
typedef void tr_poll_timer_fn(void *ctx);

struct tr_poller {
    void *ctx;
    /* Begins to watch; NULL: no memory. */
    struct tr_poll *(*open)(void *ctx, int fd, tr_poll_fn *fn, void *fn_ctx);
    void (*watch)(struct tr_poll *p, unsigned events);
    void (*close)(struct tr_poll *p); /* before its socket is closed */

    struct tr_poll_timer *(*timer_open)(void *ctx, tr_poll_timer_fn *fn, void *fn_ctx);
    void (*timer_set)(struct tr_poll_timer *t, uint64_t after_ms); /* once; UINT64_MAX: never */
    void (*timer_close)(struct tr_poll_timer *t);
};

#endif
