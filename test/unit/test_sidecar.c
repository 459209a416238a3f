/*
 * Sidecars: every job is found by all its names, in the right order, and no damaged or foreign page
 * is believed.
 *
 * The model is the list of jobs that went in, sorted by the C library. `file` holds the bytes that
 * a disk would have; the reader sees only page 0, the fences, and one page at a time.
 */

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/rng.h"
#include "engine/sidecar.h"
#include "engine/sidecar_inner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint64_t NOW = UINT64_C(1760000000000000);
static const struct tr_side_of slot = {.uuid = "the store itself", .number = 12, .nonce = 99};
static const struct tr_side_of group = {.uuid = "the store itself", .group = true, .number = 12};

struct file {
    struct tr_mem mem;
    struct tr_side_job *jobs;
    uint32_t count;
    uint8_t *bytes;
    uint32_t pages;
    struct tr_sidecar s;
};

/* How the jobs of a test look. */
enum look {
    PLAIN, /* ten topics, due within six hours, some dead, keyed and moved */
    SAME,  /* one topic, one due */
    OWN,   /* a topic for each */
    WIDE,  /* every number as large as can be */
    LOOKS
};

static struct tr_side_job make_job(struct tr_rng *rng, enum look look, uint32_t i)
{
    struct tr_side_job job = {.rid = 1000000 + i, .topic = 7, .due_us = NOW};
    uint64_t len = 100 + tr_rng_below(rng, 100);

    job.place = tr_place_of(0, (i * UINT64_C(150)) & TR_PLACE_OFF_MAX, len);
    if (look == PLAIN) {
        job.topic = 1 + (uint32_t)tr_rng_below(rng, 10);
        job.due_us = NOW + tr_rng_below(rng, UINT64_C(21600000000));
        job.dead_seq = tr_rng_below(rng, 20) == 0 ? 1 + i : 0;
        job.keyed = tr_rng_below(rng, 4) == 0;
    } else if (look == OWN) {
        job.topic = 1 + i;
        job.due_us = NOW + tr_rng_below(rng, 1000);
    } else if (look == WIDE) {
        job.rid = (tr_rng_next(rng) & (TR_SIDE_RID_MAX >> 20)) << 20 | i;
        job.topic = (uint32_t)tr_rng_next(rng);
        job.due_us = tr_rng_next(rng);
        job.dead_seq = tr_rng_below(rng, 2) == 0 ? 1 + (tr_rng_next(rng) >> 1) : 0;
        job.place = tr_rng_next(rng);
        job.cell = (uint8_t)tr_rng_below(rng, 4);
        job.head = (uint16_t)tr_rng_next(rng);
        job.keyed = true;
    }
    job.id = job.rid;
    if (look != SAME && tr_rng_below(rng, 10) == 0) {
        job.id = job.rid > 10 ? job.rid - 1 - tr_rng_below(rng, 10) : 0;
    }
    if (job.keyed) { /* some keys come twice */
        uint64_t key = tr_rng_below(rng, 8) == 0 ? i / 50 : i;

        job.key_hi = tr_rng_next(&(struct tr_rng){key});
        job.key_lo = (uint16_t)key;
    }
    return job;
}

static void make_jobs(struct file *f, uint32_t count, enum look look, uint64_t seed)
{
    struct tr_rng rng = {seed};

    memset(f, 0, sizeof *f);
    tr_mem_init(&f->mem, 0);
    f->count = count;
    f->jobs = calloc(count + 1, sizeof *f->jobs);
    assert_non_null(f->jobs);
    for (uint32_t i = 0; i < count; i++) {
        f->jobs[i] = make_job(&rng, look, i);
    }
    for (uint32_t i = count; i > 1 && look != SAME; i--) { /* in any order */
        uint32_t k = (uint32_t)tr_rng_below(&rng, i);
        struct tr_side_job kept = f->jobs[k];

        f->jobs[k] = f->jobs[i - 1];
        f->jobs[i - 1] = kept;
    }
}

static struct tr_side_input input_of(const struct file *f, const struct tr_side_of *of)
{
    return (struct tr_side_input){.of = *of,
                                  .rid_first = 1000000,
                                  .rid_last = 1000000 + f->count / 2,
                                  .jobs = f->jobs,
                                  .job_count = f->count,
                                  .keyed_max = f->count,
                                  .moved_max = f->count};
}

/* Makes the file, `step` pages at a time. */
static void build(struct file *f, const struct tr_side_input *in, uint32_t step)
{
    struct tr_side_build b;
    uint32_t n;

    assert_int_equal(tr_side_build_init(&b, &f->mem, in), TARRY_OK);
    tr_side_build_prepare(&b);
    f->bytes = malloc((size_t)(b.page_count + step) * TR_SIDE_PAGE);
    assert_non_null(f->bytes);
    f->pages = 0;
    while ((n = tr_side_build_pages(&b, f->bytes + (size_t)f->pages * TR_SIDE_PAGE, step)) > 0) {
        f->pages += n;
    }
    assert_int_equal(f->pages, b.page_count);
    tr_side_build_fini(&b);
    assert_int_equal(f->mem.used_bytes, 0);
}

static int load(struct file *f, const struct tr_side_of *of)
{
    int err = tr_sidecar_head(&f->s, of, f->bytes);

    if (err == TARRY_OK) {
        assert_true(f->s.page_count == f->pages);
        err = tr_sidecar_load(&f->s, &f->mem, f->bytes + TR_SIDE_PAGE);
    }
    return err;
}

static void make(struct file *f, uint32_t count, enum look look, const struct tr_side_of *of)
{
    struct tr_side_input in;

    make_jobs(f, count, look, 3 + count);
    in = input_of(f, of);
    build(f, &in, 7);
    assert_int_equal(load(f, of), TARRY_OK);
}

static void discard(struct file *f)
{
    tr_sidecar_fini(&f->s);
    assert_int_equal(f->mem.used_bytes, 0);
    free(f->jobs);
    free(f->bytes);
}

/* Reads a page as the engine would. */
static int see(const struct file *f, enum tr_side_section section, uint32_t page,
               struct tr_side_view *v)
{
    const uint8_t *bytes = f->bytes + tr_sidecar_off(&f->s, section, page);
    int err = tr_sidecar_check(&f->s, section, page, bytes);

    return err != TARRY_OK ? err : tr_sidecar_view(&f->s, section, page, bytes, v);
}

/* The first entry of a section that is not before the key; false: there is none. */
static bool seek(const struct file *f, enum tr_side_section section, const struct tr_side_job *key,
                 struct tr_side_row *row)
{
    uint32_t page = tr_sidecar_find(&f->s, section, key);
    struct tr_side_view v;
    uint32_t index;

    if (page == TR_SIDE_NONE) {
        return false;
    }
    assert_int_equal(see(f, section, page, &v), TARRY_OK);
    index = tr_side_lower(&v, key);
    if (index == v.count) {
        if (++page == f->s.sections[section].pages) {
            return false;
        }
        assert_int_equal(see(f, section, page, &v), TARRY_OK);
        index = 0;
    }
    assert_int_equal(tr_side_get(&v, index, row), TARRY_OK);
    return true;
}

static int order_of(const void *a, const void *b, enum tr_side_section section)
{
    uint64_t one[TR_SIDE_KEYS_MAX];
    uint64_t two[TR_SIDE_KEYS_MAX];

    tr_side_key(section, a, one);
    tr_side_key(section, b, two);
    for (unsigned i = 0; i < tr_side_shape(section)->keys; i++) {
        if (one[i] != two[i]) {
            return one[i] < two[i] ? -1 : 1;
        }
    }
    return 0;
}

static int by_topic(const void *a, const void *b)
{
    return order_of(a, b, TR_SIDE_T);
}

static int by_rid(const void *a, const void *b)
{
    return order_of(a, b, TR_SIDE_R);
}

static int by_key(const void *a, const void *b)
{
    return order_of(a, b, TR_SIDE_K);
}

static int by_id(const void *a, const void *b)
{
    return order_of(a, b, TR_SIDE_I);
}

static int by_due(const void *a, const void *b)
{
    return order_of(a, b, TR_SIDE_D);
}

static bool belongs(const struct file *f, enum tr_side_section section,
                    const struct tr_side_job *job)
{
    switch (section) {
    case TR_SIDE_K:
        return job->keyed;
    case TR_SIDE_I:
        return job->id != job->rid;
    case TR_SIDE_D:
        return job->dead_seq == 0 && !f->s.of.group;
    default:
        return true;
    }
}

static void assert_entry(const struct file *f, enum tr_side_section section,
                         const struct tr_side_row *row, const struct tr_side_job *job)
{
    struct tr_side_view v;
    struct tr_side_row t;

    assert_true(row->job.rid == job->rid);
    switch (section) {
    case TR_SIDE_T:
        assert_true(row->job.dead_seq == job->dead_seq);
        assert_true(row->job.due_us == (job->dead_seq != 0 ? 0 : job->due_us));
        assert_true(row->job.place == job->place);
        assert_int_equal(row->job.topic, job->topic);
        assert_int_equal(row->job.cell, job->cell);
        assert_int_equal(row->job.head, job->head);
        break;
    case TR_SIDE_R:
        assert_int_equal(see(f, TR_SIDE_T, row->t.page, &v), TARRY_OK);
        assert_int_equal(tr_side_get(&v, row->t.index, &t), TARRY_OK);
        assert_true(t.job.rid == job->rid);
        assert_true(t.job.place == job->place);
        break;
    case TR_SIDE_K:
        assert_true(row->job.key_hi == job->key_hi);
        assert_int_equal(row->job.key_lo, job->key_lo);
        break;
    case TR_SIDE_I:
        assert_true(row->job.id == job->id);
        break;
    default:
        assert_true(row->job.due_us == job->due_us);
        assert_true(row->job.place == job->place);
        assert_int_equal(row->job.topic, job->topic);
        break;
    }
}

/* The whole section in order, and each of its entries by its key. */
static void assert_section(struct file *f, enum tr_side_section section,
                           int (*order)(const void *, const void *))
{
    uint32_t i = 0;
    uint32_t entries = 0;

    qsort(f->jobs, f->count, sizeof *f->jobs, order);
    for (uint32_t page = 0; page < f->s.sections[section].pages; page++) {
        struct tr_side_view v;

        assert_int_equal(see(f, section, page, &v), TARRY_OK);
        for (uint32_t k = 0; k < v.count; k++, i++, entries++) {
            struct tr_side_row row;

            while (i < f->count && !belongs(f, section, &f->jobs[i])) {
                i++;
            }
            assert_true(i < f->count);
            assert_int_equal(tr_side_get(&v, k, &row), TARRY_OK);
            assert_entry(f, section, &row, &f->jobs[i]);
            assert_int_equal(tr_sidecar_find(&f->s, section, &f->jobs[i]), page);
            assert_int_equal(tr_side_lower(&v, &f->jobs[i]), k);
        }
    }
    assert_int_equal(entries, f->s.sections[section].entries);
    for (; i < f->count; i++) {
        assert_false(belongs(f, section, &f->jobs[i]));
    }
}

static void assert_topics(struct file *f)
{
    uint32_t topics = 0;
    struct tr_side_row row;

    qsort(f->jobs, f->count, sizeof *f->jobs, by_topic);
    for (uint32_t i = 0, n; i < f->count; i += n, topics++) {
        struct tr_side_job key = {.topic = f->jobs[i].topic};
        struct tr_side_view v;
        uint32_t dead = 0;

        for (n = 0; i + n < f->count && f->jobs[i + n].topic == key.topic; n++) {
            dead += f->jobs[i + n].dead_seq != 0 ? 1 : 0;
        }
        assert_true(seek(f, TR_SIDE_TOPICS, &key, &row));
        assert_int_equal(row.job.topic, key.topic);
        assert_int_equal(row.live, n - dead);
        assert_int_equal(row.dead, dead);
        assert_int_equal(see(f, TR_SIDE_T, row.t.page, &v), TARRY_OK);
        assert_int_equal(tr_side_get(&v, row.t.index, &row), TARRY_OK);
        assert_entry(f, TR_SIDE_T, &row, &f->jobs[i]);
        assert_true(seek(f, TR_SIDE_T, &key, &row)); /* its first delayed, if it has one */
        assert_true(row.job.rid == f->jobs[i].rid || f->jobs[i].topic == 0);
    }
    assert_int_equal(topics, f->s.sections[TR_SIDE_TOPICS].entries);
}

/* All that a sidecar can be asked, against the model. */
static void assert_holds(struct file *f)
{
    uint32_t dead = 0;
    uint32_t strays = 0;

    for (uint32_t i = 0; i < f->count; i++) {
        dead += f->jobs[i].dead_seq != 0 ? 1 : 0;
        strays += f->jobs[i].rid < f->s.rid_first || f->jobs[i].rid > f->s.rid_last ? 1 : 0;
    }
    assert_int_equal(f->s.live, f->count - dead);
    assert_int_equal(f->s.dead, dead);
    assert_int_equal(f->s.strays, strays);
    assert_section(f, TR_SIDE_T, by_topic);
    assert_section(f, TR_SIDE_R, by_rid);
    assert_section(f, TR_SIDE_K, by_key);
    assert_section(f, TR_SIDE_I, by_id);
    assert_section(f, TR_SIDE_D, by_due);
    assert_topics(f);
}

static void test_sidecar_finds_everything(void **state)
{
    static const uint32_t counts[] = {0, 1, 2, 3, 100, 141, 142, 500, 4096, 20000};
    struct file f;

    (void)state;
    for (unsigned look = 0; look < LOOKS; look++) {
        for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            make(&f, counts[i], (enum look)look, &slot);
            assert_holds(&f);
            discard(&f);
            make(&f, counts[i], (enum look)look, &group);
            assert_holds(&f);
            assert_int_equal(f.s.sections[TR_SIDE_D].pages, 0);
            discard(&f);
        }
    }
}

/* What is not there is not found, and the search goes to what follows. */
static void test_sidecar_between_entries(void **state)
{
    struct file f;
    struct tr_side_row row;

    (void)state;
    make(&f, 5000, PLAIN, &slot);
    qsort(f.jobs, f.count, sizeof *f.jobs, by_topic);
    for (uint32_t i = 0; i < f.count; i++) {
        struct tr_side_job key = f.jobs[i];

        key.rid++;
        assert_int_equal(seek(&f, TR_SIDE_T, &key, &row), i + 1 < f.count);
        if (i + 1 < f.count) {
            assert_entry(&f, TR_SIDE_T, &row, &f.jobs[i + 1]);
        }
    }
    qsort(f.jobs, f.count, sizeof *f.jobs, by_due);
    for (uint32_t i = 0; i < f.count; i++) {
        struct tr_side_job key = {.due_us = f.jobs[i].due_us};

        if (f.jobs[i].dead_seq == 0) {
            assert_true(seek(&f, TR_SIDE_D, &key, &row));
            assert_true(row.job.due_us == key.due_us);
        }
    }
    assert_false(seek(&f, TR_SIDE_D, &(struct tr_side_job){.due_us = UINT64_MAX}, &row));
    assert_true(seek(&f, TR_SIDE_D, &(struct tr_side_job){0}, &row));
    assert_true(row.job.due_us == f.s.due_first);
    assert_true(seek(&f, TR_SIDE_D, &(struct tr_side_job){.due_us = f.s.due_last}, &row));
    assert_false(seek(&f, TR_SIDE_R, &(struct tr_side_job){.rid = 2000000}, &row));
    assert_true(seek(&f, TR_SIDE_R, &(struct tr_side_job){.rid = 1}, &row));
    assert_true(row.job.rid == 1000000);
    discard(&f);
}

/* A key whose job was moved has several entries: the newest is found in the page that is named. */
static void test_sidecar_newest_of_a_key(void **state)
{
    struct file f;
    struct tr_side_input in;

    (void)state;
    make_jobs(&f, 3000, SAME, 1);
    for (uint32_t i = 0; i < f.count; i++) {
        f.jobs[i].keyed = true;
        f.jobs[i].key_hi = i / 1000; /* three keys, each over several pages */
        f.jobs[i].id = 1000 + i / 1000;
    }
    in = input_of(&f, &slot);
    build(&f, &in, 1);
    assert_int_equal(load(&f, &slot), TARRY_OK);
    assert_true(f.s.sections[TR_SIDE_K].pages > 1);
    for (uint32_t i = 0; i < 5; i++) {
        for (unsigned k = 0; k < 2; k++) {
            enum tr_side_section section = k == 0 ? TR_SIDE_K : TR_SIDE_I;
            struct tr_side_job key = {.key_hi = i, .id = 1000 + i, .rid = TR_SIDE_RID_MAX};
            struct tr_side_view v;
            struct tr_side_row row;

            assert_int_equal(see(&f, section, tr_sidecar_find(&f.s, section, &key), &v), TARRY_OK);
            assert_int_equal(tr_side_get(&v, tr_side_lower(&v, &key) - 1, &row), TARRY_OK);
            assert_true(row.job.rid == 1000999 + 1000 * (uint64_t)(i < 3 ? i : 2));
        }
    }
    discard(&f);
}

static void test_sidecar_frames(void **state)
{
    struct tr_side_job frames[3000];
    struct file f;
    struct tr_side_input in;
    struct tr_side_row row;
    struct tr_side_view v;

    (void)state;
    make_jobs(&f, 10, PLAIN, 1);
    memset(frames, 0, sizeof frames);
    for (uint32_t i = 0; i < 3000; i++) {
        frames[i].place = tr_place_of(0, (i + 1) * UINT64_C(4096), 0);
        frames[i].rid = 1000000 + i;
        frames[i].due_us = NOW + i * UINT64_C(100);
    }
    in = input_of(&f, &slot);
    in.frames = frames;
    in.frame_count = 3000;
    build(&f, &in, 100);
    assert_int_equal(load(&f, &slot), TARRY_OK);
    assert_true(f.s.sections[TR_SIDE_FRAMES].pages > 1);
    for (uint32_t i = 0; i < 3000; i++) {
        struct tr_side_job key = {
            .place = tr_place_of(0, (i + 1) * UINT64_C(4096) + (i % 2 == 0 ? 96 : 4000), 77)};
        uint32_t page = tr_sidecar_find(&f.s, TR_SIDE_FRAMES, &key);

        assert_int_equal(see(&f, TR_SIDE_FRAMES, page, &v), TARRY_OK);
        assert_int_equal(tr_side_get(&v, tr_side_lower(&v, &key) - 1, &row), TARRY_OK);
        assert_true(row.job.place == frames[i].place);
        assert_true(row.job.rid == frames[i].rid);
        assert_true(row.job.due_us == frames[i].due_us);
    }
    discard(&f);
}

/* One more job than a page takes, and one less. */
static void test_sidecar_pages_that_are_exactly_full(void **state)
{
    uint32_t changes = 0;
    uint32_t last[TR_SIDE_SECTIONS] = {0};

    (void)state;
    for (uint32_t n = 0; n < 1200; n++) {
        struct file f;
        bool changed = false;

        make(&f, n, n % 2 == 0 ? PLAIN : SAME, &slot);
        for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
            changed |= f.s.sections[i].pages != last[i];
            last[i] = f.s.sections[i].pages;
        }
        if (changed) {
            assert_holds(&f);
            changes++;
        }
        discard(&f);
    }
    assert_true(changes > 4);
}

/* Rows of a known width: pages have as many as fit, neither more nor less. */
static void test_sidecar_rows_of_a_page(void **state)
{
    struct tr_side_view v;
    struct file f;

    (void)state;
    make(&f, 4096, SAME, &slot);
    assert_int_equal(see(&f, TR_SIDE_R, 0, &v), TARRY_OK);
    assert_true(v.count * v.row_bits <= tr_side_row_room(TR_SIDE_R));
    assert_true((v.count + 1) * v.row_bits + v.count > tr_side_row_room(TR_SIDE_R) - 64);
    assert_int_equal(v.base[0], 1000000);
    assert_int_equal(v.bits[0], 11); /* rids in a row */
    assert_int_equal(see(&f, TR_SIDE_T, 0, &v), TARRY_OK);
    assert_int_equal(v.bits[0], 0); /* one topic */
    assert_int_equal(v.bits[1], 0); /* one due */
    assert_int_equal(v.bits[5], 0); /* no cells, no heads */
    assert_int_equal(v.bits[6], 0);
    discard(&f);
}

/* As promotion and merge give them. */
static int by_time(const void *a, const void *b)
{
    const struct tr_side_job *one = a;
    const struct tr_side_job *two = b;

    if ((one->dead_seq != 0) != (two->dead_seq != 0)) {
        return one->dead_seq != 0 ? 1 : -1;
    }
    if (one->dead_seq != two->dead_seq) {
        return one->dead_seq < two->dead_seq ? -1 : 1;
    }
    return by_due(a, b);
}

static int against_rid(const void *a, const void *b)
{
    return by_rid(b, a);
}

/* By due time only: those of equal due time are out of order. */
static int nearly_by_time(const void *a, const void *b)
{
    const struct tr_side_job *one = a;
    const struct tr_side_job *two = b;

    return one->due_us != two->due_us ? by_time(a, b) : against_rid(a, b);
}

/* The bytes that the jobs of f give in another order. */
static void assert_same_bytes(const struct file *f, const struct tr_side_of *of,
                              int (*order)(const void *a, const void *b))
{
    struct file other = {.count = f->count};
    struct tr_side_input in;

    tr_mem_init(&other.mem, 0);
    other.jobs = calloc(f->count, sizeof *other.jobs);
    assert_non_null(other.jobs);
    memcpy(other.jobs, f->jobs, f->count * sizeof *other.jobs);
    qsort(other.jobs, other.count, sizeof *other.jobs, order);
    in = input_of(&other, of);
    build(&other, &in, 1);
    assert_int_equal(f->pages, other.pages);
    assert_memory_equal(f->bytes, other.bytes, (size_t)f->pages * TR_SIDE_PAGE);
    free(other.jobs);
    free(other.bytes);
}

/* The format is for ever: a fixed input gives fixed bytes, whatever its order. */
static void test_sidecar_bytes_do_not_change(void **state)
{
    struct file f;
    struct tr_side_input in;

    (void)state;
    for (unsigned look = 0; look < LOOKS; look++) {
        for (unsigned i = 0; i < 2; i++) {
            const struct tr_side_of *of = i == 0 ? &slot : &group;

            make(&f, 1000, (enum look)look, of);
            assert_same_bytes(&f, of, by_rid);
            assert_same_bytes(&f, of, against_rid);
            assert_same_bytes(&f, of, by_time);
            assert_same_bytes(&f, of, nearly_by_time);
            discard(&f);
        }
    }
    make_jobs(&f, 1000, PLAIN, 1);
    in = input_of(&f, &slot);
    build(&f, &in, 1000);
    assert_int_equal(tr_crc(0, f.bytes, (size_t)f.pages * TR_SIDE_PAGE), UINT32_C(0x8af42bfb));
    discard(&f);
}

/* True when nothing complains: head, fences, and every page. */
static bool all_good(struct file *f, const struct tr_side_of *of)
{
    bool good = load(f, of) == TARRY_OK;

    for (unsigned i = 0; good && i < TR_SIDE_SECTIONS; i++) {
        for (uint32_t page = 0; page < f->s.sections[i].pages; page++) {
            struct tr_side_view v;

            good = good && see(f, (enum tr_side_section)i, page, &v) == TARRY_OK;
        }
    }
    tr_sidecar_fini(&f->s);
    assert_int_equal(f->mem.used_bytes, 0);
    return good;
}

static void test_sidecar_any_flipped_byte_is_seen(void **state)
{
    struct file f;

    (void)state;
    make(&f, 60, PLAIN, &slot);
    tr_sidecar_fini(&f.s);
    assert_true(all_good(&f, &slot));
    for (size_t i = 0; i < (size_t)f.pages * TR_SIDE_PAGE; i++) {
        f.bytes[i] ^= (uint8_t)(1u << i % 8);
        assert_false(all_good(&f, &slot));
        f.bytes[i] ^= (uint8_t)(1u << i % 8);
    }
    assert_true(all_good(&f, &slot));
    discard(&f);
}

static void test_sidecar_of_another_is_refused(void **state)
{
    struct tr_side_of others[5] = {slot, slot, slot, slot, group};
    struct file f;
    struct file g;

    (void)state;
    others[0].uuid[3] ^= 1;
    others[1].number++;
    others[2].nonce ^= 1;
    others[3].group = true;
    make(&f, 2000, PLAIN, &slot);
    tr_sidecar_fini(&f.s);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(load(&f, &others[i]), TARRY_EDAMAGED);
    }
    assert_int_equal(load(&f, &slot), TARRY_OK);
    for (unsigned i = 0; i < 5; i++) { /* the page of another at this place */
        struct tr_side_input in = input_of(&f, &others[i]);
        uint32_t page = f.s.sections[TR_SIDE_T].first;
        struct tr_side_view v;

        memset(&g, 0, sizeof g);
        build(&g, &in, 50);
        assert_int_equal(g.bytes[(size_t)page * TR_SIDE_PAGE + 8], TR_SIDE_T);
        assert_int_equal(tr_sidecar_check(&f.s, TR_SIDE_T, 0, g.bytes + page * TR_SIDE_PAGE),
                         TARRY_EDAMAGED);
        assert_int_equal(tr_sidecar_check(&f.s, TR_SIDE_T, 0, f.bytes + page * TR_SIDE_PAGE),
                         TARRY_OK);
        assert_int_equal(tr_sidecar_check(&f.s, TR_SIDE_T, 1, f.bytes + page * TR_SIDE_PAGE),
                         TARRY_EDAMAGED);
        assert_int_equal(tr_sidecar_view(&f.s, TR_SIDE_T, 1, f.bytes + page * TR_SIDE_PAGE, &v),
                         TARRY_EDAMAGED); /* its first entry is not the fence */
        free(g.bytes);
    }
    discard(&f);
}

/* A power cut leaves pages of two sidecars of the same segment: they do not mix. */
static void test_sidecar_pages_of_an_earlier_one_are_refused(void **state)
{
    struct file f;
    struct file g;
    struct tr_side_input in;

    (void)state;
    make(&f, 2000, PLAIN, &slot);
    memset(&g, 0, sizeof g);
    f.jobs[77].head = 1; /* all else is the same */
    in = input_of(&f, &slot);
    build(&g, &in, 50);
    assert_int_equal(f.pages, g.pages);
    for (uint32_t page = 0; page < f.s.sections[TR_SIDE_R].pages; page++) {
        uint64_t off = tr_sidecar_off(&f.s, TR_SIDE_R, page);

        assert_int_equal(tr_sidecar_check(&f.s, TR_SIDE_R, page, f.bytes + off), TARRY_OK);
        assert_int_equal(tr_sidecar_check(&f.s, TR_SIDE_R, page, g.bytes + off), TARRY_EDAMAGED);
    }
    free(g.bytes);
    discard(&f);
}

/* Right crcs over nonsense: an error or an answer, but never a step outside. */
static void test_sidecar_numbers_are_not_believed(void **state)
{
    struct tr_rng rng = {4};
    struct file f;

    (void)state;
    make(&f, 300, PLAIN, &slot);
    for (unsigned round = 0; round < 20000; round++) {
        uint32_t page = (uint32_t)tr_rng_below(&rng, f.pages);
        uint8_t *bytes = malloc(TR_SIDE_PAGE); /* of its own, so that a sanitizer sees its end */

        assert_non_null(bytes);
        memcpy(bytes, f.bytes + (size_t)page * TR_SIDE_PAGE, TR_SIDE_PAGE);
        for (uint64_t n = 1 + tr_rng_below(&rng, 4); n > 0; n--) {
            uint64_t at = tr_rng_below(&rng, 4) == 0 ? tr_rng_below(&rng, TR_SIDE_PAGE)
                                                     : 8 + tr_rng_below(&rng, 200);

            bytes[at] = (uint8_t)tr_rng_next(&rng);
        }
        if (page == 0) {
            struct tr_sidecar s;

            tr_put_le(bytes + 4, tr_side_crc(tr_side_head_salt(&slot), 0, bytes), 4);
            if (tr_sidecar_head(&s, &slot, bytes) == TARRY_OK) {
                assert_true(s.page_count < 1000);
            }
        } else if (page <= f.s.fence_pages) {
            struct tr_sidecar s = f.s;

            s.fences = NULL;
            tr_put_le(bytes + 4, tr_side_crc(s.salt, page, bytes), 4);
            if (s.fence_pages == 1 && tr_sidecar_load(&s, &f.mem, bytes) == TARRY_OK) {
                tr_sidecar_fini(&s);
            }
        } else {
            for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
                struct tr_side_view v;
                struct tr_side_row row;

                if (f.s.sections[i].pages == 0 ||
                    tr_sidecar_view(&f.s, (enum tr_side_section)i, 0, bytes, &v) != TARRY_OK) {
                    continue;
                }
                (void)tr_side_lower(&v, &f.jobs[round % f.count]);
                for (uint32_t k = 0; k <= v.count; k++) {
                    (void)!tr_side_get(&v, k, &row);
                }
            }
        }
        free(bytes);
    }
    discard(&f);
}

static void test_sidecar_of_a_newer_version(void **state)
{
    static const struct {
        uint32_t at;
        uint32_t size;
        uint64_t value;
        int want;
    } heads[] = {
        {8, 2, 2, TARRY_EVERSION},    {8, 2, 0, TARRY_EDAMAGED},     {10, 2, 195, TARRY_EDAMAGED},
        {12, 4, 1, TARRY_EVERSION},   {32, 4, 1, TARRY_EDAMAGED},    {36, 4, 3, TARRY_EDAMAGED},
        {40, 8, 1, TARRY_EDAMAGED},   {48, 8, 1, TARRY_EDAMAGED},    {96, 4, 0, TARRY_EDAMAGED},
        {100, 4, 9, TARRY_EDAMAGED},  {104, 4, 999, TARRY_EDAMAGED}, {108, 4, 0, TARRY_EDAMAGED},
        {112, 4, 0, TARRY_EDAMAGED},  {116, 4, 1, TARRY_EDAMAGED},   {120, 4, 1, TARRY_EDAMAGED},
        {140, 4, 99, TARRY_EDAMAGED}, {144, 4, 1, TARRY_EDAMAGED},
    };
    uint8_t page[TR_SIDE_PAGE];
    struct file f;
    struct tr_sidecar s;

    (void)state;
    make(&f, 300, PLAIN, &slot);
    for (unsigned i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        memcpy(page, f.bytes, sizeof page);
        tr_put_le(page + heads[i].at, heads[i].value, heads[i].size);
        tr_put_le(page + 4, tr_side_crc(tr_side_head_salt(&slot), 0, page), 4);
        assert_int_equal(tr_sidecar_head(&s, &slot, page), heads[i].want);
    }
    discard(&f);
}

static void test_sidecar_without_memory(void **state)
{
    struct file f;
    struct tr_side_build b;
    struct tr_side_input in;
    uint64_t fail = 0;
    int err = TARRY_ENOMEM;

    (void)state;
    make_jobs(&f, 1000, PLAIN, 1);
    in = input_of(&f, &slot);
    while (err == TARRY_ENOMEM) {
        tr_mem_init(&f.mem, 0);
        f.mem.fail_at = ++fail;
        err = tr_side_build_init(&b, &f.mem, &in);
        if (err == TARRY_ENOMEM) {
            assert_int_equal(f.mem.used_bytes, 0);
        }
    }
    assert_int_equal(err, TARRY_OK);
    assert_true(fail > 8);
    assert_true(f.mem.used_bytes <= 1000 * 64);
    tr_side_build_fini(&b);
    f.mem.fail_at = 0;
    build(&f, &in, 9);
    f.mem.fail_at = f.mem.calls + 1;
    assert_int_equal(load(&f, &slot), TARRY_ENOMEM);
    assert_int_equal(tr_sidecar_load(&f.s, &f.mem, f.bytes + TR_SIDE_PAGE), TARRY_OK);
    assert_holds(&f);
    discard(&f);
}

/* A million jobs: what one costs in each section, and in memory. */
static void measure(const char *what, uint32_t count, const struct tr_side_of *of, bool keyed)
{
    static const char *const names[] = {"FRAMES", "TOPICS", "T", "R", "K", "I", "D"};
    struct file f;
    struct tr_side_input in;
    struct tr_rng rng = {9};

    make_jobs(&f, count, SAME, 1);
    for (uint32_t i = 0; i < count; i++) {
        struct tr_side_job *job = &f.jobs[i];

        job->topic = 1 + i % 10;
        job->due_us = NOW + i * UINT64_C(100) + tr_rng_below(&rng, UINT64_C(21600000000));
        job->keyed = keyed;
        job->key_hi = keyed ? tr_rng_next(&rng) : 0;
        job->key_lo = keyed ? (uint16_t)tr_rng_next(&rng) : 0;
    }
    if (of->group) { /* places by due, as in runs */
        qsort(f.jobs, count, sizeof *f.jobs, by_due);
        for (uint64_t i = 0, off = 0; i < count; i++) {
            uint64_t len = tr_place_len(f.jobs[i].place);

            f.jobs[i].place = tr_place_of((uint32_t)(off >> 28), off & ((1 << 28) - 1), len);
            off += len;
        }
        qsort(f.jobs, count, sizeof *f.jobs, by_rid);
    }
    in = input_of(&f, of);
    build(&f, &in, 1000);
    assert_int_equal(load(&f, of), TARRY_OK);
    printf("%s, %u jobs, bytes a job: file %.2f, memory %.3f", what, count,
           (double)f.pages * TR_SIDE_PAGE / count, (double)f.s.fence_bytes / count);
    for (unsigned i = 0; i < TR_SIDE_SECTIONS; i++) {
        if (f.s.sections[i].pages > 1) {
            printf(", %s %.2f", names[i], (double)f.s.sections[i].pages * TR_SIDE_PAGE / count);
        }
    }
    printf("\n");
    assert_true((double)f.s.sections[TR_SIDE_T].pages * TR_SIDE_PAGE / count < 12);
    assert_true((double)f.s.sections[TR_SIDE_R].pages * TR_SIDE_PAGE / count < 4.5);
    assert_true((double)f.s.sections[TR_SIDE_D].pages * TR_SIDE_PAGE / count < 12);
    assert_true((double)f.s.fence_bytes / count < 0.15);
    discard(&f);
}

static void test_sidecar_of_a_million_jobs(void **state)
{
    (void)state;
    measure("slot", 100000, &slot, false);
    measure("slot", 1000000, &slot, false);
    measure("group", 1000000, &group, false);
    measure("group, keyed", 1000000, &group, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sidecar_finds_everything),
        cmocka_unit_test(test_sidecar_between_entries),
        cmocka_unit_test(test_sidecar_newest_of_a_key),
        cmocka_unit_test(test_sidecar_frames),
        cmocka_unit_test(test_sidecar_pages_that_are_exactly_full),
        cmocka_unit_test(test_sidecar_rows_of_a_page),
        cmocka_unit_test(test_sidecar_bytes_do_not_change),
        cmocka_unit_test(test_sidecar_any_flipped_byte_is_seen),
        cmocka_unit_test(test_sidecar_of_another_is_refused),
        cmocka_unit_test(test_sidecar_pages_of_an_earlier_one_are_refused),
        cmocka_unit_test(test_sidecar_numbers_are_not_believed),
        cmocka_unit_test(test_sidecar_of_a_newer_version),
        cmocka_unit_test(test_sidecar_without_memory),
        cmocka_unit_test(test_sidecar_of_a_million_jobs),
    };

    return cmocka_run_group_tests_name("sidecar", tests, NULL, NULL);
}
