#ifndef TR_OUTLET_CABLE_H
#define TR_OUTLET_CABLE_H

/* A connected socket, with TLS or without, that never blocks. See cable.c. */

#include "base/check.h"

#include <stdbool.h>
#include <sys/types.h>

struct tr_cable {
    int fd;
    void *tls;         /* SSL; NULL: without */
    bool wants_write;  /* TLS could not go on reading for want of room to write */
    const char *fault; /* what went wrong, for people */
};

/* Takes the socket, even if it fails. host: whose certificate it has to be; NULL: no TLS. The
 * handshake comes with the first read or write. TARRY_ENOMEM: there is a fault. */
TR_MUST_USE int tr_cable_open(struct tr_cable *w, int fd, const char *host);

/* So many bytes; 0: not now; -1: it is closed or broken, there is a fault. */
ssize_t tr_cable_read(struct tr_cable *w, void *out, size_t room);
ssize_t tr_cable_write(struct tr_cable *w, const void *bytes, size_t len);

/* Also one that was never opened, if it is zero with an fd of -1. */
void tr_cable_close(struct tr_cable *w);

#endif
