#ifndef TR_OUTLET_DIAL_H
#define TR_OUTLET_DIAL_H

/*
 * From a host and a port to a connected socket, past the guard. See dial.c.
 *
 * Threads: that of the post, which it may hold up.
 */

#include "outlet/post.h"

enum { TR_DIAL_WHY = 160, TR_DIAL_CODE = 16 };

struct tr_dial {
    const char *host;
    const char *port;
    uint64_t until_ms; /* boot clock */

    /* What came of it. */
    char why[TR_DIAL_WHY];   /* for people; set when there is no socket */
    char code[TR_DIAL_CODE]; /* "name", "private", "connect", "timeout" */
};

/* Gives a socket that does not block, or -1. A stop ends it early. */
int tr_dial(struct tr_dial *d, struct tr_post *post);

/* The address that it is connected to, as a number: "10.0.0.1", "::1". */
enum { TR_DIAL_ADDRESS = 64 };
TR_MUST_USE int tr_dial_address(int fd, char out[TR_DIAL_ADDRESS]);

/* For sockets that a library opened: what tr_dial does to its own. */
void tr_dial_tune(int fd, uint64_t timeout_ms);

#endif
