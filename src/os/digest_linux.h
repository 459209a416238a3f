#ifndef TR_OS_DIGEST_LINUX_H
#define TR_OS_DIGEST_LINUX_H

/* port/digest.h, answered by OpenSSL's libcrypto. Threads: one digest belongs to one thread. */

#include "base/check.h"
#include "port/digest.h"

/* TARRY_ENOMEM; TARRY_EUNSUPPORTED: this libcrypto is set up without SHA-256. */
TR_MUST_USE int tr_digest_linux_open(struct tr_digest *out);

/* A zeroed one, too. */
void tr_digest_linux_close(struct tr_digest *out);

#endif
