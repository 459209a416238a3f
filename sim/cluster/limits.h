#ifndef TR_SIM_CLUSTER_LIMITS_H
#define TR_SIM_CLUSTER_LIMITS_H

/*
 * Topics with limits, and one with two slots. See limits.c.
 */

#include "judge.h"

struct cluster;

/* They are set, before anything goes wrong; and taken away when all is over. */
void limits_set(struct cluster *c);
void limits_off(struct cluster *c);
/* A take has handed out so many that it had not before. */
void limits_took(struct judge *j, const struct world_call *call, unsigned jobs);
/* A failover may bring a bucket back that was fuller. */
void limits_undone(struct judge *j, unsigned server);
/* Is this one of the topic's slots? */
bool limits_in(const struct judge *j, unsigned topic, unsigned slot);

#endif
