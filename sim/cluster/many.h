#ifndef TR_SIM_CLUSTER_MANY_H
#define TR_SIM_CLUSTER_MANY_H

/*
 * Bulks: a node cancels, shifts or kicks all jobs that match, one bulk at a time. See many.c.
 */

#include "judge.h"
#include "port/sql.h"

struct cluster;
struct node;
struct ask;

/* A client asks for one, or goes on with one that ended at its limit. */
void many_ask(struct cluster *c, struct node *n);
/* It was answered. */
void many_told(struct cluster *c, struct ask *a);
/* Its node is gone. */
void many_gone(struct cluster *c, unsigned node);

/* With a database: a row of one was committed; its clock was set. */
void many_committed(struct judge *j, unsigned node, const struct tr_sql_item *item);
void many_stepped(struct judge *j);

/* A script ran, */
void many_ran(struct judge *j, const struct world_call *call, const struct tr_answer *a);
/* or a failover undoes some. */
void many_undone(struct judge *j);

#endif
