#ifndef TR_SIM_CLUSTER_OUTS_H
#define TR_SIM_CLUSTER_OUTS_H

/* Topics that deliver, in the simulation. See outs.c. */

#include "node.h"

/* A node was told that a topic's outlet may be its own; ctx: the node. */
void outs_told(void *ctx, uint32_t topic);
/* A client sets or unsets that a topic delivers. */
void outs_client(struct cluster *c, struct node *n);
/* In the calm: one node has the outlet, also when that one dies; none has it when it is unset. */
void outs_check(struct cluster *c);

#endif
