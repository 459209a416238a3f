#ifndef TR_OS_WORKER_LINUX_H
#define TR_OS_WORKER_LINUX_H

/*
 * A thread beside the loop for calculations that take long: tasks go in, and come back done, in
 * order. See worker_linux.c.
 *
 * Threads: all calls but the task's own `run` are made by one thread, the loop's.
 */

#include "base/check.h"

/* What is to be done. It is the worker's from tr_worker_linux_give on until it was taken. */
struct tr_task {
    struct tr_task *next;
    void (*run)(struct tr_task *task); /* on the thread of the worker */
};

struct tr_worker_linux;

/* wake is called by the worker's thread when there is something to take. TARRY_EFULL. */
TR_MUST_USE int tr_worker_linux_open(struct tr_worker_linux **out, const char *name,
                                     void (*wake)(void *ctx), void *ctx);

void tr_worker_linux_give(struct tr_worker_linux *w, struct tr_task *task);

/* What is done, oldest first, as a list; NULL: nothing. */
struct tr_task *tr_worker_linux_take(struct tr_worker_linux *w);

/* Waits for the task that is being done. Those that were not begun are never done; all of them can
 * be taken after this. */
void tr_worker_linux_stop(struct tr_worker_linux *w);

/* w is stopped, and all was taken; or NULL. */
void tr_worker_linux_close(struct tr_worker_linux *w);

#endif
