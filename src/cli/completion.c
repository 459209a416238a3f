/*
 * tarry completion: scripts for shells. Commands are written into them, from the list; flags are
 * those that `tarry help COMMAND` names when somebody asks for them, so that they are always those
 * of the binary that is there.
 */

#include "cli/cli.h"

#include <string.h>

static const char FLAGS[] =
    "tarry help \"$1\" 2>/dev/null | sed -n 's/^  \\(-[-a-zA-Z]*\\).*/\\1/p'";

static const struct {
    const char *name;
    const char *about;
} more[] = {
    {"serve", "start the server"},
    {"beanstalkd", "the same with the flags of beanstalkd"},
    {"version", "print the version"},
    {"help", "print help"},
};

enum { MORE = sizeof more / sizeof more[0] };

/* Calls it for each command: name, and the first line of what it does. */
static void each(void (*print)(const char *name, const char *about, int len))
{
    static const struct tr_cli_command *const commands[] = {
#define X(name) &tr_cli_command_##name,
        TR_CLI_COMMANDS(X)
#undef X
    };

    for (size_t i = 0; i < MORE; i++) {
        print(more[i].name, more[i].about, (int)strlen(more[i].about));
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        print(commands[i]->name, commands[i]->about, (int)strcspn(commands[i]->about, "\n:;"));
    }
}

static void bash_word(const char *name, const char *about, int len)
{
    (void)about;
    (void)len;
    printf(" %s", name);
}

static void bash(void)
{
    printf("# tarry completion bash: source <(tarry completion bash)\n"
           "_tarry_flags() { %s; }\n"
           "_tarry() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} words\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ] || "
           "{ [ \"$COMP_CWORD\" -eq 2 ] && [ \"${COMP_WORDS[1]}\" = help ]; }; then\n"
           "        words='",
           FLAGS);
    each(bash_word);
    printf("'\n"
           "    elif [[ $word == -* ]]; then\n"
           "        words=$(_tarry_flags \"${COMP_WORDS[1]}\")\n"
           "    else\n"
           "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
           "        return\n"
           "    fi\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "}\n"
           "complete -o filenames -F _tarry tarry\n");
}

static void zsh_word(const char *name, const char *about, int len)
{
    printf("        '%s:%.*s'\n", name, len, about);
}

static void zsh(void)
{
    printf("#compdef tarry\n"
           "# tarry completion zsh: source <(tarry completion zsh), or as _tarry in $fpath\n"
           "_tarry_flags() { %s }\n"
           "_tarry() {\n"
           "    local -a commands\n"
           "    commands=(\n",
           FLAGS);
    each(zsh_word);
    printf("    )\n"
           "    if (( CURRENT == 2 )) || [[ $CURRENT == 3 && ${words[2]} == help ]]; then\n"
           "        _describe command commands\n"
           "    elif [[ ${words[CURRENT]} == -* ]]; then\n"
           "        compadd -- ${(f)\"$(_tarry_flags ${words[2]})\"}\n"
           "    else\n"
           "        _files\n"
           "    fi\n"
           "}\n"
           "if [[ $funcstack[1] == _tarry ]]; then _tarry \"$@\"; else compdef _tarry tarry; fi\n");
}

static void fish_word(const char *name, const char *about, int len)
{
    printf("complete -c tarry -n __fish_use_subcommand -f -a %s -d '%.*s'\n", name, len, about);
}

static void fish(void)
{
    printf("# tarry completion fish | source\n"
           "function __tarry_flags\n"
           "    set -l words (commandline -opc)\n"
           "    tarry help $words[2] 2>/dev/null | string match -rg '^  (-[-a-zA-Z]+)'\n"
           "end\n");
    each(fish_word);
    printf("complete -c tarry -n 'not __fish_use_subcommand' -a '(__tarry_flags)'\n");
}

static int completion(struct tr_cli *c)
{
    static const struct {
        const char *shell;
        void (*print)(void);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(shells[i].shell, c->args[0]) == 0) {
            shells[i].print();
            return TR_CLI_FINE;
        }
    }
    return tr_cli_usage("completion", "there is completion for bash, zsh and fish, not for \"%s\".",
                        c->args[0]);
}

const struct tr_cli_command tr_cli_command_completion = {
    .name = "completion",
    .group = TR_CLI_STORES,
    .about = "completion of commands and flags for a shell",
    .usage = "bash | zsh | fish",
    .text = "Prints a script that teaches a shell the commands and flags of tarry.\n",
    .examples = "source <(tarry completion bash)\n"
                "tarry completion fish > ~/.config/fish/completions/tarry.fish",
    .exits = "0 fine; 2 wrong usage",
    .args_min = 1,
    .args_max = 1,
    .local = true,
    .run = completion,
};
