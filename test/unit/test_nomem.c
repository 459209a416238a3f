/*
 * No memory: in each request, and in opening, the first allocation fails, then the second, and so
 * on until the request succeeds without reaching the fault. A request either succeeds or answers
 * TARRY_ENOMEM and has changed nothing; afterwards, with memory, it succeeds.
 */

#include "base/err.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ME = 7, OTHER = 8, SWEEP_MAX = 300 };

#define FAR (UINT64_C(1000000) * 86400 * 365)

enum { READY = 1, DELAYED, DEAD, HELD, LEASED, LONG };

static const uint8_t text[4000] = "a body";
static const uint32_t topics[2] = {1, 2};

static uint64_t lease; /* of the job LEASED */

/* A store with a job in each state, under the ids above. */
static void furnish(struct rig *rig, bool cached)
{
    uint32_t t;
    struct ask a = rig_ask(TR_OP_RESERVE_JOB);

    rig_init(rig);
    rig->config.body_cache_bytes = cached ? 1 << 20 : 0;
    rig_open(rig);
    t = rig_hold(rig, "t");
    assert_int_equal(t, topics[0]);
    assert_int_equal(rig_hold(rig, "u"), topics[1]);
    for (uint64_t id = READY; id <= LEASED; id++) {
        assert_int_equal(rig_push(rig, t, id == DELAYED ? FAR : 0), id);
    }
    assert_int_equal(rig_push_body(rig, t, 0, 3000), LONG);
    assert_int_equal(rig_with(rig, TR_OP_RESERVE_JOB, DEAD, ME), TARRY_OK);
    assert_int_equal(rig_with(rig, TR_OP_BURY, DEAD, ME), TARRY_OK);
    assert_int_equal(rig_with(rig, TR_OP_RESERVE_JOB, HELD, ME), TARRY_OK);
    a.req.id = LEASED;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    lease = a.req.out.job.lease;
    rig_pass(rig, rig->config.lazy_us);
}

/* The request number k of the sweep; false: there is none. */
static bool request(unsigned k, struct ask *a)
{
    static const struct {
        enum tr_op op;
        uint64_t id, holder, delay_us;
        unsigned edit;
        enum tr_job_state state;
        bool lease;
    } all[] = {
        {TR_OP_HOLD_TOPIC, 0, 0, 0, 0, 0, false},
        {TR_OP_PUSH, 0, 0, 0, 0, 0, false},
        {TR_OP_PUSH, 0, 0, FAR, 0, 0, false},
        {TR_OP_RESERVE, 0, ME, 0, 0, 0, false},
        {TR_OP_RESERVE, 0, OTHER, 0, 0, 0, false},
        {TR_OP_RESERVE, 0, 0, 0, 0, 0, false},
        {TR_OP_RESERVE_JOB, READY, OTHER, 0, 0, 0, false},
        {TR_OP_RESERVE_JOB, DELAYED, OTHER, 0, 0, 0, false},
        {TR_OP_RESERVE_JOB, DEAD, OTHER, 0, 0, 0, false},
        {TR_OP_RESERVE_JOB, LONG, 0, 0, 0, 0, false},
        {TR_OP_DELETE, READY, 0, 0, 0, 0, false},
        {TR_OP_DELETE, LEASED, 0, 0, 0, 0, true},
        {TR_OP_RELEASE, HELD, ME, 0, 0, 0, false},
        {TR_OP_RELEASE, HELD, ME, FAR, 0, 0, false},
        {TR_OP_RETURN, LEASED, 0, 0, 0, 0, true},
        {TR_OP_BURY, HELD, ME, 0, 0, 0, false},
        {TR_OP_TOUCH, LEASED, 0, 0, 0, 0, true},
        {TR_OP_KICK, 0, 0, 0, 0, 0, false},
        {TR_OP_KICK_JOB, DELAYED, 0, 0, 0, 0, false},
        {TR_OP_FIRE, DELAYED, 0, 0, 0, 0, false},
        {TR_OP_EDIT, DELAYED, 0, FAR / 2, TR_EDIT_DUE, 0, false},
        {TR_OP_EDIT, DELAYED, 0, 0, TR_EDIT_PRIORITY, 0, false},
        {TR_OP_EDIT, LONG, 0, 0, TR_EDIT_BODY, 0, false},
        {TR_OP_EDIT, LONG, 0, FAR, TR_EDIT_BODY | TR_EDIT_DUE, 0, false},
        {TR_OP_PAUSE, 0, 0, 0, 0, 0, false},
        {TR_OP_PEEK, LONG, 0, 0, 0, 0, false},
        {TR_OP_PEEK_FIRST, 0, 0, 0, 0, TR_READY, false},
        {TR_OP_PEEK_FIRST, 0, 0, 0, 0, TR_DELAYED, false},
        {TR_OP_PEEK_FIRST, 0, 0, 0, 0, TR_DEAD, false},
        {TR_OP_STAT_TOPIC, 0, 0, 0, 0, 0, false},
        {TR_OP_STAT, 0, 0, 0, 0, 0, false},
        {TR_OP_CLOSE, 0, ME, 0, 0, 0, false},
    };

    if (k >= sizeof all / sizeof all[0]) {
        return false;
    }
    *a = rig_ask(all[k].op);
    a->req.name = "another";
    a->req.name_len = 7;
    a->req.topic = topics[0];
    a->req.topics = topics;
    a->req.topic_count = 2;
    a->req.id = all[k].id;
    a->req.holder = all[k].holder;
    a->req.lease = all[k].lease ? lease : 0;
    a->req.delay_us = all[k].delay_us;
    a->req.edit = all[k].edit;
    a->req.state = all[k].state;
    a->req.body = text;
    a->req.body_len = sizeof text;
    a->req.count = 1;
    a->req.priority = 55;
    return true;
}

/* Request k with the n-th allocation failing, `on`: and all after it. False: it was not reached. */
static bool attempt(unsigned k, uint64_t n, bool on, bool cached)
{
    struct rig rig;
    struct ask a;
    char *before;
    char *after;
    bool reached;
    int err;

    furnish(&rig, cached);
    before = rig_facts(&rig);
    assert_true(request(k, &a));
    rig.mem.fail_at = rig.mem.calls + n;
    rig.mem.fail_on = on;
    err = rig_do(&rig, &a);
    reached = rig.mem.calls >= rig.mem.fail_at;
    rig.mem.fail_at = 0;
    rig.mem.fail_on = false;
    if (err != TARRY_OK && err != TARRY_ENOMEM) {
        fail_msg("request %u, allocation %u: %s", k, (unsigned)n, tarry_errname(err));
    }
    assert_true(err == TARRY_OK || reached);
    assert_false(tr_engine_failed(rig.e));
    if (err == TARRY_ENOMEM) {
        after = rig_facts(&rig);
        if (strcmp(before, after) != 0) {
            fail_msg("request %u, allocation %u changed something:\n%s%s", k, (unsigned)n, before,
                     after);
        }
        free(after);
        assert_true(request(k, &a));
        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    }
    free(before);
    rig_pass(&rig, RIG_SECOND);
    before = rig_facts(&rig);
    rig_power_cut(&rig);
    rig_open(&rig);
    after = rig_facts(&rig);
    assert_string_equal(after, before);
    free(before);
    free(after);
    rig_fini(&rig);
    return reached;
}

static void sweep(bool on, bool cached)
{
    struct ask a;

    for (unsigned k = 0; request(k, &a); k++) {
        for (uint64_t n = 1; attempt(k, n, on, cached); n++) {
            assert_true(n < SWEEP_MAX);
        }
    }
}

static void test_nomem_one_allocation_of_each_request(void **state)
{
    (void)state;
    sweep(false, true);
    sweep(false, false);
}

static void test_nomem_all_allocations_from_one_on(void **state)
{
    (void)state;
    sweep(true, true);
    sweep(true, false);
}

/* A waiting reserve, and the push that serves it. */
static void test_nomem_waiting_reserve(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < SWEEP_MAX; n++) {
        struct rig rig;
        struct ask a = rig_ask(TR_OP_RESERVE);
        struct ask b = rig_ask(TR_OP_PUSH);
        bool reached;

        rig_init(&rig);
        rig_open(&rig);
        a.req.topic_count = 1;
        a.req.topics = topics;
        a.req.holder = ME;
        a.req.wait_us = TR_WAIT_FOREVER;
        b.req.topic = rig_hold(&rig, "t");
        rig.mem.fail_at = rig.mem.calls + n;
        rig_submit(&rig, &a);
        rig_settle(&rig);
        assert_true(a.done == 0 || a.req.out.status == TARRY_ENOMEM);
        rig_submit(&rig, &b);
        rig_settle(&rig);
        assert_true(b.done != 0);
        reached = rig.mem.calls >= rig.mem.fail_at;
        rig.mem.fail_at = 0;
        rig_pass(&rig, RIG_SECOND);
        if (b.req.out.status == TARRY_OK && a.done == 0) {
            fail_msg("allocation %u: a ready job and a waiter that does not get it", (unsigned)n);
        }
        if (a.done == 0) { /* the push was refused: he still waits */
            rig_push(&rig, b.req.topic, 0);
            assert_true(a.done != 0);
        }
        rig_fini(&rig);
        if (!reached) {
            return;
        }
    }
    fail_msg("the sweep does not end");
}

/* Allocations fail while time passes: leases end, jobs become due, checkpoints are made. */
static void test_nomem_while_time_passes(void **state)
{
    bool reached = true;

    (void)state;
    for (uint64_t n = 1; reached; n++) {
        struct rig rig;

        furnish(&rig, n % 2 == 0);
        rig.mem.fail_at = rig.mem.calls + n;
        rig_pass(&rig, 60 * RIG_SECOND);
        reached = rig.mem.calls >= rig.mem.fail_at;
        rig.mem.fail_at = 0;
        rig_pass(&rig, 60 * RIG_SECOND);
        assert_false(tr_engine_failed(rig.e));
        assert_int_equal(rig_state(&rig, HELD), TR_READY);
        assert_int_equal(rig_state(&rig, LEASED), TR_READY);
        assert_true(rig_engine_stat(&rig).checkpoints > 0);
        rig_fini(&rig);
        assert_true(n < SWEEP_MAX);
    }
}

/* Opening: TARRY_ENOMEM, no leak, and the store is as it was. */
static void test_nomem_open(void **state)
{
    bool failed = true;

    (void)state;
    for (uint64_t n = 1; failed; n++) {
        struct rig rig;
        char *before;
        char *after;
        int err;

        furnish(&rig, true);
        rig_pass(&rig, 60 * RIG_SECOND);
        before = rig_facts(&rig);
        rig_power_cut(&rig);
        rig.mem.fail_at = rig.mem.calls + n;
        err = rig_try_open(&rig);
        failed = rig.mem.calls >= rig.mem.fail_at;
        rig.mem.fail_at = 0;
        assert_true(failed ? err == TARRY_ENOMEM || err == TARRY_OK : err == TARRY_OK);
        if (err != TARRY_OK) {
            assert_int_equal(rig.mem.used_bytes, 0);
            rig_open(&rig);
        }
        after = rig_facts(&rig);
        assert_string_equal(after, before);
        free(before);
        free(after);
        rig_fini(&rig);
        assert_true(n < SWEEP_MAX);
    }
}

/* A budget instead of a fault: pushes are refused, the rest goes on, deletes make room. */
static void test_nomem_budget(void **state)
{
    struct rig rig;
    struct ask a = rig_ask(TR_OP_PUSH);
    unsigned count = 0;
    int err;

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 64;
    rig_open(&rig);
    a.req.topic = rig_hold(&rig, "t");
    a.req.body = text;
    a.req.body_len = 1000;
    rig.mem.limit_bytes = rig.mem.used_bytes + 500000;
    while ((err = rig_do(&rig, &a)) == TARRY_OK) {
        assert_true(++count < 1000);
    }
    assert_int_equal(err, TARRY_ENOMEM);
    assert_true(count > 50);
    for (unsigned i = 0; i < count; i++) {
        uint64_t id = rig_reserve(&rig, a.req.topic, ME);

        assert_true(id != 0);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    }
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    rig_fini(&rig);
}

/* Far jobs come back and are handed out while nothing new is taken, a topic neither. */
static void test_nomem_far_come_back(void **state)
{
    struct rig rig;
    struct ask a = rig_ask(TR_OP_PUSH);
    struct ask hold = rig_ask(TR_OP_HOLD_TOPIC);
    unsigned far = 0;
    unsigned near = 0;

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 64;
    rig.config.near_us = 20 * RIG_SECOND;
    rig_open(&rig);
    a.req.topic = rig_hold(&rig, "t");
    a.req.body = text;
    a.req.body_len = 1000;
    a.req.delay_us = 60 * RIG_SECOND;
    while (far < 40) {
        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
        far++;
    }
    assert_int_equal(rig_engine_stat(&rig).far, far);
    rig.mem.limit_bytes = rig.mem.used_bytes + 500000;
    a.req.delay_us = 0;
    while (rig_do(&rig, &a) == TARRY_OK) {
        assert_true(++near < 1000);
    }
    assert_int_equal(a.req.out.status, TARRY_ENOMEM);
    assert_true(rig_engine_stat(&rig).memory_full);
    hold.req.name = "another";
    hold.req.name_len = strlen(hold.req.name);
    a.req.body_len = 0;
    while (rig_do(&rig, &a) == TARRY_OK) {
        assert_true(++near < 1000);
    }
    assert_int_equal(rig_do(&rig, &hold), TARRY_ENOMEM);
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_int_equal(rig_stat(&rig, a.req.topic).ready, far + near);
    for (unsigned i = 0; i < far + near; i++) {
        uint64_t id = rig_reserve(&rig, a.req.topic, ME);

        assert_true(id != 0);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    }
    assert_false(rig_engine_stat(&rig).memory_full);
    assert_int_equal(rig_do(&rig, &hold), TARRY_OK);
    rig_fini(&rig);
}

/* What ran within a limit opens with it, and goes on. */
static void test_nomem_opens_again(void **state)
{
    struct rig rig;
    struct ask a = rig_ask(TR_OP_PUSH);
    unsigned count = 0;

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 64;
    rig_open(&rig);
    a.req.topic = rig_hold(&rig, "t");
    a.req.body = text;
    a.req.body_len = 1000;
    rig.mem.limit_bytes = rig.mem.used_bytes + 500000;
    while (rig_do(&rig, &a) == TARRY_OK) {
        count++;
    }
    rig_close(&rig);
    for (uint64_t limit = rig.mem.limit_bytes; limit > 1000; limit /= 4) {
        rig.mem.limit_bytes = limit;
        rig_open(&rig);
        a.req.topic = rig_hold(&rig, "t");
        assert_int_equal(rig_stat(&rig, a.req.topic).ready, count);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, rig_reserve(&rig, a.req.topic, ME), ME),
                         TARRY_OK);
        count--;
        rig_close(&rig);
    }
    rig.mem.limit_bytes = 0;
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nomem_one_allocation_of_each_request),
        cmocka_unit_test(test_nomem_all_allocations_from_one_on),
        cmocka_unit_test(test_nomem_waiting_reserve),
        cmocka_unit_test(test_nomem_while_time_passes),
        cmocka_unit_test(test_nomem_open),
        cmocka_unit_test(test_nomem_budget),
        cmocka_unit_test(test_nomem_far_come_back),
        cmocka_unit_test(test_nomem_opens_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
