/*
 * The config file, read by libinih.
 *
 *     ; or #: a comment, at the start of a line
 *     [section]
 *     key = value         ; a comment, after a space
 *
 * Lines may be indented, which says nothing.
 *
 * libinih is kind where we are strict: as Debian builds it, a line longer than 199 bytes is cut
 * into two, an indented line is a second value of the key above (so it sees none, and a value that
 * goes on there is a line that is no key = value), what stands behind a [section] is dropped, a
 * section without keys is not told of, and its handler knows no line numbers. So it gets its lines
 * from next_line, which counts them and refuses all that could be read in another way than it was
 * meant; of comments it sees nothing, nor of the section [tokens], whose keys have no row in the
 * table. For the same reason a value may not begin with a quote, which would be part of it, nor
 * contain " #", which would be no comment.
 *
 * The first refusal ends the reading: from then on next_line is at the end of the file.
 */

#include "base/err.h"
#include "base/text.h"
#include "rules/token_file.h"
#include "server/config_inner.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

struct source {
    struct tr_reading *r;
    const char *path;
    const char *text;
    size_t len;
    size_t at;
    int line;    /* the one that libinih has; from 1 */
    bool tokens; /* in the section [tokens] */
};

/* ---- lines ---- */

static bool is_tokens(const char *section, size_t len)
{
    return len == 6 && memcmp(section, "tokens", len) == 0;
}

/* [section], and nothing but a comment behind it. */
static int check_section(const struct source *s, const char *line, size_t len)
{
    const char *end = memchr(line, ']', len);
    size_t rest;

    if (end == NULL) {
        return tr_reading_refuse(s->r, "%s:%d: the section has no \"]\".", s->path, s->line);
    }
    if (!is_tokens(line + 1, (size_t)(end - line - 1)) &&
        !tr_config_has_section(line + 1, (size_t)(end - line - 1))) {
        return tr_reading_refuse(s->r, "%s:%d: there is no section \"%.*s\".", s->path, s->line,
                                 (int)(end - line - 1), line + 1);
    }
    rest = len - (size_t)(end + 1 - line);
    for (end++; rest > 0 && (*end == ' ' || *end == '\t'); end++) {
        rest--;
    }
    if (rest > 0 && *end != ';' && *end != '#') {
        return tr_reading_refuse(s->r, "%s:%d: behind the section there may only be a comment.",
                                 s->path, s->line);
    }
    return TARRY_OK;
}

/* May libinih see this line, which is neither empty nor a comment? */
static int check_line(const struct source *s, const char *line, size_t len, size_t room)
{
    if (memchr(line, '\0', len) != NULL) {
        return tr_reading_refuse(s->r, "%s:%d: there is a NUL byte; is this a text file?", s->path,
                                 s->line);
    }
    if (line[0] == '[') {
        return check_section(s, line, len);
    }
    if (len >= room) {
        return tr_reading_refuse(
            s->r,
            "%s:%d: the line is longer than %zu bytes. A longer value can come "
            "from a flag or the environment.",
            s->path, s->line, room - 1);
    }
    if (memchr(line, '=', len) == NULL && memchr(line, ':', len) == NULL) {
        return tr_reading_refuse(s->r, "%s:%d: this is no [section], no key = value, no comment.",
                                 s->path, s->line);
    }
    return TARRY_OK;
}

/* NAME = VALUE of the section [tokens], which may be longer than libinih can take. */
static int take_token(const struct source *s, const char *line, size_t len)
{
    struct tr_place place = {.from = TR_FROM_FILE, .line = s->line};
    struct tr_token_pair pair;
    char where[512];

    switch (tr_token_split(&pair, line, len)) {
    case TARRY_OK:
        break;
    case TARRY_EFULL:
        return tr_reading_refuse(s->r, "%s:%d: the line is longer than %d bytes.", s->path, s->line,
                                 TR_TOKEN_FILE_LINE_MAX);
    default:
        return tr_reading_refuse(s->r, "%s:%d: a token is NAME = ROLE PATTERN sha256:HEX.", s->path,
                                 s->line);
    }
    tr_text(where, sizeof where, "%s:%d: the token \"%.64s\"", s->path, s->line, pair.name);
    place.name = where;
    return tr_config_set_token(s->r, pair.name, pair.value, &place);
}

/* The line itself: a token is taken, and libinih hears nothing of it. */
static int take_line(struct source *s, const char *line, size_t *len, size_t room)
{
    bool token = s->tokens && line[0] != '[';
    int err = check_line(s, line, *len, token ? SIZE_MAX : room);

    if (err != TARRY_OK) {
        return err;
    }
    if (line[0] == '[') {
        const char *end = memchr(line, ']', *len); /* it is there, as was checked */

        s->tokens = is_tokens(line + 1, (size_t)(end - line - 1));
    }
    if (token) {
        err = take_token(s, line, *len);
        *len = 0;
    }
    return err;
}

/* An ini_reader: the next line without its end, or NULL: no more. */
static char *next_line(char *out, int room, void *stream)
{
    struct source *s = stream;
    const char *line = s->text + s->at;
    const char *end;
    size_t blanks = 0;
    size_t len;

    if (s->r->why[0] != '\0' || s->at == s->len) {
        return NULL;
    }
    end = memchr(line, '\n', s->len - s->at);
    len = end != NULL ? (size_t)(end - line) : s->len - s->at;
    s->at += len + (end != NULL);
    s->line++;
    if (len > 0 && line[len - 1] == '\r') {
        len--;
    }
    while (blanks < len && (line[blanks] == ' ' || line[blanks] == '\t')) {
        blanks++;
    }
    out[0] = '\0';
    if (blanks == len || line[blanks] == ';' || line[blanks] == '#') {
        return out;
    }
    line += blanks;
    len -= blanks;
    if (take_line(s, line, &len, (size_t)room) != TARRY_OK) {
        return NULL;
    }
    len = len < (size_t)room ? len : (size_t)room - 1; /* only a section's comment can be cut */
    memcpy(out, line, len);
    out[len] = '\0';
    return out;
}

/* ---- values ---- */

static int take_pair(struct source *s, const char *section, const char *name, const char *value)
{
    enum tr_key key = tr_config_find_key(section, name);
    struct tr_place place = {.from = TR_FROM_FILE, .line = s->line};
    char where[512];

    if (section[0] == '\0') {
        return tr_reading_refuse(s->r, "%s:%d: \"%s\" stands before the first [section].", s->path,
                                 s->line, name);
    }
    if (key == TR_KEY_COUNT) {
        return tr_reading_refuse(s->r, "%s:%d: there is no key \"%s\" in the section [%s].",
                                 s->path, s->line, name, section);
    }
    if (s->r->given[key]) {
        return tr_reading_refuse(s->r, "%s:%d: %s was given twice; the first is in line %d.",
                                 s->path, s->line, tr_key_rows[key].full,
                                 s->r->config->settings[key].line);
    }
    if (value[0] == '"' || value[0] == '\'') {
        return tr_reading_refuse(s->r, "%s:%d: %s: values stand without quotes.", s->path, s->line,
                                 tr_key_rows[key].full);
    }
    if (strstr(value, " #") != NULL || strstr(value, "\t#") != NULL) {
        return tr_reading_refuse(s->r, "%s:%d: %s: a comment behind a value begins with \";\".",
                                 s->path, s->line, tr_key_rows[key].full);
    }
    tr_text(where, sizeof where, "%s:%d: %s", s->path, s->line, tr_key_rows[key].full);
    place.name = where;
    return tr_config_set(s->r, key, value, &place);
}

/* An ini_handler: 0 is a failure. */
static int handle(void *user, const char *section, const char *name, const char *value)
{
    return take_pair(user, section, name, value) == TARRY_OK;
}

/* ---- the file ---- */

/* Reads what is left of the file, at most FILE_MAX; *len is one more if there is more. */
static char *read_text(FILE *file, size_t *len)
{
    char *text = malloc(FILE_MAX + 1);

    if (text != NULL) {
        *len = fread(text, 1, FILE_MAX + 1, file);
    }
    return text;
}

static int parse(struct tr_reading *r, const char *path, const char *text, size_t len)
{
    struct source s = {.r = r, .path = path, .text = text, .len = len};
    int line;

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        s.at = 3; /* a byte order mark says nothing in UTF-8 */
    }
    line = ini_parse_stream(next_line, &s, handle, &s);
    if (line == -2) {
        return tr_reading_no_memory(r);
    }
    if (line > 0) { /* what libinih found and we did not */
        (void)tr_reading_refuse(r, "%s:%d: this is no [section], no key = value, no comment.", path,
                                line);
    }
    return r->why[0] == '\0' ? TARRY_OK : TARRY_EINVAL;
}

int tr_config_read_file(struct tr_reading *r, const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t len = 0;
    int err;

    if (file != NULL) {
        text = read_text(file, &len);
    }
    if (file != NULL && text == NULL) {
        err = tr_reading_no_memory(r);
    } else if (file == NULL || ferror(file)) {
        err = tr_reading_refuse(r, "the config file %s cannot be read: %s.", path, strerror(errno));
    } else if (len > FILE_MAX) {
        err = tr_reading_refuse(r, "the config file %s is larger than 1 MiB.", path);
    } else {
        err = parse(r, path, text, len);
    }
    free(text);
    if (file != NULL) {
        (void)fclose(file);
    }
    return err;
}
