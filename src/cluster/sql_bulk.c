/*
 * Changes of all rows that match a filter; see bulk.c, whose walk this is.
 *
 *     mark ──► which numbers of a slot were given (an empty block), and what time it is
 *     walk ──► a page of rows of a state, in the order of their times ──► those that match are
 *              changed by one transaction, which looks at each once more (truth.c) ──► images
 *
 * It is about jobs that there were when it began: nodes have numbers in store for a second, so a
 * new job may have a small one; it was made later than the mark, then.
 *
 * A shift moves rows ahead of the walk, so those that were changed are noted, as in bulk.c. A node
 * that does not know them goes on from a cursor all the same: it passes over whatever was changed
 * since the bulk began.
 */

#include "base/err.h"
#include "cluster/bulk.h"
#include "cluster/desk.h"
#include "cluster/mutant.h"

#include <string.h>

/* ---- which rows ---- */

static uint8_t state_of(char set)
{
    return set == 'd' ? TR_SQL_DEAD : set == 'p' ? TR_SQL_RESERVED : TR_SQL_WAITING;
}

static bool build_sift(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = tr_desk_first(lane);
    const struct tr_cbulk *b = item->bulk;
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    (void)c;
    ask->kind = TR_SQL_PAGE;
    ask->slot = item->slot;
    ask->topic = item->topic->row;
    ask->state = state_of(b->next.set);
    ask->from_us = b->next_row.us;
    ask->from_id = b->next_row.id;
    ask->until_us = INT64_MAX;
    ask->number = TR_BULK_CHANGES;
    if (item->req != NULL && ask->state == TR_SQL_WAITING) {
        const struct tr_filter *f = &item->req->filter;

        if (f->due_from_us > ask->from_us) {
            ask->from_us = f->due_from_us;
            ask->from_id = 0;
        }
        ask->until_us = f->due_to_us != 0 ? f->due_to_us : ask->until_us;
    }
    return true;
}

static bool matches(const struct tr_filter *f, const struct tr_header *h, uint64_t now_us)
{
    return (f->states == 0 || (f->states & (1U << tr_header_state(h, now_us))) != 0) &&
           h->due_us >= f->due_from_us && (f->due_to_us == 0 || h->due_us < f->due_to_us) &&
           (f->tag_len == 0 ||
            (f->tag_len == h->tag_len && memcmp(f->tag, h->tag, h->tag_len) == 0));
}

static int sift_row(struct tr_item *item, const struct tr_sql_job *row, uint64_t now_us)
{
    struct tr_sql_item found = {.found = true, .row = *row, .gen = row->gen};
    const struct tr_cbulk *b = item->bulk;
    struct tr_listed_job job = {.id = row->id};
    struct tr_sql_job is;

    if (!tr_truth_look(&found, now_us, &is) ||
        (row->created_us > b->made_us && !TR_CL_MUTANT(BULK_ANY_ID)) ||
        (b->since_us != 0 && row->changed_us >= b->since_us)) {
        return TARRY_OK;
    }
    tr_truth_header(&is, (struct tr_span){item->topic->name, item->topic->name_len}, now_us,
                    &job.header);
    return matches(&item->req->filter, &job.header, now_us) ? tr_bulk_sift(item, &job, now_us)
                                                            : TARRY_OK;
}

static void ended_sift(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_desk_first(lane);
    struct tr_cbulk *b = item->bulk;
    int err = tr_desk_status(ask, ask->end);

    b->count = 0;
    err = err == TARRY_EUNSURE ? TARRY_EAWAY : err;
    err = err == TARRY_OK ? tr_map_reserve(&b->met, ask->count) : err;
    for (unsigned i = 0; err == TARRY_OK && item->req != NULL && i < ask->count; i++) {
        err = sift_row(item, &ask->rows[i], ask->now_us);
    }
    if (err == TARRY_OK && ask->count < TR_BULK_CHANGES) {
        b->next.set = '\0';
    } else if (err == TARRY_OK) {
        b->next_row =
            (struct tr_bulk_row){ask->rows[ask->count - 1].next_us, ask->rows[ask->count - 1].id};
    }
    item = tr_tour_come(c, lane, err);
    if (item != NULL) {
        tr_bulk_sifted(c, item);
    }
}

const struct tr_desk_way tr_desk_sift = {.most = 1, .build = build_sift, .ended = ended_sift};

/* ---- and the change ---- */

static enum tr_truth_what what_of(const struct tr_req *r)
{
    switch (r->bulk) {
    case TR_BULK_SHIFT:
        return TR_TRUTH_SHIFT;
    case TR_BULK_KICK:
        return TR_TRUTH_KICK;
    default:
        return TR_TRUTH_CANCEL;
    }
}

static struct tr_ticket *ticket_of(struct tr_cluster *c, const struct tr_item *item)
{
    const struct tr_req *r = item->req;
    const struct tr_cbulk *b = item->bulk;
    struct tr_ticket *k = tr_ticket_new(c, item->topic, 2 * TR_TICKET_TEXTS);

    if (k != NULL) {
        tr_ticket_say(c, k, item);
        k->truth.what = what_of(r);
        k->truth.many = true;
        k->truth.filter = r->filter;
        k->truth.filter.tag = tr_ticket_keep(k, r->filter.tag, r->filter.tag_len).at;
        k->truth.made_us = TR_CL_MUTANT(BULK_ANY_ID) ? UINT64_MAX : b->made_us;
        k->truth.since_us = b->since_us;
        k->truth.shift_us = r->shift_us;
        k->truth.at_us = r->at_us;
    }
    return k;
}

static bool build_bulk(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = tr_desk_first(lane);
    const struct tr_cbulk *b = item->bulk;
    struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_sql_item *items;

    if (b->marking || item->req == NULL) {
        ask->kind = TR_SQL_BLOCK;
        ask->slot = item->slot;
        ask->number = 0;
        return true;
    }
    items = tr_desk_items(c, lane, b->count);
    for (unsigned i = 0; items != NULL && i < b->count; i++) {
        struct tr_ticket *k = ticket_of(c, item);

        if (k == NULL) {
            return false;
        }
        items[i] = (struct tr_sql_item){.by = TR_SQL_BY_ID,
                                        .id = b->ids[i],
                                        .topic = item->topic->row,
                                        .knows = item->topic->version,
                                        .ctx = &k->truth};
    }
    ask->kind = TR_SQL_CHANGE;
    ask->decide = tr_truth_decide;
    return items != NULL;
}

static void go_on(struct tr_cluster *c, struct tr_item *item)
{
    item->flying = false;
    if (item->status == TARRY_OK && item->topic->row == 0) { /* another server: it may know less */
        item->status = TARRY_EAWAY;
    }
    if (item->req == NULL || item->status != TARRY_OK) {
        tr_item_finish(c, item, item->status);
    } else {
        tr_bulk_changed(c, item);
    }
}

/* What it did is in the index, or will be. */
static void tell(struct tr_cluster *c, struct tr_ticket *k)
{
    go_on(c, k->asker);
}

static char letter_of(const struct tr_sql_item *row)
{
    const struct tr_truth *t = row->ctx;

    if (row->end != TR_SQL_DONE) {
        return 'N';
    }
    switch (t->said) {
    case TR_TRUTH_DONE:
        return 'O';
    case TR_TRUTH_STATE:
        return 'P';
    default:
        return 'N';
    }
}

/* Each that was written goes into the index; the last of them tells. */
static struct tr_ticket *send_images(struct tr_cluster *c, struct tr_sql_ask *ask)
{
    struct tr_ticket *last = NULL;

    for (unsigned i = 0; i < ask->count; i++) {
        struct tr_sql_item *row = &ask->items[i];
        struct tr_truth *t = row->ctx;

        if (row->end != TR_SQL_DONE || row->write == TR_SQL_LEAVE) {
            continue;
        }
        if (last != NULL) {
            tr_image_go(c, last, &last->truth.is, ask->now_us);
        }
        last = TR_CONTAINER_OF(t, struct tr_ticket, truth);
        last->gone = row->write == TR_SQL_DELETE;
        row->ctx = NULL;
    }
    return last;
}

static int sum_up(struct tr_cluster *c, struct tr_item *item, const struct tr_sql_ask *ask)
{
    char said[TR_BULK_CHANGES];
    int err = TARRY_OK;
    int counted;

    for (unsigned i = 0; i < ask->count; i++) {
        said[i] = letter_of(&ask->items[i]);
        if (ask->items[i].end != TR_SQL_DONE && err != TARRY_EUNSURE) {
            err = tr_desk_failed(c, &ask->items[i]);
        }
    }
    counted = item->req != NULL
                  ? tr_bulk_count_up(c, item, (struct tr_span){said, item->bulk->count})
                  : TARRY_OK;
    return err != TARRY_OK ? err : counted;
}

static void ended_bulk(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_desk_first(lane);
    struct tr_cbulk *b = item->bulk;
    struct tr_ticket *last;

    if (ask->kind == TR_SQL_BLOCK) {
        int err = tr_desk_status(ask, ask->end);

        b->last[item->slot] = ask->first * TR_SLOTS_MAX - 1;
        b->made_us = b->made_us != 0 ? b->made_us : ask->now_us;
        item = tr_tour_come(c, lane, err == TARRY_EUNSURE ? TARRY_EAWAY : err);
        if (item != NULL) {
            tr_bulk_changed(c, item);
        }
        return;
    }
    item = tr_lane_next(lane);
    item->status = sum_up(c, item, ask);
    tr_count_changed(c, item->topic, item->slot);
    last = send_images(c, ask);
    if (last != NULL) {
        last->asker = item;
        last->tell = tell;
        tr_image_go(c, last, &last->truth.is, ask->now_us);
    } else {
        go_on(c, item);
    }
}

const struct tr_desk_way tr_desk_bulk = {.most = 1, .build = build_bulk, .ended = ended_bulk};
