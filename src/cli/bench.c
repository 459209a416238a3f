/*
 * tarry bench: how fast is a server? Pushes jobs for a while, then takes and finishes them all, on
 * many connections with several requests outstanding each, and prints a table. One thread, plain
 * sockets: what is measured is the server and the wire, and whoever runs this on the same machine
 * shares its processors with it.
 *
 *     push    for so many seconds
 *     take    reserve, then ack (or delete), until nothing is left
 *
 * It speaks HTTP to a tarry, or beanstalk to a tarry or a beanstalkd. A reply is recognised by its
 * place: replies come in the order of the requests. Times are kept for up to a million requests of
 * each row, which is enough for percentiles.
 */

#include "base/text.h"
#include "cli/human.h"
#include "cli/json.h"
#include "cli/wire.h"
#include "os/clock_linux.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 1000,
    DEEP_MAX = 256,
    BODY_MAX = 65535,
    TIMES_MAX = 1000000,
    EVENTS = 64,
    IN_ROOM = 1 << 17
};

enum kind { PUSH, RESERVE, ACK };

/* A request that is under way. */
struct sent {
    enum kind kind;
    uint64_t at_us; /* when it, or the reserve before it, was sent */
};

struct conn {
    struct tr_wire wire;
    char *out; /* to be sent */
    size_t out_len;
    size_t out_room;
    struct sent line[DEEP_MAX]; /* under way, in order */
    unsigned first;
    unsigned count;
    char in[IN_ROOM];
    size_t in_len;
};

/* What a reply said. */
struct reply {
    bool fine;
    bool empty; /* a reserve that found nothing */
    char id[32];
    char lease[48];
    char words[64]; /* the first line of a refusal */
};

struct bench {
    struct tr_cli *cli;
    bool http;
    struct tr_wire_address address;
    char host[540];
    char topic[64];
    char *body;
    uint64_t connections;
    uint64_t deep;
    uint64_t body_len;
    uint64_t seconds;
    struct conn **conns;
    int poller;
    bool taking; /* the second row */
    bool over;   /* no new requests */
    uint64_t under_way;
    uint64_t done;
    uint64_t failed;
    char refusal[64]; /* the first one */
    uint64_t *times;
    uint64_t time_count;
    uint64_t begun_us;
    uint64_t ended_us;
};

static uint64_t now_us(void)
{
    return tr_clock_linux_now().boot_us;
}

static volatile sig_atomic_t interrupted; /* once: the end of pushing; again: of all */

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* ---- requests ---- */

static void put(struct conn *c, const void *bytes, size_t len)
{
    if (c->out_room - c->out_len < len) {
        c->out_room = 2 * (c->out_len + len);
        c->out = tr_cli_memory(c->out, c->out_room);
    }
    memcpy(c->out + c->out_len, bytes, len);
    c->out_len += len;
}

static void put_http(struct bench *b, struct conn *c, const char *target, size_t len)
{
    char head[1024 + 2048];
    const char *token = b->cli->server.token;

    tr_text(head, sizeof head, "POST %s HTTP/1.1\r\nHost: %s\r\n%s%s%sContent-Length: %zu\r\n\r\n",
            target, b->host, token != NULL ? "Authorization: Bearer " : "",
            token != NULL ? token : "", token != NULL ? "\r\n" : "", len);
    put(c, head, strlen(head));
}

static void request(struct bench *b, struct conn *c, struct sent what, const struct reply *job)
{
    char text[256];

    if (what.kind == PUSH && b->http) {
        tr_text(text, sizeof text, "/v1/topics/%s/jobs", b->topic);
        put_http(b, c, text, b->body_len);
    } else if (what.kind == PUSH) {
        tr_text(text, sizeof text, "put 1024 0 60 %" PRIu64 "\r\n", b->body_len);
        put(c, text, strlen(text));
    } else if (what.kind == RESERVE) {
        tr_text(text, sizeof text,
                b->http ? "/v1/topics/%s/reserve" : "reserve-with-timeout 0\r\n%.0s", b->topic);
    } else {
        tr_text(text, sizeof text, b->http ? "/v1/jobs/%s/ack?lease=%s" : "delete %s\r\n%.0s",
                job->id, job->lease);
    }
    if (what.kind == PUSH) {
        put(c, b->body, b->body_len);
        put(c, "\r\n", b->http ? 0 : 2);
    } else if (b->http) {
        put_http(b, c, text, 0);
    } else {
        put(c, text, strlen(text));
    }
    c->line[(c->first + c->count++) % DEEP_MAX] = what;
    b->under_way++;
}

/* ---- replies ---- */

/* The text between two marks, or "". */
static void cut_out(const char *text, const char *mark, char *out, size_t room)
{
    const char *at = strstr(text, mark);

    out[0] = '\0';
    if (at != NULL) {
        at += strlen(mark);
        tr_text(out, room, "%.*s", (int)strcspn(at, "\""), at);
    }
}

/* The line has an end. */
static void keep_words(struct reply *r, const char *line)
{
    if (!r->fine && !r->empty) {
        tr_text(r->words, sizeof r->words, "%.*s", (int)strcspn(line, "\r\n"), line);
    }
}

/* A whole HTTP reply at the beginning of what came: its length; 0: more is to come. */
static size_t read_http(char *at, size_t len, enum kind kind, struct reply *r)
{
    char *end = memmem(at, len, "\r\n\r\n", 4);
    const char *length;
    size_t body;
    size_t head;
    char kept;

    if (end == NULL) {
        return 0;
    }
    head = (size_t)(end - at) + 4;
    end[2] = '\0';
    length = strcasestr(at, "\r\ncontent-length:");
    body = length != NULL ? strtoull(length + 17, NULL, 10) : 0;
    end[2] = '\r';
    if (len < head + body) {
        return 0;
    }
    r->fine = strncmp(at + 8, " 20", 3) == 0;
    r->empty = strncmp(at + 8, " 204", 4) == 0;
    keep_words(r, at);
    if (kind == RESERVE && r->fine && !r->empty) {
        kept = at[head + body];
        at[head + body] = '\0';
        cut_out(at + head, "\"id\":\"", r->id, sizeof r->id);
        cut_out(at + head, "\"lease\":\"", r->lease, sizeof r->lease);
        at[head + body] = kept;
    }
    return head + body;
}

static size_t read_line(const char *at, size_t len, enum kind kind, struct reply *r)
{
    static const char *const wanted[] = {"INSERTED ", "RESERVED ", "DELETED\r\n"};
    const char *end = memchr(at, '\n', len);
    size_t line;
    size_t body = 0;

    if (end == NULL) {
        return 0;
    }
    line = (size_t)(end - at) + 1;
    r->fine = strncmp(at, wanted[kind], strlen(wanted[kind])) == 0;
    r->empty = strncmp(at, "TIMED_OUT", 9) == 0;
    if (kind == RESERVE && r->fine) {
        if (sscanf(at, "RESERVED %31s %zu", r->id, &body) != 2) {
            r->fine = false;
        }
        body += 2;
    }
    keep_words(r, at);
    return len < line + body ? 0 : line + body;
}

static void note(struct bench *b, uint64_t us)
{
    b->done++;
    if (b->time_count < TIMES_MAX) {
        b->times[b->time_count++] = us;
    }
}

/* What follows from a reply: the next request of its place in the line. */
static void go_on(struct bench *b, struct conn *c, struct sent was, const struct reply *r)
{
    uint64_t now = now_us();

    b->under_way--;
    if (!r->fine && !r->empty) {
        if (b->failed++ == 0) {
            tr_text(b->refusal, sizeof b->refusal, "%s", r->words);
        }
    }
    if (was.kind == RESERVE && r->fine && !r->empty) {
        request(b, c, (struct sent){ACK, was.at_us}, r);
        return;
    }
    if (was.kind != RESERVE && r->fine) {
        note(b, now - was.at_us);
    }
    if (!b->taking && (interrupted || now - b->begun_us >= b->seconds * 1000000)) {
        b->over = true;
    }
    if (!b->over && !r->empty && b->failed < 100) {
        request(b, c, (struct sent){b->taking ? RESERVE : PUSH, now}, NULL);
    }
}

static void take_replies(struct bench *b, struct conn *c)
{
    size_t used = 0;

    while (c->count > 0) {
        struct sent was = c->line[c->first];
        struct reply r = {0};
        char *at = c->in + used;
        size_t len = b->http ? read_http(at, c->in_len - used, was.kind, &r)
                             : read_line(at, c->in_len - used, was.kind, &r);

        if (len == 0) {
            break;
        }
        used += len;
        c->first = (c->first + 1) % DEEP_MAX;
        c->count--;
        go_on(b, c, was, &r);
    }
    memmove(c->in, c->in + used, c->in_len - used);
    c->in_len -= used;
}

/* ---- sockets ---- */

static bool send_some(struct conn *c)
{
    while (c->out_len > 0) {
        ssize_t sent = send(c->wire.fd, c->out, c->out_len, MSG_NOSIGNAL);

        if (sent < 0) {
            return errno == EAGAIN;
        }
        memmove(c->out, c->out + sent, c->out_len - (size_t)sent);
        c->out_len -= (size_t)sent;
    }
    return true;
}

static bool receive_some(struct conn *c)
{
    ssize_t got = recv(c->wire.fd, c->in + c->in_len, IN_ROOM - 1 - c->in_len, 0);

    if (got > 0) {
        c->in_len += (size_t)got;
    }
    return got > 0 || (got < 0 && errno == EAGAIN);
}

static void watch(struct bench *b, struct conn *c, int op)
{
    struct epoll_event e = {.events = EPOLLIN | (c->out_len > 0 ? (unsigned)EPOLLOUT : 0),
                            .data.ptr = c};

    (void)epoll_ctl(b->poller, op, c->wire.fd, &e);
}

static bool turn(struct bench *b)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(b->poller, events, EVENTS, 10000);

    if (count == 0) {
        fputs("tarry: the server has not answered for ten seconds.\n", stderr);
        return false;
    }
    for (int i = 0; i < count; i++) {
        struct conn *c = events[i].data.ptr;
        bool waited = c->out_len > 0;

        if ((events[i].events & ~(unsigned)EPOLLOUT) != 0) {
            if (!receive_some(c)) {
                fputs("tarry: the server closed a connection.\n", stderr);
                return false;
            }
            take_replies(b, c);
        }
        if (!send_some(c)) {
            fputs("tarry: the server closed a connection.\n", stderr);
            return false;
        }
        if (waited || c->out_len > 0) {
            watch(b, c, EPOLL_CTL_MOD);
        }
    }
    return count >= 0 || errno == EINTR;
}

static bool run_row(struct bench *b, bool taking)
{
    bool fine = true;

    b->taking = taking;
    b->over = false;
    b->done = 0;
    b->time_count = 0;
    b->begun_us = now_us();
    for (uint64_t i = 0; i < b->connections; i++) {
        struct conn *c = b->conns[i];

        for (uint64_t k = 0; k < b->deep; k++) {
            request(b, c, (struct sent){taking ? RESERVE : PUSH, now_us()}, NULL);
        }
        fine = fine && send_some(c);
        watch(b, c, EPOLL_CTL_MOD);
    }
    while (fine && b->under_way > 0) {
        fine = turn(b);
    }
    b->ended_us = now_us();
    return fine;
}

/* ---- the command ---- */

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

static uint64_t percentile(const struct bench *b, unsigned part)
{
    return b->time_count > 0 ? b->times[(b->time_count - 1) * part / 1000] : 0;
}

static void tell(struct bench *b, struct tr_table *t, const char *what)
{
    uint64_t us = b->ended_us > b->begun_us ? b->ended_us - b->begun_us : 1;
    uint64_t rate = b->done * 1000000 / us;
    char text[TR_HUMAN_TEXT];
    static const unsigned parts[] = {500, 990, 1000};

    qsort(b->times, b->time_count, sizeof b->times[0], by_size);
    if (b->cli->json) {
        printf("%s{\"what\":\"%s\",\"done\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"us\":%" PRIu64
               ",\"per_s\":%" PRIu64 ",\"p50_us\":%" PRIu64 ",\"p99_us\":%" PRIu64
               ",\"max_us\":%" PRIu64 "}\n",
               b->taking ? "," : "", what, b->done, b->failed, us, rate, percentile(b, 500),
               percentile(b, 990), percentile(b, 1000));
        return;
    }
    tr_table_cell(t, TR_PLAIN, "%s", what);
    tr_table_cell(t, TR_PLAIN, "%s", tr_human_count(b->done, text));
    tr_table_cell(t, TR_BOLD, "%s", tr_human_count(rate, text));
    for (unsigned i = 0; i < 3; i++) {
        tr_table_cell(t, TR_PLAIN, "%.2f ms", (double)percentile(b, parts[i]) / 1000);
    }
}

/* A connection, which on the beanstalk port must know its tube. */
static struct conn *open_conn(struct bench *b)
{
    struct conn *c = tr_cli_memory(NULL, sizeof *c);
    const char *token = b->cli->server.token;
    char line[TR_WIRE_LINE];
    bool fine;

    *c = (struct conn){.wire.fd = -1};
    fine = tr_wire_open(&c->wire, b->address.host, b->address.port, "the server");
    if (fine && !b->http) {
        fine =
            token == NULL || (tr_wire_say(&c->wire, "auth %s\r\n", token) &&
                              tr_wire_line(&c->wire, line) && strcmp(line, "AUTHENTICATED") == 0);
        fine = fine && tr_wire_say(&c->wire, "use %s\r\nwatch %s\r\nignore default\r\n", b->topic,
                                   b->topic);
        for (unsigned i = 0; fine && i < 3; i++) {
            fine = tr_wire_line(&c->wire, line) &&
                   (strncmp(line, "USING", 5) == 0 || strncmp(line, "WATCHING", 8) == 0);
        }
    }
    if (!fine) {
        if (c->wire.bytes != NULL && !c->wire.broken) {
            fputs("tarry: that is not what the server should answer. Is it one, and the token "
                  "right?\n",
                  stderr);
        }
        tr_wire_close(&c->wire);
        free(c);
        return NULL;
    }
    (void)fcntl(c->wire.fd, F_SETFL, fcntl(c->wire.fd, F_GETFL) | O_NONBLOCK);
    watch(b, c, EPOLL_CTL_ADD);
    return c;
}

static void close_all(struct bench *b)
{
    for (uint64_t i = 0; i < b->connections && b->conns[i] != NULL; i++) {
        tr_wire_close(&b->conns[i]->wire);
        free(b->conns[i]->out);
        free(b->conns[i]);
    }
    free(b->conns);
    free(b->times);
    free(b->body);
    (void)close(b->poller);
}

static int run(struct bench *b)
{
    static const struct tr_column columns[] = {{"WHAT", false}, {"JOBS", true}, {"A SECOND", true},
                                               {"P50", true},   {"P99", true},  {"MAX", true}};
    struct tr_table t;
    bool fine = true;

    for (uint64_t i = 0; i < b->connections && fine; i++) {
        b->conns[i] = open_conn(b);
        fine = b->conns[i] != NULL;
    }
    if (!fine) {
        return TR_CLI_FAILED;
    }
    if (b->cli->json) {
        puts("[");
    } else {
        tr_table_init(&t, columns, 6);
    }
    fine = run_row(b, false);
    tell(b, &t, "push");
    if (fine) {
        fine = run_row(b, true);
        tell(b, &t, b->http ? "reserve + ack" : "reserve + delete");
    }
    if (b->cli->json) {
        puts("]");
    } else {
        tr_table_end(&t);
    }
    if (b->failed > 0) {
        fprintf(stderr, "tarry: %" PRIu64 " requests were refused, the first with \"%s\".\n",
                b->failed, b->refusal);
    }
    return fine && b->failed == 0 ? TR_CLI_FINE : TR_CLI_FAILED;
}

/* The topic, and with it what is left of its jobs. On the beanstalk port it goes when it is empty.
 */
static void clear(const struct bench *b)
{
    struct tr_cli_server server = b->cli->server;
    struct tr_cli_request r = {.method = "DELETE"};
    struct tr_cli_answer a = {0};
    char target[128];

    if (b->http) {
        tr_text(target, sizeof target, "/v1/topics/%s?force=true", b->topic);
        server.url = b->cli->count > 0 ? b->cli->args[0] : server.url;
        server.curl = NULL;
        r.target = target;
        (void)!tr_cli_send_quietly(&server, &r, &a);
        tr_cli_answer_fini(&a);
        tr_cli_server_fini(&server);
    }
}

/* Where to: a word, or the usual server. */
static bool find(struct bench *b)
{
    const char *to = b->cli->count > 0 ? b->cli->args[0] : tr_cli_server_name(&b->cli->server);
    char url[600];

    tr_text(url, sizeof url, "%s%s", strstr(to, "://") == NULL ? "http://" : "", to);
    b->http = strncmp(url, "http://", 7) == 0;
    return b->http ? tr_wire_address(&b->address, url, "http", "80")
                   : tr_wire_address(&b->address, url, "beanstalk", "11300") ||
                         tr_wire_address(&b->address, url, "beanstalkd", "11300");
}

static int bench(struct tr_cli *c)
{
    struct bench b = {.cli = c, .connections = 16, .deep = 1, .body_len = 100, .seconds = 3};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    int how = tr_cli_read_number(c, "-c", CONNECTIONS_MAX, &b.connections);

    how = how == TR_CLI_FINE ? tr_cli_read_number(c, "-p", DEEP_MAX, &b.deep) : how;
    how = how == TR_CLI_FINE ? tr_cli_read_number(c, "--body", BODY_MAX, &b.body_len) : how;
    how = how == TR_CLI_FINE ? tr_cli_read_number(c, "--seconds", 3600, &b.seconds) : how;
    if (how != TR_CLI_FINE) {
        return how;
    }
    if (!find(&b)) {
        return tr_cli_usage("bench", "bench takes http://HOST:PORT or beanstalk://HOST:PORT: it "
                                     "knows no TLS, so no https.");
    }
    tr_wire_host(&b.address, b.host, sizeof b.host);
    tr_text(b.topic, sizeof b.topic, "tarry-bench-%d", (int)getpid());
    b.body = tr_cli_memory(NULL, b.body_len);
    memset(b.body, 'x', b.body_len);
    b.times = tr_cli_memory(NULL, TIMES_MAX * sizeof *b.times);
    b.conns = tr_cli_memory(NULL, b.connections * sizeof *b.conns);
    memset(b.conns, 0, b.connections * sizeof *b.conns);
    b.poller = epoll_create1(EPOLL_CLOEXEC);
    (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGTERM, &act, NULL);
    how = b.poller >= 0 ? run(&b) : TR_CLI_FAILED;
    if (interrupted) {
        fputs("tarry: interrupted: no more was pushed, and all of it was taken.\n", stderr);
        how = TR_CLI_FAILED;
    }
    close_all(&b);
    clear(&b);
    return how;
}

const struct tr_cli_command tr_cli_command_bench = {
    .name = "bench",
    .group = TR_CLI_WATCHING,
    .about = "measure a tarry or a beanstalkd",
    .usage = "[http://HOST:PORT | beanstalk://HOST:PORT] [FLAGS]",
    .text = "Pushes jobs for some seconds, then takes and finishes them all, in a topic of its\n"
            "own, and prints how many a second that were and how long each took. The server may\n"
            "be a tarry (either port) or a beanstalkd.\n",
    .options = {{.name = "-c", .value = "N", .about = "connections; default 16"},
                {.name = "-p", .value = "N", .about = "requests outstanding on each; default 1"},
                {.name = "--body", .value = "BYTES", .about = "size of a body; default 100"},
                {.name = "--seconds", .value = "N", .about = "how long to push; default 3"}},
    .examples = "tarry bench -c 64 -p 16\n"
                "tarry bench beanstalk://127.0.0.1:11300 --seconds 10",
    .exits = "0 fine; 1 no server, interrupted, or requests were refused; 2 wrong usage",
    .args_max = 1,
    .run = bench,
};
