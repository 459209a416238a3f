#ifndef TR_CLI_LATER_H
#define TR_CLI_LATER_H

/* Commands that this version does not have. See later.c. */

#include <stdbool.h>

bool tr_cli_is_later(const char *name);

/* Says so. Gives how the process ends. */
int tr_cli_later(const char *name);

#endif
