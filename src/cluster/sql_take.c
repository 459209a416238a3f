/*
 * Hand-outs where a database has the truth. Redis has said which jobs may be to be had (`claim`);
 * each is tried here, and its row decides. Whatever came of it, its entry in the index gets the
 * row's image.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/mutant.h"

static struct tr_claim *claim_of(const struct tr_list *n)
{
    return TR_CONTAINER_OF(TR_CONTAINER_OF(n, struct tr_item, link), struct tr_claim, item);
}

static unsigned weight(const struct tr_item *item)
{
    return TR_CONTAINER_OF(item, const struct tr_claim, item)->count;
}

static size_t bytes(const struct tr_item *item)
{
    return TR_CONTAINER_OF(item, const struct tr_claim, item)->bytes;
}

/* Is anything of it to be handed out? Else nobody wants bodies. */
static bool hands_out(const struct tr_item *item)
{
    return TR_CONTAINER_OF(item, const struct tr_claim, item)->lease != 0;
}

/* One job may be in two claims: if the database is slow, Redis names it again after three seconds.
 * Its row decides between two asks, but not inside of one. */
static bool share(const struct tr_claim *a, const struct tr_claim *b)
{
    for (unsigned i = 0; i < a->count; i++) {
        for (unsigned k = 0; k < b->count; k++) {
            if (a->ids[i] == b->ids[k]) {
                return true;
            }
        }
    }
    return false;
}

static bool clash(const struct tr_item *a, const struct tr_item *b)
{
    return hands_out(a) != hands_out(b) || share(TR_CONTAINER_OF(a, const struct tr_claim, item),
                                                 TR_CONTAINER_OF(b, const struct tr_claim, item));
}

static bool add(struct tr_cluster *c, const struct tr_claim *claim, unsigned i,
                struct tr_sql_item *row)
{
    struct tr_ticket *k = tr_ticket_new(c, claim->item.topic, TR_TICKET_TEXTS);

    if (k == NULL) {
        return false;
    }
    tr_ticket_say(c, k, &claim->item);
    k->truth.what = claim->whats[i] == 'C' ? TR_TRUTH_CLAIM : TR_TRUTH_TEND;
    k->truth.lease = claim->lease;
    k->truth.held = claim->held;
    k->truth.ttr_us = claim->ttr_us;
    k->truth.least_us = claim->least_us;
    k->truth.minds_version = true;
    k->truth.version = claim->version;
    *row = (struct tr_sql_item){.by = TR_SQL_BY_ID,
                                .id = claim->ids[i],
                                .topic = claim->item.topic->row,
                                .knows = claim->item.topic->version,
                                .ctx = &k->truth};
    return true;
}

static bool build(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_sql_item *items;
    unsigned count = 0;

    for (const struct tr_list *n = lane->flying.next; n != &lane->flying; n = n->next) {
        count += claim_of(n)->count;
    }
    items = tr_desk_items(c, lane, count);
    count = 0;
    for (const struct tr_list *n = lane->flying.next; items != NULL && n != &lane->flying;
         n = n->next) {
        const struct tr_claim *claim = claim_of(n);

        for (unsigned i = 0; i < claim->count; i++) {
            if (!add(c, claim, i, &items[count++])) {
                return false;
            }
        }
    }
    lane->sql->call.ask.kind = TR_SQL_CHANGE;
    lane->sql->call.ask.decide = tr_truth_decide;
    lane->sql->call.ask.skips = true; /* one that somebody has is not to be had: others are */
    lane->sql->call.ask.with_bodies = hands_out(tr_desk_first(lane));
    return items != NULL;
}

/* The row as it is, for the index. */
static void show(struct tr_cluster *c, struct tr_sql_item *row, uint64_t now_us)
{
    struct tr_truth *t = row->ctx;
    struct tr_ticket *k = TR_CONTAINER_OF(t, struct tr_ticket, truth);

    row->ctx = NULL;
    k->gone = t->said == TR_TRUTH_NONE;
    if (k->gone) {
        t->is = (struct tr_sql_job){.id = row->id, .ver = TR_INDEX_ANY};
    }
    tr_image_go(c, k, &t->is, now_us);
}

static void ended_one(struct tr_cluster *c, struct tr_claim *claim, struct tr_sql_item *row,
                      uint64_t now_us)
{
    const struct tr_truth *t = row->ctx;
    struct tr_sql_job is = t->is;
    struct tr_taken_job job = {.id = row->id, .body = is.body};
    struct tr_ctopic *topic = claim->item.topic;
    bool won =
        t->what == TR_TRUTH_CLAIM &&
        (t->said == TR_TRUTH_DONE || (TR_CL_MUTANT(CLAIM_BLIND) && t->said == TR_TRUTH_STATE));

    claim->lost += t->what == TR_TRUTH_CLAIM && !won;
    if (row->locked) {
        return; /* as it is when its claim ends */
    }
    tr_gauge_settled(c, topic, row);
    show(c, row, now_us);
    if (won) {
        tr_truth_header(&is, (struct tr_span){topic->name, topic->name_len}, now_us, &job.header);
        tr_take_won(c, claim, &job, now_us);
    }
}

static void ended(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    unsigned at = 0;
    struct tr_item *item;

    while ((item = tr_lane_next(lane)) != NULL) {
        struct tr_claim *claim = TR_CONTAINER_OF(item, struct tr_claim, item);
        int status = TARRY_OK;

        for (unsigned i = 0; i < claim->count; i++) {
            struct tr_sql_item *row = &ask->items[at++];

            if (row->end == TR_SQL_DONE) {
                ended_one(c, claim, row, ask->now_us);
            } else if (row->end == TR_SQL_UNDONE && row->blame == TR_SQL_AGAIN) {
                claim->lost += claim->whats[i] == 'C'; /* somebody has it locked */
            } else {
                status = tr_desk_failed(c, row);
                if (row->end == TR_SQL_UNSURE && claim->whats[i] == 'C') {
                    tr_take_unsure(c, claim, row->id);
                }
            }
        }
        tr_item_finish(c, item, status);
    }
}

const struct tr_desk_way tr_desk_claim = {
    .build = build, .ended = ended, .weight = weight, .bytes = bytes, .clash = clash};
