/* Schedules: bytes, and when ticks come. */

#include "rules/schedule.h"

#include "base/err.h"
#include "base/rng.h"
#include "os/zones_linux.h"
#include "port/request.h"
#include "rules/backoff.h"
#include "rules/moment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define S UINT64_C(1000000)

static const struct tr_zone utc;

static struct tr_schedule_text text(const char *at)
{
    return (struct tr_schedule_text){at, strlen(at)};
}

static uint64_t at(const char *moment)
{
    const char *why;
    int64_t us = 0;

    assert_int_equal(tr_moment_read(moment, strlen(moment), &us, &why), TARRY_OK);
    return (uint64_t)us;
}

static struct tr_schedule every(uint64_t period_us)
{
    return (struct tr_schedule){
        .kind = TR_SCHEDULE_EVERY, .period_us = period_us, .topic = text("t")};
}

static struct tr_cron cron(struct tr_schedule *s, const char *expression)
{
    struct tr_cron c;
    char why[TR_CRON_WHY];

    *s = (struct tr_schedule){
        .kind = TR_SCHEDULE_CRON, .cron = text(expression), .topic = text("t")};
    assert_int_equal(tr_cron_read(expression, strlen(expression), &c, why), TARRY_OK);
    return c;
}

static void test_schedule_bytes(void **state)
{
    struct tr_backoff b = tr_backoff_default();
    uint8_t backoff[TR_BACKOFF_BYTES];
    struct tr_schedule s = {.kind = TR_SCHEDULE_CRON,
                            .cron = text("0 30 9 * * MON-FRI"),
                            .tz = text("Asia/Shanghai"),
                            .start_us = 5 * S,
                            .end_us = 50 * S,
                            .limit = 7,
                            .jitter_us = 11,
                            .overlap = TR_OVERLAP_QUEUE,
                            .missed = TR_MISSED_SKIP,
                            .topic = text("mail"),
                            .tag = text("red"),
                            .backoff = {(const char *)backoff, tr_backoff_encode(backoff, &b)},
                            .has_priority = true,
                            .priority = 0,
                            .ttr_us = 3,
                            .ttl_us = 4,
                            .has_retries = true,
                            .retries = -1,
                            .body = (const uint8_t *)"hello",
                            .body_len = 5};
    static uint8_t bytes[TR_SCHEDULE_BYTES_MAX];
    static uint8_t again[TR_SCHEDULE_BYTES_MAX];
    struct tr_schedule read;
    size_t len = tr_schedule_encode(bytes, &s);

    (void)state;
    assert_int_equal(tr_schedule_decode(bytes, len, &read), TARRY_OK);
    assert_int_equal(tr_schedule_encode(again, &read), len);
    assert_memory_equal(bytes, again, len);
    assert_int_equal(read.kind, TR_SCHEDULE_CRON);
    assert_memory_equal(read.tz.at, "Asia/Shanghai", 13);
    assert_true(read.limit == 7 && read.retries == -1 && read.has_priority && read.body_len == 5);
    for (size_t i = 0; i < len; i++) {
        assert_int_not_equal(tr_schedule_decode(bytes, i, &read), TARRY_OK);
    }
    bytes[2] |= 0x10; /* bit 18 */
    assert_int_equal(tr_schedule_decode(bytes, len, &read), TARRY_EVERSION);
}

static void test_schedule_any_bytes(void **state)
{
    struct tr_rng r = {3};
    struct tr_schedule s = every(S);
    uint8_t bytes[TR_SCHEDULE_BYTES_MAX];
    struct tr_schedule_state now = {1, 2, 3, 4, 5, 6, 7, 8, true};
    struct tr_schedule_state read;

    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        size_t len = tr_schedule_encode(bytes, &s);

        bytes[tr_rng_below(&r, len)] ^= (uint8_t)tr_rng_below(&r, 256);
        bytes[tr_rng_below(&r, len)] ^= (uint8_t)tr_rng_below(&r, 256);
        if (tr_schedule_decode(bytes, len, &s) != TARRY_OK) {
            s = every(S);
        }
        s = every(S);
    }
    assert_int_equal(tr_schedule_state_decode(bytes, tr_schedule_state_encode(bytes, &now), &read),
                     TARRY_OK);
    assert_memory_equal(&read.created_us, &now.created_us, 7 * sizeof(uint64_t));
    assert_true(read.live_topic == 8 && read.paused);
    assert_int_equal(tr_schedule_state_decode(bytes, 5, &read), TARRY_EDAMAGED);
}

static void test_schedule_limits(void **state)
{
    struct tr_schedule s = every(S);

    (void)state;
    assert_true(tr_schedule_ok(&s));
    s.period_us = 999;
    assert_false(tr_schedule_ok(&s));
    s = every(TR_DELAY_MAX_US + 1);
    assert_false(tr_schedule_ok(&s));
    s = every(S);
    s.start_us = 9 * S;
    s.end_us = 9 * S;
    assert_false(tr_schedule_ok(&s));
    s.end_us++;
    assert_true(tr_schedule_ok(&s));
    s.topic = text("-t");
    assert_false(tr_schedule_ok(&s));
    s = every(S);
    s.tz = text("UTC");
    assert_false(tr_schedule_ok(&s));
    s = every(S);
    s.body_len = TR_SCHEDULE_BODY_MAX + 1;
    assert_false(tr_schedule_ok(&s));
}

static void test_schedule_every(void **state)
{
    struct tr_schedule s = every(10 * S);
    struct tr_schedule_plan p = {.is = &s};
    struct tr_schedule_state now = tr_schedule_begin(&s, 1000 * S);

    (void)state;
    assert_true(tr_schedule_next(&p, &now) == 1010 * S);
    now.tick_us = 1010 * S;
    assert_true(tr_schedule_next(&p, &now) == 1020 * S);
    assert_true(tr_schedule_last(&p, &now, 1020 * S) == TR_SCHEDULE_NEVER);
    assert_true(tr_schedule_last(&p, &now, 1020 * S + 1) == 1020 * S);
    assert_true(tr_schedule_last(&p, &now, 1055 * S) == 1050 * S);
    assert_true(tr_schedule_last(&p, &now, 1060 * S) == 1050 * S);
    s.start_us = 2000 * S;
    now = tr_schedule_begin(&s, 1000 * S);
    assert_true(tr_schedule_next(&p, &now) == 2000 * S);
    now = tr_schedule_begin(&s, 3000 * S); /* the past means now */
    assert_true(tr_schedule_next(&p, &now) == 3000 * S);
    s.period_us = TR_DELAY_MAX_US; /* begins before 1970 */
    now = tr_schedule_begin(&s, 1000 * S);
    assert_true(tr_schedule_next(&p, &now) == 2000 * S);
    tr_schedule_resume(&s, &now, 1500 * S);
    assert_true(tr_schedule_next(&p, &now) == 2000 * S);
}

static void test_schedule_after(void **state)
{
    struct tr_schedule s = every(10 * S);
    struct tr_schedule_plan p = {.is = &s};
    struct tr_schedule_state now;

    (void)state;
    s.kind = TR_SCHEDULE_AFTER;
    now = tr_schedule_begin(&s, 1000 * S);
    assert_true(tr_schedule_next(&p, &now) == 1000 * S);
    now.live_id = 3;
    assert_true(tr_schedule_next(&p, &now) == TR_SCHEDULE_NEVER);
    now.live_id = 0;
    now.tick_us = 1017 * S; /* the end of the occurrence */
    assert_true(tr_schedule_next(&p, &now) == 1027 * S);
    s.start_us = 1500 * S;
    now = tr_schedule_begin(&s, 1000 * S);
    assert_true(tr_schedule_next(&p, &now) == 1500 * S);
}

static void test_schedule_end_and_limit(void **state)
{
    struct tr_schedule s = every(10 * S);
    struct tr_schedule_plan p = {.is = &s};
    struct tr_schedule_state now = tr_schedule_begin(&s, 1000 * S);

    (void)state;
    s.end_us = 1010 * S;
    assert_true(tr_schedule_next(&p, &now) == TR_SCHEDULE_NEVER);
    s.end_us = 1010 * S + 1;
    assert_true(tr_schedule_next(&p, &now) == 1010 * S);
    s.end_us = 1035 * S;
    assert_true(tr_schedule_last(&p, &now, 9999 * S) == 1030 * S);
    s.limit = 3;
    now.fired = 2;
    assert_true(tr_schedule_next(&p, &now) == 1010 * S);
    now.waiting = 1;
    assert_true(tr_schedule_next(&p, &now) == TR_SCHEDULE_NEVER);
    now.waiting = 0;
    now.fired = 3;
    assert_true(tr_schedule_next(&p, &now) == TR_SCHEDULE_NEVER);
    now.fired = 0;
    now.paused = true;
    assert_true(tr_schedule_next(&p, &now) == TR_SCHEDULE_NEVER);
}

static void test_schedule_cron(void **state)
{
    struct tr_schedule s;
    struct tr_cron c = cron(&s, "*/15 * * * *");
    struct tr_schedule_plan p = {.is = &s, .cron = &c, .zone = &utc};
    struct tr_schedule_state now = tr_schedule_begin(&s, at("2026-11-15T08:15:00Z"));

    (void)state;
    assert_true(tr_schedule_next(&p, &now) == at("2026-11-15T08:30:00Z"));
    s.start_us = at("2026-11-15T09:00:00Z");
    now = tr_schedule_begin(&s, at("2026-11-15T08:15:00Z"));
    assert_true(tr_schedule_next(&p, &now) == at("2026-11-15T09:00:00Z"));
    s.start_us += 1;
    now = tr_schedule_begin(&s, at("2026-11-15T08:15:00Z"));
    assert_true(tr_schedule_next(&p, &now) == at("2026-11-15T09:15:00Z"));
    s.end_us = at("2026-11-15T09:15:00Z");
    assert_true(tr_schedule_next(&p, &now) == TR_SCHEDULE_NEVER);
    s.end_us++;
    assert_true(tr_schedule_next(&p, &now) == at("2026-11-15T09:15:00Z"));
    s.end_us = 0;
    assert_true(tr_schedule_last(&p, &now, at("2027-11-15T09:15:00Z")) ==
                at("2027-11-15T09:00:00Z"));
    assert_true(tr_schedule_last(&p, &now, at("2027-11-15T09:15:00Z") + 1) ==
                at("2027-11-15T09:15:00Z"));
    tr_schedule_resume(&s, &now, at("2026-12-01T00:00:00Z"));
    assert_true(tr_schedule_next(&p, &now) == at("2026-12-01T00:15:00Z"));
}

/* The last tick is what a walk finds. */
static void test_schedule_last_is_the_last(void **state)
{
    static const char *const expressions[] = {"*/7 * * * *", "0 3 * * MON", "30 */5 1-5 * *",
                                              "13 */10 * * * *", "@monthly"};
    struct tr_rng r = {11};

    (void)state;
    for (unsigned i = 0; i < 400; i++) {
        struct tr_schedule s;
        struct tr_cron c = cron(&s, expressions[i % 5]);
        struct tr_schedule_plan p = {.is = &s, .cron = &c, .zone = &utc};
        uint64_t begin = at("2026-11-15T00:00:00Z") + tr_rng_below(&r, 3600 * S);
        uint64_t before = begin + tr_rng_below(&r, UINT64_C(40) * 86400 * S);
        struct tr_schedule_state now = tr_schedule_begin(&s, begin);
        struct tr_schedule_state walk = now;
        uint64_t last = TR_SCHEDULE_NEVER;

        for (uint64_t next; (next = tr_schedule_next(&p, &walk)) < before; walk.tick_us = next) {
            last = next;
        }
        assert_true(tr_schedule_last(&p, &now, before) == last);
    }
}

/* What is foretold after ticks were missed is what ticks do then. */
static void test_schedule_after_miss(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * TR_MISSED_COUNT; i++) {
        struct tr_schedule s;
        struct tr_cron c = cron(&s, "*/15 * * * *");
        struct tr_schedule_plan p = {.is = &s, .cron = &c, .zone = &utc};
        uint64_t begin = at("2026-11-15T00:00:00Z");
        uint64_t late = at("2026-11-15T02:15:00Z") + (i % 2) * S;
        uint64_t due_us;
        struct tr_schedule_state now;
        struct tr_schedule_state then;

        if (i % 2 == 0) {
            s = every(900 * S);
        }
        s.overlap = TR_OVERLAP_ALLOW;
        s.missed = (enum tr_missed)(i / 2);
        now = tr_schedule_begin(&s, begin);
        then = tr_schedule_after_miss(&p, &now, begin + 900 * S);
        assert_true(then.tick_us == now.tick_us); /* the one of now was not missed */
        then = tr_schedule_after_miss(&p, &now, late);
        for (unsigned n = 0; n < 12; n++) {
            uint64_t told = tr_schedule_next(&p, &then);
            uint64_t at_us = n > 0 && told > late ? told : late; /* tried at once */
            struct tr_schedule_when when = {.now_us = at_us, .since_us = late};

            while (tr_schedule_tick(&p, &now, when, &due_us) == TR_SCHEDULE_STEPS) {
                assert_true(s.missed == TR_MISSED_SKIP);
                when.now_us = told;
            }
            tr_schedule_fired(&s, &now, due_us, n + 1, 1);
            assert_true(due_us == told);
            then.tick_us = told;
        }
    }
}

static void test_schedule_jitter(void **state)
{
    struct tr_schedule s = every(10 * S);
    uint64_t most = 0;

    (void)state;
    assert_true(tr_schedule_due(&s, 77, 5) == 77);
    s.jitter_us = 1000;
    for (uint64_t tick = 0; tick < 2000; tick++) {
        uint64_t due = tr_schedule_due(&s, tick * S, 5);

        assert_true(due >= tick * S && due <= tick * S + 1000);
        assert_true(due == tr_schedule_due(&s, tick * S, 5));
        most = due - tick * S > most ? due - tick * S : most;
    }
    assert_true(most > 900);
    assert_true(tr_schedule_due(&s, 9 * S, 5) != tr_schedule_due(&s, 9 * S, 6));
}

/* What a tick does: overlap, missed ones, ends. */
static void test_schedule_tick(void **state)
{
    struct tr_schedule s = every(10 * S);
    struct tr_schedule_plan p = {.is = &s};
    struct tr_schedule_state now = tr_schedule_begin(&s, 1000 * S);
    struct tr_schedule_when when = {.now_us = 1009 * S, .since_us = 1000 * S, .seed = 1};
    uint64_t due = 0;

    (void)state;
    assert_int_equal(tr_schedule_tick(&p, &now, when, &due), TR_SCHEDULE_WAITS);
    when.now_us = 1012 * S;
    assert_int_equal(tr_schedule_tick(&p, &now, when, &due), TR_SCHEDULE_FIRES);
    assert_true(due == 1010 * S && now.tick_us == 1010 * S && now.fired == 0);
    tr_schedule_fired(&s, &now, due, 7, 2);
    assert_true(now.fired == 1 && now.live_id == 7 && now.live_topic == 2 && now.last_us == due);
    when.now_us = 1020 * S; /* it lives: skip, or one more waits */
    assert_int_equal(tr_schedule_tick(&p, &now, when, &due), TR_SCHEDULE_STEPS);
    assert_true(now.skipped == 1 && now.tick_us == 1020 * S);
    s.overlap = TR_OVERLAP_QUEUE;
    when.now_us = 1030 * S;
    assert_int_equal(tr_schedule_tick(&p, &now, when, &due), TR_SCHEDULE_STEPS);
    assert_true(now.waiting == 1 && !tr_schedule_follows(&now));
    tr_schedule_ended(&s, &now, 1031 * S);
    assert_true(tr_schedule_follows(&now) && now.tick_us == 1030 * S);
    when.now_us = 1031 * S;
    assert_int_equal(tr_schedule_tick(&p, &now, when, &due), TR_SCHEDULE_FIRES);
    assert_true(due == 1031 * S && now.waiting == 0);
    s.overlap = TR_OVERLAP_ALLOW; /* missed: the last one for all, each, none */
    when = (struct tr_schedule_when){.now_us = 1095 * S, .since_us = 1072 * S};
    assert_int_equal(tr_schedule_tick(&p, &now, when, &due), TR_SCHEDULE_FIRES);
    assert_true(due == 1070 * S);
    now.tick_us = 1030 * S;
    s.missed = TR_MISSED_ALL;
    assert_int_equal(tr_schedule_tick(&p, &now, when, &due), TR_SCHEDULE_FIRES);
    assert_true(due == 1040 * S);
    s.missed = TR_MISSED_SKIP;
    assert_int_equal(tr_schedule_tick(&p, &now, when, &due), TR_SCHEDULE_STEPS);
    assert_true(now.tick_us == 1070 * S);
    assert_int_equal(tr_schedule_tick(&p, &now, when, &due), TR_SCHEDULE_FIRES);
    assert_true(due == 1080 * S); /* only late */
}

static void test_schedule_replaced(void **state)
{
    struct tr_schedule s = every(10 * S);
    struct tr_schedule_state old = {.fired = 5, .live_id = 7, .live_topic = 2, .paused = true};
    struct tr_schedule_state now = tr_schedule_replace(&s, &old, 1000 * S);

    (void)state;
    assert_true(now.paused && now.live_id == 7 && now.fired == 0 && now.tick_us == 1000 * S);
    s.overlap = TR_OVERLAP_ALLOW;
    now = tr_schedule_replace(&s, &old, 1000 * S);
    assert_true(now.live_id == 0 && !tr_schedule_watches(&s));
    s.kind = TR_SCHEDULE_AFTER; /* counts from the end, and is not skipped */
    assert_true(tr_schedule_watches(&s));
    now = tr_schedule_begin(&s, 1000 * S);
    now.live_id = 7;
    tr_schedule_ended(&s, &now, 1234 * S);
    assert_true(now.live_id == 0 && now.tick_us == 1234 * S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule_bytes),
        cmocka_unit_test(test_schedule_any_bytes),
        cmocka_unit_test(test_schedule_limits),
        cmocka_unit_test(test_schedule_every),
        cmocka_unit_test(test_schedule_after),
        cmocka_unit_test(test_schedule_end_and_limit),
        cmocka_unit_test(test_schedule_cron),
        cmocka_unit_test(test_schedule_last_is_the_last),
        cmocka_unit_test(test_schedule_after_miss),
        cmocka_unit_test(test_schedule_jitter),
        cmocka_unit_test(test_schedule_tick),
        cmocka_unit_test(test_schedule_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
