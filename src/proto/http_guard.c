/*
 * Who may ask. Without tokens whoever reaches the port may do everything; so what a browser sends
 * on behalf of a foreign page has to be kept out.
 *
 * A page can make its own name point to 127.0.0.1 and then read our answers as its own: so Host
 * must be an address, localhost or a name that we were told. And it can send simple requests
 * without reading the answer: so what changes something must not be marked as foreign.
 */

#include "base/err.h"
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

    if (host.at == NULL || is_ours(s->port, host)) { /* only HTTP/1.0 has none */
        return TARRY_OK;
    }
    s->error = (struct tr_http_error){
        .status = 421,
        .code = "wrong_host",
        .message = "Host is not a name of this server: use its address, or add the name to "
                   "http.hosts"};
    return TARRY_EINVAL;
}

/* http://our-host or https://our-host */
static bool is_own_origin(struct tr_http_text origin, struct tr_http_text host)
{
    static const struct tr_http_text schemes[] = {{"http://", 7}, {"https://", 8}};

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
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
    bool looks = (r->method == TR_HTTP_GET || r->method == TR_HTTP_HEAD_METHOD) &&
                 !tr_route_is_classic(s->match.route);

    if (looks ||
        (!tr_http_same(h[TR_HTTP_SEC_FETCH_SITE], "cross-site") &&
         (h[TR_HTTP_ORIGIN].at == NULL || is_own_origin(h[TR_HTTP_ORIGIN], h[TR_HTTP_HOST])))) {
        return TARRY_OK;
    }
    s->error = (struct tr_http_error){
        .status = 403,
        .code = "foreign",
        .message = "a browser sent this for a page of another origin: that is not allowed"};
    return TARRY_EINVAL;
}
