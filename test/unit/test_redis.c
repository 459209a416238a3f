/*
 * Connections to Redis, with a server that is a few lines of this file: it listens on a free port
 * of loopback and says what the test tells it to. The poller is the test's own, too, so that
 * nothing happens but inside of spin().
 */

#include "base/err.h"
#include "base/list.h"
#include "remote/redis.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { POLLS = 64, LOG = 65536, PATIENCE_MS = 60000 };

/* ---- A poller over poll(2). */

struct tr_poll {
    int fd; /* -1: not used */
    unsigned events;
    tr_poll_fn *fn;
    void *ctx;
    unsigned serial; /* of what is in this place */
};

struct tr_poll_timer {
    bool set;
    tr_poll_timer_fn *fn;
    void *ctx;
};

/* What the engine hears is written down as text: "up 1", "heard 1 7 OK,abc", "closed 1 why". */
static struct {
    struct tr_poll polls[POLLS];
    struct tr_poll_timer timer;
    unsigned serial;
    struct tr_mem mem;
    struct tr_redis *redis;
    struct tr_redis_port port;
    char log[LOG];
    size_t log_len;
    int listener;
    char server[64];
    bool inside;            /* a call of the port is being made */
    void (*then)(unsigned); /* called once by the next `heard` or `closed` */
} test;

static struct tr_poll *fake_open(void *ctx, int fd, tr_poll_fn *fn, void *fn_ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < POLLS; i++) {
        if (test.polls[i].fd < 0) {
            test.polls[i] = (struct tr_poll){fd, 0, fn, fn_ctx, ++test.serial};
            return &test.polls[i];
        }
    }
    return NULL;
}

static void fake_watch(struct tr_poll *p, unsigned events)
{
    p->events = events;
}

static void fake_close(struct tr_poll *p)
{
    p->fd = -1;
}

static struct tr_poll_timer *fake_timer_open(void *ctx, tr_poll_timer_fn *fn, void *fn_ctx)
{
    (void)ctx;
    test.timer = (struct tr_poll_timer){false, fn, fn_ctx};
    return &test.timer;
}

static void fake_timer_set(struct tr_poll_timer *t, uint64_t after_ms)
{
    assert_int_equal(after_ms, 0);
    t->set = true;
}

static void fake_timer_close(struct tr_poll_timer *t)
{
    t->set = false;
}

static const struct tr_poller poller = {.open = fake_open,
                                        .watch = fake_watch,
                                        .close = fake_close,
                                        .timer_open = fake_timer_open,
                                        .timer_set = fake_timer_set,
                                        .timer_close = fake_timer_close};

/* One round of a loop: waits for something to happen if wait_ms is not 0, and tells it. */
static bool spin(int wait_ms)
{
    struct pollfd fds[POLLS];
    unsigned serials[POLLS];
    bool any = test.timer.set;

    if (test.timer.set) {
        test.timer.set = false;
        test.timer.fn(test.timer.ctx);
    }
    for (unsigned i = 0; i < POLLS; i++) {
        const struct tr_poll *p = &test.polls[i];

        fds[i] = (struct pollfd){.fd = p->events != 0 ? p->fd : -1};
        fds[i].events = (short)(((p->events & TR_POLL_READ) != 0 ? POLLIN : 0) |
                                ((p->events & TR_POLL_WRITE) != 0 ? POLLOUT : 0));
        serials[i] = p->serial;
    }
    if (poll(fds, POLLS, any ? 0 : wait_ms) <= 0) {
        tr_redis_flush(test.redis);
        return any;
    }
    for (unsigned i = 0; i < POLLS; i++) {
        struct tr_poll *p = &test.polls[i];
        unsigned told = 0;

        told |= (fds[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0 ? TR_POLL_READ : 0U;
        told |= (fds[i].revents & POLLOUT) != 0 ? TR_POLL_WRITE : 0U;
        told |= (fds[i].revents & POLLERR) != 0 ? TR_POLL_ERROR : 0U;
        if (told != 0 && p->fd >= 0 && p->serial == serials[i]) {
            p->fn(p->ctx, p->fd, told);
        }
    }
    tr_redis_flush(test.redis);
    return true;
}

/* Until nothing happens any more. */
static void settle(void)
{
    while (spin(0)) {
    }
}

/* Until this is in the log. */
static void await(const char *what)
{
    int left_ms = PATIENCE_MS;

    while (strstr(test.log, what) == NULL) {
        left_ms -= spin(10) ? 0 : 10;
        if (left_ms <= 0) {
            fail_msg("no \"%s\" in \"%s\"", what, test.log);
        }
    }
}

/* ---- The engine's side. */

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(test.log + test.log_len, LOG - test.log_len, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < LOG - test.log_len);
    test.log_len += (size_t)n;
}

static void then(unsigned conn)
{
    void (*fn)(unsigned) = test.then;

    test.then = NULL;
    if (fn != NULL) {
        fn(conn);
    }
}

static void on_up(void *ctx, unsigned conn, struct tr_now now)
{
    (void)ctx;
    assert_false(test.inside);
    assert_int_equal(now.boot_us, 5);
    note("up %u\n", conn);
}

static void on_heard(void *ctx, unsigned conn, uint64_t tag, const struct tr_redis_reply *reply,
                     struct tr_now now)
{
    (void)ctx;
    assert_false(test.inside);
    assert_int_equal(now.wall_us, 6);
    then(conn);
    /* Only now: the answer has to be there still, whatever was closed. */
    note("heard %u %llu", conn, (unsigned long long)tag);
    if (reply->event == TR_REDIS_ERROR) {
        note(" -%.*s", (int)reply->error.len, reply->error.at);
    }
    for (size_t i = 0; reply->event == TR_REDIS_LIST && i < reply->count; i++) {
        const struct tr_span *item = &reply->items[i];

        if (item->at == NULL) {
            note(" nil");
        } else if (item->len > 100) {
            note(" [%zu %c]", item->len, item->at[item->len - 1]);
        } else {
            note(" \"%.*s\"", (int)item->len, item->at);
        }
    }
    note("\n");
}

static void on_closed(void *ctx, unsigned conn, const char *why, struct tr_now now)
{
    (void)ctx;
    (void)now;
    assert_false(test.inside);
    note("closed %u %s\n", conn, why);
    then(conn);
}

static struct tr_now fake_now(void)
{
    return (struct tr_now){.boot_us = 5, .wall_us = 6};
}

static void do_connect(unsigned conn, const char *server)
{
    test.inside = true;
    test.port.connect(test.port.ctx, conn, server);
    test.inside = false;
}

static void do_close(unsigned conn)
{
    test.inside = true;
    test.port.close(test.port.ctx, conn);
    test.inside = false;
}

/* A command of one or two words. */
static void say(unsigned conn, uint64_t tag, const char *one, const char *two)
{
    struct tr_span args[2] = {{one, strlen(one)}, {two, two != NULL ? strlen(two) : 0}};

    test.inside = true;
    test.port.send(test.port.ctx, conn, tag, args, two != NULL ? 2 : 1);
    test.inside = false;
}

/* ---- The server's side. */

static void open_listener(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    test.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(test.listener >= 0);
    assert_int_equal(bind(test.listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(test.listener, 16), 0);
    assert_int_equal(getsockname(test.listener, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(test.server, sizeof test.server, "127.0.0.1:%u", ntohs(at.sin_port));
}

static int accept_one(void)
{
    struct pollfd p = {.fd = test.listener, .events = POLLIN};
    int fd;

    for (int i = 0; i < PATIENCE_MS / 10 && poll(&p, 1, 10) == 0; i++) {
        (void)spin(0);
    }
    fd = accept4(test.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    return fd;
}

/* Reads exactly these bytes. */
static void expect(int fd, const char *bytes)
{
    char got[4096] = "";
    size_t want = strlen(bytes);
    size_t len = 0;
    int left_ms = PATIENCE_MS;

    assert_true(want < sizeof got);
    while (len < want && left_ms > 0) {
        ssize_t n = read(fd, got + len, want - len);

        assert_int_not_equal(n, 0);
        if (n > 0) {
            len += (size_t)n;
        } else {
            left_ms -= spin(10) ? 0 : 10;
        }
    }
    assert_string_equal(got, bytes);
}

static void expect_nothing(int fd)
{
    char byte;

    settle();
    assert_int_equal(read(fd, &byte, 1), -1);
    assert_int_equal(errno, EAGAIN);
}

static void answer(int fd, const char *bytes)
{
    assert_int_equal(write(fd, bytes, strlen(bytes)), strlen(bytes));
}

#define SETNAME "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$7\r\ntarry-1\r\n"

/* A connection that is up: the server's end. */
static int make(unsigned conn)
{
    char up[32];
    int fd;

    (void)snprintf(up, sizeof up, "up %u\n", conn);
    do_connect(conn, test.server);
    fd = accept_one();
    expect(fd, SETNAME);
    answer(fd, "+OK\r\n");
    await(up);
    test.log[test.log_len = 0] = '\0';
    return fd;
}

static void open_with(const char *user, const char *password)
{
    struct tr_redis_setup setup = {.mem = &test.mem,
                                   .poller = poller,
                                   .now = fake_now,
                                   .user = user,
                                   .password = password,
                                   .name = "tarry-1"};
    struct tr_redis_ear ear = {.up = on_up, .heard = on_heard, .closed = on_closed};

    memset(&test, 0, sizeof test);
    for (unsigned i = 0; i < POLLS; i++) {
        test.polls[i].fd = -1;
    }
    tr_mem_init(&test.mem, 0);
    open_listener();
    assert_int_equal(tr_redis_open(&test.redis, &setup), TARRY_OK);
    test.port = tr_redis_port(test.redis);
    tr_redis_listen(test.redis, ear);
}

static void close_all(void)
{
    tr_redis_close(test.redis);
    assert_int_equal(test.mem.used_bytes, 0);
    for (unsigned i = 0; i < POLLS; i++) {
        assert_int_equal(test.polls[i].fd, -1);
    }
    (void)close(test.listener);
}

/* ---- Tests. */

static void test_redis_is_up_after_its_greeting(void **state)
{
    int fd;

    (void)state;
    open_with(NULL, "");
    do_connect(3, test.server);
    assert_string_equal(test.log, "");
    fd = accept_one();
    expect(fd, SETNAME);
    settle();
    assert_string_equal(test.log, "");
    answer(fd, "+O");
    settle();
    assert_string_equal(test.log, "");
    answer(fd, "K\r\n");
    await("up 3\n");
    assert_string_equal(test.log, "up 3\n");
    assert_int_equal(tr_redis_stat(test.redis).conns, 1);
    (void)close(fd);
    await("closed 3");
    assert_non_null(strstr(test.log, "it closed the connection\n"));
    assert_int_equal(tr_redis_stat(test.redis).conns, 0);
    assert_int_equal(tr_redis_stat(test.redis).broken, 1);
    close_all();
}

static void test_redis_gives_user_and_password(void **state)
{
    int fd;

    (void)state;
    open_with("bob", "secret one");
    do_connect(0, test.server);
    fd = accept_one();
    expect(fd, "*3\r\n$4\r\nAUTH\r\n$3\r\nbob\r\n$10\r\nsecret one\r\n" SETNAME);
    answer(fd, "+OK\r\n-NOPERM this user has no permissions to run 'client|setname'\r\n");
    await("up 0\n"); /* a name is not worth a failure */
    (void)close(fd);
    close_all();

    open_with("", "secret");
    do_connect(0, test.server);
    fd = accept_one();
    expect(fd, "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n" SETNAME);
    answer(fd, "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    await("closed 0");
    assert_non_null(strstr(test.log, "closed 0 WRONGPASS invalid"));
    assert_null(strstr(test.log, "up"));
    (void)close(fd);
    close_all();
}

static void test_redis_tells_no_password(void **state)
{
    int fd;

    (void)state;
    open_with(NULL, "secret");
    do_connect(0, test.server);
    fd = accept_one();
    answer(fd, "-ERR unknown command 'AUTH', with args beginning with: 'secret' \r\n");
    await("closed 0");
    assert_non_null(strstr(test.log, "ERR unknown command 'AUTH'"));
    assert_null(strstr(test.log, "secret"));
    (void)close(fd);
    close_all();
}

static void test_redis_is_not_let_in(void **state)
{
    int fd;

    (void)state;
    open_with(NULL, NULL);
    do_connect(0, test.server);
    fd = accept_one();
    answer(fd, "-NOAUTH Authentication required.\r\n");
    await("closed 0");
    assert_string_equal(test.log, "closed 0 NOAUTH Authentication required.\n");
    (void)close(fd);
    do_connect(0, test.server);
    fd = accept_one();
    answer(fd, "-ERR max number of clients reached\r\n");
    (void)close(fd); /* before it has read what we say: a reset may eat the words */
    await("closed 0");
    close_all();
}

static void test_redis_sends_in_order_and_at_the_end_of_a_turn(void **state)
{
    int fd;

    (void)state;
    open_with(NULL, NULL);
    fd = make(7);
    say(7, 100, "GET", "a");
    say(7, 101, "PING", NULL);
    {
        char byte;

        assert_int_equal(read(fd, &byte, 1), -1); /* not yet */
    }
    assert_int_equal(tr_redis_stat(test.redis).writes, 1);
    tr_redis_flush(test.redis);
    assert_int_equal(tr_redis_stat(test.redis).writes, 2); /* both in one */
    expect(fd, "*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n");
    answer(fd, "$1\r\nb\r\n+PONG\r\n");
    await("heard 7 101");
    assert_string_equal(test.log, "heard 7 100 \"b\"\nheard 7 101 \"PONG\"\n");
    assert_int_equal(tr_redis_stat(test.redis).commands, 2);
    assert_int_equal(tr_redis_stat(test.redis).answers, 2);
    (void)close(fd);
    close_all();
}

/* Each kind of answer, whole, and byte by byte. */
static void test_redis_reads_every_kind(void **state)
{
    static const char bytes[] = "+OK\r\n:-42\r\n$-1\r\n*-1\r\n$0\r\n\r\n*0\r\n-MOVED 1 h:2\r\n"
                                "*4\r\n$1\r\nx\r\n$-1\r\n:7\r\n$0\r\n\r\n"
                                "*2\r\n*1\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n-ERR in a list\r\n";
    static const char told[] = "heard 1 0 \"OK\"\nheard 1 1 \"-42\"\nheard 1 2 nil\nheard 1 3 nil\n"
                               "heard 1 4 \"\"\nheard 1 5\nheard 1 6 -MOVED 1 h:2\n"
                               "heard 1 7 \"x\" nil \"7\" \"\"\n"
                               "heard 1 8 -ERR the answer has lists in lists\n"
                               "heard 1 9 -ERR the answer has lists in lists\n";

    (void)state;
    for (unsigned step = 1; step <= sizeof bytes; step += sizeof bytes - 1) {
        int fd;

        open_with(NULL, NULL);
        fd = make(1);
        for (uint64_t tag = 0; tag < 10; tag++) {
            say(1, tag, "X", NULL);
        }
        for (size_t at = 0; at < sizeof bytes - 1; at += step) {
            size_t len = sizeof bytes - 1 - at < step ? sizeof bytes - 1 - at : step;

            assert_int_equal(write(fd, bytes + at, len), len);
            settle();
        }
        await("heard 1 9");
        assert_string_equal(test.log, told);
        (void)close(fd);
        close_all();
    }
}

static void test_redis_takes_large_ones(void **state)
{
    enum { LARGE = 8 << 20 };
    char *large = malloc(LARGE);
    char head[32];
    struct tr_span args[2] = {{"SET", 3}, {large, LARGE}};
    size_t got = 0;
    size_t sent = 0;
    int fd;

    (void)state;
    assert_non_null(large);
    memset(large, 'z', LARGE);
    open_with(NULL, NULL);
    fd = make(1);
    test.port.send(test.port.ctx, 1, 1, args, 2);
    test.port.send(test.port.ctx, 1, 2, args, 1);
    while (got < LARGE + 33) { /* both, with all that stands around */
        static char in[65536];
        ssize_t n = read(fd, in, sizeof in);

        got += n > 0 ? (size_t)n : 0;
        (void)spin(0);
    }
    expect_nothing(fd);
    (void)snprintf(head, sizeof head, "$%d\r\n", LARGE);
    answer(fd, head);
    while (sent < LARGE) {
        ssize_t n = write(fd, large + sent, LARGE - sent);

        sent += n > 0 ? (size_t)n : 0;
        (void)spin(0);
    }
    answer(fd, "\r\n+OK\r\n");
    await("heard 1 2");
    assert_string_equal(test.log, "heard 1 1 [8388608 z]\nheard 1 2 \"OK\"\n");
    assert_true(test.mem.used_bytes < (4 << 20)); /* large buffers are not kept */
    (void)close(fd);
    free(large);
    close_all();
}

static void test_redis_keeps_many_tags(void **state)
{
    char want[64];
    int fd;

    (void)state;
    open_with(NULL, NULL);
    fd = make(1);
    for (uint64_t round = 0; round < 5; round++) {
        for (uint64_t tag = 0; tag < 40; tag++) {
            say(1, 1000 * round + tag, "P", NULL);
        }
        settle();
        for (uint64_t tag = 0; tag < 40 - round; tag++) { /* some stay: the ring turns */
            answer(fd, "+o\r\n");
        }
        settle();
    }
    for (int i = 0; i < 0 + 1 + 2 + 3 + 4; i++) {
        answer(fd, "+o\r\n");
    }
    await("heard 1 4039");
    for (uint64_t i = 0, at = 0; i < 200; i++) {
        const char *found;

        (void)snprintf(want, sizeof want, "heard 1 %llu \"o\"\n",
                       (unsigned long long)(i / 40 * 1000 + i % 40));
        found = strstr(test.log + at, want);
        assert_ptr_equal(found, test.log + at);
        at += strlen(want);
    }
    (void)close(fd);
    close_all();
}

static void test_redis_that_is_not_there(void **state)
{
    (void)state;
    open_with(NULL, NULL);
    (void)close(test.listener);
    do_connect(5, test.server);
    assert_string_equal(test.log, "");
    await("closed 5");
    assert_string_equal(test.log, "closed 5 Connection refused\n");
    do_connect(5, "nonsense");
    do_connect(6, ":6379");
    do_connect(7, "127.0.0.1:99999x");
    await("closed 5 not host:port\nclosed 6 not host:port\nclosed 7 not host:port\n");
    open_listener();
    close_all();
}

static void test_redis_looks_up_names(void **state)
{
    char named[64];
    char bad[128];
    int fd;

    (void)state;
    open_with(NULL, NULL);
    (void)snprintf(named, sizeof named, "localhost%s", strchr(test.server, ':'));
    do_connect(2, named); /* it may also be ::1, where nobody listens: the next address is tried */
    fd = accept_one();
    expect(fd, SETNAME);
    answer(fd, "+OK\r\n");
    await("up 2\n");
    (void)close(fd);
    await("closed 2");

    memset(bad, 'a', 100); /* longer than a part of a name may be: nobody need be asked */
    (void)snprintf(bad + 100, sizeof bad - 100, ":6379");
    test.log[test.log_len = 0] = '\0';
    do_connect(2, bad);
    await("closed 2 ");

    for (unsigned i = 10; i < 30; i++) { /* forgotten in every state there is */
        do_connect(i, named);
    }
    for (unsigned i = 10; i < 30; i++) {
        do_close(i);
        (void)spin(i % 3 == 0 ? 1 : 0);
    }
    do_connect(4, named);
    close_all();
}

/* A name that takes as long as the test wants: it is this machine. */
static sem_t slow;
static atomic_int slow_lookups;

int getaddrinfo(const char *host, const char *port, const struct addrinfo *want,
                struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strcmp(host, "slow.test") == 0 && (want->ai_flags & AI_NUMERICHOST) == 0) {
        atomic_fetch_add(&slow_lookups, 1);
        (void)sem_wait(&slow);
        host = "127.0.0.1";
    }
    return real(host, port, want, found);
}

static unsigned thread_count(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned count = 0;

    assert_non_null(tasks);
    for (const struct dirent *e = readdir(tasks); e != NULL; e = readdir(tasks)) {
        count += e->d_name[0] != '.';
    }
    (void)closedir(tasks);
    return count;
}

static void test_redis_name_that_takes_long(void **state)
{
    unsigned threads = thread_count();
    char named[64];
    int fd;

    (void)state;
    assert_int_equal(sem_init(&slow, 0, 0), 0);
    atomic_store(&slow_lookups, 0);
    open_with(NULL, NULL);
    (void)snprintf(named, sizeof named, "slow.test%s", strchr(test.server, ':'));
    do_connect(1, named);
    while (atomic_load(&slow_lookups) == 0) {
        (void)spin(1);
    }
    for (int i = 0; i < 10; i++) { /* the engine gives up, again and again */
        do_close(1);
        (void)spin(0);
        do_connect(1, named);
    }
    assert_int_equal(sem_post(&slow), 0); /* what was found for the first is good for the last */
    fd = accept_one();
    expect(fd, SETNAME);
    answer(fd, "+OK\r\n");
    await("up 1\n");
    assert_int_equal(atomic_load(&slow_lookups), 1);

    for (unsigned i = 2; i < 12; i++) { /* four are looked up, the others wait; nobody waits here */
        do_connect(i, named);
    }
    do_close(11);
    (void)close(fd);
    close_all();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(sem_post(&slow), 0);
    }
    while (thread_count() > threads) {
        (void)usleep(1000);
    }
}

/* What is found when the engine has given up and waits before it asks again is good for that. */
static void test_redis_name_that_is_found_too_late(void **state)
{
    unsigned threads = thread_count();
    char named[64];
    int fd;

    (void)state;
    assert_int_equal(sem_init(&slow, 0, 0), 0);
    atomic_store(&slow_lookups, 0);
    open_with(NULL, NULL);
    (void)snprintf(named, sizeof named, "slow.test%s", strchr(test.server, ':'));
    do_connect(1, named);
    while (atomic_load(&slow_lookups) == 0) {
        (void)spin(1);
    }
    do_close(1);
    assert_int_equal(sem_post(&slow), 0);
    while (thread_count() > threads) {
        (void)spin(1);
    }
    (void)spin(1);
    do_connect(1, named);
    do_close(1); /* not yet told: it is kept on */
    (void)spin(1);
    do_connect(1, named);
    (void)spin(1);
    assert_int_equal(atomic_load(&slow_lookups), 1);
    fd = accept_one();
    expect(fd, SETNAME);
    answer(fd, "+OK\r\n");
    await("up 1\n");
    do_connect(2, named); /* once is enough: names change */
    while (atomic_load(&slow_lookups) == 1) {
        (void)spin(1);
    }
    do_close(2);
    assert_int_equal(sem_post(&slow), 0);
    while (thread_count() > threads) {
        (void)spin(1);
    }
    (void)close(fd);
    close_all(); /* what is kept goes, too */
}

static void close_it(unsigned conn)
{
    do_close(conn);
}

static void test_redis_is_closed_while_it_tells(void **state)
{
    int fd;

    (void)state;
    open_with(NULL, NULL);
    fd = make(1);
    say(1, 1, "A", NULL);
    say(1, 2, "B", NULL);
    settle();
    test.then = close_it;
    answer(fd, "*2\r\n$3\r\none\r\n$3\r\ntwo\r\n+no\r\n");
    await("heard 1 1 \"one\" \"two\"\n");
    settle();
    assert_string_equal(test.log, "heard 1 1 \"one\" \"two\"\n"); /* and no more of it */
    (void)close(fd);
    close_all();
}

static void make_it_again(unsigned conn)
{
    do_close(conn);
    do_connect(conn, test.server);
}

static void test_redis_number_is_used_again_at_once(void **state)
{
    int fd;
    int again;

    (void)state;
    open_with(NULL, NULL);
    fd = make(1);
    say(1, 1, "A", NULL);
    say(1, 2, "B", NULL);
    settle();
    test.then = make_it_again;
    answer(fd, "+1\r\n+2\r\n");
    await("heard 1 1 \"1\"\n");
    again = accept_one();
    expect(again, SETNAME);
    answer(again, "+OK\r\n");
    await("up 1\n");
    say(1, 3, "C", NULL);
    settle();
    expect(again, "*1\r\n$1\r\nC\r\n");
    answer(again, "+3\r\n");
    await("heard 1 3");
    assert_string_equal(test.log, "heard 1 1 \"1\"\nup 1\nheard 1 3 \"3\"\n");
    (void)close(fd);
    (void)close(again);
    close_all();
}

static void connect_again(unsigned conn)
{
    do_connect(conn, test.server);
}

static void test_redis_connects_again_from_closed(void **state)
{
    int fd;
    int again;

    (void)state;
    open_with(NULL, NULL);
    fd = make(1);
    say(1, 1, "A", NULL);
    settle();
    test.then = connect_again;
    (void)close(fd);
    again = accept_one();
    expect(again, SETNAME);
    (void)close(again);
    await("closed 1");
    close_all();
}

static void test_redis_breaks_on_nonsense(void **state)
{
    int fd;

    (void)state;
    open_with(NULL, NULL);
    fd = make(1);
    say(1, 1, "A", NULL);
    answer(fd, "HTTP/1.1 400 Bad Request\r\n");
    await("closed 1");
    assert_non_null(strstr(test.log, "not what Redis answers"));
    assert_null(strstr(test.log, "heard"));
    (void)close(fd);
    fd = make(1);
    answer(fd, "-ERR going away\r\n");
    await("closed 1");
    assert_non_null(strstr(test.log, "it says what nobody asked: ERR going away"));
    (void)close(fd);
    close_all();
}

static void test_redis_sends_nothing_when_broken(void **state)
{
    int fd;

    (void)state;
    open_with(NULL, NULL);
    fd = make(1);
    test.mem.fail_at = test.mem.calls + 1;
    say(1, 1, "A", NULL); /* no room for its tag */
    say(1, 2, "B", NULL);
    assert_string_equal(test.log, "");
    await("closed 1");
    assert_non_null(strstr(test.log, "out of memory"));
    assert_null(strstr(test.log, "heard"));
    (void)close(fd);
    fd = make(1);
    test.mem.fail_at = test.mem.calls + 1;
    say(1, 1, "A", NULL);
    do_close(1); /* and nothing is told of it */
    settle();
    assert_string_equal(test.log, "");
    (void)close(fd);
    close_all();
}

/* Each allocation fails once: the connection is told to be closed, or all goes well. */
static void test_redis_without_memory(void **state)
{
    bool reached = true;

    (void)state;
    for (uint64_t at = 1; reached; at++) {
        int fd;

        open_with(NULL, "p");
        test.mem.fail_at = test.mem.calls + at;
        do_connect(1, test.server);
        fd = accept_one();
        settle();
        answer(fd, "+OK\r\n+OK\r\n");
        settle();
        if (strstr(test.log, "up 1\n") != NULL) {
            static char big[5000];
            struct tr_span args[2] = {{"SET", 3}, {big, sizeof big}};

            test.port.send(test.port.ctx, 1, 1, args, 2);
            settle();
            answer(fd, "*3\r\n$1\r\na\r\n$1\r\nb\r\n:5\r\n");
            settle();
        }
        reached = test.mem.calls >= test.mem.fail_at;
        if (reached) {
            assert_non_null(strstr(test.log, "closed 1"));
            assert_non_null(strstr(test.log, "out of memory"));
        } else {
            assert_string_equal(test.log, "up 1\nheard 1 1 \"a\" \"b\" \"5\"\n");
            assert_true(at > 4);
        }
        (void)close(fd);
        close_all();
    }
}

static void test_redis_open_without_memory(void **state)
{
    struct tr_redis_setup setup = {.mem = &test.mem, .poller = poller, .now = fake_now};
    char name[200];

    (void)state;
    open_with(NULL, NULL);
    close_all();
    test.mem.fail_at = test.mem.calls + 1;
    assert_int_equal(tr_redis_open(&test.redis, &setup), TARRY_ENOMEM);
    assert_null(test.redis);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    setup.name = name;
    assert_int_equal(tr_redis_open(&test.redis, &setup), TARRY_EINVAL);
    assert_int_equal(test.mem.used_bytes, 0);
    tr_redis_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redis_is_up_after_its_greeting),
        cmocka_unit_test(test_redis_gives_user_and_password),
        cmocka_unit_test(test_redis_tells_no_password),
        cmocka_unit_test(test_redis_is_not_let_in),
        cmocka_unit_test(test_redis_sends_in_order_and_at_the_end_of_a_turn),
        cmocka_unit_test(test_redis_reads_every_kind),
        cmocka_unit_test(test_redis_takes_large_ones),
        cmocka_unit_test(test_redis_keeps_many_tags),
        cmocka_unit_test(test_redis_that_is_not_there),
        cmocka_unit_test(test_redis_looks_up_names),
        cmocka_unit_test(test_redis_name_that_takes_long),
        cmocka_unit_test(test_redis_name_that_is_found_too_late),
        cmocka_unit_test(test_redis_is_closed_while_it_tells),
        cmocka_unit_test(test_redis_number_is_used_again_at_once),
        cmocka_unit_test(test_redis_connects_again_from_closed),
        cmocka_unit_test(test_redis_breaks_on_nonsense),
        cmocka_unit_test(test_redis_sends_nothing_when_broken),
        cmocka_unit_test(test_redis_without_memory),
        cmocka_unit_test(test_redis_open_without_memory),
    };

    (void)signal(SIGPIPE, SIG_IGN); /* the test's own writes to what was closed */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
