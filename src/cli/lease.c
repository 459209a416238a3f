/*
 * What consumers do: reserve, and ack, release, bury, touch with the lease that it gave. A command
 * that `tarry work` runs has both in its environment, and need not say them.
 */

#include "cli/human.h"
#include "cli/json.h"

#include <stdlib.h>
#include <string.h>

/* ---- reserve ---- */

/* One topic has a route of its own, several have theirs. */
static void reserve_target(const struct tr_cli *c, struct tr_cli_target *t)
{
    struct tr_cli_target names = {0};

    if (c->count == 1 && strchr(c->args[0], ',') == NULL) {
        tr_cli_target_add(t, "/v1/topics");
        tr_cli_target_part(t, c->args[0]);
        tr_cli_target_add(t, "/reserve");
        tr_cli_query(c, t);
        return;
    }
    for (int i = 0; i < c->count; i++) {
        tr_cli_target_add(&names, i > 0 ? "," : "");
        tr_cli_target_add(&names, c->args[i]);
    }
    tr_cli_target_add(t, "/v1/reserve");
    tr_cli_target_arg(t, "topics", names.text);
    tr_cli_query(c, t);
    tr_cli_target_fini(&names);
}

static void reserved_row(struct tr_table *t, const struct tr_json_value *job)
{
    char text[TR_HUMAN_TEXT];
    char shown[256];
    size_t len;
    char *body = tr_cli_body(job, &len);

    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(job, "id", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(job, "lease", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_human_span(tr_cli_number_or(job, "lease_ms", 0), text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(job, "topic", shown, sizeof shown));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(job, "attempts", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_human_late(tr_cli_number_or(job, "late_ms", 0), text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_printable(body, len, shown, sizeof shown));
    free(body);
}

static int print_reserved(const struct tr_cli_answer *a)
{
    static const struct tr_column columns[] = {{"ID", true},     {"LEASE", false},  {"FOR", true},
                                               {"TOPIC", false}, {"ATTEMPT", true}, {"LATE", false},
                                               {"BODY", false}};
    struct tr_json_value v;
    struct tr_json_value job;
    struct tr_json_walk walk;
    struct tr_table t;

    if (!tr_cli_read(a, &v) || !tr_cli_member(&v, "jobs", &v) || v.kind != TR_JSON_ARRAY_KIND) {
        return TR_CLI_FAILED;
    }
    tr_table_init(&t, columns, sizeof columns / sizeof columns[0]);
    tr_json_walk_init(&walk, &v);
    while (tr_json_walk_element(&walk, &job)) {
        reserved_row(&t, &job);
    }
    tr_table_end(&t);
    return TR_CLI_FINE;
}

static int reserve(struct tr_cli *c)
{
    struct tr_cli_target t = {0};
    struct tr_cli_answer a;
    int how;

    reserve_target(c, &t);
    how = tr_cli_ask(&c->server, "POST", t.text, &a);
    if (how == TR_CLI_FINE && a.status == 204) {
        how = TR_CLI_NOTHING;
        if (c->json) {
            puts("{\"jobs\":[]}");
        } else {
            fputs("No job came.\n", stderr);
        }
    } else if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE) {
        how = print_reserved(&a);
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&t);
    return how;
}

const struct tr_cli_command tr_cli_command_reserve = {
    .name = "reserve",
    .group = TR_CLI_WORKING,
    .about = "take jobs that are due, under a lease",
    .usage = "TOPIC... [FLAGS]",
    .text = "Takes a job that is due, or more; whoever has the lease has to ack, release or bury\n"
            "it before it ends. For whole workers there is `tarry work`.\n",
    .options = {{"--wait", "D", "wait so long for the first, up to 10m", true},
                {"--count", "N", "so many at most, up to 1000; default 1", true},
                {"--ttr", "D", "how long the lease is, instead of what the jobs say", true},
                {"--tag", "TAG", "only jobs with this tag", true}},
    .examples = "tarry reserve orders --wait 30s\n"
                "tarry reserve orders mail --count 10 --json",
    .exits = "0 here they are; 4 no job came; 1 no answer, or the server refused;\n2 wrong usage",
    .args_min = 1,
    .args_max = 1000,
    .run = reserve,
};

/* ---- with a lease ---- */

/* ID and LEASE from the words, --lease, or what `tarry work` says. */
static int lease_target(const struct tr_cli *c, const char *verb, struct tr_cli_target *t)
{
    const char *id = c->count > 0 ? c->args[0] : getenv("TARRY_ID");
    const char *lease = c->count > 1 ? c->args[1] : tr_cli_value(c, "--lease");
    const char *known = getenv("TARRY_ID");
    bool force = strcmp(verb, "bury") == 0 && tr_cli_given(c, "--force");

    if (force && lease != NULL) {
        return tr_cli_usage(verb, "--force is for a job that nobody has: it takes no lease.");
    }
    if (c->count > 1 && tr_cli_given(c, "--lease")) {
        return tr_cli_usage(verb, "the lease is given twice.");
    }
    if (lease == NULL && !force && id != NULL && known != NULL && strcmp(id, known) == 0) {
        lease = getenv("TARRY_LEASE");
    }
    if (id == NULL || (!force && (lease == NULL || *lease == '\0'))) {
        return tr_cli_usage(
            verb, "%s needs the ID of a job and its LEASE, as reserve printed them.", verb);
    }
    if (*id == '\0' || id[strspn(id, "0123456789")] != '\0') {
        return tr_cli_usage(verb, "\"%s\" is no number of a job.", id);
    }
    tr_cli_target_add(t, "/v1/jobs");
    tr_cli_target_part(t, id);
    tr_cli_target_part(t, verb);
    if (!force) {
        tr_cli_target_arg(t, "lease", lease);
    }
    tr_cli_query(c, t);
    return TR_CLI_FINE;
}

static int with_lease(struct tr_cli *c)
{
    const char *verb = c->command->name;
    struct tr_cli_target t = {0};
    struct tr_cli_answer a = {0};
    struct tr_json_value v;
    char id[32];
    int how = lease_target(c, verb, &t);

    how = how == TR_CLI_FINE ? tr_cli_ask(&c->server, "POST", t.text, &a) : how;
    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE && !tr_cli_read(&a, &v)) {
        how = TR_CLI_FAILED;
    } else if (how == TR_CLI_FINE && strcmp(verb, "ack") == 0) {
        printf("acked: %s is done.\n", tr_cli_string(&v, "id", id, sizeof id));
    } else if (how == TR_CLI_FINE) {
        tr_human_one_job(c, &v);
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&t);
    return how;
}

#define LEASE_OPTION                                                                               \
    {                                                                                              \
        .name = "--lease", .value = "LEASE", .about = "the lease, instead of the second word"      \
    }
#define LEASE_TEXT                                                                                 \
    "ID and LEASE are what reserve printed. In a command of `tarry work` both can be left\n"       \
    "out: they are in TARRY_ID and TARRY_LEASE.\n"
#define LEASE_EXITS "0 done; 1 no answer, the lease was lost, or the job is gone;\n2 wrong usage"

const struct tr_cli_command tr_cli_command_ack = {
    .name = "ack",
    .group = TR_CLI_WORKING,
    .about = "finish a job",
    .usage = "ID LEASE [FLAGS]",
    .text = "Finishes a job: it is gone.\n" LEASE_TEXT,
    .options = {LEASE_OPTION},
    .examples = "tarry ack 17 0000100000000001c3b6a9f1e0d2b847\n"
                "tarry ack 17 --lease $LEASE --json",
    .exits = LEASE_EXITS,
    .args_max = 2,
    .run = with_lease,
};

const struct tr_cli_command tr_cli_command_release = {
    .name = "release",
    .group = TR_CLI_WORKING,
    .about = "give a job back, to be tried again",
    .usage = "ID LEASE [FLAGS]",
    .text = "Gives a job back. Without --delay its backoff says when it is tried again; after\n"
            "its last attempt it is dead.\n" LEASE_TEXT,
    .options = {{"--delay", "D", "again so long from now", true},
                {"--priority", "N", "with another priority", true},
                LEASE_OPTION},
    .examples = "tarry release 17 $LEASE\n"
                "tarry release 17 $LEASE --delay 5m --priority 10",
    .exits = LEASE_EXITS,
    .args_max = 2,
    .run = with_lease,
};

const struct tr_cli_command tr_cli_command_bury = {
    .name = "bury",
    .group = TR_CLI_WORKING,
    .about = "put a job among the dead",
    .usage = "ID LEASE [FLAGS]\n"
             "ID --force [FLAGS]",
    .text = "Puts a job among the dead: it is kept, and not handed out before `tarry "
            "kick`.\n" LEASE_TEXT,
    .options = {{.name = "--force",
                 .about = "a job that nobody has, without a lease",
                 .sent = true},
                LEASE_OPTION},
    .examples = "tarry bury 17 $LEASE\n"
                "tarry bury 17 --force",
    .exits = LEASE_EXITS,
    .args_max = 2,
    .run = with_lease,
};

const struct tr_cli_command tr_cli_command_touch = {
    .name = "touch",
    .group = TR_CLI_WORKING,
    .about = "begin the lease of a job anew",
    .usage = "ID LEASE [FLAGS]",
    .text = "Restarts the lease, for a consumer that needs more time.\n" LEASE_TEXT,
    .options = {LEASE_OPTION},
    .examples = "tarry touch 17 $LEASE\n"
                "tarry work reports -- sh -c 'part-one && tarry touch && part-two'",
    .exits = LEASE_EXITS,
    .args_max = 2,
    .run = with_lease,
};
