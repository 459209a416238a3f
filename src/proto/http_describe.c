/*
 * The description of the API: OpenAPI 3.1, made from the lists of routes and arguments, so that it
 * cannot tell of what is not there. Statuses are those that a route gives for reasons of its own;
 * what any request may get (a Host that is not ours, a head that is too large, a full disk) is told
 * once, as `default`.
 */

#include "base/text.h"
#include "proto/http_route.h"
#include "proto/json_out.h"

#include <string.h>

static void member(struct tr_json *j, const char *name, const char *text)
{
    tr_json_name(j, name);
    tr_json_text(j, text);
}

static void raw(struct tr_json *j, const char *name, const char *json)
{
    tr_json_name(j, name);
    tr_json_raw(j, json, strlen(json));
}

/* ---- arguments ---- */

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

static void describe_number(struct tr_json *j, const char *name, int64_t number)
{
    tr_json_name(j, name);
    tr_json_signed(j, number);
}

/* Members of a schema. json: of an object, where more may be written than in a query. */
static void describe_type(struct tr_json *j, const struct tr_arg_about *a, bool json)
{
    switch (a->kind) {
    case TR_KIND_NUMBER:
        member(j, "type", "integer");
        describe_number(j, "minimum", a->from);
        describe_number(j, "maximum", a->to);
        break;
    case TR_KIND_BOOL:
        member(j, "type", "boolean");
        break;
    case TR_KIND_RATE:
        member(j, "type", "number");
        break;
    case TR_KIND_JSON:
        break;
    case TR_KIND_BODY:
        if (!json) {
            member(j, "type", "string");
        }
        break;
    case TR_KIND_CHOICE:
        member(j, "type", "string");
        describe_words(j, a->words);
        break;
    case TR_KIND_LABEL:
        member(j, "type", "string");
        describe_number(j, "maxLength", a->to);
        break;
    case TR_KIND_DURATION:
    case TR_KIND_MOVE:
    case TR_KIND_MOMENT:
    case TR_KIND_ID:
        raw(j, "type", json ? "[\"string\",\"number\"]" : "\"string\"");
        break;
    default:
        member(j, "type", "string");
    }
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
    tr_json_name(j, "schema");
    tr_json_open(j, '{');
    describe_type(j, a, false);
    tr_json_close(j, '}');
    tr_json_close(j, '}');
}

/* The name in braces that begins here. */
static void describe_part(struct tr_json *j, const char *part)
{
    const char *end = strchr(part, '}');
    char called[16];
    struct tr_arg_about a = {.called = called, .kind = TR_KIND_TOPIC, .about = "from the path"};

    tr_text(called, sizeof called, "%.*s", (int)(end - part) - 1, part + 1);
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
        if ((r->args >> i & 1) != 0) {
            describe_param(j, &tr_arg_table[i], "query", (r->needed >> i & 1) != 0);
        }
    }
    tr_json_close(j, ']');
}

/* ---- bodies ---- */

static void describe_object(struct tr_json *j, uint64_t args, uint64_t needed)
{
    tr_json_open(j, '{');
    member(j, "type", "object");
    raw(j, "additionalProperties", "false");
    if (needed != 0) {
        tr_json_name(j, "required");
        tr_json_open(j, '[');
        for (unsigned i = 0; i < TR_ARG_COUNT; i++) {
            if ((needed >> i & 1) != 0) {
                tr_json_text(j, tr_arg_table[i].called);
            }
        }
        tr_json_close(j, ']');
    }
    tr_json_name(j, "properties");
    tr_json_open(j, '{');
    for (unsigned i = 0; i < TR_ARG_COUNT; i++) {
        if ((args >> i & 1) != 0) {
            tr_json_name(j, tr_arg_table[i].called);
            tr_json_open(j, '{');
            describe_type(j, &tr_arg_table[i], true);
            member(j, "description", tr_arg_table[i].about);
            tr_json_close(j, '}');
        }
    }
    tr_json_close(j, '}');
    tr_json_close(j, '}');
}

/* One way to send it. */
static void describe_content(struct tr_json *j, const char *type, enum tr_route route)
{
    const struct tr_route_about *r = &tr_route_table[route];
    bool array = r->body == TR_BODY_MANY && strcmp(type, "application/json") == 0;
    uint64_t needed;
    uint64_t args = tr_route_body_args(route, &needed);

    if (args == 0) { /* with names of its own */
        raw(j, type, "{\"schema\":{\"type\":\"object\"}}");
        return;
    }
    tr_json_name(j, type);
    tr_json_open(j, '{');
    tr_json_name(j, "schema");
    if (array) {
        tr_json_open(j, '{');
        member(j, "type", "array");
        tr_json_name(j, "items");
    }
    describe_object(j, args, needed);
    if (array) {
        tr_json_close(j, '}');
    }
    tr_json_close(j, '}');
}

static void describe_body(struct tr_json *j, enum tr_route route)
{
    enum tr_route_body body = tr_route_table[route].body;

    if (body == TR_BODY_NONE) {
        return;
    }
    tr_json_name(j, "requestBody");
    tr_json_open(j, '{');
    tr_json_name(j, "content");
    tr_json_open(j, '{');
    if (body == TR_BODY_RAW) {
        raw(j, "application/octet-stream", "{}");
    } else {
        describe_content(j, "application/json", route);
    }
    if (body == TR_BODY_MANY) {
        describe_content(j, "application/x-ndjson", route);
    }
    tr_json_close(j, '}');
    tr_json_close(j, '}');
}

/* ---- answers ---- */

static void describe_answers(struct tr_json *j, unsigned statuses)
{
    static const struct {
        unsigned status;
        const char *about;
    } all[TR_STATUS_COUNT] = {
        [TR_STATUS_200] = {200, "done"},
        [TR_STATUS_201] = {201, "a job was made"},
        [TR_STATUS_204] = {204, "no job came"},
        [TR_STATUS_304] = {304, "it is as If-None-Match has it"},
        [TR_STATUS_400] = {400, "the request is wrong: error.field says where"},
        [TR_STATUS_404] = {404, "there is no such job, topic or file"},
        [TR_STATUS_409] = {409, "it is in another state, or the lease was lost: error.state"},
        [TR_STATUS_413] = {413, "the body is larger than limits.body allows"},
        [TR_STATUS_415] = {415, "the body is not sent as JSON, or is compressed"},
        [TR_STATUS_501] = {501, "not in this mode or version: error.message says why"},
        [TR_STATUS_503] = {503, "no new jobs are taken: error.message says why"},
    };
    static const char error[] = "{\"$ref\":\"#/components/responses/Error\"}";

    tr_json_name(j, "responses");
    tr_json_open(j, '{');
    for (unsigned i = 0; i < TR_STATUS_COUNT; i++) {
        char number[8];

        if ((statuses >> i & 1) == 0) {
            continue;
        }
        tr_text(number, sizeof number, "%u", all[i].status);
        tr_json_name(j, number);
        tr_json_open(j, '{');
        member(j, "description", all[i].about);
        if (all[i].status >= 400) {
            raw(j, "content",
                "{\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/Error\"}}}");
        }
        tr_json_close(j, '}');
    }
    raw(j, "default", error);
    tr_json_close(j, '}');
}

/* ---- routes ---- */

void tr_route_name(enum tr_route route, char out[TR_ROUTE_NAME])
{
    static const char *const names[TR_ROUTE_COUNT] = {
#define X(name, method, path, args, needed, role, body, statuses, about) [TR_ROUTE_##name] = #name,
        TR_HTTP_ROUTES(X)
#undef X
    };
    size_t i = 0;

    for (; names[route][i] != '\0' && i + 1 < TR_ROUTE_NAME; i++) {
        char c = names[route][i];

        out[i] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
    out[i] = '\0';
}

static void describe_id(struct tr_json *j, enum tr_route route)
{
    char name[TR_ROUTE_NAME];

    tr_route_name(route, name);
    member(j, "operationId", name);
}

/* Which token it takes. */
static void describe_role(struct tr_json *j, enum tr_route route)
{
    char role[TR_TOKEN_ROLES_TEXT];

    if (tr_route_table[route].role == TR_ROLE_NONE) {
        raw(j, "security", "[]");
        member(j, "x-tarry-role", "none");
        return;
    }
    tr_token_print_roles(role, tr_route_table[route].role);
    member(j, "x-tarry-role", role);
    tr_json_name(j, "x-tarry-all-topics");
    tr_json_bool(j, tr_route_is_whole(route));
}

static void describe_route(struct tr_json *j, enum tr_route route)
{
    static const char *const small[TR_HTTP_METHOD_COUNT] = {
        [TR_HTTP_GET] = "get",     [TR_HTTP_POST] = "post",     [TR_HTTP_PUT] = "put",
        [TR_HTTP_PATCH] = "patch", [TR_HTTP_DELETE] = "delete",
    };
    const struct tr_route_about *r = &tr_route_table[route];

    tr_json_name(j, small[r->method]);
    tr_json_open(j, '{');
    describe_id(j, route);
    member(j, "summary", r->about);
    describe_params(j, r);
    describe_body(j, route);
    describe_answers(j, r->statuses);
    describe_role(j, route);
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
            describe_route(j, (enum tr_route)i);
        }
    }
    tr_json_close(j, '}');
}

static void describe_components(struct tr_json *j)
{
    raw(j, "components",
        "{\"responses\":{\"Error\":{\"description\":\"what any request may get: 401, 403, 405, "
        "408, "
        "414, 415, 417, 421, 429 (limits), 431, 500, 501, 503 (not ready), 505, 507 (disk nearly "
        "full)\",\"content\":{\"application/json\":{\"schema\":{\"$ref\":"
        "\"#/components/schemas/Error\"}}}}},\"schemas\":{\"Error\":{\"type\":\"object\","
        "\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"object\",\"required\":["
        "\"code\",\"message\"],\"properties\":{\"code\":{\"type\":\"string\"},\"message\":{"
        "\"type\":\"string\"},\"field\":{\"type\":\"string\"},\"state\":{\"type\":\"string\"}}}}}},"
        "\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\","
        "\"description\":\"needed once the server has tokens: x-tarry-role says with which role, "
        "x-tarry-all-topics that it has to be for all topics\"}}}");
}

void tr_route_describe(struct tr_output *out, const char *version)
{
    struct tr_json j;

    tr_json_init(&j, out);
    tr_json_open(&j, '{');
    member(&j, "openapi", "3.1.0");
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
    describe_components(&j);
    raw(&j, "security", "[{\"token\":[]}]");
    tr_json_close(&j, '}');
}
