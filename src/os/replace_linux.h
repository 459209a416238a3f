#ifndef TR_OS_REPLACE_LINUX_H
#define TR_OS_REPLACE_LINUX_H

/* A small file that people edit, too: read as a whole, and replaced as a whole. Threads: any. */

#include "base/check.h"

#include <stddef.h>

/* *bytes is the caller's, by malloc. On TARRY_EIO errno says why; TARRY_EFULL: it is larger than
 * most bytes; TARRY_ENOMEM. */
TR_MUST_USE int tr_replace_linux_read(const char *path, size_t most, char **bytes, size_t *len);

/*
 * The file has these bytes from now on, with the mode and owner that it had; after a crash it has
 * either the old ones or these. A link stays one. On TARRY_EIO errno says why, and nothing changed.
 */
TR_MUST_USE int tr_replace_linux_write(const char *path, const char *bytes, size_t len);

#endif
