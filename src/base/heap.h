#ifndef TR_BASE_HEAP_H
#define TR_BASE_HEAP_H

/*
 * Four-ary heap of items with their key inline: least (first, second, third) on top. It knows
 * nothing of what the items stand for; whoever removes lazily checks `stamp` himself.
 */

#include "base/check.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_heap_item {
    uint32_t first;
    uint32_t stamp; /* not part of the key */
    uint64_t second;
    uint64_t third;
    void *what;
};

struct tr_heap {
    struct tr_mem *mem;
    struct tr_heap_item *items;
    size_t count;
    size_t room;
};

void tr_heap_init(struct tr_heap *h, struct tr_mem *mem);
void tr_heap_fini(struct tr_heap *h);

/* TARRY_ENOMEM: nothing changed. */
TR_MUST_USE int tr_heap_push(struct tr_heap *h, struct tr_heap_item item);

/* The least item, or NULL; borrowed until the next change. */
const struct tr_heap_item *tr_heap_top(const struct tr_heap *h);

/* Removes the top; there must be one. Gives memory back when three quarters are empty. */
void tr_heap_pop(struct tr_heap *h);

/* Keeps the items for which keep() is true, and makes a heap of them again. O(n). */
void tr_heap_filter(struct tr_heap *h, bool (*keep)(void *ctx, const struct tr_heap_item *item),
                    void *ctx);

bool tr_heap_ok(const struct tr_heap *h);

#endif
