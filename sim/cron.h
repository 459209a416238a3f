#ifndef TR_SIM_CRON_H
#define TR_SIM_CRON_H

/* The swarm `cron`: schedules, their jobs, and crashes. See cron.c. */

#include "report.h"

#include <stdbool.h>
#include <stdint.h>

/* Plays a seed; false when a promise was broken. */
bool sim_cron_seed(struct sim_report *report, uint64_t seed, bool trace, uint64_t *digest);

#endif
