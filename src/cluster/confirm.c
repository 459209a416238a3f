/*
 * redis.wait_replicas: what changes jobs or settings is answered when so many replicas have it,
 * too.
 *
 *     script ──► WAIT n, behind it on the same connection
 *     answer ──► held back ──► n or more have it: told; fewer: nobody can be told that it lasts
 *
 * Redis answers WAIT when the replicas have confirmed all that came before it on this connection,
 * or after its time. Nothing is undone then: the primary has it, and the caller hears UNKNOWN. So a
 * failover still may take it back if the replica that has it is not the one that is promoted; but
 * no more if Redis only promotes the furthest one, and that one is alive.
 *
 * Hand-outs are not waited for: one that is undone is handed out again.
 */

#include "base/err.h"
#include "base/text.h"
#include "cluster/inner.h"
#include "cluster/mutant.h"

#include <string.h>

#define SHORT_US UINT64_C(10000000) /* so long it is told that replicas are missing */

enum { LEAST_MS = 20, PARTS = 8 };

static bool is_change(int script)
{
    switch (script) {
    case TR_SCRIPT_PUSH:
    case TR_SCRIPT_EDIT:
    case TR_SCRIPT_KICK:
    case TR_SCRIPT_BULK:
    case TR_SCRIPT_PURGE:
    case TR_SCRIPT_PAUSE:
    case TR_SCRIPT_CONF:
    case TR_SCRIPT_TOPIC:
    case TR_SCRIPT_SCHEDULE:
        return true;
    default:
        return false;
    }
}

void tr_confirm_sent(struct tr_cluster *c, struct tr_call *call)
{
    uint64_t ms = c->config.timeout_us / 1000 / PARTS; /* several of them fit in a time-out */
    char count[12], time[24];
    struct tr_span args[] = {{"WAIT", 4}, {count, 0}, {time, 0}};

    call->confirms = c->config.wait_replicas > 0 && is_change(call->script);
    if (!call->confirms) {
        return;
    }
    tr_text(count, sizeof count, "%u", c->config.wait_replicas);
    tr_text(time, sizeof time, "%llu", (unsigned long long)(ms > LEAST_MS ? ms : LEAST_MS));
    args[1].len = strlen(count);
    args[2].len = strlen(time);
    c->port.send(c->port.ctx, call->server, TR_LINK_WAITS | call->tag, args, 3);
}

void tr_confirm_drop(struct tr_cluster *c, struct tr_call *call)
{
    tr_mem_free(c->mem, call->held, call->held_bytes);
    call->held = NULL;
    call->held_bytes = 0;
    call->confirms = false;
}

/* A copy of the answer: its items, then their bytes. */
static bool hold(struct tr_cluster *c, struct tr_call *call, const struct tr_redis_reply *reply)
{
    size_t bytes = sizeof *call->held * (reply->count + 1);
    char *at;

    for (size_t i = 0; i < reply->count; i++) {
        bytes += reply->items[i].len;
    }
    call->held = tr_mem_alloc(c->mem, bytes);
    if (call->held == NULL) {
        return false;
    }
    call->held_bytes = bytes;
    call->held_count = reply->count;
    at = (char *)(call->held + reply->count + 1);
    for (size_t i = 0; i < reply->count; i++) {
        struct tr_span item = reply->items[i];

        call->held[i] = item;
        if (item.at != NULL) {
            memcpy(at, item.at, item.len);
            call->held[i].at = at;
            at += item.len;
        }
    }
    return true;
}

bool tr_confirm_holds(struct tr_cluster *c, struct tr_call *call,
                      const struct tr_redis_reply *reply)
{
    if (!call->confirms || TR_CL_MUTANT(NOT_CONFIRMED) || reply->event != TR_REDIS_LIST ||
        reply->count == 0 || !tr_span_begins(reply->items[0], "OK")) {
        return false; /* nothing was changed */
    }
    if (!hold(c, call, reply)) {
        tr_link_hang_up(c, call->server, "no memory"); /* it is repeated, and answered the same */
    } else {
        tr_call_set_timer(c, call, c->now.boot_us + c->config.timeout_us);
    }
    return true;
}

static unsigned number(const struct tr_redis_reply *reply)
{
    unsigned n = 0;

    if (reply->event != TR_REDIS_LIST || reply->count != 1 || reply->items[0].at == NULL) {
        return 0;
    }
    for (size_t i = 0; i < reply->items[0].len && n < 1000; i++) {
        n = n * 10 + (unsigned)(reply->items[0].at[i] - '0');
    }
    return n;
}

void tr_confirm_heard(struct tr_cluster *c, unsigned server, uint64_t tag,
                      const struct tr_redis_reply *reply)
{
    struct tr_link *l = &c->links[server];
    struct tr_call *call =
        tr_list_empty(&l->sent) ? NULL : TR_CONTAINER_OF(l->sent.next, struct tr_call, link);
    struct tr_redis_reply held;
    struct tr_span *items;
    size_t bytes;

    if (call == NULL || call->tag != (tag & ~TR_LINK_WAITS) || call->held == NULL) {
        return; /* that one was refused */
    }
    items = call->held;
    bytes = call->held_bytes;
    held =
        (struct tr_redis_reply){.event = TR_REDIS_LIST, .items = items, .count = call->held_count};
    call->held = NULL;
    call->held_bytes = 0;
    call->confirms = false;
    if (number(reply) >= c->config.wait_replicas) {
        c->short_us = 0;
        tr_call_heard(c, call, &held);
    } else {
        if (c->short_us <= c->now.boot_us) {
            tr_cluster_note(c, TR_NOTE_WARNING,
                            "Fewer replicas of Redis at %s confirm changes than "
                            "redis.wait_replicas: they are answered 503 (unsure).",
                            c->shards.names[server]);
        }
        c->short_us = c->now.boot_us + SHORT_US;
        tr_call_unconfirmed(c, call);
    }
    tr_mem_free(c->mem, items, bytes);
}
