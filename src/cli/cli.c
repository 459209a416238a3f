/*
 * The list of commands, and what they share: reading the command line, printing the help.
 *
 * Flags may stand anywhere: --name value, --name=value, -j 8, -j8. Behind -- nothing is a flag. An
 * unknown one, one given twice and a value that is missing are wrong usage (exit 2), before
 * anything is done. What a value means is for the server to judge, which says what is wrong with it
 * (400, exit 2, too): so there is one place that knows.
 */

#include "cli/cli.h"

#include "base/err.h"
#include "cli/json.h"
#include "rules/duration.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct tr_cli_command *const commands[] = {
#define X(name) &tr_cli_command_##name,
    TR_CLI_COMMANDS(X)
#undef X
};

enum { COMMANDS = sizeof commands / sizeof commands[0], ABOUT_COLUMN = 15 };

static const struct tr_cli_option usual[] = {
    {.name = "--server",
     .value = "URL",
     .about = "the server (or TARRY_SERVER); default http://127.0.0.1:11301"},
    {.name = "--token",
     .value = "TOKEN",
     .about = "if it asks for one (or TARRY_TOKEN, which ps does not show)"},
    {.name = "--ca", .value = "FILE", .about = "who signed its certificate (or TARRY_CA)"},
    {.name = "--json", .about = "print what the server answers"},
};
static const struct tr_cli_option help_option = {.name = "--help", .about = "print this"};

enum { USUAL = sizeof usual / sizeof usual[0] };

const struct tr_cli_command *tr_cli_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

/* How many words the usual flag has that stands there; 0: it is none. */
static int usual_words(const char *word)
{
    for (size_t i = 0; i < USUAL; i++) {
        size_t len = strlen(usual[i].name);

        if (strncmp(word, usual[i].name, len) == 0 && (word[len] == '\0' || word[len] == '=')) {
            return usual[i].value != NULL && word[len] == '\0' ? 2 : 1;
        }
    }
    return 0;
}

void tr_cli_sort(int argc, char **argv)
{
    const struct tr_cli_command *command;
    int at = 1;
    char *name;

    while (at < argc && usual_words(argv[at]) != 0) {
        at += usual_words(argv[at]);
    }
    command = at < argc ? tr_cli_find(argv[at]) : NULL;
    if (command == NULL || command->local || command->main != NULL) {
        return;
    }
    name = argv[at];
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof *argv);
    argv[1] = name;
}

/* ---- small things ---- */

int tr_cli_usage(const char *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "tarry: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry: tarry %s --help\n", command);
    return TR_CLI_USAGE;
}

/* A reader who has seen enough (head) needs no word about it. */
static bool reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};

    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int tr_cli_end(int exit)
{
    if (fflush(stdout) == EOF || ferror(stdout)) {
        if (!reader_is_gone()) {
            fputs("tarry: the output could not be written.\n", stderr);
        }
        return TR_CLI_FAILED;
    }
    return exit;
}

bool tr_cli_is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

void *tr_cli_memory(void *old, size_t size)
{
    void *p = realloc(old, size);

    if (p == NULL) {
        fputs("tarry: there is no memory left.\n", stderr);
        exit(TR_CLI_FAILED);
    }
    return p;
}

void tr_cli_print_raw(const struct tr_cli_answer *a)
{
    printf("%s\n", a->body != NULL ? a->body : "");
}

bool tr_cli_asks(const struct tr_cli *c)
{
    return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 && !tr_cli_given(c, "--yes");
}

bool tr_cli_sure(const struct tr_cli *c, const char *format, ...)
{
    char answer[16] = "";
    va_list args;

    if (!tr_cli_asks(c)) {
        return true;
    }
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs(" [y/N] ", stderr);
    if (fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y')) {
        return true;
    }
    fputs("tarry: nothing was done.\n", stderr);
    return false;
}

char *tr_cli_read_file(const char *path, size_t *len)
{
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char *text = NULL;
    size_t room = 0;
    size_t got;

    *len = 0;
    if (in == NULL) {
        fprintf(stderr, "tarry: %s cannot be read: %s\n", path, strerror(errno));
        return NULL;
    }
    do {
        if (room - *len < 65536) {
            room = 2 * room + 65537;
            text = tr_cli_memory(text, room);
        }
        got = fread(text + *len, 1, room - *len - 1, in);
        *len += got;
    } while (got > 0);
    text[*len] = '\0';
    if (ferror(in)) {
        fprintf(stderr, "tarry: %s cannot be read: %s\n", path, strerror(errno));
        free(text);
        text = NULL;
    }
    if (in != stdin) {
        (void)fclose(in);
    }
    return text;
}

/* ---- the help ---- */

static int words_len(const struct tr_cli_option *o)
{
    return (int)(strlen(o->name) + (o->value != NULL ? strlen(o->value) + 1 : 0));
}

/* Each line of the text, from this column on, but for the first, which stands there already. */
static void print_lines(FILE *out, const char *text, int column)
{
    for (; *text != '\0'; text++) {
        fputc(*text, out);
        if (*text == '\n') {
            fprintf(out, "%*s", column, "");
        }
    }
    fputc('\n', out);
}

static void print_option(FILE *out, const struct tr_cli_option *o, int width)
{
    fprintf(out, "  %s%s%s%*s", o->name, o->value != NULL ? " " : "",
            o->value != NULL ? o->value : "", width - words_len(o), "");
    print_lines(out, o->about, width + 2);
}

static void print_options(const struct tr_cli_command *command, FILE *out)
{
    int width = 13; /* of --token TOKEN, and so of each that has the usual ones */

    for (const struct tr_cli_option *o = command->options; o->name != NULL; o++) {
        width = words_len(o) > width ? words_len(o) : width;
    }
    width += 2;
    for (const struct tr_cli_option *o = command->options; o->name != NULL; o++) {
        print_option(out, o, width);
    }
    for (unsigned i = 0; i < USUAL && !command->local; i++) {
        print_option(out, &usual[i], width);
    }
    print_option(out, &help_option, width);
}

static void print_usage(const struct tr_cli_command *command, FILE *out)
{
    const char *at = command->usage;
    const char *lead = "usage:";

    do {
        size_t len = strcspn(at, "\n");

        fprintf(out, "%s tarry %s%s%.*s\n", lead, command->name, len > 0 ? " " : "", (int)len, at);
        at += len + (at[len] == '\n');
        lead = "      ";
    } while (*at != '\0');
}

void tr_cli_help(const struct tr_cli_command *command, FILE *out)
{
    if (command->help != NULL) {
        fputs(command->help, out);
        return;
    }
    print_usage(command, out);
    fprintf(out, "\n%s\n", command->text);
    print_options(command, out);
    fputs("\nexamples:\n  ", out);
    print_lines(out, command->examples, 2);
    fputs("\nexit codes: ", out);
    print_lines(out,
                command->exits != NULL
                    ? command->exits
                    : "0 fine; 1 no answer, or the server refused; 2 wrong usage",
                12);
}

void tr_cli_list(FILE *out)
{
    static const char *const titles[] = {
        [TR_CLI_JOBS] = "jobs",
        [TR_CLI_WORKING] = "consumers",
        [TR_CLI_TOPICS] = "topics and schedules",
        [TR_CLI_WATCHING] = "looking after a server",
        [TR_CLI_STORES] = "stores, moving, tokens",
    };

    for (unsigned group = 0; group < TR_CLI_GROUPS; group++) {
        fprintf(out, "\n%s:\n", titles[group]);
        for (size_t i = 0; i < COMMANDS; i++) {
            if (commands[i]->group == group) {
                fprintf(out, "  %-*s", ABOUT_COLUMN - 2, commands[i]->name);
                print_lines(out, commands[i]->about, ABOUT_COLUMN);
            }
        }
    }
}

/* ---- the command line ---- */

/* The flag that the word is, and where its value begins, if it stands in the same word. */
static bool is_flag(const char *word, const char *name, const char **value)
{
    size_t len = strlen(name);
    bool is_short = len == 2;

    if (strncmp(word, name, len) != 0) {
        return false;
    }
    *value = NULL;
    if (word[len] == '\0') {
        return true;
    }
    if (word[len] == '=' && !is_short) {
        *value = word + len + 1;
        return true;
    }
    *value = word + len;
    return is_short;
}

/* Where the value of this flag is kept, or NULL: there is none of that name. */
static const char **find_flag(struct tr_cli *c, const char *word, const char **value, bool *wants)
{
    const char **kept[USUAL] = {&c->server.url, &c->server.token, &c->server.ca, NULL};
    const struct tr_cli_option *options = c->command->options;

    for (unsigned i = 0; options[i].name != NULL; i++) {
        if (is_flag(word, options[i].name, value)) {
            *wants = options[i].value != NULL;
            return &c->values[i];
        }
    }
    for (unsigned i = 0; i < USUAL - 1 && !c->command->local; i++) {
        if (is_flag(word, usual[i].name, value)) {
            *wants = true;
            return kept[i];
        }
    }
    return NULL;
}

/* Takes a flag, perhaps with the word behind it. */
static int take_flag(struct tr_cli *c, int argc, char **argv, int *i)
{
    const char *name = c->command->name;
    const char *word = argv[*i];
    const char *value = NULL;
    bool wants = false;
    const char **kept = find_flag(c, word, &value, &wants);
    bool own = kept >= c->values && kept < c->values + TR_CLI_OPTIONS;

    if (strcmp(word, "--json") == 0 && !c->command->local) {
        c->json = true;
        return TR_CLI_FINE;
    }
    if (kept == NULL || (!wants && value != NULL)) {
        return tr_cli_usage(name, "%s has no flag \"%s\".", name, word);
    }
    if (own && *kept != NULL) {
        return tr_cli_usage(name, "%s is given twice.", word);
    }
    if (wants && value == NULL) {
        if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0) {
            return tr_cli_usage(name, "%s needs a value.", word);
        }
        value = argv[++*i];
    }
    *kept = wants ? value : "";
    return TR_CLI_FINE;
}

/* 0, or the exit code; *help: only that is asked for. */
static int read_words(struct tr_cli *c, int argc, char **argv, bool *help)
{
    for (int i = 0; i < argc; i++) {
        int how = TR_CLI_FINE;

        if (strcmp(argv[i], "--") == 0) {
            if (c->command->takes) {
                c->rest = argv + i + 1;
                c->rest_count = argc - i - 1;
                return TR_CLI_FINE;
            }
            for (i++; i < argc; i++) {
                c->args[c->count++] = argv[i];
            }
        } else if (tr_cli_is_help(argv[i])) {
            *help = true;
            return TR_CLI_FINE;
        } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
            how = take_flag(c, argc, argv, &i);
        } else {
            c->args[c->count++] = argv[i];
        }
        if (how != TR_CLI_FINE) {
            return how;
        }
    }
    return TR_CLI_FINE;
}

static int check_count(const struct tr_cli *c)
{
    const struct tr_cli_command *is = c->command;

    if (c->count > is->args_max) {
        return tr_cli_usage(is->name, "%s does not know what to do with \"%s\".", is->name,
                            c->args[is->args_max]);
    }
    if (c->count < is->args_min) {
        return tr_cli_usage(is->name, "something is missing: tarry %s %.*s", is->name,
                            (int)strcspn(is->usage, "\n"), is->usage);
    }
    for (int i = 0; i < is->args_min; i++) {
        if (c->args[i] == NULL || c->args[i][0] == '\0') {
            return tr_cli_usage(is->name, "a word of the command line is empty.");
        }
    }
    return TR_CLI_FINE;
}

int tr_cli_run(const struct tr_cli_command *command, int argc, char **argv)
{
    struct tr_cli c = {.command = command};
    bool help = false;
    int how;

    (void)signal(SIGPIPE, SIG_IGN);
    if (command->main != NULL) {
        return command->main(argc, argv);
    }
    tr_cli_server_init(&c.server);
    c.args = tr_cli_memory(NULL, ((size_t)argc + 1) * sizeof *c.args);
    memset(c.args, 0, ((size_t)argc + 1) * sizeof *c.args);
    how = read_words(&c, argc, argv, &help);
    if (help) {
        tr_cli_help(command, stdout);
    } else if (how == TR_CLI_FINE) {
        how = check_count(&c);
        how = how == TR_CLI_FINE ? command->run(&c) : how;
    }
    tr_cli_server_fini(&c.server);
    free(c.args);
    return tr_cli_end(how);
}

/* ---- options ---- */

const char *tr_cli_value(const struct tr_cli *c, const char *name)
{
    const struct tr_cli_option *options = c->command->options;

    for (unsigned i = 0; options[i].name != NULL; i++) {
        if (strcmp(options[i].name, name) == 0) {
            return c->values[i];
        }
    }
    return NULL;
}

bool tr_cli_given(const struct tr_cli *c, const char *name)
{
    return tr_cli_value(c, name) != NULL;
}

void tr_cli_query(const struct tr_cli *c, struct tr_cli_target *t)
{
    const struct tr_cli_option *options = c->command->options;

    for (unsigned i = 0; options[i].name != NULL; i++) {
        char name[32];
        size_t len = 0;

        if (!options[i].sent || c->values[i] == NULL) {
            continue;
        }
        for (const char *at = options[i].name; *at != '\0' && len < sizeof name - 1; at++) {
            if (*at != '-' || len > 0) { /* --on-conflict is on_conflict */
                name[len++] = (char)(*at == '-' ? '_' : *at);
            }
        }
        name[len] = '\0';
        tr_cli_target_arg(t, name, options[i].value != NULL ? c->values[i] : "true");
    }
}

int tr_cli_read_number(const struct tr_cli *c, const char *name, uint64_t most, uint64_t *n)
{
    const char *text = tr_cli_value(c, name);
    char *end = NULL;

    if (text == NULL) {
        return TR_CLI_FINE;
    }
    errno = 0;
    *n = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    if (end == NULL || *end != '\0' || errno != 0 || *n == 0 || *n > most) {
        return tr_cli_usage(c->command->name, "%s takes a number of 1 to %llu, not \"%s\".", name,
                            (unsigned long long)most, text);
    }
    return TR_CLI_FINE;
}

int tr_cli_read_duration(const struct tr_cli *c, const char *name, uint64_t *us)
{
    const char *text = tr_cli_value(c, name);
    const char *why = NULL;

    if (text == NULL || tr_duration_read(text, strlen(text), us, &why) == TARRY_OK) {
        return TR_CLI_FINE;
    }
    return tr_cli_usage(c->command->name, "%s %s: \"%s\".", name, why, text);
}
