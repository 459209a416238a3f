#ifndef TR_FUZZ_SESSION_H
#define TR_FUZZ_SESSION_H

/* What clients send, to a protocol and the engine without sockets. See session.c. */

#include "proto/session.h"

#include <stddef.h>
#include <stdint.h>

int fuzz_session(const struct tr_proto *proto, const uint8_t *data, size_t size);

#endif
