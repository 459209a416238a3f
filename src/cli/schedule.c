/* tarry schedule: recurring jobs. The second word says what to do with one. */

#include "base/text.h"
#include "cli/human.h"
#include "cli/job.h"
#include "cli/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct tr_column columns[] = {{"NAME", false}, {"TOPIC", false}, {"WHEN", false},
                                           {"NEXT", false}, {"FIRED", true},  {"STATE", false}};

/* cron 0 9 * * * Asia/Shanghai, every 10s, after 1m. */
static const char *rhythm(const struct tr_json_value *v, char *out, size_t room)
{
    char text[320];
    char zone[80];

    if (*tr_cli_string(v, "cron", text, sizeof text) != '\0') {
        tr_text(out, room, "%s %s", text, tr_cli_string(v, "tz", zone, sizeof zone));
    } else if (*tr_cli_string(v, "every", text, sizeof text) != '\0') {
        tr_text(out, room, "every %s", text);
    } else {
        tr_text(out, room, "after %s", tr_cli_string(v, "after", text, sizeof text));
    }
    return out;
}

static void row(struct tr_cli *c, struct tr_table *t, const struct tr_json_value *v)
{
    char text[420];
    char when[TR_HUMAN_TEXT];
    uint64_t ms;
    bool trouble = *tr_cli_string(v, "trouble", text, sizeof text) != '\0';

    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(v, "name", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(v, "topic", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s", rhythm(v, text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s",
                  tr_cli_number(v, "next_ms", &ms) ? tr_human_when(c, ms, when) : "");
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(v, "fired", text, sizeof text));
    tr_table_cell(t, trouble ? TR_RED : TR_PLAIN, "%s",
                  trouble                       ? "held"
                  : tr_cli_is_true(v, "paused") ? "paused"
                                                : "");
}

/* ---- all ---- */

static int page(struct tr_cli *c, struct tr_table *t, char cursor[64], bool *first)
{
    struct tr_cli_target target = {0};
    struct tr_cli_answer a;
    struct tr_json_value v;
    struct tr_json_value all;
    struct tr_json_walk walk;
    int how;

    tr_cli_target_add(&target, "/v1/schedules?limit=1000");
    target.query = true;
    if (cursor[0] != '\0') {
        tr_cli_target_arg(&target, "cursor", cursor);
    }
    how = tr_cli_ask(&c->server, "GET", target.text, &a);
    if (how == TR_CLI_FINE && (!tr_cli_read(&a, &v) || !tr_cli_member(&v, "schedules", &all) ||
                               all.kind != TR_JSON_ARRAY_KIND)) {
        how = TR_CLI_FAILED;
    }
    if (how == TR_CLI_FINE) {
        (void)tr_cli_string(&v, "cursor", cursor, 64);
        tr_json_walk_init(&walk, &all);
        while (tr_json_walk_element(&walk, &v)) {
            if (c->json) {
                printf("%s%.*s", *first ? "{\"schedules\":[" : ",", (int)v.len, v.text);
            } else {
                row(c, t, &v);
            }
            *first = false;
        }
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&target);
    return how;
}

static int list(struct tr_cli *c)
{
    struct tr_table t;
    char cursor[64] = "";
    bool first = true;
    int how;

    tr_table_init(&t, columns, sizeof columns / sizeof columns[0]);
    do {
        how = page(c, &t, cursor, &first);
    } while (how == TR_CLI_FINE && cursor[0] != '\0' && !ferror(stdout));
    if (how != TR_CLI_FINE) {
        return how;
    }
    if (c->json) {
        printf("%s],\"cursor\":null}\n", first ? "{\"schedules\":[" : "");
    } else {
        tr_table_end(&t);
    }
    return how;
}

/* ---- one ---- */

static int print_next(struct tr_cli *c, const struct tr_json_value *v)
{
    static const struct tr_column next_columns[] = {{"DUE", false}, {"", false}};
    struct tr_json_value all;
    struct tr_json_value one;
    struct tr_json_walk walk;
    struct tr_table t;
    char text[TR_HUMAN_TEXT];

    if (!tr_cli_member(v, "next", &all) || all.kind != TR_JSON_ARRAY_KIND) {
        return TR_CLI_FAILED;
    }
    tr_table_init(&t, next_columns, 2);
    tr_json_walk_init(&walk, &all);
    while (tr_json_walk_element(&walk, &one)) {
        uint64_t ms = tr_cli_number_or(&one, "due_ms", 0);

        tr_table_cell(&t, TR_PLAIN, "%s", tr_human_moment(ms, text));
        tr_table_cell(&t, TR_PLAIN, "%s", tr_human_when(c, ms, text));
    }
    tr_table_end(&t);
    return TR_CLI_FINE;
}

static int print(struct tr_cli *c, const char *what, const struct tr_cli_answer *a)
{
    struct tr_json_value v;
    struct tr_table t;
    char text[256];

    if (!tr_cli_read(a, &v)) {
        return TR_CLI_FAILED;
    }
    if (strcmp(what, "delete") == 0) {
        puts("deleted; jobs that it made stay.");
    } else if (strcmp(what, "run") == 0) {
        tr_human_one_job(c, &v);
    } else if (strcmp(what, "next") == 0) {
        return print_next(c, &v);
    } else {
        tr_table_init(&t, columns, sizeof columns / sizeof columns[0]);
        row(c, &t, &v);
        tr_table_end(&t);
        if (*tr_cli_string(&v, "trouble", text, sizeof text) != '\0') {
            printf("%s\n", text);
        }
    }
    return TR_CLI_FINE;
}

static int send(struct tr_cli *c, const char *what, const struct tr_cli_request *r)
{
    struct tr_cli_answer a;
    int how = tr_cli_send(&c->server, r, &a);

    how = how == TR_CLI_FINE ? tr_cli_judge(&a) : how;
    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE) {
        how = print(c, what, &a);
    }
    tr_cli_answer_fini(&a);
    return how;
}

/* What is done to one schedule. */
static const struct way {
    const char *what;
    const char *method;
    const char *verb;
} ways[] = {{"show", "GET", ""},     {"set", "PUT", ""},          {"delete", "DELETE", ""},
            {"run", "POST", "/run"}, {"pause", "POST", "/pause"}, {"resume", "POST", "/resume"},
            {"next", "GET", "/next"}};

static const struct way *way_of(const char *what)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(ways[i].what, what) == 0) {
            return &ways[i];
        }
    }
    return NULL;
}

static int one(struct tr_cli *c, const struct way *way, const char *name)
{
    struct tr_cli_target t = {0};
    struct tr_cli_request r = {.method = way->method, .type = "application/json"};
    char *object = NULL;
    int how;

    tr_cli_target_add(&t, "/v1/schedules");
    tr_cli_target_part(&t, name);
    tr_cli_target_add(&t, way->verb);
    if (strcmp(way->what, "next") == 0 && tr_cli_given(c, "-n")) {
        tr_cli_target_arg(&t, "n", tr_cli_value(c, "-n"));
    }
    if (strcmp(way->what, "set") == 0) {
        object = tr_cli_object(c, NULL);
        r.body = object;
        r.len = strlen(object);
    }
    r.target = t.text;
    how = send(c, way->what, &r);
    free(object);
    tr_cli_target_fini(&t);
    return how;
}

static int schedule(struct tr_cli *c)
{
    const char *what = c->count > 0 ? c->args[0] : "list";
    bool sets = strcmp(what, "set") == 0;

    for (unsigned i = 0; c->command->options[i].name != NULL; i++) {
        if (c->command->options[i].sent && c->values[i] != NULL && !sets) {
            return tr_cli_usage("schedule", "%s is for set.", c->command->options[i].name);
        }
    }
    if (tr_cli_given(c, "-n") && strcmp(what, "next") != 0) {
        return tr_cli_usage("schedule", "-n is for next.");
    }
    if (strcmp(what, "list") == 0) {
        return c->count < 2 ? list(c) : tr_cli_usage("schedule", "list takes no name.");
    }
    if (way_of(what) == NULL) {
        return tr_cli_usage(
            "schedule",
            "schedule takes list, show, set, delete, run, pause, resume or next, not \"%s\".",
            what);
    }
    if (c->count < 2 || c->args[1][0] == '\0') {
        return tr_cli_usage("schedule", "%s needs the name of a schedule.", what);
    }
    return one(c, way_of(what), c->args[1]);
}

const struct tr_cli_command tr_cli_command_schedule = {
    .name = "schedule",
    .group = TR_CLI_TOPICS,
    .about = "recurring jobs: by cron, at a rate, after the last",
    .usage = "[list]\n"
             "set NAME --topic TOPIC --cron CRON | --every D | --after D [FLAGS]\n"
             "show | delete | run | pause | resume | next NAME",
    .text = "Lists recurring jobs; sets the whole of one; shows, deletes or pauses it; makes its\n"
            "job once more, now (run); tells when it will happen (next).\n",
    .options = {{"--topic", "TOPIC", "where its jobs go", true},
                {"--cron", "CRON", "5 or 6 fields, or @daily", true},
                {"--tz", "ZONE", "the zone of --cron, such as Asia/Shanghai; default UTC", true},
                {"--every", "D", "a fixed rate, from due to due", true},
                {"--after", "D", "a fixed delay, from the end of the last job", true},
                {"--start", "TIME", "no sooner", true},
                {"--end", "TIME", "not from then on", true},
                {"--limit", "N", "so many times at most", true},
                {"--jitter", "D", "each is due up to so much later", true},
                {"--overlap", "WHAT", "while the last job lives: skip (default), queue, allow",
                 true},
                {"--missed", "WHAT", "after a time without a server: once (default), all, skip",
                 true},
                {"--body", "TEXT", "the body of its jobs", true},
                {"--priority", "N", "of its jobs; and so on:", true},
                {"--ttr", "D", "how long a consumer may hold one", true},
                {"--ttl", "D", "how long after due one is still delivered", true},
                {"--tag", "TAG", "a label", true},
                {"--retries", "N", "attempts after the first", true},
                {"--backoff", "LIST", "waits between attempts", true},
                {"-n", "N", "next: so many times; default 10", false}},
    .examples =
        "tarry schedule set report --topic mail --cron '0 30 9 * * MON-FRI' --tz Asia/Shanghai\n"
        "tarry schedule next report -n 3",
    .args_max = 2,
    .run = schedule,
};
