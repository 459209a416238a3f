/*
 * Four-ary heap.
 *
 * Item i has the children 4 i + 1 .. 4 i + 4, which stand side by side: half as many levels as a
 * binary heap, and the four keys that are compared come from two or three cache lines. The key is
 * in the item, so nothing outside the array is read; an item that moves writes its place.
 *
 *     chunks  -> | 0 .. 4095 |      the first one grows by doubling, up to its full size;
 *             -> | 4096 .. 8191 |   from then on the heap grows and shrinks by a chunk
 *
 * In one piece, a million items would be copied when the array grows: milliseconds.
 *
 * Invariant: no item is less than its parent; an item's place is its index + 1.
 *
 * Cost: push O(log n), one comparison a level, few levels on average; remove O(log n), four
 * comparisons a level.
 */

#include "base/heap.h"

#include "base/err.h"

enum { ROOM_MIN = 16, WAYS = 4, CHUNK_BITS = 12, CHUNK = 1 << CHUNK_BITS, LIST_MIN = 1 };

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

static struct tr_heap_item *at(const struct tr_heap *h, size_t i)
{
    return &h->chunks[i >> CHUNK_BITS][i & (CHUNK - 1)];
}

static uint32_t *place(const struct tr_heap *h, void *what)
{
    return (uint32_t *)(void *)((char *)what + h->place_off);
}

static void set(struct tr_heap *h, size_t i, const struct tr_heap_item *item)
{
    *at(h, i) = *item;
    *place(h, item->what) = (uint32_t)(i + 1);
}

void tr_heap_init(struct tr_heap *h, struct tr_mem *mem, size_t place_off)
{
    *h = (struct tr_heap){.mem = mem, .place_off = place_off};
}

static size_t chunk_bytes(const struct tr_heap *h, size_t chunk)
{
    return (chunk == 0 && h->room < CHUNK ? h->room : CHUNK) * sizeof(struct tr_heap_item);
}

void tr_heap_fini(struct tr_heap *h)
{
    for (size_t c = 0; c << CHUNK_BITS < h->room; c++) {
        tr_mem_free(h->mem, h->chunks[c], chunk_bytes(h, c));
    }
    if (h->chunk_room > 0) {
        tr_mem_free(h->mem, h->chunks, h->chunk_room * sizeof *h->chunks);
    }
    tr_heap_init(h, h->mem, h->place_off);
}

/* Makes the first chunk smaller or larger. */
static int resize_first(struct tr_heap *h, size_t room)
{
    struct tr_heap_item *items =
        tr_mem_stretch(h->mem, h->room > 0 ? h->chunks[0] : NULL,
                       h->room > 0 ? chunk_bytes(h, 0) : 0, room * sizeof *items);

    if (items == NULL) {
        return TARRY_ENOMEM;
    }
    h->chunks[0] = items;
    h->room = room;
    return TARRY_OK;
}

static int grow(struct tr_heap *h)
{
    size_t chunk = h->room >> CHUNK_BITS;

    if (h->room >= UINT32_MAX - CHUNK) {
        return TARRY_ENOMEM;
    }
    if (chunk >= h->chunk_room) {
        size_t room = h->chunk_room > 0 ? h->chunk_room * 2 : LIST_MIN;
        struct tr_heap_item **chunks = tr_mem_stretch(
            h->mem, h->chunks, h->chunk_room * sizeof *chunks, room * sizeof *chunks);

        if (chunks == NULL) {
            return TARRY_ENOMEM;
        }
        h->chunks = chunks;
        h->chunk_room = room;
    }
    if (h->room < CHUNK) {
        return resize_first(h, h->room > 0 ? h->room * 2 : ROOM_MIN);
    }
    h->chunks[chunk] = tr_mem_stretch(h->mem, NULL, 0, CHUNK * sizeof(struct tr_heap_item));
    if (h->chunks[chunk] == NULL) {
        return TARRY_ENOMEM;
    }
    h->room += CHUNK;
    return TARRY_OK;
}

/* Gives memory back: chunks behind the one after the last item, or half of the only chunk when
 * three quarters are empty. When that fails, it stays large. */
static void trim(struct tr_heap *h)
{
    size_t room = h->room;

    while (h->room > CHUNK && h->count + CHUNK / 2 <= h->room - CHUNK) {
        h->room -= CHUNK;
        tr_mem_free(h->mem, h->chunks[h->room >> CHUNK_BITS], CHUNK * sizeof(struct tr_heap_item));
    }
    if (room > CHUNK) {
        return;
    }
    while (room > ROOM_MIN && h->count <= room / 4) {
        room /= 2;
    }
    if (room != h->room) {
        (void)!resize_first(h, room);
    }
}

/* Puts item into the hole at i, or further up: greater parents move down meanwhile. */
static void rise(struct tr_heap *h, size_t i, const struct tr_heap_item *item)
{
    while (i > 0 && less(item, at(h, (i - 1) / WAYS))) {
        set(h, i, at(h, (i - 1) / WAYS));
        i = (i - 1) / WAYS;
    }
    set(h, i, item);
}

/* Puts item into the hole at i, or further down: least children move up meanwhile. */
static void sink(struct tr_heap *h, size_t i, const struct tr_heap_item *item)
{
    for (;;) {
        size_t child = WAYS * i + 1;
        size_t end = child + WAYS < h->count ? child + WAYS : h->count;
        size_t best = child;

        if (child >= h->count) {
            break;
        }
        for (size_t c = child + 1; c < end; c++) {
            if (less(at(h, c), at(h, best))) {
                best = c;
            }
        }
        if (!less(at(h, best), item)) {
            break;
        }
        set(h, i, at(h, best));
        i = best;
    }
    set(h, i, item);
}

/* Puts item where it belongs, from the hole at i. */
static void settle(struct tr_heap *h, size_t i, const struct tr_heap_item *item)
{
    if (i > 0 && less(item, at(h, (i - 1) / WAYS))) {
        rise(h, i, item);
    } else {
        sink(h, i, item);
    }
}

int tr_heap_push(struct tr_heap *h, struct tr_heap_item item)
{
    TR_CHECK(*place(h, item.what) == 0);
    if (h->count == h->room && grow(h) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    rise(h, h->count++, &item);
    return TARRY_OK;
}

const struct tr_heap_item *tr_heap_top(const struct tr_heap *h)
{
    return h->count > 0 ? at(h, 0) : NULL;
}

/* The index of what is in this heap. */
static size_t find(const struct tr_heap *h, void *what)
{
    size_t i = (size_t)*place(h, what) - 1;

    TR_CHECK(i < h->count);
    TR_CHECK(at(h, i)->what == what);
    return i;
}

void tr_heap_remove(struct tr_heap *h, void *what)
{
    size_t i = find(h, what);

    *place(h, what) = 0;
    h->count--;
    if (i < h->count) {
        struct tr_heap_item last = *at(h, h->count);

        settle(h, i, &last);
    }
    trim(h);
}

void tr_heap_update(struct tr_heap *h, struct tr_heap_item item)
{
    settle(h, find(h, item.what), &item);
}

bool tr_heap_ok(const struct tr_heap *h)
{
    for (size_t i = 0; i < h->count; i++) {
        if (*place(h, at(h, i)->what) != i + 1 ||
            (i > 0 && less(at(h, i), at(h, (i - 1) / WAYS)))) {
            return false;
        }
    }
    return h->count <= h->room;
}
