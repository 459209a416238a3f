/*
 * Handing jobs out, and getting them back.
 *
 *     reserve --> a ready job? --yes--> lease, ATTEMPT (lazy) --> body in memory? --> answer
 *                      | no                                          | no: read it first
 *                      v
 *               waits in the line of each of its topics --> the first in line gets the job in the
 *                                                           call in which it becomes ready
 *
 * Never early, whatever the clock does: a ready job whose due time lies ahead of T again (the
 * clock was set back) goes back to the delayed ones when it is met here.
 *
 * A lease number is (epoch, counter) and never repeats (R27); a job is held by whoever names the
 * connection or the lease number under which it is reserved right now.
 *
 * ATTEMPT is lazy: it gates nobody, and is written with the next batch or after lazy_us. So a
 * crash may forget the last hand-outs, which then are repeated: at least once.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"
#include "engine/tag.h"

#include <stddef.h>

enum {
    CLOSE_UNITS = 3, /* a job that goes back touches several cold lines of memory */
    FEW_READY = 32   /* topics with something are few; then a reserve of many starts from those */
};

bool tr_handout_held_by(const struct tr_job *job, const struct tr_req *r)
{
    if (job->state != TR_RESERVED) {
        return false;
    }
    return (r->holder != 0 && job->holder == r->holder) ||
           (r->lease != 0 && (job->lease == r->lease || TR_MUTANT(ANY_LEASE)));
}

/* ---- leases ---- */

/* So long after now, by the clock of leases and pauses. */
static uint64_t span_after(const struct tr_engine *e, uint64_t wait_us)
{
    uint64_t now_us = tr_clock_span(&e->clock);
    uint64_t most = TR_WHEEL_NEVER - 1 - now_us;

    return now_us + (wait_us < most ? wait_us : most);
}

static void hold(struct tr_engine *e, struct tr_holder *h, struct tr_job *job, uint64_t ttr_us)
{
    tr_topic_enter(job->topic, job, TR_RESERVED);
    tr_holder_add(h, job);
    tr_wheel_arm(&e->leases, &job->timer, span_after(e, ttr_us));
    tr_tally_entered(&e->state, job);
    tr_listing_entered(e, job);
}

void tr_handout_restore(struct tr_engine *e, struct tr_job *job)
{
    uint64_t left = job->lease_end_us > e->clock.t_us ? job->lease_end_us - e->clock.t_us : 0;
    struct tr_holder *h = tr_holder_get(e, 0);

    if (h == NULL) {
        tr_change_schedule(e, job); /* no memory: it is handed out again instead */
        return;
    }
    job->ready_us = e->clock.t_us;
    job->first_us = job->due_us; /* when that really was, nobody knows any more */
    hold(e, h, job, left < job->lease_ttr_us ? left : job->lease_ttr_us);
}

/* ---- waiting ---- */

/* Remembers the topics of a reserve that cannot be answered at once. */
static int remember(struct tr_engine *e, struct tr_req *r)
{
    struct tr_wait *w;

    if (r->own != NULL) {
        return TARRY_OK;
    }
    w = tr_mem_alloc(e->mem, sizeof *w + r->topic_count * sizeof w->waiters[0]);
    if (w == NULL) {
        return TARRY_ENOMEM;
    }
    tr_list_append(&e->waiting, &w->all);
    w->req = r;
    w->count = r->topic_count;
    w->until_us = r->wait_us < TR_NEVER - e->now.boot_us ? e->now.boot_us + r->wait_us : TR_NEVER;
    tr_timer_init(&w->timer);
    tr_timer_init(&w->warn);
    tr_list_init(&w->of_holder);
    for (unsigned i = 0; i < w->count; i++) {
        struct tr_waiter *waiter = &w->waiters[i];

        waiter->wait = w;
        tr_list_init(&waiter->link);
        waiter->topic = tr_topics_by_handle(&e->state.topics, r->topics[i]);
        if (waiter->topic != NULL) {
            waiter->topic->wanted++;
        }
    }
    r->own = w;
    return TARRY_OK;
}

static void leave_lines(struct tr_engine *e, struct tr_wait *w)
{
    if (!w->in_line) {
        return;
    }
    w->in_line = false;
    e->wait_count--;
    tr_wheel_disarm(&e->waits, &w->timer);
    tr_wheel_disarm(&e->warns, &w->warn);
    tr_list_remove(&w->of_holder);
    for (unsigned i = 0; i < w->count; i++) {
        if (w->waiters[i].topic != NULL) {
            struct tr_topic *t = w->waiters[i].topic;

            if (t->serving == &w->waiters[i].link) {
                t->serving = w->waiters[i].link.next;
            }
            tr_list_remove(&w->waiters[i].link);
            t->waiting--;
            if (t->waiting == 0) {
                tr_limit_stop(e, t);
            }
        }
    }
}

static void wait_free(struct tr_engine *e, struct tr_wait *w)
{
    leave_lines(e, w);
    tr_holder_drop_empty(e, w->holder);
    tr_list_remove(&w->all);
    tr_mem_free(e->mem, w, sizeof *w + w->count * sizeof w->waiters[0]);
}

void tr_handout_free_waits(struct tr_engine *e)
{
    while (!tr_list_empty(&e->waiting)) {
        wait_free(e, TR_CONTAINER_OF(e->waiting.next, struct tr_wait, all));
    }
}

void tr_handout_cancel_wait(struct tr_engine *e, struct tr_req *r)
{
    struct tr_wait *w = r->own;

    if (w == NULL) {
        return;
    }
    leave_lines(e, w);
    for (unsigned i = 0; i < w->count; i++) {
        struct tr_topic *t = w->waiters[i].topic;

        if (t != NULL) {
            t->wanted--;
            tr_change_drop_topic(e, t);
        }
    }
    wait_free(e, w);
    r->own = NULL;
}

/* In line until its time is over, by boot time, or until it is to be warned, by that of leases. */
static void arm_wait(struct tr_engine *e, struct tr_wait *w, uint64_t warn_at)
{
    if (w->until_us != TR_NEVER && !w->timer.armed) {
        tr_wheel_arm(&e->waits, &w->timer, w->until_us);
    }
    if (warn_at != TR_NEVER && !TR_MUTANT(NO_WARNING)) {
        tr_wheel_arm(&e->warns, &w->warn, warn_at);
    }
}

/* Stands in the line of each of its topics. */
static int join_lines(struct tr_engine *e, struct tr_req *r, uint64_t warn_at)
{
    struct tr_wait *w;
    struct tr_holder *h = NULL;

    if (r->warn_us != 0 && r->holder != 0) {
        h = tr_holder_get(e, r->holder);
        if (h == NULL) {
            return TARRY_ENOMEM;
        }
    }
    if (remember(e, r) != TARRY_OK) {
        tr_holder_drop_empty(e, r->holder);
        return TARRY_ENOMEM;
    }
    w = r->own;
    if (h != NULL) {
        w->holder = h->number;
        tr_list_append(&h->warned, &w->of_holder);
    }
    w->in_line = true;
    e->wait_count++;
    for (unsigned i = 0; i < w->count; i++) {
        if (w->waiters[i].topic != NULL) {
            tr_list_append(&w->waiters[i].topic->waiters, &w->waiters[i].link);
            w->waiters[i].topic->waiting++;
            tr_limit_wait(e, w->waiters[i].topic);
        }
    }
    arm_wait(e, w, warn_at);
    return TARRY_OK;
}

static enum tr_verdict finish(struct tr_engine *e, struct tr_req *r, int status)
{
    tr_handout_cancel_wait(e, r);
    return tr_engine_finish(e, r, status);
}

void tr_handout_fail(struct tr_engine *e)
{
    while (!tr_list_empty(&e->waiting)) {
        (void)finish(e, TR_CONTAINER_OF(e->waiting.next, struct tr_wait, all)->req, TARRY_EIO);
    }
}

static enum tr_verdict stall(struct tr_engine *e, struct tr_req *r)
{
    return remember(e, r) == TARRY_OK ? TR_STALL : finish(e, r, TARRY_ENOMEM);
}

/* ---- the hand-out itself ---- */

/* How long it was ready; a clock that was set back meanwhile makes that 0. */
static void meter_handed(const struct tr_engine *e, const struct tr_job *job)
{
    struct tr_meter *m = tr_topic_meter(job->topic);

    m->counts[TR_METERED_HANDED]++;
    tr_hist_add(&m->wait, &tr_hist_waits,
                e->clock.t_us > job->ready_us ? e->clock.t_us - job->ready_us : 0);
}

static enum tr_verdict handed(struct tr_engine *e, struct tr_req *r, const struct tr_job *job,
                              const uint8_t *body)
{
    bool gated = e->config.sync == TR_SYNC_ALWAYS && job->gate > e->log.durable;

    if (e->failed) {
        return finish(e, r, TARRY_EIO);
    }
    tr_handout_cancel_wait(e, r);
    tr_past_handed(e, job, r->actor);
    meter_handed(e, job);
    tr_view_fill(e, job, &r->out.job);
    r->out.job.body = body;
    r->out.status = TARRY_OK;
    r->out.gate = gated && !TR_MUTANT(UNGATED_HANDOUT) ? job->gate : 0;
    r->busy = false;
    r->done(r);
    return TR_DONE;
}

static uint64_t new_lease(struct tr_engine *e, const struct tr_job *job)
{
    if (TR_MUTANT(LEASE_IS_ATTEMPT)) {
        return job->counters.reserves + 1;
    }
    return e->epoch << TR_LEASE_BITS | ++e->next_lease;
}

/* Logs that the job is out under this lease; room was made. ttr_us: 0 with a connection. */
static void log_attempt(struct tr_engine *e, struct tr_job *job, uint64_t lease, uint64_t ttr_us,
                        struct tr_counters counters)
{
    struct tr_record rec = {.type = TR_REC_ATTEMPT,
                            .mask = TR_FIELD(COUNTERS) | TR_FIELD(LEASE),
                            .rid = job->rid,
                            .counters = counters};
    struct tr_job *same;

    rec.lease.epoch = (uint32_t)(lease >> TR_LEASE_BITS);
    rec.lease.number = lease & ((UINT64_C(1) << TR_LEASE_BITS) - 1);
    rec.lease.end_us = ttr_us != 0 ? e->clock.t_us + ttr_us : 0;
    rec.lease.ttr_us = ttr_us;
    TR_CHECK(tr_state_apply(&e->state, &rec, e->log.open.no, &same) == TARRY_OK);
    tr_log_append(&e->log, &rec, tr_engine_base(e), false);
    tr_engine_touch_log(e);
}

/* A lease of a connection. */
static uint64_t holder_ttr(const struct tr_req *r, const struct tr_job *job)
{
    uint64_t ttr_us = tr_policy_ttr(job->ttr_us);

    return ttr_us > r->lease_us ? ttr_us : r->lease_us;
}

static uint64_t ttr_of(const struct tr_req *r, const struct tr_job *job)
{
    if (r->holder != 0) {
        return holder_ttr(r, job);
    }
    return r->ttr_us != 0 ? r->ttr_us : tr_policy_ttr(job->ttr_us);
}

/* All that a hand-out needs, before anything is changed: *read if the body is not in memory. */
static int prepare(struct tr_engine *e, struct tr_req *r, const struct tr_job *job,
                   struct tr_read **read)
{
    int err = tr_holder_get(e, r->holder) != NULL ? TARRY_OK : TARRY_ENOMEM;

    *read = NULL;
    if (err == TARRY_OK && job->body == NULL) {
        err = r->op == TR_OP_RESERVE ? remember(e, r) : TARRY_OK;
        if (err == TARRY_OK) {
            err = tr_read_new(e, job, read);
        }
    }
    if (err != TARRY_OK) {
        tr_holder_drop_empty(e, r->holder);
    }
    return err;
}

/* Gives a ready job to r. Log, holder and read were prepared. */
static enum tr_verdict give(struct tr_engine *e, struct tr_req *r, struct tr_job *job,
                            struct tr_read *read)
{
    uint64_t ttr_us = ttr_of(r, job);
    struct tr_counters counters = job->counters;

    counters.reserves++;
    tr_rate_add(&job->topic->hands, tr_clock_span(&e->clock));
    tr_rate_add(&e->state.topics.hands, tr_clock_span(&e->clock));
    job->paid = false;
    if (r->op == TR_OP_RESERVE) {
        tr_limit_take(e, job);
    }
    tr_change_unschedule(e, job);
    hold(e, tr_holder_get(e, r->holder), job, ttr_us);
    log_attempt(e, job, new_lease(e, job), r->holder == 0 ? ttr_us : 0, counters);
    if (read == NULL) {
        tr_holder_lease_begins(e, job);
        return handed(e, r, job, job->body);
    }
    tr_read_send(e, read, job, r);
    job->handing = true;
    return TR_WAITS;
}

static bool before(const struct tr_job *a, const struct tr_job *b, enum tr_order order)
{
    if (a->priority != b->priority) {
        return a->priority < b->priority;
    }
    if (order == TR_ORDER_DUE && a->due_us != b->due_us) {
        return a->due_us < b->due_us;
    }
    return a->id < b->id;
}

/* The first of t that r asks for. */
static int first_of(struct tr_engine *e, struct tr_topic *t, const struct tr_req *r,
                    struct tr_job **job)
{
    struct tr_bytes tag = {(const uint8_t *)r->tag, r->tag_len};

    if (tag.len == 0 || TR_MUTANT(ANY_TAG)) {
        return tr_topic_first(t, r->order, &e->work, job);
    }
    return tr_tags_first(t, tag, &e->work, job);
}

/* The first of t that is really due; others go back to the delayed ones, or to the dead. */
static int first_due(struct tr_engine *e, struct tr_topic *t, const struct tr_req *r,
                     struct tr_job **job)
{
    int err;

    while ((err = first_of(e, t, r, job)) == TARRY_OK && *job != NULL) {
        struct tr_job *first = *job;

        if (first->due_us > e->clock.t_us) {
            tr_change_unschedule(e, first);
            tr_change_schedule(e, first);
        } else {
            err = tr_expiry_settle(e, first);
        }
        if (err != TARRY_OK || first->state == TR_READY) {
            return err;
        }
        if (!tr_engine_spend(e)) {
            return TARRY_EFULL; /* go on in the next slice */
        }
    }
    return err;
}

/* With a tag there is one order only. */
static enum tr_order order_of(const struct tr_req *r)
{
    return r->tag_len != 0 ? TR_ORDER_DUE : r->order;
}

/* What has been found so far for a reserve. */
struct choice {
    const struct tr_req *req;
    struct tr_job *best; /* or NULL */
};

static int consider(struct tr_engine *e, struct choice *c, struct tr_topic *t)
{
    struct tr_job *job = NULL;
    int err;

    if (t == NULL || tr_topic_paused(t) || tr_limit_holds(e, t)) {
        return TARRY_OK;
    }
    err = first_due(e, t, c->req, &job);
    if (err == TARRY_OK && job != NULL &&
        (c->best == NULL || before(job, c->best, order_of(c->req)))) {
        c->best = job;
    }
    return err;
}

static unsigned topics_of(const struct tr_req *r)
{
    const struct tr_wait *w = r->own;

    return w != NULL ? w->count : r->topic_count;
}

static bool waits_for(const struct tr_req *r, const struct tr_topic *t)
{
    const struct tr_wait *w = r->own;
    bool found = false;

    for (unsigned i = 0; w != NULL && i < w->count; i++) {
        found |= w->waiters[i].topic == t;
    }
    for (unsigned i = 0; w == NULL && i < r->topic_count; i++) {
        found |= r->topics[i] == t->handle;
    }
    return found;
}

/* The same from the other side: a look at each topic that has something. */
static int pick_from_few(struct tr_engine *e, struct choice *c)
{
    struct tr_list *head = &e->state.topics.with_ready;
    int err = TARRY_OK;

    for (struct tr_list *n = head->next, *next; n != head && err == TARRY_OK; n = next) {
        struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, with_ready);

        next = n->next; /* it may lose its last one that is really due */
        if (waits_for(c->req, t)) {
            err = consider(e, c, t);
        }
    }
    return err;
}

/* The least ready job of all topics that r waits for, or NULL. Eight topics are a unit of work. */
static int pick(struct tr_engine *e, const struct tr_req *r, struct tr_job **best)
{
    const struct tr_wait *w = r->own;
    struct choice c = {.req = r};
    unsigned count = topics_of(r);
    int err = TARRY_OK;

    if (count > e->config.many_topics && e->state.topics.with_ready_count <= FEW_READY) {
        err = pick_from_few(e, &c);
        count /= 8;
    } else {
        for (unsigned i = 0; i < count && err == TARRY_OK; i++) {
            err = consider(e, &c,
                           w != NULL ? w->waiters[i].topic
                                     : tr_topics_by_handle(&e->state.topics, r->topics[i]));
        }
    }
    *best = err == TARRY_OK ? c.best : NULL;
    if (err == TARRY_OK) {
        (void)tr_engine_charge(e, count / 8); /* afterwards: one with many must not go in vain */
    }
    return err;
}

static bool knows_topic(const struct tr_engine *e, const struct tr_req *r)
{
    for (unsigned i = 0; r->own == NULL && i < r->topic_count; i++) {
        if (tr_topics_by_handle(&e->state.topics, r->topics[i]) != NULL) {
            return true;
        }
    }
    return r->own != NULL;
}

/* It has waited as long as it was to; one that was not to wait at all is not meant. */
static bool wait_over(const struct tr_engine *e, const struct tr_req *r)
{
    const struct tr_wait *w = r->own;

    return r->wait_us != 0 && w != NULL && w->until_us <= e->now.boot_us;
}

/* A refill will bring something before long. */
static bool is_coming(const struct tr_engine *e, const struct tr_req *r)
{
    const struct tr_wait *w = r->own;
    bool coming = false;
    bool any = e->refill.topic != 0 || !tr_list_empty(&e->state.topics.parked);

    for (unsigned i = 0; any && i < topics_of(r); i++) {
        struct tr_topic *t =
            w != NULL ? w->waiters[i].topic : tr_topics_by_handle(&e->state.topics, r->topics[i]);

        coming = coming || (tr_park_coming(e, t) && !tr_topic_paused(t) && !tr_limit_holds(e, t));
    }
    return coming;
}

/* Nothing can be handed out now. */
static enum tr_verdict find_nothing(struct tr_engine *e, struct tr_req *r)
{
    uint64_t warn_at;

    if (tr_holder_next_warning(e, r, &warn_at) != TARRY_OK) {
        return stall(e, r);
    }
    if (warn_at <= tr_clock_span(&e->clock)) {
        return finish(e, r, TARRY_ESOON);
    }
    if (r->wait_us == 0 || wait_over(e, r)) {
        if (is_coming(e, r)) {
            return stall(e, r);
        }
        return finish(e, r, TARRY_ETIMEOUT);
    }
    return join_lines(e, r, warn_at) == TARRY_OK ? TR_WAITS : finish(e, r, TARRY_ENOMEM);
}

static enum tr_verdict reserve(struct tr_engine *e, struct tr_req *r)
{
    struct tr_read *read;
    struct tr_job *job;
    int err;

    if (!knows_topic(e, r) || r->order >= TR_ORDER_COUNT || r->ttr_us > TR_DELAY_MAX_US ||
        r->lease_us > TR_DELAY_MAX_US || r->tag_len > TR_TAG_MAX) {
        return finish(e, r, TARRY_EINVAL);
    }
    err = pick(e, r, &job);
    if (err == TARRY_OK) {
        err = tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX, 1);
    }
    if (err == TARRY_EFULL) {
        return stall(e, r);
    }
    if (err != TARRY_OK) {
        return finish(e, r, err);
    }
    if (job != NULL) {
        err = prepare(e, r, job, &read);
        if (err == TARRY_OK) {
            return give(e, r, job, read);
        }
        return err == TARRY_EFULL ? stall(e, r) : finish(e, r, err);
    }
    return find_nothing(e, r);
}

static enum tr_verdict reserve_job(struct tr_engine *e, struct tr_req *r)
{
    struct tr_job *job;
    struct tr_record rec = {.mask = TR_FIELD(DUE), .due_us = e->clock.t_us};
    struct tr_read *read;
    int err;

    if (r->ttr_us > TR_DELAY_MAX_US) {
        return finish(e, r, TARRY_EINVAL);
    }
    err = tr_load_by_id(e, r->id, &job);
    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TR_STALL : finish(e, r, err);
    }
    if (job->state == TR_RESERVED) {
        tr_view_fill(e, job, &r->out.job);
        return finish(e, r, TARRY_ESTATE);
    }
    /* A reserved job is always due and not dead: what it was is over, by the client's own word. */
    if (job->dead_seq != 0) {
        rec.mask |= TR_FIELD(DEAD);
    }
    err = tr_log_reserve(&e->log, (size_t)3 * TR_RECORD_HEAD_MAX + job->body_len, 3);
    if (err == TARRY_OK) {
        err = tr_change_fits(e, job, &rec);
    }
    if (err == TARRY_OK) {
        err = prepare(e, r, job, &read);
    }
    if (err == TARRY_OK && (job->state != TR_READY || job->due_us > e->clock.t_us)) {
        err = tr_change_revise(e, job, &rec, true);
        TR_CHECK(err == TARRY_OK); /* its room was made above */
    }
    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TR_STALL : finish(e, r, err);
    }
    return give(e, r, job, read);
}

void tr_handout_mark(struct tr_engine *e, struct tr_topic *t)
{
    t->serving = NULL; /* it may be something for those who were passed over */
    if (!tr_list_empty(&t->waiters) && tr_list_empty(&t->dirty)) {
        tr_list_append(&e->dirty, &t->dirty);
    }
}

/* Who waits for t has got what there is. */
static void served(struct tr_engine *e, struct tr_topic *t)
{
    tr_list_remove(&t->dirty);
    t->serving = NULL;
    tr_limit_wait(e, t);
}

/* Gives ready jobs to those who wait, first come first. Whoever waits for a tag may be passed over.
 */
void tr_handout_serve(struct tr_engine *e)
{
    e->actor = 0; /* what was asked for is done; those who are served have their own */
    while (!tr_list_empty(&e->dirty) && tr_engine_spend(e)) {
        struct tr_topic *t = TR_CONTAINER_OF(e->dirty.next, struct tr_topic, dirty);
        struct tr_list *next = t->serving != NULL ? t->serving : t->waiters.next;
        struct tr_waiter *first = TR_CONTAINER_OF(next, struct tr_waiter, link);
        struct tr_read *read = NULL;
        struct tr_job *job = NULL;

        if (next == &t->waiters || tr_topic_paused(t) || t->count[TR_READY] == 0 ||
            tr_limit_holds(e, t)) {
            served(e, t);
            continue;
        }
        int err = pick(e, first->wait->req, &job);

        if (err == TARRY_ENOMEM) { /* later, and after the others: it may be the only one */
            tr_list_remove(&t->dirty);
            tr_list_append(&e->dirty, &t->dirty);
        }
        if (err != TARRY_OK || tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX, 1) != TARRY_OK) {
            e->blocked = true; /* later: it stays marked */
            return;
        }
        if (job == NULL && first->wait->req->tag_len != 0) {
            t->serving = next->next;
            continue;
        }
        if (job == NULL) {
            served(e, t);
            continue;
        }
        if (prepare(e, first->wait->req, job, &read) != TARRY_OK) {
            e->blocked = true;
            return;
        }
        leave_lines(e, first->wait);
        (void)give(e, first->wait->req, job, read);
    }
}

/* ---- coming back ---- */

/* The job is not out any more, as if it had never been. */
static int take_back(struct tr_engine *e, struct tr_job *job, bool gated)
{
    struct tr_record rec = {.mask = TR_FIELD(COUNTERS) | TR_FIELD(LEASE),
                            .counters = job->counters};
    uint64_t since_us = job->ready_us;
    int err;

    rec.counters.reserves--;
    err = tr_change_revise(e, job, &rec, gated);
    if (err == TARRY_OK) {
        tr_change_still_ready(job, since_us);
        tr_limit_refund(e, job);
    }
    return err;
}

/* Its time is up. */
static int run_out(struct tr_engine *e, struct tr_job *job)
{
    struct tr_record rec = {.mask = TR_FIELD(COUNTERS) | TR_FIELD(LEASE),
                            .counters = job->counters};

    rec.counters.timeouts++;
    if (tr_retry_was_last(job)) {
        tr_retry_die(e, job, TR_WHY_RETRIES, &rec);
    } else if (job->holder == 0) {
        tr_retry_later(e, job, e->clock.t_us, &rec);
    } else { /* ready: nobody else is told, and a start would find it so */
        return tr_change_revise(e, job, &rec, false);
    }
    return tr_retry_revise(e, job, &rec);
}

/* Its connection is gone, which nobody counts or logs; but if that was its last attempt, it dies.
 */
static int left_alone(struct tr_engine *e, struct tr_job *job)
{
    struct tr_record rec = {.mask = TR_FIELD(LEASE)};
    bool handing = job->handing;
    uint64_t since_us = job->ready_us;

    if (!handing && tr_retry_was_last(job)) {
        tr_retry_die(e, job, TR_WHY_RETRIES, &rec);
        return tr_change_revise(e, job, &rec, true);
    }
    tr_change_unschedule(e, job);
    tr_change_schedule(e, job);
    if (handing) { /* nobody had it */
        tr_change_still_ready(job, since_us);
    } else {
        tr_past_left(e, job);
        tr_topic_count(job->topic, TR_METERED_RETRIED);
    }
    return TARRY_OK;
}

void tr_handout_undo(struct tr_engine *e, uint64_t id, uint64_t lease)
{
    struct tr_job *job = tr_jobs_by_id(&e->state.jobs, id);

    if (job == NULL || job->state != TR_RESERVED || job->lease != lease) {
        return;
    }
    if (take_back(e, job, false) != TARRY_OK) {
        job->handing = false; /* cannot be logged now: the lease ends at once, uncounted */
        job->undoing = true;
        tr_wheel_disarm(&e->leases, &job->timer);
        tr_wheel_arm(&e->leases, &job->timer, tr_clock_span(&e->clock));
    }
}

/* Its time is up, or a lease of its holder's: it gets what became ready since, or nothing. */
static void end_wait(struct tr_engine *e, struct tr_wait *w)
{
    struct tr_req *r = w->req;
    uint64_t warn_at;

    if (!wait_over(e, r) && tr_holder_next_warning(e, r, &warn_at) == TARRY_OK &&
        warn_at > tr_clock_span(&e->clock)) {
        arm_wait(e, w, warn_at); /* that lease was renewed or is gone */
        return;
    }
    leave_lines(e, w);
    if (reserve(e, r) == TR_STALL) {
        tr_engine_stall(e, r);
    }
}

void tr_handout_expire(struct tr_engine *e)
{
    uint64_t span_us = tr_clock_span(&e->clock);
    struct tr_timer *timer;

    while ((timer = tr_wheel_pop(&e->leases, span_us, &e->work)) != NULL) {
        struct tr_job *job = TR_CONTAINER_OF(timer, struct tr_job, timer);

        if (job->handing) { /* nobody has it yet: the disk is slow, not the consumer */
            tr_wheel_arm(&e->leases, timer, span_after(e, tr_policy_ttr(job->ttr_us)));
            continue;
        }
        if (job->topic->purged) { /* it will be killed before that */
            tr_wheel_arm(&e->leases, timer, span_after(e, TR_DELAY_MAX_US));
            continue;
        }
        bool timed_out = !job->undoing;

        if ((timed_out ? run_out(e, job) : take_back(e, job, false)) != TARRY_OK) {
            tr_wheel_arm(&e->leases, timer, span_us);
            e->blocked = true;
            e->leases_blocked = true;
            break;
        }
        e->state.topics.totals.timeouts += timed_out;
    }
    tr_limit_step(e);
    /* Before the waits: whose time is up at the same moment still gets what a pause held back. */
    while ((timer = tr_wheel_pop(&e->pauses, span_us, &e->work)) != NULL) {
        tr_handout_mark(e, TR_CONTAINER_OF(timer, struct tr_topic, pause));
    }
    while ((timer = tr_wheel_pop(&e->warns, span_us, &e->work)) != NULL) {
        end_wait(e, TR_CONTAINER_OF(timer, struct tr_wait, warn));
    }
    while ((timer = tr_wheel_pop(&e->waits, e->now.boot_us, &e->work)) != NULL) {
        end_wait(e, TR_CONTAINER_OF(timer, struct tr_wait, timer));
    }
}

static enum tr_verdict give_back(struct tr_engine *e, struct tr_req *r, struct tr_job *job)
{
    int err = take_back(e, job, true);

    return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
}

/* A lease is renewed for as long as it was for, unless the request says otherwise. */
static uint64_t touch_ttr(const struct tr_req *r, const struct tr_job *job)
{
    if (job->lease_end_us == 0) {
        return holder_ttr(r, job);
    }
    return r->ttr_us != 0 ? r->ttr_us : job->lease_ttr_us;
}

static enum tr_verdict touch(struct tr_engine *e, struct tr_req *r, struct tr_job *job)
{
    uint64_t ttr_us = touch_ttr(r, job);
    int err = r->ttr_us <= TR_DELAY_MAX_US && r->lease_us <= TR_DELAY_MAX_US
                  ? tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX, 1)
                  : TARRY_EINVAL;

    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
    }
    tr_wheel_disarm(&e->leases, &job->timer);
    tr_wheel_arm(&e->leases, &job->timer, span_after(e, ttr_us));
    tr_holder_lease_begins(e, job);
    if (job->lease_end_us != 0) {
        log_attempt(e, job, job->lease, ttr_us, job->counters);
    }
    tr_past_touched(e, job);
    tr_view_fill(e, job, &r->out.job);
    return tr_engine_finish(e, r, TARRY_OK);
}

static enum tr_verdict with_lease(struct tr_engine *e, struct tr_req *r)
{
    struct tr_job *job = tr_state_job(&e->state, r->id);

    int err = job == NULL ? tr_load_locate(e, r->id) : TARRY_OK;

    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
    }
    if (job == NULL) {
        bool far = tr_load_show_far(e, r); /* then nobody holds it */

        return tr_engine_finish(e, r, far ? TARRY_ESTATE : TARRY_ENOTFOUND);
    }
    if (!tr_handout_held_by(job, r)) {
        tr_view_fill(e, job, &r->out.job);
        return tr_engine_finish(e, r, TARRY_ESTATE);
    }
    return r->op == TR_OP_TOUCH ? touch(e, r, job) : give_back(e, r, job);
}

/* A connection is gone: its jobs are ready again at once. */
static enum tr_verdict close_holder(struct tr_engine *e, struct tr_req *r)
{
    struct tr_holder *h;

    if (r->holder == 0) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    while ((h = tr_map_find(&e->holders, r->holder)) != NULL && h->count > 0) {
        struct tr_job *job = TR_CONTAINER_OF(h->jobs.next, struct tr_job, link);

        if (!tr_engine_charge(e, CLOSE_UNITS)) {
            return TR_STALL;
        }
        bool had = !job->undoing;

        if ((had ? left_alone(e, job) : take_back(e, job, false)) != TARRY_OK) {
            return TR_STALL;
        }
        r->out.number += had;
    }
    return tr_engine_finish(e, r, TARRY_OK);
}

static enum tr_verdict pause_topic(struct tr_engine *e, struct tr_req *r)
{
    struct tr_topic *t = tr_topics_by_handle(&e->state.topics, r->topic);

    if (t == NULL) {
        return tr_engine_finish(e, r, TARRY_ENOTFOUND);
    }
    tr_wheel_disarm(&e->pauses, &t->pause);
    t->pauses += !r->force;
    t->totals->pauses += !r->force;
    t->pause_us = r->wait_us;
    if (r->wait_us == 0) {
        tr_handout_mark(e, t);
    } else {
        tr_wheel_arm(&e->pauses, &t->pause, span_after(e, r->wait_us));
    }
    return tr_engine_finish(e, r, TARRY_OK);
}

/* Its body cannot be read: dead, where it can be looked at, and not in anybody's way. */
static void put_aside(struct tr_engine *e, struct tr_job *job)
{
    struct tr_record rec = {.mask = TR_FIELD(LEASE) | TR_FIELD(COUNTERS),
                            .counters = job->counters};

    rec.counters.reserves--; /* nobody had it */
    tr_retry_die(e, job, TR_WHY_DAMAGED, &rec);
    if (tr_change_revise(e, job, &rec, true) == TARRY_OK) {
        tr_limit_refund(e, job);
    } else {
        tr_handout_undo(e, job->id, job->lease);
    }
}

/*
 * A body was read for a hand-out; `same` is NULL when the record is not there any more. If the job
 * is still out under this lease, its record was only written again: it is read from there.
 */
void tr_handout_body(struct tr_engine *e, struct tr_read *read, struct tr_job *same, int status)
{
    struct tr_req *r = read->req;
    struct tr_job *job = tr_jobs_by_rid(&e->state.jobs, read->rid);

    if (job == NULL || (job->topic->purged && !TR_MUTANT(PURGE_HANDED)) ||
        job->state != TR_RESERVED || job->lease != read->lease) {
        tr_engine_stall(e, r); /* starts over */
    } else if (same == NULL) {
        if (tr_read_start(e, job, r, false) != TARRY_OK) {
            tr_handout_undo(e, job->id, job->lease);
            tr_engine_stall(e, r);
        }
    } else if (status == TARRY_EIO) {
        tr_handout_undo(e, job->id, job->lease);
        (void)finish(e, r, status);
    } else if (status != TARRY_OK) {
        put_aside(e, job);
        if (r->op == TR_OP_RESERVE_JOB) {
            (void)finish(e, r, TARRY_EDAMAGED);
        } else {
            tr_engine_stall(e, r); /* another one will do */
        }
    } else if (r->op == TR_OP_RESERVE && job->due_us > e->clock.t_us) {
        tr_handout_undo(e, job->id, job->lease); /* the clock was set back meanwhile (R21) */
        tr_engine_stall(e, r);
    } else { /* the lease counts from now */
        job->handing = false;
        tr_wheel_disarm(&e->leases, &job->timer);
        tr_wheel_arm(&e->leases, &job->timer, span_after(e, ttr_of(r, job)));
        tr_holder_lease_begins(e, job);
        if (job->lease_end_us != 0 && tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX, 1) == TARRY_OK) {
            log_attempt(e, job, job->lease, ttr_of(r, job), job->counters);
        }
        (void)handed(e, r, job, read->buf + read->len - job->body_len);
    }
}

enum tr_verdict tr_handout_execute(struct tr_engine *e, struct tr_req *r)
{
    switch (r->op) {
    case TR_OP_RESERVE:
        return reserve(e, r);
    case TR_OP_RESERVE_JOB:
        return reserve_job(e, r);
    case TR_OP_TOUCH:
    case TR_OP_RETURN:
        return with_lease(e, r);
    case TR_OP_CLOSE:
        return close_holder(e, r);
    default:
        return pause_topic(e, r);
    }
}

bool tr_handout_ok(const struct tr_engine *e)
{
    uint64_t in_line = 0;

    for (const struct tr_list *n = e->waiting.next; n != &e->waiting; n = n->next) {
        in_line += TR_CONTAINER_OF(n, struct tr_wait, all)->in_line;
    }
    return in_line == e->wait_count;
}
