/*
 * What a promotion takes: the oldest sealed slots, and in slices all of their live jobs whose rids
 * are behind those of all groups.
 *
 * Jobs in memory come first, then the far ones. One that is sent away in between is met twice,
 * which does no harm; one that comes back is added when it does (tr_promote_met).
 */

#include "base/err.h"
#include "engine/inner.h"

#include <string.h>

enum {
    RETRY_US = 1000000,
    CHOOSE_UNITS = 2,
    EXTRA = 4096,
    SINGLES_BYTES = 8 << 20,
    GROUPS_SPARE = 16 /* for merges */
};

static bool is_victim(const struct tr_promote *p, const struct tr_slot *slot)
{
    for (unsigned i = 0; i < p->slot_count; i++) {
        if (p->slots[i] == slot) {
            return true;
        }
    }
    return false;
}

static bool can_be_taken(const struct tr_engine *e, const struct tr_slot *slot)
{
    return slot->state == TR_SLOT_SEALED && slot->live != 0 && !slot->stuck &&
           slot->last_rid > e->groups.covered && slot->last_batch <= e->log.synced &&
           !is_victim(&e->promote, slot);
}

/* The oldest slot that could be taken next, or NULL. */
static struct tr_slot *next_victim(const struct tr_engine *e)
{
    struct tr_slot *best = NULL;

    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        struct tr_slot *slot = &e->log.slots[i];

        if (can_be_taken(e, slot) && (best == NULL || slot->seg_no < best->seg_no)) {
            best = slot;
        }
    }
    return best;
}

/* How many there are, and how many dead jobs, which would leave memory, are in them. */
static uint32_t victims(const struct tr_engine *e, uint64_t *dead)
{
    uint32_t n = 0;

    *dead = 0;
    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        if (can_be_taken(e, &e->log.slots[i])) {
            *dead += e->log.slots[i].dead;
            n++;
        }
    }
    return n;
}

static uint32_t slots_in_use(const struct tr_engine *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < e->log.slots_max; i++) {
        n += e->log.slots[i].state == TR_SLOT_SEALED && e->log.slots[i].live != 0;
    }
    return n;
}

bool tr_promote_pressed(const struct tr_engine *e)
{
    return slots_in_use(e) > e->log.slots_max / 2;
}

bool tr_promote_wanted(const struct tr_engine *e)
{
    uint64_t far = e->state.jobs.far.count - e->state.jobs.far.located;
    uint32_t used = slots_in_use(e);
    uint64_t dead;

    if (e->config.promote_slots == 0 || used == 0 ||
        e->groups.count + GROUPS_SPARE >= TR_GROUPS_MAX || e->space.victim != NULL ||
        e->space.reads != 0 || e->promote.retry_at > e->now.boot_us ||
        (e->no_counts && e->meta.made < 2)) { /* a start would not know whose they are */
        return false;
    }
    return used > e->log.slots_max / 4 * 3 || (e->space.idle && used >= 2) ||
           (victims(e, &dead) >= e->config.promote_slots &&
            far + dead > e->config.far_max + e->promote.strays);
}

/* The more groups there are, the larger the next one: or they would have to be joined soon, and
 * each job be written once more. */
static uint32_t slots_at_a_time(const struct tr_engine *e)
{
    bool many = e->groups.count > e->config.merge_groups / 2;
    uint32_t n = many ? 2 * e->config.promote_slots : e->config.promote_slots;

    return n < TR_PROMOTE_SLOTS ? n : TR_PROMOTE_SLOTS;
}

void tr_promote_begin(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    struct tr_slot *slot;
    uint64_t live = 0;

    tr_mem_init(&p->mem, 0);
    p->slot_bytes = e->log.slot_bytes;
    p->keyer = e->state.keys.keyer;
    while (p->slot_count < slots_at_a_time(e) && (slot = next_victim(e)) != NULL) {
        p->segments[p->slot_count] = slot->seg_no;
        p->slots[p->slot_count++] = slot;
        p->rid_last = slot->last_rid > p->rid_last ? slot->last_rid : p->rid_last;
        live += slot->live;
    }
    if (p->slot_count == 0) {
        return;
    }
    p->number++;
    p->room = (size_t)live + EXTRA;
    p->change_room = 64;
    p->chosen = tr_promote_memory(e, p->room * sizeof *p->chosen);
    p->order = tr_promote_memory(e, p->room * sizeof *p->order);
    p->side_jobs = tr_promote_memory(e, p->room * sizeof *p->side_jobs);
    p->changes = tr_promote_memory(e, p->change_room * sizeof *p->changes);
    if (p->chosen == NULL || p->order == NULL || p->side_jobs == NULL || p->changes == NULL) {
        p->retry_at = e->now.boot_us + RETRY_US;
        tr_promote_clear(e);
        return;
    }
    p->step = TR_PROMOTE_JOBS;
}

/* ---- choosing ---- */

static bool add_change(struct tr_engine *e, const struct tr_job *job)
{
    struct tr_promote *p = &e->promote;

    if (p->change_count == p->change_room) {
        struct tr_change_of *more = tr_mem_stretch(
            e->mem, p->changes, p->change_room * sizeof *more, 2 * p->change_room * sizeof *more);

        if (more == NULL) {
            return false;
        }
        p->changes = more;
        p->change_room *= 2;
    }

    struct tr_change_of *change = &p->changes[p->change_count++];

    tr_state_describe(job, TR_REC_RELOG, &change->rec);
    if (change->rec.tag.len != 0) {
        memcpy(change->tag, change->rec.tag.at, change->rec.tag.len);
    }
    return true;
}

static unsigned victim_index(const struct tr_promote *p, uint32_t number)
{
    unsigned i = 0;

    while (i < p->slot_count && p->slots[i]->number != number) {
        i++;
    }
    return i;
}

static void choose_job(struct tr_engine *e, struct tr_job *job)
{
    struct tr_promote *p = &e->promote;
    struct tr_chosen *c = &p->chosen[p->count];
    bool changed = job->altered || job->dead_seq != 0;

    if (p->count == p->room || job->rid <= e->groups.covered || job->rid > p->rid_last ||
        job->relogging || job->lease_end_us != 0 || /* a start looks for leases in slots only */
        (changed && !add_change(e, job))) {
        return;
    }
    *c = (struct tr_chosen){.rid = job->rid,
                            .first = job->dead_seq != 0 ? job->topic->number : job->due_us,
                            .off = (uint32_t)job->record_off,
                            .len = job->record_len,
                            .change = changed ? (uint32_t)p->change_count : 0,
                            .slot = (uint16_t)p->at,
                            .dead = job->dead_seq != 0};
    p->count++;
}

/* Those in memory: each is moved to the end of its slot's list when it has been seen. */
static void choose_jobs(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    while (p->at < p->slot_count) {
        struct tr_list *jobs = &p->slots[p->at]->jobs;
        struct tr_job *job = TR_CONTAINER_OF(jobs->next, struct tr_job, in_slot);

        if (tr_list_empty(jobs) || job->promotion == p->number) {
            p->at++;
            continue;
        }
        if (!tr_engine_charge(e, CHOOSE_UNITS)) {
            return;
        }
        job->promotion = p->number;
        tr_list_remove(&job->in_slot);
        tr_list_append(jobs, &job->in_slot);
        choose_job(e, job);
    }
    p->step = TR_PROMOTE_FAR;
    tr_far_walk_begin(&e->state.jobs.far, &p->walk);
}

/*
 * A far job between those of the victims whose record was written again to another slot: if it
 * stayed behind, no later promotion would take it. Gives the index of that slot, or of none.
 */
static unsigned other_index(struct tr_engine *e, const struct tr_far_entry *entry)
{
    struct tr_promote *p = &e->promote;
    struct tr_slot *slot = &e->log.slots[entry->slot];
    unsigned end = p->slot_count + p->other_count;
    unsigned i = p->slot_count;

    while (i < end && p->slots[i] != slot) {
        i++;
    }
    if (slot->stuck || p->single_bytes + entry->len > SINGLES_BYTES ||
        (i == end && p->other_count == TR_PROMOTE_OTHERS)) {
        return end;
    }
    if (i == end) {
        p->slots[i] = slot;
        p->other_count++;
    }
    return i;
}

static void choose_page(struct tr_engine *e, const struct tr_far_page *page)
{
    struct tr_promote *p = &e->promote;
    uint64_t bits = page->bits;

    for (unsigned i = 0; i < page->count; i++, bits &= bits - 1) {
        const struct tr_far_entry *entry = &page->entries[i];
        unsigned slot = entry->located ? p->slot_count : victim_index(p, entry->slot);
        uint64_t rid = page->first + (uint64_t)__builtin_ctzll(bits);

        if (entry->located || rid > p->rid_last) {
            continue;
        }
        if (slot == p->slot_count && rid > e->groups.covered) {
            slot = other_index(e, entry);
        }
        if (rid <= e->groups.covered || slot == p->slot_count + p->other_count || entry->bad ||
            p->count == p->room) {
            p->left++;
        } else {
            p->single_bytes += slot >= p->slot_count ? entry->len : 0;
            p->chosen[p->count++] = (struct tr_chosen){.rid = rid,
                                                       .first = entry->due_us,
                                                       .off = entry->off,
                                                       .len = entry->len,
                                                       .slot = (uint16_t)slot};
        }
    }
}

/* Far jobs are being chosen: the walk might miss one that comes back. If it does not, it is there
 * twice, which does no harm. */
void tr_promote_met(struct tr_engine *e, struct tr_job *job)
{
    struct tr_promote *p = &e->promote;
    unsigned slot = p->step == TR_PROMOTE_FAR ? victim_index(p, job->slot->number) : p->slot_count;

    if (slot < p->slot_count) {
        p->at = slot;
        choose_job(e, job);
        p->at = p->slot_count;
    }
}

static void choose_far(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    const struct tr_far *far = &e->state.jobs.far;
    const struct tr_far_page *page;

    while ((page = tr_far_walk_page(far, &p->walk)) != NULL) {
        if (!tr_engine_charge(e, 1 + page->count / 8)) {
            return;
        }
        choose_page(e, page);
        tr_far_walk_on(far, &p->walk);
    }
    tr_far_walk_end(&p->walk);
    p->strays = p->left;
    p->batch = e->log.open.no - tr_log_open_empty(&e->log);
    p->at = 0;
    p->group = p->count != 0 ? tr_group_new(&e->groups) : NULL;
    if (p->group == NULL) {
        tr_promote_give_up(e, p->count != 0 ? TARRY_ENOMEM : TARRY_OK);
        return;
    }
    p->group->is.rid_first = e->groups.covered + 1;
    p->group->is.rid_last = p->rid_last;
    tr_promote_read(e);
}

void tr_promote_choose(struct tr_engine *e)
{
    if (e->promote.step == TR_PROMOTE_JOBS) {
        choose_jobs(e);
    }
    if (e->promote.step == TR_PROMOTE_FAR) {
        choose_far(e);
    }
}
