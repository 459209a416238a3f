/* The map of keys against an array of rids, with even hashes, hashes that crowd together and hashes
 * that are the same; what make promises; loading in order; and how many bytes a key takes. */

#include "base/err.h"
#include "base/keymap.h"
#include "base/rng.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 30000, SAME = 4, KINDS = 4 };

/* The hash of the n-th key. Kind 0 is as in life; 1: only 2^20 of all hashes, at the very end; 2:
 * each 80 bits come four times; 3: the first 64 bits do, and there are few of them. */
static struct tr_siphash hash_of(uint64_t n, unsigned kind)
{
    struct tr_rng rng = {.state = kind == 0 ? n : n / SAME};
    struct tr_siphash hash = {.high = tr_rng_next(&rng), .low = tr_rng_next(&rng)};

    if (kind == 1) {
        return (struct tr_siphash){.high = ~(n & 0xfffff), .low = n << 60};
    }
    if (kind == 2) {
        hash.low = (hash.low & ~(TR_KEYMAP_RID_END - 1)) | n;
    } else if (kind == 3) {
        hash.low = n << 48;
    }
    return hash;
}

static int add(struct tr_keymap *m, struct tr_siphash hash, uint64_t rid)
{
    int err = tr_keymap_make(m, hash);

    if (err == TARRY_OK) {
        tr_keymap_put(m, hash, rid);
    }
    return err;
}

/* True when that pair is found by going from rid to rid. */
static bool has(const struct tr_keymap *m, struct tr_siphash hash, uint64_t rid)
{
    uint64_t found = 0;

    do {
        uint64_t next = tr_keymap_find(m, hash, found);

        assert_true(next == 0 || next > found);
        found = next;
    } while (found != 0 && found != rid);
    return found == rid;
}

static void test_keymap_put_find_take(void **state)
{
    struct tr_siphash hash = {.high = 7, .low = UINT64_C(0xabcd) << 48 | 5};
    struct tr_siphash other = {.high = 7, .low = UINT64_C(0xabce) << 48 | 5};
    struct tr_siphash last = {.high = UINT64_MAX, .low = UINT64_MAX};
    struct tr_mem mem;
    struct tr_keymap m;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_keymap_init(&m, &mem);
    assert_true(tr_keymap_find(&m, hash, 0) == 0);
    assert_false(tr_keymap_take(&m, hash, 1));
    assert_false(tr_keymap_move(&m, hash, 1, 2));
    assert_int_equal(tr_keymap_make(&m, hash), TARRY_OK);
    assert_true(tr_keymap_find(&m, hash, 0) == 0);
    tr_keymap_put(&m, hash, 9);
    assert_int_equal(add(&m, last, TR_KEYMAP_RID_END - 1), TARRY_OK);
    assert_true(tr_keymap_find(&m, hash, 0) == 9);
    assert_true(tr_keymap_find(&m, hash, 9) == 0);
    assert_true(tr_keymap_find(&m, other, 0) == 0);
    assert_true(tr_keymap_find(&m, last, 0) == TR_KEYMAP_RID_END - 1);
    assert_true(tr_keymap_find(&m, last, TR_KEYMAP_RID_END - 1) == 0);
    hash.low ^= 0x123; /* bits that are not kept */
    assert_true(tr_keymap_find(&m, hash, 0) == 9);
    assert_false(tr_keymap_take(&m, hash, 8));
    assert_false(tr_keymap_take(&m, hash, 0));
    assert_false(tr_keymap_move(&m, other, 9, 10));
    assert_true(tr_keymap_move(&m, hash, 9, 10));
    assert_false(tr_keymap_take(&m, hash, 9));
    assert_true(tr_keymap_take(&m, hash, 10));
    assert_int_equal(tr_keymap_count(&m), 1);
    assert_true(tr_keymap_ok(&m));
    tr_keymap_fini(&m);
    assert_true(mem.used_bytes == 0);
}

/* Two keys with one hash: both are found, and each can move past the other. */
static void test_keymap_keeps_keys_with_the_same_hash(void **state)
{
    static const uint64_t highs[] = {0, UINT64_C(1) << 63, UINT64_MAX};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct tr_siphash hash = {.high = highs[i], .low = UINT64_C(0xffff) << 48};
        struct tr_mem mem;
        struct tr_keymap m;

        tr_mem_init(&mem, 0);
        tr_keymap_init(&m, &mem);
        for (uint64_t rid = 40; rid > 0; rid -= 10) {
            assert_int_equal(add(&m, hash, rid), TARRY_OK);
        }
        assert_true(tr_keymap_move(&m, hash, 10, 35));
        assert_true(tr_keymap_move(&m, hash, 40, 5));
        assert_true(tr_keymap_move(&m, hash, 30, 31));
        assert_true(tr_keymap_find(&m, hash, 0) == 5);
        assert_true(tr_keymap_find(&m, hash, 5) == 20);
        assert_true(tr_keymap_find(&m, hash, 20) == 31);
        assert_true(tr_keymap_find(&m, hash, 31) == 35);
        assert_true(tr_keymap_find(&m, hash, 35) == 0);
        assert_true(tr_keymap_take(&m, hash, 20));
        assert_true(tr_keymap_find(&m, hash, 5) == 31);
        assert_true(tr_keymap_ok(&m));
        tr_keymap_fini(&m);
        assert_true(mem.used_bytes == 0);
    }
}

/* What must succeed after make, with no memory left, although others leave and move meanwhile. */
static void test_keymap_make_is_a_promise(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        for (uint64_t before = 0; before < 5000; before = before * 3 / 2 + 1) {
            struct tr_mem mem;
            struct tr_keymap m;

            tr_mem_init(&mem, 0);
            tr_keymap_init(&m, &mem);
            for (uint64_t n = 1; n <= before; n++) {
                assert_int_equal(add(&m, hash_of(n, kind), n), TARRY_OK);
            }
            assert_int_equal(tr_keymap_make(&m, hash_of(9999, kind)), TARRY_OK);
            for (uint64_t n = 1; n <= before / 4; n++) {
                assert_true(tr_keymap_move(&m, hash_of(n, kind), n, n + N));
            }
            for (uint64_t n = before / 2 + 1; n <= before; n++) {
                mem.fail_at = n % 3 == 0 ? mem.calls + 1 : 0;
                assert_true(tr_keymap_take(&m, hash_of(n, kind), n));
            }
            mem.fail_at = mem.calls + 1;
            mem.fail_on = true;
            tr_keymap_put(&m, hash_of(9999, kind), 9999);
            assert_int_equal(tr_keymap_count(&m), before / 2 + 1);
            assert_true(has(&m, hash_of(9999, kind), 9999));
            assert_true(tr_keymap_ok(&m));
            tr_keymap_fini(&m);
            assert_true(mem.used_bytes == 0);
        }
    }
}

/* Every request for memory is refused once: nothing is lost, and the next try succeeds. */
static void test_keymap_make_without_memory_changes_nothing(void **state)
{
    struct tr_mem mem;
    struct tr_keymap m;
    unsigned refused = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_keymap_init(&m, &mem);
    for (uint64_t n = 1; n < N; n++) {
        for (uint64_t nth = 1; nth < 4; nth++) {
            mem.fail_at = mem.calls + nth;
            if (tr_keymap_make(&m, hash_of(n, 0)) == TARRY_OK) {
                break;
            }
            refused++;
            assert_true(n % 100 != 0 || tr_keymap_ok(&m));
        }
        mem.fail_at = 0;
        assert_int_equal(tr_keymap_count(&m), n - 1);
        assert_int_equal(add(&m, hash_of(n, 0), n), TARRY_OK);
    }
    assert_true(refused > 100);
    assert_true(tr_keymap_ok(&m));
    mem.fail_at = mem.calls + 1;
    mem.fail_on = true;
    for (uint64_t n = 1; n < N; n++) {
        assert_true(tr_keymap_take(&m, hash_of(n, 0), n));
    }
    assert_int_equal(tr_keymap_count(&m), 0);
    assert_true(tr_keymap_ok(&m));
    tr_keymap_fini(&m);
    assert_true(mem.used_bytes == 0);
}

/* One random operation on key n; rids[n] is its rid in the model, 0 when it is not there. */
static void do_one(struct tr_keymap *m, uint64_t *rids, uint64_t n, unsigned kind, bool more)
{
    struct tr_siphash hash = hash_of(n, kind);
    uint64_t next = rids[n] + N;

    assert_true(rids[n] == 0 || has(m, hash, rids[n]));
    if (rids[n] == 0) {
        assert_false(has(m, hash, n + N) || tr_keymap_take(m, hash, n + N));
        assert_false(tr_keymap_move(m, hash, n + N, n + 2 * N));
        if (more) {
            rids[n] = n + N;
            assert_int_equal(add(m, hash, rids[n]), TARRY_OK);
        }
    } else if (more) {
        assert_true(tr_keymap_move(m, hash, rids[n], next));
        rids[n] = next;
    } else {
        assert_true(tr_keymap_take(m, hash, rids[n]));
        rids[n] = 0;
    }
}

static void test_keymap_agrees_with_model(void **state)
{
    static uint64_t rids[N];

    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct tr_rng rng = {.state = kind};
        struct tr_mem mem;
        struct tr_keymap m;

        memset(rids, 0, sizeof rids);
        tr_mem_init(&mem, 0);
        tr_keymap_init(&m, &mem);
        for (uint64_t turn = 0; turn < 300000; turn++) {
            uint64_t phase = turn / 40000 % 4; /* grows, stays, shrinks, stays */
            uint64_t share = phase == 0 ? 7 : phase == 2 ? 1 : 4;
            /* Crowded hashes make long tables, and long calls; then fewer of them will do. */
            uint64_t n = 1 + tr_rng_below(&rng, kind == 1 ? 3000 : N - 1);

            mem.fail_at = phase == 2 && turn % 7 == 0 ? mem.calls + 1 : 0;
            do_one(&m, rids, n, kind, tr_rng_below(&rng, 8) < share && mem.fail_at == 0);
            assert_true(turn % 9973 != 0 || tr_keymap_ok(&m));
        }
        for (uint64_t n = 1; n < N; n++) {
            if (rids[n] != 0) {
                assert_true(tr_keymap_take(&m, hash_of(n, kind), rids[n]));
            }
        }
        assert_int_equal(tr_keymap_count(&m), 0);
        assert_true(tr_keymap_ok(&m));
        assert_true(mem.used_bytes < 4096);
        tr_keymap_fini(&m);
        assert_true(mem.used_bytes == 0);
    }
}

static int compare(const void *a, const void *b)
{
    const struct tr_keymap_entry *x = a;
    const struct tr_keymap_entry *y = b;

    if (x->high != y->high) {
        return x->high < y->high ? -1 : 1;
    }
    return x->low < y->low ? -1 : x->low > y->low;
}

/* So many entries of random keys, in order; some twice. */
static struct tr_keymap_entry *sorted_of(uint64_t seed, size_t count, unsigned kind)
{
    struct tr_keymap_entry *e = calloc(count, sizeof *e);
    struct tr_rng rng = {.state = seed};

    for (size_t i = 0; i < count; i++) {
        uint64_t n = 1 + tr_rng_below(&rng, N - 1);

        e[i] = tr_keymap_entry(hash_of(n, kind), n);
    }
    qsort(e, count, sizeof *e, compare);
    return e;
}

/* The map has exactly the entries in e, in order; some of them twice. */
static void expect_entries(const struct tr_keymap *m, const struct tr_keymap_entry *e, size_t count)
{
    struct tr_keymap_entry at = {0, 0};
    uint64_t found = 0;

    for (size_t i = 0; i < count; i++) {
        if (i > 0 && compare(&e[i - 1], &e[i]) == 0) {
            continue;
        }
        assert_true(tr_keymap_next(m, &at));
        assert_int_equal(compare(&at, &e[i]), 0);
        found++;
    }
    assert_false(tr_keymap_next(m, &at));
    assert_true(tr_keymap_count(m) == found);
    assert_true(tr_keymap_ok(m));
}

/* All at once, in pieces, with or without a word on how many; then a second lot on top. */
static void test_keymap_load_and_walk(void **state)
{
    enum { FIRST = 5000, ALL = 6200 };
    static const size_t pieces[] = {ALL, 1000, 37, 1};

    (void)state;
    for (unsigned run = 0; run < 8 * KINDS; run++) {
        unsigned kind = run / 8;
        size_t piece = pieces[run % 4];
        struct tr_keymap_entry *first = sorted_of(run, FIRST, kind);
        struct tr_keymap_entry *all = calloc(ALL, sizeof *all);
        struct tr_keymap_entry *more = sorted_of(run + 1000, ALL - FIRST, kind);
        struct tr_mem mem;
        struct tr_keymap m;

        tr_mem_init(&mem, 0);
        tr_keymap_init(&m, &mem);
        assert_true(run % 8 >= 4 || tr_keymap_expect(&m, FIRST) == TARRY_OK);
        for (size_t i = 0; i < FIRST; i += piece) {
            size_t some = piece < FIRST - i ? piece : FIRST - i;

            assert_int_equal(tr_keymap_load(&m, first + i, some), TARRY_OK);
        }
        expect_entries(&m, first, FIRST);
        assert_int_equal(tr_keymap_load(&m, more, ALL - FIRST), TARRY_OK);
        memcpy(all, first, FIRST * sizeof *all);
        memcpy(all + FIRST, more, (ALL - FIRST) * sizeof *all);
        qsort(all, ALL, sizeof *all, compare);
        expect_entries(&m, all, ALL);
        assert_int_equal(tr_keymap_load(&m, all, ALL), TARRY_OK); /* nothing new */
        expect_entries(&m, all, ALL);
        tr_keymap_fini(&m);
        assert_true(mem.used_bytes == 0);
        free(first);
        free(more);
        free(all);
    }
}

static void test_keymap_load_refuses_disorder(void **state)
{
    struct tr_keymap_entry *e = sorted_of(5, 5000, 0);
    struct tr_mem mem;
    struct tr_keymap m;

    (void)state;
    tr_mem_init(&mem, 0);
    for (size_t i = 1; i < 5000; i += 7) {
        struct tr_keymap_entry kept = e[i];

        tr_keymap_init(&m, &mem);
        assert_int_equal(tr_keymap_expect(&m, 5000), TARRY_OK);
        e[i] = i % 2 == 0
                   ? (struct tr_keymap_entry){.high = 0, .low = 1}
                   : (struct tr_keymap_entry){.high = kept.high, .low = kept.low >> 48 << 48};
        assert_int_equal(tr_keymap_load(&m, e, 5000), TARRY_EDAMAGED);
        assert_true(tr_keymap_ok(&m));
        e[i] = kept;
        tr_keymap_fini(&m);
    }
    assert_true(mem.used_bytes == 0);
    free(e);
}

/* Refused at every request for memory; the same call again goes on. */
static void test_keymap_load_without_memory(void **state)
{
    enum { COUNT = 6000 };
    struct tr_keymap_entry *e = sorted_of(6, COUNT, 0);

    (void)state;
    for (unsigned expect = 0; expect < 2; expect++) {
        struct tr_mem mem;
        struct tr_keymap m;
        unsigned refused = 0;

        tr_mem_init(&mem, 0);
        tr_keymap_init(&m, &mem);
        for (uint64_t nth = 1; expect == 1; nth++) {
            mem.fail_at = nth;
            mem.calls = 0;
            if (tr_keymap_expect(&m, UINT64_C(1) << 18) == TARRY_OK) {
                break;
            }
            assert_true(mem.used_bytes == 0);
        }
        for (uint64_t nth = 1; nth < 20; nth++) {
            mem.fail_at = nth;
            mem.calls = 0;
            refused += tr_keymap_load(&m, e, COUNT) != TARRY_OK;
            assert_true(tr_keymap_ok(&m));
        }
        assert_true(refused >= 3);
        mem.fail_at = 0;
        assert_int_equal(tr_keymap_load(&m, e, COUNT), TARRY_OK);
        expect_entries(&m, e, COUNT);
        tr_keymap_fini(&m);
        assert_true(mem.used_bytes == 0);
    }
    free(e);
}

/* Shapes of all sizes: they are whole, and shrink to nothing when their keys leave. */
static void test_keymap_expect_makes_any_shape(void **state)
{
    (void)state;
    for (uint64_t expected = 0; expected < 1500000; expected = expected * 8 / 5 + 777) {
        struct tr_mem mem;
        struct tr_keymap m;

        tr_mem_init(&mem, 0);
        tr_keymap_init(&m, &mem);
        assert_int_equal(tr_keymap_expect(&m, expected), TARRY_OK);
        assert_true(tr_keymap_ok(&m));
        for (uint64_t n = 1; n < 3000; n++) {
            assert_int_equal(add(&m, hash_of(n, 0), n), TARRY_OK);
        }
        assert_true(tr_keymap_ok(&m));
        for (uint64_t n = 1; n < 3000; n++) {
            assert_true(tr_keymap_take(&m, hash_of(n, 0), n));
            assert_true(n % 500 != 0 || tr_keymap_ok(&m));
        }
        assert_true(tr_keymap_ok(&m));
        tr_keymap_fini(&m);
        assert_true(mem.used_bytes == 0);
    }
}

/* At no size more than 20 bytes a key; at start not either. */
static void test_keymap_is_small(void **state)
{
    struct tr_keymap_entry at = {0, 0};
    struct tr_mem mem;
    struct tr_keymap m;
    double worst = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_keymap_init(&m, &mem);
    for (uint64_t n = 1; n <= 1000000; n++) {
        assert_int_equal(add(&m, hash_of(n, 0), n), TARRY_OK);
        if (n >= 100000 && (double)mem.used_bytes / (double)n > worst) {
            worst = (double)mem.used_bytes / (double)n;
        }
    }
    print_message("bytes a key: %.2f at 1 M, %.2f at worst from 100 K on\n",
                  (double)mem.used_bytes / 1e6, worst);
    assert_true(worst <= 20.0);
    for (uint64_t n = 1; n <= 1000000; n += 1000) { /* the walk goes on although entries leave */
        assert_true(tr_keymap_next(&m, &at));
        assert_true(tr_keymap_take(&m, hash_of(tr_keymap_rid(at), 0), tr_keymap_rid(at)));
    }
    assert_true(tr_keymap_ok(&m));
    tr_keymap_fini(&m);
    assert_true(mem.used_bytes == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keymap_put_find_take),
        cmocka_unit_test(test_keymap_keeps_keys_with_the_same_hash),
        cmocka_unit_test(test_keymap_make_is_a_promise),
        cmocka_unit_test(test_keymap_make_without_memory_changes_nothing),
        cmocka_unit_test(test_keymap_agrees_with_model),
        cmocka_unit_test(test_keymap_load_and_walk),
        cmocka_unit_test(test_keymap_load_refuses_disorder),
        cmocka_unit_test(test_keymap_load_without_memory),
        cmocka_unit_test(test_keymap_expect_makes_any_shape),
        cmocka_unit_test(test_keymap_is_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
