/*
 * Cancel, shift or kick all jobs of a topic, or of all, that match a filter.
 *
 *     far jobs of slots, then T of each group, then jobs in memory: each place once, in slices
 *
 * It is about the jobs that were there when it began: rids below R, the next one at that time. A
 * job that it changed has a new rid, or, if the change was small (ALTER), its mark: so it never
 * meets what it made itself. Whoever goes from one place to another meanwhile goes to one that
 * comes later: from slots to runs or into memory, from runs into memory; and what is in memory and
 * was not met is kept there (tr_bulk_keeps). So each job is met, and changed once at most.
 *
 * A job that is counted but stays what it is, by a dry run or because this change means nothing to
 * it, may be met again when it comes into memory or its group is merged: those are noted (`met`),
 * and so are those with a mark, since they lose that with their place in memory. The mark is for a
 * bulk that goes on where another one ended.
 *
 * A far job is cancelled where it is: topic, due and cell, which the KILLSET wants, are in the
 * table or in the index. For a shift or a kick it is brought back, LOADS at a time, so that memory
 * is bounded. Reserved jobs are passed over.
 *
 * It goes on when its maker leaves. A crash leaves a part of it done. One at a time; others wait.
 *
 * One that ended at its limit can be gone on with: its cursor has R and its mark. Marks are in
 * memory only, so a mark has the epoch in its upper half, and after a restart the cursor is
 * refused: some jobs would be changed twice.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <string.h>

enum { CHANGE_UNITS = 3, EPOCH_SHIFT = 32 };

static uint64_t limit_of(const struct tr_bulk *b)
{
    return b->count != 0 && b->count < TR_BULK_MAX ? b->count : TR_BULK_MAX;
}

static struct tr_topic *topic(const struct tr_engine *e, uint32_t number)
{
    struct tr_topic *t = tr_topics_by_number(&e->state.topics, number);

    return t != NULL && !t->purged ? t : NULL;
}

/* Is there still something that it is about? */
static bool goes_on(const struct tr_engine *e)
{
    return e->bulk.all || topic(e, e->bulk.topic) != NULL;
}

static bool about(const struct tr_engine *e, uint32_t number)
{
    const struct tr_bulk *b = &e->bulk;

    return b->all ? topic(e, number) != NULL : b->topic == number;
}

static bool tag_fits(const struct tr_bulk *b, struct tr_bytes tag)
{
    return b->filter.tag_len == 0 || TR_MUTANT(BULK_ANY_TAG) ||
           tr_bytes_same((struct tr_bytes){(const uint8_t *)b->tag, b->filter.tag_len}, tag);
}

static bool wants(const struct tr_bulk *b, enum tr_job_state state)
{
    return b->filter.states == 0 || (b->filter.states & 1U << state) != 0;
}

/* Can a job of this state be changed like that? */
static bool can(const struct tr_bulk *b, enum tr_job_state state)
{
    switch (b->what) {
    case TR_BULK_SHIFT:
        return state == TR_DELAYED || state == TR_READY;
    case TR_BULK_KICK:
        return state == TR_DELAYED || state == TR_DEAD;
    default:
        return state != TR_RESERVED;
    }
}

static bool due_fits(const struct tr_bulk *b, uint64_t due_us)
{
    return due_us >= b->filter.due_from_us &&
           (b->filter.due_to_us == 0 || due_us < b->filter.due_to_us);
}

/* Is it one of those that it is about, and not changed yet? */
static bool is_old(const struct tr_bulk *b, const struct tr_job *job)
{
    return (job->rid < b->before && job->bulk != b->mark && !tr_bitmap_test(&b->met, job->rid)) ||
           TR_MUTANT(BULK_MEETS_OWN);
}

bool tr_bulk_keeps(const struct tr_engine *e, const struct tr_job *job)
{
    const struct tr_bulk *b = &e->bulk;

    return b->on && about(e, job->topic->number) && is_old(b, job) &&
           (job->dead_seq != 0 ? wants(b, TR_DEAD) : wants(b, TR_DELAYED) || wants(b, TR_READY)) &&
           due_fits(b, job->due_us);
}

/* ---- changes ---- */

/* One more that matches. False: it is one too many. */
static bool count(struct tr_bulk *b)
{
    b->more = b->done == limit_of(b);
    b->done += !b->more;
    return !b->more;
}

/* A dry run has met this one. */
static int count_only(struct tr_bulk *b, uint64_t rid)
{
    int err = tr_bitmap_set(&b->met, rid);

    return err == TARRY_OK && !count(b) ? TARRY_EFULL : err;
}

/* It cannot be changed like that. */
static int pass_over(struct tr_bulk *b, uint64_t rid)
{
    int err = tr_bitmap_set(&b->met, rid);

    b->passed += err == TARRY_OK;
    return err;
}

static void tell(struct tr_engine *e, const struct tr_job_view *v)
{
    struct tr_req *r = e->bulk.req;

    if (r != NULL && r->each != NULL) {
        r->out.job = *v;
        r->each(r);
        r->out.job = (struct tr_job_view){0}; /* what it points to is about to go */
    }
}

/* The due time that a job is shifted to. The past means now; but one that is due already does not
 * become due later when it is to be sooner. */
static uint64_t shifted(const struct tr_engine *e, uint64_t due_us)
{
    uint64_t now_us = e->clock.t_us;
    int64_t by = e->bulk.shift_us;

    if (e->bulk.at_us != 0) {
        return e->bulk.at_us > now_us ? e->bulk.at_us : now_us;
    }
    if (by >= 0 || due_us > now_us + (uint64_t)-by) {
        return due_us + (uint64_t)by > now_us ? due_us + (uint64_t)by : now_us;
    }
    return due_us < now_us ? due_us : now_us;
}

static int change_due(struct tr_engine *e, struct tr_job *job)
{
    struct tr_record rec = {.mask = TR_FIELD(DUE), .due_us = e->clock.t_us};
    int err;

    if (e->bulk.what == TR_BULK_KICK) {
        rec.mask |= TR_FIELD(COUNTERS) | (job->dead_seq != 0 ? TR_FIELD(DEAD) : 0);
        rec.counters = job->counters;
        rec.counters.kicks++;
        rec.counters.reserves = tr_retry_forgets(job, false) ? 0 : rec.counters.reserves;
    } else {
        rec.due_us = shifted(e, job->due_us);
    }
    err = tr_change_revise(e, job, &rec, true);
    if (err == TARRY_OK) {
        job->bulk = e->bulk.mark;
    }
    return err;
}

/* The same, and notes it: a small change leaves its rid, and when its record is written again it
 * may leave memory, and its mark, before the bulk has ended. */
static int change_once(struct tr_engine *e, struct tr_job *job)
{
    uint64_t rid = job->rid;
    int err = tr_bitmap_set(&e->bulk.met, rid);

    if (err != TARRY_OK) {
        return err;
    }
    err = change_due(e, job);
    if (err != TARRY_OK) {
        (void)tr_bitmap_clear(&e->bulk.met, rid);
    }
    return err;
}

/* A job in memory. TARRY_EFULL: not now, or no more. */
static int change(struct tr_engine *e, struct tr_job *job)
{
    struct tr_bulk *b = &e->bulk;
    int err = b->dry_run ? TARRY_OK : tr_expiry_settle(e, job);
    enum tr_job_state state = (enum tr_job_state)job->state;
    struct tr_job_view v;

    if (err != TARRY_OK) {
        return err;
    }
    if (!about(e, job->topic->number) || job->topic->purged || !is_old(b, job) ||
        !tag_fits(b, tr_extra_tag(job->extra)) || !wants(b, state) || !due_fits(b, job->due_us)) {
        return TARRY_OK;
    }
    if (!can(b, state) ||
        (b->what == TR_BULK_SHIFT && shifted(e, job->due_us) > e->clock.t_us + TR_DELAY_MAX_US)) {
        return pass_over(b, job->rid);
    }
    if (!tr_engine_charge(e, CHANGE_UNITS)) {
        return TARRY_EFULL;
    }
    if (b->dry_run) {
        return count_only(b, job->rid);
    }
    err = tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX, 1);
    if (err != TARRY_OK || !count(b)) {
        return err != TARRY_OK ? err : TARRY_EFULL;
    }
    if (b->what == TR_BULK_CANCEL) {
        struct tr_kill kill = tr_tally_kill(job);

        tr_view_fill(e, job, &v);
        tell(e, &v);
        tr_change_unschedule(e, job);
        tr_change_kill(e, &kill, TR_WHY_CANCELLED);
        return TARRY_OK;
    }
    err = change_once(e, job);
    if (err != TARRY_OK) {
        b->done--;
        return err;
    }
    tr_view_fill(e, job, &v);
    tell(e, &v);
    return TARRY_OK;
}

/* One that is due is ready: its topic is parked, or it is being loaded. */
static enum tr_job_state far_state(const struct tr_engine *e, const struct tr_far_entry *entry)
{
    return entry->dead ? TR_DEAD : entry->due_us > e->clock.t_us ? TR_DELAYED : TR_READY;
}

/* Is it one of those, as far as its entry says? When a dead one was due only its record knows. */
static bool far_fits(const struct tr_engine *e, const struct tr_far_entry *entry)
{
    return wants(&e->bulk, far_state(e, entry)) &&
           (entry->dead || due_fits(&e->bulk, entry->due_us));
}

/* A far one, as its entry says. */
static int change_far(struct tr_engine *e, uint64_t rid, const struct tr_far_entry *entry,
                      bool tag_known)
{
    struct tr_bulk *b = &e->bulk;
    struct tr_kill kill = tr_tally_far(rid, entry);
    const struct tr_topic *t = topic(e, entry->topic);
    uint64_t id = tr_far_moved_id(&e->state.jobs.far, rid);
    struct tr_job_view v = {.id = id != 0 ? id : rid,
                            .topic = t != NULL ? t->handle : 0,
                            .state = far_state(e, entry),
                            .due_us = kill.due_us};
    bool unsure = entry->dead && (b->filter.due_from_us != 0 || b->filter.due_to_us != 0 ||
                                  b->what == TR_BULK_SHIFT);
    int err;

    unsure = unsure || (b->filter.tag_len != 0 && !tag_known);

    if (t == NULL || rid >= b->before || !far_fits(e, entry) || tr_bitmap_test(&b->met, rid)) {
        return TARRY_OK;
    }
    if (!unsure && !can(b, v.state)) {
        return pass_over(b, rid);
    }
    if (unsure || (!b->dry_run && b->what != TR_BULK_CANCEL)) {
        b->load[b->loads++] = rid; /* counted when it has come */
        return TARRY_OK;
    }
    if (b->dry_run) {
        return count_only(b, rid);
    }
    err = tr_log_reserve(&e->log, TR_RECORD_HEAD_MAX, 1);
    if (err != TARRY_OK || !count(b)) {
        return err != TARRY_OK ? err : TARRY_EFULL;
    }
    (void)tr_engine_charge(e, CHANGE_UNITS);
    tell(e, &v);
    tr_change_kill(e, &kill, TR_WHY_CANCELLED);
    return TARRY_OK;
}

/* ---- those that must come back first ---- */

/* TARRY_OK: it is done with; TARRY_EFULL: not yet. */
static int load(struct tr_engine *e, uint64_t rid)
{
    struct tr_job *job;
    int err;

    if (!tr_bitmap_test(&e->state.jobs.alive, rid)) {
        return TARRY_OK;
    }
    err = tr_load_by_rid(e, rid, &job);
    if (err == TARRY_OK) {
        return change(e, job);
    }
    if (err == TARRY_EDAMAGED || err == TARRY_ENOTFOUND) {
        e->bulk.passed++; /* it cannot be read */
        return TARRY_OK;
    }
    return err;
}

static int load_all(struct tr_engine *e)
{
    struct tr_bulk *b = &e->bulk;
    unsigned left = 0;
    int worst = TARRY_OK;

    for (unsigned i = 0; i < b->loads; i++) {
        int err = worst == TARRY_OK || worst == TARRY_EFULL ? load(e, b->load[i]) : TARRY_EFULL;

        if (err != TARRY_OK) {
            b->load[left++] = b->load[i];
            worst = worst == TARRY_OK || worst == TARRY_EFULL ? err : worst;
        }
        if (b->more) {
            return TARRY_EFULL; /* the bulk is over */
        }
    }
    b->loads = left;
    return worst;
}

/* ---- finding ---- */

static int in_slots(struct tr_engine *e)
{
    struct tr_bulk *b = &e->bulk;
    const struct tr_far *far = &e->state.jobs.far;
    const struct tr_far_page *page;
    int err = TARRY_OK;

    while (err == TARRY_OK && goes_on(e) && tr_far_walking(&b->far) &&
           (page = tr_far_walk_page(far, &b->far)) != NULL) {
        unsigned i = 0;

        if (b->page != page->first) {
            b->page = page->first;
            b->page_rid = 0;
            if (!tr_engine_charge(e, 1 + page->count / 8)) {
                b->page = UINT64_MAX;
                return TARRY_EFULL;
            }
        }
        while (i < page->count && (!about(e, page->entries[i].topic) || page->entries[i].located ||
                                   tr_far_page_rid(page, i) <= b->page_rid)) {
            i++;
        }
        if (i == page->count) {
            tr_far_walk_on(far, &b->far);
            b->page = UINT64_MAX;
        } else if (b->loads == TR_BULK_LOADS) {
            err = load_all(e);
        } else {
            struct tr_far_entry entry = page->entries[i];
            uint64_t rid = tr_far_page_rid(page, i);

            err = change_far(e, rid, &entry, false);
            b->page_rid = err == TARRY_OK ? rid : b->page_rid;
        }
    }
    return err;
}

static int in_run(struct tr_engine *e, const struct tr_side_job *job)
{
    const struct tr_far_entry *known = tr_far_find(&e->state.jobs.far, job->rid);
    struct tr_far_entry entry = tr_fetch_entry(e->bulk.walk.group, job);
    bool every = e->bulk.walk.every; /* then records are read, and the tag is known */
    int err = TARRY_OK;

    if (!tr_state_in_run(&e->state, job->rid) || job->rid >= e->bulk.before ||
        !about(e, job->topic) || (every && !tag_fits(&e->bulk, e->bulk.walk.tag)) ||
        TR_MUTANT(BULK_NO_RUNS)) {
        return TARRY_OK;
    }
    if (known == NULL && (!e->bulk.dry_run || entry.dead) && far_fits(e, &entry)) {
        err = tr_state_locate(&e->state, job->rid, &entry);
        if (err == TARRY_OK) {
            tr_fetch_remember(e, job->rid);
        }
    }
    return err == TARRY_OK ? change_far(e, job->rid, &entry, every) : err;
}

static int in_runs(struct tr_engine *e)
{
    struct tr_bulk *b = &e->bulk;
    struct tr_side_job job;
    unsigned seen = 0;
    int err = TARRY_OK;

    while (err == TARRY_OK && goes_on(e)) {
        if (b->loads == TR_BULK_LOADS) {
            err = load_all(e);
            continue;
        }
        if (seen++ % 8 == 0 && !tr_engine_spend(e)) {
            return TARRY_EFULL;
        }
        err = tr_walk_next(e, &b->walk, &job);
        if (err == TARRY_OK) {
            err = in_run(e, &job);
            if (err != TARRY_OK) {
                tr_walk_again(&b->walk);
            }
        }
    }
    return err == TARRY_ENOTFOUND ? TARRY_OK : err;
}

static int in_memory(struct tr_engine *e)
{
    struct tr_bulk *b = &e->bulk;
    struct tr_job *job;
    unsigned seen = 0;
    int err = TARRY_OK;

    while (err == TARRY_OK && goes_on(e)) {
        if (seen++ % 4 == 0 && !tr_engine_spend(e)) {
            return TARRY_EFULL;
        }
        job = tr_jobs_next(&e->state.jobs, &b->at);
        if (job == NULL) {
            return TARRY_OK;
        }
        err = change(e, job);
        b->at -= err != TARRY_OK; /* the same one again */
    }
    return err;
}

/* ---- turns ---- */

static void stop(struct tr_engine *e)
{
    tr_far_walk_end(&e->bulk.far);
    tr_walk_end(&e->bulk.walk);
    if (e->bulk.on) {
        tr_bitmap_fini(&e->bulk.met);
    }
    e->bulk.on = false;
    e->moved = true;
}

static void finish(struct tr_engine *e, int status)
{
    struct tr_bulk *b = &e->bulk;
    struct tr_req *r = b->req;

    stop(e);
    b->req = NULL;
    if (r != NULL) {
        r->out.number = b->done;
        r->out.passed = b->passed;
        r->out.damaged = b->walk.skipped;
        r->out.cursor = (struct tr_cursor){.more = b->more, .at = b->before, .id = b->mark};
        (void)tr_engine_finish(e, r, status);
    }
}

static int go_on(struct tr_engine *e)
{
    struct tr_bulk *b = &e->bulk;
    int err = TARRY_OK;

    if (b->step == TR_BULK_SLOTS) {
        err = in_slots(e);
        b->step += err == TARRY_OK && !b->more;
    }
    if (err == TARRY_OK && b->step == TR_BULK_RUNS) {
        err = in_runs(e);
        b->step += err == TARRY_OK && !b->more;
    }
    if (err == TARRY_OK && b->step == TR_BULK_LOADING) {
        err = load_all(e);
        b->step += err == TARRY_OK && !b->more;
    }
    return err == TARRY_OK && b->step == TR_BULK_MEMORY ? in_memory(e) : err;
}

void tr_bulk_step(struct tr_engine *e)
{
    struct tr_bulk *b = &e->bulk;
    unsigned rest = e->work / 2; /* half of the slice is for everything else */
    int err;

    b->waits = false;
    if (!b->on || e->work == 0) {
        return;
    }
    e->work -= rest;
    e->actor = b->actor;
    err = go_on(e);
    e->actor = 0;
    b->waits = err == TARRY_EFULL && e->work != 0;
    e->work += rest;
    if (b->more) {
        err = TARRY_OK;
    }
    if (err != TARRY_EFULL) {
        b->more = b->more || (err != TARRY_OK && b->done != 0);
        finish(e, b->done != 0 ? TARRY_OK : err);
    }
}

uint64_t tr_bulk_next(const struct tr_engine *e)
{
    if (!e->bulk.on) {
        return TR_NEVER;
    }
    if (e->bulk.waits) {
        return tr_engine_busy(e) ? TR_NEVER : e->now.boot_us + TR_RETRY_US;
    }
    return e->now.boot_us;
}

void tr_bulk_abandon(struct tr_engine *e, const struct tr_req *r)
{
    if (e->bulk.req == r) {
        e->bulk.req = NULL; /* it goes on */
    }
}

void tr_bulk_fail(struct tr_engine *e)
{
    if (e->bulk.on) {
        finish(e, TARRY_EIO);
    }
}

void tr_bulk_fini(struct tr_engine *e)
{
    stop(e);
    tr_walk_fini(e, &e->bulk.walk);
}

/* Has this engine given it, since its start? */
static bool is_ours(const struct tr_engine *e, const struct tr_cursor *c)
{
    return c->id >> EPOCH_SHIFT == e->epoch && c->id <= e->bulk.marks && c->at <= e->state.next_rid;
}

enum tr_verdict tr_bulk_execute(struct tr_engine *e, struct tr_req *r)
{
    struct tr_bulk *b = &e->bulk;
    const struct tr_topic *t = tr_topics_by_handle(&e->state.topics, r->topic);
    bool goes_on = r->cursor.at != 0;
    int err;

    if (r->filter.states >= 2U << TR_DEAD || (r->filter.states & 1) != 0 ||
        (unsigned)r->bulk >= TR_BULK_COUNT || r->shift_us > (int64_t)TR_DELAY_MAX_US ||
        r->shift_us < -(int64_t)TR_DELAY_MAX_US || r->filter.tag_len > TR_TAG_MAX ||
        r->at_us > r->start_wall_us + TR_DELAY_MAX_US) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    if (t == NULL && r->topic != 0) {
        return tr_engine_finish(e, r, TARRY_ENOTFOUND);
    }
    if (goes_on && !is_ours(e, &r->cursor)) {
        return tr_engine_finish(e, r, TARRY_ESTATE);
    }
    if (b->on) {
        return TR_STALL;
    }
    /* T does not know tags; records do. */
    err = t == NULL || r->filter.tag_len != 0
              ? tr_walk_begin_every(e, &b->walk, r->filter.due_from_us)
              : tr_walk_begin(e, &b->walk, t->number, r->filter.due_from_us);
    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
    }

    b->walk.with_dead = r->filter.states == 0 || (r->filter.states & 1U << TR_DEAD) != 0;

    struct tr_walk walk = b->walk;
    uint64_t marks = b->marks != 0 ? b->marks : e->epoch << EPOCH_SHIFT;

    *b = (struct tr_bulk){.on = true,
                          .req = r,
                          .actor = r->actor,
                          .what = r->bulk,
                          .filter = r->filter,
                          .shift_us = r->shift_us,
                          .at_us = r->at_us,
                          .count = r->count,
                          .dry_run = r->dry_run,
                          .before = goes_on ? r->cursor.at : e->state.next_rid,
                          .mark = goes_on ? r->cursor.id : marks + 1,
                          .marks = marks + !goes_on,
                          .topic = t != NULL ? t->number : 0,
                          .all = t == NULL,
                          .page = UINT64_MAX,
                          .walk = walk};
    if (r->filter.tag_len != 0) {
        memcpy(b->tag, r->filter.tag, r->filter.tag_len);
    }
    tr_bitmap_init(&b->met, e->mem);
    tr_far_walk_begin(&e->state.jobs.far, &b->far);
    tr_bulk_step(e);
    return TR_WAITS;
}
