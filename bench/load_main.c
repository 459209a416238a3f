/*
 * bench-load: the command line, and the one line of figures.
 *
 *     bench-load --mode put --port 11300 --conns 64 --depth 16 --seconds 2 --pid 1234
 *
 * Ends with 0 when every check held, 1 when not (the line says which), 2 on wrong usage.
 */

#include "bench/load.h"
#include "bench/watch.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: bench-load --mode MODE --port PORT [FLAGS]\n"
    "\n"
    "  --mode put       put jobs that are due far ahead (--delay)\n"
    "         cycle     put, take, done; each connection --depth of them at once\n"
    "         drain     put --count jobs, then take them all\n"
    "         burst     the same, all due in the one second before --ahead seconds are over\n"
    "         trickle   --rate jobs a second for --seconds, due 1 to 5 s later, over a\n"
    "                   background of --background far ones: how late are they?\n"
    "         tubes     cycles through --tubes tubes; --share: each connection watches its part\n"
    "         take      take --count of the --known jobs that are there, and due\n"
    "         ask       --ask peek, state, cancel or move, about random jobs of the --known that\n"
    "                   are there; or first or count, of each of the --tubes in turn\n"
    "         first     wait for the first answer and the first job of a server that starts\n"
    "  --proto P        beanstalk (default), redis or http (put, cycle, drain, burst, trickle)\n"
    "  --address IP     default 127.0.0.1\n"
    "  --conns N --depth N --body BYTES --count N --seconds S --limit S\n"
    "  --delay S        far jobs are due between S and 9 S; 0: at once (default 10000)\n"
    "  --spread S       or between --delay and so much later\n"
    "  --first N        number of the first job, when there are others\n"
    "  --later S        Redis: the clock of the mover is ahead\n"
    "  --ahead S --rate N --background N --tubes N --share --tube NAME --mover-ms N --seed N\n"
    "  --pid PID        of the server, for its CPU time, memory and bytes written\n"
    "  --series FILE    put latency in each second\n"
    "  --since US       first: CLOCK_MONOTONIC of the start\n"
    "  --echo           the server is bench-echo: do not check what it hands out\n"
    "  --label TEXT     stands before the figures\n";

enum flag {
    F_MODE = 1,
    F_PORT,
    F_PROTO,
    F_ADDRESS,
    F_CONNS,
    F_DEPTH,
    F_BODY,
    F_COUNT,
    F_SECONDS,
    F_LIMIT,
    F_DELAY,
    F_AHEAD,
    F_RATE,
    F_BACKGROUND,
    F_FIRST,
    F_KNOWN,
    F_SPREAD,
    F_LATER,
    F_ASK,
    F_TUBES,
    F_SHARE,
    F_TUBE,
    F_MOVER,
    F_SEED,
    F_PID,
    F_SERIES,
    F_SINCE,
    F_ECHO,
    F_LABEL,
};

static const struct option flags[] = {
    {"mode", 1, NULL, F_MODE},       {"port", 1, NULL, F_PORT},
    {"proto", 1, NULL, F_PROTO},     {"address", 1, NULL, F_ADDRESS},
    {"conns", 1, NULL, F_CONNS},     {"depth", 1, NULL, F_DEPTH},
    {"body", 1, NULL, F_BODY},       {"count", 1, NULL, F_COUNT},
    {"seconds", 1, NULL, F_SECONDS}, {"limit", 1, NULL, F_LIMIT},
    {"delay", 1, NULL, F_DELAY},     {"ahead", 1, NULL, F_AHEAD},
    {"rate", 1, NULL, F_RATE},       {"background", 1, NULL, F_BACKGROUND},
    {"first", 1, NULL, F_FIRST},     {"known", 1, NULL, F_KNOWN},
    {"spread", 1, NULL, F_SPREAD},   {"later", 1, NULL, F_LATER},
    {"ask", 1, NULL, F_ASK},         {"tubes", 1, NULL, F_TUBES},
    {"share", 0, NULL, F_SHARE},     {"tube", 1, NULL, F_TUBE},
    {"mover-ms", 1, NULL, F_MOVER},  {"seed", 1, NULL, F_SEED},
    {"pid", 1, NULL, F_PID},         {"series", 1, NULL, F_SERIES},
    {"since", 1, NULL, F_SINCE},     {"echo", 0, NULL, F_ECHO},
    {"label", 1, NULL, F_LABEL},     {NULL, 0, NULL, 0},
};

/* False: this flag takes no number. */
static bool take_number(struct options *o, int flag, uint64_t n)
{
    unsigned small = (unsigned)n;

    switch (flag) {
    case F_PORT:
        return o->port = small, true;
    case F_CONNS:
        return o->conns = small, true;
    case F_DEPTH:
        return o->depth = small, true;
    case F_BODY:
        return o->body_bytes = small, true;
    case F_COUNT:
        return o->count = n, true;
    case F_DELAY:
        return o->delay_s = small, true;
    case F_AHEAD:
        return o->ahead_s = small, true;
    case F_RATE:
        return o->rate = small, true;
    case F_BACKGROUND:
        return o->background = n, true;
    case F_FIRST:
        return o->first = n, true;
    case F_KNOWN:
        return o->known = n, true;
    case F_SPREAD:
        return o->spread_s = small, true;
    case F_LATER:
        return o->later_s = small, true;
    case F_TUBES:
        return o->tubes = small, true;
    case F_MOVER:
        return o->mover_ms = small, true;
    case F_SEED:
        return o->seed = n, true;
    case F_PID:
        return o->pid = (int)n, true;
    case F_SINCE:
        return o->since_us = n, true;
    default:
        return false;
    }
}

static bool take_text(struct options *o, int flag, const char *text)
{
    switch (flag) {
    case F_MODE:
        return o->mode = text, true;
    case F_PROTO:
        return o->proto = text, true;
    case F_ADDRESS:
        return o->address = text, true;
    case F_SECONDS:
        return o->seconds = strtod(text, NULL), true;
    case F_LIMIT:
        return o->limit_s = strtod(text, NULL), true;
    case F_TUBE:
        return o->tube = text, true;
    case F_ASK:
        return o->ask = load_find_ask(text), true;
    case F_SERIES:
        return o->series = text, true;
    case F_LABEL:
        return o->label = text, true;
    case F_SHARE:
        return o->share = true;
    case F_ECHO:
        return o->trusting = true;
    default:
        return false;
    }
}

static bool read_flags(struct options *o, int argc, char **argv)
{
    int flag;

    while ((flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
        char *end = NULL;
        uint64_t n = optarg != NULL ? strtoull(optarg, &end, 10) : 0;
        bool numeric = end != NULL && end != optarg && *end == '\0';

        if (!take_text(o, flag, optarg != NULL ? optarg : "") &&
            !(numeric && take_number(o, flag, n))) {
            return false;
        }
    }
    return optind == argc && o->mode != NULL && o->port > 0 && o->port < 65536 && o->conns > 0 &&
           o->conns <= 4000 && o->depth > 0 && o->depth <= 1024 && o->body_bytes >= 8 &&
           o->body_bytes <= LOAD_BODY_MAX && o->rate > 0 && o->tubes > 0;
}

/* Modes that want to know what is there, or more than this driver can say. */
static bool says_enough(const struct options *o, const struct driver *driver)
{
    bool asks = strcmp(o->mode, "ask") == 0;

    if (driver->plain && (asks || strcmp(o->mode, "tubes") == 0)) {
        return false;
    }
    return (!asks && strcmp(o->mode, "take") != 0) ||
           (o->known > 0 && o->count <= o->known / 2 && (!asks || o->ask != ASK_NOTHING));
}

/* ---- The line. */

static void print_times(const char *name, const struct hist *h)
{
    if (h->count > 0) {
        printf(" %sp50_us=%.1f %sp99_us=%.1f %sp999_us=%.1f %smax_us=%.1f", name,
               (double)hist_part(h, 0.5) / 1e3, name, (double)hist_part(h, 0.99) / 1e3, name,
               (double)hist_part(h, 0.999) / 1e3, name, (double)h->max / 1e3);
    }
}

/*
 * Put and never handed out, in a run in which everything should have been. As many are asked for as
 * were put: a TAKE in vain leaves one behind that nobody asked for, and that is not lost.
 */
static uint64_t count_lost(const struct load *l)
{
    uint64_t lost = 0;
    bool all = strcmp(l->opt.mode, "put") != 0 && l->opt.known == 0 && !l->opt.trusting;

    for (uint64_t job = l->opt.background; all && job < l->next_job; job++) {
        lost += (l->flags[job] & (JOB_PUT | JOB_TAKEN)) == JOB_PUT;
    }
    return lost > l->vain ? lost - l->vain : 0;
}

static double seconds_of(const struct load *l)
{
    uint64_t begin = l->begin_ns;

    if (strcmp(l->opt.mode, "burst") == 0 && l->next_at_ns - 1000000000 > begin) {
        begin = l->next_at_ns - 1000000000; /* the first is due */
    }
    return (double)(l->end_ns > begin ? l->end_ns - begin : 1) / 1e9;
}

static int print_line(const struct load *l)
{
    bool puts_only = strcmp(l->opt.mode, "put") == 0;
    uint64_t ops = puts_only ? l->put : l->done;
    uint64_t lost = count_lost(l);
    double secs = seconds_of(l);
    bool good = l->failed == NULL && l->wrong + l->twice + l->bad_body + l->early + lost == 0;

    printf("%s mode=%s proto=%s conns=%u depth=%u body=%u jobs=%" PRIu64 " secs=%.3f ops=%.0f",
           l->opt.label, l->opt.mode, l->opt.proto, l->opt.conns, l->opt.depth, l->opt.body_bytes,
           ops, secs, (double)ops / secs);
    if (l->opt.ask != ASK_NOTHING) {
        printf(" ask=%s", load_ask_word(l->opt.ask));
    }
    print_times("", puts_only ? &l->latency[STEP_PUT] : &l->whole);
    if (!puts_only) {
        print_times("put_", &l->latency[STEP_PUT]);
    }
    print_times("late_", &l->late);
    print_times("low_", &l->late_low);
    printf(" client_cpu=%.3f received=%" PRIu64, (double)l->own_cpu_ns / 1e9, l->received);
    if (l->opt.pid > 0) {
        printf(" server_cpu=%.3f rss=%" PRIu64 " wchar=%" PRIu64, (double)l->cpu_ns / 1e9,
               watch_rss_bytes(l->opt.pid), l->written);
    }
    if (l->fill_ns > 0) {
        printf(" fill_s=%.3f", (double)l->fill_ns / 1e9);
    }
    printf(" lost=%" PRIu64 " twice=%" PRIu64 " bad=%" PRIu64 " early=%" PRIu64 " wrong=%" PRIu64
           " sum=%016" PRIx64,
           lost, l->twice, l->bad_body, l->early, l->wrong, l->sum);
    if (l->failed != NULL) {
        printf(" failed=\"%s\"", l->failed);
    }
    printf("\n");
    return good ? 0 : 1;
}

/* ---- first: no load at all, so it stands alone. */

/* Sends text, waits for an answer; gives how it began, and in *open, unless that is known, when the
 * port was there. False: nobody is there. */
static bool ask(const struct options *o, const char *text, char *said, size_t room, uint64_t *open)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ssize_t got = -1;

    if (fd >= 0 && inet_pton(AF_INET, o->address, &a.sin_addr) == 1 &&
        connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0 &&
        (*open > 0 || (*open = watch_now_ns() / 1000 - o->since_us) < UINT64_MAX) &&
        write(fd, text, strlen(text)) == (ssize_t)strlen(text)) {
        got = read(fd, said, room - 1);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    said[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* Asks again and again until the answer begins with `want`; gives the us since `since`, or 0. */
static uint64_t ask_until(const struct options *o, const char *text, const char *want,
                          uint64_t *open)
{
    const struct timespec pause = {0, 500000};
    char said[512];

    for (;;) {
        bool there = ask(o, text, said, sizeof(said), open);
        uint64_t us = watch_now_ns() / 1000 - o->since_us;

        if (there && strncmp(said, want, strlen(want)) == 0 && strncmp(said, "$-1", 3) != 0) {
            return us;
        }
        if ((double)us / 1e6 > o->limit_s) {
            return 0;
        }
        (void)nanosleep(&pause, NULL);
    }
}

static int run_first(struct options *o)
{
    bool redis = strcmp(o->proto, "redis") == 0;
    uint64_t open = 0;
    uint64_t ready;
    uint64_t job;

    if (o->since_us == 0) {
        o->since_us = watch_now_ns() / 1000;
    }
    ready =
        ask_until(o, redis ? "PING\r\n" : "list-tube-used\r\n", redis ? "+PONG" : "USING", &open);
    job = ready == 0 ? 0
                     : ask_until(o, redis ? "LPOP q:ready\r\n" : "reserve-with-timeout 0\r\n",
                                 redis ? "$" : "RESERVED", &open);
    printf("%s mode=first proto=%s port_ms=%.1f ready_ms=%.1f job_ms=%.1f\n", o->label, o->proto,
           (double)open / 1e3, (double)ready / 1e3, (double)job / 1e3);
    return job > 0 ? 0 : 1;
}

static const struct driver *find_driver(const char *name)
{
    const struct driver *const all[] = {&load_beanstalk, &load_redis, &load_http};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i]->name, name) == 0) {
            return all[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct load l = {
        .opt = {.label = "load",
                .proto = "beanstalk",
                .address = "127.0.0.1",
                .conns = 1,
                .depth = 1,
                .body_bytes = 100,
                .limit_s = 120,
                .delay_s = 10000,
                .ahead_s = 10,
                .rate = 1000,
                .tubes = 1,
                .mover_ms = 5,
                .seed = 1},
    };
    int status;

    if (!read_flags(&l.opt, argc, argv)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (strcmp(l.opt.mode, "first") == 0) {
        return run_first(&l.opt);
    }
    l.mode = load_find_mode(l.opt.mode);
    l.driver = find_driver(l.opt.proto);
    if (l.mode == NULL || l.driver == NULL || (l.opt.count == 0 && l.opt.seconds <= 0) ||
        !says_enough(&l.opt, l.driver)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    l.rng.state = l.opt.seed;
    l.conn_count = l.opt.conns + (l.driver->needs_move && l.mode->tick != NULL ? 1 : 0);
    if (l.opt.series != NULL && (l.series = fopen(l.opt.series, "we")) == NULL) {
        perror(l.opt.series);
        return 2;
    }
    if (!load_open(&l)) {
        (void)fprintf(stderr, "bench-load: cannot connect to %s:%u\n", l.opt.address, l.opt.port);
        return 2;
    }
    if (strcmp(l.opt.mode, "trickle") == 0) {
        l.opt.count = (uint64_t)(l.opt.rate * l.opt.seconds);
    } else {
        l.opt.background = 0;
    }
    l.opt.background += l.opt.first;
    l.next_job = l.opt.known > 0 ? l.opt.known : l.opt.first;
    load_run(&l);
    status = print_line(&l);
    if (l.series != NULL) {
        (void)fclose(l.series);
    }
    load_close(&l);
    return status;
}
