#ifndef TR_BASE_BITS_H
#define TR_BASE_BITS_H

/* Bits of a word. */

#include <stdint.h>

/* How many are set. The compiler would call a function for it, since not every machine has an
 * instruction; far jobs and groups ask for it all the time. */
static inline unsigned tr_ones(uint64_t bits)
{
    bits -= bits >> 1 & UINT64_C(0x5555555555555555);
    bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
    bits = (bits + (bits >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(bits * UINT64_C(0x0101010101010101) >> 56);
}

#endif
