/* The engine on Redis: requests of whole topics, lists of topics, what is under way. */

#include "cluster/inner.h"
#include "cluster_rig.h"
#include "rules/policy.h"

static void say_kicked(struct rig *g, unsigned count, const char *version)
{
    char number[15];
    struct tr_span items[] = {
        SPAN("OK"), SPAN("06651728e2a000"), SPAN(version), SPAN(""), SPAN("d"), {number, 14}};

    (void)snprintf(number, sizeof number, "%014x", count);
    say(g, find(g, NULL, TR_SCRIPT_KICK), items, 6);
}

/* Without memory it is not made, wherever that is noticed, and nothing of it stays. */
static void test_cluster_not_made(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct tr_cluster_config config;
    int err = TARRY_ENOMEM;
    unsigned n;

    (void)state;
    assert_non_null(g);
    config = config_of(g);
    for (n = 1; err != TARRY_OK; n++) {
        g->mem.fail_at = g->mem.calls + n;
        err = tr_cluster_new(&config, g->now, &g->engine);
        assert_true(err == TARRY_OK || (err == TARRY_ENOMEM && g->mem.used_bytes == 0));
    }
    assert_true(n > 5);
    finish(g);
    free(g);
}

/* A Redis that refuses what is asked of it. */
static void open_full(struct rig *g, struct ask *a)
{
    open_engine(g);
    a->r.topic = hold(g, "orders");
    submit(g, a, TR_OP_KICK);
    (void)turn(g);
    say_topics(g);
    say_error(g, find(g, NULL, TR_SCRIPT_KICK), "OOM command not allowed");
}

/* The second piece fails: something was done, and that is what is told. */
static void test_cluster_kick_is_half_done(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.count = 300}};

    (void)state;
    assert_non_null(g);
    open_full(g, &a);
    assert_int_equal(a.status, TARRY_ENOSPC); /* nothing was done */
    submit(g, &a, TR_OP_KICK);
    (void)turn(g);
    say_kicked(g, 128, "00000000");
    say_error(g, find(g, NULL, TR_SCRIPT_KICK), "OOM command not allowed");
    assert_int_equal(a.done, 2);
    assert_int_equal(a.status, TARRY_EUNSURE);
    assert_int_equal(a.r.out.number, 128);
    assert_non_null(a.r.out.why);
    finish(g);
    free(g);
}

static bool is_full(struct rig *g)
{
    struct tr_reason reasons[TR_REASONS];
    unsigned count = tr_cluster_unready(g->engine, reasons);

    return count == 1 && strcmp(reasons[0].code, "redis_full") == 0;
}

static void pass_second(struct rig *g)
{
    for (unsigned i = 0; i < 10; i++) {
        answer_first(g, 0, g->sent_count); /* else the connection counts as dead */
        pass(g, SECOND / 10);
    }
}

/* A Redis that takes no changes is asked once a second whether it does. */
static void test_cluster_full_until_it_is_not(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.count = 300}};
    const struct tr_span ok = SPAN("OK");
    uint64_t given_up;

    (void)state;
    assert_non_null(g);
    open_full(g, &a);
    assert_true(is_full(g));
    given_up = g->engine->stat.given_up;
    assert_null(find(g, NULL, TR_SCRIPT_ROOM));
    for (unsigned i = 0; i < 2; i++) {
        pass_second(g);
        say_error(g, find(g, NULL, TR_SCRIPT_ROOM), "MISCONF x");
        assert_true(is_full(g));
        assert_null(find(g, NULL, TR_SCRIPT_ROOM));
    }
    pass_second(g);
    say_beat(g); /* it was sent before */
    say(g, find(g, NULL, TR_SCRIPT_ROOM), &ok, 1);
    assert_false(is_full(g));
    assert_int_equal(g->engine->stat.given_up, given_up); /* nobody waited for those */
    pass_second(g);
    assert_null(find(g, NULL, TR_SCRIPT_ROOM));
    finish(g);
    free(g);
}

/* A server refused a call of this slot. */
static void refused_by(struct rig *g, unsigned server, unsigned slot)
{
    const struct tr_call call = {
        .server = server, .slot = slot, .hash_slot = g->engine->slots[slot].hash};
    const struct tr_span words = SPAN("OOM");

    tr_room_worse(g->engine, &call, words);
}

/* What one server says of its room is not what another says of its own. */
static void test_cluster_full_elsewhere(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.count = 300}};
    const struct tr_span ok = SPAN("OK");
    unsigned other;

    (void)state;
    assert_non_null(g);
    open_full(g, &a);
    other = (g->engine->room.slot + 1) % 4;
    pass_second(g);
    refused_by(g, 1, other); /* while the first one is being asked */
    say(g, find(g, NULL, TR_SCRIPT_ROOM), &ok, 1);
    assert_true(is_full(g));

    pass_second(g); /* whoever has that slot now is full, and is the one to know from here on */
    say_error(g, find(g, NULL, TR_SCRIPT_ROOM), "OOM x");
    assert_true(is_full(g));
    assert_int_equal(g->engine->room.server, 0);
    finish(g);
    free(g);
}

/* The topic's settings say that it has two slots. */
static void say_spread(struct rig *g)
{
    struct tr_policy p = tr_policy_default();
    char text[TR_CL_NOTE_HEAD + TR_POLICY_BYTES_MAX] = "00000001k";
    struct tr_span item = {text, 0};

    p.given = TR_POLICY_BIT(SPREAD);
    p.spread = 2;
    item.len = TR_CL_NOTE_HEAD + tr_policy_encode((uint8_t *)text + TR_CL_NOTE_HEAD, &p);
    say(g, find(g, "HMGET", -1), &item, 1);
}

/* Delayed ones only if no slot has a dead one. */
static void test_cluster_kick_of_two_slots(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.count = 5}};

    (void)state;
    assert_non_null(g);
    open_engine(g);
    a.r.topic = hold(g, "orders");
    submit(g, &a, TR_OP_KICK);
    (void)turn(g);
    say_spread(g);
    assert_string_equal(last_of(g, TR_SCRIPT_KICK), "d");
    say_kicked(g, 0, "00000001");
    assert_string_equal(last_of(g, TR_SCRIPT_KICK), "d");
    say_kicked(g, 3, "00000001");
    assert_int_equal(a.done, 1);
    assert_int_equal(a.r.out.number, 3);
    submit(g, &a, TR_OP_KICK);
    (void)turn(g);
    for (unsigned i = 0; i < 4; i++) {
        assert_string_equal(last_of(g, TR_SCRIPT_KICK), i < 2 ? "d" : "s");
        say_kicked(g, 0, "00000001");
    }
    assert_int_equal(a.done, 2);
    assert_int_equal(a.r.out.number, 0);
    finish(g);
    free(g);
}

static void test_cluster_pause_is_half_done(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.wait_us = 10 * SECOND}};
    struct tr_span items[] = {SPAN("OK"), SPAN("06651728e2a000"), SPAN("00000001"), SPAN("")};

    (void)state;
    assert_non_null(g);
    open_engine(g);
    a.r.topic = hold(g, "orders");
    submit(g, &a, TR_OP_PAUSE);
    (void)turn(g);
    say_spread(g);
    say(g, find(g, NULL, TR_SCRIPT_PAUSE), items, 4);
    assert_int_equal(a.done, 0);
    say_error(g, find(g, NULL, TR_SCRIPT_PAUSE), "OOM command not allowed");
    assert_int_equal(a.status, TARRY_EUNSURE);
    assert_non_null(a.r.out.why);
    finish(g);
    free(g);
}

/* So many ready jobs in each topic that is counted. */
static void say_counts(struct rig *g, unsigned ready)
{
    struct sent *s;

    while ((s = find(g, NULL, TR_SCRIPT_COUNTS)) != NULL) {
        unsigned keys = (unsigned)strtoul(s->args[2], NULL, 10);
        unsigned topics = (unsigned)strtoul(s->args[3 + keys + 5], NULL, 10);
        char text[14 * 15 + 8 + 1];
        struct tr_span items[4 + 64] = {SPAN("OK"), SPAN("06651728e2a000"), {"", 0}, {"", 0}};

        (void)snprintf(text, sizeof text, "%014x%0*d", ready, 14 * 14 + 8, 0);
        for (unsigned i = 0; i < topics; i++) {
            items[4 + i] = (struct tr_span)SPAN(text);
        }
        say(g, s, items, 4 + topics);
    }
}

/* All topics are in the list, without settings. */
static void say_known(struct rig *g)
{
    struct sent *s;

    while ((s = find(g, "HMGET", -1)) != NULL) {
        struct tr_span items[8];

        for (unsigned i = 0; i < s->count - 2; i++) {
            items[i] = (struct tr_span)SPAN("00000000-");
        }
        say(g, s, items, s->count - 2);
    }
}

static void say_names(struct rig *g, const char *a, const char *b)
{
    struct tr_span items[] = {{a, a != NULL ? strlen(a) : 0}, {b, b != NULL ? strlen(b) : 0}};

    say(g, find(g, "HKEYS", -1), items, (size_t)((a != NULL) + (b != NULL)));
}

/* Whoever goes from topic to topic has them counted once, whatever is pushed meanwhile. */
static void test_cluster_next_topic(void **state)
{
    static const char *const ids[] = {"00000000001401"};
    struct rig *g = malloc(sizeof *g);
    struct ask a = {0}, b = {0}, p;
    uint32_t first;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    submit(g, &a, TR_OP_NEXT_TOPIC);
    (void)turn(g);
    say_names(g, "orders", "mails");
    say_known(g);
    say_counts(g, 1);
    assert_int_equal(a.done, 1);
    assert_int_equal(a.status, TARRY_OK);
    first = a.r.out.topic;
    p = push_of(first, "x");
    submit(g, &p, TR_OP_PUSH);
    (void)turn(g);
    say_known(g);
    say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
    assert_int_equal(p.status, TARRY_OK);
    b.r.topic = first;
    submit(g, &b, TR_OP_NEXT_TOPIC);
    assert_int_equal(b.done, 1); /* at once */
    assert_int_equal(b.status, TARRY_OK);
    assert_true(b.r.out.topic > first);
    submit(g, &a, TR_OP_NEXT_TOPIC); /* who begins has them counted anew */
    assert_int_equal(a.done, 1);
    finish(g);
    free(g);
}

/* Jobs of a topic that is in no list any more are counted until there are none. */
static void test_cluster_topic_that_went(void **state)
{
    static const char *const ids[] = {"00000000001401"};
    struct rig *g = malloc(sizeof *g);
    struct ask a, b = {0};
    struct tr_meter_view view[TR_METER_VIEWS];
    unsigned views;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    a = push_of(hold(g, "orders"), "x");
    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say_topics(g);
    say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
    a.r.hold = TR_HOLD_USE;
    submit(g, &a, TR_OP_DROP_TOPIC);
    assert_int_equal(a.status, TARRY_OK);
    for (unsigned i = 0; i < 2; i++) {
        submit(g, &b, TR_OP_STAT);
        (void)turn(g);
        say_names(g, NULL, NULL);
        if (i == 0) {
            assert_non_null(find(g, NULL, TR_SCRIPT_COUNTS));
            say_counts(g, 0);
        }
        assert_int_equal(b.done, i + 1);
        assert_int_equal(b.r.out.stat.ready, 0);
        say_agendas(g);
        pass(g, 2 * SECOND);
        say_agendas(g);
    }
    views = tr_cluster_meters(g->engine, 0, view);
    assert_true(views > 0 && view[views - 1].other);
    assert_int_equal(view[views - 1].jobs[TR_READY], 0);
    finish(g);
    free(g);
}

/* Only so much is under way on a connection; the rest waits for answers. */
static void test_cluster_flight(void **state)
{
    static const char *const ids[] = {"00000000001401"};

    (void)state;
    for (unsigned bytes = 0; bytes < 2; bytes++) {
        struct rig *g = malloc(sizeof *g);
        struct ask a[4];
        struct tr_cluster_stat stat;

        assert_non_null(g);
        open_engine(g);
        for (unsigned round = 0; round < 2; round++) { /* in the second one all are known */
            static const char *const names[] = {"a", "b", "d", "e"}; /* of different slots */

            for (unsigned i = 0; i < 4; i++) {
                a[i] = push_of(hold(g, names[i]), "x");
                submit(g, &a[i], TR_OP_PUSH);
            }
            say_agendas(g);
            if (round == 1) {
                g->engine->config.flight_calls = bytes != 0 ? 256 : 1;
                g->engine->config.flight_bytes = bytes != 0 ? 1 : 1 << 20;
            }
            (void)turn(g);
            say_known(g);
            for (unsigned i = 0; i < 4; i++) {
                struct sent *s = find(g, NULL, TR_SCRIPT_PUSH);

                assert_non_null(s);
                if (round == 1) {
                    s->answered = true;
                    assert_null(find(g, NULL, TR_SCRIPT_PUSH));
                    s->answered = false;
                }
                say_pushed(g, s, ids, 1);
                say_known(g);
            }
        }
        for (unsigned i = 0; i < 4; i++) {
            assert_int_equal(a[i].status, TARRY_OK);
        }
        tr_cluster_stat(g->engine, &stat);
        assert_int_equal(stat.waits, 3);
        finish(g);
        free(g);
    }
}

/* What waits for room too long was not done. */
static void test_cluster_no_room(void **state)
{
    static const char *const ids[] = {"00000000001401"};
    struct rig *g = malloc(sizeof *g);
    struct ask a, b;
    uint32_t topics[2];

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topics[0] = hold(g, "a");
    topics[1] = hold(g, "b");
    for (unsigned i = 0; i < 2; i++) {
        a = push_of(topics[i], "x");
        submit(g, &a, TR_OP_PUSH);
        (void)turn(g);
        say_known(g);
        say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
        say_known(g);
    }
    say_agendas(g);
    g->engine->config.flight_calls = 1;
    a = push_of(topics[0], "x");
    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    b = push_of(topics[1], "x");
    submit(g, &b, TR_OP_PUSH);
    g->engine->config.timeout_us = 10 * SECOND; /* a slow one */
    (void)turn(g);
    pass(g, 400000);
    assert_int_equal(b.done, 0);
    g->engine->links[0].sent_count++; /* as if another one were behind it */
    say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
    assert_int_equal(a.status, TARRY_OK);
    pass(g, 2 * SECOND);
    pass(g, SECOND);
    assert_int_equal(b.status, TARRY_EAWAY);
    g->engine->links[0].sent_count--;
    finish(g);
    free(g);
}

/* Names that somebody once said are no topics: a bulk of all goes through those that there are. */
static void test_cluster_bulk_of_many_names(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.bulk = TR_BULK_CANCEL}};

    (void)state;
    assert_non_null(g);
    open_engine(g);
    for (unsigned i = 0; i < 1100; i++) {
        struct ask drop = {.r = {.hold = TR_HOLD_USE}};
        char name[16];

        (void)snprintf(name, sizeof name, "name-%u", i);
        drop.r.topic = hold(g, name);
        submit(g, &drop, TR_OP_DROP_TOPIC);
        assert_int_equal(drop.status, TARRY_OK);
    }
    submit(g, &a, TR_OP_BULK);
    (void)turn(g);
    say(g, find(g, "HKEYS", -1), NULL, 0);
    say_topics(g);
    assert_int_equal(a.done, 1);
    assert_int_equal(a.status, TARRY_OK);
    assert_int_equal(a.r.out.number, 0);
    finish(g);
    free(g);
}

/* That a topic is not there is said only of what was read for this very question. */
static void test_cluster_a_topic_that_another_node_makes(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.name = "orders", .name_len = 6}};

    (void)state;
    assert_non_null(g);
    open_engine(g);
    for (unsigned i = 0; i < 2; i++) {
        pass(g, 1);
        submit(g, &a, TR_OP_FIND_TOPIC);
        (void)turn(g);
        say_topics(g);
        say_counts(g, 0);
        assert_int_equal(a.done, i + 1);
        assert_int_equal(a.status, TARRY_ENOTFOUND);
    }
    pass(g, 1);
    submit(g, &a, TR_OP_FIND_TOPIC);
    (void)turn(g);
    say_known(g);
    say_counts(g, 1); /* there is a job now */
    assert_int_equal(a.done, 3);
    assert_int_equal(a.status, TARRY_OK);
    assert_int_equal(find(g, "HMGET", -1) == NULL, 1);
    finish(g);
    free(g);
}

/* A bulk of all begins with names that are not older than it is; a list that is under way is. */
static void test_cluster_bulk_of_names_of_now(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.bulk = TR_BULK_CANCEL}}, b = a;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    pass(g, 1);
    submit(g, &a, TR_OP_BULK);
    pass(g, 1);
    submit(g, &b, TR_OP_BULK);
    (void)turn(g);
    say_names(g, NULL, NULL);
    say_topics(g);
    assert_int_equal(a.done, 1);
    assert_int_equal(b.done, 0);
    say_names(g, "orders", NULL);
    say_known(g);
    assert_int_equal(b.done, 0);
    assert_non_null(find(g, NULL, TR_SCRIPT_BULK)); /* it marks where it ends */
    b.r.own = NULL;
    finish(g);
    free(g);
}

/* It is in the list of all before its first push is answered. */
static void test_cluster_a_topic_is_noted_before_its_push(void **state)
{
    static const char *const ids[] = {"00000000001401"};
    static const struct tr_span noted[] = {SPAN_OF("OK"), SPAN_OF("00000000-")};
    struct rig *g = malloc(sizeof *g);
    struct ask a, b;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    a = push_of(hold(g, "orders"), "x");
    b = a;
    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say(g, find(g, "HMGET", -1), &(struct tr_span){0}, 1);
    assert_null(find(g, NULL, TR_SCRIPT_PUSH));
    say(g, find(g, NULL, TR_SCRIPT_TOPIC), noted, 2);
    say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
    assert_int_equal(a.status, TARRY_OK);
    submit(g, &b, TR_OP_PUSH); /* and then at once */
    (void)turn(g);
    assert_null(find(g, NULL, TR_SCRIPT_TOPIC));
    say_pushed(g, find(g, NULL, TR_SCRIPT_PUSH), ids, 1);
    assert_int_equal(b.status, TARRY_OK);
    finish(g);
    free(g);
}

/* Newer settings are read as soon as a slot names them, once; and before they are shown. */
static void test_cluster_newer_settings(void **state)
{
    struct tr_span pushed[] = {SPAN("OK"), SPAN("06651728e2a000"), SPAN("00000005"), SPAN(""),
                               SPAN("N0000000000140106651728e2a000")};
    struct rig *g = malloc(sizeof *g);
    struct ask a, stat = {0};

    (void)state;
    assert_non_null(g);
    open_engine(g);
    a = push_of(hold(g, "orders"), "x");
    for (unsigned i = 0; i < 3; i++) {
        submit(g, &a, TR_OP_PUSH);
        (void)turn(g);
        if (i != 1) {
            say_known(g);
        }
        say(g, find(g, NULL, TR_SCRIPT_PUSH), pushed, 5);
        assert_int_equal(a.done, i + 1);
        assert_int_equal(find(g, "HMGET", -1) != NULL, i == 0);
        say_known(g); /* the list is behind */
    }
    pass(g, 1);
    stat.r.topic = a.r.topic;
    submit(g, &stat, TR_OP_STAT_TOPIC);
    (void)turn(g);
    assert_non_null(find(g, "HMGET", -1));
    say_known(g);
    say_counts(g, 3);
    assert_int_equal(stat.status, TARRY_OK);
    finish(g);
    free(g);
}

/* A slot has older settings than this node: it is told those that stand in the list. */
static void test_cluster_a_slot_is_told_what_was_read(void **state)
{
    struct tr_span pushed[] = {SPAN("OK"), SPAN("06651728e2a000"), SPAN("00000000"), SPAN(""),
                               SPAN("N0000000000140106651728e2a000")};
    struct tr_span five[] = {SPAN("00000005k")}, six[] = {SPAN("00000006k")};
    struct rig *g = malloc(sizeof *g);
    struct ask a;
    const struct sent *s;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    a = push_of(hold(g, "orders"), "x");
    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say(g, find(g, "HMGET", -1), five, 1);
    pass(g, 1);
    say(g, find(g, NULL, TR_SCRIPT_PUSH), pushed, 5);
    assert_null(find(g, NULL, TR_SCRIPT_CONF));
    say(g, find(g, "HMGET", -1), six, 1);
    s = find(g, NULL, TR_SCRIPT_CONF);
    assert_non_null(s);
    assert_string_equal(s->args[3 + strtoul(s->args[2], NULL, 10) + 9], "6");
    finish(g);
    free(g);
}

/* Housekeeping, what is noted of topics and words to others, in the order in which they were sent.
 */
static void say_all(struct rig *g)
{
    for (unsigned i = 0; i < g->sent_count; i++) {
        struct tr_span noted[] = {SPAN("OK"), SPAN("00000000-")};
        struct sent *s = &g->sent[i];

        if (!s->answered && !is_script(s, TR_SCRIPT_BEAT)) {
            say(g, s, noted, is_script(s, TR_SCRIPT_TOPIC) ? 2 : 0);
        }
    }
}

/* This node and another one live. */
static void say_lives(struct rig *g, const char *other)
{
    struct tr_span items[] = {SPAN("OK"),
                              SPAN("1800000000000000"),
                              SPAN("1800000010000000"),
                              SPAN("1"),
                              SPAN("4"),
                              SPAN("tarry:"),
                              SPAN("000102030405060708090a0b0c0d0e0f"),
                              SPAN(other),
                              SPAN(""),
                              SPAN("1122334455667788"),
                              SPAN("")};

    say_all(g);
    pass(g, 3 * SECOND);
    say(g, find(g, NULL, TR_SCRIPT_BEAT), items, sizeof items / sizeof items[0]);
    pass(g, 1);
}

/* How many words went to that node since so many commands. */
static unsigned words_to(const struct rig *g, unsigned since, const char *node)
{
    unsigned words = 0;

    for (unsigned i = since; i < g->sent_count; i++) {
        const struct sent *s = &g->sent[i];

        words += is_script(s, TR_SCRIPT_WAKE) && strstr(s->args[3], node) != NULL;
    }
    return words;
}

/* A slot got its first job of a topic, which its owner is told; then it is another node's, which
 * may have looked at it before it heard that it is its own. */
static void test_cluster_a_new_owner_is_told_again(void **state)
{
    static const char first[] = "00000000000000a1", second[] = "00000000000000b2";
    unsigned told = 0, told_again = 0;

    (void)state;
    for (unsigned i = 0; i < 8; i++) { /* topics of all slots: some are the other node's */
        struct tr_span pushed[] = {SPAN("OK"), SPAN("06651728e2a000"), SPAN("ffffffff"), SPAN(""),
                                   SPAN("N0000000000140106651728e2a000")};
        struct rig *g = malloc(sizeof *g);
        char topic[] = "orders0";
        struct ask a;
        unsigned since;

        assert_non_null(g);
        topic[6] = (char)('0' + i);
        open_engine(g);
        say_lives(g, first);
        a = push_of(hold(g, topic), "x");
        submit(g, &a, TR_OP_PUSH);
        (void)turn(g);
        say_topics(g);
        say(g, find(g, NULL, TR_SCRIPT_PUSH), pushed, 5);
        pass(g, 1);
        told += words_to(g, 0, first);
        assert_int_equal(words_to(g, 0, second), 0);
        since = g->sent_count;
        say_lives(g, second);
        assert_int_equal(words_to(g, since, second), words_to(g, 0, first));
        told_again += words_to(g, since, second);
        finish(g);
        free(g);
    }
    assert_true(told > 0 && told_again > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_kick_is_half_done),
        cmocka_unit_test(test_cluster_not_made),
        cmocka_unit_test(test_cluster_full_until_it_is_not),
        cmocka_unit_test(test_cluster_full_elsewhere),
        cmocka_unit_test(test_cluster_kick_of_two_slots),
        cmocka_unit_test(test_cluster_pause_is_half_done),
        cmocka_unit_test(test_cluster_next_topic),
        cmocka_unit_test(test_cluster_topic_that_went),
        cmocka_unit_test(test_cluster_a_topic_that_another_node_makes),
        cmocka_unit_test(test_cluster_bulk_of_names_of_now),
        cmocka_unit_test(test_cluster_a_topic_is_noted_before_its_push),
        cmocka_unit_test(test_cluster_newer_settings),
        cmocka_unit_test(test_cluster_a_slot_is_told_what_was_read),
        cmocka_unit_test(test_cluster_a_new_owner_is_told_again),
        cmocka_unit_test(test_cluster_flight),
        cmocka_unit_test(test_cluster_no_room),
        cmocka_unit_test(test_cluster_bulk_of_many_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
