/*
 * Promotion: from slots to run files.
 *
 *     choose     the oldest sealed slots; their live jobs, in slices (promote_choose.c)
 *     read       the slots, whole
 *     sort       by due time; dead ones by (topic, dead_seq) (promote_make.c)
 *     write      the runs, then the sidecar; sync each; DIRSYNC
 *     manifest   that names the group
 *     switch     who is still alive and still where it was is in the run from now on
 *
 * Until the switch nothing has changed for anybody: the slots are whole, and a crash leaves files
 * that the next start removes. After the manifest both places are good. A slot that has no live
 * record left is freed as ever (space.c): by a later manifest, when both checkpoints are past it.
 *
 * Long calculations are done away from the loop (TR_IO_CALL): they touch nothing but this struct.
 *
 * What is written is what a job is now: for one that was altered, the fields in memory. Such a
 * change may not be durable yet, so the manifest waits for the log to be synced that far (R19).
 *
 * Only rids behind those of all groups are taken, so ranges stay disjoint. An older one, which was
 * written again (RELOG), stays in its slot and is written again when that is emptied.
 *
 * A failure (no space, an error) throws the files away (R9) and tries again a second later, the
 * next time two seconds later, and so on, up to a minute.
 */

#include "engine/promote.h"

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

enum { RETRY_US = 1000000, FAILURES_MAX = 6, PAUSE_US = 200000, SYNC_BYTES = 4 << 20, AHEAD = 6 };

/* ---- memory ---- */

void *tr_promote_memory(struct tr_engine *e, size_t size)
{
    return tr_mem_stretch(e->mem, NULL, 0, size);
}

static void drop(struct tr_engine *e, void *p, size_t size)
{
    if (p != NULL) {
        tr_mem_free(e->mem, p, size);
    }
}

/* What the runs were made from is not needed for the sidecar. */
static void drop_sources(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    for (unsigned i = 0; i < p->slot_count; i++) {
        drop(e, p->bytes[i], p->slot_bytes);
        p->bytes[i] = NULL;
    }
    drop(e, p->singles, p->single_bytes);
    p->singles = NULL;
    for (unsigned i = 0; i < p->input_count; i++) {
        drop(e, p->streams[i].buf, p->streams[i].room);
        p->streams[i].buf = NULL;
    }
    drop(e, p->order, p->room * sizeof *p->order);
    p->order = NULL;
}

/* Gives all memory back. */
void tr_promote_clear(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    tr_far_walk_end(&p->walk);
    drop_sources(e);
    for (unsigned i = 0; i < p->input_count; i++) {
        p->inputs[i]->merging = false;
    }
    if (p->merge) {
        tr_bitmap_fini(&p->taken);
    }
    drop(e, p->chosen, p->room * sizeof *p->chosen);
    drop(e, p->changes, p->change_room * sizeof *p->changes);
    drop(e, p->side_jobs, p->room * sizeof *p->side_jobs);
    drop(e, p->buf, p->buf_room);
    if (p->writing_run) {
        tr_run_fini(&p->writer);
    }
    if (p->building) {
        tr_side_build_fini(&p->build);
    }
    *p = (struct tr_promote){.number = p->number,
                             .retry_at = p->retry_at,
                             .failures = p->failures,
                             .strays = p->strays,
                             .made = p->made,
                             .bytes_written = p->bytes_written};
}

void tr_promote_fini(struct tr_engine *e)
{
    tr_promote_clear(e); /* a group in the making is in the table of groups */
}

/* ---- steps ---- */

static void send(struct tr_engine *e, enum tr_promote_step step, struct tr_io io)
{
    struct tr_promote *p = &e->promote;

    p->step = step;
    p->sent_us = e->now.boot_us;
    p->io = io;
    p->io.lane = TR_LANE_BACK;
    e->disk.ops->submit(e->disk.ctx, &p->io);
}

static void call(struct tr_engine *e, enum tr_promote_step step, void (*what)(void *ctx))
{
    send(e, step, (struct tr_io){.op = TR_IO_CALL, .call = what, .buf = &e->promote});
}

static void read_slot(struct tr_engine *e, enum tr_io_op op)
{
    struct tr_promote *p = &e->promote;

    p->slots[p->at]->readers++;
    send(
        e, TR_PROMOTE_READ,
        (struct tr_io){
            .op = op, .file = p->slots[p->at]->file, .len = p->slot_bytes, .buf = p->bytes[p->at]});
}

void tr_promote_read(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    p->bytes[p->at] = tr_promote_memory(e, p->slot_bytes);
    if (p->bytes[p->at] == NULL) {
        tr_promote_give_up(e, TARRY_ENOMEM);
        return;
    }
    read_slot(e, TR_IO_READ);
}

/* The next record of another slot; then all are sorted. What cannot be read has a bad crc. */
static void read_single(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    struct tr_chosen *c;

    if (p->off == p->single_bytes) { /* mostly there are none, and millions of others */
        call(e, TR_PROMOTE_SORT, tr_promote_sort);
        return;
    }
    while (p->chosen[p->next].slot < p->slot_count) {
        p->next++;
        TR_CHECK(p->next < p->count);
    }
    c = &p->chosen[p->next++];
    p->slots[c->slot]->readers++;
    send(e, TR_PROMOTE_SINGLES,
         (struct tr_io){.op = TR_IO_READ,
                        .file = p->slots[c->slot]->file,
                        .off = c->off,
                        .len = c->len,
                        .buf = p->singles + p->off});
    c->off = (uint32_t)p->off;
    p->off += c->len;
}

static void single_read(struct tr_engine *e, const struct tr_io *io)
{
    struct tr_promote *p = &e->promote;

    p->slots[p->chosen[p->next - 1].slot]->readers--;
    if (io->status != TARRY_OK || io->got != io->len) {
        memset(io->buf, 0, io->len); /* it stays where it is */
    }
    if (e->failed) {
        tr_promote_give_up(e, TARRY_EIO);
    } else {
        read_single(e);
    }
}

static void read_singles(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    p->next = 0;
    p->off = 0;
    p->singles = p->single_bytes != 0 ? tr_promote_memory(e, p->single_bytes) : NULL;
    if (p->single_bytes != 0 && p->singles == NULL) {
        tr_promote_give_up(e, TARRY_ENOMEM);
        return;
    }
    read_single(e);
}

/* An error is looked at twice, the second time around the page cache. */
static void slot_read(struct tr_engine *e, const struct tr_io *io)
{
    struct tr_promote *p = &e->promote;
    bool ok = io->status == TARRY_OK && io->got == p->slot_bytes;

    p->slots[p->at]->readers--;
    if (!ok && io->op == TR_IO_READ && !e->failed) {
        read_slot(e, TR_IO_READ_DIRECT);
    } else if (!ok) {
        p->slots[p->at]->stuck = true;
        tr_promote_give_up(e, TARRY_EIO);
    } else if (++p->at < p->slot_count) {
        tr_promote_read(e);
    } else {
        read_singles(e);
    }
}

static int *file_of(struct tr_promote *p, bool side)
{
    return side ? &p->group->side_file : &p->group->runs[p->run].file;
}

static void open_file(struct tr_engine *e, enum tr_promote_step step, enum tr_group_file which)
{
    struct tr_io io = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE};

    tr_group_name(io.name, e->promote.group->is.no, which);
    e->promote.off = 0;
    e->promote.synced = 0;
    e->promote.part_us = e->now.boot_us;
    send(e, step, io);
}

static void fill(struct tr_engine *e)
{
    call(e, TR_PROMOTE_RUN_FILL, e->promote.merge ? tr_merge_fill : tr_promote_fill);
}

static void start_run(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    struct tr_run_of of = tr_group_run_of(p->group, p->run, e->log.uuid);

    tr_run_init(&p->writer, &p->mem, &of, p->run == TR_GROUP_DEAD);
    p->writing_run = true;
    p->footer = false;
    fill(e);
}

static bool run_begins(struct tr_promote *p)
{
    if (p->merge) {
        return tr_merge_start_run(p);
    }
    p->next = p->run == TR_GROUP_LIVE ? 0 : p->dead_from;
    p->run_end = p->run == TR_GROUP_LIVE ? p->dead_from : p->count;
    return p->next < p->run_end;
}

static void run_ends(struct tr_promote *p)
{
    tr_run_fini(&p->writer);
    p->writing_run = false;
    p->footer = false;
    p->run++;
}

/* The next run that has something in it, or the sidecar. */
void tr_promote_next_run(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    while (p->run < TR_GROUP_RUNS) {
        if (run_begins(p)) {
            start_run(e);
            return;
        }
        p->run++;
    }
    drop_sources(e);
    if (p->merge && !tr_merge_complete(p)) { /* a live record is missing: the old ones stay */
        tr_promote_give_up(e, TARRY_EDAMAGED);
        return;
    }

    struct tr_side_input in = {.of = tr_group_side_of(p->group, e->log.uuid),
                               .rid_first = p->group->is.rid_first,
                               .rid_last = p->group->is.rid_last,
                               .jobs = p->side_jobs,
                               .job_count = (uint32_t)p->side_count,
                               .keyed_max = (uint32_t)p->keyed_count,
                               .moved_max = (uint32_t)p->side_count};

    if (p->side_count == 0 || tr_side_build_init(&p->build, &p->mem, &in) != TARRY_OK) {
        tr_promote_give_up(e, TARRY_ENOMEM);
        return;
    }
    p->building = true;
    call(e, TR_PROMOTE_SIDE_BUILD, tr_promote_build);
}

/* Memory for the longest record, too. */
static bool make_buffer(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    p->buf_room =
        (p->longest + 3 * (size_t)TR_RUN_BLOCK + TR_PROMOTE_BUFFER) / TR_SIDE_PAGE * TR_SIDE_PAGE;
    p->buf = tr_promote_memory(e, p->buf_room);
    return p->buf != NULL;
}

static void write_some(struct tr_engine *e, enum tr_promote_step step, bool side)
{
    struct tr_promote *p = &e->promote;
    const uint8_t *from = p->footer ? p->writer.footer : p->buf;

    p->piece = (struct tr_piece){from + p->buf_done, p->buf_len - p->buf_done};
    send(e, step,
         (struct tr_io){.op = TR_IO_WRITE,
                        .file = *file_of(p, side),
                        .off = p->off + p->buf_done,
                        .len = p->piece.len,
                        .pieces = &p->piece,
                        .piece_count = 1});
}

/* True: the rest of the buffer is being written. */
static bool write_on(struct tr_engine *e, const struct tr_io *io, bool side)
{
    struct tr_promote *p = &e->promote;

    p->buf_done += io->got;
    if (p->buf_done < p->buf_len) {
        write_some(e, p->step, side);
        return true;
    }
    p->off += p->buf_len;
    p->bytes_written += p->buf_len;
    return false;
}

/* The footer stays in memory. */
static int keep_footer(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    struct tr_run_of of = tr_group_run_of(p->group, p->run, e->log.uuid);
    struct tr_run_trailer trailer;
    uint8_t *copy = tr_promote_memory(e, p->writer.footer_len);
    int err;

    if (copy == NULL) {
        return TARRY_ENOMEM;
    }
    memcpy(copy, p->writer.footer, p->writer.footer_len);
    p->group->is.bytes[p->run] = (uint32_t)p->off;
    err = tr_run_trailer(copy + p->writer.footer_len - TR_RUN_TRAILER, &of, p->off, &trailer);
    if (err == TARRY_OK) {
        err = tr_group_take_footer(p->group, p->run, &of, &trailer, copy);
    }
    if (err != TARRY_OK) {
        drop(e, copy, p->writer.footer_len);
    }
    return err;
}

/*
 * Pace: commits share the disk. What is written is synced every few megabytes, so that no sync is
 * long, and then nothing is written for as long as that took, nor before the rate allows it, which
 * follows what commits feel (pace.c); unless nobody is there to be disturbed, or the ring fills up.
 */
static void pace(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    uint64_t took = e->now.boot_us - p->sent_us;
    uint64_t rate = tr_pace_rate(&e->pace, e->config.background_rate);
    uint64_t until = rate != 0 ? p->part_us + UINT64_C(1000000) * SYNC_BYTES / rate : 0;

    if (e->space.idle || tr_promote_pressed(e)) {
        p->part_us = e->now.boot_us;
        fill(e);
        return;
    }
    p->step = TR_PROMOTE_PAUSE;
    p->pause_until = e->now.boot_us + (took < PAUSE_US ? took : PAUSE_US);
    p->pause_until = until > p->pause_until ? until : p->pause_until;
}

static void run_written(struct tr_engine *e, const struct tr_io *io)
{
    struct tr_promote *p = &e->promote;
    int err;

    if (write_on(e, io, false)) {
        return;
    }
    if (p->footer) {
        err = keep_footer(e);
        if (err != TARRY_OK) {
            tr_promote_give_up(e, err);
        } else {
            send(e, TR_PROMOTE_RUN_SYNC,
                 (struct tr_io){.op = TR_IO_SYNC, .file = *file_of(p, false)});
        }
    } else if (p->writer.footer != NULL) {
        p->footer = true;
        p->buf_len = p->writer.footer_len;
        p->buf_done = 0;
        write_some(e, TR_PROMOTE_RUN_WRITE, false);
    } else if (p->off - p->synced >= SYNC_BYTES) {
        p->synced = p->off;
        send(e, TR_PROMOTE_PART_SYNC, (struct tr_io){.op = TR_IO_SYNC, .file = *file_of(p, false)});
    } else {
        fill(e);
    }
}

static void run_filled(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    bool none = p->buf_len == 0;

    if (p->failed != TARRY_OK) {
        tr_promote_give_up(e, p->failed);
    } else if (!none && *file_of(p, false) < 0) {
        open_file(e, TR_PROMOTE_RUN_OPEN, (enum tr_group_file)p->run);
    } else if (none && p->merge && p->hungry != NULL) {
        send(e, TR_PROMOTE_REFILL, tr_merge_read(p));
    } else if (none && p->merge && p->writer.stat.jobs == 0) { /* all of this kind have died */
        run_ends(p);
        tr_promote_next_run(e);
    } else if (none && p->writer.stat.jobs == 0) { /* none can be read: without these slots, then */
        for (size_t i = 0; i < p->count; i++) {
            p->slots[p->chosen[i].slot]->stuck |= p->chosen[i].bad;
        }
        tr_promote_give_up(e, TARRY_EDAMAGED);
    } else {
        write_some(e, TR_PROMOTE_RUN_WRITE, false);
    }
}

/* The files of the group are durable under their names: a manifest may name it. */
static void files_done(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    p->step = TR_PROMOTE_MANIFEST;
    if (TR_MUTANT(MERGE_FREED_EARLY) && p->merge) {
        tr_promote_adopted(e);
    }
}

static bool promote_offers(const struct tr_engine *e)
{
    const struct tr_promote *p = &e->promote;

    return p->step == TR_PROMOTE_MANIFEST && e->log.synced >= p->batch;
}

void tr_promote_adopted(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    p->step = TR_PROMOTE_SWITCH;
    if (p->merge) {
        tr_merge_adopted(e);
        return;
    }
    tr_groups_add(&e->groups, p->group);
    p->next = 0;
    p->made++;
    p->failures = 0;
}

void tr_promote_list(const struct tr_engine *e, struct tr_manifest *next)
{
    const struct tr_promote *p = &e->promote;
    bool offers = promote_offers(e);

    next->group_count = 0;
    for (uint32_t i = 0; i < e->groups.count; i++) {
        const struct tr_group *g = e->groups.order[i];

        if (offers && g->merging) {
            g = g == p->inputs[0] ? p->group : NULL; /* in place of all of them */
        }
        if (g != NULL && (g != e->retire.group || !e->retire.ready)) {
            next->groups[next->group_count++] = tr_group_described(g);
        }
    }
    if (offers && !p->merge && p->group != NULL) {
        next->groups[next->group_count++] = p->group->is;
    }
}

/* Nothing in these slots is for a group any more, unless they hold something else by now. */
static void leave_rest(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    for (unsigned i = 0; i < p->slot_count; i++) {
        if (p->slots[i]->seg_no == p->segments[i]) {
            p->slots[i]->last_rid = 0;
        }
    }
}

/* ---- the switch ---- */

/* Forgets a far entry of the slot: the run has it. False: it is being loaded, and comes into memory
 * first. */
static bool switch_far(struct tr_engine *e, const struct tr_chosen *c)
{
    struct tr_promote *p = &e->promote;
    const struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, c->rid);

    if (entry == NULL || entry->slot != p->slots[c->slot]->number) {
        return true;
    }
    if (entry->loading) {
        return false;
    }
    tr_state_far_to_run(&e->state, c->rid);
    p->group->runs[TR_GROUP_LIVE].live += !TR_MUTANT(RUN_NOT_COUNTED);
    p->group->runs[TR_GROUP_LIVE].live_bytes += c->len;
    return true;
}

/* From now on nobody who is in the run has its place elsewhere: a start relies on that (regroup.c).
 * What the run took in of changes is no change any more. */
static bool switch_one(struct tr_engine *e, const struct tr_chosen *c)
{
    struct tr_promote *p = &e->promote;
    struct tr_slot *run = &p->group->runs[c->dead ? TR_GROUP_DEAD : TR_GROUP_LIVE];
    struct tr_job *job = tr_jobs_by_rid(&e->state.jobs, c->rid);

    if (c->bad || !tr_bitmap_test(&e->state.jobs.alive, c->rid)) {
        return true;
    }
    if (job == NULL) {
        return switch_far(e, c);
    }
    if (job->slot == p->slots[c->slot]) {
        TR_CHECK(!job->relogging);
        tr_job_unplace(job, 0);
        tr_job_place(job, run, c->off, c->len);
        if (c->change != 0) {
            struct tr_record written = tr_promote_change(p, c);

            tr_state_absorb(&e->state, job, &written);
            (void)tr_load_send_far(e, job);
        }
    }
    return true;
}

/* The last one first: what leaves a page of the table then leaves it at its end. */
static const struct tr_chosen *backwards(const struct tr_promote *p, size_t i)
{
    return &p->chosen[p->count - 1 - i];
}

/* Their entries go page by page, but each of these would be waited for. */
static void look_ahead(const struct tr_engine *e)
{
    const struct tr_promote *p = &e->promote;

    for (unsigned step = 0; step < TR_FAR_STEPS; step++) {
        size_t at = p->next + (size_t)(TR_FAR_STEPS - step) * AHEAD;

        if (at < p->count) {
            tr_far_soon(&e->state.jobs.far, backwards(p, at)->rid, step);
        }
    }
}

static void switch_some(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    if (p->merge && !tr_merge_switch(e)) {
        return;
    }
    for (; p->next < p->count; p->next++) {
        if (!tr_engine_charge(e, 1)) {
            return;
        }
        look_ahead(e);
        p->waits = !switch_one(e, backwards(p, p->next));
        if (p->waits) {
            return;
        }
    }
    if (p->group->runs[TR_GROUP_LIVE].file >= 0) {
        uint64_t first = p->group->footers[TR_GROUP_LIVE].stat.due_first;

        tr_fetch_again(e, p->group);
        p->group->next_block = 0; /* a sweep that came by saw them in their slots still */
        e->load.next_us = first < e->load.next_us ? first : e->load.next_us;
    }
    leave_rest(e); /* what was left behind is written again */
    e->merge.looked = 0;
    tr_promote_clear(e);
    tr_rest_begin(e);
}

/* ---- giving up ---- */

static void undo_next(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    struct tr_io io = {.op = TR_IO_CLOSE};

    for (unsigned i = 0; i < TR_GROUP_FILES; i++) {
        int *file = i == TR_GROUP_SIDE ? &p->group->side_file : &p->group->runs[i].file;

        if (*file >= 0) {
            io.file = *file;
            *file = -1;
            send(e, TR_PROMOTE_UNDO, io);
            return;
        }
    }
    if (p->at < TR_GROUP_FILES) {
        io.op = TR_IO_UNLINK;
        tr_group_name(io.name, p->group->is.no, (enum tr_group_file)p->at++);
        send(e, TR_PROMOTE_UNDO, io);
        return;
    }
    tr_group_free(&e->groups, p->group);
    p->group = NULL;
    tr_promote_clear(e);
}

void tr_promote_give_up(struct tr_engine *e, int why)
{
    struct tr_promote *p = &e->promote;

    e->past_file.unwanted |= why == TARRY_ENOSPC;
    if (p->merge) {
        tr_merge_failed(e, why);
    } else {
        p->retry_at = why != TARRY_OK ? e->now.boot_us + ((uint64_t)RETRY_US << p->failures) : 0;
        p->failures += why != TARRY_OK && p->failures < FAILURES_MAX;
    }
    if (why == TARRY_OK) {
        leave_rest(e);
    }
    if (p->group == NULL) {
        tr_promote_clear(e);
        return;
    }
    p->at = 0;
    undo_next(e);
}

/* ---- turns ---- */

static void side_opened(struct tr_engine *e)
{
    call(e, TR_PROMOTE_SIDE_FILL, tr_promote_pages);
}

static void side_filled(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    if (p->off == 0) { /* the head and the fences are in the first buffer, or it is too small */
        int err = tr_sidecar_head(&p->group->side, &p->build.in.of, p->buf);

        if (err == TARRY_OK &&
            (uint64_t)(1 + p->group->side.fence_pages) * TR_SIDE_PAGE > p->buf_len) {
            err = TARRY_EFULL;
        }
        if (err == TARRY_OK) {
            err = tr_sidecar_load(&p->group->side, e->mem, p->buf + TR_SIDE_PAGE);
        }
        if (err != TARRY_OK) {
            tr_promote_give_up(e, err);
            return;
        }
    }
    if (p->buf_len != 0) {
        write_some(e, TR_PROMOTE_SIDE_WRITE, true);
    } else {
        p->group->is.bytes[TR_GROUP_SIDE] = (uint32_t)p->off;
        send(e, TR_PROMOTE_SIDE_SYNC,
             (struct tr_io){.op = TR_IO_SYNC, .file = p->group->side_file});
    }
}

static void step_done(struct tr_engine *e, const struct tr_io *io)
{
    struct tr_promote *p = &e->promote;

    switch (p->step) {
    case TR_PROMOTE_SORT:
        if (make_buffer(e)) {
            tr_promote_next_run(e);
        } else {
            tr_promote_give_up(e, TARRY_ENOMEM);
        }
        break;
    case TR_PROMOTE_RUN_OPEN:
        *file_of(p, false) = io->file;
        write_some(e, TR_PROMOTE_RUN_WRITE, false);
        break;
    case TR_PROMOTE_REFILL: /* a read that failed is tried block by block */
        p->hungry->failed = io->status != TARRY_OK || io->got != io->len;
        fill(e);
        break;
    case TR_PROMOTE_PART_SYNC:
        pace(e);
        break;
    case TR_PROMOTE_RUN_FILL:
        run_filled(e);
        break;
    case TR_PROMOTE_RUN_WRITE:
        run_written(e, io);
        break;
    case TR_PROMOTE_RUN_SYNC:
        run_ends(p);
        tr_promote_next_run(e);
        break;
    case TR_PROMOTE_SIDE_BUILD:
        open_file(e, TR_PROMOTE_SIDE_OPEN, TR_GROUP_SIDE);
        break;
    case TR_PROMOTE_SIDE_OPEN:
        p->group->side_file = io->file;
        side_opened(e);
        break;
    case TR_PROMOTE_SIDE_FILL:
        side_filled(e);
        break;
    case TR_PROMOTE_SIDE_WRITE:
        if (!write_on(e, io, true)) {
            side_opened(e);
        }
        break;
    case TR_PROMOTE_SIDE_SYNC:
        if (TR_MUTANT(GROUP_NO_DIRSYNC)) {
            files_done(e);
        } else {
            send(e, TR_PROMOTE_DIRSYNC, (struct tr_io){.op = TR_IO_DIRSYNC});
        }
        break;
    case TR_PROMOTE_DIRSYNC:
        files_done(e);
        break;
    default:
        break;
    }
}

void tr_promote_io_done(struct tr_engine *e, struct tr_io *io)
{
    struct tr_promote *p = &e->promote;

    if (p->step == TR_PROMOTE_READ) {
        slot_read(e, io);
    } else if (p->step == TR_PROMOTE_SINGLES) {
        single_read(e, io);
    } else if (p->step == TR_PROMOTE_UNDO) {
        undo_next(e);
    } else if ((io->status != TARRY_OK && p->step != TR_PROMOTE_REFILL) || e->failed) {
        if (p->step == TR_PROMOTE_RUN_OPEN || p->step == TR_PROMOTE_SIDE_OPEN) {
            *file_of(p, p->step == TR_PROMOTE_SIDE_OPEN) = -1;
        }
        tr_promote_give_up(e, io->status != TARRY_OK ? io->status : TARRY_EIO);
    } else {
        step_done(e, io);
    }
}

bool tr_promote_busy(const struct tr_engine *e)
{
    enum tr_promote_step step = e->promote.step;

    return step >= TR_PROMOTE_READ && step != TR_PROMOTE_MANIFEST && step != TR_PROMOTE_SWITCH &&
           step != TR_PROMOTE_PAUSE;
}

/* Has it something to do in the next turn? */
bool tr_promote_goes_on(const struct tr_engine *e)
{
    enum tr_promote_step step = e->promote.step;

    return step == TR_PROMOTE_JOBS || step == TR_PROMOTE_FAR || step == TR_PROMOTE_RIDS ||
           (step == TR_PROMOTE_SWITCH && !e->promote.waits) || tr_merge_goes_on(e);
}

void tr_promote_step(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    if (p->step == TR_PROMOTE_IDLE && !(tr_merge_urgent(e) && tr_merge_begin(e)) &&
        tr_promote_wanted(e)) {
        tr_promote_begin(e);
    }
    if (p->step == TR_PROMOTE_IDLE) {
        (void)tr_merge_begin(e);
    }
    tr_promote_choose(e);
    if (p->step == TR_PROMOTE_RIDS) {
        tr_merge_rids(e);
    }
    if (p->step == TR_PROMOTE_PAUSE &&
        (p->pause_until <= e->now.boot_us || tr_promote_pressed(e))) {
        p->part_us = e->now.boot_us;
        fill(e);
    }
    if (p->step == TR_PROMOTE_MANIFEST) {
        if (e->log.synced < p->batch) {
            e->lazy_at = tr_log_open_empty(&e->log) ? e->lazy_at : e->now.boot_us;
            tr_log_sync(&e->log);
        } else {
            e->meta.want_manifest = true;
        }
    }
    if (p->step == TR_PROMOTE_SWITCH) {
        switch_some(e);
    }
}
