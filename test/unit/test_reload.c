/* The config is read again while the server runs. */

#include "base/err.h"
#include "base/text.h"
#include "server/config_inner.h"
#include "test/unit/ear.h"
#include "test/unit/reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_reload_takes_over_what_can_change(void **state)
{
    static const char old[] = "[store]\npath = a\n[log]\nlevel = info\n[limits]\nbody = 1k\n";
    static const char new[] =
        "\n[store]\npath = b\nsync = always\n[log]\nlevel = debug\njson = on\n"
        "[limits]\nbody = 2k\n";
    struct bench b = {0};
    struct ear e = {.text = NULL};
    const char *path;

    (void)state;
    listen(&e, TR_LEVEL_INFO, false);
    assert_int_equal(read_file(&b, old, "", ""), TARRY_OK);
    path = b.c.data_path;
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_OK);
    assert_string_equal(heard(&e), "note: config read again: nothing has changed\n");

    write_file(b.path, new, strlen(new));
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_OK);
    assert_says(heard(&e), "\nnote: config read again: log.level is now debug, was info\n");
    assert_says(heard(&e), "\nnote: config read again: limits.body is now 2k, was 1k\n");
    assert_says(heard(&e), "\nwarning: config read again: store.path stays a until a restart, "
                           "which would make it b: the store was opened with it\n");
    assert_int_equal(b.c.log_level, TR_LEVEL_DEBUG);
    assert_true(b.c.log_json);
    assert_int_equal(b.c.body_max, 2048);
    assert_setting(&b, TR_KEY_STORE_PATH, "a", TR_FROM_FILE);
    assert_ptr_equal(b.c.data_path, path);
    assert_string_equal(b.c.data_path, "a");
    assert_setting(&b, TR_KEY_STORE_SYNC, "always", TR_FROM_FILE);
    assert_ptr_equal(b.c.sync_text, b.c.settings[TR_KEY_STORE_SYNC].text);
    assert_int_equal(b.c.settings[TR_KEY_LOG_LEVEL].line, 6);

    write_file(b.path, "", 0);
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_OK);
    assert_setting(&b, TR_KEY_LIMITS_BODY, "1MiB", TR_FROM_DEFAULT);
    assert_int_equal(b.c.body_max, 65535);
    assert_int_equal(b.c.http_body_max, 1 << 20);
    assert_false(b.c.log_json);
    end(&b);
    deafen(&e);
}

static void test_reload_of_a_broken_file_changes_nothing(void **state)
{
    static const char old[] = "[log]\nlevel = warning\n[limits]\nbody = 1k\n";
    static const char new[] = "[log]\nlevel = debug\n[limits]\nbody = 2x\n";
    struct bench b = {0};
    struct ear e = {.text = NULL};

    (void)state;
    listen(&e, TR_LEVEL_WARNING, false);
    assert_int_equal(read_file(&b, old, "", ""), TARRY_OK);
    write_file(b.path, new, strlen(new));
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_EINVAL);
    assert_says(heard(&e), "error: the config was not taken over, all stays as it was: ");
    assert_says(heard(&e), ":4: limits.body takes a number");
    assert_int_equal(b.c.log_level, TR_LEVEL_WARNING);
    assert_int_equal(b.c.body_max, 1024);
    assert_setting(&b, TR_KEY_LOG_LEVEL, "warning", TR_FROM_FILE);
    assert_int_equal(unlink(b.path), 0);
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_EINVAL);
    assert_says(heard(&e), "cannot be read: No such file");
    assert_int_equal(b.c.body_max, 1024);
    b.path[0] = '\0';
    end(&b);
    deafen(&e);
}

/* A value that is not the default; NULL: none of these. */
static const char *other_value(const struct tr_key_row *row)
{
    static const char *const values[] = {"off", "on",    "never", "2k",
                                         "1h",  "debug", "5000",  "2027-01-01T00:00:00Z"};
    struct tr_config scratch = {.command = TR_COMMAND_SERVE};
    const char *why;

    for (size_t i = 0; i < COUNT(values); i++) {
        if (strcmp(values[i], row->fallback) != 0 &&
            row->apply(&scratch, values[i], &why) == TARRY_OK) {
            return values[i];
        }
    }
    return NULL;
}

/* Each key is either taken over, with all that follows from it, or refused by name. */
static void test_reload_of_each_key(void **state)
{
    unsigned judged = 0;

    (void)state;
    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        const struct tr_key_row *row = &tr_key_rows[i];
        const char *other = other_value(row);
        struct bench b = {0};
        struct ear e = {.text = NULL};
        char text[256];

        assert_true(row->live == (row->fixed == NULL));
        assert_true(row->live == tr_config_is_live((enum tr_key)i));
        if (other == NULL) {
            continue;
        }
        listen(&e, TR_LEVEL_INFO, false);
        assert_int_equal(read_file(&b, "", "", ""), TARRY_OK);
        tr_text(text, sizeof text, "[%s]\n%s = %s\n", row->section, row->name, other);
        write_file(b.path, text, strlen(text));
        if (tr_config_reload(&b.c, &e.log, NULL, NULL) != TARRY_OK) {
            text[0] = '\0'; /* it means nothing without another key */
        } else if (row->live) {
            judged++;
            tr_text(text, sizeof text, "note: config read again: %s is now %s, was %s\n", row->full,
                    other, row->fallback);
            assert_setting(&b, (enum tr_key)i, other, TR_FROM_FILE);
            assert_int_equal(b.c.settings[i].line, 2);
        } else if (row->secret) {
            judged++;
            tr_text(text, sizeof text,
                    "warning: config read again: %s stays as it is until a restart: %s\n",
                    row->full, row->fixed);
            assert_null(strstr(heard(&e), other));
        } else {
            judged++;
            tr_text(text, sizeof text,
                    "warning: config read again: %s stays %s until a restart, which would make it "
                    "%s: %s\n",
                    row->full, row->fallback, other, row->fixed);
            assert_setting(&b, (enum tr_key)i, row->fallback, TR_FROM_DEFAULT);
        }
        assert_says(heard(&e), text);
        end(&b);
        deafen(&e);
    }
    assert_true(judged > 20);
}

static void test_reload_moves_what_follows(void **state)
{
    static const char new[] = "[http]\nhosts = a.example\n[store]\nbackup_root = /copies\n"
                              "[limits]\nconnections = 7\nheader_bytes = 2k\n"
                              "[history]\nkeep = 1h\nbytes = 1k\n[memory]\nfar = 5000\n"
                              "[io]\nbackground = 1M\n[scrub]\nrate = 2M\nevery = 1d\n";
    struct bench b = {0};
    struct ear e = {.text = NULL};

    (void)state;
    listen(&e, TR_LEVEL_ERROR, false);
    assert_int_equal(read_file(&b, "", "", ""), TARRY_OK);
    assert_null(b.c.backup_root);
    write_file(b.path, new, strlen(new));
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_OK);
    assert_string_equal(b.c.http_hosts, "a.example");
    assert_string_equal(b.c.backup_root, "/copies");
    assert_int_equal(b.c.connections_max, 7);
    assert_int_equal(b.c.header_bytes, 2048);
    assert_int_equal(b.c.history_us, UINT64_C(3600000000));
    assert_int_equal(b.c.history_bytes, 1024);
    assert_int_equal(b.c.far_max, 5000);
    assert_int_equal(b.c.background_rate, 1 << 20);
    assert_int_equal(b.c.scrub_rate, 2 << 20);
    assert_int_equal(b.c.scrub_every_us, UINT64_C(86400000000));
    end(&b);
    deafen(&e);
}

static int refuse_bodies(void *ctx, const struct tr_config *fresh, char *why, size_t room)
{
    unsigned *asked = ctx;

    ++*asked;
    if (fresh->body_max <= 2048) {
        return TARRY_OK;
    }
    tr_text(why, room, "%u is too much for this test.", fresh->body_max);
    return TARRY_EINVAL;
}

/* Whoever uses the config may say no to what was read. */
static void test_reload_is_checked_by_its_user(void **state)
{
    struct bench b = {0};
    struct ear e = {.text = NULL};
    unsigned asked = 0;

    (void)state;
    listen(&e, TR_LEVEL_ERROR, false);
    assert_int_equal(read_file(&b, "[limits]\nbody = 1k\n", "", ""), TARRY_OK);
    write_file(b.path, "[limits]\nbody = 4k\n", 19);
    assert_int_equal(tr_config_reload(&b.c, &e.log, refuse_bodies, &asked), TARRY_EINVAL);
    assert_string_equal(heard(&e), "error: the config was not taken over, all stays as it was: "
                                   "4096 is too much for this test.\n");
    assert_int_equal(b.c.body_max, 1024);
    write_file(b.path, "[limits]\nbody = 2k\n", 19);
    assert_int_equal(tr_config_reload(&b.c, &e.log, refuse_bodies, &asked), TARRY_OK);
    assert_int_equal(b.c.body_max, 2048);
    assert_int_equal(asked, 2);
    write_file(b.path, "[limits]\nbody = 2x\n", 19); /* nobody is asked about what is no config */
    assert_int_equal(tr_config_reload(&b.c, &e.log, refuse_bodies, &asked), TARRY_EINVAL);
    assert_int_equal(asked, 2);
    end(&b);
    deafen(&e);
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Addresses change at a restart, tokens at once: a file that is good for a start must not leave a
 * port open that is still there. */
static void test_reload_leaves_no_port_open(void **state)
{
    static const char old[] = "[listen]\nhttp = 0.0.0.0:1\n[tokens]\na = admin * sha256:" HEX "\n";
    static const char local[] = "[listen]\nhttp = 127.0.0.1:1\n[limits]\nbody = 1k\n";
    static const char trusted[] = "[listen]\nhttp = 127.0.0.1:1\ninsecure = on\n";
    struct bench b = {0};
    struct ear e = {.text = NULL};

    (void)state;
    listen(&e, TR_LEVEL_WARNING, false);
    assert_int_equal(read_file(&b, old, "", ""), TARRY_OK);
    write_file(b.path, local, strlen(local));
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_EINVAL);
    assert_says(heard(&e), "error: the config was not taken over, all stays as it was: there would "
                           "be no token any more, but other machines can reach 0.0.0.0:1 until");
    assert_int_equal(b.c.token_count, 1);
    assert_int_equal(b.c.body_max, 65535);
    write_file(b.path, trusted, strlen(trusted)); /* that is said to be wanted */
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_OK);
    assert_int_equal(b.c.token_count, 0);
    assert_says(heard(&e), "there is no token any more: whoever reaches the server may do");
    write_file(b.path, local, strlen(local)); /* nothing gets worse by this one */
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_OK);
    assert_int_equal(b.c.body_max, 1024);
    end(&b);
    deafen(&e);
}

/* Who is reached by this machine only may do without. */
static void test_reload_without_the_last_token(void **state)
{
    static const char old[] = "[tokens]\na = admin * sha256:" HEX "\n";
    struct bench b = {0};
    struct ear e = {.text = NULL};

    (void)state;
    listen(&e, TR_LEVEL_WARNING, false);
    assert_int_equal(read_file(&b, old, "", ""), TARRY_OK);
    write_file(b.path, "", 0);
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_OK);
    assert_int_equal(b.c.token_count, 0);
    assert_says(heard(&e), "warning: config read again: there is no token any more");
    end(&b);
    deafen(&e);
}

static void test_reload_keeps_the_command_line(void **state)
{
    static const char new[] = "[log]\nlevel = debug\n";
    struct bench b = {0};
    struct ear e = {.text = NULL};

    (void)state;
    listen(&e, TR_LEVEL_ERROR, false);
    assert_int_equal(read_file(&b, "", "", "--log-level error"), TARRY_OK);
    write_file(b.path, new, strlen(new));
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_OK);
    assert_int_equal(b.c.log_level, TR_LEVEL_ERROR);
    assert_string_equal(heard(&e), "");
    end(&b);
    e.log.level = TR_LEVEL_INFO;
    assert_int_equal(read_both(&b, "beanstalkd -z 100", ""), TARRY_OK);
    assert_int_equal(tr_config_reload(&b.c, &e.log, NULL, NULL), TARRY_OK);
    assert_string_equal(heard(&e), "note: there is no config file to read again\n");
    assert_int_equal(b.c.body_max, 100);
    end(&b);
    deafen(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reload_takes_over_what_can_change),
        cmocka_unit_test(test_reload_of_a_broken_file_changes_nothing),
        cmocka_unit_test(test_reload_of_each_key),
        cmocka_unit_test(test_reload_moves_what_follows),
        cmocka_unit_test(test_reload_is_checked_by_its_user),
        cmocka_unit_test(test_reload_leaves_no_port_open),
        cmocka_unit_test(test_reload_without_the_last_token),
        cmocka_unit_test(test_reload_keeps_the_command_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
