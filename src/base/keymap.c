/*
 * Sorted tables with gaps, one for each range of hashes.
 *
 * A shard holds the entries whose hashes begin with the same bits. An entry's home in its shard is
 * the rest of its hash, scaled to the number of homes; so homes rise with hashes. The entries stand
 * in order of (hash, rid), each at its home or, when that is taken, behind it:
 *
 *     slot    0   1   2   3   4   5   6   7 |  8   9      past the last home: a little room
 *           | a | . | b | c | d | . | e | f | g | . |     the last slot is always empty
 *     home    0       2   2   3       6   6   7
 *
 * That is linear probing with the order kept. A search begins at the home and ends at the first
 * entry that is not smaller, found or not: at 9/10 full it passes 5 entries on average, where plain
 * probing would pass 50 to say no. A table is laid out again, or split in two, or joined with its
 * neighbour, in one pass from left to right; so is one made from entries in order, as at start.
 *
 * Shards are split one at a time, in turn, so that there is one for each SHARD keys. With 2^L of
 * them the last is split first; the halves of shard i become the shards 2 i and 2 i + 1:
 *
 *     0  1  2  3  .  .  .  .      level 2, split 0
 *     0  1  2  .  .  .  6  7      level 2, split 1: 3 became 6 and 7
 *     0  .  2  3  4  5  6  7      level 2, split 3: 2 and 3 are the halves of 1
 *     0  1  2  3  4  5  6  7      level 3, split 0
 *
 * The places 2 i and 2 i + 1 are free when i is split: what was there was split before. Shards are
 * joined in the reverse order. A shard has 256 to 1,024 keys, as hashes are even; where they are
 * not, or memory was refused for a split, it is larger, and only the time suffers.
 *
 * Invariants:
 *   1. In a shard entries rise; none stands before its home; no slot between its home and itself is
 *      empty.
 *   2. Slots from `end` on are empty, and end < room.
 *   3. After every layout the shard could take one more entry: it is no more than 9/10 full, and
 *      end + 1 < room. That is all that tr_keymap_make has to see to, and no take undoes it.
 *
 * Cost: a search looks at a header (24 bytes for a shard) and at one or two cache lines. Put and
 * take also shift what stands between the place and the next gap: 30 entries on average when it is
 * nearly full. A layout takes about 10 ns for each key of the shard when none is in the cache, and
 * is needed once in a twelfth of its keys. The longest thing that happens is the split of a shard
 * of 1,024 keys: 10 to 30 us; with 2,048 it was 30 to 60. Memory: 16 bytes for each home; 5/6 to
 * 9/10 of them are taken, so 17.8 to 19.2 bytes, and 0.4 for the room past the end and the header.
 *
 * Why 80 bits: the key is compared anyway, so a false match costs one needless look. With 300 M
 * keys one search in 4 * 10^15 meets one.
 */

#include "base/keymap.h"

#include "base/err.h"

#include <string.h>

enum {
    SHARD = 512, /* keys for each shard, on average */
    PAGE = 64,   /* headers */
};

struct shard {
    struct tr_keymap_entry *slots; /* NULL: nothing was ever put here */
    uint32_t used;
    uint32_t homes;
    uint32_t room; /* slots allocated */
    uint32_t end;
};

struct tr_keymap_page {
    struct shard shards[PAGE];
};

/* Entries to be laid out, from two places, in order. Empty slots are passed over. */
struct source {
    const struct tr_keymap_entry *a, *a_end;
    const struct tr_keymap_entry *b, *b_end;
};

/* 5/6 full, or less: there is room for more than these. */
static uint32_t homes_for(uint32_t count)
{
    return (uint32_t)((uint64_t)count * 6 / 5) + 4;
}

/* Entries that a shard may have. */
static uint32_t limit(const struct shard *s)
{
    return (uint32_t)((uint64_t)s->homes * 9 / 10);
}

static bool has_room(const struct shard *s)
{
    return s->used < limit(s) && s->end + 1 < s->room;
}

static bool empty(const struct tr_keymap_entry *e)
{
    return e->low == 0; /* no rid is 0 */
}

static bool before(const struct tr_keymap_entry *a, const struct tr_keymap_entry *b)
{
    return a->high < b->high || (a->high == b->high && a->low < b->low);
}

static bool same(const struct tr_keymap_entry *a, const struct tr_keymap_entry *b)
{
    return a->high == b->high && a->low == b->low;
}

static uint64_t first_bits(uint64_t high, unsigned bits)
{
    return bits > 0 ? high >> (64 - bits) : 0;
}

/* `bits`: how many of the hash the shard itself stands for. */
static uint32_t home(const struct shard *s, unsigned bits, uint64_t high)
{
    return (uint32_t)((high << bits >> 32) * s->homes >> 32);
}

static uint64_t shard_count(const struct tr_keymap *m)
{
    return (UINT64_C(1) << m->level) + m->split;
}

static struct shard *at(const struct tr_keymap *m, uint64_t index)
{
    return &m->pages[index / PAGE]->shards[index % PAGE];
}

/* The index of the shard of a hash, and how many bits it stands for. */
static uint64_t index_of(const struct tr_keymap *m, uint64_t high, unsigned *bits)
{
    uint64_t whole = (UINT64_C(1) << m->level) - m->split; /* not yet split */

    *bits = first_bits(high, m->level) < whole ? m->level : m->level + 1;
    return first_bits(high, *bits);
}

static struct shard *shard_of(const struct tr_keymap *m, uint64_t high, unsigned *bits)
{
    return at(m, index_of(m, high, bits));
}

void tr_keymap_init(struct tr_keymap *m, struct tr_mem *mem)
{
    *m = (struct tr_keymap){.mem = mem};
}

static void shard_free(struct tr_keymap *m, struct shard *s)
{
    tr_mem_free(m->mem, s->slots, s->room * sizeof *s->slots);
    *s = (struct shard){0};
}

static void page_free(struct tr_keymap *m, size_t number)
{
    tr_mem_free(m->mem, m->pages[number], sizeof *m->pages[number]);
    m->pages[number] = NULL;
}

void tr_keymap_fini(struct tr_keymap *m)
{
    for (size_t p = 0; p < m->page_room; p++) {
        for (unsigned i = 0; m->pages[p] != NULL && i < PAGE; i++) {
            shard_free(m, &m->pages[p]->shards[i]);
        }
        page_free(m, p);
    }
    if (m->page_room > 0) {
        tr_mem_free(m->mem, m->pages, m->page_room * sizeof(m->pages[0]));
    }
    tr_keymap_init(m, m->mem);
}

/* Makes the header of this shard. */
static int make_page(struct tr_keymap *m, uint64_t index)
{
    size_t number = (size_t)(index / PAGE);

    if (number >= m->page_room) {
        size_t room = m->page_room > 0 ? m->page_room : 1;
        struct tr_keymap_page **pages;

        while (room <= number) {
            room *= 2;
        }
        pages = tr_mem_resize(m->mem, m->pages, m->page_room * sizeof(pages[0]),
                              room * sizeof(pages[0]));
        if (pages == NULL) {
            return TARRY_ENOMEM;
        }
        m->pages = pages;
        m->page_room = room;
    }
    if (m->pages[number] == NULL) {
        m->pages[number] = tr_mem_alloc(m->mem, sizeof(struct tr_keymap_page));
    }
    return m->pages[number] != NULL ? TARRY_OK : TARRY_ENOMEM;
}

static struct source slots_of(const struct shard *s)
{
    return (struct source){.a = s->slots, .a_end = s->slots != NULL ? s->slots + s->end : NULL};
}

/* The least entry of a source, which loses it; NULL at the end. */
static const struct tr_keymap_entry *take_least(struct source *from)
{
    while (from->a < from->a_end && empty(from->a)) {
        from->a++;
    }
    while (from->b < from->b_end && empty(from->b)) {
        from->b++;
    }
    if (from->b == from->b_end) {
        return from->a < from->a_end ? from->a++ : NULL;
    }
    if (from->a == from->a_end || before(from->b, from->a)) {
        return from->b++;
    }
    return from->a++;
}

/* Lays the source out in s, which is empty; of two that are the same, one. False: it does not fit.
 */
static bool fill(struct shard *s, unsigned bits, struct source from)
{
    const struct tr_keymap_entry *e;

    while ((e = take_least(&from)) != NULL) {
        uint32_t i = home(s, bits, e->high);

        if (s->end > 0 && same(&s->slots[s->end - 1], e)) {
            continue;
        }
        i = i > s->end ? i : s->end;
        if (i + 2 >= s->room) {
            return false;
        }
        s->slots[i] = *e;
        s->end = i + 1;
        s->used++;
    }
    return true;
}

/* Makes a shard of the source, which has at most count entries, with room for one more. */
static int build(struct tr_keymap *m, struct shard *s, unsigned bits, struct source from,
                 uint32_t count)
{
    uint32_t homes = homes_for(count);

    for (uint32_t past = 8 + homes / 128;; past *= 2) {
        uint32_t room = homes + past;

        *s = (struct shard){.homes = homes, .room = room};
        s->slots = tr_mem_alloc(m->mem, room * sizeof *s->slots);
        if (s->slots == NULL) {
            *s = (struct shard){0};
            return TARRY_ENOMEM;
        }
        if (fill(s, bits, from)) {
            return TARRY_OK;
        }
        shard_free(m, s); /* more than usual are pushed past the last home */
    }
}

/* Lays a shard out again, with these entries and all of its own. */
static int rebuild(struct tr_keymap *m, struct shard *s, unsigned bits,
                   const struct tr_keymap_entry *more, size_t count)
{
    struct source from = slots_of(s);
    struct shard fresh;

    if (count > UINT32_MAX / 2 - s->used) {
        return TARRY_ENOMEM;
    }
    from.b = more;
    from.b_end = more != NULL ? more + count : NULL;
    if (build(m, &fresh, bits, from, s->used + (uint32_t)count) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    shard_free(m, s);
    *s = fresh;
    return TARRY_OK;
}

/* The first slot from the entry's home on that is empty or has no smaller one. */
static uint32_t probe(const struct shard *s, unsigned bits, const struct tr_keymap_entry *e)
{
    uint32_t i = home(s, bits, e->high);

    while (!empty(&s->slots[i]) && before(&s->slots[i], e)) {
        i++;
    }
    return i;
}

static uint32_t count_slots(const struct tr_keymap_entry *e, const struct tr_keymap_entry *end)
{
    uint32_t count = 0;

    for (; e < end; e++) {
        count += !empty(e);
    }
    return count;
}

/* Splits the next shard. */
static int split_shard(struct tr_keymap *m)
{
    uint64_t i = (UINT64_C(1) << m->level) - 1 - m->split;
    unsigned bits = m->level + 1;
    struct tr_keymap_entry middle = {.high = (2 * i + 1) << (64 - bits)};
    struct source left;
    struct source right;
    struct shard fresh[2];
    uint32_t count;

    if (make_page(m, 2 * i + 1) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    left = right = slots_of(at(m, i));
    if (left.a != NULL) {
        left.a_end = right.a = left.a + probe(at(m, i), m->level, &middle);
    }
    count = count_slots(left.a, left.a_end);
    if (build(m, &fresh[0], bits, left, count) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    if (build(m, &fresh[1], bits, right, at(m, i)->used - count) != TARRY_OK) {
        shard_free(m, &fresh[0]);
        return TARRY_ENOMEM;
    }
    shard_free(m, at(m, i));
    *at(m, 2 * i) = fresh[0];
    *at(m, 2 * i + 1) = fresh[1];
    if (++m->split == UINT64_C(1) << m->level) {
        m->level++;
        m->split = 0;
    }
    return TARRY_OK;
}

/* Joins the two shards that were split last. When there is no memory for it, later. */
static void join_shards(struct tr_keymap *m)
{
    unsigned level = m->split > 0 ? m->level : m->level - 1;
    uint64_t split = (m->split > 0 ? m->split : UINT64_C(1) << level) - 1;
    uint64_t i = (UINT64_C(1) << level) - 1 - split;
    struct shard *a = at(m, 2 * i);
    struct shard *b = at(m, 2 * i + 1);
    struct source from = slots_of(a);
    struct shard fresh;

    from.b = slots_of(b).a;
    from.b_end = slots_of(b).a_end;
    if (build(m, &fresh, level, from, a->used + b->used) != TARRY_OK) {
        return;
    }
    shard_free(m, a);
    shard_free(m, b);
    *at(m, i) = fresh;
    m->level = level;
    m->split = split;
    if ((2 * i + 2) % PAGE == 0 && 2 * i / PAGE * PAGE >= UINT64_C(1) << level) {
        page_free(m, (size_t)(2 * i / PAGE));
    }
}

int tr_keymap_make(struct tr_keymap *m, struct tr_siphash hash)
{
    struct shard *s;
    unsigned bits;

    if (m->page_room == 0 && tr_keymap_expect(m, 1) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    if (m->count >= shard_count(m) * SHARD) {
        (void)!split_shard(m); /* without memory shards are larger for a while */
    }
    s = shard_of(m, hash.high, &bits);
    return has_room(s) ? TARRY_OK : rebuild(m, s, bits, NULL, 0);
}

/* Puts e where probe found its place. */
static void put_at(struct tr_keymap *m, struct shard *s, uint32_t i, struct tr_keymap_entry e)
{
    uint32_t gap = i;

    while (!empty(&s->slots[gap])) {
        gap++;
    }
    TR_CHECK(gap + 1 < s->room);
    memmove(&s->slots[i + 1], &s->slots[i], (gap - i) * sizeof e);
    s->slots[i] = e;
    s->end = s->end > gap ? s->end : gap + 1;
    s->used++;
    m->count++;
}

void tr_keymap_put(struct tr_keymap *m, struct tr_siphash hash, uint64_t rid)
{
    struct tr_keymap_entry e = tr_keymap_entry(hash, rid);
    unsigned bits;
    struct shard *s;
    uint32_t i;

    TR_CHECK(rid > 0);
    TR_CHECK(rid < TR_KEYMAP_RID_END);
    TR_CHECK(m->page_room > 0);
    s = shard_of(m, e.high, &bits);
    TR_CHECK(s->slots != NULL);
    i = probe(s, bits, &e);
    TR_CHECK(!same(&s->slots[i], &e));
    put_at(m, s, i, e);
}

/* The place of an entry, or NULL; *s and *bits are its shard's. */
static struct tr_keymap_entry *find(const struct tr_keymap *m, const struct tr_keymap_entry *e,
                                    struct shard **s, unsigned *bits)
{
    struct tr_keymap_entry *found;

    if (m->page_room == 0) {
        return NULL;
    }
    *s = shard_of(m, e->high, bits);
    if ((*s)->slots == NULL) {
        return NULL;
    }
    found = &(*s)->slots[probe(*s, *bits, e)];
    return same(found, e) ? found : NULL;
}

uint64_t tr_keymap_find(const struct tr_keymap *m, struct tr_siphash hash, uint64_t after)
{
    struct tr_keymap_entry e = tr_keymap_entry(hash, after + 1);
    const struct tr_keymap_entry *found;
    const struct shard *s;
    unsigned bits;

    if (after + 1 >= TR_KEYMAP_RID_END || m->page_room == 0) {
        return 0;
    }
    s = shard_of(m, e.high, &bits);
    if (s->slots == NULL) {
        return 0;
    }
    found = &s->slots[probe(s, bits, &e)];
    return !empty(found) && found->high == e.high && (found->low ^ e.low) < TR_KEYMAP_RID_END
               ? tr_keymap_rid(*found)
               : 0;
}

/* Empties slot i. What stands behind it and not at its home moves up. */
static void take_at(struct tr_keymap *m, struct shard *s, unsigned bits, uint32_t i)
{
    uint32_t next = i + 1;

    while (!empty(&s->slots[next]) && home(s, bits, s->slots[next].high) < next) {
        next++;
    }
    memmove(&s->slots[i], &s->slots[i + 1], (next - 1 - i) * sizeof s->slots[0]);
    s->slots[next - 1] = (struct tr_keymap_entry){0};
    while (s->end > 0 && empty(&s->slots[s->end - 1])) {
        s->end--;
    }
    s->used--;
    m->count--;
}

bool tr_keymap_take(struct tr_keymap *m, struct tr_siphash hash, uint64_t rid)
{
    struct tr_keymap_entry e = tr_keymap_entry(hash, rid);
    const struct tr_keymap_entry *found;
    struct shard *s;
    unsigned bits;

    TR_CHECK(rid < TR_KEYMAP_RID_END);
    found = find(m, &e, &s, &bits);
    if (rid == 0 || found == NULL) {
        return false;
    }
    take_at(m, s, bits, (uint32_t)(found - s->slots));
    if (s->used < s->homes / 2 && homes_for(s->used) < s->homes) {
        (void)!rebuild(m, s, bits, NULL, 0); /* without memory it stays large */
    }
    if (shard_count(m) > 1 && m->count < shard_count(m) * (SHARD * 3 / 8)) {
        join_shards(m);
    }
    return true;
}

/* Swaps neighbours with the same hash if they are not in order. True when it did. */
static bool sort_pair(struct tr_keymap_entry *a, struct tr_keymap_entry *b)
{
    struct tr_keymap_entry e = *a;

    if (empty(a) || empty(b) || !before(b, a)) {
        return false;
    }
    *a = *b;
    *b = e;
    return true;
}

bool tr_keymap_move(struct tr_keymap *m, struct tr_siphash hash, uint64_t old, uint64_t rid)
{
    struct tr_keymap_entry e = tr_keymap_entry(hash, old);
    struct tr_keymap_entry *found;
    struct shard *s;
    unsigned bits;
    uint32_t i;

    TR_CHECK(rid > 0);
    TR_CHECK(rid < TR_KEYMAP_RID_END);
    TR_CHECK(old < TR_KEYMAP_RID_END);
    found = find(m, &e, &s, &bits);
    if (old == 0 || found == NULL) {
        return false;
    }
    *found = tr_keymap_entry(hash, rid);
    i = (uint32_t)(found - s->slots);
    while (sort_pair(&s->slots[i], &s->slots[i + 1])) {
        i++;
    }
    while (i > 0 && sort_pair(&s->slots[i - 1], &s->slots[i])) {
        i--;
    }
    TR_CHECK(i == 0 || !same(&s->slots[i - 1], &s->slots[i]));
    TR_CHECK(!same(&s->slots[i], &s->slots[i + 1]));
    return true;
}

int tr_keymap_expect(struct tr_keymap *m, uint64_t count)
{
    uint64_t shards = count > SHARD ? count / SHARD : 1;
    unsigned level = 63 - (unsigned)__builtin_clzll(shards);
    uint64_t split = shards - (UINT64_C(1) << level);
    struct tr_keymap fresh;

    TR_CHECK(m->count == 0);
    tr_keymap_init(&fresh, m->mem);
    fresh.level = level;
    fresh.split = split;
    for (uint64_t i = 0; i < UINT64_C(2) << level; i += PAGE) {
        /* Of the low ones all, also where there is no shard now: join_shards wants them. */
        bool low = i < UINT64_C(1) << level;
        bool high = i + PAGE > 2 * ((UINT64_C(1) << level) - split);

        if ((low || high) && make_page(&fresh, i) != TARRY_OK) {
            tr_keymap_fini(&fresh);
            return TARRY_ENOMEM;
        }
    }
    tr_keymap_fini(m);
    *m = fresh;
    return TARRY_OK;
}

/* How many of the entries belong to the shard of the first; 0: they are not in order. */
static size_t run_length(const struct tr_keymap *m, const struct tr_keymap_entry *e, size_t count)
{
    unsigned bits;
    uint64_t index = index_of(m, e->high, &bits);
    size_t n = 0;

    for (; n < count && first_bits(e[n].high, bits) == index; n++) {
        if (tr_keymap_rid(e[n]) == 0 || (n > 0 && before(&e[n], &e[n - 1]))) {
            return 0;
        }
    }
    return n < count && before(&e[n], &e[n - 1]) ? 0 : n;
}

/* Adds entries that belong to one shard. */
static int load_shard(struct tr_keymap *m, const struct tr_keymap_entry *e, size_t count)
{
    unsigned bits;
    struct shard *s = shard_of(m, e->high, &bits);
    uint32_t used = s->used;
    int err;

    if (count > s->used / 16) {
        err = rebuild(m, s, bits, e, count);
        m->count += s->used - used;
        return err;
    }
    for (size_t n = 0; n < count; n++) {
        uint32_t i;

        if (!has_room(s) && rebuild(m, s, bits, NULL, 0) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
        i = probe(s, bits, &e[n]);
        if (!same(&s->slots[i], &e[n])) {
            put_at(m, s, i, e[n]);
        }
    }
    return TARRY_OK;
}

int tr_keymap_load(struct tr_keymap *m, const struct tr_keymap_entry *sorted, size_t count)
{
    if (m->page_room == 0 && tr_keymap_expect(m, 1) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    while (count > 0) {
        size_t n = run_length(m, sorted, count);

        if (n == 0) {
            return TARRY_EDAMAGED;
        }
        if (load_shard(m, sorted, n) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
        while (m->count >= (shard_count(m) + 1) * SHARD && split_shard(m) == TARRY_OK) {
        }
        sorted += n;
        count -= n;
    }
    return TARRY_OK;
}

bool tr_keymap_next(const struct tr_keymap *m, struct tr_keymap_entry *e)
{
    struct tr_keymap_entry next = {.high = e->high + (e->low == UINT64_MAX), .low = e->low + 1};

    if (m->page_room == 0 || before(&next, e)) {
        return false;
    }
    for (;;) {
        unsigned bits;
        uint64_t index = index_of(m, next.high, &bits);
        const struct shard *s = at(m, index);

        for (uint32_t i = s->slots != NULL ? probe(s, bits, &next) : s->end; i < s->end; i++) {
            if (!empty(&s->slots[i])) {
                *e = s->slots[i];
                return true;
            }
        }
        if (bits == 0 || index + 1 == UINT64_C(1) << bits) {
            return false;
        }
        next = (struct tr_keymap_entry){.high = (index + 1) << (64 - bits)};
    }
}

uint64_t tr_keymap_count(const struct tr_keymap *m)
{
    return m->count;
}

/* index is the shard's, which stands for so many bits. */
static bool shard_ok(const struct shard *s, uint64_t index, unsigned bits)
{
    const struct tr_keymap_entry *last = NULL;
    uint32_t used = 0;
    uint32_t gap = 0; /* behind the last empty slot */

    if (s->slots == NULL) {
        return s->used == 0 && s->room == 0;
    }
    for (uint32_t i = 0; i < s->room; i++) {
        const struct tr_keymap_entry *e = &s->slots[i];

        if (empty(e)) {
            gap = i + 1;
            continue;
        }
        if (tr_keymap_rid(*e) == 0 || first_bits(e->high, bits) != index || i >= s->end ||
            home(s, bits, e->high) > i || home(s, bits, e->high) < gap ||
            (last != NULL && !before(last, e))) {
            return false;
        }
        last = e;
        used++;
    }
    return used == s->used && s->end < s->room && s->used <= limit(s);
}

bool tr_keymap_ok(const struct tr_keymap *m)
{
    uint64_t whole;
    uint64_t count = 0;
    uint64_t shards = 0;

    if (m->page_room == 0 || m->level >= 63) {
        return m->page_room == 0 && m->count == 0;
    }
    whole = (UINT64_C(1) << m->level) - m->split;
    for (uint64_t i = 0; i < m->page_room * PAGE; i++) {
        bool low = i < whole;
        bool high = i >= 2 * whole && i < UINT64_C(2) << m->level;

        if (m->pages[i / PAGE] == NULL) {
            if (low || high) {
                return false;
            }
            continue;
        }
        if (low || high) {
            shards++;
            count += at(m, i)->used;
            if (!shard_ok(at(m, i), i, high ? m->level + 1 : m->level)) {
                return false;
            }
        } else if (at(m, i)->slots != NULL) {
            return false;
        }
    }
    return count == m->count && shards == shard_count(m);
}
