/*
 * tarry work: runs a command for each job of some topics, so many at a time.
 *
 *     reserve (long poll) --> slot: command runs, its lease is touched at half time
 *                               | it ends
 *                               v
 *                             ack, release or bury --> the slot is free again
 *
 * One thread waits for all of it: answers, the ends of children (a signalfd), the clock. At most
 * one reserve is under way, for as many jobs as there are free slots. What the server does not hear
 * of is told again until the lease is over; then the job comes back by itself, and a command that
 * still runs is ended. No answer is waited for without an end: a connection can be dead and not
 * say.
 *
 * The first SIGTERM or SIGINT: no new jobs, those that run are finished, and so are their leases.
 * The second: they are ended, and their jobs given back.
 */

#include "base/text.h"
#include "cli/calls.h"
#include "cli/child.h"
#include "cli/human.h"
#include "cli/json.h"
#include "os/clock_linux.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SLOTS_MAX = 1000,
    EXIT_AGAIN = 75,
    EXIT_BURY = 100,
    POLL_S = 30,       /* how long a reserve waits */
    SLACK_MS = 15000,  /* and how much later its answer may come */
    ANSWER_MS = 10000, /* how long the answer about a lease may take, unless it ends sooner */
    ANSWER_LEAST_MS = 1000,
    AGAIN_MS = 1000,    /* what the server did not hear is told again after this */
    GRACE_MS = 5000,    /* from SIGTERM to SIGKILL */
    LINE_MS = 250,      /* the progress line */
    PATIENCE_MS = 10000 /* between attempts to reach a server that is away, at most */
};

enum phase {
    FREE,
    RUNS,
    ENDED, /* what became of it is being told, or has to be */
};

struct slot {
    struct work *work;
    enum phase phase;
    char id[32];
    char lease[80];
    char topic[208];
    uint64_t attempt;
    uint64_t late_ms;
    pid_t pid;
    uint64_t began_ms;
    uint64_t lease_ms;   /* how long it was given */
    uint64_t until_ms;   /* when it ends, unless it is touched */
    uint64_t touch_ms;   /* when to touch it */
    uint64_t timeout_ms; /* when it has run too long; 0: never */
    uint64_t kill_ms;    /* when it is killed for good; 0: it was not told to end */
    bool timed_out;      /* it was told to end: it ran too long, or */
    bool stopped;        /* we were stopped twice */
    bool lost;           /* the job is not ours any more */
    const char *verb;    /* ENDED: ack, release, bury */
    char how[48];        /* exit 1, signal 9, timeout */
    uint64_t ended_ms;
    uint64_t tell_ms; /* when to tell it (again) */
    struct tr_cli_call *call;
};

struct work {
    struct tr_cli *cli;
    struct tr_cli_calls *calls;
    struct slot *slots;
    uint64_t count; /* of slots */
    uint64_t busy;
    uint64_t left; /* jobs that may still be taken */
    uint64_t timeout_ms;
    bool drain;
    bool terminal;
    int signals; /* a descriptor */
    bool stopping;
    bool emptied; /* --drain: the last reserve found nothing */
    bool spoke;   /* the server has answered once: the first reserve does not wait */
    int how;      /* how the process ends */
    struct tr_cli_call *poll;
    uint64_t poll_ms;  /* when to ask again */
    uint64_t pause_ms; /* how long to wait next time */
    uint64_t began_ms;
    uint64_t line_ms;
    uint64_t acked;
    uint64_t released;
    uint64_t buried;
    uint64_t died;   /* given back after their last attempt */
    uint64_t missed; /* leases that were lost */
    uint64_t others; /* jobs that were over already: their command, or others, have seen to it */
};

static uint64_t now_ms(void)
{
    return tr_clock_linux_now().boot_us / 1000;
}

/* ---- what is told ---- */

/* "N dead, ", or what else they are, if there are any. */
static const char *tell_some(uint64_t count, const char *what, char out[64])
{
    out[0] = '\0';
    if (count > 0) {
        tr_text(out, 64, "%" PRIu64 " %s, ", count, what);
    }
    return out;
}

static void show_line(struct work *w, uint64_t now)
{
    char died[64];
    uint64_t ms = now - w->began_ms;
    uint64_t ended = w->acked + w->released + w->buried + w->died;

    if (!w->terminal || now < w->line_ms) {
        return;
    }
    w->line_ms = now + LINE_MS;
    fprintf(stderr,
            "\r%s%" PRIu64 " running, %" PRIu64 " done, %" PRIu64 " to be retried, %s%" PRIu64
            " buried, %.1f a second\033[K",
            w->stopping ? "stopping: " : "", w->busy, w->acked, w->released,
            tell_some(w->died, "dead", died), w->buried,
            ms > 0 ? (double)ended * 1000 / (double)ms : 0.0);
    (void)fflush(stderr);
}

static void clear_line(const struct work *w)
{
    if (w->terminal) {
        fputs("\r\033[K", stderr);
    }
}

/* A line of the log: of all jobs, on a terminal only of those that failed. JSON is for programs,
 * and goes to stdout. */
static void log_end(struct work *w, const struct slot *s, const char *outcome, bool fine)
{
    char ran[TR_HUMAN_TEXT];
    char late[TR_HUMAN_TEXT];

    if (w->terminal && fine && !w->cli->json) {
        return;
    }
    clear_line(w);
    if (w->cli->json) {
        printf("{\"id\":\"%s\",\"topic\":\"%s\",\"attempt\":%" PRIu64
               ",\"outcome\":\"%s\",\"how\":\"%s\",\"ran_ms\":%" PRIu64 ",\"late_ms\":%" PRIu64
               "}\n",
               s->id, s->topic, s->attempt, outcome, s->how, s->ended_ms - s->began_ms, s->late_ms);
        (void)fflush(stdout); /* whether it could be is looked at when all is over */
    } else {
        fprintf(stderr, "%s %s: %s, %s after %s, attempt %" PRIu64 ", %s\n", s->topic, s->id,
                outcome, s->how, tr_human_span(s->ended_ms - s->began_ms, ran), s->attempt,
                tr_human_late(s->late_ms, late));
    }
}

static void complain(const struct work *w, const char *what, const char *why)
{
    clear_line(w);
    fprintf(stderr, "tarry: %s: %s.\n", what, why);
}

/* ---- telling the server ---- */

static void leave(struct slot *s)
{
    struct work *w = s->work;

    *s = (struct slot){.work = w};
    w->busy--;
}

/* It was acked, cancelled or buried in the meantime, perhaps by its own command. */
static void find_over(struct slot *s, const char *how)
{
    s->work->others++;
    tr_text(s->how, sizeof s->how, "%s", how);
    log_end(s->work, s, "over already", false);
    leave(s);
}

static void lose(struct slot *s, const char *why)
{
    s->work->missed++;
    tr_text(s->how, sizeof s->how, "%s", why);
    log_end(s->work, s, "lost, another may do it again", false);
    leave(s);
}

/* How long the answer may take: the lease does not wait. */
static uint64_t patience(const struct slot *s)
{
    uint64_t now = now_ms();
    uint64_t left = s->until_ms > now ? s->until_ms - now : 0;

    return left > ANSWER_MS ? ANSWER_MS : left < ANSWER_LEAST_MS ? ANSWER_LEAST_MS : left;
}

static bool is_forbidden(const struct tr_cli_answer *a)
{
    return a != NULL && (a->status == 401 || a->status == 403);
}

/* Why the server does not take what is told of a job. */
static const char *refusal(const struct tr_cli_answer *a, char out[48])
{
    if (a->status == 409) {
        return "its lease was lost";
    }
    tr_text(out, 48, is_forbidden(a) ? "the token may not (%ld)" : "the server says %ld",
            a->status);
    return out;
}

/* The server has taken it: what became of the job. */
static void settle(struct slot *s, const struct tr_cli_answer *a)
{
    struct work *w = s->work;
    struct tr_json_value v;
    char state[16] = "";

    if (strcmp(s->verb, "ack") == 0) {
        w->acked++;
        log_end(w, s, "done", true);
    } else if (strcmp(s->verb, "bury") == 0) {
        w->buried++;
        log_end(w, s, "buried", false);
    } else if (a->len > 0 && tr_cli_read(a, &v) &&
               strcmp(tr_cli_string(&v, "state", state, sizeof state), "dead") == 0) {
        w->died++;
        log_end(w, s, "dead, no attempts are left", false);
    } else {
        w->released++;
        log_end(w, s, "to be retried", false);
    }
    leave(s);
}

/* Nobody will do it again. */
static bool is_over(const struct tr_cli_answer *a, const char **how)
{
    struct tr_json_value v;
    char state[16] = "";

    if (a->status == 404) {
        *how = "acked or cancelled";
        return true;
    }
    if (a->status == 409 && a->len > 0 && tr_cli_read(a, &v) && tr_cli_member(&v, "error", &v)) {
        *how = "dead";
        return strcmp(tr_cli_string(&v, "state", state, sizeof state), "dead") == 0;
    }
    return false;
}

static void told(void *ctx, const struct tr_cli_answer *a, const char *why)
{
    struct slot *s = ctx;
    struct work *w = s->work;
    uint64_t now = now_ms();
    const char *how;
    char text[48];

    s->call = NULL;
    if (a != NULL && a->status >= 200 && a->status < 300) {
        settle(s, a);
    } else if (a != NULL && is_over(a, &how)) {
        find_over(s, how);
    } else if (a != NULL && a->status < 500 && a->status != 429) {
        lose(s, refusal(a, text));
    } else if (now >= s->until_ms) {
        lose(s, "the server could not be told in time");
    } else {
        complain(w, "the server could not be told, again in a second",
                 a != NULL ? "it cannot take it now" : why);
        s->tell_ms = now + AGAIN_MS;
    }
}

static void tell(struct slot *s)
{
    struct tr_cli_target t = {0};
    struct tr_cli_request r = {.method = "POST", .most_ms = patience(s)};

    tr_cli_target_add(&t, "/v1/jobs");
    tr_cli_target_part(&t, s->id);
    tr_cli_target_part(&t, s->verb);
    tr_cli_target_arg(&t, "lease", s->lease);
    r.target = t.text;
    s->tell_ms = UINT64_MAX;
    s->call = tr_cli_call(s->work->calls, &r, told, s);
    tr_cli_target_fini(&t);
}

/* The job is another's now, or soon is: the command is ended. */
static void give_up(struct slot *s, const char *why)
{
    complain(s->work, s->id, why);
    s->lost = true;
    s->touch_ms = UINT64_MAX;
    s->timeout_ms = 1; /* long ago */
}

static void touched(void *ctx, const struct tr_cli_answer *a, const char *why)
{
    struct slot *s = ctx;
    struct tr_json_value v;
    uint64_t now = now_ms();

    s->call = NULL;
    if (a != NULL && a->status == 200 && tr_cli_read(a, &v)) {
        s->lease_ms = tr_cli_number_or(&v, "lease_ms", s->lease_ms);
        s->until_ms = now + s->lease_ms;
        s->touch_ms = now + s->lease_ms / 2;
    } else if (a != NULL && (a->status == 404 || a->status == 409)) {
        give_up(s, "its lease was lost: the command is ended");
    } else if (is_forbidden(a)) { /* it will say so again */
        clear_line(s->work);
        (void)!tr_cli_judge(a);
        give_up(s, "its lease cannot be kept alive with this token: the command is ended");
    } else {
        complain(s->work, "a lease could not be kept alive, again in a second",
                 a != NULL ? "the server cannot do it now" : why);
        s->touch_ms = now + AGAIN_MS;
    }
}

static void touch(struct slot *s)
{
    struct tr_cli_target t = {0};
    struct tr_cli_request r = {.method = "POST", .most_ms = patience(s)};

    tr_cli_target_add(&t, "/v1/jobs");
    tr_cli_target_part(&t, s->id);
    tr_cli_target_add(&t, "/touch");
    tr_cli_target_arg(&t, "lease", s->lease);
    r.target = t.text;
    s->touch_ms = UINT64_MAX;
    s->call = tr_cli_call(s->work->calls, &r, touched, s);
    tr_cli_target_fini(&t);
}

/* ---- commands ---- */

/* The command has ended: what is to be said of the job. */
static void judge(struct slot *s, int status)
{
    struct work *w = s->work;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

    if (s->call != NULL) { /* a touch: what comes now says more */
        tr_cli_call_drop(w->calls, s->call);
        s->call = NULL;
    }
    s->ended_ms = now_ms();
    s->phase = ENDED;
    s->verb = code == 0 && !s->timed_out           ? "ack"
              : code == EXIT_BURY && !s->timed_out ? "bury"
                                                   : "release";
    if (s->timed_out) {
        tr_text(s->how, sizeof s->how, s->stopped ? "stopped" : "timeout");
    } else if (code >= 0) {
        tr_text(s->how, sizeof s->how, code == 127 ? "exit %d (not found?)" : "exit %d", code);
    } else {
        tr_text(s->how, sizeof s->how, "signal %d", WTERMSIG(status));
    }
    if (s->lost) {
        lose(s, "its lease was lost");
    } else {
        tell(s);
    }
}

static void reap(struct work *w)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (uint64_t i = 0; i < w->count; i++) {
            if (w->slots[i].phase == RUNS && w->slots[i].pid == pid) {
                judge(&w->slots[i], status);
            }
        }
    }
}

static struct slot *free_slot(struct work *w)
{
    for (uint64_t i = 0; i < w->count; i++) {
        if (w->slots[i].phase == FREE) {
            return &w->slots[i];
        }
    }
    return NULL;
}

static void begin(struct work *w, const struct tr_json_value *job)
{
    struct slot *s = free_slot(w);
    uint64_t now = now_ms();

    TR_CHECK(s != NULL); /* a reserve asks for as many as there are */
    *s = (struct slot){.work = w, .phase = RUNS, .began_ms = now};
    (void)tr_cli_string(job, "id", s->id, sizeof s->id);
    (void)tr_cli_string(job, "lease", s->lease, sizeof s->lease);
    (void)tr_cli_string(job, "topic", s->topic, sizeof s->topic);
    s->attempt = tr_cli_number_or(job, "attempts", 1);
    s->late_ms = tr_cli_number_or(job, "late_ms", 0);
    s->lease_ms = tr_cli_number_or(job, "lease_ms", 60000);
    s->until_ms = now + s->lease_ms;
    s->touch_ms = now + s->lease_ms / 2;
    s->timeout_ms = w->timeout_ms > 0 ? now + w->timeout_ms : 0;
    w->busy++;
    s->pid = tr_child_start(w->cli->rest, job, tr_cli_server_name(&w->cli->server),
                            w->cli->json ? STDERR_FILENO : STDOUT_FILENO);
    if (s->pid < 0) {
        complain(w, "the command cannot be started", strerror(errno));
        judge(s, EXIT_AGAIN << 8);
    }
}

/* ---- reserving ---- */

static void wait_longer(struct work *w)
{
    w->pause_ms = w->pause_ms == 0 ? AGAIN_MS : 2 * w->pause_ms;
    w->pause_ms = w->pause_ms > PATIENCE_MS ? PATIENCE_MS : w->pause_ms;
    w->poll_ms = now_ms() + w->pause_ms;
}

static void take_jobs(struct work *w, const struct tr_cli_answer *a)
{
    struct tr_json_value v;
    struct tr_json_value job;
    struct tr_json_walk walk;

    if (!tr_cli_read(a, &v) || !tr_cli_member(&v, "jobs", &v) || v.kind != TR_JSON_ARRAY_KIND) {
        w->how = TR_CLI_FAILED;
        w->stopping = true;
        return;
    }
    tr_json_walk_init(&walk, &v);
    while (tr_json_walk_element(&walk, &job)) {
        w->left--;
        begin(w, &job);
    }
}

static void came(void *ctx, const struct tr_cli_answer *a, const char *why)
{
    struct work *w = ctx;

    w->poll = NULL;
    w->poll_ms = 0;
    w->emptied = a != NULL && a->status == 204;
    if (a != NULL && a->status < 300) {
        w->pause_ms = 0;
        w->spoke = true;
        if (a->status == 200) {
            take_jobs(w, a);
        }
        return;
    }
    if (a != NULL && ((a->status < 500 && a->status != 429) || a->status == 501 || !w->spoke)) {
        clear_line(w);
        w->how = tr_cli_judge(a);
        w->stopping = true;
        return;
    }
    complain(w, "no jobs from the server", a != NULL ? "it cannot give any now" : why);
    if (!w->spoke) { /* a worker waits for a server that went away, not for one that never was */
        fputs("Is the server running? --server URL (or TARRY_SERVER) says where.\n", stderr);
        w->how = TR_CLI_FAILED;
        w->stopping = true;
        return;
    }
    wait_longer(w);
}

static void reserve(struct work *w)
{
    uint64_t most = w->count - w->busy < w->left ? w->count - w->busy : w->left;
    struct tr_cli_target names = {0};
    int wait_s = w->drain || !w->spoke ? 0 : POLL_S;
    struct tr_cli_target t = {0};
    struct tr_cli_request r = {.method = "POST", .most_ms = (uint64_t)wait_s * 1000 + SLACK_MS};
    char text[32];

    for (int i = 0; i < w->cli->count; i++) {
        tr_cli_target_add(&names, i > 0 ? "," : "");
        tr_cli_target_add(&names, w->cli->args[i]);
    }
    tr_cli_target_add(&t, "/v1/reserve");
    tr_cli_target_arg(&t, "topics", names.text);
    tr_cli_query(w->cli, &t);
    tr_text(text, sizeof text, "%" PRIu64, most);
    tr_cli_target_arg(&t, "count", text);
    tr_text(text, sizeof text, "%ds", wait_s);
    tr_cli_target_arg(&t, "wait", text);
    r.target = t.text;
    w->poll = tr_cli_call(w->calls, &r, came, w);
    if (w->poll == NULL) {
        w->how = TR_CLI_USAGE;
        w->stopping = true;
    }
    tr_cli_target_fini(&t);
    tr_cli_target_fini(&names);
}

/* ---- the clock ---- */

static void sooner(uint64_t *at, uint64_t other)
{
    *at = other < *at ? other : *at;
}

/* When the lease is over for sure: the answer to a touch that was in time may be on its way. */
static uint64_t over_ms(const struct slot *s)
{
    return s->until_ms + ANSWER_LEAST_MS;
}

/* Does what is due for one slot, and says when the next thing is. */
static void tend(struct slot *s, uint64_t now, uint64_t *next)
{
    if (s->phase == ENDED && s->call == NULL && s->tell_ms <= now) {
        tell(s);
    }
    if (s->phase == RUNS) {
        if (!s->lost && over_ms(s) <= now) {
            if (s->call != NULL) {
                tr_cli_call_drop(s->work->calls, s->call);
                s->call = NULL;
            }
            give_up(s, "its lease ran out, the server does not answer: the command is ended");
        }
        if (s->call == NULL && s->touch_ms <= now && !s->lost) {
            touch(s);
        }
        if (s->timeout_ms != 0 && s->timeout_ms <= now && s->kill_ms == 0) {
            s->timed_out = true;
            s->kill_ms = now + GRACE_MS;
            (void)kill(-s->pid, SIGTERM);
        } else if (s->kill_ms != 0 && s->kill_ms <= now) {
            s->kill_ms = now + GRACE_MS;
            (void)kill(-s->pid, SIGKILL);
        }
        sooner(next, s->touch_ms);
        sooner(next, s->lost ? UINT64_MAX : over_ms(s));
        sooner(next, s->kill_ms != 0      ? s->kill_ms
                     : s->timeout_ms != 0 ? s->timeout_ms
                                          : UINT64_MAX);
    } else if (s->phase == ENDED) {
        sooner(next, s->tell_ms);
    }
}

static void stop(struct work *w)
{
    clear_line(w);
    if (!w->stopping) {
        w->stopping = true;
        if (w->busy > 0) {
            fprintf(stderr,
                    "tarry: stopping when %" PRIu64 " commands have ended; once more ends them.\n",
                    w->busy);
        }
    } else {
        for (uint64_t i = 0; i < w->count; i++) {
            if (w->slots[i].phase == RUNS && w->slots[i].kill_ms == 0) {
                w->slots[i].timeout_ms = 1; /* long ago */
                w->slots[i].stopped = true;
            }
        }
        w->how = TR_CLI_FAILED;
    }
    if (w->poll != NULL) {
        tr_cli_call_drop(w->calls, w->poll);
        w->poll = NULL;
    }
}

static void take_signals(struct work *w)
{
    struct signalfd_siginfo info;

    while (read(w->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            reap(w);
        } else {
            stop(w);
        }
    }
}

static bool wants_more(const struct work *w)
{
    return !w->stopping && w->left > 0 && w->busy < w->count && w->poll == NULL &&
           !(w->drain && w->emptied);
}

static void turn(struct work *w)
{
    uint64_t now = now_ms();
    uint64_t next = now + 60000;

    if (wants_more(w) && w->poll_ms <= now) {
        reserve(w);
    } else if (wants_more(w)) {
        sooner(&next, w->poll_ms);
    }
    for (uint64_t i = 0; i < w->count; i++) {
        tend(&w->slots[i], now, &next);
    }
    show_line(w, now);
    if (w->terminal) {
        sooner(&next, now + LINE_MS);
    }
    tr_cli_calls_wait(w->calls, w->signals, next > now ? (int)(next - now) : 0);
    take_signals(w);
}

static bool goes_on(const struct work *w)
{
    return w->busy > 0 || w->poll != NULL || wants_more(w);
}

static int run(struct work *w)
{
    char died[64];
    char others[64];
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    w->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    w->calls = tr_cli_calls_open(&w->cli->server);
    if (w->signals < 0 || w->calls == NULL) {
        return TR_CLI_FAILED;
    }
    w->began_ms = now_ms();
    while (goes_on(w)) {
        turn(w);
    }
    clear_line(w);
    if (w->spoke) {
        fprintf(stderr,
                "%" PRIu64 " done, %" PRIu64 " to be retried, %s%" PRIu64 " buried, %s%" PRIu64
                " lost.\n",
                w->acked, w->released, tell_some(w->died, "dead", died), w->buried,
                tell_some(w->others, "over already", others), w->missed);
    }
    tr_cli_calls_close(w->calls);
    (void)close(w->signals);
    return w->how;
}

static int work(struct tr_cli *c)
{
    struct work w = {
        .cli = c, .count = 1, .left = UINT64_MAX, .terminal = isatty(STDERR_FILENO) == 1};
    uint64_t timeout_us = 0;
    int how = tr_cli_read_number(c, "-j", SLOTS_MAX, &w.count);

    how = how == TR_CLI_FINE ? tr_cli_read_number(c, "--max", UINT64_MAX, &w.left) : how;
    how = how == TR_CLI_FINE ? tr_cli_read_duration(c, "--timeout", &timeout_us) : how;
    if (how != TR_CLI_FINE) {
        return how;
    }
    if (c->rest_count == 0) {
        return tr_cli_usage("work", "say what to run, behind --: tarry work %s -- COMMAND",
                            c->args[0]);
    }
    if (!tr_child_exists(c->rest[0])) {
        return tr_cli_usage("work", "there is no command \"%s\" that can be run.", c->rest[0]);
    }
    w.timeout_ms = (timeout_us + 999) / 1000;
    w.drain = tr_cli_given(c, "--drain");
    w.slots = tr_cli_memory(NULL, w.count * sizeof *w.slots);
    for (uint64_t i = 0; i < w.count; i++) {
        w.slots[i] = (struct slot){.work = &w};
    }
    how = run(&w);
    free(w.slots);
    return how;
}

const struct tr_cli_command tr_cli_command_work = {
    .name = "work",
    .group = TR_CLI_WORKING,
    .about = "run a command for each job: a worker in any language",
    .usage = "TOPIC... [FLAGS] -- COMMAND [ARGUMENTS]",
    .text =
        "Runs the command for each job that is due: the body on its stdin, the fields in\n"
        "TARRY_ID, TARRY_TOPIC, TARRY_KEY, TARRY_TAG, TARRY_ATTEMPT, TARRY_DUE, TARRY_LATE_MS\n"
        "and so on. How it ends decides:\n"
        "\n"
        "exit 0: the job is done; 100: it is buried; 75, a timeout, a signal or any other\n"
        "code: it is tried again, by the backoff of the job.\n"
        "\n"
        "While the command runs its lease is kept alive. SIGTERM or Ctrl-C: no new jobs, those\n"
        "that run are finished; once more ends them and gives their jobs back. A terminal sees\n"
        "a line of progress, anything else a line for each job, on stderr. With --json that line\n"
        "is an object, on stdout, and what the commands print there goes to stderr.\n",
    .options = {{.name = "-j", .value = "N", .about = "so many at a time, up to 1000; default 1"},
                {.name = "--timeout",
                 .value = "D",
                 .about = "a command that runs longer is ended; default: none is"},
                {"--ttr", "D", "how long a lease is between two signs of life", true},
                {"--tag", "TAG", "only jobs with this tag", true},
                {.name = "--max", .value = "N", .about = "end after so many jobs"},
                {.name = "--drain", .about = "end when there is no job that is due"}},
    .examples =
        "tarry work orders -j 8 -- ./close-order\n"
        "tarry work mail --timeout 30s -- sh -c 'curl -fsS -d @- https://mail.example.com/'",
    .exits = "0 it was stopped, or has done what it was to do; 1 no server, or it was\n"
             "stopped twice; 2 wrong usage",
    .args_min = 1,
    .args_max = 100,
    .takes = true,
    .run = work,
};
