/* tarry: reads the command line and does what it says. */

#include "base/err.h"
#include "server/config.h"
#include "server/help.h"
#include "server/serve.h"

#include <stdio.h>

static enum tr_exit print(const char *text)
{
    if (fputs(text, stdout) == EOF || fflush(stdout) == EOF) {
        fputs("tarry: the output could not be written.\n", stderr);
        return TR_EXIT_FAILED;
    }
    return TR_EXIT_FINE;
}

static enum tr_exit run(int argc, char **argv)
{
    struct tr_config config;

    if (tr_config_read(&config, argc, argv) != TARRY_OK) {
        return TR_EXIT_USAGE;
    }
    switch (config.command) {
    case TR_COMMAND_SERVE:
        return tr_serve(&config);
    case TR_COMMAND_HELP_SERVE:
        return print(tr_help_serve_text);
    case TR_COMMAND_VERSION:
        return print("tarry " TARRY_VERSION "\n");
    case TR_COMMAND_HELP:
        break;
    }
    return print(tr_help_text);
}

int main(int argc, char **argv)
{
    return (int)run(argc, argv);
}
