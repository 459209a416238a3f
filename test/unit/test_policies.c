/* Policies of topics in the engine: kept over restarts, checkpoints and purges. */

#include "base/err.h"
#include "test/unit/rig.h"
#include "test/unit/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR (3600 * RIG_SECOND)

static int set(struct rig *rig, uint32_t t, const struct tr_policy *p, unsigned fields)
{
    struct ask a = rig_ask(TR_OP_POLICY);

    a.req.topic = t;
    a.req.policy = p;
    a.req.fields = fields;
    return rig_do(rig, &a);
}

/* A ttr of so many seconds, and a text. */
static void set_ttr(struct rig *rig, uint32_t t, uint64_t seconds)
{
    struct tr_policy p = tr_policy_default();

    p.given = TR_POLICY_BIT(TTR) | TR_POLICY_BIT(DELIVER);
    p.ttr_us = seconds * RIG_SECOND;
    p.deliver = "{\"type\":\"webhook\"}";
    p.deliver_len = strlen(p.deliver);
    assert_int_equal(set(rig, t, &p, p.given), TARRY_OK);
    assert_int_equal(rig->policy.ttr_us, seconds * RIG_SECOND);
}

static int find(struct rig *rig, const char *name, uint32_t *t)
{
    struct ask a = rig_ask(TR_OP_FIND_TOPIC);
    int err;

    a.req.name = name;
    a.req.name_len = strlen(name);
    err = rig_do(rig, &a);
    *t = a.req.out.topic;
    return err;
}

static void drop(struct rig *rig, uint32_t t)
{
    struct ask a = rig_ask(TR_OP_DROP_TOPIC);

    a.req.topic = t;
    a.req.hold = TR_HOLD_USE;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
}

static void purge(struct rig *rig, uint32_t t)
{
    struct ask a = rig_ask(TR_OP_PURGE);

    a.req.topic = t;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
}

static void assert_ttr(struct rig *rig, const char *name, uint64_t seconds)
{
    uint32_t t;

    assert_int_equal(find(rig, name, &t), TARRY_OK);
    (void)rig_stat(rig, t);
    assert_int_equal(rig->policy.given, TR_POLICY_BIT(TTR) | TR_POLICY_BIT(DELIVER));
    assert_int_equal(rig->policy.ttr_us, seconds * RIG_SECOND);
    assert_int_equal(rig->policy.deliver_len, 18);
    assert_memory_equal(rig->policy.deliver, "{\"type\":\"webhook\"}", 18);
}

static void test_policies_default(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    assert_true(rig_stat(&rig, rig_hold(&rig, "t")).listed);
    assert_int_equal(rig.policy.given, 0);
    assert_int_equal(rig.policy.ttr_us, TR_POLICY_TTR_US);
    rig_fini(&rig);
}

static void test_policies_survive(void **state)
{
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    set_ttr(&rig, t, 5);
    rig_power_cut(&rig); /* from the log */
    rig_open(&rig);
    assert_ttr(&rig, "t", 5);
    rig_close(&rig); /* from the checkpoint */
    rig_open(&rig);
    assert_ttr(&rig, "t", 5);
    assert_int_equal(find(&rig, "t", &t), TARRY_OK);
    set_ttr(&rig, t, 6);
    rig_kill(&rig);
    rig_open(&rig);
    assert_ttr(&rig, "t", 6);
    rig_pass(&rig, 2 * rig.config.checkpoint_us); /* its slot may be used again by now */
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_ttr(&rig, "t", 6);
    rig_fini(&rig);
}

/* It is there, but beanstalk does not see it. */
static void test_policies_keep_a_topic(void **state)
{
    struct tr_policy none = tr_policy_default();
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    set_ttr(&rig, t, 5);
    drop(&rig, t);
    assert_int_equal(find(&rig, "t", &t), TARRY_OK);
    assert_false(rig_stat(&rig, t).listed);

    uint64_t id = rig_push(&rig, t, 0);

    assert_true(rig_stat(&rig, t).listed);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(find(&rig, "t", &t), TARRY_OK);
    assert_true(rig_stat(&rig, t).listed);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    assert_false(rig_stat(&rig, t).listed);
    assert_int_equal(set(&rig, t, &none, TR_POLICY_BIT(TTR)), TARRY_OK);
    assert_int_equal(rig.policy.given, TR_POLICY_BIT(DELIVER));
    assert_int_equal(set(&rig, t, &none, TR_POLICY_BIT(DELIVER)), TARRY_OK);
    assert_int_equal(rig.policy.given, 0);
    assert_int_equal(find(&rig, "t", &t), TARRY_ENOTFOUND);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(find(&rig, "t", &t), TARRY_ENOTFOUND);
    rig_fini(&rig);
}

static void test_policies_purge(void **state)
{
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    set_ttr(&rig, t, 5);
    (void)rig_push(&rig, t, HOUR);
    purge(&rig, t);
    assert_ttr(&rig, "t", 5);
    (void)rig_push(&rig, t, HOUR);
    purge(&rig, t);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_ttr(&rig, "t", 5);
    rig_close(&rig);
    rig_open(&rig);
    assert_ttr(&rig, "t", 5);
    rig_fini(&rig);
}

static void test_policies_refused(void **state)
{
    struct tr_policy p = tr_policy_default();
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    p.given = TR_POLICY_BIT(TTR);
    p.ttr_us = 0;
    assert_int_equal(set(&rig, t, &p, p.given), TARRY_EINVAL);
    assert_int_equal(set(&rig, t, NULL, p.given), TARRY_EINVAL);
    p.ttr_us = 1;
    assert_int_equal(set(&rig, t, &p, TR_POLICY_ALL + 1), TARRY_EINVAL);
    assert_int_equal(set(&rig, t + 1, &p, p.given), TARRY_ENOTFOUND);
    assert_int_equal(set(&rig, t, &p, 0), TARRY_OK); /* nothing is named: nothing changes */
    assert_int_equal(rig.policy.given, 0);
    rig_fini(&rig);
}

/* Whichever allocation fails: all of it, or nothing. */
static void test_policies_without_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct tr_policy p = tr_policy_default();
        struct rig rig;
        uint32_t t;
        bool reached;
        int err;

        rig_init(&rig);
        rig_open(&rig);
        t = rig_hold(&rig, "t");
        set_ttr(&rig, t, 5);
        (void)rig_push(&rig, t, 0);
        p.given = TR_POLICY_BIT(TTR);
        p.ttr_us = 6 * RIG_SECOND;
        rig.mem.fail_at = rig.mem.calls + n;
        if (n % 2 == 0) {
            struct ask a = rig_ask(TR_OP_PURGE);

            rig.mem.fail_at = rig.mem.calls + n / 2;
            a.req.topic = t;
            err = rig_do(&rig, &a);
        } else {
            rig.mem.fail_at = rig.mem.calls + n / 2 + 1;
            err = set(&rig, t, &p, p.given);
        }
        reached = rig.mem.calls >= rig.mem.fail_at;
        rig.mem.fail_at = 0;
        assert_true(err == TARRY_OK || (err == TARRY_ENOMEM && reached));
        assert_ttr(&rig, "t", n % 2 != 0 && err == TARRY_OK ? 6 : 5);
        assert_int_equal(rig_stat(&rig, t).ready, n % 2 == 0 && err == TARRY_OK ? 0 : 1);
        assert_true(tr_engine_ok(rig.e));
        rig_power_cut(&rig);
        rig_open(&rig);
        assert_ttr(&rig, "t", n % 2 != 0 && err == TARRY_OK ? 6 : 5);
        rig_fini(&rig);
        if (!reached && n > 20) {
            break;
        }
        assert_true(n < 200);
    }
}

/* ---- what they do to pushes and hand-outs ---- */

static void set_one(struct rig *rig, uint32_t t, struct tr_policy p, unsigned field)
{
    p.given = field;
    assert_int_equal(set(rig, t, &p, field), TARRY_OK);
}

static void pause_it(struct rig *rig, uint32_t t, unsigned what, uint64_t until_us)
{
    struct tr_policy p = tr_policy_default();

    p.paused = what;
    p.paused_until_us = until_us;
    set_one(rig, t, p, TR_POLICY_BIT(PAUSED));
}

static struct ask push_ask(uint32_t t)
{
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = t;
    a.req.body = (const uint8_t *)"x";
    a.req.body_len = 1;
    return a;
}

static int try_push(struct rig *rig, uint32_t t)
{
    struct ask a = push_ask(t);

    return rig_do(rig, &a);
}

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig_open(rig);
    return rig_hold(rig, "t");
}

static void test_policies_jitter(void **state)
{
    struct tr_policy p = tr_policy_default();
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;

    (void)state;
    p.jitter_us = 10 * RIG_SECOND;
    set_one(&rig, t, p, TR_POLICY_BIT(JITTER));
    for (unsigned i = 0; i < 200; i++) {
        uint64_t id = rig_push(&rig, t, 5 * RIG_SECOND);
        uint64_t late = rig_view(&rig, id).due_us - rig.now.wall_us - 5 * RIG_SECOND;

        least = late < least ? late : least;
        most = late > most ? late : most;
    }
    assert_true(most <= 10 * RIG_SECOND); /* never earlier: that would be very much */
    assert_true(least < RIG_SECOND && most > 9 * RIG_SECOND);
    rig_fini(&rig);
}

static void test_policies_paused_in(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = push_ask(t);
    uint64_t id;

    (void)state;
    a.req.key = "k";
    a.req.key_len = 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    id = a.req.out.job.id;
    pause_it(&rig, t, TR_PAUSED_IN, 0);
    assert_int_equal(try_push(&rig, t), TARRY_EPAUSED);
    assert_int_equal(rig_do(&rig, &a), TARRY_EPAUSED); /* replace */
    a.req.conflict = TR_CONFLICT_KEEP;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_reserve(&rig, t, 7), id); /* out goes on */
    pause_it(&rig, t, TR_PAUSED_IN, rig.now.wall_us + RIG_SECOND);
    assert_int_equal(try_push(&rig, t), TARRY_EPAUSED);
    rig_pass(&rig, RIG_SECOND - 1);
    assert_int_equal(try_push(&rig, t), TARRY_EPAUSED);
    rig_pass(&rig, 1);
    assert_int_equal(try_push(&rig, t), TARRY_OK);
    rig_fini(&rig);
}

static void test_policies_paused_out(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask w = rig_ask(TR_OP_RESERVE);
    uint64_t id;

    (void)state;
    pause_it(&rig, t, TR_PAUSED_OUT, 0);
    id = rig_push(&rig, t, 0);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    assert_int_equal(rig_reserve(&rig, t, 7), 0);
    rig_power_cut(&rig); /* it is durable */
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    assert_int_equal(rig_reserve(&rig, t, 7), 0);
    w.req.topics = &t;
    w.req.topic_count = 1;
    w.req.holder = 7;
    w.req.wait_us = TR_WAIT_FOREVER;
    rig_submit(&rig, &w);
    pause_it(&rig, t, TR_PAUSED_OUT, rig.now.wall_us + 5 * RIG_SECOND);
    rig_pass(&rig, 5 * RIG_SECOND - 1);
    assert_int_equal(w.done, 0);
    rig_pass(&rig, 1); /* by itself */
    assert_true(w.done != 0);
    assert_int_equal(w.req.out.job.id, id);
    rig_fini(&rig);
}

/* Both that of beanstalk and the policy's must end. */
static void test_policies_two_pauses(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask p = rig_ask(TR_OP_PAUSE);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    p.req.topic = t;
    p.req.wait_us = 10 * RIG_SECOND;
    assert_int_equal(rig_do(&rig, &p), TARRY_OK);
    pause_it(&rig, t, TR_PAUSED_OUT, rig.now.wall_us + 20 * RIG_SECOND);
    rig_pass(&rig, 10 * RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, 7), 0);
    purge(&rig, rig_hold(&rig, "other"));
    rig_pass(&rig, 10 * RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, 7), id);
    rig_fini(&rig);
}

static void test_policies_pause_outlives_a_purge(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id;

    (void)state;
    (void)rig_push(&rig, t, 0);
    pause_it(&rig, t, TR_PAUSED_OUT, rig.now.wall_us + 20 * RIG_SECOND);
    purge(&rig, t);
    id = rig_push(&rig, t, 0);
    assert_int_equal(rig_reserve(&rig, t, 7), 0);
    rig_pass(&rig, 20 * RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, 7), id);
    rig_fini(&rig);
}

static void test_policies_max_jobs(void **state)
{
    struct tr_policy p = tr_policy_default();
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = push_ask(t);
    uint64_t dead;

    (void)state;
    p.max_jobs = 2;
    set_one(&rig, t, p, TR_POLICY_BIT(MAX_JOBS));
    a.req.key = "k";
    a.req.key_len = 1;
    dead = rig_push(&rig, t, 0);
    assert_int_equal(rig_reserve(&rig, t, 7), dead);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, dead, 7), TARRY_OK);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(try_push(&rig, t), TARRY_EQUOTA);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK); /* none more than before */
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, dead, 0), TARRY_OK);
    assert_int_equal(try_push(&rig, t), TARRY_OK);
    assert_int_equal(try_push(&rig, t), TARRY_EQUOTA);
    rig_fini(&rig);
}

static int push_bytes(struct rig *rig, uint32_t t, uint64_t delay_us, size_t len, uint64_t *id)
{
    static const uint8_t body[20000];
    struct ask a = rig_ask(TR_OP_PUSH);
    int err;

    a.req.topic = t;
    a.req.delay_us = delay_us;
    a.req.body = body;
    a.req.body_len = len;
    err = rig_do(rig, &a);
    *id = a.req.out.job.id;
    return err;
}

static void limit_bytes(struct rig *rig, uint32_t t, uint64_t max)
{
    struct tr_policy p = tr_policy_default();

    p.max_bytes = max;
    set_one(rig, t, p, TR_POLICY_BIT(MAX_BYTES));
}

/* To the byte, also when far jobs go, in slots and in runs, and over restarts. */
static void test_policies_max_bytes(void **state)
{
    enum { COUNT = 60 };
    struct rig rig;
    uint32_t t;
    uint64_t ids[COUNT];
    uint64_t id;
    uint64_t sum = 0;

    (void)state;
    rig_init(&rig);
    rig.config.far_max = 10;
    rig.config.promote_slots = 1;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    limit_bytes(&rig, t, 1000000);
    for (unsigned i = 0; i < COUNT; i++) {
        size_t len = 1000 + i * 37 % 1000;

        assert_int_equal(push_bytes(&rig, t, HOUR + i * RIG_SECOND, len, &ids[i]), TARRY_OK);
        sum += len;
        rig_pass(&rig, i % 20 == 0 ? 15 * RIG_SECOND : 1000); /* some are promoted */
    }
    for (unsigned i = 0; i < COUNT; i += 2) {
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, ids[i], 0), TARRY_OK);
        sum -= 1000 + i * 37 % 1000;
        if (i == COUNT / 2) {
            rig_power_cut(&rig);
            rig_open(&rig);
        }
    }
    rig_power_cut(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    limit_bytes(&rig, t, sum + 100);
    assert_int_equal(push_bytes(&rig, t, HOUR, 101, &id), TARRY_EQUOTA);
    assert_int_equal(push_bytes(&rig, t, HOUR, 100, &id), TARRY_OK);
    assert_int_equal(push_bytes(&rig, t, HOUR, 1, &id), TARRY_EQUOTA);
    assert_int_equal(push_bytes(&rig, t, HOUR, 0, &id), TARRY_OK);
    rig_fini(&rig);
}

/* Bytes of the only topic. */
static void take_bytes(void *ctx, const struct tr_topic_fact *fact)
{
    *(uint64_t *)ctx = fact->bytes;
}

static uint64_t bytes_now(const struct rig *rig)
{
    uint64_t bytes = 0;

    tr_engine_topics(rig->e, take_bytes, &bytes);
    return bytes;
}

/* They are counted before anybody limits them, and none of those that go is guessed: neither far
 * ones, in slots and runs, nor dead ones; nor when the replay has only the record of their death.
 */
static void test_policies_bytes_are_never_guessed(void **state)
{
    enum { COUNT = 40 };
    struct rig rig;
    struct ask a = rig_ask(TR_OP_BULK);
    uint32_t t;
    uint64_t ids[COUNT];
    uint64_t sum = 0;

    (void)state;
    rig_init(&rig);
    rig.config.far_max = 10;
    rig.config.promote_slots = 1;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < COUNT; i++) {
        size_t len = 1000 + i * 41 % 700;

        assert_int_equal(push_bytes(&rig, t, HOUR + i * RIG_SECOND, len, &ids[i]), TARRY_OK);
        sum += i < COUNT / 2 ? 0 : len;
        rig_pass(&rig, i % 10 == 0 ? 15 * RIG_SECOND : 1000); /* some are promoted */
    }
    a.req.topic = t;
    a.req.bulk = TR_BULK_CANCEL;
    a.req.filter.due_to_us = rig_view(&rig, ids[COUNT / 2]).due_us;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.number, COUNT / 2);
    assert_int_equal(bytes_now(&rig), sum);
    rig_pass(&rig, RIG_SECOND); /* what has nobody left goes */
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(bytes_now(&rig), sum);
    t = rig_hold(&rig, "t");
    limit_bytes(&rig, t, sum + 10);
    assert_int_equal(push_bytes(&rig, t, HOUR, 11, &ids[0]), TARRY_EQUOTA);
    assert_int_equal(push_bytes(&rig, t, HOUR, 10, &ids[0]), TARRY_OK);
    rig_fini(&rig);
}

static void test_policies_max_bytes_of_changes(void **state)
{
    static const uint8_t body[200];
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = rig_ask(TR_OP_EDIT);
    uint64_t id;

    (void)state;
    limit_bytes(&rig, t, 150);
    assert_int_equal(push_bytes(&rig, t, HOUR, 100, &id), TARRY_OK);
    a.req.id = id;
    a.req.edit = TR_EDIT_BODY;
    a.req.body = body;
    a.req.body_len = 151;
    assert_int_equal(rig_do(&rig, &a), TARRY_EQUOTA);
    a.req.body_len = 150;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    limit_bytes(&rig, t, 10); /* what is there stays */
    a.req.body_len = 120;     /* and may become less */
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    assert_int_equal(push_bytes(&rig, t, 0, 10, &id), TARRY_OK);
    rig_fini(&rig);
}

static void test_policies_max_topics(void **state)
{
    struct rig rig;
    struct ask a = rig_ask(TR_OP_HOLD_TOPIC);

    (void)state;
    rig_init(&rig);
    rig.config.max_topics = 2;
    rig_open(&rig);
    (void)rig_hold(&rig, "a");
    (void)rig_hold(&rig, "b");
    a.req.name = "c";
    a.req.name_len = 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_EFULL);
    (void)rig_hold(&rig, "a");
    rig_fini(&rig);
}

static bool heard(struct wire *w, const char *line, const char *reply)
{
    bool same;

    wire_send(w, 0, line, strlen(line));
    wire_settle(w);
    same = w->clients[0].got_len == strlen(reply) &&
           memcmp(w->clients[0].got, reply, strlen(reply)) == 0;
    wire_drop(w, 0, w->clients[0].got_len);
    return same;
}

static void test_policies_beanstalk_does_not_list(void **state)
{
    struct wire w;
    uint32_t t;

    (void)state;
    wire_init(&w);
    wire_open(&w);
    t = rig_hold(&w.rig, "quiet");
    set_ttr(&w.rig, t, 5);
    assert_true(heard(&w, "list-tubes\r\n", "OK 22\r\n---\n- default\n- quiet\n\r\n"));
    drop(&w.rig, t);
    assert_true(heard(&w, "list-tubes\r\n", "OK 14\r\n---\n- default\n\r\n"));
    assert_true(heard(&w, "stats-tube quiet\r\n", "NOT_FOUND\r\n"));
    assert_true(heard(&w, "pause-tube quiet 1\r\n", "NOT_FOUND\r\n"));
    t = rig_hold(&w.rig, "quiet");
    pause_it(&w.rig, t, TR_PAUSED_IN, 0);
    assert_true(heard(&w, "use quiet\r\n", "USING quiet\r\n"));
    assert_true(heard(&w, "put 0 0 1 1\r\nx\r\n", "DRAINING\r\n"));
    assert_true(heard(&w, "use default\r\n", "USING default\r\n"));
    drop(&w.rig, t);
    wire_send(&w, 0, "stats\r\n", 7);
    wire_settle(&w);
    assert_non_null(strstr((char *)w.clients[0].got, "current-tubes: 1\n"));
    wire_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies_default),
        cmocka_unit_test(test_policies_survive),
        cmocka_unit_test(test_policies_keep_a_topic),
        cmocka_unit_test(test_policies_purge),
        cmocka_unit_test(test_policies_refused),
        cmocka_unit_test(test_policies_without_memory),
        cmocka_unit_test(test_policies_jitter),
        cmocka_unit_test(test_policies_paused_in),
        cmocka_unit_test(test_policies_paused_out),
        cmocka_unit_test(test_policies_two_pauses),
        cmocka_unit_test(test_policies_pause_outlives_a_purge),
        cmocka_unit_test(test_policies_max_jobs),
        cmocka_unit_test(test_policies_max_bytes),
        cmocka_unit_test(test_policies_bytes_are_never_guessed),
        cmocka_unit_test(test_policies_max_bytes_of_changes),
        cmocka_unit_test(test_policies_max_topics),
        cmocka_unit_test(test_policies_beanstalk_does_not_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
