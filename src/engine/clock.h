#ifndef TR_ENGINE_CLOCK_H
#define TR_ENGINE_CLOCK_H

/*
 * Engine time T from the two clocks of the machine: never ahead of the wall clock (R21), never
 * carried far forward by a clock that jumps for a moment. See clock.c.
 *
 * Or a test clock: T stands still, and only tr_clock_move moves it.
 */

#include "port/clock.h"

#include <stdbool.h>
#include <stdint.h>

enum tr_clock_event {
    TR_CLOCK_RUNS,
    TR_CLOCK_STEPPED_BACK,    /* by more than TR_CLOCK_SLACK_US */
    TR_CLOCK_STEPPED_FORWARD, /* by more than TR_CLOCK_JUMP_US, and it stayed there */
};

#define TR_CLOCK_SLACK_US UINT64_C(500000)
#define TR_CLOCK_JUMP_US UINT64_C(60000000)
#define TR_CLOCK_DOUBT_US UINT64_C(1000000)

struct tr_clock {
    uint64_t t_us; /* T */
    uint64_t boot_us;
    uint64_t steps;
    bool test;            /* T stands still */
    bool doubting;        /* the wall clock is far ahead, perhaps only for a moment */
    uint64_t doubt_boot;  /* since then */
    uint64_t doubt_ahead; /* wall - boot as it was then */
};

void tr_clock_init(struct tr_clock *c, struct tr_now now);
void tr_clock_stand(struct tr_clock *c, uint64_t t_us); /* from now on a test clock, there */
void tr_clock_move(struct tr_clock *c, uint64_t t_us);  /* a test clock, and never back */
enum tr_clock_event tr_clock_update(struct tr_clock *c, struct tr_now now);

/* Boot time at which T will be at_us if both clocks run on; UINT64_MAX for UINT64_MAX. */
uint64_t tr_clock_boot_at(const struct tr_clock *c, uint64_t at_us);

/*
 * The clock of spans that users see: leases, pauses, rates. It is boot time, which nobody can set,
 * or T if that is a test clock. And the boot time at which it will be at_us.
 */
uint64_t tr_clock_span(const struct tr_clock *c);
uint64_t tr_clock_span_boot(const struct tr_clock *c, uint64_t at_us);

#endif
