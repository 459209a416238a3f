#ifndef TR_PROTO_JSON_READ_H
#define TR_PROTO_JSON_READ_H

/*
 * Reads JSON text that has passed json_in.h, in place and without memory: values are spans of the
 * text. (Of other text it makes nonsense, but never reads past its end.) See json_read.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tr_json_kind {
    TR_JSON_OBJECT_KIND,
    TR_JSON_ARRAY_KIND,
    TR_JSON_STRING_KIND,
    TR_JSON_NUMBER_KIND,
    TR_JSON_TRUE_KIND,
    TR_JSON_FALSE_KIND,
    TR_JSON_NULL_KIND,
};

struct tr_json_value {
    enum tr_json_kind kind;
    const char *text; /* as it stands there: quotes and brackets included, spaces around it not */
    size_t len;
};

/* What is left of an object or an array. */
struct tr_json_walk {
    const char *at;
    const char *end;
};

struct tr_json_value tr_json_value_of(const char *text, size_t len);

/* Begins with an object or an array. */
void tr_json_walk_init(struct tr_json_walk *w, const struct tr_json_value *v);

/* The next one; false: that was all. */
bool tr_json_walk_element(struct tr_json_walk *w, struct tr_json_value *v);
bool tr_json_walk_member(struct tr_json_walk *w, struct tr_json_value *name,
                         struct tr_json_value *v);

/* What a string says: at most v->len - 2 bytes of UTF-8, perhaps with NULs. Gives how many. */
size_t tr_json_unescape(const struct tr_json_value *v, char *out);

/* True when the string says just this. */
bool tr_json_says(const struct tr_json_value *v, const char *text);

enum { TR_JSON_DECIMAL_MAX = 64 };

/* A number without an exponent, with no zeros at the end behind a point, and without the minus of
 * -0: 5.0 is 5, and 1.5e3 is 1500. Gives how many bytes; 0: it would be too long. */
size_t tr_json_decimal(const struct tr_json_value *v, char out[TR_JSON_DECIMAL_MAX]);

/* False: no whole number of 0 to UINT64_MAX, however it is written. */
bool tr_json_u64(const struct tr_json_value *v, uint64_t *number);

#endif
