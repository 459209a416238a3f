/*
 * Topics.
 *
 * Each job of a topic is in the list of its state. The heaps are only a way to find the first one
 * quickly: ready jobs by either order, delayed ones by (due, id).
 *
 *     by_state[READY]    o-o-o-o-o          the truth
 *     heaps[ORDER_ID]    (prio, id)         filled from the list when first asked for
 *     heaps[ORDER_DUE]   (prio, due, id)    most topics only ever need one of the two
 *     heaps[DELAYED]     (due, id)          for peek-delayed, kick and next due
 *
 *     in the heap: o-o-o | o-o-o : not yet
 *                        ^ rest
 *
 * Invariant: a heap in use has exactly the jobs of its list that stand before `rest`. New jobs are
 * appended; if nothing is missing they go into the heap at once, and if there is no memory for
 * that, they are the new rest. So entering a state never fails, a full memory makes hand-outs wait
 * but loses nothing, and a heap of a million jobs is filled in slices.
 *
 * Totals over all topics are kept with every change, so that nobody has to walk them.
 *
 * Quotas. Each topic may have near_min delayed and ready jobs in memory; for more it takes a loan
 * from the pool, as long as that is smaller than what the pool has left. So one topic gets at most
 * half of it, the next one half of the rest, and nobody is without. What happens to the others is
 * up to park.c.
 *
 * Cost: enter and leave O(log n) with one heap in use. Not done here: who gets the job (handout.c).
 */

#include "engine/topic.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/mutant.h"
#include "base/name.h"
#include "engine/tag.h"

#include <stddef.h>
#include <string.h>

void tr_topics_init(struct tr_topics *ts, struct tr_mem *mem)
{
    *ts = (struct tr_topics){.mem = mem,
                             .next_number = 1,
                             .far_pass = 1,
                             .near_max = UINT64_MAX / 2,
                             .kept_max = TR_TOPICS_KEPT,
                             .none = tr_policy_default()};
    tr_list_init(&ts->all);
    tr_list_init(&ts->in_order);
    tr_list_init(&ts->being_purged);
    tr_list_init(&ts->parked);
    ts->counting = &ts->parked;
    tr_list_init(&ts->drops);
    tr_list_init(&ts->kept);
    tr_list_init(&ts->crowded);
    tr_list_init(&ts->hungry);
    tr_list_init(&ts->with_ready);
    tr_map_init(&ts->by_number, mem);
    tr_map_init(&ts->by_name, mem);
    tr_map_init(&ts->by_handle, mem);
    tr_lates_init(&ts->lates, mem);
    tr_meters_init(&ts->meters, mem, TR_METERS_MAX);
}

/* ---- policies ---- */

const struct tr_policy *tr_topic_policy(const struct tr_topic *t)
{
    return t->policy != NULL ? t->policy : &t->of->none;
}

bool tr_topic_paused(const struct tr_topic *t)
{
    return t->pause.armed || t->stopped;
}

struct tr_policy *tr_topics_copy_policy(struct tr_topics *ts, const struct tr_policy *p)
{
    struct tr_policy *copy = tr_mem_alloc(ts->mem, sizeof *copy + p->deliver_len);

    if (copy != NULL) {
        *copy = *p;
        if (p->deliver != NULL) {
            copy->deliver = (const char *)(copy + 1);
            memcpy(copy + 1, p->deliver, p->deliver_len);
        }
    }
    return copy;
}

void tr_topic_set_policy(struct tr_topic *t, struct tr_policy *copy, size_t row_bytes)
{
    if (t->policy != NULL) {
        tr_mem_free(t->of->mem, t->policy, sizeof *t->policy + t->policy->deliver_len);
        t->of->policy_bytes -= t->policy_row;
    }
    t->policy = copy;
    t->policy_row = copy != NULL ? (uint32_t)row_bytes : 0;
    t->of->policy_bytes += t->policy_row;
}

static void topic_free(struct tr_topics *ts, struct tr_topic *t)
{
    tr_topic_set_policy(t, NULL, 0);
    for (unsigned h = 0; h < TR_HEAP_COUNT; h++) {
        tr_heap_fini(&t->heaps[h]);
    }
    tr_late_drop(&ts->lates, t->late);
    tr_meters_leave(&ts->meters, &t->metering);
    tr_tags_drop(t);
    tr_mem_free(ts->mem, t, sizeof *t);
}

void tr_topics_fini(struct tr_topics *ts)
{
    if (ts->mem == NULL) {
        return;
    }
    while (!tr_list_empty(&ts->all)) {
        struct tr_topic *t = TR_CONTAINER_OF(ts->all.next, struct tr_topic, link);

        tr_list_remove(&t->link);
        topic_free(ts, t);
    }
    tr_late_drop(&ts->lates, ts->late);
    tr_map_fini(&ts->by_number);
    tr_map_fini(&ts->by_name);
    tr_map_fini(&ts->by_handle);
    tr_meters_fini(&ts->meters);
    *ts = (struct tr_topics){0};
}

/* A ready job is in two heaps, so it has two places. */
static size_t place_off(unsigned heap)
{
    return offsetof(struct tr_job, places) + (heap == TR_ORDER_ID ? sizeof(uint32_t) : 0);
}

static uint64_t name_hash(const char *name, size_t len)
{
    return (uint64_t)tr_crc(0, name, len) << 32 | tr_crc(tr_crc_seed(len), name, len);
}

uint32_t tr_topics_free_number(struct tr_topics *ts)
{
    while (ts->next_number == 0 || tr_topics_by_number(ts, ts->next_number) != NULL ||
           tr_map_find(&ts->by_handle, ts->next_number) != NULL) {
        ts->next_number++;
    }
    return ts->next_number;
}

/* Nearly always at the end; a replay may meet numbers out of order. */
static void insert_by_number(struct tr_topics *ts, struct tr_topic *t)
{
    struct tr_list *after = ts->all.prev;

    while (after != &ts->all && TR_CONTAINER_OF(after, struct tr_topic, link)->number > t->number) {
        after = after->prev;
    }
    tr_list_append(after->next, &t->link);
    after = ts->in_order.prev;
    while (after != &ts->in_order &&
           TR_CONTAINER_OF(after, struct tr_topic, by_handle)->handle > t->handle) {
        after = after->prev;
    }
    tr_list_append(after->next, &t->by_handle);
}

int tr_topics_add(struct tr_topics *ts, uint32_t number, const char *name, size_t len,
                  struct tr_topic **out)
{
    struct tr_topic *t;

    TR_CHECK(tr_name_ok(name, len));
    TR_CHECK(number != 0 && tr_topics_by_number(ts, number) == NULL);
    if (tr_map_reserve(&ts->by_number, 1) != TARRY_OK ||
        tr_map_reserve(&ts->by_name, 1) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    t = tr_mem_alloc(ts->mem, sizeof *t);
    if (t == NULL) {
        return TARRY_ENOMEM;
    }
    t->number = number;
    t->handle = number;
    t->name_len = (uint32_t)len;
    t->next_dead_seq = 1;
    t->totals = &ts->totals;
    t->of = ts;
    memcpy(t->name, name, len);
    for (unsigned s = 0; s <= TR_DEAD; s++) {
        tr_list_init(&t->by_state[s]);
    }
    for (unsigned h = 0; h < TR_HEAP_COUNT; h++) {
        tr_heap_init(&t->heaps[h], ts->mem, place_off(h));
    }
    tr_timer_init(&t->pause);
    tr_timer_init(&t->resume);
    tr_timer_init(&t->token);
    tr_timer_init(&t->edge_timer);
    tr_list_init(&t->tags);
    tr_list_init(&t->waiters);
    tr_list_init(&t->dirty);
    tr_list_init(&t->with_ready);
    tr_list_init(&t->in_parked);
    tr_list_init(&t->in_drops);
    tr_list_init(&t->in_kept);
    tr_timer_init(&t->drop_timer);
    tr_list_init(&t->in_crowd);
    tr_list_init(&t->in_need);
    tr_list_init(&t->in_purged);
    tr_meters_join(&ts->meters, &t->metering, name, len);
    insert_by_number(ts, t);
    t->same_hash = tr_map_find(&ts->by_name, name_hash(name, len));
    TR_CHECK(tr_map_put(&ts->by_name, name_hash(name, len), t) == TARRY_OK);
    TR_CHECK(tr_map_put(&ts->by_number, number, t) == TARRY_OK);
    ts->next_number = number >= ts->next_number ? number + 1 : ts->next_number;
    ts->count++;
    *out = t;
    return TARRY_OK;
}

static bool has_hold(const struct tr_topic *t)
{
    uint64_t holds = 0;

    for (unsigned k = 0; k < TR_HOLD_COUNT; k++) {
        holds += t->holds[k];
    }
    return holds != 0;
}

/* By a job, a policy, somebody who uses, watches or waits, or since it was to stay? */
static bool is_used(const struct tr_topic *t)
{
    return t->jobs != 0 || t->policy != NULL || t->holds[TR_HOLD_USE] != 0 ||
           t->holds[TR_HOLD_WATCH] != 0 || t->wanted != 0 || !tr_list_empty(&t->in_kept);
}

bool tr_topic_shown(const struct tr_topic *t)
{
    return is_used(t) || t->pause.armed; /* or nobody could see why it hands out nothing */
}

bool tr_topic_needed(const struct tr_topic *t)
{
    return t->holds[TR_HOLD_KEEP] != 0 || is_used(t);
}

uint64_t tr_topics_shown(const struct tr_topics *ts)
{
    const struct tr_topic *pinned = ts->pinned != 0 ? tr_topics_by_handle(ts, ts->pinned) : NULL;

    return ts->count - ts->purged - (pinned != NULL && !tr_topic_shown(pinned));
}

void tr_topic_let_go(struct tr_topic *t)
{
    t->of->kept_count -= !tr_list_empty(&t->in_kept);
    tr_list_remove(&t->in_kept);
}

void tr_topic_keep(struct tr_topic *t)
{
    tr_topic_let_go(t);
    tr_list_append(&t->of->kept, &t->in_kept);
    t->of->kept_count++;
}

struct tr_topic *tr_topics_longest_kept(const struct tr_topics *ts)
{
    return tr_list_empty(&ts->kept) ? NULL
                                    : TR_CONTAINER_OF(ts->kept.next, struct tr_topic, in_kept);
}

static bool is_listed(const struct tr_topic *t)
{
    return !t->purged && (t->jobs != 0 || has_hold(t));
}

void tr_topic_note_listed(struct tr_topic *t)
{
    bool listed = is_listed(t);

    t->of->listed += (uint64_t)listed - t->listed;
    t->listed = listed;
}

/* It is not found by its name any more. */
static void lose_name(struct tr_topics *ts, struct tr_topic *t)
{
    uint64_t hash = name_hash(t->name, t->name_len);
    struct tr_topic *first = tr_map_find(&ts->by_name, hash);

    if (first == t) {
        if (t->same_hash != NULL) {
            TR_CHECK(tr_map_put(&ts->by_name, hash, t->same_hash) == TARRY_OK); /* replaces */
        } else {
            TR_CHECK(tr_map_take(&ts->by_name, hash) == t);
        }
    } else {
        while (first->same_hash != t) {
            first = first->same_hash;
        }
        first->same_hash = t->same_hash;
    }
}

void tr_topics_remove(struct tr_topics *ts, struct tr_topic *t)
{
    TR_CHECK(!tr_topic_needed(t));
    TR_CHECK(tr_list_empty(&t->waiters));
    TR_CHECK(!t->pause.armed && !t->resume.armed && !t->edge_timer.armed && !t->token.armed);
    TR_CHECK(!t->drop_timer.armed);
    if (!t->purged) {
        lose_name(ts, t);
        if (t->handle != t->number) {
            TR_CHECK(tr_map_take(&ts->by_handle, t->handle) == t);
        }
    }
    ts->purged -= t->purged;
    TR_CHECK(!t->listed);
    TR_CHECK(tr_map_take(&ts->by_number, t->number) == t);
    tr_list_remove(&t->link);
    tr_list_remove(&t->by_handle);
    tr_list_remove(&t->in_purged);
    tr_list_remove(&t->dirty);
    tr_list_remove(&t->in_drops);
    tr_topic_unpark(t);
    ts->count--;
    topic_free(ts, t);
}

struct tr_topic *tr_topics_find(const struct tr_topics *ts, const char *name, size_t len)
{
    struct tr_topic *t = tr_map_find(&ts->by_name, name_hash(name, len));

    while (t != NULL && (t->name_len != len || memcmp(t->name, name, len) != 0)) {
        t = t->same_hash;
    }
    return t;
}

struct tr_topic *tr_topics_by_number(const struct tr_topics *ts, uint32_t number)
{
    return tr_map_find(&ts->by_number, number);
}

struct tr_topic *tr_topics_by_handle(const struct tr_topics *ts, uint32_t handle)
{
    struct tr_topic *t = tr_map_find(&ts->by_handle, handle);

    t = t != NULL ? t : tr_topics_by_number(ts, handle);
    return t != NULL && t->handle == handle && !t->purged ? t : NULL;
}

/* ---- purge ---- */

static void move_counts(struct tr_totals *from, struct tr_totals *to, const struct tr_topic *t)
{
    for (unsigned s = 0; s <= TR_DEAD; s++) {
        from->count[s] -= t->count[s];
        to->count[s] += t->count[s];
    }
    from->far -= t->far;
    to->far += t->far;
    from->dead_far -= t->dead_far;
    to->dead_far += t->dead_far;
    from->urgent -= t->urgent;
    to->urgent += t->urgent;
}

void tr_topics_purge(struct tr_topics *ts, struct tr_topic *t)
{
    TR_CHECK(!t->purged && !t->resume.armed && !t->edge_timer.armed);
    lose_name(ts, t);
    tr_topic_unpark(t);
    if (t->count[TR_READY] > 0) {
        tr_list_remove(&t->with_ready);
        ts->with_ready_count--;
    }
    tr_list_remove(&t->dirty);
    move_counts(&ts->totals, &ts->gone, t);
    tr_meters_leave(&ts->meters, &t->metering);
    t->totals = &ts->gone;
    t->purged = true;
    ts->purged++;
    tr_topic_note_listed(t);
    tr_list_append(&ts->being_purged, &t->in_purged);
}

int tr_topics_heir(struct tr_topics *ts, struct tr_topic *t, struct tr_topic **heir)
{
    if (tr_map_reserve(&ts->by_handle, 1) != TARRY_OK) {
        return TARRY_ENOMEM;
    }
    return tr_topics_add(ts, tr_topics_free_number(ts), t->name, t->name_len, heir);
}

void tr_topics_inherit(struct tr_topics *ts, struct tr_topic *t, struct tr_topic *heir)
{
    TR_CHECK(t->purged);
    heir->handle = t->handle;
    tr_list_remove(&heir->by_handle);
    tr_list_append(t->by_handle.next, &heir->by_handle); /* behind t */
    TR_CHECK(tr_map_put(&ts->by_handle, heir->handle, heir) ==
             TARRY_OK); /* perhaps in place of t */
    memcpy(heir->holds, t->holds, sizeof heir->holds);
    memset(t->holds, 0, sizeof t->holds);
    heir->next_dead_seq = t->next_dead_seq;
    heir->pushed = t->pushed;
    heir->deleted = t->deleted;
    heir->pauses = t->pauses;
    heir->pause_us = t->pause_us;
    heir->pushes = t->pushes;
    heir->hands = t->hands;
    tr_late_give(&t->late, &heir->late);
    tr_meters_leave(&ts->meters, &heir->metering);
    tr_meters_join(&ts->meters, &heir->metering, heir->name, heir->name_len);
    heir->bucket = t->bucket;
    heir->dropped = t->dropped;
    heir->wanted = t->wanted;
    heir->waiting = t->waiting;
    t->pushed = 0;
    t->deleted = 0;
    t->pauses = 0;
    t->dropped = 0;
    t->wanted = 0;
    t->waiting = 0;
    tr_list_splice(&heir->waiters, &t->waiters);
    if (!tr_list_empty(&t->in_kept)) {
        tr_topic_let_go(t);
        tr_topic_keep(heir);
    }
    tr_topic_note_listed(heir);
}

struct tr_topic *tr_topics_after(const struct tr_topics *ts, uint32_t after)
{
    const struct tr_topic *t = tr_map_find(&ts->by_handle, after);
    const struct tr_list *n;

    t = t != NULL ? t : tr_topics_by_number(ts, after);
    n = t != NULL && t->handle == after ? &t->by_handle : &ts->in_order;
    for (n = n->next; n != &ts->in_order; n = n->next) {
        struct tr_topic *next = TR_CONTAINER_OF(n, struct tr_topic, by_handle);

        if (next->handle > after && !next->purged) {
            return next;
        }
    }
    return NULL;
}

static struct tr_heap_item item_of(struct tr_job *job, unsigned heap)
{
    struct tr_heap_item item = {.third = job->id, .what = job};

    if (heap != TR_HEAP_DELAYED) {
        item.first = job->priority;
    }
    if (heap != TR_ORDER_ID) {
        item.second = job->due_us;
    }
    return item;
}

static enum tr_job_state state_of(unsigned heap)
{
    return heap == TR_HEAP_DELAYED ? TR_DELAYED : TR_READY;
}

/* The job was appended to the list of this heap. */
static void heap_add(struct tr_topic *t, unsigned heap, struct tr_job *job)
{
    if (t->rest[heap] == &t->by_state[state_of(heap)] &&
        tr_heap_push(&t->heaps[heap], item_of(job, heap)) != TARRY_OK) {
        t->rest[heap] = &job->link;
    }
}

/* The job is about to leave the list of this heap. */
static void heap_take(struct tr_topic *t, unsigned heap, struct tr_job *job)
{
    if (t->rest[heap] == NULL) {
        return;
    }
    if (job->places[heap == TR_ORDER_ID] != 0) {
        tr_heap_remove(&t->heaps[heap], job);
    } else if (t->rest[heap] == &job->link) {
        t->rest[heap] = job->link.next;
    }
    if (t->count[state_of(heap)] == 0) {
        tr_heap_fini(&t->heaps[heap]);
        t->rest[heap] = NULL;
    }
}

static bool died_before(const struct tr_list *link, const struct tr_job *job)
{
    return TR_CONTAINER_OF(link, struct tr_job, link)->dead_seq < job->dead_seq;
}

/* Dead jobs stand by dead_seq. A newly dead one has the largest, those that come back into memory
 * are among the first: the walk goes from both ends and is short. */
static void enter_dead(struct tr_topic *t, struct tr_job *job)
{
    struct tr_list *head = &t->by_state[TR_DEAD];
    struct tr_list *last = head->prev;
    struct tr_list *first = head->next;

    while (last != head && !died_before(last, job) && died_before(first, job)) {
        last = last->prev;
        first = first->next;
    }
    tr_list_append(last == head || died_before(last, job) ? last->next : first, &job->link);
}

/* The topic has its first ready job, or has lost its last one. */
static void note_ready(struct tr_topic *t)
{
    struct tr_topics *ts = t->of;

    if (t->purged) {
        return;
    }
    if (t->count[TR_READY] > 0) {
        tr_list_append(&ts->with_ready, &t->with_ready);
        ts->with_ready_count++;
    } else {
        tr_list_remove(&t->with_ready);
        ts->with_ready_count--;
    }
}

/* ---- far ones ---- */

void tr_topic_note_far(struct tr_topic *t, uint64_t due_us)
{
    if (!t->far_known && t->far_pass != t->of->far_pass) {
        t->far_gone = false;
        t->far_all = false;
        t->far_first_us = TR_WHEEL_NEVER;
    }
    t->far_pass = t->of->far_pass;
    t->far_first_us = due_us < t->far_first_us ? due_us : t->far_first_us;
}

void tr_topic_add_far(struct tr_topic *t, uint64_t due_us)
{
    if (t->far == 1) { /* it is the only one */
        t->far_known = true;
        t->far_gone = false;
        t->far_first_us = TR_WHEEL_NEVER;
    }
    tr_topic_note_far(t, due_us);
}

void tr_topic_lose_far(struct tr_topic *t, uint64_t due_us)
{
    if (due_us <= t->far_first_us && !TR_MUTANT(NEXT_DUE_STAYS)) {
        t->far_known = false;
        t->far_gone = true;
    }
}

struct tr_meter *tr_topic_seek_meter(struct tr_topic *t)
{
    if (t->purged) {
        return &t->of->meters.other;
    }
    return tr_meters_seek(&t->of->meters, &t->metering, t->name, t->name_len);
}

uint64_t tr_topic_oldest(const struct tr_topic *t)
{
    const struct tr_list *ready = &t->by_state[TR_READY];
    const struct tr_job *first = TR_CONTAINER_OF(ready->next, const struct tr_job, link);
    const struct tr_job *last = TR_CONTAINER_OF(ready->prev, const struct tr_job, link);

    if (tr_list_empty(ready)) {
        return 0;
    }
    /* One that was edited is the last, though it may be ready for longest. */
    return first->ready_us < last->ready_us ? first->ready_us : last->ready_us;
}

/* ---- quotas ---- */

uint64_t tr_topic_near(const struct tr_topic *t)
{
    return t->count[TR_DELAYED] + t->count[TR_READY];
}

static uint64_t loan_of(const struct tr_topic *t)
{
    uint64_t near = tr_topic_near(t);
    uint64_t free = t->of->near_min;

    return near > free ? near - free : 0;
}

uint64_t tr_topic_quota(const struct tr_topic *t)
{
    const struct tr_topics *ts = t->of;
    uint64_t others = ts->loans - loan_of(t);

    return ts->near_min + (ts->near_max > others ? (ts->near_max - others) / 2 : 0);
}

bool tr_topic_full(const struct tr_topic *t, uint32_t priority)
{
    uint64_t quota = tr_topic_quota(t);

    return tr_topic_near(t) >= quota - (priority < TR_URGENT ? 0 : quota / 8);
}

void tr_topic_park(struct tr_topic *t)
{
    t->parked = true;
    t->overdue = 0;
    t->slots_due = 0;
    t->slots = 0;
    tr_list_append(&t->of->parked, &t->in_parked);
    t->of->parked_count++;
}

void tr_topic_unpark(struct tr_topic *t)
{
    struct tr_topics *ts = t->of;

    if (!t->parked) {
        return;
    }
    if (ts->counting == &t->in_parked) {
        ts->counting = t->in_parked.next;
    }
    ts->parked_count--;
    ts->overdue -= t->overdue;
    t->overdue = 0;
    t->parked = false;
    t->crowded = false;
    t->stayed = false;
    t->leaving = NULL;
    tr_list_remove(&t->in_parked);
    tr_list_remove(&t->in_crowd);
    tr_list_remove(&t->in_need);
}

void tr_topic_note_need(struct tr_topic *t)
{
    if (t->parked && tr_list_empty(&t->in_need) &&
        (tr_topic_near(t) <= tr_topic_quota(t) / 2 ||
         (t->count[TR_READY] == 0 && !t->edge_timer.armed))) {
        tr_list_append(&t->of->hungry, &t->in_need);
    }
}

/* One more is delayed or ready (a loan of `was` before it), or one less. */
static void note_near(struct tr_topic *t, uint64_t was)
{
    t->of->loans += loan_of(t) - was;
}

/* ---- states ---- */

void tr_topic_enter(struct tr_topic *t, struct tr_job *job, enum tr_job_state state)
{
    uint64_t loan = loan_of(t);

    TR_CHECK(job->state == 0);
    TR_CHECK(job->topic == t);
    job->state = (uint8_t)state;
    job->stamp++;
    t->count[state]++;
    t->totals->count[state]++;
    note_near(t, loan);
    switch (state) {
    case TR_DELAYED:
        tr_list_append(&t->by_state[state], &job->link);
        heap_add(t, TR_HEAP_DELAYED, job);
        break;
    case TR_READY:
        t->urgent += job->priority < TR_URGENT;
        t->totals->urgent += job->priority < TR_URGENT;
        if (t->count[TR_READY] == 1) {
            note_ready(t);
        }
        tr_list_append(&t->by_state[state], &job->link);
        heap_add(t, TR_ORDER_DUE, job);
        heap_add(t, TR_ORDER_ID, job);
        tr_tags_enter(t, job);
        break;
    case TR_RESERVED:
        break;
    case TR_DEAD:
        enter_dead(t, job);
        break;
    }
}

void tr_topic_leave(struct tr_topic *t, struct tr_job *job)
{
    enum tr_job_state state = (enum tr_job_state)job->state;
    uint64_t loan = loan_of(t);

    if (state == 0) {
        return;
    }
    if (t->leaving == &job->link) {
        t->leaving = job->link.next;
    }
    t->count[state]--;
    t->totals->count[state]--;
    note_near(t, loan);
    tr_topic_note_need(t);
    if (state == TR_READY) {
        t->urgent -= job->priority < TR_URGENT;
        t->totals->urgent -= job->priority < TR_URGENT;
        if (t->count[TR_READY] == 0) {
            note_ready(t);
        }
    }
    for (unsigned h = 0; h < TR_HEAP_COUNT; h++) {
        if (state_of(h) == state) {
            heap_take(t, h, job);
        }
    }
    if (state == TR_READY) {
        tr_tags_leave(t, job);
        if (t->count[TR_READY] == 0) {
            tr_tags_drop(t);
        }
    }
    if (t->walk == &job->link) {
        t->walk = job->link.next;
    }
    tr_list_remove(&job->link);
    job->state = 0;
    job->stamp++;
}

void tr_topic_hold(struct tr_topic *t, enum tr_hold kind)
{
    t->holds[kind]++;
    t->totals->holds[kind]++;
    t->of->pinned = kind == TR_HOLD_KEEP ? t->handle : t->of->pinned;
    tr_topic_note_listed(t);
}

void tr_topic_unhold(struct tr_topic *t, enum tr_hold kind)
{
    TR_CHECK(t->holds[kind] > 0);
    t->holds[kind]--;
    t->totals->holds[kind]--;
    tr_topic_note_listed(t);
}

/* Puts the rest of the list into the heap. */
static int heap_fill(struct tr_topic *t, unsigned heap, unsigned *work)
{
    struct tr_list *head = &t->by_state[state_of(heap)];

    if (t->rest[heap] == NULL) {
        t->rest[heap] = head->next;
    }
    while (t->rest[heap] != head) {
        struct tr_job *job = TR_CONTAINER_OF(t->rest[heap], struct tr_job, link);

        if (*work == 0) {
            return TARRY_EFULL;
        }
        if (tr_heap_push(&t->heaps[heap], item_of(job, heap)) != TARRY_OK) {
            return TARRY_ENOMEM;
        }
        t->rest[heap] = job->link.next;
        --*work;
    }
    return TARRY_OK;
}

int tr_topic_first(struct tr_topic *t, unsigned heap, unsigned *work, struct tr_job **job)
{
    int err;

    *job = NULL;
    if (t->count[state_of(heap)] == 0) {
        return TARRY_OK;
    }
    err = heap_fill(t, heap, work);
    if (err == TARRY_OK) {
        const struct tr_heap_item *top = tr_heap_top(&t->heaps[heap]);

        TR_CHECK(top != NULL);
        *job = top->what;
    }
    return err;
}

struct tr_job *tr_topic_first_dead(const struct tr_topic *t)
{
    const struct tr_list *head = &t->by_state[TR_DEAD];

    return head->next == head ? NULL : TR_CONTAINER_OF(head->next, struct tr_job, link);
}

/* A heap in use and the rest of the list are the whole list. */
static bool heap_ok(const struct tr_topic *t, unsigned heap)
{
    const struct tr_list *head = &t->by_state[state_of(heap)];
    uint64_t count = t->heaps[heap].count;

    if (t->rest[heap] == NULL) {
        return count == 0;
    }
    for (const struct tr_list *n = t->rest[heap]; n != head; n = n->next) {
        count++;
    }
    return count == t->count[state_of(heap)] && tr_heap_ok(&t->heaps[heap]);
}

/* Nothing that happened is forgotten by the meters, whoever has one. */
static bool meters_ok(const struct tr_topics *ts)
{
    const struct tr_totals *all = &ts->totals;
    const struct tr_meters *ms = &ts->meters;
    uint64_t ended = tr_meters_sum(ms, TR_METERED_ACKED) + tr_meters_sum(ms, TR_METERED_CANCELLED);

    return tr_meters_ok(ms) && tr_meters_sum(ms, TR_METERED_PUSHED) == all->pushed &&
           tr_meters_sum(ms, TR_METERED_DROPPED) == all->dropped &&
           ended == all->deleted + all->purged;
}

bool tr_topics_ok(const struct tr_topics *ts)
{
    const struct tr_totals *all = &ts->totals;
    struct tr_totals sum = {0};
    uint64_t with_ready = 0;
    uint64_t kept = 0;
    uint64_t loans = 0;
    uint64_t listed = 0;
    uint64_t policy_bytes = 0;
    bool ok = true;

    for (const struct tr_list *n = ts->all.next; n != &ts->all; n = n->next) {
        const struct tr_topic *t = TR_CONTAINER_OF(n, struct tr_topic, link);

        for (unsigned h = 0; h < TR_HEAP_COUNT; h++) {
            ok = ok && heap_ok(t, h);
        }
        ok = ok && tr_tags_ok(t);
        kept += !tr_list_empty(&t->in_kept);
        loans += loan_of(t);
        policy_bytes += t->policy_row;
        ok = ok && t->listed == is_listed(t) && !(t->purged && t->policy != NULL);
        if (t->purged) {
            continue;
        }
        listed += t->listed;
        for (unsigned s = 0; s <= TR_DEAD; s++) {
            sum.count[s] += t->count[s];
        }
        for (unsigned k = 0; k < TR_HOLD_COUNT; k++) {
            sum.holds[k] += t->holds[k];
        }
        with_ready += t->count[TR_READY] > 0;
        ok = ok && (t->count[TR_READY] > 0) != tr_list_empty(&t->with_ready);
        sum.far += t->far;
        sum.dead_far += t->dead_far;
        sum.urgent += t->urgent;
        sum.pushed += t->pushed;
        sum.deleted += t->deleted;
        sum.pauses += t->pauses;
    }
    for (unsigned s = 0; s <= TR_DEAD; s++) {
        ok = ok && sum.count[s] == all->count[s];
    }
    for (unsigned k = 0; k < TR_HOLD_COUNT; k++) {
        ok = ok && sum.holds[k] == all->holds[k];
    }
    return ok && listed == ts->listed && kept == ts->kept_count &&
           policy_bytes == ts->policy_bytes && meters_ok(ts) &&
           with_ready == ts->with_ready_count && loans == ts->loans && sum.far == all->far &&
           sum.dead_far == all->dead_far && sum.urgent == all->urgent &&
           sum.pushed <= all->pushed && sum.deleted <= all->deleted && sum.pauses <= all->pauses;
}
