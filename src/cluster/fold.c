/*
 * Lanes of nodes that are gone: the owner of slot 0 has the database fold them, one at a time, so
 * that sums of counts stay short. See remote/sql_fold.c.
 */

#include "base/err.h"
#include "cluster/desk.h"

#define FOLD_EVERY_US UINT64_C(3600000000)
#define FOLD_NEXT_US UINT64_C(100000)
#define FOLD_AGE_US UINT64_C(86400000000) /* nobody has used it for so long */

static void folded(struct tr_cluster *c, struct tr_desk_call *call)
{
    bool more = call->ask.end == TR_SQL_DONE && call->ask.number == 1;

    c->desk->fold_us = c->now.boot_us + (more ? FOLD_NEXT_US : FOLD_EVERY_US);
}

static bool may_fold(const struct tr_cluster *c)
{
    return c->slots[0].owned && c->server_at_us != 0 && !c->desk->fold.busy && !tr_desk_down(c) &&
           !c->leaving;
}

void tr_fold_turn(struct tr_cluster *c)
{
    struct tr_desk *d = c->desk;

    if (may_fold(c) && d->fold_us <= c->now.boot_us) {
        d->fold.done = folded;
        d->fold.ask = (struct tr_sql_ask){.kind = TR_SQL_FOLD,
                                          .until_us = tr_cluster_server_now(c) - FOLD_AGE_US};
        tr_desk_send(c, &d->fold);
    }
}

uint64_t tr_fold_next(const struct tr_cluster *c)
{
    return may_fold(c) ? c->desk->fold_us : TR_CL_NEVER;
}
