/* The map against an array indexed by the key, while it grows and shrinks. */

#include "base/err.h"
#include "base/map.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { N = 20000 };

static char things[N]; /* values are pointers into it */

static void test_map_put_find_take(void **state)
{
    struct tr_mem mem;
    struct tr_map m;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_map_init(&m, &mem);
    assert_null(tr_map_find(&m, 0));
    assert_null(tr_map_take(&m, 0));
    assert_int_equal(tr_map_put(&m, 0, &things[1]), TARRY_OK);
    assert_int_equal(tr_map_put(&m, UINT64_MAX, &things[2]), TARRY_OK);
    assert_int_equal(tr_map_put(&m, 0, &things[3]), TARRY_OK); /* replaces */
    assert_int_equal(tr_map_count(&m), 2);
    assert_ptr_equal(tr_map_find(&m, 0), &things[3]);
    assert_ptr_equal(tr_map_take(&m, 0), &things[3]);
    assert_null(tr_map_find(&m, 0));
    assert_ptr_equal(tr_map_find(&m, UINT64_MAX), &things[2]);
    tr_map_fini(&m);
    assert_true(mem.used_bytes == 0);
}

/* What happens to keys that are still in the old table. */
static void test_map_works_in_the_middle_of_a_move(void **state)
{
    struct tr_mem mem;
    struct tr_map m;
    uint64_t count = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_map_init(&m, &mem);
    while (count < 1000 || m.old.room == 0 || count % 2 != 0) {
        assert_int_equal(tr_map_put(&m, count, &things[count]), TARRY_OK);
        count++;
    }
    assert_true(m.old.used > count / 2);
    for (uint64_t k = 0; k < count; k += 2) {
        assert_ptr_equal(tr_map_take(&m, k), &things[k]);
        assert_null(tr_map_take(&m, k));
        assert_int_equal(tr_map_put(&m, k + 1, &things[k]), TARRY_OK);
        assert_true(tr_map_ok(&m));
    }
    assert_int_equal(tr_map_count(&m), count / 2);
    for (uint64_t k = 0; k < count; k++) {
        assert_ptr_equal(tr_map_find(&m, k), k % 2 == 0 ? NULL : &things[k - 1]);
    }
    tr_map_fini(&m);
    assert_true(mem.used_bytes == 0);
}

static void test_map_gives_memory_back(void **state)
{
    struct tr_mem mem;
    struct tr_map m;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_map_init(&m, &mem);
    for (uint64_t k = 0; k < 200000; k++) {
        assert_int_equal(tr_map_put(&m, k, things), TARRY_OK);
    }
    for (uint64_t k = 100; k < 200000; k++) {
        assert_ptr_equal(tr_map_take(&m, k), things);
    }
    for (int i = 0; i < 5000; i++) { /* looking is enough to go on */
        assert_null(tr_map_take(&m, 100));
    }
    assert_true(mem.used_bytes <= 2048 * sizeof(struct tr_map_entry));
    assert_true(tr_map_ok(&m));
    tr_map_fini(&m);
    assert_true(mem.used_bytes == 0);
}

/* Promised puts succeed without memory, also when takes come between and would shrink the map. */
static void test_map_reserve_is_a_promise(void **state)
{
    (void)state;
    for (uint64_t more = 1; more < 5000; more = more * 3 + 1) {
        for (uint64_t before = 0; before < 9000; before = before * 2 + 5) {
            struct tr_mem mem;
            struct tr_map m;

            tr_mem_init(&mem, 0);
            tr_map_init(&m, &mem);
            for (uint64_t k = 0; k < before; k++) {
                assert_int_equal(tr_map_put(&m, k, &things[k]), TARRY_OK);
            }
            mem.fail_at = mem.calls + 1;
            if (tr_map_reserve(&m, (size_t)more) != TARRY_OK) {
                assert_true(tr_map_ok(&m));
                assert_int_equal(tr_map_count(&m), before);
                assert_int_equal(tr_map_reserve(&m, (size_t)more), TARRY_OK);
            }
            for (uint64_t k = 0; k < before; k++) {
                assert_ptr_equal(tr_map_take(&m, k), &things[k]);
            }
            mem.fail_at = mem.calls + 1;
            mem.fail_on = true;
            for (uint64_t k = 0; k < more; k++) {
                assert_int_equal(tr_map_put(&m, k * 12345, &things[k]), TARRY_OK);
            }
            assert_true(tr_map_ok(&m));
            tr_map_fini(&m);
            assert_true(mem.used_bytes == 0);
        }
    }
}

/* Every request for memory is refused once, at every size: nothing is lost. */
static void test_map_put_without_memory_changes_nothing(void **state)
{
    struct tr_mem mem;
    struct tr_map m;
    uint64_t refused = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_map_init(&m, &mem);
    for (uint64_t k = 0; k < N; k++) {
        mem.fail_at = mem.calls + 1;
        if (tr_map_put(&m, k, &things[k]) != TARRY_OK) {
            refused++;
            assert_true(tr_map_ok(&m));
            assert_int_equal(tr_map_count(&m), k);
            assert_null(tr_map_find(&m, k));
            assert_int_equal(tr_map_put(&m, k, &things[k]), TARRY_OK);
        }
    }
    assert_true(refused > 5);
    mem.fail_at = mem.calls + 1;
    mem.fail_on = true;
    for (uint64_t k = 0; k < N; k++) {
        assert_ptr_equal(tr_map_take(&m, k), &things[k]);
    }
    assert_int_equal(tr_map_count(&m), 0);
    tr_map_fini(&m);
    assert_true(mem.used_bytes == 0);
}

/* Keys that the model knows by a small number; some sets of keys are regular, as rids are. */
static uint64_t key_of(uint64_t n, uint64_t seed)
{
    return seed % 3 == 0 ? n : seed % 3 == 1 ? n << 32 : n * UINT64_C(0x9e3779b97f4a7c15);
}

static void test_map_agrees_with_model(void **state)
{
    static void *model[N];

    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct tr_rng rng = {.state = seed};
        struct tr_mem mem;
        struct tr_map m;
        size_t count = 0;

        memset(model, 0, sizeof model);
        tr_mem_init(&mem, 0);
        tr_map_init(&m, &mem);
        for (uint64_t turn = 0; turn < 200000; turn++) {
            /* The share of puts and the keys in use swing, so that the map grows and shrinks. */
            uint64_t phase = turn / 5000 % 8;
            uint64_t n = tr_rng_below(&rng, phase < 4 ? N : 300);
            uint64_t key = key_of(n, seed);
            void *value = &things[tr_rng_below(&rng, N)];

            assert_ptr_equal(tr_map_find(&m, key), model[n]);
            if (tr_rng_below(&rng, 8) < 8 - phase) {
                assert_int_equal(tr_map_put(&m, key, value), TARRY_OK);
                count += model[n] == NULL;
                model[n] = value;
            } else {
                n = tr_rng_below(&rng, N);
                assert_ptr_equal(tr_map_take(&m, key_of(n, seed)), model[n]);
                count -= model[n] != NULL;
                model[n] = NULL;
            }
            assert_int_equal(tr_map_count(&m), count);
            assert_true(turn % 2003 != 0 || tr_map_ok(&m));
        }
        for (uint64_t n = 0; n < N; n++) {
            assert_ptr_equal(tr_map_take(&m, key_of(n, seed)), model[n]);
        }
        assert_true(tr_map_ok(&m));
        tr_map_fini(&m);
        assert_true(mem.used_bytes == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_put_find_take),
        cmocka_unit_test(test_map_works_in_the_middle_of_a_move),
        cmocka_unit_test(test_map_gives_memory_back),
        cmocka_unit_test(test_map_reserve_is_a_promise),
        cmocka_unit_test(test_map_put_without_memory_changes_nothing),
        cmocka_unit_test(test_map_agrees_with_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
