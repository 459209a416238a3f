#ifndef TR_SIM_CLUSTER_ROWS_H
#define TR_SIM_CLUSTER_ROWS_H

/*
 * Nodes that change rows of a database, at the same time, and what may come of that. See rows.c.
 */

#include <stdint.h>

/* One seed. NULL: all is well; else what went wrong, good until the next one. */
const char *rows_run(uint64_t seed, unsigned bug);

/* Deliberate bugs, each of which must be noticed: its name, NULL: there are no more. From 1 on. */
const char *rows_bug(unsigned bug);

#endif
