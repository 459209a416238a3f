/* Who owns which slot, and for how long one may believe to. */

#include "cluster/member.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)

static struct tr_members some(unsigned count, uint64_t seed)
{
    struct tr_rng r = {seed};
    struct tr_members m = {.count = count};

    for (unsigned i = 0; i < count; i++) {
        m.nodes[i] = tr_rng_next(&r);
    }
    return m;
}

static void test_member_shares_are_even(void **state)
{
    uint8_t owner[TR_SLOTS_MAX];

    (void)state;
    for (unsigned count = 1; count <= 40; count++) {
        struct tr_members m = some(count, count);
        unsigned has[TR_MEMBERS_MAX] = {0};

        tr_members_share(&m, 256, owner);
        for (unsigned s = 0; s < 256; s++) {
            has[owner[s]]++;
        }
        for (unsigned i = 0; i < count; i++) {
            assert_true(has[i] <= (256 + count - 1) / count);
            assert_true(has[i] > 0);
        }
    }
}

/* Whoever sees the same nodes in another order comes to the same. */
static void test_member_order_does_not_matter(void **state)
{
    struct tr_members m = some(7, 3);
    struct tr_members turned = m;
    uint8_t a[TR_SLOTS_MAX];
    uint8_t b[TR_SLOTS_MAX];

    (void)state;
    for (unsigned i = 0; i < 7; i++) {
        turned.nodes[i] = m.nodes[6 - i];
    }
    tr_members_share(&m, 1024, a);
    tr_members_share(&turned, 1024, b);
    for (unsigned s = 0; s < 1024; s++) {
        assert_true(m.nodes[a[s]] == turned.nodes[b[s]]);
    }
}

static void test_member_few_slots_move(void **state)
{
    struct tr_members m = some(8, 5);
    uint8_t a[TR_SLOTS_MAX];
    uint8_t b[TR_SLOTS_MAX];
    unsigned moved = 0;

    (void)state;
    tr_members_share(&m, 1024, a);
    m.count = 7; /* the last one is gone */
    tr_members_share(&m, 1024, b);
    for (unsigned s = 0; s < 1024; s++) {
        moved += a[s] != b[s];
    }
    assert_true(moved >= 1024 / 8);
    assert_true(moved < 1024 / 3); /* the cap pushes some on */
}

static void test_member_tenure(void **state)
{
    struct tr_tenure t;
    uint64_t now = 100 * SECOND;

    (void)state;
    tr_tenure_init(&t, 9 * SECOND);
    assert_false(tr_tenure_holds(&t, now));
    assert_true(tr_tenure_beat(&t, now));
    assert_false(tr_tenure_beat(&t, now));
    tr_tenure_answered(&t);
    assert_true(tr_tenure_holds(&t, now + SECOND));
    assert_false(tr_tenure_beat(&t, now + 2 * SECOND));
    assert_int_equal(tr_tenure_next(&t), now + 27 * SECOND / 10);
    assert_true(tr_tenure_beat(&t, now + 27 * SECOND / 10));
    tr_tenure_lost(&t);
    assert_true(tr_tenure_beat(&t, now + 3 * SECOND)); /* at once */
    assert_int_equal(tr_tenure_next(&t), now + 6 * SECOND);
    assert_true(tr_tenure_holds(&t, now + 6 * SECOND - 1));
    assert_false(tr_tenure_holds(&t, now + 6 * SECOND));
    tr_tenure_answered(&t); /* it counts from when it was sent */
    assert_true(tr_tenure_holds(&t, now + 6 * SECOND));
    assert_false(tr_tenure_holds(&t, now + 9 * SECOND));
}

/* It stood still: others may own the slot by now, whatever an answer says that had come before. */
static void test_member_stood_still(void **state)
{
    struct tr_tenure t;

    (void)state;
    tr_tenure_init(&t, 9 * SECOND);
    assert_true(tr_tenure_beat(&t, SECOND));
    tr_tenure_answered(&t);
    assert_true(tr_tenure_holds(&t, 2 * SECOND));
    assert_true(tr_tenure_beat(&t, 9 * SECOND));
    tr_tenure_answered(&t);
    assert_false(tr_tenure_holds(&t, 9 * SECOND));
    assert_true(tr_tenure_holds(&t, 9 * SECOND + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_member_shares_are_even),
        cmocka_unit_test(test_member_order_does_not_matter),
        cmocka_unit_test(test_member_few_slots_move),
        cmocka_unit_test(test_member_tenure),
        cmocka_unit_test(test_member_stood_still),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
