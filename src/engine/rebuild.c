/*
 * At a start: what a group's files say twice is made again when one of the two is damaged.
 *
 *     footer     from the blocks: each says how long it is, so they are followed from the first on
 *     sidecar    from the records of the runs: it is an index, never the truth
 *
 * Equal input gives equal bytes, so both are simply written again where they were, and only those
 * pages that are not there: a power cut may spoil whatever is being written, even with the same
 * bytes, and a copy of the store may share the file. So each page is what it was to be, or damaged
 * as before, whatever a crash leaves, and the next start does the same again. If a block is
 * damaged, too, nothing is written: two damaged places in one group refuse the store by name
 * (regroup.c).
 *
 * Who only looks at the store writes nothing: the pages go into memory, over those of the file
 * (overlay.c).
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

enum { PAGES = 64 };

static int run(struct tr_engine *e, struct tr_io *io)
{
    return e->disk.ops->run(e->disk.ctx, io);
}

static int read_exactly(struct tr_engine *e, int file, uint64_t off, void *buf, uint64_t len)
{
    struct tr_io io = {.op = TR_IO_READ_DIRECT, .file = file, .off = off, .len = len, .buf = buf};
    int err = run(e, &io);

    return err == TARRY_OK && io.got != len ? TARRY_EDAMAGED : err;
}

/* The overlay, which there is from the first time on that somebody needs it. */
static struct tr_overlay *overlay(struct tr_engine *e)
{
    if (e->overlay == NULL) {
        e->overlay = tr_overlay_new(e->mem, e->disk);
        e->disk = e->overlay != NULL ? tr_overlay_port(e->overlay) : e->disk;
    }
    return e->overlay;
}

static int put(struct tr_engine *e, int file, uint64_t off, const uint8_t *from, uint64_t len)
{
    struct tr_overlay *o = overlay(e);
    int err = o != NULL ? tr_overlay_put(o, file, off, from, len) : TARRY_ENOMEM;

    return err == TARRY_EFULL ? TARRY_EDAMAGED : err; /* it stays as it is */
}

static int write_exactly(struct tr_engine *e, int file, uint64_t off, const uint8_t *from,
                         uint64_t len)
{
    int err = TARRY_OK;

    if (e->config.read_only) {
        return put(e, file, off, from, len);
    }
    while (len > 0 && err == TARRY_OK) {
        struct tr_piece piece = {from, (size_t)len};
        struct tr_io io = {.op = TR_IO_WRITE,
                           .file = file,
                           .off = off,
                           .len = len,
                           .pieces = &piece,
                           .piece_count = 1};

        err = run(e, &io);
        from += io.got;
        off += io.got;
        len -= io.got;
    }
    return err;
}

static int sync_file(struct tr_engine *e, int file)
{
    struct tr_io io = {.op = TR_IO_SYNC, .file = file};

    return e->config.read_only ? TARRY_OK : run(e, &io);
}

/* A block that was read, and the memory for it. */
struct hand {
    uint8_t *buf;
    uint32_t room;
};

static int hold(struct tr_engine *e, struct hand *h, uint32_t len)
{
    uint8_t *buf = h->room < len ? tr_mem_stretch(e->mem, h->buf, h->room, len) : h->buf;

    if (buf == NULL) {
        return TARRY_ENOMEM;
    }
    h->buf = buf;
    h->room = h->room < len ? len : h->room;
    return TARRY_OK;
}

static void let_go(struct tr_engine *e, struct hand *h)
{
    if (h->buf != NULL) {
        tr_mem_free(e->mem, h->buf, h->room);
    }
}

/* ---- what is not there ---- */

/* Has the file these bytes? It is asked, not the cache. */
static bool is_there(struct tr_engine *e, int file, uint64_t off, struct tr_piece want,
                     struct hand *h)
{
    return read_exactly(e, file, off, h->buf, want.len) == TARRY_OK &&
           memcmp(h->buf, want.at, want.len) == 0;
}

/* Writes those pages of a range that the file does not have. */
static int write_other_pages(struct tr_engine *e, int file, uint64_t off, struct tr_piece want,
                             struct hand *h)
{
    int err = TARRY_OK;

    for (size_t at = 0; at < want.len && err == TARRY_OK; at += TR_SIDE_PAGE) {
        const uint8_t *from = (const uint8_t *)want.at + at;
        size_t len = want.len - at < TR_SIDE_PAGE ? want.len - at : TR_SIDE_PAGE;

        if (!is_there(e, file, off + at, (struct tr_piece){from, len}, h)) {
            err = write_exactly(e, file, off + at, from, len);
        }
    }
    return err;
}

/* Makes the file have these bytes: mostly it does, so they are read in large pieces first. */
static int make_good(struct tr_engine *e, int file, uint64_t off, struct tr_piece want,
                     struct hand *h)
{
    int err = hold(e, h, TR_RUN_BLOCK);

    for (size_t at = 0; at < want.len && err == TARRY_OK; at += TR_RUN_BLOCK) {
        struct tr_piece part = {(const uint8_t *)want.at + at,
                                want.len - at < TR_RUN_BLOCK ? want.len - at : TR_RUN_BLOCK};

        if (!is_there(e, file, off + at, part, h)) {
            err = write_other_pages(e, file, off + at, part, h);
        }
    }
    return err;
}

/* ---- the footer of a run ---- */

/* The block at off. TARRY_ENOTFOUND: there is none, so this may be where the footer begins. */
static int read_block(struct tr_engine *e, const struct tr_group *g, const struct tr_run_of *of,
                      uint64_t off, struct hand *h)
{
    uint64_t end = g->is.bytes[of->piece];
    int file = g->runs[of->piece].file;
    uint32_t len;
    int err = hold(e, h, TR_RUN_BLOCK);

    if (err != TARRY_OK || off + TR_RUN_BLOCK_HEAD > end) {
        return err != TARRY_OK ? err : TARRY_ENOTFOUND;
    }
    err = read_exactly(e, file, off, h->buf, TR_RUN_BLOCK_HEAD);
    len = err == TARRY_OK ? tr_run_block_len(h->buf) : 0;
    if (len == 0 || off + len > end) { /* whether it really ends here the length will tell */
        return TARRY_ENOTFOUND;
    }
    err = hold(e, h, len);
    return err == TARRY_OK ? read_exactly(e, file, off, h->buf, len) : err;
}

static int adopt_blocks(struct tr_engine *e, const struct tr_group *g, struct tr_run_writer *w,
                        struct hand *h)
{
    struct tr_run_block block;
    uint64_t off = 0;
    int err;

    while ((err = read_block(e, g, &w->of, off, h)) == TARRY_OK) {
        uint32_t len = tr_run_block_len(h->buf);

        if (tr_run_block_alone(&w->of, off, h->buf, len, &block) != TARRY_OK) {
            break; /* a write that went astray looks like one */
        }
        err = tr_run_adopt(w, &block, len);
        if (err != TARRY_OK) {
            return err;
        }
        off += len;
    }
    return off == 0 ? TARRY_EDAMAGED : err == TARRY_ENOTFOUND ? TARRY_OK : err;
}

int tr_rebuild_footer(struct tr_engine *e, const struct tr_group *g, unsigned which)
{
    struct tr_run_of of = tr_group_run_of(g, which, e->log.uuid);
    int file = g->runs[which].file;
    struct tr_run_writer w;
    struct hand h = {0};
    int err;

    tr_run_init(&w, e->mem, &of, which == TR_GROUP_DEAD);
    err = adopt_blocks(e, g, &w, &h);
    if (err == TARRY_OK) {
        err = tr_run_end(&w);
    }
    if (err == TARRY_OK && w.stat.bytes + w.footer_len != g->is.bytes[which]) {
        err = TARRY_EDAMAGED; /* a block is missing at the end */
    }
    if (err == TARRY_OK) {
        err = make_good(e, file, w.stat.bytes, (struct tr_piece){w.footer, w.footer_len}, &h);
    }
    if (err == TARRY_OK) {
        err = sync_file(e, file);
    }
    tr_run_fini(&w);
    let_go(e, &h);
    return err;
}

/* ---- the sidecar ---- */

/* All records of the group, as the sidecar is to know them. */
static int note_records(struct tr_engine *e, const struct tr_group *g, struct tr_promote *p,
                        struct hand *h)
{
    int err = TARRY_OK;

    for (unsigned i = 0; i < TR_GROUP_RUNS; i++) {
        const struct tr_run_footer *footer = &g->footers[i];

        for (uint32_t k = 0; k < footer->block_count && err == TARRY_OK; k++) {
            struct tr_run_block_stat stat = tr_run_footer_block(footer, k);
            struct tr_run_block block;
            struct tr_record rec;
            uint64_t place;

            err = hold(e, h, stat.len);
            if (err == TARRY_OK) {
                err = read_exactly(e, g->runs[i].file, stat.off, h->buf, stat.len);
            }
            if (err == TARRY_OK) {
                err = tr_run_block(footer, k, h->buf, &block);
            }
            while (err == TARRY_OK && (err = tr_run_next(&block, &rec, &place)) == TARRY_OK) {
                tr_promote_note(p, &rec, place); /* the footer says how many there are */
            }
            err = err == TARRY_ENOTFOUND ? TARRY_OK : err;
        }
    }
    return err == TARRY_OK && p->side_count != p->room ? TARRY_EDAMAGED : err;
}

static int write_pages(struct tr_engine *e, const struct tr_group *g, struct tr_side_build *b,
                       struct hand *h)
{
    uint8_t *buf = tr_mem_stretch(e->mem, NULL, 0, (size_t)PAGES * TR_SIDE_PAGE);
    uint64_t off = 0;
    uint32_t pages;
    int err = buf != NULL ? TARRY_OK : TARRY_ENOMEM;

    while (err == TARRY_OK && (pages = tr_side_build_pages(b, buf, PAGES)) != 0) {
        err = make_good(e, g->side_file, off, (struct tr_piece){buf, (size_t)pages * TR_SIDE_PAGE},
                        h);
        off += (uint64_t)pages * TR_SIDE_PAGE;
    }
    if (err == TARRY_OK) {
        err = sync_file(e, g->side_file);
    }
    if (buf != NULL) {
        tr_mem_free(e->mem, buf, (size_t)PAGES * TR_SIDE_PAGE);
    }
    return err;
}

/* TARRY_EDAMAGED: it was made of other records. */
static int make_side(struct tr_engine *e, const struct tr_group *g, const struct tr_promote *p,
                     struct hand *h)
{
    struct tr_side_input in = {.of = tr_group_side_of(g, e->log.uuid),
                               .rid_first = g->is.rid_first,
                               .rid_last = g->is.rid_last,
                               .jobs = p->side_jobs,
                               .job_count = (uint32_t)p->side_count,
                               .keyed_max = (uint32_t)p->keyed_count,
                               .moved_max = (uint32_t)p->side_count};
    struct tr_side_build b;
    int err = tr_side_build_init(&b, e->mem, &in);

    if (err != TARRY_OK) {
        return err;
    }
    tr_side_build_prepare(&b);
    err = (uint64_t)b.page_count * TR_SIDE_PAGE == g->is.bytes[TR_GROUP_SIDE]
              ? write_pages(e, g, &b, h)
              : TARRY_EDAMAGED;
    tr_side_build_fini(&b);
    return err;
}

/* What an older build wrote does not tell where bodies begin. */
static int write_side(struct tr_engine *e, const struct tr_group *g, const struct tr_promote *p,
                      struct hand *h)
{
    int err = make_side(e, g, p, h);

    if (err == TARRY_EDAMAGED) {
        tr_side_forget_heads(p->side_jobs, p->side_count);
        err = make_side(e, g, p, h);
    }
    return err;
}

/* The file may be missing altogether. */
static int open_side(struct tr_engine *e, struct tr_group *g)
{
    struct tr_io io = {.op = TR_IO_OPEN, .flags = TR_IO_CREATE};
    int err;

    if (g->side_file >= 0) {
        return TARRY_OK;
    }
    if (e->config.read_only) {
        struct tr_overlay *o = overlay(e);

        g->side_file = o != NULL ? tr_overlay_file(o) : -1;
        return o != NULL ? TARRY_OK : TARRY_ENOMEM;
    }
    tr_group_name(io.name, g->is.no, TR_GROUP_SIDE);
    err = run(e, &io);
    if (err == TARRY_OK) {
        g->side_file = io.file;
        io = (struct tr_io){.op = TR_IO_DIRSYNC};
        err = run(e, &io);
    }
    return err;
}

int tr_rebuild_side(struct tr_engine *e, struct tr_group *g)
{
    struct tr_promote *p = tr_mem_alloc(e->mem, sizeof *p);
    size_t jobs =
        (size_t)(g->footers[TR_GROUP_LIVE].stat.jobs + g->footers[TR_GROUP_DEAD].stat.jobs);
    struct hand h = {0};
    int err = TARRY_ENOMEM;

    if (p == NULL || jobs == 0) { /* no footer allows that */
        tr_mem_free(e->mem, p, sizeof *p);
        return p == NULL ? TARRY_ENOMEM : TARRY_EDAMAGED;
    }
    p->keyer = e->state.keys.keyer;
    p->room = jobs;
    p->side_jobs = tr_mem_stretch(e->mem, NULL, 0, jobs * sizeof *p->side_jobs);
    if (p->side_jobs != NULL) {
        err = note_records(e, g, p, &h);
        err = err == TARRY_OK ? open_side(e, g) : err;
        err = err == TARRY_OK ? write_side(e, g, p, &h) : err;
        tr_mem_free(e->mem, p->side_jobs, jobs * sizeof *p->side_jobs);
    }
    let_go(e, &h);
    tr_mem_free(e->mem, p, sizeof *p);
    return err;
}
