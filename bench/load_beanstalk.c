/* The beanstalk protocol, as far as a producer and consumer needs it. */

#include "bench/load.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT(out, literal) load_bytes(out, literal, sizeof(literal) - 1)

enum { PRIORITY = 1024, TTR_S = 600 };

/* Sends commands and takes an answer of one line for each. */
static bool tell(int fd, const char *text, size_t len)
{
    unsigned lines = 0;
    char c;

    if (write(fd, text, len) != (ssize_t)len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        lines += text[i] == '\n';
    }
    while (lines > 0) {
        if (read(fd, &c, 1) != 1) {
            return false;
        }
        lines -= c == '\n';
    }
    return true;
}

/* The tubes of a large store; the first is one that everybody watches. */
static char *write_tube(char *out, uint32_t tube)
{
    return tube == 0 ? TEXT(out, "default") : load_number(TEXT(out, "t"), tube);
}

/* Puts are spread over --tubes, one for each connection; who takes jobs watches them all. */
static bool prepare_tubes(const struct load *l, const struct conn *c)
{
    char text[64];
    char *end;

    if (strcmp(l->opt.mode, "put") == 0 && l->opt.tubes > 1) {
        end = TEXT(write_tube(TEXT(text, "use "), c->number % l->opt.tubes), "\r\n");
        return tell(c->fd, text, (size_t)(end - text));
    }
    for (uint32_t i = 1; strcmp(l->opt.mode, "take") == 0 && i < l->opt.tubes; i++) {
        end = TEXT(write_tube(TEXT(text, "watch "), i), "\r\n");
        if (!tell(c->fd, text, (size_t)(end - text))) {
            return false;
        }
    }
    return true;
}

/* Goes to the tube of the run and watches nothing else. */
static bool prepare(struct load *l, const struct conn *c)
{
    char text[1024];
    int len;

    if (l->opt.tube == NULL) {
        return prepare_tubes(l, c);
    }
    len = snprintf(text, sizeof(text), "use %s\r\nwatch %s\r\nignore default\r\n", l->opt.tube,
                   l->opt.tube);
    return len > 0 && (size_t)len < sizeof(text) && tell(c->fd, text, (size_t)len);
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

/* A word, an id, the end of the line. */
static char *write_by_id(char *out, const char *word, uint64_t id)
{
    out = load_bytes(out, word, strlen(word));
    return TEXT(load_number(out, id), "\r\n");
}

static char *write_ask(char *out, const struct request *r)
{
    switch (r->ask) {
    case ASK_PEEK:
        return write_by_id(out, "peek ", r->id);
    case ASK_STATE:
        return write_by_id(out, "stats-job ", r->id);
    case ASK_CANCEL:
        return write_by_id(out, "delete ", r->id);
    case ASK_MOVE:
        out = write_by_id(out, "reserve-job ", r->id);
        out = load_number(TEXT(out, "release "), r->id);
        *out++ = ' ';
        out = load_number(out, PRIORITY);
        *out++ = ' ';
        return TEXT(load_number(out, r->delay_s), "\r\n");
    case ASK_FIRST:
        return TEXT(write_tube(TEXT(out, "use "), r->tube), "\r\npeek-delayed\r\n");
    default:
        return TEXT(write_tube(TEXT(out, "stats-tube "), r->tube), "\r\n");
    }
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
        end = write_by_id(end, "delete ", r->id);
        break;
    case STEP_ASK:
        end = write_ask(end, r);
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

/* The bytes of a line, 0 when it is not all there. */
static size_t line_of(const char *p, size_t len)
{
    const char *end = memchr(p, '\n', len);

    return end != NULL ? (size_t)(end - p) + 1 : 0;
}

/* `line` is the length of the first one; at `at` in it stands the number of bytes that follow. */
static size_t read_body(const char *p, size_t len, const char *at, struct reply *reply)
{
    size_t line = line_of(p, len);
    uint64_t bytes;

    at = read_number(at, &bytes);
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

/* <word> <id> <bytes>, and the body. */
static size_t read_job(const char *p, size_t len, const char *word, struct reply *reply)
{
    size_t line = line_of(p, len);
    const char *at;

    if (line == 0 || !begins(p, line, word)) {
        return line;
    }
    at = read_number(p + strlen(word), &reply->id);
    return *at == ' ' ? read_body(p, len, at + 1, reply) : line;
}

static bool has(const struct reply *reply, const char *text)
{
    return reply->body_len > 0 && memmem(reply->body, reply->body_len, text, strlen(text)) != NULL;
}

/* OK <bytes>, and lines, one of which must be there. */
static size_t read_lines(const char *p, size_t len, const char *wanted, struct reply *reply)
{
    size_t line = line_of(p, len);
    size_t used = line;

    if (line > 0 && begins(p, line, "OK ")) {
        used = read_body(p, len, p + 3, reply);
    }
    if (!has(reply, wanted)) {
        reply->answer = ANSWER_WRONG;
    }
    reply->body = NULL; /* not a job's */
    return used;
}

/* Two answers, each of which must be good; the body is the job's. */
static size_t read_two(const char *p, size_t len, enum ask ask, struct reply *reply)
{
    bool job_first = ask == ASK_MOVE;
    size_t first = job_first ? read_job(p, len, "RESERVED ", reply) : line_of(p, len);
    const char *next = p + first;
    size_t left = len - first;
    size_t second = 0;

    if (first > 0 && left > 0) {
        second = job_first ? line_of(next, left) : read_job(next, left, "FOUND ", reply);
    }
    if (second == 0) {
        return 0;
    }
    if (job_first ? !begins(next, second, "RELEASED\r") : !begins(p, first, "USING ")) {
        reply->answer = ANSWER_WRONG;
    }
    return first + second;
}

static size_t read_asked(const char *p, size_t len, const struct request *r, struct reply *reply)
{
    size_t used;

    switch (r->ask) {
    case ASK_PEEK:
        used = read_job(p, len, "FOUND ", reply);
        break;
    case ASK_STATE:
        return read_lines(p, len, "\nstate: delayed\n", reply);
    case ASK_CANCEL:
        used = line_of(p, len);
        reply->answer = begins(p, used, "DELETED\r") ? ANSWER_FINE : ANSWER_WRONG;
        return used;
    case ASK_COUNT:
        return read_lines(p, len, "\ncurrent-jobs-delayed: ", reply);
    default:
        used = read_two(p, len, r->ask, reply);
        break;
    }
    if (r->ask != ASK_FIRST && reply->id != r->id) {
        reply->answer = ANSWER_WRONG;
    }
    return used;
}

static size_t read_reply(const char *p, size_t len, const struct request *r, struct reply *reply)
{
    size_t line = line_of(p, len);

    if (line == 0) {
        return 0;
    }
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
            return read_job(p, len, "RESERVED ", reply);
        }
        if (begins(p, line, "TIMED_OUT\r")) {
            reply->answer = ANSWER_NONE;
        }
        break;
    case STEP_ASK:
        return read_asked(p, len, r, reply);
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
