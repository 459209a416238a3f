/* The sort against qsort of the same items, with ranges that leave others alone. */

#include "base/rng.h"
#include "base/sort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 5000, ROUNDS = 200 };

static struct tr_sort_item halves[2][MANY];
static struct tr_sort_item want[MANY];
static struct tr_sort sort;

/* The order of equal keys is that of `at`, which the items are given in. */
static int compare(const void *a, const void *b)
{
    const struct tr_sort_item *x = a;
    const struct tr_sort_item *y = b;

    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->at < y->at ? -1 : x->at > y->at;
}

static void fill(struct tr_rng *rng, uint64_t least, uint64_t spread)
{
    sort = (struct tr_sort){halves[0], halves[1]};
    memset(halves, 0xee, sizeof halves);
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t more = spread == UINT64_MAX ? tr_rng_next(rng) : tr_rng_below(rng, spread + 1);

        halves[0][i] = (struct tr_sort_item){.key = least + more, .more = ~i, .at = i};
    }
    memcpy(want, halves[0], sizeof want);
}

static void check(size_t from, size_t to)
{
    qsort(want + from, to - from, sizeof *want, compare);
    tr_sort(&sort, from, to);
    assert_memory_equal(sort.items, want, sizeof want);
}

static void test_sort_is_stable_whatever_the_spread(void **state)
{
    struct tr_rng rng = {7};

    (void)state;
    for (unsigned bits = 0; bits <= 64; bits++) {
        uint64_t spread = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;

        fill(&rng, UINT64_MAX - spread, spread);
        check(0, MANY);
    }
}

static void test_sort_of_a_part_leaves_the_rest(void **state)
{
    struct tr_rng rng = {8};

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t from = tr_rng_below(&rng, MANY + 1);
        size_t to = from + tr_rng_below(&rng, MANY - from + 1);

        fill(&rng, tr_rng_below(&rng, 3000), UINT64_C(1) << tr_rng_below(&rng, 63));
        check(from, to);
        check(0, to); /* and on from there */
    }
}

static void test_sort_does_not_touch_what_is_sorted(void **state)
{
    struct tr_rng rng = {9};

    (void)state;
    fill(&rng, 5, 1000000);
    check(0, MANY);
    sort.spare = NULL; /* nobody writes there */
    tr_sort(&sort, 0, MANY);
    tr_sort(&sort, 17, 17);
    assert_memory_equal(sort.items, want, sizeof want);
}

/* Falling, and so few that there is hardly a digit to sort by. */
static void test_sort_of_few_and_of_falling_keys(void **state)
{
    struct tr_rng rng = {10};
    const size_t sizes[] = {0, 1, 2, 3, MANY};

    (void)state;
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        fill(&rng, 0, 0);
        for (uint32_t at = 0; at < sizes[i]; at++) {
            halves[0][at].key = UINT64_MAX - at;
        }
        memcpy(want, halves[0], sizeof want);
        check(0, sizes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort_is_stable_whatever_the_spread),
        cmocka_unit_test(test_sort_of_a_part_leaves_the_rest),
        cmocka_unit_test(test_sort_does_not_touch_what_is_sorted),
        cmocka_unit_test(test_sort_of_few_and_of_falling_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
