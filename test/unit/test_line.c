/*
 * The thread of a sender and its line, with a broker that is a pair of sockets: it confirms with a
 * byte y, refuses with n, and hangs up when its end is closed.
 */

#include "base/err.h"
#include "outlet/line.h"

#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { JOBS = TR_POST_WINDOW };

struct sender {
    struct tr_line line; /* first */
};

/* What the broker is like, and what the core has seen. */
static struct {
    sem_t woken;
    atomic_int refusals; /* so many dials fail */
    atomic_bool holds;   /* it takes nothing just now */
    atomic_bool greets;  /* it says h before it takes anything */
    atomic_int dials;
    atomic_int far_end; /* of the socket */
    struct tr_send sends[JOBS];
    int done[JOBS];
    int done_count;
} test;

static void on_wake(void *ctx)
{
    (void)ctx;
    (void)sem_post(&test.woken);
}

static void on_done(void *ctx, struct tr_send *s)
{
    (void)ctx;
    test.done[s - test.sends]++;
    test.done_count++;
}

static const struct tr_sender_host host = {
    .allow_private = true, .wake = on_wake, .done = on_done, .topic = "t"};

static bool dial(struct tr_line *l)
{
    int pair[2];
    char byte;

    atomic_fetch_add(&test.dials, 1);
    if (atomic_load(&test.refusals) > 0) {
        atomic_fetch_sub(&test.refusals, 1);
        return tr_line_note(l, "connect", "nobody\nthere\xff");
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    l->fd = pair[0];
    atomic_store(&test.far_end, pair[1]);
    while (atomic_load(&test.greets) && recv(pair[0], &byte, 1, MSG_DONTWAIT) != 1) {
        (void)tr_post_wait_for(&l->post, pair[0], POLLIN, UINT64_MAX);
    }
    return true;
}

static bool pump(struct tr_line *l)
{
    struct tr_post_answer yes = {TR_SEND_OK, "ok", NULL};
    struct tr_post_answer no = {TR_SEND_FAILED, "no", "it says no"};
    char byte;
    ssize_t n;

    while ((n = recv(l->fd, &byte, 1, MSG_DONTWAIT)) > 0) {
        tr_line_confirm(l, tr_mails_pop(&l->sent), byte == 'y' ? &yes : &no);
    }
    if (n == 0) {
        return tr_line_note(l, "connect", "it hung up");
    }
    l->held = atomic_load(&test.holds) ? "it is full" : NULL;
    while (l->waiting.first != NULL && l->held == NULL) {
        tr_mails_append(&l->sent, tr_mails_pop(&l->waiting));
        n = send(l->fd, "j", 1, MSG_NOSIGNAL);
        if (n != 1) {
            return tr_line_note(l, "connect", "it hung up");
        }
    }
    return true;
}

static void hang_up(struct tr_line *l, bool polite)
{
    (void)polite;
    if (l->fd >= 0) {
        (void)close(l->fd);
    }
}

static struct sender *start(uint64_t timeout_us)
{
    static const struct tr_line_ops ops = {"test", UINT64_MAX, dial, pump, hang_up};
    struct tr_deliver d = {.type = TR_DELIVER_REDIS, .timeout_us = timeout_us};
    struct sender *s = calloc(1, sizeof *s);

    memset(&test, 0, sizeof test);
    atomic_store(&test.far_end, -1);
    assert_int_equal(sem_init(&test.woken, 0, 0), 0);
    assert_non_null(s);
    s->line.ops = &ops;
    assert_int_equal(tr_line_open(&s->line, &host, &d), TARRY_OK);
    return s;
}

static void give(struct sender *s, int from, int count)
{
    for (int i = from; i < from + count; i++) {
        test.sends[i].id = (uint64_t)i;
        test.sends[i].outcome = TR_SEND_REFUSED;
        tr_post_send(s, &test.sends[i]);
    }
}

/* Until so many are done. */
static void collect(struct sender *s, int count)
{
    while (test.done_count < count) {
        assert_int_equal(sem_wait(&test.woken), 0);
        tr_post_collect(s);
    }
}

static void finish(struct sender *s)
{
    tr_post_stop(s);
    while (!tr_post_stopped(s)) {
        assert_int_equal(sem_wait(&test.woken), 0);
        tr_post_collect(s);
    }
    tr_post_close(s);
    if (atomic_load(&test.far_end) >= 0) {
        (void)close(atomic_load(&test.far_end));
    }
    (void)sem_destroy(&test.woken);
}

/* The broker reads that many jobs and answers each. */
static void broker(int count, char answer)
{
    char byte;

    while (atomic_load(&test.far_end) < 0) {
        sched_yield();
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(recv(atomic_load(&test.far_end), &byte, 1, 0), 1);
        if (answer != '\0') {
            assert_int_equal(send(atomic_load(&test.far_end), &answer, 1, MSG_NOSIGNAL), 1);
        }
    }
}

static void expect(int from, int count, enum tr_send_outcome outcome, const char *code)
{
    for (int i = from; i < from + count; i++) {
        assert_int_equal(test.done[i], 1);
        assert_int_equal(test.sends[i].outcome, outcome);
        if (code != NULL) {
            assert_string_equal(test.sends[i].code, code);
        }
    }
}

static void test_line_confirms_each_once(void **state)
{
    struct sender *s = start(TR_DELIVER_TIMEOUT_US);

    (void)state;
    assert_int_equal(atomic_load(&test.dials), 0); /* nothing to send, nothing to connect for */
    assert_int_equal(tr_post_window(s), JOBS);
    give(s, 0, JOBS);
    broker(JOBS / 2, 'y');
    broker(JOBS / 2, 'n');
    collect(s, JOBS);
    expect(0, JOBS / 2, TR_SEND_OK, "ok");
    expect(JOBS / 2, JOBS / 2, TR_SEND_FAILED, "no");
    assert_string_equal(test.sends[0].why, "");
    assert_string_equal(test.sends[JOBS - 1].why, "it says no");
    assert_int_equal(atomic_load(&test.dials), 1);
    finish(s);
}

/* What comes while it connects must not wait for the next event after that. */
static void test_line_sends_what_came_while_it_connected(void **state)
{
    struct sender *s = start(TR_DELIVER_TIMEOUT_US);

    (void)state;
    atomic_store(&test.greets, true);
    give(s, 0, 1);
    broker(0, 'y');
    give(s, 1, 4);
    usleep(2000); /* so that it most likely has heard the bell */
    assert_int_equal(send(atomic_load(&test.far_end), "h", 1, MSG_NOSIGNAL), 1);
    broker(5, '\0');
    assert_int_equal(send(atomic_load(&test.far_end), "yyyyy", 5, MSG_NOSIGNAL), 5);
    collect(s, 5);
    expect(0, 5, TR_SEND_OK, "ok");
    finish(s);
}

static void test_line_that_cannot_connect_tells_all_who_wait(void **state)
{
    struct sender *s = start(TR_DELIVER_TIMEOUT_US);

    (void)state;
    atomic_store(&test.refusals, 1);
    give(s, 0, 1);
    collect(s, 1);
    expect(0, 1, TR_SEND_UNREACHABLE, "connect");
    assert_string_equal(test.sends[0].why, "nobody there"); /* one line of ASCII */
    give(s, 1, 10);                                         /* after the pause they come through */
    broker(10, 'y');
    collect(s, 11);
    expect(1, 10, TR_SEND_OK, "ok");
    finish(s);
}

static void test_line_that_breaks_loses_what_was_sent_and_no_more(void **state)
{
    struct sender *s = start(TR_DELIVER_TIMEOUT_US);
    int end;

    (void)state;
    give(s, 0, 10);
    broker(10, '\0');
    end = atomic_exchange(&test.far_end, -1);
    assert_int_equal(send(end, "yyy", 3, MSG_NOSIGNAL), 3);
    (void)close(end);
    collect(s, 10);
    expect(0, 3, TR_SEND_OK, "ok");
    expect(3, 7, TR_SEND_UNREACHABLE, "connect");
    give(s, 10, 5);
    broker(5, 'y');
    collect(s, 15);
    expect(10, 5, TR_SEND_OK, "ok");
    assert_int_equal(atomic_load(&test.dials), 2);
    finish(s);
}

static void test_line_gives_up_what_is_not_confirmed_in_time(void **state)
{
    struct sender *s = start(20000);

    (void)state;
    give(s, 0, 3);
    collect(s, 3);
    expect(0, 3, TR_SEND_UNREACHABLE, "timeout");
    finish(s);
}

static void test_line_with_bad_settings_tells_so(void **state)
{
    struct sender *s = start(TR_DELIVER_TIMEOUT_US);

    (void)state;
    s->line.bad = "the url is bad";
    give(s, 0, 1);
    collect(s, 1);
    expect(0, 1, TR_SEND_UNREACHABLE, "url");
    assert_int_equal(atomic_load(&test.dials), 0);
    finish(s);
}

static void test_line_that_is_held_tells_why(void **state)
{
    struct sender *s = start(20000);

    (void)state;
    atomic_store(&test.holds, true);
    give(s, 0, 3);
    collect(s, 3);
    expect(0, 3, TR_SEND_UNREACHABLE, "timeout");
    assert_string_equal(test.sends[0].why, "it is full");
    finish(s);
}

static void test_line_stops_and_gives_back_what_was_not_sent(void **state)
{
    struct sender *s = start(TR_DELIVER_TIMEOUT_US);

    (void)state;
    atomic_store(&test.holds, true);
    give(s, 0, 4);
    finish(s);
    expect(0, 4, TR_SEND_BACK, NULL);
}

static void test_line_waits_for_what_was_sent_when_it_stops(void **state)
{
    struct sender *s = start(TR_DELIVER_TIMEOUT_US);

    (void)state;
    give(s, 0, 4);
    broker(4, '\0');
    tr_post_stop(s);
    assert_int_equal(send(atomic_load(&test.far_end), "yy", 2, MSG_NOSIGNAL), 2);
    finish(s);
    expect(0, 2, TR_SEND_OK, "ok");
    expect(2, 2, TR_SEND_UNREACHABLE, "stopped"); /* they may have arrived */
}

static void test_line_closes_if_nothing_was_sent(void **state)
{
    struct sender *s = start(TR_DELIVER_TIMEOUT_US);

    (void)state;
    tr_post_close(s);
    (void)sem_destroy(&test.woken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_confirms_each_once),
        cmocka_unit_test(test_line_sends_what_came_while_it_connected),
        cmocka_unit_test(test_line_that_cannot_connect_tells_all_who_wait),
        cmocka_unit_test(test_line_that_breaks_loses_what_was_sent_and_no_more),
        cmocka_unit_test(test_line_gives_up_what_is_not_confirmed_in_time),
        cmocka_unit_test(test_line_with_bad_settings_tells_so),
        cmocka_unit_test(test_line_that_is_held_tells_why),
        cmocka_unit_test(test_line_stops_and_gives_back_what_was_not_sent),
        cmocka_unit_test(test_line_waits_for_what_was_sent_when_it_stops),
        cmocka_unit_test(test_line_closes_if_nothing_was_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
