#ifndef TR_OS_TLS_H
#define TR_OS_TLS_H

/*
 * TLS between a socket and its owner, who reads and writes as if it were a socket. See
 * tls_openssl.c.
 *
 * Threads: the loop's, but for what a task does (tr_tls_task): from when it was given to a worker
 * until tr_tls_take, nothing but tr_tls_busy and tr_tls_free may be called for that connection.
 */

#include "base/check.h"
#include "os/net_linux.h"
#include "os/worker_linux.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_tls;      /* a certificate, its key, and whom to let in */
struct tr_tls_conn; /* one connection */

struct tr_tls_files {
    const char *cert; /* PEM: the certificate, and those between it and its root */
    const char *key;  /* PEM: its private key */
    const char
        *client_ca; /* PEM: clients must have a certificate of one of these; NULL: any client */
};

enum { TR_TLS_WHY = 512 };

/*
 * TARRY_EINVAL: something is wrong with a file, and why is a sentence that names it and says what
 * to do.
 */
TR_MUST_USE int tr_tls_open(struct tr_tls **out, const struct tr_tls_files *files,
                            char why[TR_TLS_WHY]);

/* t may be NULL. Connections that were made with it go on. */
void tr_tls_close(struct tr_tls *t);

/* Until when the certificate is good: seconds since 1970. */
int64_t tr_tls_until_s(const struct tr_tls *t);

/* ---- a connection ---- */

enum tr_tls_state {
    TR_TLS_SHAKING,
    TR_TLS_OPEN,
    TR_TLS_FAILED, /* there will be no keys; there may be an alert to send */
};

/* owner is what tr_tls_take gives. NULL: no memory. */
struct tr_tls_conn *tr_tls_new(struct tr_tls *t, bool http, void *owner);

/* Closes it for good, at once or when the worker is done with it; c may be NULL. */
void tr_tls_free(struct tr_tls_conn *c);

enum tr_tls_state tr_tls_state(const struct tr_tls_conn *c);

/* Of a failed one: a sentence without its end. */
const char *tr_tls_why(const struct tr_tls_conn *c);

/* SHAKING: these bytes came. False: no memory. */
bool tr_tls_give(struct tr_tls_conn *c, const uint8_t *bytes, size_t len);

/* SHAKING: what calculates the next step, which may take long. The connection is busy until
 * tr_tls_take. */
struct tr_task *tr_tls_task(struct tr_tls_conn *c);
bool tr_tls_busy(const struct tr_tls_conn *c);

/* The task is done (or will never be): the owner of its connection, or NULL: he is gone, and now so
 * is the connection. */
void *tr_tls_take(struct tr_task *task);

/* As tr_sock_read and tr_sock_write; but a write that gave AGAIN must be repeated with the same
 * bytes, and perhaps more of them. */
long tr_tls_read(struct tr_tls_conn *c, struct tr_sock *sock, uint8_t *buf, size_t len);
long tr_tls_write(struct tr_tls_conn *c, struct tr_sock *sock, const uint8_t *bytes, size_t len);

/* After BROKEN: was it the client's fault (garbage, a second handshake), and not the wire's? */
bool tr_tls_failed(const struct tr_tls_conn *c);

/* A read would give something, though the socket may not say so. */
bool tr_tls_waiting(const struct tr_tls_conn *c);

/* There are bytes for the socket; and sends them. False: it is broken. */
bool tr_tls_unsent(const struct tr_tls_conn *c);
bool tr_tls_flush(struct tr_tls_conn *c, struct tr_sock *sock);

/* Tells the other side that we send no more, as far as the socket takes it. */
void tr_tls_end(struct tr_tls_conn *c, struct tr_sock *sock);

#endif
