/*
 * Writing the log.
 *
 *     slot:  | header | frame | frame, 3 blocks  | frame | SEAL |  free ...
 *            ^ 4 KiB  ^ each begins and ends on a 4 KiB block
 *
 * Group commit without a timer: records gather in the open batch while the one before is on its
 * way; when that is durable, the open one is closed and sent. At low load a batch is one record,
 * under load it grows by itself.
 *
 * Rules kept here (doc/engine.md has them all):
 *   R1  `durable` moves only when the sync of the batch has returned 0.
 *   R2  a frame begins on a fresh block: acknowledged bytes are never written again.
 *   R3  one batch is in flight; a sync counts only for what was written when it began.
 *   R4  each frame names segment, nonce and batch, and the crc of the frame before it.
 *   R5  after a pause a SEAL behind the last frame says that all before it was durable, so that a
 *       last frame that rots later is not taken for one that was never finished.
 *   R8  a failed write or sync is final; a second sync that succeeds would prove nothing.
 *
 * Kills wait in a list of their own and are put behind the other records when the batch is closed,
 * as one KILLSET per reason in a row. That is right because a kill is the last word on its rid.
 *
 * Not done here: which slots are free (space.c), what records mean (state.c).
 */

#include "engine/log.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/mutant.h"
#include "base/text.h"

#include <string.h>

enum { KILLSET_HEAD = 64, IO_WRITE = 1, IO_SYNC, IO_SEAL };

static int grow(struct tr_mem *mem, void **array, size_t *room, size_t want, size_t size)
{
    size_t next = *room == 0 ? 64 : *room;
    void *p;

    while (next < want) {
        next *= 2;
    }
    if (next == *room) {
        return TARRY_OK;
    }
    p = tr_mem_stretch(mem, *array, *room * size, next * size);
    if (p == NULL) {
        return TARRY_ENOMEM;
    }
    *array = p;
    *room = next;
    return TARRY_OK;
}

static int batch_init(struct tr_log *log, struct tr_batch *b)
{
    *b = (struct tr_batch){0};
    b->buf = tr_mem_alloc(log->mem, log->batch_room);
    if (b->buf == NULL ||
        grow(log->mem, (void **)&b->placed, &b->placed_room, 1, sizeof *b->placed) != TARRY_OK ||
        grow(log->mem, (void **)&b->kills, &b->kill_room, 1, sizeof *b->kills) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    return TARRY_OK;
}

static void batch_fini(struct tr_log *log, struct tr_batch *b)
{
    tr_mem_free(log->mem, b->buf, log->batch_room);
    tr_mem_free(log->mem, b->placed, b->placed_room * sizeof *b->placed);
    tr_mem_free(log->mem, b->kills, b->kill_room * sizeof *b->kills);
    *b = (struct tr_batch){0};
}

int tr_log_init(struct tr_log *log, const struct tr_engine_config *config, struct tr_disk disk,
                uint64_t slot_bytes, uint64_t seed)
{
    uint64_t longest = slot_bytes - 8 * (uint64_t)TR_BLOCK - 4 * (uint64_t)TR_RECORD_HEAD_MAX;
    size_t payload = config->batch_bytes;

    *log = (struct tr_log){
        .mem = config->mem, .disk = disk, .config = config, .slot_bytes = slot_bytes};
    log->rng.state = seed;
    /* Not config->body_max: jobs of an earlier start may be longer, and are written again too. */
    longest = longest < TR_BODY_MAX ? longest : TR_BODY_MAX;
    if (payload < longest + 4 * (size_t)TR_RECORD_HEAD_MAX) {
        payload = (size_t)longest + 4 * (size_t)TR_RECORD_HEAD_MAX;
    }
    log->batch_room = tr_frame_size(payload) + 2 * (size_t)TR_BLOCK;
    TR_CHECK(log->batch_room + TR_BLOCK <= slot_bytes);
    log->slots_max = config->slots_max;
    log->slots = tr_mem_alloc(log->mem, log->slots_max * sizeof *log->slots);
    for (uint32_t i = 0; log->slots != NULL && i < log->slots_max; i++) {
        log->slots[i].number = i;
        log->slots[i].file = -1;
        tr_list_init(&log->slots[i].jobs);
    }
    if (log->slots == NULL || batch_init(log, &log->open) != TARRY_OK ||
        batch_init(log, &log->flight) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    log->open.no = 1;
    return TARRY_OK;
}

void tr_log_fini(struct tr_log *log)
{
    if (log->mem == NULL) {
        return;
    }
    batch_fini(log, &log->open);
    batch_fini(log, &log->flight);
    tr_mem_free(log->mem, log->slots, log->slots_max * sizeof *log->slots);
    *log = (struct tr_log){0};
}

void tr_log_slot_name(char name[TR_IO_NAME_MAX], uint32_t number)
{
    tr_text(name, TR_IO_NAME_MAX, "w.%03u", number);
}

void tr_log_set_state(struct tr_log *log, struct tr_slot *slot, enum tr_slot_state state)
{
    log->free_count -= slot->state == TR_SLOT_FREE;
    slot->state = state;
    log->free_count += state == TR_SLOT_FREE;
    if (state == TR_SLOT_FREE) {
        TR_CHECK(slot->live == 0);
        slot->seg_no = 0;
        slot->emptied_by = 0;
        slot->last_batch = 0;
    }
}

/* Bytes that the open batch would have as a frame's payload, with its kills. */
static size_t open_len(const struct tr_log *log)
{
    return log->open.len + log->open.kill_count * (TR_KILL_MAX + KILLSET_HEAD);
}

bool tr_log_fits_tail(const struct tr_log *log, size_t bytes)
{
    uint64_t tail_end = log->tail != NULL ? log->tail->end_off : log->slot_bytes;

    if (log->writing) { /* the tail's end moves by what is in flight */
        tail_end += tr_frame_size(log->flight.len);
    }
    return tail_end + tr_frame_size(open_len(log) + bytes) <= log->slot_bytes;
}

int tr_log_reserve(struct tr_log *log, size_t bytes, size_t records)
{
    struct tr_batch *b = &log->open;
    size_t want = bytes + records * (TR_KILL_MAX + KILLSET_HEAD);

    TR_CHECK(TR_FRAME_HEAD + want + TR_BLOCK <= log->batch_room);
    if (log->failed || log->config->read_only) {
        return log->failed ? TARRY_EIO : TARRY_EFULL; /* who only looks writes nothing, ever */
    }
    if (!tr_log_open_empty(log) && open_len(log) + want > log->config->batch_bytes) {
        log->pressed = true;
        return TARRY_EFULL;
    }
    if (log->free_count == 0 && !tr_log_fits_tail(log, want)) {
        return TARRY_EFULL;
    }
    if (grow(log->mem, (void **)&b->placed, &b->placed_room, b->placed_count + records,
             sizeof *b->placed) != TARRY_OK ||
        grow(log->mem, (void **)&b->kills, &b->kill_room, b->kill_count + records,
             sizeof *b->kills) != TARRY_OK) {
        log->pressed = true; /* no memory for a larger batch: the next one begins sooner */
        return TARRY_EFULL;
    }
    return TARRY_OK;
}

static void batch_begin(struct tr_log *log, struct tr_base base, bool gated)
{
    struct tr_batch *b = &log->open;

    if (tr_log_open_empty(log)) {
        b->base = base;
    }
    if (gated) {
        b->gated = true;
        log->gated = b->no;
    }
}

static void add_bytes(struct tr_log *log, const struct tr_record *rec)
{
    struct tr_batch *b = &log->open;
    uint8_t *at = b->buf + TR_FRAME_HEAD + b->len;
    size_t len = tr_record_encode(at, rec, b->base);

    if (rec->body.len != 0) {
        memcpy(at + len, rec->body.at, rec->body.len);
        len += rec->body.len;
    }
    b->crc = tr_crc(b->crc, at, len);
    b->len += len;
    b->records++;
    TR_CHECK(TR_FRAME_HEAD + b->len <= log->batch_room);
}

void tr_log_append(struct tr_log *log, const struct tr_record *rec, struct tr_base base, bool gated)
{
    struct tr_batch *b = &log->open;
    size_t off = b->len;

    batch_begin(log, base, gated);
    add_bytes(log, rec);
    log->records++;
    b->changes++;
    if (rec->type == TR_REC_PUSH || rec->type == TR_REC_MOVE || rec->type == TR_REC_RELOG) {
        TR_CHECK(b->placed_count < b->placed_room);
        b->placed[b->placed_count++] = (struct tr_placed){
            .rid = rec->rid, .off = (uint32_t)off, .len = (uint32_t)(b->len - off)};
    }
}

void tr_log_kill(struct tr_log *log, struct tr_kill kill, uint8_t reason, struct tr_base base,
                 bool gated)
{
    struct tr_batch *b = &log->open;

    batch_begin(log, base, gated);
    TR_CHECK(b->kill_count < b->kill_room);
    b->kills[b->kill_count++] = (struct tr_killed){.kill = kill, .reason = reason};
    log->records++;
    b->changes++;
}

bool tr_log_open_empty(const struct tr_log *log)
{
    return log->open.records == 0 && log->open.kill_count == 0;
}

/* Puts the waiting kills into the payload: one KILLSET for each run of one reason. */
static void write_kills(struct tr_log *log)
{
    struct tr_batch *b = &log->open;
    struct tr_kill list[64];

    for (size_t i = 0; i < b->kill_count;) {
        struct tr_record rec = {
            .type = TR_REC_KILLSET, .reason = b->kills[i].reason, .kill_list = list};

        while (i < b->kill_count && b->kills[i].reason == rec.reason && rec.kill_count < 64) {
            list[rec.kill_count++] = b->kills[i++].kill;
        }
        add_bytes(log, &rec);
    }
    b->kill_count = 0;
}

/* The first free slot whose blocks were written before, or any. */
static struct tr_slot *next_slot(const struct tr_log *log)
{
    struct tr_slot *raw = NULL;

    for (uint32_t i = 0; i < log->slots_max; i++) {
        struct tr_slot *slot = &log->slots[i];

        if (slot->state != TR_SLOT_FREE || slot->filling) {
            continue;
        }
        if (!slot->raw) {
            return slot;
        }
        raw = raw == NULL ? slot : raw;
    }
    return raw;
}

/* Takes a free slot as the new tail. */
static bool roll(struct tr_log *log)
{
    struct tr_slot *slot = next_slot(log);

    if (slot == NULL) {
        return false;
    }
    if (log->tail != NULL) {
        tr_log_set_state(log, log->tail, TR_SLOT_SEALED);
    }
    tr_log_set_state(log, slot, TR_SLOT_TAIL);
    log->tail = slot;
    slot->seg_no = ++log->seg_no;
    slot->nonce = tr_rng_next(&log->rng);
    slot->first_batch = log->open.no;
    slot->last_rid = 0;
    slot->stuck = false;
    slot->end_off = TR_BLOCK;
    slot->raw = false;
    log->prev_crc = 0;

    struct tr_segment seg = {.seg_no = slot->seg_no,
                             .nonce = slot->nonce,
                             .first_batch = slot->first_batch,
                             .created_us = log->open.base.clock_us};

    memcpy(seg.uuid, log->uuid, TR_UUID);
    tr_segment_encode(log->head, &seg);
    return true;
}

static void io_send(struct tr_log *log, struct tr_io *io, struct tr_slot *slot, int tag)
{
    io->lane = TR_LANE_LOG;
    io->file = slot->file;
    io->owner = log;
    io->tag = tag;
    if (log->blocking) {
        (void)log->disk.ops->run(log->disk.ctx, io);
    } else {
        log->disk.ops->submit(log->disk.ctx, io);
    }
}

/* Sends what is left of the batch in flight. */
static void write_rest(struct tr_log *log)
{
    uint64_t skip = log->io_done_bytes;
    uint64_t off = log->rolled ? 0 : log->tail->end_off;
    size_t size = tr_frame_size(log->flight.len);
    struct tr_piece all[2] = {{log->head, TR_BLOCK}, {log->flight.buf, size}};
    unsigned count = 0;

    log->io = (struct tr_io){.op = TR_IO_WRITE, .off = off + skip, .pieces = log->pieces};
    for (unsigned i = log->rolled ? 0 : 1; i < 2; i++) {
        if (skip >= all[i].len) {
            skip -= all[i].len;
            continue;
        }
        log->pieces[count].at = (const uint8_t *)all[i].at + skip;
        log->pieces[count].len = all[i].len - skip;
        log->io.len += log->pieces[count++].len;
        skip = 0;
    }
    log->io.piece_count = count;
    if (log->config->sync == TR_SYNC_ALWAYS &&
        !(TR_MUTANT(ACK_BEFORE_SYNC) && log->flight.no % 2 == 0)) {
        log->io.flags = TR_IO_THEN_SYNC;
    }
    io_send(log, &log->io, log->tail, IO_WRITE);
}

static void frame_head(struct tr_log *log)
{
    struct tr_batch *b = &log->open;
    struct tr_frame f = {.seg_no = log->tail->seg_no,
                         .nonce = log->tail->nonce,
                         .batch_no = b->no,
                         .synced_batch = log->synced,
                         .man_gen = log->man_gen,
                         .clock_us = b->base.clock_us,
                         .first_rid = b->base.rid,
                         .record_count = b->records,
                         .payload_len = (uint32_t)b->len,
                         .payload_crc = b->crc,
                         .prev_crc = log->prev_crc};
    size_t size = tr_frame_size(b->len);

    log->prev_crc = tr_frame_encode(b->buf, &f, tr_frame_place(log->uuid, log->tail->end_off));
    memset(b->buf + TR_FRAME_HEAD + b->len, 0, size - TR_FRAME_HEAD - b->len);
}

bool tr_log_start(struct tr_log *log)
{
    struct tr_batch was = log->flight;

    if (log->failed || log->writing || log->sealing) {
        return false;
    }
    write_kills(log);
    log->rolled = false;
    if (log->tail == NULL || log->tail->end_off + tr_frame_size(log->open.len) > log->slot_bytes) {
        if (!roll(log)) {
            return false;
        }
        log->rolled = true;
    }
    frame_head(log);
    log->flight_off = log->tail->end_off;
    log->flight = log->open;
    log->open = was;
    log->open.no = log->flight.no + 1;
    log->open.len = 0;
    log->open.records = 0;
    log->open.changes = 0;
    log->open.crc = 0;
    log->open.gated = false;
    log->open.placed_count = 0;
    log->writing = true;
    log->pressed = false;
    log->sealed = false;
    log->io_done_bytes = 0;
    if (log->config->closed != NULL) {
        log->config->closed(log->config->ctx, log->flight.no);
    }
    write_rest(log);
    return true;
}

/* The unsynced slot with the oldest segment; *more: there are others. */
static struct tr_slot *oldest_unsynced(struct tr_log *log, bool *more)
{
    struct tr_slot *oldest = NULL;

    *more = false;
    for (uint32_t i = 0; i < log->slots_max; i++) {
        struct tr_slot *slot = &log->slots[i];

        if (!slot->unsynced) {
            continue;
        }
        *more = oldest != NULL;
        if (oldest == NULL || slot->seg_no < oldest->seg_no) {
            oldest = slot;
        }
    }
    return oldest;
}

/* Slot after slot, the newest last: what is written when that one's turn comes will be durable. */
void tr_log_sync(struct tr_log *log)
{
    bool more;
    struct tr_slot *slot = oldest_unsynced(log, &more);

    if (log->failed || log->syncing || slot == NULL) {
        return;
    }
    log->sync_batch = more ? 0 : log->durable;
    log->syncing = true;
    slot->unsynced = false;
    log->sync_io = (struct tr_io){.op = TR_IO_SYNC};
    io_send(log, &log->sync_io, slot, IO_SYNC);
}

bool tr_log_seal(struct tr_log *log)
{
    struct tr_frame f;

    if (log->failed || log->writing || log->sealing || log->sealed || log->tail == NULL ||
        log->synced + 1 != log->open.no || TR_MUTANT(NO_SEAL)) {
        return true;
    }
    if (log->tail->end_off + TR_BLOCK > log->slot_bytes) {
        return false;
    }
    f = (struct tr_frame){.seg_no = log->tail->seg_no,
                          .nonce = log->tail->nonce,
                          .batch_no = log->open.no,
                          .synced_batch = log->synced,
                          .man_gen = log->man_gen,
                          .prev_crc = log->prev_crc,
                          .flags = TR_FRAME_SEAL};
    memset(log->head, 0, TR_BLOCK);
    (void)tr_frame_encode(log->head, &f, tr_frame_place(log->uuid, log->tail->end_off));
    log->pieces[0] = (struct tr_piece){log->head, TR_BLOCK};
    log->io = (struct tr_io){.op = TR_IO_WRITE,
                             .off = log->tail->end_off,
                             .len = TR_BLOCK,
                             .pieces = log->pieces,
                             .piece_count = 1};
    log->sealing = true;
    io_send(log, &log->io, log->tail, IO_SEAL);
    return true;
}

bool tr_log_busy(const struct tr_log *log)
{
    return log->writing || log->sealing || log->syncing;
}

static enum tr_log_event written(struct tr_log *log)
{
    struct tr_batch *b = &log->flight;
    uint64_t size =
        TR_MUTANT(SHARED_SECTOR) ? (TR_FRAME_HEAD + b->len + 63) / 64 * 64 : tr_frame_size(b->len);

    log->tail->end_off += size;
    log->tail->last_batch = b->no;
    log->writing = false;
    log->durable = b->no;
    if (log->config->sync == TR_SYNC_ALWAYS) {
        log->synced = b->no;
    } else {
        log->tail->unsynced = true;
    }
    return TR_LOG_WRITTEN;
}

static enum tr_log_event sync_done(struct tr_log *log)
{
    log->syncing = false;
    if (log->sync_batch == 0) {
        tr_log_sync(log);
        return TR_LOG_NOTHING;
    }
    log->synced = TR_MUTANT(SYNC_CLAIMS_LATER) ? log->durable : log->sync_batch;
    return TR_LOG_SYNCED;
}

enum tr_log_event tr_log_io_done(struct tr_log *log, struct tr_io *io)
{
    bool ok = io->status == TARRY_OK || (TR_MUTANT(RETRY_SYNC) && io->tag != IO_SEAL);

    if (TR_MUTANT(RETRY_SYNC) && io->status != TARRY_OK && io->tag == IO_WRITE) {
        io->got = io->len; /* the second sync has nothing left to do, and succeeds */
    }
    if (io->tag == IO_SEAL) {
        log->sealing = false;
        log->sealed = ok;
        ok = ok || io->status == TARRY_ENOSPC;
    }
    if (!ok) {
        log->failed = true;
        log->writing = false;
        log->syncing = false;
        return TR_LOG_FAILED;
    }
    if (io->tag == IO_SYNC) {
        return sync_done(log);
    }
    if (io->tag == IO_SEAL) {
        return TR_LOG_NOTHING;
    }
    log->io_done_bytes += io->got;
    if (io->got < io->len) {
        write_rest(log);
        return TR_LOG_NOTHING;
    }
    return written(log);
}

int tr_log_finish(struct tr_log *log)
{
    TR_CHECK(!tr_log_busy(log));
    log->blocking = true;
    if (!log->failed && !tr_log_open_empty(log) && !tr_log_start(log)) {
        return TARRY_ENOSPC;
    }
    while (log->writing) {
        (void)tr_log_io_done(log, &log->io);
    }
    while (!log->failed && log->synced < log->durable) {
        tr_log_sync(log);
        (void)tr_log_io_done(log, &log->sync_io);
    }
    return log->failed ? TARRY_EIO : TARRY_OK;
}

uint64_t tr_log_gate(const struct tr_log *log)
{
    bool weak = log->config->sync != TR_SYNC_ALWAYS;

    return weak || log->gated <= log->durable ? 0 : log->gated;
}
