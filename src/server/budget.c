/*
 * One limit, many budgets.
 *
 *     memory.limit    connections   1/8   or limits.buffers, if that is less, or given
 *                     runs          1/8   what is calculated beside the loop to make run files:
 *                                         counted by nobody, so it is only left free
 *                     history       1/16  or history.bytes, if that is less, or given
 *                     engine        the rest, of which
 *                                         near jobs   3/8   or memory.near, the same
 *                                         bodies      1/4   or 256 MiB
 *                                         far jobs    1/8   or memory.far, the same
 *                                         all else    1/4   keys, indexes, batches, checkpoints
 *
 * A limit only takes away: with much memory all is as it is without a limit. A budget that was
 * given by its own key is what it was given, since whoever says it has a reason; the limit of the
 * engine holds all the same.
 */

#include "server/budget.h"

enum { NEAR_BYTES = 350, FAR_BYTES = 26, SLOTS_MOST = 4, PERCENT = 100 };

#define MIB (UINT64_C(1) << 20)
#define BODIES_MOST (256 * MIB)

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool given(const struct tr_config *c, enum tr_key key)
{
    return c->settings[key].from != TR_FROM_DEFAULT;
}

/* 0: none. What is a part of very little is more than that: else nothing could be done. */
static uint64_t limit_of(const struct tr_config *c, uint64_t ram_bytes)
{
    uint64_t part = ram_bytes / PERCENT * c->memory_percent;

    if (c->memory_percent == 0 || ram_bytes == 0) {
        return c->memory_bytes;
    }
    return part > TR_CONFIG_MEMORY_MIN ? part : TR_CONFIG_MEMORY_MIN;
}

struct tr_budget tr_budget_cut(const struct tr_config *c, uint64_t ram_bytes)
{
    struct tr_budget b = {.all = limit_of(c, ram_bytes),
                          .bodies = BODIES_MOST,
                          .near_max = c->near_max,
                          .far_max = c->far_max,
                          .connections = c->buffers,
                          .history = c->history_bytes,
                          .promote_slots = SLOTS_MOST};

    if (b.all == 0) {
        return b;
    }
    b.history = min(b.history, b.all / (given(c, TR_KEY_HISTORY_BYTES) ? 4 : 16));
    b.less_history = given(c, TR_KEY_HISTORY_BYTES) && b.history < c->history_bytes;
    if (!given(c, TR_KEY_LIMITS_BUFFERS)) {
        b.connections = min(b.connections, b.all / 8);
    }
    b.engine = b.all - b.all / 8 - b.all / 8 - b.history;
    b.bodies = min(BODIES_MOST, b.engine / 4);
    if (!given(c, TR_KEY_MEMORY_NEAR)) {
        b.near_max = min(b.near_max, b.engine / 8 * 3 / NEAR_BYTES);
    }
    if (!given(c, TR_KEY_MEMORY_FAR)) {
        b.far_max = min(b.far_max, b.engine / 8 / FAR_BYTES);
    }
    b.promote_slots = b.engine >= 1024 * MIB ? SLOTS_MOST : b.engine >= 512 * MIB ? 2 : 1;
    return b;
}
