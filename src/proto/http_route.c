/*
 * Dispatch over the list of routes.
 *
 * A path is compared part by part. Among the routes whose path matches, those with the most exact
 * path count (v1/jobs/cancel before v1/jobs/{id}): of them one may have the method, or it is 405
 * with the methods they have. HEAD is a GET without a body in its reply.
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
#include "proto/json_out.h"

#include <string.h>

const struct tr_route_about tr_route_table[TR_ROUTE_COUNT] = {
#define X(name, method, path, args, needed, role, body, about)                                     \
    [TR_ROUTE_##                                                                                   \
        name] = {TR_HTTP_##method, path, args, needed, TR_ROLE_##role, TR_BODY_##body, about},
    TR_HTTP_ROUTES(X)
#undef X
};

static const char *const method_names[TR_HTTP_METHOD_COUNT] = {
    [TR_HTTP_GET] = "GET",   [TR_HTTP_HEAD_METHOD] = "HEAD", [TR_HTTP_POST] = "POST",
    [TR_HTTP_PUT] = "PUT",   [TR_HTTP_PATCH] = "PATCH",      [TR_HTTP_DELETE] = "DELETE",
    [TR_HTTP_OPTIONS] = "?", [TR_HTTP_OTHER] = "?",
};

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

    methods |= (methods >> TR_HTTP_GET & 1) << TR_HTTP_HEAD_METHOD;
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

int tr_route_find(struct tr_route_match *m, const struct tr_http_request *request,
                  struct tr_http_error *e)
{
    enum tr_http_method method =
        request->method == TR_HTTP_HEAD_METHOD ? TR_HTTP_GET : request->method;
    unsigned best = 0;
    unsigned methods = 0;

    *m = (struct tr_route_match){.route = TR_ROUTE_COUNT};
    for (unsigned i = 0; i < TR_ROUTE_COUNT; i++) {
        unsigned exact = compare(tr_route_table[i].path, request);

        if (exact == 0 || exact < best) {
            continue;
        }
        best = exact;
        methods |= 1U << tr_route_table[i].method;
        if (tr_route_table[i].method == method) {
            m->route = (enum tr_route)i;
            return take_parts(m, request, e);
        }
    }
    return best == 0 ? not_found(e) : bad_method(m, methods, e);
}

uint64_t tr_route_query_args(enum tr_route route, const struct tr_http_request *request)
{
    const struct tr_route_about *r = &tr_route_table[route];
    bool object = r->body == TR_BODY_OBJECT || (r->body == TR_BODY_EITHER && request->length > 0);

    return object ? 0 : r->args;
}

bool tr_route_is_classic(enum tr_route route)
{
    return route >= TR_ROUTE_CLASSIC_PUSH;
}

/* ---- the description ---- */

static void member(struct tr_json *j, const char *name, const char *text)
{
    tr_json_name(j, name);
    tr_json_text(j, text);
}

static void describe_words(struct tr_json *j, const char *words)
{
    tr_json_name(j, "enum");
    tr_json_open(j, '[');
    while (*words != '\0') {
        const char *end = strchr(words, '|');
        size_t len = end != NULL ? (size_t)(end - words) : strlen(words);

        tr_json_string(j, words, len);
        words += len;
        words += *words == '|';
    }
    tr_json_close(j, ']');
}

static void describe_type(struct tr_json *j, const struct tr_arg_about *a)
{
    tr_json_name(j, "schema");
    tr_json_open(j, '{');
    switch (a->kind) {
    case TR_KIND_NUMBER:
        member(j, "type", "integer");
        tr_json_name(j, "minimum");
        tr_json_signed(j, a->from);
        tr_json_name(j, "maximum");
        tr_json_signed(j, a->to);
        break;
    case TR_KIND_BOOL:
        member(j, "type", "boolean");
        break;
    case TR_KIND_RATE:
        member(j, "type", "number");
        break;
    case TR_KIND_JSON:
        break;
    case TR_KIND_CHOICE:
        member(j, "type", "string");
        describe_words(j, a->words);
        break;
    case TR_KIND_LABEL:
        member(j, "type", "string");
        tr_json_name(j, "maxLength");
        tr_json_signed(j, a->to);
        break;
    default:
        member(j, "type", "string");
    }
    tr_json_close(j, '}');
}

/* One parameter of a route. */
static void describe_param(struct tr_json *j, const struct tr_arg_about *a, const char *in,
                           bool needed)
{
    tr_json_open(j, '{');
    member(j, "name", a->called);
    member(j, "in", in);
    member(j, "description", a->about);
    tr_json_name(j, "required");
    tr_json_bool(j, needed);
    describe_type(j, a);
    tr_json_close(j, '}');
}

/* The name in braces that begins here. */
static void describe_part(struct tr_json *j, const char *part)
{
    char called[16];
    struct tr_arg_about a = {.called = called, .kind = TR_KIND_TOPIC, .about = "from the path"};

    tr_text(called, sizeof called, "%.*s", (int)part_len(part) - 2, part + 1);
    describe_param(j, &a, "path", true);
}

static void describe_params(struct tr_json *j, const struct tr_route_about *r)
{
    tr_json_name(j, "parameters");
    tr_json_open(j, '[');
    for (const char *at = strchr(r->path, '{'); at != NULL; at = strchr(at + 1, '{')) {
        describe_part(j, at);
    }
    for (unsigned i = 0; r->body != TR_BODY_OBJECT && i < TR_ARG_COUNT; i++) {
        if ((r->args >> i & 1) != 0 && tr_arg_table[i].kind != TR_KIND_BASE64) {
            describe_param(j, &tr_arg_table[i], "query", (r->needed >> i & 1) != 0);
        }
    }
    tr_json_close(j, ']');
}

static void describe_body(struct tr_json *j, enum tr_route_body body)
{
    static const char *const types[] = {
        [TR_BODY_RAW] = "application/octet-stream",
        [TR_BODY_OBJECT] = "application/json",
        [TR_BODY_EITHER] = "application/json",
        [TR_BODY_MANY] = "application/json",
    };

    if (body == TR_BODY_NONE) {
        return;
    }
    tr_json_name(j, "requestBody");
    tr_json_open(j, '{');
    tr_json_name(j, "content");
    tr_json_open(j, '{');
    tr_json_name(j, types[body]);
    tr_json_raw(j, "{}", 2);
    if (body == TR_BODY_MANY) {
        tr_json_name(j, "application/x-ndjson");
        tr_json_raw(j, "{}", 2);
    }
    tr_json_close(j, '}');
    tr_json_close(j, '}');
}

static void describe_route(struct tr_json *j, const struct tr_route_about *r)
{
    static const char responses[] = "{\"default\":{\"description\":\"a JSON object\"}}";
    static const char *const small[TR_HTTP_METHOD_COUNT] = {
        [TR_HTTP_GET] = "get",     [TR_HTTP_POST] = "post",     [TR_HTTP_PUT] = "put",
        [TR_HTTP_PATCH] = "patch", [TR_HTTP_DELETE] = "delete",
    };

    tr_json_name(j, small[r->method]);
    tr_json_open(j, '{');
    member(j, "summary", r->about);
    describe_params(j, r);
    describe_body(j, r->body);
    tr_json_name(j, "responses");
    tr_json_raw(j, responses, sizeof responses - 1);
    tr_json_close(j, '}');
}

/* True when an earlier row has the same path. */
static bool was_described(unsigned route)
{
    for (unsigned i = 0; i < route; i++) {
        if (strcmp(tr_route_table[i].path, tr_route_table[route].path) == 0) {
            return true;
        }
    }
    return false;
}

static void describe_path(struct tr_json *j, unsigned first)
{
    const char *path = tr_route_table[first].path;
    char full[64];

    tr_text(full, sizeof full, "/%s", path);
    tr_json_name(j, full);
    tr_json_open(j, '{');
    for (unsigned i = first; i < TR_ROUTE_COUNT; i++) {
        if (strcmp(tr_route_table[i].path, path) == 0) {
            describe_route(j, &tr_route_table[i]);
        }
    }
    tr_json_close(j, '}');
}

void tr_route_describe(struct tr_output *out, const char *version)
{
    struct tr_json j;

    tr_json_init(&j, out);
    tr_json_open(&j, '{');
    member(&j, "openapi", "3.0.3");
    tr_json_name(&j, "info");
    tr_json_open(&j, '{');
    member(&j, "title", "tarry");
    member(&j, "version", version);
    tr_json_close(&j, '}');
    tr_json_name(&j, "paths");
    tr_json_open(&j, '{');
    for (unsigned i = 0; i < TR_ROUTE_COUNT; i++) {
        if (!was_described(i)) {
            describe_path(&j, i);
        }
    }
    tr_json_close(&j, '}');
    tr_json_close(&j, '}');
}
