/*
 * Purge: all jobs of a topic are dead at once, however many they are.
 *
 *     before:   name "mail", handle 4 --> number 4: 100 M jobs
 *     PURGE(4)
 *     after:    name "mail", handle 4 --> number 9: none       number 4: 100 M jobs, `purged`
 *
 * Jobs know their topic by its number: in their record, in the index, in the table of far jobs. So
 * the topic gets another number, and what is left under the old one belongs to nobody. One record
 * says so, hence it is true of all of them or of none, whatever crash comes (I23); what is pushed
 * later is pushed under the new number. Requests know the topic by its handle, which stays. A
 * policy goes over to the new number, in the same batch.
 *
 * What is left is cleared away in slices, by ordinary kills in KILLSETs that gate nobody: jobs in
 * memory, the table of far jobs, then T of each group, or its blocks if T cannot be read. When the
 * old number has no job left, it goes like any topic that nothing needs. A crash leaves it where it
 * was: a checkpoint says of each topic whether it is purged.
 *
 * Until then purged jobs are in L and may be loaded, written again or promoted like others; that is
 * only in vain. Nobody gets one: not by its topic, which has no name; not by its id, since whoever
 * looks one up asks for its topic (tr_state_job, tr_state_far_rid).
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

enum { RETRY_US = 1000000, BAD_US = 60000000, KILL_UNITS = 2 };

/* ---- the request ---- */

/* Reserves that know the old topic know the new one from now on. */
static void move_waits(struct tr_engine *e, const struct tr_topic *old, struct tr_topic *heir)
{
    heir->serving = NULL;
    for (struct tr_list *n = heir->waiters.next; n != &heir->waiters; n = n->next) {
        TR_CONTAINER_OF(n, struct tr_waiter, link)->topic = heir;
    }
    for (struct tr_list *n = e->waiting.next; n != &e->waiting; n = n->next) {
        struct tr_wait *w = TR_CONTAINER_OF(n, struct tr_wait, all);

        for (unsigned i = 0; !w->in_line && i < w->count; i++) {
            w->waiters[i].topic = w->waiters[i].topic == old ? heir : w->waiters[i].topic;
        }
    }
}

enum tr_verdict tr_purge_execute(struct tr_engine *e, struct tr_req *r)
{
    struct tr_topic *t = tr_topics_by_handle(&e->state.topics, r->topic);
    struct tr_record rec = {.type = TR_REC_PURGE, .number = e->state.next_rid};
    struct tr_topic *heir;
    struct tr_job *none;
    uint64_t pause_at;
    int err;

    if (t == NULL) {
        return tr_engine_finish(e, r, TARRY_ENOTFOUND);
    }
    if (t->jobs == 0) {
        return tr_engine_finish(e, r, TARRY_OK);
    }
    if (t->row != 0 && e->state.drop_count == TR_TALLY_DROPS) {
        return TR_STALL; /* cells of those before it are being dropped, in slices */
    }
    err = tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX + tr_policies_log_bytes(t), 3);
    if (err == TARRY_OK) {
        err = tr_topics_heir(&e->state.topics, t, &heir);
    }
    if (err == TARRY_OK) {
        err = tr_policies_inherit(e, t, heir);
        if (err != TARRY_OK) {
            tr_state_remove_topic(&e->state, heir);
        }
    }
    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
    }
    r->out.number = t->jobs;
    rec.topic = t->number;
    tr_topic_meter(t)->counts[TR_METERED_CANCELLED] += t->jobs;
    e->state.topics.totals.purged += t->jobs;
    pause_at = t->pause.armed ? t->pause.at_us : TR_NEVER;
    tr_wheel_disarm(&e->pauses, &t->pause);
    tr_policies_end(e, t);
    tr_limit_stop(e, t);
    tr_drop_stop(e, t);
    tr_park_end(e, t);
    TR_CHECK(tr_state_apply(&e->state, &rec, e->log.open.no, &none) == TARRY_OK);
    tr_log_append(&e->log, &rec, tr_engine_base(e), true);
    tr_topics_inherit(&e->state.topics, t, heir);
    move_waits(e, t, heir);
    if (pause_at != TR_NEVER) {
        tr_wheel_arm(&e->pauses, &heir->pause, pause_at);
    }
    tr_listing_purged(e, t, heir);
    tr_engine_touch_log(e);
    e->purge.retry_at = 0;
    tr_occur_purged(e);
    tr_change_drop_topic(e, heir);
    return tr_engine_finish(e, r, TARRY_OK);
}

/* ---- clearing away ---- */

/* TARRY_EFULL: not now. The topic may be gone after it. */
static int kill(struct tr_engine *e, const struct tr_kill *kill)
{
    int err = tr_log_reserve(&e->log, 0, 1);

    if (err == TARRY_OK) {
        tr_change_kill(e, kill, TR_WHY_CANCELLED);
        (void)tr_engine_charge(e, KILL_UNITS);
        e->purge.killed++;
    }
    return err;
}

static int kill_job(struct tr_engine *e, struct tr_job *job)
{
    struct tr_kill k = tr_tally_kill(job);
    int err = tr_log_reserve(&e->log, 0, 1);

    if (err == TARRY_OK) {
        tr_change_unschedule(e, job);
        err = kill(e, &k);
    }
    return err;
}

static struct tr_topic *topic(const struct tr_engine *e)
{
    return tr_topics_by_number(&e->state.topics, e->purge.topic);
}

/* One of those that stand in a list of the topic. */
static struct tr_job *next_listed(const struct tr_topic *t)
{
    for (unsigned s = TR_DELAYED; s <= TR_DEAD; s++) {
        if (!tr_list_empty(&t->by_state[s])) {
            return TR_CONTAINER_OF(t->by_state[s].next, struct tr_job, link);
        }
    }
    return NULL;
}

static int clear_memory(struct tr_engine *e)
{
    struct tr_purge *p = &e->purge;
    struct tr_topic *t;
    struct tr_job *job;
    int err = TARRY_OK;

    while (err == TARRY_OK && (t = topic(e)) != NULL && (job = next_listed(t)) != NULL) {
        err = e->work != 0 ? kill_job(e, job) : TARRY_EFULL;
    }
    while (err == TARRY_OK && (t = topic(e)) != NULL && t->count[TR_RESERVED] != 0) {
        if (!tr_engine_spend(e)) {
            return TARRY_EFULL;
        }
        job = tr_jobs_next(&e->state.jobs, &p->at);
        if (job == NULL) {
            return TARRY_OK;
        }
        if (job->topic == t) {
            err = kill_job(e, job);
            p->at -= err != TARRY_OK; /* the same one again */
        }
    }
    return err;
}

/* One of the page's. */
static uint64_t purged_in(const struct tr_engine *e, const struct tr_far_page *page,
                          struct tr_kill *k)
{
    for (unsigned i = 0; i < page->count; i++) {
        const struct tr_far_entry *entry = &page->entries[i];

        if (entry->topic == e->purge.topic) {
            *k = tr_tally_far(tr_far_page_rid(page, i), entry);
            return k->rid;
        }
    }
    return 0;
}

static int clear_slots(struct tr_engine *e)
{
    struct tr_purge *p = &e->purge;
    const struct tr_far *far = &e->state.jobs.far;
    const struct tr_far_page *page;
    struct tr_kill k;
    int err = TARRY_OK;

    while (err == TARRY_OK && topic(e) != NULL && tr_far_walking(&p->far) &&
           (page = tr_far_walk_page(far, &p->far)) != NULL) {
        if (!tr_engine_charge(e, 1 + page->count / 8)) {
            return TARRY_EFULL;
        }
        if (purged_in(e, page, &k) != 0) {
            err = kill(e, &k);
        } else {
            tr_far_walk_on(far, &p->far);
        }
    }
    if (err == TARRY_OK) {
        tr_far_walk_end(&p->far);
    }
    return err;
}

/* One that only its run knows gets an entry first, like one that is looked up. */
static int kill_in_run(struct tr_engine *e, const struct tr_side_job *job)
{
    const struct tr_jobs *js = &e->state.jobs;
    struct tr_far_entry entry = tr_fetch_entry(e->purge.walk.group, job);
    struct tr_kill k = {.rid = job->rid,
                        .due_us = job->due_us,
                        .topic = job->topic,
                        .cell = job->cell,
                        .was_dead = job->dead_seq != 0};
    int err;

    if (!tr_bitmap_test(&js->alive, job->rid) || tr_jobs_by_rid(js, job->rid) != NULL) {
        return TARRY_OK;
    }
    err = tr_log_reserve(&e->log, 0, 1);
    if (err == TARRY_OK && tr_far_find(&js->far, job->rid) == NULL) {
        err = tr_state_locate(&e->state, job->rid, &entry);
    }
    return err == TARRY_OK ? kill(e, &k) : err;
}

static int clear_runs(struct tr_engine *e)
{
    struct tr_purge *p = &e->purge;
    struct tr_side_job job;
    unsigned seen = 0;
    int err = TARRY_OK;

    while (err == TARRY_OK && topic(e) != NULL) {
        if (seen++ % 8 == 0 && !tr_engine_spend(e)) {
            return TARRY_EFULL;
        }
        err = tr_walk_next(e, &p->walk, &job);
        if (err == TARRY_OK) {
            err = kill_in_run(e, &job);
            if (err != TARRY_OK) {
                tr_walk_again(&p->walk);
            }
        }
    }
    return err == TARRY_ENOTFOUND ? TARRY_OK : err;
}

/* ---- turns ---- */

static void end(struct tr_engine *e)
{
    struct tr_purge *p = &e->purge;

    tr_far_walk_end(&p->far);
    tr_walk_end(&p->walk);
    p->topic = 0;
    p->step = TR_PURGE_MEMORY;
    p->at = 0;
}

/* The next one that is purged, if it has not had its turn in this round. */
static bool begin(struct tr_engine *e)
{
    struct tr_purge *p = &e->purge;
    struct tr_list *list = &e->state.topics.being_purged;
    struct tr_topic *t =
        tr_list_empty(list) ? NULL : TR_CONTAINER_OF(list->next, struct tr_topic, in_purged);

    if (t != NULL && t->purge_round <= p->round) {
        t->purge_round = p->round + 1;
        tr_list_remove(&t->in_purged);
        tr_list_append(list, &t->in_purged);
        p->topic = t->number;
        return true;
    }
    p->round++;
    p->retry_at = e->now.boot_us + (p->killed != 0 ? 0 : p->skipped ? BAD_US : RETRY_US);
    p->killed = 0;
    p->skipped = false;
    return false;
}

static int clear(struct tr_engine *e)
{
    struct tr_purge *p = &e->purge;
    int err = TARRY_OK;

    if (p->step == TR_PURGE_MEMORY) {
        err = clear_memory(e);
        if (err == TARRY_OK) {
            tr_far_walk_begin(&e->state.jobs.far, &p->far);
            p->step = TR_PURGE_SLOTS;
        }
    }
    if (err == TARRY_OK && p->step == TR_PURGE_SLOTS) {
        err = clear_slots(e);
        if (err == TARRY_OK) {
            err = tr_walk_begin(e, &p->walk, p->topic, 0);
            p->walk.with_dead = true;
        }
        p->step = err == TARRY_OK ? TR_PURGE_RUNS : p->step;
    }
    if (err == TARRY_OK) {
        err = clear_runs(e);
    }
    return err;
}

void tr_purge_step(struct tr_engine *e)
{
    struct tr_purge *p = &e->purge;
    unsigned rest = e->work / 2; /* half of the slice is for everything else */
    bool clears;

    p->waits = false;
    e->work -= rest;
    clears = tr_tally_drop(&e->state, &e->work) && e->state.topics.purged != 0 &&
             p->retry_at <= e->now.boot_us;
    while (clears && e->work != 0 && (p->topic != 0 || begin(e))) {
        int err = clear(e);

        if (err == TARRY_EFULL) { /* for a page, for its next slice, or for the log */
            p->waits = e->work != 0;
            break;
        }
        if (err != TARRY_OK) {
            p->retry_at = e->now.boot_us + RETRY_US;
            break;
        }
        p->skipped = p->skipped || p->walk.skipped;
        end(e);
    }
    e->work += rest;
}

uint64_t tr_purge_next(const struct tr_engine *e)
{
    const struct tr_purge *p = &e->purge;

    if (e->state.drop_count != 0) {
        return e->now.boot_us;
    }
    if (e->state.topics.purged == 0) {
        return TR_NEVER;
    }
    if (p->waits && p->retry_at <= e->now.boot_us) {
        return tr_engine_busy(e) ? TR_NEVER : e->now.boot_us + TR_RETRY_US;
    }
    return p->retry_at > e->now.boot_us ? p->retry_at : e->now.boot_us;
}

void tr_purge_fini(struct tr_engine *e)
{
    end(e);
    tr_walk_fini(e, &e->purge.walk);
}
