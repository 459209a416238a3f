/* The core of outlets, on a real engine and with a sender that does what the test says. */

#include "base/err.h"
#include "base/text.h"
#include "outlet/outlets.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SENDS_MAX = 64 };

/* The one sender that is open, and the one before. */
struct sender {
    const struct tr_sender_host *host;
    struct tr_send *sends[SENDS_MAX]; /* under way */
    unsigned count;
    unsigned window;
    unsigned ever;
    unsigned cancelled;
    bool stopped;
    bool slow_to_stop;
    bool closed;
};

static struct sender senders[4];
static unsigned opened;
static int open_error;

struct bench {
    struct rig rig;
    struct tr_outlets *o;
    uint32_t t;
    unsigned said;
    unsigned reserves; /* that were asked for */
};

static struct bench *now_on; /* callbacks of the engine have the rig only */

/* ---- the sender ---- */

static int fake_open(void **out, const struct tr_deliver *d, const struct tr_sender_host *host)
{
    if (open_error != TARRY_OK) {
        return open_error;
    }
    *out = &senders[opened];
    senders[opened] = (struct sender){.host = host, .window = d->concurrency};
    opened++;
    return TARRY_OK;
}

static unsigned fake_window(const void *s)
{
    return ((const struct sender *)s)->window;
}

static void fake_send(void *ctx, struct tr_send *s)
{
    struct sender *f = ctx;

    assert_true(f->count < f->window && !f->stopped);
    f->sends[f->count++] = s;
    f->ever++;
}

static void fake_cancel(void *ctx, struct tr_send *s)
{
    struct sender *f = ctx;

    (void)s;
    f->cancelled++;
}

static void finish(struct sender *f, unsigned i, enum tr_send_outcome outcome)
{
    struct tr_send *s = f->sends[i];

    f->sends[i] = f->sends[--f->count];
    s->outcome = outcome;
    tr_text(s->code, sizeof s->code, "%s", outcome == TR_SEND_OK ? "200" : "500");
    tr_text(s->why, sizeof s->why, "%s", outcome == TR_SEND_OK ? "" : "it said no");
    f->host->done(f->host->ctx, s);
}

static void fake_stop(void *ctx)
{
    struct sender *f = ctx;

    f->stopped = true;
    while (f->count > 0 && !f->slow_to_stop) {
        finish(f, 0, TR_SEND_BACK);
    }
}

static bool fake_stopped(const void *ctx)
{
    const struct sender *f = ctx;

    return f->stopped && f->count == 0 && !f->slow_to_stop;
}

static void fake_close(void *ctx)
{
    ((struct sender *)ctx)->closed = true;
}

static const struct tr_sender_kind fake = {.type = TR_DELIVER_WEBHOOK,
                                           .open = fake_open,
                                           .window = fake_window,
                                           .send = fake_send,
                                           .cancel = fake_cancel,
                                           .stop = fake_stop,
                                           .stopped = fake_stopped,
                                           .close = fake_close};

static const struct tr_sender_kind *kind_of(enum tr_deliver_type type)
{
    return type == TR_DELIVER_WEBHOOK ? &fake : NULL;
}

/* ---- the world ---- */

static void submit(void *ctx, struct tr_req *r, struct tr_now now)
{
    struct bench *b = ctx;

    b->reserves += r->op == TR_OP_RESERVE;
    tr_engine_submit(b->rig.e, r, now);
}

static void abandon(void *ctx, struct tr_req *r, struct tr_now now)
{
    struct bench *b = ctx;

    tr_engine_abandon(b->rig.e, r, now);
}

static struct tr_now now_of(void *ctx)
{
    return ((struct bench *)ctx)->rig.now;
}

static uint64_t clock_of(void *ctx)
{
    return tr_engine_clock(((struct bench *)ctx)->rig.e);
}

static void wake(void *ctx)
{
    (void)ctx;
}

static void say(void *ctx, bool warning, const char *text)
{
    struct bench *b = ctx;

    (void)warning;
    assert_true(strlen(text) > 0);
    assert_null(strstr(text, "hush"));
    b->said++;
}

static void meet(void *ctx, const struct tr_topic_fact *fact)
{
    struct bench *b = ctx;

    if (fact->policy != NULL && fact->policy->deliver_len > 0) {
        tr_outlets_look(b->o, fact->handle);
    }
}

static void rescan(void *ctx)
{
    struct bench *b = ctx;

    tr_engine_topics(b->rig.e, meet, b);
}

static void changed(void *ctx, uint32_t topic)
{
    (void)ctx;
    if (now_on->o != NULL) {
        tr_outlets_look(now_on->o, topic);
    }
}

static void dropped(void *ctx, uint32_t topic)
{
    (void)ctx;
    tr_outlets_dropped(now_on->o, topic);
}

static uint64_t event(void *ctx)
{
    (void)ctx;
    return tr_outlets_event(now_on->o);
}

static void begin(struct bench *b)
{
    struct tr_outlets_config c = {
        .queue = {.ctx = b, .submit = submit, .abandon = abandon},
        .memory = 1 << 18,
        .ctx = b,
        .now = now_of,
        .clock = clock_of,
        .test_clock = b->rig.config.test_clock,
        .wake = wake,
        .say = say,
        .rescan = rescan,
        .kind_of = kind_of,
    };

    opened = 0;
    open_error = TARRY_OK;
    memset(senders, 0, sizeof senders);
    rig_open(&b->rig);
    assert_int_equal(tr_outlets_open(&b->o, &c), TARRY_OK);
    rescan(b);
    b->t = rig_hold(&b->rig, "t");
}

static void start(struct bench *b, bool test_clock)
{
    memset(b, 0, sizeof *b);
    now_on = b;
    rig_init(&b->rig);
    b->rig.config.test_clock = test_clock;
    b->rig.config.outlet = changed;
    b->rig.config.dropped = dropped;
    b->rig.config.event = event;
    begin(b);
}

static void end(struct bench *b)
{
    tr_outlets_abort(b->o);
    tr_outlets_close(b->o);
    b->o = NULL;
    rig_fini(&b->rig);
}

/* Turns of both, until nothing is left to do. */
static uint64_t settle(struct bench *b)
{
    uint64_t next;

    do {
        (void)tr_outlets_work(b->o, 1000);
        (void)rig_settle(&b->rig);
        tr_outlets_durable(b->o, b->rig.durable);
        next = tr_outlets_work(b->o, 1000);
    } while (tr_outlets_asked(b->o) || next == 0);
    return next;
}

/* Time passes, in steps. */
static void pass(struct bench *b, uint64_t us)
{
    for (uint64_t step = 0; step < 20; step++) {
        rig_pass(&b->rig, us / 20);
        (void)settle(b);
    }
}

static void deliver(struct bench *b, unsigned concurrency, const char *url)
{
    static uint8_t bytes[TR_DELIVER_BYTES_MAX];
    struct tr_deliver d = tr_deliver_new(TR_DELIVER_WEBHOOK);
    struct tr_policy p = tr_policy_default();

    d.given = 1U << TR_DELIVER_URL;
    d.texts[TR_DELIVER_URL] = (struct tr_deliver_text){url, strlen(url)};
    d.secrets[0] = (struct tr_deliver_text){"hush", 4};
    d.secret_count = 1;
    d.concurrency = concurrency;
    p.given = TR_POLICY_BIT(DELIVER) | TR_POLICY_BIT(RETRIES) | TR_POLICY_BIT(BACKOFF);
    p.retries = 2;
    p.backoff.count = 1;
    p.backoff.list_us[0] = 10 * RIG_SECOND;
    p.deliver = (const char *)bytes;
    p.deliver_len = tr_deliver_encode(bytes, &d);
    rig_policy(&b->rig, b->t, &p, p.given);
    (void)settle(b);
}

static struct tr_outlet_view view(struct bench *b)
{
    struct tr_outlet_view v;

    assert_true(tr_outlets_view(b->o, b->t, &v));
    return v;
}

/* ---- tests ---- */

static void test_outlets_send_then_ack(void **state)
{
    struct bench b;

    (void)state;
    start(&b, false);
    deliver(&b, 2, "http://a/");

    uint64_t id = rig_push(&b.rig, b.t, RIG_SECOND);

    (void)settle(&b);
    assert_int_equal(senders[0].count, 0); /* never early */
    pass(&b, RIG_SECOND);
    assert_int_equal(senders[0].count, 1);

    const struct tr_send *s = senders[0].sends[0];
    char body[24];

    assert_true(s->id == id && s->attempt == 1 && s->key == NULL && s->topic_len == 1);
    tr_text(body, sizeof body, "%d", (int)id);
    assert_memory_equal(s->body, body, s->body_len);
    assert_int_equal(rig_state(&b.rig, id), TR_RESERVED);
    finish(&senders[0], 0, TR_SEND_OK);
    assert_int_equal(rig_state(&b.rig, id), TR_RESERVED); /* the queue is told in its turn */
    (void)settle(&b);
    assert_int_equal(rig_state(&b.rig, id), 0);
    assert_true(view(&b).delivered == 1 && view(&b).in_flight == 0);
    end(&b);
    assert_true(senders[0].closed);
}

/* A job whose push is not durable yet is handed out, but not sent. */
static void test_outlets_wait_for_the_disk(void **state)
{
    struct bench b;
    struct ask push = rig_ask(TR_OP_PUSH);

    (void)state;
    start(&b, false);
    deliver(&b, 2, "http://a/");
    push.req.topic = b.t;
    push.req.body = (const uint8_t *)"x";
    push.req.body_len = 1;
    push.req.ttr_us = RIG_TTR_US;
    rig_submit(&b.rig, &push);
    (void)tr_outlets_work(b.o, 1000);
    assert_int_equal(view(&b).in_flight, 1);
    assert_true(push.req.out.gate > b.rig.durable);
    assert_int_equal(senders[0].count, 0);
    (void)settle(&b);
    assert_int_equal(senders[0].count, 1);
    end(&b);
}

static bool stuck(void *ctx)
{
    (void)ctx;
    return false;
}

/* Nor is its lease lost when the disk takes longer than that. */
static void test_outlets_wait_long_for_the_disk(void **state)
{
    struct bench b;
    struct ask push = rig_ask(TR_OP_PUSH);
    bool (*step)(void *ctx);

    (void)state;
    start(&b, false);
    deliver(&b, 2, "http://a/");
    push.req.topic = b.t;
    push.req.body = (const uint8_t *)"x";
    push.req.body_len = 1;
    push.req.ttr_us = RIG_TTR_US;
    step = b.rig.step;
    b.rig.step = stuck;
    rig_submit(&b.rig, &push);
    pass(&b, 100 * RIG_SECOND); /* in steps of five */
    assert_int_equal(view(&b).in_flight, 1);
    assert_int_equal(senders[0].count, 0);
    b.rig.step = step;
    (void)settle(&b);
    assert_int_equal(senders[0].ever, 1);
    assert_int_equal(senders[0].sends[0]->attempt, 1);
    end(&b);
}

static void test_outlets_window(void **state)
{
    struct bench b;
    uint64_t ids[5];

    (void)state;
    start(&b, false);
    deliver(&b, 3, "http://a/");
    for (unsigned i = 0; i < 5; i++) {
        ids[i] = rig_push(&b.rig, b.t, 0);
    }
    (void)settle(&b);
    assert_int_equal(senders[0].count, 3); /* fake_send asserts that there are no more */
    assert_int_equal(rig_state(&b.rig, ids[3]), TR_READY);
    finish(&senders[0], 0, TR_SEND_OK);
    (void)settle(&b);
    assert_int_equal(senders[0].count, 3);
    assert_int_equal(rig_state(&b.rig, ids[3]), TR_RESERVED);
    end(&b);
}

static void test_outlets_failures(void **state)
{
    struct bench b;
    struct tr_job_view job;

    (void)state;
    start(&b, false);
    deliver(&b, 4, "http://a/");

    uint64_t id = rig_push(&b.rig, b.t, 0);

    (void)settle(&b);
    finish(&senders[0], 0, TR_SEND_FAILED); /* by the backoff */
    (void)settle(&b);
    job = rig_view(&b.rig, id);
    assert_true(job.state == TR_DELAYED && job.left_us == 10 * RIG_SECOND);
    pass(&b, 10 * RIG_SECOND);
    assert_int_equal(senders[0].count, 1);
    assert_int_equal(senders[0].sends[0]->attempt, 2);
    senders[0].sends[0]->has_retry_after = true;      /* by the other side's wish, */
    senders[0].sends[0]->retry_after_us = UINT64_MAX; /* within reason */
    finish(&senders[0], 0, TR_SEND_FAILED);
    (void)settle(&b);
    assert_true(rig_view(&b.rig, id).left_us == UINT64_C(86400) * RIG_SECOND);
    pass(&b, UINT64_C(86400) * RIG_SECOND);
    finish(&senders[0], 0, TR_SEND_FAILED); /* the last attempt */
    (void)settle(&b);
    assert_int_equal(rig_state(&b.rig, id), TR_DEAD);

    id = rig_push(&b.rig, b.t, 0);
    (void)settle(&b);
    finish(&senders[0], 0, TR_SEND_REFUSED);
    (void)settle(&b);
    assert_int_equal(rig_state(&b.rig, id), TR_DEAD);
    assert_true(view(&b).failed == 3 && view(&b).refused == 1);
    assert_string_equal(view(&b).why, "it said no");
    end(&b);
}

/* The lease is renewed as long as it takes; when it is lost all the same, the send is cancelled. */
static void test_outlets_keep_the_lease(void **state)
{
    struct bench b;

    (void)state;
    start(&b, false);
    deliver(&b, 4, "http://a/");

    uint64_t id = rig_push(&b.rig, b.t, 0);

    (void)settle(&b);
    pass(&b, 200 * RIG_SECOND); /* in steps of ten: its ttr is as long */
    assert_int_equal(senders[0].ever, 1);
    assert_int_equal(rig_view(&b.rig, id).timeouts, 0);

    struct ask cancel = rig_ask(TR_OP_DELETE);

    cancel.req.id = id;
    cancel.req.force = true;
    assert_int_equal(rig_do(&b.rig, &cancel), TARRY_OK);
    pass(&b, 20 * RIG_SECOND);
    assert_true(senders[0].cancelled > 0);
    finish(&senders[0], 0, TR_SEND_OK);
    (void)settle(&b);
    assert_int_equal(view(&b).in_flight, 0);
    end(&b);
}

static void fail_all(struct bench *b, struct sender *f)
{
    while (f->count > 0) {
        finish(f, 0, TR_SEND_UNREACHABLE);
    }
    (void)settle(b);
}

static void test_outlets_breaker(void **state)
{
    struct bench b;

    (void)state;
    start(&b, false);
    deliver(&b, 8, "http://a/");
    for (unsigned i = 0; i < 20; i++) {
        (void)rig_push(&b.rig, b.t, 0);
    }
    (void)settle(&b);
    assert_int_equal(senders[0].count, 8);
    fail_all(&b, &senders[0]); /* nothing is fetched after the fifth */
    assert_string_equal(view(&b).breaker, "open");
    assert_int_equal(senders[0].ever, 8);
    assert_true(view(&b).open_left_us == RIG_SECOND);
    pass(&b, RIG_SECOND);
    assert_int_equal(senders[0].count, 1); /* one to see */
    assert_string_equal(view(&b).breaker, "half-open");
    finish(&senders[0], 0, TR_SEND_FAILED); /* no is an answer, too */
    (void)settle(&b);
    assert_string_equal(view(&b).breaker, "closed");
    assert_int_equal(senders[0].count, 8);
    assert_true(b.said >= 3);
    end(&b);
}

/* Sends that hang since before it opened neither keep the try back nor count for it. */
static void test_outlets_breaker_and_old_sends(void **state)
{
    struct bench b;

    (void)state;
    start(&b, false);
    deliver(&b, 8, "http://a/");
    for (unsigned i = 0; i < 20; i++) {
        (void)rig_push(&b.rig, b.t, 0);
    }
    (void)settle(&b);
    for (unsigned i = 0; i < 5; i++) {
        finish(&senders[0], 0, TR_SEND_UNREACHABLE);
    }
    (void)settle(&b);
    assert_string_equal(view(&b).breaker, "open");
    assert_int_equal(senders[0].count, 3);
    pass(&b, RIG_SECOND);
    assert_int_equal(senders[0].count, 4);
    assert_string_equal(view(&b).breaker, "half-open");
    finish(&senders[0], 0, TR_SEND_UNREACHABLE);
    (void)settle(&b);
    assert_string_equal(view(&b).breaker, "half-open");
    assert_int_equal(senders[0].count, 3);       /* one try is enough */
    finish(&senders[0], 0, TR_SEND_UNREACHABLE); /* the try, which took the place of the first */
    (void)settle(&b);
    assert_string_equal(view(&b).breaker, "open");
    assert_true(view(&b).open_left_us == 2 * RIG_SECOND);
    pass(&b, 2 * RIG_SECOND);
    assert_int_equal(senders[0].count, 3);
    finish(&senders[0], 2, TR_SEND_OK);
    (void)settle(&b);
    assert_string_equal(view(&b).breaker, "closed");
    assert_int_equal(senders[0].count, 8);
    end(&b);
}

static void advance(struct bench *b, struct ask *a, uint64_t us)
{
    *a = rig_ask(TR_OP_ADVANCE);
    a->req.delay_us = us;
    rig_submit(&b->rig, a);
    (void)settle(b);
}

/* With a test clock time waits for what is being sent, and breakers count by it. */
static void test_outlets_test_clock(void **state)
{
    struct bench b;
    struct ask a;

    (void)state;
    start(&b, true);
    deliver(&b, 1, "http://a/");
    (void)rig_push(&b.rig, b.t, RIG_SECOND);
    (void)rig_push(&b.rig, b.t, 3 * RIG_SECOND);
    advance(&b, &a, 100 * RIG_SECOND);
    assert_int_equal(a.done, 0);
    assert_true(clock_of(&b) == RIG_WALL_US + RIG_SECOND);
    pass(&b, 100 * RIG_SECOND); /* real time does not count */
    assert_true(clock_of(&b) == RIG_WALL_US + RIG_SECOND);
    finish(&senders[0], 0, TR_SEND_FAILED);
    (void)settle(&b);
    assert_true(clock_of(&b) == RIG_WALL_US + 3 * RIG_SECOND);
    finish(&senders[0], 0, TR_SEND_OK);
    (void)settle(&b);
    assert_true(clock_of(&b) == RIG_WALL_US + 11 * RIG_SECOND); /* the retry of the first */
    finish(&senders[0], 0, TR_SEND_OK);
    (void)settle(&b);
    assert_true(a.done != 0 && clock_of(&b) == RIG_WALL_US + 101 * RIG_SECOND - RIG_SECOND);

    for (unsigned i = 0; i < 5; i++) {
        (void)rig_push(&b.rig, b.t, 0);
    }
    (void)settle(&b);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(senders[0].count, 1);
        fail_all(&b, &senders[0]);
    }
    assert_string_equal(view(&b).breaker, "open");
    (void)rig_push(&b.rig, b.t, 0); /* ready, but held back */
    advance(&b, &a, 5 * RIG_SECOND);
    assert_true(clock_of(&b) == RIG_WALL_US + 101 * RIG_SECOND);
    assert_int_equal(senders[0].count, 1);
    finish(&senders[0], 0, TR_SEND_OK);
    (void)settle(&b);
    assert_true(a.done != 0);
    end(&b);
}

static void test_outlets_follow_the_policy(void **state)
{
    struct bench b;
    struct tr_policy none = tr_policy_default();
    struct tr_outlet_view v;
    uint64_t first;

    (void)state;
    start(&b, false);
    first = rig_push(&b.rig, b.t, 0);
    deliver(&b, 1, "http://a/");
    assert_int_equal(senders[0].count, 1);
    (void)rig_push(&b.rig, b.t, 0);
    deliver(&b, 2, "http://b/"); /* at once, beside the old one */
    assert_int_equal(opened, 2);
    assert_int_equal(senders[1].count, 1);
    finish(&senders[0], 0, TR_SEND_OK);
    (void)settle(&b);
    assert_true(senders[0].closed);
    assert_int_equal(rig_state(&b.rig, first), 0);
    deliver(&b, 2, "http://b/"); /* the same again is no change */
    assert_int_equal(opened, 2);
    rig_policy(&b.rig, b.t, &none, TR_POLICY_BIT(DELIVER));
    (void)settle(&b);

    uint64_t left = rig_push(&b.rig, b.t, 0);

    (void)settle(&b);
    assert_int_equal(rig_state(&b.rig, left), TR_READY);
    assert_false(senders[1].closed);
    finish(&senders[1], 0, TR_SEND_OK);
    (void)settle(&b);
    assert_true(senders[1].closed);
    assert_false(tr_outlets_view(b.o, b.t, &v));
    end(&b);
}

/* What is known of a topic goes with it. */
static void test_outlets_forget_topics(void **state)
{
    struct bench b;
    struct tr_policy none = tr_policy_default();
    struct tr_outlet_view v;
    struct ask drop = rig_ask(TR_OP_DROP_TOPIC);
    struct ask clear = rig_ask(TR_OP_POLICY);

    (void)state;
    start(&b, false);
    deliver(&b, 1, "http://a/");
    (void)rig_push(&b.rig, b.t, 0);
    (void)settle(&b);
    finish(&senders[0], 0, TR_SEND_OK);
    (void)settle(&b);
    drop.req.topic = b.t;
    assert_int_equal(rig_do(&b.rig, &drop), TARRY_OK);
    (void)settle(&b);
    assert_non_null(tr_outlets_next(b.o, NULL, &v)); /* its policy needs it */
    clear.req.topic = b.t;
    clear.req.policy = &none;
    clear.req.fields = TR_POLICY_BIT(DELIVER) | TR_POLICY_BIT(RETRIES) | TR_POLICY_BIT(BACKOFF);
    assert_int_equal(rig_do(&b.rig, &clear), TARRY_OK);
    (void)settle(&b);
    assert_null(tr_outlets_next(b.o, NULL, &v));
    assert_true(senders[0].closed);
    end(&b);
}

/* After a crash the job is sent again at once, under the same id. */
static void test_outlets_crash(void **state)
{
    struct bench b;

    (void)state;
    start(&b, false);
    deliver(&b, 4, "http://a/");

    uint64_t id = rig_push(&b.rig, b.t, 0);

    (void)settle(&b);
    assert_int_equal(senders[0].sends[0]->id, id);
    tr_outlets_abort(b.o);
    tr_outlets_close(b.o);
    b.o = NULL;
    rig_power_cut(&b.rig);
    begin(&b);
    (void)settle(&b);
    assert_int_equal(senders[0].count, 1);
    assert_int_equal(senders[0].sends[0]->id, id);
    end(&b);
}

static void test_outlets_stop(void **state)
{
    struct bench b;

    (void)state;
    start(&b, false);
    deliver(&b, 1, "http://a/");

    uint64_t id = rig_push(&b.rig, b.t, 0);
    uint64_t other = rig_push(&b.rig, b.t, 0);

    (void)settle(&b);
    tr_outlets_stop(b.o);
    (void)settle(&b);
    assert_false(tr_outlets_stopped(b.o)); /* it has a while to end */
    assert_int_equal(rig_state(&b.rig, id), TR_RESERVED);
    assert_int_equal(rig_state(&b.rig, other), TR_READY);
    tr_outlets_hurry(b.o);
    (void)settle(&b);
    assert_true(tr_outlets_stopped(b.o));
    assert_int_equal(rig_state(&b.rig, id), TR_READY);
    assert_int_equal(rig_view(&b.rig, id).reserves, 0); /* as if it had never been handed out */
    end(&b);
}

/* A sender that cannot be made is tried again; one that does not stop is left alone. */
static void test_outlets_bad_senders(void **state)
{
    struct bench b;

    (void)state;
    start(&b, false);
    open_error = TARRY_ENOMEM;
    deliver(&b, 1, "http://a/");
    (void)rig_push(&b.rig, b.t, 0);
    (void)settle(&b);
    assert_int_equal(opened, 0);
    assert_non_null(view(&b).why);
    open_error = TARRY_OK;
    pass(&b, 2 * RIG_SECOND);
    assert_int_equal(opened, 1);
    assert_int_equal(senders[0].count, 1);
    finish(&senders[0], 0, TR_SEND_OK);
    (void)settle(&b);
    end(&b);
}

/* A test clock does not run past the due time of a job whose outlet only pauses. */
static void test_outlets_test_clock_and_pauses(void **state)
{
    struct bench b;
    struct ask a;

    (void)state;
    start(&b, true);
    open_error = TARRY_ENOMEM;
    deliver(&b, 1, "http://a/");
    (void)rig_push(&b.rig, b.t, RIG_SECOND);
    advance(&b, &a, 100 * RIG_SECOND);
    assert_int_equal(a.done, 0);
    open_error = TARRY_OK;
    pass(&b, 2 * RIG_SECOND);
    assert_true(clock_of(&b) == RIG_WALL_US + RIG_SECOND);
    assert_int_equal(senders[0].count, 1);
    finish(&senders[0], 0, TR_SEND_OK);
    (void)settle(&b);
    assert_true(a.done != 0);
    assert_true(view(&b).delivered == 1);
    end(&b);
}

/* With what is around it each takes more than 5,000. */
static void push_bodies(struct bench *b, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)rig_push_body(&b->rig, b->t, 0, 5000);
    }
}

/* A job for which there is no memory goes back, and is fetched later. */
static void test_outlets_memory(void **state)
{
    struct bench b;

    (void)state;
    start(&b, false);
    deliver(&b, 64, "http://a/");
    push_bodies(&b, 60);
    (void)settle(&b);
    assert_true(senders[0].count > 15 && senders[0].count <= 26); /* a half */
    for (unsigned round = 0; round < 60 && senders[0].ever < 60; round++) {
        finish(&senders[0], 0, TR_SEND_OK);
        (void)settle(&b);
    }
    assert_int_equal(senders[0].ever, 60);
    end(&b);
}

/* One that hangs leaves room for others, and asks for nothing while it has none itself. */
static void test_outlets_share_the_memory(void **state)
{
    struct bench b;
    unsigned reserves;

    (void)state;
    start(&b, false);
    deliver(&b, 64, "http://hangs/");
    push_bodies(&b, 60);
    (void)settle(&b);
    reserves = b.reserves;
    pass(&b, 5 * RIG_SECOND);
    assert_int_equal(b.reserves, reserves);

    b.t = rig_hold(&b.rig, "other");
    deliver(&b, 64, "http://lives/");
    push_bodies(&b, 8);
    (void)settle(&b);
    assert_int_equal(senders[1].count, 8);
    push_bodies(&b, 30);
    (void)settle(&b);
    assert_true(senders[1].count < 20); /* nor does this one take all */
    while (senders[1].count > 0) {
        finish(&senders[1], 0, TR_SEND_OK);
        (void)settle(&b);
    }
    assert_int_equal(senders[1].ever, 38);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outlets_send_then_ack),
        cmocka_unit_test(test_outlets_wait_for_the_disk),
        cmocka_unit_test(test_outlets_wait_long_for_the_disk),
        cmocka_unit_test(test_outlets_window),
        cmocka_unit_test(test_outlets_failures),
        cmocka_unit_test(test_outlets_keep_the_lease),
        cmocka_unit_test(test_outlets_breaker),
        cmocka_unit_test(test_outlets_breaker_and_old_sends),
        cmocka_unit_test(test_outlets_test_clock),
        cmocka_unit_test(test_outlets_follow_the_policy),
        cmocka_unit_test(test_outlets_forget_topics),
        cmocka_unit_test(test_outlets_crash),
        cmocka_unit_test(test_outlets_stop),
        cmocka_unit_test(test_outlets_bad_senders),
        cmocka_unit_test(test_outlets_test_clock_and_pauses),
        cmocka_unit_test(test_outlets_memory),
        cmocka_unit_test(test_outlets_share_the_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
