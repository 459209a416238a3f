#ifndef TR_OUTLET_SENDER_H
#define TR_OUTLET_SENDER_H

/*
 * The seam between the outlets' core and a kind of sender (webhook, amqp, kafka, redis).
 *
 *     core (outlets.c)                          sender (webhook.c, amqp.c ...)
 *       open(deliver, host) ------------------> connects when it likes, never inside a call
 *       job reserved, and durably so
 *       send(s) ------------------------------> takes it; gives it to its thread, if it has one
 *                                               ... the other side confirms, or not ...
 *                          <------- host->wake  from any thread: "I have something for the loop"
 *       collect() ----------------------------> from the loop's thread
 *                          <------- host->done  (s): s->outcome says how it went
 *       acks, releases or buries the job
 *
 * Retries, leases, attempts, backoff, breaker, metrics and logs are the core's. A sender tries
 * once, and tells the truth: OK only when the other side has confirmed that it has the job.
 *
 * Threads. All calls of struct tr_sender_kind are made by the loop's thread, and none of them may
 * block: not for a connect, not for a name, not for a join. A sender whose library blocks has a
 * thread of its own (made in `open` or with the first send). host->wake may be called by any
 * thread; host->done by the loop's thread only: from inside `collect` or `stop`, or from events of
 * the loop (webhook); never from inside `send`, `cancel` or `open`.
 *
 * Memory. A struct tr_send and all that it points to is the core's. From `send` to `done` it does
 * not move or change, and the sender (its thread, too) may read it and write what is below "the
 * sender's"; after `done` it may not touch it any more. What `open` is given is borrowed for the
 * call: copy it. The host stays until `close` has returned.
 */

#include "base/check.h"
#include "port/poller.h"
#include "rules/deliver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tr_send_outcome {
    TR_SEND_OK,          /* confirmed: the job is acked */
    TR_SEND_FAILED,      /* the other side answered, but not with yes: again by the backoff */
    TR_SEND_UNREACHABLE, /* no answer at all (connect, name, TLS, time-out): the same, and it
                            counts for the breaker */
    TR_SEND_REFUSED,     /* this job can never be sent (too large ...): it is buried */
    TR_SEND_BACK,        /* was not tried, or was cancelled: given back, as if it had never been
                            handed out. Only if it cannot have arrived, or after a cancel */
};

enum { TR_SEND_CODE = 16, TR_SEND_WHY = 160 };

/* One job on its way. */
struct tr_send {
    /* The core's: what is to be sent. Texts have no end, only a length; NULL: there is none. */
    uint64_t id; /* also what makes repetitions known: the same each time */
    const char *topic;
    size_t topic_len;
    const char *key; /* UTF-8 without control characters */
    size_t key_len;
    const char *tag;
    size_t tag_len;
    const uint8_t *body; /* any bytes; never NULL */
    size_t body_len;
    uint32_t attempt; /* from 1 on */
    uint64_t due_us;  /* wall clock, UTC */
    uint64_t late_us; /* became ready - due */

    /* The sender's, from `send` to `done`. */
    void *own;
    struct tr_send *next;

    /* The answer, set by the sender before `done`. */
    enum tr_send_outcome outcome;
    bool has_retry_after; /* FAILED, UNREACHABLE: not before so long, whatever the backoff says */
    uint64_t retry_after_us;
    char code[TR_SEND_CODE]; /* for metrics, a few different ones only: "200", "ok", "timeout",
                                "connect", "nack"; always set but for BACK */
    char why[TR_SEND_WHY];   /* for people, one line, no secret in it; empty if OK */
};

/* What a sender may ask of the core. */
struct tr_sender_host {
    void *ctx;
    bool allow_private;      /* else private, loopback and link-local addresses are refused: see
                                outlet/guard.h. Does not change */
    void (*wake)(void *ctx); /* any thread: `collect` is called soon */
    void (*done)(void *ctx, struct tr_send *s); /* loop's thread: s is the core's again */
    const char *topic;                          /* whose outlet this is, with a NUL */
    const struct tr_poller *poller;             /* sockets on the loop */
    void **shared; /* one place for all senders of this kind, NULL at first: whoever puts something
                      there (a library's handle) sees to it that the last sender frees it */
};

struct tr_sender_kind {
    enum tr_deliver_type type;

    /* What is wrong with d that tr_deliver_check does not see, such as a url that the library
     * cannot read: the end of a sentence that begins with the name of the field; NULL: nothing.
     * NULL: it sees all. */
    const char *(*fault)(const struct tr_deliver *d);

    /* d passed tr_deliver_check. TARRY_ENOMEM, TARRY_EFULL (threads, files): is tried again. */
    int (*open)(void **sender, const struct tr_deliver *d, const struct tr_sender_host *host);

    /* So many sends may be under way at a time: at least 1, does not change. */
    unsigned (*window)(const void *sender);

    /* Exactly one `done` follows for each send. A sender has a time-out of its own for all that it
     * does, so that it follows in any case. */
    void (*send)(void *sender, struct tr_send *s);

    /* Its result is not wanted any more: the job is gone, or its lease is lost. `done` still
     * follows, soon if possible. NULL: it cannot be hurried. */
    void (*cancel)(void *sender, struct tr_send *s);

    /* host->wake was called, by whichever sender of this host: calls `done` for all that came
     * back. NULL: this sender has no thread. */
    void (*collect)(void *sender);

    /* No more sends: what is under way ends as soon as can be, with `done` for each, BACK or as it
     * went. Called once; a thread ends itself after it, and says so by wake. Must come to its end
     * within a second or two: cancel what can be cancelled. */
    void (*stop)(void *sender);

    /* After `stop`: are all sends done and is the thread at its end, so that `close` does not
     * wait? */
    bool (*stopped)(const void *sender);

    /* Frees it. It is stopped; or nothing was ever sent. A sender that never stops is left alone
     * when the process ends: wake is harmless even then, all else of the host is not. */
    void (*close)(void *sender);
};

/* The kind for a type; NULL: this build has none. */
const struct tr_sender_kind *tr_sender_kind_of(enum tr_deliver_type type);

#endif
