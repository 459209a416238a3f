/*
 * Scrubbing: every file of every group is read once a week, so that damage is found while there is
 * still somebody to ask, and not on the day when the job is due.
 *
 *     for each group, when its time has come:
 *         runs       block by block: crc of the block, crc of each record; then the footer
 *         sidecar    head, fences, all pages
 *         rids       whoever is alive, and whose record is said to be here, must have been met
 *
 * What is found goes the way that it goes when somebody else finds it: a block to mend.c, a page of
 * the sidecar or a footer to merge.c, which writes the group anew.
 *
 * Pace: pieces of 256 KiB, on the lane BACK, around the page cache, at most `scrub_rate` bytes a
 * second. The checking is done away from the loop (TR_IO_CALL); it touches nothing but the piece,
 * the footers, which do not change, and a bitmap of its own.
 *
 * When: a group that is made was just written, so its time comes `scrub_every_us` later. One that
 * was there at the start is read at some moment within that: a different one after each start, so
 * that restarts do not keep a group from ever being read. There is one timer, for the next group,
 * and none when there are no groups. Slots are not scrubbed: they are read and checked at each
 * start, and what is in them is young.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <inttypes.h>
#include <string.h>

enum { RID_UNITS = 1, AGAIN_US = 1000000 };

/* ---- checking, away from the loop ---- */

static void add_bad(struct tr_scrub *s, uint32_t which)
{
    if (s->bad_count < TR_SCRUB_BAD) {
        s->bad[s->bad_count++] = which;
    }
}

static bool check_block(struct tr_scrub *s, const struct tr_run_footer *footer, uint32_t i,
                        const uint8_t *bytes)
{
    struct tr_run_block block;
    struct tr_record rec;
    uint64_t place;
    int err = tr_run_block(footer, i, bytes, &block);

    while (err == TARRY_OK && (err = tr_run_next(&block, &rec, &place)) == TARRY_OK) {
        s->lost = s->lost || tr_bitmap_set(&s->has, rec.rid) != TARRY_OK;
    }
    return err == TARRY_ENOTFOUND;
}

static void check_blocks(struct tr_scrub *s)
{
    const struct tr_run_footer *footer = &s->group->footers[s->file];
    uint64_t from = tr_run_footer_block(footer, s->at).off;

    for (uint32_t i = s->at; i < s->at + s->count; i++) {
        if (!check_block(s, footer, i, s->buf + (tr_run_footer_block(footer, i).off - from))) {
            add_bad(s, i);
        }
    }
}

/* The head and the pages of the fence behind it. */
static void check_head(struct tr_scrub *s)
{
    const struct tr_sidecar *is = &s->group->side;
    struct tr_sidecar side;

    for (uint32_t i = s->at; i < s->at + s->count; i++) {
        const uint8_t *bytes = s->buf + (size_t)(i - s->at) * TR_SIDE_PAGE;
        bool good =
            i == 0 ? tr_sidecar_head(&side, &is->of, bytes) == TARRY_OK && side.salt == is->salt
                   : tr_sidecar_fence_ok(is, i - 1, bytes);

        if (!good) {
            add_bad(s, i);
        }
    }
}

/* Which page of which section is this one of the file? */
static enum tr_side_section section_of(const struct tr_sidecar *side, uint32_t *page)
{
    unsigned i = 0;

    while (i + 1 < TR_SIDE_SECTIONS && *page >= side->sections[i].first + side->sections[i].pages) {
        i++;
    }
    *page -= side->sections[i].first;
    return (enum tr_side_section)i;
}

static bool check_page(const struct tr_sidecar *side, uint32_t page, const uint8_t *bytes)
{
    enum tr_side_section section = section_of(side, &page);
    struct tr_side_view v = {0};
    struct tr_side_row row;
    int err = tr_sidecar_check(side, section, page, bytes);

    if (err == TARRY_OK) {
        err = tr_sidecar_view(side, section, page, bytes, &v);
    }
    for (uint32_t i = 0; i < v.count && err == TARRY_OK; i++) {
        err = tr_side_get(&v, i, &row);
    }
    return err == TARRY_OK;
}

static void check(void *ctx)
{
    struct tr_scrub *s = ctx;
    const struct tr_group *g = s->group;

    switch (s->part) {
    case TR_SCRUB_BLOCKS:
        check_blocks(s);
        break;
    case TR_SCRUB_FOOTER:
        if (memcmp(s->buf, g->bytes[s->file], (size_t)s->io.len) != 0) {
            add_bad(s, 0);
        }
        break;
    case TR_SCRUB_HEAD:
        check_head(s);
        break;
    case TR_SCRUB_PAGES:
        for (uint32_t i = s->at; i < s->at + s->count; i++) {
            if (!check_page(&g->side, i, s->buf + (size_t)(i - s->at) * TR_SIDE_PAGE)) {
                add_bad(s, i);
            }
        }
        break;
    }
}

/* ---- which piece is next ---- */

/* Where it begins; *len: 0: the part has ended. */
static uint64_t piece(struct tr_scrub *s, uint64_t *len)
{
    const struct tr_group *g = s->group;
    const struct tr_run_footer *footer = &g->footers[s->file < TR_GROUP_SIDE ? s->file : 0];
    uint64_t from = 0;

    *len = 0;
    s->count = 0;
    if (s->part == TR_SCRUB_FOOTER && s->at == 0) {
        from = footer->stat.bytes;
        *len = g->is.bytes[s->file] - from;
        s->count = 1;
    } else if (s->part == TR_SCRUB_BLOCKS && s->at < footer->block_count) {
        from = tr_run_footer_block(footer, s->at).off;
        while (s->at + s->count < footer->block_count) {
            uint32_t more = tr_run_footer_block(footer, s->at + s->count).len;

            if (s->count != 0 && (*len + more > TR_SCRUB_BYTES || s->alone)) {
                break;
            }
            *len += more;
            s->count++;
        }
    } else if (s->part == TR_SCRUB_HEAD || s->part == TR_SCRUB_PAGES) {
        uint32_t end = s->part == TR_SCRUB_HEAD ? 1 + g->side.fence_pages : g->side.page_count;
        uint32_t most = s->alone ? 1 : TR_SCRUB_BYTES / TR_SIDE_PAGE;

        s->count = end - s->at < most ? end - s->at : most;
        from = (uint64_t)s->at * TR_SIDE_PAGE;
        *len = (uint64_t)s->count * TR_SIDE_PAGE;
    }
    return from;
}

/* On to the next part of the group. False: that was all of it. */
static bool next_part(struct tr_scrub *s)
{
    const struct tr_group *g = s->group;

    s->at = 0;
    s->alone = false;
    if (s->part == TR_SCRUB_BLOCKS) {
        s->part = TR_SCRUB_FOOTER;
        return true;
    }
    if (s->part == TR_SCRUB_HEAD) {
        s->part = TR_SCRUB_PAGES;
        s->at = 1 + g->side.fence_pages;
        return true;
    }
    for (s->file++; s->file < TR_GROUP_SIDE; s->file++) {
        if (g->runs[s->file].file >= 0) {
            s->part = TR_SCRUB_BLOCKS;
            return true;
        }
    }
    s->part = TR_SCRUB_HEAD;
    return s->file == TR_GROUP_SIDE;
}

/* ---- the group in hand ---- */

static void let_go(struct tr_engine *e)
{
    struct tr_scrub *s = &e->scrub;

    s->group->scrub_at = e->now.boot_us + e->config.scrub_every_us;
    s->group->readers--;
    s->group = NULL;
    s->step = TR_SCRUB_IDLE;
    s->seen = 0; /* whose turn is it now? */
    tr_bitmap_fini(&s->has);
    if (s->buf != NULL) {
        tr_mem_free(e->mem, s->buf, s->room);
    }
    s->buf = NULL;
    s->room = 0;
}

static void take(struct tr_engine *e, struct tr_group *g)
{
    struct tr_scrub *s = &e->scrub;

    g->readers++;
    tr_mem_init(&s->mem, 0);
    tr_bitmap_init(&s->has, &s->mem);
    s->group = g;
    s->step = TR_SCRUB_WAIT;
    s->wait_until = e->now.boot_us;
    s->file = g->runs[TR_GROUP_LIVE].file >= 0 ? TR_GROUP_LIVE : TR_GROUP_DEAD;
    s->part = TR_SCRUB_BLOCKS;
    s->at = 0;
    s->alone = false;
    s->lost = false;
    s->done_bytes = 0;
    s->rid = g->is.rid_first;
}

static int file_of(const struct tr_scrub *s)
{
    return s->file == TR_GROUP_SIDE ? s->group->side_file : s->group->runs[s->file].file;
}

static void send(struct tr_engine *e, enum tr_scrub_step step, struct tr_io io)
{
    struct tr_scrub *s = &e->scrub;

    s->step = step;
    s->io = io;
    s->io.lane = TR_LANE_BACK;
    e->disk.ops->submit(e->disk.ctx, &s->io);
}

static void read_piece(struct tr_engine *e)
{
    struct tr_scrub *s = &e->scrub;
    uint64_t len;
    uint64_t off = piece(s, &len);

    while (len == 0) {
        if (!next_part(s)) {
            s->step = TR_SCRUB_RIDS;
            return;
        }
        off = piece(s, &len);
    }
    if (e->mend.count + TR_SCRUB_BAD > TR_MEND_MAX) { /* there is to be a place for what it finds */
        s->wait_until = e->now.boot_us + AGAIN_US;
        return;
    }
    if (s->room < len) {
        uint8_t *buf = tr_mem_stretch(e->mem, s->buf, s->room, (size_t)len);

        if (buf == NULL) {
            s->wait_until = e->now.boot_us + AGAIN_US;
            return;
        }
        s->buf = buf;
        s->room = (size_t)len;
    }
    send(e, TR_SCRUB_READ,
         (struct tr_io){
             .op = TR_IO_READ_DIRECT, .file = file_of(s), .off = off, .len = len, .buf = s->buf});
}

/* What was found in the piece in hand. */
static void tell(struct tr_engine *e)
{
    struct tr_scrub *s = &e->scrub;

    for (unsigned i = 0; i < s->bad_count; i++) {
        uint64_t off = s->part == TR_SCRUB_BLOCKS
                           ? tr_run_footer_block(&s->group->footers[s->file], s->bad[i]).off
                       : s->file == TR_GROUP_SIDE ? (uint64_t)s->bad[i] * TR_SIDE_PAGE
                                                  : s->io.off;

        tr_fetch_report(e, s->group, (enum tr_group_file)s->file, off);
        if (s->part == TR_SCRUB_BLOCKS) {
            s->lost = true;
            tr_mend_add(e, s->group, s->file, s->bad[i]);
        } else { /* it is written anew from what is in memory and in the blocks */
            s->group->spoiled = true;
            e->merge.spoiled = true;
        }
    }
    s->bad_count = 0;
}

/* The piece is done with: the next one, when this one's share of time is over. */
static void on(struct tr_engine *e)
{
    struct tr_scrub *s = &e->scrub;
    uint64_t len = s->io.len;
    uint64_t took = e->config.scrub_rate != 0 ? len * 1000000 / e->config.scrub_rate : 0;

    s->at += s->count;
    s->bytes += len;
    s->done_bytes += len;
    s->alone = false;
    s->wait_until = e->now.boot_us + took;
    s->step = TR_SCRUB_WAIT;
}

void tr_scrub_io_done(struct tr_engine *e)
{
    struct tr_scrub *s = &e->scrub;
    bool good = s->io.status == TARRY_OK && s->io.got == s->io.len;

    if (s->group->leaving || e->failed) {
        s->step = TR_SCRUB_WAIT; /* the next step lets go of it */
    } else if (s->step == TR_SCRUB_READ && good) {
        struct tr_io io = {
            .op = TR_IO_CALL, .call = check, .buf = s, .off = s->io.off, .len = s->io.len};

        send(e, TR_SCRUB_CHECK, io);
    } else if (s->step == TR_SCRUB_READ && s->count > 1) {
        s->alone = true;
        s->step = TR_SCRUB_WAIT;
        s->wait_until = e->now.boot_us;
    } else {
        if (s->step == TR_SCRUB_READ && !TR_MUTANT(SCRUB_BLIND)) {
            add_bad(s, s->at);
        }
        s->bad_count = TR_MUTANT(SCRUB_BLIND) ? 0 : s->bad_count;
        tell(e);
        on(e);
    }
}

/* A slice: everybody who is alive, and whose record is said to be in the group, was met. */
static void look_for_rids(struct tr_engine *e)
{
    struct tr_scrub *s = &e->scrub;
    uint64_t rid;

    while (!s->lost &&
           (rid = tr_bitmap_next(&e->state.jobs.alive, s->rid)) <= s->group->is.rid_last) {
        if (!tr_engine_charge(e, RID_UNITS)) {
            return;
        }
        if (tr_merge_in_run(e, rid) && !tr_bitmap_test(&s->has, rid)) {
            uint64_t id = tr_far_moved_id(&e->state.jobs.far, rid);
            struct tr_damaged d = {
                .rid = rid, .id = id != 0 ? id : rid, .due_us = TR_NEVER, .group = s->group->is.no};

            tr_group_name(d.file, d.group, TR_GROUP_LIVE);
            tr_damage_tell(e, &d, NULL);
        }
        s->rid = rid + 1;
    }
    s->groups++;
    let_go(e);
}

/* ---- turns ---- */

static bool is_off(const struct tr_engine *e)
{
    return e->config.scrub_rate == 0 || e->config.scrub_every_us == 0;
}

/* A moment within the week that is another one after each start. */
static uint64_t some_time(const struct tr_engine *e, const struct tr_group *g)
{
    uint64_t mix = (g->is.no ^ e->epoch << 40) * UINT64_C(0x9e3779b97f4a7c15);

    return (mix >> 20) % e->config.scrub_every_us;
}

/* Reckons when which group is next. */
static struct tr_group *next_group(struct tr_engine *e)
{
    struct tr_scrub *s = &e->scrub;
    struct tr_group *best = NULL;

    for (uint32_t i = 0; i < e->groups.count; i++) {
        struct tr_group *g = e->groups.order[i];

        if (g->scrub_at == 0) {
            g->scrub_at = e->now.boot_us + (s->begun ? e->config.scrub_every_us : some_time(e, g));
        }
        if (!g->leaving && (best == NULL || g->scrub_at < best->scrub_at)) {
            best = g;
        }
    }
    s->begun = true;
    s->wake_at = best != NULL ? best->scrub_at : TR_NEVER;
    return best;
}

void tr_scrub_retime(struct tr_engine *e)
{
    struct tr_scrub *s = &e->scrub;

    for (uint32_t i = 0; i < e->groups.count && !is_off(e); i++) {
        struct tr_group *g = e->groups.order[i];

        if (g->scrub_at > e->now.boot_us + e->config.scrub_every_us) {
            g->scrub_at = e->now.boot_us + some_time(e, g);
        }
    }
    if (s->wait_until > e->now.boot_us) {
        s->wait_until = e->now.boot_us;
    }
    s->seen = 0;
}

void tr_scrub_step(struct tr_engine *e)
{
    struct tr_scrub *s = &e->scrub;
    uint64_t seen = 1 + e->groups.count + (e->promote.made + e->merge.made) * TR_GROUPS_MAX;

    if (is_off(e)) {
        if (s->step == TR_SCRUB_WAIT || s->step == TR_SCRUB_RIDS) {
            let_go(e); /* it was switched off in the midst of it */
        }
        return;
    }
    if (s->step == TR_SCRUB_IDLE && (s->seen != seen || s->wake_at <= e->now.boot_us)) {
        struct tr_group *g = next_group(e);

        s->seen = seen;
        if (g != NULL && g->scrub_at <= e->now.boot_us) {
            take(e, g);
        }
    }
    if ((s->step == TR_SCRUB_WAIT || s->step == TR_SCRUB_RIDS) && s->group->leaving) {
        let_go(e); /* what is alive in it was read and written just now */
    }
    if (s->step == TR_SCRUB_WAIT && s->wait_until <= e->now.boot_us) {
        read_piece(e);
    }
    if (s->step == TR_SCRUB_RIDS) {
        look_for_rids(e);
    }
}

bool tr_scrub_busy(const struct tr_engine *e)
{
    return e->scrub.step == TR_SCRUB_READ || e->scrub.step == TR_SCRUB_CHECK;
}

uint64_t tr_scrub_next(const struct tr_engine *e)
{
    const struct tr_scrub *s = &e->scrub;

    if (is_off(e) || tr_scrub_busy(e)) {
        return TR_NEVER;
    }
    if (s->step == TR_SCRUB_WAIT) {
        return s->wait_until > e->now.boot_us ? s->wait_until : e->now.boot_us;
    }
    return s->step == TR_SCRUB_RIDS || s->seen == 0 ? e->now.boot_us : s->wake_at;
}

void tr_scrub_stat(const struct tr_engine *e, struct tr_engine_stat *st)
{
    const struct tr_scrub *s = &e->scrub;

    st->scrubbed_bytes = s->bytes;
    st->scrubbed_groups = s->groups;
    st->scrub_done = s->group != NULL ? s->done_bytes : 0;
    st->scrub_of = s->group != NULL ? tr_group_bytes(s->group) : 0;
}

void tr_scrub_fini(struct tr_engine *e)
{
    if (e->scrub.group != NULL) {
        let_go(e);
    }
}
