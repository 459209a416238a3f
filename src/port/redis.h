#ifndef TR_PORT_REDIS_H
#define TR_PORT_REDIS_H

/*
 * A Redis server as pure code sees it: arguments go out, and what came of them comes back. remote/
 * answers for real, the simulator with dice.
 */

#include <stddef.h>

/* Bytes of somebody else's. */
struct tr_span {
    const char *at;
    size_t len;
};

enum tr_redis_event {
    TR_REDIS_LIST,   /* an answer: items */
    TR_REDIS_ERROR,  /* an answer: the text behind the minus */
    TR_REDIS_LOST,   /* it was sent, and no answer will come: time-out, broken connection */
    TR_REDIS_UNSENT, /* it was not sent: there is no connection */
};

/* Our scripts answer with one list of texts. It is good during the call that brings it. */
struct tr_redis_reply {
    enum tr_redis_event event;
    struct tr_span error;
    const struct tr_span *items;
    size_t count;
};

#endif
