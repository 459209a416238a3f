/*
 * Ids of new jobs where a database has the truth: numbers of a slot, some at a time (blocks.c). A
 * push that finds none waits for the next block; so do those behind it.
 */

#include "base/err.h"
#include "cluster/desk.h"

static void ask(struct tr_cluster *c, unsigned slot);

static bool give(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_desk_slot *s = &c->desk->slots[item->slot];
    uint64_t seq;

    if (!tr_block_take(&s->block, c->now.boot_us, &seq)) {
        return false;
    }
    item->id = tr_place_id(seq, item->slot);
    tr_lane_put(c, item->plan != NULL ? TR_CL_SCHEDULE : TR_CL_PUSH, item);
    return true;
}

/* They have numbers now, or hear why not. */
static void drain(struct tr_cluster *c, struct tr_desk_slot *s, int status)
{
    struct tr_list items;

    tr_list_init(&items);
    tr_list_splice(&items, &s->waiting);
    while (!tr_list_empty(&items)) {
        struct tr_item *item = TR_CONTAINER_OF(items.next, struct tr_item, link);

        tr_list_remove(&item->link);
        if (status != TARRY_OK) {
            tr_item_finish(c, item, status);
        } else if (!give(c, item)) {
            tr_list_append(&s->waiting, &item->link);
        }
    }
}

static void got(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_desk_slot *s = TR_CONTAINER_OF(call, struct tr_desk_slot, call);
    int status = tr_desk_status(&call->ask, call->ask.end);

    if (status == TARRY_EUNSURE) {
        status = TARRY_EAWAY; /* of numbers: nothing was done that anybody could see */
    }
    if (status != TARRY_OK) {
        tr_block_failed(&s->block);
        drain(c, s, status);
        return;
    }
    if (!tr_block_got(&s->block, call->ask.first, s->asked, c->now.boot_us)) {
        tr_cluster_note(c, TR_NOTE_WARNING,
                        "The database gave numbers for ids that it had given before: has it lost "
                        "what it had committed?");
    }
    drain(c, s, TARRY_OK);
    ask(c, call->ask.slot);
}

static void ask(struct tr_cluster *c, unsigned slot)
{
    struct tr_desk_slot *s = &c->desk->slots[slot];
    uint32_t want = tr_block_want(&s->block, c->now.boot_us);

    if (want == 0 || s->call.busy) {
        return;
    }
    if (tr_desk_down(c)) {
        drain(c, s, TARRY_EAWAY);
        return;
    }
    tr_block_asked(&s->block);
    s->asked = want;
    s->call.done = got;
    s->call.ask = (struct tr_sql_ask){
        .kind = TR_SQL_BLOCK, .conn = tr_desk_conn(c, slot), .slot = slot, .number = want};
    tr_desk_send(c, &s->call);
}

void tr_numbers_forget(struct tr_cluster *c)
{
    for (unsigned i = 0; i < c->layout.slots; i++) {
        struct tr_desk_slot *s = &c->desk->slots[i];

        tr_block_drop(&s->block);
        if (s->call.busy) {
            tr_block_asked(&s->block);
        }
        drain(c, s, TARRY_EAWAY);
    }
}

void tr_numbers_give(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_desk_slot *s = &c->desk->slots[item->slot];
    unsigned slot = item->slot;

    if (item->topic->row == 0) { /* the server is another one: is it there? */
        tr_desk_push_ask(c, item);
        return;
    }
    if (!tr_list_empty(&s->waiting) || !give(c, item)) {
        tr_list_remove(&item->link);
        tr_list_append(&s->waiting, &item->link);
    }
    ask(c, slot);
}

void tr_numbers_free(struct tr_cluster *c)
{
    for (unsigned i = 0; i < c->layout.slots; i++) {
        struct tr_list *waiting = &c->desk->slots[i].waiting;

        while (!tr_list_empty(waiting)) {
            struct tr_item *item = TR_CONTAINER_OF(waiting->next, struct tr_item, link);

            tr_list_remove(&item->link);
            if (!item->inner) {
                tr_item_free(c, item);
            }
        }
    }
}
