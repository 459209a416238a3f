/*
 * Makes the golden stores of this format version. Run it once when the version is released, and
 * never again: later builds must open what this one wrote. With names it makes only these.
 *
 *     ninja -C build make_golden && build/make_golden test/golden [NAME...]
 *
 * For each store it writes <name>.tar.gz, and <name>.expected: every job's facts, one line each,
 * as the engine that wrote the store saw them (rig_facts).
 *
 *     v1-clean      closed in order
 *     v1-killed     copied the moment the last answer was durable, as after kill -9
 *     v1-mid-relog  copied when live records were written again and their old slot not yet freed
 *     v1-groups     far and dead jobs in run files, closed in order; v1-groups-killed: copied
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

enum { ME = 7 };

#define DAY (86400 * RIG_SECOND)

static const char *out; /* folder */

static void shell(const char *format, const char *a, const char *b)
{
    char command[3 * PATH_MAX];

    (void)snprintf(command, sizeof command, format, a, b);
    if (system(command) != 0) {
        fprintf(stderr, "make_golden: failed: %s\n", command);
        exit(1);
    }
}

static uint64_t take(struct rig *rig, uint64_t id)
{
    struct ask a = rig_ask(TR_OP_RESERVE_JOB);

    a.req.id = id;
    a.req.ttr_us = 30 * DAY;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.job.lease;
}

static void edit(struct rig *rig, uint64_t id, unsigned what)
{
    struct ask a = rig_ask(TR_OP_EDIT);

    a.req.id = id;
    a.req.edit = what;
    a.req.delay_us = 5 * DAY;
    a.req.priority = 5000;
    a.req.ttr_us = 77 * RIG_SECOND;
    a.req.body = (const uint8_t *)"a new body";
    a.req.body_len = 10;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
}

/* Three topics and jobs in every state, with every kind of record. */
static void furnish(struct rig *rig)
{
    uint32_t topics[3] = {rig_hold(rig, "alpha"), rig_hold(rig, "beta/2;$x"),
                          rig_hold(rig, "gamma")};
    uint64_t ids[24];
    struct ask release = rig_ask(TR_OP_RELEASE);
    struct ask beanstalk = rig_ask(TR_OP_PUSH);

    for (unsigned i = 0; i < 24; i++) {
        ids[i] = rig_push_body(rig, topics[i % 3], i % 4 * DAY, i == 8 ? 6000 : i * 37);
    }
    for (unsigned i = 0; i < 6; i++) { /* dead, in another order than their ids */
        take(rig, ids[6 - i]);
        release.req.id = ids[6 - i];
        release.req.op = i < 3 ? TR_OP_BURY : TR_OP_RELEASE;
        release.req.lease = rig_view(rig, ids[6 - i]).lease;
        release.req.delay_us = i % 2 * DAY;
        release.req.priority = 10 + i;
        assert_int_equal(rig_do(rig, &release), TARRY_OK);
        release = rig_ask(TR_OP_RELEASE);
    }
    edit(rig, ids[8], TR_EDIT_DUE); /* long: an ALTER */
    edit(rig, ids[9], TR_EDIT_DUE | TR_EDIT_TTR);
    edit(rig, ids[10], TR_EDIT_PRIORITY);
    edit(rig, ids[11], TR_EDIT_BODY);
    take(rig, ids[12]); /* leases that outlive the process */
    take(rig, ids[13]);
    assert_int_equal(rig_with(rig, TR_OP_RESERVE_JOB, ids[14], ME), TARRY_OK);
    assert_int_equal(rig_with(rig, TR_OP_KICK_JOB, ids[4], 0), TARRY_OK);
    assert_int_equal(rig_with(rig, TR_OP_DELETE, ids[15], 0), TARRY_OK);
    assert_int_equal(rig_with(rig, TR_OP_DELETE, ids[16], 0), TARRY_OK);
    beanstalk.req.topic = topics[0];
    beanstalk.req.beanstalk = true;
    assert_int_equal(rig_do(rig, &beanstalk), TARRY_OK);
    rig_pass(rig, RIG_SECOND / 5); /* lazy records and the SEAL are written */
}

/* Turns and disk until the answer may be told. */
static void wait_durable(struct rig *rig, const struct ask *a)
{
    while (a->done == 0 || rig->durable < a->req.out.gate) {
        rig_turn(rig);
        (void)rig->step(rig->step_ctx);
    }
    assert_int_equal(a->req.out.status, TARRY_OK);
}

/*
 * Turns the ring until live records are written again, and stops when these are durable and the
 * slot they came from is not yet free. No request is under way then: the copy has all answers.
 */
static void relog(struct rig *rig)
{
    static const uint8_t body[3000];
    uint32_t t = rig_hold(rig, "gamma");
    uint64_t before = rig_engine_stat(rig).relogged;
    uint64_t closed = 0;
    uint64_t id = 0;

    while (rig_engine_stat(rig).relogged == before) {
        struct ask a = rig_ask(id == 0 ? TR_OP_PUSH : TR_OP_DELETE);

        a.req.topic = t;
        a.req.body = body;
        a.req.body_len = sizeof body;
        a.req.id = id;
        rig_submit(rig, &a);
        wait_durable(rig, &a);
        id = id == 0 ? a.req.out.job.id : 0;
        closed = rig_engine_stat(rig).closed_batch; /* they go into the batch after it */
        rig_turn(rig);
    }
    while (rig_engine_stat(rig).durable_batch <= closed) {
        (void)rig->step(rig->step_ctx);
        if (rig_engine_stat(rig).durable_batch <= closed) {
            rig_turn(rig);
        }
    }
    assert_int_equal(rig_engine_stat(rig).slots_free, GOLDEN_RELOG_FREE);
}

static void count_groups(void *ctx, const struct tr_group_fact *g)
{
    unsigned *count = ctx;

    count[0] += g->run_bytes != 0;
    count[1] += g->dead_bytes != 0;
}

/* Far, moved, altered and dead jobs, most of them in runs; some of those are gone again. */
static void furnish_groups(struct rig *rig)
{
    uint32_t topics[2] = {rig_hold(rig, "alpha"), rig_hold(rig, "beta")};
    unsigned groups[2] = {0, 0};
    uint64_t ids[120];
    struct ask bury = rig_ask(TR_OP_BURY);

    for (unsigned i = 0; i < 120; i++) {
        uint64_t id = rig_push_body(rig, topics[i % 2], (1 + i % 5) * DAY, i * 2);

        ids[i] = id;
        if (i % 9 == 0) {
            edit(rig, id, TR_EDIT_DUE); /* its rid is not its id any more */
        } else if (i % 10 == 0) {
            edit(rig, id, TR_EDIT_PRIORITY);
        } else if (i % 7 == 0) {
            bury = rig_ask(TR_OP_BURY);
            bury.req.id = id;
            bury.req.lease = take(rig, id);
            bury.req.priority = i;
            assert_int_equal(rig_do(rig, &bury), TARRY_OK);
        }
    }
    rig_pass(rig, 2 * RIG_SECOND);
    tr_engine_groups(rig->e, count_groups, groups);
    assert_true(groups[0] >= 2);
    assert_true(groups[1] >= 1);
    for (unsigned i = 2; i < 60; i += 6) {
        assert_int_equal(rig_with(rig, TR_OP_DELETE, ids[i], 0), TARRY_OK);
    }
    edit(rig, ids[4], TR_EDIT_PRIORITY); /* changes of jobs in runs, in the log behind them */
    edit(rig, ids[11], TR_EDIT_DUE);
    rig_pass(rig, RIG_SECOND / 5);
}

static void write_expected(const char *name, const char *text)
{
    char path[PATH_MAX];
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/%s.expected", out, name);
    f = fopen(path, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0) {
        fprintf(stderr, "make_golden: cannot write %s\n", path);
        exit(1);
    }
}

static void make(const char *name, const char *work)
{
    char dir[PATH_MAX];
    char copy[PATH_MAX];
    struct rig rig;
    struct golden *g;
    bool clean = strcmp(name, "v1-clean") == 0 || strcmp(name, "v1-groups") == 0;
    char *facts;

    (void)snprintf(dir, sizeof dir, "%s/live", work);
    (void)snprintf(copy, sizeof copy, "%s/%s", work, name);
    shell("rm -rf %s && mkdir %s", dir, dir);
    g = golden_new(&rig, dir);
    golden_configure(&rig, name);
    rig_open(&rig);
    if (golden_has_groups(name)) {
        furnish_groups(&rig);
    } else {
        furnish(&rig);
    }
    if (strcmp(name, "v1-mid-relog") == 0) {
        relog(&rig);
    }
    if (!clean) {
        golden_quiet(g);
        shell("cp -r %s %s", dir, copy);
    }
    facts = golden_facts(&rig, name);
    write_expected(name, facts);
    free(facts);
    if (clean) {
        rig_close(&rig);
        shell("cp -r %s %s", dir, copy);
    }
    golden_free(g);
    (void)snprintf(dir, sizeof dir, "%s/%s.tar.gz", out, name);
    shell("tar -C %s --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --exclude=lock"
          " -cf - . | gzip -9n >%s",
          copy, dir);
}

int main(int argc, char **argv)
{
    static const char *const names[GOLDEN_COUNT] = GOLDEN_NAMES;
    char work[] = "/tmp/make_golden.XXXXXX";

    if (argc < 2 || mkdtemp(work) == NULL) {
        fprintf(stderr, "usage: make_golden FOLDER [NAME...]\n");
        return 2;
    }
    out = argv[1];
    for (int i = 2; i < argc; i++) {
        make(argv[i], work);
    }
    for (unsigned i = 0; i < GOLDEN_COUNT && argc == 2; i++) {
        make(names[i], work);
    }
    shell("rm -rf %s%s", work, "");
    return 0;
}
