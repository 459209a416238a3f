/*
 * First as a server would open it: if that works, nothing of it is damaged that a start looks at.
 * If it does not, once more with what is left (engine/salvage.c).
 */

#include "cli/store.h"

#include "base/err.h"
#include "cli/cli.h"
#include "engine/manifest.h"
#include "os/clock_linux.h"
#include "os/random_linux.h"
#include "os/zones_linux.h"

#include <stdio.h>
#include <string.h>

static void wake(void *ctx)
{
    (void)ctx; /* everything is waited for */
}

static void notice(void *ctx, enum tr_notice kind, const char *text)
{
    (void)ctx;
    if (kind == TR_NOTE_FATAL) {
        fprintf(stderr, "tarry: %s\n", text);
    }
}

static void found(void *ctx, const struct tr_finding *f)
{
    const struct tr_cli_store *s = ctx;

    if (s->found != NULL) {
        s->found(s->ctx, f);
    }
}

static int open_engine(struct tr_cli_store *s, bool look, bool salvage)
{
    struct tr_engine_config c;
    uint64_t seed;
    int err = tr_random_linux_seed(&seed);

    if (err != TARRY_OK) {
        return err;
    }
    tr_engine_config_init(&c, &s->mem);
    c.zone = tr_zones_linux_read;
    c.read_only = look;
    c.salvage = salvage;
    c.slots_max = look ? c.slots_max : TR_MANIFEST_SLOTS_MAX; /* old and new slots side by side */
    c.body_max = 8U << 20;
    c.ctx = s;
    c.notice = notice;
    c.found = found;
    return tr_engine_open(&s->engine, &c, tr_disk_linux_port(s->disk), seed, tr_clock_linux_now());
}

static void init(struct tr_cli_store *s, const char *dir)
{
    s->dir = dir;
    s->disk = NULL;
    s->engine = NULL;
    s->salvaged = false;
    tr_mem_init(&s->mem, 0);
}

int tr_cli_store_look(struct tr_cli_store *s, const char *dir)
{
    int err;

    init(s, dir);
    err = tr_disk_linux_look(&s->disk, dir, wake, s);
    if (err != TARRY_OK) {
        return err;
    }
    err = open_engine(s, true, false);
    if (err == TARRY_EDAMAGED || err == TARRY_EIO) {
        s->salvaged = true;
        err = open_engine(s, true, true);
    }
    if (err != TARRY_OK) {
        tr_cli_store_close(s);
    }
    return err;
}

int tr_cli_store_repair(struct tr_cli_store *s, const char *dir)
{
    int err;

    init(s, dir);
    err = tr_disk_linux_open(&s->disk, dir, wake, s);
    if (err == TARRY_OK) {
        err = open_engine(s, false, true);
    }
    if (err == TARRY_OK) {
        err = tr_engine_close(s->engine, tr_clock_linux_now());
    }
    tr_cli_store_close(s);
    return err;
}

void tr_cli_store_close(struct tr_cli_store *s)
{
    tr_disk_linux_close(s->disk);
    tr_engine_free(s->engine);
    s->disk = NULL;
    s->engine = NULL;
}

int tr_cli_store_trouble(const char *dir, int err)
{
    const char *what = tarry_strerror(err);
    const char *advice = NULL;

    if (err == TARRY_ELOCKED) {
        what = "a server has this store open";
        advice = "Stop it first, or check a backup of it.";
    } else if (err == TARRY_ENOTFOUND) {
        what = "there is no store in this directory";
        advice = "Name the data directory of a server (its --data).";
    } else if (err == TARRY_EPERM) {
        what = "no permission to read this store";
        advice = "Its files belong to the user that runs the server: be that user.";
    } else if (err == TARRY_EVERSION) {
        what = "the store was written by a newer tarry";
        advice = "Use that one.";
    } else if (err == TARRY_ENOSPC) {
        what = "there is not enough space on its disk";
        advice = "Make room, and run it again: nothing was changed.";
    } else if (err == TARRY_EDAMAGED) {
        what = "too little is left of this store: no manifest can be read";
        advice = "Put back a backup.";
    }
    fprintf(stderr, "tarry: %s: %s\n", dir, what);
    if (advice != NULL) {
        fprintf(stderr, "%s\n", advice);
    }
    return err == TARRY_EDAMAGED || err == TARRY_EVERSION ? TR_CLI_DAMAGED : TR_CLI_FAILED;
}
