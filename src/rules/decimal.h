#ifndef TR_RULES_DECIMAL_H
#define TR_RULES_DECIMAL_H

/* Small decimal numbers of requests and policies, such as 0.1 or 2.5, as whole numbers. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_DECIMAL_TEXT = 32 }; /* bytes for any that is printed, its NUL included */

/*
 * Digits, and perhaps a point and digits; *scaled is that times 10 to the `places` (at most 9).
 * False: it is none, it has more places (but zeros), or it is more than `most` so scaled.
 */
bool tr_decimal_read(const char *text, size_t len, unsigned places, uint64_t most,
                     uint64_t *scaled);

/* As short as it can be: 2.5, not 2.500. */
void tr_decimal_print(char out[TR_DECIMAL_TEXT], uint64_t scaled, unsigned places);

#endif
