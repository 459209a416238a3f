/*
 * Requests that only look, and the names of topics.
 */

#include "base/err.h"
#include "base/text.h"
#include "engine/inner.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ME = 7 };

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig_open(rig);
    return rig_hold(rig, "t");
}

static struct ask named(enum tr_op op, const char *name)
{
    struct ask a = rig_ask(op);

    a.req.name = name;
    a.req.name_len = strlen(name);
    return a;
}

static struct ask on_topic(enum tr_op op, uint32_t topic)
{
    struct ask a = rig_ask(op);

    a.req.topic = topic;
    return a;
}

static void test_view_topic_names(void **state)
{
    static const char *const bad[] = {"", "-a", "a b", "a\n", "\xc3\xa4", "a*"};
    struct rig rig;
    char name[202];
    struct ask a;

    (void)state;
    start(&rig);
    for (unsigned i = 0; i < 6; i++) {
        a = named(TR_OP_HOLD_TOPIC, bad[i]);
        assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
        a = named(TR_OP_FIND_TOPIC, bad[i]);
        assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    }
    memset(name, 'x', sizeof name);
    name[201] = '\0';
    a = named(TR_OP_HOLD_TOPIC, name);
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    name[200] = '\0';
    a = named(TR_OP_HOLD_TOPIC, name);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    a = named(TR_OP_HOLD_TOPIC, "azAZ09+-/;.$_()");
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_engine_stat(&rig).topics, 3);
    rig_fini(&rig);
}

static void test_view_topic_lives_while_held_or_full(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask find = named(TR_OP_FIND_TOPIC, "t");
    struct ask drop = on_topic(TR_OP_DROP_TOPIC, t);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    assert_int_equal(rig_hold(&rig, "t"), t); /* a second hold */
    assert_int_equal(rig_stat(&rig, t).holds[TR_HOLD_USE], 2);
    assert_int_equal(rig_do(&rig, &drop), TARRY_OK);
    assert_int_equal(rig_do(&rig, &drop), TARRY_OK);
    assert_int_equal(rig_do(&rig, &drop), TARRY_ENOTFOUND); /* one too many */
    assert_int_equal(rig_do(&rig, &find), TARRY_OK);        /* it has a job */
    assert_int_equal(find.req.out.topic, t);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    assert_int_equal(rig_do(&rig, &find), TARRY_ENOTFOUND);
    assert_true(rig_hold(&rig, "t") > t); /* numbers are never used again */
    rig_fini(&rig);
}

static void test_view_holds_are_counted_by_kind(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask watch = named(TR_OP_HOLD_TOPIC, "t");
    struct ask drop = on_topic(TR_OP_DROP_TOPIC, t);
    struct ask find = named(TR_OP_FIND_TOPIC, "t");

    (void)state;
    drop.req.hold = TR_HOLD_WATCH;
    assert_int_equal(rig_do(&rig, &drop), TARRY_ENOTFOUND); /* held, but not so */
    watch.req.hold = TR_HOLD_WATCH;
    assert_int_equal(rig_do(&rig, &watch), TARRY_OK);
    assert_int_equal(rig_do(&rig, &watch), TARRY_OK);
    assert_int_equal(rig_stat(&rig, t).holds[TR_HOLD_USE], 1);
    assert_int_equal(rig_stat(&rig, t).holds[TR_HOLD_WATCH], 2);
    assert_int_equal(rig_stat(&rig, 0).holds[TR_HOLD_WATCH], 2);
    drop.req.hold = TR_HOLD_USE;
    assert_int_equal(rig_do(&rig, &drop), TARRY_OK);
    assert_int_equal(rig_do(&rig, &find), TARRY_OK); /* one kind is enough */
    drop.req.hold = TR_HOLD_WATCH;
    assert_int_equal(rig_do(&rig, &drop), TARRY_OK);
    assert_int_equal(rig_do(&rig, &drop), TARRY_OK);
    assert_int_equal(rig_do(&rig, &find), TARRY_ENOTFOUND);
    assert_int_equal(rig_stat(&rig, 0).holds[TR_HOLD_WATCH], 0);
    drop.req.hold = TR_HOLD_COUNT;
    assert_int_equal(rig_do(&rig, &drop), TARRY_EINVAL);
    watch.req.hold = TR_HOLD_COUNT;
    assert_int_equal(rig_do(&rig, &watch), TARRY_EINVAL);
    rig_fini(&rig);
}

static void test_view_totals_outlive_their_topics(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t u = rig_hold(&rig, "u");
    struct ask drop = on_topic(TR_OP_DROP_TOPIC, t);
    struct tr_topic_stat s;
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    rig_push(&rig, u, 0);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_pass(&rig, RIG_TTR_US);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    assert_int_equal(rig_do(&rig, &drop), TARRY_OK);
    s = rig_stat(&rig, 0);
    assert_int_equal(s.pushed, 2);
    assert_int_equal(s.deleted, 1);
    assert_int_equal(s.timeouts, 1);
    assert_int_equal(s.ready, 1);
    assert_int_equal(s.holds[TR_HOLD_USE], 1);
    assert_int_equal(rig_engine_stat(&rig).timeouts, 1);
    rig_fini(&rig);
}

static void test_view_next_topic_walks_by_number(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t u = rig_hold(&rig, "u");
    uint32_t v = rig_hold(&rig, "v");
    struct ask a = on_topic(TR_OP_NEXT_TOPIC, 0);
    struct ask drop = on_topic(TR_OP_DROP_TOPIC, u);

    (void)state;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.topic, t);
    assert_string_equal(a.name, "t");
    a.req.topic = u;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.topic, v);
    assert_int_equal(rig_do(&rig, &drop), TARRY_OK);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK); /* after one that is gone */
    assert_int_equal(a.req.out.topic, v);
    a.req.topic = v;
    assert_int_equal(rig_do(&rig, &a), TARRY_ENOTFOUND);
    rig_fini(&rig);
}

/* A topic that a port keeps is not there for users until somebody has a use for it. */
static void test_view_topic_that_only_a_port_keeps(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask keep = named(TR_OP_HOLD_TOPIC, "pin");
    struct ask find = named(TR_OP_FIND_TOPIC, "pin");
    struct ask next = on_topic(TR_OP_NEXT_TOPIC, t);
    struct ask drop = on_topic(TR_OP_DROP_TOPIC, 0);
    struct ask all = rig_ask(TR_OP_STAT);

    (void)state;
    keep.req.hold = TR_HOLD_KEEP;
    assert_int_equal(rig_do(&rig, &keep), TARRY_OK);
    for (unsigned shown = 0; shown < 2; shown++) {
        find.req.shown = shown != 0;
        next.req.shown = shown != 0;
        all.req.shown = shown != 0;
        assert_int_equal(rig_do(&rig, &find), shown ? TARRY_ENOTFOUND : TARRY_OK);
        assert_int_equal(rig_do(&rig, &next), shown ? TARRY_ENOTFOUND : TARRY_OK);
        assert_int_equal(rig_do(&rig, &all), TARRY_OK);
        assert_int_equal(all.req.out.number, shown ? 1 : 2);
    }
    assert_int_equal(rig_engine_stat(&rig).topics, 1);
    drop.req.topic = rig_hold(&rig, "pin");
    assert_int_equal(rig_do(&rig, &find), TARRY_OK);
    assert_int_equal(rig_do(&rig, &next), TARRY_OK);
    assert_int_equal(rig_engine_stat(&rig).topics, 2);
    assert_int_equal(rig_do(&rig, &drop), TARRY_OK);
    assert_int_equal(rig_do(&rig, &find), TARRY_ENOTFOUND);
    (void)rig_push(&rig, drop.req.topic, 0);
    assert_int_equal(rig_do(&rig, &find), TARRY_OK);
    rig_fini(&rig);
}

static void test_view_counts(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t u = rig_hold(&rig, "u");
    struct ask a = on_topic(TR_OP_PUSH, t);
    struct tr_topic_stat s;

    (void)state;
    a.req.priority = 1023;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    a.req.priority = 1024;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    for (unsigned i = 0; i < 3; i++) {
        rig_push(&rig, u, 0);
    }
    rig_push(&rig, t, RIG_SECOND);
    rig_reserve(&rig, u, ME);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, rig_reserve(&rig, u, ME), ME), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, 5, 0), TARRY_OK);
    s = rig_stat(&rig, t);
    assert_int_equal(s.ready, 2);
    assert_int_equal(s.urgent, 1);
    assert_int_equal(s.delayed, 1);
    assert_int_equal(s.pushed, 3);
    s = rig_stat(&rig, u);
    assert_int_equal(s.reserved, 1);
    assert_int_equal(s.dead, 1);
    assert_int_equal(s.deleted, 1);
    s = rig_stat(&rig, 0);
    assert_int_equal(s.ready, 2);
    assert_int_equal(s.delayed, 1);
    assert_int_equal(s.reserved, 1);
    assert_int_equal(s.dead, 1);
    assert_int_equal(s.pushed, 6);
    assert_int_equal(s.holds[TR_HOLD_USE], 2);
    assert_int_equal(s.holds[TR_HOLD_WATCH], 0);
    assert_int_equal(rig_engine_stat(&rig).jobs, 5);
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(rig_stat(&rig, t).urgent, 2);
    rig_fini(&rig);
}

static uint64_t first(struct rig *rig, uint32_t t, enum tr_job_state which, enum tr_order order)
{
    struct ask a = on_topic(TR_OP_PEEK_FIRST, t);
    int status;

    a.req.state = which;
    a.req.order = order;
    status = rig_do(rig, &a);
    assert_true(status == TARRY_OK ? a.has_body : status == TARRY_ENOTFOUND);
    return status == TARRY_OK ? a.req.out.job.id : 0;
}

static void test_view_peek_first(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = on_topic(TR_OP_PEEK_FIRST, t);

    (void)state;
    assert_int_equal(first(&rig, t, TR_READY, TR_ORDER_DUE), 0);
    assert_int_equal(first(&rig, 99, TR_READY, TR_ORDER_DUE), 0);
    rig_push(&rig, t, 200);
    rig_push(&rig, t, 100);
    rig_push(&rig, t, 300);
    rig_push(&rig, t, 400);
    assert_int_equal(first(&rig, t, TR_DELAYED, TR_ORDER_DUE), 2);
    rig_pass(&rig, 300);
    assert_int_equal(first(&rig, t, TR_DELAYED, TR_ORDER_DUE), 4);
    assert_int_equal(first(&rig, t, TR_READY, TR_ORDER_DUE), 2);
    assert_int_equal(first(&rig, t, TR_READY, TR_ORDER_ID), 1);
    assert_int_equal(first(&rig, t, TR_DEAD, TR_ORDER_ID), 0);
    assert_int_equal(rig_reserve(&rig, t, ME), 2);
    assert_int_equal(rig_reserve(&rig, t, ME), 1);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, 2, ME), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, 1, ME), TARRY_OK);
    assert_int_equal(first(&rig, t, TR_DEAD, TR_ORDER_ID), 2);
    a.req.state = TR_RESERVED;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a.req.state = TR_READY;
    a.req.order = TR_ORDER_COUNT;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    rig_fini(&rig);
}

static void test_view_refusals(void **state)
{
    struct rig rig;
    struct ask a = on_topic(TR_OP_STAT_TOPIC, 99);

    (void)state;
    start(&rig);
    assert_int_equal(rig_do(&rig, &a), TARRY_ENOTFOUND);
    a = on_topic(TR_OP_DROP_TOPIC, 99);
    assert_int_equal(rig_do(&rig, &a), TARRY_ENOTFOUND);
    assert_int_equal(rig_with(&rig, TR_OP_PEEK, 1, 0), TARRY_ENOTFOUND);
    assert_int_equal(rig_with(&rig, TR_OP_STAT_JOB, 1, 0), TARRY_ENOTFOUND);
    a = rig_ask(TR_OP_COUNT);
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    rig_fini(&rig);
}

/* A job that became ready late says by how much. */
static void test_view_lateness(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 100);

    (void)state;
    rig.now.boot_us += 130;
    rig.now.wall_us += 130;
    rig_settle(&rig);
    assert_int_equal(rig_view(&rig, id).late_us, 30);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_int_equal(rig_view(&rig, id).late_us, 30);
    rig_fini(&rig);
}

/* A job that was ready in time stays so, however long nobody serves; one that was due meanwhile is
 * late, and what became ready after the last word of the log is not known. */
static void test_view_lateness_over_a_stop(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t in_time = rig_push(&rig, t, RIG_SECOND);
    uint64_t later = rig_push(&rig, t, 20 * RIG_SECOND);
    uint64_t untold = rig_push(&rig, t, 41 * RIG_SECOND);

    (void)state;
    rig_pass(&rig, 10 * RIG_SECOND);
    assert_int_equal(rig_view(&rig, in_time).late_us, 0);
    rig_close(&rig);
    rig.now.boot_us += 30 * RIG_SECOND;
    rig.now.wall_us += 30 * RIG_SECOND;
    rig_open(&rig); /* at 40 s */
    assert_int_equal(rig_view(&rig, in_time).late_us, 0);
    assert_int_equal(rig_view(&rig, later).late_us, 20 * RIG_SECOND);
    assert_true(rig_stat(&rig, t).oldest_ready_us == RIG_WALL_US + RIG_SECOND);
    rig_pass(&rig, 4 * RIG_SECOND); /* without a word to the log */
    assert_int_equal(rig_view(&rig, untold).late_us, 0);
    rig_kill(&rig);
    rig.now.boot_us += 30 * RIG_SECOND;
    rig.now.wall_us += 30 * RIG_SECOND;
    rig_open(&rig); /* at 74 s */
    assert_int_equal(rig_view(&rig, in_time).late_us, 0);
    assert_int_equal(rig_view(&rig, untold).late_us, 33 * RIG_SECOND);
    rig_fini(&rig);
}

/* What a clock said that was ahead does not count: who is late after it has been set right is told.
 */
static void test_view_lateness_after_a_clock_that_was_ahead(void **state)
{
    const uint64_t day = 24 * 3600 * RIG_SECOND;
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t near = rig_push(&rig, t, 10 * RIG_SECOND);
    uint64_t far = rig_push(&rig, t, 3 * 3600 * RIG_SECOND);

    (void)state;
    rig_close(&rig);
    rig.now.boot_us += RIG_SECOND;
    rig.now.wall_us += day;
    rig_open(&rig);
    rig_settle(&rig);
    rig_close(&rig);
    rig.now.boot_us += RIG_SECOND;
    rig.now.wall_us -= day;
    rig_open(&rig);
    assert_int_equal(rig_state(&rig, near), TR_DELAYED);
    rig.now.boot_us += 40 * RIG_SECOND;
    rig.now.wall_us += 40 * RIG_SECOND;
    rig_settle(&rig);
    assert_int_equal(rig_view(&rig, near).late_us, 30 * RIG_SECOND);
    rig.now.boot_us += 3 * 3600 * RIG_SECOND;
    rig.now.wall_us += 3 * 3600 * RIG_SECOND;
    rig_settle(&rig);
    assert_int_equal(rig_view(&rig, far).late_us, 40 * RIG_SECOND);
    rig_fini(&rig);
}

static void test_view_peek_reads_body_from_disk(void **state)
{
    struct rig rig;
    uint32_t t;
    struct ask a = rig_ask(TR_OP_PEEK);
    struct ask empty = rig_ask(TR_OP_PEEK);

    (void)state;
    rig_init(&rig);
    rig.config.body_cache_bytes = 0;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    a.req.id = rig_push_body(&rig, t, RIG_SECOND, 3000);
    empty.req.id = rig_push_body(&rig, t, RIG_SECOND, 0);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.body_len, 3000);
    assert_int_equal(a.body[2999], 'b');
    assert_int_equal(rig_do(&rig, &empty), TARRY_OK);
    assert_int_equal(empty.req.out.job.body_len, 0);
    assert_int_equal(first(&rig, t, TR_DELAYED, TR_ORDER_DUE), a.req.id);
    rig_submit(&rig, &a); /* and abandoned while the read is out */
    tr_engine_abandon(rig.e, &a.req, rig.now);
    rig_settle(&rig);
    assert_int_equal(a.done, 0);
    rig_submit(&rig, &a); /* and the job dies meanwhile */
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, a.req.id, 0), TARRY_OK);
    assert_true(a.done != 0);
    assert_int_equal(a.req.out.status, TARRY_ENOTFOUND);
    rig_fini(&rig);
}

/* Pushes into a topic that is to stay, deletes the job and lets the topic go. */
static void use(struct rig *rig, const char *name)
{
    struct ask push = rig_ask(TR_OP_PUSH);
    struct ask drop = rig_ask(TR_OP_DROP_TOPIC);

    push.req.topic = rig_hold(rig, name);
    push.req.ttr_us = RIG_TTR_US;
    push.req.keep_topic = true;
    assert_int_equal(rig_do(rig, &push), TARRY_OK);
    assert_int_equal(rig_with(rig, TR_OP_DELETE, push.req.out.job.id, 0), TARRY_OK);
    drop.req.topic = push.req.topic;
    drop.req.hold = TR_HOLD_USE;
    assert_int_equal(rig_do(rig, &drop), TARRY_OK);
}

static bool is_known(struct rig *rig, const char *name)
{
    struct ask a = named(TR_OP_FIND_TOPIC, name);

    return rig_do(rig, &a) == TARRY_OK;
}

/* Topics that were used stay, the oldest go first, and none is in the way of one in use. */
static void test_view_kept_topics(void **state)
{
    struct rig rig;
    char name[16];

    (void)state;
    (void)start(&rig);
    rig.e->state.topics.kept_max = 20;
    for (unsigned i = 0; i <= 20; i++) {
        tr_text(name, sizeof name, "t%u", i);
        use(&rig, name);
        if (i == 2) {
            use(&rig, "t0"); /* again: it is not the oldest */
        }
    }
    assert_int_equal(rig_engine_stat(&rig).topics, 21); /* and the one held */
    assert_true(is_known(&rig, "t0") && !is_known(&rig, "t1") && is_known(&rig, "t2"));
    assert_true(tr_engine_ok(rig.e));
    rig_fini(&rig);

    rig_init(&rig);
    rig.config.max_topics = 3;
    rig_open(&rig);
    use(&rig, "a");
    use(&rig, "b");
    (void)rig_hold(&rig, "c");
    assert_true(is_known(&rig, "a") && is_known(&rig, "b"));
    (void)rig_hold(&rig, "d"); /* in place of a, not refused */
    assert_true(!is_known(&rig, "a") && is_known(&rig, "b"));
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view_topic_names),
        cmocka_unit_test(test_view_topic_lives_while_held_or_full),
        cmocka_unit_test(test_view_holds_are_counted_by_kind),
        cmocka_unit_test(test_view_totals_outlive_their_topics),
        cmocka_unit_test(test_view_next_topic_walks_by_number),
        cmocka_unit_test(test_view_topic_that_only_a_port_keeps),
        cmocka_unit_test(test_view_counts),
        cmocka_unit_test(test_view_peek_first),
        cmocka_unit_test(test_view_refusals),
        cmocka_unit_test(test_view_lateness),
        cmocka_unit_test(test_view_lateness_over_a_stop),
        cmocka_unit_test(test_view_lateness_after_a_clock_that_was_ahead),
        cmocka_unit_test(test_view_kept_topics),
        cmocka_unit_test(test_view_peek_reads_body_from_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
