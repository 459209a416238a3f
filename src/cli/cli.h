#ifndef TR_CLI_CLI_H
#define TR_CLI_CLI_H

/*
 * Commands of tarry besides the server: each is a function of its arguments. See cli.c for the
 * list.
 */

#include <stdbool.h>

/* How the process ends; the numbers of SPEC §2. */
enum tr_cli_exit {
    TR_CLI_FINE = 0,
    TR_CLI_FAILED = 1,
    TR_CLI_USAGE = 2,
    TR_CLI_DAMAGED = 3,
};

struct tr_cli_command {
    const char *name;
    const char *help;
    int (*run)(int argc, char **argv); /* what follows the name */
};

/* The command of that name, or NULL. */
const struct tr_cli_command *tr_cli_find(const char *name);

/* The command line is wrong: says so on stderr. Gives TR_CLI_USAGE. */
int tr_cli_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* stdout could not be written (a full disk, a pipe that was closed): TR_CLI_FAILED; else `exit`. */
int tr_cli_end(int exit);

bool tr_cli_is_help(const char *arg);

int tr_cli_backup(int argc, char **argv);
int tr_cli_check(int argc, char **argv);
int tr_cli_export(int argc, char **argv);
int tr_cli_token(int argc, char **argv);
extern const char tr_cli_backup_help[];
extern const char tr_cli_check_help[];
extern const char tr_cli_export_help[];
extern const char tr_cli_token_help[];

#endif
