/*
 * What is asked, and when.
 *
 * Rule: the TAKEs sent never exceed the jobs put, so each is answered in the end, and an ACK that
 * stands behind another TAKE of its connection is never stuck for good. In `cycle` a slot takes
 * only after its own put was answered; the others count. A mode ends when nothing is outstanding.
 */

#include "bench/load.h"

#include "bench/watch.h"

#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

/* ---- What all share. */

static bool more_puts(const struct load *l)
{
    return l->stop_ns != 0 ? l->now_ns < l->stop_ns : l->next_job < l->opt.first + l->opt.count;
}

static uint32_t far_delay(struct load *l)
{
    uint64_t least = l->opt.delay_s;

    uint64_t spread = l->opt.spread_s > 0 ? l->opt.spread_s : least * 8;

    return least == 0 ? 0 : (uint32_t)(least + tr_rng_below(&l->rng, spread));
}

static void send_take(struct load *l, struct conn *c, uint64_t begin_ns)
{
    l->takes++;
    load_send(l, c, (struct request){.step = STEP_TAKE, .begin_ns = begin_ns});
}

/* A job came: ask for its body where it is not there yet, and say that it is done. */
static void finish_job(struct load *l, struct conn *c, const struct request *r,
                       const struct reply *a, uint64_t job)
{
    struct request ack = {.step = STEP_ACK, .id = a->id, .job = job, .begin_ns = r->begin_ns};

    if (l->driver->fetches) {
        load_send(l, c, (struct request){.step = STEP_FETCH, .id = a->id, .job = a->id});
        ack.job = a->id;
    }
    memcpy(ack.lease, a->lease, sizeof(ack.lease));
    load_send(l, c, ack);
}

static void end_when_quiet(struct load *l)
{
    if (l->outstanding == 0) {
        load_end(l);
    }
}

/* ---- put */

static void put_start(struct load *l)
{
    load_begin(l);
    for (unsigned d = 0; d < l->opt.depth; d++) {
        for (unsigned i = 0; i < l->conn_count && more_puts(l); i++) {
            load_put(l, &l->conns[i], far_delay(l));
        }
    }
}

static void put_replied(struct load *l, struct conn *c, const struct request *r,
                        const struct reply *a)
{
    uint64_t job;

    load_note(l, r, a, &job);
    if (more_puts(l)) {
        load_put(l, c, far_delay(l));
    }
    end_when_quiet(l);
}

/* ---- cycle: put, take, done; each connection has `depth` of them at once. */

static void cycle_start(struct load *l)
{
    l->opt.delay_s = 0;
    put_start(l);
}

static void cycle_replied(struct load *l, struct conn *c, const struct request *r,
                          const struct reply *a)
{
    uint64_t job = r->job;

    load_note(l, r, a, &job);
    if (r->step == STEP_PUT && a->answer == ANSWER_FINE) {
        send_take(l, c, r->begin_ns);
    } else if (r->step == STEP_TAKE && a->answer == ANSWER_FINE) {
        finish_job(l, c, r, a, job);
    } else if (r->step == STEP_ACK && more_puts(l)) {
        load_put(l, c, far_delay(l));
    }
    end_when_quiet(l);
}

/* ---- drain and burst: first all puts, then all takes. */

enum { FILLING, EMPTYING };

static void drain_take(struct load *l)
{
    l->phase = EMPTYING;
    l->fill_ns = l->now_ns - l->begin_ns;
    load_begin(l);
    l->stop_ns = 0;
    for (unsigned d = 0; d < l->opt.depth; d++) {
        for (unsigned i = 0; i < l->conn_count && l->takes < l->put; i++) {
            if (!l->conns[i].mover) {
                send_take(l, &l->conns[i], 0);
            }
        }
    }
    for (unsigned i = 0; i < l->conn_count; i++) {
        load_flush(l, &l->conns[i]);
    }
}

/* Whole seconds, so that all is due in the one second before next_at_ns. */
static uint32_t burst_delay(struct load *l)
{
    if (l->now_ns + SECOND_NS >= l->next_at_ns) {
        l->failed = "filled too slowly: say more --ahead";
        return 0;
    }
    return (uint32_t)((l->next_at_ns - l->now_ns) / SECOND_NS);
}

static uint32_t drain_delay(struct load *l)
{
    return l->next_at_ns != 0 ? burst_delay(l) : 0;
}

static void drain_start(struct load *l)
{
    load_begin(l);
    for (unsigned d = 0; d < l->opt.depth; d++) {
        for (unsigned i = 0; i < l->conn_count; i++) {
            if (!l->conns[i].mover && more_puts(l)) {
                load_put(l, &l->conns[i], drain_delay(l));
            }
        }
    }
}

static void burst_start(struct load *l)
{
    l->next_at_ns = watch_now_ns() + l->opt.ahead_s * SECOND_NS;
    drain_start(l);
}

static void drain_replied(struct load *l, struct conn *c, const struct request *r,
                          const struct reply *a)
{
    uint64_t job = r->job;

    if (r->step == STEP_MOVE) {
        l->moving = false;
        l->wrong += a->answer != ANSWER_FINE;
        l->move_at_ns = a->number > 0 ? l->now_ns : l->now_ns + l->opt.mover_ms * 1000000u;
        return;
    }
    load_note(l, r, a, &job);
    if (r->step == STEP_PUT && more_puts(l)) {
        load_put(l, c, drain_delay(l));
    } else if (r->step == STEP_TAKE) {
        if (a->answer == ANSWER_FINE) {
            finish_job(l, c, r, a, job);
        }
        if (l->takes < l->put) {
            send_take(l, c, 0);
        }
    }
    if (l->outstanding == 0) {
        if (l->phase == FILLING) {
            drain_take(l);
        } else {
            load_end(l);
        }
    }
}

/* Sends the mover on its way when it is time. */
static uint64_t mover_tick(struct load *l)
{
    struct conn *mover = &l->conns[l->conn_count - 1];

    if (!mover->mover || l->moving) {
        return UINT64_MAX;
    }
    if (l->now_ns >= l->move_at_ns) {
        l->moving = true;
        load_send(l, mover, (struct request){.step = STEP_MOVE});
        load_flush(l, mover);
    }
    return l->move_at_ns;
}

/* ---- trickle: puts at random moments on one connection, the others wait for jobs. */

static void trickle_go(struct load *l)
{
    l->phase = EMPTYING;
    l->fill_ns = l->now_ns - l->begin_ns;
    load_begin(l);
    l->stop_ns = 0;
    l->next_at_ns = l->now_ns;
    for (unsigned i = 1; i < l->conn_count; i++) {
        if (!l->conns[i].mover && l->takes < l->opt.count) {
            send_take(l, &l->conns[i], 0);
        }
        load_flush(l, &l->conns[i]);
    }
}

static void trickle_start(struct load *l)
{
    load_begin(l);
    for (unsigned d = 0; d < 16; d++) {
        if (l->next_job < l->opt.background) {
            load_put(l, &l->conns[0], far_delay(l));
        }
    }
    if (l->next_job >= l->opt.background) {
        trickle_go(l);
    }
}

static void trickle_replied(struct load *l, struct conn *c, const struct request *r,
                            const struct reply *a)
{
    uint64_t job = r->job;

    if (r->step == STEP_MOVE) {
        drain_replied(l, c, r, a);
        return;
    }
    load_note(l, r, a, &job);
    if (r->step == STEP_PUT && l->phase == FILLING) {
        if (l->next_job < l->opt.background) {
            load_put(l, c, far_delay(l));
        } else if (l->outstanding == 0) {
            for (unsigned s = 0; s < STEP_COUNT; s++) {
                hist_clear(&l->latency[s]);
            }
            trickle_go(l);
        }
        return;
    }
    if (r->step == STEP_TAKE) {
        if (a->answer == ANSWER_FINE) {
            finish_job(l, c, r, a, job);
        }
        if (l->takes < l->opt.count) {
            send_take(l, c, 0);
        }
    }
    /* A put or a take that was refused is the end of a job as well. */
    l->over += r->step == STEP_ACK || (a->answer != ANSWER_FINE && r->step != STEP_FETCH);
    if (l->over >= l->opt.count) {
        load_end(l);
    }
}

static uint64_t trickle_tick(struct load *l)
{
    uint64_t last = l->opt.background + l->opt.count;
    uint64_t next = mover_tick(l);

    if (l->phase == FILLING) {
        return UINT64_MAX;
    }
    while (l->next_job < last && l->now_ns >= l->next_at_ns) {
        load_put(l, &l->conns[0], 1 + (uint32_t)tr_rng_below(&l->rng, 5));
        l->next_at_ns += tr_rng_below(&l->rng, 2 * SECOND_NS / l->opt.rate);
    }
    load_flush(l, &l->conns[0]);
    if (l->next_job < last && l->next_at_ns < next) {
        next = l->next_at_ns;
    }
    return next;
}

/*
 * ---- tubes: first one far job in each, which keeps it alive; then jobs through all of them.
 *
 * A connection goes to a random tube for each job: use and put; watch, take and ignore; done. With
 * --share it watches its part of all tubes from the beginning and only goes to one to put.
 */

static void tubes_command(struct load *l, struct conn *c, const char *word)
{
    load_send(l, c, (struct request){.step = STEP_PLAIN, .word = word, .tube = c->tube});
}

static void tubes_set_up(struct load *l, struct conn *c)
{
    tubes_command(l, c, "use");
    if (l->opt.share) {
        tubes_command(l, c, "watch");
    }
    load_put(l, c, 1000000);
}

static void tubes_start(struct load *l)
{
    for (unsigned i = 0; i < l->conn_count; i++) {
        l->conns[i].tube = i % l->opt.tubes;
        tubes_set_up(l, &l->conns[i]);
    }
}

static void tubes_put(struct load *l, struct conn *c)
{
    uint64_t tube = tr_rng_below(&l->rng, l->opt.tubes);

    if (l->opt.share && l->opt.tubes >= l->conn_count) {
        uint64_t own = l->opt.tubes / l->conn_count; /* no connection has fewer */

        tube = c->number + l->conn_count * tr_rng_below(&l->rng, own);
    }
    c->tube = (uint32_t)tube;
    tubes_command(l, c, "use");
    load_put(l, c, 0);
}

static void tubes_go(struct load *l)
{
    l->phase = EMPTYING;
    l->opt.background = l->next_job; /* those of the set-up stay */
    for (unsigned s = 0; s < STEP_COUNT; s++) {
        hist_clear(&l->latency[s]);
    }
    load_begin(l);
    for (unsigned i = 0; i < l->conn_count; i++) {
        tubes_put(l, &l->conns[i]);
        load_flush(l, &l->conns[i]);
    }
}

static void tubes_replied(struct load *l, struct conn *c, const struct request *r,
                          const struct reply *a)
{
    uint64_t job = r->job;

    load_note(l, r, a, &job);
    if (l->phase == FILLING) {
        if (r->step == STEP_PUT && c->tube + l->conn_count < l->opt.tubes) {
            c->tube += l->conn_count;
            tubes_set_up(l, c);
        } else if (l->outstanding == 0) {
            tubes_go(l);
        }
        return;
    }
    if (r->step == STEP_PUT && a->answer == ANSWER_FINE) {
        if (!l->opt.share) {
            tubes_command(l, c, "watch");
        }
        send_take(l, c, r->begin_ns);
        if (!l->opt.share) {
            tubes_command(l, c, "ignore");
        }
    } else if (r->step == STEP_TAKE && a->answer == ANSWER_FINE) {
        finish_job(l, c, r, a, job);
    } else if (r->step == STEP_ACK && more_puts(l)) {
        tubes_put(l, c);
    }
    end_when_quiet(l);
}

/* ---- take: jobs that were there before. */

static void take_start(struct load *l)
{
    load_begin(l);
    l->put = l->opt.count;
    drain_take(l);
}

/* ---- ask: about random jobs, or tubes in turn. */

static const char *const ask_words[] = {
    [ASK_NOTHING] = "nothing", [ASK_PEEK] = "peek", [ASK_STATE] = "state",
    [ASK_CANCEL] = "cancel",   [ASK_MOVE] = "move", [ASK_FIRST] = "first",
    [ASK_COUNT] = "count",
};

enum ask load_find_ask(const char *word)
{
    unsigned i = sizeof(ask_words) / sizeof(ask_words[0]) - 1;

    while (i > 0 && strcmp(ask_words[i], word) != 0) {
        i--;
    }
    return (enum ask)i;
}

const char *load_ask_word(enum ask ask)
{
    return ask_words[ask];
}

/* beanstalk's ids count from 1. One that is changed is not asked for again. */
static void send_ask(struct load *l, struct conn *c)
{
    bool once = l->opt.ask == ASK_CANCEL || l->opt.ask == ASK_MOVE;
    uint64_t n = tr_rng_below(&l->rng, l->opt.known);

    while (once && (l->flags[n] & JOB_TAKEN) != 0) {
        n = tr_rng_below(&l->rng, l->opt.known);
    }
    l->flags[n] |= once ? JOB_TAKEN : 0;
    load_send(l, c,
              (struct request){.step = STEP_ASK,
                               .ask = l->opt.ask,
                               .id = n + !l->driver->fetches,
                               .tube = (uint32_t)(l->takes++ % l->opt.tubes),
                               .delay_s = far_delay(l)});
}

static bool more_asks(const struct load *l)
{
    return l->stop_ns != 0 ? l->now_ns < l->stop_ns : l->takes < l->opt.count;
}

static void ask_start(struct load *l)
{
    load_begin(l);
    for (unsigned d = 0; d < l->opt.depth; d++) {
        for (unsigned i = 0; i < l->conn_count && more_asks(l); i++) {
            send_ask(l, &l->conns[i]);
        }
    }
}

static void ask_replied(struct load *l, struct conn *c, const struct request *r,
                        const struct reply *a)
{
    bool named = l->driver->fetches && r->ask != ASK_FIRST; /* the id is our number */
    uint64_t job = r->id;

    l->end_ns = l->now_ns;
    l->done++;
    hist_add(&l->whole, l->now_ns - r->sent_ns);
    l->wrong += a->answer != ANSWER_FINE;
    if (a->answer == ANSWER_FINE && a->body != NULL &&
        (!load_good_body(l, a, &job) || (named && job != r->id))) {
        l->bad_body++;
    }
    if (more_asks(l)) {
        send_ask(l, c);
    }
    end_when_quiet(l);
}

/* ---- The list. */

static const struct mode modes[] = {
    {.name = "put", .start = put_start, .replied = put_replied},
    {.name = "cycle", .start = cycle_start, .replied = cycle_replied},
    {.name = "drain", .start = drain_start, .replied = drain_replied},
    {.name = "burst", .start = burst_start, .replied = drain_replied, .tick = mover_tick},
    {.name = "trickle", .start = trickle_start, .replied = trickle_replied, .tick = trickle_tick},
    {.name = "take", .start = take_start, .replied = drain_replied, .tick = mover_tick},
    {.name = "ask", .start = ask_start, .replied = ask_replied},
    {.name = "tubes", .start = tubes_start, .replied = tubes_replied},
};

const struct mode *load_find_mode(const char *name)
{
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(modes[i].name, name) == 0) {
            return &modes[i];
        }
    }
    return NULL;
}
