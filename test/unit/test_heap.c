/* The heap against a plain array in which the least item is looked for. */

#include "base/err.h"
#include "base/heap.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct tr_heap_item item_of(uint32_t first, uint64_t second, uint64_t third)
{
    return (struct tr_heap_item){.first = first, .second = second, .third = third};
}

static void test_heap_orders_by_all_three_keys(void **state)
{
    static const uint64_t want[] = {4, 3, 2, 1};
    struct tr_mem mem;
    struct tr_heap h;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_heap_init(&h, &mem);
    assert_null(tr_heap_top(&h));
    assert_int_equal(tr_heap_push(&h, item_of(2, 0, 1)), TARRY_OK);
    assert_int_equal(tr_heap_push(&h, item_of(1, 9, 2)), TARRY_OK);
    assert_int_equal(tr_heap_push(&h, item_of(1, 7, 4)), TARRY_OK);
    assert_int_equal(tr_heap_push(&h, item_of(1, 8, 3)), TARRY_OK);
    for (int i = 0; i < 4; i++) {
        assert_true(tr_heap_top(&h)->third == want[i]);
        tr_heap_pop(&h);
    }
    assert_null(tr_heap_top(&h));
    tr_heap_fini(&h);
    assert_true(mem.used_bytes == 0);
}

static void test_heap_gives_memory_back(void **state)
{
    struct tr_mem mem;
    struct tr_heap h;
    uint64_t full;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_heap_init(&h, &mem);
    for (uint64_t i = 0; i < 10000; i++) {
        assert_int_equal(tr_heap_push(&h, item_of(0, 0, i)), TARRY_OK);
    }
    full = mem.used_bytes;
    while (h.count > 1000) {
        tr_heap_pop(&h);
    }
    assert_true(mem.used_bytes <= full / 4);
    tr_heap_fini(&h);
    assert_true(mem.used_bytes == 0);
}

static void test_heap_push_without_memory_changes_nothing(void **state)
{
    struct tr_mem mem;
    struct tr_heap h;
    uint64_t pushed = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_heap_init(&h, &mem);
    for (int turn = 0; turn < 2000; turn++) {
        struct tr_heap_item item = item_of((uint32_t)(2000 - turn), 0, 0);

        mem.fail_at = mem.calls + 1; /* every push that asks for memory is refused once */
        if (tr_heap_push(&h, item) != TARRY_OK) {
            assert_int_equal(h.count, pushed);
            assert_true(tr_heap_ok(&h));
            assert_int_equal(tr_heap_push(&h, item), TARRY_OK);
        }
        pushed++;
    }
    for (uint32_t i = 1; i <= 2000; i++) {
        mem.fail_at = mem.calls + 1; /* a pop does not mind */
        assert_int_equal(tr_heap_top(&h)->first, i);
        tr_heap_pop(&h);
    }
    assert_null(tr_heap_top(&h));
    tr_heap_fini(&h);
    assert_true(mem.used_bytes == 0);
}

enum { N = 500 };

struct model {
    struct tr_heap_item items[N];
    int count;
};

static int model_least(const struct model *m)
{
    int best = 0;

    for (int i = 1; i < m->count; i++) {
        const struct tr_heap_item *a = &m->items[i];
        const struct tr_heap_item *b = &m->items[best];

        if (a->first < b->first || (a->first == b->first && a->second < b->second) ||
            (a->first == b->first && a->second == b->second && a->third < b->third)) {
            best = i;
        }
    }
    return best;
}

static bool keep(void *ctx, const struct tr_heap_item *item)
{
    return item->stamp % 4 != *(uint32_t *)ctx;
}

static void model_filter(struct model *m, uint32_t drop)
{
    int kept = 0;

    for (int i = 0; i < m->count; i++) {
        if (m->items[i].stamp % 4 != drop) {
            m->items[kept++] = m->items[i];
        }
    }
    m->count = kept;
}

static void pop_both(struct tr_heap *h, struct model *m)
{
    int i = model_least(m);

    assert_memory_equal(tr_heap_top(h), &m->items[i], sizeof m->items[i]);
    m->items[i] = m->items[--m->count];
    tr_heap_pop(h);
}

static void test_heap_agrees_with_model(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct tr_rng rng = {.state = seed};
        struct model model = {.count = 0};
        struct tr_mem mem;
        struct tr_heap h;

        tr_mem_init(&mem, 0);
        tr_heap_init(&h, &mem);
        for (uint64_t turn = 0; turn < 2000; turn++) {
            uint64_t what = tr_rng_below(&rng, 200);

            if (what == 0) {
                uint32_t drop = (uint32_t)tr_rng_below(&rng, 4);

                model_filter(&model, drop);
                tr_heap_filter(&h, keep, &drop);
            } else if (what < 120 && model.count < N) {
                struct tr_heap_item item =
                    item_of((uint32_t)tr_rng_below(&rng, 3), tr_rng_below(&rng, 3), turn);

                item.stamp = (uint32_t)tr_rng_next(&rng);
                model.items[model.count++] = item;
                assert_int_equal(tr_heap_push(&h, item), TARRY_OK);
            } else if (model.count > 0) {
                pop_both(&h, &model);
            }
            assert_true(tr_heap_ok(&h));
            assert_int_equal(h.count, model.count);
        }
        while (model.count > 0) {
            pop_both(&h, &model);
        }
        assert_null(tr_heap_top(&h));
        tr_heap_fini(&h);
        assert_true(mem.used_bytes == 0);
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
