/*
 * What outlets ask of the world. They are opened after the engine, since they ask it for policies,
 * and closed before the loop.
 *
 * Memory: what is being sent is a copy of each job. One outlet may have half of 64 MiB, enough for
 * five hundred of 64 KiB, and several share (outlet.c); when that is used up, jobs wait in the
 * store.
 */

#include "server/delivery.h"

#include "base/err.h"
#include "os/clock_linux.h"
#include "os/poller_linux.h"

#include <string.h>

#define MEMORY (UINT64_C(64) << 20)

static struct tr_now now_of(void *ctx)
{
    (void)ctx;
    return tr_clock_linux_now();
}

static uint64_t clock_of(void *ctx)
{
    const struct tr_delivery *d = ctx;

    return d->engine->ops->clock(d->engine->ctx);
}

static void wake(void *ctx)
{
    const struct tr_delivery *d = ctx;

    tr_loop_linux_wake(d->loop);
}

static void say(void *ctx, bool warning, const char *text)
{
    const struct tr_delivery *d = ctx;

    tr_logger_say(d->log, warning ? TR_LEVEL_WARNING : TR_LEVEL_INFO, "%s", text);
}

static bool mine(void *ctx, uint32_t topic)
{
    const struct tr_delivery *d = ctx;

    return d->engine->ops->delivers == NULL || d->engine->ops->delivers(d->engine->ctx, topic);
}

static void meet(void *ctx, uint32_t topic)
{
    const struct tr_delivery *d = ctx;

    tr_outlets_look(d->outlets, topic);
}

static void rescan(void *ctx)
{
    struct tr_delivery *d = ctx;

    d->engine->ops->deliverers(d->engine->ctx, meet, d);
}

int tr_delivery_open(struct tr_delivery *d, const struct tr_config *c)
{
    static const char name[] = "outlet"; /* in histories */
    struct tr_outlets_config config = {
        .queue = d->engine->queue,
        .poller = tr_poller_linux(d->loop),
        .allow_private = c->allow_private,
        .memory = MEMORY,
        .ctx = d,
        .now = now_of,
        .clock = clock_of,
        .test_clock = c->test_clock,
        .wake = wake,
        .say = say,
        .rescan = rescan,
        .mine = mine,
        .kind_of = tr_sender_kind_of,
        .actor = d->engine->ops->actor(d->engine->ctx, name, strlen(name))};
    int err;

    if (c->read_only) {
        return TARRY_OK;
    }
    err = tr_outlets_open(&d->outlets, &config);
    if (err == TARRY_OK) {
        rescan(d);
    }
    return err;
}
