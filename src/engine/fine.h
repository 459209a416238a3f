#ifndef TR_ENGINE_FINE_H
#define TR_ENGINE_FINE_H

/*
 * Seconds and minutes of the forecast, while somebody asks for them. See fine.c.
 *
 * Not durable, and not there at all as a rule. It counts the live, not dead jobs that are due
 * within its window, each in the cell of its second or, when there are many cells, of its minute.
 * Which jobs it has counted is a bitmap of rids (C).
 */

#include "base/bitmap.h"
#include "base/check.h"
#include "base/mem.h"
#include "engine/cells.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_tally;

struct tr_fine {
    struct tr_mem *mem;
    bool on;
    bool lost;        /* it could not count somebody: of no use until it is begun again */
    uint64_t from_us; /* due times from here on, a whole minute, by which cells are numbered, */
    uint64_t until_us;
    struct tr_cells cells;    /* rows are those of the hours; `hour` is a second, `day` a minute */
    struct tr_bitmap counted; /* C */
    struct tr_bitmap minutes; /* those of them that are counted in a minute */
};

/* cells_max: from half of it on, cells are minutes; with more it is lost. */
void tr_fine_begin(struct tr_fine *f, struct tr_mem *mem, uint64_t second_us, uint64_t cells_max);
void tr_fine_end(struct tr_fine *f);

/* A job is there: counted, if it is due within the window and was not yet. It is not there any
 * more, or not like that: not counted, if it was. */
void tr_fine_add(struct tr_fine *f, const struct tr_tally *at);
void tr_fine_sub(struct tr_fine *f, const struct tr_tally *at);

#endif
