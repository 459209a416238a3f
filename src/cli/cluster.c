/* tarry cluster: the nodes of a server on Redis, who looks after what, and the servers behind. */

#include "base/text.h"
#include "cli/human.h"
#include "cli/json.h"

#include <inttypes.h>
#include <string.h>

static void title(const char *text)
{
    printf("\n%s%s%s\n", tr_human_paint(TR_BOLD), text, tr_human_unpaint(TR_BOLD));
}

/* A name of sixteen digits is long; eight tell nodes apart. */
static const char *short_name(const struct tr_json_value *v, const char *member, char out[24])
{
    (void)tr_cli_string(v, member, out, 24);
    out[8] = '\0';
    return out;
}

static bool list(const struct tr_json_value *v, const char *name, struct tr_json_walk *walk)
{
    struct tr_json_value all;

    if (!tr_cli_member(v, name, &all) || all.kind != TR_JSON_ARRAY_KIND) {
        return false;
    }
    tr_json_walk_init(walk, &all);
    return true;
}

/* ---- nodes ---- */

static void node_row(struct tr_cli *c, struct tr_table *t, const struct tr_json_value *node)
{
    bool alive = tr_cli_is_true(node, "alive");
    char name[24];
    char text[160];
    char when[TR_HUMAN_TEXT];

    tr_table_cell(t, alive ? TR_PLAIN : TR_DIM, "%s%s", short_name(node, "node", name),
                  tr_cli_is_true(node, "self") ? " *" : "");
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(node, "address", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(node, "version", text, sizeof text));
    tr_table_cell(t, alive ? TR_GREEN : TR_RED, "%s", alive ? "alive" : "gone");
    tr_table_cell(t, TR_PLAIN, "%s", tr_human_when(c, tr_cli_number_or(node, "until_ms", 0), when));
    tr_table_cell(t, TR_PLAIN, "%" PRIu64, tr_cli_number_or(node, "slots", 0));
    tr_table_cell(t, TR_PLAIN, "%" PRIu64, tr_cli_number_or(node, "owned", 0));
}

static void print_nodes(struct tr_cli *c, const struct tr_json_value *v)
{
    static const struct tr_column columns[] = {
        {"NODE", false},  {"ADDRESS", false}, {"VERSION", false}, {"STATE", false},
        {"UNTIL", false}, {"SLOTS", true},    {"OWNED", true}};
    struct tr_json_value node;
    struct tr_json_walk walk;
    struct tr_table t;

    title("nodes");
    tr_table_init(&t, columns, sizeof columns / sizeof columns[0]);
    if (list(v, "nodes", &walk)) {
        while (tr_json_walk_element(&walk, &node)) {
            node_row(c, &t, &node);
        }
    }
    tr_table_end(&t);
}

/* ---- servers ---- */

/* Microseconds ahead, or behind; "": it was not measured. */
static const char *offset(const struct tr_json_value *server, char out[32])
{
    (void)tr_cli_string(server, "clock_offset_us", out, 24);
    if (out[0] != '\0') {
        tr_text(out + strlen(out), 32 - strlen(out), " us");
    }
    return out;
}

static void server_row(struct tr_table *t, const struct tr_json_value *server)
{
    char text[160];
    bool failing = tr_cli_is_true(server, "failing");

    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(server, "address", text, sizeof text));
    tr_table_cell(t, failing ? TR_RED : TR_PLAIN, "%s%s",
                  tr_cli_string(server, "role", text, sizeof text), failing ? ", failing" : "");
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(server, "of", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%" PRIu64, tr_cli_number_or(server, "slots", 0));
    tr_table_cell(t, TR_PLAIN, "%s", offset(server, text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(server, "connection", text, sizeof text));
}

static void print_servers(const struct tr_json_value *v)
{
    static const struct tr_column columns[] = {{"REDIS", false}, {"ROLE", false},
                                               {"OF", false},    {"SLOTS", true},
                                               {"CLOCK", true},  {"CONNECTION", false}};
    struct tr_json_value server;
    struct tr_json_walk walk;
    struct tr_table t;

    title("servers");
    tr_table_init(&t, columns, sizeof columns / sizeof columns[0]);
    if (list(v, "servers", &walk)) {
        while (tr_json_walk_element(&walk, &server)) {
            server_row(&t, &server);
        }
    }
    tr_table_end(&t);
}

/* ---- slots ---- */

static void slot_row(struct tr_cli *c, struct tr_table *t, const struct tr_json_value *slot)
{
    char name[24];
    char text[256];
    char when[TR_HUMAN_TEXT] = "";
    uint64_t ms;

    tr_table_cell(t, TR_PLAIN, "%" PRIu64, tr_cli_number_or(slot, "slot", 0));
    tr_table_cell(t, TR_PLAIN, "%s", short_name(slot, "keeper", name));
    tr_table_cell(t, TR_PLAIN, "%s", short_name(slot, "owner", name));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(slot, "epoch", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(slot, "topics", text, sizeof text));
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(slot, "topic", text, sizeof text));
    tr_table_cell(t, tr_cli_number_or(slot, "late_ms", 0) > 0 ? TR_YELLOW : TR_PLAIN, "%s",
                  tr_cli_number(slot, "due_ms", &ms) ? tr_human_when(c, ms, when) : "");
    tr_table_cell(t, TR_PLAIN, "%s", tr_cli_string(slot, "server", text, sizeof text));
}

static void print_slots(struct tr_cli *c, const struct tr_json_value *v)
{
    static const struct tr_column columns[] = {{"SLOT", true},  {"KEEPER", false}, {"OWNER", false},
                                               {"EPOCH", true}, {"TOPICS", true},  {"NEXT", false},
                                               {"DUE", false},  {"SERVER", false}};
    struct tr_json_value slot;
    struct tr_json_walk walk;
    struct tr_table t;

    title("slots");
    tr_table_init(&t, columns, sizeof columns / sizeof columns[0]);
    if (list(v, "slots", &walk)) {
        while (tr_json_walk_element(&walk, &slot)) {
            slot_row(c, &t, &slot);
        }
    }
    tr_table_end(&t);
}

/* ---- all of it ---- */

static void print_facts(struct tr_cli *c, const struct tr_json_value *v)
{
    struct tr_json_value part;
    char shown[TR_CLI_SHOWN];
    char text[512];
    char span[TR_HUMAN_TEXT];
    uint64_t ms;

    tr_human_fact("server", "%s", tr_cli_server_shown(&c->server, shown));
    tr_human_fact("store", "%s", tr_cli_string(v, "store", text, sizeof text));
    tr_human_fact("promises", "%s", tr_cli_string(v, "promises", text, sizeof text));
    if (tr_cli_member(v, "coordinator", &part)) {
        tr_human_fact("coordinator", "%s, %s", tr_cli_string(&part, "kind", text, sizeof text),
                      tr_cli_is_true(&part, "keeps_house")
                          ? "this node looks after its slots"
                          : "this node does not look after its slots now");
        tr_human_fact("trouble", "%s", tr_cli_string(&part, "message", text, sizeof text));
        if (tr_cli_number(&part, "heard_ms_ago", &ms)) {
            tr_human_fact("heard of", "%s ago", tr_human_span(ms, span));
        }
    }
    if (tr_cli_member(v, "late", &part)) {
        uint64_t slots = tr_cli_number_or(&part, "slots", 0);

        if (slots > 0) {
            tr_human_fact("late", "%" PRIu64 " slots, by up to %s", slots,
                          tr_human_span(tr_cli_number_or(&part, "most_ms", 0), span));
        }
        if (tr_cli_number_or(&part, "unknown", 0) > 0) {
            tr_human_fact("not known", "%" PRIu64 " slots", tr_cli_number_or(&part, "unknown", 0));
        }
    }
}

static int cluster(struct tr_cli *c)
{
    struct tr_cli_answer a;
    struct tr_json_value v;
    int how = tr_cli_ask(&c->server, "GET", "/v1/cluster", &a);

    if (how == TR_CLI_FINE && c->json) {
        tr_cli_print_raw(&a);
    } else if (how == TR_CLI_FINE && !tr_cli_read(&a, &v)) {
        how = TR_CLI_FAILED;
    } else if (how == TR_CLI_FINE) {
        print_facts(c, &v);
        print_nodes(c, &v);
        print_servers(&v);
        if (tr_cli_given(c, "--slots")) {
            print_slots(c, &v);
        }
    }
    tr_cli_answer_fini(&a);
    return how;
}

const struct tr_cli_command tr_cli_command_cluster = {
    .name = "cluster",
    .group = TR_CLI_WATCHING,
    .about = "the nodes of a server on Redis",
    .usage = "[FLAGS]",
    .text = "Shows the nodes of --engine redis that are alive or died within the hour, how many\n"
            "slots each looks after, the servers behind with the offsets of their clocks, and\n"
            "what is late. --slots has a line for each slot; --json has all of it.\n",
    .options = {{.name = "--slots", .about = "a line for each slot, too"}},
    .examples = "tarry cluster\n"
                "tarry cluster --slots --server http://node-2:11301\n"
                "tarry cluster --json | jq '.nodes[] | select(.alive)'",
    .run = cluster,
};
