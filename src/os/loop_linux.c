/*
 * One round of the loop.
 *
 *     async (any thread) --> woken     \
 *     signals            --> signalled  > all that epoll has, then check --> turn --> arm
 *     timerfd, clock set -->           /
 *
 * libuv's own timers count whole milliseconds on the monotonic clock. Due times want more, and
 * want to go on while the machine sleeps: so the time of the next turn is a timerfd on
 * CLOCK_BOOTTIME. A second one, on CLOCK_REALTIME and far in the future, becomes readable when
 * somebody sets the wall clock (TFD_TIMER_CANCEL_ON_SET); the turn after it reads the new time.
 *
 * A turn that wants to go on at once does so without a timer: an idle handle keeps epoll from
 * waiting, so that sockets and completions have their say between two turns. A turn that is wanted
 * sooner than a sleeping thread wakes up is waited for in the same way.
 *
 * A round is what happens between two waits. It is timed from its first callback to the end of its
 * turn, and counted when it was long.
 *
 * Invariant: armed_us is what the timerfd is set to, UINT64_MAX when it is not set.
 *
 * Cost: one timerfd_settime when the next time is another than before; none when there is nothing
 * to wait for. Nothing is periodic: with no time to wait for and no event, the thread sleeps.
 */

#include "os/loop_linux.h"

#include "base/err.h"
#include "os/clock_linux.h"
#include "os/loop_linux_uv.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

enum { STOPS = 2, SIGNALS = 4, STALL_US = 5000, SOON_US = 60 }; /* those to stop come first */

#define FAR_S INT64_C(9000000000) /* the year 2255; the kernel's nanoseconds end in 2262 */

struct tr_loop_linux {
    struct tr_loop_calls calls;
    uv_loop_t uv;
    uv_async_t async;
    uv_check_t check;
    uv_idle_t idle;
    uv_poll_t timer;
    uv_poll_t clock;
    uv_signal_t signals[SIGNALS];
    int timer_fd;
    int clock_fd;
    uint64_t armed_us;
    uint64_t round_us; /* when this round began; 0: it has not */
    struct tr_loop_stat stat;
};

uv_loop_t *tr_loop_linux_uv(struct tr_loop_linux *l)
{
    return &l->uv;
}

void tr_loop_linux_begin(struct tr_loop_linux *l)
{
    if (l->round_us == 0) {
        l->round_us = tr_clock_linux_now().boot_us;
    }
}

static void end_round(struct tr_loop_linux *l)
{
    uint64_t took = tr_clock_linux_now().boot_us - l->round_us;

    l->stat.rounds++;
    l->stat.stalls += took > STALL_US;
    l->stat.longest_us = took > l->stat.longest_us ? took : l->stat.longest_us;
    tr_hist_add(&l->stat.took, &tr_hist_rounds, took);
    l->round_us = 0;
}

struct tr_loop_stat tr_loop_linux_stat(const struct tr_loop_linux *l)
{
    return l->stat;
}

static int code_of(int err)
{
    return err == UV_EMFILE || err == UV_ENFILE || err == UV_ENOMEM ? TARRY_EFULL : TARRY_EIO;
}

/* ---- timers ---- */

static void set_timer(int fd, int flags, struct timespec at)
{
    struct itimerspec spec = {.it_value = at};
    int err = timerfd_settime(fd, TFD_TIMER_ABSTIME | flags, &spec, NULL);

    /* ECANCELED: the clock was set just now. The timer is set all the same, and a turn follows. */
    TR_CHECK(err == 0 || (flags & TFD_TIMER_CANCEL_ON_SET) != 0);
}

static void watch_clock(struct tr_loop_linux *l)
{
    set_timer(l->clock_fd, TFD_TIMER_CANCEL_ON_SET, (struct timespec){.tv_sec = FAR_S});
}

/* The turn is the check's; being active is all that is asked of the idle handle. */
static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

/* Sees to it that the next turn comes at boot time at_us. */
static void arm(struct tr_loop_linux *l, uint64_t at_us)
{
    struct timespec at = {0}; /* zero disarms */

    if (at_us <= tr_clock_linux_now().boot_us + SOON_US) {
        (void)uv_idle_start(&l->idle, on_idle);
        return;
    }
    (void)uv_idle_stop(&l->idle);
    if (at_us == l->armed_us) {
        return;
    }
    if (at_us / 1000000 < (uint64_t)FAR_S) {
        at = (struct timespec){.tv_sec = (time_t)(at_us / 1000000),
                               .tv_nsec = (long)(at_us % 1000000) * 1000};
    }
    set_timer(l->timer_fd, 0, at);
    l->armed_us = at_us;
}

/* Takes the count out of a timerfd, or the error that says that the clock was set. */
static void clear(int fd)
{
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof count);

    (void)n; /* whatever it says, a turn follows */
}

/* ---- events ---- */

static void on_timer(uv_poll_t *poll, int status, int events)
{
    struct tr_loop_linux *l = poll->data;

    (void)status;
    (void)events;
    tr_loop_linux_begin(l);
    clear(l->timer_fd);
    l->armed_us = UINT64_MAX;
}

static void on_clock(uv_poll_t *poll, int status, int events)
{
    struct tr_loop_linux *l = poll->data;

    (void)status;
    (void)events;
    tr_loop_linux_begin(l);
    clear(l->clock_fd);
    watch_clock(l);
}

static void on_async(uv_async_t *async)
{
    struct tr_loop_linux *l = async->data;

    tr_loop_linux_begin(l);
    l->calls.woken(l->calls.ctx);
}

static void on_check(uv_check_t *check)
{
    struct tr_loop_linux *l = check->data;

    tr_loop_linux_begin(l);
    arm(l, l->calls.turn(l->calls.ctx));
    end_round(l);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct tr_loop_linux *l = handle->data;
    enum tr_loop_signal what = number == SIGUSR1  ? TR_LOOP_DRAIN
                               : number == SIGHUP ? TR_LOOP_RELOAD
                                                  : TR_LOOP_STOP;

    tr_loop_linux_begin(l);
    l->calls.signalled(l->calls.ctx, what);
}

/* ---- opening and closing ---- */

static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};

static void hold(bool on, unsigned count)
{
    sigset_t held;
    int err;

    sigemptyset(&held);
    for (unsigned i = 0; i < count; i++) {
        sigaddset(&held, numbers[i]);
    }
    err = pthread_sigmask(on ? SIG_BLOCK : SIG_UNBLOCK, &held, NULL);
    TR_CHECK(err == 0);
}

bool tr_loop_linux_stop_waits(void)
{
    sigset_t waiting;

    return sigpending(&waiting) == 0 &&
           (sigismember(&waiting, SIGTERM) == 1 || sigismember(&waiting, SIGINT) == 1);
}

static int start_signals(struct tr_loop_linux *l)
{
    int err = 0;

    for (unsigned i = 0; i < SIGNALS && err == 0; i++) {
        l->signals[i].data = l;
        err = uv_signal_init(&l->uv, &l->signals[i]);
        if (err == 0) {
            err = uv_signal_start(&l->signals[i], on_signal, numbers[i]);
        }
    }
    return err;
}

static int start_timer(struct tr_loop_linux *l, uv_poll_t *poll, int fd, uv_poll_cb call)
{
    int err = fd >= 0 ? uv_poll_init(&l->uv, poll, fd) : UV_EMFILE;

    poll->data = l;
    return err == 0 ? uv_poll_start(poll, UV_READABLE, call) : err;
}

static int start(struct tr_loop_linux *l)
{
    int err = uv_async_init(&l->uv, &l->async, on_async);

    l->async.data = l;
    l->check.data = l;
    (void)uv_check_init(&l->uv, &l->check);
    (void)uv_idle_init(&l->uv, &l->idle);
    if (err == 0) {
        err = uv_check_start(&l->check, on_check);
    }
    if (err == 0) {
        err = uv_idle_start(&l->idle, on_idle);
    }
    if (err == 0) {
        err = start_timer(l, &l->timer, l->timer_fd, on_timer);
    }
    if (err == 0) {
        err = start_timer(l, &l->clock, l->clock_fd, on_clock);
    }
    return err == 0 ? start_signals(l) : err;
}

int tr_loop_linux_open(struct tr_loop_linux **out, const struct tr_loop_calls *calls)
{
    struct tr_loop_linux *l = calloc(1, sizeof *l);
    int err;

    *out = NULL;
    if (l == NULL) {
        return TARRY_EFULL;
    }
    err = uv_loop_init(&l->uv);
    if (err != 0) {
        free(l);
        return code_of(err);
    }
    hold(true, STOPS); /* until it runs: so one can see whether any came */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    l->calls = *calls;
    l->armed_us = UINT64_MAX;
    l->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    l->clock_fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    err = start(l);
    if (err != 0) {
        tr_loop_linux_close(l);
        return code_of(err);
    }
    watch_clock(l);
    *out = l;
    return TARRY_OK;
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

void tr_loop_linux_close(struct tr_loop_linux *l)
{
    int err;

    if (l == NULL) {
        return;
    }
    hold(true, SIGNALS); /* for good: without a handler one that comes late would kill */
    uv_walk(&l->uv, close_handle, NULL);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT); /* ends when all of them are closed; no calls are made */
    err = uv_loop_close(&l->uv);
    TR_CHECK(err == 0);
    if (l->timer_fd >= 0) {
        close(l->timer_fd);
    }
    if (l->clock_fd >= 0) {
        close(l->clock_fd);
    }
    free(l);
}

void tr_loop_linux_run(struct tr_loop_linux *l)
{
    hold(false, SIGNALS);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT);
}

void tr_loop_linux_stop(struct tr_loop_linux *l)
{
    uv_stop(&l->uv);
}

void tr_loop_linux_wake(void *loop)
{
    struct tr_loop_linux *l = loop;
    int err = uv_async_send(&l->async);

    TR_CHECK(err == 0);
}
