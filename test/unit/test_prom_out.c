/* Lines for Prometheus: labels and their escapes, numbers, seconds, histograms. */

#include "proto/prom_out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct page {
    struct tr_mem mem;
    struct tr_output out;
    struct tr_prom p;
};

static void begin(struct page *page)
{
    tr_mem_init(&page->mem, 0);
    tr_output_init(&page->out, &page->mem);
    tr_prom_init(&page->p, &page->out);
}

static void end(struct page *page, const char *want)
{
    const uint8_t *bytes;
    size_t len = tr_output_ready(&page->out, 0, &bytes);

    assert_int_equal(len, strlen(want));
    assert_memory_equal(bytes, want, len);
    tr_output_fini(&page->out);
    assert_int_equal(page->mem.used_bytes, 0);
}

static void test_prom_families(void **state)
{
    struct page page;

    (void)state;
    begin(&page);
    tr_prom_gauge(&page.p, "a", "What a is.", 7);
    tr_prom_counter(&page.p, "b_total", "B.", UINT64_MAX);
    tr_prom_family(&page.p, "c", "gauge", "C.");
    tr_prom_begin(&page.p, "");
    tr_prom_label(&page.p, "x", "1", 1);
    tr_prom_label(&page.p, "y", "", 0);
    tr_prom_number(&page.p, 0);
    end(&page, "# HELP a What a is.\n# TYPE a gauge\na 7\n"
               "# HELP b_total B.\n# TYPE b_total counter\nb_total 18446744073709551615\n"
               "# HELP c C.\n# TYPE c gauge\nc{x=\"1\",y=\"\"} 0\n");
}

static void test_prom_seconds(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {0, "a 0\n"},
        {1, "a 0.000001\n"},
        {100, "a 0.0001\n"},
        {2500000, "a 2.5\n"},
        {-1500000, "a -1.5\n"},
        {3600000000, "a 3600\n"},
        {INT64_MIN, "a -9223372036854.775808\n"},
        {1794792583363929, "a 1794792583.363929\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct page page;

        begin(&page);
        page.p.name = "a";
        tr_prom_begin(&page.p, "");
        tr_prom_seconds(&page.p, cases[i].us);
        end(&page, cases[i].text);
    }
}

/* Whatever a label says, it ends where it ends. */
static void test_prom_escapes(void **state)
{
    static const struct {
        const char *value;
        const char *text;
    } cases[] = {
        {"plain-+/;.$_()", "a{l=\"plain-+/;.$_()\"} 1\n"},
        {"a\"} 5\nevil 1", "a{l=\"a\\\"} 5\\nevil 1\"} 1\n"},
        {"\\", "a{l=\"\\\\\"} 1\n"},
        {"\\n\"\n", "a{l=\"\\\\n\\\"\\n\"} 1\n"},
        {"gr\xc3\xbc\xc3\x9f\xff.", "a{l=\"gr\xc3\xbc\xc3\x9f\xef\xbf\xbd.\"} 1\n"},
        {"\xc3", "a{l=\"\xef\xbf\xbd\"} 1\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct page page;

        begin(&page);
        page.p.name = "a";
        tr_prom_begin(&page.p, "");
        tr_prom_label(&page.p, "l", cases[i].value, strlen(cases[i].value));
        tr_prom_number(&page.p, 1);
        end(&page, cases[i].text);
    }
}

/* Buckets are added up, and the last one is all there are. */
static void test_prom_hist(void **state)
{
    static const struct tr_hist_scale scale = {.count = 2, .bounds = {100, 2500000}};
    struct tr_hist h = {0};
    struct page page;

    (void)state;
    tr_hist_add(&h, &scale, 100);
    tr_hist_add(&h, &scale, 101);
    tr_hist_add(&h, &scale, 3000000);
    begin(&page);
    tr_prom_family(&page.p, "late", "histogram", "L.");
    tr_prom_hist(&page.p, &(struct tr_prom_hist){.hist = &h,
                                                 .scale = &scale,
                                                 .unit = TR_PROM_SECONDS,
                                                 .label = "topic",
                                                 .value = "t",
                                                 .len = 1});
    tr_prom_hist(&page.p,
                 &(struct tr_prom_hist){.hist = &h, .scale = &scale, .unit = TR_PROM_PLAIN});
    end(&page, "# HELP late L.\n# TYPE late histogram\n"
               "late_bucket{topic=\"t\",le=\"0.0001\"} 1\n"
               "late_bucket{topic=\"t\",le=\"2.5\"} 2\n"
               "late_bucket{topic=\"t\",le=\"+Inf\"} 3\n"
               "late_sum{topic=\"t\"} 3.000201\n"
               "late_count{topic=\"t\"} 3\n"
               "late_bucket{le=\"100\"} 1\n"
               "late_bucket{le=\"2500000\"} 2\n"
               "late_bucket{le=\"+Inf\"} 3\n"
               "late_sum 3000201\n"
               "late_count 3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prom_families),
        cmocka_unit_test(test_prom_seconds),
        cmocka_unit_test(test_prom_escapes),
        cmocka_unit_test(test_prom_hist),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
