/* tarry backup: asks the running server for a copy of its store. */

#include "base/text.h"
#include "cli/cli.h"
#include "cli/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char tr_cli_backup_help[] =
    "usage: tarry backup [--server URL] [--token TOKEN] [--json] DIR\n"
    "\n"
    "The server copies its store to DIR while it serves: all that was answered with\n"
    "success before, exact at one moment. Run files are linked, not copied, if DIR\n"
    "is on the same file system. A server that is started on the copy has it back.\n"
    "\n"
    "DIR is a folder on the server's machine, below its store.backup_root: a name,\n"
    "or the whole path. It must be empty, or not there yet.\n"
    "\n" TR_CLI_SERVER_HELP "  --json         print what the server answers\n"
    "  --help         print this\n"
    "\n"
    "examples:\n"
    "  tarry backup monday\n"
    "  tarry serve --data /var/backups/tarry/monday\n"
    "\n"
    "exit codes: 0 the copy is whole; 1 it was not made, see what is said;\n"
    "            2 wrong usage\n";

static int print(const struct tr_cli_answer *a, bool json)
{
    struct tr_json_value dir;
    struct tr_json_value value;
    uint64_t bytes = 0;
    char path[4096];

    if (json) {
        printf("%s\n", a->body);
        return TR_CLI_FINE;
    }
    if (!tr_cli_find_member(a, "dir", &dir) || dir.kind != TR_JSON_STRING_KIND ||
        dir.len > sizeof path || !tr_cli_find_member(a, "bytes", &value) ||
        !tr_json_u64(&value, &bytes)) {
        fputs("tarry: that is not what tarry would answer. Is it one?\n", stderr);
        return TR_CLI_FAILED;
    }
    path[tr_json_unescape(&dir, path)] = '\0';
    printf("copied to %s, %" PRIu64 " bytes. To have it back: tarry serve --data %s\n", path, bytes,
           path);
    return TR_CLI_FINE;
}

static int run(const struct tr_cli_server *s, const char *dir, bool json)
{
    struct tr_cli_answer a;
    char target[2048] = "/v1/backup?dir=";
    size_t len = strlen(target);
    int exit;

    if (!tr_cli_escape(target + len, sizeof target - len, dir)) {
        return tr_cli_usage("backup", "that name of a folder is too long.");
    }
    exit = tr_cli_ask(s, "POST", target, &a);
    if (exit == TR_CLI_FINE) {
        exit = tr_cli_judge(&a);
    }
    if (exit == TR_CLI_FINE) {
        exit = print(&a, json);
    }
    tr_cli_answer_fini(&a);
    return exit;
}

int tr_cli_backup(int argc, char **argv)
{
    struct tr_cli_server server;
    const char *dir = NULL;
    bool json = false;

    tr_cli_server_init(&server);
    for (int i = 0; i < argc; i++) {
        if (tr_cli_is_help(argv[i])) {
            fputs(tr_cli_backup_help, stdout);
            return tr_cli_end(TR_CLI_FINE);
        }
        if (tr_cli_server_flag(&server, argc, argv, &i)) {
            continue;
        }
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (argv[i][0] == '-') {
            return tr_cli_usage("backup", "backup has no flag \"%s\".", argv[i]);
        } else if (dir != NULL) {
            return tr_cli_usage("backup", "backup takes one folder, not \"%s\" besides.", argv[i]);
        } else {
            dir = argv[i];
        }
    }
    if (dir == NULL || *dir == '\0') {
        return tr_cli_usage("backup", "backup needs a folder for the copy.");
    }
    return tr_cli_end(run(&server, dir, json));
}
