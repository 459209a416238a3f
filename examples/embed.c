/*
 * An order that is not paid in time is closed: libtarry in one small program.
 *
 *     cc embed.c $(pkg-config --cflags --libs tarry) -o embed && ./embed ./orders
 *
 * Three orders come in, each with a time-out of half a second. One is paid, so its time-out is
 * cancelled. The other two are closed when their time has come. Kill the program at any moment and
 * start it again: what it had pushed is still there.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarry.h>

static void must(int err, const char *what)
{
    if (err != TARRY_OK) {
        fprintf(stderr, "%s: %s\n", what, tarry_strerror(err));
        exit(1);
    }
}

static void order_placed(struct tarry *store, const char *order)
{
    struct tarry_push push = TARRY_PUSH_INIT;

    push.topic = "unpaid";
    push.key = order; /* so that the payment finds it again */
    push.body = order;
    push.body_len = strlen(order);
    push.delay_us = 500 * TARRY_MS;
    must(tarry_push(store, &push, NULL), "push");
    printf("%s: placed\n", order);
}

static void order_paid(struct tarry *store, const char *order)
{
    int err = tarry_cancel(store, tarry_by_key("unpaid", order), false, NULL);

    /* TARRY_ESTATE: it is being closed at this moment; TARRY_ENOTFOUND: it was. Pay it back. */
    printf("%s: %s\n", order, err == TARRY_OK ? "paid" : "paid too late");
}

int main(int argc, char **argv)
{
    struct tarry_reserve next = TARRY_RESERVE_INIT;
    struct tarry_job *job;
    struct tarry *store;

    must(tarry_open(&store, argc > 1 ? argv[1] : "./orders", NULL), "open");
    order_placed(store, "order-41");
    order_placed(store, "order-42");
    order_placed(store, "order-43");
    order_paid(store, "order-42");

    next.topic = "unpaid";
    next.wait_us = 2 * TARRY_SECOND;
    while (tarry_reserve(store, &next, &job) == TARRY_OK) {
        printf("%s: closed, %" PRIu64 " ms after it was due\n", (const char *)job->body,
               job->late_us / TARRY_MS);
        must(tarry_ack(store, job), "ack");
        tarry_job_free(job);
    }
    must(tarry_close(store), "close");
    return 0;
}
