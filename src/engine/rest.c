/*
 * When nothing has happened for a while, memory that a load has left behind is given back: chunks
 * of jobs in slices, then the world is told, which gives back what it has.
 *
 * That takes malloc a fifth of a second after millions of jobs, in one piece. So it waits until no
 * job and no lease is due soon.
 */

#include "engine/inner.h"

enum {
    TRIM_UNITS = 16,   /* of work, to give a chunk of jobs back */
    CALM_US = 2000000, /* the world may take its time with what it is told */
};

/* When the next job or lease is due, as far as memory knows; boot time. */
static uint64_t next_due(const struct tr_engine *e)
{
    uint64_t due = tr_wheel_next(&e->due);
    uint64_t crowd = tr_wheel_next(&e->crowd);
    uint64_t lease = tr_clock_span_boot(&e->clock, tr_wheel_next(&e->leases));
    uint64_t at = tr_clock_boot_at(&e->clock, due < crowd ? due : crowd);

    return at < lease ? at : lease;
}

void tr_rest_begin(struct tr_engine *e)
{
    e->trimming = e->space.idle;
    e->trim = e->state.jobs.chunk_count;
}

/* Gives back what a load has left behind, before the world is told, which may then be busy with
 * that for a while. A read may remember a job. */
void tr_rest_step(struct tr_engine *e)
{
    if (!e->trimming) {
        return;
    }
    while (e->trim > 0 && e->space.idle && e->read_count == 0) {
        if (!tr_engine_spend(e)) {
            return;
        }
        if (tr_jobs_trim(&e->state.jobs, --e->trim)) {
            (void)tr_engine_charge(e, TRIM_UNITS);
        }
    }
    e->trimming = false;
    if (e->space.idle && next_due(e) < e->now.boot_us + CALM_US) {
        e->calm_at = e->now.boot_us + CALM_US; /* or that one would be late */
    } else if (e->space.idle && e->config.idle != NULL) {
        e->config.idle(e->config.ctx);
    }
}

void tr_rest_stat(const struct tr_engine *e, struct tr_engine_stat *s)
{
    s->memory_used = e->mem->used_bytes;
    s->memory_limit = e->mem->limit_bytes;
    s->memory_full = !tr_mem_spare(e->mem, TR_BLOCK);
}
