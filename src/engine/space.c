/*
 * The ring of slots: growing, freeing, shrinking.
 *
 * Freeing follows liveness (R24). A slot can be freed when
 *     no live record is in it,
 *     the batches that took the last ones away are durable,
 *     both checkpoints contain all of its own batches (R16),
 * and it is free when a manifest without it is durable. A slot with few live records is helped:
 * they are written again at the tail (RELOG), under their own rids, after testing that they are
 * still alive (R17). Slots are freed in any order; the manifest names those that are left.
 *
 * A push needs three free slots, writing again needs one; so kills, leases and changes always
 * have somewhere to go, and on a full disk they go on. If even the last slot is full and nothing
 * in it is alive, the tail itself is freed and opened anew.
 *
 * Growth: before it is needed, in the background, up to slots_max. When the disk refuses, it is
 * asked again a second later as long as somebody wants to push. Idle: slots beyond three free
 * ones are removed, and half-empty slots are written together.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

enum { PUSH_FREE = 3, RELOG_READS = 16, RELOG_PAY = 8, RELOG_UNITS = 2, RETRY_US = 1000000 };

bool tr_space_busy(const struct tr_engine *e)
{
    return e->space.step != TR_SPACE_IDLE;
}

bool tr_space_push_ok(const struct tr_engine *e)
{
    return e->log.free_count >= PUSH_FREE || TR_MUTANT(NO_RESERVE);
}

bool tr_space_freeable(const struct tr_engine *e, const struct tr_slot *slot)
{
    const struct tr_log *log = &e->log;
    bool tail =
        slot->state == TR_SLOT_TAIL && log->free_count == 0 && !tr_log_busy(log) && !e->placing;

    return (slot->state == TR_SLOT_SEALED || tail) && slot->live == 0 && !slot->held &&
           (slot->last_batch <= tr_meta_oldest(e) || TR_MUTANT(FREE_UNCHECKPOINTED)) &&
           slot->last_batch <= log->synced &&
           (slot->emptied_by <= log->synced || TR_MUTANT(EMPTIED_UNSYNCED));
}

static uint32_t slots_now(const struct tr_engine *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        n += e->log.slots[i].state != TR_SLOT_ABSENT;
    }
    return n;
}

/* ---- making and removing slots ---- */

static void send(struct tr_engine *e, enum tr_space_step step, struct tr_io io)
{
    struct tr_space *sp = &e->space;

    sp->step = step;
    sp->io = io;
    sp->io.lane = TR_LANE_BACK;
    sp->io.file = sp->slot->file;
    tr_log_slot_name(sp->io.name, sp->slot->number);
    e->disk.ops->submit(e->disk.ctx, &sp->io);
}

static void grow(struct tr_engine *e)
{
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        if (e->log.slots[i].state == TR_SLOT_ABSENT) {
            e->space.slot = &e->log.slots[i];
            tr_log_set_state(&e->log, e->space.slot, TR_SLOT_MAKING);
            send(e, TR_SPACE_OPEN, (struct tr_io){.op = TR_IO_OPEN, .flags = TR_IO_CREATE});
            return;
        }
    }
}

static void shrink(struct tr_engine *e)
{
    for (uint32_t i = e->log.slots_max; i-- > 0;) {
        struct tr_slot *slot = &e->log.slots[i];

        if (slot->state == TR_SLOT_FREE && slot->readers == 0 && !slot->filling) {
            e->space.slot = slot;
            tr_log_set_state(&e->log, slot, TR_SLOT_REMOVING);
            send(e, TR_SPACE_CLOSE, (struct tr_io){.op = TR_IO_CLOSE});
            return;
        }
    }
}

/* Blocks that were written before are synced faster than reserved ones. Under weak sync nobody
 * waits for that. */
static bool zeroes(const struct tr_engine *e)
{
    return e->config.sync == TR_SYNC_ALWAYS;
}

/* The first slots of a store are not written when they are made, so that it starts at once; they
 * are soon after. */
static struct tr_slot *raw_slot(struct tr_engine *e)
{
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        struct tr_slot *slot = &e->log.slots[i];

        if (slot->state == TR_SLOT_FREE && slot->raw && slot->readers == 0) {
            return slot;
        }
    }
    return NULL;
}

static void fill(struct tr_engine *e, struct tr_slot *slot)
{
    e->space.slot = slot;
    slot->filling = true;
    send(e, TR_SPACE_ZERO, (struct tr_io){.op = TR_IO_ZERO, .len = e->log.slot_bytes});
}

/* The disk refused: whatever is there of the file is removed. */
static void no_room(struct tr_engine *e)
{
    struct tr_space *sp = &e->space;

    sp->no_room = true;
    sp->retry_at = e->now.boot_us + RETRY_US;
    if (sp->slot->file >= 0) {
        tr_log_set_state(&e->log, sp->slot, TR_SLOT_REMOVING);
        send(e, TR_SPACE_CLOSE, (struct tr_io){.op = TR_IO_CLOSE});
    } else {
        tr_log_set_state(&e->log, sp->slot, TR_SLOT_ABSENT);
        sp->step = TR_SPACE_IDLE;
    }
}

static void made(struct tr_engine *e)
{
    e->space.step = TR_SPACE_IDLE;
    e->space.slot->raw = !zeroes(e);
    tr_log_set_state(&e->log, e->space.slot, TR_SLOT_FREE);
}

/* A free slot was written, or cannot be: it will do as it is. */
static void fill_done(struct tr_engine *e, const struct tr_io *io)
{
    struct tr_space *sp = &e->space;

    if (sp->step == TR_SPACE_ZERO && io->status == TARRY_OK) {
        send(e, TR_SPACE_SYNC, (struct tr_io){.op = TR_IO_SYNC});
        return;
    }
    sp->slot->filling = false;
    sp->slot->raw = false;
    sp->step = TR_SPACE_IDLE;
}

void tr_space_io_done(struct tr_engine *e, struct tr_io *io)
{
    struct tr_space *sp = &e->space;
    bool making = sp->slot->state == TR_SLOT_MAKING;

    if (sp->slot->filling) {
        fill_done(e, io);
        return;
    }
    if (making && io->status != TARRY_OK) {
        no_room(e);
        return;
    }
    switch (sp->step) {
    case TR_SPACE_OPEN:
        sp->slot->file = io->file;
        send(e, TR_SPACE_ALLOCATE, (struct tr_io){.op = TR_IO_ALLOCATE, .len = e->log.slot_bytes});
        break;
    case TR_SPACE_ALLOCATE:
        if (zeroes(e)) {
            send(e, TR_SPACE_ZERO, (struct tr_io){.op = TR_IO_ZERO, .len = e->log.slot_bytes});
        } else {
            send(e, TR_SPACE_SYNC, (struct tr_io){.op = TR_IO_SYNC});
        }
        break;
    case TR_SPACE_ZERO:
        send(e, TR_SPACE_SYNC, (struct tr_io){.op = TR_IO_SYNC});
        break;
    case TR_SPACE_SYNC:
        if (TR_MUTANT(NO_DIRSYNC)) {
            made(e);
        } else {
            send(e, TR_SPACE_DIRSYNC, (struct tr_io){.op = TR_IO_DIRSYNC});
        }
        break;
    case TR_SPACE_DIRSYNC:
        made(e);
        break;
    case TR_SPACE_CLOSE:
        sp->slot->file = -1;
        send(e, TR_SPACE_UNLINK, (struct tr_io){.op = TR_IO_UNLINK});
        break;
    case TR_SPACE_UNLINK: /* if it failed, the file is found at the next start */
    case TR_SPACE_IDLE:
        tr_log_set_state(&e->log, sp->slot, TR_SLOT_ABSENT);
        sp->step = TR_SPACE_IDLE;
        break;
    }
}

/* ---- writing again ---- */

/* The last free slot is not for this, unless it stays free. */
static bool has_room(const struct tr_engine *e, const struct tr_job *job)
{
    return e->log.free_count >= 2 ||
           (e->log.free_count == 1 &&
            tr_log_fits_tail(&e->log, job->body_len + (size_t)TR_RECORD_HEAD_MAX));
}

/* In the list of its slot, jobs that are being written again stand last: the first one tells
 * whether there is another. */
static void set_relogging(struct tr_job *job, bool on)
{
    struct tr_list *jobs = &job->slot->jobs;

    job->relogging = on;
    tr_list_remove(&job->in_slot);
    tr_list_append(on ? jobs : jobs->next, &job->in_slot);
}

/* Appends the job's record as it is now. TARRY_EFULL: later. */
static int append(struct tr_engine *e, struct tr_job *job, const uint8_t *body)
{
    struct tr_record rec;
    struct tr_job *same;
    int err;

    if (!has_room(e, job)) {
        return TARRY_EFULL;
    }
    err = tr_log_reserve(&e->log, job->body_len + (size_t)TR_RECORD_HEAD_MAX, 1);
    if (err != TARRY_OK) {
        return err;
    }
    tr_state_describe(job, TR_REC_RELOG, &rec);
    rec.body.at = body;
    if (TR_MUTANT(KEY_NOT_RELOGGED)) {
        rec.mask &= ~TR_FIELD(KEY);
        rec.key.len = 0;
    }
    if (TR_MUTANT(RELOG_OLD_FIELDS)) {
        rec.due_us = job->created_us;
    }
    TR_CHECK(tr_state_apply(&e->state, &rec, e->log.open.no, &same) == TARRY_OK);
    tr_log_append(&e->log, &rec, tr_engine_base(e), false);
    set_relogging(job, true);
    e->space.relogged++;
    e->space.relogged_bytes += job->record_len;
    return TARRY_OK;
}

/* A record of the victim was read; job is NULL when it is dead or elsewhere by now. */
void tr_space_relog(struct tr_engine *e, struct tr_read *read, struct tr_job *job, int status)
{
    e->space.reads--;
    if (job == NULL || e->failed) {
        return;
    }
    if (status != TARRY_OK) {
        read->slot->stuck = true; /* what cannot be read cannot be moved: the slot stays */
        set_relogging(job, false);
        return;
    }
    set_relogging(job, false);
    if (append(e, job, read->buf + read->len - job->body_len) != TARRY_OK) {
        e->lazy_at = e->now.boot_us; /* full: let it go; then it is read again */
    }
}

/* Brings back the victim's far jobs, some at a time. */
static void recall_some(struct tr_engine *e)
{
    struct tr_space *sp = &e->space;
    const struct tr_far *far = &e->state.jobs.far;
    struct tr_far_page *page;

    if (!tr_far_walking(&sp->far)) {
        tr_far_walk_begin(&e->state.jobs.far, &sp->far);
    }
    while ((page = tr_far_walk_page(far, &sp->far)) != NULL) {
        for (unsigned i = 0; i < page->count; i++) {
            const struct tr_far_entry *entry = &page->entries[i];

            if (entry->slot != sp->victim->number || entry->loading) {
                continue;
            }
            if (entry->bad) {
                sp->victim->stuck = true; /* what cannot be read cannot be moved */
            } else if (e->load.reads >= RELOG_READS ||
                       tr_load_start(e, tr_far_page_rid(page, i)) != TARRY_OK) {
                return;
            }
        }
        if (!tr_engine_spend(e)) {
            return;
        }
        tr_far_walk_on(far, &sp->far);
    }
    tr_far_walk_end(&sp->far); /* if some were sent away meanwhile, it begins anew */
}

static void drop_victim(struct tr_engine *e)
{
    e->space.victim = NULL;
    tr_far_walk_end(&e->space.far);
}

/* Records gather, so that little is lost to padding; when all have been asked for, they go. */
static void relog_some(struct tr_engine *e)
{
    struct tr_list *jobs = &e->space.victim->jobs;

    while (!tr_list_empty(jobs)) {
        struct tr_job *job = TR_CONTAINER_OF(jobs->next, struct tr_job, in_slot);

        if (job->relogging) {
            break;
        }
        if (!has_room(e, job)) {
            drop_victim(e); /* perhaps a promotion makes some: it does not begin beside this */
            return;
        }
        if (!tr_engine_charge(e, RELOG_UNITS)) {
            return;
        }
        if (job->body != NULL) {
            if (append(e, job, job->body) != TARRY_OK) {
                e->lazy_at = e->now.boot_us; /* full: let it go */
                return;
            }
        } else {
            if (e->space.reads >= RELOG_READS || tr_read_start(e, job, NULL, true) != TARRY_OK) {
                return;
            }
            set_relogging(job, true);
            e->space.reads++;
        }
    }
    if (e->space.victim->far != 0) {
        recall_some(e);
    } else if (e->space.reads == 0 && !tr_log_open_empty(&e->log)) {
        e->lazy_at = e->now.boot_us;
    }
}

/* The slot with the fewest live bytes, if writing it again gains something; *count: how many. */
static struct tr_slot *find_victim(const struct tr_engine *e, uint64_t live_max, unsigned *count)
{
    struct tr_slot *best = NULL;

    *count = 0;
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        struct tr_slot *slot = &e->log.slots[i];

        if (slot->state != TR_SLOT_SEALED || slot->live == 0 || slot->stuck ||
            slot->live_bytes > live_max) {
            continue;
        }
        (*count)++;
        if (best == NULL || slot->live_bytes < best->live_bytes) {
            best = slot;
        }
    }
    return best;
}

/* A slot waits to be freed: that comes before emptying another one. */
static bool has_empty(const struct tr_engine *e)
{
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        const struct tr_slot *slot = &e->log.slots[i];

        if (slot->state == TR_SLOT_FREEING || (slot->state == TR_SLOT_SEALED && slot->live == 0)) {
            return true;
        }
    }
    return false;
}

static bool can_grow(const struct tr_engine *e)
{
    return !e->space.no_room && slots_now(e) < e->log.slots_max;
}

/* A slot with more live bytes than this gains too little. */
static uint64_t most_live(const struct tr_engine *e)
{
    return e->log.slot_bytes - e->log.slot_bytes / 8;
}

/*
 * Writing again is paid for by what died: a slot seven eighths full costs seven times what it
 * gains. Without this, a ring full of live records would be written round and round.
 */
static bool can_pay(const struct tr_engine *e)
{
    uint64_t ring = (uint64_t)e->log.slots_max * e->log.slot_bytes;

    return e->space.relogged_bytes < 2 * ring + RELOG_PAY * e->state.freed_bytes;
}

/* True when pushes can be expected to work again without anybody's help. */
bool tr_space_hope(const struct tr_engine *e)
{
    const struct tr_space *sp = &e->space;
    unsigned count;

    if (tr_space_push_ok(e)) {
        return e->meta.growing; /* it is the checkpoint files that are short */
    }
    if (can_grow(e) || sp->step != TR_SPACE_IDLE ||
        (e->promote.step != TR_PROMOTE_IDLE && !e->promote.merge)) {
        return true;
    }
    return sp->victim != NULL || has_empty(e) ||
           (can_pay(e) && find_victim(e, most_live(e), &count) != NULL);
}

static void choose_victim(struct tr_engine *e)
{
    struct tr_space *sp = &e->space;
    unsigned count = 0;

    if (sp->victim != NULL &&
        (sp->victim->state != TR_SLOT_SEALED || sp->victim->live == 0 || sp->victim->stuck)) {
        drop_victim(e);
    }
    if (sp->victim != NULL || !can_pay(e) || has_empty(e) ||
        (e->promote.step != TR_PROMOTE_IDLE && !e->promote.merge)) {
        return;
    }
    if (e->log.free_count < PUSH_FREE && !can_grow(e) && sp->step == TR_SPACE_IDLE) {
        sp->victim = find_victim(e, most_live(e), &count);
    } else if (sp->idle) { /* two become one; one alone would go round and round */
        struct tr_slot *victim = find_victim(e, e->log.slot_bytes / 2, &count);

        sp->victim = count >= 2 ? victim : NULL;
    }
}

/* Asks for the checkpoints, syncs and manifests that make empty slots free. */
static void ask_for_freeing(struct tr_engine *e)
{
    bool wanted = e->space.idle || e->log.free_count < TR_SLOTS_BASE;

    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        const struct tr_slot *slot = &e->log.slots[i];
        bool last = slot->state == TR_SLOT_TAIL && e->log.free_count == 0;

        if ((slot->state != TR_SLOT_SEALED && !last) || slot->live != 0) {
            continue;
        }
        if (tr_space_freeable(e, slot)) {
            e->meta.want_manifest = true;
        } else if (wanted && slot->last_batch > tr_meta_oldest(e)) {
            e->meta.want_checkpoint = true;
        } else if (wanted && slot->emptied_by > e->log.synced) {
            tr_log_sync(&e->log);
        }
    }
}

void tr_space_step(struct tr_engine *e)
{
    struct tr_space *sp = &e->space;
    struct tr_log *log = &e->log;
    bool half = log->tail != NULL && log->tail->end_off > log->slot_bytes / 2;

    if (sp->retry_at <= e->now.boot_us) {
        sp->retry_at = TR_NEVER;
        sp->no_room = false;
        e->meta.grow_failed = false;
    }
    if (tr_space_push_ok(e) && !e->meta.grow_failed) {
        e->refusing = false;
    }
    if (e->meta.grow_failed && sp->retry_at == TR_NEVER) {
        sp->retry_at = e->now.boot_us + RETRY_US;
    }
    ask_for_freeing(e);
    choose_victim(e);
    if (sp->victim != NULL) {
        relog_some(e);
    }
    if (sp->step != TR_SPACE_IDLE) {
        return;
    }
    if (can_grow(e) &&
        (log->free_count < PUSH_FREE || (half && !sp->idle && log->free_count == PUSH_FREE))) {
        grow(e);
    } else if (zeroes(e) && !sp->idle && log->free_count > 1 && raw_slot(e) != NULL) {
        fill(e, raw_slot(e));
    } else if (sp->idle && log->free_count > PUSH_FREE) {
        shrink(e);
    }
}

/* ---- before serving ---- */

int tr_space_make_now(struct tr_engine *e, uint32_t number)
{
    struct tr_slot *slot = &e->log.slots[number];
    struct tr_io io = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE};
    int err;

    tr_log_slot_name(io.name, number);
    err = e->disk.ops->run(e->disk.ctx, &io);
    if (err != TARRY_OK) {
        return err;
    }
    slot->file = io.file;
    io = (struct tr_io){.op = TR_IO_ALLOCATE, .file = slot->file, .len = e->log.slot_bytes};
    err = e->disk.ops->run(e->disk.ctx, &io);
    slot->raw = number != 0 || !zeroes(e);
    if (err == TARRY_OK && !slot->raw) { /* the first one is used at once */
        io = (struct tr_io){.op = TR_IO_ZERO, .file = slot->file, .len = e->log.slot_bytes};
        err = e->disk.ops->run(e->disk.ctx, &io);
    }
    if (err == TARRY_OK && !slot->raw) {
        io = (struct tr_io){.op = TR_IO_SYNC, .file = slot->file};
        err = e->disk.ops->run(e->disk.ctx, &io);
    }
    if (err == TARRY_OK) {
        tr_log_set_state(&e->log, slot, TR_SLOT_FREE);
        return TARRY_OK;
    }
    io = (struct tr_io){.op = TR_IO_CLOSE, .file = slot->file};
    (void)e->disk.ops->run(e->disk.ctx, &io);
    slot->file = -1;
    tr_log_slot_name(io.name, number);
    io.op = TR_IO_UNLINK;
    (void)e->disk.ops->run(e->disk.ctx, &io);
    return err;
}
