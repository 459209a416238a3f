/* Jobs, leases and errors as HTTP tells them. */

#include "proto/http_shape.h"

#include "base/err.h"
#include "base/text.h"
#include "rules/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t key[TR_SIPHASH_KEY] = "0123456789abcde";

static void told(const struct tr_job_view *job, struct tr_shape what, const char *want)
{
    struct tr_mem mem;
    struct tr_output out;
    struct tr_json j;
    const uint8_t *bytes;
    size_t len;

    tr_mem_init(&mem, 0);
    tr_output_init(&out, &mem);
    tr_json_init(&j, &out);
    tr_json_open(&j, '{');
    tr_shape_job(&j, job, what);
    tr_json_close(&j, '}');
    len = tr_output_ready(&out, 0, &bytes);
    if (len != strlen(want) || memcmp(bytes, want, len) != 0) {
        fail_msg("%.*s", (int)len, (const char *)bytes);
    }
    tr_output_fini(&out);
    assert_int_equal(mem.used_bytes, 0);
}

static void test_shape_job(void **state)
{
    struct tr_job_view job = {.id = 17,
                              .topic_name = "orders",
                              .topic_name_len = 6,
                              .state = TR_DELAYED,
                              .priority = 1024,
                              .due_us = UINT64_C(1798761600123999),
                              .created_us = UINT64_C(1798761600000999),
                              .ttr_us = 60000999,
                              .late_us = 5999,
                              .lease = UINT64_C(0x1234567890abcdef)};
    char lease[TR_LEASE_TEXT];
    char want[512];

    (void)state;
    told(&job, (struct tr_shape){0},
         "{\"id\":\"17\",\"topic\":\"orders\",\"state\":\"delayed\",\"priority\":1024,"
         "\"due\":\"2027-01-01T00:00:00.123Z\",\"due_ms\":1798761600123,"
         "\"created_ms\":1798761600000,\"attempts\":0,\"ttr_ms\":60000,\"retries\":16}");
    job.state = TR_RESERVED;
    job.reserves = 2;
    job.key = "order-\"42\"";
    job.key_len = 10;
    job.body = (const uint8_t *)"x\ny";
    job.body_len = 3;
    job.left_us = 59999999;
    tr_lease_print(lease, key, 17, job.lease);
    tr_text(want, sizeof want,
            "{\"id\":\"17\",\"lease\":\"%s\",\"lease_ms\":59999,\"topic\":\"orders\","
            "\"key\":\"order-\\\"42\\\"\",\"state\":\"reserved\",\"priority\":1024,"
            "\"due\":\"2027-01-01T00:00:00.123Z\",\"due_ms\":1798761600123,"
            "\"created_ms\":1798761600000,\"attempts\":2,\"ttr_ms\":60000,\"retries\":16,"
            "\"late_ms\":5,"
            "\"body\":\"x\\ny\"}",
            lease);
    told(&job, (struct tr_shape){.body = true, .lease_key = key}, want);
}

static void test_shape_all_there_is(void **state)
{
    struct tr_backoff backoff;
    const char *why;
    struct tr_job_view job = {.id = 1,
                              .topic_name = "t",
                              .topic_name_len = 1,
                              .state = TR_DEAD,
                              .tag = "blue",
                              .tag_len = 4,
                              .ttl_us = 7000999,
                              .has_retries = true,
                              .retries = -1,
                              .backoff = &backoff,
                              .dead_why = TR_WHY_EXPIRED,
                              .dead_at_us = 5999999,
                              .damaged = true};

    (void)state;
    assert_int_equal(tr_backoff_read("4m,1h", 5, &backoff, &why), TARRY_OK);
    told(&job, (struct tr_shape){0},
         "{\"id\":\"1\",\"topic\":\"t\",\"tag\":\"blue\",\"state\":\"dead\",\"priority\":0,"
         "\"due\":\"1970-01-01T00:00:00.000Z\",\"due_ms\":0,\"created_ms\":0,\"attempts\":0,"
         "\"ttr_ms\":0,\"ttl_ms\":7000,\"retries\":-1,\"backoff\":\"4m,1h\","
         "\"reason\":\"expired\",\"dead_ms\":5999,\"damaged\":true}");
}

static void test_shape_states(void **state)
{
    (void)state;
    assert_string_equal(tr_shape_state(TR_DELAYED), "delayed");
    assert_string_equal(tr_shape_state(TR_READY), "ready");
    assert_string_equal(tr_shape_state(TR_RESERVED), "reserved");
    assert_string_equal(tr_shape_state(TR_DEAD), "dead");
    assert_null(tr_shape_state((enum tr_job_state)0));
}

static void test_shape_errors(void **state)
{
    struct tr_http_error e = tr_shape_error(TARRY_ESTATE, TR_RESERVED);

    (void)state;
    assert_int_equal(e.status, 409);
    assert_string_equal(e.state, "reserved");
    e = tr_shape_error(TARRY_ENOTFOUND, TR_RESERVED);
    assert_int_equal(e.status, 404);
    assert_null(e.state);
    assert_int_equal(tr_shape_error(TARRY_EEXISTS, TR_DEAD).status, 409);
    assert_int_equal(tr_shape_error(TARRY_EFULL, 0).status, 429);
    assert_int_equal(tr_shape_error(TARRY_ENOMEM, 0).status, 503);
    assert_int_equal(tr_shape_error(TARRY_EDRAINING, 0).status, 503);
    assert_int_equal(tr_shape_error(TARRY_ENOSPC, 0).status, 507);
    assert_int_equal(tr_shape_error(TARRY_EINVAL, 0).status, 400);
    assert_int_equal(tr_shape_error(TARRY_EIO, 0).status, 500);
    assert_int_equal(tr_shape_error(TARRY_EPAUSED, 0).status, 409);
    assert_int_equal(tr_shape_error(TARRY_EQUOTA, 0).status, 429);
    assert_int_equal(tr_shape_error(TARRY_EUNSUPPORTED, 0).status, 501);
    assert_int_equal(tr_shape_error(-999, 0).status, 500);
}

static uint64_t reads(const char *text, uint64_t id)
{
    return tr_lease_read((struct tr_http_text){text, strlen(text)}, key, id);
}

static void test_shape_leases(void **state)
{
    static const uint64_t leases[] = {1, 0x9a, UINT64_MAX, UINT64_C(0x0123456789abcdef)};
    static const uint8_t other[TR_SIPHASH_KEY] = "1123456789abcde";
    char text[TR_LEASE_TEXT];

    (void)state;
    assert_int_equal(reads("", 1), 0);
    for (size_t i = 0; i < sizeof leases / sizeof leases[0]; i++) {
        tr_lease_print(text, key, 17, leases[i]);
        assert_int_equal(strlen(text), TR_LEASE_TEXT - 1);
        assert_true(reads(text, 17) == leases[i]);
        assert_true(reads(text, 18) == 0); /* of another job */
        assert_true(reads(text + 1, 17) == 0);
        text[0] = text[0] == '0' ? '1' : '0'; /* another number under the same seal */
        assert_true(reads(text, 17) == 0);
        tr_lease_print(text, key, 17, leases[i]);
        text[TR_LEASE_TEXT - 2] ^= 1;
        assert_true(reads(text, 17) == 0);
        tr_lease_print(text, other, 17, leases[i]);
        assert_true(reads(text, 17) == 0);
    }
    tr_lease_print(text, key, 17, 10);
    text[15] = 'A'; /* only one way to write it */
    assert_true(reads(text, 17) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape_job),    cmocka_unit_test(test_shape_all_there_is),
        cmocka_unit_test(test_shape_states), cmocka_unit_test(test_shape_errors),
        cmocka_unit_test(test_shape_leases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
