/*
 * Breakers.
 *
 *     CLOSED --5 failures in a row--> OPEN --1 s, 2 s, 4 s ... 30 s--> HALF_OPEN --one try-->
 *        ^                             ^                                   |         |
 *        |                             +------------- no answer -----------+         |
 *        +----------------------------- an answer -----------------------------------+
 *
 * Only silence counts: a connection that is refused, a name without an address, a time-out. Who
 * answers, be it with an error, is alive, and each job has its backoff for that; to hold back all
 * jobs because one of them is refused would let one bad job stop a topic.
 *
 * What was under way when it opened may still fail: that changes nothing, and whoever asks does not
 * tell of it once it is half-open, since only the try counts then. If it is answered, that is as
 * good as a try.
 */

#include "rules/breaker.h"

unsigned tr_breaker_allows(struct tr_breaker *b, unsigned most, uint64_t now_us)
{
    if (b->state == TR_BREAKER_OPEN && now_us >= b->until_us) {
        b->state = TR_BREAKER_HALF_OPEN;
    }
    switch (b->state) {
    case TR_BREAKER_CLOSED:
        return most;
    case TR_BREAKER_HALF_OPEN:
        return 1;
    default:
        return 0;
    }
}

bool tr_breaker_answered(struct tr_breaker *b)
{
    bool was = b->state != TR_BREAKER_CLOSED;

    *b = (struct tr_breaker){.state = TR_BREAKER_CLOSED};
    return was;
}

bool tr_breaker_failed(struct tr_breaker *b, uint64_t now_us)
{
    uint64_t wait_us = TR_BREAKER_FIRST_US;

    b->failures += b->failures < UINT32_MAX;
    if (b->state == TR_BREAKER_OPEN ||
        (b->state == TR_BREAKER_CLOSED && b->failures < TR_BREAKER_FAILURES)) {
        return false;
    }
    for (unsigned i = 0; i < b->opened && wait_us < TR_BREAKER_LAST_US; i++) {
        wait_us *= 2;
    }
    b->state = TR_BREAKER_OPEN;
    b->opened++;
    b->until_us = now_us + (wait_us < TR_BREAKER_LAST_US ? wait_us : TR_BREAKER_LAST_US);
    return true;
}

const char *tr_breaker_name(enum tr_breaker_state state)
{
    static const char *const names[] = {"closed", "half-open", "open"};

    return names[state];
}
