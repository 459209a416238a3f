/*
 * The rig's disk is a real one: requests go to its threads, and a step waits for one of them.
 * Time is still the rig's own, so what is written does not depend on when it was.
 */

#include "test/golden/golden.h"

#include "base/err.h"
#include "os/disk_linux.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct golden {
    struct rig *rig;
    struct tr_disk_linux *disk;
    struct tr_disk real;
    sem_t done; /* posted when a request is done */
    unsigned pending;
    struct tr_io *late; /* done, but the engine was not told yet */
};

static void on_wake(void *ctx)
{
    struct golden *g = ctx;

    sem_post(&g->done);
}

static void submit(void *ctx, struct tr_io *io)
{
    struct golden *g = ctx;

    g->pending++;
    g->real.ops->submit(g->real.ctx, io);
}

static int run(void *ctx, struct tr_io *io)
{
    struct golden *g = ctx;

    return g->real.ops->run(g->real.ctx, io);
}

/* Moves what is done to the end of `late`; false: nothing was. */
static bool collect(struct golden *g)
{
    struct tr_io *io = tr_disk_linux_take_done(g->disk);
    struct tr_io **end = &g->late;

    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = io;
    for (; io != NULL; io = io->next) {
        g->pending--;
    }
    return *end != NULL;
}

static bool step(void *ctx)
{
    struct golden *g = ctx;

    while (g->late == NULL && g->pending != 0 && !collect(g)) {
        sem_wait(&g->done);
    }
    if (g->late == NULL) {
        return false;
    }
    while (g->late != NULL) {
        struct tr_io *io = g->late;

        g->late = io->next;
        tr_engine_io_done(g->rig->e, io, g->rig->now);
    }
    return true;
}

struct golden *golden_new(struct rig *rig, const char *dir)
{
    static const struct tr_disk_ops ops = {.submit = submit, .run = run};
    struct golden *g = calloc(1, sizeof *g);

    assert_non_null(g);
    rig_init(rig);
    sim_disk_free(rig->disk);
    rig->disk = NULL;
    rig->config.slots_max = 4;
    rig->config.checkpoint_slack = 8192;
    g->rig = rig;
    assert_int_equal(sem_init(&g->done, 0, 0), 0);
    assert_int_equal(tr_disk_linux_open(&g->disk, dir, on_wake, g), TARRY_OK);
    g->real = tr_disk_linux_port(g->disk);
    rig->port = (struct tr_disk){&ops, g};
    rig->step = step;
    rig->step_ctx = g;
    return g;
}

bool golden_has_groups(const char *name)
{
    return strncmp(name, "v1-groups", 9) == 0;
}

void golden_configure(struct rig *rig, const char *name)
{
    if (golden_has_groups(name)) {
        rig->config.slots_max = 16;
        rig->config.near_us = 60 * RIG_SECOND;
        rig->config.far_max = 20;
        rig->config.promote_slots = 2;
    }
}

char *golden_facts(struct rig *rig, const char *name)
{
    static const char *const topics[] = {"alpha", "beta"};
    char *text;
    size_t len;

    if (!golden_has_groups(name)) {
        return rig_facts(rig);
    }
    for (uint64_t id = 1; id <= GOLDEN_GROUPS_IDS; id++) { /* from runs into memory */
        int status = rig_with(rig, TR_OP_PEEK, id, 0);

        assert_true(status == TARRY_OK || status == TARRY_ENOTFOUND);
    }
    text = rig_facts(rig);
    len = strlen(text);
    for (unsigned i = 0; i < 2; i++) {
        struct tr_topic_stat stat = rig_stat(rig, rig_hold(rig, topics[i]));

        len += (size_t)snprintf(text + len, RIG_TEXT_MAX - len,
                                "%s: delayed=%llu ready=%llu dead=%llu\n", topics[i],
                                (unsigned long long)stat.delayed, (unsigned long long)stat.ready,
                                (unsigned long long)stat.dead);
    }
    return text;
}

void golden_quiet(struct golden *g)
{
    while (g->pending != 0) {
        if (!collect(g)) {
            sem_wait(&g->done);
        }
    }
}

void golden_free(struct golden *g)
{
    tr_disk_linux_close(g->disk); /* first: its threads may have buffers of the engine */
    rig_fini(g->rig);
    sem_destroy(&g->done);
    free(g);
}
