/*
 * The algorithm is looked up once and the context is used again and again: since OpenSSL 3 a
 * look-up for each digest costs more than the digest of a token.
 */

#include "os/digest_linux.h"

#include "base/err.h"

#include <openssl/evp.h>
#include <stdlib.h>

struct digest {
    EVP_MD *sha256;
    EVP_MD_CTX *ctx;
};

static bool sha256(void *ctx, const void *bytes, size_t len, uint8_t out[TR_DIGEST_BYTES])
{
    const struct digest *d = ctx;

    return EVP_DigestInit_ex(d->ctx, d->sha256, NULL) == 1 &&
           EVP_DigestUpdate(d->ctx, bytes, len) == 1 && EVP_DigestFinal_ex(d->ctx, out, NULL) == 1;
}

int tr_digest_linux_open(struct tr_digest *out)
{
    struct digest *d = calloc(1, sizeof *d);

    *out = (struct tr_digest){.ctx = d, .sha256 = sha256};
    if (d == NULL) {
        return TARRY_ENOMEM;
    }
    d->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    d->ctx = EVP_MD_CTX_new();
    if (d->sha256 == NULL || d->ctx == NULL) {
        int err = d->ctx == NULL ? TARRY_ENOMEM : TARRY_EUNSUPPORTED;

        tr_digest_linux_close(out);
        return err;
    }
    return TARRY_OK;
}

void tr_digest_linux_close(struct tr_digest *out)
{
    struct digest *d = out->ctx;

    if (d != NULL) {
        EVP_MD_CTX_free(d->ctx);
        EVP_MD_free(d->sha256);
        free(d);
    }
    *out = (struct tr_digest){.ctx = NULL};
}
