/*
 * The server, as far as there is one: no ports yet.
 *
 *     disk threads --wake--> loop --woken--> io_done for each completion
 *     signals --------------> loop --signalled--> stop, drain
 *                             loop --turn--> tr_engine_turn, which says when it wants the next
 *
 * Start: the loop first, so that from the first line on no signal kills; then disk, then engine,
 * whose opening blocks. A stop that comes meanwhile is seen in the first round.
 *
 * Stop: no more turns, so nothing new begins; completions are still taken, and what an io in
 * flight has as its next step is done. When the engine is not busy any more it is closed (CLEAN).
 *
 * Failure: a log or manifest that cannot be written is final (the engine says so, and why). The
 * store is left as after a crash; the next start recovers it.
 *
 * What is asked for goes to stdout, what went wrong to stderr, a line each.
 */

#include "server/serve.h"

#include "base/err.h"
#include "base/mem.h"
#include "os/clock_linux.h"
#include "os/disk_linux.h"
#include "os/loop_linux.h"
#include "os/random_linux.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

struct server {
    const struct tr_config *config;
    struct tr_mem mem;
    struct tr_loop_linux *loop;
    struct tr_disk_linux *disk;
    struct tr_engine *engine;
    bool stopping;
};

static const char *jobs_word(uint64_t count)
{
    return count == 1 ? "job" : "jobs";
}

static uint64_t jobs(const struct server *s)
{
    struct tr_engine_stat stat;

    tr_engine_stat(s->engine, &stat);
    return stat.jobs;
}

/* ---- what the loop and the engine call ---- */

static void notice(void *ctx, enum tr_notice kind, const char *text)
{
    static const char *const words[] = {
        [TR_NOTE_INFO] = "note",
        [TR_NOTE_WARNING] = "warning",
        [TR_NOTE_DAMAGE] = "damage",
        [TR_NOTE_FATAL] = "error",
    };

    (void)ctx;
    fprintf(stderr, "%s: %s\n", words[kind], text);
}

static void woken(void *ctx)
{
    struct server *s = ctx;
    struct tr_io *io = tr_disk_linux_take_done(s->disk);

    while (io != NULL) {
        struct tr_io *next = io->next;

        tr_engine_io_done(s->engine, io, tr_clock_linux_now());
        io = next;
    }
}

static void signalled(void *ctx, enum tr_loop_signal what)
{
    struct server *s = ctx;

    switch (what) {
    case TR_LOOP_STOP:
        s->stopping = true;
        break;
    case TR_LOOP_DRAIN:
        tr_engine_drain(s->engine);
        puts("draining: no new jobs are taken until the next start");
        break;
    case TR_LOOP_RELOAD:
        puts("SIGHUP: nothing to do, there is no config file to read again");
        break;
    }
}

static uint64_t turn(void *ctx)
{
    struct server *s = ctx;
    uint64_t next = s->stopping ? UINT64_MAX : tr_engine_turn(s->engine, tr_clock_linux_now());

    if (tr_engine_failed(s->engine) || (s->stopping && !tr_engine_busy(s->engine))) {
        tr_loop_linux_stop(s->loop);
    }
    return next;
}

/* ---- opening ---- */

static const struct {
    int err;
    enum tr_exit exit;
    const char *what;
    const char *advice;
} troubles[] = {
    {TARRY_ELOCKED, TR_EXIT_FAILED, "another tarry has this store open",
     "Stop that one first, or name another directory with --data."},
    {TARRY_EPERM, TR_EXIT_FAILED, "no permission to use this data directory",
     "Give it and its files to the user that runs tarry, or name another one with --data."},
    {TARRY_ENOTFOUND, TR_EXIT_FAILED, "there is no such directory, and it could not be made",
     "Make its parent first (mkdir -p), or name another directory with --data."},
    {TARRY_ENOSPC, TR_EXIT_FAILED, "the disk of this data directory is full",
     "Make room there, or name a directory on another disk with --data."},
    {TARRY_EFULL, TR_EXIT_FAILED, "the system gives no more files, threads or memory",
     "Raise the limits of the user that runs tarry (ulimit -n, ulimit -u)."},
    {TARRY_ENOMEM, TR_EXIT_FAILED, "there is not enough memory for this store",
     "Give the process more (ulimit -v, the limit of its container)."},
    {TARRY_EIO, TR_EXIT_FAILED, "the disk of this data directory failed",
     "The kernel's log (dmesg) may say why; put that right and start again."},
    {TARRY_EDAMAGED, TR_EXIT_DAMAGED, "the store is damaged and was not opened",
     "Keep it as it is and put back a copy from before, or begin an empty store in another "
     "directory with --data."},
    {TARRY_EVERSION, TR_EXIT_DAMAGED,
     "the store was written by a newer tarry than this one (" TARRY_VERSION ")",
     "Use that newer tarry, or name another directory with --data."},
};

/* Says why the store cannot be used, where it is, and what to do. */
static enum tr_exit explain(const struct server *s, int err)
{
    for (size_t i = 0; i < sizeof troubles / sizeof troubles[0]; i++) {
        if (troubles[i].err == err) {
            fprintf(stderr, "tarry: %s: %s\n%s\n", s->config->data_path, troubles[i].what,
                    troubles[i].advice);
            return troubles[i].exit;
        }
    }
    fprintf(stderr, "tarry: %s: %s\n", s->config->data_path, tarry_strerror(err));
    return TR_EXIT_FAILED;
}

static void greet(const struct tr_config *c)
{
    printf("tarry %s: data in %s, sync %s\n", TARRY_VERSION, c->data_path,
           tr_config_sync_name(c->sync));
    if (c->sync != TR_SYNC_ALWAYS) {
        printf("sync %s: success is answered before the disk has it; kill -9 can take back the "
               "last moments, a power cut %s\n",
               tr_config_sync_name(c->sync),
               c->sync == TR_SYNC_INTERVAL ? "the last 50 ms or so"
                                           : "all that the kernel had not written yet");
    }
}

static int open_engine(struct server *s)
{
    struct tr_engine_config c;
    uint64_t seed;
    int err = tr_random_linux_seed(&seed);

    if (err != TARRY_OK) {
        return err;
    }
    tr_mem_init(&s->mem, 0);
    tr_engine_config_init(&c, &s->mem);
    c.sync = s->config->sync;
    c.ctx = s;
    c.notice = notice;
    return tr_engine_open(&s->engine, &c, tr_disk_linux_port(s->disk), seed, tr_clock_linux_now());
}

static int open_all(struct server *s)
{
    struct tr_loop_calls calls = {.ctx = s, .woken = woken, .signalled = signalled, .turn = turn};
    int err = tr_loop_linux_open(&s->loop, &calls);

    if (err != TARRY_OK) {
        return err;
    }
    greet(s->config);
    err = tr_disk_linux_open(&s->disk, s->config->data_path, tr_loop_linux_wake, s->loop);
    return err == TARRY_OK ? open_engine(s) : err;
}

/* ---- closing ---- */

/* Ends in order if the engine lets it. */
static enum tr_exit close_engine(struct server *s)
{
    uint64_t count = jobs(s);
    int err;

    if (tr_engine_failed(s->engine)) {
        fprintf(stderr, "tarry: %s: stopped by a failure of the disk\n%s\n", s->config->data_path,
                "The kernel's log (dmesg) may say why; put that right and start again.");
        return TR_EXIT_FAILED;
    }
    err = tr_engine_close(s->engine, tr_clock_linux_now());
    if (err != TARRY_OK) {
        return explain(s, err);
    }
    printf("stopped: %" PRIu64 " %s in %s\n", count, jobs_word(count), s->config->data_path);
    return TR_EXIT_FINE;
}

enum tr_exit tr_serve(const struct tr_config *c)
{
    struct server s = {.config = c};
    uint64_t start_us = tr_clock_linux_now().boot_us;
    enum tr_exit how;
    int err;

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a line is seen when it is written, also by a pipe */
    err = open_all(&s);
    if (err == TARRY_OK) {
        uint64_t took_us = tr_clock_linux_now().boot_us - start_us;

        printf("%" PRIu64 " %s, ready in %" PRIu64 " ms\n", jobs(&s), jobs_word(jobs(&s)),
               (took_us + 500) / 1000);
        tr_loop_linux_run(s.loop);
        how = close_engine(&s);
    } else {
        how = explain(&s, err);
    }
    tr_disk_linux_close(s.disk); /* ends the threads: after it nobody wakes the loop */
    tr_engine_free(s.engine);
    tr_loop_linux_close(s.loop);
    return how;
}
