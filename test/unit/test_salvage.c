/* Stores that are only looked at, checked, salvaged and repaired, on the simulated disk. */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/rng.h"
#include "engine/inner.h"
#include "engine/survey.h"
#include "engine/verify.h"
#include "rules/policy.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR (3600 * RIG_SECOND)
#define ME UINT64_C(7)

enum { IDS = 512, FILES = 64 };

/* ---- a disk that can be put back ---- */

struct image {
    char names[FILES][TR_IO_NAME_MAX];
    uint8_t *bytes[FILES];
    size_t len[FILES];
    unsigned count;
};

static void save(struct rig *rig, struct image *im)
{
    char names[4096];
    struct tr_io io = {.op = TR_IO_LIST, .buf = names, .len = sizeof names};

    *im = (struct image){.count = 0};
    assert_int_equal(rig->port.ops->run(rig->port.ctx, &io), TARRY_OK);
    for (uint64_t at = 0; at < io.got; at += strlen(names + at) + 1) {
        unsigned i = im->count++;

        assert_true(i < FILES);
        memcpy(im->names[i], names + at, strlen(names + at) + 1);
        im->len[i] = (size_t)sim_disk_size(rig->disk, im->names[i]);
        im->bytes[i] = malloc(im->len[i] + 1);
        assert_int_equal(sim_disk_peek(rig->disk, im->names[i], 0, im->bytes[i], im->len[i]),
                         im->len[i]);
    }
}

static void put_back(struct rig *rig, const struct image *im)
{
    struct tr_io names = {.op = TR_IO_DIRSYNC};

    sim_disk_reset(rig->disk, 1);
    for (unsigned i = 0; i < im->count; i++) {
        struct tr_piece piece = {im->bytes[i], im->len[i]};
        struct tr_io io = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE};

        memcpy(io.name, im->names[i], sizeof io.name);
        assert_int_equal(rig->port.ops->run(rig->port.ctx, &io), TARRY_OK);
        if (im->len[i] != 0) {
            int file = io.file;

            io = (struct tr_io){.op = TR_IO_WRITE,
                                .file = file,
                                .len = im->len[i],
                                .pieces = &piece,
                                .piece_count = 1,
                                .flags = TR_IO_THEN_SYNC};
            assert_int_equal(rig->port.ops->run(rig->port.ctx, &io), TARRY_OK);
        }
        io = (struct tr_io){.op = TR_IO_CLOSE, .file = io.file};
        assert_int_equal(rig->port.ops->run(rig->port.ctx, &io), TARRY_OK);
    }
    assert_int_equal(rig->port.ops->run(rig->port.ctx, &names), TARRY_OK);
}

static void forget(struct image *im)
{
    for (unsigned i = 0; i < im->count; i++) {
        free(im->bytes[i]);
    }
}

/* ---- what there is ---- */

struct seen {
    uint32_t sums[IDS]; /* by id: 0 none, else of the body and the due time */
    unsigned jobs;
    unsigned findings;
    unsigned lost[IDS]; /* told to be lost, by id */
    unsigned ranges;    /* that may have more, or deaths that are not known */
    unsigned fates[TR_FATE_COUNT];
    char file[TR_IO_NAME_MAX]; /* of the last finding, */
    const char *what;          /* and what it says */
    unsigned checkpoints;      /* so many were about one */
};

static int see_job(void *ctx, const struct tr_record *rec, struct tr_topic *t)
{
    struct seen *s = ctx;
    uint64_t id = rec->mask & TR_FIELD(ID) ? rec->id : rec->rid;

    assert_non_null(t);
    assert_true(id < IDS);
    assert_int_equal(s->sums[id], 0); /* once */
    s->sums[id] = (tr_crc(0, rec->body.at, rec->body.len) ^ (uint32_t)rec->due_us) | 1;
    s->jobs++;
    return TARRY_OK;
}

static void see_finding(void *ctx, const struct tr_finding *f)
{
    struct seen *s = ctx;

    s->findings++;
    s->fates[f->fate]++;
    memcpy(s->file, f->file, sizeof s->file);
    s->what = f->what;
    s->checkpoints += strncmp(f->file, "ckpt.", 5) == 0;
    if (f->fate == TR_FATE_TWICE || f->id_last != 0 || (f->fate == TR_FATE_LOST && f->id == 0)) {
        s->ranges++;
    } else if (f->id != 0 && f->id < IDS) {
        s->lost[f->id]++;
    }
}

static void see_open(void *ctx, const struct tr_finding *f)
{
    struct rig *rig = ctx;

    see_finding(rig->step_ctx, f); /* the rig's loop does not run */
}

/* Opens it as check does, reads everything, closes it. */
static int look(struct rig *rig, struct seen *s)
{
    struct tr_verify_calls calls = {.ctx = s, .found = see_finding};
    struct tr_verify_sum sum;
    struct tr_survey survey = {.ctx = s, .job = see_job};
    int err;

    *s = (struct seen){.jobs = 0};
    rig->config.read_only = true;
    rig->config.found = see_open;
    rig->step_ctx = s;
    err = rig_try_open(rig);
    if (err == TARRY_EDAMAGED || err == TARRY_EIO) {
        rig->config.salvage = true;
        err = rig_try_open(rig);
    }
    if (err == TARRY_OK) {
        assert_true(tr_state_ok(&rig->e->state));
        survey.e = rig->e;
        assert_int_equal(tr_survey_run(&survey), TARRY_OK);
        assert_int_equal(tr_verify_run(rig->e, &calls, &sum), TARRY_OK);
        assert_int_equal(sum.jobs, s->jobs);
        assert_int_equal(tr_engine_close(rig->e, rig->now), TARRY_OK);
        tr_engine_free(rig->e);
        rig->e = NULL;
    }
    rig->config.read_only = false;
    rig->config.salvage = false;
    rig->step_ctx = rig;
    return err;
}

static void repair(struct rig *rig)
{
    rig->config.salvage = true;
    rig->config.found = NULL;
    rig->config.slots_max = 64;
    assert_int_equal(rig_try_open(rig), TARRY_OK);
    assert_int_equal(tr_engine_close(rig->e, rig->now), TARRY_OK);
    tr_engine_free(rig->e);
    rig->e = NULL;
    rig->config.salvage = false;
}

/* ---- a store with some of everything ---- */

static void push_key(struct rig *rig, uint32_t t, uint64_t delay_us, const char *key)
{
    struct ask a = rig_ask(TR_OP_PUSH);

    a.req.topic = t;
    a.req.delay_us = delay_us;
    a.req.ttr_us = RIG_TTR_US;
    a.req.key = key;
    a.req.key_len = strlen(key);
    a.req.body = (const uint8_t *)key;
    a.req.body_len = strlen(key);
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
}

static void make(struct rig *rig)
{
    uint32_t mail;
    uint32_t order;

    rig_init(rig);
    rig->config.near_us = 60 * RIG_SECOND;
    rig->config.far_max = 20;
    rig->config.promote_slots = 2;
    rig_open(rig);
    mail = rig_hold(rig, "mail");
    order = rig_hold(rig, "order");
    for (unsigned i = 0; i < 120; i++) { /* far: most of them go to groups */
        (void)rig_push_body(rig, i % 3 == 0 ? mail : order, HOUR + (i * 7919 % 120) * RIG_SECOND,
                            900 + i);
        if (i % 10 == 0) {
            char key[16];

            (void)snprintf(key, sizeof key, "key-%u", i);
            push_key(rig, order, 2 * HOUR, key);
        }
    }
    rig_pass(rig, 30 * RIG_SECOND);
    for (uint64_t id = 3; id < 120; id += 4) {
        assert_int_equal(rig_with(rig, TR_OP_DELETE, id, 0), TARRY_OK);
    }
    for (unsigned i = 0; i < 6; i++) { /* dead, altered, reserved */
        uint64_t id = rig_push(rig, mail, 0);

        assert_int_equal(rig_reserve(rig, mail, ME), id);
        if (i % 3 == 0) {
            assert_int_equal(rig_with(rig, TR_OP_BURY, id, ME), TARRY_OK);
        } else if (i % 3 == 1) {
            struct ask release = rig_ask(TR_OP_RELEASE);

            release.req.id = id;
            release.req.holder = ME;
            release.req.priority = 5;
            release.req.delay_us = HOUR;
            assert_int_equal(rig_do(rig, &release), TARRY_OK);
        }
    }
    rig_pass(rig, 40 * RIG_SECOND); /* a checkpoint */
    for (unsigned i = 0; i < 12; i++) {
        (void)rig_push_body(rig, i % 2 == 0 ? mail : order, HOUR, 300);
    }
    for (uint64_t id = 5; id < 60; id += 8) {
        assert_int_equal(rig_with(rig, TR_OP_DELETE, id, 0), TARRY_OK);
    }
    rig_settle(rig);
    assert_true(rig_engine_stat(rig).groups >= 2);
    rig_kill(rig);
}

/* ---- tests ---- */

/* Nothing is written, whatever is asked; and what is asked is answered. */
static void test_look_only(void **state)
{
    struct rig rig;
    struct image im;
    struct ask a = rig_ask(TR_OP_PUSH);
    uint32_t t;

    (void)state;
    make(&rig);
    save(&rig, &im);
    for (unsigned i = 0; i < im.count; i++) {
        if (im.len[i] != 0) {
            sim_disk_guard(rig.disk, im.names[i], 0, im.len[i]);
        }
    }
    rig.config.read_only = true;
    rig_open(&rig);
    t = rig_hold(&rig, "mail");
    a.req.topic = t;
    a.req.ttr_us = RIG_TTR_US;
    assert_int_equal(rig_do(&rig, &a), TARRY_EREADONLY);
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, 1, 0), TARRY_EREADONLY);
    a = rig_ask(TR_OP_RESERVE);
    a.req.topics = &t;
    a.req.topic_count = 1;
    a.req.holder = ME;
    assert_int_equal(rig_do(&rig, &a), TARRY_EREADONLY);
    a = rig_ask(TR_OP_PEEK);
    a.req.id = 1;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.body_len, 900);
    assert_true(rig_stat(&rig, t).delayed > 10);
    a = rig_ask(TR_OP_LIST);
    a.req.topic = t;
    a.req.count = 100;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_true(a.req.out.number > 10);
    rig_pass(&rig, 3 * HOUR); /* all is due, leases end */
    assert_true(rig_stat(&rig, t).ready > 10);
    assert_int_equal(tr_engine_close(rig.e, rig.now), TARRY_OK);
    tr_engine_free(rig.e);
    rig.e = NULL;
    assert_null(sim_disk_guard_hit(rig.disk));
    for (unsigned i = 0; i < im.count; i++) {
        assert_int_equal(sim_disk_size(rig.disk, im.names[i]), im.len[i]);
    }
    forget(&im);
    rig_fini(&rig);
}

/* What is over stays as it is: nobody waits for its end, and nothing wakes us to look again. */
static void test_look_at_what_is_over(void **state)
{
    struct tr_policy p = tr_policy_default();
    struct rig rig;
    uint64_t late;
    uint64_t dead;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "mail");
    p.ttl_us = 10 * RIG_SECOND;
    p.dead_keep_us = 10 * RIG_SECOND;
    rig_policy(&rig, t, &p, TR_POLICY_BIT(TTL) | TR_POLICY_BIT(DEAD_KEEP));
    dead = rig_push(&rig, t, 0);
    assert_int_equal(rig_reserve(&rig, t, ME), dead);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, dead, ME), TARRY_OK);
    late = rig_push(&rig, t, 0);
    rig_close(&rig);
    rig.now.wall_us += HOUR;
    rig.now.boot_us += HOUR;
    rig.config.read_only = true;
    rig_open(&rig);
    t = rig_hold(&rig, "mail");
    assert_int_equal(rig_state(&rig, late), TR_READY);
    assert_int_equal(rig_state(&rig, dead), TR_DEAD);
    assert_int_equal(rig_stat(&rig, t).ready, 1);
    assert_int_equal(rig_stat(&rig, 0).dead, 1);
    assert_true(rig_settle(&rig) > rig.now.boot_us + 10 * RIG_SECOND);
    rig_close(&rig);
    rig_fini(&rig);
}

static void test_look_where_nothing_is(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.config.read_only = true;
    assert_int_equal(rig_try_open(&rig), TARRY_ENOTFOUND);
    assert_int_equal(sim_disk_count_names(rig.disk, ""), 0);
    rig_fini(&rig);
}

/* ---- what a start would make good by itself ---- */

/* One place is spoiled: all jobs are there for those who look, and the file is named. */
static void spoil(struct rig *rig, const struct image *im, const char *file, uint64_t off)
{
    static struct seen before;
    static struct seen now;
    uint8_t byte;

    put_back(rig, im);
    assert_int_equal(look(rig, &before), TARRY_OK);
    assert_int_equal(before.findings, 0);
    assert_int_equal(sim_disk_peek(rig->disk, file, off, &byte, 1), 1);
    byte ^= 16;
    sim_disk_poke(rig->disk, file, off, &byte, 1);
    assert_int_equal(look(rig, &now), TARRY_OK);
    if (now.findings == 0 || now.fates[TR_FATE_NONE] != now.findings ||
        strcmp(now.file, file) != 0) {
        fail_msg("%s at %llu: %u findings, the last one about %s", file, (unsigned long long)off,
                 now.findings, now.file);
    }
    assert_memory_equal(now.sums, before.sums, sizeof now.sums);
    rig_open(rig);
    rig_close(rig);
    assert_int_equal(look(rig, &now), TARRY_OK);
    assert_int_equal(now.findings, 0);
}

static bool ends(const char *name, const char *end)
{
    return strlen(name) > strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

static void test_look_at_what_can_be_made_again(void **state)
{
    struct rig rig;
    struct image im;
    unsigned groups = 0;

    (void)state;
    make(&rig);
    save(&rig, &im);
    for (unsigned i = 0; i < im.count; i++) {
        if (ends(im.names[i], ".six")) {
            spoil(&rig, &im, im.names[i], 0);
            spoil(&rig, &im, im.names[i], 4096 + 40);
            groups++;
        }
        if (ends(im.names[i], ".run") || ends(im.names[i], ".dead")) {
            spoil(&rig, &im, im.names[i], im.len[i] - 10);
            spoil(&rig, &im, im.names[i], im.len[i] - 80);
        }
    }
    assert_true(groups >= 2);
    forget(&im);
    rig_fini(&rig);
}

static void lose_a_run(struct rig *rig, const struct image *im)
{
    struct tr_io io = {.op = TR_IO_UNLINK};

    put_back(rig, im);
    for (unsigned i = 0; i < im->count && io.name[0] == '\0'; i++) {
        if (ends(im->names[i], ".run")) {
            memcpy(io.name, im->names[i], sizeof io.name);
        }
    }
    assert_int_equal(rig->port.ops->run(rig->port.ctx, &io), TARRY_OK);
}

/* The newer checkpoint, which a start passes over. */
static void test_look_tells_of_the_newer_checkpoint(void **state)
{
    static const uint64_t offs[] = {4, 20, 50};
    static struct seen now;
    struct rig rig;
    struct image im;
    unsigned newer;

    (void)state;
    make(&rig);
    rig_open(&rig);
    rig_close(&rig);
    rig_open(&rig);
    newer = rig.e->meta.now.ckpt_now;
    rig_kill(&rig);
    save(&rig, &im);
    for (unsigned k = 0; k < sizeof offs / sizeof offs[0]; k++) {
        spoil(&rig, &im, newer == 0 ? "ckpt.0" : "ckpt.1", offs[k]);
        spoil(&rig, &im, newer == 0 ? "ckpt.0" : "ckpt.1", 8192 + offs[k]);
    }
    lose_a_run(&rig, &im); /* and of a store that cannot be opened as it is */
    assert_int_equal(look(&rig, &now), TARRY_OK);
    assert_int_equal(now.checkpoints, 0);
    sim_disk_poke(rig.disk, newer == 0 ? "ckpt.0" : "ckpt.1", 20, "\xff\xff", 2);
    assert_int_equal(look(&rig, &now), TARRY_OK);
    assert_int_equal(now.checkpoints, 1);
    forget(&im);
    rig_fini(&rig);
}

/* Headers of slots that are in use, which their frames can do without. */
static void test_look_tells_of_headers(void **state)
{
    static const uint64_t offs[] = {4, 20, 50};
    bool used[64] = {false};
    struct rig rig;
    struct image im;
    unsigned slots = 0;

    (void)state;
    make(&rig);
    rig_open(&rig);
    for (unsigned i = 0; i < rig.e->log.slots_max && i < 64; i++) {
        enum tr_slot_state is = rig.e->log.slots[i].state;

        used[i] = is == TR_SLOT_TAIL || is == TR_SLOT_SEALED;
        slots += used[i];
    }
    assert_true(slots >= 2);
    rig_kill(&rig);
    save(&rig, &im);
    for (unsigned i = 0; i < 64; i++) {
        char name[TR_IO_NAME_MAX];

        tr_log_slot_name(name, i);
        for (unsigned k = 0; used[i] && k < sizeof offs / sizeof offs[0]; k++) {
            spoil(&rig, &im, name, offs[k]);
        }
    }
    forget(&im);
    rig_fini(&rig);
}

/* Of a group whose index is not there at all. */
static void test_look_without_an_index(void **state)
{
    static struct seen before;
    static struct seen now;
    struct rig rig;
    struct image im;
    struct tr_io io = {.op = TR_IO_UNLINK};
    unsigned removed = 0;

    (void)state;
    make(&rig);
    assert_int_equal(look(&rig, &before), TARRY_OK);
    save(&rig, &im);
    for (unsigned i = 0; i < im.count; i++) {
        if (ends(im.names[i], ".six")) {
            memcpy(io.name, im.names[i], sizeof io.name);
            assert_int_equal(rig.port.ops->run(rig.port.ctx, &io), TARRY_OK);
            removed++;
        }
    }
    assert_int_equal(look(&rig, &now), TARRY_OK);
    assert_true(now.findings >= removed);
    assert_int_equal(now.fates[TR_FATE_NONE], now.findings);
    assert_memory_equal(now.sums, before.sums, sizeof now.sums);
    rig.config.read_only = true; /* and a server can be asked */
    rig_open(&rig);
    rig_pass(&rig, 3 * HOUR);
    assert_true(rig_stat(&rig, rig_hold(&rig, "mail")).ready > 10);
    assert_true(rig_engine_stat(&rig).damaged);
    rig_close(&rig);
    forget(&im);
    rig_fini(&rig);
}

/* Of a group of which a run is not there: it is not called damaged. */
static void test_look_without_a_run(void **state)
{
    static struct seen now;
    struct rig rig;
    struct image im;

    (void)state;
    make(&rig);
    save(&rig, &im);
    lose_a_run(&rig, &im);
    assert_int_equal(look(&rig, &now), TARRY_OK);
    assert_int_equal(now.fates[TR_FATE_LOST], 1);
    assert_true(ends(now.file, ".run"));
    assert_non_null(strstr(now.what, "is missing"));
    forget(&im);
    rig_fini(&rig);
}

/* A good store: nothing is found. And a repair of it changes nothing that anybody sees. */
static void test_good_store(void **state)
{
    struct rig rig;
    static struct seen before;
    static struct seen after;

    (void)state;
    make(&rig);
    assert_int_equal(look(&rig, &before), TARRY_OK);
    assert_int_equal(before.findings, 0);
    assert_true(before.jobs > 80);
    repair(&rig);
    assert_int_equal(look(&rig, &after), TARRY_OK);
    assert_int_equal(after.findings, 0);
    assert_memory_equal(before.sums, after.sums, sizeof before.sums);
    rig_open(&rig);
    rig_pass(&rig, 3 * HOUR);
    rig_fini(&rig);
}

/* A topic that was purged after the checkpoint, policy and all: its heir has the policy. */
static void test_repair_purged(void **state)
{
    struct tr_policy p = tr_policy_default();
    struct ask purge = rig_ask(TR_OP_PURGE);
    static struct seen now;
    struct rig rig;
    uint32_t t;

    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "mail");
    p.max_jobs = 50;
    rig_policy(&rig, t, &p, TR_POLICY_BIT(MAX_JOBS));
    for (unsigned i = 0; i < 5; i++) {
        (void)rig_push(&rig, t, HOUR);
    }
    rig_pass(&rig, 40 * RIG_SECOND); /* a checkpoint */
    purge.req.topic = t;
    assert_int_equal(rig_do(&rig, &purge), TARRY_OK);
    (void)rig_push(&rig, t, HOUR);
    rig_kill(&rig);
    repair(&rig);
    assert_int_equal(look(&rig, &now), TARRY_OK);
    assert_int_equal(now.findings, 0);
    assert_int_equal(now.jobs, 1);
    rig_open(&rig);
    t = rig_hold(&rig, "mail");
    assert_int_equal(rig_stat(&rig, t).delayed, 1);
    assert_int_equal(rig.policy.max_jobs, 50);
    rig_close(&rig);
    rig_fini(&rig);
}

/* What is there now, against what was there before the damage. */
static void judge(const struct seen *before, const struct seen *now, const char *where)
{
    for (unsigned id = 0; id < IDS; id++) {
        if (before->sums[id] == now->sums[id]) {
            continue;
        }
        if (now->findings == 0) {
            fail_msg("%s: job %u is not as it was, and nothing was told", where, id);
        }
        if (before->sums[id] != 0 && now->sums[id] == 0 && now->lost[id] == 0 && now->ranges == 0) {
            fail_msg("%s: job %u is gone, and others were named", where, id);
        }
        if (now->sums[id] != 0 && now->ranges == 0) {
            fail_msg("%s: job %u is another one, or there again", where, id);
        }
    }
}

/* One damaged place: it is told or does no harm; a repair makes a store that is whole, and keeps
 * all that could be read. */
static void harm(struct rig *rig, const struct image *im, unsigned file, uint64_t off, bool sector)
{
    static struct seen before;
    static struct seen now;
    static struct seen after;
    static bool known;
    uint8_t bytes[512];
    char where[96];
    size_t len = sector && im->len[file] - off >= sizeof bytes ? sizeof bytes : 1;

    put_back(rig, im);
    if (!known) {
        assert_int_equal(look(rig, &before), TARRY_OK);
        known = true;
    }
    (void)snprintf(where, sizeof where, "%s at %llu, %zu", im->names[file], (unsigned long long)off,
                   len);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = im->bytes[file][off + i] ^ (uint8_t)(len == 1 ? 4 : 0xa5 + i);
    }
    sim_disk_poke(rig->disk, im->names[file], off, bytes, len);
    assert_int_equal(look(rig, &now), TARRY_OK);
    judge(&before, &now, where);
    if (now.findings == 0) {
        return;
    }
    repair(rig);
    assert_int_equal(look(rig, &after), TARRY_OK);
    if (after.findings != 0) {
        fail_msg("%s: still damaged after the repair", where);
    }
    for (unsigned id = 0; id < IDS; id++) { /* what is made again shows what could not be seen */
        if (after.sums[id] != now.sums[id] &&
            (now.sums[id] != 0 || after.sums[id] != before.sums[id])) {
            fail_msg("%s: the repair lost or made job %u", where, id);
        }
    }
    rig_open(rig);
    rig_close(rig);
}

static void test_harm(void **state)
{
    struct rig rig;
    struct image im;
    struct tr_rng rng = {.state = 5};

    (void)state;
    make(&rig);
    save(&rig, &im);
    for (unsigned i = 0; i < im.count; i++) {
        uint64_t step = im.names[i][0] == 'g' ? 2048 : 4096;

        for (uint64_t off = 0; off < im.len[i]; off += step) {
            uint64_t at = off + tr_rng_next(&rng) % 512;

            if (at < im.len[i] && (im.bytes[i][at] != 0 || off % 16384 == 0)) {
                harm(&rig, &im, i, at, tr_rng_next(&rng) % 2 == 0);
            }
        }
    }
    forget(&im);
    rig_fini(&rig);
}

/* Zeros over a frame that others follow. */
static void break_frame(struct rig *rig)
{
    uint8_t zeros[4096] = {0};

    for (unsigned slot = 0; slot < 16; slot++) {
        char name[TR_IO_NAME_MAX];
        uint64_t frames[64];
        unsigned count = 0;

        tr_log_slot_name(name, slot);
        for (uint64_t off = 4096; off < sim_disk_size(rig->disk, name); off += 4096) {
            uint8_t magic[4];

            (void)sim_disk_peek(rig->disk, name, off, magic, sizeof magic);
            if (tr_get_le(magic, 4) == TR_FRAME_MAGIC) {
                frames[count++] = off;
            }
        }
        if (count > 6) {
            sim_disk_poke(rig->disk, name, frames[count / 2], zeros, sizeof zeros);
        }
    }
}

/* A crash at each disk operation of a repair: the next one ends with the same jobs. */
static void test_repair_killed(void **state)
{
    struct rig rig;
    struct image im;
    static struct seen whole;
    static struct seen now;

    (void)state;
    make(&rig);
    break_frame(&rig);
    save(&rig, &im);
    repair(&rig);
    assert_int_equal(look(&rig, &whole), TARRY_OK);
    assert_int_equal(whole.findings, 0);
    for (uint64_t n = 1;; n += 3) {
        bool dead;

        put_back(&rig, &im);
        sim_disk_faults(rig.disk)->crash_at = sim_disk_op_count(rig.disk) + n;
        rig.config.salvage = true;
        if (rig_try_open(&rig) == TARRY_OK) {
            int err = tr_engine_close(rig.e, rig.now);

            assert_true(err == TARRY_OK || sim_disk_dead(rig.disk));
            tr_engine_free(rig.e);
            rig.e = NULL;
        }
        rig.config.salvage = false;
        dead = sim_disk_dead(rig.disk);
        if (n % 2 == 0) {
            sim_disk_kill(rig.disk);
        } else {
            sim_disk_power_cut(rig.disk);
        }
        repair(&rig);
        assert_int_equal(look(&rig, &now), TARRY_OK);
        assert_int_equal(now.findings, 0);
        assert_memory_equal(now.sums, whole.sums, sizeof now.sums);
        if (!dead) {
            break;
        }
    }
    forget(&im);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look_only),
        cmocka_unit_test(test_look_at_what_is_over),
        cmocka_unit_test(test_look_where_nothing_is),
        cmocka_unit_test(test_look_at_what_can_be_made_again),
        cmocka_unit_test(test_look_tells_of_the_newer_checkpoint),
        cmocka_unit_test(test_look_tells_of_headers),
        cmocka_unit_test(test_look_without_an_index),
        cmocka_unit_test(test_look_without_a_run),
        cmocka_unit_test(test_good_store),
        cmocka_unit_test(test_repair_purged),
        cmocka_unit_test(test_harm),
        cmocka_unit_test(test_repair_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
