/*
 * Checkpoint pages: a state frozen and loaded is the same state; damage is found page by page.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/rng.h"
#include "engine/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 12 };

static const uint8_t uuid[TR_UUID] = "the store itself";

static void add_topic(struct tr_state *s, uint32_t number)
{
    struct tr_topic *t;
    char name[16];
    size_t len = (size_t)snprintf(name, sizeof name, "topic%u", number);

    assert_int_equal(tr_topics_add(&s->topics, number, name, len, &t), TARRY_OK);
    t->logged = true;
    t->next_dead_seq = 100 + number; /* its dead may be gone: the count goes on */
}

static void set_policy(struct tr_state *s, uint32_t number, struct tr_rng *rng)
{
    static const char text[TR_POLICY_DELIVER_MAX] = "somewhere";
    struct tr_policy any = tr_policy_default();
    struct tr_policy p = tr_policy_default();
    uint8_t bytes[TR_POLICY_BYTES_MAX];
    struct tr_record rec = {.type = TR_REC_POLICY, .topic = number, .body = {bytes, 0}};
    struct tr_job *none;

    any.given = TR_POLICY_BIT(TTR) | TR_POLICY_BIT(DELIVER);
    any.ttr_us = 1 + tr_rng_below(rng, 1000);
    any.deliver = text;
    any.deliver_len = (size_t)tr_rng_below(rng, sizeof text);
    tr_policy_change(&p, &any, (unsigned)tr_rng_next(rng) & TR_POLICY_ALL);
    rec.body.len = tr_policy_encode(bytes, &p);
    assert_int_equal(tr_state_apply(s, &rec, 1, &none), TARRY_OK);
}

static struct tr_job *push(struct tr_state *s, uint64_t rid, uint32_t topic)
{
    struct tr_record rec = {.type = TR_REC_PUSH,
                            .mask = TR_FIELD(DUE) | TR_FIELD(TOPIC) | TR_FIELD(TTR),
                            .rid = rid,
                            .due_us = rid * 3,
                            .topic = topic,
                            .ttr_us = 9};
    struct tr_job *job;

    assert_int_equal(tr_state_apply(s, &rec, 1, &job), TARRY_OK);
    return job;
}

/* Jobs of all densities: one alone, a dense block, a sparse one; every third is altered. */
static void furnish(struct tr_state *s, struct tr_mem *mem, unsigned jobs)
{
    struct tr_rng rng = {jobs};
    uint64_t rid = 0;

    tr_state_init(s, mem);
    for (uint32_t t = 1; t <= 40; t++) {
        add_topic(s, t);
        if (t % 4 == 0) {
            set_policy(s, t, &rng);
        }
    }
    for (unsigned i = 0; i < jobs; i++) {
        struct tr_job *job;

        rid += i < jobs / 2 ? 1 + tr_rng_below(&rng, 2) : 1 + tr_rng_below(&rng, 3000);
        job = push(s, rid, 1 + (uint32_t)tr_rng_below(&rng, 39));
        if (i % 3 == 0) {
            struct tr_record rec = {.type = TR_REC_ALTER,
                                    .mask = TR_FIELD(PRIORITY) | TR_FIELD(LEASE) | TR_FIELD(DEAD),
                                    .rid = rid,
                                    .priority = i};

            rec.lease.epoch = i % 2;
            rec.lease.number = i % 2 * 5;
            rec.lease.end_us = i % 2 * UINT64_C(99999999999);
            rec.dead.seq = i % 5;
            assert_int_equal(tr_state_apply(s, &rec, 1, &job), TARRY_OK);
        }
    }
}

/* The pages as they are in a file; freed by the caller. */
static uint8_t *flatten(const struct tr_pages *p)
{
    uint8_t *bytes = malloc(p->count * TR_PAGE);
    size_t len;

    assert_non_null(bytes);
    for (size_t off = 0; off < p->count * TR_PAGE; off += len) {
        const uint8_t *at = tr_pages_at(p, off, &len);

        memcpy(bytes + off, at, len);
    }
    return bytes;
}

/* What a replay does: the bits and topics, then the records, then the changes. */
static void reload(const struct tr_pages *p, const struct tr_state *from, struct tr_state *to,
                   struct tr_mem *mem)
{
    const struct tr_job *job;
    uint8_t *bytes = flatten(p);
    size_t at = 0;

    tr_state_init(to, mem);
    assert_int_equal(tr_checkpoint_load(bytes, p->count, to), TARRY_OK);
    to->replaying = true;
    while ((job = tr_jobs_next(&from->jobs, &at)) != NULL) {
        struct tr_record rec = {.type = TR_REC_PUSH,
                                .mask = TR_FIELD(DUE) | TR_FIELD(TOPIC) | TR_FIELD(TTR),
                                .rid = job->rid,
                                .due_us = job->due_us,
                                .topic = job->topic->number,
                                .ttr_us = 9};
        struct tr_job *met;

        assert_int_equal(tr_state_meet(to, &rec, &met), TARRY_OK);
        assert_non_null(met);
    }
    assert_int_equal(tr_checkpoint_load_changes(bytes, p->count, to), TARRY_OK);
    to->replaying = false;
    free(bytes);
}

static void check_same_policy(const struct tr_topic *a, const struct tr_topic *b)
{
    uint8_t x[TR_POLICY_BYTES_MAX];
    uint8_t y[TR_POLICY_BYTES_MAX];
    size_t len = tr_policy_encode(x, tr_topic_policy(a));

    assert_int_equal(a->policy == NULL, b->policy == NULL);
    assert_int_equal(tr_policy_encode(y, tr_topic_policy(b)), len);
    assert_memory_equal(x, y, len);
}

static void check_same(const struct tr_state *a, const struct tr_state *b)
{
    const struct tr_job *job;
    size_t at = 0;

    assert_int_equal(a->next_rid, b->next_rid);
    assert_int_equal(a->jobs.count, b->jobs.count);
    assert_int_equal(a->jobs.altered, b->jobs.altered);
    assert_int_equal(a->jobs.alive.members, b->jobs.alive.members);
    assert_int_equal(a->topics.next_number, b->topics.next_number);
    for (uint32_t number = 1; number <= a->topics.count; number++) {
        assert_int_equal(tr_topics_by_number(&a->topics, number)->next_dead_seq,
                         tr_topics_by_number(&b->topics, number)->next_dead_seq);
        check_same_policy(tr_topics_by_number(&a->topics, number),
                          tr_topics_by_number(&b->topics, number));
    }
    while ((job = tr_jobs_next(&a->jobs, &at)) != NULL) {
        const struct tr_job *twin = tr_jobs_by_rid(&b->jobs, job->rid);

        assert_non_null(twin);
        assert_int_equal(twin->due_us, job->due_us);
        assert_int_equal(twin->priority, job->priority);
        assert_int_equal(twin->lease, job->lease);
        assert_int_equal(twin->lease_end_us, job->lease_end_us);
        assert_int_equal(twin->dead_seq, job->dead_seq);
        assert_int_equal(twin->altered, job->altered);
    }
}

static void test_checkpoint_gives_state_back(void **state)
{
    static const unsigned sizes[] = {0, 1, 2, 50, 9000};

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        struct tr_mem mem;
        struct tr_state s;
        struct tr_state again;
        struct tr_pages p = {0};
        uint8_t *bytes;
        size_t bad;

        tr_mem_init(&mem, 0);
        furnish(&s, &mem, sizes[i]);
        assert_int_equal(tr_checkpoint_freeze(&p, &s, uuid, BATCH), TARRY_OK);
        assert_true(p.count * TR_PAGE <= tr_checkpoint_bound(&s, 0));
        bytes = flatten(&p);
        assert_int_equal(tr_checkpoint_pages(bytes, uuid, BATCH), p.count);
        assert_int_equal(tr_checkpoint_check(bytes, p.count, BATCH, &bad), TARRY_OK);
        free(bytes);
        reload(&p, &s, &again, &mem);
        check_same(&s, &again);
        assert_true(tr_state_ok(&again));
        tr_pages_fini(&p);
        tr_state_fini(&s);
        tr_state_fini(&again);
        assert_int_equal(mem.used_bytes, 0);
    }
}

/* Any job, or NULL. */
static struct tr_job *some_job(const struct tr_state *s, struct tr_rng *rng)
{
    struct tr_job *found = NULL;
    struct tr_job *job;
    uint64_t count = 0;
    size_t at = 0;

    while ((job = tr_jobs_next(&s->jobs, &at)) != NULL) {
        if (tr_rng_below(rng, ++count) == 0) {
            found = job;
        }
    }
    return found;
}

/* Does one thing that a running engine might do. */
static void change(struct tr_state *s, struct tr_rng *rng)
{
    struct tr_job *job = some_job(s, rng);
    struct tr_topic *t = tr_topics_after(&s->topics, (uint32_t)tr_rng_below(rng, 40));
    struct tr_record rec = {.mask = TR_FIELD(DUE) | TR_FIELD(PRIORITY) | TR_FIELD(TTR),
                            .due_us = 77,
                            .priority = (uint32_t)tr_rng_next(rng)};
    struct tr_job *same;
    struct tr_kill kill;

    if (t != NULL && tr_rng_below(rng, 3) == 0) {
        set_policy(s, t->number, rng);
    } else if (t != NULL && !tr_topic_needed(t)) {
        tr_state_remove_topic(s, t);
    }
    if (job == NULL) {
        return;
    }
    rec.rid = job->rid;
    rec.topic = job->topic->number;
    switch (tr_rng_below(rng, 5)) {
    case 0:
        rec.type = TR_REC_ALTER;
        break;
    case 1:
        rec.type = TR_REC_RELOG;
        rec.mask |= TR_FIELD(TOPIC);
        break;
    case 2:
        rec.type = TR_REC_MOVE;
        rec.mask |= TR_FIELD(TOPIC) | TR_FIELD(OLD) | TR_FIELD(ID);
        rec.id = job->id;
        rec.old = tr_tally_kill(job);
        rec.rid = s->next_rid;
        break;
    case 3:
        (void)push(s, s->next_rid, rec.topic);
        return;
    default:
        kill = tr_tally_kill(job);
        assert_true(tr_state_kill(s, &kill, 2));
        return;
    }
    assert_int_equal(tr_state_apply(s, &rec, 2, &same), TARRY_OK);
}

/* While the pages are made the state changes: they show it as it was when that began. */
static void test_checkpoint_is_frozen(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct tr_rng rng = {seed};
        unsigned jobs = (unsigned)tr_rng_below(&rng, 400);
        struct tr_mem mem;
        struct tr_state s;
        struct tr_state twin;
        struct tr_state again;
        struct tr_freeze f;
        struct tr_pages p = {0};
        int err = TARRY_EFULL;

        tr_mem_init(&mem, 0);
        furnish(&s, &mem, jobs);
        furnish(&twin, &mem, jobs);
        assert_int_equal(tr_freeze_begin(&f, &p, &s, uuid, BATCH), TARRY_OK);
        while (err == TARRY_EFULL) {
            unsigned work = (unsigned)tr_rng_below(&rng, 30);

            for (uint64_t i = tr_rng_below(&rng, 8); i > 0; i--) {
                change(&s, &rng);
            }
            err = tr_freeze_step(&f, &work);
        }
        assert_int_equal(err, TARRY_OK);
        assert_null(s.freeze);
        for (unsigned i = 0; i < 20; i++) {
            change(&s, &rng);
        }
        assert_true(tr_state_ok(&s));
        assert_true(p.count * TR_PAGE <= tr_checkpoint_bound(&twin, 0));
        reload(&p, &twin, &again, &mem);
        check_same(&twin, &again);
        tr_pages_fini(&p);
        tr_state_fini(&s);
        tr_state_fini(&twin);
        tr_state_fini(&again);
        assert_int_equal(mem.used_bytes, 0);
    }
}

/* Also when it is a change that finds no memory. */
static void test_checkpoint_frozen_without_memory(void **state)
{
    unsigned failed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct tr_rng rng = {seed};
        struct tr_mem mem;
        struct tr_state s;
        struct tr_freeze f;
        struct tr_pages p = {0};
        int err = TARRY_EFULL;

        tr_mem_init(&mem, 0);
        furnish(&s, &mem, 300);
        assert_int_equal(tr_freeze_begin(&f, &p, &s, uuid, BATCH), TARRY_OK);
        for (unsigned step = 0; err == TARRY_EFULL; step++) {
            const struct tr_job *job = some_job(&s, &rng);
            unsigned work = 20;

            mem.fail_at = step == seed % 16 ? mem.calls + 1 : 0;
            mem.fail_on = step == seed % 16;
            for (unsigned i = 0; i < 8 && job != NULL; i++) {
                struct tr_kill kill = tr_tally_kill(job);

                assert_true(tr_state_kill(&s, &kill, 2)); /* this never fails */
                job = some_job(&s, &rng);
            }
            mem.fail_at = 0;
            err = tr_freeze_step(&f, &work);
        }
        assert_true(err == TARRY_OK || (err == TARRY_ENOMEM && p.count == 0));
        failed += err != TARRY_OK;
        tr_pages_fini(&p);
        tr_state_fini(&s);
        assert_int_equal(mem.used_bytes, 0);
    }
    assert_true(failed > 10);
}

static void test_checkpoint_damage_is_found(void **state)
{
    struct tr_mem mem;
    struct tr_state s;
    struct tr_pages p = {0};
    uint8_t *bytes;
    size_t bad;

    (void)state;
    tr_mem_init(&mem, 0);
    furnish(&s, &mem, 300);
    assert_int_equal(tr_checkpoint_freeze(&p, &s, uuid, BATCH), TARRY_OK);
    assert_true(p.count >= 3);
    bytes = flatten(&p);
    for (size_t i = 0; i < p.count * TR_PAGE; i += 37) {
        bytes[i] ^= 4;
        assert_int_equal(tr_checkpoint_check(bytes, p.count, BATCH, &bad), TARRY_EDAMAGED);
        assert_int_equal(bad, i / TR_PAGE);
        bytes[i] ^= 4;
    }
    assert_int_equal(tr_checkpoint_check(bytes, p.count, BATCH + 1, &bad), TARRY_EDAMAGED);
    assert_int_equal(tr_checkpoint_pages(bytes, uuid, BATCH + 1), 0);
    assert_int_equal(tr_checkpoint_pages(bytes, (const uint8_t *)"another store...", BATCH), 0);
    memcpy(bytes + TR_PAGE, bytes + (size_t)2 * TR_PAGE, TR_PAGE); /* a page at a wrong place */
    assert_int_equal(tr_checkpoint_check(bytes, p.count, BATCH, &bad), TARRY_EDAMAGED);
    assert_int_equal(bad, 1);
    bytes[9] = TR_FORMAT_VERSION + 1;
    tr_put_le(bytes + 4, tr_crc(0, bytes + 8, TR_PAGE - 8), 4);
    assert_int_equal(tr_checkpoint_check(bytes, 1, BATCH, &bad), TARRY_EVERSION);
    free(bytes);
    tr_pages_fini(&p);
    tr_state_fini(&s);
    assert_int_equal(mem.used_bytes, 0);
}

/* Frozen in slices, its topics may be newer than their count: a number is not given out twice. */
static void test_checkpoint_with_a_topic_beyond_the_count(void **state)
{
    struct tr_mem mem;
    struct tr_state s;
    struct tr_state again;
    struct tr_pages p = {0};

    (void)state;
    tr_mem_init(&mem, 0);
    furnish(&s, &mem, 10);
    s.topics.next_number = 3; /* of 40 */
    assert_int_equal(tr_checkpoint_freeze(&p, &s, uuid, BATCH), TARRY_OK);
    reload(&p, &s, &again, &mem);
    assert_int_equal(tr_topics_free_number(&again.topics), 41);
    tr_pages_fini(&p);
    tr_state_fini(&s);
    tr_state_fini(&again);
    assert_int_equal(mem.used_bytes, 0);
}

static void test_checkpoint_without_memory(void **state)
{
    int err = TARRY_ENOMEM;

    (void)state;
    for (uint64_t n = 1; err != TARRY_OK; n++) {
        struct tr_mem mem;
        struct tr_state s;
        struct tr_pages p = {0};
        uint64_t used;

        tr_mem_init(&mem, 0);
        furnish(&s, &mem, 500);
        used = mem.used_bytes;
        mem.fail_at = mem.calls + n;
        err = tr_checkpoint_freeze(&p, &s, uuid, BATCH);
        assert_true(err == TARRY_OK || (err == TARRY_ENOMEM && mem.used_bytes == used));
        tr_pages_fini(&p);
        tr_state_fini(&s);
        assert_int_equal(mem.used_bytes, 0);
        assert_true(n < 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_gives_state_back),
        cmocka_unit_test(test_checkpoint_is_frozen),
        cmocka_unit_test(test_checkpoint_frozen_without_memory),
        cmocka_unit_test(test_checkpoint_damage_is_found),
        cmocka_unit_test(test_checkpoint_with_a_topic_beyond_the_count),
        cmocka_unit_test(test_checkpoint_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
