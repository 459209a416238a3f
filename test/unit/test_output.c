/* Bytes on their way out: order, gates, memory; and one seeded run against a model. */

#include "proto/output.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void setup(struct tr_mem *mem, struct tr_output *o)
{
    tr_mem_init(mem, 0);
    tr_output_init(o, mem);
}

static void add(struct tr_output *o, const char *text)
{
    tr_output_add(o, text, strlen(text));
}

/* What may go at this durable batch is taken, and must be this. */
static void expect(struct tr_output *o, uint64_t durable, const char *text)
{
    const uint8_t *bytes;
    size_t len = tr_output_ready(o, durable, &bytes);

    assert_int_equal(len, strlen(text));
    if (len > 0) {
        assert_memory_equal(bytes, text, len);
    }
    tr_output_drop(o, len);
}

static void finish(struct tr_mem *mem, struct tr_output *o)
{
    tr_output_fini(o);
    assert_int_equal(mem->used_bytes, 0);
}

static void test_output_without_gate_goes_at_once(void **state)
{
    struct tr_mem mem;
    struct tr_output o;

    (void)state;
    setup(&mem, &o);
    expect(&o, 0, "");
    tr_output_gate(&o, 0);
    add(&o, "one ");
    add(&o, "two");
    expect(&o, 0, "one two");
    expect(&o, 0, "");
    finish(&mem, &o);
}

static void test_output_waits_for_its_gate_and_so_does_what_follows(void **state)
{
    struct tr_mem mem;
    struct tr_output o;

    (void)state;
    setup(&mem, &o);
    add(&o, "free ");
    tr_output_gate(&o, 7);
    add(&o, "seven ");
    tr_output_gate(&o, 0); /* needs nothing, but comes after */
    add(&o, "after ");
    tr_output_gate(&o, 8);
    add(&o, "eight ");
    tr_output_gate(&o, 7);
    add(&o, "older ");
    expect(&o, 6, "free ");
    expect(&o, 6, "");
    expect(&o, 7, "seven after ");
    expect(&o, 7, "");
    expect(&o, 8, "eight older ");
    finish(&mem, &o);
}

static void test_output_gate_without_bytes_counts_for_the_next(void **state)
{
    struct tr_mem mem;
    struct tr_output o;

    (void)state;
    setup(&mem, &o);
    tr_output_gate(&o, 3);
    tr_output_gate(&o, 5);
    add(&o, "x");
    expect(&o, 4, "");
    expect(&o, 5, "x");
    finish(&mem, &o);
}

static void test_output_more_gates_than_marks_wait_longer(void **state)
{
    struct tr_mem mem;
    struct tr_output o;

    (void)state;
    setup(&mem, &o);
    for (unsigned i = 1; i <= TR_OUTPUT_MARKS + 3; i++) {
        tr_output_gate(&o, i);
        add(&o, "x");
    }
    expect(&o, TR_OUTPUT_MARKS - 1, "xxx");
    expect(&o, TR_OUTPUT_MARKS + 2, "");
    expect(&o, TR_OUTPUT_MARKS + 3, "xxxx");
    finish(&mem, &o);
}

static void test_output_without_memory_is_broken(void **state)
{
    struct tr_mem mem;
    struct tr_output o;

    (void)state;
    setup(&mem, &o);
    mem.fail_at = 1;
    add(&o, "x");
    assert_true(o.broken);
    add(&o, "y"); /* would be out of place */
    expect(&o, 0, "");
    finish(&mem, &o);
}

static void test_output_gives_a_large_buffer_back(void **state)
{
    static uint8_t large[100000];
    struct tr_mem mem;
    struct tr_output o;
    const uint8_t *bytes;

    (void)state;
    setup(&mem, &o);
    tr_output_add(&o, large, sizeof large);
    assert_true(mem.used_bytes >= sizeof large);
    tr_output_drop(&o, tr_output_ready(&o, 0, &bytes));
    assert_int_equal(mem.used_bytes, 0);
    finish(&mem, &o);
}

/* Model: all bytes ever added with the gate of each; what is sent is the longest run of them. */
static void test_output_against_a_model(void **state)
{
    enum { BYTES = 200000 };
    static uint8_t byte[BYTES];
    static uint64_t gate[BYTES];
    struct tr_rng rng = {.state = 42};
    struct tr_mem mem;
    struct tr_output o;
    size_t added = 0;
    size_t sent = 0;
    uint64_t open = 1;
    uint64_t durable = 0;

    (void)state;
    setup(&mem, &o);
    while (added < BYTES - 1000) {
        uint64_t g = tr_rng_below(&rng, 3) == 0 ? open : 0;
        size_t len = tr_rng_below(&rng, 40) == 0 ? 900 : tr_rng_below(&rng, 30);
        const uint8_t *bytes;
        size_t may;
        size_t take;

        tr_output_gate(&o, len > 0 ? g : 0);
        for (size_t i = 0; i < len; i++) {
            byte[added] = (uint8_t)tr_rng_below(&rng, 256);
            gate[added] = g;
            tr_output_add(&o, &byte[added++], 1);
        }
        if (tr_rng_below(&rng, 4) == 0) { /* one in flight, one open */
            durable = open - 1;
            open++;
        }
        may = tr_output_ready(&o, durable, &bytes);
        for (size_t i = sent; i < sent + may; i++) {
            assert_true(gate[i] <= durable);
        }
        assert_true(sent + may == added || gate[sent + may] > durable);
        if (may > 0) {
            assert_memory_equal(bytes, byte + sent, may);
        }
        take = tr_rng_below(&rng, may + 1);
        tr_output_drop(&o, take);
        sent += take;
        assert_int_equal(tr_output_end(&o), added);
        assert_int_equal(tr_output_len(&o), added - sent);
    }
    finish(&mem, &o);
}

static void test_output_altered_at_its_end(void **state)
{
    struct tr_mem mem;
    struct tr_output o;
    const uint8_t *bytes;
    uint64_t at;

    (void)state;
    setup(&mem, &o);
    tr_output_add(&o, "gone", 4);
    tr_output_drop(&o, 4);
    tr_output_add(&o, "first", 5);
    tr_output_drop(&o, 2);
    tr_output_gate(&o, 1);
    at = tr_output_end(&o);
    tr_output_add(&o, "#second", 7);
    memcpy(tr_output_from(&o, at), "S", 1);
    tr_output_cut(&o, 3);
    tr_output_add(&o, "!", 1);
    assert_int_equal(tr_output_end(&o), at + 5);
    assert_int_equal(tr_output_ready(&o, 1, &bytes), 8);
    assert_memory_equal(bytes, "rstSsec!", 8);
    tr_output_cut(&o, 8);
    assert_int_equal(tr_output_len(&o), 0);
    finish(&mem, &o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_without_gate_goes_at_once),
        cmocka_unit_test(test_output_waits_for_its_gate_and_so_does_what_follows),
        cmocka_unit_test(test_output_gate_without_bytes_counts_for_the_next),
        cmocka_unit_test(test_output_more_gates_than_marks_wait_longer),
        cmocka_unit_test(test_output_without_memory_is_broken),
        cmocka_unit_test(test_output_gives_a_large_buffer_back),
        cmocka_unit_test(test_output_altered_at_its_end),
        cmocka_unit_test(test_output_against_a_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
