/*
 * Executes one request on the files, with or without a fault.
 *
 * Every execution is an op with a number. A WRITE with THEN_SYNC is two ops, so that a crash or a
 * fault can come between them. crash_at stops the disk at an op: it is not done, or in part. From
 * then on the disk is dead: no op is counted, nothing changes, all requests give TARRY_EIO.
 *
 * Dice: each decision asks the generator only if its fault is on; so switching one fault off
 * changes the run, and the same knobs at the same moments give the same run.
 *
 * A file number holds how often its place in the table was used: a request for a closed file is
 * a bug of the caller and stops the program here.
 */
#include "sim_exec.h"

#include "base/check.h"
#include "base/err.h"
#include "base/text.h"

#include <string.h>

/* ---- dice and trace ---- */

static bool ppm(struct sim_exec *x, uint32_t chance)
{
    return chance != 0 && tr_rng_below(&x->rng, 1000000) < chance;
}

bool sim_exec_dice(struct sim_exec *x, uint32_t chance)
{
    return chance != 0 && tr_rng_below(&x->rng, 100) < chance;
}

static void trace_op(struct sim_exec *x, const struct tr_io *io, int op, int lane, const char *name)
{
    struct sim_trace_entry e = {
        .op_no = x->op_count,
        .lane = lane,
        .op = op,
        .off = io->off,
        .len = op == TR_IO_SYNC ? 0 : io->len,
        .got = io->got,
        .status = io->status,
        .note = x->note,
    };

    memcpy(e.name, name, strlen(name));
    sim_trace_add(&x->trace, &e);
}

void sim_exec_damage(struct sim_exec *x, struct sim_place where)
{
    where.op_no = x->op_count;
    if (x->damage_count < SIM_DAMAGE_MAX) {
        x->damage[x->damage_count++] = where;
    }
    sim_trace_remark(&x->trace, where.what, where.name, where.off);
}

struct sim_place sim_exec_place(const char *name, uint64_t off, uint64_t len, const char *what)
{
    struct sim_place p = {.off = off, .len = len, .what = what};

    memcpy(p.name, name, strlen(name));
    return p;
}

static void hit_guard(struct sim_exec *x, const struct sim_file *f, const struct tr_io *io,
                      const char *what)
{
    x->files.counts.guard_hits++;
    x->note = "GUARD";
    if (x->guard_hit.what == NULL) {
        x->guard_hit = sim_exec_place(f->name, io->off, io->len, what);
        x->guard_hit.op_no = x->op_count;
    }
}

/* ---- handles ---- */

static struct sim_handle *handle_of(struct sim_exec *x, const struct tr_io *io)
{
    struct sim_handle *h = &x->handles[(unsigned)io->file % SIM_HANDLES];

    TR_CHECK(io->file >= 0);
    TR_CHECK(h->file != NULL);
    TR_CHECK(h->use == io->file / SIM_HANDLES);
    return h;
}

void sim_exec_close_all(struct sim_exec *x)
{
    for (size_t i = 0; i < SIM_HANDLES; i++) {
        if (x->handles[i].file != NULL) {
            x->handles[i].file = NULL;
            x->handles[i].use = (x->handles[i].use + 1) & 0xffff;
        }
    }
}

/* The name that a request gives, in its folder. */
static const char *path_of(struct sim_exec *x, const struct tr_io *io)
{
    tr_text(x->path, sizeof x->path, "%s%s", io->flags & TR_IO_ASIDE ? SIM_ASIDE : "", io->name);
    return x->path;
}

/* The file that an op is about; NULL when it has none. */
static struct sim_file *file_of(struct sim_exec *x, const struct tr_io *io, int op)
{
    switch (op) {
    case TR_IO_OPEN:
    case TR_IO_UNLINK:
        return sim_files_find(&x->files, path_of(x, io));
    case TR_IO_LIST:
    case TR_IO_DIRSYNC:
    case TR_IO_FOLDER:
    case TR_IO_LINK:
    case TR_IO_CALL:
    case TR_IO_SPACE:
        return NULL;
    default:
        return handle_of(x, io)->file;
    }
}

static const char *name_of(struct sim_exec *x, const struct tr_io *io, int op)
{
    switch (op) {
    case TR_IO_OPEN:
    case TR_IO_UNLINK:
    case TR_IO_LINK:
        return path_of(x, io);
    case TR_IO_LIST:
    case TR_IO_DIRSYNC:
    case TR_IO_FOLDER:
    case TR_IO_CALL:
    case TR_IO_SPACE:
        return "";
    default:
        return handle_of(x, io)->file->name;
    }
}

/* ---- which fault ---- */

bool sim_exec_begins(const char *name, const char *prefix)
{
    return prefix == NULL || strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool needs_space(struct sim_exec *x, const struct tr_io *io, int op)
{
    const struct sim_file *f = file_of(x, io, op);

    switch (op) {
    case TR_IO_OPEN:
        return f == NULL && (io->flags & TR_IO_CREATE) != 0;
    case TR_IO_ALLOCATE:
        return sim_files_need(f, io->len) != 0;
    case TR_IO_WRITE:
    case TR_IO_ZERO:
        return sim_files_need(f, io->off + io->len) != 0;
    default:
        return false;
    }
}

static bool fits(struct sim_exec *x, const struct tr_io *io, int op, int code)
{
    switch (code) {
    case TARRY_EIO:
        return op != TR_IO_CLOSE && op != TR_IO_CALL;
    case TARRY_ENOSPC:
        return needs_space(x, io, op);
    case SIM_FAIL_SHORT:
        return op == TR_IO_WRITE && io->len > 1;
    default:
        return false;
    }
}

static bool fails_by_number(struct sim_exec *x, const struct tr_io *io, int op)
{
    struct sim_faults *f = &x->faults;

    if (f->fail_at == 0 || !fits(x, io, op, f->fail_code)) {
        return false;
    }
    f->fail_seen++;
    if (f->fail_seen == f->fail_at || (f->fail_on && f->fail_seen > f->fail_at)) {
        f->fail_hits++;
        x->files.counts.forced++;
        return true;
    }
    return false;
}

static int dice_write(struct sim_exec *x, const struct tr_io *io, int op)
{
    const struct sim_faults *f = &x->faults;

    if (ppm(x, f->write_eio_ppm)) {
        return TARRY_EIO;
    }
    if (fits(x, io, op, SIM_FAIL_SHORT) && ppm(x, f->short_ppm)) {
        return SIM_FAIL_SHORT;
    }
    return TARRY_OK;
}

/* TARRY_OK, or the error or SIM_FAIL_SHORT that this op is to have. */
static int fault_of(struct sim_exec *x, const struct tr_io *io, int op)
{
    const struct sim_faults *f = &x->faults;
    uint32_t chance = 0;

    if (!sim_exec_begins(name_of(x, io, op), f->only)) {
        return TARRY_OK;
    }
    if (fails_by_number(x, io, op)) {
        return f->fail_code;
    }
    if (f->enospc_ppm != 0 && needs_space(x, io, op) && ppm(x, f->enospc_ppm)) {
        return TARRY_ENOSPC;
    }
    switch (op) {
    case TR_IO_CLOSE:
    case TR_IO_CALL:
        break;
    case TR_IO_READ:
    case TR_IO_READ_DIRECT:
        chance = f->read_eio_ppm;
        break;
    case TR_IO_WRITE:
    case TR_IO_ZERO:
        return dice_write(x, io, op);
    case TR_IO_SYNC:
        chance = f->sync_eio_ppm;
        break;
    default:
        chance = f->dir_eio_ppm;
        break;
    }
    return ppm(x, chance) ? TARRY_EIO : TARRY_OK;
}

/* ---- ops; each gets its fault ---- */

/* Puts the first len bytes of the request into f at off. */
static void put_pieces(struct sim_exec *x, struct sim_file *f, const struct tr_io *io, uint64_t off,
                       uint64_t len)
{
    for (unsigned i = 0; i < io->piece_count && len > 0; i++) {
        size_t part = io->pieces[i].len < len ? io->pieces[i].len : (size_t)len;

        if (part != 0) {
            sim_files_write(&x->files, f, off, io->pieces[i].at, part);
        }
        off += part;
        len -= part;
    }
}

/* The first len bytes of a WRITE or ZERO, into the cache. */
static void put(struct sim_exec *x, struct sim_file *f, const struct tr_io *io, uint64_t len)
{
    if (len != 0 && sim_files_guarded(f, io->off, len)) {
        hit_guard(x, f, io, "write");
    }
    if (x->faults.write_back_pct != 0) {
        sim_files_write_back(f, io->off, len, &x->rng, x->faults.write_back_pct);
    }
    if (io->op == TR_IO_ZERO) {
        sim_files_write(&x->files, f, io->off, NULL, (size_t)len);
    } else {
        put_pieces(x, f, io, io->off, len);
    }
    x->files.counts.written_bytes += len;
}

static uint64_t part_of(struct sim_exec *x, uint64_t len)
{
    uint64_t n = tr_rng_below(&x->rng, len + 1);

    return sim_exec_dice(x, 50) ? n / SIM_SECTOR * SIM_SECTOR : n;
}

/* Some other place that exists: mostly block-aligned, where the bytes could be taken for real. */
static void misdirect(struct sim_exec *x, const struct sim_file *meant, const struct tr_io *io)
{
    struct sim_files *s = &x->files;
    struct sim_file *f = s->cached.entries[tr_rng_below(&x->rng, s->cached.count)].file;
    uint64_t unit = sim_exec_dice(x, 80) ? SIM_PAGE : SIM_SECTOR;
    uint64_t off = f->size == 0 ? 0 : tr_rng_below(&x->rng, f->size) / unit * unit;
    uint64_t left = f->size - off < io->len ? f->size - off : io->len;
    struct sim_place where = sim_exec_place(f->name, off, left, "misdirected");

    sim_exec_damage(x, sim_exec_place(meant->name, io->off, io->len, "lost"));
    sim_exec_damage(x, where);
    for (unsigned i = 0; i < io->piece_count && left > 0; i++) {
        size_t part = io->pieces[i].len < left ? io->pieces[i].len : (size_t)left;

        sim_files_poke(s, f, off, io->pieces[i].at, part);
        off += part;
        left -= part;
    }
    s->counts.misdirected++;
    x->note = "misdirected";
}

static void lose(struct sim_exec *x, struct sim_file *f, const struct tr_io *io)
{
    /* The platter never gets it; the cache may show it for a while, or was dropped at once. */
    if (sim_exec_dice(x, 50)) {
        put(x, f, io, io->len);
        sim_files_lose(f, io->off, io->len);
    }
    sim_exec_damage(x, sim_exec_place(f->name, io->off, io->len, "lost"));
    x->files.counts.lost_writes++;
    x->note = "lost";
}

/* True when the write is one of the two one-shot faults and so already done. */
static bool goes_astray(struct sim_exec *x, struct sim_file *f, const struct tr_io *io)
{
    struct sim_faults *k = &x->faults;

    if (io->op != TR_IO_WRITE || io->len == 0 || !sim_exec_begins(f->name, k->only)) {
        return false;
    }
    if (k->misdirect_in != 0 && --k->misdirect_in == 0 && x->files.cached.count > 0) {
        misdirect(x, f, io);
        return true;
    }
    if (k->lose_in != 0 && --k->lose_in == 0) {
        lose(x, f, io);
        return true;
    }
    return false;
}

static void mix_pieces(struct sim_exec *x, const struct tr_io *io)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < io->piece_count; i++) {
        sim_trace_mix_bytes(&x->trace, io->pieces[i].at, io->pieces[i].len);
        sum += io->pieces[i].len;
    }
    TR_CHECK(io->piece_count <= TR_IO_PIECES_MAX);
    TR_CHECK(sum == io->len);
}

static uint64_t room_left(const struct sim_exec *x)
{
    return x->cap_bytes > x->files.used_bytes ? x->cap_bytes - x->files.used_bytes : 0;
}

static bool lacks_room(const struct sim_exec *x, uint64_t need)
{
    return need > room_left(x);
}

/* A full disk may take what fits first: a short write, and the owner hears of it next time. */
static int write_what_fits(struct sim_exec *x, struct sim_file *f, struct tr_io *io, uint64_t room)
{
    uint64_t end = f->size > f->alloc ? f->size : f->alloc;

    end = (end + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE + room / SIM_PAGE * SIM_PAGE;
    x->files.counts.enospc++;
    if (io->op == TR_IO_WRITE && end > io->off && sim_exec_dice(x, 50)) {
        io->got = end - io->off;
        put(x, f, io, io->got);
        return TARRY_OK;
    }
    return TARRY_ENOSPC;
}

static int op_write(struct sim_exec *x, struct tr_io *io, int fault)
{
    struct sim_counts *c = &x->files.counts;
    struct sim_file *f = handle_of(x, io)->file;
    uint64_t need = sim_files_need(f, io->off + io->len);

    c->writes++;
    if (io->op == TR_IO_WRITE) {
        mix_pieces(x, io);
    }
    if (fault == TARRY_EIO) {
        c->write_eio++;
        put(x, f, io, sim_exec_dice(x, 50) ? part_of(x, io->len) : 0);
        return TARRY_EIO;
    }
    if (fault == SIM_FAIL_SHORT) {
        c->short_writes++;
        x->note = "short";
        io->got = part_of(x, io->len - 1);
        io->got += io->got == 0;
        put(x, f, io, io->got);
        return TARRY_OK;
    }
    if (fault == TARRY_ENOSPC || lacks_room(x, need)) {
        return write_what_fits(x, f, io, fault == TARRY_ENOSPC ? 0 : room_left(x));
    }
    io->got = io->len;
    if (!goes_astray(x, f, io)) {
        put(x, f, io, io->len);
    }
    return TARRY_OK;
}

static int op_read(struct sim_exec *x, struct tr_io *io, int fault)
{
    struct sim_file *f = handle_of(x, io)->file;

    x->files.counts.reads++;
    if (io->off < f->size && io->len != 0 && sim_exec_begins(f->name, x->faults.only) &&
        ppm(x, x->faults.read_bad_ppm)) {
        uint64_t end = f->size - io->off < io->len ? f->size : io->off + io->len;
        uint64_t at = io->off + tr_rng_below(&x->rng, end - io->off);

        sim_files_page(&x->files, f, at)->bad |= sim_files_mask(at, at + 1);
        sim_exec_damage(x,
                        sim_exec_place(f->name, at / SIM_SECTOR * SIM_SECTOR, SIM_SECTOR, "bad"));
    }
    if (fault != TARRY_OK) {
        x->files.counts.read_eio++;
        return fault;
    }
    if (sim_files_bad(f, io->off, io->len)) {
        x->files.counts.read_bad++;
        x->note = "bad sector";
        return TARRY_EIO;
    }
    io->got = sim_files_read(f, io->off, io->buf, (size_t)io->len, io->op == TR_IO_READ_DIRECT);
    return TARRY_OK;
}

static int op_sync(struct sim_exec *x, struct tr_io *io, int fault)
{
    struct sim_file *f = handle_of(x, io)->file;

    x->files.counts.syncs++;
    if (fault != TARRY_OK) {
        x->files.counts.sync_eio++;
        sim_files_sync_broken(f, &x->rng);
        return fault;
    }
    sim_files_sync(f);
    return TARRY_OK;
}

static int op_allocate(struct sim_exec *x, struct tr_io *io, int fault)
{
    struct sim_file *f = handle_of(x, io)->file;
    uint64_t need = sim_files_need(f, io->len);

    if (fault == TARRY_EIO) {
        x->files.counts.dir_eio++;
        return TARRY_EIO;
    }
    if (fault == TARRY_ENOSPC || lacks_room(x, need)) {
        x->files.counts.enospc++;
        return TARRY_ENOSPC;
    }
    sim_files_allocate(&x->files, f, io->len);
    return TARRY_OK;
}

static int op_open(struct sim_exec *x, struct tr_io *io, int fault)
{
    struct sim_file *f = sim_files_find(&x->files, path_of(x, io));
    unsigned slot = 0;
    struct sim_handle *h;

    if (f == NULL && ((io->flags & TR_IO_CREATE) == 0 || (io->flags & TR_IO_READ_ONLY) != 0)) {
        return TARRY_ENOTFOUND;
    }
    if (f == NULL && (fault == TARRY_ENOSPC || x->files.used_bytes >= x->cap_bytes)) {
        x->files.counts.enospc++;
        return TARRY_ENOSPC;
    }
    if (fault != TARRY_OK) {
        x->files.counts.dir_eio++;
        return TARRY_EIO;
    }
    if (f == NULL) {
        f = sim_files_create(&x->files, path_of(x, io));
    }
    if ((io->flags & TR_IO_LOCK) != 0 && f->locked) {
        return TARRY_ELOCKED;
    }
    while (slot < SIM_HANDLES && x->handles[slot].file != NULL) {
        slot++;
    }
    TR_CHECK(slot < SIM_HANDLES); /* a leak: no store has so many files */
    h = &x->handles[slot];
    h->file = f;
    h->locks = (io->flags & TR_IO_LOCK) != 0 && (io->flags & TR_IO_READ_ONLY) == 0;
    f->locked |= h->locks;
    sim_files_open(&x->files, f);
    io->file = h->use * SIM_HANDLES + (int)slot;
    return TARRY_OK;
}

static int op_close(struct sim_exec *x, struct tr_io *io)
{
    struct sim_handle *h = handle_of(x, io);

    if (h->locks) {
        h->file->locked = false;
    }
    sim_files_close(&x->files, h->file);
    h->file = NULL;
    h->use = (h->use + 1) & 0xffff;
    return TARRY_OK;
}

static int op_unlink(struct sim_exec *x, struct tr_io *io, int fault)
{
    const struct sim_file *f = sim_files_find(&x->files, path_of(x, io));

    x->files.counts.unlinks++;
    if (fault != TARRY_OK) {
        x->files.counts.dir_eio++;
        return fault;
    }
    if (f != NULL && f->guards != 0) {
        hit_guard(x, f, io, "unlink");
    }
    sim_files_unlink(&x->files, path_of(x, io));
    return TARRY_OK;
}

/* Now and then it is another file system. */
static int op_link(struct sim_exec *x, struct tr_io *io, int fault)
{
    struct sim_file *f = sim_files_find(&x->files, io->name);

    if (fault != TARRY_OK) {
        x->files.counts.dir_eio++;
        return fault;
    }
    if (f == NULL || sim_files_find(&x->files, path_of(x, io)) != NULL) {
        return f == NULL ? TARRY_ENOTFOUND : TARRY_EIO;
    }
    if (sim_exec_dice(x, 20)) {
        return TARRY_EUNSUPPORTED;
    }
    sim_files_link(&x->files, f, path_of(x, io));
    return TARRY_OK;
}

/* In an order of its own each time: nobody was promised one. */
static int op_list(struct sim_exec *x, struct tr_io *io, int fault)
{
    const struct sim_dir *dir = &x->files.cached;
    uint64_t start = dir->count != 0 ? tr_rng_below(&x->rng, dir->count) : 0;
    char *to = io->buf;

    if (fault != TARRY_OK) {
        x->files.counts.dir_eio++;
        return fault;
    }
    for (size_t i = 0; i < dir->count; i++) {
        const char *name = dir->entries[(start + i) % dir->count].name;
        size_t len;

        if (sim_files_is_aside(name) != ((io->flags & TR_IO_ASIDE) != 0)) {
            continue;
        }
        name += (io->flags & TR_IO_ASIDE) != 0 ? strlen(SIM_ASIDE) : 0;
        len = strlen(name) + 1;
        if (io->got + len > io->len) {
            return TARRY_EFULL;
        }
        memcpy(to + io->got, name, len);
        io->got += len;
    }
    return TARRY_OK;
}

static int op_dirsync(struct sim_exec *x, const struct tr_io *io, int fault)
{
    bool aside = (io->flags & TR_IO_ASIDE) != 0;

    x->files.counts.dirsyncs++;
    if (fault != TARRY_OK) {
        x->files.counts.dir_eio++;
        sim_files_dirsync_broken(&x->files, &x->rng, aside);
        return fault;
    }
    sim_files_dirsync(&x->files, aside);
    return TARRY_OK;
}

static int do_op(struct sim_exec *x, struct tr_io *io, int op, int fault)
{
    switch (op) {
    case TR_IO_OPEN:
        return op_open(x, io, fault);
    case TR_IO_CLOSE:
        return op_close(x, io);
    case TR_IO_READ:
    case TR_IO_READ_DIRECT:
        return op_read(x, io, fault);
    case TR_IO_WRITE:
    case TR_IO_ZERO:
        return op_write(x, io, fault);
    case TR_IO_SYNC:
        return op_sync(x, io, fault);
    case TR_IO_ALLOCATE:
        return op_allocate(x, io, fault);
    case TR_IO_UNLINK:
        return op_unlink(x, io, fault);
    case TR_IO_LIST:
        return op_list(x, io, fault);
    case TR_IO_DIRSYNC:
        return op_dirsync(x, io, fault);
    case TR_IO_FOLDER:
        return fault;
    case TR_IO_LINK:
        return op_link(x, io, fault);
    case TR_IO_CALL:
        io->call(io->buf);
        return TARRY_OK;
    case TR_IO_SPACE:
        io->got = room_left(x);
        return fault;
    default:
        tr_check_failed("an op that port/disk.h knows", __FILE__, __LINE__);
    }
}

/* ---- execution ---- */

bool sim_exec_part(struct sim_exec *x, const struct tr_io *io)
{
    struct sim_file *f;
    uint64_t len;

    if (io->op != TR_IO_WRITE && io->op != TR_IO_ZERO) {
        return false;
    }
    f = handle_of(x, io)->file;
    len = part_of(x, io->len);
    if (io->off / SIM_SECTOR == (io->off + io->len - 1) / SIM_SECTOR) {
        return false; /* that is done or not */
    }
    if (len == 0 || lacks_room(x, sim_files_need(f, io->off + len))) {
        return false;
    }
    put(x, f, io, len);
    sim_trace_remark(&x->trace, "done in part", f->name, len);
    return true;
}

/* The op in which the machine or the process stops. */
static void die(struct sim_exec *x, const struct tr_io *io, int op)
{
    x->dead = true;
    x->files.counts.crashes++;
    x->note = "CRASH";
    if (op != TR_IO_SYNC && sim_exec_dice(x, x->faults.crash_mid_pct) && sim_exec_part(x, io)) {
        x->files.counts.crashes_in_op++;
        x->note = "CRASH within";
    }
}

static void execute_op(struct sim_exec *x, struct tr_io *io, int op, int lane)
{
    char name[TR_IO_NAME_MAX] = "";

    if (x->dead) {
        io->status = TARRY_EIO;
        return;
    }
    x->op_count++;
    x->files.counts.ops++;
    x->note = NULL;
    memcpy(name, name_of(x, io, op), strlen(name_of(x, io, op)));
    if (x->op_count == x->faults.crash_at) {
        die(x, io, op);
        io->status = TARRY_EIO;
    } else {
        io->status = do_op(x, io, op, fault_of(x, io, op));
    }
    trace_op(x, io, op, lane, name);
}

void sim_exec_run(struct sim_exec *x, struct tr_io *io, int lane)
{
    io->got = 0;
    execute_op(x, io, (int)io->op, lane);
    if (io->op == TR_IO_WRITE && (io->flags & TR_IO_THEN_SYNC) != 0 && io->status == TARRY_OK &&
        io->got == io->len) {
        execute_op(x, io, TR_IO_SYNC, lane);
    }
}
