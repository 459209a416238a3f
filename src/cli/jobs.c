/*
 * What producers and people do with jobs: push, show, history, list, reschedule, cancel, fire,
 * kick, shift. Each is a row and the few lines that it takes.
 */

#include "cli/human.h"
#include "cli/job.h"
#include "cli/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOB_EXITS "0 done; 1 no answer, no such job, or it is in another state;\n2 wrong usage"

/* The body: a word, --body, --file, or stdin if that is no terminal. NULL: stderr says why. */
static char *body_of(const struct tr_cli *c, const char *word, size_t *len)
{
    const char *file = tr_cli_value(c, "--file");
    const char *text = word != NULL ? word : tr_cli_value(c, "--body");
    char *copy;

    if (word != NULL && strcmp(word, "-") == 0) {
        return tr_cli_read_file("-", len);
    }
    if (file != NULL) {
        return tr_cli_read_file(file, len);
    }
    if (text == NULL && isatty(STDIN_FILENO) != 1) {
        return tr_cli_read_file("-", len);
    }
    *len = text != NULL ? strlen(text) : 0;
    copy = tr_cli_memory(NULL, *len + 1);
    memcpy(copy, text != NULL ? text : "", *len + 1);
    return copy;
}

/* ---- push ---- */

static int push(struct tr_cli *c)
{
    const char *word = c->count > 1 ? c->args[1] : NULL;
    struct tr_cli_target t = {0};
    struct tr_cli_request r = {.method = "POST"};
    char *body;
    int how = TR_CLI_FAILED;

    if ((word != NULL) + tr_cli_given(c, "--body") + tr_cli_given(c, "--file") > 1) {
        return tr_cli_usage("push", "the body is given twice: as a word, --body or --file.");
    }
    body = body_of(c, word, &r.len);
    if (body != NULL) {
        tr_cli_target_add(&t, "/v1/topics");
        tr_cli_target_part(&t, c->args[0]);
        tr_cli_target_add(&t, "/jobs");
        tr_cli_query(c, &t);
        r.target = t.text;
        r.body = body;
        how = tr_cli_job_send(c, &r);
    }
    tr_cli_target_fini(&t);
    free(body);
    return how;
}

const struct tr_cli_command tr_cli_command_push = {
    .name = "push",
    .group = TR_CLI_JOBS,
    .about = "give the server a job, due now or later",
    .usage = "TOPIC [BODY] [FLAGS]",
    .text = "Pushes a job. BODY is its bytes; without it, or with -, they come from stdin (none\n"
            "if that is a terminal). It is answered when the job is safe.\n",
    .options =
        {
            {"--delay", "D", "due so long from now: 30m, 1h30m, 250ms, 7d", true},
            {"--at", "TIME", "due at this moment: 2027-01-01T00:00:00+08:00, or epoch ms", true},
            {"--key", "KEY", "a name for it, unique in its topic while it lives", true},
            {"--on-conflict", "WHAT", "if there is that key: replace (default), keep or error",
             true},
            {"--priority", "N", "smaller first; default 1024", true},
            {"--ttr", "D", "how long a consumer may hold it; default: the topic's", true},
            {"--ttl", "D", "how long after due it is still delivered", true},
            {"--tag", "TAG", "a label to filter by", true},
            {"--retries", "N", "attempts after the first; -1: no end", true},
            {"--backoff", "LIST", "waits between attempts: 4m,10m,1h or exp(1s,2,1h,0.1)", true},
            {"--body", "TEXT", "the body, instead of BODY", false},
            {"--file", "FILE", "the body is in this file", false},
        },
    .examples = "tarry push orders '{\"order\":42}' --delay 30m --key order-42\n"
                "tarry push reports --at 2027-01-01T00:00:00+08:00 < report.txt",
    .exits = "0 it is safe; 1 no answer, or the server refused it; 2 wrong usage",
    .args_min = 1,
    .args_max = 2,
    .run = push,
};

/* ---- show ---- */

/* Bytes of a job on a terminal: text as it is, anything else so that it cannot do harm. */
static void print_body(const char *body, size_t len)
{
    if (isatty(STDOUT_FILENO) != 1) {
        (void)fwrite(body, 1, len, stdout);
    } else {
        for (size_t at = 0; at < len;) {
            size_t line = strcspn(body + at, "\n");
            char *text;

            line = line > len - at ? len - at : line;
            text = tr_cli_memory(NULL, 4 * line + 1);
            fputs(tr_cli_printable(body + at, line, text, 4 * line + 1), stdout);
            free(text);
            at += line;
            if (at < len) {
                fputc('\n', stdout);
                at++;
            }
        }
    }
    if (len > 0 && body[len - 1] != '\n') {
        fputc('\n', stdout);
    }
}

static void fact_span(const struct tr_json_value *job, const char *name, const char *member)
{
    char text[TR_HUMAN_TEXT];
    uint64_t ms;

    if (tr_cli_number(job, member, &ms)) {
        tr_human_fact(name, "%s", tr_human_span(ms, text));
    }
}

static void fact_when(struct tr_cli *c, const struct tr_json_value *job, const char *name,
                      const char *member)
{
    char moment[TR_HUMAN_TEXT];
    char when[TR_HUMAN_TEXT];
    uint64_t ms;

    if (tr_cli_number(job, member, &ms)) {
        tr_human_fact(name, "%s, %s", tr_human_moment(ms, moment), tr_human_when(c, ms, when));
    }
}

static void fact_text(const struct tr_json_value *job, const char *name, const char *member)
{
    char text[1024];

    tr_human_fact(name, "%s", tr_cli_string(job, member, text, sizeof text));
}

static void show_facts(struct tr_cli *c, const struct tr_json_value *job)
{
    char state[32];
    char text[TR_HUMAN_TEXT];
    uint64_t ms;

    (void)tr_cli_string(job, "state", state, sizeof state);
    fact_text(job, "id", "id");
    fact_text(job, "topic", "topic");
    fact_text(job, "key", "key");
    fact_text(job, "tag", "tag");
    tr_human_fact("state", "%s%s%s", tr_human_paint(tr_human_state(state)), state,
                  tr_human_unpaint(tr_human_state(state)));
    fact_text(job, "reason", "reason");
    fact_when(c, job, "dead since", "dead_ms");
    fact_when(c, job, "due", "due_ms");
    if (tr_cli_number(job, "late_ms", &ms)) {
        tr_human_fact("lateness", "%s", tr_human_late(ms, text));
    }
    fact_when(c, job, "pushed", "created_ms");
    fact_text(job, "priority", "priority");
    fact_text(job, "attempts", "attempts");
    fact_text(job, "retries", "retries");
    fact_text(job, "backoff", "backoff");
    fact_span(job, "ttr", "ttr_ms");
    fact_span(job, "ttl", "ttl_ms");
}

static int show_answer(struct tr_cli *c, const struct tr_cli_answer *a)
{
    struct tr_json_value job;
    char bytes[TR_HUMAN_TEXT];
    char *body;
    size_t len;

    if (tr_cli_given(c, "--raw")) {
        (void)fwrite(a->body, 1, a->len, stdout);
        return TR_CLI_FINE;
    }
    if (c->json) {
        tr_cli_print_raw(a);
        return TR_CLI_FINE;
    }
    if (!tr_cli_read(a, &job)) {
        return TR_CLI_FAILED;
    }
    show_facts(c, &job);
    body = tr_cli_body(&job, &len);
    tr_human_fact("body", "%s", tr_human_bytes(len, bytes));
    if (len > 0) {
        fputc('\n', stdout);
        print_body(body, len);
    }
    free(body);
    return TR_CLI_FINE;
}

static int show(struct tr_cli *c)
{
    struct tr_cli_target t = {0};
    struct tr_cli_request r = {.method = "GET"};
    struct tr_cli_answer a = {0};
    int how;

    if (c->json && tr_cli_given(c, "--raw")) {
        return tr_cli_usage("show", "--raw prints the body as it is, which is no JSON: leave out "
                                    "one of --raw and --json.");
    }
    how = tr_cli_job_target(c, &t);
    if (how == TR_CLI_FINE) {
        r.target = t.text;
        r.accept = tr_cli_given(c, "--raw") ? "application/octet-stream" : NULL;
        how = tr_cli_send(&c->server, &r, &a);
    }
    how = how == TR_CLI_FINE ? tr_cli_judge(&a) : how;
    how = how == TR_CLI_FINE ? show_answer(c, &a) : how;
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&t);
    return how;
}

const struct tr_cli_command tr_cli_command_show = {
    .name = "show",
    .group = TR_CLI_JOBS,
    .about = "all about one job, its body included",
    .usage = "ID | TOPIC KEY [FLAGS]",
    .text = "Shows a job: what it is, when it is due, and its body.\n",
    .options = {TR_CLI_KEY_OPTIONS,
                {.name = "--raw", .about = "only the bytes of its body, as they are"}},
    .examples = "tarry show 17\n"
                "tarry show orders order-42 --raw > body",
    .exits = JOB_EXITS,
    .args_max = 2,
    .run = show,
};

/* ---- history ---- */

static int print_history(struct tr_cli *c, const struct tr_cli_answer *a)
{
    static const struct tr_column columns[] = {
        {"AT", false}, {"AFTER", true}, {"STATE", false}, {"WHY", false}, {"BY", false}};
    struct tr_json_value v;
    struct tr_json_value event;
    struct tr_json_walk walk;
    struct tr_table t;
    uint64_t before = 0;

    (void)c;
    if (!tr_cli_read(a, &v) || !tr_cli_member(&v, "events", &v) || v.kind != TR_JSON_ARRAY_KIND) {
        return TR_CLI_FAILED;
    }
    tr_table_init(&t, columns, 5);
    tr_json_walk_init(&walk, &v);
    while (tr_json_walk_element(&walk, &event)) {
        uint64_t at_ms = tr_cli_number_or(&event, "at_ms", 0);
        char text[TR_HUMAN_TEXT];
        char state[32];

        tr_table_cell(&t, TR_PLAIN, "%s", tr_human_moment(at_ms, text));
        tr_table_cell(&t, TR_PLAIN, "%s",
                      before != 0 && at_ms >= before ? tr_human_span(at_ms - before, text) : "");
        (void)tr_cli_string(&event, "state", state, sizeof state);
        tr_table_cell(&t, tr_human_state(state), "%s", state);
        tr_table_cell(&t, TR_PLAIN, "%s", tr_cli_string(&event, "why", text, sizeof text));
        tr_table_cell(&t, TR_PLAIN, "%s", tr_cli_string(&event, "by", text, sizeof text));
        before = at_ms;
    }
    tr_table_end(&t);
    return TR_CLI_FINE;
}

static int history(struct tr_cli *c)
{
    struct tr_cli_target t = {0};
    struct tr_cli_answer a = {0};
    int how = tr_cli_job_target(c, &t);

    if (how == TR_CLI_FINE) {
        tr_cli_target_add(&t, "/history");
        how = tr_cli_ask(&c->server, "GET", t.text, &a);
    }
    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE) {
        how = print_history(c, &a);
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&t);
    return how;
}

const struct tr_cli_command tr_cli_command_history = {
    .name = "history",
    .group = TR_CLI_JOBS,
    .about = "what happened to a job, also when it is gone",
    .usage = "ID | TOPIC KEY [FLAGS]",
    .text = "Shows what happened to a job: its state from then on, why, and by whom. It is kept\n"
            "for a while after the job is gone (history.keep), then by ID only.\n",
    .options = {TR_CLI_KEY_OPTIONS},
    .examples = "tarry history 17\n"
                "tarry history orders order-42 --json",
    .exits = JOB_EXITS,
    .args_max = 2,
    .run = history,
};

/* ---- list ---- */

/* How far a list has come. */
struct listing {
    uint64_t left; /* jobs that are still wanted */
    char cursor[512];
    bool opened; /* the array of --json */
    bool first;  /* no job was printed yet */
    struct tr_table table;
};

static void print_page(struct tr_cli *c, struct listing *l, const struct tr_json_value *jobs)
{
    struct tr_json_walk walk;
    struct tr_json_value job;

    tr_json_walk_init(&walk, jobs);
    while (tr_json_walk_element(&walk, &job)) {
        l->left -= l->left > 0;
        if (c->json) {
            printf("%s%.*s", l->first ? "" : ",", (int)job.len, job.text);
        } else {
            tr_human_job(c, &l->table, &job);
        }
        l->first = false;
    }
}

static int page(struct tr_cli *c, struct listing *l)
{
    struct tr_cli_target t = {0};
    struct tr_cli_answer a;
    struct tr_json_value v;
    struct tr_json_value jobs;
    const char *topic = c->count > 0 ? c->args[0] : tr_cli_value(c, "--topic");
    char limit[32];
    int how;

    (void)snprintf(limit, sizeof limit, "%" PRIu64, l->left < 1000 ? l->left : 1000);
    tr_cli_target_add(&t, "/v1/jobs");
    tr_cli_query(c, &t);
    tr_cli_target_arg(&t, "limit", limit);
    if (topic != NULL) {
        tr_cli_target_arg(&t, "topic", topic);
    }
    if (l->cursor[0] != '\0') {
        tr_cli_target_arg(&t, "cursor", l->cursor);
    }
    how = tr_cli_ask(&c->server, "GET", t.text, &a);
    if (how == TR_CLI_FINE && (!tr_cli_read(&a, &v) || !tr_cli_member(&v, "jobs", &jobs) ||
                               jobs.kind != TR_JSON_ARRAY_KIND)) {
        how = TR_CLI_FAILED;
    }
    if (how == TR_CLI_FINE) {
        (void)tr_cli_string(&v, "cursor", l->cursor, sizeof l->cursor);
        if (c->json && !l->opened) {
            fputs("{\"jobs\":[", stdout);
        }
        l->opened = true;
        print_page(c, l, &jobs);
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&t);
    return how;
}

static int list(struct tr_cli *c)
{
    struct listing l = {.left = 100, .first = true};
    int how = tr_cli_read_number(c, "--limit", UINT64_MAX, &l.left);

    if (how == TR_CLI_FINE && c->count > 0 && tr_cli_given(c, "--topic")) {
        how = tr_cli_usage("list", "the topic is given twice.");
    }
    if (how == TR_CLI_FINE && tr_cli_given(c, "--all") && tr_cli_given(c, "--limit")) {
        how = tr_cli_usage("list", "--all or --limit: not both.");
    }
    if (how != TR_CLI_FINE) {
        return how;
    }
    if (tr_cli_given(c, "--all")) {
        l.left = UINT64_MAX;
    }
    if (!c->json) {
        tr_human_jobs_begin(&l.table);
    }
    do {
        how = page(c, &l);
    } while (how == TR_CLI_FINE && l.cursor[0] != '\0' && l.left > 0 && !ferror(stdout));
    if (c->json && l.opened) {
        char *cursor = tr_cli_quote(l.cursor);

        printf("],\"cursor\":%s}\n", l.cursor[0] != '\0' ? cursor : "null");
        free(cursor);
    } else if (!c->json) {
        if (l.opened) {
            tr_table_end(&l.table);
        }
        if (l.cursor[0] != '\0' && how == TR_CLI_FINE) {
            fputs("There are more: --limit N or --all shows them.\n", stderr);
        }
    }
    return how;
}

const struct tr_cli_command tr_cli_command_list = {
    .name = "list",
    .group = TR_CLI_JOBS,
    .about = "jobs that match, by due time",
    .usage = "[TOPIC] [FLAGS]",
    .text = "Lists jobs of a topic, or of all, by due time; dead ones by their time of death.\n",
    .options = {{.name = "--topic", .value = "TOPIC", .about = "jobs of this topic"},
                TR_CLI_FILTER_OPTIONS("delayed, ready, reserved or dead"),
                {.name = "--limit", .value = "N", .about = "so many at most; default 100"},
                {.name = "--all", .about = "all of them, however many there are"}},
    .examples = "tarry list orders --state delayed\n"
                "tarry list --due-to 2027-01-01T00:00:00Z --all --json | jq -r '.jobs[].id'",
    .args_max = 1,
    .run = list,
};

/* ---- reschedule ---- */

static int reschedule(struct tr_cli *c)
{
    struct tr_cli_target t = {0};
    struct tr_cli_request r = {.method = "PATCH", .type = "application/json"};
    char *more = NULL;
    char *object = NULL;
    int how = tr_cli_job_target(c, &t);

    if (how == TR_CLI_FINE && tr_cli_given(c, "--body")) {
        char *quoted = tr_cli_quote(tr_cli_value(c, "--body"));
        size_t room = strlen(quoted) + 16;

        more = tr_cli_memory(NULL, room);
        (void)snprintf(more, room, "\"body\":%s", quoted);
        free(quoted);
    }
    if (how == TR_CLI_FINE) {
        object = tr_cli_object(c, more);
        if (strcmp(object, "{}") == 0) {
            how = tr_cli_usage("reschedule", "what is to change? Say --delay, --at or another.");
        }
    }
    if (how == TR_CLI_FINE) {
        r.target = t.text;
        r.body = object;
        r.len = strlen(object);
        how = tr_cli_job_send(c, &r);
    }
    free(more);
    free(object);
    tr_cli_target_fini(&t);
    return how;
}

const struct tr_cli_command tr_cli_command_reschedule = {
    .name = "reschedule",
    .group = TR_CLI_JOBS,
    .about = "another due time, priority or body for a job",
    .usage = "ID | TOPIC KEY [FLAGS]",
    .text = "Changes a job that is delayed or ready; its ID stays. What is not given stays, too.\n",
    .options = {TR_CLI_KEY_OPTIONS,
                {"--delay", "D", "due so long from now", true},
                {"--at", "TIME", "due at this moment", true},
                {"--priority", "N", "smaller first", true},
                {"--ttr", "D", "how long a consumer may hold it", true},
                {"--ttl", "D", "how long after due it is still delivered; null: for ever", true},
                {"--tag", "TAG", "a label; null: none", true},
                {"--body", "TEXT", "other bytes", false}},
    .examples = "tarry reschedule 17 --delay 1h\n"
                "tarry reschedule orders order-42 --at 2027-01-01T00:00:00Z --priority 10",
    .exits = JOB_EXITS,
    .args_max = 2,
    .run = reschedule,
};

/* ---- cancel ---- */

static int cancel_one(struct tr_cli *c)
{
    struct tr_cli_target t = {0};
    struct tr_cli_answer a = {0};
    struct tr_json_value v;
    char was[32];
    int how = tr_cli_job_target(c, &t);

    if (how == TR_CLI_FINE) {
        if (tr_cli_given(c, "--force")) {
            tr_cli_target_arg(&t, "force", "true");
        }
        how = tr_cli_ask(&c->server, "DELETE", t.text, &a);
    }
    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE && tr_cli_read(&a, &v)) {
        printf("cancelled; it was %s.\n", tr_cli_string(&v, "was", was, sizeof was));
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(&t);
    return how;
}

static int cancel(struct tr_cli *c)
{
    static const char *const states[] = {"delayed", "ready", "dead", NULL};
    static const struct tr_cli_bulk b = {"/v1/jobs/cancel", "cancelled", states};

    if (!tr_cli_is_bulk(c)) {
        if (tr_cli_given(c, "--state") || tr_cli_given(c, "--tag") ||
            tr_cli_given(c, "--due-from") || tr_cli_given(c, "--due-to") ||
            tr_cli_given(c, "--limit") || tr_cli_given(c, "--dry-run")) {
            return tr_cli_usage("cancel", "one job, or all that match: not both.");
        }
        return cancel_one(c);
    }
    if (tr_cli_given(c, "--force")) {
        return tr_cli_usage("cancel", "--force is for one job.");
    }
    return tr_cli_bulk(c, &b);
}

#define BULK_OPTIONS                                                                               \
    {.name = "--limit", .value = "N", .about = "so many at most", .sent = true},                   \
        {.name = "--dry-run", .about = "only count", .sent = true},                                \
    {                                                                                              \
        .name = "--yes", .about = "do not ask"                                                     \
    }

const struct tr_cli_command tr_cli_command_cancel = {
    .name = "cancel",
    .group = TR_CLI_JOBS,
    .about = "take a job back, or all that match",
    .usage = "ID | TOPIC KEY [--force]\n--topic TOPIC [FLAGS]",
    .text = "Cancels a job: it is never handed out after that. One that a consumer has is left\n"
            "alone, unless --force is given: then its lease is lost. With filters instead of a\n"
            "job, all that match and are not reserved; a terminal is asked first.\n",
    .options = {{.name = "--topic",
                 .value = "TOPIC",
                 .about = "all jobs of this topic; or of --key"},
                {.name = "--key", .value = "KEY", .about = "the job with this key"},
                TR_CLI_FILTER_OPTIONS("delayed, ready or dead"),
                BULK_OPTIONS,
                {.name = "--force", .about = "also if a consumer has it"}},
    .examples = "tarry cancel orders order-42\n"
                "tarry cancel --topic orders --tag spring-sale --dry-run",
    .exits = JOB_EXITS,
    .args_max = 2,
    .run = cancel,
};

/* ---- fire, kick, shift ---- */

static int fire(struct tr_cli *c)
{
    return tr_cli_job_do(c, "POST", "/fire");
}

const struct tr_cli_command tr_cli_command_fire = {
    .name = "fire",
    .group = TR_CLI_JOBS,
    .about = "make a delayed job due now",
    .usage = "ID | TOPIC KEY [FLAGS]",
    .text = "Makes a delayed job due now, whatever its due time was.\n",
    .options = {TR_CLI_KEY_OPTIONS},
    .examples = "tarry fire 17\n"
                "tarry fire orders order-42",
    .exits = JOB_EXITS,
    .args_max = 2,
    .run = fire,
};

static int kick(struct tr_cli *c)
{
    static const char *const states[] = {"dead", NULL};
    static const struct tr_cli_bulk b = {"/v1/jobs/kick", "brought back", states};

    return tr_cli_is_bulk(c) ? tr_cli_bulk(c, &b) : tr_cli_job_do(c, "POST", "/kick");
}

const struct tr_cli_command tr_cli_command_kick = {
    .name = "kick",
    .group = TR_CLI_JOBS,
    .about = "bring a dead job back, or all that match",
    .usage = "ID | TOPIC KEY\n--topic TOPIC [FLAGS]",
    .text = "Brings a dead job back: due now, its attempts counted anew. With filters instead of\n"
            "a job, all dead ones that match; a terminal is asked first.\n",
    .options = {{.name = "--topic",
                 .value = "TOPIC",
                 .about = "all dead jobs of this topic; or of --key"},
                {.name = "--key", .value = "KEY", .about = "the job with this key"},
                TR_CLI_FILTER_OPTIONS("dead; others cannot be kicked"),
                BULK_OPTIONS},
    .examples = "tarry kick 17\n"
                "tarry kick --topic orders",
    .exits = JOB_EXITS,
    .args_max = 2,
    .run = kick,
};

static int shift(struct tr_cli *c)
{
    static const char *const states[] = {"delayed", "ready", NULL};
    static const struct tr_cli_bulk b = {"/v1/jobs/shift", "shifted", states};

    if (tr_cli_given(c, "--by") == tr_cli_given(c, "--to")) {
        return tr_cli_usage("shift", "say how far with --by, or where with --to.");
    }
    if (!tr_cli_is_bulk(c)) {
        return tr_cli_usage("shift", "say which jobs: --topic, --tag, --due-from or --due-to.");
    }
    return tr_cli_bulk(c, &b);
}

const struct tr_cli_command tr_cli_command_shift = {
    .name = "shift",
    .group = TR_CLI_JOBS,
    .about = "move the due times of all jobs that match",
    .usage = "--topic TOPIC --by D | --to TIME [FLAGS]",
    .text = "Moves the due times of all jobs that match, by so much or to one moment. The jobs\n"
            "are those that were there at the beginning; a terminal is asked first.\n",
    .options = {{"--by", "D", "how far: 30m later, or -30m earlier", true},
                {"--to", "TIME", "the moment at which all are due", true},
                {.name = "--topic", .value = "TOPIC", .about = "jobs of this topic"},
                TR_CLI_FILTER_OPTIONS("delayed or ready"),
                BULK_OPTIONS},
    .examples = "tarry shift --topic orders --by 30m\n"
                "tarry shift --topic orders --tag sale --by -1h --dry-run",
    .args_max = 0,
    .run = shift,
};
