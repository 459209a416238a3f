/* Jobs, one or many: how they are named, asked for and told. */

#include "cli/job.h"

#include "base/text.h"
#include "cli/human.h"
#include "cli/json.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_id(const char *text)
{
    size_t len = strspn(text, "0123456789");

    return len > 0 && text[len] == '\0';
}

int tr_cli_job_target(const struct tr_cli *c, struct tr_cli_target *t)
{
    const char *name = c->command->name;
    const char *topic = tr_cli_value(c, "--topic");
    const char *key = tr_cli_value(c, "--key");

    if (c->count == 2 && topic == NULL && key == NULL) {
        topic = c->args[0];
        key = c->args[1];
    } else if (c->count == 1 && topic == NULL && key != NULL) { /* TOPIC --key KEY */
        topic = c->args[0];
    } else if (c->count == 1 && topic == NULL && key == NULL) {
        if (!is_id(c->args[0])) {
            return tr_cli_usage(name, "\"%s\" is no number of a job. By key: tarry %s TOPIC KEY",
                                c->args[0], name);
        }
        tr_cli_target_add(t, "/v1/jobs");
        tr_cli_target_part(t, c->args[0]);
        return TR_CLI_FINE;
    } else if (c->count > 0 || topic == NULL || key == NULL) {
        return tr_cli_usage(name, "%s needs a job: its ID, or TOPIC and KEY.", name);
    }
    if (*topic == '\0' || *key == '\0') {
        return tr_cli_usage(name, "the topic or the key is empty.");
    }
    tr_cli_target_add(t, "/v1/topics");
    tr_cli_target_part(t, topic);
    tr_cli_target_add(t, "/keys");
    tr_cli_target_part(t, key);
    return TR_CLI_FINE;
}

int tr_cli_job_send(struct tr_cli *c, const struct tr_cli_request *r)
{
    struct tr_cli_answer a;
    struct tr_json_value v;
    int how = tr_cli_send(&c->server, r, &a);

    how = how == TR_CLI_FINE ? tr_cli_judge(&a) : how;
    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE) {
        how = tr_cli_read(&a, &v) ? TR_CLI_FINE : TR_CLI_FAILED;
        if (how == TR_CLI_FINE) {
            tr_human_one_job(c, &v);
        }
    }
    tr_cli_answer_fini(&a);
    return how;
}

int tr_cli_job_do(struct tr_cli *c, const char *method, const char *verb)
{
    struct tr_cli_target t = {0};
    struct tr_cli_request r = {.method = method};
    int how = tr_cli_job_target(c, &t);

    if (how == TR_CLI_FINE) {
        tr_cli_target_add(&t, verb);
        tr_cli_query(c, &t);
        r.target = t.text;
        how = tr_cli_job_send(c, &r);
    }
    tr_cli_target_fini(&t);
    return how;
}

/* ---- options as JSON ---- */

static bool is_number(const char *name, const char *value)
{
    static const char *const names[] = {"--priority", "--retries", "--limit"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return is_id(value + (*value == '-'));
        }
    }
    return strcmp(value, "null") == 0 && /* takes a ttl or a tag away */
           (strcmp(name, "--ttl") == 0 || strcmp(name, "--tag") == 0);
}

char *tr_cli_object(const struct tr_cli *c, const char *more)
{
    const struct tr_cli_option *options = c->command->options;
    struct tr_cli_target t = {0};

    for (unsigned i = 0; options[i].name != NULL; i++) {
        const char *value = c->values[i];
        char name[32];
        char *quoted;

        if (!options[i].sent || value == NULL) {
            continue;
        }
        tr_text(name, sizeof name, "%s\"%s\":", t.len > 0 ? "," : "{", options[i].name + 2);
        for (char *at = name; *at != '\0'; at++) {
            *at = (char)(*at == '-' ? '_' : *at);
        }
        tr_cli_target_add(&t, name);
        quoted = is_number(options[i].name, value) ? NULL : tr_cli_quote(value);
        tr_cli_target_add(&t, quoted != NULL ? quoted : value);
        free(quoted);
    }
    if (more != NULL) {
        tr_cli_target_add(&t, t.len > 0 ? "," : "{");
        tr_cli_target_add(&t, more);
    }
    tr_cli_target_add(&t, t.len > 0 ? "}" : "{}");
    return t.text;
}

/* ---- many ---- */

static const char *const filters[] = {"--topic", "--state", "--tag", "--due-from", "--due-to"};

enum { FILTERS = sizeof filters / sizeof filters[0] };

bool tr_cli_is_bulk(const struct tr_cli *c)
{
    for (size_t i = 0; i < FILTERS; i++) {
        if (tr_cli_given(c, filters[i])) {
            return c->count == 0 && !tr_cli_given(c, "--key");
        }
    }
    return false;
}

struct sums {
    uint64_t matched;
    uint64_t done;
    uint64_t would; /* what would be done: of those that match some may be in another state */
    bool more;
    char cursor[256];
};

/* One call: as many as the server takes at once. The target is used up. */
static int some(struct tr_cli *c, struct tr_cli_target *t, struct sums *s)
{
    struct tr_cli_answer a;
    struct tr_json_value v;
    int how;

    tr_cli_query(c, t);
    if (tr_cli_given(c, "--topic")) {
        tr_cli_target_arg(t, "topic", tr_cli_value(c, "--topic"));
    }
    if (s->cursor[0] != '\0') {
        tr_cli_target_arg(t, "cursor", s->cursor);
    }
    how = tr_cli_ask(&c->server, "POST", t->text, &a);
    if (how == TR_CLI_FINE && !tr_cli_read(&a, &v)) {
        how = TR_CLI_FAILED;
    }
    if (how == TR_CLI_FINE) {
        s->matched += tr_cli_number_or(&v, "matched", 0);
        s->done += tr_cli_number_or(&v, "done", 0);
        s->more = tr_cli_is_true(&v, "more");
        (void)tr_cli_string(&v, "cursor", s->cursor, sizeof s->cursor);
    }
    tr_cli_answer_fini(&a);
    tr_cli_target_fini(t);
    return how;
}

/* How many in one state match. */
static int count_state(struct tr_cli *c, const struct tr_cli_bulk *b, const char *state,
                       struct sums *s)
{
    const char *given = tr_cli_value(c, "--state");
    struct tr_cli_target t = {0};
    struct sums one = {0};
    int how;

    if (given != NULL && strcmp(given, state) != 0) {
        return TR_CLI_FINE;
    }
    tr_cli_target_add(&t, b->target);
    if (given == NULL) {
        tr_cli_target_arg(&t, "state", state);
    }
    if (!tr_cli_given(c, "--dry-run")) {
        tr_cli_target_arg(&t, "dry_run", "true");
    }
    how = some(c, &t, &one);
    s->would += one.matched;
    s->more |= one.more;
    return how;
}

/* Asks the server how many would be done, and changes nothing. */
static int count_all(struct tr_cli *c, const struct tr_cli_bulk *b, struct sums *s)
{
    uint64_t most = UINT64_MAX;
    int how = tr_cli_read_number(c, "--limit", UINT64_MAX, &most);

    for (const char *const *state = b->states; *state != NULL && how == TR_CLI_FINE; state++) {
        how = count_state(c, b, *state, s);
    }
    s->would = s->would < most ? s->would : most;
    return how;
}

static int dry_run(struct tr_cli *c, const struct tr_cli_bulk *b)
{
    struct tr_cli_target t = {0};
    struct sums s = {0};
    char count[TR_HUMAN_TEXT];
    int how;

    tr_cli_target_add(&t, b->target);
    how = some(c, &t, &s);
    how = how == TR_CLI_FINE ? count_all(c, b, &s) : how;
    if (how != TR_CLI_FINE) {
        return how;
    }
    if (c->json) {
        printf("{\"matched\":%" PRIu64 ",\"done\":0,\"would\":%" PRIu64 ",\"more\":%s}\n",
               s.matched, s.would, s.more ? "true" : "false");
    } else {
        printf("%s%s would be %s.\n", tr_human_count(s.would, count), s.more ? " or more" : "",
               b->done);
    }
    return TR_CLI_FINE;
}

/* Whoever is asked hears how many, and which. */
static int ask_first(struct tr_cli *c, const struct tr_cli_bulk *b)
{
    struct tr_cli_target which = {0};
    struct sums s = {0};
    char count[TR_HUMAN_TEXT];
    int how = count_all(c, b, &s);

    for (size_t i = 0; i < FILTERS; i++) {
        if (tr_cli_given(c, filters[i])) {
            tr_cli_target_add(&which, " ");
            tr_cli_target_add(&which, filters[i]);
            tr_cli_target_add(&which, " ");
            tr_cli_target_add(&which, tr_cli_value(c, filters[i]));
        }
    }
    if (how == TR_CLI_FINE &&
        !tr_cli_sure(c, "%s%s jobs would be %s:%s. Go on?", tr_human_count(s.would, count),
                     s.more ? " or more" : "", b->done, which.text)) {
        how = TR_CLI_FAILED;
    }
    tr_cli_target_fini(&which);
    return how;
}

/* As many calls as it takes. */
static int do_all(struct tr_cli *c, const struct tr_cli_bulk *b, struct sums *s)
{
    int how;

    do {
        struct tr_cli_target t = {0};
        uint64_t before = s->done;

        tr_cli_target_add(&t, b->target);
        how = some(c, &t, s);
        if (s->done == before) { /* what is left cannot be done: it is reserved */
            break;
        }
    } while (how == TR_CLI_FINE && s->more && !tr_cli_given(c, "--limit"));
    if (how != TR_CLI_FINE && s->done > 0) {
        fprintf(stderr, "tarry: %" PRIu64 " were %s before.\n", s->done, b->done);
    }
    return how;
}

int tr_cli_bulk(struct tr_cli *c, const struct tr_cli_bulk *b)
{
    struct sums s = {0};
    char matched[TR_HUMAN_TEXT];
    char count[TR_HUMAN_TEXT];
    int how;

    if (tr_cli_given(c, "--dry-run")) {
        return dry_run(c, b);
    }
    how = tr_cli_asks(c) ? ask_first(c, b) : TR_CLI_FINE;
    how = how == TR_CLI_FINE ? do_all(c, b, &s) : how;
    if (how != TR_CLI_FINE) {
        return how;
    }
    if (c->json) {
        printf("{\"matched\":%" PRIu64 ",\"done\":%" PRIu64 ",\"more\":%s}\n", s.matched, s.done,
               s.more ? "true" : "false");
    } else {
        printf("%s matched, %s %s.%s\n", tr_human_count(s.matched, matched),
               tr_human_count(s.done, count), b->done,
               s.more ? " There are more: run it again." : "");
    }
    return TR_CLI_FINE;
}
