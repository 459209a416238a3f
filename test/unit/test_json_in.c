/* JSON that comes in: what is JSON, how it is cut, in whatever pieces; and how it is read. */

#include "proto/json_in.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "proto/json_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ITEMS_MAX = 16 };

struct result {
    bool good;
    unsigned count;
    uint64_t from[ITEMS_MAX];
    uint64_t to[ITEMS_MAX];
    uint64_t at;
    const char *why;
};

static void note(struct result *r, const struct tr_json_in *s)
{
    assert_true(r->count < ITEMS_MAX);
    r->from[r->count] = s->item_from;
    r->to[r->count] = s->item_to;
    r->count++;
}

/* Fed in pieces of these sizes, again and again. */
static struct result scan(enum tr_json_form form, const char *text, size_t len, size_t piece)
{
    struct tr_json_in s;
    struct result r = {0};
    enum tr_json_event event = TR_JSON_MORE;
    size_t at = 0;

    tr_json_in_init(&s, form);
    while (at < len && event != TR_JSON_BAD) {
        size_t taken;

        event = tr_json_in_feed(&s, text + at, len - at < piece ? len - at : piece, &taken);
        at += taken;
        if (event == TR_JSON_ITEM) {
            note(&r, &s);
        }
    }
    while ((event = tr_json_in_end(&s)) == TR_JSON_ITEM) {
        note(&r, &s);
    }
    r.good = event == TR_JSON_END;
    r.at = s.at;
    r.why = s.why;
    assert_true(r.good == (s.why == NULL));
    return r;
}

static struct result check(enum tr_json_form form, const char *text, size_t len)
{
    struct result r = scan(form, text, len, len + 1);

    for (size_t piece = 1; piece < 8; piece++) {
        struct result other = scan(form, text, len, piece);

        assert_true(other.good == r.good && other.count == r.count && other.at == r.at);
        assert_memory_equal(other.from, r.from, sizeof r.from);
        assert_memory_equal(other.to, r.to, sizeof r.to);
    }
    return r;
}

static bool is_json(const char *text)
{
    return check(TR_JSON_VALUE, text, strlen(text)).good;
}

static const char *const good_texts[] = {
    "{}",
    "[]",
    "\"\"",
    "0",
    "-0",
    "12",
    "9",
    "-9.9e9",
    "-1.5e+10",
    "1E5",
    "1e-5",
    "0.0",
    "0e0",
    "true",
    "false",
    "null",
    " \t\r\n1 \t\r\n",
    "[1,2,3]",
    "[ ]",
    "{ }",
    "[[],{}]",
    "[0,-0,1.0]",
    "{\"a\":1,\"b\":[true,{\"c\":null}]}",
    "{\"a\" : 1 , \"a\" : 2}",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\\u0000\\uFFFF\\uabCD\"",
    "\"\\ud83d\\ude00\"",
    "\"\\uDBFF\\uDFFF\"",
    "\"\x7f\"",
    "\"\xc3\xa4\xf0\x9f\x98\x80\"",
    "[\"a\",\"b\"]",
    "[1 ,2]",
    "[\n1\n]",
};

static void test_json_in_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good_texts / sizeof good_texts[0]; i++) {
        struct result r = check(TR_JSON_VALUE, good_texts[i], strlen(good_texts[i]));

        if (!r.good || r.count != 1) {
            fail_msg("%s", good_texts[i]);
        }
    }
}

static const char *const bad_texts[] = {
    "",
    " ",
    "{",
    "[",
    "\"",
    "}",
    "]",
    "[}",
    "{]",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1 2]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{,}",
    "{a:1}",
    "{'a':1}",
    "{1:1}",
    "{\"a\" 1}",
    "{\"a\"::1}",
    "{\"a\":1 \"b\":2}",
    "'a'",
    "01",
    "-",
    "-a",
    "+1",
    ".5",
    "1.",
    "1.e5",
    "1e",
    "1e+",
    "1.5.5",
    "0x10",
    "00",
    "-01",
    "1a",
    "tru",
    "trux",
    "True",
    "nul",
    "nulll",
    "NaN",
    "Infinity",
    "-Infinity",
    "1 2",
    "{} {}",
    "[]]",
    "{}}",
    "\"a",
    "\"\\\"",
    "\"\\x41\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\U0041\"",
    "\"a\nb\"",
    "\"a\tb\"",
    "\"\x1f\"",
    "\"\\ud800\"",
    "\"\\ud800x\"",
    "\"\\ud800\\n\"",
    "\"\\ud800\\ud800\"",
    "\"\\udc00\"",
    "\"\\ud800\\u0041\"",
    "\"\\ud83d\\",
    "\"\xff\"",
    "\"\xc3x\"",
    "\"\xc3\"",
    "\"\xc3\\n\"",
    "\"\xed\xa0\x80\"",
    "\xef\xbb\xbf{}",
    "\xc3\xa4",
    "[1]x",
    "//\n1",
    "/**/1",
    "[1,/**/2]",
    "[\v1]",
    "[\f1]",
    "[\xc2\xa0,1]",
};

static void test_json_in_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_texts / sizeof bad_texts[0]; i++) {
        if (is_json(bad_texts[i])) {
            fail_msg("%s", bad_texts[i]);
        }
    }
    assert_false(check(TR_JSON_VALUE, "[\0]", 3).good);
    assert_false(check(TR_JSON_VALUE, "\"\0\"", 3).good);
    assert_false(check(TR_JSON_VALUE, "1\0", 2).good);
}

static void test_json_in_depth(void **state)
{
    char text[2 * TR_JSON_DEPTH_MAX + 3];
    struct result r;

    (void)state;
    memset(text, '[', TR_JSON_DEPTH_MAX);
    memset(text + TR_JSON_DEPTH_MAX, ']', TR_JSON_DEPTH_MAX);
    assert_true(check(TR_JSON_VALUE, text, sizeof text - 3).good);
    memset(text, '[', TR_JSON_DEPTH_MAX + 1);
    memset(text + TR_JSON_DEPTH_MAX + 1, ']', TR_JSON_DEPTH_MAX + 1);
    r = check(TR_JSON_VALUE, text, sizeof text - 1);
    assert_false(r.good);
    assert_int_equal(r.at, TR_JSON_DEPTH_MAX);
    assert_non_null(strstr(r.why, "deeper"));
    for (unsigned i = 0; i < TR_JSON_DEPTH_MAX; i++) { /* each bracket has its own kind */
        text[i] = '[';
        text[2 * TR_JSON_DEPTH_MAX - 1 - i] = ']';
    }
    for (unsigned i = 0; i < TR_JSON_DEPTH_MAX; i++) {
        text[2 * TR_JSON_DEPTH_MAX - 1 - i] = '}';
        assert_false(check(TR_JSON_VALUE, text, sizeof text - 3).good);
        text[2 * TR_JSON_DEPTH_MAX - 1 - i] = ']';
    }
}

static void cuts(enum tr_json_form form, const char *text, unsigned count, const char *const *want)
{
    struct result r = check(form, text, strlen(text));

    if (!r.good) {
        fail_msg("%s at %u: %s", text, (unsigned)r.at, r.why);
    }
    assert_int_equal(r.count, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(r.to[i] - r.from[i], strlen(want[i]));
        assert_memory_equal(text + r.from[i], want[i], strlen(want[i]));
    }
}

static void test_json_in_cuts(void **state)
{
    static const char *const mixed[] = {"{\"a\":[1,{}]}", "12", "\"],\"", "[[1],2]", "null"};

    (void)state;
    cuts(TR_JSON_ARRAY, "[{\"a\":[1,{}]},12 , \"],\"\n,[[1],2],null]", 5, mixed);
    cuts(TR_JSON_ARRAY, " [{\"a\":[1,{}]},12,\"],\",[[1],2]\t,null ] \n", 5, mixed);
    cuts(TR_JSON_LINES, "{\"a\":[1,{}]}\n12\n\"],\"\n[[1],2]\nnull", 5, mixed);
    cuts(TR_JSON_LINES, "\n\r\n {\"a\":[1,{}]}\r\n12 \r\n\n\"],\"\n[[1],2]\nnull\n\n", 5, mixed);
    cuts(TR_JSON_LINES, "12", 1, mixed + 1);
    cuts(TR_JSON_ARRAY, "[]", 0, NULL);
    cuts(TR_JSON_LINES, "", 0, NULL);
    cuts(TR_JSON_LINES, "\n", 0, NULL);
    cuts(TR_JSON_VALUE, " [1] ", 1, (const char *const[]){"[1]"});
}

static void test_json_in_cuts_not(void **state)
{
    static const char *const arrays[] = {"", "{}", "1", "[1", "[1]]", "[1][2]", "\"[]\"", "[1]1"};
    static const char *const lines[] = {"1 2", "{}{}",  "{\n}",        "[1,\n2]", "{}\n{",
                                        "1,2", "{}\n]", "{\"a\"\n:1}", "1\n2 3",  "\"a\nb\""};

    (void)state;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        assert_false(check(TR_JSON_ARRAY, arrays[i], strlen(arrays[i])).good);
    }
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_false(check(TR_JSON_LINES, lines[i], strlen(lines[i])).good);
    }
}

/* Where it stopped being JSON is told. */
static void test_json_in_says_where(void **state)
{
    (void)state;
    assert_int_equal(check(TR_JSON_VALUE, "[1,2,x]", 7).at, 5);
    assert_int_equal(check(TR_JSON_VALUE, "{\"a\":tru}", 9).at, 8);
    assert_int_equal(check(TR_JSON_VALUE, "{} x", 4).at, 3);
    assert_int_equal(check(TR_JSON_VALUE, "[1", 2).at, 2);
}

/* ---- reading ---- */

static void test_json_read_members(void **state)
{
    static const char text[] =
        " { \"topic\" : \"a b\" ,\"n\":12,\"o\":{\"x\":[1,\"}\"]},\"e\":[],\"t\":true,\"f\":false,"
        "\"0\":null,\"d\\u0065lay\":-1.5e3 } ";
    static const char *const names[] = {"topic", "n", "o", "e", "t", "f", "0", "delay"};
    static const char *const values[] = {
        "\"a b\"", "12", "{\"x\":[1,\"}\"]}", "[]", "true", "false", "null", "-1.5e3"};
    static const enum tr_json_kind kinds[] = {
        TR_JSON_STRING_KIND, TR_JSON_NUMBER_KIND, TR_JSON_OBJECT_KIND, TR_JSON_ARRAY_KIND,
        TR_JSON_TRUE_KIND,   TR_JSON_FALSE_KIND,  TR_JSON_NULL_KIND,   TR_JSON_NUMBER_KIND};
    struct tr_json_value object = tr_json_value_of(text, sizeof text - 1);
    struct tr_json_value name;
    struct tr_json_value v;
    struct tr_json_walk w;
    unsigned i = 0;

    (void)state;
    assert_true(is_json(text));
    assert_int_equal(object.kind, TR_JSON_OBJECT_KIND);
    assert_int_equal(object.len, sizeof text - 3);
    for (tr_json_walk_init(&w, &object); tr_json_walk_member(&w, &name, &v); i++) {
        assert_true(tr_json_says(&name, names[i]));
        assert_int_equal(v.kind, kinds[i]);
        assert_int_equal(v.len, strlen(values[i]));
        assert_memory_equal(v.text, values[i], v.len);
    }
    assert_int_equal(i, 8);
}

static void test_json_read_elements(void **state)
{
    static const size_t lens[] = {1, 7, 3, 2};
    static const char text[] = "[ 1,[2,[3]] ,\"]\" ,{}]";
    struct tr_json_value array = tr_json_value_of(text, sizeof text - 1);
    struct tr_json_value v;
    struct tr_json_walk w;
    unsigned i = 0;

    (void)state;
    for (tr_json_walk_init(&w, &array); tr_json_walk_element(&w, &v); i++) {
        assert_int_equal(v.len, lens[i]);
    }
    assert_int_equal(i, 4);
}

static void says(const char *text, const char *want, size_t len)
{
    struct tr_json_value v = tr_json_value_of(text, strlen(text));
    char out[100];

    assert_true(is_json(text));
    assert_int_equal(tr_json_unescape(&v, out), len);
    assert_memory_equal(out, want, len);
}

static void test_json_read_strings(void **state)
{
    struct tr_json_value v = tr_json_value_of("12", 2);

    (void)state;
    says("\"\"", "", 0);
    says("\"plain\"", "plain", 5);
    says("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8);
    says("\"a\\u0000b\"", "a\0b", 3);
    says("\"\\u007f\\u0080\\u07FF\\u0800\\uffff\"", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf",
         11);
    says("\"\\ud83d\\ude00\\uD800\\uDC00\\udbff\\udfff\"",
         "\xf0\x9f\x98\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 12);
    says("\"\\\\u0041\"", "\\u0041", 6);
    assert_false(tr_json_says(&v, "12"));
    v = tr_json_value_of("\"ab\"", 4);
    assert_true(tr_json_says(&v, "ab"));
    assert_false(tr_json_says(&v, "a"));
    assert_false(tr_json_says(&v, "abc"));
}

static bool u64(const char *text, uint64_t *n)
{
    struct tr_json_value v = tr_json_value_of(text, strlen(text));

    return tr_json_u64(&v, n);
}

static void test_json_read_numbers(void **state)
{
    uint64_t n = 0;

    (void)state;
    assert_true(u64("0", &n) && n == 0);
    assert_true(u64("18446744073709551615", &n) && n == UINT64_MAX);
    assert_false(u64("18446744073709551616", &n));
    assert_false(u64("-1", &n));
    assert_true(u64("1.0", &n) && n == 1);
    assert_true(u64("1e3", &n) && n == 1000);
    assert_true(u64("-0.0", &n) && n == 0);
    assert_false(u64("1.5", &n));
    assert_false(u64("-1e0", &n));
    assert_false(u64("1e40", &n));
    assert_false(u64("\"1\"", &n));
    assert_false(u64("true", &n));
}

static void test_json_plain(void **state)
{
    static const char *const numbers[][2] = {
        {"0", "0"},
        {"-0", "0"},
        {"-0.000e7", "0"},
        {"5.0", "5"},
        {"-5.50", "-5.5"},
        {"100", "100"},
        {"0.1e1", "1"},
        {"1.9e12", "1900000000000"},
        {"1.7951149066e+12", "1795114906600"},
        {"123.456E1", "1234.56"},
        {"1e-3", "0.001"},
        {"12.5e-2", "0.125"},
        {"0.00120e1", "0.012"},
        {"1e-28", "0.0000000000000000000000000001"},
        {"1234567890123456789012345678e0", "1234567890123456789012345678"},
        {"12345678901234567890123456789", ""},
        {"1e29", ""},
        {"1e-29", ""},
        {"1e999999999999", ""},
    };
    char out[TR_JSON_DECIMAL_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct tr_json_value v = tr_json_value_of(numbers[i][0], strlen(numbers[i][0]));
        size_t len = tr_json_decimal(&v, out);

        assert_int_equal(len, strlen(numbers[i][1]));
        assert_memory_equal(out, numbers[i][1], len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_plain),         cmocka_unit_test(test_json_in_good),
        cmocka_unit_test(test_json_in_bad),        cmocka_unit_test(test_json_in_depth),
        cmocka_unit_test(test_json_in_cuts),       cmocka_unit_test(test_json_in_cuts_not),
        cmocka_unit_test(test_json_in_says_where), cmocka_unit_test(test_json_read_members),
        cmocka_unit_test(test_json_read_elements), cmocka_unit_test(test_json_read_strings),
        cmocka_unit_test(test_json_read_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
