/* The engine with a database: commit before index, index before answer, and what if one is away. */

#include "cluster/load.h"
#include "cluster_rig.h"

enum { ASKS = 64, ROWS = 8, BODY = 60000, LINES = 4 };

#define OTHER UINT64_C(0x99)

/* A database in which each ask waits until the test lets it be done. */
struct base {
    struct rig g;
    struct tr_sql_ask *asks[ASKS];
    unsigned count;
    struct tr_sql_job rows[ROWS];
    char bodies[ROWS][BODY];
    unsigned row_count;
    struct tr_sql_job page[ROWS];
    bool has_topic;
    uint64_t next;
    uint64_t ahead_us; /* of the rig's clock */
    unsigned broken;   /* connections, as bits: what is asked by them fails */
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

/* Those of one state, in the order that the test made them in. */
static void do_page(struct base *b, struct tr_sql_ask *ask)
{
    ask->count = 0;
    ask->rows = b->page;
    for (unsigned i = 0; i < b->row_count && ask->count < ask->number; i++) {
        if (b->rows[i].state == ask->state && b->rows[i].due_us > ask->from_us) {
            b->page[ask->count++] = b->rows[i];
        }
    }
}

/* Nothing was done, or perhaps it was: it is away. */
static void fail_ask(struct base *b, struct tr_sql_ask *ask, enum tr_sql_end end)
{
    ask->end = end;
    ask->blame = TR_SQL_AWAY;
    ask->why = "the database is away.";
    for (unsigned i = 0; ask->kind == TR_SQL_CHANGE && i < ask->count; i++) {
        ask->items[i].end = end;
        ask->items[i].blame = ask->blame;
        ask->items[i].why = ask->why;
    }
    tr_cluster_sql_ear(b->g.engine).ended(b->g.engine, ask);
    (void)turn(&b->g);
}

/* All that was asked so far is done; how many it were. */
static unsigned answer_sql(struct base *b)
{
    unsigned count = 0;

    while (b->count > 0) {
        struct tr_sql_ask *ask = b->asks[0];

        memmove(b->asks, b->asks + 1, --b->count * sizeof b->asks[0]);
        if ((b->broken >> ask->conn & 1) != 0) {
            fail_ask(b, ask, TR_SQL_UNDONE);
            continue;
        }
        ask->now_us = b->g.now.wall_us + b->ahead_us;
        ask->end = TR_SQL_DONE;
        ask->blame = TR_SQL_FINE;
        if (ask->kind == TR_SQL_TOPIC) {
            do_topic(b, ask);
        } else if (ask->kind == TR_SQL_BLOCK) {
            ask->first = b->next + 1000;
            b->next = ask->first + ask->number;
        } else if (ask->kind == TR_SQL_AGREE) {
            ask->uuid = ask->name;
            ask->first = ask->number;
            ask->prefix = ask->text;
        } else if (ask->kind == TR_SQL_CHANGE || ask->kind == TR_SQL_LOOK) {
            change(b, ask);
        } else if (ask->kind == TR_SQL_PAGE) {
            do_page(b, ask);
        }
        count++;
        tr_cluster_sql_ear(b->g.engine).ended(b->g.engine, ask);
        (void)turn(&b->g);
    }
    return count;
}

/* Which store it has is said, and nothing else. */
static void agree(struct base *b)
{
    for (unsigned i = 0; i < b->count; i++) {
        struct tr_sql_ask *ask = b->asks[i];

        if (ask->kind == TR_SQL_AGREE) {
            memmove(&b->asks[i], &b->asks[i + 1], (--b->count - i) * sizeof b->asks[0]);
            ask->end = TR_SQL_DONE;
            ask->blame = TR_SQL_AWAY; /* that it is there is told by others */
            ask->why = "";
            ask->uuid = ask->name;
            ask->first = ask->number;
            ask->prefix = ask->text;
            tr_cluster_sql_ear(b->g.engine).ended(b->g.engine, ask);
            (void)turn(&b->g);
            return;
        }
    }
    assert_true(false);
}

static void lose_sql(struct base *b, enum tr_sql_end end)
{
    while (b->count > 0) {
        struct tr_sql_ask *ask = b->asks[0];

        memmove(b->asks, b->asks + 1, --b->count * sizeof b->asks[0]);
        fail_ask(b, ask, end);
    }
}

static struct base *open_base_of(unsigned connections)
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
    config.sql_connections = connections;
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
    assert_null(
        find(g, NULL, TR_SCRIPT_BEAT)); /* there is no store before the database says which */
    agree(b);
    say_beat(g);
    return b;
}

static struct base *open_base(void)
{
    return open_base_of(1);
}

static void close_base(struct base *b)
{
    finish(&b->g);
    free(b);
}

/* The script has put all of these into the index, or into what is left of it. */
static void say_put(struct rig *g, enum tr_script_name script, const char *letters)
{
    struct tr_span items[] = {SPAN("OK"),
                              SPAN("06651728e2a000"),
                              SPAN("00000000"),
                              SPAN(""),
                              SPAN("7fffffffffffff00000000000001"),
                              SPAN(letters)};

    say(g, find(g, NULL, (int)script), items, 6);
}

static void say_index(struct rig *g, const char *letters)
{
    say_put(g, TR_SCRIPT_INDEX, letters);
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

/* Two jobs are due later, and so many are kicked; the database has done that. */
static struct ask *kick_two(struct base *b, struct ask asks[3], uint64_t count)
{
    uint32_t topic;

    (void)answer_sql(b);
    topic = hold(&b->g, "orders");
    for (unsigned i = 0; i < 2; i++) {
        asks[i] = push_of(topic, "later");
        asks[i].r.delay_us = 100 * SECOND;
        submit(&b->g, &asks[i], TR_OP_PUSH);
        (void)turn(&b->g);
        (void)answer_sql(b);
        say_index(&b->g, "O");
        assert_int_equal(asks[i].status, TARRY_OK);
    }
    asks[2] = (struct ask){.r = {.topic = topic, .count = count}};
    submit(&b->g, &asks[2], TR_OP_KICK);
    (void)turn(&b->g);
    (void)answer_sql(b);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(b->rows[i].due_us <= b->g.now.wall_us);
    }
    return &asks[2];
}

/* Who has kicked jobs, and then reserves, finds them in the index. */
static void test_desk_kicks(void **state)
{
    struct base *b = open_base();
    struct ask asks[3];
    const struct ask *kick = kick_two(b, asks, 2);

    (void)state;
    assert_int_equal(kick->done, 0);
    say_index(&b->g, "OO");
    assert_int_equal(kick->done, 1);
    assert_int_equal(kick->status, TARRY_OK);
    assert_int_equal(kick->r.out.number, 2);
    close_base(b);
}

/* It is not waited for long; and who closes does not wait at all. */
static void test_desk_kicks_without_the_index(void **state)
{
    (void)state;
    for (unsigned waits = 0; waits < 2; waits++) {
        struct base *b = open_base();
        struct ask asks[3];
        const struct ask *kick = kick_two(b, asks, 2);

        pass(&b->g, waits != 0 ? SECOND : 0);
        assert_int_equal(kick->done, waits);
        close_base(b);
    }
}

/* Another server of the database may know less: what is left to be kicked is not looked for there.
 */
static void test_desk_kicks_in_two_lives(void **state)
{
    struct base *b = open_base();
    struct tr_cluster *c = b->g.engine;
    struct ask asks[3];
    const struct ask *kick = kick_two(b, asks, 4);

    (void)state;
    assert_int_equal(kick->done, 0);
    c->desk->life = 1;
    tr_life_heard(c, 1, 2);
    say_index(&b->g, "OO");
    (void)turn(&b->g);
    (void)answer_sql(b);
    assert_int_equal(kick->done, 1);
    assert_int_equal(kick->status, TARRY_EUNSURE);
    assert_int_equal(kick->r.out.number, 2);
    close_base(b);
}

static void say_shed(struct rig *g, const char *letters)
{
    say_put(g, TR_SCRIPT_SHED, letters);
}

/* The index is full: who asks is told at once, and it is tried again when there may be room. */
static void test_desk_redis_is_full(void **state)
{
    struct base *b = open_base();
    struct tr_reason reasons[TR_REASONS];
    struct ask a;

    (void)state;
    (void)answer_sql(b);
    a = push_of(hold(&b->g, "orders"), "hello");
    submit(&b->g, &a, TR_OP_PUSH);
    (void)turn(&b->g);
    (void)answer_sql(b);
    say_error(&b->g, find(&b->g, NULL, TR_SCRIPT_INDEX), "OOM command not allowed");
    assert_null(find(&b->g, NULL, TR_SCRIPT_INDEX));
    assert_int_equal(a.done, 0);
    say_shed(&b->g, "F");
    assert_int_equal(a.done, 1);
    assert_int_equal(a.status, TARRY_OK);
    assert_int_equal(tr_cluster_unready(b->g.engine, reasons), 1);
    assert_string_equal(reasons[0].code, "redis_full");
    for (unsigned i = 0; i < 10; i++) {
        assert_null(find(&b->g, NULL, TR_SCRIPT_SHED));
        assert_null(find(&b->g, NULL, TR_SCRIPT_INDEX));
        answer_first(&b->g, 0, b->g.sent_count); /* else the connection counts as dead */
        pass(&b->g, SECOND / 10);
    }
    say_error(&b->g, find(&b->g, NULL, TR_SCRIPT_ROOM), "OOM command not allowed");
    say_index(&b->g, "O");
    assert_int_equal(tr_cluster_unready(b->g.engine, reasons), 0);
    pass(&b->g, 2 * SECOND);
    assert_null(find(&b->g, NULL, TR_SCRIPT_INDEX));
    close_base(b);
}

/* Images wait for Redis for as long as it is away; bodies do not. */
static void test_desk_keeps_no_body(void **state)
{
    struct base *b = open_base();
    struct ask a;
    char *body = calloc(1, BODY + 1);
    size_t before;

    (void)state;
    (void)answer_sql(b);
    assert_non_null(body);
    memset(body, 'x', BODY);
    a = push_of(hold(&b->g, "orders"), body);
    before = b->g.mem.used_bytes;
    submit(&b->g, &a, TR_OP_PUSH);
    (void)turn(&b->g);
    (void)answer_sql(b);
    assert_int_equal(b->rows[0].body_len, BODY);
    assert_true(b->g.mem.used_bytes < before + BODY / 2);
    say_index(&b->g, "O");
    assert_int_equal(a.status, TARRY_OK);
    free(body);
    close_base(b);
}

/* It is not waited for long. */
static void test_desk_answers_without_the_index(void **state)
{
    struct base *b = open_base();
    struct ask a;
    struct ask other;
    struct ask l = {0};

    (void)state;
    (void)answer_sql(b);
    a = push_of(hold(&b->g, "orders"), "hello");
    submit(&b->g, &a, TR_OP_PUSH);
    (void)turn(&b->g);
    (void)answer_sql(b);
    pass(&b->g, 990000);
    assert_int_equal(a.done, 0);
    pass(&b->g, 10000);
    assert_int_equal(a.done, 1);
    assert_int_equal(a.status, TARRY_OK);
    other = push_of(hold(&b->g, "orders"), "next");
    submit(&b->g, &other, TR_OP_PUSH);
    (void)turn(&b->g);
    (void)answer_sql(b);
    pass(&b->g, 240000);
    assert_int_equal(other.done, 0);
    pass(&b->g, 10000);
    assert_int_equal(other.done, 1); /* it is known to be slow */
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

/* Nothing is wrong with the database; Redis has not said a word for long. */
static bool is_well(struct base *b)
{
    struct tr_reason reasons[TR_REASONS];
    unsigned count = tr_cluster_unready(b->g.engine, reasons);

    while (count > 0 && strncmp(reasons[count - 1].code, "sql", 3) != 0) {
        count--;
    }
    return count == 0;
}

/* Jobs that are not there are looked for, one in each slot and so by each connection; how many of
 * these questions were answered. */
static unsigned look_everywhere(struct base *b)
{
    struct ask asks[LINES];
    unsigned answered = 0;

    for (unsigned s = 0; s < LINES; s++) {
        asks[s] = (struct ask){.r = {.id = 4096 + s}};
        submit(&b->g, &asks[s], TR_OP_PEEK);
    }
    (void)turn(&b->g);
    (void)answer_sql(b);
    for (unsigned s = 0; s < LINES; s++) {
        assert_int_equal(asks[s].done, 1);
        assert_true(asks[s].status == TARRY_ENOTFOUND || asks[s].status == TARRY_EAWAY);
        answered += asks[s].status == TARRY_ENOTFOUND;
    }
    return answered;
}

/* One connection that cannot be made costs those who find out, and nobody else. */
static void test_desk_goes_on_by_the_others(void **state)
{
    (void)state;
    for (unsigned broken = 0; broken < LINES; broken++) {
        struct base *b = open_base_of(LINES);

        (void)answer_sql(b);
        b->broken = 1U << broken;
        assert_int_equal(look_everywhere(b), LINES - 1);
        for (unsigned i = 0; i < 50; i++) { /* it is tried again, and nobody hears of that */
            assert_int_equal(look_everywhere(b), LINES);
            assert_true(is_well(b));
            pass(&b->g, 250000);
        }
        b->broken = 0;
        pass(&b->g, 2 * SECOND);
        (void)answer_sql(b);
        assert_int_equal(look_everywhere(b), LINES);
        b->broken = 1U << broken ^ ((1U << LINES) - 1); /* it is used again */
        (void)look_everywhere(b);
        assert_int_equal(look_everywhere(b), LINES);
        close_base(b);
    }
}

/* Nobody else has asked for anything: whether others work is found out at once. */
static void test_desk_tries_the_others(void **state)
{
    struct base *b = open_base_of(LINES);
    struct ask a = {.r = {.id = 4096 + 2}};

    (void)state;
    (void)answer_sql(b);
    pass(&b->g, SECOND);
    (void)answer_sql(b);
    b->broken = 1U << 2;
    submit(&b->g, &a, TR_OP_PEEK);
    (void)turn(&b->g);
    (void)answer_sql(b);
    assert_int_equal(a.status, TARRY_EAWAY);
    assert_true(is_well(b));
    assert_int_equal(look_everywhere(b), LINES);
    b->broken = (1U << LINES) - 1; /* it is gone: who finds out hears so, others at once */
    assert_int_equal(look_everywhere(b), 0);
    assert_false(is_well(b));
    a = (struct ask){.r = {.id = 4096}};
    submit(&b->g, &a, TR_OP_PEEK);
    (void)turn(&b->g);
    assert_int_equal(b->count, 0);
    assert_int_equal(a.status, TARRY_EAWAY);
    b->broken = 1U << 1;
    pass(&b->g, SECOND);
    (void)answer_sql(b);
    assert_true(is_well(b));
    assert_int_equal(look_everywhere(b), LINES);
    close_base(b);
}

static void say_claim(struct rig *g, uint64_t id)
{
    char job[16];
    struct tr_span items[] = {SPAN("OK"),
                              SPAN("06651728e2a000"),
                              SPAN("00000000"),
                              SPAN(""),
                              SPAN(""),
                              SPAN("0"),
                              SPAN("7fffffffffffff"),
                              SPAN("00000000000001"),
                              SPAN("00000000000005"),
                              {job, 15}};

    assert_int_equal(snprintf(job, sizeof job, "C%014llx", (unsigned long long)id), 15);
    say(g, find(g, NULL, TR_SCRIPT_CLAIM), items, 10);
}

/* Who waits goes while the database is asked for his job: it is the node's to give back. */
static void test_desk_gives_back_before_it_stops(void **state)
{
    struct base *b = open_base();
    struct ask p;
    struct ask a = {0};
    uint32_t topic;

    (void)state;
    (void)answer_sql(b);
    topic = hold(&b->g, "orders");
    p = push_of(topic, "hello");
    submit(&b->g, &p, TR_OP_PUSH);
    (void)turn(&b->g);
    (void)answer_sql(b);
    say_index(&b->g, "O");
    assert_false(tr_cluster_owes(b->g.engine));
    a.r.topics = &topic;
    a.r.topic_count = 1;
    a.r.wait_us = 60 * SECOND;
    submit(&b->g, &a, TR_OP_RESERVE);
    (void)turn(&b->g);
    (void)answer_sql(b);
    assert_true(tr_cluster_owes(b->g.engine));
    say_claim(&b->g, p.id);
    (void)turn(&b->g);
    assert_int_equal(b->count, 1);
    tr_cluster_abandon(b->g.engine, &a.r, b->g.now);
    (void)turn(&b->g);
    assert_true(tr_cluster_owes(b->g.engine));
    (void)answer_sql(b);
    assert_int_equal(b->rows[0].state, TR_SQL_WAITING);
    assert_int_equal(b->rows[0].attempts, 0);
    assert_false(tr_cluster_owes(b->g.engine));
    close_base(b);
}

/* ---- words to owners ---- */

static void say_wake(struct rig *g, const char *text)
{
    struct tr_span wake[] = {SPAN("key"), SPAN(text)};

    say(g, find(g, "BLPOP", -1), wake, 2);
}

static bool has_word(const struct sent *s, const char *word)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->args[i], word) == 0) {
            return true;
        }
    }
    return false;
}

/* Lost on its way, it is told once more; as these, or not. */
static void say_word_again(enum tr_home_word word, bool loads, bool aligns)
{
    struct base *b = open_base();
    struct rig *g = &b->g;
    struct tr_cluster *c = g->engine;

    for (unsigned s = 0; s < 4; s++) {
        c->slots[s].owned = false;
        c->slots[s].keeper_node = OTHER;
    }
    c->members.nodes[c->members.count++] = OTHER;
    (void)answer_sql(b);
    tr_home_tell(c, 1, word);
    (void)turn(g);
    assert_false(has_word(find(g, NULL, TR_SCRIPT_WAKE), "*"));
    say_error(g, find(g, NULL, TR_SCRIPT_WAKE), "ERR no");
    pass(g, SECOND);
    assert_true(has_word(find(g, NULL, TR_SCRIPT_WAKE), "*"));
    assert_true(has_word(find(g, NULL, TR_SCRIPT_WAKE), "*l") == loads);
    assert_true(has_word(find(g, NULL, TR_SCRIPT_WAKE), "*a") == aligns);
    close_base(b);
}

static void test_desk_says_words_again(void **state)
{
    (void)state;
    say_word_again(TR_HOME_AGENDA, false, false);
    say_word_again(TR_HOME_LOAD, true, false);
    say_word_again(TR_HOME_ALIGN, false, true);
}

static void test_desk_hears_words_for_all(void **state)
{
    static const struct {
        const char *text;
        enum tr_align_mode need;
    } words[] = {{"*", TR_ALIGN_NOT}, {"*l", TR_ALIGN_WINDOW}, {"*a", TR_ALIGN_ALL}};
    struct base *b = open_base();
    struct rig *g = &b->g;
    struct tr_cluster *c = g->engine;

    (void)state;
    (void)answer_sql(b);
    g->ear.up(g->ear.ctx, WAKE, g->now);
    (void)turn(g);
    c->slots[1].owned = false;
    c->desk->align->round = true; /* what is needed waits for its end */
    for (unsigned i = 0; i < 3; i++) {
        memset(c->desk->align->need, 0, sizeof c->desk->align->need);
        say_wake(g, words[i].text);
        for (unsigned s = 0; s < 4; s++) {
            assert_int_equal(c->desk->align->need[s], s == 1 ? TR_ALIGN_NOT : words[i].need);
        }
    }
    close_base(b);
}

/* ---- loading ---- */

/* As a round of comparing does it, which knows how often the topic was purged when it began. */
static void load_rows(struct base *b, uint64_t id, uint32_t gen)
{
    struct tr_span raised[] = {SPAN("OK"),
                               SPAN("06651728e2a000"),
                               SPAN("00000000"),
                               SPAN(""),
                               SPAN("00000000000000"),
                               SPAN("7fffffffffffff"),
                               SPAN("00000000000000")};
    struct tr_cluster *c = b->g.engine;
    struct tr_loader *l = &c->desk->align->loaders[1];
    unsigned slot = tr_place_slot_of(id);

    c->slots[slot].owned = true;
    c->slots[slot].sworn = true;
    l->all = true;
    l->row = b->rows[0].topic;
    l->knows_gen = true;
    l->gen = gen;
    tr_loader_start(c, l, tr_ctopic_get(c, "orders", 6), slot);
    (void)turn(&b->g);
    say(&b->g, find(&b->g, NULL, TR_SCRIPT_RAISE), raised, 7);
    (void)answer_sql(b);
}

/* Jobs that were purged stay out; those that were pushed after a purge do not. */
static void test_desk_loads_what_is_newer(void **state)
{
    (void)state;
    for (uint32_t gen = 0; gen < 3; gen++) {
        struct base *b = open_base();
        struct ask a;

        (void)answer_sql(b);
        a = push_of(hold(&b->g, "orders"), "hello");
        submit(&b->g, &a, TR_OP_PUSH);
        (void)turn(&b->g);
        (void)answer_sql(b);
        say_index(&b->g, "O");
        assert_int_equal(a.status, TARRY_OK);
        b->rows[0].gen = 1;
        load_rows(b, a.id, gen);
        assert_int_equal(find(&b->g, NULL, TR_SCRIPT_INDEX) != NULL, gen <= 1);
        close_base(b);
    }
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
    submit(&b->g, &a, TR_OP_BACKUP);
    assert_int_equal(a.status, TARRY_EUNSUPPORTED);
    assert_non_null(strstr(a.r.out.why, "embedded engine"));
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
        for (unsigned i = 0; i < 6; i++) {
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
        cmocka_unit_test(test_desk_kicks),
        cmocka_unit_test(test_desk_kicks_without_the_index),
        cmocka_unit_test(test_desk_kicks_in_two_lives),
        cmocka_unit_test(test_desk_redis_is_full),
        cmocka_unit_test(test_desk_keeps_no_body),
        cmocka_unit_test(test_desk_answers_without_the_index),
        cmocka_unit_test(test_desk_says_that_it_is_away),
        cmocka_unit_test(test_desk_goes_on_by_the_others),
        cmocka_unit_test(test_desk_tries_the_others),
        cmocka_unit_test(test_desk_gives_back_before_it_stops),
        cmocka_unit_test(test_desk_says_words_again),
        cmocka_unit_test(test_desk_hears_words_for_all),
        cmocka_unit_test(test_desk_loads_what_is_newer),
        cmocka_unit_test(test_desk_is_unsure),
        cmocka_unit_test(test_desk_refuses),
        cmocka_unit_test(test_desk_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
