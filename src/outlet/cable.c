/*
 * Without TLS, recv and send. With TLS, OpenSSL on the socket itself: versions from 1.2 on, the
 * certificates that the system trusts (SSL_CERT_FILE and SSL_CERT_DIR of the environment, too), and
 * the name or address of the URL has to be in the certificate.
 */

#include "outlet/cable.h"

#include "base/err.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_address(const char *host)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static bool expect(SSL *ssl, const char *host)
{
    if (is_address(host)) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static SSL *new_tls(int fd, const char *host)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = NULL;

    if (ctx == NULL) {
        return NULL;
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_mode(ctx,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
        SSL_CTX_set_default_verify_paths(ctx) == 1) {
        ssl = SSL_new(ctx);
    }
    SSL_CTX_free(ctx); /* the connection keeps it */
    if (ssl != NULL && (!expect(ssl, host) || SSL_set_fd(ssl, fd) != 1)) {
        SSL_free(ssl);
        return NULL;
    }
    if (ssl != NULL) {
        SSL_set_connect_state(ssl);
    }
    return ssl;
}

int tr_cable_open(struct tr_cable *w, int fd, const char *host)
{
    *w = (struct tr_cable){.fd = fd};
    if (host == NULL) {
        return TARRY_OK;
    }
    w->tls = new_tls(fd, host);
    ERR_clear_error();
    if (w->tls == NULL) {
        w->fault = "TLS cannot be set up";
        return TARRY_ENOMEM;
    }
    return TARRY_OK;
}

/* What a call of OpenSSL that did nothing means. */
static ssize_t judge(struct tr_cable *w, int result)
{
    int err = SSL_get_error(w->tls, result);
    long verified = SSL_get_verify_result(w->tls);

    ERR_clear_error();
    if (err == SSL_ERROR_WANT_READ || err == SSL_ERROR_WANT_WRITE) {
        w->wants_write = err == SSL_ERROR_WANT_WRITE;
        return 0;
    }
    if (verified != X509_V_OK) {
        w->fault = X509_verify_cert_error_string(verified);
    } else {
        w->fault = SSL_is_init_finished(w->tls) != 0 ? "the connection was closed"
                                                     : "the TLS handshake failed";
    }
    return -1;
}

static ssize_t judge_plain(struct tr_cable *w, ssize_t result)
{
    if (result > 0) {
        return result;
    }
    if (result < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    w->fault = "the connection was closed";
    return -1;
}

ssize_t tr_cable_read(struct tr_cable *w, void *out, size_t room)
{
    size_t done;
    int result;

    if (w->tls == NULL) {
        return judge_plain(w, recv(w->fd, out, room, 0));
    }
    w->wants_write = false;
    ERR_clear_error();
    result = SSL_read_ex(w->tls, out, room, &done);
    return result == 1 ? (ssize_t)done : judge(w, result);
}

ssize_t tr_cable_write(struct tr_cable *w, const void *bytes, size_t len)
{
    size_t done;
    int result;

    if (w->tls == NULL) {
        return judge_plain(w, send(w->fd, bytes, len, MSG_NOSIGNAL));
    }
    ERR_clear_error();
    result = SSL_write_ex(w->tls, bytes, len, &done);
    return result == 1 ? (ssize_t)done : judge(w, result);
}

void tr_cable_close(struct tr_cable *w)
{
    if (w->fd < 0) {
        return;
    }
    SSL_free(w->tls);
    (void)close(w->fd);
    *w = (struct tr_cable){.fd = -1};
}
