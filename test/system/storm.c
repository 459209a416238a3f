/*
 * Many threads on one store, through tarry.h alone; if asked, killed with -9 again and again.
 *
 *     storm DIR [--threads N] [--ms N] [--lives N] [--seed N] [--sync always|50ms|never]
 *
 * Each life is a child process that opens the store and lets its threads push, reserve, ack,
 * release, bury, cancel and reschedule at random. All lives but the last are killed at a random
 * moment. What each thread was told stands in memory that the lives share, a row for each job:
 *
 *     pushed      the push was acknowledged
 *     deletes     acks and cancels under way; those that a kill cut short are in doubt
 *     gone        one of them was acknowledged
 *     held        somebody has it
 *
 * Wrong is: a job that is gone and comes (back), that is pushed, not gone and cannot be found
 * (lost), that comes before its time (early), while somebody holds it (twice), or that two may
 * delete. The last life ends in order; then a new process takes everything out and looks whether
 * somebody is missing. Exit status 1 and a line on stderr say what was wrong.
 */

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tarry.h>
#include <time.h>
#include <unistd.h>

enum { JOBS_MAX = 1 << 20, THREADS_MAX = 64, TOPICS = 3, LIVE_MAX = 2000 };

/* Jobs of the first topic are never delayed, so those may be buried and kicked by number. */
static const char *const topics[TOPICS] = {"plain", "timed", "keyed"};

struct row {
    _Atomic uint64_t id;
    _Atomic uint64_t earliest_us;
    atomic_bool pushed;
    atomic_bool gone;
    atomic_bool doubt; /* a delete was under way when its life ended */
    atomic_int deletes;
    atomic_bool held;
    atomic_bool found; /* by the last look */
};

struct shared {
    _Atomic uint64_t next; /* row of the next job */
    _Atomic uint64_t live;
    _Atomic uint64_t acked, cancelled, handed;
    struct row rows[JOBS_MAX];
};

static struct shared *all;
static struct tarry *store;
static atomic_bool stopping;
static const char *dir;
static unsigned threads = 8;
static unsigned lives = 1;
static uint64_t ms = 1000;
static uint64_t seed = 1;
static enum tarry_sync sync_mode = TARRY_SYNC_ALWAYS;

static _Noreturn void wrong(const char *what, uint64_t row, int err)
{
    fprintf(stderr, "wrong: %s: job %" PRIu64 " (id %" PRIu64 ") %s\n", what, row,
            row < JOBS_MAX ? atomic_load(&all->rows[row].id) : 0, tarry_errname(err));
    _exit(1);
}

static uint64_t wall_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* A number below n; each thread has dice of its own. */
static uint64_t roll(uint64_t *dice, uint64_t n)
{
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    return *dice % n;
}

/* ---- what a thread may do ---- */

static void push_one(uint64_t *dice)
{
    struct tarry_push p = TARRY_PUSH_INIT;
    struct tarry_result r = TARRY_RESULT_INIT;
    uint64_t at = atomic_fetch_add(&all->next, 1);
    uint64_t topic = roll(dice, TOPICS);
    struct row *row = &all->rows[at];
    char body[2048];
    char key[32];
    int err;

    if (at >= JOBS_MAX) {
        atomic_store(&stopping, true);
        return;
    }
    p.topic = topics[topic];
    p.delay_us = topic == 0 ? 0 : roll(dice, 50) * TARRY_MS;
    p.delay_us += topic != 0 && roll(dice, 20) == 0 ? 2 * TARRY_HOUR : 0; /* a far one */
    (void)snprintf(key, sizeof key, "key-%" PRIu64, at);
    p.key = topic == 2 ? key : NULL;
    memset(body, 'x', sizeof body);
    (void)snprintf(body, sizeof body, "%" PRIu64 ":", at);
    p.body = body;
    p.body_len = 24 + roll(dice, 3) * roll(dice, sizeof body / 3);
    atomic_store(&row->earliest_us, wall_us() + p.delay_us);
    err = tarry_push(store, &p, &r);
    if (err != TARRY_OK) {
        wrong("a push failed", at, err);
    }
    atomic_store(&row->id, r.id);
    atomic_store(&row->pushed, true);
    atomic_fetch_add(&all->live, 1);
}

/* A delete was answered. */
static void deleted(struct row *row, uint64_t at, int err)
{
    if (err == TARRY_OK && atomic_exchange(&row->gone, true)) {
        wrong("deleted twice", at, err);
    }
    if (err == TARRY_OK && atomic_load(&row->pushed)) {
        atomic_fetch_sub(&all->live, 1);
    }
    atomic_fetch_sub(&row->deletes, 1);
}

static void consume(uint64_t *dice, uint64_t wait_us)
{
    struct tarry_reserve r = TARRY_RESERVE_INIT;
    struct tarry_job *job;
    struct row *row;
    uint64_t at;
    int err;

    r.topics = topics;
    r.topic_count = TOPICS;
    r.wait_us = wait_us;
    err = tarry_reserve(store, &r, &job);
    if (err == TARRY_ETIMEOUT || err == TARRY_ECLOSED) {
        return;
    }
    if (err != TARRY_OK) {
        wrong("a reserve failed", JOBS_MAX, err);
    }
    at = strtoull(job->body, NULL, 10);
    row = &all->rows[at];
    if (atomic_load(&row->gone)) {
        wrong("back", at, err);
    }
    if (wall_us() < atomic_load(&row->earliest_us)) {
        wrong("early", at, err);
    }
    if (atomic_exchange(&row->held, true)) {
        wrong("twice", at, err);
    }
    atomic_fetch_add(&all->handed, 1);
    switch (roll(dice, 10)) {
    case 0:
        atomic_store(&row->held, false);
        err = tarry_release(store, job, roll(dice, 2) * 5 * TARRY_MS);
        break;
    case 1:
        if (strcmp(job->topic, topics[0]) == 0) {
            atomic_store(&row->held, false);
            err = tarry_bury(store, job);
            break;
        }
        /* fall through */
    default:
        atomic_fetch_add(&row->deletes, 1);
        err = tarry_ack(store, job);
        deleted(row, at, err);
        atomic_fetch_add(&all->acked, err == TARRY_OK);
    }
    if (err != TARRY_OK && !(err == TARRY_ECLOSED && atomic_load(&stopping))) {
        wrong("a lease was lost", at, err);
    }
    tarry_job_free(job);
}

/* Any job that was pushed lately and is not gone, as far as one can know. */
static struct row *choose(uint64_t *dice, uint64_t *at)
{
    uint64_t next = atomic_load(&all->next);

    if (next == 0) {
        return NULL;
    }
    *at = next - 1 - roll(dice, next < LIVE_MAX ? next : LIVE_MAX);
    return atomic_load(&all->rows[*at].pushed) && !atomic_load(&all->rows[*at].gone)
               ? &all->rows[*at]
               : NULL;
}

/* It was not found: somebody else must be deleting it, or have done so. */
static void check_missing(const struct row *row, uint64_t at, int mine)
{
    if (atomic_load(&row->deletes) <= mine && !atomic_load(&row->gone) &&
        !atomic_load(&row->doubt)) {
        wrong("lost", at, TARRY_ENOTFOUND);
    }
}

static void cancel(uint64_t *dice)
{
    uint64_t at;
    struct row *row = choose(dice, &at);
    char key[32];
    int err;

    if (row == NULL) {
        return;
    }
    atomic_fetch_add(&row->deletes, 1);
    (void)snprintf(key, sizeof key, "key-%" PRIu64, at);
    err = tarry_cancel(store, tarry_by_id(atomic_load(&row->id)), false, NULL);
    if (err == TARRY_ENOTFOUND) {
        check_missing(row, at, 1);
    } else if (err != TARRY_OK && err != TARRY_ESTATE) {
        wrong("a cancel failed", at, err);
    }
    deleted(row, at, err);
    atomic_fetch_add(&all->cancelled, err == TARRY_OK);
    if (err == TARRY_OK &&
        tarry_cancel(store, tarry_by_key(topics[2], key), false, NULL) != TARRY_ENOTFOUND) {
        wrong("back by its key", at, err);
    }
}

static void reschedule(uint64_t *dice)
{
    uint64_t delay_us = roll(dice, 50) * TARRY_MS;
    uint64_t due_us = wall_us() + delay_us;
    uint64_t at;
    struct row *row = choose(dice, &at);
    uint64_t was;
    int err;

    if (row == NULL) {
        return;
    }
    was = atomic_load(&row->earliest_us);
    while (due_us < was && !atomic_compare_exchange_weak(&row->earliest_us, &was, due_us)) {
    }
    err = tarry_reschedule(store, tarry_by_id(atomic_load(&row->id)), delay_us, NULL);
    if (err == TARRY_ENOTFOUND) {
        check_missing(row, at, 0);
    } else if (err != TARRY_OK && err != TARRY_ESTATE) {
        wrong("a reschedule failed", at, err);
    }
}

static void *live(void *arg)
{
    uint64_t dice = seed * 1000003 + (uintptr_t)arg * 7919 + 88172645463325252ULL;

    while (!atomic_load(&stopping)) {
        uint64_t what = roll(&dice, 100);

        if (what < 35 && atomic_load(&all->live) < LIVE_MAX) {
            push_one(&dice);
        } else if (what < 85) {
            consume(&dice, roll(&dice, 2) * 2 * TARRY_MS);
        } else if (what < 92) {
            cancel(&dice);
        } else if (what < 98) {
            reschedule(&dice);
        } else {
            (void)tarry_kick_topic(store, topics[0], 10, NULL);
        }
    }
    return NULL;
}

/* ---- lives ---- */

static void hear(void *ctx, enum tarry_note kind, const char *text)
{
    (void)ctx;
    if (kind >= TARRY_NOTE_DAMAGE) {
        fprintf(stderr, "note: %s\n", text);
    }
}

static void open_store(void)
{
    struct tarry_options o = TARRY_OPTIONS_INIT;
    int err;

    o.sync = sync_mode;
    o.note = hear;
    err = tarry_open(&store, dir, &o);
    if (err != TARRY_OK) {
        wrong("the store does not open", JOBS_MAX, err);
    }
}

static void sleep_ms(uint64_t n)
{
    struct timespec t = {.tv_sec = (time_t)(n / 1000), .tv_nsec = (long)(n % 1000) * 1000000};

    (void)nanosleep(&t, NULL);
}

/* Runs until it is killed, or for its time. */
static _Noreturn void be_alive(bool last)
{
    pthread_t made[THREADS_MAX];
    int err;

    open_store();
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&made[i], NULL, live, (void *)(uintptr_t)i) != 0) {
            wrong("no thread", JOBS_MAX, 0);
        }
    }
    sleep_ms(last ? ms : 1000 * ms);
    atomic_store(&stopping, true);
    for (unsigned i = 0; i < threads; i++) {
        (void)pthread_join(made[i], NULL);
    }
    err = tarry_close(store);
    if (err != TARRY_OK) {
        wrong("the store does not close", JOBS_MAX, err);
    }
    _exit(0);
}

/* Takes everything out. */
static _Noreturn void look(void)
{
    struct tarry_reserve r = TARRY_RESERVE_INIT;
    struct tarry_job *job;
    uint64_t count;

    open_store();
    for (unsigned i = 0; i < TOPICS; i++) {
        while (tarry_kick_topic(store, topics[i], 1000, &count) == TARRY_OK && count > 0) {
        }
    }
    r.topics = topics;
    r.topic_count = TOPICS;
    while (tarry_reserve(store, &r, &job) == TARRY_OK) {
        uint64_t at = strtoull(job->body, NULL, 10);

        if (at >= JOBS_MAX || atomic_load(&all->rows[at].gone)) {
            wrong("back", at, 0);
        }
        if (atomic_exchange(&all->rows[at].found, true)) {
            wrong("twice", at, 0);
        }
        if (tarry_ack(store, job) != TARRY_OK) {
            wrong("no ack", at, 0);
        }
        tarry_job_free(job);
    }
    for (uint64_t at = 0; at < atomic_load(&all->next) && at < JOBS_MAX; at++) {
        const struct row *row = &all->rows[at];

        if (atomic_load(&row->pushed) && !atomic_load(&row->gone) && !atomic_load(&row->doubt) &&
            !atomic_load(&row->found)) {
            wrong("lost", at, 0);
        }
    }
    _exit(tarry_close(store) == TARRY_OK ? 0 : 1);
}

/* A life has ended: nobody holds anything, and what was under way is in doubt. */
static void settle(void)
{
    uint64_t live_now = 0;

    for (uint64_t at = 0; at < atomic_load(&all->next) && at < JOBS_MAX; at++) {
        struct row *row = &all->rows[at];

        if (atomic_exchange(&row->deletes, 0) > 0) {
            atomic_store(&row->doubt, true);
        }
        atomic_store(&row->held, false);
        live_now += atomic_load(&row->pushed) && !atomic_load(&row->gone);
    }
    atomic_store(&all->live, live_now);
}

/* The status of the child; it is killed after so long, unless that is 0. */
static int wait_for(pid_t child, uint64_t kill_ms)
{
    int status = 0;

    if (child < 0) {
        return 1;
    }
    if (kill_ms > 0) {
        sleep_ms(kill_ms);
        (void)kill(child, SIGKILL);
    }
    (void)waitpid(child, &status, 0);
    if (kill_ms > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        return 0;
    }
    return status;
}

static bool read_args(int argc, char **argv)
{
    dir = argc > 1 ? argv[1] : NULL;
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        uint64_t n = strtoull(value, NULL, 10);

        if (strcmp(argv[i], "--threads") == 0 && n > 0 && n <= THREADS_MAX) {
            threads = (unsigned)n;
        } else if (strcmp(argv[i], "--ms") == 0 && n > 0) {
            ms = n;
        } else if (strcmp(argv[i], "--lives") == 0 && n > 0) {
            lives = (unsigned)n;
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = n;
        } else if (strcmp(argv[i], "--sync") == 0) {
            sync_mode = strcmp(value, "never") == 0  ? TARRY_SYNC_NEVER
                        : strcmp(value, "50ms") == 0 ? TARRY_SYNC_INTERVAL
                                                     : TARRY_SYNC_ALWAYS;
        } else {
            return false;
        }
    }
    return dir != NULL;
}

int main(int argc, char **argv)
{
    uint64_t dice;

    if (!read_args(argc, argv)) {
        fprintf(stderr, "usage: see the top of storm.c\n");
        return 2;
    }
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) {
        return 2;
    }
    dice = seed * 2654435761U + 1;
    for (unsigned i = 0; i < lives; i++) {
        bool last = i + 1 == lives;
        pid_t child = fork();

        seed++;
        if (child == 0) {
            be_alive(last);
        }
        if (wait_for(child, last ? 0 : 1 + roll(&dice, ms)) != 0) {
            return 1;
        }
        settle();
    }
    pid_t child = fork();

    if (child == 0) {
        look();
    }
    if (wait_for(child, 0) != 0) {
        return 1;
    }
    printf("lives=%u pushed=%" PRIu64 " handed=%" PRIu64 " acked=%" PRIu64 " cancelled=%" PRIu64
           "\n",
           lives, atomic_load(&all->next), atomic_load(&all->handed), atomic_load(&all->acked),
           atomic_load(&all->cancelled));
    return 0;
}
