/*
 * One command on its way: route.c says what to do after each thing that came of it, this does it.
 *
 *     IDLE ── start ──► (whom?) ──► QUEUED ── up ──► SENT ── answer ──► route ──► done
 *                          ▲            └─ too long ─┐  └─ too long, closed ─┤
 *                          └──────── WAITS ◄─────────┴───────────────────────┘
 *
 * *Invariant.* A call is always among the timers, also when it is idle (then at the end of time):
 * so nothing that happens to it needs memory. One that is SENT is in its connection's list, in the
 * order in which answers come.
 *
 * An answer that takes too long closes the connection: then nothing that was sent on it can be
 * answered any more, and a repeat cannot be mistaken for the first.
 *
 * Calls that were lost together are sent again in the order in which they were begun: of two pushes
 * into one slot the first has the lower ids then, too.
 */

#include "base/err.h"
#include "base/text.h"
#include "cluster/hex.h"
#include "cluster/inner.h"
#include "cluster/mutant.h"

#include <string.h>

#define CHECK_AGAIN_US UINT64_C(10000)

enum { CHECKS_AT_ONCE = 2 };

static struct tr_heap_item timer_of(struct tr_call *call)
{
    return (struct tr_heap_item){.second = call->at_us, .third = call->number, .what = call};
}

int tr_call_init(struct tr_cluster *c, struct tr_call *call, tr_call_done_fn *done)
{
    *call = (struct tr_call){.done = done, .at_us = TR_CL_NEVER, .aim = -1};
    tr_list_init(&call->link);
    tr_eval_init(&call->eval, c->mem);
    return tr_heap_push(&c->timers, timer_of(call));
}

void tr_call_fini(struct tr_cluster *c, struct tr_call *call)
{
    if (call->done == NULL) {
        return; /* an engine that could not be made had not come to it */
    }
    if (call->place != 0) {
        tr_heap_remove(&c->timers, call);
    }
    tr_confirm_drop(c, call);
    tr_list_remove(&call->link);
    tr_eval_fini(&call->eval);
}

void tr_call_set_timer(struct tr_cluster *c, struct tr_call *call, uint64_t at_us)
{
    call->at_us = at_us;
    tr_heap_update(&c->timers, timer_of(call));
}

int tr_call_status(enum tr_route_why why)
{
    switch (why) {
    case TR_ROUTE_UNKNOWN:
        return TARRY_EUNSURE;
    case TR_ROUTE_FULL:
        return TARRY_ENOSPC;
    case TR_ROUTE_REFUSED:
        return TARRY_EIO;
    default: /* AWAY, CLOCK */
        return TARRY_EAWAY;
    }
}

void tr_call_unsent(struct tr_cluster *c, struct tr_call *call)
{
    call->state = TR_CALL_UNSENT;
    tr_call_set_timer(c, call, c->now.boot_us);
}

/* To whom the map or a redirect says, now. */
static void go(struct tr_cluster *c, struct tr_call *call)
{
    int server = call->aim >= 0 ? call->aim : tr_shards_find(&c->shards, call->hash_slot);

    if (server < 0) {
        tr_call_unsent(c, call);
        return;
    }
    call->server = (unsigned)server;
    tr_link_take(c, call);
}

void tr_call_start(struct tr_cluster *c, struct tr_call *call, const struct tr_call_way *way)
{
    TR_CHECK(call->state == TR_CALL_IDLE);
    tr_route_init(&call->route, c->now.boot_us + way->patience_us, way->repeats);
    call->route.plain = call->eval.run_at == 0;
    call->number = ++c->calls_begun;
    call->script = way->script;
    call->hash_slot = way->hash_slot;
    call->slot = way->slot;
    call->aim = way->server;
    call->asking = false;
    call->text = false;
    call->checks = 0;
    call->state = TR_CALL_WAITS;
    go(c, call);
}

/* Its end, either way. */
static void end(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply,
                enum tr_route_why why)
{
    call->state = TR_CALL_IDLE;
    tr_call_set_timer(c, call, TR_CL_NEVER);
    c->stat.given_up += why != 0 && call->script != TR_SCRIPT_ROOM; /* that one nobody waits for */
    c->stat.unsure += why == TR_ROUTE_UNKNOWN;
    call->done(c, call, reply, why);
}

/* Ids jump by milliseconds of this clock, also for two that are sent at once: a failover may come
 * in between, and undo what the first one did. */
static uint64_t check_time(const struct tr_cluster *c, unsigned slot)
{
    uint64_t next_us = c->slots[slot].checked_us + 1000;

    return c->now.wall_us > next_us ? c->now.wall_us : next_us;
}

/* The script `check`, on the same connection just before the call: they are done in this order.
 * With its text, since it is rare. What it says of the server is for the connection (link.c). */
static void send_check(struct tr_cluster *c, const struct tr_call *call)
{
    const struct tr_link *link = &c->links[call->server];
    char key[TR_PLACE_KEY_MAX];
    char seen[24];
    char wall[24];
    size_t key_len = tr_place_key(key, &c->layout, call->slot, 0, NULL);
    /* Ids that this node was given there were far ahead, if another one made the slot. */
    bool fresh = c->now.boot_us < c->fresh_until_us && c->slots[call->slot].seen == 0;
    const struct tr_script *s = &tr_scripts[TR_SCRIPT_CHECK];
    struct tr_span args[] = {
        {"EVAL", 4},    {s->text, s->len},          {"1", 1},
        {key, key_len}, {c->uuid, strlen(c->uuid)}, {seen, 0},
        {wall, 0},      {fresh ? "1" : "0", 1},
    };

    tr_text(seen, sizeof seen, "%llu", (unsigned long long)c->slots[call->slot].seen);
    args[5].len = strlen(seen);
    if (link->state != TR_LINK_UP) {
        return; /* then the call will say so again */
    }
    c->slots[call->slot].checked_us = check_time(c, call->slot);
    tr_text(wall, sizeof wall, "%llu", (unsigned long long)c->slots[call->slot].checked_us);
    args[6].len = strlen(wall);
    if (call->asking) {
        c->port.send(c->port.ctx, call->server, 0, &(struct tr_span){"ASKING", 6}, 1);
    }
    c->port.send(c->port.ctx, call->server, TR_LINK_CHECKS + call->slot, args,
                 sizeof args / sizeof args[0]);
}

static void later(struct tr_cluster *c, struct tr_call *call, uint64_t at_us)
{
    call->state = TR_CALL_WAITS;
    if (at_us > c->now.boot_us) {
        tr_call_set_timer(c, call, at_us);
    } else {
        go(c, call);
    }
}

static void check(struct tr_cluster *c, struct tr_call *call, bool asking)
{
    call->asking = asking;
    call->text = false;
    send_check(c, call);
    call->checks++;
    later(c, call, call->checks > CHECKS_AT_ONCE ? c->now.boot_us + CHECK_AGAIN_US : 0);
}

/* A deliberate bug: its number is one higher. */
static void count_up(struct tr_call *call)
{
    char *op = (char *)(uintptr_t)call->eval.args[call->eval.run_at + 2].at;
    uint64_t number = 0;

    if (call->eval.run_at != 0 && tr_hex_get(op, TR_HEX_ID, &number)) {
        tr_hex_put(op, TR_HEX_ID, number + 1);
    }
}

static void send_again(struct tr_cluster *c, struct tr_call *call, const struct tr_route_step *step)
{
    int same = (int)call->server;

    call->asking = step->asking;
    call->text = step->text;
    call->checks = 0;
    call->aim = -1;
    if (step->server.len > 0) {
        call->aim = tr_shards_name(&c->shards, step->server.at, step->server.len);
        c->stat.redirects++;
    } else if (step->text) {
        call->aim = same;
    }
    later(c, call, step->at_us);
}

static void step(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply)
{
    bool asked = call->asking;
    struct tr_route_step s;

    if (TR_CL_MUTANT(REFUSAL_BELIEVED)) {
        call->route.unknown = false;
    }
    s = tr_route_next(&call->route, reply, c->now.boot_us);

    if (s.refresh) {
        tr_shards_doubt(&c->shards);
    }
    if (reply->event == TR_REDIS_LOST) {
        c->stat.losses++;
    }
    switch (s.what) {
    case TR_DO_ANSWER:
        end(c, call, reply, 0);
        break;
    case TR_DO_FAIL:
        end(c, call, reply, s.why);
        break;
    case TR_DO_CHECK:
        c->stat.repeats++;
        check(c, call, asked);
        break;
    case TR_DO_SEND:
        c->stat.repeats++;
        if (TR_CL_MUTANT(NEW_OP)) {
            count_up(call);
        }
        send_again(c, call, &s);
        break;
    }
}

void tr_call_heard(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply)
{
    unsigned server = call->server;

    tr_list_remove(&call->link);
    tr_link_less(c, call);
    call->state = TR_CALL_WAITS;
    step(c, call, reply);
    tr_link_pump(c, server);
}

void tr_call_unconfirmed(struct tr_cluster *c, struct tr_call *call)
{
    unsigned server = call->server;

    tr_list_remove(&call->link);
    tr_link_less(c, call);
    end(c, call, NULL, TR_ROUTE_UNKNOWN);
    tr_link_pump(c, server);
}

void tr_call_event(struct tr_cluster *c, struct tr_call *call, enum tr_redis_event event)
{
    struct tr_redis_reply reply = {.event = event};

    tr_confirm_drop(c, call);
    tr_list_remove(&call->link);
    if (call->state == TR_CALL_SENT) {
        tr_link_less(c, call);
    }
    call->state = TR_CALL_WAITS;
    tr_call_set_timer(c, call, TR_CL_NEVER);
    step(c, call, &reply);
}

void tr_call_timers(struct tr_cluster *c)
{
    const struct tr_heap_item *top;

    while ((top = tr_heap_top(&c->timers)) != NULL && top->second <= c->now.boot_us) {
        struct tr_call *call = top->what;

        switch (call->state) {
        case TR_CALL_WAITS:
            tr_call_set_timer(c, call, TR_CL_NEVER);
            go(c, call);
            break;
        case TR_CALL_QUEUED:
        case TR_CALL_UNSENT:
            tr_call_event(c, call, TR_REDIS_UNSENT);
            break;
        case TR_CALL_SENT:
            tr_link_hang_up(c, call->server, "no answer in time"); /* it hears LOST */
            break;
        case TR_CALL_IDLE:
            tr_call_set_timer(c, call, TR_CL_NEVER);
            break;
        }
    }
}
