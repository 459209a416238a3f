#ifndef TR_RULES_TOKEN_H
#define TR_RULES_TOKEN_H

/*
 * Tokens: who may do what. Of a token only its SHA-256 is known here, with a name, roles, and
 * patterns of the topics that it is for. See token.c.
 */

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What somebody may do; a token has one or several. */
enum tr_role {
    TR_ROLE_NONE = 0, /* nothing has to be allowed */
    TR_ROLE_READ = 1,
    TR_ROLE_PRODUCE = 2,
    TR_ROLE_CONSUME = 4,
    TR_ROLE_ADMIN = 8,
};

enum {
    TR_ROLES_ALL = 15,
    TR_TOKENS_MAX = 1000, /* in one config */
    TR_TOKEN_NAME_MAX = 64,
    TR_TOKEN_TOPICS_MAX = 500, /* bytes of all patterns, with the commas */
    TR_TOKEN_DIGEST = 32,
    TR_TOKEN_ROLES_TEXT = 32,
    TR_TOKEN_LINE = 768, /* room for a line as tr_token_print writes it */
};

struct tr_token {
    char name[TR_TOKEN_NAME_MAX + 1];
    char topics[TR_TOKEN_TOPICS_MAX + 1]; /* patterns with commas between them */
    unsigned roles;                       /* enum tr_role; an admin has all */
    bool all;                             /* one of the patterns is "*" */
    uint64_t rate_milli;                  /* requests in 1000 seconds; 0: any number */
    uint8_t digest[TR_TOKEN_DIGEST];
};

/*
 * Reads NAME = VALUE, where VALUE is ROLE[+ROLE] PATTERN[,PATTERN] sha256:HEX [rate:N]. On
 * TARRY_EINVAL *why is what is wrong: the end of a sentence. It never repeats what was given, as
 * that may be a secret in the wrong place.
 */
TR_MUST_USE int tr_token_read(struct tr_token *t, const char *name, const char *value,
                              const char **why);

bool tr_token_name_ok(const char *name, size_t len);

/* The same parts alone, for the command line. */
TR_MUST_USE int tr_token_read_roles(struct tr_token *t, const char *text, size_t len,
                                    const char **why);
TR_MUST_USE int tr_token_read_topics(struct tr_token *t, const char *text, size_t len,
                                     const char **why);
TR_MUST_USE int tr_token_read_rate(struct tr_token *t, const char *text, size_t len,
                                   const char **why);

/* The line, as it stands in a config. */
void tr_token_print(char out[TR_TOKEN_LINE], const struct tr_token *t);

/* "admin", "read+produce". */
void tr_token_print_roles(char out[TR_TOKEN_ROLES_TEXT], unsigned has);

/* Is it for this topic? */
bool tr_token_has_topic(const struct tr_token *t, const char *name, size_t len);

/* The one topic that it is for; NULL: there may be several, or none. */
const char *tr_token_only_topic(const struct tr_token *t);

/*
 * Which of `count` digests, one behind the other, it is; `count`: none. What it costs depends on
 * `count` alone, not on how much of which digest is right.
 */
unsigned tr_token_find(const uint8_t *digests, unsigned count,
                       const uint8_t digest[TR_TOKEN_DIGEST]);

#endif
