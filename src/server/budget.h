#ifndef TR_SERVER_BUDGET_H
#define TR_SERVER_BUDGET_H

/*
 * How memory.limit is cut. See budget.c.
 */

#include "server/config.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_budget {
    uint64_t all;           /* memory.limit in bytes; 0: none, and of the engine, too */
    uint64_t engine;        /* jobs, tables, indexes, batches, */
    uint64_t bodies;        /* among them bodies of jobs that have a record, */
    uint64_t near_max;      /* jobs that are due soon, */
    uint64_t far_max;       /* and far ones whose records are in the log */
    uint64_t connections;   /* what clients send and are sent */
    uint64_t history;       /* what happened to jobs */
    unsigned promote_slots; /* log files that become run files at a time */
    bool less_history;      /* than history.bytes says */
};

/* ram_bytes: what this process may use of the machine's memory. */
struct tr_budget tr_budget_cut(const struct tr_config *c, uint64_t ram_bytes);

#endif
