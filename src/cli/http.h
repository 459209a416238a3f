#ifndef TR_CLI_HTTP_H
#define TR_CLI_HTTP_H

/*
 * A running server, as the commands see it: requests by HTTP, answers as JSON. See http.c.
 */

#include "base/check.h"
#include "proto/json_read.h"

#include <stdbool.h>
#include <stddef.h>

/* For the help of commands. */
#define TR_CLI_SERVER_HELP                                                                         \
    "  --server URL   the server (or TARRY_SERVER); default http://127.0.0.1:11301\n"              \
    "  --token TOKEN  what it wants to see (or TARRY_TOKEN, which ps does not show)\n"

struct tr_cli_server {
    const char *url;   /* as it was given; NULL: the local one */
    const char *token; /* NULL: none */
};

struct tr_cli_answer {
    long status;
    char *body; /* len bytes, and a NUL */
    size_t len;
};

/* What the environment says. */
void tr_cli_server_init(struct tr_cli_server *s);

/* Takes argv[*i] if it is --server or --token, and its value, which may be the next one. False: it
 * is another word. A value that is missing is "". */
bool tr_cli_server_flag(struct tr_cli_server *s, int argc, char **argv, int *i);

/*
 * Asks, and waits as long as the answer takes. `target` is a path with a query, percent-encoded. 0,
 * or stderr says why there is no answer, and this is how the process ends. Either way
 * tr_cli_answer_fini is due.
 */
TR_MUST_USE int tr_cli_ask(const struct tr_cli_server *s, const char *method, const char *target,
                           struct tr_cli_answer *a);
void tr_cli_answer_fini(struct tr_cli_answer *a);

/* 0, or the answer is an error: stderr says which, and this is how the process ends. */
TR_MUST_USE int tr_cli_judge(const struct tr_cli_answer *a);

/* A member of the object that the answer is. False: there is none, or it is no object. */
bool tr_cli_find_member(const struct tr_cli_answer *a, const char *name, struct tr_json_value *v);

/* text for a query or a path, percent-encoded. False: there is not room for it. */
bool tr_cli_escape(char *out, size_t room, const char *text);

#endif
