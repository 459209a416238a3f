#ifndef TR_LIB_INNER_H
#define TR_LIB_INNER_H

/*
 * Between the files of the library: store.c has the thread and the door to it, calls.c what is
 * asked of it, give.c what users see of a job.
 */

#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/name.h"
#include "engine/engine.h"
#include "os/disk_linux.h"
#include "os/sleep_linux.h"

#include "tarry.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct tr_call;
typedef void tr_step_fn(struct tr_call *c);

/*
 * What one thread asks. It stands on that thread's stack, which sleeps until `told`. In between it
 * belongs to the thread of the store, which does its steps: each asks the engine something and
 * says what comes `then`.
 */
struct tr_call {
    struct tarry *store;
    tr_step_fn *begin;
    tr_step_fn *then;
    struct tr_req req;
    struct tr_req side; /* topics: answered at once */

    const char *topic;                /* or NULL */
    char name[TR_TOPIC_NAME_MAX + 1]; /* of a topic that the engine told */
    const char *const *topics;
    size_t topic_count;
    uint32_t *held; /* RESERVE: topics that are held; room for topic_count */
    size_t held_count;
    bool waits; /* a reserve: a close ends it */

    int status;
    uint64_t gate;               /* the answer may be told when this batch is durable */
    struct tarry_result *result; /* or NULL; what was answered is copied to it */
    struct tarry_job *job;
    struct tarry_stats *stats;
    uint64_t number;

    struct tr_list link; /* of store->inbox, then of busy, then of gated */
    bool told;           /* under store->lock */
    pthread_cond_t answered;
};

struct tarry {
    pid_t pid;
    pthread_t thread;
    pthread_mutex_t lock; /* of the next four, and of `told` in calls */
    struct tr_list inbox;
    unsigned users; /* threads inside a call */
    bool closing;
    bool awake; /* the thread will look into the inbox before it sleeps */

    /* The thread's own from here on. */
    struct tr_mem mem;
    struct tr_sleep_linux sleep;
    struct tr_disk_linux *disk;
    struct tr_engine *engine;
    struct tr_list busy;
    struct tr_list gated;
    uint64_t durable;
    size_t body_max; /* never changed */
    int closed_with;
    void (*note)(void *ctx, enum tarry_note kind, const char *text);
    void *note_ctx;
};

/* Has the call done, and gives its status; TARRY_EINVAL: there is no store. From any thread but the
 * store's. */
TR_MUST_USE int tr_call_run(struct tarry *t, struct tr_call *c);

/* On the store's thread: the next step, and the last. */
void tr_call_ask(struct tr_call *c, enum tr_op op, tr_step_fn *then);
void tr_call_end(struct tr_call *c, int status);

/* The same for c->side, which is answered before it returns: the status. */
int tr_call_ask_now(struct tr_call *c, enum tr_op op);

/* A reserve that need not wait any more, since the store is closed: gives up what it holds. */
void tr_call_give_up(struct tr_call *c);

/* A job for the user, from a view and the name of its topic. NULL: no memory. */
struct tarry_job *tr_give_job(const struct tr_job_view *v, const char *topic, size_t topic_len);

/* What was answered of a job, as far as the caller's version of the struct goes. */
void tr_give_result(struct tarry_result *to, const struct tr_req *r);

/* Copies a struct that begins with its size: what the caller's version does not have is as in
 * `to`. TARRY_EUNSUPPORTED: it is longer than ours; TARRY_EINVAL: it is NULL, or has no size. */
TR_MUST_USE int tr_give_take(void *to, size_t size, const void *from);

#endif
