/* The list of commands, and what they share. */

#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct tr_cli_command commands[] = {
    {"backup", tr_cli_backup_help, tr_cli_backup},
    {"check", tr_cli_check_help, tr_cli_check},
    {"export", tr_cli_export_help, tr_cli_export},
    {"token", tr_cli_token_help, tr_cli_token},
};

const struct tr_cli_command *tr_cli_find(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

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

int tr_cli_end(int exit)
{
    if (fflush(stdout) == EOF || ferror(stdout)) {
        fputs("tarry: the output could not be written.\n", stderr);
        return TR_CLI_FAILED;
    }
    return exit;
}

bool tr_cli_is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}
