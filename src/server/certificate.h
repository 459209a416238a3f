#ifndef TR_SERVER_CERTIFICATE_H
#define TR_SERVER_CERTIFICATE_H

/*
 * The certificate of the ports: read at the start, and again when the operator says so. See
 * certificate.c.
 */

#include "server/config.h"
#include "server/conn.h"
#include "server/logger.h"

#include <stddef.h>

/* Sets TLS of the connections up, if the config wants it. If that cannot be, stderr says why and
 * what to do, and the process ends so. cs->loop is set. */
TR_MUST_USE enum tr_exit tr_certificate_open(struct tr_conns *cs, const struct tr_config *c,
                                             struct tr_logger *log);

/* Prints what there is, if there is TLS. */
void tr_certificate_tell(const struct tr_conns *cs, const struct tr_config *c);

/* Reads the files of the config in use again. *fresh: what they are now; NULL: there is no TLS.
 * TARRY_EINVAL: something is wrong with them, and `why` says what. */
TR_MUST_USE int tr_certificate_read(struct tr_tls **fresh, const struct tr_conns *cs,
                                    const struct tr_config *c, char *why, size_t room);

/* Takes it for connections that come from now on, and says so. fresh may be NULL. */
void tr_certificate_take(struct tr_conns *cs, struct tr_tls *fresh, const struct tr_config *c,
                         struct tr_logger *log);

/* All connections are closed. */
void tr_certificate_close(struct tr_conns *cs);

#endif
