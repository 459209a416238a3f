/* Jobs with keys: pushing, finding, and what is left of a key after a crash. */

#include "base/err.h"
#include "base/rng.h"
#include "engine/inner.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR (3600 * RIG_SECOND)
#define ME UINT64_C(7)

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.far_max = 50;
    rig->config.promote_slots = 2;
    rig->config.slots_max = 16;
    rig_open(rig);
    return rig_hold(rig, "t");
}

static struct tr_engine_stat stat(const struct rig *rig)
{
    return rig_engine_stat(rig);
}

static void name(struct ask *a, uint32_t topic, const char *key)
{
    a->req.topic = topic;
    a->req.key = key;
    a->req.key_len = strlen(key);
}

/* A push with a body of so many bytes. */
static struct ask keyed(uint32_t topic, const char *key, uint64_t delay_us, const char *body)
{
    struct ask a = rig_ask(TR_OP_PUSH);

    name(&a, topic, key);
    a.req.delay_us = delay_us;
    a.req.ttr_us = RIG_TTR_US;
    a.req.priority = 100;
    a.req.body = (const uint8_t *)body;
    a.req.body_len = strlen(body);
    return a;
}

static uint64_t push(struct rig *rig, uint32_t topic, const char *key, uint64_t delay_us)
{
    struct ask a = keyed(topic, key, delay_us, "body");

    a.req.conflict = TR_CONFLICT_ERROR;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    assert_false(a.req.out.existed);
    return a.req.out.job.id;
}

static int by_key(struct rig *rig, enum tr_op op, uint32_t topic, const char *key, uint64_t *id)
{
    struct ask a = rig_ask(op);
    int status;

    name(&a, topic, key);
    a.req.holder = ME;
    status = rig_do(rig, &a);
    *id = a.req.id;
    return status;
}

/* The id of the job with this key, or 0. */
static uint64_t find(struct rig *rig, uint32_t topic, const char *key)
{
    uint64_t id;
    int status = by_key(rig, TR_OP_STAT_JOB, topic, key, &id);

    assert_true(status == TARRY_OK || status == TARRY_ENOTFOUND);
    return status == TARRY_OK ? id : 0;
}

static void test_keys_one_job_for_a_key(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t other = rig_hold(&rig, "other");
    uint64_t id = push(&rig, t, "order-42", RIG_SECOND);
    struct ask a = keyed(t, "order-42", 0, "another");

    (void)state;
    assert_int_equal(find(&rig, t, "order-42"), id);
    assert_int_equal(find(&rig, t, "order-4"), 0);
    assert_int_equal(find(&rig, t, "order-42 "), 0);
    assert_int_equal(find(&rig, other, "order-42"), 0);
    a.req.conflict = TR_CONFLICT_ERROR;
    assert_int_equal(rig_do(&rig, &a), TARRY_EEXISTS);
    assert_true(a.req.out.existed);
    assert_int_equal(a.req.out.job.id, id);
    assert_int_equal(a.req.out.job.state, TR_DELAYED);
    a = keyed(t, "order-42", 0, "another");
    a.req.conflict = TR_CONFLICT_KEEP;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_true(a.req.out.existed);
    assert_int_equal(a.req.out.job.id, id);
    assert_int_equal(a.req.out.job.body_len, 4);
    assert_int_equal(stat(&rig).jobs, 1);
    assert_true(push(&rig, other, "order-42", 0) != id); /* another topic, another job */
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    assert_int_equal(find(&rig, t, "order-42"), 0);
    assert_true(push(&rig, t, "order-42", 0) > id); /* it is free again */
    rig_fini(&rig);
}

static void test_keys_are_checked(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    char longest[TR_KEY_MAX + 2];
    struct ask a;
    uint64_t id;

    (void)state;
    memset(longest, 'x', sizeof longest);
    longest[TR_KEY_MAX + 1] = '\0';
    a = keyed(t, longest, 0, "");
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    assert_int_equal(by_key(&rig, TR_OP_PEEK, t, longest, &id), TARRY_EINVAL);
    assert_int_equal(by_key(&rig, TR_OP_PEEK, t + 5, "a", &id), TARRY_ENOTFOUND);
    a = keyed(t, "a", 0, "");
    a.req.conflict = TR_CONFLICT_COUNT;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    assert_int_equal(stat(&rig).keys, 0);
    longest[TR_KEY_MAX] = '\0';
    id = push(&rig, t, longest, HOUR);
    assert_int_equal(find(&rig, t, longest), id);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(find(&rig, rig_hold(&rig, "t"), longest), id);
    rig_fini(&rig);
}

static void test_keys_replace(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = push(&rig, t, "k", 0);
    struct ask a = keyed(t, "k", HOUR, "a new body");
    struct ask peek = rig_ask(TR_OP_PEEK);
    struct tr_job_view view;

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_int_equal(rig_do(&rig, &a), TARRY_ESTATE); /* somebody works on it */
    assert_true(a.req.out.existed);
    assert_int_equal(a.req.out.job.id, id);
    assert_int_equal(a.req.out.job.state, TR_RESERVED);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, id, ME), TARRY_OK);
    assert_int_equal(rig_state(&rig, id), TR_DEAD);
    a = keyed(t, "k", HOUR, "a new body");
    a.req.priority = 7;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_true(a.req.out.existed);
    assert_int_equal(a.req.out.job.id, id);
    view = rig_view(&rig, id);
    assert_int_equal(view.state, TR_DELAYED); /* a dead one lives again */
    assert_int_equal(view.due_us, rig.now.wall_us + HOUR);
    assert_int_equal(view.priority, 7);
    assert_int_equal(view.reserves + view.buries, 0);
    assert_int_equal(rig_stat(&rig, t).dead, 0);
    name(&peek, t, "k");
    assert_int_equal(rig_do(&rig, &peek), TARRY_OK);
    assert_int_equal(peek.req.out.job.body_len, 10);
    assert_memory_equal(peek.body, "a new body", 10);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(find(&rig, rig_hold(&rig, "t"), "k"), id);
    assert_int_equal(stat(&rig).jobs, 1);
    rig_fini(&rig);
}

/* Whatever can be done to a job by id, by key too; near or far. */
static void test_keys_by_key(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = push(&rig, t, "far", 2 * HOUR);
    struct ask edit = rig_ask(TR_OP_EDIT);
    uint64_t found;

    (void)state;
    assert_int_equal(stat(&rig).far, 1);
    assert_int_equal(by_key(&rig, TR_OP_RELEASE, t, "far", &found), TARRY_ESTATE);
    name(&edit, t, "far");
    edit.req.edit = TR_EDIT_DUE;
    edit.req.delay_us = HOUR;
    assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    assert_int_equal(edit.req.out.job.id, id);
    assert_int_equal(edit.req.out.job.due_us, rig.now.wall_us + HOUR);
    assert_int_equal(edit.req.out.job.key_len, 3);
    assert_int_equal(by_key(&rig, TR_OP_FIRE, t, "far", &found), TARRY_OK);
    assert_int_equal(found, id);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    assert_int_equal(by_key(&rig, TR_OP_RESERVE_JOB, t, "far", &found), TARRY_OK);
    assert_int_equal(by_key(&rig, TR_OP_TOUCH, t, "far", &found), TARRY_OK);
    assert_int_equal(by_key(&rig, TR_OP_BURY, t, "far", &found), TARRY_OK);
    assert_int_equal(by_key(&rig, TR_OP_KICK_JOB, t, "far", &found), TARRY_OK);
    assert_int_equal(by_key(&rig, TR_OP_DELETE, t, "far", &found), TARRY_OK);
    assert_int_equal(found, id);
    assert_int_equal(by_key(&rig, TR_OP_DELETE, t, "far", &found), TARRY_ENOTFOUND);
    assert_int_equal(stat(&rig).jobs, 0);
    assert_int_equal(stat(&rig).keys, 0);
    rig_fini(&rig);
}

/* A far job dies by id without a read; its key is free all the same, and its entry goes. */
static void test_keys_stale_entries_go(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t ids[200];
    char key[16];

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(key, sizeof key, "k%u", i);
        ids[i] = push(&rig, t, key, HOUR);
    }
    assert_int_equal(stat(&rig).keys, 200);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[0], 0), TARRY_OK);
    assert_int_equal(stat(&rig).loaded, 0);
    assert_int_equal(stat(&rig).keys, 200);
    assert_int_equal(find(&rig, t, "k0"), 0);
    assert_int_equal(stat(&rig).keys, 199);
    ids[0] = push(&rig, t, "k0", HOUR);
    assert_int_equal(stat(&rig).loaded, 0);
    for (unsigned i = 0; i < 200; i += 2) {
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[i], 0), TARRY_OK);
    }
    rig_settle(&rig);
    assert_true(stat(&rig).keys >= 100 && stat(&rig).keys <= 160);
    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(key, sizeof key, "k%u", i);
        assert_int_equal(find(&rig, t, key), i % 2 == 0 ? 0 : ids[i]);
    }
    assert_int_equal(stat(&rig).keys, 100);
    for (unsigned i = 1; i < 200; i += 2) {
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[i], 0), TARRY_OK);
    }
    rig_settle(&rig);
    assert_int_equal(stat(&rig).keys, 0);
    rig_fini(&rig);
}

/* Two bits of hash: every look-up meets other keys, near and far, and passes them by. */
static void test_keys_collide(void **state)
{
    struct rig rig;
    uint32_t t;
    uint64_t ids[60];
    char key[16];

    (void)state;
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig.config.key_bits = 2;
    rig.config.far_max = 10;
    rig.config.promote_slots = 1;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 60; i++) {
        (void)snprintf(key, sizeof key, "k%u", i);
        ids[i] = push(&rig, t, key, i % 3 == 0 ? 30 * RIG_SECOND : HOUR);
        assert_int_equal(find(&rig, t, "none"), 0);
    }
    for (unsigned i = 0; i < 60; i += 7) {
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[i], 0), TARRY_OK);
        ids[i] = 0;
    }
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 60; i++) {
            (void)snprintf(key, sizeof key, "k%u", i);
            assert_int_equal(find(&rig, t, key), ids[i]);
        }
        rig_power_cut(&rig);
        rig_open(&rig);
        t = rig_hold(&rig, "t");
    }
    rig_fini(&rig);
}

/* Keys of jobs in groups, in slots and in memory are there after a start. */
static void test_keys_survive(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    static uint64_t ids[500];
    static char body[1000];
    char key[16];

    (void)state;
    memset(body, 'b', sizeof body - 1);
    for (unsigned i = 0; i < 500; i++) {
        struct ask a;

        (void)snprintf(key, sizeof key, "k%u", i);
        a = keyed(t, key, i % 10 == 0 ? RIG_SECOND : HOUR + i * RIG_SECOND, body);
        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
        ids[i] = a.req.out.job.id;
    }
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_true(stat(&rig).runs >= 200);
    for (unsigned i = 0; i < 500; i += 5) { /* some die, some are moved, in runs and elsewhere */
        struct ask edit = rig_ask(TR_OP_EDIT);

        (void)snprintf(key, sizeof key, "k%u", i + 1);
        name(&edit, t, key);
        edit.req.edit = TR_EDIT_DUE;
        edit.req.delay_us = 3 * HOUR;
        assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[i], 0), TARRY_OK);
        ids[i] = 0;
    }
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 500; i++) {
            (void)snprintf(key, sizeof key, "k%u", i);
            assert_int_equal(find(&rig, t, key), ids[i]);
        }
        assert_int_equal(stat(&rig).keys, 400);
        if (round == 0) {
            rig_power_cut(&rig);
        } else {
            rig_close(&rig);
        }
        rig_open(&rig);
        assert_true(stat(&rig).runs >= 100);
        t = rig_hold(&rig, "t");
    }
    rig_fini(&rig);
}

/* A dead job is in the dead run, altered; its key is copied from its record. */
static void test_keys_of_dead_jobs_survive(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    static char body[1000];
    uint64_t id = push(&rig, t, "dead", 0);

    (void)state;
    memset(body, 'b', sizeof body - 1);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, id, ME), TARRY_OK);
    for (unsigned i = 0; i < 300; i++) {
        struct ask a = keyed(t, "", HOUR, body);

        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    }
    rig_pass(&rig, 120 * RIG_SECOND);
    assert_true(stat(&rig).groups >= 1);
    rig_power_cut(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    assert_int_equal(find(&rig, t, "dead"), id);
    assert_int_equal(rig_state(&rig, id), TR_DEAD);
    rig_fini(&rig);
}

/* No memory at any point: nothing changed, and it works when there is some. */
static void test_keys_without_memory(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    unsigned refused = 0;

    (void)state;
    for (unsigned n = 1; n < 40; n++) {
        struct ask a;
        char key[16];
        int status;

        (void)snprintf(key, sizeof key, "k%u", n);
        a = keyed(t, key, HOUR, "body");
        rig.mem.fail_at = rig.mem.calls + n % 8 + 1;
        rig_submit(&rig, &a);
        rig.mem.fail_at = 0;
        rig_settle(&rig);
        status = a.req.out.status;
        assert_true(status == TARRY_OK || status == TARRY_ENOMEM);
        refused += status != TARRY_OK;
        assert_int_equal(find(&rig, t, key) != 0, status == TARRY_OK);
        assert_true(tr_engine_ok(rig.e));
    }
    assert_true(refused > 0);
    rig_fini(&rig);
}

/* Random pushes and deaths against a table that a child could write. */
static void test_keys_model(void **state)
{
    enum { KEYS = 300, STEPS = 6000 };
    static uint64_t ids[KEYS];
    struct rig rig;
    uint32_t t = start(&rig);
    struct tr_rng rng = {42};

    (void)state;
    memset(ids, 0, sizeof ids);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned k = (unsigned)tr_rng_below(&rng, KEYS);
        char key[16];
        struct ask a;

        (void)snprintf(key, sizeof key, "k%u", k);
        switch (tr_rng_below(&rng, 4)) {
        case 0:
        case 1:
            a = keyed(t, key, tr_rng_below(&rng, 2) == 0 ? HOUR : 10 * RIG_SECOND, "some body");
            assert_int_equal(rig_do(&rig, &a), TARRY_OK);
            assert_int_equal(a.req.out.existed, ids[k] != 0);
            assert_true(ids[k] == 0 || a.req.out.job.id == ids[k]);
            ids[k] = a.req.out.job.id;
            break;
        case 2:
            if (ids[k] != 0) {
                assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[k], 0), TARRY_OK);
                ids[k] = 0;
            }
            break;
        default:
            assert_int_equal(find(&rig, t, key), ids[k]);
        }
        if (step % 2000 == 1999) {
            rig_power_cut(&rig);
            rig_open(&rig);
            t = rig_hold(&rig, "t");
        }
    }
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_one_job_for_a_key),
        cmocka_unit_test(test_keys_are_checked),
        cmocka_unit_test(test_keys_replace),
        cmocka_unit_test(test_keys_by_key),
        cmocka_unit_test(test_keys_stale_entries_go),
        cmocka_unit_test(test_keys_collide),
        cmocka_unit_test(test_keys_survive),
        cmocka_unit_test(test_keys_of_dead_jobs_survive),
        cmocka_unit_test(test_keys_without_memory),
        cmocka_unit_test(test_keys_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
