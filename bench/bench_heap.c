/* The heap of ready jobs: COUNT items go in; as many times the least goes out and another comes;
 * then all come out. A quarter leaves from the middle. */

#include "base/check.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/rng.h"
#include "bench/micro.h"

#include <stdlib.h>

struct thing {
    uint64_t name;
    uint32_t place;
};

static void push(struct tr_heap *h, struct thing *t, struct tr_rng *rng)
{
    struct tr_heap_item item = {.first = (uint32_t)tr_rng_below(rng, 4),
                                .second = tr_rng_next(rng) >> 20,
                                .third = t->name,
                                .what = t};

    TR_CHECK(tr_heap_push(h, item) == TARRY_OK);
}

static struct thing *pop(struct tr_heap *h, uint64_t *sum)
{
    struct thing *t = tr_heap_top(h)->what;

    *sum = micro_sum(*sum, t->name);
    tr_heap_remove(h, t);
    return t;
}

int main(int argc, char **argv)
{
    struct micro m = micro_init("heap", argc, argv, 20000, UINT64_C(0x1819ed4751b17871));
    struct tr_rng rng = {1};
    struct thing *things = calloc(m.count, sizeof(*things));
    struct tr_mem mem;
    struct tr_heap heap;
    uint64_t sum = 0;
    uint64_t ops = m.count * 2;

    TR_CHECK(things != NULL);
    tr_mem_init(&mem, 0);
    tr_heap_init(&heap, &mem, offsetof(struct thing, place));
    micro_begin(&m);
    for (uint64_t i = 0; i < m.count; i++) {
        things[i].name = i;
        push(&heap, &things[i], &rng);
    }
    for (uint64_t i = 0; i < m.count; i++) {
        push(&heap, pop(&heap, &sum), &rng);
    }
    for (uint64_t i = 0; i < m.count; i += 4) {
        tr_heap_remove(&heap, &things[i]);
    }
    while (heap.count > 0) {
        (void)pop(&heap, &sum);
    }
    micro_end(&m);
    ops += m.count * 2;
    tr_heap_fini(&heap);
    TR_CHECK(mem.used_bytes == 0);
    free(things);
    return micro_print(&m, ops, sum);
}
