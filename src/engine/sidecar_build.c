/*
 * The builder of sidecars. The bytes are described in sidecar.c.
 *
 *     init      takes all memory
 *     prepare   1. orders of jobs:   by rid                              -> R
 *                                    live ones of that, by due           -> D
 *                                    and dead ones behind, by dead_seq;
 *                                    all of that by topic                -> T
 *                                    keyed ones by hash                  -> K
 *                                    moved ones by id                    -> I
 *               2. cuts: how many entries fit each page. T before R and TOPICS, which name its
 *                  entries by page and index
 *               3. where each section begins, and the salt
 *     pages     head, fences, then page by page: the columns of its entries, packed
 *
 * Equal input gives equal bytes: each sort is stable (base/sort.h). Promotion and merge give jobs
 * by due time, which then are not sorted by that again.
 *
 * A page takes entries as long as (their number) * (bits that the spread of each column needs) is
 * not more than it has. So every page but the last of a section has at least tr_side_rows_min
 * entries, which bounds the memory.
 *
 * Cost: 16 * 2 bytes a job to sort, 4 for each order, 4 for where it is in T: 48, and 4 for each
 * keyed one. 0.3 us a job in a slot, 0.6 at a million jobs (bench_sidecar).
 *
 * Not done here: merging sidecars without all their jobs in memory.
 */

#include "engine/sidecar_inner.h"

#include "base/crc.h"
#include "base/err.h"

#include <assert.h>
#include <string.h>

enum { AHEAD = 16 }; /* entries whose jobs are fetched into the cache beforehand */

static_assert(sizeof(struct tr_side_count) <= sizeof(struct tr_sort_item), "topics go there");
static_assert(sizeof(struct tr_side_job) == 64, "what callers reckon with");

void tr_side_forget_heads(struct tr_side_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        jobs[i].head = 0;
    }
}

/* ---- memory ---- */

static void *take(struct tr_side_build *b, size_t count, size_t size)
{
    return count == 0 ? NULL : tr_mem_stretch(b->mem, NULL, 0, count * size);
}

/* How many entries a section can have. */
static uint32_t entries_max(const struct tr_side_build *b, enum tr_side_section section)
{
    switch (section) {
    case TR_SIDE_FRAMES:
        return b->in.frame_count;
    case TR_SIDE_K:
        return b->in.keyed_max;
    case TR_SIDE_I:
        return b->in.moved_max;
    case TR_SIDE_D:
        return b->in.of.group ? 0 : b->in.job_count;
    default:
        return b->in.job_count;
    }
}

static int take_section(struct tr_side_build *b, enum tr_side_section section)
{
    uint32_t entries = entries_max(b, section);
    uint32_t pages = entries == 0 ? 0 : entries / tr_side_rows_min(section) + 1;
    bool ordered = section != TR_SIDE_FRAMES && section != TR_SIDE_TOPICS;

    b->cuts[section].from = take(b, pages, sizeof(uint32_t));
    b->cuts[section].room = b->cuts[section].from != NULL ? pages : 0;
    if (ordered) {
        b->order[section] = take(b, entries, sizeof(uint32_t));
        b->order_room[section] = b->order[section] != NULL ? entries : 0;
    }
    return b->cuts[section].room < pages || (ordered && b->order_room[section] < entries)
               ? TARRY_ENOMEM
               : TARRY_OK;
}

int tr_side_build_init(struct tr_side_build *b, struct tr_mem *mem, const struct tr_side_input *in)
{
    int err = TARRY_OK;

    TR_CHECK(in->job_count <= TR_SIDE_JOBS_MAX);
    TR_CHECK(in->keyed_max <= in->job_count);
    TR_CHECK(in->moved_max <= in->job_count);
    TR_CHECK(in->frame_count <= TR_SIDE_JOBS_MAX);
    TR_CHECK(in->frame_count == 0 || !in->of.group);
    *b = (struct tr_side_build){.mem = mem, .in = *in};
    for (unsigned i = 0; i < TR_SIDE_SECTIONS && err == TARRY_OK; i++) {
        err = take_section(b, (enum tr_side_section)i);
    }
    if (err == TARRY_OK && in->job_count > 0) {
        b->sort.items = take(b, in->job_count, sizeof *b->sort.items);
        b->sort.spare = take(b, in->job_count, sizeof *b->sort.spare);
        b->t_entry = take(b, in->job_count, sizeof *b->t_entry);
        if (b->sort.items == NULL || b->sort.spare == NULL || b->t_entry == NULL) {
            err = TARRY_ENOMEM;
        }
    }
    if (err != TARRY_OK) {
        tr_side_build_fini(b);
    }
    return err;
}

void tr_side_build_fini(struct tr_side_build *b)
{
    size_t jobs = b->in.job_count;

    if (b->mem == NULL) {
        return;
    }
    for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
        tr_mem_free(b->mem, b->order[i], b->order_room[i] * sizeof *b->order[i]);
        tr_mem_free(b->mem, b->cuts[i].from, b->cuts[i].room * sizeof *b->cuts[i].from);
    }
    tr_mem_free(b->mem, b->sort.items, jobs * sizeof *b->sort.items);
    tr_mem_free(b->mem, b->sort.spare, jobs * sizeof *b->sort.spare);
    tr_mem_free(b->mem, b->t_entry, jobs * sizeof *b->t_entry);
    *b = (struct tr_side_build){0};
}

/* ---- sorting ---- */

/* The same for all of n items, by `more`. */
static void sort_by_more(struct tr_side_build *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) { /* the two change places */
        struct tr_sort_item *item = &b->sort.items[i];
        uint64_t key = item->key;

        item->key = item->more;
        item->more = (uint32_t)key;
    }
    tr_sort(&b->sort, 0, n);
}

static void keep_order(struct tr_side_build *b, enum tr_side_section section, uint32_t n)
{
    TR_CHECK(n <= b->order_room[section]);
    for (uint32_t i = 0; i < n; i++) {
        b->order[section][i] = b->sort.items[i].at;
    }
    b->cuts[section].entries = n;
}

static void sort_rids(struct tr_side_build *b)
{
    uint32_t n = b->in.job_count;

    for (uint32_t i = 0; i < n; i++) {
        b->sort.items[i] = (struct tr_sort_item){.key = b->in.jobs[i].rid, .at = i};
    }
    tr_sort(&b->sort, 0, n);
    for (uint32_t i = 1; i < n; i++) {
        TR_CHECK(b->sort.items[i - 1].key < b->sort.items[i].key);
    }
    keep_order(b, TR_SIDE_R, n);
}

static const struct tr_side_job *job_at(const struct tr_side_build *b, enum tr_side_section section,
                                        uint32_t entry)
{
    return &b->in.jobs[b->order[section][entry]];
}

/* Orders lead all over the jobs: one that will be wanted soon, to be asked for now. Callers do that
 * themselves, since gcc drops calls of a function that does nothing else. */
static const void *soon(const struct tr_side_build *b, enum tr_side_section section, uint32_t entry)
{
    if (b->order[section] == NULL || entry + AHEAD >= b->cuts[section].entries) {
        return b;
    }
    return job_at(b, section, entry + AHEAD);
}

/* The i-th job to be sorted by due time: if none has to change its place, as it was given, else by
 * rid. */
static uint32_t nth(const struct tr_side_build *b, uint32_t i)
{
    return b->ordered ? i : b->order[TR_SIDE_R][i];
}

/* Live ones by (due, rid), dead ones behind by (dead_seq, rid), and all by topic. */
static void sort_topics(struct tr_side_build *b)
{
    uint32_t n = b->in.job_count;
    uint32_t live = 0;
    uint32_t dead = b->live;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = nth(b, i);
        const struct tr_side_job *job = &b->in.jobs[at];
        bool lives = job->dead_seq == 0;

        __builtin_prefetch(&b->in.jobs[nth(b, i + AHEAD < n ? i + AHEAD : i)]);
        b->sort.items[lives ? live++ : dead++] = (struct tr_sort_item){
            .key = lives ? job->due_us : job->dead_seq, .more = job->topic, .at = at};
    }
    tr_sort(&b->sort, 0, live);
    tr_sort(&b->sort, live, n);
    b->due_first = live > 0 ? b->sort.items[0].key : UINT64_MAX;
    b->due_last = live > 0 ? b->sort.items[live - 1].key : 0;
    if (!b->in.of.group) {
        keep_order(b, TR_SIDE_D, live);
    }
    sort_by_more(b, n);
    keep_order(b, TR_SIDE_T, n);
}

/* By (hash, rid). */
static void sort_keys(struct tr_side_build *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; n < b->keyed; i++) {
        uint32_t at = b->order[TR_SIDE_R][i];

        __builtin_prefetch(soon(b, TR_SIDE_R, i));
        if (b->in.jobs[at].keyed) {
            b->sort.items[n++] = (struct tr_sort_item){.key = b->in.jobs[at].key_lo, .at = at};
        }
    }
    tr_sort(&b->sort, 0, n);
    for (uint32_t i = 0; i < n; i++) {
        __builtin_prefetch(&b->in.jobs[b->sort.items[i + AHEAD < n ? i + AHEAD : i].at]);
        b->sort.items[i].key = b->in.jobs[b->sort.items[i].at].key_hi;
    }
    tr_sort(&b->sort, 0, n);
    keep_order(b, TR_SIDE_K, n);
}

/* By (id, rid). */
static void sort_moved(struct tr_side_build *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; n < b->moved; i++) {
        uint32_t at = b->order[TR_SIDE_R][i];

        __builtin_prefetch(soon(b, TR_SIDE_R, i));
        if (b->in.jobs[at].id != b->in.jobs[at].rid) {
            b->sort.items[n++] = (struct tr_sort_item){.key = b->in.jobs[at].id, .at = at};
        }
    }
    tr_sort(&b->sort, 0, n);
    keep_order(b, TR_SIDE_I, n);
}

/* ---- cutting ---- */

static void count_topics(struct tr_side_build *b)
{
    uint32_t n = 0;

    b->topics = (struct tr_side_count *)(void *)b->sort.items; /* sorting is over */
    for (uint32_t i = 0; i < b->in.job_count; i++) {
        const struct tr_side_job *job = job_at(b, TR_SIDE_T, i);

        __builtin_prefetch(soon(b, TR_SIDE_T, i));
        if (n == 0 || b->topics[n - 1].topic != job->topic) {
            b->topics[n++] = (struct tr_side_count){.topic = job->topic, .from = i};
        }
        b->topics[n - 1].live += job->dead_seq == 0 ? 1 : 0;
        b->topics[n - 1].dead += job->dead_seq != 0 ? 1 : 0;
    }
    b->cuts[TR_SIDE_TOPICS].entries = n;
}

/* The columns of an entry. */
static void fetch(const struct tr_side_build *b, enum tr_side_section section, uint32_t entry,
                  uint64_t col[TR_SIDE_COLUMNS_MAX])
{
    const struct tr_side_job *job;
    uint32_t t;

    switch (section) {
    case TR_SIDE_FRAMES:
        job = &b->in.frames[entry];
        tr_side_key(section, job, col);
        col[1] = job->rid;
        col[2] = job->due_us;
        return;
    case TR_SIDE_TOPICS:
        t = b->t_entry[b->order[TR_SIDE_T][b->topics[entry].from]];
        col[0] = b->topics[entry].topic;
        col[1] = b->topics[entry].live;
        col[2] = b->topics[entry].dead;
        col[3] = t >> TR_SIDE_INDEX_BITS;
        col[4] = t & ((1U << TR_SIDE_INDEX_BITS) - 1);
        return;
    case TR_SIDE_R:
        t = b->t_entry[b->order[section][entry]];
        col[0] = job_at(b, section, entry)->rid;
        col[1] = t >> TR_SIDE_INDEX_BITS;
        col[2] = t & ((1U << TR_SIDE_INDEX_BITS) - 1);
        return;
    case TR_SIDE_T:
        job = job_at(b, section, entry);
        tr_side_key(section, job, col);
        col[3] = job->place >> TR_PLACE_LEN_BITS;
        col[4] = tr_place_len(job->place);
        col[5] = job->cell;
        col[6] = job->head;
        return;
    case TR_SIDE_D:
        job = job_at(b, section, entry);
        tr_side_key(section, job, col);
        col[2] = job->topic;
        col[3] = job->place >> TR_PLACE_LEN_BITS;
        col[4] = tr_place_len(job->place);
        return;
    default: /* K and I are all key */
        tr_side_key(section, job_at(b, section, entry), col);
        return;
    }
}

/* How far the numbers of each column of some entries spread. */
struct spread {
    uint64_t least[TR_SIDE_COLUMNS_MAX];
    uint64_t most[TR_SIDE_COLUMNS_MAX];
};

static unsigned width(uint64_t v)
{
    return v == 0 ? 0 : 64 - (unsigned)__builtin_clzll(v);
}

/* Takes in one more row; gives the bits that a row then needs. */
static uint32_t widen(struct spread *s, const uint64_t *col, unsigned columns)
{
    uint32_t bits = 0;

    for (unsigned c = 0; c < columns; c++) {
        s->least[c] = col[c] < s->least[c] ? col[c] : s->least[c];
        s->most[c] = col[c] > s->most[c] ? col[c] : s->most[c];
        bits += width(s->most[c] - s->least[c]);
    }
    return bits;
}

static struct spread spread_of(const uint64_t *col, unsigned columns)
{
    struct spread s = {0};

    for (unsigned c = 0; c < columns; c++) {
        s.least[c] = col[c];
        s.most[c] = col[c];
    }
    return s;
}

static void cut(struct tr_side_build *b, enum tr_side_section section)
{
    struct tr_side_cuts *cuts = &b->cuts[section];
    unsigned columns = tr_side_shape(section)->columns;
    uint32_t room = tr_side_row_room(section);
    uint64_t col[TR_SIDE_COLUMNS_MAX] = {0};
    struct spread spread = {0};
    uint32_t rows = 0;

    for (uint32_t i = 0; i < cuts->entries; i++) {
        __builtin_prefetch(soon(b, section, i));
        fetch(b, section, i, col);
        if (rows == 0 || rows == TR_SIDE_ROWS_MAX ||
            (rows + 1) * widen(&spread, col, columns) > room) {
            TR_CHECK(cuts->pages < cuts->room);
            cuts->from[cuts->pages++] = i;
            spread = spread_of(col, columns);
            rows = 0;
        }
        if (section == TR_SIDE_T) {
            b->t_entry[b->order[section][i]] = (cuts->pages - 1) << TR_SIDE_INDEX_BITS | rows;
        }
        rows++;
    }
}

/* ---- all of it ---- */

/* A number for all jobs together, whatever their order; other jobs give another one. */
static uint64_t mix(const struct tr_side_job *job)
{
    uint64_t small = (uint64_t)job->topic << 32 | (uint64_t)job->head << 16 | job->key_lo;
    uint64_t v = job->rid * 0x9e3779b97f4a7c15u ^ job->id * 0xbf58476d1ce4e5b9u ^
                 job->due_us * 0x94d049bb133111ebu ^ job->dead_seq * 0xd6e8feb86659fd93u ^
                 job->place * 0xa0761d6478bd642fu ^ job->key_hi * 0xe7037ed1a0b428dbu ^
                 small * 0x8ebc6af09c88c6e3u ^ (uint64_t)job->cell << 1 ^ (job->keyed ? 1 : 0);

    v = (v ^ v >> 32) * 0x589965cc75374cc3u;
    return v ^ v >> 29;
}

/* Is b not to stand before a, so that none has to change its place? */
static bool follows(const struct tr_side_job *b, const struct tr_side_job *a)
{
    uint64_t key = b->dead_seq == 0 ? b->due_us : b->dead_seq;
    uint64_t before = a->dead_seq == 0 ? a->due_us : a->dead_seq;

    return (b->dead_seq != 0) != (a->dead_seq != 0)
               ? b->dead_seq != 0
               : key > before || (key == before && b->rid > a->rid);
}

static void sum_up(struct tr_side_build *b)
{
    b->ordered = true;
    for (uint32_t i = 0; i < b->in.job_count; i++) {
        const struct tr_side_job *job = &b->in.jobs[i];

        TR_CHECK(job->rid <= TR_SIDE_RID_MAX);
        TR_CHECK(job->id <= TR_SIDE_RID_MAX);
        TR_CHECK(job->cell <= 3);
        b->sum += mix(job);
        b->live += job->dead_seq == 0 ? 1 : 0;
        b->keyed += job->keyed ? 1 : 0;
        b->moved += job->id != job->rid ? 1 : 0;
        b->strays += job->rid < b->in.rid_first || job->rid > b->in.rid_last ? 1 : 0;
        b->ordered = b->ordered && (i == 0 || follows(job, job - 1));
    }
    for (uint32_t i = 0; i < b->in.frame_count; i++) {
        TR_CHECK(b->in.frames[i].rid <= TR_SIDE_RID_MAX);
        TR_CHECK(i == 0 || b->in.frames[i].place > b->in.frames[i - 1].place);
        b->sum += mix(&b->in.frames[i]);
    }
    b->dead = b->in.job_count - b->live;
}

void tr_side_build_prepare(struct tr_side_build *b)
{
    TR_CHECK(b->page_count == 0);
    sum_up(b);
    if (b->in.job_count > 0) {
        sort_rids(b);
        sort_topics(b);
        sort_keys(b);
        sort_moved(b);
        count_topics(b);
    } else {
        b->due_first = UINT64_MAX;
    }
    b->cuts[TR_SIDE_FRAMES].entries = b->in.frame_count;
    cut(b, TR_SIDE_T); /* before those that point into it */
    for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
        if (i != TR_SIDE_T) {
            cut(b, (enum tr_side_section)i);
        }
        b->fence_bytes += b->cuts[i].pages * tr_side_shape((enum tr_side_section)i)->fence;
    }
    b->fence_pages = (b->fence_bytes + TR_SIDE_FENCE_ROOM - 1) / TR_SIDE_FENCE_ROOM;
    b->page_count = 1 + b->fence_pages;
    for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
        b->cuts[i].first = b->page_count;
        b->page_count += b->cuts[i].pages;
    }
    b->salt = tr_side_page_salt(&b->in.of, b->sum);
}

/* ---- pages ---- */

static void put(uint8_t **at, uint64_t v, unsigned size)
{
    tr_put_le(*at, v, size);
    *at += size;
}

static void put_head(const struct tr_side_build *b, uint8_t *page)
{
    uint8_t *at = page + TR_SIDE_CRC_FROM;

    tr_put_le(page, TR_SIDE_HEAD_MAGIC, 4);
    put(&at, TR_FORMAT_VERSION, 2);
    put(&at, TR_SIDE_HEAD_LEN, 2);
    put(&at, 0, 4);
    memcpy(at, b->in.of.uuid, TR_UUID);
    at += TR_UUID;
    put(&at, b->in.of.group ? 1 : 0, 4);
    put(&at, b->page_count, 4);
    put(&at, b->in.of.number, 8);
    put(&at, b->in.of.nonce, 8);
    put(&at, b->sum, 8);
    put(&at, b->in.rid_first, 8);
    put(&at, b->in.rid_last, 8);
    put(&at, b->due_first, 8);
    put(&at, b->due_last, 8);
    put(&at, b->live, 4);
    put(&at, b->dead, 4);
    put(&at, b->strays, 4);
    put(&at, b->fence_pages, 4);
    for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
        put(&at, b->cuts[i].first, 4);
        put(&at, b->cuts[i].pages, 4);
        put(&at, b->cuts[i].entries, 4);
    }
    TR_CHECK(at == page + TR_SIDE_HEAD_LEN);
    tr_put_le(page + TR_SIDE_CRC_AT, tr_side_crc(tr_side_head_salt(&b->in.of), 0, page), 4);
}

static void close_page(const struct tr_side_build *b, uint8_t *page, uint8_t kind, uint32_t n)
{
    tr_put_le(page, TR_SIDE_PAGE_MAGIC, 4);
    page[8] = kind;
    page[9] = TR_FORMAT_VERSION;
    tr_put_le(page + 10, n, 2);
    tr_put_le(page + 12, b->next, 4);
    tr_put_le(page + TR_SIDE_CRC_AT, tr_side_crc(b->salt, b->next, page), 4);
}

/* The fence of a page, byte by byte. */
static void make_fence(const struct tr_side_build *b, enum tr_side_section section, uint32_t page,
                       uint8_t *out)
{
    const struct tr_side_shape *shape = tr_side_shape(section);
    uint64_t col[TR_SIDE_COLUMNS_MAX];

    fetch(b, section, b->cuts[section].from[page], col);
    for (unsigned c = 0; c < shape->keys; c++) {
        put(&out, col[c], (shape->bits[c] + 7U) / 8);
    }
}

/* The fence page with the bytes from `skip` on. */
static uint32_t put_fences(const struct tr_side_build *b, uint8_t *page, uint32_t skip)
{
    uint32_t end = skip + TR_SIDE_FENCE_ROOM;
    uint32_t at = 0; /* where the fences of a section begin */

    end = end < b->fence_bytes ? end : b->fence_bytes;
    for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
        uint32_t len = tr_side_shape((enum tr_side_section)i)->fence;
        uint32_t all = b->cuts[i].pages * len;

        for (uint32_t p = skip > at ? (skip - at) / len : 0; p * len < all && at + p * len < end;
             p++) {
            uint8_t fence[TR_SIDE_KEYS_MAX * 8];
            uint32_t from = at + p * len < skip ? skip - (at + p * len) : 0; /* cut in front */
            uint32_t to = end - (at + p * len) < len ? end - (at + p * len) : len;

            make_fence(b, (enum tr_side_section)i, p, fence);
            memcpy(page + TR_SIDE_PAGE_HEAD + (at + p * len + from - skip), fence + from,
                   to - from);
        }
        at += all;
    }
    return end - skip;
}

static void put_bits(uint8_t *p, uint32_t bit, uint64_t v, unsigned bits)
{
    unsigned shift = bit % 8;

    p += bit / 8;
    tr_side_put8(p, tr_side_get8(p) | v << shift);
    if (shift + bits > 64) {
        p[8] = (uint8_t)(v >> (64 - shift));
    }
}

static uint32_t put_rows(const struct tr_side_build *b, uint8_t *page, enum tr_side_section section,
                         uint32_t number)
{
    const struct tr_side_cuts *cuts = &b->cuts[section];
    unsigned columns = tr_side_shape(section)->columns;
    uint32_t from = cuts->from[number];
    uint32_t to = number + 1 < cuts->pages ? cuts->from[number + 1] : cuts->entries;
    uint8_t *at = page + TR_SIDE_PAGE_HEAD;
    uint64_t col[TR_SIDE_COLUMNS_MAX];
    unsigned bits[TR_SIDE_COLUMNS_MAX];
    struct spread spread;
    uint32_t bit = 0;

    fetch(b, section, from, col);
    spread = spread_of(col, columns);
    for (uint32_t i = from + 1; i < to; i++) {
        __builtin_prefetch(soon(b, section, i));
        fetch(b, section, i, col);
        (void)widen(&spread, col, columns);
    }
    for (unsigned c = 0; c < columns; c++) {
        bits[c] = width(spread.most[c] - spread.least[c]);
        put(&at, spread.least[c], 8);
        put(&at, bits[c], 1);
    }
    for (uint32_t i = from; i < to; i++) {
        fetch(b, section, i, col);
        for (unsigned c = 0; c < columns; c++) {
            put_bits(at, bit, col[c] - spread.least[c], bits[c]);
            bit += bits[c];
        }
    }
    TR_CHECK(bit <= tr_side_row_room(section));
    return to - from;
}

static void make_page(const struct tr_side_build *b, uint8_t *page)
{
    unsigned section = TR_SIDE_SECTIONS - 1;
    uint32_t n;

    memset(page, 0, TR_SIDE_PAGE);
    if (b->next == 0) {
        put_head(b, page);
        return;
    }
    if (b->next <= b->fence_pages) {
        n = put_fences(b, page, (b->next - 1) * TR_SIDE_FENCE_ROOM);
        close_page(b, page, TR_SIDE_FENCE_KIND, n);
        return;
    }
    while (b->next < b->cuts[section].first || b->cuts[section].pages == 0) {
        section--;
    }
    n = put_rows(b, page, (enum tr_side_section)section, b->next - b->cuts[section].first);
    close_page(b, page, (uint8_t)section, n);
}

uint32_t tr_side_build_pages(struct tr_side_build *b, uint8_t *out, uint32_t pages)
{
    uint32_t n = 0;

    TR_CHECK(b->page_count > 0);
    for (; n < pages && b->next < b->page_count; n++, b->next++) {
        make_page(b, out + (size_t)n * TR_SIDE_PAGE);
    }
    return n;
}
