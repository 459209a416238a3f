/* Databases: URLs, schemas and sentences. All that needs a server is in test/system/test_sql.py. */

#include "base/err.h"
#include "base/text.h"
#include "remote/sql_conn.h"
#include "remote/sql_schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_sql_url_reads(void **state)
{
    static const struct {
        const char *text;
        const char *host;
        unsigned port;
        const char *socket;
        const char *database;
    } good[] = {
        {"mariadb://h/d", "h", 3306, "", "d"},
        {"mysql://db.example:3307/a_b-c$1", "db.example", 3307, "", "a_b-c$1"},
        {"mariadb://[::1]/d", "::1", 3306, "", "d"},
        {"mariadb://[fe80::1%eth0]:1/d", "fe80::1%eth0", 1, "", "d"},
        {"mariadb:///d?socket=/run/x", "", 3306, "/run/x", "d"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct tr_sql_url url;
        const char *why;

        assert_int_equal(tr_sql_url_read(&url, good[i].text, &why), TARRY_OK);
        assert_string_equal(url.host, good[i].host);
        assert_int_equal(url.port, good[i].port);
        assert_string_equal(url.socket, good[i].socket);
        assert_string_equal(url.database, good[i].database);
    }
}

static void test_sql_url_refuses(void **state)
{
    static const char *const bad[] = {
        "",
        "h",
        "://h/d",
        "postgres://h/d",
        "mariadb:/h/d",
        "mariadb://h",
        "mariadb://h/",
        "mariadb:///d",
        "mariadb://h:/d",
        "mariadb://h:0/d",
        "mariadb://h:65536/d",
        "mariadb://h:x/d",
        "mariadb://[::1/d",
        "mariadb://[]/d",
        "mariadb://h h/d",
        "mariadb://h/d/e",
        "mariadb://h/d?socket=/x",
        "mariadb:///d?socket=x",
        "mariadb:///d?sock=/x",
        "mariadb://h/d`e",
        "mariadb://u:p@h/d",
        "mariadb://h/0123456789012345678901234567890123456789012345678901234567890123456789",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tr_sql_url url;
        const char *why = NULL;

        assert_int_equal(tr_sql_url_read(&url, bad[i], &why), TARRY_EINVAL);
        assert_non_null(why);
    }
}

static void test_sql_schema_has_all_its_tables(void **state)
{
    const struct tr_sql_table *t;
    char name[64];

    (void)state;
    for (unsigned i = 0; (t = tr_sql_schema_table(i)) != NULL; i++) {
        bool made = false;
        const char *text;

        tr_text(name, sizeof name, " `%s` (", t->name);
        for (unsigned n = 0; (text = tr_sql_schema_step(1, n)) != NULL; n++) {
            made |= strstr(text, name) != NULL && strstr(text, "IF NOT EXISTS") != NULL;
        }
        assert_true(made);
    }
    assert_int_equal(tr_sql_schema_fit(0), TR_SQL_MISSING);
    assert_int_equal(tr_sql_schema_fit(TR_SQL_SCHEMA_OLDEST), TR_SQL_FITS);
    assert_int_equal(tr_sql_schema_fit(TR_SQL_SCHEMA), TR_SQL_FITS);
    assert_int_equal(tr_sql_schema_fit(TR_SQL_SCHEMA + 1), TR_SQL_NEWER);
    assert_true(TR_SQL_SCHEMA - TR_SQL_SCHEMA_OLDEST <= 1);
}

static void test_sql_fault_says_what_to_do(void **state)
{
    struct tr_sql_access access = {.user = "u", .password = "secret"};
    struct tr_sql_fault f;
    const char *why;

    (void)state;
    assert_int_equal(tr_sql_url_read(&access.url, "mariadb://h/d", &why), TARRY_OK);
    tr_sql_fault_set(&f, &access, 1142, "DROP command denied to user 'u'@'h' for table `d`.`t`");
    assert_int_equal(f.blame, TR_SQL_REFUSED);
    assert_non_null(strstr(f.why, "GRANT DROP ON `d`.* TO u;"));
    assert_null(strstr(f.why, "secret"));
    tr_sql_fault_set(&f, &access, 2003, "Can't connect\nto it");
    assert_int_equal(f.blame, TR_SQL_AWAY);
    assert_non_null(strstr(f.why, "d at h:3306 cannot be reached: Can't connect to it (2003)."));
    tr_sql_fault_set(&f, &access, 1213, "Deadlock found");
    assert_int_equal(f.blame, TR_SQL_AGAIN);
    tr_sql_fault_set(&f, &access, 1030, "Got error 28 \"No space left on device\" from storage");
    assert_int_equal(f.blame, TR_SQL_FULL);
    tr_sql_fault_set(&f, &access, 1030, "Got error 5 \"Input/output error\" from storage engine");
    assert_int_equal(f.blame, TR_SQL_OTHER);
    tr_sql_fault_set(&f, &access, 3101, "Plugin instructed the server to rollback");
    assert_int_equal(f.blame, TR_SQL_AGAIN);
    tr_sql_fault_set(&f, &access, 1180, "Got error 1 during COMMIT");
    assert_int_equal(f.blame, TR_SQL_AWAY); /* it is looked up */
    tr_sql_fault_set(&f, &access, 1129, "Host is blocked");
    assert_int_equal(f.blame, TR_SQL_AWAY);
    tr_sql_fault_set(&f, &access, 9999, "odd %s");
    assert_int_equal(f.blame, TR_SQL_OTHER);
    assert_string_equal(f.why, "d at h:3306 says: odd %s (9999).");
    tr_sql_fault_set(&f, &access, 2999, "odd");
    assert_int_equal(f.blame, TR_SQL_AWAY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sql_url_reads),
        cmocka_unit_test(test_sql_url_refuses),
        cmocka_unit_test(test_sql_schema_has_all_its_tables),
        cmocka_unit_test(test_sql_fault_says_what_to_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
