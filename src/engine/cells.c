/*
 * One sorted tree for all rows.
 *
 * A cell has a row, a time (`when`) and a count. Its key is row << 32 | when, so the cells of a row
 * stand together and in order of time, and a row without cells costs nothing:
 *
 *     top      | branch | branch | ...          an array, which is short: 8 M cells have about
 * 1,000
 *                  |
 *     branch   | leaf | leaf | ... 127          each with the least key that may be in it
 *                 |
 *     leaf     | row when count | ... 84        12 bytes each, in order; 1 KiB
 *
 *     when     hour * 2 + 1    an hour          so a day stands before its hours
 *              hour * 2        a day, by its first hour
 *
 * A leaf that is full gives to a neighbour that has an eighth of its room left; only if there is
 * none, it is split: in the middle, or at its end when that is where the new cell goes (as it does
 * when cells come in order). Leaves are joined when they are less than 3/4 of one together.
 *
 * Invariants:
 *   1. Keys rise; no count is 0; no leaf and no branch is empty.
 *   2. A leaf has keys from its `first` on and below the next leaf's. The first of a branch is that
 *      of its first leaf; the very first is 0. So each possible key belongs to one leaf.
 *   3. A cell of row 0 is the sum of the cells of all other rows at its time.
 *
 * It follows that add needs at most two leaves, two branches and two places at the top, whatever it
 * adds: tr_cells_make sees to those, without looking for the place.
 *
 * Hints. Most changes are of cells that are there, and a search for each would be dear: 20 steps,
 * each of which waits for the one before. So a table remembers, by a hash of the key, in which leaf
 * and where in it a cell was last found. Whoever looks there compares the key, so a hint need not
 * be right, or be there at all: when cells move, or leaves go, nothing is done about it. Leaves
 * have numbers for that, since a hint may outlive its leaf. 4 bytes each, for up to 262,144 cells.
 *
 * Cost: a search is three binary searches, 20 steps for 4 M cells; a new cell moves half a KiB.
 * Memory: 12 bytes / (share that is full, 0.8 when cells come in any order) + 0.4. The longest call
 * also splits a branch and makes room at the top: a few us.
 *
 * On disk (rows of the checkpoint): for each cell two varints: the distance of when + 1 from that
 * of the cell before, or from 0; and the count. Row 0 is not written; it is added up again.
 *
 * Not done here: which topic has which row; minutes and seconds.
 */

#include "engine/cells.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/mutant.h"
#include "engine/record.h"

#include <assert.h>
#include <string.h>

enum {
    LEAF = 84,
    BRANCH = 127,
    TOP_MIN = 8,
    NEED = 2, /* leaves, branches and places at the top that one add may take */
    DAY = 24,
    HINTS_MIN = 256,
    HINTS_MAX = 1 << 18,
    LEAVES_MIN = 64,
    LEAVES_MAX = 1 << 24, /* a hint has 24 bits for a number */
};

struct item {
    uint32_t row;
    uint32_t when;
    uint32_t count;
};

struct tr_cells_leaf {
    uint32_t count;
    uint32_t number; /* or 0 */
    struct item items[LEAF];
};

struct ref {
    uint64_t first;
    struct tr_cells_leaf *leaf;
};

struct tr_cells_branch {
    uint64_t count;
    struct ref refs[BRANCH];
};

struct tr_cells_top {
    uint64_t first;
    struct tr_cells_branch *branch;
};

static_assert(sizeof(struct tr_cells_leaf) == 1016, "1 KiB with what malloc adds");
static_assert(sizeof(((struct tr_cells *)0)->spare_leaves) == NEED * sizeof(void *), "spares");

/* Where a key is, or would be: the first item of its leaf that is not smaller. */
struct spot {
    size_t top;
    struct tr_cells_branch *branch;
    uint64_t ref;
    struct tr_cells_leaf *leaf;
    uint32_t item; /* may be the leaf's count */
};

static uint64_t key_of(const struct item *item)
{
    return (uint64_t)item->row << 32 | item->when;
}

static uint64_t key_at(uint32_t row, uint32_t when)
{
    return (uint64_t)row << 32 | when;
}

uint32_t tr_cells_when(const struct tr_cells *c, uint64_t due_us, uint32_t kind)
{
    /* Division by a constant is a multiplication. */
    uint64_t hour = c->hour_us == TR_CELL_HOUR_US ? due_us / TR_CELL_HOUR_US : due_us / c->hour_us;

    hour = hour < TR_CELL_HOUR_MAX ? hour : TR_CELL_HOUR_MAX;
    return (uint32_t)(kind == TR_RF_CELL_HOUR ? hour * 2 + 1 : hour / c->day * c->day * 2);
}

void tr_cells_init(struct tr_cells *c, struct tr_mem *mem, uint64_t count_max)
{
    *c = (struct tr_cells){
        .mem = mem, .count_max = count_max, .hour_us = TR_CELL_HOUR_US, .day = DAY};
}

static void drop_hints(struct tr_cells *c);
static void drop_numbers(struct tr_cells *c);

void tr_cells_fini(struct tr_cells *c)
{
    for (size_t t = 0; t < c->top_count; t++) {
        struct tr_cells_branch *branch = c->top[t].branch;

        for (uint64_t r = 0; r < branch->count; r++) {
            tr_mem_free(c->mem, branch->refs[r].leaf, sizeof(struct tr_cells_leaf));
        }
        tr_mem_free(c->mem, branch, sizeof *branch);
    }
    for (unsigned i = 0; i < NEED; i++) {
        tr_mem_free(c->mem, c->spare_leaves[i], sizeof(struct tr_cells_leaf));
        tr_mem_free(c->mem, c->spare_branches[i], sizeof(struct tr_cells_branch));
    }
    if (c->top_room > 0) {
        tr_mem_free(c->mem, c->top, c->top_room * sizeof *c->top);
    }
    drop_hints(c);
    drop_numbers(c);
    *c = (struct tr_cells){
        .mem = c->mem, .count_max = c->count_max, .hour_us = c->hour_us, .day = c->day};
}

uint32_t tr_cells_new_row(struct tr_cells *c)
{
    TR_CHECK(c->last_row < UINT32_MAX - 1);
    return ++c->last_row;
}

/* The last branch whose first is not behind key. There is one. */
static size_t find_top(const struct tr_cells *c, uint64_t key)
{
    const struct tr_cells_top *at = c->top;

    for (size_t n = c->top_count; n > 1;) {
        size_t half = n / 2;

        at = at[half].first <= key ? at + half : at;
        n -= half;
    }
    return (size_t)(at - c->top);
}

static uint64_t find_ref(const struct tr_cells_branch *branch, uint64_t key)
{
    const struct ref *at = branch->refs;

    for (uint64_t n = branch->count; n > 1;) {
        uint64_t half = n / 2;

        at = at[half].first <= key ? at + half : at;
        n -= half;
    }
    return (uint64_t)(at - branch->refs);
}

/* The first item that is not smaller than key. */
static uint32_t find_item(const struct tr_cells_leaf *leaf, uint64_t key)
{
    const struct item *at = leaf->items;
    uint32_t n = leaf->count;

    while (n > 1) {
        uint32_t half = n / 2;

        at = key_of(&at[half - 1]) < key ? at + half : at;
        n -= half;
    }
    return (uint32_t)(at - leaf->items) + (n == 1 && key_of(at) < key);
}

/* The tree is not empty. */
static struct spot locate(const struct tr_cells *c, uint64_t key)
{
    struct spot s = {.top = find_top(c, key)};

    s.branch = c->top[s.top].branch;
    s.ref = find_ref(s.branch, key);
    s.leaf = s.branch->refs[s.ref].leaf;
    s.item = find_item(s.leaf, key);
    return s;
}

/* The first item with a key >= key, or NULL. */
static struct item *seek(const struct tr_cells *c, uint64_t key)
{
    struct spot s;

    if (c->top_count == 0) {
        return NULL;
    }
    s = locate(c, key);
    if (s.item < s.leaf->count) {
        return &s.leaf->items[s.item];
    }
    if (s.ref + 1 < s.branch->count) {
        return s.branch->refs[s.ref + 1].leaf->items;
    }
    return s.top + 1 < c->top_count ? c->top[s.top + 1].branch->refs[0].leaf->items : NULL;
}

/* ---- hints ---- */

/* Row 0 is wanted each time: its hints stand together, by time. */
static uint32_t *hint_of(const struct tr_cells *c, uint64_t key)
{
    uint64_t mixed =
        key >> 32 == TR_CELLS_ALL ? key >> 1 : key * UINT64_C(0x9e3779b97f4a7c15) >> 40;

    return &c->hints[mixed & (c->hint_room - 1)];
}

/* The cell, if it is where it was last found. */
static struct item *look_there(const struct tr_cells *c, uint64_t key)
{
    uint32_t hint = *hint_of(c, key);
    uintptr_t at = c->leaves[hint >> 8];
    struct tr_cells_leaf *leaf;

    if (at % 2 != 0) {
        return NULL; /* it is gone */
    }
    leaf = (struct tr_cells_leaf *)at;
    return (hint & 255) < leaf->count &&
                   (key_of(&leaf->items[hint & 255]) == key || TR_MUTANT(HINT_BELIEVED))
               ? &leaf->items[hint & 255]
               : NULL;
}

/* It will be wanted soon: memory is slow. */
static void foresee(const struct tr_cells *c, uint64_t key)
{
    if (c->hint_room != 0 && c->leaf_room != 0) {
        uint32_t hint = *hint_of(c, key);
        uintptr_t at = c->leaves[hint >> 8];

        if (at % 2 == 0) {
            __builtin_prefetch(&((const struct tr_cells_leaf *)at)->items[hint & 255], 1);
        }
    }
}

static void drop_hints(struct tr_cells *c)
{
    if (c->hint_room > 0) {
        tr_mem_free(c->mem, c->hints, c->hint_room * sizeof *c->hints);
    }
    c->hints = NULL;
    c->hint_room = 0;
    c->hint_at = 0;
}

/* As many as there are cells, or more, if there is memory. */
static void make_hints(struct tr_cells *c)
{
    size_t room = HINTS_MIN;
    uint32_t *hints;

    while (room <= c->count && room < HINTS_MAX) {
        room *= 2;
    }
    hints = tr_mem_alloc(c->mem, room * sizeof *hints);
    if (hints != NULL) {
        drop_hints(c);
        c->hints = hints;
        c->hint_room = room;
    }
    c->hint_at = room < HINTS_MAX ? room : UINT64_MAX;
}

/* Numbers for leaves, if there is memory. 0 is none's. */
static void make_numbers(struct tr_cells *c)
{
    uint32_t room = c->leaf_room > 0 ? c->leaf_room * 2 : LEAVES_MIN;
    uintptr_t *leaves;

    if (room > LEAVES_MAX) {
        return;
    }
    leaves =
        tr_mem_stretch(c->mem, c->leaves, c->leaf_room * sizeof *leaves, room * sizeof *leaves);
    if (leaves == NULL) {
        return;
    }
    for (uint32_t i = c->leaf_room > 0 ? c->leaf_room : 1; i < room; i++) {
        leaves[i] = (uintptr_t)(i + 1 < room ? i + 1 : 0) * 2 + 1;
    }
    leaves[0] = 1;
    c->leaf_free = c->leaf_room > 0 ? c->leaf_room : 1;
    c->leaves = leaves;
    c->leaf_room = room;
}

/* No leaf has one. */
static void drop_numbers(struct tr_cells *c)
{
    if (c->leaf_room > 0) {
        tr_mem_free(c->mem, c->leaves, c->leaf_room * sizeof *c->leaves);
    }
    c->leaves = NULL;
    c->leaf_room = 0;
    c->leaf_free = 0;
}

static void number_leaf(struct tr_cells *c, struct tr_cells_leaf *leaf)
{
    leaf->number = c->leaf_free;
    if (leaf->number != 0) {
        c->leaf_free = (uint32_t)(c->leaves[leaf->number] / 2);
        c->leaves[leaf->number] = (uintptr_t)leaf;
    }
}

static void free_leaf(struct tr_cells *c, struct tr_cells_leaf *leaf)
{
    if (leaf->number != 0) {
        c->leaves[leaf->number] = (uintptr_t)c->leaf_free * 2 + 1;
        c->leaf_free = leaf->number;
    }
    tr_mem_free(c->mem, leaf, sizeof *leaf);
}

/* ---- */

static struct item *find(const struct tr_cells *c, uint64_t key)
{
    bool hints = c->hint_room != 0 && c->leaf_room != 0;
    struct item *item = hints ? look_there(c, key) : NULL;
    struct spot s;

    if (item != NULL || c->top_count == 0) {
        return item;
    }
    s = locate(c, key);
    if (s.item == s.leaf->count || key_of(&s.leaf->items[s.item]) != key) {
        return NULL;
    }
    if (hints) {
        *hint_of(c, key) = s.leaf->number << 8 | s.item;
    }
    return &s.leaf->items[s.item];
}

/* Makes whatever the next add may take. */
static int make_spares(struct tr_cells *c)
{
    if (c->top_count + NEED > c->top_room) {
        size_t room = c->top_room > 0 ? c->top_room * 2 : TOP_MIN;
        struct tr_cells_top *top =
            tr_mem_stretch(c->mem, c->top, c->top_room * sizeof *top, room * sizeof *top);

        if (top == NULL) {
            return TARRY_ENOMEM;
        }
        c->top = top;
        c->top_room = room;
    }
    for (unsigned i = 0; i < NEED; i++) {
        if (c->spare_leaves[i] == NULL) {
            c->spare_leaves[i] = tr_mem_alloc(c->mem, sizeof(struct tr_cells_leaf));
        }
        if (c->spare_branches[i] == NULL) {
            c->spare_branches[i] = tr_mem_alloc(c->mem, sizeof(struct tr_cells_branch));
        }
        if (c->spare_leaves[i] == NULL || c->spare_branches[i] == NULL) {
            return TARRY_ENOMEM;
        }
    }
    if (c->count >= c->hint_at) {
        make_hints(c);
    }
    if (c->leaf_free == 0) {
        make_numbers(c);
    }
    return TARRY_OK;
}

static struct tr_cells_leaf *take_leaf(struct tr_cells *c)
{
    unsigned i = c->spare_leaves[0] != NULL ? 0 : 1;
    struct tr_cells_leaf *leaf = c->spare_leaves[i];

    TR_CHECK(leaf != NULL);
    c->spare_leaves[i] = NULL;
    number_leaf(c, leaf);
    return leaf;
}

static void insert_top(struct tr_cells *c, size_t at, uint64_t first,
                       struct tr_cells_branch *branch)
{
    TR_CHECK(c->top_count < c->top_room);
    memmove(&c->top[at + 1], &c->top[at], (c->top_count - at) * sizeof *c->top);
    c->top[at] = (struct tr_cells_top){.first = first, .branch = branch};
    c->top_count++;
}

static struct tr_cells_branch *take_branch(struct tr_cells *c)
{
    unsigned i = c->spare_branches[0] != NULL ? 0 : 1;
    struct tr_cells_branch *branch = c->spare_branches[i];

    TR_CHECK(branch != NULL);
    c->spare_branches[i] = NULL;
    return branch;
}

static void insert_ref(struct tr_cells_branch *branch, uint64_t at, uint64_t first,
                       struct tr_cells_leaf *leaf)
{
    TR_CHECK(branch->count < BRANCH);
    memmove(&branch->refs[at + 1], &branch->refs[at], (branch->count - at) * sizeof(struct ref));
    branch->refs[at] = (struct ref){.first = first, .leaf = leaf};
    branch->count++;
}

/* A full leaf gives half of what its right neighbour has room for. False: that has little. */
static bool give_right(struct tr_cells_branch *branch, uint64_t ref)
{
    struct tr_cells_leaf *from = branch->refs[ref].leaf;
    struct tr_cells_leaf *to;
    uint32_t count;

    if (ref + 1 >= branch->count || branch->refs[ref + 1].leaf->count > LEAF - LEAF / 8) {
        return false;
    }
    to = branch->refs[ref + 1].leaf;
    count = (LEAF - to->count + 1) / 2;
    memmove(&to->items[count], to->items, to->count * sizeof(struct item));
    memcpy(to->items, &from->items[from->count - count], count * sizeof(struct item));
    to->count += count;
    from->count -= count;
    branch->refs[ref + 1].first = key_of(&to->items[0]);
    return true;
}

static bool give_left(struct tr_cells_branch *branch, uint64_t ref)
{
    struct tr_cells_leaf *from = branch->refs[ref].leaf;
    struct tr_cells_leaf *to;
    uint32_t count;

    if (ref == 0 || branch->refs[ref - 1].leaf->count > LEAF - LEAF / 8) {
        return false;
    }
    to = branch->refs[ref - 1].leaf;
    count = (LEAF - to->count + 1) / 2;
    memcpy(&to->items[to->count], from->items, count * sizeof(struct item));
    memmove(from->items, &from->items[count], (from->count - count) * sizeof(struct item));
    to->count += count;
    from->count -= count;
    branch->refs[ref].first = key_of(&from->items[0]);
    return true;
}

/* Splits a full branch: in the middle, or behind all of it. */
static void split_branch(struct tr_cells *c, size_t top, bool behind)
{
    struct tr_cells_branch *branch = c->top[top].branch;
    struct tr_cells_branch *fresh = take_branch(c);
    uint64_t left = behind ? BRANCH - 1 : BRANCH / 2;

    fresh->count = branch->count - left;
    memcpy(fresh->refs, &branch->refs[left], fresh->count * sizeof(struct ref));
    branch->count = left;
    insert_top(c, top + 1, fresh->refs[0].first, fresh);
}

/* Gives the full leaf where key belongs a place for it, or another leaf. */
static void make_way(struct tr_cells *c, uint64_t key)
{
    struct spot s = locate(c, key);
    struct tr_cells_leaf *fresh;
    uint32_t left;

    if (give_right(s.branch, s.ref) || give_left(s.branch, s.ref)) {
        return;
    }
    if (s.branch->count == BRANCH) {
        split_branch(c, s.top, s.ref == BRANCH - 1);
        s = locate(c, key);
    }
    fresh = take_leaf(c);
    left = s.item == LEAF ? LEAF : LEAF / 2;
    fresh->count = LEAF - left;
    memcpy(fresh->items, &s.leaf->items[left], fresh->count * sizeof(struct item));
    s.leaf->count = left;
    insert_ref(s.branch, s.ref + 1, left < LEAF ? key_of(&fresh->items[0]) : key, fresh);
}

static void tell(const struct tr_cells *c, uint32_t row, uint32_t when, int64_t more)
{
    if (c->watch != NULL && c->watch->row == row && when < c->watch->at &&
        !TR_MUTANT(WATCH_IGNORED)) {
        c->watch->changed(c->watch->ctx, when, more);
    }
}

/* Adds to a cell, which is made if need be. */
static void bump(struct tr_cells *c, uint32_t row, uint32_t when, uint32_t count)
{
    uint64_t key = key_at(row, when);
    struct item *item = find(c, key);
    struct spot s;

    tell(c, row, when, count);
    if (item != NULL) {
        TR_CHECK(item->count <= UINT32_MAX - count);
        item->count += count;
        return;
    }
    if (c->top_count == 0) {
        insert_top(c, 0, 0, take_branch(c));
        insert_ref(c->top[0].branch, 0, 0, take_leaf(c));
    }
    s = locate(c, key);
    if (s.leaf->count == LEAF) {
        make_way(c, key);
        s = locate(c, key);
    }
    item = &s.leaf->items[s.item];
    memmove(item + 1, item, (s.leaf->count - s.item) * sizeof *item);
    *item = (struct item){.row = row, .when = when, .count = count};
    s.leaf->count++;
    c->count++;
}

/* Takes a branch out of the top. The one before it, or else the one behind it, gets its keys. */
static void remove_top(struct tr_cells *c, size_t at)
{
    struct tr_cells_top *top;

    tr_mem_free(c->mem, c->top[at].branch, sizeof(struct tr_cells_branch));
    c->top_count--;
    memmove(&c->top[at], &c->top[at + 1], (c->top_count - at) * sizeof *c->top);
    if (c->top_count > 0) {
        c->top[0].first = 0;
        c->top[0].branch->refs[0].first = 0;
    } else {
        drop_numbers(c);
    }
    if (c->top_room > TOP_MIN && c->top_count < c->top_room / 4) {
        top = tr_mem_stretch(c->mem, c->top, c->top_room * sizeof *top,
                             c->top_room / 2 * sizeof *top);
        if (top != NULL) {
            c->top = top;
            c->top_room /= 2;
        }
    }
}

/* Takes a leaf out of its branch, in the same way. */
static void remove_ref(struct tr_cells *c, struct tr_cells_branch *branch, uint64_t at)
{
    uint64_t first = branch->refs[0].first;

    free_leaf(c, branch->refs[at].leaf);
    branch->count--;
    memmove(&branch->refs[at], &branch->refs[at + 1], (branch->count - at) * sizeof(struct ref));
    branch->refs[0].first = first;
}

/* Joins a leaf with the next one of its branch, if they are small. */
static bool join_leaves(struct tr_cells *c, struct tr_cells_branch *branch, uint64_t ref)
{
    struct tr_cells_leaf *a = branch->refs[ref].leaf;
    struct tr_cells_leaf *b;

    if (ref + 1 >= branch->count || a->count + branch->refs[ref + 1].leaf->count > LEAF * 3 / 4) {
        return false;
    }
    b = branch->refs[ref + 1].leaf;
    memcpy(&a->items[a->count], b->items, b->count * sizeof(struct item));
    a->count += b->count;
    remove_ref(c, branch, ref + 1);
    return true;
}

static bool join_branches(struct tr_cells *c, size_t top)
{
    struct tr_cells_branch *a = c->top[top].branch;
    struct tr_cells_branch *b;

    if (top + 1 >= c->top_count || a->count + c->top[top + 1].branch->count > BRANCH * 3 / 4) {
        return false;
    }
    b = c->top[top + 1].branch;
    memcpy(&a->refs[a->count], b->refs, b->count * sizeof(struct ref));
    a->count += b->count;
    remove_top(c, top + 1);
    return true;
}

/* Takes the cell with this key away. */
static void remove_cell(struct tr_cells *c, uint64_t key)
{
    struct spot s = locate(c, key);
    struct item *item = &s.leaf->items[s.item];

    s.leaf->count--;
    c->count--;
    memmove(item, item + 1, (s.leaf->count - s.item) * sizeof *item);
    if (s.leaf->count == 0) {
        remove_ref(c, s.branch, s.ref);
    } else if (!join_leaves(c, s.branch, s.ref) &&
               (s.ref == 0 || !join_leaves(c, s.branch, s.ref - 1))) {
        return;
    }
    if (c->hint_room > HINTS_MIN && c->count < c->hint_room / 16) {
        drop_hints(c); /* fewer will do */
    }
    if (s.branch->count == 0) {
        remove_top(c, s.top);
    } else if (!join_branches(c, s.top) && s.top > 0) {
        (void)join_branches(c, s.top - 1);
    }
}

/* Takes so many off a cell, which must have them. */
static void lower(struct tr_cells *c, struct item *item, uint32_t count)
{
    TR_CHECK(item != NULL);
    TR_CHECK(item->count >= count);
    tell(c, item->row, item->when, -(int64_t)count);
    item->count -= count;
    if (item->count == 0) {
        remove_cell(c, key_of(item));
    }
}

/* True when the cells of this time have no number left. That of row 0 is the largest. */
static bool full(const struct tr_cells *c, uint32_t when)
{
    const struct item *all;

    if (c->jobs < UINT32_MAX) {
        return false;
    }
    all = find(c, key_at(TR_CELLS_ALL, when));
    return all != NULL && all->count == UINT32_MAX;
}

int tr_cells_make(struct tr_cells *c, uint32_t row, uint64_t due_us, uint32_t *kind)
{
    uint32_t hour = tr_cells_when(c, due_us, TR_RF_CELL_HOUR);
    bool room = c->count < c->count_max || find(c, key_at(row, hour)) != NULL;

    TR_CHECK(row != TR_CELLS_ALL);
    foresee(c, key_at(row, hour));
    *kind = room && !full(c, hour) ? TR_RF_CELL_HOUR : TR_RF_CELL_DAY;
    if (*kind == TR_RF_CELL_DAY && full(c, tr_cells_when(c, due_us, TR_RF_CELL_DAY))) {
        return TARRY_EFULL;
    }
    return make_spares(c);
}

void tr_cells_add(struct tr_cells *c, uint32_t row, uint64_t due_us, uint32_t kind)
{
    uint32_t when = tr_cells_when(c, due_us, kind);

    TR_CHECK(row != TR_CELLS_ALL);
    bump(c, row, when, 1);
    bump(c, TR_CELLS_ALL, when, 1);
    c->jobs++;
}

uint32_t tr_cells_count(const struct tr_cells *c, uint32_t row, uint32_t when)
{
    const struct item *item = find(c, key_at(row, when));

    return item != NULL ? item->count : 0;
}

bool tr_cells_sub(struct tr_cells *c, uint32_t row, uint64_t due_us, uint32_t kind)
{
    uint32_t when = tr_cells_when(c, due_us, kind);

    struct item *item = find(c, key_at(row, when));

    TR_CHECK(row != TR_CELLS_ALL);
    if (item == NULL) {
        return false;
    }
    lower(c, item, 1);
    lower(c, find(c, key_at(TR_CELLS_ALL, when)), 1);
    c->jobs--;
    return true;
}

bool tr_cells_drop(struct tr_cells *c, uint32_t row, unsigned *work)
{
    TR_CHECK(row != TR_CELLS_ALL);
    for (; *work > 0; --*work) {
        struct item *item = seek(c, key_at(row, 0));
        uint32_t when;
        uint32_t count;

        if (item == NULL || item->row != row) {
            return true;
        }
        when = item->when;
        count = item->count;
        lower(c, item, count);
        lower(c, find(c, key_at(TR_CELLS_ALL, when)), count);
        c->jobs -= count;
    }
    return false;
}

struct tr_cells_walk tr_cells_from(const struct tr_cells *c, uint32_t row, uint32_t hour)
{
    uint32_t from = hour < TR_CELL_HOUR_MAX ? hour : TR_CELL_HOUR_MAX;

    return (struct tr_cells_walk){.row = row, .from = from * 2, .at = from / c->day * c->day * 2};
}

bool tr_cells_next(const struct tr_cells *c, struct tr_cells_walk *w, struct tr_cell *cell)
{
    while (w->at <= UINT32_MAX) {
        const struct item *item = seek(c, key_at(w->row, (uint32_t)w->at));
        bool day;

        if (item == NULL || item->row != w->row) {
            return false;
        }
        day = item->when % 2 == 0;
        if (item->when < w->from && !day) { /* an hour that is over, of a day that is not */
            w->at = w->from;
            continue;
        }
        w->at = (uint64_t)item->when + 1;
        *cell = (struct tr_cell){.hour = item->when / 2,
                                 .when = item->when,
                                 .kind = day ? TR_RF_CELL_DAY : TR_RF_CELL_HOUR,
                                 .count = item->count};
        return true;
    }
    return false;
}

size_t tr_cells_put(uint8_t *out, uint32_t when, uint32_t count, uint64_t *before)
{
    uint64_t now = (uint64_t)when + 1;
    size_t len = tr_put_varint(out, now - *before);

    *before = now;
    return len + tr_put_varint(out + len, count);
}

int tr_cells_decode(struct tr_cells *c, uint32_t row, const uint8_t *p, size_t len)
{
    struct tr_reader r = tr_reader_of(p, len);
    uint64_t before = 0;

    TR_CHECK(row != TR_CELLS_ALL);
    while (tr_reader_left(&r) > 0) {
        uint64_t step = tr_read_varint(&r);
        uint64_t count = tr_read_varint(&r);
        uint64_t when = before + step - 1;
        const struct item *all;

        if (r.bad || step == 0 || step > UINT32_MAX + UINT64_C(1) - before || count == 0 ||
            count > UINT32_MAX || (when % 2 == 0 && when / 2 % c->day != 0)) {
            return TARRY_EDAMAGED;
        }
        all = find(c, key_at(TR_CELLS_ALL, (uint32_t)when));
        if (find(c, key_at(row, (uint32_t)when)) != NULL ||
            (all != NULL && count > UINT32_MAX - all->count)) {
            return TARRY_EDAMAGED;
        }
        if (make_spares(c) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
        bump(c, row, (uint32_t)when, (uint32_t)count);
        bump(c, TR_CELLS_ALL, (uint32_t)when, (uint32_t)count);
        c->jobs += count;
        before = when + 1;
    }
    return TARRY_OK;
}

/* Checks a leaf whose keys are from first on, below end; adds up what it counts. */
static bool leaf_ok(const struct tr_cells *c, const struct tr_cells_leaf *leaf, uint64_t first,
                    uint64_t end, uint64_t sums[2])
{
    for (uint32_t i = 0; i < leaf->count; i++) {
        const struct item *item = &leaf->items[i];
        const struct item *all = find(c, key_at(TR_CELLS_ALL, item->when));
        uint64_t key = key_of(item);

        if (key < first || key >= end || (i > 0 && key_of(item - 1) >= key) || item->count == 0 ||
            all == NULL || all->count < item->count || item->row > c->last_row) {
            return false;
        }
        sums[item->row == TR_CELLS_ALL] += item->count;
    }
    return leaf->count > 0 && leaf->count <= LEAF;
}

bool tr_cells_ok(const struct tr_cells *c)
{
    uint64_t sums[2] = {0, 0}; /* of all other rows, of row 0 */
    uint64_t count = 0;

    for (size_t t = 0; t < c->top_count; t++) {
        const struct tr_cells_branch *branch = c->top[t].branch;
        uint64_t end = t + 1 < c->top_count ? c->top[t + 1].first : UINT64_MAX;

        if (branch->count == 0 || branch->count > BRANCH ||
            branch->refs[0].first != c->top[t].first || (t == 0 && c->top[t].first != 0)) {
            return false;
        }
        for (uint64_t r = 0; r < branch->count; r++) {
            uint64_t leaf_end = r + 1 < branch->count ? branch->refs[r + 1].first : end;

            if (!leaf_ok(c, branch->refs[r].leaf, branch->refs[r].first, leaf_end, sums)) {
                return false;
            }
            count += branch->refs[r].leaf->count;
        }
    }
    return count == c->count && sums[0] == c->jobs && sums[1] == c->jobs &&
           c->top_count <= c->top_room;
}
