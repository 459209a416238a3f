/*
 * Text to command, as beanstalkd does it, oddities included:
 *
 *     put, peek, ...       the word ends in a space; without it the command is unknown
 *     stats, reserve, ...  the line is the word; anything behind it is a bad format
 *     quit                 whatever stands behind it
 *     pause-tube           no space is needed before the name
 *
 * Numbers are decimal, spaces before them are skipped, signs and tabs are not numbers. Behind the
 * last number nothing may follow, not even a space; but reserve-with-timeout and kick do not look.
 * kick alone takes white space and a sign, so "kick -1" is all there are.
 */

#include "proto/beanstalk_line.h"

#include "base/name.h"

#include <string.h>

static const struct {
    const char *word;
    uint8_t len;
    uint8_t args; /* enum tr_bs_args */
} commands[TR_BS_COMMAND_COUNT] = {
#define X(name, text, follows) [TR_BS_##name] = {text, sizeof(text) - 1, follows},
    TR_BS_COMMANDS(X)
#undef X
};

struct text {
    const char *at;
    const char *end;
};

static void skip_spaces(struct text *t)
{
    while (t->at < t->end && *t->at == ' ') {
        t->at++;
    }
}

/* Digits up to `most`; anything else, and more than that, is no number. */
static bool read_digits(struct text *t, uint64_t most, uint64_t *number)
{
    const char *start = t->at;

    *number = 0;
    while (t->at < t->end && *t->at >= '0' && *t->at <= '9') {
        uint64_t digit = (uint64_t)(*t->at - '0');

        if (*number > (most - digit) / 10) {
            return false;
        }
        *number = *number * 10 + digit;
        t->at++;
    }
    return t->at > start;
}

static bool read_u32(struct text *t, uint32_t *number)
{
    uint64_t wide;

    skip_spaces(t);
    if (!read_digits(t, UINT32_MAX, &wide)) {
        return false;
    }
    *number = (uint32_t)wide;
    return true;
}

static bool read_id(struct text *t, uint64_t *id)
{
    skip_spaces(t);
    return read_digits(t, UINT64_MAX, id);
}

static bool ends(const struct text *t)
{
    return t->at == t->end;
}

static bool read_put(struct text *t, struct tr_bs_line *line)
{
    if (!read_u32(t, &line->priority) || !read_u32(t, &line->delay_s) ||
        !read_u32(t, &line->ttr_s) || !read_u32(t, &line->body_len)) {
        return false;
    }
    line->garbage = !ends(t);
    return true;
}

/* The bound of kick: as C reads an unsigned long, with white space and a sign in front. */
static bool read_bound(struct text *t, uint64_t *bound)
{
    bool minus;

    while (t->at < t->end && (*t->at == ' ' || (*t->at >= '\t' && *t->at <= '\r'))) {
        t->at++;
    }
    minus = t->at < t->end && *t->at == '-';
    if (t->at < t->end && (*t->at == '-' || *t->at == '+')) {
        t->at++;
    }
    if (!read_digits(t, UINT64_MAX, bound)) {
        return false;
    }
    *bound = minus ? 0 - *bound : *bound;
    return true;
}

static bool read_name(const struct text *t, struct tr_bs_line *line)
{
    line->name = t->at;
    line->name_len = (size_t)(t->end - t->at);
    return tr_name_ok(line->name, line->name_len);
}

static bool read_name_delay(struct text *t, struct tr_bs_line *line)
{
    skip_spaces(t);
    line->name = t->at;
    line->name_len = tr_name_span(t->at, (size_t)(t->end - t->at));
    t->at += line->name_len;
    return tr_name_ok(line->name, line->name_len) && read_u32(t, &line->delay_s) && ends(t);
}

static bool read_args(struct text *t, enum tr_bs_args args, struct tr_bs_line *line)
{
    switch (args) {
    case TR_BS_ALONE:
        return ends(t);
    case TR_BS_WHATEVER:
        return true;
    case TR_BS_ID:
        return read_id(t, &line->id) && ends(t);
    case TR_BS_ID_PRIORITY:
        return read_id(t, &line->id) && read_u32(t, &line->priority) && ends(t);
    case TR_BS_ID_PRIORITY_DELAY:
        return read_id(t, &line->id) && read_u32(t, &line->priority) &&
               read_u32(t, &line->delay_s) && ends(t);
    case TR_BS_PUT_ARGS:
        return read_put(t, line);
    case TR_BS_TIMEOUT:
        return read_u32(t, &line->timeout_s) && line->timeout_s <= INT32_MAX;
    case TR_BS_BOUND:
        return read_bound(t, &line->bound);
    case TR_BS_NAME:
        return read_name(t, line);
    case TR_BS_NAME_DELAY:
        return read_name_delay(t, line);
    case TR_BS_WORD:
        line->name = t->at;
        line->name_len = (size_t)(t->end - t->at);
        return line->name_len > 0;
    }
    return false;
}

enum tr_bs_verdict tr_bs_line_read(struct tr_bs_line *line, const char *text, size_t len)
{
    struct text t = {.at = text, .end = text + len};

    *line = (struct tr_bs_line){.command = TR_BS_COMMAND_COUNT};
    if (memchr(text, '\0', len) != NULL) {
        return TR_BS_BAD_FORMAT;
    }
    for (unsigned i = 0; i < TR_BS_COMMAND_COUNT; i++) {
        if (len >= commands[i].len && text[0] == commands[i].word[0] &&
            memcmp(text, commands[i].word, commands[i].len) == 0) {
            line->command = (enum tr_bs_command)i;
            t.at += commands[i].len;
            return read_args(&t, (enum tr_bs_args)commands[i].args, line) ? TR_BS_FINE
                                                                          : TR_BS_BAD_FORMAT;
        }
    }
    return TR_BS_UNKNOWN;
}

void tr_bs_command_name(enum tr_bs_command command, char out[TR_BS_COMMAND_NAME])
{
    const char *word = command < TR_BS_COMMAND_COUNT ? commands[command].word : "unknown";
    size_t len = strlen(word);

    len -= word[len - 1] == ' ';
    memcpy(out, word, len);
    out[len] = '\0';
}
