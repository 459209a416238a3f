/*
 * What the cells cost a push: COUNT jobs of 100 topics, due within 60 days, are pushed into a state
 * without a log, once with cells and once without; then all are killed. With an argument every part
 * has a line on stderr, and so have the bytes for each cell.
 */

#include "base/check.h"
#include "base/err.h"
#include "base/rng.h"
#include "bench/micro.h"
#include "bench/watch.h"
#include "engine/state.h"

#include <inttypes.h>
#include <stdio.h>

enum { TOPICS = 100, HOURS = 60 * 24, SMALL = 20000 };

#define FROM_US UINT64_C(1700000000000000)

static void name_topics(struct tr_state *s)
{
    for (uint32_t i = 1; i <= TOPICS; i++) {
        uint8_t name[2] = {(uint8_t)('a' + i / 26), (uint8_t)('a' + i % 26)};
        struct tr_record rec = {.type = TR_REC_TOPIC, .topic = i, .name = {name, sizeof name}};
        struct tr_job *none;

        TR_CHECK(tr_state_apply(s, &rec, 1, &none) == TARRY_OK);
    }
}

static struct tr_record push_of(uint64_t rid)
{
    struct tr_rng rng = {rid};

    return (struct tr_record){.type = TR_REC_PUSH,
                              .mask = TR_FIELD(DUE) | TR_FIELD(CREATED) | TR_FIELD(TOPIC) |
                                      TR_FIELD(PRIORITY) | TR_FIELD(TTR) | TR_FIELD(BODY),
                              .rid = rid,
                              .due_us = FROM_US + tr_rng_below(&rng, HOURS * TR_CELL_HOUR_US),
                              .created_us = FROM_US,
                              .topic = 1 + (uint32_t)tr_rng_below(&rng, TOPICS),
                              .ttr_us = 60000000};
}

static void tell(const struct micro *m, const char *part, uint64_t ns)
{
    if (m->want == 0) {
        (void)fprintf(stderr, "cells part=%s ns_op=%.1f\n", part, (double)ns / (double)m->count);
    }
}

/* Pushes all, kills all; what was counted in between. */
static uint64_t run(struct micro *m, bool cells)
{
    struct tr_mem mem;
    struct tr_state s;
    uint64_t begin;
    uint64_t sum = 0;

    tr_mem_init(&mem, 0);
    tr_state_init(&s, &mem);
    s.recells = !cells;
    name_topics(&s);
    begin = watch_now_ns();
    micro_begin(m);
    for (uint64_t rid = 1; rid <= m->count; rid++) {
        struct tr_record rec = push_of(rid);
        struct tr_job *job;

        TR_CHECK(tr_state_apply(&s, &rec, 1, &job) == TARRY_OK);
    }
    tell(m, cells ? "push" : "push_without", watch_now_ns() - begin);
    sum = micro_sum(sum, s.cells.jobs);
    sum = micro_sum(sum, s.cells.count);
    if (m->want == 0 && cells) {
        (void)fprintf(stderr, "cells count=%" PRIu64 "\n", s.cells.count);
    }
    begin = watch_now_ns();
    for (uint64_t rid = 1; rid <= m->count; rid++) {
        struct tr_kill kill = tr_tally_kill(tr_jobs_by_rid(&s.jobs, rid));

        TR_CHECK(tr_state_kill(&s, &kill, 2));
    }
    micro_end(m);
    tell(m, cells ? "kill" : "kill_without", watch_now_ns() - begin);
    sum = micro_sum(sum, s.cells.count);
    tr_state_fini(&s);
    return sum;
}

/* Memory of cells alone. */
static void weigh(const struct micro *m)
{
    struct tr_mem mem;
    struct tr_cells c;
    uint32_t kind;

    tr_mem_init(&mem, 0);
    tr_cells_init(&c, &mem, TR_CELLS_MAX_DEFAULT);
    for (uint32_t i = 0; i < TOPICS; i++) {
        (void)tr_cells_new_row(&c);
    }
    for (uint64_t rid = 1; rid <= m->count; rid++) {
        struct tr_record rec = push_of(rid);

        TR_CHECK(tr_cells_make(&c, rec.topic, rec.due_us, &kind) == TARRY_OK);
        tr_cells_add(&c, rec.topic, rec.due_us, kind);
    }
    if (m->want == 0) {
        (void)fprintf(stderr, "cells bytes_cell=%.1f\n", (double)mem.used_bytes / (double)c.count);
    }
    tr_cells_fini(&c);
}

int main(int argc, char **argv)
{
    struct micro m = micro_init("cells", argc, argv, SMALL, 0xe5bb634537614a08u);
    uint64_t sum = run(&m, false);

    sum = micro_sum(sum, run(&m, true));
    weigh(&m);
    return micro_print(&m, 4 * m.count, sum);
}
