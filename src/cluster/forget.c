/*
 * Topics that nobody needs any more: without jobs, settings and waiters for a while. What a slot
 * keeps of one (`c`) goes, and its entry in the list of all.
 *
 *     tend says so ──► the list: a mark with this node's name ──► the slot: `c` goes, if there is
 *     still nothing ──► the list: the entry goes, if the mark is still there
 *
 * A push that finds no `c` says so, and its node enters the topic in the list, which takes the mark
 * away. So one that comes in between is listed whatever the order is in which all this happens:
 * either the slot is not empty, or it is entered after the mark was made. If something fails it is
 * left: a mark does no harm, and housekeeping comes again.
 *
 * One at a time: there is no hurry.
 */

#include "base/err.h"
#include "cluster/inner.h"

enum { MARK, SLOT, REMOVE };

static void stop(struct tr_cluster *c, struct tr_forget *f)
{
    f->busy = false;
    tr_ctopic_unpin(c, f->item.topic);
    f->item.topic = NULL;
}

static void to_list(struct tr_cluster *c, struct tr_forget *f, char kind)
{
    f->item.kind = kind;
    tr_lane_put(c, TR_CL_NOTE, &f->item);
}

static void ended(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_forget *f = TR_CONTAINER_OF(item, struct tr_forget, item);

    if (item->status == TARRY_OK && f->step == MARK) {
        f->step = SLOT;
        tr_lane_put(c, TR_CL_FORGET, item);
        return;
    }
    if (item->status == TARRY_OK && f->step == REMOVE) {
        item->topic->known = false;
        c->stat.forgotten++;
    }
    stop(c, f);
}

void tr_forget_init(struct tr_cluster *c)
{
    c->forget.item = (struct tr_item){.inner = true, .end = ended};
    tr_list_init(&c->forget.item.link);
}

void tr_forget_topic(struct tr_cluster *c, struct tr_ctopic *t, unsigned slot)
{
    struct tr_forget *f = &c->forget;

    if (f->busy || c->leaving) {
        return;
    }
    f->busy = true;
    f->step = MARK;
    tr_item_pin(&f->item, t);
    f->item.slot = slot;
    to_list(c, f, 'f');
}

static void build(struct tr_cluster *c, struct tr_clane *lane)
{
    (void)c;
    (void)lane; /* it has no arguments of its own */
}

static void answered(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_item *item = tr_lane_next(lane);
    struct tr_forget *f = TR_CONTAINER_OF(item, struct tr_forget, item);

    item->flying = false;
    tr_count_changed(c, item->topic, lane->slot);
    if (a->count == 1 && a->items[0].len == 1 && a->items[0].at[0] == '1') {
        f->step = REMOVE;
        to_list(c, f, 'x');
    } else {
        stop(c, f);
    }
}

const struct tr_cl_way tr_forget_way = {
    .script = TR_SCRIPT_FORGET, .most = 1, .jobs = true, .build = build, .answered = answered};
