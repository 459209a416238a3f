/*
 * How the length gets in front of a body that is not written yet:
 *
 *     Content-Length: ##########\r\n\r\n{"id":"17",...}      room for ten digits
 *     Content-Length: 123\r\n\r\n{"id":"17",...}             closed: what is behind moves up
 *
 * The move costs less than a second buffer would, and most replies are a few hundred bytes.
 */

#include "proto/http_reply.h"

#include "base/check.h"
#include "base/text.h"
#include "proto/json_out.h"

#include <string.h>

enum {
    LENGTH_ROOM = 10,
    RETRY_S = 5, /* after which one who was told 503 may come again: a restart takes less */
};

static const struct {
    unsigned status;
    const char *text;
} statuses[] = {
    {200, "OK"},
    {201, "Created"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *tr_http_status_text(unsigned status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (statuses[i].status == status) {
            return statuses[i].text;
        }
    }
    return "";
}

struct tr_http_how tr_http_how_of(const struct tr_http_request *request)
{
    return (struct tr_http_how){
        .keep_alive = request->keep_alive,
        .http10 = request->http10,
        .head_only = request->method == TR_HTTP_HEAD_METHOD,
    };
}

static void put(struct tr_http_reply *r, const char *text)
{
    tr_output_add(r->out, text, strlen(text));
}

size_t tr_http_reply_line(char out[TR_HTTP_LINE], unsigned status, const char *date)
{
    TR_CHECK(status >= 100 && status <= 599);
    tr_text(out, TR_HTTP_LINE, "HTTP/1.1 %u %s\r\n%s%s%s", status, tr_http_status_text(status),
            date != NULL ? "Date: " : "", date != NULL ? date : "", date != NULL ? "\r\n" : "");
    return strlen(out);
}

void tr_http_reply_open(struct tr_http_reply *r, struct tr_output *out,
                        const struct tr_http_how *how, unsigned status)
{
    *r = (struct tr_http_reply){.out = out, .head_only = how->head_only};
    if (how->line != NULL) {
        tr_output_add(out, how->line, how->line_len);
    } else {
        char line[TR_HTTP_LINE];

        tr_output_add(out, line, tr_http_reply_line(line, status, how->date));
    }
    if (!how->keep_alive) {
        put(r, "Connection: close\r\n");
    } else if (how->http10) {
        put(r, "Connection: keep-alive\r\n");
    }
}

void tr_http_reply_header(struct tr_http_reply *r, const char *name, const void *value, size_t len)
{
    uint8_t *place;

    put(r, name);
    put(r, ": ");
    place = len > 0 ? tr_output_place(r->out, len) : NULL;
    if (place != NULL) {
        memcpy(place, value, len);
        for (size_t i = 0; i < len; i++) {
            place[i] = place[i] < 0x20 || place[i] == 0x7f ? '?' : place[i];
        }
        tr_output_added(r->out, len);
    }
    put(r, "\r\n");
}

void tr_http_reply_retry(struct tr_http_reply *r, unsigned seconds)
{
    char text[LENGTH_ROOM + 1];

    tr_text(text, sizeof text, "%u", seconds != 0 ? seconds : RETRY_S);
    tr_http_reply_header(r, "Retry-After", text, strlen(text));
}

void tr_http_reply_body(struct tr_http_reply *r, const char *type)
{
    put(r, "Content-Type: ");
    put(r, type);
    put(r, "\r\nContent-Length: ");
    r->length_at = tr_output_end(r->out);
    put(r, "##########\r\n\r\n");
    r->body_at = tr_output_end(r->out);
}

void tr_http_reply_json(struct tr_http_reply *r)
{
    static const char head[] = "Content-Type: application/json\r\nContent-Length: "
                               "##########\r\n\r\n";

    r->length_at = tr_output_end(r->out) + strlen(head) - LENGTH_ROOM - strlen("\r\n\r\n");
    tr_output_add(r->out, head, strlen(head));
    r->body_at = tr_output_end(r->out);
}

/* In digits; says how many. */
static size_t print(char out[LENGTH_ROOM], uint64_t number)
{
    size_t count = 1;

    for (uint64_t n = number; n >= 10 && count < LENGTH_ROOM; n /= 10) {
        count++;
    }
    for (size_t i = count; i > 0; i--, number /= 10) {
        out[i - 1] = (char)('0' + number % 10);
    }
    return count;
}

void tr_http_reply_close(struct tr_http_reply *r)
{
    uint64_t len = tr_output_end(r->out) - r->body_at;
    char digits[LENGTH_ROOM];
    uint8_t *at;
    size_t used;

    if (r->out->broken) {
        return;
    }
    used = print(digits, len);
    if (r->head_only) {
        tr_output_cut(r->out, (size_t)len);
        len = 0;
    }
    at = tr_output_from(r->out, r->length_at);
    memcpy(at, digits, used);
    memmove(at + used, at + LENGTH_ROOM, (size_t)(r->body_at - r->length_at - LENGTH_ROOM + len));
    tr_output_cut(r->out, LENGTH_ROOM - used);
}

void tr_http_reply_none(struct tr_http_reply *r)
{
    put(r, "\r\n");
}

void tr_http_error_tell(struct tr_json *j, const struct tr_http_error *error)
{
    tr_json_name(j, "error");
    tr_json_open(j, '{');
    tr_json_name(j, "code");
    tr_json_text(j, error->code);
    tr_json_name(j, "message");
    tr_json_text(j, error->message);
    if (error->field != NULL) {
        tr_json_name(j, "field");
        tr_json_text(j, error->field);
    }
    if (error->state != NULL) {
        tr_json_name(j, "state");
        tr_json_text(j, error->state);
    }
    tr_json_close(j, '}');
}

void tr_http_reply_error(struct tr_output *out, const struct tr_http_how *how,
                         const struct tr_http_error *error)
{
    struct tr_http_reply r;
    struct tr_json j;

    tr_http_reply_open(&r, out, how, error->status);
    if (error->allow != NULL) {
        tr_http_reply_header(&r, "Allow", error->allow, strlen(error->allow));
    }
    if (error->status == 401) {
        put(&r, "WWW-Authenticate: Bearer realm=\"tarry\"\r\n");
    }
    if (error->retry_s > 0 || error->status == 503) {
        tr_http_reply_retry(&r, error->retry_s);
    }
    tr_http_reply_body(&r, "application/json");
    tr_json_init(&j, out);
    tr_json_open(&j, '{');
    tr_http_error_tell(&j, error);
    tr_json_close(&j, '}');
    tr_http_reply_close(&r);
}

void tr_http_reply_continue(struct tr_output *out)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";

    tr_output_add(out, line, sizeof line - 1);
}
