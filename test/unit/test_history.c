/* What happened to a job, also when it is gone. */

#include "base/err.h"
#include "engine/history.h"
#include "engine/inner.h"
#include "rules/policy.h"
#include "rules/schedule.h"
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

/* ---- the events themselves ---- */

static void add(struct tr_histories *h, uint64_t id, uint64_t at_us)
{
    struct tr_event event = {.at_us = at_us,
                             .what = TR_EVENT_GONE,
                             .why = TR_WHY_DAMAGED,
                             .state = id % 2 != 0 ? TR_DEAD : 0};

    tr_histories_add(h, id, &event);
}

/* How many events of the job there are. */
static unsigned count(struct tr_histories *h, uint64_t id)
{
    struct tr_event event;
    uint64_t at = 0;
    unsigned n = 0;

    while (at != UINT64_MAX) {
        while (tr_histories_next(h, &at, id, &event)) {
            assert_int_equal(event.what, TR_EVENT_GONE);
            assert_int_equal(event.why, TR_WHY_DAMAGED);
            assert_int_equal(event.state, id % 2 != 0 ? TR_DEAD : 0);
            n++;
        }
    }
    return n;
}

static void test_history_bounds(void **state)
{
    struct tr_histories h;
    uint64_t most = (UINT64_C(1) << 53) - 1;

    (void)state;
    tr_histories_init(&h, 5);
    h.keep_us = HOUR;
    h.bytes_max = 3 * sizeof(struct tr_history_piece);
    add(&h, most, 10);
    add(&h, 1, 11);
    assert_int_equal(count(&h, most), 1);
    assert_int_equal(count(&h, 1), 1);
    assert_int_equal(count(&h, 2), 0);
    assert_int_equal(h.since_us, 5);
    for (uint64_t i = 0; i < 3 * TR_HISTORY_PIECE; i++) { /* the first piece has to go */
        add(&h, 100 + i % 10, 1000 + i);
    }
    assert_int_equal(count(&h, 1), 0);
    assert_true(h.bytes <= h.bytes_max);
    assert_true(h.since_us > 1000 && h.since_us <= 1000 + TR_HISTORY_PIECE);
    assert_true(count(&h, 100) > 800);
    tr_histories_limit(&h, 1 * sizeof(struct tr_history_piece), HOUR, 2000); /* less from now on */
    assert_int_equal(h.bytes, sizeof(struct tr_history_piece));
    assert_int_equal(count(&h, 109), 1); /* the last one */
    assert_int_equal(count(&h, 100), 0);
    tr_histories_limit(&h, 3 * sizeof(struct tr_history_piece), HOUR, 2000);
    assert_int_equal(count(&h, 109), 1);
    tr_histories_age(&h, 1000 + 3 * TR_HISTORY_PIECE + HOUR);
    assert_int_equal(count(&h, 109), 0);
    assert_int_equal(h.since_us, 1000 + 3 * TR_HISTORY_PIECE);
    h.mem.limit_bytes = 1; /* no memory: what is lost is told */
    add(&h, 1, 1000 + 3 * TR_HISTORY_PIECE + HOUR);
    assert_int_equal(h.since_us, 1001 + 3 * TR_HISTORY_PIECE + HOUR);
    assert_true(h.mem.used_bytes == h.bytes);
    tr_histories_fini(&h);
}

/* Of jobs that were made in one tenth of a second the first one is enough. */
static void test_history_when_made(void **state)
{
    struct tr_histories h;

    (void)state;
    tr_histories_init(&h, 5);
    tr_histories_made(&h, 1, 1000); /* nothing is to be kept */
    assert_int_equal(tr_histories_when(&h, 1), 0);
    h.bytes_max = 1;
    tr_histories_made(&h, 10, 1000);
    tr_histories_made(&h, 11, 1000 + TR_MADE_EVERY_US - 1);
    tr_histories_made(&h, 12, 1000 + TR_MADE_EVERY_US);
    assert_int_equal(tr_histories_when(&h, 9), 0);
    assert_int_equal(tr_histories_when(&h, 10), 1000);
    assert_int_equal(tr_histories_when(&h, 11), 1000);
    assert_int_equal(tr_histories_when(&h, 12), 1000 + TR_MADE_EVERY_US);
    tr_histories_made(&h, 13, 0);   /* something is missing */
    tr_histories_made(&h, 20, 500); /* the clock was set back */
    assert_int_equal(tr_histories_when(&h, 13), 0);
    assert_int_equal(tr_histories_when(&h, 19), 0);
    assert_int_equal(tr_histories_when(&h, 21), 500);
    for (uint64_t i = 0; i <= TR_MADE_MAX; i++) {
        tr_histories_made(&h, 100 + i, (i + 1) * TR_MADE_EVERY_US);
    }
    assert_int_equal(tr_histories_when(&h, 20), 0); /* the oldest go */
    assert_int_equal(tr_histories_when(&h, 100), 0);
    assert_int_equal(tr_histories_when(&h, 99 + TR_MADE_MAX / 2),
                     TR_MADE_MAX / 2 * (uint64_t)TR_MADE_EVERY_US);
    h.mem.limit_bytes = 1;
    tr_histories_fini(&h);
}

/* A piece is as old as its newest event: the making of a job is noted when it goes. */
static void test_history_of_an_old_job(void **state)
{
    struct tr_histories h;

    (void)state;
    tr_histories_init(&h, 0);
    h.keep_us = 24 * HOUR;
    h.bytes_max = 3 * sizeof(struct tr_history_piece);
    for (uint64_t i = 1; i < TR_HISTORY_PIECE; i++) {
        add(&h, 2, 48 * HOUR);
    }
    add(&h, 4, 1); /* made two days ago, the last of its piece */
    add(&h, 4, 48 * HOUR);
    assert_int_equal(count(&h, 2), TR_HISTORY_PIECE - 1);
    tr_histories_age(&h, 48 * HOUR);
    assert_int_equal(count(&h, 2), TR_HISTORY_PIECE - 1);
    assert_int_equal(count(&h, 4), 2);
    tr_histories_fini(&h);
}

/* ---- what the engine notes ---- */

static char text[1024];

static void on_done(struct tr_req *r)
{
    static const char *const names[] = {"?",      "pushed",  "changed",  "ready",
                                        "handed", "touched", "released", "timed-out",
                                        "dead",   "kicked",  "gone"};
    size_t len = 0;
    uint64_t last_us = 0;

    text[0] = '\0';
    for (uint64_t i = 0; r->out.status == TARRY_OK && i < r->out.number; i++) {
        const struct tr_event *e = &r->out.events[i];

        assert_true(e->at_us >= last_us);
        assert_true(len < sizeof text / 2);
        last_us = e->at_us;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s@%u", i > 0 ? " " : "",
                                names[e->what], (unsigned)((e->at_us - RIG_WALL_US) / RIG_SECOND));
        if (e->actor != 0) {
            len += (size_t)snprintf(text + len, sizeof text - len, "#%u", e->actor);
        }
        if (e->why != 0) {
            len += (size_t)snprintf(text + len, sizeof text - len, "(%u)", e->why);
        }
    }
}

static const char *history(struct rig *rig, uint64_t id)
{
    struct tr_req r = {.op = TR_OP_HISTORY, .done = on_done, .id = id};

    tr_engine_submit(rig->e, &r, rig->now);
    rig_settle(rig);
    assert_false(r.busy);
    return r.out.status == TARRY_OK ? text : tarry_errname(r.out.status);
}

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig_open(rig);
    return rig_hold(rig, "t");
}

static void test_history_of_a_life(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 2 * RIG_SECOND);
    struct ask a = rig_ask(TR_OP_RELEASE);

    (void)state;
    assert_string_equal(history(&rig, id), "pushed@0");
    rig_pass(&rig, 3 * RIG_SECOND);
    assert_string_equal(history(&rig, id), "pushed@0 ready@2");
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_string_equal(history(&rig, id), "pushed@0 ready@2 handed@3");
    rig_pass(&rig, RIG_TTR_US);
    assert_string_equal(history(&rig, id), "pushed@0 ready@2 handed@3 timed-out@13 ready@13");
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    a.req.id = id;
    a.req.holder = ME;
    a.req.delay_us = RIG_SECOND;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, id, ME), TARRY_OK);
    assert_string_equal(history(&rig, id),
                        "pushed@0 ready@2 handed@3 timed-out@13 ready@13 handed@13 released@13 "
                        "ready@14 handed@14 dead@14(4)");
    assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, id, ME), TARRY_OK);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    rig_pass(&rig, RIG_SECOND);
    assert_non_null(strstr(history(&rig, id), "pushed@0 "));
    assert_non_null(strstr(text, "dead@14(4) kicked@14 ready@14 handed@14 gone@14(1)"));
    assert_true(rig_stat(&rig, 0).history_us == RIG_WALL_US);
    rig_pass(&rig, 25 * HOUR);
    assert_string_equal(history(&rig, id), "TARRY_ENOTFOUND");
    assert_true(rig_stat(&rig, 0).history_us == RIG_WALL_US + 15 * RIG_SECOND + HOUR);
    assert_string_equal(history(&rig, 12345), "TARRY_ENOTFOUND");
    rig_fini(&rig);
}

/* What ends its last attempt is one event: dead, and why. */
static void test_history_of_a_death(void **state)
{
    const struct tr_policy p = {.retries = 0};
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = rig_ask(TR_OP_RELEASE);
    uint64_t id;

    (void)state;
    rig_policy(&rig, t, &p, TR_POLICY_BIT(RETRIES));
    id = rig_push(&rig, t, 0);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    a.req.id = id;
    a.req.holder = ME;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_string_equal(history(&rig, id), "pushed@0 handed@0 dead@0(5)");
    assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, id, ME), TARRY_OK);
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_pass(&rig, RIG_TTR_US);
    assert_string_equal(history(&rig, id),
                        "pushed@0 handed@0 dead@0(5) kicked@0 handed@1 dead@11(5)");
    rig_fini(&rig);
}

static void on_many(struct tr_req *r)
{
    assert_int_equal(r->out.status, TARRY_OK);
}

/* A job with very many events is told in slices, and the last ones of it. */
static void test_history_of_a_busy_job(void **state)
{
    enum { MANY = 100000 };
    struct tr_req r = {.op = TR_OP_HISTORY, .done = on_many, .id = 12345};
    struct rig rig;
    unsigned turns = 0;

    (void)state;
    (void)start(&rig);
    for (uint64_t i = 0; i < MANY; i++) {
        struct tr_event event = {.at_us = rig.now.wall_us + i, .what = TR_EVENT_TOUCHED};

        tr_histories_add(&rig.e->histories, 12345, &event);
    }
    tr_engine_submit(rig.e, &r, rig.now);
    for (; r.busy; turns++) {
        assert_true(turns < MANY);
        (void)rig_turn(&rig);
    }
    assert_true(turns >= MANY / rig.config.slice);
    assert_int_equal(r.out.number, 1000);
    assert_true(rig.e->past.events[0].at_us == rig.now.wall_us + MANY - 1000);
    assert_true(rig.e->past.events[999].at_us == rig.now.wall_us + MANY - 1);
    rig_fini(&rig);
}

static void submit_history(struct rig *rig, struct tr_req *r)
{
    r->op = TR_OP_HISTORY;
    r->done = on_done;
    tr_engine_submit(rig->e, r, rig->now);
}

/* It goes while somebody looks through the events: the answer is of before that, or of after. */
static void test_history_of_a_job_that_goes(void **state)
{
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.slice = 8; /* one piece, and no more of this turn */
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, rig_push(&rig, t, HOUR), ME), TARRY_OK);
    for (unsigned turns = 0; turns < 4; turns++) {
        uint64_t id = rig_push(&rig, t, HOUR);
        struct tr_req r = {.id = id};
        bool before;

        submit_history(&rig, &r);
        for (unsigned i = 0; i < turns && r.busy; i++) {
            (void)rig_turn(&rig);
        }
        before = !r.busy;
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
        assert_false(r.busy);
        assert_int_equal(r.out.status, TARRY_OK);
        assert_string_equal(text, before ? "pushed@0" : "pushed@0 gone@0(2)");
    }
    rig_fini(&rig);
}

/* A key goes to another job meanwhile: nothing of the first one is told of that. */
static void test_history_of_a_key_that_moves(void **state)
{
    struct rig rig;
    struct tr_req r = {.key = "k", .key_len = 1};
    struct ask push = rig_ask(TR_OP_PUSH);
    struct ask drop = rig_ask(TR_OP_DELETE);

    (void)state;
    r.topic = start(&rig);
    push.req.topic = r.topic;
    push.req.ttr_us = RIG_TTR_US;
    push.req.key = "k";
    push.req.key_len = 1;
    assert_int_equal(rig_do(&rig, &push), TARRY_OK);
    drop.req.id = push.req.out.job.id;
    for (uint64_t i = 0; i < 100000; i++) {
        struct tr_event event = {.at_us = rig.now.wall_us, .what = TR_EVENT_TOUCHED};

        tr_histories_add(&rig.e->histories, drop.req.id, &event);
    }
    submit_history(&rig, &r);
    assert_true(r.busy);
    assert_int_equal(r.id, drop.req.id);
    rig_submit(&rig, &drop); /* both are done before the next turn */
    rig_submit(&rig, &push);
    assert_true(r.busy);
    rig_settle(&rig);
    assert_false(r.busy);
    assert_int_equal(r.id, push.req.out.job.id);
    assert_string_equal(text, "pushed@0");
    rig_fini(&rig);
}

/* What it was made to be, whatever happened to it since. */
static void test_history_tells_how_it_began(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = rig_ask(TR_OP_PUSH);
    uint64_t now = rig_push(&rig, t, 0);

    (void)state;
    a.req.topic = t;
    a.req.ttr_us = RIG_TTR_US;
    a.req.at_us = rig.now.wall_us + RIG_SECOND;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_string_equal(history(&rig, a.req.out.job.id), "pushed@0");
    assert_int_equal(rig.e->past.events[0].state, TR_DELAYED);

    struct ask edit = rig_ask(TR_OP_EDIT);

    edit.req.id = now;
    edit.req.edit = TR_EDIT_DUE;
    edit.req.delay_us = RIG_SECOND;
    assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    assert_string_equal(history(&rig, now), "pushed@0 changed@0");
    assert_int_equal(rig.e->past.events[0].state, TR_READY);
    rig_fini(&rig);
}

/* A far job comes back to tell when it was made; of one that dies far that is known nearly. */
static void test_history_of_far_jobs(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, HOUR);
    uint64_t other = rig_push(&rig, t, HOUR);
    struct ask a = rig_ask(TR_OP_EDIT);

    (void)state;
    assert_int_equal(rig_engine_stat(&rig).far, 2);
    rig_pass(&rig, RIG_SECOND);
    assert_string_equal(history(&rig, id), "pushed@0");
    a.req.id = id;
    a.req.edit = TR_EDIT_DUE;
    a.req.delay_us = 2 * HOUR;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_string_equal(history(&rig, id), "pushed@0 changed@1");
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, other, ME), TARRY_OK);
    assert_string_equal(history(&rig, other), "pushed@0 gone@1(2)");
    rig_power_cut(&rig); /* only what a live job says of itself is left */
    rig_open(&rig);
    assert_string_equal(history(&rig, other), "TARRY_ENOTFOUND");
    assert_string_equal(history(&rig, id), "pushed@0");
    assert_true(rig_stat(&rig, 0).history_us == RIG_WALL_US + RIG_SECOND);
    rig_fini(&rig);
}

static int with_actor(struct rig *rig, enum tr_op op, uint64_t id, uint32_t actor)
{
    struct ask a = rig_ask(op);

    a.req.id = id;
    a.req.holder = ME;
    a.req.actor = actor;
    return rig_do(rig, &a);
}

static uint64_t push_by(struct rig *rig, uint32_t t, uint32_t actor)
{
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = t;
    a.req.ttr_us = RIG_TTR_US;
    a.req.actor = actor;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.job.id;
}

/* Who did it, also when somebody else's request gave the waiter his job; names outlive restarts. */
static void test_history_says_who(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t shop = tr_engine_actor(rig.e, "shop", 4);
    uint32_t worker = tr_engine_actor(rig.e, "worker", 6);
    struct ask waits = rig_ask(TR_OP_RESERVE);
    uint64_t id;
    size_t len;

    (void)state;
    assert_int_equal(shop, 1);
    assert_int_equal(worker, 2);
    assert_int_equal(tr_engine_actor(rig.e, "shop", 4), shop);
    waits.req.topics = &t;
    waits.req.topic_count = 1;
    waits.req.holder = ME;
    waits.req.wait_us = TR_WAIT_FOREVER;
    waits.req.actor = worker;
    rig_submit(&rig, &waits);
    id = push_by(&rig, t, shop);
    assert_false(waits.req.busy);
    assert_string_equal(history(&rig, id), "pushed@0#1 handed@0#2");
    rig_pass(&rig, RIG_TTR_US); /* by nobody */
    assert_string_equal(history(&rig, id), "pushed@0#1 handed@0#2 timed-out@10 ready@10");
    assert_int_equal(with_actor(&rig, TR_OP_DELETE, id, shop), TARRY_OK);
    assert_string_equal(history(&rig, id), "pushed@0#1 handed@0#2 timed-out@10 gone@10#1(2)");
    for (unsigned i = 3; i <= TR_ACTORS_MAX; i++) {
        char name[8];

        (void)snprintf(name, sizeof name, "%u", i);
        assert_int_equal(tr_engine_actor(rig.e, name, strlen(name)), i);
    }
    assert_int_equal(tr_engine_actor(rig.e, "one more", 8), 0);
    id = push_by(&rig, t, TR_ACTORS_MAX);
    rig_close(&rig);
    rig_open(&rig);
    assert_string_equal(history(&rig, 1), "pushed@0#1 handed@0#2 timed-out@10 gone@10#1(2)");
    assert_non_null(strstr(history(&rig, id), "pushed@10#2047"));
    assert_memory_equal(tr_engine_actor_name(rig.e, 2, &len), "worker", 6);
    assert_int_equal(len, 6);
    assert_memory_equal(tr_engine_actor_name(rig.e, TR_ACTORS_MAX, &len), "2047", 4);
    assert_int_equal(tr_engine_actor(rig.e, "1500", 4), 1500);
    assert_null(tr_engine_actor_name(rig.e, 0, &len));
    assert_null(tr_engine_actor_name(rig.e, TR_ACTORS_MAX + 1, &len));
    rig_fini(&rig);
}

/* The job of a tick is pushed by its schedule, even when somebody asked meanwhile. */
static void test_history_of_a_tick(void **state)
{
    static const struct tr_schedule every = {
        .kind = TR_SCHEDULE_EVERY, .period_us = 10 * RIG_SECOND, .topic = {"t", 1}};
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t shop = tr_engine_actor(rig.e, "shop", 4);
    struct ask a = rig_ask(TR_OP_SCHEDULE);
    size_t len;

    (void)state;
    a.req.name = "s";
    a.req.name_len = 1;
    a.req.schedule = &every;
    a.req.actor = shop;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    rig_pass(&rig, 11 * RIG_SECOND);
    assert_string_equal(history(&rig, rig_reserve(&rig, t, ME)), "pushed@10#2 handed@11");
    assert_memory_equal(tr_engine_actor_name(rig.e, 2, &len), "schedule", 8);
    rig_fini(&rig);
}

/* A clean restart keeps it; a crash leaves what was in the file, and says so. */
static void test_history_over_restarts(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    uint64_t lost;

    (void)state;
    for (unsigned i = 0; i < 3000; i++) { /* more than one piece */
        uint64_t other = rig_push(&rig, t, 0);

        assert_int_equal(rig_with(&rig, TR_OP_DELETE, other, ME), TARRY_OK);
    }
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    rig_pass(&rig, 5 * RIG_SECOND);
    rig_close(&rig);
    rig_open(&rig);
    assert_string_equal(history(&rig, id), "pushed@0 gone@0(2)");
    assert_string_equal(history(&rig, id + 1), "pushed@0 gone@0(2)");
    assert_true(rig_stat(&rig, 0).history_us == RIG_WALL_US);
    t = rig_hold(&rig, "t");
    lost = rig_push(&rig, t, 0);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, lost, ME), TARRY_OK);
    rig_kill(&rig);
    rig_open(&rig);
    assert_string_equal(history(&rig, id), "pushed@0 gone@0(2)");
    assert_string_equal(history(&rig, lost), "TARRY_ENOTFOUND");
    assert_true(rig_stat(&rig, 0).history_us == RIG_WALL_US + 5 * RIG_SECOND);
    rig_fini(&rig);
}

static uint64_t push_and_cancel(struct rig *rig, uint32_t t)
{
    uint64_t id = rig_push(rig, t, 0);

    assert_int_equal(rig_with(rig, TR_OP_DELETE, id, ME), TARRY_OK);
    return id;
}

/* A crash loses what happened in the moment before it, and says so; nothing else, however often it
 * comes, and however far the ring of frames has come round. */
static void test_history_over_crashes(void **state)
{
    enum { EACH = 3000, ROUNDS = 6 }; /* two events each, so one and a half pieces a round */
    struct rig rig;
    uint64_t ids[ROUNDS];
    uint64_t last;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig.config.history_bytes = 4 * sizeof(struct tr_history_piece);
    for (unsigned round = 0; round < ROUNDS; round++) {
        rig_open(&rig);
        t = rig_hold(&rig, "t");
        for (unsigned i = 0; i < EACH; i++) {
            ids[round] = push_and_cancel(&rig, t);
        }
        rig_pass(&rig, RIG_SECOND);
        assert_int_equal(rig_engine_stat(&rig).history_saved, rig_engine_stat(&rig).history_noted);
        last = push_and_cancel(&rig, t);
        assert_non_null(strstr(history(&rig, last), "gone@"));
        rig_kill(&rig);
        rig_open(&rig);
        assert_string_equal(history(&rig, last), "TARRY_ENOTFOUND");
        for (unsigned k = round > 1 ? round - 1 : 0; k <= round; k++) {
            assert_non_null(strstr(history(&rig, ids[k]), "gone@"));
        }
        assert_true(rig_stat(&rig, 0).history_us == rig.now.wall_us);
        rig_kill(&rig);
    }
    assert_true(sim_disk_bytes(rig.disk, "history") <= (3 + 4) * 65536);
    rig.config.history_bytes = 64 * sizeof(struct tr_history_piece); /* the ring is another one */
    rig_open(&rig);
    assert_non_null(strstr(history(&rig, ids[ROUNDS - 1]), "gone@"));
    t = rig_hold(&rig, "t");
    last = push_and_cancel(&rig, t);
    rig_pass(&rig, RIG_SECOND);
    rig_kill(&rig);
    rig_open(&rig);
    assert_non_null(strstr(history(&rig, ids[ROUNDS - 1]), "gone@"));
    assert_non_null(strstr(history(&rig, last), "gone@"));
    assert_true(rig_settle(&rig) > rig.now.boot_us + 5 * RIG_SECOND); /* it rests */
    rig_fini(&rig);
}

/* What a power cut could take back is not in the file: an event waits until it is durable. */
static void test_history_waits_for_the_log(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = rig_ask(TR_OP_DELETE);

    (void)state;
    sim_disk_stall(rig.disk, TR_LANE_LOG, true);
    a.req.id = id;
    rig_submit(&rig, &a);
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_int_equal(rig_engine_stat(&rig).history_noted, 2);
    assert_int_equal(rig_engine_stat(&rig).history_saved, 0);
    assert_int_equal(sim_disk_bytes(rig.disk, "history"), 0);
    sim_disk_stall(rig.disk, TR_LANE_LOG, false);
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(rig_engine_stat(&rig).history_saved, 2);
    rig_fini(&rig);
}

/* A power cut may take all of it. What is left is not told wrongly: no job that lives is gone, and
 * those who did something are who they were. */
static void test_history_over_a_power_cut(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t shop = tr_engine_actor(rig.e, "shop", 4);
    uint64_t id = push_by(&rig, t, shop);

    (void)state;
    rig_pass(&rig, RIG_SECOND);
    rig_kill(&rig);
    rig_open(&rig);
    assert_non_null(strstr(history(&rig, id), "pushed@0#1"));
    assert_int_equal(tr_engine_actor(rig.e, "other", 5), 2);
    assert_int_equal(tr_engine_actor(rig.e, "shop", 4), 1);
    rig_pass(&rig, RIG_SECOND);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_non_null(strstr(history(&rig, id), "pushed@0"));
    assert_null(strstr(text, "#2"));
    rig_fini(&rig);
}

/* Damaged names: what was done is told, but not by whom. */
static void test_history_without_names(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = push_by(&rig, t, tr_engine_actor(rig.e, "shop", 4));

    (void)state;
    rig_pass(&rig, RIG_SECOND);
    rig_kill(&rig);
    sim_disk_poke(rig.disk, "history", 45, "!", 1);
    rig_open(&rig);
    assert_string_equal(history(&rig, id), "pushed@0");
    assert_int_equal(tr_engine_actor(rig.e, "other", 5), 1);
    (void)push_by(&rig, rig_hold(&rig, "t"), 1);
    rig_pass(&rig, RIG_SECOND);
    rig_kill(&rig);
    rig_open(&rig);
    assert_string_equal(history(&rig, id), "pushed@0"); /* and not by the other one */
    rig_fini(&rig);
}

/* Room is for jobs first: the file does not grow on a disk that is nearly full, and goes when there
 * is none. Then it comes back. */
static void test_history_gives_way(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = push_and_cancel(&rig, t);
    struct ask a = rig_ask(TR_OP_PUSH);

    (void)state;
    sim_disk_set_cap(rig.disk, sim_disk_used(rig.disk) + 4 * 65536);
    rig_pass(&rig, RIG_SECOND);
    assert_int_equal(sim_disk_bytes(rig.disk, "history"), 0);
    assert_true(rig_settle(&rig) > rig.now.boot_us + 5 * RIG_SECOND);
    sim_disk_set_cap(rig.disk, UINT64_MAX);
    rig_pass(&rig, 61 * RIG_SECOND);
    (void)push_and_cancel(&rig, t);
    rig_pass(&rig, RIG_SECOND);
    assert_true(sim_disk_bytes(rig.disk, "history") > 65536);

    sim_disk_set_cap(rig.disk, sim_disk_used(rig.disk));
    a.req.topic = t;
    a.req.ttr_us = RIG_TTR_US;
    a.req.body = a.body;
    a.req.body_len = 16000;
    while (sim_disk_bytes(rig.disk, "history") > 0) {
        assert_int_equal(rig_do(&rig, &a), TARRY_OK); /* its room is for these */
    }
    assert_string_equal(history(&rig, id), "pushed@0 gone@0(2)");
    sim_disk_set_cap(rig.disk, UINT64_MAX);
    rig_pass(&rig, 61 * RIG_SECOND);
    (void)push_and_cancel(&rig, t);
    rig_pass(&rig, RIG_SECOND);
    rig_kill(&rig);
    rig_open(&rig);
    assert_string_equal(history(&rig, id), "pushed@0 gone@0(2)");
    rig_fini(&rig);
}

/* The policy says how much is noted. */
static void test_history_by_policy(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct tr_policy policy = tr_policy_default();
    struct ask a = rig_ask(TR_OP_POLICY);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    a.req.topic = t;
    a.req.policy = &policy;
    a.req.fields = TR_POLICY_BIT(HISTORY);
    policy.given = TR_POLICY_BIT(HISTORY);
    policy.history = TR_HISTORY_FULL;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    assert_int_equal(rig_with(&rig, TR_OP_TOUCH, id, ME), TARRY_OK);
    assert_string_equal(history(&rig, id), "pushed@0 handed@0 touched@0");
    policy.history = TR_HISTORY_OFF;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    assert_string_equal(history(&rig, id), "handed@0 touched@0");
    id = rig_push(&rig, t, 0);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, ME), TARRY_OK);
    assert_string_equal(history(&rig, id), "TARRY_ENOTFOUND");
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history_bounds),
        cmocka_unit_test(test_history_when_made),
        cmocka_unit_test(test_history_of_an_old_job),
        cmocka_unit_test(test_history_of_a_life),
        cmocka_unit_test(test_history_of_a_death),
        cmocka_unit_test(test_history_of_a_busy_job),
        cmocka_unit_test(test_history_of_a_job_that_goes),
        cmocka_unit_test(test_history_of_a_key_that_moves),
        cmocka_unit_test(test_history_tells_how_it_began),
        cmocka_unit_test(test_history_of_far_jobs),
        cmocka_unit_test(test_history_says_who),
        cmocka_unit_test(test_history_of_a_tick),
        cmocka_unit_test(test_history_over_restarts),
        cmocka_unit_test(test_history_over_crashes),
        cmocka_unit_test(test_history_waits_for_the_log),
        cmocka_unit_test(test_history_over_a_power_cut),
        cmocka_unit_test(test_history_without_names),
        cmocka_unit_test(test_history_gives_way),
        cmocka_unit_test(test_history_by_policy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
