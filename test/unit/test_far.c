/* The table of far jobs, against a plain array. */

#include "base/err.h"
#include "base/rng.h"
#include "engine/far.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { RIDS = 1000 };

struct model {
    bool here[RIDS];
    uint64_t id[RIDS];
    struct tr_far_entry entry[RIDS];
    uint64_t count;
};

static struct tr_far_entry entry_of(struct tr_rng *rng)
{
    return (struct tr_far_entry){.due_us = tr_rng_next(rng) >> 20,
                                 .topic = (uint32_t)tr_rng_next(rng),
                                 .off = (uint32_t)tr_rng_next(rng),
                                 .len = (uint32_t)tr_rng_next(rng),
                                 .slot = (uint16_t)tr_rng_next(rng)};
}

static void compare(const struct tr_far *far, const struct model *m)
{
    assert_true(tr_far_ok(far));
    assert_int_equal(far->count, m->count);
    for (uint64_t rid = 1; rid < RIDS; rid++) {
        const struct tr_far_entry *found = tr_far_find(far, rid);

        assert_int_equal(found != NULL, m->here[rid]);
        assert_int_equal(tr_far_id(far, rid), m->here[rid] ? m->id[rid] : 0);
        if (found != NULL) {
            assert_memory_equal(found, &m->entry[rid], sizeof *found);
            assert_int_equal(tr_far_rid(far, m->id[rid]), rid);
        }
    }
}

static void test_far_random(void **state)
{
    struct tr_mem mem;
    struct tr_far far;
    struct tr_rng rng;
    static struct model m;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_far_init(&far, &mem);
    rng = (struct tr_rng){1};
    for (unsigned step = 0; step < 20000; step++) {
        uint64_t rid = 1 + tr_rng_next(&rng) % (RIDS - 1);
        struct tr_far_entry entry = entry_of(&rng);

        if (m.here[rid]) {
            assert_true(tr_far_take(&far, rid, &entry));
            assert_memory_equal(&entry, &m.entry[rid], sizeof entry);
            m.here[rid] = false;
            m.count--;
        } else {
            assert_false(tr_far_take(&far, rid, &entry));
            /* some were moved: they have an id that no rid has */
            m.id[rid] = tr_rng_next(&rng) % 4 == 0 ? rid + RIDS : rid;
            assert_int_equal(tr_far_put(&far, rid, m.id[rid], &entry), TARRY_OK);
            m.entry[rid] = entry;
            m.here[rid] = true;
            m.count++;
        }
        if (step % 500 == 0) {
            compare(&far, &m);
        }
    }
    compare(&far, &m);
    tr_far_fini(&far);
    assert_int_equal(mem.used_bytes, 0);
}

/* A walk meets whoever is there from its beginning to its end. */
static void test_far_walk_while_it_changes(void **state)
{
    struct tr_mem mem;
    struct tr_far far;
    struct tr_rng rng;
    struct tr_far_walk walk = {0};
    struct tr_far_page *page;
    struct tr_far_entry entry;
    bool met[RIDS] = {false};
    bool stays[RIDS] = {false};

    (void)state;
    tr_mem_init(&mem, 0);
    tr_far_init(&far, &mem);
    rng = (struct tr_rng){2};
    for (uint64_t rid = 1; rid < RIDS; rid++) {
        entry = entry_of(&rng);
        stays[rid] = rid % 3 == 0;
        assert_int_equal(tr_far_put(&far, rid, rid, &entry), TARRY_OK);
    }
    assert_false(tr_far_walking(&walk));
    tr_far_walk_begin(&far, &walk);
    while ((page = tr_far_walk_page(&far, &walk)) != NULL) {
        for (unsigned i = 0; i < page->count; i++) {
            met[tr_far_page_rid(page, i)] = true;
        }
        tr_far_walk_on(&far, &walk);
        for (unsigned i = 0; i < 60; i++) { /* whole pages go, the next one, too */
            uint64_t rid = 1 + tr_rng_next(&rng) % (RIDS - 1);

            if (!stays[rid] || rid / TR_FAR_PAGE == 5) {
                stays[rid] = stays[rid] && !tr_far_take(&far, rid, &entry);
                (void)tr_far_take(&far, rid, &entry);
            }
        }
    }
    tr_far_walk_end(&walk);
    assert_false(tr_far_walking(&walk));
    tr_far_walk_end(&walk);
    for (uint64_t rid = 1; rid < RIDS; rid++) {
        assert_true(met[rid] || !stays[rid]);
    }
    tr_far_fini(&far);
}

static void test_far_without_memory(void **state)
{
    struct tr_mem mem;
    struct tr_far far;
    struct tr_far_entry entry = {.due_us = 1};

    (void)state;
    for (uint64_t n = 1;; n++) {
        int err;

        tr_mem_init(&mem, 0);
        tr_far_init(&far, &mem);
        for (uint64_t rid = 64; rid < 68; rid++) { /* the fifth makes the page grow */
            assert_int_equal(tr_far_put(&far, rid, rid, &entry), TARRY_OK);
        }
        mem.fail_at = mem.calls + n;
        err = tr_far_put(&far, 69, 7, &entry);
        if (err == TARRY_OK) {
            assert_true(n > 3);
            tr_far_fini(&far);
            return;
        }
        assert_int_equal(err, TARRY_ENOMEM);
        assert_int_equal(far.count, 4);
        assert_null(tr_far_find(&far, 69));
        assert_int_equal(tr_far_rid(&far, 7), 0);
        assert_true(tr_far_ok(&far));
        tr_far_fini(&far);
    }
}

static void test_far_is_small(void **state)
{
    struct tr_mem mem;
    struct tr_far far;
    struct tr_far_entry entry = {.due_us = 1};
    enum { MANY = 1000000 };

    (void)state;
    tr_mem_init(&mem, 0);
    tr_far_init(&far, &mem);
    for (uint64_t rid = 1; rid <= MANY; rid++) {
        assert_int_equal(tr_far_put(&far, rid, rid, &entry), TARRY_OK);
    }
    print_message("%.1f bytes a job\n", (double)mem.used_bytes / MANY);
    assert_true(mem.used_bytes < (uint64_t)28 * MANY);
    for (uint64_t rid = 1; rid <= MANY; rid++) {
        assert_true(tr_far_take(&far, rid, &entry));
    }
    assert_true(mem.used_bytes < 1000000);
    tr_far_fini(&far);
}

/* Ids of jobs that were moved, in slots or runs. */
static void test_far_moved_is_small(void **state)
{
    struct tr_mem mem;
    struct tr_far far;
    enum { MANY = 200000 };

    (void)state;
    tr_mem_init(&mem, 0);
    tr_far_init(&far, &mem);
    for (uint64_t id = 1; id <= MANY; id++) {
        assert_int_equal(tr_far_note_moved(&far, MANY + id, id), TARRY_OK);
        assert_int_equal(tr_far_note_moved(&far, MANY + id, id), TARRY_OK);
    }
    print_message("%.1f bytes a job\n", (double)mem.used_bytes / MANY);
    assert_true(mem.used_bytes < (uint64_t)40 * MANY);
    assert_int_equal(tr_far_note_moved(&far, 3 * MANY, 7), TARRY_OK); /* a newer one */
    assert_int_equal(tr_far_moved_rid(&far, 7), 3 * MANY);
    assert_int_equal(tr_far_moved_id(&far, MANY + 7), 0);
    assert_int_equal(tr_far_note_moved(&far, MANY + 7, 7), TARRY_OK);
    assert_int_equal(tr_far_note_moved(&far, MANY + 7, 8), TARRY_EDAMAGED);
    assert_int_equal(tr_far_note_moved(&far, 3 * MANY, 0), TARRY_EDAMAGED);
    assert_int_equal(tr_far_moved_id(&far, 3 * MANY), 0);
    for (uint64_t id = 1; id <= MANY; id++) {
        assert_int_equal(tr_far_moved_rid(&far, id), MANY + id);
        assert_int_equal(tr_far_moved_id(&far, MANY + id), id);
        assert_int_equal(tr_far_moved_id(&far, id), 0);
        assert_int_equal(tr_far_moved_rid(&far, MANY + id), 0);
    }
    for (uint64_t id = 1; id <= MANY; id++) {
        tr_far_forget_moved(&far, MANY + id);
    }
    assert_int_equal(tr_keymap_count(&far.moved), 0);
    assert_true(mem.used_bytes < 100000);
    tr_far_fini(&far);
}

/* Without memory a job of a run keeps the id it had. */
static void test_far_locate_without_memory(void **state)
{
    struct tr_far_entry entry = {.due_us = 1, .located = true};

    (void)state;
    for (uint64_t n = 1; n < 20; n++) {
        struct tr_mem mem;
        struct tr_far far;
        int err;

        tr_mem_init(&mem, 0);
        tr_far_init(&far, &mem);
        assert_int_equal(tr_far_note_moved(&far, 70, 7), TARRY_OK);
        mem.fail_at = mem.calls + n;
        err = tr_far_put(&far, 70, 7, &entry);
        assert_true(err == TARRY_OK || err == TARRY_ENOMEM);
        assert_int_equal(tr_far_moved_rid(&far, 7), 70);
        assert_int_equal(tr_far_moved_id(&far, 70), 7);
        assert_true(tr_far_ok(&far));
        tr_far_fini(&far);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_random),         cmocka_unit_test(test_far_walk_while_it_changes),
        cmocka_unit_test(test_far_without_memory), cmocka_unit_test(test_far_is_small),
        cmocka_unit_test(test_far_moved_is_small), cmocka_unit_test(test_far_locate_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
