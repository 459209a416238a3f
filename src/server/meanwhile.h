#ifndef TR_SERVER_MEANWHILE_H
#define TR_SERVER_MEANWHILE_H

/*
 * Somebody runs the loop while the main thread does something long. See meanwhile.c.
 *
 * Threads: begin and end are the main thread's. Between them the loop, and all that its calls
 * touch, belongs to another thread.
 */

#include "os/loop_linux.h"
#include "os/worker_linux.h"

#include <stdatomic.h>
#include <stdbool.h>

struct tr_meanwhile {
    struct tr_task task;
    struct tr_loop_linux *loop;
    struct tr_worker_linux *worker;
    atomic_bool over;
};

/* m is zeroed. False: there is no thread to be had, and nobody runs the loop. */
TR_MUST_USE bool tr_meanwhile_begin(struct tr_meanwhile *m, struct tr_loop_linux *loop);

/* To be asked in each turn of the loop: it has to stop. */
bool tr_meanwhile_over(const struct tr_meanwhile *m);

/* The loop is the main thread's again; signals and wakes that were not told are told by its next
 * run. */
void tr_meanwhile_end(struct tr_meanwhile *m);

#endif
