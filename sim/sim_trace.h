#ifndef TR_SIM_TRACE_H
#define TR_SIM_TRACE_H

/*
 * The last operations of the simulated disk, for people, and a hash of all of them, to compare
 * two runs of a seed. The hash never sees a pointer. Threads: none.
 */

#include "port/disk.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    SIM_TRACE_LEN = 200,
    SIM_LANE_RUN = TR_LANE_COUNT, /* not submitted, but run */
};

struct sim_trace_entry {
    uint64_t op_no; /* 0: a remark between ops */
    int lane;
    int op;
    char name[TR_IO_NAME_MAX];
    uint64_t off;
    uint64_t len;
    uint64_t got;
    int status;
    const char *note; /* borrowed for ever: a literal */
};

struct sim_trace {
    uint64_t hash;
    uint64_t count;
    struct sim_trace_entry ring[SIM_TRACE_LEN];
};

void sim_trace_init(struct sim_trace *t, uint64_t seed);

/* Into the hash alone. */
void sim_trace_mix(struct sim_trace *t, uint64_t v);
void sim_trace_mix_bytes(struct sim_trace *t, const void *p, size_t len);

/* Something that happened between ops. */
void sim_trace_remark(struct sim_trace *t, const char *what, const char *name, uint64_t off);

void sim_trace_add(struct sim_trace *t, const struct sim_trace_entry *e);

void sim_trace_print(const struct sim_trace *t, FILE *out);

#endif
