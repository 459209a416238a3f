#ifndef TR_CLI_CLI_H
#define TR_CLI_CLI_H

/*
 * Commands of tarry besides the server. A command is a row: its words for people and the function
 * that does it. The help, the completion of shells and the man pages all come from the row. See
 * cli.c for the list.
 */

#include "cli/http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How the process ends: as doc/cli.md has it, and doc/operating.md of the first four. */
enum tr_cli_exit {
    TR_CLI_FINE = 0,
    TR_CLI_FAILED = 1,
    TR_CLI_USAGE = 2,
    TR_CLI_DAMAGED = 3,
    TR_CLI_NOTHING = 4, /* reserve: no job came */
};

/* Where a command stands in `tarry help`. */
enum tr_cli_group {
    TR_CLI_JOBS,
    TR_CLI_WORKING,
    TR_CLI_TOPICS,
    TR_CLI_WATCHING,
    TR_CLI_STORES,
    TR_CLI_GROUPS,
};

struct tr_cli_option {
    const char *name;  /* "--delay", "-j" */
    const char *value; /* what the help calls its value; NULL: it has none */
    const char *about; /* lines */
    bool sent;         /* it goes to the server as it is, by the same name */
};

enum { TR_CLI_OPTIONS = 24 };

struct tr_cli {
    const struct tr_cli_command *command;
    struct tr_cli_server server;
    bool json;
    char **args; /* words that are no flags; behind them, those after -- */
    int count;
    char **rest; /* of a command that takes another one: it, NULL at its end */
    int rest_count;
    const char *values[TR_CLI_OPTIONS];
    uint64_t now_ms;   /* what time it is to the server; 0: not asked yet */
    uint64_t asked_us; /* when that was, by our own clock */
};

struct tr_cli_command {
    const char *name;
    enum tr_cli_group group;
    const char *about; /* one line for the list */
    const char *usage; /* what follows the name, a line for each way */
    const char *text;  /* what it does, lines of at most 80 columns */
    struct tr_cli_option options[TR_CLI_OPTIONS];
    const char *examples; /* lines that can be typed */
    const char *exits;    /* NULL: the usual ones */
    int args_min;
    int args_max;
    bool local; /* it asks no server: no --server, no --token, no --json */
    bool takes; /* behind -- stands a command */
    int (*run)(struct tr_cli *c);

    /* Of commands that read their words themselves: */
    const char *help;
    int (*main)(int argc, char **argv); /* what follows the name */
};

/*
 * Flags that all commands have which ask a server may stand before the command, too: then they are
 * moved behind it, as if they had been written there. argv as main has it.
 */
void tr_cli_sort(int argc, char **argv);

/* The command of that name, or NULL. */
const struct tr_cli_command *tr_cli_find(const char *name);

/* Reads the words, and does it: how the process ends. */
int tr_cli_run(const struct tr_cli_command *command, int argc, char **argv);

/* The help of one command; and the lines of all commands of the list. */
void tr_cli_help(const struct tr_cli_command *command, FILE *out);
void tr_cli_list(FILE *out);

/* The value of an option of this command ("": it has none); NULL: it was not given. */
const char *tr_cli_value(const struct tr_cli *c, const char *name);
bool tr_cli_given(const struct tr_cli *c, const char *name);

/* Adds all options that are sent to the query. */
void tr_cli_query(const struct tr_cli *c, struct tr_cli_target *t);

/* Reads a number of the range, or says what is wrong; 0, or how the process ends. */
TR_MUST_USE int tr_cli_read_number(const struct tr_cli *c, const char *name, uint64_t most,
                                   uint64_t *n);
/* The same for durations. */
TR_MUST_USE int tr_cli_read_duration(const struct tr_cli *c, const char *name, uint64_t *us);

/* The command line is wrong: says so on stderr. Gives TR_CLI_USAGE. */
int tr_cli_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* stdout could not be written (a full disk, a pipe that was closed): TR_CLI_FAILED; else `exit`. */
int tr_cli_end(int exit);

bool tr_cli_is_help(const char *arg);

/* realloc; without memory the process ends and says so. */
void *tr_cli_memory(void *old, size_t size);

/* Prints the answer as it is, and a newline. */
void tr_cli_print_raw(const struct tr_cli_answer *a);

/* On a terminal asks, and waits for a y: false otherwise. Without a terminal, or with --yes: true.
 */
bool tr_cli_sure(const struct tr_cli *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool tr_cli_asks(const struct tr_cli *c); /* would it ask? */

/* All of a file, or of stdin (-), to be freed; NULL: stderr says why. */
char *tr_cli_read_file(const char *path, size_t *len);

#define TR_CLI_COMMANDS(X)                                                                         \
    X(push)                                                                                        \
    X(show)                                                                                        \
    X(history)                                                                                     \
    X(list)                                                                                        \
    X(reschedule)                                                                                  \
    X(cancel)                                                                                      \
    X(fire)                                                                                        \
    X(kick)                                                                                        \
    X(shift)                                                                                       \
    X(reserve)                                                                                     \
    X(ack)                                                                                         \
    X(release)                                                                                     \
    X(bury)                                                                                        \
    X(touch)                                                                                       \
    X(work)                                                                                        \
    X(topics)                                                                                      \
    X(topic)                                                                                       \
    X(pause)                                                                                       \
    X(resume)                                                                                      \
    X(purge)                                                                                       \
    X(schedule)                                                                                    \
    X(stats)                                                                                       \
    X(cluster)                                                                                     \
    X(forecast)                                                                                    \
    X(top)                                                                                         \
    X(doctor)                                                                                      \
    X(bench)                                                                                       \
    X(demo)                                                                                        \
    X(backup)                                                                                      \
    X(restore)                                                                                     \
    X(check)                                                                                       \
    X(export)                                                                                      \
    X(import)                                                                                      \
    X(sql)                                                                                         \
    X(token)                                                                                       \
    X(completion)

#define X(name) extern const struct tr_cli_command tr_cli_command_##name;
TR_CLI_COMMANDS(X)
#undef X

#endif
