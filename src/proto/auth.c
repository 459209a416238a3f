/*
 * Who may ask, on all ports.
 *
 *     token --> SHA-256 --> which of the digests? --> its name, roles, topics, rate
 *
 * Wrong tokens are counted by where they come from. Whoever sends more than a hundred of them, and
 * then more than one a second, is told to slow down (429, or the connection is closed) and named
 * in the log. Good tokens are taken all the same: a token cannot be guessed, and if the good ones
 * were refused, too, then anybody behind the same proxy or router could lock all others out. Where
 * somebody comes from is found by its number in a set of eight places; who was quiet for longest
 * makes room. So it takes fixed memory, and somebody with very many addresses is only counted.
 *
 * Nothing here waits, and nothing is kept of a token but its digest.
 */

#include "proto/auth.h"

#include "base/err.h"
#include "proto/json_out.h"

#include <string.h>

enum {
    WRONG_BURST = 100,
    WRONG_RATE_MILLI = 1000,
};

#define WARN_US UINT64_C(60000000)

const struct tr_auth_token tr_auth_nobody;

bool tr_auth_on(const struct tr_auth *a)
{
    return a != NULL && a->count > 0;
}

/* ---- the tokens ---- */

static void drop(struct tr_auth *a, struct tr_auth_token *tokens, unsigned count)
{
    tr_mem_free(a->mem, tokens, count * sizeof *tokens);
}

void tr_auth_forget(struct tr_auth *a)
{
    drop(a, a->before, a->before_count);
    a->before = NULL;
    a->before_count = 0;
}

void tr_auth_fini(struct tr_auth *a)
{
    tr_auth_forget(a);
    drop(a, a->tokens, a->count);
    tr_mem_free(a->mem, a->digests, (size_t)a->count * TR_TOKEN_DIGEST);
    a->tokens = NULL;
    a->digests = NULL;
    a->count = 0;
}

/* The token of that name, or NULL. */
static const struct tr_auth_token *named(const struct tr_auth *a, const char *name)
{
    for (unsigned i = 0; i < a->count; i++) {
        if (strcmp(a->tokens[i].is.name, name) == 0) {
            return &a->tokens[i];
        }
    }
    return NULL;
}

static void begin(const struct tr_auth *a, struct tr_auth_token *t, struct tr_now now)
{
    const struct tr_auth_token *was = named(a, t->is.name);
    uint64_t rate = t->is.rate_milli;

    if (was != NULL) {
        t->bucket = was->bucket;
    }
    if (rate > 0 && was != NULL && was->is.rate_milli > 0) {
        tr_bucket_change(&t->bucket, rate, tr_bucket_burst_of(rate), now.boot_us);
    } else if (rate > 0) {
        tr_bucket_init(&t->bucket, rate, tr_bucket_burst_of(rate), now.boot_us);
    }
}

int tr_auth_set(struct tr_auth *a, const struct tr_token *tokens, unsigned count, struct tr_now now)
{
    struct tr_auth_token *fresh = NULL;
    uint8_t *digests = NULL;

    if (count > 0) {
        fresh = tr_mem_alloc(a->mem, count * sizeof *fresh);
        digests = tr_mem_alloc(a->mem, (size_t)count * TR_TOKEN_DIGEST);
        if (fresh == NULL || digests == NULL) {
            tr_mem_free(a->mem, fresh, count * sizeof *fresh);
            tr_mem_free(a->mem, digests, (size_t)count * TR_TOKEN_DIGEST);
            return TARRY_ENOMEM;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        fresh[i].is = tokens[i];
        memcpy(digests + (size_t)i * TR_TOKEN_DIGEST, tokens[i].digest, TR_TOKEN_DIGEST);
        begin(a, &fresh[i], now);
    }
    tr_auth_forget(a);
    a->before = a->tokens;
    a->before_count = a->count;
    tr_mem_free(a->mem, a->digests, (size_t)a->count * TR_TOKEN_DIGEST);
    a->tokens = fresh;
    a->digests = digests;
    a->count = count;
    return TARRY_OK;
}

/* ---- wrong ones ---- */

/* Where this one is counted: its own place, or that of whoever was quiet for longest. */
static struct tr_auth_peer *place_of(struct tr_auth *a, uint64_t number, uint64_t now_us)
{
    struct tr_auth_peer *set = &a->peers[number % (TR_AUTH_PEERS / TR_AUTH_SET) * TR_AUTH_SET];
    struct tr_auth_peer *oldest = set;

    for (unsigned i = 0; i < TR_AUTH_SET; i++) {
        if (set[i].bucket.rate_milli > 0 && set[i].number == number) {
            return &set[i];
        }
        if (set[i].bucket.at_us < oldest->bucket.at_us || set[i].bucket.rate_milli == 0) {
            oldest = &set[i];
        }
    }
    oldest->number = number;
    tr_bucket_init(&oldest->bucket, WRONG_RATE_MILLI, WRONG_BURST, now_us);
    return oldest;
}

static enum tr_auth_verdict count_wrong(struct tr_auth *a, const void *session, struct tr_now now)
{
    uint64_t number = a->peer != NULL ? a->peer(a->ctx, session) : 0;
    struct tr_auth_peer *from = place_of(a, number, now.boot_us);

    a->failed++;
    if (tr_bucket_take(&from->bucket, 1, now.boot_us) == 1) {
        return TR_AUTH_WRONG;
    }
    a->too_many++;
    if (a->warn != NULL && (a->warned_us == 0 || now.boot_us - a->warned_us >= WARN_US)) {
        a->warned_us = now.boot_us;
        a->warn(a->ctx, session);
    }
    return TR_AUTH_TOO_MANY;
}

/* ---- who is it? ---- */

enum tr_auth_verdict tr_auth_check(struct tr_auth *a, struct tr_auth_pass *pass, const char *token,
                                   size_t len, struct tr_now now)
{
    unsigned at = a->count;

    pass->who = &tr_auth_nobody;
    if (len == 0) {
        a->absent++;
        return TR_AUTH_ABSENT;
    }
    if (len <= TR_AUTH_TOKEN_MAX && a->digest.sha256(a->digest.ctx, token, len, pass->digest)) {
        at = tr_token_find(a->digests, a->count, pass->digest);
    }
    if (at == a->count) {
        return count_wrong(a, pass->session, now);
    }
    pass->who = &a->tokens[at];
    return TR_AUTH_FINE;
}

bool tr_auth_again(const struct tr_auth *a, struct tr_auth_pass *pass)
{
    const struct tr_auth_token *was = pass->who;
    unsigned at = a->count;

    if (a->count == 0) {
        pass->who = NULL;
        return true;
    }
    if (was == &tr_auth_nobody) {
        return true;
    }
    if (was != NULL) {
        at = tr_token_find(a->digests, a->count, pass->digest);
    }
    pass->who = at < a->count ? &a->tokens[at] : &tr_auth_nobody;
    return was != NULL && was->is.roles == pass->who->is.roles &&
           strcmp(was->is.topics, pass->who->is.topics) == 0;
}

uint64_t tr_auth_spend(struct tr_auth *a, const struct tr_auth_pass *pass, struct tr_now now)
{
    struct tr_auth_token *t;

    if (pass->who == NULL || pass->who == &tr_auth_nobody || pass->who->is.rate_milli == 0) {
        return 0;
    }
    t = &a->tokens[pass->who - a->tokens];
    if (tr_bucket_take(&t->bucket, 1, now.boot_us) == 1) {
        return 0;
    }
    a->limited++;
    return tr_bucket_next(&t->bucket, now.boot_us) - now.boot_us;
}

void tr_auth_audit(struct tr_auth *a, const struct tr_auth_pass *pass, const char *what,
                   unsigned status)
{
    if (tr_auth_on(a) && a->audit != NULL && pass->who != NULL) {
        a->audit(a->ctx, pass, what, status);
    }
}

/* ---- may they? ---- */

bool tr_auth_role(const struct tr_auth_token *who, unsigned roles)
{
    return who == NULL || roles == TR_ROLE_NONE || (who->is.roles & roles) != 0;
}

bool tr_auth_topic(const struct tr_auth_token *who, const char *name, size_t len)
{
    return who == NULL || tr_token_has_topic(&who->is, name, len);
}

bool tr_auth_narrow(const struct tr_auth_token *who)
{
    return who != NULL && !who->is.all;
}

/* ---- what there is ---- */

void tr_auth_tell(struct tr_json *j, const struct tr_token *t)
{
    char role[TR_TOKEN_ROLES_TEXT];

    tr_token_print_roles(role, t->roles);
    tr_json_name(j, "name");
    tr_json_text(j, t->name);
    tr_json_name(j, "role");
    tr_json_text(j, role);
    tr_json_name(j, "topics");
    tr_json_text(j, t->topics);
    if (t->rate_milli > 0) {
        tr_json_name(j, "rate");
        tr_json_thousandths(j, t->rate_milli);
    }
}
