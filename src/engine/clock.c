/*
 * Engine time.
 *
 *     wall <= T          T = wall: at once, whatever the step. Jobs become late, none is early.
 *     wall a little on   T = wall (up to 60 s, or as much as the boot clock has advanced)
 *     wall far ahead     T goes on with the boot clock; if a second later the wall clock still
 *                        says the same, it is believed: T = wall
 *
 * Invariant: T <= the wall clock of the last update. It follows that nothing can be fired before
 * its due time by the wall clock, even when that clock goes back.
 *
 * A test clock knows nothing of the wall clock. What is to happen at a later T waits without a
 * timer: nobody knows when somebody will move it.
 */

#include "engine/clock.h"

#include "base/check.h"
#include "base/mutant.h"

void tr_clock_init(struct tr_clock *c, struct tr_now now)
{
    *c = (struct tr_clock){.t_us = now.wall_us, .boot_us = now.boot_us};
}

void tr_clock_stand(struct tr_clock *c, uint64_t t_us)
{
    c->test = true;
    c->t_us = t_us;
}

void tr_clock_move(struct tr_clock *c, uint64_t t_us)
{
    TR_CHECK(c->test);
    TR_CHECK(t_us >= c->t_us);
    c->t_us = t_us;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static enum tr_clock_event doubt(struct tr_clock *c, struct tr_now now, uint64_t passed)
{
    uint64_t ahead = now.wall_us - now.boot_us;

    if (!c->doubting || distance(ahead, c->doubt_ahead) > TR_CLOCK_SLACK_US) {
        c->doubting = true;
        c->doubt_boot = now.boot_us;
        c->doubt_ahead = ahead;
    }
    if (now.boot_us - c->doubt_boot < TR_CLOCK_DOUBT_US) {
        c->t_us += passed;
        return TR_CLOCK_RUNS;
    }
    c->doubting = false;
    c->t_us = now.wall_us;
    c->steps++;
    return TR_CLOCK_STEPPED_FORWARD;
}

enum tr_clock_event tr_clock_update(struct tr_clock *c, struct tr_now now)
{
    uint64_t passed = now.boot_us - c->boot_us;
    uint64_t was = c->t_us;

    TR_CHECK(now.boot_us >= c->boot_us);
    c->boot_us = now.boot_us;
    if (c->test) {
        return TR_CLOCK_RUNS;
    }
    if (now.wall_us > was && now.wall_us - was > TR_CLOCK_JUMP_US && now.wall_us - was > passed) {
        return doubt(c, now, passed);
    }
    c->doubting = false;
    if (TR_MUTANT(HOLD_TIME) && now.wall_us < was) {
        return TR_CLOCK_RUNS;
    }
    c->t_us = now.wall_us;
    if (now.wall_us < was && was - now.wall_us > TR_CLOCK_SLACK_US) {
        c->steps++;
        return TR_CLOCK_STEPPED_BACK;
    }
    return TR_CLOCK_RUNS;
}

uint64_t tr_clock_boot_at(const struct tr_clock *c, uint64_t at_us)
{
    uint64_t wait = at_us > c->t_us ? at_us - c->t_us : 0;

    if (at_us == UINT64_MAX || wait > UINT64_MAX - c->boot_us || (c->test && wait != 0)) {
        return UINT64_MAX;
    }
    if (c->doubting && wait > TR_CLOCK_DOUBT_US) {
        wait = TR_CLOCK_DOUBT_US; /* look again: the wall clock may have been right */
    }
    return c->boot_us + wait;
}

uint64_t tr_clock_span(const struct tr_clock *c)
{
    return c->test && !TR_MUTANT(SPAN_IS_REAL) ? c->t_us : c->boot_us;
}

uint64_t tr_clock_span_boot(const struct tr_clock *c, uint64_t at_us)
{
    return c->test && !TR_MUTANT(SPAN_IS_REAL) ? tr_clock_boot_at(c, at_us) : at_us;
}
