/*
 * Lanes and completions of the simulated disk, and what a harness may do to it.
 *
 *     submit -> todo[lane] --step: execute--> ended[lane] --step: deliver--> done(ctx, io)
 *                                   |
 *               sim_exec (faults) -> sim_files (cache and platter), sim_trace
 *
 * A request that was executed has had its effect; its owner hears of it when it is delivered, in
 * the same step or, with late_pct, in a later one. A crash in between leaves an effect that nobody
 * was told of. LOG and BACK execute and deliver from the front; READ picks by dice. When the disk
 * is dead, also what was executed but not delivered gives TARRY_EIO.
 *
 * Not done here: eviction of clean pages whose write-back failed (the cache keeps them until a
 * power cut).
 */
#include "sim_disk.h"

#include "base/check.h"
#include "sim_exec.h"

#include <stdlib.h>
#include <string.h>

struct queue {
    struct tr_io *first;
    struct tr_io *last;
    size_t count;
};

struct sim_disk {
    struct sim_exec x;
    void (*done)(void *ctx, struct tr_io *io);
    void *ctx;
    struct queue todo[TR_LANE_COUNT];
    struct queue ended[TR_LANE_COUNT];
    bool stalled[TR_LANE_COUNT];
};

/* ---- lanes ---- */

static void append(struct queue *q, struct tr_io *io)
{
    io->next = NULL;
    if (q->last != NULL) {
        q->last->next = io;
    } else {
        q->first = io;
    }
    q->last = io;
    q->count++;
}

static struct tr_io *take(struct queue *q, uint64_t index)
{
    struct tr_io *before = NULL;
    struct tr_io *io = q->first;

    for (; index > 0; index--) {
        before = io;
        io = io->next;
    }
    if (before != NULL) {
        before->next = io->next;
    } else {
        q->first = io->next;
    }
    if (q->last == io) {
        q->last = before;
    }
    q->count--;
    io->next = NULL;
    return io;
}

static void port_submit(void *ctx, struct tr_io *io)
{
    struct sim_disk *d = ctx;

    TR_CHECK((unsigned)io->lane < TR_LANE_COUNT);
    append(&d->todo[io->lane], io);
}

static int port_run(void *ctx, struct tr_io *io)
{
    struct sim_disk *d = ctx;

    sim_exec_run(&d->x, io, SIM_LANE_RUN);
    return io->status;
}

static void deliver(struct sim_disk *d, struct tr_io *io)
{
    if (d->x.dead) {
        io->status = TARRY_EIO;
    }
    sim_trace_mix(&d->x.trace, (uint64_t)io->lane << 8 | (uint64_t)io->op);
    sim_trace_mix(&d->x.trace, io->off);
    d->done(d->ctx, io);
}

static struct tr_io *take_any(struct sim_disk *d, struct queue *q, int lane)
{
    return take(q, lane == TR_LANE_READ ? tr_rng_below(&d->x.rng, q->count) : 0);
}

bool sim_disk_step(struct sim_disk *d)
{
    struct queue *can[2 * TR_LANE_COUNT];
    unsigned count = 0;
    struct queue *q;
    struct tr_io *io;
    int lane;

    for (lane = 0; lane < TR_LANE_COUNT; lane++) {
        if (!d->stalled[lane] && d->todo[lane].count != 0) {
            can[count++] = &d->todo[lane];
        }
        if (!d->stalled[lane] && d->ended[lane].count != 0) {
            can[count++] = &d->ended[lane];
        }
    }
    if (count == 0) {
        return false;
    }
    q = can[count == 1 ? 0 : tr_rng_below(&d->x.rng, count)];
    lane = (int)q->first->lane;
    io = take_any(d, q, lane);
    if (q == &d->todo[lane]) {
        sim_exec_run(&d->x, io, lane);
        if (sim_exec_dice(&d->x, d->x.faults.late_pct) ||
            (lane != TR_LANE_READ && d->ended[lane].count != 0)) {
            d->x.files.counts.late++;
            append(&d->ended[lane], io);
            return true;
        }
    }
    deliver(d, io);
    return true;
}

/* ---- crashes and damage ---- */

static void forget(struct sim_disk *d)
{
    memset(d->todo, 0, sizeof d->todo);
    memset(d->ended, 0, sizeof d->ended);
    memset(d->stalled, 0, sizeof d->stalled);
    sim_exec_close_all(&d->x);
    d->x.faults.crash_at = 0;
    d->x.dead = false;
}

void sim_disk_power_cut(struct sim_disk *d)
{
    forget(d);
    sim_files_power_cut(&d->x.files, &d->x.rng);
    sim_trace_remark(&d->x.trace, "power cut", "", 0);
}

/* What the kernel had already taken over happens, though the process is gone. */
static void execute_some(struct sim_disk *d, int lane)
{
    struct queue *q = &d->todo[lane];
    uint64_t n = tr_rng_below(&d->x.rng, q->count + 1);

    for (; n > 0; n--) {
        sim_exec_run(&d->x, take(q, 0), lane);
        d->x.files.counts.kill_executed++;
    }
    if (q->count != 0 && sim_exec_dice(&d->x, 30)) {
        (void)sim_exec_part(&d->x, q->first);
    }
}

void sim_disk_kill(struct sim_disk *d)
{
    d->x.faults.crash_at = 0;
    if (!d->x.dead) {
        execute_some(d, TR_LANE_LOG);
        execute_some(d, TR_LANE_BACK);
    }
    forget(d);
    sim_files_kill(&d->x.files);
    sim_trace_remark(&d->x.trace, "kill", "", 0);
}

bool sim_disk_rot(struct sim_disk *d, const char *prefix, enum sim_rot kind,
                  struct sim_place *place)
{
    static const char *const names[] = {"any", "bit", "sector", "bad"};
    struct sim_file *f = sim_files_pick(&d->x.files, &d->x.rng, prefix);
    struct sim_place where;
    uint64_t off;

    if (f == NULL) {
        return false;
    }
    if (kind == SIM_ROT_ANY) {
        kind = sim_exec_dice(&d->x, 70) ? SIM_ROT_BIT : SIM_ROT_SECTOR;
    }
    off = sim_files_rot(&d->x.files, f, &d->x.rng, kind);
    where = sim_exec_place(f->name, off, kind == SIM_ROT_BIT ? 1 : SIM_SECTOR, names[kind]);
    where.op_no = d->x.op_count;
    sim_exec_damage(&d->x, where);
    d->x.files.counts.rots++;
    if (place != NULL) {
        *place = where;
    }
    return true;
}

const struct sim_place *sim_disk_damage(const struct sim_disk *d, size_t *count)
{
    *count = d->x.damage_count;
    return d->x.damage;
}

/* ---- guards ---- */

static struct sim_file *need_file(struct sim_disk *d, const char *name)
{
    struct sim_file *f = sim_files_find(&d->x.files, name);

    TR_CHECK(f != NULL);
    return f;
}

void sim_disk_guard(struct sim_disk *d, const char *name, uint64_t off, uint64_t len)
{
    sim_files_guard(&d->x.files, need_file(d, name), off, len);
}

void sim_disk_unguard(struct sim_disk *d, const char *name, uint64_t off, uint64_t len)
{
    struct sim_file *f = sim_files_find(&d->x.files, name);

    if (f != NULL) {
        sim_files_unguard(f, off, len);
    }
}

const struct sim_place *sim_disk_guard_hit(const struct sim_disk *d)
{
    return d->x.guard_hit.what != NULL ? &d->x.guard_hit : NULL;
}

/* ---- state ---- */

struct sim_faults *sim_disk_faults(struct sim_disk *d)
{
    return &d->x.faults;
}

struct sim_counts *sim_disk_counts(struct sim_disk *d)
{
    return &d->x.files.counts;
}

void sim_disk_set_cap(struct sim_disk *d, uint64_t cap_bytes)
{
    d->x.cap_bytes = cap_bytes;
}

uint64_t sim_disk_used(const struct sim_disk *d)
{
    return d->x.files.used_bytes;
}

size_t sim_disk_pending_lane(const struct sim_disk *d, enum tr_lane lane)
{
    return d->todo[lane].count + d->ended[lane].count;
}

size_t sim_disk_pending(const struct sim_disk *d)
{
    size_t n = 0;

    for (unsigned lane = 0; lane < TR_LANE_COUNT; lane++) {
        n += sim_disk_pending_lane(d, (enum tr_lane)lane);
    }
    return n;
}

void sim_disk_stall(struct sim_disk *d, enum tr_lane lane, bool on)
{
    d->stalled[lane] = on;
}

bool sim_disk_dead(const struct sim_disk *d)
{
    return d->x.dead;
}

bool sim_disk_exists(const struct sim_disk *d, const char *name)
{
    return sim_files_find(&d->x.files, name) != NULL;
}

size_t sim_disk_count_names(const struct sim_disk *d, const char *prefix)
{
    size_t n = 0;

    for (size_t i = 0; i < d->x.files.cached.count; i++) {
        n += sim_exec_begins(d->x.files.cached.entries[i].name, prefix);
    }
    return n;
}

uint64_t sim_disk_bytes(const struct sim_disk *d, const char *prefix)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < d->x.files.cached.count; i++) {
        const char *name = d->x.files.cached.entries[i].name;

        bytes += sim_exec_begins(name, prefix) ? sim_disk_size(d, name) : 0;
    }
    return bytes;
}

uint64_t sim_disk_size(const struct sim_disk *d, const char *name)
{
    const struct sim_file *f = sim_files_find(&d->x.files, name);

    return f != NULL ? f->size : 0;
}

size_t sim_disk_peek(const struct sim_disk *d, const char *name, uint64_t off, void *buf,
                     size_t len)
{
    const struct sim_file *f = sim_files_find(&d->x.files, name);

    return f != NULL ? sim_files_read(f, off, buf, len, false) : 0;
}

void sim_disk_poke(struct sim_disk *d, const char *name, uint64_t off, const void *from, size_t len)
{
    sim_files_poke(&d->x.files, need_file(d, name), off, from, len);
    sim_trace_remark(&d->x.trace, "poke", name, off);
}

void sim_disk_break(struct sim_disk *d, const char *name, uint64_t off)
{
    sim_files_page(&d->x.files, need_file(d, name), off)->bad |= sim_files_mask(off, off + 1);
    sim_trace_remark(&d->x.trace, "break", name, off);
}

uint64_t sim_disk_op_count(const struct sim_disk *d)
{
    return d->x.op_count;
}

uint64_t sim_disk_hash(const struct sim_disk *d)
{
    return d->x.trace.hash;
}

void sim_disk_print_trace(const struct sim_disk *d, FILE *out)
{
    sim_trace_print(&d->x.trace, out);
}

/* ---- the folder aside ---- */

static void copy_file(struct sim_files *s, const struct sim_file *from, const char *name)
{
    struct sim_file *f = sim_files_create(s, name);
    uint8_t page[SIM_PAGE];

    sim_files_allocate(s, f, from->size);
    for (uint64_t off = 0; off < from->size; off += SIM_PAGE) {
        size_t got = sim_files_read(from, off, page, SIM_PAGE, false);

        if (off / SIM_PAGE < from->page_count && from->pages[off / SIM_PAGE] != NULL) {
            sim_files_write(s, f, off, page, got);
        }
    }
    sim_files_sync(f);
}

size_t sim_disk_copy_aside(const struct sim_disk *from, struct sim_disk *to)
{
    const struct sim_dir *dir = &from->x.files.cached;
    size_t count = 0;

    for (size_t i = 0; i < dir->count; i++) {
        if (sim_files_is_aside(dir->entries[i].name)) {
            copy_file(&to->x.files, dir->entries[i].file, dir->entries[i].name + strlen(SIM_ASIDE));
            count++;
        }
    }
    sim_files_dirsync(&to->x.files, false);
    return count;
}

void sim_disk_clear_aside(struct sim_disk *d)
{
    struct sim_files *s = &d->x.files;

    for (size_t i = s->cached.count; i-- > 0;) {
        char name[TR_IO_NAME_MAX];

        memcpy(name, s->cached.entries[i].name, sizeof name);
        if (sim_files_is_aside(name)) {
            sim_files_unlink(s, name);
        }
    }
    sim_files_dirsync(s, true);
}

/* ---- life ---- */

static const struct tr_disk_ops port_ops = {.submit = port_submit, .run = port_run};

struct tr_disk sim_disk_port(struct sim_disk *d)
{
    return (struct tr_disk){.ops = &port_ops, .ctx = d};
}

void sim_disk_set_done(struct sim_disk *d, void (*done)(void *ctx, struct tr_io *io), void *ctx)
{
    d->done = done;
    d->ctx = ctx;
}

void sim_disk_reset(struct sim_disk *d, uint64_t seed)
{
    forget(d);
    sim_files_reset(&d->x.files);
    memset(&d->x.faults, 0, sizeof d->x.faults);
    memset(d->x.handles, 0, sizeof d->x.handles);
    memset(&d->x.guard_hit, 0, sizeof d->x.guard_hit);
    sim_trace_init(&d->x.trace, seed);
    d->x.rng.state = seed;
    d->x.cap_bytes = UINT64_MAX;
    d->x.op_count = 0;
    d->x.damage_count = 0;
}

struct sim_disk *sim_disk_new(void (*done)(void *ctx, struct tr_io *io), void *ctx)
{
    struct sim_disk *d = calloc(1, sizeof *d);

    TR_CHECK(d != NULL);
    sim_files_init(&d->x.files);
    sim_disk_set_done(d, done, ctx);
    sim_disk_reset(d, 0);
    return d;
}

void sim_disk_free(struct sim_disk *d)
{
    if (d != NULL) {
        sim_files_fini(&d->x.files);
        free(d);
    }
}
