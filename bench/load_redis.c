/*
 * The classic queue on Redis: a hash of bodies, a sorted set of what is delayed (by due time in
 * us), a list of what is ready.
 *
 * A put is one script: HSET, and ZADD or RPUSH. A mover sends the second script every few
 * milliseconds: up to MOVE_MAX due jobs go from the set to the list. A consumer waits with BLPOP,
 * then asks HGET and HDEL together. The producer numbers the jobs, which saves Redis an INCR.
 */

#include "bench/load.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT(out, literal) load_bytes(out, literal, sizeof(literal) - 1)

enum { PUSH, MOVE, FIRST, CANCEL };

static const char *const scripts[] = {
    [PUSH] = "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) "
             "if ARGV[3] == '0' then redis.call('RPUSH', KEYS[3], ARGV[1]) "
             "else redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1]) end return 1",
    [MOVE] = "local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'LIMIT', 0, 1000) "
             "if #due > 0 then redis.call('ZREM', KEYS[2], unpack(due)) "
             "redis.call('RPUSH', KEYS[3], unpack(due)) end return #due",
    [FIRST] = "return redis.call('HGET', KEYS[1], "
              "redis.call('ZRANGE', KEYS[2], 0, 0)[1])",
    [CANCEL] = "return redis.call('ZREM', KEYS[2], ARGV[1]) + "
               "redis.call('HDEL', KEYS[1], ARGV[1]) - 1",
};

static_assert(sizeof(scripts) / sizeof(scripts[0]) == LOAD_SCRIPTS, "a name for each");

/* SCRIPT LOAD; the answer is $40, then the name. */
static bool load_script(int fd, const char *script, char name[41])
{
    char text[1024];
    char said[47];
    size_t got = 0;
    int len = snprintf(text, sizeof(text), "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n",
                       strlen(script), script);

    if (len < 0 || (size_t)len >= sizeof(text) || write(fd, text, (size_t)len) != len) {
        return false;
    }
    while (got < sizeof(said)) {
        ssize_t n = read(fd, said + got, sizeof(said) - got);

        if (n <= 0) {
            return false;
        }
        got += (size_t)n;
    }
    memcpy(name, said + 5, 40);
    name[40] = '\0';
    return memcmp(said, "$40\r\n", 5) == 0;
}

static bool prepare(struct load *l, const struct conn *c)
{
    for (unsigned i = 0; i < LOAD_SCRIPTS && c->number == 0; i++) {
        if (!load_script(c->fd, scripts[i], l->scripts[i])) {
            return false;
        }
    }
    return true;
}

static char *bulk(char *out, const char *bytes, size_t len)
{
    *out++ = '$';
    out = load_number(out, len);
    out = TEXT(out, "\r\n");
    out = load_bytes(out, bytes, len);
    return TEXT(out, "\r\n");
}

static char *bulk_number(char *out, uint64_t number)
{
    char digits[24];
    const char *end = load_number(digits, number);

    return bulk(out, digits, (size_t)(end - digits));
}

static char *script_head(char *out, const char *head, const char *name)
{
    out = load_bytes(out, head, strlen(head));
    out = TEXT(out, "$7\r\nEVALSHA\r\n$40\r\n");
    out = load_bytes(out, name, 40);
    return TEXT(out, "\r\n$1\r\n3\r\n$6\r\nq:jobs\r\n$9\r\nq:delayed\r\n$7\r\nq:ready\r\n");
}

static uint64_t wall_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static char *write_put(const struct load *l, char *out, const struct request *r)
{
    size_t len = l->opt.body_bytes;

    out = script_head(out, "*9\r\n", l->scripts[PUSH]);
    out = bulk_number(out, r->job);
    *out++ = '$';
    out = load_number(out, len);
    out = TEXT(out, "\r\n");
    load_fill_body(out, len, r->job);
    out = TEXT(out + len, "\r\n");
    /* One us more, as the clock is cut off: never early. */
    return bulk_number(out, r->delay_s == 0 ? 0 : wall_us() + 1 + r->delay_s * UINT64_C(1000000));
}

/* A new due time is one ZADD; XX CH: it must be there, and is counted when it changes. */
static char *write_ask(const struct load *l, char *out, const struct request *r)
{
    switch (r->ask) {
    case ASK_PEEK:
        out = TEXT(out, "*3\r\n$4\r\nHGET\r\n$6\r\nq:jobs\r\n");
        return bulk_number(out, r->id);
    case ASK_STATE:
        out = TEXT(out, "*3\r\n$6\r\nZSCORE\r\n$9\r\nq:delayed\r\n");
        return bulk_number(out, r->id);
    case ASK_CANCEL:
        return bulk_number(script_head(out, "*7\r\n", l->scripts[CANCEL]), r->id);
    case ASK_MOVE:
        out = TEXT(out, "*6\r\n$4\r\nZADD\r\n$9\r\nq:delayed\r\n$2\r\nXX\r\n$2\r\nCH\r\n");
        out = bulk_number(out, wall_us() + r->delay_s * UINT64_C(1000000));
        return bulk_number(out, r->id);
    case ASK_FIRST:
        return script_head(out, "*6\r\n", l->scripts[FIRST]);
    default:
        return TEXT(out, "*2\r\n$5\r\nZCARD\r\n$9\r\nq:delayed\r\n");
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
        end = TEXT(end, "*3\r\n$5\r\nBLPOP\r\n$7\r\nq:ready\r\n$1\r\n0\r\n");
        break;
    case STEP_FETCH:
        end = TEXT(end, "*3\r\n$4\r\nHGET\r\n$6\r\nq:jobs\r\n");
        end = bulk_number(end, r->id);
        break;
    case STEP_ACK:
        end = TEXT(end, "*3\r\n$4\r\nHDEL\r\n$6\r\nq:jobs\r\n");
        end = bulk_number(end, r->id);
        break;
    case STEP_MOVE:
        end = script_head(end, "*7\r\n", l->scripts[MOVE]);
        end = bulk_number(end, wall_us() + l->opt.later_s * UINT64_C(1000000));
        break;
    case STEP_ASK:
        end = write_ask(l, end, r);
        break;
    default:
        break;
    }
    return (size_t)(end - out);
}

/* A bulk string at p: gives its bytes, 0 when it is not all there. */
static size_t read_bulk(const char *p, size_t len, const char **at, size_t *at_len)
{
    const char *end = memchr(p, '\n', len);
    size_t line;

    if (end == NULL) {
        return 0;
    }
    line = (size_t)(end - p) + 1;
    *at = NULL;
    *at_len = 0;
    if (p[0] != '$' || p[1] == '-') {
        return line;
    }
    *at_len = strtoul(p + 1, NULL, 10);
    *at = p + line;
    return line + *at_len + 2 <= len ? line + *at_len + 2 : 0;
}

/* BLPOP's answer: an array of the list's name and the job's number, or nothing. */
static size_t read_taken(const char *p, size_t len, struct reply *reply)
{
    const char *at;
    size_t at_len;
    size_t name;
    size_t number;

    if (len < 4) {
        return 0;
    }
    if (memcmp(p, "*2\r\n", 4) != 0) {
        const char *end = memchr(p, '\n', len);

        reply->answer = p[0] == '*' ? ANSWER_NONE : ANSWER_WRONG;
        return end != NULL ? (size_t)(end - p) + 1 : 0;
    }
    name = read_bulk(p + 4, len - 4, &at, &at_len);
    number = name > 0 ? read_bulk(p + 4 + name, len - 4 - name, &at, &at_len) : 0;
    if (number == 0) {
        return 0;
    }
    reply->answer = at != NULL ? ANSWER_FINE : ANSWER_WRONG;
    reply->id = at != NULL ? strtoull(at, NULL, 10) : 0;
    return 4 + name + number;
}

static size_t read_reply(const char *p, size_t len, const struct request *r, struct reply *reply)
{
    const char *end;

    if (r->step == STEP_TAKE) {
        return read_taken(p, len, reply);
    }
    if (r->step == STEP_FETCH || r->ask == ASK_PEEK || r->ask == ASK_FIRST || r->ask == ASK_STATE) {
        size_t used = read_bulk(p, len, &reply->body, &reply->body_len);

        reply->answer = reply->body != NULL ? ANSWER_FINE : ANSWER_WRONG;
        if (r->ask == ASK_STATE) {
            reply->body = NULL; /* not a job's */
        }
        return used;
    }
    end = memchr(p, '\n', len);
    if (end == NULL) {
        return 0;
    }
    reply->number = p[0] == ':' ? strtoull(p + 1, NULL, 10) : 0;
    reply->answer =
        p[0] == ':' && (r->step == STEP_MOVE || r->ask == ASK_COUNT || reply->number == 1)
            ? ANSWER_FINE
            : ANSWER_WRONG;
    return (size_t)(end - p) + 1;
}

const struct driver load_redis = {
    .name = "redis",
    .fetches = true,
    .needs_move = true,
    .prepare = prepare,
    .write = write_request,
    .read = read_reply,
};
