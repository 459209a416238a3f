#ifndef TR_PROTO_HTTP_PARSE_H
#define TR_PROTO_HTTP_PARSE_H

/*
 * HTTP/1.1 and 1.0 requests: bytes in, one request at a time out. See http_parse.c.
 *
 * No sockets, no clock, no replies. The owner feeds what was received and looks at `state`:
 *
 *     INPUT    more bytes are needed
 *     HEAD     the head of a request with a body is there: `request` but for its body. The owner
 *              looks at it, answers 100 if `expects`, and calls tr_http_go_on
 *     REQUEST  all of it is there; when it was answered: tr_http_next
 *     FAULT    it cannot be served: `fault` says what to answer; then the connection is closed
 *     CLOSED   the last request was answered: nothing more is read
 *
 * In the last two states all bytes are taken and dropped, so that the other side can finish
 * sending and read its answer before the connection is closed.
 *
 * What `request` points to stays as it is until tr_http_next. Ownership: the parser owns it all.
 */

#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TR_HTTP_SEGMENTS_MAX = 8,
    TR_HTTP_PARAMS_MAX = 32,
    TR_HTTP_MACHINE = 24, /* words of llhttp, and some to spare for another version */
    TR_HTTP_FIELD_MAX = 24,
};

#define TR_HTTP_LENGTH_UNKNOWN UINT64_MAX /* chunked */

enum tr_http_method {
    TR_HTTP_GET,
    TR_HTTP_HEAD_METHOD,
    TR_HTTP_POST,
    TR_HTTP_PUT,
    TR_HTTP_PATCH,
    TR_HTTP_DELETE,
    TR_HTTP_OPTIONS,
    TR_HTTP_OTHER,
    TR_HTTP_METHOD_COUNT
};

/* The headers that are kept: each once at most, or it is a fault; but of Accept and If-None-Match
 * the first counts. */
#define TR_HTTP_HEADERS(X)                                                                         \
    X(HOST, "host")                                                                                \
    X(AUTHORIZATION, "authorization")                                                              \
    X(CONTENT_TYPE, "content-type")                                                                \
    X(CONTENT_ENCODING, "content-encoding")                                                        \
    X(TRANSFER_ENCODING, "transfer-encoding")                                                      \
    X(ACCEPT, "accept")                                                                            \
    X(EXPECT, "expect")                                                                            \
    X(IF_NONE_MATCH, "if-none-match")                                                              \
    X(ORIGIN, "origin")                                                                            \
    X(SEC_FETCH_SITE, "sec-fetch-site")

enum tr_http_header {
#define X(name, text) TR_HTTP_##name,
    TR_HTTP_HEADERS(X)
#undef X
        TR_HTTP_HEADER_COUNT
};

enum tr_http_state { TR_HTTP_INPUT, TR_HTTP_HEAD, TR_HTTP_REQUEST, TR_HTTP_FAULT, TR_HTTP_CLOSED };

struct tr_http_text {
    const char *at; /* NULL: absent */
    size_t len;
};

/* Decoded; a name without "=" has the value "" */
struct tr_http_param {
    struct tr_http_text name;
    struct tr_http_text value;
};

struct tr_http_request {
    enum tr_http_method method;
    bool http10;
    bool keep_alive;
    bool expects;    /* 100 Continue, before it sends the body */
    uint64_t length; /* of the body; 0: none; at HEAD perhaps TR_HTTP_LENGTH_UNKNOWN */
    struct tr_http_text segments[TR_HTTP_SEGMENTS_MAX]; /* of the path, decoded: v1, jobs, 17 */
    unsigned segment_count; /* one more than the most: there are too many to be a route */
    unsigned param_count;
    struct tr_http_text headers[TR_HTTP_HEADER_COUNT];
    const uint8_t *body; /* at REQUEST; never NULL then */
    size_t body_len;
    struct tr_http_param params[TR_HTTP_PARAMS_MAX]; /* of the query, in their order; the last
                                                        member: see begin */
};

struct tr_http_fault {
    unsigned status;
    const char *code;
    const char *message;
};

struct tr_http_limits {
    size_t head; /* bytes of a head: request line and headers */
    size_t url;
};

struct tr_http {
    struct tr_mem *mem;
    const struct tr_http_limits *limits;
    enum tr_http_state state;
    struct tr_http_request request;
    struct tr_http_fault fault;

    /* The rest is the parser's own. */
    uint64_t machine[TR_HTTP_MACHINE];
    bool in_head;
    bool drop;          /* the body is not kept */
    size_t head_taken;  /* bytes of the head, */
    uint64_t body_read; /* and of what follows it, */
    uint64_t body_sum;  /* of which so many are body */
    size_t body_max;
    char *head; /* the URL, then kept values of headers */
    size_t head_len;
    size_t head_room;
    size_t url_len;
    uint8_t *body;
    size_t body_room;
    char field[TR_HTTP_FIELD_MAX]; /* the name of the header being read, in small letters */
    size_t field_len;
    enum tr_http_header header; /* or COUNT: one that is not kept */
    struct {
        size_t from;
        size_t to;
        bool given;
    } spans[TR_HTTP_HEADER_COUNT]; /* of head */
};

/* limits and mem stay the caller's and are used until fini. */
void tr_http_init(struct tr_http *h, struct tr_mem *mem, const struct tr_http_limits *limits);
void tr_http_fini(struct tr_http *h);

/* Takes bytes up to the next state but INPUT, and says how many. */
size_t tr_http_feed(struct tr_http *h, const void *bytes, size_t len);

/* At HEAD: reads the body, up to so many bytes; more is a fault, and so is one for which there is
 * no memory. drop: they are not kept. */
void tr_http_go_on(struct tr_http *h, size_t body_max, bool drop);

/* At REQUEST: it is done with. */
void tr_http_next(struct tr_http *h);

/* True between two requests: not a byte of the next one has come. */
bool tr_http_idle(const struct tr_http *h);

/* True when a part of a head has come. */
bool tr_http_in_head(const struct tr_http *h);

/* True when the head has come, and the body has not, or not all of it. */
bool tr_http_in_body(const struct tr_http *h);

/* The same text, whatever the case of its letters. */
bool tr_http_same(struct tr_http_text text, const char *lower);

#endif
