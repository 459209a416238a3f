/*
 * One line of the config for each token:
 *
 *     ci      = produce orders,orders-*  sha256:9f86d0…
 *     worker  = consume+produce *        sha256:60303a…  rate:200
 *
 * A pattern is the name of a topic in which "*" stands for any run of bytes, also for none. Roles
 * add up; an admin has all of them. Words behind the digest may come in any order.
 *
 * Why a plain hash is enough at rest: a token that we make has 256 random bits, so nobody finds it
 * by trying. A slow hash is for passwords that people choose, and would have to be paid for with
 * each request.
 *
 * Finding: all digests are compared in full with the one that came, word by word and without a
 * branch, and the place of the right one is chosen by a mask. The barrier keeps the compiler from
 * seeing that it could stop earlier. So the time tells neither how many bytes were right nor which
 * token it was. (What is compared are digests, of which nobody can choose a prefix; it would not
 * tell much if it did not.)
 */

#include "rules/token.h"

#include "base/err.h"
#include "base/name.h"
#include "base/text.h"
#include "rules/bucket.h"
#include "rules/decimal.h"

#include <string.h>

static const char shape[] = "has to be ROLE PATTERN[,PATTERN] sha256:HEX";

static const struct {
    const char *word;
    unsigned roles;
} roles[] = {
    {"read", TR_ROLE_READ},
    {"produce", TR_ROLE_PRODUCE},
    {"consume", TR_ROLE_CONSUME},
    {"admin", TR_ROLES_ALL},
};

enum { ROLES = sizeof roles / sizeof roles[0] };

struct text {
    const char *at;
    size_t len;
};

static int refuse(const char **why, const char *reason)
{
    *why = reason;
    return TARRY_EINVAL;
}

/* ---- the parts ---- */

bool tr_token_name_ok(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';

        if (!plain && (i == 0 || (c != '-' && c != '.'))) {
            return false;
        }
    }
    return len > 0 && len <= TR_TOKEN_NAME_MAX;
}

/* Cuts off what stands before the first such byte, which goes, too. */
static struct text take_until(struct text *t, char end)
{
    const char *found = t->len > 0 ? memchr(t->at, end, t->len) : NULL;
    struct text part = {t->at, found != NULL ? (size_t)(found - t->at) : t->len};
    size_t gone = part.len + (found != NULL);

    t->at += gone;
    t->len -= gone;
    return part;
}

int tr_token_read_roles(struct tr_token *t, const char *text, size_t len, const char **why)
{
    struct text rest = {text, len};

    t->roles = 0;
    do {
        struct text word = take_until(&rest, '+');
        unsigned i = 0;

        while (i < ROLES && (strlen(roles[i].word) != word.len ||
                             memcmp(roles[i].word, word.at, word.len) != 0)) {
            i++;
        }
        if (i == ROLES) {
            return refuse(why, "has a role that is not known: there are read, produce, consume "
                               "and admin, and several as in produce+consume");
        }
        t->roles |= roles[i].roles;
    } while (rest.len > 0);
    return text[len - 1] == '+' ? refuse(why, "has a role that ends in +") : TARRY_OK;
}

static bool pattern_ok(struct text p)
{
    for (size_t i = 0; i < p.len; i++) {
        if (p.at[i] != '*' && tr_name_span(p.at + i, 1) == 0) {
            return false;
        }
    }
    return p.len > 0 && p.len <= TR_TOPIC_NAME_MAX && p.at[0] != '-';
}

int tr_token_read_topics(struct tr_token *t, const char *text, size_t len, const char **why)
{
    struct text rest = {text, len};

    if (len == 0 || text[len - 1] == ',') {
        return refuse(why, "has an empty pattern");
    }
    if (len > TR_TOKEN_TOPICS_MAX) {
        return refuse(why, "has patterns of more than 500 bytes: use a *, or several tokens");
    }
    t->all = false;
    while (rest.len > 0) {
        struct text pattern = take_until(&rest, ',');

        if (!pattern_ok(pattern)) {
            return refuse(why, "has a pattern that fits no topic: it is a name of a topic, of "
                               "A-Za-z0-9-+/;.$_() without - in front, with * for any bytes");
        }
        t->all |= pattern.len == 1 && pattern.at[0] == '*';
    }
    memcpy(t->topics, text, len);
    t->topics[len] = '\0';
    return TARRY_OK;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c >= 'A' && c <= 'F' ? c | 0x20 : c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_digest(struct tr_token *t, struct text hex, const char **why)
{
    bool ok = hex.len == (size_t)2 * TR_TOKEN_DIGEST;

    for (size_t i = 0; ok && i < TR_TOKEN_DIGEST; i++) {
        int high = hex_value(hex.at[2 * i]);
        int low = hex_value(hex.at[2 * i + 1]);

        ok = high >= 0 && low >= 0;
        t->digest[i] = (uint8_t)(ok ? high << 4 | low : 0);
    }
    return ok ? TARRY_OK : refuse(why, "needs 64 hexadecimal digits behind sha256:");
}

int tr_token_read_rate(struct tr_token *t, const char *text, size_t len, const char **why)
{
    if (!tr_decimal_read(text, len, 3, TR_BUCKET_BURST_MAX, &t->rate_milli) || t->rate_milli == 0) {
        return refuse(why, "has a wrong rate: it is requests per second, 0.001 to 1000000");
    }
    return TARRY_OK;
}

/* ---- the line ---- */

/* The next word, of length 0 at the end. */
static struct text take_word(struct text *t)
{
    struct text word;

    while (t->len > 0 && (t->at[0] == ' ' || t->at[0] == '\t')) {
        t->at++;
        t->len--;
    }
    word = (struct text){t->at, 0};
    while (t->len > 0 && t->at[0] != ' ' && t->at[0] != '\t') {
        t->at++;
        t->len--;
        word.len++;
    }
    return word;
}

static bool begins(struct text word, const char *with, struct text *rest)
{
    size_t len = strlen(with);

    if (word.len < len || memcmp(word.at, with, len) != 0) {
        return false;
    }
    *rest = (struct text){word.at + len, word.len - len};
    return true;
}

/* A word behind the patterns. */
static int read_word(struct tr_token *t, struct text word, bool *has_digest, const char **why)
{
    struct text rest;

    if (begins(word, "sha256:", &rest) && !*has_digest) {
        *has_digest = true;
        return read_digest(t, rest, why);
    }
    if (begins(word, "rate:", &rest) && t->rate_milli == 0) {
        return tr_token_read_rate(t, rest.at, rest.len, why);
    }
    if (begins(word, "tarry_", &rest)) {
        return refuse(why, "has the token itself: write sha256: and its digest instead, as tarry "
                           "token new prints them, and make a new token, as this one was seen");
    }
    return refuse(why, shape);
}

int tr_token_read(struct tr_token *t, const char *name, const char *value, const char **why)
{
    struct text rest = {value, strlen(value)};
    struct text word = take_word(&rest);
    bool has_digest = false;
    int err;

    *t = (struct tr_token){.roles = 0};
    if (!tr_token_name_ok(name, strlen(name))) {
        return refuse(why, "has a name that is not allowed: it is 1 to 64 of A-Za-z0-9_.- without "
                           "- or . in front");
    }
    memcpy(t->name, name, strlen(name));
    if (word.len == 0) {
        return refuse(why, shape);
    }
    err = tr_token_read_roles(t, word.at, word.len, why);
    word = take_word(&rest);
    if (err == TARRY_OK && word.len == 0) {
        return refuse(why, shape);
    }
    if (err == TARRY_OK) {
        err = tr_token_read_topics(t, word.at, word.len, why);
    }
    for (word = take_word(&rest); err == TARRY_OK && word.len > 0; word = take_word(&rest)) {
        err = read_word(t, word, &has_digest, why);
    }
    return err == TARRY_OK && !has_digest ? refuse(why, shape) : err;
}

void tr_token_print_roles(char out[TR_TOKEN_ROLES_TEXT], unsigned has)
{
    out[0] = '\0';
    if ((has & TR_ROLE_ADMIN) != 0) {
        tr_text(out, TR_TOKEN_ROLES_TEXT, "admin");
        return;
    }
    for (unsigned i = 0; i < ROLES; i++) {
        size_t len = strlen(out);

        if (roles[i].roles != TR_ROLES_ALL && (has & roles[i].roles) != 0) {
            tr_text(out + len, TR_TOKEN_ROLES_TEXT - len, "%s%s", len > 0 ? "+" : "",
                    roles[i].word);
        }
    }
}

void tr_token_print(char out[TR_TOKEN_LINE], const struct tr_token *t)
{
    static const char digits[] = "0123456789abcdef";
    char role[TR_TOKEN_ROLES_TEXT];
    char hex[2 * TR_TOKEN_DIGEST + 1] = "";
    char rate[TR_DECIMAL_TEXT];
    size_t len;

    tr_token_print_roles(role, t->roles);
    for (size_t i = 0; i < TR_TOKEN_DIGEST; i++) {
        hex[2 * i] = digits[t->digest[i] >> 4];
        hex[2 * i + 1] = digits[t->digest[i] & 15];
    }
    tr_text(out, TR_TOKEN_LINE, "%s = %s %s sha256:%s", t->name, role, t->topics, hex);
    if (t->rate_milli > 0) {
        len = strlen(out);
        tr_decimal_print(rate, t->rate_milli, 3);
        tr_text(out + len, TR_TOKEN_LINE - len, " rate:%s", rate);
    }
}

/* ---- what it is for ---- */

/*
 * Each "*" first takes nothing; where the rest then does not fit, the last one takes a byte more.
 * Only the last has to be tried again, since what stands between two of them fits best at the first
 * place where it fits at all.
 */
static bool fits(struct text pattern, struct text name)
{
    size_t p = 0;
    size_t n = 0;
    size_t star = SIZE_MAX; /* its place, */
    size_t taken = 0;       /* and where the name goes on behind what it takes */

    while (n < name.len) {
        if (p < pattern.len && pattern.at[p] == '*') {
            star = p++;
            taken = n;
        } else if (p < pattern.len && pattern.at[p] == name.at[n]) {
            p++;
            n++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            n = ++taken;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.at[p] == '*') {
        p++;
    }
    return p == pattern.len;
}

bool tr_token_has_topic(const struct tr_token *t, const char *name, size_t len)
{
    struct text rest = {t->topics, strlen(t->topics)};

    if (t->all) {
        return true;
    }
    while (rest.len > 0) {
        if (fits(take_until(&rest, ','), (struct text){name, len})) {
            return true;
        }
    }
    return false;
}

const char *tr_token_only_topic(const struct tr_token *t)
{
    bool one = strchr(t->topics, ',') == NULL && strchr(t->topics, '*') == NULL;

    return one && t->topics[0] != '\0' ? t->topics : NULL;
}

/* ---- which one it is ---- */

/* From here on the compiler knows nothing about the value. */
static uint64_t hide(uint64_t n)
{
    __asm__("" : "+r"(n));
    return n;
}

unsigned tr_token_find(const uint8_t *digests, unsigned count,
                       const uint8_t digest[TR_TOKEN_DIGEST])
{
    uint64_t found = count;
    uint64_t want[TR_TOKEN_DIGEST / 8];

    memcpy(want, digest, sizeof want);
    for (unsigned i = 0; i < count; i++) {
        uint64_t have[TR_TOKEN_DIGEST / 8];
        uint64_t other = 0;
        uint64_t mask;

        memcpy(have, digests + (size_t)i * TR_TOKEN_DIGEST, sizeof have);
        for (unsigned k = 0; k < TR_TOKEN_DIGEST / 8; k++) {
            other |= have[k] ^ want[k];
        }
        other = hide(other);
        mask = hide(((other | (0 - other)) >> 63) - 1); /* all ones: it is the same */
        found = (found & ~mask) | (i & mask);
    }
    return (unsigned)found;
}
