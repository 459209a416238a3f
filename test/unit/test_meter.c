/*
 * Meters: what happens to jobs is counted under the name of their topic; who has a meter of his
 * own, and that nothing that was counted is ever lost.
 */

#include "base/err.h"
#include "base/rng.h"
#include "base/text.h"
#include "rules/meter.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- alone ---- */

struct one {
    char name[16];
    struct tr_meter_hold hold;
    bool there;
};

static void come(struct tr_meters *ms, struct one *o, unsigned i)
{
    tr_text(o->name, sizeof o->name, "t%u", i);
    tr_meters_join(ms, &o->hold, o->name, strlen(o->name));
    o->there = true;
}

static void go(struct tr_meters *ms, struct one *o)
{
    tr_meters_leave(ms, &o->hold);
    o->there = false;
}

/* As tr_topic_count does it. */
static void count(struct tr_meters *ms, struct one *o, enum tr_metered what)
{
    struct tr_meter *m = o->hold.meter;

    if (m->hold != &o->hold) {
        m = tr_meters_seek(ms, &o->hold, o->name, strlen(o->name));
    }
    m->counts[what]++;
}

static const struct tr_meter *seat_of(const struct tr_meters *ms, const struct one *o)
{
    for (unsigned i = 0; i < ms->count; i++) {
        if (ms->seats[i]->name_len == strlen(o->name) &&
            memcmp(ms->seats[i]->name, o->name, strlen(o->name)) == 0) {
            return ms->seats[i];
        }
    }
    return NULL;
}

static void test_meter_outlives_its_topic(void **state)
{
    struct tr_mem mem;
    struct tr_meters ms;
    struct one a;
    struct one twin;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_meters_init(&ms, &mem, 4);
    come(&ms, &a, 1);
    count(&ms, &a, TR_METERED_PUSHED);
    go(&ms, &a);
    assert_int_equal(seat_of(&ms, &a)->counts[TR_METERED_PUSHED], 1);
    come(&ms, &a, 1);
    count(&ms, &a, TR_METERED_PUSHED);
    assert_int_equal(seat_of(&ms, &a)->counts[TR_METERED_PUSHED], 2);
    assert_int_equal(ms.count, 1);
    /* Two of one name, as in a purge: the first one has it, until it goes. */
    come(&ms, &twin, 1);
    count(&ms, &twin, TR_METERED_PUSHED);
    assert_int_equal(ms.other.counts[TR_METERED_PUSHED], 1);
    go(&ms, &a);
    go(&ms, &twin);
    come(&ms, &twin, 1);
    count(&ms, &twin, TR_METERED_PUSHED);
    assert_int_equal(seat_of(&ms, &twin)->counts[TR_METERED_PUSHED], 3);
    assert_true(tr_meters_ok(&ms));
    tr_meters_fini(&ms);
    assert_int_equal(mem.used_bytes, 0);
}

/* The name of all others is nobody's. */
static void test_meter_other_is_no_name(void **state)
{
    struct tr_mem mem;
    struct tr_meters ms;
    struct one o = {.name = "_other"};

    (void)state;
    tr_mem_init(&mem, 0);
    tr_meters_init(&ms, &mem, 4);
    tr_meters_join(&ms, &o.hold, o.name, strlen(o.name));
    for (unsigned i = 0; i < 100; i++) {
        count(&ms, &o, TR_METERED_PUSHED);
    }
    assert_int_equal(ms.count, 0);
    assert_int_equal(ms.other.counts[TR_METERED_PUSHED], 100);
    assert_true(tr_meters_ok(&ms));
    tr_meters_fini(&ms);
    assert_int_equal(mem.used_bytes, 0);
}

/* Who is busy gets the meter of one who is not, and what that one had is not lost. */
static void test_meter_goes_to_the_busiest(void **state)
{
    enum { SEATS = 20, TOPICS = 30 };
    struct one ones[TOPICS];
    struct tr_mem mem;
    struct tr_meters ms;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_meters_init(&ms, &mem, SEATS);
    for (unsigned i = 0; i < TOPICS; i++) {
        come(&ms, &ones[i], i);
        count(&ms, &ones[i], TR_METERED_PUSHED);
    }
    assert_int_equal(ms.count, SEATS);
    assert_int_equal(ms.other.counts[TR_METERED_PUSHED], TOPICS - SEATS);
    for (unsigned i = SEATS; i < TOPICS; i++) {
        for (unsigned n = 0; n < 50; n++) {
            count(&ms, &ones[i], TR_METERED_PUSHED);
        }
        assert_non_null(seat_of(&ms, &ones[i]));
    }
    assert_int_equal(ms.count, SEATS);
    assert_int_equal(tr_meters_sum(&ms, TR_METERED_PUSHED), TOPICS + 50 * (TOPICS - SEATS));
    assert_true(tr_meters_ok(&ms));
    /* Equals do not take from each other. */
    for (unsigned n = 0; n < 1000; n++) {
        for (unsigned i = 0; i < TOPICS; i++) {
            count(&ms, &ones[i], TR_METERED_ACKED);
        }
    }
    assert_in_range(ms.swaps, TOPICS - SEATS, TOPICS - SEATS + 5);
    tr_meters_fini(&ms);
    assert_int_equal(mem.used_bytes, 0);
}

/* While somebody looks, all stay where they are. */
static void test_meter_stays_while_looked_at(void **state)
{
    struct one ones[3];
    struct tr_mem mem;
    struct tr_meters ms;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_meters_init(&ms, &mem, 1);
    for (unsigned i = 0; i < 3; i++) {
        come(&ms, &ones[i], i);
    }
    tr_meters_look(&ms, true);
    for (unsigned n = 0; n < 1000; n++) {
        count(&ms, &ones[1], TR_METERED_PUSHED);
    }
    assert_non_null(seat_of(&ms, &ones[0]));
    for (unsigned n = 0; n < 4000; n++) {
        count(&ms, &ones[1], TR_METERED_PUSHED);
    }
    assert_non_null(seat_of(&ms, &ones[1]));
    tr_meters_fini(&ms);
}

/* Somebody looks again and again, as often as little happens: it is seen all the same who is busy.
 */
static void test_meter_moves_between_looks(void **state)
{
    enum { SEATS = 40, TOPICS = 50, EVENTS = 24 };
    struct one ones[TOPICS];
    struct tr_mem mem;
    struct tr_meters ms;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_meters_init(&ms, &mem, SEATS);
    for (unsigned i = 0; i < TOPICS; i++) {
        come(&ms, &ones[i], i);
        for (unsigned n = 0; n < 100; n++) {
            count(&ms, &ones[i], TR_METERED_PUSHED);
        }
    }
    for (unsigned n = 0; n < 100; n++) { /* 40 seats cool down, the busy one is heard of */
        for (unsigned k = 0; k < EVENTS; k++) {
            count(&ms, &ones[TOPICS - 1], TR_METERED_PUSHED);
        }
        tr_meters_look(&ms, true);
        tr_meters_look(&ms, false);
        tr_meters_looked(&ms);
    }
    assert_non_null(seat_of(&ms, &ones[TOPICS - 1]));
    assert_int_equal(tr_meters_sum(&ms, TR_METERED_PUSHED), 100 * TOPICS + 100 * EVENTS);
    assert_true(tr_meters_ok(&ms));
    tr_meters_fini(&ms);
    assert_int_equal(mem.used_bytes, 0);
}

static void hear(struct tr_meters *ms, struct one *o, unsigned times)
{
    for (unsigned n = 0; n < times; n++) {
        count(ms, o, TR_METERED_PUSHED);
    }
}

/* Two look at once: when one has seen all, the other has not. */
static void test_meter_stays_for_both(void **state)
{
    struct one ones[2];
    struct tr_mem mem;
    struct tr_meters ms;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_meters_init(&ms, &mem, 1);
    come(&ms, &ones[0], 0);
    come(&ms, &ones[1], 1);
    tr_meters_look(&ms, true);
    tr_meters_look(&ms, true);
    tr_meters_looked(&ms);
    hear(&ms, &ones[1], 500);
    assert_non_null(seat_of(&ms, &ones[0]));
    tr_meters_looked(&ms);
    hear(&ms, &ones[1], 8);
    assert_non_null(seat_of(&ms, &ones[1]));
    tr_meters_fini(&ms);
}

/* Somebody who goes away in the middle is forgotten after a few others. */
static void test_meter_forgets_who_went_away(void **state)
{
    struct one ones[2];
    struct tr_mem mem;
    struct tr_meters ms;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_meters_init(&ms, &mem, 1);
    come(&ms, &ones[0], 0);
    come(&ms, &ones[1], 1);
    tr_meters_look(&ms, true);
    for (unsigned n = 0; n < 10; n++) {
        hear(&ms, &ones[1], 20);
        tr_meters_look(&ms, true);
        tr_meters_looked(&ms);
    }
    assert_non_null(seat_of(&ms, &ones[1]));
    tr_meters_fini(&ms);
}

/* Who has lost his meter gets none before the next look: there he is missing. */
static void test_meter_does_not_come_back_at_once(void **state)
{
    struct one ones[2];
    struct tr_mem mem;
    struct tr_meters ms;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_meters_init(&ms, &mem, 1);
    come(&ms, &ones[0], 0);
    come(&ms, &ones[1], 1);
    hear(&ms, &ones[0], 5);
    for (unsigned n = 0; n < 2; n++) {
        tr_meters_look(&ms, true);
        tr_meters_looked(&ms);
        hear(&ms, &ones[1 - n], 1000);
        assert_non_null(seat_of(&ms, &ones[1 - n]));
        hear(&ms, &ones[n], 10000);
        assert_null(seat_of(&ms, &ones[n]));
    }
    tr_meters_fini(&ms);
}

/* Topics come, go and are busy at random: no count of a name that is shown goes down, and all
 * together are what has happened. Memory fails now and then. */
static void test_meter_model(void **state)
{
    enum { TOPICS = 60, STEPS = 200000 };
    static struct one ones[TOPICS];
    static uint64_t last[TOPICS];
    struct tr_rng rng = {.state = 7};
    struct tr_mem mem;
    struct tr_meters ms;
    uint64_t all = 0;
    uint64_t others = 0;
    unsigned swaps = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_meters_init(&ms, &mem, 16);
    for (unsigned n = 0; n < STEPS; n++) {
        unsigned i = (unsigned)(tr_rng_next(&rng) % TOPICS);

        i = tr_rng_next(&rng) % 4 != 0 ? i % (5 + n / 20000) : i; /* some are busier, in turn */
        mem.fail_at = tr_rng_next(&rng) % 50 == 0 ? mem.calls + 1 : 0;
        if (!ones[i].there) {
            come(&ms, &ones[i], i);
        } else if (tr_rng_next(&rng) % 50 == 0) {
            go(&ms, &ones[i]);
        } else {
            count(&ms, &ones[i], TR_METERED_HANDED);
            all++;
        }
        if (n % 300 == 0) {
            swaps += ms.swaps;
            tr_meters_look(&ms, true);
        } else if (n % 300 == 70 && n % 900 != 70) { /* each third one goes away */
            tr_meters_looked(&ms);
        }
        if (n % 100 == 0) {
            assert_true(tr_meters_ok(&ms));
            assert_true(tr_meters_sum(&ms, TR_METERED_HANDED) == all);
            assert_true(ms.other.counts[TR_METERED_HANDED] >= others);
            others = ms.other.counts[TR_METERED_HANDED];
            for (unsigned t = 0; t < TOPICS; t++) {
                const struct tr_meter *m = ones[t].name[0] != '\0' ? seat_of(&ms, &ones[t]) : NULL;

                assert_true(m == NULL || m->counts[TR_METERED_HANDED] >= last[t]);
                last[t] = m != NULL ? m->counts[TR_METERED_HANDED] : 0;
            }
        }
    }
    assert_in_range(swaps, 1, STEPS);
    tr_meters_fini(&ms);
    assert_int_equal(mem.used_bytes, 0);
}

/* ---- in the engine ---- */

static struct tr_meter_view view(struct rig *rig, const char *name)
{
    static struct tr_meter_view views[TR_METER_VIEWS];
    unsigned from = 0;
    unsigned n;

    tr_engine_meters_begin(rig->e);
    do {
        n = tr_engine_meters(rig->e, from, true, views);
        for (unsigned i = 0; i < n; i++) {
            if (views[i].name_len == strlen(name) &&
                memcmp(views[i].name, name, views[i].name_len) == 0) {
                return views[i];
            }
        }
        from += n;
    } while (n > 0 && !views[n - 1].other);
    fail_msg("no meter of %s", name);
    return views[0];
}

static uint64_t counted(struct rig *rig, const char *name, enum tr_metered what)
{
    return view(rig, name).counts[what];
}

static void assert_counts(struct rig *rig, const char *name, const uint64_t want[TR_METERED_COUNT])
{
    struct tr_meter_view v = view(rig, name);

    for (unsigned i = 0; i < TR_METERED_COUNT; i++) {
        if (v.counts[i] != want[i]) {
            fail_msg("%s: count %u is %u, not %u", name, i, (unsigned)v.counts[i],
                     (unsigned)want[i]);
        }
    }
}

static void test_meter_counts_what_happens(void **state)
{
    struct tr_policy p = tr_policy_default();
    struct rig rig;
    uint32_t t;
    uint64_t id;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    id = rig_push(&rig, t, 0);
    (void)rig_push(&rig, t, RIG_SECOND);
    rig_pass(&rig, 3 * RIG_SECOND); /* one fires */
    assert_int_equal(rig_reserve(&rig, t, 5), id);
    assert_int_equal(rig_with(&rig, TR_OP_RELEASE, id, 5), TARRY_OK);
    assert_int_equal(rig_reserve(&rig, t, 5), id);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 5), TARRY_OK); /* acked */
    id = rig_reserve(&rig, t, 5);
    rig_pass(&rig, RIG_TTR_US + RIG_SECOND); /* its lease runs out */
    assert_int_equal(rig_reserve(&rig, t, 6), id);
    assert_int_equal(rig_with(&rig, TR_OP_CLOSE, 0, 6), TARRY_OK); /* its connection goes */
    assert_int_equal(rig_reserve(&rig, t, 7), id);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, id, 7), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_KICK_JOB, id, 7), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 8), TARRY_OK); /* cancelled */
    p.ttl_us = RIG_SECOND;
    rig_policy(&rig, t, &p, TR_POLICY_BIT(TTL));
    id = rig_push(&rig, t, 10 * RIG_SECOND);
    assert_int_equal(rig_with(&rig, TR_OP_FIRE, id, 0), TARRY_OK);
    rig_pass(&rig, 2 * RIG_SECOND); /* it expires */
    assert_int_equal(rig_state(&rig, id), TR_DEAD);
    p.dead_max = 0;
    rig_policy(&rig, t, &p, TR_POLICY_BIT(DEAD_MAX));
    rig_settle(&rig);
    assert_int_equal(rig_state(&rig, id), 0); /* and is dropped */
    assert_counts(&rig, "t",
                  (const uint64_t[TR_METERED_COUNT]){[TR_METERED_PUSHED] = 3,
                                                     [TR_METERED_FIRED] = 2,
                                                     [TR_METERED_HANDED] = 5,
                                                     [TR_METERED_ACKED] = 1,
                                                     [TR_METERED_RETRIED] = 3,
                                                     [TR_METERED_DEAD] = 2,
                                                     [TR_METERED_CANCELLED] = 1,
                                                     [TR_METERED_EXPIRED] = 1,
                                                     [TR_METERED_DROPPED] = 1});
    assert_true(tr_engine_ok(rig.e));
    rig_fini(&rig);
}

static void test_meter_lateness_and_wait(void **state)
{
    struct tr_meter_view v;
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    (void)rig_push(&rig, t, RIG_SECOND);
    (void)rig_push(&rig, t, RIG_SECOND);
    rig.now.wall_us += RIG_SECOND + 400; /* the turn comes 0.4 ms late */
    rig.now.boot_us += RIG_SECOND + 400;
    rig_settle(&rig);
    v = view(&rig, "t");
    assert_int_equal(tr_hist_total(v.late), 2);
    assert_int_equal(v.late->counts[2], 2); /* above 0.25, up to 0.5 ms */
    assert_int_equal(v.late->sum, 800);
    assert_int_equal(v.jobs[TR_READY], 2);
    rig_pass(&rig, 30 * RIG_SECOND);
    assert_true(view(&rig, "t").ready_for_us == 30 * RIG_SECOND);
    assert_int_not_equal(rig_reserve(&rig, t, 5), 0);
    v = view(&rig, "t");
    assert_int_equal(tr_hist_total(v.wait), 1);
    assert_int_equal(v.wait->counts[11], 1); /* above 10 s, up to a minute */
    assert_true(v.wait->sum == 30 * RIG_SECOND);
    assert_int_equal(v.jobs[TR_RESERVED], 1);
    rig_fini(&rig);
}

/* Purged jobs are cancelled; the topic goes on counting, also when it was gone in between. */
static void test_meter_purge_and_return(void **state)
{
    struct ask a = rig_ask(TR_OP_PURGE);
    struct rig rig;
    uint32_t t;
    uint64_t id;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 10; i++) {
        (void)rig_push(&rig, t, i % 2 * RIG_SECOND * 1000);
    }
    a.req.topic = t;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.number, 10);
    rig_pass(&rig, 10 * RIG_SECOND);
    assert_int_equal(counted(&rig, "t", TR_METERED_CANCELLED), 10);
    assert_int_equal(view(&rig, "t").jobs[TR_DELAYED], 0);
    id = rig_push(&rig, t, 0);
    a = rig_ask(TR_OP_DROP_TOPIC);
    a.req.topic = t;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 9), TARRY_OK); /* the last one */
    rig_settle(&rig);
    assert_int_equal(rig_engine_stat(&rig).topics, 0);
    assert_int_equal(counted(&rig, "t", TR_METERED_PUSHED), 11);
    t = rig_hold(&rig, "t");
    (void)rig_push(&rig, t, 0);
    assert_int_equal(counted(&rig, "t", TR_METERED_PUSHED), 12);
    assert_int_equal(counted(&rig, "t", TR_METERED_CANCELLED), 11);
    rig_fini(&rig);
}

/* More topics than meters: the last view has all jobs, and the counts of the rest. */
static void test_meter_rest_is_other(void **state)
{
    enum { TOPICS = 50 };
    struct tr_meter_view views[TR_METER_VIEWS];
    uint64_t shown = 0;
    uint64_t pushed = 0;
    unsigned from = 0;
    struct rig rig;
    unsigned n;

    (void)state;
    rig_init(&rig);
    rig.config.meters = 40;
    rig_open(&rig);
    for (unsigned i = 0; i < TOPICS; i++) {
        char name[16];

        tr_text(name, sizeof name, "t%u", i);
        (void)rig_push(&rig, rig_hold(&rig, name), 0);
    }
    tr_engine_meters_begin(rig.e);
    do {
        n = tr_engine_meters(rig.e, from, false, views);
        assert_true(n > 0);
        for (unsigned i = 0; i < n && !views[i].other; i++) {
            shown += views[i].jobs[TR_READY];
        }
        for (unsigned i = 0; i < n; i++) {
            pushed += views[i].counts[TR_METERED_PUSHED];
        }
        from += n;
    } while (!views[n - 1].other);
    assert_int_equal(from, 41);
    assert_int_equal(shown, 40);
    assert_int_equal(pushed, TOPICS);
    assert_int_equal(views[n - 1].jobs[TR_READY], TOPICS);
    assert_int_equal(views[n - 1].counts[TR_METERED_PUSHED], 10);
    assert_int_equal(tr_engine_meters(rig.e, from, false, views), 0);
    rig_fini(&rig);
}

/* The next due time, wherever the job is, also after a start; nobody waits for it. */
static void test_meter_next_due(void **state)
{
    struct rig rig;
    uint64_t first;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    assert_int_equal(view(&rig, "t").next_due_us, 0);
    first = rig_push(&rig, t, 3600 * RIG_SECOND);
    (void)rig_push(&rig, t, 7200 * RIG_SECOND);
    rig_settle(&rig);
    assert_true(view(&rig, "t").next_due_us == RIG_WALL_US + 3600 * RIG_SECOND);
    rig_close(&rig);
    rig_open(&rig);
    (void)view(&rig, "t"); /* if it is not known it is looked for */
    rig_settle(&rig);
    assert_true(view(&rig, "t").next_due_us == RIG_WALL_US + 3600 * RIG_SECOND);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, first, 9), TARRY_OK);
    (void)view(&rig, "t");
    rig_settle(&rig);
    assert_true(view(&rig, "t").next_due_us == RIG_WALL_US + 7200 * RIG_SECOND);
    (void)rig_push(&rig, rig_hold(&rig, "t"), 5 * RIG_SECOND);
    assert_true(view(&rig, "t").next_due_us == rig.now.wall_us + 5 * RIG_SECOND);
    rig_fini(&rig);
}

static void test_meter_gauges(void **state)
{
    struct tr_engine_gauges g;
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    for (unsigned i = 0; i < 5; i++) {
        (void)rig_push(&rig, t, 0);
    }
    rig_settle(&rig);
    tr_engine_gauges(rig.e, &g);
    assert_true(tr_hist_total(g.commit) > 0);
    assert_int_equal(tr_hist_total(g.commit), tr_hist_total(g.gate));
    assert_int_equal(tr_hist_total(g.commit), tr_hist_total(g.batch));
    assert_true(g.batch->sum >= 5);
    assert_true(g.live_bytes > 0 && g.live_bytes < 1000);
    assert_true(g.disk_bytes >= rig_engine_stat(&rig).slots * rig_engine_stat(&rig).slot_bytes);
    assert_int_equal(g.loader_lag_us, 0);
    assert_int_equal(g.debt, 0);
    assert_int_equal(g.clock_us, 0);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meter_outlives_its_topic),
        cmocka_unit_test(test_meter_other_is_no_name),
        cmocka_unit_test(test_meter_goes_to_the_busiest),
        cmocka_unit_test(test_meter_stays_while_looked_at),
        cmocka_unit_test(test_meter_moves_between_looks),
        cmocka_unit_test(test_meter_stays_for_both),
        cmocka_unit_test(test_meter_forgets_who_went_away),
        cmocka_unit_test(test_meter_does_not_come_back_at_once),
        cmocka_unit_test(test_meter_model),
        cmocka_unit_test(test_meter_counts_what_happens),
        cmocka_unit_test(test_meter_lateness_and_wait),
        cmocka_unit_test(test_meter_purge_and_return),
        cmocka_unit_test(test_meter_rest_is_other),
        cmocka_unit_test(test_meter_next_due),
        cmocka_unit_test(test_meter_gauges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
