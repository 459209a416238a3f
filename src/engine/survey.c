/*
 * All live jobs.
 *
 *     in memory      the job says all but, perhaps, the body: that is read from its record
 *     far, in a slot the entry says where the record is
 *     in runs        block by block; of those only the jobs that nobody else has
 *
 * A block that cannot be read as a whole is gone through record by record: the index says where
 * each begins, and each has its own crc. What the index does not tell is lost with its block.
 *
 * It waits for the disk at every step (`run` of the port), so it is for tools, and for a start.
 */

#include "engine/survey.h"

#include "base/err.h"
#include "base/mutant.h"

static int grow(struct tr_survey *s, size_t size)
{
    uint8_t *buf;

    if (s->room >= size) {
        return TARRY_OK;
    }
    buf = tr_mem_stretch(s->e->mem, s->buf, s->room, size);
    if (buf == NULL) {
        return TARRY_ENOMEM;
    }
    s->buf = buf;
    s->room = size;
    return TARRY_OK;
}

/* TARRY_EDAMAGED: it cannot be had; else TARRY_OK. Once more around the cache, if need be. */
static int read_at(struct tr_survey *s, int file, uint64_t off, uint64_t len, uint8_t *buf)
{
    struct tr_io io = {.op = TR_IO_READ, .file = file, .off = off, .len = len};

    io.buf = buf;
    if (s->progress != NULL) {
        s->progress(s->ctx, len);
    }
    (void)s->e->disk.ops->run(s->e->disk.ctx, &io);
    return io.status == TARRY_OK && io.got == len ? TARRY_OK : TARRY_EDAMAGED;
}

static int read_again(struct tr_survey *s, int file, uint64_t off, uint64_t len, uint8_t *buf)
{
    struct tr_io io = {.op = TR_IO_READ_DIRECT, .file = file, .off = off, .len = len};

    io.buf = buf;
    (void)s->e->disk.ops->run(s->e->disk.ctx, &io);
    return io.status == TARRY_OK && io.got == len ? TARRY_OK : TARRY_EDAMAGED;
}

/* The name of the file of a slot or run. */
static void name_of(const struct tr_engine *e, const struct tr_slot *slot,
                    char name[TR_IO_NAME_MAX])
{
    const struct tr_group *g;

    if (slot->number < TR_MANIFEST_SLOTS_MAX) {
        tr_log_slot_name(name, slot->number);
        return;
    }
    g = tr_groups_of_run(&e->groups, slot->number);
    tr_group_name(name, g->is.no, (enum tr_group_file)(slot->number - g->runs[0].number));
}

static void tell(const struct tr_survey *s, struct tr_finding *f, const struct tr_topic *t)
{
    if (t != NULL) {
        f->topic = t->name;
        f->topic_len = t->name_len;
    }
    if (s->found != NULL) {
        s->found(s->ctx, f);
    }
}

/* ---- in memory ---- */

static int tell_body_lost(const struct tr_survey *s, const struct tr_job *job)
{
    struct tr_finding f = {.fate = TR_FATE_LOST,
                           .what = "The record of a job cannot be read.",
                           .off = job->record_off,
                           .len = job->record_len,
                           .id = job->id,
                           .due_us = job->due_us};

    name_of(s->e, job->slot, f.file);
    tell(s, &f, job->topic);
    return TARRY_OK;
}

static int survey_job(struct tr_survey *s, struct tr_job *job)
{
    struct tr_record rec;
    int err = TARRY_OK;

    tr_state_describe(job, TR_REC_RELOG, &rec);
    if (job->body == NULL && job->body_len != 0) {
        int file = job->slot->file;

        err = grow(s, job->record_len);
        if (err != TARRY_OK) {
            return err;
        }
        err = read_at(s, file, job->record_off, job->record_len, s->buf);
        if (err != TARRY_OK || !tr_record_good(s->buf, job->record_len, job->rid)) {
            err = read_again(s, file, job->record_off, job->record_len, s->buf);
        }
        if (err != TARRY_OK || !tr_record_good(s->buf, job->record_len, job->rid)) {
            return tell_body_lost(s, job);
        }
        rec.body.at = s->buf + job->record_len - job->body_len;
    }
    return s->job(s->ctx, &rec, job->topic);
}

static int survey_memory(struct tr_survey *s)
{
    struct tr_job *job;
    size_t at = 0;
    int err = TARRY_OK;

    while (err == TARRY_OK && (job = tr_jobs_next(&s->e->state.jobs, &at)) != NULL) {
        err = survey_job(s, job);
    }
    return err;
}

/* ---- far, in slots ---- */

static int survey_entry(struct tr_survey *s, uint64_t rid, const struct tr_far_entry *entry)
{
    struct tr_slot *slot = tr_state_slot(&s->e->state, entry->slot);
    struct tr_topic *t = tr_topics_by_number(&s->e->state.topics, entry->topic);
    struct tr_record rec;
    int err = grow(s, entry->len);

    if (err != TARRY_OK) {
        return err;
    }
    err = read_at(s, slot->file, entry->off, entry->len, s->buf);
    if (err == TARRY_OK) {
        err = tr_record_decode_known(s->buf, entry->len, rid, entry->due_us, &rec);
    }
    if (err != TARRY_OK) {
        err = read_again(s, slot->file, entry->off, entry->len, s->buf);
        if (err == TARRY_OK) {
            err = tr_record_decode_known(s->buf, entry->len, rid, entry->due_us, &rec);
        }
    }
    if (err != TARRY_OK) {
        struct tr_finding f = {.fate = TR_FATE_LOST,
                               .what = "The record of a job cannot be read.",
                               .off = entry->off,
                               .len = entry->len,
                               .id = tr_far_id(&s->e->state.jobs.far, rid),
                               .due_us = entry->due_us};

        tr_log_slot_name(f.file, entry->slot);
        tell(s, &f, t);
        return TARRY_OK;
    }
    rec.mask &= ~TR_FIELD(OLD);
    return s->job(s->ctx, &rec, t);
}

static int survey_far(struct tr_survey *s)
{
    const struct tr_far *far = &s->e->state.jobs.far;
    int err = TARRY_OK;

    for (const struct tr_list *n = far->all.next; n != &far->all; n = n->next) {
        const struct tr_far_page *page = TR_CONTAINER_OF(n, struct tr_far_page, link);

        for (unsigned i = 0; i < page->count && err == TARRY_OK; i++) {
            if (!page->entries[i].located) {
                err = survey_entry(s, tr_far_page_rid(page, i), &page->entries[i]);
            }
        }
    }
    return err;
}

/* ---- in runs ---- */

/* Alive, and nobody else has it. */
static bool is_here(const struct tr_engine *e, uint64_t rid)
{
    const struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, rid);

    return tr_bitmap_test(&e->state.jobs.alive, rid) &&
           tr_jobs_by_rid(&e->state.jobs, rid) == NULL && (entry == NULL || entry->located);
}

static int survey_record(struct tr_survey *s, const struct tr_group *g, const struct tr_record *rec,
                         uint64_t place)
{
    int err = s->record != NULL ? s->record(s->ctx, g, rec, place) : TARRY_OK;

    if (err != TARRY_OK || !is_here(s->e, rec->rid)) {
        return err;
    }
    return s->job != NULL
               ? s->job(s->ctx, rec, tr_topics_by_number(&s->e->state.topics, rec->topic))
               : TARRY_OK;
}

/* Records of a damaged block. */
struct found {
    struct tr_side_job *jobs;
    uint32_t count;
    uint32_t room;
};

/* One of them, by itself. */
static int rescue(struct tr_survey *s, struct tr_group *g, unsigned run,
                  const struct tr_side_job *job)
{
    uint64_t off = tr_place_off(job->place);
    uint32_t len = tr_place_len(job->place);
    uint64_t id = tr_far_moved_id(&s->e->state.jobs.far, job->rid);
    struct tr_finding f = {.fate = TR_FATE_LOST,
                           .what = "The record of a job cannot be read.",
                           .off = off,
                           .len = len,
                           .id = id != 0 ? id : job->rid,
                           .due_us = job->dead_seq == 0 ? job->due_us : 0};
    struct tr_record rec;
    int err = grow(s, len);

    if (err != TARRY_OK) {
        return err;
    }
    err = read_again(s, g->runs[run].file, off, len, s->buf);
    if (err == TARRY_OK) {
        err = tr_run_get(&g->footers[run], job->place, job->rid, s->buf, &rec);
    }
    if (err == TARRY_OK) {
        return survey_record(s, g, &rec, job->place);
    }
    if (is_here(s->e, job->rid)) {
        tr_group_name(f.file, g->is.no, (enum tr_group_file)run);
        tell(s, &f, tr_topics_by_number(&s->e->state.topics, job->topic));
    }
    return TARRY_OK;
}

/* Adds the entries of a page of T that lie in this block, in the order of their places. */
static void find_in_block(const struct tr_side_view *v, unsigned run, uint64_t from, uint64_t to,
                          struct found *found)
{
    struct tr_side_row row;

    for (uint32_t k = 0; k < v->count && found->count < found->room; k++) {
        uint32_t at = found->count;

        if (tr_side_get(v, k, &row) != TARRY_OK || tr_place_piece(row.job.place) != run ||
            tr_place_off(row.job.place) < from || tr_place_off(row.job.place) >= to) {
            continue;
        }
        for (; at > 0 && found->jobs[at - 1].place > row.job.place; at--) {
            found->jobs[at] = found->jobs[at - 1];
        }
        found->jobs[at] = row.job;
        found->count++;
    }
}

/* All pages of T. */
static void find_records(struct tr_survey *s, const struct tr_group *g, unsigned run,
                         const struct tr_run_block_stat *stat, struct found *found)
{
    const struct tr_sidecar *side = &g->side;

    for (uint32_t i = 0; i < side->sections[TR_SIDE_T].pages; i++) {
        struct tr_side_view v = {0};

        if (read_at(s, g->side_file, tr_sidecar_off(side, TR_SIDE_T, i), TR_SIDE_PAGE, s->page) ==
                TARRY_OK &&
            tr_sidecar_check(side, TR_SIDE_T, i, s->page) == TARRY_OK &&
            tr_sidecar_view(side, TR_SIDE_T, i, s->page, &v) == TARRY_OK) {
            find_in_block(&v, run, stat->off, stat->off + stat->len, found);
        }
    }
}

/* Record by record, as far as the index tells where they are. */
static int rescue_block(struct tr_survey *s, struct tr_group *g, unsigned run, uint32_t block)
{
    struct tr_run_block_stat stat = tr_run_footer_block(&g->footers[run], block);
    struct found found = {.room = stat.jobs};
    int err = TARRY_OK;

    found.jobs = tr_mem_stretch(s->e->mem, NULL, 0, found.room * sizeof *found.jobs);
    if (found.jobs == NULL) {
        return TARRY_ENOMEM;
    }
    find_records(s, g, run, &stat, &found);
    for (uint32_t i = 0; i < found.count && err == TARRY_OK; i++) {
        err = rescue(s, g, run, &found.jobs[i]);
    }
    if (err == TARRY_OK && found.count < stat.jobs) {
        struct tr_finding f = {.fate = TR_FATE_LOST,
                               .what = "A block of a run cannot be read, nor the index to it.",
                               .off = stat.off,
                               .len = stat.len};

        tr_group_name(f.file, g->is.no, (enum tr_group_file)run);
        tell(s, &f, NULL);
    }
    tr_mem_free(s->e->mem, found.jobs, found.room * sizeof *found.jobs);
    return err;
}

static int survey_block(struct tr_survey *s, struct tr_group *g, unsigned run, uint32_t i)
{
    const struct tr_run_footer *footer = &g->footers[run];
    struct tr_run_block_stat stat = tr_run_footer_block(footer, i);
    struct tr_finding f = {
        .what = "A block of a run is damaged.", .off = stat.off, .len = stat.len};
    struct tr_run_block block;
    struct tr_record rec;
    uint64_t place;
    int err = grow(s, stat.len);

    if (err != TARRY_OK) {
        return err;
    }
    err = read_at(s, g->runs[run].file, stat.off, stat.len, s->buf);
    if (err != TARRY_OK || tr_run_block(footer, i, s->buf, &block) != TARRY_OK) {
        err = read_again(s, g->runs[run].file, stat.off, stat.len, s->buf);
        err = err == TARRY_OK ? tr_run_block(footer, i, s->buf, &block) : err;
    }
    if (err != TARRY_OK) {
        g->broken = true;
        tr_group_name(f.file, g->is.no, (enum tr_group_file)run);
        if (!TR_MUTANT(BLOCK_NOT_TOLD)) {
            tell(s, &f, NULL);
        }
        return rescue_block(s, g, run, i);
    }
    while (err == TARRY_OK && (err = tr_run_next(&block, &rec, &place)) == TARRY_OK) {
        err = survey_record(s, g, &rec, place);
    }
    return err == TARRY_ENOTFOUND ? TARRY_OK : err;
}

int tr_survey_part(struct tr_survey *s, struct tr_group *g, unsigned run)
{
    int err = TARRY_OK;

    for (uint32_t k = 0; k < g->footers[run].block_count && err == TARRY_OK; k++) {
        err = survey_block(s, g, run, k);
    }
    return err;
}

static int survey_runs(struct tr_survey *s)
{
    int err = TARRY_OK;

    for (uint32_t i = 0; i < s->e->groups.count && err == TARRY_OK; i++) {
        struct tr_group *g = s->e->groups.order[i];

        for (unsigned run = 0; run < TR_GROUP_RUNS && err == TARRY_OK; run++) {
            err = tr_survey_part(s, g, run);
        }
        if (err == TARRY_OK && s->group != NULL) {
            err = s->group(s->ctx, g);
        }
    }
    return err;
}

int tr_survey_run(struct tr_survey *s)
{
    int err = survey_memory(s);

    if (err == TARRY_OK) {
        err = survey_far(s);
    }
    if (err == TARRY_OK) {
        err = survey_runs(s);
    }
    tr_survey_fini(s);
    return err;
}

void tr_survey_fini(struct tr_survey *s)
{
    if (s->buf != NULL) {
        tr_mem_free(s->e->mem, s->buf, s->room);
        s->buf = NULL;
        s->room = 0;
    }
}

uint64_t tr_survey_bytes(const struct tr_engine *e)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        bytes += e->log.slots[i].live_bytes;
    }
    for (uint32_t i = 0; i < e->groups.count; i++) {
        bytes += tr_group_bytes(e->groups.order[i]);
    }
    return bytes;
}
