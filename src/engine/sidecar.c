/*
 * Sidecars: the bytes, and the reader. Numbers are little-endian.
 *
 * Head, page 0:
 *
 *      0  u32  magic "TRsh"
 *      4  u32  crc32c of bytes 8..4095, salted
 *      8  u16  version
 *     10  u16  length of this head: 196
 *     12  u32  features that a reader must know: 0
 *     16  16   uuid of the store
 *     32  u32  0 slot, 1 group
 *     36  u32  pages of the file
 *     40  u64  seg_no, or number of the group
 *     48  u64  nonce, 0 of a group
 *     56  u64  sum of all jobs and frames
 *     64  u64  first and last rid that it covers
 *     80  u64  least and largest due of live jobs (2^64 - 1 and 0 when there are none)
 *     96  u32  live jobs
 *    100  u32  dead jobs
 *    104  u32  strays
 *    108  u32  pages of fences, from page 1 on
 *    112       7 sections, 12 bytes each: u32 first page, u32 pages, u32 entries
 *    196       zeros
 *
 * Any other page:
 *
 *      0  u32  magic "TRsp"
 *      4  u32  crc32c of bytes 8..4095, salted
 *      8  u8   section; 255: fences
 *      9  u8   version
 *     10  u16  entries; of fences: bytes
 *     12  u32  page of the file
 *     16       per column: u64 base, u8 bits
 *              rows, one after the other without gaps, row i at bit i * (sum of the bits of all
 *              columns): per column so many bits, low bits first, the number less the base
 *              zeros, at least 8 bytes
 *
 * A column whose numbers are all the same takes no bits: an index of older builds, in which heads
 * are 0, pays nothing for them. And since all rows of a page are equally long, a search in it is by
 * halves.
 *
 *     section    columns (their bits at most); the key is what stands before the bar
 *     0 FRAMES   offset (40) | base rid (48), base clock (64)
 *     1 TOPICS   topic (32) | live (32), dead (32), page (20) and index (12) of its first in T
 *     2 T        topic * 2 + dead (33), due or dead_seq (64), rid (48) |
 *                piece and offset (40), length (24), cell (2), head (16)
 *     3 R        rid (48) | page (20), index (12) in T
 *     4 K        key, upper bits (64), lower bits (16), rid (48) |
 *     5 I        id (48), rid (48) |
 *     6 D        due (64), rid (48) | topic (32), piece and offset (40), length (24)
 *
 * Fences: the keys of the first entries of all pages, section by section; each column of a key in
 * as many whole bytes as its bits at most need (T 19, R 6, K 16, I 12, D 14, FRAMES 5, TOPICS 4).
 * These bytes stand one after the other in the fence pages, and so they are in memory.
 *
 * Salted (R30): the crc goes on from that of bytes that are not there. Of the head: uuid, u8 slot
 * or group, u64 number, u64 nonce; then u32 page. Of all others: the same, u64 sum, then u32 page.
 * So a page of another slot, of an earlier use of this slot, or at the wrong place is damaged; and
 * so is one of an earlier sidecar of the same segment with other jobs, of which a power cut may
 * have left some pages, since nothing is synced.
 *
 * A good crc says that we wrote the bytes, not that we wrote them well: every length is looked at
 * before it is used, a number that its column cannot have is damage, and so is a page whose first
 * entry is not its fence.
 *
 * Cost: a look-up is a search by halves over the fences and one in the page: 0.2 us when both are
 * in the CPU's cache, 0.7 when not; the crc of a page takes 0.6. Memory: fences, 0.05 to 0.1 bytes
 * a job.
 */

#include "engine/sidecar_inner.h"

#include "base/crc.h"
#include "base/err.h"

#include <assert.h>
#include <string.h>

static const struct tr_side_shape shapes[TR_SIDE_SECTIONS] = {
    [TR_SIDE_FRAMES] = {3, 1, 5, {40, 48, 64}},
    [TR_SIDE_TOPICS] = {5, 1, 4, {32, 32, 32, 20, 12}},
    [TR_SIDE_T] = {7, 3, 5 + 8 + 6, {33, 64, 48, 40, 24, 2, 16}},
    [TR_SIDE_R] = {3, 1, 6, {48, 20, 12}},
    [TR_SIDE_K] = {3, 3, 8 + 2 + 6, {64, 16, 48}},
    [TR_SIDE_I] = {2, 2, 6 + 6, {48, 48}},
    [TR_SIDE_D] = {5, 2, 8 + 6, {64, 48, 32, 40, 24}},
};

static_assert(TR_SIDE_HEAD_LEN == 112 + 12 * TR_SIDE_SECTIONS, "the format above");
static_assert(TR_PLACE_PIECE_BITS + TR_PLACE_OFF_BITS == 40, "the format above");
static_assert(TR_PLACE_LEN_BITS == 24, "the format above");

const struct tr_side_shape *tr_side_shape(enum tr_side_section section)
{
    return &shapes[section];
}

uint32_t tr_side_row_room(enum tr_side_section section)
{
    return 8 * (uint32_t)(TR_SIDE_PAGE - TR_SIDE_PAGE_HEAD - TR_SIDE_SLACK -
                          TR_SIDE_COLUMN_HEAD * shapes[section].columns);
}

uint32_t tr_side_rows_min(enum tr_side_section section)
{
    uint32_t bits = shapes[section].bits[0];

    for (unsigned c = 1; c < shapes[section].columns; c++) {
        bits += shapes[section].bits[c];
    }
    TR_CHECK(bits > 0);
    return tr_side_row_room(section) / bits;
}

static unsigned keys_of(enum tr_side_section section)
{
    unsigned keys = shapes[section].keys;

    TR_CHECK(keys <= TR_SIDE_KEYS_MAX);
    return keys;
}

static unsigned key_bytes(enum tr_side_section section, unsigned column)
{
    return (shapes[section].bits[column] + 7U) / 8;
}

void tr_side_key(enum tr_side_section section, const struct tr_side_job *job,
                 uint64_t key[TR_SIDE_KEYS_MAX])
{
    bool dead = job->dead_seq != 0;

    key[1] = job->rid;
    key[2] = job->rid;
    switch (section) {
    case TR_SIDE_FRAMES:
        key[0] = job->place >> TR_PLACE_LEN_BITS;
        break;
    case TR_SIDE_TOPICS:
        key[0] = job->topic;
        break;
    case TR_SIDE_T:
        key[0] = (uint64_t)job->topic << 1 | (dead ? 1 : 0);
        key[1] = dead ? job->dead_seq : job->due_us;
        break;
    case TR_SIDE_K:
        key[0] = job->key_hi;
        key[1] = job->key_lo;
        break;
    case TR_SIDE_I:
        key[0] = job->id;
        break;
    case TR_SIDE_D:
        key[0] = job->due_us;
        break;
    default:
        key[0] = job->rid;
        break;
    }
}

uint32_t tr_side_head_salt(const struct tr_side_of *of)
{
    uint8_t p[TR_UUID + 1 + 8 + 8];

    memcpy(p, of->uuid, TR_UUID);
    p[TR_UUID] = of->group ? 1 : 0;
    tr_put_le(p + TR_UUID + 1, of->number, 8);
    tr_put_le(p + TR_UUID + 9, of->nonce, 8);
    return tr_crc(0, p, sizeof p);
}

uint32_t tr_side_page_salt(const struct tr_side_of *of, uint64_t sum)
{
    uint8_t p[8];

    tr_put_le(p, sum, sizeof p);
    return tr_crc(tr_side_head_salt(of), p, sizeof p);
}

uint32_t tr_side_crc(uint32_t salt, uint32_t page, const uint8_t bytes[TR_SIDE_PAGE])
{
    uint8_t p[4];

    tr_put_le(p, page, sizeof p);
    return tr_crc(tr_crc(salt, p, sizeof p), bytes + TR_SIDE_CRC_FROM,
                  TR_SIDE_PAGE - TR_SIDE_CRC_FROM);
}

/* ---- head and fences ---- */

/* Sections follow each other without gaps, and their counts fit each other. */
static bool sections_ok(const struct tr_sidecar *s)
{
    uint64_t page = 1 + (uint64_t)s->fence_pages;
    uint64_t fences = 0;
    uint64_t jobs = (uint64_t)s->live + s->dead;
    const uint64_t most[TR_SIDE_SECTIONS] = {
        s->of.group ? 0 : TR_SIDE_JOBS_MAX, jobs, jobs, jobs, jobs, jobs, s->live};

    for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
        uint64_t pages = s->sections[i].pages;
        uint64_t entries = s->sections[i].entries;

        if (s->sections[i].first != page || entries > most[i] || pages > entries ||
            entries > pages * TR_SIDE_ROWS_MAX ||
            pages > entries / tr_side_rows_min((enum tr_side_section)i) + 1) {
            return false;
        }
        page += pages;
        fences += pages * shapes[i].fence;
    }
    return page == s->page_count && fences == s->fence_bytes && jobs <= TR_SIDE_JOBS_MAX &&
           s->strays <= jobs && s->sections[TR_SIDE_T].entries == jobs &&
           s->sections[TR_SIDE_R].entries == jobs &&
           s->sections[TR_SIDE_D].entries == (s->of.group ? 0 : s->live) &&
           s->fence_pages == (fences + TR_SIDE_FENCE_ROOM - 1) / TR_SIDE_FENCE_ROOM;
}

static void get_sections(struct tr_sidecar *s, struct tr_reader *r)
{
    uint32_t fence = 0;

    for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
        s->sections[i].first = (uint32_t)tr_read_le(r, 4);
        s->sections[i].pages = (uint32_t)tr_read_le(r, 4);
        s->sections[i].entries = (uint32_t)tr_read_le(r, 4);
        s->sections[i].fence = fence;
        fence += s->sections[i].pages * shapes[i].fence;
    }
    s->fence_bytes = fence;
}

static int check_version(uint64_t version)
{
    if (version == 0) {
        return TARRY_EDAMAGED;
    }
    return version <= TR_FORMAT_VERSION ? TARRY_OK : TARRY_EVERSION;
}

int tr_sidecar_head(struct tr_sidecar *s, const struct tr_side_of *of,
                    const uint8_t page[TR_SIDE_PAGE])
{
    struct tr_reader r = tr_reader_of(page, TR_SIDE_PAGE);
    uint64_t magic = tr_read_le(&r, 4);
    uint64_t crc = tr_read_le(&r, 4);
    int err = check_version(tr_read_le(&r, 2));
    bool same = tr_read_le(&r, 2) == TR_SIDE_HEAD_LEN;
    uint64_t features = tr_read_le(&r, 4);

    memset(s, 0, sizeof *s);
    if (magic != TR_SIDE_HEAD_MAGIC || crc != tr_side_crc(tr_side_head_salt(of), 0, page)) {
        return TARRY_EDAMAGED;
    }
    if (err != TARRY_OK || features != 0) {
        return err != TARRY_OK ? err : TARRY_EVERSION;
    }
    same = memcmp(tr_read_bytes(&r, TR_UUID), of->uuid, TR_UUID) == 0 && same;
    same = tr_read_le(&r, 4) == (of->group ? 1 : 0) && same;
    s->page_count = (uint32_t)tr_read_le(&r, 4);
    same = tr_read_le(&r, 8) == of->number && same;
    same = tr_read_le(&r, 8) == of->nonce && same;
    s->of = *of;
    s->salt = tr_side_page_salt(of, tr_read_le(&r, 8));
    s->rid_first = tr_read_le(&r, 8);
    s->rid_last = tr_read_le(&r, 8);
    s->due_first = tr_read_le(&r, 8);
    s->due_last = tr_read_le(&r, 8);
    s->live = (uint32_t)tr_read_le(&r, 4);
    s->dead = (uint32_t)tr_read_le(&r, 4);
    s->strays = (uint32_t)tr_read_le(&r, 4);
    s->fence_pages = (uint32_t)tr_read_le(&r, 4);
    get_sections(s, &r);
    if (!same || !sections_ok(s)) {
        memset(s, 0, sizeof *s);
        return TARRY_EDAMAGED;
    }
    return TARRY_OK;
}

static int compare(const uint64_t *a, const uint64_t *b, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (a[i] != b[i]) {
            return a[i] < b[i] ? -1 : 1;
        }
    }
    return 0;
}

static void get_fence(const struct tr_sidecar *s, enum tr_side_section section, uint32_t page,
                      uint64_t key[TR_SIDE_KEYS_MAX])
{
    const uint8_t *p =
        s->fences + s->sections[section].fence + (size_t)page * shapes[section].fence;
    unsigned keys = keys_of(section);

    for (unsigned c = 0; c < keys; c++) {
        key[c] = tr_get_le(p, key_bytes(section, c));
        p += key_bytes(section, c);
    }
}

/* What a page of the file must have at its front. */
static bool page_ok(const struct tr_sidecar *s, uint8_t kind, uint32_t page, const uint8_t *bytes)
{
    return tr_get_le(bytes, 4) == TR_SIDE_PAGE_MAGIC && bytes[8] == kind &&
           bytes[9] == TR_FORMAT_VERSION && tr_get_le(bytes + 12, 4) == page &&
           tr_get_le(bytes + TR_SIDE_CRC_AT, 4) == tr_side_crc(s->salt, page, bytes);
}

static bool fences_rise(const struct tr_sidecar *s)
{
    for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
        uint64_t key[2][TR_SIDE_KEYS_MAX] = {{0}};
        unsigned keys = keys_of((enum tr_side_section)i);

        for (uint32_t p = 0; p < s->sections[i].pages; p++) {
            get_fence(s, (enum tr_side_section)i, p, key[p % 2]);
            if (p > 0 && compare(key[(p + 1) % 2], key[p % 2], keys) >= 0) {
                return false;
            }
        }
    }
    return true;
}

int tr_sidecar_load(struct tr_sidecar *s, struct tr_mem *mem, const uint8_t *pages)
{
    size_t left = s->fence_bytes;

    TR_CHECK(s->fences == NULL);
    for (uint32_t i = 0; i < s->fence_pages; i++, pages += TR_SIDE_PAGE) {
        size_t len = left < TR_SIDE_FENCE_ROOM ? left : TR_SIDE_FENCE_ROOM;

        if (!page_ok(s, TR_SIDE_FENCE_KIND, 1 + i, pages) || tr_get_le(pages + 10, 2) != len) {
            return TARRY_EDAMAGED;
        }
        left -= len;
    }
    if (s->fence_bytes == 0) {
        return TARRY_OK;
    }
    s->fences = tr_mem_alloc(mem, s->fence_bytes);
    if (s->fences == NULL) {
        return TARRY_ENOMEM;
    }
    s->mem = mem;
    left = s->fence_bytes;
    pages -= (size_t)s->fence_pages * TR_SIDE_PAGE;
    for (uint8_t *at = s->fences; left > 0; pages += TR_SIDE_PAGE) {
        size_t len = left < TR_SIDE_FENCE_ROOM ? left : TR_SIDE_FENCE_ROOM;

        memcpy(at, pages + TR_SIDE_PAGE_HEAD, len);
        at += len;
        left -= len;
    }
    if (!fences_rise(s)) {
        tr_mem_free(mem, s->fences, s->fence_bytes);
        s->fences = NULL;
        s->mem = NULL;
        return TARRY_EDAMAGED;
    }
    return TARRY_OK;
}

bool tr_sidecar_fence_ok(const struct tr_sidecar *s, uint32_t i, const uint8_t bytes[TR_SIDE_PAGE])
{
    return page_ok(s, TR_SIDE_FENCE_KIND, 1 + i, bytes);
}

void tr_sidecar_fini(struct tr_sidecar *s)
{
    if (s->fences != NULL) {
        tr_mem_free(s->mem, s->fences, s->fence_bytes);
    }
    *s = (struct tr_sidecar){0};
}

/* ---- pages ---- */

uint32_t tr_sidecar_find(const struct tr_sidecar *s, enum tr_side_section section,
                         const struct tr_side_job *key)
{
    uint64_t want[TR_SIDE_KEYS_MAX];
    uint64_t got[TR_SIDE_KEYS_MAX] = {0};
    unsigned keys = keys_of(section);
    uint32_t low = 0; /* the fences before it are not behind the key */
    uint32_t high = s->sections[section].pages;

    if (high == 0) {
        return TR_SIDE_NONE;
    }
    TR_CHECK(s->fences != NULL);
    tr_side_key(section, key, want);
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        get_fence(s, section, mid, got);
        if (compare(got, want, keys) <= 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low > 0 ? low - 1 : 0;
}

uint64_t tr_sidecar_off(const struct tr_sidecar *s, enum tr_side_section section, uint32_t page)
{
    TR_CHECK(page < s->sections[section].pages);
    return ((uint64_t)s->sections[section].first + page) * TR_SIDE_PAGE;
}

int tr_sidecar_check(const struct tr_sidecar *s, enum tr_side_section section, uint32_t page,
                     const uint8_t bytes[TR_SIDE_PAGE])
{
    TR_CHECK(page < s->sections[section].pages);
    return page_ok(s, (uint8_t)section, s->sections[section].first + page, bytes) ? TARRY_OK
                                                                                  : TARRY_EDAMAGED;
}

/* So many bits from this one on; the page has 9 bytes from any row on. */
static uint64_t get_bits(const uint8_t *p, uint32_t bit, unsigned bits)
{
    unsigned shift = bit % 8;
    uint64_t v;

    if (bits == 0) {
        return 0;
    }
    p += bit / 8;
    v = tr_side_get8(p) >> shift;
    if (shift + bits > 64) {
        v |= (uint64_t)p[8] << (64 - shift);
    }
    return v & (UINT64_MAX >> (64 - bits));
}

static uint64_t get_column(const struct tr_side_view *v, uint32_t index, unsigned column)
{
    return v->base[column] +
           get_bits(v->rows, index * v->row_bits + v->shift[column], v->bits[column]);
}

static int compare_row(const struct tr_side_view *v, uint32_t index,
                       const uint64_t key[TR_SIDE_KEYS_MAX])
{
    unsigned keys = keys_of(v->section);

    for (unsigned c = 0; c < keys; c++) {
        uint64_t got = get_column(v, index, c);

        if (got != key[c]) {
            return got < key[c] ? -1 : 1;
        }
    }
    return 0;
}

int tr_sidecar_view(const struct tr_sidecar *s, enum tr_side_section section, uint32_t page,
                    const uint8_t bytes[TR_SIDE_PAGE], struct tr_side_view *v)
{
    const struct tr_side_shape *shape = &shapes[section];
    const uint8_t *at = bytes + TR_SIDE_PAGE_HEAD;
    uint64_t fence[TR_SIDE_KEYS_MAX] = {0};

    TR_CHECK(page < s->sections[section].pages);
    memset(v, 0, sizeof *v);
    v->section = section;
    v->t_pages = s->sections[TR_SIDE_T].pages;
    for (unsigned c = 0; c < shape->columns; c++) {
        v->base[c] = tr_side_get8(at);
        v->bits[c] = at[8];
        v->shift[c] = (uint16_t)v->row_bits;
        v->row_bits += at[8];
        at += TR_SIDE_COLUMN_HEAD;
        if (v->bits[c] > shape->bits[c] ||
            (shape->bits[c] < 64 && v->base[c] >> shape->bits[c] != 0)) {
            return TARRY_EDAMAGED;
        }
    }
    v->rows = at;
    v->count = (uint32_t)tr_get_le(bytes + 10, 2);
    if (bytes[8] != section || v->count == 0 || v->count > TR_SIDE_ROWS_MAX ||
        v->count * v->row_bits > tr_side_row_room(section)) {
        v->count = 0;
        return TARRY_EDAMAGED;
    }
    get_fence(s, section, page, fence);
    if (compare_row(v, 0, fence) != 0) {
        v->count = 0;
        return TARRY_EDAMAGED;
    }
    return TARRY_OK;
}

uint32_t tr_side_lower(const struct tr_side_view *v, const struct tr_side_job *key)
{
    uint64_t columns[TR_SIDE_KEYS_MAX];
    uint32_t low = 0;
    uint32_t high = v->count;

    tr_side_key(v->section, key, columns);
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (compare_row(v, mid, columns) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

/* From columns to fields. */
static void fill(enum tr_side_section section, const uint64_t *col, struct tr_side_row *row)
{
    struct tr_side_job *job = &row->job;

    switch (section) {
    case TR_SIDE_FRAMES:
        job->place = col[0] << TR_PLACE_LEN_BITS;
        job->rid = col[1];
        job->due_us = col[2];
        break;
    case TR_SIDE_TOPICS:
        job->topic = (uint32_t)col[0];
        row->live = (uint32_t)col[1];
        row->dead = (uint32_t)col[2];
        row->t = (struct tr_side_at){.page = (uint32_t)col[3], .index = (uint32_t)col[4]};
        break;
    case TR_SIDE_T:
        job->topic = (uint32_t)(col[0] >> 1);
        *((col[0] & 1) != 0 ? &job->dead_seq : &job->due_us) = col[1];
        job->rid = col[2];
        job->place = col[3] << TR_PLACE_LEN_BITS | col[4];
        job->cell = (uint8_t)col[5];
        job->head = (uint16_t)col[6];
        break;
    case TR_SIDE_R:
        job->rid = col[0];
        row->t = (struct tr_side_at){.page = (uint32_t)col[1], .index = (uint32_t)col[2]};
        break;
    case TR_SIDE_K:
        job->keyed = true;
        job->key_hi = col[0];
        job->key_lo = (uint16_t)col[1];
        job->rid = col[2];
        break;
    case TR_SIDE_I:
        job->id = col[0];
        job->rid = col[1];
        break;
    default:
        job->due_us = col[0];
        job->rid = col[1];
        job->topic = (uint32_t)col[2];
        job->place = col[3] << TR_PLACE_LEN_BITS | col[4];
        break;
    }
}

/* What the columns alone do not tell: an entry of T that is pointed to, and a dead job, have a
 * number. */
static bool fits(const struct tr_side_view *v, const uint64_t *col)
{
    switch (v->section) {
    case TR_SIDE_TOPICS:
        return col[3] < v->t_pages;
    case TR_SIDE_R:
        return col[1] < v->t_pages;
    case TR_SIDE_T:
        return (col[0] & 1) == 0 || col[1] != 0;
    default:
        return true;
    }
}

int tr_side_get(const struct tr_side_view *v, uint32_t index, struct tr_side_row *row)
{
    const struct tr_side_shape *shape = &shapes[v->section];
    uint64_t col[TR_SIDE_COLUMNS_MAX] = {0};

    memset(row, 0, sizeof *row);
    if (index >= v->count) {
        return TARRY_EDAMAGED;
    }
    for (unsigned c = 0; c < shape->columns; c++) {
        col[c] = get_column(v, index, c);
        if (col[c] < v->base[c] || (shape->bits[c] < 64 && col[c] >> shape->bits[c] != 0)) {
            return TARRY_EDAMAGED;
        }
    }
    if (!fits(v, col)) {
        return TARRY_EDAMAGED;
    }
    fill(v->section, col, row);
    return TARRY_OK;
}
