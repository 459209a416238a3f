/*
 * History and its file.
 *
 * What is noted is in memory. A moment after something happened (history_flush_us), and once it is
 * durable, it is written to the file `history`, too, and the next start reads that. It is only
 * told, never relied on: no sync, no error, and nobody waits for it. A crash of the process loses
 * what happened in that moment, a power cut what the kernel had not written yet; history_us then
 * says that some may be missing.
 *
 *     frames of 64 KiB:   [names][names][names][piece 8][piece 9][piece 6][piece 7]
 *                                               that of piece n is at n modulo the pieces that fit
 *                                               history_bytes: a newer piece takes the place of
 *                                               one that memory has given up
 *
 *     each of them:  u32 magic "thsp", or "thsn" for names   u32 crc32c of the head from here on,
 *                    uuid first   u64 epoch of the engine that wrote it   u32 events, or names
 *                    u32 number of the piece, or frame of names   u64 since when nothing is
 *                    missing, 0: not known   u32 crc32c of what follows   u32 0
 *                    for each event: its two words (see history.c), u64 each
 *                    for each name of an actor, from number 1 on: u8 length, 64 bytes
 *
 * Rules (R45):
 *     What a crash could take back is not written: history must not tell of it.
 *     A frame that grows is appended to, and its head is written last: if the process ends between
 *     the two, the old head is true for what was there. Names are written before events with them.
 *     Jobs come first. The file grows only if the disk has room for SPARE more slots, and when a
 *     slot or a checkpoint finds no room the file goes at once, and its room with it. Later it is
 *     made again, from memory.
 *
 * Pieces are written at most PACE in history_flush_us, so that a storm of events does not become
 * one of writes. If history_bytes is another one than before, or names are damaged, the file is
 * made anew.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <assert.h>
#include <string.h>

enum {
    MAGIC = 0x70736874,
    MAGIC_NAMES = 0x6e736874,
    HEAD = 40,
    EVENT = 16,
    ACTOR = 1 + TR_ACTOR_NAME_MAX,
    FRAME = 65536,
    NAMES = (FRAME - HEAD) / ACTOR, /* in a frame */
    NAME_FRAMES = (TR_ACTORS_MAX + NAMES - 1) / NAMES,
    PACE = 16,
    SPARE = 4,          /* slots that the disk must have room for */
    FULL_US = 60000000, /* a disk without room is asked again after so long */
    FILL_UNITS = 100,   /* of work, for a whole piece */
};

static const char NAME[] = "history";

static_assert(HEAD + EVENT * TR_HISTORY_PIECE <= FRAME, "a piece fits a frame");

/* The head of a frame, as it was read. */
struct head {
    bool names;
    uint64_t epoch;
    uint32_t count;
    uint32_t number;
    uint64_t since_us;
    uint32_t crc;
};

static uint32_t head_crc(const struct tr_engine *e, const uint8_t *head)
{
    return tr_crc(tr_crc(0, e->log.uuid, TR_UUID), head + 8, HEAD - 8);
}

/* How many pieces the file may have. */
static uint32_t fit_of(const struct tr_engine *e)
{
    uint64_t fit = e->histories.bytes_max / sizeof(struct tr_history_piece);

    return fit > 0 ? (uint32_t)fit : 1;
}

static uint64_t off_of(const struct tr_past_file *f, uint32_t no)
{
    return (uint64_t)FRAME * (NAME_FRAMES + no % f->fit);
}

static bool get_frame(struct tr_engine *e)
{
    struct tr_past_file *f = &e->past_file;

    if (f->frame == NULL) {
        f->frame = tr_mem_stretch(&e->histories.mem, NULL, 0, FRAME);
    }
    return f->frame != NULL;
}

static void drop_frame(struct tr_engine *e)
{
    struct tr_past_file *f = &e->past_file;

    if (f->frame != NULL) {
        tr_mem_free(&e->histories.mem, f->frame, FRAME);
        f->frame = NULL;
    }
}

void tr_past_fini(struct tr_engine *e)
{
    drop_frame(e);
    tr_histories_fini(&e->histories);
}

/* Nothing is in the file, or counts. */
static void forget(struct tr_past_file *f)
{
    f->saved_no = 0;
    f->saved_count = 0;
    f->saved_crc = 0;
    f->saved_names = 0;
    f->names_crc = 0;
    f->saved_noted = 0;
}

static void make_anew(struct tr_past_file *f)
{
    f->anew = true;
    forget(f);
}

/* ---- what is to be written ---- */

/* Bytes of the entries that are to be written. */
static size_t bytes_of(const struct tr_past_file *f)
{
    return (size_t)f->size * (f->count - f->from);
}

/* The entries from f->from on are in the frame; now its head. */
static void fill_head(struct tr_engine *e, uint32_t magic, uint32_t number)
{
    struct tr_past_file *f = &e->past_file;
    uint8_t *head = f->frame;

    f->crc = tr_crc(f->crc, head + HEAD + (size_t)f->size * f->from, bytes_of(f));
    tr_put_le(head, magic, 4);
    tr_put_le(head + 8, e->epoch, 8);
    tr_put_le(head + 16, f->count, 4);
    tr_put_le(head + 20, number, 4);
    tr_put_le(head + 24, f->ending ? e->histories.since_us : 0, 8);
    tr_put_le(head + 32, f->crc, 4);
    tr_put_le(head + 36, 0, 4);
    tr_put_le(head + 4, head_crc(e, head), 4);
    f->done = 0;
    f->writing = true;
}

/* The next names that are not in the file. */
static void fill_names(struct tr_engine *e)
{
    struct tr_past_file *f = &e->past_file;
    const struct tr_histories *h = &e->histories;
    uint32_t number = f->saved_names / NAMES;
    uint32_t left = h->actor_count - number * NAMES;

    f->names = true;
    f->from = f->saved_names % NAMES;
    f->count = left < NAMES ? left : NAMES;
    f->crc = f->from > 0 ? f->names_crc : 0;
    f->size = ACTOR;
    f->off = (uint64_t)FRAME * number;
    for (uint32_t i = f->from; i < f->count; i++) {
        const struct tr_actor *a = &h->actors[number * NAMES + i];
        uint8_t *at = f->frame + HEAD + (size_t)ACTOR * i;

        memset(at, 0, ACTOR);
        at[0] = a->len;
        memcpy(at + 1, a->name, a->len);
    }
    fill_head(e, MAGIC_NAMES, number);
}

/* How many events of a piece are to be in the file. */
static uint32_t wanted(const struct tr_past_file *f, const struct tr_history_piece *p)
{
    return p->no == f->upto_no ? f->upto_count : p->count;
}

/* The events of a piece up to the mark, of which those that the file has are left out. */
static void fill_piece(struct tr_engine *e, const struct tr_history_piece *p)
{
    struct tr_past_file *f = &e->past_file;
    bool same = p->no == f->saved_no;

    f->names = false;
    f->no = p->no;
    f->from = same ? f->saved_count : 0;
    f->count = wanted(f, p);
    f->crc = same ? f->saved_crc : 0;
    f->size = EVENT;
    f->off = off_of(f, p->no);
    for (uint32_t i = f->from; i < f->count; i++) {
        tr_put_le(f->frame + HEAD + (size_t)EVENT * i, p->events[i].what, 8);
        tr_put_le(f->frame + HEAD + (size_t)EVENT * i + 8, p->events[i].when, 8);
    }
    fill_head(e, MAGIC, p->no);
}

/* It is in the file. */
static void written(struct tr_engine *e)
{
    struct tr_past_file *f = &e->past_file;

    f->writing = false;
    if (f->names) {
        f->saved_names = (uint32_t)(f->off / FRAME) * NAMES + f->count;
        f->names_crc = f->crc;
        return;
    }
    f->saved_no = f->no;
    f->saved_count = f->count;
    f->saved_crc = f->crc;
    f->at = e->now.boot_us + e->config.history_flush_us / PACE;
}

/* The first piece up to the mark that has something which the file has not; or NULL. */
static const struct tr_history_piece *unsaved(const struct tr_engine *e)
{
    const struct tr_past_file *f = &e->past_file;
    const struct tr_history_piece *p = tr_histories_from(&e->histories, f->saved_no);

    if (p != NULL && p->no == f->saved_no && f->saved_count == wanted(f, p)) {
        p = tr_histories_from(&e->histories, p->no + 1);
    }
    return p != NULL && p->no <= f->upto_no ? p : NULL;
}

/* ---- the disk ---- */

/* The rest of the entries, or of the head, which comes last. */
static void write_next(struct tr_past_file *f, struct tr_io *io)
{
    uint64_t entries = bytes_of(f);
    uint64_t at =
        f->done < entries ? HEAD + (uint64_t)f->size * f->from + f->done : f->done - entries;
    uint64_t len = f->done < entries ? entries - f->done : HEAD - at;

    f->piece = (struct tr_piece){f->frame + at, (size_t)len};
    *io = (struct tr_io){.op = TR_IO_WRITE,
                         .file = f->file,
                         .off = f->off + at,
                         .len = len,
                         .pieces = &f->piece,
                         .piece_count = 1};
}

/* What is to be asked of the disk next. False: nothing, what was to be done is. */
static bool next_io(struct tr_engine *e, struct tr_io *io)
{
    struct tr_past_file *f = &e->past_file;

    if (f->anew && f->open) {
        *io = (struct tr_io){.op = TR_IO_CLOSE, .file = f->file};
    } else if (f->anew) {
        *io = (struct tr_io){.op = TR_IO_UNLINK};
    } else if (!f->writing || f->done == bytes_of(f) + HEAD) {
        return false;
    } else if (!f->open) {
        *io = (struct tr_io){.op = TR_IO_OPEN, .flags = TR_IO_CREATE};
    } else if (f->off + FRAME > f->extent) {
        *io = (struct tr_io){.op = TR_IO_SPACE};
    } else {
        write_next(f, io);
    }
    memcpy(io->name, NAME, sizeof NAME);
    return true;
}

/* The disk has no room for this, or not enough for jobs. */
static void give_way(struct tr_engine *e)
{
    struct tr_past_file *f = &e->past_file;

    f->full_until = e->now.boot_us + FULL_US;
    f->writing = false;
    f->marked = false;
    f->at = 0;
    drop_frame(e);
}

/* What the disk said. */
static void heard(struct tr_engine *e, const struct tr_io *io)
{
    struct tr_past_file *f = &e->past_file;
    uint64_t spare = SPARE * e->log.slot_bytes + FRAME;

    if (io->status == TARRY_ENOSPC) {
        make_anew(f);
        give_way(e);
        return;
    }
    if (io->status != TARRY_OK && io->op != TR_IO_CLOSE) {
        f->failed = true;
        f->anew = false;
        give_way(e);
        return;
    }
    switch (io->op) {
    case TR_IO_CLOSE:
        f->open = false;
        break;
    case TR_IO_UNLINK:
        f->anew = false;
        f->extent = 0;
        break;
    case TR_IO_OPEN:
        f->open = true;
        f->file = io->file;
        break;
    case TR_IO_SPACE:
        if (io->got >= spare) {
            f->extent = f->off + FRAME;
        } else {
            give_way(e);
        }
        break;
    default:
        f->done += io->got;
    }
}

/* ---- while the store is served ---- */

static void send(struct tr_engine *e)
{
    struct tr_past_file *f = &e->past_file;

    if (next_io(e, &f->io)) {
        f->io.lane = TR_LANE_BACK;
        f->busy = true;
        e->disk.ops->submit(e->disk.ctx, &f->io);
    }
}

/* What there is now is to be written, when it is durable. */
static void mark(struct tr_engine *e, const struct tr_history_piece *newest)
{
    struct tr_past_file *f = &e->past_file;

    f->marked = true;
    f->batch = e->log.open.no - tr_log_open_empty(&e->log);
    f->upto_no = newest->no;
    f->upto_count = newest->count;
    f->upto_noted = e->histories.noted;
}

/* Nothing is to be written now; `all`: as all is. */
static void rest(struct tr_engine *e, bool all)
{
    struct tr_past_file *f = &e->past_file;

    f->saved_noted = all ? f->upto_noted : f->saved_noted;
    f->marked = false;
    f->at = 0;
    drop_frame(e);
}

void tr_past_io_done(struct tr_engine *e, const struct tr_io *io)
{
    struct tr_past_file *f = &e->past_file;

    f->busy = false;
    heard(e, io);
    if (e->failed) {
        return;
    }
    send(e);
    if (!f->busy && f->writing) {
        written(e);
        if (unsaved(e) == NULL) {
            rest(e, true);
        }
    }
}

/* A disk without room for slots, checkpoints or runs has none for this. */
static void look_at_room(struct tr_engine *e)
{
    struct tr_past_file *f = &e->past_file;

    if (e->space.no_room || e->meta.grow_failed || f->unwanted) {
        f->unwanted = false;
        give_way(e);
        if (f->open || f->extent > 0) {
            make_anew(f);
        }
    }
    if (f->fit != fit_of(e)) {
        f->fit = fit_of(e);
        make_anew(f);
    }
}

void tr_past_step(struct tr_engine *e)
{
    struct tr_past_file *f = &e->past_file;
    const struct tr_history_piece *newest = tr_histories_newest(&e->histories);
    const struct tr_history_piece *p;

    if (f->busy || f->failed || e->config.salvage) {
        return;
    }
    look_at_room(e);
    if (f->anew) {
        send(e);
        return;
    }
    if (newest == NULL || f->full_until > e->now.boot_us ||
        (newest->no == f->saved_no && newest->count == f->saved_count)) {
        return;
    }
    f->at = f->at == 0 ? e->now.boot_us + e->config.history_flush_us : f->at;
    if (f->at > e->now.boot_us) {
        return;
    }
    if (!f->marked) {
        mark(e, newest);
    }
    if (e->log.durable < f->batch) {
        return;
    }
    p = unsaved(e);
    if (p == NULL || !get_frame(e)) {
        rest(e, p == NULL);
        return;
    }
    if (!tr_engine_charge(e, FILL_UNITS)) {
        return;
    }
    if (f->saved_names < e->histories.actor_count) {
        fill_names(e);
    } else {
        fill_piece(e, p);
    }
    send(e);
}

/* While the log is waited for its end is what wakes us. */
uint64_t tr_past_next(const struct tr_engine *e)
{
    const struct tr_past_file *f = &e->past_file;

    return f->busy || f->at <= e->now.boot_us ? TR_NEVER : f->at;
}

/* ---- at its end and beginning ---- */

static int run(struct tr_engine *e, struct tr_io *io)
{
    memcpy(io->name, NAME, sizeof NAME);
    return e->disk.ops->run(e->disk.ctx, io);
}

/* Does what is to be done. False: no frame was written. */
static bool run_all(struct tr_engine *e)
{
    struct tr_io io;

    while (next_io(e, &io)) {
        (void)run(e, &io);
        heard(e, &io);
    }
    if (!e->past_file.writing) {
        return false;
    }
    written(e);
    return true;
}

/* The newest piece is written in any case, as the last one: it says that nothing is missing. */
void tr_past_save(struct tr_engine *e)
{
    struct tr_past_file *f = &e->past_file;
    const struct tr_history_piece *newest = tr_histories_newest(&e->histories);
    const struct tr_history_piece *p;
    bool goes_on = true;

    f->full_until = 0;
    look_at_room(e);
    if (newest == NULL || f->failed) {
        make_anew(f);
    }
    f->failed = false;
    (void)run_all(e);
    if (newest == NULL || f->failed || f->full_until != 0 || !get_frame(e)) {
        return;
    }
    mark(e, newest);
    while (goes_on && f->saved_names < e->histories.actor_count) {
        fill_names(e);
        goes_on = run_all(e);
    }
    while (goes_on && (p = unsaved(e)) != NULL && p != newest) {
        fill_piece(e, p);
        goes_on = run_all(e);
    }
    if (goes_on) {
        f->ending = true;
        fill_piece(e, newest);
        (void)run_all(e);
    }
}

/* Reads the head of the frame at this place. False: the file ends before it. */
static bool read_head(struct tr_engine *e, uint32_t slot, struct head *h)
{
    const struct tr_past_file *f = &e->past_file;
    const uint8_t *at = f->frame;
    struct tr_io io = {.op = TR_IO_READ,
                       .file = f->file,
                       .off = (uint64_t)slot * FRAME,
                       .len = HEAD,
                       .buf = f->frame};
    uint32_t most;

    *h = (struct head){0};
    if (run(e, &io) != TARRY_OK || io.got < HEAD) {
        return false;
    }
    h->names = slot < NAME_FRAMES;
    most = h->names ? NAMES : TR_HISTORY_PIECE;
    if (tr_get_le(at, 4) == (h->names ? MAGIC_NAMES : MAGIC) &&
        tr_get_le(at + 4, 4) == head_crc(e, at) && tr_get_le(at + 16, 4) <= most) {
        h->epoch = tr_get_le(at + 8, 8);
        h->count = (uint32_t)tr_get_le(at + 16, 4);
        h->number = (uint32_t)tr_get_le(at + 20, 4);
        h->since_us = tr_get_le(at + 24, 8);
        h->crc = (uint32_t)tr_get_le(at + 32, 4);
    }
    return true;
}

/* Its entries, too. False: they are damaged, or there are none. */
static bool read_entries(struct tr_engine *e, uint32_t slot, const struct head *h)
{
    uint8_t *at = e->past_file.frame + HEAD;
    struct tr_io io = {.op = TR_IO_READ,
                       .file = e->past_file.file,
                       .off = (uint64_t)slot * FRAME + HEAD,
                       .len = (uint64_t)h->count * (h->names ? ACTOR : EVENT),
                       .buf = at};

    return h->count != 0 && run(e, &io) == TARRY_OK && io.got == io.len &&
           tr_crc(0, at, (size_t)io.len) == h->crc;
}

/* Those that are known from the first one on. */
static void load_names(struct tr_engine *e)
{
    struct tr_past_file *f = &e->past_file;
    struct tr_histories *all = &e->histories;
    struct head h;

    for (uint32_t slot = 0; slot < NAME_FRAMES && read_head(e, slot, &h) && h.number == slot &&
                            read_entries(e, slot, &h);
         slot++) {
        for (uint32_t i = 0; i < h.count; i++) {
            const uint8_t *at = f->frame + HEAD + (size_t)ACTOR * i;

            if (at[0] == 0 || at[0] > TR_ACTOR_NAME_MAX ||
                tr_histories_actor(all, (const char *)at + 1, at[0]) != slot * NAMES + i + 1) {
                return;
            }
        }
        f->saved_names = all->actor_count;
        f->names_crc = h.crc;
    }
}

/* How many frames there are, and which one has the oldest piece. */
static uint32_t survey(struct tr_engine *e, uint32_t *first)
{
    uint32_t least = UINT32_MAX;
    uint32_t slot = 0;
    struct head h;

    *first = NAME_FRAMES;
    for (; read_head(e, slot, &h); slot++) {
        if (!h.names && h.count != 0 && h.number < least) {
            least = h.number;
            *first = slot;
        }
    }
    return slot;
}

/* Gives since when nothing is missing, if the last one to close the store said so; else 0. */
static uint64_t load_frames(struct tr_engine *e)
{
    struct tr_past_file *f = &e->past_file;
    uint32_t first;
    uint32_t slots = survey(e, &first);
    uint32_t ring = slots > NAME_FRAMES ? slots - NAME_FRAMES : 0;
    uint64_t since_us = 0;
    bool any = false;
    struct head h;

    load_names(e);
    f->extent = (uint64_t)slots * FRAME;
    for (uint32_t i = 0; i < ring; i++) {
        uint32_t slot = NAME_FRAMES + (first - NAME_FRAMES + i) % ring;

        if (!read_head(e, slot, &h) || !read_entries(e, slot, &h) ||
            (any && h.number <= f->saved_no)) {
            continue;
        }
        any = true;
        f->saved_no = h.number;
        f->saved_count = h.count;
        f->saved_crc = h.crc;
        f->anew |= off_of(f, h.number) != (uint64_t)slot * FRAME;
        since_us = h.epoch + !e->config.read_only == e->epoch ? h.since_us : 0;
        f->anew |= !tr_histories_read(&e->histories, h.number, f->frame + HEAD, h.count);
    }
    return since_us;
}

void tr_past_load(struct tr_engine *e, bool clean)
{
    struct tr_past_file *f = &e->past_file;
    struct tr_io file = {.op = TR_IO_OPEN};
    uint64_t since_us = e->histories.since_us;

    f->fit = fit_of(e);
    if ((clean || !TR_MUTANT(HISTORY_NOT_READ)) && get_frame(e) && run(e, &file) == TARRY_OK) {
        struct tr_io end = {.op = TR_IO_CLOSE, .file = file.file};
        uint64_t whole_us;

        f->file = file.file;
        e->histories.since_us = 0; /* what is dropped to make room counts up from here */
        whole_us = load_frames(e);
        since_us = clean && whole_us != 0 ? whole_us : since_us;
        (void)run(e, &end);
        if (f->anew || tr_histories_newest(&e->histories) == NULL) {
            make_anew(f);
        }
    }
    if (e->histories.since_us < since_us) {
        e->histories.since_us = since_us;
    }
    f->saved_noted = e->histories.noted;
    drop_frame(e);
}
