#ifndef TR_CLI_JSON_H
#define TR_CLI_JSON_H

/*
 * What answers say, member by member. See json.c.
 *
 * Texts for people never have control characters in them: those of a body could move the cursor, or
 * worse. They are written as \n, \t or \x1b.
 */

#include "proto/json_read.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The member of that name. False: there is none, or it is no object. */
bool tr_cli_member(const struct tr_json_value *object, const char *name, struct tr_json_value *v);

/* A string for people, cut to the room; a number or word as it stands there. "": there is none. */
const char *tr_cli_string(const struct tr_json_value *object, const char *name, char *out,
                          size_t room);

/* False: there is none. */
bool tr_cli_number(const struct tr_json_value *object, const char *name, uint64_t *n);
uint64_t tr_cli_number_or(const struct tr_json_value *object, const char *name, uint64_t other);
bool tr_cli_is_true(const struct tr_json_value *object, const char *name);

/* The bytes of a string, and a NUL; to be freed. NULL: there is none. */
char *tr_cli_bytes(const struct tr_json_value *object, const char *name, size_t *len);

/* The bytes of a job: those of `body`, or what `body_base64` says. To be freed; never NULL. */
char *tr_cli_body(const struct tr_json_value *job, size_t *len);

/* Bytes for people. Gives out. */
const char *tr_cli_printable(const void *bytes, size_t len, char *out, size_t room);

/* A JSON string of the bytes, quotes and NUL included, to be freed. */
char *tr_cli_quote(const char *text);

#endif
