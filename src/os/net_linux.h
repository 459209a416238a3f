#ifndef TR_OS_NET_LINUX_H
#define TR_OS_NET_LINUX_H

/*
 * Sockets on the loop: listening ones, and the connections they give. See net_linux.c.
 *
 * Nothing here waits. Threads: the loop's.
 */

#include "base/check.h"
#include "os/loop_linux.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_listener;
struct tr_sock;

enum {
    TR_SOCK_READ = 1,
    TR_SOCK_WRITE = 2,
    TR_SOCK_HANGUP = 4, /* the other side sends no more; told once */
    TR_SOCK_ERROR = 8,  /* the connection is dead; what had arrived may still be read */
};

/* What tr_sock_read and tr_sock_write give instead of a number of bytes. */
enum { TR_SOCK_AGAIN = -1, TR_SOCK_BROKEN = -2 };

enum { TR_ADDRESS_MAX = 200 };

/* A new connection: it is the callee's, who sets its ctx by tr_sock_watch. NULL: there is one, but
 * no descriptor for it. */
typedef void tr_accepted_fn(void *ctx, struct tr_sock *sock);
typedef void tr_sock_event_fn(void *ctx, unsigned events);

struct tr_listener_calls {
    void *ctx;
    tr_accepted_fn *accepted;
};

/*
 * Listens on "HOST:PORT", "[IPV6]:PORT" or "unix:PATH". TARRY_ELOCKED: the address is in use;
 * TARRY_EPERM; TARRY_ENOTFOUND: there is no such address here; TARRY_EFULL; TARRY_EIO.
 */
TR_MUST_USE int tr_listener_open(struct tr_listener **out, struct tr_loop_linux *loop,
                                 const char *address, const struct tr_listener_calls *calls);

/* Where it listens: as given, but with the port it got. */
const char *tr_listener_address(const struct tr_listener *l);

/* New connections wait, by our own wish or because no more descriptors are to be had. */
bool tr_listener_paused(const struct tr_listener *l);
void tr_listener_pause(struct tr_listener *l);
void tr_listener_resume(struct tr_listener *l);

/* l may be NULL. */
void tr_listener_close(struct tr_listener *l);

/* Which events to tell, and to whom. HANGUP and ERROR are always told. */
void tr_sock_watch(struct tr_sock *s, unsigned events, tr_sock_event_fn *call, void *ctx);

/* A number of bytes; 0: the other side sends no more; AGAIN; BROKEN. */
long tr_sock_read(struct tr_sock *s, uint8_t *buf, size_t len);
long tr_sock_write(struct tr_sock *s, const uint8_t *bytes, size_t len);

/* Where the other side is. */
struct tr_sock_peer {
    char text[48];   /* "127.0.0.1", "::1", "unix" */
    uint64_t number; /* the same for all of one address; of IPv6, for all of one network of 2^64 */
};

void tr_sock_peer(const struct tr_sock *s, struct tr_sock_peer *peer);

/* The number alone. False: a socket of the file system has none. */
bool tr_sock_number(const struct tr_sock *s, uint64_t *number);

/* We send no more; the other side may. */
void tr_sock_end(struct tr_sock *s);

/* No event is told any more. */
void tr_sock_close(struct tr_sock *s);

#endif
