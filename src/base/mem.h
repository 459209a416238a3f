#ifndef TR_BASE_MEM_H
#define TR_BASE_MEM_H

/*
 * All memory of pure code, under one budget. See mem.c.
 *
 * Whoever frees says how much it was; so nothing but the bytes themselves is kept, and a wrong
 * size is found at once when used_bytes is not 0 at the end. Threads: one budget, one thread.
 */

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_mem {
    uint64_t limit_bytes; /* 0: no limit */
    uint64_t used_bytes;
    uint64_t calls; /* allocations asked for so far */
    uint64_t
        fail_at;  /* tests: the call with this number fails (calls are counted from 1); 0: none */
    bool fail_on; /* tests: and so do all calls after it */
};

void tr_mem_init(struct tr_mem *m, uint64_t limit_bytes);

/* Zeroed bytes, or NULL when the budget, the system or the test says no. size > 0. */
TR_MUST_USE void *tr_mem_alloc(struct tr_mem *m, size_t size);

/* Grows or shrinks p (NULL with old 0 is an allocation); new bytes are zero. NULL: p is as it was.
 */
TR_MUST_USE void *tr_mem_resize(struct tr_mem *m, void *p, size_t old, size_t size);

/* The same, but new bytes are left as they are: for large arrays, so that growing touches no page.
 */
TR_MUST_USE void *tr_mem_stretch(struct tr_mem *m, void *p, size_t old, size_t size);

/* True when so many bytes leave a quarter of the budget (or 1 GiB): asked before something new is
 * taken in, which can be refused. */
bool tr_mem_spare(const struct tr_mem *m, size_t size);

/* The same for an eighth (or 512 MiB): asked before what is there is brought back from the disk,
 * which can wait. So that goes on when nothing new is taken, and what must go on at once (handing
 * out, taking back) still finds memory. */
bool tr_mem_room(const struct tr_mem *m, size_t size);

/* p may be NULL. */
void tr_mem_free(struct tr_mem *m, void *p, size_t size);

#endif
