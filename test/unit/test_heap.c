/* The heap against a plain array in which the least item is looked for. */

#include "base/err.h"
#include "base/heap.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MANY = 20000 }; /* several chunks */

struct thing {
    uint64_t name;
    uint32_t place;
    struct tr_heap_item item; /* as last pushed */
};

static struct tr_mem mem;
static struct tr_heap heap;
static struct thing things[MANY];

static void start(void)
{
    tr_mem_init(&mem, 0);
    tr_heap_init(&heap, &mem, offsetof(struct thing, place));
    for (unsigned i = 0; i < MANY; i++) {
        things[i] = (struct thing){.name = i};
    }
}

static void end(void)
{
    tr_heap_fini(&heap);
    assert_int_equal(mem.used_bytes, 0);
}

static struct tr_heap_item item_of(struct thing *t, uint32_t first, uint64_t second, uint64_t third)
{
    t->item = (struct tr_heap_item){.first = first, .second = second, .third = third, .what = t};
    return t->item;
}

static void pop(struct thing *want)
{
    assert_ptr_equal(tr_heap_top(&heap)->what, want);
    tr_heap_remove(&heap, want);
    assert_int_equal(want->place, 0);
}

static void test_heap_orders_by_all_three_keys(void **state)
{
    (void)state;
    start();
    assert_null(tr_heap_top(&heap));
    assert_int_equal(tr_heap_push(&heap, item_of(&things[0], 2, 0, 1)), TARRY_OK);
    assert_int_equal(tr_heap_push(&heap, item_of(&things[1], 1, 9, 2)), TARRY_OK);
    assert_int_equal(tr_heap_push(&heap, item_of(&things[2], 1, 7, 4)), TARRY_OK);
    assert_int_equal(tr_heap_push(&heap, item_of(&things[3], 1, 7, 3)), TARRY_OK);
    pop(&things[3]);
    pop(&things[2]);
    pop(&things[1]);
    pop(&things[0]);
    assert_null(tr_heap_top(&heap));
    end();
}

static void test_heap_gives_memory_back(void **state)
{
    uint64_t full;

    (void)state;
    start();
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(tr_heap_push(&heap, item_of(&things[i], 0, 0, i)), TARRY_OK);
    }
    full = mem.used_bytes;
    assert_true(full < (MANY + 5000) * sizeof(struct tr_heap_item)); /* no doubling */
    for (unsigned i = 0; i < MANY * 9 / 10; i++) {
        pop(&things[i]);
    }
    assert_true(mem.used_bytes <= full / 2);
    for (unsigned i = MANY * 9 / 10; i < MANY - 1; i++) {
        pop(&things[i]);
    }
    assert_true(mem.used_bytes < 1000);
    assert_true(tr_heap_ok(&heap));
    end();
}

static void test_heap_push_without_memory_changes_nothing(void **state)
{
    (void)state;
    start();
    for (unsigned i = 0; i < MANY; i++) {
        struct tr_heap_item item = item_of(&things[i], MANY - i, 0, 0);

        mem.fail_at = mem.calls + 1; /* every push that asks for memory is refused once */
        while (tr_heap_push(&heap, item) != TARRY_OK) {
            assert_int_equal(heap.count, i);
            assert_int_equal(things[i].place, 0);
            assert_true(tr_heap_ok(&heap));
        }
    }
    for (unsigned i = MANY; i > 0; i--) {
        mem.fail_at = mem.calls + 1; /* taking out does not mind */
        pop(&things[i - 1]);
    }
    assert_null(tr_heap_top(&heap));
    end();
}

static bool less(const struct tr_heap_item *a, const struct tr_heap_item *b)
{
    if (a->first != b->first) {
        return a->first < b->first;
    }
    return a->second != b->second ? a->second < b->second : a->third < b->third;
}

static struct thing *least(unsigned count)
{
    struct thing *best = NULL;

    for (unsigned i = 0; i < count; i++) {
        if (things[i].place != 0 && (best == NULL || less(&things[i].item, &best->item))) {
            best = &things[i];
        }
    }
    return best;
}

static void test_heap_agrees_with_model(void **state)
{
    enum { COUNT = 300 };

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct tr_rng rng = {.state = seed};
        unsigned in = 0;

        start();
        for (uint64_t turn = 0; turn < 3000; turn++) {
            struct thing *t = &things[tr_rng_below(&rng, COUNT)];
            const struct thing *first = least(COUNT);
            uint64_t what = tr_rng_below(&rng, 10);

            assert_ptr_equal(tr_heap_top(&heap) != NULL ? tr_heap_top(&heap)->what : NULL, first);
            if (t->place == 0) {
                assert_int_equal(tr_heap_push(&heap, item_of(t, (uint32_t)tr_rng_below(&rng, 3),
                                                             tr_rng_below(&rng, 3), turn)),
                                 TARRY_OK);
                in++;
            } else if (what < 4) {
                tr_heap_update(&heap, item_of(t, (uint32_t)tr_rng_below(&rng, 3),
                                              tr_rng_below(&rng, 3), turn));
            } else if (what < 9 - (turn / 500) % 3 * 2) {
                tr_heap_remove(&heap, t);
                assert_int_equal(t->place, 0);
                in--;
            }
            assert_true(tr_heap_ok(&heap));
            assert_int_equal(heap.count, in);
        }
        while (in > 0) {
            pop(least(COUNT));
            in--;
        }
        assert_null(tr_heap_top(&heap));
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heap_orders_by_all_three_keys),
        cmocka_unit_test(test_heap_gives_memory_back),
        cmocka_unit_test(test_heap_push_without_memory_changes_nothing),
        cmocka_unit_test(test_heap_agrees_with_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
