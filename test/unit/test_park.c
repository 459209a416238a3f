/* Topics with more due jobs than memory is for, on the simulated disk. */

#include "base/err.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ME UINT64_C(7)

enum { MIN = 4, POOL = 32, JOBS = 200, MOST = MIN + POOL / 2 + 8 };

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.near_min = MIN;
    rig->config.near_max = POOL;
    rig_open(rig);
    return rig_hold(rig, "t");
}

static uint64_t near(const struct rig *rig)
{
    struct tr_engine_stat s = rig_engine_stat(rig);

    return s.jobs - s.far - s.reserved;
}

/* Takes and deletes all that is ready; the ids must rise. Gives how many. */
static unsigned drain(struct rig *rig, uint32_t t)
{
    unsigned count = 0;
    uint64_t last = 0;
    uint64_t id;

    while ((id = rig_reserve(rig, t, ME)) != 0) {
        assert_true(id > last);
        last = id;
        assert_true(rig_view(rig, id).late_us <= RIG_SECOND);
        assert_int_equal(rig_with(rig, TR_OP_DELETE, id, ME), TARRY_OK);
        count++;
    }
    return count;
}

static void test_park_ready_jobs_leave_memory(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        (void)rig_push(&rig, t, 0);
        assert_true(near(&rig) <= MOST);
    }
    assert_int_equal(rig_engine_stat(&rig).parked, 1);
    rig_pass(&rig, 2 * RIG_SECOND); /* counts are a second old at most */
    assert_int_equal(rig_stat(&rig, t).ready, JOBS);
    assert_int_equal(rig_stat(&rig, t).delayed, 0);
    assert_int_equal(drain(&rig, t), JOBS);
    assert_int_equal(rig_engine_stat(&rig).parked, 0);
    assert_true(rig_engine_stat(&rig).refills > 1);
    rig_fini(&rig);
}

/* Jobs that are all due in the same second; a second topic has its own at the same time. */
static void test_park_burst(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t other = rig_hold(&rig, "other");
    uint64_t lone;

    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        (void)rig_push(&rig, t, 200 * RIG_SECOND + i);
    }
    lone = rig_push(&rig, other, 200 * RIG_SECOND);
    rig_pass(&rig, 199 * RIG_SECOND);
    assert_true(near(&rig) <= MOST);
    assert_int_equal(rig_reserve(&rig, t, ME), 0); /* never early */
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, other, ME), lone);
    rig_pass(&rig, 100 * RIG_SECOND); /* nobody takes them; but ready they are */
    assert_int_equal(drain(&rig, t), JOBS);
    rig_fini(&rig);
}

/* Jobs of a parked topic that are in memory before they are due tell how late they were then. */
static void test_park_lateness(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t here;
    uint64_t late = 0;
    uint64_t id;

    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        (void)rig_push(&rig, t, 200 * RIG_SECOND + i);
    }
    rig_pass(&rig, 199 * RIG_SECOND);
    assert_int_equal(rig_engine_stat(&rig).parked, 1);
    here = near(&rig);
    assert_true(here > 10);
    rig.now.boot_us += 30 * RIG_SECOND;
    rig.now.wall_us += 30 * RIG_SECOND;
    rig_settle(&rig);
    while ((id = rig_reserve(&rig, t, ME)) != 0) {
        late += rig_view(&rig, id).late_us > 28 * RIG_SECOND;
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    }
    assert_true(late >= here);
    rig_fini(&rig);
}

/* A parked job is found by its id, and the first delayed one behind those that are due. */
static void test_park_by_id(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = rig_ask(TR_OP_PEEK_FIRST);
    uint64_t delayed;
    uint64_t last = 0;

    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        last = rig_push(&rig, t, 0);
    }
    delayed = rig_push(&rig, t, 10 * RIG_SECOND);
    assert_int_equal(rig_state(&rig, last), TR_READY);
    rig_pass(&rig, 2 * RIG_SECOND); /* the visitor has left */
    assert_true(near(&rig) <= MOST);
    a.req.topic = t;
    a.req.state = TR_DELAYED;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.id, delayed);
    assert_int_equal(rig_with(&rig, TR_OP_RESERVE_JOB, last, ME), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, last, ME), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, last - 1, ME), TARRY_OK); /* it was far */
    assert_int_equal(drain(&rig, t), JOBS - 2);
    rig_fini(&rig);
}

/* After a start what does not fit is parked, and nothing is lost. */
static void test_park_start(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        (void)rig_push(&rig, t, i % 2 * RIG_SECOND);
    }
    rig_pass(&rig, RIG_SECOND);
    rig_kill(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    (void)rig_settle(&rig);
    assert_true(near(&rig) <= MOST);
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_int_equal(rig_stat(&rig, t).ready, JOBS);
    for (unsigned i = 0; i < JOBS; i++) {
        uint64_t id = rig_reserve(&rig, t, ME);

        assert_true(id != 0);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    }
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_fini(&rig);
}

/* A parked topic that nobody reads from keeps nobody awake. */
static void test_park_sleeps(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        (void)rig_push(&rig, t, 0);
    }
    rig_pass(&rig, 200 * RIG_SECOND);
    assert_int_equal(rig_settle(&rig), UINT64_MAX);
    rig_fini(&rig);
}

/* A worker that does not wait hears "nothing" only when there is nothing, also after a purge, which
 * gives the topic another number. */
static void drain_without_waiting(bool purged)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask *purge = calloc(1, sizeof *purge);
    struct ask *take = calloc(1, sizeof *take);

    (void)rig_push(&rig, t, 0);
    *purge = rig_ask(TR_OP_PURGE);
    purge->req.topic = t;
    if (purged) {
        assert_int_equal(rig_do(&rig, purge), TARRY_OK);
    }
    for (unsigned i = 0; i < JOBS; i++) {
        (void)rig_push(&rig, t, 0);
    }
    for (unsigned i = 0; i < JOBS; i++) { /* the disk does nothing while it is answered */
        *take = rig_ask(TR_OP_RESERVE);
        take->req.topics = &t;
        take->req.topic_count = 1;
        take->req.holder = ME;
        rig_submit(&rig, take);
        if (take->done == 0) {
            (void)rig_settle(&rig);
        }
        assert_int_equal(take->req.out.status, TARRY_OK);
    }
    free(purge);
    free(take);
    rig_fini(&rig);
}

static void test_park_nothing_means_nothing(void **state)
{
    (void)state;
    drain_without_waiting(false);
    drain_without_waiting(true);
}

/* A parked job that is due is ready, for lists and bulks too. */
static void test_park_states(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    static const enum tr_job_state states[] = {TR_READY, TR_DELAYED};

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        (void)rig_push(&rig, t, 0);
    }
    rig_pass(&rig, 2 * RIG_SECOND);
    for (unsigned i = 0; i < 2; i++) {
        struct ask list = rig_ask(TR_OP_LIST);
        struct ask bulk = rig_ask(TR_OP_BULK);

        list.req.topic = t;
        list.req.count = 1000;
        list.req.filter.states = 1U << states[i];
        assert_int_equal(rig_do(&rig, &list), TARRY_OK);
        assert_int_equal(list.req.out.number, i == 0 ? 200 : 0);
        bulk.req.topic = t;
        bulk.req.bulk = TR_BULK_CANCEL;
        bulk.req.dry_run = i == 0;
        bulk.req.filter.states = 1U << states[i];
        assert_int_equal(rig_do(&rig, &bulk), TARRY_OK);
        assert_int_equal(bulk.req.out.number, i == 0 ? 200 : 0);
    }
    assert_int_equal(rig_engine_stat(&rig).jobs, 200);
    rig_fini(&rig);
}

/* There is no memory to send a crowd away with: it stays, and the engine comes to rest. */
static void test_park_no_memory(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask *pushes = calloc(JOBS, sizeof *pushes);

    (void)state;
    assert_non_null(pushes);
    for (unsigned i = 0; i < JOBS; i++) {
        pushes[i] = rig_ask(TR_OP_PUSH);
        pushes[i].req.topic = t;
        pushes[i].req.delay_us = (30 + i % 20) * RIG_SECOND;
        rig_submit(&rig, &pushes[i]);
    }
    rig.mem.limit_bytes = rig.mem.used_bytes;
    (void)rig_settle(&rig);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_int_equal(pushes[i].req.out.status, TARRY_OK);
    }
    assert_int_equal(near(&rig), JOBS);
    rig.mem.limit_bytes = 0;
    (void)rig_push(&rig, t, 30 * RIG_SECOND);
    assert_true(near(&rig) < 2 * MOST);
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_int_equal(rig_engine_stat(&rig).jobs, JOBS + 1);
    free(pushes);
    rig_fini(&rig);
}

/* Memory is full, and far jobs are due: the engine looks again, but less and less often. */
static void test_park_seldom_looks(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    unsigned turns = 0;

    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        (void)rig_push(&rig, t, 0);
    }
    rig_pass(&rig, 200 * RIG_SECOND);
    for (unsigned i = 0; i < MIN; i++) { /* ready ones stand in a heap, which takes memory */
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, rig_reserve(&rig, t, ME), ME), TARRY_OK);
    }
    rig_pass(&rig, 10 * RIG_SECOND);
    rig.mem.limit_bytes = 1; /* nothing can be had */
    for (unsigned i = 0; i < JOBS && near(&rig) != 0; i++) {
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, MIN + 1 + i, 0), TARRY_OK);
    }
    rig_pass(&rig, 60 * RIG_SECOND);
    for (uint64_t end = rig.now.boot_us + 100 * RIG_SECOND; rig.now.boot_us < end; turns++) {
        uint64_t next = rig_settle(&rig);

        next = next < end ? next : end;
        rig.now.wall_us += next - rig.now.boot_us;
        rig.now.boot_us = next;
    }
    assert_true(turns < 50);
    rig.mem.limit_bytes = 0;
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_true(drain(&rig, t) > JOBS / 2);
    assert_int_equal(rig_engine_stat(&rig).jobs, 0);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_park_ready_jobs_leave_memory),
        cmocka_unit_test(test_park_burst),
        cmocka_unit_test(test_park_lateness),
        cmocka_unit_test(test_park_by_id),
        cmocka_unit_test(test_park_start),
        cmocka_unit_test(test_park_sleeps),
        cmocka_unit_test(test_park_nothing_means_nothing),
        cmocka_unit_test(test_park_states),
        cmocka_unit_test(test_park_no_memory),
        cmocka_unit_test(test_park_seldom_looks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
