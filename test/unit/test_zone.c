/* Zones: hand-made files, cut short and changed ones, and rules. Real zones are compared with
 * another reader by test_zones.py. */

#include "rules/zone.h"

#include "base/err.h"
#include "base/rng.h"
#include "os/zones_linux.h"
#include "rules/moment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { H = 3600 };

static int64_t at(const char *text)
{
    const char *why;
    int64_t us = 0;

    assert_int_equal(tr_moment_read(text, strlen(text), &us, &why), TARRY_OK);
    return us / 1000000;
}

/* ---- files made here ---- */

struct file {
    uint8_t bytes[1024];
    size_t len;
};

static void put(struct file *f, uint64_t v, unsigned size)
{
    for (unsigned i = size; i > 0; i--) {
        f->bytes[f->len++] = (uint8_t)(v >> (8 * (i - 1)));
    }
}

static void put_head(struct file *f, char version, unsigned times, unsigned types)
{
    memcpy(f->bytes + f->len, "TZif", 4);
    f->len += 4;
    put(f, (uint8_t)version, 1);
    for (unsigned i = 0; i < 15; i++) {
        put(f, 0, 1);
    }
    put(f, 0, 4);
    put(f, 0, 4);
    put(f, 0, 4);
    put(f, times, 4);
    put(f, types, 4);
    put(f, 4, 4);
}

/* Two changes: 0 to +1 h at 1000, to -30 min at 5000; then the rule. */
static void make(struct file *f, const char *rule)
{
    static const int32_t east[] = {600, H, -1800};
    static const int64_t times[] = {1000, 5000};

    f->len = 0;
    put_head(f, '2', 0, 1);
    put(f, 0, 6);
    put(f, 0, 4);
    put_head(f, '2', 2, 3);
    for (unsigned i = 0; i < 2; i++) {
        put(f, (uint64_t)times[i], 8);
    }
    put(f, 1, 1);
    put(f, 2, 1);
    for (unsigned i = 0; i < 3; i++) {
        put(f, (uint32_t)east[i], 4);
        put(f, 0, 2);
    }
    put(f, 0, 4);
    f->bytes[f->len++] = '\n';
    memcpy(f->bytes + f->len, rule, strlen(rule));
    f->len += strlen(rule);
    f->bytes[f->len++] = '\n';
}

static void expect_span(const struct tr_zone *z, int64_t moment, int64_t from, int64_t until,
                        int32_t east)
{
    struct tr_zone_span span = tr_zone_at(z, moment);

    if (span.from_s != from || span.until_s != until || span.east_s != east) {
        fail_msg("at %lld: %lld to %lld, %d", (long long)moment, (long long)span.from_s,
                 (long long)span.until_s, (int)span.east_s);
    }
}

static void test_zone_table(void **state)
{
    struct file f;
    struct tr_zone z;

    (void)state;
    make(&f, "");
    assert_int_equal(tr_zone_read(f.bytes, f.len, &z), TARRY_OK);
    expect_span(&z, -1, INT64_MIN, 1000, 600);
    expect_span(&z, 999, INT64_MIN, 1000, 600);
    expect_span(&z, 1000, 1000, 5000, H);
    expect_span(&z, 4999, 1000, 5000, H);
    expect_span(&z, 5000, 5000, INT64_MAX, -1800);
    expect_span(&z, INT64_C(1) << 40, 5000, INT64_MAX, -1800);
}

static void test_zone_utc_is_zero(void **state)
{
    struct tr_zone z = {0};

    (void)state;
    expect_span(&z, 0, INT64_MIN, INT64_MAX, 0);
    assert_true(tr_zone_is_utc("UTC", 3));
    assert_false(tr_zone_is_utc("UTC1", 4));
    assert_false(tr_zone_is_utc("GMT", 3));
}

static struct tr_zone with_rule(struct file *f, const char *rule)
{
    struct tr_zone z;

    make(f, rule);
    if (tr_zone_read(f->bytes, f->len, &z) != TARRY_OK) {
        fail_msg("%s", rule);
    }
    return z;
}

static void test_zone_rules(void **state)
{
    struct file f;
    struct tr_zone z = with_rule(&f, "<+0330>-3:30");

    (void)state;
    expect_span(&z, 6000, 5000, INT64_MAX, 3 * H + 1800);
    z = with_rule(&f, "CET-1CEST,M3.5.0,M10.5.0/3");
    expect_span(&z, at("2050-03-27T01:00:00Z"), at("2050-03-27T01:00:00Z"),
                at("2050-10-30T01:00:00Z"), 2 * H);
    expect_span(&z, at("2050-03-27T00:59:59Z"), at("2049-10-31T01:00:00Z"),
                at("2050-03-27T01:00:00Z"), H);
    z = with_rule(&f, "EST5EDT,M3.2.0,M11.1.0");
    expect_span(&z, at("2100-07-01T00:00:00Z"), at("2100-03-14T07:00:00Z"),
                at("2100-11-07T06:00:00Z"), -4 * H);
    z = with_rule(&f, "IST-1GMT0,M10.5.0,M3.5.0/1"); /* the standard is the summer */
    expect_span(&z, at("2050-07-01T00:00:00Z"), at("2050-03-27T01:00:00Z"),
                at("2050-10-30T01:00:00Z"), H);
    z = with_rule(&f, "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"); /* south of the equator */
    expect_span(&z, at("2050-01-01T00:00:00Z"), at("2050-10-01T15:30:00Z") - 365 * 86400 + 86400,
                at("2050-04-02T15:00:00Z"), 11 * H);
    z = with_rule(&f, "<-02>2<-01>,M3.5.0/-1,M10.5.0/0");
    expect_span(&z, at("2050-07-01T00:00:00Z"), at("2050-03-27T01:00:00Z"),
                at("2050-10-30T01:00:00Z"), -H);
    z = with_rule(&f, "XXX0YYY,J60/0,59/0"); /* 1 March, and the day before it or 29 February */
    expect_span(&z, at("2023-03-01T00:00:00Z"), at("2023-03-01T00:00:00Z"),
                at("2024-02-28T23:00:00Z"), H);
    expect_span(&z, at("2024-02-29T00:00:00Z"), at("2024-02-28T23:00:00Z"),
                at("2024-03-01T00:00:00Z"), 0);
}

/* Summer all year long: it ends at the moment at which it begins. */
static void test_zone_rule_without_winter(void **state)
{
    struct file f;
    struct tr_zone z = with_rule(&f, "EST5EDT,0/0,J365/25");

    (void)state;
    for (int64_t t = at("2030-12-30T00:00:00Z"); t < at("2031-01-03T00:00:00Z"); t += 600) {
        assert_int_equal(tr_zone_at(&z, t).east_s, -4 * H);
        assert_true(tr_zone_at(&z, t).until_s > t);
    }
}

static void test_zone_bad_rules(void **state)
{
    static const char *const rules[] = {
        "CET",
        "-1",
        "CET-1CEST",
        "CET-25",
        "CET-1CEST,M3",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M3.5.0,M10.5.0/168",
        "CET-1CEST,J0,J2",
        "CET-1CEST,J1,J366",
        "CET-1CEST,366,2",
        "<+03-3",
        "CET-1CEST,M3.5.0,M10.5.0x",
        "CET-1:60",
    };
    struct file f;
    struct tr_zone z;

    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        make(&f, rules[i]);
        if (tr_zone_read(f.bytes, f.len, &z) != TARRY_EINVAL) {
            fail_msg("%s", rules[i]);
        }
    }
}

/* Whatever the bytes are, they are refused or can be used: with asan nothing is read beyond them.
 */
static void test_zone_any_bytes(void **state)
{
    struct tr_rng r = {7};
    struct file f;
    struct tr_zone z;

    (void)state;
    make(&f, "CET-1CEST,M3.5.0,M10.5.0/3");
    for (size_t len = 0; len < f.len; len++) {
        assert_int_equal(tr_zone_read(f.bytes, len, &z), TARRY_EINVAL);
    }
    for (unsigned i = 0; i < 20000; i++) {
        struct file bad = f;

        bad.bytes[tr_rng_below(&r, f.len)] ^= (uint8_t)(1 + tr_rng_below(&r, 255));
        bad.bytes[tr_rng_below(&r, f.len)] ^= (uint8_t)(tr_rng_below(&r, 256));
        if (tr_zone_read(bad.bytes, f.len, &z) == TARRY_OK) {
            int64_t t = (int64_t)tr_rng_below(&r, UINT64_C(1) << 33);
            struct tr_zone_span span = tr_zone_at(&z, t);

            assert_true(span.from_s <= t && t < span.until_s);
        }
    }
}

static void test_zone_refuses_what_it_cannot_use(void **state)
{
    struct file f;
    struct tr_zone z;

    (void)state;
    make(&f, "");
    f.bytes[4] = 0; /* version 1: 32 bits only */
    assert_int_equal(tr_zone_read(f.bytes, f.len, &z), TARRY_EINVAL);
    make(&f, "");
    f.bytes[44 + 10 + 31] = 1; /* a leap second */
    assert_int_equal(tr_zone_read(f.bytes, f.len, &z), TARRY_EINVAL);
    make(&f, "");
    f.bytes[44 + 10 + 44 + 16] = 3; /* a type that there is not */
    assert_int_equal(tr_zone_read(f.bytes, f.len, &z), TARRY_EINVAL);
    make(&f, "");
    f.bytes[44 + 10 + 44 + 6] = 0xff; /* times that fall */
    assert_int_equal(tr_zone_read(f.bytes, f.len, &z), TARRY_EINVAL);
}

static void test_zone_names(void **state)
{
    static const char *const good[] = {
        "UTC",       "Europe/Berlin",          "America/Argentina/Buenos_Aires",
        "Etc/GMT+5", "America/Port-au-Prince", "W-SU",
        "GMT0"};
    static const char *const bad[] = {"",    "/etc/passwd", "../x", "a/../b", "a//b", "a/",
                                      "a.b", "a b",         "a\n",  "-a",     "1a",   "a/-b"};
    char more[TR_ZONE_NAME_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(tr_zone_name_ok(good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(tr_zone_name_ok(bad[i], strlen(bad[i])));
    }
    memset(more, 'a', sizeof more);
    assert_true(tr_zone_name_ok(more, TR_ZONE_NAME_MAX));
    assert_false(tr_zone_name_ok(more, TR_ZONE_NAME_MAX + 1));
}

static void test_zone_of_the_system(void **state)
{
    static uint8_t bytes[TR_ZONE_BYTES_MAX];
    struct tr_zone_file file = {bytes, sizeof bytes, 0};
    struct tr_zone z;

    (void)state;
    assert_int_equal(tr_zones_linux_read(NULL, "Asia/Shanghai", 13, &file), TARRY_OK);
    assert_int_equal(tr_zone_read(bytes, file.len, &z), TARRY_OK);
    assert_int_equal(tr_zone_at(&z, at("2026-11-15T00:00:00Z")).east_s, 8 * H);
    file.size = file.len - 1;
    assert_int_equal(tr_zones_linux_read(NULL, "Asia/Shanghai", 13, &file), TARRY_EFULL);
    assert_int_equal(tr_zones_linux_read(NULL, "Asia/Nowhere", 12, &file), TARRY_ENOTFOUND);
    assert_int_equal(tr_zones_linux_read(NULL, "Asia", 4, &file), TARRY_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zone_table),
        cmocka_unit_test(test_zone_utc_is_zero),
        cmocka_unit_test(test_zone_rules),
        cmocka_unit_test(test_zone_rule_without_winter),
        cmocka_unit_test(test_zone_bad_rules),
        cmocka_unit_test(test_zone_any_bytes),
        cmocka_unit_test(test_zone_refuses_what_it_cannot_use),
        cmocka_unit_test(test_zone_names),
        cmocka_unit_test(test_zone_of_the_system),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
