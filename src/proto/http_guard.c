/*
 * Who may ask.
 *
 * With tokens (proto/auth.h): whoever sends a good one, for what its roles and topics allow. Who
 * has none hears 401 to everything, whether there is such a path or not; but for what everybody
 * may ask. A topic that is named and not allowed is 403, whether it exists or not. A job that is
 * named by its id and is in such a topic is 404, as if it did not exist: ids are given in turn, and
 * an answer that differs would tell how much is going on in the topics of others.
 *
 * Without tokens whoever reaches the port may do everything; so what a browser sends on behalf of a
 * foreign page has to be kept out. A page can make its own name point to 127.0.0.1 and then read
 * our answers as its own: so Host must be an address, localhost or a name that we were told.
 * (Tokens keep it out, too: it does not have one.)
 *
 * And always: a page can send simple requests without reading the answer, so what changes something
 * must not be marked as foreign. A classic route changes things by GET, with which a browser sends
 * no Origin: there a page of the same site but another origin (a neighbour's port) is foreign, too.
 */

#include "base/err.h"
#include "base/text.h"
#include "proto/http_inner.h"

#include <string.h>

static char small(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

static bool same(struct tr_http_text a, struct tr_http_text b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (small(a.at[i]) != small(b.at[i])) {
            return false;
        }
    }
    return true;
}

/* Only such bytes, and at least one. */
static bool only(struct tr_http_text text, const char *bytes)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\0' || strchr(bytes, text.at[i]) == NULL) {
            return false;
        }
    }
    return text.len > 0;
}

/* Four numbers up to 255 with dots between them. */
static bool is_ip4(struct tr_http_text text)
{
    unsigned parts = 0;
    unsigned number = 0;
    unsigned digits = 0;

    for (size_t i = 0; i <= text.len; i++) {
        char c = (char)(i < text.len ? text.at[i] : '.');

        if (c == '.') {
            if (digits == 0 || number > 255) {
                return false;
            }
            parts++;
            number = 0;
            digits = 0;
        } else if (c >= '0' && c <= '9' && digits < 3) {
            number = number * 10 + (unsigned)(c - '0');
            digits++;
        } else {
            return false;
        }
    }
    return parts == 4;
}

static bool is_named(const char *names, struct tr_http_text host)
{
    while (names != NULL && *names != '\0') {
        const char *comma = strchr(names, ',');
        struct tr_http_text name = {names, comma != NULL ? (size_t)(comma - names) : strlen(names)};

        names += name.len;
        names += *names == ',';
        while (name.len > 0 && name.at[0] == ' ') {
            name.at++;
            name.len--;
        }
        while (name.len > 0 && name.at[name.len - 1] == ' ') {
            name.len--;
        }
        if (name.len > 0 && same(name, host)) {
            return true;
        }
    }
    return false;
}

/* "name:port" without the port; an address of IPv6 without its brackets, too. */
static bool is_ours(const struct tr_hs_port *port, struct tr_http_text host)
{
    static const struct tr_http_text localhost = {"localhost", 9};
    const char *end = host.len > 0 && host.at[0] == '[' ? memchr(host.at, ']', host.len) : NULL;
    struct tr_http_text after;
    bool ip6 = end != NULL;

    if (end == NULL) {
        const char *colon = host.len > 0 ? memchr(host.at, ':', host.len) : NULL;

        end = colon != NULL ? colon : host.at + host.len;
    } else {
        end++;
    }
    after = (struct tr_http_text){end, host.len - (size_t)(end - host.at)};
    host.len -= after.len;
    if (after.len > 0) { /* the colon, and perhaps a port */
        after.at++;
        after.len--;
        if (end[0] != ':' || (after.len > 0 && !only(after, "0123456789"))) {
            return false;
        }
    }
    if (ip6) {
        return only((struct tr_http_text){host.at + 1, host.len - 2}, "0123456789abcdefABCDEF:.");
    }
    return is_ip4(host) || same(host, localhost) || is_named(port->hosts, host);
}

int tr_hs_guard_host(struct tr_hs *s)
{
    struct tr_http_text host = s->parse.request.headers[TR_HTTP_HOST];

    if (tr_auth_on(s->port->auth) || host.at == NULL || /* only HTTP/1.0 has none */
        is_ours(s->port, host)) {
        return TARRY_OK;
    }
    s->error = (struct tr_http_error){
        .status = 421,
        .code = "wrong_host",
        .message = "Host is not a name of this server: use its address, or add the name to "
                   "http.hosts"};
    return TARRY_EINVAL;
}

/* ---- tokens ---- */

struct tr_http_error tr_hs_unauthorized(void)
{
    return (struct tr_http_error){.status = 401,
                                  .code = "unauthorized",
                                  .message = "a token is needed: send Authorization: Bearer TOKEN"};
}

/* What follows "Bearer "; of length 0: nothing does. */
static struct tr_http_text bearer(struct tr_http_text header)
{
    static const char scheme[] = "bearer";
    size_t len = sizeof scheme - 1;

    if (header.len <= len || header.at[len] != ' ' ||
        !tr_http_same((struct tr_http_text){header.at, len}, scheme)) {
        return (struct tr_http_text){"", 0};
    }
    while (len < header.len && header.at[len] == ' ') {
        len++;
    }
    return (struct tr_http_text){header.at + len, header.len - len};
}

/* A good token may be used so often, and no more. */
static int guard_rate(struct tr_hs *s)
{
    uint64_t wait_us = tr_auth_spend(s->port->auth, &s->pass, s->now);

    if (wait_us == 0) {
        return TARRY_OK;
    }
    s->error = (struct tr_http_error){.status = 429,
                                      .code = "rate_limited",
                                      .message = "the token is used more often than its rate "
                                                 "allows: try again later",
                                      .retry_s = (unsigned)((wait_us + 999999) / 1000000)};
    return TARRY_EINVAL;
}

int tr_hs_guard_token(struct tr_hs *s)
{
    struct tr_http_text token = bearer(s->parse.request.headers[TR_HTTP_AUTHORIZATION]);

    s->pass.who = NULL;
    if (!tr_auth_on(s->port->auth)) {
        return TARRY_OK;
    }
    switch (tr_auth_check(s->port->auth, &s->pass, token.at, token.len, s->now)) {
    case TR_AUTH_FINE:
        return guard_rate(s);
    case TR_AUTH_ABSENT:
        s->error = tr_hs_unauthorized();
        break;
    case TR_AUTH_WRONG:
        s->error = tr_hs_unauthorized();
        s->error.message = "the token is not known here";
        break;
    case TR_AUTH_TOO_MANY:
        s->error = (struct tr_http_error){.status = 429,
                                          .code = "too_many_failures",
                                          .message = "the token is not known here, and too many "
                                                     "like that came from your address",
                                          .retry_s = 1};
        break;
    }
    return TARRY_EINVAL;
}

bool tr_hs_may(const struct tr_hs *s, const char *name, size_t len)
{
    return tr_auth_topic(s->pass.who, name, len);
}

static int deny(struct tr_hs *s, struct tr_http_error e)
{
    s->port->auth->denied++;
    s->error = e;
    return TARRY_EINVAL;
}

static struct tr_http_error forbidden(const char *message, const char *field)
{
    return (struct tr_http_error){
        .status = 403, .code = "forbidden", .message = message, .field = field};
}

struct tr_http_error tr_hs_foreign_topic(void)
{
    return forbidden("the token is not for this topic", "topic");
}

static const char *needs(enum tr_role role)
{
    switch (role) {
    case TR_ROLE_READ:
        return "this needs a token with the role read, or admin";
    case TR_ROLE_PRODUCE:
        return "this needs a token with the role produce, or admin";
    case TR_ROLE_CONSUME:
        return "this needs a token with the role consume, or admin";
    default:
        return "this needs a token with the role admin";
    }
}

int tr_hs_guard_role(struct tr_hs *s)
{
    struct tr_http_text topic = s->match.topic;
    enum tr_role role = tr_route_table[s->match.route].role;

    if (!tr_auth_role(s->pass.who, role)) {
        return deny(s, forbidden(needs(role), NULL));
    }
    if (topic.at != NULL && !tr_hs_may(s, topic.at, topic.len)) {
        return deny(s, tr_hs_foreign_topic());
    }
    if (tr_auth_narrow(s->pass.who) && tr_route_is_whole(s->match.route)) {
        return deny(s, forbidden("this concerns all topics: it needs a token for *", NULL));
    }
    return TARRY_OK;
}

bool tr_hs_topic_arg(struct tr_hs *s, struct tr_http_text *name)
{
    bool given = tr_hs_given(s, TR_ARG_TOPIC);
    const char *only = tr_auth_narrow(s->pass.who) ? tr_token_only_topic(&s->pass.who->is) : NULL;

    *name = given ? s->args.values[TR_ARG_TOPIC].text : (struct tr_http_text){NULL, 0};
    if (given ? tr_hs_may(s, name->at, name->len) : !tr_auth_narrow(s->pass.who)) {
        return true;
    }
    if (!given && only != NULL) {
        *name = (struct tr_http_text){only, strlen(only)};
        return true;
    }
    (void)deny(s, given
                      ? tr_hs_foreign_topic()
                      : forbidden("the token is not for all topics: name one of its own", "topic"));
    tr_hs_refuse(s, &s->error);
    return false;
}

/* ---- what the operator is told ---- */

enum { AUDIT_TEXT = 512 };

/* What the client named in the place of these braces. */
static void tell_part(const struct tr_hs *s, char kind, char *out, size_t room)
{
    struct tr_http_text part = kind == 't'   ? s->match.topic
                               : kind == 'k' ? s->match.key
                                             : s->match.name;

    if (kind == 'i') {
        tr_text(out, room, "%llu", (unsigned long long)s->match.id);
    } else {
        tr_text(out, room, "%.*s", (int)part.len, part.at);
    }
}

static void tell_path(const struct tr_hs *s, char *out, size_t room)
{
    const char *path = tr_route_table[s->match.route].path;

    while (*path != '\0') {
        const char *brace = strchr(path, '{');
        size_t used = strlen(out);

        if (brace == path) {
            tell_part(s, path[1], out + used, room - used);
            path = strchr(path, '}') + 1;
        } else {
            size_t len = brace != NULL ? (size_t)(brace - path) : strlen(path);

            tr_text(out + used, room - used, "%.*s", (int)len, path);
            path += len;
        }
    }
}

void tr_hs_audit(struct tr_hs *s)
{
    const struct tr_http_request *r = &s->parse.request;
    char what[AUDIT_TEXT];

    if (s->pass.who == NULL || !s->begun || s->refused ||
        tr_route_table[s->match.route].role != TR_ROLE_ADMIN) {
        return;
    }
    tr_text(what, sizeof what, "%s /", tr_http_method_name(r->method));
    tell_path(s, what, sizeof what);
    for (unsigned i = 0; i < r->param_count; i++) {
        size_t used = strlen(what);
        const struct tr_http_param *p = &r->params[i];

        tr_text(what + used, sizeof what - used, "%c%.*s=%.*s", i == 0 ? '?' : '&',
                (int)p->name.len, p->name.at, (int)p->value.len, p->value.at);
    }
    tr_auth_audit(s->port->auth, &s->pass, what, s->status);
}

/* ---- browsers ---- */

/* https://our-host; without TLS http://our-host, too: who speaks it may be in front of us. */
static bool is_own_origin(struct tr_http_text origin, struct tr_http_text host, bool secure)
{
    static const struct tr_http_text schemes[] = {{"https://", 8}, {"http://", 7}};
    size_t count = secure ? 1 : 2;

    for (size_t i = 0; i < count; i++) {
        size_t len = schemes[i].len;

        if (origin.len > len && same((struct tr_http_text){origin.at, len}, schemes[i]) &&
            same((struct tr_http_text){origin.at + len, origin.len - len}, host)) {
            return true;
        }
    }
    return false;
}

int tr_hs_guard_origin(struct tr_hs *s)
{
    const struct tr_http_request *r = &s->parse.request;
    const struct tr_http_text *h = r->headers;
    bool gets = r->method == TR_HTTP_GET || r->method == TR_HTTP_HEAD_METHOD;
    bool looks = gets && !tr_route_is_classic(s->match.route);
    bool foreign = h[TR_HTTP_ORIGIN].at != NULL
                       ? !is_own_origin(h[TR_HTTP_ORIGIN], h[TR_HTTP_HOST], s->port->secure)
                       : gets && tr_http_same(h[TR_HTTP_SEC_FETCH_SITE], "same-site");

    if (looks || (!foreign && !tr_http_same(h[TR_HTTP_SEC_FETCH_SITE], "cross-site"))) {
        return TARRY_OK;
    }
    s->error = (struct tr_http_error){
        .status = 403,
        .code = "foreign",
        .message = "a browser sent this for a page of another origin: that is not allowed"};
    return TARRY_EINVAL;
}
