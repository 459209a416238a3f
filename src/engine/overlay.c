/*
 * Patches over the files of a disk.
 *
 *     what is asked for    |---------------------------|
 *     the file             xxxxxxxxxxxxx???xxxxxxxxx                 short, or partly unreadable
 *     patches                           |-|         |----|
 *     what is given        |---------------------------|
 *
 * A read goes to the disk, and when it is done the patches in its range are laid over what it gave.
 * If it failed, the patches may have all of it; one that is waited for is tried again page by page.
 * A file that is not there at all has a number of its own and consists of patches only.
 *
 * Patches go with the file when it is closed: the next one may get its number.
 *
 * Cost: a patch is a copy of its bytes; 64 MiB of them are enough for the index of two million
 * jobs. Not done here: anything but reading; nobody writes to a store that he only looks at.
 */

#include "engine/overlay.h"

#include "base/err.h"

#include <stdbool.h>
#include <string.h>

enum { PAGE = 4096, BYTES_MAX = 64 << 20, VIRTUAL = 1 << 30 };

struct patch {
    int file;
    uint64_t off;
    uint64_t len;
    uint8_t *bytes;
};

struct tr_overlay {
    struct tr_mem *mem;
    struct tr_disk under;
    struct patch *patches; /* by file and off */
    size_t count;
    size_t room;
    uint64_t bytes;
    bool full; /* something did not fit any more, and its file is still open */
    int files; /* that the disk has not */
};

struct tr_overlay *tr_overlay_new(struct tr_mem *mem, struct tr_disk under)
{
    struct tr_overlay *o = tr_mem_alloc(mem, sizeof *o);

    if (o != NULL) {
        o->mem = mem;
        o->under = under;
    }
    return o;
}

void tr_overlay_free(struct tr_overlay *o)
{
    if (o == NULL) {
        return;
    }
    for (size_t i = 0; i < o->count; i++) {
        tr_mem_free(o->mem, o->patches[i].bytes, (size_t)o->patches[i].len);
    }
    tr_mem_free(o->mem, o->patches, o->room * sizeof *o->patches);
    tr_mem_free(o->mem, o, sizeof *o);
}

/* ---- patches ---- */

/* The first one that does not stand before this place. */
static size_t place_of(const struct tr_overlay *o, int file, uint64_t off)
{
    size_t from = 0;
    size_t to = o->count;

    while (from < to) {
        size_t mid = from + (to - from) / 2;
        const struct patch *p = &o->patches[mid];

        if (p->file < file || (p->file == file && p->off < off)) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    return from;
}

/* The first one that ends behind it. */
static size_t first_at(const struct tr_overlay *o, int file, uint64_t off)
{
    size_t at = place_of(o, file, off);
    const struct patch *before = at > 0 ? &o->patches[at - 1] : NULL;

    return before != NULL && before->file == file && before->off + before->len > off ? at - 1 : at;
}

static bool make_room(struct tr_overlay *o)
{
    size_t room = o->room != 0 ? 2 * o->room : 16;
    struct patch *patches;

    if (o->count < o->room) {
        return true;
    }
    patches = tr_mem_alloc(o->mem, room * sizeof *patches);
    if (patches == NULL) {
        return false;
    }
    if (o->count != 0) {
        memcpy(patches, o->patches, o->count * sizeof *patches);
    }
    tr_mem_free(o->mem, o->patches, o->room * sizeof *patches);
    o->patches = patches;
    o->room = room;
    return true;
}

int tr_overlay_put(struct tr_overlay *o, int file, uint64_t off, const uint8_t *bytes, uint64_t len)
{
    size_t at = place_of(o, file, off);
    struct patch p = {.file = file, .off = off, .len = len};

    if (at < o->count && o->patches[at].file == file && o->patches[at].off == off) {
        TR_CHECK(o->patches[at].len == len);
        memcpy(o->patches[at].bytes, bytes, (size_t)len);
        return TARRY_OK;
    }
    if (o->bytes + len > BYTES_MAX) {
        o->full = true;
        return TARRY_EFULL;
    }
    if (!make_room(o)) {
        return TARRY_ENOMEM;
    }
    p.bytes = tr_mem_alloc(o->mem, (size_t)len);
    if (p.bytes == NULL) {
        return TARRY_ENOMEM;
    }
    memcpy(p.bytes, bytes, (size_t)len);
    memmove(&o->patches[at + 1], &o->patches[at], (o->count - at) * sizeof p);
    o->patches[at] = p;
    o->count++;
    o->bytes += len;
    return TARRY_OK;
}

bool tr_overlay_full(const struct tr_overlay *o)
{
    return o->full;
}

int tr_overlay_file(struct tr_overlay *o)
{
    return VIRTUAL + o->files++;
}

static void drop(struct tr_overlay *o, int file)
{
    size_t from = place_of(o, file, 0);
    size_t to = from;

    o->full = false;
    for (; to < o->count && o->patches[to].file == file; to++) {
        o->bytes -= o->patches[to].len;
        tr_mem_free(o->mem, o->patches[to].bytes, (size_t)o->patches[to].len);
    }
    if (to > from) {
        memmove(&o->patches[from], &o->patches[to], (o->count - to) * sizeof *o->patches);
        o->count -= to - from;
    }
}

void tr_overlay_walk(const struct tr_overlay *o, void *ctx, tr_overlay_fn *fn)
{
    size_t next;

    for (size_t i = 0; i < o->count; i = next) {
        const struct patch *p = &o->patches[i];
        uint64_t end = p->off + p->len;

        for (next = i + 1;
             next < o->count && o->patches[next].file == p->file && o->patches[next].off == end;
             next++) {
            end += o->patches[next].len;
        }
        fn(ctx, p->file, p->off, end - p->off);
    }
}

/* ---- reads ---- */

/* Lays patches over [off, off + len), of which the disk gave the first got bytes; gives how many
 * there are then. */
static uint64_t lay(const struct tr_overlay *o, const struct tr_io *io, uint64_t got)
{
    uint64_t end = io->off + io->len;

    for (size_t i = first_at(o, io->file, io->off); i < o->count; i++) {
        const struct patch *p = &o->patches[i];
        uint64_t from = p->off > io->off ? p->off : io->off;
        uint64_t to = p->off + p->len < end ? p->off + p->len : end;

        if (p->file != io->file || from >= to || from > io->off + got) {
            break; /* behind the end of the file there is nothing between patches */
        }
        memcpy((uint8_t *)io->buf + (from - io->off), p->bytes + (from - p->off),
               (size_t)(to - from));
        got = to - io->off > got ? to - io->off : got;
    }
    return got;
}

static bool is_read(const struct tr_io *io)
{
    return io->op == TR_IO_READ || io->op == TR_IO_READ_DIRECT;
}

/* What the disk could not give at all the patches may have. */
static void finish(const struct tr_overlay *o, struct tr_io *io)
{
    uint64_t got = lay(o, io, io->status == TARRY_OK ? io->got : 0);

    if (io->status == TARRY_OK || (io->status == TARRY_EIO && got == io->len)) {
        io->status = TARRY_OK;
        io->got = got;
    }
}

void tr_overlay_done(const struct tr_overlay *o, struct tr_io *io)
{
    if (io->op == TR_IO_CALL && io->file >= VIRTUAL) {
        io->op = TR_IO_READ;
        io->got = 0;
    }
    if (is_read(io)) {
        finish(o, io);
    }
}

static void read_page(const struct tr_overlay *o, struct tr_io *io)
{
    if (io->file >= VIRTUAL) {
        io->status = TARRY_OK;
        io->got = 0;
    } else {
        (void)o->under.ops->run(o->under.ctx, io);
    }
    finish(o, io);
}

/* Some of it cannot be read: perhaps it is what there are patches for. */
static void read_pages(const struct tr_overlay *o, struct tr_io *io)
{
    io->got = 0;
    io->status = TARRY_OK;
    while (io->got < io->len && io->status == TARRY_OK) {
        uint64_t left = io->len - io->got;
        struct tr_io part = {.op = io->op,
                             .lane = io->lane,
                             .file = io->file,
                             .off = io->off + io->got,
                             .len = left < PAGE ? left : PAGE,
                             .buf = (uint8_t *)io->buf + io->got};

        read_page(o, &part);
        io->status = part.status;
        io->got += part.status == TARRY_OK ? part.got : 0;
        if (part.got < part.len) {
            break;
        }
    }
}

/* ---- the port ---- */

static void nothing(void *buf)
{
    (void)buf;
}

static void submit_io(void *ctx, struct tr_io *io)
{
    const struct tr_overlay *o = ctx;

    if (is_read(io) && io->file >= VIRTUAL) { /* it must be done later, like any other */
        io->op = TR_IO_CALL;
        io->call = nothing;
    }
    o->under.ops->submit(o->under.ctx, io);
}

static int run_io(void *ctx, struct tr_io *io)
{
    struct tr_overlay *o = ctx;

    if (io->op == TR_IO_CLOSE) {
        drop(o, io->file);
        if (io->file >= VIRTUAL) {
            io->status = TARRY_OK;
            return io->status;
        }
    }
    if (!is_read(io)) {
        return o->under.ops->run(o->under.ctx, io);
    }
    read_page(o, io);
    if (io->status == TARRY_EIO && io->len > PAGE) {
        read_pages(o, io);
    }
    return io->status;
}

struct tr_disk tr_overlay_port(struct tr_overlay *o)
{
    static const struct tr_disk_ops ops = {submit_io, run_io};

    return (struct tr_disk){&ops, o};
}
