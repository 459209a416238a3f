/*
 * Merging: neighbouring groups become one, without what has died.
 *
 *     look      at how much of a group is alive, one group a turn (retire.c)
 *     choose    a group of whose bytes less than half is alive, with neighbours like it; or, when
 *               there are too many groups, the neighbours that are joined most cheaply;
 *               or one whose sidecar has a page that cannot be read, alone
 *     rids      in slices: who of their range is alive and has its record in them
 *     copy      the runs side by side in their order, some blocks at a time (merge_make.c)
 *     write     sidecar, syncs, DIRSYNC, manifest, all like a promotion (promote.c)
 *     switch    the new group stands in the order in place of the old ones; jobs in memory get
 *               their new places; entries of the table that name an old run are forgotten
 *
 * One merge or promotion is under way at a time. Counters say when to merge (group.h); who is alive
 * is asked of L, so that nothing can be lost by a wrong count. That the dead are dead is durable
 * before the manifest is written (R24). What is copied is the record as it is: a job that was
 * altered stays altered. Who dies, changes, comes or goes while the merge is under way does so as
 * ever: the old files are there until the new manifest is durable, nobody has a place in them, and
 * nobody reads them (R10; retire.c).
 *
 * It does not go round and round: what is written again is less than what goes, or there are fewer
 * groups after it. When nothing happens, all groups are looked at once more, and after each merge;
 * then it rests. That holds while the counters are right; so a merge that left nearly all of what
 * it was to clear away is seen as the mistake of a counter, and the group that it made is left
 * alone until more has died in it (`vain`).
 *
 * Memory: side_jobs and the sidecar's builder, about 115 bytes a job of the new group; the streams
 * 256 KiB each. Hence JOBS_MAX.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

enum {
    RETRY_US = 1000000,
    FAILURES_MAX = 6,
    JOBS_MAX = 2 << 20,
    BYTES_MAX = 3 << 28, /* 768 MiB: of the inputs, so that the run is not too long */
    STREAM_BYTES = 256 << 10,
    STREAMS_BYTES = 64 << 20,
    JOB_BYTES = 115,
    SHARE = 8, /* of the memory limit, for jobs and for streams each */
    SWITCH_UNITS = 3,
};

/* ---- choosing ---- */

static bool can_be_taken(const struct tr_group *g)
{
    return !g->leaving && !g->hollow && !g->stuck;
}

/* It was written again, and hardly became smaller; has so much died since that it might now? */
static bool rests(const struct tr_group *g)
{
    return g->vain && 4 * tr_group_live(g) >= 3 * g->vain_live;
}

/* Less than half of its bytes is of use. */
static bool is_low(const struct tr_engine *e, const struct tr_group *g)
{
    uint64_t bytes = tr_group_bytes(g);
    uint64_t live = tr_group_live_bytes(g);

    return can_be_taken(g) && !rests(g) && 2 * live < bytes &&
           tr_group_live(g) < tr_group_jobs(g) &&
           (e->space.idle || bytes - live >= e->config.merge_waste);
}

void tr_merge_look(struct tr_engine *e, struct tr_group *g)
{
    g->alive = tr_bitmap_count(&e->state.jobs.alive, g->is.rid_first, g->is.rid_last);
    e->merge.looked++;
    if (is_low(e, g)) {
        e->merge.low = g->is.rid_first;
    }
}

/* What a merge of these takes. */
struct size {
    uint64_t jobs;
    uint64_t bytes;
    uint64_t longest;
};

static void add(struct size *s, const struct tr_group *g)
{
    s->jobs += tr_group_live(g);
    s->bytes += tr_group_bytes(g);
    s->longest += g->longest > STREAM_BYTES ? g->longest : STREAM_BYTES;
}

/* What it takes for each job of the new group is to be a small part of all memory. */
static bool fits(const struct tr_engine *e, const struct size *s)
{
    uint64_t limit = e->mem->limit_bytes;
    uint64_t jobs = limit == 0 ? JOBS_MAX : limit / SHARE / JOB_BYTES;
    uint64_t streams = limit == 0 ? STREAMS_BYTES : limit / SHARE;

    return s->jobs <= (jobs < JOBS_MAX ? jobs : JOBS_MAX) && s->bytes <= BYTES_MAX &&
           s->longest <= (streams < STREAMS_BYTES ? streams : STREAMS_BYTES);
}

/* The group in which most has died, and its neighbours that are like it. */
static bool choose_low(struct tr_engine *e)
{
    const struct tr_groups *gs = &e->groups;
    struct tr_promote *p = &e->promote;
    struct size size = {0};
    uint32_t from = 0;
    uint32_t to;

    while (from < gs->count && gs->order[from]->is.rid_last < e->merge.low) {
        from++;
    }
    e->merge.low = 0;
    if (from == gs->count || !is_low(e, gs->order[from])) {
        return false;
    }
    add(&size, gs->order[from]);
    for (to = from + 1; to < gs->count && to - from < TR_MERGE_INPUTS; to++) {
        add(&size, gs->order[to]);
        if (!is_low(e, gs->order[to]) || !fits(e, &size)) {
            break;
        }
    }
    for (uint32_t i = from; i < to; i++) {
        p->inputs[p->input_count++] = gs->order[i];
    }
    p->low = true;
    return true;
}

/* There are too many: the neighbours of which the fewest bytes are copied for each group less. */
static bool choose_cheapest(struct tr_engine *e)
{
    const struct tr_groups *gs = &e->groups;
    struct tr_promote *p = &e->promote;
    uint64_t best_cost = UINT64_MAX;
    uint32_t best = 0;
    unsigned best_count = 0;

    for (uint32_t i = 0; i < gs->count; i++) {
        struct size size = {0};

        for (uint32_t k = i; k < gs->count && k - i < TR_MERGE_INPUTS; k++) {
            add(&size, gs->order[k]);
            if (!can_be_taken(gs->order[k]) || !fits(e, &size)) {
                break;
            }
            if (k > i && size.bytes / (k - i) < best_cost) {
                best_cost = size.bytes / (k - i);
                best = i;
                best_count = k - i + 1;
            }
        }
    }
    for (unsigned i = 0; i < best_count; i++) {
        p->inputs[p->input_count++] = gs->order[best + i];
    }
    return best_count != 0;
}

/* One whose sidecar cannot be read: it is written anew, alone. */
static bool choose_spoiled(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    for (uint32_t i = 0; i < e->groups.count; i++) {
        struct tr_group *g = e->groups.order[i];

        if (g->spoiled && can_be_taken(g) && !TR_MUTANT(SPOILED_STAYS)) {
            p->inputs[p->input_count++] = g;
            return true;
        }
    }
    e->merge.spoiled = false;
    return false;
}

static bool may_begin(const struct tr_engine *e)
{
    return e->promote.step == TR_PROMOTE_IDLE && e->merge.retry_at <= e->now.boot_us &&
           !e->draining;
}

static bool too_many(const struct tr_engine *e)
{
    return e->groups.count > e->config.merge_groups && e->groups.count != e->merge.in_vain;
}

bool tr_merge_urgent(const struct tr_engine *e)
{
    return e->merge.spoiled ||
           (too_many(e) && e->groups.count > e->config.merge_groups + e->config.merge_groups / 4);
}

/* Wants another turn, though nothing happens. */
bool tr_merge_goes_on(const struct tr_engine *e)
{
    if (e->merge.spoiled && may_begin(e)) {
        return true;
    }
    return e->space.idle && e->groups.count != 0 && may_begin(e) && e->retire.group == NULL &&
           (e->merge.looked < e->groups.count || e->merge.low != 0 || too_many(e));
}

bool tr_merge_begin(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    bool found = false;

    if (!may_begin(e)) {
        return false;
    }
    if (e->merge.spoiled) {
        found = choose_spoiled(e);
    }
    if (!found && e->merge.low != 0) {
        found = choose_low(e);
    }
    if (!found && too_many(e)) {
        found = choose_cheapest(e);
        e->merge.in_vain = found ? 0 : e->groups.count;
    }
    if (!found) {
        return false;
    }
    tr_mem_init(&p->mem, 0);
    tr_bitmap_init(&p->taken, &p->mem);
    p->merge = true;
    p->keyer = e->state.keys.keyer;
    p->at_rid = p->inputs[0]->is.rid_first;
    p->rid_last = p->inputs[p->input_count - 1]->is.rid_last;
    for (unsigned i = 0; i < p->input_count; i++) {
        p->inputs[i]->merging = true;
    }
    p->step = TR_PROMOTE_RIDS;
    return true;
}

/* ---- who is in it ---- */

bool tr_merge_in_run(const struct tr_engine *e, uint64_t rid)
{
    const struct tr_job *job = tr_jobs_by_rid(&e->state.jobs, rid);
    const struct tr_far_entry *entry;

    if (job != NULL) {
        return job->slot != NULL && job->slot->number >= TR_MANIFEST_SLOTS_MAX;
    }
    entry = tr_far_find(&e->state.jobs.far, rid);
    return entry == NULL || (entry->located && !TR_MUTANT(MERGE_DROPS_LOCATED));
}

/* Of its inputs; only what it changes by means something. */
static uint64_t live_bytes(const struct tr_promote *p)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < p->input_count; i++) {
        for (unsigned k = 0; k < TR_GROUP_RUNS; k++) {
            bytes += p->inputs[i]->runs[k].live_bytes;
        }
    }
    return bytes;
}

static bool make_streams(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    p->buf_room = TR_PROMOTE_BUFFER;
    for (unsigned i = 0; i < p->input_count; i++) {
        struct tr_stream *s = &p->streams[i];

        s->room = p->inputs[i]->longest > STREAM_BYTES ? p->inputs[i]->longest : STREAM_BYTES;
        s->buf = tr_promote_memory(e, s->room);
        if (s->buf == NULL) {
            return false;
        }
        p->buf_room =
            s->room + TR_PROMOTE_BUFFER > p->buf_room ? s->room + TR_PROMOTE_BUFFER : p->buf_room;
    }
    p->buf_room = (p->buf_room + 3 * (size_t)TR_RUN_BLOCK) / TR_SIDE_PAGE * TR_SIDE_PAGE;
    p->buf = tr_promote_memory(e, p->buf_room);
    p->room = (size_t)p->taken.members;
    p->side_jobs = tr_promote_memory(e, p->room * sizeof *p->side_jobs);
    p->group = p->buf != NULL && p->side_jobs != NULL ? tr_group_new(&e->groups) : NULL;
    if (p->group != NULL) {
        p->group->is.rid_first = p->inputs[0]->is.rid_first;
        p->group->is.rid_last = p->rid_last;
    }
    return p->group != NULL;
}

void tr_merge_rids(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    uint64_t rid;

    while ((rid = tr_bitmap_next(&e->state.jobs.alive, p->at_rid)) <= p->rid_last) {
        if (!tr_engine_spend(e)) {
            return;
        }
        if (tr_merge_in_run(e, rid) && tr_bitmap_set(&p->taken, rid) != TARRY_OK) {
            tr_promote_give_up(e, TARRY_ENOMEM);
            return;
        }
        p->at_rid = rid + 1;
    }
    p->batch = e->log.open.no - tr_log_open_empty(&e->log); /* those that died did so up to here */
    p->batch = TR_MUTANT(MERGE_UNSYNCED) ? 0 : p->batch;
    p->bytes_then = live_bytes(p);
    if (p->taken.members == 0) {
        for (unsigned i = 0; i < p->input_count; i++) {
            p->inputs[i]->hollow = true; /* retire.c */
        }
        tr_promote_give_up(e, TARRY_OK);
    } else if (make_streams(e)) {
        tr_promote_next_run(e);
    } else {
        tr_promote_give_up(e, TARRY_ENOMEM);
    }
}

/* ---- copying ---- */

/* False: none of them has such a run. */
bool tr_merge_start_run(struct tr_promote *p)
{
    bool any = false;

    for (unsigned i = 0; i < p->input_count; i++) {
        struct tr_stream *s = &p->streams[i];

        *s = (struct tr_stream){.footer = &p->inputs[i]->footers[p->run],
                                .file = p->inputs[i]->runs[p->run].file,
                                .buf = s->buf,
                                .room = s->room};
        any = any || s->footer->block_count != 0;
    }
    return any;
}

/* The next blocks of the stream, as many as there is room for. */
struct tr_io tr_merge_read(struct tr_promote *p)
{
    struct tr_stream *s = p->hungry;
    size_t len = 0;

    s->block_end = s->block;
    s->off = tr_run_footer_block(s->footer, s->block).off;
    while (s->block_end < s->footer->block_count) {
        struct tr_run_block_stat stat = tr_run_footer_block(s->footer, s->block_end);

        if (len + stat.len > s->room || (s->direct && len != 0)) {
            break;
        }
        len += stat.len;
        s->block_end++;
    }
    return (struct tr_io){.op = s->direct ? TR_IO_READ_DIRECT : TR_IO_READ,
                          .file = s->file,
                          .off = s->off,
                          .len = len,
                          .buf = s->buf};
}

/* Everything that was alive is in the new group; else something could not be read. */
bool tr_merge_complete(const struct tr_promote *p)
{
    return p->taken.members == 0;
}

/* ---- the switch ---- */

void tr_merge_adopted(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;

    tr_groups_replace(&e->groups, p->inputs, p->input_count, p->group);
    for (unsigned i = 0; i < p->input_count; i++) {
        p->inputs[i]->leaving = true;
        p->inputs[i]->replaced = true;
        e->damage.mended += p->inputs[i]->spoiled;
    }
    e->groups.replaced += p->input_count;
    tr_fetch_replaced(e);
    e->merge.made++;
    e->merge.failures = 0;
}

/* What the new group knows of this rid. */
static const struct tr_side_job *find(const struct tr_promote *p, uint64_t rid)
{
    const uint32_t *order = p->build.order[TR_SIDE_R];
    size_t from = 0;
    size_t to = p->side_count;

    while (from < to) {
        size_t mid = from + (to - from) / 2;

        if (p->side_jobs[order[mid]].rid < rid) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    TR_CHECK(from < p->side_count && p->side_jobs[order[from]].rid == rid);
    return &p->side_jobs[order[from]];
}

/* Jobs in memory. False: the slice is over. */
static bool switch_jobs(struct tr_engine *e, struct tr_slot *old)
{
    const struct tr_promote *p = &e->promote;

    while (!tr_list_empty(&old->jobs)) {
        struct tr_job *job = TR_CONTAINER_OF(old->jobs.next, struct tr_job, in_slot);
        const struct tr_side_job *now;

        if (!tr_engine_charge(e, SWITCH_UNITS)) {
            return false;
        }
        now = find(p, job->rid);
        tr_job_unplace(job, 0);
        tr_job_place(job, &p->group->runs[tr_place_piece(now->place)], tr_place_off(now->place),
                     tr_place_len(now->place));
    }
    return true;
}

static bool is_input(const struct tr_promote *p, uint32_t number)
{
    for (unsigned i = 0; i < p->input_count; i++) {
        if (number - p->inputs[i]->runs[0].number < TR_GROUP_RUNS) {
            return true;
        }
    }
    return false;
}

/* Entries of the table, but those that are being loaded. False: the slice is over. */
static bool switch_entries(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    const struct tr_far *far = &e->state.jobs.far;
    struct tr_far_page *page;

    if (!tr_far_walking(&p->walk)) {
        tr_far_walk_begin(&e->state.jobs.far, &p->walk);
    }
    while ((page = tr_far_walk_page(far, &p->walk)) != NULL) {
        uint64_t rids[TR_FAR_PAGE];
        unsigned count = 0;

        if (!tr_engine_charge(e, 1 + page->count / 8)) {
            return false;
        }
        for (unsigned i = 0; i < page->count; i++) {
            if (page->entries[i].located && is_input(p, page->entries[i].slot)) {
                rids[count++] = tr_far_page_rid(page, i);
            }
        }
        tr_far_walk_on(far, &p->walk);
        while (count > 0) {
            tr_fetch_unlocate(e, rids[--count]);
        }
    }
    tr_far_walk_end(&p->walk);
    return true;
}

/* Nobody has a place in the old ones: the new one counts all that they did. Those who died since
 * they were chosen are those by whom the old ones have become fewer. */
static void switch_counts(struct tr_promote *p)
{
    struct tr_slot *run = &p->group->runs[TR_GROUP_LIVE];

    run->live_bytes += p->bytes_copied + live_bytes(p) - p->bytes_then;
    for (unsigned i = 0; i < p->input_count; i++) {
        for (unsigned k = 0; k < TR_GROUP_RUNS; k++) {
            run->live += p->inputs[i]->runs[k].live;
            p->inputs[i]->runs[k].live = 0;
        }
    }
}

/* At least half was to go. What is left is reckoned in files, which no counter can get wrong. */
static void judge(struct tr_promote *p)
{
    uint64_t before = 0;

    for (unsigned i = 0; i < p->input_count; i++) {
        before += tr_group_bytes(p->inputs[i]);
    }
    p->group->vain = p->low && 10 * tr_group_bytes(p->group) > 9 * before;
    p->group->vain_live = tr_group_live(p->group);
}

bool tr_merge_switch(struct tr_engine *e)
{
    struct tr_promote *p = &e->promote;
    bool entries = false;

    for (unsigned i = 0; i < p->input_count; i++) {
        for (unsigned k = 0; k < TR_GROUP_RUNS; k++) {
            if (!switch_jobs(e, &p->inputs[i]->runs[k])) {
                return false;
            }
            entries = entries || p->inputs[i]->runs[k].far != 0;
        }
    }
    p->waits = false;
    if (entries) { /* those that are being loaded come into memory first */
        p->waits = switch_entries(e) && e->load.reads != 0;
        return false;
    }
    switch_counts(p);
    judge(p);
    return true;
}

void tr_merge_failed(struct tr_engine *e, int why)
{
    struct tr_merge *m = &e->merge;

    for (unsigned i = 0; i < e->promote.input_count && why == TARRY_EDAMAGED; i++) {
        e->promote.inputs[i]->stuck = true;
    }
    m->looked = 0;
    if (why != TARRY_OK) {
        m->retry_at = e->now.boot_us + ((uint64_t)RETRY_US << m->failures);
        m->failures += m->failures < FAILURES_MAX;
    }
}
