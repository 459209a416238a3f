#ifndef TR_BASE_BITMAP_H
#define TR_BASE_BITMAP_H

/*
 * Set of numbers below 2^48 that come in rising order and leave in any: L, the alive rids.
 * See bitmap.c for the chunks.
 */

#include "base/check.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TR_BITMAP_CHUNK = 65536,               /* numbers in a chunk */
    TR_BITMAP_BYTES = TR_BITMAP_CHUNK / 8, /* of a chunk as bits */
};

struct tr_bitmap_chunk; /* see bitmap.c */

struct tr_bitmap {
    struct tr_mem *mem;
    struct tr_bitmap_chunk *chunks; /* sorted by number; only those with a member */
    size_t count;
    size_t room;
    uint64_t members;
};

void tr_bitmap_init(struct tr_bitmap *b, struct tr_mem *mem);
void tr_bitmap_fini(struct tr_bitmap *b);

/* Sets n. TARRY_ENOMEM: nothing changed. Cheap when n is in the last chunk. */
TR_MUST_USE int tr_bitmap_set(struct tr_bitmap *b, uint64_t n);

/* Clears n; never needs memory. True when n was set. */
bool tr_bitmap_clear(struct tr_bitmap *b, uint64_t n);

bool tr_bitmap_test(const struct tr_bitmap *b, uint64_t n);

/* The least member that is not below n; UINT64_MAX: there is none. */
uint64_t tr_bitmap_next(const struct tr_bitmap *b, uint64_t n);

/* How many members are in [first, last]: looks at each chunk, and into two of them. */
uint64_t tr_bitmap_count(const struct tr_bitmap *b, uint64_t first, uint64_t last);

/* The first chunk with a number >= first: its number (n / TR_BITMAP_CHUNK) and its bits. False at
 * the end. */
bool tr_bitmap_next_chunk(const struct tr_bitmap *b, uint64_t first, uint64_t *number,
                          uint8_t bits[TR_BITMAP_BYTES]);

bool tr_bitmap_ok(const struct tr_bitmap *b);

#endif
