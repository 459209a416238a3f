#ifndef TR_PROTO_HTTP_ROUTE_H
#define TR_PROTO_HTTP_ROUTE_H

/*
 * The routes of the HTTP API: one list, from which requests are dispatched, 404 and 405 are made,
 * arguments are checked and the API is described. See http_route.c.
 */

#include "proto/http_args.h"
#include "proto/http_parse.h"
#include "proto/http_reply.h"
#include "rules/token.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_ROUTE_SEGMENTS_MAX = 6 };

enum tr_route_body {
    TR_BODY_NONE,   /* a body is an error */
    TR_BODY_RAW,    /* the bytes of a job; all that follow are JSON */
    TR_BODY_OBJECT, /* a JSON object with arguments */
    TR_BODY_EITHER, /* the same, or arguments in the query and no body */
    TR_BODY_MANY,   /* a JSON array or NDJSON of objects */
};

/* What a route may answer for reasons of its own; any request may get others. */
enum tr_route_status {
    TR_STATUS_200,
    TR_STATUS_201,
    TR_STATUS_204,
    TR_STATUS_304,
    TR_STATUS_400,
    TR_STATUS_404,
    TR_STATUS_409,
    TR_STATUS_413,
    TR_STATUS_415,
    TR_STATUS_501,
    TR_STATUS_503,
    TR_STATUS_COUNT
};

/* Sets of arguments. */
#define TR_ARGS_DUE (TR_ARG_BIT(DELAY) | TR_ARG_BIT(AT))
#define TR_ARGS_JOB                                                                                \
    (TR_ARGS_DUE | TR_ARG_BIT(KEY) | TR_ARG_BIT(ON_CONFLICT) | TR_ARG_BIT(PRIORITY) |              \
     TR_ARG_BIT(TTR) | TR_ARG_BIT(TTL) | TR_ARG_BIT(TAG) | TR_ARG_BIT(RETRIES) |                   \
     TR_ARG_BIT(BACKOFF))
#define TR_ARGS_BODY (TR_ARG_BIT(BODY) | TR_ARG_BIT(BODY_BASE64))
#define TR_ARGS_MANY_JOBS (TR_ARGS_JOB | TR_ARGS_BODY | TR_ARG_BIT(TOPIC))
#define TR_ARGS_EDIT                                                                               \
    (TR_ARGS_DUE | TR_ARGS_BODY | TR_ARG_BIT(PRIORITY) | TR_ARG_BIT(TAG) | TR_ARG_BIT(TTL) |       \
     TR_ARG_BIT(TTR))
#define TR_ARGS_FILTER                                                                             \
    (TR_ARG_BIT(TOPIC) | TR_ARG_BIT(STATE) | TR_ARG_BIT(TAG) | TR_ARG_BIT(DUE_FROM) |              \
     TR_ARG_BIT(DUE_TO))
#define TR_ARGS_BULK (TR_ARGS_FILTER | TR_ARG_BIT(MOST) | TR_ARG_BIT(DRY_RUN))
#define TR_ARGS_RESERVE (TR_ARG_BIT(WAIT) | TR_ARG_BIT(JOBS) | TR_ARG_BIT(TTR) | TR_ARG_BIT(TAG))
#define TR_ARGS_POLICY                                                                             \
    (TR_ARG_BIT(TTR) | TR_ARG_BIT(RETRIES) | TR_ARG_BIT(BACKOFF) | TR_ARG_BIT(TTL) |               \
     TR_ARG_BIT(RATE) | TR_ARG_BIT(BURST) | TR_ARG_BIT(MAX_JOBS) | TR_ARG_BIT(MAX_BYTES) |         \
     TR_ARG_BIT(DEAD_KEEP) | TR_ARG_BIT(DEAD_MAX) | TR_ARG_BIT(IN_FLIGHT) | TR_ARG_BIT(JITTER) |   \
     TR_ARG_BIT(HISTORY) | TR_ARG_BIT(SPREAD) | TR_ARG_BIT(DELIVER) | TR_ARG_BIT(PAUSED))
#define TR_ARGS_SCHEDULE                                                                           \
    (TR_ARGS_BODY | TR_ARG_BIT(TOPIC) | TR_ARG_BIT(CRON) | TR_ARG_BIT(TZ) | TR_ARG_BIT(EVERY) |    \
     TR_ARG_BIT(AFTER) | TR_ARG_BIT(START) | TR_ARG_BIT(END) | TR_ARG_BIT(OCCURRENCES) |           \
     TR_ARG_BIT(JITTER) | TR_ARG_BIT(OVERLAP) | TR_ARG_BIT(MISSED) | TR_ARG_BIT(PRIORITY) |        \
     TR_ARG_BIT(TTR) | TR_ARG_BIT(TTL) | TR_ARG_BIT(TAG) | TR_ARG_BIT(RETRIES) |                   \
     TR_ARG_BIT(BACKOFF) | TR_ARG_BIT(DRY_RUN))
#define TR_ARGS_TOPICS                                                                             \
    (TR_ARG_BIT(MATCH) | TR_ARG_BIT(OUTLET) | TR_ARG_BIT(SORT) | TR_ARG_BIT(PAGE) |                \
     TR_ARG_BIT(CURSOR))
#define TR_ARGS_LEASE TR_ARG_BIT(LEASE)
#define TR_ARGS_FORCE TR_ARG_BIT(FORCE)

/*
 * Each route: its name, method, path, arguments allowed, those needed, role, body, statuses, what
 * it does. Of a path, {topic}, {id}, {key} and {name} are what they say. Where two paths match, the
 * one whose first different part is not in braces counts.
 */
#define TR_HTTP_ROUTES(X)                                                                          \
    X(PUSH, POST, "v1/topics/{topic}/jobs", TR_ARGS_JOB, 0, PRODUCE, RAW,                          \
      S(200) | S(201) | S(409) | S(413), "push a job")                                             \
    X(RESERVE, POST, "v1/topics/{topic}/reserve", TR_ARGS_RESERVE, 0, CONSUME, NONE,               \
      S(200) | S(204), "take jobs that are due")                                                   \
    X(ACK, POST, "v1/jobs/{id}/ack", TR_ARGS_LEASE, TR_ARGS_LEASE, CONSUME, NONE,                  \
      S(200) | S(404) | S(409), "finish a job")                                                    \
    X(RELEASE, POST, "v1/jobs/{id}/release",                                                       \
      TR_ARGS_LEASE | TR_ARG_BIT(DELAY) | TR_ARG_BIT(PRIORITY), TR_ARGS_LEASE, CONSUME, NONE,      \
      S(200) | S(404) | S(409), "give a job back")                                                 \
    X(BURY, POST, "v1/jobs/{id}/bury", TR_ARGS_LEASE | TR_ARGS_FORCE, 0, CONSUME, NONE,            \
      S(200) | S(404) | S(409), "put a job among the dead: by its lease, or one that nobody has")  \
    X(TOUCH, POST, "v1/jobs/{id}/touch", TR_ARGS_LEASE, TR_ARGS_LEASE, CONSUME, NONE,              \
      S(200) | S(404) | S(409), "begin the lease anew")                                            \
    X(ACK_MANY, POST, "v1/ack", 0, 0, CONSUME, MANY, S(200) | S(413), "finish jobs")               \
    X(RESERVE_MANY, POST, "v1/reserve", TR_ARGS_RESERVE | TR_ARG_BIT(TOPICS), TR_ARG_BIT(TOPICS),  \
      CONSUME, NONE, S(200) | S(204), "take jobs that are due, of several topics")                 \
    X(PUSH_MANY, POST, "v1/jobs", 0, 0, PRODUCE, MANY, S(200) | S(413), "push jobs")               \
    X(LIST, GET, "v1/jobs", TR_ARGS_FILTER | TR_ARG_BIT(PAGE) | TR_ARG_BIT(CURSOR), 0, READ, NONE, \
      S(200), "list jobs by due time")                                                             \
    X(CANCEL_MANY, POST, "v1/jobs/cancel", TR_ARGS_BULK, 0, PRODUCE, NONE, S(200),                 \
      "cancel all jobs that match")                                                                \
    X(SHIFT_MANY, POST, "v1/jobs/shift",                                                           \
      TR_ARGS_BULK | TR_ARG_BIT(BY) | TR_ARG_BIT(TO) | TR_ARG_BIT(CURSOR), 0, PRODUCE, NONE,       \
      S(200), "move the due times of all jobs that match")                                         \
    X(KICK_MANY, POST, "v1/jobs/kick", TR_ARGS_BULK, 0, ADMIN, NONE, S(200),                       \
      "bring all dead jobs back that match")                                                       \
    X(SHOW, GET, "v1/jobs/{id}", 0, 0, READ, NONE, S(200) | S(404), "look a job up")               \
    X(CANCEL, DELETE, "v1/jobs/{id}", TR_ARGS_FORCE, 0, PRODUCE, NONE, S(200) | S(404) | S(409),   \
      "cancel a job")                                                                              \
    X(EDIT, PATCH, "v1/jobs/{id}", TR_ARGS_EDIT, 0, PRODUCE, EITHER,                               \
      S(200) | S(404) | S(409) | S(413), "reschedule or edit a job")                               \
    X(FIRE, POST, "v1/jobs/{id}/fire", 0, 0, PRODUCE, NONE, S(200) | S(404) | S(409),              \
      "make a delayed job due now")                                                                \
    X(KICK, POST, "v1/jobs/{id}/kick", 0, 0, ADMIN, NONE, S(200) | S(404) | S(409),                \
      "bring a dead job back")                                                                     \
    X(JOB_HISTORY, GET, "v1/jobs/{id}/history", 0, 0, READ, NONE, S(200) | S(404),                 \
      "what happened to a job")                                                                    \
    X(KEY_SHOW, GET, "v1/topics/{topic}/keys/{key}", 0, 0, READ, NONE, S(200) | S(404),            \
      "look a job up")                                                                             \
    X(KEY_CANCEL, DELETE, "v1/topics/{topic}/keys/{key}", TR_ARGS_FORCE, 0, PRODUCE, NONE,         \
      S(200) | S(404) | S(409), "cancel a job")                                                    \
    X(KEY_EDIT, PATCH, "v1/topics/{topic}/keys/{key}", TR_ARGS_EDIT, 0, PRODUCE, EITHER,           \
      S(200) | S(404) | S(409) | S(413), "reschedule or edit a job")                               \
    X(KEY_FIRE, POST, "v1/topics/{topic}/keys/{key}/fire", 0, 0, PRODUCE, NONE,                    \
      S(200) | S(404) | S(409), "make a delayed job due now")                                      \
    X(KEY_KICK, POST, "v1/topics/{topic}/keys/{key}/kick", 0, 0, ADMIN, NONE,                      \
      S(200) | S(404) | S(409), "bring a dead job back")                                           \
    X(KEY_HISTORY, GET, "v1/topics/{topic}/keys/{key}/history", 0, 0, READ, NONE, S(200) | S(404), \
      "what happened to a job")                                                                    \
    X(TOPICS, GET, "v1/topics", TR_ARGS_TOPICS, 0, READ, NONE, S(200), "list topics")              \
    X(TOPIC, GET, "v1/topics/{topic}", 0, 0, READ, NONE, S(200) | S(404),                          \
      "figures and policy of a topic")                                                             \
    X(TOPIC_SET, PUT, "v1/topics/{topic}", TR_ARGS_POLICY, 0, ADMIN, OBJECT,                       \
      S(200) | S(413) | S(501), "set the whole policy of a topic")                                 \
    X(TOPIC_CHANGE, PATCH, "v1/topics/{topic}", TR_ARGS_POLICY, 0, ADMIN, OBJECT,                  \
      S(200) | S(413) | S(501), "change fields of the policy of a topic")                          \
    X(TOPIC_DELETE, DELETE, "v1/topics/{topic}", TR_ARGS_FORCE, 0, ADMIN, NONE,                    \
      S(200) | S(404) | S(409), "delete a topic")                                                  \
    X(PAUSE, POST, "v1/topics/{topic}/pause", TR_ARG_BIT(WHAT) | TR_ARG_BIT(FOR), 0, ADMIN, NONE,  \
      S(200), "pause a topic")                                                                     \
    X(RESUME, POST, "v1/topics/{topic}/resume", 0, 0, ADMIN, NONE, S(200) | S(404), "end a pause") \
    X(PURGE, POST, "v1/topics/{topic}/purge", TR_ARG_BIT(STATE), 0, ADMIN, NONE, S(200) | S(404),  \
      "delete the jobs of a topic")                                                                \
    X(FORECAST, GET, "v1/forecast",                                                                \
      TR_ARG_BIT(FROM) | TR_ARG_BIT(TO) | TR_ARG_BIT(STEP) | TR_ARG_BIT(TOPIC), 0, READ, NONE,     \
      S(200) | S(404), "how many jobs are due when")                                               \
    X(SCHEDULES, GET, "v1/schedules", TR_ARG_BIT(PAGE) | TR_ARG_BIT(CURSOR), 0, READ, NONE,        \
      S(200), "list recurring jobs")                                                               \
    X(SCHEDULE, GET, "v1/schedules/{name}", 0, 0, READ, NONE, S(200) | S(404),                     \
      "look a recurring job up")                                                                   \
    X(SCHEDULE_SET, PUT, "v1/schedules/{name}", TR_ARGS_SCHEDULE, TR_ARG_BIT(TOPIC), ADMIN,        \
      OBJECT, S(200) | S(201) | S(413), "set a recurring job")                                     \
    X(SCHEDULE_DELETE, DELETE, "v1/schedules/{name}", 0, 0, ADMIN, NONE, S(200) | S(404),          \
      "end a recurring job")                                                                       \
    X(SCHEDULE_RUN, POST, "v1/schedules/{name}/run", 0, 0, ADMIN, NONE, S(201) | S(404) | S(409),  \
      "let it happen now, too")                                                                    \
    X(SCHEDULE_PAUSE, POST, "v1/schedules/{name}/pause", 0, 0, ADMIN, NONE, S(200) | S(404),       \
      "pause a recurring job")                                                                     \
    X(SCHEDULE_RESUME, POST, "v1/schedules/{name}/resume", 0, 0, ADMIN, NONE, S(200) | S(404),     \
      "end its pause")                                                                             \
    X(SCHEDULE_NEXT, GET, "v1/schedules/{name}/next", TR_ARG_BIT(N), 0, READ, NONE,                \
      S(200) | S(404), "when it will happen")                                                      \
    X(STATS, GET, "v1/stats", 0, 0, READ, NONE, S(200), "figures")                                 \
    X(CONFIG, GET, "v1/config", 0, 0, READ, NONE, S(200),                                          \
      "the config, and where each value came from")                                                \
    X(CLUSTER, GET, "v1/cluster", 0, 0, READ, NONE, S(200) | S(501),                               \
      "nodes, slots and the servers behind")                                                       \
    X(BACKUP, POST, "v1/backup", TR_ARG_BIT(DIR), TR_ARG_BIT(DIR), ADMIN, NONE,                    \
      S(200) | S(409) | S(501), "copy the store")                                                  \
    X(RESTORE, POST, "v1/restore", TR_ARG_BIT(EXPIRE), 0, ADMIN, NONE, S(200) | S(501),            \
      "rebuild Redis from the database")                                                           \
    X(RESTORE_JOB, POST, "v1/jobs/{id}/restore", 0, 0, ADMIN, NONE,                                \
      S(200) | S(404) | S(409) | S(501), "put a job into Redis anew, from the database")           \
    X(CLOCK, GET, "v1/clock", 0, 0, READ, NONE, S(200) | S(501), "the test clock")                 \
    X(CLOCK_ADVANCE, POST, "v1/clock/advance", TR_ARG_BIT(ADVANCE) | TR_ARG_BIT(TO), 0, ADMIN,     \
      NONE, S(200) | S(409) | S(501), "move the test clock")                                       \
    X(METRICS, GET, "metrics", 0, 0, READ, NONE, S(200), "figures for Prometheus")                 \
    X(HEALTHZ, GET, "healthz", 0, 0, NONE, NONE, S(200), "it is alive")                            \
    X(READYZ, GET, "readyz", 0, 0, NONE, NONE, S(200) | S(503), "it is ready")                     \
    X(OPENAPI, GET, "openapi.json", 0, 0, READ, NONE, S(200), "this description")                  \
    X(WHOAMI, GET, "v1/whoami", 0, 0, READ, NONE, S(200), "what the token may do")                 \
    X(DASHBOARD, GET, "", 0, 0, NONE, NONE, S(200) | S(304), "the dashboard")                      \
    X(DASHBOARD_FILE, GET, "ui/{name}", 0, 0, NONE, NONE, S(200) | S(304) | S(404),                \
      "a file of the dashboard")                                                                   \
    X(CLASSIC_PUSH, POST, "push", 0, 0, PRODUCE, OBJECT, S(200) | S(409) | S(413),                 \
      "classic: push a job")                                                                       \
    X(CLASSIC_DELETE, GET, "delete", TR_ARG_BIT(ID), TR_ARG_BIT(ID), PRODUCE, NONE,                \
      S(200) | S(404) | S(409), "classic: cancel a job")                                           \
    X(CLASSIC_GET, GET, "get/{topic}", 0, 0, CONSUME, NONE, S(200) | S(204),                       \
      "classic: take and finish a job")                                                            \
    X(CLASSIC_RESTORE, GET, "reStore", TR_ARG_BIT(EXPIRE), 0, ADMIN, NONE, S(200),                 \
      "classic: bring jobs back")                                                                  \
    X(CLASSIC_RESTORE_JOB, GET, "reStore/{id}", 0, 0, ADMIN, NONE, S(200) | S(404) | S(409),       \
      "classic: bring a job back")

enum tr_route {
#define X(name, method, path, args, needed, role, body, statuses, about) TR_ROUTE_##name,
    TR_HTTP_ROUTES(X)
#undef X
        TR_ROUTE_COUNT
};

/* A row of the list. */
struct tr_route_about {
    enum tr_http_method method;
    const char *path;
    uint64_t args;     /* of the query; with TR_BODY_EITHER and OBJECT, of the object */
    uint64_t needed;   /* of these */
    enum tr_role role; /* that a token must have */
    enum tr_route_body body;
    unsigned statuses; /* bits 1 << enum tr_route_status; 400 always is one, and 415 of each that
                          reads JSON */
    const char *about;
};

extern const struct tr_route_about tr_route_table[TR_ROUTE_COUNT];

/* What a request asks for. */
struct tr_route_match {
    enum tr_route route;
    struct tr_http_text topic; /* what was in the path, checked; or absent */
    struct tr_http_text key;
    struct tr_http_text name;
    uint64_t id;    /* 0: there is no such job */
    bool classic;   /* the path is one of the queues of old, by whatever method */
    char allow[64]; /* of an error 405 */
};

/* TARRY_ENOTFOUND or TARRY_EINVAL: *e is the reply (404, 405, 400), and points into m. */
TR_MUST_USE int tr_route_find(struct tr_route_match *m, const struct tr_http_request *request,
                              struct tr_http_error *e);

/* All that one request may give in its query: none of it where a JSON object has it. */
uint64_t tr_route_query_args(enum tr_route route, const struct tr_http_request *request);

/* What the JSON in its body may have, and must: of the whole, or of each item. */
uint64_t tr_route_body_args(enum tr_route route, uint64_t *needed);

/* GET and so on. */
const char *tr_http_method_name(enum tr_http_method method);

enum { TR_ROUTE_NAME = 32 };

/* push, reserve_many: what operations are called in /openapi.json and in /metrics. */
void tr_route_name(enum tr_route route, char out[TR_ROUTE_NAME]);

/* True for the routes of the queues of old, which are off unless the config says otherwise. */
bool tr_route_is_classic(enum tr_route route);

/* True for what concerns all topics: a token must be for all of them. (Other routes name one, or
 * look themselves which ones they may touch or tell of.) */
bool tr_route_is_whole(enum tr_route route);

/* http_describe.c: all of this as OpenAPI 3.1, one JSON object. */
void tr_route_describe(struct tr_output *out, const char *version);

#endif
