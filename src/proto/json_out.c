/*
 * A writer that knows one bit: whether a comma is due. After an opening bracket and after a name
 * it is not, after everything else it is; so no stack is needed.
 *
 * Strings are copied in runs of bytes that need no escape, which is nearly always all of them;
 * eight bytes are looked at together.
 */

#include "proto/json_out.h"

#include "base/base64.h"
#include "base/utf8.h"

#include <string.h>

static void put(struct tr_json *j, const char *text, size_t len)
{
    tr_output_add(j->out, text, len);
}

static void comma(struct tr_json *j)
{
    if (j->more) {
        put(j, ",", 1);
    }
    j->more = true;
}

void tr_json_init(struct tr_json *j, struct tr_output *out)
{
    *j = (struct tr_json){.out = out};
}

void tr_json_open(struct tr_json *j, char bracket)
{
    comma(j);
    put(j, &bracket, 1);
    j->more = false;
}

void tr_json_close(struct tr_json *j, char bracket)
{
    put(j, &bracket, 1);
    j->more = true;
}

void tr_json_name_of(struct tr_json *j, const char *name, size_t len)
{
    uint8_t *at = tr_output_place(j->out, len + 4);

    if (at == NULL) {
        return;
    }
    if (j->more) {
        *at++ = ',';
    }
    *at++ = '"';
    memcpy(at, name, len);
    memcpy(at + len, "\":", 2);
    tr_output_added(j->out, len + (j->more ? 4 : 3));
    j->more = false;
}

static void put_escape(struct tr_json *j, uint8_t c)
{
    static const char hex[17] = "0123456789abcdef";
    static const char short_forms[33] = "........btn.fr..................";
    char text[6] = "\\u00";

    if (c == '"' || c == '\\') {
        text[1] = (char)c;
        put(j, text, 2);
    } else if (short_forms[c] != '.') {
        text[1] = short_forms[c];
        put(j, text, 2);
    } else {
        text[4] = hex[c >> 4];
        text[5] = hex[c & 15];
        put(j, text, 6);
    }
}

#define EACH UINT64_C(0x0101010101010101) /* a one in each byte */
#define TOPS (EACH << 7)

/* The top bit of some byte is set if one of the eight is 0; bytes from 0x80 on do not count. */
static uint64_t has_zero(uint64_t eight)
{
    return (eight - EACH) & ~eight & TOPS;
}

/* May one of eight bytes need an escape? */
static bool may_escape(const uint8_t *bytes)
{
    uint64_t eight;

    memcpy(&eight, bytes, sizeof eight);
    return (((eight - EACH * 0x20) & ~eight & TOPS) | has_zero(eight ^ EACH * '"') |
            has_zero(eight ^ EACH * '\\')) != 0;
}

/* Bytes that are UTF-8. */
static void put_escaped(struct tr_json *j, const uint8_t *bytes, size_t len)
{
    size_t from = 0;

    for (size_t i = 0; i < len; i++) {
        while (len - i >= 8 && !may_escape(bytes + i)) {
            i += 8;
        }
        if (i == len) {
            break;
        }
        if (bytes[i] < 0x20 || bytes[i] == '"' || bytes[i] == '\\') {
            put(j, (const char *)bytes + from, i - from);
            put_escape(j, bytes[i]);
            from = i + 1;
        }
    }
    put(j, (const char *)bytes + from, len - from);
}

void tr_json_string(struct tr_json *j, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    comma(j);
    put(j, "\"", 1);
    while (len > 0) {
        size_t span = tr_utf8_span(at, len);

        put_escaped(j, at, span);
        at += span;
        len -= span;
        if (len > 0) {
            put(j, "\xef\xbf\xbd", 3);
            at++;
            len--;
        }
    }
    put(j, "\"", 1);
}

void tr_json_plain(struct tr_json *j, const void *text, size_t len)
{
    uint8_t *at = tr_output_place(j->out, len + 3);

    if (at == NULL) {
        return;
    }
    tr_output_added(j->out, len + (j->more ? 3 : 2));
    if (j->more) {
        *at++ = ',';
    }
    *at++ = '"';
    memcpy(at, text, len);
    at[len] = '"';
    j->more = true;
}

void tr_json_text(struct tr_json *j, const char *text)
{
    tr_json_string(j, text, strlen(text));
}

enum { DIGITS_MAX = 20 };

/* Into the end of buf; gives where they begin. Two at a time: a division takes longer. */
static size_t print(char buf[DIGITS_MAX], uint64_t number)
{
    size_t at = DIGITS_MAX;

    for (; number >= 100; number /= 100) {
        buf[--at] = (char)('0' + number % 10);
        buf[--at] = (char)('0' + number % 100 / 10);
    }
    do {
        buf[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return at;
}

static void put_digits(struct tr_json *j, uint64_t number)
{
    char buf[DIGITS_MAX];
    size_t at = print(buf, number);

    put(j, buf + at, DIGITS_MAX - at);
}

void tr_json_member(struct tr_json *j, const char *name, uint64_t number)
{
    tr_json_name(j, name);
    put_digits(j, number);
    j->more = true;
}

void tr_json_number(struct tr_json *j, uint64_t number)
{
    comma(j);
    put_digits(j, number);
}

void tr_json_signed(struct tr_json *j, int64_t number)
{
    comma(j);
    if (number < 0) {
        put(j, "-", 1);
    }
    put_digits(j, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void tr_json_thousandths(struct tr_json *j, uint64_t number)
{
    char part[4] = {'.', (char)('0' + number / 100 % 10), (char)('0' + number / 10 % 10),
                    (char)('0' + number % 10)};
    size_t len = sizeof part;

    comma(j);
    put_digits(j, number / 1000);
    while (part[len - 1] == '0') {
        len--;
    }
    put(j, part, len > 1 ? len : 0);
}

void tr_json_id(struct tr_json *j, uint64_t id)
{
    char buf[DIGITS_MAX];
    size_t at = print(buf, id);

    tr_json_plain(j, buf + at, DIGITS_MAX - at);
}

void tr_json_bool(struct tr_json *j, bool yes)
{
    tr_json_raw(j, yes ? "true" : "false", yes ? 4 : 5);
}

void tr_json_null(struct tr_json *j)
{
    tr_json_raw(j, "null", 4);
}

void tr_json_raw(struct tr_json *j, const void *text, size_t len)
{
    comma(j);
    put(j, text, len);
}

void tr_json_body(struct tr_json *j, const uint8_t *bytes, size_t len)
{
    size_t coded = tr_base64_len(len);
    uint8_t *place;

    if (tr_utf8_ok(bytes, len)) {
        tr_json_name(j, "body");
        comma(j);
        put(j, "\"", 1);
        put_escaped(j, bytes, len);
        put(j, "\"", 1);
        return;
    }
    tr_json_name(j, "body_base64");
    comma(j);
    put(j, "\"", 1);
    place = tr_output_place(j->out, coded);
    if (place != NULL) {
        tr_base64_write((char *)place, bytes, len);
        tr_output_added(j->out, coded);
    }
    put(j, "\"", 1);
}
