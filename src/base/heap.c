/*
 * Four-ary heap.
 *
 * Item i has the children 4 i + 1 .. 4 i + 4, which stand side by side: half as many levels as a
 * binary heap, and the four keys that are compared come from two or three cache lines. The key is
 * in the item, so nothing outside the array is touched.
 *
 * Invariant: no item is less than its parent.
 *
 * Cost: push O(log n), one comparison a level, few levels on average; pop O(log n), four
 * comparisons a level; filter O(n). Growing doubles the array.
 *
 * Not done here: removal from the middle. Whoever needs it leaves the item in and lets the stamp
 * tell, and filters when too many are stale.
 */

#include "base/heap.h"

#include "base/err.h"

enum { ROOM_MIN = 16, WAYS = 4 };

static bool less(const struct tr_heap_item *a, const struct tr_heap_item *b)
{
    if (a->first != b->first) {
        return a->first < b->first;
    }
    if (a->second != b->second) {
        return a->second < b->second;
    }
    return a->third < b->third;
}

void tr_heap_init(struct tr_heap *h, struct tr_mem *mem)
{
    *h = (struct tr_heap){.mem = mem};
}

void tr_heap_fini(struct tr_heap *h)
{
    if (h->room > 0) {
        tr_mem_free(h->mem, h->items, h->room * sizeof *h->items);
    }
    *h = (struct tr_heap){.mem = h->mem};
}

static int resize(struct tr_heap *h, size_t room)
{
    struct tr_heap_item *items;

    if (room > SIZE_MAX / sizeof *items) {
        return TARRY_ENOMEM;
    }
    items = tr_mem_stretch(h->mem, h->items, h->room * sizeof *items, room * sizeof *items);
    if (items == NULL) {
        return TARRY_ENOMEM;
    }
    h->items = items;
    h->room = room;
    return TARRY_OK;
}

/* Gives memory back when three quarters are empty. When that fails, the array stays large. */
static void trim(struct tr_heap *h)
{
    size_t room = h->room;

    while (room > ROOM_MIN && h->count <= room / 4) {
        room /= 2;
    }
    if (room != h->room) {
        (void)!resize(h, room);
    }
}

/* Puts item into the hole at i, or further down: least children move up meanwhile. */
static void sink(struct tr_heap *h, size_t i, struct tr_heap_item item)
{
    for (;;) {
        size_t child = WAYS * i + 1;
        size_t end = child + WAYS < h->count ? child + WAYS : h->count;
        size_t best = child;

        if (child >= h->count) {
            break;
        }
        for (size_t c = child + 1; c < end; c++) {
            if (less(&h->items[c], &h->items[best])) {
                best = c;
            }
        }
        if (!less(&h->items[best], &item)) {
            break;
        }
        h->items[i] = h->items[best];
        i = best;
    }
    h->items[i] = item;
}

int tr_heap_push(struct tr_heap *h, struct tr_heap_item item)
{
    size_t i;

    if (h->count == h->room && resize(h, h->room > 0 ? h->room * 2 : ROOM_MIN) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    for (i = h->count++; i > 0; i = (i - 1) / WAYS) {
        const struct tr_heap_item *parent = &h->items[(i - 1) / WAYS];

        if (!less(&item, parent)) {
            break;
        }
        h->items[i] = *parent;
    }
    h->items[i] = item;
    return TARRY_OK;
}

const struct tr_heap_item *tr_heap_top(const struct tr_heap *h)
{
    return h->count > 0 ? &h->items[0] : NULL;
}

void tr_heap_pop(struct tr_heap *h)
{
    TR_CHECK(h->count > 0);
    h->count--;
    if (h->count > 0) {
        sink(h, 0, h->items[h->count]);
    }
    trim(h);
}

void tr_heap_filter(struct tr_heap *h, bool (*keep)(void *ctx, const struct tr_heap_item *item),
                    void *ctx)
{
    size_t kept = 0;

    for (size_t i = 0; i < h->count; i++) {
        if (keep(ctx, &h->items[i])) {
            h->items[kept++] = h->items[i];
        }
    }
    h->count = kept;
    for (size_t i = (kept + WAYS - 2) / WAYS; i > 0; i--) { /* from the last parent up */
        sink(h, i - 1, h->items[i - 1]);
    }
    trim(h);
    TR_SLOW_CHECK(tr_heap_ok(h));
}

bool tr_heap_ok(const struct tr_heap *h)
{
    for (size_t i = 1; i < h->count; i++) {
        if (less(&h->items[i], &h->items[(i - 1) / WAYS])) {
            return false;
        }
    }
    return h->count <= h->room;
}
