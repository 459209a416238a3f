/* The budget: what it counts, what it refuses, what tests can make fail. */

#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static bool all_zero(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i] != 0) {
            return false;
        }
    }
    return true;
}

static void test_mem_limit_is_exact(void **state)
{
    struct tr_mem m;
    void *a;
    void *b;

    (void)state;
    tr_mem_init(&m, 100);
    a = tr_mem_alloc(&m, 60);
    assert_non_null(a);
    assert_null(tr_mem_alloc(&m, 41));
    assert_null(tr_mem_resize(&m, a, 60, 101));
    b = tr_mem_alloc(&m, 40);
    assert_non_null(b);
    assert_true(m.used_bytes == 100);
    tr_mem_free(&m, a, 60);
    tr_mem_free(&m, b, 40);
    tr_mem_free(&m, NULL, 0);
    assert_true(m.used_bytes == 0);
}

static void test_mem_new_bytes_are_zero(void **state)
{
    struct tr_mem m;
    uint8_t *p;

    (void)state;
    tr_mem_init(&m, 0);
    p = tr_mem_alloc(&m, 100);
    assert_true(all_zero(p, 100));
    memset(p, 0xaa, 100);
    p = tr_mem_resize(&m, p, 100, 50); /* what is cut off must not come back */
    p = tr_mem_resize(&m, p, 50, 200);
    assert_int_equal(p[49], 0xaa);
    assert_true(all_zero(p + 50, 150));
    tr_mem_free(&m, p, 200);
    assert_true(m.used_bytes == 0);
}

static void test_mem_nth_request_fails(void **state)
{
    struct tr_mem m;
    uint8_t *p;

    (void)state;
    tr_mem_init(&m, 0);
    m.fail_at = 2;
    p = tr_mem_alloc(&m, 10);
    assert_non_null(p);
    p[0] = 7;
    assert_null(tr_mem_resize(&m, p, 10, 20)); /* the second; p is as it was */
    assert_int_equal(p[0], 7);
    assert_true(m.used_bytes == 10);
    p = tr_mem_stretch(&m, p, 10, 20);
    assert_non_null(p);
    m.fail_on = true;
    assert_null(tr_mem_alloc(&m, 1));
    assert_null(tr_mem_resize(&m, p, 20, 5));
    assert_true(m.calls == 5);
    tr_mem_free(&m, p, 20);
    assert_true(m.used_bytes == 0);
}

/* Pieces come and go; the sum is right and nobody writes into another's bytes. */
static void test_mem_agrees_with_model(void **state)
{
    enum { N = 50, LIMIT = 5000 };
    struct tr_rng rng = {.state = 1};
    uint8_t *at[N] = {0};
    size_t size[N] = {0};
    uint64_t sum = 0;
    struct tr_mem m;

    (void)state;
    tr_mem_init(&m, LIMIT);
    for (int turn = 0; turn < 20000; turn++) {
        int i = (int)tr_rng_below(&rng, N);
        size_t want = 1 + (size_t)tr_rng_below(&rng, 300);
        bool fits = sum - size[i] + want <= LIMIT;
        uint8_t *p;

        for (size_t k = 0; k < size[i]; k++) {
            assert_int_equal(at[i][k], i + 1);
        }
        if (tr_rng_below(&rng, 3) == 0) {
            tr_mem_free(&m, at[i], size[i]);
            sum -= size[i];
            at[i] = NULL;
            size[i] = 0;
        } else {
            p = tr_mem_resize(&m, at[i], size[i], want);
            assert_true((p != NULL) == (fits || want <= size[i]));
            if (p != NULL) {
                sum = sum - size[i] + want;
                at[i] = p;
                size[i] = want;
                memset(p, i + 1, want);
            }
        }
        assert_true(m.used_bytes == sum);
    }
    for (int i = 0; i < N; i++) {
        tr_mem_free(&m, at[i], size[i]);
    }
    assert_true(m.used_bytes == 0);
}

/* What is new is refused first, then what can wait; the rest is for what cannot. */
static void test_mem_parts(void **state)
{
    struct tr_mem m;
    void *a;

    (void)state;
    tr_mem_init(&m, 800);
    a = tr_mem_alloc(&m, 500);
    assert_non_null(a);
    assert_true(tr_mem_spare(&m, 100));
    assert_false(tr_mem_spare(&m, 101));
    assert_true(tr_mem_room(&m, 200));
    assert_false(tr_mem_room(&m, 201));
    tr_mem_free(&m, a, 500);
    tr_mem_init(&m, UINT64_C(64) << 30); /* of much memory not so much is kept */
    assert_true(tr_mem_spare(&m, (size_t)63 << 30));
    assert_false(tr_mem_spare(&m, ((size_t)63 << 30) + 1));
    assert_false(tr_mem_room(&m, ((size_t)127 << 29) + 1));
    tr_mem_init(&m, 0);
    assert_true(tr_mem_spare(&m, SIZE_MAX / 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mem_limit_is_exact),
        cmocka_unit_test(test_mem_new_bytes_are_zero),
        cmocka_unit_test(test_mem_nth_request_fails),
        cmocka_unit_test(test_mem_agrees_with_model),
        cmocka_unit_test(test_mem_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
