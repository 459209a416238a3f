/*
 * Hash map with linear probing, resized a little at a time.
 *
 * A key's home is hash(key) & mask. It is in the first free entry from there on, so a search goes
 * from home to the first empty entry. A table is at most 3/4 full. To grow or shrink, the table
 * `now` becomes `old`, and each later put or take moves some entries of old, from its end:
 *
 *     old   [ . a . b b . | moved . . . moved ]      now  [ . . m . m m . . . . . . ]
 *                         ^ left
 *
 * Invariants:
 *   1. A key is in one place: in now, or in old at an index below `left`.
 *   2. In now, no entry between a key's home and the key is empty. A removal keeps this by
 *      shifting back the entries behind the hole that may stand there (take_from_now).
 *   3. Old is written only to mark a taken entry GONE, never emptied: below `left` its chains are
 *      as they were. A chain that runs through moved entries goes on at index 0, since only the
 *      wrap leads from there to an entry below `left`.
 *   4. now has room for every key of both tables, and for the puts that were promised.
 *
 * It follows from 4 that a move never needs memory. A new table is wanted only when the old one
 * is gone: a table of R entries that grows (to 2 R or more, room for 3/2 R keys) has at most 3/4 R
 * keys and is moved in R/8 calls, which add at most R/8 keys. One that shrinks has n < R/8 keys, is
 * moved in R/32 calls, and the new one has room for 2 n + R/32.
 *
 * Cost: O(1) but for the search; a put or take moves at most 8 entries more, or looks at 32 that
 * are nearly all empty. Old gives its end back piece by piece, so that freeing it is not one long
 * call either. tr_map_reserve may have to finish a move; then less than 32 * more entries are left
 * of it, for else now would have room: O(more).
 */

#include "base/map.h"

#include "base/err.h"

enum {
    ROOM_MIN = 16,
    GROW_STEP = 8, /* entries of old that one call moves */
    SHRINK_STEP = 32,
    PIECE = 1 << 13, /* entries of old that are given back at once */
};

/* Stands in old for the value of a key that was taken. */
static const char gone_mark;
#define GONE ((void *)(uintptr_t)&gone_mark)

static size_t hash(uint64_t key)
{
    key = (key ^ key >> 32) * 0xd6e8feb86659fd93u;
    key = (key ^ key >> 32) * 0xd6e8feb86659fd93u;
    return (size_t)(key ^ key >> 32);
}

/* Keys that a table of `room` entries may hold. */
static size_t capacity(size_t room)
{
    return room / 4 * 3;
}

void tr_map_init(struct tr_map *m, struct tr_mem *mem)
{
    *m = (struct tr_map){.mem = mem};
}

static void free_table(struct tr_map *m, struct tr_map_table *t)
{
    if (t->room > 0) {
        tr_mem_free(m->mem, t->entries, t->room * sizeof *t->entries);
    }
    *t = (struct tr_map_table){0};
}

void tr_map_fini(struct tr_map *m)
{
    free_table(m, &m->now);
    free_table(m, &m->old);
    *m = (struct tr_map){.mem = m->mem};
}

/* The entry of now with that key, or the empty one where it would go. */
static struct tr_map_entry *probe_now(const struct tr_map *m, uint64_t key)
{
    size_t i = hash(key) & m->now.mask;

    while (m->now.entries[i].value != NULL && m->now.entries[i].key != key) {
        i = (i + 1) & m->now.mask;
    }
    return &m->now.entries[i];
}

/* The entry of old with that key, or NULL when there is none that counts. */
static struct tr_map_entry *probe_old(const struct tr_map *m, uint64_t key)
{
    size_t i = hash(key) & m->old.mask;

    for (size_t n = 0; n < m->left; n++) {
        i = i < m->left ? i : 0;

        struct tr_map_entry *e = &m->old.entries[i];

        if (e->value == NULL) {
            return NULL;
        }
        if (e->key == key) {
            return e->value != GONE ? e : NULL;
        }
        i++;
    }
    return NULL;
}

/* The entry with that key in either table, or NULL. */
static struct tr_map_entry *find_entry(const struct tr_map *m, uint64_t key)
{
    struct tr_map_entry *e;

    if (m->now.room == 0) {
        return NULL;
    }
    e = probe_now(m, key);
    return e->value != NULL ? e : probe_old(m, key);
}

void tr_map_soon(const struct tr_map *m, uint64_t key)
{
    if (m->now.room != 0) {
        __builtin_prefetch(&m->now.entries[hash(key) & m->now.mask]);
    }
}

/* Gives back the end of old that has been moved, or all of it after the last entry. */
static void trim_old(struct tr_map *m)
{
    struct tr_map_entry *entries;

    if (m->left == 0) {
        TR_CHECK(m->old.used == 0);
        free_table(m, &m->old);
    } else if (m->old.room - m->left >= PIECE) {
        entries = tr_mem_stretch(m->mem, m->old.entries, m->old.room * sizeof *entries,
                                 m->left * sizeof *entries);
        if (entries != NULL) {
            m->old.entries = entries;
            m->old.room = m->left;
        }
    }
}

/* Moves up to `count` entries of old. */
static void move(struct tr_map *m, size_t count)
{
    if (m->old.room == 0) {
        return;
    }
    for (; count > 0 && m->left > 0; count--) {
        struct tr_map_entry *e = &m->old.entries[--m->left];

        if (e->value != NULL && e->value != GONE) {
            *probe_now(m, e->key) = *e;
            m->now.used++;
            m->old.used--;
        }
    }
    trim_old(m);
}

/* What one call does of a move. */
static void step(struct tr_map *m)
{
    move(m, m->old.mask > m->now.mask ? SHRINK_STEP : GROW_STEP);
}

/* Begins the move to a table of `room` entries. */
static int resize(struct tr_map *m, size_t room)
{
    struct tr_map_entry *entries;

    TR_CHECK(m->old.room == 0);
    if (room > SIZE_MAX / sizeof *entries) {
        return TARRY_ENOMEM;
    }
    entries = tr_mem_alloc(m->mem, room * sizeof *entries);
    if (entries == NULL) {
        return TARRY_ENOMEM;
    }
    m->old = m->now;
    m->left = m->old.room;
    m->now = (struct tr_map_table){.entries = entries, .room = room, .mask = room - 1};
    return TARRY_OK;
}

int tr_map_reserve(struct tr_map *m, size_t more)
{
    size_t want;
    size_t room = m->now.room > 0 ? m->now.room : ROOM_MIN;

    if (__builtin_add_overflow(tr_map_count(m), more, &want) || want > SIZE_MAX / 4) {
        return TARRY_ENOMEM;
    }
    while (capacity(room) < want) {
        room *= 2;
    }
    if (room != m->now.room) {
        move(m, m->left);
        if (resize(m, room) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
    }
    m->promised = m->promised > more ? m->promised : more;
    return TARRY_OK;
}

int tr_map_put(struct tr_map *m, uint64_t key, void *value)
{
    struct tr_map_entry *e;

    TR_CHECK(value != NULL);
    step(m);
    m->promised -= m->promised > 0;
    e = find_entry(m, key);
    if (e != NULL) {
        e->value = value;
        return TARRY_OK;
    }
    if (tr_map_count(m) >= capacity(m->now.room)) {
        if (resize(m, m->now.room > 0 ? m->now.room * 2 : ROOM_MIN) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
    }
    *probe_now(m, key) = (struct tr_map_entry){.key = key, .value = value};
    m->now.used++;
    return TARRY_OK;
}

void *tr_map_find(const struct tr_map *m, uint64_t key)
{
    const struct tr_map_entry *e = find_entry(m, key);

    return e != NULL ? e->value : NULL;
}

/*
 * Empties the entry `hole` of now. Then each entry behind it, up to the next empty one, whose home
 * is not between the hole and itself would be cut off; it moves into the hole and leaves another.
 */
static void take_from_now(struct tr_map *m, size_t hole)
{
    struct tr_map_entry *entries = m->now.entries;
    size_t mask = m->now.mask;

    for (size_t i = (hole + 1) & mask; entries[i].value != NULL; i = (i + 1) & mask) {
        size_t way = (i - (hash(entries[i].key) & mask)) & mask; /* from its home */

        if (way >= ((i - hole) & mask)) {
            entries[hole] = entries[i];
            hole = i;
        }
    }
    entries[hole] = (struct tr_map_entry){0};
    m->now.used--;
}

/* Begins to shrink when the table is nearly empty; when there is no memory for it, later. */
static void maybe_shrink(struct tr_map *m)
{
    size_t count = m->now.used;
    size_t want = 2 * count + m->now.room / SHRINK_STEP + m->promised;
    size_t room = ROOM_MIN;

    if (m->old.room > 0 || count >= m->now.room / 8) {
        return;
    }
    while (capacity(room) < want) {
        room *= 2;
    }
    if (room < m->now.room) {
        (void)!resize(m, room);
    }
}

void *tr_map_take(struct tr_map *m, uint64_t key)
{
    struct tr_map_entry *e;
    void *value = NULL;

    step(m);
    e = find_entry(m, key);
    if (e != NULL) {
        value = e->value;
        if (m->now.entries <= e && e < m->now.entries + m->now.room) {
            take_from_now(m, (size_t)(e - m->now.entries));
        } else {
            e->value = GONE;
            m->old.used--;
        }
    }
    maybe_shrink(m);
    return value;
}

size_t tr_map_count(const struct tr_map *m)
{
    return m->now.used + m->old.used;
}

bool tr_map_ok(const struct tr_map *m)
{
    size_t now = 0;
    size_t old = 0;

    for (size_t i = 0; i < m->now.room; i++) {
        const struct tr_map_entry *e = &m->now.entries[i];

        if (e->value == NULL) {
            continue;
        }
        if (e->value == GONE || probe_now(m, e->key) != e || probe_old(m, e->key) != NULL) {
            return false;
        }
        now++;
    }
    for (size_t i = 0; i < m->left; i++) {
        const struct tr_map_entry *e = &m->old.entries[i];

        if (e->value == NULL || e->value == GONE) {
            continue;
        }
        if (probe_old(m, e->key) != e) {
            return false;
        }
        old++;
    }
    return now == m->now.used && old == m->old.used && m->left <= m->old.room &&
           tr_map_count(m) <= capacity(m->now.room);
}
