/*
 * tarry demo: a shop on a throw-away server. Orders are placed, each with a job that closes it when
 * it is not paid in time; some are paid, and their jobs cancelled; the others close when they are
 * due, and how late that is shows.
 *
 *     --fast      the server has a test clock, which is advanced from event to event: half an hour
 *                 passes in a moment
 *     otherwise   everything is real, and a time-out is a few seconds
 *
 * The plan is drawn before it begins, always the same. In between, whoever waits for the next
 * planned thing waits for jobs that are due: a long poll until then.
 */

#include "base/text.h"
#include "cli/human.h"
#include "cli/json.h"
#include "os/clock_linux.h"
#include "os/process_linux.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ORDERS = 12, ORDERS_MAX = 1000, PAID_OF_10 = 4, LINE = 256 };

struct order {
    uint64_t placed_ms; /* from the beginning */
    uint64_t paid_ms;   /* 0: never */
    uint64_t cents;
    char id[32]; /* of its job */
    bool open;
};

struct demo {
    struct tr_cli *cli;
    struct tr_cli_server server;
    char url[64];
    char dir[256];
    pid_t pid;
    bool fast;
    uint64_t timeout_ms;
    struct order *orders;
    uint64_t count;
    uint64_t begun_ms; /* by the clock of the server */
    uint64_t late_ms[ORDERS_MAX];
    uint64_t paid;
    uint64_t closed;
    uint64_t early; /* a promise broken: there are none */
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* ---- the server ---- */

_Noreturn static void become_server(const struct demo *d, int out)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setpgid(0, 0); /* a Ctrl-C is for us, who stop it */
    if (dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0) {
        (void)execl("/proc/self/exe", "tarry", "serve", "--data", d->dir, "--http", "127.0.0.1:0",
                    "--beanstalk", "off", "--log-level", "warning", "--set",
                    d->fast ? "clock.test=on" : "clock.test=off", "--set",
                    d->fast ? "clock.start=2027-01-01T09:00:00Z" : "log.json=off", (char *)NULL);
    }
    _exit(127);
}

/* Reads what the server says until it listens. */
static bool wait_for_server(struct demo *d, FILE *in)
{
    char line[LINE];
    unsigned port;

    while (fgets(line, sizeof line, in) != NULL) {
        const char *at = strstr(line, "http on 127.0.0.1:");

        if (at != NULL && sscanf(at, "http on 127.0.0.1:%u", &port) == 1) {
            tr_text(d->url, sizeof d->url, "http://127.0.0.1:%u", port);
            d->server = (struct tr_cli_server){.url = d->url};
            return true;
        }
    }
    return false;
}

static bool start(struct demo *d, FILE **said)
{
    int ends[2];

    if (tr_process_temp_dir(d->dir, sizeof d->dir) != 0) {
        fputs("tarry: there is no place for a temporary store: see TMPDIR.\n", stderr);
        return false;
    }
    if (pipe(ends) != 0) {
        return false;
    }
    /* What is set for another server is not for this one. */
    for (char **line = environ; *line != NULL;) {
        if (strncmp(*line, "TARRY_", 6) == 0) {
            char name[128];

            tr_text(name, sizeof name, "%.*s", (int)strcspn(*line, "="), *line);
            (void)unsetenv(name);
            line = environ;
        } else {
            line++;
        }
    }
    (void)fflush(NULL);
    d->pid = fork();
    if (d->pid == 0) {
        (void)close(ends[0]);
        become_server(d, ends[1]);
    }
    (void)close(ends[1]);
    *said = fdopen(ends[0], "r");
    if (d->pid < 0 || *said == NULL || !wait_for_server(d, *said)) {
        fputs("tarry: the server of the demo did not start.\n", stderr);
        return false;
    }
    return true;
}

static void stop(struct demo *d, FILE *said)
{
    if (d->pid > 0) {
        (void)kill(d->pid, SIGTERM);
        (void)waitpid(d->pid, NULL, 0);
    }
    if (said != NULL) {
        (void)fclose(said);
    }
    if (d->dir[0] != '\0') {
        tr_process_remove_dir(d->dir);
    }
    tr_cli_server_fini(&d->server);
}

/* ---- what happens ---- */

static uint64_t clock_ms(struct demo *d)
{
    struct tr_cli_answer a;
    struct tr_json_value v;
    uint64_t ms = 0;

    if (!d->fast) {
        return tr_clock_linux_now().wall_us / 1000;
    }
    if (tr_cli_ask(&d->server, "GET", "/v1/clock", &a) == TR_CLI_FINE && tr_cli_read(&a, &v)) {
        ms = tr_cli_number_or(&v, "now_ms", 0);
    }
    tr_cli_answer_fini(&a);
    return ms;
}

/* A line: when, which order, what, and more about it. */
static void tell(const struct demo *d, uint64_t at_ms, uint64_t order, enum tr_paint paint,
                 const char *what)
{
    uint64_t ms = at_ms - d->begun_ms;

    if (d->cli->json) {
        char *quoted = tr_cli_quote(what);

        printf("{\"at_ms\":%" PRIu64 ",\"order\":%" PRIu64 ",\"what\":%s}\n", ms, order, quoted);
        free(quoted);
    } else {
        printf("%s%3" PRIu64 ":%02" PRIu64 ".%01" PRIu64 "%s  order %-4" PRIu64 " %s%s%s\n",
               tr_human_paint(TR_DIM), ms / 60000, ms / 1000 % 60, ms / 100 % 10,
               tr_human_unpaint(TR_DIM), order, tr_human_paint(paint), what,
               tr_human_unpaint(paint));
    }
    (void)fflush(stdout);
}

static int place(struct demo *d, uint64_t i)
{
    struct order *o = &d->orders[i];
    struct tr_cli_request r = {.method = "POST"};
    struct tr_cli_answer a = {0};
    struct tr_json_value v;
    char target[128];
    char body[128];
    char span[TR_HUMAN_TEXT];
    int how;

    tr_text(target, sizeof target, "/v1/topics/orders/jobs?delay=%" PRIu64 "ms&key=order-%" PRIu64,
            d->timeout_ms, i + 1);
    tr_text(body, sizeof body, "{\"order\":%" PRIu64 "}", i + 1);
    r.target = target;
    r.body = body;
    r.len = strlen(body);
    how = tr_cli_send(&d->server, &r, &a);
    how = how == TR_CLI_FINE ? tr_cli_judge(&a) : how;
    if (how == TR_CLI_FINE && tr_cli_read(&a, &v)) {
        char said[128];

        (void)tr_cli_string(&v, "id", o->id, sizeof o->id);
        o->open = true;
        tr_text(said, sizeof said, "placed, %" PRIu64 ".%02u: it closes in %s unless it is paid",
                o->cents / 100, (unsigned)(o->cents % 100), tr_human_span(d->timeout_ms, span));
        tell(d, clock_ms(d), i + 1, TR_PLAIN, said);
    }
    tr_cli_answer_fini(&a);
    return how;
}

static int pay(struct demo *d, uint64_t i)
{
    struct tr_cli_answer a = {0};
    char target[128];
    int how;

    tr_text(target, sizeof target, "/v1/topics/orders/keys/order-%" PRIu64, i + 1);
    how = tr_cli_ask(&d->server, "DELETE", target, &a);
    if (how == TR_CLI_FINE) {
        d->paid++;
        d->orders[i].open = false;
        tell(d, clock_ms(d), i + 1, TR_GREEN, "paid: its time-out is cancelled");
    }
    tr_cli_answer_fini(&a);
    return how;
}

static int close_order(struct demo *d, const struct tr_json_value *job)
{
    struct tr_cli_answer a = {0};
    uint64_t late = tr_cli_number_or(job, "late_ms", 0);
    uint64_t now = clock_ms(d);
    uint64_t order;
    char id[32];
    char lease[64];
    char key[64];
    char target[256];
    char said[128];
    char span[TR_HUMAN_TEXT];
    int how;

    (void)tr_cli_string(job, "key", key, sizeof key);
    order = strncmp(key, "order-", 6) == 0 ? strtoull(key + 6, NULL, 10) : 0;
    if (order == 0 || order > d->count) {
        return TR_CLI_FAILED;
    }
    tr_text(target, sizeof target, "/v1/jobs/%s/ack?lease=%s",
            tr_cli_string(job, "id", id, sizeof id),
            tr_cli_string(job, "lease", lease, sizeof lease));
    how = tr_cli_ask(&d->server, "POST", target, &a);
    tr_cli_answer_fini(&a);
    d->early += now < tr_cli_number_or(job, "due_ms", 0) || !d->orders[order - 1].open;
    d->orders[order - 1].open = false;
    d->late_ms[d->closed++] = late;
    tr_text(said, sizeof said, "closed: nobody paid; %s", tr_human_late(late, span));
    tell(d, now, order, TR_RED, said);
    return how;
}

/* Closes what is due, and waits for it until then. */
static int close_due(struct demo *d, uint64_t until_ms)
{
    uint64_t now = clock_ms(d);
    int how;

    do {
        uint64_t wait = d->fast || until_ms <= now ? 0 : until_ms - now;
        struct tr_cli_answer a = {0};
        struct tr_json_value v;
        struct tr_json_value job;
        struct tr_json_walk walk;
        char target[128];
        bool none;

        tr_text(target, sizeof target, "/v1/topics/orders/reserve?count=100&wait=%" PRIu64 "ms",
                wait > 60000 ? 60000 : wait);
        how = tr_cli_ask(&d->server, "POST", target, &a);
        none = a.status == 204;
        if (how == TR_CLI_FINE && !none && tr_cli_read(&a, &v) && tr_cli_member(&v, "jobs", &v) &&
            v.kind == TR_JSON_ARRAY_KIND) {
            tr_json_walk_init(&walk, &v);
            while (how == TR_CLI_FINE && tr_json_walk_element(&walk, &job)) {
                how = close_order(d, &job);
            }
        }
        tr_cli_answer_fini(&a);
        now = clock_ms(d);
        if (d->fast && none) {
            break;
        }
    } while (how == TR_CLI_FINE && (d->fast || now < until_ms) && !interrupted &&
             d->closed + d->paid < d->count);
    return how;
}

/* Until then: in real time, or by moving the clock to each due time on the way. */
static int go_to(struct demo *d, uint64_t at_ms)
{
    static const struct tr_cli_request topic = {.method = "GET", .target = "/v1/topics/orders"};
    int how = close_due(d, at_ms);

    while (how == TR_CLI_FINE && d->fast && clock_ms(d) < at_ms) {
        struct tr_cli_answer a = {0};
        struct tr_json_value v;
        uint64_t next = at_ms;
        uint64_t due;
        char target[96];

        if (tr_cli_send_quietly(&d->server, &topic, &a) && a.status == 200 && tr_cli_read(&a, &v) &&
            tr_cli_number(&v, "next_due_ms", &due)) {
            next = due + 1 < at_ms ? due + 1 : at_ms; /* it is told rounded down */
        }
        tr_cli_answer_fini(&a);
        tr_text(target, sizeof target, "/v1/clock/advance?to=%" PRIu64, next);
        how = tr_cli_ask(&d->server, "POST", target, &a);
        tr_cli_answer_fini(&a);
        how = how == TR_CLI_FINE ? close_due(d, 0) : how;
    }
    return how;
}

/* ---- the plan ---- */

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

static void plan(struct demo *d)
{
    uint64_t seed = 42;
    uint64_t at = 1; /* 0 is never */

    for (uint64_t i = 0; i < d->count; i++) {
        struct order *o = &d->orders[i];

        *o = (struct order){.placed_ms = at, .cents = 500 + draw(&seed, 20000)};
        if (draw(&seed, 10) < PAID_OF_10) {
            o->paid_ms = at + d->timeout_ms / 10 + draw(&seed, d->timeout_ms * 8 / 10);
        }
        at += 1 + draw(&seed, d->timeout_ms / 4);
    }
}

/* The next thing that is planned after `done` of them, in order of time. */
static bool next_step(const struct demo *d, uint64_t after_ms, uint64_t *at_ms)
{
    *at_ms = UINT64_MAX;
    for (uint64_t i = 0; i < d->count; i++) {
        const struct order *o = &d->orders[i];

        if (o->placed_ms >= after_ms && o->placed_ms < *at_ms) {
            *at_ms = o->placed_ms;
        }
        if (o->paid_ms != 0 && o->paid_ms >= after_ms && o->paid_ms < *at_ms) {
            *at_ms = o->paid_ms;
        }
    }
    return *at_ms != UINT64_MAX;
}

static int play(struct demo *d)
{
    uint64_t at = 0;
    uint64_t next;
    int how = TR_CLI_FINE;

    d->begun_ms = clock_ms(d);
    while (how == TR_CLI_FINE && !interrupted && next_step(d, at, &next)) {
        how = go_to(d, d->begun_ms + next);
        for (uint64_t i = 0; i < d->count && how == TR_CLI_FINE && !interrupted; i++) {
            if (d->orders[i].placed_ms == next) {
                how = place(d, i);
            } else if (d->orders[i].paid_ms == next) {
                how = pay(d, i);
            }
        }
        at = next + 1;
    }
    if (how == TR_CLI_FINE && !interrupted) { /* those that are still open */
        how = go_to(d, d->begun_ms + at + d->timeout_ms + (d->fast ? 1000 : 5000));
    }
    return how;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

static void tell_lateness(const struct demo *d)
{
    char p50[TR_HUMAN_TEXT];
    char most[TR_HUMAN_TEXT];

    if (d->early > 0) {
        printf(" %" PRIu64 " of them EARLY.", d->early);
    }
    if (d->closed == 0) {
        puts("");
    } else if (d->late_ms[d->closed - 1] == 0) {
        puts(d->early == 0 ? " None early, none late." : " None late.");
    } else {
        printf("%s half of them %s, the last %s.\n",
               d->early == 0 ? " None early," : " Of the rest",
               tr_human_late(d->late_ms[d->closed / 2], p50),
               tr_human_late(d->late_ms[d->closed - 1], most));
    }
}

static int tell_end(struct demo *d)
{
    qsort(d->late_ms, d->closed, sizeof d->late_ms[0], by_size);
    if (d->cli->json) {
        printf("{\"placed\":%" PRIu64 ",\"paid\":%" PRIu64 ",\"closed\":%" PRIu64
               ",\"early\":%" PRIu64 ",\"late_p50_ms\":%" PRIu64 ",\"late_max_ms\":%" PRIu64 "}\n",
               d->count, d->paid, d->closed, d->early,
               d->closed > 0 ? d->late_ms[d->closed / 2] : 0,
               d->closed > 0 ? d->late_ms[d->closed - 1] : 0);
    } else {
        printf("\n%" PRIu64 " order%s: %" PRIu64 " paid in time, %" PRIu64 " closed.", d->count,
               d->count == 1 ? "" : "s", d->paid, d->closed);
        tell_lateness(d);
    }
    return d->early == 0 && d->paid + d->closed == d->count ? TR_CLI_FINE : TR_CLI_FAILED;
}

static int demo(struct tr_cli *c)
{
    struct demo d = {.cli = c, .count = ORDERS, .fast = tr_cli_given(c, "--fast")};
    uint64_t timeout_us = d.fast ? UINT64_C(1800000000) : UINT64_C(6000000);
    FILE *said = NULL;
    int how = tr_cli_read_number(c, "--orders", ORDERS_MAX, &d.count);

    c->json = tr_cli_given(c, "--json");
    how = how == TR_CLI_FINE ? tr_cli_read_duration(c, "--timeout", &timeout_us) : how;
    if (how != TR_CLI_FINE) {
        return how;
    }
    if (timeout_us < 100000) {
        return tr_cli_usage("demo", "--timeout is at least 100ms.");
    }
    d.timeout_ms = timeout_us / 1000;
    d.orders = tr_cli_memory(NULL, d.count * sizeof *d.orders);
    (void)signal(SIGINT, interrupt);
    (void)signal(SIGTERM, interrupt);
    plan(&d);
    how = start(&d, &said) ? play(&d) : TR_CLI_FAILED;
    if (how == TR_CLI_FINE && !interrupted) {
        how = tell_end(&d);
    }
    stop(&d, said);
    free(d.orders);
    return interrupted ? TR_CLI_FAILED : how;
}

const struct tr_cli_command tr_cli_command_demo = {
    .name = "demo",
    .group = TR_CLI_WATCHING,
    .about = "a shop: orders placed, paid, or closed on time",
    .usage = "[FLAGS]",
    .text = "Starts a throw-away server and plays a shop on it: orders are placed, some are paid\n"
            "and their time-outs cancelled, the others close on time. How late that is shows at\n"
            "the end. Nothing is left behind.\n",
    .options = {{.name = "--fast", .about = "on a test clock: half an hour passes in a moment"},
                {.name = "--orders", .value = "N", .about = "so many orders; default 12"},
                {.name = "--timeout",
                 .value = "D",
                 .about = "an order is open so long; default 6s, with --fast 30m"},
                {.name = "--json", .about = "a JSON object a line"}},
    .examples = "tarry demo\n"
                "tarry demo --fast --orders 100",
    .exits = "0 all closed on time; 1 it was stopped, or something failed; 2 wrong usage",
    .local = true,
    .run = demo,
};
