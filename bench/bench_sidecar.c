/* Sidecars: one of a slot with COUNT jobs, all keyed, is built; then each job is looked up by rid,
 * by way of R and T, and by its key; its pages are in memory and were checked before. */

#include "base/check.h"
#include "base/err.h"
#include "base/rng.h"
#include "bench/micro.h"
#include "engine/sidecar.h"

#include <stdlib.h>

static struct tr_side_job *make_jobs(uint64_t count)
{
    struct tr_side_job *jobs = calloc(count, sizeof *jobs);
    struct tr_rng rng = {1};

    TR_CHECK(jobs != NULL);
    for (uint64_t i = 0; i < count; i++) {
        jobs[i].rid = 1000000 + i;
        jobs[i].id = jobs[i].rid;
        jobs[i].topic = 1 + (uint32_t)(i % 10);
        jobs[i].due_us = UINT64_C(1760000000000000) + tr_rng_below(&rng, UINT64_C(21600000000));
        jobs[i].place = tr_place_of(0, i * 160 % TR_PLACE_OFF_MAX, 100 + tr_rng_below(&rng, 60));
        jobs[i].keyed = true;
        jobs[i].key_hi = tr_rng_next(&rng);
        jobs[i].key_lo = (uint16_t)tr_rng_next(&rng);
    }
    return jobs;
}

static uint8_t *build(struct tr_mem *mem, const struct tr_side_input *in, struct micro *m)
{
    struct tr_side_build b;
    uint8_t *bytes;

    micro_begin(m);
    TR_CHECK(tr_side_build_init(&b, mem, in) == TARRY_OK);
    tr_side_build_prepare(&b);
    micro_end(m);
    bytes = malloc((size_t)b.page_count * TR_SIDE_PAGE);
    TR_CHECK(bytes != NULL);
    micro_begin(m);
    TR_CHECK(tr_side_build_pages(&b, bytes, b.page_count) == b.page_count);
    tr_side_build_fini(&b);
    micro_end(m);
    return bytes;
}

static void get(const struct tr_sidecar *s, const uint8_t *bytes, enum tr_side_section section,
                const struct tr_side_job *key, struct tr_side_row *row)
{
    uint32_t page = tr_sidecar_find(s, section, key);
    struct tr_side_view v;

    bytes += tr_sidecar_off(s, section, page);
    TR_CHECK(tr_sidecar_view(s, section, page, bytes, &v) == TARRY_OK);
    TR_CHECK(tr_side_get(&v, tr_side_lower(&v, key), row) == TARRY_OK);
}

static uint64_t look_up(const struct tr_sidecar *s, const uint8_t *bytes,
                        const struct tr_side_job *job)
{
    struct tr_side_row row;
    struct tr_side_view v;

    get(s, bytes, TR_SIDE_K, job, &row);
    get(s, bytes, TR_SIDE_R, &row.job, &row);
    TR_CHECK(tr_sidecar_view(s, TR_SIDE_T, row.t.page,
                             bytes + tr_sidecar_off(s, TR_SIDE_T, row.t.page), &v) == TARRY_OK);
    TR_CHECK(tr_side_get(&v, row.t.index, &row) == TARRY_OK);
    TR_CHECK(row.job.rid == job->rid);
    return row.job.place;
}

int main(int argc, char **argv)
{
    struct micro m = micro_init("sidecar-build", argc, argv, 20000, 0xfd5c4380);
    struct micro find = micro_init("sidecar-find", argc, argv, 20000, UINT64_C(0x6702f83ec4a4158a));
    struct tr_side_job *jobs = make_jobs(m.count);
    struct tr_side_input in = {.of = {.uuid = "the store itself", .number = 1, .nonce = 2},
                               .jobs = jobs,
                               .job_count = (uint32_t)m.count,
                               .keyed_max = (uint32_t)m.count};
    struct tr_rng rng = {2};
    struct tr_mem mem;
    struct tr_sidecar s;
    uint8_t *bytes;
    uint64_t sum = 0;
    int bad;

    tr_mem_init(&mem, 0);
    bytes = build(&mem, &in, &m);
    TR_CHECK(tr_sidecar_head(&s, &in.of, bytes) == TARRY_OK);
    TR_CHECK(tr_sidecar_load(&s, &mem, bytes + TR_SIDE_PAGE) == TARRY_OK);
    micro_begin(&find);
    for (uint64_t i = 0; i < find.count; i++) {
        sum = micro_sum(sum, look_up(&s, bytes, &jobs[tr_rng_below(&rng, find.count)]));
    }
    micro_end(&find);
    bad = micro_print(&m, m.count, s.salt);
    tr_sidecar_fini(&s);
    free(bytes);
    free(jobs);
    return micro_print(&find, find.count, sum) | bad;
}
