/*
 * HMAC-SHA256 of "<seconds>.<body>" under each secret.
 *
 * Several secrets. While a secret is being replaced both sides have two. We sign with all that the
 * policy has, newest first; a receiver takes the message when one of the signatures is right by one
 * of its own secrets. So either side may change first, and nothing is refused in between.
 *
 * The key of each secret is worked into a context once; a signature copies that, which saves two of
 * four blocks of SHA-256 and the look-up of the algorithm.
 */

#include "outlet/sign.h"

#include "base/err.h"
#include "base/text.h"

#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

enum { SHA256 = 32 };

struct tr_signer {
    EVP_MAC *mac;
    EVP_MAC_CTX *keys[TR_DELIVER_SECRETS_MAX];
    unsigned count;
};

int tr_signer_open(struct tr_signer **out, const struct tr_deliver *d)
{
    struct tr_signer *s = calloc(1, sizeof *s);
    char name[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                           OSSL_PARAM_construct_end()};
    bool ok = true;

    *out = s;
    if (s == NULL) {
        return TARRY_ENOMEM;
    }
    s->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    for (unsigned i = 0; s->mac != NULL && i < d->secret_count && ok; i++) {
        const struct tr_deliver_text *secret = &d->secrets[i];

        s->keys[i] = EVP_MAC_CTX_new(s->mac);
        s->count++;
        ok = s->keys[i] != NULL &&
             EVP_MAC_init(s->keys[i], (const uint8_t *)secret->at, secret->len, params) == 1;
    }
    if (s->mac == NULL || !ok) {
        tr_signer_close(s);
        *out = NULL;
        return TARRY_EUNSUPPORTED;
    }
    return TARRY_OK;
}

void tr_signer_close(struct tr_signer *s)
{
    if (s == NULL) {
        return;
    }
    for (unsigned i = 0; i < s->count; i++) {
        EVP_MAC_CTX_free(s->keys[i]);
    }
    EVP_MAC_free(s->mac);
    free(s);
}

static bool mac_of(const EVP_MAC_CTX *key, const char *head, struct tr_deliver_text body,
                   uint8_t out[SHA256])
{
    EVP_MAC_CTX *ctx = EVP_MAC_CTX_dup(key);
    size_t len = 0;
    bool ok = ctx != NULL && EVP_MAC_update(ctx, (const uint8_t *)head, strlen(head)) == 1 &&
              EVP_MAC_update(ctx, (const uint8_t *)body.at, body.len) == 1 &&
              EVP_MAC_final(ctx, out, &len, SHA256) == 1 && len == SHA256;

    EVP_MAC_CTX_free(ctx);
    return ok;
}

bool tr_signer_sign(const struct tr_signer *s, char out[TR_SIGNATURE], uint64_t seconds,
                    struct tr_deliver_text body)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t mac[SHA256];
    char head[24];
    size_t len;

    tr_text(head, sizeof head, "%" PRIu64 ".", seconds);
    tr_text(out, TR_SIGNATURE, "t=%" PRIu64, seconds);
    len = strlen(out);
    for (unsigned i = 0; i < s->count; i++) {
        if (!mac_of(s->keys[i], head, body, mac)) {
            return false;
        }
        memcpy(out + len, ",v1=", 4);
        len += 4;
        for (unsigned k = 0; k < SHA256; k++) {
            out[len++] = hex[mac[k] >> 4];
            out[len++] = hex[mac[k] & 15];
        }
    }
    out[len] = '\0';
    return true;
}
