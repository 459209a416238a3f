/*
 * Set of numbers in chunks.
 *
 * The numbers [65536 c, 65536 (c + 1)) are chunk c. Only chunks with a member exist, in one array
 * sorted by c. A chunk is one of two things:
 *
 *     room > 0    array   u16[room], the first `count` of them the members, sorted
 *     room = 0    bits    8 KiB, one bit per number
 *
 * A chunk that reaches 4,096 members becomes bits (an array would be larger from there on); bits
 * that fall to 2,560 become an array again. The gap keeps a chunk at the border from changing
 * with every call; it costs at most 3.2 bytes a member.
 *
 * Invariant: chunks are sorted and none is empty; an array has fewer than 4,096 members; `count`
 * of a chunk is its number of members; `members` is the sum.
 *
 * It follows that clear never needs memory: it only makes smaller. Where a smaller piece cannot
 * be had, the larger one stays, and the next clear tries again.
 *
 * Cost: set at the end and set or clear in bits O(1) once the chunk is found; in an array a
 * search and a move of at most 8 KiB. A chunk is found at once when no chunk between it and the
 * last is missing, else by binary search. Removing an empty chunk moves those behind it, once
 * per 65,536 numbers.
 */

#include "base/bitmap.h"

#include "base/bits.h"
#include "base/err.h"

#include <assert.h>
#include <string.h>

enum {
    BITS_FROM = 4096, /* members with which a chunk becomes bits */
    ARRAY_TO = 2560,  /* members with which bits become an array */
    ROOM_MIN = 8,     /* members of the smallest array */
};

static_assert(BITS_FROM * sizeof(uint16_t) == TR_BITMAP_BYTES, "an array is never larger");

#define NUMBER_END (UINT64_C(1) << 48)

struct tr_bitmap_chunk {
    uint32_t number;
    uint32_t count; /* members: 1 .. 65536 */
    uint32_t room;  /* of the array; 0: bits */
    union {
        uint8_t *bits;
        uint16_t *array;
    };
};

void tr_bitmap_init(struct tr_bitmap *b, struct tr_mem *mem)
{
    *b = (struct tr_bitmap){.mem = mem};
}

static size_t data_size(const struct tr_bitmap_chunk *c)
{
    return c->room > 0 ? c->room * sizeof *c->array : TR_BITMAP_BYTES;
}

static void free_data(struct tr_bitmap *b, struct tr_bitmap_chunk *c)
{
    tr_mem_free(b->mem, c->room > 0 ? (void *)c->array : (void *)c->bits, data_size(c));
}

void tr_bitmap_fini(struct tr_bitmap *b)
{
    for (size_t i = 0; i < b->count; i++) {
        free_data(b, &b->chunks[i]);
    }
    if (b->room > 0) {
        tr_mem_free(b->mem, b->chunks, b->room * sizeof *b->chunks);
    }
    *b = (struct tr_bitmap){.mem = b->mem};
}

/* Index of the first chunk with a number >= number. */
static size_t find_index(const struct tr_bitmap *b, uint64_t number)
{
    size_t low = 0;
    size_t high = b->count;

    if (high == 0 || b->chunks[high - 1].number < number) {
        return high;
    }

    uint64_t back = b->chunks[high - 1].number - number;

    if (back < high && b->chunks[high - 1 - back].number == number) {
        return high - 1 - (size_t)back;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (b->chunks[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The chunk of that number, or NULL. */
static struct tr_bitmap_chunk *find_chunk(const struct tr_bitmap *b, uint64_t number)
{
    size_t i = find_index(b, number);

    return i < b->count && b->chunks[i].number == number ? &b->chunks[i] : NULL;
}

/* Index in the array of the first member >= low. */
static uint32_t find_member(const struct tr_bitmap_chunk *c, uint16_t low)
{
    uint32_t first = 0;
    uint32_t end = c->count;

    if (c->array[end - 1] < low) { /* the usual set: behind all */
        return end;
    }
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;

        if (c->array[middle] < low) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

static bool chunk_test(const struct tr_bitmap_chunk *c, uint16_t low)
{
    if (c->room == 0) {
        return (c->bits[low / 8] >> low % 8 & 1) != 0;
    }

    uint32_t i = find_member(c, low);

    return i < c->count && c->array[i] == low;
}

static void array_to_bits(const struct tr_bitmap_chunk *c, uint8_t bits[TR_BITMAP_BYTES])
{
    for (uint32_t i = 0; i < c->count; i++) {
        bits[c->array[i] / 8] |= (uint8_t)(1u << c->array[i] % 8);
    }
}

static void bits_to_array(const uint8_t bits[TR_BITMAP_BYTES], uint16_t *array)
{
    for (unsigned i = 0; i < TR_BITMAP_BYTES; i++) {
        for (unsigned left = bits[i]; left != 0; left &= left - 1) {
            *array++ = (uint16_t)(i * 8 + (unsigned)__builtin_ctz(left));
        }
    }
}

/* Makes an array chunk ready for one more member: grown, or turned into bits. */
static int make_room(struct tr_bitmap *b, struct tr_bitmap_chunk *c)
{
    if (c->count + 1 >= BITS_FROM) {
        uint8_t *bits = tr_mem_alloc(b->mem, TR_BITMAP_BYTES);

        if (bits == NULL) {
            return TARRY_ENOMEM;
        }
        array_to_bits(c, bits);
        free_data(b, c);
        c->room = 0;
        c->bits = bits;
    } else if (c->count == c->room) {
        uint32_t room = c->room * 2 < BITS_FROM ? c->room * 2 : BITS_FROM;
        uint16_t *array = tr_mem_resize(b->mem, c->array, data_size(c), room * sizeof *c->array);

        if (array == NULL) {
            return TARRY_ENOMEM;
        }
        c->room = room;
        c->array = array;
    }
    return TARRY_OK;
}

/* Makes a chunk smaller when it pays; when there is no memory for that, it stays. */
static void trim(struct tr_bitmap *b, struct tr_bitmap_chunk *c)
{
    uint32_t room = c->count + c->count / 4;
    uint16_t *array;

    room = room > ROOM_MIN ? room : ROOM_MIN;
    if (c->room == 0 && c->count <= ARRAY_TO) {
        array = tr_mem_alloc(b->mem, room * sizeof *array);
        if (array == NULL) {
            return;
        }
        bits_to_array(c->bits, array);
        free_data(b, c);
    } else if (c->room > ROOM_MIN && c->room > c->count + c->count / 2 + ROOM_MIN) {
        array = tr_mem_resize(b->mem, c->array, data_size(c), room * sizeof *array);
        if (array == NULL) {
            return;
        }
    } else {
        return;
    }
    c->room = room;
    c->array = array;
}

/* Opens a gap for a chunk at index i; its fields are the caller's to fill. */
static struct tr_bitmap_chunk *insert_chunk(struct tr_bitmap *b, size_t i)
{
    if (b->count == b->room) {
        size_t room = b->room > 0 ? b->room * 2 : ROOM_MIN;
        struct tr_bitmap_chunk *chunks =
            tr_mem_resize(b->mem, b->chunks, b->room * sizeof *b->chunks, room * sizeof *b->chunks);

        if (chunks == NULL) {
            return NULL;
        }
        b->chunks = chunks;
        b->room = room;
    }
    memmove(&b->chunks[i + 1], &b->chunks[i], (b->count - i) * sizeof *b->chunks);
    b->count++;
    return &b->chunks[i];
}

static void remove_chunk(struct tr_bitmap *b, struct tr_bitmap_chunk *c)
{
    size_t i = (size_t)(c - b->chunks);

    free_data(b, c);
    b->count--;
    memmove(c, c + 1, (b->count - i) * sizeof *c);
    if (b->count > ROOM_MIN && b->count < b->room / 4) {
        struct tr_bitmap_chunk *chunks = tr_mem_resize(
            b->mem, b->chunks, b->room * sizeof *b->chunks, b->room / 2 * sizeof *b->chunks);

        if (chunks != NULL) {
            b->chunks = chunks;
            b->room /= 2;
        }
    }
}

/* Adds a chunk with the one member low. */
static int add_chunk(struct tr_bitmap *b, uint64_t number, uint16_t low)
{
    uint16_t *array = tr_mem_alloc(b->mem, ROOM_MIN * sizeof *array);
    struct tr_bitmap_chunk *c;

    if (array == NULL) {
        return TARRY_ENOMEM;
    }
    c = insert_chunk(b, find_index(b, number));
    if (c == NULL) {
        tr_mem_free(b->mem, array, ROOM_MIN * sizeof *array);
        return TARRY_ENOMEM;
    }
    array[0] = low;
    *c = (struct tr_bitmap_chunk){
        .number = (uint32_t)number, .count = 1, .room = ROOM_MIN, .array = array};
    b->members++;
    return TARRY_OK;
}

int tr_bitmap_set(struct tr_bitmap *b, uint64_t n)
{
    struct tr_bitmap_chunk *c = find_chunk(b, n / TR_BITMAP_CHUNK);
    uint16_t low = (uint16_t)(n % TR_BITMAP_CHUNK);

    TR_CHECK(n < NUMBER_END);
    if (c == NULL) {
        return add_chunk(b, n / TR_BITMAP_CHUNK, low);
    }
    if (chunk_test(c, low)) {
        return TARRY_OK;
    }
    if (c->room > 0 && make_room(b, c) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    if (c->room == 0) {
        c->bits[low / 8] |= (uint8_t)(1u << low % 8);
    } else {
        uint32_t i = find_member(c, low);

        memmove(&c->array[i + 1], &c->array[i], (c->count - i) * sizeof *c->array);
        c->array[i] = low;
    }
    c->count++;
    b->members++;
    return TARRY_OK;
}

bool tr_bitmap_clear(struct tr_bitmap *b, uint64_t n)
{
    struct tr_bitmap_chunk *c = find_chunk(b, n / TR_BITMAP_CHUNK);
    uint16_t low = (uint16_t)(n % TR_BITMAP_CHUNK);

    if (c == NULL || !chunk_test(c, low)) {
        return false;
    }
    b->members--;
    if (c->count == 1) {
        remove_chunk(b, c);
        return true;
    }
    if (c->room == 0) {
        c->bits[low / 8] &= (uint8_t) ~(1u << low % 8);
    } else {
        uint32_t i = find_member(c, low);

        memmove(&c->array[i], &c->array[i + 1], (c->count - i - 1) * sizeof *c->array);
    }
    c->count--;
    trim(b, c);
    return true;
}

bool tr_bitmap_test(const struct tr_bitmap *b, uint64_t n)
{
    const struct tr_bitmap_chunk *c = find_chunk(b, n / TR_BITMAP_CHUNK);

    return c != NULL && chunk_test(c, (uint16_t)(n % TR_BITMAP_CHUNK));
}

/* The least member of a chunk from `low` on, or TR_BITMAP_CHUNK. */
static uint32_t next_in(const struct tr_bitmap_chunk *c, uint32_t low)
{
    uint32_t n = low;

    if (c->room > 0) {
        uint32_t i = 0;

        while (i < c->count && c->array[i] < low) {
            i++;
        }
        return i < c->count ? c->array[i] : TR_BITMAP_CHUNK;
    }
    while (n < TR_BITMAP_CHUNK && (c->bits[n / 8] >> (n % 8) & 1) == 0) {
        n += c->bits[n / 8] >> (n % 8) == 0 ? 8 - n % 8 : 1;
    }
    return n;
}

uint64_t tr_bitmap_next(const struct tr_bitmap *b, uint64_t n)
{
    for (size_t i = find_index(b, n / TR_BITMAP_CHUNK); i < b->count; i++) {
        const struct tr_bitmap_chunk *c = &b->chunks[i];
        uint64_t first = (uint64_t)c->number * TR_BITMAP_CHUNK;
        uint32_t found = next_in(c, n > first ? (uint32_t)(n - first) : 0);

        if (found < TR_BITMAP_CHUNK) {
            return first + found;
        }
    }
    return UINT64_MAX;
}

/* Members of the chunk below `low`, which may be TR_BITMAP_CHUNK. */
static uint64_t count_below(const struct tr_bitmap_chunk *c, uint32_t low)
{
    uint64_t n = 0;

    if (low == TR_BITMAP_CHUNK) {
        return c->count;
    }
    if (c->room > 0) {
        return find_member(c, (uint16_t)low);
    }
    for (uint32_t i = 0; i < low / 64; i++) {
        uint64_t bits;

        memcpy(&bits, c->bits + (size_t)i * 8, sizeof bits);
        n += tr_ones(bits);
    }
    for (uint32_t i = low / 64 * 64; i < low; i++) {
        n += c->bits[i / 8] >> i % 8 & 1;
    }
    return n;
}

uint64_t tr_bitmap_count(const struct tr_bitmap *b, uint64_t first, uint64_t last)
{
    uint64_t n = 0;

    for (size_t i = find_index(b, first / TR_BITMAP_CHUNK);
         i < b->count && b->chunks[i].number <= last / TR_BITMAP_CHUNK; i++) {
        const struct tr_bitmap_chunk *c = &b->chunks[i];
        bool from = c->number == first / TR_BITMAP_CHUNK;
        bool to = c->number == last / TR_BITMAP_CHUNK;

        n += count_below(c, to ? (uint32_t)(last % TR_BITMAP_CHUNK) + 1 : TR_BITMAP_CHUNK);
        n -= from ? count_below(c, (uint32_t)(first % TR_BITMAP_CHUNK)) : 0;
    }
    return n;
}

bool tr_bitmap_next_chunk(const struct tr_bitmap *b, uint64_t first, uint64_t *number,
                          uint8_t bits[TR_BITMAP_BYTES])
{
    size_t i = find_index(b, first);

    if (i == b->count) {
        return false;
    }
    *number = b->chunks[i].number;
    if (b->chunks[i].room == 0) {
        memcpy(bits, b->chunks[i].bits, TR_BITMAP_BYTES);
    } else {
        memset(bits, 0, TR_BITMAP_BYTES);
        array_to_bits(&b->chunks[i], bits);
    }
    return true;
}

static uint32_t count_bits(const uint8_t bits[TR_BITMAP_BYTES])
{
    uint32_t count = 0;

    for (unsigned i = 0; i < TR_BITMAP_BYTES; i += 8) {
        uint64_t word;

        memcpy(&word, bits + i, sizeof word);
        count += (uint32_t)tr_ones(word);
    }
    return count;
}

static bool chunk_ok(const struct tr_bitmap_chunk *c)
{
    if (c->count == 0 || c->count > TR_BITMAP_CHUNK) {
        return false;
    }
    if (c->room == 0) {
        return count_bits(c->bits) == c->count;
    }
    for (uint32_t i = 1; i < c->count; i++) {
        if (c->array[i - 1] >= c->array[i]) {
            return false;
        }
    }
    return c->count <= c->room && c->count < BITS_FROM;
}

bool tr_bitmap_ok(const struct tr_bitmap *b)
{
    uint64_t members = 0;

    for (size_t i = 0; i < b->count; i++) {
        if (!chunk_ok(&b->chunks[i]) || (i > 0 && b->chunks[i - 1].number >= b->chunks[i].number)) {
            return false;
        }
        members += b->chunks[i].count;
    }
    return members == b->members && b->count <= b->room;
}
