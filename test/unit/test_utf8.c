/* UTF-8 against the definition: every code point, every pair of bytes. And base64. */

#include "base/utf8.h"

#include "base/base64.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static size_t encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xc0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xe0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 63));
        out[2] = (uint8_t)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 63));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 63));
    out[3] = (uint8_t)(0x80 | (c & 63));
    return 4;
}

static void test_utf8_every_character(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x200000; c++) {
        uint8_t bytes[4];
        size_t len = encode(c, bytes);
        bool is = c < 0xd800 || (c > 0xdfff && c < 0x110000);

        if (tr_utf8_ok(bytes, len) != is || tr_utf8_ok(bytes, len - 1) != (len == 1)) {
            fail_msg("U+%04x", c);
        }
    }
}

/* The count of what is UTF-8 among all short strings is known: nothing else gets through. */
static void test_utf8_counts(void **state)
{
    unsigned two = 0;
    unsigned three = 0;

    (void)state;
    for (uint32_t n = 0; n < 1 << 24; n++) {
        uint8_t bytes[3] = {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16)};

        three += tr_utf8_ok(bytes, 3);
        two += n < 1 << 16 && tr_utf8_ok(bytes, 2);
    }
    assert_int_equal(two, 128 * 128 + 1920);
    assert_int_equal(three, 128 * 128 * 128 + 2 * 128 * 1920 + (65536 - 2048 - 2048));
}

static void test_utf8_span(void **state)
{
    (void)state;
    assert_int_equal(tr_utf8_span((const uint8_t *)"", 0), 0);
    assert_int_equal(tr_utf8_span((const uint8_t *)"0123456789abcdef", 16), 16);
    assert_int_equal(tr_utf8_span((const uint8_t *)"0123456789abcdef\xc3", 17), 16);
    assert_int_equal(tr_utf8_span((const uint8_t *)"0123456\xc3\xa4x\xff", 11), 10);
    assert_int_equal(tr_utf8_span((const uint8_t *)"01234567\xe2\x82x", 11), 8);
    assert_int_equal(tr_utf8_span((const uint8_t *)"\xe2\x82\xac\xe2\x82", 5), 3);
    assert_true(tr_utf8_ok((const uint8_t *)"a\0b", 3));
}

static void is_base64(const char *bytes, const char *text)
{
    char coded[64];
    uint8_t decoded[64];
    size_t len = 0;

    tr_base64_write(coded, (const uint8_t *)bytes, strlen(bytes));
    assert_int_equal(tr_base64_len(strlen(bytes)), strlen(text));
    assert_memory_equal(coded, text, strlen(text));
    assert_true(tr_base64_read(decoded, &len, text, strlen(text)));
    assert_int_equal(len, strlen(bytes));
    assert_memory_equal(decoded, bytes, len);
}

static void test_base64(void **state)
{
    static const char *const bad[] = {
        "Z",    "Zg",   "Zg=",    "Zg=a", "=g==",     "Zh==", "Zm9=",    "Zm8=Zm8=",
        "Zm-_", "Zm 8", "Zm8=\n", "====", "Zg==Zg==", "Z===", "Zm\x80v",
    };
    uint8_t out[64];
    size_t len = 77;

    (void)state;
    is_base64("", "");
    is_base64("f", "Zg==");
    is_base64("fo", "Zm8=");
    is_base64("foo", "Zm9v");
    is_base64("foob", "Zm9vYg==");
    is_base64("fooba", "Zm9vYmE=");
    is_base64("foobar", "Zm9vYmFy");
    is_base64("\xfb\xff\xbf", "+/+/");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (tr_base64_read(out, &len, bad[i], strlen(bad[i]))) {
            fail_msg("\"%s\" was read", bad[i]);
        }
    }
    assert_int_equal(len, 77);
}

static void test_base64_random(void **state)
{
    struct tr_rng r = {1};

    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        uint8_t bytes[100];
        char text[136];
        size_t len = tr_rng_below(&r, sizeof bytes + 1);
        size_t back = 0;

        for (size_t k = 0; k < len; k++) {
            bytes[k] = (uint8_t)tr_rng_next(&r);
        }
        tr_base64_write(text, bytes, len);
        assert_true(tr_base64_read((uint8_t *)text, &back, text, tr_base64_len(len)));
        assert_int_equal(back, len);
        assert_memory_equal(text, bytes, len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_every_character),
        cmocka_unit_test(test_utf8_counts),
        cmocka_unit_test(test_utf8_span),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_base64_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
