/* Which addresses outlets may talk to. */

#include "outlet/guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

static bool allows(const char *text, bool allow_private)
{
    struct sockaddr_in ip4 = {.sin_family = AF_INET};
    struct sockaddr_in6 ip6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &ip4.sin_addr) == 1) {
        return tr_guard_allows((struct sockaddr *)&ip4, sizeof ip4, allow_private);
    }
    assert_int_equal(inet_pton(AF_INET6, text, &ip6.sin6_addr), 1);
    return tr_guard_allows((struct sockaddr *)&ip6, sizeof ip6, allow_private);
}

static const char *const private[] = {
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.255.255",
    "169.254.169.254",
    "169.254.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.19.255.255",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.1.2.3",
    "::ffff:0:10.1.2.3",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "fc00::1",
    "fd12:3456::1",
    "ff02::1",
    "2001::1",
    "2001:db8::1",
    "100::1",
};

static const char *const public[] = {
    "1.1.1.1",          "8.8.8.8",         "9.255.255.255",  "11.0.0.0",        "126.255.255.255",
    "128.0.0.0",        "172.15.255.255",  "172.32.0.0",     "192.167.255.255", "192.169.0.0",
    "169.253.1.1",      "169.255.1.1",     "100.63.255.255", "100.128.0.0",     "198.17.255.255",
    "198.20.0.0",       "223.255.255.255", "2606:4700::1",   "2a00:1450::1",    "::ffff:8.8.8.8",
    "64:ff9b::808:808", "2002:808:808::1", "2001:4860::1",   "fbff::1",
};

static void test_guard_refuses_what_is_not_public(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof private / sizeof private[0]; i++) {
        assert_false(allows(private[i], false));
        assert_true(allows(private[i], true));
    }
    for (size_t i = 0; i < sizeof public / sizeof public[0]; i++) {
        assert_true(allows(public[i], false));
    }
}

static void test_guard_knows_only_ip(void **state)
{
    struct sockaddr_un file = {.sun_family = AF_UNIX, .sun_path = "/run/x"};
    struct sockaddr_in ip4 = {.sin_family = AF_INET};

    (void)state;
    assert_false(tr_guard_allows((struct sockaddr *)&file, sizeof file, true));
    assert_false(tr_guard_allows((struct sockaddr *)&ip4, 4, true));
}

static void test_guard_literals(void **state)
{
    bool allowed = false;

    (void)state;
    assert_true(tr_guard_literal("127.0.0.1", 9, &allowed) && !allowed);
    assert_true(tr_guard_literal("8.8.8.8", 7, &allowed) && allowed);
    assert_true(tr_guard_literal("[::1]", 5, &allowed) && !allowed);
    assert_true(tr_guard_literal("[2606:4700::1]", 14, &allowed) && allowed);
    assert_false(tr_guard_literal("localhost", 9, &allowed)); /* a name: judged when it is used */
    assert_false(tr_guard_literal("", 0, &allowed));
    assert_false(tr_guard_literal("[", 1, &allowed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard_refuses_what_is_not_public),
        cmocka_unit_test(test_guard_knows_only_ip),
        cmocka_unit_test(test_guard_literals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
