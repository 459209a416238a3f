/*
 * For system tests: does something to a store with the real disk and the real engine, and ends.
 *
 *     store-tool DIR push N [TOPIC]         N jobs, due in an hour; prints their ids
 *     store-tool DIR crash-after N [TOPIC]  the same, then exit 9 without closing
 *     store-tool DIR list                   a line per job, by id: ID BODY
 *     store-tool DIR delete ID
 *
 * An id is printed when its batch is durable, so whatever is on stdout must survive anything.
 */

#include "base/err.h"
#include "engine/engine.h"
#include "os/clock_linux.h"
#include "os/disk_linux.h"
#include "os/random_linux.h"

#include <inttypes.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DELAY_US (UINT64_C(3600) * 1000000)

enum { EXIT_CRASH = 9 };

struct tool {
    struct tr_mem mem;
    struct tr_disk_linux *disk;
    struct tr_engine *engine;
    sem_t woken;
    bool done;
    bool print_body; /* of the request that is asked */
    uint64_t *ids;
    size_t id_count;
};

static void die(const char *what, int err)
{
    fprintf(stderr, "store-tool: %s: %s\n", what, tarry_strerror(err));
    exit(1);
}

static void on_wake(void *ctx)
{
    struct tool *t = ctx;

    (void)sem_post(&t->woken);
}

static void on_notice(void *ctx, enum tr_notice kind, const char *text)
{
    (void)ctx;
    (void)kind;
    fprintf(stderr, "store-tool: %s\n", text);
}

static void on_done(struct tr_req *r)
{
    struct tool *t = r->ctx;

    t->done = true;
    if (t->print_body && r->out.status == TARRY_OK) {
        printf(" %.*s\n", (int)r->out.job.body_len, (const char *)r->out.job.body);
    }
}

/* One turn, then what the disk has done; waits for the disk if the engine is in no hurry. */
static void step(struct tool *t)
{
    struct tr_now now = tr_clock_linux_now();
    uint64_t next = tr_engine_turn(t->engine, now);
    struct tr_io *io;

    if (tr_engine_failed(t->engine)) {
        die("the engine", TARRY_EIO);
    }
    if (next > now.boot_us && tr_engine_busy(t->engine)) {
        while (sem_wait(&t->woken) != 0) {
        }
    }
    io = tr_disk_linux_take_done(t->disk);
    while (io != NULL) {
        struct tr_io *after = io->next;

        tr_engine_io_done(t->engine, io, tr_clock_linux_now());
        io = after;
    }
}

static int ask(struct tool *t, struct tr_req *r)
{
    t->done = false;
    r->ctx = t;
    r->done = on_done;
    tr_engine_submit(t->engine, r, tr_clock_linux_now());
    while (!t->done) {
        step(t);
    }
    return r->out.status;
}

static void wait_durable(struct tool *t, uint64_t gate)
{
    struct tr_engine_stat stat;

    for (tr_engine_stat(t->engine, &stat); stat.durable_batch < gate;
         tr_engine_stat(t->engine, &stat)) {
        step(t);
    }
}

static void open_store(struct tool *t, const char *dir)
{
    struct tr_engine_config c;
    uint64_t seed;
    int err = tr_random_linux_seed(&seed);

    if (err != TARRY_OK || sem_init(&t->woken, 0, 0) != 0) {
        die(dir, err);
    }
    tr_mem_init(&t->mem, 0);
    tr_engine_config_init(&c, &t->mem);
    c.notice = on_notice;
    err = tr_disk_linux_open(&t->disk, dir, on_wake, t);
    if (err == TARRY_OK) {
        err =
            tr_engine_open(&t->engine, &c, tr_disk_linux_port(t->disk), seed, tr_clock_linux_now());
    }
    if (err != TARRY_OK) {
        die(dir, err);
    }
}

static void close_store(struct tool *t)
{
    int err;

    while (tr_engine_busy(t->engine)) {
        step(t);
    }
    err = tr_engine_close(t->engine, tr_clock_linux_now());
    if (err != TARRY_OK) {
        die("close", err);
    }
    tr_disk_linux_close(t->disk);
    tr_engine_free(t->engine);
    (void)sem_destroy(&t->woken);
}

static void push(struct tool *t, unsigned long count, const char *topic)
{
    struct tr_req hold = {.op = TR_OP_HOLD_TOPIC, .name = topic, .name_len = strlen(topic)};
    int err = ask(t, &hold);

    if (err != TARRY_OK) {
        die(topic, err);
    }
    for (unsigned long i = 0; i < count; i++) {
        char body[32];
        int len = snprintf(body, sizeof body, "body-%lu", i);
        struct tr_req r = {.op = TR_OP_PUSH,
                           .topic = hold.out.topic,
                           .body = (const uint8_t *)body,
                           .body_len = (size_t)len,
                           .delay_us = DELAY_US,
                           .priority = 1024,
                           .ttr_us = 60000000};

        err = ask(t, &r);
        if (err != TARRY_OK) {
            die("push", err);
        }
        wait_durable(t, r.out.gate);
        printf("%" PRIu64 "\n", r.out.job.id);
        (void)fflush(stdout);
    }
}

static void delete_job(struct tool *t, uint64_t id)
{
    struct tr_req r = {.op = TR_OP_DELETE, .id = id, .force = true};
    int err = ask(t, &r);

    if (err != TARRY_OK) {
        die("delete", err);
    }
    wait_durable(t, r.out.gate);
}

static void keep_id(void *ctx, const struct tr_job_fact *fact)
{
    struct tool *t = ctx;

    t->ids[t->id_count++] = fact->id;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void list(struct tool *t)
{
    struct tr_engine_stat stat;

    tr_engine_stat(t->engine, &stat);
    t->ids = calloc((size_t)stat.jobs + 1, sizeof *t->ids);
    if (t->ids == NULL) {
        die("list", TARRY_ENOMEM);
    }
    tr_engine_facts(t->engine, keep_id, t);
    qsort(t->ids, t->id_count, sizeof *t->ids, compare_ids);
    t->print_body = true;
    for (size_t i = 0; i < t->id_count; i++) {
        struct tr_req r = {.op = TR_OP_PEEK, .id = t->ids[i]};
        int err;

        printf("%" PRIu64, t->ids[i]);
        err = ask(t, &r);
        if (err != TARRY_OK) {
            die("peek", err);
        }
    }
    free(t->ids);
}

static int usage(void)
{
    fputs("usage: store-tool DIR push N [TOPIC] | crash-after N [TOPIC] | list | delete ID\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct tool t = {0};
    const char *what = argc > 2 ? argv[2] : "";
    const char *topic = argc > 4 ? argv[4] : "default";
    unsigned long number = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;

    if (strcmp(what, "list") != 0 && (argc < 4 || number == 0)) {
        return usage();
    }
    open_store(&t, argv[1]);
    if (strcmp(what, "list") == 0) {
        list(&t);
    } else if (strcmp(what, "push") == 0) {
        push(&t, number, topic);
    } else if (strcmp(what, "crash-after") == 0) {
        push(&t, number, topic);
        _exit(EXIT_CRASH);
    } else if (strcmp(what, "delete") == 0) {
        delete_job(&t, number);
    } else {
        return usage();
    }
    close_store(&t);
    return 0;
}
