#ifndef TR_PROTO_HTTP_ARGS_H
#define TR_PROTO_HTTP_ARGS_H

/*
 * The arguments of the HTTP API: parameters of a query, or members of a JSON object, which have the
 * same names and are read by the same rules. See http_args.c.
 *
 * TR_HTTP_ARGS is the one list of them: what is allowed where (http_route.h), how it is checked and
 * how it is described all come from it.
 */

#include "base/check.h"
#include "proto/http_parse.h"
#include "proto/http_reply.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a value is read, and into what. */
enum tr_arg_kind {
    TR_KIND_DURATION, /* number: microseconds */
    TR_KIND_MOVE,     /* number: the same with a sign */
    TR_KIND_MOMENT,   /* number: microseconds since 1970 */
    TR_KIND_NUMBER,   /* number */
    TR_KIND_RATE,     /* number: thousandths */
    TR_KIND_BOOL,     /* number: 0 or 1 */
    TR_KIND_CHOICE,   /* number: which of the words */
    TR_KIND_BACKOFF,  /* text: it can be read */
    TR_KIND_TOPIC,    /* text: it is the name of a topic */
    TR_KIND_TOPICS,   /* text: names with commas between them */
    TR_KIND_LABEL,    /* text: UTF-8 without control characters, of so many bytes */
    TR_KIND_ID,       /* number: 0 when there cannot be such a job */
    TR_KIND_BODY,     /* text: any bytes; of JSON a string, or another value as it stands there */
    TR_KIND_BASE64,   /* text: the bytes */
    TR_KIND_JSON,     /* text: a JSON value, as it stands there */
};

/*
 * Each argument: its own name, what it is called, its kind, from, to (of the number, or of the
 * length of a label), the words of a choice, what it is for. Two may be called the same as long as
 * no route has both.
 */
#define TR_HTTP_ARGS(X)                                                                            \
    X(DELAY, "delay", DURATION, 0, TR_ARGS_LONG, NULL, "how long from now it is due")              \
    X(AT, "at", MOMENT, TR_ARGS_PAST, TR_ARGS_EVER, NULL, "when it is due")                        \
    X(KEY, "key", LABEL, 1, 255, NULL, "a name for the job, unique in its topic")                  \
    X(ON_CONFLICT, "on_conflict", CHOICE, 0, 0, "replace|keep|error",                              \
      "what to do when there is a job with this key")                                              \
    X(PRIORITY, "priority", NUMBER, 0, UINT32_MAX, NULL, "smaller first; default 1024")            \
    X(TTR, "ttr", DURATION, 1, TR_ARGS_LONG, NULL, "how long a consumer may hold it")              \
    X(TTL, "ttl", DURATION, 1, TR_ARGS_LONG, NULL, "how long after due it is still delivered")     \
    X(TAG, "tag", LABEL, 1, 64, NULL, "a label to filter by")                                      \
    X(RETRIES, "retries", NUMBER, -1, 1000000000, NULL, "attempts after the first; -1: no end")    \
    X(BACKOFF, "backoff", BACKOFF, 0, 0, NULL, "how long it waits after each attempt")             \
    X(BODY, "body", BODY, 0, 0, NULL, "the bytes of the job")                                      \
    X(BODY_BASE64, "body_base64", BASE64, 0, 0, NULL, "the bytes of the job, in base64")           \
    X(TOPIC, "topic", TOPIC, 0, 0, NULL, "jobs of this topic")                                     \
    X(TOPICS, "topics", TOPICS, 0, 0, NULL, "topics, with commas between them")                    \
    X(STATE, "state", CHOICE, 0, 0, "delayed|ready|reserved|dead", "jobs in this state")           \
    X(DUE_FROM, "due_from", MOMENT, TR_ARGS_PAST, TR_ARGS_EVER, NULL, "due then or later")         \
    X(DUE_TO, "due_to", MOMENT, TR_ARGS_PAST, TR_ARGS_EVER, NULL, "due before")                    \
    X(PAGE, "limit", NUMBER, 1, 1000, NULL, "so many at most; default 100")                        \
    X(MOST, "limit", NUMBER, 1, 1000000, NULL, "so many at most; default 1000000")                 \
    X(CURSOR, "cursor", LABEL, 1, 255, NULL, "from the answer before")                             \
    X(MATCH, "match", LABEL, 1, 200, NULL, "only names in which this stands")                      \
    X(OUTLET, "outlet", BOOL, 0, 0, NULL, "only topics whose jobs are delivered")                  \
    X(SORT, "sort", CHOICE, 0, 0, "delayed|ready|reserved|dead|pushed|handed|late|oldest",         \
      "those with the most of it first")                                                           \
    X(BY, "by", MOVE, -TR_ARGS_LONG, TR_ARGS_LONG, NULL, "how far to move due times")              \
    X(TO, "to", MOMENT, TR_ARGS_PAST, TR_ARGS_EVER, NULL, "the moment to move to")                 \
    X(DRY_RUN, "dry_run", BOOL, 0, 0, NULL, "only count")                                          \
    X(FORCE, "force", BOOL, 0, 0, NULL,                                                            \
      "though it is reserved, or not empty, or no lease is given")                                 \
    X(LEASE, "lease", LABEL, 1, 64, NULL, "from reserve: proves that the job is yours")            \
    X(WAIT, "wait", DURATION, 0, TR_ARGS_WAIT, NULL, "how long to wait for a job")                 \
    X(JOBS, "count", NUMBER, 1, 1000, NULL, "so many jobs at most; default 1")                     \
    X(WHAT, "what", CHOICE, 0, 0, "in|out|both", "pushes, hand-outs or both; default out")         \
    X(FOR, "for", DURATION, 1, TR_ARGS_LONG, NULL, "how long; default: until resumed")             \
    X(FROM, "from", MOMENT, TR_ARGS_PAST, TR_ARGS_EVER, NULL, "the beginning; default now")        \
    X(STEP, "step", DURATION, 1000000, TR_ARGS_LONG, NULL, "the length of a step")                 \
    X(CRON, "cron", LABEL, 1, 256, NULL, "when, as cron writes it: 5 or 6 fields, or @daily")      \
    X(TZ, "tz", LABEL, 1, 64, NULL, "the time zone of cron, such as Asia/Shanghai; default UTC")   \
    X(EVERY, "every", DURATION, 1000, TR_ARGS_LONG, NULL, "a fixed rate, from due to due")         \
    X(AFTER, "after", DURATION, 1000, TR_ARGS_LONG, NULL, "a fixed delay, from end to due")        \
    X(START, "start", MOMENT, TR_ARGS_PAST, TR_ARGS_EVER, NULL, "no sooner than this")             \
    X(END, "end", MOMENT, TR_ARGS_PAST, TR_ARGS_EVER, NULL, "not from then on")                    \
    X(OCCURRENCES, "limit", NUMBER, 1, TR_ARGS_MANY, NULL, "so many times at most")                \
    X(OVERLAP, "overlap", CHOICE, 0, 0, "skip|queue|allow", "while the last job lives; skip")      \
    X(MISSED, "missed", CHOICE, 0, 0, "once|all|skip", "after a time without a server; once")      \
    X(N, "n", NUMBER, 1, 1000, NULL, "so many; default 10")                                        \
    X(DIR, "dir", LABEL, 1, 1024, NULL, "a folder below store.backup_root")                        \
    X(ADVANCE, "by", DURATION, 0, TR_ARGS_LONG, NULL, "how far to move the clock")                 \
    X(ID, "id", ID, 0, 0, NULL, "the number of the job")                                           \
    X(EXPIRE, "expire", BOOL, 0, 0, NULL, "what is overdue, too; default true")                    \
    X(RATE, "rate", RATE, 1, TR_ARGS_RATE_MAX, NULL, "handed out per second at most")              \
    X(BURST, "burst", NUMBER, 1, 1000000000, NULL, "handed out at once after a rest")              \
    X(MAX_JOBS, "max_jobs", NUMBER, 0, TR_ARGS_MANY, NULL, "pushes beyond are refused")            \
    X(MAX_BYTES, "max_bytes", NUMBER, 0, TR_ARGS_MANY, NULL, "pushes beyond are refused")          \
    X(DEAD_KEEP, "dead_keep", DURATION, 0, TR_ARGS_LONG, NULL, "how long dead jobs are kept")      \
    X(DEAD_MAX, "dead_max", NUMBER, 0, TR_ARGS_MANY, NULL, "dead jobs kept at most")               \
    X(IN_FLIGHT, "in_flight", NUMBER, 1, TR_ARGS_MANY, NULL, "reserved at once at most")           \
    X(JITTER, "jitter", DURATION, 0, TR_ARGS_LONG, NULL, "spreads due times by up to this")        \
    X(HISTORY, "history", CHOICE, 0, 0, "off|brief|full", "how much is noted")                     \
    X(SPREAD, "spread", NUMBER, 1, 65536, NULL, "slots; only with --engine redis")                 \
    X(DELIVER, "deliver", JSON, 0, 0, NULL, "where due jobs are sent")                             \
    X(PAUSED, "paused", JSON, 0, 0, NULL, "no, in, out, both, or what and until")

#define TR_ARGS_LONG INT64_C(4320432000000000) /* 137 years */
#define TR_ARGS_PAST INT64_MIN
#define TR_ARGS_EVER INT64_MAX
#define TR_ARGS_WAIT INT64_C(600000000)
#define TR_ARGS_MANY (INT64_C(1) << 53)
#define TR_ARGS_RATE_MAX INT64_C(1000000000000)

enum tr_arg {
#define X(name, called, kind, from, to, words, about) TR_ARG_##name,
    TR_HTTP_ARGS(X)
#undef X
        TR_ARG_COUNT
};

#define TR_ARG_BIT(name) (UINT64_C(1) << TR_ARG_##name)

/* A row of the list. */
struct tr_arg_about {
    const char *called;
    enum tr_arg_kind kind;
    int64_t from;
    int64_t to;
    const char *words;
    const char *about;
};

extern const struct tr_arg_about tr_arg_table[TR_ARG_COUNT];

struct tr_arg_value {
    int64_t number;
    struct tr_http_text text; /* where the bytes stand that were read: they must stay there */
};

/* What was given. */
struct tr_args {
    uint64_t given;   /* TR_ARG_BIT; values of others are not set */
    uint64_t cleared; /* members that were null */
    struct tr_arg_value values[TR_ARG_COUNT];
    char message[288]; /* of an error */
    char field[32];
};

/* Begins with nothing given. */
void tr_args_init(struct tr_args *a);

/*
 * Reads a query, of which these arguments are allowed. TARRY_EINVAL: *e is the reply, and points
 * into a. An argument that is unknown or given twice is an error.
 */
TR_MUST_USE int tr_args_query(struct tr_args *a, uint64_t allowed,
                              const struct tr_http_request *request, struct tr_http_error *e);

/*
 * Reads a JSON object that has passed json_in.h; the same. Strings are decoded where they stand:
 * the text is not JSON any more afterwards.
 */
TR_MUST_USE int tr_args_json(struct tr_args *a, uint64_t allowed, char *text, size_t len,
                             struct tr_http_error *e);

/* All of `needed` must be given, and of arguments that exclude each other only one. */
TR_MUST_USE int tr_args_check(struct tr_args *a, uint64_t needed, struct tr_http_error *e);

/* 1 to most bytes of UTF-8 without control characters. */
bool tr_label_ok(const char *text, size_t len, size_t most);

/* Digits: a number, 0 when it is more than an id can be. False: not only digits. */
bool tr_id_read(const char *text, size_t len, uint64_t *id);

#endif
