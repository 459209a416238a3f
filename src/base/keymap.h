#ifndef TR_BASE_KEYMAP_H
#define TR_BASE_KEYMAP_H

/*
 * From the hash of a key to a rid, in 18 to 20 bytes a key at any size. See keymap.c.
 *
 * Of a hash, the 64 bits of `high` and the upper 16 of `low` are kept: 80 bits. The key itself is
 * not here, so what is found is a hint: the caller compares the key that is stored with the job,
 * and asks for the next rid when it is another one. A rid is not 0 and below 2^48; the same pair of
 * hash and rid is there once at most. No call is long, however many keys there are: see Cost.
 */

#include "base/check.h"
#include "base/mem.h"
#include "base/siphash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TR_KEYMAP_RID_END (UINT64_C(1) << 48)

/* The order of entries is that of (high, low) as numbers: by hash, then by rid. */
struct tr_keymap_entry {
    uint64_t high; /* of the hash */
    uint64_t low;  /* the upper 16 bits of the hash's low; below them the rid */
};

struct tr_keymap_page;

struct tr_keymap {
    struct tr_mem *mem;
    struct tr_keymap_page **pages; /* headers of shards */
    size_t page_room;              /* pointers allocated */
    uint64_t count;
    unsigned level; /* there are 2^level + split shards; none at all before the first make */
    uint64_t split; /* so many of the 2^level, the last ones, are split in two */
};

static inline struct tr_keymap_entry tr_keymap_entry(struct tr_siphash hash, uint64_t rid)
{
    return (struct tr_keymap_entry){.high = hash.high,
                                    .low = (hash.low & ~(TR_KEYMAP_RID_END - 1)) | rid};
}

static inline uint64_t tr_keymap_rid(struct tr_keymap_entry e)
{
    return e.low & (TR_KEYMAP_RID_END - 1);
}

void tr_keymap_init(struct tr_keymap *m, struct tr_mem *mem);
void tr_keymap_fini(struct tr_keymap *m);

/* Makes a place for this hash: the next put, if it is of this hash, cannot fail, whatever is taken
 * or moved before it. One promise at a time: another make, or a load, ends it. TARRY_ENOMEM:
 * nothing changed. */
TR_MUST_USE int tr_keymap_make(struct tr_keymap *m, struct tr_siphash hash);

/* The hash must have its place, and the pair must be new. */
void tr_keymap_put(struct tr_keymap *m, struct tr_siphash hash, uint64_t rid);

/* The least rid > after with that hash, or 0. Begin with after = 0; there is hardly ever a second
 * one. */
uint64_t tr_keymap_find(const struct tr_keymap *m, struct tr_siphash hash, uint64_t after);

/* Removes that pair. False: it was not there. Never needs memory. */
bool tr_keymap_take(struct tr_keymap *m, struct tr_siphash hash, uint64_t rid);

/* The pair of hash and old becomes that of hash and rid, which must be new. False: the old one was
 * not there. Never needs memory. */
bool tr_keymap_move(struct tr_keymap *m, struct tr_siphash hash, uint64_t old, uint64_t rid);

/* Before loading: an empty map gets the shape for so many keys, so that each lands where it will
 * stay. Its entries are allocated later. TARRY_ENOMEM: nothing changed. */
TR_MUST_USE int tr_keymap_expect(struct tr_keymap *m, uint64_t count);

/* Adds entries in rising order. One that is there already is passed over. TARRY_EDAMAGED: they are
 * not in order, or a rid is 0. Then, or with TARRY_ENOMEM, some of them were added; the same call
 * may be made again. Any map and any count, but best after
 * tr_keymap_expect and with many at a time: O(count), and one shard more. */
TR_MUST_USE int tr_keymap_load(struct tr_keymap *m, const struct tr_keymap_entry *sorted,
                               size_t count);

/* Replaces *e by the first entry after it. False: there is none. Begin with {0, 0}. The map may
 * change between two calls. */
bool tr_keymap_next(const struct tr_keymap *m, struct tr_keymap_entry *e);

uint64_t tr_keymap_count(const struct tr_keymap *m);

bool tr_keymap_ok(const struct tr_keymap *m);

#endif
