/*
 * Run files. Numbers are little-endian.
 *
 *     | block | block | block ... | footer | trailer |
 *     0                           stat.bytes         file length, a multiple of 4,096
 *
 * Block, at a multiple of 4,096; zeros follow the records up to the next multiple:
 *
 *      0  u32  magic "TRrb"
 *      4  u32  crc32c of bytes 8 to the end of the records, seeded
 *      8  u16  version
 *     10  u16  length of this head: 48
 *     12  u32  number of records, at least 1
 *     16  u32  length of the records
 *     20  u32  flags: 0
 *     24  u64  base rid: that of the first record
 *     32  u64  base clock: due of the first record
 *     40  u64  group
 *     48       RELOG records as in record.c
 *
 * A block takes at most 65,536 bytes, unless it has one record only. Its base is its first record's
 * rid and due, and the footer has both: so one record can be read by itself.
 *
 * Footer:
 *
 *      0  u32  magic "TRrf"
 *      4  u16  version
 *      6  u16  length of this head: 104
 *      8  u32  features that a reader must know: 0
 *     12  u32  flags: 1 the jobs are dead, by (topic, dead_seq); else by (due, rid)
 *     16  16   uuid of the store
 *     32  u64  group
 *     40  u32  piece
 *     44  u32  number of blocks
 *     48  u32  number of topics
 *     52  u32  0
 *     56  u64  jobs
 *     64  u64  bytes of the blocks
 *     72  u64  least due, largest due
 *     88  u64  least rid, largest rid
 *    104       blocks, 32 bytes each: u32 offset / 4,096, u32 length / 4,096, u64 first due,
 *              u64 first rid, u32 jobs, u32 topic (0: several)
 *              topics, 8 bytes each, by number: u32 topic, u32 jobs
 *              zeros, so that the trailer ends at a multiple of 4,096
 *
 * Trailer, the last 64 bytes of the file:
 *
 *      0  u32  magic "TRrt"
 *      4  u32  crc32c of bytes 8 to 63, seeded
 *      8  u16  version
 *     10  u16  length: 64
 *     12  u32  crc32c of the footer, zeros included, seeded
 *     16  u64  where the footer begins
 *     24  u32  its length, zeros included
 *     28  u32  piece
 *     32  u64  group
 *     40  16   uuid
 *     56  u64  length of the file
 *
 * Seeded: the crc goes on from that of 37 bytes that are not there: uuid, u64 group, u32 piece,
 * a letter (b, f or t), u64 offset of the block, footer or trailer. So neither a body, nor a block
 * of another run, nor one at the wrong place can pass.
 *
 * Crash rules: a run counts only when a durable manifest names it, and it is synced before that
 * (R10). So a bad crc in it is damage, never an end. The crc of each record also covers its rid
 * (R29), so what tr_run_get gives is the job that was asked for or an error.
 *
 * Cost: writing, one copy and two crcs of each byte; 32 bytes of memory a block while it is written
 * and while it is in use.
 */

#include "engine/run.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"

#include <assert.h>
#include <string.h>

#define BLOCK_MAGIC UINT32_C(0x62725254)   /* "TRrb" */
#define FOOTER_MAGIC UINT32_C(0x66725254)  /* "TRrf" */
#define TRAILER_MAGIC UINT32_C(0x74725254) /* "TRrt" */

enum {
    CRC_AT = 4,
    CRC_FROM = 8,
    FOOTER_HEAD = 104,
    BLOCK_ROW = 32,
    TOPIC_ROW = 8,
    FLAG_DEAD = 1,
    SEED_BYTES = TR_UUID + 8 + 4 + 1 + 8,
};

static_assert(TR_RUN_BLOCK_HEAD == 2 * 4 + 2 * 2 + 3 * 4 + 3 * 8, "the format above");
static_assert(FOOTER_HEAD == 4 + 2 * 2 + 2 * 4 + TR_UUID + 8 + 4 * 4 + 6 * 8, "the format above");
static_assert(TR_RUN_TRAILER == 2 * 4 + 2 * 2 + 4 + 8 + 2 * 4 + 8 + TR_UUID + 8,
              "the format above");
static_assert(TR_RUN_BYTES_MAX + TR_RUN_BLOCK <= TR_PLACE_OFF_MAX, "a place fits");
static_assert(TR_RECORD_HEAD_MAX + TR_BODY_MAX <= TR_PLACE_LEN_MAX, "a record fits");

static uint32_t seed(const struct tr_run_of *of, char what, uint64_t off)
{
    uint8_t p[SEED_BYTES];

    memcpy(p, of->uuid, TR_UUID);
    tr_put_le(p + TR_UUID, of->group, 8);
    tr_put_le(p + TR_UUID + 8, of->piece, 4);
    p[TR_UUID + 12] = (uint8_t)what;
    tr_put_le(p + TR_UUID + 13, off, 8);
    return tr_crc(0, p, sizeof p);
}

static uint64_t whole(uint64_t bytes)
{
    return (bytes + TR_BLOCK - 1) / TR_BLOCK * TR_BLOCK;
}

static int check_version(uint64_t version)
{
    if (version == 0) {
        return TARRY_EDAMAGED;
    }
    return version <= TR_FORMAT_VERSION ? TARRY_OK : TARRY_EVERSION;
}

/* ---- writing ---- */

void tr_run_init(struct tr_run_writer *w, struct tr_mem *mem, const struct tr_run_of *of, bool dead)
{
    TR_CHECK(of->piece <= TR_PLACE_PIECE_MAX);
    *w = (struct tr_run_writer){.mem = mem, .of = *of, .dead = dead};
    tr_map_init(&w->topic_at, mem);
}

void tr_run_fini(struct tr_run_writer *w)
{
    if (w->mem == NULL) {
        return;
    }
    tr_mem_free(w->mem, w->blocks, w->block_room * sizeof *w->blocks);
    tr_mem_free(w->mem, w->topics, w->topic_room * sizeof *w->topics);
    tr_mem_free(w->mem, w->footer, w->footer_len);
    tr_map_fini(&w->topic_at);
    *w = (struct tr_run_writer){0};
}

void tr_run_buffer(struct tr_run_writer *w, uint8_t *buf, size_t room)
{
    TR_CHECK(room >= TR_RUN_BLOCK);
    if (w->used > 0) {
        memmove(buf, w->buf + w->ready, w->used);
    }
    w->buf = buf;
    w->room = room;
    w->ready = 0;
}

size_t tr_run_ready(const struct tr_run_writer *w)
{
    return w->ready;
}

size_t tr_run_room(const struct tr_record *rec)
{
    uint64_t need = whole(TR_RUN_BLOCK_HEAD + TR_RECORD_HEAD_MAX + rec->body.len);

    return need < TR_RUN_BLOCK ? TR_RUN_BLOCK : (size_t)need;
}

bool tr_run_full(const struct tr_run_writer *w)
{
    return w->stat.bytes >= TR_RUN_BYTES_MAX;
}

/* A row for one more block, so that closing one cannot fail. */
static int reserve_block(struct tr_run_writer *w)
{
    uint32_t room = w->block_room == 0 ? 64 : w->block_room * 2;
    struct tr_run_block_stat *blocks;

    if (w->block_count < w->block_room) {
        return TARRY_OK;
    }
    blocks =
        tr_mem_stretch(w->mem, w->blocks, w->block_room * sizeof *blocks, room * sizeof *blocks);
    if (blocks == NULL) {
        return TARRY_ENOMEM;
    }
    w->blocks = blocks;
    w->block_room = room;
    return TARRY_OK;
}

static int reserve_topic(struct tr_run_writer *w)
{
    uint32_t room = w->topic_room == 0 ? 16 : w->topic_room * 2;
    struct tr_run_topic *topics;

    if (w->topic_count < w->topic_room) {
        return TARRY_OK;
    }
    topics =
        tr_mem_stretch(w->mem, w->topics, w->topic_room * sizeof *topics, room * sizeof *topics);
    if (topics == NULL) {
        return TARRY_ENOMEM;
    }
    w->topics = topics;
    w->topic_room = room;
    return TARRY_OK;
}

/* The row of a topic; a new one has no jobs yet. NULL: no memory. */
static struct tr_run_topic *topic_row(struct tr_run_writer *w, uint32_t topic)
{
    uintptr_t at = (uintptr_t)tr_map_find(&w->topic_at, topic);

    if (at == 0) {
        at = (uintptr_t)w->topic_count + 1;
        if (reserve_topic(w) != TARRY_OK ||
            tr_map_put(&w->topic_at, topic, (void *)at) != TARRY_OK) {
            return NULL;
        }
        w->topics[w->topic_count++] = (struct tr_run_topic){.topic = topic};
    }
    return &w->topics[at - 1];
}

/* Gives the open block its head and its padding. */
static void close_block(struct tr_run_writer *w)
{
    uint8_t *p = w->buf + w->ready;
    size_t len = (size_t)whole(w->used);

    TR_CHECK(w->block_count < w->block_room);
    TR_CHECK(w->ready + len <= w->room);
    memset(p + w->used, 0, len - w->used);
    tr_put_le(p, BLOCK_MAGIC, 4);
    tr_put_le(p + 8, TR_FORMAT_VERSION, 2);
    tr_put_le(p + 10, TR_RUN_BLOCK_HEAD, 2);
    tr_put_le(p + 12, w->open.jobs, 4);
    tr_put_le(p + 16, w->used - TR_RUN_BLOCK_HEAD, 4);
    tr_put_le(p + 20, 0, 4);
    tr_put_le(p + 24, w->open.first_rid, 8);
    tr_put_le(p + 32, w->open.first_due, 8);
    tr_put_le(p + 40, w->of.group, 8);
    tr_put_le(p + CRC_AT, tr_crc(seed(&w->of, 'b', w->open.off), p + CRC_FROM, w->used - CRC_FROM),
              4);
    w->open.len = (uint32_t)len;
    w->blocks[w->block_count++] = w->open;
    w->stat.bytes += len;
    w->ready += len;
    w->used = 0;
}

static struct tr_base base_of(const struct tr_run_block_stat *stat)
{
    return (struct tr_base){.rid = stat->first_rid, .clock_us = stat->first_due};
}

/* Opens a block for rec if none is open or it does not fit the open one; head gets the record's
 * bytes before the body, *len their number. TARRY_EFULL: no room for it. */
static int make_room(struct tr_run_writer *w, const struct tr_record *rec,
                     uint8_t head[TR_RECORD_HEAD_MAX], size_t *len)
{
    if (w->used > 0 && w->used + rec->body.len <= TR_RUN_BLOCK) {
        *len = tr_record_encode(head, rec, base_of(&w->open));
        if (w->used + *len + rec->body.len <= TR_RUN_BLOCK) {
            uint64_t need = w->ready + whole(w->used + *len + rec->body.len);

            return need <= w->room ? TARRY_OK : TARRY_EFULL;
        }
    }
    if (w->used > 0) {
        close_block(w);
    }
    if (tr_run_full(w) || w->ready + tr_run_room(rec) > w->room) {
        return TARRY_EFULL;
    }
    if (reserve_block(w) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    w->open = (struct tr_run_block_stat){
        .off = w->stat.bytes, .first_due = rec->due_us, .first_rid = rec->rid, .topic = rec->topic};
    w->used = TR_RUN_BLOCK_HEAD;
    *len = tr_record_encode(head, rec, base_of(&w->open));
    return TARRY_OK;
}

static void order_of(const struct tr_run_writer *w, const struct tr_record *rec, uint64_t order[2])
{
    order[0] = w->dead ? rec->topic : rec->due_us;
    order[1] = w->dead ? rec->dead.seq : rec->rid;
}

static bool in_order(const struct tr_run_writer *w, const struct tr_record *rec)
{
    uint64_t order[2];

    order_of(w, rec, order);
    return w->stat.jobs == 0 || order[0] > w->last[0] ||
           (order[0] == w->last[0] && order[1] > w->last[1]);
}

static void check_record(const struct tr_run_writer *w, const struct tr_record *rec)
{
    TR_CHECK(rec->type == TR_REC_RELOG);
    TR_CHECK((rec->mask & TR_FIELD(DUE)) != 0);
    TR_CHECK((rec->mask & TR_FIELD(TOPIC)) != 0);
    TR_CHECK(rec->topic != 0);
    TR_CHECK(w->dead == (rec->dead.seq != 0));
    TR_CHECK(in_order(w, rec));
}

static void count(struct tr_run_stat *stat, const struct tr_record *rec)
{
    bool first = stat->jobs++ == 0;

    stat->due_first = first || rec->due_us < stat->due_first ? rec->due_us : stat->due_first;
    stat->due_last = first || rec->due_us > stat->due_last ? rec->due_us : stat->due_last;
    stat->rid_first = first || rec->rid < stat->rid_first ? rec->rid : stat->rid_first;
    stat->rid_last = first || rec->rid > stat->rid_last ? rec->rid : stat->rid_last;
}

int tr_run_add(struct tr_run_writer *w, const struct tr_record *rec, uint64_t *place)
{
    uint8_t head[TR_RECORD_HEAD_MAX];
    struct tr_run_topic *topic;
    size_t len = 0;
    uint8_t *at;
    int err;

    TR_CHECK(w->footer == NULL);
    check_record(w, rec);
    topic = topic_row(w, rec->topic);
    err = topic != NULL ? make_room(w, rec, head, &len) : TARRY_ENOMEM;
    if (err != TARRY_OK) {
        return err;
    }
    *place = tr_place_of(w->of.piece, w->open.off + w->used, len + rec->body.len);
    at = w->buf + w->ready + w->used;
    memcpy(at, head, len);
    if (rec->body.len > 0) {
        memcpy(at + len, rec->body.at, rec->body.len);
    }
    w->used += len + rec->body.len;
    w->open.jobs++;
    if (w->open.topic != rec->topic) {
        w->open.topic = 0;
    }
    topic->jobs++;
    order_of(w, rec, w->last);
    count(&w->stat, rec);
    return TARRY_OK;
}

/* Moves the topic at `at` down the heap of n topics, in which the largest number is on top. */
static void sift(struct tr_run_topic *t, size_t at, size_t n)
{
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        struct tr_run_topic kept = t[at];

        child += child + 1 < n && t[child + 1].topic > t[child].topic ? 1 : 0;
        if (t[child].topic <= kept.topic) {
            return;
        }
        t[at] = t[child];
        t[child] = kept;
        at = child;
    }
}

static void sort_topics(struct tr_run_topic *t, size_t n)
{
    for (size_t i = n / 2; i > 0; i--) {
        sift(t, i - 1, n);
    }
    for (size_t i = n; i > 1; i--) {
        struct tr_run_topic top = t[0];

        t[0] = t[i - 1];
        t[i - 1] = top;
        sift(t, 0, i - 1);
    }
}

static void put(uint8_t **at, uint64_t v, unsigned size)
{
    tr_put_le(*at, v, size);
    *at += size;
}

static uint8_t *put_footer_head(uint8_t *at, const struct tr_run_writer *w, uint32_t topics)
{
    const uint8_t *from = at;

    put(&at, FOOTER_MAGIC, 4);
    put(&at, TR_FORMAT_VERSION, 2);
    put(&at, FOOTER_HEAD, 2);
    put(&at, 0, 4);
    put(&at, w->dead ? FLAG_DEAD : 0, 4);
    memcpy(at, w->of.uuid, TR_UUID);
    at += TR_UUID;
    put(&at, w->of.group, 8);
    put(&at, w->of.piece, 4);
    put(&at, w->block_count, 4);
    put(&at, topics, 4);
    put(&at, 0, 4);
    put(&at, w->stat.jobs, 8);
    put(&at, w->stat.bytes, 8);
    put(&at, w->stat.due_first, 8);
    put(&at, w->stat.due_last, 8);
    put(&at, w->stat.rid_first, 8);
    put(&at, w->stat.rid_last, 8);
    TR_CHECK(at == from + FOOTER_HEAD);
    return at;
}

static void put_trailer(uint8_t *at, const struct tr_run_writer *w, const uint8_t *footer)
{
    uint8_t *from = at;
    uint64_t off = w->stat.bytes;
    size_t len = (size_t)(at - footer);

    at += CRC_FROM;
    put(&at, TR_FORMAT_VERSION, 2);
    put(&at, TR_RUN_TRAILER, 2);
    put(&at, tr_crc(seed(&w->of, 'f', off), footer, len), 4);
    put(&at, off, 8);
    put(&at, len, 4);
    put(&at, w->of.piece, 4);
    put(&at, w->of.group, 8);
    memcpy(at, w->of.uuid, TR_UUID);
    at += TR_UUID;
    put(&at, off + len + TR_RUN_TRAILER, 8);
    TR_CHECK(at == from + TR_RUN_TRAILER);
    tr_put_le(from, TRAILER_MAGIC, 4);
    tr_put_le(from + CRC_AT,
              tr_crc(seed(&w->of, 't', off + len), from + CRC_FROM, TR_RUN_TRAILER - CRC_FROM), 4);
}

int tr_run_end(struct tr_run_writer *w)
{
    uint32_t topics = 0;
    uint64_t len;
    uint8_t *at;

    TR_CHECK(w->stat.jobs > 0);
    TR_CHECK(w->footer == NULL);
    if (w->used > 0) {
        close_block(w);
    }
    len = whole(FOOTER_HEAD + (uint64_t)w->block_count * BLOCK_ROW +
                (uint64_t)w->topic_count * TOPIC_ROW + TR_RUN_TRAILER);
    at = tr_mem_alloc(w->mem, (size_t)len);
    if (at == NULL) {
        return TARRY_ENOMEM;
    }
    w->footer = at;
    w->footer_len = (size_t)len;
    sort_topics(w->topics, w->topic_count);
    for (uint32_t i = 0; i < w->topic_count; i++) { /* one whose only job did not fit has none */
        topics += w->topics[i].jobs > 0 ? 1 : 0;
    }
    at = put_footer_head(at, w, topics);
    for (uint32_t i = 0; i < w->block_count; i++) {
        put(&at, w->blocks[i].off / TR_BLOCK, 4);
        put(&at, w->blocks[i].len / TR_BLOCK, 4);
        put(&at, w->blocks[i].first_due, 8);
        put(&at, w->blocks[i].first_rid, 8);
        put(&at, w->blocks[i].jobs, 4);
        put(&at, w->blocks[i].topic, 4);
    }
    for (uint32_t i = 0; i < w->topic_count; i++) {
        if (w->topics[i].jobs > 0) {
            put(&at, w->topics[i].topic, 4);
            put(&at, w->topics[i].jobs, 4);
        }
    }
    put_trailer(w->footer + len - TR_RUN_TRAILER, w, w->footer);
    return TARRY_OK;
}

/* ---- reading ---- */

int tr_run_trailer(const uint8_t in[TR_RUN_TRAILER], const struct tr_run_of *of, uint64_t file_len,
                   struct tr_run_trailer *t)
{
    struct tr_reader r = tr_reader_of(in, TR_RUN_TRAILER);
    uint64_t magic = tr_read_le(&r, 4);
    uint64_t crc = tr_read_le(&r, 4);
    int err = check_version(tr_read_le(&r, 2));
    uint64_t len = tr_read_le(&r, 2);

    memset(t, 0, sizeof *t);
    if (magic != TRAILER_MAGIC || file_len < TR_RUN_TRAILER ||
        crc != tr_crc(seed(of, 't', file_len - TR_RUN_TRAILER), in + CRC_FROM,
                      TR_RUN_TRAILER - CRC_FROM)) {
        return TARRY_EDAMAGED;
    }
    if (err != TARRY_OK) {
        return err;
    }
    t->footer_crc = (uint32_t)tr_read_le(&r, 4);
    t->footer_off = tr_read_le(&r, 8);
    t->footer_len = (uint32_t)tr_read_le(&r, 4);
    if (len != TR_RUN_TRAILER || tr_read_le(&r, 4) != of->piece || tr_read_le(&r, 8) != of->group ||
        memcmp(tr_read_bytes(&r, TR_UUID), of->uuid, TR_UUID) != 0 ||
        tr_read_le(&r, 8) != file_len || t->footer_off > file_len ||
        file_len - t->footer_off != (uint64_t)t->footer_len + TR_RUN_TRAILER) {
        return TARRY_EDAMAGED;
    }
    return TARRY_OK;
}

struct tr_run_block_stat tr_run_footer_block(const struct tr_run_footer *f, uint32_t i)
{
    const uint8_t *row = f->blocks + (size_t)i * BLOCK_ROW;

    TR_CHECK(i < f->block_count);
    return (struct tr_run_block_stat){
        .off = tr_get_le(row, 4) * TR_BLOCK,
        .len = (uint32_t)(tr_get_le(row + 4, 4) * TR_BLOCK),
        .first_due = tr_get_le(row + 8, 8),
        .first_rid = tr_get_le(row + 16, 8),
        .jobs = (uint32_t)tr_get_le(row + 24, 4),
        .topic = (uint32_t)tr_get_le(row + 28, 4),
    };
}

struct tr_run_topic tr_run_footer_topic_at(const struct tr_run_footer *f, uint32_t i)
{
    const uint8_t *row = f->topics + (size_t)i * TOPIC_ROW;

    TR_CHECK(i < f->topic_count);
    return (struct tr_run_topic){.topic = (uint32_t)tr_get_le(row, 4),
                                 .jobs = (uint32_t)tr_get_le(row + 4, 4)};
}

/* Blocks follow each other without gaps, and each begins where the order allows. */
static bool blocks_ok(const struct tr_run_footer *f)
{
    uint64_t end = 0;
    uint64_t jobs = 0;
    uint64_t due = 0;

    for (uint32_t i = 0; i < f->block_count; i++) {
        struct tr_run_block_stat b = tr_run_footer_block(f, i);

        if (b.off != end || b.off >= TR_RUN_BYTES_MAX || b.len == 0 ||
            b.len > whole(TR_RUN_BLOCK_HEAD + TR_PLACE_LEN_MAX) || b.jobs == 0 ||
            (b.len > TR_RUN_BLOCK && b.jobs > 1) || b.first_due < f->stat.due_first ||
            b.first_due > f->stat.due_last || b.first_rid < f->stat.rid_first ||
            b.first_rid > f->stat.rid_last || (!f->dead && b.first_due < due)) {
            return false;
        }
        due = b.first_due;
        end += b.len;
        jobs += b.jobs;
    }
    return end == f->stat.bytes && jobs == f->stat.jobs;
}

static bool topics_ok(const struct tr_run_footer *f)
{
    uint64_t jobs = 0;
    uint32_t last = 0;

    for (uint32_t i = 0; i < f->topic_count; i++) {
        struct tr_run_topic t = tr_run_footer_topic_at(f, i);

        if (t.topic <= last || t.jobs == 0) {
            return false;
        }
        last = t.topic;
        jobs += t.jobs;
    }
    return jobs == f->stat.jobs;
}

/* Behind the version and the length: all numbers of the head. */
static int get_footer_head(struct tr_reader *r, const struct tr_run_of *of, struct tr_run_footer *f)
{
    uint64_t features = tr_read_le(r, 4);
    uint64_t flags = tr_read_le(r, 4);
    const uint8_t *uuid = tr_read_bytes(r, TR_UUID);
    uint64_t group = tr_read_le(r, 8);
    uint64_t piece = tr_read_le(r, 4);

    if (features != 0 || (flags & ~(uint64_t)FLAG_DEAD) != 0) {
        return TARRY_EVERSION;
    }
    f->of = *of;
    f->dead = (flags & FLAG_DEAD) != 0;
    f->block_count = (uint32_t)tr_read_le(r, 4);
    f->topic_count = (uint32_t)tr_read_le(r, 4);
    (void)tr_read_le(r, 4);
    f->stat.jobs = tr_read_le(r, 8);
    f->stat.bytes = tr_read_le(r, 8);
    f->stat.due_first = tr_read_le(r, 8);
    f->stat.due_last = tr_read_le(r, 8);
    f->stat.rid_first = tr_read_le(r, 8);
    f->stat.rid_last = tr_read_le(r, 8);
    f->blocks = tr_read_bytes(r, (uint64_t)f->block_count * BLOCK_ROW);
    f->topics = tr_read_bytes(r, (uint64_t)f->topic_count * TOPIC_ROW);
    if (r->bad || memcmp(uuid, of->uuid, TR_UUID) != 0 || group != of->group ||
        piece != of->piece || f->stat.jobs == 0) {
        return TARRY_EDAMAGED;
    }
    return TARRY_OK;
}

int tr_run_footer(const uint8_t *in, const struct tr_run_of *of, const struct tr_run_trailer *t,
                  struct tr_run_footer *f)
{
    struct tr_reader r = tr_reader_of(in, t->footer_len);
    uint64_t magic = tr_read_le(&r, 4);
    int err = check_version(tr_read_le(&r, 2));
    uint64_t len = tr_read_le(&r, 2);

    TR_CHECK(of->piece <= TR_PLACE_PIECE_MAX);
    memset(f, 0, sizeof *f);
    if (r.bad || magic != FOOTER_MAGIC ||
        tr_crc(seed(of, 'f', t->footer_off), in, t->footer_len) != t->footer_crc) {
        return TARRY_EDAMAGED;
    }
    if (err == TARRY_OK) {
        err = len == FOOTER_HEAD ? get_footer_head(&r, of, f) : TARRY_EDAMAGED;
    }
    if (err == TARRY_OK && (f->stat.bytes != t->footer_off || !blocks_ok(f) || !topics_ok(f))) {
        err = TARRY_EDAMAGED;
    }
    if (err != TARRY_OK) {
        memset(f, 0, sizeof *f);
    }
    return err;
}

uint32_t tr_run_footer_due(const struct tr_run_footer *f, uint64_t due_us)
{
    uint32_t low = 0; /* all blocks before it begin before due_us */
    uint32_t high = f->block_count;

    TR_CHECK(!f->dead);
    if (due_us > f->stat.due_last) {
        return f->block_count;
    }
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (tr_get_le(f->blocks + (size_t)mid * BLOCK_ROW + 8, 8) < due_us) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low > 0 ? low - 1 : 0;
}

uint32_t tr_run_footer_off(const struct tr_run_footer *f, uint64_t off)
{
    uint32_t low = 0; /* all blocks before it begin at off or before */
    uint32_t high = f->block_count;

    if (off >= f->stat.bytes) {
        return f->block_count;
    }
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (tr_get_le(f->blocks + (size_t)mid * BLOCK_ROW, 4) * TR_BLOCK <= off) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low - 1; /* the first begins at 0 */
}

uint32_t tr_run_footer_topic(const struct tr_run_footer *f, uint32_t topic)
{
    uint32_t low = 0;
    uint32_t high = f->topic_count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        struct tr_run_topic t = tr_run_footer_topic_at(f, mid);

        if (t.topic == topic) {
            return t.jobs;
        }
        if (t.topic < topic) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return 0;
}

int tr_run_block_alone(const struct tr_run_of *of, uint64_t off, const uint8_t *in, size_t len,
                       struct tr_run_block *block)
{
    struct tr_reader r = tr_reader_of(in, len);
    uint64_t magic = tr_read_le(&r, 4);
    uint64_t crc = tr_read_le(&r, 4);
    uint64_t version = tr_read_le(&r, 2);
    uint64_t head = tr_read_le(&r, 2);
    uint64_t flags;

    TR_CHECK(of->piece <= TR_PLACE_PIECE_MAX);
    memset(block, 0, sizeof *block);
    block->off = off;
    block->piece = of->piece;
    block->jobs = (uint32_t)tr_read_le(&r, 4);
    block->len = (uint32_t)tr_read_le(&r, 4);
    flags = tr_read_le(&r, 4);
    block->base.rid = tr_read_le(&r, 8);
    block->base.clock_us = tr_read_le(&r, 8);
    if (tr_read_le(&r, 8) != of->group) {
        return TARRY_EDAMAGED;
    }
    block->payload = tr_read_bytes(&r, block->len);
    if (r.bad || magic != BLOCK_MAGIC || off >= TR_RUN_BYTES_MAX ||
        crc != tr_crc(seed(of, 'b', off), in + CRC_FROM,
                      TR_RUN_BLOCK_HEAD + (size_t)block->len - CRC_FROM)) {
        return TARRY_EDAMAGED;
    }
    if (check_version(version) != TARRY_OK) {
        return check_version(version);
    }
    if (head != TR_RUN_BLOCK_HEAD || block->jobs == 0 || block->len > TR_PLACE_LEN_MAX ||
        (TR_RUN_BLOCK_HEAD + block->len > TR_RUN_BLOCK && block->jobs > 1)) {
        return TARRY_EDAMAGED;
    }
    return flags == 0 ? TARRY_OK : TARRY_EVERSION;
}

int tr_run_block(const struct tr_run_footer *f, uint32_t i, const uint8_t *in,
                 struct tr_run_block *block)
{
    struct tr_run_block_stat stat = tr_run_footer_block(f, i);
    int err = tr_run_block_alone(&f->of, stat.off, in, stat.len, block);

    if (err == TARRY_OK &&
        (block->base.rid != stat.first_rid || block->base.clock_us != stat.first_due ||
         block->jobs != stat.jobs || whole(TR_RUN_BLOCK_HEAD + block->len) != stat.len)) {
        return TARRY_EDAMAGED;
    }
    return err;
}

/* Decodes a record that must be a whole job. */
static int get_job(const uint8_t *in, size_t len, struct tr_base base, struct tr_record *rec,
                   size_t *used)
{
    int err = tr_record_decode(in, len, base, rec, used);

    if (err == TARRY_OK &&
        (rec->type != TR_REC_RELOG || (rec->mask & TR_FIELD(DUE)) == 0 || rec->topic == 0)) {
        return TARRY_EDAMAGED;
    }
    return err;
}

int tr_run_next(struct tr_run_block *block, struct tr_record *rec, uint64_t *place)
{
    size_t used = 0;
    int err;

    if (block->next == block->jobs) {
        return block->next_at == block->len ? TARRY_ENOTFOUND : TARRY_EDAMAGED;
    }
    err = get_job(block->payload + block->next_at, block->len - block->next_at, block->base, rec,
                  &used);
    if (err == TARRY_OK && block->next == 0 &&
        (rec->rid != block->base.rid || rec->due_us != block->base.clock_us)) {
        err = TARRY_EDAMAGED;
    }
    if (err != TARRY_OK) {
        return err;
    }
    *place = tr_place_of(block->piece, block->off + TR_RUN_BLOCK_HEAD + block->next_at, used);
    block->next++;
    block->next_at += (uint32_t)used;
    return TARRY_OK;
}

uint32_t tr_run_block_len(const uint8_t in[TR_RUN_BLOCK_HEAD])
{
    uint64_t len = tr_get_le(in + 16, 4);

    return tr_get_le(in, 4) == BLOCK_MAGIC && len <= TR_PLACE_LEN_MAX
               ? (uint32_t)whole(TR_RUN_BLOCK_HEAD + len)
               : 0;
}

int tr_run_adopt(struct tr_run_writer *w, struct tr_run_block *block, uint32_t len)
{
    struct tr_run_block_stat stat = {.off = w->stat.bytes,
                                     .len = len,
                                     .first_due = block->base.clock_us,
                                     .first_rid = block->base.rid};
    struct tr_record rec;
    uint64_t place;
    int err = reserve_block(w);

    TR_CHECK(w->footer == NULL);
    TR_CHECK(w->used == 0);
    while (err == TARRY_OK && (err = tr_run_next(block, &rec, &place)) == TARRY_OK) {
        struct tr_run_topic *topic = topic_row(w, rec.topic);

        if (topic == NULL) {
            return TARRY_ENOMEM;
        }
        if (w->dead != (rec.dead.seq != 0) || !in_order(w, &rec)) {
            return TARRY_EDAMAGED;
        }
        stat.topic = stat.jobs == 0 || stat.topic == rec.topic ? rec.topic : 0;
        stat.jobs++;
        topic->jobs++;
        order_of(w, &rec, w->last);
        count(&w->stat, &rec);
    }
    if (err == TARRY_ENOTFOUND) {
        w->blocks[w->block_count++] = stat;
        w->stat.bytes += len;
        return TARRY_OK;
    }
    return err;
}

int tr_run_get(const struct tr_run_footer *f, uint64_t place, uint64_t rid, const uint8_t *in,
               struct tr_record *rec)
{
    uint64_t off = tr_place_off(place);
    uint32_t i = tr_run_footer_off(f, off);
    struct tr_run_block_stat stat;
    size_t used = 0;
    int err;

    if (i == f->block_count || tr_place_piece(place) != f->of.piece) {
        return TARRY_EDAMAGED;
    }
    stat = tr_run_footer_block(f, i);
    if (off < stat.off + TR_RUN_BLOCK_HEAD || off + tr_place_len(place) > stat.off + stat.len) {
        return TARRY_EDAMAGED;
    }
    err = get_job(in, tr_place_len(place), base_of(&stat), rec, &used);
    if (err == TARRY_OK && (used != tr_place_len(place) || rec->rid != rid)) {
        return TARRY_EDAMAGED;
    }
    return err;
}
