/*
 * Nobody polls. A topic that somebody waits for is asked
 *
 *     at the next due time that the last answer told,
 *     when a wake-up came: another node pushed something that is due earlier,
 *     a minute after the last time, whatever was told: wake-ups may be lost, and a node that knew
 * of an earlier due time may be dead, each second while the connection for wake-ups is down.
 *
 * The minute is 45 to 60 s, by the topic: so a thousand topics are not asked in one moment, which
 * is when they were first waited for.
 *
 * *Invariant.* A watch is in the heap while somebody waits. One that is being asked has next_us at
 * the end of its minute: if the answer never comes, it is asked again.
 *
 * The heap's key has 32 bits in front, which are not used.
 */

#include "cluster/vigil.h"

#include "base/err.h"
#include "cluster/mutant.h"

#include <stddef.h>

#define MINUTE_US UINT64_C(60000000)
#define DEAF_US UINT64_C(1000000)

static struct tr_heap_item item_of(struct tr_watch *w)
{
    return (struct tr_heap_item){.second = w->next_us, .what = w};
}

static uint64_t guard_at(const struct tr_vigil *g, const struct tr_watch *w, uint64_t now_us)
{
    if (g->deaf) {
        return now_us + DEAF_US;
    }
    if (TR_CL_MUTANT(NO_GUARD)) {
        return UINT64_MAX;
    }
    return now_us + MINUTE_US - w->salt % (MINUTE_US / 4);
}

void tr_vigil_init(struct tr_vigil *g, struct tr_mem *mem)
{
    g->deaf = false;
    tr_heap_init(&g->heap, mem, offsetof(struct tr_watch, place));
}

void tr_vigil_fini(struct tr_vigil *g)
{
    tr_heap_fini(&g->heap);
}

int tr_vigil_add(struct tr_vigil *g, struct tr_watch *w, uint64_t now_us)
{
    TR_CHECK(w->place == 0);
    w->asking = false;
    w->again = false;
    w->next_us = now_us;
    return tr_heap_push(&g->heap, item_of(w));
}

void tr_vigil_remove(struct tr_vigil *g, struct tr_watch *w)
{
    tr_heap_remove(&g->heap, w);
}

static void move(struct tr_vigil *g, struct tr_watch *w, uint64_t next_us)
{
    w->next_us = next_us;
    tr_heap_update(&g->heap, item_of(w));
}

struct tr_watch *tr_vigil_take(struct tr_vigil *g, uint64_t now_us)
{
    const struct tr_heap_item *top = tr_heap_top(&g->heap);
    struct tr_watch *w;

    if (top == NULL || top->second > now_us) {
        return NULL;
    }
    w = top->what;
    w->asking = true;
    w->again = false;
    w->asked_us = now_us;
    move(g, w, guard_at(g, w, now_us));
    return w;
}

void tr_vigil_asked(struct tr_vigil *g, struct tr_watch *w, uint64_t now_us)
{
    if (w->place != 0 && !w->asking) {
        w->asking = true;
        w->again = false;
        w->asked_us = now_us;
        move(g, w, guard_at(g, w, now_us));
    }
}

void tr_vigil_answered(struct tr_vigil *g, struct tr_watch *w, uint64_t known_us, uint64_t now_us)
{
    uint64_t guard_us = guard_at(g, w, w->asked_us);

    if (w->place == 0) {
        return; /* who waited has gone meanwhile */
    }
    w->asking = false;
    if (w->again) {
        /* What woke it may have come after the question: only another one tells. */
        w->again = false;
        known_us = now_us;
    }
    move(g, w, known_us < guard_us ? known_us : guard_us);
}

void tr_vigil_woken(struct tr_vigil *g, struct tr_watch *w, uint64_t known_us, uint64_t now_us)
{
    if (w->place == 0) {
        return;
    }
    if (w->asking) {
        w->again = !TR_CL_MUTANT(WAKE_OVERHEARD);
        return;
    }
    known_us = known_us > now_us ? known_us : now_us;
    if (known_us < w->next_us) {
        move(g, w, known_us);
    }
}

void tr_vigil_set_deaf(struct tr_vigil *g, bool deaf)
{
    g->deaf = deaf;
}

uint64_t tr_vigil_next(const struct tr_vigil *g)
{
    const struct tr_heap_item *top = tr_heap_top(&g->heap);

    return top != NULL ? top->second : UINT64_MAX;
}
