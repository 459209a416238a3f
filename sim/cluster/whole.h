#ifndef TR_SIM_CLUSTER_WHOLE_H
#define TR_SIM_CLUSTER_WHOLE_H

/*
 * Lists, and purges of a topic. See whole.c.
 */

#include "judge.h"

struct cluster;
struct node;
struct ask;

/* A client wants a page, or a topic without jobs. */
void whole_list(struct cluster *c, struct node *n);
void whole_purge(struct cluster *c, struct node *n);
/* It was answered. */
void whole_told(struct cluster *c, struct ask *a);
/* The script of a purge ran. */
void whole_ran(struct judge *j, const struct world_call *call);
/* All is calm: pages have all jobs, each once, in order. */
void whole_check(struct cluster *c, struct node *n);

#endif
