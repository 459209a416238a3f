#ifndef TR_SIM_SWEEP_H
#define TR_SIM_SWEEP_H

/* Exhaustive runs: a crash at every disk op, a fault at every op and allocation. See sweep.c. */

#include "run.h"

#include <stdbool.h>
#include <stdint.h>

/* Over n workloads from seed `first` on. False when a promise was broken, which was printed. */
bool sim_sweep_crash(struct sim_run *r, uint64_t first, uint64_t n, uint64_t every);
bool sim_sweep_fault(struct sim_run *r, uint64_t first, uint64_t n, uint64_t every);

#endif
