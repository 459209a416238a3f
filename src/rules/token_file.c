/*
 * Lines are judged as the reader of the config does: "[" begins a section, "#" and ";" a comment,
 * also behind spaces. Whether the rest of the file is right is not asked here.
 */

#include "rules/token_file.h"

#include "base/err.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Copies text without the spaces around it. */
static void copy(char *out, const char *text, size_t len)
{
    while (len > 0 && is_blank(text[0])) {
        text++;
        len--;
    }
    while (len > 0 && is_blank(text[len - 1])) {
        len--;
    }
    memcpy(out, text, len);
    out[len] = '\0';
}

int tr_token_split(struct tr_token_pair *pair, const char *line, size_t len)
{
    size_t end = len; /* where a comment begins */
    size_t at = 0;

    if (len > TR_TOKEN_FILE_LINE_MAX) {
        return TARRY_EFULL;
    }
    for (size_t i = len; i > 1; i--) {
        if (line[i - 1] == ';' && is_blank(line[i - 2])) {
            end = i - 1;
        }
    }
    while (at < end && line[at] != '=' && line[at] != ':') {
        at++;
    }
    if (at == end) {
        return TARRY_EINVAL;
    }
    copy(pair->name, line, at);
    copy(pair->value, line + at + 1, end - at - 1);
    return TARRY_OK;
}

size_t tr_token_file_line_len(const struct tr_token_file *f)
{
    size_t len = f->to - f->from;

    len -= len > 0 && f->text[f->to - 1] == '\n';
    return len - (len > 0 && f->text[f->from + len - 1] == '\r');
}

/* Goes to the next line of any kind. */
static bool next_line(struct tr_token_file *f)
{
    const char *end;

    if (f->to == f->len) {
        return false;
    }
    f->from = f->to;
    end = memchr(f->text + f->from, '\n', f->len - f->from);
    f->to = end != NULL ? (size_t)(end - f->text) + 1 : f->len;
    f->number++;
    return true;
}

bool tr_token_file_next(struct tr_token_file *f)
{
    static const char head[] = "[tokens]";
    size_t head_len = sizeof head - 1;

    while (next_line(f)) {
        const char *line = f->text + f->from;
        size_t len = tr_token_file_line_len(f);
        size_t blanks = 0;

        while (blanks < len && is_blank(line[blanks])) {
            blanks++;
        }
        if (blanks == len || line[blanks] == '#' || line[blanks] == ';') {
            continue;
        }
        if (line[blanks] == '[') {
            f->inside = len - blanks >= head_len && memcmp(line + blanks, head, head_len) == 0;
            f->end = f->inside ? f->to : f->end;
        } else if (f->inside) {
            f->end = f->to;
            return true;
        }
    }
    return false;
}
