/*
 * Far jobs whose records are in run files.
 *
 *     sweep    block after block of each live run, up to the horizon
 *     locate   rid -> page of R -> page of T -> an entry in the table of far jobs, from where on it
 *              is like one whose record is in a slot
 *     pull     the first entries of a topic, from T of each group that has some
 *
 * All three test what they find: alive (L), and not in memory or in the table already (R28). So
 * whatever a promotion, a kill or another look-up did meanwhile, a job comes into memory once.
 *
 * An entry that was located and not used goes after a second. A block is behind the sweep
 * (group->next_block) when nothing in it is left to load; a job that leaves memory again takes the
 * sweep back to its block, also while that is in hand.
 *
 * A page or block that cannot be read is reported; mend.c finds the jobs of such a block one by
 * one. What cannot be read stays far, and is tried again a minute later.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <inttypes.h>
#include <string.h>

enum { BLOCK_UNITS = 2, LOCATED_US = 1000000, BAD_US = 60000000, NO_ROOM_US = 10000 };

/* The first that covers a rid behind this one. */
struct tr_group *tr_fetch_group_after(const struct tr_engine *e, uint64_t after)
{
    for (uint32_t i = 0; i < e->groups.count; i++) {
        if (e->groups.order[i]->is.rid_last > after) {
            return e->groups.order[i];
        }
    }
    return NULL;
}

void tr_fetch_report(struct tr_engine *e, struct tr_group *g, enum tr_group_file file, uint64_t off)
{
    char name[TR_IO_NAME_MAX];

    tr_group_name(name, g->is.no, file);
    if (tr_damage_place(e, name, g->is.no, off)) {
        tr_engine_note(e, TR_NOTE_DAMAGE, "File %s cannot be read at offset %" PRIu64 ".", name,
                       off);
    }
    if (file == TR_GROUP_SIDE) { /* it can be made again */
        g->spoiled = true;
        e->merge.spoiled = true;
    }
    tr_load_bad(e);
}

struct tr_far_entry tr_fetch_entry(const struct tr_group *g, const struct tr_side_job *job)
{
    return (struct tr_far_entry){
        .due_us = job->dead_seq == 0 ? job->due_us : TR_NEVER,
        .topic = job->topic,
        .dead = job->dead_seq != 0,
        .off = (uint32_t)tr_place_off(job->place),
        .len = tr_place_len(job->place),
        .cell = (unsigned)job->cell & TR_RF_CELL,
        .head = tr_far_head(job->head) & TR_FAR_HEAD,
        .slot = (uint16_t)g->runs[tr_place_piece(job->place)].number,
        .located = true,
    };
}

int tr_fetch_decode_at(const struct tr_engine *e, uint64_t rid, const struct tr_far_entry *entry,
                       const uint8_t *bytes, struct tr_record *rec)
{
    const struct tr_group *g;
    uint32_t run;

    if (entry->slot < TR_MANIFEST_SLOTS_MAX) {
        return tr_record_decode_known(bytes, entry->len, rid, entry->due_us, rec);
    }
    g = tr_groups_of_run(&e->groups, entry->slot);
    run = entry->slot - g->runs[0].number;
    return tr_run_get(&g->footers[run], tr_place_of(run, entry->off, entry->len), rid, bytes, rec);
}

int tr_fetch_decode(struct tr_engine *e, uint64_t rid, const uint8_t *bytes, struct tr_record *rec)
{
    struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, rid);
    int err = tr_fetch_decode_at(e, rid, entry, bytes, rec);

    if (err == TARRY_OK && entry->slot >= TR_MANIFEST_SLOTS_MAX &&
        (entry->slot - TR_MANIFEST_SLOTS_MAX) % TR_GROUP_RUNS == TR_GROUP_DEAD) {
        entry->due_us = rec->due_us; /* the sidecar does not know it */
    }
    return err;
}

/* ---- reading ---- */

static void read_at(struct tr_engine *e, struct tr_fetch_read *r, int file, uint64_t off,
                    uint32_t len)
{
    r->io = (struct tr_io){.op = r->direct ? TR_IO_READ_DIRECT : TR_IO_READ,
                           .lane = TR_LANE_READ,
                           .file = file,
                           .off = off,
                           .len = len,
                           .buf = r->buf,
                           .owner = r};
    r->busy = true;
    r->group->readers++;
    e->fetch.reads++;
    e->disk.ops->submit(e->disk.ctx, &r->io);
}

void tr_fetch_read_page(struct tr_engine *e, struct tr_fetch_read *r)
{
    read_at(e, r, r->group->side_file, tr_sidecar_off(&r->group->side, r->section, r->page),
            TR_SIDE_PAGE);
}

int tr_fetch_view(struct tr_engine *e, struct tr_fetch_read *r, struct tr_side_view *v)
{
    const struct tr_sidecar *side = &r->group->side;
    bool ok = r->io.status == TARRY_OK && r->io.got == TR_SIDE_PAGE &&
              (tr_sidecar_check(side, r->section, r->page, r->buf) == TARRY_OK ||
               TR_MUTANT(PAGE_UNCHECKED)) &&
              tr_sidecar_view(side, r->section, r->page, r->buf, v) == TARRY_OK;

    if (ok) {
        r->direct = false;
        return TARRY_OK;
    }
    if (!r->direct && !e->failed) {
        r->direct = true;
        tr_fetch_read_page(e, r);
        return TARRY_EFULL;
    }
    r->direct = false;
    tr_fetch_report(e, r->group, TR_GROUP_SIDE, tr_sidecar_off(side, r->section, r->page));
    return TARRY_EDAMAGED;
}

/* ---- locating ---- */

int tr_fetch_locate(struct tr_engine *e, uint64_t rid)
{
    struct tr_group *g = tr_groups_find(&e->groups, rid);
    struct tr_fetch_read *r = NULL;
    struct tr_side_job key = {.rid = rid};

    if (g == NULL || g->leaving) {
        return TARRY_ENOTFOUND;
    }
    for (unsigned i = 0; i < TR_FETCH_SEEKS; i++) {
        struct tr_fetch_read *s = &e->fetch.seeks[i];

        if (s->busy && s->rid == rid) {
            return TARRY_EFULL;
        }
        if (s->rid == rid && s->damaged_until > e->now.boot_us) {
            return TARRY_EDAMAGED;
        }
        if (s->rid == rid && s->no_room_until > e->now.boot_us) {
            return TARRY_EFULL;
        }
        r = !s->busy ? s : r;
    }
    if (r == NULL) {
        return TARRY_EFULL;
    }
    r->group = g;
    r->rid = rid;
    r->direct = false;
    r->damaged_until = 0;
    r->no_room_until = 0;
    r->section = TR_SIDE_R;
    r->page = tr_sidecar_find(&g->side, TR_SIDE_R, &key);
    if (r->page == TR_SIDE_NONE) {
        return TARRY_ENOTFOUND;
    }
    tr_fetch_read_page(e, r);
    return TARRY_EFULL;
}

void tr_fetch_remember(struct tr_engine *e, uint64_t rid)
{
    struct tr_fetch *f = &e->fetch;
    struct tr_located *l;

    if (f->located_count == TR_FETCH_LOCATED) {
        l = &f->located[(f->located_next - f->located_count) % TR_FETCH_LOCATED];
        if (l->rid != rid) { /* else it was located before, and is in use now */
            tr_fetch_unlocate(e, l->rid);
        }
        f->located_count--;
    }
    l = &f->located[f->located_next++ % TR_FETCH_LOCATED];
    *l = (struct tr_located){.rid = rid, .until_us = e->now.boot_us + LOCATED_US};
    f->located_count++;
}

void tr_fetch_unlocate(struct tr_engine *e, uint64_t rid)
{
    const struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, rid);

    if (entry != NULL && entry->located && !entry->loading) {
        uint64_t due_us = entry->due_us;

        struct tr_edge at = {due_us, tr_far_id(&e->state.jobs.far, rid)};
        bool parked = due_us < e->load.horizon_us && tr_park_leave(e, entry->topic, at);

        if (!parked && !entry->dead) { /* the sweep may have passed its block */
            struct tr_group *g = tr_groups_of_run(&e->groups, entry->slot);
            uint32_t block = tr_run_footer_off(&g->footers[TR_GROUP_LIVE], entry->off);

            tr_fetch_again(e, g);
            g->next_block = block < g->next_block ? block : g->next_block;
        }
        tr_state_slot(&e->state, entry->slot)->far--;
        TR_CHECK(tr_far_unlocate(&e->state.jobs.far, rid));
        e->load.next_us = !parked && due_us < e->load.next_us ? due_us : e->load.next_us;
    }
}

static void seek_failed(struct tr_engine *e, struct tr_fetch_read *r)
{
    r->damaged_until = e->now.boot_us + BAD_US;
    e->moved = true;
}

/* A page of R, then of T. */
static void seek_done(struct tr_engine *e, struct tr_fetch_read *r)
{
    struct tr_side_job key = {.rid = r->rid};
    struct tr_far_entry entry;
    struct tr_side_view v;
    struct tr_side_row row;
    uint32_t at;
    int err;

    if (!tr_state_in_run(&e->state, r->rid) || tr_far_find(&e->state.jobs.far, r->rid) != NULL ||
        e->failed) {
        return;
    }
    err = tr_fetch_view(e, r, &v);
    if (err == TARRY_EFULL) {
        return;
    }
    at = err != TARRY_OK ? 0 : r->section == TR_SIDE_R ? tr_side_lower(&v, &key) : r->index;
    if (err != TARRY_OK || at >= v.count || tr_side_get(&v, at, &row) != TARRY_OK ||
        row.job.rid != r->rid) {
        if (err == TARRY_OK) {
            tr_fetch_report(e, r->group, TR_GROUP_SIDE,
                            tr_sidecar_off(&r->group->side, r->section, r->page));
        }
        seek_failed(e, r);
        return;
    }
    if (r->section == TR_SIDE_R) {
        r->section = TR_SIDE_T;
        r->page = row.t.page;
        r->index = row.t.index;
        tr_fetch_read_page(e, r);
        return;
    }
    entry = tr_fetch_entry(r->group, &row.job);
    if (tr_state_locate(&e->state, r->rid, &entry) == TARRY_OK) {
        tr_fetch_remember(e, r->rid);
        e->moved = true;
    } else {
        r->no_room_until = e->now.boot_us + NO_ROOM_US; /* a delete must not be refused */
        tr_load_later(e);
    }
}

/* Those that nobody wanted after all. */
static void forget_located(struct tr_engine *e)
{
    struct tr_fetch *f = &e->fetch;

    while (f->located_count != 0) {
        struct tr_located *l = &f->located[(f->located_next - f->located_count) % TR_FETCH_LOCATED];

        if (l->until_us > e->now.boot_us) {
            return;
        }
        tr_fetch_unlocate(e, l->rid);
        f->located_count--;
    }
}

/* ---- the sweep ---- */

/* The buffer has room for a block. */
static bool make_room(struct tr_engine *e, struct tr_fetch_read *r, uint32_t len)
{
    uint8_t *buf;

    if (r->room >= len) {
        return true;
    }
    buf = tr_mem_stretch(e->mem, NULL, 0, len);
    if (buf == NULL) {
        return false;
    }
    if (r->buf != NULL) {
        tr_mem_free(e->mem, r->buf, r->room);
    }
    r->buf = buf;
    r->room = len;
    return true;
}

static bool read_block(struct tr_engine *e, struct tr_group *g, uint32_t block)
{
    struct tr_fetch_read *r = &e->fetch.block;
    struct tr_run_block_stat stat = tr_run_footer_block(&g->footers[TR_GROUP_LIVE], block);

    if (!make_room(e, r, stat.len)) {
        return false;
    }
    r->group = g;
    r->page = block;
    e->fetch.whole = true; /* until a record is found that is left, or one leaves memory */
    read_at(e, r, g->runs[TR_GROUP_LIVE].file, stat.off, stat.len);
    return true;
}

/* On to the block behind this one. */
static void pass(struct tr_engine *e, struct tr_group *g, uint32_t block)
{
    if (e->fetch.window) {
        e->fetch.window_block = block + 1;
    } else {
        g->next_block = block + 1;
        e->fetch.passed++;
    }
}

static void block_done(struct tr_engine *e, struct tr_fetch_read *r)
{
    const struct tr_run_footer *footer = &r->group->footers[TR_GROUP_LIVE];
    struct tr_run_block_stat stat = tr_run_footer_block(footer, r->page);
    bool ok = r->io.status == TARRY_OK && r->io.got == stat.len &&
              tr_run_block(footer, r->page, r->buf, &e->fetch.records) == TARRY_OK;

    if (!ok && !r->direct && !e->failed) {
        r->direct = true;
        read_at(e, r, r->group->runs[TR_GROUP_LIVE].file, stat.off, stat.len);
        return;
    }
    r->direct = false;
    if (ok) {
        e->fetch.taking = true;
    } else {
        tr_fetch_report(e, r->group, TR_GROUP_LIVE, stat.off);
        tr_mend_add(e, r->group, TR_GROUP_LIVE, r->page);
        pass(e, r->group, r->page); /* those behind it are not to wait for it */
    }
}

/* One record of the block. TARRY_EFULL: not now. */
static int take_record(struct tr_engine *e, const struct tr_record *rec, uint64_t place)
{
    const struct tr_far_entry *known = tr_far_find(&e->state.jobs.far, rec->rid);
    struct tr_group *g = e->fetch.block.group;
    struct tr_far_entry entry;
    struct tr_side_job side = {.due_us = rec->due_us,
                               .topic = rec->topic,
                               .place = place,
                               .head = tr_place_head(place, rec->body.len),
                               .cell = rec->flags & TR_RF_CELL};
    struct tr_edge at = {.due_us = rec->due_us};
    int err = TARRY_OK;

    if (!tr_state_in_run(&e->state, rec->rid)) {
        return TARRY_OK;
    }
    if (rec->due_us >= e->load.sweep_us) {
        e->fetch.whole = false;
        e->load.left_us = rec->due_us < e->load.left_us ? rec->due_us : e->load.left_us;
        return TARRY_OK;
    }
    at.id = tr_far_moved_id(&e->state.jobs.far, rec->rid);
    at.id = at.id != 0 ? at.id : rec->rid;
    if (tr_park_leave(e, rec->topic, at)) {
        return TARRY_OK; /* a refill takes it */
    }
    if (!tr_mem_room(e->mem, rec->body.len + sizeof(struct tr_job)) ||
        !tr_meta_room(e, e->load.reads + 1)) {
        return TARRY_ENOMEM;
    }
    if (known == NULL) {
        entry = tr_fetch_entry(g, &side);
        err = tr_state_locate(&e->state, rec->rid, &entry);
    }
    return err == TARRY_OK ? tr_load_take(e, rec->rid, rec) : err;
}

/* Goes on with the block in hand. False: the slice is over, or it must wait. */
static bool take_block(struct tr_engine *e)
{
    struct tr_fetch *f = &e->fetch;
    struct tr_record rec;
    uint64_t place;

    for (;;) {
        struct tr_run_block here = f->records;
        int err;

        if (e->work == 0) {
            return false;
        }
        err = tr_run_next(&f->records, &rec, &place);
        if (err == TARRY_ENOTFOUND) {
            break;
        }
        if (err != TARRY_OK) {
            tr_fetch_report(e, f->block.group, TR_GROUP_LIVE, here.off);
            f->skipped = true;
            break;
        }
        (void)tr_engine_charge(e, BLOCK_UNITS);
        err = take_record(e, &rec, place);
        if (err == TARRY_EDAMAGED) { /* no other record is to wait for it */
            tr_fetch_report(e, f->block.group, TR_GROUP_LIVE, tr_place_off(place));
            f->skipped = true;
        } else if (err != TARRY_OK) {
            f->records = here; /* the same one again, later */
            tr_load_later(e);
            return false;
        }
    }
    f->taking = false;
    if (f->window || (f->whole && f->block.group->next_block == f->block.page)) {
        pass(e, f->block.group, f->block.page);
    } else {
        const struct tr_run_footer *footer = &f->block.group->footers[TR_GROUP_LIVE];
        uint64_t due_us = f->block.page + 1 < footer->block_count
                              ? tr_run_footer_block(footer, f->block.page + 1).first_due
                              : TR_NEVER;

        e->load.left_us = due_us < e->load.left_us ? due_us : e->load.left_us;
        f->sweep_rid = f->block.group->is.rid_last; /* the rest of this group is for later */
    }
    return true;
}

/* The block of the group that is looked at next; block_count: none. */
static uint32_t next_block(struct tr_engine *e, const struct tr_group *g)
{
    struct tr_fetch *f = &e->fetch;
    const struct tr_run_footer *footer = &g->footers[TR_GROUP_LIVE];

    if (g->leaving || g->runs[TR_GROUP_LIVE].file < 0) {
        return footer->block_count;
    }
    if (!f->window) {
        return g->next_block;
    }
    if (f->window_no != g->is.no) {
        f->window_no = g->is.no;
        f->window_block = tr_run_footer_due(footer, e->clock.t_us);
        if (f->window_block <= g->next_block) { /* nothing is overdue: once is enough */
            f->window_block = footer->block_count;
        }
    }
    return f->window_block;
}

/* All jobs of the block are of a topic that is parked, and all are due. */
static bool skips(struct tr_engine *e, const struct tr_group *g, uint32_t block)
{
    const struct tr_run_footer *footer = &g->footers[TR_GROUP_LIVE];
    struct tr_run_block_stat stat = tr_run_footer_block(footer, block);
    uint64_t last_us = block + 1 < footer->block_count
                           ? tr_run_footer_block(footer, block + 1).first_due
                           : footer->stat.due_last;

    return stat.topic != 0 && last_us < e->load.sweep_us &&
           tr_park_leave(e, stat.topic, (struct tr_edge){.due_us = stat.first_due});
}

bool tr_fetch_sweep(struct tr_engine *e)
{
    struct tr_fetch *f = &e->fetch;
    struct tr_group *g;

    if (f->block.busy) {
        return false;
    }
    if (f->taking && !take_block(e)) {
        return false;
    }
    while ((g = tr_fetch_group_after(e, f->sweep_rid)) != NULL || f->window) {
        uint32_t block = g != NULL ? next_block(e, g) : 0;
        uint64_t due_us;

        if (g == NULL) {
            f->window = false;
            f->sweep_rid = 0;
            continue;
        }
        due_us = block < g->footers[TR_GROUP_LIVE].block_count
                     ? tr_run_footer_block(&g->footers[TR_GROUP_LIVE], block).first_due
                     : TR_NEVER;
        if (due_us >= e->load.sweep_us) {
            e->load.left_us = due_us < e->load.left_us ? due_us : e->load.left_us;
            f->sweep_rid = g->is.rid_last;
        } else if (!tr_engine_spend(e)) {
            return false;
        } else if (skips(e, g, block)) {
            pass(e, g, block);
        } else {
            if (!read_block(e, g, block)) {
                tr_load_later(e);
            }
            return false;
        }
    }
    return true;
}

bool tr_fetch_may_pause(const struct tr_engine *e)
{
    const struct tr_fetch *f = &e->fetch;

    return !f->window && f->passed != 0 && !f->taking && !f->block.busy;
}

void tr_fetch_rewind(struct tr_engine *e)
{
    for (uint32_t i = 0; i < e->groups.count; i++) {
        tr_fetch_again(e, e->groups.order[i]);
        e->groups.order[i]->next_block = 0;
    }
}

void tr_fetch_sweep_begin(struct tr_engine *e)
{
    e->fetch.sweep_rid = 0;
    e->fetch.window = true;
    e->fetch.window_no = 0;
    e->fetch.passed = 0;
    if (e->load.forgives && e->fetch.skipped) { /* blocks that could not be read */
        tr_fetch_rewind(e);
        e->fetch.skipped = false;
    }
}

/* What is in hand of the old groups is let go, and all groups are gone through again: whoever was
 * taken already is in memory, and is passed over. */
void tr_fetch_replaced(struct tr_engine *e)
{
    struct tr_fetch *f = &e->fetch;

    if (TR_MUTANT(OLD_RUN_SWEPT)) {
        return;
    }
    if (f->taking && f->block.group->leaving) {
        f->taking = false;
    }
    f->sweep_rid = 0;
    for (unsigned i = 0; i < TR_FETCH_SEEKS; i++) {
        f->seeks[i].damaged_until = 0; /* it may be found now */
    }
    if (e->load.pull_topic != 0) {
        f->pull.stale = f->pull.busy;
        tr_load_pull_again(e);
    }
}

void tr_fetch_again(struct tr_engine *e, const struct tr_group *g)
{
    if (e->fetch.block.group == g && !TR_MUTANT(BLOCK_FORGOTTEN)) {
        e->fetch.whole = false; /* the block in hand is not the last word */
    }
}

void tr_fetch_left(struct tr_engine *e, const struct tr_job *job)
{
    struct tr_group *g;
    uint32_t block;

    if (job->slot->number < TR_MANIFEST_SLOTS_MAX) {
        return;
    }
    g = tr_groups_of_run(&e->groups, job->slot->number);
    tr_fetch_again(e, g);
    block = tr_run_footer_off(&g->footers[TR_GROUP_LIVE], job->record_off);
    if (block < g->next_block && !TR_MUTANT(BLOCK_FORGOTTEN)) {
        g->next_block = block;
    }
}

/* ---- the first of a topic ---- */

/* Takes what the page has of the topic. True: that was all of it in this group. */
static bool pull_page(struct tr_engine *e, const struct tr_fetch_read *r,
                      const struct tr_side_view *v)
{
    struct tr_load *l = &e->load;
    struct tr_side_job key = {.topic = l->pull_topic, .due_us = e->fetch.pull_from};

    for (uint32_t i = tr_side_lower(v, &key); i < v->count; i++) {
        struct tr_side_row row;
        uint64_t id;

        if (tr_side_get(v, i, &row) != TARRY_OK || row.job.topic != l->pull_topic ||
            row.job.dead_seq != 0) {
            return true;
        }
        if (!tr_state_in_run(&e->state, row.job.rid)) {
            continue;
        }
        id = tr_far_moved_id(&e->state.jobs.far, row.job.rid);
        if (!tr_load_pull(
                e, (struct tr_pulled){row.job.rid, row.job.due_us, id != 0 ? id : row.job.rid,
                                      tr_fetch_entry(r->group, &row.job), r->group->is.no}) &&
            row.job.due_us > l->pulled[TR_PULL_MAX - 1].due_us) {
            return true; /* the others come later still */
        }
    }
    return r->page + 1 >= r->group->side.sections[TR_SIDE_T].pages;
}

bool tr_fetch_pull(struct tr_engine *e)
{
    struct tr_fetch *f = &e->fetch;
    struct tr_fetch_read *r = &f->pull;
    struct tr_group *g;

    if (r->busy) {
        return false;
    }
    while ((g = tr_fetch_group_after(e, f->pull_rid)) != NULL) {
        struct tr_side_job key = {.topic = e->load.pull_topic, .due_us = f->pull_from};

        if (g->leaving || g->runs[TR_GROUP_LIVE].file < 0 ||
            tr_run_footer_topic(&g->footers[TR_GROUP_LIVE], e->load.pull_topic) == 0) {
            f->pull_rid = g->is.rid_last;
            continue;
        }
        r->group = g;
        r->section = TR_SIDE_T;
        r->page = tr_sidecar_find(&g->side, TR_SIDE_T, &key);
        tr_fetch_read_page(e, r);
        return false;
    }
    return true;
}

static void pull_done(struct tr_engine *e, struct tr_fetch_read *r)
{
    struct tr_side_view v;
    int err = tr_fetch_view(e, r, &v);

    if (err == TARRY_EFULL) {
        return;
    }
    (void)tr_engine_charge(e, 32);
    e->load.pull_damaged = e->load.pull_damaged || err != TARRY_OK;
    if (err != TARRY_OK || pull_page(e, r, &v)) {
        e->fetch.pull_rid = r->group->is.rid_last;
    } else {
        r->page++;
        tr_fetch_read_page(e, r);
    }
}

void tr_fetch_pull_begin(struct tr_engine *e, uint64_t from_us)
{
    e->fetch.pull_rid = 0;
    e->fetch.pull_from = from_us;
}

/* ---- for the forecast ---- */

bool tr_fetch_scan(struct tr_engine *e, struct tr_group *g, uint32_t block)
{
    struct tr_fetch_read *r = &e->fetch.scan;
    struct tr_run_block_stat stat = tr_run_footer_block(&g->footers[TR_GROUP_LIVE], block);

    if (!make_room(e, r, stat.len)) {
        return false;
    }
    r->group = g;
    r->page = block;
    r->direct = false;
    read_at(e, r, g->runs[TR_GROUP_LIVE].file, stat.off, stat.len);
    return true;
}

static void scan_done(struct tr_engine *e, struct tr_fetch_read *r)
{
    const struct tr_run_footer *footer = &r->group->footers[TR_GROUP_LIVE];
    struct tr_run_block_stat stat = tr_run_footer_block(footer, r->page);
    bool ok = r->io.status == TARRY_OK && r->io.got == stat.len &&
              tr_run_block(footer, r->page, r->buf, &e->forecast.records) == TARRY_OK;

    if (!ok && !r->direct && !e->failed) {
        r->direct = true;
        read_at(e, r, r->group->runs[TR_GROUP_LIVE].file, stat.off, stat.len);
        return;
    }
    if (!ok) {
        tr_fetch_report(e, r->group, TR_GROUP_LIVE, stat.off);
    }
    tr_forecast_block(e, ok);
}

/* ---- before serving ---- */

static int run_read(struct tr_engine *e, int file, uint64_t off, void *buf, uint32_t len)
{
    struct tr_io io = {.op = TR_IO_READ_DIRECT, .file = file, .off = off, .len = len, .buf = buf};
    int err = e->disk.ops->run(e->disk.ctx, &io);

    return err == TARRY_OK && io.got != len ? TARRY_EDAMAGED : err;
}

/* The row of a page that has this rid; in R the index is not known. TARRY_ENOTFOUND: the group does
 * not have it; it was written again, and is met later. */
static int run_row(struct tr_engine *e, struct tr_fetch_read *r, struct tr_side_row *row)
{
    const struct tr_sidecar *side = &r->group->side;
    struct tr_side_job key = {.rid = r->rid};
    struct tr_side_view v;
    int err = run_read(e, r->group->side_file, tr_sidecar_off(side, r->section, r->page), r->buf,
                       TR_SIDE_PAGE);

    if (err == TARRY_OK) {
        err = tr_sidecar_check(side, r->section, r->page, r->buf);
    }
    if (err == TARRY_OK) {
        err = tr_sidecar_view(side, r->section, r->page, r->buf, &v);
    }
    if (err == TARRY_OK) {
        r->index = r->section == TR_SIDE_R ? tr_side_lower(&v, &key) : r->index;
        err = r->index < v.count ? tr_side_get(&v, r->index, row) : TARRY_ENOTFOUND;
    }
    if (err == TARRY_OK && row->job.rid != r->rid) {
        err = TARRY_ENOTFOUND;
    }
    return err == TARRY_ENOTFOUND && r->section != TR_SIDE_R ? TARRY_EDAMAGED : err;
}

static bool is_damage(int err)
{
    return err == TARRY_EDAMAGED || err == TARRY_EIO;
}

/* TARRY_ENOTFOUND: it is not in this block. */
static int search_block(struct tr_engine *e, const struct tr_fetch_read *r, unsigned run,
                        uint32_t i, struct tr_far_entry *entry)
{
    const struct tr_run_footer *footer = &r->group->footers[run];
    struct tr_run_block_stat stat = tr_run_footer_block(footer, i);
    uint8_t *buf = tr_mem_stretch(e->mem, NULL, 0, stat.len);
    struct tr_run_block block;
    struct tr_record rec;
    uint64_t place;
    int err;

    if (buf == NULL) {
        return TARRY_ENOMEM;
    }
    err = run_read(e, r->group->runs[run].file, stat.off, buf, stat.len);
    if (err == TARRY_OK) {
        err = tr_run_block(footer, i, buf, &block);
    }
    do {
        err = err == TARRY_OK ? tr_run_next(&block, &rec, &place) : err;
    } while (err == TARRY_OK && rec.rid != r->rid);
    if (err == TARRY_OK) {
        struct tr_side_job job = {.due_us = rec.due_us,
                                  .dead_seq = rec.mask & TR_FIELD(DEAD) ? rec.dead.seq : 0,
                                  .place = place,
                                  .head = tr_place_head(place, rec.body.len),
                                  .topic = rec.topic,
                                  .cell = rec.flags & TR_RF_CELL};

        *entry = tr_fetch_entry(r->group, &job);
    }
    tr_mem_free(e->mem, buf, stat.len);
    return err;
}

/* A page of the sidecar is damaged; it is only an index, so the records themselves are gone
 * through. Slow, but nothing else tells where it is. */
static int search_blocks(struct tr_engine *e, const struct tr_fetch_read *r,
                         struct tr_far_entry *entry)
{
    bool damaged = r->section != TR_SIDE_R; /* R says that it is there */
    int err = TARRY_ENOTFOUND;

    for (unsigned run = 0; run < TR_GROUP_RUNS; run++) {
        const struct tr_run_footer *footer = &r->group->footers[run];

        for (uint32_t i = 0; i < footer->block_count && err == TARRY_ENOTFOUND; i++) {
            err = search_block(e, r, run, i, entry);
            if (is_damage(err)) {
                tr_fetch_report(e, r->group, (enum tr_group_file)run,
                                tr_run_footer_block(footer, i).off);
                damaged = true;
                err = TARRY_ENOTFOUND;
            }
        }
    }
    return err == TARRY_ENOTFOUND && damaged ? TARRY_EDAMAGED : err;
}

int tr_fetch_find_now(struct tr_engine *e, uint64_t rid, struct tr_far_entry *entry)
{
    struct tr_fetch_read *r = &e->fetch.pull;
    struct tr_side_job key = {.rid = rid};
    struct tr_side_row row;
    int err;

    r->group = tr_groups_find(&e->groups, rid);
    if (r->group == NULL) {
        return TARRY_ENOTFOUND;
    }
    r->rid = rid;
    r->section = TR_SIDE_R;
    r->page = tr_sidecar_find(&r->group->side, TR_SIDE_R, &key);
    err = r->page != TR_SIDE_NONE ? run_row(e, r, &row) : TARRY_ENOTFOUND;
    if (err == TARRY_OK) {
        r->section = TR_SIDE_T;
        r->page = row.t.page;
        r->index = row.t.index;
        err = run_row(e, r, &row);
    }
    if (is_damage(err)) {
        tr_fetch_report(e, r->group, TR_GROUP_SIDE,
                        tr_sidecar_off(&r->group->side, r->section, r->page));
        return search_blocks(e, r, entry);
    }
    if (err == TARRY_OK) {
        *entry = tr_fetch_entry(r->group, &row.job);
    }
    return err;
}

int tr_fetch_locate_now(struct tr_engine *e, uint64_t rid)
{
    struct tr_far_entry entry;
    int err = tr_fetch_find_now(e, rid, &entry);

    return err == TARRY_OK ? tr_state_locate(&e->state, rid, &entry) : err;
}

/* ---- turns ---- */

int tr_fetch_init(struct tr_engine *e)
{
    struct tr_fetch *f = &e->fetch;

    for (unsigned i = 0; i < TR_FETCH_SEEKS; i++) {
        f->seeks[i].buf = tr_mem_stretch(e->mem, NULL, 0, TR_SIDE_PAGE);
        f->seeks[i].room = f->seeks[i].buf != NULL ? TR_SIDE_PAGE : 0;
    }
    f->pull.buf = tr_mem_stretch(e->mem, NULL, 0, TR_SIDE_PAGE);
    f->pull.room = f->pull.buf != NULL ? TR_SIDE_PAGE : 0;
    for (unsigned i = 0; i < TR_FETCH_SEEKS; i++) {
        if (f->seeks[i].buf == NULL) {
            return TARRY_ENOMEM;
        }
    }
    return f->pull.buf != NULL ? TARRY_OK : TARRY_ENOMEM;
}

static void drop(struct tr_engine *e, struct tr_fetch_read *r)
{
    if (r->buf != NULL) {
        tr_mem_free(e->mem, r->buf, r->room);
        r->buf = NULL;
    }
}

void tr_fetch_fini(struct tr_engine *e)
{
    for (unsigned i = 0; i < TR_FETCH_SEEKS; i++) {
        drop(e, &e->fetch.seeks[i]);
    }
    drop(e, &e->fetch.pull);
    drop(e, &e->fetch.block);
    drop(e, &e->fetch.scan);
}

bool tr_fetch_owns(const struct tr_engine *e, const struct tr_io *io)
{
    const char *at = (const char *)io;
    const char *from = (const char *)&e->fetch;

    return at >= from && at < from + sizeof e->fetch;
}

void tr_fetch_io_done(struct tr_engine *e, struct tr_io *io)
{
    struct tr_fetch_read *r = io->owner;

    r->busy = false;
    r->group->readers--;
    e->fetch.reads--;
    if (r->group->leaving || r->stale) { /* the same is elsewhere, or nothing of it is alive */
        r->direct = false;
        r->stale = false;
        e->moved = true;
    } else if (r == &e->fetch.block) {
        block_done(e, r);
    } else if (r == &e->fetch.scan) {
        scan_done(e, r);
    } else if (r == &e->fetch.pull) {
        pull_done(e, r);
    } else {
        seek_done(e, r);
    }
}

void tr_fetch_step(struct tr_engine *e)
{
    forget_located(e);
}

uint64_t tr_fetch_next(const struct tr_engine *e)
{
    const struct tr_fetch *f = &e->fetch;
    const struct tr_located *l;

    if (f->located_count == 0) {
        return TR_NEVER;
    }
    l = &f->located[(f->located_next - f->located_count) % TR_FETCH_LOCATED];
    return l->until_us;
}
