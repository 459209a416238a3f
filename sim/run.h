#ifndef TR_SIM_RUN_H
#define TR_SIM_RUN_H

/*
 * One seed: a disk, an engine, clients and an oracle, until all is drained or a promise is broken.
 * See run.c (events, crashes) and drain.c (the end).
 */

#include "backup.h"
#include "engine/frame.h"
#include "oracle.h"
#include "report.h"
#include "sim_disk.h"
#include "swarm.h"
#include "workload.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What a sweep wants to happen, besides what the seed says. All zero: nothing. */
struct sim_plan {
    bool calm;         /* the seed's own crashes, clock steps and faults are left out */
    unsigned steps;    /* 0: as the seed says */
    uint64_t crash_at; /* disk op, counted from the first open on */
    bool power;        /* ... as a power cut */
    uint64_t damage;   /* seed of its dice */
    uint64_t again_at; /* disk op of the recovery at which it is cut again */
    uint64_t fault_at; /* n-th disk op that fails */
    int fault_code;    /* as sim_faults.fail_code */
    bool fault_on;     /* all after it fail too */
    uint64_t mem_at;   /* n-th allocation that fails */
    bool mem_on;
    bool in_recovery; /* fault_at, mem_at count in the recovery after a kill at the end */
};

/* Sums over seeds. */
#define SIM_TOTAL_LIST(X)                                                                          \
    X(runs)                                                                                        \
    X(steps)                                                                                       \
    X(requests)                                                                                    \
    X(handouts)                                                                                    \
    X(refused)                                                                                     \
    X(batches)                                                                                     \
    X(recoveries)                                                                                  \
    X(crashes)                                                                                     \
    X(cut_recoveries)                                                                              \
    X(reopens)                                                                                     \
    X(failures)                                                                                    \
    X(refusals)                                                                                    \
    X(checkpoints)                                                                                 \
    X(more_memory)                                                                                 \
    X(relogged)                                                                                    \
    X(promotions)                                                                                  \
    X(merges)                                                                                      \
    X(backups)                                                                                     \
    X(clock_steps)

struct sim_totals {
#define X(name) uint64_t name;
    SIM_TOTAL_LIST(X)
#undef X
};

/* What the meters said last; see meters.c. */
struct sim_meters {
    uint64_t starts; /* since this start */
    uint64_t sums[TR_METERED_COUNT];
    uint64_t other[TR_METERED_COUNT];
};

struct sim_run {
    struct sim_oracle oracle;
    struct sim_work work;
    struct sim_report report;
    struct sim_params params;
    struct sim_totals totals; /* never set back */
    struct sim_disk *disk;
    struct tr_engine *engine;
    struct tr_mem mem;
    struct tr_rng rng;
    struct tr_now now;
    struct sim_plan plan;
    struct sim_backup backup;
    struct sim_meters meters;
    uint64_t seed;
    uint64_t step;
    unsigned depth;       /* of requests from inside `done` */
    uint64_t ops_at_open; /* disk ops before the last open */
    uint64_t starts;
    uint64_t dir_errors;   /* of the disk, before this run */
    uint64_t errors;       /* the same of all kinds */
    uint64_t written;      /* weak sync: what a kill may not lose */
    uint8_t uuid[TR_UUID]; /* of the store, once something in it is damaged */
    bool over;             /* ended well before its end: damage was found and reported */
    bool cut;              /* the power, or an operation, at least once */
    bool capped;           /* the disk is full */
    bool reached;          /* what the plan wants has happened */
    unsigned deaths;       /* how often the disk stopped at a planned operation */
    bool faults_off;       /* the drain has begun */
    bool trace;
};

struct sim_run *sim_run_new(void);
void sim_run_free(struct sim_run *r);

/* Plays a seed; false when a promise was broken: r->report. Gives its digest. */
bool sim_run_seed(struct sim_run *r, const struct sim_swarm *swarm, uint64_t seed,
                  const struct sim_plan *plan, uint64_t *digest);

/* What to print when it was broken. */
void sim_run_print(struct sim_run *r, FILE *out);

/* The engine's config of this run. */
void sim_run_config(struct sim_run *r, struct tr_engine_config *c);

/* May the disk answer with errors? */
bool sim_run_faulty(const struct sim_run *r);

/* For drain.c: single steps. */
void sim_run_submit(struct sim_run *r, struct sim_ask *a);
void sim_run_turn(struct sim_run *r);
void sim_run_settle(struct sim_run *r);
void sim_run_pass(struct sim_run *r, uint64_t us); /* both clocks go on */
void sim_run_crash(struct sim_run *r, bool power);
void sim_run_reopen(struct sim_run *r);
bool sim_run_stopped(const struct sim_run *r); /* failed or over */

/* rot.c: damages one place of the disk. */
void sim_run_rot(struct sim_run *r, bool then_crash);

/* rot.c: damages the only frame of a slot that has no header. False: there is none. */
bool sim_run_rot_frame(struct sim_run *r);

/* rot.c: does a frame know a newer manifest than the newest good one? Then it must be refused. */
bool sim_run_knows_newer(const struct sim_run *r);

/* Were there errors of directory operations in this run? Then a file may be left over. */
bool sim_run_dir_errors(const struct sim_run *r);

/* offline.c: what check and --repair do, between two starts. */
void sim_offline_look(struct sim_run *r);
void sim_offline_repair(struct sim_run *r);

/* meters.c: goes through all of them. */
void sim_meters_look(struct sim_run *r);

/* tune.c: the config is read again. */
void sim_tune(struct sim_run *r);

/* drain.c: faults stop, everything must come out, nothing may be left. */
void sim_run_drain(struct sim_run *r);

#endif
