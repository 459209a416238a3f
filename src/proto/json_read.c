/*
 * Since the text is known to be JSON, a value ends where its brackets or its quote close, or at
 * the next comma, bracket or space; the rest is walking.
 *
 * jansson was passed over: it copies everything into its own memory, which no budget sees; it is
 * recursive; and it does not keep the text of a value, which is what a job's body is when it is
 * given as an object.
 */

#include "proto/json_read.h"

#include "base/check.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Past spaces and the commas and colons between values. */
static void skip_between(struct tr_json_walk *w)
{
    while (w->at < w->end && (is_space(*w->at) || *w->at == ',' || *w->at == ':')) {
        w->at++;
    }
}

static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++) {
        at += *at == '\\' && at + 1 < end;
    }
    return at < end ? at + 1 : end;
}

static const char *bracket_end(const char *at, const char *end)
{
    size_t depth = 0;

    while (at < end) {
        if (*at == '"') {
            at = string_end(at, end);
            continue;
        }
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        at++;
        if (depth == 0) {
            break;
        }
    }
    return at;
}

static const char *word_end(const char *at, const char *end)
{
    while (at < end && !is_space(*at) && *at != ',' && *at != ']' && *at != '}' && *at != ':') {
        at++;
    }
    return at;
}

static enum tr_json_kind kind_of(char c)
{
    switch (c) {
    case '{':
        return TR_JSON_OBJECT_KIND;
    case '[':
        return TR_JSON_ARRAY_KIND;
    case '"':
        return TR_JSON_STRING_KIND;
    case 't':
        return TR_JSON_TRUE_KIND;
    case 'f':
        return TR_JSON_FALSE_KIND;
    case 'n':
        return TR_JSON_NULL_KIND;
    default:
        return TR_JSON_NUMBER_KIND;
    }
}

/* False: there is no value any more. */
static bool take_value(struct tr_json_walk *w, struct tr_json_value *v)
{
    const char *end;

    skip_between(w);
    if (w->at == w->end || *w->at == ']' || *w->at == '}') {
        return false;
    }
    v->kind = kind_of(*w->at);
    if (v->kind == TR_JSON_STRING_KIND) {
        end = string_end(w->at, w->end);
    } else if (v->kind == TR_JSON_OBJECT_KIND || v->kind == TR_JSON_ARRAY_KIND) {
        end = bracket_end(w->at, w->end);
    } else {
        end = word_end(w->at, w->end);
    }
    v->text = w->at;
    v->len = (size_t)(end - w->at);
    w->at = end;
    return true;
}

struct tr_json_value tr_json_value_of(const char *text, size_t len)
{
    struct tr_json_walk w = {text, text + len};
    struct tr_json_value v;

    if (!take_value(&w, &v)) {
        v = (struct tr_json_value){TR_JSON_NULL_KIND, text, 0};
    }
    return v;
}

void tr_json_walk_init(struct tr_json_walk *w, const struct tr_json_value *v)
{
    TR_CHECK(v->kind == TR_JSON_OBJECT_KIND || v->kind == TR_JSON_ARRAY_KIND);
    *w = (struct tr_json_walk){v->text + 1, v->text + v->len};
}

bool tr_json_walk_element(struct tr_json_walk *w, struct tr_json_value *v)
{
    return take_value(w, v);
}

bool tr_json_walk_member(struct tr_json_walk *w, struct tr_json_value *name,
                         struct tr_json_value *v)
{
    return take_value(w, name) && take_value(w, v);
}

/* ---- strings ---- */

static uint32_t hex4(const char *at)
{
    uint32_t unit = 0;

    for (unsigned i = 0; i < 4; i++) {
        uint32_t c = (uint8_t)at[i];

        unit = unit << 4 | ((c & 0x0f) + (c > '9' ? 9 : 0)); /* of a letter, the low bits are 1-6 */
    }
    return unit & 0xffff;
}

static char *put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *out++ = (char)(0xe0 | c >> 12);
        } else {
            *out++ = (char)(0xf0 | c >> 18);
            *out++ = (char)(0x80 | (c >> 12 & 63));
        }
        *out++ = (char)(0x80 | (c >> 6 & 63));
    }
    *out++ = (char)(0x80 | (c & 63));
    return out;
}

/* Behind \u; takes the other half of a pair along. No escape is shorter than what it becomes. */
static const char *take_unit(const char *at, const char *end, char **out)
{
    uint32_t c = end - at >= 4 ? hex4(at) : '?';

    at = end - at >= 4 ? at + 4 : end;
    if (c >= 0xd800 && c <= 0xdbff && end - at >= 6) {
        c = 0x10000 + ((c - 0xd800) << 10) + ((hex4(at + 2) - 0xdc00) & 0x3ff);
        at += 6;
    }
    *out = put_utf8(*out, c);
    return at;
}

static char escaped(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c;
    }
}

size_t tr_json_unescape(const struct tr_json_value *v, char *out)
{
    const char *at = v->text + 1;
    const char *end = v->text + v->len - (v->len > 1);
    char *start = out;

    TR_CHECK(v->kind == TR_JSON_STRING_KIND);
    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        size_t span = (size_t)((slash != NULL ? slash : end) - at);

        memmove(out, at, span);
        out += span;
        at += span;
        if (at + 1 >= end) {
            break;
        }
        if (at[1] == 'u') {
            at = take_unit(at + 2, end, &out);
        } else {
            *out++ = escaped(at[1]);
            at += 2;
        }
    }
    return (size_t)(out - start);
}

bool tr_json_says(const struct tr_json_value *v, const char *text)
{
    size_t len = strlen(text);
    char said[6 * 64];

    if (v->kind != TR_JSON_STRING_KIND || v->len > sizeof said) {
        return false; /* even if each character is escaped, no name of ours is so long */
    }
    return tr_json_unescape(v, said) == len && memcmp(said, text, len) == 0;
}

/* ---- numbers ---- */

enum { DIGITS_MAX = TR_JSON_DECIMAL_MAX / 2 - 4, EXPONENT_MAX = DIGITS_MAX };

/* The digits of a number without its point, and where that belongs. */
struct digits {
    char at[DIGITS_MAX];
    int count;
    int point; /* so many stand before it; may be negative, or more than there are */
};

static bool read_exponent(const char *at, const char *end, int *exponent)
{
    bool minus = at < end && *at == '-';
    int n = 0;

    at += at < end && (*at == '-' || *at == '+');
    for (; at < end; at++) {
        n = 10 * n + (*at - '0');
        if (n > EXPONENT_MAX) {
            return false;
        }
    }
    *exponent = minus ? -n : n;
    return true;
}

/* Without zeros in front; none: it is 0. */
static bool read_digits(const char *at, const char *end, struct digits *d)
{
    int exponent = 0;
    bool behind = false; /* the point */

    *d = (struct digits){.count = 0};
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            behind = true;
            continue;
        }
        d->point += !behind && (d->count > 0 || *at != '0');
        if (d->count > 0 || *at != '0') {
            if (d->count == DIGITS_MAX) {
                return false;
            }
            d->at[d->count++] = *at;
        } else {
            d->point -= behind;
        }
    }
    if (at < end && !read_exponent(at + 1, end, &exponent)) {
        return false;
    }
    d->point += exponent;
    while (d->count > 0 && d->count > d->point && d->at[d->count - 1] == '0') {
        d->count--;
    }
    return d->point <= DIGITS_MAX && d->point >= -DIGITS_MAX;
}

size_t tr_json_decimal(const struct tr_json_value *v, char out[TR_JSON_DECIMAL_MAX])
{
    bool minus = v->len > 0 && v->text[0] == '-';
    char *to = out;
    struct digits d;

    if (!read_digits(v->text + minus, v->text + v->len, &d)) {
        return 0;
    }
    if (d.count == 0) {
        *out = '0';
        return 1;
    }
    if (minus) {
        *to++ = '-';
    }
    if (d.point <= 0) {
        *to++ = '0';
        *to++ = '.';
    }
    for (int i = d.point; i < 0; i++) {
        *to++ = '0';
    }
    for (int i = 0; i < d.count; i++) {
        if (i > 0 && i == d.point) {
            *to++ = '.';
        }
        *to++ = d.at[i];
    }
    for (int i = d.count; i < d.point; i++) {
        *to++ = '0';
    }
    return (size_t)(to - out);
}

bool tr_json_u64(const struct tr_json_value *v, uint64_t *number)
{
    char plain[TR_JSON_DECIMAL_MAX];
    size_t len = v->kind == TR_JSON_NUMBER_KIND ? tr_json_decimal(v, plain) : 0;
    uint64_t n = 0;

    for (size_t i = 0; i < len; i++) {
        uint64_t digit = (uint64_t)(plain[i] - '0');

        if (plain[i] < '0' || plain[i] > '9' || n > (UINT64_MAX - digit) / 10) {
            return false;
        }
        n = n * 10 + digit;
    }
    *number = n;
    return len > 0;
}
