#ifndef TR_SIM_CLUSTER_FRESH_H
#define TR_SIM_CLUSTER_FRESH_H

/*
 * Topics that are made while others wait for them. See fresh.c.
 */

struct cluster;

void fresh_race(struct cluster *c);
/* What a node has committed while it did not reach Redis is not forgotten there. */
void fresh_cut(struct cluster *c);

#endif
