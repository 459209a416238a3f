/* JSON as it is sent. */

#include "proto/json_out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct tr_mem mem;
static struct tr_output out;
static struct tr_json j;

static int set_up(void **state)
{
    (void)state;
    tr_mem_init(&mem, 0);
    tr_output_init(&out, &mem);
    tr_json_init(&j, &out);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tr_output_fini(&out);
    return mem.used_bytes == 0 ? 0 : -1;
}

/* What was written since the last time. */
static void wrote(const char *want)
{
    const uint8_t *bytes;
    size_t have = tr_output_ready(&out, 0, &bytes);

    if (have != strlen(want) || memcmp(bytes, want, have) != 0) {
        fail_msg("wrote %.*s", (int)have, (const char *)bytes);
    }
    tr_output_drop(&out, have);
    tr_json_init(&j, &out);
}

static void test_json_nests(void **state)
{
    (void)state;
    tr_json_open(&j, '{');
    tr_json_name(&j, "jobs");
    tr_json_open(&j, '[');
    for (uint64_t i = 1; i <= 2; i++) {
        tr_json_open(&j, '{');
        tr_json_name(&j, "id");
        tr_json_id(&j, i);
        tr_json_name(&j, "none");
        tr_json_open(&j, '[');
        tr_json_close(&j, ']');
        tr_json_name(&j, "late_ms");
        tr_json_number(&j, 0);
        tr_json_close(&j, '}');
    }
    tr_json_close(&j, ']');
    tr_json_name(&j, "cursor");
    tr_json_null(&j);
    tr_json_name(&j, "more");
    tr_json_bool(&j, false);
    tr_json_close(&j, '}');
    wrote("{\"jobs\":[{\"id\":\"1\",\"none\":[],\"late_ms\":0},{\"id\":\"2\",\"none\":[],"
          "\"late_ms\":0}],\"cursor\":null,\"more\":false}");
}

static void test_json_numbers(void **state)
{
    (void)state;
    tr_json_open(&j, '[');
    tr_json_number(&j, UINT64_MAX);
    tr_json_signed(&j, INT64_MIN);
    tr_json_signed(&j, 5);
    tr_json_thousandths(&j, 0);
    tr_json_thousandths(&j, 1500);
    tr_json_thousandths(&j, 12001);
    tr_json_thousandths(&j, 40);
    tr_json_bool(&j, true);
    tr_json_raw(&j, "{}", 2);
    tr_json_text(&j, "x");
    tr_json_close(&j, ']');
    wrote("[18446744073709551615,-9223372036854775808,5,0,1.5,12.001,0.04,true,{},\"x\"]");
}

static void string(const char *bytes, size_t len, const char *want)
{
    tr_json_string(&j, bytes, len);
    wrote(want);
}

static void test_json_strings(void **state)
{
    (void)state;
    string("", 0, "\"\"");
    string("plain", 5, "\"plain\"");
    string("a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\"");
    string("\b\t\n\f\r", 5, "\"\\b\\t\\n\\f\\r\"");
    string("\0\1\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\x7f\"");
    string("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
    string("a\xff"
           "b\xc3",
           4,
           "\"a\xef\xbf\xbd"
           "b\xef\xbf\xbd\"");
}

static void body(const char *bytes, size_t len, const char *want)
{
    tr_json_open(&j, '{');
    tr_json_body(&j, (const uint8_t *)bytes, len);
    tr_json_name(&j, "n");
    tr_json_number(&j, 1);
    tr_json_close(&j, '}');
    wrote(want);
}

static void test_json_bodies(void **state)
{
    (void)state;
    body("", 0, "{\"body\":\"\",\"n\":1}");
    body("{\"order\":42}", 12, "{\"body\":\"{\\\"order\\\":42}\",\"n\":1}");
    body("\xff\xfe", 2, "{\"body_base64\":\"//4=\",\"n\":1}");
    body("abc\xc3", 4, "{\"body_base64\":\"YWJjww==\",\"n\":1}");
}

/* Memory that cannot be had breaks the output; nothing is written beside it. */
static void test_json_no_memory(void **state)
{
    static uint8_t big[100000];
    struct tr_mem little;
    struct tr_output o;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        memset(big, i == 0 ? 'x' : 0xff, sizeof big);
        tr_mem_init(&little, 4096);
        tr_output_init(&o, &little);
        tr_json_init(&j, &o);
        tr_json_open(&j, '{');
        tr_json_body(&j, big, sizeof big);
        tr_json_close(&j, '}');
        assert_true(o.broken);
        tr_output_fini(&o);
        assert_int_equal(little.used_bytes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_json_nests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json_strings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json_bodies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json_no_memory, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
