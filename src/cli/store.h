#ifndef TR_CLI_STORE_H
#define TR_CLI_STORE_H

/*
 * A store that no server has open, for the commands that work on its directory. See store.c.
 */

#include "base/check.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "os/disk_linux.h"

#include <stdbool.h>

struct tr_cli_store {
    const char *dir;
    struct tr_mem mem;
    struct tr_disk_linux *disk;
    struct tr_engine *engine;
    void *ctx;
    tr_found_fn *found; /* what is damaged, with ctx; or NULL */
    bool salvaged;      /* it is damaged: what is open is what is left of it */
};

/*
 * Opens it to look. A damaged one too: then found was told what is wrong. TARRY_EDAMAGED: not even
 * that; notices of the engine are on stderr. After any error all is closed.
 */
TR_MUST_USE int tr_cli_store_look(struct tr_cli_store *s, const char *dir);

/* Opens a damaged one to repair it, closes it: all at once. */
TR_MUST_USE int tr_cli_store_repair(struct tr_cli_store *s, const char *dir);

void tr_cli_store_close(struct tr_cli_store *s);

/* Says on stderr why a store cannot be used. Gives the exit code. */
int tr_cli_store_trouble(const char *dir, int err);

#endif
