/*
 * tarry export from a running server: page by page through the list, and the body of each job by a
 * request of its own: pipelined on one connection of our own, which is by far the quickest, or with
 * TLS many at once. Then policies and schedules. It is no copy of one moment: a job
 * that goes meanwhile may be missing, one that comes may be there (tarry backup makes exact
 * copies).
 */

#include "base/text.h"
#include "cli/calls.h"
#include "cli/convert.h"
#include "cli/export.h"
#include "cli/human.h"
#include "cli/json.h"
#include "cli/report.h"
#include "cli/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 24, PAGE = 1000, ID_TEXT = 24, AHEAD = 200 };

struct live {
    struct tr_cli *cli;
    struct tr_cli_calls *calls;
    struct tr_report out;
    struct tr_bar bar;
    struct tr_wire wire; /* fd -1: there is none */
    bool tried;          /* to open it */
    struct tr_wire_address address;
    char host[540];
    char *asks; /* requests */
    char *body; /* of an answer on the wire */
    size_t room;
    char ids[PAGE][ID_TEXT]; /* of a page */
    uint64_t jobs;
    uint64_t all;
    int how;
};

/* ---- lines ---- */

static void copy(struct tr_json *j, const struct tr_json_value *v, const char *name, const char *as)
{
    struct tr_json_value member;

    if (tr_cli_member(v, name, &member)) {
        tr_json_name(j, as);
        tr_json_raw(j, member.text, member.len);
    }
}

static void end_line(struct live *l)
{
    tr_output_add(&l->out.bytes, "\n", 1);
    tr_report_flush(&l->out);
    if (ferror(stdout) && l->how == TR_CLI_FINE) {
        l->how = TR_CLI_FAILED;
    }
}

/* Moments are told rounded down: one more, so that nobody who pushes it again gets it early. */
static void print_job(struct live *l, const struct tr_json_value *job)
{
    static const char *const names[] = {"topic",   "key",     "tag",  "priority",    "ttr", "ttl",
                                        "retries", "backoff", "body", "body_base64", NULL};
    struct tr_json *j = &l->out.j;
    struct tr_json_value v;
    bool delayed = tr_cli_member(job, "state", &v) && tr_json_says(&v, "delayed");

    tr_json_init(j, &l->out.bytes);
    tr_json_open(j, '{');
    tr_convert(j, job, names);
    tr_json_name(j, "at");
    tr_json_number(j, tr_cli_number_or(job, "due_ms", 0) + delayed);
    copy(j, job, "id", "id");
    copy(j, job, "state", "state");
    copy(j, job, "created_ms", "created_ms");
    copy(j, job, "attempts", "attempts");
    copy(j, job, "dead_ms", "dead_ms");
    copy(j, job, "reason", "dead_why");
    tr_json_close(j, '}');
    end_line(l);
    l->jobs++;
}

/* ---- jobs ---- */

static void got(void *ctx, const struct tr_cli_answer *a, const char *why)
{
    struct live *l = ctx;
    struct tr_json_value job;

    if (a == NULL) {
        if (l->how == TR_CLI_FINE) {
            tr_bar_end(&l->bar);
            fprintf(stderr, "tarry: the server was lost: %s.\n", why);
        }
        l->how = TR_CLI_FAILED;
    } else if (a->status != 404 && l->how == TR_CLI_FINE) { /* else it went meanwhile */
        l->how = tr_cli_judge(a);
        if (l->how == TR_CLI_FINE && tr_cli_read(a, &job)) {
            print_job(l, &job);
        } else {
            l->how = TR_CLI_FAILED;
        }
    }
}

/* One answer of HTTP on the wire. */
static bool read_answer(struct live *l, struct tr_cli_answer *a)
{
    char line[TR_WIRE_LINE];

    *a = (struct tr_cli_answer){0};
    if (!tr_wire_line(&l->wire, line) || strncmp(line, "HTTP/1.1 ", 9) != 0) {
        return false;
    }
    a->status = strtol(line + 9, NULL, 10);
    while (tr_wire_line(&l->wire, line) && line[0] != '\0') {
        if (strncasecmp(line, "content-length:", 15) == 0) {
            a->len = strtoull(line + 15, NULL, 10);
        }
    }
    if (a->len + 1 > l->room) {
        l->room = 2 * a->len + 4096;
        l->body = tr_cli_memory(l->body, l->room);
    }
    if (l->wire.broken || !tr_wire_bytes(&l->wire, l->body, a->len)) {
        return false;
    }
    l->body[a->len] = '\0';
    a->body = l->body;
    return true;
}

/* Asks for some jobs, all in one piece: so the server has many at once to do, too. */
static bool send_requests(struct live *l, size_t from, size_t to)
{
    const char *token = l->cli->server.token;
    size_t most = sizeof l->host + ID_TEXT + 80 + (token != NULL ? strlen(token) : 0);
    size_t len = 0;

    if (l->asks == NULL) {
        l->asks = tr_cli_memory(NULL, AHEAD * most);
    }
    for (size_t i = from; i < to; i++) {
        tr_text(l->asks + len, most, "GET /v1/jobs/%s HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n",
                l->ids[i], l->host, token != NULL ? "Authorization: Bearer " : "",
                token != NULL ? token : "", token != NULL ? "\r\n" : "");
        len += strlen(l->asks + len);
    }
    return tr_wire_send(&l->wire, l->asks, len);
}

/* Requests go out ahead of the answers, when half of those before are answered. */
static void fetch_by_wire(struct live *l, size_t count)
{
    struct tr_cli_answer a;
    size_t sent = 0;

    for (size_t i = 0; i < count && l->how == TR_CLI_FINE; i++) {
        bool fine = true;

        if (sent < count && sent <= i + AHEAD / 2) {
            size_t to = i + AHEAD < count ? i + AHEAD : count;

            fine = send_requests(l, sent, to);
            sent = to;
        }
        if (fine && read_answer(l, &a)) {
            got(l, &a, NULL);
        } else {
            got(l, NULL, "its answers ended");
        }
    }
}

/* A connection of our own, if the server is one without TLS and that is all its address says. */
static void open_wire(struct live *l)
{
    const char *server = tr_cli_server_name(&l->cli->server);
    char url[600];
    size_t len;

    tr_text(url, sizeof url, "%s%s", strstr(server, "://") == NULL ? "http://" : "", server);
    for (len = strlen(url); len > 0 && url[len - 1] == '/'; len--) {
        url[len - 1] = '\0';
    }
    if (tr_wire_address(&l->address, url, "http", "80") && l->address.path[0] == '\0' &&
        l->address.user[0] == '\0' &&
        !tr_wire_open(&l->wire, l->address.host, l->address.port, "the server")) {
        l->how = TR_CLI_FAILED;
    }
    if (l->wire.fd >= 0) {
        tr_wire_host(&l->address, l->host, sizeof l->host);
    }
}

static void fetch(struct live *l, size_t count)
{
    if (!l->tried) { /* the server has answered: now it is worth it */
        l->tried = true;
        open_wire(l);
    }
    if (l->wire.fd >= 0) {
        fetch_by_wire(l, count);
        return;
    }
    for (size_t i = 0; i < count && l->how == TR_CLI_FINE; i++) {
        struct tr_cli_request r = {.method = "GET"};
        char target[64];

        while (tr_cli_calls_count(l->calls) >= AT_ONCE) {
            tr_cli_calls_wait(l->calls, -1, 1000);
        }
        tr_text(target, sizeof target, "/v1/jobs/%s", l->ids[i]);
        r.target = target;
        if (tr_cli_call(l->calls, &r, got, l) == NULL) {
            l->how = TR_CLI_FAILED;
        }
    }
}

/* One page of the list; its bodies are on their way when it returns. */
static int page(struct live *l, char cursor[512])
{
    struct tr_cli_target t = {0};
    struct tr_cli_answer a;
    struct tr_json_value v;
    struct tr_json_value jobs;
    struct tr_json_value job;
    struct tr_json_walk walk;
    size_t count = 0;
    int how;

    tr_cli_target_add(&t, "/v1/jobs");
    tr_cli_target_arg(&t, "limit", "1000");
    tr_cli_query(l->cli, &t);
    if (cursor[0] != '\0') {
        tr_cli_target_arg(&t, "cursor", cursor);
    }
    how = tr_cli_ask(&l->cli->server, "GET", t.text, &a);
    if (how == TR_CLI_FINE && (!tr_cli_read(&a, &v) || !tr_cli_member(&v, "jobs", &jobs) ||
                               jobs.kind != TR_JSON_ARRAY_KIND)) {
        how = TR_CLI_FAILED;
    }
    if (how == TR_CLI_FINE) {
        (void)tr_cli_string(&v, "cursor", cursor, 512);
        tr_json_walk_init(&walk, &jobs);
        while (count < PAGE && tr_json_walk_element(&walk, &job)) {
            (void)tr_cli_string(&job, "id", l->ids[count++], ID_TEXT);
        }
        fetch(l, count);
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&t);
    tr_bar_show(&l->bar, l->jobs, l->all > l->jobs ? l->all : l->jobs);
    return how;
}

static int all_jobs(struct live *l)
{
    char cursor[512] = "";
    int how;

    do {
        how = page(l, cursor);
    } while (how == TR_CLI_FINE && l->how == TR_CLI_FINE && cursor[0] != '\0');
    while (tr_cli_calls_count(l->calls) > 0) {
        tr_cli_calls_wait(l->calls, -1, 1000);
    }
    return how == TR_CLI_FINE ? l->how : how;
}

/* ---- what else there is ---- */

static void print_policy(struct live *l, const struct tr_json_value *topic)
{
    const char *only = tr_cli_value(l->cli, "--topic");
    struct tr_json *j = &l->out.j;
    struct tr_json_value name;

    if (!tr_cli_member(topic, "name", &name) || (only != NULL && !tr_json_says(&name, only))) {
        return;
    }
    tr_json_init(j, &l->out.bytes);
    tr_json_open(j, '{');
    copy(j, topic, "name", "topic");
    copy(j, topic, "policy", "policy");
    tr_json_close(j, '}');
    end_line(l);
}

static void print_schedule(struct live *l, const struct tr_json_value *schedule)
{
    struct tr_json *j = &l->out.j;

    tr_json_init(j, &l->out.bytes);
    tr_json_open(j, '{');
    tr_json_name(j, "schedule");
    tr_json_raw(j, schedule->text, schedule->len);
    tr_json_close(j, '}');
    end_line(l);
}

/* All pages of something that comes as an array. */
static int each(struct live *l, const char *target, const char *name,
                void (*print)(struct live *, const struct tr_json_value *))
{
    char cursor[64] = "";
    int how;

    do {
        struct tr_cli_target t = {0};
        struct tr_cli_answer a;
        struct tr_json_value v;
        struct tr_json_value all;
        struct tr_json_value one;
        struct tr_json_walk walk;

        tr_cli_target_add(&t, target);
        if (cursor[0] != '\0') {
            tr_cli_target_arg(&t, "cursor", cursor);
        }
        how = tr_cli_ask(&l->cli->server, "GET", t.text, &a);
        if (how == TR_CLI_FINE && (!tr_cli_read(&a, &v) || !tr_cli_member(&v, name, &all) ||
                                   all.kind != TR_JSON_ARRAY_KIND)) {
            how = TR_CLI_FAILED;
        }
        if (how == TR_CLI_FINE) {
            (void)tr_cli_string(&v, "cursor", cursor, sizeof cursor);
            tr_json_walk_init(&walk, &all);
            while (tr_json_walk_element(&walk, &one)) {
                print(l, &one);
            }
        }
        tr_cli_answer_fini(&a);
        tr_cli_target_fini(&t);
    } while (how == TR_CLI_FINE && cursor[0] != '\0' && l->how == TR_CLI_FINE);
    return how;
}

/* How many jobs there are, for the bar. */
static uint64_t count(struct live *l)
{
    static const struct tr_cli_request stats = {.method = "GET", .target = "/v1/stats"};
    static const char *const states[] = {"delayed", "ready", "reserved", "dead"};
    struct tr_cli_answer a;
    struct tr_json_value v;
    uint64_t sum = 0;

    if (l->bar.on && tr_cli_send_quietly(&l->cli->server, &stats, &a) && a.status == 200 &&
        tr_cli_read(&a, &v)) {
        for (unsigned i = 0; i < 4; i++) {
            sum += tr_cli_number_or(&v, states[i], 0);
        }
    }
    if (l->bar.on) {
        tr_cli_answer_fini(&a);
    }
    return sum;
}

static int run(struct live *l)
{
    int how = all_jobs(l);

    if (how == TR_CLI_FINE) {
        how = each(l, "/v1/topics", "topics", print_policy);
    }
    if (how == TR_CLI_FINE && !tr_cli_given(l->cli, "--topic")) {
        how = each(l, "/v1/schedules", "schedules", print_schedule);
    }
    return how == TR_CLI_FINE ? l->how : how;
}

int tr_cli_export_live(struct tr_cli *c)
{
    struct live *l = tr_cli_memory(NULL, sizeof *l);
    int how = TR_CLI_FAILED;

    *l = (struct live){.cli = c, .calls = tr_cli_calls_open(&c->server), .wire.fd = -1};
    if (l->calls != NULL) {
        tr_report_init(&l->out, stdout, true);
        tr_bar_begin(&l->bar, "exporting");
        l->all = count(l);
        how = run(l);
        tr_bar_end(&l->bar);
        tr_report_fini(&l->out);
        tr_wire_close(&l->wire);
        tr_cli_calls_close(l->calls);
    }
    free(l->asks);
    free(l->body);
    free(l);
    return how;
}
