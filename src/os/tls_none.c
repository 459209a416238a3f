/* A build without OpenSSL: there is no TLS, and whoever wants it is told so. */

#include "base/err.h"
#include "base/text.h"
#include "os/tls.h"

int tr_tls_open(struct tr_tls **out, const struct tr_tls_files *files, char why[TR_TLS_WHY])
{
    (void)files;
    *out = NULL;
    tr_text(why, TR_TLS_WHY,
            "this tarry was built without TLS. Build it where OpenSSL is (libssl-dev), or leave "
            "tls.cert out");
    return TARRY_EUNSUPPORTED;
}

void tr_tls_close(struct tr_tls *t)
{
    TR_CHECK(t == NULL);
}

int64_t tr_tls_until_s(const struct tr_tls *t)
{
    (void)t;
    return 0;
}

/* There is no struct tr_tls, so there is no connection: what follows is never called. */

struct tr_tls_conn *tr_tls_new(struct tr_tls *t, bool http, void *owner)
{
    (void)t;
    (void)http;
    (void)owner;
    return NULL;
}

void tr_tls_free(struct tr_tls_conn *c)
{
    TR_CHECK(c == NULL);
}

enum tr_tls_state tr_tls_state(const struct tr_tls_conn *c)
{
    (void)c;
    return TR_TLS_FAILED;
}

const char *tr_tls_why(const struct tr_tls_conn *c)
{
    (void)c;
    return "";
}

bool tr_tls_give(struct tr_tls_conn *c, const uint8_t *bytes, size_t len)
{
    (void)c;
    (void)bytes;
    (void)len;
    return false;
}

struct tr_task *tr_tls_task(struct tr_tls_conn *c)
{
    (void)c;
    return NULL;
}

bool tr_tls_busy(const struct tr_tls_conn *c)
{
    (void)c;
    return false;
}

void *tr_tls_take(struct tr_task *task)
{
    (void)task;
    return NULL;
}

long tr_tls_read(struct tr_tls_conn *c, struct tr_sock *sock, uint8_t *buf, size_t len)
{
    (void)c;
    (void)sock;
    (void)buf;
    (void)len;
    return TR_SOCK_BROKEN;
}

long tr_tls_write(struct tr_tls_conn *c, struct tr_sock *sock, const uint8_t *bytes, size_t len)
{
    (void)c;
    (void)sock;
    (void)bytes;
    (void)len;
    return TR_SOCK_BROKEN;
}

bool tr_tls_failed(const struct tr_tls_conn *c)
{
    (void)c;
    return true;
}

bool tr_tls_waiting(const struct tr_tls_conn *c)
{
    (void)c;
    return false;
}

bool tr_tls_unsent(const struct tr_tls_conn *c)
{
    (void)c;
    return false;
}

bool tr_tls_flush(struct tr_tls_conn *c, struct tr_sock *sock)
{
    (void)c;
    (void)sock;
    return false;
}

void tr_tls_end(struct tr_tls_conn *c, struct tr_sock *sock)
{
    (void)c;
    (void)sock;
}
