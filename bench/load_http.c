/*
 * The HTTP port, as far as a producer and consumer needs it: one raw body in, JSON out.
 *
 * Bodies of the generator are not text, so they come back as base64. A reserve waits; it is
 * answered as soon as there is a job, with one.
 */

#include "base/base64.h"
#include "bench/load.h"

#include <string.h>

#define TEXT(out, literal) load_bytes(out, literal, sizeof(literal) - 1)
#define NO_BODY " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"

static char *write_topic(const struct load *l, char *out)
{
    const char *topic = l->opt.tube != NULL ? l->opt.tube : "default";

    return load_bytes(TEXT(out, "POST /v1/topics/"), topic, strlen(topic));
}

static char *write_put(const struct load *l, char *out, const struct request *r)
{
    out = TEXT(write_topic(l, out), "/jobs?delay=");
    out = TEXT(load_number(out, r->delay_s), " HTTP/1.1\r\nHost: localhost\r\nContent-Length: ");
    out = TEXT(load_number(out, l->opt.body_bytes), "\r\n\r\n");
    load_fill_body(out, l->opt.body_bytes, r->job);
    return out + l->opt.body_bytes;
}

static size_t write_request(struct load *l, char *out, const struct request *r)
{
    char *end = out;

    switch (r->step) {
    case STEP_PUT:
        end = write_put(l, out, r);
        break;
    case STEP_TAKE:
        end = TEXT(write_topic(l, out), "/reserve?wait=10m" NO_BODY);
        break;
    case STEP_ACK:
        end = load_number(TEXT(out, "POST /v1/jobs/"), r->id);
        end = load_bytes(TEXT(end, "/ack?lease="), r->lease, strlen(r->lease));
        end = TEXT(end, NO_BODY);
        break;
    default:
        break;
    }
    return (size_t)(end - out);
}

/* ---- replies ---- */

/* Behind `text` in len bytes at p, or NULL. */
static const char *after(const char *p, size_t len, const char *text)
{
    const char *at = memmem(p, len, text, strlen(text));

    return at != NULL ? at + strlen(text) : NULL;
}

static uint64_t number_at(const char *p)
{
    uint64_t n = 0;

    while (p != NULL && *p >= '0' && *p <= '9') {
        n = n * 10 + (uint64_t)(*p++ - '0');
    }
    return n;
}

/* The value of a string without escapes: up to its quote. */
static size_t text_at(const char *p, const char *end)
{
    const char *quote = p != NULL ? memchr(p, '"', (size_t)(end - p)) : NULL;

    return quote != NULL ? (size_t)(quote - p) : 0;
}

static void read_job(const char *json, size_t len, struct reply *reply)
{
    static uint8_t body[LOAD_BODY_MAX + 3];
    const char *lease = after(json, len, "\"lease\":\"");
    const char *text = after(json, len, "\"body_base64\":\"");
    size_t text_len = text_at(text, json + len);

    if (text_at(lease, json + len) != sizeof(reply->lease) - 1 || text_len == 0 ||
        text_len / 4 * 3 > sizeof(body) ||
        !tr_base64_read(body, &reply->body_len, text, text_len)) {
        reply->answer = ANSWER_WRONG;
        return;
    }
    memcpy(reply->lease, lease, sizeof(reply->lease) - 1);
    reply->body = (const char *)body;
}

static bool right(enum step step, uint64_t status)
{
    return status == (step == STEP_PUT ? 201 : 200);
}

static size_t read_reply(const char *p, size_t len, const struct request *r, struct reply *reply)
{
    const char *json = after(p, len, "\r\n\r\n");
    size_t head = json != NULL ? (size_t)(json - p) : 0;
    uint64_t status;
    uint64_t bytes;

    if (head == 0 || len < sizeof("HTTP/1.1 200")) {
        return 0;
    }
    status = number_at(p + sizeof("HTTP/1.1"));
    bytes = number_at(after(p, head, "Content-Length: "));
    if (bytes > len - head) {
        return 0;
    }
    reply->answer = right(r->step, status) ? ANSWER_FINE : ANSWER_WRONG;
    if (status == 204) {
        reply->answer = ANSWER_NONE;
    }
    if (reply->answer == ANSWER_FINE && r->step != STEP_ACK) {
        reply->id = number_at(after(json, bytes, "\"id\":\""));
        reply->answer = reply->id != 0 ? ANSWER_FINE : ANSWER_WRONG;
    }
    if (reply->answer == ANSWER_FINE && r->step == STEP_TAKE) {
        read_job(json, bytes, reply);
    }
    return head + bytes;
}

const struct driver load_http = {
    .name = "http",
    .plain = true,
    .write = write_request,
    .read = read_reply,
};
