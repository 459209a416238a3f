/* The engine on Redis: wake-ups, and hand-outs of which nobody hears. */

#include "cluster_rig.h"

/* The connection that blocks is up, and nothing is asked because of that. */
static void hear(struct rig *g)
{
    g->ear.up(g->ear.ctx, WAKE, g->now);
    (void)turn(g);
    assert_non_null(find(g, "BLPOP", -1));
}

static unsigned slot_of(const struct sent *take)
{
    const char *open = strchr(take->args[3], '{');

    assert_non_null(open);
    return (unsigned)strtoul(open + 1, NULL, 10);
}

static void say_wake(struct rig *g, const char *text)
{
    struct tr_span wake[] = {SPAN("key"), SPAN(text)};

    say(g, find(g, "BLPOP", -1), wake, 2);
}

/* Not before a wake-up names its topic and slot, and then at once. */
static void test_cluster_is_woken(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {0};
    uint32_t topic;
    char text[24];
    unsigned slot;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    hear(g);
    topic = hold(g, "orders");
    reserve(g, &a, &topic, 30 * SECOND);
    slot = slot_of(find(g, NULL, TR_SCRIPT_TAKE));
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0);
    say_agendas(g);
    pass(g, 2 * SECOND);
    assert_null(find(g, NULL, TR_SCRIPT_TAKE));
    (void)snprintf(text, sizeof text, "%u others 0", slot);
    say_wake(g, text);
    (void)snprintf(text, sizeof text, "%u orders 0", (slot + 1) % 4);
    say_wake(g, text);
    say_wake(g, "orders");
    assert_null(find(g, NULL, TR_SCRIPT_TAKE));
    (void)snprintf(text, sizeof text, "%u orders 0", slot);
    say_wake(g, text);
    assert_non_null(find(g, NULL, TR_SCRIPT_TAKE));
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401);
    assert_int_equal(a.status, TARRY_OK);
    finish(g);
    free(g);
}

/* Who waits for two is asked for at one of them, then at the other. A wake-up for that one comes
 * before its answer: it is asked once more, at once or when the job is due. */
static void woken_at_the_second(uint64_t in_us)
{
    static const char *const names[] = {"orders", "a", "b", "c", "d", "e", "f"};
    struct rig *g = malloc(sizeof *g);
    struct ask a = {0};
    struct tr_layout layout;
    uint32_t topics[2];
    unsigned other = 1, slot;
    char text[48], zeros[219];
    struct tr_span counts[] = {
        SPAN("OK"), SPAN("06651728e2a000"), SPAN("00000000"), SPAN(""), {zeros, sizeof zeros - 1}};

    assert_non_null(g);
    assert_int_equal(tr_layout_init(&layout, "tarry:", 4), TARRY_OK);
    while (tr_place_slot(&layout, names[other], 1, 0) == tr_place_slot(&layout, names[0], 6, 0)) {
        other++;
    }
    memset(zeros, '0', sizeof zeros);
    open_engine(g);
    hear(g);
    topics[0] = hold(g, names[0]);
    topics[1] = hold(g, names[other]);
    a.r.topics = topics;
    a.r.topic_count = 2;
    a.r.wait_us = 30 * SECOND;
    submit(g, &a, TR_OP_RESERVE);
    (void)turn(g);
    say_topics(g);
    say(g, find(g, NULL, TR_SCRIPT_COUNTS), counts, 5);
    say(g, find(g, NULL, TR_SCRIPT_COUNTS), counts, 5);
    slot = slot_of(find(g, NULL, TR_SCRIPT_TAKE));
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0);
    assert_non_null(find(g, NULL, TR_SCRIPT_TAKE));
    assert_int_not_equal(slot_of(find(g, NULL, TR_SCRIPT_TAKE)), slot);
    slot = slot_of(find(g, NULL, TR_SCRIPT_TAKE));
    (void)snprintf(text, sizeof text, "%u %s %llu", slot,
                   slot == tr_place_slot(&layout, names[0], 6, 0) ? names[0] : names[other],
                   in_us != 0 ? (unsigned long long)(0x06651728e2a000 + in_us) : 0);
    say_wake(g, text);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0);
    if (in_us != 0 && find(g, NULL, TR_SCRIPT_TAKE) == NULL) {
        pass(g, in_us);
    }
    assert_non_null(find(g, NULL, TR_SCRIPT_TAKE));
    assert_int_equal(slot_of(find(g, NULL, TR_SCRIPT_TAKE)), slot);
    finish(g);
    free(g);
}

static void test_cluster_is_woken_at_the_second(void **state)
{
    (void)state;
    woken_at_the_second(0);
    woken_at_the_second(SECOND / 2);
}

/* One that tells of all: each topic that somebody waits for is asked. */
static void test_cluster_all_are_woken(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {0}, b = {0};
    uint32_t topics[2];

    (void)state;
    assert_non_null(g);
    open_engine(g);
    hear(g);
    topics[0] = hold(g, "orders");
    topics[1] = hold(g, "mails");
    reserve(g, &a, &topics[0], 30 * SECOND);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0);
    reserve(g, &b, &topics[1], 30 * SECOND);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0);
    say_agendas(g);
    pass(g, 2 * SECOND);
    assert_null(find(g, NULL, TR_SCRIPT_TAKE));
    say_wake(g, "*");
    for (unsigned i = 0; i < 2; i++) {
        assert_non_null(find(g, NULL, TR_SCRIPT_TAKE));
        say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0);
    }
    assert_null(find(g, NULL, TR_SCRIPT_TAKE));
    finish(g);
    free(g);
}

enum { TOPICS = 140 };

/* All topics are there, without settings. */
static void say_known(struct rig *g, struct sent *s)
{
    struct tr_span items[ARGS];

    for (unsigned i = 0; i < s->count - 2; i++) {
        items[i] = (struct tr_span)SPAN("00000000-");
    }
    say(g, s, items, s->count - 2);
}

/* Another node waits for all topics of this push, or nobody does. No turn follows. */
static unsigned hear_push(struct rig *g, bool waits)
{
    struct sent *s = find(g, NULL, TR_SCRIPT_PUSH);
    unsigned keys = (unsigned)strtoul(s->args[2], NULL, 10);
    unsigned topics = (unsigned)strtoul(s->args[3 + keys + 5], NULL, 10);
    char waiters[18 * 64 + 1] = "";
    struct tr_span items[4 + 64] = {SPAN("OK"), SPAN("06651728e2a000"), {"", 0}, {waiters, 0}};

    for (unsigned i = 0; i < topics; i++) {
        if (waits) {
            (void)snprintf(waiters + 18 * (size_t)i, 19, "%02xb2b2b2b200000002", (i + 1) & 0xff);
        }
        items[4 + i] = (struct tr_span)SPAN("N0000000000140106651728e2a000");
    }
    items[3].len = strlen(waiters);
    answer_first(g, s->conn, (unsigned)(s - g->sent));
    s->answered = true;
    g->ear.heard(
        g->ear.ctx, s->conn, s->tag,
        &(struct tr_redis_reply){.event = TR_REDIS_LIST, .items = items, .count = 4 + topics},
        g->now);
    return topics;
}

static void push_all(struct rig *g, struct ask *a)
{
    for (unsigned i = 0; i < TOPICS; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "topic%u", i);
        a[i] = push_of(hold(g, name), "x");
        submit(g, &a[i], TR_OP_PUSH);
    }
    (void)turn(g);
}

/* More wake-ups at once than there is room for: then it is told to ask for all, and nothing is
 * thrown away. */
static void test_cluster_many_wakes(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask *a = calloc(TOPICS, sizeof *a);
    struct sent *s;
    unsigned told = 0;

    (void)state;
    assert_non_null(g);
    assert_non_null(a);
    open_engine(g);
    push_all(g, a);
    for (s = g->sent; s < g->sent + g->sent_count; s++) { /* once, so that all are known */
        if (!s->answered && strcmp(s->args[0], "HMGET") == 0) {
            say_known(g, s);
        } else if (!s->answered && is_script(s, TR_SCRIPT_PUSH)) {
            (void)hear_push(g, false);
            (void)turn(g);
        }
    }
    push_all(g, a);
    while (find(g, NULL, TR_SCRIPT_PUSH) != NULL) {
        told += hear_push(g, true);
    }
    assert_true(told > 64);
    (void)turn(g);
    s = find(g, NULL, TR_SCRIPT_WAKE);
    assert_non_null(s);
    assert_int_equal(s->count, 6);
    assert_string_equal(s->args[5], "*");
    finish(g);
    free(a);
    free(g);
}

/* Another node lives, too. */
static void say_two(struct rig *g)
{
    struct tr_span items[] = {SPAN("OK"),
                              SPAN("1800000000000000"),
                              SPAN("1800000010000000"),
                              SPAN("1"),
                              SPAN("4"),
                              SPAN("tarry:"),
                              SPAN("000102030405060708090a0b0c0d0e0f"),
                              SPAN("1122334455667788"),
                              SPAN(""),
                              SPAN("aaaaaaaaaaaaaaaa"),
                              SPAN("")};

    say(g, find(g, NULL, TR_SCRIPT_BEAT), items, sizeof items / sizeof items[0]);
}

/* A wake-up that Redis did not take is said once more: by then to ask for all. */
static void test_cluster_wake_again(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a;
    struct tr_span items[] = {SPAN("OK"), SPAN("06651728e2a000"), SPAN("00000000"),
                              SPAN("01aaaaaaaaaaaaaaaa"), SPAN("N0000000000140106651728e2a000")};

    (void)state;
    assert_non_null(g);
    open_engine(g);
    for (unsigned i = 0; i < 40 && find(g, NULL, TR_SCRIPT_BEAT) == NULL; i++) {
        say_agendas(g);
        pass(g, SECOND / 10);
    }
    say_two(g);
    a = push_of(hold(g, "orders"), "x");
    submit(g, &a, TR_OP_PUSH);
    (void)turn(g);
    say_topics(g);
    say(g, find(g, NULL, TR_SCRIPT_PUSH), items, 5);
    assert_non_null(find(g, NULL, TR_SCRIPT_WAKE));
    assert_string_not_equal(last_of(g, TR_SCRIPT_WAKE), "*");
    say_error(g, find(g, NULL, TR_SCRIPT_WAKE), "ERR no");
    assert_null(find(g, NULL, TR_SCRIPT_WAKE));
    for (unsigned i = 0; i < 12 && find(g, NULL, TR_SCRIPT_WAKE) == NULL; i++) {
        say_agendas(g);
        pass(g, SECOND / 10);
    }
    assert_string_equal(last_of(g, TR_SCRIPT_WAKE), "*");
    finish(g);
    free(g);
}

/* No answer, and the connection cannot be made again. */
static void lose(struct rig *g, unsigned tenths)
{
    for (unsigned i = 0; i < tenths; i++) {
        pass(g, SECOND / 10);
        if (g->dialed[0] && i > 6) {
            g->dialed[0] = false;
            g->ear.closed(g->ear.ctx, 0, "Connection refused", g->now);
        }
    }
}

static const char *own_of(const struct sent *take, unsigned i)
{
    return take->args[3 + 12 + 6 + 3 + i];
}

/* A take that was given up may have been done: then its jobs go back, before anything else. */
static void test_cluster_take_is_undone(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {0}, b = {0};
    uint32_t topic;
    struct sent *s;
    char heard[20];

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    reserve(g, &a, &topic, 0);
    (void)snprintf(heard, sizeof heard, "%s", op_of(find(g, NULL, TR_SCRIPT_TAKE)));
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401);
    assert_int_equal(a.status, TARRY_OK);
    reserve(g, &b, &topic, 0);
    assert_non_null(find(g, NULL, TR_SCRIPT_TAKE));
    lose(g, 40);
    assert_int_equal(b.done, 1);
    assert_int_equal(b.status, TARRY_EUNSURE);
    assert_false(tr_cluster_owes(g->engine)); /* nobody waits for a Redis that is away */
    for (unsigned i = 0; i < 40 && !g->dialed[0]; i++) {
        pass(g, SECOND / 10);
    }
    assert_true(g->dialed[0]);
    g->ear.up(g->ear.ctx, 0, g->now);
    say_text(g, find(g, "INFO", -1), good_info);
    assert_true(tr_cluster_owes(g->engine));
    for (unsigned i = 0; i < 40 && find(g, NULL, TR_SCRIPT_TAKE) == NULL; i++) {
        pass(g, SECOND / 10);
        if (find(g, NULL, TR_SCRIPT_TAKE) == NULL && find(g, NULL, TR_SCRIPT_BEAT) != NULL) {
            say_beat(g);
        }
        say_agendas(g);
    }
    s = find(g, NULL, TR_SCRIPT_TAKE);
    assert_non_null(s);
    assert_string_equal(own_of(s, 0), "0");
    assert_string_equal(own_of(s, 8), heard);
    b = (struct ask){0};
    b.r.topics = &topic;
    b.r.topic_count = 1;
    submit(g, &b, TR_OP_RESERVE); /* he is asked for when that is done */
    (void)turn(g);
    assert_int_equal(b.done, 0);
    say_job(g, s, 0);
    assert_false(tr_cluster_owes(g->engine) && find(g, NULL, TR_SCRIPT_TAKE) == NULL);
    s = find(g, NULL, TR_SCRIPT_TAKE);
    assert_non_null(s);
    assert_string_equal(own_of(s, 0), "1");
    say_job(g, s, 0x1801);
    assert_int_equal(b.status, TARRY_OK);
    assert_false(tr_cluster_owes(g->engine));
    finish(g);
    free(g);
}

/* A stop waits for jobs that go back. */
static void test_cluster_owes(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.holder = 7}}, close = {.r = {.holder = 7}};
    uint32_t topic;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    assert_false(tr_cluster_owes(g->engine));
    reserve(g, &a, &topic, 0);
    assert_true(tr_cluster_owes(g->engine)); /* one may come when he is gone */
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401);
    assert_false(tr_cluster_owes(g->engine)); /* it is his */
    submit(g, &close, TR_OP_CLOSE);
    assert_true(tr_cluster_owes(g->engine));
    (void)turn(g);
    assert_true(tr_cluster_owes(g->engine));
    say_edited(g, "N");
    assert_false(tr_cluster_owes(g->engine));
    finish(g);
    free(g);
}

/* A job that was reserved by its id, but could not be read: whoever asked hears that it failed, and
 * does not have it. */
static void reserve_unread(bool undone)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {.r = {.id = 0x1401, .holder = 7}}, get = {0};
    struct tr_header h = {.set = 'p',
                          .due_us = NOW,
                          .at_us = NOW + 60 * SECOND,
                          .attempts = 1,
                          .retries = TR_RETRIES_USUAL,
                          .topic = "orders",
                          .topic_len = 6};
    char text[1 + TR_HEADER_MAX] = "O";
    struct tr_span items[] = {
        SPAN("OK"), SPAN("06651728e2a000"), SPAN("00000000"), SPAN(""), SPAN(""), SPAN("body")};
    uint32_t topic;

    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    reserve(g, &get, &topic, 0);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401); /* so its topic is known */
    submit(g, &a, TR_OP_RESERVE_JOB);
    (void)turn(g);
    assert_non_null(find(g, NULL, TR_SCRIPT_EDIT));
    items[4] = (struct tr_span){text, 1 + tr_header_write(text + 1, &h)};
    say(g, find(g, NULL, TR_SCRIPT_EDIT), items, 5);
    assert_non_null(find(g, NULL, TR_SCRIPT_LOOK));
    if (undone) { /* by a failover: it is ready */
        h.set = 'r';
        items[4] = (struct tr_span){text, tr_header_write(text, &h)};
        say(g, find(g, NULL, TR_SCRIPT_LOOK), items, 6);
    } else {
        say_error(g, find(g, NULL, TR_SCRIPT_LOOK), "ERR no");
    }
    assert_int_equal(a.done, 1);
    assert_int_equal(a.status, undone ? TARRY_ENOTFOUND : TARRY_EIO);
    assert_non_null(find(g, NULL, TR_SCRIPT_EDIT)); /* it goes back */
    assert_int_equal(last_of(g, TR_SCRIPT_EDIT)[0], 'G');
    finish(g);
    free(g);
}

static void test_cluster_reserved_unread(void **state)
{
    (void)state;
    reserve_unread(false);
    reserve_unread(true);
}

/* It does not go beside another call of the slot: what gives it back has to be behind it. */
static void test_cluster_reserved_in_order(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask get = {0}, drop = {0}, a = {.r = {.id = 0x1401, .holder = 7}};
    uint32_t topic;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    reserve(g, &get, &topic, 0);
    say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401);
    drop.r.id = 0x1401;
    drop.r.lease = get.lease;
    submit(g, &drop, TR_OP_DELETE);
    (void)turn(g);
    submit(g, &a, TR_OP_RESERVE_JOB);
    (void)turn(g);
    say_edited(g, "N");
    assert_int_equal(drop.status, TARRY_ENOTFOUND);
    assert_non_null(find(g, NULL, TR_SCRIPT_EDIT));
    assert_int_equal(op_of(find(g, NULL, TR_SCRIPT_EDIT))[0], '0');
    say_edited(g, "N");
    assert_int_equal(a.status, TARRY_ENOTFOUND);
    finish(g);
    free(g);
}

/* The end of the process, in the midst of it. */
static void test_cluster_reserved_at_the_end(void **state)
{
    (void)state;
    for (unsigned steps = 0; steps < 2; steps++) {
        struct rig *g = malloc(sizeof *g);
        struct ask a = {.r = {.id = 0x1401, .holder = 7}}, get = {0};
        uint32_t topic;

        assert_non_null(g);
        open_engine(g);
        topic = hold(g, "orders");
        reserve(g, &get, &topic, 0);
        say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0x1401);
        submit(g, &a, TR_OP_RESERVE_JOB);
        if (steps > 0) {
            (void)turn(g);
        }
        finish(g);
        free(g);
    }
}

/* A slot says that its topic has more of them, and there is no memory for that: who waits stays. */
static void test_cluster_spread_without_memory(void **state)
{
    struct rig *g = malloc(sizeof *g);
    struct ask a = {0};
    struct tr_span items[] = {SPAN("SPREAD"), SPAN("orders"), SPAN("4")};
    uint32_t topic;

    (void)state;
    assert_non_null(g);
    open_engine(g);
    topic = hold(g, "orders");
    reserve(g, &a, &topic, 30 * SECOND);
    g->mem.fail_at = g->mem.calls + 1;
    say(g, find(g, NULL, TR_SCRIPT_TAKE), items, 3);
    assert_int_equal(a.done, 0);
    for (unsigned i = 0; i < 8 && find(g, NULL, TR_SCRIPT_TAKE) == NULL; i++) {
        say_agendas(g);
        pass(g, SECOND / 10);
    }
    say(g, find(g, NULL, TR_SCRIPT_TAKE), items, 3);
    for (unsigned i = 0; i < 8 && find(g, NULL, TR_SCRIPT_TAKE) == NULL; i++) {
        say_agendas(g);
        pass(g, SECOND / 10);
    }
    for (unsigned i = 0; i < 4; i++) { /* each of its slots is asked */
        assert_non_null(find(g, NULL, TR_SCRIPT_TAKE));
        say_job(g, find(g, NULL, TR_SCRIPT_TAKE), 0);
    }
    assert_int_equal(a.done, 0);
    finish(g);
    free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_is_woken),
        cmocka_unit_test(test_cluster_all_are_woken),
        cmocka_unit_test(test_cluster_many_wakes),
        cmocka_unit_test(test_cluster_take_is_undone),
        cmocka_unit_test(test_cluster_is_woken_at_the_second),
        cmocka_unit_test(test_cluster_wake_again),
        cmocka_unit_test(test_cluster_owes),
        cmocka_unit_test(test_cluster_reserved_unread),
        cmocka_unit_test(test_cluster_reserved_in_order),
        cmocka_unit_test(test_cluster_reserved_at_the_end),
        cmocka_unit_test(test_cluster_spread_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
