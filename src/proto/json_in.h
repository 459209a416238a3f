#ifndef TR_PROTO_JSON_IN_H
#define TR_PROTO_JSON_IN_H

/*
 * JSON that comes in: is it JSON at all, and where does each item begin and end? See json_in.c.
 *
 * Bytes are fed as they come, in pieces of any size, so that no piece of work is long. Nothing is
 * kept but a few words: the caller has the bytes and cuts the items out by their offsets. What has
 * passed is read with json_read.h.
 */

#include "base/utf8.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_JSON_DEPTH_MAX = 64 };

enum tr_json_form {
    TR_JSON_VALUE, /* one value: the item */
    TR_JSON_ARRAY, /* an array: its elements are the items */
    TR_JSON_LINES, /* NDJSON: one item a line, empty lines between them */
};

enum tr_json_event {
    TR_JSON_MORE, /* all bytes were taken */
    TR_JSON_ITEM, /* an item ended: bytes item_from to item_to of all that were fed; feed the rest
                   */
    TR_JSON_END,  /* tr_json_in_end only: it was whole */
    TR_JSON_BAD,  /* it is no JSON: see why and at; it stays so */
};

struct tr_json_in {
    enum tr_json_form form;
    uint8_t state;
    uint8_t depth;
    uint64_t objects;    /* bit i: the i-th of the open brackets is { */
    bool is_name;        /* the string being read is the name of a member */
    uint8_t hex_left;    /* digits of \u still to come */
    uint16_t unit;       /* what they say so far */
    bool half;           /* the first half of a surrogate pair came */
    struct tr_utf8 utf8; /* inside a string */
    const char *literal; /* what is left of true, false, null */
    uint64_t at;         /* bytes taken so far */
    uint64_t item_from;
    uint64_t item_to;
    const char *why; /* BAD: the end of a sentence */
};

void tr_json_in_init(struct tr_json_in *s, enum tr_json_form form);

/* Takes bytes up to the end of an item, of the bytes, or of what is JSON, and says how many. */
enum tr_json_event tr_json_in_feed(struct tr_json_in *s, const void *bytes, size_t len,
                                   size_t *taken);

/* There are no more bytes. ITEM: a last one ended here; ask again. */
enum tr_json_event tr_json_in_end(struct tr_json_in *s);

#endif
