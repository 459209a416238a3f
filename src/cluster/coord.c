/*
 * Whose slots are whose, by what the coordinator tells (port/coord.h).
 *
 *     beat ──► members ──► slots are shared (member.c) ──► those that are ours are looked after
 *                                                          for two thirds of the session, counted
 *                                                          from when the beat was asked
 *
 * *Self-stop.* tr_coord_may is asked before each step of housekeeping, not only once a turn: a
 * process that stood still hears answers first and has its turn later. It is no when the last proof
 * of membership is older than two thirds of the session, so before others take over.
 *
 * An owner that finds another one entered (OUSTED, a slot's script) stops with that slot, and asks
 * who lives; only a view that was asked for after that makes it the owner again.
 */

#include "base/err.h"
#include "base/text.h"
#include "cluster/inner.h"
#include "cluster/mutant.h"

#include <string.h>

#define AGAIN_US UINT64_C(300000)

void tr_coord_init(struct tr_cluster *c, const struct tr_coord_port *port)
{
    c->coord.port = *port;
    tr_tenure_init(&c->tenure, c->coord.leases ? c->config.lease_us : c->config.session_us);
}

void tr_coord_name(const struct tr_cluster *c, char name[TR_COORD_NAME])
{
    const char *place = c->coord.port.place;

    tr_text(name, TR_COORD_NAME, "%s%s%s", c->coord.port.kind, place != NULL ? " at " : "",
            place != NULL ? place : "");
}

/* Not all of them at once; a look that is under way may have read what is old. */
static void look_anew(struct tr_cluster *c, unsigned s)
{
    c->slots[s].agenda_us = c->now.boot_us + s * UINT64_C(1000);
    c->slots[s].nudged = c->slots[s].looking;
}

static void share_slots(struct tr_cluster *c)
{
    uint8_t owner[TR_SLOTS_MAX];
    unsigned owned = 0;

    tr_members_share(&c->members, c->layout.slots, owner);
    for (unsigned s = 0; s < c->layout.slots; s++) {
        struct tr_cl_slot *slot = &c->slots[s];
        uint64_t node = c->members.nodes[owner[s]];
        bool mine = node == c->config.node;

        if (mine && !slot->owned) {
            tr_mourn_again(c); /* whoever died before may have left something there */
            slot->sworn = false;
            look_anew(c, s);
            slot->since_us = tr_cluster_slot_now(c, s);
        }
        c->shares += mine != slot->owned;
        slot->owned = mine;
        owned += mine;
        if (node != slot->keeper_node) {
            slot->keeper_node = node;
            tr_home_retell(c, s);
        }
    }
    c->stat.slots_owned = owned;
    c->house_us = 0;
}

/* Is one that lived not among them any more? */
static bool anybody_gone(const struct tr_members *before, const struct tr_coord_view *view)
{
    for (unsigned i = 0; i < before->count; i++) {
        unsigned k = 0;

        while (k < view->count && view->nodes[k] != before->nodes[i]) {
            k++;
        }
        if (k == view->count) {
            return true;
        }
    }
    return false;
}

void tr_coord_members(void *ctx, const struct tr_coord_view *view, struct tr_now now)
{
    struct tr_cluster *c = ctx;

    tr_cluster_set_now(c, now);
    if (c->leaving || view->count == 0) {
        return;
    }
    if (c->tenure.sent_us != 0) {
        tr_tenure_answered(&c->tenure);
    }
    c->tenure.lease_us = view->session_us;
    if (anybody_gone(&c->members, view)) {
        tr_mourn_alert(c);
    }
    c->members.count = 0;
    for (unsigned i = 0; i < view->count && i < TR_MEMBERS_MAX; i++) {
        c->members.nodes[c->members.count++] = view->nodes[i];
    }
    c->stat.nodes = c->members.count;
    if (c->coord.why[0] != '\0') {
        tr_cluster_note(c, TR_NOTE_INFO, "The coordinator (%s) answers again.", c->coord.port.kind);
    }
    c->coord.why[0] = '\0';
    share_slots(c);
    c->viewed_us = c->now.boot_us;
}

bool tr_coord_lives(const struct tr_cluster *c, uint64_t node)
{
    for (unsigned i = 0; i < c->members.count; i++) {
        if (c->members.nodes[i] == node) {
            return true;
        }
    }
    return false;
}

void tr_coord_failed(void *ctx, const char *why, struct tr_now now)
{
    struct tr_cluster *c = ctx;

    tr_cluster_set_now(c, now);
    tr_tenure_lost(&c->tenure);
    c->coord.retry_us = c->now.boot_us + AGAIN_US;
    if (c->coord.leases || c->leaving) {
        return; /* Redis tells of itself */
    }
    if (c->coord.why[0] == '\0') {
        tr_cluster_note(c, TR_NOTE_WARNING,
                        "The coordinator (%s) does not answer: %s. Jobs are served on; without it "
                        "this node's housekeeping stops.",
                        c->coord.port.kind, why);
    }
    tr_text(c->coord.why, sizeof c->coord.why, "%s", why);
}

static void coord_changed(void *ctx, struct tr_now now)
{
    struct tr_cluster *c = ctx;

    tr_cluster_set_now(c, now);
    c->coord.again = true;
}

struct tr_coord_ear tr_cluster_coord_ear(struct tr_cluster *c)
{
    return (struct tr_coord_ear){
        .ctx = c, .members = tr_coord_members, .failed = tr_coord_failed, .changed = coord_changed};
}

void tr_coord_ousted(struct tr_cluster *c, unsigned slot)
{
    c->shares += c->slots[slot].owned;
    c->slots[slot].owned = false;
    c->slots[slot].sworn = false;
    c->stat.ousted++;
    c->coord.again = true;
    c->coord.retry_us = c->now.boot_us + AGAIN_US; /* two who do not agree do not hurry */
}

bool tr_coord_may(struct tr_cluster *c)
{
    if (TR_CL_MUTANT(NO_SELF_STOP)) {
        return c->members.count > 0;
    }
    return c->owns && tr_tenure_believes(&c->tenure, c->now.boot_us);
}

/* Not before the store is known, unless that is what tells. */
static bool can_beat(const struct tr_cluster *c)
{
    bool there = c->coord.leases ? tr_shards_find(&c->shards, c->meta_hash) >= 0
                                 : c->stage == TR_ENGINE_OPEN;

    return there && !c->leaving && c->tenure.sent_us == 0;
}

/* It did not look after them for a while: others may have. */
static void begin_anew(struct tr_cluster *c)
{
    for (unsigned s = 0; s < c->layout.slots; s++) {
        c->slots[s].sworn = false;
        look_anew(c, s);
    }
    c->house_us = 0;
}

void tr_coord_turn(struct tr_cluster *c)
{
    bool holds = tr_tenure_holds(&c->tenure, c->now.boot_us);
    bool held = c->owns;

    c->owns = (holds || (TR_CL_MUTANT(NO_SELF_STOP) && c->members.count > 0)) &&
              c->stage == TR_ENGINE_OPEN;
    if (c->owns && !held) {
        begin_anew(c);
    }
    c->stat.self_stops += held && !c->owns;
    if (c->coord.retry_us > c->now.boot_us || !can_beat(c)) {
        return;
    }
    if (c->coord.again) {
        c->coord.again = false;
        c->tenure.sent_us = c->now.boot_us;
        c->coord.port.beat(c->coord.port.ctx);
    } else if (tr_tenure_beat(&c->tenure, c->now.boot_us)) {
        c->coord.port.beat(c->coord.port.ctx);
    }
}

uint64_t tr_coord_next(const struct tr_cluster *c)
{
    uint64_t next_us = tr_tenure_next(&c->tenure);

    if (!can_beat(c)) {
        return TR_CL_NEVER; /* the answer, or the map, comes by itself */
    }
    if (c->coord.again) {
        next_us = 0;
    }
    return next_us > c->coord.retry_us ? next_us : c->coord.retry_us;
}

bool tr_coord_trouble(struct tr_cluster *c, struct tr_reason *reason)
{
    if (c->coord.leases || c->coord.why[0] == '\0') {
        return false;
    }
    tr_text(c->coord.told, sizeof c->coord.told,
            "the coordinator (%s) does not answer, jobs are served without housekeeping: %s",
            c->coord.port.kind, c->coord.why);
    *reason = (struct tr_reason){"coordinator_away", c->coord.told, false};
    return true;
}
