/*
 * Stores of every released format, made by test/golden/make_golden.c and never changed: this build
 * must open each and find what its maker saw, closed in order or not.
 */

#include "base/err.h"
#include "test/golden/golden.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void shell(const char *format, const char *a, const char *b, const char *c)
{
    char command[3 * PATH_MAX];

    (void)snprintf(command, sizeof command, format, a, b, c);
    assert_int_equal(system(command), 0);
}

static char *expected(const char *name)
{
    char path[PATH_MAX];
    char *text = calloc(1, RIG_TEXT_MAX);
    FILE *f;

    assert_non_null(text);
    (void)snprintf(path, sizeof path, "%s/test/golden/%s.expected", SOURCE_ROOT, name);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, RIG_TEXT_MAX - 1, f) > 0);
    fclose(f);
    return text;
}

/* Opens, compares, and ends in order or not. */
static void visit(const char *dir, const char *name, bool close)
{
    struct rig rig;
    struct golden *g = golden_new(&rig, dir);
    char *want = expected(name);
    char *facts;

    golden_configure(&rig, name);
    rig.now.wall_us = GOLDEN_OPEN_US;
    rig_open(&rig);
    if (strcmp(name, "v1-mid-relog") == 0 && !close) { /* it is what its name says */
        assert_int_equal(rig_engine_stat(&rig).slots_free, GOLDEN_RELOG_FREE);
    }
    if (golden_has_groups(name)) {
        assert_true(rig_engine_stat(&rig).groups >= 2);
    }
    facts = golden_facts(&rig, name);
    assert_string_equal(facts, want);
    assert_int_equal(rig.notes[TR_NOTE_DAMAGE] + rig.notes[TR_NOTE_WARNING], 0);
    free(facts);
    free(want);
    if (close) {
        rig_close(&rig);
    }
    golden_free(g);
}

static void check(const char *name)
{
    char dir[] = "/tmp/test_golden.XXXXXX";

    assert_non_null(mkdtemp(dir));
    shell("tar -C %s -xzf %s/test/golden/%s.tar.gz", dir, SOURCE_ROOT, name);
    visit(dir, name, false); /* and is killed */
    visit(dir, name, true);  /* after the first manifest of this version */
    visit(dir, name, true);  /* after its first checkpoint */
    shell("rm -rf %s%s%s", dir, "", "");
}

static void test_golden_clean(void **state)
{
    (void)state;
    check("v1-clean");
}

static void test_golden_killed(void **state)
{
    (void)state;
    check("v1-killed");
}

static void test_golden_mid_relog(void **state)
{
    (void)state;
    check("v1-mid-relog");
}

static void test_golden_groups(void **state)
{
    (void)state;
    check("v1-groups");
}

static void test_golden_groups_killed(void **state)
{
    (void)state;
    check("v1-groups-killed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_clean),         cmocka_unit_test(test_golden_killed),
        cmocka_unit_test(test_golden_mid_relog),     cmocka_unit_test(test_golden_groups),
        cmocka_unit_test(test_golden_groups_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
