/*
 * The map of keys: COUNT keys are hashed and put; each is found, and as many that are not there are
 * not; each moves to another rid; half are taken and put again. Then a second map is loaded from
 * the first in order, as at start. With an argument every part has a line of its own on stderr,
 * with the longest of its calls, and so have the bytes for each key.
 */

#include "base/check.h"
#include "base/err.h"
#include "base/keymap.h"
#include "base/rng.h"
#include "bench/micro.h"
#include "bench/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 8192 };

static const uint8_t secret[TR_SIPHASH_KEY] = {"bench of keymap"};

struct part {
    const char *name;
    uint64_t begin_ns;
    uint64_t last_ns;
    uint64_t longest_ns;
    uint64_t calls;
};

/* A clock read for each call would cost as much as the call: one for each 16. */
static void tick(struct part *p)
{
    uint64_t now_ns;

    if (++p->calls % 16 == 0) {
        now_ns = watch_now_ns();
        p->longest_ns = now_ns - p->last_ns > p->longest_ns ? now_ns - p->last_ns : p->longest_ns;
        p->last_ns = now_ns;
    }
}

static struct part part_begin(const char *name)
{
    uint64_t now_ns = watch_now_ns();

    return (struct part){.name = name, .begin_ns = now_ns, .last_ns = now_ns};
}

static void part_end(const struct part *p, const struct micro *m, uint64_t ops)
{
    if (m->want == 0) {
        (void)fprintf(stderr, "keymap part=%s ns_op=%.1f longest_16_us=%.1f\n", p->name,
                      (double)(watch_now_ns() - p->begin_ns) / (double)ops,
                      (double)p->longest_ns / 1e3);
    }
}

static struct tr_siphash hash_of(uint64_t n)
{
    struct tr_rng rng = {n};

    return (struct tr_siphash){.high = tr_rng_next(&rng), .low = tr_rng_next(&rng)};
}

static uint64_t bench_hash(const struct micro *m, uint64_t sum)
{
    struct part p = part_begin("hash_24_bytes");

    for (uint64_t i = 0; i < m->count; i++) {
        uint64_t key[3] = {i, i, i};

        sum = micro_sum(sum, tr_siphash(secret, key, sizeof key).low);
    }
    part_end(&p, m, m->count);
    return sum;
}

static void put(struct tr_keymap *map, const struct micro *m)
{
    struct part p = part_begin("put");

    for (uint64_t i = 1; i <= m->count; i++) {
        TR_CHECK(tr_keymap_make(map, hash_of(i)) == TARRY_OK);
        tr_keymap_put(map, hash_of(i), i);
        tick(&p);
    }
    part_end(&p, m, m->count);
}

static uint64_t find(const struct tr_keymap *map, const struct micro *m, uint64_t sum)
{
    struct tr_rng rng = {1};
    struct part p = part_begin("find");

    for (uint64_t i = 0; i < m->count; i++) {
        sum = micro_sum(sum, tr_keymap_find(map, hash_of(1 + tr_rng_below(&rng, m->count)), 0));
        tick(&p);
    }
    part_end(&p, m, m->count);
    p = part_begin("miss");
    for (uint64_t i = 0; i < m->count; i++) {
        uint64_t n = m->count + 1 + tr_rng_below(&rng, m->count);

        sum = micro_sum(sum, tr_keymap_find(map, hash_of(n), 0));
        tick(&p);
    }
    part_end(&p, m, m->count);
    return sum;
}

static void move(struct tr_keymap *map, const struct micro *m)
{
    struct part p = part_begin("move");

    for (uint64_t i = m->count; i > 0; i--) {
        TR_CHECK(tr_keymap_move(map, hash_of(i), i, i + m->count));
        tick(&p);
    }
    part_end(&p, m, m->count);
}

static void take_and_put(struct tr_keymap *map, const struct micro *m)
{
    struct part p = part_begin("take");

    for (uint64_t i = 2; i <= m->count; i += 2) {
        TR_CHECK(tr_keymap_take(map, hash_of(i), i + m->count));
        tick(&p);
    }
    part_end(&p, m, m->count / 2);
    p = part_begin("put_again");
    for (uint64_t i = 2; i <= m->count; i += 2) {
        TR_CHECK(tr_keymap_make(map, hash_of(i)) == TARRY_OK);
        tr_keymap_put(map, hash_of(i), i);
        tick(&p);
    }
    part_end(&p, m, m->count / 2);
}

static uint64_t load(const struct tr_keymap *from, struct tr_keymap *to, const struct micro *m)
{
    struct tr_keymap_entry *all = malloc(m->count * sizeof *all);
    struct tr_keymap_entry e = {0, 0};
    uint64_t count = 0;
    uint64_t sum = 0;
    struct part p = part_begin("walk");

    TR_CHECK(all != NULL);
    while (tr_keymap_next(from, &e)) {
        all[count++] = e;
        sum = micro_sum(sum, e.low);
    }
    TR_CHECK(count == m->count);
    part_end(&p, m, m->count);
    p = part_begin("load");
    TR_CHECK(tr_keymap_expect(to, count) == TARRY_OK);
    for (uint64_t i = 0; i < count; i += BATCH) {
        size_t some = (size_t)(count - i < BATCH ? count - i : BATCH);

        TR_CHECK(tr_keymap_load(to, all + i, some) == TARRY_OK);
    }
    part_end(&p, m, m->count);
    free(all);
    return sum;
}

static void print_size(const struct micro *m, const struct tr_mem *mem, const char *when)
{
    if (m->want == 0) {
        (void)fprintf(stderr, "keymap part=%s bytes_key=%.2f rss_bytes_key=%.2f\n", when,
                      (double)mem->used_bytes / (double)m->count,
                      (double)watch_rss_bytes(getpid()) / (double)m->count);
    }
}

int main(int argc, char **argv)
{
    struct micro m = micro_init("keymap", argc, argv, 20000, UINT64_C(0x8eeae43be82b02e5));
    struct tr_mem mem;
    struct tr_keymap map;
    struct tr_keymap second;
    uint64_t sum;

    tr_mem_init(&mem, 0);
    tr_keymap_init(&map, &mem);
    tr_keymap_init(&second, &mem);
    micro_begin(&m);
    sum = bench_hash(&m, 0);
    put(&map, &m);
    print_size(&m, &mem, "put");
    sum = find(&map, &m, sum);
    move(&map, &m);
    take_and_put(&map, &m);
    print_size(&m, &mem, "put_again");
    sum = micro_sum(sum, load(&map, &second, &m));
    micro_end(&m);
    TR_CHECK(tr_keymap_ok(&map));
    TR_CHECK(tr_keymap_ok(&second));
    TR_CHECK(tr_keymap_count(&second) == m.count);
    tr_keymap_fini(&map);
    print_size(&m, &mem, "load");
    tr_keymap_fini(&second);
    TR_CHECK(mem.used_bytes == 0);
    return micro_print(&m, m.count * 8, sum);
}
