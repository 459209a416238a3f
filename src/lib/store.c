/*
 * An open store: the thread that owns the engine, and the door through which calls come to it.
 *
 *     caller: a call on its stack --> inbox --wake--> | store's thread: begin, the steps,
 *     caller sleeps in call->answered <----- told --- | then in `gated` until its batch is durable
 *
 * The engine is for one thread, so calls are handed over. Nothing is copied on the way in: the
 * caller sleeps, so what its arguments point to stays. An answer is told when the batch that it
 * depends on is durable, like every answer of a server (R22).
 *
 * One round of the thread: completions of the disk, then new calls, then a turn of the engine, then
 * those are told whose batch is durable, then a small commit that the disk left to us; then it
 * sleeps until the engine wants a turn or somebody wakes it. No timer is left when nothing is to
 * be done.
 *
 * Closing: no new calls; reserves that wait are ended; the others are answered; when nobody is
 * inside any more and no request of the disk is under way, the engine is closed (CLEAN).
 *
 * A failure of the disk is final: the engine answers everything with TARRY_EIO from then on, and
 * those who wait for their batch are told the same.
 *
 * A child made by fork has a copy of all this without the thread: it is refused by its pid.
 */

#include "lib/inner.h"
#include "os/clock_linux.h"
#include "os/random_linux.h"
#include "os/thread_linux.h"
#include "os/zones_linux.h"

#include <stdlib.h>
#include <unistd.h>

enum { BODY_MAX = 8 << 20 };

/* ---- calls, as their threads see them ---- */

int tr_call_run(struct tarry *t, struct tr_call *c)
{
    int err;

    if (t == NULL) {
        return TARRY_EINVAL;
    }
    if (t->pid != getpid()) {
        return TARRY_ELOCKED; /* it is the parent's */
    }
    err = pthread_cond_init(&c->answered, NULL);
    TR_CHECK(err == 0);
    c->store = t;
    c->told = false;
    pthread_mutex_lock(&t->lock);
    if (t->closing) {
        pthread_mutex_unlock(&t->lock);
        return TARRY_ECLOSED;
    }
    t->users++;
    tr_list_append(&t->inbox, &c->link);
    if (!t->awake) {
        t->awake = true;
        tr_sleep_linux_wake(&t->sleep);
    }
    while (!c->told) {
        pthread_cond_wait(&c->answered, &t->lock);
    }
    t->users--;
    if (t->closing && t->users == 0) {
        tr_sleep_linux_wake(&t->sleep); /* it waits for that; after the unlock t may be gone */
    }
    pthread_mutex_unlock(&t->lock);
    err = pthread_cond_destroy(&c->answered);
    TR_CHECK(err == 0);
    return c->status;
}

/* ---- and as the thread of the store does ---- */

static void step_done(struct tr_req *r)
{
    struct tr_call *c = r->ctx;

    c->gate = r->out.gate > c->gate ? r->out.gate : c->gate;
    c->then(c);
}

static void side_done(struct tr_req *r)
{
    struct tr_call *c = r->ctx;

    c->gate = r->out.gate > c->gate ? r->out.gate : c->gate;
}

void tr_call_ask(struct tr_call *c, enum tr_op op, tr_step_fn *then)
{
    c->then = then;
    c->req.op = op;
    c->req.done = step_done;
    c->req.ctx = c;
    tr_engine_submit(c->store->engine, &c->req, tr_clock_linux_now());
}

int tr_call_ask_now(struct tr_call *c, enum tr_op op)
{
    c->side.op = op;
    c->side.done = side_done;
    c->side.ctx = c;
    tr_engine_submit(c->store->engine, &c->side, tr_clock_linux_now());
    TR_CHECK(!c->side.busy);
    return c->side.out.status;
}

void tr_call_end(struct tr_call *c, int status)
{
    c->status = status;
    tr_list_remove(&c->link);
    tr_list_append(&c->store->gated, &c->link);
}

/* Tells those whose batch is durable. */
static void tell(struct tarry *t)
{
    bool failed = tr_engine_failed(t->engine);
    struct tr_list *n = t->gated.next;

    pthread_mutex_lock(&t->lock);
    while (n != &t->gated) {
        struct tr_call *c = TR_CONTAINER_OF(n, struct tr_call, link);

        n = n->next;
        if (c->gate <= t->durable || failed) {
            c->status = c->gate <= t->durable ? c->status : TARRY_EIO;
            tr_list_remove(&c->link);
            c->told = true;
            pthread_cond_signal(&c->answered);
        }
    }
    pthread_mutex_unlock(&t->lock);
}

static void begin_calls(struct tarry *t)
{
    struct tr_list some;

    tr_list_init(&some);
    pthread_mutex_lock(&t->lock);
    tr_list_splice(&some, &t->inbox);
    pthread_mutex_unlock(&t->lock);
    while (!tr_list_empty(&some)) {
        struct tr_call *c = TR_CONTAINER_OF(some.next, struct tr_call, link);

        tr_list_remove(&c->link);
        tr_list_append(&t->busy, &c->link);
        c->begin(c);
    }
}

static void take(struct tarry *t, struct tr_io *io)
{
    while (io != NULL) {
        struct tr_io *next = io->next;

        tr_engine_io_done(t->engine, io, tr_clock_linux_now());
        io = next;
    }
}

/* A close has begun: nobody waits for a job any more. True: nobody is inside. */
static bool leave(struct tarry *t)
{
    struct tr_list *n = t->busy.next;
    bool empty;

    while (n != &t->busy) {
        struct tr_call *c = TR_CONTAINER_OF(n, struct tr_call, link);

        n = n->next;
        if (c->waits) {
            tr_engine_abandon(t->engine, &c->req, tr_clock_linux_now());
            tr_call_give_up(c);
        }
    }
    tell(t);
    pthread_mutex_lock(&t->lock);
    empty = t->users == 0;
    pthread_mutex_unlock(&t->lock);
    return empty;
}

static bool is_closing(struct tarry *t)
{
    bool closing;

    pthread_mutex_lock(&t->lock);
    closing = t->closing;
    pthread_mutex_unlock(&t->lock);
    return closing;
}

/* Has somebody come meanwhile? If not, whoever comes from now on wakes us. */
static bool has_more(struct tarry *t)
{
    bool more;

    pthread_mutex_lock(&t->lock);
    more = !tr_list_empty(&t->inbox);
    t->awake = more;
    pthread_mutex_unlock(&t->lock);
    return more;
}

/* A round; when to begin the next one. */
static uint64_t round_of(struct tarry *t)
{
    struct tr_io *helped;
    uint64_t next;

    take(t, tr_disk_linux_take_done(t->disk));
    begin_calls(t);
    next = tr_engine_turn(t->engine, tr_clock_linux_now());
    tell(t);
    helped = tr_disk_linux_help(t->disk);
    take(t, helped);
    return helped == NULL && !has_more(t) ? next : 0;
}

/* Nobody is inside: the engine is closed in order, unless it has failed. */
static int end(struct tarry *t)
{
    take(t, tr_disk_linux_take_done(t->disk));
    take(t, tr_disk_linux_help(t->disk));
    while (tr_engine_busy(t->engine) && !tr_engine_failed(t->engine)) {
        tr_sleep_linux_until(&t->sleep, UINT64_MAX);
        take(t, tr_disk_linux_take_done(t->disk));
        take(t, tr_disk_linux_help(t->disk));
    }
    return tr_engine_failed(t->engine) ? TARRY_EIO
                                       : tr_engine_close(t->engine, tr_clock_linux_now());
}

static void *work(void *arg)
{
    struct tarry *t = arg;
    uint64_t next = round_of(t);

    while (!is_closing(t) || !leave(t)) {
        tr_sleep_linux_until(&t->sleep, next);
        next = round_of(t);
    }
    t->closed_with = end(t);
    return NULL;
}

/* ---- opening and closing ---- */

static void note(void *ctx, enum tr_notice kind, const char *text)
{
    struct tarry *t = ctx;

    if (t->note != NULL) {
        t->note(t->note_ctx, (enum tarry_note)kind, text);
    }
}

static void durable(void *ctx, uint64_t batch)
{
    struct tarry *t = ctx;

    t->durable = batch;
}

static int open_engine(struct tarry *t, const struct tarry_options *o)
{
    struct tr_engine_config c;
    struct tr_engine_stat stat;
    uint64_t seed;
    int err = tr_random_linux_seed(&seed);

    if (err != TARRY_OK) {
        return err;
    }
    tr_engine_config_init(&c, &t->mem);
    c.zone = tr_zones_linux_read;
    c.sync = (enum tr_sync)o->sync;
    c.body_max = BODY_MAX; /* each program has its own limit */
    c.ctx = t;
    c.notice = note;
    c.durable = durable;
    err = tr_engine_open(&t->engine, &c, tr_disk_linux_port(t->disk), seed, tr_clock_linux_now());
    if (err == TARRY_OK) {
        tr_engine_stat(t->engine, &stat);
        t->durable = stat.durable_batch;
    }
    return err;
}

static bool options_ok(const struct tarry_options *o)
{
    return (unsigned)o->sync <= TARRY_SYNC_NEVER && o->body_max <= BODY_MAX;
}

static void drop(struct tarry *t)
{
    int err;

    tr_disk_linux_close(t->disk); /* ends its threads: after it nobody wakes ours */
    tr_engine_free(t->engine);
    tr_sleep_linux_fini(&t->sleep);
    err = pthread_mutex_destroy(&t->lock);
    TR_CHECK(err == 0);
    free(t);
}

static struct tarry *make(const struct tarry_options *o)
{
    struct tarry *t = calloc(1, sizeof *t);
    int err;

    if (t == NULL) {
        return NULL;
    }
    err = pthread_mutex_init(&t->lock, NULL);
    TR_CHECK(err == 0);
    t->pid = getpid();
    t->note = o->note;
    t->note_ctx = o->note_ctx;
    t->body_max = o->body_max;
    tr_list_init(&t->inbox);
    tr_list_init(&t->busy);
    tr_list_init(&t->gated);
    tr_mem_init(&t->mem, o->memory_bytes);
    return t;
}

int tarry_open(struct tarry **out, const char *dir, const struct tarry_options *options)
{
    struct tarry_options o = TARRY_OPTIONS_INIT;
    struct tarry *t;
    int err = TARRY_OK;

    if (out == NULL) {
        return TARRY_EINVAL;
    }
    *out = NULL;
    if (options != NULL) {
        err = tr_give_take(&o, sizeof o, options);
    }
    if (err != TARRY_OK || dir == NULL || dir[0] == '\0' || !options_ok(&o)) {
        return err != TARRY_OK ? err : TARRY_EINVAL;
    }
    t = make(&o);
    if (t == NULL) {
        return TARRY_ENOMEM;
    }
    err = tr_sleep_linux_init(&t->sleep);
    if (err != TARRY_OK) {
        (void)pthread_mutex_destroy(&t->lock);
        free(t);
        return err;
    }
    err = tr_disk_linux_open(&t->disk, dir, tr_sleep_linux_wake, &t->sleep);
    if (err == TARRY_OK) {
        tr_disk_linux_offer_help(t->disk);
        err = open_engine(t, &o);
    }
    if (err == TARRY_OK) {
        err = tr_thread_start(&t->thread, "tarry", work, t) ? TARRY_OK : TARRY_ENOMEM;
    }
    if (err != TARRY_OK) {
        drop(t);
        return err;
    }
    *out = t;
    return TARRY_OK;
}

int tarry_close(struct tarry *t)
{
    int err;

    if (t == NULL) {
        return TARRY_OK;
    }
    if (t->pid != getpid()) {
        return TARRY_ELOCKED;
    }
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    pthread_mutex_unlock(&t->lock);
    tr_sleep_linux_wake(&t->sleep);
    err = pthread_join(t->thread, NULL);
    TR_CHECK(err == 0);
    err = t->closed_with;
    drop(t);
    return err;
}

const char *tarry_version(void)
{
    return TARRY_VERSION;
}
