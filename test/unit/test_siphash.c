/*
 * SipHash against values that others computed: those published with the algorithm (key 00 .. 0f,
 * message 00 01 02 ...), which OpenSSL's `openssl mac ... SipHash` gives too; and a chain over many
 * lengths that a second implementation, in another language and compared with OpenSSL, gave.
 */

#include "base/siphash.h"

#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t key[TR_SIPHASH_KEY] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void test_siphash_gives_the_published_values(void **state)
{
    static const struct {
        size_t len;
        uint64_t high, low, short_form;
    } table[] = {
        {0, 0xe6a825ba047f81a3u, 0x930255c71472f66du, 0x726fdb47dd0e0e31u},
        {1, 0x44af996bd8c187dau, 0x45fc229b11597634u, 0x74f839c593dc67fdu},
        {2, 0xc75da4a48d227781u, 0xe4ff0af6de8ba3fcu, 0x0d6c8009d9a94f5au},
        {3, 0x4ea967520cb6709cu, 0x51ed8529b0b6335fu, 0x85676696d7fb7e2du},
        {7, 0x53c1dbd8beebf1a1u, 0x3982f01fa64ab8c0u, 0xab0200f58b01d137u},
        {8, 0x61f55862baa9623bu, 0xb49714f364e2830fu, 0x93f5f5799a932462u},
        {15, 0x11a8b03399e99354u, 0xd9c3cf970fec087eu, 0xa129ca6149be45e5u},
        {16, 0xbb54b067caa4e26eu, 0x77052385bf1533fdu, 0x3f2acc7f57c29bdbu},
        {63, 0x4a83502f77d15051u, 0x7cbd3f979a063e50u, 0x958a324ceb064572u},
    };
    uint8_t message[64];

    (void)state;
    for (size_t i = 0; i < sizeof message; i++) {
        message[i] = (uint8_t)i;
    }
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct tr_siphash out = tr_siphash(key, message, table[i].len);

        assert_true(out.high == table[i].high);
        assert_true(out.low == table[i].low);
        assert_true(tr_siphash64(key, message, table[i].len) == table[i].short_form);
    }
}

/* Each message is the last output and n bytes more; so lengths from 0 to 315 all count. */
static void test_siphash_agrees_at_every_length(void **state)
{
    uint8_t message[16 + 300];
    size_t before = 0;

    (void)state;
    for (size_t n = 0; n < 300; n++) {
        struct tr_siphash out;

        for (size_t i = 0; i < n; i++) {
            message[before + i] = (uint8_t)(i * 7 + n);
        }
        out = tr_siphash(key, message, before + n);
        tr_put_le(message, out.high, 8);
        tr_put_le(message + 8, out.low, 8);
        before = 16;
    }
    assert_true(tr_get_le(message, 8) == 0x8478ec7070654cecu);
    assert_true(tr_get_le(message + 8, 8) == 0x4987ff0afd679b2fu);
}

/* Every bit of the key counts, and a zero at the end is not the same as no byte. */
static void test_siphash_depends_on_key_and_length(void **state)
{
    uint8_t other[TR_SIPHASH_KEY];
    uint8_t zeros[20] = {0};
    struct tr_siphash out = tr_siphash(key, "tarry", 5);

    (void)state;
    for (unsigned bit = 0; bit < 128; bit++) {
        struct tr_siphash now;

        memcpy(other, key, sizeof other);
        other[bit / 8] ^= (uint8_t)(1u << bit % 8);
        now = tr_siphash(other, "tarry", 5);
        assert_true(now.high != out.high);
        assert_true(now.low != out.low);
    }
    for (size_t len = 1; len < sizeof zeros; len++) {
        assert_true(tr_siphash(key, zeros, len).high != tr_siphash(key, zeros, len - 1).high);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_siphash_gives_the_published_values),
        cmocka_unit_test(test_siphash_agrees_at_every_length),
        cmocka_unit_test(test_siphash_depends_on_key_and_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
