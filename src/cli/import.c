/*
 * tarry import: jobs, policies and schedules into a running server, from a file that `tarry export`
 * wrote or from another queue.
 *
 *     source --> batch of up to 5,000 jobs --> POST /v1/jobs (NDJSON), one group commit
 *                                                | answered: they are safe
 *                                                v
 *                note how far it has come (--state), or take them out of the other queue
 *
 * So nothing is taken from anywhere before it is safe here. What was cut short is begun again with
 * the same words: at most one batch comes twice, and of that, jobs with keys do not.
 *
 * How dead jobs come in is a page of its own, import_dead.c.
 */

#include "cli/import.h"

#include "base/text.h"
#include "cli/convert.h"
#include "cli/human.h"
#include "cli/json.h"
#include "os/replace_linux.h"
#include "proto/json_in.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOLD_MAX = 10 };

/* ---- the batch ---- */

static void begin_row(struct tr_import *im, uint64_t place, bool dead)
{
    im->places[im->count] = place;
    im->dead[im->count] = dead;
    tr_json_init(&im->j, &im->bytes);
    tr_json_open(&im->j, '{');
}

static void end_row(struct tr_import *im)
{
    tr_json_close(&im->j, '}');
    tr_output_add(&im->bytes, "\n", 1);
    im->count++;
}

static void text(struct tr_json *j, const char *name, const char *value)
{
    tr_json_name(j, name);
    tr_json_text(j, value);
}

void tr_import_add(struct tr_import *im, const struct tr_import_job *job)
{
    struct tr_json *j = &im->j;
    char span[32];

    begin_row(im, job->place, job->dead);
    text(j, "topic", job->topic);
    if (job->key != NULL) {
        text(j, "key", job->key);
    }
    if (job->dead) {
        text(j, "delay", tr_import_later);
    } else if (job->due_ms != 0) {
        tr_json_name(j, "at");
        tr_json_number(j, job->due_ms);
    } else if (job->delay_ms != 0) {
        tr_text(span, sizeof span, "%" PRIu64 "ms", job->delay_ms);
        text(j, "delay", span);
    }
    if (job->has_priority) {
        tr_json_name(j, "priority");
        tr_json_number(j, job->priority);
    }
    if (job->ttr_ms != 0) {
        tr_text(span, sizeof span, "%" PRIu64 "ms", job->ttr_ms);
        text(j, "ttr", span);
    }
    if (job->endless) {
        tr_json_name(j, "retries");
        tr_json_signed(j, -1);
        text(j, "backoff", "0s");
    }
    tr_json_body(j, (const uint8_t *)job->body, job->len);
    end_row(im);
}

/* Adds what a line of `tarry export` has to the batch. False: it is a dead job, which may not be
 * buried; stderr says why. */
static bool import_line(struct tr_import *im, const struct tr_json_value *line, uint64_t place)
{
    static const char *const dead_names[] = {"topic", "key",         "tag",     "priority",
                                             "ttr",   "ttl",         "retries", "backoff",
                                             "body",  "body_base64", NULL};
    struct tr_json_value v;
    bool dead = tr_cli_member(line, "state", &v) && tr_json_says(&v, "dead");

    if (dead && !tr_import_takes_dead(im)) {
        bool skips = tr_cli_given(im->cli, "--skip-dead");

        im->not_buried += skips; /* else it is tried again by the next run */
        return skips;
    }
    begin_row(im, place, dead);
    tr_convert(&im->j, line, dead ? dead_names : tr_convert_job);
    if (dead) {
        text(&im->j, "delay", tr_import_later);
    }
    if (tr_cli_member(line, "key", &v)) {
        text(&im->j, "on_conflict", im->conflict);
    }
    end_row(im);
    return true;
}

bool tr_import_full(const struct tr_import *im)
{
    return im->count == TR_IMPORT_BATCH || tr_output_len(&im->bytes) >= TR_IMPORT_BYTES;
}

/* ---- taking back ---- */

void tr_import_undo(struct tr_import *im, uint64_t id)
{
    struct tr_cli_answer a;
    char target[64];

    tr_text(target, sizeof target, "/v1/jobs/%" PRIu64 "?force=true", id);
    if (tr_cli_ask(&im->cli->server, "DELETE", target, &a) != TR_CLI_FINE) {
        fprintf(stderr, "tarry: job %" PRIu64 " was to be taken back, and is there still.\n", id);
        im->how = TR_CLI_FAILED;
    }
    tr_cli_answer_fini(&a);
}

/* ---- pushing ---- */

static void tell_refusal(struct tr_import *im, const struct tr_json_value *result, uint64_t place)
{
    struct tr_json_value error;
    char message[512];

    im->refused++;
    if (im->refused > TOLD_MAX || !tr_cli_member(result, "error", &error)) {
        return;
    }
    tr_bar_end(&im->bar);
    fprintf(stderr, "tarry: %" PRIu64 ": refused: %s.%s\n", place,
            tr_cli_string(&error, "message", message, sizeof message),
            im->refused == TOLD_MAX ? " Others are only counted from here on." : "");
}

static int take_results(struct tr_import *im, const struct tr_cli_answer *a)
{
    struct tr_json_value v;
    struct tr_json_value result;
    struct tr_json_walk walk;
    unsigned i = 0;
    char id[32];

    if (!tr_cli_read(a, &v) || !tr_cli_member(&v, "results", &v) || v.kind != TR_JSON_ARRAY_KIND) {
        return TR_CLI_FAILED;
    }
    tr_json_walk_init(&walk, &v);
    for (; i < im->count && tr_json_walk_element(&walk, &result); i++) {
        struct tr_json_value created;
        bool old =
            tr_cli_member(&result, "created", &created) && created.kind == TR_JSON_FALSE_KIND;

        im->ids[i] = strtoull(tr_cli_string(&result, "id", id, sizeof id), NULL, 10);
        im->fresh[i] = !old;
        /* one that is there is left as it is, unless we made it so, now or before we were cut off
         */
        im->dead[i] = im->dead[i] && (!old || tr_import_waits_for_burial(&result));
        im->pushed += im->ids[i] != 0 && !old;
        im->kept += im->ids[i] != 0 && old;
        if (im->ids[i] == 0) {
            tell_refusal(im, &result, im->places[i]);
        }
    }
    return i == im->count ? TR_CLI_FINE : TR_CLI_FAILED;
}

int tr_import_flush(struct tr_import *im)
{
    struct tr_cli_request r = {
        .method = "POST", .target = "/v1/jobs", .type = "application/x-ndjson"};
    struct tr_cli_answer a = {0};
    const uint8_t *bytes = NULL;
    unsigned count = im->count;
    int how = TR_CLI_FINE;

    r.len = tr_output_ready(&im->bytes, UINT64_MAX, &bytes);
    r.body = bytes;
    if (im->bytes.broken) {
        fputs("tarry: there is no memory left.\n", stderr);
        return TR_CLI_FAILED;
    }
    if (count > 0 && !im->dry) {
        how = tr_cli_send(&im->cli->server, &r, &a);
        how = how == TR_CLI_FINE ? tr_cli_judge(&a) : how;
        how = how == TR_CLI_FINE ? take_results(im, &a) : TR_CLI_FAILED;
    } else if (count > 0) {
        im->pushed += count;
        memset(im->ids, 0, count * sizeof im->ids[0]);
    }
    tr_cli_answer_fini(&a);
    tr_output_drop(&im->bytes, r.len);
    im->count = 0;
    if (how == TR_CLI_FINE && !im->dry) {
        tr_import_bury(im, count);
    }
    return how;
}

/* ---- policies and schedules ---- */

/* Sends what stands in the batch's bytes, which has no job. What the server does not want is told
 * and counted: the next line may be fine. */
static int send_other(struct tr_import *im, const char *method, const char *target, uint64_t place)
{
    struct tr_cli_request r = {.method = method, .target = target, .type = "application/json"};
    struct tr_cli_answer a = {0};
    struct tr_json_value v;
    const uint8_t *bytes = NULL;
    int how = TR_CLI_FINE;

    r.len = tr_output_ready(&im->bytes, UINT64_MAX, &bytes);
    r.body = bytes;
    if (!im->dry) {
        how = tr_cli_send(&im->cli->server, &r, &a);
    }
    if (how == TR_CLI_FINE && a.status >= 400 && a.status < 500 && a.status != 401 &&
        a.status != 403 && a.status != 429 && tr_cli_read(&a, &v)) {
        tell_refusal(im, &v, place);
    } else if (how == TR_CLI_FINE && !im->dry) {
        how = tr_cli_judge(&a);
    }
    tr_cli_answer_fini(&a);
    tr_output_drop(&im->bytes, r.len);
    return how;
}

/* Fields that the line does not have stay as they are: an outlet, a pause, a limit of the topic
 * that is there is not taken away. */
static int import_policy(struct tr_import *im, const struct tr_json_value *policy,
                         const char *topic, uint64_t place)
{
    struct tr_cli_target t = {0};
    int how;

    tr_json_init(&im->j, &im->bytes);
    tr_json_open(&im->j, '{');
    tr_convert(&im->j, policy, tr_convert_policy);
    tr_convert_paused(&im->j, policy);
    if (!tr_convert_deliver(&im->j, policy)) {
        tr_bar_end(&im->bar);
        fprintf(stderr,
                "tarry: %" PRIu64 ": the outlet of %s has secrets, which are told to nobody: set "
                "its deliver by hand.\n",
                place, topic);
        im->outlets_left++;
    }
    tr_json_close(&im->j, '}');
    tr_cli_target_add(&t, "/v1/topics");
    tr_cli_target_part(&t, topic);
    how = send_other(im, "PATCH", t.text, place);
    tr_cli_target_fini(&t);
    return how;
}

static int import_schedule(struct tr_import *im, const struct tr_json_value *schedule,
                           const char *name, uint64_t place)
{
    uint64_t refused = im->refused;
    struct tr_cli_target t = {0};
    struct tr_cli_answer a = {0};
    int how;

    tr_json_init(&im->j, &im->bytes);
    tr_json_open(&im->j, '{');
    tr_convert(&im->j, schedule, tr_convert_schedule);
    tr_json_close(&im->j, '}');
    tr_cli_target_add(&t, "/v1/schedules");
    tr_cli_target_part(&t, name);
    how = send_other(im, "PUT", t.text, place);
    if (how == TR_CLI_FINE && im->refused == refused && tr_cli_is_true(schedule, "paused") &&
        !im->dry) {
        tr_cli_target_add(&t, "/pause");
        how = tr_cli_ask(&im->cli->server, "POST", t.text, &a);
        tr_cli_answer_fini(&a);
    }
    tr_cli_target_fini(&t);
    return how;
}

/* {"topic":…,"policy":{…}} or {"schedule":{"name":…}}; the batch is empty. */
static int import_other(struct tr_import *im, const struct tr_json_value *line,
                        const struct tr_json_value *v, uint64_t place)
{
    struct tr_json_value policy;
    bool is_policy = tr_cli_member(line, "policy", &policy) && policy.text == v->text;
    uint64_t refused = im->refused;
    size_t len;
    char *name = is_policy ? tr_cli_bytes(line, "topic", &len) : tr_cli_bytes(v, "name", &len);
    int how = TR_CLI_FINE;

    if (name == NULL) {
        tr_bar_end(&im->bar);
        fprintf(stderr, "tarry: %" PRIu64 ": refused: it has no name.\n", place);
        im->refused++;
    } else {
        how = is_policy ? import_policy(im, v, name, place) : import_schedule(im, v, name, place);
    }
    if (how == TR_CLI_FINE && im->refused == refused) {
        im->policies += is_policy;
        im->schedules += !is_policy;
    }
    free(name);
    return how == TR_CLI_FINE ? TR_CLI_FINE : TR_CLI_FAILED;
}

/* ---- a file ---- */

struct lines {
    FILE *in;
    char *line;
    size_t room;
    uint64_t number;
    uint64_t done; /* lines before this one were done by an earlier run */
    uint64_t read_bytes;
    uint64_t all_bytes;
};

static bool is_json(const char *line, size_t len)
{
    struct tr_json_in in;
    size_t taken;

    tr_json_in_init(&in, TR_JSON_VALUE);
    for (size_t at = 0; at < len; at += taken) {
        if (tr_json_in_feed(&in, line + at, len - at, &taken) == TR_JSON_BAD) {
            return false;
        }
    }
    return tr_json_in_end(&in) != TR_JSON_BAD;
}

/* How much was left out that was to come, by this run and earlier ones. */
static uint64_t lacks(const struct tr_import *im)
{
    return im->lacked + im->refused + im->outlets_left +
           (tr_cli_given(im->cli, "--skip-dead") ? 0 : im->not_buried);
}

/* How far it has come is noted only when all up to there is safe. */
static int note(const struct tr_import *im, uint64_t number)
{
    const char *path = tr_cli_value(im->cli, "--state");
    char said[96];
    FILE *made;

    if (path == NULL || im->dry) {
        return TR_CLI_FINE;
    }
    made = fopen(path, "a"); /* only what is there can be replaced */
    if (made != NULL) {
        (void)fclose(made);
    }
    tr_text(said, sizeof said, "lines %" PRIu64 "\n", number);
    if (lacks(im) > 0) {
        tr_text(said + strlen(said), sizeof said - strlen(said), "missing %" PRIu64 "\n",
                lacks(im));
    }
    if (tr_replace_linux_write(path, said, strlen(said)) != 0) {
        fprintf(stderr, "tarry: %s cannot be written: %s\n", path, strerror(errno));
        return TR_CLI_FAILED;
    }
    return TR_CLI_FINE;
}

/* Policies and schedules come one at a time: what was pushed before goes first, and is noted, so
 * that it does not come again whatever becomes of them. */
static int take_other(struct tr_import *im, const struct tr_json_value *line,
                      const struct tr_json_value *v, uint64_t number)
{
    bool some = im->count > 0;
    int how = tr_import_flush(im);

    how = how == TR_CLI_FINE && some ? note(im, number - 1) : how;
    return how == TR_CLI_FINE ? import_other(im, line, v, number) : how;
}

static int take_line(struct tr_import *im, struct lines *l, size_t len)
{
    struct tr_json_value line;
    struct tr_json_value v;

    while (len > 0 && strchr("\r\n \t", l->line[len - 1]) != NULL) {
        len--;
    }
    if (len == 0) {
        return TR_CLI_FINE;
    }
    if (!is_json(l->line, len) || l->line[strspn(l->line, " \t")] != '{') {
        tr_bar_end(&im->bar);
        fprintf(stderr,
                "tarry: line %" PRIu64 " is no JSON object: the file was cut off, or is another. "
                "What stands before it was imported.\n",
                l->number);
        return TR_CLI_FAILED;
    }
    line = tr_json_value_of(l->line, len);
    if (tr_cli_member(&line, "policy", &v) && v.kind == TR_JSON_OBJECT_KIND) {
        return take_other(im, &line, &v, l->number);
    }
    if (tr_cli_member(&line, "schedule", &v) && v.kind == TR_JSON_OBJECT_KIND) {
        return take_other(im, &line, &v, l->number);
    }
    return import_line(im, &line, l->number) ? TR_CLI_FINE : TR_CLI_FAILED;
}

/* How many lines an earlier run has done. */
static int read_note(struct tr_import *im, struct lines *l)
{
    const char *path = tr_cli_value(im->cli, "--state");
    FILE *in = path != NULL ? fopen(path, "r") : NULL;
    int how = TR_CLI_FINE;

    if (in != NULL) {
        int read = fscanf(in, "lines %" SCNu64 " missing %" SCNu64, &l->done, &im->lacked);

        if (read < 1 && read != EOF) {
            fprintf(stderr, "tarry: %s is not what an import noted: take another file.\n", path);
            how = TR_CLI_USAGE;
        }
        (void)fclose(in);
    }
    return how;
}

static int flush_and_note(struct tr_import *im, const struct lines *l)
{
    int how = tr_import_flush(im);

    tr_bar_show(&im->bar, l->read_bytes, l->all_bytes);
    return how == TR_CLI_FINE ? note(im, l->number) : how;
}

/* It is through. If it lacks something it may be run again, and must not push all the others twice.
 */
static void end_notes(const struct tr_import *im)
{
    const char *path = tr_cli_value(im->cli, "--state");

    if (lacks(im) > 0) {
        fprintf(stderr,
                "tarry: %" PRIu64 " lines are missing. %s stays, so that no other comes twice: "
                "import them from a file of their own, without it.\n",
                lacks(im), path);
    } else {
        (void)unlink(path);
    }
}

static int from_lines(struct tr_import *im, struct lines *l)
{
    int how = read_note(im, l);
    ssize_t len;

    how = how == TR_CLI_FINE ? note(im, l->done) : how; /* what cannot be noted is not begun */
    tr_bar_begin(&im->bar, "importing");
    im->bar.on = im->bar.on && l->all_bytes > 0;
    while (how == TR_CLI_FINE && (len = getline(&l->line, &l->room, l->in)) >= 0) {
        l->number++;
        l->read_bytes += (uint64_t)len;
        if (l->number > l->done) {
            how = take_line(im, l, (size_t)len);
            l->number -= how != TR_CLI_FINE; /* this one was not done */
        }
        if (how == TR_CLI_FINE && tr_import_full(im)) {
            how = flush_and_note(im, l);
        }
    }
    if (how == TR_CLI_FINE || im->count > 0) {
        int last = flush_and_note(im, l);

        how = how == TR_CLI_FINE ? last : how;
    }
    tr_bar_end(&im->bar);
    if (how == TR_CLI_FINE && tr_cli_given(im->cli, "--state") && !im->dry) {
        end_notes(im);
    }
    free(l->line);
    return how;
}

static int from_file(struct tr_import *im, const char *path)
{
    struct lines l = {.in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r")};
    struct stat is;
    int how;

    if (l.in == NULL) {
        fprintf(stderr, "tarry: %s cannot be read: %s\n", path, strerror(errno));
        return TR_CLI_FAILED;
    }
    if (fstat(fileno(l.in), &is) == 0 && S_ISREG(is.st_mode)) {
        l.all_bytes = (uint64_t)is.st_size;
    }
    how = from_lines(im, &l);
    if (l.in != stdin) {
        (void)fclose(l.in);
    }
    return how;
}

/* ---- the command ---- */

static void tell(const struct tr_import *im)
{
    char text1[TR_HUMAN_TEXT];
    char text2[TR_HUMAN_TEXT];

    if (im->cli->json) {
        printf("{\"pushed\":%" PRIu64 ",\"kept\":%" PRIu64 ",\"refused\":%" PRIu64
               ",\"buried\":%" PRIu64 ",\"not_buried\":%" PRIu64 ",\"policies\":%" PRIu64
               ",\"schedules\":%" PRIu64 ",\"dry_run\":%s}\n",
               im->pushed, im->kept, im->refused, im->buried, im->not_buried, im->policies,
               im->schedules, im->dry ? "true" : "false");
        return;
    }
    printf("%s %s", tr_human_job_count(im->pushed, text1),
           im->dry ? "would be imported" : "imported");
    if (im->buried > 0) {
        printf(", %s of them dead", tr_human_count(im->buried, text1));
    }
    if (im->kept > 0) {
        printf(", %s %s there already", tr_human_count(im->kept, text1),
               im->kept == 1 ? "was" : "were");
    }
    if (im->refused > 0) {
        printf(", %s %s refused", tr_human_count(im->refused, text1),
               im->refused == 1 ? "was" : "were");
    }
    if (im->not_buried > 0) {
        printf(", %s dead ones were left out", tr_human_count(im->not_buried, text1));
    }
    if (im->policies + im->schedules > 0) {
        printf(", policies: %s, schedules: %s", tr_human_count(im->policies, text1),
               tr_human_count(im->schedules, text2));
    }
    puts(".");
}

static int choose(struct tr_import *im)
{
    const char *from = tr_cli_value(im->cli, "--from");

    if (from == NULL) {
        return from_file(im, im->cli->count > 0 ? im->cli->args[0] : "-");
    }
    if (im->cli->count > 0 || tr_cli_given(im->cli, "--state")) {
        return tr_cli_usage("import", "--from goes without a file and --state.");
    }
    if (strncmp(from, "beanstalkd://", 13) == 0) {
        return tr_import_from_beanstalkd(im, from);
    }
    if (strncmp(from, "redis-zset://", 13) == 0) {
        return tr_import_from_redis(im, from);
    }
    return tr_cli_usage("import",
                        "--from takes beanstalkd://HOST:PORT or redis-zset://HOST:PORT/KEY, not "
                        "\"%s\".",
                        from);
}

static int import(struct tr_cli *c)
{
    struct tr_import *im = tr_cli_memory(NULL, sizeof *im);
    int how;

    *im = (struct tr_import){
        .cli = c,
        .dry = tr_cli_given(c, "--dry-run"),
        .conflict = tr_cli_given(c, "--on-conflict") ? tr_cli_value(c, "--on-conflict") : "keep"};
    tr_mem_init(&im->mem, 0);
    tr_output_init(&im->bytes, &im->mem);
    how = choose(im);
    if (how != TR_CLI_USAGE) {
        tell(im);
    }
    if (how == TR_CLI_FINE && lacks(im) > 0) {
        how = TR_CLI_FAILED;
    }
    how = how == TR_CLI_FINE ? im->how : how;
    tr_output_fini(&im->bytes);
    free(im);
    return how;
}

const struct tr_cli_command tr_cli_command_import = {
    .name = "import",
    .group = TR_CLI_STORES,
    .about = "take in what export printed, or another queue",
    .usage = "[FILE] [FLAGS]\n"
             "--from beanstalkd://HOST:PORT [FLAGS]\n"
             "--from redis-zset://HOST:PORT/KEY --topic TOPIC [FLAGS]",
    .text = "Pushes all jobs of a file that `tarry export` wrote (or of stdin), and sets its\n"
            "policies and schedules. Due times stay; jobs get new IDs; what a policy does not\n"
            "name stays as it is there. What is refused is told, and the rest goes on.\n"
            "\n"
            "From a beanstalkd: takes all ready, delayed (what is left of their delay) and buried\n"
            "jobs of all its tubes, and deletes there what is safe here. From Redis: takes the\n"
            "members of a sorted set, whose scores are due times in seconds or milliseconds.\n",
    .options = {{.name = "--from", .value = "URL", .about = "take it from another queue"},
                {.name = "--dry-run", .about = "only count; nothing is changed anywhere"},
                {.name = "--state",
                 .value = "FILE",
                 .about = "note there how far it has come; the same words go on from there"},
                {.name = "--on-conflict",
                 .value = "WHAT",
                 .about = "if there is that key: keep (default), replace or error"},
                {.name = "--topic", .value = "TOPIC", .about = "Redis: the topic; default: KEY"},
                {.name = "--hash",
                 .value = "KEY",
                 .about = "Redis: members are keys, and fields of this hash with the bodies"},
                {.name = "--keep", .about = "leave everything in the other queue, too"},
                {.name = "--skip-dead", .about = "leave dead jobs out"}},
    .examples = "tarry export --server http://old:11301 | tarry import\n"
                "tarry import --from beanstalkd://127.0.0.1:11300 --dry-run",
    .exits = "0 all is in; 1 it was cut short, or jobs were refused; 2 wrong usage",
    .args_max = 1,
    .run = import,
};
