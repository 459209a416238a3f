/*
 * Tables are aligned by what is in them; on a terminal the last column is cut at its edge, so that
 * a row stays a row. Colours are for terminals only, and never with NO_COLOR.
 */

#include "cli/human.h"

#include "base/text.h"
#include "base/utf8.h"
#include "cli/json.h"
#include "os/clock_linux.h"
#include "rules/duration.h"
#include "rules/moment.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { ROWS_KEPT = 1000, CELL_MAX = 4096, FACT_WIDTH = 15 };

/* ---- the terminal ---- */

/* May stdout have colours: a terminal, NO_COLOR is not set. */
static bool colours(void)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) == 1 && (no == NULL || *no == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}

/* Columns of the terminal that stdout is; 0: it is none. */
static unsigned human_columns(void)
{
    struct winsize size = {0};

    if (isatty(STDOUT_FILENO) != 1) {
        return 0;
    }
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

const char *tr_human_paint(enum tr_paint paint)
{
    static const char *const codes[] = {
        [TR_PLAIN] = "",       [TR_DIM] = "\033[2m",    [TR_BOLD] = "\033[1m",
        [TR_RED] = "\033[31m", [TR_GREEN] = "\033[32m", [TR_YELLOW] = "\033[33m",
        [TR_CYAN] = "\033[36m"};

    return colours() ? codes[paint] : "";
}

const char *tr_human_unpaint(enum tr_paint paint)
{
    return paint != TR_PLAIN && colours() ? "\033[0m" : "";
}

enum tr_paint tr_human_state(const char *state)
{
    static const struct {
        const char *state;
        enum tr_paint paint;
    } paints[] = {
        {"delayed", TR_CYAN}, {"ready", TR_GREEN}, {"reserved", TR_YELLOW}, {"dead", TR_RED}};

    for (size_t i = 0; i < sizeof paints / sizeof paints[0]; i++) {
        if (strcmp(paints[i].state, state) == 0) {
            return paints[i].paint;
        }
    }
    return TR_PLAIN;
}

/* ---- widths ---- */

/* The character at the beginning: its bytes, and whether it takes two columns (East Asia, emoji).
 */
static size_t character(const char *text, bool *wide)
{
    static const uint32_t ranges[][2] = {{0x1100, 0x115f},   {0x2e80, 0xa4cf},  {0xac00, 0xd7a3},
                                         {0xf900, 0xfaff},   {0xfe30, 0xfe6f},  {0xff00, 0xff60},
                                         {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
    const uint8_t *at = (const uint8_t *)text;
    size_t len = *at < 0x80 ? 1 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    uint32_t code = *at & (0xffu >> (len == 1 ? 0 : len + 1));

    *wide = false;
    if (strnlen(text, len) < len || !tr_utf8_ok(at, len)) {
        return 1;
    }
    for (size_t i = 1; i < len; i++) {
        code = code << 6 | (at[i] & 0x3fu);
    }
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        *wide = *wide || (code >= ranges[i][0] && code <= ranges[i][1]);
    }
    return len;
}

/* How many columns the text takes. */
static unsigned human_width(const char *text)
{
    unsigned width = 0;
    bool wide;

    while (*text != '\0') {
        text += character(text, &wide);
        width += wide ? 2 : 1;
    }
    return width;
}

/* Cuts the text to so many columns; what was cut off shows as a dot of dots. */
static void cut(char *text, unsigned columns)
{
    unsigned width = 0;
    char *at = text;
    bool wide;

    if (human_width(text) <= columns) {
        return;
    }
    while (*at != '\0') {
        size_t len = character(at, &wide);

        if (width + (wide ? 2 : 1) + 1 > columns) {
            break;
        }
        width += wide ? 2 : 1;
        at += len;
    }
    if ((size_t)(strlen(at)) >= 3) { /* of the ellipsis; what is cut off is at least two */
        memcpy(at, "\xe2\x80\xa6", 4);
    } else {
        *at = '\0';
    }
}

/* ---- tables ---- */

void tr_table_init(struct tr_table *t, const struct tr_column *columns, unsigned count)
{
    size_t cells = (size_t)ROWS_KEPT * count;

    *t = (struct tr_table){.columns = columns, .count = count};
    t->cells = tr_cli_memory(NULL, cells * sizeof *t->cells);
    t->paints = tr_cli_memory(NULL, cells * sizeof *t->paints);
    for (unsigned i = 0; i < count; i++) {
        t->widths[i] = human_width(columns[i].title);
    }
}

/* `last`: nothing follows in its row. */
static void print_cell(const struct tr_table *t, unsigned column, char *text, enum tr_paint paint,
                       bool last)
{
    unsigned terminal = human_columns();
    unsigned before = 0;
    unsigned width;

    for (unsigned i = 0; i < column; i++) {
        before += t->widths[i] + 2;
    }
    if (column + 1 == t->count && terminal > before + 4) {
        cut(text, terminal - before);
    }
    width = human_width(text);
    width = t->widths[column] > width ? t->widths[column] - width : 0;
    printf("%*s%s%s%s%*s", t->columns[column].right ? (int)width : 0, "", tr_human_paint(paint),
           text, tr_human_unpaint(paint), t->columns[column].right || last ? 0 : (int)width, "");
    fputs(last ? "\n" : "  ", stdout);
}

static void print_row(const struct tr_table *t, char **cells, const enum tr_paint *paints)
{
    unsigned count = t->count;

    while (count > 1 && cells[count - 1][0] == '\0') {
        count--;
    }
    for (unsigned i = 0; i < count; i++) {
        print_cell(t, i, cells[i], paints[i], i + 1 == count);
    }
}

static void print_head(const struct tr_table *t)
{
    enum tr_paint paints[TR_TABLE_COLUMNS];
    char texts[TR_TABLE_COLUMNS][64];
    char *cells[TR_TABLE_COLUMNS];

    for (unsigned i = 0; i < t->count; i++) {
        tr_text(texts[i], sizeof texts[i], "%s", t->columns[i].title);
        cells[i] = texts[i];
        paints[i] = TR_BOLD;
    }
    print_row(t, cells, paints);
}

static void flush(struct tr_table *t)
{
    for (size_t i = 0; i < t->used; i++) {
        unsigned width = human_width(t->cells[i]);
        unsigned *is = &t->widths[i % t->count];

        *is = width > *is ? width : *is;
    }
    if (!t->headed) {
        print_head(t);
    }
    t->headed = true;
    for (size_t i = 0; i < t->used; i += t->count) {
        print_row(t, t->cells + i, t->paints + i);
    }
    for (size_t i = 0; i < t->used; i++) {
        free(t->cells[i]);
    }
    t->used = 0;
}

void tr_table_cell(struct tr_table *t, enum tr_paint paint, const char *format, ...)
{
    char text[CELL_MAX];
    va_list args;

    if (t->used == (size_t)ROWS_KEPT * t->count) {
        flush(t);
    }
    va_start(args, format);
    tr_text_list(text, sizeof text, format, args);
    va_end(args);
    t->paints[t->used] = paint;
    t->cells[t->used] = tr_cli_memory(NULL, strlen(text) + 1);
    memcpy(t->cells[t->used++], text, strlen(text) + 1);
}

void tr_table_end(struct tr_table *t)
{
    flush(t);
    free(t->cells);
    free(t->paints);
}

void tr_human_fact(const char *name, const char *format, ...)
{
    char text[CELL_MAX];
    va_list args;

    va_start(args, format);
    tr_text_list(text, sizeof text, format, args);
    va_end(args);
    if (text[0] != '\0') {
        printf("%s%s:%s%*s%s\n", tr_human_paint(TR_DIM), name, tr_human_unpaint(TR_DIM),
               (int)(FACT_WIDTH > strlen(name) ? FACT_WIDTH - strlen(name) : 1), "", text);
    }
}

/* ---- times and sizes ---- */

uint64_t tr_human_now_ms(struct tr_cli *c)
{
    static const struct tr_cli_request who = {.method = "GET", .target = "/v1/whoami"};
    struct tr_now now = tr_clock_linux_now();
    struct tr_cli_answer a;
    struct tr_json_value v;

    if (c->asked_us == 0) {
        c->asked_us = 1;
        if (tr_cli_send_quietly(&c->server, &who, &a) && a.status == 200 && tr_cli_read(&a, &v) &&
            tr_cli_is_true(&v, "test_clock")) {
            c->now_ms = tr_cli_number_or(&v, "now_ms", 0); /* it stands still */
        }
        tr_cli_answer_fini(&a);
    }
    return c->now_ms != 0 ? c->now_ms : now.wall_us / 1000;
}

const char *tr_human_span(uint64_t ms, char out[TR_HUMAN_TEXT])
{
    if (ms == 0) {
        tr_text(out, TR_HUMAN_TEXT, "0 s");
    } else {
        tr_duration_tell(out, ms * 1000);
    }
    return out;
}

const char *tr_human_when(struct tr_cli *c, uint64_t at_ms, char out[TR_HUMAN_TEXT])
{
    uint64_t now_ms = tr_human_now_ms(c);
    char span[TR_HUMAN_TEXT];

    if (at_ms > now_ms) {
        tr_text(out, TR_HUMAN_TEXT, "in %s", tr_human_span(at_ms - now_ms, span));
    } else if (now_ms - at_ms < 1) {
        tr_text(out, TR_HUMAN_TEXT, "now");
    } else {
        tr_text(out, TR_HUMAN_TEXT, "%s ago", tr_human_span(now_ms - at_ms, span));
    }
    return out;
}

const char *tr_human_late(uint64_t late_ms, char out[TR_HUMAN_TEXT])
{
    char span[TR_HUMAN_TEXT];

    if (late_ms == 0) {
        tr_text(out, TR_HUMAN_TEXT, "on time");
    } else {
        tr_text(out, TR_HUMAN_TEXT, "%s late", tr_human_span(late_ms, span));
    }
    return out;
}

const char *tr_human_count(uint64_t n, char out[TR_HUMAN_TEXT])
{
    char digits[32];
    size_t len;
    size_t used = 0;

    tr_text(digits, sizeof digits, "%" PRIu64, n);
    len = strlen(digits);
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0) {
            out[used++] = ',';
        }
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}

const char *tr_human_job_count(uint64_t n, char out[TR_HUMAN_TEXT])
{
    char count[TR_HUMAN_TEXT];

    tr_text(out, TR_HUMAN_TEXT, n == 1 ? "%.40s job" : "%.40s jobs", tr_human_count(n, count));
    return out;
}

const char *tr_human_bytes(uint64_t n, char out[TR_HUMAN_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    uint64_t tenths = n * 10;

    if (n > UINT64_MAX / 10) {
        tr_text(out, TR_HUMAN_TEXT, "%" PRIu64 " EiB", n >> 60);
        return out;
    }
    while (tenths >= 10240 && unit + 1 < sizeof units / sizeof units[0]) {
        tenths /= 1024;
        unit++;
    }
    if (unit > 0 && tenths < 1000) {
        tr_text(out, TR_HUMAN_TEXT, "%u.%u %s", (unsigned)(tenths / 10), (unsigned)(tenths % 10),
                units[unit]);
    } else {
        tr_text(out, TR_HUMAN_TEXT, "%u %s", (unsigned)(tenths / 10), units[unit]);
    }
    return out;
}

const char *tr_human_moment(uint64_t ms, char out[TR_HUMAN_TEXT])
{
    char text[TR_MOMENT_TEXT];

    (void)tr_moment_print(text, (int64_t)ms * 1000);
    tr_text(out, TR_HUMAN_TEXT, "%.10s %.8sZ", text, text + 11);
    return out;
}

/* ---- jobs ---- */

static const struct tr_column job_columns[] = {
    {"ID", true},    {"TOPIC", false},   {"STATE", false},   {"DUE", false},
    {"LATE", false}, {"ATTEMPTS", true}, {"PRIORITY", true}, {"KEY", false},
};

void tr_human_job(struct tr_cli *c, struct tr_table *t, const struct tr_json_value *job)
{
    char text[1024];
    char state[32];
    char when[TR_HUMAN_TEXT] = "";
    uint64_t ms;

    (void)tr_cli_string(job, "state", state, sizeof state);
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(job, "id", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(job, "topic", text, sizeof text));
    tr_table_cell(t, tr_human_state(state), "%s", state);
    if (tr_cli_number(job, "due_ms", &ms)) {
        (void)tr_human_when(c, ms, when);
    }
    tr_table_cell(t, TR_PLAIN, "%s", when);
    if (tr_cli_number(job, "late_ms", &ms)) {
        tr_table_cell(t, ms >= 1000 ? TR_RED : TR_PLAIN, "%s", tr_human_late(ms, when));
    } else {
        tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(job, "reason", text, sizeof text));
    }
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(job, "attempts", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(job, "priority", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(job, "key", text, sizeof text));
}

void tr_human_jobs_begin(struct tr_table *t)
{
    tr_table_init(t, job_columns, sizeof job_columns / sizeof job_columns[0]);
}

void tr_human_one_job(struct tr_cli *c, const struct tr_json_value *job)
{
    struct tr_table t;

    tr_human_jobs_begin(&t);
    tr_human_job(c, &t, job);
    tr_table_end(&t);
}
