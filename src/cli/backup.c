/* tarry backup: asks the running server for a copy of its store. */

#include "cli/cli.h"
#include "cli/json.h"

#include <inttypes.h>

static int print(const struct tr_cli_answer *a)
{
    struct tr_json_value v;
    uint64_t bytes = 0;
    char dir[4096];

    if (!tr_cli_read(a, &v)) {
        return TR_CLI_FAILED;
    }
    (void)tr_cli_string(&v, "dir", dir, sizeof dir);
    if (dir[0] == '\0' || !tr_cli_number(&v, "bytes", &bytes)) {
        fputs("tarry: that is not what tarry would answer. Is it one?\n", stderr);
        return TR_CLI_FAILED;
    }
    printf("copied to %s, %" PRIu64 " bytes. To have it back: tarry serve --data %s\n", dir, bytes,
           dir);
    return TR_CLI_FINE;
}

static int backup(struct tr_cli *c)
{
    struct tr_cli_target t = {0};
    struct tr_cli_answer a;
    int how;

    tr_cli_target_add(&t, "/v1/backup");
    tr_cli_target_arg(&t, "dir", c->args[0]);
    how = tr_cli_ask(&c->server, "POST", t.text, &a);
    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE) {
        how = print(&a);
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&t);
    return how;
}

const struct tr_cli_command tr_cli_command_backup = {
    .name = "backup",
    .group = TR_CLI_STORES,
    .about = "let the running server copy its store",
    .usage = "DIR [FLAGS]",
    .text = "The server copies its store to DIR while it serves: all that was answered with\n"
            "success before, exact at one moment. Run files are linked, not copied, if DIR\n"
            "is on the same file system. A server that is started on the copy has it back.\n"
            "\n"
            "DIR is a folder on the server's machine, below its store.backup_root: a name,\n"
            "or the whole path. It must be empty, or not there yet.\n",
    .examples = "tarry backup monday\n"
                "tarry serve --data /var/backups/tarry/monday",
    .exits = "0 the copy is whole; 1 it was not made, see what is said;\n2 wrong usage",
    .args_min = 1,
    .args_max = 1,
    .run = backup,
};
