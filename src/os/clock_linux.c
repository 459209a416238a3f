/*
 * CLOCK_REALTIME for the time of day, CLOCK_BOOTTIME for lengths of time, since that one also
 * counts while the machine sleeps. Both are read without a system call (vDSO).
 */

#include "os/clock_linux.h"

#include "base/check.h"

#include <time.h>

static uint64_t read_us(clockid_t clock)
{
    struct timespec t;
    int err = clock_gettime(clock, &t);

    TR_CHECK(err == 0);
    /* A machine may believe that it is before 1970: that is 0 for us. */
    return t.tv_sec < 0 ? 0 : (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

struct tr_now tr_clock_linux_now(void)
{
    return (struct tr_now){.wall_us = read_us(CLOCK_REALTIME), .boot_us = read_us(CLOCK_BOOTTIME)};
}
