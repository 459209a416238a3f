/*
 * Commands of --engine redis that this version does not have: they say so, and what to do instead,
 * rather than that there is no such command. They are not in the list.
 */

#include "cli/later.h"

#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    const char *text;
} commands[] = {
    {"restore", "restore makes Redis anew from SQL for --engine redis"},
};

bool tr_cli_is_later(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

int tr_cli_later(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            fprintf(stderr, "tarry: %s: this version does not have that yet.\n", commands[i].text);
        }
    }
    if (strcmp(name, "restore") == 0) {
        fputs("A copy that tarry backup made needs no restoring: tarry serve --data COPY\n",
              stderr);
    }
    return TR_CLI_FAILED;
}
