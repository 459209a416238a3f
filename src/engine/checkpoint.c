/*
 * Checkpoint pages, 8 KiB each.
 *
 *      0  u32  magic "tckp"
 *      4  u32  crc32c of bytes 8..8191
 *      8  u8   kind
 *      9  u8   version
 *     10  u16  rows
 *     12  u32  bytes used, these 32 included
 *     16  u32  page number
 *     20  u32  page 0: 1: topics are counted, + 2: so are cells; else 0
 *     24  u64  batch
 *     32       rows, none of which crosses a page
 *
 * Kinds:
 *
 *     0 META     page 0, one row: uuid 16, u64 batch, u32 pages, u64 next rid,
 *                u32 next topic number, u64 jobs, u64 altered jobs, u64 test clock or 0 (older
 *                stores have zeros there)
 *     1 TOPICS   TOPIC record, varint next dead_seq, varint 1: it was purged; else 0
 *     2 BITS     u64 number of a block of 8,192 rids, u16 n; then n times u16, the rids alive in
 *                the block; or n = 0xffff and 1,024 bytes of bits
 *     3 CHANGES  ALTER record (base rid 0, clock 0) of a job whose record is outdated
 *     4 COUNTS   varint topic number, varint jobs, varint dead ones, varint bytes of bodies; only
 * topics that have some. Page 0 says at byte 20 whether there are such rows, and dead ones: an
 * older store has none 5 CELLS    varint topic number, u8 length, then so many bytes of cells of
 * this topic (see cells.c); each cell is in one row. Byte 20 of page 0 tells of these, too 6
 * POLICIES varint topic number, varint length, then so many bytes (see rules/policy.c); only topics
 * that have one
 *
 * A row that is a record has a crc of its own. Every page carries the batch, so pages of two
 * checkpoints can never be taken for one: a write cut short leaves some of each.
 *
 * A checkpoint is written in full. The format also allows to write only pages that changed.
 *
 * Freezing. The pages show the state as it was when the freeze began, though it takes many slices:
 *
 *     BITS     L, chunk by chunk. Rids that are new since are those from next_rid on: left out.
 *              Those that have died since are remembered until their chunk is copied.
 *     TOPICS   by number. One that goes is copied first. Here more than was there does no harm: a
 *              topic that is new since is without jobs, a newer dead_seq leaves a gap.
 *     COUNTS   with the topics; what a topic had is kept when that changes (topic->jobs_then).
 *     POLICIES with the topics; one that is about to change is copied first, and
 *              topic->policy_no says so.
 *     CELLS    by topic and time. One that is about to change and was not reached is copied, in a
 *              row of its own, and remembered so that it is passed over later. A new one is only
 *              remembered.
 *     CHANGES  the altered jobs. job->row is the number of the freeze that has dealt with it; such
 *              a job moves to the end of the list, where newly altered ones go too:
 *
 *                  altered_jobs:  to be copied: o-o-o-o  o-o-o : copied, or altered since
 *
 *              A job whose row is not copied is copied before it changes, dies or is written again.
 *
 * Each kind has a page of its own that is being filled, so the bound of tr_checkpoint_bound holds
 * in whatever order rows come.
 */

#include "engine/checkpoint.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/mutant.h"
#include "engine/record.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

enum {
    PAGE_MAGIC = 0x706b6374, /* "tckp" */
    HEAD = 32,
    META_LEN = TR_UUID + 8 + 4 + 8 + 4 + 8 + 8 + 8,
    BLOCK_RIDS = 8192,
    BLOCK_BYTES = BLOCK_RIDS / 8,
    DENSE = 0xffff,
    ROW_MAX = 8 + 2 + BLOCK_BYTES,
    CHANGE_MAX = 144, /* an ALTER with every field at its widest, but for ttl and tag */
    CHANGE_ROW_MAX = CHANGE_MAX + TR_EXTRA_ROW + TR_TAG_MAX,
    TOPIC_ROW_MAX = 300,
    COUNT_ROW_MAX = 32,
    CELL_ROW_MAX = 5 + 1 + 255,
    CELL_MAX = 5 + 1 + TR_CELL_BYTES_MAX, /* one in a row of its own */
};

enum { COUNTS_TOLD = 1, CELLS_TOLD = 2, DEAD_TOLD = 4, BYTES_TOLD = 8 }; /* by the first page */

enum { BITS_UNITS = 64 }; /* of work, to copy a chunk of L */

static_assert(HEAD + ROW_MAX <= TR_PAGE, "a row fits a page");
static_assert(HEAD + TR_CHECKPOINT_POLICY_HEAD + TR_POLICY_BYTES_MAX <= TR_PAGE,
              "so does a policy");
static_assert(TR_BITMAP_CHUNK % BLOCK_RIDS == 0, "a chunk of the bitmap is whole blocks");

void tr_pages_fini(struct tr_pages *p)
{
    if (p->mem != NULL) {
        tr_pages_drop(p, UINT64_MAX);
        tr_mem_free(p->mem, p->pieces, p->piece_room * sizeof *p->pieces);
    }
    *p = (struct tr_pages){0};
}

static size_t piece_count(const struct tr_pages *p)
{
    return (p->count * TR_PAGE + TR_PAGES_PIECE - 1) / TR_PAGES_PIECE;
}

void tr_pages_drop(struct tr_pages *p, uint64_t off)
{
    for (size_t i = piece_count(p); i > 0; i--) { /* from the last: nothing is left before a gap */
        if (i * TR_PAGES_PIECE <= off && p->pieces[i - 1] == NULL) {
            return;
        }
        if (i * TR_PAGES_PIECE <= off) {
            tr_mem_free(p->mem, p->pieces[i - 1], TR_PAGES_PIECE);
            p->pieces[i - 1] = NULL;
        }
    }
}

const uint8_t *tr_pages_at(const struct tr_pages *p, uint64_t off, size_t *len)
{
    uint64_t all = (uint64_t)p->count * TR_PAGE;
    uint64_t end = (off / TR_PAGES_PIECE + 1) * TR_PAGES_PIECE;

    *len = (size_t)((end < all ? end : all) - off);
    return p->pieces[off / TR_PAGES_PIECE] + off % TR_PAGES_PIECE;
}

/* ---- making pages ---- */

static uint8_t *page_at(const struct tr_pages *p, size_t number)
{
    return p->pieces[number * TR_PAGE / TR_PAGES_PIECE] + number * TR_PAGE % TR_PAGES_PIECE;
}

static int new_piece(struct tr_pages *p)
{
    size_t at = piece_count(p);

    if (at == p->piece_room) {
        size_t room = at == 0 ? 16 : at * 2;
        uint8_t **pieces =
            tr_mem_stretch(p->mem, p->pieces, at * sizeof *pieces, room * sizeof *pieces);

        if (pieces == NULL) {
            return TARRY_ENOMEM;
        }
        p->pieces = pieces;
        p->piece_room = room;
    }
    p->pieces[at] = tr_mem_stretch(p->mem, NULL, 0, TR_PAGES_PIECE);
    return p->pieces[at] != NULL ? TARRY_OK : TARRY_ENOMEM;
}

static int new_page(struct tr_pages *p, enum tr_page_kind kind)
{
    uint8_t *page;

    if (p->count * TR_PAGE % TR_PAGES_PIECE == 0 && new_piece(p) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    page = page_at(p, p->count);
    memset(page, 0, TR_PAGE);
    tr_put_le(page, PAGE_MAGIC, 4);
    page[8] = (uint8_t)kind;
    page[9] = TR_FORMAT_VERSION;
    tr_put_le(page + 12, HEAD, 4);
    tr_put_le(page + 16, p->count, 4);
    tr_put_le(page + 24, p->batch, 8);
    p->count++;
    return TARRY_OK;
}

static void close_page(const struct tr_pages *p, size_t number)
{
    uint8_t *page = page_at(p, number);

    tr_put_le(page + 4, tr_crc(0, page + 8, TR_PAGE - 8), 4);
}

int tr_freeze_row(struct tr_freeze *f, enum tr_page_kind kind, const uint8_t *row, size_t len)
{
    struct tr_pages *p = f->pages;
    uint64_t used = f->open[kind] != 0 ? tr_get_le(page_at(p, f->open[kind]) + 12, 4) : TR_PAGE;
    uint8_t *page;

    TR_CHECK(HEAD + len <= TR_PAGE);
    if (used + len > TR_PAGE) {
        if (new_page(p, kind) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
        if (f->open[kind] != 0) {
            close_page(p, f->open[kind]);
        }
        f->open[kind] = p->count - 1;
        used = HEAD;
    }
    page = page_at(p, f->open[kind]);
    memcpy(page + used, row, len);
    tr_put_le(page + 10, tr_get_le(page + 10, 2) + 1, 2);
    tr_put_le(page + 12, used + len, 4);
    return TARRY_OK;
}

/* One block as a row; its length, or 0 when nobody is alive in it. */
static size_t bits_row(uint8_t row[ROW_MAX], uint64_t number, const uint8_t *bits)
{
    size_t n = 0;

    tr_put_le(row, number, 8);
    for (unsigned i = 0; i < BLOCK_RIDS; i++) {
        if (bits[i / 8] == 0) {
            i |= 7;
            continue;
        }
        if ((bits[i / 8] >> (i % 8) & 1) == 0) {
            continue;
        }
        if (n == BLOCK_BYTES / 2) {
            tr_put_le(row + 8, DENSE, 2);
            memcpy(row + 10, bits, BLOCK_BYTES);
            return 10 + BLOCK_BYTES;
        }
        tr_put_le(row + 10 + 2 * n++, i, 2);
    }
    tr_put_le(row + 8, n, 2);
    return n == 0 ? 0 : 10 + 2 * n;
}

/* The next chunk of L as it was: *number, its bits. False: there is none. */
static bool next_chunk(const struct tr_freeze *f, uint64_t *number, uint8_t bits[TR_BITMAP_BYTES])
{
    uint8_t dead[TR_BITMAP_BYTES];
    uint64_t other = 0;
    bool there = tr_bitmap_next_chunk(&f->state->jobs.alive, f->chunk, number, bits);
    bool gone = tr_bitmap_next_chunk(&f->cleared, f->chunk, &other, dead);

    if (gone && (!there || other < *number)) {
        *number = other;
        memcpy(bits, dead, TR_BITMAP_BYTES);
    } else if (gone && other == *number) {
        for (unsigned i = 0; i < TR_BITMAP_BYTES; i++) {
            bits[i] |= dead[i];
        }
    }
    if ((!there && !gone) || *number * TR_BITMAP_CHUNK >= f->next_rid) {
        return false;
    }
    if ((*number + 1) * TR_BITMAP_CHUNK > f->next_rid) { /* the rids from here on are new */
        unsigned end = (unsigned)(f->next_rid % TR_BITMAP_CHUNK);

        bits[end / 8] &= (uint8_t)((1U << end % 8) - 1);
        memset(bits + end / 8 + 1, 0, TR_BITMAP_BYTES - end / 8 - 1);
    }
    return true;
}

static int copy_bits(struct tr_freeze *f, unsigned *work)
{
    uint8_t bits[TR_BITMAP_BYTES];
    uint8_t row[ROW_MAX];
    uint64_t number = 0;

    while (next_chunk(f, &number, bits)) {
        if (*work == 0) {
            return TARRY_EFULL;
        }
        for (unsigned i = 0; i < TR_BITMAP_CHUNK / BLOCK_RIDS; i++) {
            size_t len = bits_row(row, number * (TR_BITMAP_CHUNK / BLOCK_RIDS) + i,
                                  bits + (size_t)i * BLOCK_BYTES);

            if (len != 0 && tr_freeze_row(f, TR_PAGE_BITS, row, len) != TARRY_OK) {
                return TARRY_ENOMEM;
            }
        }
        f->chunk = number + 1;
        *work -= *work < BITS_UNITS ? *work : BITS_UNITS;
    }
    return TARRY_OK;
}

/* Its policy as it is, unless that is no longer what it was. */
static int copy_policy(struct tr_freeze *f, struct tr_topic *t)
{
    uint8_t row[TR_CHECKPOINT_POLICY_HEAD + TR_POLICY_BYTES_MAX];
    uint8_t bytes[TR_POLICY_BYTES_MAX];
    size_t size;
    size_t len;

    if (t->policy_no == f->state->jobs.freeze_no) {
        return TARRY_OK;
    }
    t->policy_no = f->state->jobs.freeze_no;
    if (t->policy == NULL) {
        return TARRY_OK;
    }
    size = tr_policy_encode(bytes, t->policy);
    len = tr_put_varint(row, t->number);
    len += tr_put_varint(row + len, size);
    TR_CHECK(len <= TR_CHECKPOINT_POLICY_HEAD);
    memcpy(row + len, bytes, size);
    return tr_freeze_row(f, TR_PAGE_POLICIES, row, len + size);
}

static int copy_topic(struct tr_freeze *f, struct tr_topic *t)
{
    uint8_t row[TR_RECORD_HEAD_MAX + 2 * TR_VARINT_MAX];
    struct tr_record rec = {
        .type = TR_REC_TOPIC, .topic = t->number, .name = {(const uint8_t *)t->name, t->name_len}};
    bool then = t->freeze_no == f->state->jobs.freeze_no;
    uint64_t jobs = then ? t->jobs_then : t->jobs;
    size_t len;

    if (!t->logged) { /* a later push will write its name; an empty one may need it still */
        return TARRY_OK;
    }
    len = tr_record_encode(row, &rec, (struct tr_base){0});
    len += tr_put_varint(row + len, t->next_dead_seq);
    len += tr_put_varint(row + len, t->purged && t->purged_no != f->state->jobs.freeze_no);
    TR_CHECK(len <= TOPIC_ROW_MAX);
    if (tr_freeze_row(f, TR_PAGE_TOPICS, row, len) != TARRY_OK || copy_policy(f, t) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    if (jobs == 0) {
        return TARRY_OK;
    }
    len = tr_put_varint(row, t->number);
    len += tr_put_varint(row + len, jobs);
    len += tr_put_varint(row + len, then ? t->dead_then : t->dead);
    len += tr_put_varint(row + len, then ? t->bytes_then : t->bytes);
    TR_CHECK(len <= COUNT_ROW_MAX);
    return tr_freeze_row(f, TR_PAGE_COUNTS, row, len);
}

static int copy_topics(struct tr_freeze *f, unsigned *work)
{
    while (f->topic != &f->state->topics.all) {
        if (*work == 0) {
            return TARRY_EFULL;
        }
        --*work;
        if (copy_topic(f, TR_CONTAINER_OF(f->topic, struct tr_topic, link)) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
        f->topic = f->topic->next;
    }
    return TARRY_OK;
}

/* A row of cells is put together. */
struct cell_row {
    uint8_t bytes[255];
    size_t len;
    uint64_t before;
};

static int add_cells(struct tr_freeze *f, uint32_t topic, struct cell_row *cells)
{
    uint8_t row[CELL_ROW_MAX];
    size_t len = tr_put_varint(row, topic);
    int err = TARRY_OK;

    if (cells->len != 0) {
        row[len++] = (uint8_t)cells->len;
        memcpy(row + len, cells->bytes, cells->len);
        err = tr_freeze_row(f, TR_PAGE_CELLS, row, len + cells->len);
    }
    cells->len = 0;
    cells->before = 0;
    return err;
}

static uint64_t cell_key(uint32_t row, uint32_t when)
{
    return (uint64_t)row << 32 | when;
}

/* All cells of one topic, from where the walk is. */
static int copy_cells_of(struct tr_freeze *f, const struct tr_topic *t, unsigned *work)
{
    struct cell_row cells = {.len = 0};
    struct tr_cell cell;
    bool more = true;
    int err = TARRY_OK;

    f->cells.row = t->row; /* it may have got one, or another, since */
    while (err == TARRY_OK && *work > 0 && more) {
        more = t->row != 0 && tr_cells_next(&f->state->cells, &f->cells, &cell);
        --*work;
        if (!more || tr_map_find(&f->cells_changed, cell_key(t->row, cell.when)) != NULL) {
            continue;
        }
        cells.len += tr_cells_put(cells.bytes + cells.len, cell.when, cell.count, &cells.before);
        if (cells.len + TR_CELL_BYTES_MAX > sizeof cells.bytes) {
            err = add_cells(f, t->number, &cells);
        }
    }
    if (err == TARRY_OK) {
        err = add_cells(f, t->number, &cells);
    }
    return err == TARRY_OK && more ? TARRY_EFULL : err;
}

static void next_cells(struct tr_freeze *f, struct tr_list *topic)
{
    f->cells_of = topic;
    if (topic != &f->state->topics.all) {
        f->cells =
            tr_cells_from(&f->state->cells, TR_CONTAINER_OF(topic, struct tr_topic, link)->row, 0);
    }
}

static int copy_cells(struct tr_freeze *f, unsigned *work)
{
    struct tr_state *s = f->state;

    if (!tr_tally_drop(s, work)) { /* rows that it has and the state has not */
        return TARRY_EFULL;
    }
    if (f->failed) {
        return TARRY_ENOMEM;
    }
    while (f->cells_of != &s->topics.all) {
        int err = copy_cells_of(f, TR_CONTAINER_OF(f->cells_of, struct tr_topic, link), work);

        if (err != TARRY_OK) {
            return err;
        }
        next_cells(f, f->cells_of->next);
    }
    return TARRY_OK;
}

static int copy_change(struct tr_freeze *f, struct tr_job *job)
{
    uint8_t row[TR_RECORD_HEAD_MAX];
    struct tr_record rec;
    size_t len;

    tr_state_describe_changes(job, &rec);
    len = tr_record_encode(row, &rec, (struct tr_base){0});
    TR_CHECK(len <= CHANGE_MAX + (job->extra != NULL ? TR_EXTRA_ROW + rec.tag.len : 0));
    tr_jobs_row_done(&f->state->jobs, job);
    return tr_freeze_row(f, TR_PAGE_CHANGES, row, len);
}

static int copy_changes(struct tr_freeze *f, unsigned *work)
{
    struct tr_job *job;

    while ((job = tr_jobs_next_row(&f->state->jobs)) != NULL) {
        if (*work == 0) {
            return TARRY_EFULL;
        }
        --*work;
        if (copy_change(f, job) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
    }
    return TARRY_OK;
}

static void finish(struct tr_freeze *f)
{
    struct tr_pages *p = f->pages;
    uint8_t *page = page_at(p, 0);
    uint8_t *m = page + HEAD;

    memcpy(m, f->uuid, TR_UUID);
    tr_put_le(m + TR_UUID, p->batch, 8);
    tr_put_le(m + TR_UUID + 8, p->count, 4);
    tr_put_le(m + TR_UUID + 12, f->next_rid, 8);
    tr_put_le(m + TR_UUID + 20, f->next_topic, 4);
    tr_put_le(m + TR_UUID + 24, f->jobs, 8);
    tr_put_le(m + TR_UUID + 32, f->altered, 8);
    tr_put_le(m + TR_UUID + 40, TR_MUTANT(CLOCK_NOT_KEPT) ? 0 : f->clock_us, 8);
    tr_put_le(page + 10, 1, 2);
    tr_put_le(page + 12, HEAD + META_LEN, 4);
    tr_put_le(page + 20, COUNTS_TOLD | CELLS_TOLD | DEAD_TOLD | BYTES_TOLD, 4);
    close_page(p, 0);
    for (unsigned k = 0; k < TR_PAGE_KINDS; k++) {
        if (f->open[k] != 0) {
            close_page(p, f->open[k]);
        }
    }
}

/* Lets go of the state; the pages stay. */
static void leave(struct tr_freeze *f)
{
    f->state->freeze = NULL;
    tr_bitmap_fini(&f->cleared);
    tr_map_fini(&f->cells_changed);
    *f = (struct tr_freeze){0};
}

void tr_freeze_cancel(struct tr_freeze *f)
{
    if (f->state != NULL) {
        tr_pages_fini(f->pages);
        leave(f);
    }
}

int tr_freeze_begin(struct tr_freeze *f, struct tr_pages *p, struct tr_state *s,
                    const uint8_t uuid[TR_UUID], uint64_t batch)
{
    TR_CHECK(s->freeze == NULL);
    *p = (struct tr_pages){.mem = s->jobs.mem, .batch = batch};
    if (new_page(p, TR_PAGE_META) != TARRY_OK) {
        tr_pages_fini(p);
        return TARRY_ENOMEM;
    }
    *f = (struct tr_freeze){.state = s,
                            .pages = p,
                            .step = TR_PAGE_BITS,
                            .next_rid = s->next_rid,
                            .next_topic = s->topics.next_number,
                            .jobs = s->jobs.alive.members,
                            .altered = s->jobs.altered,
                            .clock_us = s->clock_us,
                            .topic = s->topics.all.next,
                            .sched = s->scheds.all.next,
                            .next_sched = s->scheds.next_number};
    memcpy(f->uuid, uuid, TR_UUID);
    tr_bitmap_init(&f->cleared, p->mem);
    tr_map_init(&f->cells_changed, p->mem);
    next_cells(f, s->topics.all.next);
    s->jobs.freeze_no++;
    s->freeze = f;
    return TARRY_OK;
}

int tr_freeze_step(struct tr_freeze *f, unsigned *work)
{
    int err = f->failed ? TARRY_ENOMEM : TARRY_OK;

    if (err == TARRY_OK && f->step == TR_PAGE_BITS) {
        err = copy_bits(f, work);
        if (err == TARRY_OK) {
            f->step = TR_PAGE_TOPICS;
            tr_bitmap_fini(&f->cleared);
        }
    }
    if (err == TARRY_OK && f->step == TR_PAGE_TOPICS) {
        err = copy_topics(f, work);
        if (err == TARRY_OK) {
            f->step = TR_PAGE_CELLS;
        }
    }
    if (err == TARRY_OK && f->step == TR_PAGE_CELLS) {
        err = copy_cells(f, work);
        if (err == TARRY_OK) {
            f->step = TR_PAGE_CHANGES;
            tr_map_fini(&f->cells_changed);
        }
    }
    if (err == TARRY_OK) {
        err = copy_changes(f, work);
    }
    if (err == TARRY_OK) {
        err = tr_freeze_copy_scheds(f, work);
    }
    if (err == TARRY_OK) {
        finish(f);
        leave(f);
    } else if (err != TARRY_EFULL) {
        tr_freeze_cancel(f);
    }
    return err;
}

void tr_freeze_rid(struct tr_freeze *f, uint64_t rid)
{
    if (!f->failed && !TR_MUTANT(NOT_FROZEN) && f->step == TR_PAGE_BITS && rid < f->next_rid &&
        rid / TR_BITMAP_CHUNK >= f->chunk && tr_bitmap_set(&f->cleared, rid) != TARRY_OK) {
        f->failed = true;
    }
}

void tr_freeze_job(struct tr_freeze *f, struct tr_job *job, bool dies)
{
    if (f->failed || TR_MUTANT(NOT_FROZEN)) {
        return;
    }
    if (dies) {
        tr_freeze_rid(f, job->rid);
    }
    if (tr_jobs_has_row(&f->state->jobs, job) && copy_change(f, job) != TARRY_OK) {
        f->failed = true;
    }
}

/* Has the walk come past this cell? What is new then is not in the checkpoint either way. */
static bool cell_passed(const struct tr_freeze *f, uint32_t topic, uint32_t when)
{
    const struct tr_topic *at = TR_CONTAINER_OF(f->cells_of, struct tr_topic, link);

    return f->step == TR_PAGE_CHANGES || f->cells_of == &f->state->topics.all ||
           topic < at->number || (topic == at->number && when < f->cells.at);
}

static void copy_cell(struct tr_freeze *f, uint32_t topic, uint64_t key, uint32_t count)
{
    struct cell_row cells = {.len = 0};

    if (tr_map_find(&f->cells_changed, key) != NULL) {
        return;
    }
    if (count != 0) {
        cells.len = tr_cells_put(cells.bytes, (uint32_t)key, count, &cells.before);
    }
    if (tr_map_put(&f->cells_changed, key, f) != TARRY_OK ||
        add_cells(f, topic, &cells) != TARRY_OK) {
        f->failed = true;
    }
}

void tr_freeze_cell(struct tr_freeze *f, const struct tr_topic *t, uint32_t when)
{
    if (!f->failed && !TR_MUTANT(CELL_NOT_FROZEN) && !cell_passed(f, t->number, when)) {
        copy_cell(f, t->number, cell_key(t->row, when),
                  tr_cells_count(&f->state->cells, t->row, when));
    }
}

void tr_freeze_dropped(struct tr_freeze *f, const struct tr_dropped *d, const struct tr_cell *cell)
{
    if (!f->failed && !cell_passed(f, d->topic, cell->when)) {
        copy_cell(f, d->topic, cell_key(d->row, cell->when), cell->count);
    }
}

static bool topic_passed(const struct tr_freeze *f, const struct tr_topic *t)
{
    return f->topic == &f->state->topics.all ||
           TR_CONTAINER_OF(f->topic, struct tr_topic, link)->number > t->number;
}

void tr_freeze_policy(struct tr_freeze *f, struct tr_topic *t)
{
    if (!f->failed && !topic_passed(f, t) && copy_policy(f, t) != TARRY_OK) {
        f->failed = true;
    }
}

void tr_freeze_topic(struct tr_freeze *f, struct tr_topic *t)
{
    if (f->cells_of == &t->link) { /* it has none left */
        next_cells(f, t->link.next);
    }
    if (topic_passed(f, t)) {
        return; /* it is copied */
    }
    if (!f->failed && copy_topic(f, t) != TARRY_OK) {
        f->failed = true;
    }
    if (f->topic == &t->link) {
        f->topic = t->link.next;
    }
}

int tr_checkpoint_freeze(struct tr_pages *p, struct tr_state *s, const uint8_t uuid[TR_UUID],
                         uint64_t batch)
{
    struct tr_freeze f;
    int err = tr_freeze_begin(&f, p, s, uuid, batch);

    while (err == TARRY_OK) {
        unsigned work = UINT_MAX;

        err = tr_freeze_step(&f, &work);
        if (err != TARRY_EFULL) {
            return err;
        }
        err = TARRY_OK;
    }
    return err;
}

/* ---- reading them ---- */

/* Rows may be long: but what does not fit a page is more than that page has left. */
uint64_t tr_checkpoint_policies(uint64_t bytes)
{
    return TR_PAGE * (2 * bytes / (TR_PAGE - HEAD) + (bytes != 0));
}

/* A page is full but for less than the longest row of its kind. */
uint64_t tr_checkpoint_bound(const struct tr_state *s, uint64_t more)
{
    uint64_t jobs = s->jobs.count + more;
    uint64_t alive = s->jobs.alive.members + more;
    uint64_t topics = s->topics.count + 1;
    uint64_t sparse = alive * (10 + 2); /* the worst: each job alone in its block */
    uint64_t dense = ((s->next_rid + more) / BLOCK_RIDS + 1) * ROW_MAX;
    uint64_t bits = sparse < dense ? sparse : dense;
    uint64_t changes = jobs * CHANGE_MAX + (s->jobs.extras + more) * TR_EXTRA_ROW +
                       s->jobs.tag_bytes + more * TR_TAG_MAX;
    uint64_t cells = s->cells.count + jobs; /* each job in memory may move to another one, */

    cells = cells < alive ? cells : alive; /* but none is empty */

    return TR_PAGE * (TR_PAGE_KINDS + bits / (TR_PAGE - HEAD - ROW_MAX) +
                      changes / (TR_PAGE - HEAD - CHANGE_ROW_MAX) +
                      topics / ((TR_PAGE - HEAD) / TOPIC_ROW_MAX) +
                      topics / ((TR_PAGE - HEAD) / COUNT_ROW_MAX) +
                      cells * CELL_MAX / (TR_PAGE - HEAD - CELL_ROW_MAX)) +
           tr_checkpoint_policies(s->topics.policy_bytes) +
           tr_checkpoint_policies(s->scheds.row_bytes);
}

uint64_t tr_checkpoint_pages(const uint8_t *page, const uint8_t uuid[TR_UUID], uint64_t batch)
{
    size_t bad = 0;

    if (tr_checkpoint_check(page, 1, batch, &bad) != TARRY_OK || page[8] != TR_PAGE_META ||
        memcmp(page + HEAD, uuid, TR_UUID) != 0) {
        return 0;
    }
    return tr_get_le(page + HEAD + TR_UUID + 8, 4);
}

int tr_checkpoint_check_page(const uint8_t *page, uint64_t number, uint64_t batch)
{
    uint64_t used = tr_get_le(page + 12, 4);

    if (tr_get_le(page, 4) != PAGE_MAGIC || tr_get_le(page + 16, 4) != number ||
        tr_get_le(page + 24, 8) != batch || used < HEAD || used > TR_PAGE || page[9] == 0 ||
        tr_get_le(page + 4, 4) != tr_crc(0, page + 8, TR_PAGE - 8)) {
        return TARRY_EDAMAGED;
    }
    return page[9] != TR_FORMAT_VERSION || page[8] >= TR_PAGE_KINDS ? TARRY_EVERSION : TARRY_OK;
}

int tr_checkpoint_check(const uint8_t *bytes, size_t pages, uint64_t batch, size_t *bad)
{
    int err = TARRY_OK;

    for (size_t i = 0; i < pages && err == TARRY_OK; i++) {
        *bad = i;
        err = tr_checkpoint_check_page(bytes + i * TR_PAGE, i, batch);
    }
    return err;
}

static int load_topic(struct tr_reader *r, struct tr_state *s)
{
    struct tr_record rec;
    struct tr_job *none;
    size_t used = 0;
    uint64_t seq;
    uint64_t purged;
    int err = tr_record_decode(r->at, tr_reader_left(r), (struct tr_base){0}, &rec, &used);

    if (err != TARRY_OK || rec.type != TR_REC_TOPIC) {
        return err != TARRY_OK ? err : TARRY_EDAMAGED;
    }
    (void)tr_read_bytes(r, used);
    seq = tr_read_varint(r);
    purged = tr_read_varint(r);
    err = r->bad || purged > 1 ? TARRY_EDAMAGED : tr_state_apply(s, &rec, 0, &none);
    if (err == TARRY_OK) {
        struct tr_topic *t = tr_topics_by_number(&s->topics, rec.topic);

        t->next_dead_seq = seq;
        if (purged != 0 && !t->purged && !TR_MUTANT(PURGE_FORGOTTEN)) {
            tr_topics_purge(&s->topics, t);
        }
    }
    return err;
}

static int load_bits(struct tr_reader *r, struct tr_state *s)
{
    uint64_t number = tr_read_le(r, 8);
    uint64_t n = tr_read_le(r, 2);
    const uint8_t *p = tr_read_bytes(r, n == DENSE ? BLOCK_BYTES : n * 2);

    if (p == NULL || number >= (UINT64_C(1) << 48) / BLOCK_RIDS) {
        return TARRY_EDAMAGED;
    }
    for (unsigned i = 0; n == DENSE && i < BLOCK_RIDS; i++) {
        if ((p[i / 8] >> (i % 8) & 1) != 0 &&
            tr_bitmap_set(&s->jobs.alive, number * BLOCK_RIDS + i) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
    }
    for (unsigned i = 0; n != DENSE && i < n; i++) {
        uint64_t at = tr_get_le(p + (size_t)2 * i, 2);
        uint64_t rid = number * BLOCK_RIDS + at;

        if (at >= BLOCK_RIDS) {
            return TARRY_EDAMAGED;
        }
        if (tr_bitmap_set(&s->jobs.alive, rid) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
    }
    return TARRY_OK;
}

static int load_change(struct tr_reader *r, struct tr_state *s)
{
    struct tr_record rec;
    size_t used = 0;
    int err = tr_record_decode(r->at, tr_reader_left(r), (struct tr_base){0}, &rec, &used);

    if (err != TARRY_OK || rec.type != TR_REC_ALTER) {
        return err != TARRY_OK ? err : TARRY_EDAMAGED;
    }
    (void)tr_read_bytes(r, used);
    return tr_state_meet_change(s, &rec);
}

static int load_cells(struct tr_reader *r, struct tr_state *s)
{
    uint64_t number = tr_read_varint(r);
    size_t len = (size_t)tr_read_le(r, 1);
    const uint8_t *p = tr_read_bytes(r, len);
    struct tr_topic *t =
        number <= UINT32_MAX ? tr_topics_by_number(&s->topics, (uint32_t)number) : NULL;

    if (p == NULL || t == NULL) {
        return TARRY_EDAMAGED;
    }
    return tr_cells_decode(&s->cells, tr_tally_row(s, t), p, len);
}

static int load_count(struct tr_reader *r, struct tr_state *s)
{
    uint64_t number = tr_read_varint(r);
    uint64_t jobs = tr_read_varint(r);
    uint64_t dead = s->redead ? 0 : tr_read_varint(r);
    uint64_t bytes = s->rebytes ? 0 : tr_read_varint(r);
    struct tr_topic *t =
        number <= UINT32_MAX ? tr_topics_by_number(&s->topics, (uint32_t)number) : NULL;

    if (r->bad || t == NULL || t->jobs != 0 || dead > jobs) {
        return TARRY_EDAMAGED;
    }
    t->jobs = jobs;
    t->dead = dead;
    t->bytes = bytes;
    tr_topic_note_listed(t);
    return TARRY_OK;
}

static int load_policy(struct tr_reader *r, struct tr_state *s)
{
    uint64_t number = tr_read_varint(r);
    uint64_t len = tr_read_varint(r);
    const uint8_t *p = tr_read_bytes(r, len);
    struct tr_record rec = {
        .type = TR_REC_POLICY, .topic = (uint32_t)number, .body = {p, (size_t)len}};
    struct tr_job *none;

    return p == NULL || number > UINT32_MAX ? TARRY_EDAMAGED : tr_state_apply(s, &rec, 0, &none);
}

static int load_kind(const uint8_t *bytes, size_t pages, enum tr_page_kind kind, struct tr_state *s)
{
    for (size_t i = 0; i < pages; i++) {
        const uint8_t *page = bytes + i * TR_PAGE;
        struct tr_reader r = tr_reader_of(page + HEAD, tr_get_le(page + 12, 4) - HEAD);
        int err = TARRY_OK;

        for (uint64_t rows = page[8] == kind ? tr_get_le(page + 10, 2) : 0;
             rows > 0 && err == TARRY_OK; rows--) {
            err = kind == TR_PAGE_TOPICS      ? load_topic(&r, s)
                  : kind == TR_PAGE_BITS      ? load_bits(&r, s)
                  : kind == TR_PAGE_COUNTS    ? load_count(&r, s)
                  : kind == TR_PAGE_CELLS     ? load_cells(&r, s)
                  : kind == TR_PAGE_POLICIES  ? load_policy(&r, s)
                  : kind == TR_PAGE_SCHEDULES ? tr_scheds_load_row(s, &r)
                                              : load_change(&r, s);
        }
        if (err != TARRY_OK) {
            return err;
        }
    }
    return TARRY_OK;
}

int tr_checkpoint_load(const uint8_t *bytes, size_t pages, struct tr_state *s)
{
    const uint8_t *m = bytes + HEAD;
    uint32_t next_topic;
    int err = load_kind(bytes, pages, TR_PAGE_TOPICS, s);

    if (err == TARRY_OK) {
        err = load_kind(bytes, pages, TR_PAGE_POLICIES, s);
    }
    if (err == TARRY_OK) {
        err = load_kind(bytes, pages, TR_PAGE_SCHEDULES, s);
    }
    if (err == TARRY_OK) {
        err = load_kind(bytes, pages, TR_PAGE_BITS, s);
    }
    if (err != TARRY_OK) {
        return err;
    }
    s->next_rid = tr_get_le(m + TR_UUID + 12, 8);
    s->clock_us = tr_get_le(m + TR_UUID + 40, 8);
    next_topic = (uint32_t)tr_get_le(m + TR_UUID + 20, 4);
    if (next_topic > s->topics.next_number) { /* pages may have topics that came after the count */
        s->topics.next_number = next_topic;
    }
    if (s->jobs.alive.members != tr_get_le(m + TR_UUID + 24, 8)) {
        return TARRY_EDAMAGED;
    }
    s->recount = (tr_get_le(bytes + 20, 4) & COUNTS_TOLD) == 0;
    s->recells = (tr_get_le(bytes + 20, 4) & CELLS_TOLD) == 0;
    s->redead = (tr_get_le(bytes + 20, 4) & DEAD_TOLD) == 0;
    s->rebytes = (tr_get_le(bytes + 20, 4) & BYTES_TOLD) == 0;
    if (!s->recount) {
        err = load_kind(bytes, pages, TR_PAGE_COUNTS, s);
    }
    return err == TARRY_OK && !s->recells ? load_kind(bytes, pages, TR_PAGE_CELLS, s) : err;
}

int tr_checkpoint_load_changes(const uint8_t *bytes, size_t pages, struct tr_state *s)
{
    return load_kind(bytes, pages, TR_PAGE_CHANGES, s);
}

/* The rows of one page; what makes no sense ends it. */
int tr_checkpoint_load_page(const uint8_t *page, struct tr_state *s)
{
    struct tr_reader r = tr_reader_of(page + HEAD, tr_get_le(page + 12, 4) - HEAD);
    enum tr_page_kind kind = (enum tr_page_kind)page[8];
    int err = TARRY_OK;

    for (uint64_t rows = tr_get_le(page + 10, 2); rows > 0 && err == TARRY_OK; rows--) {
        err = kind == TR_PAGE_TOPICS      ? load_topic(&r, s)
              : kind == TR_PAGE_BITS      ? load_bits(&r, s)
              : kind == TR_PAGE_POLICIES  ? load_policy(&r, s)
              : kind == TR_PAGE_SCHEDULES ? tr_scheds_load_row(s, &r)
                                          : load_change(&r, s);
        if (kind == TR_PAGE_CHANGES && (err == TARRY_EDAMAGED || err == TARRY_EIO)) {
            err = r.bad ? TARRY_EDAMAGED : TARRY_OK; /* of a job that is not there any more */
        }
    }
    return err == TARRY_EDAMAGED ? TARRY_OK : err;
}
