#ifndef TR_BASE_HEAP_H
#define TR_BASE_HEAP_H

/*
 * Four-ary heap of items with their key inline: least (first, second, third) on top. See heap.c.
 *
 * Each thing in a heap keeps its place, a uint32_t that the heap writes: 0 while it is in none. So
 * anything can be taken out of the middle. No call is long, however many items there are.
 */

#include "base/check.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_heap_item {
    uint32_t first;
    uint64_t second;
    uint64_t third;
    void *what;
};

struct tr_heap {
    struct tr_mem *mem;
    struct tr_heap_item **chunks;
    size_t chunk_room; /* pointers allocated */
    size_t count;
    size_t room;      /* items allocated */
    size_t place_off; /* of the place, inside what an item stands for */
};

void tr_heap_init(struct tr_heap *h, struct tr_mem *mem, size_t place_off);

/* The items' places stay as they are. */
void tr_heap_fini(struct tr_heap *h);

/* item.what must be in no heap of this place. TARRY_ENOMEM: nothing changed. */
TR_MUST_USE int tr_heap_push(struct tr_heap *h, struct tr_heap_item item);

/* The least item, or NULL; borrowed until the next change. */
const struct tr_heap_item *tr_heap_top(const struct tr_heap *h);

/* Takes out what is in this heap. Gives memory back when much is empty. */
void tr_heap_remove(struct tr_heap *h, void *what);

/* item.what is in this heap; its key changes. */
void tr_heap_update(struct tr_heap *h, struct tr_heap_item item);

bool tr_heap_ok(const struct tr_heap *h);

#endif
