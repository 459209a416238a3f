/* Puts and deletes that are asked before the one before was answered: their replies are in order.
 */

#include "proto/beanstalk.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 40 };

/* A queue that answers when it is told to, but for topics. */
struct slow {
    struct tr_mem mem;
    struct tr_bs_port port;
    struct tr_bs_session session;
    struct tr_req *asked[MOST]; /* NULL: answered, or abandoned */
    unsigned count;
    unsigned woken;
    unsigned abandoned;
    bool waited;
};

static void submit(void *ctx, struct tr_req *r, struct tr_now now)
{
    struct slow *q = ctx;

    (void)now;
    r->out.status = TARRY_OK;
    r->out.gate = 0;
    if (r->op == TR_OP_PUSH || r->op == TR_OP_DELETE || r->op == TR_OP_RESERVE) {
        assert_true(q->count < MOST);
        q->asked[q->count++] = r;
        return;
    }
    r->out.topic = 1;
    r->done(r);
}

static void abandon(void *ctx, struct tr_req *r, struct tr_now now)
{
    struct slow *q = ctx;

    (void)now;
    for (unsigned i = 0; i < q->count; i++) {
        if (q->asked[i] == r) {
            q->asked[i] = NULL;
            q->abandoned++;
            return;
        }
    }
    fail_msg("it was not asked");
}

static unsigned work(void *ctx)
{
    (void)ctx;
    return 1;
}

static bool waited(void *ctx, uint32_t topic)
{
    const struct slow *q = ctx;

    assert_int_equal(topic, 1);
    return q->waited;
}

static void woken(void *ctx, struct tr_bs_session *s)
{
    struct slow *q = ctx;

    (void)s;
    q->woken++;
}

static void start(struct slow *q, unsigned ahead)
{
    *q = (struct slow){.port = {.body_max = 65535, .output_max = 65536, .ahead_max = ahead}};
    tr_mem_init(&q->mem, 0);
    q->port.mem = &q->mem;
    q->port.ctx = q;
    q->port.woken = woken;
    q->port.queue = (struct tr_queue){
        .ctx = q, .submit = submit, .abandon = abandon, .work = work, .waited = waited};
    tr_bs_open(&q->session, &q->port, 1, (struct tr_now){0});
}

static void end(struct slow *q)
{
    tr_bs_close(&q->session, (struct tr_now){0});
    assert_true(tr_bs_gone(&q->session));
    assert_int_equal(q->mem.used_bytes, 0);
}

/* How many bytes of it are taken. */
static size_t feed(struct slow *q, const char *text)
{
    return tr_bs_feed(&q->session, (const uint8_t *)text, strlen(text), (struct tr_now){0});
}

static void answer(struct slow *q, unsigned i, int status)
{
    struct tr_req *r = q->asked[i];

    assert_non_null(r);
    q->asked[i] = NULL;
    r->out.status = status;
    r->out.job.id = 100 + i;
    r->done(r);
}

static void says(struct slow *q, const char *text)
{
    const uint8_t *bytes;
    size_t len = tr_output_ready(&q->session.out, UINT64_MAX, &bytes);

    assert_int_equal(len, strlen(text));
    if (len > 0) {
        assert_memory_equal(bytes, text, len);
    }
    tr_output_drop(&q->session.out, len);
}

static void test_ahead_replies_are_in_order(void **state)
{
    static const char text[] =
        "put 0 0 1 1\r\na\r\nput 7 5 1 2\r\nbb\r\ndelete 9\r\nput 0 0 1 0\r\n\r\n";
    struct slow q;

    (void)state;
    start(&q, 8);
    assert_int_equal(feed(&q, text), sizeof text - 1);
    assert_int_equal(q.count, 4);
    assert_int_equal(q.asked[1]->priority, 7);
    assert_int_equal(q.asked[1]->delay_us, 5000000);
    assert_int_equal(q.asked[1]->ttr_us, 1000000);
    assert_int_equal(q.asked[1]->topic, 1);
    assert_int_equal(q.asked[1]->holder, 1);
    assert_memory_equal(q.asked[1]->body, "bb", 2);
    assert_int_equal(q.asked[2]->op, TR_OP_DELETE);
    assert_int_equal(q.asked[2]->id, 9);
    assert_int_equal(q.asked[3]->body_len, 0);
    assert_int_equal(q.port.counts[TR_BS_PUT], 3);
    assert_int_equal(q.port.counts[TR_BS_DELETE], 1);
    answer(&q, 1, TARRY_OK);
    answer(&q, 3, TARRY_OK);
    says(&q, "");
    assert_int_equal(q.woken, 0);
    answer(&q, 0, TARRY_OK);
    says(&q, "INSERTED 100\r\nINSERTED 101\r\n");
    assert_int_equal(tr_bs_want(&q.session), TR_WANT_ANSWER);
    answer(&q, 2, TARRY_ENOTFOUND);
    says(&q, "NOT_FOUND\r\nINSERTED 103\r\n");
    assert_int_equal(tr_bs_want(&q.session), TR_WANT_INPUT);
    assert_int_equal(q.woken, 2);
    end(&q);
}

static void test_ahead_errors_are_those_of_the_command(void **state)
{
    struct slow q;

    (void)state;
    start(&q, 8);
    assert_int_equal(feed(&q, "delete 1\r\nput 0 0 1 1\r\na\r\ndelete 2\r\n"), 36);
    answer(&q, 1, TARRY_EAWAY);
    answer(&q, 2, TARRY_EAWAY);
    answer(&q, 0, TARRY_EAWAY);
    says(&q, "INTERNAL_ERROR\r\nDRAINING\r\nINTERNAL_ERROR\r\n");
    end(&q);
}

static void test_ahead_all_else_waits(void **state)
{
    static const char *const texts[] = {
        "use x\r\n",
        "reserve\r\n",
        "put 0 0 1 1\r\n",
        "put 0 0 1 1\r\nab\r",
        "put 0 0 1 1\r\nabc\r\n",
        "put 0 0 1 65536\r\n",
        "put 0 0 1 x\r\n",
        "delete x\r\n",
        "delete 1",
        "nonsense\r\n",
        "put 0 0 1 5000\r\n",
        "quit\r\n",
    };

    (void)state;
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct slow q;

        start(&q, 8);
        assert_int_equal(feed(&q, "put 0 0 1 1\r\na\r\n"), 16);
        assert_int_equal(feed(&q, texts[i]), 0);
        assert_int_equal(feed(&q, "delete 1\r\n"), 10);
        assert_int_equal(feed(&q, texts[i]), 0);
        assert_int_equal(q.count, 2);
        answer(&q, 0, TARRY_OK); /* and the second one is under way */
        assert_int_equal(feed(&q, texts[i]), 0);
        answer(&q, 1, TARRY_OK);
        says(&q, "INSERTED 100\r\nDELETED\r\n");
        end(&q);
    }
}

static void test_ahead_so_many_and_no_more(void **state)
{
    struct slow q;

    (void)state;
    start(&q, 2);
    assert_int_equal(feed(&q, "delete 1\r\ndelete 2\r\ndelete 3\r\ndelete 4\r\n"), 30);
    answer(&q, 0, TARRY_OK);
    assert_int_equal(feed(&q, "delete 4\r\n"), 0);
    answer(&q, 1, TARRY_OK);
    assert_int_equal(feed(&q, "delete 4\r\n"), 10);
    assert_int_equal(q.count, 4);
    end(&q); /* with two under way */
    assert_int_equal(q.abandoned, 2);
    start(&q, 0);
    assert_int_equal(feed(&q, "delete 1\r\ndelete 2\r\n"), 10);
    end(&q);
    assert_int_equal(q.abandoned, 1);
}

static void test_ahead_not_behind_a_reserve(void **state)
{
    struct slow q;

    (void)state;
    start(&q, 8);
    assert_int_equal(feed(&q, "reserve\r\ndelete 1\r\n"), 9);
    assert_int_equal(q.count, 1);
    end(&q);
    start(&q, 8);
    assert_int_equal(feed(&q, "reserve-with-timeout 9\r\nreserve\r\n"), 24);
    assert_int_equal(q.count, 1);
    end(&q);
}

static void test_ahead_reserves(void **state)
{
    struct slow q;

    (void)state;
    start(&q, 8);
    assert_int_equal(feed(&q, "reserve\r\nreserve\r\nreserve\r\nreserve-with-timeout 1\r\n"), 27);
    assert_int_equal(q.count, 3);
    assert_int_equal(q.asked[1]->topic_count, 1);
    assert_true(q.asked[1]->wait_us == TR_WAIT_FOREVER && q.asked[1]->warn_us == 1000000);
    answer(&q, 2, TARRY_OK); /* which one it is for is all the same */
    says(&q, "RESERVED 102 0\r\n\r\n");
    assert_int_equal(feed(&q, "delete 1\r\n"), 0);
    answer(&q, 0, TARRY_OK);
    says(&q, "RESERVED 100 0\r\n\r\n");
    assert_int_equal(feed(&q, "put 0 0 1 0\r\n\r\n"), 0);
    assert_int_equal(feed(&q, "reserve\r\n"), 9);
    answer(&q, 1, TARRY_ESOON);
    answer(&q, 3, TARRY_OK);
    says(&q, "DEADLINE_SOON\r\nRESERVED 103 0\r\n\r\n");
    assert_int_equal(tr_bs_want(&q.session), TR_WANT_INPUT);
    end(&q);
}

static void test_ahead_reserves_of_who_sends_no_more(void **state)
{
    struct slow q;

    (void)state;
    start(&q, 8);
    assert_int_equal(feed(&q, "reserve\r\nreserve\r\nreserve\r\n"), 27);
    tr_bs_half_close(&q.session, (struct tr_now){0});
    assert_int_equal(q.abandoned, 3);
    assert_int_equal(q.count, 6);
    for (unsigned i = 3; i < 6; i++) {
        assert_int_equal(q.asked[i]->wait_us, 0);
    }
    answer(&q, 4, TARRY_OK);
    answer(&q, 3, TARRY_ETIMEOUT);
    says(&q, "RESERVED 104 0\r\n\r\nTIMED_OUT\r\n");
    end(&q);
    assert_int_equal(q.abandoned, 4);
}

static void test_ahead_no_put_while_somebody_waits(void **state)
{
    struct slow q;

    (void)state;
    start(&q, 8);
    q.waited = true;
    assert_int_equal(feed(&q, "put 0 0 1 1\r\na\r\nput 0 0 1 1\r\na\r\n"), 16);
    assert_int_equal(feed(&q, "delete 1\r\n"), 10); /* which nobody waits for */
    q.waited = false;
    assert_int_equal(feed(&q, "put 0 0 1 1\r\na\r\n"), 16);
    end(&q);
}

static void test_ahead_no_memory(void **state)
{
    struct slow q;

    (void)state;
    start(&q, 8);
    assert_int_equal(feed(&q, "put 0 0 1 1\r\na\r\n"), 16);
    q.mem.fail_at = q.mem.calls + 1;
    assert_int_equal(feed(&q, "put 0 0 1 1\r\nb\r\n"), 0); /* it waits */
    q.mem.fail_at = 0;
    answer(&q, 0, TARRY_OK);
    assert_int_equal(feed(&q, "put 0 0 1 1\r\nb\r\n"), 16);
    answer(&q, 1, TARRY_OK);
    says(&q, "INSERTED 100\r\nINSERTED 101\r\n");
    end(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ahead_replies_are_in_order),
        cmocka_unit_test(test_ahead_errors_are_those_of_the_command),
        cmocka_unit_test(test_ahead_all_else_waits),
        cmocka_unit_test(test_ahead_so_many_and_no_more),
        cmocka_unit_test(test_ahead_not_behind_a_reserve),
        cmocka_unit_test(test_ahead_reserves),
        cmocka_unit_test(test_ahead_reserves_of_who_sends_no_more),
        cmocka_unit_test(test_ahead_no_put_while_somebody_waits),
        cmocka_unit_test(test_ahead_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
