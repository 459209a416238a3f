/* Pages of a topic's jobs, on the simulated disk. */

#include "base/err.h"
#include "engine/inner.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR (3600 * RIG_SECOND)
#define ME UINT64_C(7)

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.far_max = 50;
    rig->config.promote_slots = 2;
    rig_open(rig);
    return rig_hold(rig, "t");
}

/* A list and the page that came. */
struct page {
    struct ask ask;
    struct tr_job_view jobs[TR_LIST_MAX];
};

static void on_done(struct tr_req *r)
{
    struct ask *a = r->ctx;
    struct page *p = (struct page *)a;

    a->done = ++a->rig->asked;
    if (r->out.status == TARRY_OK) {
        memcpy(p->jobs, r->out.jobs, r->out.number * sizeof p->jobs[0]);
    }
}

static void submit(struct rig *rig, struct page *p)
{
    p->ask.rig = rig;
    p->ask.req.ctx = &p->ask;
    p->ask.req.done = on_done;
    tr_engine_submit(rig->e, &p->ask.req, rig->now);
}

static struct page *new_page(uint32_t topic, uint64_t count)
{
    struct page *p = calloc(1, sizeof *p);

    assert_non_null(p);
    p->ask.req = (struct tr_req){.op = TR_OP_LIST, .topic = topic, .count = count};
    return p;
}

static int list(struct rig *rig, struct page *p)
{
    p->ask.done = 0;
    submit(rig, p);
    (void)rig_settle(rig);
    assert_true(p->ask.done);
    return p->ask.req.out.status;
}

/* The next page. False: there is none. */
static bool go_on(struct rig *rig, struct page *p)
{
    p->ask.req.cursor = p->ask.req.out.cursor;
    return p->ask.req.cursor.more && list(rig, p) == TARRY_OK;
}

static void test_list_refuses(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct page *p = new_page(t, 0);

    (void)state;
    assert_int_equal(list(&rig, p), TARRY_EINVAL);
    p->ask.req.count = TR_LIST_MAX + 1;
    assert_int_equal(list(&rig, p), TARRY_EINVAL);
    p->ask.req.count = 10;
    p->ask.req.filter.states = 1U << (TR_DEAD + 1);
    assert_int_equal(list(&rig, p), TARRY_EINVAL);
    p->ask.req.filter.states = 0;
    p->ask.req.topic = t + 1;
    assert_int_equal(list(&rig, p), TARRY_ENOTFOUND);
    p->ask.req.topic = t;
    assert_int_equal(list(&rig, p), TARRY_OK);
    assert_int_equal(p->ask.req.out.number, 0);
    assert_false(p->ask.req.out.cursor.more);
    free(p);
    rig_fini(&rig);
}

/* Each state, by due and id, dead ones last. */
static void test_list_states(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t far = rig_push_body(&rig, t, HOUR, 500);
    uint64_t near = rig_push(&rig, t, 5 * RIG_SECOND);
    uint64_t dead = rig_push(&rig, t, 0);
    uint64_t held;
    uint64_t ready;
    struct page *p = new_page(t, 10);

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, ME), dead);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, dead, ME), TARRY_OK);
    held = rig_push(&rig, t, 0);
    assert_int_equal(rig_reserve(&rig, t, ME), held);
    ready = rig_push(&rig, t, 0);
    (void)rig_push(&rig, rig_hold(&rig, "other"), 0);
    assert_int_equal(list(&rig, p), TARRY_OK);
    assert_int_equal(p->ask.req.out.number, 5);
    assert_int_equal(p->jobs[0].id, held);
    assert_int_equal(p->jobs[0].state, TR_RESERVED);
    assert_int_equal(p->jobs[1].id, ready);
    assert_int_equal(p->jobs[1].state, TR_READY);
    assert_int_equal(p->jobs[2].id, near);
    assert_int_equal(p->jobs[3].id, far);
    assert_int_equal(p->jobs[3].state, TR_DELAYED);
    assert_int_equal(p->jobs[3].priority, 100);
    assert_int_equal(p->jobs[3].body_len, 500);
    assert_int_equal(p->jobs[3].delay_us, HOUR);
    assert_int_equal(p->jobs[3].left_us, HOUR);
    assert_int_equal(p->jobs[4].id, dead);
    assert_int_equal(p->jobs[4].state, TR_DEAD);
    assert_int_equal(rig_engine_stat(&rig).loaded, 0); /* a list brings nobody back */
    p->ask.req.filter.states = 1U << TR_RESERVED | 1U << TR_DEAD;
    assert_int_equal(list(&rig, p), TARRY_OK);
    assert_int_equal(p->ask.req.out.number, 2);
    p->ask.req.filter = (struct tr_filter){.due_from_us = rig.now.wall_us + RIG_SECOND,
                                           .due_to_us = rig.now.wall_us + HOUR};
    assert_int_equal(list(&rig, p), TARRY_OK);
    assert_int_equal(p->ask.req.out.number, 1);
    assert_int_equal(p->jobs[0].id, near);
    free(p);
    rig_fini(&rig);
}

/* Memory, slots and runs, page by page: each job once, in order. */
static void test_list_pages(void **state)
{
    enum { JOBS = 400 };
    static bool seen[2 * JOBS];
    struct rig rig;
    uint32_t t = start(&rig);
    struct page *p = new_page(t, 7);
    uint64_t last = 0;
    unsigned count = 0;

    (void)state;
    memset(seen, 0, sizeof seen);
    for (unsigned i = 0; i < JOBS; i++) {
        (void)rig_push_body(&rig, t, (i * 7919 % JOBS) * 20 * RIG_SECOND, 1000);
    }
    rig_pass(&rig, RIG_SECOND);
    assert_true(rig_engine_stat(&rig).runs > 100);
    assert_true(rig_engine_stat(&rig).far > rig_engine_stat(&rig).runs);
    assert_int_equal(list(&rig, p), TARRY_OK);
    do {
        for (unsigned i = 0; i < p->ask.req.out.number; i++, count++) {
            const struct tr_job_view *v = &p->jobs[i];

            assert_true(v->due_us >= last);
            assert_false(seen[v->id]);
            assert_int_equal(v->body_len, 1000);
            assert_false(v->damaged);
            seen[v->id] = true;
            last = v->due_us;
        }
    } while (go_on(&rig, p));
    assert_int_equal(count, JOBS);
    free(p);
    rig_fini(&rig);
}

static uint64_t push_tagged(struct rig *rig, uint32_t t, const char *tag, uint64_t delay_us)
{
    static const uint8_t body[1000];
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = t;
    a.req.tag = tag;
    a.req.tag_len = strlen(tag);
    a.req.delay_us = delay_us;
    a.req.body = body;
    a.req.body_len = sizeof body;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.job.id;
}

/* All topics, by due time, then the dead by time of death; and only those with a tag. */
static void test_list_all_topics_and_tags(void **state)
{
    enum { JOBS = 300, DEAD = 20 };
    struct rig rig;
    uint32_t topics[2] = {start(&rig), rig_hold(&rig, "u")};

    (void)state;
    for (unsigned i = 0; i < JOBS; i++) {
        (void)push_tagged(&rig, topics[i % 2], i % 3 == 0 ? "x" : "y",
                          (60 + i * 7919 % JOBS * 20) * RIG_SECOND);
    }
    for (unsigned i = 0; i < DEAD; i++) {
        uint64_t id = push_tagged(&rig, topics[i / 2 % 2], i % 2 == 0 ? "x" : "y", 0);

        assert_int_equal(rig_with(&rig, TR_OP_RESERVE_JOB, id, 1), TARRY_OK);
        assert_int_equal(rig_with(&rig, TR_OP_BURY, id, 1), TARRY_OK);
        rig_pass(&rig, RIG_SECOND);
    }
    assert_true(rig_engine_stat(&rig).runs > 50);
    for (unsigned tagged = 0; tagged < 2; tagged++) {
        struct page *p = new_page(0, 7);
        uint64_t last = 0;
        unsigned count = 0;
        bool dead = false;

        p->ask.req.filter.tag = "x";
        p->ask.req.filter.tag_len = tagged;
        assert_int_equal(list(&rig, p), TARRY_OK);
        do {
            assert_true(p->ask.req.out.number <= 7);
            for (unsigned i = 0; i < p->ask.req.out.number; i++, count++) {
                const struct tr_job_view *v = &p->jobs[i];

                last = dead == (v->state == TR_DEAD) ? last : 0;
                dead = v->state == TR_DEAD;
                assert_true((dead ? v->dead_at_us : v->due_us) > last);
                assert_true(v->topic == topics[0] || v->topic == topics[1]);
                last = dead ? v->dead_at_us : v->due_us;
            }
        } while (go_on(&rig, p));
        assert_true(dead);
        assert_int_equal(count, tagged ? JOBS / 3 + DEAD / 2 : JOBS + DEAD);
        free(p);
    }
    rig_fini(&rig);
}

/* Who comes and goes while the page is made. */
static void test_list_hears_of_changes(void **state)
{
    struct rig rig;
    uint32_t t;
    struct page *p;
    uint64_t gone;
    uint64_t last = 0;

    (void)state;
    rig_init(&rig);
    rig.config.slice = 10;
    rig.config.promote_slots = 0;
    rig.config.slots_max = 32;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    gone = rig_push(&rig, t, HOUR);
    for (unsigned i = 0; i < 200; i++) {
        (void)rig_push(&rig, t, 2 * HOUR);
    }
    p = new_page(t, 3);
    submit(&rig, p);
    assert_false(p->ask.done);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, gone, 0), TARRY_OK);
    assert_true(p->ask.done); /* rig_with settles: it is too late */
    assert_int_equal(p->ask.req.out.number, 2);
    assert_true(p->ask.req.out.cursor.more);
    assert_true(p->jobs[0].id < p->jobs[1].id);
    assert_int_not_equal(p->jobs[0].id, gone);
    last = p->jobs[1].id;
    assert_true(go_on(&rig, p));
    assert_true(p->jobs[0].id > last);
    p->ask.done = 0;
    submit(&rig, p);
    tr_engine_abandon(rig.e, &p->ask.req, rig.now);
    (void)rig_settle(&rig);
    assert_false(p->ask.done);
    free(p);
    rig_fini(&rig);
}

/* The index of a group cannot be read: jobs are found in its run; if that cannot be, it is told. */
static void test_list_damaged_index(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct page *p = new_page(t, 1000);
    struct ask bulk = rig_ask(TR_OP_BULK);
    struct ask peek = rig_ask(TR_OP_PEEK_FIRST);
    const struct tr_group *g;
    char name[TR_IO_NAME_MAX];
    uint64_t due = 0;
    unsigned seen = 0;

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        (void)rig_push_body(&rig, t, HOUR + i * 13 % 300 * RIG_SECOND, 1000);
    }
    rig_pass(&rig, RIG_SECOND);
    g = rig.e->groups.order[0];
    assert_true(tr_group_jobs(g) > 20);
    tr_group_name(name, g->is.no, TR_GROUP_SIDE);
    sim_disk_break(rig.disk, name, tr_sidecar_off(&g->side, TR_SIDE_T, 0));
    rig.e->groups.order[0]->stuck = true; /* else its index is made again at once */
    assert_int_equal(list(&rig, p), TARRY_OK);
    assert_int_equal(p->ask.req.out.number, 300);
    assert_false(p->ask.req.out.damaged);
    p->ask.req.count = 7;
    p->ask.req.cursor = (struct tr_cursor){0};
    assert_int_equal(list(&rig, p), TARRY_OK);
    do {
        for (uint64_t i = 0; i < p->ask.req.out.number; i++, seen++) {
            assert_true(p->jobs[i].due_us > due);
            due = p->jobs[i].due_us;
        }
    } while (go_on(&rig, p));
    assert_int_equal(seen, 300);
    bulk.req.topic = t;
    bulk.req.dry_run = true;
    assert_int_equal(rig_do(&rig, &bulk), TARRY_OK);
    assert_int_equal(bulk.req.out.number, 300);
    peek.req.topic = t;
    peek.req.state = TR_DELAYED;
    assert_int_equal(rig_do(&rig, &peek), TARRY_OK);
    assert_true(peek.req.out.damaged);
    tr_group_name(name, g->is.no, TR_GROUP_LIVE);
    sim_disk_break(rig.disk, name, 0);
    p->ask.req.count = 1000;
    p->ask.req.cursor = (struct tr_cursor){0};
    assert_int_equal(list(&rig, p), TARRY_OK);
    assert_true(p->ask.req.out.number < 300);
    assert_true(p->ask.req.out.damaged);
    bulk.done = 0;
    assert_int_equal(rig_do(&rig, &bulk), TARRY_OK);
    assert_true(bulk.req.out.damaged);
    free(p);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_refuses),
        cmocka_unit_test(test_list_states),
        cmocka_unit_test(test_list_all_topics_and_tags),
        cmocka_unit_test(test_list_pages),
        cmocka_unit_test(test_list_hears_of_changes),
        cmocka_unit_test(test_list_damaged_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
