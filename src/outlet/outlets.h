#ifndef TR_OUTLET_OUTLETS_H
#define TR_OUTLET_OUTLETS_H

/*
 * Outlets: topics whose due jobs are sent somewhere instead of waiting for a consumer. See
 * outlets.c.
 *
 * Threads: one, the loop's; but senders may have their own (sender.h), and any may call the `wake`
 * of the config.
 */

#include "base/check.h"
#include "outlet/sender.h"
#include "port/outlet.h"
#include "port/poller.h"
#include "port/queue.h"
#include "rules/deliver.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_outlets;

struct tr_outlets_config {
    struct tr_queue queue;
    struct tr_poller poller;
    bool allow_private;
    uint64_t memory; /* bytes for jobs that are being sent; one of each topic always may be */
    void *ctx;
    struct tr_now (*now)(void *ctx);
    uint64_t (*clock)(void *ctx); /* the engine's time */
    bool test_clock;              /* that stands still between advances */
    void (*wake)(void *ctx);      /* any thread: tr_outlets_woken is to be called soon */
    void (*say)(void *ctx, bool warning, const char *text); /* one line, without secrets */
    void (*rescan)(void *ctx); /* calls tr_outlets_look for each topic with a `deliver` */
    bool (*mine)(void *ctx, uint32_t topic); /* is it to be sent from here? NULL: all are */
    uint32_t actor;                          /* who acks and releases, for histories */
    const struct tr_sender_kind *(*kind_of)(enum tr_deliver_type type); /* tr_sender_kind_of */
};

TR_MUST_USE int tr_outlets_open(struct tr_outlets **out, const struct tr_outlets_config *c);

/*
 * Could this be served? TARRY_EUNSUPPORTED: this build has no such sender; TARRY_EPERM: its address
 * is private. *why is then a sentence.
 */
TR_MUST_USE int tr_outlets_admit(const struct tr_deliver *d, bool allow_private, const char **why);

/* The `deliver` of this topic is, or may be, another one; also at the start, for each that has one.
 * May be called from inside the queue. */
void tr_outlets_look(struct tr_outlets *o, uint32_t topic);

/* This topic is about to go; most have never delivered. May be called from inside the queue. NULL
 * is fine. */
void tr_outlets_dropped(struct tr_outlets *o, uint32_t topic);

/* All up to this batch is on disk. May be called from inside the queue. */
void tr_outlets_durable(struct tr_outlets *o, uint64_t batch);

/* After wake. */
void tr_outlets_woken(struct tr_outlets *o);

/* Does what there is to do, for about so long; gives the boot time of the next call: 0: at once.
 * The queue's owner has to have a turn afterwards if tr_outlets_asked. */
uint64_t tr_outlets_work(struct tr_outlets *o, uint64_t most_us);
bool tr_outlets_asked(struct tr_outlets *o);

/* With a test clock: the next moment at which something is to happen here; 0: now, it may not go
 * on. UINT64_MAX: never. */
uint64_t tr_outlets_event(const struct tr_outlets *o);

/* No new sends; what is under way may end. `hurry`: what has not ended is given back. */
void tr_outlets_stop(struct tr_outlets *o);
void tr_outlets_hurry(struct tr_outlets *o);
bool tr_outlets_stopped(const struct tr_outlets *o);

/* Nothing is asked of the queue any more; what was asked is abandoned. NULL is fine, as below. */
void tr_outlets_abort(struct tr_outlets *o);

/* After abort. Senders that did not stop are left to themselves. */
void tr_outlets_close(struct tr_outlets *o);

/* What is to be told of a topic's. False: it has none. */
bool tr_outlets_view(const struct tr_outlets *o, uint32_t topic, struct tr_outlet_view *v);

/* All of them, one by one: the next after `at` (NULL: the first), or NULL. */
const void *tr_outlets_next(const struct tr_outlets *o, const void *at, struct tr_outlet_view *v);

#endif
