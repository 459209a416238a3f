/*
 * Schedules at work where a database has the truth: when which slot is to be looked at.
 *
 *     once a minute, and when slots change owners: when the first schedule of each slot is due
 *     then, and when somebody says that one has changed: the first of the slot is read
 *         due ──► recur.c; then the next one of that slot
 *         not yet ──► the slot is looked at then
 *
 * A tick that two nodes make at once is made by one of them: sql_plan.c. What is asked for too
 * often costs a question; what was missed is found within the minute.
 */

#include "base/err.h"
#include "cluster/desk.h"
#include "cluster/plan.h"

#define EVERY_US UINT64_C(60000000)
#define AGAIN_US UINT64_C(1000000)

static size_t size_of(const struct tr_cluster *c)
{
    return sizeof(struct tr_recurs) + c->layout.slots * sizeof(struct tr_recur_slot);
}

static tr_item_fn over;

int tr_recurs_init(struct tr_cluster *c)
{
    struct tr_recurs *r;

    if (c->desk == NULL) {
        return TARRY_OK;
    }
    r = tr_mem_alloc(c->mem, size_of(c));
    if (r == NULL) {
        return TARRY_ENOMEM;
    }
    for (unsigned s = 0; s < c->layout.slots; s++) {
        r->slots[s].keeper = (struct tr_item){.inner = true, .end = over, .slot = s};
        r->slots[s].at_us = TR_CL_NEVER;
        tr_list_init(&r->slots[s].keeper.link);
    }
    c->desk->recurs = r;
    return TARRY_OK;
}

void tr_recurs_free(struct tr_cluster *c)
{
    struct tr_recurs *r = c->desk->recurs;

    for (unsigned s = 0; r != NULL && s < c->layout.slots; s++) {
        tr_list_remove(&r->slots[s].keeper.link);
        tr_plan_free(c, &r->slots[s].keeper);
    }
    tr_mem_free(c->mem, r, r != NULL ? size_of(c) : 0);
    c->desk->recurs = NULL;
}

static void look_at(struct tr_recurs *r, struct tr_recur_slot *slot, uint64_t at_us)
{
    slot->at_us = at_us < slot->at_us ? at_us : slot->at_us;
    r->next_us = at_us < r->next_us ? at_us : r->next_us;
}

void tr_recurs_look(struct tr_cluster *c, unsigned s)
{
    if (c->desk != NULL) {
        struct tr_recur_slot *slot = &c->desk->recurs->slots[s];

        slot->nudged = slot->busy; /* what it reads may be older */
        look_at(c->desk->recurs, slot, c->now.boot_us);
    }
}

void tr_recurs_look_all(struct tr_cluster *c)
{
    if (c->desk != NULL) {
        c->desk->recurs->ask_us = 0;
    }
}

/* ---- one slot ---- */

static struct tr_recur_slot *slot_of(struct tr_item *keeper)
{
    return TR_CONTAINER_OF(keeper, struct tr_recur_slot, keeper);
}

static void over(struct tr_cluster *c, struct tr_item *keeper)
{
    struct tr_recur_slot *slot = slot_of(keeper);

    slot->busy = false;
    keeper->slot = (unsigned)(slot - c->desk->recurs->slots);
    if (keeper->topic != NULL) {
        tr_ctopic_unpin(c, keeper->topic);
        keeper->topic = NULL;
    }
    tr_plan_free(c, keeper);
    if (keeper->status != TARRY_OK) {
        slot->at_us = c->now.boot_us + AGAIN_US;
    }
    if (slot->nudged) {
        slot->nudged = false;
        slot->at_us = c->now.boot_us;
    }
    look_at(c->desk->recurs, slot, slot->at_us);
}

/* May it go on with this slot? */
static bool may(struct tr_cluster *c, unsigned s)
{
    return tr_coord_may(c) && c->slots[s].owned;
}

static void first_read(struct tr_cluster *c, struct tr_item *keeper)
{
    struct tr_recur_slot *slot = slot_of(keeper);
    const struct tr_plan *p = keeper->plan;
    uint64_t now_us = tr_cluster_server_now(c);

    if (p->number == 0) {
        slot->at_us = TR_CL_NEVER;
    } else if (c->draining) {
        slot->at_us = c->now.boot_us + AGAIN_US;
    } else if (p->row.next_us > now_us) {
        slot->at_us = tr_cluster_boot_of(c, p->row.next_us, now_us);
    } else if (may(c, keeper->slot)) {
        slot->at_us = c->now.boot_us; /* there may be another one behind it */
        tr_recur_read(c, keeper);
        return;
    }
    tr_item_finish(c, keeper, TARRY_OK);
}

static void start(struct tr_cluster *c, struct tr_recur_slot *slot)
{
    if (!tr_plan_new(c, &slot->keeper, "", 0)) {
        slot->at_us = c->now.boot_us + AGAIN_US;
        return;
    }
    slot->busy = true;
    slot->at_us = TR_CL_NEVER;
    slot->keeper.tries = 0;
    slot->keeper.plan->by = TR_SQL_PLANS_FIRST;
    tr_plan_read(c, &slot->keeper, first_read);
}

/* ---- all of them ---- */

static void times_came(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_recurs *r = c->desk->recurs;
    const struct tr_sql_ask *ask = &call->ask;
    uint64_t now_us = tr_cluster_server_now(c);

    if (ask->end != TR_SQL_DONE) {
        uint64_t again_us = c->now.boot_us + (ask->blame == TR_SQL_OTHER ? EVERY_US : AGAIN_US);

        r->ask_us = r->ask_us == 0 ? 0 : again_us;
        return;
    }
    for (unsigned i = 0; ask->plans != NULL && i < ask->count; i++) {
        unsigned s = ask->plans[i].slot;

        if (s < c->layout.slots) {
            look_at(r, &r->slots[s], tr_cluster_boot_of(c, ask->plans[i].next_us, now_us));
        }
    }
}

static void ask_times(struct tr_cluster *c)
{
    struct tr_recurs *r = c->desk->recurs;

    r->ask_us = c->now.boot_us + EVERY_US;
    r->shares = c->shares;
    r->call.done = times_came;
    r->call.ask = (struct tr_sql_ask){.kind = TR_SQL_PLANS, .state = TR_SQL_PLANS_TIMES};
    tr_desk_send(c, &r->call);
}

static bool works(const struct tr_cluster *c)
{
    return c->desk != NULL && c->desk->recurs != NULL && c->owns && !c->leaving && !tr_desk_down(c);
}

void tr_recurs_turn(struct tr_cluster *c)
{
    struct tr_recurs *r;

    if (!works(c)) {
        return;
    }
    r = c->desk->recurs;
    if (r->shares != c->shares) {
        r->ask_us = 0;
    }
    if (r->ask_us <= c->now.boot_us && !r->call.busy) {
        ask_times(c);
    }
    if (r->next_us > c->now.boot_us) {
        return;
    }
    r->next_us = TR_CL_NEVER;
    for (unsigned s = 0; s < c->layout.slots; s++) {
        struct tr_recur_slot *slot = &r->slots[s];

        if (slot->busy || !c->slots[s].owned) {
            continue;
        }
        if (slot->at_us <= c->now.boot_us) {
            start(c, slot);
        }
        r->next_us = !slot->busy && slot->at_us < r->next_us ? slot->at_us : r->next_us;
    }
}

uint64_t tr_recurs_next(const struct tr_cluster *c)
{
    const struct tr_recurs *r;

    if (!works(c)) {
        return TR_CL_NEVER; /* when it may again there is a turn */
    }
    r = c->desk->recurs;
    return r->call.busy || r->next_us < r->ask_us ? r->next_us : r->ask_us;
}
