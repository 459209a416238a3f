/*
 * Which topics deliver, as their rows say: deliver.c where a database has the truth.
 */

#include "base/err.h"
#include "cluster/desk.h"

enum { PAGE = 500 };

static bool build(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    (void)c;
    ask->kind = TR_SQL_OUTLETS;
    ask->topic = (uint32_t)tr_desk_first(lane)->number;
    ask->number = PAGE;
    return true;
}

static void ended(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    int status = ask->end == TR_SQL_DONE ? TARRY_OK : TARRY_EAWAY;
    unsigned count = status == TARRY_OK && ask->topics != NULL ? ask->count : 0;

    if (status == TARRY_OK && item->number == 0) {
        tr_delivers_begin(c);
    }
    for (unsigned i = 0; i < count; i++) {
        item->number = ask->topics[i].id;
        status = tr_delivers_name(c, ask->topics[i].name) ? status : TARRY_ENOMEM;
    }
    if (status == TARRY_OK && count == PAGE) { /* there may be more */
        item->flying = false;
        tr_lane_put(c, TR_CL_OUTLETS, item);
        return;
    }
    item->number = 0;
    if (status == TARRY_OK) {
        tr_delivers_end(c);
    }
    tr_item_finish(c, item, status);
}

const struct tr_desk_way tr_desk_outlets = {.most = 1, .build = build, .ended = ended};
