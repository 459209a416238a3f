/* Reading answers: thin words over proto/json_read.h. */

#include "cli/json.h"

#include "base/base64.h"
#include "base/utf8.h"
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tr_cli_member(const struct tr_json_value *object, const char *name, struct tr_json_value *v)
{
    struct tr_json_walk walk;
    struct tr_json_value is;

    if (object->kind != TR_JSON_OBJECT_KIND) {
        return false;
    }
    tr_json_walk_init(&walk, object);
    while (tr_json_walk_member(&walk, &is, v)) {
        if (tr_json_says(&is, name)) {
            return true;
        }
    }
    return false;
}

/* How many bytes stand for one character, and those; 0: the character itself will do. */
static size_t escape(const uint8_t *at, size_t span, char out[8])
{
    static const char hex[] = "0123456789abcdef";
    bool high = span == 2 && at[0] == 0xc2 && at[1] < 0xa0; /* controls of their own */

    if (span == 1 && (*at == '\n' || *at == '\t' || *at == '\r')) {
        out[0] = '\\';
        out[1] = (char)(*at == '\n' ? 'n' : *at == '\t' ? 't' : 'r');
        return 2;
    }
    if (span == 0 || high || *at < 0x20 || *at == 0x7f) {
        uint8_t byte = high ? at[1] : *at;

        out[0] = '\\';
        out[1] = 'x';
        out[2] = hex[byte >> 4];
        out[3] = hex[byte & 15];
        return 4;
    }
    return 0;
}

/* Bytes of the character at the beginning; 0: it is none of UTF-8. */
static size_t span_of(const uint8_t *at, size_t left)
{
    size_t want = *at < 0x80 ? 1 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;

    return want <= left && tr_utf8_ok(at, want) ? want : 0;
}

const char *tr_cli_printable(const void *bytes, size_t len, char *out, size_t room)
{
    const uint8_t *at = bytes;
    const uint8_t *end = at + len;
    size_t used = 0;

    while (at < end) {
        char code[8];
        size_t span = span_of(at, (size_t)(end - at));
        size_t coded = escape(at, span, code);
        size_t more = coded != 0 ? coded : span;

        if (used + more + 1 > room) {
            break;
        }
        memcpy(out + used, coded != 0 ? (const void *)code : at, more);
        used += more;
        at += span != 0 ? span : 1;
    }
    out[used] = '\0';
    return out;
}

const char *tr_cli_string(const struct tr_json_value *object, const char *name, char *out,
                          size_t room)
{
    struct tr_json_value v;
    char *bytes;
    size_t len;

    out[0] = '\0';
    if (!tr_cli_member(object, name, &v) || v.kind == TR_JSON_NULL_KIND) {
        return out;
    }
    if (v.kind != TR_JSON_STRING_KIND) {
        return tr_cli_printable(v.text, v.len, out, room);
    }
    bytes = tr_cli_bytes(object, name, &len);
    (void)tr_cli_printable(bytes, len, out, room);
    free(bytes);
    return out;
}

bool tr_cli_number(const struct tr_json_value *object, const char *name, uint64_t *n)
{
    struct tr_json_value v;

    return tr_cli_member(object, name, &v) && v.kind == TR_JSON_NUMBER_KIND && tr_json_u64(&v, n);
}

uint64_t tr_cli_number_or(const struct tr_json_value *object, const char *name, uint64_t other)
{
    uint64_t n;

    return tr_cli_number(object, name, &n) ? n : other;
}

bool tr_cli_is_true(const struct tr_json_value *object, const char *name)
{
    struct tr_json_value v;

    return tr_cli_member(object, name, &v) && v.kind == TR_JSON_TRUE_KIND;
}

char *tr_cli_bytes(const struct tr_json_value *object, const char *name, size_t *len)
{
    struct tr_json_value v;
    char *out;

    *len = 0;
    if (!tr_cli_member(object, name, &v) || v.kind != TR_JSON_STRING_KIND) {
        return NULL;
    }
    out = tr_cli_memory(NULL, v.len + 1);
    *len = tr_json_unescape(&v, out);
    out[*len] = '\0';
    return out;
}

char *tr_cli_body(const struct tr_json_value *job, size_t *len)
{
    char *bytes = tr_cli_bytes(job, "body", len);

    if (bytes == NULL) {
        bytes = tr_cli_bytes(job, "body_base64", len);
        if (bytes != NULL && !tr_base64_read((uint8_t *)bytes, len, bytes, *len)) {
            *len = 0;
        }
    }
    if (bytes == NULL) {
        bytes = tr_cli_memory(NULL, 1);
        *len = 0;
    }
    bytes[*len] = '\0';
    return bytes;
}

char *tr_cli_quote(const char *text)
{
    char *out = tr_cli_memory(NULL, 6 * strlen(text) + 3);
    char *at = out;

    *at++ = '"';
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20) {
            at += snprintf(at, 7, "\\u%04x", (unsigned)*text);
        } else {
            if (*text == '"' || *text == '\\') {
                *at++ = '\\';
            }
            *at++ = *text;
        }
    }
    *at++ = '"';
    *at = '\0';
    return out;
}
