/*
 * Who counts: whatever happens to a job while the table is on tells it (tally.c, state.c), and a
 * scan (forecast.c) tells it of all the others. C says who has been counted, so it does not matter
 * who comes first, or how often: a scan may race with pushes, kills, promotions and loads, and is
 * simply done again for a longer window. A kill subtracts only what was added.
 */

#include "engine/fine.h"

#include "base/err.h"
#include "base/mutant.h"
#include "engine/record.h"
#include "engine/tally.h"

enum { SECONDS = 60 }; /* of a minute */

void tr_fine_begin(struct tr_fine *f, struct tr_mem *mem, uint64_t second_us, uint64_t cells_max)
{
    *f = (struct tr_fine){.mem = mem, .on = true};
    tr_cells_init(&f->cells, mem, cells_max);
    f->cells.hour_us = second_us;
    f->cells.day = SECONDS;
    f->cells.last_row = UINT32_MAX;
    tr_bitmap_init(&f->counted, mem);
    tr_bitmap_init(&f->minutes, mem);
}

void tr_fine_end(struct tr_fine *f)
{
    if (f->on) {
        tr_cells_fini(&f->cells);
        tr_bitmap_fini(&f->counted);
        tr_bitmap_fini(&f->minutes);
        *f = (struct tr_fine){.on = false};
    }
}

void tr_fine_add(struct tr_fine *f, const struct tr_tally *at)
{
    uint32_t kind = TR_RF_CELL_HOUR;
    uint32_t row = at->topic->row;

    if (!f->on || f->lost || at->dead || at->topic->purged || at->due_us < f->from_us ||
        at->due_us >= f->until_us || tr_bitmap_test(&f->counted, at->rid)) {
        return;
    }
    f->lost = tr_cells_make(&f->cells, row, at->due_us - f->from_us, &kind) != TARRY_OK ||
              f->cells.count > 2 * f->cells.count_max ||
              tr_bitmap_set(&f->counted, at->rid) != TARRY_OK ||
              (kind == TR_RF_CELL_DAY && tr_bitmap_set(&f->minutes, at->rid) != TARRY_OK);
    if (!f->lost) {
        tr_cells_add(&f->cells, row, at->due_us - f->from_us, kind);
    }
}

void tr_fine_sub(struct tr_fine *f, const struct tr_tally *at)
{
    if (!f->on || f->lost || at->dead || at->topic->purged) {
        return;
    }
    if (!tr_bitmap_clear(&f->counted, at->rid) && !TR_MUTANT(MINUTE_WITHOUT_C)) {
        return;
    }
    f->lost =
        !tr_cells_sub(&f->cells, at->topic->row, at->due_us - f->from_us,
                      tr_bitmap_clear(&f->minutes, at->rid) ? TR_RF_CELL_DAY : TR_RF_CELL_HOUR);
}
