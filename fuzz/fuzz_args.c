/*
 * A whole request of the HTTP API, from its bytes to its arguments: parser, route, query, JSON.
 *
 * The input is the bytes of one connection. Each request is dispatched as the server will do it;
 * what is given must be allowed, within its bounds and inside the request; an error says which
 * field and why.
 */

#include "base/err.h"
#include "proto/http_route.h"
#include "proto/json_in.h"

#include <stdlib.h>
#include <string.h>

enum { BODY_MAX = 4096 };

static const struct tr_http_limits limits = {.head = 4096, .url = 2048};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_error(const struct tr_http_error *e)
{
    must(e->status >= 400 && e->code != NULL && e->message != NULL && e->message[0] != '\0');
    must((e->status == 405) == (e->allow != NULL));
}

static void check_args(const struct tr_args *a, uint64_t allowed)
{
    must((a->given & ~allowed) == 0 && (a->cleared & ~allowed) == 0);
    must((a->given & a->cleared) == 0);
    for (unsigned i = 0; i < TR_ARG_COUNT; i++) {
        const struct tr_arg_about *about = &tr_arg_table[i];

        if ((a->given >> i & 1) == 0) {
            continue;
        }
        must(a->values[i].text.at != NULL || a->values[i].text.len == 0);
        if (about->kind <= TR_KIND_RATE) {
            must(a->values[i].number >= about->from && a->values[i].number <= about->to);
        }
        if (about->kind == TR_KIND_LABEL) {
            must(a->values[i].text.len >= 1 && a->values[i].text.len <= (size_t)about->to);
        }
    }
}

/* Each item of the body, as arguments. */
static void check_items(struct tr_args *a, enum tr_json_form form, uint64_t allowed,
                        const struct tr_http_request *r)
{
    struct tr_json_in s;
    struct tr_http_error e = {0};
    size_t at = 0;
    enum tr_json_event event;

    tr_json_in_init(&s, form);
    do {
        size_t taken;

        event = tr_json_in_feed(&s, r->body + at, r->body_len - at, &taken);
        at += taken;
        if (event == TR_JSON_ITEM) {
            size_t len = (size_t)(s.item_to - s.item_from);
            char *copy = malloc(len);

            memcpy(copy, r->body + s.item_from, len);
            tr_args_init(a);
            if (tr_args_json(a, allowed, copy, len, &e) == TARRY_OK) {
                check_args(a, allowed);
            } else {
                check_error(&e);
            }
            free(copy);
        }
    } while (event == TR_JSON_ITEM);
}

static void dispatch(const struct tr_http_request *r)
{
    static struct tr_args a;
    struct tr_route_match m;
    struct tr_http_error e = {0};
    const struct tr_route_about *about;

    if (tr_route_find(&m, r, &e) != TARRY_OK) {
        check_error(&e);
        return;
    }
    about = &tr_route_table[m.route];
    tr_args_init(&a);
    if (tr_args_query(&a, tr_route_query_args(m.route, r), r, &e) != TARRY_OK) {
        check_error(&e);
        return;
    }
    check_args(&a, about->args);
    if (tr_args_check(&a, about->needed, &e) != TARRY_OK) {
        check_error(&e);
    }
    if (about->body == TR_BODY_MANY) {
        check_items(&a, TR_JSON_ARRAY, TR_ARGS_MANY_JOBS, r);
        check_items(&a, TR_JSON_LINES, TR_ARGS_MANY_JOBS, r);
    } else if (about->body != TR_BODY_NONE) {
        check_items(&a, TR_JSON_VALUE, about->args, r);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tr_mem mem;
    struct tr_http h;
    size_t at = 0;

    if (size > 65536) {
        return 0;
    }
    tr_mem_init(&mem, 0);
    tr_http_init(&h, &mem, &limits);
    while (at < size) {
        at += tr_http_feed(&h, data + at, size - at);
        if (h.state == TR_HTTP_HEAD) {
            tr_http_go_on(&h, BODY_MAX, false);
        } else if (h.state == TR_HTTP_REQUEST) {
            dispatch(&h.request);
            tr_http_next(&h);
        }
    }
    tr_http_fini(&h);
    must(mem.used_bytes == 0);
    return 0;
}
