/*
 * Run files and sidecars from a hostile disk.
 *
 *     0  u8   bit 0: crcs are made right first
 *             bits 1-2: 0 the records of a block, 1 a footer, 2 a run, 3 a sidecar
 *     1       records: their bytes; the first, of a crc, says how many there are
 *             footer: its bytes
 *             run: changes to a good one, each u16 offset, u8 bits
 *             sidecar: the same, each u16 offset, u8 bits, u8 page
 *
 * Reading must give an error or an answer, and stay within the bytes.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "engine/run.h"
#include "engine/sidecar_inner.h"

#include <stdlib.h>
#include <string.h>

enum { JOBS = 400, PAGES_MAX = 64, BASE = 1000 };

static const struct tr_run_of run_of = {.uuid = "the store itself", .group = 7, .piece = 3};
static const struct tr_side_of side_of = {.uuid = "the store itself", .number = 12, .nonce = 9};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition) {
        abort();
    }
}

/* What the crcs of a run begin with; see run.c. */
static uint32_t seed(char what, uint64_t off)
{
    uint8_t p[37];

    memcpy(p, run_of.uuid, TR_UUID);
    tr_put_le(p + 16, run_of.group, 8);
    tr_put_le(p + 24, run_of.piece, 4);
    p[28] = (uint8_t)what;
    tr_put_le(p + 29, off, 8);
    return tr_crc(0, p, sizeof p);
}

/* Every record that a block gives is inside it, and what can be written again reads the same. */
static void walk(struct tr_run_block *block, const struct tr_run_footer *f)
{
    struct tr_record rec;
    uint64_t place;

    while (tr_run_next(block, &rec, &place) == TARRY_OK) {
        uint64_t at = tr_place_off(place) - block->off - TR_RUN_BLOCK_HEAD;
        struct tr_record again;

        must(at + tr_place_len(place) <= block->len);
        must(rec.body.at == NULL || (rec.body.at >= block->payload &&
                                     rec.body.at + rec.body.len <= block->payload + block->len));
        if (f != NULL) {
            must(tr_run_get(f, place, rec.rid, block->payload + at, &again) == TARRY_OK);
            must(again.rid == rec.rid && again.due_us == rec.due_us);
        }
    }
}

/* Gives each record in [p, p + len) a right crc. */
static void repair_records(uint8_t *p, size_t len)
{
    while (len > 8) {
        struct tr_reader r = tr_reader_of(p + 4, len - 4);
        uint64_t rest = tr_read_varint(&r);
        struct tr_reader in = r;
        uint64_t rid;
        size_t all;

        if (r.bad || rest == 0 || rest > tr_reader_left(&r)) {
            return;
        }
        (void)tr_read_le(&in, 1);
        (void)tr_read_varint(&in);
        rid = BASE + (uint64_t)tr_read_signed(&in);
        all = (size_t)(r.at - p) + (size_t)rest;
        tr_put_le(p, tr_crc(tr_crc_seed(rid), p + 4, all - 4), 4);
        p += all;
        len -= all;
    }
}

/* A block of these records; the first byte says how many. */
static void fuzz_block(const uint8_t *data, size_t size, bool repair)
{
    size_t len = TR_RUN_BLOCK_HEAD + size;
    uint8_t *p = calloc(1, len);
    struct tr_run_block block;

    must(p != NULL);
    if (size > 0) {
        memcpy(p, data, size < TR_RUN_BLOCK_HEAD ? size : TR_RUN_BLOCK_HEAD);
        memcpy(p + TR_RUN_BLOCK_HEAD, data, size);
    }
    memcpy(p, "TRrb", 4);
    if (repair) {
        repair_records(p + TR_RUN_BLOCK_HEAD, size);
        tr_put_le(p + 8, TR_FORMAT_VERSION, 2);
        tr_put_le(p + 10, TR_RUN_BLOCK_HEAD, 2);
        tr_put_le(p + 12, size > 0 ? data[0] : 0, 4);
        tr_put_le(p + 16, size, 4);
        tr_put_le(p + 20, 0, 4);
        tr_put_le(p + 24, BASE, 8);
        tr_put_le(p + 32, BASE, 8);
        tr_put_le(p + 40, run_of.group, 8);
        tr_put_le(p + 4, tr_crc(seed('b', 0), p + 8, len - 8), 4);
    }
    if (tr_run_block_alone(&run_of, 0, p, len, &block) == TARRY_OK) {
        walk(&block, NULL);
    }
    free(p);
}

static void fuzz_footer(const uint8_t *data, size_t size, bool repair)
{
    struct tr_run_trailer t = {.footer_off = size >= 72 ? tr_get_le(data + 64, 8) : 0,
                               .footer_len = (uint32_t)size};
    struct tr_run_footer f;

    t.footer_crc = repair ? tr_crc(seed('f', t.footer_off), data, size) : 0;
    if (tr_run_footer(data, &run_of, &t, &f) != TARRY_OK) {
        return;
    }
    must(f.block_count > 0 && f.topic_count > 0);
    for (uint32_t i = 0; i < f.block_count; i++) {
        struct tr_run_block_stat stat = tr_run_footer_block(&f, i);

        must(tr_run_footer_off(&f, stat.off) == i);
        must(tr_run_footer_off(&f, stat.off + stat.len - 1) == i);
        must(f.dead || tr_run_footer_due(&f, stat.first_due) <= i);
    }
    for (uint32_t i = 0; i < f.topic_count; i++) {
        struct tr_run_topic topic = tr_run_footer_topic_at(&f, i);

        must(tr_run_footer_topic(&f, topic.topic) == topic.jobs);
    }
}

/* A run that was written well, with some bytes changed. */
static void fuzz_run(const uint8_t *data, size_t size, bool repair)
{
    static uint8_t buf[TR_RUN_BLOCK];
    struct tr_run_trailer t;
    struct tr_run_footer f;
    struct tr_run_block block;
    struct tr_run_writer w;
    struct tr_mem mem;

    tr_mem_init(&mem, 0);
    tr_run_init(&w, &mem, &run_of, false);
    tr_run_buffer(&w, buf, sizeof buf);
    for (uint64_t i = 0; i < 8; i++) {
        struct tr_record rec = {.type = TR_REC_RELOG,
                                .mask = TR_FIELD(DUE) | TR_FIELD(TOPIC) | TR_FIELD(BODY),
                                .rid = 100 - i,
                                .due_us = 1000 + i,
                                .topic = 1 + (uint32_t)i % 3,
                                .body = {data, size < 9 ? size : 9}};
        uint64_t place;

        must(tr_run_add(&w, &rec, &place) == TARRY_OK);
    }
    must(tr_run_end(&w) == TARRY_OK);
    for (; size >= 3; data += 3, size -= 3) {
        uint64_t at = tr_get_le(data, 2);

        *(at < TR_BLOCK ? &buf[at] : &w.footer[at % w.footer_len]) ^= data[2];
    }
    if (repair && tr_get_le(buf + 16, 4) <= TR_BLOCK - TR_RUN_BLOCK_HEAD) {
        tr_put_le(buf + 4,
                  tr_crc(seed('b', 0), buf + 8, TR_RUN_BLOCK_HEAD + tr_get_le(buf + 16, 4) - 8), 4);
    }
    if (tr_run_trailer(w.footer + w.footer_len - TR_RUN_TRAILER, &run_of, TR_BLOCK + w.footer_len,
                       &t) == TARRY_OK &&
        tr_run_footer(w.footer, &run_of, &t, &f) == TARRY_OK &&
        tr_run_block(&f, 0, buf, &block) == TARRY_OK) {
        walk(&block, &f);
    }
    tr_run_fini(&w);
    must(mem.used_bytes == 0);
}

/* The pages of a good sidecar; gives their number. */
static uint32_t make_sidecar(struct tr_mem *mem, uint8_t *pages)
{
    static struct tr_side_job jobs[JOBS];
    struct tr_side_input in = {.of = side_of,
                               .rid_last = UINT64_MAX,
                               .jobs = jobs,
                               .job_count = JOBS,
                               .keyed_max = JOBS,
                               .moved_max = JOBS,
                               .frames = jobs,
                               .frame_count = JOBS};
    struct tr_side_build b;
    uint32_t n;

    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = (struct tr_side_job){.rid = 1000 + i,
                                       .id = 1000 + i - i % 3,
                                       .due_us = i * UINT64_C(7919) % 1009,
                                       .dead_seq = i % 10 == 0 ? 1 + i : 0,
                                       .place = tr_place_of(0, 4096 + i * UINT64_C(100), 90),
                                       .key_hi = i * UINT64_C(0x9e3779b97f4a7c15),
                                       .topic = 1 + i % 5,
                                       .head = (uint16_t)(i % 2),
                                       .keyed = i % 4 == 0};
    }
    must(tr_side_build_init(&b, mem, &in) == TARRY_OK);
    tr_side_build_prepare(&b);
    must(b.page_count <= PAGES_MAX);
    n = tr_side_build_pages(&b, pages, PAGES_MAX);
    tr_side_build_fini(&b);
    return n;
}

/* Asks all that can be asked of one page. */
static void ask(const struct tr_sidecar *s, enum tr_side_section section, uint32_t page,
                const uint8_t *bytes)
{
    struct tr_side_view v;
    struct tr_side_row row;

    if (tr_sidecar_view(s, section, page, bytes, &v) != TARRY_OK) {
        return;
    }
    for (uint32_t i = 0; i < v.count; i++) {
        struct tr_side_view t;

        if (tr_side_get(&v, i, &row) != TARRY_OK) {
            continue;
        }
        must(tr_sidecar_find(s, section, &row.job) < s->sections[section].pages);
        must(tr_side_lower(&v, &row.job) <= v.count);
        if (section == TR_SIDE_R || section == TR_SIDE_TOPICS) {
            (void)!tr_sidecar_view(s, TR_SIDE_T, row.t.page, bytes, &t);
        }
    }
}

static void fuzz_sidecar(const uint8_t *data, size_t size, bool repair)
{
    static uint8_t good[PAGES_MAX * TR_SIDE_PAGE];
    static uint8_t pages[PAGES_MAX * TR_SIDE_PAGE];
    static uint32_t count;
    struct tr_mem mem;
    struct tr_sidecar s;

    tr_mem_init(&mem, 1 << 20);
    if (count == 0) {
        count = make_sidecar(&mem, good);
    }
    memcpy(pages, good, (size_t)count * TR_SIDE_PAGE);
    must(tr_sidecar_head(&s, &side_of, pages) == TARRY_OK);
    for (; size >= 4; data += 4, size -= 4) {
        uint8_t *page = pages + (size_t)(data[3] % count) * TR_SIDE_PAGE;

        page[tr_get_le(data, 2) % TR_SIDE_PAGE] ^= data[2];
    }
    if (repair) {
        tr_put_le(pages + 4, tr_side_crc(tr_side_head_salt(&side_of), 0, pages), 4);
        s.salt = tr_side_page_salt(&side_of, tr_get_le(pages + 56, 8));
        for (uint32_t i = 1; i < count; i++) {
            uint8_t *page = pages + (size_t)i * TR_SIDE_PAGE;

            tr_put_le(page + 4, tr_side_crc(s.salt, i, page), 4);
        }
    }
    if (tr_sidecar_head(&s, &side_of, pages) == TARRY_OK && s.page_count <= count &&
        tr_sidecar_load(&s, &mem, pages + TR_SIDE_PAGE) == TARRY_OK) {
        for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
            for (uint32_t page = 0; page < s.sections[i].pages; page++) {
                ask(&s, (enum tr_side_section)i, page,
                    pages + tr_sidecar_off(&s, (enum tr_side_section)i, page));
            }
        }
        tr_sidecar_fini(&s);
    }
    must(mem.used_bytes == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool repair;

    if (size < 1) {
        return 0;
    }
    repair = (data[0] & 1) != 0;
    switch (data[0] >> 1 & 3) {
    case 0:
        fuzz_block(data + 1, size - 1, repair);
        break;
    case 1:
        fuzz_footer(data + 1, size - 1, repair);
        break;
    case 2:
        fuzz_run(data + 1, size - 1, repair);
        break;
    default:
        fuzz_sidecar(data + 1, size - 1, repair);
        break;
    }
    return 0;
}
