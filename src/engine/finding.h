#ifndef TR_ENGINE_FINDING_H
#define TR_ENGINE_FINDING_H

/*
 * Something in a store that is not as it should be: what check, export and repair tell.
 */

#include "port/disk.h"

#include <stddef.h>
#include <stdint.h>

/* What it means for jobs. */
enum tr_fate {
    TR_FATE_NONE,  /* nothing: another copy, or what it can be made from, is there */
    TR_FATE_LOST,  /* those that it is about are lost */
    TR_FATE_TWICE, /* some that were gone may be there again */
    TR_FATE_COUNT
};

struct tr_finding {
    enum tr_fate fate;
    const char *what;          /* a sentence */
    char file[TR_IO_NAME_MAX]; /* "": it is in no file */
    uint64_t off;
    uint64_t len;      /* 0: a place, not a range */
    uint64_t id;       /* of the job that it is about, or the first of them; 0: not known */
    uint64_t id_last;  /* and the last one that may be; 0: it is only the one */
    const char *topic; /* of that job; NULL: not known */
    size_t topic_len;
    uint64_t due_us; /* 0: not known */
};

/* What it points to is valid during the call. */
typedef void tr_found_fn(void *ctx, const struct tr_finding *f);

#endif
