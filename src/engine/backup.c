/*
 * A copy of the store, made while it serves: exact at the end of one batch, n.
 *
 *     the folder is made and marked as unfinished
 *     a checkpoint is begun at n:  which slots and groups there are is written down, and they stay
 *     it is durable:               ckpt.0 and ckpt.1   copies of it
 *                                  g*                  links: such files are written once
 *                                  w.*                 copies up to batch n
 *                                  man.x               names all that
 *     names are synced; the mark goes; names are synced again
 *
 * Why it is a store: at the moment at which the checkpoint begins, memory is exact at n. The groups
 * that the durable manifest names, the slots with a live record and the tail, up to n, are what a
 * start after a crash at that moment would read, but for the checkpoint; and that one is exact at
 * n. What happens afterwards cannot harm it: slots are not freed while they are held (`held`),
 * groups are not removed while they have a reader, and bytes up to n are never written again (R2).
 *
 * A promotion or merge may be under way: as long as no durable manifest names its group, all
 * records are still in slots or in the old groups; from then on both copies are there.
 *
 * A copy is opened like any store. Its manifest says that it is one (TR_MAN_COPY): then ids and
 * leases go on far behind those of the copied store, which may have gone on, too. Its uuid stays,
 * since runs and frames have it; but the two never meet.
 *
 * Killed in the middle: the store knows nothing of it. The copy has its mark, and is refused by a
 * start; made again in the same folder it begins from nothing.
 *
 * Pace: as a promotion; links cost nothing. One at a time. Every step is begun by a turn, so that
 * a store that is being closed begins none.
 */

#include "engine/backup.h"

#include "base/err.h"
#include "base/mutant.h"
#include "base/text.h"
#include "engine/inner.h"

#include <string.h>

/* ---- what it holds ---- */

static void release(struct tr_backup_file *f)
{
    if (f->slot != NULL) {
        f->slot->held = false;
    }
    if (f->group != NULL) {
        f->group->readers -= TR_MUTANT(BACKUP_UNREAD) ? 0 : 1;
    }
    f->slot = NULL;
    f->group = NULL;
}

/* Lets go of all that was written down when the checkpoint began. */
static void let_go(struct tr_engine *e)
{
    struct tr_backup_work *w = e->backup.work;

    for (uint32_t i = 0; i < w->slot_count; i++) {
        w->slots[i].slot->held = false;
    }
    for (uint32_t i = 0; i < w->group_count; i++) {
        w->groups[i]->readers -= TR_MUTANT(BACKUP_UNREAD) ? 0 : 1;
    }
    w->slot_count = 0;
    w->group_count = 0;
    e->backup.frozen = false;
}

static void free_work(struct tr_engine *e)
{
    struct tr_backup_work *w = e->backup.work;

    if (w == NULL) {
        return;
    }
    tr_mem_free(e->mem, w->path, w->path_room);
    tr_mem_free(e->mem, w->names, w->names != NULL ? TR_BACKUP_NAMES : 0);
    tr_mem_free(e->mem, w->buf, w->buf != NULL ? TR_BACKUP_CHUNK : 0);
    tr_mem_free(e->mem, w->files, w->room * sizeof *w->files);
    tr_mem_free(e->mem, w, sizeof *w);
    e->backup.work = NULL;
}

void tr_backup_fini(struct tr_engine *e)
{
    free_work(e);
}

bool tr_backup_keeps(const struct tr_engine *e)
{
    return e->backup.kept;
}

/* ---- asking ---- */

enum tr_verdict tr_backup_execute(struct tr_engine *e, struct tr_req *r)
{
    struct tr_backup *b = &e->backup;
    struct tr_backup_work *w;

    if (b->step != TR_BACKUP_IDLE) {
        return TR_STALL; /* one at a time */
    }
    if (r->name_len == 0 || memchr(r->name, 0, r->name_len) != NULL) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    w = tr_mem_alloc(e->mem, sizeof *w);
    b->work = w;
    if (w != NULL) {
        w->path_room = r->name_len + 1;
        w->path = tr_mem_alloc(e->mem, w->path_room);
        w->names = tr_mem_alloc(e->mem, TR_BACKUP_NAMES);
        w->buf = tr_mem_alloc(e->mem, TR_BACKUP_CHUNK);
    }
    if (w == NULL || w->path == NULL || w->names == NULL || w->buf == NULL) {
        free_work(e);
        return tr_engine_finish(e, r, TARRY_ENOMEM);
    }
    memcpy(w->path, r->name, r->name_len);
    *b = (struct tr_backup){
        .step = TR_BACKUP_FOLDER, .req = r, .file = -1, .made = b->made, .work = w};
    return TR_WAITS;
}

void tr_backup_abandon(struct tr_engine *e, const struct tr_req *r)
{
    if (e->backup.req == r) {
        e->backup.req = NULL; /* it goes on */
    }
}

static void answer(struct tr_engine *e, int status)
{
    struct tr_req *r = e->backup.req;

    e->backup.req = NULL;
    if (r != NULL) {
        r->out.number = e->backup.copied;
        (void)tr_engine_finish(e, r, status);
    }
}

void tr_backup_fail(struct tr_engine *e)
{
    answer(e, TARRY_EIO);
}

/* ---- the moment ---- */

/* Where the batches up to the one that was closed last end. */
static uint64_t end_of(const struct tr_engine *e, const struct tr_slot *slot)
{
    const struct tr_log *log = &e->log;

    if (TR_MUTANT(BACKUP_TO_NOW)) {
        return log->slot_bytes;
    }
    if (slot == log->tail && log->writing) {
        return log->flight_off + tr_frame_size(log->flight.len);
    }
    return slot->end_off;
}

static void hold_slots(struct tr_engine *e)
{
    struct tr_backup_work *w = e->backup.work;
    struct tr_manifest *m = &w->manifest;

    m->slot_count = 0;
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        struct tr_slot *slot = &e->log.slots[i];
        bool sealed = slot->state == TR_SLOT_SEALED;

        if (slot != e->log.tail && (!sealed || slot->live == 0)) {
            continue;
        }
        slot->held = !TR_MUTANT(BACKUP_UNHELD);
        w->slots[w->slot_count].slot = slot;
        w->slots[w->slot_count++].end_off = end_of(e, slot);
        m->slots[m->slot_count++] =
            (struct tr_manifest_slot){.number = slot->number,
                                      .seg_no = slot->seg_no,
                                      .nonce = slot->nonce,
                                      .first_batch = slot->first_batch,
                                      .last_batch = sealed ? slot->last_batch : 0};
    }
}

static void hold_groups(struct tr_engine *e)
{
    struct tr_backup_work *w = e->backup.work;
    struct tr_manifest *m = &w->manifest;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < m->group_count; i++) {
        for (uint32_t k = 0; k < TR_GROUPS_MAX; k++) {
            struct tr_group *g = e->groups.table[k];

            if (g != NULL && g->is.no == m->groups[i].no && !g->leaving) {
                g->readers += TR_MUTANT(BACKUP_UNREAD) ? 0 : 1;
                w->groups[w->group_count++] = g;
                m->groups[kept++] = m->groups[i];
            }
        }
    }
    m->group_count = kept; /* in those that leave nothing is alive */
}

void tr_backup_frozen(struct tr_engine *e, uint64_t batch)
{
    struct tr_backup *b = &e->backup;
    struct tr_manifest *m;

    if (b->step != TR_BACKUP_WAIT) {
        return;
    }
    let_go(e); /* of an earlier one, which could not be written */
    m = &b->work->manifest;
    *m = e->meta.now;
    m->flags = (m->flags & ~(uint32_t)TR_MAN_WEAK) | TR_MAN_CLEAN | TR_MAN_COPY;
    m->epoch = e->epoch;
    m->next_rid = e->state.next_rid;
    m->seg_no = e->log.seg_no;
    m->log_batch = batch;
    hold_slots(e);
    hold_groups(e);
    b->frozen = true;
    b->batch = batch;
}

/* ---- which files ---- */

static struct tr_backup_file *add(struct tr_backup_work *w)
{
    TR_CHECK(w->count < w->room);
    w->files[w->count] = (struct tr_backup_file){.file = -1};
    return &w->files[w->count++];
}

static void add_checkpoints(struct tr_engine *e)
{
    struct tr_backup_work *w = e->backup.work;
    struct tr_manifest *m = &w->manifest;
    uint32_t now = e->meta.now.ckpt_now;

    for (unsigned i = 0; i < 2 && e->backup.batch != 0; i++) {
        struct tr_backup_file *f = add(w);

        tr_text(f->name, sizeof f->name, "ckpt.%u", i);
        f->file = e->meta.ckpt_file[now];
        f->len = e->meta.now.ckpt[now].pages * TR_PAGE;
        m->ckpt[i].batch = e->backup.batch;
        m->ckpt[i].pages = e->meta.now.ckpt[now].pages;
    }
}

static void add_groups(struct tr_engine *e)
{
    struct tr_backup_work *w = e->backup.work;

    for (uint32_t i = 0; i < w->group_count; i++) {
        struct tr_group *g = w->groups[i];

        for (unsigned k = 0; k < TR_GROUP_FILES; k++) {
            struct tr_backup_file *f = g->is.bytes[k] != 0 ? add(w) : NULL;

            if (f != NULL) {
                tr_group_name(f->name, g->is.no, (enum tr_group_file)k);
                f->link = true;
                f->file = k == TR_GROUP_SIDE ? g->side_file : g->runs[k].file;
                f->len = g->is.bytes[k];
            }
        }
        w->files[w->count - 1].group = g; /* until its last file is there */
    }
    w->group_count = 0;
}

static void add_slots(struct tr_engine *e)
{
    struct tr_backup_work *w = e->backup.work;

    for (uint32_t i = 0; i < w->slot_count; i++) {
        struct tr_backup_file *f = add(w);

        tr_log_slot_name(f->name, w->slots[i].slot->number);
        f->file = w->slots[i].slot->file;
        f->len = w->slots[i].end_off;
        f->allocate = e->log.slot_bytes;
        f->slot = w->slots[i].slot;
    }
    w->slot_count = 0;
}

/* The manifest, twice, as in any file of its kind; it stands in buf when its turn comes. */
static void add_manifest(struct tr_engine *e)
{
    struct tr_backup_work *w = e->backup.work;
    struct tr_backup_file *f = add(w);

    tr_text(f->name, sizeof f->name, "man.%u", (unsigned)(w->manifest.gen & 1));
    f->len = (uint64_t)TR_MANIFEST_COPIES * TR_MANIFEST_COPY;
}

static void fail(struct tr_engine *e, int status)
{
    struct tr_backup *b = &e->backup;

    b->status = status;
    b->step = TR_BACKUP_FAILED;
    b->kept = false;
    let_go(e);
    for (size_t i = b->next; b->work->files != NULL && i < b->work->count; i++) {
        release(&b->work->files[i]);
    }
}

static void list_files(struct tr_engine *e)
{
    struct tr_backup_work *w = e->backup.work;

    w->room = 3 + (size_t)w->group_count * TR_GROUP_FILES + w->slot_count;
    w->files = tr_mem_alloc(e->mem, w->room * sizeof *w->files);
    if (w->files == NULL) {
        w->room = 0;
        fail(e, TARRY_ENOMEM);
        return;
    }
    add_checkpoints(e);
    add_groups(e);
    add_slots(e);
    add_manifest(e);
    e->backup.kept = e->backup.batch != 0;
    e->backup.step = TR_BACKUP_NEXT;
}

void tr_backup_adopted(struct tr_engine *e, uint64_t batch)
{
    struct tr_backup *b = &e->backup;

    if (b->step == TR_BACKUP_WAIT && b->frozen && b->batch == batch) {
        list_files(e);
    }
}

/* ---- steps ---- */

static void send(struct tr_engine *e, enum tr_backup_step step, struct tr_io io)
{
    struct tr_backup *b = &e->backup;

    b->step = step;
    b->busy = true;
    b->sent_us = e->now.boot_us;
    b->io = io;
    b->io.lane = TR_LANE_BACK;
    e->disk.ops->submit(e->disk.ctx, &b->io);
}

static void send_name(struct tr_engine *e, enum tr_backup_step step, enum tr_io_op op,
                      const char *name)
{
    struct tr_io io = {.op = op, .flags = TR_IO_ASIDE};

    io.flags |= op == TR_IO_OPEN ? TR_IO_CREATE : 0;
    tr_text(io.name, sizeof io.name, "%s", name);
    send(e, step, io);
}

static void send_file(struct tr_engine *e, enum tr_backup_step step, enum tr_io_op op)
{
    send(e, step, (struct tr_io){.op = op, .flags = TR_IO_ASIDE, .file = e->backup.file});
}

static void send_list(struct tr_engine *e, enum tr_backup_step step)
{
    e->backup.name_at = 0;
    send(e, step,
         (struct tr_io){.op = TR_IO_LIST,
                        .flags = TR_IO_ASIDE,
                        .buf = e->backup.work->names,
                        .len = TR_BACKUP_NAMES});
}

/* The folder has files: may they go? Only those of a copy that was not finished. */
static bool may_clear(const struct tr_backup *b)
{
    const char *names = b->work->names;

    for (uint64_t at = 0; at < b->io.got; at += strlen(names + at) + 1) {
        if (strcmp(names + at, TR_BACKUP_MARK) == 0) {
            return true;
        }
    }
    return b->io.got == 0;
}

/* Removes the next file that was listed, but for the mark. */
static void clear(struct tr_engine *e, enum tr_backup_step then)
{
    struct tr_backup *b = &e->backup;
    const char *name = b->work->names + b->name_at;

    if (b->name_at < b->names_len && strcmp(name, TR_BACKUP_MARK) == 0) {
        b->name_at += strlen(name) + 1;
        name = b->work->names + b->name_at;
    }
    if (b->name_at >= b->names_len) {
        b->step = then;
        return;
    }
    b->name_at += strlen(name) + 1;
    send_name(e, b->step, TR_IO_UNLINK, name);
}

static struct tr_backup_file *current(struct tr_backup *b)
{
    return &b->work->files[b->next];
}

static void next_file(struct tr_engine *e)
{
    struct tr_backup *b = &e->backup;
    struct tr_backup_work *w = b->work;
    struct tr_backup_file *f = current(b);

    b->off = 0;
    b->unsynced = 0;
    if (b->next == w->count) {
        b->step = TR_MUTANT(BACKUP_NAMES_UNSYNCED) ? TR_BACKUP_UNMARK : TR_BACKUP_NAMES_SYNC;
    } else if (f->link) {
        send_name(e, TR_BACKUP_LINK, TR_IO_LINK, f->name);
    } else {
        send_name(e, TR_BACKUP_OPEN, TR_IO_OPEN, f->name);
    }
}

static void read_some(struct tr_engine *e)
{
    struct tr_backup *b = &e->backup;
    struct tr_backup_file *f = current(b);
    uint64_t left = f->len - b->off;

    b->part = left < TR_BACKUP_CHUNK ? left : TR_BACKUP_CHUNK;
    b->done = 0;
    if (left == 0) {
        send_file(e, TR_BACKUP_SYNC_ALL, TR_MUTANT(BACKUP_UNSYNCED) ? TR_IO_DIRSYNC : TR_IO_SYNC);
    } else if (f->file < 0) {
        for (unsigned i = 0; i < TR_MANIFEST_COPIES; i++) {
            tr_manifest_encode(b->work->buf + (size_t)i * TR_MANIFEST_COPY, &b->work->manifest);
        }
        b->step = TR_BACKUP_WRITE;
    } else {
        send(e, TR_BACKUP_READ,
             (struct tr_io){.op = TR_IO_READ,
                            .file = f->file,
                            .off = b->off,
                            .len = b->part,
                            .buf = b->work->buf});
    }
}

static void write_some(struct tr_engine *e)
{
    struct tr_backup *b = &e->backup;

    if (b->done == b->part) {
        b->off += b->part;
        b->copied += b->part;
        b->unsynced += b->part;
        if (b->unsynced >= TR_BACKUP_SYNC) {
            b->unsynced = 0;
            send_file(e, TR_BACKUP_SYNC_SOME, TR_IO_SYNC);
        } else {
            read_some(e);
        }
        return;
    }
    b->piece = (struct tr_piece){b->work->buf + b->done, b->part - b->done};
    send(e, TR_BACKUP_WRITE,
         (struct tr_io){.op = TR_IO_WRITE,
                        .file = b->file,
                        .off = b->off + b->done,
                        .len = b->piece.len,
                        .pieces = &b->piece,
                        .piece_count = 1});
}

/* A file is complete: whatever stayed for it may go. */
static void file_made(struct tr_engine *e)
{
    struct tr_backup *b = &e->backup;

    release(current(b));
    b->next++;
    b->kept = b->batch != 0 && b->next < 2; /* both copies of the checkpoint */
    b->step = TR_BACKUP_NEXT;
}

static void finish(struct tr_engine *e)
{
    struct tr_backup *b = &e->backup;
    int status = b->status;

    free_work(e);
    b->step = TR_BACKUP_IDLE;
    b->made += status == TARRY_OK;
    answer(e, status);
}

/* What comes before the files. */
static void begin_folder(struct tr_engine *e)
{
    struct tr_backup *b = &e->backup;

    switch (b->step) {
    case TR_BACKUP_FOLDER:
        send(e, b->step, (struct tr_io){.op = TR_IO_FOLDER, .buf = b->work->path});
        break;
    case TR_BACKUP_LIST:
    case TR_BACKUP_FAILED_LIST:
        send_list(e, b->step);
        break;
    case TR_BACKUP_CLEAR:
        clear(e, TR_BACKUP_MARK_NEW);
        break;
    case TR_BACKUP_MARK_NEW:
        send_name(e, b->step, TR_IO_OPEN, TR_BACKUP_MARK);
        break;
    case TR_BACKUP_FAILED_CLEAR:
        clear(e, TR_BACKUP_FAILED_SYNC);
        break;
    case TR_BACKUP_UNMARK:
    case TR_BACKUP_FAILED_UNMARK:
        send_name(e, b->step, TR_IO_UNLINK, TR_BACKUP_MARK);
        break;
    case TR_BACKUP_LEAVE:
        send(e, b->step, (struct tr_io){.op = TR_IO_FOLDER});
        break;
    default: /* MARK_SYNC, NAMES_SYNC, UNMARK_SYNC, FAILED_SYNC */
        send_file(e, b->step, TR_IO_DIRSYNC);
    }
}

/* Begins what the step asks for; nothing is out. */
static void begin(struct tr_engine *e)
{
    struct tr_backup *b = &e->backup;

    switch (b->step) {
    case TR_BACKUP_WAIT:
        if (!b->frozen && e->log.open.no == 1 && tr_log_open_empty(&e->log)) {
            tr_backup_frozen(e, 0); /* nothing was ever written */
            list_files(e);
        } else if (!b->frozen) {
            e->meta.want_checkpoint = true;
        }
        break;
    case TR_BACKUP_NEXT:
        next_file(e);
        break;
    case TR_BACKUP_ALLOCATE:
        send(e, b->step,
             (struct tr_io){.op = TR_IO_ALLOCATE, .file = b->file, .len = current(b)->allocate});
        break;
    case TR_BACKUP_READ:
        read_some(e);
        break;
    case TR_BACKUP_WRITE:
        write_some(e);
        break;
    case TR_BACKUP_PAUSE:
        b->step = b->pause_until <= e->now.boot_us || e->space.idle ? TR_BACKUP_READ : b->step;
        break;
    case TR_BACKUP_CLOSE:
    case TR_BACKUP_MARK_CLOSE:
        send_file(e, b->step, TR_IO_CLOSE);
        break;
    case TR_BACKUP_FAILED:
        if (b->file >= 0) {
            send_file(e, b->step, TR_IO_CLOSE);
            b->file = -1;
        } else {
            b->step = TR_BACKUP_FAILED_LIST;
        }
        break;
    default:
        begin_folder(e);
    }
}

/* The mark is removed only when all else is gone for good. */
static void clean_done(struct tr_engine *e, int status)
{
    struct tr_backup *b = &e->backup;

    switch (b->step) {
    case TR_BACKUP_FAILED_LIST:
        b->names_len = b->io.got;
        b->step = status == TARRY_OK ? TR_BACKUP_FAILED_CLEAR : TR_BACKUP_LEAVE;
        break;
    case TR_BACKUP_FAILED_CLEAR:
        b->step = status == TARRY_OK ? b->step : TR_BACKUP_LEAVE;
        break;
    case TR_BACKUP_FAILED_SYNC:
        b->step = status == TARRY_OK ? TR_BACKUP_FAILED_UNMARK : TR_BACKUP_LEAVE;
        break;
    case TR_BACKUP_FAILED_UNMARK:
        b->step = TR_BACKUP_LEAVE;
        break;
    case TR_BACKUP_LEAVE:
        finish(e);
        break;
    default: /* FAILED: it is closed */
        break;
    }
}

/* A step before the files has succeeded. */
static void folder_done(struct tr_engine *e)
{
    struct tr_backup *b = &e->backup;

    switch (b->step) {
    case TR_BACKUP_FOLDER:
        b->step = TR_BACKUP_LIST;
        break;
    case TR_BACKUP_LIST:
        b->names_len = b->io.got;
        b->status = may_clear(b) ? TARRY_OK : TARRY_EEXISTS;
        b->step = may_clear(b) ? TR_BACKUP_CLEAR : TR_BACKUP_LEAVE;
        break;
    case TR_BACKUP_MARK_NEW:
        b->file = b->io.file;
        b->step = TR_BACKUP_MARK_CLOSE;
        break;
    case TR_BACKUP_MARK_CLOSE:
        b->file = -1;
        b->step = TR_MUTANT(BACKUP_MARK_UNSYNCED) ? TR_BACKUP_WAIT : TR_BACKUP_MARK_SYNC;
        break;
    case TR_BACKUP_MARK_SYNC:
        b->step = TR_BACKUP_WAIT;
        break;
    default: /* CLEAR goes on */
        break;
    }
}

/* A step of a file has succeeded. */
static void copy_done(struct tr_engine *e)
{
    struct tr_backup *b = &e->backup;
    uint64_t took = e->now.boot_us - b->sent_us;

    switch (b->step) {
    case TR_BACKUP_OPEN:
        b->file = b->io.file;
        b->step = current(b)->allocate != 0 ? TR_BACKUP_ALLOCATE : TR_BACKUP_READ;
        break;
    case TR_BACKUP_ALLOCATE:
        b->step = TR_BACKUP_READ;
        break;
    case TR_BACKUP_READ:
        b->step = TR_BACKUP_WRITE;
        break;
    case TR_BACKUP_WRITE:
        b->done += b->io.got;
        break;
    case TR_BACKUP_SYNC_SOME:
        b->pause_until = e->now.boot_us + (took < TR_BACKUP_PAUSE_US ? took : TR_BACKUP_PAUSE_US);
        b->step = TR_BACKUP_PAUSE;
        break;
    case TR_BACKUP_SYNC_ALL:
        b->step = TR_BACKUP_CLOSE;
        break;
    case TR_BACKUP_LINK:
        file_made(e);
        break;
    case TR_BACKUP_CLOSE:
        b->file = -1;
        file_made(e);
        break;
    case TR_BACKUP_NAMES_SYNC:
        b->step = TR_BACKUP_UNMARK;
        break;
    case TR_BACKUP_UNMARK:
        b->step = TR_BACKUP_UNMARK_SYNC;
        break;
    default: /* UNMARK_SYNC */
        b->step = TR_BACKUP_LEAVE;
    }
}

/* After a power cut the padding behind a slot's last batch may not be there. It is zeros. */
static bool is_whole(struct tr_backup *b, const struct tr_io *io)
{
    const struct tr_backup_file *f = current(b);
    size_t missing = io->len - io->got;

    if (f->allocate != 0 && b->off + io->len == f->len && missing < TR_BLOCK) {
        memset(b->work->buf + io->got, 0, missing);
        missing = 0;
    }
    return missing == 0;
}

void tr_backup_io_done(struct tr_engine *e, struct tr_io *io)
{
    struct tr_backup *b = &e->backup;
    int status = io->status;

    b->busy = false;
    if (e->failed) {
        return;
    }
    if (b->step >= TR_BACKUP_FAILED) {
        clean_done(e, status);
    } else if (b->step == TR_BACKUP_LINK && status == TARRY_EUNSUPPORTED) {
        current(b)->link = false; /* another file system: it is copied */
        b->step = TR_BACKUP_NEXT;
    } else if (b->step == TR_BACKUP_READ && status == TARRY_OK && !is_whole(b, io)) {
        fail(e, TARRY_EIO);
    } else if (status != TARRY_OK && (b->step <= TR_BACKUP_LIST || b->step >= TR_BACKUP_UNMARK)) {
        b->status = status; /* nothing was made, or all: nothing is to be removed */
        b->step = TR_BACKUP_LEAVE;
    } else if (status != TARRY_OK) {
        fail(e, status);
    } else if (b->step < TR_BACKUP_WAIT) {
        folder_done(e);
    } else {
        copy_done(e);
    }
}

void tr_backup_step(struct tr_engine *e)
{
    enum tr_backup_step was = TR_BACKUP_IDLE;

    while (e->backup.step != was && e->backup.step != TR_BACKUP_IDLE && !e->backup.busy &&
           tr_engine_spend(e)) {
        was = e->backup.step;
        begin(e);
    }
}

uint64_t tr_backup_next(const struct tr_engine *e)
{
    const struct tr_backup *b = &e->backup;

    if (b->step == TR_BACKUP_IDLE || b->step == TR_BACKUP_WAIT || b->busy) {
        return TR_NEVER;
    }
    return b->step == TR_BACKUP_PAUSE ? b->pause_until : e->now.boot_us;
}
