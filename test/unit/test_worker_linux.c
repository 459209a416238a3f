/* The thread beside the loop: what it is given comes back, done, in order, and it stops. */

#include "os/worker_linux.h"

#include "base/err.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { TASKS = 2000 };

struct item {
    struct tr_task task;
    unsigned number;
    bool ran;
    pthread_t by;
    struct bell *holds; /* the first of them waits until this rings */
};

struct bell {
    pthread_mutex_t lock;
    pthread_cond_t more;
    unsigned rung;
};

static struct item items[TASKS];

static void ring(void *ctx)
{
    struct bell *b = ctx;

    pthread_mutex_lock(&b->lock);
    b->rung++;
    pthread_cond_broadcast(&b->more);
    pthread_mutex_unlock(&b->lock);
}

/* Waits until it rang so often. */
static void hear(struct bell *b, unsigned times)
{
    pthread_mutex_lock(&b->lock);
    while (b->rung < times) {
        pthread_cond_wait(&b->more, &b->lock);
    }
    pthread_mutex_unlock(&b->lock);
}

static void run(struct tr_task *task)
{
    struct item *i = TR_CONTAINER_OF(task, struct item, task);

    if (i->holds != NULL) {
        hear(i->holds, 1);
    }
    i->ran = true;
    i->by = pthread_self();
}

static void give(struct tr_worker_linux *w, unsigned number, struct bell *holds)
{
    items[number] = (struct item){.task.run = run, .number = number, .holds = holds};
    tr_worker_linux_give(w, &items[number].task);
}

static void test_worker_does_all_in_order(void **state)
{
    struct bell bell = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct tr_worker_linux *w;
    unsigned taken = 0;

    (void)state;
    assert_int_equal(tr_worker_linux_open(&w, "test", ring, &bell), TARRY_OK);
    for (unsigned i = 0; i < TASKS; i++) {
        give(w, i, NULL);
    }
    while (taken < TASKS) {
        struct tr_task *task = tr_worker_linux_take(w);

        if (task == NULL) { /* whoever finds none will hear of the next one */
            unsigned rung = 0;

            pthread_mutex_lock(&bell.lock);
            rung = bell.rung;
            pthread_mutex_unlock(&bell.lock);
            task = tr_worker_linux_take(w);
            if (task == NULL) {
                hear(&bell, rung + 1);
            }
        }
        for (; task != NULL; task = task->next) {
            const struct item *i = TR_CONTAINER_OF(task, struct item, task);

            assert_int_equal(i->number, taken);
            assert_true(i->ran);
            assert_false(pthread_equal(i->by, pthread_self()));
            taken++;
        }
    }
    tr_worker_linux_stop(w);
    assert_null(tr_worker_linux_take(w));
    tr_worker_linux_close(w);
}

/* What was not begun is given back undone; what is being done is waited for. */
static void test_worker_stops(void **state)
{
    struct bell bell = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct bell gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct tr_worker_linux *w;
    struct tr_task *task;
    unsigned count = 0;
    unsigned ran = 0;

    (void)state;
    assert_int_equal(tr_worker_linux_open(&w, "test", ring, &bell), TARRY_OK);
    for (unsigned i = 0; i < 10; i++) {
        give(w, i, i == 0 ? &gate : NULL);
    }
    ring(&gate);
    tr_worker_linux_stop(w);
    for (task = tr_worker_linux_take(w); task != NULL; task = task->next) {
        const struct item *i = TR_CONTAINER_OF(task, struct item, task);

        assert_int_equal(i->number, count);
        assert_true(!i->ran || ran == count); /* those that ran come first */
        ran += i->ran;
        count++;
    }
    assert_int_equal(count, 10);
    tr_worker_linux_close(w);
    tr_worker_linux_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worker_does_all_in_order),
        cmocka_unit_test(test_worker_stops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
