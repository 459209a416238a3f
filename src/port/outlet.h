#ifndef TR_PORT_OUTLET_H
#define TR_PORT_OUTLET_H

/*
 * What a server tells of the outlet of a topic: that which sends its due jobs somewhere.
 */

#include <stddef.h>
#include <stdint.h>

enum { TR_OUTLET_CODES = 12, TR_OUTLET_CODE = 16, TR_OUTLET_WHY = 160 };

/* How often a send ended so. */
struct tr_outlet_count {
    char code[TR_OUTLET_CODE]; /* "200", "timeout"; the last of TR_OUTLET_CODES may be "other" */
    uint64_t count;
};

/* Pointers are good until the next call of anything. */
struct tr_outlet_view {
    const char *topic; /* without an end */
    size_t topic_len;
    const char *type;      /* "webhook" ...; NULL: there was one, and its counts are left */
    const char *breaker;   /* "closed", "half-open", "open" */
    unsigned breaker_is;   /* the same: 0, 1, 2 */
    uint64_t open_left_us; /* open: how long it will be, */
    uint64_t in_flight;    /* sends under way */
    uint64_t delivered;    /* since the start */
    uint64_t failed;
    uint64_t refused; /* can never be sent: buried */
    const char *why;  /* the last failure, or NULL; a line for people, without secrets */
    uint64_t why_us;  /* and when that was, by the engine's clock */
    const struct tr_outlet_count *counts;
    unsigned count_count;
};

#endif
