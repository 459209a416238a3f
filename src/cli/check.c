/*
 * tarry check: is this store whole? And with --repair, make it so.
 *
 *     look      open it read-only, read everything (engine/verify.c), list what is wrong
 *     repair    look; copy damaged bytes and the list to quarantine/ in the store; write what is
 *               left as a good store (engine/repair.c); look again
 */

#include "base/err.h"
#include "base/text.h"
#include "cli/bar.h"
#include "cli/cli.h"
#include "cli/quarantine.h"
#include "cli/report.h"
#include "cli/store.h"
#include "engine/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: tarry check [--json] [--repair] DIR\n"
    "\n"
    "Reads the whole store in DIR and checks that its parts agree. Nothing is\n"
    "written, unless --repair says so. No server may have the store open.\n"
    "\n"
    "  --json     one JSON object on stdout instead of lines\n"
    "  --repair   if it is damaged: save what can be saved. Damaged bytes and the\n"
    "             list go to DIR/quarantine first. It says what is lost, and what\n"
    "             may come twice. Killed half-way it has changed nothing, and can\n"
    "             be run again. It needs space for a copy of the log's jobs and of\n"
    "             damaged run files.\n"
    "  --help     print this\n"
    "\n"
    "examples:\n"
    "  tarry check /var/lib/tarry\n"
    "  tarry check --repair /var/lib/tarry && tarry serve --data /var/lib/tarry\n"
    "\n"
    "exit codes: 0 fine, or repaired; 1 it could not be read or written; 2 wrong\n"
    "            usage; 3 it is damaged\n";

struct check {
    const char *dir;
    bool json;
    bool repair;
    struct tr_report report;
    struct tr_verify_sum sum;
    struct tr_quarantine *quarantine; /* takes what is found, too; or NULL */
    struct tr_bar bar;
    bool salvaged;
};

static void found(void *ctx, const struct tr_finding *f)
{
    struct check *c = ctx;

    tr_bar_end(&c->bar);
    tr_report_found(&c->report, f);
    if (c->quarantine != NULL) {
        tr_quarantine_add(c->quarantine, f);
    }
}

static void progress(void *ctx, uint64_t done, uint64_t all)
{
    struct check *c = ctx;

    tr_bar_show(&c->bar, done, all);
}

/* Opens it, reads all of it, closes it. */
static int look(struct check *c)
{
    struct tr_cli_store store = {.ctx = c, .found = found};
    struct tr_verify_calls calls = {.ctx = c, .found = found, .progress = progress};
    int err;

    tr_bar_begin(&c->bar, "reading");
    err = tr_cli_store_look(&store, c->dir);
    c->salvaged = store.salvaged;
    if (err != TARRY_OK) {
        tr_bar_end(&c->bar);
        return err;
    }
    err = tr_verify_run(store.engine, &calls, &c->sum);
    tr_bar_end(&c->bar);
    tr_cli_store_close(&store);
    return err;
}

static void print_sum(const struct check *c)
{
    const struct tr_verify_sum *s = &c->sum;

    printf("%s: %" PRIu64 " %s (%" PRIu64 " dead, %" PRIu64 " with a key) in %" PRIu64 " %s\n",
           c->dir, s->jobs, s->jobs == 1 ? "job" : "jobs", s->dead, s->keyed, s->topics,
           s->topics == 1 ? "topic" : "topics");
    printf("read: %" PRIu64 " records of the log, %" PRIu64 " records and %" PRIu64
           " index pages of %" PRIu64 " %s\n",
           s->log_records, s->run_records, s->index_pages, s->groups,
           s->groups == 1 ? "group" : "groups");
}

static void print_result(const struct check *c)
{
    const struct tr_report *r = &c->report;

    print_sum(c);
    if (r->findings == 0) {
        puts("fine: all of it is there, and agrees");
        return;
    }
    printf("damaged: %" PRIu64 " %s; %" PRIu64 " about jobs that are lost, %" PRIu64
           " about jobs that may come twice\n",
           r->findings, r->findings == 1 ? "finding" : "findings", r->by_fate[TR_FATE_LOST],
           r->by_fate[TR_FATE_TWICE]);
    if (c->repair) {
        return;
    }
    if (!c->salvaged && r->by_fate[TR_FATE_LOST] + r->by_fate[TR_FATE_TWICE] == 0) {
        printf("No job is lost; a server starts with it as it is. To make it whole:\n"
               "  tarry check --repair %s\n",
               c->dir);
    } else {
        printf("What can be done: a backup from before, or\n"
               "  tarry check --repair %s      saves what can be saved\n"
               "  tarry serve --read-only --data %s   and tarry export show what can be read\n",
               c->dir, c->dir);
    }
}

static void member(struct tr_json *j, const char *name, uint64_t number)
{
    tr_json_name(j, name);
    tr_json_number(j, number);
}

static void begin_json(struct check *c)
{
    struct tr_json *j = &c->report.j;

    tr_json_open(j, '{');
    tr_json_name(j, "store");
    tr_json_text(j, c->dir);
    tr_json_name(j, "findings");
    tr_json_open(j, '[');
    tr_report_flush(&c->report);
}

static void end_json(struct check *c, const char *repaired)
{
    const struct tr_verify_sum *s = &c->sum;
    struct tr_json *j = &c->report.j;

    tr_json_close(j, ']');
    tr_json_name(j, "ok");
    tr_json_bool(j, c->report.findings == 0);
    member(j, "jobs", s->jobs);
    member(j, "dead", s->dead);
    member(j, "keyed", s->keyed);
    member(j, "topics", s->topics);
    member(j, "log_records", s->log_records);
    member(j, "run_records", s->run_records);
    member(j, "groups", s->groups);
    member(j, "index_pages", s->index_pages);
    member(j, "lost", c->report.by_fate[TR_FATE_LOST]);
    member(j, "twice", c->report.by_fate[TR_FATE_TWICE]);
    if (repaired != NULL) {
        tr_json_name(j, "repaired");
        tr_json_bool(j, true);
        tr_json_name(j, "quarantine");
        tr_json_text(j, repaired);
    }
    tr_json_close(j, '}');
    tr_output_add(&c->report.bytes, "\n", 1);
    tr_report_flush(&c->report);
}

/* ---- repair ---- */

/* The list was printed; the store is written anew and looked at once more. */
static int repair(struct check *c)
{
    struct tr_cli_store store = {.found = NULL};
    struct check again = {.dir = c->dir};
    int err;

    fflush(stdout);
    err = tr_cli_store_repair(&store, c->dir);
    if (err != TARRY_OK) {
        return tr_cli_store_trouble(c->dir, err);
    }
    tr_report_init(&again.report, stderr, false);
    err = look(&again);
    tr_report_fini(&again.report);
    if (err != TARRY_OK || again.report.findings != 0) {
        fprintf(stderr,
                "tarry: %s: something is still damaged after the repair\n"
                "The disk may be failing: copy what tarry export gives to another one.\n",
                c->dir);
        return err != TARRY_OK ? tr_cli_store_trouble(c->dir, err) : TR_CLI_DAMAGED;
    }
    c->sum = again.sum;
    return TR_CLI_FINE;
}

static int repair_and_tell(struct check *c, struct tr_quarantine *q)
{
    int err = tr_quarantine_write(q);
    int exit;

    if (err != TARRY_OK) {
        fprintf(stderr, "tarry: %s: the damaged bytes could not be kept: nothing was changed\n",
                q->path);
        return tr_cli_store_trouble(c->dir, err);
    }
    exit = repair(c);
    if (exit == TR_CLI_FINE && c->json) {
        end_json(c, q->path);
    } else if (exit == TR_CLI_FINE) {
        print_sum(c);
        printf("repaired: it can be served again; damaged bytes and the list are in %s\n", q->path);
    }
    return exit;
}

static int run(struct check *c)
{
    struct tr_quarantine q;
    int exit;
    int err;

    tr_quarantine_init(&q, c->dir);
    c->quarantine = c->repair ? &q : NULL;
    tr_report_init(&c->report, stdout, c->json);
    if (c->json) {
        begin_json(c);
    }
    err = look(c);
    if (err != TARRY_OK) {
        exit = tr_cli_store_trouble(c->dir, err);
    } else if (c->repair && c->report.findings != 0) {
        if (!c->json) {
            print_result(c);
        }
        exit = repair_and_tell(c, &q);
    } else {
        if (c->json) {
            end_json(c, NULL);
        } else {
            print_result(c);
        }
        exit = c->report.findings != 0 ? TR_CLI_DAMAGED : TR_CLI_FINE;
    }
    tr_quarantine_fini(&q);
    tr_report_fini(&c->report);
    return tr_cli_end(exit);
}

static int check_main(int argc, char **argv)
{
    struct check c = {0};

    for (int i = 0; i < argc; i++) {
        if (tr_cli_is_help(argv[i])) {
            fputs(help, stdout);
            return tr_cli_end(TR_CLI_FINE);
        }
        if (strcmp(argv[i], "--json") == 0) {
            c.json = true;
        } else if (strcmp(argv[i], "--repair") == 0) {
            c.repair = true;
        } else if (argv[i][0] == '-') {
            return tr_cli_usage("check", "check has no flag \"%s\".", argv[i]);
        } else if (c.dir != NULL) {
            return tr_cli_usage("check", "check takes one directory, not \"%s\" besides.", argv[i]);
        } else {
            c.dir = argv[i];
        }
    }
    if (c.dir == NULL) {
        return tr_cli_usage("check", "check needs the data directory of a store.");
    }
    return run(&c);
}

const struct tr_cli_command tr_cli_command_check = {
    .name = "check",
    .group = TR_CLI_STORES,
    .about = "read a whole store and say what is damaged;\n"
             "--repair saves what can be saved",
    .help = help,
    .main = check_main,
};
