/*
 * One block in use and one behind it.
 *
 *     database: next_seq ──► [after ... after_end) ──► [next ... end) ──► ids
 *
 * A number that was given by the database belongs to this node for ever, so none is given twice. To
 * ask for each push would cost a transaction of its own; so a node asks for as many as it needs in
 * two seconds by what it used in the last one, and before the last are gone.
 *
 * Ids are to follow the order of arrival, to about a second, over all nodes: so what is left of a
 * block a second after it came is let go. Numbers are cheap: there are 2^43 in each slot.
 *
 * Invariant: next <= end; after != 0 only if it is behind end: the database never goes back.
 */

#include "cluster/blocks.h"

enum { LEAST = 16, MOST = 4096 };

#define SECOND_US UINT64_C(1000000)

static uint64_t left_of(const struct tr_block *b, uint64_t now_us)
{
    uint64_t left = now_us < b->until_us ? b->end - b->next : 0;

    return left + (now_us < b->after_until_us ? b->after_end - b->after : 0);
}

/* What was used in this second and in the last whole one. */
static void count(struct tr_block *b, uint64_t now_us)
{
    uint64_t second = now_us / SECOND_US;

    if (second != b->second) {
        b->before = second == b->second + 1 ? b->used : 0;
        b->used = 0;
        b->second = second;
    }
    b->used++;
}

bool tr_block_take(struct tr_block *b, uint64_t now_us, uint64_t *seq)
{
    count(b, now_us);
    if (b->next == b->end || now_us >= b->until_us) {
        b->next = b->after;
        b->end = b->after_end;
        b->until_us = b->after_until_us;
        b->after = 0;
        b->after_end = 0;
        b->after_until_us = 0;
    }
    if (b->next == b->end || now_us >= b->until_us) {
        return false;
    }
    *seq = b->next++;
    return true;
}

uint32_t tr_block_want(const struct tr_block *b, uint64_t now_us)
{
    uint32_t rate = b->used > b->before ? b->used : b->before;
    uint32_t want = rate > MOST / 2 ? MOST : 2 * rate;

    if (b->asked || b->after != 0 || now_us / SECOND_US > b->second + 1) {
        return 0; /* or nobody needs any */
    }
    want = want > LEAST ? want : LEAST;
    return left_of(b, now_us) < want / 4 ? want : 0;
}

void tr_block_asked(struct tr_block *b)
{
    b->asked = true;
}

void tr_block_drop(struct tr_block *b)
{
    *b = (struct tr_block){.second = b->second, .used = b->used, .before = b->before};
}

bool tr_block_got(struct tr_block *b, uint64_t first, uint32_t count, uint64_t now_us)
{
    b->asked = false;
    if (first < b->end) {
        tr_block_drop(b);
        return false;
    }
    b->after = first;
    b->after_end = first + count;
    b->after_until_us = now_us + SECOND_US;
    return true;
}

void tr_block_failed(struct tr_block *b)
{
    b->asked = false;
}
