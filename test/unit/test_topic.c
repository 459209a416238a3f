/*
 * Topics: names, and the first job of each heap against a search through an array.
 */

#include "base/err.h"
#include "base/rng.h"
#include "engine/topic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_topic_names(void **state)
{
    char name[201];

    (void)state;
    memset(name, 'a', sizeof name);
    assert_true(tr_name_ok(name, 200));
    assert_false(tr_name_ok(name, 201));
    assert_false(tr_name_ok(name, 0));
    assert_false(tr_name_ok("-a", 2));
    assert_true(tr_name_ok("a-", 2));
    for (int c = 0; c < 256; c++) {
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     (c != 0 && strchr("-+/;.$_()", c) != NULL);
        char two[2] = {'a', (char)c};

        assert_true(tr_name_ok(two, 2) == plain);
    }
}

static void test_topic_many_are_found_and_walked(void **state)
{
    enum { COUNT = 500 };
    struct tr_mem mem;
    struct tr_topics ts;
    struct tr_topic *t;
    char name[16];
    uint32_t number = 0;
    unsigned seen = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_topics_init(&ts, &mem);
    for (uint32_t i = COUNT; i > 0; i--) { /* backwards, as a replay may meet them */
        size_t len = (size_t)snprintf(name, sizeof name, "topic%u", i);

        assert_int_equal(tr_topics_add(&ts, i, name, len, &t), TARRY_OK);
    }
    assert_int_equal(ts.next_number, COUNT + 1);
    for (uint32_t i = 1; i <= COUNT; i += 2) {
        tr_topics_remove(&ts, tr_topics_by_number(&ts, i));
    }
    for (uint32_t i = 1; i <= COUNT; i++) {
        size_t len = (size_t)snprintf(name, sizeof name, "topic%u", i);

        t = tr_topics_find(&ts, name, len);
        assert_ptr_equal(t, tr_topics_by_number(&ts, i));
        assert_true((t != NULL) == (i % 2 == 0));
    }
    while ((t = tr_topics_after(&ts, number)) != NULL) {
        assert_true(t->number > number);
        number = t->number;
        seen++;
    }
    assert_int_equal(seen, COUNT / 2);
    assert_int_equal(ts.count, COUNT / 2);
    tr_topics_fini(&ts);
    assert_int_equal(mem.used_bytes, 0);
}

enum { JOBS = 120 };

static bool before(const struct tr_job *a, const struct tr_job *b, unsigned heap)
{
    if (heap != TR_HEAP_DELAYED && a->priority != b->priority) {
        return a->priority < b->priority;
    }
    if (heap != TR_ORDER_ID && a->due_us != b->due_us) {
        return a->due_us < b->due_us;
    }
    return a->id < b->id;
}

static const struct tr_job *first_of(const struct tr_job *jobs, unsigned heap)
{
    enum tr_job_state state = heap == TR_HEAP_DELAYED ? TR_DELAYED : TR_READY;
    const struct tr_job *best = NULL;

    for (unsigned i = 0; i < JOBS; i++) {
        if (jobs[i].state == state && (best == NULL || before(&jobs[i], best, heap))) {
            best = &jobs[i];
        }
    }
    return best;
}

static const struct tr_job *first_dead(const struct tr_job *jobs)
{
    const struct tr_job *best = NULL;

    for (unsigned i = 0; i < JOBS; i++) {
        if (jobs[i].state == TR_DEAD && (best == NULL || jobs[i].dead_seq < best->dead_seq)) {
            best = &jobs[i];
        }
    }
    return best;
}

static void check_counts(const struct tr_topic *t, const struct tr_job *jobs)
{
    uint64_t count[TR_DEAD + 1] = {0};
    uint64_t urgent = 0;

    for (unsigned i = 0; i < JOBS; i++) {
        count[jobs[i].state]++;
        urgent += jobs[i].state == TR_READY && jobs[i].priority < TR_URGENT;
    }
    for (unsigned s = TR_DELAYED; s <= TR_DEAD; s++) {
        assert_int_equal(t->count[s], count[s]);
    }
    assert_int_equal(t->urgent, urgent);
}

/* With failing: now and then there is no memory for a heap; it must come back right later. */
static void run_model(uint64_t seed, bool failing)
{
    static struct tr_job jobs[JOBS];
    struct tr_rng rng = {seed};
    struct tr_mem mem;
    struct tr_topics ts;
    struct tr_topic *t;

    tr_mem_init(&mem, 0);
    tr_topics_init(&ts, &mem);
    assert_int_equal(tr_topics_add(&ts, 1, "t", 1, &t), TARRY_OK);
    for (unsigned i = 0; i < JOBS; i++) {
        jobs[i] = (struct tr_job){.id = i + 1, .topic = t};
        tr_list_init(&jobs[i].link);
    }
    for (unsigned step = 0; step < 20000; step++) {
        struct tr_job *job = &jobs[tr_rng_below(&rng, JOBS)];
        unsigned heap = (unsigned)tr_rng_below(&rng, TR_HEAP_COUNT);
        struct tr_job *got;

        mem.fail_at = failing && tr_rng_below(&rng, 4) == 0 ? mem.calls + 1 : 0;
        tr_topic_leave(t, job);
        job->priority = 1020 + (uint32_t)tr_rng_below(&rng, 8);
        job->due_us = tr_rng_below(&rng, 30);
        job->dead_seq = tr_rng_next(&rng);
        if (tr_rng_below(&rng, 5) != 0) {
            tr_topic_enter(t, job, (enum tr_job_state)(TR_DELAYED + tr_rng_below(&rng, 4)));
        }
        if (tr_rng_below(&rng, 3) == 0) {
            unsigned work = (unsigned)tr_rng_below(&rng, 2 * JOBS);
            int err = tr_topic_first(t, heap, &work, &got);

            if (err == TARRY_OK) {
                assert_ptr_equal(got, first_of(jobs, heap));
            } else {
                assert_true(err == TARRY_EFULL ? work == 0 : failing);
            }
        }
        assert_ptr_equal(tr_topic_first_dead(t), first_dead(jobs));
        if (step % 100 == 0) {
            check_counts(t, jobs);
        }
    }
    tr_topics_fini(&ts);
    assert_int_equal(mem.used_bytes, 0);
}

static void test_topic_first_against_model(void **state)
{
    (void)state;
    run_model(1, false);
    run_model(2, true);
}

/* Who was purged stands where he stood, under another number. */
static void test_topic_order_after_purges(void **state)
{
    enum { COUNT = 50 };
    struct tr_mem mem;
    struct tr_topics ts;
    struct tr_topic *t;
    struct tr_topic *heir;
    uint32_t handle = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_topics_init(&ts, &mem);
    for (uint32_t i = 1; i <= COUNT; i++) {
        char name[16];

        assert_int_equal(
            tr_topics_add(&ts, i, name, (size_t)snprintf(name, sizeof name, "t%u", i), &t),
            TARRY_OK);
    }
    for (uint32_t round = 2; round <= 4; round++) { /* some more than once */
        for (uint32_t i = round; i <= COUNT; i += round) {
            t = tr_topics_by_handle(&ts, i);
            assert_int_equal(tr_topics_heir(&ts, t, &heir), TARRY_OK);
            tr_topics_purge(&ts, t);
            tr_topics_inherit(&ts, t, heir);
        }
    }
    tr_topics_remove(&ts, tr_topics_by_handle(&ts, 7));
    tr_topics_remove(&ts, tr_topics_by_handle(&ts, 8)); /* an heir */
    assert_int_equal(tr_topics_after(&ts, 6)->handle, 9);
    assert_int_equal(tr_topics_after(&ts, 7)->handle, 9);
    assert_int_equal(tr_topics_after(&ts, 8)->handle, 9);
    for (uint32_t i = 1; i <= COUNT; i++) {
        if (i == 7 || i == 8) {
            continue;
        }
        t = tr_topics_after(&ts, handle);
        assert_non_null(t);
        handle = t->handle;
        assert_int_equal(handle, i);
        assert_false(t->purged);
        assert_ptr_equal(t, tr_topics_by_handle(&ts, handle));
    }
    assert_null(tr_topics_after(&ts, handle));
    tr_topics_fini(&ts);
    assert_int_equal(mem.used_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topic_names),
        cmocka_unit_test(test_topic_many_are_found_and_walked),
        cmocka_unit_test(test_topic_order_after_purges),
        cmocka_unit_test(test_topic_first_against_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
