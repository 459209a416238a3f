/*
 * Sorting by digits, from the last to the first, each pass stable: so a sort by a further key keeps
 * the order of the one before, and equal input gives equal output. Digits above the largest
 * difference are left out, and what is sorted already is left alone. 11 bits a digit: the counts of
 * a pass fit the first cache, and so do the lines that it writes to.
 */

#include "base/sort.h"

#include "base/check.h"

#include <stdbool.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static void swap(struct tr_sort *s)
{
    struct tr_sort_item *items = s->items;

    s->items = s->spare;
    s->spare = items;
}

/* One pass over items[from, to), by DIGIT_BITS of (key - least) >> shift. */
static void pass(struct tr_sort *s, size_t from, size_t to, uint64_t least, unsigned shift)
{
    uint32_t at[DIGITS] = {0};
    const struct tr_sort_item *in = s->items;
    struct tr_sort_item *out = s->spare;
    uint32_t sum = (uint32_t)from;

    for (size_t i = from; i < to; i++) {
        at[(in[i].key - least) >> shift & (DIGITS - 1)]++;
    }
    for (unsigned d = 0; d < DIGITS; d++) {
        uint32_t n = at[d];

        at[d] = sum;
        sum += n;
    }
    for (size_t i = from; i < to; i++) {
        out[at[(in[i].key - least) >> shift & (DIGITS - 1)]++] = in[i];
    }
    swap(s);
}

void tr_sort(struct tr_sort *s, size_t from, size_t to)
{
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    bool sorted = true;
    bool swapped = false;

    TR_CHECK(to <= UINT32_MAX);
    for (size_t i = from; i < to; i++) {
        uint64_t key = s->items[i].key;

        sorted = sorted && key >= most;
        least = key < least ? key : least;
        most = key > most ? key : most;
    }
    if (sorted) {
        return;
    }
    for (unsigned shift = 0; shift < 64 && (most - least) >> shift != 0; shift += DIGIT_BITS) {
        pass(s, from, to, least, shift);
        swapped = !swapped;
    }
    if (swapped) { /* then what stands before and behind is in the other half */
        memcpy(s->spare + from, s->items + from, (to - from) * sizeof *s->items);
        swap(s);
    }
}
