#ifndef TR_CLI_EXPORT_H
#define TR_CLI_EXPORT_H

/* tarry export from a running server. See export_live.c. */

#include "cli/bar.h"
#include "cli/cli.h"

int tr_cli_export_live(struct tr_cli *c);

#endif
