/*
 * Reserves that ask for a tag: the right jobs in the right order, waiters, many tags, small slices.
 */

#include "base/err.h"
#include "base/rng.h"
#include "test/unit/rig.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ME = 7, OTHER = 8 };

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig_open(rig);
    return rig_hold(rig, "t");
}

static uint64_t push(struct rig *rig, uint32_t topic, const char *tag, uint32_t priority)
{
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = topic;
    a.req.priority = priority;
    a.req.tag = tag;
    a.req.tag_len = strlen(tag);
    a.req.body = (const uint8_t *)"x";
    a.req.body_len = 1;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.job.id;
}

static struct ask reserve(const uint32_t *topic, const char *tag, uint64_t holder, uint64_t wait_us)
{
    struct ask a = rig_ask(TR_OP_RESERVE);

    a.req.topics = topic;
    a.req.topic_count = 1;
    a.req.holder = holder;
    a.req.wait_us = wait_us;
    a.req.ttr_us = 0;
    a.req.tag = tag;
    a.req.tag_len = strlen(tag);
    return a;
}

static uint64_t take(struct rig *rig, uint32_t topic, const char *tag)
{
    struct ask a = reserve(&topic, tag, ME, 0);
    int status = rig_do(rig, &a);

    assert_true(status == TARRY_OK || status == TARRY_ETIMEOUT);
    return status == TARRY_OK ? a.req.out.job.id : 0;
}

static void test_tag_only_those_and_in_order(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t b1 = push(&rig, t, "b", 5);
    uint64_t a1 = push(&rig, t, "a", 5);
    uint64_t none = push(&rig, t, "", 1);
    uint64_t a2 = push(&rig, t, "a", 3);
    struct ask wrong = reserve(&t, "a", ME, 0);

    (void)state;
    assert_int_equal(take(&rig, t, "a"), a2);
    assert_int_equal(take(&rig, t, "c"), 0);
    assert_int_equal(take(&rig, t, "b"), b1);
    assert_int_equal(take(&rig, t, "a"), a1);
    assert_int_equal(take(&rig, t, "a"), 0);
    assert_int_equal(take(&rig, t, ""), none); /* no tag: any job */
    wrong.req.tag_len = 65;
    assert_int_equal(rig_do(&rig, &wrong), TARRY_EINVAL);
    rig_fini(&rig);
}

/* First come first, but nobody is kept waiting by one who waits for something else. */
static void test_tag_waiters(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = reserve(&t, "a", 1, TR_WAIT_FOREVER);
    struct ask b = reserve(&t, "b", 2, TR_WAIT_FOREVER);
    struct ask any = reserve(&t, "", 3, TR_WAIT_FOREVER);
    uint64_t id;

    (void)state;
    rig_submit(&rig, &a);
    rig_submit(&rig, &b);
    rig_submit(&rig, &any);
    rig_settle(&rig);
    id = push(&rig, t, "c", 1);
    assert_int_equal(any.req.out.job.id, id);
    assert_int_equal(a.done + b.done, 0);
    id = push(&rig, t, "b", 1);
    assert_int_equal(b.req.out.job.id, id);
    assert_int_equal(a.done, 0);
    (void)push(&rig, t, "c", 1);
    assert_int_equal(a.done, 0);
    id = push(&rig, t, "a", 9);
    assert_int_equal(a.req.out.job.id, id);
    rig_fini(&rig);
}

/* Another tag, another place. */
static void test_tag_changes(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = push(&rig, t, "a", 1);
    struct ask edit = rig_ask(TR_OP_EDIT);

    (void)state;
    (void)push(&rig, t, "x", 1);
    assert_int_equal(take(&rig, t, "b"), 0);
    edit.req.id = id;
    edit.req.edit = TR_EDIT_TAG;
    edit.req.tag = "b";
    edit.req.tag_len = 1;
    assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    assert_int_equal(take(&rig, t, "a"), 0);
    assert_int_equal(take(&rig, t, "b"), id);
    rig_fini(&rig);
}

/* More tags than are kept in order, in small slices, against an array. */
static void test_tag_against_model(void **state)
{
    enum { TAGS = 400, JOBS = 600 };
    struct rig rig;
    struct tr_rng rng = {3};
    uint64_t ids[JOBS];
    unsigned tags[JOBS];
    unsigned count = 0;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.slice = 20;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned step = 0; step < (RIG_SLOW ? 1000 : 3000); step++) {
        unsigned tag = (unsigned)tr_rng_below(&rng, TAGS);
        unsigned best = JOBS;
        char text[8];

        (void)snprintf(text, sizeof text, "%u", tag);
        if (count < JOBS && tr_rng_below(&rng, 2) == 0) {
            tags[count] = tag;
            ids[count++] = push(&rig, t, text, 1);
            continue;
        }
        for (unsigned i = 0; i < count && best == JOBS; i++) {
            best = tags[i] == tag ? i : best;
        }
        assert_int_equal(take(&rig, t, text), best == JOBS ? 0 : ids[best]);
        if (best != JOBS) {
            assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[best], ME), TARRY_OK);
            count--;
            memmove(&ids[best], &ids[best + 1], (count - best) * sizeof ids[0]);
            memmove(&tags[best], &tags[best + 1], (count - best) * sizeof tags[0]);
        }
    }
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tag_only_those_and_in_order),
        cmocka_unit_test(test_tag_waiters),
        cmocka_unit_test(test_tag_changes),
        cmocka_unit_test(test_tag_against_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
