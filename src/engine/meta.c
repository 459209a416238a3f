/*
 * Checkpoints and manifests, one round at a time.
 *
 *     IDLE --> WAIT_LOG --> PAGES --> PAGES_SYNC --> MANIFEST --> IDLE
 *       \______ (manifest only) _________________/
 *
 * A checkpoint begins when a batch was closed and nothing was added since: then memory is exact at
 * the end of batch n (R25). Its pages are frozen in slices, turn by turn, while everything else
 * goes on (checkpoint.c); then the next round writes them. They go to the file that is not the
 * current one, so a cut leaves the current one whole.
 *
 * Rules kept here:
 *   R8   a manifest that cannot be written or synced is final
 *   R9   a checkpoint that cannot be is not: it is written again in full, later
 *   R10  slots that the new manifest does not name are free only when it is synced
 *   R12  manifests alternate between two files; frames carry the newest generation
 *   R18  rids are used only below the rid limit of a synced manifest
 *   R19  before a manifest is written the log is durable up to all that it reflects
 *   R26  room for a checkpoint is allocated before the change that would need it
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

enum { RETRY_US = 50000, FAILURES_MAX = 7 };

uint64_t tr_meta_oldest(const struct tr_engine *e)
{
    uint64_t a = e->meta.now.ckpt[0].batch;
    uint64_t b = e->meta.now.ckpt[1].batch;

    if (TR_MUTANT(FREE_AFTER_ONE)) {
        return a > b ? a : b;
    }
    return a < b ? a : b;
}

bool tr_meta_busy(const struct tr_engine *e)
{
    const struct tr_meta *m = &e->meta;

    return (m->step != TR_META_IDLE && m->step != TR_META_WAIT_LOG) || m->growing;
}

void tr_meta_forget(struct tr_engine *e)
{
    tr_freeze_cancel(&e->meta.freeze);
    tr_pages_fini(&e->meta.pages);
    e->meta.frozen = false;
    e->meta.with_pages = false;
}

void tr_meta_fini(struct tr_engine *e)
{
    tr_meta_forget(e);
    tr_mem_free(e->mem, e->meta.man_buf, TR_MANIFEST_COPY);
    e->meta.man_buf = NULL;
}

/* ---- room for pages ---- */

static void grow_send(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;

    m->growing = true;
    m->grow_io = (struct tr_io){.op = TR_MUTANT(LATE_ALLOCATION) ? TR_IO_SYNC : TR_IO_ALLOCATE,
                                .lane = TR_LANE_BACK,
                                .file = m->ckpt_file[m->grow_file],
                                .len = m->grow_bytes};
    e->disk.ops->submit(e->disk.ctx, &m->grow_io);
}

static uint64_t room(const struct tr_meta *m)
{
    return m->ckpt_room[0] < m->ckpt_room[1] ? m->ckpt_room[0] : m->ckpt_room[1];
}

static bool has_room(struct tr_engine *e, uint64_t need)
{
    struct tr_meta *m = &e->meta;

    if (need + e->config.checkpoint_slack / 2 > room(m) && !m->growing && !m->grow_failed) {
        uint64_t want = need + need / 4 + e->config.checkpoint_slack;

        m->grow_bytes = (want + TR_PAGE - 1) / TR_PAGE * TR_PAGE;
        m->grow_file = m->ckpt_room[0] <= m->ckpt_room[1] ? 0 : 1;
        grow_send(e);
    }
    return need <= room(m);
}

bool tr_meta_room(struct tr_engine *e, uint64_t more_jobs)
{
    return has_room(e, tr_checkpoint_bound(&e->state, more_jobs));
}

bool tr_meta_policy_room(struct tr_engine *e, uint64_t more_bytes)
{
    return has_room(e, tr_checkpoint_bound(&e->state, 0) + tr_checkpoint_policies(more_bytes));
}

static void grow_done(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;

    m->growing = false;
    if (m->grow_io.status != TARRY_OK) {
        m->grow_failed = true; /* until space.c tries again */
        /* A failed sync is told once, to whoever asks first: pages in this file may be gone (R8).
         */
        m->spoiled[m->grow_file] |= m->grow_io.op == TR_IO_SYNC;
        return;
    }
    if (m->grow_io.op == TR_IO_ALLOCATE) { /* a power cut must not take the blocks back */
        m->growing = true;
        m->grow_io = (struct tr_io){
            .op = TR_IO_SYNC, .lane = TR_LANE_BACK, .file = m->ckpt_file[m->grow_file]};
        e->disk.ops->submit(e->disk.ctx, &m->grow_io);
        return;
    }
    m->ckpt_room[m->grow_file] = m->grow_bytes;
    if (m->ckpt_room[1 - m->grow_file] < m->grow_bytes) {
        m->grow_file = 1 - m->grow_file;
        grow_send(e);
    }
}

/* ---- what the manifest says ---- */

static void list_slots(struct tr_engine *e, struct tr_manifest *next)
{
    next->slot_count = 0;
    next->seg_no = e->meta.now.seg_no;
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        struct tr_slot *slot = &e->log.slots[i];

        if (tr_space_freeable(e, slot)) {
            if (slot == e->log.tail) {
                e->log.tail = NULL;
            }
            tr_log_set_state(&e->log, slot,
                             TR_MUTANT(FREED_EARLY) ? TR_SLOT_FREE : TR_SLOT_FREEING);
            if (next->seg_no < slot->seg_no) {
                next->seg_no = slot->seg_no;
            }
            continue;
        }
        if ((slot->state != TR_SLOT_TAIL && slot->state != TR_SLOT_SEALED) ||
            slot->first_batch > e->log.synced) {
            continue; /* not in the store yet: its frames will speak for it */
        }
        if (next->seg_no < slot->seg_no) {
            next->seg_no = slot->seg_no;
        }
        next->slots[next->slot_count++] = (struct tr_manifest_slot){
            .number = slot->number,
            .seg_no = slot->seg_no,
            .nonce = slot->nonce,
            .first_batch = slot->first_batch,
            .last_batch = slot->state == TR_SLOT_SEALED && slot->last_batch <= e->log.synced
                              ? slot->last_batch
                              : 0};
    }
}

static void compose(struct tr_engine *e, uint32_t flags)
{
    struct tr_meta *m = &e->meta;
    uint64_t limit = e->state.next_rid + (uint64_t)2 * e->config.rid_block;

    m->next = m->now;
    m->next.gen++;
    m->next.flags = flags;
    m->next.epoch = e->epoch;
    m->next.log_batch = e->log.synced;
    m->next.next_rid = e->state.next_rid;
    m->next.clock_us = e->clock.t_us;
    if (limit > m->next.rid_limit) {
        m->next.rid_limit = limit;
    }
    if (m->with_pages) {
        m->next.ckpt_now = 1 - m->now.ckpt_now;
        m->next.ckpt[m->next.ckpt_now].batch = m->pages.batch;
        m->next.ckpt[m->next.ckpt_now].pages = m->pages.count;
    }
    list_slots(e, &m->next);
    tr_promote_list(e, &m->next);
    tr_manifest_encode(m->man_buf, &m->next);
}

/* The new manifest is durable: what it says is so. */
static void adopt(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;

    m->now = m->next;
    e->log.man_gen = m->now.gen;
    e->rid_limit = m->now.rid_limit;
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        if (e->log.slots[i].state == TR_SLOT_FREEING) {
            tr_log_set_state(&e->log, &e->log.slots[i], TR_SLOT_FREE);
        }
    }
    if (m->with_pages) {
        m->failing = false;
        m->failures = 0;
        m->made++;
        tr_backup_adopted(e, m->pages.batch);
        tr_pages_fini(&m->pages);
    }
    m->with_pages = false;
    m->step = TR_META_IDLE;
    if (e->promote.step == TR_PROMOTE_MANIFEST &&
        tr_manifest_names(&m->now, e->promote.group->is.no)) {
        tr_promote_adopted(e);
    }
    tr_retire_adopted(e);
}

static int man_file(const struct tr_meta *m)
{
    return m->man_file[TR_MUTANT(MANIFEST_IN_PLACE) ? 0 : m->next.gen & 1];
}

/* ---- a round ---- */

static uint32_t flags_now(const struct tr_engine *e)
{
    return (e->config.sync != TR_SYNC_ALWAYS ? TR_MAN_WEAK : 0) |
           (e->clock.test ? TR_MAN_TEST_CLOCK : 0);
}

static void send(struct tr_engine *e, struct tr_io io)
{
    e->meta.io = io;
    e->meta.io.lane = TR_LANE_BACK;
    e->disk.ops->submit(e->disk.ctx, &e->meta.io);
}

static void send_manifest(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;

    m->pieces[0] = (struct tr_piece){m->man_buf + m->done_bytes, TR_MANIFEST_COPY - m->done_bytes};
    send(e, (struct tr_io){.op = TR_IO_WRITE,
                           .file = man_file(m),
                           .off = (uint64_t)m->copy * TR_MANIFEST_COPY + m->done_bytes,
                           .len = m->pieces[0].len,
                           .pieces = m->pieces,
                           .piece_count = 1,
                           .flags = m->copy == TR_MANIFEST_COPIES - 1 ? TR_IO_THEN_SYNC : 0});
}

static void start_manifest(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;

    m->step = TR_META_MANIFEST;
    m->want_manifest = false;
    m->copy = 0;
    m->done_bytes = 0;
    compose(e, flags_now(e));
    send_manifest(e);
}

static int target(const struct tr_meta *m)
{
    return m->ckpt_file[1 - m->now.ckpt_now];
}

static void send_pages(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;
    uint64_t all = (uint64_t)m->pages.count * TR_PAGE;
    uint64_t off = m->done_bytes;
    unsigned count = 0;

    if (off == all) {
        m->step = TR_META_PAGES_SYNC;
        send(e, (struct tr_io){.op = TR_IO_SYNC, .file = target(m)});
        return;
    }
    if (off == 0) {
        m->spoiled[1 - m->now.ckpt_now] = false;
    }
    m->step = TR_META_PAGES;
    while (off < all && count < TR_META_PIECES) {
        m->pieces[count].at = tr_pages_at(&m->pages, off, &m->pieces[count].len);
        off += m->pieces[count++].len;
    }
    send(e, (struct tr_io){.op = TR_IO_WRITE,
                           .file = target(m),
                           .off = m->done_bytes,
                           .len = off - m->done_bytes,
                           .pieces = m->pieces,
                           .piece_count = count});
}

/* The next try, and each time twice as much later. */
static void try_later(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;

    m->retry_at = e->now.boot_us + ((uint64_t)RETRY_US << m->failures);
    m->failures += m->failures < FAILURES_MAX;
}

/* R9: nothing of it counts; the next one is written in full. */
static void give_up_pages(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;

    tr_pages_fini(&m->pages);
    m->with_pages = false;
    m->want_checkpoint = true;
    m->step = TR_META_IDLE;
    try_later(e);
    if (!m->failing) {
        tr_engine_note(e, TR_NOTE_WARNING,
                       "A checkpoint could not be written; it is tried again until it can.");
    }
    m->failing = true;
}

static bool can_freeze(const struct tr_engine *e)
{
    const struct tr_meta *m = &e->meta;

    return m->want_checkpoint && m->freeze.state == NULL && !m->frozen && !m->with_pages &&
           m->retry_at <= e->now.boot_us && !tr_backup_keeps(e);
}

bool tr_meta_wants_batch(const struct tr_engine *e)
{
    return can_freeze(e);
}

static void begin_checkpoint(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;
    uint64_t batch = e->log.open.no - 1;

    if (!can_freeze(e) || !tr_log_open_empty(&e->log) || batch == 0) {
        return;
    }
    if (tr_freeze_begin(&m->freeze, &m->pages, &e->state, e->log.uuid, batch) != TARRY_OK) {
        try_later(e);
        return;
    }
    m->retry_at = 0;
    m->want_checkpoint = false;
    e->checkpoint_at = TR_NEVER;
    m->batch = batch;
    tr_backup_frozen(e, batch);
}

void tr_meta_freeze(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;
    unsigned rest = e->work / 2; /* half of the slice is for everything else */
    unsigned work = e->work - rest;
    int err;

    if (m->freeze.state == NULL) {
        return;
    }
    err = tr_freeze_step(&m->freeze, &work);
    e->work = rest + work;
    if (err == TARRY_OK && m->pages.count * TR_PAGE > m->ckpt_room[1 - m->now.ckpt_now]) {
        tr_pages_fini(&m->pages);
        err = TARRY_ENOSPC;
    }
    if (err == TARRY_OK) {
        m->frozen = true;
    } else if (err != TARRY_EFULL) {
        m->want_checkpoint = true;
        try_later(e);
    }
}

void tr_meta_step(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;

    if (e->state.next_rid + e->config.rid_block / 2 >= e->rid_limit) {
        m->want_manifest = true;
    }
    begin_checkpoint(e);
    if (m->step == TR_META_IDLE && m->frozen) {
        m->frozen = false;
        m->with_pages = true;
        m->done_bytes = 0;
        m->step = TR_META_WAIT_LOG;
    } else if (m->step == TR_META_IDLE && m->want_manifest) {
        start_manifest(e);
    }
    if (m->step == TR_META_WAIT_LOG) {
        if (e->log.synced >= m->batch || TR_MUTANT(MANIFEST_FIRST)) {
            send_pages(e);
        } else {
            tr_log_sync(&e->log);
        }
    }
}

static void manifest_part_done(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;

    if (m->io.status != TARRY_OK && !TR_MUTANT(RETRY_MANIFEST)) {
        m->step = TR_META_IDLE;
        tr_engine_fail(e, "The manifest could not be written.");
        return;
    }
    m->done_bytes += m->io.status == TARRY_OK ? m->io.got : m->io.len;
    if (m->done_bytes == TR_MANIFEST_COPY) {
        m->copy++;
        m->done_bytes = 0;
    }
    if (m->copy == TR_MANIFEST_COPIES) {
        adopt(e);
    } else {
        send_manifest(e);
    }
}

void tr_meta_io_done(struct tr_engine *e, struct tr_io *io)
{
    struct tr_meta *m = &e->meta;

    if (io == &m->grow_io) {
        grow_done(e);
        if (!m->growing && e->load.retry_at != TR_NEVER) {
            e->load.retry_at = e->now.boot_us; /* it may have waited for this */
        }
        return;
    }
    if (e->failed) {
        m->step = TR_META_IDLE;
        return;
    }
    if (m->step == TR_META_MANIFEST) {
        manifest_part_done(e);
        return;
    }
    if (m->spoiled[1 - m->now.ckpt_now] ||
        (io->status != TARRY_OK && !(TR_MUTANT(KEEP_BAD_CHECKPOINT) && io->op == TR_IO_SYNC))) {
        give_up_pages(e);
    } else if (m->step == TR_META_PAGES) {
        m->done_bytes += io->got;
        tr_pages_drop(&m->pages, m->done_bytes);
        send_pages(e);
    } else {
        start_manifest(e);
    }
}

/* ---- before and after serving ---- */

static int run_write(struct tr_engine *e, int file, uint64_t off, const uint8_t *p, uint64_t len)
{
    while (len > 0) {
        struct tr_piece piece = {p, len};
        struct tr_io io = {.op = TR_IO_WRITE,
                           .file = file,
                           .off = off,
                           .len = len,
                           .pieces = &piece,
                           .piece_count = 1};
        int err = e->disk.ops->run(e->disk.ctx, &io);

        if (err != TARRY_OK) {
            return err;
        }
        p += io.got;
        off += io.got;
        len -= io.got;
    }
    return TARRY_OK;
}

static int run_sync(struct tr_engine *e, int file)
{
    struct tr_io io = {.op = TR_IO_SYNC, .file = file};

    return e->disk.ops->run(e->disk.ctx, &io);
}

static int write_pages_now(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;
    int err = tr_checkpoint_freeze(&m->pages, &e->state, e->log.uuid, e->log.open.no - 1);

    if (err != TARRY_OK) {
        return err;
    }
    for (uint64_t off = 0; err == TARRY_OK && off < (uint64_t)m->pages.count * TR_PAGE;) {
        size_t len;
        const uint8_t *bytes = tr_pages_at(&m->pages, off, &len);

        err = run_write(e, target(m), off, bytes, len);
        off += len;
    }
    if (err == TARRY_OK) {
        err = run_sync(e, target(m));
    }
    if (err != TARRY_OK) {
        tr_pages_fini(&m->pages);
    }
    m->with_pages = err == TARRY_OK;
    return err;
}

int tr_meta_write_now(struct tr_engine *e, bool checkpoint, uint32_t flags)
{
    struct tr_meta *m = &e->meta;
    int err = checkpoint ? write_pages_now(e) : TARRY_OK;

    if (err != TARRY_OK) {
        return err;
    }
    compose(e, flags | flags_now(e));
    for (unsigned copy = 0; copy < TR_MANIFEST_COPIES && err == TARRY_OK; copy++) {
        err = run_write(e, man_file(m), (uint64_t)copy * TR_MANIFEST_COPY, m->man_buf,
                        TR_MANIFEST_COPY);
    }
    if (err == TARRY_OK) {
        err = run_sync(e, man_file(m));
    }
    if (err == TARRY_OK) {
        adopt(e);
    }
    return err;
}
