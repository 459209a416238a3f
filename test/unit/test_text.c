/* Numbers in digits, against the C library's. */

#include "base/rng.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void is_as_printed(uint64_t number)
{
    char ours[TR_TEXT_NUMBER];
    char theirs[TR_TEXT_NUMBER + 4];

    (void)snprintf(theirs, sizeof theirs, "%llu", (unsigned long long)number);
    assert_int_equal(tr_text_number(ours, number), strlen(theirs));
    assert_string_equal(ours, theirs);
}

static void test_text_number(void **state)
{
    struct tr_rng rng = {1};
    uint64_t edge = 1;

    (void)state;
    is_as_printed(0);
    is_as_printed(UINT64_MAX);
    for (unsigned i = 0; i < 19; i++) {
        edge *= 10;
        is_as_printed(edge - 1);
        is_as_printed(edge);
    }
    for (unsigned i = 0; i < 10000; i++) {
        is_as_printed(tr_rng_below(&rng, UINT64_MAX) >> tr_rng_below(&rng, 64));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text_number)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
