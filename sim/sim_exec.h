#ifndef TR_SIM_EXEC_H
#define TR_SIM_EXEC_H

/*
 * The part of the simulated disk that does things: one request at a time, with faults. See
 * sim_exec.c. Only sim_disk.c uses it. Threads: none.
 */

#include "sim_disk.h"
#include "sim_files.h"
#include "sim_trace.h"

enum { SIM_HANDLES = 1024 };

struct sim_handle {
    struct sim_file *file; /* NULL: free */
    int use;               /* part of the number, so that a closed one is noticed */
    bool locks;
};

struct sim_exec {
    struct sim_files files;
    struct sim_faults faults;
    struct tr_rng rng;
    uint64_t cap_bytes;
    bool dead;
    uint64_t op_count;
    struct sim_handle handles[SIM_HANDLES];
    struct sim_trace trace;
    const char *note; /* the fault in the op being executed, for the trace */
    struct sim_place damage[SIM_DAMAGE_MAX];
    size_t damage_count;
    struct sim_place guard_hit;
    char path[TR_IO_NAME_MAX]; /* of the file that a request names */
};

/* Executes io, sets its result. lane: of enum tr_lane, or SIM_LANE_RUN. */
void sim_exec_run(struct sim_exec *x, struct tr_io *io, int lane);

/* Does a random part of a WRITE or ZERO, which is not an op. False: nothing was done. */
bool sim_exec_part(struct sim_exec *x, const struct tr_io *io);

void sim_exec_close_all(struct sim_exec *x);

/* True with this chance, in percent. */
bool sim_exec_dice(struct sim_exec *x, uint32_t percent);

/* prefix NULL: every name does. */
bool sim_exec_begins(const char *name, const char *prefix);

struct sim_place sim_exec_place(const char *name, uint64_t off, uint64_t len, const char *what);
void sim_exec_damage(struct sim_exec *x, struct sim_place where);

#endif
