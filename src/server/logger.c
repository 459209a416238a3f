/*
 * Lines for the operator.
 *
 *     warning: the sentence
 *     {"time":"2027-01-01T00:00:00.000Z","level":"warning","msg":"the sentence"}
 *
 *     slow: push of http on orders took 153.207 ms of the loop
 *     {"time":…,"level":"warning","slow":true,"port":"http","command":"push","topic":"orders",
 *      "took_us":153207,"msg":…}
 *     audit: ops from 127.0.0.1: POST /v1/topics/orders/purge: 200
 *     {"time":…,"level":"info","audit":true,"token":"ops","from":"127.0.0.1","status":200,"msg":…}
 *
 * Text has the prefixes error, damage, warning, note and debug; JSON has the level (damage is an
 * error there, and its sentence begins with "damage: "). A message may hold bytes from outside,
 * such as a path, so nothing in it can end the line or reach the terminal as a command: control
 * characters become a space in text and are escaped in JSON, where also bytes that are no UTF-8
 * become U+FFFD.
 */

#include "server/logger.h"

#include "base/check.h"
#include "base/text.h"
#include "os/clock_linux.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

enum { MESSAGE_MAX = 4096, MORE_MAX = 512, LINE_MAX_JSON = MESSAGE_MAX * 6 + MORE_MAX + 128 };

static const char *const level_names[] = {
    [TR_LEVEL_ERROR] = "error",
    [TR_LEVEL_WARNING] = "warning",
    [TR_LEVEL_INFO] = "info",
    [TR_LEVEL_DEBUG] = "debug",
};

const char *tr_log_level_name(enum tr_log_level level)
{
    TR_CHECK((unsigned)level < sizeof level_names / sizeof level_names[0]);
    return level_names[level];
}

void tr_logger_init(struct tr_logger *l, enum tr_log_level level, bool json)
{
    *l = (struct tr_logger){.out = stderr, .level = level, .json = json};
}

bool tr_logger_has(const struct tr_logger *l, enum tr_log_level level)
{
    return level <= l->level;
}

/* How many bytes at p are one character of UTF-8, none of them a NUL; 0: it is none. */
static size_t utf8_len(const unsigned char *p)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

    if (p[0] > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) {
        return 0; /* overlong, a surrogate, or beyond U+10FFFF */
    }
    return len;
}

/* Appends text as the inside of a JSON string; out has room for six bytes of each. */
static size_t put_json(char *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t len = 0;

    while (*p != '\0') {
        size_t step = utf8_len(p);

        if (step == 0) {
            memcpy(out + len, "\\ufffd", 6);
            len += 6;
            step = 1;
        } else if (*p == '"' || *p == '\\') {
            out[len++] = '\\';
            out[len++] = (char)*p;
        } else if (*p == '\n') {
            out[len++] = '\\';
            out[len++] = 'n';
        } else if (*p < 0x20 || *p == 0x7f) {
            tr_text(out + len, 7, "\\u%04x", (unsigned)*p);
            len += 6;
        } else {
            memcpy(out + len, p, step);
            len += step;
        }
        p += step;
    }
    return len;
}

/* more: members that come before the message, each with a comma behind it. */
static void write_json(const struct tr_logger *l, enum tr_log_level level, const char *more,
                       const char *text)
{
    uint64_t now_us = tr_clock_linux_now().wall_us;
    time_t now_s = (time_t)(now_us / 1000000);
    char line[LINE_MAX_JSON];
    char when[32];
    struct tm tm;
    size_t len;

    (void)gmtime_r(&now_s, &tm);
    (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
    tr_text(line, sizeof line, "{\"time\":\"%s.%03uZ\",\"level\":\"%s\",%s\"msg\":\"", when,
            (unsigned)(now_us / 1000 % 1000), tr_log_level_name(level), more);
    len = strlen(line);
    len += put_json(line + len, text);
    memcpy(line + len, "\"}\n", 3);
    (void)fwrite(line, 1, len + 3, l->out);
}

static void write_text(const struct tr_logger *l, const char *prefix, const char *text)
{
    char line[MESSAGE_MAX + 32];
    size_t len;

    tr_text(line, sizeof line - 1, "%s%s", prefix, text);
    len = strlen(line);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = ' ';
        }
    }
    line[len] = '\n';
    (void)fwrite(line, 1, len + 1, l->out); /* stderr has no buffer: one write */
}

void tr_logger_say(const struct tr_logger *l, enum tr_log_level level, const char *format, ...)
{
    static const char *const prefixes[] = {
        [TR_LEVEL_ERROR] = "error: ",
        [TR_LEVEL_WARNING] = "warning: ",
        [TR_LEVEL_INFO] = "note: ",
        [TR_LEVEL_DEBUG] = "debug: ",
    };
    char text[MESSAGE_MAX];
    va_list args;

    if (!tr_logger_has(l, level)) {
        return;
    }
    va_start(args, format);
    tr_text_list(text, sizeof text, format, args);
    va_end(args);
    if (l->json) {
        write_json(l, level, "", text);
    } else {
        write_text(l, prefixes[level], text);
    }
}

void tr_logger_audit(const struct tr_logger *l, const struct tr_audit *a)
{
    char text[MESSAGE_MAX / 2];
    char more[MORE_MAX]; /* a name and an address have nothing that JSON would escape */
    size_t len;

    tr_text(text, sizeof text, "%s from %s: %s", a->token, a->from, a->what);
    if (a->status != 0) {
        len = strlen(text);
        tr_text(text + len, sizeof text - len, ": %u", a->status);
    }
    if (!l->json) {
        write_text(l, "audit: ", text);
        return;
    }
    tr_text(more, sizeof more, "\"audit\":true,\"token\":\"%s\",\"from\":\"%s\",", a->token,
            a->from);
    if (a->status != 0) {
        len = strlen(more);
        tr_text(more + len, sizeof more - len, "\"status\":%u,", a->status);
    }
    write_json(l, TR_LEVEL_INFO, more, text);
}

void tr_logger_slow(const struct tr_logger *l, const struct tr_slow *s)
{
    char text[MESSAGE_MAX / 2];
    char topic[256] = "";
    char more[MORE_MAX];

    if (!tr_logger_has(l, TR_LEVEL_WARNING)) {
        return;
    }
    if (s->topic != NULL) {
        tr_text(topic, sizeof topic, "%.*s", (int)s->topic_len, s->topic);
    }
    tr_text(text, sizeof text, "%s of %s%s%s took %u.%03u ms of the loop", s->command, s->port,
            s->topic != NULL ? " on " : "", topic, (unsigned)(s->took_us / 1000),
            (unsigned)(s->took_us % 1000));
    if (!l->json) {
        write_text(l, "slow: ", text);
        return;
    }
    tr_text(more, sizeof more,
            "\"slow\":true,\"port\":\"%s\",\"command\":\"%s\",%s%s%s\"took_us\":%llu,", s->port,
            s->command, s->topic != NULL ? "\"topic\":\"" : "", topic,
            s->topic != NULL ? "\"," : "", (unsigned long long)s->took_us);
    write_json(l, TR_LEVEL_WARNING, more, text);
}

void tr_logger_notice(void *ctx, enum tr_notice kind, const char *text)
{
    const struct tr_logger *l = ctx;

    switch (kind) {
    case TR_NOTE_INFO:
        tr_logger_say(l, TR_LEVEL_INFO, "%s", text);
        break;
    case TR_NOTE_WARNING:
        tr_logger_say(l, TR_LEVEL_WARNING, "%s", text);
        break;
    case TR_NOTE_DAMAGE:
        if (l->json) {
            tr_logger_say(l, TR_LEVEL_ERROR, "damage: %s", text);
        } else {
            write_text(l, "damage: ", text);
        }
        break;
    case TR_NOTE_FATAL:
        tr_logger_say(l, TR_LEVEL_ERROR, "%s", text);
        break;
    }
}
