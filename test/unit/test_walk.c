/* Walks through a topic's jobs: arguments, answers, settings, pages. */

#include "cluster/walk.h"

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

static void start(struct fixture *f, enum tr_script_name script)
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
    tr_eval_begin(&f->call, script, &f->about);
}

static void end(struct fixture *f)
{
    tr_eval_fini(&f->call);
    assert_int_equal(f->mem.used_bytes, 0);
}

enum { OWN = 3 + 12 + 9 }; /* where a script's own arguments begin */

/* All of them, with a bar between. */
static const char *own(const struct fixture *f, char *out)
{
    size_t at = 0;

    for (unsigned i = OWN; i < f->call.count; i++) {
        memcpy(out + at, f->call.args[i].at, f->call.args[i].len);
        at += f->call.args[i].len;
        out[at++] = '|';
    }
    out[at] = '\0';
    return out;
}

static struct tr_span span(const char *text)
{
    return (struct tr_span){text, strlen(text)};
}

static void test_walk_purge(void **state)
{
    struct fixture f;
    struct tr_walk w = tr_walk_at('s');
    struct tr_span items[] = {span("00000000000c05"), span("r"), span("1024"), span("abc"),
                              span("00000000000003")};
    struct tr_answer a = {.items = items, .count = 5};
    uint64_t last_id = 0, count = 0;
    char text[512];

    (void)state;
    start(&f, TR_SCRIPT_PURGE);
    tr_eval_purge(&f.call, &w, 0, 500);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_string_equal(own(&f, text), "500||s|||");
    assert_int_equal(tr_answer_purged(&a, &w, &last_id, &count), TARRY_OK);
    assert_int_equal(last_id, 0xc05);
    assert_int_equal(count, 3);
    tr_eval_begin(&f.call, TR_SCRIPT_PURGE, &f.about);
    tr_eval_purge(&f.call, &w, last_id, 500);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_string_equal(own(&f, text), "500|00000000000c05|r|1024|abc|");
    items[1] = items[2] = items[3] = span("");
    assert_int_equal(tr_answer_purged(&a, &w, &last_id, &count), TARRY_OK);
    assert_int_equal(w.set, 0);
    items[2] = span("1");
    assert_int_equal(tr_answer_purged(&a, &w, &last_id, &count), TARRY_EDAMAGED);
    items[2] = span("");
    items[1] = span("x");
    assert_int_equal(tr_answer_purged(&a, &w, &last_id, &count), TARRY_EDAMAGED);
    a.count = 4;
    assert_int_equal(tr_answer_purged(&a, &w, &last_id, &count), TARRY_EDAMAGED);
    end(&f);
}

static void test_walk_orphans(void **state)
{
    struct fixture f;
    struct tr_walk w = tr_walk_at('p');
    struct tr_span items[] = {span("17"), span("abc"), span("00000000000002")};
    struct tr_answer a = {.items = items, .count = 3};
    uint64_t count = 0;
    char text[512];

    (void)state;
    start(&f, TR_SCRIPT_ORPHANS);
    tr_eval_orphans(&f.call, &w, "616263640000000", 100);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_string_equal(own(&f, text), "100|abcd|||");
    assert_int_equal(tr_answer_orphans(&a, &w, &count), TARRY_OK);
    assert_int_equal(w.set, 'p');
    assert_int_equal(count, 2);
    items[0] = items[1] = span("");
    assert_int_equal(tr_answer_orphans(&a, &w, &count), TARRY_OK);
    assert_int_equal(w.set, 0);
    end(&f);
}

static void test_walk_list(void **state)
{
    struct fixture f;
    struct tr_walk w = tr_walk_at('s');
    struct tr_filter filter = {.due_from_us = 5, .tag = "red", .tag_len = 3};
    struct tr_eval_list l = {.filter = &filter, .look = 9, .most = 8};
    struct tr_span items[] = {span("17"), span("abc"), span("00000000000c05"), span("bad")};
    struct tr_answer a = {.items = items, .count = 4};
    struct tr_listed_job job;
    size_t count = 0;
    char text[512];

    (void)state;
    start(&f, TR_SCRIPT_LIST);
    tr_eval_list(&f.call, &w, &l);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_string_equal(own(&f, text), "s|||9|8|30|5|0|0||red|");
    l.after = (struct tr_cursor){.at = 7, .id = 0xc05};
    filter = (struct tr_filter){.states = 1U << TR_DEAD, .due_to_us = 6};
    tr_eval_begin(&f.call, TR_SCRIPT_LIST, &f.about);
    tr_eval_list(&f.call, &w, &l);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_string_equal(own(&f, text), "s|||9|8|16|0|6|7|00000000000c05||");
    w.set = 'd'; /* all dead ones come behind a live one */
    tr_eval_begin(&f.call, TR_SCRIPT_LIST, &f.about);
    tr_eval_list(&f.call, &w, &l);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_string_equal(own(&f, text), "d|||9|8|16|0|6|0|||");

    assert_int_equal(tr_answer_listed(&a, &w, &count), TARRY_OK);
    assert_int_equal(w.set, 'd');
    assert_int_equal(count, 1);
    assert_int_equal(tr_answer_listed_job(&a, 0, &job), TARRY_EDAMAGED);
    items[0] = items[1] = span("");
    assert_int_equal(tr_answer_listed(&a, &w, &count), TARRY_OK);
    assert_int_equal(w.set, 0);
    a.count = 3;
    assert_int_equal(tr_answer_listed(&a, &w, &count), TARRY_EDAMAGED);
    end(&f);
}

static void test_walk_forecast(void **state)
{
    struct fixture f;
    struct tr_span items[] = {span("0000000000000500000000000007")};
    struct tr_answer a = {.items = items, .count = 1};
    uint64_t counts[2] = {1, 1};
    char text[512];

    (void)state;
    start(&f, TR_SCRIPT_FORECAST);
    tr_eval_forecast(&f.call, 10, 20, 2);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_string_equal(own(&f, text), "10|20|2|");
    assert_int_equal(tr_answer_forecast(&a, counts, 2), TARRY_OK);
    assert_int_equal(counts[0], 6);
    assert_int_equal(counts[1], 8);
    assert_int_equal(tr_answer_forecast(&a, counts, 1), TARRY_EDAMAGED);
    end(&f);
}

static void test_walk_conf(void **state)
{
    struct fixture f;
    struct tr_policy p = tr_policy_default();
    char text[1024];

    (void)state;
    start(&f, TR_SCRIPT_CONF);
    tr_eval_conf(&f.call, 3, &p, 1);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_string_equal(own(&f, text),
                        "3|ttr||retries||backoff||ttl||rate||burst||max_jobs||max_bytes||"
                        "in_flight||dead_max||dead_keep|2592000000000|out||in||");
    p.given = TR_POLICY_BIT(TTR) | TR_POLICY_BIT(RETRIES) | TR_POLICY_BIT(BACKOFF) |
              TR_POLICY_BIT(DEAD_KEEP);
    p.ttr_us = 7;
    p.retries = -1;
    p.backoff = (struct tr_backoff){.count = 1, .list_us = {9}};
    p.ttl_us = 8;
    p.rate_milli = 4000;
    p.max_jobs = 100;
    p.max_bytes = 1001;
    p.in_flight = 8;
    p.dead_max = 12;
    p.dead_keep_us = UINT64_MAX;
    p.paused = TR_PAUSED_OUT;
    tr_eval_begin(&f.call, TR_SCRIPT_CONF, &f.about);
    tr_eval_conf(&f.call, 4, &p, 4);
    assert_int_equal(tr_eval_end(&f.call), TARRY_OK);
    assert_string_equal(
        own(&f, text),
        "4|ttr|7|retries|-1|backoff|l9|ttl|8|rate|1000|burst|1|max_jobs|25|max_bytes|250|"
        "in_flight|2|"
        "dead_max|3|dead_keep|9007199254740991|out|9007199254740991|in||");
    end(&f);
}

static int add(struct tr_page *p, uint64_t id, uint64_t due_us, char set)
{
    static const char bytes[] = "header";
    struct tr_listed_job job = {.id = id,
                                .header = {.set = set, .due_us = due_us, .at_us = due_us},
                                .bytes = {bytes, sizeof bytes - 1}};

    return tr_page_add(p, &job);
}

static void test_page(void **state)
{
    struct tr_mem mem;
    struct tr_page p;

    (void)state;
    tr_mem_init(&mem, 0);
    assert_int_equal(tr_page_init(&p, &mem, 3), TARRY_OK);
    assert_int_equal(add(&p, 5, 50, 's'), TARRY_OK);
    assert_int_equal(add(&p, 9, 10, 'd'), TARRY_OK);
    assert_int_equal(add(&p, 6, 50, 'p'), TARRY_OK);
    assert_int_equal(add(&p, 6, 50, 'r'), TARRY_OK); /* twice: it moved */
    assert_false(p.more);
    assert_int_equal(p.jobs[2].key.id, 9); /* dead ones come last */
    assert_int_equal(add(&p, 4, 60, 'r'), TARRY_OK);
    assert_true(p.more);
    assert_int_equal(p.count, 3);
    assert_int_equal(p.jobs[0].key.id, 5);
    assert_int_equal(p.jobs[1].key.id, 6);
    assert_int_equal(p.jobs[2].key.id, 4);
    mem.fail_at = mem.calls + 1;
    assert_int_equal(add(&p, 3, 70, 's'), TARRY_OK); /* behind them: it is not kept */
    assert_int_equal(add(&p, 2, 20, 's'), TARRY_ENOMEM);
    assert_int_equal(p.count, 3);
    assert_int_equal(p.jobs[0].key.id, 5);
    assert_memory_equal(p.jobs[2].bytes, "header", 6);
    tr_page_fini(&p);
    assert_int_equal(mem.used_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk_purge), cmocka_unit_test(test_walk_orphans),
        cmocka_unit_test(test_walk_list),  cmocka_unit_test(test_walk_forecast),
        cmocka_unit_test(test_walk_conf),  cmocka_unit_test(test_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
