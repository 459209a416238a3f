#ifndef TR_BASE_MAP_H
#define TR_BASE_MAP_H

/*
 * Hash map from a u64 key to a pointer (not NULL). Grows and shrinks a few entries per call, so no
 * single call is long. See map.c.
 */

#include "base/check.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_map_entry {
    uint64_t key;
    void *value; /* NULL: empty */
};

struct tr_map_table {
    struct tr_map_entry *entries;
    size_t room; /* entries allocated; 0: no table */
    size_t mask; /* entries made at first, a power of two, less 1 */
    size_t used;
};

struct tr_map {
    struct tr_mem *mem;
    struct tr_map_table now; /* where new keys go */
    struct tr_map_table old; /* being moved to now, from its end; room 0 when there is none */
    size_t left;             /* entries of old still to be moved; those behind count no more */
    size_t promised;         /* calls of tr_map_put that may not fail */
};

void tr_map_init(struct tr_map *m, struct tr_mem *mem);
void tr_map_fini(struct tr_map *m);

/* Makes sure that the next `more` tr_map_put calls cannot fail. */
TR_MUST_USE int tr_map_reserve(struct tr_map *m, size_t more);

/* Adds or replaces. TARRY_ENOMEM: nothing changed. */
TR_MUST_USE int tr_map_put(struct tr_map *m, uint64_t key, void *value);

void *tr_map_find(const struct tr_map *m, uint64_t key);

/* The key will be looked for soon: its home is brought into the cache. */
void tr_map_soon(const struct tr_map *m, uint64_t key);

/* Removes and gives the value, or NULL. Never needs memory. */
void *tr_map_take(struct tr_map *m, uint64_t key);

size_t tr_map_count(const struct tr_map *m);

bool tr_map_ok(const struct tr_map *m);

#endif
