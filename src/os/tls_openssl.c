/*
 * TLS by OpenSSL, between two buffers.
 *
 *     socket --recv--> in --+             +--> what the client said
 *                           |-- the keys -|
 *     socket <--send-- out -+             +<-- what it is told
 *
 * OpenSSL never sees the socket: it reads from `in` and writes to `out`, which are memory, so no
 * call of it waits, and the handshake can be calculated on another thread. What a client can make
 * us hold is bounded: more is received only when OpenSSL wants more, RAW_MAX bytes at a time; a
 * write encrypts at most WRITE_MAX bytes and counts as done when the socket has all of it; and who
 * makes us answer without reading (key updates) is closed.
 *
 * Versions 1.2 and 1.3. Of 1.2 only what has forward secrecy and authenticated encryption. No
 * compression, no second handshake (renegotiation), no early data. Tickets let clients come back
 * without a signature; their keys live as long as the certificate is loaded. Nothing is kept here
 * for that.
 *
 * The end: close_notify is sent when we have said all, and is an end like that of the socket when
 * it comes. The end of the socket without it counts as the same: commands and requests have an end
 * of their own, so nothing that was cut short is ever executed.
 *
 * Errors of OpenSSL are in a queue of the thread, which must be empty before each call.
 */

#include "os/tls.h"

#include "base/err.h"
#include "base/text.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RAW_MAX = 65536,    /* bytes received at once, */
    WRITE_MAX = 65536,  /* and encrypted at once */
    ANSWER_MAX = 65536, /* bytes that nobody reads, and nobody wrote */
    KEEP_MAX = 2048,    /* of a buffer that is empty */
    WHY_MAX = 160,
};

struct tr_tls {
    SSL_CTX *ctx;
    int64_t until_s;
    uint64_t users;       /* connections, and the owner while it is open */
    uint8_t raw[RAW_MAX]; /* for the moment */
};

struct tr_tls_conn {
    struct tr_tls *tls;
    SSL *ssl;
    BIO *in;  /* of ssl */
    BIO *out; /* of ssl */
    void *owner;
    struct tr_task task;
    enum tr_tls_state state;
    size_t owed; /* bytes that were encrypted, and are not all with the socket */
    bool http;
    bool busy;   /* the worker has it: nothing else here may be touched */
    bool again;  /* the other side wants to begin anew */
    bool more;   /* the last read ended for want of room */
    bool ended;  /* the other side sends no more */
    bool failed; /* it broke the rules */
    char why[WHY_MAX];
};

/* ---- files ---- */

static int refuse(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char *why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tr_text_list(why, TR_TLS_WHY, format, args);
    va_end(args);
    return TARRY_EINVAL;
}

/* What OpenSSL says; there may be nothing. */
static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());

    return text != NULL ? text : "it is empty, or something else";
}

/* An open file, or NULL and why. */
static BIO *open_file(const char *key, const char *path, char *why)
{
    FILE *file = fopen(path, "r");
    BIO *bio = file != NULL ? BIO_new_fp(file, BIO_CLOSE) : NULL;

    if (file == NULL) {
        (void)refuse(why,
                     "%s: %s cannot be read (%s). Name a file in PEM form that the user who runs "
                     "tarry may read",
                     key, path, strerror(errno));
    } else if (bio == NULL) {
        (void)refuse(why, "%s: no memory to read %s", key, path);
        fclose(file);
    }
    return bio;
}

static bool can_open(const char *key, const char *path, char *why)
{
    BIO *bio = open_file(key, path, why);

    BIO_free(bio);
    return bio != NULL;
}

/* Keys that ask for a passphrase cannot be used: nobody is there who could type it. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the type is OpenSSL's */
static int no_passphrase(char *buf, int size, int writes, void *ctx)
{
    (void)buf;
    (void)size;
    (void)writes;
    (void)ctx;
    return -1;
}

static int load_key(struct tr_tls *t, const struct tr_tls_files *f, char *why)
{
    BIO *bio = open_file("tls.key", f->key, why);
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
    int err = TARRY_OK;

    BIO_free(bio);
    if (bio == NULL) {
        return TARRY_EINVAL;
    }
    if (key == NULL) {
        err =
            refuse(why,
                   "tls.key: %s is no private key in PEM form without a passphrase (%s). Name the "
                   "key of the certificate",
                   f->key, reason());
    } else if (X509_check_private_key(SSL_CTX_get0_certificate(t->ctx), key) != 1) {
        err = refuse(why,
                     "tls.key: %s is not the key of the certificate in %s. Name the two files that "
                     "were made together",
                     f->key, f->cert);
    } else if (SSL_CTX_use_PrivateKey(t->ctx, key) != 1) {
        err = refuse(why, "tls.key: %s cannot be used (%s)", f->key, reason());
    }
    EVP_PKEY_free(key);
    return err;
}

/* Seconds since 1970, and as text. */
static int64_t read_time(const ASN1_TIME *at, char text[32])
{
    struct tm tm = {0};

    if (ASN1_TIME_to_tm(at, &tm) != 1) {
        tr_text(text, 32, "an unknown time");
        return 0;
    }
    (void)strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return (int64_t)timegm(&tm);
}

/* Is it good now? */
static int check_times(struct tr_tls *t, const char *path, char *why)
{
    const X509 *cert = SSL_CTX_get0_certificate(t->ctx);
    char from[32];
    char to[32];

    (void)read_time(X509_get0_notBefore(cert), from);
    t->until_s = read_time(X509_get0_notAfter(cert), to);
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) <= 0) {
        return refuse(why, "tls.cert: the certificate in %s has expired at %s. Renew it", path, to);
    }
    if (X509_cmp_current_time(X509_get0_notBefore(cert)) >= 0) {
        return refuse(why,
                      "tls.cert: the certificate in %s is good from %s on. Is the clock right?",
                      path, from);
    }
    return TARRY_OK;
}

static int load_cert(struct tr_tls *t, const struct tr_tls_files *f, char *why)
{
    int err;

    if (!can_open("tls.cert", f->cert, why)) {
        return TARRY_EINVAL;
    }
    if (SSL_CTX_use_certificate_chain_file(t->ctx, f->cert) != 1) {
        return refuse(why,
                      "tls.cert: %s is no certificate in PEM form that can be used (%s). It must "
                      "have the server's certificate first, then those between it and its root",
                      f->cert, reason());
    }
    err = check_times(t, f->cert, why);
    return err == TARRY_OK ? load_key(t, f, why) : err;
}

static int load_client_ca(struct tr_tls *t, const char *path, char *why)
{
    STACK_OF(X509_NAME) * names;

    if (!can_open("tls.client_ca", path, why)) {
        return TARRY_EINVAL;
    }
    names = SSL_load_client_CA_file(path);
    if (names == NULL || SSL_CTX_load_verify_locations(t->ctx, path, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return refuse(why,
                      "tls.client_ca: %s has no certificate in PEM form (%s). Name the file of the "
                      "authority that signs the certificates of clients",
                      path, reason());
    }
    SSL_CTX_set_client_CA_list(t->ctx, names); /* it is theirs now */
    SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return TARRY_OK;
}

/* ---- what all connections have ---- */

/* Which protocol is spoken inside: clients may ask. */
/* NOLINTNEXTLINE(readability-function-size): the type is OpenSSL's */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *ctx)
{
    static const unsigned char ours[] = "\x08http/1.1\x08http/1.0";
    const struct tr_tls_conn *c = SSL_get_app_data(ssl);
    unsigned char *chosen;

    (void)ctx;
    if (!c->http) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL; /* it speaks only others, such as h2 */
    }
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* A second handshake is refused by a warning, which is how we hear of it. */
static void on_info(const SSL *ssl, int where, int what)
{
    struct tr_tls_conn *c = SSL_get_app_data(ssl);

    if ((where & SSL_CB_WRITE_ALERT) == SSL_CB_WRITE_ALERT &&
        (what & 0xff) == SSL_AD_NO_RENEGOTIATION) {
        c->again = true;
    }
}

static bool set_rules(SSL_CTX *ctx)
{
    static const unsigned char name[] = "tarry";

    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_num_tickets(ctx, 1);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    SSL_CTX_set_info_callback(ctx, on_info);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
           SSL_CTX_set_session_id_context(ctx, name, sizeof name - 1) == 1;
}

static void drop(struct tr_tls *t)
{
    if (--t->users == 0) {
        SSL_CTX_free(t->ctx);
        free(t);
    }
}

int tr_tls_open(struct tr_tls **out, const struct tr_tls_files *f, char why[TR_TLS_WHY])
{
    struct tr_tls *t = calloc(1, sizeof *t);
    int err;

    *out = NULL;
    if (f->cert == NULL || f->key == NULL) {
        free(t);
        return refuse(why, "%s is set, but %s is not. Set both, or none",
                      f->cert != NULL  ? "tls.cert"
                      : f->key != NULL ? "tls.key"
                                       : "tls.client_ca",
                      f->cert != NULL ? "tls.key" : "tls.cert");
    }
    if (t == NULL) {
        return refuse(why, "there is no memory for TLS");
    }
    ERR_clear_error();
    t->users = 1;
    t->ctx = SSL_CTX_new(TLS_server_method());
    if (t->ctx == NULL || !set_rules(t->ctx)) {
        err = refuse(why, "TLS cannot be set up (%s)", reason());
    } else {
        err = load_cert(t, f, why);
    }
    if (err == TARRY_OK && f->client_ca != NULL) {
        err = load_client_ca(t, f->client_ca, why);
    }
    ERR_clear_error();
    if (err != TARRY_OK) {
        tr_tls_close(t);
        return err;
    }
    *out = t;
    return TARRY_OK;
}

void tr_tls_close(struct tr_tls *t)
{
    if (t != NULL) {
        drop(t);
    }
}

int64_t tr_tls_until_s(const struct tr_tls *t)
{
    return t->until_s;
}

/* ---- a connection ---- */

static void free_conn(struct tr_tls_conn *c)
{
    SSL_free(c->ssl); /* and its buffers */
    drop(c->tls);
    free(c);
}

struct tr_tls_conn *tr_tls_new(struct tr_tls *t, bool http, void *owner)
{
    struct tr_tls_conn *c = calloc(1, sizeof *c);
    BIO *in = BIO_new(BIO_s_mem());
    BIO *out = BIO_new(BIO_s_mem());

    if (c != NULL) {
        c->ssl = SSL_new(t->ctx);
    }
    if (c == NULL || c->ssl == NULL || in == NULL || out == NULL) {
        if (c != NULL) {
            SSL_free(c->ssl);
        }
        BIO_free(in);
        BIO_free(out);
        free(c);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_bio(c->ssl, in, out);
    SSL_set_accept_state(c->ssl);
    (void)SSL_set_app_data(c->ssl, c);
    c->tls = t;
    t->users++;
    c->in = in;
    c->out = out;
    c->http = http;
    c->owner = owner;
    return c;
}

void tr_tls_free(struct tr_tls_conn *c)
{
    if (c == NULL) {
        return;
    }
    if (c->busy) {
        c->owner = NULL; /* tr_tls_take frees it */
        return;
    }
    free_conn(c);
}

enum tr_tls_state tr_tls_state(const struct tr_tls_conn *c)
{
    return c->state;
}

const char *tr_tls_why(const struct tr_tls_conn *c)
{
    return c->why;
}

bool tr_tls_busy(const struct tr_tls_conn *c)
{
    return c->busy;
}

bool tr_tls_failed(const struct tr_tls_conn *c)
{
    return c->failed;
}

bool tr_tls_waiting(const struct tr_tls_conn *c)
{
    return c->more || c->ended || c->failed;
}

bool tr_tls_unsent(const struct tr_tls_conn *c)
{
    return BIO_pending(c->out) > 0;
}

/* An empty buffer that was large once is changed for a new one. */
static void trim_in(struct tr_tls_conn *c)
{
    BUF_MEM *mem = NULL;
    BIO *fresh;

    if (BIO_pending(c->in) > 0 || BIO_get_mem_ptr(c->in, &mem) != 1 || mem->max <= KEEP_MAX) {
        return;
    }
    fresh = BIO_new(BIO_s_mem());
    if (fresh != NULL) {
        SSL_set0_rbio(c->ssl, fresh);
        c->in = fresh;
    }
}

static void trim_out(struct tr_tls_conn *c)
{
    BUF_MEM *mem = NULL;
    BIO *fresh;

    if (BIO_pending(c->out) > 0 || BIO_get_mem_ptr(c->out, &mem) != 1 || mem->max <= KEEP_MAX) {
        return;
    }
    fresh = BIO_new(BIO_s_mem());
    if (fresh != NULL) {
        SSL_set0_wbio(c->ssl, fresh);
        c->out = fresh;
    }
}

bool tr_tls_flush(struct tr_tls_conn *c, struct tr_sock *sock)
{
    char *bytes;
    long len;

    while ((len = BIO_get_mem_data(c->out, &bytes)) > 0) {
        long n = tr_sock_write(sock, (const uint8_t *)bytes, (size_t)len);

        if (n == TR_SOCK_BROKEN) {
            return false;
        }
        if (n <= 0) {
            return true;
        }
        for (long gone = 0; gone < n;) { /* the only way to take them out */
            long piece = n - gone < RAW_MAX ? n - gone : RAW_MAX;

            gone += BIO_read(c->out, c->tls->raw, (int)piece);
        }
        if (n < len) {
            return true;
        }
    }
    trim_out(c);
    return true;
}

/* ---- shaking hands ---- */

bool tr_tls_give(struct tr_tls_conn *c, const uint8_t *bytes, size_t len)
{
    return BIO_write(c->in, bytes, (int)len) == (int)len;
}

/* On the worker. */
static void explain(struct tr_tls_conn *c)
{
    long verdict = SSL_get_verify_result(c->ssl);

    if (verdict != X509_V_OK) {
        tr_text(c->why, sizeof c->why, "the client's certificate is no good: %s",
                X509_verify_cert_error_string(verdict));
    } else {
        tr_text(c->why, sizeof c->why, "no TLS: %s", reason());
    }
}

static void shake(struct tr_task *task)
{
    struct tr_tls_conn *c = TR_CONTAINER_OF(task, struct tr_tls_conn, task);
    int done;

    ERR_clear_error();
    done = SSL_do_handshake(c->ssl);
    if (done == 1) {
        c->state = TR_TLS_OPEN;
    } else if (SSL_get_error(c->ssl, done) != SSL_ERROR_WANT_READ) {
        c->state = TR_TLS_FAILED;
        explain(c);
    }
    ERR_clear_error();
}

struct tr_task *tr_tls_task(struct tr_tls_conn *c)
{
    TR_CHECK(!c->busy);
    TR_CHECK(c->state == TR_TLS_SHAKING);
    c->busy = true;
    c->task.run = shake;
    return &c->task;
}

void *tr_tls_take(struct tr_task *task)
{
    struct tr_tls_conn *c = TR_CONTAINER_OF(task, struct tr_tls_conn, task);

    TR_CHECK(c->busy);
    c->busy = false;
    if (c->owner == NULL) {
        free_conn(c);
        return NULL;
    }
    return c->owner;
}

/* ---- reading and writing ---- */

/* Receives once. False: nothing came, now or ever. */
static bool receive(struct tr_tls_conn *c, struct tr_sock *sock, bool *broken)
{
    long n = tr_sock_read(sock, c->tls->raw, RAW_MAX);

    if (n == TR_SOCK_BROKEN) {
        *broken = true;
    } else if (n == 0) {
        c->ended = true;
    } else if (n > 0) {
        *broken = BIO_write(c->in, c->tls->raw, (int)n) != (int)n;
    }
    return n > 0 && !*broken;
}

/* What is there is read until there is no more, or no room for it. False: OpenSSL wants more. */
static bool decrypt(struct tr_tls_conn *c, uint8_t *buf, size_t len, size_t *have)
{
    while (*have < len) {
        size_t n = 0;
        int err;

        if (SSL_read_ex(c->ssl, buf + *have, len - *have, &n) == 1) {
            *have += n;
            continue;
        }
        err = SSL_get_error(c->ssl, 0);
        if (err == SSL_ERROR_ZERO_RETURN) {
            c->ended = true;
        } else if (err == SSL_ERROR_WANT_READ && !c->again) {
            return false;
        } else {
            c->failed = true;
        }
        break;
    }
    c->failed |= c->again;
    return true;
}

long tr_tls_read(struct tr_tls_conn *c, struct tr_sock *sock, uint8_t *buf, size_t len)
{
    size_t have = 0;
    bool broken = false;

    ERR_clear_error();
    c->more = false;
    if (!c->failed && !c->ended && !decrypt(c, buf, len, &have) && receive(c, sock, &broken)) {
        (void)decrypt(c, buf, len, &have);
    }
    c->more = have == len;
    c->failed |= (size_t)BIO_pending(c->out) > ANSWER_MAX + c->owed + c->owed / 8;
    broken |= !tr_tls_flush(c, sock);
    trim_in(c);
    ERR_clear_error();
    if (have > 0) {
        return (long)have;
    }
    if (broken || c->failed) {
        return TR_SOCK_BROKEN;
    }
    return c->ended ? 0 : TR_SOCK_AGAIN;
}

long tr_tls_write(struct tr_tls_conn *c, struct tr_sock *sock, const uint8_t *bytes, size_t len)
{
    size_t n = len < WRITE_MAX ? len : WRITE_MAX;

    if (c->owed == 0) {
        ERR_clear_error();
        if (SSL_write_ex(c->ssl, bytes, n, &c->owed) != 1) {
            c->owed = 0;
            ERR_clear_error();
            return TR_SOCK_BROKEN;
        }
    }
    if (!tr_tls_flush(c, sock)) {
        return TR_SOCK_BROKEN;
    }
    if (tr_tls_unsent(c)) {
        return TR_SOCK_AGAIN;
    }
    n = c->owed;
    c->owed = 0;
    return (long)n;
}

void tr_tls_end(struct tr_tls_conn *c, struct tr_sock *sock)
{
    if (c->busy || c->state != TR_TLS_OPEN || c->failed || tr_tls_unsent(c) ||
        (SSL_get_shutdown(c->ssl) & SSL_SENT_SHUTDOWN) != 0) {
        return;
    }
    ERR_clear_error();
    (void)SSL_shutdown(c->ssl);
    ERR_clear_error();
    (void)tr_tls_flush(c, sock); /* what does not fit is lost with the connection */
}
