/* tarry: reads the command line and does what it says. */

#include "base/err.h"
#include "base/text.h"
#include "cli/cli.h"
#include "engine/frame.h"
#include "server/config.h"
#include "server/help.h"
#include "server/serve.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum tr_exit print(const char *text)
{
    if (fputs(text, stdout) == EOF || fflush(stdout) == EOF || ferror(stdout)) {
        fputs("tarry: the output could not be written.\n", stderr);
        return TR_EXIT_FAILED;
    }
    return TR_EXIT_FINE;
}

/* All commands: those of the server, then those of cli/. */
static enum tr_exit print_help(void)
{
    (void)fputs(tr_help_text, stdout); /* the last one tells whether they could be written */
    tr_cli_list(stdout);
    return print(tr_help_end_text);
}

static enum tr_exit print_version(void)
{
    char text[64];

    tr_text(text, sizeof text, "tarry " TARRY_VERSION "\nstore format %d\n", TR_FORMAT_VERSION);
    return print(text);
}

static enum tr_exit print_version_json(void)
{
    char text[96];

    tr_text(text, sizeof text, "{\"version\":\"" TARRY_VERSION "\",\"store_format\":%d}\n",
            TR_FORMAT_VERSION);
    return print(text);
}

/* version with a flag: true, and *how it ends. */
static bool is_more_version(int argc, char **argv, enum tr_exit *how)
{
    bool version =
        argc == 3 && (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0);

    if (version && strcmp(argv[2], "--json") == 0) {
        *how = print_version_json();
    } else if ((version && tr_cli_is_help(argv[2])) ||
               (argc == 3 && strcmp(argv[1], "help") == 0 && strcmp(argv[2], "version") == 0)) {
        *how = print(tr_help_version_text);
    } else {
        return false;
    }
    return true;
}

static enum tr_exit serve(struct tr_config *config)
{
    struct tr_logger log;

    tr_logger_init(&log, config->log_level, config->log_json);
    tr_config_warn(config, &log);
    return tr_serve(config);
}

static enum tr_exit run(struct tr_config *config)
{
    enum tr_exit how;

    switch (config->command) {
    case TR_COMMAND_SERVE:
        return serve(config);
    case TR_COMMAND_HELP_SERVE:
        how = print(tr_help_serve_text);
        how = how == TR_EXIT_FINE ? print(tr_help_keys_text) : how;
        how = how == TR_EXIT_FINE ? print(tr_help_more_keys_text) : how;
        return how == TR_EXIT_FINE ? print(tr_help_about_text) : how;
    case TR_COMMAND_HELP_DROP_IN:
        return print(tr_help_drop_in_text);
    case TR_COMMAND_VERSION:
        return print_version();
    case TR_COMMAND_VERSION_DROP_IN:
        return print("beanstalkd 1.13 (tarry " TARRY_VERSION ")\n");
    case TR_COMMAND_HELP:
        break;
    }
    return print_help();
}

int main(int argc, char **argv)
{
    const struct tr_cli_command *command;
    struct tr_config config;
    enum tr_exit how;

    tr_cli_sort(argc, argv);
    command = argc > 1 ? tr_cli_find(argv[1]) : NULL;
    if (command != NULL) {
        return tr_cli_run(command, argc - 2, argv + 2);
    }
    if (argc == 3 && strcmp(argv[1], "help") == 0 && tr_cli_find(argv[2]) != NULL) {
        tr_cli_help(tr_cli_find(argv[2]), stdout);
        return (int)print("");
    }
    if (argc == 3 && strcmp(argv[1], "help") == 0 && strcmp(argv[2], "help") == 0) {
        return (int)print_help(); /* which says all that there is */
    }
    if (is_more_version(argc, argv, &how)) {
        return (int)how;
    }
    how = tr_config_read(&config, argc, argv, environ);
    if (how == TR_EXIT_FINE) {
        how = run(&config);
    }
    tr_config_fini(&config);
    return (int)how;
}
