#ifndef TR_CLI_CALLS_H
#define TR_CLI_CALLS_H

/*
 * Many requests at once, for commands that wait for several things: each has a function that is
 * called with its answer. One thread. See calls.c.
 */

#include "cli/http.h"

#include <poll.h>

struct tr_cli_calls;
struct tr_cli_call;

/* a is NULL when no answer came: `why` says why. The call is gone afterwards. */
typedef void tr_cli_called_fn(void *ctx, const struct tr_cli_answer *a, const char *why);

/* NULL: no memory, or built without libcurl; stderr says so. */
struct tr_cli_calls *tr_cli_calls_open(const struct tr_cli_server *s);
void tr_cli_calls_close(struct tr_cli_calls *calls); /* those under way are dropped */

/* Begins. Target and body are copied. NULL: it cannot be asked; stderr says why. */
struct tr_cli_call *tr_cli_call(struct tr_cli_calls *calls, const struct tr_cli_request *r,
                                tr_cli_called_fn *called, void *ctx);

/* Nobody wants the answer any more. */
void tr_cli_call_drop(struct tr_cli_calls *calls, struct tr_cli_call *call);

/* How many are under way. */
unsigned tr_cli_calls_count(const struct tr_cli_calls *calls);

/* Waits for answers, for the descriptor (if it is not -1), and at most so long; answers are handed
 * over before it returns. */
void tr_cli_calls_wait(struct tr_cli_calls *calls, int fd, int timeout_ms);

#endif
