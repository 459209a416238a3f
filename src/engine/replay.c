/*
 * Walking the log.
 *
 *     segments:  [manifest's, sealed] ... [manifest's newest] [found: +1] [found: +2] ...
 *                      gaps are slots that were freed          ^ opened since that manifest
 *
 * Batches up to the checkpoint only give places to the jobs it calls alive; later ones are applied
 * in full, once (R25). Every batch after the checkpoint must be there: a hole is damage.
 *
 * Where does the log end? (R20) At the first batch b that is not good, if nobody claims it was
 * durable. Frames say in `synced_batch` what was durable when they were written; the manifest says
 * it too. If any good frame of this segment or a later one, or the manifest, says b was durable,
 * then acknowledged data is damaged: refuse, never skip (R13). Else b was being written when the
 * power went, and so was whatever comes after it: that is overwritten with zeros, durably, before
 * anything new is written, so that it can never come back.
 */

#include "engine/replay.h"

#include "base/err.h"
#include "base/mutant.h"
#include "engine/salvage.h"

#include <inttypes.h>
#include <string.h>

static int run(struct tr_engine *e, struct tr_io *io)
{
    return e->disk.ops->run(e->disk.ctx, io);
}

/* first: nobody has been told yet of what cannot be read. */
static int read_slot(struct tr_replay *p, const struct tr_slot *slot, bool first)
{
    struct tr_io io = {.op = TR_MUTANT(CACHED_RECOVERY) || TR_MUTANT(UNSYNCED_RECOVERY)
                                 ? TR_IO_READ
                                 : TR_IO_READ_DIRECT,
                       .file = slot->file,
                       .len = p->e->log.slot_bytes,
                       .buf = p->bytes};
    int err = p->salvage == NULL ? run(p->e, &io) : TARRY_OK;

    if (p->salvage != NULL) {
        if (!tr_salvage_read(p->e, slot->file, 0, p->bytes, io.len) && first) {
            tr_salvage_unread(p->e, slot);
        }
        return TARRY_OK;
    }
    if (err != TARRY_OK) {
        tr_engine_note(p->e, TR_NOTE_DAMAGE, "Slot w.%03u cannot be read.", slot->number);
        return err;
    }
    memset(p->bytes + io.got, 0, io.len - io.got); /* a slot whose making was cut short */
    return TARRY_OK;
}

int tr_replay_scan(struct tr_replay *p)
{
    struct tr_log *log = &p->e->log;

    p->blank = true;
    for (uint32_t i = 0; i < log->slots_max; i++) {
        int err;

        if (log->slots[i].file < 0) {
            continue;
        }
        err = read_slot(p, &log->slots[i], true);
        if (err != TARRY_OK) {
            return err;
        }
        tr_scan_slot(p->bytes, log->slot_bytes, log->uuid, &p->scans[i]);
        p->blank = p->blank && tr_scan_blank(p->bytes, log->slot_bytes);
        if (p->scans[i].newer) {
            tr_engine_note(p->e, TR_NOTE_FATAL,
                           "Slot w.%03u was written by a newer version of tarry.", i);
            return TARRY_EVERSION;
        }
    }
    return TARRY_OK;
}

/* ---- records ---- */

/* Salvage: the first of two walks. */
static bool collecting(const struct tr_replay *p)
{
    return p->salvage != NULL && p->salvage->collecting;
}

static int load_changes(struct tr_replay *p)
{
    if (p->changes_loaded) {
        return TARRY_OK;
    }
    p->changes_loaded = true;
    if (p->salvage != NULL) {
        return tr_checkpoint_salvage_changes(p->pages, p->page_count, p->checkpoint, &p->e->state);
    }
    return tr_checkpoint_load_changes(p->pages, p->page_count, &p->e->state);
}

static int apply_kills(struct tr_replay *p, const struct tr_record *rec, struct tr_base base,
                       uint64_t batch)
{
    struct tr_kill_walk walk = {0};
    struct tr_kill kill;

    while (tr_record_next_kill(rec, base, &walk, &kill)) {
        if (!tr_state_kill(&p->e->state, &kill, batch)) {
            return TARRY_EDAMAGED;
        }
    }
    return TARRY_OK;
}

static int apply(struct tr_replay *p, const struct tr_record *rec, struct tr_base base,
                 uint64_t batch, struct tr_job **job)
{
    struct tr_state *s = &p->e->state;

    *job = NULL;
    if (batch <= p->checkpoint && !(TR_MUTANT(APPLIED_TWICE) && batch == p->checkpoint)) {
        return tr_state_meet(s, rec, job);
    }
    if (rec->type == TR_REC_KILLSET) {
        return apply_kills(p, rec, base, batch);
    }
    return tr_state_apply(s, rec, batch, job);
}

/* It is far; or there are so many that due ones are parked. */
static bool goes(const struct tr_engine *e, const struct tr_job *job)
{
    if (tr_load_far(e, job)) {
        return true;
    }
    if (e->state.jobs.count <= e->config.near_max || !tr_load_may_go(job)) {
        return false;
    }
    tr_park_met(job);
    return true;
}

/* When jobs were made; see history.c. */
static void note_made(struct tr_replay *p, const struct tr_record *rec)
{
    if (rec->type == TR_REC_PUSH) {
        tr_histories_made(&p->e->histories, rec->rid, rec->created_us);
    }
    if (rec->type == TR_REC_PUSH || rec->type == TR_REC_MOVE) {
        p->next_made = rec->rid + 1;
    }
}

/* All records of one good frame that stands at `off` of slot. */
static int apply_frame(struct tr_replay *p, struct tr_slot *slot, const struct tr_frame *f,
                       uint64_t off)
{
    struct tr_base base = {.rid = f->first_rid, .clock_us = f->clock_us};
    size_t at = 0;
    int err = f->batch_no > p->checkpoint && !collecting(p) ? load_changes(p) : TARRY_OK;

    if (p->salvage != NULL) {
        return err == TARRY_OK ? tr_salvage_frame(p, slot, f, false) : err;
    }
    if (f->first_rid > p->next_made) {
        tr_histories_made(&p->e->histories, p->next_made, 0); /* those between are elsewhere */
    }
    for (uint32_t i = 0; i < f->record_count && err == TARRY_OK; i++) {
        const uint8_t *bytes = p->bytes + off + TR_FRAME_HEAD;
        struct tr_record rec;
        struct tr_job *job = NULL;
        size_t used = 0;

        err = tr_record_decode(bytes + at, f->payload_len - at, base, &rec, &used);
        if (err == TARRY_OK) {
            note_made(p, &rec);
        }
        if (err == TARRY_OK) {
            err = apply(p, &rec, base, f->batch_no, &job);
        }
        if (err == TARRY_OK && job != NULL && job->rid > slot->last_rid) {
            slot->last_rid = job->rid;
        }
        if (err == TARRY_OK && job != NULL && job->slot == NULL) {
            tr_job_place(job, slot, off + TR_FRAME_HEAD + at, (uint32_t)used);
        }
        if (err == TARRY_OK && job != NULL && goes(p->e, job)) {
            err = tr_state_send_far(&p->e->state, job);
        }
        at += used;
        p->e->replayed++;
    }
    if (err == TARRY_OK && at != f->payload_len) {
        err = TARRY_EDAMAGED;
    }
    if (err != TARRY_OK && err != TARRY_ENOMEM) {
        tr_engine_note(p->e, TR_NOTE_DAMAGE,
                       "Slot w.%03u, offset %" PRIu64 ": batch %" PRIu64
                       " has a record that cannot be used (%s).",
                       slot->number, off + at, f->batch_no, tarry_strerror(err));
    }
    return err;
}

/* A far job must change, so it must be in memory: its record is read once more. */
static int recall(void *ctx, uint64_t rid)
{
    struct tr_replay *p = ctx;
    struct tr_engine *e = p->e;
    const struct tr_far_entry *found = tr_far_find(&e->state.jobs.far, rid);
    int err = found == NULL ? tr_fetch_locate_now(e, rid) : TARRY_OK;

    if (err != TARRY_OK) {
        return err;
    }

    struct tr_far_entry entry = *tr_far_find(&e->state.jobs.far, rid);
    uint8_t *buf = tr_mem_alloc(e->mem, entry.len);
    struct tr_io io = {.op = TR_IO_READ_DIRECT,
                       .file = tr_state_slot(&e->state, entry.slot)->file,
                       .off = entry.off,
                       .len = entry.len,
                       .buf = buf};
    struct tr_record rec;
    struct tr_job *job;

    err = buf != NULL ? run(e, &io) : TARRY_ENOMEM;

    if (err == TARRY_OK) {
        err = io.got == entry.len ? tr_fetch_decode(e, rid, buf, &rec) : TARRY_EDAMAGED;
    }
    if (err == TARRY_OK) {
        err = tr_state_bring_back(&e->state, rid, &rec, &job);
    }
    if (err == TARRY_EDAMAGED || err == TARRY_EIO) {
        struct tr_read read = {.slot = tr_state_slot(&e->state, entry.slot),
                               .rid = rid,
                               .off = entry.off,
                               .len = entry.len};

        tr_read_report(e, tr_far_id(&e->state.jobs.far, rid), entry.topic, entry.due_us, &read);
    }
    tr_mem_free(e->mem, buf, entry.len);
    return err;
}

static int has(void *ctx, uint64_t rid, bool *found)
{
    const struct tr_replay *p = ctx;

    *found = false;
    return TR_MUTANT(SLOT_BEFORE_RUN) ? TARRY_OK : tr_regroup_has(p->e, rid, found);
}

/* ---- segments ---- */

/* The next one that any slot holds: those between are lost. */
static struct tr_slot *any_segment(const struct tr_replay *p, uint64_t seg_no)
{
    uint32_t best = p->e->log.slots_max;

    for (uint32_t i = 0; i < p->e->log.slots_max; i++) {
        if (p->scans[i].known && p->scans[i].seg_no > seg_no &&
            (best == p->e->log.slots_max || p->scans[i].seg_no < p->scans[best].seg_no)) {
            best = i;
        }
    }
    return best < p->e->log.slots_max ? &p->e->log.slots[best] : NULL;
}

/* Finds the next segment to walk after seg_no: one of the manifest's, or one found behind them. */
static struct tr_slot *next_segment(const struct tr_replay *p, uint64_t seg_no)
{
    const struct tr_manifest *m = &p->e->meta.now;
    const struct tr_manifest_slot *best = NULL;

    for (uint32_t i = 0; i < m->slot_count; i++) {
        if (m->slots[i].seg_no > seg_no && (best == NULL || m->slots[i].seg_no < best->seg_no)) {
            best = &m->slots[i];
        }
    }
    if (best != NULL) {
        return &p->e->log.slots[best->number];
    }
    if (seg_no < m->seg_no) {
        seg_no = m->seg_no;
    }
    for (uint32_t i = 0; i < p->e->log.slots_max; i++) {
        if (p->scans[i].known && p->scans[i].seg_no == seg_no + 1 && p->scans[i].first_batch != 0) {
            return &p->e->log.slots[i];
        }
    }
    return p->salvage != NULL ? any_segment(p, seg_no) : NULL;
}

static const struct tr_manifest_slot *in_manifest(const struct tr_replay *p, uint32_t number)
{
    const struct tr_manifest *m = &p->e->meta.now;

    for (uint32_t i = 0; i < m->slot_count; i++) {
        if (m->slots[i].number == number) {
            return &m->slots[i];
        }
    }
    return NULL;
}

/* Newest batch that anybody says was durable, from segment seg_no on. */
static uint64_t claimed(const struct tr_replay *p, uint64_t seg_no)
{
    uint64_t batch = p->e->meta.now.log_batch;

    if (batch < p->checkpoint) {
        batch = p->checkpoint;
    }
    for (uint32_t i = 0; i < p->e->log.slots_max; i++) {
        if (p->scans[i].known && p->scans[i].seg_no >= seg_no && p->scans[i].max_synced > batch) {
            batch = p->scans[i].max_synced;
        }
    }
    return batch;
}

static int damage(const struct tr_replay *p, const struct tr_slot *slot, uint64_t off,
                  uint64_t batch)
{
    tr_engine_note(p->e, TR_NOTE_DAMAGE,
                   "Slot w.%03u, offset %" PRIu64 ": batch %" PRIu64
                   ", which was durable, is damaged or missing.",
                   slot->number, off, batch);
    return TARRY_EDAMAGED;
}

/* Takes what manifest and scan know of the slot's segment, which comes after seg_no, and checks
 * that they agree. In a salvage the manifest may be an old one: the slot may hold a later segment,
 * too. */
static int open_segment(struct tr_replay *p, struct tr_slot *slot, uint64_t seg_no)
{
    const struct tr_manifest_slot *m = in_manifest(p, slot->number);
    const struct tr_scan *scan = &p->scans[slot->number];

    m = m != NULL && m->seg_no > seg_no ? m : NULL;
    slot->seg_no = m != NULL ? m->seg_no : scan->seg_no;
    slot->nonce = m != NULL ? m->nonce : scan->nonce;
    slot->first_batch = m != NULL ? m->first_batch : scan->first_batch;
    if (slot->file < 0 || !scan->known || scan->seg_no != slot->seg_no ||
        scan->nonce != slot->nonce) {
        if (p->salvage != NULL) {
            return tr_salvage_no_segment(p, slot);
        }
        tr_engine_note(p->e, TR_NOTE_DAMAGE,
                       "Slot w.%03u does not hold segment %" PRIu64 " that the store needs.",
                       slot->number, slot->seg_no);
        return TARRY_EDAMAGED;
    }
    tr_log_set_state(&p->e->log, slot, TR_SLOT_SEALED);
    slot->end_off = TR_BLOCK;
    slot->last_batch = 0;
    return read_slot(p, slot, false);
}

static uint64_t frame_bytes(const struct tr_frame *f)
{
    return TR_MUTANT(SHARED_SECTOR) ? (TR_FRAME_HEAD + (uint64_t)f->payload_len + 63) / 64 * 64
                                    : tr_frame_size(f->payload_len);
}

/* Salvage: was there another batch in this segment, which was durable? */
static bool lacks(const struct tr_replay *p, const struct tr_slot *slot)
{
    const struct tr_manifest_slot *m = in_manifest(p, slot->number);
    const struct tr_slot *next = next_segment(p, slot->seg_no);

    if (m != NULL && m->seg_no == slot->seg_no && m->last_batch != 0) {
        return m->last_batch >= p->next_batch;
    }
    if (next != NULL && p->scans[next->number].first_batch != 0) {
        return p->scans[next->number].first_batch > p->next_batch;
    }
    return claimed(p, slot->seg_no) >= p->next_batch;
}

/* Walks the frames of one segment; stops at the first that is not good. */
static int walk_segment(struct tr_replay *p, struct tr_slot *slot)
{
    struct tr_log *log = &p->e->log;
    enum tr_scan_verdict verdict;

    log->prev_crc = 0;
    p->sealed = false;
    p->next_batch = slot->first_batch;
    for (;;) {
        struct tr_frame f;
        uint32_t crc = 0;
        struct tr_scan_at at = {log->uuid,     slot->seg_no,  slot->nonce,
                                p->next_batch, log->prev_crc, slot->end_off};
        int err;

        verdict = tr_scan_frame(p->bytes, log->slot_bytes, at, &f, &crc);
        if (verdict == TR_SCAN_BAD && TR_MUTANT(SKIP_BAD_FRAME)) {
            verdict = TR_SCAN_BATCH;
            f.record_count = 0;
        }
        if (verdict != TR_SCAN_BATCH && p->salvage != NULL && lacks(p, slot) &&
            tr_salvage_go_on(p, slot)) {
            continue;
        }
        if (verdict != TR_SCAN_BATCH) {
            p->sealed = verdict == TR_SCAN_SEAL;
            p->bad = verdict == TR_SCAN_BAD;
            return verdict == TR_SCAN_NEWER ? TARRY_EVERSION : TARRY_OK;
        }
        err = apply_frame(p, slot, &f, slot->end_off);
        if (err != TARRY_OK) {
            return err;
        }
        log->prev_crc = crc;
        slot->end_off += frame_bytes(&f);
        slot->last_batch = f.batch_no;
        p->next_batch = f.batch_no + 1;
        p->clock_us = f.clock_us;
    }
}

/* ---- the end of the log ---- */

static int zero(struct tr_replay *p, const struct tr_slot *slot, uint64_t off)
{
    struct tr_io io = {
        .op = TR_IO_ZERO, .file = slot->file, .off = off, .len = p->e->log.slot_bytes - off};
    int err = TR_MUTANT(NOT_ZEROED) || p->e->config.read_only ? TARRY_OK : run(p->e, &io);

    if (err == TARRY_OK && !p->e->config.read_only) {
        io = (struct tr_io){.op = TR_IO_SYNC, .file = slot->file};
        err = run(p->e, &io);
    }
    p->cut = true;
    return err;
}

/* Throws away segments behind seg_no: they came after the end. */
static int cut_behind(struct tr_replay *p, uint64_t seg_no)
{
    const struct tr_log *log = &p->e->log;
    int err = TARRY_OK;

    TR_CHECK(log->slots != NULL);
    for (uint32_t i = 0; i < log->slots_max && err == TARRY_OK; i++) {
        const struct tr_slot *slot = &log->slots[i];

        if (slot->file >= 0 && p->scans[i].known && p->scans[i].seg_no > seg_no) {
            err = zero(p, slot, 0);
        }
    }
    return err;
}

/* Throws away what comes after the end: the rest of the tail, and segments behind it. */
static int cut(struct tr_replay *p, const struct tr_slot *tail)
{
    const struct tr_log *log = &p->e->log;
    struct tr_scan_at at = {log->uuid, tail->seg_no, tail->nonce, p->next_batch, 0, tail->end_off};
    int err = TARRY_OK;

    if (tr_scan_leftover(p->bytes, log->slot_bytes, at)) {
        err = zero(p, tail, tail->end_off);
    }
    return err == TARRY_OK ? cut_behind(p, tail->seg_no) : err;
}

/*
 * Was its header on the disk? It goes there in one write with the first frame. So it was if that
 * batch was durable, by anybody's word; else a power cut may have kept the one and not the other.
 */
static bool had_header(const struct tr_replay *p, const struct tr_slot *slot)
{
    return TR_MUTANT(HEADER_ALARM) ||
           (slot->first_batch != 0 && claimed(p, slot->seg_no) >= slot->first_batch);
}

static int repair_header(struct tr_replay *p, const struct tr_slot *slot)
{
    struct tr_log *log = &p->e->log;
    struct tr_segment seg = {.seg_no = slot->seg_no,
                             .nonce = slot->nonce,
                             .first_batch = slot->first_batch,
                             .created_us = p->clock_us};
    struct tr_piece piece = {log->head, TR_BLOCK};
    uint64_t done = 0;
    int err = TARRY_OK;

    memcpy(seg.uuid, log->uuid, TR_UUID);
    tr_segment_encode(log->head, &seg);
    while (done < TR_BLOCK && err == TARRY_OK) {
        struct tr_io io = {.op = TR_IO_WRITE,
                           .file = slot->file,
                           .off = done,
                           .len = TR_BLOCK - done,
                           .pieces = &piece,
                           .piece_count = 1,
                           .flags = TR_IO_THEN_SYNC};

        piece = (struct tr_piece){log->head + done, TR_BLOCK - done};
        err = run(p->e, &io);
        done += io.got;
    }
    if (err == TARRY_OK && slot->headless) {
        p->e->damage.mended++;
        tr_engine_note(p->e, TR_NOTE_DAMAGE,
                       "The header of slot w.%03u was damaged and was written again.",
                       slot->number);
    }
    return err;
}

/*
 * Headers that did not survive are written again before anything is built on it (R6), those of
 * sealed segments, too: what is written from now on would say that they had been durable.
 */
static int repair_headers(struct tr_replay *p)
{
    struct tr_log *log = &p->e->log;
    bool writes = !p->e->config.read_only && p->salvage == NULL;
    int err = TARRY_OK;

    for (uint32_t i = 0; i < log->slots_max && err == TARRY_OK; i++) {
        struct tr_slot *slot = &log->slots[i];

        if ((slot->state != TR_SLOT_SEALED && slot->state != TR_SLOT_TAIL) ||
            !p->scans[i].header_bad) {
            continue;
        }
        slot->headless = had_header(p, slot);
        err = writes ? repair_header(p, slot) : TARRY_OK;
    }
    return err;
}

/*
 * Says where the log ends. Bytes behind it that are no frame may be a batch cut short, or what an
 * older use of the slot left there; only a frame's own beginning tells that one was begun.
 */
static void note_end(const struct tr_replay *p, const struct tr_slot *tail)
{
    struct tr_scan_at at = {.uuid = p->e->log.uuid, .off = tail->end_off};
    bool clean = (p->e->meta.now.flags & TR_MAN_CLEAN) != 0;

    if (p->bad || tr_scan_begun(p->bytes, p->e->log.slot_bytes, at)) {
        tr_engine_note(p->e, TR_NOTE_WARNING,
                       "The log ends with batch %" PRIu64 " (slot w.%03u, offset %" PRIu64
                       "): the next one was being written when it stopped.",
                       p->next_batch - 1, tail->number, tail->end_off);
    } else if (!clean) {
        tr_engine_note(p->e, TR_NOTE_INFO,
                       "The store was not closed in order; its log ends with batch %" PRIu64
                       " (slot w.%03u, offset %" PRIu64 ").",
                       p->next_batch - 1, tail->number, tail->end_off);
    }
}

/*
 * The last segment that is left was sealed, and is whole. The log went on in another one, which was
 * freed (the checkpoint contains it) or never became durable: a new one is begun.
 */
static int end_sealed(struct tr_replay *p, const struct tr_slot *slot, uint64_t newest)
{
    const struct tr_manifest *m = &p->e->meta.now;

    if (newest > slot->last_batch && newest > p->checkpoint) {
        return damage(p, slot, slot->end_off, p->next_batch);
    }
    if (newest >= p->next_batch) {
        p->next_batch = newest + 1;
    }
    p->e->log.seg_no = m->seg_no;
    return cut_behind(p, m->seg_no);
}

/* The walk has come to the end of `tail`: is that the end of the log? */
static int end_log(struct tr_replay *p, struct tr_slot *tail)
{
    struct tr_log *log = &p->e->log;
    const struct tr_manifest_slot *m = in_manifest(p, tail->number);
    uint64_t newest = claimed(p, tail->seg_no);
    int err;

    if (p->salvage != NULL) { /* what is new goes to a new segment */
        p->next_batch = newest >= p->next_batch ? newest + 1 : p->next_batch;
        log->seg_no = tail->seg_no > log->seg_no ? tail->seg_no : log->seg_no;
        p->cut = true;
        return TARRY_OK;
    }
    if (m != NULL && m->last_batch != 0 && m->last_batch == tail->last_batch) {
        return end_sealed(p, tail, newest);
    }
    if (newest >= p->next_batch && !TR_MUTANT(NEVER_DAMAGE)) {
        return damage(p, tail, tail->end_off, p->next_batch);
    }
    note_end(p, tail);
    err = cut(p, tail);
    if (TR_MUTANT(ALWAYS_DAMAGE) && p->cut) {
        return damage(p, tail, tail->end_off, p->next_batch);
    }
    log->seg_no = tail->seg_no;
    tr_log_set_state(log, tail, TR_SLOT_TAIL);
    log->tail = tail;
    log->sealed = p->sealed;
    return err;
}

/* A segment behind `slot` must begin where it ended; the manifest says so for sealed ones. */
static int check_join(struct tr_replay *p, const struct tr_slot *slot, const struct tr_slot *next)
{
    const struct tr_manifest_slot *m = in_manifest(p, slot->number);
    const struct tr_manifest_slot *n = in_manifest(p, next->number);
    uint64_t begins = n != NULL ? n->first_batch : p->scans[next->number].first_batch;

    if (p->salvage != NULL) {
        return TARRY_OK; /* what is missing was told */
    }
    if (m != NULL && m->last_batch != 0) {
        return slot->last_batch == m->last_batch ? TARRY_OK
                                                 : damage(p, slot, slot->end_off, p->next_batch);
    }
    return begins == p->next_batch ? TARRY_OK : TARRY_ENOTFOUND;
}

/* Every batch after the checkpoint must have been walked. */
static int check_hole(const struct tr_replay *p, const struct tr_slot *slot, uint64_t walked)
{
    if (slot->first_batch > walked + 1 && slot->first_batch > p->checkpoint + 1) {
        return p->salvage != NULL ? TARRY_OK : damage(p, slot, 0, walked + 1);
    }
    return TARRY_OK;
}

int tr_replay_run(struct tr_replay *p)
{
    struct tr_slot *slot = next_segment(p, 0);
    uint64_t walked = p->checkpoint;
    uint64_t last_seg = 0;
    int err = TARRY_OK;

    p->e->state.replaying = true;
    p->e->state.recall = recall;
    p->e->state.has = has;
    p->e->state.recall_ctx = p;
    p->next_batch = claimed(p, UINT64_MAX) + 1;
    p->e->log.seg_no = p->e->meta.now.seg_no;
    while (slot != NULL && err == TARRY_OK) {
        struct tr_slot *next;

        err = open_segment(p, slot, last_seg);
        last_seg = slot->seg_no;
        if (err == TARRY_ENOTFOUND) { /* salvage: on with the next one */
            slot = next_segment(p, slot->seg_no);
            err = TARRY_OK;
            continue;
        }
        if (err == TARRY_OK) {
            err = check_hole(p, slot, walked);
        }
        if (err == TARRY_OK) {
            err = walk_segment(p, slot);
        }
        if (err != TARRY_OK) {
            return err;
        }
        walked = slot->last_batch > walked ? slot->last_batch : walked;
        next = next_segment(p, slot->seg_no);
        err = next != NULL ? check_join(p, slot, next) : TARRY_ENOTFOUND;
        if (err == TARRY_ENOTFOUND) {
            err = end_log(p, slot);
            next = NULL;
        }
        slot = next;
    }
    if (err == TARRY_OK && !collecting(p)) {
        err = load_changes(p);
    }
    if (err == TARRY_OK) {
        err = repair_headers(p);
    }
    p->e->state.replaying = false;
    p->e->state.recall = NULL;
    p->e->state.has = NULL;
    return err;
}
