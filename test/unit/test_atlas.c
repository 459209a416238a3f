/* Zones by name: read once, and what happens to those that cannot be. */

#include "rules/atlas.h"

#include "base/err.h"
#include "os/zones_linux.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct world {
    unsigned reads;
    int err; /* that a read ends with; or the system's own answer */
    bool damaged;
};

static int read_file(void *ctx, const char *name, size_t len, struct tr_zone_file *file)
{
    struct world *w = ctx;
    int err = w->err != TARRY_OK ? w->err : tr_zones_linux_read(NULL, name, len, file);

    w->reads++;
    if (err == TARRY_OK && w->damaged) {
        file->at[0] = 'x';
    }
    return err;
}

static int get(struct tr_atlas *a, const char *name, const struct tr_zone **zone)
{
    return tr_atlas_get(a, name, strlen(name), zone);
}

static void test_atlas_reads_once(void **state)
{
    struct world w = {0};
    struct tr_mem mem;
    struct tr_atlas a;
    const struct tr_zone *first, *again, *other, *utc;

    (void)state;
    tr_mem_init(&mem, 0);
    tr_atlas_init(&a, &mem, read_file, &w);
    assert_int_equal(get(&a, "", &utc), TARRY_OK);
    assert_int_equal(get(&a, "UTC", &utc), TARRY_OK);
    assert_int_equal(w.reads, 0);
    assert_int_equal(get(&a, "Asia/Shanghai", &first), TARRY_OK);
    assert_int_equal(get(&a, "Europe/Berlin", &other), TARRY_OK);
    assert_int_equal(get(&a, "Asia/Shanghai", &again), TARRY_OK);
    assert_int_equal(w.reads, 2);
    assert_ptr_equal(first, again);
    assert_int_equal(tr_zone_at(first, 1800000000).east_s, 8 * 3600);
    tr_atlas_fini(&a);
    assert_int_equal(mem.used_bytes, 0);
}

static void test_atlas_without(void **state)
{
    struct world w = {.err = TARRY_EIO};
    struct tr_mem mem;
    struct tr_atlas a = {0};
    const struct tr_zone *zone;

    (void)state;
    tr_atlas_fini(&a);
    tr_mem_init(&mem, 0);
    tr_atlas_init(&a, &mem, NULL, NULL);
    assert_int_equal(get(&a, "Asia/Shanghai", &zone), TARRY_ENOTFOUND);
    tr_atlas_init(&a, &mem, read_file, &w);
    assert_int_equal(get(&a, "Asia/Shanghai", &zone), TARRY_ENOTFOUND);
    w.err = TARRY_OK;
    w.damaged = true;
    assert_int_equal(get(&a, "Asia/Shanghai", &zone), TARRY_ENOTFOUND);
    assert_null(zone);
    w.damaged = false; /* it is asked for again */
    assert_int_equal(get(&a, "No/Where", &zone), TARRY_ENOTFOUND);
    assert_int_equal(get(&a, "Asia/Shanghai", &zone), TARRY_OK);
    tr_atlas_fini(&a);
    assert_int_equal(mem.used_bytes, 0);
}

static void test_atlas_memory(void **state)
{
    struct world w = {0};
    const struct tr_zone *zone;
    int err = TARRY_ENOMEM;

    (void)state;
    for (unsigned n = 1; err == TARRY_ENOMEM; n++) {
        struct tr_mem mem;
        struct tr_atlas a;

        assert_true(n < 10);
        tr_mem_init(&mem, 0);
        tr_atlas_init(&a, &mem, read_file, &w);
        mem.fail_at = n;
        err = get(&a, "Asia/Shanghai", &zone);
        tr_atlas_fini(&a);
        assert_int_equal(mem.used_bytes, 0);
    }
    assert_int_equal(err, TARRY_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_atlas_reads_once),
        cmocka_unit_test(test_atlas_without),
        cmocka_unit_test(test_atlas_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
