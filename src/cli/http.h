#ifndef TR_CLI_HTTP_H
#define TR_CLI_HTTP_H

/*
 * A running server, as the commands see it: requests by HTTP, answers as JSON. See http.c.
 */

#include "base/check.h"
#include "proto/json_read.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_cli_server {
    const char *url;   /* as it was given; NULL: the local one */
    const char *token; /* NULL: none */
    const char *ca;    /* a file with certificates to believe; NULL: those of the system */
    void *curl;        /* kept from request to request, with its connection; or NULL */
};

struct tr_cli_request {
    const char *method;
    const char *target; /* a path with a query, percent-encoded */
    const void *body;   /* NULL: none */
    size_t len;
    const char *type;   /* of the body; NULL: bytes */
    const char *accept; /* NULL: whatever comes */
    uint64_t most_ms;   /* an answer that takes longer is none; 0: as long as bytes come */
};

struct tr_cli_answer {
    long status;
    char *body; /* len bytes, and a NUL; NULL: none came */
    size_t len;
};

/* A path with a query in the making. It grows as it must; no memory: the process ends. */
struct tr_cli_target {
    char *text;
    size_t len;
    size_t room;
    bool query; /* there is a ? already */
};

/* What the environment says. */
void tr_cli_server_init(struct tr_cli_server *s);
void tr_cli_server_fini(struct tr_cli_server *s);

/* Its address; and as people should read it: without a query, and what may be a password. */
enum { TR_CLI_SHOWN = 4096 };
const char *tr_cli_server_name(const struct tr_cli_server *s);
const char *tr_cli_server_shown(const struct tr_cli_server *s, char out[TR_CLI_SHOWN]);

/*
 * Asks, and waits as long as the answer takes. 0, or stderr says why there is no answer, and this
 * is how the process ends. Either way tr_cli_answer_fini is due.
 */
TR_MUST_USE int tr_cli_send(struct tr_cli_server *s, const struct tr_cli_request *r,
                            struct tr_cli_answer *a);
void tr_cli_answer_fini(struct tr_cli_answer *a);

/* The same without a word, for what is only nice to know. False: no answer. */
TR_MUST_USE bool tr_cli_send_quietly(struct tr_cli_server *s, const struct tr_cli_request *r,
                                     struct tr_cli_answer *a);

/* tr_cli_send and tr_cli_judge, without a body. */
TR_MUST_USE int tr_cli_ask(struct tr_cli_server *s, const char *method, const char *target,
                           struct tr_cli_answer *a);

/* 0, or the answer is an error: stderr says which, and this is how the process ends. */
TR_MUST_USE int tr_cli_judge(const struct tr_cli_answer *a);

/* What the answer says. False: it is no JSON; stderr says so. */
TR_MUST_USE bool tr_cli_read(const struct tr_cli_answer *a, struct tr_json_value *v);

/* Until when the certificate of the server is good, in seconds since 1970; of the last request.
 * False: not known, or it has none. */
TR_MUST_USE bool tr_cli_certificate(struct tr_cli_server *s, uint64_t *until_s);

/* Adds to the target: text as it is, a part of a path behind a /, an argument of the query. */
void tr_cli_target_add(struct tr_cli_target *t, const char *text);
void tr_cli_target_part(struct tr_cli_target *t, const char *part);
void tr_cli_target_arg(struct tr_cli_target *t, const char *name, const char *value);
void tr_cli_target_fini(struct tr_cli_target *t);

#endif
