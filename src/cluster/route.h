#ifndef TR_CLUSTER_ROUTE_H
#define TR_CLUSTER_ROUTE_H

/*
 * What to do with one command after each thing that came of it, until it is answered or given up.
 * See route.c for the rules. Pure: times are boot time, and arguments.
 */

#include "port/redis.h"

#include <stdbool.h>
#include <stdint.h>

enum tr_route_do {
    TR_DO_ANSWER, /* the reply is the answer */
    TR_DO_SEND,   /* send it (again), at at_us */
    TR_DO_CHECK,  /* run the script `check` for its slot on this connection, then send it again */
    TR_DO_FAIL,   /* give up: why */
};

enum tr_route_why {
    TR_ROUTE_AWAY = 1, /* no server that could do it was there in time; nothing was done: 503 */
    TR_ROUTE_UNKNOWN,  /* it may have been done, or may not: 503, and say so */
    TR_ROUTE_FULL,     /* the server takes no more: memory, disk, replicas: 507 */
    TR_ROUTE_CLOCK,    /* the server's clock is off: hand-outs wait */
    TR_ROUTE_REFUSED,  /* the server will never do it: password, another store, a bug */
};

struct tr_route_step {
    enum tr_route_do what;
    enum tr_route_why why;
    uint64_t at_us;
    struct tr_span server; /* SEND: host:port, in the reply's text; len 0: whom the map says */
    bool asking;           /* SEND: ASKING goes before it */
    bool text;             /* SEND: EVAL with the text, not EVALSHA */
    bool refresh;          /* the map of hash slots is old */
    bool close;            /* the connection is of no use any more: all behind it is lost, too */
    bool alarm;            /* an operator should hear of it */
};

struct tr_route {
    uint64_t deadline_us;
    unsigned waits;     /* in a row, for how long the next one is */
    unsigned redirects; /* in a row */
    bool asking;        /* the last time it was sent, */
    bool text;
    bool unknown; /* one that was sent may have been done: no refusal is an answer any more */
    bool plain;   /* no script of jobs: the first word of its answer means nothing */
    bool repeats; /* a repeat is answered as the first time: it may be sent again after LOST */
};

void tr_route_init(struct tr_route *r, uint64_t deadline_us, bool repeats);

struct tr_route_step tr_route_next(struct tr_route *r, const struct tr_redis_reply *reply,
                                   uint64_t now_us);

/* Is a span this word, or does it begin with it and a space? */
bool tr_span_begins(struct tr_span s, const char *word);

#endif
