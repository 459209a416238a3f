#ifndef TR_OS_LOOP_LINUX_H
#define TR_OS_LOOP_LINUX_H

/*
 * The loop of the one thread that owns all state. libuv stays behind this header. See loop_linux.c.
 *
 * The loop sleeps until something happens, tells it through the functions below, and then calls
 * `turn` once. Threads: tr_loop_linux_wake may be called by any thread, the rest by the loop's.
 */

#include "base/check.h"
#include "base/hist.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_loop_linux;

/* What the operator asks for by a signal. */
enum tr_loop_signal {
    TR_LOOP_STOP,   /* SIGTERM, SIGINT */
    TR_LOOP_DRAIN,  /* SIGUSR1 */
    TR_LOOP_RELOAD, /* SIGHUP */
};

struct tr_loop_calls {
    void *ctx;
    void (*woken)(void *ctx); /* tr_loop_linux_wake was called, once or several times */
    void (*signalled)(void *ctx, enum tr_loop_signal what);
    /*
     * After everything that happened at one time, after a step of the wall clock, and when its own
     * time has come. Gives the boot time of its next call: the past means at once, UINT64_MAX only
     * when something happens.
     */
    uint64_t (*turn)(void *ctx);
};

/*
 * Signals are held from here on and told when the loop runs; SIGPIPE and SIGXFSZ become errors of
 * the calls that cause them. TARRY_EFULL (files, memory), TARRY_EIO. To be called by the only
 * thread there is, since others take its mask of signals.
 */
TR_MUST_USE int tr_loop_linux_open(struct tr_loop_linux **l, const struct tr_loop_calls *calls);

/* Before it runs: does a signal to stop wait to be told? */
bool tr_loop_linux_stop_waits(void);

/* l may be NULL. */
void tr_loop_linux_close(struct tr_loop_linux *l);

/* Runs until tr_loop_linux_stop. The first turn is at once. */
void tr_loop_linux_run(struct tr_loop_linux *l);

/* From inside one of the calls: this round is the last. */
void tr_loop_linux_stop(struct tr_loop_linux *l);

struct tr_loop_stat {
    uint64_t rounds;
    uint64_t stalls; /* rounds over 5 ms */
    uint64_t longest_us;
    struct tr_hist took; /* us, of tr_hist_rounds */
};

struct tr_loop_stat tr_loop_linux_stat(const struct tr_loop_linux *l);

/* Takes a struct tr_loop_linux; void because a disk calls it. */
void tr_loop_linux_wake(void *loop);

#endif
