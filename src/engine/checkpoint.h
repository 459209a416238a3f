#ifndef TR_ENGINE_CHECKPOINT_H
#define TR_ENGINE_CHECKPOINT_H

/*
 * A checkpoint: the durable state at the end of one batch, as pages of 8 KiB. See checkpoint.c.
 *
 * Freezing copies what the checkpoint needs out of the state in one go; after that the pages do
 * not change, whatever happens to the state while they are written.
 */

#include "base/check.h"
#include "base/mem.h"
#include "engine/frame.h"
#include "engine/state.h"

#include <stddef.h>
#include <stdint.h>

enum { TR_PAGE = 8192 };

struct tr_pages {
    struct tr_mem *mem;
    uint8_t *bytes;
    size_t room;  /* bytes */
    size_t count; /* pages */
    uint64_t batch;
};

void tr_pages_fini(struct tr_pages *p);

/* Makes the pages of s at the end of `batch`. TARRY_ENOMEM: p is empty. */
TR_MUST_USE int tr_checkpoint_freeze(struct tr_pages *p, const struct tr_state *s,
                                     const uint8_t uuid[TR_UUID], uint64_t batch);

/* Bytes that a checkpoint can need at most with so many jobs, all altered, and topics. */
uint64_t tr_checkpoint_bound(uint64_t jobs, uint64_t topics);

/* The number of pages that the first page names, or 0 when it is no page of this batch. */
uint64_t tr_checkpoint_pages(const uint8_t *page, const uint8_t uuid[TR_UUID], uint64_t batch);

/*
 * Looks at every page. TARRY_EDAMAGED: one is bad; *page is its number. TARRY_EVERSION.
 */
TR_MUST_USE int tr_checkpoint_check(const uint8_t *bytes, size_t pages, uint64_t batch,
                                    size_t *page);

/* Gives checked pages to an empty state: L, topics, counters. */
TR_MUST_USE int tr_checkpoint_load(const uint8_t *bytes, size_t pages, struct tr_state *s);

/* Then, when the jobs of the log up to that batch have been met: the changes of altered jobs. */
TR_MUST_USE int tr_checkpoint_load_changes(const uint8_t *bytes, size_t pages, struct tr_state *s);

#endif
