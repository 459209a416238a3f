#ifndef TR_PROTO_SESSION_H
#define TR_PROTO_SESSION_H

/*
 * What the owner of sockets sees of a protocol: a session takes bytes, and has bytes to send.
 * beanstalk.h and http.h have one table each.
 */

#include "port/clock.h"
#include "proto/output.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tr_want {
    TR_WANT_INPUT,
    TR_WANT_ANSWER, /* the queue has not answered yet */
    TR_WANT_DRAIN,  /* too much is to be sent */
    TR_WANT_TURN,   /* it has had its share: feed again after the others */
    TR_WANT_CLOSE,  /* the client wants to go, or cannot be served: send the rest and close */
};

/* For what a client may only take so long. */
enum tr_patience {
    TR_PATIENCE_HEAD, /* to send the head of a request that has begun */
    TR_PATIENCE_BODY, /* to send the next bytes of a body */
    TR_PATIENCE_IDLE, /* to send anything at all */
    TR_PATIENCE_AUTH, /* to say who it is, of a protocol whose clients say it once */

    /* The owner's own. */
    TR_PATIENCE_SHAKE,       /* to agree on keys (TLS) */
    TR_PATIENCE_LAST,        /* to go when all was said */
    TR_PATIENCE_UNREAD,      /* to read what it was sent, while more waits for it */
    TR_PATIENCE_UNREAD_LONG, /* the same, of a protocol whose clients stay */
    TR_PATIENCE_COUNT,
    TR_PATIENCE_ENDLESS = TR_PATIENCE_COUNT
};

/* Why a new client is not served. */
enum tr_turn_away {
    TR_TURN_AWAY_FULL,    /* there are as many connections as there may be, */
    TR_TURN_AWAY_ADDRESS, /* or as many from its address */
};

/* What a session did last. */
struct tr_doing {
    uint64_t number;  /* which of its commands that was, counted */
    char command[32]; /* as /metrics names it */
    const char *name; /* of its topic, without an end, if that is known so; else NULL, and */
    size_t name_len;
    uint32_t topic; /* by number; 0: none, or not known */
};

struct tr_proto {
    const char *name;
    size_t size;  /* of a session */
    bool lingers; /* the last reply may be lost if the socket is closed at once */
    bool stays;   /* clients are used to connections that are idle for days */

    /* A new client. The session is zeroed memory of the owner's and stays where it is. */
    void (*open)(void *session, void *port, uint64_t number, struct tr_now now);

    /* Its first request is refused with the reason, and then it is closed. NULL: the protocol has
     * no words for that. */
    void (*turn_away)(void *session, enum tr_turn_away why);

    /* Takes what it can of these bytes and says how many; the rest is to be given again. */
    size_t (*feed)(void *session, const uint8_t *bytes, size_t len, struct tr_now now);
    enum tr_want (*want)(const void *session);
    void (*doing)(const void *session, struct tr_doing *d);
    struct tr_output *(*out)(void *session);

    /* How patient to be now, and for which request, counted. */
    enum tr_patience (*patience)(const void *session, uint64_t *request);

    /* Patience is at its end: the session says so, if there is something to say, and wants to be
     * closed. */
    void (*late)(void *session, struct tr_now now);

    /* The client sends no more: a wait for a job is over. What came before is still executed. */
    void (*half_close)(void *session, struct tr_now now);

    /* There are other tokens: whoever's is not good any more learns it at once. */
    void (*reauth)(void *session, struct tr_now now);

    /* The server stops: a wait is over. True: close it at once. */
    bool (*stop)(void *session, struct tr_now now);

    /*
     * The client is gone: what was not finished is undone. That may take a while: when `gone` is
     * false, feed no bytes whenever it is woken, until it is true; then the memory is the owner's
     * again.
     */
    void (*close)(void *session, struct tr_now now);
    bool (*gone)(const void *session);

    /* Gives the memory back without a word to the queue, which must be gone. */
    void (*fini)(void *session);
};

#endif
