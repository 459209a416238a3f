/*
 * The next jobs of a parked topic come into memory.
 *
 *     table    all far jobs of slots          \  the first `want` by (due, id) are kept, in a heap
 *     runs     T of each group, from the edge /  with the last one on top
 *     sort     by file and offset
 *     load     neighbours are read together, up to 64 KiB at a time; each job that is still alive
 *              and where it was comes in
 *
 * What was left, was sent away meanwhile or cannot be had now makes the topic's new edge; if there
 * is nothing such before the horizon, the topic is not parked any more. So it does not matter what
 * others do while a refill is under way: a job that it misses is behind the edge, and the next
 * refill finds it (R32).
 *
 * One topic at a time, in the order in which they became hungry. Costs: up to nine units for each
 * page of 64 far jobs of slots, a page of an index for some hundred jobs, two units for each job.
 */

#include "base/err.h"
#include "base/mutant.h"
#include "engine/inner.h"

#include <inttypes.h>
#include <stddef.h>

enum {
    VAIN_MAX = 8, /* refills in a row that found everybody gone elsewhere */
    WANT_MAX = 65536,
    WANT_MIN = 16, /* if memory is short */
    SPAN_MAX = 64 << 10,
    GAP_MAX = 4096, /* bytes between two records that are read for nothing */
    BYTES_MAX = 32 << 20,
    TAKE_UNITS = 2,
    PAGE_UNITS = 32,
    RETRY_US = 10000, /* after a failure, then twice as long, and so on: */
    FAILURES_MAX = 12
};

static const struct tr_edge nothing = {TR_NEVER, TR_NEVER};

static struct tr_topic *topic_of(const struct tr_engine *e)
{
    struct tr_topic *t = tr_topics_by_number(&e->state.topics, e->refill.topic);

    return t != NULL && !t->purged ? t : NULL;
}

void tr_refill_note(struct tr_engine *e, struct tr_edge far)
{
    if (tr_edge_before(far, e->refill.first)) {
        e->refill.first = far;
    }
}

/* ---- beginning and end ---- */

static void drop_spans(struct tr_engine *e)
{
    for (unsigned i = 0; i < TR_REFILL_SPANS; i++) {
        struct tr_refill_span *s = &e->refill.spans[i];

        tr_mem_free(e->mem, s->buf, s->len);
        *s = (struct tr_refill_span){0};
    }
}

static void drop_items(struct tr_engine *e)
{
    struct tr_refill *r = &e->refill;

    tr_heap_fini(&r->heap);
    tr_mem_free(e->mem, r->items, r->room * sizeof *r->items);
    tr_mem_free(e->mem, r->order, r->room * sizeof *r->order);
    r->items = NULL;
    r->order = NULL;
    r->room = 0;
}

static bool get_items(struct tr_engine *e, uint64_t want)
{
    struct tr_refill *r = &e->refill;

    for (uint64_t room = want; room >= WANT_MIN || room == want; room /= 2) {
        r->items = tr_mem_stretch(e->mem, NULL, 0, room * sizeof *r->items);
        r->order = tr_mem_stretch(e->mem, NULL, 0, room * sizeof *r->order);
        r->room = (uint32_t)room;
        if (r->items != NULL && r->order != NULL) {
            return true;
        }
        drop_items(e);
    }
    return false;
}

/*
 * Not now. Memory that is given back is noticed at once; that it is to be had without that, seldom:
 * an engine whose memory is full does not wake up to find it full.
 */
static void try_later(struct tr_engine *e)
{
    struct tr_refill *r = &e->refill;

    r->retry_at = e->now.boot_us + ((uint64_t)RETRY_US << r->failures);
    r->failures += r->failures < FAILURES_MAX;
    r->used_then = e->mem->used_bytes;
}

bool tr_refill_may_begin(const struct tr_engine *e)
{
    const struct tr_refill *r = &e->refill;

    return r->retry_at <= e->now.boot_us || e->mem->used_bytes < r->used_then;
}

static void begin(struct tr_engine *e, struct tr_topic *t)
{
    struct tr_refill *r = &e->refill;
    uint64_t quota = tr_topic_quota(t);
    uint64_t want = quota - quota / 8;

    if (tr_topic_near(t) > quota / 2 && t->edge.due_us > e->clock.t_us) {
        tr_list_remove(&t->in_need); /* the clock was set back */
        tr_park_set_edge(e, t, t->edge);
        return;
    }
    want = want > tr_topic_near(t) ? want - tr_topic_near(t) : quota / 8 + 1;
    if (!get_items(e, want < WANT_MAX ? want : WANT_MAX)) {
        try_later(e);
        return;
    }
    tr_list_remove(&t->in_need);
    r->topic = t->number;
    r->step = TR_REFILL_TABLE;
    r->limit_us = e->load.horizon_us;
    r->from = t->edge;
    r->first = nothing;
    r->want = r->room;
    r->count = 0;
    r->bytes = 0;
    r->sorted = 0;
    r->ordered = 0;
    r->loaded = 0;
    r->group_rid = 0;
    r->cut = false;
    r->stale = false;
    tr_heap_init(&r->heap, e->mem, offsetof(struct tr_refill_item, place));
    tr_far_walk_begin(&e->state.jobs.far, &r->walk);
}

static void end(struct tr_engine *e)
{
    struct tr_refill *r = &e->refill;
    struct tr_topic *t = topic_of(e);

    if (r->cut && t != NULL) {
        tr_park_note(e, t, r->from); /* they are all looked for again */
    }
    r->vain = r->stale && r->loaded == 0 ? r->vain + 1 : 0;
    tr_far_walk_end(&r->walk);
    drop_items(e);
    r->failures = r->loaded != 0 || !r->cut ? 0 : r->failures;
    r->used_then = 0;
    if (r->cut || r->vain > VAIN_MAX) {
        try_later(e);
    }
    r->topic = 0;
    r->made++;
    e->moved = true;
    if (t != NULL) {
        tr_list_remove(&t->in_need);
        tr_topic_note_need(t);
    }
}

/* ---- the search ---- */

static struct tr_heap_item last_on_top(struct tr_refill_item *item)
{
    return (struct tr_heap_item){.second = ~item->at.due_us, .third = ~item->at.id, .what = item};
}

/* A far job of the topic. False: it does not come before what has been found. */
static bool offer(struct tr_engine *e, const struct tr_refill_item *found)
{
    struct tr_refill *r = &e->refill;
    struct tr_refill_item *item;

    if (tr_edge_before(found->at, r->from) || found->at.due_us >= r->limit_us) {
        return true;
    }
    if (r->count < r->want) {
        item = &r->items[r->count];
        *item = *found;
        item->place = 0;
        if (tr_heap_push(&r->heap, last_on_top(item)) != TARRY_OK) {
            r->want = r->count; /* no memory for more */
            tr_refill_note(e, found->at);
            r->cut = r->want == 0;
            return r->cut;
        }
        r->count++;
        r->bytes += found->len;
        r->want = r->bytes < BYTES_MAX ? r->want : r->count;
        return true;
    }
    if (r->want == 0) {
        return true;
    }
    item = tr_heap_top(&r->heap)->what;
    if (!tr_edge_before(found->at, item->at)) {
        tr_refill_note(e, found->at);
        return false;
    }
    tr_refill_note(e, item->at);

    uint32_t place = item->place;

    *item = *found;
    item->place = place;
    tr_heap_update(&r->heap, last_on_top(item));
    return true;
}

static void table_page(struct tr_engine *e, const struct tr_far_page *page)
{
    const struct tr_far *far = &e->state.jobs.far;

    for (unsigned i = 0; i < page->count; i++) {
        const struct tr_far_entry *entry = &page->entries[i];
        uint64_t rid;

        if (entry->topic != e->refill.topic || entry->bad || entry->loading || entry->located) {
            continue;
        }
        rid = tr_far_page_rid(page, i);
        (void)offer(e, &(struct tr_refill_item){.at = {entry->due_us, tr_far_id(far, rid)},
                                                .rid = rid,
                                                .off = entry->off,
                                                .len = entry->len,
                                                .head = entry->head,
                                                .number = entry->slot,
                                                .cell = entry->cell});
    }
}

static bool search_table(struct tr_engine *e)
{
    struct tr_refill *r = &e->refill;
    const struct tr_far *far = &e->state.jobs.far;
    const struct tr_far_page *page;

    while ((page = tr_far_walk_page(far, &r->walk)) != NULL) {
        if (!tr_engine_charge(e, 1 + page->count / 8)) {
            return false;
        }
        table_page(e, page);
        tr_far_walk_on(far, &r->walk);
    }
    tr_far_walk_end(&r->walk);
    return true;
}

/* True: nothing in the pages behind this one is wanted. */
static bool runs_page(struct tr_engine *e, const struct tr_side_view *v)
{
    struct tr_refill *r = &e->refill;
    struct tr_group *g = r->page.group;
    struct tr_side_job key = {.topic = r->topic, .due_us = r->from.due_us};

    for (uint32_t i = tr_side_lower(v, &key); i < v->count; i++) {
        const struct tr_far_entry *known;
        struct tr_far_entry entry;
        struct tr_side_row row;
        uint64_t id;

        if (tr_side_get(v, i, &row) != TARRY_OK || row.job.topic != r->topic ||
            row.job.dead_seq != 0 || row.job.due_us >= r->limit_us) {
            return true;
        }
        known = tr_far_find(&e->state.jobs.far, row.job.rid);
        if (!tr_engine_only_in_run(e, row.job.rid, r->topic) ||
            (known != NULL && (known->bad || known->loading))) {
            continue;
        }
        entry = tr_fetch_entry(g, &row.job);
        id = tr_far_moved_id(&e->state.jobs.far, row.job.rid);
        if (!offer(e, &(struct tr_refill_item){.at = {row.job.due_us, id != 0 ? id : row.job.rid},
                                               .rid = row.job.rid,
                                               .off = entry.off,
                                               .len = entry.len,
                                               .head = entry.head,
                                               .group = (uint32_t)g->is.no,
                                               .number = entry.slot,
                                               .cell = entry.cell}) &&
            row.job.due_us > ((struct tr_refill_item *)tr_heap_top(&r->heap)->what)->at.due_us) {
            tr_refill_note(e, (struct tr_edge){.due_us = row.job.due_us}); /* ids are in no order */
            return true;
        }
    }
    return r->page.page + 1 >= g->side.sections[TR_SIDE_T].pages;
}

static void page_done(struct tr_engine *e)
{
    struct tr_refill *r = &e->refill;
    struct tr_side_view v;
    int err = tr_fetch_view(e, &r->page, &v);

    if (err == TARRY_EFULL) {
        return;
    }
    (void)tr_engine_charge(e, PAGE_UNITS);
    if (err != TARRY_OK) {
        e->fetch.skipped = true; /* the sweep looks again in a minute, block by block */
    }
    if (err == TARRY_OK ? runs_page(e, &v)
                        : r->page.page + 1 >= r->page.group->side.sections[TR_SIDE_T].pages) {
        r->group_rid = r->page.group->is.rid_last;
    } else {
        r->page.page++;
        tr_fetch_read_page(e, &r->page);
    }
}

static bool search_runs(struct tr_engine *e)
{
    struct tr_refill *r = &e->refill;
    struct tr_group *g;

    if (r->page.busy) {
        return false;
    }
    while ((g = tr_fetch_group_after(e, r->group_rid)) != NULL) {
        struct tr_side_job key = {.topic = r->topic, .due_us = r->from.due_us};

        if (g->leaving || g->runs[TR_GROUP_LIVE].file < 0 ||
            tr_run_footer_topic(&g->footers[TR_GROUP_LIVE], r->topic) == 0) {
            r->group_rid = g->is.rid_last;
            continue;
        }
        r->page.group = g;
        r->page.direct = false;
        r->page.section = TR_SIDE_T;
        r->page.page = tr_sidecar_find(&g->side, TR_SIDE_T, &key);
        tr_fetch_read_page(e, &r->page);
        return false;
    }
    return true;
}

/* The search is over: from now on those behind the edge are sent away. */
static void set_edge(struct tr_engine *e)
{
    struct tr_refill *r = &e->refill;
    struct tr_topic *t = topic_of(e);

    tr_heap_fini(&r->heap);
    tr_heap_init(&r->heap, e->mem, offsetof(struct tr_refill_item, place));
    if (t == NULL) {
        r->count = 0;
    } else if (r->first.due_us != TR_NEVER) {
        tr_park_set_edge(e, t, r->first);
    } else {
        tr_park_end(e, t);
    }
}

/* ---- loading ---- */

static bool sort(struct tr_engine *e)
{
    struct tr_refill *r = &e->refill;

    while (r->sorted < r->count) {
        struct tr_refill_item *item = &r->items[r->sorted];

        if (!tr_engine_spend(e)) {
            return false;
        }
        item->place = 0;
        if (tr_heap_push(&r->heap, (struct tr_heap_item){.first = item->number,
                                                         .second = item->off,
                                                         .third = item->rid,
                                                         .what = item}) != TARRY_OK) {
            r->cut = true;
            return true;
        }
        r->sorted++;
    }
    return true;
}

/* Is the job still far, and where it was found? If it is far elsewhere, it is for the next one. */
static bool still_there(struct tr_engine *e, const struct tr_refill_item *item)
{
    const struct tr_far_entry *known = tr_far_find(&e->state.jobs.far, item->rid);
    const struct tr_group *g;
    struct tr_topic *t = topic_of(e);
    bool there;

    if (t == NULL || !tr_bitmap_test(&e->state.jobs.alive, item->rid) ||
        tr_jobs_by_rid(&e->state.jobs, item->rid) != NULL ||
        (known != NULL && (known->loading || known->bad))) {
        return false;
    }
    if (item->number < TR_MANIFEST_SLOTS_MAX) {
        there = known != NULL && known->slot == item->number && known->off == item->off;
    } else {
        g = tr_groups_find(&e->groups, item->rid);
        there = (known == NULL || known->located) && g != NULL && !g->leaving &&
                (uint32_t)g->is.no == item->group;
    }
    if (!there) {
        e->refill.stale = true;
        tr_park_note(e, t, item->at);
    }
    return there;
}

/* The next one by place, if it can be in a span that begins at `off` and ends at `end`. */
static struct tr_refill_item *neighbour(struct tr_engine *e, const struct tr_refill_item *first,
                                        uint64_t end)
{
    const struct tr_heap_item *top = tr_heap_top(&e->refill.heap);
    struct tr_refill_item *item = top != NULL ? top->what : NULL;

    if (item == NULL) {
        return NULL;
    }
    if (first != NULL && (item->number != first->number || item->off > end + GAP_MAX ||
                          (uint64_t)item->off + item->len - first->off > SPAN_MAX)) {
        return NULL;
    }
    tr_heap_remove(&e->refill.heap, item);
    return item;
}

static void send_span(struct tr_engine *e, struct tr_refill_span *s)
{
    s->io = (struct tr_io){.op = s->direct ? TR_IO_READ_DIRECT : TR_IO_READ,
                           .lane = TR_LANE_READ,
                           .file = s->slot->file,
                           .off = s->off,
                           .len = s->len,
                           .buf = s->buf,
                           .owner = s};
    s->busy = true;
    s->slot->readers++;
    e->fetch.reads++;
    e->disk.ops->submit(e->disk.ctx, &s->io);
}

/* Makes a span of the next ones. False: there are none. */
static bool begin_span(struct tr_engine *e, struct tr_refill_span *s)
{
    struct tr_refill *r = &e->refill;
    const struct tr_refill_item *first = NULL;
    struct tr_refill_item *item;
    uint64_t end = 0;

    *s = (struct tr_refill_span){.from = r->ordered};
    while (e->work > 0 && (item = neighbour(e, first, end)) != NULL) {
        (void)tr_engine_spend(e);
        if (!still_there(e, item)) {
            continue;
        }
        first = first != NULL ? first : item;
        end = (uint64_t)item->off + item->len;
        r->order[r->ordered++] = (uint32_t)(item - r->items);
    }
    s->next = s->from;
    s->to = r->ordered;
    if (first == NULL) {
        return tr_heap_top(&r->heap) != NULL;
    }
    s->off = first->off;
    s->len = (uint32_t)(end - first->off);
    s->slot = tr_state_slot(&e->state, first->number);
    s->buf = tr_mem_stretch(e->mem, NULL, 0, s->len);
    if (s->buf == NULL) {
        *s = (struct tr_refill_span){0};
        r->cut = true;
        return false;
    }
    send_span(e, s);
    return true;
}

/* Cannot be read: it is left alone for a minute. */
static void set_bad(struct tr_engine *e, const struct tr_refill_item *item)
{
    struct tr_far_entry *entry = tr_far_find(&e->state.jobs.far, item->rid);
    struct tr_read read = {.slot = tr_state_slot(&e->state, item->number),
                           .rid = item->rid,
                           .off = item->off,
                           .len = item->len};

    tr_read_report(e, item->at.id, entry->topic, item->at.due_us, &read);
    entry->bad = true;
    tr_load_bad(e);
}

/* A run's job gets the entry without which none comes in. */
static int locate(struct tr_engine *e, const struct tr_refill_item *item)
{
    struct tr_far_entry entry = {.due_us = item->at.due_us,
                                 .topic = e->refill.topic,
                                 .off = item->off,
                                 .len = item->len,
                                 .slot = item->number,
                                 .cell = item->cell & 3u,
                                 .head = (unsigned)item->head & TR_FAR_HEAD,
                                 .located = true};

    return tr_far_find(&e->state.jobs.far, item->rid) == NULL
               ? tr_state_locate(&e->state, item->rid, &entry)
               : TARRY_OK;
}

/* TARRY_EDAMAGED: its bytes are no good. TARRY_ENOMEM: it cannot come in now. */
static int take(struct tr_engine *e, const struct tr_refill_span *s,
                const struct tr_refill_item *item)
{
    struct tr_record rec;
    int err;

    if (!tr_mem_room(e->mem, item->len + sizeof(struct tr_job)) ||
        !tr_meta_room(e, e->load.reads + 1)) {
        return TARRY_ENOMEM;
    }
    err = locate(e, item);
    if (err != TARRY_OK) {
        return err;
    }
    err = s->io.status == TARRY_OK && s->io.got == s->len
              ? tr_fetch_decode(e, item->rid, s->buf + (item->off - s->off), &rec)
              : TARRY_EDAMAGED;
    if (err == TARRY_OK) {
        err = tr_load_take(e, item->rid, &rec);
    }
    if (err != TARRY_OK && err != TARRY_ENOMEM) {
        if (s->direct) {
            set_bad(e, item);
        } else {
            tr_fetch_unlocate(e, item->rid);
        }
        return TARRY_EDAMAGED;
    }
    if (err != TARRY_OK) {
        tr_fetch_unlocate(e, item->rid);
    }
    return err;
}

/* Brings in what the span has. False: the slice is over, or it is read once more. */
static bool take_span(struct tr_engine *e, struct tr_refill_span *s)
{
    struct tr_refill *r = &e->refill;

    while (s->next < s->to && !r->cut) {
        const struct tr_refill_item *item = &r->items[r->order[s->next]];
        int err = TARRY_OK;

        if (!tr_engine_charge(e, TAKE_UNITS)) {
            return false;
        }
        if (still_there(e, item) && !(TR_MUTANT(REFILL_SKIPS) && s->next % 8 == 7)) {
            err = take(e, s, item);
            r->loaded += err == TARRY_OK;
        }
        if (err == TARRY_EDAMAGED && !s->direct) {
            s->direct = true;
            s->taking = false;
            send_span(e, s);
            return false;
        }
        if (err != TARRY_OK && err != TARRY_EDAMAGED) {
            r->cut = true;
            return true;
        }
        s->next++;
    }
    return true;
}

/* A slice. True: all is done. */
static bool load(struct tr_engine *e)
{
    struct tr_refill *r = &e->refill;
    bool busy = false;

    for (unsigned i = 0; i < TR_REFILL_SPANS; i++) {
        struct tr_refill_span *s = &r->spans[i];

        if (s->taking && take_span(e, s)) {
            tr_mem_free(e->mem, s->buf, s->len);
            *s = (struct tr_refill_span){0};
        }
        if (!s->busy && !s->taking && !r->cut && e->work > 0) {
            busy = begin_span(e, s) || busy;
        }
        busy = busy || s->busy || s->taking;
    }
    return !busy && (r->cut || tr_heap_top(&r->heap) == NULL);
}

static void span_done(struct tr_refill_span *s)
{
    s->slot->readers--;
    s->taking = true;
}

/* ---- turns ---- */

int tr_refill_init(struct tr_engine *e)
{
    e->refill.page.buf = tr_mem_stretch(e->mem, NULL, 0, TR_SIDE_PAGE);
    e->refill.page.room = e->refill.page.buf != NULL ? TR_SIDE_PAGE : 0;
    return e->refill.page.buf != NULL ? TARRY_OK : TARRY_ENOMEM;
}

void tr_refill_fini(struct tr_engine *e)
{
    drop_spans(e);
    drop_items(e);
    tr_mem_free(e->mem, e->refill.page.buf, e->refill.page.room);
    e->refill.page.buf = NULL;
}

bool tr_refill_owns(const struct tr_engine *e, const struct tr_io *io)
{
    const char *at = (const char *)io;
    const char *from = (const char *)&e->refill;

    return at >= from && at < from + sizeof e->refill;
}

void tr_refill_io_done(struct tr_engine *e, struct tr_io *io)
{
    struct tr_refill *r = &e->refill;

    e->fetch.reads--;
    if (io == &r->page.io) {
        r->page.busy = false;
        r->page.group->readers--;
        if (!e->failed && !r->page.group->leaving) { /* else another has what it had */
            page_done(e);
        }
    } else {
        struct tr_refill_span *s = io->owner;

        s->busy = false;
        span_done(s);
    }
}

void tr_refill_step(struct tr_engine *e)
{
    struct tr_refill *r = &e->refill;
    struct tr_list *hungry = &e->state.topics.hungry;

    if (r->topic == 0 && !tr_list_empty(hungry) && tr_refill_may_begin(e) &&
        !TR_MUTANT(NO_REFILL)) {
        begin(e, TR_CONTAINER_OF(hungry->next, struct tr_topic, in_need));
    }
    if (r->topic == 0) {
        return;
    }
    if (r->step == TR_REFILL_TABLE && search_table(e)) {
        r->step = TR_REFILL_RUNS;
    }
    if (r->step == TR_REFILL_RUNS && search_runs(e)) {
        set_edge(e);
        r->step = TR_REFILL_SORT;
    }
    if (r->step == TR_REFILL_SORT && sort(e)) {
        r->step = TR_REFILL_LOAD;
    }
    if (r->step == TR_REFILL_LOAD && load(e)) {
        end(e);
    }
}

uint64_t tr_refill_next(const struct tr_engine *e)
{
    const struct tr_refill *r = &e->refill;
    bool waits = r->page.busy;

    if (r->topic == 0) {
        bool hungry = !tr_list_empty(&e->state.topics.hungry);

        return !hungry ? TR_NEVER : tr_refill_may_begin(e) ? e->now.boot_us : r->retry_at;
    }
    for (unsigned i = 0; i < TR_REFILL_SPANS; i++) {
        if (r->spans[i].taking) {
            return e->now.boot_us;
        }
        waits = waits || r->spans[i].busy;
    }
    return waits ? TR_NEVER : e->now.boot_us;
}
