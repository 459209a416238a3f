/* Patches over the files of a disk: what is read is what was put, whatever the disk says. */

#include "base/err.h"
#include "base/rng.h"
#include "engine/overlay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { FILES = 3, SIZE = 40000, PAGE = 4096 };

/* ---- a disk of arrays ---- */

struct plain {
    uint8_t bytes[FILES][SIZE];
    uint64_t len[FILES];
    uint64_t bad_off; /* a page of file 0 that cannot be read; SIZE: none */
    unsigned asked;   /* requests that came through */
    struct tr_io *queued;
};

static int run_io(void *ctx, struct tr_io *io)
{
    struct plain *d = ctx;

    d->asked++;
    io->status = TARRY_OK;
    io->got = 0;
    if (io->op == TR_IO_CALL) {
        io->call(io->buf);
    } else if (io->op == TR_IO_READ || io->op == TR_IO_READ_DIRECT) {
        uint64_t have = io->off < d->len[io->file] ? d->len[io->file] - io->off : 0;

        assert_in_range(io->file, 0, FILES - 1);
        if (io->file == 0 && io->off < d->bad_off + PAGE && d->bad_off < io->off + io->len) {
            io->status = TARRY_EIO;
            return io->status;
        }
        io->got = have < io->len ? have : io->len;
        memcpy(io->buf, d->bytes[io->file] + io->off, io->got);
    }
    return io->status;
}

static void submit_io(void *ctx, struct tr_io *io)
{
    struct plain *d = ctx;

    d->queued = io;
}

static struct tr_disk plain_port(struct plain *d)
{
    static const struct tr_disk_ops ops = {submit_io, run_io};

    for (unsigned f = 0; f < FILES; f++) {
        memset(d->bytes[f], (int)('a' + f), SIZE);
        d->len[f] = SIZE;
    }
    d->bad_off = SIZE;
    d->asked = 0;
    return (struct tr_disk){&ops, d};
}

/* ---- */

static struct plain plain;
static struct tr_mem mem;

static struct tr_overlay *start(void)
{
    struct tr_overlay *o;

    tr_mem_init(&mem, 0);
    o = tr_overlay_new(&mem, plain_port(&plain));
    assert_non_null(o);
    return o;
}

static void end(struct tr_overlay *o)
{
    tr_overlay_free(o);
    assert_int_equal(mem.used_bytes, 0);
}

static void put(struct tr_overlay *o, int file, uint64_t off, char what, uint64_t len)
{
    static uint8_t bytes[SIZE];

    memset(bytes, what, sizeof bytes);
    assert_int_equal(tr_overlay_put(o, file, off, bytes, len), TARRY_OK);
}

/* Now, or as the loop would have it. */
static int read_it(struct tr_overlay *o, struct tr_io *io, bool later)
{
    struct tr_disk d = tr_overlay_port(o);

    if (!later) {
        return d.ops->run(d.ctx, io);
    }
    plain.queued = NULL;
    d.ops->submit(d.ctx, io);
    assert_ptr_equal(plain.queued, io);
    (void)run_io(&plain, io);
    tr_overlay_done(o, io);
    return io->status;
}

static void test_overlay_model(void **state)
{
    enum { GRID = 500 };
    static uint8_t want[FILES][SIZE];
    static uint8_t buf[SIZE];
    struct tr_rng rng = {.state = 3};
    struct tr_overlay *o = start();

    (void)state;
    for (unsigned f = 0; f < FILES; f++) {
        memcpy(want[f], plain.bytes[f], SIZE);
    }
    for (unsigned i = 0; i < 4000; i++) {
        unsigned f = (unsigned)(tr_rng_next(&rng) % FILES);
        struct tr_io io = {.op = TR_IO_READ, .file = (int)f, .buf = buf};

        if (i % 40 == 0) {
            uint64_t off = tr_rng_next(&rng) % (SIZE / GRID) * GRID;

            memset(buf, (int)i, GRID);
            assert_int_equal(tr_overlay_put(o, (int)f, off, buf, GRID), TARRY_OK);
            memcpy(want[f] + off, buf, GRID);
        }
        io.off = tr_rng_next(&rng) % SIZE;
        io.len = tr_rng_next(&rng) % (SIZE - io.off) + 1;
        assert_int_equal(read_it(o, &io, i % 2 == 0), TARRY_OK);
        assert_int_equal(io.got, io.len);
        assert_memory_equal(buf, want[f] + io.off, io.len);
    }
    end(o);
}

/* A file that was cut off has what was put behind its end, as far as there is no gap. */
static void test_overlay_behind_the_end(void **state)
{
    struct tr_overlay *o = start();
    uint8_t buf[SIZE];
    struct tr_io io = {.op = TR_IO_READ_DIRECT, .file = 1, .len = SIZE, .buf = buf};

    (void)state;
    plain.len[1] = 1000;
    put(o, 1, 1000, 'x', 500);
    put(o, 1, 1500, 'y', 500);
    put(o, 1, 3000, 'z', 500);
    assert_int_equal(read_it(o, &io, false), TARRY_OK);
    assert_int_equal(io.got, 2000);
    assert_int_equal(buf[999], 'b');
    assert_int_equal(buf[1000], 'x');
    assert_int_equal(buf[1999], 'y');
    end(o);
}

/* What cannot be read may be there. */
static void test_overlay_unreadable(void **state)
{
    struct tr_overlay *o = start();
    uint8_t buf[4 * PAGE];
    struct tr_io io = {.op = TR_IO_READ, .len = sizeof buf, .buf = buf};

    (void)state;
    plain.bad_off = PAGE;
    assert_int_equal(read_it(o, &io, false), TARRY_EIO);
    put(o, 0, PAGE, 'x', PAGE);
    assert_int_equal(read_it(o, &io, false), TARRY_OK);
    assert_int_equal(io.got, sizeof buf);
    assert_int_equal(buf[PAGE - 1], 'a');
    assert_int_equal(buf[PAGE], 'x');
    assert_int_equal(buf[2 * PAGE], 'a');
    io.off = PAGE;
    io.len = PAGE;
    assert_int_equal(read_it(o, &io, true), TARRY_OK);
    assert_int_equal(buf[0], 'x');
    io.len = PAGE + 1;
    assert_int_equal(read_it(o, &io, true), TARRY_EIO);
    end(o);
}

/* A file that is not there; and one that is closed has none of it any more. */
static void test_overlay_files_of_its_own(void **state)
{
    struct tr_overlay *o = start();
    struct tr_disk d = tr_overlay_port(o);
    uint8_t buf[100];
    int file = tr_overlay_file(o);
    struct tr_io io = {.op = TR_IO_READ, .file = file, .len = sizeof buf, .buf = buf};
    struct tr_io shut = {.op = TR_IO_CLOSE, .file = file};

    (void)state;
    assert_int_not_equal(file, tr_overlay_file(o));
    assert_int_equal(read_it(o, &io, false), TARRY_OK);
    assert_int_equal(io.got, 0);
    put(o, file, 0, 'x', 50);
    for (unsigned later = 0; later < 2; later++) {
        assert_int_equal(read_it(o, &io, later != 0), TARRY_OK);
        assert_int_equal(io.op, TR_IO_READ);
        assert_int_equal(io.got, 50);
        assert_int_equal(buf[49], 'x');
    }
    put(o, 2, 0, 'y', 50);
    plain.asked = 0;
    assert_int_equal(d.ops->run(d.ctx, &shut), TARRY_OK);
    assert_int_equal(plain.asked, 0);
    assert_int_equal(read_it(o, &io, false), TARRY_OK);
    assert_int_equal(io.got, 0);
    shut.file = 2;
    assert_int_equal(d.ops->run(d.ctx, &shut), TARRY_OK);
    io.file = 2;
    assert_int_equal(read_it(o, &io, false), TARRY_OK);
    assert_int_equal(buf[0], 'c');
    end(o);
}

static void note_range(void *ctx, int file, uint64_t off, uint64_t len)
{
    uint64_t *at = ctx;

    at[at[0]++ + 1] = (uint64_t)file * 1000000 + off * 10 + len;
}

static void test_overlay_walk(void **state)
{
    static uint8_t much[1 << 20];
    struct tr_overlay *o = start();
    uint64_t ranges[10] = {0};
    int err = TARRY_OK;

    (void)state;
    put(o, 2, 500, 'x', 100);
    put(o, 1, 200, 'x', 100);
    put(o, 1, 100, 'x', 100);
    put(o, 1, 400, 'x', 100);
    put(o, 1, 100, 'y', 100); /* again */
    tr_overlay_walk(o, ranges, note_range);
    assert_int_equal(ranges[0], 3);
    assert_int_equal(ranges[1], 1001200);
    assert_int_equal(ranges[2], 1004100);
    assert_int_equal(ranges[3], 2005100);
    assert_false(tr_overlay_full(o));
    for (unsigned i = 0; i < 100 && err == TARRY_OK; i++) { /* there is an end to it */
        err = tr_overlay_put(o, 0, (uint64_t)i * sizeof much, much, sizeof much);
    }
    assert_int_equal(err, TARRY_EFULL);
    assert_true(tr_overlay_full(o));
    end(o);
}

/* Memory fails: nothing is there, or all of it. */
static void test_overlay_without_memory(void **state)
{
    static uint8_t bytes[PAGE];
    struct tr_overlay *o = start();

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        mem.fail_at = i % 2 == 0 ? mem.calls + 1 + i % 3 : 0;
        if (tr_overlay_put(o, 1, i * (uint64_t)PAGE, bytes, PAGE) != TARRY_OK) {
            assert_int_equal(i % 2, 0);
        }
    }
    end(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlay_model),      cmocka_unit_test(test_overlay_behind_the_end),
        cmocka_unit_test(test_overlay_unreadable), cmocka_unit_test(test_overlay_files_of_its_own),
        cmocka_unit_test(test_overlay_walk),       cmocka_unit_test(test_overlay_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
