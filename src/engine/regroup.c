/*
 * Groups at a start: those that the manifest names are opened, files of others are removed.
 *
 *     run    the trailer says where the footer is; the footer stays in memory
 *     six    the head, the fences; all of section I, since a job that was moved is asked for by id;
 *            all of section K, since keys are looked up in memory
 *
 * Everything is synced first and read around the cache (R7). A footer or a sidecar that is damaged
 * is made again from the blocks (rebuild.c), read-only in memory. If that cannot be done, the group
 * refuses the store by name (R13).
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

enum { LIST_BYTES = 65536, KEY_PAGES = 64 };

static int run(struct tr_engine *e, struct tr_io *io)
{
    return e->disk.ops->run(e->disk.ctx, io);
}

static int open_file(struct tr_engine *e, const struct tr_group *g, enum tr_group_file which,
                     int *file)
{
    struct tr_io io = {.op = TR_IO_OPEN, .flags = e->config.read_only ? TR_IO_READ_ONLY : 0};
    int err;

    tr_group_name(io.name, g->is.no, which);
    err = run(e, &io);
    if (err != TARRY_OK) {
        return err == TARRY_ENOTFOUND ? TARRY_EDAMAGED : err;
    }
    *file = io.file;
    if (e->config.read_only) {
        return TARRY_OK;
    }
    io = (struct tr_io){.op = TR_IO_SYNC, .file = *file};
    return run(e, &io);
}

static int read_exactly(struct tr_engine *e, int file, uint64_t off, void *buf, uint64_t len)
{
    struct tr_io io = {.op = TR_IO_READ_DIRECT, .file = file, .off = off, .len = len, .buf = buf};
    int err = run(e, &io);

    return err == TARRY_OK && io.got != len ? TARRY_EDAMAGED : err;
}

static bool is_damage(int err)
{
    return err == TARRY_EDAMAGED || err == TARRY_EIO;
}

static int read_footer(struct tr_engine *e, struct tr_group *g, unsigned which)
{
    struct tr_run_of of = tr_group_run_of(g, which, e->log.uuid);
    struct tr_run_trailer trailer;
    uint8_t end[TR_RUN_TRAILER];
    uint64_t len = g->is.bytes[which];
    uint8_t *buf;
    int err;

    if (len < TR_RUN_TRAILER) {
        return TARRY_EDAMAGED;
    }
    err = read_exactly(e, g->runs[which].file, len - TR_RUN_TRAILER, end, TR_RUN_TRAILER);
    if (err == TARRY_OK) {
        err = tr_run_trailer(end, &of, len, &trailer);
    }
    if (err != TARRY_OK) {
        return err;
    }
    buf = tr_mem_stretch(e->mem, NULL, 0, (size_t)(len - trailer.footer_off));
    if (buf == NULL) {
        return TARRY_ENOMEM;
    }
    err = read_exactly(e, g->runs[which].file, trailer.footer_off, buf, len - trailer.footer_off);
    if (err == TARRY_OK) {
        err = tr_group_take_footer(g, which, &of, &trailer, buf);
    }
    if (err != TARRY_OK) {
        tr_mem_free(e->mem, buf, (size_t)(len - trailer.footer_off));
    }
    return err;
}

/* What was damaged is there again. */
static void note_rebuilt(struct tr_engine *e, const struct tr_group *g, enum tr_group_file which)
{
    char name[TR_IO_NAME_MAX];

    tr_group_name(name, g->is.no, which);
    e->damage.mended++;
    tr_engine_note(e, TR_NOTE_DAMAGE, "Group %llu: %s of file %s %s.", (unsigned long long)g->is.no,
                   which == TR_GROUP_SIDE ? "the index" : "the footer", name,
                   e->config.read_only ? "is damaged; it was made again in memory, not in the file"
                                       : "was damaged and was made again");
}

static int open_run(struct tr_engine *e, struct tr_group *g, unsigned which)
{
    int err = open_file(e, g, (enum tr_group_file)which, &g->runs[which].file);

    if (err != TARRY_OK) {
        return err;
    }
    err = read_footer(e, g, which);
    if (!is_damage(err) || TR_MUTANT(FOOTER_LOST)) {
        return err;
    }
    err = tr_rebuild_footer(e, g, which);
    if (err == TARRY_OK) {
        note_rebuilt(e, g, (enum tr_group_file)which);
        err = read_footer(e, g, which);
    }
    return err;
}

int tr_regroup_moved(struct tr_engine *e, const struct tr_group *g, void *ctx, tr_moved_fn *fn)
{
    const struct tr_sidecar *side = &g->side;
    uint8_t page[TR_SIDE_PAGE];
    int err = TARRY_OK;

    for (uint32_t i = 0; i < side->sections[TR_SIDE_I].pages && err == TARRY_OK; i++) {
        struct tr_side_view v = {0};
        struct tr_side_row row;

        err = read_exactly(e, g->side_file, tr_sidecar_off(side, TR_SIDE_I, i), page, TR_SIDE_PAGE);
        if (err == TARRY_OK) {
            err = tr_sidecar_check(side, TR_SIDE_I, i, page);
        }
        if (err == TARRY_OK) {
            err = tr_sidecar_view(side, TR_SIDE_I, i, page, &v);
        }
        for (uint32_t k = 0; k < v.count && err == TARRY_OK; k++) {
            err = tr_side_get(&v, k, &row);
            if (err == TARRY_OK) {
                err = fn(ctx, row.job.rid, row.job.id);
            }
        }
    }
    return err;
}

/* Ids of live jobs that were moved. */
static int note_moved(void *ctx, uint64_t rid, uint64_t id)
{
    struct tr_engine *e = ctx;

    return tr_bitmap_test(&e->state.jobs.alive, rid)
               ? tr_far_note_moved(&e->state.jobs.far, rid, id)
               : TARRY_OK;
}

static int read_side(struct tr_engine *e, struct tr_group *g)
{
    struct tr_side_of of = tr_group_side_of(g, e->log.uuid);
    uint8_t head[TR_SIDE_PAGE];
    uint8_t *fences;
    size_t len;
    int err = g->side_file < 0 ? open_file(e, g, TR_GROUP_SIDE, &g->side_file) : TARRY_OK;

    if (err == TARRY_OK) {
        err = read_exactly(e, g->side_file, 0, head, TR_SIDE_PAGE);
    }
    if (err == TARRY_OK) {
        err = tr_sidecar_head(&g->side, &of, head);
    }
    if (err == TARRY_OK &&
        (uint64_t)g->side.page_count * TR_SIDE_PAGE != g->is.bytes[TR_GROUP_SIDE]) {
        err = TARRY_EDAMAGED;
    }
    if (err != TARRY_OK) {
        return err;
    }
    len = (size_t)g->side.fence_pages * TR_SIDE_PAGE;
    fences = tr_mem_stretch(e->mem, NULL, 0, len != 0 ? len : 1);
    if (fences == NULL) {
        return TARRY_ENOMEM;
    }
    err = read_exactly(e, g->side_file, TR_SIDE_PAGE, fences, len);
    if (err == TARRY_OK) {
        err = tr_sidecar_load(&g->side, e->mem, fences);
    }
    tr_mem_free(e->mem, fences, len != 0 ? len : 1);
    return err == TARRY_OK ? tr_regroup_moved(e, g, e, note_moved) : err;
}

static int rebuild_side(struct tr_engine *e, struct tr_group *g)
{
    int err = tr_rebuild_side(e, g);

    if (err == TARRY_OK) {
        note_rebuilt(e, g, TR_GROUP_SIDE);
    }
    return err;
}

static int open_side(struct tr_engine *e, struct tr_group *g)
{
    int err = read_side(e, g);

    if (!is_damage(err) || TR_MUTANT(SIDE_LOST)) {
        return err;
    }
    tr_sidecar_fini(&g->side);
    err = rebuild_side(e, g);
    return err == TARRY_OK ? read_side(e, g) : err;
}

/* What stands in the way of a start is named. */
static void blame(const struct tr_engine *e, const struct tr_group *g, int err)
{
    if (err == TARRY_EDAMAGED || err == TARRY_EVERSION || err == TARRY_EIO) {
        tr_engine_note(e, TR_NOTE_DAMAGE, "Group %llu, which the store needs, %s.",
                       (unsigned long long)g->is.no,
                       err == TARRY_EVERSION ? "is of a newer version"
                       : err == TARRY_EIO    ? "cannot be used"
                                             : "is damaged");
    }
}

/* `which`: the file of the group that stands in the way. */
static const char *why_lost(const struct tr_engine *e, const struct tr_group *g,
                            enum tr_group_file which)
{
    if (which != TR_GROUP_SIDE && g->runs[which].file < 0) {
        return "A run file is missing, or cannot be opened: all that is in the group is lost.";
    }
    if (e->overlay != NULL && tr_overlay_full(e->overlay)) {
        return which == TR_GROUP_SIDE
                   ? "The index of a group is damaged, and too large to be made again in memory: "
                     "what is in the group cannot be read now. A start of the server makes the "
                     "index again."
                   : "The footer of a run is damaged, and too large to be made again in memory: "
                     "what is in the group cannot be read now. A start of the server makes the "
                     "footer again.";
    }
    return which == TR_GROUP_SIDE
               ? "The index of a group is damaged, and its runs are, too: all that is in the group "
                 "is lost."
               : "The footer of a run is damaged, and a block of it is, too: all that is in the "
                 "group is lost.";
}

/* Salvage: the last group cannot be used. */
static void give_up(struct tr_engine *e, enum tr_group_file which)
{
    struct tr_group *g = e->groups.order[e->groups.count - 1];
    struct tr_finding f = {.fate = TR_FATE_LOST,
                           .what = why_lost(e, g, which),
                           .id = g->is.rid_first,
                           .id_last = g->is.rid_last};
    int files[] = {g->runs[TR_GROUP_LIVE].file, g->runs[TR_GROUP_DEAD].file, g->side_file};

    tr_group_name(f.file, g->is.no, which);
    if (e->config.found != NULL) {
        e->config.found(e->config.ctx, &f);
    }
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct tr_io io = {.op = TR_IO_CLOSE, .file = files[i]};

        if (files[i] >= 0) {
            (void)run(e, &io);
        }
    }
    tr_group_free(&e->groups, g);
}

static int open_group(struct tr_engine *e, const struct tr_manifest_group *is)
{
    struct tr_group *g = tr_group_new(&e->groups);
    enum tr_group_file which = TR_GROUP_LIVE;
    int err = TARRY_OK;

    if (g == NULL) {
        return TARRY_ENOMEM;
    }
    g->is = *is;
    for (unsigned i = 0; i < TR_GROUP_RUNS && err == TARRY_OK; i++) {
        which = (enum tr_group_file)i;
        err = is->bytes[i] != 0 ? open_run(e, g, i) : TARRY_OK;
    }
    if (err == TARRY_OK) {
        which = TR_GROUP_SIDE;
        err = open_side(e, g);
    }
    blame(e, g, err);
    tr_groups_add(&e->groups, g);
    if (is_damage(err) && e->config.salvage) {
        give_up(e, which);
        err = TARRY_OK;
    }
    return err;
}

/* ---- keys ---- */

/* Entries on their way from section K, which is in the order of the table, to the table. */
struct keys {
    uint8_t *bytes; /* KEY_PAGES pages */
    struct tr_keymap_entry *sorted;
    size_t room;
    size_t count;
};

/* What is alive in a page. */
static int take_keys(struct tr_engine *e, const struct tr_side_view *v, struct keys *k)
{
    if (k->count + v->count > k->room) { /* those before it are in */
        int err = tr_keymap_load(&e->state.keys.map, k->sorted, k->count);

        if (err != TARRY_OK) {
            return err;
        }
        k->count = 0;
    }
    for (uint32_t i = 0; i < v->count; i++) {
        struct tr_side_row row;

        if (v->count > k->room || tr_side_get(v, i, &row) != TARRY_OK || row.job.rid == 0) {
            return TARRY_EDAMAGED;
        }
        if (tr_bitmap_test(&e->state.jobs.alive, row.job.rid)) {
            k->sorted[k->count++] = (struct tr_keymap_entry){
                row.job.key_hi, (uint64_t)row.job.key_lo << 48 | row.job.rid};
        }
    }
    return TARRY_OK;
}

static int read_keys(struct tr_engine *e, const struct tr_group *g, struct keys *k)
{
    const struct tr_sidecar *side = &g->side;
    uint32_t pages = side->sections[TR_SIDE_K].pages;
    int err = TARRY_OK;

    k->count = 0;
    for (uint32_t from = 0; from < pages && err == TARRY_OK; from += KEY_PAGES) {
        uint32_t count = pages - from < KEY_PAGES ? pages - from : KEY_PAGES;

        err = read_exactly(e, g->side_file, tr_sidecar_off(side, TR_SIDE_K, from), k->bytes,
                           (uint64_t)count * TR_SIDE_PAGE);
        for (uint32_t i = 0; i < count && err == TARRY_OK; i++) {
            const uint8_t *page = k->bytes + (size_t)i * TR_SIDE_PAGE;
            struct tr_side_view v;

            err = tr_sidecar_check(side, TR_SIDE_K, from + i, page);
            if (err == TARRY_OK) {
                err = tr_sidecar_view(side, TR_SIDE_K, from + i, page, &v);
            }
            if (err == TARRY_OK) {
                err = take_keys(e, &v, k);
            }
        }
    }
    return err == TARRY_OK ? tr_keymap_load(&e->state.keys.map, k->sorted, k->count) : err;
}

static int read_all_keys(struct tr_engine *e)
{
    struct keys k = {.room = (size_t)KEY_PAGES * TR_SIDE_PAGE / 8};
    uint64_t entries = 0;
    int err = TARRY_OK;

    for (uint32_t i = 0; i < e->groups.count; i++) {
        entries += e->groups.order[i]->side.sections[TR_SIDE_K].entries;
    }
    if (entries == 0) {
        return TARRY_OK;
    }
    k.bytes = tr_mem_stretch(e->mem, NULL, 0, (size_t)KEY_PAGES * TR_SIDE_PAGE);
    k.sorted = tr_mem_stretch(e->mem, NULL, 0, k.room * sizeof *k.sorted);
    err = k.bytes != NULL && k.sorted != NULL ? TARRY_OK : TARRY_ENOMEM;
    if (err == TARRY_OK && tr_keymap_count(&e->state.keys.map) == 0) {
        err = tr_keymap_expect(&e->state.keys.map, entries);
    }
    for (uint32_t i = 0; i < e->groups.count && err == TARRY_OK; i++) {
        err = read_keys(e, e->groups.order[i], &k);
        if (is_damage(err)) {
            err = rebuild_side(e, e->groups.order[i]);
            err = err == TARRY_OK ? read_keys(e, e->groups.order[i], &k) : err;
        }
        blame(e, e->groups.order[i], err);
    }
    if (k.bytes != NULL) {
        tr_mem_free(e->mem, k.bytes, (size_t)KEY_PAGES * TR_SIDE_PAGE);
    }
    if (k.sorted != NULL) {
        tr_mem_free(e->mem, k.sorted, k.room * sizeof *k.sorted);
    }
    return err;
}

int tr_regroup_open(struct tr_engine *e)
{
    const struct tr_manifest *m = &e->meta.now;
    int err = TARRY_OK;

    for (uint32_t i = 0; i < m->group_count && err == TARRY_OK; i++) {
        err = open_group(e, &m->groups[i]);
    }
    err = err == TARRY_OK ? read_all_keys(e) : err;
    return is_damage(err) && e->config.salvage ? TARRY_OK : err;
}

int tr_regroup_index(struct tr_engine *e)
{
    int err = TARRY_OK;

    for (uint32_t i = 0; i < e->groups.count && err == TARRY_OK; i++) {
        err = tr_regroup_moved(e, e->groups.order[i], e, note_moved);
    }
    err = err == TARRY_OK || is_damage(err) ? read_all_keys(e) : err;
    return is_damage(err) ? TARRY_OK : err;
}

static bool is_named(const struct tr_manifest *m, uint64_t no)
{
    for (uint32_t i = 0; i < m->group_count; i++) {
        if (m->groups[i].no == no) {
            return true;
        }
    }
    return false;
}

int tr_regroup_clean(struct tr_engine *e)
{
    char *names = tr_mem_alloc(e->mem, LIST_BYTES);
    struct tr_io io = {.op = TR_IO_LIST, .buf = names, .len = LIST_BYTES};
    int err = names != NULL ? run(e, &io) : TARRY_ENOMEM;
    uint64_t got = io.got;

    for (uint64_t at = 0; err == TARRY_OK && at < got; at += strlen(names + at) + 1) {
        uint64_t no = tr_group_number(names + at);

        if (no != 0 && !is_named(&e->meta.now, no)) {
            io = (struct tr_io){.op = TR_IO_UNLINK};
            memcpy(io.name, names + at, strlen(names + at) + 1);
            err = run(e, &io);
        }
    }
    if (names != NULL) {
        tr_mem_free(e->mem, names, LIST_BYTES);
    }
    return err;
}

/* ---- after the replay ---- */

/* A dead job of which only its run knows comes into memory: there they are all. */
static int take_dead(struct tr_engine *e, const struct tr_group *g, const struct tr_record *rec,
                     uint64_t place)
{
    struct tr_far_entry entry = {.due_us = rec->due_us,
                                 .topic = rec->topic,
                                 .off = (uint32_t)tr_place_off(place),
                                 .len = tr_place_len(place),
                                 .cell = rec->flags & TR_RF_CELL,
                                 .head =
                                     tr_far_head(tr_place_head(place, rec->body.len)) & TR_FAR_HEAD,
                                 .slot = (uint16_t)g->runs[TR_GROUP_DEAD].number,
                                 .located = true};
    struct tr_job *job;
    int err;

    if (!tr_bitmap_test(&e->state.jobs.alive, rec->rid) ||
        tr_jobs_by_rid(&e->state.jobs, rec->rid) != NULL ||
        tr_far_find(&e->state.jobs.far, rec->rid) != NULL) {
        return TARRY_OK;
    }
    err = tr_state_locate(&e->state, rec->rid, &entry);
    return err == TARRY_OK ? tr_state_bring_back(&e->state, rec->rid, rec, &job) : err;
}

static int read_dead_block(struct tr_engine *e, struct tr_group *g, uint32_t i)
{
    const struct tr_run_footer *footer = &g->footers[TR_GROUP_DEAD];
    struct tr_run_block_stat stat = tr_run_footer_block(footer, i);
    uint8_t *buf = tr_mem_stretch(e->mem, NULL, 0, stat.len);
    struct tr_run_block block;
    struct tr_record rec;
    uint64_t place;
    int err;

    if (buf == NULL) {
        return TARRY_ENOMEM;
    }
    err = read_exactly(e, g->runs[TR_GROUP_DEAD].file, stat.off, buf, stat.len);
    if (err == TARRY_OK) {
        err = tr_run_block(footer, i, buf, &block);
    }
    while (err == TARRY_OK && (err = tr_run_next(&block, &rec, &place)) == TARRY_OK) {
        err = take_dead(e, g, &rec, place);
    }
    tr_mem_free(e->mem, buf, stat.len);
    return err == TARRY_ENOTFOUND ? TARRY_OK : err;
}

int tr_regroup_dead(struct tr_engine *e)
{
    int err = TARRY_OK;

    for (uint32_t i = 0; i < e->groups.count; i++) {
        struct tr_group *g = e->groups.order[i];

        for (uint32_t k = 0; k < g->footers[TR_GROUP_DEAD].block_count && err == TARRY_OK; k++) {
            err = read_dead_block(e, g, k);
        }
        blame(e, g, err);
        if (err != TARRY_OK) {
            break;
        }
    }
    return err;
}

/* Every live rid behind the groups must have been met. */
int tr_regroup_check(struct tr_engine *e)
{
    const struct tr_jobs *js = &e->state.jobs;
    uint64_t missing = 0;

    for (uint64_t rid = tr_bitmap_next(&js->alive, e->groups.covered + 1); rid != UINT64_MAX;
         rid = tr_bitmap_next(&js->alive, rid + 1)) {
        missing += tr_jobs_by_rid(js, rid) == NULL && tr_far_find(&js->far, rid) == NULL;
    }
    if (missing != 0) {
        tr_engine_note(e, TR_NOTE_DAMAGE, "%llu live jobs have no record in the log.",
                       (unsigned long long)missing);
        return TARRY_EDAMAGED;
    }
    return TARRY_OK;
}

/* ---- whose record is in a run ---- */

/*
 * A crash after a promotion or a merge leaves slots with records of jobs that a run has. Of a job
 * that a run has no newer record is anywhere: nothing in a run is ever written again to a slot. So
 * the run's counts, and those in slots are passed over, or else nothing would ever empty the slots,
 * and changes that the run took in would be lost (tr_state_absorb).
 */

static int read_members_page(struct tr_engine *e, struct tr_group *g, uint32_t page)
{
    uint8_t bytes[TR_SIDE_PAGE];
    struct tr_side_view v = {0};
    struct tr_side_row row;
    int err = read_exactly(e, g->side_file, tr_sidecar_off(&g->side, TR_SIDE_R, page), bytes,
                           TR_SIDE_PAGE);

    if (err == TARRY_OK) {
        err = tr_sidecar_check(&g->side, TR_SIDE_R, page, bytes);
    }
    if (err == TARRY_OK) {
        err = tr_sidecar_view(&g->side, TR_SIDE_R, page, bytes, &v);
    }
    for (uint32_t k = 0; k < v.count && err == TARRY_OK; k++) {
        err = tr_side_get(&v, k, &row);
        if (err == TARRY_OK) {
            err = tr_bitmap_set(&g->has, row.job.rid);
        }
    }
    return err;
}

static int read_members_block(struct tr_engine *e, struct tr_group *g, unsigned run, uint32_t i)
{
    struct tr_run_block_stat stat = tr_run_footer_block(&g->footers[run], i);
    uint8_t *buf = tr_mem_stretch(e->mem, NULL, 0, stat.len);
    struct tr_run_block block;
    struct tr_record rec;
    uint64_t place;
    int err =
        buf != NULL ? read_exactly(e, g->runs[run].file, stat.off, buf, stat.len) : TARRY_ENOMEM;

    if (err == TARRY_OK) {
        err = tr_run_block(&g->footers[run], i, buf, &block);
    }
    while (err == TARRY_OK && (err = tr_run_next(&block, &rec, &place)) == TARRY_OK) {
        err = tr_bitmap_set(&g->has, rec.rid);
    }
    if (buf != NULL) {
        tr_mem_free(e->mem, buf, stat.len);
    }
    return err == TARRY_ENOTFOUND ? TARRY_OK : err;
}

/* All of section R; if a page of it cannot be read, all blocks: the sidecar is only an index. What
 * is in a block that is damaged, too, is believed to be where it is met. */
static int read_members(struct tr_engine *e, struct tr_group *g)
{
    int err = TARRY_OK;

    tr_bitmap_init(&g->has, e->mem);
    g->has_read = true;
    for (uint32_t i = 0; i < g->side.sections[TR_SIDE_R].pages && err == TARRY_OK; i++) {
        err = read_members_page(e, g, i);
        if (is_damage(err)) {
            tr_fetch_report(e, g, TR_GROUP_SIDE, tr_sidecar_off(&g->side, TR_SIDE_R, i));
        }
    }
    if (!is_damage(err)) {
        return err;
    }
    err = TARRY_OK;
    for (unsigned run = 0; run < TR_GROUP_RUNS; run++) {
        for (uint32_t i = 0; i < g->footers[run].block_count && err == TARRY_OK; i++) {
            err = read_members_block(e, g, run, i);
            if (is_damage(err)) {
                tr_fetch_report(e, g, (enum tr_group_file)run,
                                tr_run_footer_block(&g->footers[run], i).off);
                if (err == TARRY_EIO && !e->config.salvage) {
                    return err; /* the next start may read it */
                }
                g->unsure = true;
                err = TARRY_OK;
            }
        }
    }
    return err;
}

int tr_regroup_has(struct tr_engine *e, uint64_t rid, bool *has)
{
    struct tr_group *g = tr_groups_find(&e->groups, rid);
    int err = g != NULL && !g->has_read ? read_members(e, g) : TARRY_OK;

    *has = err == TARRY_OK && g != NULL && tr_bitmap_test(&g->has, rid);
    if (g != NULL && g->unsure && !*has) {
        g->doubts++;
    }
    return err;
}

/* Whoever is believed to be where he was met, though a run may have him: that is told. */
static void tell_doubts(struct tr_engine *e, struct tr_group *g)
{
    if (g->doubts != 0) {
        tr_engine_note(e, TR_NOTE_DAMAGE,
                       "%llu jobs are taken from the log, though group %llu may have newer changes "
                       "of them in blocks that cannot be read.",
                       (unsigned long long)g->doubts, (unsigned long long)g->is.no);
    }
    g->doubts = 0;
    g->unsure = false;
}

/* Far ones that were met in the log behind the checkpoint. */
static int settle_far(struct tr_engine *e)
{
    struct tr_far *far = &e->state.jobs.far;
    struct tr_far_walk walk;
    const struct tr_far_page *page;
    int err = TARRY_OK;

    tr_far_walk_begin(far, &walk);
    while (err == TARRY_OK && (page = tr_far_walk_page(far, &walk)) != NULL) {
        uint64_t rids[TR_FAR_PAGE];
        unsigned count = 0;

        for (unsigned i = 0; i < page->count; i++) {
            if (!page->entries[i].located) {
                rids[count++] = tr_far_page_rid(page, i);
            }
        }
        tr_far_walk_on(far, &walk);
        while (count > 0 && err == TARRY_OK) {
            bool has;

            err = tr_regroup_has(e, rids[--count], &has);
            if (has) {
                tr_state_far_to_run(&e->state, rids[count]);
            }
        }
    }
    tr_far_walk_end(&walk);
    return err;
}

/* And those in memory. */
static int settle_job(struct tr_engine *e, struct tr_job *job)
{
    struct tr_far_entry entry;
    bool has = false;
    int err = TARRY_OK;

    if (job->slot != NULL && job->slot->number < TR_MANIFEST_SLOTS_MAX) {
        err = tr_regroup_has(e, job->rid, &has);
    }
    if (!has) {
        return err;
    }
    err = tr_fetch_find_now(e, job->rid, &entry);
    if (err == TARRY_OK) {
        tr_job_unplace(job, 0);
        tr_job_place(job, tr_state_slot(&e->state, entry.slot), entry.off, entry.len);
    }
    return err == TARRY_ENOMEM ? err : TARRY_OK; /* else where it was met is as good, for now */
}

int tr_regroup_settle(struct tr_engine *e)
{
    struct tr_job *job;
    size_t at = 0;
    int err;

    for (uint32_t i = 0; i < e->groups.count; i++) {
        e->groups.order[i]->doubts = 0; /* all of them are asked for once more */
    }
    err = settle_far(e);
    while (err == TARRY_OK && (job = tr_jobs_next(&e->state.jobs, &at)) != NULL) {
        err = settle_job(e, job);
    }
    for (uint32_t i = 0; i < e->groups.count; i++) {
        tell_doubts(e, e->groups.order[i]);
        if (e->groups.order[i]->has_read) {
            tr_bitmap_fini(&e->groups.order[i]->has);
            e->groups.order[i]->has_read = false;
        }
    }
    return err;
}

/* ---- cells of an older store ---- */

static int count_cell(struct tr_engine *e, struct tr_tally at)
{
    int err = tr_tally_check(&e->state, NULL, &at);

    if (err == TARRY_OK && !at.dead) { /* dead ones have no cell, and are counted already */
        tr_tally_shift(&e->state, NULL, &at);
    }
    return err;
}

static int count_slots(struct tr_engine *e)
{
    const struct tr_far *far = &e->state.jobs.far;
    const struct tr_job *job;
    size_t at = 0;
    int err = TARRY_OK;

    while (err == TARRY_OK && (job = tr_jobs_next(&e->state.jobs, &at)) != NULL) {
        err = count_cell(e, tr_tally_job(job));
    }
    for (const struct tr_list *n = far->all.next; n != &far->all; n = n->next) {
        const struct tr_far_page *page = TR_CONTAINER_OF(n, struct tr_far_page, link);

        for (unsigned i = 0; i < page->count && err == TARRY_OK; i++) {
            const struct tr_far_entry *entry = &page->entries[i];
            struct tr_kill kill = {.due_us = entry->due_us,
                                   .topic = entry->topic,
                                   .cell = (uint8_t)entry->cell,
                                   .was_dead = entry->located}; /* the run tells */

            err = count_cell(e, tr_tally_old(&e->state, &kill));
        }
    }
    return err;
}

/* A page of T: those that only the run has. */
static int count_page(struct tr_engine *e, const struct tr_group *g, uint32_t i,
                      const uint8_t *page)
{
    struct tr_side_view v = {0};
    struct tr_side_row row;
    int err = tr_sidecar_check(&g->side, TR_SIDE_T, i, page);

    if (err == TARRY_OK) {
        err = tr_sidecar_view(&g->side, TR_SIDE_T, i, page, &v);
    }
    for (uint32_t k = 0; k < v.count && err == TARRY_OK; k++) {
        err = tr_side_get(&v, k, &row);
        if (err == TARRY_OK && row.job.dead_seq == 0 &&
            tr_engine_only_in_run(e, row.job.rid, row.job.topic)) {
            struct tr_kill kill = {
                .due_us = row.job.due_us, .topic = row.job.topic, .cell = row.job.cell};

            err = count_cell(e, tr_tally_old(&e->state, &kill));
        }
    }
    return err;
}

int tr_regroup_cells(struct tr_engine *e)
{
    uint8_t page[TR_SIDE_PAGE];
    int err;

    if (!e->state.recells) {
        return TARRY_OK;
    }
    e->state.recells = false;
    err = count_slots(e);
    for (uint32_t i = 0; i < e->groups.count && err == TARRY_OK; i++) {
        const struct tr_group *g = e->groups.order[i];

        for (uint32_t k = 0; k < g->side.sections[TR_SIDE_T].pages && err == TARRY_OK; k++) {
            err = read_exactly(e, g->side_file, tr_sidecar_off(&g->side, TR_SIDE_T, k), page,
                               TR_SIDE_PAGE);
            err = err == TARRY_OK ? count_page(e, g, k, page) : err;
        }
    }
    return err;
}

/* How many of each group are alive and in it: the others were met in slots. */
static void count_live(struct tr_engine *e)
{
    const struct tr_jobs *js = &e->state.jobs;
    const struct tr_job *job;
    struct tr_group *g;
    size_t at = 0;

    for (uint32_t i = 0; i < e->groups.count; i++) {
        g = e->groups.order[i];
        g->alive = tr_bitmap_count(&js->alive, g->is.rid_first, g->is.rid_last);
    }
    while ((job = tr_jobs_next(js, &at)) != NULL) {
        g = job->slot == NULL || job->slot->number < TR_MANIFEST_SLOTS_MAX
                ? tr_groups_find(&e->groups, job->rid)
                : NULL;
        if (g != NULL) {
            g->alive--;
        }
    }
    for (const struct tr_list *n = js->far.all.next; n != &js->far.all; n = n->next) {
        const struct tr_far_page *page = TR_CONTAINER_OF(n, struct tr_far_page, link);

        for (unsigned i = 0; i < page->count && page->first <= e->groups.covered; i++) {
            g = page->entries[i].located ? NULL
                                         : tr_groups_find(&e->groups, tr_far_page_rid(page, i));
            if (g != NULL) {
                g->alive--;
            }
        }
    }
    for (uint32_t i = 0; i < e->groups.count; i++) {
        tr_group_set_live(e->groups.order[i], e->groups.order[i]->alive);
    }
}

void tr_regroup_count(struct tr_engine *e)
{
    struct tr_jobs *js = &e->state.jobs;
    struct tr_totals *all = &e->state.topics.totals;
    struct tr_job *job;
    size_t at = 0;

    e->no_counts = e->state.recount;
    e->state.recount = false;
    js->runs = js->alive.members - js->count - (js->far.count - js->far.located);
    all->far = 0;
    all->dead_far = 0;
    e->state.topics.gone.far = 0;
    e->state.topics.gone.dead_far = 0;
    for (struct tr_list *n = e->state.topics.all.next; n != &e->state.topics.all; n = n->next) {
        struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, link);

        t->far = t->jobs - t->dead;
        t->far_known = false; /* those in runs have not been met */
        t->dead_far = t->dead;
        t->totals->far += t->far;
        t->totals->dead_far += t->dead_far;
    }
    while ((job = tr_jobs_next(js, &at)) != NULL) {
        bool met = e->state.redead || job->dead_seq == 0; /* all dead ones are */

        *(met ? &job->topic->far : &job->topic->dead_far) -= 1;
        *(met ? &job->topic->totals->far : &job->topic->totals->dead_far) -= 1;
        job->topic->dead += e->state.redead && job->dead_seq != 0;
    }
    e->state.redead = false;
    count_live(e);
}
