/* When a topic is asked for again. */

#include "cluster/vigil.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)

struct fixture {
    struct tr_mem mem;
    struct tr_vigil g;
    struct tr_watch w;
};

static void start(struct fixture *f, uint64_t now_us)
{
    *f = (struct fixture){.w = {.salt = 12345}};
    tr_mem_init(&f->mem, 0);
    tr_vigil_init(&f->g, &f->mem);
    assert_int_equal(tr_vigil_next(&f->g), UINT64_MAX);
    assert_int_equal(tr_vigil_add(&f->g, &f->w, now_us), TARRY_OK);
}

static void end(struct fixture *f)
{
    tr_vigil_remove(&f->g, &f->w);
    assert_int_equal(tr_vigil_next(&f->g), UINT64_MAX);
    tr_vigil_fini(&f->g);
    assert_int_equal(f->mem.used_bytes, 0);
}

static void test_vigil_at_the_due_time(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 5);
    assert_ptr_equal(tr_vigil_take(&f.g, 5), &f.w);
    assert_null(tr_vigil_take(&f.g, 5));
    tr_vigil_answered(&f.g, &f.w, 10 * SECOND, 6);
    assert_int_equal(tr_vigil_next(&f.g), 10 * SECOND);
    assert_null(tr_vigil_take(&f.g, 10 * SECOND - 1));
    assert_ptr_equal(tr_vigil_take(&f.g, 10 * SECOND), &f.w);
    end(&f);
}

/* Each minute, whatever was said; also when no answer came at all. */
static void test_vigil_each_minute(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, SECOND);
    assert_ptr_equal(tr_vigil_take(&f.g, SECOND), &f.w);
    assert_true(tr_vigil_next(&f.g) <= 61 * SECOND);
    assert_true(tr_vigil_next(&f.g) >= 46 * SECOND);
    tr_vigil_answered(&f.g, &f.w, UINT64_MAX, 2 * SECOND);
    assert_true(tr_vigil_next(&f.g) <= 61 * SECOND); /* from the question on */
    assert_ptr_equal(tr_vigil_take(&f.g, 61 * SECOND), &f.w);
    tr_vigil_answered(&f.g, &f.w, 3600 * SECOND, 62 * SECOND);
    assert_true(tr_vigil_next(&f.g) <= 121 * SECOND);
    end(&f);
}

static void test_vigil_woken(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 0);
    assert_ptr_equal(tr_vigil_take(&f.g, 0), &f.w);
    tr_vigil_answered(&f.g, &f.w, 40 * SECOND, 1);
    tr_vigil_woken(&f.g, &f.w, 50 * SECOND, 2); /* later than what is known */
    assert_int_equal(tr_vigil_next(&f.g), 40 * SECOND);
    tr_vigil_woken(&f.g, &f.w, 20 * SECOND, 2);
    assert_int_equal(tr_vigil_next(&f.g), 20 * SECOND);
    tr_vigil_woken(&f.g, &f.w, 0, 3 * SECOND); /* past: at once */
    assert_int_equal(tr_vigil_next(&f.g), 3 * SECOND);
    end(&f);
}

/* What woke it may be younger than the answer that is on its way. */
static void test_vigil_woken_while_asking(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 0);
    assert_ptr_equal(tr_vigil_take(&f.g, 0), &f.w);
    tr_vigil_woken(&f.g, &f.w, 20 * SECOND, 1);
    assert_null(tr_vigil_take(&f.g, 2));
    tr_vigil_answered(&f.g, &f.w, UINT64_MAX, 3);
    assert_ptr_equal(tr_vigil_take(&f.g, 3), &f.w);
    tr_vigil_answered(&f.g, &f.w, UINT64_MAX, 4);
    assert_null(tr_vigil_take(&f.g, 5));
    end(&f);
}

static void test_vigil_deaf(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 0);
    tr_vigil_set_deaf(&f.g, true);
    assert_ptr_equal(tr_vigil_take(&f.g, 0), &f.w);
    tr_vigil_answered(&f.g, &f.w, UINT64_MAX, 1);
    assert_int_equal(tr_vigil_next(&f.g), SECOND);
    end(&f);
}

static void test_vigil_gone_meanwhile(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 0);
    assert_ptr_equal(tr_vigil_take(&f.g, 0), &f.w);
    tr_vigil_remove(&f.g, &f.w);
    tr_vigil_answered(&f.g, &f.w, 5, 1);
    tr_vigil_woken(&f.g, &f.w, 5, 1);
    assert_int_equal(tr_vigil_next(&f.g), UINT64_MAX);
    assert_int_equal(tr_vigil_add(&f.g, &f.w, 7), TARRY_OK);
    end(&f);
}

/* Who came when the round was over is asked for all the same. */
static void test_vigil_woken_while_asked_before_its_time(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 5);
    assert_ptr_equal(tr_vigil_take(&f.g, 5), &f.w);
    tr_vigil_answered(&f.g, &f.w, UINT64_MAX, 6);
    tr_vigil_asked(&f.g, &f.w, 7);
    tr_vigil_woken(&f.g, &f.w, SECOND, 8);
    tr_vigil_answered(&f.g, &f.w, UINT64_MAX, 9);
    assert_ptr_equal(tr_vigil_take(&f.g, 9), &f.w);
    tr_vigil_answered(&f.g, &f.w, SECOND, 10);
    tr_vigil_asked(&f.g, &f.w, 11);
    tr_vigil_asked(&f.g, &f.w, 12); /* twice is once */
    tr_vigil_answered(&f.g, &f.w, 2 * SECOND, 13);
    assert_int_equal(tr_vigil_next(&f.g), 2 * SECOND);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vigil_at_the_due_time),
        cmocka_unit_test(test_vigil_each_minute),
        cmocka_unit_test(test_vigil_woken),
        cmocka_unit_test(test_vigil_woken_while_asking),
        cmocka_unit_test(test_vigil_woken_while_asked_before_its_time),
        cmocka_unit_test(test_vigil_deaf),
        cmocka_unit_test(test_vigil_gone_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
