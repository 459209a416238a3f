#ifndef TR_BASE_NAME_H
#define TR_BASE_NAME_H

/* What may be the name of a topic, on every port and on disk. */

#include <stdbool.h>
#include <stddef.h>

enum { TR_TOPIC_NAME_MAX = 200 };

/* How many bytes from text on are of A-Za-z0-9-+/;.$_() */
size_t tr_name_span(const char *text, size_t len);

/* True for 1 to 200 of those bytes that do not begin with '-'. */
bool tr_name_ok(const char *name, size_t len);

#endif
