/*
 * The command line.
 *
 *     tarry COMMAND [--flag VALUE | --flag=VALUE] ...
 *
 * Nothing is guessed and nothing is dropped: an unknown word, a missing value, a flag given twice
 * are errors with a sentence that says what to do. --help wins over everything that follows it.
 */

#include "server/config.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct args {
    int count;
    char **at;
    int next;
    bool data_given;
    bool sync_given;
};

static const char *const sync_names[] = {
    [TR_SYNC_ALWAYS] = "always",
    [TR_SYNC_INTERVAL] = "50ms",
    [TR_SYNC_NEVER] = "never",
};

enum { SYNCS = sizeof sync_names / sizeof sync_names[0] };

const char *tr_config_sync_name(enum tr_sync sync)
{
    TR_CHECK((unsigned)sync < SYNCS);
    return sync_names[sync];
}

__attribute__((format(printf, 2, 3))) static int refuse(const char *help, const char *format, ...)
{
    va_list args;

    fputs("tarry: ", stderr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry: %s\n", help);
    return TARRY_EINVAL;
}

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

/* Is arg this flag? Then *value is what follows "=", or NULL. */
static bool is_flag(const char *arg, const char *flag, const char **value)
{
    size_t len = strlen(flag);

    if (strncmp(arg, flag, len) != 0 || (arg[len] != '\0' && arg[len] != '=')) {
        return false;
    }
    *value = arg[len] == '=' ? arg + len + 1 : NULL;
    return true;
}

/* The value of a flag: what stood after its "=", or the next argument. NULL: refused. */
static const char *take_value(struct args *a, const char *flag, const char *value, bool *given)
{
    const char *next = a->next < a->count ? a->at[a->next] : NULL;

    if (*given) {
        (void)refuse("tarry serve --help", "%s was given twice; give it once.", flag);
        return NULL;
    }
    *given = true;
    if (value == NULL && next != NULL && next[0] != '-') {
        value = next;
        a->next++;
    }
    if (value == NULL || *value == '\0') {
        (void)refuse("tarry serve --help", "%s needs a value.", flag);
        return NULL;
    }
    return value;
}

static int set_sync(struct tr_config *c, const char *value)
{
    for (unsigned i = 0; i < SYNCS; i++) {
        if (strcmp(value, sync_names[i]) == 0) {
            c->sync = (enum tr_sync)i;
            return TARRY_OK;
        }
    }
    return refuse("tarry serve --help", "--sync takes always, 50ms or never, not \"%s\".", value);
}

static int read_serve(struct tr_config *c, struct args *a)
{
    int err = TARRY_OK;

    c->command = TR_COMMAND_SERVE;
    while (err == TARRY_OK && a->next < a->count) {
        const char *arg = a->at[a->next++];
        const char *value = NULL;

        if (is_help(arg)) {
            c->command = TR_COMMAND_HELP_SERVE;
            return TARRY_OK;
        }
        if (is_flag(arg, "--data", &value)) {
            c->data_path = take_value(a, "--data", value, &a->data_given);
            err = c->data_path != NULL ? TARRY_OK : TARRY_EINVAL;
        } else if (is_flag(arg, "--sync", &value)) {
            value = take_value(a, "--sync", value, &a->sync_given);
            err = value != NULL ? set_sync(c, value) : TARRY_EINVAL;
        } else if (arg[0] == '-') {
            err = refuse("tarry serve --help", "serve has no flag \"%s\".", arg);
        } else {
            err = refuse("tarry serve --help",
                         "serve does not know what to do with \"%s\"; the data directory is named "
                         "by --data.",
                         arg);
        }
    }
    return err;
}

/* help and version: nothing may follow, but for the command that help is wanted of. */
static int read_bare(struct tr_config *c, struct args *a, enum tr_command command)
{
    const char *word = a->at[a->next - 1];
    const char *next = a->next < a->count ? a->at[a->next] : NULL;

    c->command = command;
    if (command == TR_COMMAND_HELP && next != NULL && strcmp(next, "serve") == 0) {
        c->command = TR_COMMAND_HELP_SERVE;
        next = ++a->next < a->count ? a->at[a->next] : NULL;
    }
    if (next != NULL && is_help(next)) {
        c->command = TR_COMMAND_HELP;
        return TARRY_OK;
    }
    if (next != NULL) {
        return refuse("tarry help", "%s does not know what to do with \"%s\".", word, next);
    }
    return TARRY_OK;
}

int tr_config_read(struct tr_config *c, int argc, char **argv)
{
    struct args a = {.count = argc, .at = argv, .next = 2};
    const char *word = argc > 1 ? argv[1] : NULL;

    *c = (struct tr_config){.data_path = "./tarry-data", .sync = TR_SYNC_ALWAYS};
    if (word == NULL) {
        return refuse("tarry help", "what shall it do? To start the server: tarry serve");
    }
    if (strcmp(word, "serve") == 0) {
        return read_serve(c, &a);
    }
    if (strcmp(word, "version") == 0 || strcmp(word, "--version") == 0) {
        return read_bare(c, &a, TR_COMMAND_VERSION);
    }
    if (strcmp(word, "help") == 0 || is_help(word)) {
        return read_bare(c, &a, TR_COMMAND_HELP);
    }
    return refuse("tarry help", "there is no command \"%s\".", word);
}
