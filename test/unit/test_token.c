/* Tokens: lines of the config, patterns of topics, and finding one by its digest. */

#include "rules/token.h"

#include "base/err.h"
#include "base/rng.h"
#include "rules/token_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define HEX "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

static struct tr_token good(const char *name, const char *value)
{
    struct tr_token t;
    const char *why = "";

    assert_int_equal(tr_token_read(&t, name, value, &why), TARRY_OK);
    return t;
}

static void bad(const char *name, const char *value, const char *says)
{
    struct tr_token t;
    const char *why = NULL;

    assert_int_equal(tr_token_read(&t, name, value, &why), TARRY_EINVAL);
    assert_non_null(why);
    if (strstr(why, says) == NULL) {
        fail_msg("\"%s\" is refused with \"%s\", which does not say \"%s\"", value, why, says);
    }
}

static void test_token_lines(void **state)
{
    struct tr_token t = good("ci", "produce orders,orders-*\tsha256:" HEX "  rate:0.5 ");
    char line[TR_TOKEN_LINE];

    (void)state;
    assert_string_equal(t.name, "ci");
    assert_string_equal(t.topics, "orders,orders-*");
    assert_int_equal(t.roles, TR_ROLE_PRODUCE);
    assert_int_equal(t.rate_milli, 500);
    assert_int_equal(t.digest[1], 0x11);
    assert_int_equal(t.digest[31], 0xff);
    assert_false(t.all);
    tr_token_print(line, &t);
    assert_string_equal(line, "ci = produce orders,orders-* "
                              "sha256:00112233445566778899aabbccddeeff"
                              "00112233445566778899aabbccddeeff rate:0.5");
    t = good("a.b-c_9", "consume+read x,* sha256:" HEX);
    assert_true(t.all);
    assert_int_equal(t.roles, TR_ROLE_CONSUME | TR_ROLE_READ);
    tr_token_print(line, &t);
    assert_non_null(strstr(line, "= read+consume x,* sha256:"));
    t = good("x", "read+admin t rate:1000000 sha256:" HEX);
    assert_int_equal(t.roles, TR_ROLES_ALL);
    tr_token_print(line, &t);
    assert_non_null(strstr(line, "= admin t sha256:"));
}

static void test_token_bad_lines(void **state)
{
    char longest[800];

    (void)state;
    bad("", "read t sha256:" HEX, "name");
    bad("-a", "read t sha256:" HEX, "name");
    bad("a b", "read t sha256:" HEX, "name");
    bad("x123456789012345678901234567890123456789012345678901234567890abcd", "read t sha256:" HEX,
        "name");
    bad("a", "", "ROLE PATTERN");
    bad("a", "read", "ROLE PATTERN");
    bad("a", "read t", "ROLE PATTERN");
    bad("a", "reader t sha256:" HEX, "read, produce, consume");
    bad("a", "READ t sha256:" HEX, "role");
    bad("a", "read+ t sha256:" HEX, "ends in +");
    bad("a", "+read t sha256:" HEX, "role");
    bad("a", "read t, sha256:" HEX, "empty");
    bad("a", "read ,t sha256:" HEX, "pattern");
    bad("a", "read a,,b sha256:" HEX, "pattern");
    bad("a", "read -t sha256:" HEX, "pattern");
    bad("a", "read t? sha256:" HEX, "pattern");
    bad("a", "read t\x80 sha256:" HEX, "pattern");
    bad("a", "read t sha256:" HEX "00", "64");
    bad("a", "read t sha256:001122", "64");
    bad("a", "read t sha256:zz112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF",
        "64");
    bad("a", "read t md5:" HEX, "ROLE PATTERN");
    bad("a", "read t sha256:" HEX " sha256:" HEX, "ROLE PATTERN");
    bad("a", "read t sha256:" HEX " rate:0", "rate");
    bad("a", "read t sha256:" HEX " rate:1000001", "rate");
    bad("a", "read t sha256:" HEX " rate:x", "rate");
    bad("a", "read t sha256:" HEX " rate:1 rate:2", "ROLE PATTERN");
    bad("a", "read t sha256:" HEX " more", "ROLE PATTERN");
    bad("a", "read t tarry_" HEX, "the token itself");
    memcpy(longest, "read ", 5);
    memset(longest + 5, 'x', 200);
    memcpy(longest + 205, " sha256:" HEX, sizeof " sha256:" HEX);
    (void)good("a", longest);
    memset(longest + 5, 'x', 201);
    memcpy(longest + 206, " sha256:" HEX, sizeof " sha256:" HEX);
    bad("a", longest, "pattern");
    for (unsigned i = 5; i < 507; i += 2) {
        memcpy(longest + i, "x,", 2);
    }
    memcpy(longest + 506, " sha256:" HEX, sizeof " sha256:" HEX);
    bad("a", longest, "500");
}

/* No reason may repeat a word of the line: it may be a secret in the wrong place. */
static void test_token_reasons_repeat_nothing(void **state)
{
    static const char *const lines[] = {
        "hunter2 t sha256:" HEX, "read hunter2? sha256:" HEX,          "read t hunter2",
        "read t sha256:hunter2", "read t sha256:" HEX " rate:hunter2", "read t tarry_hunter2",
    };

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct tr_token t;
        const char *why = NULL;

        assert_int_equal(tr_token_read(&t, "a", lines[i], &why), TARRY_EINVAL);
        assert_null(strstr(why, "hunter2"));
    }
}

static bool has(const char *topics, const char *name)
{
    struct tr_token t = {.roles = 0};
    const char *why;

    assert_int_equal(tr_token_read_topics(&t, topics, strlen(topics), &why), TARRY_OK);
    return tr_token_has_topic(&t, name, strlen(name));
}

static void test_token_patterns(void **state)
{
    (void)state;
    assert_true(has("orders", "orders"));
    assert_false(has("orders", "orders2"));
    assert_false(has("orders", "order"));
    assert_false(has("orders", "Orders"));
    assert_true(has("orders*", "orders"));
    assert_true(has("orders*", "orders/eu"));
    assert_false(has("orders*", "my-orders"));
    assert_true(has("*orders", "my-orders"));
    assert_false(has("*orders", "my-orders2"));
    assert_true(has("*orders*", "my-orders2"));
    assert_true(has("a*b*c", "abc"));
    assert_true(has("a*b*c", "axxbxbxc"));
    assert_false(has("a*b*c", "axxbxbx"));
    assert_true(has("a*ab", "aaab"));
    assert_true(has("**", "x"));
    assert_true(has("*", "anything"));
    assert_true(has("a,b,c*", "cat"));
    assert_true(has("a,b,c*", "b"));
    assert_false(has("a,b,c*", "ab"));
    assert_false(has("a,b", "a,b"));
}

/* A child's idea of a pattern: does it fit from here on? */
static bool fits(const char *p, const char *n)
{
    if (*p == '\0') {
        return *n == '\0';
    }
    if (*p == '*') {
        return fits(p + 1, n) || (*n != '\0' && fits(p, n + 1));
    }
    return *p == *n && fits(p + 1, n + 1);
}

static void test_token_patterns_as_a_model_has_them(void **state)
{
    struct tr_rng rng = {7};
    unsigned yes = 0;

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        char pattern[8] = "";
        char name[10] = "";
        bool expected;

        for (unsigned k = 0; k < 1 + i % 6; k++) {
            pattern[k] = "ab*"[tr_rng_below(&rng, 3)];
        }
        for (unsigned k = 0; k < 1 + i / 7 % 8; k++) {
            name[k] = "ab"[tr_rng_below(&rng, 2)];
        }
        expected = fits(pattern, name);
        yes += expected;
        if (has(pattern, name) != expected) {
            fail_msg("%s and %s", pattern, name);
        }
    }
    assert_true(yes > 3000 && yes < 17000);
}

static void test_token_only_topic(void **state)
{
    struct tr_token t = good("a", "read orders sha256:" HEX);

    (void)state;
    assert_string_equal(tr_token_only_topic(&t), "orders");
    t = good("a", "read orders,x sha256:" HEX);
    assert_null(tr_token_only_topic(&t));
    t = good("a", "read orders* sha256:" HEX);
    assert_null(tr_token_only_topic(&t));
}

static void test_token_find(void **state)
{
    uint8_t digests[50][TR_TOKEN_DIGEST];
    struct tr_rng rng = {7};

    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        for (unsigned k = 0; k < TR_TOKEN_DIGEST; k++) {
            digests[i][k] = (uint8_t)tr_rng_below(&rng, 256);
        }
    }
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(tr_token_find(digests[0], 50, digests[i]), i);
        for (unsigned bit = 0; bit < 8 * TR_TOKEN_DIGEST; bit++) { /* one bit off is another */
            uint8_t other[TR_TOKEN_DIGEST];

            memcpy(other, digests[i], sizeof other);
            other[bit / 8] ^= (uint8_t)(1U << bit % 8);
            assert_int_equal(tr_token_find(digests[0], 50, other), 50);
        }
    }
    assert_int_equal(tr_token_find(digests[0], 0, digests[0]), 0);
}

static void test_token_file(void **state)
{
    static const char text[] = "a = 1\n[tokens]\n# b = 2\nc = x ;y ; z\r\n\n  ; d = 3\n"
                               "e : f=g\n [tokens2]\nh = 4\n\t[tokens] ; again\ni";
    struct tr_token_file f = {.text = text, .len = sizeof text - 1};
    struct tr_token_pair pair;

    (void)state;
    assert_true(tr_token_file_next(&f));
    assert_int_equal(f.number, 4);
    assert_int_equal(tr_token_split(&pair, text + f.from, tr_token_file_line_len(&f)), TARRY_OK);
    assert_string_equal(pair.name, "c");
    assert_string_equal(pair.value, "x");
    assert_int_equal(text[f.to - 1], '\n');
    assert_true(tr_token_file_next(&f));
    assert_int_equal(f.number, 7);
    assert_int_equal(tr_token_split(&pair, text + f.from, tr_token_file_line_len(&f)), TARRY_OK);
    assert_string_equal(pair.name, "e");
    assert_string_equal(pair.value, "f=g");
    assert_true(tr_token_file_next(&f));
    assert_int_equal(f.number, 11);
    assert_int_equal(tr_token_split(&pair, text + f.from, tr_token_file_line_len(&f)),
                     TARRY_EINVAL);
    assert_int_equal(f.end, sizeof text - 1);
    assert_false(tr_token_file_next(&f));
    assert_false(tr_token_file_next(&f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_lines),
        cmocka_unit_test(test_token_bad_lines),
        cmocka_unit_test(test_token_reasons_repeat_nothing),
        cmocka_unit_test(test_token_patterns),
        cmocka_unit_test(test_token_patterns_as_a_model_has_them),
        cmocka_unit_test(test_token_only_topic),
        cmocka_unit_test(test_token_find),
        cmocka_unit_test(test_token_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
