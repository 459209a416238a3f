/*
 * Threads between the loop and the system calls.
 *
 *     submit -> lane LOG  -> 1 thread  \
 *            -> lane READ -> 2 threads  > files_linux.c -> done list -> wake -> take_done
 *            -> lane BACK -> 1 thread  /
 *
 * One thread is what makes LOG and BACK strict: it takes the next request when the last one has
 * ended. A lane has its own mutex and condition; a thread with nothing to do sleeps in the
 * condition, so an idle disk never wakes up. The done list has a mutex of its own; only the
 * completion that makes it non-empty calls wake, so a burst costs the loop one wake-up.
 *
 * Invariant: a request is in exactly one place: a lane, a worker's hands, the done list, its owner.
 *
 * It follows: whoever holds it may write its fields; the mutexes between the places order that.
 *
 * Workers block all signals: those are for the main thread.
 *
 * Helping. To hand a small commit to a thread and to hear of its end costs two wake-ups, which may
 * take as long as the commit itself. So the loop thread may offer to do such a write on its own
 * when it has nothing better to do: a small WRITE of the LOG lane, when nothing else of that lane
 * is under way and such writes were quick of late, is held back until it asks for it.
 *
 *     submit -> held -> help (on the loop thread) -> done list
 *
 * A small READ whose bytes are in the page cache costs less than to hand it on, so it is done at
 * once, and waits for the same call. The kernel tells (RWF_NOWAIT) when it would have to wait.
 *
 *     submit, and done -> cached -> help
 *
 * How long writes take is a mean in which the last one weighs an eighth: one that blocks for long
 * sends those after it to the thread, until that one has been quick for a while.
 *
 * The thread of BACK sorts and copies for seconds. Where there are as many busy threads as CPUs, a
 * thread that wakes up waits until it has had its slice, some milliseconds: too late for a job that
 * is due. So it asks for long slices, which others with shorter ones may break into (Linux 6.12 and
 * later; earlier ones take no notice). Its share of the CPU stays the same, or promotion would fall
 * behind when it is needed most.
 */

#include "os/disk_linux.h"

#include "base/err.h"
#include "os/clock_linux.h"
#include "os/files_linux.h"
#include "os/thread_linux.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    READERS = 2,
    WORKERS = READERS + 2,
    HELP_BYTES = 32768, /* of a read or write that the loop thread may do, */
    QUICK_US = 400,     /* writes when they take less than this, */
    WEIGHT = 8,         /* in the mean of about so many */
    LONG_SLICE_NS = 100000000
};

struct list {
    struct tr_io *first;
    struct tr_io *last;
    size_t count;
};

struct lane {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct list todo;
    bool stop;
};

struct worker {
    struct tr_disk_linux *disk;
    struct lane *lane;
    pthread_t thread;
};

struct tr_disk_linux {
    struct tr_files_linux files;
    struct lane lanes[TR_LANE_COUNT];
    struct worker workers[WORKERS];
    unsigned worker_count; /* threads that run */
    pthread_mutex_t done_lock;
    struct list done;
    uint64_t log_us; /* what a write of the LOG lane takes */
    void (*wake)(void *ctx);
    void *ctx;
    bool (*asked)(void *ctx); /* to give up; or NULL */
    void *asked_ctx;
    bool gave_up;

    bool helps;         /* the loop thread's own: does it help? */
    struct tr_io *held; /* what it is to do, */
    size_t log_out;     /* and how many of the LOG lane are not taken yet, besides */
    struct list cached; /* READs that it has done */
};

static void append(struct list *l, struct tr_io *io)
{
    io->next = NULL;
    if (l->last != NULL) {
        l->last->next = io;
    } else {
        l->first = io;
    }
    l->last = io;
    l->count++;
}

static struct tr_io *take_first(struct list *l)
{
    struct tr_io *io = l->first;

    if (io != NULL) {
        l->first = io->next;
        l->last = io->next != NULL ? l->last : NULL;
        l->count--;
        io->next = NULL;
    }
    return io;
}

/* Does the request, and learns from it. */
static void perform(struct tr_disk_linux *d, struct tr_io *io)
{
    uint64_t from_us = tr_clock_linux_now().boot_us;
    uint64_t took;

    tr_files_linux_do(&d->files, io);
    if (io->lane == TR_LANE_LOG && io->op == TR_IO_WRITE) {
        took = tr_clock_linux_now().boot_us - from_us;
        pthread_mutex_lock(&d->done_lock);
        d->log_us += took / WEIGHT;
        d->log_us -= d->log_us / WEIGHT;
        pthread_mutex_unlock(&d->done_lock);
    }
}

static void complete(struct tr_disk_linux *d, struct tr_io *io)
{
    bool first;

    pthread_mutex_lock(&d->done_lock);
    first = d->done.count == 0;
    append(&d->done, io);
    pthread_mutex_unlock(&d->done_lock);
    if (first && d->wake != NULL) {
        d->wake(d->ctx);
    }
}

/* The next request of the lane; NULL when the lane is to end and is empty. */
static struct tr_io *wait_for(struct lane *l)
{
    struct tr_io *io;

    pthread_mutex_lock(&l->lock);
    while (l->todo.count == 0 && !l->stop) {
        pthread_cond_wait(&l->more, &l->lock);
    }
    io = take_first(&l->todo);
    pthread_mutex_unlock(&l->lock);
    return io;
}

/* What sched_setattr takes; the C library of Debian 12 has neither, and the kernel's own header
 * cannot stand beside pthread.h. */
struct schedule {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns;
    uint64_t others[2];
};

/* Of the thread that asks; no matter if it cannot be. */
static void be_patient(void)
{
    struct schedule how = {.size = sizeof how};

    if (syscall(SYS_sched_getattr, 0, &how, sizeof how, 0) == 0) {
        how.slice_ns = LONG_SLICE_NS;
        (void)syscall(SYS_sched_setattr, 0, &how, 0);
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct tr_io *io;

    if (w->lane == &w->disk->lanes[TR_LANE_BACK]) {
        be_patient();
    }
    while ((io = wait_for(w->lane)) != NULL) {
        perform(w->disk, io);
        complete(w->disk, io);
    }
    return NULL;
}

static void queue(struct tr_disk_linux *d, struct tr_io *io)
{
    struct lane *l = &d->lanes[io->lane];
    bool full;

    pthread_mutex_lock(&l->lock);
    full = l->todo.count >= TR_DISK_LINUX_QUEUE_MAX;
    if (!full) {
        append(&l->todo, io);
        pthread_cond_signal(&l->more);
    }
    pthread_mutex_unlock(&l->lock);
    if (full) {
        io->got = 0;
        io->status = TARRY_EFULL;
        complete(d, io);
    }
}

/* May the loop thread do this one? */
static bool may_help(struct tr_disk_linux *d, const struct tr_io *io)
{
    uint64_t log_us;

    if (!d->helps || d->log_out > 0 || io->op != TR_IO_WRITE || io->len > HELP_BYTES) {
        return false;
    }
    pthread_mutex_lock(&d->done_lock);
    log_us = d->log_us;
    pthread_mutex_unlock(&d->done_lock);
    return log_us < QUICK_US;
}

static void submit(void *ctx, struct tr_io *io)
{
    struct tr_disk_linux *d = ctx;
    struct tr_io *held = d->held;

    TR_CHECK((unsigned)io->lane < TR_LANE_COUNT);
    if (io->lane == TR_LANE_LOG) {
        if (may_help(d, io)) {
            d->held = io;
            d->log_out++;
            return;
        }
        d->log_out++;
        if (held != NULL) { /* it was first */
            d->held = NULL;
            queue(d, held);
        }
    }
    if (d->helps && io->op == TR_IO_READ && io->lane == TR_LANE_READ && io->len <= HELP_BYTES &&
        tr_files_linux_read_cached(io)) {
        append(&d->cached, io);
        return;
    }
    queue(d, io);
}

static int run(void *ctx, struct tr_io *io)
{
    struct tr_disk_linux *d = ctx;

    if (d->asked != NULL && (d->gave_up || d->asked(d->asked_ctx))) {
        d->gave_up = true;
        io->got = 0;
        io->status = TARRY_ECLOSED;
        return io->status;
    }
    tr_files_linux_do(&d->files, io);
    return io->status;
}

void tr_disk_linux_give_up(struct tr_disk_linux *d, bool (*asked)(void *ctx), void *ctx)
{
    d->asked = asked;
    d->asked_ctx = ctx;
}

bool tr_disk_linux_gave_up(const struct tr_disk_linux *d)
{
    return d->gave_up;
}

static const struct tr_disk_ops ops = {.submit = submit, .run = run};

struct tr_disk tr_disk_linux_port(struct tr_disk_linux *d)
{
    return (struct tr_disk){.ops = &ops, .ctx = d};
}

struct tr_io *tr_disk_linux_take_done(struct tr_disk_linux *d)
{
    struct tr_io *io;

    pthread_mutex_lock(&d->done_lock);
    io = d->done.first;
    d->done = (struct list){0};
    pthread_mutex_unlock(&d->done_lock);
    for (const struct tr_io *at = io; at != NULL; at = at->next) {
        d->log_out -= at->lane == TR_LANE_LOG;
    }
    return io;
}

void tr_disk_linux_offer_help(struct tr_disk_linux *d)
{
    d->helps = true;
}

struct tr_io *tr_disk_linux_help(struct tr_disk_linux *d)
{
    struct list did = d->cached;
    struct tr_io *io = d->held;

    d->cached = (struct list){0};
    d->held = NULL;
    if (io != NULL) {
        perform(d, io);
        append(&did, io);
        d->log_out--;
    }
    return did.first;
}

static bool start_workers(struct tr_disk_linux *d)
{
    static const enum tr_lane lanes[WORKERS] = {TR_LANE_LOG, TR_LANE_BACK, TR_LANE_READ,
                                                TR_LANE_READ};
    static const char *const names[TR_LANE_COUNT] = {"tarry-log", "tarry-read", "tarry-back"};

    for (unsigned i = 0; i < WORKERS; i++) {
        struct worker *w = &d->workers[i];

        w->disk = d;
        w->lane = &d->lanes[lanes[i]];
        if (!tr_thread_start(&w->thread, names[lanes[i]], work, w)) {
            return false;
        }
        d->worker_count++;
    }
    return true;
}

static void init_locks(struct tr_disk_linux *d)
{
    int err = pthread_mutex_init(&d->done_lock, NULL);

    TR_CHECK(err == 0);
    for (unsigned i = 0; i < TR_LANE_COUNT; i++) {
        err = pthread_mutex_init(&d->lanes[i].lock, NULL);
        TR_CHECK(err == 0);
        err = pthread_cond_init(&d->lanes[i].more, NULL);
        TR_CHECK(err == 0);
    }
}

static int open_disk(struct tr_disk_linux **out, const char *dir, bool look,
                     void (*wake)(void *ctx), void *ctx)
{
    struct tr_disk_linux *d = calloc(1, sizeof *d);
    int status;

    *out = NULL;
    if (d == NULL) {
        return TARRY_EFULL;
    }
    status = look ? tr_files_linux_look(&d->files, dir) : tr_files_linux_init(&d->files, dir);
    if (status != TARRY_OK) {
        free(d);
        return status;
    }
    d->wake = wake;
    d->ctx = ctx;
    d->log_us = UINT64_C(2) * QUICK_US; /* the threads are to show what it takes */
    init_locks(d);
    if (!start_workers(d)) {
        tr_disk_linux_close(d);
        return TARRY_EFULL;
    }
    *out = d;
    return TARRY_OK;
}

int tr_disk_linux_open(struct tr_disk_linux **d, const char *dir, void (*wake)(void *ctx),
                       void *ctx)
{
    return open_disk(d, dir, false, wake, ctx);
}

int tr_disk_linux_look(struct tr_disk_linux **d, const char *dir, void (*wake)(void *ctx),
                       void *ctx)
{
    return open_disk(d, dir, true, wake, ctx);
}

void tr_disk_linux_close(struct tr_disk_linux *d)
{
    if (d == NULL) {
        return;
    }
    if (d->held != NULL) {
        queue(d, d->held);
    }
    for (unsigned i = 0; i < TR_LANE_COUNT; i++) {
        pthread_mutex_lock(&d->lanes[i].lock);
        d->lanes[i].stop = true;
        pthread_cond_broadcast(&d->lanes[i].more);
        pthread_mutex_unlock(&d->lanes[i].lock);
    }
    for (unsigned i = 0; i < d->worker_count; i++) {
        int err = pthread_join(d->workers[i].thread, NULL);

        TR_CHECK(err == 0);
    }
    for (unsigned i = 0; i < TR_LANE_COUNT; i++) {
        pthread_mutex_destroy(&d->lanes[i].lock);
        pthread_cond_destroy(&d->lanes[i].more);
    }
    pthread_mutex_destroy(&d->done_lock);
    tr_files_linux_fini(&d->files);
    free(d);
}
