#ifndef TR_REMOTE_RESOLVER_H
#define TR_REMOTE_RESOLVER_H

/*
 * Names of servers into addresses, without holding up the loop. See resolver.c.
 *
 * Threads: the loop's.
 */

#include "base/check.h"
#include "port/poller.h"

#include <netdb.h>

struct tr_resolver;
struct tr_lookup; /* one question */

/* Told once, on the loop. found: the callee's, for freeaddrinfo; NULL: why. */
typedef void tr_found_fn(void *ctx, struct addrinfo *found, const char *why);

/* The poller has to outlive it. TARRY_EFULL: no memory, no descriptors. */
TR_MUST_USE int tr_resolver_open(struct tr_resolver **out, const struct tr_poller *poller);

/* NULL: no memory, no thread; nothing will be told. */
struct tr_lookup *tr_resolver_ask(struct tr_resolver *r, const char *host, const char *port,
                                  tr_found_fn *fn, void *ctx);

/* Of a question that was not answered yet: nobody wants to know any more. */
void tr_resolver_forget(struct tr_resolver *r, struct tr_lookup *l);

/* Does not wait for a look-up that is being done. Nothing is told any more. r may be NULL. */
void tr_resolver_close(struct tr_resolver *r);

#endif
