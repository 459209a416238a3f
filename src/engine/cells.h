#ifndef TR_ENGINE_CELLS_H
#define TR_ENGINE_CELLS_H

/*
 * Cells of the forecast: how many jobs are due in which hour, by row. See cells.c for the tree.
 *
 * A row is a topic's; row 0 is the sum of all others and kept here. A job is counted in the cell of
 * its hour or, when there are too many cells, of its (UTC) day; its record says in which
 * (TR_RF_CELL_HOUR, TR_RF_CELL_DAY), so that the same one is counted down. Only cells that are not
 * 0 exist: about 15 bytes each, and nothing more for a row.
 *
 * Rows have numbers from tr_cells_new_row, not those of topics: a purge gives its topic another row
 * in an instant and drops the old one in slices. Until that has ended, row 0 still has its jobs.
 */

#include "base/check.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TR_CELLS_ALL = 0, /* the row of all topics */
    TR_CELLS_MAX_DEFAULT = 4 << 20,
    TR_CELL_BYTES_MAX = 10, /* of one cell that tr_cells_put writes */
};

#define TR_CELL_HOUR_US UINT64_C(3600000000)
#define TR_CELL_HOUR_MAX UINT32_C(0x7fffffff) /* jobs due later are counted here */

struct tr_cells_leaf;
struct tr_cells_branch;
struct tr_cells_top;

/* Somebody adds up a row in slices, and wants to hear of what changes behind his back: the cells of
 * the row before `at`. */
struct tr_cells_watch {
    uint32_t row;
    uint64_t at;
    void *ctx;
    void (*changed)(void *ctx, uint32_t when, int64_t more);
};

struct tr_cells {
    struct tr_mem *mem;
    struct tr_cells_top *top; /* branches, in order */
    size_t top_count;
    size_t top_room;
    struct tr_cells_leaf *spare_leaves[2]; /* made ahead, for one call of add */
    struct tr_cells_branch *spare_branches[2];
    uint32_t *hints;   /* by a hash of the key: where it was last found; see cells.c */
    size_t hint_room;  /* a power of two, or 0 */
    uint64_t hint_at;  /* with so many cells there are to be more */
    uintptr_t *leaves; /* by the number that hints have: a leaf, or the next free number * 2 + 1 */
    uint32_t leaf_room;
    uint32_t leaf_free; /* the first of those, or 0 */
    uint64_t jobs;      /* counted now */
    uint64_t count;     /* cells, of row 0 too */
    uint64_t count_max;
    uint64_t hour_us;             /* TR_CELL_HOUR_US; tests have shorter ones */
    uint32_t day;                 /* hours in a day */
    struct tr_cells_watch *watch; /* or NULL */
    uint32_t last_row;
};

/* What a walk gives. */
struct tr_cell {
    uint32_t hour;  /* since 1970; of a day its first */
    uint32_t when;  /* of tr_cells_when */
    uint32_t kind;  /* TR_RF_CELL_HOUR or TR_RF_CELL_DAY */
    uint32_t count; /* jobs, not 0 */
};

struct tr_cells_walk {
    uint32_t row;
    uint32_t from; /* see cells.c */
    uint64_t at;
};

/* From count_max cells on, a job that needs a new one is counted in its day. */
void tr_cells_init(struct tr_cells *c, struct tr_mem *mem, uint64_t count_max);
void tr_cells_fini(struct tr_cells *c);

/* A number for an empty row, never given before. Not durable: a new one at each start. */
uint32_t tr_cells_new_row(struct tr_cells *c);

/*
 * The next add, of whatever job, cannot fail for lack of memory. *kind: in which cell this job
 * should be counted; in recovery its record decides. TARRY_ENOMEM; TARRY_EFULL: more than 2^32 - 1
 * jobs of its hour and of its day. In both cases nothing has changed.
 */
TR_MUST_USE int tr_cells_make(struct tr_cells *c, uint32_t row, uint64_t due_us, uint32_t *kind);

/* Counts a job, in its row and in row 0. After make. */
void tr_cells_add(struct tr_cells *c, uint32_t row, uint64_t due_us, uint32_t kind);

/* Where a job is counted: its cell among those of a row; and how many are. */
uint32_t tr_cells_when(const struct tr_cells *c, uint64_t due_us, uint32_t kind);
uint32_t tr_cells_count(const struct tr_cells *c, uint32_t row, uint32_t when);

/* Counts it down again. Never needs memory. False: there is no such cell, and nothing changed. */
TR_MUST_USE bool tr_cells_sub(struct tr_cells *c, uint32_t row, uint64_t due_us, uint32_t kind);

/* Takes the cells of a row away, and its jobs out of row 0. One of *work for each cell; true when
 * all are gone. Nothing may be counted in that row any more. */
TR_MUST_USE bool tr_cells_drop(struct tr_cells *c, uint32_t row, unsigned *work);

/* A walk over the cells of a row that end after the given hour began, in order of time; a day
 * stands before its hours. The cells may change between two calls. */
struct tr_cells_walk tr_cells_from(const struct tr_cells *c, uint32_t row, uint32_t hour);
bool tr_cells_next(const struct tr_cells *c, struct tr_cells_walk *w, struct tr_cell *cell);

/* Writes one cell of a row; *before is 0 at first, and goes on with it. Gives the bytes, at most
 * TR_CELL_BYTES_MAX. */
size_t tr_cells_put(uint8_t *out, uint32_t when, uint32_t count, uint64_t *before);

/* Adds to a row, and to row 0, what was written from one *before of 0 on. TARRY_EDAMAGED: the bytes
 * make no sense, or have a cell that is there. Those, or TARRY_ENOMEM: a part may be added. */
TR_MUST_USE int tr_cells_decode(struct tr_cells *c, uint32_t row, const uint8_t *p, size_t len);

bool tr_cells_ok(const struct tr_cells *c);

#endif
