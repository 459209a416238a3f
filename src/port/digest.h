#ifndef TR_PORT_DIGEST_H
#define TR_PORT_DIGEST_H

/* SHA-256, as pure code asks for it: of a library that is well kept, not of ours. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_DIGEST_BYTES = 32 };

struct tr_digest {
    void *ctx;
    /* False: it could not be had, and out means nothing. */
    bool (*sha256)(void *ctx, const void *bytes, size_t len, uint8_t out[TR_DIGEST_BYTES]);
};

#endif
