#ifndef TR_ENGINE_VERIFY_H
#define TR_ENGINE_VERIFY_H

/*
 * Does all of a store agree with itself? See verify.c.
 */

#include "base/check.h"
#include "engine/finding.h"

#include <stdint.h>

struct tr_engine;

struct tr_verify_sum {
    uint64_t jobs; /* alive, */
    uint64_t dead; /* and of these in state dead */
    uint64_t keyed;
    uint64_t topics;
    uint64_t log_records; /* in all segments of the log */
    uint64_t run_records; /* in all runs, of jobs that are gone, too */
    uint64_t groups;
    uint64_t index_pages;
    uint64_t lost;     /* findings about jobs that are lost, */
    uint64_t findings; /* and all */
};

struct tr_verify_calls {
    void *ctx;
    tr_found_fn *found;
    void (*progress)(void *ctx, uint64_t done, uint64_t all); /* bytes; or NULL */
};

/*
 * Reads everything; blocks. e was opened read-only and has had no turn yet, so it is as the disk
 * says. TARRY_OK also when something was found: *sum says how much. TARRY_ENOMEM.
 */
TR_MUST_USE int tr_verify_run(struct tr_engine *e, const struct tr_verify_calls *calls,
                              struct tr_verify_sum *sum);

#endif
