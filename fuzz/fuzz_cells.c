/*
 * Forecast cells from a hostile checkpoint: the first byte says where the input is divided, and
 * each half is what one row is said to hold. Nothing may be read past the end, the sums must be
 * right whatever was taken in, and what was taken in must be written and read again as the same.
 */

#include "base/err.h"
#include "engine/cells.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good) {
        abort();
    }
}

/* As many cells of a walk as fit, as the checkpoint writes them; 0 at its end. */
static size_t write_some(const struct tr_cells *c, struct tr_cells_walk *w, uint8_t *out,
                         size_t room)
{
    uint64_t before = 0;
    struct tr_cell cell;
    size_t len = 0;

    while (room - len >= TR_CELL_BYTES_MAX && tr_cells_next(c, w, &cell)) {
        len += tr_cells_put(out + len, cell.when, cell.count, &before);
    }
    return len;
}

static void copy_row(const struct tr_cells *from, uint32_t row, struct tr_cells *to)
{
    struct tr_cells_walk walk = tr_cells_from(from, row, 0);
    uint32_t fresh = tr_cells_new_row(to);
    uint8_t bytes[PIECE];
    size_t len;

    while ((len = write_some(from, &walk, bytes, sizeof bytes)) > 0) {
        check(tr_cells_decode(to, fresh, bytes, len) == TARRY_OK);
    }
}

static void compare(const struct tr_cells *a, const struct tr_cells *b, uint32_t row)
{
    struct tr_cells_walk wa = tr_cells_from(a, row, 0);
    struct tr_cells_walk wb = wa;
    struct tr_cell x;
    struct tr_cell y;

    while (tr_cells_next(a, &wa, &x)) {
        check(tr_cells_next(b, &wb, &y) && memcmp(&x, &y, sizeof x) == 0);
    }
    check(!tr_cells_next(b, &wb, &y));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tr_mem mem;
    struct tr_cells cells;
    struct tr_cells copy;
    size_t first;

    if (size < 1) {
        return 0;
    }
    first = data[0] < size - 1 ? data[0] : size - 1;
    tr_mem_init(&mem, 0);
    tr_cells_init(&cells, &mem, 1);
    tr_cells_init(&copy, &mem, 1);
    (void)!tr_cells_decode(&cells, tr_cells_new_row(&cells), data + 1, first);
    (void)!tr_cells_decode(&cells, tr_cells_new_row(&cells), data + 1 + first, size - 1 - first);
    check(tr_cells_ok(&cells));
    for (uint32_t row = 1; row <= 2; row++) {
        copy_row(&cells, row, &copy);
    }
    for (uint32_t row = TR_CELLS_ALL; row <= 2; row++) {
        compare(&cells, &copy, row);
    }
    tr_cells_fini(&cells);
    tr_cells_fini(&copy);
    check(mem.used_bytes == 0);
    return 0;
}
