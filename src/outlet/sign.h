#ifndef TR_OUTLET_SIGN_H
#define TR_OUTLET_SIGN_H

/*
 * Signatures of webhooks: who has the secret knows that it was us, and when. See sign.c.
 */

#include "base/check.h"
#include "rules/deliver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_signer;

/* Copies the secrets of d. TARRY_ENOMEM; TARRY_EUNSUPPORTED: there is no HMAC. */
TR_MUST_USE int tr_signer_open(struct tr_signer **out, const struct tr_deliver *d);
void tr_signer_close(struct tr_signer *s); /* NULL is fine */

/* t=<seconds>,v1=<hex>[,v1=<hex> ...]: one for each secret, newest first. out has room for
 * TR_SIGNATURE. False: it could not be calculated, and out means nothing. */
enum { TR_SIGNATURE = 24 + TR_DELIVER_SECRETS_MAX * (4 + 64) + 1 };
bool tr_signer_sign(const struct tr_signer *s, char out[TR_SIGNATURE], uint64_t seconds,
                    struct tr_deliver_text body);

#endif
