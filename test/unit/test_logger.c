/* The lines of the logger: levels, prefixes, JSON, what cannot get through. */

#include "base/text.h"
#include "test/unit/ear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        print_error("no \"%s\" in \"%s\"\n", part, text);
        fail();
    }
}

static void test_logger_levels_and_prefixes(void **state)
{
    struct ear e = {.text = NULL};

    (void)state;
    listen(&e, TR_LEVEL_INFO, false);
    tr_logger_say(&e.log, TR_LEVEL_ERROR, "%d", 1);
    tr_logger_say(&e.log, TR_LEVEL_WARNING, "2");
    tr_logger_say(&e.log, TR_LEVEL_INFO, "3");
    tr_logger_say(&e.log, TR_LEVEL_DEBUG, "4");
    tr_logger_notice(&e.log, TR_NOTE_DAMAGE, "5 %s");
    tr_logger_notice(&e.log, TR_NOTE_FATAL, "6");
    tr_logger_notice(&e.log, TR_NOTE_INFO, "7\n8\x1b[0m");
    assert_string_equal(heard(&e), "error: 1\nwarning: 2\nnote: 3\ndamage: 5 %s\nerror: 6\n"
                                   "note: 7 8 [0m\n");
    assert_true(tr_logger_has(&e.log, TR_LEVEL_INFO));
    assert_false(tr_logger_has(&e.log, TR_LEVEL_DEBUG));
    e.log.level = TR_LEVEL_ERROR;
    tr_logger_notice(&e.log, TR_NOTE_WARNING, "9");
    tr_logger_notice(&e.log, TR_NOTE_DAMAGE, "10");
    assert_says(heard(&e), "[0m\ndamage: 10\n");
    deafen(&e);
}

static void test_logger_json_is_escaped(void **state)
{
    static const struct {
        const char *text;
        const char *json;
    } cases[] = {
        {"plain", "plain"},
        {"a\"b\\c/", "a\\\"b\\\\c/"},
        {"a\nb\tc\x01\x7f", "a\\nb\\u0009c\\u0001\\u007f"},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac "
                                                             "\xf0\x9f\x98\x80"},
        {"\xff|\xc3|\xc0\x80|\xed\xa0\x80|\xf5\x80\x80\x80|\xe2\x82",
         "\\ufffd|\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd\\ufffd|"
         "\\ufffd\\ufffd"},
    };
    char want[256];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ear e = {.text = NULL};

        listen(&e, TR_LEVEL_INFO, true);
        tr_logger_say(&e.log, TR_LEVEL_WARNING, "%s", cases[i].text);
        tr_text(want, sizeof want, ",\"level\":\"warning\",\"msg\":\"%s\"}\n", cases[i].json);
        assert_string_equal(heard(&e) + strlen("{\"time\":\"2027-01-01T00:00:00.000Z\""), want);
        assert_memory_equal(heard(&e), "{\"time\":\"2", 10);
        deafen(&e);
    }
}

static void test_logger_cuts_what_is_too_long(void **state)
{
    struct ear e = {.text = NULL};

    (void)state;
    listen(&e, TR_LEVEL_INFO, false);
    tr_logger_say(&e.log, TR_LEVEL_ERROR, "%09999d", 0);
    assert_int_equal(strlen(heard(&e)), strlen("error: ") + 4095 + 1);
    e.log.json = true;
    tr_logger_notice(&e.log, TR_NOTE_DAMAGE, "x");
    assert_says(heard(&e), "\"level\":\"error\",\"msg\":\"damage: x\"}\n");
    deafen(&e);
    listen(&e, TR_LEVEL_INFO, true);
    for (int i = 0; i < 2; i++) {
        char text[5000];

        memset(text, i == 0 ? 1 : 0xff, sizeof text - 1);
        text[sizeof text - 1] = '\0';
        tr_logger_say(&e.log, TR_LEVEL_ERROR, "%s", text);
    }
    assert_int_equal(strlen(heard(&e)),
                     2 * (6 * 4095 + strlen("{\"time\":\"2027-01-01T00:00:00.000Z\","
                                            "\"level\":\"error\",\"msg\":\"\"}\n")));
    deafen(&e);
}

/* What an admin did is told at any level. */
static void test_logger_audit(void **state)
{
    struct tr_audit a = {.token = "ops", .from = "10.0.0.1", .what = "POST /x\ny", .status = 200};
    struct ear e = {.text = NULL};

    (void)state;
    listen(&e, TR_LEVEL_ERROR, false);
    tr_logger_audit(&e.log, &a);
    a.status = 0;
    tr_logger_audit(&e.log, &a);
    assert_string_equal(heard(&e), "audit: ops from 10.0.0.1: POST /x y: 200\n"
                                   "audit: ops from 10.0.0.1: POST /x y\n");
    deafen(&e);
}

static void test_logger_slow(void **state)
{
    struct tr_slow s = {.port = "http", .command = "push", .took_us = 153207};
    struct ear e = {.text = NULL};
    char topic[200];

    (void)state;
    listen(&e, TR_LEVEL_WARNING, false);
    tr_logger_slow(&e.log, &s);
    s.topic = "a;$(b)";
    s.topic_len = 4;
    tr_logger_slow(&e.log, &s);
    assert_string_equal(heard(&e), "slow: push of http took 153.207 ms of the loop\n"
                                   "slow: push of http on a;$( took 153.207 ms of the loop\n");
    deafen(&e);
    listen(&e, TR_LEVEL_WARNING, true);
    memset(topic, '$', sizeof topic);
    s.topic = topic;
    s.topic_len = sizeof topic;
    s.took_us = UINT64_MAX;
    tr_logger_slow(&e.log, &s);
    assert_says(heard(&e),
                "\"level\":\"warning\",\"slow\":true,\"port\":\"http\",\"command\":\"push\","
                "\"topic\":\"$$$");
    assert_says(heard(&e), "$$$\",\"took_us\":18446744073709551615,\"msg\":\"push of http on $$$");
    deafen(&e);
    listen(&e, TR_LEVEL_ERROR, true);
    tr_logger_slow(&e.log, &s);
    assert_string_equal(heard(&e), "");
    deafen(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logger_levels_and_prefixes),
        cmocka_unit_test(test_logger_json_is_escaped),
        cmocka_unit_test(test_logger_cuts_what_is_too_long),
        cmocka_unit_test(test_logger_audit),
        cmocka_unit_test(test_logger_slow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
