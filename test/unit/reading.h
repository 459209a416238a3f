#ifndef TR_TEST_UNIT_READING_H
#define TR_TEST_UNIT_READING_H

/* One reading of the config, from a command line, an environment and a file of the test's own. */

#include "base/text.h"
#include "server/config_inner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORDS_MAX = 16 };

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* One reading, with what it read from. */
struct bench {
    struct tr_config c;
    struct tr_reading r;
    char *argv[WORDS_MAX + 1];
    char *env[WORDS_MAX + 1];
    char words[2][1024];
    char path[64]; /* of a config file; empty: none */
};

/* Takes text apart at its spaces. */
static inline int split(char **out, char *room, const char *text)
{
    int count = 0;

    tr_text(room, 1024, "%s", text);
    while (*room != '\0') {
        size_t len = strcspn(room, " ");

        assert_true(count < WORDS_MAX);
        out[count++] = room;
        room += len;
        if (*room == ' ') {
            *room++ = '\0';
        }
    }
    out[count] = NULL;
    return count;
}

/* Reads a command line and an environment, both with spaces between the words. */
static inline int read_both(struct bench *b, const char *line, const char *env)
{
    int argc = split(b->argv, b->words[0], line);

    (void)split(b->env, b->words[1], env);
    return tr_config_read_all(&b->r, &b->c, argc, b->argv, b->env);
}

static inline void write_file(const char *path, const char *text, size_t len)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static inline void new_file(struct bench *b, const char *text, size_t len)
{
    int fd;

    tr_text(b->path, sizeof b->path, "/tmp/test_config.XXXXXX");
    fd = mkstemp(b->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    write_file(b->path, text, len);
}

/* Reads a file, then env and flags. */
static inline int read_file(struct bench *b, const char *text, const char *env, const char *flags)
{
    char line[256];

    new_file(b, text, strlen(text));
    tr_text(line, sizeof line, "tarry serve --config %s %s", b->path, flags);
    return read_both(b, line, env);
}

static inline void end(struct bench *b)
{
    tr_config_fini(&b->c);
    if (b->path[0] != '\0') {
        assert_int_equal(unlink(b->path), 0);
        b->path[0] = '\0';
    }
}

static inline void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        print_error("no \"%s\" in \"%s\"\n", part, text);
        fail();
    }
}

static inline void assert_setting(const struct bench *b, enum tr_key key, const char *text,
                                  enum tr_from from)
{
    assert_string_equal(b->c.settings[key].text, text);
    assert_int_equal(b->c.settings[key].from, from);
}

#endif
