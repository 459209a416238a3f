/*
 * On libcurl's multi interface. Handles of finished calls are kept for the next ones, and with the
 * multi handle their connections.
 */

#include "cli/calls.h"

#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TR_CURL
#include "cli/http_inner.h"

enum { SPARE = 64 };

struct tr_cli_call {
    CURL *curl;
    struct tr_cli_transfer transfer;
    struct tr_cli_answer answer;
    void *body;
    tr_cli_called_fn *called;
    void *ctx;
    struct tr_cli_call *next;
};

struct tr_cli_calls {
    const struct tr_cli_server *server;
    CURLM *multi;
    struct tr_cli_call *first; /* under way */
    CURL *spare[SPARE];
    unsigned spares;
    unsigned count;
};

struct tr_cli_calls *tr_cli_calls_open(const struct tr_cli_server *s)
{
    struct tr_cli_calls *calls = tr_cli_memory(NULL, sizeof *calls);

    *calls = (struct tr_cli_calls){.server = s, .multi = curl_multi_init()};
    if (calls->multi == NULL) {
        fputs("tarry: there is no memory left.\n", stderr);
        free(calls);
        return NULL;
    }
    return calls;
}

unsigned tr_cli_calls_count(const struct tr_cli_calls *calls)
{
    return calls->count;
}

static void unlink_call(struct tr_cli_calls *calls, const struct tr_cli_call *call)
{
    struct tr_cli_call **at = &calls->first;

    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    calls->count--;
}

static void end(struct tr_cli_calls *calls, struct tr_cli_call *call)
{
    (void)curl_multi_remove_handle(calls->multi, call->curl);
    tr_cli_transfer_end(&call->transfer, call->curl);
    if (calls->spares < SPARE) {
        calls->spare[calls->spares++] = call->curl;
    } else {
        curl_easy_cleanup(call->curl);
    }
    tr_cli_answer_fini(&call->answer);
    free(call->body);
    free(call);
}

void tr_cli_call_drop(struct tr_cli_calls *calls, struct tr_cli_call *call)
{
    unlink_call(calls, call);
    end(calls, call);
}

void tr_cli_calls_close(struct tr_cli_calls *calls)
{
    while (calls->first != NULL) {
        tr_cli_call_drop(calls, calls->first);
    }
    while (calls->spares > 0) {
        curl_easy_cleanup(calls->spare[--calls->spares]);
    }
    (void)curl_multi_cleanup(calls->multi);
    free(calls);
}

struct tr_cli_call *tr_cli_call(struct tr_cli_calls *calls, const struct tr_cli_request *r,
                                tr_cli_called_fn *called, void *ctx)
{
    char url[TR_CLI_URL_MAX];
    struct tr_cli_request copy = *r;
    struct tr_cli_call *call;

    if (tr_cli_url(calls->server, r->target, url) != TR_CLI_FINE) {
        return NULL;
    }
    call = tr_cli_memory(NULL, sizeof *call);
    *call = (struct tr_cli_call){.called = called, .ctx = ctx};
    call->transfer.answer = &call->answer;
    call->curl = calls->spares > 0 ? calls->spare[--calls->spares] : curl_easy_init();
    if (r->body != NULL) {
        call->body = tr_cli_memory(NULL, r->len + 1);
        memcpy(call->body, r->body, r->len);
        copy.body = call->body;
    }
    if (call->curl == NULL ||
        !tr_cli_transfer_begin(&call->transfer, call->curl, calls->server, &copy, url)) {
        fputs("tarry: there is no memory left.\n", stderr);
        exit(TR_CLI_FAILED);
    }
    (void)curl_easy_setopt(call->curl, CURLOPT_PRIVATE, call);
    (void)curl_multi_add_handle(calls->multi, call->curl);
    call->next = calls->first;
    calls->first = call;
    calls->count++;
    return call;
}

static void finish(struct tr_cli_calls *calls, CURL *curl, CURLcode code)
{
    char *private = NULL;
    struct tr_cli_call *call;

    (void)curl_easy_getinfo(curl, CURLINFO_PRIVATE, &private);
    call = (void *)private;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &call->answer.status);
    unlink_call(calls, call);
    call->called(call->ctx, code == CURLE_OK ? &call->answer : NULL, curl_easy_strerror(code));
    end(calls, call);
}

void tr_cli_calls_wait(struct tr_cli_calls *calls, int fd, int timeout_ms)
{
    struct curl_waitfd more = {.fd = fd, .events = CURL_WAIT_POLLIN};
    CURLMsg *message;
    int running;
    int left;

    (void)curl_multi_perform(calls->multi, &running);
    if ((unsigned)running == calls->count) { /* else there are answers already */
        (void)curl_multi_poll(calls->multi, &more, fd >= 0 ? 1 : 0, timeout_ms, NULL);
        (void)curl_multi_perform(calls->multi, &running);
    }
    while ((message = curl_multi_info_read(calls->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            finish(calls, message->easy_handle, message->data.result);
        }
    }
}

#else

struct tr_cli_calls *tr_cli_calls_open(const struct tr_cli_server *s)
{
    struct tr_cli_server copy = *s;
    struct tr_cli_answer a;

    (void)!tr_cli_send(&copy, &(struct tr_cli_request){.method = "GET", .target = "/"}, &a);
    return NULL;
}

void tr_cli_calls_close(struct tr_cli_calls *calls)
{
    (void)calls;
}

struct tr_cli_call *tr_cli_call(struct tr_cli_calls *calls, const struct tr_cli_request *r,
                                tr_cli_called_fn *called, void *ctx)
{
    (void)calls;
    (void)r;
    (void)called;
    (void)ctx;
    return NULL;
}

void tr_cli_call_drop(struct tr_cli_calls *calls, struct tr_cli_call *call)
{
    (void)calls;
    (void)call;
}

unsigned tr_cli_calls_count(const struct tr_cli_calls *calls)
{
    (void)calls;
    return 0;
}

void tr_cli_calls_wait(struct tr_cli_calls *calls, int fd, int timeout_ms)
{
    (void)calls;
    (void)fd;
    (void)timeout_ms;
}

#endif
