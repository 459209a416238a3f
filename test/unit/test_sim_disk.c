/*
 * The simulated disk: what a sync promises, what a crash may do, and each fault by itself.
 *
 * The seeded run knows of every sector what was last synced and what was written since; after a
 * power cut the platter must be made of these, and what was synced must be there.
 */

#include "base/err.h"
#include "base/rng.h"
#include "sim/sim_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SECTOR = SIM_SECTOR, PAGE = SIM_PAGE };

struct heard {
    struct tr_io *order[64];
    size_t count;
};

static void on_done(void *ctx, struct tr_io *io)
{
    struct heard *h = ctx;

    if (h != NULL && h->count < 64) {
        h->order[h->count++] = io;
    }
}

static struct sim_disk *new_disk(uint64_t seed)
{
    struct sim_disk *d = sim_disk_new(on_done, NULL);

    sim_disk_reset(d, seed);
    return d;
}

static int run(struct sim_disk *d, struct tr_io *io)
{
    struct tr_disk port = sim_disk_port(d);

    return port.ops->run(port.ctx, io);
}

static void submit(struct sim_disk *d, struct tr_io *io)
{
    struct tr_disk port = sim_disk_port(d);

    port.ops->submit(port.ctx, io);
}

static struct tr_io open_io(const char *name, unsigned flags)
{
    struct tr_io io = {.op = TR_IO_OPEN, .flags = flags, .file = -1};

    memcpy(io.name, name, strlen(name));
    return io;
}

static int open_file(struct sim_disk *d, const char *name)
{
    struct tr_io io = open_io(name, TR_IO_CREATE);

    assert_int_equal(run(d, &io), TARRY_OK);
    return io.file;
}

static int op(struct sim_disk *d, enum tr_io_op what, int file)
{
    struct tr_io io = {.op = what, .file = file};

    return run(d, &io);
}

static int unlink_file(struct sim_disk *d, const char *name)
{
    struct tr_io io = {.op = TR_IO_UNLINK};

    memcpy(io.name, name, strlen(name));
    return run(d, &io);
}

static int allocate(struct sim_disk *d, int file, uint64_t len)
{
    struct tr_io io = {.op = TR_IO_ALLOCATE, .file = file, .len = len};

    return run(d, &io);
}

/* Writes len bytes of value. */
static int fill(struct sim_disk *d, int file, uint64_t off, int value, size_t len)
{
    uint8_t *bytes = malloc(len + 1);
    struct tr_piece pieces[2] = {{bytes, len / 3}, {bytes + len / 3, len - len / 3}};
    struct tr_io io = {.op = TR_IO_WRITE,
                       .file = file,
                       .off = off,
                       .len = len,
                       .pieces = pieces,
                       .piece_count = 2};
    int status;

    memset(bytes, value, len + 1);
    status = run(d, &io);
    free(bytes);
    return status == TARRY_OK && io.got != len ? SIM_FAIL_SHORT : status;
}

static int read_byte(struct sim_disk *d, enum tr_io_op how, int file, uint64_t off)
{
    uint8_t byte = 0;
    struct tr_io io = {.op = how, .file = file, .off = off, .len = 1, .buf = &byte};

    assert_int_equal(run(d, &io), TARRY_OK);
    return io.got == 1 ? byte : -1;
}

static int peek_byte(struct sim_disk *d, const char *name, uint64_t off)
{
    uint8_t byte = 0;

    return sim_disk_peek(d, name, off, &byte, 1) == 1 ? byte : -1;
}

/* A file with len bytes of value, durable with its name. */
static int durable_file(struct sim_disk *d, const char *name, int value, size_t len)
{
    int file = open_file(d, name);

    assert_int_equal(fill(d, file, 0, value, len), TARRY_OK);
    assert_int_equal(op(d, TR_IO_SYNC, file), TARRY_OK);
    assert_int_equal(op(d, TR_IO_DIRSYNC, -1), TARRY_OK);
    return file;
}

/* ---- contract ---- */

static void test_sim_disk_reads_end_with_the_file(void **state)
{
    struct sim_disk *d = new_disk(1);
    uint8_t buf[100];
    int file = open_file(d, "a");
    struct tr_io io = {.op = TR_IO_READ, .file = file, .off = 5000, .len = 100, .buf = buf};

    (void)state;
    assert_int_equal(fill(d, file, 5000, 7, 60), TARRY_OK);
    assert_int_equal(run(d, &io), TARRY_OK);
    assert_int_equal(io.got, 60);
    assert_int_equal(buf[59], 7);
    assert_int_equal(read_byte(d, TR_IO_READ, file, 4999), 0); /* the hole */
    assert_int_equal(read_byte(d, TR_IO_READ, file, 5060), -1);
    sim_disk_free(d);
}

static void test_sim_disk_names_and_locks(void **state)
{
    struct sim_disk *d = new_disk(1);
    struct tr_io absent = open_io("a", 0);
    struct tr_io lock = open_io("lock", TR_IO_CREATE | TR_IO_LOCK);
    struct tr_io again = lock;
    char names[16];
    struct tr_io list = {.op = TR_IO_LIST, .buf = names, .len = sizeof names};

    (void)state;
    assert_int_equal(run(d, &absent), TARRY_ENOTFOUND);
    assert_int_equal(run(d, &lock), TARRY_OK);
    assert_int_equal(run(d, &again), TARRY_ELOCKED);
    assert_int_equal(run(d, &list), TARRY_OK);
    assert_int_equal(list.got, 5);
    assert_string_equal(names, "lock");
    list.len = 4;
    assert_int_equal(run(d, &list), TARRY_EFULL);
    assert_int_equal(op(d, TR_IO_CLOSE, lock.file), TARRY_OK);
    assert_int_equal(run(d, &again), TARRY_OK);
    sim_disk_kill(d); /* ends the process and its lock */
    assert_int_equal(run(d, &lock), TARRY_OK);
    assert_int_equal(unlink_file(d, "lock"), TARRY_OK);
    assert_int_equal(unlink_file(d, "lock"), TARRY_OK);
    assert_false(sim_disk_exists(d, "lock"));
    sim_disk_free(d);
}

static void test_sim_disk_full_but_allocated_is_written(void **state)
{
    struct sim_disk *d = new_disk(1);
    int file = open_file(d, "a");
    int other = open_file(d, "b");
    struct tr_io third = open_io("c", TR_IO_CREATE);

    (void)state;
    sim_disk_set_cap(d, UINT64_C(16) * PAGE);
    assert_int_equal(allocate(d, file, UINT64_C(17) * PAGE), TARRY_ENOSPC);
    assert_int_equal(allocate(d, file, UINT64_C(10) * PAGE), TARRY_OK);
    assert_int_equal(sim_disk_size(d, "a"), 10 * PAGE);
    assert_int_equal(fill(d, other, 0, 1, 6 * (size_t)PAGE), TARRY_OK);
    assert_int_not_equal(fill(d, other, UINT64_C(6) * PAGE, 1, PAGE), TARRY_OK);
    assert_int_equal(run(d, &third), TARRY_ENOSPC);
    sim_disk_set_cap(d, 0);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(fill(d, file, i * UINT64_C(4096), 2, PAGE), TARRY_OK);
    }
    sim_disk_set_cap(d, UINT64_C(17) * PAGE);
    assert_int_equal(fill(d, other, UINT64_C(6) * PAGE, 1, PAGE), TARRY_OK);
    assert_int_equal(sim_disk_used(d), 17 * PAGE);
    assert_int_equal(unlink_file(d, "b"), TARRY_OK); /* still open: still takes space */
    assert_int_equal(sim_disk_used(d), 17 * PAGE);
    assert_int_equal(op(d, TR_IO_CLOSE, other), TARRY_OK);
    assert_int_equal(sim_disk_used(d), 10 * PAGE);
    sim_disk_free(d);
}

static void test_sim_disk_lanes_keep_their_order(void **state)
{
    struct heard h = {.count = 0};
    struct sim_disk *d = sim_disk_new(on_done, &h);
    bool read_out_of_order = false;

    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct tr_io io[30] = {0};
        int last[TR_LANE_COUNT] = {-1, -1, -1};

        sim_disk_reset(d, seed);
        sim_disk_faults(d)->late_pct = 50;
        h.count = 0;
        for (int i = 0; i < 30; i++) {
            io[i].op = TR_IO_DIRSYNC;
            io[i].lane = (enum tr_lane)(i % TR_LANE_COUNT);
            io[i].tag = i;
            submit(d, &io[i]);
        }
        assert_int_equal(sim_disk_pending_lane(d, TR_LANE_LOG), 10);
        sim_disk_stall(d, TR_LANE_BACK, true);
        while (sim_disk_step(d)) {
        }
        assert_int_equal(sim_disk_pending(d), 10);
        sim_disk_stall(d, TR_LANE_BACK, false);
        while (sim_disk_step(d)) {
        }
        assert_int_equal(h.count, 30);
        for (size_t i = 0; i < h.count; i++) {
            int *before = &last[h.order[i]->lane];

            if (h.order[i]->tag < *before) {
                assert_int_equal(h.order[i]->lane, TR_LANE_READ);
                read_out_of_order = true;
            }
            *before = h.order[i]->tag;
        }
    }
    assert_true(read_out_of_order);
    sim_disk_free(d);
}

/* ---- crashes ---- */

static void test_sim_disk_unsynced_is_old_new_or_torn(void **state)
{
    struct sim_disk *d = new_disk(0);
    unsigned seen[2] = {0};
    unsigned torn = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        int file;
        uint8_t bytes[SECTOR];

        sim_disk_reset(d, seed);
        file = durable_file(d, "a", 'o', 4 * (size_t)PAGE);
        assert_int_equal(fill(d, file, 0, 'n', 2 * (size_t)PAGE), TARRY_OK);
        sim_disk_power_cut(d);
        assert_int_equal(sim_disk_size(d, "a"), 4 * PAGE);
        for (uint64_t off = 0; off < UINT64_C(4) * PAGE; off += SECTOR) {
            size_t news = 0;

            assert_int_equal(sim_disk_peek(d, "a", off, bytes, SECTOR), SECTOR);
            while (news < SECTOR && bytes[news] == 'n') {
                news++;
            }
            if (off >= UINT64_C(2) * PAGE || news == 0) {
                assert_true(off < UINT64_C(2) * PAGE || bytes[0] == 'o');
                seen[0]++;
            } else if (news == SECTOR) {
                seen[1]++;
            } else if (bytes[news] == 'o') {
                torn++;
            }
        }
    }
    assert_true(seen[0] > 100 && seen[1] > 100 && torn > 10);
    assert_true(sim_disk_counts(d)->sectors_noise > 10);
    sim_disk_free(d);
}

static void test_sim_disk_kill_keeps_the_cache(void **state)
{
    struct sim_disk *d = new_disk(3);
    int file = open_file(d, "a");

    (void)state;
    assert_int_equal(fill(d, file, 0, 'x', 10000), TARRY_OK);
    sim_disk_kill(d);
    assert_int_equal(sim_disk_size(d, "a"), 10000);
    assert_int_equal(peek_byte(d, "a", 9999), 'x');
    file = open_file(d, "a");
    assert_int_equal(op(d, TR_IO_SYNC, file), TARRY_OK); /* the next process can still save it */
    assert_int_equal(op(d, TR_IO_DIRSYNC, -1), TARRY_OK);
    sim_disk_power_cut(d);
    assert_int_equal(peek_byte(d, "a", 9999), 'x');
    sim_disk_free(d);
}

static void test_sim_disk_kill_executes_a_prefix(void **state)
{
    struct sim_disk *d = new_disk(0);
    bool seen[6] = {false};

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct tr_io io[5] = {0};
        struct tr_piece piece = {"z", 1};
        int file;
        unsigned done = 0;

        sim_disk_reset(d, seed);
        file = open_file(d, "a");
        for (unsigned i = 0; i < 5; i++) {
            io[i] = (struct tr_io){.op = TR_IO_WRITE,
                                   .lane = TR_LANE_LOG,
                                   .file = file,
                                   .off = i,
                                   .len = 1,
                                   .pieces = &piece,
                                   .piece_count = 1};
            submit(d, &io[i]);
        }
        sim_disk_kill(d);
        assert_int_equal(sim_disk_pending(d), 0);
        while (peek_byte(d, "a", done) == 'z') {
            done++;
        }
        assert_int_equal(sim_disk_size(d, "a"), done);
        seen[done] = true;
    }
    for (unsigned i = 0; i < 6; i++) {
        assert_true(seen[i]);
    }
    sim_disk_free(d);
}

static void test_sim_disk_without_dirsync_files_may_vanish(void **state)
{
    struct sim_disk *d = new_disk(0);
    unsigned there = 0;
    unsigned back = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        int file;

        sim_disk_reset(d, seed);
        (void)durable_file(d, "old", 'o', 100);
        (void)durable_file(d, "gone", 'g', 100);
        file = open_file(d, "new");
        assert_int_equal(fill(d, file, 0, 'n', 100), TARRY_OK);
        assert_int_equal(op(d, TR_IO_SYNC, file), TARRY_OK);
        assert_int_equal(unlink_file(d, "gone"), TARRY_OK);
        sim_disk_power_cut(d);
        assert_int_equal(peek_byte(d, "old", 99), 'o');
        there += sim_disk_exists(d, "new");
        back += sim_disk_exists(d, "gone");
        assert_true(!sim_disk_exists(d, "new") || peek_byte(d, "new", 99) == 'n');
        assert_true(!sim_disk_exists(d, "gone") || peek_byte(d, "gone", 99) == 'g');
    }
    assert_true(there > 20 && there < 180);
    assert_true(back > 20 && back < 180);
    sim_disk_free(d);
}

static void test_sim_disk_growth_is_kept_or_not(void **state)
{
    struct sim_disk *d = new_disk(0);
    unsigned old = 0;
    unsigned new = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        int file;
        uint64_t size;

        sim_disk_reset(d, seed);
        file = durable_file(d, "a", 'o', 1000);
        assert_int_equal(allocate(d, file, 50000), TARRY_OK);
        assert_int_equal(fill(d, file, 20000, 'n', 10), TARRY_OK);
        sim_disk_power_cut(d);
        size = sim_disk_size(d, "a");
        assert_in_range(size, 1000, 50000);
        old += size == 1000;
        new += size == 50000;
        /* What lies beyond the end reads as zeros when the file grows again. */
        file = open_file(d, "a");
        assert_int_equal(allocate(d, file, 50000), TARRY_OK);
        assert_true(size > 20000 || peek_byte(d, "a", 20000) == 0);
    }
    assert_true(old > 10 && new > 10);
    sim_disk_free(d);
}

static void test_sim_disk_crash_at_stops_everything(void **state)
{
    struct sim_disk *d = new_disk(0);
    unsigned parts = 0;

    (void)state;
    for (uint64_t at = 1; at <= 40; at++) {
        int file;
        uint64_t size;

        sim_disk_reset(d, at);
        file = durable_file(d, "a", 'o', 100); /* four ops */
        sim_disk_faults(d)->crash_at = 4 + at % 5 + 1;
        sim_disk_faults(d)->crash_mid_pct = 50;
        for (unsigned i = 0; i < 5; i++) {
            int status = fill(d, file, 100 + UINT64_C(100) * i, 'n', 100);

            assert_int_equal(status, i < at % 5 ? TARRY_OK : TARRY_EIO);
        }
        assert_true(sim_disk_dead(d));
        size = sim_disk_size(d, "a");
        assert_in_range(size, 100 + 100 * (at % 5), 200 + 100 * (at % 5));
        parts += size % 100 != 0;
        assert_int_equal(op(d, TR_IO_SYNC, file), TARRY_EIO);
        assert_int_equal(unlink_file(d, "a"), TARRY_EIO);
        assert_int_equal(sim_disk_op_count(d), 4 + at % 5 + 1);
        sim_disk_kill(d);
        assert_false(sim_disk_dead(d));
        assert_int_equal(sim_disk_size(d, "a"), size);
    }
    assert_true(parts > 0);
    sim_disk_free(d);
}

static void test_sim_disk_effect_without_completion(void **state)
{
    struct heard h = {.count = 0};
    struct sim_disk *d = sim_disk_new(on_done, &h);
    struct tr_piece piece = {"n", 1};
    struct tr_io io = {.op = TR_IO_WRITE,
                       .lane = TR_LANE_LOG,
                       .flags = TR_IO_THEN_SYNC,
                       .len = 1,
                       .pieces = &piece,
                       .piece_count = 1};

    (void)state;
    io.file = durable_file(d, "a", 'o', 1);
    sim_disk_faults(d)->late_pct = 100;
    submit(d, &io);
    assert_true(sim_disk_step(d));
    assert_int_equal(h.count, 0);
    assert_int_equal(sim_disk_pending(d), 1);
    sim_disk_power_cut(d);
    assert_false(sim_disk_step(d));
    assert_int_equal(h.count, 0);
    assert_int_equal(peek_byte(d, "a", 0), 'n');
    sim_disk_free(d);
}

/* ---- faults ---- */

static void test_sim_disk_sync_fails_like_linux(void **state)
{
    struct sim_disk *d = new_disk(0);
    unsigned lost = 0;
    unsigned kept = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        int file;

        sim_disk_reset(d, seed);
        file = durable_file(d, "a", 'o', 8 * (size_t)PAGE);
        assert_int_equal(fill(d, file, 0, 'n', 8 * (size_t)PAGE), TARRY_OK);
        *sim_disk_faults(d) = (struct sim_faults){.fail_at = 1, .fail_code = TARRY_EIO};
        assert_int_equal(op(d, TR_IO_SYNC, file), TARRY_EIO);
        assert_int_equal(op(d, TR_IO_SYNC, file), TARRY_OK); /* and means nothing */
        for (uint64_t off = 0; off < UINT64_C(8) * PAGE; off += SECTOR) {
            int direct = read_byte(d, TR_IO_READ_DIRECT, file, off);

            assert_int_equal(read_byte(d, TR_IO_READ, file, off), 'n');
            assert_true(direct == 'n' || direct == 'o');
            lost += direct == 'o';
            kept += direct == 'n';
        }
        /* What is written again counts again. */
        assert_int_equal(fill(d, file, 0, 'm', PAGE), TARRY_OK);
        assert_int_equal(op(d, TR_IO_SYNC, file), TARRY_OK);
        sim_disk_power_cut(d);
        assert_int_equal(peek_byte(d, "a", PAGE - 1), 'm');
        for (uint64_t off = PAGE; off < UINT64_C(8) * PAGE; off += SECTOR) {
            assert_true(peek_byte(d, "a", off) == 'n' || peek_byte(d, "a", off) == 'o');
        }
    }
    assert_true(lost > 100 && kept > 100);
    sim_disk_free(d);
}

static int small_job(struct sim_disk *d)
{
    struct tr_io io = open_io("a", TR_IO_CREATE);

    if (run(d, &io) != TARRY_OK || allocate(d, io.file, 5000) != TARRY_OK ||
        fill(d, io.file, 0, 1, 5000) != TARRY_OK || fill(d, io.file, 5000, 1, 9000) != TARRY_OK ||
        op(d, TR_IO_SYNC, io.file) != TARRY_OK || op(d, TR_IO_DIRSYNC, -1) != TARRY_OK) {
        return TARRY_EIO;
    }
    return TARRY_OK;
}

static void test_sim_disk_sweep_ends(void **state)
{
    static const struct {
        int code;
        uint64_t places;
    } sweeps[] = {{TARRY_EIO, 6}, {TARRY_ENOSPC, 3}, {SIM_FAIL_SHORT, 2}};
    struct sim_disk *d = new_disk(0);

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        uint64_t n = 1;

        for (;; n++) {
            sim_disk_reset(d, n);
            sim_disk_faults(d)->fail_at = n;
            sim_disk_faults(d)->fail_code = sweeps[i].code;
            sim_disk_faults(d)->fail_on = n % 2 == 0;
            if (small_job(d) == TARRY_OK) {
                break;
            }
            assert_true(sim_disk_faults(d)->fail_hits > 0);
        }
        assert_int_equal(n, sweeps[i].places + 1);
        assert_int_equal(sim_disk_faults(d)->fail_hits, 0);
    }
    sim_disk_free(d);
}

static void test_sim_disk_faults_only_where_asked(void **state)
{
    struct sim_disk *d = new_disk(5);
    int log = open_file(d, "w.000");
    int man = open_file(d, "man.0");

    (void)state;
    *sim_disk_faults(d) = (struct sim_faults){
        .write_eio_ppm = 1000000, .sync_eio_ppm = 1000000, .read_eio_ppm = 1000000, .only = "w."};
    assert_int_equal(fill(d, log, 0, 1, 100), TARRY_EIO);
    assert_int_equal(op(d, TR_IO_SYNC, log), TARRY_EIO);
    assert_int_equal(op(d, TR_IO_READ, log), TARRY_EIO);
    assert_int_equal(fill(d, man, 0, 1, 100), TARRY_OK);
    assert_int_equal(op(d, TR_IO_SYNC, man), TARRY_OK);
    assert_int_equal(op(d, TR_IO_READ, man), TARRY_OK);
    assert_int_equal(op(d, TR_IO_DIRSYNC, -1), TARRY_OK);
    sim_disk_free(d);
}

static void test_sim_disk_lost_and_misdirected_writes(void **state)
{
    struct sim_disk *d = new_disk(0);
    size_t count = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        const struct sim_place *place;
        int file;

        sim_disk_reset(d, seed);
        file = durable_file(d, "a", 'o', 4 * (size_t)PAGE);
        sim_disk_faults(d)->lose_in = 2;
        assert_int_equal(fill(d, file, 0, '1', PAGE), TARRY_OK);
        assert_int_equal(fill(d, file, PAGE, '2', PAGE), TARRY_OK);
        assert_int_equal(fill(d, file, UINT64_C(2) * PAGE, '3', PAGE), TARRY_OK);
        assert_int_equal(op(d, TR_IO_SYNC, file), TARRY_OK);
        place = sim_disk_damage(d, &count);
        assert_int_equal(count, 1);
        assert_string_equal(place->name, "a");
        assert_int_equal(place->off, PAGE);
        sim_disk_power_cut(d);
        assert_int_equal(peek_byte(d, "a", 0), '1');
        assert_int_equal(peek_byte(d, "a", PAGE), 'o');
        assert_int_equal(peek_byte(d, "a", UINT64_C(2) * PAGE), '3');

        (void)durable_file(d, "b", 'o', 4 * (size_t)PAGE);
        file = open_file(d, "a");
        sim_disk_faults(d)->misdirect_in = 1;
        assert_int_equal(fill(d, file, 0, '4', PAGE), TARRY_OK);
        place = sim_disk_damage(d, &count);
        assert_int_equal(count, 3);
        assert_int_equal(peek_byte(d, place[2].name, place[2].off), '4');
    }
    sim_disk_free(d);
}

static void test_sim_disk_rot_is_where_it_says(void **state)
{
    struct sim_disk *d = new_disk(0);
    unsigned in_manifest = 0;
    unsigned in_header = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct sim_place place;
        int file;

        sim_disk_reset(d, seed);
        (void)durable_file(d, "man.0", 0, 2 * (size_t)PAGE);
        (void)durable_file(d, "w.000", 0, 8 * (size_t)PAGE);
        (void)durable_file(d, "w.001", 0, 8 * (size_t)PAGE);
        assert_false(sim_disk_rot(d, "g", SIM_ROT_ANY, &place));
        assert_true(sim_disk_rot(d, NULL, SIM_ROT_BIT, &place));
        in_manifest += strcmp(place.name, "man.0") == 0;
        in_header += place.off % PAGE < 96;
        assert_true(peek_byte(d, place.name, place.off) > 0);
        sim_disk_power_cut(d);
        assert_true(peek_byte(d, place.name, place.off) > 0);
        assert_true(sim_disk_rot(d, "w.001", SIM_ROT_BAD, &place));
        assert_string_equal(place.name, "w.001");
        file = open_file(d, "w.001");
        {
            uint8_t buf[2];
            struct tr_io io = {.op = TR_IO_READ, .file = file, .len = 2, .buf = buf};

            io.off = place.off + SECTOR - 1;
            assert_int_equal(run(d, &io), TARRY_EIO);
            io.off = place.off + SECTOR;
            assert_int_equal(run(d, &io), TARRY_OK);
            assert_int_equal(fill(d, file, place.off, 1, SECTOR), TARRY_OK);
            io.off = place.off;
            assert_int_equal(run(d, &io), TARRY_OK);
        }
    }
    assert_true(in_manifest > 80 && in_header > 100);
    sim_disk_free(d);
}

static void test_sim_disk_guard_notices(void **state)
{
    struct sim_disk *d = new_disk(1);
    int file = durable_file(d, "w.000", 'o', 4 * (size_t)PAGE);

    (void)state;
    sim_disk_guard(d, "w.000", PAGE, PAGE);
    assert_int_equal(fill(d, file, 0, 1, PAGE), TARRY_OK);
    assert_int_equal(fill(d, file, UINT64_C(2) * PAGE, 1, PAGE), TARRY_OK);
    assert_null(sim_disk_guard_hit(d));
    sim_disk_power_cut(d);
    file = open_file(d, "w.000");
    assert_int_equal(fill(d, file, UINT64_C(2) * PAGE - 1, 1, 2), TARRY_OK);
    assert_non_null(sim_disk_guard_hit(d));
    assert_int_equal(sim_disk_guard_hit(d)->off, 2 * PAGE - 1);
    sim_disk_reset(d, 2);
    assert_null(sim_disk_guard_hit(d));
    (void)durable_file(d, "a", 1, PAGE);
    sim_disk_guard(d, "a", 0, PAGE);
    sim_disk_unguard(d, "a", 0, PAGE);
    assert_int_equal(unlink_file(d, "a"), TARRY_OK);
    assert_null(sim_disk_guard_hit(d));
    (void)durable_file(d, "b", 1, PAGE);
    sim_disk_guard(d, "b", 0, 1);
    assert_int_equal(unlink_file(d, "b"), TARRY_OK);
    assert_string_equal(sim_disk_guard_hit(d)->what, "unlink");
    sim_disk_free(d);
}

/* ---- the seeded run ---- */

enum { FILES = 4, SECTORS = 40, ROOM = SECTORS * SECTOR };

/* Two copies of each file: as written and as synced. Beyond the sizes there are zeros. */
struct model {
    bool named[FILES]; /* the name is durable */
    int file[FILES];   /* -1: not open */
    uint8_t cur[FILES][ROOM];
    uint8_t dur[FILES][ROOM];
    bool dirty[FILES][SECTORS];
    uint64_t size[FILES];
    uint64_t size_dur[FILES];
};

static void model_name(char name[8], unsigned f)
{
    memcpy(name, "f0", 3);
    name[1] = (char)('0' + f);
}

static void model_write(struct sim_disk *d, struct model *m, unsigned f, struct tr_rng *rng)
{
    uint64_t off = tr_rng_below(rng, ROOM - 1);
    uint64_t len = 1 + tr_rng_below(rng, ROOM - off);
    uint8_t bytes[ROOM];
    struct tr_piece piece = {bytes, (size_t)len};
    struct tr_io io = {.op = TR_IO_WRITE,
                       .file = m->file[f],
                       .off = off,
                       .len = len,
                       .pieces = &piece,
                       .piece_count = 1};

    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)tr_rng_next(rng);
    }
    assert_int_equal(run(d, &io), TARRY_OK);
    assert_in_range(io.got, 1, len); /* may be short */
    memcpy(m->cur[f] + off, bytes, (size_t)io.got);
    for (uint64_t i = off / SECTOR; i <= (off + io.got - 1) / SECTOR; i++) {
        m->dirty[f][i] = true;
    }
    m->size[f] = off + io.got > m->size[f] ? off + io.got : m->size[f];
}

static void model_step(struct sim_disk *d, struct model *m, struct tr_rng *rng)
{
    unsigned f = (unsigned)tr_rng_below(rng, FILES);
    char name[8];

    model_name(name, f);
    if (m->file[f] < 0) {
        m->file[f] = open_file(d, name);
        return;
    }
    switch (tr_rng_below(rng, 5)) {
    case 0:
        assert_int_equal(op(d, TR_IO_SYNC, m->file[f]), TARRY_OK);
        memcpy(m->dur[f], m->cur[f], ROOM);
        memset(m->dirty[f], 0, sizeof m->dirty[f]);
        m->size_dur[f] = m->size[f];
        break;
    case 1:
        assert_int_equal(op(d, TR_IO_DIRSYNC, -1), TARRY_OK);
        for (unsigned i = 0; i < FILES; i++) {
            m->named[i] = m->named[i] || m->file[i] >= 0;
        }
        break;
    default:
        model_write(d, m, f, rng);
        break;
    }
}

/* True when the sector is old, new, or new at the start and old at the end. */
static bool sector_is_allowed(const uint8_t *now, const uint8_t *cur, const uint8_t *dur,
                              size_t len)
{
    size_t news = 0;

    while (news < len && now[news] == cur[news]) {
        news++;
    }
    return memcmp(now, dur, len) == 0 || memcmp(now + news, dur + news, len - news) == 0;
}

static unsigned count_strange(const struct model *m, unsigned f, const uint8_t *now, uint64_t size)
{
    unsigned strange = 0;

    for (uint64_t off = 0; off < size; off += SECTOR) {
        size_t len = size - off < SECTOR ? (size_t)(size - off) : SECTOR;
        if (m->dirty[f][off / SECTOR]) {
            strange += !sector_is_allowed(now + off, m->cur[f] + off, m->dur[f] + off, len);
        } else {
            assert_memory_equal(now + off, m->dur[f] + off, len);
        }
    }
    return strange;
}

/* What the platter has must be allowed; then it is the new beginning. */
static void model_cut(struct sim_disk *d, struct model *m)
{
    uint64_t noise = sim_disk_counts(d)->sectors_noise;
    uint64_t strange = 0;

    sim_disk_power_cut(d);
    noise = sim_disk_counts(d)->sectors_noise - noise;
    for (unsigned f = 0; f < FILES; f++) {
        uint8_t now[ROOM] = {0};
        uint64_t size;
        char name[8];

        model_name(name, f);
        size = sim_disk_size(d, name);
        assert_true(!m->named[f] || sim_disk_exists(d, name));
        assert_int_equal(sim_disk_peek(d, name, 0, now, ROOM), size);
        if (sim_disk_exists(d, name)) {
            assert_in_range(size, m->size_dur[f], m->size[f]);
            strange += count_strange(m, f, now, size);
        }
        m->named[f] = sim_disk_exists(d, name);
        m->file[f] = -1;
        m->size[f] = size;
        m->size_dur[f] = size;
        memcpy(m->cur[f], now, ROOM);
        memcpy(m->dur[f], now, ROOM);
        memset(m->dirty[f], 0, sizeof m->dirty[f]);
    }
    assert_true(strange <= noise);
}

static uint64_t seeded_run(struct sim_disk *d, uint64_t seed)
{
    struct tr_rng rng = {.state = seed};
    struct model m = {.file = {-1, -1, -1, -1}};

    sim_disk_reset(d, seed);
    sim_disk_faults(d)->short_ppm = 100000;
    for (unsigned cut = 0; cut < 10; cut++) {
        uint64_t steps = 1 + tr_rng_below(&rng, 40);

        for (uint64_t i = 0; i < steps; i++) {
            model_step(d, &m, &rng);
        }
        model_cut(d, &m);
    }
    return sim_disk_hash(d);
}

static void test_sim_disk_synced_survives_any_power_cut(void **state)
{
    struct sim_disk *d = new_disk(0);

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        (void)seeded_run(d, seed);
    }
    assert_true(sim_disk_counts(d)->files_vanished > 0);
    assert_true(sim_disk_counts(d)->growth_lost > 0);
    sim_disk_free(d);
}

static void test_sim_disk_same_seed_same_hash(void **state)
{
    struct sim_disk *d = new_disk(0);
    struct sim_disk *other = new_disk(0);

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t hash = seeded_run(d, seed);

        assert_true(seeded_run(d, seed) == hash); /* with used memory */
        assert_true(seeded_run(d, seed + 1000) != hash);
    }
    assert_true(seeded_run(other, 7) == seeded_run(d, 7)); /* with fresh memory */
    sim_disk_free(other);
    sim_disk_free(d);
}

/* All faults at once, through the lanes: nothing to compare but the run with itself. */
static void storm_request(struct sim_disk *d, struct tr_io *io, const int files[FILES],
                          struct tr_rng *rng)
{
    static const struct tr_piece pieces[2] = {{"some bytes of a job", 19}, {"and more", 8}};
    static char buf[ROOM];
    static const enum tr_io_op ops[] = {TR_IO_READ,  TR_IO_READ_DIRECT, TR_IO_WRITE, TR_IO_SYNC,
                                        TR_IO_WRITE, TR_IO_ALLOCATE,    TR_IO_ZERO,  TR_IO_UNLINK,
                                        TR_IO_LIST,  TR_IO_DIRSYNC};

    memset(io, 0, sizeof *io);
    io->op = ops[tr_rng_below(rng, 10)];
    io->lane = (enum tr_lane)tr_rng_below(rng, TR_LANE_COUNT);
    io->flags = tr_rng_below(rng, 2) == 0 ? TR_IO_THEN_SYNC : 0;
    io->file = files[tr_rng_below(rng, FILES)];
    io->off = tr_rng_below(rng, ROOM);
    io->len = io->op == TR_IO_WRITE ? 27 : tr_rng_below(rng, ROOM);
    io->buf = buf;
    io->pieces = pieces;
    io->piece_count = 2;
    model_name(io->name, (unsigned)tr_rng_below(rng, FILES));
    submit(d, io);
}

static uint64_t storm(struct sim_disk *d, uint64_t seed)
{
    struct tr_rng rng = {.state = seed};
    struct tr_io io[50];

    sim_disk_reset(d, seed);
    for (unsigned life = 0; life < 8; life++) {
        int files[FILES];
        char name[8];

        *sim_disk_faults(d) = (struct sim_faults){0};
        sim_disk_set_cap(d, UINT64_MAX);
        for (unsigned f = 0; f < FILES; f++) {
            model_name(name, f);
            files[f] = open_file(d, name);
        }
        *sim_disk_faults(d) = (struct sim_faults){.sync_eio_ppm = 50000,
                                                  .write_eio_ppm = 50000,
                                                  .short_ppm = 50000,
                                                  .read_eio_ppm = 50000,
                                                  .read_bad_ppm = 50000,
                                                  .dir_eio_ppm = 50000,
                                                  .enospc_ppm = 50000,
                                                  .write_back_pct = 20,
                                                  .late_pct = 40,
                                                  .crash_mid_pct = 50,
                                                  .lose_in = 1,
                                                  .misdirect_in = 2};
        sim_disk_faults(d)->crash_at = sim_disk_op_count(d) + tr_rng_below(&rng, 80);
        sim_disk_set_cap(d, tr_rng_below(&rng, UINT64_C(2) * ROOM));
        for (unsigned i = 0; i < 50; i++) {
            storm_request(d, &io[i], files, &rng);
            if (tr_rng_below(&rng, 2) == 0) {
                (void)sim_disk_step(d);
            }
        }
        (void)sim_disk_rot(d, NULL, SIM_ROT_ANY, NULL);
        if (tr_rng_below(&rng, 2) == 0) {
            sim_disk_kill(d);
        } else {
            sim_disk_power_cut(d);
        }
    }
    return sim_disk_hash(d);
}

static void test_sim_disk_storm_is_deterministic(void **state)
{
    struct sim_disk *d = new_disk(0);
    const struct sim_counts *c = sim_disk_counts(d);

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint64_t hash = storm(d, seed);

        assert_true(storm(d, seed) == hash);
    }
    assert_true(c->sync_eio > 0 && c->write_eio > 0 && c->short_writes > 0 && c->read_eio > 0);
    assert_true(c->read_bad > 0 && c->dir_eio > 0 && c->enospc > 0 && c->late > 0);
    assert_true(c->crashes > 0 && c->crashes_in_op > 0 && c->kill_executed > 0 && c->rots > 0);
    assert_true(c->lost_writes > 0 && c->misdirected > 0 && c->sectors_stale > 0);
    sim_disk_free(d);
}

static void test_sim_disk_trace_can_be_printed(void **state)
{
    struct sim_disk *d = new_disk(0);
    char text[32768] = "";
    FILE *out = tmpfile();

    (void)state;
    assert_non_null(out);
    (void)durable_file(d, "man.0", 1, 100);
    assert_int_equal(unlink_file(d, "man.0"), TARRY_OK);
    sim_disk_power_cut(d);
    sim_disk_print_trace(d, out);
    rewind(out);
    assert_true(fread(text, 1, sizeof text - 1, out) > 0);
    (void)fclose(out);
    assert_non_null(strstr(text, "unlink"));
    assert_non_null(strstr(text, "power cut"));
    sim_disk_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sim_disk_reads_end_with_the_file),
        cmocka_unit_test(test_sim_disk_names_and_locks),
        cmocka_unit_test(test_sim_disk_full_but_allocated_is_written),
        cmocka_unit_test(test_sim_disk_lanes_keep_their_order),
        cmocka_unit_test(test_sim_disk_unsynced_is_old_new_or_torn),
        cmocka_unit_test(test_sim_disk_kill_keeps_the_cache),
        cmocka_unit_test(test_sim_disk_kill_executes_a_prefix),
        cmocka_unit_test(test_sim_disk_without_dirsync_files_may_vanish),
        cmocka_unit_test(test_sim_disk_growth_is_kept_or_not),
        cmocka_unit_test(test_sim_disk_crash_at_stops_everything),
        cmocka_unit_test(test_sim_disk_effect_without_completion),
        cmocka_unit_test(test_sim_disk_sync_fails_like_linux),
        cmocka_unit_test(test_sim_disk_sweep_ends),
        cmocka_unit_test(test_sim_disk_faults_only_where_asked),
        cmocka_unit_test(test_sim_disk_lost_and_misdirected_writes),
        cmocka_unit_test(test_sim_disk_rot_is_where_it_says),
        cmocka_unit_test(test_sim_disk_guard_notices),
        cmocka_unit_test(test_sim_disk_synced_survives_any_power_cut),
        cmocka_unit_test(test_sim_disk_same_seed_same_hash),
        cmocka_unit_test(test_sim_disk_storm_is_deterministic),
        cmocka_unit_test(test_sim_disk_trace_can_be_printed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
