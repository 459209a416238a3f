/*
 * tarry doctor: looks at a running server, and at its machine if that is this one, and says of each
 * thing whether it is well and what to do about it. What cannot be seen from here is not told.
 */

#include "base/text.h"
#include "cli/human.h"
#include "cli/json.h"
#include "os/clock_linux.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/timex.h>

enum verdict { WELL, NOTE, BAD };

enum { DAY_S = 86400, COMMIT_SLOW_US = 20000, COMMIT_BAD_US = 200000, SKEW_MS = 1000 };

struct doctor {
    struct tr_cli *cli;
    struct tr_json_value stats;
    struct tr_json_value settings;
    struct tr_json_value config;
    bool has_settings;
    bool elsewhere; /* its jobs are in Redis, or in a database */
    bool here;      /* the server runs on this machine, and we can see it */
    uint64_t pid;
    unsigned told;
    unsigned bad;
};

static const char *const verdicts[] = {"ok", "note", "bad"};

/* One finding. `todo`: what to do about it, or "". */
static void say(struct doctor *d, enum verdict is, const char *what, const char *todo,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

static void say(struct doctor *d, enum verdict is, const char *what, const char *todo,
                const char *format, ...)
{
    static const enum tr_paint paints[] = {TR_GREEN, TR_YELLOW, TR_RED};
    char text[1024];
    va_list args;

    va_start(args, format);
    tr_text_list(text, sizeof text, format, args);
    va_end(args);
    d->bad += is == BAD;
    if (d->cli->json) {
        char *quoted = tr_cli_quote(text);
        char *advice = tr_cli_quote(todo);

        printf("%s{\"check\":\"%s\",\"verdict\":\"%s\",\"says\":%s,\"todo\":%s}",
               d->told > 0 ? "," : "[", what, verdicts[is], quoted, advice);
        free(quoted);
        free(advice);
    } else {
        printf("%s%-4s%s  %-12s %s\n", tr_human_paint(paints[is]), verdicts[is],
               tr_human_unpaint(paints[is]), what, text);
        if (*todo != '\0') {
            printf("      %-12s -> %s\n", "", todo);
        }
    }
    d->told++;
}

/* The value of a key of the config. */
static const char *setting(const struct doctor *d, const char *key, char *out, size_t room)
{
    struct tr_json_value v;

    out[0] = '\0';
    if (d->has_settings && tr_cli_member(&d->settings, key, &v)) {
        (void)tr_cli_string(&v, "value", out, room);
    }
    return out;
}

static uint64_t figure(const struct doctor *d, const char *part, const char *name)
{
    struct tr_json_value v = d->stats;

    if (part != NULL && !tr_cli_member(&d->stats, part, &v)) {
        return 0;
    }
    return tr_cli_number_or(&v, name, 0);
}

static bool flag(const struct doctor *d, const char *part, const char *name)
{
    struct tr_json_value v;

    return tr_cli_member(&d->stats, part, &v) && tr_cli_is_true(&v, name);
}

/* ---- the server ---- */

static void check_version(struct doctor *d)
{
    char version[64];

    (void)tr_cli_string(&d->stats, "version", version, sizeof version);
    if (strcmp(version, TARRY_VERSION) == 0) {
        say(d, WELL, "version", "", "%s, as this tool", version);
    } else {
        say(d, NOTE, "version", "install the same version on both sides",
            "the server is %s, this tool " TARRY_VERSION, version);
    }
}

static void check_ready(struct doctor *d)
{
    static const struct tr_cli_request r = {.method = "GET", .target = "/readyz"};
    struct tr_cli_answer a;
    struct tr_json_value v;
    struct tr_json_value reason;
    struct tr_json_walk walk;
    char text[256];

    if (!tr_cli_send_quietly(&d->cli->server, &r, &a) || !tr_cli_read(&a, &v)) {
        say(d, BAD, "ready", "see the server's log", "it does not say whether it is ready");
        tr_cli_answer_fini(&a);
        return;
    }
    if (a.status == 200) {
        say(d, WELL, "ready", "", "it takes jobs");
    }
    if (tr_cli_member(&v, "reasons", &v) && v.kind == TR_JSON_ARRAY_KIND) {
        tr_json_walk_init(&walk, &v);
        while (tr_json_walk_element(&walk, &reason)) {
            say(d, a.status == 200 ? NOTE : BAD, "ready",
                "see the server's log, and the lines below", "%s",
                tr_cli_string(&reason, "message", text, sizeof text));
        }
    }
    tr_cli_answer_fini(&a);
}

static void check_clock(struct doctor *d, uint64_t before_ms, uint64_t after_ms)
{
    uint64_t theirs = figure(d, NULL, "now_ms");
    uint64_t skew = theirs < before_ms  ? before_ms - theirs
                    : theirs > after_ms ? theirs - after_ms
                                        : 0;
    uint64_t steps = figure(d, "store", "clock_steps");
    struct timex clock = {0};
    char text[TR_HUMAN_TEXT];
    char test[16];

    if (strcmp(setting(d, "clock.test", test, sizeof test), "on") == 0) {
        say(d, NOTE, "clock", "only for tests: serve without --test-clock",
            "a test clock: time stands still until it is advanced");
        return;
    }
    if (skew > SKEW_MS) {
        say(d, BAD, "clock", "let both machines keep their time by NTP",
            "it differs from the clock here by %s", tr_human_span(skew, text));
    } else {
        say(d, WELL, "clock", "", "it agrees with the clock here");
    }
    if (d->here && adjtimex(&clock) >= 0 && (clock.status & STA_UNSYNC) != 0) {
        say(d, NOTE, "clock sync", "timedatectl set-ntp true, or run chrony on the host",
            "the kernel does not know of any NTP: due times are as good as this clock");
    } else if (d->here) {
        say(d, WELL, "clock sync", "", "the kernel's clock is kept by NTP");
    }
    if (steps > 0) {
        say(d, NOTE, "clock steps", "let NTP slew the clock, not set it",
            "the clock was set %" PRIu64 " times since the start", steps);
    }
}

/* Of what keeps the jobs, which may be on other machines. */
static void check_durability_elsewhere(struct doctor *d)
{
    char words[900] = "";
    bool safe;

    (void)tr_cli_string(&d->config, "durability", words, sizeof words);
    safe = strstr(words, "takes nothing back") != NULL && strstr(words, "failover may") == NULL;
    say(d, safe ? WELL : NOTE, "durability",
        safe ? "" : "if that is not enough: appendonly, appendfsync, replicas; or sql.url", "%s",
        words);
}

static void check_durability(struct doctor *d)
{
    uint64_t p99 = figure(d, "store", "commit_p99_us");
    char sync[32];
    char text[TR_HUMAN_TEXT];

    if (d->elsewhere) {
        check_durability_elsewhere(d);
        return;
    }
    (void)setting(d, "store.sync", sync, sizeof sync);
    if (strcmp(sync, "always") == 0) {
        say(d, WELL, "durability", "", "success is answered when the disk has it");
    } else if (sync[0] != '\0') {
        say(d, NOTE, "durability", "store.sync = always, if no job may be lost",
            "store.sync = %s: a power cut can take back the last moments", sync);
    }
    if (p99 == 0) {
        say(d, WELL, "disk sync", "", "there were too few commits to tell how long one takes");
    } else {
        enum verdict is = p99 > COMMIT_BAD_US ? BAD : p99 > COMMIT_SLOW_US ? NOTE : WELL;

        say(d, is, "disk sync",
            is == WELL ? "" : "a faster disk, or one with a power-safe cache; nothing else on it",
            "99 of 100 commits take at most %s",
            p99 < 1000 ? "1 ms" : tr_human_span((p99 + 999) / 1000, text));
    }
}

static void check_disk(struct doctor *d)
{
    char path[1024];
    char room[TR_HUMAN_TEXT];
    struct statvfs fs;
    uint64_t left;

    if (flag(d, "store", "refusing")) {
        say(d, BAD, "disk room", "free space on the disk of store.path",
            "the disk is nearly full: pushes are refused");
        return;
    }
    if (!d->here || d->elsewhere || *setting(d, "store.path", path, sizeof path) == '\0') {
        return;
    }
    if (path[0] != '/') { /* it is seen from where the server was started */
        char link[64];
        char whole[1024];

        tr_text(link, sizeof link, "/proc/%" PRIu64 "/cwd", d->pid);
        tr_text(whole, sizeof whole, "%s/%s", link, path);
        memcpy(path, whole, sizeof path);
    }
    if (statvfs(path, &fs) != 0) {
        return;
    }
    left = fs.f_frsize > 0 && fs.f_blocks > 0 ? (uint64_t)fs.f_bavail * 100 / fs.f_blocks : 100;
    (void)tr_human_bytes((uint64_t)fs.f_bavail * fs.f_frsize, room);
    if (left < 10) {
        say(d, left < 3 ? BAD : NOTE, "disk room", "free space, or a larger disk",
            "%s are left, %" PRIu64 " %% of the disk", room, left);
    } else {
        say(d, WELL, "disk room", "", "%s are left, %" PRIu64 " %%", room, left);
    }
}

static void check_damage(struct doctor *d)
{
    if (flag(d, "damage", "damaged") || flag(d, "store", "damaged")) {
        say(d, BAD, "damage", "copy the disk; stop the server; tarry check DIR, then --repair",
            "%" PRIu64 " jobs cannot be read", figure(d, "damage", "jobs"));
    } else {
        say(d, WELL, "damage", "", "nothing that was read was damaged");
    }
}

/* The soft limit of open files of the process. 0: not known. */
static uint64_t file_limit(uint64_t pid)
{
    char path[64];
    char line[256];
    uint64_t limit = 0;
    FILE *in;

    tr_text(path, sizeof path, "/proc/%" PRIu64 "/limits", pid);
    in = fopen(path, "r");
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        if (strncmp(line, "Max open files", 14) == 0) {
            limit = strtoull(line + 14, NULL, 10);
        }
    }
    if (in != NULL) {
        (void)fclose(in);
    }
    return limit;
}

static void check_limits(struct doctor *d)
{
    uint64_t files = d->here ? file_limit(d->pid) : 0;
    uint64_t conns = figure(d, "connections", "beanstalk") + figure(d, "connections", "http");
    uint64_t most = figure(d, "connections", "most");

    if (files > 0 && most > 0 && files < most + 100) {
        say(d, NOTE, "open files", "LimitNOFILE= in the unit, ulimit -n, or limits.connections",
            "%" PRIu64 " files may be open, for %" PRIu64 " connections", files, most);
    } else if (files > 0) {
        say(d, WELL, "open files", "", "%" PRIu64 " may be open", files);
    }
    if (most > 0 && conns * 10 > most * 8) {
        say(d, BAD, "connections", "raise limits.connections, or find who keeps them",
            "%" PRIu64 " of at most %" PRIu64, conns, most);
    } else {
        say(d, WELL, "connections", "", "%" PRIu64 " of at most %" PRIu64, conns, most);
    }
    if (flag(d, "memory", "refusing")) {
        say(d, BAD, "memory", "raise memory.limit, or let consumers catch up",
            "memory.limit is reached: pushes are refused");
    } else {
        char text[TR_HUMAN_TEXT];

        say(d, WELL, "memory", "", "%s are used",
            tr_human_bytes(figure(d, NULL, "resident_bytes"), text));
    }
}

static void check_loop(struct doctor *d)
{
    uint64_t longest = figure(d, NULL, "loop_longest_us");
    uint64_t stalls = figure(d, NULL, "loop_stalls");
    char text[TR_HUMAN_TEXT];

    if (longest > 100000) {
        say(d, NOTE, "loop",
            "see the log (log.slow): a slow disk, or a machine with too much to do",
            "%" PRIu64 " rounds took over 5 ms, the longest %s", stalls,
            tr_human_span(longest / 1000, text));
    } else {
        say(d, WELL, "loop", "", "%" PRIu64 " rounds took over 5 ms", stalls);
    }
}

/* As the server reads it: a port alone is one of the loopback. */
static bool is_loopback(const char *address)
{
    const char *port = address + (address[0] == ':');

    return strcmp(address, "off") == 0 || strncmp(address, "127.", 4) == 0 ||
           strncmp(address, "[::1]:", 6) == 0 || strncmp(address, "unix:", 5) == 0 ||
           strncmp(address, "localhost:", 10) == 0 || port[strspn(port, "0123456789")] == '\0';
}

static void check_doors(struct doctor *d)
{
    uint64_t tokens = figure(d, "auth", "tokens");
    char http[256];
    char beanstalk[256];
    bool open = !is_loopback(setting(d, "listen.http", http, sizeof http)) ||
                !is_loopback(setting(d, "listen.beanstalk", beanstalk, sizeof beanstalk));
    char cert[1024];
    bool tls = *setting(d, "tls.cert", cert, sizeof cert) != '\0' && strcmp(cert, "off") != 0;

    if (tokens > 0) {
        say(d, WELL, "tokens", "", "%" PRIu64 ", and nobody else is let in", tokens);
    } else if (open) {
        say(d, BAD, "tokens", "tarry token new --role admin --topics '*' --config FILE; kill -HUP",
            "there are none, and other machines can reach it");
    } else {
        say(d, WELL, "tokens", "", "none: only this machine can reach it");
    }
    if (open && !tls) {
        say(d, NOTE, "tls", "tls.cert and tls.key, or a proxy in front",
            "other machines reach it without TLS: tokens and bodies can be read on the way");
    }
}

static void check_certificate(struct doctor *d)
{
    uint64_t until_s;
    uint64_t now_s = tr_clock_linux_now().wall_us / 1000000;
    char text[TR_HUMAN_TEXT];

    if (!tr_cli_certificate(&d->cli->server, &until_s)) {
        return;
    }
    if (until_s <= now_s + 21 * DAY_S) {
        say(d, until_s <= now_s + 3 * DAY_S ? BAD : NOTE, "certificate",
            "renew it, and kill -HUP the server", "it ends on %s",
            tr_human_moment(until_s * 1000, text));
    } else {
        say(d, WELL, "certificate", "", "good until %s", tr_human_moment(until_s * 1000, text));
    }
}

static void check_jobs(struct doctor *d)
{
    uint64_t dead = figure(d, NULL, "dead");
    uint64_t ready = figure(d, NULL, "ready");
    char text[TR_HUMAN_TEXT];
    char root[256];

    if (dead > 0) {
        say(d, NOTE, "dead jobs", "tarry list --state dead; tarry kick --topic TOPIC",
            "%s wait for somebody to look at them", tr_human_count(dead, text));
    } else {
        say(d, WELL, "dead jobs", "", "none");
    }
    if (ready > 0 && figure(d, NULL, "waiting") == 0 && figure(d, NULL, "reserved") == 0) {
        say(d, NOTE, "consumers", "start some: tarry work TOPIC -- COMMAND",
            "%s jobs are ready, and nobody takes them", tr_human_count(ready, text));
    }
    (void)setting(d, "store.backup_root", root, sizeof root);
    if (d->elsewhere) {
        say(d, WELL, "backups", "", "are those of %s: tarry makes none there",
            strcmp(setting(d, "sql.url", root, sizeof root), "none") != 0 ? "the database"
                                                                          : "Redis");
    } else if (root[0] == '\0' || strcmp(root, "off") == 0) {
        say(d, NOTE, "backups", "store.backup_root, and tarry backup NAME from a timer",
            "the server may not make any");
    } else {
        say(d, WELL, "backups", "", "can be made below %s", root);
    }
}

/* ---- all of it ---- */

/* Is the server's process here? Its number, and the name it runs under. */
static bool is_here(const struct doctor *d)
{
    const char *server = tr_cli_server_name(&d->cli->server);
    const char *host = strstr(server, "://") != NULL ? strstr(server, "://") + 3 : server;
    bool near = strncmp(host, "127.", 4) == 0 || strncmp(host, "localhost", 9) == 0 ||
                strncmp(host, "[::1]", 5) == 0;
    char path[64];
    char name[32] = "";
    FILE *in;

    tr_text(path, sizeof path, "/proc/%" PRIu64 "/comm", d->pid);
    in = near ? fopen(path, "r") : NULL;
    if (in != NULL) {
        if (fgets(name, sizeof name, in) == NULL) {
            name[0] = '\0';
        }
        (void)fclose(in);
    }
    return strncmp(name, "tarry", 5) == 0 || strncmp(name, "beanstalkd", 10) == 0;
}

static int examine(struct doctor *d, const struct tr_cli_answer *stats, uint64_t before_ms,
                   uint64_t after_ms)
{
    static const struct tr_cli_request config = {.method = "GET", .target = "/v1/config"};
    struct tr_cli_answer a = {0};
    struct tr_json_value v;

    if (!tr_cli_read(stats, &d->stats)) {
        return TR_CLI_FAILED;
    }
    if (tr_cli_send_quietly(&d->cli->server, &config, &a) && a.status == 200 &&
        tr_cli_read(&a, &v)) {
        char kind[32];

        d->config = v;
        d->has_settings = tr_cli_member(&v, "settings", &d->settings);
        d->elsewhere = strcmp(setting(d, "engine.kind", kind, sizeof kind), "redis") == 0;
    }
    d->pid = figure(d, NULL, "pid");
    d->here = is_here(d);
    check_version(d);
    check_ready(d);
    check_clock(d, before_ms, after_ms);
    check_durability(d);
    check_disk(d);
    check_damage(d);
    check_limits(d);
    check_loop(d);
    check_doors(d);
    check_certificate(d);
    check_jobs(d);
    if (d->cli->json) {
        puts("]");
    } else if (!d->here) {
        puts("\nIt runs on another machine: its clock sync, disk and limits cannot be seen from "
             "here.");
    }
    tr_cli_answer_fini(&a);
    return d->bad > 0 ? TR_CLI_FAILED : TR_CLI_FINE;
}

static int doctor(struct tr_cli *c)
{
    struct doctor d = {.cli = c};
    struct tr_cli_answer stats;
    uint64_t before_ms = tr_clock_linux_now().wall_us / 1000;
    int how = tr_cli_ask(&c->server, "GET", "/v1/stats", &stats);

    if (how == TR_CLI_FINE) {
        how = examine(&d, &stats, before_ms, tr_clock_linux_now().wall_us / 1000);
    }
    tr_cli_answer_fini(&stats);
    return how;
}

const struct tr_cli_command tr_cli_command_doctor = {
    .name = "doctor",
    .group = TR_CLI_WATCHING,
    .about = "is all well with a server and its machine?",
    .usage = "[FLAGS]",
    .text = "Looks at a running server, and at its machine if that is this one: version, clock,\n"
            "disk, durability, limits, memory, tokens, certificate, jobs. For what is not well it\n"
            "says what to do. The token must be for all topics.\n",
    .examples = "tarry doctor\n"
                "tarry doctor --server https://queue.example.com:11301 --json",
    .exits = "0 nothing is bad; 1 something is, or there is no server; 2 wrong usage",
    .run = doctor,
};
