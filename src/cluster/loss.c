/*
 * Data that a Redis server has lost. Nothing but its own keys tells: it comes back empty, a slot's
 * meta is not there, and `check` makes it anew, as it does when a slot is first used. Which slots
 * were ever made is noted where the store's own keys are, and that may be another server:
 *
 *     `check` says new ──► SETBIT P{meta}:made slot 1 ──► it was 1: this slot is lost
 *
 * A slot that has answered this node before was there, too, whatever is noted. It is used on at
 * once: what is lost is counted and said, and the node is not ready for two minutes, so that
 * somebody looks. If {meta} itself is gone, home.c notices.
 */

#include "base/err.h"
#include "cluster/inner.h"

#include <string.h>

#define AGAIN_US UINT64_C(5000000)
#define RED_US UINT64_C(120000000)

enum { WORD = 64 };

static tr_item_fn noted;

void tr_loss_init(struct tr_cluster *c)
{
    c->loss.item = (struct tr_item){.inner = true, .end = noted};
    c->loss.next_us = TR_CL_NEVER;
    tr_list_init(&c->loss.item.link);
}

void tr_loss_made(struct tr_cluster *c, unsigned slot)
{
    if (c->desk != NULL) {
        return; /* the database has what was there */
    }
    c->loss.made[slot / WORD] |= UINT64_C(1) << slot % WORD;
    c->slots[slot].had = c->slots[slot].seen != 0 || c->slots[slot].server_at_us != 0;
    c->loss.next_us = c->now.boot_us;
}

void tr_loss_red(struct tr_cluster *c)
{
    c->loss.red_until_us = c->now.boot_us + RED_US;
}

bool tr_loss_is_red(const struct tr_cluster *c)
{
    return c->loss.red_until_us > c->now.boot_us;
}

static void lost(struct tr_cluster *c, unsigned slot)
{
    int server = tr_shards_find(&c->shards, c->slots[slot].hash);

    c->stat.slots_lost++;
    if (c->loss.said_us <= c->now.boot_us) { /* as a rule it is many at once */
        tr_cluster_note(c, TR_NOTE_WARNING,
                        "Redis at %s has lost the data of slot %u, and may be of more: the jobs "
                        "that were there are lost. It is used on.",
                        server >= 0 ? c->shards.names[server] : "?", slot);
        c->loss.said_us = c->now.boot_us + RED_US;
    }
    tr_loss_red(c);
}

static void build(struct tr_cluster *c, struct tr_clane *lane)
{
    struct tr_eval *e = &lane->call.eval;
    char key[TR_PLACE_KEY_MAX];

    tr_eval_plain(e, "SETBIT");
    tr_eval_add(e, key, tr_place_meta_key(key, &c->layout, TR_META_MADE));
    tr_eval_add_number(e, c->loss.slot);
    tr_eval_add(e, "1", 1);
}

static void heard(struct tr_cluster *c, struct tr_clane *lane, const struct tr_redis_reply *reply)
{
    struct tr_item *item = tr_lane_next(lane);
    unsigned slot = c->loss.slot;
    bool was = reply->count == 1 && tr_span_begins(reply->items[0], "1");

    c->loss.made[slot / WORD] &= ~(UINT64_C(1) << slot % WORD);
    if (was || c->slots[slot].had) {
        lost(c, slot);
    }
    tr_item_finish(c, item, TARRY_OK);
}

const struct tr_cl_way tr_made_way = {
    .script = -1, .most = 1, .meta = true, .build = build, .heard = heard};

/* One was told of, or could not be: the next one, or the same later. */
static void noted(struct tr_cluster *c, struct tr_item *item)
{
    c->loss.busy = false;
    c->loss.next_us = c->now.boot_us + (item->status == TARRY_OK ? 0 : AGAIN_US);
}

void tr_loss_turn(struct tr_cluster *c)
{
    struct tr_loss *l = &c->loss;

    if (l->busy || l->next_us > c->now.boot_us) {
        return;
    }
    l->next_us = TR_CL_NEVER;
    for (unsigned s = 0; s < c->layout.slots; s++) {
        if ((l->made[s / WORD] >> s % WORD & 1) != 0) {
            l->busy = true;
            l->slot = s;
            tr_lane_put(c, TR_CL_MADE, &l->item);
            return;
        }
    }
}

uint64_t tr_loss_next(const struct tr_cluster *c)
{
    return c->loss.busy ? TR_CL_NEVER : c->loss.next_us;
}
