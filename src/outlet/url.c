/*
 * From left to right, by the first delimiter that ends a part:
 *
 *     scheme "://" [ user [ ":" password ] "@" ] host [ ":" port ] [ "/" path ]
 *
 * The user part ends at the last "@" before the path, as passwords with a bare "@" are common. An
 * IPv6 address stands in brackets. A query or a fragment is refused, as nothing here has a use for
 * them and a setting that does nothing is worse than an error.
 */

#include "outlet/url.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

enum { DATABASE_MAX = 1000000 };

struct span {
    const char *at;
    size_t len;
};

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* False: bad percent sign, NUL, or too long. */
static bool decode(char out[TR_URL_TEXT], struct span from)
{
    size_t len = 0;

    for (size_t i = 0; i < from.len; i++) {
        char c = from.at[i];

        if (c == '%') {
            int high = i + 2 < from.len ? digit_of(from.at[i + 1]) : -1;
            int low = i + 2 < from.len ? digit_of(from.at[i + 2]) : -1;

            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || len + 1 >= TR_URL_TEXT) {
            return false;
        }
        out[len++] = c;
    }
    out[len] = '\0';
    return true;
}

static size_t find(struct span in, char what)
{
    const char *at = in.len > 0 ? memchr(in.at, what, in.len) : NULL;

    return at != NULL ? (size_t)(at - in.at) : in.len;
}

static struct span cut(struct span from, size_t begin, size_t end)
{
    return (struct span){from.at + begin, end - begin};
}

static bool read_user(struct span from, struct tr_url *url)
{
    size_t colon = find(from, ':');

    url->has_user = true;
    url->has_password = colon < from.len;
    return decode(url->user, cut(from, 0, colon)) &&
           (!url->has_password || decode(url->password, cut(from, colon + 1, from.len)));
}

static bool read_port(struct span from, struct tr_url *url)
{
    unsigned port = 0;

    if (from.len == 0 || from.len > 5) {
        return false;
    }
    for (size_t i = 0; i < from.len; i++) {
        if (from.at[i] < '0' || from.at[i] > '9') {
            return false;
        }
        port = port * 10 + (unsigned)(from.at[i] - '0');
    }
    return port >= 1 && port <= 65535 && decode(url->port, from);
}

static bool read_host(struct span from, struct tr_url *url)
{
    struct span host = from;
    size_t end = find(from, ':');

    if (from.len > 0 && from.at[0] == '[') {
        size_t close = find(from, ']');

        if (close == from.len || (close + 1 < from.len && from.at[close + 1] != ':')) {
            return false;
        }
        host = cut(from, 1, close);
        end = close + 1;
    } else {
        host.len = end;
    }
    return host.len > 0 && decode(url->host, host) &&
           (end >= from.len || read_port(cut(from, end + 1, from.len), url));
}

int tr_url_read(const char *text, size_t len, struct tr_url *url)
{
    struct span all = {text, len};
    struct span rest;
    size_t end;
    size_t at;

    *url = (struct tr_url){0};
    end = find(all, ':');
    if (end == 0 || end + 3 > len || memcmp(text + end, "://", 3) != 0 ||
        !decode(url->scheme, cut(all, 0, end))) {
        return TARRY_EINVAL;
    }
    rest = cut(all, end + 3, len);
    if (find(rest, '?') < rest.len || find(rest, '#') < rest.len) {
        return TARRY_EINVAL;
    }
    end = find(rest, '/');
    url->has_path = end < rest.len;
    if (url->has_path && !decode(url->path, cut(rest, end + 1, rest.len))) {
        return TARRY_EINVAL;
    }
    rest.len = end;
    for (at = rest.len; at > 0 && rest.at[at - 1] != '@'; at--) {
    }
    if (at > 0 && !read_user(cut(rest, 0, at - 1), url)) {
        return TARRY_EINVAL;
    }
    return read_host(cut(rest, at, rest.len), url) ? TARRY_OK : TARRY_EINVAL;
}

static bool is_database(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    return *text >= '0' && *text <= '9' && *end == '\0' && n <= DATABASE_MAX;
}

const char *tr_url_of(const struct tr_deliver *d, struct tr_url *url)
{
    struct tr_deliver_text text = d->texts[TR_DELIVER_URL];

    if (tr_url_read(text.at, text.len, url) != TARRY_OK) {
        return "has to be scheme://user:password@host:port/path, with %XX for special characters, "
               "and without a query";
    }
    if (url->has_user && !url->has_password) {
        return "has a user without a password: give both, user:password@, or none";
    }
    if (d->type == TR_DELIVER_REDIS && url->path[0] != '\0' && !is_database(url->path)) {
        return "has to end with the number of a database, or without a path";
    }
    return NULL;
}
