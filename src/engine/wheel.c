/*
 * Hierarchical timing wheel that can be turned both ways.
 *
 * Write the time in us as 11 digits of 6 bits. A timer sits at the level of the highest digit in
 * which its time differs from that of the wheel, in the slot named by that digit of its own time:
 *
 *     wheel = ... 0 5 17        level 0: timers that differ from the wheel in the last digit only
 *     timer = ... 0 9  2   ->   level 1, slot 9
 *
 * Invariant: for a timer at (level, slot), all digits above `level` equal the wheel's, and `slot`
 * is greater than the wheel's digit at that level. Timers in `due` are not later than the wheel.
 *
 * It follows that:
 *   - where a timer sits is a function of its time and the wheel's, so it is not stored;
 *   - everything at a lower level is due before anything at a higher level, so the next slot is
 *     the first set bit of the lowest non-empty level;
 *   - no slot ever wraps: there is no "rounds" counter and no limit on the delay.
 *
 * Turning the wheel to another time, d being the highest digit in which they differ, its value
 * going from a to b. Levels above d stay as they are.
 *
 *     forward (a < b)   levels below d, and level d's slots below b: all has passed -> due
 *                       level d, slot b: begun, not passed                          -> moving
 *     back    (a > b)   levels below d: all of it now differs first in digit d      -> (d, a)
 *                       level d: stays; its slot a was empty, since only slots > a were not
 *                       due: may lie ahead again                                    -> moving
 *
 * Whole lists are joined, no timer is touched; a slot that has passed goes to `due` at once, from
 * any level. What is in `moving` is placed timer by timer, and that can stop and go on. A pop first
 * turns the wheel to the very time it is given, so what it finds in `due` is not early, whatever
 * the clock did before. That is why a clock set back needs no structure of its own: timers armed
 * meanwhile go to `due` or a slot like all others.
 *
 * Cost: arm and disarm O(1). A timer is moved at most once per level in its life, and once more
 * for each step back of the clock that finds it in `due` or joins its level with others. Turning
 * joins at most one list per occupied slot, 704 in all; an empty stretch of time costs nothing.
 *
 * Not done here: repeating timers, callbacks, locks, order among due timers.
 */

#include "engine/wheel.h"

#include "base/check.h"

#include <stddef.h>
#include <string.h>

static unsigned digit(uint64_t time_us, unsigned level)
{
    return (unsigned)(time_us >> (level * TR_WHEEL_BITS)) & (TR_WHEEL_SLOTS - 1);
}

/* The digits of time_us above level; 0 at the top level, which has nothing above it. */
static uint64_t prefix(uint64_t time_us, unsigned level)
{
    unsigned shift = (level + 1) * TR_WHEEL_BITS;

    return shift < 64 ? time_us >> shift << shift : 0;
}

/* The highest level at which two different times differ. */
static unsigned level_of(uint64_t a_us, uint64_t b_us)
{
    return (63 - (unsigned)__builtin_clzll(a_us ^ b_us)) / TR_WHEEL_BITS;
}

/* Puts an unlinked timer where the invariant wants it. */
static void place(struct tr_wheel *w, struct tr_timer *t)
{
    unsigned level;
    unsigned slot;

    if (t->at_us <= w->at_us) {
        tr_list_append(&w->due, &t->link);
        return;
    }
    level = level_of(t->at_us, w->at_us);
    slot = digit(t->at_us, level);
    TR_CHECK(slot > digit(w->at_us, level));
    tr_list_append(&w->slots[level][slot], &t->link);
    w->occupied[level] |= UINT64_C(1) << slot;
}

void tr_timer_init(struct tr_timer *t)
{
    *t = (struct tr_timer){0};
    tr_list_init(&t->link);
}

void tr_wheel_init(struct tr_wheel *w, uint64_t now_us)
{
    memset(w, 0, sizeof *w); /* in place: the wheel is 11 KiB, too big for a temporary */
    w->at_us = now_us;
    tr_list_init(&w->due);
    tr_list_init(&w->moving);
    for (unsigned l = 0; l < TR_WHEEL_LEVELS; l++) {
        for (unsigned s = 0; s < TR_WHEEL_SLOTS; s++) {
            tr_list_init(&w->slots[l][s]);
        }
    }
}

void tr_wheel_arm(struct tr_wheel *w, struct tr_timer *t, uint64_t at_us)
{
    TR_CHECK(!t->armed);
    TR_CHECK(at_us != TR_WHEEL_NEVER);
    t->at_us = at_us;
    t->armed = true;
    w->count++;
    place(w, t);
}

void tr_wheel_disarm(struct tr_wheel *w, struct tr_timer *t)
{
    if (!t->armed) {
        return;
    }
    tr_list_remove(&t->link);
    t->armed = false;
    w->count--;
    if (t->at_us > w->at_us) { /* from its slot, or from moving: then this changes nothing */
        unsigned level = level_of(t->at_us, w->at_us);
        unsigned slot = digit(t->at_us, level);

        if (tr_list_empty(&w->slots[level][slot])) {
            w->occupied[level] &= ~(UINT64_C(1) << slot);
        }
    }
}

/* Joins to `to` the slots of a level that are in mask. */
static void splice_slots(struct tr_wheel *w, struct tr_list *to, unsigned level, uint64_t mask)
{
    for (uint64_t left = w->occupied[level] & mask; left != 0; left &= left - 1) {
        tr_list_splice(to, &w->slots[level][__builtin_ctzll(left)]);
    }
    w->occupied[level] &= ~mask;
}

/* Turns the wheel to another time, as drawn above. */
static void turn(struct tr_wheel *w, uint64_t now_us)
{
    unsigned level = level_of(now_us, w->at_us);
    unsigned from = digit(w->at_us, level);
    unsigned to = digit(now_us, level);
    bool back = now_us < w->at_us;
    struct tr_list *target = back ? &w->slots[level][from] : &w->due;

    for (unsigned l = 0; l < level; l++) {
        splice_slots(w, target, l, UINT64_MAX);
    }
    if (back) {
        if (!tr_list_empty(target)) {
            w->occupied[level] |= UINT64_C(1) << from;
        }
        tr_list_splice(&w->moving, &w->due);
    } else {
        splice_slots(w, &w->due, level, (UINT64_C(1) << to) - 1);
        splice_slots(w, &w->moving, level, UINT64_C(1) << to);
    }
    w->at_us = now_us;
}

struct tr_timer *tr_wheel_pop(struct tr_wheel *w, uint64_t now_us, unsigned *work)
{
    TR_CHECK(now_us != TR_WHEEL_NEVER);
    if (now_us != w->at_us) {
        turn(w, now_us);
        TR_SLOW_CHECK(tr_wheel_ok(w));
    }
    while (*work > 0) {
        bool due = !tr_list_empty(&w->due);
        struct tr_list *from = due ? &w->due : &w->moving;
        struct tr_timer *t = TR_CONTAINER_OF(from->next, struct tr_timer, link);

        if (tr_list_empty(from)) {
            return NULL;
        }
        --*work;
        TR_CHECK(t->armed);
        if (t->at_us <= now_us) {
            tr_wheel_disarm(w, t);
            return t;
        }
        TR_CHECK(!due);
        tr_list_remove(&t->link);
        place(w, t);
    }
    return NULL;
}

/* The least time in a list that is not empty, or slot_us when the list is long. */
static uint64_t least(const struct tr_list *head, uint64_t slot_us)
{
    uint64_t least_us = TR_WHEEL_NEVER;
    unsigned count = 0;

    for (const struct tr_list *n = head->next; n != head; n = n->next) {
        const struct tr_timer *t = TR_CONTAINER_OF(n, const struct tr_timer, link);

        if (++count > TR_WHEEL_FEW) {
            return slot_us;
        }
        least_us = t->at_us < least_us ? t->at_us : least_us;
    }
    return least_us;
}

uint64_t tr_wheel_next(const struct tr_wheel *w)
{
    if (!tr_list_empty(&w->due) || !tr_list_empty(&w->moving)) {
        return w->at_us;
    }
    for (unsigned l = 0; l < TR_WHEEL_LEVELS; l++) {
        if (w->occupied[l] != 0) {
            uint64_t slot = (uint64_t)__builtin_ctzll(w->occupied[l]);

            return least(&w->slots[l][slot], prefix(w->at_us, l) | slot << (l * TR_WHEEL_BITS));
        }
    }
    return TR_WHEEL_NEVER;
}

/* Counts the timers of a list; UINT64_MAX when one of them is where it must not be. */
static uint64_t list_ok(const struct tr_wheel *w, const struct tr_list *head, unsigned level,
                        unsigned slot)
{
    uint64_t count = 0;

    for (const struct tr_list *n = head->next; n != head; n = n->next) {
        const struct tr_timer *t = TR_CONTAINER_OF(n, const struct tr_timer, link);

        if (!t->armed || n->next->prev != n || (head == &w->due && t->at_us > w->at_us)) {
            return UINT64_MAX;
        }
        if (level < TR_WHEEL_LEVELS &&
            (t->at_us <= w->at_us || level_of(t->at_us, w->at_us) != level ||
             digit(t->at_us, level) != slot)) {
            return UINT64_MAX;
        }
        count++;
    }
    return count;
}

bool tr_wheel_ok(const struct tr_wheel *w)
{
    uint64_t due = list_ok(w, &w->due, TR_WHEEL_LEVELS, 0);
    uint64_t moving = list_ok(w, &w->moving, TR_WHEEL_LEVELS, 0);
    uint64_t count = due + moving;

    if (due == UINT64_MAX || moving == UINT64_MAX) {
        return false;
    }
    for (unsigned l = 0; l < TR_WHEEL_LEVELS; l++) {
        for (unsigned s = 0; s < TR_WHEEL_SLOTS; s++) {
            uint64_t here = list_ok(w, &w->slots[l][s], l, s);

            if (here == UINT64_MAX || (here != 0) != ((w->occupied[l] >> s & 1) != 0)) {
                return false;
            }
            count += here;
        }
    }
    return count == w->count;
}
