#ifndef TR_SIM_CLUSTER_COMMITS_H
#define TR_SIM_CLUSTER_COMMITS_H

/*
 * Nodes that have a database: what it commits goes to the judge. See commits.c.
 */

#include "cluster/engine.h"

#include <stdint.h>

struct cluster;
struct node;

void commits_init(struct cluster *c, uint64_t seed);
void commits_fini(struct cluster *c);
/* A process begins, with these settings; and ends. */
void commits_start(struct cluster *c, struct node *n, struct tr_cluster_config *config);
void commits_stop(struct cluster *c, struct node *n);
/* What the world does to the database, and to Redis when it may. */
void commits_fate(struct cluster *c);
/* No faults any more. */
void commits_calm(struct cluster *c);
uint64_t commits_next(const struct cluster *c);
void commits_step(struct cluster *c);
/* All was calm for two passes: Redis has what the rows say. */
void commits_check(struct cluster *c);

/* Jobs that are pushed while rows are loaded come out when they are due. */
void commits_race(struct cluster *c);
/* C7, without faults. */
void commits_counts(struct cluster *c);
/* And an answer that takes long. */
void commits_stall(struct cluster *c);

#endif
