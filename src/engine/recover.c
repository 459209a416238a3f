/*
 * Opening a store. Closing it is close.c.
 *
 *     1  lock; list the files; open them all
 *     2  sync, then read around the cache (R7): what is built on must be what a power cut leaves
 *     3  the newest good manifest; if a frame knows a newer one, refuse (R12)
 *     4  the newest good checkpoint, else the older one
 *     5  open the groups (regroup.c), walk the log (replay.c)
 *     6  every live job that no group covers must have been met, else refuse (R13); see regroup.c
 *     7  make slots and room, write a manifest with a new epoch; then serve
 *
 * Nothing here waits for anything but the disk; a crash at any point leaves a store that opens to
 * the same state. A directory without a good manifest in which no slot was ever written to is one
 * whose making was cut short: it is made anew.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "base/text.h"
#include "engine/replay.h"
#include "engine/salvage.h"

#include <inttypes.h>
#include <string.h>

enum { LIST_BYTES = 65536 };

static int run(struct tr_engine *e, struct tr_io *io)
{
    return e->disk.ops->run(e->disk.ctx, io);
}

static unsigned look(const struct tr_engine *e)
{
    return e->config.read_only ? TR_IO_READ_ONLY : 0;
}

static int open_file(struct tr_engine *e, const char *stem, unsigned number, int *file)
{
    struct tr_io io = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE | look(e)};
    int err;

    tr_text(io.name, sizeof io.name, "%s%u", stem, number);
    err = run(e, &io);
    *file = err == TARRY_OK ? io.file : -1;
    return err == TARRY_ENOTFOUND && e->config.read_only ? TARRY_OK : err;
}

static int sync_file(struct tr_engine *e, int file)
{
    struct tr_io io = {.op = TR_IO_SYNC, .file = file};

    return e->config.read_only || TR_MUTANT(UNSYNCED_RECOVERY) ? TARRY_OK : run(e, &io);
}

static int read_file(struct tr_engine *e, int file, uint64_t off, uint8_t *buf, uint64_t len)
{
    struct tr_io io = {.op = TR_MUTANT(CACHED_RECOVERY) || TR_MUTANT(UNSYNCED_RECOVERY)
                                 ? TR_IO_READ
                                 : TR_IO_READ_DIRECT,
                       .file = file,
                       .off = off,
                       .len = len,
                       .buf = buf};
    int err = file >= 0 ? run(e, &io) : TARRY_OK; /* one that is not there is empty */

    if (err == TARRY_OK) {
        memset(buf + io.got, 0, len - io.got);
    }
    return err;
}

/* ---- step 1 ---- */

/* The number of a slot file, or -1. */
static int slot_number(const char *name)
{
    char same[TR_IO_NAME_MAX];
    int n = 0;

    if (strncmp(name, "w.", 2) != 0 || name[2] == '\0') {
        return -1;
    }
    for (const char *c = name + 2; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || n > TR_MANIFEST_SLOTS_MAX) {
            return -1;
        }
        n = n * 10 + (*c - '0');
    }
    tr_log_slot_name(same, (uint32_t)n);
    return n < TR_MANIFEST_SLOTS_MAX && strcmp(name, same) == 0 ? n : -1;
}

/* Which slots are there; room for all of them. TARRY_EDAMAGED: it is half a copy. */
static int list_slots(struct tr_engine *e, uint8_t *present)
{
    char *names = tr_mem_alloc(e->mem, LIST_BYTES);
    struct tr_io io = {.op = TR_IO_LIST, .buf = names, .len = LIST_BYTES};
    int err = names != NULL ? run(e, &io) : TARRY_ENOMEM;

    for (uint64_t at = 0; err == TARRY_OK && at < io.got; at += strlen(names + at) + 1) {
        int number = slot_number(names + at);

        if (strcmp(names + at, TR_BACKUP_MARK) == 0) {
            tr_engine_note(e, TR_NOTE_DAMAGE,
                           "This is a backup that was not finished (it has a file " TR_BACKUP_MARK
                           "): make it again.");
            err = TARRY_EDAMAGED;
        }
        if (number >= 0) {
            present[number] = 1;
            if (e->config.slots_max <= (uint32_t)number) {
                e->config.slots_max = (uint32_t)number + 1;
            }
        }
    }
    tr_mem_free(e->mem, names, LIST_BYTES);
    return err;
}

static int open_files(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;
    struct tr_io io = {
        .op = TR_IO_OPEN, .flags = TR_IO_CREATE | TR_IO_LOCK | look(e), .name = "lock"};
    int err = run(e, &io);

    m->lock_file = err == TARRY_OK ? io.file : -1;
    if (err == TARRY_ENOTFOUND && e->config.read_only) {
        err = TARRY_OK; /* a copy without it: nobody else can have it open */
    }

    for (unsigned i = 0; i < 2 && err == TARRY_OK; i++) {
        err = open_file(e, "man.", i, &m->man_file[i]);
        if (err == TARRY_OK) {
            err = open_file(e, "ckpt.", i, &m->ckpt_file[i]);
        }
        if (err == TARRY_OK) {
            err = sync_file(e, m->man_file[i]);
        }
        if (err == TARRY_OK) {
            err = sync_file(e, m->ckpt_file[i]);
        }
    }
    return err;
}

static int open_slots(struct tr_engine *e, const uint8_t *present)
{
    int err = TARRY_OK;

    for (uint32_t i = 0; i < e->log.slots_max && err == TARRY_OK; i++) {
        struct tr_io io = {.op = TR_IO_OPEN, .flags = look(e)};

        if (!present[i]) {
            continue;
        }
        tr_log_slot_name(io.name, i);
        err = run(e, &io);
        if (err == TARRY_OK) {
            e->log.slots[i].file = io.file;
            err = sync_file(e, io.file);
        }
    }
    return err;
}

/* ---- steps 3 and 4 ---- */

/* The newest good manifest. TARRY_ENOTFOUND: there is none. */
static int read_manifest(struct tr_engine *e)
{
    struct tr_meta *m = &e->meta;
    unsigned unread[2] = {0};
    bool newer = false;

    for (unsigned i = 0; i < 2 * TR_MANIFEST_COPIES; i++) {
        int err = read_file(e, m->man_file[i % 2], (uint64_t)(i / 2) * TR_MANIFEST_COPY, m->man_buf,
                            TR_MANIFEST_COPY);

        if (err != TARRY_OK) {
            unread[i % 2]++; /* another copy will do */
            continue;
        }
        err = tr_manifest_decode(m->man_buf, &m->next);
        newer |= err == TARRY_EVERSION;
        if (err == TARRY_OK && m->next.gen > m->now.gen) {
            m->now = m->next;
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        if (unread[i] == TR_MANIFEST_COPIES) { /* it may be the newer one: nobody knows (R12) */
            tr_engine_note(e, TR_NOTE_DAMAGE, "Manifest man.%u cannot be read.", i);
            if (!e->config.salvage) {
                return TARRY_EIO;
            }
        }
    }
    if (newer) {
        tr_engine_note(e, TR_NOTE_FATAL, "The manifest was written by a newer version of tarry.");
        return TARRY_EVERSION;
    }
    for (uint32_t i = 0; i < m->now.slot_count; i++) {
        if (e->config.slots_max <= m->now.slots[i].number) {
            e->config.slots_max = m->now.slots[i].number + 1;
        }
    }
    return m->now.gen != 0 ? TARRY_OK : TARRY_ENOTFOUND;
}

/* Reads checkpoint `which` and looks at all of its pages. */
static int read_pages(struct tr_engine *e, unsigned which, uint8_t **bytes, size_t *pages)
{
    const struct tr_manifest *man = &e->meta.now;
    uint64_t batch = man->ckpt[which].batch;
    size_t bad = 0;
    int err;

    *pages = (size_t)man->ckpt[which].pages;
    *bytes = NULL;
    if (batch == 0) {
        *pages = 0; /* the empty state before batch 1 */
        return TARRY_OK;
    }
    if (*pages == 0) {
        return TARRY_EDAMAGED;
    }
    *bytes = tr_mem_alloc(e->mem, *pages * TR_PAGE);
    if (*bytes == NULL) {
        return TARRY_ENOMEM;
    }
    err = read_file(e, e->meta.ckpt_file[which], 0, *bytes, *pages * TR_PAGE);
    if (err == TARRY_OK) {
        err = tr_checkpoint_check(*bytes, *pages, batch, &bad);
    }
    if (err == TARRY_OK && tr_checkpoint_pages(*bytes, man->uuid, batch) != *pages) {
        err = TARRY_EDAMAGED;
    }
    if (err != TARRY_OK) {
        tr_mem_free(e->mem, *bytes, *pages * TR_PAGE);
        *bytes = NULL;
    }
    if (err == TARRY_EDAMAGED || err == TARRY_EIO) {
        tr_engine_note(e, TR_NOTE_DAMAGE, "Checkpoint ckpt.%u (batch %" PRIu64 ") is damaged.",
                       which, batch);
        err = TARRY_EDAMAGED;
    }
    return err;
}

/* The newer checkpoint, else the older one, whose log is still there (R16). */
static int read_checkpoint(struct tr_engine *e, struct tr_replay *p, uint8_t **bytes)
{
    struct tr_manifest *man = &e->meta.now;
    int err = read_pages(e, man->ckpt_now, bytes, &p->page_count);

    if (err == TARRY_EDAMAGED) {
        man->ckpt[man->ckpt_now].batch = 0; /* void: nothing is freed on its word */
        man->ckpt[man->ckpt_now].pages = 0;
        man->ckpt_now = 1 - man->ckpt_now;
        err = read_pages(e, man->ckpt_now, bytes, &p->page_count);
    }
    if (err != TARRY_OK) {
        return err;
    }
    p->pages = *bytes;
    p->checkpoint = man->ckpt[man->ckpt_now].batch;
    err = *bytes != NULL ? tr_checkpoint_load(*bytes, p->page_count, &e->state) : TARRY_OK;
    if (err == TARRY_EDAMAGED) {
        tr_engine_note(e, TR_NOTE_DAMAGE, "Checkpoint ckpt.%u does not add up.", man->ckpt_now);
    }
    return err;
}

/* Salvage: of the newer one all good pages, if neither is whole. */
static int salvage_checkpoint(struct tr_engine *e, struct tr_replay *p, uint8_t **bytes)
{
    struct tr_manifest *man = &e->meta.now;
    struct tr_finding f = {.fate = TR_FATE_TWICE,
                           .what = "Both checkpoints are damaged: jobs that were gone may be there "
                                   "again, changes and names of topics may be missing."};
    int err = read_pages(e, man->ckpt_now, bytes, &p->page_count);

    if (err == TARRY_EDAMAGED) {
        err = read_pages(e, 1 - man->ckpt_now, bytes, &p->page_count);
        man->ckpt_now = err == TARRY_OK ? 1 - man->ckpt_now : man->ckpt_now;
    }
    if (err == TARRY_EDAMAGED) {
        tr_text(f.file, sizeof f.file, "ckpt.%u", man->ckpt_now);
        tr_salvage_tell(e, &f);
        p->page_count = (size_t)man->ckpt[man->ckpt_now].pages;
        *bytes = tr_mem_alloc(e->mem, p->page_count * TR_PAGE + 1);
        err = *bytes != NULL ? TARRY_OK : TARRY_ENOMEM;
        if (err == TARRY_OK) { /* pages that cannot be read are bad ones */
            (void)tr_salvage_read(e, e->meta.ckpt_file[man->ckpt_now], 0, *bytes,
                                  p->page_count * TR_PAGE);
        }
        p->page_bytes = p->page_count * TR_PAGE + 1;
    }
    p->pages = *bytes;
    p->checkpoint = man->ckpt[man->ckpt_now].batch;
    if (err == TARRY_OK && *bytes != NULL) {
        err = tr_checkpoint_salvage(*bytes, p->page_count, p->checkpoint, &e->state,
                                    &p->salvage->gap);
    }
    e->state.recount = true;
    e->state.recells = true;
    e->state.redead = true;
    p->salvage->next_rid = p->salvage->gap.meta ? 0 : e->state.next_rid;
    return err;
}

/* ---- steps 5 and 6 ---- */

static int tell_old(const struct tr_engine *e)
{
    struct tr_finding f = {.fate = TR_FATE_TWICE,
                           .what = "The newest manifest is lost, the one before it is used: jobs "
                                   "that have left the log since may be lost."};

    tr_text(f.file, sizeof f.file, "man.%u", (unsigned)(1 - (e->meta.now.gen & 1)));
    tr_salvage_tell(e, &f);
    return TARRY_OK;
}

static int check_generation(struct tr_engine *e, const struct tr_replay *p)
{
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        if (p->scans[i].man_gen > e->meta.known_gen) {
            e->meta.known_gen = p->scans[i].man_gen;
        }
        if (p->scans[i].man_gen > e->meta.now.gen && !TR_MUTANT(OLD_MANIFEST)) {
            tr_engine_note(e, TR_NOTE_DAMAGE,
                           "The log knows manifest %" PRIu64 ", but the newest good one is %" PRIu64
                           ".",
                           p->scans[i].man_gen, e->meta.now.gen);
            return e->config.salvage ? tell_old(e) : TARRY_EDAMAGED;
        }
    }
    return TARRY_OK;
}

static void note_clock(struct tr_engine *e, const struct tr_replay *p)
{
    if (!e->clock.test && p->clock_us > e->clock.t_us + TR_CLOCK_SLACK_US) {
        tr_engine_note(e, TR_NOTE_WARNING,
                       "The clock is %.3f s behind the newest entry of the log: jobs will be late.",
                       (double)(p->clock_us - e->clock.t_us) / 1e6);
    }
}

/* How far the time had come of which somebody took note while the store was served. */
static void note_stood(struct tr_engine *e, const struct tr_replay *p)
{
    uint64_t told_us = e->meta.now.clock_us;

    if (e->clock.test) {
        e->stood_us = e->state.clock_us;
    } else {
        e->stood_us = p->clock_us > told_us ? p->clock_us : told_us;
    }
}

/* A test clock stands where it may have been seen; before the replay perhaps not as far. */
static void set_clock(struct tr_engine *e, uint64_t t_us)
{
    if (e->clock.test) {
        tr_clock_stand(&e->clock, t_us);
        e->load.horizon_us = t_us + e->config.near_us;
    }
}

/* Salvage: who is alive must be known before the log is applied. */
static int collect(struct tr_replay *p)
{
    int err;

    p->salvage->collecting = true;
    err = tr_replay_run(p);
    p->salvage->collecting = false;
    return err == TARRY_OK ? tr_salvage_alive(p->salvage) : err;
}

/* Checkpoint, groups, log. */
static int walk(struct tr_engine *e, struct tr_replay *p)
{
    uint8_t *bytes = NULL;
    int err = check_generation(e, p);

    if (err == TARRY_OK) {
        err = p->salvage != NULL ? salvage_checkpoint(e, p, &bytes) : read_checkpoint(e, p, &bytes);
        set_clock(e, e->state.clock_us);
    }
    if (err == TARRY_OK) {
        err = tr_regroup_open(e);
    }
    if (err == TARRY_OK && p->salvage != NULL) {
        err = collect(p);
    }
    if (err == TARRY_OK) {
        err = tr_replay_run(p);
    }
    if (bytes != NULL) {
        tr_mem_free(e->mem, bytes,
                    p->page_bytes != 0 ? p->page_bytes : p->page_count * (size_t)TR_PAGE);
    }
    return err;
}

static int replay(struct tr_engine *e, struct tr_replay *p)
{
    uint64_t start_us = e->clock.t_us;
    int err = walk(e, p);

    if (err == TARRY_OK && p->salvage != NULL) {
        err = tr_regroup_settle(e);
        err = err == TARRY_OK ? tr_salvage_weigh(p->salvage) : err;
    }
    if (err != TARRY_OK) {
        return err;
    }
    note_clock(e, p);
    note_stood(e, p);
    set_clock(e, tr_advance_begin(e, start_us));
    e->began_us = e->clock.t_us;
    if (e->stood_us > e->began_us) { /* the clock was ahead then, or is behind now */
        e->stood_us = e->began_us;
    }
    e->log.open.no = p->next_batch;
    e->log.durable = p->next_batch - 1;
    e->log.synced = p->next_batch - 1;
    e->log.man_gen = e->meta.now.gen;
    e->told_durable = e->log.durable;
    tr_state_drop_empty_topics(&e->state);
    if ((p->cut || (e->meta.now.flags & (TR_MAN_WEAK | TR_MAN_CLEAN)) == TR_MAN_WEAK) &&
        e->state.next_rid < e->meta.now.rid_limit && !TR_MUTANT(RIDS_AGAIN)) {
        e->state.next_rid = e->meta.now.rid_limit; /* what is lost may have been seen (R18) */
    }
    if (e->state.next_rid < e->meta.now.next_rid && !TR_MUTANT(RIDS_AGAIN)) {
        e->state.next_rid = e->meta.now.next_rid;
    }
    if (e->meta.now.flags & TR_MAN_COPY) { /* the store that was copied may have gone on */
        e->state.next_rid += TR_BACKUP_RIDS;
    }
    if (p->salvage != NULL) {
        tr_regroup_count(e);
        return TARRY_OK;
    }
    err = tr_regroup_check(e);
    if (err == TARRY_OK) {
        err = e->state.redead ? tr_regroup_dead(e) : TARRY_OK;
    }
    if (err == TARRY_OK) {
        err = tr_regroup_settle(e);
    }
    tr_regroup_count(e);
    return err == TARRY_OK ? tr_regroup_cells(e) : err;
}

/* Every job goes where it belongs; dead ones in the order of their deaths. */
static int schedule_all(struct tr_engine *e)
{
    struct tr_heap dead;
    struct tr_job *job;
    size_t at = 0;
    int err = TARRY_OK;

    tr_heap_init(&dead, e->mem, offsetof(struct tr_job, places[0]));
    while (err == TARRY_OK && (job = tr_jobs_next(&e->state.jobs, &at)) != NULL) {
        if (job->dead_seq != 0) {
            err = tr_heap_push(&dead, (struct tr_heap_item){.second = job->dead_seq, .what = job});
        } else if (job->lease_end_us != 0) {
            tr_handout_restore(e, job);
        } else {
            tr_change_bring(e, job);
        }
    }
    while (err == TARRY_OK && tr_heap_top(&dead) != NULL) {
        job = tr_heap_top(&dead)->what;
        tr_heap_remove(&dead, job);
        tr_change_schedule(e, job);
    }
    tr_heap_fini(&dead);
    return err;
}

/* ---- step 7 ---- */

/* Free slots get their blocks; there are to be three, but on a full disk fewer will do. */
static int make_slots(struct tr_engine *e)
{
    struct tr_log *log = &e->log;
    struct tr_io io = {.op = TR_IO_DIRSYNC};
    uint32_t want = log->tail != NULL ? TR_SLOTS_BASE - 1 : TR_SLOTS_BASE;

    for (uint32_t i = 0; i < log->slots_max; i++) {
        struct tr_slot *slot = &log->slots[i];
        int err = TARRY_OK;

        if (slot->state != TR_SLOT_ABSENT) {
            continue;
        }
        if (slot->file >= 0) {
            struct tr_io close = {.op = TR_IO_CLOSE, .file = slot->file};

            (void)run(e, &close);
            slot->file = -1;
            err = tr_space_make_now(e, i);
        } else if (log->free_count < want) {
            err = tr_space_make_now(e, i);
        }
        if (err != TARRY_OK && err != TARRY_ENOSPC) {
            return err;
        }
    }
    return run(e, &io);
}

/* Room for checkpoints: as much as is wanted, else what is needed, else what is there. */
static int make_room(struct tr_engine *e)
{
    uint64_t need = tr_checkpoint_bound(&e->state, 0);

    for (unsigned i = 0; i < 2; i++) {
        uint64_t sizes[3] = {need + need / 4 + e->config.checkpoint_slack, need,
                             e->meta.now.ckpt[i].pages * TR_PAGE};
        int err = TARRY_ENOSPC;

        for (unsigned k = 0; k < 3 && err == TARRY_ENOSPC; k++) {
            struct tr_io io = {.op = TR_IO_ALLOCATE, .file = e->meta.ckpt_file[i], .len = sizes[k]};

            err = sizes[k] != 0 && !TR_MUTANT(LATE_ALLOCATION) ? run(e, &io) : TARRY_OK;
            e->meta.ckpt_room[i] = sizes[k];
        }
        if (err == TARRY_OK) {
            err = sync_file(e, e->meta.ckpt_file[i]);
        }
        if (err != TARRY_OK) {
            return err;
        }
    }
    return TARRY_OK;
}

static void new_store(struct tr_engine *e)
{
    struct tr_manifest *man = &e->meta.now;

    *man = (struct tr_manifest){.slot_bytes = e->config.slot_bytes};
    for (unsigned i = 0; i < TR_UUID; i++) {
        man->uuid[i] = (uint8_t)tr_rng_next(&e->rng);
        man->key[i] = (uint8_t)tr_rng_next(&e->rng);
    }
    memcpy(e->log.uuid, man->uuid, TR_UUID);
    memcpy(e->state.keys.keyer.secret, man->key, TR_SIPHASH_KEY);
}

/* The manifests have their room from the start, so that no write of one ever lacks space. */
static int make_manifest_room(struct tr_engine *e)
{
    int err = TARRY_OK;

    for (unsigned i = 0; i < 2 && err == TARRY_OK; i++) {
        struct tr_io io = {.op = TR_IO_ALLOCATE,
                           .file = e->meta.man_file[i],
                           .len = (uint64_t)TR_MANIFEST_COPIES * TR_MANIFEST_COPY};

        err = run(e, &io);
    }
    return err;
}

/* A new store that has not even its base is of no use: what was made of it is removed again. */
static int check_base(struct tr_engine *e)
{
    bool room = e->meta.ckpt_room[0] != 0 && e->meta.ckpt_room[1] != 0;

    if (e->meta.now.gen != 0 || (e->log.free_count >= TR_SLOTS_BASE && room)) {
        return TARRY_OK;
    }
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        struct tr_io io = {.op = TR_IO_UNLINK};

        tr_log_slot_name(io.name, i);
        if (e->log.slots[i].file >= 0) {
            (void)run(e, &io);
        }
    }
    return TARRY_ENOSPC;
}

static int prepare(struct tr_engine *e)
{
    int err = make_manifest_room(e);

    if (err == TARRY_OK) {
        err = make_slots(e);
    }
    if (err == TARRY_OK) {
        err = make_room(e);
    }
    if (err == TARRY_OK || err == TARRY_ENOSPC) {
        int base = check_base(e);

        err = base != TARRY_OK ? base : err;
    }
    if (err == TARRY_OK) {
        err = tr_regroup_clean(e);
    }
    if (err == TARRY_OK) {
        e->epoch = e->meta.now.epoch + 1;
        e->epoch += e->meta.now.flags & TR_MAN_COPY ? TR_BACKUP_EPOCHS : 0;
        e->groups.next_no = (e->epoch << 20) + 1; /* a number is never used again */
        err = tr_meta_write_now(e, false, 0);
    }
    return err;
}

/* What was salvaged becomes a good store again. */
static int mend(struct tr_engine *e)
{
    int err = make_manifest_room(e);

    if (err == TARRY_OK) {
        err = make_room(e);
    }
    return err == TARRY_OK ? tr_repair(e) : err;
}

/* A store that is only looked at stays as it is; its log goes nowhere. */
static int look_around(struct tr_engine *e)
{
    e->epoch = e->meta.now.epoch;
    e->idle_at = TR_NEVER;
    e->meta.ckpt_room[0] = UINT64_MAX; /* no checkpoint is made, so there is room for any */
    e->meta.ckpt_room[1] = UINT64_MAX;
    return TARRY_OK;
}

/* ---- opening ---- */

/* Is this a store whose making was cut short? Then no slot was ever written to. */
static int check_new(const struct tr_engine *e, const struct tr_replay *p)
{
    if (!p->blank) {
        tr_engine_note(e, TR_NOTE_DAMAGE, "There is a log, but no manifest can be read.");
        return TARRY_EDAMAGED;
    }
    return e->config.read_only ? TARRY_ENOTFOUND : TARRY_OK;
}

static int recover(struct tr_engine *e, struct tr_replay *p, bool fresh)
{
    int err = tr_replay_scan(p);

    if (err != TARRY_OK) {
        return err;
    }
    if (!fresh) {
        return replay(e, p);
    }
    err = check_new(e, p);
    if (err == TARRY_OK) {
        new_store(e);
    }
    return err;
}

/* A store keeps its slot size; what does not fit into such a slot is not accepted. */
static int fit_config(struct tr_engine *e, uint64_t slot_bytes)
{
    struct tr_engine_config *c = &e->config;
    uint64_t room = slot_bytes - 8 * (uint64_t)TR_BLOCK;

    if (slot_bytes < 16 * (uint64_t)TR_BLOCK || slot_bytes % TR_BLOCK != 0 ||
        slot_bytes > UINT64_C(1) << 30) {
        return TARRY_EINVAL;
    }
    if (c->batch_bytes > room) {
        c->batch_bytes = room;
    }
    if (c->body_max > TR_BODY_MAX) {
        c->body_max = TR_BODY_MAX;
    }
    if (c->body_max > room - 4 * (uint64_t)TR_RECORD_HEAD_MAX) {
        c->body_max = (uint32_t)(room - 4 * (uint64_t)TR_RECORD_HEAD_MAX);
    }
    return TARRY_OK;
}

/* What was made by one clock makes no sense by the other. */
static int check_clock(struct tr_engine *e)
{
    bool test = (e->meta.now.flags & TR_MAN_TEST_CLOCK) != 0;

    if (test == e->config.test_clock) {
        return TARRY_OK;
    }
    if (e->config.salvage || e->config.read_only) { /* who only looks takes what is there */
        e->config.test_clock = test;
        if (test) {
            tr_clock_stand(&e->clock, e->now.wall_us);
        } else {
            tr_clock_init(&e->clock, e->now);
        }
        return TARRY_OK;
    }
    tr_engine_note(e, TR_NOTE_FATAL,
                   test ? "The store was made with the test clock: it opens only with --test-clock "
                          "(clock.test = on)."
                        : "The store was made without the test clock: it opens only without "
                          "--test-clock (clock.test = off). Take another data directory.");
    return TARRY_EINVAL;
}

static int open_store(struct tr_engine *e, uint8_t *present)
{
    struct tr_replay p = {.e = e};
    struct tr_salvage salvage;
    uint64_t slot_bytes;
    bool fresh;
    int err = open_files(e); /* the lock first: nobody makes slots while they are listed */

    if (err == TARRY_OK) {
        err = list_slots(e, present);
    }
    if (err == TARRY_OK) {
        err = read_manifest(e);
    }
    fresh = err == TARRY_ENOTFOUND;
    if (err == TARRY_OK) {
        err = check_clock(e);
    }
    if (err != TARRY_OK && !fresh) {
        return err;
    }
    e->was_clean = !fresh && (e->meta.now.flags & TR_MAN_CLEAN) != 0;
    slot_bytes = fresh ? e->config.slot_bytes : e->meta.now.slot_bytes;
    err = fit_config(e, slot_bytes);
    if (err == TARRY_EINVAL && !fresh) {
        tr_engine_note(e, TR_NOTE_DAMAGE, "The manifest names slots of %" PRIu64 " bytes.",
                       slot_bytes);
        err = TARRY_EDAMAGED;
    }
    if (err == TARRY_OK) {
        err = tr_log_init(&e->log, &e->config, e->disk, slot_bytes, tr_rng_next(&e->rng));
    }
    if (err != TARRY_OK) {
        return err;
    }
    memcpy(e->log.uuid, e->meta.now.uuid, TR_UUID);
    memcpy(e->state.keys.keyer.secret, e->meta.now.key, TR_SIPHASH_KEY);
    e->state.keys.keyer.bits = e->config.key_bits;
    e->state.slots = e->log.slots;
    err = open_slots(e, present);
    p.bytes = tr_mem_alloc(e->mem, slot_bytes);
    p.scans = tr_mem_alloc(e->mem, e->log.slots_max * sizeof *p.scans);
    if (p.bytes == NULL || p.scans == NULL) {
        err = TARRY_ENOMEM;
    }
    if (e->config.salvage) {
        tr_salvage_init(&salvage, e);
        p.salvage = &salvage;
    }
    if (err == TARRY_OK) {
        err = recover(e, &p, fresh);
    }
    if (e->config.salvage) {
        tr_salvage_fini(&salvage);
    }
    tr_mem_free(e->mem, p.bytes, slot_bytes);
    tr_mem_free(e->mem, p.scans, e->log.slots_max * sizeof *p.scans);
    return err;
}

static void init(struct tr_engine *e, struct tr_disk d, uint64_t seed, struct tr_now now)
{
    e->disk = d;
    e->rng.state = seed;
    e->now = now;
    tr_clock_init(&e->clock, now);
    if (e->config.test_clock) {
        tr_clock_stand(&e->clock,
                       e->config.clock_start_us != 0 ? e->config.clock_start_us : now.wall_us);
    }
    tr_state_init(&e->state, e->mem);
    e->state.cells.count_max = e->config.cells_max;
    e->state.cells.hour_us = e->config.hour_us;
    e->state.topics.near_min = e->config.near_min != 0 ? e->config.near_min : 1;
    e->state.topics.meters.max =
        e->config.meters < TR_METERS_MAX ? e->config.meters : TR_METERS_MAX;
    e->state.topics.near_max = e->config.near_max;
    tr_groups_init(&e->groups, e->mem);
    tr_histories_init(&e->histories, e->clock.t_us);
    e->histories.keep_us = e->config.history_us;
    e->histories.bytes_max = e->config.history_bytes;
    e->state.groups = &e->groups;
    tr_wheel_init(&e->due, now.wall_us);
    tr_wheel_init(&e->crowd, now.wall_us);
    tr_wheel_init(&e->edges, now.wall_us);
    tr_wheel_init(&e->leases, now.boot_us);
    tr_wheel_init(&e->waits, now.boot_us);
    tr_wheel_init(&e->warns, now.boot_us);
    tr_wheel_init(&e->expiries, now.wall_us);
    tr_occur_init(e);
    tr_wheel_init(&e->drops, now.wall_us);
    tr_wheel_init(&e->pauses, now.boot_us);
    tr_wheel_init(&e->resumes, now.wall_us);
    tr_wheel_init(&e->tokens, now.boot_us);
    tr_map_init(&e->holders, e->mem);
    tr_list_init(&e->dirty);
    tr_list_init(&e->reads);
    tr_list_init(&e->waiting);
    e->lazy_at = TR_NEVER;
    e->seal_at = TR_NEVER;
    e->sync_at = TR_NEVER;
    e->checkpoint_at = TR_NEVER;
    e->idle_at = now.boot_us + e->config.idle_us;
    e->calm_at = TR_NEVER;
    e->space.retry_at = TR_NEVER;
    e->meta.lock_file = -1;
    e->backup.file = -1;
    for (unsigned i = 0; i < 2; i++) {
        e->meta.man_file[i] = -1;
        e->meta.ckpt_file[i] = -1;
    }
}

static int open_engine(struct tr_engine **out, const struct tr_engine_config *c, struct tr_disk d,
                       uint64_t seed, struct tr_now now)
{
    struct tr_engine *e = tr_mem_alloc(c->mem, sizeof *e);
    uint8_t *present;
    int err;

    *out = NULL;
    if (e == NULL) {
        return TARRY_ENOMEM;
    }
    if (c->slots_max < TR_SLOTS_BASE || c->slots_max > TR_MANIFEST_SLOTS_MAX) {
        tr_mem_free(c->mem, e, sizeof *e);
        return TARRY_EINVAL;
    }
    e->config = *c;
    e->mem = c->mem;
    init(e, d, seed, now);
    tr_load_open(e);
    e->meta.man_buf = tr_mem_alloc(e->mem, TR_MANIFEST_COPY);
    present = tr_mem_alloc(e->mem, TR_MANIFEST_SLOTS_MAX);
    err = tr_fetch_init(e);
    if (err == TARRY_OK) {
        err = tr_refill_init(e);
    }
    if (err == TARRY_OK) {
        err = e->meta.man_buf != NULL && present != NULL ? open_store(e, present) : TARRY_ENOMEM;
    }
    tr_mem_free(e->mem, present, TR_MANIFEST_SLOTS_MAX);
    if (err == TARRY_OK) {
        err = schedule_all(e);
    }
    if (err == TARRY_OK) {
        err = e->config.read_only ? look_around(e) : e->config.salvage ? mend(e) : prepare(e);
        tr_load_begin(e);
        tr_policies_begin(e);
        tr_drop_begin(e);
    }
    if (err == TARRY_OK) {
        err = tr_occur_begin(e);
    }
    if (err == TARRY_OK && !e->config.read_only && !e->config.salvage) {
        err = tr_advance_open(e);
    }
    e->histories.since_us = e->clock.t_us;
    if (err == TARRY_OK) {
        tr_past_load(e, e->was_clean);
    }
    if (err != TARRY_OK) {
        tr_engine_close_files(e);
        tr_engine_free(e);
        return err;
    }
    *out = e;
    return TARRY_OK;
}

/*
 * The limit of memory counts from when the store is open: what was taken in must be had back, and
 * that takes more for a while than it took to run. What it takes in the end, and half of that to
 * hand jobs out and take them back, is allowed whatever the limit says.
 */
static void limit_memory(struct tr_engine *e, uint64_t limit)
{
    uint64_t least = e->mem->used_bytes + e->mem->used_bytes / 2;

    e->mem->limit_bytes = limit;
    if (limit != 0 && limit < least) {
        e->mem->limit_bytes = least;
        tr_engine_note(e, TR_NOTE_WARNING,
                       "The store takes %" PRIu64 " MiB of memory, so the limit for it is %" PRIu64
                       " MiB instead of %" PRIu64 " until the next start.",
                       e->mem->used_bytes >> 20, least >> 20, limit >> 20);
    }
}

int tr_engine_open(struct tr_engine **out, const struct tr_engine_config *c, struct tr_disk d,
                   uint64_t seed, struct tr_now now)
{
    uint64_t limit = c->mem->limit_bytes;
    int err;

    c->mem->limit_bytes = 0;
    err = open_engine(out, c, d, seed, now);
    c->mem->limit_bytes = limit;
    if (err == TARRY_OK) {
        limit_memory(*out, limit);
    }
    return err;
}
