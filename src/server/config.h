#ifndef TR_SERVER_CONFIG_H
#define TR_SERVER_CONFIG_H

/*
 * The command line: what to do, and how. See config.c.
 *
 * Strings point into argv.
 */

#include "base/check.h"
#include "engine/engine.h"

/* How the process ends. */
enum tr_exit {
    TR_EXIT_FINE = 0,
    TR_EXIT_FAILED = 1,  /* something went wrong at run time */
    TR_EXIT_USAGE = 2,   /* the command line is wrong */
    TR_EXIT_DAMAGED = 3, /* the store cannot be used by this version: damaged, or too new */
};

enum tr_command {
    TR_COMMAND_HELP,
    TR_COMMAND_HELP_SERVE,
    TR_COMMAND_SERVE,
    TR_COMMAND_VERSION,
};

struct tr_config {
    enum tr_command command;
    const char *data_path;
    enum tr_sync sync;
};

/* Reads the command line. TARRY_EINVAL: it is wrong, and stderr says why and what to do. */
TR_MUST_USE int tr_config_read(struct tr_config *c, int argc, char **argv);

/* The word for it on the command line. */
const char *tr_config_sync_name(enum tr_sync sync);

#endif
