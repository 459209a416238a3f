/* How many jobs are due when: the request, its steps, and who is counted. */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/rng.h"
#include "engine/inner.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MINUTE (60 * RIG_SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.far_max = 50;
    rig->config.promote_slots = 2;
    rig->config.slots_max = 16;
    rig_open(rig);
    return rig_hold(rig, "t");
}

/* From now on, for so long. */
static struct ask ask_for(struct rig *rig, uint32_t topic, uint64_t range, uint64_t step)
{
    struct ask a = rig_ask(TR_OP_FORECAST);

    a.req.topic = topic;
    a.req.from_us = rig->now.wall_us;
    a.req.until_us = rig->now.wall_us + range;
    a.req.step_us = step;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a;
}

static uint64_t sum(const struct ask *a)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < a->req.out.forecast.count; i++) {
        all += a->counts[i];
    }
    return all;
}

/* The count of the step in which a moment is. */
static uint64_t count_at(const struct ask *a, uint64_t at_us)
{
    const struct tr_forecast_view *v = &a->req.out.forecast;

    assert_true(at_us >= v->first_us && at_us < v->until_us);
    return a->counts[(at_us - v->first_us) / v->step_us];
}

static void test_forecast_resolutions(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t now = rig.now.wall_us;
    struct ask a;

    (void)state;
    (void)rig_push(&rig, t, 10 * RIG_SECOND);
    (void)rig_push(&rig, t, 10 * MINUTE);
    (void)rig_push(&rig, t, 10 * HOUR);
    (void)rig_push(&rig, t, 100 * DAY);
    a = ask_for(&rig, t, 30 * RIG_SECOND, RIG_SECOND);
    assert_int_equal(a.req.out.forecast.resolution_us, RIG_SECOND);
    assert_int_equal(sum(&a), 1);
    assert_int_equal(count_at(&a, now + 10 * RIG_SECOND), 1);
    a = ask_for(&rig, t, HOUR, 5 * MINUTE);
    assert_int_equal(a.req.out.forecast.resolution_us, MINUTE);
    assert_int_equal(a.req.out.forecast.step_us, 5 * MINUTE);
    assert_int_equal(sum(&a), 2);
    assert_int_equal(count_at(&a, now + 10 * MINUTE), 1);
    a = ask_for(&rig, t, 3 * DAY, HOUR);
    assert_int_equal(a.req.out.forecast.resolution_us, HOUR);
    assert_int_equal(sum(&a), 3);
    assert_int_equal(count_at(&a, now + 10 * HOUR), 1);
    a = ask_for(&rig, t, 150 * DAY, 2 * HOUR); /* finer than can be had */
    assert_int_equal(a.req.out.forecast.resolution_us, DAY);
    assert_int_equal(a.req.out.forecast.step_us, DAY);
    assert_int_equal(sum(&a), 4);
    assert_int_equal(count_at(&a, now + 100 * DAY), 1);
    rig_fini(&rig);
}

static void test_forecast_refuses(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = rig_ask(TR_OP_FORECAST);

    (void)state;
    a.req.topic = t;
    a.req.until_us = rig.now.wall_us + HOUR;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL); /* no step */
    a.req.step_us = RIG_SECOND;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL); /* too many */
    a.req.step_us = 2 * RIG_SECOND;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    a.req.from_us = a.req.until_us;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a.req.from_us = 0;
    a.req.topic = 99;
    assert_int_equal(rig_do(&rig, &a), TARRY_ENOTFOUND);
    a.req.topic = 0;
    a.req.until_us = rig.now.wall_us - 1; /* all of it is over */
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(sum(&a), 0);
    rig_fini(&rig);
}

/* What is due, dead or gone does not count; whatever is moved counts where it is. */
static void test_forecast_follows_changes(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t u = rig_hold(&rig, "u");
    struct ask edit = rig_ask(TR_OP_EDIT);
    uint64_t id;
    struct ask a;

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        (void)rig_push(&rig, t, RIG_SECOND + i * HOUR);
    }
    id = rig_push(&rig, u, 5 * HOUR);
    rig_pass(&rig, 2 * RIG_SECOND);
    a = ask_for(&rig, 0, DAY, HOUR);
    assert_int_equal(sum(&a), 10); /* one is ready */
    edit.req.id = id;
    edit.req.edit = TR_EDIT_DUE;
    edit.req.delay_us = 20 * HOUR;
    assert_int_equal(rig_do(&rig, &edit), TARRY_OK);
    a = ask_for(&rig, u, DAY, HOUR);
    assert_int_equal(sum(&a), 1);
    assert_int_equal(count_at(&a, rig.now.wall_us + 20 * HOUR), 1);
    id = rig_reserve(&rig, t, 7);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, id, 7), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, 5, 0), TARRY_OK);
    a = ask_for(&rig, t, DAY, HOUR);
    assert_int_equal(sum(&a), 8);
    rig_power_cut(&rig);
    rig_open(&rig);
    a = ask_for(&rig, 0, DAY, HOUR);
    assert_int_equal(sum(&a), 9);
    rig_fini(&rig);
}

/* Jobs in memory, in the table and in runs, by minute, while they are brought back and cancelled.
 */
static void test_forecast_minutes_from_runs(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t due[300];
    struct ask a;

    (void)state;
    rig.config.near_us = 60 * RIG_SECOND;
    for (unsigned i = 0; i < 300; i++) {
        due[i] = rig.now.wall_us + 2 * MINUTE + (i * 7919 % 300) * 20 * RIG_SECOND;
        assert_int_equal(rig_push_body(&rig, t, due[i] - rig.now.wall_us, 1000), i + 1);
    }
    rig_pass(&rig, RIG_SECOND);
    assert_true(rig_engine_stat(&rig).runs > 100);
    for (unsigned round = 0; round < 3; round++) {
        uint64_t want = 0;

        a = ask_for(&rig, round % 2 == 0 ? t : 0, 2 * HOUR, MINUTE);
        assert_int_equal(a.req.out.forecast.resolution_us, MINUTE);
        for (unsigned i = 0; i < a.req.out.forecast.count; i++) {
            uint64_t from = a.req.out.forecast.first_us + i * MINUTE;
            uint64_t count = 0;

            for (unsigned k = 0; k < 300; k++) {
                count += due[k] != 0 && due[k] >= from && due[k] < from + MINUTE;
            }
            assert_int_equal(a.counts[i], count);
            want += count;
        }
        assert_true(want > 200);
        for (unsigned k = round; k < 300; k += 20) {
            if (due[k] != 0) {
                assert_int_equal(rig_with(&rig, TR_OP_DELETE, k + 1, 0), TARRY_OK);
                due[k] = 0;
            }
        }
    }
    rig_fini(&rig);
}

/* In slices of a few units, with pushes and kills between them: exact when it is given. */
static void test_forecast_hears_of_changes(void **state)
{
    struct rig rig;
    uint32_t t;
    struct ask a = rig_ask(TR_OP_FORECAST);
    struct ask push;
    unsigned pushed = 0;

    (void)state;
    rig_init(&rig);
    rig.config.slice = 8;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 100; i++) {
        (void)rig_push(&rig, t, 3 * HOUR + i * HOUR);
    }
    a.req.topic = t;
    a.req.from_us = rig.now.wall_us + 2 * HOUR;
    a.req.until_us = rig.now.wall_us + 5 * DAY;
    a.req.step_us = HOUR;
    rig_submit(&rig, &a);
    while (a.done == 0) {
        push = rig_ask(TR_OP_PUSH);
        push.req.topic = t;
        push.req.delay_us = 3 * HOUR + pushed * HOUR;
        rig_submit(&rig, &push);
        (void)rig_turn(&rig);
        pushed += push.done != 0 && a.done == 0;
        pushed += push.done != 0 && a.done > push.done;
        if (push.done == 0) {
            rig_settle(&rig);
            pushed++;
        }
    }
    assert_true(pushed > 3);
    assert_true(sum(&a) == 100 + pushed || sum(&a) == 100 + pushed - 1);
    rig_settle(&rig);
    a = ask_for(&rig, t, 6 * DAY, HOUR);
    assert_true(sum(&a) >= 100 + pushed);
    rig_fini(&rig);
}

/* The hours are added up, the seconds are not yet: a job that comes behind all hours counts once.
 */
static void test_forecast_hears_once(void **state)
{
    struct rig rig;
    struct ask a = rig_ask(TR_OP_FORECAST);
    struct ask push = rig_ask(TR_OP_PUSH);
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.slice = 8;
    rig.now.wall_us = (rig.now.wall_us / HOUR + 1) * HOUR + RIG_SECOND; /* an hour has begun */
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 100; i++) {
        (void)rig_push(&rig, t, MINUTE + i * RIG_SECOND);
    }
    a.req.topic = t;
    a.req.until_us = rig.now.wall_us + DAY;
    a.req.step_us = HOUR;
    rig_submit(&rig, &a);
    while (rig.e->forecast.hours.at != UINT64_MAX) {
        (void)rig_turn(&rig);
    }
    assert_int_equal(a.done, 0);
    push.req.topic = t;
    push.req.delay_us = 20 * HOUR;
    rig_submit(&rig, &push);
    rig_settle(&rig);
    assert_int_equal(sum(&a), 101);
    assert_int_equal(count_at(&a, rig.now.wall_us + 20 * HOUR), 1);
    rig_fini(&rig);
}

/* The clock is set back while cells are added up: what lies ahead again is counted. */
static void test_forecast_set_back(void **state)
{
    struct rig rig;
    struct ask a = rig_ask(TR_OP_FORECAST);
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.slice = 8;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 100; i++) {
        (void)rig_push(&rig, t, RIG_SECOND + i * HOUR);
    }
    rig_pass(&rig, 2 * RIG_SECOND);
    a.req.topic = t;
    a.req.until_us = rig.now.wall_us + 5 * DAY;
    a.req.step_us = HOUR;
    rig_submit(&rig, &a);
    while (!rig.e->forecast.begun) {
        (void)rig_turn(&rig);
        assert_int_equal(a.done, 0);
    }
    rig.now.wall_us -= 2 * RIG_SECOND;
    rig_settle(&rig);
    assert_true(a.req.out.forecast.from_us <= rig.now.wall_us);
    assert_int_equal(sum(&a), 99); /* the first one stays ready until somebody wants it */
    rig_fini(&rig);
}

/* It is set back by less than a second: a parked job that was due lies ahead again. */
static void test_forecast_set_back_a_little(void **state)
{
    enum { NOW = 60, QUOTA = 20, LATER = 100 };
    struct rig rig;
    struct ask list = rig_ask(TR_OP_LIST);
    struct ask a = rig_ask(TR_OP_FORECAST);
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig.config.near_min = QUOTA;
    rig.config.near_max = 0;
    rig.config.slice = 8;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    rig_pass(&rig, RIG_SECOND / 2);
    for (unsigned i = 0; i < LATER; i++) {
        (void)rig_push(&rig, t, (2 + i) * HOUR);
    }
    for (unsigned i = 0; i < NOW; i++) {
        (void)rig_push(&rig, t, 0);
    }
    rig_pass(&rig, RIG_SECOND / 8);
    a.req.topic = t;
    a.req.until_us = rig.now.wall_us + 5 * DAY;
    a.req.step_us = HOUR;
    rig_submit(&rig, &a);
    for (unsigned i = 0; !rig.e->forecast.begun && i < 1000; i++) {
        (void)rig_turn(&rig);
    }
    assert_int_equal(a.done, 0);
    rig.now.wall_us -= RIG_SECOND / 4;
    (void)rig_settle(&rig);
    list.req.topic = t;
    list.req.count = 2 * LATER;
    list.req.filter.states = 1U << TR_DELAYED;
    assert_int_equal(rig_do(&rig, &list), TARRY_OK);
    assert_true(list.req.out.number > LATER);
    assert_int_equal(sum(&a), list.req.out.number);
    rig_fini(&rig);
}

/* Jobs that are ready, and due again since the clock was set back, are parked: they are delayed. */
static void test_forecast_parked_ahead(void **state)
{
    enum { AHEAD = 10, NOW = 40, QUOTA = 20 };
    struct rig rig;
    struct ask list = rig_ask(TR_OP_LIST);
    struct ask a;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.near_us = 60 * RIG_SECOND;
    rig.config.near_min = QUOTA;
    rig.config.near_max = 0;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < AHEAD; i++) {
        (void)rig_push(&rig, t, 5 * RIG_SECOND);
    }
    rig_pass(&rig, 6 * RIG_SECOND);
    rig.now.wall_us -= 4 * RIG_SECOND;
    (void)rig_settle(&rig);
    a = ask_for(&rig, t, MINUTE, RIG_SECOND);
    assert_int_equal(sum(&a), 0); /* ready they stay, as long as they are in memory */
    for (unsigned i = 0; i < NOW; i++) {
        (void)rig_push(&rig, t, 0);
    }
    assert_int_equal(rig_engine_stat(&rig).parked, 1);
    list.req.topic = t;
    list.req.count = NOW;
    list.req.filter.states = 1U << TR_DELAYED;
    assert_int_equal(rig_do(&rig, &list), TARRY_OK);
    assert_int_equal(list.req.out.number, AHEAD);
    a = ask_for(&rig, t, MINUTE, RIG_SECOND);
    assert_int_equal(sum(&a), AHEAD);
    rig_pass(&rig, 4 * RIG_SECOND);
    a = ask_for(&rig, t, MINUTE, RIG_SECOND);
    assert_int_equal(sum(&a), 0);
    rig_fini(&rig);
}

/* With too many cells jobs are counted by day, and the answer says so; nobody is lost by it. */
static void test_forecast_by_day(void **state)
{
    struct rig rig;
    uint32_t t;
    struct ask a;

    (void)state;
    rig_init(&rig);
    rig.config.cells_max = 10;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 40; i++) {
        (void)rig_push(&rig, t, DAY + i * HOUR);
    }
    for (unsigned round = 0; round < 2; round++) {
        a = ask_for(&rig, t, 5 * DAY, HOUR);
        assert_int_equal(a.req.out.forecast.resolution_us, DAY);
        assert_int_equal(sum(&a), 40 - round * 30);
        for (uint64_t id = 1; id <= 30 && round == 0; id++) {
            assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
        }
        rig_power_cut(&rig);
        rig_open(&rig);
    }
    for (uint64_t id = 31; id <= 40; id++) {
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    }
    assert_int_equal(rig.e->state.cells.count, 0);
    rig_fini(&rig);
}

/* Nobody has asked for a minute: the table is gone, and nothing wakes the engine. */
static void test_forecast_table_goes(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t used;

    (void)state;
    (void)rig_push(&rig, t, 30 * MINUTE);
    rig_pass(&rig, 100 * RIG_SECOND);
    used = rig.mem.used_bytes;
    (void)ask_for(&rig, t, HOUR, MINUTE);
    assert_true(rig.e->state.fine.on);
    assert_true(rig.mem.used_bytes > used);
    rig_pass(&rig, 61 * RIG_SECOND);
    assert_false(rig.e->state.fine.on);
    assert_true(rig_settle(&rig) > rig.now.boot_us + 10 * MINUTE);
    rig_fini(&rig);
}

/* The window moves on while somebody asks; a clock that is set back begins it anew. */
static void test_forecast_window_moves(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a;

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        (void)rig_push(&rig, t, i * 5 * MINUTE + 50 * RIG_SECOND);
    }
    for (unsigned round = 0; round < 30; round++) {
        a = ask_for(&rig, t, 100 * MINUTE, MINUTE);
        assert_int_equal(a.req.out.forecast.resolution_us, MINUTE);
        assert_int_equal(sum(&a), 20);
        for (unsigned i = 0; i < 12 && round < 29; i++) {
            rig_pass(&rig, 25 * RIG_SECOND);
            (void)ask_for(&rig, t, MINUTE, RIG_SECOND);
        }
    }
    rig.now.wall_us -= HOUR;
    a = ask_for(&rig, t, 2 * HOUR, MINUTE);
    assert_int_equal(sum(&a), 12); /* those that were ready are, until somebody wants them */
    rig_fini(&rig);
}

/* The clock jumps so far ahead that the table's seconds have no number any more. */
static void test_forecast_far_jump(void **state)
{
    struct rig rig;
    struct ask a;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig.config.hour_us = HOUR / 1000;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    (void)rig_push(&rig, t, 3 * RIG_SECOND);
    a = ask_for(&rig, t, 6 * RIG_SECOND, RIG_SECOND);
    assert_int_equal(sum(&a), 1);
    rig.now.wall_us += 30 * DAY; /* 2^31 ms are less than 25 */
    rig_settle(&rig);
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_int_equal(rig.e->clock.t_us, rig.now.wall_us);
    (void)rig_push(&rig, t, 3 * RIG_SECOND);
    assert_true(rig.e->state.fine.on);
    a = ask_for(&rig, t, 6 * RIG_SECOND, RIG_SECOND);
    assert_true(a.req.out.forecast.resolution_us < rig.config.hour_us);
    assert_int_equal(sum(&a), 1);
    assert_int_equal(count_at(&a, rig.now.wall_us + 3 * RIG_SECOND), 1);
    rig_fini(&rig);
}

/* A purge: other rows, a checkpoint in the making, and the sum of all. */
static void test_forecast_purged_row(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint32_t u = rig_hold(&rig, "u");
    struct tr_state *s;
    struct tr_pages pages = {0};
    struct tr_freeze f;
    struct tr_state copy;
    uint8_t uuid[TR_UUID] = {1};
    uint8_t bytes[8 * TR_PAGE];
    unsigned work = 1;
    int err = TARRY_EFULL;

    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        (void)rig_push(&rig, i % 2 == 0 ? t : u, i * HOUR);
    }
    s = &rig.e->state;
    rig_settle(&rig);
    assert_int_equal(s->cells.jobs, 50);
    assert_int_equal(tr_freeze_begin(&f, &pages, s, uuid, 9), TARRY_OK);
    tr_tally_purge(s, tr_topics_by_number(&s->topics, t));
    assert_false(tr_tally_drop(s, &work));
    while (err == TARRY_EFULL) {
        work = 3;
        err = tr_freeze_step(&f, &work);
    }
    assert_int_equal(err, TARRY_OK);
    assert_int_equal(s->cells.jobs, 25);
    assert_int_equal(s->drop_count, 0);
    assert_true(tr_cells_ok(&s->cells));
    assert_true(pages.count * TR_PAGE <= sizeof bytes);
    for (size_t off = 0; off < pages.count * TR_PAGE;) {
        size_t len;
        const uint8_t *at = tr_pages_at(&pages, off, &len);

        memcpy(bytes + off, at, len);
        off += len;
    }
    tr_state_init(&copy, &rig.mem);
    assert_int_equal(tr_checkpoint_load(bytes, pages.count, &copy), TARRY_OK);
    assert_int_equal(copy.cells.jobs, 50); /* as it was when it began */
    assert_true(tr_cells_ok(&copy.cells));
    tr_state_fini(&copy);
    tr_pages_fini(&pages);
    rig_kill(&rig);
    rig_fini(&rig);
}

/* Says in the first page of both checkpoints that there are no cells, as in an older store. */
static void forget_cells(struct rig *rig)
{
    for (unsigned i = 0; i < 2; i++) {
        char name[TR_IO_NAME_MAX] = "ckpt.0";
        uint8_t page[TR_PAGE];

        name[5] = (char)('0' + i);
        if (sim_disk_peek(rig->disk, name, 0, page, TR_PAGE) == TR_PAGE &&
            tr_get_le(page + 20, 4) != 0) {
            tr_put_le(page + 20, 1, 4);
            tr_put_le(page + 4, tr_crc(0, page + 8, TR_PAGE - 8), 4);
            sim_disk_poke(rig->disk, name, 0, page, TR_PAGE);
        }
    }
}

static void test_forecast_older_store(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a;

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        (void)rig_push_body(&rig, t, HOUR + (i * 7919 % 300) * 10 * MINUTE, 1000);
    }
    rig_pass(&rig, 100 * RIG_SECOND);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, 8, 0), TARRY_OK);
    assert_true(rig_engine_stat(&rig).runs > 100);
    rig_close(&rig);
    forget_cells(&rig);
    rig_open(&rig);
    assert_int_equal(rig.e->state.cells.jobs, 299);
    assert_true(tr_cells_ok(&rig.e->state.cells));
    a = ask_for(&rig, 0, 50 * DAY, DAY);
    assert_int_equal(sum(&a), 299);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forecast_resolutions),
        cmocka_unit_test(test_forecast_refuses),
        cmocka_unit_test(test_forecast_follows_changes),
        cmocka_unit_test(test_forecast_minutes_from_runs),
        cmocka_unit_test(test_forecast_hears_of_changes),
        cmocka_unit_test(test_forecast_hears_once),
        cmocka_unit_test(test_forecast_set_back),
        cmocka_unit_test(test_forecast_set_back_a_little),
        cmocka_unit_test(test_forecast_parked_ahead),
        cmocka_unit_test(test_forecast_by_day),
        cmocka_unit_test(test_forecast_table_goes),
        cmocka_unit_test(test_forecast_window_moves),
        cmocka_unit_test(test_forecast_far_jump),
        cmocka_unit_test(test_forecast_purged_row),
        cmocka_unit_test(test_forecast_older_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
