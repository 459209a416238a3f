/* What few jobs have: tag, ttl, retries, backoff; in blocks, and through a store. */

#include "base/err.h"
#include "engine/extra.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define HOUR (3600 * RIG_SECOND)

static struct tr_bytes bytes(const char *text)
{
    return (struct tr_bytes){(const uint8_t *)text, strlen(text)};
}

/* ---- blocks ---- */

static void test_extra_block(void **state)
{
    uint8_t raw[TR_BACKOFF_BYTES];
    struct tr_backoff b = {.count = 3, .list_us = {5, 6, 7}};
    struct tr_record rec = {.mask = TR_EXTRA_FIELDS,
                            .key = bytes("key"),
                            .tag = bytes("a tag"),
                            .ttl_us = 9,
                            .retries = -1,
                            .backoff = {raw, tr_backoff_encode(raw, &b)}};
    struct tr_record alter = {.mask = TR_FIELD(TAG), .tag = bytes("other")};
    struct tr_record back = {0};
    struct tr_extra *x;
    struct tr_extra *y;
    struct tr_mem mem;

    (void)state;
    tr_mem_init(&mem, 0);
    assert_int_equal(tr_extra_new(&mem, &rec, &x), TARRY_OK);
    assert_true(tr_extra_is(x, &rec));
    assert_int_equal(tr_extra_backoff(x)->list_us[2], 7);
    assert_true(mem.used_bytes < sizeof b); /* though the list has room for many more */
    tr_extra_describe(x, &back);
    assert_int_equal(back.mask, TR_EXTRA_FIELDS);
    assert_true(tr_bytes_same(back.key, rec.key) && tr_bytes_same(back.tag, rec.tag));
    assert_true(tr_bytes_same(back.backoff, rec.backoff));
    assert_int_equal(back.ttl_us, 9);
    assert_int_equal(back.retries, -1);
    assert_int_equal(tr_extra_alter(&mem, x, &alter, &y), TARRY_OK);
    assert_true(tr_bytes_same(tr_extra_tag(y), bytes("other")));
    assert_true(tr_bytes_same(tr_extra_key(y), bytes("key")));
    assert_int_equal(y->ttl_us, 9);
    assert_false(tr_extra_is(y, &rec));
    tr_extra_free(&mem, x);
    tr_extra_free(&mem, y);
    assert_int_equal(mem.used_bytes, 0);
}

static void test_extra_none(void **state)
{
    struct tr_record none = {0};
    struct tr_record ttl = {.mask = TR_FIELD(TTL), .ttl_us = 5};
    struct tr_record no_ttl = {.mask = TR_FIELD(TTL)};
    struct tr_record changes = {0};
    struct tr_extra *x;
    struct tr_extra *y;
    struct tr_mem mem;

    (void)state;
    tr_mem_init(&mem, 0);
    assert_int_equal(tr_extra_new(&mem, &none, &x), TARRY_OK);
    assert_null(x);
    assert_true(tr_extra_is(NULL, &none));
    assert_int_equal(tr_extra_alter(&mem, NULL, &no_ttl, &x), TARRY_OK);
    assert_null(x);
    assert_int_equal(tr_extra_new(&mem, &ttl, &x), TARRY_OK);
    assert_int_equal(tr_extra_alter(&mem, x, &no_ttl, &y), TARRY_OK);
    assert_non_null(y); /* its record says otherwise, so its row must tell */
    tr_extra_describe_changes(y, &changes);
    assert_int_equal(changes.mask, TR_EXTRA_ALTERED);
    assert_int_equal(changes.ttl_us, 0);
    tr_extra_free(&mem, x);
    tr_extra_free(&mem, y);
    assert_int_equal(mem.used_bytes, 0);
}

static void test_extra_bad_backoff(void **state)
{
    static const uint8_t raw[] = {0, 1};
    struct tr_record rec = {.mask = TR_FIELD(BACKOFF), .backoff = {raw, sizeof raw}};
    struct tr_extra *x;
    struct tr_mem mem;

    (void)state;
    tr_mem_init(&mem, 0);
    assert_int_equal(tr_extra_new(&mem, &rec, &x), TARRY_EDAMAGED);
    assert_int_equal(mem.used_bytes, 0);
}

/* ---- in a store ---- */

static const struct tr_backoff list = {.count = 2, .list_us = {1000000, 2000000}};

static struct ask push_ask(uint32_t t, uint64_t delay_us)
{
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = t;
    a.req.delay_us = delay_us;
    a.req.body = (const uint8_t *)"body";
    a.req.body_len = 4;
    a.req.ttr_us = 0;
    a.req.tag = "red";
    a.req.tag_len = 3;
    a.req.ttl_us = 7 * RIG_SECOND;
    a.req.has_retries = true;
    a.req.retries = 3;
    a.req.backoff = &list;
    return a;
}

static void assert_all(struct rig *rig, enum tr_op op, uint64_t id, const char *tag,
                       uint64_t ttl_us)
{
    struct ask a = rig_ask(op);

    a.req.id = id;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    assert_string_equal(a.tag, tag);
    assert_int_equal(a.req.out.job.ttl_us, ttl_us);
    assert_true(a.req.out.job.has_retries);
    assert_int_equal(a.req.out.job.retries, 3);
    assert_true(a.has_backoff);
    assert_memory_equal(&a.backoff, &list, sizeof list);
}

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.far_max = 20;
    rig->config.promote_slots = 2;
    rig_open(rig);
    return rig_hold(rig, "t");
}

static uint64_t push(struct rig *rig, struct ask *a)
{
    assert_int_equal(rig_do(rig, a), TARRY_OK);
    assert_string_equal(a->tag, "red");
    return a->req.out.job.id;
}

static void edit(struct rig *rig, uint64_t id, unsigned what, const char *tag, uint64_t ttl_us)
{
    struct ask a = rig_ask(TR_OP_EDIT);

    a.req.id = id;
    a.req.edit = what;
    a.req.tag = tag;
    a.req.tag_len = strlen(tag);
    a.req.ttl_us = ttl_us;
    a.req.delay_us = 2 * HOUR;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
}

static void test_extra_is_kept(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask near = push_ask(t, RIG_SECOND);
    struct ask far = push_ask(t, HOUR);
    uint64_t ids[2] = {push(&rig, &near), push(&rig, &far)};

    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        assert_all(&rig, TR_OP_PEEK, ids[0], "red", 7 * RIG_SECOND);
        assert_all(&rig, TR_OP_STAT_JOB, ids[1], "red", 7 * RIG_SECOND);
        if (round == 0) {
            rig_power_cut(&rig);
        } else {
            rig_close(&rig);
        }
        rig_open(&rig);
    }
    rig_fini(&rig);
}

/* Many far ones, so that they are promoted, some after an edit. */
static void test_extra_through_runs(void **state)
{
    enum { COUNT = 120 };
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t ids[COUNT];

    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        static uint8_t body[1500];
        struct ask a = push_ask(t, HOUR + i * RIG_SECOND);

        a.req.body = body;
        a.req.body_len = sizeof body;
        ids[i] = push(&rig, &a);
        if (i % 3 == 1) {
            edit(&rig, ids[i], TR_EDIT_TAG | TR_EDIT_TTL, "blue", 0);
        } else if (i % 3 == 2) {
            edit(&rig, ids[i], TR_EDIT_TAG | TR_EDIT_DUE, "", 0);
        }
    }
    rig_pass(&rig, 30 * RIG_SECOND);
    assert_true(rig_engine_stat(&rig).promotions > 0);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            assert_all(&rig, TR_OP_STAT_JOB, ids[i],
                       i % 3 == 0   ? "red"
                       : i % 3 == 1 ? "blue"
                                    : "",
                       i % 3 == 1 ? 0 : 7 * RIG_SECOND);
        }
        if (round == 0) {
            rig_power_cut(&rig);
        } else {
            rig_close(&rig);
        }
        rig_open(&rig);
    }
    rig_fini(&rig);
}

static void test_extra_edit_is_kept(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = push_ask(t, RIG_SECOND);
    uint64_t id = push(&rig, &a);

    (void)state;
    edit(&rig, id, TR_EDIT_TTL, "", 8 * RIG_SECOND);
    assert_all(&rig, TR_OP_PEEK, id, "red", 8 * RIG_SECOND);
    edit(&rig, id, TR_EDIT_TAG, "blue", 0);
    assert_all(&rig, TR_OP_PEEK, id, "blue", 8 * RIG_SECOND);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_all(&rig, TR_OP_PEEK, id, "blue", 8 * RIG_SECOND);
    edit(&rig, id, TR_EDIT_TAG | TR_EDIT_TTL, "", 0);
    assert_all(&rig, TR_OP_PEEK, id, "", 0);
    rig_close(&rig); /* a row of the checkpoint says that there is none any more */
    rig_open(&rig);
    assert_all(&rig, TR_OP_PEEK, id, "", 0);
    rig_fini(&rig);
}

static void test_extra_replaced_by_key(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = push_ask(t, HOUR);
    uint64_t id;

    (void)state;
    a.req.key = "order";
    a.req.key_len = 5;
    id = push(&rig, &a);
    a.req.tag_len = 0;
    a.req.ttl_us = 0;
    a.req.has_retries = false;
    a.req.backoff = NULL;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.id, id);
    for (unsigned round = 0; round < 2; round++) {
        struct ask look = rig_ask(TR_OP_STAT_JOB);

        look.req.id = id;
        assert_int_equal(rig_do(&rig, &look), TARRY_OK);
        assert_string_equal(look.tag, "");
        assert_int_equal(look.req.out.job.ttl_us, 0);
        assert_false(look.req.out.job.has_retries);
        assert_false(look.has_backoff);
        assert_int_equal(look.req.out.job.key_len, 5);
        rig_power_cut(&rig);
        rig_open(&rig);
    }
    rig_fini(&rig);
}

/* At the push; what it has not said then, is what it is by default, for ever. */
static void test_extra_ttr_is_the_topics(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = push_ask(t, 0);
    struct ask p = rig_ask(TR_OP_POLICY);
    struct tr_policy policy = tr_policy_default();
    uint64_t before = push(&rig, &a);
    uint64_t id;

    (void)state;
    assert_int_equal(a.req.out.job.ttr_us, TR_POLICY_TTR_US);
    policy.given = TR_POLICY_BIT(TTR);
    policy.ttr_us = 3 * RIG_SECOND;
    p.req.topic = t;
    p.req.policy = &policy;
    p.req.fields = TR_POLICY_BIT(TTR);
    assert_int_equal(rig_do(&rig, &p), TARRY_OK);
    assert_int_equal(rig_view(&rig, before).ttr_us, TR_POLICY_TTR_US);
    a = push_ask(t, 0);
    id = push(&rig, &a);
    policy.ttr_us = RIG_SECOND;
    assert_int_equal(rig_do(&rig, &p), TARRY_OK);
    assert_int_equal(rig_view(&rig, id).ttr_us, 3 * RIG_SECOND);
    assert_int_equal(rig_reserve(&rig, t, 7), before);
    assert_int_equal(rig_reserve(&rig, t, 7), id);
    rig_pass(&rig, 3 * RIG_SECOND - 1);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    rig_pass(&rig, 1);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_fini(&rig);
}

static void test_extra_refused(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    struct tr_backoff bad = {.count = TR_BACKOFF_LIST_MAX + 1};
    struct ask a = push_ask(t, 0);

    (void)state;
    a.req.tag_len = TR_TAG_MAX + 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a = push_ask(t, 0);
    a.req.ttl_us = TR_DELAY_MAX_US + 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a = push_ask(t, 0);
    a.req.retries = -2;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    a = push_ask(t, 0);
    a.req.backoff = &bad;
    assert_int_equal(rig_do(&rig, &a), TARRY_EINVAL);
    rig_fini(&rig);
}

/* An edit for which there is no memory changes nothing. */
static void test_extra_without_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 100; n++) {
        struct rig rig;
        uint32_t t = start(&rig);
        struct ask a = push_ask(t, RIG_SECOND);
        uint64_t id = push(&rig, &a);
        struct ask e = rig_ask(TR_OP_EDIT);
        bool reached;
        int err;

        e.req.id = id;
        e.req.edit = TR_EDIT_TAG;
        e.req.tag = "blue";
        e.req.tag_len = 4;
        rig.mem.fail_at = rig.mem.calls + n;
        err = rig_do(&rig, &e);
        reached = rig.mem.calls >= rig.mem.fail_at;
        rig.mem.fail_at = 0;
        assert_true(err == TARRY_OK || (err == TARRY_ENOMEM && reached));
        assert_all(&rig, TR_OP_PEEK, id, err == TARRY_OK ? "blue" : "red", 7 * RIG_SECOND);
        assert_true(tr_engine_ok(rig.e));
        rig_fini(&rig);
        if (!reached) {
            assert_true(n > 1);
            return;
        }
    }
    fail_msg("it never ends");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extra_block),
        cmocka_unit_test(test_extra_none),
        cmocka_unit_test(test_extra_bad_backoff),
        cmocka_unit_test(test_extra_is_kept),
        cmocka_unit_test(test_extra_through_runs),
        cmocka_unit_test(test_extra_edit_is_kept),
        cmocka_unit_test(test_extra_replaced_by_key),
        cmocka_unit_test(test_extra_ttr_is_the_topics),
        cmocka_unit_test(test_extra_refused),
        cmocka_unit_test(test_extra_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
