/* tarry restore: Redis is made anew from the database, whole or one job. */

#include "cli/cli.h"
#include "cli/json.h"

#include <inttypes.h>

static int print(const struct tr_cli *c, const struct tr_cli_answer *a)
{
    struct tr_json_value v;
    char text[64];

    if (!tr_cli_read(a, &v)) {
        return TR_CLI_FAILED;
    }
    if (c->count > 0) {
        printf("%s is %s\n", c->args[0], tr_cli_string(&v, "state", text, sizeof text));
        return TR_CLI_FINE;
    }
    if (!tr_cli_is_true(&v, "restoring")) {
        fputs("tarry: that is not what tarry would answer. Is it one?\n", stderr);
        return TR_CLI_FAILED;
    }
    if (tr_cli_given(c, "--bury")) {
        printf("buried %" PRIu64 " jobs that were overdue\n", tr_cli_number_or(&v, "buried", 0));
    }
    puts("each node compares its slots of Redis with the database, and puts them right");
    return TR_CLI_FINE;
}

static int restore(struct tr_cli *c)
{
    struct tr_cli_target t = {0};
    struct tr_cli_answer a;
    int how;

    if (c->count > 0 && tr_cli_given(c, "--bury")) {
        return tr_cli_usage("restore", "--bury is for all jobs: name none");
    }
    if (c->count > 0) {
        tr_cli_target_add(&t, "/v1/jobs");
        tr_cli_target_part(&t, c->args[0]);
        tr_cli_target_add(&t, "/restore");
    } else {
        tr_cli_target_add(&t, "/v1/restore");
    }
    if (tr_cli_given(c, "--bury")) {
        tr_cli_target_arg(&t, "expire", "false");
    }
    how = tr_cli_ask(&c->server, "POST", t.text, &a);
    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE) {
        how = print(c, &a);
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&t);
    return how;
}

const struct tr_cli_command tr_cli_command_restore = {
    .name = "restore",
    .group = TR_CLI_STORES,
    .about = "rebuild Redis from the database",
    .usage = "[ID] [FLAGS]",
    .text = "Of a server with --engine redis and a database (sql.url): the nodes compare all\n"
            "that is in Redis with the rows of the database, both ways, and put it right; or\n"
            "one job is put there anew. The rows are the truth and stay as they are. Dead\n"
            "jobs stay dead: tarry kick brings them back. A server does this by itself when\n"
            "it finds Redis emptied, and now and then.\n"
            "\n"
            "Other servers have nothing to restore from, and say so. A copy that tarry\n"
            "backup made needs no restoring: tarry serve --data COPY\n",
    .options = {{.name = "--bury",
                 .about = "bury jobs that are overdue, instead of handing them out"}},
    .examples = "tarry restore\n"
                "tarry restore 1882640385026049",
    .exits = "0 it was begun; 1 it was not, see what is said; 2 wrong usage",
    .args_max = 1,
    .run = restore,
};
