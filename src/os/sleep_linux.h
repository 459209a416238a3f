#ifndef TR_OS_SLEEP_LINUX_H
#define TR_OS_SLEEP_LINUX_H

/*
 * How a thread without a loop sleeps: until it is woken, until a moment, or until somebody sets the
 * wall clock. See sleep_linux.c.
 *
 * Threads: tr_sleep_linux_wake may be called by any, the rest by the one that sleeps.
 */

#include "base/check.h"

#include <stdint.h>

struct tr_sleep_linux {
    int wake_fd;
    int timer_fd;
    int clock_fd;
    uint64_t armed_us; /* what the timer is set to; UINT64_MAX: it is not */
};

/* TARRY_EFULL (files), TARRY_EIO. */
TR_MUST_USE int tr_sleep_linux_init(struct tr_sleep_linux *s);
void tr_sleep_linux_fini(struct tr_sleep_linux *s);

/* Takes a struct tr_sleep_linux; void because a disk calls it. One that comes before the sleep
 * counts, too. */
void tr_sleep_linux_wake(void *sleep);

/* Sleeps until boot time at_us: the past means not at all, UINT64_MAX until it is woken. */
void tr_sleep_linux_until(struct tr_sleep_linux *s, uint64_t at_us);

#endif
