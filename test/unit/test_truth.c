/* What changes do to rows. The rows stand in an array; the database's part is in test_sql_port.py.
 */

#include "base/rng.h"
#include "cluster/truth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)
#define START (UINT64_C(1800000000) * SECOND)

/* A table with one row, its topic, and the time. */
struct bench {
    uint64_t now_us;
    uint32_t gen;
    bool there;
    struct tr_sql_job row;
    struct tr_sql_item item;
    struct tr_truth op;
    uint32_t version;          /* of the topic's settings; */
    struct tr_sql_topic other; /* not 0: those, of which the asker has not heard */
    uint8_t policy[TR_POLICY_BYTES_MAX];
};

/* Does b->op to the row, as a transaction would; gives what was said. */
static enum tr_truth_said run(struct bench *b, enum tr_truth_what what)
{
    struct tr_sql_ask ask = {.items = &b->item, .count = 1, .now_us = b->now_us};

    b->op.what = what;
    b->item = (struct tr_sql_item){.by = what == TR_TRUTH_PUSH ? TR_SQL_NEW_KEY : TR_SQL_BY_ID,
                                   .id = b->there ? b->row.id : 7,
                                   .topic = 3,
                                   .ctx = &b->op,
                                   .found = b->there,
                                   .row = b->row,
                                   .gen = b->gen,
                                   .version = b->version,
                                   .other = b->other.id != 0 ? &b->other : NULL};
    tr_truth_decide(&ask, 0, 1);
    tr_truth_decide(&ask, 0, 1); /* a deadlock: again, and the same */
    switch (b->item.write) {
    case TR_SQL_LEAVE:
        assert_int_equal(b->item.event_count, 0);
        break;
    case TR_SQL_DELETE:
        b->there = false;
        break;
    default:
        assert_true(b->item.write == TR_SQL_INSERT || b->item.next.ver > b->row.ver);
        b->row = b->item.next;
        b->there = true;
        assert_int_equal(b->item.event_count, b->op.noted == TR_HISTORY_OFF ? 0 : 1);
        break;
    }
    return b->op.said;
}

/* A job that is due in so many seconds. */
static struct bench make(uint64_t delay_s)
{
    struct bench b = {.now_us = START, .gen = 1};

    b.op = (struct tr_truth){.history = TR_HISTORY_FULL,
                             .delay_us = delay_s * SECOND,
                             .job = {.retries = TR_RETRIES_USUAL, .priority = 5}};
    assert_int_equal(run(&b, TR_TRUTH_PUSH), TR_TRUTH_DONE);
    assert_int_equal(b.row.due_us, START + delay_s * SECOND);
    assert_int_equal(b.row.next_us, b.row.due_us);
    assert_int_equal(b.row.ver, 1);
    b.op.keep_priority = true;
    return b;
}

static enum tr_truth_said take(struct bench *b, uint64_t lease)
{
    b->op.lease = lease;
    return run(b, TR_TRUTH_CLAIM);
}

static void test_truth_claim_is_never_early(void **state)
{
    struct bench b = make(10);

    (void)state;
    b.now_us = b.row.due_us - 1;
    assert_int_equal(take(&b, 1), TR_TRUTH_STATE);
    assert_int_equal(b.item.write, TR_SQL_LEAVE);
    assert_int_equal(b.op.is.due_us, b.row.due_us); /* for the index */
    b.now_us++;
    assert_int_equal(take(&b, 1), TR_TRUTH_DONE);
    assert_int_equal(b.row.state, TR_SQL_RESERVED);
    assert_int_equal(b.row.next_us, b.now_us + 60 * SECOND);
    assert_int_equal(b.row.handed_us, b.now_us);
    assert_int_equal(take(&b, 2), TR_TRUTH_STATE); /* somebody has it */
    assert_int_equal(b.row.lease, 1);
}

static void test_truth_delay_counts_from_the_asking(void **state)
{
    struct bench b = {.now_us = START,
                      .op = {.history = TR_HISTORY_FULL, .delay_us = SECOND, .age_us = 300}};

    (void)state;
    assert_int_equal(run(&b, TR_TRUTH_PUSH), TR_TRUTH_DONE);
    assert_int_equal(b.row.due_us, START + SECOND - 300);
    b.there = false;
    b.op.at_us = START - 1; /* the past is now */
    assert_int_equal(run(&b, TR_TRUTH_PUSH), TR_TRUTH_DONE);
    assert_int_equal(b.row.due_us, START);
}

static void test_truth_purged_is_gone(void **state)
{
    struct bench b = make(0);

    (void)state;
    b.gen++;
    assert_int_equal(take(&b, 1), TR_TRUTH_NONE);
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_NONE);
    assert_true(b.there);
    b.op.conflict = TR_CONFLICT_ERROR;
    assert_int_equal(run(&b, TR_TRUTH_PUSH), TR_TRUTH_DONE); /* its key is free */
    assert_int_equal(b.row.gen, b.gen);
}

static void test_truth_push_minds_settings(void **state)
{
    struct bench b = {.now_us = START,
                      .op = {.history = TR_HISTORY_FULL, .minds_version = true, .version = 2}};

    (void)state;
    assert_int_equal(run(&b, TR_TRUTH_PUSH), TR_TRUTH_STALE); /* the database has version 0 */
    assert_false(b.there);
    b.op.version = 0;
    assert_int_equal(run(&b, TR_TRUTH_PUSH), TR_TRUTH_DONE);
    assert_true(b.there);
}

/* The asker has settings of version 4; there are others, which are encoded here. */
static void know_older(struct bench *b, const struct tr_policy *p)
{
    b->other = (struct tr_sql_topic){
        .id = 3, .version = 5, .policy = {(const char *)b->policy, tr_policy_encode(b->policy, p)}};
    b->version = 5;
}

static void test_truth_goes_by_settings_that_were_read(void **state)
{
    struct bench b = make(0);
    struct tr_policy p = tr_policy_default();

    (void)state;
    p.given = TR_POLICY_BIT(TTR) | TR_POLICY_BIT(RETRIES) | TR_POLICY_BIT(HISTORY);
    p.ttr_us = 7 * SECOND; /* these two were fixed by the push */
    p.retries = 0;
    p.history = TR_HISTORY_OFF;
    know_older(&b, &p);
    assert_int_equal(take(&b, 1), TR_TRUTH_DONE);
    assert_int_equal(b.row.next_us, b.now_us + 60 * SECOND);
    assert_int_equal(b.item.event_count, 0);
    assert_int_equal(run(&b, TR_TRUTH_RELEASE), TR_TRUTH_DONE);
    b.other.policy = (struct tr_span){"", 0}; /* all is as by default again */
    b.op.ttr_us = 0;
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_DONE);
    assert_int_equal(b.item.events[0].why, TR_WHY_CANCELLED);
}

static void test_truth_a_claim_by_older_settings_is_not_done(void **state)
{
    struct bench b = make(0);
    struct tr_policy p = tr_policy_default();

    (void)state;
    p.given = TR_POLICY_BIT(HISTORY);
    p.history = TR_HISTORY_FULL;
    know_older(&b, &p);
    b.op.minds_version = true;
    b.op.version = 4;
    assert_int_equal(take(&b, 1), TR_TRUTH_STALE);
    assert_int_equal(b.row.state, TR_SQL_WAITING);
    assert_int_equal(b.op.is.id, b.row.id); /* its image goes back into the index */
    b.op.version = 6;                       /* the slot has heard of them first */
    assert_int_equal(take(&b, 1), TR_TRUTH_DONE);
}

static void test_truth_leases(void **state)
{
    static const enum tr_truth_what leased[] = {TR_TRUTH_ACK,   TR_TRUTH_RELEASE, TR_TRUTH_RETURN,
                                                TR_TRUTH_LEAVE, TR_TRUTH_BURY,    TR_TRUTH_TOUCH};

    (void)state;
    for (size_t i = 0; i < sizeof leased / sizeof leased[0]; i++) {
        struct bench b = make(0);

        b.op.lease = 0;
        assert_int_equal(run(&b, leased[i]), TR_TRUTH_LOST); /* nobody has it */
        assert_int_equal(take(&b, 9), TR_TRUTH_DONE);
        b.op.lease = 8;
        assert_int_equal(run(&b, leased[i]), TR_TRUTH_LOST);
        assert_int_equal(b.item.write, TR_SQL_LEAVE);
        b.op.lease = 9;
        b.now_us = b.row.next_us; /* it has ended, to the microsecond: that is written */
        assert_int_equal(run(&b, leased[i]), TR_TRUTH_LOST);
        assert_int_equal(b.item.write, TR_SQL_UPDATE);
        assert_int_equal(b.row.timeouts, 1);
        assert_int_equal(b.row.state, TR_SQL_WAITING);
        b.now_us = b.row.due_us;
        assert_int_equal(take(&b, 9), TR_TRUTH_DONE);
        b.now_us = b.row.next_us - 1;
        assert_int_equal(run(&b, leased[i]), TR_TRUTH_DONE);
        assert_int_equal(b.there, leased[i] != TR_TRUTH_ACK);
    }
}

static void test_truth_attempts_end(void **state)
{
    struct bench b = make(0);
    unsigned handed = 0;

    (void)state;
    b.row.retries = 2;
    b.op.by_backoff = true;
    while (take(&b, 1) == TR_TRUTH_DONE) {
        handed++;
        (void)run(&b, TR_TRUTH_RELEASE);
        b.now_us = b.row.due_us > b.now_us ? b.row.due_us : b.now_us;
    }
    assert_int_equal(handed, 3);
    assert_int_equal(b.row.state, TR_SQL_DEAD);
    assert_int_equal(b.row.why, TR_WHY_RETRIES);
    assert_int_equal(run(&b, TR_TRUTH_KICK), TR_TRUTH_DONE);
    assert_int_equal(b.row.attempts, 0);
    assert_int_equal(take(&b, 2), TR_TRUTH_DONE);
    b.row.retries = TR_RETRIES_USUAL;
    b.row.flags |= TR_HEADER_BEANSTALK; /* there it has no end, unless one was given */
    b.row.attempts = 100;
    assert_int_equal(run(&b, TR_TRUTH_LEAVE), TR_TRUTH_DONE);
    assert_int_equal(take(&b, 2), TR_TRUTH_DONE);
    b.row.retries = 2;
    assert_int_equal(run(&b, TR_TRUTH_LEAVE), TR_TRUTH_DIED);
}

static void test_truth_expires_once(void **state)
{
    struct bench b = make(10);

    (void)state;
    b.row.ttl_us = 5 * SECOND;
    b.now_us = b.row.due_us + 5 * SECOND - 1;
    assert_int_equal(run(&b, TR_TRUTH_TEND), TR_TRUTH_DONE);
    assert_int_equal(b.item.write, TR_SQL_LEAVE);
    b.now_us++;
    assert_int_equal(take(&b, 1), TR_TRUTH_STATE);
    assert_int_equal(b.row.state, TR_SQL_DEAD);
    assert_int_equal(b.row.why, TR_WHY_EXPIRED);
    assert_int_equal(b.row.next_us, b.now_us);
}

static void test_truth_drop_is_of_one_death(void **state)
{
    struct bench b = make(0);

    (void)state;
    b.op.at_us = b.now_us;
    assert_int_equal(run(&b, TR_TRUTH_DROP), TR_TRUTH_STATE); /* it waits */
    assert_int_equal(run(&b, TR_TRUTH_BURY_FREE), TR_TRUTH_DONE);
    assert_int_equal(run(&b, TR_TRUTH_KICK), TR_TRUTH_DONE);
    b.now_us += SECOND;
    assert_int_equal(run(&b, TR_TRUTH_BURY_FREE), TR_TRUTH_DONE);
    assert_int_equal(run(&b, TR_TRUTH_DROP), TR_TRUTH_STATE); /* and has died again since */
    b.op.at_us = b.now_us;
    assert_int_equal(run(&b, TR_TRUTH_DROP), TR_TRUTH_DONE);
    assert_false(b.there);
    assert_int_equal(b.item.events[0].why, TR_WHY_DROPPED);
}

static void test_truth_keys(void **state)
{
    struct bench b = make(10);

    (void)state;
    b.op.conflict = TR_CONFLICT_KEEP;
    assert_int_equal(run(&b, TR_TRUTH_PUSH), TR_TRUTH_KEPT);
    b.op.conflict = TR_CONFLICT_ERROR;
    assert_int_equal(run(&b, TR_TRUTH_PUSH), TR_TRUTH_EXISTS);
    assert_int_equal(b.row.ver, 1);
    b.op.conflict = TR_CONFLICT_REPLACE;
    b.op.delay_us = 0;
    b.now_us += 3;
    assert_int_equal(run(&b, TR_TRUTH_PUSH), TR_TRUTH_REPLACED);
    assert_int_equal(b.row.ver, 2);
    assert_int_equal(b.row.created_us, START);
    assert_int_equal(b.row.due_us, START + 3);
    assert_true(b.item.with_body);
    assert_int_equal(take(&b, 1), TR_TRUTH_DONE);
    assert_int_equal(run(&b, TR_TRUTH_PUSH), TR_TRUTH_STATE); /* reserved: 409 */
    assert_int_equal(b.row.lease, 1);
}

static void test_truth_cancel_fire_edit(void **state)
{
    struct bench b = make(10);

    (void)state;
    b.op.edit = TR_EDIT_DUE | TR_EDIT_PRIORITY | TR_EDIT_BODY;
    b.op.delay_us = 20 * SECOND;
    b.op.job.priority = 77;
    b.op.job.body = (struct tr_span){"new", 3};
    assert_int_equal(run(&b, TR_TRUTH_EDIT), TR_TRUTH_DONE);
    assert_int_equal(b.row.due_us, START + 20 * SECOND);
    assert_int_equal(b.row.priority, 77);
    assert_int_equal(b.row.body_len, 3);
    assert_true(b.item.with_body);
    assert_int_equal(run(&b, TR_TRUTH_FIRE), TR_TRUTH_DONE);
    assert_false(b.item.with_body);
    assert_int_equal(run(&b, TR_TRUTH_FIRE), TR_TRUTH_STATE);
    assert_int_equal(take(&b, 4), TR_TRUTH_DONE);
    assert_int_equal(run(&b, TR_TRUTH_EDIT), TR_TRUTH_STATE);
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_STATE);
    assert_int_equal(run(&b, TR_TRUTH_BURY_FREE), TR_TRUTH_STATE);
    b.op.force = true;
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_DONE);
    assert_false(b.there);
    assert_int_equal(b.item.events[0].event, TR_EVENT_GONE);
    assert_int_equal(b.item.events[0].why, TR_WHY_CANCELLED);
    assert_non_null(strstr(b.op.info, "attempts=1"));
}

static void test_truth_shift(void **state)
{
    struct bench b = make(10);

    (void)state;
    b.op.shift_us = 5 * (int64_t)SECOND;
    assert_int_equal(run(&b, TR_TRUTH_SHIFT), TR_TRUTH_DONE);
    assert_int_equal(b.row.due_us, START + 15 * SECOND);
    b.op.shift_us = -(int64_t)TR_DELAY_MAX_US; /* the past means now */
    assert_int_equal(run(&b, TR_TRUTH_SHIFT), TR_TRUTH_DONE);
    assert_int_equal(b.row.due_us, START);
    b.now_us += 3 * SECOND; /* it is due: not later when it is to be sooner */
    b.op.shift_us = -1;
    assert_int_equal(run(&b, TR_TRUTH_SHIFT), TR_TRUTH_DONE);
    assert_int_equal(b.row.due_us, START);
    b.op.at_us = START + 60 * SECOND;
    assert_int_equal(run(&b, TR_TRUTH_SHIFT), TR_TRUTH_DONE);
    assert_int_equal(b.row.due_us, START + 60 * SECOND);
    b.op.at_us = b.now_us + TR_DELAY_MAX_US + 1;
    assert_int_equal(run(&b, TR_TRUTH_SHIFT), TR_TRUTH_STATE);
    b.now_us = START + 60 * SECOND;
    assert_int_equal(take(&b, 1), TR_TRUTH_DONE);
    assert_int_equal(run(&b, TR_TRUTH_SHIFT), TR_TRUTH_STATE);
}

static void test_truth_one_of_many(void **state)
{
    struct bench b = make(10);

    (void)state;
    b.op.many = true;
    b.op.made_us = START - 1;
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_UNMEANT); /* it came later */
    b.op.made_us = START;
    b.op.since_us = START;
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_UNMEANT); /* it was changed since */
    b.op.since_us = START + 1;
    b.op.filter = (struct tr_filter){.states = 1U << TR_READY};
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_UNMEANT);
    b.op.filter = (struct tr_filter){.due_from_us = START + 10 * SECOND + 1};
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_UNMEANT);
    b.op.filter = (struct tr_filter){.due_to_us = START + 10 * SECOND};
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_UNMEANT);
    b.op.filter = (struct tr_filter){.tag = "a", .tag_len = 1};
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_UNMEANT);
    assert_true(b.there);
    b.op.filter = (struct tr_filter){.states = 1U << TR_DELAYED, .due_to_us = b.row.due_us + 1};
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_DONE);
    assert_false(b.there);
}

static void test_truth_sweep_takes_only_what_was_purged(void **state)
{
    struct bench b = make(0);

    (void)state;
    (void)run(&b, TR_TRUTH_SWEEP);
    assert_true(b.there);
    b.gen++;
    (void)run(&b, TR_TRUTH_SWEEP);
    assert_false(b.there);
    (void)run(&b, TR_TRUTH_SWEEP);
    assert_int_equal(b.item.write, TR_SQL_LEAVE);
}

static void test_truth_history_is_as_wished(void **state)
{
    struct bench b = make(0);

    (void)state;
    b.op.history = TR_HISTORY_BRIEF;
    b.op.lease = 1;
    {
        struct tr_sql_ask ask = {.items = &b.item, .count = 1, .now_us = b.now_us};

        b.op.what = TR_TRUTH_CLAIM;
        b.item =
            (struct tr_sql_item){.id = 7, .ctx = &b.op, .found = true, .row = b.row, .gen = b.gen};
        tr_truth_decide(&ask, 0, 1);
        assert_int_equal(b.item.write, TR_SQL_UPDATE);
        assert_int_equal(b.item.event_count, 0);
    }
    assert_int_equal(run(&b, TR_TRUTH_CANCEL), TR_TRUTH_DONE);
    assert_int_equal(b.item.event_count, 1);
}

/* A header made of a row is one that Redis could have. */
static void check_header(const struct bench *b)
{
    struct tr_header h, again;
    char text[TR_HEADER_MAX];
    size_t len;

    tr_truth_header(&b->row, (struct tr_span){"t", 1}, b->now_us, &h);
    len = tr_header_write(text, &h);
    assert_int_equal(tr_header_read(text, len, &again), 0);
    assert_int_equal(tr_header_state(&again, b->now_us), tr_truth_state(&b->row, b->now_us));
    assert_int_equal(again.set, h.set);
    assert_int_equal(again.ver, b->row.ver);
    assert_int_equal(again.due_us, b->row.due_us);
    assert_int_equal(again.lease, b->row.lease);
    assert_int_equal(again.attempts, b->row.attempts);
    assert_int_equal(again.at_us, b->row.state == TR_SQL_WAITING ? 0 : b->row.next_us);
}

/* At random, against what has to hold of any row. */
static void test_truth_any_order_of_changes(void **state)
{
    struct tr_rng rng = {.state = 5};

    (void)state;
    for (unsigned round = 0; round < 300; round++) {
        struct bench b = make(tr_rng_below(&rng, 5));
        uint64_t leases = 0;

        b.row.retries = 3;
        for (unsigned i = 0; i < 60 && b.there; i++) {
            enum tr_truth_what what =
                1 + (enum tr_truth_what)tr_rng_below(&rng, TR_TRUTH_COUNT - 1);
            struct tr_sql_job was = b.row;
            bool hands = what == TR_TRUTH_CLAIM || what == TR_TRUTH_RESERVE;
            enum tr_truth_said said;

            b.now_us += tr_rng_below(&rng, 30 * SECOND);
            b.op.lease = hands ? ++leases : leases - tr_rng_below(&rng, 2) * (leases > 0);
            b.op.delay_us = tr_rng_below(&rng, 40 * SECOND);
            b.op.by_backoff = tr_rng_below(&rng, 2) == 0;
            b.op.held = tr_rng_below(&rng, 2) == 0;
            b.op.random = tr_rng_next(&rng);
            said = run(&b, what);
            if (hands && said == TR_TRUTH_DONE) {
                assert_true(was.state != TR_SQL_RESERVED || was.next_us <= b.now_us);
                assert_true(what != TR_TRUTH_CLAIM || was.due_us <= b.now_us);
                assert_int_equal(b.row.lease, b.op.lease);
            }
            if (b.there) {
                check_header(&b);
                assert_true(b.row.ver >= was.ver);
                assert_true((b.row.lease != 0) == (b.row.state == TR_SQL_RESERVED));
                assert_true(b.row.state != TR_SQL_WAITING || b.row.next_us == b.row.due_us);
                assert_true((b.row.why != 0) == (b.row.state == TR_SQL_DEAD));
                assert_true(b.row.state == TR_SQL_RESERVED || (b.row.flags & TR_HEADER_HELD) == 0);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truth_claim_is_never_early),
        cmocka_unit_test(test_truth_delay_counts_from_the_asking),
        cmocka_unit_test(test_truth_purged_is_gone),
        cmocka_unit_test(test_truth_push_minds_settings),
        cmocka_unit_test(test_truth_goes_by_settings_that_were_read),
        cmocka_unit_test(test_truth_a_claim_by_older_settings_is_not_done),
        cmocka_unit_test(test_truth_shift),
        cmocka_unit_test(test_truth_one_of_many),
        cmocka_unit_test(test_truth_sweep_takes_only_what_was_purged),
        cmocka_unit_test(test_truth_leases),
        cmocka_unit_test(test_truth_attempts_end),
        cmocka_unit_test(test_truth_expires_once),
        cmocka_unit_test(test_truth_keys),
        cmocka_unit_test(test_truth_cancel_fire_edit),
        cmocka_unit_test(test_truth_drop_is_of_one_death),
        cmocka_unit_test(test_truth_history_is_as_wished),
        cmocka_unit_test(test_truth_any_order_of_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
