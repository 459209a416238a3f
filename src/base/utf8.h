#ifndef TR_BASE_UTF8_H
#define TR_BASE_UTF8_H

/*
 * Is it UTF-8? Shortest forms up to U+10FFFF without surrogates, as RFC 3629 has it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Between two bytes; all zero: between two characters. */
struct tr_utf8 {
    uint8_t need; /* bytes of this character still to come, */
    uint8_t low;  /* of which the next is one from low */
    uint8_t high; /* to high */
};

/* Goes on with the next byte. False: with that it is none. */
bool tr_utf8_step(struct tr_utf8 *u, uint8_t byte);

/* How many bytes at the beginning are whole characters of UTF-8. */
size_t tr_utf8_span(const uint8_t *bytes, size_t len);

bool tr_utf8_ok(const uint8_t *bytes, size_t len);

#endif
