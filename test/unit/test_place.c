/* Slots, keys and ids, against numbers that others calculated: Redis, zlib. */

#include "cluster/place.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static unsigned hash_slot(const char *key)
{
    return tr_place_hash_slot(key, strlen(key));
}

static void test_place_hash_slot(void **state)
{
    (void)state;
    assert_int_equal(hash_slot("123456789"), 12739); /* 0x31c3: the check of CRC-16/XMODEM */
    assert_int_equal(hash_slot("foo"), 12182);       /* CLUSTER KEYSLOT */
    assert_int_equal(hash_slot("{user1000}.following"), hash_slot("user1000"));
    assert_int_equal(hash_slot("foo{bar}{zap}"), hash_slot("bar"));
    assert_int_equal(hash_slot("foo{{bar}}zap"), hash_slot("{bar"));
    assert_int_not_equal(hash_slot("foo{}{bar}"), hash_slot("bar")); /* nothing: all of it */
    assert_int_not_equal(hash_slot("foo{bar"), hash_slot("bar"));
    assert_int_equal(hash_slot(""), 0);
    assert_int_equal(hash_slot("a{"), tr_place_hash_slot("a{", 2));
}

static void test_place_crc32(void **state)
{
    (void)state;
    assert_int_equal(tr_place_crc32("123456789", 9), 0xcbf43926);
    assert_int_equal(tr_place_crc32("", 0), 0);
}

static void test_place_layout(void **state)
{
    struct tr_layout l;

    (void)state;
    assert_int_equal(tr_layout_init(&l, "tarry:", 256), TARRY_OK);
    assert_int_equal(tr_layout_init(&l, "tarry:", 1), TARRY_OK);
    assert_int_equal(tr_layout_init(&l, "tarry:", 0), TARRY_EINVAL);
    assert_int_equal(tr_layout_init(&l, "tarry:", 100), TARRY_EINVAL);
    assert_int_equal(tr_layout_init(&l, "tarry:", 2048), TARRY_EINVAL);
    assert_int_equal(tr_layout_init(&l, "a{b}", 256), TARRY_EINVAL);
    assert_int_equal(tr_layout_init(&l,
                                    "0123456789012345678901234567890123456789012345678901234567"
                                    "890123456789",
                                    256),
                     TARRY_EINVAL);
}

static void test_place_slots_of_a_topic(void **state)
{
    struct tr_layout l;
    unsigned first;

    (void)state;
    assert_int_equal(tr_layout_init(&l, "tarry:", 256), TARRY_OK);
    first = tr_place_slot(&l, "123456789", 9, 0);
    assert_int_equal(first, 0x26);
    assert_int_equal(tr_place_slot(&l, "123456789", 9, 3), 0x29);
    assert_int_equal(tr_place_slot(&l, "123456789", 9, 255), 0x25); /* round */
    assert_int_equal(tr_place_of_key("123456789", 9, 1), 0);
    assert_int_equal(tr_place_of_key("123456789", 9, 16), 6);
    assert_int_equal(tr_place_share(100, 8), 12);
    assert_int_equal(tr_place_share(7, 8), 0);
}

/* All keys of a slot are on one server, and those of the longest topic fit. */
static void test_place_keys(void **state)
{
    struct tr_layout l;
    char key[TR_PLACE_KEY_MAX];
    char topic[201];
    size_t len;

    (void)state;
    memset(topic, 'x', 200);
    topic[200] = '\0';
    assert_int_equal(tr_layout_init(&l, "tarry:", 256), TARRY_OK);
    for (unsigned k = 0; k < TR_PLACE_SLOT_KEYS + TR_PLACE_TOPIC_KEYS; k++) {
        len = tr_place_key(key, &l, 17, k, topic);
        assert_int_equal(tr_place_hash_slot(key, len), hash_slot("17"));
        assert_true(len < TR_PLACE_KEY_MAX - 1);
    }
    len = tr_place_key(key, &l, 17, 0, NULL);
    assert_string_equal(key, "tarry:{17}:m");
    assert_int_equal(len, 12);
    (void)tr_place_key(key, &l, 17, TR_PLACE_SLOT_KEYS + 2, "orders");
    assert_string_equal(key, "tarry:{17}:orders:prep");
    (void)tr_place_meta_key(key, &l, TR_META_NODES);
    assert_string_equal(key, "tarry:{meta}:nodes");
    (void)tr_place_wake_key(key, &l, "00112233445566778");
    assert_string_equal(key, "tarry:{n0011223344556677}:wake");
}

static void test_place_ids(void **state)
{
    struct tr_layout l;
    uint64_t id = tr_place_id((UINT64_C(1) << 43) - 1, 255);

    (void)state;
    assert_int_equal(tr_layout_init(&l, "tarry:", 256), TARRY_OK);
    assert_true(id < UINT64_C(1) << 53);
    assert_int_equal(tr_place_slot_of(id), 255);
    assert_int_equal(tr_place_seq_of(id), (UINT64_C(1) << 43) - 1);
    assert_true(tr_place_id_ok(&l, id));
    assert_false(tr_place_id_ok(&l, tr_place_id(9, 256)));
    assert_false(tr_place_id_ok(&l, 17));
    assert_false(tr_place_id_ok(&l, UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place_hash_slot), cmocka_unit_test(test_place_crc32),
        cmocka_unit_test(test_place_layout),    cmocka_unit_test(test_place_slots_of_a_topic),
        cmocka_unit_test(test_place_keys),      cmocka_unit_test(test_place_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
