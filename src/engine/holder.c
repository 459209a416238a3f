/*
 * Who holds reserved jobs, and when he is to be warned.
 *
 * Warnings (R31): a reserve may ask to end with TARRY_ESOON when nothing can be handed out and a
 * lease of its own holder is about to end. Each holder has a heap of its leases by their end; it is
 * filled only when such a reserve finds nothing, from the list of the holder's jobs:
 *
 *     holder->jobs:  looked at: o-o-o | o-o : given since       in the heap unless it was returned
 *                                     ^ rest
 *
 * So a worker that takes one job at a time never has a heap. If there is no memory for it, the
 * leases behind `rest` give no warning until there is.
 */

#include "base/err.h"
#include "engine/inner.h"

#include <stddef.h>

struct tr_holder *tr_holder_get(struct tr_engine *e, uint64_t number)
{
    struct tr_holder *h = tr_map_find(&e->holders, number);

    if (h != NULL) {
        return h;
    }
    h = tr_mem_alloc(e->mem, sizeof *h);
    if (h == NULL) {
        return NULL;
    }
    h->number = number;
    tr_list_init(&h->jobs);
    tr_list_init(&h->warned);
    h->rest = &h->jobs;
    tr_heap_init(&h->ends, e->mem, offsetof(struct tr_job, places[0]));
    if (tr_map_put(&e->holders, number, h) != TARRY_OK) {
        tr_mem_free(e->mem, h, sizeof *h);
        return NULL;
    }
    return h;
}

void tr_holder_drop_empty(struct tr_engine *e, uint64_t number)
{
    struct tr_holder *h = tr_map_find(&e->holders, number);

    if (h != NULL && h->count == 0 && tr_list_empty(&h->warned)) {
        TR_CHECK(tr_map_take(&e->holders, number) == h);
        tr_heap_fini(&h->ends);
        tr_mem_free(e->mem, h, sizeof *h);
    }
}

void tr_handout_unhold(struct tr_engine *e, struct tr_job *job)
{
    struct tr_holder *h = tr_map_find(&e->holders, job->holder);

    TR_CHECK(h != NULL);
    if (job->places[0] != 0) {
        tr_heap_remove(&h->ends, job);
    }
    if (h->rest == &job->link) {
        h->rest = job->link.next;
    }
    tr_list_remove(&job->link);
    h->count--;
    tr_holder_drop_empty(e, job->holder);
    job->holder = 0;
}

void tr_holder_add(struct tr_holder *h, struct tr_job *job)
{
    job->holder = h->number;
    h->count++;
    tr_list_append(&h->jobs, &job->link);
    if (h->rest == &h->jobs) {
        h->rest = &job->link;
    }
}

static uint64_t warning_of(uint64_t end_us, const struct tr_req *r)
{
    return end_us > r->warn_us ? end_us - r->warn_us : 0;
}

void tr_holder_lease_begins(struct tr_engine *e, struct tr_job *job)
{
    struct tr_holder *h = tr_map_find(&e->holders, job->holder);

    TR_CHECK(h != NULL);
    if (h->number == 0) {
        return; /* nobody is warned of these */
    }
    if (job->places[0] != 0) {
        tr_heap_update(&h->ends, (struct tr_heap_item){.second = job->timer.at_us, .what = job});
    } else if (h->rest != &job->link) { /* it was looked at while its body was read, perhaps */
        tr_list_remove(&job->link);
        tr_list_append(&h->jobs, &job->link);
        h->rest = h->rest == &h->jobs ? &job->link : h->rest;
    }
    /* A connection waits once at a time, so this is one step at most. */
    for (struct tr_list *n = h->warned.next; n != &h->warned; n = n->next) {
        struct tr_wait *w = TR_CONTAINER_OF(n, struct tr_wait, of_holder);
        uint64_t at_us = warning_of(job->timer.at_us, w->req);

        if (!w->warn.armed || w->warn.at_us > at_us) {
            tr_wheel_disarm(&e->warns, &w->warn);
            tr_wheel_arm(&e->warns, &w->warn, at_us);
        }
    }
}

int tr_holder_next_warning(struct tr_engine *e, const struct tr_req *r, uint64_t *at_us)
{
    struct tr_holder *h =
        r->warn_us != 0 && r->holder != 0 ? tr_map_find(&e->holders, r->holder) : NULL;
    const struct tr_heap_item *top;

    *at_us = TR_NEVER;
    if (h == NULL) {
        return TARRY_OK;
    }
    while (h->rest != &h->jobs) {
        struct tr_job *job = TR_CONTAINER_OF(h->rest, struct tr_job, link);
        struct tr_heap_item item = {.second = job->timer.at_us, .what = job};

        if (!tr_engine_spend(e)) {
            return TARRY_EFULL;
        }
        if (!job->handing && !job->undoing && !job->topic->purged &&
            tr_heap_push(&h->ends, item) != TARRY_OK) {
            break; /* without memory the others give no warning */
        }
        h->rest = h->rest->next;
    }
    while ((top = tr_heap_top(&h->ends)) != NULL &&
           ((const struct tr_job *)top->what)->topic->purged) {
        if (!tr_engine_spend(e)) {
            return TARRY_EFULL;
        }
        tr_heap_remove(&h->ends, top->what);
    }
    *at_us = top != NULL ? warning_of(top->second, r) : TR_NEVER;
    return TARRY_OK;
}
