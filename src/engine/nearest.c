/*
 * When the next job of a topic is due, wherever it is.
 *
 *     in memory                  the first of its heap of delayed jobs
 *     far, in slots  |           the least due time of all of them: kept with the topic while it is
 *     far, in runs   |           known (far_first_us), and looked for when somebody asks
 *
 * Nothing is looked for while the first one in memory is due before the horizon. What is known of
 * the far ones stays known: one that leaves memory may be the first (state.c); when the first one
 * comes back or dies, it is not known any more.
 *
 * The search: a pass through the table of far jobs serves all topics at once, since each entry
 * names its topic. Invariant: a topic has no entry in the table, or far_pass is that of the last
 * pass and far_first_us is not after the first of them, unless that one is gone (far_gone). So what
 * a pass has found stays good for a topic until its first one goes. Then, for one topic after
 * another as they are asked for, the first live entry in T of each group, which is one page as a
 * rule and none if the group has no job of the topic. So who asks for all topics in turn has one
 * pass and some pages read.
 *
 * What cannot be read is left out. Jobs of a parked topic that are due already are ready, not
 * delayed: only those after T are meant. Who has waited for PASSES passes, because the first job
 * went each time before the answer was complete, is told of the one that went last: else a client
 * that cancels in order of due times could keep everybody waiting.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

enum {
    LOOK_UNITS = 8,
    SEEN_MAX = 256,  /* jobs of a topic, and */
    LOOKS_MAX = 64,  /* topics that are looked at for those who watch, */
    NEAR_UNITS = 16, /* of work each */
    PASSES = 3,
};

static bool is_known(const struct tr_engine *e, const struct tr_topic *t)
{
    return t->far_known && t->far_first_us > e->clock.t_us;
}

/* ---- for those who watch ---- */

/* The least due time of those in memory, or TR_NEVER. They are in no order unless somebody asked
 * for one; then those that have been waiting for longest are looked at, which are the first ones
 * if all have the same delay. */
static uint64_t first_near(const struct tr_topic *t)
{
    const struct tr_list *head = &t->by_state[TR_DELAYED];
    const struct tr_heap_item *top = tr_heap_top(&t->heaps[TR_HEAP_DELAYED]);
    uint64_t due_us = TR_NEVER;
    unsigned seen = 0;

    if (t->rest[TR_HEAP_DELAYED] == head && top != NULL) {
        return top->second;
    }
    for (const struct tr_list *n = head->next; n != head && seen < SEEN_MAX; n = n->next, seen++) {
        const struct tr_job *job = TR_CONTAINER_OF(n, struct tr_job, link);

        due_us = job->due_us < due_us ? job->due_us : due_us;
    }
    return due_us;
}

/* Is what is in memory enough to say it? */
static bool is_near(const struct tr_engine *e, const struct tr_topic *t, uint64_t due_us)
{
    return t->far == 0 || due_us < e->load.horizon_us || is_known(e, t);
}

uint64_t tr_nearest_known(const struct tr_engine *e, const struct tr_topic *t)
{
    uint64_t due_us = first_near(t);

    if (!is_near(e, t, due_us)) {
        return 0;
    }
    if (t->far != 0 && is_known(e, t) && t->far_first_us < due_us) {
        due_us = t->far_first_us;
    }
    return due_us != TR_NEVER ? due_us : 0;
}

void tr_nearest_look(struct tr_engine *e)
{
    unsigned all = e->state.topics.meters.count;

    e->nearest.seats = all < LOOKS_MAX ? all : LOOKS_MAX;
}

/* ---- the table ---- */

static void begin_pass(struct tr_engine *e)
{
    struct tr_nearest *n = &e->nearest;

    n->passing = true;
    n->from_us = e->clock.t_us + 1;
    e->state.topics.far_pass++; /* what earlier ones found is void */
    tr_far_walk_begin(&e->state.jobs.far, &n->far);
}

static void look_at(struct tr_engine *e, const struct tr_far_page *page)
{
    struct tr_topic *t = NULL;

    for (unsigned i = 0; i < page->count; i++) {
        const struct tr_far_entry *entry = &page->entries[i];

        if (entry->dead || entry->bad || entry->due_us < e->nearest.from_us) {
            continue;
        }
        if (t == NULL || t->number != entry->topic) {
            t = tr_topics_by_number(&e->state.topics, entry->topic);
        }
        t->far_known = is_known(e, t);
        tr_topic_note_far(t, entry->due_us);
    }
}

static void pass(struct tr_engine *e)
{
    struct tr_nearest *n = &e->nearest;
    const struct tr_far *far = &e->state.jobs.far;
    const struct tr_far_page *page;

    while (tr_far_walking(&n->far) && (page = tr_far_walk_page(far, &n->far)) != NULL) {
        if (!tr_engine_charge(e, 1 + page->count / 8)) {
            return;
        }
        look_at(e, page);
        tr_far_walk_on(far, &n->far);
    }
    tr_far_walk_end(&n->far);
    n->passing = false;
    n->passed = e->state.topics.far_pass;
    e->moved = true;
}

/* ---- the runs ---- */

/* A slice. TARRY_OK: all groups have been looked at. */
static int look(struct tr_engine *e, struct tr_topic *t)
{
    struct tr_walk *w = &e->nearest.walk;
    struct tr_side_job job;
    unsigned seen = 0;

    for (;;) {
        int err;

        if (seen++ % LOOK_UNITS == 0 && !tr_engine_spend(e)) {
            return TARRY_EFULL;
        }
        err = tr_walk_next(e, w, &job);
        if (err != TARRY_OK) {
            return err == TARRY_ENOTFOUND ? TARRY_OK : err;
        }
        if (tr_engine_only_in_run(e, job.rid, t->number)) {
            tr_topic_note_far(t, job.due_us);
            tr_walk_skip(w); /* the others of this group are due later */
        }
    }
}

static void end_look(struct tr_engine *e)
{
    tr_walk_end(&e->nearest.walk);
    e->nearest.topic = 0;
    e->moved = true;
}

static int first_far(struct tr_engine *e, struct tr_topic *t, bool tired, uint64_t *due_us);

/* The next topic of which it is not known is looked for, if nobody else waits. */
static void look_on(struct tr_engine *e)
{
    struct tr_nearest *n = &e->nearest;
    struct tr_meters *ms = &e->state.topics.meters;

    while (n->seats > 0 && n->topic == 0 && !n->passing && e->stalled_first == NULL &&
           tr_engine_charge(e, NEAR_UNITS)) {
        unsigned seat = n->seat < ms->count ? n->seat : 0;
        const struct tr_meter *m = ms->seats[seat];
        struct tr_topic *t =
            m->hold != NULL ? TR_CONTAINER_OF(m->hold, struct tr_topic, metering) : NULL;
        uint64_t due_us;

        n->seats--;
        if (t != NULL && !is_near(e, t, first_near(t))) {
            (void)first_far(e, t, false, &due_us);
        }
        n->seat = seat + !n->passing; /* else this one again, after the pass */
    }
}

void tr_nearest_step(struct tr_engine *e)
{
    struct tr_nearest *n = &e->nearest;
    struct tr_topic *t;

    if (n->passing) {
        pass(e);
    }
    if (n->topic == 0) {
        look_on(e);
    }
    if (n->topic == 0) {
        return;
    }
    t = tr_topics_by_number(&e->state.topics, n->topic);
    if (t == NULL || t->purged || t->far_pass != n->passed || (t->far_gone && !n->tired)) {
        end_look(e); /* who asked asks again */
        return;
    }

    int err = look(e, t);

    if (err != TARRY_EFULL) {
        t->far_all = err == TARRY_OK;
        t->far_known = t->far_all && !t->far_gone;
        end_look(e);
    }
}

bool tr_nearest_goes_on(const struct tr_engine *e)
{
    const struct tr_nearest *n = &e->nearest;

    return n->passing ||
           (n->topic != 0 ? !n->walk.reading : n->seats > 0 && e->stalled_first == NULL);
}

void tr_nearest_fini(struct tr_engine *e)
{
    tr_walk_fini(e, &e->nearest.walk);
}

/* The least due time of its far jobs, or TR_NEVER. TARRY_EFULL: it is looked for, ask again.
 * `tired`: what the last pass has found will do. */
static int first_far(struct tr_engine *e, struct tr_topic *t, bool tired, uint64_t *due_us)
{
    struct tr_nearest *n = &e->nearest;
    bool gone;
    int err;

    *due_us = TR_NEVER;
    if (t->far == 0) {
        return TARRY_OK;
    }
    if (is_known(e, t)) {
        *due_us = t->far_first_us;
        return TARRY_OK;
    }
    if (n->passing || n->topic != 0) {
        return TARRY_EFULL;
    }
    gone = t->far_pass == n->passed && t->far_gone;
    if (tired && gone && t->far_all && t->far_first_us > e->clock.t_us) {
        *due_us = t->far_first_us;
        return TARRY_OK;
    }
    if (t->far_known || n->passed == 0 || (gone && (!tired || t->far_all))) {
        t->far_known = false;
        begin_pass(e);
        return TARRY_EFULL;
    }
    err = tr_walk_begin(e, &n->walk, t->number, n->from_us);
    if (err == TARRY_OK) {
        n->topic = t->number;
        n->tired = tired;
        tr_topic_note_far(t, TR_NEVER);
        err = TARRY_EFULL;
    }
    return err;
}

int tr_nearest_due(struct tr_engine *e, struct tr_topic *t, uint64_t *since, uint64_t *due_us)
{
    uint64_t pass_no = (uint64_t)e->state.topics.far_pass + 1;
    struct tr_job *job = NULL;
    uint64_t far_us = TR_NEVER;
    int err = tr_topic_first(t, TR_HEAP_DELAYED, &e->work, &job);

    *since = *since != 0 ? *since : pass_no;
    if (err == TARRY_OK && !(job != NULL && tr_load_is_first(e, job))) {
        err = first_far(e, t, pass_no - *since >= PASSES, &far_us);
    }
    if (err != TARRY_OK) {
        return err;
    }
    *due_us = job != NULL && job->due_us < far_us ? job->due_us : far_us;
    *due_us = *due_us != TR_NEVER ? *due_us : 0;
    return TARRY_OK;
}
