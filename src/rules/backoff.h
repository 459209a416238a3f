#ifndef TR_RULES_BACKOFF_H
#define TR_RULES_BACKOFF_H

/*
 * How long a job waits after its n-th attempt: a list, or a delay that grows. See backoff.c.
 */

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TR_BACKOFF_LIST_MAX = 32,
    TR_BACKOFF_TEXT = 1024, /* bytes for any that is printed, its NUL included */
};

struct tr_backoff {
    unsigned count;                        /* of the list; 0: it grows */
    uint32_t factor_hundredths;            /* 100 or more */
    uint32_t jitter_thousandths;           /* of the delay, added at most; 1000 or less */
    uint64_t base_us;                      /* the first delay, */
    uint64_t max_us;                       /* and the longest, before jitter */
    uint64_t list_us[TR_BACKOFF_LIST_MAX]; /* the last one repeats */
};

/* Bytes of it that mean something: who keeps many of them may leave out what is behind those. */
size_t tr_backoff_size(const struct tr_backoff *b);

/* exp(1s,2,1h,0.1) */
struct tr_backoff tr_backoff_default(void);

/*
 * "4m,10m,1h" or "exp(base,factor,max,jitter)"; spaces may stand around each part. TARRY_EINVAL:
 * *why says what is wrong with it, as the end of a sentence; *b is as it was.
 */
TR_MUST_USE int tr_backoff_read(const char *text, size_t len, struct tr_backoff *b,
                                const char **why);

/* Exact, and read back as the same. */
void tr_backoff_print(char out[TR_BACKOFF_TEXT], const struct tr_backoff *b);

/* As bytes, for records; out has room for TR_BACKOFF_BYTES. Gives the length. Read back from all of
 * p. TARRY_EDAMAGED: that is none. */
enum { TR_BACKOFF_BYTES = 400 };
size_t tr_backoff_encode(uint8_t *out, const struct tr_backoff *b);
TR_MUST_USE int tr_backoff_decode(const uint8_t *p, size_t len, struct tr_backoff *b);

/* Is it one that could have been read from a text? */
bool tr_backoff_ok(const struct tr_backoff *b);

/* Does a job wait, however often it has been tried? */
bool tr_backoff_waits(const struct tr_backoff *b);

/* After attempt n, counted from 1. The jitter is chosen by `random`, any number, and only adds. */
uint64_t tr_backoff_delay(const struct tr_backoff *b, uint32_t attempt, uint64_t random);

#endif
