#ifndef TR_PROTO_AUTH_H
#define TR_PROTO_AUTH_H

/*
 * The tokens in use, shared by all ports: who is it, may they, how often, and what is told to the
 * operator. See auth.c.
 *
 * Sessions point to the token that they were given, and keep its digest. When the tokens change,
 * the owner lets every session look again (`reauth` of session.h) before anything else happens.
 * Threads: one.
 */

#include "base/mem.h"
#include "port/clock.h"
#include "port/digest.h"
#include "rules/bucket.h"
#include "rules/token.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TR_AUTH_TOKEN_MAX = 512, /* bytes that are looked at; what is longer is no token */
    TR_AUTH_PEERS = 256,
    TR_AUTH_SET = 8, /* places where one of them can be */
};

/* A token in use. */
struct tr_auth_token {
    struct tr_token is;
    struct tr_bucket bucket; /* if it has a rate */
    uint32_t actor;          /* its number in histories; 0: it has none */
};

/* Somebody who sent wrong tokens. */
struct tr_auth_peer {
    uint64_t number;
    struct tr_bucket bucket; /* of wrong ones that are answered with patience; rate 0: free */
};

enum tr_auth_verdict {
    TR_AUTH_FINE,
    TR_AUTH_ABSENT, /* there is no token */
    TR_AUTH_WRONG,
    TR_AUTH_TOO_MANY, /* and not the first one from there */
};

/* What a session has of it. */
struct tr_auth_pass {
    const void *session;
    const struct tr_auth_token *who; /* NULL: there are no tokens */
    uint8_t digest[TR_TOKEN_DIGEST]; /* of who's */
};

struct tr_json;

struct tr_auth {
    struct tr_mem *mem;
    struct tr_digest digest;
    void *ctx;

    /* Where a session comes from, as a number. NULL: all come from the same place. */
    uint64_t (*peer)(void *ctx, const void *session);

    /* Somebody sends wrong tokens again and again: told once a minute at most. Or NULL. */
    void (*warn)(void *ctx, const void *session);

    /* What needs the role admin is done, or was: then with the status of HTTP, else 0. Or NULL. */
    void (*audit)(void *ctx, const struct tr_auth_pass *pass, const char *what, unsigned status);

    /* Its own. */
    struct tr_auth_token *tokens;
    struct tr_auth_token *before; /* those that sessions may still point to */
    unsigned before_count;
    uint8_t *digests;
    unsigned count;    /* 0: there are none, and everybody may do everything */
    uint64_t absent;   /* requests without one, */
    uint64_t failed;   /* wrong tokens ever; */
    uint64_t too_many; /* those of them that came too often */
    uint64_t denied;   /* good ones for what they are not for, */
    uint64_t limited;  /* and beyond their rate */
    uint64_t warned_us;
    struct tr_auth_peer peers[TR_AUTH_PEERS];
};

/* Whom nothing is allowed. */
extern const struct tr_auth_token tr_auth_nobody;

/* a may be NULL: there are no tokens. */
bool tr_auth_on(const struct tr_auth *a);

/*
 * These from now on: copied. Who has a token still keeps what is left of its rate. Those before
 * stay in memory, so that sessions can look again, until tr_auth_forget. TARRY_ENOMEM: all is as it
 * was.
 */
TR_MUST_USE int tr_auth_set(struct tr_auth *a, const struct tr_token *tokens, unsigned count,
                            struct tr_now now);
void tr_auth_forget(struct tr_auth *a);
void tr_auth_fini(struct tr_auth *a);

/* Whose token is that? Sets pass->who: without a good one, to nobody. */
enum tr_auth_verdict tr_auth_check(struct tr_auth *a, struct tr_auth_pass *pass, const char *token,
                                   size_t len, struct tr_now now);

/* There are other tokens, perhaps. False: this one is not good any more, or for other things. */
bool tr_auth_again(const struct tr_auth *a, struct tr_auth_pass *pass);

/* One more request. 0: fine; else after so many us there may be another one. */
uint64_t tr_auth_spend(struct tr_auth *a, const struct tr_auth_pass *pass, struct tr_now now);

/* As a->audit, if there are tokens. */
void tr_auth_audit(struct tr_auth *a, const struct tr_auth_pass *pass, const char *what,
                   unsigned status);

/* What it may. who NULL: there are no tokens. */
bool tr_auth_role(const struct tr_auth_token *who, unsigned roles); /* one of them */
bool tr_auth_topic(const struct tr_auth_token *who, const char *name, size_t len);
bool tr_auth_narrow(const struct tr_auth_token *who); /* not all topics */

/* What is known of a token, but for its digest: members of the object that is open. */
void tr_auth_tell(struct tr_json *j, const struct tr_token *t);

#endif
