#ifndef TR_CLUSTER_HEX_H
#define TR_CLUSTER_HEX_H

/*
 * Numbers of a fixed width in lower-case hex: how ids, times and headers stand in Redis. Lua keeps
 * them exact, and as text they sort like the numbers.
 */

#include <stdbool.h>
#include <stdint.h>

enum {
    TR_HEX_ID = 14, /* ids and times: below 2^53, as doubles are exact up to there */
};

/* Writes the low 4 * width bits. */
static inline void tr_hex_put(char *out, unsigned width, uint64_t v)
{
    for (unsigned i = width; i > 0; i--) {
        out[i - 1] = "0123456789abcdef"[v & 15];
        v >>= 4;
    }
}

/* False: that is no such number, and *v is as it was. width is 16 at most. */
static inline bool tr_hex_get(const char *text, unsigned width, uint64_t *v)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < width; i++) {
        char c = text[i];

        if (c >= '0' && c <= '9') {
            sum = sum << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            sum = sum << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            return false;
        }
    }
    *v = sum;
    return true;
}

#endif
