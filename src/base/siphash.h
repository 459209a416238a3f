#ifndef TR_BASE_SIPHASH_H
#define TR_BASE_SIPHASH_H

/*
 * SipHash-2-4 with 128 bits of output: a hash that nobody can aim at without its 128-bit key. So
 * clients cannot choose keys that fall together. See siphash.c.
 */

#include <stddef.h>
#include <stdint.h>

enum { TR_SIPHASH_KEY = 16 };

/* `high` is the first half of the output, `low` the second, each read as little-endian. */
struct tr_siphash {
    uint64_t high;
    uint64_t low;
};

struct tr_siphash tr_siphash(const uint8_t key[TR_SIPHASH_KEY], const void *p, size_t len);

/* The older form with 64 bits of output; its values are not part of those of the other. */
uint64_t tr_siphash64(const uint8_t key[TR_SIPHASH_KEY], const void *p, size_t len);

#endif
