/*
 * What is in memory, and what is not.
 *
 *     pushed, moved --> in memory --record has its place--> due before the horizon? --no--> far
 *                          ^                                                             |
 *                          \---- sweep: due before the new horizon ----------------------+
 *                          \---- somebody asks for its id, or for the first of its topic-/
 *
 * A far job is 24 bytes that say where its record is (far.c), or, when that is in a run file,
 * nothing at all (fetch.c). The horizon is a moment of T a minute ahead. When a far job is due less
 * than half a minute ahead, the horizon moves on, and a sweep goes through all far jobs in slices
 * and has the records read of those that come before it. From the moment it has moved nothing that
 * is due before it is sent away, so a sweep misses nothing; what it cannot load (no memory, no
 * room) it comes back for (R28).
 *
 * Visitors are far jobs that were brought back because somebody asked for them. They go a second
 * later, unless they have changed. The first ones of a topic (peek, kick) come a few hundred at a
 * time; the topic's front says up to which (due, id) all of them are in memory.
 *
 * A topic with more due jobs than memory is for is parked (park.c): those behind its edge are far
 * whatever the horizon says, and a refill brings them, not the sweep.
 *
 * A record is read, and everything is tested again when it has come (read.c): the job may be dead,
 * moved or loaded by then. A record that cannot be read is reported; the job stays far and alive,
 * and is tried again a minute later.
 *
 * Costs: a sweep looks at one line of memory per 64 far jobs, a search for the first of a topic at
 * all of them; both a unit of work per page.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <inttypes.h>
#include <string.h>

enum {
    LOAD_UNITS = 2,
    READS_FREE = 64,
    RETRY_US = 10000,
    VISIT_US = 1000000,
    BAD_US = 60000000,     /* what could not be read is tried again so much later, */
    BAD_MAX_US = 600000000 /* and each time later, up to this */
};

static uint64_t far_jobs(const struct tr_engine *e)
{
    return e->state.jobs.far.count + e->state.jobs.runs;
}

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool comes_before(uint64_t due_a, uint64_t id_a, uint64_t due_b, uint64_t id_b)
{
    return due_a != due_b ? due_a < due_b : id_a < id_b;
}

/* ---- going ---- */

/* All jobs of its topic up to this one are in memory, for now. */
static bool behind_front(const struct tr_engine *e, const struct tr_job *job)
{
    const struct tr_load *l = &e->load;

    return l->front_topic == job->topic->number && job->dead_seq == 0 &&
           !comes_before(l->front_us, l->front_id, job->due_us, job->id);
}

/* The first ones of its topic are being looked for, or many are changed: that might have passed it.
 */
static bool is_pulled(const struct tr_engine *e, const struct tr_job *job)
{
    uint32_t topic = job->dead_seq != 0 ? e->deaths.topic : e->load.pull_topic;

    return (topic == job->topic->number && !TR_MUTANT(PULL_MISSES)) || tr_bulk_keeps(e, job);
}

bool tr_load_may_go(const struct tr_job *job)
{
    return !job->altered && job->slot != NULL && !job->relogging && job->dead_seq == 0 &&
           job->lease_end_us == 0 && job->state != TR_RESERVED;
}

bool tr_load_far(const struct tr_engine *e, const struct tr_job *job)
{
    bool far = job->due_us >= e->load.horizon_us && job->state != TR_READY;

    return (far || tr_park_away(job)) && tr_load_may_go(job) && !behind_front(e, job) &&
           !is_pulled(e, job);
}

static void visits(struct tr_engine *e, struct tr_job *job)
{
    if ((job->due_us >= e->load.horizon_us || tr_park_away(job) || job->dead_seq != 0) &&
        tr_list_empty(&job->visit)) {
        job->visit_us = e->now.boot_us;
        tr_list_append(&e->load.visitors, &job->visit);
    }
}

bool tr_load_send_far(struct tr_engine *e, struct tr_job *job)
{
    bool scheduled = job->state != 0;
    struct tr_edge at = {job->due_us, job->id};
    struct tr_tally tally = tr_tally_job(job);
    struct tr_topic *t = job->topic;

    if (job->dead_seq != 0) {
        if (is_pulled(e, job)) {
            visits(e, job);
        } else {
            tr_deaths_send(e, job);
        }
        return true;
    }
    if (!tr_load_far(e, job)) {
        return true;
    }
    if (scheduled) {
        tr_change_unschedule(e, job);
    }
    if (at.due_us >= e->load.horizon_us) {
        tr_fetch_left(e, job);
    }
    tr_listing_leaves(e, job);
    if (tr_state_send_far(&e->state, job) != TARRY_OK) {
        if (scheduled) {
            tr_change_schedule(e, job); /* it stays */
        }
        return false;
    }
    e->load.sent++;
    tr_tally_left(&e->state, &tally, e->clock.t_us);
    if (at.due_us >= e->load.horizon_us) {
        e->load.next_us = min(e->load.next_us, at.due_us);
    } else {
        tr_park_note(e, t, at);
    }
    return true;
}

bool tr_load_placed(struct tr_engine *e, struct tr_job *job)
{
    if (tr_load_far(e, job)) {
        (void)tr_load_send_far(e, job);
        return true;
    }
    if (is_pulled(e, job) || behind_front(e, job)) {
        visits(e, job); /* it may leave when the search is over */
    }
    return false;
}

/* Those who came long enough ago go, if they are still what they were. */
static void send_visitors(struct tr_engine *e)
{
    struct tr_list *head = &e->load.visitors;

    while (!tr_list_empty(head) && e->work > 0) {
        struct tr_job *job = TR_CONTAINER_OF(head->next, struct tr_job, visit);

        if (job->visit_us + VISIT_US > e->now.boot_us) {
            return;
        }
        (void)tr_engine_spend(e);
        tr_list_remove(&job->visit);
        if (is_pulled(e, job)) {
            visits(e, job); /* the search might have passed it: a little later, then */
            continue;
        }
        if (behind_front(e, job)) {
            e->load.front_topic = 0; /* from now on not all of them are here */
        }
        (void)tr_load_send_far(e, job);
    }
}

/* ---- coming ---- */

int tr_load_start(struct tr_engine *e, uint64_t rid)
{
    struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, rid);
    int err;

    TR_CHECK(entry != NULL);
    if (entry->loading) {
        return TARRY_OK;
    }
    if (!tr_mem_room(e->mem, entry->len + sizeof(struct tr_job))) {
        return TARRY_ENOMEM;
    }
    if (!tr_meta_room(e, e->load.reads + 1)) {
        return e->meta.growing ? TARRY_EFULL : TARRY_ENOSPC;
    }
    err = tr_read_start_far(e, rid, entry);
    if (err == TARRY_OK) {
        entry->loading = true;
        e->load.reads++;
    }
    return err;
}

void tr_load_later(struct tr_engine *e)
{
    e->load.retry_at = min(e->load.retry_at, e->now.boot_us + RETRY_US);
}

void tr_load_bad(struct tr_engine *e)
{
    e->load.bad_wait = max(e->load.bad_wait, BAD_US);
    e->load.bad_at = min(e->load.bad_at, e->now.boot_us + e->load.bad_wait);
}

int tr_load_take(struct tr_engine *e, uint64_t rid, const struct tr_record *rec)
{
    struct tr_job *job;
    uint8_t *body = NULL;
    int err = tr_state_bring_back(&e->state, rid, rec, &job);

    if (err != TARRY_OK) {
        return err;
    }
    if (e->state.jobs.body_bytes <= e->config.body_cache_bytes) {
        body = tr_jobs_copy_body(&e->state.jobs, rec->body.at, job->body_len);
    }
    if (body != NULL) { /* else it is read again when it is wanted */
        tr_jobs_give_body(&e->state.jobs, job, body, job->body_len);
    }
    e->load.loaded++;
    tr_damage_lift(e, rid);
    visits(e, job);
    tr_change_bring(e, job);
    if (job->state == TR_READY && !job->topic->parked && job->due_us > e->stood_us) {
        tr_change_note_late(e, job); /* it came too late */
    }
    tr_promote_met(e, job);
    e->moved = true;
    return TARRY_OK;
}

/* The record of a far job was read; status: TARRY_OK, or what is wrong with it. */
void tr_load_done(struct tr_engine *e, const struct tr_read *read, int status)
{
    struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, read->rid);
    struct tr_record rec;

    e->load.reads--;
    if (status == TARRY_ENOTFOUND || entry == NULL || e->failed) {
        return;
    }
    entry->loading = false;
    if (status == TARRY_OK) {
        status = tr_fetch_decode(e, read->rid, read->buf, &rec);
        status = status == TARRY_OK ? tr_load_take(e, read->rid, &rec) : status;
        if (status != TARRY_OK && entry->dead) {
            entry->due_us = TR_NEVER; /* it is far as before, and no sweep is to look for it */
        }
        if (status == TARRY_EDAMAGED || status == TARRY_EVERSION) {
            tr_engine_note(e, TR_NOTE_DAMAGE, "The record of rid %" PRIu64 " does not fit its job.",
                           read->rid);
        }
    }
    if (status == TARRY_EDAMAGED || status == TARRY_EVERSION) {
        entry->bad = true;
        tr_load_bad(e);
    } else if (status != TARRY_OK && !TR_MUTANT(SWEEP_ONCE)) {
        e->load.next_us = min(e->load.next_us, entry->due_us);
        tr_load_later(e);
    }
}

/* The rid of a job of which only its run knows, or 0. */
static uint64_t run_rid(const struct tr_engine *e, uint64_t id)
{
    const struct tr_jobs *js = &e->state.jobs;
    uint64_t rid = tr_far_moved_rid(&js->far, id);

    if (rid == 0 && tr_far_moved_id(&js->far, id) == 0) {
        rid = id;
    }
    return rid != 0 && tr_bitmap_test(&js->alive, rid) && tr_jobs_by_rid(js, rid) == NULL &&
                   tr_far_find(&js->far, rid) == NULL
               ? rid
               : 0;
}

int tr_load_locate(struct tr_engine *e, uint64_t id)
{
    uint64_t rid = tr_jobs_by_id(&e->state.jobs, id) == NULL ? run_rid(e, id) : 0;

    return rid != 0 ? tr_fetch_locate(e, rid) : TARRY_OK;
}

/* A far job that has an entry is to come back. */
static int load_far(struct tr_engine *e, uint64_t rid)
{
    int err = TARRY_EDAMAGED;

    if (!tr_far_find(&e->state.jobs.far, rid)->bad) {
        err = tr_load_start(e, rid);
    }
    return err == TARRY_OK ? TARRY_EFULL : err;
}

int tr_load_by_id(struct tr_engine *e, uint64_t id, struct tr_job **job)
{
    uint64_t rid;
    int err;

    *job = tr_state_job(&e->state, id);
    if (*job != NULL) {
        return TARRY_OK;
    }
    err = tr_load_locate(e, id);
    if (err != TARRY_OK) {
        return err;
    }
    rid = tr_state_far_rid(&e->state, id);
    return rid != 0 ? load_far(e, rid) : TARRY_ENOTFOUND;
}

int tr_load_by_rid(struct tr_engine *e, uint64_t rid, struct tr_job **job)
{
    *job = tr_jobs_by_rid(&e->state.jobs, rid);
    if (*job != NULL) {
        return TARRY_OK;
    }
    return tr_far_find(&e->state.jobs.far, rid) != NULL ? load_far(e, rid)
                                                        : tr_fetch_locate(e, rid);
}

bool tr_load_show_far(const struct tr_engine *e, struct tr_req *r)
{
    uint64_t rid = tr_state_far_rid(&e->state, r->id);
    const struct tr_far_entry *entry;

    if (rid == 0 || tr_jobs_by_id(&e->state.jobs, r->id) != NULL) {
        return false;
    }
    entry = tr_far_find(&e->state.jobs.far, rid);
    r->out.job =
        (struct tr_job_view){.id = r->id,
                             .topic = tr_topics_by_number(&e->state.topics, entry->topic)->handle,
                             .state = entry->dead                     ? TR_DEAD
                                      : entry->due_us > e->clock.t_us ? TR_DELAYED
                                                                      : TR_READY,
                             .due_us = entry->dead ? 0 : entry->due_us};
    return true;
}

/* ---- the sweep ---- */

static void begin_sweep(struct tr_engine *e)
{
    struct tr_load *l = &e->load;

    l->first_us = l->sweeping ? l->first_us : l->next_us != 0 ? l->next_us : e->clock.t_us;
    l->sweep_us = e->clock.t_us + e->config.near_us;
    l->horizon_us = l->sweep_us;
    l->left_us = TR_NEVER;
    l->next_us = TR_NEVER;
    l->sweeping = true;
    tr_fetch_sweep_begin(e);
    tr_far_walk_begin(&e->state.jobs.far, &l->sweep);
}

/* What is due in this page is asked for. */
static void sweep_page(struct tr_engine *e, struct tr_far_page *page)
{
    uint64_t left_us = TR_NEVER; /* least that is left, */
    uint64_t due_us = TR_NEVER;  /* and least of all: what was asked for has not come yet */

    for (unsigned i = 0; i < page->count; i++) {
        struct tr_far_entry *entry = &page->entries[i];
        uint64_t rid;

        due_us = min(due_us, entry->due_us);
        entry->bad = entry->bad && !e->load.forgives;
        if (entry->bad) {
            continue;
        }
        if (entry->due_us >= e->load.sweep_us) {
            left_us = min(left_us, entry->due_us);
            continue;
        }
        rid = tr_far_page_rid(page, i);
        if (tr_park_leave(e, entry->topic,
                          (struct tr_edge){entry->due_us, tr_far_id(&e->state.jobs.far, rid)})) {
            continue;
        }
        (void)tr_engine_charge(e, LOAD_UNITS);
        if (tr_load_start(e, rid) != TARRY_OK && !TR_MUTANT(SWEEP_ONCE)) {
            left_us = min(left_us, entry->due_us);
            tr_load_later(e);
        }
    }
    page->due_us = due_us;
    (void)tr_engine_charge(e, page->count / 8);
    e->load.left_us = min(e->load.left_us, left_us);
}

static void sweep(struct tr_engine *e)
{
    struct tr_load *l = &e->load;
    const struct tr_far *far = &e->state.jobs.far;
    struct tr_far_page *page;

    while (tr_far_walking(&l->sweep) && (page = tr_far_walk_page(far, &l->sweep)) != NULL) {
        if (e->work == 0 || e->read_count + READS_FREE > TR_READS_MAX) {
            return;
        }
        (void)tr_engine_spend(e);
        if (page->due_us < l->sweep_us || l->forgives) {
            sweep_page(e, page);
        } else {
            l->left_us = min(l->left_us, page->due_us);
        }
        tr_far_walk_on(far, &l->sweep);
    }
    tr_far_walk_end(&l->sweep);
    if (l->retry_at != TR_NEVER) {
        return;
    }
    if (tr_fetch_may_pause(e) && l->horizon_us < e->clock.t_us + e->config.near_us / 4) {
        begin_sweep(e); /* what is due soon comes before what is overdue */
        return;
    }
    if (!tr_fetch_sweep(e)) {
        return;
    }
    l->sweeping = false;
    l->forgives = false;
    l->next_us = min(l->next_us, l->left_us);
}

/* ---- the first of a topic ---- */

/* Keeps it if it is among the first. */
bool tr_load_pull(struct tr_engine *e, struct tr_pulled p)
{
    struct tr_load *l = &e->load;
    unsigned at = l->pull_count;

    while (at > 0 && comes_before(p.due_us, p.id, l->pulled[at - 1].due_us, l->pulled[at - 1].id)) {
        at--;
    }
    if (at == TR_PULL_MAX) {
        return false;
    }
    l->pull_count += l->pull_count < TR_PULL_MAX;
    memmove(&l->pulled[at + 1], &l->pulled[at], (l->pull_count - 1 - at) * sizeof p);
    l->pulled[at] = p;
    return true;
}

static uint64_t group_of(const struct tr_engine *e, const struct tr_far_entry *entry)
{
    return entry->located ? tr_groups_of_run(&e->groups, entry->slot)->is.no : 0;
}

static void pull_page(struct tr_engine *e, const struct tr_far_page *page)
{
    const struct tr_far *far = &e->state.jobs.far;

    for (unsigned i = 0; i < page->count; i++) {
        const struct tr_far_entry *entry = &page->entries[i];

        if (entry->topic == e->load.pull_topic && !entry->bad && !entry->dead &&
            entry->due_us >= e->load.pull_us) {
            uint64_t rid = tr_far_page_rid(page, i);

            (void)tr_load_pull(e, (struct tr_pulled){rid, entry->due_us, tr_far_id(far, rid),
                                                     *entry, group_of(e, entry)});
        }
    }
}

/* Its group has not been written anew since it was found. */
static bool still_there(const struct tr_engine *e, const struct tr_pulled *p)
{
    const struct tr_group *g = tr_groups_find(&e->groups, p->rid);

    return g != NULL && g->is.no == p->group_no;
}

/* All pages have been seen: those that were found are asked for. False: not all of them yet. */
static bool pull_ends(struct tr_engine *e)
{
    struct tr_load *l = &e->load;
    bool here = true;
    int err;

    for (unsigned i = 0; i < l->pull_count; i++) {
        const struct tr_pulled *p = &l->pulled[i];
        const struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, p->rid);

        if (entry == NULL && still_there(e, p) && run_rid(e, p->id) == p->rid) {
            if (tr_state_locate(&e->state, p->rid, &p->entry) != TARRY_OK) {
                tr_load_later(e);
                return false;
            }
            tr_fetch_remember(e, p->rid);
            entry = tr_far_find(&e->state.jobs.far, p->rid);
        }
        if (entry == NULL && run_rid(e, p->id) == p->rid) { /* it is elsewhere now */
            here = here && tr_fetch_locate(e, p->rid) != TARRY_EFULL;
            continue;
        }
        if (entry == NULL || entry->bad) {
            l->pull_damaged = l->pull_damaged || entry != NULL;
            continue;
        }
        here = false;
        err = tr_load_start(e, l->pulled[i].rid);
        if (err == TARRY_EFULL) {
            tr_load_later(e);
            break;
        }
        if (err != TARRY_OK) {
            l->pull_error = err;
            l->error_topic = l->pull_topic;
            l->error_until = e->now.boot_us + VISIT_US;
            return true;
        }
    }
    if (here) {
        bool all = l->pull_count < TR_PULL_MAX;

        l->front_topic = l->pull_topic;
        l->front_damaged = l->pull_damaged;
        l->front_us = all ? TR_NEVER : l->pulled[TR_PULL_MAX - 1].due_us;
        l->front_id = all ? TR_NEVER : l->pulled[TR_PULL_MAX - 1].id;
        l->front_until = e->now.boot_us + VISIT_US;
    }
    return here;
}

/* asks: for what was found, too; else not before the pause after a failure is over. */
static void pull(struct tr_engine *e, bool asks)
{
    struct tr_load *l = &e->load;
    const struct tr_far *far = &e->state.jobs.far;
    const struct tr_far_page *page;

    while (tr_far_walking(&l->pull) && (page = tr_far_walk_page(far, &l->pull)) != NULL) {
        if (!tr_engine_charge(e, 1 + page->count / 8)) {
            return;
        }
        pull_page(e, page);
        tr_far_walk_on(far, &l->pull);
    }
    tr_far_walk_end(&l->pull);
    if (l->pull_runs && tr_fetch_pull(e)) {
        l->pull_runs = false;
    }
    if (!l->pull_runs && asks && pull_ends(e)) {
        l->pull_topic = 0;
        e->moved = true;
    }
}

static void begin_pull(struct tr_engine *e)
{
    struct tr_load *l = &e->load;

    l->pull_count = 0;
    l->pull_runs = true;
    l->pull_damaged = false;
    tr_far_walk_end(&l->pull);
    tr_far_walk_begin(&e->state.jobs.far, &l->pull);
}

void tr_load_pull_again(struct tr_engine *e)
{
    begin_pull(e);
    tr_fetch_pull_begin(e, e->fetch.pull_from);
}

/* Is everything in memory that is due before the horizon? */
static bool all_here(const struct tr_load *l)
{
    return !l->sweeping && l->reads == 0 && l->next_us >= l->horizon_us;
}

bool tr_load_is_first(const struct tr_engine *e, const struct tr_job *job)
{
    return job->due_us < e->load.horizon_us && all_here(&e->load) && !tr_park_behind(job) &&
           e->refill.topic != job->topic->number;
}

int tr_load_first(struct tr_engine *e, struct tr_topic *t, struct tr_job **job)
{
    struct tr_load *l = &e->load;
    int err = tr_topic_first(t, TR_HEAP_DELAYED, &e->work, job);

    if (err != TARRY_OK || t->far == 0 ||
        (l->front_topic == t->number &&
         (l->front_us == TR_NEVER || (*job != NULL && behind_front(e, *job)))) ||
        (*job != NULL && tr_load_is_first(e, *job))) {
        return err;
    }
    *job = NULL;
    if (l->pull_topic == 0 && l->error_topic == t->number) {
        l->error_topic = 0;
        if (l->error_until > e->now.boot_us) { /* else who waited for it has gone */
            return l->pull_error;
        }
    }
    if (l->pull_topic == 0) {
        l->pull_topic = t->number;
        begin_pull(e);
        l->pull_us = t->parked || e->refill.topic == t->number ? e->clock.t_us + 1
                     : all_here(l)                             ? l->horizon_us
                                                               : 0;
        tr_fetch_pull_begin(e, l->pull_us);
    }
    return TARRY_EFULL;
}

bool tr_load_unsure(const struct tr_engine *e, const struct tr_topic *t, bool dead)
{
    return dead ? t->dead_again_us != 0 : e->load.front_topic == t->number && e->load.front_damaged;
}

/* ---- turns ---- */

void tr_load_open(struct tr_engine *e)
{
    e->load.horizon_us = e->clock.t_us + e->config.near_us;
    e->load.next_us = TR_NEVER;
    e->load.retry_at = TR_NEVER;
    e->load.bad_at = TR_NEVER;
    tr_list_init(&e->load.visitors);
}

void tr_load_begin(struct tr_engine *e)
{
    e->load.next_us = 0; /* the first sweep finds out */
    tr_park_begin(e);
}

static bool wants_sweep(const struct tr_engine *e)
{
    const struct tr_load *l = &e->load;

    return !l->sweeping && far_jobs(e) != 0 && l->retry_at == TR_NEVER &&
           l->next_us < e->clock.t_us + e->config.near_us / 2;
}

void tr_load_step(struct tr_engine *e)
{
    struct tr_load *l = &e->load;
    bool asks; /* a sweep that fails below is no reason to let those wait who ask for a first job */

    if (l->retry_at <= e->now.boot_us) {
        l->retry_at = TR_NEVER;
        e->moved = true;
    }
    asks = l->retry_at == TR_NEVER;
    if (l->bad_at <= e->now.boot_us && !l->sweeping) {
        l->bad_at = TR_NEVER;
        l->bad_wait = min(2 * l->bad_wait, BAD_MAX_US);
        l->forgives = true;
        l->next_us = 0;
    }
    if (l->front_until <= e->now.boot_us) {
        l->front_topic = 0;
    }
    if (l->horizon_us > e->clock.t_us + 2 * e->config.near_us) { /* the clock was set back */
        l->horizon_us = e->clock.t_us + e->config.near_us;
        l->next_us = 0;
        tr_fetch_rewind(e); /* parked jobs may be just far now */
    }
    if (l->horizon_us < e->clock.t_us && !l->sweeping) { /* up to next_us there is nothing to do */
        l->horizon_us = max(l->horizon_us, min(l->next_us, e->clock.t_us + e->config.near_us));
    }
    send_visitors(e);
    tr_fetch_step(e);
    tr_park_step(e);
    tr_refill_step(e);
    if (wants_sweep(e)) {
        begin_sweep(e);
    }
    if (l->sweeping) {
        sweep(e);
    }
    if (l->pull_topic != 0) {
        pull(e, asks);
    }
}

uint64_t tr_load_event(const struct tr_engine *e)
{
    uint64_t half = e->config.near_us / 2;

    if (far_jobs(e) == 0 || e->load.next_us == TR_NEVER) {
        return TR_NEVER;
    }
    return e->load.next_us > half ? e->load.next_us - half + 1 : 0;
}

bool tr_load_settled(const struct tr_engine *e)
{
    const struct tr_load *l = &e->load;
    bool hungry = !tr_list_empty(&e->state.topics.hungry) && e->refill.retry_at <= e->now.boot_us;

    return !l->sweeping && l->reads == 0 && l->retry_at == TR_NEVER && !wants_sweep(e) &&
           !tr_park_busy(e) && e->refill.topic == 0 && !hungry;
}

uint64_t tr_load_next(const struct tr_engine *e)
{
    const struct tr_load *l = &e->load;
    uint64_t at = min(l->retry_at, l->bad_at);

    if (!tr_list_empty(&l->visitors)) {
        at = min(at, TR_CONTAINER_OF(l->visitors.next, struct tr_job, visit)->visit_us + VISIT_US);
    }
    if (l->front_topic != 0) {
        at = min(at, l->front_until);
    }
    at = min(at, tr_fetch_next(e));
    at = min(at, tr_refill_next(e));
    at = min(at, tr_park_busy(e) ? e->now.boot_us : TR_NEVER);
    if (l->reads != 0 || e->fetch.reads != 0) {
        return at; /* what comes wakes us */
    }
    if ((l->sweeping && l->retry_at == TR_NEVER) ||
        (l->pull_topic != 0 && l->retry_at == TR_NEVER)) {
        return min(at, e->now.boot_us);
    }
    if (l->retry_at == TR_NEVER) {
        at = min(at, tr_clock_boot_at(&e->clock, tr_load_event(e)));
    }
    return at;
}
