/*
 * The section [tokens]: its keys are names that the operator gives, so they are no rows of the
 * table of keys. A token can be set wherever a key can: in the file, as TARRY_TOKENS_NAME (the name
 * in small letters is that of the token) and as --set tokens.NAME=VALUE; the later source wins.
 *
 * What is wrong with a token is told without a word of its value.
 */

#include "base/err.h"
#include "server/config_inner.h"

#include <stdlib.h>
#include <string.h>

/* Its place among them, or their number. */
static unsigned find(const struct tr_config *c, const char *name)
{
    unsigned i = 0;

    while (i < c->token_count && strcmp(c->tokens[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* Room for one more. */
static int grow(struct tr_reading *r)
{
    struct tr_config *c = r->config;
    size_t count = (size_t)c->token_count + 1;
    struct tr_token *tokens;
    struct tr_token_place *places;

    if (c->token_count == TR_TOKENS_MAX) {
        return tr_reading_refuse(r, "there are more than %d tokens.", TR_TOKENS_MAX);
    }
    tokens = realloc(c->tokens, count * sizeof *tokens);
    if (tokens == NULL) {
        return tr_reading_no_memory(r);
    }
    c->tokens = tokens;
    places = realloc(c->token_places, count * sizeof *places);
    if (places == NULL) {
        return tr_reading_no_memory(r);
    }
    c->token_places = places;
    return TARRY_OK;
}

/* Two names for one token could contradict each other. */
static int check_digest(struct tr_reading *r, const struct tr_token *t, unsigned at,
                        const struct tr_place *place)
{
    const struct tr_config *c = r->config;

    for (unsigned i = 0; i < c->token_count; i++) {
        if (i != at && memcmp(c->tokens[i].digest, t->digest, TR_TOKEN_DIGEST) == 0) {
            return tr_reading_refuse(r, "%s is the same token as \"%s\"; give each its own.",
                                     place->name, c->tokens[i].name);
        }
    }
    return TARRY_OK;
}

int tr_config_set_token(struct tr_reading *r, const char *name, const char *value,
                        const struct tr_place *place)
{
    struct tr_config *c = r->config;
    unsigned at = find(c, name);
    struct tr_token t;
    const char *why;
    int err;

    if (tr_token_read(&t, name, value, &why) != TARRY_OK) {
        return tr_reading_refuse(r, "%s %s.", place->name, why);
    }
    if (at < c->token_count && c->token_places[at].from == place->from) {
        return tr_reading_refuse(r, "%s was given twice; give it once.", place->name);
    }
    err = check_digest(r, &t, at, place);
    if (err == TARRY_OK && at == c->token_count) {
        err = grow(r);
    }
    if (err == TARRY_OK) {
        c->tokens[at] = t;
        c->token_places[at] = (struct tr_token_place){.from = place->from, .line = place->line};
        c->token_count += at == c->token_count;
    }
    return err;
}

void tr_config_drop_tokens(struct tr_config *c)
{
    free(c->tokens);
    free(c->token_places);
    c->tokens = NULL;
    c->token_places = NULL;
    c->token_count = 0;
}

static bool same(const struct tr_token *a, const struct tr_token *b)
{
    return a->roles == b->roles && a->rate_milli == b->rate_milli &&
           strcmp(a->topics, b->topics) == 0 && memcmp(a->digest, b->digest, TR_TOKEN_DIGEST) == 0;
}

unsigned tr_config_compare_tokens(const struct tr_config *now, const struct tr_config *fresh,
                                  const struct tr_logger *log)
{
    unsigned count = 0;

    for (unsigned i = 0; i < now->token_count; i++) {
        unsigned at = find(fresh, now->tokens[i].name);

        if (at < fresh->token_count && same(&now->tokens[i], &fresh->tokens[at])) {
            continue;
        }
        count++;
        tr_logger_say(log, TR_LEVEL_INFO, "config read again: the token %s %s", now->tokens[i].name,
                      at < fresh->token_count ? "has changed" : "is revoked");
    }
    for (unsigned i = 0; i < fresh->token_count; i++) {
        if (find(now, fresh->tokens[i].name) == now->token_count) {
            count++;
            tr_logger_say(log, TR_LEVEL_INFO, "config read again: the token %s is new",
                          fresh->tokens[i].name);
        }
    }
    if (now->token_count > 0 && fresh->token_count == 0) {
        tr_logger_say(log, TR_LEVEL_WARNING,
                      "config read again: there is no token any more: whoever reaches the server "
                      "may do everything");
    }
    return count;
}
