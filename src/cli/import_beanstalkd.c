/*
 * From a beanstalkd that may be in use. Tube by tube:
 *
 *     ready     reserved, many at a time: pushed, then deleted. If this is cut short beanstalkd
 *               makes them ready again, which they were
 *     delayed,  one at a time: looked at, pushed, then deleted. They are never reserved: beanstalkd
 *     buried    would make them ready when the connection ends, which is too early
 *
 * The ready jobs of a paused tube cannot be reserved: they are taken one at a time, too. If a job
 * was taken by a consumer in between, the delete fails: then the job that was pushed is taken back.
 * Jobs that consumers have are theirs.
 *
 * Meanwhile delayed jobs become ready and producers put more, so a tube is gone through until
 * nothing is left, or nothing more can be had; what is left is told.
 */

#include "cli/human.h"
#include "cli/import.h"
#include "cli/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HELD = 500, PASSES = 20 };

struct source {
    struct tr_import *im;
    struct tr_wire wire;
    char *body;
    size_t room;
    uint64_t reserved; /* jobs that consumers have */
    uint64_t left;     /* others that are still there */
};

/* How many jobs a tube has. */
struct tube {
    uint64_t states[4]; /* ready, delayed, buried, reserved */
    bool paused;
};

/* What beanstalkd says of a job. */
struct facts {
    uint64_t id;
    size_t len;
    uint64_t priority;
    uint64_t left_s;
    uint64_t ttr_s;
};

/* The body that an answer announced, and its line end. */
static bool read_body(struct source *s, size_t len)
{
    if (len + 2 > s->room) {
        s->room = 2 * len + 4096;
        s->body = tr_cli_memory(s->body, s->room);
    }
    return tr_wire_bytes(&s->wire, s->body, len + 2);
}

/* Asks; what is answered must begin with this word and two numbers. False: it says something else,
 * or nothing any more (then the wire is broken). */
static bool ask_job(struct source *s, const char *command, const char *word, struct facts *f)
{
    char line[TR_WIRE_LINE];
    size_t len = strlen(word);

    return tr_wire_say(&s->wire, "%s\r\n", command) && tr_wire_line(&s->wire, line) &&
           strncmp(line, word, len) == 0 &&
           sscanf(line + len, "%" SCNu64 " %zu", &f->id, &f->len) == 2 && read_body(s, f->len);
}

/* The number behind `name: ` in a list of facts. */
static uint64_t number_of(const char *yaml, const char *name)
{
    const char *at = strstr(yaml, name);

    return at != NULL ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* A list of facts, to be freed; NULL: there is none. */
static char *ask_yaml(struct source *s, const char *command)
{
    char line[TR_WIRE_LINE];
    char *yaml;
    size_t len;

    if (!tr_wire_say(&s->wire, "%s\r\n", command) || !tr_wire_line(&s->wire, line) ||
        sscanf(line, "OK %zu", &len) != 1) {
        return NULL;
    }
    yaml = tr_cli_memory(NULL, len + 3);
    if (!tr_wire_bytes(&s->wire, yaml, len + 2)) {
        free(yaml);
        return NULL;
    }
    yaml[len] = '\0';
    return yaml;
}

/* Priority, ttr and what is left of the delay. False: it is gone. */
static bool ask_facts(struct source *s, struct facts *f)
{
    char command[64];
    char *yaml;

    (void)snprintf(command, sizeof command, "stats-job %" PRIu64, f->id);
    yaml = ask_yaml(s, command);
    if (yaml == NULL) {
        return false;
    }
    f->priority = number_of(yaml, "\npri: ");
    f->left_s = number_of(yaml, "\ntime-left: ");
    f->ttr_s = number_of(yaml, "\nttr: ");
    free(yaml);
    return true;
}

/* 1: it is gone there; 0: somebody else has it; -1: the connection broke. */
static int delete_job(struct source *s, uint64_t id)
{
    char line[TR_WIRE_LINE];

    if (!tr_wire_say(&s->wire, "delete %" PRIu64 "\r\n", id) || !tr_wire_line(&s->wire, line)) {
        return -1;
    }
    return strcmp(line, "DELETED") == 0;
}

static void add(struct source *s, const char *tube, const struct facts *f, bool delayed, bool dead)
{
    struct tr_import_job job = {.topic = tube,
                                .body = s->body,
                                .len = f->len,
                                /* it counts whole seconds, rounded down: never early */
                                .delay_ms = delayed ? (f->left_s + 1) * 1000 : 0,
                                .priority = f->priority,
                                .has_priority = true,
                                .endless = true,
                                .ttr_ms = f->ttr_s * 1000,
                                .dead = dead,
                                .place = f->id};

    tr_import_add(s->im, &job);
}

/* ---- ready ---- */

static void take_back(struct source *s, uint64_t id)
{
    tr_import_undo(s->im, id);
    s->im->pushed--;
}

/* Those that were pushed are deleted, the others given back. */
static int settle(struct source *s, const struct facts *held, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char line[TR_WIRE_LINE];

        if (s->im->ids[i] != 0) {
            int gone = delete_job(s, held[i].id);

            if (gone < 0) {
                return TR_CLI_FAILED;
            }
            if (gone == 0) { /* its time ran out while we held it, and another has it */
                take_back(s, s->im->ids[i]);
            }
        } else if (!tr_wire_say(&s->wire, "release %" PRIu64 " %" PRIu64 " 0\r\n", held[i].id,
                                held[i].priority) ||
                   !tr_wire_line(&s->wire, line)) {
            return TR_CLI_FAILED;
        }
    }
    return TR_CLI_FINE;
}

static int ready(struct source *s, const char *tube)
{
    struct facts *held = tr_cli_memory(NULL, HELD * sizeof *held);
    int how = TR_CLI_FINE;
    unsigned count;

    do {
        uint64_t refused = s->im->refused;

        for (count = 0; count < HELD && !tr_import_full(s->im); count++) {
            struct facts *f = &held[count];
            char *body;
            bool known;

            if (!ask_job(s, "reserve-with-timeout 0", "RESERVED ", f)) {
                break;
            }
            body = s->body; /* the facts take the buffer */
            s->body = NULL;
            s->room = 0;
            known = ask_facts(s, f);
            free(s->body);
            s->body = body;
            s->room = f->len + 2;
            if (!known) {
                break;
            }
            add(s, tube, f, false, false);
        }
        how = s->wire.broken ? TR_CLI_FAILED : tr_import_flush(s->im);
        how = how == TR_CLI_FINE ? settle(s, held, count) : how;
        if (s->im->refused > refused) { /* they are ready again, and would come for ever */
            break;
        }
    } while (how == TR_CLI_FINE && count > 0);
    free(held);
    return how;
}

/* ---- one at a time ---- */

static int one_by_one(struct source *s, const char *tube, const char *command)
{
    bool dead = strcmp(command, "peek-buried") == 0;
    bool delayed = strcmp(command, "peek-delayed") == 0;
    struct facts f;

    if (dead && !tr_import_takes_dead(s->im)) {
        return TR_CLI_FINE; /* they stay, and are told with what is left */
    }
    while (ask_job(s, command, "FOUND ", &f)) {
        uint64_t undone = s->im->not_buried + s->im->refused;
        char *body = s->body;
        int how;
        int gone;
        bool known;

        s->body = NULL;
        s->room = 0;
        known = ask_facts(s, &f);
        free(s->body);
        s->body = body;
        s->room = f.len + 2;
        if (!known) {
            continue; /* it went meanwhile */
        }
        add(s, tube, &f, delayed, dead);
        how = tr_import_flush(s->im);
        if (how != TR_CLI_FINE) {
            return how;
        }
        if (s->im->not_buried + s->im->refused > undone) {
            break; /* the same one would come again */
        }
        gone = delete_job(s, f.id);
        if (gone == 0) {
            take_back(s, s->im->ids[0]);
        }
        if (gone < 0) {
            break;
        }
    }
    return s->wire.broken ? TR_CLI_FAILED : TR_CLI_FINE;
}

/* ---- tubes ---- */

static bool expect(struct source *s, const char *word, const char *tube, const char *answer)
{
    char line[TR_WIRE_LINE];

    return tr_wire_say(&s->wire, "%s %s\r\n", word, tube) && tr_wire_line(&s->wire, line) &&
           strncmp(line, answer, strlen(answer)) == 0;
}

/* Counts the jobs of a tube; all 0: there is none any more. */
static int count_tube(struct source *s, const char *name, struct tube *is)
{
    static const char *const names[] = {"\ncurrent-jobs-ready: ", "\ncurrent-jobs-delayed: ",
                                        "\ncurrent-jobs-buried: ", "\ncurrent-jobs-reserved: "};
    char command[300];
    char *yaml;

    *is = (struct tube){0};
    (void)snprintf(command, sizeof command, "stats-tube %s", name);
    yaml = ask_yaml(s, command);
    if (yaml == NULL) {
        return s->wire.broken ? TR_CLI_FAILED : TR_CLI_FINE;
    }
    for (unsigned i = 0; i < 4; i++) {
        is->states[i] = number_of(yaml, names[i]);
    }
    is->paused = number_of(yaml, "\npause-time-left: ") > 0;
    free(yaml);
    return TR_CLI_FINE;
}

static uint64_t movable(const struct tube *is)
{
    return is->states[0] + is->states[1] + is->states[2];
}

static int tell_tube(struct source *s, const char *name, struct tr_table *t)
{
    char text[TR_HUMAN_TEXT];
    struct tube is;
    int how = count_tube(s, name, &is);

    s->im->pushed += movable(&is);
    s->reserved += is.states[3];
    if (t != NULL) {
        tr_table_cell(t, TR_PLAIN, "%s", name);
        for (unsigned i = 0; i < 4; i++) {
            tr_table_cell(t, TR_PLAIN, "%s", tr_human_count(is.states[i], text));
        }
    }
    return how;
}

static int pass(struct source *s, const char *tube, const struct tube *is)
{
    int how = is->paused ? one_by_one(s, tube, "peek-ready") : ready(s, tube);

    how = how == TR_CLI_FINE ? one_by_one(s, tube, "peek-delayed") : how;
    return how == TR_CLI_FINE && is->states[2] > 0 ? one_by_one(s, tube, "peek-buried") : how;
}

static int drain_tube(struct source *s, const char *tube, char before[256])
{
    struct tube is = {0};
    int how = TR_CLI_FAILED;

    if (expect(s, "use", tube, "USING") && expect(s, "watch", tube, "WATCHING") &&
        (strcmp(before, tube) == 0 || expect(s, "ignore", before, "WATCHING"))) {
        (void)snprintf(before, 256, "%s", tube);
        how = count_tube(s, tube, &is);
    }
    for (unsigned i = 0; i < PASSES && how == TR_CLI_FINE && movable(&is) > 0; i++) {
        uint64_t pushed = s->im->pushed;

        how = pass(s, tube, &is);
        how = how == TR_CLI_FINE ? count_tube(s, tube, &is) : how;
        if (s->im->pushed == pushed) {
            break;
        }
    }
    if (tr_cli_given(s->im->cli, "--skip-dead")) {
        s->im->not_buried += is.states[2];
        is.states[2] = 0;
    }
    s->left += movable(&is);
    s->reserved += is.states[3];
    return how;
}

/* Each line of the list is `- name`. */
static int each_tube(struct source *s, char *tubes)
{
    static const struct tr_column columns[] = {
        {"TUBE", false}, {"READY", true}, {"DELAYED", true}, {"BURIED", true}, {"RESERVED", true}};
    char before[256] = "default";
    bool table = s->im->dry && !s->im->cli->json;
    struct tr_table t;
    char *rest = NULL;
    int how = TR_CLI_FINE;

    if (table) {
        tr_table_init(&t, columns, 5);
    }
    for (char *line = strtok_r(tubes, "\n", &rest); line != NULL && how == TR_CLI_FINE;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "- ", 2) != 0) {
            continue;
        }
        how = s->im->dry ? tell_tube(s, line + 2, table ? &t : NULL)
                         : drain_tube(s, line + 2, before);
    }
    if (table) {
        tr_table_end(&t);
    }
    return how;
}

int tr_import_from_beanstalkd(struct tr_import *im, const char *url)
{
    struct source s = {.im = im};
    struct tr_wire_address a = {.port = NULL};
    char *tubes;
    int how;

    if (!tr_wire_address(&a, url, "beanstalkd", "11300") || *a.path != '\0') {
        return tr_cli_usage("import", "\"%s\" is no beanstalkd://HOST:PORT.", url);
    }
    if (tr_cli_given(im->cli, "--keep")) {
        return tr_cli_usage("import", "--keep is for Redis: a beanstalkd is emptied.");
    }
    if (!tr_wire_open(&s.wire, a.host, a.port, "beanstalkd")) {
        return TR_CLI_FAILED;
    }
    tubes = ask_yaml(&s, "list-tubes");
    how = tubes != NULL ? each_tube(&s, tubes) : TR_CLI_FAILED;
    if (tubes == NULL && !s.wire.broken) {
        fputs("tarry: that is not what a beanstalkd would answer. Is it one?\n", stderr);
    }
    if (s.reserved > 0) {
        fprintf(stderr,
                "tarry: consumers have %" PRIu64 " jobs there, which are not taken. Stop them, and "
                "run it again.\n",
                s.reserved);
    }
    if (s.left > 0) {
        fprintf(stderr, "tarry: %" PRIu64 " jobs are left there. Run it again.\n", s.left);
        how = TR_CLI_FAILED;
    }
    free(tubes);
    free(s.body);
    tr_wire_close(&s.wire);
    return how;
}
