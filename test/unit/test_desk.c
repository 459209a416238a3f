/* The engine with a database: commit before index, index before answer, and what if one is away. */

#include "cluster/truth.h"
#include "cluster_rig.h"

enum { ASKS = 64, ROWS = 8 };

/* A database in which each ask waits until the test lets it be done. */
struct base {
    struct rig g;
    struct tr_sql_ask *asks[ASKS];
    unsigned count;
    struct tr_sql_job rows[ROWS];
    char bodies[ROWS][8];
    unsigned row_count;
    bool has_topic;
    uint64_t next;
    uint64_t ahead_us; /* of the rig's clock */
};

static void port_ask(void *ctx, struct tr_sql_ask *ask)
{
    struct base *b = ctx;

    assert_true(b->count < ASKS);
    b->asks[b->count++] = ask;
}

static struct tr_sql_job *row_of(struct base *b, uint64_t id)
{
    for (unsigned i = 0; i < b->row_count; i++) {
        if (b->rows[i].id == id) {
            return &b->rows[i];
        }
    }
    return NULL;
}

static void write_row(struct base *b, const struct tr_sql_item *item)
{
    struct tr_sql_job *row = row_of(b, item->next.id);

    if (item->write == TR_SQL_INSERT) {
        row = &b->rows[b->row_count++];
        memcpy(b->bodies[row - b->rows], item->next.body.at, item->next.body.len);
    }
    if (item->write == TR_SQL_DELETE) {
        row_of(b, item->row.id)->id = 0;
    } else if (item->write != TR_SQL_LEAVE) {
        size_t len = item->next.body_len;

        *row = item->next;
        row->tag = row->key = row->backoff = (struct tr_span){0};
        row->body = (struct tr_span){b->bodies[row - b->rows], len};
    }
}

static void change(struct base *b, struct tr_sql_ask *ask)
{
    for (unsigned i = 0; i < ask->count; i++) {
        const struct tr_sql_job *row = row_of(b, ask->items[i].id);

        ask->items[i].found = row != NULL;
        if (row != NULL) {
            ask->items[i].row = *row;
        }
    }
    if (ask->kind == TR_SQL_CHANGE) {
        ask->decide(ask, 0, ask->count);
        ask->decide(ask, 0, ask->count); /* as after a deadlock */
        for (unsigned i = 0; i < ask->count; i++) {
            write_row(b, &ask->items[i]);
            ask->items[i].end = TR_SQL_DONE;
        }
    }
}

static void do_topic(struct base *b, struct tr_sql_ask *ask)
{
    static struct tr_sql_topic topic = {.id = 7, .spread = 1, .name = SPAN_OF("orders")};

    b->has_topic = b->has_topic || ask->makes;
    ask->topics = b->has_topic ? &topic : NULL;
    ask->topic = b->has_topic ? topic.id : 0;
    ask->count = b->has_topic;
}

/* All that was asked so far is done; how many it were. */
static unsigned answer_sql(struct base *b)
{
    unsigned count = 0;

    while (b->count > 0) {
        struct tr_sql_ask *ask = b->asks[0];

        memmove(b->asks, b->asks + 1, --b->count * sizeof b->asks[0]);
        ask->now_us = b->g.now.wall_us + b->ahead_us;
        ask->end = TR_SQL_DONE;
        ask->blame = TR_SQL_FINE;
        if (ask->kind == TR_SQL_TOPIC) {
            do_topic(b, ask);
        } else if (ask->kind == TR_SQL_BLOCK) {
            ask->first = b->next + 1000;
            b->next = ask->first + ask->number;
        } else if (ask->kind == TR_SQL_CHANGE || ask->kind == TR_SQL_LOOK) {
            change(b, ask);
        }
        count++;
        tr_cluster_sql_ear(b->g.engine).ended(b->g.engine, ask);
        (void)turn(&b->g);
    }
    return count;
}

/* Nothing was done: it is away. */
static void lose_sql(struct base *b, enum tr_sql_end end)
{
    while (b->count > 0) {
        struct tr_sql_ask *ask = b->asks[0];

        memmove(b->asks, b->asks + 1, --b->count * sizeof b->asks[0]);
        ask->end = end;
        ask->blame = TR_SQL_AWAY;
        ask->why = "the database is away.";
        for (unsigned i = 0; ask->kind == TR_SQL_CHANGE && i < ask->count; i++) {
            ask->items[i].end = end;
        }
        tr_cluster_sql_ear(b->g.engine).ended(b->g.engine, ask);
        (void)turn(&b->g);
    }
}

static struct base *open_base(void)
{
    static const char *const servers[] = {"one:1"};
    struct base *b = calloc(1, sizeof *b);
    struct rig *g;
    struct tr_cluster_config config;
    struct tr_sql_port port = {.ctx = b, .send = port_ask};

    assert_non_null(b);
    g = &b->g;
    tr_mem_init(&g->mem, 0);
    g->now = (struct tr_now){.wall_us = NOW, .boot_us = 10 * SECOND};
    tr_cluster_config_init(&config, &g->mem);
    config.slots = 4;
    config.servers = servers;
    config.server_count = 1;
    config.node = UINT64_C(0x1122334455667788);
    config.uuid = "000102030405060708090a0b0c0d0e0f";
    config.port = (struct tr_redis_port){
        .ctx = g, .connect = port_connect, .send = port_send, .close = port_close};
    config.sql = &port;
    config.sql_connections = 1;
    config.ctx = g;
    config.notice = notice;
    assert_int_equal(tr_cluster_new(&config, g->now, &g->engine), TARRY_OK);
    g->ear = tr_cluster_ear(g->engine);
    (void)turn(g);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), good_info);
    if (find(g, "CLUSTER", -1) != NULL) {
        say_error(g, find(g, "CLUSTER", -1), "ERR This instance has cluster support disabled");
    }
    say_beat(g);
    return b;
}

static void close_base(struct base *b)
{
    finish(&b->g);
    free(b);
}

static void say_index(struct rig *g, const char *letters)
{
    struct tr_span items[] = {SPAN("OK"),
                              SPAN("06651728e2a000"),
                              SPAN("00000000"),
                              SPAN(""),
                              SPAN("7fffffffffffff00000000000001"),
                              SPAN(letters)};

    say(g, find(g, NULL, TR_SCRIPT_INDEX), items, 6);
}

/* It is open when both have answered. */
static void test_desk_opens(void **state)
{
    struct base *b = open_base();
    struct tr_reason reasons[TR_REASONS];
    struct ask a = {.r = {.id = 4096}};

    (void)state;
    assert_int_equal(tr_cluster_stage(b->g.engine), TR_ENGINE_OPENING);
    assert_int_equal(tr_cluster_unready(b->g.engine, reasons), 1);
    assert_string_equal(reasons[0].code, "sql_away");
    submit(&b->g, &a, TR_OP_PEEK);
    assert_int_equal(a.status, TARRY_EAWAY);
    b->ahead_us = 5 * SECOND;
    assert_true(answer_sql(b) > 0);
    assert_int_equal(tr_cluster_stage(b->g.engine), TR_ENGINE_OPEN);
    assert_int_equal(tr_cluster_unready(b->g.engine, reasons), 0);
    assert_int_equal(tr_cluster_clock(b->g.engine, b->g.now), NOW + 5 * SECOND);
    close_base(b);
}

/* Topic, number, commit; then the index; then the answer. */
static void test_desk_pushes(void **state)
{
    struct base *b = open_base();
    struct ask a;

    (void)state;
    (void)answer_sql(b);
    a = push_of(hold(&b->g, "orders"), "hello");
    submit(&b->g, &a, TR_OP_PUSH);
    (void)turn(&b->g);
    assert_int_equal(b->count, 1);
    (void)answer_sql(b);
    assert_int_equal(b->row_count, 1);
    assert_int_equal(b->rows[0].topic, 7);
    assert_int_equal(a.done, 0); /* it is committed, but the index does not have it yet */
    say_index(&b->g, "O");
    assert_int_equal(a.done, 1);
    assert_int_equal(a.status, TARRY_OK);
    assert_int_equal(a.id, b->rows[0].id);
    close_base(b);
}

/* It is not waited for long. */
static void test_desk_answers_without_the_index(void **state)
{
    struct base *b = open_base();
    struct ask a;
    struct ask l = {0};

    (void)state;
    (void)answer_sql(b);
    a = push_of(hold(&b->g, "orders"), "hello");
    submit(&b->g, &a, TR_OP_PUSH);
    (void)turn(&b->g);
    (void)answer_sql(b);
    pass(&b->g, 240000);
    assert_int_equal(a.done, 0);
    pass(&b->g, 10000);
    assert_int_equal(a.done, 1);
    assert_int_equal(a.status, TARRY_OK);
    l.r.id = a.id;
    submit(&b->g, &l, TR_OP_PEEK);
    (void)turn(&b->g);
    (void)answer_sql(b);
    assert_int_equal(l.status, TARRY_OK);
    assert_string_equal(l.body, "hello");
    close_base(b);
}

static void test_desk_says_that_it_is_away(void **state)
{
    struct base *b = open_base();
    struct tr_reason reasons[TR_REASONS];
    struct ask first;
    struct ask second;
    uint32_t topic;

    (void)state;
    (void)answer_sql(b);
    topic = hold(&b->g, "orders");
    first = push_of(topic, "a");
    submit(&b->g, &first, TR_OP_PUSH);
    (void)turn(&b->g);
    lose_sql(b, TR_SQL_UNDONE);
    assert_int_equal(first.status, TARRY_EAWAY);
    second = push_of(topic, "b"); /* at once: nobody is asked */
    submit(&b->g, &second, TR_OP_PUSH);
    (void)turn(&b->g);
    assert_int_equal(b->count, 0);
    assert_int_equal(second.status, TARRY_EAWAY);
    assert_int_equal(tr_cluster_unready(b->g.engine, reasons), 1);
    assert_string_equal(reasons[0].message, "the database is away.");
    pass(&b->g, SECOND);
    assert_true(answer_sql(b) > 0); /* it is looked for by itself */
    assert_int_equal(tr_cluster_unready(b->g.engine, reasons), 0);
    close_base(b);
}

/* A commit of which nobody knows is told so. */
static void test_desk_is_unsure(void **state)
{
    struct base *b = open_base();
    struct ask a;

    (void)state;
    (void)answer_sql(b);
    a = push_of(hold(&b->g, "orders"), "a");
    submit(&b->g, &a, TR_OP_PUSH);
    (void)turn(&b->g);
    while (b->asks[0]->kind != TR_SQL_CHANGE) {
        struct tr_sql_ask *ask = b->asks[0];

        assert_int_equal(b->count, 1);
        b->count = 0;
        ask->now_us = b->g.now.wall_us;
        ask->end = TR_SQL_DONE;
        if (ask->kind == TR_SQL_TOPIC) {
            do_topic(b, ask);
        }
        ask->first = 1000;
        tr_cluster_sql_ear(b->g.engine).ended(b->g.engine, ask);
        (void)turn(&b->g);
    }
    lose_sql(b, TR_SQL_UNSURE);
    assert_int_equal(a.status, TARRY_EUNSURE);
    close_base(b);
}

static void test_desk_refuses(void **state)
{
    struct base *b = open_base();
    struct ask a = {0};

    (void)state;
    (void)answer_sql(b);
    submit(&b->g, &a, TR_OP_FORECAST);
    assert_int_equal(a.status, TARRY_EUNSUPPORTED);
    assert_non_null(strstr(a.r.out.why, "[sql]"));
    close_base(b);
}

/* Memory fails at each place in turn: it is told, and nothing is left behind. */
static void test_desk_no_memory(void **state)
{
    unsigned good = 0;

    (void)state;
    for (uint64_t at = 1; good < 2 && at < 400; at++) {
        struct base *b = open_base();
        struct ask a;

        (void)answer_sql(b);
        a = push_of(hold(&b->g, "orders"), "a");
        b->g.mem.fail_at = b->g.mem.calls + at;
        submit(&b->g, &a, TR_OP_PUSH);
        for (unsigned i = 0; i < 5; i++) {
            pass(&b->g, 200000);
            (void)answer_sql(b);
        }
        assert_int_equal(a.done, 1);
        assert_true(a.status == TARRY_OK || a.status == TARRY_ENOMEM);
        good = a.status == TARRY_OK && b->g.mem.calls < b->g.mem.fail_at ? good + 1 : 0;
        close_base(b);
    }
    assert_int_equal(good, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_desk_opens),
        cmocka_unit_test(test_desk_pushes),
        cmocka_unit_test(test_desk_answers_without_the_index),
        cmocka_unit_test(test_desk_says_that_it_is_away),
        cmocka_unit_test(test_desk_is_unsure),
        cmocka_unit_test(test_desk_refuses),
        cmocka_unit_test(test_desk_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
