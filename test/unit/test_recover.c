/*
 * Restarts: what comes back after a close, a kill and a power cut; leases over a restart; damage
 * that is refused, and damage that is not needed; faults during recovery.
 */

#include "base/err.h"
#include "engine/checkpoint.h"
#include "engine/inner.h"
#include "engine/manifest.h"
#include "test/unit/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ME = 7 };

#define FAR (UINT64_C(1000000) * 86400 * 365)

static uint32_t start(struct rig *rig)
{
    rig_init(rig);
    rig_open(rig);
    return rig_hold(rig, "t");
}

/* A store with jobs in every state, two topics, moved and altered ones. */
static void furnish(struct rig *rig)
{
    uint32_t t = rig_hold(rig, "t");
    uint32_t u = rig_hold(rig, "u");
    struct ask a = rig_ask(TR_OP_EDIT);
    uint64_t ids[12];

    for (unsigned i = 0; i < 12; i++) {
        ids[i] = rig_push_body(rig, i % 2 == 0 ? t : u, i % 3 == 0 ? 0 : FAR + i, i * 150);
    }
    for (unsigned i = 0; i < 3; i++) {
        uint64_t id = rig_reserve(rig, i == 0 ? t : u, ME);

        if (id != 0) {
            assert_int_equal(rig_with(rig, i == 1 ? TR_OP_BURY : TR_OP_RELEASE, id, ME), TARRY_OK);
        }
    }
    a.req.id = ids[5];
    a.req.edit = TR_EDIT_DUE | TR_EDIT_PRIORITY;
    a.req.delay_us = 2 * FAR;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    assert_int_equal(rig_with(rig, TR_OP_DELETE, ids[4], 0), TARRY_OK);
    rig_pass(rig, rig->config.lazy_us);
}

static void check_same(struct rig *rig, char *before)
{
    char *after = rig_facts(rig);

    assert_string_equal(after, before);
    free(after);
    free(before);
}

/* ---- what comes back ---- */

static void test_recover_after_close(void **state)
{
    struct rig rig;
    char *facts;

    (void)state;
    start(&rig);
    furnish(&rig);
    facts = rig_facts(&rig);
    rig_close(&rig);
    rig_open(&rig);
    check_same(&rig, facts);
    assert_int_equal(rig.notes[TR_NOTE_WARNING] + rig.notes[TR_NOTE_DAMAGE], 0);
    rig_fini(&rig);
}

static void test_recover_after_power_cut(void **state)
{
    struct rig rig;
    char *facts;

    (void)state;
    start(&rig);
    furnish(&rig);
    facts = rig_facts(&rig);
    rig_power_cut(&rig);
    rig_open(&rig);
    check_same(&rig, facts);
    facts = rig_facts(&rig);
    rig_kill(&rig); /* at once again */
    rig_open(&rig);
    check_same(&rig, facts);
    rig_fini(&rig);
}

static void test_recover_from_checkpoint_replays_little(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    char *facts;

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        rig_push(&rig, t, 0);
        if (i != 0) {
            assert_int_equal(rig_with(&rig, TR_OP_DELETE, i, 0), TARRY_OK);
        }
    }
    rig_pass(&rig, 100 * RIG_SECOND);
    furnish(&rig);
    facts = rig_facts(&rig);
    rig_power_cut(&rig);
    rig_open(&rig);
    check_same(&rig, facts);
    assert_true(rig_engine_stat(&rig).replayed < 100);
    assert_true(rig_engine_stat(&rig).epoch == 2);
    rig_fini(&rig);
}

/* Ids go on, and so do dead orders. */
static void test_recover_continues_numbers(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t dead[2];
    struct ask a = rig_ask(TR_OP_PEEK_FIRST);

    (void)state;
    dead[0] = rig_push(&rig, t, 0);
    rig_reserve(&rig, t, ME);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, dead[0], ME), TARRY_OK);
    rig_close(&rig);
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    dead[1] = rig_push(&rig, t, 0);
    assert_true(dead[1] > dead[0]);
    rig_reserve(&rig, t, ME);
    assert_int_equal(rig_with(&rig, TR_OP_BURY, dead[1], ME), TARRY_OK);
    a.req.topic = t;
    a.req.state = TR_DEAD;
    assert_int_equal(rig_do(&rig, &a), TARRY_OK);
    assert_int_equal(a.req.out.job.id, dead[0]);
    rig_fini(&rig);
}

/* Dead jobs stand in the order of their deaths, after a replay and after a checkpoint. */
static void test_recover_keeps_order_of_deaths(void **state)
{
    static const uint64_t order[] = {3, 1, 4, 2};
    struct rig rig;
    uint32_t t = start(&rig);
    struct ask a = rig_ask(TR_OP_PEEK_FIRST);

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        rig_push(&rig, t, 0);
        assert_int_equal(rig_reserve(&rig, t, ME), i + 1);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(rig_with(&rig, TR_OP_BURY, order[i], ME), TARRY_OK);
    }
    for (unsigned i = 0; i < 4; i++) {
        rig_pass(&rig, i % 2 * 40 * RIG_SECOND);
        rig_power_cut(&rig);
        rig_open(&rig);
        t = rig_hold(&rig, "t");
        a.req.topic = t;
        a.req.state = TR_DEAD;
        assert_int_equal(rig_do(&rig, &a), TARRY_OK);
        assert_int_equal(a.req.out.job.id, order[i]);
        assert_int_equal(rig_with(&rig, TR_OP_DELETE, order[i], 0), TARRY_OK);
    }
    rig_fini(&rig);
}

static void test_recover_empty_topic_is_gone(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(rig_engine_stat(&rig).topics, 0);
    assert_true(rig_hold(&rig, "u") != t);
    rig_fini(&rig);
}

/* Jobs that became due while nobody was there are ready, those that did not are not. */
static void test_recover_after_long_absence(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t due = rig_push(&rig, t, 50 * RIG_SECOND);
    uint64_t not_due = rig_push(&rig, t, 100 * RIG_SECOND);

    (void)state;
    rig_close(&rig);
    rig.now.wall_us += 100 * RIG_SECOND - 1;
    rig.now.boot_us = 5; /* another boot */
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    assert_int_equal(rig_reserve(&rig, t, ME), due);
    assert_int_equal(rig_reserve(&rig, t, ME), 0);
    rig_pass(&rig, 1);
    assert_int_equal(rig_reserve(&rig, t, ME), not_due);
    rig_fini(&rig);
}

static void test_recover_with_older_clock_warns(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    rig_close(&rig);
    rig.now.wall_us -= 10 * RIG_SECOND;
    rig_open(&rig);
    assert_true(rig.notes[TR_NOTE_WARNING] > 0);
    assert_int_equal(rig_state(&rig, id), TR_DELAYED); /* late, not early */
    rig_pass(&rig, 10 * RIG_SECOND);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    rig_fini(&rig);
}

/* ---- leases ---- */

static void test_recover_connection_leases_end(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    assert_int_equal(rig_reserve(&rig, t, ME), id);
    rig_pass(&rig, rig.config.lazy_us);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(rig_state(&rig, id), TR_READY);
    assert_int_equal(rig_view(&rig, id).reserves, 1); /* the hand-out is remembered */
    assert_int_equal(rig_view(&rig, id).timeouts, 0);
    rig_fini(&rig);
}

static uint64_t take(struct rig *rig, uint32_t t, uint64_t ttr_us)
{
    struct ask a = rig_ask(TR_OP_RESERVE);

    a.req.topics = &t;
    a.req.topic_count = 1;
    a.req.ttr_us = ttr_us;
    assert_int_equal(rig_do(rig, &a), TARRY_OK);
    return a.req.out.job.lease;
}

static void test_recover_token_lease_goes_on(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    struct ask a = rig_ask(TR_OP_DELETE);

    (void)state;
    a.req.lease = take(&rig, t, 0);
    a.req.id = id;
    rig_pass(&rig, 4 * RIG_SECOND);
    rig_power_cut(&rig);
    rig.now.boot_us = 77;
    rig.now.wall_us += RIG_SECOND;
    rig_open(&rig);
    assert_int_equal(rig_state(&rig, id), TR_RESERVED);
    assert_int_equal(rig_view(&rig, id).left_us, RIG_TTR_US - 5 * RIG_SECOND);
    assert_int_equal(rig_do(&rig, &a), TARRY_OK); /* the old token is good */
    rig_fini(&rig);
}

/* A lease keeps its own length over a restart, but never more, whatever the clock says. */
static void test_recover_token_lease_is_cut_to_its_ttr(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);

    (void)state;
    take(&rig, t, 3 * RIG_TTR_US);
    rig_pass(&rig, RIG_SECOND);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig_view(&rig, id).left_us, 3 * RIG_TTR_US - RIG_SECOND);
    rig_close(&rig);
    rig.now.wall_us -= 3600 * RIG_SECOND;
    rig_open(&rig);
    assert_int_equal(rig_view(&rig, id).left_us, 3 * RIG_TTR_US);
    rig_pass(&rig, 3 * RIG_TTR_US);
    assert_int_equal(rig_state(&rig, id), TR_DELAYED); /* due lies ahead again: never early */
    assert_int_equal(rig_view(&rig, id).timeouts, 1);
    rig_fini(&rig);
}

static void test_recover_token_lease_that_ran_out(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    uint64_t lease = take(&rig, t, 0);

    (void)state;
    rig_pass(&rig, RIG_SECOND);
    rig_power_cut(&rig);
    rig.now.wall_us += RIG_TTR_US;
    rig_open(&rig);
    rig_settle(&rig);
    assert_int_equal(rig_state(&rig, id), TR_DELAYED); /* by its backoff */
    assert_int_equal(rig_view(&rig, id).timeouts, 1);
    t = rig_hold(&rig, "t");
    rig_pass(&rig, 2 * RIG_SECOND);
    assert_true(take(&rig, t, 0) != lease); /* never the same number again */
    rig_fini(&rig);
}

/* The hand-out was never written; the number is not used again all the same (R27). */
static void test_recover_lost_lease_number_is_not_used_again(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    uint64_t id = rig_push(&rig, t, 0);
    uint64_t lease = take(&rig, t, 0);

    (void)state;
    rig_power_cut(&rig); /* before lazy_us */
    rig_open(&rig);
    assert_int_equal(rig_view(&rig, id).reserves, 0);
    t = rig_hold(&rig, "t");
    assert_true(take(&rig, t, 0) != lease);
    rig_fini(&rig);
}

/* ---- damage ---- */

static void flip(struct rig *rig, const char *name, uint64_t off)
{
    uint8_t byte;

    assert_int_equal(sim_disk_peek(rig->disk, name, off, &byte, 1), 1);
    byte ^= 0x40;
    sim_disk_poke(rig->disk, name, off, &byte, 1);
}

static void test_recover_refuses_damaged_log(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig);
    furnish(&rig);
    rig_close(&rig);
    flip(&rig, "w.000", 4096 + 100); /* the first batch */
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    assert_true(rig.notes[TR_NOTE_DAMAGE] > 0);
    assert_non_null(strstr(rig.note, "w.000"));
    flip(&rig, "w.000", 4096 + 100);
    rig_open(&rig); /* the refusal has changed nothing */
    rig_fini(&rig);
}

/* Offset of the last frame in the slot that is not a SEAL. */
static uint64_t last_frame(struct rig *rig, const char *name)
{
    uint8_t head[96];
    uint64_t last = 0;

    for (uint64_t off = 4096; off < 65536; off += 4096) {
        sim_disk_peek(rig->disk, name, off, head, sizeof head);
        if (memcmp(head, "TRfr", 4) == 0 && head[80] == 0) {
            last = off;
        }
    }
    assert_true(last != 0);
    return last;
}

/* After a pause a SEAL says that the last batch was durable: its rot is damage, not a tail (R5). */
static void test_recover_refuses_rotten_last_batch(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    rig_push(&rig, t, 0);
    rig_push(&rig, t, 0);
    rig_pass(&rig, RIG_SECOND); /* the SEAL is written */
    rig_kill(&rig);
    flip(&rig, "w.000", last_frame(&rig, "w.000") + 100);
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    flip(&rig, "w.000", last_frame(&rig, "w.000") + 100);
    flip(&rig, "w.000", last_frame(&rig, "w.000") + 20);
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    rig_fini(&rig);
}

static void test_recover_survives_one_bad_manifest_copy(void **state)
{
    static const char *const names[] = {"man.0", "man.1"};

    (void)state;
    for (unsigned file = 0; file < 2; file++) {
        for (unsigned copy = 0; copy < 2; copy++) {
            struct rig rig;
            char *facts;

            start(&rig);
            furnish(&rig);
            facts = rig_facts(&rig);
            rig_close(&rig);
            flip(&rig, names[file], copy * TR_MANIFEST_COPY + 60);
            rig_open(&rig);
            check_same(&rig, facts);
            rig_fini(&rig);
        }
    }
}

/* Both copies of the newest manifest gone: an older one would hide what happened since (R12). */
static void test_recover_refuses_older_manifest(void **state)
{
    struct rig rig;
    unsigned refused = 0;

    (void)state;
    for (unsigned file = 0; file < 2; file++) {
        const char *name = file == 0 ? "man.0" : "man.1";
        uint32_t t;
        int err;

        rig_init(&rig);
        rig_open(&rig);
        furnish(&rig);
        rig_pass(&rig, 40 * RIG_SECOND);
        t = rig_hold(&rig, "t");
        rig_push(&rig, t, 0); /* a frame that names the newest manifest */
        rig_power_cut(&rig);
        flip(&rig, name, 60);
        flip(&rig, name, TR_MANIFEST_COPY + 60);
        err = rig_try_open(&rig);
        assert_true(err == TARRY_OK || err == TARRY_EDAMAGED);
        refused += err == TARRY_EDAMAGED;
        rig_fini(&rig);
    }
    assert_int_equal(refused, 1);
}

static void test_recover_refuses_log_without_manifest(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig);
    furnish(&rig);
    rig_close(&rig);
    for (unsigned copy = 0; copy < 2; copy++) {
        flip(&rig, "man.0", copy * TR_MANIFEST_COPY + 60);
        flip(&rig, "man.1", copy * TR_MANIFEST_COPY + 60);
    }
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    assert_non_null(strstr(rig.note, "manifest"));
    rig_fini(&rig);
}

/* The newer checkpoint is bad: the older one and the log after it give the same. */
static void test_recover_uses_older_checkpoint(void **state)
{
    static const char *const names[] = {"ckpt.0", "ckpt.1"};
    unsigned reported = 0;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct rig rig;
        char *facts;

        start(&rig);
        furnish(&rig);
        rig_pass(&rig, 40 * RIG_SECOND);
        furnish(&rig);
        facts = rig_facts(&rig);
        rig_close(&rig);
        flip(&rig, names[i], 50);
        rig_open(&rig);
        check_same(&rig, facts);
        reported += rig.notes[TR_NOTE_DAMAGE] != 0;
        facts = rig_facts(&rig);
        rig_power_cut(&rig); /* and it is not built on again */
        rig_open(&rig);
        check_same(&rig, facts);
        rig_fini(&rig);
    }
    assert_int_equal(reported, 1); /* only the newer one is looked at */
}

/* The ring has turned over since: what the older checkpoint needs is still there. */
static void test_recover_uses_older_checkpoint_after_turnover(void **state)
{
    static const char *const names[] = {"ckpt.0", "ckpt.1"};

    (void)state;
    for (unsigned n = 30; n < 60; n++) {
        struct rig rig;
        uint32_t t = start(&rig);
        char *facts;

        furnish(&rig);
        for (unsigned i = 0; i < n; i++) {
            uint64_t id = rig_push_body(&rig, t, 0, 3000);

            assert_int_equal(rig_with(&rig, TR_OP_DELETE, id, 0), TARRY_OK);
        }
        facts = rig_facts(&rig);
        rig_kill(&rig);
        flip(&rig, names[n % 2], 50);
        rig_open(&rig);
        check_same(&rig, facts);
        rig_fini(&rig);
    }
}

/* Opening again and again, killed each time, uses nothing up. */
static uint64_t slots_in_use(struct rig *rig)
{
    return rig_engine_stat(rig).slots - rig_engine_stat(rig).slots_free;
}

/* R14: a start goes on in the tail segment, so that a crash loop does not use up the ring. */
static void test_recover_many_starts(void **state)
{
    struct rig rig;
    uint64_t in_use;
    char *facts;

    (void)state;
    rig_init(&rig);
    rig.config.slots_max = 6;
    rig_open(&rig);
    furnish(&rig);
    in_use = slots_in_use(&rig);
    for (unsigned i = 0; i < 30; i++) {
        facts = rig_facts(&rig);
        rig_power_cut(&rig);
        rig_open(&rig);
        check_same(&rig, facts);
        rig_push(&rig, rig_hold(&rig, "t"), 0);
        assert_int_equal(rig_engine_stat(&rig).epoch, i + 2);
        if (i < 4) {
            assert_int_equal(slots_in_use(&rig), in_use);
        }
    }
    assert_int_equal(slots_in_use(&rig), 3);
    rig_fini(&rig);
}

static void test_recover_refuses_two_bad_checkpoints(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig);
    furnish(&rig);
    rig_pass(&rig, 40 * RIG_SECOND);
    furnish(&rig);
    rig_close(&rig);
    flip(&rig, "ckpt.0", 50);
    flip(&rig, "ckpt.1", 50);
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    rig_fini(&rig);
}

static void remove_file(struct rig *rig, const char *name)
{
    struct tr_io io = {.op = TR_IO_UNLINK};

    memcpy(io.name, name, strlen(name));
    assert_int_equal(rig->port.ops->run(rig->port.ctx, &io), TARRY_OK);
}

static void test_recover_refuses_missing_slot(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig);
    furnish(&rig);
    rig_close(&rig);
    remove_file(&rig, "w.000");
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    rig_fini(&rig);
}

/* The manifest names a slot beyond slots_max, and its file is gone. */
static void test_recover_refuses_missing_slot_beyond_limit(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);

    (void)state;
    for (unsigned i = 0; i < 120; i++) {
        rig_push_body(&rig, t, FAR, 3000);
    }
    rig_close(&rig);
    for (unsigned i = 4; i < 16; i++) {
        char name[8] = {'w', '.', '0', (char)('0' + i / 10), (char)('0' + i % 10), 0};

        remove_file(&rig, name);
    }
    rig.config.slots_max = 4;
    assert_int_equal(rig_try_open(&rig), TARRY_EDAMAGED);
    rig_fini(&rig);
}

/* A tail whose header rotted is known by its frames, and gets its header back (R6). */
static void test_recover_repairs_header(void **state)
{
    struct rig rig;
    uint32_t t;
    uint8_t block[TR_BLOCK];
    struct tr_segment seg;
    char *facts;

    (void)state;
    t = start(&rig);
    rig_push(&rig, t, FAR);
    rig_push_body(&rig, t, 0, 5000);
    facts = rig_facts(&rig);
    rig_close(&rig);
    flip(&rig, "w.000", 40);
    rig_open(&rig);
    assert_int_equal(rig.notes[TR_NOTE_DAMAGE], 1);
    assert_non_null(strstr(rig.note, "header of slot w.000"));
    check_same(&rig, facts);
    assert_int_equal(sim_disk_peek(rig.disk, "w.000", 0, block, TR_BLOCK), TR_BLOCK);
    assert_int_equal(tr_segment_decode(block, &seg), TARRY_OK);
    facts = rig_facts(&rig);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(rig.notes[TR_NOTE_DAMAGE], 1);
    check_same(&rig, facts);
    rig_fini(&rig);
}

/* Nobody says that the first batch of the segment was durable: a power cut may have kept its frame
 * without the header. That is put right, and is no damage. */
static void test_recover_makes_header_that_was_cut_off(void **state)
{
    struct rig rig;
    char *facts;

    (void)state;
    start(&rig); /* one batch, which makes the topic */
    facts = rig_facts(&rig);
    rig_power_cut(&rig); /* before a SEAL, and before a manifest */
    flip(&rig, "w.000", 40);
    for (unsigned look = 2; look-- > 0;) {
        rig.config.read_only = look != 0;
        rig_open(&rig);
        assert_int_equal(rig.notes[TR_NOTE_DAMAGE], 0);
        assert_false(rig.e->log.slots[0].headless);
        if (look != 0) {
            rig_kill(&rig);
        }
    }
    check_same(&rig, facts);
    rig_push(&rig, rig_hold(&rig, "t"), FAR);
    rig_close(&rig);
    flip(&rig, "w.000", 40); /* but now it was there */
    rig_open(&rig);
    assert_int_equal(rig.notes[TR_NOTE_DAMAGE], 1);
    rig_fini(&rig);
}

/* Headers of sealed segments, too: else what is written later would say that they were there. */
static void test_recover_repairs_headers_of_sealed_slots(void **state)
{
    struct rig rig;
    uint32_t t = start(&rig);
    unsigned repaired = 0;

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        rig_push_body(&rig, t, FAR, 3000);
    }
    rig_kill(&rig);
    for (unsigned i = 0; i < 8; i++) {
        char name[TR_IO_NAME_MAX];

        tr_log_slot_name(name, i);
        if (sim_disk_exists(rig.disk, name)) {
            flip(&rig, name, 44);
        }
    }
    rig_open(&rig);
    for (uint32_t i = 0; i < rig.e->log.slots_max; i++) {
        repaired += rig.e->log.slots[i].headless;
    }
    assert_true(repaired >= 2);
    assert_int_equal(rig.notes[TR_NOTE_DAMAGE], repaired);
    rig_power_cut(&rig);
    rig_open(&rig);
    assert_int_equal(rig.notes[TR_NOTE_DAMAGE], repaired);
    rig_fini(&rig);
}

/* A body that rots while the store is closed is found when it is read, and reported. */
static void test_recover_reports_rotten_body_when_read(void **state)
{
    struct rig rig;
    uint32_t t;
    struct ask a = rig_ask(TR_OP_PEEK);

    (void)state;
    rig_init(&rig);
    rig.config.body_cache_bytes = 0;
    rig_open(&rig);
    t = rig_hold(&rig, "t");
    a.req.id = rig_push_body(&rig, t, 0, 2000);
    flip(&rig, "w.000", 4096 + 1500);
    assert_int_equal(rig_do(&rig, &a), TARRY_EDAMAGED);
    assert_int_equal(rig.notes[TR_NOTE_DAMAGE], 1);
    assert_int_equal(rig_reserve(&rig, t, ME), 0); /* not handed out: it is dead now */
    assert_int_equal(rig_state(&rig, a.req.id), TR_DEAD);
    rig_fini(&rig);
}

static void test_recover_second_engine_is_locked_out(void **state)
{
    struct rig rig;
    struct tr_engine *other;

    (void)state;
    start(&rig);
    assert_int_equal(tr_engine_open(&other, &rig.config, rig.port, 9, rig.now), TARRY_ELOCKED);
    assert_null(other);
    rig_fini(&rig);
}

static void test_recover_refuses_impossible_config(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.config.slot_bytes = 65536 - 4096;
    assert_int_equal(rig_try_open(&rig), TARRY_EINVAL);
    rig.config.slot_bytes = 65537;
    assert_int_equal(rig_try_open(&rig), TARRY_EINVAL);
    rig.config.slot_bytes = 65536;
    rig.config.slots_max = 3;
    assert_int_equal(rig_try_open(&rig), TARRY_EINVAL);
    rig.config.slots_max = 4;
    rig_open(&rig);
    rig_close(&rig);
    rig.config.slot_bytes = 131072; /* an old store keeps its own */
    rig_open(&rig);
    assert_int_equal(sim_disk_size(rig.disk, "w.000"), 65536);
    rig_fini(&rig);
}

/* Each disk call of opening fails once: an error, nothing lost, no leak; then it opens. */
static void test_recover_open_under_each_fault(void **state)
{
    static const int codes[] = {TARRY_EIO, TARRY_ENOSPC};

    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        uint64_t hits = 1;

        for (uint64_t n = 1; hits != 0; n++) {
            struct rig rig;
            struct sim_faults *f;
            char *facts;
            int err;

            start(&rig);
            furnish(&rig);
            facts = rig_facts(&rig);
            rig_power_cut(&rig);
            f = sim_disk_faults(rig.disk);
            f->fail_at = n;
            f->fail_code = codes[c];
            f->fail_seen = 0;
            f->fail_hits = 0;
            err = rig_try_open(&rig);
            hits = f->fail_hits;
            f->fail_at = 0;
            if (err == TARRY_OK) {
                rig_power_cut(&rig);
            }
            assert_true(err == TARRY_OK || err == codes[c] || err == TARRY_EDAMAGED);
            sim_disk_power_cut(rig.disk);
            rig_open(&rig);
            check_same(&rig, facts);
            rig_fini(&rig);
            assert_true(n < 1000);
        }
    }
}

/* The power goes at each disk call of opening: the next opening finds the same. */
static void test_recover_crash_at_each_call_of_opening(void **state)
{
    bool crashed = true;

    (void)state;
    for (uint64_t n = 1; crashed; n++) {
        struct rig rig;
        char *facts;
        int err;

        start(&rig);
        furnish(&rig);
        facts = rig_facts(&rig);
        rig_power_cut(&rig);
        sim_disk_faults(rig.disk)->crash_at = sim_disk_op_count(rig.disk) + n;
        err = rig_try_open(&rig);
        crashed = sim_disk_dead(rig.disk);
        assert_true(err == TARRY_OK || crashed);
        sim_disk_power_cut(rig.disk);
        if (err == TARRY_OK) {
            rig_power_cut(&rig);
        }
        rig_open(&rig);
        check_same(&rig, facts);
        rig_fini(&rig);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recover_after_close),
        cmocka_unit_test(test_recover_after_power_cut),
        cmocka_unit_test(test_recover_from_checkpoint_replays_little),
        cmocka_unit_test(test_recover_continues_numbers),
        cmocka_unit_test(test_recover_keeps_order_of_deaths),
        cmocka_unit_test(test_recover_empty_topic_is_gone),
        cmocka_unit_test(test_recover_after_long_absence),
        cmocka_unit_test(test_recover_with_older_clock_warns),
        cmocka_unit_test(test_recover_connection_leases_end),
        cmocka_unit_test(test_recover_token_lease_goes_on),
        cmocka_unit_test(test_recover_token_lease_is_cut_to_its_ttr),
        cmocka_unit_test(test_recover_token_lease_that_ran_out),
        cmocka_unit_test(test_recover_lost_lease_number_is_not_used_again),
        cmocka_unit_test(test_recover_refuses_damaged_log),
        cmocka_unit_test(test_recover_refuses_rotten_last_batch),
        cmocka_unit_test(test_recover_survives_one_bad_manifest_copy),
        cmocka_unit_test(test_recover_refuses_older_manifest),
        cmocka_unit_test(test_recover_refuses_log_without_manifest),
        cmocka_unit_test(test_recover_uses_older_checkpoint),
        cmocka_unit_test(test_recover_uses_older_checkpoint_after_turnover),
        cmocka_unit_test(test_recover_refuses_two_bad_checkpoints),
        cmocka_unit_test(test_recover_many_starts),
        cmocka_unit_test(test_recover_refuses_missing_slot),
        cmocka_unit_test(test_recover_repairs_header),
        cmocka_unit_test(test_recover_makes_header_that_was_cut_off),
        cmocka_unit_test(test_recover_repairs_headers_of_sealed_slots),
        cmocka_unit_test(test_recover_reports_rotten_body_when_read),
        cmocka_unit_test(test_recover_second_engine_is_locked_out),
        cmocka_unit_test(test_recover_refuses_impossible_config),
        cmocka_unit_test(test_recover_open_under_each_fault),
        cmocka_unit_test(test_recover_crash_at_each_call_of_opening),
        cmocka_unit_test(test_recover_refuses_missing_slot_beyond_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
