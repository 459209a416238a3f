/* The beanstalk protocol, as far as a producer and consumer needs it. */

#include "bench/load.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT(out, literal) load_bytes(out, literal, sizeof(literal) - 1)

enum { PRIORITY = 1024, TTR_S = 600 };

/* Goes to the tube of the run and watches nothing else. */
static bool prepare(struct load *l, int fd)
{
    char text[1024];
    unsigned lines = 0;
    int len;

    if (l->opt.tube == NULL) {
        return true;
    }
    len = snprintf(text, sizeof(text), "use %s\r\nwatch %s\r\nignore default\r\n", l->opt.tube,
                   l->opt.tube);
    if (len < 0 || (size_t)len >= sizeof(text) || write(fd, text, (size_t)len) != len) {
        return false;
    }
    while (lines < 3) {
        char c;

        if (read(fd, &c, 1) != 1) {
            return false;
        }
        lines += c == '\n';
    }
    return true;
}

static char *write_put(const struct load *l, char *out, const struct request *r)
{
    out = TEXT(out, "put ");
    out = load_number(out, PRIORITY);
    *out++ = ' ';
    out = load_number(out, r->delay_s);
    *out++ = ' ';
    out = load_number(out, TTR_S);
    *out++ = ' ';
    out = load_number(out, l->opt.body_bytes);
    out = TEXT(out, "\r\n");
    load_fill_body(out, l->opt.body_bytes, r->job);
    return TEXT(out + l->opt.body_bytes, "\r\n");
}

static size_t write_request(struct load *l, char *out, const struct request *r)
{
    char *end = out;

    switch (r->step) {
    case STEP_PUT:
        end = write_put(l, out, r);
        break;
    case STEP_TAKE:
        end = TEXT(end, "reserve\r\n");
        break;
    case STEP_ACK:
        end = TEXT(end, "delete ");
        end = load_number(end, r->id);
        end = TEXT(end, "\r\n");
        break;
    case STEP_PLAIN:
        end = load_bytes(end, r->word, strlen(r->word));
        end = TEXT(end, " t");
        end = load_number(end, r->tube);
        end = TEXT(end, "\r\n");
        break;
    default:
        break;
    }
    return (size_t)(end - out);
}

/* Reads digits and gives where they ended. */
static const char *read_number(const char *p, uint64_t *number)
{
    *number = 0;
    while (*p >= '0' && *p <= '9') {
        *number = *number * 10 + (uint64_t)(*p++ - '0');
    }
    return p;
}

static bool begins(const char *p, size_t len, const char *word)
{
    size_t n = strlen(word);

    return len > n && memcmp(p, word, n) == 0;
}

/* RESERVED <id> <bytes>, the line's length included in `line`. */
static size_t read_job(const char *p, size_t len, size_t line, struct reply *reply)
{
    uint64_t bytes;
    const char *at = read_number(p + 9, &reply->id);

    if (*at != ' ') {
        return line;
    }
    at = read_number(at + 1, &bytes);
    if (*at != '\r') {
        return line;
    }
    if (line + bytes + 2 > len) {
        return 0;
    }
    if (memcmp(p + line + bytes, "\r\n", 2) == 0) {
        reply->answer = ANSWER_FINE;
    }
    reply->body = p + line;
    reply->body_len = bytes;
    return line + bytes + 2;
}

static size_t read_reply(const char *p, size_t len, const struct request *r, struct reply *reply)
{
    const char *end = memchr(p, '\n', len);
    size_t line;

    if (end == NULL) {
        return 0;
    }
    line = (size_t)(end - p) + 1;
    reply->answer = ANSWER_WRONG;
    switch (r->step) {
    case STEP_PUT:
        if (begins(p, line, "INSERTED ") && *read_number(p + 9, &reply->id) == '\r' &&
            reply->id != 0) {
            reply->answer = ANSWER_FINE;
        }
        break;
    case STEP_TAKE:
        if (begins(p, line, "RESERVED ")) {
            return read_job(p, len, line, reply);
        }
        if (begins(p, line, "TIMED_OUT\r")) {
            reply->answer = ANSWER_NONE;
        }
        break;
    case STEP_ACK:
        reply->answer = begins(p, line, "DELETED\r") ? ANSWER_FINE : ANSWER_WRONG;
        break;
    default:
        reply->answer =
            begins(p, line, "USING ") || begins(p, line, "WATCHING ") ? ANSWER_FINE : ANSWER_WRONG;
        break;
    }
    return line;
}

const struct driver load_beanstalk = {
    .name = "beanstalk",
    .prepare = prepare,
    .write = write_request,
    .read = read_reply,
};
