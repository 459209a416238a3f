#ifndef TR_CLI_CHILD_H
#define TR_CLI_CHILD_H

/*
 * A command that `tarry work` runs for a job: the body on its stdin, the fields in its environment.
 * See child.c.
 */

#include "base/check.h"
#include "proto/json_read.h"

#include <stdbool.h>
#include <sys/types.h>

/* Is there such a command? Looks where the shell would. */
bool tr_child_exists(const char *name);

/* Starts argv for the job, in a process group of its own; its stdout goes to the descriptor `out`.
 * -1: it cannot be started, see errno. */
TR_MUST_USE pid_t tr_child_start(char *const *argv, const struct tr_json_value *job,
                                 const char *server, int out);

#endif
