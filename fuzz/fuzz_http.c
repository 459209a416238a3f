/*
 * What HTTP clients send, to the parser.
 *
 *     0  u8   how heads are passed: what bodies may have, and whether they are dropped
 *     1       the bytes of one connection
 *
 * In one piece and in small ones the same requests come out, and a fault in the same place (which
 * one, if there are two: llhttp tells of an URL only after it); all of a request is within its
 * limits; memory is bounded and given back.
 */

#include "proto/http_parse.h"

#include <stdlib.h>
#include <string.h>

enum { BODY_MAX = 512, WROTE_MAX = 1 << 20 };

static const struct tr_http_limits limits = {.head = 1024, .url = 256};

struct log {
    uint8_t bytes[WROTE_MAX];
    size_t len;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void write_bytes(struct log *l, const void *bytes, size_t len)
{
    if (len > 0 && len <= WROTE_MAX - l->len) {
        memcpy(l->bytes + l->len, bytes, len);
        l->len += len;
    }
}

static void write_number(struct log *l, uint64_t n)
{
    write_bytes(l, &n, sizeof n);
}

static void write_text(struct log *l, struct tr_http_text t)
{
    must(t.len <= limits.head && (t.at != NULL || t.len == 0));
    write_number(l, t.len);
    write_bytes(l, t.at, t.len);
}

static void write_request(struct log *l, const struct tr_http_request *r)
{
    write_number(l, (uint64_t)r->method * 8 + (uint64_t)r->http10 * 4 +
                        (uint64_t)r->keep_alive * 2 + r->expects);
    write_number(l, r->length);
    must(r->segment_count <= TR_HTTP_SEGMENTS_MAX + 1 && r->param_count <= TR_HTTP_PARAMS_MAX);
    for (unsigned i = 0; i < r->segment_count && i < TR_HTTP_SEGMENTS_MAX; i++) {
        write_text(l, r->segments[i]);
    }
    for (unsigned i = 0; i < r->param_count; i++) {
        write_text(l, r->params[i].name);
        write_text(l, r->params[i].value);
    }
    for (unsigned i = 0; i < TR_HTTP_HEADER_COUNT; i++) {
        write_text(l, r->headers[i]);
        for (size_t k = 0; k < r->headers[i].len; k++) {
            must(r->headers[i].at[k] != '\n' && r->headers[i].at[k] != '\r' &&
                 r->headers[i].at[k] != '\0');
        }
    }
    must(r->body_len <= BODY_MAX);
    write_number(l, r->body_len);
    write_bytes(l, r->body, r->body_len);
}

/* One step of the owner. */
static void serve(struct tr_http *h, struct log *l, uint8_t how)
{
    if (h->state == TR_HTTP_HEAD) {
        must(h->request.length > 0);
        write_text(l, h->request.headers[TR_HTTP_HOST]);
        tr_http_go_on(h, (how & 1) != 0 ? 10 : BODY_MAX, (how & 2) != 0);
    } else if (h->state == TR_HTTP_REQUEST) {
        write_request(l, &h->request);
        tr_http_next(h);
    }
}

static void play(struct log *l, const uint8_t *data, size_t size, size_t piece, uint8_t how)
{
    struct tr_mem mem;
    struct tr_http h;
    size_t at = 0;

    l->len = 0;
    tr_mem_init(&mem, 65536);
    tr_http_init(&h, &mem, &limits);
    while (at < size) {
        size_t len = size - at < piece ? size - at : piece;
        size_t taken = tr_http_feed(&h, data + at, len);

        must(taken <= len && (taken == len || h.state != TR_HTTP_INPUT));
        must(mem.used_bytes <= 4096);
        at += taken;
        serve(&h, l, how);
        serve(&h, l, how);
        must(h.state != TR_HTTP_HEAD && h.state != TR_HTTP_REQUEST);
    }
    write_number(l, h.state);
    must((h.state == TR_HTTP_FAULT) == (h.fault.status != 0));
    tr_http_fini(&h);
    must(mem.used_bytes == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct log one;
    static struct log many;

    if (size < 2 || size > 65536) {
        return 0;
    }
    play(&one, data + 1, size - 1, size, data[0]);
    for (size_t piece = 1; piece < 30; piece += piece) {
        play(&many, data + 1, size - 1, piece, data[0]);
        must(one.len == many.len && memcmp(one.bytes, many.bytes, one.len) == 0);
    }
    return 0;
}
