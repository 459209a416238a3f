/*
 * One thread, two lists.
 *
 *     give -> todo -> the thread, one after the other -> done -> wake -> take
 *
 * Invariant: a task is in one place: todo, the thread's hands, done, or its owner's.
 *
 * It follows: whoever has it may touch what hangs on it; the mutex between the places orders that.
 *
 * The thread sleeps when there is nothing to do. Only a task that comes to an empty list of done
 * ones wakes the loop, so a burst costs it few wake-ups. The thread is less urgent than the loop
 * (nice), as what it does may take long and nothing is late by it.
 */

#include "os/worker_linux.h"

#include "base/err.h"
#include "os/thread_linux.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NICE = 5 };

struct list {
    struct tr_task *first;
    struct tr_task *last;
};

struct tr_worker_linux {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct list todo;
    struct list done;
    bool stop;
    void (*wake)(void *ctx);
    void *ctx;
};

static void append(struct list *l, struct tr_task *task)
{
    task->next = NULL;
    if (l->last != NULL) {
        l->last->next = task;
    } else {
        l->first = task;
    }
    l->last = task;
}

/* The next task; NULL: it is to stop. */
static struct tr_task *wait_for(struct tr_worker_linux *w)
{
    struct tr_task *task;

    pthread_mutex_lock(&w->lock);
    while (w->todo.first == NULL && !w->stop) {
        pthread_cond_wait(&w->more, &w->lock);
    }
    task = w->stop ? NULL : w->todo.first;
    if (task != NULL) {
        w->todo.first = task->next;
        w->todo.last = task->next != NULL ? w->todo.last : NULL;
    }
    pthread_mutex_unlock(&w->lock);
    return task;
}

static void *work(void *arg)
{
    struct tr_worker_linux *w = arg;
    struct tr_task *task;

    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* on Linux, of this thread */
    while ((task = wait_for(w)) != NULL) {
        bool first;

        task->run(task);
        pthread_mutex_lock(&w->lock);
        first = w->done.first == NULL;
        append(&w->done, task);
        pthread_mutex_unlock(&w->lock);
        if (first) {
            w->wake(w->ctx);
        }
    }
    return NULL;
}

int tr_worker_linux_open(struct tr_worker_linux **out, const char *name, void (*wake)(void *ctx),
                         void *ctx)
{
    struct tr_worker_linux *w = calloc(1, sizeof *w);
    int err;

    *out = NULL;
    if (w == NULL) {
        return TARRY_EFULL;
    }
    w->wake = wake;
    w->ctx = ctx;
    err = pthread_mutex_init(&w->lock, NULL);
    TR_CHECK(err == 0);
    err = pthread_cond_init(&w->more, NULL);
    TR_CHECK(err == 0);
    if (!tr_thread_start(&w->thread, name, work, w)) {
        free(w);
        return TARRY_EFULL;
    }
    *out = w;
    return TARRY_OK;
}

void tr_worker_linux_give(struct tr_worker_linux *w, struct tr_task *task)
{
    pthread_mutex_lock(&w->lock);
    TR_CHECK(!w->stop);
    append(&w->todo, task);
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

struct tr_task *tr_worker_linux_take(struct tr_worker_linux *w)
{
    struct tr_task *first;

    pthread_mutex_lock(&w->lock);
    first = w->done.first;
    w->done = (struct list){0};
    pthread_mutex_unlock(&w->lock);
    return first;
}

void tr_worker_linux_stop(struct tr_worker_linux *w)
{
    struct tr_task *next;
    int err;

    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
    err = pthread_join(w->thread, NULL);
    TR_CHECK(err == 0);
    for (struct tr_task *task = w->todo.first; task != NULL; task = next) {
        next = task->next;
        append(&w->done, task);
    }
    w->todo = (struct list){0};
}

void tr_worker_linux_close(struct tr_worker_linux *w)
{
    if (w == NULL) {
        return;
    }
    TR_CHECK(w->stop);
    TR_CHECK(w->done.first == NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
    free(w);
}
