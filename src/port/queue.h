#ifndef TR_PORT_QUEUE_H
#define TR_PORT_QUEUE_H

/*
 * An engine as a protocol sees it: something that takes requests. See port/request.h for the rules.
 */

#include "port/clock.h"
#include "port/request.h"

struct tr_queue {
    void *ctx;
    void (*submit)(void *ctx, struct tr_req *r, struct tr_now now);
    /* The maker is gone: r will not be completed. */
    void (*abandon)(void *ctx, struct tr_req *r, struct tr_now now);
    /* What the last submit took, in units of half a microsecond or so: for fair shares. */
    unsigned (*work)(void *ctx);
    /* Does somebody wait for a job of this topic, and is nothing there? NULL: nobody ever. */
    bool (*waited)(void *ctx, uint32_t topic);
};

#endif
