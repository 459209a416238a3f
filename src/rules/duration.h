#ifndef TR_RULES_DURATION_H
#define TR_RULES_DURATION_H

/*
 * Durations as people write them: 250ms, 30s, 1h30m, 1.5h, 30d, or a bare number of seconds. See
 * duration.c for the grammar.
 */

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

enum { TR_DURATION_TEXT = 40 }; /* bytes for any duration that is printed, its NUL included */

/*
 * Reads all of text, up to 137 years. TARRY_EINVAL: *why says what is wrong with it, as the end of
 * a sentence that begins with the name of the field; *us is as it was.
 */
TR_MUST_USE int tr_duration_read(const char *text, size_t len, uint64_t *us, const char **why);

/* The same with a sign, for moves: -30m, +30m, and since a query turns + into a space, " 30m". */
TR_MUST_USE int tr_duration_read_signed(const char *text, size_t len, int64_t *us,
                                        const char **why);

/* Exact and read back as the same: 4m, 1h30m, 1s500ms, 0s. */
void tr_duration_print(char out[TR_DURATION_TEXT], uint64_t us);

/* For people, rounded down to what matters: 29m58s, 3d4h, 2.1 s, 250 ms, 7 us. */
void tr_duration_tell(char out[TR_DURATION_TEXT], uint64_t us);

#endif
