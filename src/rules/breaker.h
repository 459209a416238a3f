#ifndef TR_RULES_BREAKER_H
#define TR_RULES_BREAKER_H

/*
 * A breaker: who does not answer is left alone for a while. See breaker.c.
 *
 * Time is an argument, of one clock that does not go back.
 */

#include <stdbool.h>
#include <stdint.h>

enum tr_breaker_state {
    TR_BREAKER_CLOSED,    /* all is well: as many as you like */
    TR_BREAKER_HALF_OPEN, /* one, to see */
    TR_BREAKER_OPEN,      /* none, until then */
};

enum { TR_BREAKER_FAILURES = 5 }; /* in a row open it */

#define TR_BREAKER_FIRST_US UINT64_C(1000000)
#define TR_BREAKER_LAST_US UINT64_C(30000000)

struct tr_breaker {
    enum tr_breaker_state state;
    unsigned failures; /* in a row */
    unsigned opened;   /* times since it was closed */
    uint64_t until_us; /* OPEN */
};

/* How many of `most` may be under way at once. An open one whose time is over is half-open then. */
unsigned tr_breaker_allows(struct tr_breaker *b, unsigned most, uint64_t now_us);

/* There was an answer, whatever it says. True: it is closed now, and was not. */
bool tr_breaker_answered(struct tr_breaker *b);

/* There was none. True: it is open now, and was not. */
bool tr_breaker_failed(struct tr_breaker *b, uint64_t now_us);

/* "closed", "half-open", "open". */
const char *tr_breaker_name(enum tr_breaker_state state);

#endif
