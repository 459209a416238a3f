/* Addresses: what is taken, what is refused and with which reason. */

#include "base/err.h"
#include "server/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        print_error("no \"%s\" in \"%s\"\n", part, text);
        fail();
    }
}

static void test_address_is_read_and_written(void **state)
{
    static const struct {
        const char *text;
        const char *canonical;
        bool local;
    } cases[] = {
        {"127.0.0.1:11300", "127.0.0.1:11300", true},
        {"127.9.8.7:0", "127.9.8.7:0", true},
        {"11300", "127.0.0.1:11300", true},
        {":65535", "127.0.0.1:65535", true},
        {"localhost:1", "127.0.0.1:1", true},
        {"[::1]:11300", "[::1]:11300", true},
        {"[0:0:0::1]:1", "[::1]:1", true},
        {"unix:/run/tarry.sock", "unix:/run/tarry.sock", true},
        {"unix:a:b", "unix:a:b", true},
        {"off", "off", true},
        {"0.0.0.0:1", "0.0.0.0:1", false},
        {"10.0.0.1:1", "10.0.0.1:1", false},
        {"128.0.0.1:1", "128.0.0.1:1", false},
        {"[::]:1", "[::]:1", false},
        {"[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:1", false},
    };
    char text[TR_ADDRESS_TEXT];
    struct tr_address a;
    const char *why;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(tr_address_read(&a, cases[i].text, &why), TARRY_OK);
        tr_address_text(&a, text);
        assert_string_equal(text, cases[i].canonical);
        assert_int_equal(tr_address_is_local(&a), cases[i].local);
        assert_int_equal(tr_address_read(&a, text, &why), TARRY_OK);
    }
}

static void test_address_garbage_is_refused(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"127.0.0.1", "no port"},
        {"localhost", "no port"},
        {"127.0.0.1:", "port"},
        {":", "is no address"},
        {"65536", "port"},
        {"127.0.0.1:65536", "port"},
        {"127.0.0.1:+1", "port"},
        {"127.0.0.1:1x", "port"},
        {"127.0.0.1:011300", "port"},
        {"127.0.0.1 :1", "is no address"},
        {"127.1:1", "no IPv4"},
        {"256.0.0.1:1", "no IPv4"},
        {"example.org:1", "names a host"},
        {"OFF", "names a host"},
        {"::1", "brackets"},
        {"::1:11300", "brackets"},
        {"[::1]", "brackets"},
        {"[::1]11300", "brackets"},
        {"[127.0.0.1]:1", "brackets"},
        {"[fe80::1%eth0]:1", "is no address"},
        {"http://127.0.0.1:1", "brackets"},
        {"unix:", "no path"},
        {"unix:/"
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaaaaaaaaaaaaaaaaaaaaaaaa",
         "107 bytes"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:"
         "1",
         "too long"},
        {"", "is no address"},
    };
    struct tr_address a;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *why = "";

        assert_int_equal(tr_address_read(&a, cases[i].text, &why), TARRY_EINVAL);
        assert_says(why, cases[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address_is_read_and_written),
        cmocka_unit_test(test_address_garbage_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
