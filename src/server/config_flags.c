/*
 * The command line of tarry.
 *
 *     tarry COMMAND [--flag VALUE | --flag=VALUE | --switch] ...
 *
 * Nothing is guessed and nothing is dropped: an unknown word, a missing value, a flag given twice
 * are errors with a sentence that says what to do. --help wins over everything that follows it.
 *
 * The flags are only gathered here; their values are looked at when file and environment have been
 * read, over which they win.
 */

#include "base/err.h"
#include "server/config_inner.h"

#include <stdlib.h>
#include <string.h>

struct args {
    struct tr_reading *r;
    struct tr_flags *flags;
    int count;
    char **at;
    int next;
};

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
static const char *take_value(struct args *a, const char *flag, const char *value)
{
    const char *next = a->next < a->count ? a->at[a->next] : NULL;

    if (value == NULL && next != NULL && next[0] != '-') {
        value = next;
        a->next++;
    }
    if (value == NULL || *value == '\0') {
        (void)tr_reading_refuse(a->r, "%s needs a value.", flag);
        return NULL;
    }
    return value;
}

static int gather(struct args *a, enum tr_key key, const char *flag, const char *value)
{
    const char *before = a->flags->name[key];

    if (before != NULL && strcmp(before, flag) != 0) {
        return tr_reading_refuse(a->r, "%s and %s set the same key; give one of them.", before,
                                 flag);
    }
    if (before != NULL) {
        return tr_reading_refuse(a->r, "%s was given twice; give it once.", flag);
    }
    a->flags->name[key] = flag;
    a->flags->value[key] = value;
    return TARRY_OK;
}

/* --set tokens.NAME=VALUE */
static int gather_token(struct args *a, const char *pair)
{
    struct tr_flags *f = a->flags;
    const char **more = realloc(f->tokens, (f->token_count + 1) * sizeof *more);

    if (more == NULL) {
        return tr_reading_no_memory(a->r);
    }
    f->tokens = more;
    f->tokens[f->token_count++] = pair;
    return TARRY_OK;
}

/* --set section.key=value */
static int read_set(struct args *a, const char *value)
{
    const char *equals;
    enum tr_key key;

    value = take_value(a, "--set", value);
    if (value == NULL) {
        return TARRY_EINVAL;
    }
    equals = strchr(value, '=');
    if (equals == NULL) {
        size_t name = strspn(value, "abcdefghijklmnopqrstuvwxyz_.");

        return tr_reading_refuse(a->r, "--set takes section.key=value, not \"%.*s%s\".", (int)name,
                                 value, value[name] != '\0' ? "..." : "");
    }
    if (strncmp(value, "tokens.", 7) == 0) {
        return gather_token(a, value + 7);
    }
    key = tr_config_find_full(value, (size_t)(equals - value));
    if (key == TR_KEY_COUNT) {
        return tr_reading_refuse(a->r, "--set: there is no key \"%.*s\".", (int)(equals - value),
                                 value);
    }
    return gather(a, key, tr_key_rows[key].set, equals + 1);
}

/* The next argument as a flag of the table. */
static int read_key_flag(struct args *a, const char *arg)
{
    const char *value = NULL;

    for (unsigned i = 0; i < TR_KEY_COUNT; i++) {
        const struct tr_key_row *row = &tr_key_rows[i];

        if (row->flag == NULL || !is_flag(arg, row->flag, &value)) {
            continue;
        }
        if (row->is_switch && value == NULL) {
            value = "on";
        }
        value = take_value(a, row->flag, value);
        return value != NULL ? gather(a, (enum tr_key)i, row->flag, value) : TARRY_EINVAL;
    }
    if (arg[0] == '-') {
        return tr_reading_refuse(a->r, "serve has no flag \"%.*s\".", (int)strcspn(arg, "="), arg);
    }
    return tr_reading_refuse(a->r,
                             "serve does not know what to do with \"%s\"; the data directory is "
                             "named by --data.",
                             arg);
}

static int read_config_flag(struct args *a, const char *value)
{
    value = take_value(a, "--config", value);
    if (value != NULL && a->flags->config_path != NULL) {
        return tr_reading_refuse(a->r, "--config was given twice; give it once.");
    }
    a->flags->config_path = value;
    return value != NULL ? TARRY_OK : TARRY_EINVAL;
}

static int read_serve(struct args *a)
{
    int err = TARRY_OK;

    a->r->config->command = TR_COMMAND_SERVE;
    a->r->advice = "tarry serve --help";
    while (err == TARRY_OK && a->next < a->count) {
        const char *arg = a->at[a->next++];
        const char *value = NULL;

        if (is_help(arg)) {
            a->r->config->command = TR_COMMAND_HELP_SERVE;
            return TARRY_OK;
        }
        if (is_flag(arg, "--config", &value)) {
            err = read_config_flag(a, value);
        } else if (is_flag(arg, "--set", &value)) {
            err = read_set(a, value);
        } else {
            err = read_key_flag(a, arg);
        }
    }
    return err;
}

/* help and version: nothing may follow, but for the command that help is wanted of. */
static int read_bare(struct args *a, enum tr_command command)
{
    struct tr_config *c = a->r->config;
    const char *word = a->at[a->next - 1];
    const char *next = a->next < a->count ? a->at[a->next] : NULL;

    c->command = command;
    if (command == TR_COMMAND_HELP && next != NULL && strcmp(next, "serve") == 0) {
        c->command = TR_COMMAND_HELP_SERVE;
    } else if (command == TR_COMMAND_HELP && next != NULL && strcmp(next, "beanstalkd") == 0) {
        c->command = TR_COMMAND_HELP_DROP_IN;
    }
    if (c->command != command) {
        next = ++a->next < a->count ? a->at[a->next] : NULL;
    }
    if (next != NULL && is_help(next)) {
        c->command = TR_COMMAND_HELP;
        return TARRY_OK;
    }
    if (next != NULL && command == TR_COMMAND_HELP && a->next + 1 == a->count) {
        return tr_reading_refuse(a->r, "there is no command \"%s\".", next);
    }
    if (next != NULL) {
        next = command == TR_COMMAND_HELP ? a->at[a->next + 1] : next;
        return tr_reading_refuse(a->r, "%s does not know what to do with \"%s\".", word, next);
    }
    return TARRY_OK;
}

/* The last part of a path. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

int tr_config_read_command(struct tr_reading *r, struct tr_flags *flags)
{
    struct tr_config *c = r->config;
    struct args a = {.r = r, .flags = flags, .count = c->argc, .at = c->argv, .next = 2};
    const char *word = c->argc > 1 ? c->argv[1] : NULL;

    *flags = (struct tr_flags){.config_path = NULL};
    r->advice = "tarry help";
    if (c->argc > 0 && strcmp(base_name(c->argv[0]), "beanstalkd") == 0) {
        return tr_config_read_drop_in(r, 1);
    }
    if (word == NULL) {
        return tr_reading_refuse(r, "no command is given. To start the server: tarry serve");
    }
    if (strcmp(word, "serve") == 0) {
        return read_serve(&a);
    }
    if (strcmp(word, "beanstalkd") == 0) {
        return tr_config_read_drop_in(r, 2);
    }
    if (strcmp(word, "version") == 0 || strcmp(word, "--version") == 0) {
        return read_bare(&a, TR_COMMAND_VERSION);
    }
    if (strcmp(word, "help") == 0 || is_help(word)) {
        return read_bare(&a, TR_COMMAND_HELP);
    }
    return tr_reading_refuse(r, "there is no command \"%s\".", word);
}
