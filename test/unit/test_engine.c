/*
 * The loop: gates, group commit, sync modes, the clock, idleness, failures; and a seeded run of
 * changes and restarts against a plain array.
 */

#include "base/err.h"
#include "base/rng.h"
#include "engine/job.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ME = 7, OTHER = 8 };

#define HOUR (3600 * RIG_SECOND)

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig_open(rig);
    return rig_hold(rig, "t");
}

static uint32_t start_with_sync(struct rig *rig, enum tr_sync sync)
{
    rig_init(rig);
    rig->config.sync = sync;
    rig->config.gather_bytes = 8000;
    rig_open(rig);
    return rig_hold(rig, "t");
}

static struct ask push(uint32_t topic)
{
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = topic;
    return a;
}

static struct ask on_job(enum tr_op op, uint64_t id)
{
    struct ask a = rig_ask(op);

    a.req.id = id;
    return a;
}

static struct ask reserve(const uint32_t *topic, uint64_t holder)
{
    struct ask a = rig_ask(TR_OP_RESERVE);

    a.req.topics = topic;
    a.req.topic_count = 1;
    a.req.holder = holder;
    a.req.ttr_us = 0;
    return a;
}

/* ---- gates ---- */

static void test_engine_answers_carry_their_batch(void **state)
{
    struct rig rig;
    struct ask a = push(start(&rig));
    struct ask peek = on_job(TR_OP_PEEK, 1);
    struct ask stat = rig_ask(TR_OP_STAT);

    (void)state;
    rig_submit(&rig, &a);
    assert_true(a.done != 0); /* it has taken effect at once */
    assert_int_equal(a.req.out.gate, rig.durable + 1);
    rig_submit(&rig, &peek); /* what it shows is not durable yet */
    assert_int_equal(peek.req.out.status, TARRY_OK);
    assert_int_equal(peek.req.out.gate, a.req.out.gate);
    rig_submit(&rig, &stat);
    assert_int_equal(stat.req.out.gate, a.req.out.gate);
    rig_turn(&rig);
    assert_int_equal(rig.durable, 0); /* written, not yet done */
    rig_settle(&rig);
    assert_int_equal(rig.durable, a.req.out.gate);
    rig_submit(&rig, &peek);
    assert_int_equal(peek.req.out.gate, 0);
    rig_fini(&rig);
}

static void test_engine_negative_answers_are_gated(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask kill = on_job(TR_OP_DELETE, rig_push(&rig, t, 0));
    struct ask peek = on_job(TR_OP_PEEK, kill.req.id);
    struct ask none = reserve(&t, ME);

    (void)state;
    rig_submit(&rig, &kill);
    rig_submit(&rig, &peek);
    rig_submit(&rig, &none);
    assert_int_equal(peek.req.out.status, TARRY_ENOTFOUND);
    assert_int_equal(peek.req.out.gate, rig.durable + 1);
    assert_int_equal(none.req.out.status, TARRY_ETIMEOUT);
    assert_int_equal(none.req.out.gate, rig.durable + 1);
    rig_settle(&rig);
    rig_fini(&rig);
}

static void test_engine_handout_waits_for_its_own_job_only(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t old = rig_push(&rig, t, 0);
    struct ask fresh = push(t);
    struct ask first = reserve(&t, ME);
    struct ask second = reserve(&t, ME);

    (void)state;
    rig_submit(&rig, &fresh);
    rig_submit(&rig, &first);
    assert_int_equal(first.req.out.job.id, old);
    assert_int_equal(first.req.out.gate, 0); /* durable long since */
    rig_submit(&rig, &second);
    assert_int_equal(second.req.out.job.id, fresh.req.out.job.id);
    assert_int_equal(second.req.out.gate, fresh.req.out.gate);
    rig_settle(&rig);
    rig_fini(&rig);
}

static void test_engine_attempt_is_lazy_and_gates_nobody(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = reserve(&t, ME);
    struct ask peek = on_job(TR_OP_STAT_JOB, id);
    unsigned closed;

    (void)state;
    rig_pass(&rig, RIG_SECOND);
    closed = rig.closed_calls;
    rig_submit(&rig, &a);
    rig_submit(&rig, &peek);
    assert_int_equal(a.req.out.gate, 0);
    assert_int_equal(peek.req.out.gate, 0);
    rig_pass(&rig, rig.config.lazy_us - 1);
    assert_int_equal(rig.closed_calls, closed); /* it waits for company */
    rig_pass(&rig, 1);
    assert_int_equal(rig.closed_calls, closed + 1);
    rig_fini(&rig);
}

static void test_engine_lazy_record_rides_with_next_batch(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = reserve(&t, ME);
    unsigned closed;

    (void)state;
    rig_push(&rig, t, 0);
    closed = rig.closed_calls;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig.closed_calls, closed);
    rig_push(&rig, t, 0);
    assert_int_equal(rig.closed_calls, closed + 1);
    rig_pass(&rig, rig.config.lazy_us);
    assert_int_equal(rig.closed_calls, closed + 1);
    rig_fini(&rig);
}

static void test_engine_commits_groups(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask *asks = calloc(60, sizeof *asks);
    unsigned closed = rig.closed_calls;

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        asks[i] = push(t);
        rig_submit(&rig, &asks[i]);
        assert_int_equal(asks[i].req.out.gate, rig.durable + 1);
        assert_int_equal(asks[i].done, i + 2); /* after the answer to hold */
    }
    rig_turn(&rig);
    assert_int_equal(rig.closed_calls, closed + 1); /* one batch for all */
    for (unsigned i = 0; i < 5; i++) {              /* these gather while that one is on its way */
        asks[i] = push(t);
        rig_submit(&rig, &asks[i]);
        rig_turn(&rig);
        assert_int_equal(asks[i].req.out.gate, rig.durable + 2);
    }
    assert_int_equal(rig.closed_calls, closed + 1);
    rig_settle(&rig);
    assert_int_equal(rig.closed_calls, closed + 2);
    assert_int_equal(rig.durable, 2);
    assert_int_equal(rig.durable_calls, 2);
    free(asks);
    rig_fini(&rig);
}

/* More than a batch holds: requests stall, nothing is lost, all are answered in order. */
static void test_engine_full_batch_stalls_requests(void **state)
{
    static uint8_t body[16000];
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask *asks = calloc(8, sizeof *asks);

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        asks[i] = push(t);
        asks[i].req.body = body;
        asks[i].req.body_len = sizeof body;
        rig_submit(&rig, &asks[i]);
    }
    assert_true(asks[0].done != 0);
    assert_int_equal(asks[7].done, 0);
    tr_engine_abandon(rig.e, &asks[6].req, rig.now); /* stalled: never pushed */
    rig_settle(&rig);
    for (unsigned i = 1; i < 8; i++) {
        assert_true(i == 6 ? asks[i].done == 0 : asks[i].done > asks[i == 7 ? 5 : i - 1].done);
    }
    assert_int_equal(rig_engine_stat(&rig).jobs, 7);
    free(asks);
    rig_fini(&rig);
}

/* Lets the disk be done with what it has after so long; in the turn after that answers leave. */
static void commit_takes(struct rig *rig, uint64_t us)
{
    rig_turn(rig);
    rig->now.boot_us += us;
    rig->now.wall_us += us;
    while (rig->step(rig->step_ctx)) {
    }
    rig_turn(rig);
}

/* Who was just answered will ask again: the next batch waits for that, but not for long. */
static void test_engine_batch_lingers_for_those_just_answered(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask asks[4] = {push(t), push(t), push(t), push(t)};
    unsigned closed;

    (void)state;
    (void)rig_push(&rig, t, 0); /* the topic is in the log */
    rig_pass(&rig, RIG_SECOND);
    rig_submit(&rig, &asks[0]);
    rig_submit(&rig, &asks[1]);
    commit_takes(&rig, 100);
    closed = rig.closed_calls;
    rig_submit(&rig, &asks[2]);
    assert_int_equal(rig_turn(&rig), rig.now.boot_us + 100); /* as long as a commit */
    assert_int_equal(rig.closed_calls, closed);
    rig_submit(&rig, &asks[3]);
    rig_turn(&rig);
    assert_int_equal(rig.closed_calls, closed + 1); /* both are back */

    commit_takes(&rig, 100);
    rig_submit(&rig, &asks[0]);
    rig_turn(&rig);
    assert_int_equal(rig.closed_calls, closed + 1);
    rig.now.boot_us += 100;
    rig_turn(&rig);
    assert_int_equal(rig.closed_calls, closed + 2); /* the other one has gone */

    commit_takes(&rig, 100);
    rig_submit(&rig, &asks[0]);
    rig_turn(&rig);
    assert_int_equal(rig.closed_calls, closed + 3); /* alone: no waiting */

    rig_submit(&rig, &asks[1]); /* while that one is in flight */
    commit_takes(&rig, 100);
    rig_turn(&rig);
    assert_int_equal(rig.closed_calls, closed + 3); /* it waits for the one just answered */
    rig.now.boot_us += 1000;
    rig_submit(&rig, &asks[2]);
    rig_turn(&rig);
    assert_int_equal(rig.closed_calls, closed + 4);
    commit_takes(&rig, 100);
    rig.now.boot_us += 1000;
    rig_submit(&rig, &asks[3]); /* long after: the second turn gives no more time */
    rig_turn(&rig);
    assert_int_equal(rig.closed_calls, closed + 5);
    rig_settle(&rig);
    rig_fini(&rig);
}

/* ---- weak sync ---- */

static void test_engine_sync_interval(void **state)
{
    struct rig rig;
    struct ask a = push(start_with_sync(&rig, TR_SYNC_INTERVAL));

    (void)state;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK); /* the first batch brings a checkpoint */
    rig_pass(&rig, rig.config.gather_us);
    assert_int_equal(rig_engine_stat(&rig).synced_batch, 1);
    rig_pass(&rig, RIG_SECOND);
    rig_submit(&rig, &a);
    assert_int_equal(a.req.out.gate, 0); /* no answer waits */
    rig_pass(&rig, rig.config.gather_us);
    assert_int_equal(rig_engine_stat(&rig).durable_batch, 2);
    assert_int_equal(rig_engine_stat(&rig).synced_batch, 1);
    rig_pass(&rig, rig.config.sync_us - 1);
    assert_int_equal(rig_engine_stat(&rig).synced_batch, 1);
    rig_pass(&rig, 1);
    assert_int_equal(rig_engine_stat(&rig).synced_batch, 2);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(rig_state(&rig, 2), TR_READY);
    rig_fini(&rig);
}

static void test_engine_sync_never_but_at_checkpoint_and_close(void **state)
{
    struct rig rig;
    uint32_t t = start_with_sync(&rig, TR_SYNC_NEVER);
    uint64_t made;

    (void)state;
    rig_push(&rig, t, 0);
    rig_pass(&rig, rig.config.gather_us);
    made = rig_engine_stat(&rig).checkpoints;
    rig_push(&rig, t, 0);
    rig_pass(&rig, 5 * RIG_SECOND);
    assert_int_equal(rig_engine_stat(&rig).synced_batch, 1);
    rig_pass(&rig, rig.config.checkpoint_us);
    assert_int_equal(rig_engine_stat(&rig).synced_batch, 2);
    assert_int_equal(rig_engine_stat(&rig).checkpoints, made + 1);
    rig_push(&rig, t, 0);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig_state(&rig, 2), TR_READY);
    assert_int_equal(rig_state(&rig, 3), TR_READY);
    assert_int_equal(rig_engine_stat(&rig).next_rid, 4); /* closed in order: none was lost */
    rig_fini(&rig);
}

static void test_engine_weak_sync_gathers_before_it_writes(void **state)
{
    static uint8_t body[5000];
    struct rig rig;
    uint32_t t = start_with_sync(&rig, TR_SYNC_NEVER);
    struct ask a = push(t);
    unsigned closed;

    (void)state;
    closed = rig.closed_calls;
    rig_push(&rig, t, 0);
    rig_pass(&rig, rig.config.gather_us - 1);
    rig_push(&rig, t, 0);
    assert_int_equal(rig.closed_calls, closed);
    rig_pass(&rig, 1); /* since the first of them */
    assert_int_equal(rig.closed_calls, closed + 1);
    a.req.body = body;
    a.req.body_len = sizeof body;
    rig_submit(&rig, &a);
    rig_settle(&rig);
    assert_int_equal(rig.closed_calls, closed + 1);
    rig_submit(&rig, &a); /* 10,000 bytes: enough */
    rig_settle(&rig);
    assert_int_equal(rig.closed_calls, closed + 2);
    rig_fini(&rig);
}

/* Ids that were answered and lost are never given again (R18). */
static void test_engine_weak_stop_skips_lost_ids(void **state)
{
    struct rig rig;
    uint32_t t = start_with_sync(&rig, TR_SYNC_NEVER);

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        rig_push(&rig, t, 0);
    }
    rig_power_cut(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    assert_true(rig_push(&rig, t, 0) > 20);
    rig_fini(&rig);
}

/* ---- time ---- */

static void test_engine_is_idle_without_work(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id;

    (void)state;
    assert_int_equal(rig_settle(&rig), rig.now.boot_us + rig.config.idle_us);
    rig_pass(&rig, 60 * RIG_SECOND);
    assert_int_equal(rig_settle(&rig), UINT64_MAX); /* nothing is periodic */
    id = rig_push(&rig, t, 5 * HOUR);
    rig_pass(&rig, 120 * RIG_SECOND);
    assert_int_equal(rig_settle(&rig), rig.now.boot_us + 5 * HOUR - 120 * RIG_SECOND);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    rig_pass(&rig, 200 * RIG_SECOND);
    assert_int_equal(rig_settle(&rig), UINT64_MAX);
    assert_false(tr_engine_busy(rig.e));
    rig_fini(&rig);
}

/* Jobs leave memory as soon as they are written; what they lived in goes when there is time. */
static void test_engine_gives_memory_back_when_idle(void **state)
{
    struct rig rig;
    uint32_t t;
    static struct ask a[600]; /* too large for the stack */
    uint64_t full;

    (void)state;
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 600; i++) {
        a[i] = rig_ask(TR_OP_PUSH);
        a[i].req.topic = t;
        a[i].req.delay_us = 5 * HOUR;
        rig_submit(&rig, &a[i]);
    }
    (void)rig_settle(&rig);
    full = rig.mem.used_bytes;
    assert_int_equal(rig_engine_stat(&rig).far, 600);
    rig_pass(&rig, rig.config.idle_us + RIG_SECOND);
    assert_true(rig.mem.used_bytes < full - 500 * sizeof(struct tr_job));
    rig_fini(&rig);
}

static void count_idle(void *ctx)
{
    struct rig *rig = ctx;

    rig->idles++;
}

/* Giving memory back takes the process a fifth of a second: not just before a job is due. */
static void test_engine_is_not_told_idle_before_a_job_is_due(void **state)
{
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.idle = count_idle;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    (void)rig_push(&rig, t, rig.config.idle_us + RIG_SECOND);
    rig_pass(&rig, rig.config.idle_us + RIG_SECOND - 1);
    assert_int_equal(rig.idles, 0);
    rig_pass(&rig, 3 * RIG_SECOND);
    assert_int_equal(rig.idles, 1);
    rig_fini(&rig);
}

static void test_engine_clock_back_makes_late_not_early(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t ready = rig_push(&rig, t, RIG_SECOND);
    uint64_t delayed = rig_push(&rig, t, 20 * RIG_SECOND);
    uint64_t held;

    (void)state;
    held = rig_push(&rig, t, 0);
    assert_int_equal(rig_reserve(&rig, t, ME), held);
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_int_equal(rig_state(&rig, ready), TR_READY);
    rig.now.wall_us -= HOUR;
    assert_int_equal(rig_reserve(&rig, t, ME), 0); /* its due time lies ahead again */
    assert_int_equal(rig_engine_stat(&rig).clock_steps, 1);
    assert_true(rig.notes[TR_NOTE_WARNING] > 0);
    rig_pass(&rig, 8 * RIG_SECOND);
    assert_int_equal(rig_state(&rig, held), TR_DELAYED); /* leases run on the boot clock */
    assert_int_equal(rig_view(&rig, held).timeouts, 1);
    rig_pass(&rig, HOUR - 10 * RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, ME), held); /* due when it was pushed */
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, held, ME), TARRY_OK);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, ME), ready);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, ready, ME), TARRY_OK);
    rig_pass(&rig, 19 * RIG_SECOND - 1);
    assert_int_equal(rig_reserve(&rig, t, OTHER), 0);
    rig_pass(&rig, 1);
    assert_int_equal(rig_reserve(&rig, t, OTHER), delayed);
    rig_fini(&rig);
}

static void test_engine_clock_forward_is_believed_after_a_second(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, HOUR / 2);
    uint64_t soon = rig_push(&rig, t, 30 * RIG_SECOND);

    (void)state;
    rig.now.wall_us += 59 * RIG_SECOND; /* so little is believed at once */
    rig_settle(&rig);
    assert_int_equal(rig_reserve(&rig, t, ME), soon);
    rig.now.wall_us += HOUR;
    rig_settle(&rig);
    assert_int_equal(rig_state(&rig, id), TR_DELAYED);
    rig_pass(&rig, RIG_SECOND - 1);
    assert_int_equal(rig_state(&rig, id), TR_DELAYED);
    rig_pass(&rig, 1);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    assert_int_equal(rig_engine_stat(&rig).clock_steps, 1);
    rig_fini(&rig);
}

static void test_engine_clock_forward_for_a_moment_is_not_believed(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, HOUR / 2);

    (void)state;
    rig.now.wall_us += HOUR;
    rig_settle(&rig);
    rig_pass(&rig, RIG_SECOND / 2);
    rig.now.wall_us -= HOUR;
    rig_pass(&rig, 10 * RIG_SECOND);
    assert_int_equal(rig_state(&rig, id), TR_DELAYED);
    rig_pass(&rig, HOUR / 2);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_fini(&rig);
}

/* ---- failures ---- */

static void fail_next(struct rig *rig, const char *only, int code)
{
    struct sim_faults *f = sim_disk_faults(rig->disk);

    f->only = only;
    f->fail_code = code;
    f->fail_at = 1;
    f->fail_seen = 0;
    f->fail_hits = 0;
}

static void test_engine_failed_log_is_final(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = push(t);

    (void)state;
    fail_next(&rig, "w.", TARRY_EIO);
    rig_submit(&rig, &a);
    rig_settle(&rig);
    assert_true(tr_engine_failed(rig.e));
    assert_true(rig.durable < a.req.out.gate); /* its success is never told */
    assert_int_equal(rig.notes[TR_NOTE_FATAL], 1);
    assert_int_equal(rig_with(&rig, TR_OP_PEEK, id, 0), TARRY_EIO);
    a = push(t);
    assert_int_equal(rig_do(&rig, &a), TARRY_EIO);
    assert_int_equal(rig_turn(&rig), UINT64_MAX);
    rig_power_cut(&rig);
    rig_open(&rig); /* what was durable is there */
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_fini(&rig);
}

static void test_engine_failed_manifest_is_final(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    rig_push(&rig, t, 0);
    fail_next(&rig, "man.", TARRY_EIO);
    rig_push(&rig, t, 0);
    rig_pass(&rig, rig.config.checkpoint_us + RIG_SECOND);
    assert_true(tr_engine_failed(rig.e));
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(rig_state(&rig, 1), TR_READY);
    rig_fini(&rig);
}

static void test_engine_failed_checkpoint_is_tried_again(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t made;

    (void)state;
    rig_push(&rig, t, 0);
    made = rig_engine_stat(&rig).checkpoints;
    fail_next(&rig, "ckpt.", TARRY_EIO);
    rig_push(&rig, t, 0);
    rig_pass(&rig, rig.config.checkpoint_us + 5 * RIG_SECOND);
    assert_false(tr_engine_failed(rig.e));
    assert_int_equal(sim_disk_faults(rig.disk)->fail_hits, 1);
    assert_true(rig_engine_stat(&rig).checkpoints > made);
    rig_fini(&rig);
}

/* A checkpoint whose sync failed does not count, however often. */
static void test_engine_unsynced_checkpoint_does_not_count(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t made;

    (void)state;
    rig_push(&rig, t, 0);
    made = rig_engine_stat(&rig).checkpoints;
    sim_disk_faults(rig.disk)->only = "ckpt.";
    sim_disk_faults(rig.disk)->sync_eio_ppm = 1000000;
    rig_push(&rig, t, 0);
    rig_pass(&rig, rig.config.checkpoint_us + 5 * RIG_SECOND);
    assert_int_equal(rig_engine_stat(&rig).checkpoints, made);
    sim_disk_faults(rig.disk)->sync_eio_ppm = 0;
    rig_pass(&rig, 5 * RIG_SECOND);
    assert_true(rig_engine_stat(&rig).checkpoints > made);
    rig_fini(&rig);
}

/* Rids beyond what a durable manifest has promised are not used; the push waits (R18). */
static void test_engine_push_waits_for_rid_limit(void **state)
{
    enum { PUSHES = 100 };
    struct rig rig;
    struct ask *asks = calloc(PUSHES, sizeof *asks);
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.rid_block = 8;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    sim_disk_stall(rig.disk, TR_LANE_BACK, true); /* no manifest gets through */
    for (unsigned i = 0; i < PUSHES; i++) {
        asks[i] = push(t);
        rig_submit(&rig, &asks[i]);
    }
    rig_settle(&rig);
    assert_true(rig_engine_stat(&rig).next_rid <= 3 * rig.config.rid_block);
    assert_int_equal(asks[PUSHES - 1].done, 0);
    sim_disk_stall(rig.disk, TR_LANE_BACK, false);
    rig_settle(&rig);
    for (unsigned i = 0; i < PUSHES; i++) {
        assert_true(asks[i].done != 0);
        assert_int_equal(asks[i].req.out.job.id, i + 1);
    }
    free(asks);
    rig_fini(&rig);
}

static void test_engine_short_writes_are_completed(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    char *facts;
    char *again;

    (void)state;
    sim_disk_faults(rig.disk)->short_ppm = 500000;
    for (unsigned i = 0; i < 40; i++) {
        rig_push_body(&rig, t, i * 100, i * 200);
    }
    rig_pass(&rig, 2 * rig.config.checkpoint_us);
    facts = rig_facts(&rig);
    rig_power_cut(&rig);
    rig_open(&rig);
    again = rig_facts(&rig);
    assert_string_equal(again, facts);
    free(facts);
    free(again);
    rig_fini(&rig);
}

/* ---- everything together ---- */

enum { MODEL_JOBS = 64 };

struct model_job {
    uint64_t id;
    enum tr_job_state state;
    uint64_t due;
    uint64_t lease_end; /* boot */
    uint64_t dead_no;
    unsigned reserves, timeouts, releases, buries, kicks;
};

struct model {
    struct model_job jobs[MODEL_JOBS];
    unsigned count;
    uint64_t deaths;
};

static struct model_job *any(struct model *m, struct tr_rng *rng)
{
    return m->count == 0 ? NULL : &m->jobs[tr_rng_below(rng, m->count)];
}

static void model_time(struct model *m, struct tr_now now)
{
    for (unsigned i = 0; i < m->count; i++) {
        struct model_job *j = &m->jobs[i];

        if (j->state == TR_RESERVED && j->lease_end <= now.boot_us) {
            j->state = TR_READY;
            j->timeouts++;
        }
        if (j->state == TR_DELAYED && j->due <= now.wall_us) {
            j->state = TR_READY;
        }
    }
}

static void model_compare(struct rig *rig, const struct model *m)
{
    assert_int_equal(rig_engine_stat(rig).jobs, m->count);
    for (unsigned i = 0; i < m->count; i++) {
        const struct model_job *j = &m->jobs[i];
        struct tr_job_view v = rig_view(rig, j->id);

        assert_int_equal(v.state, j->state);
        assert_int_equal(v.due_us, j->due);
        assert_int_equal(v.reserves, j->reserves);
        assert_int_equal(v.timeouts, j->timeouts);
        assert_int_equal(v.releases, j->releases);
        assert_int_equal(v.buries, j->buries);
        assert_int_equal(v.kicks, j->kicks);
    }
}

static void model_reserve(struct rig *rig, struct model *m, uint32_t t)
{
    uint64_t id = rig_reserve(rig, t, ME);
    unsigned ready = 0;

    for (unsigned i = 0; i < m->count; i++) {
        struct model_job *j = &m->jobs[i];

        ready += j->state == TR_READY;
        if (j->id == id) {
            assert_int_equal(j->state, TR_READY);
            j->state = TR_RESERVED;
            j->lease_end = rig->now.boot_us + RIG_TTR_US;
            j->reserves++;
        }
    }
    assert_true((ready == 0) == (id == 0));
}

static void model_change(struct rig *rig, struct model_job *j, uint64_t deaths, uint64_t delay)
{
    bool held = j->state == TR_RESERVED;

    switch (deaths % 3) {
    case 0: {
        struct ask a = on_job(TR_OP_RELEASE, j->id);

        a.req.holder = ME;
        a.req.delay_us = delay;
        assert_int_equal(rig_do(rig, &a), held ? TARRY_OK : TARRY_ESTATE);
        if (held) {
            j->releases++;
            j->due = delay != 0 ? rig->now.wall_us + delay : j->due;
            j->state = delay != 0 ? TR_DELAYED : TR_READY;
        }
        break;
    }
    case 1:
        assert_int_equal(rig_with(rig, TR_OP_BURY, j->id, ME), held ? TARRY_OK : TARRY_ESTATE);
        if (held) {
            j->buries++;
            j->dead_no = deaths;
            j->state = TR_DEAD;
        }
        break;
    default: {
        bool kickable = j->state == TR_DEAD || j->state == TR_DELAYED;

        assert_int_equal(rig_with(rig, TR_OP_KICK_JOB, j->id, 0),
                         kickable ? TARRY_OK : TARRY_ESTATE);
        if (kickable) {
            j->kicks++;
            j->reserves = j->state == TR_DEAD ? 0 : j->reserves;
            j->due = rig->now.wall_us;
            j->state = TR_READY;
        }
    }
    }
}

static void model_step(struct rig *rig, struct model *m, struct tr_rng *rng, uint32_t t)
{
    uint64_t delay = tr_rng_below(rng, 3) == 0 ? 0 : tr_rng_below(rng, 20 * RIG_SECOND);
    struct model_job *j = any(m, rng);

    switch (tr_rng_below(rng, 6)) {
    case 0:
        if (m->count < MODEL_JOBS) {
            j = &m->jobs[m->count++];
            *j = (struct model_job){.state = delay != 0 ? TR_DELAYED : TR_READY};
            j->due = rig->now.wall_us + delay;
            j->id = rig_push(rig, t, delay);
        }
        break;
    case 1:
        if (j != NULL && tr_rng_below(rng, 3) == 0) {
            assert_int_equal(rig_with(rig, TR_OP_DELETE, j->id, ME), TARRY_OK);
            *j = m->jobs[--m->count];
        }
        break;
    case 2:
        rig_pass(rig, delay / 4);
        model_time(m, rig->now);
        break;
    case 3:
    case 4:
        model_reserve(rig, m, t);
        break;
    default:
        if (j != NULL) {
            model_change(rig, j, m->deaths++, delay);
        }
    }
}

/* A connection's leases end with the process: after a restart its jobs are ready, uncounted. */
static uint32_t model_restart(struct rig *rig, struct model *m, bool clean)
{
    rig_pass(rig, rig->config.lazy_us); /* so that all hand-outs are written */
    model_time(m, rig->now);
    if (clean) {
        rig_close(rig);
    } else {
        rig_power_cut(rig);
    }
    rig_open(rig);
    for (unsigned i = 0; i < m->count; i++) {
        if (m->jobs[i].state == TR_RESERVED) {
            m->jobs[i].state = TR_READY;
        }
    }
    model_time(m, rig->now);
    return rig_hold(rig, "t");
}

/* The model does not know when one is the last. */
static void allow_all_attempts(struct rig *rig, uint32_t topic)
{
    struct ask a = rig_ask(TR_OP_POLICY);
    struct tr_policy p = tr_policy_default();

    p.given = TR_POLICY_BIT(RETRIES);
    p.retries = -1;
    a.req.topic = topic;
    a.req.policy = &p;
    a.req.fields = TR_POLICY_BIT(RETRIES);
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
}

static void test_engine_against_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct rig rig;
        uint32_t t = start(&rig);
        struct model m = {.deaths = 1};
        struct tr_rng rng = {seed};

        allow_all_attempts(&rig, t);
        for (unsigned step = 0; step < 1500; step++) {
            model_step(&rig, &m, &rng, t);
            if (step % 50 == 0) {
                model_compare(&rig, &m);
            }
            if (tr_rng_below(&rng, 150) == 0) {
                t = model_restart(&rig, &m, tr_rng_below(&rng, 2) == 0);
                model_compare(&rig, &m);
            }
        }
        if (rig.notes[TR_NOTE_WARNING] + rig.notes[TR_NOTE_DAMAGE] != 0) {
            fail_msg("%s", rig.note);
        }
        rig_fini(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine_answers_carry_their_batch),
        cmocka_unit_test(test_engine_negative_answers_are_gated),
        cmocka_unit_test(test_engine_handout_waits_for_its_own_job_only),
        cmocka_unit_test(test_engine_attempt_is_lazy_and_gates_nobody),
        cmocka_unit_test(test_engine_lazy_record_rides_with_next_batch),
        cmocka_unit_test(test_engine_commits_groups),
        cmocka_unit_test(test_engine_batch_lingers_for_those_just_answered),
        cmocka_unit_test(test_engine_full_batch_stalls_requests),
        cmocka_unit_test(test_engine_sync_interval),
        cmocka_unit_test(test_engine_sync_never_but_at_checkpoint_and_close),
        cmocka_unit_test(test_engine_weak_sync_gathers_before_it_writes),
        cmocka_unit_test(test_engine_weak_stop_skips_lost_ids),
        cmocka_unit_test(test_engine_is_idle_without_work),
        cmocka_unit_test(test_engine_gives_memory_back_when_idle),
        cmocka_unit_test(test_engine_is_not_told_idle_before_a_job_is_due),
        cmocka_unit_test(test_engine_clock_back_makes_late_not_early),
        cmocka_unit_test(test_engine_clock_forward_is_believed_after_a_second),
        cmocka_unit_test(test_engine_clock_forward_for_a_moment_is_not_believed),
        cmocka_unit_test(test_engine_failed_log_is_final),
        cmocka_unit_test(test_engine_failed_manifest_is_final),
        cmocka_unit_test(test_engine_failed_checkpoint_is_tried_again),
        cmocka_unit_test(test_engine_unsynced_checkpoint_does_not_count),
        cmocka_unit_test(test_engine_push_waits_for_rid_limit),
        cmocka_unit_test(test_engine_short_writes_are_completed),
        cmocka_unit_test(test_engine_against_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
