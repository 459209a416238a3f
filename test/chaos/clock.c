/*
 * Preloaded into a server by test/chaos: its wall clock is off by so many µs as stand in a file,
 * which is mapped, so that a step counts at once. Other clocks and all timers are left alone.
 *
 * Not libfaketime: that asks for memory before it is ready, and jemalloc, which Redis is linked
 * with, asks for the time then. System calls instead of dlsym for the same reason.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

static const volatile int64_t *offset_us;

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("CHAOS_CLOCK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof *offset_us, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (at != MAP_FAILED) {
        offset_us = at;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

static int64_t wall_us(void)
{
    struct timespec t = {0};

    (void)syscall(SYS_clock_gettime, CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 + (offset_us != NULL ? *offset_us : 0);
}

VISIBLE int clock_gettime(clockid_t clock, struct timespec *t)
{
    int64_t now;

    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) {
        return (int)syscall(SYS_clock_gettime, clock, t);
    }
    now = wall_us();
    t->tv_sec = now / 1000000;
    t->tv_nsec = now % 1000000 * 1000;
    return 0;
}

VISIBLE int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    int64_t now = wall_us();

    (void)zone;
    t->tv_sec = now / 1000000;
    t->tv_usec = now % 1000000;
    return 0;
}

VISIBLE time_t time(time_t *t)
{
    time_t now = wall_us() / 1000000;

    if (t != NULL) {
        *t = now;
    }
    return now;
}
