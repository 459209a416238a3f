#ifndef TR_ENGINE_WHEEL_H
#define TR_ENGINE_WHEEL_H

/*
 * Timing wheel with a resolution of one microsecond: holds timers, hands them back when they are
 * due. See wheel.c for the design.
 *
 * The wheel never reads a clock. The caller says what time it is and pulls due timers out one by
 * one; nothing calls back, nothing is allocated. A clock that goes back is harmless: a timer comes
 * out only when its own time is <= the time given (tr_wheel_pop), wherever the wheel stood before.
 *
 * Ownership: the caller owns every tr_timer (it is a field of the job). A timer must not be freed
 * or moved while it is in a wheel. Threads: none; one wheel belongs to one thread.
 */

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define TR_WHEEL_NEVER UINT64_MAX

enum {
    TR_WHEEL_BITS = 6,
    TR_WHEEL_SLOTS = 1 << TR_WHEEL_BITS,
    TR_WHEEL_LEVELS = 11, /* 11 digits of 6 bits cover all 64 bits of a time in us */
    TR_WHEEL_FEW = 16,    /* so many timers in the first slot, and tr_wheel_next is exact */
};

struct tr_timer {
    struct tr_list link;
    uint64_t at_us;
    bool armed;
};

struct tr_wheel {
    uint64_t at_us;                     /* where the wheel stands: the time of the last pop */
    uint64_t count;                     /* armed timers */
    uint64_t occupied[TR_WHEEL_LEVELS]; /* bit s is set when slot s has a timer */
    struct tr_list slots[TR_WHEEL_LEVELS][TR_WHEEL_SLOTS];
    struct tr_list due;    /* timers with at_us <= the wheel's own, in no order */
    struct tr_list moving; /* timers on their way to due or a slot */
};

void tr_timer_init(struct tr_timer *t);
void tr_wheel_init(struct tr_wheel *w, uint64_t now_us);

/* Arms t, which must not be armed. A time in the past is due at once. O(1). */
void tr_wheel_arm(struct tr_wheel *w, struct tr_timer *t, uint64_t at_us);

/* Takes t out, wherever it is. Nothing happens when it is not armed. O(1). */
void tr_wheel_disarm(struct tr_wheel *w, struct tr_timer *t);

/*
 * Gives a timer that is due at now_us, disarmed, or NULL when there is none. Does at most *work
 * steps (a timer moved or handed out is one) and counts them off; NULL with *work == 0 means: call
 * again.
 */
struct tr_timer *tr_wheel_pop(struct tr_wheel *w, uint64_t now_us, unsigned *work);

/* When to call tr_wheel_pop next: never later than the next due timer, and exact when few wait. */
uint64_t tr_wheel_next(const struct tr_wheel *w);

/* Checks every invariant; for TR_SLOW_CHECK and tests. */
bool tr_wheel_ok(const struct tr_wheel *w);

#endif
