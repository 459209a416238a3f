/*
 * The dashboard: files from web/ that were put into the binary. "/" is index.html, and what it
 * needs is below /ui/; it names everything by relative paths, so that a proxy may put all of it
 * under a prefix. Nobody has to show a token for these files: they tell nothing, and ask for
 * everything by the same routes, with the same tokens, as any other client.
 *
 * A browser is told to ask each time whether a file is still the same (ETag), so a new version of
 * the server is never seen with scripts of the old one.
 *
 * What the files may do in a browser is as little as they need: scripts, styles and requests of
 * their own origin, no frames around them, nothing inline, nothing from elsewhere. So a body or a
 * name that looks like markup would do nothing even if it were shown as such, which it is not.
 */

#include "proto/http_inner.h"

#include <string.h>

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static const struct {
    const char *name;
    const char *value;
} headers[] = {
    {"Content-Security-Policy", policy},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-cache"},
};

static const struct tr_http_file *find(const struct tr_hs *s, const char *name, size_t len)
{
    const struct tr_http_file *f = s->port->files;

    while (f != NULL && f->name != NULL &&
           (strlen(f->name) != len || memcmp(f->name, name, len) != 0)) {
        f++;
    }
    return f != NULL && f->name != NULL ? f : NULL;
}

/* Does the client have it already? Its header is a list of tags, perhaps weak ones, or a star. */
static bool has(const struct tr_hs *s, const struct tr_http_file *f)
{
    struct tr_http_text tags = s->parse.request.headers[TR_HTTP_IF_NONE_MATCH];
    size_t len = strlen(f->etag);

    if (tr_http_same(tags, "*")) {
        return true;
    }
    for (size_t at = 0; tags.at != NULL && at + len <= tags.len; at++) {
        if (memcmp(tags.at + at, f->etag, len) == 0) { /* with its quotes, so it is a whole one */
            return true;
        }
    }
    return false;
}

static void tell(struct tr_hs *s, const char *name, size_t len)
{
    const struct tr_http_file *f = find(s, name, len);
    struct tr_http_reply r;
    bool same;

    if (f == NULL) {
        tr_hs_refuse(s, &(struct tr_http_error){.status = 404,
                                                .code = "no_file",
                                                .message = "the dashboard has no such file"});
        return;
    }
    same = has(s, f);
    tr_hs_open_head(s, &r, same ? 304 : 200);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        tr_http_reply_header(&r, headers[i].name, headers[i].value, strlen(headers[i].value));
    }
    tr_http_reply_header(&r, "ETag", f->etag, strlen(f->etag));
    if (same) {
        tr_http_reply_none(&r);
    } else {
        tr_http_reply_body(&r, f->type);
        tr_output_add(r.out, f->bytes, f->len);
        tr_http_reply_close(&r);
        s->cost += (unsigned)(f->len / 1024);
    }
    s->answered = true;
}

void tr_hs_dashboard(struct tr_hs *s)
{
    static const char index[] = "index.html";

    tell(s, index, sizeof index - 1);
}

void tr_hs_dashboard_file(struct tr_hs *s)
{
    tell(s, s->match.name.at, s->match.name.len);
}
