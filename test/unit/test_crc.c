/* CRC-32C: published values, and both ways against the definition, bit by bit. */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Values of RFC 3720, appendix B.4. */
static void test_crc_published_values(void **state)
{
    uint8_t raw[32];

    (void)state;
    assert_int_equal(tr_crc(0, "", 0), 0);
    assert_int_equal(tr_crc(0, "123456789", 9), 0xe3069283);
    memset(raw, 0, sizeof raw);
    assert_int_equal(tr_crc(0, raw, sizeof raw), 0x8a9136aa);
    assert_int_equal(tr_crc_table(0, raw, sizeof raw), 0x8a9136aa);
    memset(raw, 0xff, sizeof raw);
    assert_int_equal(tr_crc(0, raw, sizeof raw), 0x62a8ab43);
    for (unsigned i = 0; i < sizeof raw; i++) {
        raw[i] = (uint8_t)i;
    }
    assert_int_equal(tr_crc(0, raw, sizeof raw), 0x46dd794e);
}

static void test_crc_seed_tells_places_apart(void **state)
{
    uint8_t raw[8];

    (void)state;
    assert_true(tr_crc_seed(1) != tr_crc_seed(2));
    tr_put_le(raw, UINT64_C(0x123456789abcdef0), 8);
    assert_int_equal(tr_crc_seed(UINT64_C(0x123456789abcdef0)), tr_crc(0, raw, 8));
}

static uint32_t model_crc(const uint8_t *p, size_t len)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len * 8; i++) {
        uint32_t bit = (crc ^ (uint32_t)p[i / 8] >> i % 8) & 1;

        crc = crc >> 1 ^ (bit != 0 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* Any length, any place in memory, in any two parts. */
static void test_crc_agrees_with_model(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        struct tr_rng rng = {.state = seed};
        uint8_t raw[300];
        size_t from = (size_t)tr_rng_below(&rng, 16);
        size_t len = (size_t)tr_rng_below(&rng, sizeof raw - 16);
        size_t cut = (size_t)tr_rng_below(&rng, len + 1);
        uint32_t want;

        for (size_t i = 0; i < sizeof raw; i++) {
            raw[i] = (uint8_t)tr_rng_next(&rng);
        }
        want = model_crc(raw + from, len);
        assert_int_equal(tr_crc(0, raw + from, len), want);
        assert_int_equal(tr_crc_table(0, raw + from, len), want);
        assert_int_equal(tr_crc(tr_crc(0, raw + from, cut), raw + from + cut, len - cut), want);
        assert_int_equal(tr_crc_table(tr_crc(0, raw + from, cut), raw + from + cut, len - cut),
                         want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc_published_values),
        cmocka_unit_test(test_crc_seed_tells_places_apart),
        cmocka_unit_test(test_crc_agrees_with_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
