/* The files of groups are looked through, on the simulated disk. */

#include "base/err.h"
#include "engine/inner.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HOUR (3600 * RIG_SECOND)
#define DAY (24 * HOUR)

enum { PAGE = 4096 };

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.far_max = 50;
    rig->config.promote_slots = 2;
    rig->config.slots_max = 16;
    rig->config.scrub_every_us = DAY;
    rig->config.scrub_rate = 100000;
    rig_open(rig);
    return rig_hold(rig, "t");
}

static struct tr_engine_stat stat(const struct rig *rig)
{
    return rig_engine_stat(rig);
}

/* Far ahead, so that nobody but the scrubber has a reason to read them. */
static void fill(struct rig *rig, uint32_t t)
{
    for (unsigned i = 0; i < 300; i++) {
        (void)rig_push_body(rig, t, 30 * DAY + i * RIG_SECOND, 1000);
    }
    rig_pass(rig, 120 * RIG_SECOND);
    assert_true(stat(rig).groups != 0);
    assert_true(sim_disk_exists(rig->disk, "g1048577.run"));
}

static void flip(struct rig *rig, const char *file, uint64_t off)
{
    uint8_t byte = 0;

    assert_int_equal(sim_disk_peek(rig->disk, file, off, &byte, 1), 1);
    byte ^= 4;
    sim_disk_poke(rig->disk, file, off, &byte, 1);
}

/* A day after they were made, all of them, not faster than it is told to be; then it sleeps. */
static void test_scrub_once_a_day(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t groups;
    uint64_t bytes;
    uint64_t began;

    (void)state;
    fill(&rig, t);
    groups = stat(&rig).groups;
    bytes = sim_disk_bytes(rig.disk, "g");
    rig_pass(&rig, DAY - 300 * RIG_SECOND);
    assert_int_equal(stat(&rig).scrubbed_bytes, 0);
    assert_true(rig_settle(&rig) > rig.now.boot_us + 60 * RIG_SECOND);
    began = rig.now.boot_us;
    while (stat(&rig).scrubbed_groups < groups) {
        rig_pass(&rig, RIG_SECOND);
        assert_true(rig.now.boot_us < began + 600 * RIG_SECOND);
        assert_true(stat(&rig).scrub_of == 0 || stat(&rig).scrub_done <= stat(&rig).scrub_of);
    }
    assert_int_equal(stat(&rig).scrubbed_bytes, bytes);
    assert_int_equal(rig.notes[TR_NOTE_DAMAGE], 0);
    assert_false(stat(&rig).damaged);
    assert_true(rig_settle(&rig) > rig.now.boot_us + DAY - 600 * RIG_SECOND);
    rig_fini(&rig);
}

static void test_scrub_keeps_to_its_rate(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t was;

    (void)state;
    fill(&rig, t);
    rig_pass(&rig, DAY - 200 * RIG_SECOND);
    while (stat(&rig).scrubbed_bytes == 0) {
        rig_pass(&rig, RIG_SECOND / 4);
    }
    was = stat(&rig).scrubbed_bytes;
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_true(stat(&rig).scrubbed_bytes - was <= 200000 + (256 << 10));
    rig_fini(&rig);
}

/* Damage is found weeks before anybody needs the job; what can be made again is. */
static void test_scrub_finds_damage(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    fill(&rig, t);
    flip(&rig, "g1048577.run", 500);
    flip(&rig, "g1048578.six", 2 * PAGE + 100);
    rig_pass(&rig, DAY + HOUR);
    assert_int_equal(stat(&rig).damaged_jobs, 1);
    assert_false(sim_disk_exists(rig.disk, "g1048578.six")); /* written anew as another group */
    assert_true(stat(&rig).mended >= 1);
    assert_int_equal(rig_stat(&rig, t).delayed, 300);
    rig_pass(&rig, 30 * DAY);
    assert_int_equal(rig_stat(&rig, t).ready, 299);
    rig_fini(&rig);
}

/* A footer or head is in memory; that the file has lost it is seen before the next start needs it.
 */
static void test_scrub_finds_lost_footer_and_head(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    fill(&rig, t);
    flip(&rig, "g1048577.run", sim_disk_size(rig.disk, "g1048577.run") - 3);
    flip(&rig, "g1048578.six", 77);
    rig_pass(&rig, DAY + HOUR);
    assert_false(sim_disk_exists(rig.disk, "g1048577.run"));
    assert_false(sim_disk_exists(rig.disk, "g1048578.six"));
    assert_false(stat(&rig).damaged);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(stat(&rig).jobs, 300);
    rig_pass(&rig, 31 * DAY);
    assert_int_equal(rig_stat(&rig, rig_hold(&rig, "t")).ready, 300);
    rig_fini(&rig);
}

/* Restarts do not keep it from reading: the moment is another one each time. */
static void test_scrub_in_spite_of_restarts(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t read = 0;

    (void)state;
    fill(&rig, t);
    for (unsigned i = 0; i < 20; i++) {
        rig_close(&rig);
        rig_open(&rig);
        rig_pass(&rig, DAY / 4);
        read += stat(&rig).scrubbed_groups;
    }
    assert_true(read >= 2);
    rig_fini(&rig);
}

static void test_scrub_off(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    fill(&rig, t);
    rig_close(&rig);
    rig.config.scrub_rate = 0;
    rig_open(&rig);
    rig_pass(&rig, 3 * DAY);
    assert_int_equal(stat(&rig).scrubbed_bytes, 0);
    rig_fini(&rig);
}

static void tune(struct rig *rig, uint64_t rate, uint64_t every_us)
{
    struct tr_engine_tune t = {.far_max = rig->config.far_max,
                               .scrub_rate = rate,
                               .scrub_every_us = every_us,
                               .history_us = rig->config.history_us,
                               .history_bytes = rig->config.history_bytes};

    tr_engine_tune(rig->e, &t);
}

/* Switched off in the midst of a group it lets go of it; switched on it goes through all. */
static void test_scrub_can_be_tuned(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t groups;
    uint64_t was;

    (void)state;
    fill(&rig, t);
    groups = stat(&rig).groups;
    rig_pass(&rig, DAY - 200 * RIG_SECOND);
    while (stat(&rig).scrubbed_bytes == 0) {
        rig_pass(&rig, RIG_SECOND / 4);
    }
    assert_non_null(rig.e->scrub.group);
    tune(&rig, 0, DAY);
    rig_pass(&rig, RIG_SECOND);
    assert_null(rig.e->scrub.group);
    was = stat(&rig).scrubbed_bytes;
    rig_pass(&rig, 3 * DAY);
    assert_int_equal(stat(&rig).scrubbed_bytes, was);

    tune(&rig, 100000000, 30 * DAY);
    rig_pass(&rig, 60 * RIG_SECOND); /* those whose time had come */
    was = stat(&rig).scrubbed_groups;
    tune(&rig, 100000000, HOUR); /* each within an hour instead of a month */
    rig_pass(&rig, HOUR + 60 * RIG_SECOND);
    assert_true(stat(&rig).scrubbed_groups >= was + groups);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scrub_once_a_day),
        cmocka_unit_test(test_scrub_keeps_to_its_rate),
        cmocka_unit_test(test_scrub_finds_damage),
        cmocka_unit_test(test_scrub_finds_lost_footer_and_head),
        cmocka_unit_test(test_scrub_in_spite_of_restarts),
        cmocka_unit_test(test_scrub_off),
        cmocka_unit_test(test_scrub_can_be_tuned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
