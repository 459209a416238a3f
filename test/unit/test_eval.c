/* Arguments of scripts on their way out, and answers on their way in. */

#include "cluster/answer.h"
#include "cluster/eval.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct tr_mem mem;
    struct tr_layout layout;
    struct tr_eval call;
    struct tr_eval_topic topic;
    struct tr_eval_about about;
};

static void start(struct fixture *f)
{
    *f = (struct fixture){.topic = {"orders", 4, TR_ORDER_DUE}};
    tr_mem_init(&f->mem, 0);
    assert_int_equal(tr_layout_init(&f->layout, "tarry:", 256), TARRY_OK);
    tr_eval_init(&f->call, &f->mem);
    f->about = (struct tr_eval_about){.layout = &f->layout,
                                      .slot = 5,
                                      .uuid = "uuid",
                                      .node = "00112233445566778899",
                                      .op = 17,
                                      .topics = &f->topic,
                                      .topic_count = 1};
}

static void end(struct fixture *f)
{
    tr_eval_fini(&f->call);
    assert_int_equal(f->mem.used_bytes, 0);
}

static bool is(const struct tr_eval *c, unsigned i, const char *text)
{
    return i < c->count && c->args[i].len == strlen(text) &&
           memcmp(c->args[i].at, text, c->args[i].len) == 0;
}

/* The same for bytes that no text has. */
static bool holds(const struct tr_eval *c, unsigned i, const char *bytes, size_t len)
{
    return i < c->count && c->args[i].len == len && memcmp(c->args[i].at, bytes, len) == 0;
}
#define BYTES(text) (text), sizeof(text) - 1

enum { KEYS = 3, COMMON = KEYS + 12, OWN = COMMON + 9 };

static void test_eval_common(void **state)
{
    struct fixture f;
    const struct tr_eval *c = &f.call;

    (void)state;
    start(&f);
    tr_eval_begin(&f.call, TR_SCRIPT_TEND, &f.about);
    tr_eval_tend(&f.call, 64, 0, 7);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    tr_eval_aim(&f.call, "run", 123);
    assert_true(is(c, 0, "EVALSHA"));
    assert_true(is(c, 1, tr_scripts[TR_SCRIPT_TEND].sha));
    assert_true(is(c, 2, "12"));
    assert_true(is(c, KEYS, "tarry:{5}:m"));
    assert_true(is(c, KEYS + 4, "tarry:{5}:a"));
    assert_true(is(c, KEYS + 5, "tarry:{5}:orders:store"));
    assert_true(is(c, KEYS + 11, "tarry:{5}:orders:x"));
    assert_true(is(c, COMMON, "uuid"));
    assert_true(is(c, COMMON + 1, "run"));
    assert_true(is(c, COMMON + 2, "0011223344556677"));
    assert_true(is(c, COMMON + 3, "00000000000011"));
    assert_true(is(c, COMMON + 4, "123"));
    assert_true(is(c, COMMON + 5, "1"));
    assert_true(is(c, COMMON + 6, "orders"));
    assert_true(is(c, COMMON + 7, "4"));
    assert_true(is(c, COMMON + 8, "due"));
    assert_true(is(c, OWN, "64"));
    assert_true(is(c, OWN + 1, "0"));
    assert_true(is(c, OWN + 2, "7"));
    assert_int_equal(c->count, OWN + 3);
    tr_eval_aim(&f.call, "another", 9999999); /* a repeat, to another server */
    assert_true(is(c, COMMON + 1, "another"));
    assert_true(is(c, COMMON + 3, "00000000000011"));
    assert_true(is(c, COMMON + 4, "9999999"));
    tr_eval_with_text(&f.call, TR_SCRIPT_TEND, true);
    assert_true(is(c, 0, "EVAL"));
    assert_memory_equal(c->args[1].at, "#!lua", 5);
    tr_eval_with_text(&f.call, TR_SCRIPT_TEND, false);
    assert_true(is(c, 1, tr_scripts[TR_SCRIPT_TEND].sha));
    end(&f);
}

static void test_eval_push(void **state)
{
    struct fixture f;
    struct tr_eval_rows rows = {0};
    struct tr_backoff backoff = {.count = 1, .list_us = {9}};
    struct tr_req r = {.op = TR_OP_PUSH,
                       .delay_us = 16,
                       .priority = 1024,
                       .ttr_us = 1,
                       .ttl_us = 2,
                       .has_retries = true,
                       .retries = -1,
                       .key = "k",
                       .key_len = 1,
                       .tag = "tag",
                       .tag_len = 3,
                       .backoff = &backoff,
                       .conflict = TR_CONFLICT_KEEP,
                       .beanstalk = true,
                       .body = (const uint8_t *)"body",
                       .body_len = 4};

    (void)state;
    start(&f);
    tr_eval_begin(&f.call, TR_SCRIPT_PUSH, &f.about);
    tr_eval_push_from(&f.call, 99, 5);
    tr_eval_push(&f.call, 0, &r, 3);
    r.at_us = 32;
    r.has_retries = false;
    r.backoff = NULL;
    r.key_len = 0;
    tr_eval_push(&f.call, 0, &r, 0);
    r.body = (const uint8_t *)"like";
    tr_eval_push(&f.call, 0, &r, 0); /* a row */
    r.body_len = 3;
    tr_eval_push(&f.call, 0, &r, 0); /* another one */
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_true(is(&f.call, OWN, "99"));
    assert_true(is(&f.call, OWN + 1, "5"));
    assert_true(holds(&f.call, OWN + 2,
                      BYTES("\1kd\0\0\0\0\0\0\20\0\0\0\0\0\0\3\151\0\0\4\0\0\72\1"
                            "\0\0\0\0\0\0\1\0\0\0\0\0\0\2\377\377\377\376"
                            "\6orders\3\1\0\2tagkl9")));
    assert_memory_equal(f.call.args[OWN + 2].at + 0x3a - 1, "k", 1);
    assert_true(is(&f.call, OWN + 3, "body"));
    assert_true(holds(&f.call, OWN + 4,
                      BYTES("\1ka\0\0\0\0\0\0\40\0\0\0\0\0\0\0\151\0\0\4\0\0\2\0"
                            "\0\0\0\0\0\0\1\0\0\0\0\0\0\2\377\377\377\377"
                            "\6orders\3\0\0\0tag")));
    assert_true(is(&f.call, OWN + 5, "body"));
    assert_true(is(&f.call, OWN + 6, "like"));
    assert_int_equal(f.call.args[OWN + 7].at[23], 1);
    assert_true(is(&f.call, OWN + 8, "lik"));
    assert_int_equal(f.call.count, OWN + 9);
    assert_int_equal(tr_eval_due(&f.call, &rows, 20), 20 - 3 + 16);
    assert_int_equal(tr_eval_due(&f.call, &rows, 20), 32);
    assert_int_equal(tr_eval_due(&f.call, &rows, 33), 33);
    assert_int_equal(tr_eval_due(&f.call, &rows, 20), 32);
    end(&f);
}

/* Jobs that differ in their times, ages and bodies: a row with times. Two that are alike begin
 * another one. */
static void test_eval_push_mixed(void **state)
{
    struct fixture f;
    struct tr_eval_rows rows = {0};
    struct tr_req r = {.op = TR_OP_PUSH, .body = (const uint8_t *)"body", .body_len = 4};
    static const unsigned delays[] = {16, 32, 48, 48, 48, 64};
    static const unsigned ages[] = {1, 2, 3, 3, 3, 4};

    (void)state;
    start(&f);
    tr_eval_begin(&f.call, TR_SCRIPT_PUSH, &f.about);
    tr_eval_push_from(&f.call, 99, 5);
    for (unsigned i = 0; i < 6; i++) {
        r.delay_us = delays[i];
        r.body_len = 4 - (i == 1);
        tr_eval_push(&f.call, 0, &r, ages[i]);
    }
    r.at_us = 7; /* a time, no delay */
    tr_eval_push(&f.call, 0, &r, 0);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_int_equal(f.call.args[OWN + 2].at[2], 'D');
    assert_int_equal(f.call.args[OWN + 2].at[23], 3);
    assert_true(holds(&f.call, OWN + 3, BYTES("\0\0\0\0\0\0\20\0\0\0\0\0\0\1")));
    assert_true(is(&f.call, OWN + 4, "body"));
    assert_true(holds(&f.call, OWN + 5, BYTES("\0\0\0\0\0\0\40\0\0\0\0\0\0\2")));
    assert_true(is(&f.call, OWN + 6, "bod"));
    assert_true(holds(&f.call, OWN + 7, BYTES("\0\0\0\0\0\0\60\0\0\0\0\0\0\3")));
    assert_true(is(&f.call, OWN + 8, "body"));
    assert_int_equal(f.call.args[OWN + 9].at[2], 'd');
    assert_int_equal(f.call.args[OWN + 9].at[23], 2);
    assert_int_equal(f.call.args[OWN + 12].at[2], 'd');
    assert_int_equal(f.call.args[OWN + 14].at[2], 'a');
    assert_int_equal(f.call.count, OWN + 16);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(tr_eval_due(&f.call, &rows, 1000), 1000 - ages[i] + delays[i]);
    }
    assert_int_equal(tr_eval_due(&f.call, &rows, 5), 7);
    end(&f);
}

/* kind, topic, id and lease, and then as text: */
static void edit_is(struct fixture *f, const struct tr_req *r, char kind, const char *want)
{
    const struct tr_span *what;
    char front[] = "?\1"
                   "00000000000011"
                   "\0\0\0\0\0\0\0";

    front[0] = kind;
    front[23] = (char)r->lease;
    tr_eval_begin(&f->call, TR_SCRIPT_EDIT, &f->about);
    tr_eval_edit(&f->call, 0, r, 0);
    assert_int_equal(tr_eval_end(&f->call), TARRY_OK);
    what = &f->call.args[OWN];
    assert_int_equal(what->len, 24 + strlen(want));
    assert_memory_equal(what->at, front, 24);
    assert_memory_equal(what->at + 24, want, strlen(want));
}

static void test_eval_edit(void **state)
{
    struct fixture f;
    struct tr_req r = {.op = TR_OP_DELETE, .id = 0x11, .lease = 0x22};

    (void)state;
    start(&f);
    edit_is(&f, &r, 'A', "");
    r.lease = 0;
    edit_is(&f, &r, 'C', "0");
    r.force = true;
    edit_is(&f, &r, 'C', "1");
    r = (struct tr_req){
        .op = TR_OP_RELEASE, .id = 0x11, .lease = 0x22, .delay_us = 5, .priority = 7};
    edit_is(&f, &r, 'R', "d0000000000000500000007");
    r.by_backoff = true;
    r.keep_priority = true;
    edit_is(&f, &r, 'R', "bk");
    r.op = TR_OP_BURY;
    edit_is(&f, &r, 'B', "k");
    r.lease = 0;
    r.force = true;
    edit_is(&f, &r, 'V', "k");
    r.lease = 0x22;
    edit_is(&f, &r, 'B', "k");
    r.op = TR_OP_TOUCH;
    r.ttr_us = 3;
    edit_is(&f, &r, 'T', "00000000000003");
    r.op = TR_OP_RETURN;
    edit_is(&f, &r, 'G', "");
    r.op = TR_OP_CLOSE;
    edit_is(&f, &r, 'D', "");
    r.op = TR_OP_RESERVE_JOB;
    edit_is(&f, &r, 'H', "000000000000030");
    r.holder = 7;
    edit_is(&f, &r, 'H', "000000000000031");
    r = (struct tr_req){.op = TR_OP_FIRE, .id = 0x11};
    edit_is(&f, &r, 'F', "");
    r.op = TR_OP_KICK_JOB;
    edit_is(&f, &r, 'K', "0");
    r = (struct tr_req){.op = TR_OP_EDIT,
                        .id = 0x11,
                        .edit = TR_EDIT_DUE | TR_EDIT_BODY,
                        .at_us = 6,
                        .body = (const uint8_t *)"new",
                        .body_len = 3};
    edit_is(&f, &r, 'E', "09a0000000000000600000000000000000000000000000000000000000000000000");
    assert_true(is(&f.call, OWN + 2, "new"));
    end(&f);
}

/* Acks in a row under one lease are told as one. */
static void test_eval_acks(void **state)
{
    static const uint64_t leases[] = {1, 2, 2, 2, 3, 3, 0};
    struct fixture f;
    struct tr_req r = {.op = TR_OP_DELETE};

    (void)state;
    start(&f);
    tr_eval_begin(&f.call, TR_SCRIPT_EDIT, &f.about);
    for (unsigned i = 0; i < 7; i++) {
        r.id = i + 1;
        r.lease = leases[i];
        tr_eval_edit(&f.call, 0, &r, 0);
    }
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_true(holds(&f.call, OWN,
                      BYTES("A\1"
                            "00000000000001"
                            "\0\0\0\0\0\0\0\1")));
    assert_true(holds(&f.call, OWN + 1, BYTES("a\1\3\0\0\0\0\0\0\0\2")));
    assert_true(is(&f.call, OWN + 2, "00000000000002"));
    assert_true(is(&f.call, OWN + 4, "00000000000004"));
    assert_true(holds(&f.call, OWN + 5, BYTES("a\1\2\0\0\0\0\0\0\0\3")));
    assert_true(is(&f.call, OWN + 7, "00000000000006"));
    assert_int_equal(f.call.args[OWN + 8].at[0], 'C');
    assert_int_equal(f.call.count, OWN + 9);
    end(&f);
}

static void test_eval_take(void **state)
{
    struct fixture f;
    struct tr_eval_take t = {.count = 3,
                             .lease = 0xabc,
                             .tag = "t",
                             .tag_len = 1,
                             .held = true,
                             .bytes = 77,
                             .heard = 5};

    (void)state;
    start(&f);
    tr_eval_begin(&f.call, TR_SCRIPT_TAKE, &f.about);
    tr_eval_take(&f.call, &t);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_true(is(&f.call, OWN, "3"));
    assert_true(holds(&f.call, OWN + 1, BYTES("\0\0\0\0\0\0\xa\xbc")));
    assert_true(is(&f.call, OWN + 3, "t"));
    assert_true(is(&f.call, OWN + 5, "1"));
    assert_true(is(&f.call, OWN + 6, "0"));
    assert_true(is(&f.call, OWN + 7, "77"));
    assert_true(is(&f.call, OWN + 8, "00000000000005"));
    end(&f);
}

/* Whichever allocation fails: it is told, and nothing is lost. */
static void test_eval_no_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct fixture f;
        struct tr_req r = {.op = TR_OP_PUSH};
        int err;

        start(&f);
        f.mem.fail_at = n;
        tr_eval_begin(&f.call, TR_SCRIPT_PUSH, &f.about);
        tr_eval_push_from(&f.call, 0, 0);
        for (unsigned i = 0; i < 40; i++) {
            tr_eval_push(&f.call, 0, &r, 0);
        }
        err = tr_eval_end(&f.call);
        end(&f);
        if (err == TARRY_OK) {
            assert_true(n > 3);
            break;
        }
        assert_int_equal(err, TARRY_ENOMEM);
    }
}

static struct tr_span span(const char *text)
{
    return (struct tr_span){text, strlen(text)};
}

/* Without a zero in it, so that it is a text. */
#define FOUR "\1\1\1\1"
#define SEVEN FOUR "\1\1\1"
#define HEADER                                                                                     \
    "p\1" FOUR FOUR SEVEN FOUR SEVEN "\xa1\xa1\xa1\xa1" FOUR SEVEN SEVEN "\1\1\1"                  \
    "\1"                                                                                           \
    "t"

static void test_answer_take(void **state)
{
    struct tr_span items[] = {span("OK"),
                              span("00000000000064"),
                              span("00000007"),
                              span("010011223344556677"),
                              span("00000000000065"),
                              span("1"),
                              span("00000000002005"),
                              span(HEADER),
                              span("body")};
    struct tr_redis_reply reply = {.event = TR_REDIS_LIST, .items = items, .count = 9};
    struct tr_answer a;
    struct tr_taken t;
    struct tr_taken_job job;
    unsigned topic = 9;
    char node[TR_PLACE_NODE_DIGITS];

    (void)state;
    assert_int_equal(tr_answer_read(&reply, &a), TARRY_OK);
    assert_int_equal(a.now_us, 100);
    assert_int_equal(tr_answer_version(&a, 0), 7);
    assert_int_equal(tr_answer_version(&a, 1), 0);
    assert_true(tr_answer_waiter(&a, 0, &topic, node));
    assert_int_equal(topic, 0);
    assert_memory_equal(node, "0011223344556677", 16);
    assert_false(tr_answer_waiter(&a, 1, &topic, node));
    assert_int_equal(tr_answer_taken(&a, &t), TARRY_OK);
    assert_int_equal(t.next_us, 101);
    assert_true(t.more);
    assert_int_equal(t.jobs, 1);
    assert_int_equal(tr_answer_taken_job(&a, 0, &job), TARRY_OK);
    assert_int_equal(job.id, 0x2005);
    assert_int_equal(job.header.attempts, 0x01010101);
    items[4] = span("");
    assert_int_equal(tr_answer_taken(&a, &t), TARRY_OK);
    assert_int_equal(t.next_us, UINT64_MAX);
    items[7].len--;
    assert_int_equal(tr_answer_taken_job(&a, 0, &job), TARRY_EDAMAGED);
    reply.count = 8;
    assert_int_equal(tr_answer_read(&reply, &a), TARRY_OK);
    assert_int_equal(tr_answer_taken(&a, &t), TARRY_EDAMAGED);
    reply.count = 3;
    assert_int_equal(tr_answer_read(&reply, &a), TARRY_EDAMAGED);
}

static void test_answer_all_new(void **state)
{
    const struct tr_span items[] = {{"n0000000000000700000000000405", 29}, {"Op", 2}};
    struct tr_answer a = {.items = items, .count = 1};
    uint64_t from_us, first;

    (void)state;
    assert_true(tr_answer_all_new(&a, &from_us, &first));
    assert_int_equal(from_us, 7);
    assert_int_equal(first, 0x405);
    assert_int_equal(tr_answer_new_id(first, 3), 0x405 + 3 * 1024);
    assert_ptr_equal(tr_answer_item(&a, 9), items);
    a.count = 2;
    assert_false(tr_answer_all_new(&a, &from_us, &first));
    assert_ptr_equal(tr_answer_item(&a, 1), items + 1);
    assert_null(tr_answer_item(&a, 2));
    a = (struct tr_answer){.items = items + 1, .count = 1};
    assert_false(tr_answer_all_new(&a, &from_us, &first));
}

static void test_answer_push_and_edit(void **state)
{
    static const char *const bad_push[] = {"",
                                           "N",
                                           "N0000000000000",
                                           "Q00000000000001",
                                           "P0",
                                           "N000000000000010000000000000",
                                           "N0000000000000100000000000002000",
                                           "K00000000000001x"};
    static const char *const bad_edit[] = {"", "O", "Ox", "N1", "Z1", "L", "Dx"};
    struct tr_pushed p;
    struct tr_edited e;

    (void)state;
    assert_int_equal(tr_answer_pushed(span("N0000000000000100000000000002"), &p), TARRY_OK);
    assert_int_equal(p.id, 1);
    assert_int_equal(p.due_us, 2);
    assert_int_equal(tr_answer_pushed(span("P"), &p), TARRY_OK);
    assert_int_equal(tr_answer_pushed(span("X00000000000001" HEADER), &p), TARRY_OK);
    assert_int_equal(p.header.set, 'p');
    for (unsigned i = 0; i < sizeof bad_push / sizeof bad_push[0]; i++) {
        assert_int_equal(tr_answer_pushed(span(bad_push[i]), &p), TARRY_EDAMAGED);
    }
    assert_int_equal(tr_answer_edited(span("N"), &e), TARRY_OK);
    assert_int_equal(tr_answer_edited(span("Os"), &e), TARRY_OK);
    assert_int_equal(e.was, 's');
    assert_int_equal(tr_answer_edited(span("F"), &e), TARRY_OK);
    assert_int_equal(tr_answer_edited(span("L" HEADER), &e), TARRY_OK);
    assert_int_equal(e.header.lease, UINT64_C(0xa1a1a1a101010101));
    for (unsigned i = 0; i < sizeof bad_edit / sizeof bad_edit[0]; i++) {
        assert_int_equal(tr_answer_edited(span(bad_edit[i]), &e), TARRY_EDAMAGED);
    }
}

static void test_answer_kick_and_count(void **state)
{
    struct tr_span items[] = {span("s"), span("00000000000003")};
    struct tr_answer a = {.items = items, .count = 2};
    struct tr_kicked k;
    struct tr_counted n;
    char text[11 * 14 + 8 + 4 * 14 + 2];
    size_t len = sizeof text - 2;

    (void)state;
    assert_int_equal(tr_answer_kicked(&a, &k), TARRY_OK);
    assert_int_equal(k.which, 's');
    assert_int_equal(k.count, 3);
    items[0] = span("x");
    assert_int_equal(tr_answer_kicked(&a, &k), TARRY_EDAMAGED);
    a.count = 1;
    assert_int_equal(tr_answer_kicked(&a, &k), TARRY_EDAMAGED);

    memset(text, '0', sizeof text);
    text[13] = '1';
    text[11 * 14 + 7] = '2';
    text[len - 1] = '3';
    assert_int_equal(tr_answer_counted((struct tr_span){text, len}, &n), TARRY_OK);
    assert_int_equal(n.ready, 1);
    assert_int_equal(n.best_priority, 2);
    assert_int_equal(n.first_dead_id, 3);
    assert_int_equal(tr_answer_counted((struct tr_span){text, len + 1}, &n), TARRY_EDAMAGED);
    assert_int_equal(tr_answer_counted((struct tr_span){text, len - 1}, &n), TARRY_EDAMAGED);
    text[20] = 'x';
    assert_int_equal(tr_answer_counted((struct tr_span){text, len}, &n), TARRY_EDAMAGED);
}

static void test_eval_index(void **state)
{
    struct fixture f;
    struct tr_sql_job row = {.id = 0x11,
                             .ver = 3,
                             .due_us = 9,
                             .next_us = 9,
                             .priority = 4,
                             .retries = TR_RETRIES_USUAL,
                             .body_len = 5,
                             .key = {"key", 3},
                             .tag = {"red", 3}};

    (void)state;
    start(&f);
    tr_eval_begin(&f.call, TR_SCRIPT_SHED, &f.about);
    tr_eval_index_from(&f.call, 8, 500, true);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_true(is(&f.call, OWN + 1, "-500"));
    tr_eval_begin(&f.call, TR_SCRIPT_INDEX, &f.about);
    tr_eval_index_from(&f.call, 8, 500, false);
    tr_eval_index(&f.call, 0, TR_INDEX_IS, &row, 8);
    tr_eval_index(&f.call, 0, TR_INDEX_MEND, &row, 9);
    row.state = TR_SQL_DEAD;
    tr_eval_index(&f.call, 0, TR_INDEX_IS, &row, 9);
    tr_eval_index(&f.call, 0, TR_INDEX_FORCE, &row, 9);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_true(is(&f.call, OWN, "8"));
    assert_true(is(&f.call, OWN + 1, "500"));
    assert_true(holds(&f.call, OWN + 2,
                      BYTES("I\1"
                            "00000000000011"
                            "s\40\0\0\0\3\0\0\0\4\0\0\0\0\0\0\11\0\0\0\0"
                            "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                            "\6orders\3\0\0\0red")));
    assert_memory_equal(f.call.args[OWN + 3].at + 16, "r", 1);
    assert_true(holds(&f.call, OWN + 4,
                      BYTES("G\1"
                            "00000000000011\0\0\0\3")));
    assert_true(holds(&f.call, OWN + 5,
                      BYTES("G\1"
                            "00000000000011\377\377\377\377")));
    end(&f);
}

static void test_eval_claim_raise_scan(void **state)
{
    struct fixture f;

    (void)state;
    start(&f);
    tr_eval_begin(&f.call, TR_SCRIPT_CLAIM, &f.about);
    tr_eval_claim(&f.call, &(struct tr_eval_claim){.count = 3,
                                                   .now_us = 8,
                                                   .tag = "red",
                                                   .tag_len = 3,
                                                   .wait_until_us = 77,
                                                   .most = TR_CLAIM_MOST,
                                                   .version = 6,
                                                   .bytes = 4096});
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_true(is(&f.call, OWN, "8") && is(&f.call, OWN + 1, "3") && is(&f.call, OWN + 2, "red"));
    assert_true(is(&f.call, OWN + 3, "77") && is(&f.call, OWN + 4, "16"));
    assert_true(is(&f.call, OWN + 5, "6") && is(&f.call, OWN + 6, "4096"));
    tr_eval_begin(&f.call, TR_SCRIPT_RAISE, &f.about);
    tr_eval_raise(&f.call, 8, 99, TR_RAISE_NEW);
    tr_eval_raise(&f.call, 8, 99, 7);
    tr_eval_scan(&f.call, 8, (struct tr_span){NULL, 0}, 100);
    tr_eval_scan(&f.call, 8, (struct tr_span){"17", 2}, 100);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_true(is(&f.call, OWN + 1, "99") && is(&f.call, OWN + 2, "") &&
                is(&f.call, OWN + 5, "7"));
    assert_true(is(&f.call, OWN + 7, "0") && is(&f.call, OWN + 8, "100"));
    assert_true(is(&f.call, OWN + 10, "17"));
    end(&f);
}

#define T(text)                                                                                    \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static void test_answer_claim_and_index(void **state)
{
    struct tr_span claim[] = {T("0000000000000a"), T("1"),
                              T("0000000000000b"), T("0000000000000c"),
                              T("0000000000000d"), T("C00000000000011E00000000000012")};
    struct tr_span index[] = {T("0000000000000a0000000000000b0000000000000c0000000000000d"),
                              T("OTG")};
    struct tr_answer a = {.items = claim, .count = 6};
    struct tr_claimed c;
    struct tr_indexed x;
    uint64_t id;
    char what;

    (void)state;
    assert_int_equal(tr_answer_claimed(&a, &c), TARRY_OK);
    assert_true(c.next_us == 10 && c.more && c.loaded_us == 11 && c.left == 12 && c.jobs == 2);
    assert_int_equal(c.bytes, 13);
    assert_int_equal(tr_answer_claimed_job(&a, 1, &what, &id), TARRY_OK);
    assert_true(what == 'E' && id == 0x12);
    claim[5].len--;
    assert_int_equal(tr_answer_claimed(&a, &c), TARRY_EDAMAGED);
    claim[5].len = 15;
    claim[0].len = 0;
    assert_int_equal(tr_answer_claimed(&a, &c), TARRY_OK);
    assert_true(c.next_us == UINT64_MAX && c.jobs == 1);
    claim[5].at = "X00000000000011";
    assert_int_equal(tr_answer_claimed_job(&a, 0, &what, &id), TARRY_EDAMAGED);
    a.count = 5;
    assert_int_equal(tr_answer_claimed(&a, &c), TARRY_EDAMAGED);
    a = (struct tr_answer){.items = index, .count = 2};
    assert_int_equal(tr_answer_indexed(&a, 1, &x), TARRY_OK);
    assert_true(x.loaded_us == 12 && x.left == 13);
    assert_int_equal(tr_answer_indexed(&a, 2, &x), TARRY_EDAMAGED);
    assert_int_equal(tr_answer_indexed_job(&a, 1), 'T');
    assert_int_equal(tr_answer_indexed_job(&a, 3), '\0');
}

static void test_answer_raise_and_scan(void **state)
{
    static const char header[] = "r\0\0\0\0\3\0\0\0\4\0\0\0\0\0\0\11\0\0\0\0"
                                 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1t";
    struct tr_span raised[] = {T("0000000000000a"), T("0000000000000b"), T("0000000000000c")};
    struct tr_span scanned[] = {T("17"), T("00000000000011"), {header, sizeof header - 1}};
    struct tr_answer a = {.items = raised, .count = 3};
    struct tr_raised r;
    struct tr_header h;
    struct tr_span cursor;
    size_t entries;
    uint64_t id;

    (void)state;
    assert_int_equal(tr_answer_raised(&a, &r), TARRY_OK);
    assert_true(r.was_us == 10 && r.is_us == 11 && r.left == 12);
    a.count = 2;
    assert_int_equal(tr_answer_raised(&a, &r), TARRY_EDAMAGED);
    a = (struct tr_answer){.items = scanned, .count = 3};
    assert_int_equal(tr_answer_scanned(&a, &cursor, &entries), TARRY_OK);
    assert_true(entries == 1 && cursor.len == 2);
    assert_int_equal(tr_answer_scanned_entry(&a, 0, &id, &h), TARRY_OK);
    assert_true(id == 0x11 && h.ver == 3 && h.set == 'r');
    scanned[1].at = "x0000000000011";
    assert_int_equal(tr_answer_scanned_entry(&a, 0, &id, &h), TARRY_EDAMAGED);
    a.count = 2;
    assert_int_equal(tr_answer_scanned(&a, &cursor, &entries), TARRY_EDAMAGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eval_index),
        cmocka_unit_test(test_eval_claim_raise_scan),
        cmocka_unit_test(test_answer_claim_and_index),
        cmocka_unit_test(test_answer_raise_and_scan),
        cmocka_unit_test(test_eval_common),
        cmocka_unit_test(test_eval_push),
        cmocka_unit_test(test_eval_push_mixed),
        cmocka_unit_test(test_eval_edit),
        cmocka_unit_test(test_eval_acks),
        cmocka_unit_test(test_eval_take),
        cmocka_unit_test(test_eval_no_memory),
        cmocka_unit_test(test_answer_take),
        cmocka_unit_test(test_answer_all_new),
        cmocka_unit_test(test_answer_push_and_edit),
        cmocka_unit_test(test_answer_kick_and_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
