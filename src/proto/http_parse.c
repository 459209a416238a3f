/*
 * Requests on llhttp, which reads the bytes and calls back; here it is decided what is kept.
 *
 *     bytes --> llhttp --> head: "/v1/jobs?limit=5" "127.0.0.1:11301" "application/json" ...
 *                  |         URL first, then the values of the headers that are wanted
 *                  +-----> body, as it grows
 *
 * When the head is complete, the URL is decoded where it stands (that only makes it shorter), and
 * texts point into it; from then on `head` does not move. llhttp is paused there when a body
 * follows, so that the owner can refuse it before it is sent, and at the end of each request, so
 * that what is pipelined behind it stays with the owner.
 *
 * Bounds: a head has limits.head bytes, which also bounds how many headers there are; a body has
 * body_max; and the chunks around a body may be clumsy (OVERHEAD bytes for each of the body, and
 * the length of a head) but not without end. Memory grows with what has come, not with what was
 * announced.
 *
 * Strict: a request that two servers could read differently is a fault. (Both lengths, a second
 * Host, bare line feeds, transfer codings other than chunked.) An upgrade to another protocol is
 * not taken up: such a request is one like others, and what follows it is read by a machine that
 * begins anew, as after each request.
 */

#include "proto/http_parse.h"

#include "base/check.h"

#include <llhttp.h>

#include <assert.h>
#include <string.h>

enum {
    ROOM_MIN = 256,
    KEEP_MAX = 1024,
    OVERHEAD = 16,
    LARGE = 65536, /* a body for which there may be no memory, when many others are large, too */
};

static_assert(sizeof(llhttp_t) <= sizeof(((struct tr_http *)0)->machine), "llhttp has its room");

static const struct {
    const char *name;
    size_t len;
} header_names[TR_HTTP_HEADER_COUNT] = {
#define X(name, text) [TR_HTTP_##name] = {(text), sizeof(text) - 1},
    TR_HTTP_HEADERS(X)
#undef X
};

static llhttp_t *machine(struct tr_http *h)
{
    return (llhttp_t *)(void *)h->machine;
}

static struct tr_http *parser(const llhttp_t *m)
{
    return TR_CONTAINER_OF((void *)(uintptr_t)m, struct tr_http, machine);
}

/* The first fault counts. Gives what a callback says to end it. */
static int refuse(struct tr_http *h, unsigned status, const char *code, const char *message)
{
    if (h->state != TR_HTTP_FAULT) {
        h->state = TR_HTTP_FAULT;
        h->fault = (struct tr_http_fault){status, code, message};
    }
    return -1;
}

static int bad(struct tr_http *h, const char *message)
{
    return refuse(h, 400, "bad_request", message);
}

static int no_memory(struct tr_http *h)
{
    return refuse(h, 503, "no_memory", "the server has no memory for this request: try again");
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

bool tr_http_same(struct tr_http_text text, const char *small)
{
    if (text.at == NULL || text.len != strlen(small)) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (lower(text.at[i]) != small[i]) {
            return false;
        }
    }
    return true;
}

/* ---- memory ---- */

/* Room for len more bytes behind the first `used`. */
static bool grow(struct tr_http *h, void **bytes, size_t *room, size_t need)
{
    size_t more = *room > ROOM_MIN ? *room : ROOM_MIN;
    void *grown;

    if (need <= *room) {
        return true;
    }
    while (more < need) {
        more *= 2;
    }
    grown = tr_mem_stretch(h->mem, *bytes, *room, more);
    if (grown == NULL) {
        return false;
    }
    *bytes = grown;
    *room = more;
    return true;
}

static bool add_to_head(struct tr_http *h, const char *at, size_t len)
{
    void *head = h->head;
    bool ok = grow(h, &head, &h->head_room, h->head_len + len);

    h->head = head;
    if (ok && len > 0) {
        memcpy(h->head + h->head_len, at, len);
        h->head_len += len;
    }
    return ok;
}

/* ---- the URL ---- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes text where it stands. False: a % without two digits. */
static bool decode(struct tr_http_text *text, char *at, size_t len, bool plus_is_space)
{
    char *out = at;

    text->at = at;
    for (size_t i = 0; i < len; i++) {
        char c = at[i];

        if (c == '%') {
            int high = len - i > 2 ? hex_value(at[i + 1]) : -1;
            int low = len - i > 2 ? hex_value(at[i + 2]) : -1;

            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        *out++ = c;
    }
    text->len = (size_t)(out - at);
    return true;
}

static size_t span_until(const char *at, size_t len, char end)
{
    const char *found = len > 0 ? memchr(at, end, len) : NULL;

    return found != NULL ? (size_t)(found - at) : len;
}

static int bad_percent(struct tr_http *h)
{
    return bad(h, "a % in the URL is not followed by two hexadecimal digits: write it as %25");
}

/* A path without its first slash; "" is the root, without a segment. */
static int split_path(struct tr_http *h, char *at, size_t len)
{
    struct tr_http_request *r = &h->request;

    while (len > 0 || r->segment_count > 0) {
        size_t span = span_until(at, len, '/');

        if (r->segment_count == TR_HTTP_SEGMENTS_MAX) {
            r->segment_count++;
            return 0;
        }
        if (!decode(&r->segments[r->segment_count++], at, span, false)) {
            return bad_percent(h);
        }
        if (span == len) {
            return 0;
        }
        at += span + 1;
        len -= span + 1;
    }
    return 0;
}

static int split_query(struct tr_http *h, char *at, size_t len)
{
    struct tr_http_request *r = &h->request;

    while (len > 0) {
        size_t span = span_until(at, len, '&');
        size_t name = span_until(at, span, '=');
        size_t value = name < span ? name + 1 : span;
        struct tr_http_param *p = &r->params[r->param_count];

        if (span > 0) {
            if (r->param_count == TR_HTTP_PARAMS_MAX) {
                return bad(h, "the query has more than 32 parameters");
            }
            if (!decode(&p->name, at, name, true) ||
                !decode(&p->value, at + value, span - value, true)) {
                return bad_percent(h);
            }
            r->param_count++;
        }
        at += span < len ? span + 1 : span;
        len -= span < len ? span + 1 : span;
    }
    return 0;
}

/* http://host/path, as for a proxy: the host in it is the one that counts. Gives its length. */
static size_t skip_authority(struct tr_http *h, char *at, size_t len)
{
    static const char scheme[] = "http://";
    size_t begin = strlen(scheme);
    size_t end = begin;

    if (len <= begin || memcmp(at, scheme, begin) != 0) {
        return 0;
    }
    while (end < len && at[end] != '/' && at[end] != '?') {
        end++;
    }
    h->request.headers[TR_HTTP_HOST] = (struct tr_http_text){at + begin, end - begin};
    return end;
}

static int read_url(struct tr_http *h)
{
    char *at = h->head;
    size_t len = h->url_len;
    size_t skip = skip_authority(h, at, len);
    size_t path;
    int err;

    at += skip;
    len -= skip;
    if (len > 0 && memchr(at, '#', len) != NULL) {
        return bad(h, "the URL has a fragment: leave out what begins with #");
    }
    path = span_until(at, len, '?');
    if (path > 0 && at[0] != '/') {
        bool star = path == 1 && at[0] == '*';

        h->request.segment_count = TR_HTTP_SEGMENTS_MAX + 1; /* no route is so */
        return star || h->request.method == TR_HTTP_OTHER ? 0 : bad(h, "the URL is not a path");
    }
    err = path > 0 ? split_path(h, at + 1, path - 1) : 0;
    if (err == 0 && path < len) {
        err = split_query(h, at + path + 1, len - path - 1);
    }
    return err;
}

/* ---- the head ---- */

static int on_url(llhttp_t *m, const char *at, size_t len)
{
    struct tr_http *h = parser(m);

    if (h->url_len + len > h->limits->url) {
        return refuse(h, 414, "url_too_long", "the URL is too long");
    }
    h->url_len += len;
    return add_to_head(h, at, len) ? 0 : no_memory(h);
}

static int on_field(llhttp_t *m, const char *at, size_t len)
{
    struct tr_http *h = parser(m);

    for (size_t i = 0; i < len && h->field_len < TR_HTTP_FIELD_MAX; i++) {
        h->field[h->field_len++] = lower(at[i]);
    }
    return 0;
}

static enum tr_http_header find_header(const struct tr_http *h)
{
    unsigned i = 0;

    while (i < TR_HTTP_HEADER_COUNT &&
           (header_names[i].len != h->field_len ||
            memcmp(header_names[i].name, h->field, h->field_len) != 0)) {
        i++;
    }
    return (enum tr_http_header)i;
}

static int on_field_complete(llhttp_t *m)
{
    struct tr_http *h = parser(m);

    h->header = h->in_head ? find_header(h) : TR_HTTP_HEADER_COUNT; /* trailers are not kept */
    h->field_len = 0;
    if (h->header == TR_HTTP_HEADER_COUNT) {
        return 0;
    }
    if (h->spans[h->header].given) {
        if (h->header == TR_HTTP_ACCEPT || h->header == TR_HTTP_IF_NONE_MATCH) {
            h->header = TR_HTTP_HEADER_COUNT;
            return 0;
        }
        return bad(h, "a header is given twice that may be given once");
    }
    h->spans[h->header].given = true;
    h->spans[h->header].from = h->head_len;
    h->spans[h->header].to = h->head_len;
    return 0;
}

static int on_value(llhttp_t *m, const char *at, size_t len)
{
    struct tr_http *h = parser(m);

    if (h->header == TR_HTTP_HEADER_COUNT) {
        return 0;
    }
    if (!add_to_head(h, at, len)) {
        return no_memory(h);
    }
    h->spans[h->header].to = h->head_len;
    return 0;
}

static enum tr_http_method method_of(const llhttp_t *m)
{
    switch (m->method) {
    case HTTP_GET:
        return TR_HTTP_GET;
    case HTTP_HEAD:
        return TR_HTTP_HEAD_METHOD;
    case HTTP_POST:
        return TR_HTTP_POST;
    case HTTP_PUT:
        return TR_HTTP_PUT;
    case HTTP_PATCH:
        return TR_HTTP_PATCH;
    case HTTP_DELETE:
        return TR_HTTP_DELETE;
    case HTTP_OPTIONS:
        return TR_HTTP_OPTIONS;
    default:
        return TR_HTTP_OTHER;
    }
}

static void place_headers(struct tr_http *h)
{
    for (unsigned i = 0; i < TR_HTTP_HEADER_COUNT; i++) {
        if (h->spans[i].given) {
            const char *at = h->head + h->spans[i].from;
            size_t len = h->spans[i].to - h->spans[i].from;

            while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t')) {
                len--;
            }
            h->request.headers[i] = (struct tr_http_text){at, len};
        }
    }
}

/* What can be judged of the headers without knowing the route. */
static int judge_headers(struct tr_http *h)
{
    struct tr_http_request *r = &h->request;
    struct tr_http_text *headers = r->headers;

    if (headers[TR_HTTP_HOST].at == NULL && !r->http10) {
        return bad(h, "the header Host is missing");
    }
    if (headers[TR_HTTP_TRANSFER_ENCODING].at != NULL &&
        !tr_http_same(headers[TR_HTTP_TRANSFER_ENCODING], "chunked")) {
        return refuse(h, 501, "transfer_encoding",
                      "of all transfer encodings, only chunked can "
                      "be read");
    }
    if (headers[TR_HTTP_CONTENT_ENCODING].at != NULL && r->length > 0 &&
        !tr_http_same(headers[TR_HTTP_CONTENT_ENCODING], "identity")) {
        return refuse(h, 415, "content_encoding",
                      "compressed bodies cannot be read: send it "
                      "without Content-Encoding");
    }
    if (headers[TR_HTTP_EXPECT].at != NULL) {
        if (!tr_http_same(headers[TR_HTTP_EXPECT], "100-continue")) {
            return refuse(h, 417, "expectation",
                          "of all expectations, only 100-continue can be "
                          "met");
        }
        r->expects = !r->http10 && r->length > 0;
    }
    return 0;
}

static int on_headers_complete(llhttp_t *m)
{
    struct tr_http *h = parser(m);
    struct tr_http_request *r = &h->request;
    bool chunked = (m->flags & F_CHUNKED) != 0;

    h->in_head = false;
    r->method = method_of(m);
    r->http10 = m->http_major == 1 && m->http_minor == 0;
    r->length = chunked ? TR_HTTP_LENGTH_UNKNOWN : m->content_length;
    if (m->http_major != 1 || m->http_minor > 1) {
        return refuse(h, 505, "http_version", "only HTTP/1.1 and HTTP/1.0 are spoken here");
    }
    place_headers(h);
    if (read_url(h) != 0 || judge_headers(h) != 0) {
        return -1;
    }
    if (r->length == 0) {
        return 0;
    }
    h->state = TR_HTTP_HEAD;
    return HPE_PAUSED;
}

/* ---- the body ---- */

static int too_large(struct tr_http *h)
{
    return refuse(
        h, 413, "body_too_large",
        "the body is larger than limits.body allows (many jobs at once: than 32 MiB): send "
        "less, or several requests, or raise limits.body of the server");
}

/* Room for so many bytes of the body: twice as much each time; a large one has no more than it can
 * have bytes. */
static bool grow_body(struct tr_http *h, size_t need)
{
    size_t most = h->request.length < h->body_max ? (size_t)h->request.length : h->body_max;
    size_t room = h->body_room > ROOM_MIN ? h->body_room : ROOM_MIN;
    void *body;

    if (need <= h->body_room) {
        return true;
    }
    while (room < need) {
        room *= 2;
    }
    if (room > LARGE && room > most) {
        room = most;
    }
    if (room > LARGE && !tr_mem_room(h->mem, room - h->body_room)) {
        return false;
    }
    body = tr_mem_stretch(h->mem, h->body, h->body_room, room);
    if (body == NULL) {
        return false;
    }
    h->body = body;
    h->body_room = room;
    return true;
}

static int on_body(llhttp_t *m, const char *at, size_t len)
{
    struct tr_http *h = parser(m);

    h->body_sum += len;
    if (h->body_sum > h->body_max) {
        return too_large(h);
    }
    if (h->drop || len == 0) {
        return 0;
    }
    if (!grow_body(h, (size_t)h->body_sum)) {
        return no_memory(h);
    }
    memcpy(h->body + h->body_sum - len, at, len);
    return 0;
}

/* A chunk that will not fit need not be sent in vain. */
static int on_chunk_header(llhttp_t *m)
{
    struct tr_http *h = parser(m);

    return m->content_length > h->body_max - h->body_sum ? too_large(h) : 0;
}

static int on_message_complete(llhttp_t *m)
{
    struct tr_http *h = parser(m);

    h->request.keep_alive = llhttp_should_keep_alive(m) != 0 && m->method != HTTP_CONNECT;
    h->request.body = h->body != NULL ? h->body : (const uint8_t *)"";
    h->request.body_len = h->drop ? 0 : (size_t)h->body_sum;
    h->request.length = h->body_sum;
    h->state = TR_HTTP_REQUEST;
    return HPE_PAUSED;
}

/* ---- all ---- */

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_value,
    .on_headers_complete = on_headers_complete,
    .on_chunk_header = on_chunk_header,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

static void begin(struct tr_http *h)
{
    llhttp_init(machine(h), HTTP_REQUEST, &settings);
    h->state = TR_HTTP_INPUT;
    memset(&h->request, 0, offsetof(struct tr_http_request, params)); /* none of these counts */
    memset(h->spans, 0, sizeof h->spans);
    h->in_head = true;
    h->drop = false;
    h->head_taken = 0;
    h->body_read = 0;
    h->body_sum = 0;
    h->head_len = 0;
    h->url_len = 0;
    h->field_len = 0;
    h->header = TR_HTTP_HEADER_COUNT;
}

void tr_http_init(struct tr_http *h, struct tr_mem *mem, const struct tr_http_limits *limits)
{
    memset(h, 0, sizeof *h);
    h->mem = mem;
    h->limits = limits;
    begin(h);
}

static void drop_body(struct tr_http *h)
{
    tr_mem_free(h->mem, h->body, h->body_room);
    h->body = NULL;
    h->body_room = 0;
}

static void drop_head(struct tr_http *h)
{
    tr_mem_free(h->mem, h->head, h->head_room);
    h->head = NULL;
    h->head_room = 0;
}

void tr_http_fini(struct tr_http *h)
{
    drop_body(h);
    drop_head(h);
}

/* Counts what was taken; what has no end is a fault. */
static void count(struct tr_http *h, bool head, size_t taken)
{
    if (head) {
        h->head_taken += taken;
        if (h->in_head && h->state == TR_HTTP_INPUT && h->head_taken >= h->limits->head) {
            (void)refuse(h, 431, "header_too_large", "the header is too large");
        }
        return;
    }
    h->body_read += taken;
    if (h->state == TR_HTTP_INPUT &&
        h->body_read > h->limits->head + (OVERHEAD + 1) * h->body_sum) {
        (void)bad(h, "the chunks of the body are too small, or what stands between them too long");
    }
}

/* How much of a head may be taken. The limit may have been lowered since it began: then one byte,
 * and it is too large. */
static size_t left_of_head(const struct tr_http *h)
{
    return h->head_taken < h->limits->head ? h->limits->head - h->head_taken : 1;
}

size_t tr_http_feed(struct tr_http *h, const void *bytes, size_t len)
{
    const char *at = bytes;
    size_t taken = 0;

    while (h->state == TR_HTTP_INPUT && taken < len) {
        bool head = h->in_head;
        size_t left = head ? left_of_head(h) : len;
        size_t piece = len - taken < left ? len - taken : left;
        llhttp_errno_t err = llhttp_execute(machine(h), at + taken, piece);

        if (err == HPE_PAUSED) {
            piece = (size_t)(llhttp_get_error_pos(machine(h)) - (at + taken));
        } else if (err == HPE_INVALID_VERSION || err == HPE_PAUSED_H2_UPGRADE) {
            (void)refuse(h, 505, "http_version", "only HTTP/1.1 and HTTP/1.0 are spoken here");
        } else if (err != HPE_OK) {
            (void)bad(h, "this is no HTTP request");
        }
        taken += piece;
        count(h, head, piece);
    }
    return h->state == TR_HTTP_FAULT || h->state == TR_HTTP_CLOSED ? len : taken;
}

void tr_http_go_on(struct tr_http *h, size_t body_max, bool drop)
{
    TR_CHECK(h->state == TR_HTTP_HEAD);
    h->state = TR_HTTP_INPUT;
    h->body_max = body_max;
    h->drop = drop;
    if (h->request.length != TR_HTTP_LENGTH_UNKNOWN && h->request.length > body_max) {
        (void)too_large(h);
        return;
    }
    if (!drop && h->request.length != TR_HTTP_LENGTH_UNKNOWN && h->request.length > LARGE &&
        !tr_mem_room(h->mem, (size_t)h->request.length)) { /* it need not be sent in vain */
        (void)no_memory(h);
        return;
    }
    llhttp_resume(machine(h));
}

void tr_http_next(struct tr_http *h)
{
    bool on = h->request.keep_alive;

    TR_CHECK(h->state == TR_HTTP_REQUEST);
    if (h->body_room > KEEP_MAX || !on) {
        drop_body(h);
    }
    if (h->head_room > KEEP_MAX || !on) {
        drop_head(h);
    }
    begin(h);
    if (!on) {
        h->state = TR_HTTP_CLOSED;
    }
}

bool tr_http_idle(const struct tr_http *h)
{
    return h->state == TR_HTTP_INPUT && h->in_head && h->head_taken == 0;
}

bool tr_http_in_head(const struct tr_http *h)
{
    return h->state == TR_HTTP_INPUT && h->in_head && h->head_taken > 0;
}

bool tr_http_in_body(const struct tr_http *h)
{
    return h->state == TR_HTTP_INPUT && !h->in_head;
}
