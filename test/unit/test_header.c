/* Headers of jobs in Redis: there and back, damage, and how the ports see them. */

#include "cluster/header.h"

#include "base/err.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct tr_header some(void)
{
    return (struct tr_header){
        .set = 'p',
        .ver = 7,
        .priority = UINT32_MAX,
        .due_us = 1000,
        .at_us = 9000,
        .lease = UINT64_C(0xa1a1a1a100000001),
        .attempts = 2,
        .timeouts = 1,
        .why = TR_WHY_NONE,
        .delay_us = 5,
        .ttr_us = (UINT64_C(1) << 53) - 1,
        .ttl_us = 77,
        .retries = TR_RETRIES_NO_END,
        .flags = TR_HEADER_BEANSTALK,
        .created_us = 400,
        .topic = "orders",
        .topic_len = 6,
        .tag = "red",
        .tag_len = 3,
        .key = "order-42",
        .key_len = 8,
        .backoff = "l5,9",
        .backoff_len = 4,
    };
}

static void test_header_there_and_back(void **state)
{
    struct tr_header h = some();
    struct tr_header got;
    char text[TR_HEADER_MAX];
    char again[TR_HEADER_MAX];
    size_t len = tr_header_write(text, &h);

    (void)state;
    assert_int_equal(len, 88 + 1 + 6 + 4 + 3 + 8 + 4);
    assert_int_equal(tr_header_read(text, len, &got), TARRY_OK);
    assert_int_equal(tr_header_write(again, &got), len);
    assert_memory_equal(text, again, len);
    assert_int_equal(got.ttr_us, h.ttr_us);
    assert_int_equal(got.lease, h.lease);
    assert_memory_equal(got.key, "order-42", 8);
}

/* What a job does not have takes no room, and is read as what it is without. */
static void test_header_short(void **state)
{
    struct tr_header h = {.set = 's',
                          .ver = 1,
                          .due_us = UINT64_C(1) << 52,
                          .retries = TR_RETRIES_USUAL,
                          .created_us = 5,
                          .delay_us = 6,
                          .body_len = 0x7fffff,
                          .topic = "orders",
                          .topic_len = 6};
    struct tr_header got;
    char text[TR_HEADER_MAX];
    size_t len = tr_header_write(text, &h);

    (void)state;
    assert_int_equal(len, 39 + 6);
    assert_int_equal(tr_header_read(text, len, &got), TARRY_OK);
    assert_int_equal(got.due_us, h.due_us);
    assert_int_equal(got.retries, TR_RETRIES_USUAL);
    assert_int_equal(got.delay_us, 6);
    assert_int_equal(got.body_len, 0x7fffff);
    assert_int_equal(got.key_len + got.tag_len + got.backoff_len, 0);
    h.kicks = 1;
    h.tag = "x";
    h.tag_len = 1;
    assert_int_equal(tr_header_write(text, &h), len + 17 + 5);
}

/* How a new one ends: the same bytes, and where the key is. */
static void test_header_end(void **state)
{
    struct tr_header h = some();
    char text[TR_HEADER_MAX];
    char end[TR_HEADER_MAX];
    size_t key_at;
    size_t len = tr_header_write(text, &h);
    size_t end_len = tr_header_write_end(end, &h, &key_at);

    (void)state;
    assert_int_equal(end_len, len - 21 - 15 - 17);
    assert_memory_equal(end, text + len - end_len, end_len);
    assert_memory_equal(end + key_at, "order-42", 8);
    assert_int_equal(tr_header_flags(&h), (unsigned char)text[1]);
}

/* Whatever is damaged: it is refused, or it is another header of the same length. */
static void test_header_damage(void **state)
{
    struct tr_header h = some();
    struct tr_header got;
    char text[TR_HEADER_MAX];
    char again[TR_HEADER_MAX];
    size_t len = tr_header_write(text, &h);

    (void)state;
    for (size_t i = 0; i < len; i++) {
        char old = text[i];

        for (unsigned byte = 0; byte < 256; byte++) {
            text[i] = (char)(unsigned char)byte;
            if (tr_header_read(text, len, &got) == TARRY_OK) {
                assert_true(got.schedule + got.schedule_len == text + len);
                assert_true(tr_header_write(again, &got) <= len);
            }
        }
        text[i] = old;
    }
    text[0] = 'x';
    assert_int_equal(tr_header_read(text, len, &got), TARRY_EDAMAGED);
    text[0] = h.set;
    text[1] = (char)(text[1] ^ 64); /* it says that it cannot expire, but has a ttl */
    assert_int_equal(tr_header_read(text, len, &got), TARRY_EDAMAGED);
    text[1] = (char)(text[1] ^ 64);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(tr_header_read(text, i, &got), TARRY_EDAMAGED);
    }
}

/* What stands behind the texts is the schedule, which waits for the job's end. */
static void test_header_schedule(void **state)
{
    struct tr_header h = some();
    struct tr_header bare = {.set = 'r', .retries = TR_RETRIES_USUAL, .topic = "t", .topic_len = 1};
    struct tr_header got;
    char text[TR_HEADER_MAX + 1];
    size_t len;

    (void)state;
    h.schedule = "nightly";
    h.schedule_len = 7;
    len = tr_header_write(text, &h);
    assert_int_equal(tr_header_read(text, len, &got), TARRY_OK);
    assert_int_equal(got.schedule_len, 7);
    assert_memory_equal(got.schedule, "nightly", 7);
    assert_int_equal(got.key_len, h.key_len);
    len = tr_header_write(text, &bare);
    assert_int_equal(tr_header_read(text, len, &got), TARRY_OK);
    assert_int_equal(got.schedule_len, 0);
    text[len] = 'x'; /* without the flag there are no such texts */
    assert_int_equal(tr_header_read(text, len + 1, &got), TARRY_EDAMAGED);
    bare.schedule = "s";
    bare.schedule_len = 1;
    len = tr_header_write(text, &bare);
    assert_int_equal(tr_header_read(text, len, &got), TARRY_OK);
    assert_int_equal(got.schedule_len, 1);
}

static void test_header_view(void **state)
{
    struct tr_header h = some();
    struct tr_backoff room;
    struct tr_job_view v;

    (void)state;
    tr_header_view(&h, 17, 5000, &room, &v);
    assert_int_equal(v.state, TR_RESERVED);
    assert_int_equal(v.left_us, 4000);
    assert_int_equal(v.age_us, 4600);
    assert_int_equal(v.lease, h.lease);
    assert_int_equal(v.retries, -1);
    assert_int_equal(v.ttl_us, 77);
    assert_int_equal(v.backoff->list_us[1], 9);
    assert_true(v.beanstalk);

    h.set = 's';
    h.flags = 0;
    h.retries = TR_RETRIES_USUAL;
    h.backoff_len = 0;
    tr_header_view(&h, 17, 999, &room, &v);
    assert_int_equal(v.state, TR_DELAYED);
    assert_int_equal(v.left_us, 1);
    assert_int_equal(v.lease, 0);
    assert_false(v.has_retries);
    assert_int_equal(v.ttl_us, 77);
    assert_null(v.backoff);
    tr_header_view(&h, 17, 1000, &room, &v);
    assert_int_equal(v.state, TR_READY); /* though nothing was written */

    h.set = 'd';
    h.why = TR_WHY_EXPIRED;
    tr_header_view(&h, 17, 9999, &room, &v);
    assert_int_equal(v.state, TR_DEAD);
    assert_int_equal(v.dead_at_us, 9000);
    assert_int_equal(v.dead_why, TR_WHY_EXPIRED);
}

static void test_header_backoff(void **state)
{
    static const char *const bad[] = {"",    "l",    "e1,200,3",  "x5", "l5,",
                                      "l,5", "l5;6", "e5,50,9,0", "l-1"};
    struct tr_backoff b = tr_backoff_default();
    struct tr_backoff got;
    char text[TR_HEADER_BACKOFF];
    size_t len = tr_header_put_backoff(text, &b);

    (void)state;
    assert_string_equal(text, "e1000000,200,3600000000,100");
    assert_int_equal(tr_header_get_backoff(text, len, &got), TARRY_OK);
    assert_memory_equal(&got, &b, sizeof b);
    assert_int_equal(tr_header_put_backoff(text, NULL), 0);
    b = (struct tr_backoff){.count = TR_BACKOFF_LIST_MAX};
    for (unsigned i = 0; i < TR_BACKOFF_LIST_MAX; i++) {
        b.list_us[i] = TR_DELAY_MAX_US - i;
    }
    len = tr_header_put_backoff(text, &b);
    assert_true(len < 4096);
    assert_int_equal(tr_header_get_backoff(text, len, &got), TARRY_OK);
    assert_memory_equal(&got, &b, sizeof b);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(tr_header_get_backoff(bad[i], strlen(bad[i]), &got), TARRY_EDAMAGED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_there_and_back),
        cmocka_unit_test(test_header_short),
        cmocka_unit_test(test_header_end),
        cmocka_unit_test(test_header_damage),
        cmocka_unit_test(test_header_schedule),
        cmocka_unit_test(test_header_view),
        cmocka_unit_test(test_header_backoff),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
