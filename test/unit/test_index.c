/* The index: pages come and go, memory may run out, and one seeded run against a plain array. */

#include "base/index.h"

#include "base/err.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static int things[8];

static void test_index_finds_what_was_put(void **state)
{
    struct tr_mem mem;
    struct tr_index ix;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_index_init(&ix, &mem);
    assert_null(tr_index_find(&ix, 5));
    assert_null(tr_index_take(&ix, 5));
    assert_int_equal(tr_index_make(&ix, 5), TARRY_OK);
    assert_null(tr_index_find(&ix, 5));
    tr_index_put(&ix, 5, &things[0]);
    assert_int_equal(tr_index_make(&ix, UINT64_MAX), TARRY_OK);
    tr_index_put(&ix, UINT64_MAX, &things[1]);
    assert_ptr_equal(tr_index_find(&ix, 5), &things[0]);
    assert_null(tr_index_find(&ix, 6));
    assert_ptr_equal(tr_index_take(&ix, UINT64_MAX), &things[1]);
    assert_ptr_equal(tr_index_take(&ix, 5), &things[0]);
    assert_int_equal(tr_index_count(&ix), 0);
    assert_true(tr_index_ok(&ix));
    tr_index_fini(&ix);
    assert_int_equal(mem.used_bytes, 0);
}

static void test_index_without_memory_changes_nothing(void **state)
{
    struct tr_mem mem;
    struct tr_index ix;
    int err;

    (void)state;
    for (uint64_t n = 1;; n++) {
        tr_mem_init(&mem, 0);
        tr_index_init(&ix, &mem);
        mem.fail_at = n;
        err = tr_index_make(&ix, 1000);
        assert_true(tr_index_ok(&ix));
        if (err == TARRY_OK) {
            tr_index_put(&ix, 1000, &things[0]);
        }
        tr_index_fini(&ix);
        assert_int_equal(mem.used_bytes, 0);
        if (err == TARRY_OK) {
            assert_true(n > 2);
            return;
        }
        assert_int_equal(err, TARRY_ENOMEM);
    }
}

static void test_index_against_a_model(void **state)
{
    enum { KEYS = 5000 };
    void **model = calloc(KEYS, sizeof *model);
    struct tr_rng rng = {.state = 7};
    struct tr_mem mem;
    struct tr_index ix;
    size_t count = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_index_init(&ix, &mem);
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t key = tr_rng_below(&rng, KEYS);

        assert_ptr_equal(tr_index_find(&ix, key), model[key]);
        if (model[key] != NULL && tr_rng_below(&rng, 8) < (i / 40000 % 2 == 0 ? 2U : 7U)) {
            assert_ptr_equal(tr_index_take(&ix, key), model[key]);
            model[key] = NULL;
            count--;
        } else if (model[key] == NULL && tr_rng_below(&rng, 8) < (i / 40000 % 2 == 0 ? 6U : 1U)) {
            model[key] = &things[tr_rng_below(&rng, 8)];
            assert_int_equal(tr_index_make(&ix, key), TARRY_OK);
            tr_index_put(&ix, key, model[key]);
            count++;
        }
        assert_int_equal(tr_index_count(&ix), count);
        assert_true(i % 5000 != 0 || tr_index_ok(&ix));
    }
    tr_index_fini(&ix);
    assert_int_equal(mem.used_bytes, 0);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_finds_what_was_put),
        cmocka_unit_test(test_index_without_memory_changes_nothing),
        cmocka_unit_test(test_index_against_a_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
