/*
 * Three descriptors and one poll.
 *
 *     eventfd                      somebody calls
 *     timerfd on CLOCK_BOOTTIME    the moment has come; it goes on while the machine sleeps
 *     timerfd on CLOCK_REALTIME    far in the future; readable when somebody sets the clock
 *
 * loop_linux.c does the same with libuv, for sockets and signals; this is for a thread that has
 * neither, in a program whose signals are not ours.
 *
 * Invariant: armed_us is what the timer is set to.
 */

#include "os/sleep_linux.h"

#include "base/err.h"
#include "os/clock_linux.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { FDS = 3, SOON_US = 60 }; /* less than a wake-up takes */

#define FAR_S INT64_C(9000000000) /* the year 2255; the kernel's nanoseconds end in 2262 */

static void set_timer(int fd, int flags, struct timespec at)
{
    struct itimerspec spec = {.it_value = at};
    int err = timerfd_settime(fd, TFD_TIMER_ABSTIME | flags, &spec, NULL);

    /* ECANCELED: the clock was set just now. The timer is set all the same. */
    TR_CHECK(err == 0 || (flags & TFD_TIMER_CANCEL_ON_SET) != 0);
}

static void watch_clock(struct tr_sleep_linux *s)
{
    set_timer(s->clock_fd, TFD_TIMER_CANCEL_ON_SET, (struct timespec){.tv_sec = FAR_S});
}

static void close_all(struct tr_sleep_linux *s)
{
    const int fds[FDS] = {s->wake_fd, s->timer_fd, s->clock_fd};

    for (unsigned i = 0; i < FDS; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

int tr_sleep_linux_init(struct tr_sleep_linux *s)
{
    int err;

    s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    s->clock_fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    s->armed_us = UINT64_MAX;
    if (s->wake_fd < 0 || s->timer_fd < 0 || s->clock_fd < 0) {
        err = errno;
        close_all(s);
        return err == EMFILE || err == ENFILE || err == ENOMEM ? TARRY_EFULL : TARRY_EIO;
    }
    watch_clock(s);
    return TARRY_OK;
}

void tr_sleep_linux_fini(struct tr_sleep_linux *s)
{
    close_all(s);
}

void tr_sleep_linux_wake(void *sleep)
{
    struct tr_sleep_linux *s = sleep;
    uint64_t one = 1;
    ssize_t n = write(s->wake_fd, &one, sizeof one);

    (void)n; /* it can only fail when the count is at its end, and then it wakes, too */
}

static void arm(struct tr_sleep_linux *s, uint64_t at_us)
{
    struct timespec at = {0}; /* zero disarms */

    if (at_us == s->armed_us) {
        return;
    }
    if (at_us / 1000000 < (uint64_t)FAR_S) {
        at = (struct timespec){.tv_sec = (time_t)(at_us / 1000000),
                               .tv_nsec = (long)(at_us % 1000000) * 1000};
    }
    set_timer(s->timer_fd, 0, at);
    s->armed_us = at_us;
}

/* Takes out the count, or the error that says that the clock was set. */
static void clear(int fd)
{
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof count);

    (void)n;
}

void tr_sleep_linux_until(struct tr_sleep_linux *s, uint64_t at_us)
{
    struct pollfd fds[FDS] = {{.fd = s->wake_fd, .events = POLLIN},
                              {.fd = s->timer_fd, .events = POLLIN},
                              {.fd = s->clock_fd, .events = POLLIN}};

    if (at_us <= tr_clock_linux_now().boot_us + SOON_US) {
        return;
    }
    arm(s, at_us);
    if (poll(fds, FDS, -1) < 0) {
        return; /* a signal, or no memory: whoever calls looks what there is to do, and comes back
                 */
    }
    if (fds[0].revents != 0) {
        clear(s->wake_fd);
    }
    if (fds[1].revents != 0) {
        clear(s->timer_fd);
        s->armed_us = UINT64_MAX;
    }
    if (fds[2].revents != 0) {
        clear(s->clock_fd);
        watch_clock(s);
    }
}
