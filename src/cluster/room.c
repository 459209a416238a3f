/*
 * A Redis that takes no changes: its memory or disk is full, or replicas are missing.
 *
 *     refused ──► full ──► script `room`, by the same way, once a second ──► done: it is not
 *                   ▲                                  │
 *                   └──────────── refused ◄────────────┘
 *
 * Whatever is new and was taken there says so, too. But a node that is not ready is sent nothing by
 * those who share out requests, and with a database what changes may need no room: so it is asked.
 *
 * Of several servers the one that refused last is known: when that one takes changes again and
 * another does not, the next refusal says so.
 */

#include "base/err.h"
#include "cluster/inner.h"

#define AGAIN_US UINT64_C(1000000)

static void clear(struct tr_cluster *c)
{
    if (c->room.full) {
        c->room.full = false;
        tr_cluster_note(c, TR_NOTE_INFO, "Redis takes changes again.");
    }
}

static unsigned hash_of(const struct tr_cluster *c)
{
    return c->room.meta ? c->meta_hash : c->slots[c->room.slot].hash;
}

/* Of whoever has the slot now: after a failover that is another one. While this was on its way
 * another server may have refused. */
static void heard(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply,
                  enum tr_route_why why)
{
    struct tr_room *r = &c->room;

    (void)reply;
    if (call->server != r->server && call->hash_slot != hash_of(c)) {
        return;
    }
    if (why == 0) {
        clear(c);
    } else if (why == TR_ROUTE_FULL) {
        r->server = call->server;
    }
}

int tr_room_init(struct tr_cluster *c)
{
    return tr_call_init(c, &c->room.call, heard);
}

void tr_room_fini(struct tr_cluster *c)
{
    tr_call_fini(c, &c->room.call);
}

void tr_room_worse(struct tr_cluster *c, const struct tr_call *call, struct tr_span words)
{
    struct tr_room *r = &c->room;

    if (!r->full) {
        tr_cluster_note(c, TR_NOTE_WARNING, "Redis takes no changes: %.*s.", (int)words.len,
                        words.at);
        r->ask_us = c->now.boot_us + AGAIN_US;
    }
    r->full = true;
    r->slot = call->slot;
    r->meta = call->hash_slot == c->meta_hash;
    r->server = call->server;
}

void tr_room_better(struct tr_cluster *c, const struct tr_call *call)
{
    if (c->room.server == call->server) {
        clear(c);
    }
}

void tr_room_turn(struct tr_cluster *c)
{
    struct tr_room *r = &c->room;
    struct tr_eval *e = &r->call.eval;
    char key[TR_PLACE_KEY_MAX];

    if (!r->full || r->call.state != TR_CALL_IDLE || r->ask_us > c->now.boot_us) {
        return;
    }
    r->ask_us = c->now.boot_us + AGAIN_US;
    tr_eval_meta(e, TR_SCRIPT_ROOM, 1);
    tr_eval_add(e, key,
                r->meta ? tr_place_meta_key(key, &c->layout, TR_META_LAYOUT)
                        : tr_place_key(key, &c->layout, r->slot, 0, NULL));
    if (tr_eval_end(e) == TARRY_OK) {
        tr_call_start(c, &r->call,
                      &(struct tr_call_way){.script = TR_SCRIPT_ROOM,
                                            .hash_slot = hash_of(c),
                                            .slot = r->slot,
                                            .server = -1,
                                            .patience_us = c->config.patience_us,
                                            .repeats = true});
    }
}

uint64_t tr_room_next(const struct tr_cluster *c)
{
    return c->room.full && c->room.call.state == TR_CALL_IDLE ? c->room.ask_us : TR_CL_NEVER;
}
