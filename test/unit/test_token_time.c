/*
 * How long it takes to find a token tells nothing about it.
 *
 * A clock on a shared machine proves nothing, so instructions are counted: a child runs the search
 * step by step under ptrace. A wrong token takes exactly as many as a right one, however much of it
 * is right and wherever it stands; a plain memcmp, counted the same way, does not.
 */

#include "rules/token.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { TOKENS = 8, UNTRACED = 77 };

typedef unsigned find_fn(const uint8_t *digests, unsigned count, const uint8_t *digest);

/* As it should not be done. Byte by byte, since the library's memcmp looks at many at once. */
static unsigned find_in_haste(const uint8_t *digests, unsigned count, const uint8_t *digest)
{
    for (unsigned i = 0; i < count; i++) {
        const uint8_t *have = digests + (size_t)i * TR_TOKEN_DIGEST;
        unsigned k = 0;

        while (k < TR_TOKEN_DIGEST && have[k] == digest[k]) {
            k++;
        }
        if (k == TR_TOKEN_DIGEST) {
            return i;
        }
    }
    return count;
}

static void child(find_fn *find, const uint8_t *digests, const uint8_t *digest)
{
    volatile unsigned found;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(UNTRACED);
    }
    (void)raise(SIGUSR1);
    found = find(digests, TOKENS, digest);
    (void)raise(SIGUSR2);
    _exit(found <= TOKENS ? 0 : 1);
}

/* Between the two signals; 0 where nothing may be traced. */
static unsigned long steps(find_fn *find, const uint8_t *digests, const uint8_t *digest)
{
    unsigned long n = 0;
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        child(find, digests, digest);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), UNTRACED);
        return 0;
    }
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
    while (WIFSTOPPED(status) && WSTOPSIG(status) != SIGUSR2) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        n++;
    }
    assert_true(WIFSTOPPED(status));
    (void)ptrace(PTRACE_KILL, pid, NULL, NULL);
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return n;
}

/* Of tokens that are right, or wrong from some byte on: do they all take as long as the first? */
static bool is_steady(find_fn *find)
{
    uint8_t digests[TOKENS][TR_TOKEN_DIGEST];
    uint8_t digest[TR_TOKEN_DIGEST];
    unsigned long first;
    bool steady = true;

    memset(digests, 0x55, sizeof digests);
    for (unsigned i = 0; i < TOKENS; i++) {
        digests[i][0] = (uint8_t)i;
    }
    (void)find(digests[0], TOKENS, digests[0]); /* so that nothing is left to be linked */
    first = steps(find, digests[0], digests[0]);
    if (first == 0) {
        skip();
    }
    assert_true(first > TOKENS);
    for (unsigned i = 0; i < TOKENS; i += TOKENS - 1) {
        for (unsigned k = 0; k <= TR_TOKEN_DIGEST; k += 4) {
            memcpy(digest, digests[i], sizeof digest);
            memset(digest + k, 0xaa, sizeof digest - k);
            steady = steady && steps(find, digests[0], digest) == first;
        }
    }
    return steady;
}

static void test_token_time_tells_nothing(void **state)
{
    (void)state;
    assert_true(is_steady(tr_token_find));
}

static void test_token_time_is_counted(void **state)
{
    (void)state;
    assert_false(is_steady(find_in_haste));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_time_tells_nothing),
        cmocka_unit_test(test_token_time_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
