/*
 * Dispatch over the list of routes.
 *
 * A path is compared part by part. Among the routes whose path matches, those with the most exact
 * path count (v1/jobs/cancel before v1/jobs/{id}): of them one may have the method, or it is 405
 * with the methods they have. HEAD is a GET without a body in its reply; but not of the classic
 * routes, whose GETs take, finish and delete jobs.
 *
 * Invariant: of two paths that one request can match, the more exact one stands first in the list.
 * It follows that the first row with the method is the right one, unless a more exact path was met
 * before it; so the rows at the top, which are asked most, are found at once.
 *
 * What stands in braces is checked only when the route is found, so that a bad name is a bad
 * request, and not an unknown path.
 */

#include "proto/http_route.h"

#include "base/err.h"
#include "base/name.h"
#include "base/text.h"

#include <string.h>

const struct tr_route_about tr_route_table[TR_ROUTE_COUNT] = {
#define S(status) (1U << TR_STATUS_##status)
#define X(name, method, path, args, needed, role, body, statuses, about)                           \
    [TR_ROUTE_##name] = {TR_HTTP_##method,                                                         \
                         path,                                                                     \
                         args,                                                                     \
                         needed,                                                                   \
                         TR_ROLE_##role,                                                           \
                         TR_BODY_##body,                                                           \
                         (statuses) | S(400) | (TR_BODY_##body > TR_BODY_RAW ? S(415) : 0),        \
                         about},
    TR_HTTP_ROUTES(X)
#undef X
#undef S
};

static const char *const method_names[TR_HTTP_METHOD_COUNT] = {
    [TR_HTTP_GET] = "GET",   [TR_HTTP_HEAD_METHOD] = "HEAD", [TR_HTTP_POST] = "POST",
    [TR_HTTP_PUT] = "PUT",   [TR_HTTP_PATCH] = "PATCH",      [TR_HTTP_DELETE] = "DELETE",
    [TR_HTTP_OPTIONS] = "?", [TR_HTTP_OTHER] = "?",
};

const char *tr_http_method_name(enum tr_http_method method)
{
    return method_names[method];
}

/* ---- paths ---- */

/* The part of a path that begins here, without what follows. */
static size_t part_len(const char *path)
{
    const char *end = strchr(path, '/');

    return end != NULL ? (size_t)(end - path) : strlen(path);
}

/*
 * 0: the path is another. Else how exact it is: a bit for each part, the first one highest, set
 * where it is not in braces; and the lowest bit, so that it is never 0.
 */
static unsigned compare(const char *path, const struct tr_http_request *r)
{
    unsigned exact = 1;
    unsigned parts = 0;

    for (; *path != '\0'; parts++) {
        size_t len = part_len(path);
        const struct tr_http_text *segment = &r->segments[parts];

        if (parts == r->segment_count) {
            return 0;
        }
        if (path[0] != '{') {
            if (segment->len != len || memcmp(segment->at, path, len) != 0) {
                return 0;
            }
            exact |= 1U << (TR_ROUTE_SEGMENTS_MAX + 1 - parts);
        }
        path += len;
        path += *path == '/';
    }
    return parts == r->segment_count ? exact : 0;
}

static int not_found(struct tr_http_error *e)
{
    *e = (struct tr_http_error){
        .status = 404,
        .code = "no_route",
        .message = "there is nothing under this path: /openapi.json lists what there is",
    };
    return TARRY_ENOTFOUND;
}

static int bad_method(struct tr_route_match *m, unsigned methods, struct tr_http_error *e)
{
    size_t used = 0;

    m->allow[0] = '\0';
    for (unsigned i = 0; i < TR_HTTP_METHOD_COUNT; i++) {
        if ((methods >> i & 1) != 0) {
            tr_text(m->allow + used, sizeof m->allow - used, "%s%s", used > 0 ? ", " : "",
                    method_names[i]);
            used = strlen(m->allow);
        }
    }
    *e = (struct tr_http_error){
        .status = 405,
        .code = "method_not_allowed",
        .message = "this path has other methods: see the header Allow",
        .allow = m->allow,
    };
    return TARRY_EINVAL;
}

/* ---- what stands in braces ---- */

static int bad_part(const char *field, const char *message, struct tr_http_error *e)
{
    *e = (struct tr_http_error){
        .status = 400, .code = "bad_request", .message = message, .field = field};
    return TARRY_EINVAL;
}

static int take_part(struct tr_route_match *m, const char *part, struct tr_http_text text,
                     struct tr_http_error *e)
{
    switch (part[1]) {
    case 't':
        m->topic = text;
        return tr_name_ok(text.at, text.len)
                   ? TARRY_OK
                   : bad_part("topic",
                              "topic is no name of a topic: 1 to 200 of A-Za-z0-9-+/;.$_() without "
                              "- in front",
                              e);
    case 'k':
        m->key = text;
        return tr_label_ok(text.at, text.len, (size_t)tr_arg_table[TR_ARG_KEY].to)
                   ? TARRY_OK
                   : bad_part("key",
                              "key is no key: 1 to 255 bytes of UTF-8 without control "
                              "characters",
                              e);
    case 'n':
        m->name = text;
        return tr_name_ok(text.at, text.len)
                   ? TARRY_OK
                   : bad_part("name",
                              "name is no name: 1 to 200 of A-Za-z0-9-+/;.$_() without - "
                              "in front",
                              e);
    default:
        return tr_id_read(text.at, text.len, &m->id)
                   ? TARRY_OK
                   : bad_part("id", "id is no number of a job", e);
    }
}

static int take_parts(struct tr_route_match *m, const struct tr_http_request *r,
                      struct tr_http_error *e)
{
    const char *path = tr_route_table[m->route].path;
    int err = TARRY_OK;

    for (unsigned i = 0; err == TARRY_OK && i < r->segment_count; i++) {
        if (path[0] == '{') {
            err = take_part(m, path, r->segments[i], e);
        }
        path += part_len(path);
        path += *path == '/';
    }
    return err;
}

/* By which methods it is asked for. */
static unsigned methods_of(enum tr_route route)
{
    unsigned method = 1U << tr_route_table[route].method;
    bool harmless = method == 1U << TR_HTTP_GET && !tr_route_is_classic(route);

    return harmless ? method | 1U << TR_HTTP_HEAD_METHOD : method;
}

int tr_route_find(struct tr_route_match *m, const struct tr_http_request *request,
                  struct tr_http_error *e)
{
    unsigned best = 0;
    unsigned methods = 0;

    *m = (struct tr_route_match){.route = TR_ROUTE_COUNT};
    for (unsigned i = 0; i < TR_ROUTE_COUNT; i++) {
        unsigned exact = compare(tr_route_table[i].path, request);

        if (exact == 0 || exact < best) {
            continue;
        }
        best = exact;
        methods |= methods_of((enum tr_route)i);
        m->classic = tr_route_is_classic((enum tr_route)i);
        if ((methods_of((enum tr_route)i) >> request->method & 1) != 0) {
            m->route = (enum tr_route)i;
            return take_parts(m, request, e);
        }
    }
    return best == 0 ? not_found(e) : bad_method(m, methods, e);
}

uint64_t tr_route_query_args(enum tr_route route, const struct tr_http_request *request)
{
    const struct tr_route_about *r = &tr_route_table[route];
    bool known = request->length != TR_HTTP_LENGTH_UNKNOWN; /* chunked may turn out to be empty */
    bool object =
        r->body == TR_BODY_OBJECT || (r->body == TR_BODY_EITHER && known && request->length > 0);

    return object ? 0 : r->args;
}

uint64_t tr_route_body_args(enum tr_route route, uint64_t *needed)
{
    switch (route) {
    case TR_ROUTE_PUSH_MANY:
        *needed = TR_ARG_BIT(TOPIC);
        return TR_ARGS_MANY_JOBS;
    case TR_ROUTE_ACK_MANY:
        *needed = TR_ARG_BIT(ID) | TR_ARG_BIT(LEASE);
        return *needed;
    default:
        *needed = tr_route_table[route].needed;
        return tr_route_table[route].args;
    }
}

bool tr_route_is_whole(enum tr_route route)
{
    switch (route) {
    case TR_ROUTE_ACK: /* by id */
    case TR_ROUTE_RELEASE:
    case TR_ROUTE_BURY:
    case TR_ROUTE_TOUCH:
    case TR_ROUTE_ACK_MANY:
    case TR_ROUTE_SHOW:
    case TR_ROUTE_CANCEL:
    case TR_ROUTE_EDIT:
    case TR_ROUTE_FIRE:
    case TR_ROUTE_KICK:
    case TR_ROUTE_JOB_HISTORY:
    case TR_ROUTE_RESTORE_JOB:
    case TR_ROUTE_CLASSIC_DELETE:
    case TR_ROUTE_CLASSIC_RESTORE_JOB:
    case TR_ROUTE_RESERVE_MANY: /* with names of topics in the request */
    case TR_ROUTE_PUSH_MANY:
    case TR_ROUTE_CLASSIC_PUSH:
    case TR_ROUTE_LIST: /* the same, or of all: they look */
    case TR_ROUTE_CANCEL_MANY:
    case TR_ROUTE_SHIFT_MANY:
    case TR_ROUTE_KICK_MANY:
    case TR_ROUTE_FORECAST:
    case TR_ROUTE_TOPICS:
    case TR_ROUTE_CLOCK: /* of no topic */
    case TR_ROUTE_OPENAPI:
    case TR_ROUTE_HEALTHZ:
    case TR_ROUTE_READYZ:
    case TR_ROUTE_WHOAMI:
    case TR_ROUTE_DASHBOARD:
    case TR_ROUTE_DASHBOARD_FILE:
        return false;
    default:
        return strncmp(tr_route_table[route].path, "v1/topics/{", 11) != 0 &&
               route != TR_ROUTE_CLASSIC_GET;
    }
}

bool tr_route_is_classic(enum tr_route route)
{
    return route >= TR_ROUTE_CLASSIC_PUSH;
}
