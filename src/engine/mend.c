/*
 * A block of a run that cannot be read as a whole: only the records on the damaged bytes are lost.
 *
 *     block     is read once more around the cache; what the disk gives goes to the quarantine
 *     pages     all of T of the group is gone through for entries that lie in the block: the index
 *               says where each record begins, which the damaged bytes may not
 *     records   each live one is decoded by itself, from the block or, if the disk does not give
 *               that, read alone
 *
 * A job whose record is good gets an entry in the table of far jobs, and from there on comes into
 * memory in time, like one whose record is in a slot. One whose record is bad gets an entry, too,
 * but is held back: it is told once with id, topic and due time, can be cancelled, and is tried
 * again later (load.c). Dead jobs are only looked at: they are found by T and read alone anyway.
 *
 * The sweep passes the block over meanwhile. If it meets it again, because somebody left memory, it
 * is gone through again.
 *
 * One block at a time; others wait in line. If that is full, their group owes them, and the sweep
 * comes back to the first of them when the line is empty.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "base/text.h"
#include "engine/inner.h"

#include <inttypes.h>

enum { PAGE_UNITS = 32, RECORD_UNITS = 2, NO_ROOM_US = 10000 };

void tr_mend_add(struct tr_engine *e, struct tr_group *g, unsigned run, uint32_t block)
{
    struct tr_mend *m = &e->mend;
    unsigned first = m->step == TR_MEND_RECORDS; /* it may be past one that left memory since */

    for (unsigned i = first; i < m->count; i++) {
        if (m->blocks[i].group_no == g->is.no && m->blocks[i].run == run &&
            m->blocks[i].block == block) {
            return;
        }
    }
    if (m->count < TR_MEND_MAX && !TR_MUTANT(BLOCK_LOST)) {
        m->blocks[m->count++] = (struct tr_mend_block){g->is.no, run, block};
        e->moved = true;
    } else if (run == TR_GROUP_LIVE && (!g->owes || block < g->owed_block)) {
        g->owes = true;
        g->owed_block = block;
    }
}

/* The sweep is to look at the block of a live run again, and at those behind it. */
static void look_again(struct tr_engine *e, struct tr_group *g, uint32_t block)
{
    struct tr_run_block_stat stat = tr_run_footer_block(&g->footers[TR_GROUP_LIVE], block);

    tr_fetch_again(e, g);
    g->next_block = block < g->next_block ? block : g->next_block;
    if (stat.first_due < e->load.next_us) {
        e->load.next_us = stat.first_due;
    }
}

static void settle_debts(struct tr_engine *e)
{
    for (uint32_t i = 0; i < e->groups.count; i++) {
        struct tr_group *g = e->groups.order[i];

        if (g->owes) {
            g->owes = false;
            look_again(e, g, g->owed_block);
            e->moved = true;
        }
    }
}

static struct tr_run_block_stat stat_of(const struct tr_mend *m)
{
    return tr_run_footer_block(&m->group->footers[m->blocks[0].run], m->blocks[0].block);
}

static void name_of(const struct tr_mend *m, struct tr_damaged *d)
{
    TR_CHECK(m->group != NULL);
    d->group = m->group->is.no;
    tr_group_name(d->file, d->group, (enum tr_group_file)m->blocks[0].run);
}

static bool make_room(struct tr_engine *e, uint8_t **buf, uint32_t *room, uint32_t len)
{
    uint8_t *more;

    if (*room >= len) {
        return true;
    }
    more = tr_mem_stretch(e->mem, *buf, *room, len);
    if (more == NULL) {
        e->mend.retry_at = e->now.boot_us + NO_ROOM_US;
        return false;
    }
    *buf = more;
    *room = len;
    return true;
}

static void read_at(struct tr_engine *e, int file, uint64_t off, uint32_t len, uint8_t *buf)
{
    struct tr_mend *m = &e->mend;

    m->io = (struct tr_io){
        .op = TR_IO_READ_DIRECT, .lane = TR_LANE_READ, .file = file, .off = off, .len = len};
    m->io.buf = buf;
    m->busy = true;
    m->here = false;
    e->fetch.reads++;
    e->disk.ops->submit(e->disk.ctx, &m->io);
}

void tr_mend_io_done(struct tr_engine *e)
{
    e->mend.busy = false;
    e->mend.here = true;
    e->fetch.reads--;
}

static bool came(const struct tr_mend *m)
{
    return m->io.status == TARRY_OK && m->io.got == m->io.len;
}

/* The next one in line. */
static void done(struct tr_engine *e)
{
    struct tr_mend *m = &e->mend;

    if (m->group != NULL) {
        m->group->readers--;
        m->group = NULL;
    }
    m->step = TR_MEND_IDLE;
    m->here = false;
    m->found_count = 0;
    m->count--;
    for (unsigned i = 0; i < m->count; i++) {
        m->blocks[i] = m->blocks[i + 1];
    }
    if (m->count == 0) {
        settle_debts(e);
    }
}

/* ---- the block ---- */

static void begin(struct tr_engine *e)
{
    struct tr_mend *m = &e->mend;
    struct tr_group *g = tr_groups_by_no(&e->groups, m->blocks[0].group_no);
    struct tr_run_block_stat stat;

    if (g == NULL || g->leaving) {
        done(e); /* what is alive in it is elsewhere */
        return;
    }
    m->group = g;
    stat = stat_of(m);
    m->group = NULL;
    if (!make_room(e, &m->buf, &m->buf_room, stat.len) ||
        !make_room(e, &m->piece, &m->piece_room, TR_SIDE_PAGE)) {
        return;
    }
    if (m->found_room < stat.jobs) {
        struct tr_side_job *found = tr_mem_stretch(e->mem, m->found, m->found_room * sizeof *found,
                                                   stat.jobs * sizeof *found);

        if (found == NULL) {
            m->retry_at = e->now.boot_us + NO_ROOM_US;
            return;
        }
        m->found = found;
        m->found_room = stat.jobs;
    }
    m->group = g;
    g->readers++;
    m->step = TR_MEND_BLOCK;
    read_at(e, g->runs[m->blocks[0].run].file, stat.off, stat.len, m->buf);
}

/* It was only the cache, or a passing error: the sweep is to look again. */
static void again(struct tr_engine *e)
{
    struct tr_mend *m = &e->mend;

    if (m->blocks[0].run == TR_GROUP_LIVE) {
        look_again(e, m->group, m->blocks[0].block);
    }
    done(e);
}

static void block_came(struct tr_engine *e)
{
    struct tr_mend *m = &e->mend;
    struct tr_run_block_stat stat = stat_of(m);
    struct tr_run_block block;
    struct tr_damaged d = {.off = stat.off, .len = stat.len, .due_us = TR_NEVER};
    char note[TR_DAMAGE_NOTE];

    m->whole = came(m);
    if (m->whole && tr_run_block(&m->group->footers[m->blocks[0].run], m->blocks[0].block, m->buf,
                                 &block) == TARRY_OK) {
        again(e);
        return;
    }
    name_of(m, &d);
    tr_text(note, sizeof note,
            "A block of run file %s, %u bytes from offset %" PRIu64 " on, with %u records: %s.",
            d.file, stat.len, stat.off, stat.jobs,
            m->whole ? "its checksum is wrong" : "the disk cannot read it");
    tr_damage_keep(e, &d, m->whole ? m->buf : NULL, note);
    m->step = TR_MEND_PAGES;
    m->page = 0;
    m->here = false;
}

/* ---- pages of T ---- */

static void take_page(struct tr_engine *e)
{
    struct tr_mend *m = &e->mend;
    const struct tr_sidecar *side = &m->group->side;
    struct tr_run_block_stat stat = stat_of(m);
    struct tr_side_view v = {0};
    struct tr_side_row row;

    if (!came(m) || tr_sidecar_check(side, TR_SIDE_T, m->page, m->piece) != TARRY_OK ||
        tr_sidecar_view(side, TR_SIDE_T, m->page, m->piece, &v) != TARRY_OK) {
        tr_fetch_report(e, m->group, TR_GROUP_SIDE, tr_sidecar_off(side, TR_SIDE_T, m->page));
        return;
    }
    for (uint32_t i = 0; i < v.count && m->found_count < stat.jobs; i++) {
        if (tr_side_get(&v, i, &row) == TARRY_OK &&
            tr_place_piece(row.job.place) == m->blocks[0].run &&
            tr_place_off(row.job.place) >= stat.off &&
            tr_place_off(row.job.place) + tr_place_len(row.job.place) <= stat.off + stat.len) {
            m->found[m->found_count++] = row.job;
        }
    }
}

/* A slice; true: all of T was gone through. */
static bool pages(struct tr_engine *e)
{
    struct tr_mend *m = &e->mend;
    const struct tr_sidecar *side = &m->group->side;

    if (m->here) {
        if (!tr_engine_charge(e, PAGE_UNITS)) {
            return false;
        }
        m->here = false;
        take_page(e);
        m->page++;
    }
    if (m->page == side->sections[TR_SIDE_T].pages || m->found_count == stat_of(m).jobs) {
        return true;
    }
    read_at(e, m->group->side_file, tr_sidecar_off(side, TR_SIDE_T, m->page), TR_SIDE_PAGE,
            m->piece);
    return false;
}

/* ---- records ---- */

/* Is it alive, and is this record what there is of it? */
static bool is_wanted(const struct tr_engine *e, const struct tr_side_job *job)
{
    const struct tr_job *in_memory = tr_jobs_by_rid(&e->state.jobs, job->rid);
    const struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, job->rid);

    return tr_bitmap_test(&e->state.jobs.alive, job->rid) && in_memory == NULL &&
           (entry == NULL || (entry->located && !entry->bad));
}

static bool is_good(const struct tr_mend *m, const struct tr_side_job *job, bool alone)
{
    struct tr_run_block_stat stat = stat_of(m);
    struct tr_record rec;

    return (!alone || came(m)) &&
           tr_run_get(&m->group->footers[m->blocks[0].run], job->place, job->rid,
                      alone ? m->piece : m->buf + (tr_place_off(job->place) - stat.off),
                      &rec) == TARRY_OK;
}

static void tell(struct tr_engine *e, const struct tr_side_job *job)
{
    const struct tr_mend *m = &e->mend;
    uint64_t id = tr_far_moved_id(&e->state.jobs.far, job->rid);
    struct tr_damaged d = {.rid = job->rid,
                           .id = id != 0 ? id : job->rid,
                           .due_us = job->dead_seq == 0 ? job->due_us : TR_NEVER,
                           .topic = job->topic,
                           .off = tr_place_off(job->place),
                           .len = tr_place_len(job->place)};

    name_of(m, &d);
    tr_damage_tell(e, &d, NULL);
}

/* False: there is no memory for its entry. */
static bool settle(struct tr_engine *e, const struct tr_side_job *job, bool good)
{
    struct tr_mend *m = &e->mend;
    struct tr_far_entry entry = tr_fetch_entry(m->group, job);
    struct tr_far_entry *is;

    if (job->dead_seq == 0 && tr_far_find(&e->state.jobs.far, job->rid) == NULL &&
        tr_state_locate(&e->state, job->rid, &entry) != TARRY_OK) {
        m->retry_at = e->now.boot_us + NO_ROOM_US;
        return false;
    }
    if (job->dead_seq == 0 && job->due_us < e->load.next_us) {
        e->load.next_us = job->due_us; /* also if somebody else had looked it up before */
    }
    is = tr_far_find(&e->state.jobs.far, job->rid);
    if (!good) {
        m->bad++;
        tell(e, job);
    }
    if (!good && is != NULL && !is->loading) {
        is->bad = true;
        tr_load_bad(e);
    }
    return true;
}

/* A slice; true: all are dealt with. */
static bool records(struct tr_engine *e)
{
    struct tr_mend *m = &e->mend;

    for (; m->next < m->found_count; m->next++) {
        const struct tr_side_job *job = &m->found[m->next];
        bool alone = !m->whole;

        if (!tr_engine_charge(e, RECORD_UNITS)) {
            return false;
        }
        if (!is_wanted(e, job)) {
            m->here = false;
            continue;
        }
        if (alone && !m->here) {
            if (make_room(e, &m->piece, &m->piece_room, tr_place_len(job->place))) {
                read_at(e, m->group->runs[m->blocks[0].run].file, tr_place_off(job->place),
                        tr_place_len(job->place), m->piece);
            }
            return false;
        }
        if (!settle(e, job, is_good(m, job, alone))) {
            return false;
        }
        m->here = false;
    }
    return true;
}

/* All that T knows of was dealt with; if it knows of fewer, the sweep comes back. */
static void end(struct tr_engine *e)
{
    struct tr_mend *m = &e->mend;
    struct tr_run_block_stat stat = stat_of(m);

    if (m->found_count < stat.jobs) {
        tr_engine_note(e, TR_NOTE_WARNING,
                       "%u records of group %" PRIu64
                       " are in a damaged block, and the index does not tell where.",
                       stat.jobs - m->found_count, m->group->is.no);
        e->fetch.skipped = true;
        tr_load_bad(e);
    }
    done(e);
}

/* ---- turns ---- */

void tr_mend_step(struct tr_engine *e)
{
    struct tr_mend *m = &e->mend;

    if (m->count == 0 || m->busy || m->retry_at > e->now.boot_us) {
        return;
    }
    m->retry_at = 0;
    if (m->step == TR_MEND_IDLE) {
        m->bad = 0;
        m->next = 0;
        begin(e);
        return;
    }
    TR_CHECK(m->group != NULL);
    if (m->group->leaving) {
        done(e);
        return;
    }
    if (m->step == TR_MEND_BLOCK) {
        block_came(e);
    }
    if (m->step == TR_MEND_PAGES && pages(e)) {
        m->step = TR_MEND_RECORDS;
    }
    if (m->step == TR_MEND_RECORDS && records(e)) {
        end(e);
    }
}

uint64_t tr_mend_next(const struct tr_engine *e)
{
    const struct tr_mend *m = &e->mend;

    if (m->count == 0 || m->busy) {
        return TR_NEVER;
    }
    return m->retry_at > e->now.boot_us ? m->retry_at : e->now.boot_us;
}

void tr_mend_fini(struct tr_engine *e)
{
    struct tr_mend *m = &e->mend;

    if (m->buf != NULL) {
        tr_mem_free(e->mem, m->buf, m->buf_room);
    }
    if (m->piece != NULL) {
        tr_mem_free(e->mem, m->piece, m->piece_room);
    }
    if (m->found != NULL) {
        tr_mem_free(e->mem, m->found, m->found_room * sizeof *m->found);
    }
    *m = (struct tr_mend){0};
}
