/* Cells of the forecast against plain tables of counts; what make promises; bytes for the
 * checkpoint and damage in them; and how many bytes a cell takes. */

#include "base/bytes.h"
#include "base/err.h"
#include "base/rng.h"
#include "engine/cells.h"
#include "engine/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 40, DAYS = 20, HOURS = DAYS * 24, FIRST_HOUR = 480000 };

/* One number for each cell that there could be. */
struct model {
    uint32_t hours[ROWS][HOURS];
    uint32_t days[ROWS][DAYS];
};

static uint64_t due_at(unsigned hour)
{
    return (FIRST_HOUR + hour) * TR_CELL_HOUR_US + hour * 1000003 % TR_CELL_HOUR_US;
}

/* What a walk over this row, or over all when row is ROWS, from this hour on must give. */
static size_t model_cells(const struct model *m, unsigned row, unsigned from, struct tr_cell *out)
{
    size_t n = 0;

    for (unsigned h = from / 24 * 24; h < HOURS; h++) {
        uint32_t hours = 0;
        uint32_t days = 0;

        for (unsigned r = row < ROWS ? row : 0; r < (row < ROWS ? row + 1 : ROWS); r++) {
            hours += m->hours[r][h];
            days += h % 24 == 0 ? m->days[r][h / 24] : 0;
        }
        if (days > 0) {
            out[n++] =
                (struct tr_cell){.hour = FIRST_HOUR + h, .kind = TR_RF_CELL_DAY, .count = days};
        }
        if (hours > 0 && h >= from) {
            out[n++] =
                (struct tr_cell){.hour = FIRST_HOUR + h, .kind = TR_RF_CELL_HOUR, .count = hours};
        }
    }
    return n;
}

static void expect_row(const struct tr_cells *c, uint32_t row, const struct model *m,
                       unsigned number, unsigned from)
{
    static struct tr_cell want[HOURS + DAYS];
    struct tr_cells_walk walk = tr_cells_from(c, row, FIRST_HOUR + from);
    size_t count = model_cells(m, number, from, want);
    struct tr_cell cell;

    for (size_t i = 0; i < count; i++) {
        assert_true(tr_cells_next(c, &walk, &cell));
        assert_int_equal(cell.hour, want[i].hour);
        assert_int_equal(cell.kind, want[i].kind);
        assert_int_equal(cell.count, want[i].count);
    }
    assert_false(tr_cells_next(c, &walk, &cell));
    assert_false(tr_cells_next(c, &walk, &cell));
}

static uint32_t add(struct tr_cells *c, uint32_t row, uint64_t due_us)
{
    uint32_t kind;

    assert_int_equal(tr_cells_make(c, row, due_us, &kind), TARRY_OK);
    tr_cells_add(c, row, due_us, kind);
    return kind;
}

static void test_cells_count_up_and_down(void **state)
{
    struct tr_cells_walk walk = {.row = TR_CELLS_ALL};
    struct tr_mem mem;
    struct tr_cells c;
    struct tr_cell cell;
    uint32_t a;
    uint32_t b;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_cells_init(&c, &mem, 100);
    a = tr_cells_new_row(&c);
    b = tr_cells_new_row(&c);
    assert_true(a != b && a != TR_CELLS_ALL && b != TR_CELLS_ALL);
    assert_false(tr_cells_next(&c, &walk, &cell));
    assert_false(tr_cells_sub(&c, a, due_at(5), TR_RF_CELL_HOUR));
    assert_int_equal(add(&c, a, due_at(5)), TR_RF_CELL_HOUR);
    assert_int_equal(add(&c, b, due_at(5)), TR_RF_CELL_HOUR);
    assert_int_equal(add(&c, b, UINT64_MAX), TR_RF_CELL_HOUR); /* beyond the last hour */
    assert_int_equal(c.count, 5);
    assert_false(tr_cells_sub(&c, a, due_at(5), TR_RF_CELL_DAY));
    assert_false(tr_cells_sub(&c, a, due_at(6), TR_RF_CELL_HOUR));
    assert_true(tr_cells_next(&c, &walk, &cell));
    assert_int_equal(cell.hour, FIRST_HOUR + 5);
    assert_int_equal(cell.count, 2);
    assert_true(tr_cells_sub(&c, a, due_at(5), TR_RF_CELL_HOUR)); /* in the midst of a walk */
    assert_true(tr_cells_next(&c, &walk, &cell));
    assert_int_equal(cell.hour, TR_CELL_HOUR_MAX);
    assert_false(tr_cells_next(&c, &walk, &cell));
    assert_true(tr_cells_sub(&c, b, UINT64_MAX - 7, TR_RF_CELL_HOUR));
    assert_true(tr_cells_sub(&c, b, due_at(5), TR_RF_CELL_HOUR));
    assert_int_equal(c.count, 0);
    assert_true(tr_cells_ok(&c));
    tr_cells_fini(&c);
    assert_true(mem.used_bytes == 0);
}

/* At the limit a job that needs a new cell goes to its day; others still go to their hours. */
static void test_cells_go_by_day_at_the_limit(void **state)
{
    struct tr_mem mem;
    struct tr_cells c;
    uint32_t row;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_cells_init(&c, &mem, 4);
    row = tr_cells_new_row(&c);
    assert_int_equal(add(&c, row, due_at(1)), TR_RF_CELL_HOUR);
    assert_int_equal(add(&c, row, due_at(2)), TR_RF_CELL_HOUR);
    assert_int_equal(add(&c, row, due_at(3)), TR_RF_CELL_DAY);
    assert_int_equal(add(&c, row, due_at(4)), TR_RF_CELL_DAY);
    assert_int_equal(add(&c, row, due_at(2)), TR_RF_CELL_HOUR);
    assert_int_equal(c.count, 6);
    assert_true(tr_cells_sub(&c, row, due_at(1), TR_RF_CELL_HOUR));
    assert_true(tr_cells_sub(&c, row, due_at(23), TR_RF_CELL_DAY));
    assert_true(tr_cells_sub(&c, row, due_at(4), TR_RF_CELL_DAY));
    assert_false(tr_cells_sub(&c, row, due_at(4), TR_RF_CELL_DAY));
    assert_int_equal(add(&c, row, due_at(3)), TR_RF_CELL_HOUR);
    tr_cells_fini(&c);
    assert_true(mem.used_bytes == 0);
}

/* A cell counts to 2^32 - 1: then the day does, then nobody. */
static void test_cells_end_with_an_error(void **state)
{
    struct tr_mem mem;
    struct tr_cells c;
    uint8_t bytes[2 * TR_CELL_BYTES_MAX];
    uint32_t kind;
    uint32_t row;
    size_t len;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_cells_init(&c, &mem, 100);
    row = tr_cells_new_row(&c);
    len = tr_put_varint(bytes, (FIRST_HOUR + 5) * 2 + 2);
    len += tr_put_varint(bytes + len, UINT32_MAX - 1);
    assert_int_equal(tr_cells_decode(&c, row, bytes, len), TARRY_OK);
    assert_int_equal(add(&c, tr_cells_new_row(&c), due_at(5)), TR_RF_CELL_HOUR);
    assert_int_equal(add(&c, row, due_at(5)), TR_RF_CELL_DAY); /* all is full, this row is not */
    len = tr_put_varint(bytes, FIRST_HOUR * 2 + 1);
    len += tr_put_varint(bytes + len, UINT32_MAX - 1);
    assert_int_equal(tr_cells_decode(&c, row, bytes, len), TARRY_EDAMAGED); /* there is one */
    assert_int_equal(tr_cells_decode(&c, tr_cells_new_row(&c), bytes, len), TARRY_OK);
    assert_int_equal(tr_cells_make(&c, row, due_at(5), &kind), TARRY_EFULL);
    assert_int_equal(tr_cells_decode(&c, tr_cells_new_row(&c), bytes, len), TARRY_EDAMAGED);
    assert_true(tr_cells_sub(&c, row, due_at(6), TR_RF_CELL_DAY));
    assert_int_equal(add(&c, row, due_at(5)), TR_RF_CELL_DAY);
    assert_true(tr_cells_ok(&c));
    tr_cells_fini(&c);
    assert_true(mem.used_bytes == 0);
}

/* Every request for memory is refused once; once make has succeeded, add needs none. */
static void test_cells_make_is_a_promise(void **state)
{
    struct tr_rng rng = {.state = 3};
    struct tr_mem mem;
    struct tr_cells c;
    unsigned refused = 0;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_cells_init(&c, &mem, UINT64_MAX);
    c.last_row = UINT32_MAX - 2; /* as far as rows go */
    for (unsigned i = 0; i < 60000; i++) {
        uint32_t row = 1 + (uint32_t)tr_rng_next(&rng) % (UINT32_MAX - 2);
        uint32_t kind;

        for (uint64_t nth = 1;; nth++) {
            mem.fail_at = mem.calls + nth;
            if (tr_cells_make(&c, row, due_at(i % HOURS), &kind) == TARRY_OK) {
                break;
            }
            refused++;
        }
        mem.fail_at = mem.calls + 1;
        mem.fail_on = true;
        tr_cells_add(&c, row, due_at(i % HOURS), kind);
        mem.fail_on = false;
        assert_int_equal(c.jobs, i + 1);
    }
    assert_true(refused > 500);
    assert_true(tr_cells_ok(&c));
    mem.fail_at = mem.calls + 1;
    mem.fail_on = true;
    rng.state = 3;
    for (unsigned i = 0; i < 60000; i++) {
        uint32_t row = 1 + (uint32_t)tr_rng_next(&rng) % (UINT32_MAX - 2);

        assert_true(tr_cells_sub(&c, row, due_at(i % HOURS), TR_RF_CELL_HOUR));
        assert_true(i % 5000 != 0 || tr_cells_ok(&c));
    }
    assert_int_equal(c.count, 0);
    tr_cells_fini(&c);
    assert_true(mem.used_bytes == 0);
}

/* As time goes by: the first cells of the tree go, new ones come at the end. */
static void test_cells_follow_the_time(void **state)
{
    enum { AHEAD = 40000, ALL = 120000 };
    struct tr_mem mem;
    struct tr_cells c;
    uint32_t row;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_cells_init(&c, &mem, UINT64_MAX);
    row = tr_cells_new_row(&c);
    for (unsigned i = 0; i < ALL + AHEAD; i++) {
        if (i < ALL) {
            assert_int_equal(add(&c, row, i * TR_CELL_HOUR_US), TR_RF_CELL_HOUR);
        }
        if (i >= AHEAD) {
            assert_true(tr_cells_sub(&c, row, (i - AHEAD) * TR_CELL_HOUR_US, TR_RF_CELL_HOUR));
        }
        assert_true(i % 5000 != 0 || tr_cells_ok(&c));
        assert_true(mem.used_bytes < 2 * AHEAD * 24);
    }
    assert_int_equal(c.count, 0);
    tr_cells_fini(&c);
    assert_true(mem.used_bytes == 0);
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

/* Writes all rows in pieces of `room` bytes and reads them into others. */
static void copy_cells(const struct tr_cells *from, const uint32_t *rows, struct tr_cells *to,
                       size_t room)
{
    uint8_t *bytes = malloc(room);

    for (unsigned r = 0; r < ROWS; r++) {
        struct tr_cells_walk walk = tr_cells_from(from, rows[r], 0);
        uint32_t row = tr_cells_new_row(to);
        size_t len;

        while ((len = write_some(from, &walk, bytes, room)) > 0) {
            assert_true(len <= room);
            assert_int_equal(tr_cells_decode(to, row, bytes, len), TARRY_OK);
        }
    }
    free(bytes);
}

static void expect_all(const struct tr_cells *c, const uint32_t *rows, const struct model *m)
{
    for (unsigned r = 0; r < ROWS; r++) {
        expect_row(c, rows[r], m, r, 0);
    }
    expect_row(c, TR_CELLS_ALL, m, ROWS, 0);
    assert_true(tr_cells_ok(c));
}

/* One random job comes or goes. */
static void do_one(struct tr_cells *c, const uint32_t *rows, struct model *m, struct tr_rng *rng,
                   bool more)
{
    unsigned r = (unsigned)tr_rng_below(rng, ROWS);
    unsigned h = (unsigned)tr_rng_below(rng, HOURS);
    uint32_t kind = (uint32_t)tr_rng_below(rng, 2);

    if (more) {
        kind = add(c, rows[r], due_at(h));
    }
    if (kind == TR_RF_CELL_HOUR) {
        assert_true(more || tr_cells_sub(c, rows[r], due_at(h), kind) == (m->hours[r][h] > 0));
        m->hours[r][h] += more ? 1 : m->hours[r][h] > 0 ? UINT32_MAX : 0;
    } else {
        assert_true(more || tr_cells_sub(c, rows[r], due_at(h), kind) == (m->days[r][h / 24] > 0));
        m->days[r][h / 24] += more ? 1 : m->days[r][h / 24] > 0 ? UINT32_MAX : 0;
    }
}

/* A purge: the topic gets another row at once, and the old one goes in slices while jobs come. */
static void purge(struct tr_cells *c, uint32_t *rows, struct model *m, struct tr_rng *rng)
{
    unsigned r = (unsigned)tr_rng_below(rng, ROWS);
    uint32_t old = rows[r];
    unsigned work = 0;

    rows[r] = tr_cells_new_row(c);
    memset(m->hours[r], 0, sizeof m->hours[r]);
    memset(m->days[r], 0, sizeof m->days[r]);
    assert_false(tr_cells_drop(c, old, &work));
    do {
        uint64_t before = c->count;

        work = 1 + (unsigned)tr_rng_below(rng, 50);
        if (tr_cells_drop(c, old, &work)) {
            return;
        }
        assert_int_equal(work, 0);
        assert_true(before >= c->count && before - c->count <= 100);
        do_one(c, rows, m, rng, true);
        expect_row(c, rows[r], m, r, 0);
    } while (true);
}

static void test_cells_agree_with_model(void **state)
{
    struct model *m = malloc(sizeof *m);

    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct tr_rng rng = {.state = seed};
        uint32_t rows[ROWS];
        uint32_t copied[ROWS];
        struct tr_mem mem;
        struct tr_cells c;
        struct tr_cells copy;

        memset(m, 0, sizeof *m);
        tr_mem_init(&mem, 0);
        tr_cells_init(&c, &mem, seed % 2 == 0 ? UINT64_MAX : 5000);
        for (unsigned r = 0; r < ROWS; r++) {
            rows[r] = tr_cells_new_row(&c);
            copied[r] = r + 1;
        }
        for (unsigned turn = 0; turn < 200000; turn++) {
            bool more = tr_rng_below(&rng, 8) < (turn / 50000 % 2 == 0 ? 7U : 1U);

            do_one(&c, rows, m, &rng, more);
            if (turn % 997 == 0) {
                unsigned r = (unsigned)tr_rng_below(&rng, ROWS);

                expect_row(&c, rows[r], m, r, (unsigned)tr_rng_below(&rng, HOURS));
            }
            if (turn % 20011 == 0) {
                purge(&c, rows, m, &rng);
                expect_all(&c, rows, m);
                tr_cells_init(&copy, &mem, 1);
                copy_cells(&c, rows, &copy, TR_CELL_BYTES_MAX + tr_rng_below(&rng, 300));
                expect_all(&copy, copied, m);
                assert_int_equal(copy.count, c.count);
                tr_cells_fini(&copy);
            }
        }
        expect_all(&c, rows, m);
        tr_cells_fini(&c);
        assert_true(mem.used_bytes == 0);
    }
    free(m);
}

static void test_cells_decode_refuses_nonsense(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {"\x02", 1},                     /* no count */
        {"\x02\x80", 2},                 /* half a count */
        {"\x00\x01", 2},                 /* no step */
        {"\x02\x00", 2},                 /* a cell that is 0 */
        {"\x03\x01", 2},                 /* a day that begins at 1 o'clock */
        {"\x02\x01\x00\x01", 4},         /* the same again */
        {"\x81\x80\x80\x80\x10\x01", 6}, /* a time beyond the last */
        {"\x02\x80\x80\x80\x80\x10", 6}, /* more than 2^32 - 1 jobs */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", 11},
        {"\x02\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", 13},
    };
    struct tr_rng rng = {.state = 1};
    struct tr_mem mem;
    struct tr_cells c;

    (void)state;
    tr_mem_init(&mem, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tr_cells_init(&c, &mem, 100);
        assert_int_equal(
            tr_cells_decode(&c, tr_cells_new_row(&c), (const uint8_t *)bad[i].bytes, bad[i].len),
            TARRY_EDAMAGED);
        assert_true(tr_cells_ok(&c));
        tr_cells_fini(&c);
    }
    tr_cells_init(&c, &mem, 100);
    for (unsigned i = 0; i < 20000; i++) { /* bytes at random */
        uint8_t bytes[24];
        size_t len = tr_rng_below(&rng, sizeof bytes + 1);
        int err;

        for (size_t b = 0; b < len; b++) {
            bytes[b] = (uint8_t)tr_rng_below(&rng, i % 2 == 0 ? 8 : 256);
        }
        mem.fail_at = i % 5 == 0 ? mem.calls + 1 : 0;
        err = tr_cells_decode(&c, tr_cells_new_row(&c), bytes, len);
        assert_true(err == TARRY_OK || err == TARRY_EDAMAGED || err == TARRY_ENOMEM);
    }
    assert_true(tr_cells_ok(&c));
    tr_cells_fini(&c);
    assert_true(mem.used_bytes == 0);
}

/* Bytes for each cell when a million rows have one each, and when cells come in any order. */
static void test_cells_are_small(void **state)
{
    enum { MANY = 1000000 };
    struct tr_rng rng = {.state = 9};
    struct tr_mem mem;
    struct tr_cells c;
    double each;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_cells_init(&c, &mem, UINT64_MAX);
    for (unsigned i = 0; i < MANY; i++) {
        (void)add(&c, tr_cells_new_row(&c), due_at((unsigned)tr_rng_below(&rng, HOURS)));
    }
    each = (double)mem.used_bytes / MANY;
    print_message("bytes a cell: %.2f, a row with one cell each\n", each);
    assert_true(each < 14);
    tr_cells_fini(&c);
    c.last_row = 1000;
    for (unsigned i = 0; i < MANY; i++) {
        (void)add(&c, 1 + (uint32_t)tr_rng_below(&rng, 1000),
                  tr_rng_below(&rng, 10000) * TR_CELL_HOUR_US);
    }
    each = (double)mem.used_bytes / (double)c.count;
    print_message("bytes a cell: %.2f, in any order\n", each);
    assert_true(each < 18);
    assert_true(tr_cells_ok(&c));
    for (uint32_t row = 1; row <= 1000; row++) {
        unsigned work = UINT32_MAX;

        assert_true(tr_cells_drop(&c, row, &work));
    }
    assert_int_equal(c.count, 0);
    assert_true(mem.used_bytes < 10000);
    tr_cells_fini(&c);
    assert_true(mem.used_bytes == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_count_up_and_down),
        cmocka_unit_test(test_cells_go_by_day_at_the_limit),
        cmocka_unit_test(test_cells_end_with_an_error),
        cmocka_unit_test(test_cells_make_is_a_promise),
        cmocka_unit_test(test_cells_follow_the_time),
        cmocka_unit_test(test_cells_agree_with_model),
        cmocka_unit_test(test_cells_decode_refuses_nonsense),
        cmocka_unit_test(test_cells_are_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
