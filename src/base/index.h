#ifndef TR_BASE_INDEX_H
#define TR_BASE_INDEX_H

/*
 * From a u64 key to a pointer (not NULL), like base/map.h, but for keys that are given out one
 * after the other: neighbours share a page. See index.c.
 */

#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_index_page;

struct tr_index {
    struct tr_mem *mem;
    struct tr_map pages;          /* by key / 64 */
    struct tr_list all;           /* pages */
    struct tr_index_page *newest; /* where the last key went, or NULL */
    size_t count;
};

void tr_index_init(struct tr_index *ix, struct tr_mem *mem);
void tr_index_fini(struct tr_index *ix);

/* Makes a place for this key: until something is taken, putting it cannot fail. TARRY_ENOMEM:
 * nothing changed. */
TR_MUST_USE int tr_index_make(struct tr_index *ix, uint64_t key);

/* The key must have a place, and be new. */
void tr_index_put(struct tr_index *ix, uint64_t key, void *value);

void *tr_index_find(const struct tr_index *ix, uint64_t key);

/* Removes and gives the value, or NULL. */
void *tr_index_take(struct tr_index *ix, uint64_t key);

size_t tr_index_count(const struct tr_index *ix);

bool tr_index_ok(const struct tr_index *ix);

#endif
