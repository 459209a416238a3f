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
 *     20  u32  0
 *     24  u64  batch
 *     32       rows, none of which crosses a page
 *
 * Kinds:
 *
 *     0 META     page 0, one row: uuid 16, u64 batch, u32 pages, u64 next rid,
 *                u32 next topic number, u64 jobs, u64 altered jobs
 *     1 TOPICS   TOPIC record, varint next dead_seq, varint floor (0)
 *     2 BITS     u64 number of a block of 8,192 rids, u16 n; then n times u16, the rids alive in
 *                the block; or n = 0xffff and 1,024 bytes of bits
 *     3 CHANGES  ALTER record (base rid 0, clock 0) of a job whose record is outdated
 *
 * A row that is a record has a crc of its own. Every page carries the batch, so pages of two
 * checkpoints can never be taken for one: a write cut short leaves some of each.
 *
 * A checkpoint is written in full. The format also allows to write only pages that changed.
 */

#include "engine/checkpoint.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/mutant.h"
#include "engine/record.h"

#include <assert.h>
#include <string.h>

enum {
    PAGE_MAGIC = 0x706b6374, /* "tckp" */
    HEAD = 32,
    META_LEN = TR_UUID + 8 + 4 + 8 + 4 + 8 + 8,
    BLOCK_RIDS = 8192,
    BLOCK_BYTES = BLOCK_RIDS / 8,
    DENSE = 0xffff,
    ROW_MAX = 8 + 2 + BLOCK_BYTES,
    CHANGE_MAX = 144, /* an ALTER with every field at its widest */
    TOPIC_ROW_MAX = 300,
};

enum kind { META, TOPICS, BITS, CHANGES, KINDS };

static_assert(HEAD + ROW_MAX <= TR_PAGE, "a row fits a page");
static_assert(TR_BITMAP_CHUNK % BLOCK_RIDS == 0, "a chunk of the bitmap is whole blocks");

void tr_pages_fini(struct tr_pages *p)
{
    if (p->mem != NULL) {
        tr_mem_free(p->mem, p->bytes, p->room);
    }
    *p = (struct tr_pages){0};
}

static uint8_t *page_at(struct tr_pages *p, size_t number)
{
    return p->bytes + number * TR_PAGE;
}

static int new_page(struct tr_pages *p, enum kind kind)
{
    uint8_t *page;

    if ((p->count + 1) * TR_PAGE > p->room) {
        size_t room = p->room == 0 ? (size_t)4 * TR_PAGE : p->room * 2;
        uint8_t *bytes = tr_mem_resize(p->mem, p->bytes, p->room, room);

        if (bytes == NULL) {
            return TARRY_ENOMEM;
        }
        p->bytes = bytes;
        p->room = room;
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

static int add_row(struct tr_pages *p, enum kind kind, const uint8_t *row, size_t len)
{
    uint8_t *page = page_at(p, p->count - 1);
    uint64_t used = tr_get_le(page + 12, 4);

    TR_CHECK(HEAD + len <= TR_PAGE);
    if (page[8] != kind || used + len > TR_PAGE) {
        if (new_page(p, kind) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
        page = page_at(p, p->count - 1);
        used = HEAD;
    }
    memcpy(page + used, row, len);
    tr_put_le(page + 10, tr_get_le(page + 10, 2) + 1, 2);
    tr_put_le(page + 12, used + len, 4);
    return TARRY_OK;
}

static int add_topics(struct tr_pages *p, const struct tr_state *s)
{
    uint8_t row[TR_RECORD_HEAD_MAX + 2 * TR_VARINT_MAX];
    struct tr_topic *t = NULL;

    while ((t = tr_topics_after(&s->topics, t != NULL ? t->number : 0)) != NULL) {
        struct tr_record rec = {.type = TR_REC_TOPIC,
                                .topic = t->number,
                                .name = {(const uint8_t *)t->name, t->name_len}};
        size_t len = tr_record_encode(row, &rec, (struct tr_base){0});

        if (!t->logged) { /* a later push will write its name; an empty one may need it still */
            continue;
        }
        len += tr_put_varint(row + len, t->next_dead_seq);
        len += tr_put_varint(row + len, 0);
        TR_CHECK(len <= TOPIC_ROW_MAX);
        if (add_row(p, TOPICS, row, len) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
    }
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

static int add_bits(struct tr_pages *p, const struct tr_state *s)
{
    uint8_t bits[TR_BITMAP_BYTES];
    uint8_t row[ROW_MAX];
    uint64_t number = 0;

    for (uint64_t from = 0; tr_bitmap_next_chunk(&s->jobs.alive, from, &number, bits);
         from = number + 1) {
        for (unsigned i = 0; i < TR_BITMAP_CHUNK / BLOCK_RIDS; i++) {
            size_t len = bits_row(row, number * (TR_BITMAP_CHUNK / BLOCK_RIDS) + i,
                                  bits + (size_t)i * BLOCK_BYTES);

            if (len != 0 && add_row(p, BITS, row, len) != TARRY_OK) {
                return TARRY_ENOMEM;
            }
        }
    }
    return TARRY_OK;
}

static int add_changes(struct tr_pages *p, const struct tr_state *s)
{
    uint8_t row[TR_RECORD_HEAD_MAX];
    const struct tr_list *head = &s->jobs.altered_jobs;

    for (const struct tr_list *n = head->next; n != head; n = n->next) {
        const struct tr_job *job = TR_CONTAINER_OF(n, struct tr_job, in_altered);
        struct tr_record rec;
        size_t len;

        tr_state_describe_changes(job, &rec);
        len = tr_record_encode(row, &rec, (struct tr_base){0});
        TR_CHECK(len <= CHANGE_MAX);
        if (add_row(p, CHANGES, row, len) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
    }
    return TARRY_OK;
}

static void finish_meta(struct tr_pages *p, const struct tr_state *s, const uint8_t uuid[TR_UUID])
{
    uint8_t *m = p->bytes + HEAD;

    memcpy(m, uuid, TR_UUID);
    tr_put_le(m + TR_UUID, p->batch, 8);
    tr_put_le(m + TR_UUID + 8, p->count, 4);
    tr_put_le(m + TR_UUID + 12, s->next_rid, 8);
    tr_put_le(m + TR_UUID + 20, s->topics.next_number, 4);
    tr_put_le(m + TR_UUID + 24, s->jobs.count, 8);
    tr_put_le(m + TR_UUID + 32, s->jobs.altered, 8);
    tr_put_le(p->bytes + 10, 1, 2);
    tr_put_le(p->bytes + 12, HEAD + META_LEN, 4);
    for (size_t i = 0; i < p->count; i++) {
        tr_put_le(page_at(p, i) + 4, tr_crc(0, page_at(p, i) + 8, TR_PAGE - 8), 4);
    }
}

int tr_checkpoint_freeze(struct tr_pages *p, const struct tr_state *s, const uint8_t uuid[TR_UUID],
                         uint64_t batch)
{
    *p = (struct tr_pages){.mem = s->jobs.mem, .batch = batch};
    if (new_page(p, META) != TARRY_OK || add_topics(p, s) != TARRY_OK ||
        add_bits(p, s) != TARRY_OK || add_changes(p, s) != TARRY_OK) {
        tr_pages_fini(p);
        return TARRY_ENOMEM;
    }
    finish_meta(p, s, uuid);
    return TARRY_OK;
}

/* A page is full but for less than the longest row of its kind. */
uint64_t tr_checkpoint_bound(uint64_t jobs, uint64_t topics)
{
    uint64_t bits = jobs * (10 + 2); /* the worst: each job alone in its block */

    return TR_PAGE *
           (KINDS + bits / (TR_PAGE - HEAD - ROW_MAX) + jobs / ((TR_PAGE - HEAD) / CHANGE_MAX) +
            topics / ((TR_PAGE - HEAD) / TOPIC_ROW_MAX));
}

uint64_t tr_checkpoint_pages(const uint8_t *page, const uint8_t uuid[TR_UUID], uint64_t batch)
{
    size_t bad = 0;

    if (tr_checkpoint_check(page, 1, batch, &bad) != TARRY_OK || page[8] != META ||
        memcmp(page + HEAD, uuid, TR_UUID) != 0) {
        return 0;
    }
    return tr_get_le(page + HEAD + TR_UUID + 8, 4);
}

int tr_checkpoint_check(const uint8_t *bytes, size_t pages, uint64_t batch, size_t *bad)
{
    for (size_t i = 0; i < pages; i++) {
        const uint8_t *page = bytes + i * TR_PAGE;
        uint64_t used = tr_get_le(page + 12, 4);

        *bad = i;
        if (tr_get_le(page, 4) != PAGE_MAGIC || tr_get_le(page + 16, 4) != i ||
            tr_get_le(page + 24, 8) != batch || used < HEAD || used > TR_PAGE ||
            tr_get_le(page + 4, 4) != tr_crc(0, page + 8, TR_PAGE - 8)) {
            return TARRY_EDAMAGED;
        }
        if (page[9] == 0) {
            return TARRY_EDAMAGED;
        }
        if (page[9] != TR_FORMAT_VERSION || page[8] >= KINDS) {
            return TARRY_EVERSION;
        }
    }
    return TARRY_OK;
}

static int load_topic(struct tr_reader *r, struct tr_state *s)
{
    struct tr_record rec;
    struct tr_job *none;
    size_t used = 0;
    uint64_t seq;
    int err = tr_record_decode(r->at, tr_reader_left(r), (struct tr_base){0}, &rec, &used);

    if (err != TARRY_OK || rec.type != TR_REC_TOPIC) {
        return err != TARRY_OK ? err : TARRY_EDAMAGED;
    }
    (void)tr_read_bytes(r, used);
    seq = tr_read_varint(r);
    (void)tr_read_varint(r);
    err = r->bad ? TARRY_EDAMAGED : tr_state_apply(s, &rec, 0, &none);
    if (err == TARRY_OK) {
        tr_topics_by_number(&s->topics, rec.topic)->next_dead_seq = seq;
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
    struct tr_job *job;
    size_t used = 0;
    int err = tr_record_decode(r->at, tr_reader_left(r), (struct tr_base){0}, &rec, &used);

    if (err != TARRY_OK || rec.type != TR_REC_ALTER) {
        return err != TARRY_OK ? err : TARRY_EDAMAGED;
    }
    (void)tr_read_bytes(r, used);
    return tr_state_apply(s, &rec, 0, &job);
}

static int load_kind(const uint8_t *bytes, size_t pages, enum kind kind, struct tr_state *s)
{
    for (size_t i = 0; i < pages; i++) {
        const uint8_t *page = bytes + i * TR_PAGE;
        struct tr_reader r = tr_reader_of(page + HEAD, tr_get_le(page + 12, 4) - HEAD);
        int err = TARRY_OK;

        for (uint64_t rows = page[8] == kind ? tr_get_le(page + 10, 2) : 0;
             rows > 0 && err == TARRY_OK; rows--) {
            err = kind == TOPICS ? load_topic(&r, s)
                  : kind == BITS ? load_bits(&r, s)
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
    int err = load_kind(bytes, pages, TOPICS, s);

    if (err == TARRY_OK) {
        err = load_kind(bytes, pages, BITS, s);
    }
    if (err != TARRY_OK) {
        return err;
    }
    s->next_rid = tr_get_le(m + TR_UUID + 12, 8);
    s->topics.next_number = (uint32_t)tr_get_le(m + TR_UUID + 20, 4);
    if (s->jobs.alive.members != tr_get_le(m + TR_UUID + 24, 8)) {
        return TARRY_EDAMAGED;
    }
    return TARRY_OK;
}

int tr_checkpoint_load_changes(const uint8_t *bytes, size_t pages, struct tr_state *s)
{
    return load_kind(bytes, pages, CHANGES, s);
}
