/*
 * A store that was opened, compared with itself.
 *
 *     manifests      every copy; of the newest both must be good
 *     checkpoints    every page of both
 *     log            was walked by the opening: every frame and record of it is good, or told;
 *                    headers of slots, too
 *     runs           every block and record (survey.c)
 *     sidecars       every page; then it is built anew from the records, and must be the same bytes
 *     jobs           each live rid has one record; counts by topic, cells and keys are what is
 * found
 *
 * What a crash leaves behind is no damage: a manifest or checkpoint that was being written when
 * it came, frames behind the end of the log, files that the manifest does not name.
 */

#include "engine/verify.h"

#include "base/err.h"
#include "engine/survey.h"

#include <string.h>

enum { PAGES = 64 };

struct count {
    uint64_t jobs;
    uint64_t dead;
};

struct verify {
    struct tr_engine *e;
    const struct tr_verify_calls *calls;
    struct tr_verify_sum *sum;
    struct tr_map counts; /* by topic number: struct count */
    struct tr_cells cells;
    struct tr_side_job *jobs; /* of the group that is being read */
    size_t job_count;
    size_t job_room;
    uint32_t keyed;
    struct tr_bitmap has;
    struct {
        uint64_t batch;
        uint64_t pages;
    } ckpt[2];         /* by the manifest: to the engine one that is damaged is none, */
    uint32_t newer;    /* or not the newer one */
    uint64_t findings; /* when it began */
    uint64_t done;
    uint64_t all;
    uint8_t *pages;
    uint8_t *built;
};

static void found(void *ctx, const struct tr_finding *f)
{
    struct verify *v = ctx;

    v->sum->findings++;
    v->sum->lost += f->fate == TR_FATE_LOST;
    v->calls->found(v->calls->ctx, f);
}

static void progress(void *ctx, uint64_t more)
{
    struct verify *v = ctx;

    v->done += more;
    if (v->calls->progress != NULL) {
        v->calls->progress(v->calls->ctx, v->done, v->all > v->done ? v->all : v->done);
    }
}

static void tell(struct verify *v, const char *what, const char *file, uint64_t off, uint64_t len)
{
    struct tr_finding f = {.what = what, .off = off, .len = len};

    memcpy(f.file, file, strlen(file) + 1);
    found(v, &f);
}

static int read_at(const struct verify *v, int file, uint64_t off, uint8_t *buf, uint64_t len)
{
    struct tr_io io = {.op = TR_IO_READ_DIRECT, .file = file, .off = off, .len = len};
    int err;

    io.buf = buf;
    err = file >= 0 ? v->e->disk.ops->run(v->e->disk.ctx, &io) : TARRY_EDAMAGED;
    return err == TARRY_OK && io.got != len ? TARRY_EDAMAGED : err;
}

/* ---- manifests and checkpoints ---- */

static bool is_clean(const struct verify *v)
{
    return (v->e->meta.now.flags & TR_MAN_CLEAN) != 0;
}

/* Were these bytes ever written? A store is young, or its second manifest was being written. */
static bool is_zero(const uint8_t *p, size_t len)
{
    while (len > 0 && p[len - 1] == 0) {
        len--;
    }
    return len == 0;
}

/* Of a backup that was never opened there is one file, that of its only generation. */
static bool is_other_of_copy(const struct tr_meta *m, unsigned which)
{
    return (m->now.flags & TR_MAN_COPY) != 0 && which != (m->now.gen & 1) && m->man_file[which] < 0;
}

static void note_checkpoints(struct verify *v, const struct tr_manifest *man)
{
    for (unsigned i = 0; i < 2; i++) {
        v->ckpt[i].batch = man->ckpt[i].batch;
        v->ckpt[i].pages = man->ckpt[i].pages;
    }
    v->newer = man->ckpt_now;
}

static void verify_manifests(struct verify *v)
{
    const struct tr_meta *m = &v->e->meta;
    bool whole = is_clean(v) || m->known_gen >= m->now.gen; /* else it was perhaps cut short */

    for (unsigned i = 0; i < 2 * TR_MANIFEST_COPIES; i++) {
        char file[TR_IO_NAME_MAX] = "man.0";
        uint64_t off = (uint64_t)(i / 2) * TR_MANIFEST_COPY;
        bool newest = i % 2 == (m->now.gen & 1);
        int err;

        if (is_other_of_copy(m, i % 2)) {
            continue;
        }
        err = read_at(v, m->man_file[i % 2], off, v->pages, TR_MANIFEST_COPY);
        file[4] = (char)('0' + i % 2);
        if (err == TARRY_OK && is_zero(v->pages, TR_MANIFEST_COPY) && (m->now.gen < 2 || !newest)) {
            continue; /* never written */
        }
        err = err == TARRY_OK ? tr_manifest_decode(v->pages, &v->e->meta.next) : err;
        if (err == TARRY_OK && v->e->meta.next.gen == m->now.gen) {
            note_checkpoints(v, &v->e->meta.next);
        }
        if (err != TARRY_OK && (newest ? whole : is_clean(v))) {
            tell(v, "A copy of the manifest is damaged; another one is good.", file, off,
                 TR_MANIFEST_COPY);
        }
    }
}

/* The one that is not in use may have been cut short, but not if the store was closed in order. The
 * newer one never is; if it was refused at the start, it is told in any case. */
static void verify_checkpoint(struct verify *v, unsigned which)
{
    const struct tr_manifest *man = &v->e->meta.now;
    bool refused = which == v->newer && which != man->ckpt_now;
    uint64_t findings = v->sum->findings;
    char file[TR_IO_NAME_MAX] = "ckpt.0";

    file[5] = (char)('0' + which);
    if (v->ckpt[which].batch == 0) {
        return;
    }
    for (uint64_t i = 0; i < v->ckpt[which].pages; i++) {
        int err = read_at(v, v->e->meta.ckpt_file[which], i * TR_PAGE, v->pages, TR_PAGE);

        progress(v, TR_PAGE);
        if (err == TARRY_OK) {
            err = tr_checkpoint_check_page(v->pages, i, v->ckpt[which].batch);
        }
        if (err != TARRY_OK && (refused || which == man->ckpt_now || is_clean(v))) {
            tell(v, "A page of a checkpoint is damaged.", file, i * TR_PAGE, TR_PAGE);
        }
    }
    if (refused && v->sum->findings == findings) {
        tell(v, "A checkpoint is damaged: its pages do not make a whole.", file, 0, 0);
    }
}

/* ---- what the opening has made good in memory ---- */

static void verify_headers(struct verify *v)
{
    for (uint32_t i = 0; i < v->e->log.slots_max; i++) {
        char file[TR_IO_NAME_MAX];

        if (v->e->log.slots[i].headless) {
            tr_log_slot_name(file, i);
            tell(v, "The header of a slot is damaged; its frames say the same.", file, 0, TR_BLOCK);
        }
    }
}

static void tell_overlaid(void *ctx, int number, uint64_t off, uint64_t len)
{
    struct verify *v = ctx;

    for (uint32_t i = 0; i < v->e->groups.count; i++) {
        const struct tr_group *g = v->e->groups.order[i];
        char file[TR_IO_NAME_MAX];

        for (unsigned run = 0; run < TR_GROUP_RUNS; run++) {
            if (g->runs[run].file == number) {
                tr_group_name(file, g->is.no, (enum tr_group_file)run);
                tell(v, "The footer of a run is damaged; it can be made again from the blocks.",
                     file, off, len);
            }
        }
        if (g->side_file == number) {
            tr_group_name(file, g->is.no, TR_GROUP_SIDE);
            tell(v, "An index is damaged; it can be made again from the records.", file, off, len);
        }
    }
}

/* ---- jobs ---- */

static struct count *count_of(struct verify *v, const struct tr_topic *t)
{
    struct count *c = tr_map_find(&v->counts, t->number);

    if (c == NULL) {
        c = tr_mem_alloc(v->e->mem, sizeof *c);
        if (c != NULL && tr_map_put(&v->counts, t->number, c) != TARRY_OK) {
            tr_mem_free(v->e->mem, c, sizeof *c);
            c = NULL;
        }
    }
    return c;
}

static struct tr_finding about(const struct tr_record *rec, const struct tr_topic *t,
                               const char *what)
{
    struct tr_finding f = {
        .what = what, .id = rec->mask & TR_FIELD(ID) ? rec->id : rec->rid, .due_us = rec->due_us};

    if (t != NULL) {
        f.topic = t->name;
        f.topic_len = t->name_len;
    }
    return f;
}

static void verify_key(struct verify *v, const struct tr_record *rec, const struct tr_topic *t)
{
    const struct tr_keys *keys = &v->e->state.keys;
    struct tr_siphash hash = tr_keyer_hash(&keys->keyer, rec->topic, rec->key);
    uint64_t rid = 0;

    v->sum->keyed++;
    if (!tr_keys_has(keys, hash, rec->rid)) {
        struct tr_finding f = about(rec, t, "The index does not know the key of a job.");

        found(v, &f);
    }
    while (keys->keyer.bits == 0 && (rid = tr_keymap_find(&keys->map, hash, rid)) != 0) {
        if (rid > rec->rid && tr_bitmap_test(&v->e->state.jobs.alive, rid)) {
            struct tr_finding f = about(rec, t, "Two live jobs have the same key.");

            found(v, &f);
        }
    }
}

static int verify_job(void *ctx, const struct tr_record *rec, struct tr_topic *t)
{
    struct verify *v = ctx;
    bool dead = (rec->mask & TR_FIELD(DEAD)) != 0 && rec->dead.seq != 0;
    uint32_t kind = rec->flags & TR_RF_CELL;
    uint32_t any = kind;
    struct count *c;

    if (t == NULL) {
        struct tr_finding f = about(rec, NULL, "The topic of a job is not known.");

        found(v, &f);
        return TARRY_OK;
    }
    c = count_of(v, t);
    if (c == NULL) {
        return TARRY_ENOMEM;
    }
    c->jobs++;
    c->dead += dead;
    v->sum->jobs += !t->purged;
    v->sum->dead += dead && !t->purged;
    if (t->purged) {
        return TARRY_OK;
    }
    if (rec->key.len != 0) {
        verify_key(v, rec, t);
    }
    if (!dead) {
        int err = tr_cells_make(&v->cells, t->number, rec->due_us, &any);

        if (err != TARRY_OK) {
            return err;
        }
        tr_cells_add(&v->cells, t->number, rec->due_us, kind);
    }
    return TARRY_OK;
}

static void verify_cells(struct verify *v, const struct tr_topic *t)
{
    struct tr_cells_walk mine = tr_cells_from(&v->cells, t->number, 0);
    struct tr_cells_walk its = tr_cells_from(&v->e->state.cells, t->row, 0);
    struct tr_cell a;
    struct tr_cell b;

    for (;;) {
        bool more = tr_cells_next(&v->cells, &mine, &a);
        bool its_more = t->row != 0 && tr_cells_next(&v->e->state.cells, &its, &b);

        if (!more && !its_more) {
            return;
        }
        if (more != its_more || a.when != b.when || a.count != b.count) {
            struct tr_finding f = {.what = "The forecast of a topic does not count what is there.",
                                   .topic = t->name,
                                   .topic_len = t->name_len};

            found(v, &f);
            return;
        }
    }
}

static void verify_topics(struct verify *v)
{
    const struct tr_topics *ts = &v->e->state.topics;

    for (const struct tr_list *n = ts->all.next; n != &ts->all; n = n->next) {
        const struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, link);
        struct count *c = tr_map_find(&v->counts, t->number);
        struct count none = {0};

        c = c != NULL ? c : &none;
        v->sum->topics += !t->purged;
        if (c->jobs != t->jobs || (!t->purged && c->dead != t->dead)) {
            struct tr_finding f = {.what = "A topic counts other jobs than are found.",
                                   .topic = t->name,
                                   .topic_len = t->name_len};

            found(v, &f);
        }
        if (!t->purged) {
            verify_cells(v, t);
        }
    }
}

/* A live rid of which there is no record. */
static void missing(struct verify *v, uint64_t rid)
{
    uint64_t id = tr_far_moved_id(&v->e->state.jobs.far, rid);
    struct tr_finding f = {.fate = TR_FATE_LOST,
                           .what = "A job is said to be alive, but there is no record of it.",
                           .id = id != 0 ? id : rid};

    found(v, &f);
}

static bool in_slot(const struct tr_engine *e, uint64_t rid)
{
    const struct tr_job *job = tr_jobs_by_rid(&e->state.jobs, rid);
    const struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, rid);

    if (job != NULL) {
        return job->slot != NULL && job->slot->number < TR_MANIFEST_SLOTS_MAX;
    }
    return entry != NULL && !entry->located;
}

static void verify_alive(struct verify *v)
{
    const struct tr_bitmap *alive = &v->e->state.jobs.alive;

    for (uint64_t rid = tr_bitmap_next(alive, 0); rid != UINT64_MAX;
         rid = tr_bitmap_next(alive, rid + 1)) {
        const struct tr_group *g = tr_groups_find(&v->e->groups, rid);

        if (g != NULL) {
            rid = g->is.rid_last; /* looked at with its group */
        } else if (!in_slot(v->e, rid)) {
            missing(v, rid);
        }
    }
}

/* ---- groups ---- */

static int verify_record(void *ctx, const struct tr_group *g, const struct tr_record *rec,
                         uint64_t place)
{
    struct verify *v = ctx;
    char file[TR_IO_NAME_MAX];

    if (v->job_count == v->job_room) {
        size_t room = v->job_room + v->job_room / 2 + 1024;
        void *jobs = tr_mem_stretch(v->e->mem, v->jobs, v->job_room * sizeof *v->jobs,
                                    room * sizeof *v->jobs);

        if (jobs == NULL) {
            return TARRY_ENOMEM;
        }
        v->jobs = jobs;
        v->job_room = room;
    }
    v->sum->run_records++;
    if (rec->rid < g->is.rid_first || rec->rid > g->is.rid_last ||
        tr_bitmap_test(&v->has, rec->rid)) {
        tr_group_name(file, g->is.no, (enum tr_group_file)tr_place_piece(place));
        tell(v, "A record stands where it does not belong.", file, tr_place_off(place),
             tr_place_len(place));
        return TARRY_OK;
    }
    v->jobs[v->job_count] = tr_promote_index(&v->e->state.keys.keyer, rec, place);
    v->keyed += v->jobs[v->job_count++].keyed;
    return tr_bitmap_set(&v->has, rec->rid);
}

/* Every page has the right crc and its own entries. */
static bool pages_good(struct verify *v, const struct tr_group *g, const char *file)
{
    const struct tr_sidecar *side = &g->side;
    bool good = true;

    for (unsigned section = 0; section < TR_SIDE_SECTIONS; section++) {
        for (uint32_t i = 0; i < side->sections[section].pages; i++) {
            uint64_t off = tr_sidecar_off(side, (enum tr_side_section)section, i);
            int err = read_at(v, g->side_file, off, v->pages, TR_SIDE_PAGE);

            progress(v, TR_SIDE_PAGE);
            v->sum->index_pages++;
            if (err != TARRY_OK ||
                tr_sidecar_check(side, (enum tr_side_section)section, i, v->pages) != TARRY_OK) {
                tell(v, "A page of an index is damaged; it can be made again from the records.",
                     file, off, TR_SIDE_PAGE);
                good = false;
            }
        }
    }
    return good;
}

/* Is what is built from the records what is there? `off`: up to where. */
static int compare_side(struct verify *v, const struct tr_group *g, bool *same, uint64_t *off)
{
    struct tr_side_input in = {.of = tr_group_side_of(g, v->e->log.uuid),
                               .rid_first = g->is.rid_first,
                               .rid_last = g->is.rid_last,
                               .jobs = v->jobs,
                               .job_count = (uint32_t)v->job_count,
                               .keyed_max = v->keyed,
                               .moved_max = (uint32_t)v->job_count};
    struct tr_side_build b;
    uint32_t count;
    int err = tr_side_build_init(&b, v->e->mem, &in);

    *same = err == TARRY_OK;
    *off = 0;
    if (err != TARRY_OK) {
        return err;
    }
    tr_side_build_prepare(&b);
    while (*same && (count = tr_side_build_pages(&b, v->built, PAGES)) != 0) {
        uint64_t len = (uint64_t)count * TR_SIDE_PAGE;

        *same = read_at(v, g->side_file, *off, v->pages, len) == TARRY_OK &&
                memcmp(v->pages, v->built, len) == 0;
        *off += *same ? len : 0;
    }
    tr_side_build_fini(&b);
    return TARRY_OK;
}

/* That of an older build does not tell how long heads are. */
static int verify_side(struct verify *v, const struct tr_group *g, const char *file)
{
    uint64_t off;
    bool same;
    int err = compare_side(v, g, &same, &off);

    if (err == TARRY_OK && !same) {
        tr_side_forget_heads(v->jobs, v->job_count);
        err = compare_side(v, g, &same, &off);
    }
    if (err == TARRY_OK && !same) {
        tell(v, "An index does not agree with the records; it can be made again from them.", file,
             off, 0);
    }
    return err;
}

static int verify_group(void *ctx, struct tr_group *g)
{
    struct verify *v = ctx;
    char file[TR_IO_NAME_MAX];
    bool whole = v->sum->findings == v->findings;
    int err = TARRY_OK;

    tr_group_name(file, g->is.no, TR_GROUP_SIDE);
    v->sum->groups++;
    if (pages_good(v, g, file) && whole) {
        err = verify_side(v, g, file);
    }
    if (whole) { /* else what is missing was told with its block */
        for (uint64_t rid = tr_bitmap_next(&v->e->state.jobs.alive, g->is.rid_first);
             rid <= g->is.rid_last; rid = tr_bitmap_next(&v->e->state.jobs.alive, rid + 1)) {
            if (!tr_bitmap_test(&v->has, rid) && !in_slot(v->e, rid)) {
                missing(v, rid);
            }
        }
    }
    tr_bitmap_fini(&v->has);
    tr_bitmap_init(&v->has, v->e->mem);
    v->job_count = 0;
    v->keyed = 0;
    v->findings = v->sum->findings;
    return err;
}

/* ---- all of it ---- */

static void clear(struct verify *v)
{
    struct tr_mem *mem = v->e->mem;
    const struct tr_list *all = &v->e->state.topics.all;

    for (const struct tr_list *n = all->next; n != all; n = n->next) {
        struct count *c =
            tr_map_take(&v->counts, TR_CONTAINER_OF(n, struct tr_topic, link)->number);

        tr_mem_free(mem, c, sizeof *c);
    }
    tr_map_fini(&v->counts);
    tr_cells_fini(&v->cells);
    tr_bitmap_fini(&v->has);
    if (v->jobs != NULL) {
        tr_mem_free(mem, v->jobs, v->job_room * sizeof *v->jobs);
    }
    tr_mem_free(mem, v->pages, (size_t)PAGES * TR_SIDE_PAGE);
    tr_mem_free(mem, v->built, (size_t)PAGES * TR_SIDE_PAGE);
}

int tr_verify_run(struct tr_engine *e, const struct tr_verify_calls *calls,
                  struct tr_verify_sum *sum)
{
    struct verify v = {.e = e, .calls = calls, .sum = sum};
    struct tr_survey s = {.e = e,
                          .ctx = &v,
                          .job = verify_job,
                          .record = verify_record,
                          .group = verify_group,
                          .found = found,
                          .progress = progress};
    int err;

    *sum = (struct tr_verify_sum){.log_records = e->replayed};
    tr_map_init(&v.counts, e->mem);
    tr_cells_init(&v.cells, e->mem, UINT64_MAX);
    v.cells.hour_us = e->state.cells.hour_us;
    tr_bitmap_init(&v.has, e->mem);
    v.pages = tr_mem_alloc(e->mem, (size_t)PAGES * TR_SIDE_PAGE);
    v.built = tr_mem_alloc(e->mem, (size_t)PAGES * TR_SIDE_PAGE);
    v.all = tr_survey_bytes(e) + (e->meta.now.ckpt[0].pages + e->meta.now.ckpt[1].pages) * TR_PAGE;
    err = v.pages != NULL && v.built != NULL ? TARRY_OK : TARRY_ENOMEM;
    if (err == TARRY_OK) {
        note_checkpoints(&v, &e->meta.now);
        verify_manifests(&v);
        verify_checkpoint(&v, 0);
        verify_checkpoint(&v, 1);
        verify_headers(&v);
        if (e->overlay != NULL) {
            tr_overlay_walk(e->overlay, &v, tell_overlaid);
        }
        v.findings = sum->findings;
        err = tr_survey_run(&s);
    }
    if (err == TARRY_OK) {
        verify_alive(&v);
        verify_topics(&v);
    }
    clear(&v);
    return err;
}
