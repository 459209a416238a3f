/*
 * The coordinator, as port/coord.h has it. A session lasts so long from when the last beat arrived;
 * whoever has one is a member. Answers come late, or not at all, though the beat arrived; a node
 * may be cut off for longer than its session; and now and then a view is an old one, as a server of
 * ZooKeeper that is behind would tell it, but that the node itself is in it.
 *
 * *Judged here:* housekeeping that a node sends when its session is over ("no self-stop"), and C8:
 * a script that compares epochs did something for a node that was not the owner.
 */

#include "zoo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX
#define GIVE_UP_US UINT64_C(2000000)

static uint64_t dice(struct zoo *z, uint64_t below)
{
    return tr_rng_below(&z->world->rng, below);
}

static uint64_t delay(struct zoo *z)
{
    return 200 + dice(z, !z->calm && dice(z, 10) == 0 ? 1500000 : 3000);
}

void zoo_init(struct zoo *z, struct world *w, struct judge *j, bool used)
{
    *z = (struct zoo){.world = w, .judge = j, .used = used};
    for (unsigned i = 0; i < NODES; i++) {
        z->seats[i] = (struct zoo_seat){
            .zoo = z, .number = i, .changed_us = NEVER, .arrives_us = NEVER, .answers_us = NEVER};
    }
}

static struct zoo_session *session_of(struct zoo *z, uint64_t node)
{
    for (unsigned i = 0; i < z->count; i++) {
        if (z->sessions[i].node == node) {
            return &z->sessions[i];
        }
    }
    return NULL;
}

/* Everybody who is there has a watch. */
static void tell_changed(struct zoo *z)
{
    for (unsigned i = 0; i < NODES; i++) {
        if (z->seats[i].ear.ctx != NULL && z->seats[i].changed_us == NEVER) {
            z->seats[i].changed_us = z->world->now_us + delay(z);
        }
    }
}

static void expire(struct zoo *z)
{
    for (unsigned i = z->count; i-- > 0;) {
        if (z->sessions[i].until_us <= z->world->now_us) {
            z->sessions[i] = z->sessions[--z->count];
            tell_changed(z);
        }
    }
}

/* ---- a beat ---- */

static void ask(void *ctx)
{
    struct zoo_seat *s = ctx;
    struct zoo *z = s->zoo;

    TR_CHECK(s->arrives_us == NEVER && s->answers_us == NEVER); /* one at a time */
    s->lost = !z->calm && (s->cut_until_us > z->world->now_us || dice(z, 20) == 0);
    if (s->lost) {
        z->lost++;
        s->answers_us = z->world->now_us + GIVE_UP_US;
    }
    if (!s->lost || (s->cut_until_us <= z->world->now_us && dice(z, 2) == 0)) {
        s->arrives_us = z->world->now_us + delay(z); /* perhaps only the answer is lost */
    }
}

static void leave(void *ctx)
{
    struct zoo_seat *s = ctx;
    struct zoo_session *is = session_of(s->zoo, s->node);

    if (is != NULL) {
        is->until_us = s->zoo->world->now_us;
    }
}

static void note_view(struct zoo *z, struct zoo_seat *s)
{
    bool old = !z->calm && z->old_count > 0 && dice(z, 6) == 0;
    bool self = false;

    s->count = 0;
    for (unsigned i = 0; i < (old ? z->old_count : z->count); i++) {
        s->nodes[s->count] = old ? z->old[i] : z->sessions[i].node;
        self = self || s->nodes[s->count] == s->node;
        s->count++;
    }
    if (!self && s->count < ZOO_SESSIONS) {
        s->nodes[s->count++] = s->node;
    }
    z->stale += old;
}

static void arrive(struct zoo *z, struct zoo_seat *s)
{
    struct zoo_session *is = session_of(z, s->node);

    s->arrives_us = NEVER;
    if (is == NULL && z->count < ZOO_SESSIONS) {
        is = &z->sessions[z->count++];
        is->node = s->node;
        tell_changed(z);
    }
    if (is != NULL) {
        is->until_us = z->world->now_us + ZOO_SESSION_US;
    }
    note_view(z, s);
    if (!s->lost) {
        s->answers_us = z->world->now_us + delay(z);
    }
}

static void answer(struct zoo_seat *s, struct tr_now now)
{
    struct tr_coord_view view = {
        .nodes = s->nodes, .count = s->count, .session_us = ZOO_SESSION_US};

    s->answers_us = NEVER;
    s->arrives_us = NEVER;
    if (s->lost) {
        s->ear.failed(s->ear.ctx, "connection loss", now);
    } else {
        s->ear.members(s->ear.ctx, &view, now);
    }
}

/* ---- from outside ---- */

struct tr_coord_port zoo_port(struct zoo *z, unsigned seat, uint64_t node)
{
    struct zoo_seat *s = &z->seats[seat];

    s->node = node;
    memset(s->tends, 0, sizeof s->tends);
    return (struct tr_coord_port){.ctx = s, .kind = "dice", .beat = ask, .leave = leave};
}

void zoo_listen(struct zoo *z, unsigned seat, struct tr_coord_ear ear)
{
    z->seats[seat].ear = ear;
}

void zoo_gone(struct zoo *z, unsigned seat)
{
    struct zoo_seat *s = &z->seats[seat];

    s->ear = (struct tr_coord_ear){0};
    s->arrives_us = NEVER;
    s->answers_us = NEVER;
    s->changed_us = NEVER;
    s->cut_until_us = 0;
}

void zoo_fate(struct zoo *z)
{
    struct zoo_seat *s = &z->seats[dice(z, NODES)];

    if (z->used && world_dice(z->world, 250) && s->cut_until_us <= z->world->now_us) {
        s->cut_until_us = z->world->now_us + dice(z, 2 * ZOO_SESSION_US);
        z->cuts++;
    }
    if (z->used && world_dice(z->world, 100)) {
        z->old_count = z->count;
        for (unsigned i = 0; i < z->count; i++) {
            z->old[i] = z->sessions[i].node;
        }
    }
}

unsigned zoo_step(struct zoo *z, struct tr_now now)
{
    unsigned heard = 0;

    expire(z);
    for (unsigned i = 0; i < NODES; i++) {
        struct zoo_seat *s = &z->seats[i];

        if (s->arrives_us <= z->world->now_us) {
            arrive(z, s);
        }
        if (s->answers_us <= z->world->now_us) {
            answer(s, now);
            heard |= 1U << i;
        }
        if (s->changed_us <= z->world->now_us) {
            s->changed_us = NEVER;
            s->ear.changed(s->ear.ctx, now);
            heard |= 1U << i;
        }
    }
    return heard;
}

uint64_t zoo_next(const struct zoo *z)
{
    uint64_t next_us = NEVER;

    for (unsigned i = 0; i < NODES; i++) {
        const struct zoo_seat *s = &z->seats[i];

        next_us = s->arrives_us < next_us ? s->arrives_us : next_us;
        next_us = s->answers_us < next_us ? s->answers_us : next_us;
        next_us = s->changed_us < next_us ? s->changed_us : next_us;
    }
    for (unsigned i = 0; i < z->count; i++) {
        next_us = z->sessions[i].until_us < next_us ? z->sessions[i].until_us : next_us;
    }
    return next_us;
}

/* ---- what is judged ---- */

static bool is_script(const struct tr_span *args, size_t count)
{
    return count > 3 && (world_is(args[0], "EVAL") || world_is(args[0], "EVALSHA"));
}

/* What only a slot's owner does, under its epoch. */
static bool is_owners(const struct tr_span *args, size_t count)
{
    return is_script(args, count) &&
           (fake_script(args) == TR_SCRIPT_TEND ||
            (fake_script(args) == TR_SCRIPT_RAISE && args[count - 1].len > 0));
}

void zoo_sends(struct zoo *z, unsigned seat, const struct tr_span *args, size_t count)
{
    struct zoo_seat *s = &z->seats[seat];
    struct world_call call = {.args = args, .count = count};
    const struct zoo_session *is;
    uint64_t op;

    if (!z->used || !is_script(args, count) || fake_script(args) != TR_SCRIPT_TEND) {
        return;
    }
    op = strtoull(args[3 + strtoul(args[2].at, NULL, 10) + 3].at, NULL, 16);
    if (s->tends[world_slot(&call)] == op) {
        return; /* once more, as it was not answered: that may come later, the epoch is for that */
    }
    s->tends[world_slot(&call)] = op;
    is = session_of(z, s->node);
    if (is == NULL || is->until_us <= z->world->now_us) {
        judge_wrong(z->judge, "C8: housekeeping of a node whose session is over", seat);
    }
}

/* The owner and the epoch of a slot, as its meta has them. */
static struct fake_reply *meta_of(struct zoo *z, unsigned server, struct tr_span key)
{
    struct tr_span args[] = {{"HMGET", 5}, key, {"owner", 5}, {"epoch", 5}};
    struct fake_call call = {.db = z->world->servers[server].db,
                             .now_us = z->world->now_us,
                             .args = args,
                             .count = sizeof args / sizeof args[0]};

    return fake_plain(z->world->lua, &call);
}

static bool same(struct tr_span a, struct tr_span b)
{
    return a.at != NULL && b.at != NULL && a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

void zoo_ran(struct zoo *z, const struct world_call *call, const struct fake_reply *reply)
{
    struct fake_reply *meta;
    size_t keys;

    if (!is_owners(call->args, call->count) || reply->is.event != TR_REDIS_LIST ||
        !world_is(reply->is.items[0], "OK")) {
        return;
    }
    keys = strtoul(call->args[2].at, NULL, 10);
    meta = meta_of(z, call->server, call->args[3]);
    if (!same(meta->is.items[0], call->args[3 + keys + 2]) ||
        !same(meta->is.items[1], call->args[call->count - 1])) {
        judge_wrong(z->judge, "C8: a write with an old epoch was done in slot", world_slot(call));
    }
    /* Epochs are the database's: they only grow. But one that was given before may come late to a
     * slot that has forgotten all. */
    if (fake_script(call->args) == TR_SCRIPT_RAISE) {
        unsigned slot = world_slot(call);
        uint64_t epoch = strtoull(call->args[call->count - 1].at, NULL, 10);

        if (epoch < z->epochs[slot] && z->changes[slot] == z->world->changes[slot]) {
            judge_wrong(z->judge, "C8: an epoch that was over came back", slot);
        }
        z->epochs[slot] = epoch;
        z->changes[slot] = z->world->changes[slot];
    }
    fake_reply_free(meta);
}
