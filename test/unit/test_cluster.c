/* The engine on Redis: begin and end, calls, hand-outs. */

#include "cluster_rig.h"

static void test_cluster_opens(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.id = 4096}};
    struct tr_reason reasons[TR_REASONS];

    (void)state;
    assert_non_null(g);
    begin(g);
    submit(g, &a, TR_OP_PEEK); /* nobody knows yet whether this is the right store */
    assert_int_equal(a.status, TARRY_EAWAY);
    assert_int_equal(tr_cluster_unready(g->engine, reasons), 1);
    assert_string_equal(reasons[0].code, "redis_away");
    (void)hold(g, "default"); /* names are no business of Redis' */
    finish(g);
    open_engine(g);
    assert_int_equal(tr_cluster_unready(g->engine, reasons), 0);
    assert_int_equal(tr_cluster_uuid(g->engine)[15], 15);
    finish(g);
    free(g);
}

static void test_cluster_map(void **state)
{
    static const char info[] = "redis_version:7.2.1\r\nrun_id:aa\r\nmaxmemory_policy:noeviction\r\n"
                               "cluster_enabled:1\r\n";
    static const char map[] =
        "id1 10.0.0.1:7000@17000,host myself,slave id2 0 0 1 connected\n"
        "id2 10.0.0.2:7001@17001 master - 0 0 1 connected 0-8000 [7000->-id3]\n"
        "id3 ::1:7002@17002 master - 0 0 1 connected 8001-16382 16383\n"
        "id4 10.0.0.4:7003@17003 master,fail - 0 0 1 disconnected 0-16383\n";
    struct rig *g = malloc(sizeof *g);
    struct tr_cluster_stat stat;

    (void)state;
    assert_non_null(g);
    begin(g);
    (void)turn(g);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), info);
    say_text(g, find(g, "CLUSTER", -1), map);
    tr_cluster_stat(g->engine, &stat);
    assert_int_equal(stat.servers, 3); /* the replica and the failed one have nothing */
    assert_true(strcmp(g->server[1], "10.0.0.2:7001") == 0 ||
                strcmp(g->server[2], "::1:7002") == 0); /* whoever has {meta} */
    finish(g);
    free(g);
}

/* Nobody has what the failed one had: that is told, and asked again though nobody wants anything.
 */
static void test_cluster_hole(void **state)
{
    static const char info[] = "redis_version:7.2.1\r\nrun_id:aa\r\nmaxmemory_policy:noeviction\r\n"
                               "cluster_enabled:1\r\nrole:master\r\n";
    static const char holed[] =
        "id1 one:1@2 myself,master - 0 0 1 connected 0\n"
        "id4 10.0.0.4:7003@17003 master,fail - 0 0 1 disconnected 1-16383\n";
    static const char whole[] = "id1 one:1@2 myself,master - 0 0 1 connected 0-16383\n"
                                "id4 10.0.0.4:7003@17003 master,fail - 0 0 1 disconnected\n";
    struct rig *g = malloc(sizeof *g);
    struct tr_reason reasons[TR_REASONS];

    (void)state;
    assert_non_null(g);
    begin(g);
    (void)turn(g);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), info);
    for (unsigned i = 0; i < 3; i++) {
        say_text(g, find(g, "CLUSTER", -1), holed);
        assert_int_equal(tr_cluster_unready(g->engine, reasons), 1);
        assert_string_equal(reasons[0].code, "redis_away");
        assert_non_null(strstr(reasons[0].message, "has hash slot"));
        assert_null(find(g, "CLUSTER", -1));
        pass(g, SECOND / 2);
    }
    say_text(g, find(g, "CLUSTER", -1), whole);
    say_beat(g);
    assert_int_equal(tr_cluster_stage(g->engine), TR_ENGINE_OPEN);
    assert_int_equal(tr_cluster_unready(g->engine, reasons), 0);
    pass(g, SECOND / 2);
    assert_null(find(g, "CLUSTER", -1));
    finish(g);
    free(g);
}

/* The message names what was found. */
static void refused(const char *info, const char *code, const char *found)
{
    struct rig *g = malloc(sizeof *g);
    struct tr_reason reasons[TR_REASONS];

    assert_non_null(g);
    begin(g);
    (void)turn(g);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), info);
    assert_int_equal(tr_cluster_stage(g->engine), TR_ENGINE_REFUSED);
    assert_int_equal(tr_cluster_unready(g->engine, reasons), 1);
    assert_string_equal(reasons[0].code, code);
    assert_non_null(strstr(reasons[0].message, found));
    finish(g);
    free(g);
}

/* The first beat is answered so. */
static void refused_by_beat(const struct tr_span *items, size_t count, const char *code,
                            const char *word)
{
    struct rig *g = malloc(sizeof *g);
    struct tr_reason reasons[TR_REASONS];

    assert_non_null(g);
    begin(g);
    (void)turn(g);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), good_info);
    say(g, find(g, NULL, TR_SCRIPT_BEAT), items, count);
    assert_int_equal(tr_cluster_stage(g->engine), TR_ENGINE_REFUSED);
    assert_int_equal(tr_cluster_unready(g->engine, reasons), 1);
    assert_string_equal(reasons[0].code, code);
    assert_non_null(strstr(reasons[0].message, word));
    finish(g);
    free(g);
}

static void test_cluster_refuses(void **state)
{
    struct tr_span differs[] = {SPAN("DIFFERS"), SPAN("1"), SPAN("256"), SPAN("tarry:"), SPAN("x")};
    struct tr_span truth[] = {SPAN("TRUTH"), SPAN("sql")};
    struct tr_span other[] = {SPAN("COORD"), SPAN("b:2 1.0\nzookeeper at /tarry/nodes")};

    (void)state;
    refused("redis_version:6.2.0\r\nrun_id:aa\r\n", "redis_version", "6.2.0");
    refused("redis_version:7.0.0\r\nrun_id:aa\r\nmaxmemory_policy:allkeys-lru\r\n",
            "redis_eviction", "allkeys-lru");
    refused_by_beat(differs, 5, "redis_layout", "256");
    refused_by_beat(truth, 2, "sql_differs", "are in a database, and this node has no sql.url");
    refused_by_beat(other, 2, "coordinator_differs",
                    "the node at b:2 has the coordinator zookeeper at /tarry/nodes, and this one "
                    "redis: ");
}

/* A slot that is not there: its ids begin where nobody was, unless the store was made just now. */
static void checked(struct rig *g, uint32_t topic, const char *fresh)
{
    static const char *const ids[] = {"00000000001401"};
    struct ask a = push_of(topic, "body");

    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say_topics(g);
    say_text(g, find(g, NULL, TR_SCRIPT_PUSH), "NOSLOT");
    assert_string_equal(last_of(g, TR_SCRIPT_CHECK), fresh);
    find(g, NULL, TR_SCRIPT_CHECK)->answered = true;
    say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
    assert_int_equal(a.status, TARRY_OK);
}

static const char *run_of(struct rig *g, enum tr_script_name script)
{
    const struct sent *s = find(g, NULL, (int)script);

    assert_non_null(s);
    return s->args[3 + strtoul(s->args[2], NULL, 10) + 1];
}

/* The server is another one though the connection stays: `check` tells, and so it is called then.
 */
static void test_cluster_another_life(void **state)
{
    static const char *const ids[] = {"00000000001401"};
    static const struct tr_span same[] = {SPAN_OF("OK"), SPAN_OF("same"), SPAN_OF("0"), SPAN_OF(""),
                                          SPAN_OF("cc")};
    struct rig *g = malloc(sizeof *g);
    struct ask a;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    a = push_of(hold(g, "orders"), "body");
    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say_topics(g);
    assert_string_equal(run_of(g, TR_SCRIPT_PUSH), "bb");
    say_text(g, find(g, NULL, TR_SCRIPT_PUSH), "CHECK");
    say(g, find(g, NULL, TR_SCRIPT_CHECK), same, 5);
    say_text(g, find(g, NULL, TR_SCRIPT_PUSH), "CHECK"); /* it was on its way */
    say(g, find(g, NULL, TR_SCRIPT_CHECK), same, 5);
    assert_string_equal(run_of(g, TR_SCRIPT_PUSH), "cc");
    say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
    assert_int_equal(a.status, TARRY_OK);
    finish(g);
    free(g);
}

/* Under which name a store would be made by the beat that is under way. */
static const char *uuid_of(struct rig *g)
{
    const struct sent *s = find(g, NULL, TR_SCRIPT_BEAT);

    assert_non_null(s);
    return s->args[s->count - 3];
}

/* An emptied Redis is used on under the same name, and said so once. */
static void test_cluster_emptied(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct tr_reason reasons[TR_REASONS];
    uint32_t topic;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    checked(g, topic, "1");
    say_topics(g);
    say_agendas(g);
    pass(g, 4 * SECOND);
    assert_string_equal(uuid_of(g), ""); /* nothing is made up for unseen */
    say_text(g, find(g, NULL, TR_SCRIPT_BEAT), "NONE");
    assert_int_equal(g->notices, 1);
    pass(g, 400000);
    assert_string_equal(uuid_of(g), "000102030405060708090a0b0c0d0e0f");
    say_beat(g);
    assert_int_equal(g->notices, 1);
    assert_int_equal(tr_cluster_stage(g->engine), TR_ENGINE_OPEN);
    assert_int_equal(tr_cluster_unready(g->engine, reasons), 1);
    assert_string_equal(reasons[0].code, "redis_lost");
    say_agendas(g);
    pass(g, 6 * SECOND);
    say_beat(g);
    say_agendas(g);
    checked(g, topic, "0");
    finish(g);
    free(g);
}

/* A slot that was there and is made anew has lost its jobs: counted, said once, not ready for a
 * while; and one that was never there is none. */
static void test_cluster_loses_a_slot(void **state)
{
    static const char *const ids[] = {"00000000001401"};
    static const char *const was[] = {"0", "1", "0"}; /* the third: this node knows better */
    static const struct tr_span made[] = {SPAN_OF("OK"), SPAN_OF("new"), SPAN_OF("0"), SPAN_OF(""),
                                          SPAN_OF("bb")};
    static const char *const topics[] = {"a", "orders", "orders"};
    struct rig *g = malloc(sizeof *g);
    struct tr_reason reasons[TR_REASONS];
    struct tr_cluster_stat stat;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    say_agendas(g);
    for (unsigned i = 0; i < 3; i++) {
        struct ask a = push_of(hold(g, topics[i]), "body");

        submit(g, &a, TR_OP_PUSH);
        (void)turn(g);
        if (i < 2) {
            say_topics(g);
        }
        say_text(g, find(g, NULL, TR_SCRIPT_PUSH), "NOSLOT");
        say(g, find(g, NULL, TR_SCRIPT_CHECK), made, 5);
        say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
        assert_int_equal(a.status, TARRY_OK);
        if (i < 2) {
            say_topics(g);
        }
        say_text(g, find(g, "SETBIT", -1), was[i]);
        tr_cluster_stat(g->engine, &stat);
        assert_int_equal(stat.slots_lost, i);
        assert_int_equal(g->notices, i > 0);
        assert_int_equal(tr_cluster_unready(g->engine, reasons), i > 0);
    }
    assert_string_equal(reasons[0].code, "redis_lost");
    finish(g);
    free(g);
}

/* What comes in one round goes as one call, and each is told its own. */
static void test_cluster_batch(void **state)
{
    static const char *const ids[] = {"00000000001401", "00000000001801", "00000000001c01"};
    struct rig *g = malloc(sizeof *g);
    uint32_t topic;
    struct ask a[3];
    struct sent *s;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    for (unsigned i = 0; i < 2; i++) {
        a[i] = push_of(topic, "body");
        submit(g, &a[i], TR_OP_PUSH);
    }
    (void)turn(g);
    say_topics(g);
    s = find(g, NULL, TR_SCRIPT_PUSH);
    assert_non_null(s);
    a[2] = push_of(topic, "late"); /* the call is under way */
    submit(g, &a[2], TR_OP_PUSH);
    (void)turn(g);
    say_pushed(g, s, ids, 2);
    assert_int_equal(a[0].id, 0x1401);
    assert_int_equal(a[1].id, 0x1801);
    assert_int_equal(a[2].done, 0);
    say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids + 2, 1);
    assert_int_equal(a[2].status, TARRY_OK);
    assert_int_equal(a[2].id, 0x1c01);
    finish(g);
    free(g);
}

/* The server forgot the script; then the answer is lost: the same call comes again. */
static void test_cluster_repeats(void **state)
{
    static const char *const ids[] = {"00000000001401"};
    struct rig *g = malloc(sizeof *g);
    struct ask a;
    struct sent *s;
    char op[20];

    (void)state;
    assert_non_null(g);
    open_engine(g);
    a = push_of(hold(g, "orders"), "body");
    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say_topics(g);
    s = find(g, NULL, TR_SCRIPT_PUSH);
    assert_string_equal(s->args[0], "EVALSHA");
    say_error(g, s, "NOSCRIPT No matching script.");
    s = find(g, NULL, TR_SCRIPT_PUSH);
    assert_string_equal(s->args[0], "EVAL");
    (void)snprintf(op, sizeof op, "%s", op_of(s));
    tr_cluster_abandon(g->engine, &a.r, g->now); /* he leaves, and takes his body along */
    pass(g, SECOND); /* no answer: the connection is of no use any more */
    assert_int_equal(g->closes, 1);
    pass(g, SECOND / 10);
    assert_true(g->dialed[0]);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), good_info);
    s = find(g, NULL, TR_SCRIPT_PUSH);
    assert_non_null(s);
    assert_string_equal(op_of(s), op);
    assert_string_equal(s->args[s->count - 1], "body");
    say_pushed(g, s, ids, 1);
    assert_int_equal(a.done, 0); /* nobody hears of it */
    finish(g);
    free(g);
}

/* Pushes that are under way, as their bodies say, in the order in which they were sent; which of
 * two calls of a slot it is. */
static void are_under_way(struct rig *g, const char *bodies, const char *calls)
{
    for (unsigned i = 0; i < g->sent_count; i++) {
        const struct sent *s = &g->sent[i];

        if (!s->answered && is_script(s, TR_SCRIPT_PUSH)) {
            assert_int_equal(s->args[s->count - 1][0], *bodies++);
            assert_int_equal(op_of(s)[0], *calls++);
        }
    }
    assert_int_equal(*bodies, '\0');
}

/* A slot has two calls of pushes under way, which it keeps apart. When both are lost they come
 * again in the same order: who has sent two without waiting gets ids in the order of his jobs. */
static void test_cluster_twins(void **state)
{
    static const char *const topics[] = {"d", "b", "orders", "a"}; /* of four slots */
    static const char *const bodies[] = {"k", "l", "m", "n", "o", "p",
                                         "q", "r", "s", "t", "u", "v"};
    static const char *const ids[] = {"00000000001400"};
    struct rig *g = malloc(sizeof *g);
    struct ask a[12];

    (void)state;
    assert_non_null(g);
    open_engine(g);
    for (unsigned i = 0; i < 4; i++) {
        a[i] = push_of(hold(g, topics[i]), "made");
        submit(g, &a[i], TR_OP_PUSH);
        (void)turn(g);
        say_topics(g);
        say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
        assert_int_equal(a[i].status, TARRY_OK);
    }
    for (unsigned i = 0; i < 12; i++) {
        if (i >= 8) {
            say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
        }
        a[i] = push_of(hold(g, topics[i % 4]), bodies[i]);
        submit(g, &a[i], TR_OP_PUSH);
        (void)turn(g);
    }
    are_under_way(g, "opqrstuv", "11110000");
    g->dialed[0] = false;
    for (unsigned i = 0; i < g->sent_count; i++) {
        g->sent[i].answered = true;
    }
    g->ear.closed(g->ear.ctx, 0, "Connection reset by peer", g->now);
    pass(g, SECOND / 10);
    assert_true(g->dialed[0]);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), good_info);
    are_under_way(g, "opqrstuv", "11110000");
    finish(g);
    free(g);
}

/* What was sent and lost for good may have been done; what was never sent was not. */
static void test_cluster_gives_up(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a, b;
    uint32_t topic;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    a = push_of(topic, "body");
    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say_topics(g);
    assert_non_null(find(g, NULL, TR_SCRIPT_PUSH));
    g->dialed[0] = false;
    g->ear.closed(g->ear.ctx, 0, "Connection reset by peer", g->now);
    for (unsigned i = 0; i < 40; i++) {
        pass(g, SECOND / 10);
        if (g->dialed[0]) {
            g->dialed[0] = false;
            g->ear.closed(g->ear.ctx, 0, "Connection refused", g->now);
        }
    }
    assert_int_equal(a.status, TARRY_EUNSURE);
    b = push_of(topic, "body");
    submit(g, &b, TR_OP_PUSH); /* no server is there: at once */
    assert_int_equal(b.done, 1);
    assert_int_equal(b.status, TARRY_EAWAY);
    assert_int_equal(tr_cluster_stage(g->engine), TR_ENGINE_OPEN);
    finish(g);
    free(g);
}

/* A connection names no lease: it is that of the hand-out. */
static void test_cluster_holder(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.holder = 7}}, b = {.r = {.holder = 7}}, x = {.r = {.holder = 8}};
    uint32_t topic;
    struct sent *s;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    reserve(g, &a, &topic, 0);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401);
    assert_int_equal(a.status, TARRY_OK);
    assert_string_equal(a.body, "hello");
    assert_true(a.lease >> 32 == 0x11223344);
    x.r.id = 0x1401;
    submit(g, &x, TR_OP_RELEASE); /* not his */
    assert_int_equal(x.status, TARRY_ENOTFOUND);
    b.r.id = 0x1401;
    submit(g, &b, TR_OP_DELETE);
    (void)turn(g);
    s = find(g, NULL, TR_SCRIPT_EDIT);
    assert_non_null(s);
    assert_int_equal(s->args[s->count - 1][0], 'A');
    say_edited(g, edited);
    assert_int_equal(b.status, TARRY_OK);
    finish(g);
    free(g);
}

/* A connection that goes gives its jobs back; who leaves while he is asked for gets none. */
static void test_cluster_goes_back(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.holder = 7}}, b = {0}, close = {.r = {.holder = 7}};
    uint32_t topic;
    struct sent *s;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    reserve(g, &a, &topic, 0);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401);
    submit(g, &close, TR_OP_CLOSE);
    assert_int_equal(close.done, 1); /* at once */
    assert_int_equal(close.r.out.number, 1);
    (void)turn(g);
    s = find(g, NULL, TR_SCRIPT_EDIT);
    assert_int_equal(s->args[s->count - 1][0], 'D');
    say_edited(g, "N");
    reserve(g, &b, &topic, 60 * SECOND);
    tr_cluster_abandon(g->engine, &b.r, g->now);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1801);
    assert_int_equal(b.done, 0);
    s = find(g, NULL, TR_SCRIPT_EDIT);
    assert_non_null(s);
    assert_int_equal(s->args[s->count - 1][0], 'G');
    say_edited(g, "N");
    finish(g);
    free(g);
}

static void test_cluster_waits(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {0}, b = {0};
    uint32_t topic;
    struct tr_span wake[] = {SPAN("key"), SPAN("")};
    struct sent *s;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    g->ear.up(g->ear.ctx, WAKE, g->now); /* the connection that blocks */
    topic = hold(g, "orders");
    reserve(g, &a, &topic, 30 * SECOND);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0);
    assert_int_equal(a.done, 0);
    answer_first(g, 0, g->sent_count); /* agendas, once more: who knows what was not heard */
    pass(g, SECOND);
    assert_null(find(g, NULL, TR_SCRIPT_TAKE)); /* nobody polls */
    for (unsigned slot = 0; slot < 4 && find(g, NULL, TR_SCRIPT_TAKE) == NULL; slot++) {
        char text[24];

        (void)snprintf(text, sizeof text, "%u orders 0", slot);
        wake[1] = (struct tr_span)SPAN(text);
        say(g, find(g, "BLPOP", -1), wake, 2);
    }
    s = find(g, NULL, TR_SCRIPT_TAKE);
    assert_non_null(s); /* it was woken */
    say_job(g, s, 0x1401);
    assert_int_equal(a.status, TARRY_OK);
    reserve(g, &b, &topic, SECOND);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0);
    pass(g, SECOND);
    assert_int_equal(b.status, TARRY_ETIMEOUT);
    finish(g);
    free(g);
}

static void test_cluster_unsupported(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {0};

    (void)state;
    assert_non_null(g);
    open_engine(g);
    submit(g, &a, TR_OP_BACKUP);
    assert_int_equal(a.status, TARRY_EUNSUPPORTED);
    assert_non_null(a.r.out.why);
    finish(g);
    free(g);
}

/* Whatever allocation fails, somebody is told, and nothing is left behind. */
static void test_cluster_no_memory(void **state)
{
    static const char *const ids[] = {"00000000001401"};

    (void)state;
    for (uint64_t fail = 1; fail < 40; fail++) {
        struct rig *g = malloc(sizeof *g);
        struct ask a, b = {.r = {.holder = 7}};
        uint32_t topic;

        assert_non_null(g);
        open_engine(g);
        topic = hold(g, "orders");
        g->mem.fail_at = g->mem.calls + fail;
        a = push_of(topic, "body");
        submit(g, &a, TR_OP_PUSH);
        for (unsigned i = 0; i < 5 && a.done == 0; i++) { /* it may try again */
            pass(g, SECOND / 10);
            say_topics(g);
            if (find(g, NULL, TR_SCRIPT_PUSH) != NULL) {
                say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
            }
        }
        assert_int_equal(a.done, 1);
        assert_true(a.status == TARRY_OK || a.status == TARRY_ENOMEM);
        reserve(g, &b, &topic, 0);
        for (unsigned i = 0; i < 5 && b.done == 0; i++) {
            pass(g, SECOND / 10);
            say_topics(g);
            if (find(g, NULL, TR_SCRIPT_TAKE) != NULL) {
                say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401);
            }
        }
        assert_int_equal(b.done, 1);
        assert_true(b.status == TARRY_OK || b.status == TARRY_ENOMEM);
        finish(g);
        free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_opens),        cmocka_unit_test(test_cluster_map),
        cmocka_unit_test(test_cluster_hole),         cmocka_unit_test(test_cluster_refuses),
        cmocka_unit_test(test_cluster_emptied),      cmocka_unit_test(test_cluster_batch),
        cmocka_unit_test(test_cluster_repeats),      cmocka_unit_test(test_cluster_another_life),
        cmocka_unit_test(test_cluster_loses_a_slot), cmocka_unit_test(test_cluster_gives_up),
        cmocka_unit_test(test_cluster_holder),       cmocka_unit_test(test_cluster_goes_back),
        cmocka_unit_test(test_cluster_waits),        cmocka_unit_test(test_cluster_twins),
        cmocka_unit_test(test_cluster_unsupported),  cmocka_unit_test(test_cluster_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
