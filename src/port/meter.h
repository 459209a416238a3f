#ifndef TR_PORT_METER_H
#define TR_PORT_METER_H

/*
 * What an engine tells of one topic to those who draw charts of it. rules/meter.h says which
 * topics are told of one by one; the others are one view together, the last.
 */

#include "base/hist.h"
#include "port/request.h"

/* What happened to jobs, since the start. Each job may be counted more than once. */
enum tr_metered {
    TR_METERED_PUSHED,
    TR_METERED_FIRED,     /* delayed, and then ready: it was due, or was made so */
    TR_METERED_HANDED,    /* to a consumer */
    TR_METERED_ACKED,     /* finished */
    TR_METERED_RETRIED,   /* came back from a consumer, to be handed out again */
    TR_METERED_DEAD,      /* for whatever reason */
    TR_METERED_CANCELLED, /* purged ones, too */
    TR_METERED_EXPIRED,   /* was not handed out in time: dead, too */
    TR_METERED_DROPPED,   /* was dead for too long, or one of too many */
    TR_METERED_COUNT
};

enum { TR_METER_VIEWS = 32 }; /* in one go */

/* Pointers are good until the engine is called again. */
struct tr_meter_view {
    const char *name; /* without an end; "_other": all that have no view of their own */
    size_t name_len;
    bool other;
    const uint64_t *counts;     /* by enum tr_metered */
    const struct tr_hist *late; /* us, of tr_hist_waits: due to ready */
    const struct tr_hist *wait; /* us, of tr_hist_waits: ready to handed out */
    uint64_t jobs[TR_DEAD + 1]; /* by state; of `other`: those of all topics, shown ones too */
    uint64_t ready_for_us;      /* how long the oldest ready job has been; not of `other` */
    uint64_t next_due_us;       /* 0: there is none, or it is not known; not of `other` */
};

#endif
