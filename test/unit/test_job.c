/*
 * The table of jobs against an array, and the few cases worth a name.
 */

#include "base/err.h"
#include "base/rng.h"
#include "engine/job.h"
#include "engine/slot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tr_job *add(struct tr_jobs *js, uint64_t rid, uint64_t id)
{
    struct tr_job *job;

    assert_int_equal(tr_jobs_add(js, rid, id, &job), TARRY_OK);
    return job;
}

static void test_job_moved_one_is_found_by_id_and_new_rid(void **state)
{
    struct tr_mem mem;
    struct tr_jobs js;
    struct tr_job *job;
    struct tr_job *other;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_jobs_init(&js, &mem);
    job = add(&js, 5, 5);
    assert_int_equal(tr_jobs_rename(&js, job, 9), TARRY_OK);
    assert_ptr_equal(tr_jobs_by_id(&js, 5), job);
    assert_ptr_equal(tr_jobs_by_rid(&js, 9), job);
    assert_null(tr_jobs_by_rid(&js, 5));
    assert_null(tr_jobs_by_id(&js, 9)); /* a rid is not an id */
    assert_false(tr_bitmap_test(&js.alive, 5));
    assert_true(tr_bitmap_test(&js.alive, 9));
    other = add(&js, 11, 3);                                  /* as a replay meets it */
    assert_int_equal(tr_jobs_rename(&js, job, 12), TARRY_OK); /* moved twice */
    assert_ptr_equal(tr_jobs_by_id(&js, 5), job);
    assert_ptr_equal(tr_jobs_by_id(&js, 3), other);
    assert_true(tr_jobs_ok(&js));
    tr_jobs_remove(&js, job);
    assert_null(tr_jobs_by_id(&js, 5));
    assert_true(tr_jobs_ok(&js));
    tr_jobs_fini(&js);
    assert_int_equal(mem.used_bytes, 0);
}

static void test_job_stamp_survives_reuse(void **state)
{
    struct tr_mem mem;
    struct tr_jobs js;
    struct tr_job *job;
    uint32_t stamp;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_jobs_init(&js, &mem);
    for (uint64_t rid = 1; rid < 200; rid++) {
        job = add(&js, rid, rid);
        stamp = job->stamp;
        tr_jobs_remove(&js, job);
        assert_true(job->stamp != stamp);
    }
    assert_int_equal(js.count, 0);
    tr_jobs_fini(&js);
    assert_int_equal(mem.used_bytes, 0);
}

static void test_job_bodies_are_counted(void **state)
{
    struct tr_mem mem;
    struct tr_jobs js;
    struct tr_job *job;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_jobs_init(&js, &mem);
    job = add(&js, 1, 1);
    tr_jobs_give_body(&js, job, tr_jobs_copy_body(&js, (const uint8_t *)"abc", 3), 3);
    assert_int_equal(js.body_bytes, 3);
    tr_jobs_give_body(&js, job, tr_jobs_copy_body(&js, NULL, 0), 0); /* in place of the first */
    assert_int_equal(js.body_bytes, 0);
    assert_non_null(job->body); /* an empty body in memory is one */
    tr_jobs_give_body(&js, job, tr_jobs_copy_body(&js, (const uint8_t *)"abcd", 4), 4);
    tr_jobs_drop_body(&js, job);
    assert_null(job->body);
    assert_int_equal(job->body_len, 4);
    tr_jobs_fini(&js);
    assert_int_equal(mem.used_bytes, 0);
}

static void test_job_places_are_counted(void **state)
{
    struct tr_mem mem;
    struct tr_jobs js;
    struct tr_slot slot = {0};
    struct tr_job *job;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_jobs_init(&js, &mem);
    tr_list_init(&slot.jobs);
    job = add(&js, 1, 1);
    tr_job_unplace(job, 7); /* has none: no harm */
    tr_job_place(job, &slot, 4096, 50);
    assert_int_equal(slot.live, 1);
    assert_int_equal(slot.live_bytes, 50);
    tr_job_unplace(job, 7);
    assert_int_equal(slot.live, 0);
    assert_int_equal(slot.live_bytes, 0);
    assert_int_equal(slot.emptied_by, 7);
    tr_job_place(job, &slot, 8192, 50);
    tr_job_unplace(job, 3); /* an older batch does not take it back */
    assert_int_equal(slot.emptied_by, 7);
    assert_true(tr_list_empty(&slot.jobs));
    tr_jobs_fini(&js);
    assert_int_equal(mem.used_bytes, 0);
}

/* Every allocation of add and rename fails once: nothing changed. */
static void test_job_without_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 20; n++) {
        struct tr_mem mem;
        struct tr_jobs js;
        struct tr_job *job = NULL;

        tr_mem_init(&mem, 0);
        tr_jobs_init(&js, &mem);
        mem.fail_at = n;
        if (tr_jobs_add(&js, 70000, 1, &job) != TARRY_OK) {
            assert_int_equal(js.count, 0);
            assert_int_equal(js.alive.members, 0);
            job = add(&js, 70000, 1);
        }
        if (tr_jobs_rename(&js, job, 200000) != TARRY_OK) {
            assert_ptr_equal(tr_jobs_by_rid(&js, 70000), job);
            assert_int_equal(js.alive.members, 1);
        }
        assert_true(tr_jobs_ok(&js));
        tr_jobs_fini(&js);
        assert_int_equal(mem.used_bytes, 0);
    }
}

static void test_job_chunks_without_jobs_are_given_back(void **state)
{
    struct tr_job *jobs[1000];
    struct tr_mem mem;
    struct tr_jobs js;
    uint64_t most;
    size_t chunks;
    size_t at = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_jobs_init(&js, &mem);
    for (unsigned i = 0; i < 1000; i++) {
        jobs[i] = add(&js, i + 1, i + 1);
    }
    most = mem.used_bytes;
    chunks = js.chunk_count;
    for (unsigned i = 0; i < 1000; i++) {
        if (i != 500) {
            tr_jobs_remove(&js, jobs[i]);
        }
    }
    for (size_t i = chunks; i > 0; i--) {
        (void)tr_jobs_trim(&js, i - 1);
    }
    assert_true(mem.used_bytes < most / 8);
    assert_ptr_equal(tr_jobs_next(&js, &at), jobs[500]); /* behind holes */
    assert_null(tr_jobs_next(&js, &at));
    assert_false(tr_jobs_trim(&js, chunks));
    for (unsigned i = 0; i < 1000; i++) {
        (void)add(&js, i + 2000, i + 2000);
    }
    assert_int_equal(js.chunk_count, chunks); /* in the holes first */
    assert_int_equal(js.count, 1001);
    assert_true(tr_jobs_ok(&js));
    tr_jobs_fini(&js);
    assert_int_equal(mem.used_bytes, 0);
}

enum { MODEL_JOBS = 300 };

static void test_job_against_model(void **state)
{
    struct {
        uint64_t rid, id;
        struct tr_job *job;
    } model[MODEL_JOBS];
    size_t count = 0;
    uint64_t next = 1;
    struct tr_rng rng = {4};
    struct tr_mem mem;
    struct tr_jobs js;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_jobs_init(&js, &mem);
    for (unsigned step = 0; step < 20000; step++) {
        size_t i = count == 0 ? 0 : tr_rng_below(&rng, count);

        if (tr_rng_below(&rng, 50) == 0) {
            (void)tr_jobs_trim(&js, tr_rng_below(&rng, 8));
        }
        switch (tr_rng_below(&rng, 3)) {
        case 0:
            if (count < MODEL_JOBS) {
                next += 1 + tr_rng_below(&rng, 500);
                model[count].rid = next;
                model[count].id = next;
                model[count].job = add(&js, next, next);
                count++;
            }
            break;
        case 1:
            if (count != 0) {
                tr_jobs_remove(&js, model[i].job);
                assert_null(tr_jobs_by_id(&js, model[i].id));
                model[i] = model[--count];
            }
            break;
        default:
            if (count != 0) {
                model[i].rid = ++next;
                assert_int_equal(tr_jobs_rename(&js, model[i].job, next), TARRY_OK);
                tr_jobs_set_altered(&js, model[i].job, tr_rng_below(&rng, 2) == 0);
            }
        }
        if (count != 0) {
            i = tr_rng_below(&rng, count);
            assert_ptr_equal(tr_jobs_by_id(&js, model[i].id), model[i].job);
            assert_ptr_equal(tr_jobs_by_rid(&js, model[i].rid), model[i].job);
        }
        assert_int_equal(js.count, count);
        if (step % 500 == 0) {
            assert_true(tr_jobs_ok(&js));
        }
    }
    tr_jobs_fini(&js);
    assert_int_equal(mem.used_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_moved_one_is_found_by_id_and_new_rid),
        cmocka_unit_test(test_job_stamp_survives_reuse),
        cmocka_unit_test(test_job_bodies_are_counted),
        cmocka_unit_test(test_job_places_are_counted),
        cmocka_unit_test(test_job_without_memory),
        cmocka_unit_test(test_job_chunks_without_jobs_are_given_back),
        cmocka_unit_test(test_job_against_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
