/*
 * All jobs of a topic go, by one step: its gen is one more.
 *
 *     gen + 1 ──► answered                       nobody sees, counts or hands out older ones
 *        └──► owner of the first slot: topics with older counts ──► their rows, a page at a time,
 *             are deleted ──► their counts go
 *
 * *Invariant*: a job of an older gen than its topic's is not there, whatever its row says. A change
 * of a job and the step are one behind the other (port/sql.h, CHANGE): what was pushed before is
 * gone, what is pushed behind it is there, and nothing is in between. *It follows*: once the step
 * was done, no row of an older gen is made any more, so what was deleted stays so, and deleting may
 * be done at any time, by anybody, twice.
 *
 * Entries in Redis go with their rows; one that is claimed before that finds no row, and is
 * dropped.
 */

#include "base/err.h"
#include "cluster/load.h"

#include <string.h>

#define LOOK_US UINT64_C(60000000)
#define AGAIN_US UINT64_C(1000000)

enum { ROWS = 128, TOPICS = 16 };

/* What is left of purged topics; on the node that owns the first slot. */
struct tr_dregs {
    struct tr_item item; /* its topic: the one that is being cleared */
    struct tr_desk_call call;
    bool busy;
    uint64_t next_us; /* boot time of the next look */
    struct {
        uint32_t row, gen;
        size_t len;
        char name[TR_TOPIC_NAME_MAX + 1];
    } topics[TOPICS];
    unsigned count, at;
    unsigned spot; /* which slot of the topic */
    struct tr_sql_item items[ROWS];
    struct tr_truth truths[ROWS];
};

/* ---- the step ---- */

static bool build(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    (void)c;
    ask->kind = TR_SQL_PURGE;
    ask->topic = tr_desk_first(lane)->topic->row;
    return true;
}

static void ended(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);
    int status = tr_desk_status(ask, ask->end);

    item->flying = false;
    for (unsigned i = 0; i < item->topic->spread; i++) {
        tr_count_changed(c, item->topic, item->topic->spots[i].slot);
        tr_home_tell(c, item->topic->spots[i].slot, TR_HOME_AGENDA); /* of schedules */
    }
    if (status == TARRY_OK) {
        tr_gauge_count(c, item->topic, TR_METERED_CANCELLED, ask->number);
        item->number = ask->number;
        tr_dregs_soon(c);
    }
    if (status != TARRY_OK || item->req == NULL) {
        tr_item_finish(c, item, status);
    } else {
        tr_purge_done(c, item);
    }
}

const struct tr_desk_way tr_desk_purge = {.most = 1, .build = build, .ended = ended};

/* ---- what is left ---- */

static struct tr_dregs *dregs_of(struct tr_item *item)
{
    return TR_CONTAINER_OF(item, struct tr_dregs, item);
}

static void rest(struct tr_cluster *c, struct tr_dregs *d, uint64_t in_us)
{
    d->busy = false;
    d->next_us = c->now.boot_us + in_us;
    if (d->item.topic != NULL) {
        tr_ctopic_unpin(c, d->item.topic);
        d->item.topic = NULL;
    }
}

static void failed(struct tr_cluster *c, struct tr_item *item)
{
    rest(c, dregs_of(item), AGAIN_US);
}

static void ask_page(struct tr_cluster *c, struct tr_dregs *d);
static void next_topic(struct tr_cluster *c, struct tr_dregs *d);

/* Counts of a gen that has no rows any more, and will have none, are of no use. */
static void cleared(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_dregs *d = TR_CONTAINER_OF(call, struct tr_dregs, call);

    if (call->ask.end != TR_SQL_DONE) {
        rest(c, d, AGAIN_US);
        return;
    }
    d->at++;
    next_topic(c, d);
}

static void clear(struct tr_cluster *c, struct tr_dregs *d)
{
    d->call.done = cleared;
    d->call.ask = (struct tr_sql_ask){
        .kind = TR_SQL_CLEAR, .topic = d->topics[d->at].row, .version = d->topics[d->at].gen};
    tr_desk_send(c, &d->call);
}

static void deleted(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_dregs *d = TR_CONTAINER_OF(call, struct tr_dregs, call);
    bool good = true;

    for (unsigned i = 0; i < call->ask.count; i++) {
        good = good && d->items[i].end == TR_SQL_DONE;
        if (d->items[i].end == TR_SQL_DONE && d->items[i].write == TR_SQL_DELETE &&
            !tr_image_gone(c, d->item.topic, d->items[i].id, TR_INDEX_ANY)) {
            c->desk->dropped++;
        }
    }
    if (good) {
        ask_page(c, d);
    } else {
        rest(c, d, AGAIN_US);
    }
}

/* Rows of a page go by one transaction, which looks at each. */
static void paged(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_dregs *d = TR_CONTAINER_OF(call, struct tr_dregs, call);
    unsigned count = call->ask.end == TR_SQL_DONE ? call->ask.count : 0;

    if (call->ask.end != TR_SQL_DONE) {
        rest(c, d, AGAIN_US);
        return;
    }
    if (count == 0) {
        d->spot++;
        ask_page(c, d);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        d->truths[i] =
            (struct tr_truth){.what = TR_TRUTH_SWEEP, .history = d->item.topic->policy.history};
        d->items[i] = (struct tr_sql_item){.by = TR_SQL_BY_ID,
                                           .id = call->ask.rows[i].id,
                                           .topic = d->topics[d->at].row,
                                           .knows = d->item.topic->version,
                                           .ctx = &d->truths[i]};
    }
    d->call.done = deleted;
    d->call.ask = (struct tr_sql_ask){.kind = TR_SQL_CHANGE,
                                      .conn = tr_desk_conn(c, d->item.slot),
                                      .items = d->items,
                                      .count = count,
                                      .decide = tr_truth_decide};
    tr_desk_send(c, &d->call);
}

static void ask_page(struct tr_cluster *c, struct tr_dregs *d)
{
    const struct tr_ctopic *t = d->item.topic;

    if (d->spot >= t->spread) {
        clear(c, d);
        return;
    }
    d->item.slot = t->spots[d->spot].slot;
    d->call.done = paged;
    d->call.ask = (struct tr_sql_ask){.kind = TR_SQL_PAGE,
                                      .conn = tr_desk_conn(c, d->item.slot),
                                      .slot = d->item.slot,
                                      .topic = d->topics[d->at].row,
                                      .purged = true,
                                      .number = ROWS};
    tr_desk_send(c, &d->call);
}

static void settings_came(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_dregs *d = dregs_of(item);

    d->spot = 0;
    ask_page(c, d);
}

static void next_topic(struct tr_cluster *c, struct tr_dregs *d)
{
    struct tr_ctopic *t;

    if (d->item.topic != NULL) {
        tr_ctopic_unpin(c, d->item.topic);
        d->item.topic = NULL;
    }
    if (d->at == d->count) {
        rest(c, d, d->count == TOPICS ? 0 : LOOK_US);
        return;
    }
    t = tr_ctopic_get(c, d->topics[d->at].name, d->topics[d->at].len);
    if (t == NULL) {
        rest(c, d, AGAIN_US);
        return;
    }
    tr_item_pin(&d->item, t);
    tr_ctopic_load(c, &d->item, settings_came);
}

static void found(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_dregs *d = TR_CONTAINER_OF(call, struct tr_dregs, call);
    const struct tr_sql_ask *ask = &call->ask;

    if (ask->end != TR_SQL_DONE) {
        rest(c, d, AGAIN_US);
        return;
    }
    d->count = 0;
    d->at = 0;
    for (unsigned i = 0; ask->topics != NULL && i < ask->count && d->count < TOPICS; i++) {
        const struct tr_sql_topic *from = &ask->topics[i];

        if (tr_name_ok(from->name.at, from->name.len)) {
            d->topics[d->count].row = from->id;
            d->topics[d->count].gen = from->gen;
            d->topics[d->count].len = from->name.len;
            memcpy(d->topics[d->count++].name, from->name.at, from->name.len);
        }
    }
    next_topic(c, d);
}

static bool may(const struct tr_cluster *c)
{
    const struct tr_dregs *d = c->desk->dregs;

    return !d->busy && c->stage == TR_ENGINE_OPEN && c->owns && c->slots[0].owned && !c->leaving;
}

void tr_dregs_turn(struct tr_cluster *c)
{
    struct tr_dregs *d = c->desk->dregs;

    if (!may(c) || d->next_us > c->now.boot_us || tr_desk_down(c)) {
        return;
    }
    d->busy = true;
    d->item = (struct tr_item){.inner = true, .end = failed};
    tr_list_init(&d->item.link);
    d->call.done = found;
    d->call.ask = (struct tr_sql_ask){.kind = TR_SQL_OLD, .number = TOPICS};
    tr_desk_send(c, &d->call);
}

uint64_t tr_dregs_next(const struct tr_cluster *c)
{
    const struct tr_dregs *d = c->desk->dregs;

    if (!may(c)) {
        return TR_CL_NEVER;
    }
    return d->next_us > c->desk->down_us ? d->next_us : c->desk->down_us;
}

/* If it is another one's, he looks in a minute. */
void tr_dregs_soon(struct tr_cluster *c)
{
    c->desk->dregs->next_us = c->now.boot_us;
}

int tr_dregs_init(struct tr_cluster *c)
{
    c->desk->dregs = tr_mem_alloc(c->mem, sizeof *c->desk->dregs);
    return c->desk->dregs != NULL ? TARRY_OK : TARRY_ENOMEM;
}

void tr_dregs_free(struct tr_cluster *c)
{
    tr_mem_free(c->mem, c->desk->dregs, sizeof *c->desk->dregs);
    c->desk->dregs = NULL;
}
