/*
 * Each socket is a poll handle of libuv, each timer a timer. libuv gives a handle back a round
 * after it was closed; so its memory lives that much longer than the socket. Its descriptor may be
 * closed, and used for another socket, at once.
 */

#include "os/poller_linux.h"

#include "base/check.h"
#include "os/loop_linux_uv.h"

#include <stdlib.h>
#include <uv.h>

struct tr_poll {
    uv_poll_t uv;
    struct tr_loop_linux *loop;
    int fd;
    unsigned watched;
    tr_poll_fn *fn;
    void *fn_ctx;
};

struct tr_poll_timer {
    uv_timer_t uv;
    struct tr_loop_linux *loop;
    tr_poll_timer_fn *fn;
    void *fn_ctx;
};

static void freed(uv_handle_t *handle)
{
    free(handle->data);
}

/* ---- sockets ---- */

static void on_event(uv_poll_t *uv, int status, int events)
{
    struct tr_poll *p = uv->data;
    unsigned told = 0;

    tr_loop_linux_begin(p->loop);
    if (status < 0) { /* libuv asks no more until it is told to */
        p->watched = 0;
        told = TR_POLL_READ | TR_POLL_ERROR;
    }
    told |= (events & UV_READABLE) != 0 ? TR_POLL_READ : 0U;
    told |= (events & UV_WRITABLE) != 0 ? TR_POLL_WRITE : 0U;
    p->fn(p->fn_ctx, p->fd, told);
}

static struct tr_poll *poll_open(void *ctx, int fd, tr_poll_fn *fn, void *fn_ctx)
{
    struct tr_loop_linux *loop = ctx;
    struct tr_poll *p = calloc(1, sizeof *p);

    if (p == NULL || uv_poll_init(tr_loop_linux_uv(loop), &p->uv, fd) != 0) {
        free(p);
        return NULL;
    }
    p->uv.data = p;
    p->loop = loop;
    p->fd = fd;
    p->fn = fn;
    p->fn_ctx = fn_ctx;
    return p;
}

static void poll_watch(struct tr_poll *p, unsigned events)
{
    int want = 0;
    int err;

    if (events == p->watched) {
        return;
    }
    want |= (events & TR_POLL_READ) != 0 ? UV_READABLE : 0;
    want |= (events & TR_POLL_WRITE) != 0 ? UV_WRITABLE : 0;
    err = want != 0 ? uv_poll_start(&p->uv, want, on_event) : uv_poll_stop(&p->uv);
    TR_CHECK(err == 0);
    p->watched = events;
}

static void poll_close(struct tr_poll *p)
{
    (void)uv_poll_stop(&p->uv);
    uv_close((uv_handle_t *)&p->uv, freed);
}

/* ---- timers ---- */

static void on_time(uv_timer_t *uv)
{
    struct tr_poll_timer *t = uv->data;

    tr_loop_linux_begin(t->loop);
    t->fn(t->fn_ctx);
}

static struct tr_poll_timer *timer_open(void *ctx, tr_poll_timer_fn *fn, void *fn_ctx)
{
    struct tr_loop_linux *loop = ctx;
    struct tr_poll_timer *t = calloc(1, sizeof *t);

    if (t == NULL) {
        return NULL;
    }
    (void)uv_timer_init(tr_loop_linux_uv(loop), &t->uv);
    t->uv.data = t;
    t->loop = loop;
    t->fn = fn;
    t->fn_ctx = fn_ctx;
    return t;
}

static void timer_set(struct tr_poll_timer *t, uint64_t after_ms)
{
    if (after_ms == UINT64_MAX) {
        (void)uv_timer_stop(&t->uv);
    } else {
        uv_update_time(t->uv.loop); /* it counts from when the round began */
        (void)uv_timer_start(&t->uv, on_time, after_ms, 0);
    }
}

static void timer_close(struct tr_poll_timer *t)
{
    (void)uv_timer_stop(&t->uv);
    uv_close((uv_handle_t *)&t->uv, freed);
}

struct tr_poller tr_poller_linux(struct tr_loop_linux *loop)
{
    return (struct tr_poller){.ctx = loop,
                              .open = poll_open,
                              .watch = poll_watch,
                              .close = poll_close,
                              .timer_open = timer_open,
                              .timer_set = timer_set,
                              .timer_close = timer_close};
}
