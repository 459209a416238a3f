#ifndef TR_OUTLET_GUARD_H
#define TR_OUTLET_GUARD_H

/*
 * Which addresses an outlet may talk to: whoever sets a policy must not reach through us what only
 * we can reach. See guard.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/*
 * May a socket be connected to this address? Only IPv4 and IPv6; with allow_private any of them,
 * else those of the public Internet only. To be asked for the very address that is used, after
 * names are resolved. Threads: any.
 */
bool tr_guard_allows(const struct sockaddr *address, socklen_t len, bool allow_private);

/* True: the host, as it stands in a URL, is an address and no name; *allowed: a public one. Says
 * early what tr_guard_allows would say later: never instead of it. */
bool tr_guard_literal(const char *host, size_t len, bool *allowed);

#endif
