/* tarry stats: how a server does, on one page; --json has all of /v1/stats. */

#include "base/text.h"
#include "cli/human.h"
#include "cli/json.h"

#include <string.h>

static void title(const char *text)
{
    printf("\n%s%s%s\n", tr_human_paint(TR_BOLD), text, tr_human_unpaint(TR_BOLD));
}

static void count(const struct tr_json_value *v, const char *name, const char *member)
{
    char text[TR_HUMAN_TEXT];
    uint64_t n;

    if (tr_cli_number(v, member, &n)) {
        tr_human_fact(name, "%s", tr_human_count(n, text));
    }
}

static void bytes(const struct tr_json_value *v, const char *name, const char *member)
{
    char text[TR_HUMAN_TEXT];
    uint64_t n;

    if (tr_cli_number(v, member, &n)) {
        tr_human_fact(name, "%s", tr_human_bytes(n, text));
    }
}

static void span(const struct tr_json_value *v, const char *name, const char *member)
{
    char text[TR_HUMAN_TEXT];
    uint64_t n;

    if (tr_cli_number(v, member, &n)) {
        tr_human_fact(name, "%s", tr_human_span(n, text));
    }
}

/* Rare and bad: told only if it is so. */
static void alarm(const struct tr_json_value *v, const char *member, const char *text)
{
    uint64_t n = 0;

    if (tr_cli_is_true(v, member) || (tr_cli_number(v, member, &n) && n > 0)) {
        printf("%s! %s%s\n", tr_human_paint(TR_RED), text, tr_human_unpaint(TR_RED));
    }
}

static void print_jobs(const struct tr_json_value *v)
{
    char text[32];

    count(v, "topics", "topics");
    count(v, "delayed", "delayed");
    count(v, "ready", "ready");
    count(v, "reserved", "reserved");
    count(v, "dead", "dead");
    count(v, "waiting", "waiting");
    tr_human_fact("pushed", "%s a second", tr_cli_string(v, "pushed_per_s", text, sizeof text));
    tr_human_fact("handed out", "%s a second", tr_cli_string(v, "handed_per_s", text, sizeof text));
    title("since the start");
    count(v, "pushed", "pushed");
    count(v, "deleted", "deleted");
    count(v, "leases ran out", "timeouts");
    count(v, "dead dropped", "dropped");
}

static void print_store(const struct tr_json_value *v)
{
    struct tr_json_value store;
    char text[TR_HUMAN_TEXT];
    uint64_t us;

    if (!tr_cli_member(v, "store", &store)) {
        return;
    }
    title("store");
    count(&store, "far jobs", "far");
    bytes(&store, "alive", "live_bytes");
    bytes(&store, "on disk", "disk_bytes");
    count(&store, "commits", "commits");
    if (tr_cli_number(&store, "commit_p99_us", &us) && us > 0) {
        tr_human_fact("commit p99", "%s", tr_human_span((us + 999) / 1000, text));
    }
    alarm(&store, "refusing", "the disk is nearly full: pushes are refused");
    alarm(&store, "draining", "it drains: no new jobs are taken");
    alarm(&store, "damaged", "something on disk is damaged: see the log, and tarry check");
}

static int print(struct tr_cli *c, const struct tr_cli_answer *a)
{
    struct tr_json_value v;
    struct tr_json_value part;
    char shown[TR_CLI_SHOWN];
    char text[64];
    uint64_t ms;

    if (!tr_cli_read(a, &v)) {
        return TR_CLI_FAILED;
    }
    tr_human_fact("server", "%s", tr_cli_server_shown(&c->server, shown));
    tr_human_fact("version", "%s", tr_cli_string(&v, "version", text, sizeof text));
    span(&v, "up for", "uptime_ms");
    tr_human_fact("sync", "%s", tr_cli_string(&v, "sync", text, sizeof text));
    if (tr_cli_number(&v, "now_ms", &ms)) {
        tr_human_fact("its time", "%s", tr_human_moment(ms, text));
    }
    title("jobs");
    print_jobs(&v);
    print_store(&v);
    title("process");
    bytes(&v, "memory", "resident_bytes");
    if (tr_cli_member(&v, "memory", &part)) {
        bytes(&part, "limit", "limit");
        alarm(&part, "refusing", "memory.limit is reached: pushes are refused");
    }
    if (tr_cli_member(&v, "connections", &part)) {
        count(&part, "beanstalk", "beanstalk");
        count(&part, "http", "http");
    }
    span(&v, "cpu, user", "cpu_user_ms");
    span(&v, "cpu, system", "cpu_system_ms");
    count(&v, "loop stalls", "loop_stalls");
    return TR_CLI_FINE;
}

static int stats(struct tr_cli *c)
{
    struct tr_cli_answer a;
    int how = tr_cli_ask(&c->server, "GET", "/v1/stats", &a);

    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE) {
        how = print(c, &a);
    }
    tr_cli_answer_fini(&a);
    return how;
}

const struct tr_cli_command tr_cli_command_stats = {
    .name = "stats",
    .group = TR_CLI_WATCHING,
    .about = "figures of a server",
    .usage = "[FLAGS]",
    .text = "Shows jobs by state, rates, the store and the process. --json has more.\n",
    .examples = "tarry stats\n"
                "tarry stats --server https://queue.example.com:11301 --json | jq .ready",
    .run = stats,
};
