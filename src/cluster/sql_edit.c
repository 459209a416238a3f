/*
 * What is asked of one job, as a change of its row; and of so many of a topic: pages of rows, and
 * then a change of each (a crowd).
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/mutant.h"

enum { PAGE = 500 };

/* ---- one job ---- */

static bool clash(const struct tr_item *a, const struct tr_item *b)
{
    return a->id == b->id;
}

static enum tr_truth_what what_of(const struct tr_item *item)
{
    const struct tr_req *r = item->req;

    if (item->kind == TR_DESK_TENDS || item->kind == TR_DESK_DROPS) {
        return item->kind == TR_DESK_TENDS ? TR_TRUTH_TEND : TR_TRUTH_DROP;
    }
    switch (item->op) {
    case TR_OP_RESERVE_JOB:
        return TR_TRUTH_RESERVE;
    case TR_OP_DELETE:
        return item->lease != 0 ? TR_TRUTH_ACK : TR_TRUTH_CANCEL;
    case TR_OP_RELEASE:
        return TR_TRUTH_RELEASE;
    case TR_OP_RETURN:
        return TR_TRUTH_RETURN;
    case TR_OP_CLOSE:
        return TR_TRUTH_LEAVE;
    case TR_OP_BURY:
        return r != NULL && r->force && item->lease == 0 ? TR_TRUTH_BURY_FREE : TR_TRUTH_BURY;
    case TR_OP_TOUCH:
        return TR_TRUTH_TOUCH;
    case TR_OP_FIRE:
        return TR_TRUTH_FIRE;
    case TR_OP_KICK_JOB:
        return TR_TRUTH_KICK;
    default:
        return TR_TRUTH_EDIT;
    }
}

static void fill_asked(struct tr_cluster *c, struct tr_ticket *k, const struct tr_item *item)
{
    const struct tr_req *r = item->req;
    struct tr_truth *t = &k->truth;

    t->held = r->holder != 0;
    t->ttr_us = r->op == TR_OP_RESERVE_JOB || r->op == TR_OP_TOUCH ? r->ttr_us : 0;
    t->least_us = r->op == TR_OP_TOUCH ? r->lease_us : 0;
    t->delay_us = r->delay_us;
    t->at_us = r->at_us;
    t->age_us = c->now.boot_us - item->since_us;
    t->by_backoff = r->by_backoff;
    t->keep_priority = r->keep_priority;
    t->force = r->force;
    t->beanstalk = r->beanstalk;
    t->edit = r->edit;
    t->job.priority = r->priority;
    if (item->op == TR_OP_EDIT) {
        t->job.ttr_us = r->ttr_us;
        t->job.ttl_us = r->ttl_us;
        t->job.tag = tr_ticket_keep(k, r->tag, r->tag_len);
        t->job.body = tr_ticket_keep(k, r->body, r->body_len);
    }
}

static bool build(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_sql_item *items = tr_desk_items(c, lane, lane->count);
    unsigned i = 0;

    for (const struct tr_list *n = lane->flying.next; items != NULL && n != &lane->flying;
         n = n->next) {
        struct tr_item *item = TR_CONTAINER_OF(n, struct tr_item, link);
        size_t body = item->req != NULL && item->op == TR_OP_EDIT ? item->req->body_len : 0;
        struct tr_ticket *k = tr_ticket_new(c, item->topic, 2 * TR_TICKET_TEXTS + body);

        if (k == NULL) {
            return false;
        }
        tr_ticket_say(c, k, item);
        k->truth.what = what_of(item);
        k->truth.lease = item->lease;
        k->truth.force = item->kind == TR_DESK_FORCES; /* one of a crowd */
        k->truth.beanstalk = item->kind == TR_DESK_KICKS;
        k->truth.at_us = item->kind == TR_DESK_DROPS ? item->number : 0;
        if (item->req != NULL) {
            fill_asked(c, k, item);
        }
        items[i++] = (struct tr_sql_item){.by = TR_SQL_BY_ID,
                                          .id = item->id,
                                          .topic = item->topic->row,
                                          .knows = item->topic->version,
                                          .ctx = &k->truth};
        if (TR_CL_MUTANT(INDEX_EARLY) && item->op == TR_OP_DELETE) {
            (void)!tr_image_gone(c, item->topic, item->id, TR_INDEX_ANY);
        }
    }
    lane->sql->call.ask.kind = TR_SQL_CHANGE;
    lane->sql->call.ask.decide = tr_truth_decide;
    return items != NULL;
}

static char letter_of(enum tr_truth_said said)
{
    switch (said) {
    case TR_TRUTH_DONE:
        return 'O';
    case TR_TRUTH_DIED:
        return 'D';
    case TR_TRUTH_NONE:
        return 'N';
    case TR_TRUTH_LOST:
        return 'L';
    default:
        return 'S';
    }
}

static void tell(struct tr_cluster *c, struct tr_ticket *k)
{
    struct tr_edited e = {.what = letter_of(k->truth.said)};

    tr_ticket_header(k, &e.header);
    if (k->gone) {
        e.was = e.header.set;
    }
    tr_edit_ended(c, k->asker, &e, k->now_us);
}

/* Parts of others do not wait for the index, but for kicks: who kicks, and then reserves, is to
 * find the jobs there. */
static bool is_told_now(const struct tr_item *item, const struct tr_sql_item *row)
{
    return row->write == TR_SQL_LEAVE || (item->inner && item->op != TR_OP_KICK_JOB);
}

static void ended_one(struct tr_cluster *c, struct tr_item *item, struct tr_sql_item *row,
                      uint64_t now_us)
{
    struct tr_truth *t = row->ctx;
    struct tr_ticket *k = TR_CONTAINER_OF(t, struct tr_ticket, truth);

    k->asker = item;
    k->tell = tell;
    k->gone = row->write == TR_SQL_DELETE;
    k->now_us = now_us;
    tr_gauge_settled(c, item->topic, row);
    if (is_told_now(item, row)) {
        k->row = t->is;
        tell(c, k);
        k->asker = NULL;
    }
    if (row->write != TR_SQL_LEAVE) {
        row->ctx = NULL;
        tr_image_go(c, k, &t->is, now_us);
    } else if (t->said == TR_TRUTH_NONE &&
               !tr_image_gone(c, k->image.topic, row->id, TR_INDEX_ANY)) {
        tr_align_dropped(c, tr_place_slot_of(row->id));
    }
}

static void ended(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item;

    for (unsigned i = 0; (item = tr_lane_next(lane)) != NULL; i++) {
        struct tr_sql_item *row = &ask->items[i];

        if (row->end == TR_SQL_DONE) {
            ended_one(c, item, row, ask->now_us);
        } else {
            tr_desk_refused(c, item, row);
        }
    }
}

const struct tr_desk_way tr_desk_edit = {.build = build, .ended = ended, .clash = clash};

/* ---- crowds ---- */

/* Many jobs to which the same is done for one request. */
struct tr_crowd {
    struct tr_list all;
    struct tr_item *master;
    tr_item_fn *then;
    unsigned count;
    unsigned left;
    unsigned done;
    int status; /* of one that could not be done */
    struct tr_item items[];
};

static size_t crowd_size(unsigned count)
{
    return sizeof(struct tr_crowd) + count * sizeof(struct tr_item);
}

static void crowd_free(struct tr_cluster *c, struct tr_crowd *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        tr_list_remove(&w->items[i].link);
        tr_ctopic_unpin(c, w->items[i].topic);
    }
    tr_list_remove(&w->all);
    tr_mem_free(c->mem, w, crowd_size(w->count));
}

void tr_crowds_free(struct tr_cluster *c)
{
    while (!tr_list_empty(&c->desk->crowds)) {
        struct tr_crowd *w = TR_CONTAINER_OF(c->desk->crowds.next, struct tr_crowd, all);

        if (w->master != NULL) {
            tr_item_free(c, w->master);
        }
        crowd_free(c, w);
    }
}

/* The last of them tells who asked. */
static void crowd_less(struct tr_cluster *c, struct tr_crowd *w)
{
    struct tr_item *master = w->master;
    tr_item_fn *then = w->then;

    if (--w->left > 0) {
        return;
    }
    master->number += w->done;
    master->status = w->status;
    master->tries++;
    master->implied = w->done > 0;
    crowd_free(c, w);
    then(c, master);
}

static void one_ended(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_crowd *w = TR_CONTAINER_OF(item - item->at, struct tr_crowd, items[0]);
    bool lost =
        item->status != TARRY_OK && item->status != TARRY_ENOTFOUND && item->status != TARRY_ESTATE;

    w->done += item->status == TARRY_OK;
    w->status = lost ? item->status : w->status;
    crowd_less(c, w);
}

static char kind_of(enum tr_op op, const struct tr_req *r)
{
    if (op == TR_OP_DELETE) {
        return TR_DESK_FORCES;
    }
    return r != NULL && r->beanstalk ? TR_DESK_KICKS : '\0';
}

static void crowd_go(struct tr_cluster *c, struct tr_item *master, enum tr_op op,
                     const struct tr_sql_ask *page, tr_item_fn *then)
{
    struct tr_crowd *w = tr_mem_alloc(c->mem, crowd_size(page->count));

    if (w == NULL) {
        tr_item_finish(c, master, TARRY_ENOMEM);
        return;
    }
    w->master = master;
    w->then = then;
    w->count = page->count;
    w->left = page->count + 1; /* all are under way before one can be the last */
    tr_list_init(&w->all);
    tr_list_append(&c->desk->crowds, &w->all);
    for (unsigned i = 0; i < w->count; i++) {
        struct tr_item *item = &w->items[i];

        *item = (struct tr_item){.inner = true,
                                 .end = one_ended,
                                 .op = op,
                                 .id = page->rows[i].id,
                                 .slot = tr_place_slot_of(page->rows[i].id),
                                 .since_us = c->now.boot_us,
                                 .at = i,
                                 .kind = kind_of(op, master->req)};
        tr_list_init(&item->link);
        tr_item_pin(item, master->topic);
    }
    for (unsigned i = 0; i < w->count; i++) {
        tr_lane_put(c, TR_CL_EDIT, &w->items[i]);
    }
    crowd_less(c, w);
}

/* ---- so many of a topic ---- */

static void page_of(struct tr_cluster *c, struct tr_clane *lane, unsigned state, uint64_t number)
{
    const struct tr_item *item = tr_desk_first(lane);
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    (void)c;
    ask->kind = TR_SQL_PAGE;
    ask->slot = item->slot;
    ask->topic = item->topic->row;
    ask->state = (uint8_t)state;
    ask->until_us = INT64_MAX;
    ask->number = number < PAGE ? number : PAGE;
}

static bool build_kick(struct tr_cluster *c, struct tr_clane *lane)
{
    const struct tr_item *item = tr_desk_first(lane);
    struct tr_sql_ask *ask = &lane->sql->call.ask;

    page_of(c, lane, item->kind == 's' ? TR_SQL_WAITING : TR_SQL_DEAD,
            item->req->count - item->number);
    if (item->kind == 's') { /* those that are due are ready already */
        ask->from_us = tr_cluster_server_now(c);
        ask->from_id = INT64_MAX;
    }
    return true;
}

static void kick_slot(struct tr_cluster *c, struct tr_item *item)
{
    item->flying = false;
    item->slot = item->topic->spots[item->at].slot;
    tr_lane_put(c, TR_CL_KICK, item);
}

/* On with the same kind, here or in the next slot; delayed ones if there was no dead one. */
static void kick_on(struct tr_cluster *c, struct tr_item *item)
{
    tr_count_changed(c, item->topic, item->slot);
    if (item->req != NULL) {
        item->req->out.number = item->number;
    }
    if (item->number > 0) {
        item->partly = "some jobs were kicked, perhaps not as many as there are: kick once more";
    }
    if (item->req == NULL || item->status != TARRY_OK || item->number >= item->req->count) {
        tr_item_finish(c, item, item->status);
        return;
    }
    if (item->number > 0 && item->topic->row == 0) { /* another server, which may know less */
        tr_item_finish(c, item, TARRY_EAWAY);
        return;
    }
    item->at += !item->implied;
    if (item->at >= item->topic->spread && item->kind != 's' && item->number == 0) {
        item->kind = 's';
        item->at = 0;
    }
    if (item->at >= item->topic->spread) {
        tr_item_finish(c, item, TARRY_OK);
    } else {
        kick_slot(c, item);
    }
}

static void page_ended(struct tr_cluster *c, struct tr_clane *lane, enum tr_op op, tr_item_fn *on)
{
    const struct tr_sql_ask *ask = &lane->sql->call.ask;
    struct tr_item *item = tr_lane_next(lane);

    item->status = tr_desk_status(ask, ask->end);
    item->status = item->status == TARRY_EUNSURE ? TARRY_EAWAY : item->status;
    item->implied = false;
    if (item->status != TARRY_OK || item->req == NULL) {
        tr_item_finish(c, item, item->status);
    } else if (ask->count == 0) {
        on(c, item);
    } else {
        crowd_go(c, item, op, ask, on);
    }
}

static void ended_kick(struct tr_cluster *c, struct tr_clane *lane)
{
    page_ended(c, lane, TR_OP_KICK_JOB, kick_on);
}

const struct tr_desk_way tr_desk_kick = {.most = 1, .build = build_kick, .ended = ended_kick};
