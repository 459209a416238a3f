/*
 * tarry top: a live view of a server, for a terminal of 80 columns and 24 lines or more. Each
 * second the figures are asked for and a picture is made of lines, which are cut to the terminal's
 * width; lines that there is no room for are left out, topics first.
 *
 * The terminal is given back as it was, however this ends. --once prints one picture and no more,
 * for a pipe or a script.
 */

#include "base/text.h"
#include "cli/human.h"
#include "cli/json.h"
#include "os/clock_linux.h"
#include "rules/duration.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { COLUMNS = 80, ROWS = 24, MINUTES = 60, SAMPLES = 10, ASK_MS = 1000, BAR_ROWS = 4 };
enum { SORTS = 4, TOPICS_MAX = 100, NAME_LEAST = 10, NAME_MOST = 60 };

/* What makes a topic busy. The first of each are asked for, and no others: there may be 10,000. */
static const char *const sorts[SORTS] = {"handed", "pushed", "ready", "delayed"};

struct top {
    struct tr_cli *cli;
    struct tr_cli_answer stats;
    struct tr_cli_answer topics[SORTS];
    struct tr_cli_answer forecast;
    uint64_t ready[SAMPLES]; /* of the last rounds, for the drain */
    unsigned samples;
    unsigned columns;
    unsigned rows;
    unsigned used; /* rows */
    bool live;
    const char *trouble; /* why there are no new figures; NULL: there are */
};

static volatile sig_atomic_t ended;
static volatile sig_atomic_t resized;

static void on_end(int number)
{
    (void)number;
    ended = 1;
}

static void on_resize(int number)
{
    (void)number;
    resized = 1;
}

/* ---- lines ---- */

static void line(struct top *t, enum tr_paint paint, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One line, cut to the width. */
static void line(struct top *t, enum tr_paint paint, const char *format, ...)
{
    char text[1024];
    unsigned width = 0;
    size_t len = 0;
    va_list args;

    if (t->live && t->used >= t->rows) {
        return;
    }
    va_start(args, format);
    tr_text_list(text, sizeof text, format, args);
    va_end(args);
    while (text[len] != '\0' && width < t->columns) { /* whole characters, one column each */
        len++;
        while (((unsigned char)text[len] & 0xc0) == 0x80) {
            len++;
        }
        width++;
    }
    printf("%s%.*s%s%s\n", tr_human_paint(paint), (int)len, text, tr_human_unpaint(paint),
           t->live ? "\033[K" : "");
    t->used++;
}

/* ---- the parts ---- */

/* When the ready jobs will be gone, by how they became fewer of late. */
static const char *drain(const struct top *t, char out[TR_HUMAN_TEXT])
{
    unsigned kept = t->samples < SAMPLES ? t->samples : SAMPLES;
    unsigned steps = kept > 1 ? kept - 1 : 0; /* from the first sample to the last */
    uint64_t now = t->ready[0];
    uint64_t then = t->ready[steps];
    char span[TR_HUMAN_TEXT];

    if (now == 0) {
        tr_text(out, TR_HUMAN_TEXT, "nothing waits");
    } else if (steps < 2) {
        tr_text(out, TR_HUMAN_TEXT, "...");
    } else if (then > now) {
        tr_text(out, TR_HUMAN_TEXT, "drained in %s",
                tr_human_span(now * steps * ASK_MS / (then - now), span));
    } else if (then < now) {
        tr_text(out, TR_HUMAN_TEXT, "grows by %" PRIu64 " a second",
                (now - then) * 1000 / (steps * ASK_MS));
    } else {
        tr_text(out, TR_HUMAN_TEXT, "stays as it is");
    }
    return out;
}

static void draw_head(struct top *t, const struct tr_json_value *s)
{
    struct tr_json_value store = *s;
    char a[TR_HUMAN_TEXT];
    char b[TR_HUMAN_TEXT];
    char c[TR_HUMAN_TEXT];
    char d[TR_HUMAN_TEXT];
    char e[TR_HUMAN_TEXT];
    char in[TR_HUMAN_TEXT];
    char out[32];
    char shown[TR_CLI_SHOWN];

    line(t, TR_BOLD, "tarry %s  %s  up %s  %s%s%s", tr_cli_string(s, "version", a, sizeof a),
         tr_cli_server_shown(&t->cli->server, shown),
         tr_human_span(tr_cli_number_or(s, "uptime_ms", 0), b),
         tr_human_moment(tr_cli_number_or(s, "now_ms", 0), c), t->trouble != NULL ? "  ! " : "",
         t->trouble != NULL ? t->trouble : "");
    line(t, TR_PLAIN, "jobs   delayed %s  ready %s  reserved %s  dead %s  waiting consumers %s",
         tr_human_count(tr_cli_number_or(s, "delayed", 0), a),
         tr_human_count(tr_cli_number_or(s, "ready", 0), b),
         tr_human_count(tr_cli_number_or(s, "reserved", 0), c),
         tr_human_count(tr_cli_number_or(s, "dead", 0), d),
         tr_human_count(tr_cli_number_or(s, "waiting", 0), e));
    line(t, TR_PLAIN, "rates  in %s/s  out %s/s  ready: %s",
         tr_cli_string(s, "pushed_per_s", in, sizeof in),
         tr_cli_string(s, "handed_per_s", out, sizeof out), drain(t, a));
    (void)tr_cli_member(s, "store", &store);
    tr_duration_tell(in, tr_cli_number_or(&store, "commit_p99_us", 0));
    line(t, TR_PLAIN, "store  %s on disk  %s alive  commit p99 %s  memory %s",
         tr_human_bytes(tr_cli_number_or(&store, "disk_bytes", 0), a),
         tr_human_bytes(tr_cli_number_or(&store, "live_bytes", 0), b),
         in[0] != '0' ? in : "...", /* it takes some to tell */
         tr_human_bytes(tr_cli_number_or(s, "resident_bytes", 0), c));
}

/* A topic, and how busy it is. */
struct row {
    struct tr_json_value topic;
    uint64_t weight;
};

static int busier(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;

    return (y->weight > x->weight) - (y->weight < x->weight);
}

/* A rate as a whole number, for sorting. */
static uint64_t rate(const struct tr_json_value *topic, const char *name)
{
    char text[32];

    return strtoull(tr_cli_string(topic, name, text, sizeof text), NULL, 10);
}

/* The busiest topics of all answers, each once. */
struct rows {
    struct row *row;
    size_t count;
    size_t room;
    uint64_t matched; /* topics that there are */
};

static bool has_row(const struct rows *rows, const struct tr_json_value *topic)
{
    char name[256];
    char other[256];

    (void)tr_cli_string(topic, "name", name, sizeof name);
    for (size_t i = 0; i < rows->count; i++) {
        if (strcmp(tr_cli_string(&rows->row[i].topic, "name", other, sizeof other), name) == 0) {
            return true;
        }
    }
    return false;
}

static void read_rows(struct rows *rows, const struct tr_json_value *topics)
{
    struct tr_json_walk walk;
    struct tr_json_value topic;

    tr_json_walk_init(&walk, topics);
    while (tr_json_walk_element(&walk, &topic)) {
        if (has_row(rows, &topic)) {
            continue;
        }
        if (rows->count == rows->room) {
            rows->room = 2 * rows->room + 16;
            rows->row = tr_cli_memory(rows->row, rows->room * sizeof *rows->row);
        }
        rows->row[rows->count++] = (struct row){
            .topic = topic,
            .weight = (rate(&topic, "pushed_per_s") + rate(&topic, "handed_per_s")) * 1000 +
                      tr_cli_number_or(&topic, "ready", 0) +
                      tr_cli_number_or(&topic, "reserved", 0) +
                      (tr_cli_number_or(&topic, "delayed", 0) > 0) +
                      (tr_cli_number_or(&topic, "dead", 0) > 0)};
    }
}

static void collect_rows(const struct top *t, struct rows *rows)
{
    for (unsigned i = 0; i < SORTS; i++) {
        struct tr_json_value all;
        struct tr_json_value list;

        if (t->topics[i].status == 200 && tr_cli_read(&t->topics[i], &all) &&
            tr_cli_member(&all, "topics", &list) && list.kind == TR_JSON_ARRAY_KIND) {
            rows->matched = tr_cli_number_or(&all, "matched", 0);
            read_rows(rows, &list);
        }
    }
    if (rows->count > 1) {
        qsort(rows->row, rows->count, sizeof *rows->row, busier);
    }
}

/* A name has what 80 columns leave it, and all that there is beyond them. */
static int name_width(const struct top *t)
{
    unsigned width = t->columns > COLUMNS ? t->columns - COLUMNS + NAME_LEAST : NAME_LEAST;

    return (int)(width < NAME_MOST ? width : NAME_MOST);
}

/* In at most five characters, so that columns stay what they are. */
static const char *brief(const struct tr_json_value *v, const char *name, char out[TR_HUMAN_TEXT])
{
    uint64_t n = tr_cli_number_or(v, name, 0);

    if (n < 100000) {
        tr_text(out, TR_HUMAN_TEXT, "%" PRIu64, n);
    } else if (n < 1000000) {
        tr_text(out, TR_HUMAN_TEXT, "%" PRIu64 "k", n / 1000);
    } else {
        tr_text(out, TR_HUMAN_TEXT, "%" PRIu64 ".%" PRIu64 "M", n / 1000000, n / 100000 % 10);
    }
    return out;
}

static void draw_topic(struct top *t, const struct tr_json_value *v)
{
    char name[256];
    char counts[4][TR_HUMAN_TEXT];
    char next[TR_HUMAN_TEXT] = "";
    char p50[TR_HUMAN_TEXT];
    char p99[TR_HUMAN_TEXT];
    char in[32];
    char out[32];
    uint64_t ms;

    if (tr_cli_number(v, "next_due_ms", &ms)) {
        (void)tr_human_when(t->cli, ms, next);
    }
    line(t, TR_PLAIN, "%-*.*s %7s %6s %8s %5s %6.6s %6.6s %6.6s %6.6s  %s", name_width(t),
         name_width(t), tr_cli_string(v, "name", name, sizeof name), brief(v, "delayed", counts[0]),
         brief(v, "ready", counts[1]), brief(v, "reserved", counts[2]), brief(v, "dead", counts[3]),
         tr_cli_string(v, "pushed_per_s", in, sizeof in),
         tr_cli_string(v, "handed_per_s", out, sizeof out),
         tr_human_span(tr_cli_number_or(v, "late_p50_ms", 0), p50),
         tr_human_span(tr_cli_number_or(v, "late_p99_ms", 0), p99), next);
}

static void draw_topics(struct top *t, unsigned most)
{
    struct rows rows = {0};

    line(t, TR_PLAIN, "%s", "");
    line(t, TR_BOLD, "%-*s %7s %6s %8s %5s %6s %6s %6s %6s  %s", name_width(t), "TOPIC", "DELAYED",
         "READY", "RESERVED", "DEAD", "IN/S", "OUT/S", "P50", "P99", "NEXT");
    collect_rows(t, &rows);
    for (size_t i = 0; i < rows.count && i < most; i++) {
        draw_topic(t, &rows.row[i].topic);
    }
    if (rows.matched > most) {
        line(t, TR_DIM, "and %" PRIu64 " more", rows.matched - most);
    }
    free(rows.row);
}

/* Bars of the next hour, a minute each. */
static void draw_forecast(struct top *t)
{
    static const char *const blocks[] = {" ",
                                         "\xe2\x96\x81",
                                         "\xe2\x96\x82",
                                         "\xe2\x96\x83",
                                         "\xe2\x96\x84",
                                         "\xe2\x96\x85",
                                         "\xe2\x96\x86",
                                         "\xe2\x96\x87",
                                         "\xe2\x96\x88"};
    struct tr_json_value v;
    struct tr_json_value step;
    struct tr_json_walk walk;
    uint64_t counts[MINUTES + 1] = {0};
    uint64_t most = 0;
    uint64_t sum = 0;
    unsigned count = 0;
    char a[TR_HUMAN_TEXT];
    char b[TR_HUMAN_TEXT];

    if (t->forecast.status != 200 || !tr_cli_read(&t->forecast, &v) ||
        !tr_cli_member(&v, "steps", &v) || v.kind != TR_JSON_ARRAY_KIND) {
        return;
    }
    tr_json_walk_init(&walk, &v);
    while (count <= MINUTES && tr_json_walk_element(&walk, &step)) {
        counts[count] = tr_cli_number_or(&step, "count", 0);
        sum += counts[count];
        most = counts[count] > most ? counts[count] : most;
        count++;
    }
    line(t, TR_PLAIN, "%s", "");
    line(t, TR_BOLD, "due in the next hour: %s, at most %s a minute", tr_human_count(sum, a),
         tr_human_count(most, b));
    for (unsigned level = BAR_ROWS; level > 0; level--) {
        char bars[(MINUTES + 1) * 3 + 1] = "";
        size_t len = 0;

        for (unsigned i = 0; i < count; i++) {
            uint64_t height = most > 0 ? (counts[i] * 8 * BAR_ROWS + most - 1) / most : 0;
            uint64_t below = (uint64_t)(level - 1) * 8;
            uint64_t part = height > below ? height - below : 0;
            const char *block = blocks[part > 8 ? 8 : part];

            memcpy(bars + len, block, strlen(block) + 1);
            len += strlen(block);
        }
        line(t, TR_CYAN, "  %s", bars);
    }
    line(t, TR_DIM, "  now            +15m           +30m           +45m            +1h");
}

/* How many topics there is room for. */
static unsigned topic_rows(const struct top *t)
{
    unsigned fixed = 4 + 2 + 1 + 2 + BAR_ROWS + 1 + 1; /* lines that are not topics */
    unsigned rows = t->rows > fixed ? t->rows - fixed : 1;

    return rows < TOPICS_MAX ? rows : TOPICS_MAX;
}

static void draw(struct top *t)
{
    struct tr_json_value s;

    t->used = 0;
    t->cli->asked_us = 0; /* the clock may have been advanced */
    if (t->live) {
        fputs("\033[H", stdout);
    }
    if (t->stats.status == 200 && tr_cli_read(&t->stats, &s)) {
        draw_head(t, &s);
    }
    draw_topics(t, topic_rows(t));
    draw_forecast(t);
    if (t->live) {
        while (t->used + 1 < t->rows) {
            line(t, TR_PLAIN, "%s", "");
        }
        printf("%sq quits%s\033[K\033[J", tr_human_paint(TR_DIM), tr_human_unpaint(TR_DIM));
    }
    (void)fflush(stdout);
}

/* ---- asking ---- */

static int ask(struct top *t, const char *target, struct tr_cli_answer *kept)
{
    struct tr_cli_request r = {.method = "GET", .target = target};
    struct tr_cli_answer a;
    int how = TR_CLI_FINE;

    if (!t->live || kept->body == NULL) { /* the first time everything is told as by others */
        how = tr_cli_ask(&t->cli->server, "GET", target, &a);
    } else if (!tr_cli_send_quietly(&t->cli->server, &r, &a)) {
        t->trouble = "no answer";
        tr_cli_answer_fini(&a);
        return TR_CLI_FINE; /* the old figures stay */
    } else if (a.status != 200) {
        t->trouble = "the server refuses";
        tr_cli_answer_fini(&a);
        return TR_CLI_FINE;
    }
    tr_cli_answer_fini(kept);
    *kept = a;
    return how;
}

static void measure(struct top *t)
{
    struct winsize size = {0};

    t->columns = COLUMNS;
    t->rows = t->live ? ROWS : 1000;
    if (t->live && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        t->columns = size.ws_col;
        t->rows = size.ws_row;
    }
}

static int look(struct top *t)
{
    struct tr_json_value s;
    char target[96];
    uint64_t now;
    int how;

    measure(t);
    t->trouble = NULL;
    how = ask(t, "/v1/stats", &t->stats);
    for (unsigned i = 0; i < SORTS && how == TR_CLI_FINE; i++) {
        tr_text(target, sizeof target, "/v1/topics?sort=%s&limit=%u", sorts[i], topic_rows(t));
        how = ask(t, target, &t->topics[i]);
    }
    if (how != TR_CLI_FINE || !tr_cli_read(&t->stats, &s)) {
        return how;
    }
    now = tr_cli_number_or(&s, "now_ms", 0);
    tr_text(target, sizeof target, "/v1/forecast?step=1m&to=%" PRIu64, now + 3600000);
    how = ask(t, target, &t->forecast);
    memmove(t->ready + 1, t->ready, (SAMPLES - 1) * sizeof t->ready[0]);
    t->ready[0] = tr_cli_number_or(&s, "ready", 0);
    t->samples++;
    return how;
}

/* ---- the terminal ---- */

/* Waits a second, or until a key or a signal comes. True: it was q. */
static bool pause_for_key(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    uint64_t end_ms = tr_clock_linux_now().boot_us / 1000 + ASK_MS;
    uint64_t now_ms = end_ms - ASK_MS;
    char key;

    /* other keys do not make the second shorter: rates are by it */
    for (; now_ms < end_ms; now_ms = tr_clock_linux_now().boot_us / 1000) {
        int came = poll(&in, 1, (int)(end_ms - now_ms));

        if (came < 0) {
            break; /* a signal */
        }
        if (came == 1 &&
            (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q' || key == 3)) {
            return true;
        }
    }
    return false;
}

static int watch(struct top *t)
{
    struct sigaction act = {.sa_handler = on_end};
    struct termios was;
    struct termios raw;
    bool keys = tcgetattr(STDIN_FILENO, &was) == 0;
    int how = look(t);

    if (how != TR_CLI_FINE) {
        return how;
    }
    (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGTERM, &act, NULL);
    (void)sigaction(SIGHUP, &act, NULL);
    act.sa_handler = on_resize;
    (void)sigaction(SIGWINCH, &act, NULL);
    if (keys) {
        raw = was;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* a stop would leave the terminal as it is now */
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs("\033[?1049h\033[?25l", stdout); /* the other screen, no cursor */
    while (!ended && how == TR_CLI_FINE && !ferror(stdout)) {
        measure(t);
        draw(t);
        if (pause_for_key()) {
            break;
        }
        if (!resized) {
            how = look(t);
        }
        resized = 0;
    }
    fputs("\033[?25h\033[?1049l", stdout);
    (void)fflush(stdout);
    if (keys) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &was);
    }
    return how;
}

/* What the answers say, as they say it; the topics those that the table has. */
static int print_json(struct top *t)
{
    struct tr_json_value v;
    struct rows rows = {0};

    if (!tr_cli_read(&t->stats, &v) || !tr_cli_read(&t->forecast, &v)) {
        return TR_CLI_FAILED;
    }
    collect_rows(t, &rows);
    printf("{\"stats\":%s,\"topics\":[", t->stats.body);
    for (size_t i = 0; i < rows.count && i < topic_rows(t); i++) {
        printf("%s%.*s", i > 0 ? "," : "", (int)rows.row[i].topic.len, rows.row[i].topic.text);
    }
    printf("],\"matched\":%" PRIu64 ",\"forecast\":%s}\n", rows.matched, t->forecast.body);
    free(rows.row);
    return TR_CLI_FINE;
}

static int top(struct tr_cli *c)
{
    struct top t = {.cli = c, .live = !tr_cli_given(c, "--once") && !c->json};
    int how;

    if (t.live && (isatty(STDOUT_FILENO) != 1 || isatty(STDIN_FILENO) != 1)) {
        return tr_cli_usage("top", "top needs a terminal; --once prints one picture without.");
    }
    if (t.live) {
        how = watch(&t);
    } else {
        how = look(&t);
        if (how == TR_CLI_FINE && c->json) {
            how = print_json(&t);
        } else if (how == TR_CLI_FINE) {
            draw(&t);
        }
    }
    tr_cli_answer_fini(&t.stats);
    for (unsigned i = 0; i < SORTS; i++) {
        tr_cli_answer_fini(&t.topics[i]);
    }
    tr_cli_answer_fini(&t.forecast);
    return how;
}

const struct tr_cli_command tr_cli_command_top = {
    .name = "top",
    .group = TR_CLI_WATCHING,
    .about = "a live view: rates, lateness, topics, what comes",
    .usage = "[FLAGS]",
    .text =
        "Shows a server as it works: jobs by state, rates, when the ready ones will be gone,\n"
        "the busiest topics with how late their jobs became ready, and how many jobs are due in\n"
        "the next hour. It is drawn anew each second; q quits. With --json it is printed once,\n"
        "as one object: stats, topics (the busiest), matched (how many there are), forecast.\n",
    .options = {{.name = "--once", .about = "print it once, also without a terminal"}},
    .examples = "tarry top\n"
                "tarry top --once --server https://queue.example.com:11301",
    .exits = "0 fine; 1 no answer, or the server refused; 2 wrong usage, or no terminal",
    .run = top,
};
