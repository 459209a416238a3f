/*
 * A certificate is read as a whole or not at all: the new one is complete, with its key, before it
 * takes the place of the old one. Connections keep the one that they were made with. A reload reads
 * it before anything else is taken over: a broken one refuses the whole reload.
 */

#include "server/certificate.h"

#include "base/err.h"
#include "base/text.h"
#include "os/clock_linux.h"
#include "os/loop_linux.h"
#include "os/tls.h"
#include "os/worker_linux.h"
#include "rules/moment.h"

#include <stdio.h>

#define US_PER_S INT64_C(1000000)
#define SOON_S (INT64_C(14) * 86400) /* before its end, from which on there are warnings */

static bool wanted(const struct tr_config *c)
{
    return c->tls_cert != NULL || c->tls_key != NULL || c->tls_client_ca != NULL;
}

static int load(struct tr_tls **out, const struct tr_config *c, char why[TR_TLS_WHY])
{
    struct tr_tls_files files = {
        .cert = c->tls_cert, .key = c->tls_key, .client_ca = c->tls_client_ca};

    return tr_tls_open(out, &files, why);
}

static void until(const struct tr_tls *tls, char text[TR_MOMENT_TEXT])
{
    tr_moment_print(text, tr_tls_until_s(tls) * US_PER_S);
}

static void warn(const struct tr_tls *tls, const struct tr_config *c, struct tr_logger *log)
{
    int64_t now_s = (int64_t)(tr_clock_linux_now().wall_us / (uint64_t)US_PER_S);
    char text[TR_MOMENT_TEXT];

    if (tr_tls_until_s(tls) < now_s + SOON_S) {
        until(tls, text);
        tr_logger_say(log, TR_LEVEL_WARNING,
                      "the certificate in %s ends at %s: renew it, then send SIGHUP", c->tls_cert,
                      text);
    }
}

enum tr_exit tr_certificate_open(struct tr_conns *cs, const struct tr_config *c,
                                 struct tr_logger *log)
{
    char why[TR_TLS_WHY];

    if (!wanted(c)) {
        return TR_EXIT_FINE;
    }
    if (load(&cs->tls, c, why) != TARRY_OK) {
        fprintf(stderr, "tarry: %s.\n", why);
        return TR_EXIT_USAGE;
    }
    if (tr_worker_linux_open(&cs->worker, "tarry-tls", tr_loop_linux_wake, cs->loop) != TARRY_OK) {
        fprintf(stderr, "tarry: no thread for TLS could be made.\n%s\n",
                "Raise the limits of the user that runs tarry (ulimit -u).");
        return TR_EXIT_FAILED;
    }
    warn(cs->tls, c, log);
    return TR_EXIT_FINE;
}

void tr_certificate_tell(const struct tr_conns *cs, const struct tr_config *c)
{
    char text[TR_MOMENT_TEXT];

    if (cs->tls != NULL) {
        until(cs->tls, text);
        printf("TLS only: the certificate in %s, good until %s%s\n", c->tls_cert, text,
               c->tls_client_ca != NULL ? "; clients need a certificate" : "");
    }
}

int tr_certificate_read(struct tr_tls **fresh, const struct tr_conns *cs, const struct tr_config *c,
                        char *why, size_t room)
{
    char text[TR_TLS_WHY];
    int err;

    *fresh = NULL;
    if (cs->tls == NULL) {
        return TARRY_OK;
    }
    err = load(fresh, c, text);
    if (err != TARRY_OK) {
        tr_text(why, room, "%s.", text);
    }
    return err;
}

void tr_certificate_take(struct tr_conns *cs, struct tr_tls *fresh, const struct tr_config *c,
                         struct tr_logger *log)
{
    char text[TR_MOMENT_TEXT];

    if (fresh == NULL) {
        return;
    }
    tr_tls_close(cs->tls);
    cs->tls = fresh;
    until(fresh, text);
    tr_logger_say(log, TR_LEVEL_INFO, "certificate read again: %s, good until %s", c->tls_cert,
                  text);
    warn(fresh, c, log);
}

void tr_certificate_close(struct tr_conns *cs)
{
    if (cs->worker != NULL) {
        tr_worker_linux_stop(cs->worker);
        tr_conns_shaken(cs); /* those whose owners are gone are freed by this */
        tr_worker_linux_close(cs->worker);
        cs->worker = NULL;
    }
    tr_tls_close(cs->tls);
    cs->tls = NULL;
}
