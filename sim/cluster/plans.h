#ifndef TR_SIM_CLUSTER_PLANS_H
#define TR_SIM_CLUSTER_PLANS_H

/* Schedules in the simulation: what clients ask of them, and what must come of it. See plans.c. */

#include "node.h"

/* A client does something with one. */
void plans_client(struct cluster *c, struct node *n);
/* All of them end. */
void plans_drop(struct cluster *c);
/* In the calm: ticks come, also when their owner dies; `after` goes on when its job ends. */
void plans_check(struct cluster *c);

#endif
