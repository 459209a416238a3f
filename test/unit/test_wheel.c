/*
 * The wheel against a plain array, plus the few cases worth a name.
 *
 * The model is the specification: at any time, after any other, exactly the timers that are not
 * later come out. The clock of the model goes forward and back.
 */

#include "base/rng.h"
#include "engine/wheel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Pops with as much work as it takes. */
static struct tr_timer *pop(struct tr_wheel *w, uint64_t now_us)
{
    unsigned work = UINT32_MAX;

    return tr_wheel_pop(w, now_us, &work);
}

static void test_wheel_pop_is_empty_before_due(void **state)
{
    struct tr_wheel w;
    struct tr_timer t;

    (void)state;
    tr_wheel_init(&w, 1000);
    tr_timer_init(&t);
    tr_wheel_arm(&w, &t, 1063);
    assert_null(pop(&w, 1062));
    assert_ptr_equal(pop(&w, 1063), &t);
    assert_false(t.armed);
    assert_true(w.count == 0);
}

static void test_wheel_past_is_due_at_once(void **state)
{
    struct tr_wheel w;
    struct tr_timer t;

    (void)state;
    tr_wheel_init(&w, 1000);
    tr_timer_init(&t);
    tr_wheel_arm(&w, &t, 5);
    assert_true(tr_wheel_next(&w) <= 1000);
    assert_ptr_equal(pop(&w, 1000), &t);
}

static void test_wheel_disarm_forgets_timer(void **state)
{
    struct tr_wheel w;
    struct tr_timer t;

    (void)state;
    tr_wheel_init(&w, 0);
    tr_timer_init(&t);
    tr_wheel_disarm(&w, &t); /* not armed: no harm */
    tr_wheel_arm(&w, &t, 5);
    tr_wheel_disarm(&w, &t);
    assert_null(pop(&w, 10));
    assert_true(tr_wheel_next(&w) == TR_WHEEL_NEVER);
    assert_true(w.count == 0);
}

static void test_wheel_next_is_exact_for_few(void **state)
{
    struct tr_wheel w;
    struct tr_timer t[TR_WHEEL_FEW + 1];
    uint64_t at_us = UINT64_C(31536000000000000); /* a thousand years */

    (void)state;
    tr_wheel_init(&w, 0);
    assert_true(tr_wheel_next(&w) == TR_WHEEL_NEVER);
    for (unsigned i = 0; i < TR_WHEEL_FEW; i++) {
        tr_timer_init(&t[i]);
        tr_wheel_arm(&w, &t[i], at_us + TR_WHEEL_FEW - i);
    }
    assert_true(tr_wheel_next(&w) == at_us + 1);
    tr_timer_init(&t[TR_WHEEL_FEW]);
    tr_wheel_arm(&w, &t[TR_WHEEL_FEW], at_us + 70);
    assert_true(tr_wheel_next(&w) <= at_us + 1);
    while (tr_wheel_next(&w) < at_us + 1) { /* many: some calls too early, but not many */
        uint64_t next_us = tr_wheel_next(&w);

        assert_null(pop(&w, next_us));
        assert_true(tr_wheel_next(&w) > next_us);
    }
    assert_ptr_equal(pop(&w, at_us + 1), &t[TR_WHEEL_FEW - 1]);
}

/* What was due by the old time, popped or not, waits again when the clock goes back. */
static void test_wheel_is_not_early_after_step_back(void **state)
{
    uint64_t hour_us = UINT64_C(3600000000);
    struct tr_wheel w;
    struct tr_timer t[3];

    (void)state;
    tr_wheel_init(&w, 2 * hour_us);
    for (int i = 0; i < 3; i++) {
        tr_timer_init(&t[i]);
    }
    tr_wheel_arm(&w, &t[0], 2 * hour_us + 10);
    tr_wheel_arm(&w, &t[1], 2 * hour_us + 10);
    assert_non_null(pop(&w, 2 * hour_us + 20)); /* one of the two; the other lies in due */
    tr_wheel_arm(&w, &t[2], hour_us + 5);
    assert_null(pop(&w, hour_us));
    assert_true(tr_wheel_next(&w) == hour_us + 5);
    assert_null(pop(&w, hour_us + 4));
    assert_ptr_equal(pop(&w, hour_us + 5), &t[2]);
    assert_null(pop(&w, 2 * hour_us + 9));
    assert_non_null(pop(&w, 2 * hour_us + 10));
    assert_null(pop(&w, 3 * hour_us));
}

/* A crowded second: no call does more than it may, and all come out. */
static void test_wheel_work_is_bounded(void **state)
{
    enum { CROWD = 10000, WORK = 7 };
    struct tr_timer *t = calloc(CROWD, sizeof *t);
    uint64_t start_us = UINT64_C(1) << 40;
    struct tr_wheel w;
    unsigned out = 0;
    unsigned steps = 0;

    (void)state;
    assert_non_null(t);
    tr_wheel_init(&w, 0);
    for (uint64_t i = 0; i < CROWD; i++) {
        tr_timer_init(&t[i]);
        tr_wheel_arm(&w, &t[i], start_us + i % 2 * 1000000);
    }
    while (out < CROWD / 2) {
        unsigned work = WORK;

        while (tr_wheel_pop(&w, start_us + 1, &work) != NULL) {
            out++;
        }
        steps += WORK - work;
        assert_true(steps <= 2 * CROWD);
        assert_true(tr_wheel_next(&w) <= start_us + 1 || out == CROWD / 2);
    }
    assert_null(pop(&w, start_us + 999999));
    while (pop(&w, start_us + 1000000) != NULL) {
        out++;
    }
    assert_int_equal(out, CROWD);
    free(t);
}

enum { N = 200 };

static uint64_t model_least(const struct tr_timer *timers)
{
    uint64_t least_us = TR_WHEEL_NEVER;

    for (int i = 0; i < N; i++) {
        if (timers[i].armed && timers[i].at_us < least_us) {
            least_us = timers[i].at_us;
        }
    }
    return least_us;
}

/* A moment near, or far from, the one given; mostly ahead. */
static uint64_t move_time(struct tr_rng *rng, uint64_t us, unsigned back_percent)
{
    uint64_t span = UINT64_C(1) << tr_rng_below(rng, 50);
    uint64_t step = tr_rng_below(rng, span);

    if (tr_rng_below(rng, 100) < back_percent) {
        return us - (step < us ? step : us);
    }
    return us < UINT64_MAX - 1 - step ? us + step : us;
}

/* Pops until the model is empty at now_us, or stops half-way when `work` is short. */
static void drain(struct tr_wheel *w, const struct tr_timer *timers, uint64_t now_us, unsigned work)
{
    struct tr_timer *t;
    uint64_t before = w->count;
    uint64_t out = 0;

    while ((t = tr_wheel_pop(w, now_us, &work)) != NULL) {
        assert_false(t->armed);
        assert_true(t->at_us <= now_us);
        out++;
    }
    assert_true(w->count == before - out);
    assert_true(tr_wheel_ok(w));
    assert_true(tr_wheel_next(w) <= now_us || tr_wheel_next(w) <= model_least(timers));
    if (work > 0) {
        assert_true(model_least(timers) > now_us);
        assert_true(tr_wheel_next(w) > now_us);
    }
}

static void test_wheel_agrees_with_model(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct tr_rng rng = {.state = seed};
        struct tr_timer timers[N];
        struct tr_wheel w;
        uint64_t now_us = tr_rng_next(&rng) >> tr_rng_below(&rng, 60);
        unsigned back_percent = (unsigned)tr_rng_below(&rng, 60);

        tr_wheel_init(&w, now_us);
        for (int i = 0; i < N; i++) {
            tr_timer_init(&timers[i]);
        }
        for (int turn = 0; turn < 300; turn++) {
            for (uint64_t i = tr_rng_below(&rng, 10); i > 0; i--) {
                struct tr_timer *t = &timers[tr_rng_below(&rng, N)];

                tr_wheel_disarm(&w, t);
                if (tr_rng_below(&rng, 4) != 0) {
                    tr_wheel_arm(&w, t, move_time(&rng, now_us, back_percent / 2));
                }
                assert_true(tr_wheel_ok(&w));
            }
            if (tr_rng_below(&rng, 3) != 0) {
                now_us = move_time(&rng, now_us, back_percent);
            } else if (model_least(timers) < TR_WHEEL_NEVER) {
                now_us = model_least(timers) - (model_least(timers) > 0 && turn % 2 != 0);
            }
            drain(&w, timers, now_us, turn % 4 != 0 ? UINT32_MAX : (unsigned)tr_rng_below(&rng, 5));
        }
        drain(&w, timers, UINT64_MAX - 1, UINT32_MAX);
        assert_true(w.count == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wheel_pop_is_empty_before_due),
        cmocka_unit_test(test_wheel_past_is_due_at_once),
        cmocka_unit_test(test_wheel_disarm_forgets_timer),
        cmocka_unit_test(test_wheel_next_is_exact_for_few),
        cmocka_unit_test(test_wheel_is_not_early_after_step_back),
        cmocka_unit_test(test_wheel_work_is_bounded),
        cmocka_unit_test(test_wheel_agrees_with_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
