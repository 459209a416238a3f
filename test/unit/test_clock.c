/*
 * Engine time: never ahead of the wall clock, whatever the two clocks do.
 */

#include "base/rng.h"
#include "engine/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)
#define HOUR (3600 * SECOND)

static struct tr_now at(uint64_t wall_us, uint64_t boot_us)
{
    return (struct tr_now){wall_us, boot_us};
}

static void test_clock_follows_small_steps(void **state)
{
    struct tr_clock c;

    (void)state;
    tr_clock_init(&c, at(10 * HOUR, 0));
    assert_int_equal(tr_clock_update(&c, at(10 * HOUR + 5, 5)), TR_CLOCK_RUNS);
    assert_true(c.t_us == 10 * HOUR + 5);
    assert_int_equal(tr_clock_update(&c, at(10 * HOUR + 5 + 60 * SECOND, 5)), TR_CLOCK_RUNS);
    assert_true(c.t_us == 10 * HOUR + 5 + 60 * SECOND);
    assert_int_equal(tr_clock_update(&c, at(10 * HOUR, 6)), TR_CLOCK_STEPPED_BACK);
    assert_true(c.t_us == 10 * HOUR);
    assert_int_equal(tr_clock_update(&c, at(10 * HOUR - 500000, 6)), TR_CLOCK_RUNS);
    assert_true(c.t_us == 10 * HOUR - 500000); /* never ahead, not even a little */
    assert_int_equal(tr_clock_update(&c, at(10 * HOUR - 1000001, 6)), TR_CLOCK_STEPPED_BACK);
    assert_true(c.steps == 2);
}

/* As much as the boot clock advanced is no jump: a long sleep. */
static void test_clock_follows_suspend(void **state)
{
    struct tr_clock c;

    (void)state;
    tr_clock_init(&c, at(10 * HOUR, 0));
    assert_int_equal(tr_clock_update(&c, at(20 * HOUR, 10 * HOUR)), TR_CLOCK_RUNS);
    assert_true(c.t_us == 20 * HOUR);
}

static void test_clock_doubts_a_jump_for_a_second(void **state)
{
    struct tr_clock c;

    (void)state;
    tr_clock_init(&c, at(10 * HOUR, 0));
    assert_int_equal(tr_clock_update(&c, at(12 * HOUR, 0)), TR_CLOCK_RUNS);
    assert_true(c.t_us == 10 * HOUR);
    assert_true(tr_clock_boot_at(&c, 15 * HOUR) == SECOND); /* look again soon */
    assert_int_equal(tr_clock_update(&c, at(12 * HOUR + SECOND - 1, SECOND - 1)), TR_CLOCK_RUNS);
    assert_true(c.t_us == 10 * HOUR + SECOND - 1); /* goes on with the boot clock meanwhile */
    assert_int_equal(tr_clock_update(&c, at(12 * HOUR + SECOND, SECOND)), TR_CLOCK_STEPPED_FORWARD);
    assert_true(c.t_us == 12 * HOUR + SECOND);
    assert_true(c.steps == 1);
}

static void test_clock_doubt_begins_anew_when_readings_differ(void **state)
{
    struct tr_clock c;

    (void)state;
    tr_clock_init(&c, at(10 * HOUR, 0));
    (void)tr_clock_update(&c, at(12 * HOUR, 0));
    assert_int_equal(tr_clock_update(&c, at(14 * HOUR, SECOND)), TR_CLOCK_RUNS); /* another jump */
    assert_true(c.t_us == 10 * HOUR + SECOND);
    assert_int_equal(tr_clock_update(&c, at(14 * HOUR + SECOND, 2 * SECOND)),
                     TR_CLOCK_STEPPED_FORWARD);
    (void)tr_clock_update(&c, at(18 * HOUR, 3 * SECOND));
    (void)tr_clock_update(&c, at(14 * HOUR + 2 * SECOND, 3 * SECOND)); /* it was but a moment */
    assert_true(c.t_us == 14 * HOUR + 2 * SECOND);
    assert_false(c.doubting);
}

static void test_clock_boot_at(void **state)
{
    struct tr_clock c;

    (void)state;
    tr_clock_init(&c, at(10 * HOUR, 77));
    assert_true(tr_clock_boot_at(&c, 10 * HOUR + 5) == 82);
    assert_true(tr_clock_boot_at(&c, 5) == 77); /* past: now */
    assert_true(tr_clock_boot_at(&c, UINT64_MAX) == UINT64_MAX);
    assert_true(tr_clock_boot_at(&c, UINT64_MAX - 1) <= UINT64_MAX);
}

/* The model is the promise: T is never ahead of the wall, and in the end they agree. */
static void test_clock_is_never_ahead(void **state)
{
    struct tr_rng rng = {3};
    struct tr_clock c;
    uint64_t wall = 1000 * HOUR;
    uint64_t boot = 0;

    (void)state;
    tr_clock_init(&c, at(wall, boot));
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t passed =
            tr_rng_below(&rng, 3) == 0 ? tr_rng_below(&rng, HOUR) : tr_rng_below(&rng, SECOND);

        boot += passed;
        wall += passed;
        switch (tr_rng_below(&rng, 12)) {
        case 0:
            wall += tr_rng_below(&rng, 3 * HOUR);
            break;
        case 1:
            wall -= tr_rng_below(&rng, HOUR);
            break;
        default:
            break;
        }
        (void)tr_clock_update(&c, at(wall, boot));
        assert_true(c.t_us <= wall);
        if (tr_rng_below(&rng, 50) == 0) {
            for (unsigned k = 0; k < 3; k++) {
                boot += SECOND;
                wall += SECOND;
                (void)tr_clock_update(&c, at(wall, boot));
            }
            assert_true(c.t_us == wall);
        }
    }
}

/* A test clock knows nothing of the others; spans run on it. */
static void test_clock_test_stands(void **state)
{
    struct tr_clock c;

    (void)state;
    tr_clock_init(&c, at(10 * HOUR, 5));
    assert_true(tr_clock_span(&c) == 5);
    assert_true(tr_clock_span_boot(&c, 77) == 77);
    tr_clock_stand(&c, HOUR);
    assert_int_equal(tr_clock_update(&c, at(30 * HOUR, 20 * HOUR)), TR_CLOCK_RUNS);
    assert_true(c.t_us == HOUR);
    assert_true(tr_clock_span(&c) == HOUR);
    assert_true(tr_clock_boot_at(&c, HOUR) == 20 * HOUR);
    assert_true(tr_clock_boot_at(&c, HOUR + 1) == UINT64_MAX);
    assert_true(tr_clock_span_boot(&c, HOUR) == 20 * HOUR);
    assert_true(tr_clock_span_boot(&c, HOUR + 1) == UINT64_MAX);
    tr_clock_move(&c, 2 * HOUR);
    assert_true(tr_clock_span(&c) == 2 * HOUR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_test_stands),
        cmocka_unit_test(test_clock_follows_small_steps),
        cmocka_unit_test(test_clock_follows_suspend),
        cmocka_unit_test(test_clock_doubts_a_jump_for_a_second),
        cmocka_unit_test(test_clock_doubt_begins_anew_when_readings_differ),
        cmocka_unit_test(test_clock_boot_at),
        cmocka_unit_test(test_clock_is_never_ahead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
