/*
 * The loop alone. The one test with a time waits for a millisecond that is never measured from
 * above: that a turn does not come early holds on any machine.
 */

#include "base/err.h"
#include "os/clock_linux.h"
#include "os/loop_linux.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct tr_loop_linux *loop;
    unsigned turns;
    unsigned turns_max; /* the last one stops the loop */
    unsigned wakes;
    unsigned signals[3];
    uint64_t turn_at; /* what every turn but the last gives */
    uint64_t last_us; /* when the last turn came */
    bool stop_on_wake;
};

static void on_woken(void *ctx)
{
    struct fixture *f = ctx;

    f->wakes++;
    if (f->stop_on_wake) {
        tr_loop_linux_stop(f->loop);
    }
}

static void on_signalled(void *ctx, enum tr_loop_signal what)
{
    struct fixture *f = ctx;

    f->signals[what]++;
}

static uint64_t on_turn(void *ctx)
{
    struct fixture *f = ctx;

    f->turns++;
    f->last_us = tr_clock_linux_now().boot_us;
    if (f->turns == f->turns_max) {
        tr_loop_linux_stop(f->loop);
        return UINT64_MAX;
    }
    return f->turn_at;
}

static void set_up(struct fixture *f)
{
    struct tr_loop_calls calls = {
        .ctx = f, .woken = on_woken, .signalled = on_signalled, .turn = on_turn};

    *f = (struct fixture){.turn_at = UINT64_MAX};
    assert_int_equal(tr_loop_linux_open(&f->loop, &calls), TARRY_OK);
}

static void test_loop_turns_at_once_when_the_time_is_past(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    f.turn_at = 0;
    f.turns_max = 1000;
    tr_loop_linux_run(f.loop);
    assert_int_equal(f.turns, 1000);
    tr_loop_linux_close(f.loop);
}

static void test_loop_turn_is_not_early(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    for (unsigned i = 0; i < 5; i++) {
        f.turns = 0;
        f.turns_max = 2;
        f.turn_at = tr_clock_linux_now().boot_us + 1000;
        tr_loop_linux_run(f.loop);
        assert_true(f.last_us >= f.turn_at);
        /* The loop was left with no time to wait for: a new run begins with a wake. */
        tr_loop_linux_wake(f.loop);
    }
    tr_loop_linux_close(f.loop);
}

static void *wake_from_thread(void *arg)
{
    tr_loop_linux_wake(arg);
    return NULL;
}

static void test_loop_is_woken_by_another_thread(void **state)
{
    struct fixture f;
    pthread_t thread;

    (void)state;
    set_up(&f);
    f.stop_on_wake = true;
    assert_int_equal(pthread_create(&thread, NULL, wake_from_thread, f.loop), 0);
    tr_loop_linux_run(f.loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(f.wakes, 1);
    assert_true(f.turns >= 1); /* also the round of the wake has its turn */
    tr_loop_linux_close(f.loop);
}

static void *run_on_thread(void *arg)
{
    tr_loop_linux_run(arg);
    return NULL;
}

/* It may be another thread that runs it for a while; what it is told of meanwhile it hears there,
 * and the rest later. */
static void test_loop_goes_to_a_thread_and_comes_back(void **state)
{
    struct fixture f;
    pthread_t thread;

    (void)state;
    set_up(&f);
    f.turns_max = 3;
    f.turn_at = 0;
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    assert_int_equal(kill(getpid(), SIGTERM), 0); /* held back here: who runs the loop hears it */
    assert_true(tr_loop_linux_stop_waits());
    assert_int_equal(pthread_create(&thread, NULL, run_on_thread, f.loop), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(f.turns, 3);
    assert_int_equal(f.signals[TR_LOOP_STOP], 1);
    assert_int_equal(f.signals[TR_LOOP_DRAIN], 1);
    assert_false(tr_loop_linux_stop_waits());
    assert_int_equal(raise(SIGINT), 0);
    assert_true(tr_loop_linux_stop_waits());
    tr_loop_linux_wake(f.loop);
    f.turns_max = 6;
    tr_loop_linux_run(f.loop);
    assert_int_equal(f.signals[TR_LOOP_STOP], 2);
    assert_int_equal(f.wakes, 1);
    tr_loop_linux_close(f.loop);
}

static void test_loop_holds_signals_until_it_runs(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    assert_false(tr_loop_linux_stop_waits());
    assert_int_equal(raise(SIGUSR1), 0);
    assert_false(tr_loop_linux_stop_waits());
    assert_int_equal(raise(SIGTERM), 0);
    assert_true(tr_loop_linux_stop_waits());
    assert_int_equal(raise(SIGINT), 0);
    assert_int_equal(raise(SIGHUP), 0);
    assert_int_equal(raise(SIGPIPE), 0);
    assert_int_equal(raise(SIGXFSZ), 0);
    f.turn_at = 0;
    f.turns_max = 3;
    tr_loop_linux_run(f.loop);
    assert_int_equal(f.signals[TR_LOOP_STOP], 2);
    assert_int_equal(f.signals[TR_LOOP_DRAIN], 1);
    assert_int_equal(f.signals[TR_LOOP_RELOAD], 1);
    tr_loop_linux_close(f.loop);
}

/*
 * With room for n files it does not open, until n is enough. The one before makes the pipe that
 * libuv keeps for the whole process; without room for that, libuv aborts. By two, because
 * libuv 1.44 loses the epoll file when its loop cannot be made, and would never have enough.
 */
static void test_loop_open_fails_without_files(void **state)
{
    struct tr_loop_calls calls = {.woken = on_woken, .signalled = on_signalled, .turn = on_turn};
    struct tr_loop_linux *loop = NULL;
    struct rlimit old;
    int err = TARRY_EFULL;
    unsigned failures = 0;
    int first;

    (void)state;
    assert_int_equal(tr_loop_linux_open(&loop, &calls), TARRY_OK);
    tr_loop_linux_close(loop);
    first = dup(0);
    assert_true(first >= 0);
    close(first);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    for (rlim_t n = (rlim_t)first; err != TARRY_OK; n += 2) {
        struct rlimit now = {.rlim_cur = n, .rlim_max = old.rlim_max};

        assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
        err = tr_loop_linux_open(&loop, &calls);
        if (err != TARRY_OK) {
            assert_int_equal(err, TARRY_EFULL);
            assert_null(loop);
            failures++;
        }
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_true(failures > 0);
    tr_loop_linux_close(loop);
    tr_loop_linux_close(NULL);
}

/* A signal that comes when the loop is closed does not end the program before it has ended. */
static void test_loop_signals_after_the_end_do_nothing(void **state)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    struct tr_loop_calls calls = {.woken = on_woken, .signalled = on_signalled, .turn = on_turn};
    struct tr_loop_linux *loop = NULL;
    sigset_t waiting;

    (void)state;
    assert_int_equal(tr_loop_linux_open(&loop, &calls), TARRY_OK);
    tr_loop_linux_close(loop);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_int_equal(raise(numbers[i]), 0);
    }
    assert_int_equal(sigpending(&waiting), 0);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_int_equal(sigismember(&waiting, numbers[i]), 1);
        (void)signal(numbers[i], SIG_IGN); /* so it is dropped: other tests follow */
        (void)signal(numbers[i], SIG_DFL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_open_fails_without_files),
        cmocka_unit_test(test_loop_turns_at_once_when_the_time_is_past),
        cmocka_unit_test(test_loop_turn_is_not_early),
        cmocka_unit_test(test_loop_is_woken_by_another_thread),
        cmocka_unit_test(test_loop_goes_to_a_thread_and_comes_back),
        cmocka_unit_test(test_loop_holds_signals_until_it_runs),
        cmocka_unit_test(test_loop_signals_after_the_end_do_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
