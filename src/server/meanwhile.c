/*
 * The loop goes to a thread, and comes back.
 *
 *     main     begin --> what takes long ----------------> end (waits) --> runs the loop itself
 *     thread         \-> runs the loop ... over? stop --/
 *
 * Why the loop goes and the work stays: what the work makes is then the main thread's from its
 * first byte on. The allocator keeps a heap for each thread, and what a store takes should not be
 * in another one than what is added to it later.
 *
 * A task that was not begun when all is over is never done: a short piece of work costs a thread
 * that comes and goes.
 */

#include "server/meanwhile.h"

#include "base/err.h"

static void run(struct tr_task *task)
{
    struct tr_meanwhile *m = TR_CONTAINER_OF(task, struct tr_meanwhile, task);

    tr_loop_linux_run(m->loop);
}

bool tr_meanwhile_begin(struct tr_meanwhile *m, struct tr_loop_linux *loop)
{
    m->loop = loop;
    m->task.run = run;
    atomic_store(&m->over, false);
    if (tr_worker_linux_open(&m->worker, "tarry-start", tr_loop_linux_wake, loop) != TARRY_OK) {
        return false;
    }
    tr_worker_linux_give(m->worker, &m->task);
    return true;
}

bool tr_meanwhile_over(const struct tr_meanwhile *m)
{
    return atomic_load(&m->over);
}

void tr_meanwhile_end(struct tr_meanwhile *m)
{
    atomic_store(&m->over, true);
    tr_loop_linux_wake(m->loop);
    tr_worker_linux_stop(m->worker);
    (void)tr_worker_linux_take(m->worker);
    tr_worker_linux_close(m->worker);
    m->worker = NULL;
    tr_loop_linux_wake(m->loop); /* a loop that was stopped begins no turn by itself */
}
