#ifndef TR_SERVER_SERVE_H
#define TR_SERVER_SERVE_H

/*
 * tarry serve: disk, engine and loop wired together. See serve.c.
 */

#include "base/check.h"
#include "server/config.h"

/* Serves until told to stop; prints for people. Only one at a time in a process. */
TR_MUST_USE enum tr_exit tr_serve(struct tr_config *c);

#endif
