/*
 * The jobs of a topic, or of all, in order, page by page.
 *
 *     far jobs of slots --+
 *     T of each group   --+--> the first `limit` behind the cursor --> records of far ones --> page
 *     jobs in memory    --+        (a heap, the last of them on top)
 *
 * Jobs in memory and in the table of far jobs stand in no order, so each page looks at all of them;
 * T is in order, so of each group only the entries behind the cursor are read. One page is made at
 * a time, in slices; who asks meanwhile waits.
 *
 * The page is exact at the moment it is answered. What was found is tested again then: alive, same
 * due time, a state that is wanted. What could have been missed is told: a job that enters a state,
 * or leaves memory, while the page is made, is offered there and then. The index does not know
 * all fields, so the records of far jobs are read, without bringing the jobs back: that costs no
 * room in checkpoints and no other job its place. One that cannot be read is shown by what is
 * known.
 *
 * A filter by tag is asked of jobs in memory; of far ones when their record has been read, so the
 * page looks at as many as a page can have, and may end short. For all topics the live runs are
 * read, which are in order of due time, instead of T; and all dead runs with each page, which are
 * not in order of time.
 *
 * In each group at most about 200,000 / groups entries are looked at; if that is not enough, the
 * page ends where the first group was left.
 *
 * Costs: a unit for four jobs in memory, nine for a page of 64 far ones, one for eight entries of
 * T. Memory: 330 bytes for each job of the page, and the records that are being read, 1 MiB or one.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <inttypes.h>

enum {
    LOOKED_MAX = 200000,
    READS_FREE = 64,
    READ_BYTES = 1 << 20,
    SOON_US = 1000000,
    LEAVES_PER_UNIT = 64 /* places of the page that are looked through when a job leaves */
};

struct tr_listed {
    struct tr_cursor key;
    uint64_t rid;
    uint32_t topic;            /* by number */
    uint64_t group_no;         /* it was found in the index of this one, */
    struct tr_far_entry entry; /* which says this */
    bool reading;
    bool known; /* of a far one: the view is complete */
    struct tr_job_view view;
    struct tr_extra *extra; /* what few have, or NULL */
};

static bool before(const struct tr_cursor *a, const struct tr_cursor *b)
{
    if (a->dead != b->dead) {
        return b->dead;
    }
    return a->at != b->at ? a->at < b->at : a->id < b->id;
}

static bool wants(const struct tr_listing *l, enum tr_job_state state)
{
    unsigned states = l->req->filter.states;

    return (states == 0 || (states & 1U << state) != 0) &&
           (state == TR_DEAD || !l->req->cursor.dead);
}

static bool due_fits(const struct tr_listing *l, uint64_t due_us)
{
    const struct tr_filter *f = &l->req->filter;

    return due_us >= f->due_from_us && (f->due_to_us == 0 || due_us < f->due_to_us);
}

/* ---- the heap ---- */

static const struct tr_cursor *key_at(const struct tr_listing *l, uint32_t place)
{
    return &l->jobs[l->heap[place]].key;
}

/* A job that was moved meanwhile is there twice: the older rid, which is dead, goes first. */
static bool comes_before(const struct tr_listed *a, const struct tr_listed *b)
{
    return before(&a->key, &b->key) || (!before(&b->key, &a->key) && a->rid > b->rid);
}

static bool is_before(const struct tr_listing *l, uint32_t a, uint32_t b)
{
    return comes_before(&l->jobs[l->heap[a]], &l->jobs[l->heap[b]]);
}

static void swap(struct tr_listing *l, uint32_t a, uint32_t b)
{
    uint32_t was = l->heap[a];

    l->heap[a] = l->heap[b];
    l->heap[b] = was;
}

static void sift_down(struct tr_listing *l, uint32_t count)
{
    uint32_t at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < count && is_before(l, child, child + 1)) {
            child++;
        }
        if (child >= count || !is_before(l, at, child)) {
            return;
        }
        swap(l, at, child);
        at = child;
    }
}

static void sift_up(struct tr_listing *l, uint32_t at)
{
    while (at > 0 && is_before(l, (at - 1) / 2, at)) {
        swap(l, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

/* Keeps it if it is among the first. */
static void keep(struct tr_listing *l, const struct tr_listed *job)
{
    if (!before(&l->req->cursor, &job->key)) {
        return;
    }
    if (l->count < l->limit) {
        l->heap[l->count] = l->count;
        l->jobs[l->count] = *job;
        sift_up(l, l->count++);
        return;
    }
    l->dropped = true;
    if (comes_before(job, &l->jobs[l->heap[0]])) {
        uint32_t slot = l->heap[0];

        tr_extra_free(l->mem, l->jobs[slot].extra);
        l->jobs[slot] = *job;
        l->next = l->next < slot ? l->next : slot;
        sift_down(l, l->count);
    }
}

/* ---- what is offered ---- */

/* Is the page about this topic? */
static bool about(const struct tr_engine *e, uint32_t number)
{
    const struct tr_listing *l = &e->listing;
    const struct tr_topic *t = l->all ? tr_topics_by_number(&e->state.topics, number) : NULL;

    return l->all ? t != NULL && !t->purged && !TR_MUTANT(LIST_ONE_TOPIC) : l->topic == number;
}

static bool tag_fits(const struct tr_listing *l, struct tr_bytes tag)
{
    const struct tr_filter *f = &l->req->filter;

    return f->tag_len == 0 || TR_MUTANT(LIST_ANY_TAG) ||
           tr_bytes_same((struct tr_bytes){(const uint8_t *)f->tag, f->tag_len}, tag);
}

static bool job_fits(const struct tr_listing *l, const struct tr_job *job)
{
    return wants(l, (enum tr_job_state)job->state) && due_fits(l, job->due_us) &&
           tag_fits(l, tr_extra_tag(job->extra)) && !job->topic->purged;
}

/* Dead ones of all topics have no common number: they stand by time. */
static uint64_t dead_place(const struct tr_listing *l, const struct tr_job *job)
{
    return l->all ? job->dead_at_us : job->dead_seq;
}

static struct tr_cursor key_of(const struct tr_listing *l, const struct tr_job *job)
{
    bool dead = job->state == TR_DEAD;

    return (struct tr_cursor){
        .dead = dead, .at = dead ? dead_place(l, job) : job->due_us, .id = job->id};
}

static void offer(struct tr_listing *l, const struct tr_job *job)
{
    struct tr_listed found = {.key = key_of(l, job), .rid = job->rid};

    TR_CHECK(job->topic != NULL);
    found.topic = job->topic->number;
    if (job_fits(l, job)) {
        keep(l, &found);
    }
}

void tr_listing_entered(struct tr_engine *e, const struct tr_job *job)
{
    if (e->listing.req != NULL && about(e, job->topic->number) && !TR_MUTANT(LIST_NOT_TOLD)) {
        offer(&e->listing, job);
    }
}

/* A far job is ready if it is due: its topic is parked, or it is being loaded. */
static bool wants_far(const struct tr_engine *e, uint64_t due_us)
{
    const struct tr_listing *l = &e->listing;

    return (wants(l, TR_DELAYED) && due_us > e->clock.t_us) ||
           (wants(l, TR_READY) && due_us <= e->clock.t_us + SOON_US);
}

/* When a dead one was due is in its record only. */
static void offer_far(struct tr_engine *e, struct tr_listed *found)
{
    struct tr_listing *l = &e->listing;

    if (found->key.dead ? wants(l, TR_DEAD)
                        : wants_far(e, found->key.at) && due_fits(l, found->key.at)) {
        keep(l, found);
    }
}

/* What was read of it, or is being read, may be older than what was changed in memory. */
static void forget(struct tr_listing *l, struct tr_listed *job)
{
    tr_extra_free(l->mem, job->extra);
    job->extra = NULL;
    job->group_no = 0;
    job->known = false;
    job->reading = false;
}

void tr_listing_leaves(struct tr_engine *e, const struct tr_job *job)
{
    struct tr_listing *l = &e->listing;
    bool dead = job->dead_seq != 0;
    struct tr_listed found = {
        .key = {.dead = dead, .at = dead ? dead_place(l, job) : job->due_us, .id = job->id},
        .rid = job->rid,
        .topic = job->topic->number};

    if (l->req != NULL && about(e, job->topic->number)) {
        (void)tr_engine_charge(e, l->count / LEAVES_PER_UNIT);
        for (uint32_t i = 0; i < l->count; i++) {
            if (l->jobs[i].rid == job->rid) {
                forget(l, &l->jobs[i]);
                l->jobs[i].rid = dead ? 0 : job->rid; /* it was found when it was not */
            }
        }
        offer_far(e, &found);
        l->next = 0;
    }
}

/* All that was found is dead, and what comes is told. */
void tr_listing_purged(struct tr_engine *e, struct tr_topic *t, const struct tr_topic *heir)
{
    struct tr_listing *l = &e->listing;

    if (l->req != NULL && !l->all && l->topic == t->number) {
        t->walk = NULL;
        tr_far_walk_end(&l->far);
        tr_walk_end(&l->walk);
        l->topic = heir->number;
        for (uint32_t i = 0; i < l->count; i++) {
            tr_extra_free(e->mem, l->jobs[i].extra);
        }
        l->count = 0;
        l->dropped = false;
        l->cut = false;
        l->step = TR_LISTING_READ;
    }
}

/* ---- finding ---- */

/* Are all that are due then, or later, behind what the page has? */
static bool is_behind(const struct tr_listing *l, uint64_t due_us)
{
    return l->count == l->limit && !key_at(l, 0)->dead && due_us > key_at(l, 0)->at;
}

/* Is it clear by its due time alone that a far job is not for this page? Most are not, and to look
 * up their topics and ids costs much more. */
static bool is_elsewhere(struct tr_engine *e, const struct tr_far_entry *entry)
{
    struct tr_listing *l = &e->listing;
    uint64_t due_us = entry->due_us;

    if (is_behind(l, due_us)) {
        l->dropped =
            l->dropped || (wants_far(e, due_us) && due_fits(l, due_us) && about(e, entry->topic));
        return true;
    }
    return due_us < l->req->cursor.at;
}

static void find_in_page(struct tr_engine *e, const struct tr_far_page *page)
{
    if (e->listing.dropped && is_behind(&e->listing, page->due_us)) {
        return;
    }
    for (unsigned i = 0; i < page->count; i++) {
        const struct tr_far_entry *entry = &page->entries[i];

        if (!entry->located && !is_elsewhere(e, entry) && about(e, entry->topic)) {
            uint64_t rid = tr_far_page_rid(page, i);
            struct tr_listed found = {
                .key = {.at = entry->due_us, .id = tr_far_id(&e->state.jobs.far, rid)},
                .rid = rid,
                .topic = entry->topic};

            offer_far(e, &found);
        }
    }
}

static bool find_in_slots(struct tr_engine *e)
{
    struct tr_listing *l = &e->listing;
    const struct tr_far *far = &e->state.jobs.far;
    const struct tr_far_page *page;

    while (tr_far_walking(&l->far) && (page = tr_far_walk_page(far, &l->far)) != NULL) {
        if (!tr_engine_charge(e, 1 + page->count / 8)) {
            return false;
        }
        find_in_page(e, page);
        tr_far_walk_on(far, &l->far);
    }
    tr_far_walk_end(&l->far);
    return true;
}

/* Has enough of the group been seen, when this entry is the next? */
static bool enough(struct tr_engine *e, const struct tr_side_job *job)
{
    struct tr_listing *l = &e->listing;
    const struct tr_filter *f = &l->req->filter;

    if (job->dead_seq != 0 && l->all) {
        return false; /* they are in no order of time */
    }
    if (job->dead_seq != 0) {
        bool later =
            l->count == l->limit && (!key_at(l, 0)->dead || job->dead_seq > key_at(l, 0)->at);

        l->dropped = l->dropped || later;
        return later;
    }
    if (l->looked_no != l->walk.group->is.no) {
        l->looked_no = l->walk.group->is.no;
        l->looked = 0;
    }
    if ((f->due_to_us != 0 && job->due_us >= f->due_to_us) ||
        (!wants(l, TR_DELAYED) && job->due_us > e->clock.t_us + SOON_US) ||
        (l->cut && job->due_us >= l->cut_us)) {
        return true;
    }
    if (l->count == l->limit && !key_at(l, 0)->dead && job->due_us > key_at(l, 0)->at) {
        l->dropped = true;
        return true;
    }
    if (++l->looked > LOOKED_MAX / (e->groups.count + 1) + l->limit &&
        job->due_us > l->walk.from_us) {
        l->cut = true;
        l->cut_us = job->due_us;
        return true;
    }
    return false;
}

static bool find_in_runs(struct tr_engine *e)
{
    struct tr_listing *l = &e->listing;
    struct tr_side_job job;
    unsigned seen = 0;

    for (;;) {
        int err;

        if (seen++ % 8 == 0 && !tr_engine_spend(e)) {
            return false;
        }
        err = tr_walk_next(e, &l->walk, &job);
        if (err == TARRY_EFULL) {
            return false;
        }
        if (err != TARRY_OK) {
            l->no_memory = l->no_memory || err == TARRY_ENOMEM;
            return true;
        }
        if (enough(e, &job)) {
            tr_walk_skip(&l->walk);
        } else if (tr_state_in_run(&e->state, job.rid) && about(e, job.topic) &&
                   (!l->walk.every || tag_fits(l, l->walk.tag)) && !TR_MUTANT(LIST_NO_RUNS)) {
            uint64_t id = tr_far_moved_id(&e->state.jobs.far, job.rid);
            bool dead = job.dead_seq != 0;
            struct tr_listed found = {.key = {.dead = dead,
                                              .at = !dead    ? job.due_us
                                                    : l->all ? l->walk.dead_at_us
                                                             : job.dead_seq,
                                              .id = id != 0 ? id : job.rid},
                                      .rid = job.rid,
                                      .topic = job.topic,
                                      .group_no = l->walk.group->is.no,
                                      .entry = tr_fetch_entry(l->walk.group, &job)};

            offer_far(e, &found);
        }
    }
}

/* Those in memory that stand in a list of the topic. */
static bool find_by_state(struct tr_engine *e, struct tr_topic *t)
{
    struct tr_listing *l = &e->listing;
    unsigned seen = 0;

    for (; t != NULL && l->state <= TR_DEAD; l->state++) {
        struct tr_list *head = &t->by_state[l->state];

        t->walk = t->walk != NULL ? t->walk : head->next;
        while (wants(l, l->state) && t->walk != head && !TR_MUTANT(LIST_NO_MEMORY)) {
            if (seen++ % 4 == 0 && !tr_engine_spend(e)) {
                return false;
            }
            offer(l, TR_CONTAINER_OF(t->walk, struct tr_job, link));
            t->walk = t->walk->next;
        }
        t->walk = NULL;
    }
    return true;
}

/* Reserved ones stand with their holders: all jobs are looked at. */
static bool find_reserved(struct tr_engine *e, const struct tr_topic *t)
{
    struct tr_listing *l = &e->listing;
    const struct tr_job *job;
    unsigned seen = 0;

    if (!l->all && (t == NULL || t->count[TR_RESERVED] == 0 || !wants(l, TR_RESERVED))) {
        return true;
    }
    for (;;) {
        if (seen++ % 4 == 0 && !tr_engine_spend(e)) {
            return false;
        }
        job = tr_jobs_next(&e->state.jobs, &l->at);
        if (job == NULL) {
            return true;
        }
        if (l->all ? job->state != 0 : job->topic == t && job->state == TR_RESERVED) {
            offer(l, job);
        }
    }
}

/* ---- records ---- */

/* Is it far still, and dead if it was? */
static bool is_far(const struct tr_engine *e, const struct tr_listed *job)
{
    const struct tr_jobs *js = &e->state.jobs;
    const struct tr_far_entry *entry = tr_far_find(&js->far, job->rid);

    return tr_bitmap_test(&js->alive, job->rid) && tr_jobs_by_rid(js, job->rid) == NULL &&
           (entry == NULL || entry->dead == job->key.dead);
}

/* ... and has its record not been read? */
static bool unread(const struct tr_engine *e, const struct tr_listed *job)
{
    return !job->known && is_far(e, job);
}

static void show_bare(struct tr_listed *job)
{
    job->view = (struct tr_job_view){.damaged = true};
    job->known = true;
}

/* Where its record is. TARRY_EFULL: soon; else it is not to be had. */
static int where(struct tr_engine *e, const struct tr_listed *job, struct tr_far_entry *entry)
{
    const struct tr_far_entry *known = tr_far_find(&e->state.jobs.far, job->rid);
    const struct tr_group *g = tr_groups_find(&e->groups, job->rid);

    if (known != NULL) {
        *entry = *known;
        return known->bad ? TARRY_EDAMAGED : TARRY_OK;
    }
    if (g != NULL && g->is.no == job->group_no) {
        *entry = job->entry;
        return TARRY_OK;
    }
    return tr_fetch_locate(e, job->rid);
}

static void show_record(struct tr_listed *job, const struct tr_record *rec)
{
    job->view = (struct tr_job_view){.due_us = rec->due_us,
                                     .priority = rec->priority,
                                     .created_us = rec->created_us,
                                     .delay_us = rec->delay_us,
                                     .ttr_us = rec->ttr_us,
                                     .reserves = rec->counters.reserves,
                                     .timeouts = rec->counters.timeouts,
                                     .releases = rec->counters.releases,
                                     .buries = rec->counters.buries,
                                     .kicks = rec->counters.kicks,
                                     .body_len = (uint32_t)rec->body.len,
                                     .dead_why = rec->dead.reason,
                                     .dead_at_us = rec->dead.at_us,
                                     .beanstalk = (rec->flags & TR_RF_BEANSTALK) != 0};
    tr_view_extra(&job->view, job->extra);
    job->known = true;
}

void tr_listing_read(struct tr_engine *e, const struct tr_read *read, bool good)
{
    struct tr_listing *l = &e->listing;
    struct tr_listed *job;
    struct tr_far_entry entry = {
        .off = (uint32_t)read->off, .len = read->len, .slot = (uint16_t)read->slot->number};
    struct tr_far_entry now;
    struct tr_record rec;

    l->reads--;
    l->read_bytes -= read->len;
    if (l->req == NULL || read->stamp >= l->count) {
        return; /* for one that was abandoned */
    }
    job = &l->jobs[read->stamp];
    if (job->rid != read->rid || !job->reading) {
        return;
    }
    job->reading = false;
    entry.due_us = job->key.at;
    good = good && tr_fetch_decode_at(e, read->rid, &entry, read->buf, &rec) == TARRY_OK;
    if (good && tr_extra_new(e->mem, &rec, &job->extra) != TARRY_OK) {
        l->no_memory = true;
    } else if (good) {
        show_record(job, &rec);
    } else if (unread(e, job) && where(e, job, &now) == TARRY_OK && now.slot == entry.slot &&
               now.off == entry.off && read->io.status != TARRY_EFULL) {
        tr_read_report(e, job->key.id, job->topic, job->key.dead ? TR_NEVER : job->key.at, read);
        show_bare(job);
    } else if (l->next > read->stamp) {
        l->next = read->stamp; /* it may be elsewhere */
    }
}

/* Asks for what is missing. TARRY_OK: nothing is; TARRY_EFULL: it is on its way; TARRY_ENOMEM. */
static int read_records(struct tr_engine *e)
{
    struct tr_listing *l = &e->listing;

    if (l->no_memory) {
        return TARRY_ENOMEM;
    }

    for (; l->next < l->count; l->next++) {
        struct tr_listed *job = &l->jobs[l->next];
        struct tr_far_entry entry = {0};
        int err;

        if (!tr_engine_spend(e)) {
            return TARRY_EFULL;
        }
        if (job->reading || !unread(e, job)) {
            continue;
        }
        err = where(e, job, &entry);
        if (err != TARRY_OK && err != TARRY_EFULL) {
            show_bare(job);
            continue;
        }
        if (err == TARRY_EFULL || e->read_count + READS_FREE > TR_READS_MAX ||
            (l->reads != 0 && l->read_bytes + entry.len > READ_BYTES)) {
            l->waits = true;
            return TARRY_EFULL;
        }
        err = tr_read_start_listed(e, job->rid, &entry, l->next);
        if (err != TARRY_OK) {
            return err == TARRY_ENOMEM && l->reads != 0 ? TARRY_EFULL : err;
        }
        job->reading = true;
        l->reads++;
        l->read_bytes += entry.len;
    }
    return l->reads == 0 ? TARRY_OK : TARRY_EFULL;
}

/* ---- the answer ---- */

/* The view of a job that still is what was found. */
static bool show(const struct tr_engine *e, const struct tr_listed *found, struct tr_job_view *v)
{
    const struct tr_listing *l = &e->listing;
    const struct tr_jobs *js = &e->state.jobs;
    const struct tr_job *job = tr_jobs_by_rid(js, found->rid);
    const struct tr_far_entry *entry = tr_far_find(&js->far, found->rid);
    const struct tr_topic *topic;

    if (job != NULL) {
        struct tr_cursor key = key_of(l, job);

        if (!job_fits(l, job) || before(&key, &found->key) || before(&found->key, &key)) {
            return false;
        }
        tr_view_fill(e, job, v);
        return true;
    }
    if (!is_far(e, found) ||
        (found->key.dead ? !due_fits(l, found->view.due_us)
                         : entry != NULL && !entry->located && entry->due_us != found->key.at)) {
        return false;
    }
    if (!about(e, found->topic) || !tag_fits(l, tr_extra_tag(found->extra))) {
        return false;
    }
    topic = tr_topics_by_number(&e->state.topics, found->topic);
    *v = found->view;
    v->topic = topic->handle;
    v->ttr_us = tr_policy_ttr(v->ttr_us);
    v->id = found->key.id;
    if (found->key.dead) {
        v->state = TR_DEAD;
        return true;
    }
    v->due_us = found->key.at;
    v->state = v->due_us > e->clock.t_us ? TR_DELAYED : TR_READY;
    v->left_us = v->due_us > e->clock.t_us ? v->due_us - e->clock.t_us : 0;
    return wants(l, v->state);
}

static void name_topic(const struct tr_engine *e, struct tr_job_view *v)
{
    const struct tr_topic *t = tr_topics_by_handle(&e->state.topics, v->topic);

    if (t != NULL) {
        v->topic_name = t->name;
        v->topic_name_len = t->name_len;
    }
}

static void fill_page(struct tr_engine *e)
{
    struct tr_listing *l = &e->listing;
    struct tr_req *r = l->req;
    struct tr_cursor end = {.more = true, .at = l->cut_us - 1, .id = UINT64_MAX};

    if (l->dropped && (!l->cut || before(key_at(l, 0), &end))) {
        end = *key_at(l, 0);
        end.more = true;
    }
    r->out.cursor = l->dropped || l->cut ? end : (struct tr_cursor){0};
    for (uint32_t n = l->count; n > 1; n--) { /* the heap becomes a row in order */
        swap(l, 0, n - 1);
        sift_down(l, n - 1);
    }
    for (uint32_t i = 0; i < l->count; i++) {
        struct tr_job_view *v = &l->views[r->out.number];

        if (r->out.cursor.more && before(&end, key_at(l, i))) {
            break;
        }
        if (r->out.number == r->count) { /* more fit than were asked for */
            r->out.cursor = *key_at(l, i - 1);
            r->out.cursor.more = true;
            break;
        }
        if (show(e, &l->jobs[l->heap[i]], v) &&
            (r->out.number == 0 || l->views[r->out.number - 1].id != v->id)) {
            name_topic(e, v);
            r->out.number++; /* else it was offered twice */
        }
    }
    r->out.jobs = l->views;
    r->out.damaged = l->damaged || l->walk.skipped;
}

/* Ends it; what it had in memory is for the caller to give back. */
static struct tr_listing stop(struct tr_engine *e)
{
    struct tr_listing *l = &e->listing;
    struct tr_listing was = *l;
    struct tr_topic *t = tr_topics_by_number(&e->state.topics, l->topic);

    if (t != NULL) {
        t->walk = NULL;
    }
    tr_far_walk_end(&l->far);
    tr_walk_end(&l->walk);
    l->req = NULL;
    l->jobs = NULL;
    l->heap = NULL;
    l->views = NULL;
    e->moved = true;
    return was;
}

static void give_back(struct tr_engine *e, const struct tr_listing *was)
{
    for (uint32_t i = 0; i < was->count; i++) {
        tr_extra_free(e->mem, was->jobs[i].extra);
    }
    tr_mem_free(e->mem, was->jobs, was->limit * sizeof *was->jobs);
    tr_mem_free(e->mem, was->heap, was->limit * sizeof *was->heap);
    tr_mem_free(e->mem, was->views, was->limit * sizeof *was->views);
}

static void finish(struct tr_engine *e, int status)
{
    struct tr_listing was = stop(e);

    (void)tr_engine_finish(e, was.req, status); /* may begin the next one */
    give_back(e, &was);
}

void tr_listing_abandon(struct tr_engine *e, const struct tr_req *r)
{
    if (e->listing.req == r) {
        struct tr_listing was = stop(e);

        give_back(e, &was);
    }
}

void tr_listing_fail(struct tr_engine *e)
{
    if (e->listing.req != NULL) {
        finish(e, TARRY_EIO);
    }
}

void tr_listing_fini(struct tr_engine *e)
{
    if (e->listing.req != NULL) {
        tr_listing_abandon(e, e->listing.req);
    }
    tr_walk_fini(e, &e->listing.walk);
}

/* ---- turns ---- */

bool tr_listing_goes_on(const struct tr_engine *e)
{
    const struct tr_listing *l = &e->listing;

    return l->req != NULL && !l->walk.reading && !l->waits;
}

static int begin_dead(struct tr_engine *e)
{
    struct tr_listing *l = &e->listing;

    return l->all ? tr_walk_begin_every_dead(e, &l->walk)
                  : tr_walk_begin_dead(e, &l->walk, l->topic,
                                       l->req->cursor.dead ? l->req->cursor.at : 0);
}

/* One step after the other. TARRY_EFULL: later. */
static int make(struct tr_engine *e)
{
    struct tr_listing *l = &e->listing;
    struct tr_topic *t = tr_topics_by_number(&e->state.topics, l->topic);
    int err = TARRY_OK;

    if (l->step == TR_LISTING_SLOTS) {
        if (!find_in_slots(e)) {
            return TARRY_EFULL;
        }
        l->step = TR_LISTING_RUNS;
    }
    if (l->step == TR_LISTING_RUNS) {
        if ((wants(l, TR_DELAYED) || wants(l, TR_READY)) && !find_in_runs(e)) {
            return TARRY_EFULL;
        }
        l->damaged = l->walk.skipped;
        err = wants(l, TR_DEAD) ? begin_dead(e) : TARRY_OK;
        if (err != TARRY_OK) {
            return err;
        }
        l->step = TR_LISTING_DEAD;
    }
    if (l->step == TR_LISTING_DEAD) {
        if (wants(l, TR_DEAD) && !find_in_runs(e)) {
            return TARRY_EFULL;
        }
        l->step = TR_LISTING_STATES;
    }
    if (l->step == TR_LISTING_STATES) {
        if (!find_by_state(e, t)) {
            return TARRY_EFULL;
        }
        l->step = TR_LISTING_RESERVED;
    }
    if (l->step == TR_LISTING_RESERVED) {
        if (!find_reserved(e, t)) {
            return TARRY_EFULL;
        }
        l->step = TR_LISTING_READ;
    }
    err = read_records(e);
    l->waits = l->waits || (err == TARRY_EFULL && l->reads != 0 && e->work != 0);
    return err;
}

void tr_listing_step(struct tr_engine *e)
{
    struct tr_listing *l = &e->listing;
    int err;

    if (l->req == NULL || e->work == 0) {
        return;
    }
    l->waits = false;
    err = make(e);
    if (err == TARRY_EFULL) {
        return;
    }
    if (err == TARRY_OK) {
        fill_page(e);
        (void)tr_engine_charge(e, l->count);
    }
    finish(e, err);
}

/* Takes the memory that the page needs. */
static int begin(struct tr_engine *e, struct tr_req *r, const struct tr_topic *t)
{
    struct tr_listing *l = &e->listing;
    uint64_t from_us = r->cursor.dead || r->cursor.at < r->filter.due_from_us
                           ? r->filter.due_from_us
                           : r->cursor.at;
    int err = t != NULL ? tr_walk_begin(e, &l->walk, t->number, from_us)
                        : tr_walk_begin_every(e, &l->walk, from_us);

    if (err != TARRY_OK) {
        return err;
    }
    l->mem = e->mem;
    l->damaged = false;
    l->count = 0;
    l->limit = r->filter.tag_len != 0 ? TR_LIST_MAX : (uint32_t)r->count; /* most will not fit */
    l->jobs = tr_mem_stretch(e->mem, NULL, 0, l->limit * sizeof *l->jobs);
    l->heap = tr_mem_stretch(e->mem, NULL, 0, l->limit * sizeof *l->heap);
    l->views = tr_mem_stretch(e->mem, NULL, 0, l->limit * sizeof *l->views);
    if (l->jobs == NULL || l->heap == NULL || l->views == NULL) {
        give_back(e, l);
        return TARRY_ENOMEM;
    }
    l->req = r;
    l->topic = t != NULL ? t->number : 0;
    l->all = t == NULL;
    l->step = TR_LISTING_SLOTS;
    l->no_memory = false;
    l->dropped = false;
    l->cut = false;
    l->looked_no = 0;
    l->state = TR_DELAYED;
    l->at = 0;
    l->next = 0;
    l->waits = false;
    if (wants(l, TR_DELAYED) || wants(l, TR_READY)) {
        tr_far_walk_begin(&e->state.jobs.far, &l->far);
    }
    return TARRY_OK;
}

enum tr_verdict tr_listing_execute(struct tr_engine *e, struct tr_req *r)
{
    const struct tr_topic *t;
    int err;

    if (r->count == 0 || r->count > TR_LIST_MAX || r->filter.states >= 2U << TR_DEAD ||
        (r->filter.states & 1) != 0 || r->filter.tag_len > TR_TAG_MAX) {
        return tr_engine_finish(e, r, TARRY_EINVAL);
    }
    t = tr_topics_by_handle(&e->state.topics, r->topic);
    if (t == NULL && r->topic != 0) {
        return tr_engine_finish(e, r, TARRY_ENOTFOUND);
    }
    if (e->listing.req != NULL) {
        return TR_STALL;
    }
    err = begin(e, r, t);
    if (err != TARRY_OK) {
        return err == TARRY_EFULL ? TR_STALL : tr_engine_finish(e, r, err);
    }
    tr_listing_step(e);
    return TR_WAITS;
}
