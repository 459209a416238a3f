/* Jobs, leases and errors as HTTP tells them. */

#include "proto/http_shape.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct tr_http_text topic = {"orders", 6};

static void told(const struct tr_job_view *job, unsigned what, const char *want)
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
    tr_shape_job(&j, job, topic, what);
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
                              .state = TR_DELAYED,
                              .priority = 1024,
                              .due_us = UINT64_C(1798761600123999),
                              .created_us = UINT64_C(1798761600000999),
                              .ttr_us = 60000999,
                              .late_us = 5999,
                              .lease = UINT64_C(0x1234567890abcdef)};

    (void)state;
    told(&job, 0,
         "{\"id\":\"17\",\"topic\":\"orders\",\"state\":\"delayed\",\"priority\":1024,"
         "\"due\":\"2027-01-01T00:00:00.123Z\",\"due_ms\":1798761600123,"
         "\"created_ms\":1798761600000,\"attempts\":0,\"ttr_ms\":60000}");
    job.state = TR_RESERVED;
    job.reserves = 2;
    job.key = "order-\"42\"";
    job.key_len = 10;
    job.body = (const uint8_t *)"x\ny";
    job.body_len = 3;
    told(&job, TR_SHAPE_BODY | TR_SHAPE_LEASE,
         "{\"id\":\"17\",\"lease\":\"1234567890abcdef\",\"topic\":\"orders\","
         "\"key\":\"order-\\\"42\\\"\",\"state\":\"reserved\",\"priority\":1024,"
         "\"due\":\"2027-01-01T00:00:00.123Z\",\"due_ms\":1798761600123,"
         "\"created_ms\":1798761600000,\"attempts\":2,\"ttr_ms\":60000,\"late_ms\":5,"
         "\"body\":\"x\\ny\"}");
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
    assert_int_equal(tr_shape_error(-999, 0).status, 500);
}

static bool reads(const char *text, uint64_t *lease)
{
    return tr_lease_read((struct tr_http_text){text, strlen(text)}, lease);
}

static void test_shape_leases(void **state)
{
    static const uint64_t leases[] = {0, 1, 0x9a, UINT64_MAX, UINT64_C(0x0123456789abcdef)};
    char text[TR_LEASE_TEXT];
    uint64_t back = 77;

    (void)state;
    assert_false(reads("", &back));
    assert_false(reads("123456789012345", &back));
    assert_false(reads("12345678901234567", &back));
    assert_false(reads("123456789012345g", &back));
    assert_false(reads("123456789012345F", &back));
    assert_false(reads("-234567890123456", &back));
    assert_int_equal(back, 77);
    for (size_t i = 0; i < sizeof leases / sizeof leases[0]; i++) {
        tr_lease_print(text, leases[i]);
        assert_int_equal(strlen(text), TR_LEASE_TEXT - 1);
        assert_true(reads(text, &back) && back == leases[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape_job),
        cmocka_unit_test(test_shape_states),
        cmocka_unit_test(test_shape_errors),
        cmocka_unit_test(test_shape_leases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
