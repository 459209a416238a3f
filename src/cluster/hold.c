/*
 * Jobs that connections of this node hold. A connection of the beanstalk port names a job only by
 * its id; the lease that Redis wants is kept here. When the connection goes, its jobs go back (D);
 * a job that came when nobody waited any more goes back as if it had never been handed out (G).
 *
 * A lease that ends by this node's clock has ended by that of Redis, since it is counted from when
 * the answer came: then the connection does not have the job any more.
 *
 * *Invariant.* Who holds a job has a struct tr_holding, which was made before the job was asked
 * for, and the lane of its slot is there: so a job goes back without any memory. If Redis cannot be
 * reached that is tried until the lease ends; then Redis takes it back by itself.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/mutant.h"

#define AGAIN_US UINT64_C(300000)
#define UNSURE_US UINT64_C(3600000000) /* tried so long: when the lease ends is not known */

struct tr_holder *tr_hold_get(struct tr_cluster *c, uint64_t number)
{
    struct tr_holder *h = tr_map_find(&c->holders, number);

    if (h == NULL) {
        h = tr_mem_alloc(c->mem, sizeof *h);
        if (h == NULL) {
            return NULL;
        }
        if (tr_map_put(&c->holders, number, h) != TARRY_OK) {
            tr_mem_free(c->mem, h, sizeof *h);
            return NULL;
        }
        h->number = number;
        tr_list_init(&h->holdings);
        tr_list_init(&h->waits);
    }
    h->users++;
    return h;
}

static void free_if_needless(struct tr_cluster *c, struct tr_holder *h)
{
    if (h->users == 0 && tr_list_empty(&h->holdings)) {
        TR_CHECK(tr_map_take(&c->holders, h->number) == h);
        tr_mem_free(c->mem, h, sizeof *h);
    }
}

void tr_hold_put(struct tr_cluster *c, struct tr_holder *h)
{
    TR_CHECK(h->users > 0);
    h->users--;
    free_if_needless(c, h);
}

static tr_item_fn went_back;

struct tr_holding *tr_hold_new(struct tr_cluster *c)
{
    struct tr_holding *g = tr_mem_alloc(c->mem, sizeof *g);

    if (g != NULL) {
        g->item.inner = true;
        g->item.end = went_back;
        tr_list_init(&g->item.link);
        tr_list_init(&g->of_holder);
        tr_list_append(&c->holdings, &g->all);
    }
    return g;
}

static struct tr_heap_item end_of(struct tr_holding *g)
{
    return (struct tr_heap_item){.second = g->end_us, .what = g};
}

/* Nobody has it any more. */
static void unhold(struct tr_cluster *c, struct tr_holding *g)
{
    struct tr_holder *h = g->holder;

    if (g->place != 0) {
        tr_heap_remove(&c->ends, g);
    }
    if (h != NULL) {
        g->holder = NULL;
        tr_list_remove(&g->of_holder);
        c->held--;
        free_if_needless(c, h);
    }
}

void tr_hold_free(struct tr_cluster *c, struct tr_holding *g)
{
    unhold(c, g);
    c->returning -= g->returning;
    tr_list_remove(&g->item.link);
    tr_list_remove(&g->all);
    if (g->item.topic != NULL) {
        tr_ctopic_unpin(c, g->item.topic);
    }
    tr_mem_free(c->mem, g, sizeof *g);
}

void tr_hold_add(struct tr_cluster *c, struct tr_holder *h, struct tr_holding *g)
{
    struct tr_holding *old = tr_hold_find(c, h->number, g->item.id);

    if (old != NULL) {
        tr_hold_free(c, old); /* that lease was lost, and it came here again */
    }
    g->holder = h;
    tr_list_append(&h->holdings, &g->of_holder);
    c->held++;
    tr_wait_retime(c, h, g->end_us);
    if (tr_heap_push(&c->ends, end_of(g)) != TARRY_OK) {
        return; /* then it is not counted when it ends */
    }
}

struct tr_holding *tr_hold_find(struct tr_cluster *c, uint64_t holder, uint64_t id)
{
    const struct tr_holder *h = holder != 0 ? tr_map_find(&c->holders, holder) : NULL;

    for (struct tr_list *n = h != NULL ? h->holdings.next : NULL; h != NULL && n != &h->holdings;
         n = n->next) {
        struct tr_holding *g = TR_CONTAINER_OF(n, struct tr_holding, of_holder);

        if (g->item.id == id) {
            return g;
        }
    }
    return NULL;
}

void tr_hold_end(struct tr_cluster *c, uint64_t holder, uint64_t id)
{
    struct tr_holding *g = tr_hold_find(c, holder, id);

    if (g != NULL) {
        tr_hold_free(c, g);
    }
}

void tr_hold_touched(struct tr_cluster *c, uint64_t holder, uint64_t id, uint64_t end_us)
{
    struct tr_holding *g = tr_hold_find(c, holder, id);

    if (g != NULL) {
        g->end_us = end_us;
        if (g->place != 0) {
            tr_heap_update(&c->ends, end_of(g));
        }
    }
}

uint64_t tr_hold_first_end(const struct tr_cluster *c, const struct tr_holder *h)
{
    uint64_t first_us = TR_CL_NEVER;

    for (const struct tr_list *n = h->holdings.next; n != &h->holdings; n = n->next) {
        const struct tr_holding *g = TR_CONTAINER_OF(n, struct tr_holding, of_holder);

        if (g->end_us < first_us && g->end_us > c->now.boot_us) {
            first_us = g->end_us;
        }
    }
    return first_us;
}

/* ---- going back ---- */

static void go_back(struct tr_cluster *c, struct tr_holding *g, enum tr_op op)
{
    struct tr_clane *lane;

    unhold(c, g);
    g->returning = true;
    c->returning++;
    g->item.op = op;
    g->item.slot = tr_place_slot_of(g->item.id);
    g->item.since_us = c->now.boot_us;
    lane = tr_lane_of(c, TR_CL_EDIT, g->item.slot);
    TR_CHECK(lane != NULL);
    tr_lane_add(c, lane, &g->item);
}

void tr_hold_return(struct tr_cluster *c, struct tr_holding *g, bool handed)
{
    c->stat.given_back += !handed;
    go_back(c, g, handed ? TR_OP_CLOSE : TR_OP_RETURN);
}

static void went_back(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_holding *g = TR_CONTAINER_OF(item, struct tr_holding, item);
    bool known = item->status == TARRY_OK || item->status == TARRY_ENOTFOUND ||
                 item->status == TARRY_ESTATE || item->status == TARRY_EDAMAGED;

    if (known || g->end_us <= c->now.boot_us) {
        tr_hold_free(c, g);
        return;
    }
    tr_list_append(&c->later, &item->link);
    if (c->later_us == TR_CL_NEVER) {
        c->later_us = c->now.boot_us + AGAIN_US;
    }
}

/* Leases that ran out. */
static void end_leases(struct tr_cluster *c)
{
    const struct tr_heap_item *top;

    while ((top = tr_heap_top(&c->ends)) != NULL && top->second <= c->now.boot_us) {
        c->totals.timeouts += c->desk == NULL; /* else it is the row that says so */
        if (c->desk != NULL) {
            struct tr_holding *g = top->what;

            g->item.kind = TR_DESK_TENDS; /* its row is to say so, once */
            go_back(c, g, TR_OP_RETURN);
        } else {
            tr_hold_free(c, top->what);
        }
    }
}

uint64_t tr_hold_next(const struct tr_cluster *c)
{
    const struct tr_heap_item *top = tr_heap_top(&c->ends);

    return top != NULL && top->second < c->later_us ? top->second : c->later_us;
}

void tr_hold_turn(struct tr_cluster *c)
{
    struct tr_list items;

    end_leases(c);
    if (c->later_us > c->now.boot_us) {
        return;
    }
    c->later_us = TR_CL_NEVER;
    tr_list_init(&items);
    tr_list_splice(&items, &c->later);
    while (!tr_list_empty(&items)) {
        struct tr_item *item = TR_CONTAINER_OF(items.next, struct tr_item, link);

        tr_list_remove(&item->link);
        tr_lane_add(c, tr_lane_of(c, TR_CL_EDIT, item->slot), item);
    }
}

void tr_hold_close(struct tr_cluster *c, struct tr_req *r)
{
    struct tr_holder *h = r->holder != 0 ? tr_map_find(&c->holders, r->holder) : NULL;

    if (r->holder == 0) {
        tr_req_finish(r, TARRY_EINVAL);
        return;
    }
    if (h != NULL) {
        h->users++; /* it stays until the last one */
        while (!tr_list_empty(&h->holdings) && TR_CL_MUTANT(CLOSE_KEEPS)) {
            tr_hold_free(c, TR_CONTAINER_OF(h->holdings.next, struct tr_holding, of_holder));
        }
        while (!tr_list_empty(&h->holdings)) {
            tr_hold_return(c, TR_CONTAINER_OF(h->holdings.next, struct tr_holding, of_holder),
                           true);
            r->out.number++;
        }
        tr_hold_put(c, h);
    }
    tr_req_finish(r, TARRY_OK);
}

void tr_holds_free(struct tr_cluster *c)
{
    while (!tr_list_empty(&c->holdings)) {
        tr_hold_free(c, TR_CONTAINER_OF(c->holdings.next, struct tr_holding, all));
    }
    tr_map_fini(&c->holders);
    tr_heap_fini(&c->ends);
}

/* ---- one job by its id ---- */

bool tr_hold_room(struct tr_cluster *c, struct tr_item *item)
{
    unsigned slot = tr_place_slot_of(item->id);

    item->holding = tr_hold_new(c);
    if (item->holding == NULL ||
        (slot < c->layout.slots && tr_lane_of(c, TR_CL_EDIT, slot) == NULL)) {
        return false;
    }
    item->holder = item->req->holder != 0 ? tr_hold_get(c, item->req->holder) : NULL;
    return item->req->holder == 0 || item->holder != NULL;
}

/* The job is out, or may be: unless somebody is told of it, it goes back. */
static void fill(struct tr_item *item, uint64_t end_us)
{
    struct tr_holding *g = item->holding;

    tr_item_pin(&g->item, item->topic);
    g->item.id = item->id;
    g->item.lease = item->lease;
    g->end_us = end_us;
}

void tr_hold_reserved(struct tr_cluster *c, struct tr_item *item, const struct tr_header *h,
                      uint64_t now_us)
{
    fill(item, tr_cluster_boot_of(c, h->at_us, now_us));
    if (item->req == NULL) {
        tr_item_finish(c, item, TARRY_OK);
        return;
    }
    item->flying = false;
    tr_look_at(c, item); /* for its body */
}

void tr_hold_settle(struct tr_cluster *c, struct tr_item *item, int status)
{
    struct tr_holding *g = item->holding;

    if (g != NULL && g->item.topic == NULL && status == TARRY_EUNSURE && item->topic != NULL) {
        fill(item, c->now.boot_us + UNSURE_US);
    }
    if (g != NULL && g->item.topic != NULL && status == TARRY_OK && item->req != NULL) {
        item->holding = NULL;
        if (item->holder != NULL) {
            tr_hold_add(c, item->holder, g);
        } else {
            tr_hold_free(c, g);
        }
    }
}

void tr_hold_let_go(struct tr_cluster *c, struct tr_item *item)
{
    if (item->holding != NULL && item->holding->item.topic != NULL &&
        !TR_CL_MUTANT(RESERVED_KEPT)) {
        tr_hold_return(c, item->holding, false);
    } else if (item->holding != NULL) {
        tr_hold_free(c, item->holding);
    }
    item->holding = NULL;
    if (item->holder != NULL) {
        tr_hold_put(c, item->holder);
        item->holder = NULL;
    }
}
