/*
 * A RESERVE, from its beginning to the job or the end of its patience.
 *
 *     settings of all topics ──► several slots? ──► counts of them: the best head is asked first
 *                                     │ one              │ none has anything
 *                                     ▼                  ▼
 *                                   in the lines of its topics: asked as take.c says
 *
 * It is part of one question at a time, so at most one job comes for it. One that is not to wait
 * ends when all that may have something were asked.
 */

#include "base/err.h"
#include "cluster/desk.h"

#include <stddef.h>

static struct tr_heap_item timer_of(struct tr_wait *w)
{
    return (struct tr_heap_item){.second = w->at_us, .what = w};
}

static size_t size_of(unsigned count)
{
    return sizeof(struct tr_wait) + count * sizeof(struct tr_waiter);
}

void tr_waits_init(struct tr_cluster *c)
{
    tr_list_init(&c->waiting);
    tr_heap_init(&c->waits, c->mem, offsetof(struct tr_wait, place));
}

/* ---- lines ---- */

static void leave_lines(struct tr_cluster *c, struct tr_wait *w)
{
    if (!w->in_line) {
        return;
    }
    w->in_line = false;
    for (unsigned i = 0; i < w->count; i++) {
        struct tr_ctopic *t = w->waiters[i].topic;

        if (t != NULL) {
            tr_list_remove(&w->waiters[i].link);
            t->waiting_count--;
            if (t->waiting_count == 0) {
                tr_take_unwatch(c, t);
            }
        }
    }
}

static void drop_seen(struct tr_cluster *c, struct tr_wait *w)
{
    tr_mem_free(c->mem, w->seen, w->seen_count * sizeof *w->seen);
    w->seen = NULL;
    w->seen_count = 0;
}

static void wait_free(struct tr_cluster *c, struct tr_wait *w)
{
    leave_lines(c, w);
    drop_seen(c, w);
    tr_list_remove(&w->in_group);
    tr_list_remove(&w->all);
    tr_list_remove(&w->item.link);
    if (w->place != 0) {
        tr_heap_remove(&c->waits, w);
    }
    if (w->holder != NULL) {
        tr_list_remove(&w->of_holder);
        tr_hold_put(c, w->holder);
    }
    for (unsigned i = 0; i < w->count; i++) {
        if (w->waiters[i].topic != NULL) {
            tr_ctopic_unpin(c, w->waiters[i].topic);
        }
    }
    c->wait_count--;
    tr_mem_free(c->mem, w, size_of(w->count));
}

void tr_waits_free(struct tr_cluster *c)
{
    while (!tr_list_empty(&c->waiting)) {
        wait_free(c, TR_CONTAINER_OF(c->waiting.next, struct tr_wait, all));
    }
    tr_heap_fini(&c->waits);
}

void tr_wait_abandon(struct tr_cluster *c, struct tr_wait *w)
{
    wait_free(c, w); /* a job that comes for it goes to another one, or back */
}

void tr_wait_finish(struct tr_cluster *c, struct tr_wait *w, int status)
{
    struct tr_req *r = w->item.req;

    if (tr_desk_words(c, status) != NULL) {
        r->out.why = tr_desk_words(c, status);
    }
    tr_list_remove(&w->all); /* what `done` does may be the end of all others */
    leave_lines(c, w);
    tr_req_finish(r, status);
    wait_free(c, w);
}

void tr_waits_end(struct tr_cluster *c, int status)
{
    while (!tr_list_empty(&c->waiting)) { /* who asks again is refused at once */
        tr_wait_finish(c, TR_CONTAINER_OF(c->waiting.next, struct tr_wait, all), status);
    }
}

static int make_seen(struct tr_cluster *c, struct tr_wait *w)
{
    unsigned spots = 0;

    for (unsigned i = 0; i < w->count; i++) {
        spots += w->waiters[i].topic != NULL ? w->waiters[i].topic->spread : 0;
    }
    w->seen = tr_mem_alloc(c->mem, spots * sizeof *w->seen);
    if (w->seen == NULL) {
        return TARRY_ENOMEM;
    }
    w->seen_count = spots;
    spots = 0;
    for (unsigned i = 0; i < w->count; i++) {
        if (w->waiters[i].topic != NULL) {
            w->waiters[i].seen = w->seen + spots;
            spots += w->waiters[i].topic->spread;
        }
    }
    return TARRY_OK;
}

/* Lanes for each slot, so that nothing can fail later. */
static int make_lanes(struct tr_cluster *c, const struct tr_wait *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        const struct tr_ctopic *t = w->waiters[i].topic;

        for (unsigned k = 0; t != NULL && k < t->spread; k++) {
            if (tr_take_lane(c, t->spots[k].slot) != TARRY_OK) {
                return TARRY_ENOMEM;
            }
        }
    }
    return TARRY_OK;
}

static int join_lines(struct tr_cluster *c, struct tr_wait *w)
{
    int err = make_seen(c, w);

    if (err == TARRY_OK) {
        err = make_lanes(c, w);
    }
    for (unsigned i = 0; err == TARRY_OK && i < w->count; i++) {
        struct tr_ctopic *t = w->waiters[i].topic;

        err = t != NULL && t->waiting_count == 0 ? tr_take_watch(c, t) : TARRY_OK;
    }
    for (unsigned i = 0; err != TARRY_OK && i < w->count; i++) {
        if (w->waiters[i].topic != NULL && w->waiters[i].topic->waiting_count == 0) {
            tr_take_unwatch(c, w->waiters[i].topic);
        }
    }
    for (unsigned i = 0; err == TARRY_OK && i < w->count; i++) {
        if (w->waiters[i].topic != NULL) {
            tr_list_append(&w->waiters[i].topic->line, &w->waiters[i].link);
            w->waiters[i].topic->waiting_count++;
        }
    }
    w->in_line = err == TARRY_OK;
    return err;
}

bool tr_wait_line_still(const struct tr_ctopic *t)
{
    for (const struct tr_list *n = t->line.next; n != &t->line; n = n->next) {
        if (TR_CONTAINER_OF(n, struct tr_waiter, link)->wait->asked != NULL) {
            return false;
        }
    }
    return true;
}

void tr_wait_unline(struct tr_cluster *c, struct tr_ctopic *t, struct tr_list *waits)
{
    tr_list_init(waits);
    while (!tr_list_empty(&t->line)) {
        struct tr_wait *w = TR_CONTAINER_OF(t->line.next, struct tr_waiter, link)->wait;

        leave_lines(c, w);
        drop_seen(c, w);
        w->first = NULL;
        tr_list_append(waits, &w->in_group);
    }
}

static void ask_all(struct tr_cluster *c, struct tr_wait *w);

void tr_wait_reline(struct tr_cluster *c, struct tr_list *waits)
{
    while (!tr_list_empty(waits)) {
        struct tr_wait *w = TR_CONTAINER_OF(waits->next, struct tr_wait, in_group);

        tr_list_remove(&w->in_group);
        if (join_lines(c, w) == TARRY_OK) {
            w->lined = true;
            ask_all(c, w);
        } else {
            tr_wait_finish(c, w, TARRY_ENOMEM);
        }
    }
}

/* ---- its time ---- */

/* When a lease of its holder is so near to its end that it is to be warned. */
static uint64_t warn_at(const struct tr_cluster *c, const struct tr_wait *w)
{
    uint64_t warn_us = w->item.req->warn_us;
    uint64_t end_us =
        w->holder != NULL && warn_us != 0 ? tr_hold_first_end(c, w->holder) : TR_CL_NEVER;

    if (end_us == TR_CL_NEVER) {
        return TR_CL_NEVER;
    }
    return end_us > warn_us ? end_us - warn_us : 0;
}

static void set_timer(struct tr_cluster *c, struct tr_wait *w)
{
    uint64_t warn_us = w->tried ? warn_at(c, w) : TR_CL_NEVER;

    w->at_us = w->until_us < warn_us ? w->until_us : warn_us;
    tr_heap_update(&c->waits, timer_of(w));
}

/* A timer that is too early does no harm: then it is set anew. */
void tr_wait_retime(struct tr_cluster *c, struct tr_holder *h, uint64_t end_us)
{
    for (const struct tr_list *n = h->waits.next; n != &h->waits; n = n->next) {
        struct tr_wait *w = TR_CONTAINER_OF(n, struct tr_wait, of_holder);
        uint64_t warn_us = w->item.req->warn_us;
        uint64_t at_us = end_us > warn_us ? end_us - warn_us : 0;

        if (w->place != 0 && w->tried && warn_us != 0 && at_us < w->at_us) {
            w->at_us = at_us;
            tr_heap_update(&c->waits, timer_of(w));
        }
    }
}

/* Nothing came of the last question; is it to end? */
static bool is_over(struct tr_cluster *c, struct tr_wait *w)
{
    if (w->tried && warn_at(c, w) <= c->now.boot_us) { /* else there may be a job */
        tr_wait_finish(c, w, TARRY_ESOON);
        return true;
    }
    if (w->until_us <= c->now.boot_us && !w->idle) {
        /* That there is none is not known if nobody could be asked. */
        tr_wait_finish(c, w, tr_cluster_is_away(c, TR_OP_RESERVE) ? TARRY_EAWAY : TARRY_ETIMEOUT);
        return true;
    }
    return false;
}

void tr_wait_timers(struct tr_cluster *c)
{
    const struct tr_heap_item *top;

    while ((top = tr_heap_top(&c->waits)) != NULL && top->second <= c->now.boot_us) {
        struct tr_wait *w = top->what;

        if (w->asked != NULL || (w->idle && w->until_us <= c->now.boot_us)) {
            w->at_us = TR_CL_NEVER; /* the answer decides */
            tr_heap_update(&c->waits, timer_of(w));
        } else if (!is_over(c, w)) {
            set_timer(c, w);
        }
    }
}

uint64_t tr_wait_next(const struct tr_cluster *c)
{
    const struct tr_heap_item *top = tr_heap_top(&c->waits);

    return top != NULL ? top->second : TR_CL_NEVER;
}

/* ---- its way ---- */

static void ask_all(struct tr_cluster *c, struct tr_wait *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        struct tr_ctopic *t = w->waiters[i].topic;

        for (unsigned k = 0; t != NULL && k < t->spread; k++) {
            tr_take_spot(c, &t->spots[k]);
        }
    }
}

/* Of several slots the one with the best head; NULL: none has anything. */
static struct tr_spot *best_spot(const struct tr_wait *w)
{
    enum tr_order order = w->item.req->order;
    struct tr_spot *best = NULL;

    for (unsigned i = 0; i < w->count; i++) {
        const struct tr_ctopic *t = w->waiters[i].topic;

        for (unsigned k = 0; t != NULL && k < t->spread; k++) {
            struct tr_spot *spot = &t->spots[k];

            if (w->waiters[i].seen[k] != TR_CL_NEVER && spot->count.best_id != 0 &&
                (best == NULL || tr_count_better(&spot->count, &best->count, order))) {
                best = spot;
            }
        }
    }
    return best;
}

static uint64_t *seen_of(struct tr_wait *w, const struct tr_spot *spot)
{
    for (unsigned i = 0; i < w->count; i++) {
        if (w->waiters[i].topic == spot->topic) {
            return &w->waiters[i].seen[spot->index];
        }
    }
    return NULL;
}

/* By the heads that are known: the next question. */
static void choose(struct tr_cluster *c, struct tr_wait *w)
{
    w->first = best_spot(w);
    w->tried |= w->first == NULL;
    if (w->first != NULL) {
        tr_take_spot(c, w->first);
    } else if (is_over(c, w)) {
        return;
    } else if (w->idle) {
        tr_wait_finish(c, w, TARRY_ETIMEOUT);
    } else {
        for (unsigned i = 0; i < w->seen_count; i++) {
            w->seen[i] = 0;
        }
        w->lined = true;
        ask_all(c, w);
    }
}

void tr_wait_on(struct tr_cluster *c, struct tr_wait *w)
{
    w->tried |= w->first == NULL;
    if (w->first != NULL) {
        *seen_of(w, w->first) = TR_CL_NEVER; /* not again, as long as it chooses */
        choose(c, w);
    } else if (!is_over(c, w)) {
        if (w->idle) {
            tr_wait_finish(c, w, TARRY_ETIMEOUT);
            return;
        }
        set_timer(c, w);
        tr_take_missed(c, w); /* meanwhile others were asked without it */
    }
}

void tr_wait_unsee(struct tr_cluster *c, struct tr_wait *w, const struct tr_spot *spot)
{
    *seen_of(w, spot) = 0;
    if (w->first == NULL && !w->idle && !is_over(c, w)) {
        set_timer(c, w);
        tr_take_missed(c, w);
    }
}

static void counted(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_wait *w = (struct tr_wait *)item;

    item->topic = NULL;
    while (w->step < w->count) {
        struct tr_ctopic *t = w->waiters[w->step++].topic;

        if (t != NULL) {
            item->topic = t; /* which stays: it waits for it */
            tr_count_heads(c, item, item->since_us, counted);
            return;
        }
    }
    choose(c, w);
}

/* All that is to be known of its topics is. */
static void begin(struct tr_cluster *c, struct tr_wait *w)
{
    int err = join_lines(c, w);

    if (err != TARRY_OK) {
        tr_wait_finish(c, w, err);
        return;
    }
    set_timer(c, w);
    if (w->seen_count == 1) {
        w->lined = true;
        ask_all(c, w);
        return;
    }
    for (unsigned i = 0; i < w->count; i++) {
        if (w->waiters[i].topic != NULL) {
            tr_count_heads_start(c, w->waiters[i].topic, w->item.since_us);
        }
    }
    w->step = 0;
    counted(c, &w->item);
}

static void loaded(struct tr_cluster *c, struct tr_item *item)
{
    struct tr_wait *w = (struct tr_wait *)item;

    item->topic = NULL;
    while (w->step < w->count) {
        struct tr_ctopic *t = w->waiters[w->step++].topic;

        if (t != NULL && tr_ctopic_is_news(c, t)) {
            item->topic = t;
            tr_ctopic_load(c, item, loaded);
            return;
        }
    }
    begin(c, w);
}

static bool is_sane(const struct tr_req *r)
{
    return r->order < TR_ORDER_COUNT && r->ttr_us <= TR_DELAY_MAX_US &&
           r->lease_us <= TR_DELAY_MAX_US && r->tag_len <= 64;
}

static struct tr_wait *wait_new(struct tr_cluster *c, struct tr_req *r)
{
    struct tr_wait *w = tr_mem_alloc(c->mem, size_of(r->topic_count));

    if (w == NULL) {
        return NULL;
    }
    w->at_us = TR_CL_NEVER;
    if (tr_heap_push(&c->waits, timer_of(w)) != TARRY_OK) {
        tr_mem_free(c->mem, w, size_of(r->topic_count));
        return NULL;
    }
    w->count = r->topic_count;
    w->item.req = r;
    w->item.op = r->op;
    w->item.waits = true;
    w->item.since_us = c->now.boot_us;
    w->idle = r->wait_us == 0;
    w->until_us =
        r->wait_us < TR_CL_NEVER - c->now.boot_us ? c->now.boot_us + r->wait_us : TR_CL_NEVER;
    tr_list_init(&w->item.link);
    tr_list_init(&w->in_group);
    tr_list_init(&w->all);
    tr_list_append(&c->waiting, &w->all);
    c->wait_count++;
    for (unsigned i = 0; i < w->count; i++) {
        tr_list_init(&w->waiters[i].link);
        w->waiters[i].wait = w;
    }
    return w;
}

void tr_wait_ask(struct tr_cluster *c, struct tr_req *r)
{
    struct tr_wait *w = is_sane(r) ? wait_new(c, r) : NULL;
    bool any = false;

    if (w == NULL) {
        tr_req_finish(r, is_sane(r) ? TARRY_ENOMEM : TARRY_EINVAL);
        return;
    }
    r->own = &w->item;
    for (unsigned i = 0; i < w->count; i++) {
        struct tr_ctopic *t = tr_ctopic_by_number(c, r->topics[i]);

        for (unsigned k = 0; t != NULL && k < i; k++) {
            t = w->waiters[k].topic == t ? NULL : t; /* once is enough */
        }
        if (t != NULL) {
            tr_ctopic_pin(t);
            w->waiters[i].topic = t;
            any = true;
        }
    }
    if (!any) {
        tr_wait_finish(c, w, TARRY_EINVAL);
        return;
    }
    if (r->holder != 0) {
        w->holder = tr_hold_get(c, r->holder);
        if (w->holder == NULL) {
            tr_wait_finish(c, w, TARRY_ENOMEM);
            return;
        }
        tr_list_append(&w->holder->waits, &w->of_holder);
    }
    loaded(c, &w->item);
}
