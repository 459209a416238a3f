/*
 * Run files: what goes in comes out, block by block and one by one; and every damage is seen.
 *
 * The model is the list of records that went in. `file` holds the bytes that a disk would have.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/rng.h"
#include "engine/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BUFFER = 1 << 20 };

static const uint64_t NOW = UINT64_C(1760000000000000);
static const struct tr_run_of of = {.uuid = "the store itself", .group = 7, .piece = 3};

struct file {
    struct tr_mem mem;
    struct tr_run_writer w;
    uint8_t *buf;
    size_t room;
    uint8_t *bytes; /* what was written out; NULL: nobody wants it */
    size_t len;
    size_t bytes_room;
    struct tr_run_footer footer;
};

static void append(struct file *f, const uint8_t *p, size_t len)
{
    if (len == 0) {
        return;
    }
    if (f->len + len > f->bytes_room) {
        f->bytes_room = (f->len + len) * 2;
        f->bytes = realloc(f->bytes, f->bytes_room);
        assert_non_null(f->bytes);
    }
    memcpy(f->bytes + f->len, p, len);
    f->len += len;
}

static void begin(struct file *f, size_t room, bool dead)
{
    memset(f, 0, sizeof *f);
    tr_mem_init(&f->mem, 0);
    tr_run_init(&f->w, &f->mem, &of, dead);
    f->buf = malloc(room);
    f->room = room;
    assert_non_null(f->buf);
    tr_run_buffer(&f->w, f->buf, room);
}

/* Writes out what is ready, and makes room for rec. */
static void turn(struct file *f, const struct tr_record *rec)
{
    append(f, f->buf, tr_run_ready(&f->w));
    if (tr_run_room(rec) > f->room) {
        uint8_t *more = malloc(tr_run_room(rec));

        assert_non_null(more);
        tr_run_buffer(&f->w, more, tr_run_room(rec));
        free(f->buf);
        f->buf = more;
        f->room = tr_run_room(rec);
    } else {
        tr_run_buffer(&f->w, f->buf, f->room);
    }
}

static uint64_t add(struct file *f, const struct tr_record *rec)
{
    uint64_t place = 0;
    int err = tr_run_add(&f->w, rec, &place);

    if (err == TARRY_EFULL) {
        assert_false(tr_run_full(&f->w));
        turn(f, rec);
        err = tr_run_add(&f->w, rec, &place);
    }
    assert_int_equal(err, TARRY_OK);
    return place;
}

static void end(struct file *f)
{
    assert_int_equal(tr_run_end(&f->w), TARRY_OK);
    append(f, f->buf, tr_run_ready(&f->w));
    append(f, f->w.footer, f->w.footer_len);
    assert_int_equal(f->len % TR_BLOCK, 0);
}

/* Reads the footer as a reader of the file would. */
static int open_footer(struct file *f, const struct tr_run_of *as)
{
    struct tr_run_trailer t;
    int err = tr_run_trailer(f->bytes + f->len - TR_RUN_TRAILER, as, f->len, &t);

    if (err != TARRY_OK) {
        return err;
    }
    assert_true(t.footer_off + t.footer_len + TR_RUN_TRAILER == f->len);
    return tr_run_footer(f->bytes + t.footer_off, as, &t, &f->footer);
}

static void discard(struct file *f)
{
    tr_run_fini(&f->w);
    assert_int_equal(f->mem.used_bytes, 0);
    free(f->buf);
    free(f->bytes);
}

static struct tr_record job(uint64_t rid, uint64_t due_us, uint32_t topic, struct tr_bytes body)
{
    return (struct tr_record){
        .type = TR_REC_RELOG,
        .mask = TR_FIELD(DUE) | TR_FIELD(CREATED) | TR_FIELD(TOPIC) | TR_FIELD(PRIORITY) |
                TR_FIELD(TTR) | TR_FIELD(BODY),
        .rid = rid,
        .id = rid,
        .due_us = due_us,
        .created_us = NOW,
        .topic = topic,
        .priority = 1024,
        .ttr_us = 60000000,
        .body = body,
    };
}

static void assert_same(const struct tr_record *got, const struct tr_record *want)
{
    assert_true(got->rid == want->rid);
    assert_true(got->due_us == want->due_us);
    assert_true(got->created_us == want->created_us);
    assert_int_equal(got->topic, want->topic);
    assert_int_equal(got->priority, want->priority);
    assert_true(got->dead.seq == want->dead.seq);
    assert_int_equal(got->body.len, want->body.len);
    if (want->body.len > 0) {
        assert_memory_equal(got->body.at, want->body.at, want->body.len);
    }
}

/* All records of the file, in order, by block and by place. */
static void assert_holds(const struct file *f, const struct tr_record *want, const uint64_t *places,
                         size_t n)
{
    size_t seen = 0;

    assert_int_equal(f->footer.stat.jobs, n);
    for (uint32_t i = 0; i < f->footer.block_count; i++) {
        struct tr_run_block_stat stat = tr_run_footer_block(&f->footer, i);
        struct tr_run_block block;
        struct tr_record rec;
        uint64_t place;
        int err;

        assert_int_equal(tr_run_block(&f->footer, i, f->bytes + stat.off, &block), TARRY_OK);
        while ((err = tr_run_next(&block, &rec, &place)) == TARRY_OK) {
            assert_true(seen < n);
            assert_same(&rec, &want[seen]);
            assert_true(place == places[seen]);
            assert_int_equal(tr_run_footer_off(&f->footer, tr_place_off(place)), i);
            assert_true(stat.topic == 0 || stat.topic == rec.topic);
            assert_int_equal(
                tr_run_get(&f->footer, place, want[seen].rid, f->bytes + tr_place_off(place), &rec),
                TARRY_OK);
            assert_same(&rec, &want[seen]);
            assert_int_equal(tr_run_get(&f->footer, place, want[seen].rid + 1,
                                        f->bytes + tr_place_off(place), &rec),
                             TARRY_EDAMAGED);
            seen++;
        }
        assert_int_equal(err, TARRY_ENOTFOUND);
    }
    assert_int_equal(seen, n);
}

static void test_run_of_one_job(void **state)
{
    struct file f;
    struct tr_record rec = job(42, NOW + 5, 9, (struct tr_bytes){(const uint8_t *)"hello", 5});
    uint64_t place;

    (void)state;
    begin(&f, BUFFER, false);
    place = add(&f, &rec);
    assert_int_equal(tr_place_piece(place), of.piece);
    assert_int_equal(tr_place_off(place), TR_RUN_BLOCK_HEAD);
    end(&f);
    assert_int_equal(f.len, 2 * TR_BLOCK);
    assert_int_equal(open_footer(&f, &of), TARRY_OK);
    assert_false(f.footer.dead);
    assert_int_equal(f.footer.block_count, 1);
    assert_int_equal(f.footer.topic_count, 1);
    assert_int_equal(tr_run_footer_topic(&f.footer, 9), 1);
    assert_int_equal(tr_run_footer_topic(&f.footer, 8), 0);
    assert_int_equal(tr_run_footer_topic(&f.footer, 10), 0);
    assert_int_equal(tr_run_footer_due(&f.footer, 0), 0);
    assert_int_equal(tr_run_footer_due(&f.footer, NOW + 5), 0);
    assert_int_equal(tr_run_footer_due(&f.footer, NOW + 6), 1);
    assert_int_equal(tr_run_footer_off(&f.footer, TR_BLOCK), 1);
    assert_holds(&f, &rec, &place, 1);
    discard(&f);
}

/* The format is for ever: a fixed input gives fixed bytes. */
static void test_run_bytes_do_not_change(void **state)
{
    struct file f;
    struct tr_record rec = job(42, NOW + 5, 9, (struct tr_bytes){(const uint8_t *)"hello", 5});

    (void)state;
    begin(&f, BUFFER, false);
    (void)add(&f, &rec);
    end(&f);
    assert_memory_equal(f.bytes, "TRrb", 4);
    assert_memory_equal(f.bytes + TR_BLOCK, "TRrf", 4);
    assert_memory_equal(f.bytes + f.len - TR_RUN_TRAILER, "TRrt", 4);
    assert_int_equal(tr_crc(0, f.bytes, f.len), UINT32_C(0x12fc2ed8));
    discard(&f);
}

/* Many blocks, several topics, equal due times; whatever the buffer, the bytes are the same. */
static void test_run_of_many_jobs(void **state)
{
    enum { JOBS = 3000 };
    static struct tr_record want[JOBS];
    static uint64_t places[JOBS];
    static uint8_t body[3000];
    struct tr_rng rng = {11};
    uint64_t due = NOW;
    uint32_t of_topic_2 = 0;
    struct file f;
    struct file again;

    (void)state;
    for (size_t i = 0; i < sizeof body; i++) {
        body[i] = (uint8_t)tr_rng_next(&rng);
    }
    begin(&f, BUFFER, false);
    begin(&again, TR_RUN_BLOCK, false);
    for (uint32_t i = 0; i < JOBS; i++) {
        due += tr_rng_below(&rng, 3);
        want[i] = job(1000000 + i, due, i < JOBS / 2 ? 2 : 1 + (uint32_t)tr_rng_below(&rng, 5),
                      (struct tr_bytes){body, tr_rng_below(&rng, sizeof body)});
        of_topic_2 += want[i].topic == 2 ? 1 : 0;
        places[i] = add(&f, &want[i]);
        assert_true(add(&again, &want[i]) == places[i]);
    }
    end(&f);
    end(&again);
    assert_int_equal(f.len, again.len);
    assert_memory_equal(f.bytes, again.bytes, f.len);
    assert_int_equal(open_footer(&f, &of), TARRY_OK);
    assert_int_equal(f.footer.topic_count, 5);
    assert_int_equal(tr_run_footer_topic(&f.footer, 2), of_topic_2);
    assert_int_equal(tr_run_footer_block(&f.footer, 0).topic, 2);
    assert_int_equal(tr_run_footer_block(&f.footer, f.footer.block_count - 1).topic, 0);
    assert_holds(&f, want, places, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) { /* no job of this due or later is in an earlier block */
        uint32_t from = tr_run_footer_due(&f.footer, want[i].due_us);
        uint32_t first = i;

        while (first > 0 && want[first - 1].due_us == want[i].due_us) {
            first--;
        }
        assert_true(tr_run_footer_off(&f.footer, tr_place_off(places[first])) >= from);
        assert_true(tr_run_footer_off(&f.footer, tr_place_off(places[first])) <= from + 1);
    }
    discard(&f);
    discard(&again);
}

/* What the record takes before its body, as the second one of a block. */
static size_t head_len(const struct tr_record *first, const struct tr_record *second)
{
    struct file f;
    size_t len;

    begin(&f, BUFFER, false);
    (void)add(&f, first);
    len = tr_place_len(add(&f, second)) - second->body.len;
    discard(&f);
    return len;
}

static void test_run_block_that_is_exactly_full(void **state)
{
    static uint8_t body[TR_RUN_BLOCK];
    struct tr_record want[3];
    uint64_t places[3];

    (void)state;
    for (unsigned more = 0; more < 3; more++) {
        struct file f;

        begin(&f, BUFFER, false);
        want[0] = job(1, NOW, 1, (struct tr_bytes){body, 100});
        places[0] = add(&f, &want[0]);
        want[1] = job(2, NOW, 1, (struct tr_bytes){body, 60000});
        want[1].body.len = TR_RUN_BLOCK - 1 + more - tr_place_off(places[0]) -
                           tr_place_len(places[0]) - head_len(&want[0], &want[1]);
        places[1] = add(&f, &want[1]);
        want[2] = job(3, NOW, 1, (struct tr_bytes){body, 0});
        places[2] = add(&f, &want[2]);
        end(&f);
        assert_int_equal(open_footer(&f, &of), TARRY_OK);
        assert_int_equal(f.footer.block_count, 2);
        assert_int_equal(tr_run_footer_block(&f.footer, 0).len, more < 2 ? TR_RUN_BLOCK : TR_BLOCK);
        assert_int_equal(tr_run_footer_block(&f.footer, 0).jobs, more < 2 ? 2 : 1);
        assert_holds(&f, want, places, 3);
        discard(&f);
    }
}

static void test_run_long_record_has_a_block_of_its_own(void **state)
{
    uint8_t *body = calloc(1, TR_BODY_MAX);
    struct tr_record want[5];
    uint64_t places[5];
    struct file f;

    (void)state;
    assert_non_null(body);
    begin(&f, BUFFER, false);
    for (uint32_t i = 0; i < 5; i++) {
        want[i] = job(1 + i, NOW + i, 1, (struct tr_bytes){body, i % 2 == 1 ? TR_BODY_MAX : 10});
    }
    want[3].body.len = TR_RUN_BLOCK;
    for (uint32_t i = 0; i < 5; i++) {
        places[i] = add(&f, &want[i]);
    }
    end(&f);
    assert_int_equal(open_footer(&f, &of), TARRY_OK);
    assert_int_equal(f.footer.block_count, 5);
    assert_int_equal(tr_run_footer_block(&f.footer, 1).len, TR_BODY_MAX + TR_BLOCK);
    assert_int_equal(tr_run_footer_block(&f.footer, 3).len, TR_RUN_BLOCK + TR_BLOCK);
    assert_holds(&f, want, places, 5);
    discard(&f);
    free(body);
}

static void test_run_of_dead_jobs(void **state)
{
    struct tr_record want[600];
    uint64_t places[600];
    struct file f;

    (void)state;
    begin(&f, TR_RUN_BLOCK, true);
    for (uint32_t i = 0; i < 600; i++) {
        want[i] = job(5000 - i, NOW + i * 7919 % 600, 1 + i / 200,
                      (struct tr_bytes){(const uint8_t *)"x", 1});
        want[i].mask |= TR_FIELD(DEAD);
        want[i].dead.seq = 1 + i % 200;
        want[i].dead.reason = TR_WHY_BURIED;
        places[i] = add(&f, &want[i]);
    }
    end(&f);
    assert_int_equal(open_footer(&f, &of), TARRY_OK);
    assert_true(f.footer.dead);
    assert_int_equal(f.footer.stat.rid_first, 4401);
    assert_int_equal(f.footer.stat.rid_last, 5000);
    assert_true(f.footer.stat.due_first == NOW);
    assert_true(f.footer.stat.due_last == NOW + 599);
    assert_holds(&f, want, places, 600);
    discard(&f);
}

static void test_run_ends_when_it_is_full(void **state)
{
    uint8_t *body = calloc(1, TR_BODY_MAX);
    struct tr_record rec;
    uint64_t place;
    struct file f;
    uint32_t n = 0;

    (void)state;
    assert_non_null(body);
    rec = job(1, NOW, 1, (struct tr_bytes){body, TR_BODY_MAX});
    begin(&f, tr_run_room(&rec), false);
    while (!tr_run_full(&f.w)) {
        tr_run_buffer(&f.w, f.buf, f.room);
        if (tr_run_add(&f.w, &rec, &place) == TARRY_OK) {
            rec.rid++;
            n++;
        }
    }
    assert_int_equal(n, TR_RUN_BYTES_MAX / (TR_BODY_MAX + TR_BLOCK) + 1);
    tr_run_buffer(&f.w, f.buf, f.room);
    assert_int_equal(tr_run_add(&f.w, &rec, &place), TARRY_EFULL);
    assert_int_equal(tr_run_end(&f.w), TARRY_OK);
    assert_int_equal(f.w.stat.jobs, n);
    discard(&f);
    free(body);
}

/* A file of a few blocks, small enough to try every byte. */
static void small_file(struct file *f, struct tr_record *want, uint64_t *places, uint32_t n)
{
    begin(f, BUFFER, false);
    for (uint32_t i = 0; i < n; i++) {
        want[i] = job(100 + i, NOW + i / 2, 1 + i % 3,
                      (struct tr_bytes){(const uint8_t *)"a body that is not long", 23});
        places[i] = add(f, &want[i]);
    }
    end(f);
}

/* True when everything in the file reads as it was written. */
static bool reads_the_same(struct file *f, const struct tr_record *want, uint32_t n)
{
    uint32_t seen = 0;

    if (open_footer(f, &of) != TARRY_OK || f->footer.stat.jobs != n) {
        return false;
    }
    for (uint32_t i = 0; i < f->footer.block_count; i++) {
        struct tr_run_block_stat stat = tr_run_footer_block(&f->footer, i);
        struct tr_run_block block;
        struct tr_record rec;
        uint64_t place;

        if (tr_run_block(&f->footer, i, f->bytes + stat.off, &block) != TARRY_OK) {
            return false;
        }
        while (tr_run_next(&block, &rec, &place) == TARRY_OK) {
            assert_same(&rec, &want[seen++]);
        }
    }
    return seen == n;
}

static void test_run_any_flipped_byte_is_seen_or_harmless(void **state)
{
    enum { JOBS = 20 };
    struct tr_record want[JOBS];
    uint64_t places[JOBS];
    struct file f;
    size_t harmless = 0;

    (void)state;
    small_file(&f, want, places, JOBS);
    assert_int_equal(f.len, 2 * TR_BLOCK);
    for (size_t i = 0; i < f.len; i++) {
        f.bytes[i] ^= (uint8_t)(1u << i % 8);
        harmless += reads_the_same(&f, want, JOBS) ? 1 : 0;
        f.bytes[i] ^= (uint8_t)(1u << i % 8);
    }
    /* only the zeros behind the records of the one block are covered by nothing */
    assert_int_equal(harmless,
                     TR_BLOCK - tr_place_off(places[JOBS - 1]) - tr_place_len(places[JOBS - 1]));
    assert_true(reads_the_same(&f, want, JOBS));
    discard(&f);
}

static void test_run_of_another_store_group_or_piece_is_refused(void **state)
{
    struct tr_record want[3];
    uint64_t places[3];
    struct tr_run_of other[3] = {of, of, of};
    struct tr_run_block block;
    struct tr_run_trailer t;
    struct tr_record rec;
    struct file f;

    (void)state;
    other[0].uuid[5] ^= 1;
    other[1].group++;
    other[2].piece++;
    small_file(&f, want, places, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(open_footer(&f, &other[i]), TARRY_EDAMAGED);
        assert_int_equal(tr_run_block_alone(&other[i], 0, f.bytes, f.len, &block), TARRY_EDAMAGED);
    }
    assert_int_equal(tr_run_block_alone(&of, 0, f.bytes, f.len, &block), TARRY_OK);
    assert_int_equal(tr_run_block_alone(&of, TR_BLOCK, f.bytes, f.len, &block), TARRY_EDAMAGED);
    for (size_t cut = 0; cut < tr_place_off(places[2]) + tr_place_len(places[2]); cut++) {
        assert_int_equal(tr_run_block_alone(&of, 0, f.bytes, cut, &block), TARRY_EDAMAGED);
    }
    assert_int_equal(tr_run_trailer(f.bytes + f.len - TR_RUN_TRAILER, &of, f.len + TR_BLOCK, &t),
                     TARRY_EDAMAGED);
    assert_int_equal(tr_run_trailer(f.bytes + f.len - TR_RUN_TRAILER, &of, 1, &t), TARRY_EDAMAGED);
    assert_int_equal(open_footer(&f, &of), TARRY_OK);
    for (unsigned i = 0; i < 3; i++) { /* places that are none */
        uint64_t off = tr_place_off(places[i]);
        uint32_t len = tr_place_len(places[i]);
        uint64_t bad[] = {tr_place_of(of.piece + 1, off, len), tr_place_of(of.piece, off + 1, len),
                          tr_place_of(of.piece, off, len - 1), tr_place_of(of.piece, off, len + 1),
                          tr_place_of(of.piece, 0, len),       tr_place_of(of.piece, off, TR_BLOCK),
                          tr_place_of(of.piece, TR_BLOCK, 9)};

        for (unsigned k = 0; k < sizeof bad / sizeof bad[0]; k++) {
            assert_int_equal(
                tr_run_get(&f.footer, bad[k], want[i].rid, f.bytes + tr_place_off(bad[k]), &rec),
                TARRY_EDAMAGED);
        }
    }
    discard(&f);
}

/* Right crcs over a footer that cannot be. */
static void test_run_footer_numbers_are_not_believed(void **state)
{
    static const struct {
        uint32_t at;
        uint32_t size;
        uint64_t value;
        int want;
    } bad[] = {
        {4, 2, 0, TARRY_EDAMAGED},     {4, 2, 2, TARRY_EVERSION},
        {6, 2, 100, TARRY_EDAMAGED},   {8, 4, 1, TARRY_EVERSION},
        {12, 4, 2, TARRY_EVERSION},    {44, 4, 0, TARRY_EDAMAGED},
        {44, 4, 2, TARRY_EDAMAGED},    {44, 4, UINT32_MAX, TARRY_EDAMAGED},
        {48, 4, 2, TARRY_EDAMAGED},    {48, 4, UINT32_MAX, TARRY_EDAMAGED},
        {56, 8, 21, TARRY_EDAMAGED},   {56, 8, 0, TARRY_EDAMAGED},
        {64, 8, 8192, TARRY_EDAMAGED}, {72, 8, UINT64_MAX, TARRY_EDAMAGED},
        {80, 8, 0, TARRY_EDAMAGED},    {88, 8, UINT64_MAX, TARRY_EDAMAGED},
        {96, 8, 0, TARRY_EDAMAGED},    {104, 4, 1, TARRY_EDAMAGED},
        {108, 4, 0, TARRY_EDAMAGED},   {108, 4, 2, TARRY_EDAMAGED},
        {128, 4, 0, TARRY_EDAMAGED},   {128, 4, 19, TARRY_EDAMAGED},
        {136, 4, 0, TARRY_EDAMAGED},   {136, 4, 2, TARRY_EDAMAGED},
        {140, 4, 0, TARRY_EDAMAGED},   {140, 4, 6, TARRY_EDAMAGED},
    };
    struct tr_record want[20];
    uint64_t places[20];
    struct file f;

    (void)state;
    small_file(&f, want, places, 20);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tr_run_trailer t = {.footer_off = TR_BLOCK, .footer_len = TR_BLOCK - TR_RUN_TRAILER};
        uint8_t footer[TR_BLOCK];
        uint8_t salt[37] = "the store itself\7";

        salt[24] = 3;
        salt[28] = 'f';
        tr_put_le(salt + 29, TR_BLOCK, 8);
        memcpy(footer, f.bytes + TR_BLOCK, TR_BLOCK);
        tr_put_le(footer + bad[i].at, bad[i].value, bad[i].size);
        t.footer_crc = tr_crc(tr_crc(0, salt, sizeof salt), footer, t.footer_len);
        assert_int_equal(tr_run_footer(footer, &of, &t, &f.footer), bad[i].want);
        assert_int_equal(f.footer.block_count, 0);
        t.footer_len = (uint32_t)tr_rng_below(&(struct tr_rng){i}, 144);
        t.footer_crc = tr_crc(tr_crc(0, salt, sizeof salt), f.bytes + TR_BLOCK, t.footer_len);
        assert_int_equal(tr_run_footer(f.bytes + TR_BLOCK, &of, &t, &f.footer), TARRY_EDAMAGED);
    }
    discard(&f);
}

/* No memory at the n-th request, for every n: the record is refused, then taken. */
static void test_run_without_memory(void **state)
{
    enum { JOBS = 200 };
    uint64_t fail = 0;
    bool failed = true;

    (void)state;
    while (failed) {
        static uint8_t body[40000];
        struct tr_record want[JOBS];
        uint64_t places[JOBS];
        struct file f;

        fail++;
        failed = false;
        begin(&f, TR_RUN_BLOCK, false);
        f.mem.fail_at = fail;
        for (uint32_t i = 0; i < JOBS; i++) {
            int err;

            want[i] = job(1 + i, NOW + i, 1 + i, (struct tr_bytes){body, sizeof body});
            while ((err = tr_run_add(&f.w, &want[i], &places[i])) != TARRY_OK) {
                assert_true(err == TARRY_EFULL || !failed); /* only one request fails */
                failed |= err == TARRY_ENOMEM;
                turn(&f, &want[i]);
            }
        }
        if (tr_run_end(&f.w) != TARRY_OK) {
            failed = true;
            assert_int_equal(tr_run_end(&f.w), TARRY_OK);
        }
        append(&f, f.buf, tr_run_ready(&f.w));
        append(&f, f.w.footer, f.w.footer_len);
        assert_int_equal(open_footer(&f, &of), TARRY_OK);
        assert_holds(&f, want, places, JOBS);
        discard(&f);
    }
    assert_true(fail > 3);
}

/* A million jobs: what one costs on disk beyond its body. */
static void test_run_of_a_million_jobs(void **state)
{
    enum { JOBS = 1000000, BODY = 100 };
    static const uint8_t body[BODY] = {1};
    struct tr_rng rng = {5};
    struct file f;
    uint64_t due = NOW;

    (void)state;
    begin(&f, BUFFER, false);
    for (uint32_t i = 0; i < JOBS; i++) {
        struct tr_record rec;

        due += tr_rng_below(&rng, 43200); /* six hours */
        rec = job(1000000 + i * UINT64_C(7919) % JOBS, due, 1 + i % 10,
                  (struct tr_bytes){body, BODY});
        rec.delay_us = due - NOW;
        rec.mask |= TR_FIELD(DELAY);
        (void)add(&f, &rec);
    }
    end(&f);
    assert_int_equal(open_footer(&f, &of), TARRY_OK);
    assert_int_equal(f.footer.stat.jobs, JOBS);
    printf("run: %.2f bytes a job and its body of %d; footer %.3f\n", (double)f.len / JOBS, BODY,
           (double)f.w.footer_len / JOBS);
    assert_true(f.len < UINT64_C(150) * JOBS);
    discard(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_of_one_job),
        cmocka_unit_test(test_run_bytes_do_not_change),
        cmocka_unit_test(test_run_of_many_jobs),
        cmocka_unit_test(test_run_block_that_is_exactly_full),
        cmocka_unit_test(test_run_long_record_has_a_block_of_its_own),
        cmocka_unit_test(test_run_of_dead_jobs),
        cmocka_unit_test(test_run_ends_when_it_is_full),
        cmocka_unit_test(test_run_any_flipped_byte_is_seen_or_harmless),
        cmocka_unit_test(test_run_of_another_store_group_or_piece_is_refused),
        cmocka_unit_test(test_run_footer_numbers_are_not_believed),
        cmocka_unit_test(test_run_without_memory),
        cmocka_unit_test(test_run_of_a_million_jobs),
    };

    return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
