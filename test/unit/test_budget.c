/* How memory.limit is cut. */

#include "server/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static struct tr_config config_of(uint64_t bytes, unsigned percent)
{
    return (struct tr_config){.memory_bytes = bytes,
                              .memory_percent = percent,
                              .near_max = 2500000,
                              .far_max = 1000000,
                              .buffers = 256 << 20,
                              .history_bytes = 64 << 20};
}

static void test_budget_without_limit(void **state)
{
    struct tr_config c = config_of(0, 0);
    struct tr_budget b = tr_budget_cut(&c, 512 * MIB);

    (void)state;
    assert_int_equal(b.all, 0);
    assert_int_equal(b.engine, 0);
    assert_int_equal(b.connections, 256 * MIB);
    assert_int_equal(b.near_max, 2500000);
    assert_int_equal(b.far_max, 1000000);
    assert_int_equal(b.bodies, 256 * MIB);
    assert_int_equal(b.history, 64 * MIB);
    assert_int_equal(b.promote_slots, 4);
}

/* Whatever the limit, its parts are not more than it is, and the engine has most of it. */
static void test_budget_parts(void **state)
{
    (void)state;
    for (uint64_t all = TR_CONFIG_MEMORY_MIN; all < UINT64_C(1) << 40; all += all / 3) {
        struct tr_config c = config_of(all, 0);
        struct tr_budget b = tr_budget_cut(&c, 0);

        assert_int_equal(b.all, all);
        assert_true(b.engine + b.connections + b.history + all / 8 <= all);
        assert_true(b.engine >= all / 8 * 5);
        assert_true(b.near_max * 350 + b.bodies + b.far_max * 26 <= b.engine / 4 * 3);
        assert_true(b.near_max <= 2500000 && b.far_max <= 1000000 && b.bodies <= 256 * MIB);
        assert_true(b.near_max > 90000 && b.far_max > 400000);
    }
}

static void test_budget_of_the_machine(void **state)
{
    struct tr_config c = config_of(0, 75);

    (void)state;
    assert_int_equal(tr_budget_cut(&c, 8192 * MIB).all, 8192 * MIB / 100 * 75);
    assert_int_equal(tr_budget_cut(&c, 8192 * MIB).near_max, 2500000); /* as without a limit */
    assert_int_equal(tr_budget_cut(&c, 100 * MIB).all, TR_CONFIG_MEMORY_MIN);
    assert_int_equal(tr_budget_cut(&c, 0).all, 0); /* nobody knows */
}

static void test_budget_what_is_given(void **state)
{
    struct tr_config c = config_of(TR_CONFIG_MEMORY_MIN, 0);
    struct tr_budget b;

    (void)state;
    c.settings[TR_KEY_MEMORY_NEAR].from = TR_FROM_FLAG;
    c.settings[TR_KEY_MEMORY_FAR].from = TR_FROM_FILE;
    b = tr_budget_cut(&c, 0);
    assert_int_equal(b.near_max, 2500000);
    assert_int_equal(b.far_max, 1000000);
    assert_int_equal(b.history, 8 * MIB);
    assert_false(b.less_history);
    assert_int_equal(b.connections, 16 * MIB);
    c.settings[TR_KEY_HISTORY_BYTES].from = TR_FROM_ENVIRONMENT;
    c.settings[TR_KEY_LIMITS_BUFFERS].from = TR_FROM_FLAG;
    b = tr_budget_cut(&c, 0);
    assert_int_equal(b.history, 32 * MIB);
    assert_int_equal(b.connections, 256 * MIB);
    assert_true(b.less_history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget_without_limit),
        cmocka_unit_test(test_budget_parts),
        cmocka_unit_test(test_budget_of_the_machine),
        cmocka_unit_test(test_budget_what_is_given),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
