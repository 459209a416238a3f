/*
 * Rows of a topic that are due before long come into the index of one slot: only its owner does
 * this.
 *
 *     epoch of the database, own ──► raise `loaded` to now + hot_window ──► read rows from where it
 * was, page by page ──► their images (script `index`, image.c)
 *
 * *Invariant*: waiting rows that are due before `loaded` are in Redis, or somebody is about to put
 * them there. A row that is committed after the raise meets the raised mark; one that was committed
 * before is read. So the raise comes first, and whoever has raised reads to the end; if he cannot,
 * the slot is mended as a whole (align.c), from the beginning of time. The same holds for a topic
 * that this node knows by its name only: its number is asked for after the raise.
 *
 * If the set is full `index` lowers `loaded` again, to the due time of the first that has no room:
 * rows come in the order of their due times, so the rest need not be read. An answer may be older
 * than the raise, so the slot is asked once more before that is believed.
 *
 * *Cost*: so many images are on their way at most; a page is read when there is room.
 */

#include "cluster/load.h"

#include "base/err.h"
#include "cluster/mutant.h"

#include <string.h>

enum { PAGE = 256, TRIES_MAX = 6 };

static struct tr_loader *loader_of(struct tr_item *item)
{
    return TR_CONTAINER_OF(item, struct tr_loader, item);
}

static void release(struct tr_cluster *c, struct tr_loader *l)
{
    l->busy = false;
    l->waits = false;
    c->desk->align->again = true;
    tr_home_look_later(c, l->item.slot); /* some of its rows may expire before long */
    if (l->item.topic != NULL) {
        tr_ctopic_unpin(c, l->item.topic);
        l->item.topic = NULL;
    }
}

static void give_up(struct tr_cluster *c, struct tr_loader *l)
{
    tr_align_failed(c, l->item.slot);
    release(c, l);
}

/* ---- own, raise ---- */

static void raise_it(struct tr_cluster *c, struct tr_loader *l)
{
    const struct tr_cl_slot *slot = &c->slots[l->item.slot];

    l->item.flying = false;
    if (!tr_coord_may(c) || !slot->owned) {
        release(c, l); /* whoever has it now mends it as a whole */
    } else if (++l->tries > TRIES_MAX || l->lives != c->desk->lives) {
        give_up(c, l);
    } else {
        tr_lane_put(c, slot->sworn ? TR_CL_RAISE : TR_CL_EPOCH, &l->item);
    }
}

/* The lane of owners has done its part, or one has given up. */
static void ended(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_loader *l = loader_of(item);

    if (item->status != TARRY_OK) {
        give_up(c, l);
    } else {
        raise_it(c, l);
    }
}

static void build_raise(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_loader *l = loader_of(TR_CONTAINER_OF(lane->flying.next, struct tr_item, link));
    uint64_t now_us = tr_cluster_server_now(c);

    tr_eval_raise(&lane->call.eval, now_us, l->cut ? 0 : now_us + c->config.hot_window_us,
                  c->slots[lane->slot].epoch);
}

/* What was made before the raise is there by now. */
static void number_came(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_loader *l = loader_of(item);

    l->row = item->topic->row;
    if (l->row == 0) {
        release(c, l); /* then it has no rows */
    } else {
        tr_loader_go_on(c, l);
    }
}

static void answered_raise(struct tr_cluster *c, struct tr_clane *lane, const struct tr_answer *a)
{
    struct tr_loader *l = loader_of(tr_lane_next(lane));
    struct tr_raised r;

    l->item.flying = false;
    if (tr_answer_raised(a, &r) != TARRY_OK) {
        give_up(c, l);
        return;
    }
    if (!l->raised) {
        l->from_us = l->all || r.was_us == 0 ? 0 : r.was_us - 1;
        l->from_id = l->from_us == 0 ? 0 : UINT64_MAX;
    }
    l->raised = true;
    l->cut = false;
    l->upto_us = r.is_us;
    if (TR_CL_MUTANT(RAISED_UNREAD) && !l->all) {
        release(c, l);
    } else if (l->row == 0 && l->item.topic->row == 0) {
        l->item.since_us = c->now.boot_us;
        tr_ctopic_reload(c, &l->item, number_came);
    } else {
        l->row = l->row != 0 ? l->row : l->item.topic->row;
        tr_loader_go_on(c, l);
    }
}

/* OUSTED, epoch, owner: nobody, if the slot was emptied. */
static void refused_raise(struct tr_cluster *c, struct tr_clane *lane,
                          const struct tr_redis_reply *reply)
{
    struct tr_cl_slot *slot = &c->slots[lane->slot];
    uint64_t epoch = 0;
    struct tr_loader *l;

    if (reply->count != 3 || !tr_span_begins(reply->items[0], "OUSTED")) {
        return;
    }
    l = loader_of(tr_lane_next(lane));
    for (size_t i = 0; i < reply->items[1].len; i++) {
        epoch = epoch * 10 + (uint64_t)(reply->items[1].at[i] - '0');
    }
    slot->epoch = (uint32_t)epoch;
    slot->sworn = false;
    l->item.flying = false;
    if (reply->items[2].len == 0) {
        tr_align_slot(c, lane->slot, TR_ALIGN_ALL);
        raise_it(c, l);
    } else {
        tr_coord_ousted(c, lane->slot);
        release(c, l);
    }
}

const struct tr_cl_way tr_raise_way = {.script = TR_SCRIPT_RAISE,
                                       .most = 1,
                                       .jobs = true,
                                       .build = build_raise,
                                       .answered = answered_raise,
                                       .heard = refused_raise};

/* ---- rows ---- */

/* All of a state were read. True: those of another are to be. */
static bool next_state(struct tr_cluster *c, struct tr_loader *l)
{
    if (l->state == TR_SQL_WAITING && l->cut) {
        l->tries = 0;
        raise_it(c, l); /* is it so? */
    } else if (l->state == TR_SQL_WAITING && l->all) {
        l->state = TR_SQL_RESERVED;
        l->from_us = 0;
        l->from_id = 0;
        l->upto_us = UINT64_MAX >> 1;
        return true;
    } else {
        release(c, l);
    }
    return false;
}

static void page_came(struct tr_cluster *c, struct tr_desk_call *call)
{
    struct tr_loader *l = TR_CONTAINER_OF(call, struct tr_loader, call);
    const struct tr_sql_ask *ask = &call->ask;

    if (ask->end != TR_SQL_DONE || l->lives != c->desk->lives) {
        give_up(c, l);
        return;
    }
    for (unsigned i = 0; i < ask->count; i++) {
        const struct tr_sql_job *row = &ask->rows[i];

        l->from_us = row->next_us;
        l->from_id = row->id;
        if (l->knows_gen && row->gen < l->gen) {
            continue; /* it was purged; one with more was pushed after a purge since */
        }
        if (!tr_image_put(c, l->item.topic, TR_INDEX_MEND, row)) {
            give_up(c, l);
            return;
        }
        c->desk->align->read++;
    }
    if (ask->count == PAGE || next_state(c, l)) {
        tr_loader_go_on(c, l);
    }
}

void tr_loader_go_on(struct tr_cluster *c, struct tr_loader *l)
{
    if (l->lives != c->desk->lives) { /* the topic may have another number there */
        give_up(c, l);
        return;
    }
    l->waits = c->desk->images > TR_LOAD_IMAGES;
    if (l->waits) {
        return;
    }
    while (l->from_us >= l->upto_us) {
        if (!next_state(c, l)) {
            return;
        }
    }
    l->call.done = page_came;
    l->call.ask = (struct tr_sql_ask){.kind = TR_SQL_PAGE,
                                      .conn = tr_desk_conn(c, l->item.slot),
                                      .slot = l->item.slot,
                                      .topic = l->row,
                                      .state = l->state,
                                      .from_us = l->from_us,
                                      .from_id = l->from_id,
                                      .until_us = l->upto_us,
                                      .number = PAGE};
    tr_desk_send(c, &l->call);
}

/* Its settings are known: in how many slots it is. */
static void settings_came(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_loader *l = loader_of(item);

    if (tr_ctopic_spot(item->topic, item->slot) == NULL) {
        release(c, l); /* it is not in this slot */
    } else {
        raise_it(c, l);
    }
}

void tr_loader_start(struct tr_cluster *c, struct tr_loader *l, struct tr_ctopic *t, unsigned slot)
{
    l->item = (struct tr_item){.inner = true, .end = ended, .slot = slot};
    tr_list_init(&l->item.link);
    tr_item_pin(&l->item, t);
    l->busy = true;
    l->raised = false;
    l->waits = false;
    l->cut = false;
    l->state = TR_SQL_WAITING;
    l->tries = 0;
    l->lives = c->desk->lives;
    l->from_us = 0;
    l->from_id = 0;
    c->desk->align->loads++;
    tr_ctopic_load(c, &l->item, settings_came);
}

/* ---- what answers say ---- */

static void add_hint(struct tr_cluster *c, struct tr_ctopic *t, unsigned slot)
{
    struct tr_align *m = c->desk->align;
    const struct tr_loader *l = &m->loaders[0];

    if (l->busy && l->item.topic == t && l->item.slot == slot) {
        return;
    }
    for (unsigned i = 0; i < m->hint_count; i++) {
        if (m->hints[i].topic == t && m->hints[i].slot == slot) {
            return;
        }
    }
    if (m->hint_count == TR_LOAD_HINTS) {
        tr_align_slot(c, slot, TR_ALIGN_WINDOW);
        return;
    }
    tr_ctopic_pin(t);
    m->hints[m->hint_count++] = (struct tr_load_hinted){t, slot};
    m->again = true;
}

void tr_load_hint(struct tr_cluster *c, struct tr_ctopic *t, unsigned slot,
                  const struct tr_indexed *x)
{
    struct tr_align *m = c->desk->align;
    uint64_t now_us = tr_cluster_server_now(c);
    bool wants = x->loaded_us == 0 || (x->left < c->config.hot_max / 2 &&
                                       x->loaded_us < now_us + c->config.hot_window_us / 2);

    for (unsigned i = 0; i < TR_LOADERS; i++) {
        struct tr_loader *l = &m->loaders[i];

        if (l->busy && l->raised && l->state == TR_SQL_WAITING && l->item.topic == t &&
            l->item.slot == slot && x->loaded_us < l->upto_us) {
            l->upto_us = x->loaded_us;
            l->cut = true;
        }
    }
    if (!wants) {
        return;
    }
    if (c->slots[slot].owned && m->retry_us <= c->now.boot_us) {
        add_hint(c, t, slot);
    } else {
        tr_align_slot(c, slot, TR_ALIGN_WINDOW); /* which is remembered */
    }
}
