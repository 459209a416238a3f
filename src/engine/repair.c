/*
 * A damaged store becomes a good one, with what salvage.c found.
 *
 *     1  new slots get the record of every job whose record is in a slot (RELOG)
 *     2  groups with bad bytes are written again, without those
 *     3  a checkpoint goes to the file that is not in use, then a manifest names all that: this is
 *        the switch; nothing that the old manifest needs was touched before it
 *     4  the slots that it had are removed; closing the store writes the other checkpoint
 *
 * Whenever it is killed, the store is as it was, or repaired. What step 1 wrote is then the end of
 * the log of the damaged store: records of jobs that are there, as they are, which the next repair
 * meets like any others. Files of step 2 that no manifest names are removed by the next start.
 *
 * Everything waits for the disk. The engine is only good for closing afterwards: jobs in memory do
 * not know their new places.
 */

#include "base/err.h"
#include "engine/salvage.h"
#include "engine/survey.h"

enum { ROOM = 2 * TR_BODY_MAX }; /* any record fits */

static int run(struct tr_engine *e, struct tr_io io)
{
    return e->disk.ops->run(e->disk.ctx, &io);
}

/* ---- the log ---- */

struct relog {
    struct tr_engine *e;
    uint64_t in_batch;
    uint64_t count;
};

/* Two free slots, under numbers that no file has. */
static int make_slots(struct tr_engine *e)
{
    int err = TARRY_OK;

    for (uint32_t i = 0; i < e->log.slots_max && e->log.free_count < 2 && err == TARRY_OK; i++) {
        if (e->log.slots[i].state == TR_SLOT_ABSENT && e->log.slots[i].file < 0) {
            err = tr_space_make_now(e, i);
        }
    }
    if (err == TARRY_OK && e->log.free_count < 2) {
        err = TARRY_ENOSPC;
    }
    return err == TARRY_OK ? run(e, (struct tr_io){.op = TR_IO_DIRSYNC}) : err;
}

static int flush(struct relog *r)
{
    int err = make_slots(r->e);

    if (err == TARRY_OK) {
        err = tr_log_finish(&r->e->log);
    }
    if (err == TARRY_OK && r->in_batch != 0) {
        r->e->log.tail->live += r->in_batch; /* else it would look empty */
        r->in_batch = 0;
    }
    return err;
}

static bool in_slot(const struct tr_engine *e, uint64_t rid)
{
    const struct tr_job *job = tr_jobs_by_rid(&e->state.jobs, rid);
    const struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, rid);

    return job != NULL ? job->slot != NULL && job->slot->number < TR_MANIFEST_SLOTS_MAX
                       : entry != NULL && !entry->located;
}

static int relog_job(void *ctx, const struct tr_record *from, struct tr_topic *t)
{
    struct relog *r = ctx;
    struct tr_engine *e = r->e;
    struct tr_record rec = *from;
    size_t size = rec.body.len + (size_t)TR_RECORD_HEAD_MAX;
    struct tr_job *same;
    int err;

    (void)t;
    if (!in_slot(e, rec.rid)) {
        return TARRY_OK;
    }
    err = tr_log_reserve(&e->log, size, 1);
    if (err == TARRY_EFULL) {
        err = flush(r);
        err = err == TARRY_OK ? tr_log_reserve(&e->log, size, 1) : err;
    }
    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TARRY_ENOSPC : err;
    }
    rec.type = TR_REC_RELOG;
    rec.mask &= ~TR_FIELD(OLD);
    if (tr_jobs_by_rid(&e->state.jobs, rec.rid) != NULL) { /* it is altered no more */
        TR_CHECK(tr_state_apply(&e->state, &rec, e->log.open.no, &same) == TARRY_OK);
    }
    tr_log_append(&e->log, &rec, tr_engine_base(e), false);
    r->in_batch++;
    r->count++;
    return TARRY_OK;
}

/* The slots that the store had are free with the next manifest. */
static void leave_slots(struct tr_engine *e, const bool *old)
{
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        struct tr_slot *slot = &e->log.slots[i];

        if (old[i]) {
            e->meta.now.seg_no =
                slot->seg_no > e->meta.now.seg_no ? slot->seg_no : e->meta.now.seg_no;
            slot->live = 0;
            slot->far = 0;
            slot->live_bytes = 0;
            tr_log_set_state(&e->log, slot, TR_SLOT_FREEING);
        }
    }
}

/* Then they go, and whatever else no segment is in: some of their bytes cannot be read. */
static int remove_slots(struct tr_engine *e, const bool *old)
{
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        struct tr_slot *slot = &e->log.slots[i];
        struct tr_io io = {.op = TR_IO_UNLINK};

        if (slot->file < 0 || (!old[i] && slot->state != TR_SLOT_ABSENT)) {
            continue;
        }
        (void)run(e, (struct tr_io){.op = TR_IO_CLOSE, .file = slot->file});
        slot->file = -1;
        tr_log_set_state(&e->log, slot, TR_SLOT_ABSENT);
        tr_log_slot_name(io.name, i);
        (void)run(e, io); /* if it fails, the file is found at the next start */
    }
    return run(e, (struct tr_io){.op = TR_IO_DIRSYNC});
}

static int renew_log(struct tr_engine *e, struct relog *r)
{
    struct tr_survey s = {.e = e, .ctx = r, .job = relog_job};
    int err = make_slots(e);

    if (err == TARRY_OK) {
        err = tr_survey_run(&s);
    }
    return err == TARRY_OK ? flush(r) : err;
}

/* ---- groups ---- */

struct rewrite {
    struct tr_engine *e;
    struct tr_group *old;
    struct tr_group *group;
    struct tr_run_writer w;
    unsigned run;
    int file;
    uint64_t off;
    uint8_t *buf;
    struct tr_side_job *jobs;
    size_t count;
    size_t room;
    uint32_t keyed;
};

static int write_all(struct rewrite *r, const uint8_t *bytes, uint64_t len)
{
    int err = TARRY_OK;

    while (len > 0 && err == TARRY_OK) {
        struct tr_piece piece = {bytes, (size_t)len};
        struct tr_io io = {.op = TR_IO_WRITE,
                           .file = r->file,
                           .off = r->off,
                           .len = len,
                           .pieces = &piece,
                           .piece_count = 1};

        err = r->e->disk.ops->run(r->e->disk.ctx, &io);
        bytes += io.got;
        len -= io.got;
        r->off += io.got;
    }
    return err;
}

static int create(struct rewrite *r, enum tr_group_file which)
{
    struct tr_io io = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE};
    int err;

    tr_group_name(io.name, r->group->is.no, which);
    err = r->e->disk.ops->run(r->e->disk.ctx, &io);
    r->file = io.file;
    r->off = 0;
    return err;
}

static int end_file(struct rewrite *r, enum tr_group_file which)
{
    int err = run(r->e, (struct tr_io){.op = TR_IO_SYNC, .file = r->file});

    r->group->is.bytes[which] = (uint32_t)r->off;
    *(which == TR_GROUP_SIDE ? &r->group->side_file : &r->group->runs[which].file) = r->file;
    return err;
}

static int keep_job(struct rewrite *r, const struct tr_record *rec, uint64_t place)
{
    if (r->count == r->room) {
        size_t room = r->room + r->room / 2 + 1024;
        void *jobs =
            tr_mem_stretch(r->e->mem, r->jobs, r->room * sizeof *r->jobs, room * sizeof *r->jobs);

        if (jobs == NULL) {
            return TARRY_ENOMEM;
        }
        r->jobs = jobs;
        r->room = room;
    }
    r->jobs[r->count] = tr_promote_index(&r->e->state.keys.keyer, rec, place);
    r->keyed += r->jobs[r->count++].keyed;
    return TARRY_OK;
}

static int rewrite_record(void *ctx, const struct tr_group *g, const struct tr_record *rec,
                          uint64_t place)
{
    struct rewrite *r = ctx;
    int err;

    (void)g;
    if (!tr_bitmap_test(&r->e->state.jobs.alive, rec->rid) || in_slot(r->e, rec->rid)) {
        return TARRY_OK;
    }
    err = tr_run_add(&r->w, rec, &place);
    if (err == TARRY_EFULL && tr_run_ready(&r->w) != 0) {
        err = write_all(r, r->buf, tr_run_ready(&r->w));
        tr_run_buffer(&r->w, r->buf, ROOM);
        err = err == TARRY_OK ? tr_run_add(&r->w, rec, &place) : err;
    }
    return err == TARRY_OK ? keep_job(r, rec, place) : err;
}

static int rewrite_run(struct rewrite *r, unsigned run)
{
    struct tr_run_of of = tr_group_run_of(r->group, run, r->e->log.uuid);
    struct tr_survey s = {.e = r->e, .ctx = r, .record = rewrite_record};
    int err = create(r, (enum tr_group_file)run);

    if (err != TARRY_OK) {
        return err;
    }
    r->run = run;
    tr_run_init(&r->w, r->e->mem, &of, run == TR_GROUP_DEAD);
    tr_run_buffer(&r->w, r->buf, ROOM);
    err = tr_survey_part(&s, r->old, run);
    tr_survey_fini(&s);
    if (err == TARRY_OK && r->w.stat.jobs != 0) {
        err = tr_run_end(&r->w);
    }
    if (err == TARRY_OK && r->w.stat.jobs != 0) {
        err = write_all(r, r->buf, tr_run_ready(&r->w));
        err = err == TARRY_OK ? write_all(r, r->w.footer, r->w.footer_len) : err;
    }
    tr_run_fini(&r->w);
    return err == TARRY_OK ? end_file(r, (enum tr_group_file)run) : err;
}

static int rewrite_side(struct rewrite *r)
{
    struct tr_side_input in = {.of = tr_group_side_of(r->group, r->e->log.uuid),
                               .rid_first = r->group->is.rid_first,
                               .rid_last = r->group->is.rid_last,
                               .jobs = r->jobs,
                               .job_count = (uint32_t)r->count,
                               .keyed_max = r->keyed,
                               .moved_max = (uint32_t)r->count};
    struct tr_side_build b;
    uint32_t pages;
    int err = tr_side_build_init(&b, r->e->mem, &in);

    if (err != TARRY_OK) {
        return err;
    }
    tr_side_build_prepare(&b);
    err = create(r, TR_GROUP_SIDE);
    while (err == TARRY_OK && (pages = tr_side_build_pages(&b, r->buf, ROOM / TR_SIDE_PAGE)) != 0) {
        err = write_all(r, r->buf, (uint64_t)pages * TR_SIDE_PAGE);
    }
    tr_side_build_fini(&b);
    return err == TARRY_OK ? end_file(r, TR_GROUP_SIDE) : err;
}

static void close_group(struct tr_engine *e, const struct tr_group *g)
{
    int files[] = {g->runs[TR_GROUP_LIVE].file, g->runs[TR_GROUP_DEAD].file, g->side_file};

    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (files[i] >= 0) {
            (void)run(e, (struct tr_io){.op = TR_IO_CLOSE, .file = files[i]});
        }
    }
}

/* The new one takes the place of the old one; of an empty one nothing is left. */
static void switch_group(struct rewrite *r)
{
    struct tr_group *old = r->old;

    for (unsigned run = 0; run < TR_GROUP_RUNS; run++) {
        while (!tr_list_empty(&old->runs[run].jobs)) {
            tr_job_unplace(TR_CONTAINER_OF(old->runs[run].jobs.next, struct tr_job, in_slot), 0);
        }
    }
    if (r->count != 0) {
        tr_groups_replace(&r->e->groups, &old, 1, r->group);
        r->group->broken = false;
    } else {
        close_group(r->e, r->group);
        tr_group_free(&r->e->groups, r->group);
    }
    close_group(r->e, old);
    tr_group_free(&r->e->groups, old);
}

static int rewrite_group(struct tr_engine *e, struct tr_group *old)
{
    struct rewrite r = {.e = e, .old = old, .group = tr_group_new(&e->groups)};
    int err;

    r.buf = tr_mem_stretch(e->mem, NULL, 0, ROOM);
    err = r.group != NULL && r.buf != NULL ? TARRY_OK : TARRY_ENOMEM;
    if (err == TARRY_OK) {
        r.group->is.rid_first = old->is.rid_first;
        r.group->is.rid_last = old->is.rid_last;
    }
    for (unsigned run = 0; run < TR_GROUP_RUNS && err == TARRY_OK; run++) {
        err = old->footers[run].block_count != 0 ? rewrite_run(&r, run) : TARRY_OK;
    }
    if (err == TARRY_OK && r.count != 0) {
        err = rewrite_side(&r);
    }
    if (err == TARRY_OK) {
        switch_group(&r);
    }
    if (r.jobs != NULL) {
        tr_mem_free(e->mem, r.jobs, r.room * sizeof *r.jobs);
    }
    if (r.buf != NULL) {
        tr_mem_free(e->mem, r.buf, ROOM);
    }
    return err;
}

/* Are all pages of its index good? */
static bool side_good(struct tr_engine *e, const struct tr_group *g)
{
    uint8_t page[TR_SIDE_PAGE];

    for (unsigned section = 0; section < TR_SIDE_SECTIONS; section++) {
        for (uint32_t i = 0; i < g->side.sections[section].pages; i++) {
            struct tr_io io = {.op = TR_IO_READ_DIRECT,
                               .file = g->side_file,
                               .off = tr_sidecar_off(&g->side, (enum tr_side_section)section, i),
                               .len = TR_SIDE_PAGE,
                               .buf = page};

            if (e->disk.ops->run(e->disk.ctx, &io) != TARRY_OK || io.got != TR_SIDE_PAGE ||
                tr_sidecar_check(&g->side, (enum tr_side_section)section, i, page) != TARRY_OK) {
                return false;
            }
        }
    }
    return true;
}

static int renew_groups(struct tr_engine *e)
{
    int err = TARRY_OK;

    for (uint32_t i = e->groups.count; i-- > 0 && err == TARRY_OK;) {
        struct tr_group *g = e->groups.order[i];

        if (g->broken || !side_good(e, g)) {
            err = rewrite_group(e, g);
        }
    }
    return err == TARRY_OK ? run(e, (struct tr_io){.op = TR_IO_DIRSYNC}) : err;
}

/* ---- all of it ---- */

int tr_repair(struct tr_engine *e)
{
    bool old[TR_MANIFEST_SLOTS_MAX] = {0};
    struct relog r = {.e = e};
    int err;

    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        old[i] = e->log.slots[i].state == TR_SLOT_SEALED;
    }
    e->epoch = e->meta.now.epoch + 1;
    e->groups.next_no = (e->epoch << 20) + 1;
    err = renew_log(e, &r);
    if (err == TARRY_OK) {
        err = renew_groups(e);
    }
    if (err != TARRY_OK) {
        return err;
    }
    leave_slots(e, old);
    e->told_durable = e->log.durable; /* nobody waits for any of it */
    tr_engine_note(e, TR_NOTE_INFO, "%llu jobs of the log were written again.",
                   (unsigned long long)r.count);
    err = tr_meta_write_now(e, true, 0);
    return err == TARRY_OK ? remove_slots(e, old) : err;
}
