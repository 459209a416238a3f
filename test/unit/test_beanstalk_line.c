/* Lines of the beanstalk protocol: what each becomes, and the odd ones. */

#include "proto/beanstalk_line.h"

#include "base/name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static enum tr_bs_verdict verdict(const char *text)
{
    struct tr_bs_line line;

    return tr_bs_line_read(&line, text, strlen(text));
}

static struct tr_bs_line fine(const char *text, enum tr_bs_command command)
{
    struct tr_bs_line line;

    assert_int_equal(tr_bs_line_read(&line, text, strlen(text)), TR_BS_FINE);
    assert_int_equal(line.command, command);
    return line;
}

static void all(enum tr_bs_verdict want, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (verdict(texts[i]) != want) {
            fail_msg("\"%s\" gave %d", texts[i], (int)verdict(texts[i]));
        }
    }
}

#define ALL(want, ...)                                                                             \
    do {                                                                                           \
        static const char *const texts_[] = {__VA_ARGS__};                                         \
        all(want, texts_, sizeof texts_ / sizeof texts_[0]);                                       \
    } while (0)

static void test_line_put(void **state)
{
    struct tr_bs_line line = fine("put 1 2 3 4", TR_BS_PUT);

    (void)state;
    assert_int_equal(line.priority, 1);
    assert_int_equal(line.delay_s, 2);
    assert_int_equal(line.ttr_s, 3);
    assert_int_equal(line.body_len, 4);
    assert_false(line.garbage);
    line = fine("put   4294967295 0004294967295  4294967295 4294967295", TR_BS_PUT);
    assert_int_equal(line.priority, UINT32_MAX);
    assert_int_equal(line.body_len, UINT32_MAX);
    assert_true(fine("put 1 2 3 4 5", TR_BS_PUT).garbage);
    assert_true(fine("put 1 2 3 4 ", TR_BS_PUT).garbage);
    assert_true(fine("put 1 2 3 4x", TR_BS_PUT).garbage);
    ALL(TR_BS_BAD_FORMAT, "put ", "put 1 2 3", "put 1 2 3 ", "put x 2 3 4", "put -1 2 3 4",
        "put +1 2 3 4", "put 1\t2 3 4", "put 4294967296 2 3 4", "put 1 2 3 4294967296",
        "put 99999999999999999999999 1 1 1", "put 1x 2 3 4");
    ALL(TR_BS_UNKNOWN, "put", "putx 1 2 3 4", "PUT 1 2 3 4", " put 1 2 3 4", "", "pu");
}

static void test_line_ids(void **state)
{
    (void)state;
    assert_true(fine("delete 18446744073709551615", TR_BS_DELETE).id == UINT64_MAX);
    assert_int_equal(fine("touch   007", TR_BS_TOUCH).id, 7);
    assert_int_equal(fine("release 5 6 7", TR_BS_RELEASE).delay_s, 7);
    assert_int_equal(fine("bury 5 6", TR_BS_BURY).priority, 6);
    (void)fine("peek 1", TR_BS_PEEK);
    (void)fine("reserve-job 1", TR_BS_RESERVE_JOB);
    (void)fine("kick-job 1", TR_BS_KICK_JOB);
    (void)fine("stats-job 1", TR_BS_STATS_JOB);
    ALL(TR_BS_BAD_FORMAT, "delete ", "delete x", "delete 1 ", "delete 1 2", "delete -1",
        "delete 18446744073709551616", "release 1 2", "release 1 2 3 4", "bury 1", "bury 1 2 3",
        "reserve-job", "reserve-job ", "stats-job", "stats-jobx 1", "peek ");
    ALL(TR_BS_UNKNOWN, "delete", "touch", "bury", "release", "peek", "kick-job", "peek-x");
}

static void test_line_words(void **state)
{
    (void)state;
    (void)fine("reserve", TR_BS_RESERVE);
    (void)fine("stats", TR_BS_STATS);
    (void)fine("peek-ready", TR_BS_PEEK_READY);
    (void)fine("peek-delayed", TR_BS_PEEK_DELAYED);
    (void)fine("peek-buried", TR_BS_PEEK_BURIED);
    (void)fine("list-tubes", TR_BS_LIST_TUBES);
    (void)fine("list-tubes-watched", TR_BS_LIST_TUBES_WATCHED);
    (void)fine("list-tube-used", TR_BS_LIST_TUBE_USED);
    (void)fine("quit", TR_BS_QUIT);
    (void)fine("quitter", TR_BS_QUIT);
    ALL(TR_BS_BAD_FORMAT, "reserve ", "reservex", "reserve-with-timeout", "stats ", "stats-tube",
        "peek-ready ", "list-tubesx", "list-tubes-watched 1", "list-tube-used ");
    ALL(TR_BS_UNKNOWN, "list-tube", "peek-", "statz", "qui");
}

static void test_line_reserve_with_timeout(void **state)
{
    (void)state;
    assert_int_equal(fine("reserve-with-timeout 2147483647", TR_BS_RESERVE_TIMEOUT).timeout_s,
                     INT32_MAX);
    assert_int_equal(fine("reserve-with-timeout  3 junk", TR_BS_RESERVE_TIMEOUT).timeout_s, 3);
    ALL(TR_BS_BAD_FORMAT, "reserve-with-timeout ", "reserve-with-timeout abc",
        "reserve-with-timeout -1", "reserve-with-timeout 2147483648",
        "reserve-with-timeout 4294967296");
}

static void test_line_kick_reads_as_c_does(void **state)
{
    (void)state;
    assert_int_equal(fine("kick 12", TR_BS_KICK).bound, 12);
    assert_int_equal(fine("kick +12junk", TR_BS_KICK).bound, 12);
    assert_int_equal(fine("kick \t 3", TR_BS_KICK).bound, 3);
    assert_true(fine("kick -1", TR_BS_KICK).bound == UINT64_MAX);
    ALL(TR_BS_BAD_FORMAT, "kick ", "kick abc", "kick -", "kick 18446744073709551616");
    ALL(TR_BS_UNKNOWN, "kick");
}

static void test_line_names(void **state)
{
    char text[300] = "use ";
    struct tr_bs_line line = fine("watch A-Za-z0-9-+/;.$_()", TR_BS_WATCH);

    (void)state;
    assert_int_equal(line.name_len, strlen("A-Za-z0-9-+/;.$_()"));
    memset(text + 4, 'n', TR_TOPIC_NAME_MAX);
    assert_int_equal(fine(text, TR_BS_USE).name_len, TR_TOPIC_NAME_MAX);
    text[4 + TR_TOPIC_NAME_MAX] = 'n';
    assert_int_equal(verdict(text), TR_BS_BAD_FORMAT);
    ALL(TR_BS_BAD_FORMAT, "use ", "use  x", "use x ", "use -x", "use a b", "use a,b",
        "use \xc3\xa4", "ignore ", "stats-tube ", "watch x\t");
    line = fine("pause-tube  x 5", TR_BS_PAUSE_TUBE);
    assert_int_equal(line.name_len, 1);
    assert_int_equal(line.delay_s, 5);
    assert_int_equal(fine("pause-tubex  5", TR_BS_PAUSE_TUBE).name_len, 1);
    ALL(TR_BS_BAD_FORMAT, "pause-tube", "pause-tube x", "pause-tube x ", "pause-tube x y",
        "pause-tube x 5 ", "pause-tube -x 5", "pause-tube x5");
}

static void test_line_nul_is_a_bad_format(void **state)
{
    struct tr_bs_line line;

    (void)state;
    assert_int_equal(tr_bs_line_read(&line, "quit\0", 5), TR_BS_BAD_FORMAT);
    assert_int_equal(tr_bs_line_read(&line, "\0foo", 4), TR_BS_BAD_FORMAT);
    assert_int_equal(tr_bs_line_read(&line, "delete 1\0", 9), TR_BS_BAD_FORMAT);
}

static void test_line_every_byte_in_a_name(void **state)
{
    static const char good[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()";

    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        char name[2] = {'x', (char)c};
        bool want = c != 0 && strchr(good, (int)c) != NULL;

        assert_int_equal(tr_name_ok(name, 2), want);
        assert_int_equal(tr_name_ok(name + 1, 1), want && c != '-');
        assert_int_equal(tr_name_span(name, 2), want ? 2 : 1);
    }
    assert_false(tr_name_ok("", 0));
}

static void test_line_commands_have_names(void **state)
{
    char name[TR_BS_COMMAND_NAME];

    (void)state;
    tr_bs_command_name(TR_BS_PUT, name);
    assert_string_equal(name, "put");
    tr_bs_command_name(TR_BS_COMMAND_COUNT, name); /* what no line was */
    assert_string_equal(name, "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_put),
        cmocka_unit_test(test_line_ids),
        cmocka_unit_test(test_line_words),
        cmocka_unit_test(test_line_reserve_with_timeout),
        cmocka_unit_test(test_line_kick_reads_as_c_does),
        cmocka_unit_test(test_line_names),
        cmocka_unit_test(test_line_nul_is_a_bad_format),
        cmocka_unit_test(test_line_every_byte_in_a_name),
        cmocka_unit_test(test_line_commands_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
