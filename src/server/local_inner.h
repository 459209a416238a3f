#ifndef TR_SERVER_LOCAL_INNER_H
#define TR_SERVER_LOCAL_INNER_H

/* What local.c and local_tell.c share. */

#include "engine/engine.h"
#include "os/disk_linux.h"
#include "server/engines.h"

struct tr_local {
    struct tr_engine_parts parts;
    struct tr_disk_linux *disk;
    struct tr_engine *engine; /* NULL: not open */
    const char *path;
    char temp[256]; /* a store that goes when we go, or empty */
    bool given_up;  /* it was told to stop while it was opened */
};

/* Functions of the table. */
const char *tr_local_durability(void *ctx);
void tr_local_tell(void *ctx, struct tr_json *j);
void tr_local_metrics(void *ctx, struct tr_prom *p);

#endif
