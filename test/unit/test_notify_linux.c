/* What a service manager hears, over a socket of the test's own. */

#include "base/err.h"
#include "base/text.h"
#include "os/notify_linux.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char heard[256];

/* The manager's end: '@' in front means an abstract name. */
static int manager(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    memcpy(address.sun_path, name, strlen(name));
    if (name[0] == '@') {
        address.sun_path[0] = '\0';
    }
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, len), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    return fd;
}

static const char *hear(int fd)
{
    ssize_t n = recv(fd, heard, sizeof heard - 1, 0);

    heard[n > 0 ? n : 0] = '\0';
    return heard;
}

static int set_up(void **state)
{
    (void)state;
    return unsetenv("NOTIFY_SOCKET") | unsetenv("WATCHDOG_USEC") | unsetenv("WATCHDOG_PID");
}

static void test_notify_nobody(void **state)
{
    struct tr_notify_linux n;

    (void)state;
    assert_int_equal(tr_notify_linux_open(&n), TARRY_OK);
    assert_int_equal(n.fd, -1);
    tr_notify_linux_say(&n, "READY=1");
    tr_notify_linux_reloading(&n);
    tr_notify_linux_close(&n);
    assert_int_equal(setenv("WATCHDOG_USEC", "1000", 1), 0); /* whom should it be told? */
    assert_int_equal(tr_notify_linux_open(&n), TARRY_OK);
    assert_int_equal(n.watchdog_us, 0);
}

static void test_notify_says(void **state)
{
    struct tr_notify_linux n;
    char path[] = "/tmp/test_notify.XXXXXX";
    char name[64];
    int fd;

    (void)state;
    assert_non_null(mkdtemp(path));
    for (unsigned i = 0; i < 2; i++) {
        tr_text(name, sizeof name, "%s%s/s", i == 0 ? "" : "@", path);
        fd = manager(name);
        assert_int_equal(tr_notify_linux_open(&n), TARRY_OK);
        assert_string_equal(hear(fd), "");
        tr_notify_linux_say(&n, "READY=1\nSTATUS=serving");
        assert_string_equal(hear(fd), "READY=1\nSTATUS=serving");
        tr_notify_linux_reloading(&n);
        assert_int_equal(strncmp(hear(fd), "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
        assert_true(strtoull(heard + 27, NULL, 10) > 0);
        close(fd);
        tr_notify_linux_say(&n, "STOPPING=1"); /* nobody is there any more */
        tr_notify_linux_close(&n);
    }
    tr_text(name, sizeof name, "%s/s", path);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(rmdir(path), 0);
}

static void test_notify_wrong_names(void **state)
{
    static const char *const names[] = {"/nonexistent/socket", "@tarry-test-nobody", "relative"};
    char name[200];
    struct tr_notify_linux n;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(setenv("NOTIFY_SOCKET", names[i], 1), 0);
        assert_true(tr_notify_linux_open(&n) != TARRY_OK);
        assert_int_equal(n.fd, -1);
        tr_notify_linux_say(&n, "READY=1");
        tr_notify_linux_close(&n);
    }
    memset(name, '/', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    assert_int_equal(tr_notify_linux_open(&n), TARRY_EINVAL);
}

static void test_notify_watchdog(void **state)
{
    struct tr_notify_linux n;
    char pid[32];
    int fd = manager("@tarry-test-watchdog");
    static const struct {
        const char *time;
        int pid; /* 0: none, 1: ours, -1: another */
        uint64_t want;
    } cases[] = {{"20000000", 0, 20000000},
                 {"20000000", 1, 20000000},
                 {"20000000", -1, 0},
                 {"", 0, 0},
                 {"1s", 0, 0},
                 {"99999999999999999999", 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tr_text(pid, sizeof pid, "%d", (int)getpid() + (cases[i].pid < 0 ? 1 : 0));
        assert_int_equal(setenv("WATCHDOG_USEC", cases[i].time, 1), 0);
        assert_int_equal(
            cases[i].pid == 0 ? unsetenv("WATCHDOG_PID") : setenv("WATCHDOG_PID", pid, 1), 0);
        assert_int_equal(tr_notify_linux_open(&n), TARRY_OK);
        assert_int_equal(n.watchdog_us, cases[i].want);
        tr_notify_linux_close(&n);
    }
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_notify_nobody, set_up),
        cmocka_unit_test_setup(test_notify_says, set_up),
        cmocka_unit_test_setup(test_notify_wrong_names, set_up),
        cmocka_unit_test_setup(test_notify_watchdog, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
