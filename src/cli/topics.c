/* Topics: their figures, policies, pauses; and when their jobs are due. */

#include "base/text.h"
#include "cli/human.h"
#include "cli/json.h"
#include "rules/moment.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- topics ---- */

/* pushed_per_s, as it is, but without zeros. */
static const char *rate(const struct tr_json_value *topic, const char *name, char out[32])
{
    (void)tr_cli_string(topic, name, out, 32);
    return strcmp(out, "0") == 0 ? "" : out;
}

static void count_cell(struct tr_table *t, const struct tr_json_value *topic, const char *name)
{
    char text[TR_HUMAN_TEXT];
    uint64_t n = tr_cli_number_or(topic, name, 0);

    tr_table_cell(t, n > 0 ? tr_human_state(name) : TR_DIM, "%s", tr_human_count(n, text));
}

static void topic_row(struct tr_cli *c, struct tr_table *t, const struct tr_json_value *topic)
{
    char text[TR_HUMAN_TEXT] = "";
    char name[256];
    uint64_t ms;

    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(topic, "name", name, sizeof name));
    count_cell(t, topic, "delayed");
    count_cell(t, topic, "ready");
    count_cell(t, topic, "reserved");
    count_cell(t, topic, "dead");
    tr_table_cell(t, TR_PLAIN, "%s",
                  tr_cli_number(topic, "next_due_ms", &ms) ? tr_human_when(c, ms, text) : "");
    tr_table_cell(t, TR_PLAIN, "%s",
                  tr_cli_number(topic, "oldest_ready_ms", &ms) ? tr_human_span(ms, text) : "");
    tr_table_cell(t, TR_PLAIN, "%s", rate(topic, "pushed_per_s", name));
    tr_table_cell(t, TR_PLAIN, "%s", rate(topic, "handed_per_s", name));
    tr_table_cell(t, TR_PLAIN, "%s",
                  tr_cli_number(topic, "late_p99_ms", &ms) ? tr_human_span(ms, text) : "");
}

static int print_topics(struct tr_cli *c, const struct tr_cli_answer *a)
{
    static const struct tr_column columns[] = {
        {"TOPIC", false}, {"DELAYED", true}, {"READY", true},  {"RESERVED", true},
        {"DEAD", true},   {"NEXT", false},   {"OLDEST", true}, {"IN/S", true},
        {"OUT/S", true},  {"LATE P99", true}};
    struct tr_json_value v;
    struct tr_json_value topic;
    struct tr_json_walk walk;
    struct tr_table t;

    if (!tr_cli_read(a, &v) || !tr_cli_member(&v, "topics", &v) || v.kind != TR_JSON_ARRAY_KIND) {
        return TR_CLI_FAILED;
    }
    tr_table_init(&t, columns, sizeof columns / sizeof columns[0]);
    tr_json_walk_init(&walk, &v);
    while (tr_json_walk_element(&walk, &topic)) {
        topic_row(c, &t, &topic);
    }
    tr_table_end(&t);
    return TR_CLI_FINE;
}

static int topics(struct tr_cli *c)
{
    struct tr_cli_answer a;
    int how = tr_cli_ask(&c->server, "GET", "/v1/topics", &a);

    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE) {
        how = print_topics(c, &a);
    }
    tr_cli_answer_fini(&a);
    return how;
}

const struct tr_cli_command tr_cli_command_topics = {
    .name = "topics",
    .group = TR_CLI_TOPICS,
    .about = "all topics, with their figures",
    .usage = "[FLAGS]",
    .text = "Lists topics: jobs by state, when the next is due, how long the oldest ready one\n"
            "waits, rates of the last ten seconds, and how late jobs became ready.\n",
    .examples = "tarry topics\n"
                "tarry topics --json | jq -r '.topics[] | select(.dead > 0) | .name'",
    .run = topics,
};

/* ---- topic ---- */

/* ttr_ms: 60000 is told as ttr: 1m. */
static void policy_fact(const struct tr_json_value *name, const struct tr_json_value *v)
{
    struct tr_json_value what;
    char title[64];
    char text[1024];
    char span[TR_HUMAN_TEXT];
    uint64_t ms;
    size_t len = name->len - 2 < sizeof title - 1 ? name->len - 2 : sizeof title - 1;

    memcpy(title, name->text + 1, len);
    title[len] = '\0';
    if (len > 3 && strcmp(title + len - 3, "_ms") == 0 && tr_json_u64(v, &ms)) {
        title[len - 3] = '\0';
        tr_human_fact(title, "%s", tr_human_span(ms, span));
    } else if (v->kind == TR_JSON_STRING_KIND && v->len < sizeof text) {
        text[tr_json_unescape(v, text)] = '\0';
        tr_human_fact(title, "%s", text);
    } else if (v->kind == TR_JSON_OBJECT_KIND && tr_cli_member(v, "what", &what)) {
        char until[64];

        (void)tr_cli_string(v, "until", until, sizeof until);
        tr_human_fact(title, "%s%s%s", tr_cli_string(v, "what", text, sizeof text),
                      until[0] != '\0' ? " until " : "", until);
    } else if (v->kind != TR_JSON_NULL_KIND) {
        tr_human_fact(title, "%s", tr_cli_printable(v->text, v->len, text, sizeof text));
    }
}

static int print_topic(struct tr_cli *c, const struct tr_cli_answer *a)
{
    static const char *const counts[] = {"delayed", "ready", "reserved", "dead", "waiting"};
    struct tr_json_value v;
    struct tr_json_value policy;
    struct tr_json_value name;
    struct tr_json_walk walk;
    char text[256];
    uint64_t ms;

    if (!tr_cli_read(a, &v)) {
        return TR_CLI_FAILED;
    }
    tr_human_fact("topic", "%s", tr_cli_string(&v, "name", text, sizeof text));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        tr_human_fact(counts[i], "%s", tr_human_count(tr_cli_number_or(&v, counts[i], 0), text));
    }
    if (tr_cli_number(&v, "next_due_ms", &ms)) {
        tr_human_fact("next due", "%s", tr_human_when(c, ms, text));
    }
    if (tr_cli_number(&v, "oldest_ready_ms", &ms)) {
        tr_human_fact("oldest ready", "waits for %s", tr_human_span(ms, text));
    }
    if (tr_cli_number(&v, "tube_paused_ms", &ms)) {
        tr_human_fact("pause-tube", "no hand-outs for %s", tr_human_span(ms, text));
    }
    tr_human_fact("pushed", "%s a second", tr_cli_string(&v, "pushed_per_s", text, sizeof text));
    tr_human_fact("handed out", "%s a second",
                  tr_cli_string(&v, "handed_per_s", text, sizeof text));
    tr_human_fact("late, p50", "%s", tr_human_span(tr_cli_number_or(&v, "late_p50_ms", 0), text));
    tr_human_fact("late, p99", "%s", tr_human_span(tr_cli_number_or(&v, "late_p99_ms", 0), text));
    if (tr_cli_member(&v, "policy", &policy) && policy.kind == TR_JSON_OBJECT_KIND) {
        printf("\n%spolicy%s\n", tr_human_paint(TR_BOLD), tr_human_unpaint(TR_BOLD));
        tr_json_walk_init(&walk, &policy);
        while (tr_json_walk_member(&walk, &name, &v)) {
            policy_fact(&name, &v);
        }
    }
    return TR_CLI_FINE;
}

/* Sends it; a topic comes back, or what a delete says. */
static int topic_send(struct tr_cli *c, const struct tr_cli_request *r)
{
    struct tr_cli_answer a;
    struct tr_json_value v;
    char text[TR_HUMAN_TEXT];
    int how = tr_cli_send(&c->server, r, &a);

    how = how == TR_CLI_FINE ? tr_cli_judge(&a) : how;
    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE && strcmp(r->method, "DELETE") == 0 && tr_cli_read(&a, &v)) {
        printf("deleted, with %s.\n", tr_human_job_count(tr_cli_number_or(&v, "purged", 0), text));
    } else if (how == TR_CLI_FINE) {
        how = print_topic(c, &a);
    }
    tr_cli_answer_fini(&a);
    return how;
}

/* FIELD=VALUE as a member: numbers, null and objects as they are, anything else as a string. */
static bool add_field(struct tr_cli_target *t, const char *field)
{
    const char *equals = strchr(field, '=');
    const char *value = equals != NULL ? equals + 1 : "";
    size_t digits = strspn(value, "0123456789.-");
    bool plain = (*value != '\0' && value[digits] == '\0' && strcmp(value, "-") != 0) ||
                 strcmp(value, "null") == 0 || *value == '{' || *value == '[';
    char name[64];
    char *quoted;

    if (equals == NULL || equals == field || (size_t)(equals - field) > sizeof name - 8) {
        return false;
    }
    tr_text(name, sizeof name, "%s\"%.*s\":", t->len > 0 ? "," : "{", (int)(equals - field), field);
    tr_cli_target_add(t, name);
    quoted = plain ? NULL : tr_cli_quote(value);
    tr_cli_target_add(t, plain ? value : quoted);
    free(quoted);
    return true;
}

/* Durations may be bare numbers, which are seconds: they go as strings or numbers alike. */
static int topic_set(struct tr_cli *c, const char *method, const char *target)
{
    struct tr_cli_target object = {0};
    struct tr_cli_request r = {.method = method, .target = target, .type = "application/json"};
    int how = TR_CLI_FINE;

    for (int i = 2; i < c->count && how == TR_CLI_FINE; i++) {
        if (!add_field(&object, c->args[i])) {
            how = tr_cli_usage("topic", "\"%s\" is no FIELD=VALUE, such as ttr=30s.", c->args[i]);
        }
    }
    if (how == TR_CLI_FINE && c->count == 2 && strcmp(method, "PATCH") == 0) {
        how = tr_cli_usage("topic", "set needs a FIELD=VALUE, such as ttr=30s.");
    }
    if (how == TR_CLI_FINE) {
        tr_cli_target_add(&object, object.len > 0 ? "}" : "{}");
        r.body = object.text;
        r.len = object.len;
        how = topic_send(c, &r);
    }
    tr_cli_target_fini(&object);
    return how;
}

static int topic(struct tr_cli *c)
{
    const char *what = c->count > 1 ? c->args[1] : "show";
    struct tr_cli_target t = {0};
    struct tr_cli_request r = {.method = "GET"};
    int how;

    tr_cli_target_add(&t, "/v1/topics");
    tr_cli_target_part(&t, c->args[0]);
    if (tr_cli_given(c, "--force") && strcmp(what, "delete") != 0) {
        how = tr_cli_usage("topic", "--force is for delete.");
    } else if (strcmp(what, "set") == 0) {
        how = topic_set(c, "PATCH", t.text);
    } else if (strcmp(what, "replace") == 0) {
        how = topic_set(c, "PUT", t.text);
    } else if (c->count > 2 || (strcmp(what, "show") != 0 && strcmp(what, "delete") != 0)) {
        how = tr_cli_usage("topic", "topic %s takes show, set, replace or delete, not \"%s\".",
                           c->args[0], c->args[c->count > 2 ? 2 : 1]);
    } else if (tr_cli_given(c, "--force") &&
               !tr_cli_sure(c, "Delete %s and all its jobs?", c->args[0])) {
        how = TR_CLI_FAILED;
    } else {
        if (strcmp(what, "delete") == 0) {
            r.method = "DELETE";
            tr_cli_query(c, &t);
        }
        r.target = t.text;
        how = topic_send(c, &r);
    }
    tr_cli_target_fini(&t);
    return how;
}

const struct tr_cli_command tr_cli_command_topic = {
    .name = "topic",
    .group = TR_CLI_TOPICS,
    .about = "one topic: its figures and policy; set, delete",
    .usage = "TOPIC [show]\n"
             "TOPIC set FIELD=VALUE...\n"
             "TOPIC replace [FIELD=VALUE...]\n"
             "TOPIC delete [--force]",
    .text = "Shows a topic; sets fields of its policy (null: the default again); replaces the\n"
            "whole policy; deletes the topic. Fields: ttr, retries, backoff, ttl, rate, burst,\n"
            "max_jobs, max_bytes, dead_keep, dead_max, in_flight, jitter, history, paused,\n"
            "deliver (as JSON); with --engine redis spread, too.\n",
    .options = {{.name = "--force", .about = "delete: its jobs, too", .sent = true},
                {.name = "--yes", .about = "do not ask"}},
    .examples = "tarry topic orders\n"
                "tarry topic notify set ttr=10s retries=7 backoff=4m,10m,10m,1h,2h,6h,15h",
    .args_min = 1,
    .args_max = 32,
    .run = topic,
};

/* ---- pause, resume, purge ---- */

static int topic_post(struct tr_cli *c)
{
    struct tr_cli_target t = {0};
    struct tr_cli_request r = {.method = "POST"};
    int how;

    tr_cli_target_add(&t, "/v1/topics");
    tr_cli_target_part(&t, c->args[0]);
    tr_cli_target_part(&t, c->command->name);
    tr_cli_query(c, &t);
    r.target = t.text;
    how = topic_send(c, &r);
    tr_cli_target_fini(&t);
    return how;
}

const struct tr_cli_command tr_cli_command_pause = {
    .name = "pause",
    .group = TR_CLI_TOPICS,
    .about = "hold back what a topic hands out, or takes",
    .usage = "TOPIC [FLAGS]",
    .text = "Pauses a topic. Jobs become ready and expire all the same.\n",
    .options = {{"--what", "WHAT", "out: hand-outs (default); in: pushes; both", true},
                {"--for", "D", "how long; default: until `tarry resume`", true}},
    .examples = "tarry pause orders --for 10m\n"
                "tarry pause orders --what both",
    .args_min = 1,
    .args_max = 1,
    .run = topic_post,
};

const struct tr_cli_command tr_cli_command_resume = {
    .name = "resume",
    .group = TR_CLI_TOPICS,
    .about = "end a pause",
    .usage = "TOPIC [FLAGS]",
    .text = "Ends the pause of a topic, and that of pause-tube.\n",
    .examples = "tarry resume orders\n"
                "tarry resume orders --json",
    .args_min = 1,
    .args_max = 1,
    .run = topic_post,
};

static int purge(struct tr_cli *c)
{
    struct tr_cli_target t = {0};
    struct tr_cli_answer a = {0};
    struct tr_json_value v;
    char text[TR_HUMAN_TEXT];
    int how;

    if (!tr_cli_sure(c, "Delete all %s%sjobs of %s?",
                     tr_cli_given(c, "--state") ? tr_cli_value(c, "--state") : "",
                     tr_cli_given(c, "--state") ? " " : "", c->args[0])) {
        return TR_CLI_FAILED;
    }
    tr_cli_target_add(&t, "/v1/topics");
    tr_cli_target_part(&t, c->args[0]);
    tr_cli_target_add(&t, "/purge");
    tr_cli_query(c, &t);
    how = tr_cli_ask(&c->server, "POST", t.text, &a);
    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE && tr_cli_read(&a, &v)) {
        printf("%s deleted.\n", tr_human_count(tr_cli_number_or(&v, "purged", 0), text));
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&t);
    return how;
}

const struct tr_cli_command tr_cli_command_purge = {
    .name = "purge",
    .group = TR_CLI_TOPICS,
    .about = "delete all jobs of a topic",
    .usage = "TOPIC [FLAGS]",
    .text = "Deletes all jobs of a topic, also those that consumers have, whose leases are lost;\n"
            "or those in one state. A terminal is asked first.\n",
    .options = {{"--state", "STATE", "only those that are delayed, ready, reserved or dead", true},
                {.name = "--yes", .about = "do not ask"}},
    .examples = "tarry purge orders --state dead\n"
                "tarry purge orders --yes",
    .args_min = 1,
    .args_max = 1,
    .run = purge,
};

/* ---- forecast ---- */

enum { BAR_WIDTH = 40 };

static uint64_t most_of(const struct tr_json_value *steps, uint64_t *sum)
{
    struct tr_json_walk walk;
    struct tr_json_value step;
    uint64_t most = 0;

    *sum = 0;
    tr_json_walk_init(&walk, steps);
    while (tr_json_walk_element(&walk, &step)) {
        uint64_t n = tr_cli_number_or(&step, "count", 0);

        *sum += n;
        most = n > most ? n : most;
    }
    return most;
}

static int print_forecast(struct tr_cli *c, const struct tr_cli_answer *a)
{
    static const struct tr_column columns[] = {
        {"FROM", false}, {"DUE", false}, {"JOBS", true}, {"", false}};
    char text[TR_HUMAN_TEXT];
    struct tr_json_value v;
    struct tr_json_value steps;
    struct tr_json_value step;
    struct tr_json_walk walk;
    struct tr_table t;
    uint64_t most;
    uint64_t sum;

    if (!tr_cli_read(a, &v) || !tr_cli_member(&v, "steps", &steps) ||
        steps.kind != TR_JSON_ARRAY_KIND) {
        return TR_CLI_FAILED;
    }
    most = most_of(&steps, &sum);
    tr_table_init(&t, columns, 4);
    tr_json_walk_init(&walk, &steps);
    while (tr_json_walk_element(&walk, &step)) {
        uint64_t from_ms = tr_cli_number_or(&step, "from_ms", 0);
        uint64_t n = tr_cli_number_or(&step, "count", 0);
        char bar[BAR_WIDTH + 1];
        uint64_t len = most > 0 ? (n * BAR_WIDTH + most - 1) / most : 0;

        memset(bar, '#', BAR_WIDTH);
        bar[len] = '\0';
        tr_table_cell(&t, TR_PLAIN, "%s", tr_human_moment(from_ms, text));
        tr_table_cell(&t, TR_PLAIN, "%s", tr_human_when(c, from_ms, text));
        tr_table_cell(&t, n > 0 ? TR_PLAIN : TR_DIM, "%s", tr_human_count(n, text));
        tr_table_cell(&t, TR_CYAN, "%s", bar);
    }
    tr_table_end(&t);
    printf("%s in all%s.\n", tr_human_job_count(sum, text),
           tr_cli_is_true(&v, "approximate") ? ", about" : "");
    return TR_CLI_FINE;
}

static int forecast(struct tr_cli *c)
{
    const char *topic = c->count > 0 ? c->args[0] : tr_cli_value(c, "--topic");
    struct tr_cli_target t = {0};
    struct tr_cli_answer a = {0};
    uint64_t for_us = 0;
    char to[32];
    int how = tr_cli_read_duration(c, "--for", &for_us);

    if (how == TR_CLI_FINE && tr_cli_given(c, "--for") &&
        (tr_cli_given(c, "--to") || tr_cli_given(c, "--from"))) {
        how = tr_cli_usage("forecast", "--for goes without --from and --to.");
    }
    if (how == TR_CLI_FINE && c->count > 0 && tr_cli_given(c, "--topic")) {
        how = tr_cli_usage("forecast", "the topic is given twice.");
    }
    if (how != TR_CLI_FINE) {
        return how;
    }
    tr_cli_target_add(&t, "/v1/forecast");
    tr_cli_query(c, &t);
    if (topic != NULL) {
        tr_cli_target_arg(&t, "topic", topic);
    }
    if (tr_cli_given(c, "--for")) {
        tr_text(to, sizeof to, "%" PRIu64, tr_human_now_ms(c) + for_us / 1000);
        tr_cli_target_arg(&t, "to", to);
    }
    how = tr_cli_ask(&c->server, "GET", t.text, &a);
    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE) {
        how = print_forecast(c, &a);
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&t);
    return how;
}

const struct tr_cli_command tr_cli_command_forecast = {
    .name = "forecast",
    .group = TR_CLI_WATCHING,
    .about = "how many jobs are due when",
    .usage = "[TOPIC] [FLAGS]",
    .text = "Shows how many delayed jobs are due in each step ahead, of a topic or of all.\n",
    .options = {{.name = "--for", .value = "D", .about = "how far ahead; default 1h"},
                {"--step", "D", "the length of a step; default: about 60 of them", true},
                {"--from", "TIME", "begin then, not now", true},
                {"--to", "TIME", "end then", true},
                {.name = "--topic", .value = "TOPIC", .about = "jobs of this topic"}},
    .examples = "tarry forecast --for 24h --step 1h\n"
                "tarry forecast orders --for 2h --step 10m",
    .args_max = 1,
    .run = forecast,
};
